//! The slow path of every operation: everything except a thread's own slot in the region it allocates from.
//!
//! That is: the first operation of a process or a thread, allocators other than the arenas, blocks of other regions,
//! direct blocks, threads without a slot of their own, a slot whose memory is exhausted, and all operations if they are
//! counted.

use crate::direct::{self, DirectBlock};
use crate::kinds::{self, Kind};
use crate::region_table::Region;
use crate::state::STATE;
use crate::worker::{self, Worker};
use crate::{misuse, pages, regions, setup};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::contract::{AllocError, SharedError};

/// Alignment of every block, that of `max_align_t`, in bytes.
pub const ALIGN_BYTES: usize = 16;

/// Larger alignments are served by direct blocks, unless the heap is fixed.
const MAX_ALIGN_BYTES: usize = 1 << 20;
/// If a request of at most this size is served by another region, the thread allocates from that region first.
const SMALL_BYTES: usize = 64 << 10;
/// Attempts of a request that is refused because of concurrent operations.
const ATTEMPTS: usize = 16;
/// Remote frees processed before a request is repeated that was refused while some were pending.
const RECLAIMED: usize = 64;
/// Regions that one request may add. One that was added for the request serves it.
const MAX_GROWN: usize = 2;

/// A block, and whether all its bytes are known to be zero.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The block.
    pub block: NonNull<u8>,
    /// Whether its memory is fresh from the system.
    pub is_zero: bool,
}

/// Allocates at least one byte.
#[cold]
#[inline(never)]
pub fn allocate(size: usize, align: usize) -> Option<Served> {
    if !setup::ready() {
        return None;
    }
    let served = worker::run(|worker| request(worker, size, align)).flatten();
    if served.is_none() {
        STATE.counters.refuse(size);
    }
    served
}

/// Frees a block.
///
/// # Safety
///
/// As C's `free`.
#[cold]
#[inline(never)]
pub unsafe fn deallocate(block: NonNull<u8>) {
    if !setup::ready() {
        return;
    }
    // SAFETY: the block is live, and its owner gives it up.
    if worker::run(|worker| unsafe { give_back(worker, block) }).is_none() {
        STATE.counters.lose();
    }
}

/// Resizes a block to at least one byte.
///
/// # Safety
///
/// As C's `realloc`.
#[cold]
#[inline(never)]
pub unsafe fn reallocate(block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
    if !setup::ready() {
        return None;
    }
    // SAFETY: the block is live, and its owner gives it up if the result is a block.
    let moved = worker::run(|worker| unsafe { resize(worker, block, size) }).flatten();
    if moved.is_none() {
        STATE.counters.refuse(size);
    }
    moved
}

/// Usable bytes of a block; 0 for an invalid pointer.
///
/// # Safety
///
/// The block is live.
#[cold]
#[inline(never)]
pub unsafe fn usable_size(block: NonNull<u8>) -> usize {
    // SAFETY: the block is live.
    worker::run(|worker| unsafe { size_of_block(worker, block) }).flatten().unwrap_or(0)
}

/// Processes at most `budget` remote frees of the caller's slot in every region; returns their number.
pub fn reclaim(budget: usize) -> usize {
    let reclaimed = worker::run(|worker| {
        // SAFETY: the slot is the worker's.
        STATE.regions.iter().map(|region| unsafe { (kinds::current().reclaim)(region.heap, worker.slot, budget) }).sum()
    });
    reclaimed.unwrap_or(0)
}

/// Whether the calling thread was interrupted inside an operation of a heap under the lock.
fn is_inside_locked_heap() -> bool {
    STATE.heap_lock.is_mine()
}

/// Whether a request for further bytes fails on purpose or exceeds the quota.
fn is_refused_on_request(more: usize) -> bool {
    let settings = STATE.settings();
    STATE.counters.is_to_fail(settings.failures) || STATE.counters.is_beyond_quota(settings.quota_bytes, more)
}

/// Allocates, unless the settings refuse the request.
fn request(worker: Worker, size: usize, align: usize) -> Option<Served> {
    if is_refused_on_request(size) { None } else { serve(worker, size, align) }
}

/// Allocates.
fn serve(worker: Worker, size: usize, align: usize) -> Option<Served> {
    if size > isize::MAX as usize || is_inside_locked_heap() {
        return None;
    }
    let kind = kinds::current();
    let settings = STATE.settings();
    if size >= direct::from_bytes() || (align > MAX_ALIGN_BYTES.min(kind.max_align_bytes) && !settings.fixed) {
        let direct = direct::allocate(size, align)?;
        if settings.is_counting() {
            STATE.counters.allocated(direct.usable_bytes());
        }
        return Some(Served { block: direct.pointer()?, is_zero: true });
    }
    let current = worker.state.map_or(&STATE.shared_slot_region, |state| &state.region);
    let mut grown = 0;
    // From the region that served last, so that the thread stays there.
    let ask_regions = |seen| {
        let first = usize::from(current.load(Relaxed));
        let others = (0..seen).filter(|&index| index != first);
        for region in core::iter::once(first).chain(others).filter_map(|index| STATE.regions.get(index)) {
            let Some(block) = ask(kind, region, worker.slot, size, align) else { continue };
            if region.index != first && size <= SMALL_BYTES {
                match worker.state {
                    // SAFETY: the state is this thread's, which is inside an operation and not on the fast path.
                    Some(state) => unsafe { regions::assign(state, worker.slot, region.index) },
                    None => current.store(region.index as u8, Relaxed),
                }
            }
            return Some(Served { block, is_zero: false });
        }
        None
    };
    loop {
        let seen = STATE.regions.count();
        let served = ask_regions(seen).or_else(|| {
            // What it needs may have been missing only because pages of it went back: again while none do.
            let may_miss = kind.has_slots && pages::may_go_back();
            if may_miss { STATE.pool_visits.with(|| ask_regions(seen)).flatten() } else { None }
        });
        if served.is_some() {
            return served;
        }
        if grown == MAX_GROWN || !regions::grow(seen, size, align) {
            break;
        }
        grown += 1;
    }
    if kind.has_slots { ask_other_slots(kind, worker, size, align) } else { None }
}

/// Asks slots that no thread uses at the moment: the shared one, and those without an owner.
#[cold]
fn ask_other_slots(kind: &Kind, worker: Worker, size: usize, align: usize) -> Option<Served> {
    let ask_regions = |slot| {
        let mut blocks = STATE.regions.iter().filter_map(|region| ask(kind, region, slot, size, align));
        blocks.next().map(|block| Served { block, is_zero: false })
    };
    let last = STATE.last_slot();
    if worker.slot != last
        && let Some(Some(served)) = STATE.threads.shared_slot.with(|| ask_regions(last))
    {
        return Some(served);
    }
    let mut first = 0;
    while let Some(slot) = STATE.threads.take(first, last) {
        let served = ask_regions(slot);
        STATE.threads.give(slot);
        if served.is_some() {
            return served;
        }
        first = slot + 1;
    }
    None
}

/// Asks one slot of one region; repeats the request as long as that may help.
fn ask(kind: &Kind, region: Region, slot: usize, size: usize, align: usize) -> Option<NonNull<u8>> {
    let mut refusals = 0;
    loop {
        // SAFETY: the heap is the region's, and the calling thread has the slot.
        match unsafe { (kind.allocate)(region.heap, slot, size, align) } {
            Ok(block) => {
                if STATE.settings().is_counting() {
                    // SAFETY: the region's heap just allocated the block, and the calling thread has the slot.
                    let usable = unsafe { (kind.usable_size)(region.heap, slot, block) };
                    STATE.counters.allocated(usable);
                    STATE.counters.granted(region, size, usable, block.addr().get());
                }
                return Some(block);
            }
            // SAFETY: the heap is the region's, and the calling thread has the slot.
            Err(SharedError::Pending) if unsafe { (kind.reclaim)(region.heap, slot, RECLAIMED) } != 0 => {}
            Err(SharedError::Pending | SharedError::Contended) if refusals < ATTEMPTS => refusals += 1,
            Err(_) => return None,
        }
    }
}

/// Frees a block.
///
/// # Safety
///
/// As [`deallocate`].
unsafe fn give_back(worker: Worker, block: NonNull<u8>) {
    let address = block.addr().get();
    let is_counting = STATE.settings().is_counting();
    if let Some(direct) = DirectBlock::at(address) {
        if is_counting {
            STATE.counters.freed(direct.usable_bytes());
        }
        // SAFETY: the block is live, and its owner gives it up.
        return unsafe { direct.deallocate() };
    }
    let Some(region) = STATE.regions.containing(address) else {
        return misuse::invalid_pointer(address);
    };
    if is_inside_locked_heap() {
        return STATE.counters.lose();
    }
    let kind = kinds::current();
    // SAFETY: the block is of the region's heap and live; the slot is the worker's, and its state is its thread's,
    // which is inside an operation.
    unsafe {
        let bytes = (kind.usable_size)(region.heap, worker.slot, block);
        if is_counting {
            STATE.counters.freed(bytes);
        }
        (kind.deallocate)(region.heap, worker.slot, block);
        if let Some(state) = worker.state
            && state.fast_path().counts_freed(bytes)
        {
            pages::give_back(state);
        }
    }
}

/// As [`usable_size`]; `None` for an invalid pointer.
///
/// # Safety
///
/// The block is live.
unsafe fn size_of_block(worker: Worker, block: NonNull<u8>) -> Option<usize> {
    let address = block.addr().get();
    if let Some(direct) = DirectBlock::at(address) {
        return Some(direct.usable_bytes());
    }
    let region = STATE.regions.containing(address)?;
    if is_inside_locked_heap() {
        return None;
    }
    // SAFETY: the block is of the region's heap and live; the slot is the worker's.
    Some(unsafe { (kinds::current().usable_size)(region.heap, worker.slot, block) })
}

/// Resizes a block.
///
/// # Safety
///
/// As [`reallocate`].
unsafe fn resize(worker: Worker, block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
    let address = block.addr().get();
    if size > isize::MAX as usize || is_inside_locked_heap() {
        return None;
    }
    let kind = kinds::current();
    let is_counting = STATE.settings().is_counting();
    if is_counting {
        // SAFETY: the block is live.
        let more = size.saturating_sub(unsafe { size_of_block(worker, block) }.unwrap_or(size));
        if more != 0 && is_refused_on_request(more) {
            return None;
        }
    }
    let direct_bytes = direct::from_bytes();
    if let Some(direct) = DirectBlock::at(address) {
        // A block that shrinks below a quarter of the smallest direct block moves to a region.
        if size >= direct_bytes / 4 {
            // SAFETY: the block is live, and its owner gives it up if it is resized. If the system cannot resize it, it
            // is copied below.
            if let Some(resized) = unsafe { direct.reallocate(size) } {
                if is_counting {
                    STATE.counters.resized(direct.usable_bytes(), resized.usable_bytes());
                }
                return resized.pointer();
            }
        }
    } else if let Some(region) = STATE.regions.containing(address) {
        if size < direct_bytes {
            // SAFETY: the block is a live block of the region's heap, and the slot is the worker's.
            let before = if is_counting { unsafe { (kind.usable_size)(region.heap, worker.slot, block) } } else { 0 };
            // SAFETY: the block is a live block of the region's heap, and the slot is the worker's.
            match unsafe { (kind.reallocate)(region.heap, worker.slot, block, size, ALIGN_BYTES) } {
                Ok(moved) => {
                    if is_counting {
                        // SAFETY: `moved` is a live block of the region's heap, and the slot is the worker's.
                        let usable = unsafe { (kind.usable_size)(region.heap, worker.slot, moved) };
                        STATE.counters.resized(before, usable);
                        STATE.counters.granted(region, size, usable, moved.addr().get());
                    }
                    return Some(moved);
                }
                // The heap has reported it.
                Err(SharedError::Request(AllocError::Misused)) => return None,
                Err(_) => {}
            }
        }
    } else {
        misuse::invalid_pointer(address);
        return None;
    }
    // SAFETY: the block is live.
    let old_bytes = unsafe { size_of_block(worker, block) }?;
    let served = serve(worker, size, ALIGN_BYTES)?;
    // SAFETY: both blocks are live and disjoint, and neither is shorter than what is copied. The old block is not used
    // afterwards.
    unsafe {
        served.block.copy_from_nonoverlapping(block, old_bytes.min(size));
        give_back(worker, block);
    }
    Some(served.block)
}

//! The long way of every operation: everything but a thread's own arena in the region it allocates from.
//!
//! That is: the first operation of a process or a thread, allocators other than the arenas, blocks of other regions, direct blocks,
//! threads without a seat, a slot that has no memory left, and all operations where they are counted for the report.

use crate::kinds::Kind;
use crate::regions::{self, ALIGN_BYTES, Known, is_counting, kind};
use crate::seat::{self, Worker, work};
use crate::tally;
use crate::{direct, lock, misuse};
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::contract::{MisuseKind, SharedError};

/// Alignments beyond this are mapped directly, where that is done at all.
const MOST_ALIGN_BYTES: usize = 1 << 20;
/// Requests up to this size decide which region a thread allocates from.
const SMALL_BYTES: usize = 64 << 10;
/// Repetitions of a request that was refused because others were at work.
const REPETITIONS: usize = 16;
/// Blocks taken back between two repetitions of a request that was refused while some were left to be taken back.
const RECLAIMED: usize = 64;
/// Regions that one request may add: one that was made for it serves it.
const MOST_GROWN: usize = 2;

/// The region that the last slot allocates from.
static CROWD_REGION: AtomicU8 = AtomicU8::new(0);

/// A block, and whether it is known to hold zeros.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The block.
    pub block: NonNull<u8>,
    /// Whether nobody has had its memory before.
    pub is_zero: bool,
}

/// Allocates at least one byte.
#[cold]
#[inline(never)]
#[must_use]
pub fn allocate(size: usize, align: usize) -> Option<Served> {
    if !regions::ready() {
        return None;
    }
    let served = work(|worker| request(worker, size, align)).flatten();
    if served.is_none() {
        tally::refused(size);
    }
    served
}

/// Gives a block back.
///
/// # Safety
///
/// As C's `free`.
#[cold]
#[inline(never)]
pub unsafe fn deallocate(block: NonNull<u8>) {
    if !regions::ready() {
        return;
    }
    // SAFETY: the caller's promise.
    if work(|worker| unsafe { give_back(worker, block) }).is_none() {
        tally::lost();
    }
}

/// Changes the size of a block to at least one byte.
///
/// # Safety
///
/// As C's `realloc`.
#[cold]
#[inline(never)]
#[must_use]
pub unsafe fn reallocate(block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
    if !regions::ready() {
        return None;
    }
    // SAFETY: the caller's promise.
    let moved = work(|worker| unsafe { resize(worker, block, size) }).flatten();
    if moved.is_none() {
        tally::refused(size);
    }
    moved
}

/// Bytes that may be used of a block; 0 if it is none.
///
/// # Safety
///
/// The block is live.
#[cold]
#[inline(never)]
#[must_use]
pub unsafe fn usable_size(block: NonNull<u8>) -> usize {
    // SAFETY: the caller's promise.
    work(|worker| unsafe { size_of_block(worker, block) }).flatten().unwrap_or(0)
}

/// Takes back at most so many blocks of the caller's slot that others freed, in every region.
pub fn reclaim(budget: usize) -> usize {
    let reclaimed = work(|worker| {
        let regions = (0..regions::count()).filter_map(regions::known);
        // SAFETY: the slot is the worker's.
        regions.map(|region| unsafe { (kind().reclaim)(region.heap, worker.number, budget) }).sum()
    });
    reclaimed.unwrap_or(0)
}

/// Allocates as a worker, unless the request is one to be refused.
fn request(worker: Worker, size: usize, align: usize) -> Option<Served> {
    if tally::is_to_fail() || tally::is_beyond_quota(size) {
        return None;
    }
    serve(worker, size, align)
}

/// Allocates as a worker.
fn serve(worker: Worker, size: usize, align: usize) -> Option<Served> {
    if size > isize::MAX as usize || lock::is_inside() {
        return None;
    }
    let fixed = regions::settings().fixed;
    if size >= direct::from_bytes() || (align > MOST_ALIGN_BYTES.min(kind().max_align_bytes) && !fixed) {
        let block = direct::allocate(size, align)?;
        let address = block.addr().get();
        tally::received(
            usize::MAX,
            0,
            block,
            direct::find(address).map_or(0, |found| direct::usable_size(address, found)),
        );
        return Some(Served { block, is_zero: true });
    }
    let current = worker.seat.map_or(&CROWD_REGION, |seat| &seat.region);
    let mut grown = 0;
    loop {
        let seen = regions::count();
        let first = usize::from(current.load(Relaxed));
        let others = (0..seen).filter(|&index| index != first);
        for region in core::iter::once(first).chain(others).filter_map(regions::known) {
            let Some(block) = ask(kind(), region, worker.number, size, align) else { continue };
            if region.index != first && size <= SMALL_BYTES {
                match worker.seat {
                    // SAFETY: the seat is this thread's, and the slot on the short way is not in use.
                    Some(seat) => unsafe { regions::seat_in(seat, worker.number, region.index) },
                    None => CROWD_REGION.store(region.index as u8, Relaxed),
                }
            }
            return Some(Served { block, is_zero: false });
        }
        if grown == MOST_GROWN || !regions::grow(seen, size, align) {
            break;
        }
        grown += 1;
    }
    if kind().has_slots { elsewhere(worker, size, align) } else { None }
}

/// Asks the memory of slots that nobody uses now: the last one, and those of numbers that nobody has.
#[cold]
fn elsewhere(worker: Worker, size: usize, align: usize) -> Option<Served> {
    let ask_all = |number| {
        let regions = (0..regions::count()).filter_map(regions::known);
        let mut blocks = regions.filter_map(|region| ask(kind(), region, number, size, align));
        blocks.next().map(|block| Served { block, is_zero: false })
    };
    let last = regions::last_slot();
    if worker.number != last
        && let Some(Some(served)) = seat::CROWD.hold(|| ask_all(last))
    {
        return Some(served);
    }
    let mut first = 0;
    while let Some(number) = seat::take(first, last) {
        let served = ask_all(number);
        seat::give(number);
        if served.is_some() {
            return served;
        }
        first = number + 1;
    }
    None
}

/// Asks one slot of one region, again and again while that may help.
fn ask(kind: &Kind, region: Known, number: usize, size: usize, align: usize) -> Option<NonNull<u8>> {
    let mut in_vain = 0;
    loop {
        // SAFETY: the heap is the region's, and the slot the caller's.
        match unsafe { (kind.allocate)(region.heap, number, size, align) } {
            Ok(block) => {
                if is_counting() {
                    // SAFETY: as above; the block is live.
                    let usable = unsafe { (kind.usable_size)(region.heap, number, block) };
                    tally::requested(size, usable);
                    tally::received(region.index, number, block, usable);
                }
                return Some(block);
            }
            // SAFETY: as above.
            Err(SharedError::Pending) if unsafe { (kind.reclaim)(region.heap, number, RECLAIMED) } != 0 => {}
            Err(SharedError::Pending | SharedError::Contended) if in_vain < REPETITIONS => in_vain += 1,
            Err(_) => return None,
        }
    }
}

/// Gives a block back as a worker.
///
/// # Safety
///
/// As [`deallocate`].
unsafe fn give_back(worker: Worker, block: NonNull<u8>) {
    let address = block.addr().get();
    if let Some(found) = direct::find(address) {
        tally::given_back(direct::usable_size(address, found));
        // SAFETY: the caller's promise.
        return unsafe { direct::deallocate(address, found) };
    }
    let Some(region) = regions::region_of(address) else {
        return misuse::found(MisuseKind::ForeignPointer, address);
    };
    if lock::is_inside() {
        return tally::lost();
    }
    // SAFETY: the caller's promise, and the slot is the worker's.
    unsafe {
        if is_counting() {
            tally::given_back((kind().usable_size)(region.heap, worker.number, block));
        }
        (kind().deallocate)(region.heap, worker.number, block);
    }
}

/// As [`usable_size`], as a worker; `None` if it is no block.
///
/// # Safety
///
/// As there.
unsafe fn size_of_block(worker: Worker, block: NonNull<u8>) -> Option<usize> {
    let address = block.addr().get();
    if let Some(found) = direct::find(address) {
        return Some(direct::usable_size(address, found));
    }
    let region = regions::region_of(address)?;
    if lock::is_inside() {
        return None;
    }
    // SAFETY: the caller's promise, and the slot is the worker's.
    Some(unsafe { (kind().usable_size)(region.heap, worker.number, block) })
}

/// Changes the size of a block as a worker.
///
/// # Safety
///
/// As [`reallocate`].
unsafe fn resize(worker: Worker, block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
    let address = block.addr().get();
    if size > isize::MAX as usize || lock::is_inside() {
        return None;
    }
    if is_counting() {
        // SAFETY: the caller's promise.
        let more = size.saturating_sub(unsafe { size_of_block(worker, block) }.unwrap_or(size));
        if more != 0 && (tally::is_to_fail() || tally::is_beyond_quota(more)) {
            return None;
        }
    }
    let is_large = size >= direct::from_bytes();
    if let Some(found) = direct::find(address) {
        // One that has become a quarter of a large one goes where small blocks are.
        if size >= direct::from_bytes() / 4 {
            let before = direct::usable_size(address, found);
            // SAFETY: the caller's promise. Where the system cannot resize it, it is copied below.
            if let Some(moved) = unsafe { direct::reallocate(address, found, size) } {
                let address = moved.addr().get();
                tally::resized(before, direct::find(address).map_or(0, |found| direct::usable_size(address, found)));
                return Some(moved);
            }
        }
    } else if let Some(region) = regions::region_of(address) {
        if !is_large {
            let before = if is_counting() {
                // SAFETY: the caller's promise, here and below; the slot is the worker's.
                unsafe { (kind().usable_size)(region.heap, worker.number, block) }
            } else {
                0
            };
            // SAFETY: as above.
            match unsafe { (kind().reallocate)(region.heap, worker.number, block, size, ALIGN_BYTES) } {
                Ok(moved) => {
                    if is_counting() {
                        // SAFETY: as above.
                        let usable = unsafe { (kind().usable_size)(region.heap, worker.number, moved) };
                        tally::requested(size, usable);
                        tally::resized(before, usable);
                        tally::reached(region.index, worker.number, moved.addr().get() + usable);
                    }
                    return Some(moved);
                }
                // It is no block, and that has been said.
                Err(SharedError::Request(rtalloc::contract::AllocError::Misused)) => return None,
                Err(_) => {}
            }
        }
    } else {
        misuse::found(MisuseKind::ForeignPointer, address);
        return None;
    }
    // SAFETY: the caller's promise.
    let old_bytes = unsafe { size_of_block(worker, block) }?;
    let served = serve(worker, size, ALIGN_BYTES)?;
    // SAFETY: both blocks are live and apart, and neither is shorter than what is copied; the old one is dead then.
    unsafe {
        served.block.copy_from_nonoverlapping(block, old_bytes.min(size));
        give_back(worker, block);
    }
    Some(served.block)
}

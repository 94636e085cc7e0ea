//! Pages of free memory go back to the system, so that a process's memory follows what it has live.
//!
//! Whenever a thread has freed some megabytes, it looks at the largest free blocks of its own slots and at what is free
//! in the pools, and at no other slot. No other thread waits, except for one whose request finds no memory: it asks
//! again when the pools are whole. [`trim`] looks at every block, and all threads wait. A fixed or locked heap keeps
//! its pages.
//!
//! Pages that go back and are needed again cost a page fault each. If the thread had many of them after it gave pages
//! back, it keeps its pages the next time, and frees four times as much until it looks again; otherwise a 64th less. A
//! thread that ends gives pages back, too, unless it has freed less than 8 MiB since it gave pages back the last time,
//! and another thread of its slot has given pages back shortly before.

use crate::kinds;
use crate::state::STATE;
use crate::threads::{FastPath, ThreadState};
use core::ops::Range;
use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::Slot;
use rtalloc::contract::Block;
use rtalloc_sys::errno::keeping_errno;
use rtalloc_sys::libc::{self, Rusage};
use rtalloc_sys::{now_ns, page_bytes};

/// Least bytes that a thread frees before it looks for pages to give back.
const LEAST_INTERVAL: usize = 8 << 20;
/// Most bytes that a thread frees before it looks for pages to give back.
const MOST_INTERVAL: usize = 8 << 30;
/// The thread needs the pages again that it gave back if it touches this part of what it frees meanwhile.
const NEEDED_PART: usize = 32;
/// Nanoseconds from one thread's end to the next that returns pages of the same slot, for each page: so that threads
/// which follow each other spend at most about a 32nd of their time on pages that go back and are needed again.
const NANOSECONDS_PER_PAGE: u64 = 32_000;
/// Free blocks from this size on give their pages back.
const LARGE_BYTES: usize = 1 << 20;
/// Of blocks from this size on, pages that are not in memory are zeroed without being touched. To ask which ones are
/// takes about a microsecond; to write so many bytes takes three, or a hundred if they are not in memory.
const UNTOUCHED_BYTES: usize = 256 << 10;
/// Free blocks that a thread looks at in one region.
const MOST_BLOCKS: usize = 16;

/// Whether pages may go back: not if the memory is planned for deadlines.
pub fn may_go_back() -> bool {
    let settings = STATE.settings();
    !settings.locked && !settings.fixed
}

/// Lets a thread begin to count what it frees.
pub fn begin(fast: &mut FastPath) {
    fast.interval = LEAST_INTERVAL;
    fast.faults = usize::MAX;
    fast.before_return = if may_go_back() { LEAST_INTERVAL as isize } else { isize::MAX };
}

/// Returns the whole pages between two addresses to the system. False if there are none, or it refuses them.
///
/// # Safety
///
/// Nothing between the addresses is used any more, unless it is expected to be zero.
unsafe fn give(from: usize, to: usize) -> bool {
    let page = page_bytes();
    let (from, to) = (from.next_multiple_of(page), to / page * page);
    // SAFETY: the pages are mapped, and the caller guarantees that their content is not used.
    from < to && unsafe { libc::madvise(with_exposed_provenance_mut(from), to - from, libc::MADV_DONTNEED) } == 0
}

/// Looks at the largest free blocks of a thread's slots and at the pools, and returns their pages unless that would be
/// too early.
///
/// # Safety
///
/// The allocator is the arenas, the state is the calling thread's, which is inside an operation, and there is no
/// reference to the data of its fast path.
#[cold]
#[inline(never)]
pub unsafe fn give_back(state: &ThreadState) {
    // SAFETY: by the caller's guarantee.
    let fast = unsafe { state.fast_path() };
    let touched = page_faults().saturating_sub(fast.faults).saturating_mul(page_bytes());
    let is_early = touched > fast.interval / NEEDED_PART;
    let interval = if is_early { fast.interval.saturating_mul(4) } else { fast.interval - fast.interval / 64 };
    fast.interval = interval.clamp(LEAST_INTERVAL, MOST_INTERVAL);
    fast.before_return = fast.interval as isize;
    fast.faults = usize::MAX;
    if !is_early {
        // SAFETY: by the caller's guarantee; the reference is not used meanwhile.
        unsafe { return_pages(STATE.threads.number(state), POOL_WORDS) };
        fast.faults = page_faults();
    }
}

/// Returns the pages of the largest free blocks of an ending thread, if it kept them when it looked the last time, or
/// has since freed as much as one of them. If the latter alone is true and that is little, and so soon after another
/// thread of its slot that the next one is likely to need them again, it keeps them.
///
/// # Safety
///
/// As [`give_back`].
pub unsafe fn give_back_at_end(state: &ThreadState) {
    // SAFETY: by the caller's guarantee.
    let fast = unsafe { state.fast_path() };
    let freed = (fast.interval as isize).saturating_sub(fast.before_return);
    // Keeping them made the interval longer, and no number of page faults was stored.
    let has_kept = fast.interval > LEAST_INTERVAL && fast.faults == usize::MAX;
    if !may_go_back() || fast.span_bytes == 0 || (freed < LARGE_BYTES as isize && !has_kept) {
        return;
    }
    let (now, pages) = (now_ns(), freed as usize / page_bytes());
    if has_kept || now >= fast.next_end || freed as usize >= LEAST_INTERVAL {
        fast.next_end = now.saturating_add(NANOSECONDS_PER_PAGE * pages as u64);
        // SAFETY: as above; the next thread begins to count anew.
        unsafe { return_pages(STATE.threads.number(state), usize::MAX) };
    }
}

/// Words of a pool that a thread looks at each time; one that ends looks at all, because it does not look again.
const POOL_WORDS: usize = 4;

/// Returns the pages of the largest free blocks of a slot, and of free memory in the pools, at most so many words of
/// each.
///
/// # Safety
///
/// The allocator is the arenas, and the slot is the calling thread's, which is inside an operation.
unsafe fn return_pages(slot: usize, pool_words: usize) {
    // The same words in every region, so that each of them gets its turn in each region.
    let first_word = STATE.next_pool_word.fetch_add(POOL_WORDS, Relaxed);
    for region in STATE.regions.iter() {
        // SAFETY: the word stores arenas, and the slot is the caller's.
        let mut arena = unsafe { kinds::arena_slot(region.heap, slot) };
        // Each block is allocated until all are found, so that the next one is another.
        let mut held = [None; MOST_BLOCKS];
        for place in &mut held {
            let bytes = arena.largest_in_pieces();
            if bytes < LARGE_BYTES {
                break;
            }
            let Ok(block) = arena.allocate_bytes(bytes, 1) else { break };
            let start = block.addr().get();
            // SAFETY: the block was just allocated and has these bytes, of which none is used.
            keeping_errno(|| unsafe { give(start, start + bytes) });
            *place = Some(block);
        }
        for block in held.into_iter().flatten() {
            // SAFETY: the block was allocated above.
            unsafe { arena.deallocate(block) };
        }
        // If another thread looks at a pool, or asks for what may be missing in one, this one leaves it alone.
        STATE.pool_visits.try_with(|| {
            // SAFETY: the word stores arenas; the memory that is passed is free, and stays so meanwhile.
            unsafe {
                kinds::visit_free(region.heap, first_word, pool_words, &mut |free| {
                    keeping_errno(|| give(free.start, free.end));
                });
            }
        });
    }
}

/// Pages that the calling thread has touched for the first time, or again after they had gone back.
fn page_faults() -> usize {
    let mut usage = Rusage::ZERO;
    // SAFETY: `usage` is as long as what is written.
    keeping_errno(|| unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) });
    usage.minor_faults as usize
}

/// Passes each run of whole pages between two addresses to `visit`, and whether it is in memory. A page whose state the
/// system does not report counts as in memory.
fn visit_runs(from: usize, to: usize, visit: &mut dyn FnMut(Range<usize>, bool)) {
    let page = page_bytes();
    let (mut from, to) = (from.next_multiple_of(page), to / page * page);
    while from < to {
        let mut states = [0u8; 4096];
        let pages = ((to - from) / page).min(states.len());
        // SAFETY: `states` has a byte for each page. Where none is mapped, the call fails.
        if unsafe { libc::mincore(with_exposed_provenance_mut(from), pages * page, states.as_mut_ptr()) } != 0 {
            states.fill(1);
        }
        for run in states.get(..pages).unwrap_or_default().chunk_by(|one, next| (one ^ next) & 1 == 0) {
            let end = from + run.len() * page;
            visit(from..end, run.first().is_some_and(|state| state & 1 != 0));
            from = end;
        }
    }
}

/// Bytes of whole pages between two addresses that are not in memory.
pub fn absent_bytes(from: usize, to: usize) -> usize {
    let mut absent = 0;
    visit_runs(from, to, &mut |run, present| absent += if present { 0 } else { run.len() });
    absent
}

/// Zeroes a block of arenas. Of a large one only the pages that are in memory: the others come back as zeros when they
/// are touched.
///
/// # Safety
///
/// The block is the caller's and has `bytes` bytes, in pages that no file stands behind.
#[inline]
pub unsafe fn zero(block: NonNull<u8>, bytes: usize) {
    // SAFETY: by the caller's guarantee.
    unsafe {
        if bytes < UNTOUCHED_BYTES || !may_go_back() {
            block.write_bytes(0, bytes);
        } else {
            zero_pages(block, bytes);
        }
    }
}

/// Zeroes a large block without touching its absent pages. The others stay in memory: a program that uses a part of
/// such a block again and again would have page faults each time.
///
/// # Safety
///
/// As [`zero`].
#[cold]
unsafe fn zero_pages(block: NonNull<u8>, bytes: usize) {
    let (page, start) = (page_bytes(), block.addr().get());
    let end = start + bytes;
    // SAFETY: by the caller's guarantee, the block is to be zero: the pages in it, and what is before and after.
    let write = |from: usize, to: usize| unsafe { block.add(from - start).write_bytes(0, to - from) };
    write(start, start.next_multiple_of(page));
    keeping_errno(|| {
        visit_runs(start, end, &mut |run, present| {
            // An absent page may be in swap space, which is given up too.
            // SAFETY: as above.
            if present || !unsafe { give(run.start, run.end) } {
                write(run.start, run.end);
            }
        });
    });
    write(end / page * page, end);
}

/// Returns pages of free blocks to the system, except `kept_bytes` of them. False if there are none. Pauses the
/// process, which has been set up.
pub fn trim(kept_bytes: usize) -> bool {
    let kind = kinds::current();
    // Blocks in a guarded heap's quarantine count as free, and must keep their fill pattern.
    if STATE.settings().locked || kind.name == "guarded" || !STATE.threads.pause() {
        return false;
    }
    // The caller has reclaimed its own slot, in which a signal handler may have interrupted it.
    let mine = ThreadState::mine().map(|state| STATE.threads.number(state));
    let (mut kept, mut any) = (0, false);
    for region in STATE.regions.iter() {
        for slot in (0..STATE.slots()).filter(|slot| kind.has_slots && Some(*slot) != mine) {
            // SAFETY: the process is paused, so no thread uses the slot.
            unsafe { (kind.reclaim)(region.heap, slot, usize::MAX) };
        }
        let mut visit = |block: Block| {
            // A free block's links are at its start, and its length at its end.
            const ENDS_BYTES: usize = 64;
            let (from, to) =
                (block.address + ENDS_BYTES, (block.address + block.usable_bytes).saturating_sub(ENDS_BYTES));
            if !block.free || to <= from {
                return;
            }
            if kept < kept_bytes {
                kept += to - from;
                return;
            }
            // SAFETY: the inside of a free block, without its links and length: its content is not used.
            any |= unsafe { give(from, to) };
        };
        // SAFETY: the process is paused, so no thread uses the heap.
        unsafe { (kind.walk)(region.heap, &mut visit) };
    }
    STATE.threads.resume();
    any
}

//! What is counted, where a report was asked for: every operation, for the whole process.
//!
//! M, the most memory live at a time, is in bytes granted: a heap does not know what was asked for. How much less that was is told
//! beside it. H is how far the heap was used: of every slot's memory up to the highest byte of a block there ever was.

use crate::regions::{self, is_counting};
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::adapt::Failures;

/// A number of things.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident)*) => { $($(#[$doc])* pub static $name: AtomicUsize = AtomicUsize::new(0);)* };
}

counters! {
    /// Blocks handed out.
    ALLOCATIONS
    /// Blocks given back.
    FREES
    /// Blocks resized.
    REALLOCATIONS
    /// Bytes live now, as granted.
    LIVE
    /// The most of them at a time.
    PEAK
    /// Blocks live now.
    BLOCKS
    /// The most of them at a time.
    PEAK_BLOCKS
    /// Bytes asked for, of blocks in regions.
    ASKED
    /// Bytes granted for those.
    GRANTED
    /// Requests refused, counted always.
    REFUSED
    /// The largest of them.
    LARGEST_REFUSED
    /// Blocks that were not given back, because a signal handler freed them in the midst of another operation; counted always.
    LOST
    /// Requests that needed memory, where some are refused on purpose.
    REQUESTS
    /// Those of them that were refused on purpose.
    INJECTED
    /// Requests refused because of the quota.
    BEYOND
    /// Misuses that were noticed, counted always.
    MISUSES
}

/// Highest address of a block there was, by region and slot.
static HIGHEST: [[AtomicUsize; crate::seat::MOST]; regions::MOST] =
    [const { [const { AtomicUsize::new(0) }; crate::seat::MOST] }; regions::MOST];

/// A block was handed out by a slot of a region, or directly (`usize::MAX`).
pub fn received(region: usize, slot: usize, block: NonNull<u8>, usable: usize) {
    if !is_counting() {
        return;
    }
    ALLOCATIONS.fetch_add(1, Relaxed);
    PEAK_BLOCKS.fetch_max(BLOCKS.fetch_add(1, Relaxed) + 1, Relaxed);
    PEAK.fetch_max(LIVE.fetch_add(usable, Relaxed) + usable, Relaxed);
    reached(region, slot, block.addr().get() + usable);
}

/// So much was asked for, and so much granted.
pub fn requested(asked: usize, granted: usize) {
    ASKED.fetch_add(asked, Relaxed);
    GRANTED.fetch_add(granted, Relaxed);
}

/// A block of a slot ends at an address. A heap without slots of their own has one height.
pub fn reached(region: usize, slot: usize, end: usize) {
    let slot = if regions::kind().has_slots { slot } else { 0 };
    if let Some(highest) = HIGHEST.get(region).and_then(|slots| slots.get(slot)) {
        highest.fetch_max(end, Relaxed);
    }
}

/// The highest end of a block of a slot; 0 if there was none.
#[must_use]
pub fn highest(region: usize, slot: usize) -> usize {
    HIGHEST.get(region).and_then(|slots| slots.get(slot)).map_or(0, |highest| highest.load(Relaxed))
}

/// A block was given back.
pub fn given_back(usable: usize) {
    if is_counting() {
        FREES.fetch_add(1, Relaxed);
        BLOCKS.fetch_sub(1, Relaxed);
        LIVE.fetch_sub(usable, Relaxed);
    }
}

/// A block was resized.
pub fn resized(before: usize, usable: usize) {
    if is_counting() {
        REALLOCATIONS.fetch_add(1, Relaxed);
        let live = LIVE.fetch_add(usable.wrapping_sub(before), Relaxed).wrapping_add(usable).wrapping_sub(before);
        PEAK.fetch_max(live, Relaxed);
    }
}

/// A request was refused.
pub fn refused(size: usize) {
    REFUSED.fetch_add(1, Relaxed);
    LARGEST_REFUSED.fetch_max(size, Relaxed);
}

/// A block could not be given back.
pub fn lost() {
    LOST.fetch_add(1, Relaxed);
}

/// Whether the next request that needs memory is one to be refused on purpose.
pub fn is_to_fail() -> bool {
    let failures = regions::settings().failures;
    let fails = failures != Failures::Never && failures.fails(REQUESTS.fetch_add(1, Relaxed) + 1);
    if fails {
        INJECTED.fetch_add(1, Relaxed);
    }
    fails
}

/// Whether so many bytes more would be beyond the quota. Where threads ask at the same moment, it may be exceeded by what they ask for.
pub fn is_beyond_quota(more: usize) -> bool {
    let left = regions::settings().quota_bytes.map(|quota| quota.saturating_sub(LIVE.load(Relaxed)));
    let beyond = left.is_some_and(|left| more > left);
    if beyond {
        BEYOND.fetch_add(1, Relaxed);
    }
    beyond
}

//! Counters of operations for the report, for the whole process.
//!
//! M, the most memory live at a time, is in bytes granted, because a heap does not record requests. The report prints
//! the ratio of requested to granted bytes beside it. H is how far the heap was used: in every part of a region, up to
//! the highest end of any block.

use crate::region_table::{MAX_REGIONS, Region};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::adapt::Failures;

/// Parts of a region, at most: as many as arenas of 16 slots have chunks, and one that is cut.
const PARTS: usize = 513;

/// A part of a region. Parts have equal lengths and are aligned to them, as chunks are.
struct Part {
    number: usize,
    start: usize,
    end: usize,
}

impl Part {
    /// The part that has an address.
    fn at(region: &Region, address: usize) -> Self {
        let bytes = (region.end - region.start).div_ceil(PARTS - 1).next_power_of_two();
        let (origin, start) = (region.start / bytes * bytes, address / bytes * bytes);
        Part { number: (start - origin) / bytes, start: start.max(region.start), end: start + bytes }
    }
}

/// Defines the struct of counters, which start at 0.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters. Unless a field's comment says otherwise, it counts only if
        /// [`is_counting`](crate::settings::Settings::is_counting).
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicUsize,)*
            /// Most bytes from the start of a part to the end of a block in it, by region and part.
            used: [[AtomicUsize; PARTS]; MAX_REGIONS],
        }

        impl Counters {
            /// All 0.
            pub const fn new() -> Self {
                Counters {
                    $($name: AtomicUsize::new(0),)*
                    used: [const { [const { AtomicUsize::new(0) }; PARTS] }; MAX_REGIONS],
                }
            }
        }
    };
}

counters! {
    /// Blocks allocated.
    allocations,
    /// Blocks freed.
    frees,
    /// Blocks resized.
    reallocations,
    /// Live bytes, as granted.
    live_bytes,
    /// Maximum of `live_bytes`.
    peak_bytes,
    /// Live blocks.
    live_blocks,
    /// Maximum of `live_blocks`.
    peak_blocks,
    /// Bytes requested, of blocks in regions.
    requested_bytes,
    /// Bytes granted for them.
    granted_bytes,
    /// Requests refused; always counted.
    refused,
    /// The largest refused request, in bytes; always counted.
    largest_refused_bytes,
    /// Blocks not freed, because a signal handler freed them inside another operation; always counted.
    lost,
    /// Requests that needed memory; counted if some fail on purpose.
    requests,
    /// Requests that failed on purpose.
    injected,
    /// Requests refused because of the quota.
    beyond_quota,
    /// Misuses detected; always counted.
    misuses,
}

impl Counters {
    /// A block of a number of usable bytes was allocated.
    pub fn allocated(&self, usable: usize) {
        self.allocations.fetch_add(1, Relaxed);
        self.peak_blocks.fetch_max(self.live_blocks.fetch_add(1, Relaxed) + 1, Relaxed);
        self.peak_bytes.fetch_max(self.live_bytes.fetch_add(usable, Relaxed) + usable, Relaxed);
    }

    /// A block of a number of usable bytes was freed.
    pub fn freed(&self, usable: usize) {
        self.frees.fetch_add(1, Relaxed);
        self.live_blocks.fetch_sub(1, Relaxed);
        self.live_bytes.fetch_sub(usable, Relaxed);
    }

    /// A block was resized: its usable bytes before and after.
    pub fn resized(&self, before: usize, usable: usize) {
        self.reallocations.fetch_add(1, Relaxed);
        let live =
            self.live_bytes.fetch_add(usable.wrapping_sub(before), Relaxed).wrapping_add(usable).wrapping_sub(before);
        self.peak_bytes.fetch_max(live, Relaxed);
    }

    /// A request was granted by a region: the block begins at an address.
    pub fn granted(&self, region: Region, requested: usize, granted: usize, start: usize) {
        self.requested_bytes.fetch_add(requested, Relaxed);
        self.granted_bytes.fetch_add(granted, Relaxed);
        let Some(parts) = self.used.get(region.index) else { return };
        let (mut from, end) = (start, start + granted);
        while from < end {
            let part = Part::at(&region, from);
            let to = end.min(part.end);
            if let Some(used) = parts.get(part.number) {
                used.fetch_max(to - part.start, Relaxed);
            }
            from = to;
        }
    }

    /// How far a region was used, in bytes, from its first block on.
    pub fn used(&self, region: Region, first_block: usize) -> usize {
        let parts = self.used.get(region.index).map_or(&[][..], |parts| parts);
        let part = Part::at(&region, first_block);
        let before = parts.get(part.number).map_or(0, |used| used.load(Relaxed).min(first_block - part.start));
        parts.iter().map(|used| used.load(Relaxed)).sum::<usize>() - before
    }

    /// A request was refused.
    pub fn refuse(&self, size: usize) {
        self.refused.fetch_add(1, Relaxed);
        self.largest_refused_bytes.fetch_max(size, Relaxed);
    }

    /// A block could not be freed.
    pub fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    /// Whether the next request that needs memory fails on purpose.
    pub fn is_to_fail(&self, failures: Failures) -> bool {
        let fails = failures != Failures::Never && failures.fails(self.requests.fetch_add(1, Relaxed) + 1);
        if fails {
            self.injected.fetch_add(1, Relaxed);
        }
        fails
    }

    /// Whether a number of further bytes exceeds the quota. Concurrent requests may exceed it by their sizes.
    pub fn is_beyond_quota(&self, quota_bytes: Option<usize>, more: usize) -> bool {
        let left = quota_bytes.map(|quota| quota.saturating_sub(self.live_bytes.load(Relaxed)));
        let beyond = left.is_some_and(|left| more > left);
        if beyond {
            self.beyond_quota.fetch_add(1, Relaxed);
        }
        beyond
    }
}

//! Running statistics of a heap at a constant cost per operation, or no statistics at no cost. The heap's type decides.

use crate::contract::Stats;
use crate::mechanism::sealed::Sealed;
use core::sync::atomic::{Ordering, compiler_fence};

/// The statistics that a heap keeps, in its control structure.
pub trait StatsPolicy: Sealed + Copy + Default + core::fmt::Debug + 'static {
    /// A block of `usable_bytes` was allocated; it ends `end_bytes` after the start of the first block, or after
    /// another place, as the heap chose it.
    fn allocated(&mut self, usable_bytes: usize, end_bytes: usize);
    /// A block of `usable_bytes` was freed.
    fn freed(&mut self, usable_bytes: usize);
    /// As [`allocated`](Self::allocated), in a heap whose blocks all have a header of `header_bytes`: fewer
    /// instructions. A heap uses either these three functions or the other three.
    fn block_allocated(&mut self, block_bytes: usize, header_bytes: usize, end_bytes: usize);
    /// As [`freed`](Self::freed), of a block with its header.
    fn block_freed(&mut self, block_bytes: usize, header_bytes: usize);
    /// As [`stats`](Self::stats).
    fn block_stats(&self, header_bytes: usize, largest_free_bytes: usize) -> Option<Stats>;
    /// A request was refused.
    fn refused(&mut self);
    /// The statistics; `largest_free_bytes` is filled in by the heap.
    fn stats(&self, largest_free_bytes: usize) -> Option<Stats>;
}

/// No statistics: no instructions in the operations, and no bytes in the control structure.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStats;

impl Sealed for NoStats {}

impl StatsPolicy for NoStats {
    #[inline(always)]
    fn allocated(&mut self, _: usize, _: usize) {}
    #[inline(always)]
    fn freed(&mut self, _: usize) {}
    #[inline(always)]
    fn block_allocated(&mut self, _: usize, _: usize, _: usize) {}
    #[inline(always)]
    fn block_freed(&mut self, _: usize, _: usize) {}
    fn block_stats(&self, _: usize, _: usize) -> Option<Stats> {
        None
    }
    #[inline(always)]
    fn refused(&mut self) {}
    fn stats(&self, _: usize) -> Option<Stats> {
        None
    }
}

/// Counts live bytes and blocks, their peak, the high-water mark and refusals.
#[derive(Clone, Copy, Debug, Default)]
pub struct WithStats {
    /// With their headers in a heap that counts these.
    live_bytes: usize,
    /// Without headers; in a heap that counts these, the peak before the latest free.
    peak_live_bytes: usize,
    /// The bytes of their headers in a heap that counts these.
    live_blocks: usize,
    high_water_bytes: usize,
    failures: usize,
}

impl Sealed for WithStats {}

impl WithStats {
    #[inline(always)]
    fn reach(&mut self, end_bytes: usize) {
        // The end of a block in a region below the first one wraps to a negative distance.
        if (end_bytes as isize) > self.high_water_bytes as isize {
            core::hint::cold_path();
            self.high_water_bytes = end_bytes;
        }
    }
}

impl StatsPolicy for WithStats {
    #[inline(always)]
    fn allocated(&mut self, usable_bytes: usize, end_bytes: usize) {
        self.live_bytes = self.live_bytes.wrapping_add(usable_bytes);
        // Branches, as below: a conditional move would load and store every time.
        if self.live_bytes > self.peak_live_bytes {
            self.peak_live_bytes = self.live_bytes;
        }
        self.live_blocks = self.live_blocks.wrapping_add(1);
        self.reach(end_bytes);
    }

    #[inline(always)]
    fn freed(&mut self, usable_bytes: usize) {
        self.live_bytes = self.live_bytes.wrapping_sub(usable_bytes);
        self.live_blocks = self.live_blocks.wrapping_sub(1);
    }

    #[inline(always)]
    fn block_allocated(&mut self, block_bytes: usize, header_bytes: usize, end_bytes: usize) {
        self.live_bytes = self.live_bytes.wrapping_add(block_bytes);
        self.live_blocks = self.live_blocks.wrapping_add(header_bytes);
        self.reach(end_bytes);
    }

    #[inline(always)]
    fn block_freed(&mut self, block_bytes: usize, header_bytes: usize) {
        // Live memory is at a peak before it decreases.
        let live_bytes = self.live_bytes.wrapping_sub(self.live_blocks);
        if live_bytes > self.peak_live_bytes {
            self.peak_live_bytes = live_bytes;
        }
        // The counters are changed in memory instead of kept in registers. No instruction.
        compiler_fence(Ordering::SeqCst);
        self.live_bytes = self.live_bytes.wrapping_sub(block_bytes);
        self.live_blocks = self.live_blocks.wrapping_sub(header_bytes);
    }

    fn block_stats(&self, header_bytes: usize, largest_free_bytes: usize) -> Option<Stats> {
        let live_bytes = self.live_bytes.wrapping_sub(self.live_blocks);
        let peak_live_bytes = self.peak_live_bytes.max(live_bytes);
        let live_blocks = self.live_blocks / header_bytes;
        WithStats { live_bytes, peak_live_bytes, live_blocks, ..*self }.stats(largest_free_bytes)
    }

    #[inline(always)]
    fn refused(&mut self) {
        self.failures = self.failures.wrapping_add(1);
    }

    fn stats(&self, largest_free_bytes: usize) -> Option<Stats> {
        Some(Stats {
            live_bytes: self.live_bytes,
            peak_live_bytes: self.peak_live_bytes,
            live_blocks: self.live_blocks,
            high_water_bytes: self.high_water_bytes,
            largest_free_bytes,
            failures: self.failures,
        })
    }
}

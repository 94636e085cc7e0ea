//! Running statistics of a heap at a constant cost per operation, or no statistics at no cost. The heap's type decides.

use crate::contract::Stats;
use crate::mechanism::sealed::Sealed;

/// The statistics that a heap keeps, in its control structure.
pub trait StatsPolicy: Sealed + Copy + Default + core::fmt::Debug + 'static {
    /// A block of `usable_bytes` was allocated; it ends `end_bytes` after the start of the first block, or after
    /// another place, as the heap chose it.
    fn allocated(&mut self, usable_bytes: usize, end_bytes: usize);
    /// A block of `usable_bytes` was freed.
    fn freed(&mut self, usable_bytes: usize);
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
    fn refused(&mut self) {}
    fn stats(&self, _: usize) -> Option<Stats> {
        None
    }
}

/// Counts live bytes and blocks, their peak, the high-water mark and refusals.
#[derive(Clone, Copy, Debug, Default)]
pub struct WithStats {
    live_bytes: usize,
    peak_live_bytes: usize,
    live_blocks: usize,
    high_water_bytes: usize,
    failures: usize,
}

impl Sealed for WithStats {}

impl StatsPolicy for WithStats {
    #[inline(always)]
    fn allocated(&mut self, usable_bytes: usize, end_bytes: usize) {
        self.live_bytes = self.live_bytes.wrapping_add(usable_bytes);
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        self.live_blocks = self.live_blocks.wrapping_add(1);
        // The end of a block in a region below the first one wraps to a negative distance.
        self.high_water_bytes = (self.high_water_bytes as isize).max(end_bytes as isize) as usize;
    }

    #[inline(always)]
    fn freed(&mut self, usable_bytes: usize) {
        self.live_bytes = self.live_bytes.wrapping_sub(usable_bytes);
        self.live_blocks = self.live_blocks.wrapping_sub(1);
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

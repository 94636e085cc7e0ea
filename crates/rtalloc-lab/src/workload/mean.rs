//! The MEAN model of Zorn and Grunwald (1994) with Puaut's parameters (2002, section 3).

use super::random::Random;
use super::{Events, Generator, Sink, Span, WorkloadError, alignment, at_least, parameter};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A program described by three means: block size, block lifetime and time between allocations, each drawn from
/// U[0, 2·mean].
///
/// A size of 0 becomes 1 byte, a lifetime of 0 becomes 1 tick. A tick is one processor cycle of Puaut's machine, in
/// logical time. Order within a tick: blocks whose lifetime ends, oldest first, then the allocation. Blocks that
/// outlive the trace stay live.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct MeanModel {
    /// Allocations in the trace
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub mallocs: u64,
    /// Mean block size, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 150)]
    pub size: u64,
    /// Mean lifetime as a multiple of the mean time between allocations
    #[arg(long, value_name = "RATIO", default_value_t = 150)]
    pub lifetime: u64,
    /// Mean time between allocations, ticks
    #[arg(long, value_name = "TICKS", default_value_t = 500_000)]
    pub interval: u64,
    /// Alignment of every request, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub align: u32,
}

impl Generator for MeanModel {
    fn about(&self) -> String {
        format!(
            "size U[0, {}] B, lifetime U[0, {}] mean intervals, interval U[0, {}] ticks",
            2 * self.size,
            2 * self.lifetime,
            2 * self.interval
        )
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            parameter("mallocs", self.mallocs),
            parameter("mean_size_bytes", self.size),
            parameter("lifetime_per_interval", self.lifetime),
            parameter("mean_interval_ticks", self.interval),
            parameter("align_bytes", self.align),
        ])
    }

    fn check(&self) -> Result<(), WorkloadError> {
        alignment(self.align)?;
        at_least("--mallocs", self.mallocs, 1)?;
        Span { min: 0, max: self.size }.at_most("--size", 1 << 40)?;
        Span { min: 0, max: self.lifetime }.at_most("--lifetime", 1 << 24)?;
        Span { min: 0, max: self.interval }.at_most("--interval", 1 << 32)
    }

    fn events(&self, random: &mut Random, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let mut events = Events::new(sink, self.align);
        let mut living = BinaryHeap::new();
        let mut now = 0;
        for allocation in 0..self.mallocs {
            now += random.within(0, 2 * self.interval);
            while let Some(&Reverse((end, _, slot))) = living.peek()
                && end <= now
            {
                living.pop();
                events.free(end, slot)?;
            }
            let size = random.within(0, 2 * self.size).max(1);
            let lifetime = random.within(0, 2 * self.lifetime * self.interval).max(1);
            let slot = events.allocate(now, size)?;
            living.push(Reverse((now + lifetime, allocation, slot)));
        }
        Ok(())
    }
}

//! A constant number of live blocks, each new one replacing a random one.

use super::random::Random;
use super::{Events, Generator, Sink, Span, WorkloadError, alignment, at_least, parameter};
use crate::trace::MAX_SLOTS;
use std::collections::BTreeMap;

/// Sizes from U[min, max] with a constant number of live blocks.
///
/// After the fill, a uniformly random live block is freed and one allocated, repeatedly. A tick is one operation.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Steady {
    /// Allocations in the trace, including the fill
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub mallocs: u64,
    /// Smallest request, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    pub min: u64,
    /// Largest request, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub max: u64,
    /// Live blocks
    #[arg(long, value_name = "BLOCKS", default_value_t = 2_000)]
    pub live: u64,
    /// Alignment of every request, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub align: u32,
}

/// Sizes with probability proportional to 1/size, so that every octave is equally likely, with a constant number
/// of live blocks.
///
/// After the fill, a uniformly random live block is freed and one allocated, repeatedly. A tick is one operation.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct LogUniform {
    /// Allocations in the trace, including the fill
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub mallocs: u64,
    /// Smallest request, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub min: u64,
    /// Largest request, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    pub max: u64,
    /// Live blocks
    #[arg(long, value_name = "BLOCKS", default_value_t = 20_000)]
    pub live: u64,
    /// Alignment of every request, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub align: u32,
}

/// What both have in common: they differ only in the distribution of the sizes.
struct Replacement {
    mallocs: u64,
    min: u64,
    max: u64,
    live: u64,
    align: u32,
    sizes: &'static str,
    size: fn(&mut Random, u64, u64) -> u64,
}

impl Replacement {
    fn about(&self) -> String {
        let Self { min, max, live, sizes, .. } = self;
        format!("{sizes} sizes {min}..{max} B, {live} blocks live, a random one replaced each time")
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            parameter("mallocs", self.mallocs),
            parameter("min_bytes", self.min),
            parameter("max_bytes", self.max),
            parameter("live_blocks", self.live),
            parameter("align_bytes", self.align),
        ])
    }

    fn check(&self) -> Result<(), WorkloadError> {
        alignment(self.align)?;
        at_least("--mallocs", self.mallocs, 1)?;
        at_least("--min", self.min, 1)?;
        at_least("--max", self.max, self.min)?;
        at_least("--live", self.live, 1)?;
        Span { min: 1, max: self.max }.at_most("--max", 1 << 40)?;
        Span { min: 1, max: self.live }.at_most("--live", u64::from(MAX_SLOTS))
    }

    fn events(&self, random: &mut Random, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let mut events = Events::new(sink, self.align);
        let mut live = Vec::new();
        let mut tick = 0;
        for allocation in 0..self.mallocs {
            if allocation >= self.live {
                let victim = random.below(self.live) as usize;
                events.free(tick, live.swap_remove(victim))?;
                tick += 1;
            }
            live.push(events.allocate(tick, (self.size)(random, self.min, self.max))?);
            tick += 1;
        }
        Ok(())
    }
}

macro_rules! replacement {
    ($model:ident, $sizes:literal, $size:path) => {
        impl $model {
            fn replacement(&self) -> Replacement {
                let Self { mallocs, min, max, live, align } = *self;
                Replacement { mallocs, min, max, live, align, sizes: $sizes, size: $size }
            }
        }

        impl Generator for $model {
            fn about(&self) -> String {
                self.replacement().about()
            }

            fn parameters(&self) -> BTreeMap<String, String> {
                self.replacement().parameters()
            }

            fn check(&self) -> Result<(), WorkloadError> {
                self.replacement().check()
            }

            fn events(&self, random: &mut Random, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
                self.replacement().events(random, sink)
            }
        }
    };
}

replacement!(Steady, "uniform", Random::within);
replacement!(LogUniform, "log-uniform", Random::log_uniform);

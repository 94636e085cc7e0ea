//! The synthetic traces of the Bitframe thesis (2012, section 6.1): small blocks and a heap that grows.

use super::random::{NORMAL_FRACTION_BITS, Random};
use super::{Events, Generator, Sink, Span, WorkloadError, alignment, at_least, parameter};
use std::collections::BTreeMap;

/// Sizes from U[min, max]; after every second allocation a uniformly random live block is freed.
///
/// The heap grows linearly: the thesis replays until its 3 MiB are full. A tick is one operation.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Uniform {
    /// Allocations in the trace; half as many frees
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub mallocs: u64,
    /// Size of a request, bytes
    #[arg(long, value_name = "MIN..MAX", default_value = "1..512")]
    pub size: Span,
    /// Alignment of every request, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub align: u32,
}

/// Sizes from Normal(mean, deviation), redrawn outside 1..=max, and each size above `rare` at least once, at random
/// places in random order; after every second allocation a uniformly random live block is freed.
///
/// The defaults are the thesis', which requires 90 % of the sizes below 64 bytes, as in the measurements of real
/// programs that it follows; with its deviation 95 % are. It does not say how many allocations there are: as many as
/// 100,000 draws leave without the negative ones, and each size above 108 B, have the published M within 1 %. The heap
/// grows linearly. A tick is one operation.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Small {
    /// Allocations in the trace; half as many frees
    #[arg(long, value_name = "N", default_value_t = 95_400)]
    pub mallocs: u64,
    /// Mean size, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub mean: u64,
    /// Standard deviation of the size, thousandths of a byte
    #[arg(long, value_name = "MILLIBYTES", default_value_t = 19_455)]
    pub deviation: u64,
    /// Every size above this one is allocated at least once, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 108)]
    pub rare: u64,
    /// Largest size, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub max: u64,
    /// Alignment of every request, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub align: u32,
}

/// The growth of both traces: two allocations, then a free of any live block.
fn grow(
    mallocs: u64,
    align: u32,
    random: &mut Random,
    sink: &mut dyn Sink,
    mut size: impl FnMut(&mut Random) -> u64,
) -> Result<(), WorkloadError> {
    let mut events = Events::new(sink, align);
    let mut live = Vec::new();
    let mut tick = 0;
    for allocation in 1..=mallocs {
        live.push(events.allocate(tick, size(random))?);
        tick += 1;
        if allocation % 2 == 0 {
            let victim = random.below(live.len() as u64) as usize;
            events.free(tick, live.swap_remove(victim))?;
            tick += 1;
        }
    }
    Ok(())
}

impl Generator for Uniform {
    fn about(&self) -> String {
        format!(
            "sizes U[{}, {}] B, a random live block freed after every second allocation",
            self.size.min, self.size.max
        )
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            parameter("mallocs", self.mallocs),
            parameter("size_bytes", self.size),
            parameter("align_bytes", self.align),
        ])
    }

    fn check(&self) -> Result<(), WorkloadError> {
        alignment(self.align)?;
        at_least("--mallocs", self.mallocs, 1)?;
        at_least("--size", self.size.min, 1)?;
        self.size.at_most("--size", 1 << 40)
    }

    fn events(&self, random: &mut Random, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        grow(self.mallocs, self.align, random, sink, |random| self.size.draw(random))
    }
}

impl Small {
    /// Sizes that are allocated at least once.
    fn rare_sizes(&self) -> u64 {
        self.max.saturating_sub(self.rare)
    }

    fn normal_size(&self, random: &mut Random) -> u64 {
        let one = 1000i128 << NORMAL_FRACTION_BITS;
        loop {
            let value = i128::from(self.mean) * one + i128::from(self.deviation) * i128::from(random.normal());
            let rounded = (2 * value + one).div_euclid(2 * one);
            if let Ok(size) = u64::try_from(rounded)
                && (1..=self.max).contains(&size)
            {
                return size;
            }
        }
    }
}

impl Generator for Small {
    fn about(&self) -> String {
        format!(
            "sizes Normal({}, {}.{:03}) B in 1..{}, a random live block freed after every second allocation",
            self.mean,
            self.deviation / 1000,
            self.deviation % 1000,
            self.max
        )
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            parameter("mallocs", self.mallocs),
            parameter("mean_bytes", self.mean),
            parameter("deviation_millibytes", self.deviation),
            parameter("rare_above_bytes", self.rare),
            parameter("max_bytes", self.max),
            parameter("align_bytes", self.align),
        ])
    }

    fn check(&self) -> Result<(), WorkloadError> {
        alignment(self.align)?;
        at_least("--mean", self.mean, 1)?;
        // A mean within the range keeps the probability of drawing a valid size near one half or above.
        at_least("--max", self.max, self.mean)?;
        Span { min: 0, max: self.max }.at_most("--max", 1 << 24)?;
        Span { min: 0, max: self.deviation }.at_most("--deviation", 1 << 40)?;
        at_least("--mallocs", self.mallocs, self.rare_sizes().max(1))
    }

    fn events(&self, random: &mut Random, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let mut rare: Vec<u64> = (self.rare + 1..=self.max).collect();
        for place in (1..rare.len()).rev() {
            rare.swap(place, random.below(place as u64 + 1) as usize);
        }
        let mut left = self.mallocs;
        grow(self.mallocs, self.align, random, sink, |random| {
            // Selection sampling: the remaining rare sizes are distributed over the remaining allocations with equal
            // probability.
            let due = random.below(left) < rare.len() as u64;
            left -= 1;
            match due.then(|| rare.pop()).flatten() {
                Some(size) => size,
                None => self.normal_size(random),
            }
        })
    }
}

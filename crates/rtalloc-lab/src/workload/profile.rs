//! The periodic tasks of the TLSF paper, section 7.

use super::random::{NORMAL_FRACTION_BITS, Random};
use super::{Events, Generator, Sink, Span, WorkloadError, alignment, at_least, parameter};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Periodic real-time tasks that request memory at every activation and hold each block for a while.
///
/// The paper gives a holding time without a unit, and its table III shows tasks whose mean request is g/1.3, which no
/// N_r of 2 to 5 gives. Drawn here are: per task, once, its period, phase, N_r and g; per request, its size and its
/// holding time. Order within a tick: blocks whose holding time ends, oldest first; then the activations by task
/// number. All tasks call from one thread, as in the paper's simulator. Blocks held at the end stay live.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Profile {
    /// Allocations in the trace
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub mallocs: u64,
    /// Holding time of a block, h
    #[arg(long, value_enum, value_name = "READING", default_value_t = Holding::DEFAULT)]
    pub holding: Holding,
    /// Maximum memory a task requests per period, g_i, bytes, drawn per task
    #[arg(long, value_name = "MIN..MAX")]
    pub g: Span,
    /// Number of tasks
    #[arg(long, value_name = "MIN..MAX", default_value = "3..10")]
    pub tasks: Span,
    /// Period of a task, p_i, ticks
    #[arg(long, value_name = "MIN..MAX", default_value = "20..150")]
    pub period: Span,
    /// Requests per activation, N_r
    #[arg(long, value_name = "MIN..MAX", default_value = "2..5")]
    pub requests: Span,
    /// Standard deviation of the size as a share of its mean g_i/N_r, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    pub deviation: u64,
    /// Alignment of every request, bytes; 16 is malloc's on 64-bit machines
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub align: u32,
}

/// Interpretation of the paper's holding time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holding {
    /// U[10 p, 20 p] ticks: 10 to 20 of the task's own periods; calibrated: F of binary buddy, dlmalloc and TLSF has
    /// about the published means and deviations
    Periods,
    /// U[300, 500] ticks: calibrated too, nearer to the published means of profile 1, with larger deviations
    Fit,
    /// U[30, 50] ticks: the paper's numbers, in the unit of the periods
    Literal,
}

impl Holding {
    /// The interpretation with which F is nearest to the published one in means and deviations.
    pub const DEFAULT: Self = Self::Periods;

    /// Every interpretation, the default first.
    pub const ALL: [Self; 3] = [Self::Periods, Self::Fit, Self::Literal];

    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Holding::Fit => "fit",
            Holding::Literal => "literal",
            Holding::Periods => "periods",
        }
    }

    /// Shortest and longest holding time of a task with `period`, in ticks.
    fn range_ticks(self, period: u64) -> (u64, u64) {
        match self {
            Holding::Fit => (300, 500),
            Holding::Literal => (30, 50),
            Holding::Periods => (10 * period, 20 * period),
        }
    }

    /// Its meaning.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Holding::Fit => "fit: U[300, 500] ticks",
            Holding::Literal => "literal: U[30, 50] ticks",
            Holding::Periods => "periods: U[10 p, 20 p] ticks",
        }
    }
}

struct Task {
    period: u64,
    g_bytes: u64,
    requests: u64,
    next_activation: u64,
}

impl Task {
    /// Normal(g/N_r, deviation% of it), rounded to the nearest byte; redrawn if below 1.
    fn request_bytes(&self, deviation_percent: u64, random: &mut Random) -> u64 {
        let one = 100i128 << NORMAL_FRACTION_BITS;
        let denominator = i128::from(self.requests) * one;
        loop {
            let factor = one + i128::from(deviation_percent) * i128::from(random.normal());
            let numerator = i128::from(self.g_bytes) * factor;
            let rounded = (2 * numerator + denominator).div_euclid(2 * denominator);
            if let Ok(size @ 1..) = u64::try_from(rounded) {
                return size;
            }
        }
    }
}

impl Generator for Profile {
    fn about(&self) -> String {
        let holding = self.holding.describe();
        format!("{} periodic tasks, g = {} B per period, holding time {holding}", self.tasks, self.g)
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            parameter("mallocs", self.mallocs),
            parameter("holding", self.holding.describe()),
            parameter("g_bytes", self.g),
            parameter("tasks", self.tasks),
            parameter("period_ticks", self.period),
            parameter("requests_per_activation", self.requests),
            parameter("deviation_percent", self.deviation),
            parameter("align_bytes", self.align),
        ])
    }

    fn check(&self) -> Result<(), WorkloadError> {
        alignment(self.align)?;
        at_least("--mallocs", self.mallocs, 1)?;
        at_least("--tasks", self.tasks.min, 1)?;
        at_least("--period", self.period.min, 1)?;
        at_least("--requests", self.requests.min, 1)?;
        // Below, the mean request would round to zero and be redrawn forever.
        at_least("--g", self.g.min, self.requests.max)?;
        self.tasks.at_most("--tasks", 1_000)?;
        self.period.at_most("--period", 1 << 32)?;
        self.requests.at_most("--requests", 1 << 20)?;
        self.g.at_most("--g", 1 << 40)?;
        Span { min: 0, max: self.deviation }.at_most("--deviation", 1_000)
    }

    fn events(&self, random: &mut Random, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let mut tasks: Vec<Task> = (0..self.tasks.draw(random))
            .map(|_| {
                let period = self.period.draw(random);
                Task {
                    period,
                    requests: self.requests.draw(random),
                    g_bytes: self.g.draw(random),
                    next_activation: random.below(period),
                }
            })
            .collect();
        let mut events = Events::new(sink, self.align);
        // Ordered by end of the holding time, then by age: (tick, number of the allocation, slot).
        let mut held = BinaryHeap::new();
        let mut allocations = 0;
        loop {
            let task = tasks.iter_mut().min_by_key(|task| task.next_activation).expect("there is at least one task");
            let now = task.next_activation;
            while let Some(&Reverse((end, _, slot))) = held.peek()
                && end <= now
            {
                held.pop();
                events.free(end, slot)?;
            }
            task.next_activation += task.period;
            let (shortest, longest) = self.holding.range_ticks(task.period);
            for _ in 0..task.requests {
                if allocations == self.mallocs {
                    return Ok(());
                }
                let slot = events.allocate(now, task.request_bytes(self.deviation, random))?;
                held.push(Reverse((now + random.within(shortest, longest), allocations, slot)));
                allocations += 1;
            }
        }
    }
}

//! The schema of A/B comparisons: pairs of allocators that replayed the same traces alternately.

use super::schema::{Environment, TraceFacts};
use serde::{Deserialize, Serialize};

/// Pairs of allocators on traces.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparisons {
    /// The measurement environment.
    pub environment: Environment,
    /// One entry per trace, in the order given.
    pub traces: Vec<TraceComparisons>,
    /// Duration of the measurement.
    pub seconds: f64,
}

/// A trace and the results of every pair.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TraceComparisons {
    /// The trace.
    pub trace: TraceFacts,
    /// Bytes of the region given to both allocators.
    pub heap_bytes: u64,
    /// One entry per pair, in the order given.
    pub comparisons: Vec<Comparison>,
}

/// A pair on a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The first allocator.
    pub first: String,
    /// The second allocator, the baseline.
    pub second: String,
    /// The figures, or why there are none.
    pub outcome: Result<Figures, String>,
}

/// The measurements of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Rounds: in each, both replay the whole trace once timed and once untimed.
    pub rounds: u64,
    /// The minimum ticks of an empty measurement over the rounds; subtracted from every operation.
    pub timer_ticks: u64,
    /// The first allocator.
    pub first: Side,
    /// The second allocator.
    pub second: Side,
    /// Lower quartile, median and upper quartile over the rounds of the ratio first / second of the untimed replay's
    /// time.
    pub replay_ratio_quartiles: [f64; 3],
}

/// The measurements of one allocator of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Mean over the allocations of each one's minimum ticks over the rounds; `None` if the trace has no allocations.
    pub allocate_ticks: Option<f64>,
    /// The same for frees.
    pub free_ticks: Option<f64>,
    /// Nanoseconds per operation of the untimed replay, the median over the rounds.
    pub replay_nanoseconds: f64,
}

impl Figures {
    /// First / second, for allocations.
    #[must_use]
    pub fn allocate_ratio(&self) -> Option<f64> {
        ratio(self.first.allocate_ticks, self.second.allocate_ticks)
    }

    /// First / second, for frees.
    #[must_use]
    pub fn free_ratio(&self) -> Option<f64> {
        ratio(self.first.free_ticks, self.second.free_ticks)
    }

    /// First / second, for the whole replay: the median over the rounds.
    #[must_use]
    pub fn replay_ratio(&self) -> f64 {
        self.replay_ratio_quartiles[1]
    }
}

fn ratio(first: Option<f64>, second: Option<f64>) -> Option<f64> {
    match (first, second) {
        (Some(first), Some(second)) if second > 0.0 => Some(first / second),
        _ => None,
    }
}

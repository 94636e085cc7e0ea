//! The schema of comparisons: pairs of allocators that replayed the same traces in turns.

use super::schema::{Environment, TraceFacts};
use serde::{Deserialize, Serialize};

/// Pairs of allocators on traces.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Duels {
    /// Where and with what it was measured.
    pub environment: Environment,
    /// One entry per trace, in the order given.
    pub traces: Vec<TraceDuels>,
    /// Time that measuring took.
    pub seconds: f64,
}

/// One trace and what every pair made of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TraceDuels {
    /// What was replayed.
    pub trace: TraceFacts,
    /// Bytes of the region that both allocators were given.
    pub heap_bytes: u64,
    /// One entry per pair, in the order given.
    pub duels: Vec<Duel>,
}

/// One pair on one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Duel {
    /// Who is compared.
    pub first: String,
    /// With whom.
    pub second: String,
    /// The figures, or why there are none.
    pub outcome: Result<Figures, String>,
}

/// What a pair was measured to take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Rounds: in each, both replay the whole trace once timed and once untimed.
    pub rounds: u64,
    /// The least ticks of an empty measurement over the rounds; subtracted from every operation.
    pub timer_ticks: u64,
    /// Of the first.
    pub first: Side,
    /// Of the second.
    pub second: Side,
    /// Lower quartile, median and upper quartile over the rounds of first / second, the time of the untimed replay.
    pub replay_ratio_quartiles: [f64; 3],
}

/// What one of a pair was measured to take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Mean over the allocations of the least ticks over the rounds; `None` where the trace has none.
    pub allocate_ticks: Option<f64>,
    /// The same of frees.
    pub free_ticks: Option<f64>,
    /// Nanoseconds per operation of the untimed replay, the median over the rounds.
    pub replay_nanoseconds: f64,
}

impl Figures {
    /// First / second of allocating.
    #[must_use]
    pub fn allocate_ratio(&self) -> Option<f64> {
        ratio(self.first.allocate_ticks, self.second.allocate_ticks)
    }

    /// First / second of freeing.
    #[must_use]
    pub fn free_ratio(&self) -> Option<f64> {
        ratio(self.first.free_ticks, self.second.free_ticks)
    }

    /// First / second of the whole replay: the median over the rounds.
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

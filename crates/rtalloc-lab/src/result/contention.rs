//! The results of threads that share a heap: time, throughput, memory.

use super::schema::Distribution;
use rtalloc_subjects::shared::Refused;
use serde::{Deserialize, Serialize};

/// A test case of the wait-free paper (2010, section 3.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Case {
    /// Allocate 948 B until a request is refused.
    I,
    /// Allocate 948 B and free it.
    II,
    /// Allocate 10 B, 12, 15, ... until a request is refused.
    III,
    /// The same, each freed at once; only the allocation is timed.
    IV,
}

impl Case {
    /// All cases.
    pub const ALL: [Case; 4] = [Case::I, Case::II, Case::III, Case::IV];

    /// Its number in the paper.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Case::I => "I",
            Case::II => "II",
            Case::III => "III",
            Case::IV => "IV",
        }
    }

    /// Its description.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Case::I => "allocate 948 B until refused",
            Case::II => "allocate 948 B and free it, timed together",
            Case::III => "allocate 10 B, then 1.25 times as much each time, until refused",
            Case::IV => "the same, each freed immediately; only the allocation is timed",
        }
    }
}

/// The figures of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Ticks of every successful operation, without the timer overhead; the histogram is exact.
    pub ticks: Distribution,
    /// The mean of each repetition.
    pub mean: Interval,
    /// Requested bytes / bytes of the heap when the last thread was refused.
    pub utilisation: Option<Interval>,
    /// Number of refused requests, by reason.
    pub refused: Refused,
    /// Spurious refusals, with memory available; `None` if this cannot be determined.
    pub spurious: Option<u64>,
    /// Whether the case was stopped at the time limit.
    pub unfinished: bool,
}

impl Figures {
    /// Coefficient of variation.
    #[must_use]
    pub fn cv(&self) -> f64 {
        self.ticks.std / self.ticks.mean.max(f64::MIN_POSITIVE)
    }
}

/// A mean of independent values, and half of its 95 % confidence interval (normal distribution).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half of the interval; 0 for fewer than two values.
    pub half: f64,
}

/// Two heaps used by a single thread, alternating.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Local {
    /// The first allocator.
    pub subject: String,
    /// The second allocator, the baseline.
    pub against: String,
    /// The results by load.
    pub loads: Vec<LocalLoad>,
}

/// A load of [`Local`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LocalLoad {
    /// The load.
    pub what: String,
    /// Mean ticks per operation for each allocator; medians over the rounds.
    pub ticks: [f64; 2],
    /// First, second and third quartile of the ratio over the rounds.
    pub ratio: [f64; 3],
    /// Number of rounds.
    pub rounds: u64,
}

/// A load of several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Load {
    /// Every thread performs the same mix on its own blocks.
    Mix,
    /// Half of the threads allocate, the others free.
    Remote,
}

impl Load {
    /// A description.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Load::Mix => "own blocks",
            Load::Remote => "all frees remote",
        }
    }
}

/// Operations per second.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Throughput {
    /// The load.
    pub load: Load,
    /// Threads.
    pub threads: u32,
    /// Operations of all threads per second, allocations and frees; the median over the rounds.
    pub operations_per_second: f64,
    /// Ratio to the throughput of one thread with the same load, by round: quartiles.
    pub speed_up: Option<[f64; 3]>,
    /// Number of refused requests.
    pub refused: u64,
}

/// A memory curve.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// The quantity: the end of the highest block, or resident pages.
    pub of: String,
    /// Remote frees so far, and bytes: the maximum since the previous point.
    pub points: Vec<(u64, u64)>,
    /// Number of refused requests.
    pub refused: u64,
}

impl Memory {
    /// Growth up to this factor counts as none: live memory varies by a sixteenth, and the maximum over many curves
    /// varies randomly.
    pub const STEADY: f64 = 1.25;

    /// Maximum memory over the last half of the frees, divided by that over the first tenth.
    #[must_use]
    pub fn growth(&self) -> f64 {
        let most = |points: &[(u64, u64)]| points.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0).max(1);
        let (tenth, half) = (self.points.len().div_ceil(10), self.points.len() / 2);
        #[allow(clippy::cast_precision_loss)] // a quotient
        let growth = most(&self.points[half..]) as f64 / most(&self.points[..tenth]) as f64;
        growth
    }
}

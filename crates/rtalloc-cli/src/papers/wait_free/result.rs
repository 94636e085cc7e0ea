//! The schema of the wait-free paper's test cases and of the additional measurements.

pub use crate::papers::claims::Claim;
use rtalloc_lab::result::schema::{Distribution, Environment, Origin};
use rtalloc_subjects::shared::{NOT_INSTALLED, Refused};
use serde::{Deserialize, Serialize};

/// All results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitFree {
    /// The measurement environment.
    pub environment: Environment,
    /// The measurement settings.
    pub setting: Setting,
    /// The allocators, in table order.
    pub subjects: Vec<Facts>,
    /// Test cases I to IV (figure 10).
    pub cells: Vec<Cell>,
    /// Steps: accesses to shared words.
    pub steps: Vec<Stepped>,
    /// A single thread on each of two heaps, alternating.
    pub local: Option<Result<Local, String>>,
    /// Throughput, by threads.
    pub scaling: Vec<Scaling>,
    /// Memory over the number of remotely freed blocks.
    pub drift: Vec<Drift>,
    /// The paper's claims, compared with our figures.
    pub claims: Vec<Claim>,
    /// Our goals, compared with our figures.
    pub targets: Vec<Claim>,
    /// Total duration.
    pub seconds: f64,
}

/// The measurement settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// Number of processors to which the threads were pinned in round-robin order; the minimum if results come from
    /// several machines.
    pub processors: u32,
    /// Priority of the threads, or why it is not the highest.
    pub priority: Result<u32, String>,
    /// Processors and priority of all results, if they differ.
    #[serde(default)]
    pub unlike: Vec<String>,
    /// Allocate-free pairs per thread in case II.
    pub pairs: u64,
    /// Repetitions of cases I and II, and of cases III and IV.
    pub repetitions: (u64, u64),
}

impl Setting {
    /// Whether this number of threads has one processor per thread.
    #[must_use]
    pub fn is_comparable(&self, threads: u32) -> bool {
        threads <= self.processors
    }
}

/// An allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// Name as `--on` takes it.
    pub name: String,
    /// Its origin.
    pub origin: Origin,
    /// The kind of lock, if it has one.
    pub lock: Option<String>,
    /// Guaranteed progress of allocate and deallocate.
    pub progress: Option<(String, String)>,
    /// Its possible reasons for refusing a request, as named in the contract.
    pub refuses: Vec<String>,
    /// The allocator of which it is a variant.
    pub option_of: Option<String>,
    /// Whether it takes its pages from the system.
    pub own_pages: bool,
}

/// A test case of section 3.5.2.
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

/// One allocator in one case with one number of threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The allocator.
    pub subject: String,
    /// The case.
    pub case: Case,
    /// Threads.
    pub threads: u32,
    /// Figures, or an error message.
    pub outcome: Result<Figures, String>,
}

/// Whether a measurement failed because its allocator is not installed.
#[must_use]
pub fn is_missing<T>(outcome: &Result<T, String>) -> bool {
    outcome.as_ref().err().is_some_and(|why| why.starts_with(NOT_INSTALLED))
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

/// Steps of an allocator's operations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stepped {
    /// The allocator.
    pub subject: String,
    /// The operations, or an error message.
    pub rows: Result<Vec<StepRow>, String>,
}

/// The maximum steps of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepRow {
    /// The operation.
    pub what: What,
    /// Number of operations observed.
    pub operations: u64,
    /// Maximum atomic RMWs, loads and stores, each over all operations.
    pub observed: [u64; 3],
    /// The published bound of each.
    pub bound: Option<[u64; 3]>,
}

impl StepRow {
    /// Whether the bound holds; `None` if none is published.
    #[must_use]
    pub fn within(&self) -> Option<bool> {
        self.bound.map(|bound| self.observed.iter().zip(bound).all(|(observed, bound)| *observed <= bound))
    }
}

/// An operation whose steps are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Allocate 948 B without contention.
    Allocate,
    /// Free it from the slot that allocated it.
    FreeLocal,
    /// Free it from another slot.
    FreeRemote,
    /// Allocate after a remote free.
    AllocateAfterRemote,
    /// A pair of case II under contention.
    Pair,
    /// An allocation that visits most nodes of a tree (the paper's figure 8), refused.
    AllocateWorst,
    /// Free a quarter of the heap.
    FreeLarge,
}

impl What {
    /// A description.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            What::Allocate => "allocate 948 B, one thread",
            What::FreeLocal => "free it, by the allocating thread",
            What::FreeRemote => "free it, by another thread",
            What::AllocateAfterRemote => "allocate 948 B after that",
            What::Pair => "both, two threads at a time",
            What::AllocateWorst => "refused request of 100 B, only leaves free (fig. 8)",
            What::FreeLarge => "free a quarter of the heap",
        }
    }
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

/// Throughput of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scaling {
    /// The allocator.
    pub subject: String,
    /// Figures, or an error message.
    pub outcome: Result<Vec<Throughput>, String>,
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

/// Memory over remote frees.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Drift {
    /// The allocator.
    pub subject: String,
    /// Figures, or an error message.
    pub outcome: Result<Memory, String>,
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

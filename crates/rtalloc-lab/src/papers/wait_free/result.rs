//! The schema of the wait-free paper's test cases and of what is measured beside them.

pub use crate::papers::claims::Claim;
use crate::result::schema::{Distribution, Environment, Origin};
use rtalloc_subjects::shared::Refused;
use serde::{Deserialize, Serialize};

/// Everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitFree {
    /// Where and with what it was measured.
    pub environment: Environment,
    /// How it was measured.
    pub setting: Setting,
    /// Who, in table order.
    pub subjects: Vec<Facts>,
    /// Test cases I to IV (figure 10).
    pub cells: Vec<Cell>,
    /// Steps: accesses to shared words.
    pub steps: Vec<Stepped>,
    /// One thread alone on each of two heaps, in turns.
    pub local: Option<Result<Local, String>>,
    /// Throughput, by threads.
    pub scaling: Vec<Scaling>,
    /// Memory over the number of blocks that one thread allocates and another frees.
    pub drift: Vec<Drift>,
    /// What the paper says, held against our figures.
    pub claims: Vec<Claim>,
    /// What we want of our own, held against our figures.
    pub targets: Vec<Claim>,
    /// Time of all of it.
    pub seconds: f64,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// Processors the threads were pinned to, in turns; the least where results come from several machines.
    pub processors: u32,
    /// Priority of the threads, or why it is not the highest.
    pub priority: Result<u32, String>,
    /// Processors and priority of all results, where they are not the same.
    #[serde(default)]
    pub unlike: Vec<String>,
    /// Pairs that each thread performs in case II.
    pub pairs: u64,
    /// How often cases I and II, and III and IV are repeated.
    pub repetitions: (u64, u64),
}

impl Setting {
    /// Whether so many threads have a processor each.
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
    /// Whose it is.
    pub origin: Origin,
    /// The kind of lock, where there is one.
    pub lock: Option<String>,
    /// Promised progress of allocate and deallocate.
    pub progress: Option<(String, String)>,
    /// Reasons it may refuse a request for, in the contract's words.
    pub refuses: Vec<String>,
    /// The allocator that it is an option of.
    pub option_of: Option<String>,
    /// Whether it takes its pages from the system.
    pub own_pages: bool,
}

/// A test case of section 3.5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Case {
    /// Allocate 948 B until that is refused.
    I,
    /// Allocate 948 B and free it.
    II,
    /// Allocate 10 B, 12, 15, ... until that is refused.
    III,
    /// The same, each freed at once; only the allocation is timed.
    IV,
}

impl Case {
    /// All four.
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

    /// What is done.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Case::I => "allocate 948 B until refused",
            Case::II => "allocate 948 B and free it, timed together",
            Case::III => "allocate 10 B and 1.25 times as much each time, until refused",
            Case::IV => "the same, each freed at once; the allocation timed",
        }
    }
}

/// One allocator in one case with so many threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Who.
    pub subject: String,
    /// What.
    pub case: Case,
    /// Threads.
    pub threads: u32,
    /// Figures, or what went wrong.
    pub outcome: Result<Figures, String>,
}

/// What a cell's operations took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Ticks of every operation that succeeded, the timer's subtracted; the histogram is exact.
    pub ticks: Distribution,
    /// The means of the repetitions.
    pub mean: Interval,
    /// Requested bytes / bytes of the heap when the last thread was refused.
    pub utilisation: Option<Interval>,
    /// Requests refused, by reason.
    pub refused: Refused,
    /// Refusals although the memory was there; `None` where that cannot be known.
    pub spurious: Option<u64>,
    /// Whether the time was over before the case was.
    pub unfinished: bool,
}

impl Figures {
    /// Coefficient of variation.
    #[must_use]
    pub fn cv(&self) -> f64 {
        self.ticks.std / self.ticks.mean.max(f64::MIN_POSITIVE)
    }
}

/// A mean of independent values, and half of its 95 % interval (normal).
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
    /// Who.
    pub subject: String,
    /// The operations, or what went wrong.
    pub rows: Result<Vec<StepRow>, String>,
}

/// The most steps of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepRow {
    /// Which.
    pub what: What,
    /// Operations observed.
    pub operations: u64,
    /// Most read-modify-writes, loads, stores; each over all operations.
    pub observed: [u64; 3],
    /// The published bound of each.
    pub bound: Option<[u64; 3]>,
}

impl StepRow {
    /// Whether the bound holds; `None` where none is published.
    #[must_use]
    pub fn within(&self) -> Option<bool> {
        self.bound.map(|bound| self.observed.iter().zip(bound).all(|(observed, bound)| *observed <= bound))
    }
}

/// An operation whose steps are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Allocate 948 B, nobody else there.
    Allocate,
    /// Free it, by the user who allocated it.
    FreeLocal,
    /// Free it, by another user.
    FreeRemote,
    /// Allocate after another user freed.
    AllocateAfterRemote,
    /// A pair of case II among others.
    Pair,
    /// An allocation that visits most nodes of a tree (the paper's figure 8), refused.
    AllocateWorst,
    /// Free a quarter of the heap.
    FreeLarge,
}

impl What {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            What::Allocate => "allocate 948 B, alone",
            What::FreeLocal => "free it, by who allocated it",
            What::FreeRemote => "free it, by another",
            What::AllocateAfterRemote => "allocate 948 B after that",
            What::Pair => "both, two threads at a time",
            What::AllocateWorst => "refuse 100 B, only leaves free (fig. 8)",
            What::FreeLarge => "free a quarter of the heap",
        }
    }
}

/// Two heaps in the hand of one thread, in turns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Local {
    /// Who.
    pub subject: String,
    /// With whom.
    pub against: String,
    /// What was performed.
    pub loads: Vec<LocalLoad>,
}

/// A load of [`Local`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LocalLoad {
    /// What.
    pub what: String,
    /// Mean ticks of an operation with each; medians over the rounds.
    pub ticks: [f64; 2],
    /// First, second and third quartile of the ratio over the rounds.
    pub ratio: [f64; 3],
    /// Rounds.
    pub rounds: u64,
}

/// Throughput of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scaling {
    /// Who.
    pub subject: String,
    /// Figures, or what went wrong.
    pub outcome: Result<Vec<Throughput>, String>,
}

/// A load that is performed by several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Load {
    /// Every thread performs the same mix, on blocks of its own.
    Mix,
    /// Half of the threads allocate, the others free.
    Remote,
}

impl Load {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Load::Mix => "own blocks",
            Load::Remote => "all frees remote",
        }
    }
}

/// Operations in a time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Throughput {
    /// What.
    pub load: Load,
    /// Threads.
    pub threads: u32,
    /// Operations of all threads in a second, allocations and frees; the median over the rounds.
    pub operations_per_second: f64,
    /// Quotient by that of one thread with the same load, round by round: quartiles.
    pub speed_up: Option<[f64; 3]>,
    /// Requests refused.
    pub refused: u64,
}

/// Memory over remote frees.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Drift {
    /// Who.
    pub subject: String,
    /// Figures, or what went wrong.
    pub outcome: Result<Memory, String>,
}

/// A curve of memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// What is told: the end of the highest block, or resident pages.
    pub of: String,
    /// Remote frees so far, and bytes: the most since the point before.
    pub points: Vec<(u64, u64)>,
    /// Requests refused.
    pub refused: u64,
}

impl Memory {
    /// The growth that is none: what is live differs by a sixteenth, and the most of many curves by chance.
    pub const STEADY: f64 = 1.25;

    /// By how much more memory the last half of the frees needed at its most than the first tenth.
    #[must_use]
    pub fn growth(&self) -> f64 {
        let most = |points: &[(u64, u64)]| points.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0).max(1);
        let (tenth, half) = (self.points.len().div_ceil(10), self.points.len() / 2);
        #[allow(clippy::cast_precision_loss)] // a quotient
        let growth = most(&self.points[half..]) as f64 / most(&self.points[..tenth]) as f64;
        growth
    }
}

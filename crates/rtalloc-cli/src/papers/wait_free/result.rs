//! The schema of the wait-free paper's test cases and of the additional measurements.

pub use crate::papers::claims::Claim;
pub use rtalloc_lab::result::contention::{Case, Figures, Interval, Load, Local, Memory, Throughput};
use rtalloc_lab::result::schema::{Environment, Origin};
use rtalloc_subjects::shared::NOT_INSTALLED;
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

/// Throughput of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scaling {
    /// The allocator.
    pub subject: String,
    /// Figures, or an error message.
    pub outcome: Result<Vec<Throughput>, String>,
}

/// Memory over remote frees.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Drift {
    /// The allocator.
    pub subject: String,
    /// Figures, or an error message.
    pub outcome: Result<Memory, String>,
}

//! The schema of results. What presents results depends on this module alone; `replay` and `probe` produce it.

pub use rtalloc_subjects::Origin;
use serde::{Deserialize, Serialize};

/// One run of `rtalloc run` or of the main job: every trace on every subject.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The measurement environment.
    pub environment: Environment,
    /// One entry per trace, in the order given.
    pub traces: Vec<TraceResult>,
    /// Worst-case costs over heap sizes, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<super::costs::Costs>,
}

/// The machine, kernel, compiler and clock of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Version of rtalloc, with the commit it was built from if known.
    pub rtalloc: String,
    /// Processor model as reported by the system.
    pub cpu: String,
    /// Number of processors online.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
    /// Compiler that built the laboratory.
    pub rustc: String,
    /// SHA-256 of the running binary, hexadecimal.
    pub binary: String,
    /// Ticks of the time-stamp counter per second.
    pub tsc_hz: u64,
    /// Calibrated cost of an empty measurement in ticks; already subtracted from every sample.
    pub timer_overhead_ticks: u64,
    /// Resolution of the time-stamp counter in ticks.
    pub timer_step_ticks: u64,
    /// Unix time of the run in seconds.
    pub unix_time: u64,
}

/// A trace and the results of every subject.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TraceResult {
    /// The trace.
    pub trace: TraceFacts,
    /// One cell per subject, in table order.
    pub cells: Vec<Cell>,
}

/// Properties of a trace, independent of any allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TraceFacts {
    /// File stem or model name.
    pub name: String,
    /// One line: the program or model, and its parameters.
    pub about: String,
    /// Operations of each kind.
    pub allocations: u64,
    /// Number of frees.
    pub frees: u64,
    /// Number of reallocations.
    pub reallocations: u64,
    /// Number of calling threads.
    pub threads: u32,
    /// M: the largest live memory in bytes (requested sizes).
    pub peak_live_bytes: u64,
    /// Largest number of live blocks.
    pub peak_live_blocks: u64,
    /// Largest single request in bytes.
    pub largest_request_bytes: u64,
    /// Live memory M(t) over the operation index, downsampled to at most a few hundred points that preserve maxima.
    pub live: Curve,
}

/// A curve over the operation index: (index, bytes).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Curve {
    /// Points in increasing order of index.
    pub points: Vec<(u64, u64)>,
}

/// One subject on one trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The subject.
    pub subject: SubjectFacts,
    /// Size of the replay's heap in bytes; `None` if the subject takes its own pages.
    pub heap_bytes: Option<u64>,
    /// The outcome.
    pub outcome: Outcome,
    /// Cycle probe, if requested and available.
    pub time: Option<Time>,
    /// Instruction probe, if requested and available.
    pub instructions: Option<Instructions>,
    /// Space probe, if requested and available.
    pub space: Option<Space>,
}

/// A measured allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectFacts {
    /// Name as `--on` takes it.
    pub name: String,
    /// `ours`, `peer` or `system`.
    pub origin: Origin,
    /// Family of the field's taxonomy: sequential, segregated, buddy, hybrid ...
    pub family: String,
    /// Cost class of allocate as stated by its author: "O(1)", "O(log n)", "O(n)", "unbounded".
    pub cost: String,
    /// Largest request that a heap of any size can serve, in bytes; `None` if only the heap limits it.
    #[serde(default)]
    pub largest_request_bytes: Option<u64>,
    /// Largest alignment that a heap of any size can serve, in bytes; `None` if only the heap limits it.
    #[serde(default)]
    pub largest_alignment_bytes: Option<u64>,
    /// Instructions to read a byte of an object, if objects have handles; a pointer takes 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_instructions: Option<u64>,
}

/// The outcome of a trace's replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every operation succeeded.
    Completed,
    /// Some allocations failed; the replay continued without those blocks.
    Failures {
        /// Failed allocations and reallocations.
        failed: u64,
        /// Index of the first operation that failed.
        first: u64,
        /// The number of these requests whose size or alignment exceeds what any heap of this allocator serves.
        #[serde(default)]
        beyond_reach: u64,
    },
    /// Not measured because the machine was busy; says nothing about the allocator.
    NotMeasured {
        /// The reason.
        what: String,
    },
    /// Stopped at the processor-time limit; the figures cover the operations up to `at`.
    TimedOut {
        /// Index of the first operation that was not replayed.
        at: u64,
    },
    /// Could not run, or crashed, with a description.
    Broken {
        /// The reason.
        what: String,
    },
}

/// A distribution of samples.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of samples.
    pub count: u64,
    /// Smallest sample.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Population standard deviation.
    pub std: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest sample (for cycles on a shared machine: noise).
    pub max: u64,
    /// Histogram: (value, samples), increasing; exact for instructions, three significant digits for time.
    pub histogram: Vec<(u64, u64)>,
}

/// Time in ticks of the time-stamp counter, per operation, after voting.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Time {
    /// R: number of identical replays; each operation's minimum is kept.
    pub replicas: u32,
    /// Successful allocations.
    pub allocate: Distribution,
    /// Frees.
    pub free: Distribution,
    /// Reallocations.
    pub reallocate: Distribution,
}

/// Executed instructions of every operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Instructions {
    /// Successful allocations.
    pub allocate: Distribution,
    /// Frees.
    pub free: Distribution,
    /// Reallocations.
    pub reallocate: Distribution,
    /// Maximum instructions per entry point, refused requests included: allocate, allocate at a larger alignment,
    /// deallocate, reallocate. 0 if not called.
    pub most: [u64; 4],
    /// Allocations that returned null. Excluded from every distribution, included in every displayed maximum.
    #[serde(default)]
    pub refused_allocate: Refused,
    /// Reallocations that returned null.
    #[serde(default)]
    pub refused_reallocate: Refused,
}

/// Requests that an allocator executed and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Their number.
    pub count: u64,
    /// Their maximum instructions.
    pub max: u64,
}

impl Instructions {
    /// Maximum instructions of an allocation, served or refused; `None` if there was none.
    #[must_use]
    pub fn max_allocate(&self) -> Option<u64> {
        most(&self.allocate, self.refused_allocate)
    }

    /// Maximum instructions of a free; `None` if there was none.
    #[must_use]
    pub fn max_free(&self) -> Option<u64> {
        most(&self.free, Refused::default())
    }

    /// Maximum instructions of a reallocation, served or refused; `None` if there was none.
    #[must_use]
    pub fn max_reallocate(&self) -> Option<u64> {
        most(&self.reallocate, self.refused_reallocate)
    }
}

fn most(served: &Distribution, refused: Refused) -> Option<u64> {
    (served.count + refused.count > 0).then(|| served.max.max(refused.max))
}

/// Space, as defined in METHODOLOGY.md.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Space {
    /// H: largest end address of any block minus the start of the block area, control structure excluded, in bytes.
    pub high_water_bytes: u64,
    /// H including the control structure, from the start of the region, in bytes.
    pub high_water_with_control_bytes: u64,
    /// M: largest live memory of the replayed operations, in bytes.
    pub peak_live_bytes: u64,
    /// F = (H - M) / M, as a fraction.
    pub fragmentation: f64,
    /// Smallest heap, control structure included, that serves the whole trace, found by bisection, in bytes.
    pub smallest_heap_bytes: Option<u64>,
    /// Used memory (running H) over the operation index.
    pub used: Curve,
}

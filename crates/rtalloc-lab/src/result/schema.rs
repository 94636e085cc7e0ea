//! The schema of results. `present` depends on this module alone; `replay` and `probe` produce it.

pub use rtalloc_subjects::Origin;
use serde::{Deserialize, Serialize};

/// One run of `rtalloc run` or of the main job: every trace on every subject.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Where and with what it was measured.
    pub environment: Environment,
    /// One entry per trace, in the order given.
    pub traces: Vec<TraceResult>,
    /// What worst cases cost over heap sizes, where that was measured too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<super::costs::Costs>,
}

/// The machine, kernel, compiler and clock of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Version of rtalloc, with the commit it was built from where that is known.
    pub rtalloc: String,
    /// Processor model as the system names it.
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
    /// Smallest step between two readings of the time-stamp counter in ticks.
    pub timer_step_ticks: u64,
    /// Unix time of the run in seconds.
    pub unix_time: u64,
}

/// One trace and what every subject made of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TraceResult {
    /// What was replayed.
    pub trace: TraceFacts,
    /// One cell per subject, in table order.
    pub cells: Vec<Cell>,
}

/// Facts of a trace, independent of any allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TraceFacts {
    /// File stem or model name.
    pub name: String,
    /// One line: which program or model, which parameters.
    pub about: String,
    /// Operations of each kind.
    pub allocations: u64,
    /// Number of frees.
    pub frees: u64,
    /// Number of reallocations.
    pub reallocations: u64,
    /// Threads that called.
    pub threads: u32,
    /// M: the largest live memory in bytes (requested sizes).
    pub peak_live_bytes: u64,
    /// Largest number of live blocks.
    pub peak_live_blocks: u64,
    /// Largest single request in bytes.
    pub largest_request_bytes: u64,
    /// Live memory M(t) over the operation index, at most a few hundred points, maxima kept.
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
    /// Who was measured.
    pub subject: SubjectFacts,
    /// Size of the heap the trace was replayed in, in bytes; `None` where the subject takes its own pages.
    pub heap_bytes: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Cycle probe, where asked for and possible.
    pub time: Option<Time>,
    /// Instruction probe, where asked for and possible.
    pub instructions: Option<Instructions>,
    /// Space probe, where asked for and possible.
    pub space: Option<Space>,
}

/// Who was measured.
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
    /// Largest request that it serves in a heap of any size, in bytes; `None` where the heap alone decides.
    #[serde(default)]
    pub largest_request_bytes: Option<u64>,
    /// Largest alignment that it serves in a heap of any size, in bytes; `None` where the heap alone decides.
    #[serde(default)]
    pub largest_alignment_bytes: Option<u64>,
    /// Instructions to read a byte of an object, where objects have handles; a pointer takes 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_instructions: Option<u64>,
}

/// How the replay of a trace ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every operation succeeded.
    Completed,
    /// Some allocations failed; the replay went on without those blocks.
    Failures {
        /// Failed allocations and reallocations.
        failed: u64,
        /// Index of the first operation that failed.
        first: u64,
        /// How many of them no heap serves: they are larger, or at a larger alignment, than the allocator ever serves.
        #[serde(default)]
        beyond_reach: u64,
    },
    /// Not measured, and nothing is known of the allocator: the machine was busy.
    NotMeasured {
        /// The reason.
        what: String,
    },
    /// Stopped after the processor time allowed; the figures are of the operations up to `at`.
    TimedOut {
        /// Index of the first operation that was not replayed.
        at: u64,
    },
    /// Could not run at all, or crashed: what happened, in words.
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
    /// Histogram: (value, samples), increasing; exact for instructions, at three significant digits for time.
    pub histogram: Vec<(u64, u64)>,
}

/// Time in ticks of the time-stamp counter, per operation, after voting.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Time {
    /// R: identical replays of which each operation's minimum was kept.
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
    /// Most instructions of each entry point, refused requests included: allocate, allocate at a larger alignment,
    /// deallocate, reallocate. 0 where it was not called.
    pub most: [u64; 4],
    /// Allocations that returned null. They are in no distribution, and in every maximum that is shown.
    #[serde(default)]
    pub refused_allocate: Refused,
    /// Reallocations that returned null.
    #[serde(default)]
    pub refused_reallocate: Refused,
}

/// Requests that an allocator executed and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// How many.
    pub count: u64,
    /// Most instructions of one of them.
    pub max: u64,
}

impl Instructions {
    /// Most instructions of an allocation, served or refused; `None` where there was none.
    #[must_use]
    pub fn max_allocate(&self) -> Option<u64> {
        most(&self.allocate, self.refused_allocate)
    }

    /// Most instructions of a free; `None` where there was none.
    #[must_use]
    pub fn max_free(&self) -> Option<u64> {
        most(&self.free, Refused::default())
    }

    /// Most instructions of a reallocation, served or refused; `None` where there was none.
    #[must_use]
    pub fn max_reallocate(&self) -> Option<u64> {
        most(&self.reallocate, self.refused_reallocate)
    }
}

fn most(served: &Distribution, refused: Refused) -> Option<u64> {
    (served.count + refused.count > 0).then(|| served.max.max(refused.max))
}

/// Space as METHODOLOGY.md defines it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Space {
    /// H: largest end address handed out minus the start of the first block's area, control structure excluded, bytes.
    pub high_water_bytes: u64,
    /// H including the control structure, counted from the start of the region, bytes.
    pub high_water_with_control_bytes: u64,
    /// M: largest live memory of the operations replayed, bytes.
    pub peak_live_bytes: u64,
    /// F = (H - M) / M, as a fraction.
    pub fragmentation: f64,
    /// Smallest heap, control structure included, in which the whole trace succeeds, by bisection, bytes.
    pub smallest_heap_bytes: Option<u64>,
    /// Used memory (running H) over the operation index.
    pub used: Curve,
}

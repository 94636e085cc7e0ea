//! The schema of the Bitframe thesis' experiments (2012, chapter 6): each measurement is a [`Unit`], determined by its
//! parameters; their combined result is a [`Thesis`].

pub use crate::papers::claims::Claim;
use crate::papers::sample::Sample;
pub use crate::papers::tlsf::result::{Costs, Side};
use rtalloc_lab::result::schema::Curve;
use serde::{Deserialize, Serialize};

/// Largest request of the thesis' traces, in bytes.
pub const LARGEST_BYTES: u64 = 512;

/// Width of the size classes of figures 14 to 17, in bytes.
pub const CLASS_BYTES: u64 = 8;

/// One of the thesis' four traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A recording up to the point at which its heap stops growing.
    Boot,
    /// The rest of it.
    Stable,
    /// Sizes U[1, 512] B.
    Uniform,
    /// Sizes Normal(32, 19.455) B.
    Small,
}

impl Part {
    /// All traces, in the thesis' order.
    pub const ALL: [Self; 4] = [Self::Boot, Self::Stable, Self::Uniform, Self::Small];

    /// The name in the thesis.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Stable => "stable",
            Self::Uniform => "uniform",
            Self::Small => "small",
        }
    }

    /// Number of the thesis' memory table for this trace.
    #[must_use]
    pub const fn table(self) -> u32 {
        match self {
            Self::Boot => 5,
            Self::Stable => 6,
            Self::Uniform => 7,
            Self::Small => 8,
        }
    }

    /// Whether it is a part of a recording.
    #[must_use]
    pub const fn is_recorded(self) -> bool {
        matches!(self, Self::Boot | Self::Stable)
    }
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Load {
    /// The thesis' trace that it is, or replaces.
    pub part: Part,
    /// The recording that it is a part of; `None` for generated traces.
    pub recording: Option<String>,
}

impl Load {
    /// Name of the trace, with its recording.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.recording {
            Some(recording) => format!("{}, {recording}", self.part.name()),
            None => self.part.name().into(),
        }
    }

    /// The same as a part of a file name.
    #[must_use]
    pub fn slug(&self) -> String {
        self.name().replace(", ", "-")
    }
}

/// A measurement performed in a process of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Memory and instructions of every allocator on a trace. Yields [`Found::Replayed`].
    Replay {
        /// The trace.
        load: Load,
        /// Seed of its generator; 0 for a recorded trace.
        seed: u64,
    },
    /// Ticks of an allocator on a trace, each operation's minimum over replicas. Yields [`Found::Time`].
    Time {
        /// The trace, of the first seed.
        load: Load,
        /// The allocator.
        subject: String,
        /// Number of identical replays.
        replicas: u32,
    },
    /// The size granted for every request. Yields [`Found::Sizes`].
    Sizes,
    /// The cost of the first operations in a heap. Yields [`Found::Pages`].
    Pages,
}

/// The result of a unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Found {
    /// Of [`Unit::Replay`].
    Replayed(Replayed),
    /// Of [`Unit::Time`].
    Time(Costs),
    /// Of [`Unit::Sizes`].
    Sizes(Vec<Granted>),
    /// Of [`Unit::Pages`].
    Pages(Vec<Opening>),
}

/// The contents of a trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Operations.
    pub operations: u64,
    /// Allocations among them; the others are frees.
    pub mallocs: u64,
    /// M in bytes.
    pub peak_live_bytes: u64,
    /// Largest number of live blocks.
    pub peak_live_blocks: u64,
    /// Number of allocations in each class of [`CLASS_BYTES`], starting with the smallest sizes.
    pub classes: Vec<u64>,
    /// Live memory over the operations.
    pub live: Curve,
}

/// Every allocator on a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replayed {
    /// The contents of the trace.
    pub facts: Facts,
    /// Number of operations that every allocator served: the equal prefix.
    pub prefix_operations: u64,
    /// In the order of [`Thesis::names`]: the run up to the first request that failed and the run up to the end of the
    /// equal prefix, or an error message.
    pub runs: Vec<Result<[Run; 2], String>>,
}

/// A run of an allocator on a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Memory.
    pub figures: Figures,
    /// Number of operations served.
    pub operations: u64,
    /// Whether the whole trace was served.
    pub completed: bool,
    /// Instructions, with exact histograms.
    pub instructions: Costs,
    /// Memory over time, if the trace was recorded.
    pub timeline: Vec<Moment>,
}

/// The figures of tables 5 to 8 of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// H, the control structure included, in bytes.
    pub high_water_bytes: f64,
    /// M in bytes.
    pub live_bytes: f64,
    /// F = (H - M) / M, a fraction.
    pub fragmentation: f64,
    /// I = L / (H - M), a fraction.
    pub overhead: f64,
}

/// The figures of tables 5 to 8 over all seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The mean of H, in bytes.
    pub high_water_bytes: f64,
    /// The mean of M, in bytes.
    pub live_bytes: f64,
    /// F, as fractions.
    pub fragmentation: Sample,
    /// I, as fractions.
    pub overhead: Sample,
}

/// Memory after an operation, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Operations performed.
    pub operation: u64,
    /// H so far, the control structure included.
    pub used_bytes: u64,
    /// L after this operation.
    pub bookkeeping_bytes: u64,
    /// Bytes granted in excess of the requests; for regions, all bytes of their pages not requested by a live block.
    pub internal_bytes: u64,
    /// Bytes requested and not freed.
    pub live_bytes: u64,
}

/// The sizes an allocator grants for requests of 1 byte to [`LARGEST_BYTES`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Granted {
    /// The allocator.
    pub name: String,
    /// Bytes granted, starting with a request of 1 byte.
    pub bytes: Result<Vec<u64>, String>,
}

impl Granted {
    /// Among the requests of at least `least` bytes, the one that wastes the largest share of its block, and its
    /// granted size.
    #[must_use]
    pub fn worst(&self, least: u64) -> Option<(u64, u64)> {
        let all = (1..).zip(self.bytes.as_ref().ok()?.iter().copied());
        let lost = |(request, granted): (u64, u64)| (granted - request) as f64 / granted as f64;
        // The first of equal ones.
        all.skip_while(|(request, _)| *request < least)
            .reduce(|worst, one| if lost(one) > lost(worst) { one } else { worst })
    }
}

/// Instructions of a bitframe heap when a page is taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opening {
    /// The allocator.
    pub name: String,
    /// Counts, or an error message.
    pub counts: Result<Openings, String>,
}

/// Counts of [`Opening`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Openings {
    /// malloc of 8 bytes in a heap without pages: takes a page of 8-byte chunks.
    pub small: u64,
    /// The same again, in that page.
    pub small_again: u64,
    /// malloc of 512 bytes in a heap without pages: takes a page of large chunks.
    pub large: u64,
    /// The same again, in that page.
    pub large_again: u64,
    /// free of a page's last block, which releases the page.
    pub free_last: u64,
    /// The longest malloc while pages are filled, returned and filled again, of 8 or of 512 bytes.
    pub returned: u64,
}

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// The first seed of generated traces, which are timed and shown.
    pub first_seed: u64,
    /// Traces per generator; figures are means over them.
    pub seeds: u64,
    /// Number of identical replays, of which each operation's minimum time counts; 0 disables timing.
    pub replicas: u32,
}

/// All results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thesis {
    /// The settings.
    pub settings: Settings,
    /// Names of the allocators: the thesis' seven, then the variants of bframe.
    pub names: Vec<String>,
    /// Every trace.
    pub traces: Vec<OnTrace>,
    /// The sizes granted for all requests.
    pub sizes: Result<Vec<Granted>, String>,
    /// The cost of the first operations in a heap.
    pub pages: Result<Vec<Opening>, String>,
    /// The thesis' claims, and whether our figures confirm them.
    pub claims: Vec<Claim>,
}

/// A trace, with the results of every allocator on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OnTrace {
    /// The trace.
    pub load: Load,
    /// Its contents; for a generated trace, those of the first seed.
    pub facts: Facts,
    /// Number of operations that every allocator served for every seed: the equal prefix.
    pub prefix_operations: u64,
    /// In the order of [`Thesis::names`].
    pub rows: Vec<Row>,
}

impl OnTrace {
    /// The measurements of an allocator.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&Measured> {
        self.rows.iter().find(|row| row.name == name)?.ours.as_ref().ok()
    }
}

/// An allocator on a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name in the thesis, or name of the variant.
    pub name: String,
    /// The measurements, or an error message.
    pub ours: Result<Measured, String>,
    /// Ticks up to the first request that fails; `None` without timing.
    pub ticks: Option<Result<Costs, String>>,
}

/// The measurements of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Up to the first request that failed.
    pub cut: Summary,
    /// Up to the end of the equal prefix.
    pub prefix: Summary,
    /// Operations up to the first request that failed, the mean over the seeds.
    pub operations: f64,
    /// Number of seeds for which the whole trace was served.
    pub completed: u64,
    /// Instructions up to the first request that failed, over all seeds.
    pub instructions: Costs,
    /// Instructions up to the end of the equal prefix.
    pub prefix_instructions: Costs,
    /// Memory over time, if the trace was recorded.
    pub timeline: Vec<Moment>,
}

//! The schema of the Bitframe thesis' experiments (2012, chapter 6): what is measured is a [`Unit`], which its
//! parameters alone determine; what all of them come to is a [`Thesis`].

pub use crate::papers::claims::Claim;
pub use crate::papers::tlsf::result::Costs;
use crate::result::schema::Curve;
use serde::{Deserialize, Serialize};

/// Largest request of the thesis' traces, in bytes.
pub const LARGEST_BYTES: u64 = 512;

/// Width of the size classes of figures 14 to 17, in bytes.
pub const CLASS_BYTES: u64 = 8;

/// One of the thesis' four traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A recording up to where its heap stops growing.
    Boot,
    /// The rest of it.
    Stable,
    /// Sizes U[1, 512] B.
    Uniform,
    /// Sizes Normal(32, 19.455) B.
    Small,
}

impl Part {
    /// In the thesis' order.
    pub const ALL: [Self; 4] = [Self::Boot, Self::Stable, Self::Uniform, Self::Small];

    /// As the thesis names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Stable => "stable",
            Self::Uniform => "uniform",
            Self::Small => "small",
        }
    }

    /// Number of its table of memory.
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
    /// Which of the thesis' it is, or stands for.
    pub part: Part,
    /// The recording that it is a part of; `None` where a generator draws it.
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

    /// The same as a part of a file's name.
    #[must_use]
    pub fn slug(&self) -> String {
        self.name().replace(", ", "-")
    }
}

/// What is measured at once, in a process of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Memory and instructions of every allocator on a trace. Gives [`Found::Replayed`].
    Replay {
        /// The trace.
        load: Load,
        /// Seed of its generator; 0 where it was recorded.
        seed: u64,
    },
    /// Ticks of an allocator on a trace, each operation's least of some replicas. Gives [`Found::Time`].
    Time {
        /// The trace, of seed 1.
        load: Load,
        /// The allocator.
        subject: String,
        /// Identical replays.
        replicas: u32,
    },
    /// What every request is granted. Gives [`Found::Sizes`].
    Sizes,
    /// What taking a page costs. Gives [`Found::Pages`].
    Pages,
}

/// What a unit came to.
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

/// What is in a trace.
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
    /// Allocations in each class of [`CLASS_BYTES`], from the smallest sizes on.
    pub classes: Vec<u64>,
    /// Live memory over the operations.
    pub live: Curve,
}

/// Every allocator on a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replayed {
    /// What the trace is.
    pub facts: Facts,
    /// Operations that every allocator served: the equal prefix.
    pub prefix_operations: u64,
    /// In the order of [`Thesis::names`]: up to the first request that failed and up to the end of the equal prefix, or
    /// what went wrong.
    pub runs: Vec<Result<[Run; 2], String>>,
}

/// A run of an allocator on a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Memory.
    pub figures: Figures,
    /// Operations that were served.
    pub operations: u64,
    /// Whether that is the whole trace.
    pub completed: bool,
    /// Instructions, with exact histograms.
    pub instructions: Costs,
    /// Memory on the way, where the trace was recorded.
    pub course: Vec<Moment>,
}

/// The figures of tables 5 to 8.
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

/// Memory behind an operation, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Operations performed.
    pub operation: u64,
    /// H so far, the control structure included.
    pub used_bytes: u64,
    /// L at this moment.
    pub bookkeeping_bytes: u64,
    /// Granted and not requested; of regions, whatever of their pages no live block asked for.
    pub internal_bytes: u64,
    /// Requested and not freed.
    pub live_bytes: u64,
}

/// What an allocator grants for requests of 1 byte to [`LARGEST_BYTES`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Granted {
    /// The allocator.
    pub name: String,
    /// Bytes granted, for 1 byte on.
    pub bytes: Result<Vec<u64>, String>,
}

impl Granted {
    /// Of the requests from `least` bytes on, the one that loses most of its block, and what it is granted.
    #[must_use]
    pub fn worst(&self, least: u64) -> Option<(u64, u64)> {
        let all = (1..).zip(self.bytes.as_ref().ok()?.iter().copied());
        let lost = |(request, granted): (u64, u64)| (granted - request) as f64 / granted as f64;
        // Of equal ones the first.
        all.skip_while(|(request, _)| *request < least)
            .reduce(|worst, one| if lost(one) > lost(worst) { one } else { worst })
    }
}

/// Instructions of a bitframe heap around the taking of a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opening {
    /// The allocator.
    pub name: String,
    /// Counts, or what went wrong.
    pub counts: Result<Openings, String>,
}

/// Counts of [`Opening`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Openings {
    /// malloc of 8 bytes in a heap without a page: takes one of 8-byte chunks.
    pub small: u64,
    /// The same again, in that page.
    pub small_again: u64,
    /// malloc of 512 bytes in a heap without a page: takes one of large chunks.
    pub large: u64,
    /// The same again, in that page.
    pub large_again: u64,
    /// free of a page's last block, which gives the page back.
    pub free_last: u64,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// Traces of each generator; figures are means over them.
    pub seeds: u64,
    /// Identical replays of which an operation's least time counts; without one nothing is timed.
    pub replicas: u32,
}

/// Everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thesis {
    /// What was asked for.
    pub settings: Settings,
    /// Names of the allocators: the thesis' seven, then the variants of bframe.
    pub names: Vec<String>,
    /// Every trace.
    pub traces: Vec<OnTrace>,
    /// What requests are granted.
    pub sizes: Result<Vec<Granted>, String>,
    /// What taking a page costs.
    pub pages: Result<Vec<Opening>, String>,
    /// What the thesis says, and whether our figures say so too.
    pub claims: Vec<Claim>,
}

/// A trace, with every allocator on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OnTrace {
    /// Which.
    pub load: Load,
    /// What is in it; of a generator's, in that of seed 1.
    pub facts: Facts,
    /// Operations that every allocator served, for every seed: the equal prefix.
    pub prefix_operations: u64,
    /// In the order of [`Thesis::names`].
    pub rows: Vec<Row>,
}

impl OnTrace {
    /// What was measured of an allocator.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&Measured> {
        self.rows.iter().find(|row| row.name == name)?.ours.as_ref().ok()
    }
}

/// An allocator on a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name in the thesis, or of the variant.
    pub name: String,
    /// What was measured, or what went wrong.
    pub ours: Result<Measured, String>,
    /// Ticks up to the first request that fails; `None` where nothing was timed.
    pub ticks: Option<Result<Costs, String>>,
}

/// What was measured of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Up to the first request that failed, the mean over the seeds.
    pub cut: Figures,
    /// Up to the end of the equal prefix.
    pub prefix: Figures,
    /// Operations up to the first request that failed, the mean over the seeds.
    pub operations: f64,
    /// For how many of the seeds the whole trace was served.
    pub completed: u64,
    /// Instructions up to the first request that failed, over all seeds.
    pub instructions: Costs,
    /// Instructions up to the end of the equal prefix.
    pub prefix_instructions: Costs,
    /// Memory on the way, where the trace was recorded.
    pub course: Vec<Moment>,
}

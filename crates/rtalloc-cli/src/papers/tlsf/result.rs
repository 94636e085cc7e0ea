//! The schema of the TLSF paper's experiments: each measurement is a [`Unit`], determined by its parameters; its result
//! is a [`Cell`]. Tables, figures and verdicts are computed from cells.

pub use crate::papers::claims::Claim;
use crate::papers::published::Both;
use crate::papers::sample::Sample;
use rtalloc_lab::result::schema::Distribution;
use rtalloc_lab::workload::Holding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of mallocs that figure 9 shows, at the beginning and at the end.
pub const SHOWN: (u64, u64) = (5000, 1000);

/// Width of figure 7's bins, in bytes.
pub const SIZE_BIN_BYTES: u64 = 250;

/// A profile of section 7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Profile {
    /// Large blocks, g in 8 to 64 KiB.
    P1,
    /// Small blocks, g in 64 B to 8 KiB.
    P2,
    /// Mixed blocks, g in 64 B to 48 KiB.
    P3,
}

impl Profile {
    /// Every profile, in the order of the tables' columns.
    pub const ALL: [Self; 3] = [Self::P1, Self::P2, Self::P3];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::P1 => "P1",
            Self::P2 => "P2",
            Self::P3 => "P3",
        }
    }
}

/// A task set and the allocator that serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The profile from which the set is drawn.
    pub profile: Profile,
    /// The interpretation of holding times.
    pub holding: Holding,
    /// The set: seed of the generator.
    pub set: u64,
    /// Allocations performed.
    pub mallocs: u64,
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// The allocator.
    pub subject: String,
}

/// A measurement performed in a process of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Instructions and memory of consecutive task sets: tables V and VI. Yields [`Found::Run`].
    Run {
        /// The load of the first set.
        load: Load,
        /// Number of sets.
        sets: u64,
    },
    /// Ticks of a load, each operation's minimum over replicas: table IV, figure 8. Yields [`Found::Time`].
    Time {
        /// The load.
        load: Load,
        /// Number of identical replays.
        replicas: u32,
    },
    /// Memory over time: figure 9. Yields [`Found::Timeline`].
    Timeline(Load),
    /// Instructions of single operations under a random load: figure 6. Yields [`Found::Bands`].
    Bands {
        /// The allocator.
        subject: String,
        /// Seed of the load.
        seed: u64,
        /// Allocations performed.
        mallocs: u64,
    },
    /// Instructions of the steps of operations under the same load: tables I and II. Yields [`Found::Steps`].
    Steps {
        /// The allocator.
        subject: String,
        /// Seed of the load.
        seed: u64,
        /// Allocations performed.
        mallocs: u64,
    },
    /// Worst-case scenarios and static bounds: section 6.1. Yields [`Found::Worst`].
    Worst {
        /// The allocator.
        subject: String,
    },
    /// Maximum internal fragmentation of a request: section 5.3. Yields [`Found::Internal`].
    Internal {
        /// The allocator.
        subject: String,
    },
}

impl Unit {
    /// The allocator.
    #[must_use]
    pub fn subject(&self) -> &str {
        match self {
            Self::Run { load, .. } | Self::Time { load, .. } | Self::Timeline(load) => &load.subject,
            Self::Bands { subject, .. }
            | Self::Steps { subject, .. }
            | Self::Worst { subject }
            | Self::Internal { subject } => subject,
        }
    }
}

/// A unit and its result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The measurement.
    pub unit: Unit,
    /// The figures, or an error message.
    pub found: Result<Found, String>,
    /// Duration of the measurement, in seconds; apart from ticks, the only value that varies between runs.
    pub seconds: f64,
}

/// The figures of a unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Found {
    /// Of [`Unit::Run`].
    Run(Runs),
    /// Of [`Unit::Time`].
    Time(Costs),
    /// Of [`Unit::Timeline`].
    Timeline(Vec<Moment>),
    /// Of [`Unit::Bands`].
    Bands(Vec<Seen>),
    /// Of [`Unit::Steps`].
    Steps(Steps),
    /// Of [`Unit::Worst`].
    Worst(Vec<Worst>),
    /// Of [`Unit::Internal`].
    Internal(Vec<Octave>),
}

/// The cost of malloc and free.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Costs {
    /// Every malloc that was served.
    pub malloc: Distribution,
    /// Every free.
    pub free: Distribution,
}

/// The value for one operation.
pub type Side = fn(&Costs) -> &Distribution;

impl Costs {
    /// Both values with their names, for tables with malloc above free.
    pub const SIDES: [(&'static str, Side); 2] = [("malloc", |costs| &costs.malloc), ("free", |costs| &costs.free)];
}

/// The results of consecutive task sets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Runs {
    /// Instructions of all sets, with exact histograms.
    pub instructions: Costs,
    /// Each set.
    pub each: Vec<Run>,
}

/// The results of a task set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Mean instructions of malloc and of free.
    pub instructions: Both<f64>,
    /// Memory.
    pub space: Space,
    /// Number of refused requests.
    pub refused: u64,
}

/// Memory of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// M: largest sum of requested bytes.
    pub peak_live_bytes: u64,
    /// H: highest end address minus the start of the area of blocks.
    pub high_water_bytes: u64,
    /// H with the control structure.
    pub high_water_with_control_bytes: u64,
    /// S: largest sum of granted bytes.
    pub peak_granted_bytes: u64,
    /// The four definitions of F by Johnstone and Wilson.
    pub fragmentation: Variants,
}

/// Johnstone and Wilson's four ratios of used memory, H so far, to live memory, each minus 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variants {
    /// 1: used / live, the mean over all operations.
    pub mean: f64,
    /// 2: used / live at the peak of live memory.
    pub at_peak_live: f64,
    /// 3: used / live when used memory first reaches its maximum.
    pub at_peak_used: f64,
    /// 4: maximum used / maximum live, independent of time: the paper's F.
    pub of_peaks: f64,
}

/// Memory after a malloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Number of the malloc, from 0.
    pub malloc: u64,
    /// Live bytes.
    pub live_bytes: u64,
    /// Bytes used so far, H.
    pub used_bytes: u64,
}

/// The kind of an operation of figure 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// malloc uses a free block without splitting it.
    Exact,
    /// The same, and the block was the last of its list.
    ExactLast,
    /// malloc splits a free block.
    Split,
    /// free finds no free neighbour.
    None,
    /// free finds one free neighbour.
    One,
    /// free finds two free neighbours.
    Two,
}

impl Kind {
    /// All kinds, those of malloc first.
    pub const ALL: [Self; 6] = [Self::Exact, Self::ExactLast, Self::Split, Self::None, Self::One, Self::Two];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact, others in its list",
            Self::ExactLast => "exact, last of its list",
            Self::Split => "split",
            Self::None => "no free neighbour",
            Self::One => "one free neighbour",
            Self::Two => "two free neighbours",
        }
    }

    /// Whether it is a kind of malloc.
    #[must_use]
    pub const fn is_malloc(self) -> bool {
        matches!(self, Self::Exact | Self::ExactLast | Self::Split)
    }
}

/// A single operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its number among the operations of the same type, starting at 0.
    pub index: u64,
    /// Its kind.
    pub kind: Kind,
    /// Whether the request was smaller than 128 bytes.
    pub small: bool,
    /// Its instructions.
    pub instructions: u64,
}

/// Instructions of no step of the paper: checks of the request and of tags, the counters, entry and return.
pub const REST: &str = "rest";

/// Instructions of the steps of operations, by the paper's names, and [`REST`]: the number of operations for each
/// instruction count of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// malloc, table I.
    pub malloc: BTreeMap<String, BTreeMap<u64, u64>>,
    /// free, table II.
    pub free: BTreeMap<String, BTreeMap<u64, u64>>,
}

/// An operation's worst cases.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Worst {
    /// "malloc" or "free".
    pub operation: String,
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// Static bound in a heap of 16 MiB; `None` if a search makes it useless.
    pub bound: Option<u64>,
}

/// A worst-case scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scenario {
    /// Its description.
    pub name: String,
    /// Whether the scenario is from a paper, rather than ours.
    pub paper: bool,
    /// Instructions of its last operation.
    pub instructions: u64,
}

/// Requests between two powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Octave {
    /// The smaller power of two, in bytes.
    pub from_bytes: u64,
    /// The request that wastes the largest share of its block.
    pub request_bytes: u64,
    /// Its granted size.
    pub granted_bytes: u64,
}

impl Octave {
    /// The share of the block that is wasted.
    #[must_use]
    pub fn lost(&self) -> f64 {
        (self.granted_bytes - self.request_bytes) as f64 / self.granted_bytes as f64
    }
}

/// The settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Task sets per profile and reading of the allocators whose F is compared with the paper's.
    pub sets: u64,
    /// Task sets per profile for timing, and of the other allocators.
    pub few_sets: u64,
    /// The first task set: seed of the generator.
    pub first_set: u64,
    /// Allocations per set.
    pub mallocs: u64,
    /// The interpretation of the holding time in tables IV to VI.
    pub holding: Holding,
    /// Number of identical replays, of which each operation's minimum time counts.
    pub replicas: u32,
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// The allocators, the paper's first.
    pub subjects: Vec<String>,
}

/// All results: settings, cells, pools of all sets of a profile, and verdicts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tlsf {
    /// The settings.
    pub settings: Settings,
    /// Every unit with its result.
    pub cells: Vec<Cell>,
    /// Figure 7: bins of [`SIZE_BIN_BYTES`] by lower edge, and the number per thousand requests of table III's task set
    /// in each.
    pub sizes: Vec<(u64, f64)>,
    /// The task sets of each profile, combined.
    pub pools: Vec<Pool>,
    /// The paper's claims, and whether our figures confirm them.
    pub claims: Vec<Claim>,
}

/// All task sets of a profile combined, for one reading.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pool {
    /// The allocator.
    pub subject: String,
    /// The profile.
    pub profile: Profile,
    /// The reading.
    pub holding: Holding,
    /// Number of sets.
    pub sets: u64,
    /// Mallocs of all sets.
    pub mallocs: u64,
    /// Instructions of all operations of all sets.
    pub instructions: Costs,
    /// The sets' mean instructions of malloc and of free.
    pub mean_instructions: Both<Sample>,
    /// Ticks of all operations of all sets that were timed.
    pub ticks: Option<Costs>,
    /// Sets that were timed.
    #[serde(default)]
    pub timed_sets: u64,
    /// The four definitions of F over the sets, as fractions.
    pub fragmentation: [Sample; 4],
    /// F of each set, the paper's definition, as fractions.
    pub each: Vec<f64>,
    /// Number of refused requests.
    pub refused: u64,
    /// Time for counting all sets, in seconds.
    pub seconds: f64,
}

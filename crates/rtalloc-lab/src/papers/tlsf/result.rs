//! The schema of the TLSF paper's experiments: what is measured is a [`Unit`], which its parameters alone determine;
//! what comes of it is a [`Cell`]. Tables, figures and verdicts are made of cells.

pub use crate::papers::claims::Claim;
use crate::result::schema::Distribution;
use crate::workload::Holding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Mallocs that figure 9 shows, at the beginning and at the end.
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

    /// As tables name it.
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
    /// The profile that the set is drawn from.
    pub profile: Profile,
    /// How holding times are read.
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

/// What is measured at once, in a process of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Instructions and memory of a load: tables V and VI. Gives [`Found::Run`].
    Run(Load),
    /// Ticks of a load, each operation's least of some replicas: table IV, figure 8. Gives [`Found::Time`].
    Time {
        /// The load.
        load: Load,
        /// Identical replays.
        replicas: u32,
    },
    /// Memory over time: figure 9. Gives [`Found::Course`].
    Course(Load),
    /// Instructions of single operations under a random load: figure 6. Gives [`Found::Bands`].
    Bands {
        /// The allocator.
        subject: String,
        /// Seed of the load.
        seed: u64,
        /// Allocations performed.
        mallocs: u64,
    },
    /// Instructions of the steps of operations under the same load: tables I and II. Gives [`Found::Steps`].
    Steps {
        /// The allocator.
        subject: String,
        /// Seed of the load.
        seed: u64,
        /// Allocations performed.
        mallocs: u64,
    },
    /// Worst-case scenarios and static bounds: section 6.1. Gives [`Found::Worst`].
    Worst {
        /// The allocator.
        subject: String,
    },
    /// The most that a request loses in its own block: section 5.3. Gives [`Found::Internal`].
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
            Self::Run(load) | Self::Time { load, .. } | Self::Course(load) => &load.subject,
            Self::Bands { subject, .. }
            | Self::Steps { subject, .. }
            | Self::Worst { subject }
            | Self::Internal { subject } => subject,
        }
    }
}

/// A unit and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// What was measured.
    pub unit: Unit,
    /// The figures, or what went wrong.
    pub found: Result<Found, String>,
    /// How long that took, in seconds; the only thing here that differs from run to run, ticks apart.
    pub seconds: f64,
}

/// Figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Found {
    /// Of [`Unit::Run`].
    Run(Run),
    /// Of [`Unit::Time`].
    Time(Costs),
    /// Of [`Unit::Course`].
    Course(Vec<Moment>),
    /// Of [`Unit::Bands`].
    Bands(Vec<Seen>),
    /// Of [`Unit::Steps`].
    Steps(Steps),
    /// Of [`Unit::Worst`].
    Worst(Vec<Worst>),
    /// Of [`Unit::Internal`].
    Internal(Vec<Octave>),
}

/// What malloc and free cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Costs {
    /// Of every malloc that was served.
    pub malloc: Distribution,
    /// Of every free.
    pub free: Distribution,
}

/// One operation of both.
pub type Side = fn(&Costs) -> &Distribution;

impl Costs {
    /// Both sides with their names, for tables of malloc above free.
    pub const SIDES: [(&'static str, Side); 2] = [("malloc", |costs| &costs.malloc), ("free", |costs| &costs.free)];
}

/// A load, performed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Instructions, with exact histograms.
    pub instructions: Costs,
    /// Memory.
    pub space: Space,
    /// Requests that were refused.
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
    /// The four variants of F by Johnstone and Wilson.
    pub fragmentation: Variants,
}

/// Johnstone and Wilson's four ways to compare memory used, H so far, with live memory; all as the excess over 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variants {
    /// 1: used over live, the mean over all operations.
    pub mean: f64,
    /// 2: used over live when most is live.
    pub at_peak_live: f64,
    /// 3: used over live when most is used for the first time.
    pub at_peak_used: f64,
    /// 4: the most used over the most live, whenever they are: the paper's F.
    pub of_peaks: f64,
}

/// Memory behind a malloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Number of the malloc, from 0.
    pub malloc: u64,
    /// Live bytes.
    pub live_bytes: u64,
    /// Bytes used so far, H.
    pub used_bytes: u64,
}

/// What an operation of figure 6 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// malloc takes a free block as it is.
    Exact,
    /// So, and it was the last of its list.
    ExactLast,
    /// malloc splits a free block.
    Split,
    /// free finds no free neighbour.
    None,
    /// One.
    One,
    /// Two.
    Two,
}

impl Kind {
    /// Every kind, those of malloc first.
    pub const ALL: [Self; 6] = [Self::Exact, Self::ExactLast, Self::Split, Self::None, Self::One, Self::Two];

    /// As tables name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact, others in its list",
            Self::ExactLast => "exact, alone in its list",
            Self::Split => "split",
            Self::None => "no free neighbour",
            Self::One => "one free neighbour",
            Self::Two => "two free neighbours",
        }
    }

    /// Whether it is of malloc.
    #[must_use]
    pub const fn is_malloc(self) -> bool {
        matches!(self, Self::Exact | Self::ExactLast | Self::Split)
    }
}

/// A single operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its number among its like, from 0.
    pub index: u64,
    /// What it did.
    pub kind: Kind,
    /// Whether the request was of less than 128 bytes.
    pub small: bool,
    /// What it executed.
    pub instructions: u64,
}

/// What belongs to no step of the paper: checks of the request and of tags, the counters, entry and return.
pub const REST: &str = "rest";

/// Instructions of the steps of operations, by the paper's names, and [`REST`]: how many operations executed so many in
/// a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Of malloc, table I.
    pub malloc: BTreeMap<String, BTreeMap<u64, u64>>,
    /// Of free, table II.
    pub free: BTreeMap<String, BTreeMap<u64, u64>>,
}

/// An operation's worst cases.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Worst {
    /// "malloc" or "free".
    pub operation: String,
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// Static bound in a heap of 16 MiB; `None` where a search makes it useless.
    pub bound: Option<u64>,
}

/// A worst case by somebody's recipe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scenario {
    /// What it is.
    pub name: String,
    /// Whether the recipe is a paper's, and not ours.
    pub paper: bool,
    /// What the last operation executed.
    pub instructions: u64,
}

/// Requests between two powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Octave {
    /// The smaller power of two, in bytes.
    pub from_bytes: u64,
    /// The request that loses most of its block.
    pub request_bytes: u64,
    /// What it was granted.
    pub granted_bytes: u64,
}

impl Octave {
    /// The share of the block that is lost.
    #[must_use]
    pub fn lost(&self) -> f64 {
        (self.granted_bytes - self.request_bytes) as f64 / self.granted_bytes as f64
    }
}

/// What was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Task sets for each profile.
    pub sets: u64,
    /// Task sets for each profile when operations are timed, and under the readings that are only compared.
    pub few_sets: u64,
    /// Allocations of each set.
    pub mallocs: u64,
    /// The reading of the holding time in tables IV to VI.
    pub holding: Holding,
    /// The readings that are only compared.
    pub others: Vec<Holding>,
    /// Identical replays of which an operation's least time counts.
    pub replicas: u32,
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// The allocators, the paper's first.
    pub subjects: Vec<String>,
}

/// Everything: settings, cells, what all sets of a profile come to, and verdicts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tlsf {
    /// What was asked for.
    pub settings: Settings,
    /// Every unit, measured.
    pub cells: Vec<Cell>,
    /// Figure 7: bins of [`SIZE_BIN_BYTES`] by their smaller end, and how many of a thousand requests of table III's
    /// task set are in each.
    pub sizes: Vec<(u64, f64)>,
    /// All sets of a profile together.
    pub pools: Vec<Pool>,
    /// What the paper says, and whether our figures say so too.
    pub claims: Vec<Claim>,
}

/// All task sets of a profile together, under one reading.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pool {
    /// The allocator.
    pub subject: String,
    /// The profile.
    pub profile: Profile,
    /// The reading.
    pub holding: Holding,
    /// Sets.
    pub sets: u64,
    /// Mallocs of all of them.
    pub mallocs: u64,
    /// Instructions of all operations of all sets.
    pub instructions: Costs,
    /// Ticks of all operations of all sets that were timed.
    pub ticks: Option<Costs>,
    /// Sets that were timed.
    #[serde(default)]
    pub timed_sets: u64,
    /// The four variants of F: mean, deviation, most, least over the sets, as fractions.
    pub fragmentation: [[f64; 4]; 4],
    /// Requests that were refused.
    pub refused: u64,
    /// Seconds that counting took for all of them.
    pub seconds: f64,
}

//! The schema of advice: what a program needs, what every allocator offers, and which one is recommended.

use super::heap_size::{LimitFacts, Size};
use super::targets::Elsewhere;
use serde::{Deserialize, Serialize};

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wishes {
    /// Most instructions of an allocate or a free, or cycles if the target is a core.
    pub deadline: Option<u64>,
    /// Bytes of the region.
    pub heap_bytes: Option<u64>,
    /// Whether no request within the limits may ever be refused.
    pub never_refuse: bool,
    /// Number of threads that use the heap at the same time, if there are several.
    pub threads: Option<u64>,
}

/// A condition that a recommended allocator meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Serves the requests.
    Serves,
    /// Has static bounds.
    Bounded,
    /// Within the deadline.
    Deadline,
    /// Reports a double free.
    Checked,
    /// For several threads.
    Shared,
    /// With a guaranteed region.
    Guaranteed,
    /// Within the region given.
    Fits,
}

/// Advice for a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Advice {
    /// Name of the recording, if there is one.
    pub trace: Option<String>,
    /// Its most live bytes.
    pub peak_live_bytes: Option<u64>,
    /// Its operations.
    pub operations: Option<u64>,
    /// Its resizes.
    pub resizes: u64,
    /// Its requests at an alignment that not every block has.
    pub aligned: u64,
    /// What is live at most.
    pub limits: Vec<LimitFacts>,
    /// Whether the limits are those of the recording.
    pub are_recorded: bool,
    /// Per cent by which the objects and the region of a recording are increased.
    pub margin_per_cent: u64,
    /// What the user wants.
    pub wishes: Wishes,
    /// The processor or core for which the bounds are; this program's, x86-64, if none.
    pub elsewhere: Option<Elsewhere>,
    /// All allocators that were considered.
    pub candidates: Vec<Candidate>,
    /// The recommended one, an index into `candidates`; `None` if none meets all wishes.
    pub taken: Option<usize>,
    /// The one to take if that one cannot be had.
    pub runner_up: Option<usize>,
    /// What would be recommended with other wishes.
    pub changes: Vec<Change>,
}

/// What an allocator offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its heap sizes.
    pub size: Size,
    /// Whether nothing is checked when a block is freed.
    #[serde(default)]
    pub is_unchecked: bool,
    /// Whether several threads may use it at the same time.
    pub is_shared: bool,
    /// The region in which all of these threads together are served as the recording, margin included.
    pub shared_bytes: Option<u64>,
    /// The largest region that it takes, if its tags do not reach everywhere.
    #[serde(default)]
    pub largest_bytes: Option<u64>,
    /// The region to give it; `None` if no figure is known.
    pub region_bytes: Option<u64>,
    /// Static bound of the longest of allocate and free in that region, in instructions, or cycles if the target is a
    /// core.
    pub time_bound: Option<u64>,
    /// Requests of the recording refused in that region.
    pub refused: Option<u64>,
    /// The rules that it does not meet.
    pub broken: Vec<Rule>,
}

/// What would be recommended with other wishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The other wishes.
    pub wishes: Wishes,
    /// The allocator, an index into the candidates; `None` if none meets them.
    pub taken: Option<usize>,
    /// Its region.
    pub region_bytes: Option<u64>,
}

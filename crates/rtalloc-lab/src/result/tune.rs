//! The schema of Compact-fit's parameters derived from a trace.

use serde::{Deserialize, Serialize};

/// All results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tuning {
    /// Name of the trace.
    pub trace: String,
    /// Number of its operations.
    pub events: u64,
    /// Requests larger than a page, which Compact-fit refuses; excluded.
    pub beyond_reach: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Maximum number of live objects: the abstract addresses needed.
    pub peak_objects: u64,
    /// Pages that these abstract addresses need.
    pub entry_pages: u64,
    /// The size classes that the trace uses.
    pub classes: Vec<Class>,
    /// Choices of max_nr_nf_pages: the Pareto-optimal ones by increasing number of pages, and those with one limit for
    /// all classes.
    pub choices: Vec<Choice>,
    /// Room for more objects.
    pub allocatable: Option<Allocatable>,
}

/// A size class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Class {
    /// Its number, starting at 1.
    pub number: u32,
    /// Bytes of a page-block.
    pub block_bytes: u64,
    /// Page-blocks per page.
    pub blocks: u64,
    /// Number of objects allocated.
    pub allocations: u64,
    /// Maximum number of live objects.
    pub peak_objects: u64,
    /// Maximum number of frees without an allocation (section 3.4).
    pub peak_free_run: u64,
    /// The same over time: the maximum in each interval of the trace, keyed by its first operation.
    pub free_run: Vec<(u64, u64)>,
    /// The smallest max_nr_nf_pages that avoids all moves.
    pub suffices: u64,
    /// Objects moved with max_nr_nf_pages = 1.
    pub moves: u64,
    /// Maximum pages with max_nr_nf_pages = 1.
    pub compact_pages: u64,
    /// Maximum pages if nothing is moved.
    pub loose_pages: u64,
}

/// A choice of max_nr_nf_pages, and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Its description.
    pub name: String,
    /// max_nr_nf_pages of each class in [`Tuning::classes`].
    pub most: Vec<u64>,
    /// Objects moved.
    pub moves: u64,
    /// Bytes of their page-blocks.
    pub moved_bytes: u64,
    /// Maximum number of pages, including those of abstract addresses.
    pub pages: u64,
    /// Mean number of pages over all operations.
    pub mean_pages: f64,
    /// Whether the choice is Pareto-optimal in moved bytes, maximum pages and mean pages.
    pub on_front: bool,
}

/// The number of further objects that fit in a heap.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Allocatable {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// Number of its pages.
    pub pages: u64,
    /// By size.
    pub rows: Vec<Room>,
}

/// Room for objects of a size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Bytes of an object.
    pub size: u64,
    /// By choice: name, number at the worst moment, and number at the end; `None` if the trace itself does not fit.
    pub by_choice: Vec<(String, Option<(u64, u64)>)>,
}

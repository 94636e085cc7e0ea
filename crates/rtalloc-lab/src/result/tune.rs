//! The schema of what a trace says of Compact-fit's parameters.

use serde::{Deserialize, Serialize};

/// Everything that was found out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tuning {
    /// Name of the trace.
    pub trace: String,
    /// Its operations.
    pub events: u64,
    /// Requests larger than a page, which Compact-fit refuses; left out.
    pub beyond_reach: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Most objects that live at once: the abstract addresses needed.
    pub peak_objects: u64,
    /// Pages that these abstract addresses need.
    pub entry_pages: u64,
    /// The size classes that the trace uses.
    pub classes: Vec<Class>,
    /// Choices of max_nr_nf_pages: those that no other beats, fewest pages first, and those of one number for all
    /// classes.
    pub choices: Vec<Choice>,
    /// Room for more objects.
    pub allocatable: Option<Allocatable>,
}

/// A size class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Class {
    /// Its number, from 1.
    pub number: u32,
    /// Bytes of a page-block.
    pub block_bytes: u64,
    /// Page-blocks of a page.
    pub blocks: u64,
    /// Objects allocated.
    pub allocations: u64,
    /// Most that live at once.
    pub peak_objects: u64,
    /// Most frees without an allocation since (section 3.4).
    pub peak_free_run: u64,
    /// The same over time: the most in each stretch of the trace, by its first operation.
    pub free_run: Vec<(u64, u64)>,
    /// The smallest max_nr_nf_pages with which nothing is ever moved.
    pub suffices: u64,
    /// Objects moved with max_nr_nf_pages = 1.
    pub moves: u64,
    /// Most pages with max_nr_nf_pages = 1.
    pub compact_pages: u64,
    /// Most pages where nothing is moved.
    pub loose_pages: u64,
}

/// A choice of max_nr_nf_pages, and what comes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// In words.
    pub name: String,
    /// max_nr_nf_pages of each class in [`Tuning::classes`].
    pub most: Vec<u64>,
    /// Objects moved.
    pub moves: u64,
    /// Their page-blocks' bytes.
    pub moved_bytes: u64,
    /// Most pages at once, those of abstract addresses included.
    pub pages: u64,
    /// Pages in the mean over all operations.
    pub mean_pages: f64,
    /// Whether no other choice has less of one of moved bytes, most pages and mean pages, and no more of the others.
    pub on_front: bool,
}

/// How many more objects a heap has room for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Allocatable {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// Its pages.
    pub pages: u64,
    /// By size.
    pub rows: Vec<Room>,
}

/// Room for objects of a size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Bytes of an object.
    pub size: u64,
    /// By choice: name, at the worst moment, and at the end; `None` where the trace itself does not fit.
    pub by_choice: Vec<(String, Option<(u64, u64)>)>,
}

//! The schema of the Compact-fit paper's experiments, published figures and ours side by side.

pub use crate::papers::claims::Claim;
use serde::{Deserialize, Serialize};

/// The results of all experiments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompactFit {
    /// Bytes of the heap of figure 7.
    pub heap_bytes: u64,
    /// Figures 6 and 7, by panel.
    pub panels: Vec<Panel>,
    /// Figure 8.
    pub fragmentation: Fragmentation,
    /// Instructions to read a byte of an object: the first entry is a plain pointer.
    pub dereference: Vec<Dereference>,
    /// Instructions to initialise a heap.
    pub initialisation: Vec<Initialisation>,
    /// Memory overhead.
    pub overhead: Vec<Overhead>,
    /// Whether a page of each class loses what section 2.5 says.
    pub page_losses: Result<bool, String>,
    /// Mean free with full compaction by block-frame.
    pub frames: Vec<Frame>,
    /// Proposition 1, with 1 to 9 not-full pages.
    pub promises: Vec<Result<Promise, String>>,
    /// The paper's claims, and whether our figures confirm them.
    pub claims: Vec<Claim>,
}

/// A panel of figure 6 or 7.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Panel {
    /// "6a".
    pub figure: String,
    /// The measured quantity.
    pub what: String,
    /// One curve per allocator.
    pub series: Vec<Series>,
}

/// Instructions of every operation of an allocator in a panel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Name in the paper.
    pub published_as: String,
    /// Name here.
    pub subject: String,
    /// Bytes of its heap; 0 if none serves the load.
    pub heap_bytes: u64,
    /// Mean and standard deviation, if published.
    pub published: Option<(f64, f64)>,
    /// Our figures, or an error message.
    pub ours: Result<Counts, String>,
}

/// Statistics of the operations of a series, in instructions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Minimum.
    pub least: u64,
    /// Maximum.
    pub most: u64,
    /// Slope: additional instructions per byte of the object, by least squares.
    pub per_byte: f64,
    /// Share of the variance that this line explains.
    pub explained: f64,
    /// Operations that moved another object; `None` if moves cannot be observed.
    pub moves: Option<u64>,
    /// Number of the last operation that moved an object, starting at 1.
    pub last_move: Option<u64>,
    /// Requests that were refused, and are not among the operations.
    pub refused: u64,
    /// Every operation in order: size of the object and instructions.
    pub operations: Vec<(u32, u32)>,
}

/// Figure 8: the number of further objects of each size that fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fragmentation {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// The sizes, in bytes.
    pub sizes: Vec<u64>,
    /// One row per allocator.
    pub rows: Vec<Room>,
}

/// The remaining capacity of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Room {
    /// Name in the paper's figure, or here.
    pub label: String,
    /// Name here.
    pub subject: String,
    /// Our figures, or an error message.
    pub ours: Result<Left, String>,
}

/// The capacity after a fifth of the objects has been freed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Left {
    /// Number of objects in the full heap.
    pub objects: u64,
    /// Bytes of those objects.
    pub live_bytes: u64,
    /// Bytes of the objects that remain.
    pub left_bytes: u64,
    /// Objects that can be allocated, by size.
    pub more: Vec<u64>,
}

/// Instructions to read a byte of an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dereference {
    /// The kind of reference.
    pub through: String,
    /// The published figure.
    pub published: Option<u64>,
    /// Our figure, or an error message.
    pub ours: Result<u64, String>,
}

/// Instructions to initialise a heap.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Initialisation {
    /// Name here.
    pub subject: String,
    /// Bytes of the region and instructions, or an error message.
    pub ours: Result<Vec<(u64, u64)>, String>,
}

/// A memory overhead.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overhead {
    /// Its subject.
    pub what: String,
    /// "B" or "%".
    pub unit: String,
    /// The published figure.
    pub published: f64,
    /// Our figure, if it can be derived from a heap.
    pub ours: Option<f64>,
}

/// A test of proposition 1: a free moves nothing while n_f < max_nr_nf_pages - 1.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Promise {
    /// max_nr_nf_pages.
    pub not_full_pages: u64,
    /// Frees that satisfy the proposition's condition.
    pub frees: u64,
    /// Of these, the ones that moved an object.
    pub moved: u64,
    /// Both counts for the condition n_f < max_nr_nf_pages - 2.
    pub with_one_less: (u64, u64),
}

/// The mean free of the incremental experiment with full compaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// Bytes of a block-frame; `None` for the moving implementation.
    pub frame_bytes: Option<u64>,
    /// Mean instructions of free, or an error message.
    pub ours: Result<f64, String>,
}

//! The schema of the Compact-fit paper's experiments, published and ours side by side.

pub use crate::papers::claims::Claim;
use serde::{Deserialize, Serialize};

/// Every experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompactFit {
    /// Bytes of the heap in the experiments on time.
    pub heap_bytes: u64,
    /// Figures 6 and 7, by panel.
    pub panels: Vec<Panel>,
    /// Figure 8.
    pub fragmentation: Fragmentation,
    /// Instructions to read a byte of an object: of a plain pointer first.
    pub dereference: Vec<Dereference>,
    /// Instructions to make a heap.
    pub initialisation: Vec<Initialisation>,
    /// What a page keeps for itself.
    pub overhead: Vec<Overhead>,
    /// Mean free with full compaction by block-frame.
    pub frames: Vec<Frame>,
    /// Proposition 1, with 1 to 9 not-full pages.
    pub promises: Vec<Result<Promise, String>>,
    /// What the paper says of its figures, and whether ours say so too.
    pub claims: Vec<Claim>,
}

/// A panel of figure 6 or 7.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Panel {
    /// "6a".
    pub figure: String,
    /// What is measured.
    pub what: String,
    /// A curve for each allocator.
    pub series: Vec<Series>,
}

/// Instructions of every operation of an allocator in a panel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Name in the paper.
    pub published_as: String,
    /// Name here.
    pub subject: String,
    /// Mean and standard deviation, where the paper tells them.
    pub published: Option<(f64, f64)>,
    /// Ours, or what went wrong.
    pub ours: Result<Counts, String>,
}

/// What the operations of a series came to, in instructions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Fewest.
    pub least: u64,
    /// Most.
    pub most: u64,
    /// Instructions more for every byte of the object, by least squares.
    pub per_byte: f64,
    /// Share of the variance that this line explains.
    pub explained: f64,
    /// Operations that moved another object; `None` where nobody can see it.
    pub moves: Option<u64>,
    /// Number of the last operation that did, from 1.
    pub last_move: Option<u64>,
    /// Every operation in its order: size of the object and instructions.
    pub operations: Vec<(u32, u32)>,
}

/// Figure 8: how many more objects of a size there is room for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fragmentation {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// The sizes, in bytes.
    pub sizes: Vec<u64>,
    /// A row for each allocator.
    pub rows: Vec<Room>,
}

/// The room an allocator has left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Room {
    /// Name in the paper's figure, or here.
    pub label: String,
    /// Name here.
    pub subject: String,
    /// Ours, or what went wrong.
    pub ours: Result<Left, String>,
}

/// What is left behind a fifth of the objects freed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Left {
    /// Objects that the heap held when it was full.
    pub objects: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes of those that stayed.
    pub left_bytes: u64,
    /// Objects that can be allocated, by size.
    pub more: Vec<u64>,
}

/// Instructions to read a byte of an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dereference {
    /// Through what.
    pub through: String,
    /// As published.
    pub published: Option<u64>,
    /// Ours, or what went wrong.
    pub ours: Result<u64, String>,
}

/// Instructions to make a heap.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Initialisation {
    /// Name here.
    pub subject: String,
    /// Bytes of the region and instructions, or what went wrong.
    pub ours: Result<Vec<(u64, u64)>, String>,
}

/// What memory costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overhead {
    /// Of what.
    pub what: String,
    /// "B" or "%".
    pub unit: String,
    /// As published.
    pub published: f64,
    /// Ours, where it can be read off a heap.
    pub ours: Option<f64>,
}

/// Proposition 1 tried: a free moves nothing while n_f < max_nr_nf_pages - 1.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Promise {
    /// max_nr_nf_pages.
    pub not_full_pages: u64,
    /// Frees for which it promises that.
    pub frees: u64,
    /// Of these, those that moved an object.
    pub moved: u64,
    /// Both where n_f < max_nr_nf_pages - 2.
    pub with_one_less: (u64, u64),
}

/// The mean free of the incremental experiment with full compaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// Bytes of a block-frame; `None`: the moving implementation.
    pub frame_bytes: Option<u64>,
    /// Mean instructions of free, or what went wrong.
    pub ours: Result<f64, String>,
}

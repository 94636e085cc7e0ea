//! The schema of Puaut's tables 2 and 3, published and ours side by side.

pub use super::claim::Claim;
use super::costs::Class;
use serde::{Deserialize, Serialize};

/// Both tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Puaut {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// A row for each allocator, in the paper's order.
    pub rows: Vec<Row>,
    /// What the paper says of its figures, and whether ours say so too.
    pub claims: Vec<Claim>,
}

/// An allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name in the paper.
    pub published_as: String,
    /// Name here.
    pub subject: String,
    /// As published.
    pub published: Published,
    /// Ours, or what went wrong.
    pub ours: Result<Ours, String>,
}

/// Published figures, in cycles of a Pentium 90 with caches and branch prediction off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Mean malloc in the decoder mpg123.
    pub decoder_mean: u64,
    /// Mean malloc in the MEAN model.
    pub model_mean: u64,
    /// Malloc in the worst-case scenario, which the paper calls analytical.
    pub allocate_worst: u64,
    /// Free in the worst-case scenario.
    pub free_worst: u64,
}

/// Our figures, in instructions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ours {
    /// Allocations.
    pub allocate: Operation,
    /// Frees.
    pub free: Operation,
    /// Mean allocation in a decoder's trace.
    pub decoder_mean: f64,
}

/// Three numbers of an operation, never one for another, and the mean.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// Mean in the MEAN model.
    pub mean: f64,
    /// Most in the MEAN model.
    pub observed: u64,
    /// In the paper's worst-case scenario.
    pub scenario: u64,
    /// Static bound in a heap of 16 MiB; `None` where a search makes it useless.
    pub bound: Option<u64>,
    /// The class that the scenarios have over heap sizes.
    pub class: Option<Class>,
}

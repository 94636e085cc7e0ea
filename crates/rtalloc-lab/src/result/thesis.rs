//! The schema of the Bitframe thesis' tables 7 and 8, published and ours side by side.

use serde::{Deserialize, Serialize};

/// The two tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thesis {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// Seeds of the traces; ours are means over them.
    pub seeds: u64,
    /// The tables.
    pub tables: Vec<Table>,
}

/// A table of the thesis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Its number in the thesis.
    pub number: u32,
    /// The trace: "uniform" or "small".
    pub trace: String,
    /// Operations of the trace.
    pub operations: u64,
    /// Operations that every allocator served, for every seed: the equal prefix.
    pub prefix_operations: u64,
    /// A row per allocator, in the thesis' order.
    pub rows: Vec<Row>,
}

/// An allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name in the thesis.
    pub published_as: String,
    /// Name here.
    pub subject: String,
    /// As published.
    pub published: Figures,
    /// Ours up to the first request that failed, or the trace's end; or what went wrong.
    pub ours: Result<Measured, String>,
}

/// What was measured of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Up to the first request that failed.
    pub cut: Figures,
    /// Up to the end of the equal prefix.
    pub prefix: Figures,
    /// Operations up to the first request that failed, the mean over the seeds.
    pub operations: f64,
    /// For how many of the seeds the whole trace was served.
    pub completed: u64,
}

/// The figures of tables 7 and 8.
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

//! placeholder
use crate::graph::Graph;
use crate::image::Process;
use std::ffi::c_void;

/// A copy of the code of a graph that counts its own instructions.
#[derive(Debug)]
pub struct Counter(());

/// What a counter records besides the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Record {
    /// Nothing.
    #[default]
    Count,
    /// Which blocks and edges are executed.
    Coverage,
}

/// Why there is no counter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("todo")]
pub struct CounterError;

impl Counter {
    /// Rewrites the code of a graph.
    ///
    /// # Errors
    ///
    /// [`CounterError`]
    pub fn new(_process: &Process, _graph: &Graph, _record: Record) -> Result<Self, CounterError> {
        todo!()
    }
    /// Where the copy of a function of the graph begins.
    #[must_use]
    pub fn entry(&self, _function: u64) -> Option<*const c_void> {
        todo!()
    }
    /// Targets of indirect jumps and calls that were not in the graph; what they led to is not counted.
    #[must_use]
    pub fn misses(&self) -> Vec<u64> {
        todo!()
    }
    /// Instructions of the graph that were executed since the last call of [`clear_coverage`](Self::clear_coverage)
    #[must_use]
    pub fn covered(&self) -> std::collections::BTreeSet<u64> {
        todo!()
    }
    /// Edges.
    #[must_use]
    pub fn covered_edges(&self) -> std::collections::BTreeSet<(u64, u64)> {
        todo!()
    }
    /// Forgets.
    pub fn clear_coverage(&self) {
        todo!()
    }
}

/// Instructions that counters have counted in this thread, since it began.
#[inline(always)]
#[must_use]
pub fn executed() -> u64 {
    todo!()
}

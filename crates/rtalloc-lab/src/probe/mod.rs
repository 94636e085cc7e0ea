//! Probes: the measurement of each operation.
//!
//! A probe is an [`Observer`](crate::replay::Observer) of a replay and a function that measures one cell with it, in
//! the calling process. [`space`] records addresses, [`instructions`] counts the instructions of every operation,
//! [`cycles`] times each. Each returns a [`Report`].

mod counted;
pub mod cycles;
pub mod environment;
pub mod instructions;
pub mod reads;
pub mod space;
pub mod threads;

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod crosscheck;
mod distribution;

use crate::replay::isolate::Board;
use crate::replay::processor::Budget;
use crate::replay::whole_trace::{WholeTrace, WholeTraceError};
use crate::result::schema::Outcome;
use rtalloc_subjects::Subject;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub use counted::{CountError, Counted, counting, explore};
pub use distribution::{Counts, Samples};

/// One subject on one trace, to be measured.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The trace.
    pub trace: &'a Path,
    /// Its operations.
    pub events: u64,
    /// M of the whole trace.
    pub peak_live_bytes: u64,
    /// The allocator.
    pub subject: &'a Subject,
    /// Bytes of the region given.
    pub heap_bytes: usize,
    /// Limit of its processor time.
    pub budget: Budget,
    /// Where progress is reported.
    pub board: &'a Board,
}

impl<'a> Task<'a> {
    fn whole_trace(&self) -> WholeTrace<'a> {
        WholeTrace { trace: self.trace, budget: self.budget, board: self.board }
    }
}

/// A probe's report on a cell: the outcome of the replay, and the figures, if any.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report<T> {
    /// The outcome of the replay.
    pub outcome: Outcome,
    /// The figures.
    pub figures: Option<T>,
}

impl<T> Report<T> {
    /// The report of a cell that could not be measured.
    #[must_use]
    pub fn broken(what: impl std::fmt::Display) -> Self {
        Self { outcome: Outcome::Broken { what: what.to_string() }, figures: None }
    }
}

impl<T> From<WholeTraceError> for Report<T> {
    fn from(error: WholeTraceError) -> Self {
        Self::broken(error)
    }
}

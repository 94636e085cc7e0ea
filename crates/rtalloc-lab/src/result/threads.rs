//! The schema of traces replayed by several threads.

use super::schema::{Distribution, Environment, Origin, Outcome, TraceFacts};
use rtalloc_subjects::shared::Refused;
use serde::{Deserialize, Serialize};

/// One run of `rtalloc threads`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadedRun {
    /// The measurement environment.
    pub environment: Environment,
    /// The ordering constraints between operations: `free`, or `recorded`.
    pub ordering: String,
    /// One entry per trace and number of copies, in the order given.
    pub traces: Vec<ThreadedTrace>,
}

/// A trace and the results of every allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadedTrace {
    /// The trace.
    pub trace: TraceFacts,
    /// Number of replay threads per thread of the trace, each with its own blocks.
    pub copies: u32,
    /// Number of threads of the replay.
    pub threads: u64,
    /// Remote frees: frees by a thread other than the allocating one.
    pub cross_thread_frees: u64,
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// One per allocator, in table order.
    pub cells: Vec<ThreadedCell>,
}

/// One allocator on one trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadedCell {
    /// Its name.
    pub subject: String,
    /// Its origin.
    pub origin: Origin,
    /// The kind of lock, if it has one.
    pub lock: Option<String>,
    /// The allocator of which it is a variant.
    #[serde(default)]
    pub option_of: Option<String>,
    /// Guaranteed progress of allocate: wait-free, lock-free, blocking.
    pub allocate: Option<String>,
    /// The same for deallocate.
    pub deallocate: Option<String>,
    /// Bytes of the heap; `None` if it takes its own pages.
    pub heap_bytes: Option<u64>,
    /// The outcome.
    pub outcome: Outcome,
    /// Time of operations.
    pub time: Option<ThreadedTime>,
    /// Memory.
    pub space: Option<ThreadedSpace>,
}

/// Ticks of the time-stamp counter, for successful operations of all replays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ThreadedTime {
    /// Replays.
    pub replays: u32,
    /// Allocations.
    pub allocate: Distribution,
    /// Local frees: of blocks allocated by the same thread.
    pub free: Distribution,
    /// Remote frees: of blocks allocated by another thread.
    pub foreign_free: Distribution,
    /// Reallocations.
    pub reallocate: Distribution,
    /// Operations that waited for another thread, outside the timed section; the mean over the replays.
    pub waits: u64,
    /// Requests refused in all replays.
    pub refused: Refused,
}

/// Memory, from one replay that verified every block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadedSpace {
    /// Maximum bytes requested and not freed.
    pub peak_live_bytes: u64,
    /// Smallest heap that serves the whole trace in its recorded order.
    pub smallest_heap_bytes: Option<u64>,
    /// Requests refused.
    pub refused: Refused,
}

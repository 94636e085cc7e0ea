//! Traces replayed by threads, as data.

use super::schema::{Distribution, Environment, Origin, Outcome, TraceFacts};
use rtalloc_subjects::shared::Refused;
use serde::{Deserialize, Serialize};

/// One run of `rtalloc threads`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadedRun {
    /// Where and with what it was measured.
    pub environment: Environment,
    /// Which operations waited for which: `free`, or `recorded`.
    pub ordering: String,
    /// One for each trace and number of copies, in the order given.
    pub traces: Vec<ThreadedTrace>,
}

/// One trace and what every allocator made of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadedTrace {
    /// What was replayed.
    pub trace: TraceFacts,
    /// Threads that replayed each thread of the trace, with blocks of their own.
    pub copies: u32,
    /// Threads of the replay.
    pub threads: u64,
    /// Frees of a block by another thread than the one that allocated it.
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
    /// Whose it is.
    pub origin: Origin,
    /// What keeps threads apart, where that is a lock.
    pub lock: Option<String>,
    /// The allocator that it is an option of.
    #[serde(default)]
    pub option_of: Option<String>,
    /// What is promised of allocate: wait-free, lock-free, blocking.
    pub allocate: Option<String>,
    /// The same of deallocate.
    pub deallocate: Option<String>,
    /// Bytes of the heap; `None` where it takes its own pages.
    pub heap_bytes: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Time of operations.
    pub time: Option<ThreadedTime>,
    /// Memory.
    pub space: Option<ThreadedSpace>,
}

/// Ticks of the time-stamp counter, of operations that succeeded, of all replays together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ThreadedTime {
    /// Replays.
    pub replays: u32,
    /// Allocations.
    pub allocate: Distribution,
    /// Frees of blocks that the same thread had allocated.
    pub free: Distribution,
    /// Frees of other threads' blocks.
    pub foreign_free: Distribution,
    /// Reallocations.
    pub reallocate: Distribution,
    /// Operations that waited for another thread, outside of the time measured; the mean over the replays.
    pub waits: u64,
    /// Requests refused, in all replays.
    pub refused: Refused,
}

/// Memory, seen in one replay that verified every block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadedSpace {
    /// Most bytes requested and not freed.
    pub peak_live_bytes: u64,
    /// Smallest heap that serves the whole trace in its recorded order.
    pub smallest_heap_bytes: Option<u64>,
    /// Requests refused.
    pub refused: Refused,
}

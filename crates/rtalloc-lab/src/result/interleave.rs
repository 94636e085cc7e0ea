//! The schema of steps per operation under adversarial schedules.

use rtalloc::contract::Steps;
use rtalloc_subjects::shared::Refused;
use serde::{Deserialize, Serialize};

/// The results of every allocator under every schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interleaved {
    /// Seed of every schedule.
    pub seed: u64,
    /// Threads in every execution.
    pub threads: usize,
    /// Schedules of each adversary on each load.
    pub schedules_each: usize,
    /// The loads, by name.
    pub loads: Vec<String>,
    /// One per allocator.
    pub allocators: Vec<Explored>,
}

/// One allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explored {
    /// Its name.
    pub name: String,
    /// Bytes of the heap's region.
    pub heap_bytes: u64,
    /// Progress guaranteed by its contract for allocate: wait-free, lock-free, blocking.
    pub allocate: String,
    /// The same for deallocate.
    pub deallocate: String,
    /// Number of executions, each with a different schedule.
    pub schedules: u64,
    /// Number of scheduling decisions.
    pub decisions: u64,
    /// The first fault: an overlapping block, an exceeded bound, a corrupt heap.
    pub fault: Option<String>,
    /// Operations grouped by bound.
    pub operations: Vec<OperationSteps>,
}

/// The results of operations with the same bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationSteps {
    /// `allocate`, `free` or `reclaim`; for objects also `pin`, `end of a pin`, `compact`.
    pub operation: String,
    /// Minimum and maximum bytes requested; for a reclaim or a compaction, the budget.
    pub sizes: (u64, u64),
    /// Operations performed.
    pub calls: u64,
    /// Maximum of each kind of step in any operation.
    pub most: Steps3,
    /// Maximum total steps of any operation.
    pub most_total: u64,
    /// The adversary that found that maximum.
    pub found_by: String,
    /// Maximum total steps of any operation without interleaving.
    pub alone_total: u64,
    /// The published bound.
    pub bound: Option<Steps3>,
    /// Refused requests.
    pub refused: Refused,
    /// Of these, spurious refusals: repeated at once without interruption, the request succeeded.
    pub spurious: u64,
}

/// Steps by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps3 {
    /// Atomic read-modify-writes.
    pub read_modify_writes: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
}

impl Steps3 {
    /// The total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read_modify_writes + self.loads + self.stores
    }
}

impl From<Steps> for Steps3 {
    fn from(steps: Steps) -> Self {
        Self {
            read_modify_writes: steps.read_modify_writes as u64,
            loads: steps.loads as u64,
            stores: steps.stores as u64,
        }
    }
}

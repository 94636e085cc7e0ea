//! Steps of operations under adversarial schedules, as data.

use rtalloc::contract::Steps;
use rtalloc_subjects::shared::Refused;
use serde::{Deserialize, Serialize};

/// What every allocator did under every schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interleaved {
    /// Decides every schedule.
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
    /// Bytes of the region its heap was made in.
    pub heap_bytes: u64,
    /// What its contract promises of allocate: wait-free, lock-free, blocking.
    pub allocate: String,
    /// The same of deallocate.
    pub deallocate: String,
    /// Executions, each under another schedule.
    pub schedules: u64,
    /// Times that the scheduler chose who goes on.
    pub decisions: u64,
    /// The first thing that was wrong: a block that overlaps another, a bound exceeded, a corrupt heap.
    pub fault: Option<String>,
    /// Operations whose bound is the same.
    pub operations: Vec<OperationSteps>,
}

/// What operations with the same bound took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationSteps {
    /// `allocate`, `free` or `reclaim`; of objects besides `pin`, `end of a pin`, `compact`.
    pub operation: String,
    /// Least and most bytes asked for; the budget of a reclaim or of compaction.
    pub sizes: (u64, u64),
    /// Operations performed.
    pub calls: u64,
    /// Most of each kind of step in any one operation.
    pub most: Steps3,
    /// Most steps of any one operation.
    pub most_total: u64,
    /// Who found that.
    pub found_by: String,
    /// Most steps of any one operation where threads took turns by whole programs.
    pub alone_total: u64,
    /// The published bound.
    pub bound: Option<Steps3>,
    /// What was refused.
    pub refused: Refused,
    /// Of that, what a repetition at once, with nobody in between, did not meet: there was a block.
    pub spurious: u64,
}

/// Steps by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps3 {
    /// Read-modify-writes.
    pub read_modify_writes: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
}

impl Steps3 {
    /// All of them.
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

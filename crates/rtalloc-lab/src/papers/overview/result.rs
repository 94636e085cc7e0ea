//! The schema of the overview: of every allocator, what its operations execute at most, and how large a heap real
//! programs need.

use crate::result::schema::{Outcome, SubjectFacts};
use serde::{Deserialize, Serialize};

/// Everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// Heap that the bounds are of, in bytes.
    pub heap_bytes: u64,
    /// The traces.
    pub traces: Vec<String>,
    /// The allocators, in the order of the table of subjects.
    pub rows: Vec<Row>,
}

/// An allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Who.
    pub subject: SubjectFacts,
    /// What its operations execute at most.
    pub bounds: Bounds,
    /// Its heaps, in the order of the traces.
    pub needs: Vec<Need>,
}

/// Static bounds in instructions; `None` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Of allocate and of free, in a heap of [`Overview::heap_bytes`].
    pub in_heap: [Option<u64>; 2],
    /// The same in the largest heap.
    pub in_largest: [Option<u64>; 2],
}

impl Bounds {
    /// What neither operation exceeds.
    #[must_use]
    pub fn worst(&self) -> Option<(&'static str, u64)> {
        let [allocate, free] = self.in_heap;
        let (allocate, free) = (allocate?, free?);
        Some(if free > allocate { ("free", free) } else { ("allocate", allocate) })
    }

    /// Whether that holds of heaps of any size.
    #[must_use]
    pub fn is_of_any_heap(&self) -> bool {
        self.worst().is_some() && self.in_heap == self.in_largest
    }
}

/// A trace on an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Need {
    /// How the replay ended.
    pub outcome: Outcome,
    /// M.
    pub peak_live_bytes: u64,
    /// The smallest heap that serves the whole trace, control structure included; `None` where none tried does.
    pub smallest_heap_bytes: Option<u64>,
}

impl Need {
    /// The smallest heap / M.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.smallest_heap_bytes
            .filter(|_| self.peak_live_bytes > 0)
            .map(|bytes| bytes as f64 / self.peak_live_bytes as f64)
    }
}

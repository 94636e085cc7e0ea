//! The schema of the overview: for every allocator, the static bounds of its operations and the smallest heaps for
//! recorded programs.

use rtalloc_lab::result::schema::{Outcome, SubjectFacts};
use serde::{Deserialize, Serialize};

/// The overview.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// Heap size for which the bounds are valid, in bytes.
    pub heap_bytes: u64,
    /// The traces.
    pub traces: Vec<String>,
    /// The allocators, in the order of the table of subjects.
    pub rows: Vec<Row>,
}

/// An allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The allocator.
    pub subject: SubjectFacts,
    /// The static bounds of its operations.
    pub bounds: Bounds,
    /// Its smallest heaps, in the order of the traces.
    pub needs: Vec<Need>,
}

/// Static bounds in instructions; `None` if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Allocate and free, in a heap of [`Overview::heap_bytes`].
    pub in_heap: [Option<u64>; 2],
    /// The same in the largest supported heap.
    pub in_largest: [Option<u64>; 2],
}

impl Bounds {
    /// The larger of the two bounds.
    #[must_use]
    pub fn worst(&self) -> Option<(&'static str, u64)> {
        let [allocate, free] = self.in_heap;
        let (allocate, free) = (allocate?, free?);
        Some(if free > allocate { ("free", free) } else { ("allocate", allocate) })
    }

    /// Whether the bound is independent of the heap size.
    #[must_use]
    pub fn is_of_any_heap(&self) -> bool {
        self.worst().is_some() && self.in_heap == self.in_largest
    }
}

/// A trace on an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Need {
    /// The outcome of the replay.
    pub outcome: Outcome,
    /// M.
    pub peak_live_bytes: u64,
    /// The smallest heap that serves the whole trace, control structure included; `None` if none of those tried does.
    pub smallest_heap_bytes: Option<u64>,
}

impl Need {
    /// Smallest heap / M.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.smallest_heap_bytes
            .filter(|_| self.peak_live_bytes > 0)
            .map(|bytes| bytes as f64 / self.peak_live_bytes as f64)
    }
}

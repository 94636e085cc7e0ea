//! Operation sequences on heaps of handles: those of [`crate::ops`], and what only such heaps can do.

use crate::ops::{self, Distribution, Op, Random};
use proptest::prelude::*;

/// One operation. Every value is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleOp {
    /// An operation that every heap has; alignments are ignored.
    Heap(Op),
    /// Rewrite an object; nothing when there is none.
    Write {
        /// Which one.
        index: usize,
    },
    /// Compact in idle time.
    Compact {
        /// Most bytes to move.
        budget_bytes: usize,
    },
}

/// Sizes that concentrate on few size classes, so that pages are filled and compacted.
fn op_of_few_classes() -> impl Strategy<Value = Op> {
    let sizes = || prop_oneof![4 => 120..=130usize, 3 => 20..=28usize, 2 => 400..=480usize, 1 => 900..=1100usize];
    prop_oneof![
        6 => sizes().prop_map(|size_bytes| Op::Allocate { size_bytes, align_bytes: 1 }),
        5 => (0..64usize).prop_map(|index| Op::Free { index }),
        1 => (0..64usize, sizes())
            .prop_map(|(index, size_bytes)| Op::Reallocate { index, size_bytes, align_bytes: 1 }),
    ]
}

/// Operations.
pub fn op() -> impl Strategy<Value = HandleOp> {
    prop_oneof![
        5 => ops::op().prop_map(HandleOp::Heap),
        8 => op_of_few_classes().prop_map(HandleOp::Heap),
        2 => (0..64usize).prop_map(|index| HandleOp::Write { index }),
        1 => prop_oneof![Just(0usize), 1..200usize, Just(usize::MAX)]
            .prop_map(|budget_bytes| HandleOp::Compact { budget_bytes }),
    ]
}

/// An endless sequence from a seed: that of [`Random`], with writes and compaction in between.
pub struct RandomHandleOps {
    random: Random,
}

impl RandomHandleOps {
    /// As [`Random::new`].
    pub fn new(seed: u64, distribution: Distribution, heap_bytes: usize, most_live: usize) -> Self {
        RandomHandleOps { random: Random::new(seed, distribution, heap_bytes, most_live) }
    }

    /// The next operation, given how many objects are live.
    pub fn next(&mut self, live: usize) -> HandleOp {
        match self.random.below(16) {
            0 => HandleOp::Write { index: self.random.below(live.max(1)) },
            1 => HandleOp::Compact { budget_bytes: self.random.below(300) },
            _ => HandleOp::Heap(self.random.next(live)),
        }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }
}

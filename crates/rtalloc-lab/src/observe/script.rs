//! Sequences of operations, stored as a trace's events.

use crate::trace::{Event, Op};
use rtalloc_subjects::NATURAL_ALIGN_BYTES;

/// Names a block of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Slot {
    /// Slots are numbered in the order of their allocations.
    pub(super) fn number(self) -> usize {
        self.0 as usize
    }
}

/// A sequence of operations on a fresh heap.
#[derive(Clone, Debug, Default)]
pub struct Script {
    events: Vec<Event>,
    slots: u32,
}

impl Script {
    /// An empty script.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The operations.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Removes all operations.
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.slots = 0;
    }

    fn push(&mut self, op: Op) {
        self.events.push(Event { tick: 0, thread: 0, op });
    }

    /// Allocates at natural alignment.
    pub(super) fn allocate(&mut self, size: usize) -> Slot {
        self.allocate_aligned(size, NATURAL_ALIGN_BYTES)
    }

    /// Allocates at an alignment, which is below 4 GiB.
    pub(super) fn allocate_aligned(&mut self, size: usize, align: usize) -> Slot {
        let slot = self.slots;
        self.slots += 1;
        self.push(Op::Allocate { slot, size: size as u64, align: align as u32 });
        Slot(slot)
    }

    /// Allocates a block that stays live, so that the blocks on its two sides never merge.
    pub(super) fn fence(&mut self) {
        self.allocate(1);
    }

    /// Allocates a block followed by a fence.
    pub(super) fn fenced(&mut self, size: usize) -> Slot {
        let slot = self.allocate(size);
        self.fence();
        slot
    }

    /// Deallocates; skipped by the replay if the block was refused.
    pub(super) fn deallocate(&mut self, slot: Slot) {
        self.push(Op::Free { slot: slot.0 });
    }

    /// Reallocates; skipped by the replay if the block was refused.
    pub(super) fn reallocate(&mut self, slot: Slot, size: usize) {
        self.push(Op::Reallocate { slot: slot.0, size: size as u64, align: 1 });
    }

    /// Allocates the remainder of a heap of `heap_bytes`, largest blocks first, without knowing the allocator: twice
    /// for every power of two, four times for the smallest. Some of the requests are refused.
    pub(super) fn fill(&mut self, heap_bytes: usize) {
        for power in (4..=heap_bytes.ilog2()).rev() {
            let times = if power < 7 { 4 } else { 2 };
            for _ in 0..times {
                self.allocate((1 << power) - 15);
            }
        }
    }
}

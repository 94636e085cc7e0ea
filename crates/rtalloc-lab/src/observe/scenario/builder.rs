//! Recipes are recorded by performing them.
//!
//! A recipe says "until the heap is full", "every second block", "the block with the highest address". Its meaning
//! depends on the allocator's headers, minima and order, so a recipe is performed on a heap of the allocator while it
//! is recorded. The result is an ordinary list of operations: performing it again does the same.

use super::super::script::{Script, Slot};
use rtalloc::contract::Contract;
use rtalloc_subjects::{Heap, Subject};

/// A recipe being recorded, on a heap of its allocator.
pub(super) struct ScriptBuilder<'heap> {
    heap: Heap<'heap>,
    heap_bytes: usize,
    contract: Option<Contract>,
    script: Script,
    /// Address and requested size by slot; address 0 while it has no block.
    blocks: Vec<(usize, usize)>,
}

/// The smallest request of allocators without a known contract, in bytes: what C libraries grant at least.
const SMALLEST_BYTES: usize = 16;

impl<'heap> ScriptBuilder<'heap> {
    pub fn new(subject: &Subject, heap: Heap<'heap>, heap_bytes: usize) -> Self {
        let contract = subject.view.map(|view| view.contract);
        Self { heap, heap_bytes, contract, script: Script::new(), blocks: Vec::new() }
    }

    /// The performed operations.
    pub fn into_script(self) -> Script {
        self.script
    }

    /// Length of the region in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// Largest request that fills the allocator's smallest block, in bytes.
    pub fn smallest(&self) -> usize {
        self.contract.map_or(SMALLEST_BYTES, |contract| (contract.min_block_bytes - contract.header_bytes).max(1))
    }

    /// The allocator's smallest block in bytes.
    pub fn smallest_block(&self) -> usize {
        self.contract.map_or(2 * SMALLEST_BYTES, |contract| contract.min_block_bytes)
    }

    /// Bytes before every live block.
    pub fn header(&self) -> usize {
        self.contract.map_or(SMALLEST_BYTES, |contract| contract.header_bytes)
    }

    /// Largest request that a heap of any size serves, in bytes.
    pub fn largest_request(&self) -> usize {
        self.contract.map_or(usize::MAX, |contract| contract.largest_request_bytes)
    }

    /// Size granularity of blocks, in bytes.
    pub fn granule(&self) -> usize {
        self.contract.map_or(SMALLEST_BYTES, |contract| contract.granule_bytes)
    }

    /// Bytes of a page; 0 where there are none.
    pub fn page(&self) -> usize {
        self.contract.map_or(0, |contract| contract.page_bytes)
    }

    /// Allocates; `None`, without being recorded, if refused.
    pub fn allocate(&mut self, size: usize) -> Option<Slot> {
        let address = self.call(size)?;
        let slot = self.script.allocate_aligned(size, 1);
        self.blocks.push((address, size));
        Some(slot)
    }

    /// Makes a request that is refused, and records it; `None`, without being recorded, if it is served.
    pub fn refuse(&mut self, size: usize) -> Option<()> {
        if self.call(size).is_some() {
            return None;
        }
        self.script.allocate_aligned(size, 1);
        self.blocks.push((0, size));
        Some(())
    }

    /// As [`reallocate`](Self::reallocate), for a request that is refused; `None` if it is served.
    pub fn refuse_to_move(&mut self, slot: Slot, size: usize) -> Option<()> {
        self.reallocate(slot, size).is_none().then_some(())
    }

    /// The largest request that is served now, in bytes, found by trying.
    pub fn largest(&mut self) -> Option<usize> {
        let (mut served, mut refused) = (0, self.heap_bytes.min(self.largest_request().saturating_add(1)));
        while refused - served > 1 {
            let size = served.midpoint(refused);
            match self.allocate(size) {
                Some(slot) => {
                    self.deallocate(slot);
                    served = size;
                }
                None => refused = size,
            }
        }
        (served > 0).then_some(served)
    }

    /// Allocates the remainder of the heap in few blocks, the largest first; they stay live.
    pub fn exhaust(&mut self) {
        let most = self.heap_bytes.min(self.largest_request());
        for power in (0..=most.ilog2()).rev() {
            while self.allocate(1 << power).is_some() {}
        }
    }

    fn call(&mut self, size: usize) -> Option<usize> {
        let align = self.heap.entries.natural_align_bytes;
        // SAFETY: the heap is live, and the size is neither zero nor beyond a `Layout`: recipes request less than a
        // heap.
        let block = unsafe { (self.heap.entries.allocate)(self.heap.context, size, align) };
        (!block.is_null()).then_some(block as usize)
    }

    /// Allocates until refused; the blocks in order of request.
    pub fn fill(&mut self, size: usize) -> Vec<Slot> {
        std::iter::from_fn(|| self.allocate(size)).collect()
    }

    /// As [`fill`](Self::fill), in order of address.
    pub fn fill_by_address(&mut self, size: usize) -> Vec<Slot> {
        let mut slots = self.fill(size);
        slots.sort_by_key(|slot| self.address(*slot));
        slots
    }

    /// The address of a block.
    pub fn address(&self, slot: Slot) -> usize {
        self.blocks[slot.number()].0
    }

    /// Deallocates a live block.
    pub fn deallocate(&mut self, slot: Slot) {
        let (address, size) = std::mem::take(&mut self.blocks[slot.number()]);
        let align = self.heap.entries.natural_align_bytes;
        // SAFETY: recipes deallocate what they allocated, once.
        unsafe { (self.heap.entries.deallocate)(self.heap.context, address as *mut u8, size, align) };
        self.script.deallocate(slot);
    }

    /// Deallocates blocks in the order given.
    pub fn deallocate_all(&mut self, slots: impl IntoIterator<Item = Slot>) {
        slots.into_iter().for_each(|slot| self.deallocate(slot));
    }

    /// Reallocates a live block; `None` if refused, which is recorded as well.
    pub fn reallocate(&mut self, slot: Slot, size: usize) -> Option<()> {
        let (address, old) = self.blocks[slot.number()];
        let align = self.heap.entries.natural_align_bytes;
        // SAFETY: recipes reallocate what they allocated and have not deallocated; the size is as in `call`.
        let moved = unsafe { (self.heap.entries.reallocate)(self.heap.context, address as *mut u8, old, align, size) };
        self.script.reallocate(slot, size);
        if moved.is_null() {
            return None;
        }
        self.blocks[slot.number()] = (moved as usize, size);
        Some(())
    }
}

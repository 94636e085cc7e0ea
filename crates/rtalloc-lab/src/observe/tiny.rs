//! A small heap whose state can be read, saved and restored: all state of our allocators is in the region.

use rtalloc::contract::Block;
use rtalloc_subjects::{Heap, Refusal, Region, Subject, View};

/// The heap.
#[derive(Debug)]
pub struct Tiny<'region> {
    /// The heap itself.
    pub heap: Heap<'region>,
    view: View,
    bytes: usize,
}

impl<'region> Tiny<'region> {
    /// A fresh heap in the first `bytes` bytes of a region.
    ///
    /// # Errors
    ///
    /// [`Refusal`] where they are too few.
    pub fn new(subject: &Subject, view: View, region: &'region mut Region, bytes: usize) -> Result<Self, Refusal> {
        Self::within(subject, view, region, 0, bytes)
    }

    /// A fresh heap in the `bytes` bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn within(
        subject: &Subject,
        view: View,
        region: &'region mut Region,
        offset: usize,
        bytes: usize,
    ) -> Result<Self, Refusal> {
        Ok(Self { heap: Heap::within(subject, region, offset, bytes)?, view, bytes })
    }

    /// The smallest region, a multiple of 8 bytes and at least `least_bytes`, whose fresh heap has at least
    /// `block_bytes` for blocks; `None` if it is larger than the given one.
    #[must_use]
    pub fn region_bytes(
        subject: &Subject,
        view: View,
        region: &mut Region,
        block_bytes: usize,
        least_bytes: usize,
    ) -> Option<usize> {
        let is_enough = |tiny: Tiny<'_>| tiny.block_bytes() >= block_bytes;
        let mut sizes = (least_bytes.next_multiple_of(8)..=region.len()).step_by(8);
        sizes.find(|&bytes| Tiny::new(subject, view, region, bytes).is_ok_and(is_enough))
    }

    /// Bytes of all blocks, headers included.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        let mut bytes = 0;
        self.walk(&mut |block| bytes += block.size_bytes);
        bytes
    }

    /// Visits every block.
    pub fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        // SAFETY: the context is that of the live heap.
        unsafe { (self.view.walk)(self.heap.context, visitor) };
    }

    /// The region's bytes.
    #[must_use]
    pub fn memory(&self) -> &[u8] {
        // SAFETY: the region is mapped, written only by the kernel and by the heap, and no call into the heap is
        // active.
        unsafe { std::slice::from_raw_parts(self.heap.region_start as *const u8, self.bytes) }
    }

    /// Makes the heap what it was when its memory had these bytes.
    ///
    /// # Panics
    ///
    /// If they are not as many as the region has.
    pub fn restore(&self, saved: &[u8]) {
        assert_eq!(saved.len(), self.bytes, "bytes of another heap");
        // SAFETY: as in `memory`; the lengths are equal, and the bytes are a state of this heap at the same address.
        unsafe { std::ptr::copy_nonoverlapping(saved.as_ptr(), self.heap.region_start as *mut u8, self.bytes) }
    }

    /// Emits the heap's abstract state.
    pub fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: the context is that of the live heap.
        unsafe { (self.view.fingerprint)(self.heap.context, word) };
    }
}

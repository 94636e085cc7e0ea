//! Testing the tags of a block before it is taken for live.

use super::{LIVE, Named, PREV_FREE, TagHeap, size_in};
use crate::contract::MisuseKind;
use crate::hook::report;
use crate::mechanism::scrutiny::Scrutiny;
use crate::mechanism::tally::Tally;
use crate::mechanism::word::Width;

/// A live block whose tags were tested.
#[derive(Clone, Copy)]
pub(super) struct LiveBlock {
    pub(super) block: usize,
    pub(super) header: usize,
    /// The size in `header`.
    pub(super) size: usize,
    /// The block behind it, or the sentinel.
    pub(super) next: usize,
    pub(super) next_header: usize,
}

impl<I: Named<W>, W: Width, T: Tally, G: Scrutiny> TagHeap<'_, I, W, T, G> {
    /// Bits of a header that are neither size nor flag, and zero.
    pub(super) const NO_FLAG: usize = (W::GRANULE - 1) & !(LIVE | PREV_FREE);

    /// Whether no block can be at an address: it is off the granule, in front of the first block or behind the last.
    #[inline(always)]
    fn is_foreign(&self, address: usize) -> bool {
        // SAFETY: the front is initialised.
        unsafe {
            // The bits below the granule rotate to the top: one comparison for all three.
            let distance = address.wrapping_sub((*self.front()).first_address);
            distance.rotate_right(W::GRANULE.ilog2()) >= (*self.front()).block_granules
        }
    }

    /// The live block at an address, if its tags and the next block's agree that it is one.
    #[inline(always)]
    pub(super) fn live_block(&self, address: usize) -> Option<LiveBlock> {
        let block = self.memory().offset(address);
        // SAFETY: the front is initialised. A granule-aligned offset between the first block and the span has, in front of
        // it, memory of a region, or of the gap between two, where the caller's promise is broken; a size is only followed
        // within the span.
        unsafe {
            if self.is_foreign(address) {
                return None;
            }
            let header = self.header(block);
            // Narrowed to the width of a tag, so that what follows is addressed by it and the address itself is not kept.
            let block = W::get(W::put(block));
            if G::THOROUGH && (header & LIVE == 0 || header & Self::NO_FLAG != 0) {
                return None;
            }
            let size = size_in::<W>(header);
            let next = block.wrapping_add(size);
            if size == 0 || next > (*self.front()).span || (W::MAX == usize::MAX && next < block) {
                return None;
            }
            // A free block's next header has the flag set: this is the test for a double free, too.
            let next_header = self.header(next);
            if next_header & PREV_FREE != 0 {
                return None;
            }
            if G::THOROUGH {
                if next_header & Self::NO_FLAG != 0 {
                    return None;
                }
                if next_header & LIVE == 0 && !self.is_free_block(next, next_header) {
                    return None;
                }
            }
            Some(LiveBlock { block, header, size, next, next_header })
        }
    }

    /// Whether the tags of a block, whose header says that it is free, agree that it is.
    ///
    /// # Safety
    ///
    /// `block` is an offset below the span, and `header` its header.
    #[inline(always)]
    unsafe fn is_free_block(&self, block: usize, header: usize) -> bool {
        let end = block.wrapping_add(header);
        // SAFETY: the front is initialised, and the footer is read only where it lies in front of the span.
        unsafe {
            header != 0
                && size_in::<W>(header) == header
                && end <= (*self.front()).span
                && (W::MAX < usize::MAX || end > block)
                && self.memory().load(Self::footer(block, header)) == header
        }
    }

    /// The free block in front of `block`, which is at `address`, if its tags agree. The footer is read by the address, which
    /// is there sooner than the offset.
    ///
    /// # Safety
    ///
    /// `block` passed [`live_block`](Self::live_block) and has PREV_FREE set.
    #[inline(always)]
    pub(super) unsafe fn free_prev(&self, address: usize, block: usize) -> Option<usize> {
        // SAFETY: the word in front of the header belongs to the heap: a free block's footer, unless the flag was
        // overwritten; the footer is only followed where a header can be.
        unsafe {
            let size = self.memory().load(self.memory().offset(address).wrapping_sub(2 * W::BYTES));
            let prev = block.wrapping_sub(size);
            if G::THOROUGH && (size == 0 || size_in::<W>(size) != size) {
                return None;
            }
            if size > block || self.header(prev) != size {
                return None;
            }
            Some(prev)
        }
    }

    /// Reports an address whose tags are not those of a live block, and what they show.
    #[cold]
    #[inline(never)]
    pub(super) fn report_misuse(&self, address: usize) {
        let block = self.memory().offset(address);
        // SAFETY: the front is initialised, and an offset in the heap has a word of it in front.
        let kind = unsafe {
            if self.is_foreign(address) {
                MisuseKind::ForeignPointer
            } else if self.header(block) & LIVE == 0 {
                MisuseKind::DoubleFree
            } else {
                MisuseKind::ContradictoryTags
            }
        };
        report(I::CONTRACT.name, kind, address);
    }
}

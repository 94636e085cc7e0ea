//! Checks of a block's tags before it is accepted as live.

use super::{LIVE, Named, PREV_FREE, TagHeap, size_in};
use crate::contract::MisuseKind;
use crate::hook::report;
use crate::mechanism::memory::Offset;
use crate::mechanism::stats::StatsPolicy;
use crate::mechanism::validation::Validation;
use crate::mechanism::word::Width;

/// A live block whose tags were checked.
#[derive(Clone, Copy)]
pub(super) struct LiveBlock {
    pub(super) block: Offset,
    pub(super) header: usize,
    /// The size in `header`.
    pub(super) size: usize,
    /// The block after it, or the sentinel.
    pub(super) next: Offset,
    pub(super) next_header: usize,
}

impl<I: Named<W>, W: Width, T: StatsPolicy, G: Validation> TagHeap<'_, I, W, T, G> {
    /// Bits of a header that are neither size nor flag, and zero.
    pub(super) const NO_FLAG: usize = (W::GRANULE - 1) & !(LIVE | PREV_FREE);

    /// Whether no block can be at an address: it is unaligned, before the first block or after the last.
    #[inline(always)]
    fn is_foreign(&self, address: usize) -> bool {
        // SAFETY: `init` initialised the front.
        unsafe {
            // The bits below the granule rotate to the top: one comparison for all three.
            let distance = address.wrapping_sub((*self.front()).first_address);
            distance.rotate_right(W::GRANULE.ilog2()) >= (*self.front()).block_granules
        }
    }

    /// The live block at an address, if its tags and the next block's agree.
    #[inline(always)]
    pub(super) fn live_block(&self, address: usize) -> Option<LiveBlock> {
        let block = self.memory().offset(address);
        // SAFETY: `init` initialised the front. A granule-aligned offset between the first block and the span is
        // preceded by memory of a region, or of the gap between two regions if the caller broke the contract of
        // `deallocate`. A size is followed only within the span.
        unsafe {
            if self.is_foreign(address) {
                return None;
            }
            let header = Self::sealed(self.header(block));
            // Narrowed to the width of a tag, so that the address need not be kept in a register.
            let block = Offset::new(W::get(W::put(block.bytes())));
            if G::IS_FULL && (header & LIVE == 0 || header & Self::NO_FLAG != 0) {
                return None;
            }
            let size = size_in::<W>(header);
            let next = block.up(size);
            if size == 0 || next > (*self.front()).span || (W::MAX == usize::MAX && next < block) {
                return None;
            }
            // The header after a free block has PREV_FREE set, so this also detects a double free.
            let next_header = self.header(next);
            if next_header & (PREV_FREE | Self::NO_FLAG) != 0 {
                return None;
            }
            if G::IS_FULL {
                let is_sound = match next_header & LIVE {
                    0 => self.is_free_block(next, next_header),
                    _ => self.is_likely_live(next, Self::sealed(next_header)),
                };
                if !is_sound {
                    return None;
                }
            }
            Some(LiveBlock { block, header, size, next, next_header })
        }
    }

    /// Whether a block whose tag says that it is live ends where a block can end. Without a seal, the header at its end
    /// must agree, too: if the flag of a free block was overwritten, the next header still has PREV_FREE set.
    ///
    /// # Safety
    ///
    /// `block` is at most the span, and `tag` is its tag.
    #[inline(always)]
    unsafe fn is_likely_live(&self, block: Offset, tag: usize) -> bool {
        let size = size_in::<W>(tag);
        // SAFETY: `init` initialised the front, and a header is read only below the span.
        unsafe {
            size <= (*self.front()).span.bytes_from(block)
                && (Self::IS_SEALED || self.header(block.up(size)) & (PREV_FREE | Self::NO_FLAG) == 0)
        }
    }

    /// Whether the tags of a block whose header says that it is free agree.
    ///
    /// # Safety
    ///
    /// `block` is below the span, and `header` is its header.
    #[inline(always)]
    unsafe fn is_free_block(&self, block: Offset, header: usize) -> bool {
        let end = block.up(header);
        // SAFETY: `init` initialised the front, and the footer is read only below the span.
        unsafe {
            header != 0
                && size_in::<W>(header) == header
                && end <= (*self.front()).span
                && (W::MAX < usize::MAX || end > block)
                && self.memory().load(Self::footer(block, header)) == header
        }
    }

    /// Whether the tags around a block of at least `granted` bytes, returned by the index, agree that it is free.
    ///
    /// # Safety
    ///
    /// `block` is in the index, and `size` its header.
    #[inline(always)]
    pub(super) unsafe fn is_whole(&self, block: Offset, size: usize, granted: usize) -> bool {
        // SAFETY: the header is that of a block below the span; the next header is below the span or the sentinel's.
        unsafe {
            size >= granted
                && self.is_free_block(block, size)
                && self.header(block.up(size)) & (LIVE | PREV_FREE) == LIVE | PREV_FREE
        }
    }

    /// The free block before `block`, which is at `address`, if its tags agree. The footer is read by the address,
    /// which is available sooner than the offset.
    ///
    /// # Safety
    ///
    /// `block` passed [`live_block`](Self::live_block) and has PREV_FREE set.
    #[inline(always)]
    pub(super) unsafe fn free_prev(&self, address: usize, block: Offset) -> Option<Offset> {
        // SAFETY: the word before the header belongs to the heap: it is a free block's footer, unless the flag was
        // overwritten. The footer is followed only to where a header can be.
        unsafe {
            let size = self.memory().load(self.memory().offset(address).down(2 * W::BYTES));
            let prev = block.down(size);
            if G::IS_FULL && (size == 0 || size_in::<W>(size) != size) {
                return None;
            }
            if size > block.bytes() || self.header(prev) != size {
                return None;
            }
            Some(prev)
        }
    }

    /// Reports an address whose tags are not those of a live block, and the kind of misuse that they show.
    #[cold]
    #[inline(never)]
    pub(super) fn report_misuse(self, address: usize) {
        let block = self.memory().offset(address);
        // SAFETY: `init` initialised the front, and a word of the heap precedes an aligned offset.
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

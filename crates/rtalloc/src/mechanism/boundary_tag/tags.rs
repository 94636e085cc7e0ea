//! Checks of a block's tags before it is accepted as live.

use super::{Header, Named, Tag, TagHeap};
use crate::contract::MisuseKind;
use crate::hook::report;
use crate::mechanism::memory::Offset;
use crate::mechanism::stats::StatsPolicy;
use crate::mechanism::validation::Validation;
use crate::mechanism::word::Width;

/// A live block whose tags were checked.
#[derive(Clone, Copy)]
pub(super) struct LiveBlock<W, G> {
    pub(super) block: Offset,
    pub(super) tag: Tag<W>,
    /// The size in `tag`.
    pub(super) size: usize,
    /// The block after it, or the sentinel.
    pub(super) next: Offset,
    pub(super) next_header: Header<W, G>,
}

impl<I: Named<W>, W: Width, T: StatsPolicy, G: Validation> TagHeap<'_, I, W, T, G> {
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
    pub(super) fn live_block(&self, address: usize) -> Option<LiveBlock<W, G>> {
        let block = self.memory().offset(address);
        // SAFETY: `init` initialised the front. A granule-aligned offset between the first block and the span is
        // preceded by memory of a region, or of the gap between two regions if the caller broke the contract of
        // `deallocate`. A size is followed only within the span.
        unsafe {
            if self.is_foreign(address) {
                return None;
            }
            let tag = self.header(block).live_tag();
            // Narrowed to the width of a tag, so that the address need not be kept in a register.
            let block = Offset::new(W::get(W::put(block.bytes())));
            if G::IS_FULL && (!tag.is_live() || tag.has_unused_bits::<G>()) || tag.is_aside::<G>() {
                return None;
            }
            let size = tag.size();
            let next = block.up(size);
            if size == 0 || next > (*self.front()).span || (W::MAX == usize::MAX && next < block) {
                return None;
            }
            // The header after a free block has PREV_FREE set, so this also detects a double free.
            let next_header = self.header(next);
            if !next_header.follows_live() {
                return None;
            }
            if G::IS_FULL {
                let is_sound = match next_header.is_live() {
                    false => self.is_free_block(next, next_header.free_size()),
                    true => self.is_likely_live(next, next_header.live_tag()),
                };
                if !is_sound {
                    return None;
                }
            }
            Some(LiveBlock { block, tag, size, next, next_header })
        }
    }

    /// Whether a block whose tag says that it is live ends where a block can end. Without a seal, the header at its end
    /// must agree, too: if the flag of a free block was overwritten, the next header still has PREV_FREE set.
    ///
    /// # Safety
    ///
    /// `block` is at most the span, and `tag` is its tag.
    #[inline(always)]
    unsafe fn is_likely_live(&self, block: Offset, tag: Tag<W>) -> bool {
        let size = tag.size();
        // SAFETY: `init` initialised the front, and a header is read only below the span.
        unsafe {
            size <= (*self.front()).span.bytes_from(block)
                && (Header::<W, G>::IS_SEALED || self.header(block.up(size)).follows_live())
        }
    }

    /// Whether the tags of a block whose header says that it is free, of this size, agree.
    ///
    /// # Safety
    ///
    /// `block` is below the span, and `size` is its header.
    #[inline(always)]
    unsafe fn is_free_block(&self, block: Offset, size: usize) -> bool {
        let end = block.up(size);
        // SAFETY: `init` initialised the front, and the footer is read only below the span.
        unsafe {
            size != 0
                && size & (W::GRANULE - 1) == 0
                && end <= (*self.front()).span
                && (W::MAX < usize::MAX || end > block)
                && self.memory().load(Self::footer(block, size)) == size
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
                && self.header(block.up(size)).is_live()
                && self.header(block.up(size)).is_prev_free()
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
            if G::IS_FULL && (size == 0 || size & (W::GRANULE - 1) != 0) {
                return None;
            }
            if size > block.bytes() || self.header(prev).free_size() != size {
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
            } else if !self.header(block).is_live() || self.header(block).live_tag().is_aside::<G>() {
                MisuseKind::DoubleFree
            } else {
                MisuseKind::ContradictoryTags
            }
        };
        report(I::CONTRACT.name, kind, address);
    }
}

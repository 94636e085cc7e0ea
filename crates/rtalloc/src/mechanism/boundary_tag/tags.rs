//! Checks of a block's tags before it is accepted as live.

use super::header::Tag;
use super::{Header, Named, TagHeap};
use crate::contract::MisuseKind;
use crate::hook::report;
use crate::mechanism::bits::computed;
use crate::mechanism::memory::Offset;
use crate::mechanism::stats::StatsPolicy;
use crate::mechanism::validation::Validation;
use crate::mechanism::word::Width;

/// A live block whose tags were checked.
#[derive(Clone, Copy)]
pub(super) struct LiveBlock<W, G> {
    pub(super) block: Offset,
    pub(super) size: usize,
    /// Whether the block before it is free.
    pub(super) follows_free: bool,
    /// The header of the block after it, or of the sentinel.
    pub(super) next_header: Header<W, G>,
}

impl<I: Named<W>, W: Width, T: StatsPolicy, G: Validation> TagHeap<'_, I, W, T, G> {
    /// Whether the alignment of an address has a test of its own. RV32 without Zbb has no instruction that rotates. That of
    /// Armv6-M takes its distance from a second register, which is dear where few other tests need one.
    const TESTS_ALIGNMENT: bool = cfg!(all(target_arch = "riscv32", not(target_feature = "zbb")))
        || Self::IS_OWN_TAG && cfg!(all(target_arch = "arm", not(target_has_atomic = "ptr")));
    /// The unit of the distance between the first block and the highest sentinel.
    pub(super) const UNIT_BYTES: usize = if Self::TESTS_ALIGNMENT { 1 } else { W::GRANULE };

    /// Whether no block can be at an address: it is unaligned, before the first block or after the last.
    #[inline(always)]
    fn is_foreign(&self, address: usize) -> bool {
        // SAFETY: `init` initialised the front.
        unsafe {
            let distance = address.wrapping_sub((*self.front()).first_address);
            // Bits below the unit, if it has any, rotate to the top: one comparison for both ends and the alignment.
            Self::TESTS_ALIGNMENT && address & (W::GRANULE - 1) != 0
                || distance.rotate_right(Self::UNIT_BYTES.ilog2()) >= (*self.front()).block_units
        }
    }

    /// Whether no block can be at an address, where that is checked. `is_inside`: the address is known to lie between the
    /// first block and the last sentinel, aligned or not.
    #[inline(always)]
    fn is_misplaced(&self, address: usize, is_inside: bool) -> bool {
        G::IS_CHECKED && if is_inside { address & (W::GRANULE - 1) != 0 } else { self.is_foreign(address) }
    }

    /// The offset of an address at which a block can be, where that is checked; `is_inside` as in
    /// [`is_misplaced`](Self::is_misplaced).
    #[inline(always)]
    pub(super) fn placed(&self, address: usize, is_inside: bool) -> Option<Offset> {
        if self.is_misplaced(address, is_inside) {
            return None;
        }
        let block = self.memory().offset(address).bytes();
        // One register for the block and its address, which is then computed from the offset where it is reported.
        let block = match cfg!(target_arch = "x86_64") {
            true => computed(block as u64) as usize,
            false => W::get(W::put(block)),
        };
        Some(Offset::new(block))
    }

    /// The block after one of this size that begins at `block`, and its header; `None` if it is beyond the heap, where
    /// that is checked.
    ///
    /// # Safety
    ///
    /// A block can be at `block`.
    #[inline(always)]
    pub(super) unsafe fn next_to(&self, block: Offset, size: usize) -> Option<(Offset, Header<W, G>)> {
        let next = block.up(size);
        // SAFETY: `init` initialised the front. An aligned offset up to the span is preceded by memory of a region, or
        // of the gap between two regions if the caller broke the contract of `deallocate`.
        unsafe {
            if G::CHECKS_NEIGHBOURS && (next > (*self.front()).span || (W::MAX == usize::MAX && next < block)) {
                return None;
            }
            Some((next, self.header(next)))
        }
    }

    /// Whether the tags of the block after a live one agree, where that is checked.
    ///
    /// # Safety
    ///
    /// [`next_to`](Self::next_to) returned the block and its header, which says that it is free or follows a live one.
    #[inline(always)]
    pub(super) unsafe fn is_sound_next(&self, next: Offset, header: Header<W, G>) -> bool {
        // SAFETY: the block is at most at the span.
        unsafe {
            match header.is_free() {
                _ if !G::IS_FULL => true,
                true => self.is_free_block(next, header.free_size()),
                false => self.is_likely_live(next, header.live_tag()),
            }
        }
    }

    /// The live block at an address, of at most `most` bytes, if all tags around it agree, where that is checked;
    /// `is_inside` as in [`is_misplaced`](Self::is_misplaced).
    #[inline(always)]
    pub(super) fn live_block(&self, address: usize, most: usize, is_inside: bool) -> Option<LiveBlock<W, G>> {
        if self.is_misplaced(address, is_inside) {
            return None;
        }
        let block = self.memory().offset(address);
        // SAFETY: an aligned address between the first block and the last sentinel is preceded by memory of a region,
        // or of the gap between two regions if the caller broke the contract of `deallocate`. A size is followed only
        // within the span.
        unsafe {
            let tag = self.header(block).live_tag();
            let follows_free = tag.is_prev_free();
            let size = tag.any_live_size::<G>(most)?;
            if G::IS_CHECKED && size > (*self.front()).span.bytes_from(block) {
                return None;
            }
            let next = block.up(size);
            let next_header = self.header(next);
            // The header after a free block has PREV_FREE set, so this also detects a double free; of a block that has
            // merged with the one before it, only the last test does.
            let is_sound = next_header.is_after_live()
                && self.is_sound_next(next, next_header)
                && (!follows_free || self.free_prev(block).is_ok());
            is_sound.then_some(LiveBlock { block, size, follows_free, next_header })
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
            if size > (*self.front()).span.bytes_from(block) {
                return false;
            }
            let next_header = self.header(block.up(size));
            Header::<W, G>::IS_SEALED || next_header.is_after_live()
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

    /// The free block before `block`, if its tags agree, where that is checked.
    ///
    /// # Errors
    ///
    /// The address of `block`, if they do not.
    ///
    /// # Safety
    ///
    /// A block can be at `block`, and its header says that it is live and follows a free block.
    #[inline(always)]
    pub(super) unsafe fn free_prev(&self, block: Offset) -> Result<Offset, usize> {
        let memory = self.memory();
        // SAFETY: the word before the header belongs to the heap: it is a free block's footer, unless the flag was
        // overwritten. The footer is followed only to where a header can be.
        unsafe {
            let size = memory.load(block.down(2 * W::BYTES));
            let (prev, is_below) = block.bytes().overflowing_sub(size);
            // The block is not kept in a register: its address is computed from the previous one's.
            let prev = Offset::new(computed(prev as u64) as usize);
            let is_size = !G::IS_FULL || size != 0 && size & (W::GRANULE - 1) == 0;
            if G::CHECKS_NEIGHBOURS && (is_below || !is_size || self.header(prev).free_size() != size) {
                return Err(memory.address(prev.up(size)));
            }
            Ok(prev)
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

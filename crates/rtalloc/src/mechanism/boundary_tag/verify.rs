//! Walk, check and fingerprint of a tag heap.

use super::{Named, TagHeap};
use crate::contract::{Block, Corruption};
use crate::mechanism::memory::Offset;
use crate::mechanism::stats::StatsPolicy;
use crate::mechanism::validation::Validation;
use crate::mechanism::word::Width;

/// Calls a visitor with the first block and the sentinel of each region.
type Regions<'a> = dyn Fn(&mut dyn FnMut(Offset, Offset)) + 'a;

impl<I: Named<W>, W: Width, T: StatsPolicy, G: Validation> TagHeap<'_, I, W, T, G> {
    /// Calls `visit` with every block of every region.
    pub(super) fn visit_blocks(&self, visit: &mut dyn FnMut(Block)) {
        self.for_each_region(&mut |sentinel| self.visit_between(self.first_block(sentinel), sentinel, visit));
    }

    /// Calls `visit` with every block from `first` to the sentinel of its region.
    pub(super) fn visit_between(&self, first: Offset, sentinel: Offset, visit: &mut dyn FnMut(Block)) {
        let mut block = first;
        while block != sentinel {
            // SAFETY: `block` is the region's first block, or the end of the previous one and not the sentinel.
            let tag = unsafe { self.header(block) }.tag();
            let size_bytes = tag.size();
            visit(Block {
                address: self.memory().address(block),
                front_bytes: W::BYTES,
                size_bytes,
                usable_bytes: size_bytes - W::BYTES,
                free: !tag.is_live() || tag.is_aside::<G>(),
            });
            block = block.up(size_bytes);
        }
    }

    /// Verifies all tags, then the index.
    pub(super) fn verify(&self) -> Result<(), Corruption> {
        self.verify_sentinels()?;
        self.verify_regions(&|visit| self.for_each_region(&mut |sentinel| visit(self.first_block(sentinel), sentinel)))
    }

    /// Verifies the tags of the regions, each from its first block to its sentinel, then the index.
    pub(super) fn verify_regions(&self, regions: &Regions<'_>) -> Result<(), Corruption> {
        let mut free_blocks = 0;
        let mut result = Ok(());
        regions(&mut |first, sentinel| {
            if result.is_ok() {
                result = self.verify_region(first, sentinel, &mut free_blocks);
            }
        });
        result?;
        self.verify_front()?;
        let is_place = |block: Offset| {
            let mut is_inside = false;
            regions(&mut |first, sentinel| {
                is_inside |= block.bytes_from(first) < sentinel.bytes_from(first);
            });
            is_inside && block.is_aligned(W::GRANULE)
        };
        // SAFETY: the index is initialised for the largest planned block, and all tags are verified.
        let indexed = unsafe { I::check(self.memory(), free_blocks, (*self.front()).limit + W::BYTES, &is_place)? };
        if indexed != free_blocks {
            let address = self.base.addr().get();
            return Err(Corruption { invariant: "every free block is in the index", address });
        }
        Ok(())
    }

    /// Verifies the fields by which `deallocate` validates an address: `verify_sentinels` has compared the first block
    /// and the highest sentinel with the regions.
    fn verify_front(&self) -> Result<(), Corruption> {
        // SAFETY: `init` initialised the front.
        let (block_units, span) = unsafe { ((*self.front()).block_units, (*self.front()).span) };
        if block_units != span.bytes_from(self.first_region_block()) / Self::UNIT_BYTES {
            let invariant = "the front has the first block and the highest sentinel";
            return Err(Corruption { invariant, address: self.front().addr() });
        }
        Ok(())
    }

    /// Verifies the list of regions, following no link out of the heap's span. The regions can be walked afterwards.
    fn verify_sentinels(&self) -> Result<(), Corruption> {
        let memory = self.memory();
        // SAFETY: `init` initialised the front.
        let span = unsafe { (*self.front()).span };
        let mut sentinel = self.latest_sentinel();
        let mut highest = Offset::BASE;
        loop {
            let broken = |invariant| Err(Corruption { invariant, address: memory.address(sentinel) });
            if !sentinel.is_aligned(W::GRANULE) || sentinel > span {
                return broken("the list of regions leads from sentinel to sentinel");
            }
            // SAFETY: the offset is aligned and lies within the span.
            if unsafe { self.header(sentinel) }.tag().size() != 0 {
                return broken("a region ends with its sentinel");
            }
            let first = self.first_block(sentinel);
            if !first.is_aligned(W::GRANULE) || sentinel.bytes_from(first) > span.bytes_from(first) {
                return broken("a region begins with a block before its sentinel");
            }
            highest = highest.max(sentinel);
            let next = self.next_sentinel(sentinel);
            if next == Offset::BASE {
                // The first region is the last of the list.
                return if first == self.first_region_block() && highest == span {
                    Ok(())
                } else {
                    broken("the list of regions ends with the first")
                };
            }
            sentinel = next;
        }
    }

    /// Verifies the tags of one region and counts its free blocks.
    fn verify_region(&self, first: Offset, sentinel: Offset, free_blocks: &mut usize) -> Result<(), Corruption> {
        let memory = self.memory();
        let mut block = first;
        let mut prev_free = false;
        loop {
            let broken = |invariant| Err(Corruption { invariant, address: memory.address(block) });
            // SAFETY: `block` is a block or the sentinel: sizes are followed only within the region.
            let tag = unsafe { self.header(block) }.tag();
            let size = tag.size();
            let is_free = !tag.is_live();
            if tag.has_unused_bits::<G>() || (is_free && tag.is_aside::<G>()) {
                return broken("a header has a size and two flags, or three if the block is set aside");
            }
            if tag.is_prev_free() != prev_free {
                return broken("PREV_FREE is set if and only if the previous block is free");
            }
            if block == sentinel {
                return if size == 0 && !is_free { Ok(()) } else { broken("a region ends with its sentinel") };
            }
            if size < I::MIN_BLOCK {
                return broken("a block is at least of the minimum size");
            }
            if size > sentinel.bytes_from(block) {
                return broken("a block ends within its region");
            }
            if is_free {
                *free_blocks += 1;
                if prev_free {
                    return broken("free neighbours are one block");
                }
                // SAFETY: the footer lies inside the block.
                if unsafe { memory.load(Self::footer(block, size)) } != size {
                    return broken("a free block's footer repeats its size");
                }
            }
            prev_free = is_free;
            block = block.up(size);
        }
    }

    /// Emits the tags in address order, then the lists in their order.
    pub(super) fn emit_state(&self, word: &mut dyn FnMut(usize)) {
        self.visit_blocks(&mut |block| {
            word(block.address);
            word(block.size_bytes | usize::from(block.free));
        });
        self.emit_index(word);
    }

    /// Emits the lists in their order.
    pub(super) fn emit_index(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: `init` initialised the index.
        unsafe {
            I::lists(self.memory(), &mut |list, block| {
                word(list);
                word(block.bytes());
            });
        }
    }
}

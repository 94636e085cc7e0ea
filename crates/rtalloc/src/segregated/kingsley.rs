//! Kingsley's allocator: power-of-two classes, one list each.
//!
//! # Idea
//!
//! Block sizes are powers of two, header included, so each class serves requests of up to a power of two minus the
//! header. A request takes the first block of its class; a freed block returns to its class. Nothing is split and
//! nothing coalesces (the thesis, 4.2.5; it was the `malloc` of 4.2BSD).
//!
//! When the list of a class was empty, Kingsley's code took a page, cut all of it into blocks of the class and linked
//! them in a loop. Here the page also belongs to the class, but its blocks are cut one by one as requests arrive; a
//! mark per class stores the position. This keeps allocate free of loops. The blocks of a page are taken in the same
//! (ascending) order, and a page is not touched beyond the last block that was requested. Blocks of a page or more are
//! cut one at a time, as in Kingsley's code.
//!
//! ```text
//! request 100 -> class of blocks of 128 -> its list empty? cut 128 bytes at its mark : take its first block
//!
//! lists   16: -> [ ] -> #    32: -> #    64: -> #    128: -> #    ...
//! memory  page of 16: [ ][ ]|mark ......   page of 128: [       ][       ]|mark ......   | not yet cut
//! ```
//!
//! | | 4.2BSD | ours |
//! |---|---|---|
//! | smallest block | 16 bytes | 16 bytes with headers of 4; two words where the header is wider |
//! | header | one word: the class and a magic number | the class and its complement, in one word of width `W` |
//! | page | the machine's | `PAGE` bytes, 4096 |
//! | alignment | the header's word | the class's own: a block of 2^k is aligned to 2^k, up to a page |
//!
//! Payloads, not headers, are at multiples of their class, so alignments up to a page need no more than a larger class.
//! For this the first page is aligned to a page, which costs a heap up to one page. Choose a small `PAGE` for a small
//! heap.
//!
//! # Costs
//!
//! No loop: a bit search for the class, one list node linked or unlinked, one header written. The control structure has
//! one word for each class, and another for each class below a page.
//!
//! # When it wins, when it loses
//!
//! It is fast and serves any size. It wastes up to half of every block, and memory of one class never serves another:
//! up to twice the live memory for each class.
//!
//! # Figures
//!
//! <!-- figures: kingsley -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `kingsley` | 46, 59, 29 | 4 B | 16 B | 4,092 B, 4,092 B | 66.6 %, 50.2 % |
//!
//! Measured 2026-11-26 at 0d75829 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

use crate::contract::Contract;
use crate::limits::{Limit, largest_bytes, most_objects};
use crate::mechanism::bits::floor_log2;
use crate::mechanism::class_lists::{ClassLists, ClassMap, class_contract};
use crate::mechanism::policy_heap::PolicyHeap;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::stats::{NoStats, StatsPolicy};
use crate::mechanism::word::{Offset32, Width};
use core::num::NonZeroUsize;

/// Classes of powers of two, those below `PAGE` cut from pages.
#[derive(Clone, Copy, Debug)]
pub struct PowersOfTwo<const PAGE: usize>;

/// The policy of a [`Kingsley`] heap.
pub type KingsleyPolicy<const PAGE: usize, W> = ClassLists<PowersOfTwo<PAGE>, W>;

/// Kingsley's allocator with pages of `PAGE` bytes, headers of width `W`, and statistics `T`.
pub type Kingsley<'r, const PAGE: usize = 4096, W = Offset32, T = NoStats> = PolicyHeap<'r, KingsleyPolicy<PAGE, W>, T>;

impl<const PAGE: usize, W: Width, T: StatsPolicy> Kingsley<'_, PAGE, W, T> {
    /// Bytes of a region, wherever it starts, in which no request within the limits is ever refused; [`usize::MAX`] if
    /// no region suffices. Theorem and proof: `docs/guarantees/segregated.md`.
    ///
    /// ```
    /// use rtalloc::Kingsley;
    /// use rtalloc::limits::Limit;
    ///
    /// // Whole pages for each power of two; a request of 200 bytes takes a block of 256.
    /// const KNOWN: [Limit; 2] = [Limit::of(64, 200), Limit::of(8, 2044)];
    /// assert!(<Kingsley>::region_bytes_for(&KNOWN) < 64 * 256 + 8 * 2048 + 5000);
    /// ```
    ///
    /// # Time
    ///
    /// Linear in the limits, times the number of classes.
    #[must_use]
    pub const fn region_bytes_for(limits: &[Limit]) -> usize {
        Self::region_bytes_for_modes(&[limits])
    }

    /// The same for a program with several modes: at any time, what is live is within the limits of one of them.
    ///
    /// # Time
    ///
    /// As [`region_bytes_for`](Self::region_bytes_for).
    #[must_use]
    pub const fn region_bytes_for_modes(modes: &[&[Limit]]) -> usize {
        let largest_bytes = largest_bytes(modes);
        if largest_bytes == 0 {
            return 0;
        }
        // The bytes of a block, and those of the largest request below it.
        let (mut block_bytes, mut below_bytes, mut sum_bytes, mut classes) = (W::GRANULE, 0, 0_usize, 0);
        loop {
            classes += 1;
            let request_bytes = block_bytes - W::BYTES;
            let objects = most_objects(modes, below_bytes + 1, request_bytes);
            let bytes = if block_bytes < PAGE {
                objects.div_ceil(PAGE / block_bytes).saturating_mul(PAGE)
            } else {
                objects.saturating_mul(block_bytes)
            };
            sum_bytes = sum_bytes.saturating_add(bytes);
            if request_bytes >= largest_bytes {
                break;
            }
            if block_bytes > W::MAX / 2 {
                return usize::MAX;
            }
            (block_bytes, below_bytes) = (2 * block_bytes, request_bytes);
        }
        // The heap has heads for all classes whose blocks would fit the sum, and marks for those smaller than a page.
        while classes < <PowersOfTwo<PAGE> as ClassMap<W>>::MAX_CLASSES && W::GRANULE << classes <= sum_bytes {
            classes += 1;
        }
        let words_bytes = (<PowersOfTwo<PAGE> as ClassMap<W>>::SMALL_CLASSES + classes) * W::BYTES;
        let region_bytes = sum_bytes.saturating_add(Self::CONTROL_BYTES + words_bytes + W::BYTES + PAGE - 1);
        if region_bytes > W::MAX { usize::MAX } else { region_bytes }
    }
}

impl<const PAGE: usize> PowersOfTwo<PAGE> {
    /// log2 of the smallest block.
    #[inline(always)]
    const fn smallest_log2<W: Width>() -> usize {
        W::GRANULE.ilog2() as usize
    }
}

impl<const PAGE: usize> Sealed for PowersOfTwo<PAGE> {}

impl<const PAGE: usize, W: Width> ClassMap<W> for PowersOfTwo<PAGE> {
    const GRANULE: usize = W::GRANULE;
    const CHUNK: usize = PAGE;
    const SMALL_CLASSES: usize = PAGE.ilog2() as usize - Self::smallest_log2::<W>();
    const MAX_CLASSES: usize = usize::BITS as usize - Self::smallest_log2::<W>();
    const ALIGN: usize = PAGE;
    const CONTRACT: Contract = Contract {
        name: "kingsley",
        source: "Kingsley 1982; Bitframe thesis 2012, section 4.2.5",
        policy: "power-of-two class or a new block",
        ..class_contract::<W, Self>()
    };

    type Config = ();

    fn new((): ()) -> Self {
        Self
    }

    #[inline(always)]
    fn class_for(&self, need: usize) -> Class {
        let below = (need - 1) | (W::GRANULE - 1);
        // SAFETY: the bits below the granule are set, so the operand is not zero.
        let log2 = floor_log2(unsafe { NonZeroUsize::new_unchecked(below) }) as usize + 1;
        Class::new(log2 - Self::smallest_log2::<W>())
    }

    #[inline(always)]
    fn size(&self, class: Class) -> usize {
        W::GRANULE << class.number()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::contract::{Block, RegionAllocator};
    use std::{vec, vec::Vec};

    /// Section 4.2.5: powers of two minus a constant.
    #[test]
    fn classes_are_powers_of_two_minus_the_header() {
        let mut memory = vec![core::mem::MaybeUninit::uninit(); 1 << 18];
        let mut heap: Kingsley<'_> = Kingsley::new(&mut memory, ()).unwrap();
        let granule = 2 * size_of::<usize>();
        for size_bytes in (1..=5000usize).step_by(13) {
            let block = heap.allocate_bytes(size_bytes, 1).unwrap();
            // SAFETY: the block is live until it is freed here.
            unsafe {
                assert_eq!(heap.usable_size(block), (size_bytes + 4).next_power_of_two().max(granule) - 4);
                heap.deallocate(block);
            }
        }
        assert_eq!(heap.check(), Ok(()));
    }

    /// A page belongs to one class, its blocks are cut in ascending order, and the uncut rest is one free block.
    #[test]
    fn a_page_is_cut_as_requests_come() {
        let mut memory = vec![core::mem::MaybeUninit::uninit(); 1 << 14];
        let mut heap: Kingsley<'_, 1024> = Kingsley::new(&mut memory, ()).unwrap();
        let first = heap.allocate_bytes(100, 1).unwrap().addr().get();
        let other = heap.allocate_bytes(200, 1).unwrap().addr().get();
        let second = heap.allocate_bytes(100, 1).unwrap().addr().get();
        assert_eq!((second, other), (first + 128, first + 1024));
        let mut blocks: Vec<Block> = vec![];
        heap.walk(&mut |block| blocks.push(block));
        let shown: Vec<(usize, bool)> = blocks[..5].iter().map(|block| (block.size_bytes, block.free)).collect();
        assert_eq!(shown, [(128, false), (128, false), (768, true), (256, false), (768, true)]);
    }
}

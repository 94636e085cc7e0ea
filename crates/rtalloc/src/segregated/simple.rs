//! Simple segregated storage: one free list per size.
//!
//! # Idea
//!
//! An array of free lists, one per multiple of a quantum. A request takes the first block of its class; if there is
//! none, a block is cut from unused memory. A freed block returns to the list of its class. Nothing is split and
//! nothing coalesces (the thesis, 3.2.2; `sss` of its evaluation, 6.2).
//!
//! ```text
//! request 40, quantum 16 -> class of blocks of 48 -> its list empty? cut 48 bytes at the top : take its first block
//!
//! lists   16: -> #   32: -> [ ] -> #   48: -> #   ...   1024: -> #
//! memory  [48 live][32 free][48 live]| not yet cut
//! ```
//!
//! | | the thesis | ours |
//! |---|---|---|
//! | classes | 8, 16, 24 ... 512 bytes: 64 | `QUANTUM`, 2·`QUANTUM` ... `CLASSES`·`QUANTUM`, header included: 64, of 16 bytes on 64-bit machines |
//! | header | a pointer to the class, 4 bytes | the class and its complement, in one word of width `W`: 4 bytes, or 2, or 8 |
//! | free | no branch | two tests, which detect foreign pointers, double frees and overwritten headers |
//! | alignment | not stated | the quantum |
//!
//! A class is the size of the whole block, while in the thesis it is the size of the request; so payloads stay aligned
//! to the quantum. `SimpleSegregated<8, 65>` serves the same requests as `sss`: up to 512 bytes at alignment 8.
//!
//! An alignment beyond the quantum is refused: shifting the payload would need a mark that every deallocate checks. For
//! alignment to cache lines of 64 bytes, choose a quantum of 64.
//!
//! # Costs
//!
//! No loop: one list node linked or unlinked, and one header written. No allocator here is faster. The control
//! structure takes four bytes per class.
//!
//! # When it wins, when it loses
//!
//! It wins if a program uses few sizes in steady numbers. Memory of one size never serves another: in the worst case
//! the heap is the sum of the peaks of all classes. So the thesis found it too unstable for real-time systems.
//!
//! # Figures
//!
//! <!-- figures: simple-segregated -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `simple-segregated` | 29, 37, 29 | 4 B | 16 B | 300 B, 300 B | -, 23.0 % (blocks up to 1,020 B) |
//!
//! Measured 2026-11-25 at 7a7e9c4 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

use crate::contract::Contract;
use crate::limits::{Limit, largest_bytes, most_objects};
use crate::mechanism::class_lists::{ClassLists, ClassMap, class_contract};
use crate::mechanism::policy_heap::PolicyHeap;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::stats::{NoStats, StatsPolicy};
use crate::mechanism::word::{Offset32, Width};

/// Classes `QUANTUM` bytes apart, `CLASSES` of them.
#[derive(Clone, Copy, Debug)]
pub struct MultiplesOf<const QUANTUM: usize, const CLASSES: usize>;

/// The policy of a [`SimpleSegregated`] heap.
pub type SimpleSegregatedPolicy<const QUANTUM: usize, const CLASSES: usize, W> =
    ClassLists<MultiplesOf<QUANTUM, CLASSES>, W>;

/// Simple segregated storage with `CLASSES` classes `QUANTUM` bytes apart, headers of width `W`, and statistics `T`.
pub type SimpleSegregated<
    'r,
    const QUANTUM: usize = { 2 * size_of::<usize>() },
    const CLASSES: usize = 64,
    W = Offset32,
    T = NoStats,
> = PolicyHeap<'r, SimpleSegregatedPolicy<QUANTUM, CLASSES, W>, T>;

impl<const QUANTUM: usize, const CLASSES: usize, W: Width, T: StatsPolicy>
    SimpleSegregated<'_, QUANTUM, CLASSES, W, T>
{
    /// Bytes of a region, wherever it starts, in which no request within the limits is ever refused; [`usize::MAX`] if
    /// a request is larger than the largest class. Theorem and proof: `docs/guarantees/segregated.md`.
    ///
    /// ```
    /// use rtalloc::SimpleSegregated;
    /// use rtalloc::limits::Limit;
    ///
    /// // A pool for each size; a request of 200 bytes takes a block of 208.
    /// const KNOWN: [Limit; 2] = [Limit::of(64, 200), Limit::of(10, 1000)];
    /// assert!(SimpleSegregated::<16>::region_bytes_for(&KNOWN) < 64 * 208 + 10 * 1008 + 400);
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
        if largest_bytes > QUANTUM * CLASSES - W::BYTES {
            return usize::MAX;
        }
        let (mut block_bytes, mut class) = (0_usize, 0);
        while class < CLASSES {
            let (below_bytes, request_bytes) =
                ((class * QUANTUM).saturating_sub(W::BYTES), (class + 1) * QUANTUM - W::BYTES);
            let objects = most_objects(modes, below_bytes + 1, request_bytes);
            block_bytes = block_bytes.saturating_add(objects.saturating_mul((class + 1) * QUANTUM));
            class += 1;
        }
        let heads_bytes = CLASSES * W::BYTES;
        let region_bytes = block_bytes.saturating_add(Self::CONTROL_BYTES + heads_bytes + W::BYTES + QUANTUM - 1);
        if region_bytes > W::MAX { usize::MAX } else { region_bytes }
    }
}

impl<const QUANTUM: usize, const CLASSES: usize> Sealed for MultiplesOf<QUANTUM, CLASSES> {}

impl<const QUANTUM: usize, const CLASSES: usize, W: Width> ClassMap<W> for MultiplesOf<QUANTUM, CLASSES> {
    const GRANULE: usize = QUANTUM;
    const CHUNK: usize = QUANTUM;
    const SMALL_CLASSES: usize = 0;
    const MAX_CLASSES: usize = CLASSES;
    const ALIGN: usize = QUANTUM;
    const CONTRACT: Contract = Contract {
        name: "simple-segregated",
        source: "Bitframe thesis 2012, sections 3.2.2 and 6.2 (sss)",
        policy: "exact class or a new block",
        largest_request_bytes: QUANTUM * CLASSES - W::BYTES,
        ..class_contract::<W, Self>()
    };

    type Config = ();

    fn new((): ()) -> Self {
        Self
    }

    #[inline(always)]
    fn class_for(&self, need: usize) -> Class {
        Class::new((need - 1) / QUANTUM)
    }

    #[inline(always)]
    fn size(&self, class: Class) -> usize {
        (class.number() + 1) * QUANTUM
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::contract::{AllocError, RegionAllocator};
    use std::vec;

    /// Section 6.2: 8, 16, 24 ... 512 bytes. A request takes the next multiple of 8 from request and header on.
    #[test]
    fn the_thesis_classes() {
        let mut memory = vec![core::mem::MaybeUninit::uninit(); 1 << 18];
        let mut heap: SimpleSegregated<'_, 8, 65> = SimpleSegregated::new(&mut memory, ()).unwrap();
        for size_bytes in 1..=512usize {
            let block = heap.allocate_bytes(size_bytes, 8).unwrap();
            // SAFETY: the block is live.
            let usable_bytes = unsafe { heap.usable_size(block) };
            assert_eq!(usable_bytes, (size_bytes + 4).next_multiple_of(8) - 4);
        }
        assert_eq!(heap.allocate_bytes(517, 8), Err(AllocError::TooLarge));
        assert_eq!(heap.allocate_bytes(8, 16), Err(AllocError::Alignment));
    }

    /// Section 6.3: memory in lists of other sizes accumulates, because nothing is split or coalesced.
    #[test]
    fn what_one_size_had_never_serves_another() {
        let mut memory = vec![core::mem::MaybeUninit::uninit(); 1 << 12];
        let mut heap: SimpleSegregated<'_, 16> = SimpleSegregated::new(&mut memory, ()).unwrap();
        let mut blocks = vec![];
        while let Ok(block) = heap.allocate_bytes(12, 1) {
            blocks.push(block);
        }
        assert!(blocks.len() > 200);
        for &block in &blocks {
            // SAFETY: the block is live.
            unsafe { heap.deallocate(block) };
        }
        assert_eq!(heap.allocate_bytes(40, 1), Err(AllocError::Exhausted));
        // Last in, first out.
        assert_eq!(heap.allocate_bytes(1, 1).ok(), blocks.last().copied());
        assert_eq!(heap.check(), Ok(()));
    }
}

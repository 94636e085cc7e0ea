//! Pools: simple segregated storage with sizes of the user's choice.
//!
//! # Idea
//!
//! A pool is a free list of blocks of one size. The user chooses up to sixteen sizes ([`PoolSizes`]). A request takes a
//! block of the smallest of them that suffices; if the pool has none, a block is cut from unused memory, which all
//! pools share. A freed block returns to its pool. Nothing is split and nothing coalesces (the thesis, 3.2.2).
//!
//! ```text
//! sizes 200, 1500, 4096; a request of 120 bytes -> pool of 200 -> empty? cut 208 bytes at the top : take its first block
//!
//! pools   200: -> #   1500: -> # -> #   4096: ->
//! memory  [208 live][1504 free][208 free][1504 live] ... | not yet cut
//! ```
//!
//! Without a choice, the sizes are powers of two from the smallest block on, headers included.
//!
//! # Costs
//!
//! No loop: four comparisons find the pool, then as in simple segregated storage. The control structure has four bytes
//! for each of sixteen sizes, and a head for each pool.
//!
//! # When it wins, when it loses
//!
//! It wins if the numbers of objects are known: the guaranteed region ([`Pools::region_bytes_for`]) is little more than
//! what is live, in constant time. A header of four bytes precedes each block, so sizes that are powers of two waste
//! most of a granule; there a binary buddy, which has no headers, can need less. It loses if sizes are not known, or if
//! peaks of different sizes never coincide: memory of one size never serves another.
//!
//! An alignment beyond the granule is refused: [`Contract::alignment_bytes`].
//!
//! # Figures
//!
//! <!-- figures: pools -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `pools` | 47, 55, 29 | 4 B | 16 B | 156 B, 172 B | 66.5 %, 48.9 % |
//!
//! Measured 2026-11-26 at 0d75829 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

use crate::arithmetic::count;
use crate::contract::Contract;
use crate::limits::{Limit, largest_bytes, most_objects};
use crate::mechanism::class_lists::{ClassLists, ClassMap, class_contract};
use crate::mechanism::policy_heap::PolicyHeap;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::stats::{NoStats, StatsPolicy};
use crate::mechanism::word::{Offset32, Width};
use core::marker::PhantomData;

/// Most pools of a heap.
pub const MOST_POOLS: usize = 16;

/// The sizes of pools: the largest request of each, ascending. By default, powers of two less the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSizes {
    /// Ascending; 0 from the first one that is not used.
    request_bytes: [u32; MOST_POOLS],
}

impl PoolSizes {
    /// Powers of two from the smallest block on, headers included.
    pub const DEFAULT: Self = Self { request_bytes: [0; MOST_POOLS] };

    /// Pools for requests of up to `request_bytes[0]`, `request_bytes[1]` and so on.
    ///
    /// # Panics
    ///
    /// Where [`checked`](Self::checked) returns none; in a constant, that does not compile.
    #[must_use]
    pub const fn of(request_bytes: &[usize]) -> Self {
        Self::checked(request_bytes).expect("one to sixteen sizes below 2 GiB ascend")
    }

    /// The same; `None` if there are no sizes or more than [`MOST_POOLS`], if they do not ascend from 1 or more, or if
    /// one is 2 GiB or more.
    #[must_use]
    pub const fn checked(request_bytes: &[usize]) -> Option<Self> {
        if request_bytes.is_empty() || request_bytes.len() > MOST_POOLS {
            return None;
        }
        let (mut sizes, mut last, mut rest) = ([0; MOST_POOLS], 0, request_bytes);
        let mut number = 0;
        while let [size, others @ ..] = rest {
            if *size <= last || *size >= 1 << 31 || number >= MOST_POOLS {
                return None;
            }
            sizes[number] = *size as u32;
            (last, rest, number) = (*size, others, number + 1);
        }
        Some(Self { request_bytes: sizes })
    }

    /// The sizes of blocks, headers included; `u32::MAX` from the first pool that does not exist.
    const fn block_bytes<W: Width>(self) -> [u32; MOST_POOLS] {
        let (mut blocks, mut number) = ([u32::MAX; MOST_POOLS], 0);
        while number < MOST_POOLS {
            if self.request_bytes[0] == 0 {
                let power = W::GRANULE << number;
                blocks[number] = if power <= W::MAX / 2 { power as u32 } else { u32::MAX };
            } else if self.request_bytes[number] != 0 {
                // Below 2 GiB, so the sum is below 4.
                let block = (self.request_bytes[number] as usize + W::BYTES).next_multiple_of(W::GRANULE);
                blocks[number] = block as u32;
            }
            number += 1;
        }
        blocks
    }
}

impl Default for PoolSizes {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The sizes of a heap of pools.
#[derive(Clone, Copy, Debug)]
pub struct ChosenSizes<W> {
    block_bytes: [u32; MOST_POOLS],
    width: PhantomData<W>,
}

/// The policy of a [`Pools`] heap.
pub type PoolsPolicy<W> = ClassLists<ChosenSizes<W>, W>;

/// Pools with headers of width `W`, and statistics `T`. In a region that is too small for one block of the largest
/// sizes, there are no such pools: requests of these sizes are too large.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::limits::Limit;
/// use rtalloc::{PoolSizes, Pools, RegionAllocator};
///
/// // At most 64 messages of up to 200 bytes, 8 packets of up to 1,500, and one image of up to 4,096.
/// const LIMITS: [Limit; 3] = [Limit::up_to(64, 200), Limit::up_to(8, 1500), Limit::up_to(1, 4096)];
/// const SIZES: PoolSizes = PoolSizes::of(&[200, 1500, 4096]);
/// const REGION_BYTES: usize = <Pools>::region_bytes_for(SIZES, &LIMITS);
/// assert!(REGION_BYTES < 33_000);
///
/// let mut region = [MaybeUninit::uninit(); REGION_BYTES];
/// let mut heap: Pools = Pools::new(&mut region, SIZES)?;
/// heap.allocate_bytes(4096, 1)?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type Pools<'r, W = Offset32, T = NoStats> = PolicyHeap<'r, PoolsPolicy<W>, T>;

impl<W: Width, T: StatsPolicy> Pools<'_, W, T> {
    /// Bytes of a region, wherever it starts, in which a heap with pools of these sizes never refuses a request within
    /// the limits; [`usize::MAX`] if a request is larger than the largest size, or if no region suffices. Theorem and
    /// proof: `docs/guarantees/segregated.md`.
    ///
    /// "At most 64 of up to 200 bytes, and 8 of up to 1,500" needs 72 blocks for 200, because the larger limit allows
    /// small objects too. [`Limit::between`] excludes them, from 205 bytes on: a block for 200 holds up to 204.
    ///
    /// # Time
    ///
    /// Linear in the limits, times [`MOST_POOLS`].
    #[must_use]
    pub const fn region_bytes_for(sizes: PoolSizes, limits: &[Limit]) -> usize {
        Self::region_bytes_for_modes(sizes, &[limits])
    }

    /// The same for a program with several modes: at any time, what is live is within the limits of one of them.
    ///
    /// # Time
    ///
    /// As [`region_bytes_for`](Self::region_bytes_for).
    #[must_use]
    pub const fn region_bytes_for_modes(sizes: PoolSizes, modes: &[&[Limit]]) -> usize {
        let largest_bytes = largest_bytes(modes);
        if largest_bytes == 0 {
            return 0;
        }
        let block_bytes = sizes.block_bytes::<W>();
        let (mut sum_bytes, mut below_bytes, mut number) = (0_usize, 0, 0);
        while number < MOST_POOLS && block_bytes[number] != u32::MAX {
            let block = block_bytes[number] as usize;
            let objects = most_objects(modes, below_bytes + 1, block - W::BYTES);
            sum_bytes = sum_bytes.saturating_add(objects.saturating_mul(block));
            (below_bytes, number) = (block - W::BYTES, number + 1);
        }
        if below_bytes < largest_bytes {
            return usize::MAX;
        }
        let heads_bytes = number * W::BYTES;
        let region_bytes = sum_bytes.saturating_add(Self::CONTROL_BYTES + heads_bytes + W::BYTES + W::GRANULE - 1);
        if region_bytes > W::MAX { usize::MAX } else { region_bytes }
    }
}

impl<W> Sealed for ChosenSizes<W> {}

impl<W: Width> ClassMap<W> for ChosenSizes<W> {
    const GRANULE: usize = W::GRANULE;
    const CHUNK: usize = W::GRANULE;
    const SMALL_CLASSES: usize = 0;
    const MAX_CLASSES: usize = MOST_POOLS;
    const ALIGN: usize = W::GRANULE;
    const CONTRACT: Contract = Contract {
        name: "pools",
        source: "Bitframe thesis 2012, section 3.2.2 (simple segregated storage)",
        policy: "smallest chosen size or a new block",
        ..class_contract::<W, Self>()
    };

    type Config = PoolSizes;

    fn new(config: PoolSizes) -> Self {
        Self { block_bytes: config.block_bytes::<W>(), width: PhantomData }
    }

    fn classes(&self) -> usize {
        count(self.block_bytes.iter().filter(|bytes| **bytes != u32::MAX))
    }

    #[inline(always)]
    fn class_for(&self, need: usize) -> Class {
        // A binary search: the first of the sizes that suffices. The last one does.
        let above = |number: usize| usize::from(need > self.size(Class::new(number)));
        let mut number = above(7) * 8;
        number += above(number + 3) * 4;
        number += above(number + 1) * 2;
        number += above(number);
        Class::new(number)
    }

    #[inline(always)]
    fn size(&self, class: Class) -> usize {
        self.block_bytes[class.number() % MOST_POOLS] as usize
    }

    fn is_intact(&self) -> bool {
        let is_size = |bytes: u32| bytes == u32::MAX || (bytes as usize).is_multiple_of(W::GRANULE) && bytes != 0;
        self.block_bytes.is_sorted() && self.block_bytes.iter().all(|bytes| is_size(*bytes))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::contract::{AllocError, RegionAllocator};
    use std::vec;

    #[test]
    fn a_request_takes_the_smallest_size_that_suffices() {
        let mut memory = vec![core::mem::MaybeUninit::uninit(); 1 << 20];
        for pools in 1..=MOST_POOLS {
            let sizes: vec::Vec<usize> = (1..=pools).map(|number| number * 100).collect();
            let mut heap: Pools<'_> = Pools::new(&mut memory, PoolSizes::of(&sizes)).unwrap();
            for size_bytes in 1..=100 * pools {
                let block = heap.allocate_bytes(size_bytes, 1).unwrap();
                // SAFETY: the block is live until it is freed here.
                unsafe {
                    let expected = sizes
                        .iter()
                        .map(|size| (size + 4).next_multiple_of(<Offset32 as Width>::GRANULE) - 4)
                        .find(|usable| *usable >= size_bytes);
                    assert_eq!(Some(heap.usable_size(block)), expected, "{size_bytes} of {sizes:?}");
                    heap.deallocate(block);
                }
            }
            assert_eq!(heap.allocate_bytes(100 * pools + 32, 1), Err(AllocError::TooLarge));
            assert_eq!(heap.check(), Ok(()));
        }
    }

    #[test]
    fn sizes_that_make_no_sense_are_none() {
        for wrong in [&[][..], &[0], &[5, 5], &[6, 5], &[1 << 31], &[1; 17]] {
            assert_eq!(PoolSizes::checked(wrong), None, "{wrong:?}");
        }
        assert!(PoolSizes::checked(&[1, 2, (1 << 31) - 1]).is_some());
    }

    /// The sizes in the control structure are data that a stray write can change.
    #[test]
    fn overwritten_sizes_are_found() {
        let mut map = <ChosenSizes<Offset32> as ClassMap<Offset32>>::new(PoolSizes::of(&[200, 1500]));
        assert!(map.is_intact());
        map.block_bytes[0] = 0;
        assert!(!map.is_intact());
        map.block_bytes[0] = 4096;
        assert!(!map.is_intact());
    }

    /// Whatever the sizes become, a visit of all blocks ends, and `check` reports what cannot be.
    #[test]
    fn a_heap_with_overwritten_sizes_can_be_visited() {
        for (number, bytes) in [(0, 0), (0, 1), (0, u32::MAX), (1, 0), (1, u32::MAX)] {
            let mut memory = vec![core::mem::MaybeUninit::uninit(); 1 << 14];
            let mut heap: Pools<'_> = Pools::new(&mut memory, PoolSizes::of(&[200, 1500])).unwrap();
            heap.allocate_bytes(100, 1).unwrap();
            let sizes = (208_u32.to_ne_bytes(), 1504_u32.to_ne_bytes());
            // SAFETY: the control structure is initialised, and nothing else uses the region.
            let control = unsafe { core::slice::from_raw_parts(heap_start(&heap), 200) };
            let place = (0..190).find(|at| control[*at..].starts_with(&sizes.0)).expect("the first size");
            assert!(control[place + 4..].starts_with(&sizes.1));
            // SAFETY: one of the sizes, in the heap's region.
            unsafe { heap_start(&heap).cast_mut().add(place + 4 * number).cast::<u32>().write_unaligned(bytes) };
            let mut blocks = 0;
            heap.walk(&mut |_| blocks += 1);
            assert!(blocks < 200);
            assert!(heap.check().is_err(), "size {number} is {bytes}");
            let _ = heap.largest_allocatable();
        }
    }

    /// The first byte of the control structure.
    fn heap_start(heap: &Pools<'_>) -> *const u8 {
        // SAFETY: a heap is one pointer, to its control structure.
        unsafe { core::mem::transmute_copy(heap) }
    }
}

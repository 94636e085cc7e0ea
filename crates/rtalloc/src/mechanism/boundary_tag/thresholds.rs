//! Configurable smallest block and splitting threshold: the parameters of Puaut's table 1.

use super::index::{FreeIndex, Named};
use crate::contract::{Contract, Corruption};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::word::Width;
use core::marker::PhantomData;

/// The index `I` with a smallest block of `MIN` bytes. Remainders are split off only if they are *larger* than `SPLIT`
/// bytes (Puaut 2002, section 2.1).
///
/// Both are rounded up to the width's granule. Values too small for the index's links are replaced by the default.
///
/// | table 1 | minimum, threshold | here with [`Offset32`](crate::mechanism::word::Offset32), 64-bit |
/// |---|---|---|
/// | first-fit | 16 B, 16 B | 16 B, remainders from 32 B on |
/// | best-fit | 16 B, 16 B | 16 B, remainders from 32 B on |
///
/// ```
/// use rtalloc::mechanism::boundary_tag::{TagHeap, Thresholds};
/// use rtalloc::mechanism::free_list::{First, Lifo, OneList};
///
/// /// First-fit as Puaut measured it.
/// type PuautFirstFit<'r> = TagHeap<'r, Thresholds<OneList<First, Lifo>, 16, 16>>;
/// # let mut memory = [core::mem::MaybeUninit::uninit(); 1000];
/// # use rtalloc::RegionAllocator;
/// # let heap = PuautFirstFit::new(&mut memory, Default::default()).unwrap();
/// # assert_eq!(heap.check(), Ok(()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Thresholds<I, const MIN: usize, const SPLIT: usize>(PhantomData<I>);

impl<I, const MIN: usize, const SPLIT: usize> Thresholds<I, MIN, SPLIT> {
    /// Largest plausible threshold.
    const MOST: usize = 1 << 14;
    const ARE_SMALL: () = assert!(MIN <= Self::MOST && SPLIT <= Self::MOST, "thresholds are a few words");
}

/// The larger of two sizes.
const fn larger(first: usize, second: usize) -> usize {
    if first > second { first } else { second }
}

// SAFETY: every method is the index `I`'s own; blocks are at least as large as `I` needs.
unsafe impl<I: FreeIndex<W>, W: Width, const MIN: usize, const SPLIT: usize> FreeIndex<W>
    for Thresholds<I, MIN, SPLIT>
{
    const MIN_BLOCK: usize = {
        let () = Self::ARE_SMALL;
        larger(MIN.next_multiple_of(W::GRANULE), I::MIN_BLOCK)
    };
    const MIN_REST: usize =
        larger((SPLIT + 1).next_multiple_of(W::GRANULE), larger(<Self as FreeIndex<W>>::MIN_BLOCK, I::MIN_REST));

    type Place = I::Place;
    const NOWHERE: I::Place = I::NOWHERE;
    type Summary = I::Summary;

    fn bytes(max_block: usize) -> usize {
        I::bytes(max_block)
    }

    unsafe fn init(memory: Memory<W>, max_block: usize) {
        // SAFETY: the caller satisfies the contract of `FreeIndex::init`, which `I` shares.
        unsafe { I::init(memory, max_block) }
    }

    #[inline(always)]
    unsafe fn load(memory: Memory<W>) -> I::Summary {
        // SAFETY: `I` is initialised, because `init` initialised it.
        unsafe { I::load(memory) }
    }

    #[inline(always)]
    unsafe fn store(memory: Memory<W>, summary: I::Summary) {
        // SAFETY: the caller satisfies the contract of `FreeIndex::store`, which `I` shares.
        unsafe { I::store(memory, summary) }
    }

    #[inline(always)]
    fn granted(last: usize) -> usize {
        I::granted(last)
    }

    #[inline(always)]
    fn found(last: usize) -> usize {
        I::found(last)
    }

    #[inline(always)]
    unsafe fn take(memory: Memory<W>, summary: &mut I::Summary, last: usize) -> Option<(Offset, usize, I::Place)> {
        // SAFETY: the summary is `I`'s, and loaded.
        unsafe { I::take(memory, summary, last) }
    }

    #[inline(always)]
    unsafe fn insert(memory: Memory<W>, summary: &mut I::Summary, block: Offset, size: usize, place: I::Place) {
        // SAFETY: the block is free and not in the index, which is `I`.
        unsafe { I::insert(memory, summary, block, size, place) }
    }

    #[inline(always)]
    unsafe fn remove(memory: Memory<W>, summary: &mut I::Summary, block: Offset) -> I::Place {
        // SAFETY: the block is in the index, which is `I`.
        unsafe { I::remove(memory, summary, block) }
    }

    #[inline(always)]
    fn first_of(first: I::Place, second: I::Place) -> I::Place {
        I::first_of(first, second)
    }

    unsafe fn largest(memory: Memory<W>) -> usize {
        // SAFETY: `I` is initialised, because `init` initialised it.
        unsafe { I::largest(memory) }
    }

    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, Offset)) {
        // SAFETY: `I` is initialised, because `init` initialised it.
        unsafe { I::lists(memory, visit) }
    }

    unsafe fn check(
        memory: Memory<W>,
        free_blocks: usize,
        max_block: usize,
        is_place: &dyn Fn(Offset) -> bool,
    ) -> Result<usize, Corruption> {
        // SAFETY: the caller satisfies the contract of `FreeIndex::check`, which `I` shares.
        unsafe { I::check(memory, free_blocks, max_block, is_place) }
    }
}

impl<I: Named<W>, W: Width, const MIN: usize, const SPLIT: usize> Named<W> for Thresholds<I, MIN, SPLIT> {
    const CONTRACT: Contract = I::CONTRACT;
}

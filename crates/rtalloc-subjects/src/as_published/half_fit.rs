//! A hypothesis on the half-fit of the TLSF paper (2008), whose fragmentation is three times ours.

use rtalloc::contract::{Contract, Corruption};
use rtalloc::mechanism::boundary_tag::{FreeIndex, Named};
use rtalloc::mechanism::memory::{Memory, Offset};
use rtalloc::mechanism::segregated::Exact;
use rtalloc::mechanism::word::Width;
use rtalloc::segregated::half_fit::HalfFitIndex;

type Index = HalfFitIndex<Exact>;

/// Half-fit's index, searched from the list after the first one that is large enough: a request of 2^i bytes or less,
/// but more than 2^(i - 1), gets a block of at least 2^(i + 1).
#[derive(Clone, Copy, Debug)]
pub struct OneListHigh;

// SAFETY: as half-fit's index, to which everything is delegated; `take` finds a block of at least twice the size that
// it reports as granted.
unsafe impl<W: Width> FreeIndex<W> for OneListHigh {
    type Place = ();
    const NOWHERE: () = ();
    type Summary = <Index as FreeIndex<W>>::Summary;

    fn bytes(max_block: usize) -> usize {
        <Index as FreeIndex<W>>::bytes(max_block)
    }

    unsafe fn init(memory: Memory<W>, max_block: usize) {
        // SAFETY: the caller has room for `bytes` here, which are those of `Index`.
        unsafe { Index::init(memory, max_block) }
    }

    #[inline(always)]
    unsafe fn load(memory: Memory<W>) -> Self::Summary {
        // SAFETY: `Index` is initialised, because `init` initialised it.
        unsafe { Index::load(memory) }
    }

    #[inline(always)]
    unsafe fn store(memory: Memory<W>, summary: Self::Summary) {
        // SAFETY: the caller satisfies the contract of `FreeIndex::store`, which `Index` shares.
        unsafe { Index::store(memory, summary) }
    }

    #[inline(always)]
    fn granted(last: usize) -> usize {
        <Index as FreeIndex<W>>::granted(last)
    }

    #[inline(always)]
    unsafe fn take(memory: Memory<W>, summary: &mut Self::Summary, last: usize) -> Option<(Offset, usize, ())> {
        let need = <Self as FreeIndex<W>>::granted(last);
        // SAFETY: the summary is that of `Index`, and loaded.
        let (block, _, ()) = unsafe { Index::take(memory, summary, need.checked_mul(2)? - 1) }?;
        Some((block, need, ()))
    }

    #[inline(always)]
    unsafe fn insert(memory: Memory<W>, summary: &mut Self::Summary, block: Offset, size: usize, (): ()) {
        // SAFETY: the summary is that of `Index`, and the caller's free block stands in no list.
        unsafe { Index::insert(memory, summary, block, size, ()) }
    }

    #[inline(always)]
    unsafe fn remove(memory: Memory<W>, summary: &mut Self::Summary, block: Offset) {
        // SAFETY: the caller's block stands in a list of `Index`, because `insert` put it there.
        unsafe { Index::remove(memory, summary, block) }
    }

    fn first_of((): (), (): ()) {}

    unsafe fn largest(memory: Memory<W>) -> usize {
        // SAFETY: `Index` is initialised, because `init` initialised it.
        unsafe { Index::largest(memory) / 2 }
    }

    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, Offset)) {
        // SAFETY: `Index` is initialised, because `init` initialised it.
        unsafe { Index::lists(memory, visit) }
    }

    unsafe fn check(
        memory: Memory<W>,
        free_blocks: usize,
        max_block: usize,
        is_place: &dyn Fn(Offset) -> bool,
    ) -> Result<usize, Corruption> {
        // SAFETY: `Index` is initialised, because `init` initialised it.
        unsafe { Index::check(memory, free_blocks, max_block, is_place) }
    }
}

impl<W: Width> Named<W> for OneListHigh {
    const CONTRACT: Contract = Contract {
        name: "half-fit, one list high",
        source: "a hypothesis on Masmano et al. 2008, table VI",
        ..<Index as Named<W>>::CONTRACT
    };
}

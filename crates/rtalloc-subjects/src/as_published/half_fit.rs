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

    fn bytes_below() -> usize {
        <Index as FreeIndex<W>>::bytes_below()
    }

    fn bytes_above(max_block: usize) -> usize {
        <Index as FreeIndex<W>>::bytes_above(max_block)
    }

    unsafe fn init(memory: Memory<W>, max_block: usize) {
        // SAFETY: the caller has room for `bytes_below` and `bytes_above` here, which are the ones of `Index`.
        unsafe { Index::init(memory, max_block) }
    }

    #[inline(always)]
    fn granted(need: usize) -> usize {
        <Index as FreeIndex<W>>::granted(need)
    }

    #[inline(always)]
    unsafe fn take(memory: Memory<W>, need: usize) -> Option<(Offset, usize, ())> {
        // SAFETY: `Index` is initialised, because `init` initialised it.
        let (block, _, ()) = unsafe { Index::take(memory, need.checked_mul(2)?) }?;
        Some((block, need, ()))
    }

    #[inline(always)]
    unsafe fn insert(memory: Memory<W>, block: Offset, size: usize, (): ()) {
        // SAFETY: `Index` is initialised, and the caller's free block stands in no list.
        unsafe { Index::insert(memory, block, size, ()) }
    }

    #[inline(always)]
    unsafe fn remove(memory: Memory<W>, block: Offset) {
        // SAFETY: the caller's block stands in a list of `Index`, because `insert` put it there.
        unsafe { Index::remove(memory, block) }
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

//! What a tag heap asks of whoever keeps its free blocks.

use crate::contract::{Coalescing, Contract, Corruption, Cost, Mechanism};
use crate::mechanism::memory::Memory;
use crate::mechanism::word::Width;

/// Finds, adds and removes free blocks: the policy of a [`TagHeap`](super::TagHeap).
///
/// Blocks are named by their payload's offset, sizes are in bytes and whole granules. A block's header says that it is
/// free and gives its size while it is in the index.
///
/// # Safety
///
/// [`take`](Self::take) returns blocks that were inserted, each once until it is inserted again, of at least the
/// granted size; the index writes only its control structure and what lies between header and footer of the free blocks
/// in it, which [`MIN_BLOCK`](Self::MIN_BLOCK) has room for.
pub unsafe trait FreeIndex<W: Width>: Sized + 'static {
    /// Smallest block in bytes: a multiple of the granule, with room for header, footer and what the index writes.
    const MIN_BLOCK: usize = W::MIN_BLOCK;
    /// Smallest remainder in bytes that is split off a block: a multiple of the granule, at least
    /// [`MIN_BLOCK`](Self::MIN_BLOCK).
    const MIN_REST: usize = Self::MIN_BLOCK;

    /// Where in the index a block stood; lets an ordered index put the merged or remaining block back without a search.
    type Place: Copy;
    /// No place.
    const NOWHERE: Self::Place;

    /// Bytes of control structure in front of the heap's own words, in whole `usize`s: what has a fixed size.
    fn bytes_below() -> usize;

    /// Bytes of control structure from the base on, for blocks of at most `max_block` bytes. The first word is the null
    /// node ([`crate::mechanism::free_list`]).
    fn bytes_above(max_block: usize) -> usize;

    /// Initialises the control structure for blocks of at most `max_block` bytes.
    ///
    /// # Safety
    ///
    /// [`bytes_below`](Self::bytes_below) bytes in front of the heap's own words and [`bytes_above`](Self::bytes_above)
    /// bytes from the base on belong to the index.
    unsafe fn init(memory: Memory<W>, max_block: usize);

    /// Bytes a request for a block of `need` bytes is granted from a block that is large enough.
    fn granted(need: usize) -> usize;

    /// Removes a block that holds at least the granted size from the index; returns it, the granted size and where it
    /// stood.
    ///
    /// # Safety
    ///
    /// The index is initialised.
    unsafe fn take(memory: Memory<W>, need: usize) -> Option<(usize, usize, Self::Place)>;

    /// Adds a free block of `size` bytes.
    ///
    /// # Safety
    ///
    /// The block is free, has that size, and is not in the index; `place` is where a block that it overlaps stood, or
    /// [`NOWHERE`](Self::NOWHERE).
    unsafe fn insert(memory: Memory<W>, block: usize, size: usize, place: Self::Place);

    /// Removes a block.
    ///
    /// # Safety
    ///
    /// The block is in the index.
    unsafe fn remove(memory: Memory<W>, block: usize) -> Self::Place;

    /// The first place if it is one, else the second.
    fn first_of(first: Self::Place, second: Self::Place) -> Self::Place;

    /// Bytes of the largest block request that succeeds now; 0 if none does.
    ///
    /// # Safety
    ///
    /// The index is initialised.
    unsafe fn largest(memory: Memory<W>) -> usize;

    /// Calls `visit` with the number of the list and the block, for every block, in the order of the lists; and with
    /// whatever else decides which block the next request gets.
    ///
    /// # Safety
    ///
    /// The index is initialised.
    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, usize));

    /// Verifies the index; returns the number of blocks in it.
    ///
    /// # Errors
    ///
    /// The first broken invariant.
    ///
    /// # Safety
    ///
    /// The index is initialised for blocks of `max_block` bytes, the heap has `free_blocks` free blocks, and a block could
    /// be wherever `is_place` says so.
    unsafe fn check(
        memory: Memory<W>,
        free_blocks: usize,
        max_block: usize,
        is_place: &dyn Fn(usize) -> bool,
    ) -> Result<usize, Corruption>;
}

/// Names an allocator made of a [`TagHeap`](super::TagHeap) and an index.
pub trait Named<W: Width>: FreeIndex<W> {
    /// The facts of the allocator.
    const CONTRACT: Contract;
}

/// The facts that every [`TagHeap`](super::TagHeap) shares; an allocator fills in the rest.
pub(crate) const fn tag_contract<W: Width>() -> Contract {
    Contract {
        name: "",
        source: "",
        policy: "",
        mechanism: Mechanism::SegregatedFit,
        granule_bytes: W::GRANULE,
        header_bytes: W::BYTES,
        alignment_bytes: W::GRANULE,
        min_block_bytes: W::MIN_BLOCK,
        splitting_threshold_bytes: W::MIN_BLOCK - W::GRANULE,
        max_span_bytes: W::MAX,
        largest_request_bytes: usize::MAX,
        largest_alignment_bytes: usize::MAX,
        page_bytes: 0,
        coarsest_bytes: 0,
        allocate: Cost::Constant,
        deallocate: Cost::Constant,
        reallocate: Cost::Constant,
        coalescing: Coalescing::Neighbours,
        grows_in_place: true,
        shrinks_in_place: true,
        detects_double_free: true,
        detects_stale_pointers: false,
        detects_overwritten_tags: false,
        largest_is_exact: true,
        largest_covers_smaller: true,
    }
}

/// Size of the block whose header is free: a free block follows a live one, so its header has no flag.
///
/// # Safety
///
/// `block` is free.
#[inline(always)]
pub(crate) unsafe fn free_size<W: Width>(memory: Memory<W>, block: usize) -> usize {
    // SAFETY: a free block has a header.
    unsafe { memory.load(block.wrapping_sub(W::BYTES)) }
}

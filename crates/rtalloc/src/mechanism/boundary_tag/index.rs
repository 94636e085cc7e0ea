//! The interface between a tag heap and the index of its free blocks.

use crate::contract::{Coalescing, Contract, Corruption, Cost, Mechanism};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::word::Width;

/// Finds, adds and removes free blocks: the policy of a [`TagHeap`](super::TagHeap).
///
/// Blocks are identified by their payload's offset; sizes are bytes in whole granules. The header of a block in the
/// index says that it is free and gives its size.
///
/// # Safety
///
/// [`take`](Self::take) returns only blocks that were inserted, each once until it is inserted again, of at least the
/// granted size. The index writes only its control structure and the bytes between header and footer of the free blocks
/// in it, for which [`MIN_BLOCK`](Self::MIN_BLOCK) has room.
pub unsafe trait FreeIndex<W: Width>: Sized + 'static {
    /// Smallest block in bytes: a multiple of the granule, with room for header, footer and the index's links.
    const MIN_BLOCK: usize = W::MIN_BLOCK;
    /// Smallest remainder in bytes that is split off a block: a multiple of the granule, at least
    /// [`MIN_BLOCK`](Self::MIN_BLOCK).
    const MIN_REST: usize = Self::MIN_BLOCK;

    /// The former place of a block in the index; lets an ordered index reinsert a block without a search.
    type Place: Copy;
    /// No place.
    const NOWHERE: Self::Place;

    /// The word of the index that every step of an operation reads or writes: an operation [loads](Self::load) it once,
    /// holds it in a register, and [stores](Self::store) it at its end. `()` if there is none.
    type Summary: Copy;

    /// Bytes of control structure after the base, for blocks of at most `max_block` bytes. The first word is the null
    /// node ([`crate::mechanism::free_list`]).
    fn bytes(max_block: usize) -> usize;

    /// Initialises the control structure for blocks of at most `max_block` bytes.
    ///
    /// # Safety
    ///
    /// [`bytes`](Self::bytes) bytes after the base belong to the index.
    unsafe fn init(memory: Memory<W>, max_block: usize);

    /// Loads the summary.
    ///
    /// # Safety
    ///
    /// The index is initialised.
    unsafe fn load(memory: Memory<W>) -> Self::Summary;

    /// Stores the summary.
    ///
    /// # Safety
    ///
    /// It was loaded by this operation, and every step since then has had it.
    unsafe fn store(memory: Memory<W>, summary: Self::Summary);

    /// Bytes granted to a block request whose last byte is `last`, from a block that is large enough.
    fn granted(last: usize) -> usize;

    /// The fewest bytes of a block of which [`take`](Self::take) finds every one for a request whose last byte is
    /// `last`.
    fn found(last: usize) -> usize {
        bytes_through::<W>(last)
    }

    /// Removes a block from the index that has a byte `last` and at least the granted size; returns it, the granted
    /// size and its former place. `last` is one less than the bytes that the request needs, not rounded to granules,
    /// and at least one less than the smallest block.
    ///
    /// # Safety
    ///
    /// The summary is [loaded](Self::load).
    unsafe fn take(memory: Memory<W>, summary: &mut Self::Summary, last: usize)
    -> Option<(Offset, usize, Self::Place)>;

    /// Adds a free block of `size` bytes.
    ///
    /// # Safety
    ///
    /// The summary is [loaded](Self::load). The block is free, has that size, and is not in the index; `place` is the
    /// former place of a block that it overlaps, or [`NOWHERE`](Self::NOWHERE).
    unsafe fn insert(memory: Memory<W>, summary: &mut Self::Summary, block: Offset, size: usize, place: Self::Place);

    /// Removes a block.
    ///
    /// # Safety
    ///
    /// The summary is [loaded](Self::load). The block is in the index.
    unsafe fn remove(memory: Memory<W>, summary: &mut Self::Summary, block: Offset) -> Self::Place;

    /// The first place unless it is [`NOWHERE`](Self::NOWHERE), otherwise the second.
    fn first_of(first: Self::Place, second: Self::Place) -> Self::Place;

    /// Bytes of the largest block request that succeeds now; 0 if none does.
    ///
    /// # Safety
    ///
    /// The index is initialised.
    unsafe fn largest(memory: Memory<W>) -> usize;

    /// Calls `visit` with a list's number and a block, for every block in list order, and with all other state that
    /// decides which block the next request gets.
    ///
    /// # Safety
    ///
    /// The index is initialised.
    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, Offset));

    /// Verifies the index; returns the number of blocks in it.
    ///
    /// # Errors
    ///
    /// The first broken invariant.
    ///
    /// # Safety
    ///
    /// The index is initialised for blocks of `max_block` bytes, the heap has `free_blocks` free blocks, and any offset
    /// that `is_place` accepts lies in a region of the heap.
    unsafe fn check(
        memory: Memory<W>,
        free_blocks: usize,
        max_block: usize,
        is_place: &dyn Fn(Offset) -> bool,
    ) -> Result<usize, Corruption>;
}

/// The name and the facts of an allocator made of a [`TagHeap`](super::TagHeap) and an index.
pub trait Named<W: Width>: FreeIndex<W> {
    /// The facts of the allocator.
    const CONTRACT: Contract;
}

/// The facts common to every [`TagHeap`](super::TagHeap); an allocator fills in the rest.
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

/// Bytes of the smallest block, in whole granules, that has a byte `last`.
#[inline(always)]
pub(crate) fn bytes_through<W: Width>(last: usize) -> usize {
    (last | (W::GRANULE - 1)) + 1
}

/// Size of a free block. Its header has no flags, because a free block follows a live one.
///
/// # Safety
///
/// `block` is free.
#[inline(always)]
pub(crate) unsafe fn free_size<W: Width>(memory: Memory<W>, block: Offset) -> usize {
    // SAFETY: `block` is free, so the word before it is its header.
    unsafe { memory.load(block.down(W::BYTES)) }
}

//! The heap of blocks with boundary tags (Knuth 1973), over any index of its free blocks.
//!
//! First-fit, best-fit, half-fit and TLSF are this heap with different [`FreeIndex`]es. It splits what the index finds,
//! coalesces at once, resizes in place, aligns, takes and returns regions, walks and checks. No loop, no branch on
//! anything but tags: an operation's cost class is its index's.
//!
//! # Layout
//!
//! A block is named by the offset of its payload. One word in front of the payload is its header, the size of the
//! whole block with two flags in the low bits; a free block repeats its size in its last word (the *footer*), where
//! the next block finds it:
//!
//! ```text
//!            block                                 block + size
//!              |                                        |
//! live [header][payload ........................][header][ ...
//! free [header][prev][next] ............ [footer][header][ ...
//!       size|flags                        size    PREV_FREE set
//! ```
//!
//! A region begins with a block and ends with a *sentinel*: the header of a live block of size 0, followed by the
//! region's record. The first region has the control structure in front:
//!
//! ```text
//! [front: limit, span, tally][index][sentinels][first block] base: [null node][index][blocks ...][sentinel]
//! ```
//!
//! # Misuse
//!
//! `deallocate` reads only tags it needs anyway and tests them: the address must lie between the first block and the
//! last sentinel and be a multiple of the granule; the header must have a size; the next header must lie in the heap
//! and say that this block is live; a free previous block's header must repeat its footer. A block freed twice fails the
//! test of the next header, or, when it has become the middle of a larger free block, that of the previous one. A heap
//! of [`Thorough`](crate::mechanism::scrutiny::Thorough) scrutiny tests the rest as well. Whatever fails is reported to
//! the [hook](crate::hook) and the call ignored.

mod regions;
mod resize;
mod verify;

use crate::contract::{AllocError, Contract, Corruption, InitError, MisuseKind, Stats};
use crate::hook::report;
use crate::mechanism::memory::Memory;
use crate::mechanism::scrutiny::{Brief, Scrutiny};
use crate::mechanism::tally::{Tally, Untallied};
use crate::mechanism::word::{Offset32, Width};
use crate::region::{Region, round_up};
use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Header flag: the block is live.
pub(crate) const LIVE: usize = 1;
/// Header flag: the block in front of this one is free.
pub(crate) const PREV_FREE: usize = 2;
/// The size in a header: its flags live below the granule.
#[inline(always)]
const fn size_in<W: Width>(header: usize) -> usize {
    header & !(W::GRANULE - 1)
}

/// Bytes of the heap's own words (`usize`) in front of the base. The word just in front of it, where offset 0 would
/// have its header, is zero, so that a pointer to the base is no block: the upper half of the last word, or, where a tag
/// has no such half, a word of its own.
pub(crate) const fn control_bytes<W: Width>() -> usize {
    (if W::PAIRS { 2 } else { 3 }) * size_of::<usize>()
}

/// Offset of the `usize` that holds the offset of the first region's first block.
#[inline(always)]
pub(crate) const fn first_block_at<W: Width>() -> usize {
    0usize.wrapping_sub(control_bytes::<W>())
}

/// Offset of the `usize` that holds the offset of the latest region's sentinel.
const fn sentinels_at<W: Width>() -> usize {
    first_block_at::<W>().wrapping_add(size_of::<usize>())
}

/// Finds, adds and removes free blocks: the policy of a [`TagHeap`].
///
/// Blocks are named by their payload's offset, sizes are in bytes and whole granules. A block's header says that it is
/// free and gives its size while it is in the index.
///
/// # Safety
///
/// [`take`](Self::take) returns blocks that were inserted, each once until it is inserted again, of at least the
/// granted size; the index writes only its control structure and the first two words of the free blocks in it.
pub unsafe trait FreeIndex<W: Width>: Sized + 'static {
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

    /// Calls `visit` with the number of the list and the block, for every block, in the order of the lists.
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
    /// The index is initialised for blocks of `max_block` bytes, and the heap has `free_blocks` free blocks.
    unsafe fn check(memory: Memory<W>, free_blocks: usize, max_block: usize) -> Result<usize, Corruption>;
}

/// Names an allocator made of a [`TagHeap`] and an index.
pub trait Named<W: Width>: FreeIndex<W> {
    /// The facts of the allocator.
    const CONTRACT: Contract;
}

/// The facts that every [`TagHeap`] shares; an allocator fills in the rest.
pub(crate) const fn tag_contract<W: Width>() -> Contract {
    Contract {
        name: "",
        source: "",
        policy: "",
        mechanism: crate::contract::Mechanism::SegregatedFit,
        granule_bytes: W::GRANULE,
        header_bytes: W::BYTES,
        alignment_bytes: W::GRANULE,
        min_block_bytes: W::MIN_BLOCK,
        max_span_bytes: W::MAX,
        allocate: crate::contract::Cost::Constant,
        deallocate: crate::contract::Cost::Constant,
        reallocate: crate::contract::Cost::Constant,
        coalesces: true,
        grows_in_place: true,
        detects_double_free: true,
        detects_stale_pointers: false,
        detects_overwritten_tags: false,
        largest_is_exact: true,
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

/// What stands in front of the base. It is as small as the tally allows.
#[repr(C)]
#[derive(Debug)]
struct Front<T> {
    /// Largest request in bytes: the largest block the control structure was planned for, less its header.
    limit: usize,
    /// Offset of the highest sentinel: every block begins below it.
    span: usize,
    /// Address of the first block.
    first_address: usize,
    /// Granules from the first block to the highest sentinel.
    block_granules: usize,
    /// Running statistics.
    tally: T,
}

/// How a region is divided, in offsets from the base.
struct Plan {
    first: usize,
    sentinel: usize,
    /// Largest block the control structure is made for.
    max_block: usize,
}

/// A live block whose tags were tested.
#[derive(Clone, Copy)]
struct LiveBlock {
    block: usize,
    header: usize,
    /// The size in `header`.
    size: usize,
    /// The block behind it, or the sentinel.
    next: usize,
    next_header: usize,
}

/// How a [`TagHeap`] is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct TagConfig {
    /// Largest region, in bytes, that will be added later; the control structure is sized for it. 0: none larger than
    /// the first.
    pub max_region_bytes: usize,
}

/// A heap of blocks with boundary tags over the index `I`, with tags of width `W`, keeping the statistics `T`, testing tags as
/// closely as `G` says.
///
/// The value is one pointer; everything else is in the region.
#[derive(Debug)]
pub struct TagHeap<'r, I, W = Offset32, T = Untallied, G = Brief> {
    /// The base: a multiple of the granule, with the front before it and the control structure behind it.
    base: NonNull<u8>,
    regions: PhantomData<&'r mut [MaybeUninit<u8>]>,
    kind: PhantomData<(I, W, T, G)>,
}

// SAFETY: the heap owns its regions exclusively for 'r and has no thread affinity.
unsafe impl<I, W, T, G> Send for TagHeap<'_, I, W, T, G> {}

impl<'r, I: Named<W>, W: Width, T: Tally, G: Scrutiny> TagHeap<'r, I, W, T, G> {
    /// Alignment of the base.
    const BASE_ALIGN: usize = if W::GRANULE > align_of::<Front<T>>() { W::GRANULE } else { align_of::<Front<T>>() };
    /// Bytes of a sentinel: its header and the region's record of four words.
    const SENTINEL_BYTES: usize = 5 * W::BYTES;

    /// Bytes in front of the base.
    #[inline(always)]
    fn front_bytes() -> usize {
        size_of::<Front<T>>() + I::bytes_below() + control_bytes::<W>()
    }

    /// Bytes that a heap in a region of `region_bytes`, aligned to [`BASE_ALIGN`](Self::BASE_ALIGN), spends on its control
    /// structure; the header of the first block not included.
    pub fn control_bytes(region_bytes: usize) -> usize {
        let room = region_bytes.saturating_sub(Self::front_bytes());
        let max_block = Self::plan(room, TagConfig::default()).map_or(W::MIN_BLOCK, |plan| plan.max_block);
        Self::front_bytes() + I::bytes_above(max_block)
    }

    /// Offset of the first block behind a control structure for blocks of at most `max_block` bytes.
    fn first_block_behind(max_block: usize) -> usize {
        (I::bytes_above(max_block) + W::BYTES).next_multiple_of(W::GRANULE)
    }

    /// Divides the `room` bytes from the base to the region's end; `None` if they do not hold one smallest block. The
    /// control structure is the smallest one that suffices for the block it leaves room for.
    fn plan(room: usize, config: TagConfig) -> Option<Plan> {
        let sentinel = room.checked_sub(Self::SENTINEL_BYTES - W::BYTES)? & !(W::GRANULE - 1);
        let left_beside = |max_block| sentinel.saturating_sub(Self::first_block_behind(max_block));
        let mut max_block = left_beside(W::MIN_BLOCK).max(W::MIN_BLOCK);
        while max_block > W::MIN_BLOCK && left_beside(max_block - W::GRANULE) <= max_block - W::GRANULE {
            max_block -= W::GRANULE;
        }
        if config.max_region_bytes > Self::SENTINEL_BYTES {
            let added = (config.max_region_bytes.min(W::MAX) - Self::SENTINEL_BYTES) & !(W::GRANULE - 1);
            max_block = max_block.max(added);
        }
        let first = Self::first_block_behind(max_block);
        (sentinel >= first + W::MIN_BLOCK).then_some(Plan { first, sentinel, max_block })
    }

    /// Length of a region that suffices for a heap with one smallest block, wherever it starts.
    fn needed_bytes(config: TagConfig) -> usize {
        let added = config.max_region_bytes.min(W::MAX);
        let first = Self::first_block_behind(added.saturating_sub(Self::SENTINEL_BYTES).max(W::MIN_BLOCK));
        Self::BASE_ALIGN - 1 + Self::front_bytes() + first + W::MIN_BLOCK + W::GRANULE - 1 + Self::SENTINEL_BYTES
    }

    /// See [`RegionAllocator::new`](crate::contract::RegionAllocator::new).
    fn init(region: &'r mut [MaybeUninit<u8>], config: TagConfig) -> Result<Self, InitError> {
        if region.len() > W::MAX {
            return Err(InitError::OutOfReach { max_span_bytes: W::MAX });
        }
        let too_small = InitError::TooSmall { needed_bytes: Self::needed_bytes(config) };
        let start = region.as_ptr().addr();
        let base = start.checked_add(Self::front_bytes()).and_then(|base| round_up(base, Self::BASE_ALIGN));
        let base = base.ok_or(too_small)?;
        let room = (start + region.len()).checked_sub(base).ok_or(too_small)?;
        let Plan { first, sentinel, max_block } = Self::plan(room, config).ok_or(too_small)?;
        let region = Region::new(region);
        let base = NonNull::new(core::ptr::with_exposed_provenance_mut(base)).ok_or(too_small)?;
        let mut heap = TagHeap { base, regions: PhantomData, kind: PhantomData };
        let memory = heap.memory();
        let first_address = memory.address(first);
        // SAFETY: front and control structure lie between the region's start and the first block, aligned as their
        // types need because the base is a multiple of BASE_ALIGN and what is in front of it has whole `usize`s.
        unsafe {
            let limit = max_block - W::BYTES;
            heap.front().write(Front { limit, span: 0, first_address, block_granules: 0, tally: T::default() });
            memory.store_bits(0usize.wrapping_sub(size_of::<usize>()), 0);
            memory.store_bits(first_block_at::<W>(), first);
            memory.store_bits(sentinels_at::<W>(), 0);
            I::init(memory, max_block);
            heap.install(&region, first, sentinel);
        }
        Ok(heap)
    }

    /// The heap's memory.
    #[inline(always)]
    fn memory(&self) -> Memory<W> {
        Memory::new(self.base)
    }

    /// The front.
    #[inline(always)]
    fn front(&self) -> *mut Front<T> {
        core::ptr::with_exposed_provenance_mut(self.base.addr().get() - Self::front_bytes())
    }

    /// The header of a block.
    ///
    /// # Safety
    ///
    /// `block` is a block or a sentinel.
    #[inline(always)]
    unsafe fn header(&self, block: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.memory().load(block.wrapping_sub(W::BYTES)) }
    }

    /// The header of a block, read again: a flag tested in memory costs less than one kept in a register beside the size.
    ///
    /// # Safety
    ///
    /// As [`header`](Self::header).
    #[inline(always)]
    unsafe fn reload_header(&self, block: usize) -> usize {
        // SAFETY: the caller's promise.
        W::get(unsafe { self.memory().at::<W::Word>(block.wrapping_sub(W::BYTES)).read_volatile() })
    }

    /// Writes the header of a block.
    ///
    /// # Safety
    ///
    /// As [`header`](Self::header), or the word in front of `block` is free memory of the heap.
    #[inline(always)]
    unsafe fn set_header(&mut self, block: usize, header: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.memory().store(block.wrapping_sub(W::BYTES), header) }
    }

    /// Offset of the footer of a free block.
    #[inline(always)]
    fn footer(block: usize, size: usize) -> usize {
        block.wrapping_add(size).wrapping_sub(2 * W::BYTES)
    }

    /// Counts and answers a refusal. Cold, so that the hot path has one jump to it.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: AllocError) -> AllocError {
        // SAFETY: the front is initialised.
        unsafe { (*self.front()).tally.refused() }
        error
    }

    /// Why a size at or beyond the limit, or zero, is refused.
    #[cold]
    #[inline(never)]
    fn refuse_size(&mut self, size_bytes: usize) -> AllocError {
        self.refuse(if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge })
    }

    /// Whether a request is beyond what the heap could ever serve: one comparison for zero and for too large.
    #[inline(always)]
    fn is_unservable(&self, size_bytes: usize) -> bool {
        // SAFETY: the front is initialised.
        size_bytes.wrapping_sub(1) >= unsafe { (*self.front()).limit }
    }

    /// Whether a whole number of granules makes a block.
    #[inline(always)]
    fn is_block(size: usize) -> bool {
        if W::MIN_BLOCK > W::GRANULE { size >= W::MIN_BLOCK } else { size != 0 }
    }

    /// Bytes of the block for a request of `size_bytes`, which is servable.
    #[inline(always)]
    fn block_for(size_bytes: usize) -> usize {
        let need = (size_bytes + W::BYTES + W::GRANULE - 1) & !(W::GRANULE - 1);
        if W::MIN_BLOCK > W::GRANULE { need.max(W::MIN_BLOCK) } else { need }
    }

    /// Allocates; `align_bytes` is a power of two.
    ///
    /// ```text
    /// [free 96] -> [live 32][free 64]
    /// ```
    #[inline(always)]
    fn serve(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if align_bytes > W::GRANULE {
            return self.serve_aligned(size_bytes, align_bytes);
        }
        if self.is_unservable(size_bytes) {
            return Err(self.refuse_size(size_bytes));
        }
        let memory = self.memory();
        // SAFETY: the index is initialised, and what it returns is a free block of at least the granted size.
        unsafe {
            let Some((block, granted, place)) = I::take(memory, Self::block_for(size_bytes)) else {
                return Err(self.refuse(AllocError::Exhausted));
            };
            let size = free_size(memory, block);
            self.hand_out(block, size, granted, place);
            Ok(memory.pointer(block))
        }
    }

    /// Makes the first `granted` bytes of a free block that was taken out of the index live; the rest stays free if it
    /// makes a block.
    ///
    /// # Safety
    ///
    /// `block` is free, of `size` bytes, at least `granted`, and in no list; `place` is where it stood.
    #[inline(always)]
    unsafe fn hand_out(&mut self, block: usize, size: usize, granted: usize, place: I::Place) {
        // SAFETY: `block + size` is the next block or the sentinel, and what lies between is the free block's.
        unsafe {
            let rest = size - granted;
            let granted = if Self::is_block(rest) {
                let remainder = block.wrapping_add(granted);
                self.set_header(remainder, rest);
                self.memory().store(Self::footer(remainder, rest), rest);
                I::insert(self.memory(), remainder, rest, place);
                granted
            } else {
                let next = block.wrapping_add(size);
                self.set_header(next, self.header(next) & !PREV_FREE);
                size
            };
            self.set_header(block, granted + LIVE);
            self.tally_allocated(block, granted);
        }
    }

    /// Tallies a block that became live.
    #[inline(always)]
    fn tally_allocated(&mut self, block: usize, size: usize) {
        // SAFETY: front and control structure are initialised.
        unsafe {
            let first = self.memory().load_bits(first_block_at::<W>());
            let end = block.wrapping_add(size).wrapping_sub(first);
            (*self.front()).tally.allocated(size - W::BYTES, end);
        }
    }

    /// Allocates at an alignment beyond the granule: finds a block with room to shift the payload, and frees the gap.
    ///
    /// ```text
    /// [free 160] -> [free gap 48][live 64, payload aligned][free 48]
    /// ```
    #[inline(never)]
    fn serve_aligned(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if self.is_unservable(size_bytes) {
            return Err(self.refuse_size(size_bytes));
        }
        // SAFETY: the front is initialised.
        let limit = unsafe { (*self.front()).limit };
        if align_bytes > limit {
            return Err(self.refuse(AllocError::Alignment));
        }
        let need = Self::block_for(size_bytes);
        // The largest gap: a gap of one granule that is no block grows by one alignment.
        let most_gap = if W::MIN_BLOCK > W::GRANULE { align_bytes + W::GRANULE } else { align_bytes - W::GRANULE };
        if need + most_gap > limit + W::BYTES {
            return Err(self.refuse(AllocError::TooLarge));
        }
        let memory = self.memory();
        // SAFETY: the index returns a free block of at least `need + most_gap` bytes; gap, block and rest divide it.
        unsafe {
            let Some((found, _, place)) = I::take(memory, need + most_gap) else {
                return Err(self.refuse(AllocError::Exhausted));
            };
            let found_size = free_size(memory, found);
            let mut gap = memory.address(found).wrapping_neg() & (align_bytes - 1);
            if gap != 0 && gap < W::MIN_BLOCK {
                gap += align_bytes;
            }
            let block = found.wrapping_add(gap);
            let size = found_size - gap;
            let mut place = place;
            if gap != 0 {
                self.set_header(found, gap);
                memory.store(Self::footer(found, gap), gap);
                I::insert(memory, found, gap, place);
                place = I::NOWHERE;
            }
            self.hand_out(block, size, I::granted(need).min(size), place);
            if gap != 0 {
                self.set_header(block, self.header(block) | PREV_FREE);
            }
            Ok(memory.pointer(block))
        }
    }

    /// Whether no block can be at an address: it is off the granule, in front of the first block or behind the last.
    #[inline(always)]
    fn is_foreign(&self, address: usize) -> bool {
        // SAFETY: the front is initialised.
        unsafe {
            // The bits below the granule rotate to the top: one comparison for all three.
            let distance = address.wrapping_sub((*self.front()).first_address);
            distance.rotate_right(W::GRANULE.ilog2()) >= (*self.front()).block_granules
        }
    }

    /// The live block at an address, if its tags and the next block's agree that it is one.
    #[inline(always)]
    fn live_block(&self, address: usize) -> Option<LiveBlock> {
        let block = self.memory().offset(address);
        // SAFETY: the front is initialised. A granule-aligned offset below the span has, in front of it, the control
        // structure or memory of a region; a size is only followed within the span.
        unsafe {
            if self.is_foreign(address) {
                return None;
            }
            let header = self.header(block);
            if G::THOROUGH && header & LIVE == 0 {
                return None;
            }
            let size = size_in::<W>(header);
            let next = block.wrapping_add(size);
            if size == 0 || next > (*self.front()).span || (W::MAX == usize::MAX && next < block) {
                return None;
            }
            // A free block's next header has the flag set: this is the test for a double free, too.
            let next_header = self.header(next);
            if next_header & PREV_FREE != 0 {
                return None;
            }
            if G::THOROUGH && next_header & LIVE == 0 && !self.is_free_block(next, next_header) {
                return None;
            }
            Some(LiveBlock { block, header, size, next, next_header })
        }
    }

    /// Whether the tags of a block, whose header says that it is free, agree that it is.
    ///
    /// # Safety
    ///
    /// `block` is an offset below the span, and `header` its header.
    #[inline(always)]
    unsafe fn is_free_block(&self, block: usize, header: usize) -> bool {
        let end = block.wrapping_add(header);
        // SAFETY: the front is initialised, and the footer is read only where it lies in front of the span.
        unsafe {
            header != 0
                && size_in::<W>(header) == header
                && end <= (*self.front()).span
                && (W::MAX < usize::MAX || end > block)
                && self.memory().load(Self::footer(block, header)) == header
        }
    }

    /// The free block in front of `block`, if its tags agree.
    ///
    /// # Safety
    ///
    /// `block` passed [`live_block`](Self::live_block) and has PREV_FREE set.
    #[inline(always)]
    unsafe fn free_prev(&self, block: usize) -> Option<usize> {
        // SAFETY: the word in front of the header belongs to the heap: a free block's footer, unless the flag was
        // overwritten; the footer is only followed where a header can be.
        unsafe {
            let size = self.memory().load(block.wrapping_sub(2 * W::BYTES));
            let prev = block.wrapping_sub(size);
            if G::THOROUGH && (size == 0 || size_in::<W>(size) != size) {
                return None;
            }
            if size > block || self.header(prev) != size {
                return None;
            }
            Some(prev)
        }
    }

    /// Reports an address whose tags are not those of a live block, and what they show.
    #[cold]
    #[inline(never)]
    fn report_misuse(&self, address: usize) {
        let block = self.memory().offset(address);
        // SAFETY: the front is initialised, and an offset in the heap has a word of it in front.
        let kind = unsafe {
            if self.is_foreign(address) {
                MisuseKind::ForeignPointer
            } else if self.header(block) & LIVE == 0 {
                MisuseKind::DoubleFree
            } else {
                MisuseKind::ContradictoryTags
            }
        };
        report(I::CONTRACT.name, kind, address);
    }

    /// Deallocates.
    ///
    /// ```text
    /// [free 64][live 32][free 96] -> [free 192]
    /// ```
    #[inline(always)]
    fn release(&mut self, address: usize) {
        if self.try_release(address).is_none() {
            self.report_misuse(address);
        }
    }

    /// Deallocates if the tags are those of a live block.
    #[inline(always)]
    fn try_release(&mut self, address: usize) -> Option<()> {
        let memory = self.memory();
        let LiveBlock { block, size, next, next_header, .. } = self.live_block(address)?;
        // SAFETY: the tags are those of a live block, so the words in front of it and behind it are tags.
        unsafe {
            let mut start = block;
            let mut end = next;
            let mut place = I::NOWHERE;
            if self.reload_header(block) & PREV_FREE != 0 {
                start = self.free_prev(block)?;
                place = I::remove(memory, start);
                if G::THOROUGH {
                    self.set_header(block, 0);
                }
            }
            if next_header & LIVE == 0 {
                place = I::first_of(place, I::remove(memory, next));
                if G::THOROUGH {
                    self.set_header(next, 0);
                }
                end = next.wrapping_add(next_header);
            } else {
                core::hint::cold_path();
                self.set_header(next, next_header | PREV_FREE);
            }
            (*self.front()).tally.freed(size - W::BYTES);
            self.make_free(start, end.wrapping_sub(start), place);
        }
        Some(())
    }

    /// Tags memory as one free block and adds it to the index.
    ///
    /// # Safety
    ///
    /// The memory belongs to the heap, lies between two live blocks (or a region's end), and the next header has
    /// PREV_FREE set.
    #[inline(always)]
    unsafe fn make_free(&mut self, block: usize, size: usize, place: I::Place) {
        // SAFETY: the caller's promise.
        unsafe {
            self.set_header(block, size);
            self.memory().store(Self::footer(block, size), size);
            I::insert(self.memory(), block, size, place);
        }
    }
}

// SAFETY: the index hands out each free block once; split and coalesce keep blocks apart from each other and from the
// control structure, as `check` verifies.
unsafe impl<'r, I: Named<W>, W: Width, T: Tally, G: Scrutiny> crate::contract::RegionAllocator<'r>
    for TagHeap<'r, I, W, T, G>
{
    type Config = TagConfig;

    const CONTRACT: Contract =
        Contract { detects_stale_pointers: G::THOROUGH, detects_overwritten_tags: G::THOROUGH, ..I::CONTRACT };

    fn new(region: &'r mut [MaybeUninit<u8>], config: TagConfig) -> Result<Self, InitError> {
        Self::init(region, config)
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if !align_bytes.is_power_of_two() {
            return Err(self.refuse(AllocError::Alignment));
        }
        self.serve(size_bytes, align_bytes)
    }

    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.serve(layout.size(), layout.align())
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        self.release(block.addr().get());
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { self.resize(block, size_bytes, align_bytes) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the block is live by the caller's promise.
        let header = unsafe { self.header(self.memory().offset(block.addr().get())) };
        size_in::<W>(header) - W::BYTES
    }

    fn largest_allocatable(&self) -> usize {
        // SAFETY: the index is initialised.
        unsafe { I::largest(self.memory()) }.saturating_sub(W::BYTES)
    }

    fn stats(&self) -> Option<Stats> {
        // SAFETY: the front is initialised.
        unsafe { (*self.front()).tally.stats(self.largest_allocatable()) }
    }

    fn walk(&self, visitor: &mut dyn FnMut(crate::contract::Block)) {
        self.visit_blocks(visitor);
    }

    fn check(&self) -> Result<(), Corruption> {
        self.verify()
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.emit_state(word);
    }
}

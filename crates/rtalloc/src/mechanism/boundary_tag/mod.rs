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

mod index;
mod init;
mod regions;
mod resize;
mod tags;
mod thresholds;
mod verify;
#[cfg(test)]
mod white_box;

pub use index::{FreeIndex, Named};
pub(crate) use index::{free_size, tag_contract};
use tags::LiveBlock;
pub use thresholds::Thresholds;

use crate::contract::{AllocError, Contract, Corruption, InitError, Observable, Stats};
use crate::mechanism::bits::computed;
use crate::mechanism::memory::Memory;
use crate::mechanism::scrutiny::{Brief, Scrutiny};
use crate::mechanism::tally::{Tally, Untallied};
use crate::mechanism::word::{Offset32, Width};
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
pub(crate) const fn own_bytes<W: Width>() -> usize {
    (if W::PAIRS { 2 } else { 3 }) * size_of::<usize>()
}

/// Offset of the `usize` that holds the offset of the first region's first block.
#[inline(always)]
pub(crate) const fn first_block_at<W: Width>() -> usize {
    0usize.wrapping_sub(own_bytes::<W>())
}

/// Offset of the `usize` that holds the offset of the latest region's sentinel.
const fn sentinels_at<W: Width>() -> usize {
    first_block_at::<W>().wrapping_add(size_of::<usize>())
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

/// How a [`TagHeap`] is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct TagConfig {
    /// Largest region, in bytes, that will be added later; the control structure is sized for it. 0: none that holds a
    /// larger block than the first one does, which is less than a region of the same length: to add one of those, say its
    /// length here.
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
unsafe impl<I, W, T: Send, G> Send for TagHeap<'_, I, W, T, G> {}

impl<'r, I: Named<W>, W: Width, T: Tally, G: Scrutiny> TagHeap<'r, I, W, T, G> {
    /// Alignment of the base.
    const BASE_ALIGN: usize = if W::GRANULE > align_of::<Front<T>>() { W::GRANULE } else { align_of::<Front<T>>() };
    /// Bytes of a sentinel: its header and the region's record of four words.
    const SENTINEL_BYTES: usize = 5 * W::BYTES;

    /// Bytes in front of the base.
    #[inline(always)]
    fn front_bytes() -> usize {
        size_of::<Front<T>>() + I::bytes_below() + own_bytes::<W>()
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

    /// Writes the header of a block that another thread may ask about: who frees a block of somebody else's heap, or resizes
    /// it, needs its size. Of the headers of live blocks nothing else changes but that flag.
    ///
    /// # Safety
    ///
    /// As [`set_header`](Self::set_header).
    #[inline(always)]
    unsafe fn set_flag(&mut self, block: usize, header: usize) {
        // SAFETY: the caller's promise.
        unsafe { W::store_watched(self.memory(), block.wrapping_sub(W::BYTES), header) }
    }

    /// The header of a block that may be somebody else's.
    ///
    /// # Safety
    ///
    /// As [`header`](Self::header).
    #[inline(always)]
    unsafe fn watched_header(&self, block: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { W::load_watched(self.memory(), block.wrapping_sub(W::BYTES)) }
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

    /// Whether a whole number of granules, of which a block has no need, is split off it.
    #[inline(always)]
    fn is_rest(size: usize) -> bool {
        if I::MIN_REST > W::GRANULE { size >= I::MIN_REST } else { size != 0 }
    }

    /// Bytes of the block for a request of `size_bytes`, which is servable.
    #[inline(always)]
    fn block_for(size_bytes: usize) -> usize {
        let need = (size_bytes + W::BYTES + W::GRANULE - 1) & !(W::GRANULE - 1);
        if I::MIN_BLOCK > W::GRANULE { need.max(I::MIN_BLOCK) } else { need }
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
    /// is split off.
    ///
    /// # Safety
    ///
    /// `block` is free, of `size` bytes, at least `granted`, and in no list; `place` is where it stood.
    #[inline(always)]
    unsafe fn hand_out(&mut self, block: usize, size: usize, granted: usize, place: I::Place) {
        // SAFETY: `block + size` is the next block or the sentinel, and what lies between is the free block's.
        unsafe {
            let rest = size - granted;
            let granted = if Self::is_rest(rest) {
                let remainder = block.wrapping_add(granted);
                self.set_header(remainder, rest);
                self.memory().store(Self::footer(remainder, rest), rest);
                I::insert(self.memory(), remainder, rest, place);
                self.set_header(block, granted + LIVE);
                granted
            } else {
                let next = block.wrapping_add(size);
                // Written whole: of a word that it sees changed in some bits, the compiler writes only their byte, which no
                // processor forwards to the load of the word when the block is freed.
                self.set_flag(next, computed((self.header(next) & !PREV_FREE) as u64) as usize);
                self.set_header(block, size + LIVE);
                size
            };
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
        // The largest gap: one that is a granule short of a block grows by one alignment.
        let most_gap = match I::MIN_BLOCK > W::GRANULE {
            true => align_bytes + (I::MIN_BLOCK - W::GRANULE),
            false => align_bytes - W::GRANULE,
        };
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
            if gap != 0 && gap < I::MIN_BLOCK {
                // As many alignments as make the gap a block.
                gap += match I::MIN_BLOCK > 2 * W::GRANULE {
                    true => (I::MIN_BLOCK - gap + align_bytes - 1) & !(align_bytes - 1),
                    false => align_bytes,
                };
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
            let (mut start, mut end, mut whole) = (block, next, size);
            let mut place = I::NOWHERE;
            if self.reload_header(block) & PREV_FREE != 0 {
                start = self.free_prev(address, block)?;
                whole = whole.wrapping_add(block.wrapping_sub(start));
                place = I::remove(memory, start);
                if G::THOROUGH {
                    self.set_header(block, 0);
                }
            } else {
                core::hint::cold_path();
            }
            if next_header & LIVE == 0 {
                place = I::first_of(place, I::remove(memory, next));
                end = next.wrapping_add(next_header);
                whole = whole.wrapping_add(next_header);
            } else {
                core::hint::cold_path();
                self.set_flag(next, next_header | PREV_FREE);
            }
            (*self.front()).tally.freed(size - W::BYTES);
            self.make_free(start, end, whole, place);
        }
        Some(())
    }

    /// Tags the memory from `block` to `end`, `size` bytes, as one free block and adds it to the index.
    ///
    /// # Safety
    ///
    /// The memory belongs to the heap, lies between two live blocks (or a region's end), and the next header has
    /// PREV_FREE set.
    #[inline(always)]
    unsafe fn make_free(&mut self, block: usize, end: usize, size: usize, place: I::Place) {
        // SAFETY: the caller's promise.
        unsafe {
            self.set_header(block, size);
            self.memory().store(end.wrapping_sub(2 * W::BYTES), size);
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

    const CONTRACT: Contract = Contract {
        min_block_bytes: I::MIN_BLOCK,
        splitting_threshold_bytes: I::MIN_REST - W::GRANULE,
        detects_stale_pointers: G::THOROUGH,
        detects_overwritten_tags: G::THOROUGH,
        ..I::CONTRACT
    };

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
        let header = unsafe { self.watched_header(self.memory().offset(block.addr().get())) };
        // Wrapping, for adapters that ask before the tags are tested: of what is no block, any answer will do.
        size_in::<W>(header).wrapping_sub(W::BYTES)
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

// SAFETY: of the tags of a live block, those that are asked about, nothing changes but a flag, by atomic stores; the front is
// not written while no regions are added, its tally apart.
unsafe impl<'r, I: Named<W>, W: Width, T: Tally + Send, G: Scrutiny> Observable<'r> for TagHeap<'r, I, W, T, G> {
    #[inline(always)]
    unsafe fn looks_live(&self, address: NonNull<u8>) -> bool {
        let block = self.memory().offset(address.addr().get());
        // SAFETY: in front of a place on the grid, between the first block and the region's end, there is memory of the region; the
        // front is initialised.
        let (header, span) = unsafe { (self.watched_header(block), (*self.front()).span) };
        let size = size_in::<W>(header);
        header & LIVE != 0 && size >= I::MIN_BLOCK && block <= span && size <= span - block
    }
}

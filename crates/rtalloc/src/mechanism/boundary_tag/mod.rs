//! The heap of blocks with boundary tags (Knuth 1973), generic over the index of its free blocks.
//!
//! First-fit, best-fit, half-fit and TLSF are this heap with different [`FreeIndex`]es. It splits what the index finds,
//! coalesces immediately, resizes in place, aligns, adds and removes regions, walks and checks. It has no loop and
//! branches only on tags: the cost class of an operation is that of its index.
//!
//! # Layout
//!
//! A block is identified by the offset of its payload. The word before the payload is its header: the size of the whole
//! block, with two flags in the low bits. A free block repeats its size in its last word (the *footer*), where the next
//! block finds it:
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
//! region's record. In the first region, the control structure comes first:
//!
//! ```text
//! [front: limit, span, stats][index's word][sentinels] base: [null node][index][blocks ...][sentinel]
//! ```
//!
//! # Misuse
//!
//! `deallocate` checks only tags that it reads anyway. The address must lie between the first block and the last
//! sentinel and be a multiple of the granule. The header must have a size; on x86-64, where that takes no further test,
//! it must also say that the block is live and have no undefined bit set. The next header must lie in the heap, must say
//! that this block is live, and must have no undefined bit set. If the previous block is free, its header must equal its
//! footer. A block freed twice fails the check of the next header or, if it is now in the middle of a larger free block,
//! that of the previous one. With [`Full`](crate::mechanism::validation::Full) validation, the heap checks the other tags
//! as well, seals the headers of live blocks, and checks the block that it allocates. Any failure is reported to the
//! [`hook`], and the call has no effect. With [`Unchecked`](crate::mechanism::validation::Unchecked) validation, nothing
//! is checked.
//!
//! With [`OwnTag`](crate::mechanism::validation::OwnTag) validation, `deallocate` checks the address, and that the header
//! has the flag LIVE. The header of a freed block has no such flag until its memory is allocated again: it becomes that of
//! a free block or, if the block merges with the one before it, is cleared. Later, while the memory is free, the heap
//! writes into it, in the last word of a granule, where headers are, only headers of free blocks and links. A link is the
//! offset of a block, a multiple of the granule, so it has no flag either. Footers and class numbers are in other words.

mod header;
mod index;
mod init;
mod pieces;
mod regions;
mod resize;
mod tags;
mod thresholds;
mod verify;
#[cfg(test)]
mod white_box;

use header::Header;
pub use index::{FreeIndex, Named};
pub(crate) use index::{bytes_through, free_size, tag_contract};
use tags::LiveBlock;
pub use thresholds::Thresholds;

use crate::contract::{AllocError, Contract, Corruption, InitError, MisuseKind, Observable, SetAside, Stats};
use crate::hook;
use crate::mechanism::bits::computed;
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::pair_result::PairResult;
use crate::mechanism::stats::{NoStats, StatsPolicy};
use crate::mechanism::validation::{Basic, BasicSettingAside, Validation};
use crate::mechanism::word::{Offset32, Width};
use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Bytes of the heap's own words (`usize`) before the base. The word directly before the base, where offset 0 would
/// have its header, is zero, so that a pointer to the base is not a block. It is the upper half of the last word or,
/// where a tag has no such half, a word of its own.
#[inline(always)]
const fn own_bytes<W: Width>() -> usize {
    (if W::PAIRS { 2 } else { 3 }) * size_of::<usize>()
}

/// Offset of a `usize` for the index.
#[inline(always)]
pub(crate) const fn index_word_at<W: Width>() -> Offset {
    Offset::BASE.down(own_bytes::<W>())
}

/// Offset of the `usize` that holds the offset of the latest region's sentinel.
#[inline(always)]
const fn sentinels_at<W: Width>() -> Offset {
    index_word_at::<W>().up(size_of::<usize>())
}

/// The part of the control structure before the index. It is as small as the statistics allow.
#[repr(C)]
#[derive(Debug)]
struct Front<T> {
    /// Largest request in bytes: the largest block the control structure is planned for, less its header.
    limit: usize,
    /// Offset of the highest sentinel: every block begins below it.
    span: Offset,
    /// Address of the first block.
    first_address: usize,
    /// From the first block to the highest sentinel, in `UNIT_BYTES`: granules, or bytes.
    block_units: usize,
    /// Running statistics.
    stats: T,
}

/// Options of a [`TagHeap`].
#[derive(Clone, Copy, Debug, Default)]
pub struct TagConfig {
    /// Largest region, in bytes, that will be added later; the control structure is sized for it. With 0, only regions
    /// can be added whose block is no larger than the first region's. That excludes a region of the same length: to add
    /// one, give its length here.
    pub max_region_bytes: usize,
}

/// A heap of blocks with boundary tags: index `I`, tags of width `W`, statistics `T`, validation `G`.
///
/// The value is one pointer; everything else is in the region.
#[derive(Debug)]
pub struct TagHeap<'r, I, W = Offset32, T = NoStats, G = Basic> {
    /// The base: a multiple of the granule. The front lies before it, the rest of the control structure after it.
    base: NonNull<u8>,
    regions: PhantomData<&'r mut [MaybeUninit<u8>]>,
    kind: PhantomData<(I, W, T, G)>,
}

// SAFETY: the heap owns its regions exclusively for 'r and has no thread affinity.
unsafe impl<I, W, T: Send, G> Send for TagHeap<'_, I, W, T, G> {}

impl<'r, I: Named<W>, W: Width, T: StatsPolicy, G: Validation> TagHeap<'r, I, W, T, G> {
    /// Alignment of the base.
    const BASE_ALIGN: usize = if W::GRANULE > align_of::<Front<T>>() { W::GRANULE } else { align_of::<Front<T>>() };
    /// Bytes of a sentinel: its header and the region's record of four words.
    const SENTINEL_BYTES: usize = 5 * W::BYTES;

    /// Whether a freed block is checked, but no other tag.
    const IS_OWN_TAG: bool = G::IS_CHECKED && !G::CHECKS_NEIGHBOURS;
    /// Whether a block that ends up inside a free block does not keep the header of a live one.
    const CLEARS_HEADERS: bool = Self::IS_OWN_TAG || G::IS_FULL;

    /// Bytes before the base.
    #[inline(always)]
    fn front_bytes() -> usize {
        size_of::<Front<T>>() + own_bytes::<W>()
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

    /// The first region's first block.
    fn first_region_block(&self) -> Offset {
        // SAFETY: `init` initialised the front.
        self.memory().offset(unsafe { (*self.front()).first_address })
    }

    /// The header of a block.
    ///
    /// # Safety
    ///
    /// `block` is a block or a sentinel.
    #[inline(always)]
    unsafe fn header(&self, block: Offset) -> Header<W, G> {
        // SAFETY: `block` is a block or a sentinel, so its header is the word before it.
        Header::of(unsafe { self.memory().load(block.down(W::BYTES)) })
    }

    /// Loads the header of a block again: testing a flag in memory is cheaper than keeping it in a register.
    ///
    /// # Safety
    ///
    /// As [`header`](Self::header).
    #[inline(always)]
    unsafe fn reload_header(&self, block: Offset) -> Header<W, G> {
        // SAFETY: `block` is a block or a sentinel, so its header is the word before it.
        Header::of(W::get(unsafe { self.memory().at::<W::Word>(block.down(W::BYTES)).read_volatile() }))
    }

    /// Writes the header of a block.
    ///
    /// # Safety
    ///
    /// As [`header`](Self::header), or the word before `block` is free memory of the heap.
    #[inline(always)]
    unsafe fn set_header(&mut self, block: Offset, header: Header<W, G>) {
        // SAFETY: the word before `block` is its header or free memory, and so is the heap's to write.
        unsafe { self.memory().store(block.down(W::BYTES), header.word()) }
    }

    /// Writes a flag into the header of a block that another thread may read: a thread that frees or resizes a block of
    /// another heap needs its size. While a block is live, only this flag of its header changes.
    ///
    /// # Safety
    ///
    /// As [`set_header`](Self::set_header).
    #[inline(always)]
    unsafe fn set_flag(&mut self, block: Offset, header: Header<W, G>) {
        // SAFETY: the word before `block` is its header or free memory, and so is the heap's to write.
        unsafe { W::store_watched(self.memory(), block.down(W::BYTES), header.word()) }
    }

    /// The header of a block that may belong to another thread's heap.
    ///
    /// # Safety
    ///
    /// As [`header`](Self::header).
    #[inline(always)]
    unsafe fn watched_header(&self, block: Offset) -> Header<W, G> {
        // SAFETY: `block` is a block or a sentinel, so its header is the word before it. Its owner writes it only by
        // `store_watched`.
        Header::of(unsafe { W::load_watched(self.memory(), block.down(W::BYTES)) })
    }

    /// Offset of the footer of a free block.
    #[inline(always)]
    fn footer(block: Offset, size: usize) -> Offset {
        block.up(size).down(2 * W::BYTES)
    }

    /// Counts a refusal and returns its error. Cold, so that the hot path needs only one jump to it.
    #[cold]
    #[inline(never)]
    fn refuse(self, error: AllocError) -> AllocError {
        // SAFETY: `init` initialised the front.
        unsafe { (*self.front()).stats.refused() }
        error
    }

    /// Refuses a size that is zero or beyond the limit.
    #[cold]
    #[inline(never)]
    fn refuse_size(self, size_bytes: usize) -> AllocError {
        self.refuse(Self::size_error(size_bytes))
    }

    /// Counts a refusal as the last step of an allocation, and returns null.
    #[cold]
    #[inline(never)]
    fn count_last(self) -> *mut u8 {
        // SAFETY: `init` initialised the front.
        unsafe { (*self.front()).stats.refused() }
        Self::null(size_of::<T>() != 0)
    }

    /// Refuses as the last step of an allocation. The function that counts returns a null that its caller returns, too:
    /// the caller jumps to it, and needs no stack frame.
    #[inline(always)]
    fn refuse_last(&self, error: AllocError) -> Result<NonNull<u8>, AllocError> {
        NonNull::new(self.by_value().count_last()).ok_or(error)
    }

    /// As [`refuse_last`](Self::refuse_last) for a size that is zero or beyond the limit.
    #[inline(always)]
    fn refuse_size_last(&self, size_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        NonNull::new(self.by_value().count_last()).ok_or(Self::size_error(size_bytes))
    }

    /// Why a size that is zero or beyond the limit is refused.
    #[inline(always)]
    fn size_error(size_bytes: usize) -> AllocError {
        if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge }
    }

    /// A null that the compiler cannot see through, if a caller is to jump to the function that returns it.
    #[inline(always)]
    fn null(is_jump: bool) -> *mut u8 {
        core::ptr::without_provenance_mut(if is_jump { computed(0) as usize } else { 0 })
    }

    /// The result of a refusal in a function that is not inlined, whose callers jump to it.
    #[inline(always)]
    fn last_step(error: AllocError) -> PairResult<AllocError> {
        NonNull::new(Self::null(true)).ok_or(error).into()
    }

    /// Whether the heap can never serve this size: one comparison for zero and for too large.
    #[inline(always)]
    fn is_unservable(&self, size_bytes: usize) -> bool {
        // SAFETY: `init` initialised the front.
        size_bytes.wrapping_sub(1) >= unsafe { (*self.front()).limit }
    }

    /// Whether an unneeded remainder of this size, in whole granules, is split off.
    #[inline(always)]
    fn is_rest(size: usize) -> bool {
        if I::MIN_REST > W::GRANULE { size >= I::MIN_REST } else { size != 0 }
    }

    /// The last byte, counted from its header, that the block for a request of `size_bytes` must have.
    #[inline(always)]
    fn last_byte(size_bytes: usize) -> usize {
        let last = size_bytes + (W::BYTES - 1);
        if I::MIN_BLOCK > W::GRANULE { last.max(I::MIN_BLOCK - 1) } else { last }
    }

    /// The heap's pointer in a register: a function that is not inlined would get a reference on the stack, and one
    /// that is would load the pointer again after each store.
    #[inline(always)]
    fn by_value(&self) -> Self {
        Self { base: self.base, regions: PhantomData, kind: PhantomData }
    }

    /// Allocates; `align_bytes` is a power of two.
    #[inline(always)]
    fn serve(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if align_bytes > W::GRANULE {
            return self.by_value().serve_aligned(size_bytes, align_bytes).into();
        }
        self.serve_at_granule(size_bytes)
    }

    /// Allocates at the alignment of every block.
    ///
    /// ```text
    /// [free 96] -> [live 32][free 64]
    /// ```
    #[inline(always)]
    fn serve_at_granule(&mut self, size_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if self.is_unservable(size_bytes) {
            return self.refuse_size_last(size_bytes);
        }
        let memory = self.memory();
        // SAFETY: the index is initialised and returns a free block of at least the granted size.
        unsafe {
            let mut summary = I::load(memory);
            let Some((block, granted, place)) = I::take(memory, &mut summary, Self::last_byte(size_bytes)) else {
                return self.refuse_last(AllocError::Exhausted);
            };
            let size = free_size(memory, block);
            if G::IS_FULL && !self.is_whole(block, size, granted) {
                I::store(memory, summary);
                return Err(self.by_value().refuse_damaged(block));
            }
            self.hand_out(&mut summary, block, size, granted, place, false);
            I::store(memory, summary);
            Ok(memory.pointer(block))
        }
    }

    /// Refuses a request because the tags around the free block contradict each other. The block is in no list any more
    /// and is never allocated again.
    #[inline(always)]
    fn refuse_damaged(self, block: Offset) -> AllocError {
        hook::report(I::CONTRACT.name, MisuseKind::ContradictoryTags, self.memory().address(block));
        self.refuse(AllocError::Misused)
    }

    /// Makes the first `granted` bytes of a free block live. The rest stays free if it is split off.
    ///
    /// # Safety
    ///
    /// `block` is free, of `size` bytes, at least `granted`, and in no list; `place` is where it was in the index. The
    /// summary is loaded. `follows_free`: the block before it is free.
    #[inline(always)]
    unsafe fn hand_out(
        &mut self,
        summary: &mut I::Summary,
        block: Offset,
        size: usize,
        granted: usize,
        place: I::Place,
        follows_free: bool,
    ) {
        // SAFETY: `block + size` is the next block or the sentinel, and the bytes up to it belong to the free block.
        unsafe {
            let rest = size - granted;
            let granted = if Self::is_rest(rest) {
                // Not computed again as the difference for every use.
                let rest = if I::MIN_REST > W::GRANULE { rest } else { computed(rest as u64) as usize };
                let remainder = block.up(granted);
                self.set_header(block, Header::live(granted, follows_free));
                self.set_header(remainder, Header::free(rest));
                self.memory().store(Self::footer(remainder, rest), rest);
                I::insert(self.memory(), summary, remainder, rest, place);
                granted
            } else {
                // Both are equal without a rest. On x86-64, the size is not in a register any more.
                let size = if cfg!(target_arch = "x86_64") && I::MIN_REST <= W::GRANULE { granted } else { size };
                let next = block.up(size);
                let header = self.header(next);
                let header = if G::IS_FULL { header.with_prev_flipped() } else { header.with_prev_free(false) };
                // LLVM narrows a store that changes only some bits to one byte, which breaks store forwarding to the
                // load of the header in `deallocate`. So the header is stored whole.
                self.set_flag(next, Header::of(computed(header.word() as u64) as usize));
                self.set_header(block, Header::live(size, follows_free));
                size
            };
            self.count_allocated(block, granted);
        }
    }

    /// Counts a block that became live.
    #[inline(always)]
    fn count_allocated(&mut self, block: Offset, size: usize) {
        // SAFETY: `init` initialised the front and the control structure.
        unsafe {
            // From the base, which `stats` takes into account.
            (*self.front()).stats.block_allocated(size, W::BYTES, block.up(size).bytes());
        }
    }

    /// The largest gap before a block at an alignment beyond the granule: one that is a granule too small for a block
    /// grows by one alignment.
    #[inline(always)]
    fn most_gap(align_bytes: usize) -> usize {
        match I::MIN_BLOCK > W::GRANULE {
            true => align_bytes + (I::MIN_BLOCK - W::GRANULE),
            false => align_bytes - W::GRANULE,
        }
    }

    /// Allocates at an alignment beyond the granule: finds a block with room to shift the payload, and frees the gap.
    ///
    /// ```text
    /// [free 160] -> [free gap 48][live 64, payload aligned][free 48]
    /// ```
    #[inline(never)]
    fn serve_aligned(self, size_bytes: usize, align_bytes: usize) -> PairResult<AllocError> {
        self.serve_aligned_inlined(size_bytes, align_bytes)
    }

    #[inline(always)]
    fn serve_aligned_inlined(mut self, size_bytes: usize, align_bytes: usize) -> PairResult<AllocError> {
        // Whether it is not a power of two: it is not zero.
        if align_bytes & (align_bytes - 1) != 0 || self.is_unservable(size_bytes) {
            return self.refuse_aligned(size_bytes, align_bytes);
        }
        // The limit is below half of the address space: the sum does not overflow.
        let (last, most_gap) = (Self::last_byte(size_bytes), Self::most_gap(align_bytes));
        if self.is_unplanned(last + most_gap) {
            return self.refuse_aligned(size_bytes, align_bytes);
        }
        let memory = self.memory();
        // SAFETY: the index returns a free block with the byte `last + most_gap`; gap, block and rest divide it.
        unsafe {
            let mut summary = I::load(memory);
            let Some((found, _, place)) = I::take(memory, &mut summary, last + most_gap) else {
                return self.refused_aligned(AllocError::Exhausted);
            };
            let found_size = free_size(memory, found);
            if G::IS_FULL && !self.is_whole(found, found_size, bytes_through::<W>(last + most_gap)) {
                I::store(memory, summary);
                let error = self.refuse_damaged(found);
                return Self::last_step(error);
            }
            let block = self.hand_out_aligned(&mut summary, found, found_size, last, align_bytes, place);
            I::store(memory, summary);
            Ok(memory.pointer(block)).into()
        }
    }

    /// As [`hand_out`](Self::hand_out) with the byte `last` at an alignment beyond the granule: returns the block.
    ///
    /// # Safety
    ///
    /// As there, and the free block has the byte `last` behind the largest gap.
    #[inline(always)]
    unsafe fn hand_out_aligned(
        &mut self,
        summary: &mut I::Summary,
        found: Offset,
        found_size: usize,
        last: usize,
        align_bytes: usize,
        place: I::Place,
    ) -> Offset {
        let memory = self.memory();
        let mut gap = memory.address(found).wrapping_neg() & (align_bytes - 1);
        if I::MIN_BLOCK > W::GRANULE && gap != 0 && gap < I::MIN_BLOCK {
            // The fewest further alignments that make the gap as large as a block.
            gap += match I::MIN_BLOCK > 2 * W::GRANULE {
                true => (I::MIN_BLOCK - gap + align_bytes - 1) & !(align_bytes - 1),
                false => align_bytes,
            };
        }
        let block = found.up(gap);
        let granted = bytes_through::<W>(last);
        // SAFETY: as the caller guarantees: gap, block and rest divide the free block.
        unsafe {
            if gap != 0 {
                self.set_header(found, Header::free(gap));
                memory.store(Self::footer(found, gap), gap);
                I::insert(memory, summary, found, gap, place);
                self.hand_out(summary, block, found_size - gap, granted, I::NOWHERE, true);
            } else {
                core::hint::cold_path();
                self.hand_out(summary, block, found_size, granted, place, false);
            }
        }
        block
    }

    /// Whether a block with this last byte is larger than the heap is planned for.
    #[inline(always)]
    fn is_unplanned(&self, last: usize) -> bool {
        // SAFETY: `init` initialised the front.
        last.wrapping_sub(W::BYTES) >= unsafe { (*self.front()).limit }
    }

    /// Refuses a request at an alignment beyond the granule.
    #[cold]
    #[inline(never)]
    fn refuse_aligned(self, size_bytes: usize, align_bytes: usize) -> PairResult<AllocError> {
        let error = if !align_bytes.is_power_of_two() {
            self.refuse(AllocError::Alignment)
        } else if self.is_unservable(size_bytes) {
            self.refuse_size(size_bytes)
        } else {
            // SAFETY: `init` initialised the front.
            let limit = unsafe { (*self.front()).limit };
            self.refuse(if align_bytes > limit { AllocError::Alignment } else { AllocError::TooLarge })
        };
        Self::last_step(error)
    }

    /// Refuses a request at an alignment beyond the granule for which there is no block.
    #[cold]
    #[inline(never)]
    fn refused_aligned(self, error: AllocError) -> PairResult<AllocError> {
        let error = self.refuse(error);
        Self::last_step(error)
    }

    /// Deallocates.
    ///
    /// ```text
    /// [free 64][live 32][free 96] -> [free 192]
    /// ```
    #[inline(always)]
    fn release(&mut self, address: usize) {
        if let Err(address) = self.try_release(address, false, |_, _| false) {
            self.by_value().report_misuse(address);
        }
    }

    /// Deallocates the block at an address if its tags are those of a live block. If `leaves(start, end)` accepts the
    /// merged free block, it does not enter the index, and its start and size are returned. `is_inside`: the address is
    /// known to lie between the first block and the last sentinel, aligned or not.
    ///
    /// # Errors
    ///
    /// The address, if they are not.
    #[inline(always)]
    fn try_release(
        &mut self,
        address: usize,
        is_inside: bool,
        leaves: impl FnOnce(Offset, Offset) -> bool,
    ) -> Result<Option<(Offset, usize)>, usize> {
        let block = self.placed(address, is_inside).ok_or(address)?;
        // SAFETY: a block can be at the offset.
        unsafe { self.try_release_at(block, leaves) }
    }

    /// See [`try_release`](Self::try_release). On x86-64, each case of the previous and the next block has code of its
    /// own, which tests each header once. Processors with fewer addressing modes need more instructions for that.
    ///
    /// # Errors
    ///
    /// The address of the block.
    ///
    /// # Safety
    ///
    /// [`placed`](Self::placed) returned the offset.
    #[inline(always)]
    unsafe fn try_release_at(
        &mut self,
        block: Offset,
        leaves: impl FnOnce(Offset, Offset) -> bool,
    ) -> Result<Option<(Offset, usize)>, usize> {
        let memory = self.memory();
        let misuse = |block: Offset| Err(memory.address(block));
        // SAFETY: the word before the block is the heap's. Nothing is written before all tags were checked, and then
        // they are those of a live block and its neighbours.
        unsafe {
            let mut summary = I::load(memory);
            let tag = self.header(block).live_tag();
            let (size, start, end, mut place);
            if !cfg!(target_arch = "x86_64") {
                size = tag.size();
                let is_exact = G::IS_FULL || G::SETS_ASIDE;
                if G::CHECKS_NEIGHBOURS && size == 0
                    || is_exact && tag.live_size::<G>(tag.is_prev_free()).is_none()
                    || Self::IS_OWN_TAG && !tag.is_live()
                {
                    return misuse(block);
                }
                let Some((next, next_header)) = self.next_to(block, size) else { return misuse(block) };
                if !next_header.is_after_live() || !self.is_sound_next(next, next_header) {
                    return misuse(block);
                }
                place = I::NOWHERE;
                let (mut from, mut to) = (block, next);
                // With few checks, the header is still in a register.
                let header = if Self::IS_OWN_TAG { self.header(block) } else { self.reload_header(block) };
                if header.is_prev_free() {
                    from = self.free_prev(block)?;
                    place = I::remove(memory, &mut summary, from);
                    if Self::CLEARS_HEADERS {
                        self.set_header(block, Header::free(0));
                    }
                } else {
                    core::hint::cold_path();
                }
                if !next_header.is_live() {
                    place = I::first_of(place, I::remove(memory, &mut summary, next));
                    to = next.up(next_header.free_size());
                } else {
                    core::hint::cold_path();
                    self.set_flag(next, next_header.with_prev_flipped());
                }
                (start, end) = (from, to);
            } else if let Some(of_tag) = tag.live_size::<G>(true) {
                size = of_tag;
                let Some((next, next_header)) = self.next_to(block, size) else { return misuse(block) };
                if next_header.is_free() {
                    if !self.is_sound_next(next, next_header) {
                        return misuse(block);
                    }
                    start = self.free_prev(block)?;
                    let place_of_prev = I::remove(memory, &mut summary, start);
                    place = I::first_of(place_of_prev, I::remove(memory, &mut summary, next));
                    end = next.up(next_header.free_size());
                } else {
                    core::hint::cold_path();
                    if !next_header.follows_live() || !self.is_sound_next(next, next_header) {
                        return misuse(block);
                    }
                    start = self.free_prev(block)?;
                    place = I::remove(memory, &mut summary, start);
                    self.set_flag(next, next_header.with_prev_flipped());
                    end = next;
                }
                if Self::CLEARS_HEADERS {
                    self.set_header(block, Header::free(0));
                }
            } else {
                core::hint::cold_path();
                let is_size = |size: &usize| !G::CHECKS_NEIGHBOURS || *size != 0;
                let Some(of_tag) = tag.live_size::<G>(false).filter(is_size) else { return misuse(block) };
                size = of_tag;
                let Some((next, next_header)) = self.next_to(block, size) else { return misuse(block) };
                start = block;
                if next_header.is_free() {
                    if !self.is_sound_next(next, next_header) {
                        return misuse(block);
                    }
                    place = I::remove(memory, &mut summary, next);
                    end = next.up(next_header.free_size());
                } else {
                    if !next_header.follows_live() || !self.is_sound_next(next, next_header) {
                        return misuse(block);
                    }
                    self.set_flag(next, next_header.with_prev_flipped());
                    (end, place) = (next, I::NOWHERE);
                }
            }
            (*self.front()).stats.block_freed(size, W::BYTES);
            // Also what leaves is tagged: tags of a live block would remain in it.
            let whole = end.bytes_from(start);
            self.set_tags(start, end, whole);
            if leaves(start, end) {
                core::hint::cold_path();
                I::store(memory, summary);
                return Ok(Some((start, whole)));
            }
            I::insert(memory, &mut summary, start, whole, place);
            I::store(memory, summary);
            Ok(None)
        }
    }

    /// Tags the memory from `block` to `end`, `size` bytes, as one free block and adds it to the index.
    ///
    /// # Safety
    ///
    /// The memory belongs to the heap, lies between two live blocks (or a region's end), and the next header has
    /// PREV_FREE set. The summary is loaded.
    #[inline(always)]
    unsafe fn make_free(&mut self, summary: &mut I::Summary, block: Offset, end: Offset, size: usize, place: I::Place) {
        // SAFETY: the memory belongs to the heap and lies between two live blocks or a region's ends, in no list.
        unsafe {
            self.set_tags(block, end, size);
            I::insert(self.memory(), summary, block, size, place);
        }
    }

    /// Tags the memory from `block` to `end`, `size` bytes, as one free block.
    ///
    /// # Safety
    ///
    /// The memory belongs to the heap.
    #[inline(always)]
    unsafe fn set_tags(&mut self, block: Offset, end: Offset, size: usize) {
        // SAFETY: the header and the footer of the memory are the heap's.
        unsafe {
            self.set_header(block, Header::free(size));
            self.memory().store(end.down(2 * W::BYTES), size);
        }
    }
}

// SAFETY: the index returns a free block only once until it is inserted again. Splitting and coalescing keep blocks
// disjoint and out of the control structure, as `check` verifies.
unsafe impl<'r, I: Named<W>, W: Width, T: StatsPolicy, G: Validation> crate::contract::RegionAllocator<'r>
    for TagHeap<'r, I, W, T, G>
{
    type Config = TagConfig;

    const CONTRACT: Contract = Contract {
        min_block_bytes: I::MIN_BLOCK,
        splitting_threshold_bytes: I::MIN_REST - W::GRANULE,
        detects_double_free: G::IS_CHECKED,
        detects_stale_pointers: Self::CLEARS_HEADERS,
        detects_overwritten_tags: G::IS_FULL,
        ..I::CONTRACT
    };

    fn new(region: &'r mut [MaybeUninit<u8>], config: TagConfig) -> Result<Self, InitError> {
        Self::init(region, config)
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if align_bytes > W::GRANULE {
            // It refuses what is not a power of two.
            return self.by_value().serve_aligned(size_bytes, align_bytes).into();
        }
        if !align_bytes.is_power_of_two() {
            return self.refuse_last(AllocError::Alignment);
        }
        self.by_value().serve_at_granule(size_bytes)
    }

    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.by_value().serve(layout.size(), layout.align())
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        self.by_value().release(block.addr().get());
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees that `block` came from this heap, as `resize` requires.
        unsafe { self.resize(block, size_bytes, align_bytes) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is live, so it has a header.
        let header = unsafe { self.watched_header(self.memory().offset(block.addr().get())) };
        // Wrapping, for adapters that call this before the tags are checked: an invalid pointer yields any result.
        header.live_tag().size().wrapping_sub(W::BYTES)
    }

    fn largest_allocatable(&self) -> usize {
        // SAFETY: `init` initialised the index.
        unsafe { I::largest(self.memory()) }.saturating_sub(W::BYTES)
    }

    fn stats(&self) -> Option<Stats> {
        // SAFETY: `init` initialised the front.
        let stats = unsafe { (*self.front()).stats.block_stats(W::BYTES, self.largest_allocatable()) }?;
        Some(Stats {
            high_water_bytes: stats.high_water_bytes.saturating_sub(self.first_region_block().bytes()),
            ..stats
        })
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

// SAFETY: while a block is live, only a flag of its tags changes, by an atomic store. The front is written only when
// regions are added, except for its statistics.
unsafe impl<'r, I: Named<W>, W: Width, T: StatsPolicy + Send, G: Validation> Observable<'r>
    for TagHeap<'r, I, W, T, G>
{
    #[inline(always)]
    unsafe fn looks_live(&self, address: NonNull<u8>) -> bool {
        let block = self.memory().offset(address.addr().get());
        // SAFETY: an aligned address between the first block and the region's end is preceded by memory of the region.
        // `init` initialised the front.
        let (header, span) = unsafe { (self.watched_header(block), (*self.front()).span) };
        let size = header.live_tag().size();
        header.is_live()
            && !header.live_tag().is_aside::<G>()
            && size >= I::MIN_BLOCK
            && block <= span
            && size <= span.bytes_from(block)
    }
}

// SAFETY: a block set aside is live for the heap, whose tags say so; only a flag tells it from others.
unsafe impl<'r, I: Named<W>, W: Width, T: StatsPolicy + Send> SetAside<'r> for TagHeap<'r, I, W, T, BasicSettingAside> {
    #[inline(always)]
    fn granted_bytes(size_bytes: usize) -> usize {
        I::granted(Self::last_byte(size_bytes)) - W::BYTES
    }

    #[inline(always)]
    unsafe fn held_bytes(&self, block: NonNull<u8>, most_bytes: usize, is_inside: bool) -> Option<usize> {
        self.live_block(block.addr().get(), most_bytes + W::BYTES, is_inside).map(|live| live.size - W::BYTES)
    }

    #[inline(always)]
    unsafe fn set_aside(&mut self, block: NonNull<u8>) {
        let block = self.memory().offset(block.addr().get());
        // SAFETY: the caller guarantees a live block, which has a header.
        unsafe { self.set_flag(block, self.header(block).aside()) };
    }

    #[inline(always)]
    unsafe fn take_back(&mut self, block: NonNull<u8>, usable_bytes: usize) -> bool {
        let at = self.memory().offset(block.addr().get());
        // SAFETY: the caller guarantees a block of the heap, which has a header.
        match unsafe { self.header(at) }.taken_back(usable_bytes + W::BYTES) {
            Some(header) => {
                // SAFETY: as above.
                unsafe { self.set_flag(at, header) };
                true
            }
            None => false,
        }
    }

    #[cold]
    fn report_overwritten(&self, block: NonNull<u8>) {
        hook::report(I::CONTRACT.name, MisuseKind::ContradictoryTags, block.addr().get());
    }

    unsafe fn is_aside(&self, address: NonNull<u8>) -> bool {
        let block = self.memory().offset(address.addr().get());
        // SAFETY: the caller guarantees that a word of the heap precedes the address.
        let tag = unsafe { self.header(block) }.live_tag();
        tag.is_live() && tag.is_aside::<BasicSettingAside>()
    }
}

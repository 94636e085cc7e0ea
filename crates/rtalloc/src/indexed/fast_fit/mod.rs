//! Fast-fit: a Cartesian tree finds free blocks by size and coalesces them by address.
//!
//! # Idea
//!
//! The free blocks are the nodes of a Cartesian tree ([`cartesian`](crate::mechanism::tree::cartesian)): ordered by
//! address from left to right, and by size from the root down (Stephenson 1983; Puaut 2002, section 2.3.2). Allocate
//! descends from the root, the largest block, as long as a child is large enough. Deallocate descends by address to the
//! block's place, and passes its free neighbours on the way. There are no boundary tags: no footer, and no flag for the
//! previous block. A live block's header is its size alone, which deallocate by address needs.
//!
//! ```text
//! live  [size|1][payload .....................][size ...
//! free  [size  ][left][right]                  [size ...
//!
//! region: [control][root][first block ...][...][last block]
//! ```
//!
//! [`FastFit`] descends to the smaller of the children that are large enough, *better fit*: an approximation of best
//! fit. [`LeftmostFastFit`] goes left as long as possible, which is address-ordered first-fit without its list.
//!
//! # Coalescing
//!
//! ```text
//! [free 64][live 32][free 96] -> both neighbours leave the tree, deeper one first -> [free 192] enters it
//! ```
//!
//! The search for the neighbours also checks for misuse: a pointer into any free block is detected, however long ago it
//! was freed. An overwritten header is detected unless the new size leads to another header. There is no second copy to
//! compare it with, so the contract promises no detection.
//!
//! # Costs
//!
//! A refusal takes constant time, and so does the largest allocatable size: it is at the root. All other operations
//! walk down paths of the tree: allocate walks one to the block, and continues down to the remainder's place;
//! deallocate walks one by address, and up to three more that remove the neighbours and insert the merged block. The
//! shape of the tree follows from the blocks, so it cannot be balanced. The mean depth is logarithmic if sizes do not
//! depend on addresses; the worst is the number of free blocks, H/2M for blocks of M bytes.
//!
//! Patterns of free blocks, with live ones between them, that degenerate the tree to a path:
//!
//! | pattern | longest path in H bytes |
//! |---|---|
//! | equal sizes, freed in ascending or in descending address order: of equal blocks, the one freed later goes below | H/2M: every free block |
//! | sizes that ascend or descend with the address, freed in any order | sqrt(2·H/g), as in [tree best-fit](super::tree_best_fit) |
//! | sizes that fall towards one address from both sides | the same, in a zigzag |
//!
//! With the first pattern, a request for less than that size walks the whole path with better fit (and with leftmost
//! fit if the blocks were freed in descending order), and so does freeing a block after the path's end. Checking a heap
//! walks the path to every free block.
//!
//! | | table 1 | [`Offset32`] | [`Offset16`](crate::mechanism::word::Offset16) | [`Wide`](crate::mechanism::word::Wide), 64-bit |
//! |---|---|---|---|---|
//! | minimum | 12 B | 12 B, in whole granules of 16 B: 16 B | 6 B: 8 B | 24 B: 32 B |
//! | splitting threshold | 12 B | remainders from 16 B on | from 8 B on | from 32 B on |
//!
//! # When it wins, when it loses
//!
//! Its smallest block is the smallest of the allocators that coalesce immediately, and it detects misuse best. It loses
//! where time must be bounded: both operations are linear, and programs do produce the worst pattern, blocks of one
//! size freed in order.
//!
//! # Figures
//!
//! <!-- figures: fast-fit fast-fit-leftmost -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `fast-fit` | 69 + 42 per free block, 164 + 78 per free block, 187 + 76 per free block | 4 B | 16 B | 28 B, 28 B | 8.3 %, 22.2 % |
//! | `fast-fit-leftmost` | 56 + 26 per free block, 151 + 62 per free block, 187 + 76 per free block | 4 B | 16 B | 28 B, 28 B | 11.4 %, 22.0 % |
//!
//! Measured 2026-11-26 at 0d75829 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

#[cfg(test)]
mod white_box;

use crate::contract::{AllocError, Block, Coalescing, Contract, Corruption, Cost, Mechanism, MisuseKind};
use crate::mechanism::boundary_tag::free_size;
use crate::mechanism::free_list::NULL;
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::policy_heap::{Policy, PolicyHeap, Served};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::stats::NoStats;
use crate::mechanism::tree::cartesian::{BetterFit, Cartesian, CartesianFit, LeftmostFit, Neighbours};
use crate::mechanism::word::{Offset32, Width};
use crate::region::{room_behind, round_up};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Header flag: the block is live.
const LIVE: usize = 1;

/// Fast-fit with better fit.
pub type FastFit<'r, W = Offset32, T = NoStats> = PolicyHeap<'r, Fast<BetterFit, W>, T>;

/// Fast-fit with leftmost fit.
pub type LeftmostFastFit<'r, W = Offset32, T = NoStats> = PolicyHeap<'r, Fast<LeftmostFit, W>, T>;

/// The policy of a [`FastFit`] heap: the fit `F`, and the width `W` of headers and links.
#[derive(Debug)]
pub struct Fast<F, W> {
    /// Offsets count from one granule before the first block.
    memory: Memory<W>,
    /// Offset of a block after the last one. Blocks tile the memory from the first block to here.
    end: Offset,
    kind: PhantomData<F>,
}

impl<F, W> Sealed for Fast<F, W> {}

/// A live block whose header was checked, and the free blocks around it.
#[derive(Clone, Copy)]
struct Located {
    block: Offset,
    size: usize,
    free: Neighbours,
    /// Whether the free blocks before and after it are adjacent to it.
    joins_before: bool,
    joins_after: bool,
}

impl<F: CartesianFit, W: Width> Fast<F, W> {
    /// Offset of the first block.
    const FIRST: Offset = Offset::new(W::GRANULE);
    /// A header and two links, in whole granules.
    const MIN_BLOCK: usize = (3 * W::BYTES).next_multiple_of(W::GRANULE);

    /// The base in a room from `start` on: the root's link and the first header precede the first block.
    fn base(start: usize) -> Option<usize> {
        Some(round_up(start.checked_add(2 * W::BYTES)?, W::GRANULE)? - W::GRANULE)
    }

    /// Bytes of all blocks together.
    #[inline(always)]
    fn room_bytes(&self) -> usize {
        self.end.bytes_from(Self::FIRST)
    }

    /// The tree of free blocks.
    #[inline(always)]
    fn tree(&self) -> Cartesian<W> {
        Cartesian::new(self.memory)
    }

    /// Reads a header.
    ///
    /// # Safety
    ///
    /// `block` is a multiple of the granule within the range of the blocks.
    #[inline(always)]
    unsafe fn header(&self, block: Offset) -> usize {
        // SAFETY: `block` is aligned and within the range of the blocks, so a word of the heap precedes it.
        unsafe { self.memory.load(block.down(W::BYTES)) }
    }

    /// Writes a header.
    ///
    /// # Safety
    ///
    /// As [`header`](Self::header), and no live block covers the word.
    #[inline(always)]
    unsafe fn set_header(&mut self, block: Offset, header: usize) {
        // SAFETY: a word of the heap precedes `block`, and no live block covers it.
        unsafe { self.memory.store(block.down(W::BYTES), header) }
    }

    /// Bytes of the block for a request of `size_bytes`, which is at most the limit.
    #[inline(always)]
    fn block_for(size_bytes: usize) -> usize {
        let need = (size_bytes + W::BYTES + W::GRANULE - 1) & !(W::GRANULE - 1);
        if Self::MIN_BLOCK > W::GRANULE { need.max(Self::MIN_BLOCK) } else { need }
    }

    /// Whether a block can have this size: a multiple of the granule, not too small, no larger than the heap.
    #[inline(always)]
    fn is_size(&self, size: usize) -> bool {
        size & (W::GRANULE - 1) == 0 && size >= Self::MIN_BLOCK && size <= self.room_bytes()
    }

    /// Whether a live block can begin here, or the blocks end here.
    ///
    /// # Safety
    ///
    /// `place` is a multiple of the granule within the range of the blocks, or their end.
    #[inline(always)]
    unsafe fn is_live_or_end(&self, place: Offset) -> bool {
        // SAFETY: `place` is not the end, so it is within the range of the blocks and has a header.
        place == self.end || self.is_size(unsafe { self.header(place) }.wrapping_sub(LIVE))
    }

    /// The live block at an address, and the free blocks around it.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run.
    #[inline(always)]
    unsafe fn locate(&self, address: usize) -> Result<Located, MisuseKind> {
        let block = self.memory.offset(address);
        if !block.is_aligned(W::GRANULE) || block.bytes_from(Self::FIRST) >= self.room_bytes() {
            return Err(MisuseKind::ForeignPointer);
        }
        // SAFETY: the offset is aligned and within the range of the blocks. `neighbours` follows only verified nodes,
        // and headers are read only within the heap.
        unsafe {
            let free = self.tree().neighbours(block, self.end, |size| self.is_size(size));
            let free = free.ok_or(MisuseKind::ContradictoryTags)?;
            let before_end =
                if free.before == NULL { Self::FIRST } else { free.before.up(free_size(self.memory, free.before)) };
            let header = self.header(block);
            if before_end > block || free.after == block || header & LIVE == 0 {
                return Err(MisuseKind::DoubleFree);
            }
            let size = header - LIVE;
            if !self.is_size(size) || size > free.after.bytes_from(block) {
                return Err(MisuseKind::ContradictoryTags);
            }
            let next = block.up(size);
            let joins_after = next == free.after && next != self.end;
            let far_end = if joins_after { next.up(free_size(self.memory, next)) } else { next };
            if far_end > self.end || !self.is_live_or_end(far_end) {
                return Err(MisuseKind::ContradictoryTags);
            }
            let joins_before = free.before != NULL && before_end == block;
            Ok(Located { block, size, free, joins_before, joins_after })
        }
    }

    /// Makes memory one free block and inserts it into the tree.
    ///
    /// # Safety
    ///
    /// The memory is the heap's, at least a smallest block, in no other block, and lies between live blocks.
    #[inline(always)]
    unsafe fn add(&mut self, block: Offset, size: usize) {
        // SAFETY: the memory is a free block of the heap that is not in the tree.
        unsafe {
            self.set_header(block, size);
            self.tree().insert(block, size);
        }
    }

    /// Takes a block at an alignment beyond the granule: finds one with room to shift the payload; the gap stays free.
    ///
    /// ```text
    /// [free 160] -> [free gap 48][live 64, payload aligned][free 48]
    /// ```
    ///
    /// # Safety
    ///
    /// As [`Policy::take`].
    #[inline(never)]
    unsafe fn take_aligned(&mut self, need: usize, align_bytes: usize) -> Result<Served, AllocError> {
        // The largest gap: a gap one granule too small for a block grows by one alignment.
        let most_gap = match Self::MIN_BLOCK > W::GRANULE {
            true => align_bytes + (Self::MIN_BLOCK - W::GRANULE),
            false => align_bytes - W::GRANULE,
        };
        if need + most_gap > self.room_bytes() {
            return Err(AllocError::TooLarge);
        }
        // SAFETY: the block found has at least `need + most_gap` bytes, which gap, block and rest divide.
        unsafe {
            let link = self.tree().choose::<F>(need + most_gap).ok_or(AllocError::Exhausted)?;
            let found = self.tree().load(link);
            let found_size = free_size(self.memory, found);
            let mut gap = self.memory.address(found).wrapping_neg() & (align_bytes - 1);
            if gap != 0 && gap < Self::MIN_BLOCK {
                gap += align_bytes;
            }
            self.tree().remove(link);
            let block = found.up(gap);
            let mut size = found_size - gap;
            if gap != 0 {
                self.add(found, gap);
            }
            if size - need >= Self::MIN_BLOCK {
                self.add(block.up(need), size - need);
                size = need;
            }
            self.set_header(block, size + LIVE);
            Ok(Served { address: self.memory.address(block), usable_bytes: size - W::BYTES })
        }
    }
}

// SAFETY: blocks tile the room; the tree holds each free block once, and a block that is allocated leaves it.
unsafe impl<F: CartesianFit, W: Width> Policy for Fast<F, W> {
    type Config = ();

    const CONTRACT: Contract = Contract {
        name: "fast-fit",
        source: "Stephenson 1983; Puaut 2002, section 2.3.2",
        policy: F::NAME,
        mechanism: Mechanism::IndexedFit,
        granule_bytes: W::GRANULE,
        header_bytes: W::BYTES,
        alignment_bytes: W::GRANULE,
        min_block_bytes: Self::MIN_BLOCK,
        splitting_threshold_bytes: Self::MIN_BLOCK - W::GRANULE,
        max_span_bytes: W::MAX,
        largest_request_bytes: usize::MAX,
        largest_alignment_bytes: usize::MAX,
        page_bytes: 0,
        coarsest_bytes: 0,
        allocate: Cost::LinearInFreeBlocks,
        deallocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        coalescing: Coalescing::Neighbours,
        grows_in_place: true,
        shrinks_in_place: true,
        detects_double_free: true,
        detects_stale_pointers: true,
        detects_overwritten_tags: false,
        largest_is_exact: true,
        largest_covers_smaller: true,
    };

    fn plan(start: usize, end: usize, (): ()) -> Option<Self> {
        let base = Self::base(start)?;
        let memory = Memory::new(NonNull::new(core::ptr::with_exposed_provenance_mut(base))?);
        let end = Offset::new(end.checked_add(W::BYTES)?.checked_sub(base)? & !(W::GRANULE - 1));
        (end >= Self::FIRST.up(Self::MIN_BLOCK)).then_some(Fast { memory, end, kind: PhantomData })
    }

    fn needed_bytes((): ()) -> usize {
        W::BYTES + 2 * (W::GRANULE - 1) + Self::MIN_BLOCK
    }

    unsafe fn begin(&mut self) {
        // SAFETY: the policy owns the room, including the root's link and the first header.
        unsafe {
            self.tree().store(Cartesian::<W>::ROOT, NULL);
            self.add(Self::FIRST, self.room_bytes());
        }
    }

    #[inline(always)]
    fn limit(&self) -> usize {
        self.room_bytes() - W::BYTES
    }

    #[inline(always)]
    fn origin(&self) -> usize {
        self.memory.address(Self::FIRST).wrapping_sub(W::BYTES)
    }

    /// ```text
    /// [free 96] -> [live 32][free 64]      the rest takes the block's place in the tree, or one below
    /// ```
    #[inline(always)]
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError> {
        let need = Self::block_for(size_bytes);
        // SAFETY: `begin` has run, so the tree is intact; it finds a free block of at least `need` bytes.
        unsafe {
            if align_bytes > W::GRANULE {
                return self.take_aligned(need, align_bytes);
            }
            let link = self.tree().choose::<F>(need).ok_or(AllocError::Exhausted)?;
            let block = self.tree().load(link);
            let mut size = free_size(self.memory, block);
            let (left, right) = self.tree().children(block);
            let rest = size - need;
            if rest >= Self::MIN_BLOCK {
                let remainder = block.up(need);
                self.set_header(remainder, rest);
                self.tree().shrink(link, remainder, rest, left, right);
                size = need;
            } else {
                self.tree().join(link, left, right);
            }
            self.set_header(block, size + LIVE);
            Ok(Served { address: self.memory.address(block), usable_bytes: size - W::BYTES })
        }
    }

    #[inline(always)]
    unsafe fn release(&mut self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: `begin` has run; the tree is unchanged since the neighbours were found.
        unsafe {
            let Located { block, size, free, joins_before, joins_after } = self.locate(address)?;
            let start = if joins_before { free.before } else { block };
            let end = block.up(size + if joins_after { free_size(self.memory, free.after) } else { 0 });
            self.tree().remove_neighbours(free, joins_before, joins_after);
            self.add(start, end.bytes_from(start));
            Ok(size - W::BYTES)
        }
    }

    #[inline]
    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: `begin` has run, which the caller guarantees.
        Ok(unsafe { self.locate(address)? }.size - W::BYTES)
    }

    unsafe fn usable_bytes(&self, address: usize) -> usize {
        // SAFETY: the block is live, so it has a header.
        unsafe { self.header(self.memory.offset(address)) }.wrapping_sub(LIVE + W::BYTES)
    }

    /// ```text
    /// shrink  [live 96][live] -> [live 32][free 64][live]      the tail joins a free next block
    /// grow    [live 32][free 96] -> [live 64][free 64]
    /// ```
    unsafe fn fit_in_place(&mut self, address: usize, usable_bytes: usize, size_bytes: usize) -> Option<usize> {
        // SAFETY: `begin` has run; the block and the free block after it belong to the heap.
        unsafe {
            let Located { block, size, free, joins_after, .. } = self.locate(address).ok()?;
            let next_free = if joins_after { free_size(self.memory, free.after) } else { 0 };
            let need = Self::block_for(size_bytes);
            let rest = (size + next_free).checked_sub(need)?;
            if rest == next_free || (next_free == 0 && rest < Self::MIN_BLOCK) {
                return Some(usable_bytes);
            }
            self.tree().remove_neighbours(free, false, joins_after);
            let mut new_size = size + next_free;
            if rest >= Self::MIN_BLOCK {
                self.add(block.up(need), rest);
                new_size = need;
            }
            self.set_header(block, new_size + LIVE);
            Some(new_size - W::BYTES)
        }
    }

    unsafe fn largest(&self) -> usize {
        // SAFETY: `begin` has run, so the tree is intact.
        unsafe {
            let root = self.tree().load(Cartesian::<W>::ROOT);
            if root == NULL { 0 } else { free_size(self.memory, root) - W::BYTES }
        }
    }

    unsafe fn walk(&self, visit: &mut dyn FnMut(Block)) {
        let mut block = Self::FIRST;
        while block < self.end {
            // SAFETY: `block` is the first block, or the end of the previous one and below the heap's end.
            let header = unsafe { self.header(block) };
            let size_bytes = header & !LIVE;
            visit(Block {
                address: self.memory.address(block),
                front_bytes: W::BYTES,
                size_bytes,
                usable_bytes: size_bytes - W::BYTES,
                free: header & LIVE == 0,
            });
            block = block.up(size_bytes);
        }
    }

    unsafe fn check(&self) -> Result<(), Corruption> {
        if Self::base(room_behind(self)) != Some(self.memory.address(Offset::BASE)) || !self.end.is_aligned(W::GRANULE)
        {
            let address = core::ptr::from_ref(self).addr();
            return Err(Corruption { invariant: "blocks lie where the room begins, in whole granules", address });
        }
        let mut block = Self::FIRST;
        let mut prev_free = false;
        let mut free_blocks = 0;
        // SAFETY: the root's link exists; sizes and the tree's links are followed only within the heap.
        unsafe {
            let mut links = usize::from(self.tree().load(Cartesian::<W>::ROOT) != NULL);
            while block < self.end {
                let broken = |invariant| Err(Corruption { invariant, address: self.memory.address(block) });
                let header = self.header(block);
                let size = header & !LIVE;
                if !self.is_size(size) || size > self.end.bytes_from(block) {
                    return broken("a header has a size, which ends within the heap, and one flag");
                }
                let is_free = header & LIVE == 0;
                if is_free {
                    if prev_free {
                        return broken("free neighbours are one block");
                    }
                    free_blocks += 1;
                    links += self.tree().check_path(block, self.end)?;
                }
                prev_free = is_free;
                block = block.up(size);
            }
            if links != free_blocks {
                let address = self.memory.address(Cartesian::<W>::ROOT.0);
                return Err(Corruption { invariant: "the tree holds exactly the free blocks", address });
            }
        }
        Ok(())
    }

    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: `begin` has run, and every free block is a node.
        unsafe {
            word(self.tree().load(Cartesian::<W>::ROOT).bytes());
            self.walk(&mut |block| {
                word(block.address);
                word(block.size_bytes | usize::from(block.free));
                if block.free {
                    let (left, right) = self.tree().children(self.memory.offset(block.address));
                    word(left.bytes());
                    word(right.bytes());
                }
            });
        }
    }
}

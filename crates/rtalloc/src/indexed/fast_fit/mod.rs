//! Fast-fit: a Cartesian tree finds free blocks by size and coalesces them by address.
//!
//! # Idea
//!
//! The free blocks are the nodes of a Cartesian tree ([`cartesian`](crate::mechanism::tree::cartesian)): from left to
//! right by address, from the root down by size (Stephenson 1983; Puaut 2002, section 2.3.2). A request goes down from the
//! root, the largest block, as long as a child is large enough; a block that is freed goes down by address to where it
//! belongs, and meets its free neighbours on the way. There are no boundary tags: no footer, no flag that tells of the
//! block in front. What stands in front of a live block is its size alone, which is what deallocate by address needs.
//!
//! ```text
//! live  [size|1][payload .....................][size ...
//! free  [size  ][left][right]                  [size ...
//!
//! region: [control][root][first block ...][...][last block]
//! ```
//!
//! [`FastFit`] goes to the smaller of the children that are large enough, *better fit*: an approximation of best fit.
//! [`LeftmostFastFit`] goes left as long as it can, which is address-ordered first-fit without its list.
//!
//! # Coalescing
//!
//! ```text
//! [free 64][live 32][free 96] -> both neighbours leave the tree, deeper one first -> [free 192] enters it
//! ```
//!
//! The search for the neighbours is also the test for misuse: a pointer into any free block is found out, however long
//! ago it was freed. What was written over a header is seen unless the size leads to another header: there is no second
//! copy to compare it with, so that the contract promises nothing.
//!
//! # Costs
//!
//! A refusal takes constant time, and so does the largest allocatable size: the root has it. Everything else walks down paths
//! of the tree: allocate one to the block, and from there down to where the remainder belongs; deallocate one by address and
//! up to three more that take the neighbours out and put the whole in. The shape of the tree follows from the blocks, so
//! that nothing can balance it: the mean depth is logarithmic where sizes do not depend on addresses, and the worst is
//! the number of free blocks, H/2M for blocks of M bytes.
//!
//! Patterns of free blocks, with live ones between them, that make the tree a path:
//!
//! | pattern | longest path in H bytes |
//! |---|---|
//! | equal sizes, freed in the order of their addresses, or against it: of equals, the one freed later goes below | H/2M: every free block |
//! | sizes that rise with the address, or fall, whatever the order they were freed in | sqrt(2·H/g), as in [tree best-fit](super::tree_best_fit) |
//! | sizes that fall towards one address from both sides | the same, in a zigzag |
//!
//! On the first of them a request for less than that size walks the whole path with better fit (and with leftmost fit if
//! they were freed against the order of their addresses), and freeing a block behind the path's end walks it too. Checking a
//! heap visits the path to every free block.
//!
//! | | table 1 | [`Offset32`] | [`Offset16`](crate::mechanism::word::Offset16) | [`Wide`](crate::mechanism::word::Wide), 64-bit |
//! |---|---|---|---|---|
//! | minimum | 12 B | 12 B, in whole granules of 16 B: 16 B | 6 B: 8 B | 24 B: 32 B |
//! | splitting threshold | 12 B | remainders from 16 B on | from 8 B on | from 32 B on |
//!
//! # When it wins, when it loses
//!
//! Its smallest block is the smallest of the allocators that coalesce at once, and misuse is detected best. It loses where
//! time is to be bounded: both operations are linear, and the pattern that makes them so, blocks of one size freed in order,
//! is what programs do.
//!
//! # Figures
//!
//! <!-- figures: fast-fit fast-fit-leftmost -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `fast-fit` | 70 + 42 per free block, 159 + 78 per free block, 184 + 75 per free block | 4 B | 16 B | 28 B, 28 B | 10.0 %, 22.2 % |
//! | `fast-fit-leftmost` | 57 + 26 per free block, 146 + 62 per free block, 184 + 75 per free block | 4 B | 16 B | 28 B, 28 B | 13.2 %, 22.0 % |
//! <!-- end of figures -->

#[cfg(test)]
mod white_box;

use crate::contract::{AllocError, Block, Coalescing, Contract, Corruption, Cost, Mechanism, MisuseKind};
use crate::mechanism::boundary_tag::free_size;
use crate::mechanism::free_list::NULL;
use crate::mechanism::memory::Memory;
use crate::mechanism::policy_heap::{Policy, PolicyHeap, Served};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::tally::Untallied;
use crate::mechanism::tree::cartesian::{BetterFit, Cartesian, CartesianFit, LeftmostFit, Neighbours};
use crate::mechanism::word::{Offset32, Width};
use crate::region::{room_behind, round_up};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Header flag: the block is live.
const LIVE: usize = 1;

/// Fast-fit with better fit.
pub type FastFit<'r, W = Offset32, T = Untallied> = PolicyHeap<'r, Fast<BetterFit, W>, T>;

/// Fast-fit with leftmost fit.
pub type LeftmostFastFit<'r, W = Offset32, T = Untallied> = PolicyHeap<'r, Fast<LeftmostFit, W>, T>;

/// The policy of a [`FastFit`] heap: which block serves, and the width of headers and links.
#[derive(Debug)]
pub struct Fast<F, W> {
    /// Offsets count from a granule in front of the first block.
    memory: Memory<W>,
    /// Where a block behind the last one would be. Blocks tile what is between the first and it.
    end: usize,
    kind: PhantomData<F>,
}

impl<F, W> Sealed for Fast<F, W> {}

/// A live block whose header was tested, and what is around it.
#[derive(Clone, Copy)]
struct Located {
    block: usize,
    size: usize,
    free: Neighbours,
    /// Whether the free blocks next to it touch it.
    joins_before: bool,
    joins_behind: bool,
}

impl<F: CartesianFit, W: Width> Fast<F, W> {
    /// Offset of the first block.
    const FIRST: usize = W::GRANULE;
    /// A header and two links, in whole granules.
    const MIN_BLOCK: usize = (3 * W::BYTES).next_multiple_of(W::GRANULE);

    /// The base in a room from `start` on: the root's link and the first header stand in front of the first block.
    fn base(start: usize) -> Option<usize> {
        Some(round_up(start.checked_add(2 * W::BYTES)?, W::GRANULE)? - Self::FIRST)
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
    /// `block` is a multiple of the granule among the blocks.
    #[inline(always)]
    unsafe fn header(&self, block: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.memory.load(block.wrapping_sub(W::BYTES)) }
    }

    /// Writes a header.
    ///
    /// # Safety
    ///
    /// As [`header`](Self::header), and the word is no user's.
    #[inline(always)]
    unsafe fn set_header(&mut self, block: usize, header: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.memory.store(block.wrapping_sub(W::BYTES), header) }
    }

    /// Bytes of the block for a request of `size_bytes`, which is servable.
    #[inline(always)]
    fn block_for(size_bytes: usize) -> usize {
        let need = (size_bytes + W::BYTES + W::GRANULE - 1) & !(W::GRANULE - 1);
        if Self::MIN_BLOCK > W::GRANULE { need.max(Self::MIN_BLOCK) } else { need }
    }

    /// Whether a block could have this size: a multiple of the granule, not too small, no larger than the heap.
    #[inline(always)]
    fn is_size(&self, size: usize) -> bool {
        size & (W::GRANULE - 1) == 0 && size >= Self::MIN_BLOCK && size <= self.end - Self::FIRST
    }

    /// Whether a live block could begin here, or the blocks end.
    ///
    /// # Safety
    ///
    /// `place` is a multiple of the granule among the blocks, or the end.
    #[inline(always)]
    unsafe fn is_live_or_end(&self, place: usize) -> bool {
        // SAFETY: the caller's promise.
        place == self.end || self.is_size(unsafe { self.header(place) }.wrapping_sub(LIVE))
    }

    /// The live block at an address, and the free blocks around it.
    ///
    /// # Safety
    ///
    /// The policy has begun.
    #[inline(always)]
    unsafe fn locate(&self, address: usize) -> Result<Located, MisuseKind> {
        let block = self.memory.offset(address);
        if block & (W::GRANULE - 1) != 0 || block.wrapping_sub(Self::FIRST) >= self.end - Self::FIRST {
            return Err(MisuseKind::ForeignPointer);
        }
        // SAFETY: the offset is one of a block; the tree is looked at as far as it is whole, and headers within the heap.
        unsafe {
            let free = self.tree().neighbours(block, self.end, |size| self.is_size(size));
            let free = free.ok_or(MisuseKind::ContradictoryTags)?;
            let before_end =
                if free.before == NULL { Self::FIRST } else { free.before + free_size(self.memory, free.before) };
            let header = self.header(block);
            if before_end > block || free.behind == block || header & LIVE == 0 {
                return Err(MisuseKind::DoubleFree);
            }
            let size = header - LIVE;
            if !self.is_size(size) || size > free.behind - block {
                return Err(MisuseKind::ContradictoryTags);
            }
            let next = block + size;
            let joins_behind = next == free.behind && next != self.end;
            let far_end = if joins_behind { next + free_size(self.memory, next) } else { next };
            if far_end > self.end || !self.is_live_or_end(far_end) {
                return Err(MisuseKind::ContradictoryTags);
            }
            let joins_before = free.before != NULL && before_end == block;
            Ok(Located { block, size, free, joins_before, joins_behind })
        }
    }

    /// Makes memory one free block and adds it to the tree.
    ///
    /// # Safety
    ///
    /// The memory is the heap's, at least a smallest block, in use by nobody, and lies between live blocks.
    #[inline(always)]
    unsafe fn add(&mut self, block: usize, size: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.set_header(block, size);
            self.tree().insert(block, size);
        }
    }

    /// Takes a block at an alignment beyond the granule: finds one with room to shift the payload, and leaves the gap free.
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
        // The largest gap: one that is a granule short of a block grows by one alignment.
        let most_gap = match Self::MIN_BLOCK > W::GRANULE {
            true => align_bytes + (Self::MIN_BLOCK - W::GRANULE),
            false => align_bytes - W::GRANULE,
        };
        if need + most_gap > self.end - Self::FIRST {
            return Err(AllocError::TooLarge);
        }
        // SAFETY: the block that is found holds gap, block and rest, which divide it.
        unsafe {
            let link = self.tree().choose::<F>(need + most_gap).ok_or(AllocError::Exhausted)?;
            let found = self.tree().load(link);
            let found_size = free_size(self.memory, found);
            let mut gap = self.memory.address(found).wrapping_neg() & (align_bytes - 1);
            if gap != 0 && gap < Self::MIN_BLOCK {
                gap += align_bytes;
            }
            self.tree().remove(link);
            let block = found + gap;
            let mut size = found_size - gap;
            if gap != 0 {
                self.add(found, gap);
            }
            if size - need >= Self::MIN_BLOCK {
                self.add(block + need, size - need);
                size = need;
            }
            self.set_header(block, size + LIVE);
            Ok(Served { address: self.memory.address(block), usable_bytes: size - W::BYTES })
        }
    }
}

// SAFETY: blocks tile the room; the tree holds each free one once, and what is handed out leaves it.
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
        let end = end.checked_add(W::BYTES)?.checked_sub(base)? & !(W::GRANULE - 1);
        (end >= Self::FIRST + Self::MIN_BLOCK).then_some(Fast { memory, end, kind: PhantomData })
    }

    fn needed_bytes((): ()) -> usize {
        W::BYTES + 2 * (W::GRANULE - 1) + Self::MIN_BLOCK
    }

    unsafe fn begin(&mut self) {
        // SAFETY: the room is the policy's, root and first header included.
        unsafe {
            self.memory.store(Cartesian::<W>::ROOT, NULL);
            self.add(Self::FIRST, self.end - Self::FIRST);
        }
    }

    #[inline(always)]
    fn limit(&self) -> usize {
        self.end - Self::FIRST - W::BYTES
    }

    #[inline(always)]
    fn origin(&self) -> usize {
        self.memory.address(Self::FIRST).wrapping_sub(W::BYTES)
    }

    /// ```text
    /// [free 96] -> [live 32][free 64]      what is left takes the block's place in the tree, or one below
    /// ```
    #[inline(always)]
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError> {
        let need = Self::block_for(size_bytes);
        // SAFETY: the tree is whole, and what it finds is a free block of at least `need` bytes.
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
                self.set_header(block + need, rest);
                self.tree().shrink(link, block + need, rest, left, right);
                size = need;
            } else {
                self.tree().join(link, left, right);
            }
            self.set_header(block, size + LIVE);
            Ok(Served { address: self.memory.address(block), usable_bytes: size - W::BYTES })
        }
    }

    #[inline(always)]
    unsafe fn give(&mut self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: the policy has begun; the neighbours were found in the tree as it is.
        unsafe {
            let Located { block, size, free, joins_before, joins_behind } = self.locate(address)?;
            let start = if joins_before { free.before } else { block };
            let end = block + size + if joins_behind { free_size(self.memory, free.behind) } else { 0 };
            self.tree().remove_neighbours(free, joins_before, joins_behind);
            self.add(start, end - start);
            Ok(size - W::BYTES)
        }
    }

    #[inline]
    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: the policy has begun.
        Ok(unsafe { self.locate(address)? }.size - W::BYTES)
    }

    unsafe fn usable_bytes(&self, address: usize) -> usize {
        // SAFETY: the block is live.
        unsafe { self.header(self.memory.offset(address)) }.wrapping_sub(LIVE + W::BYTES)
    }

    /// ```text
    /// shrink  [live 96][live] -> [live 32][free 64][live]      the tail joins a free next block
    /// grow    [live 32][free 96] -> [live 64][free 64]
    /// ```
    unsafe fn fit_in_place(&mut self, address: usize, usable_bytes: usize, size_bytes: usize) -> Option<usize> {
        // SAFETY: the policy has begun; the block and the free one behind it are the heap's.
        unsafe {
            let Located { block, size, free, joins_behind, .. } = self.locate(address).ok()?;
            let next_free = if joins_behind { free_size(self.memory, free.behind) } else { 0 };
            let need = Self::block_for(size_bytes);
            let rest = (size + next_free).checked_sub(need)?;
            if rest == next_free || (next_free == 0 && rest < Self::MIN_BLOCK) {
                return Some(usable_bytes);
            }
            self.tree().remove_neighbours(free, false, joins_behind);
            let mut new_size = size + next_free;
            if rest >= Self::MIN_BLOCK {
                self.add(block + need, rest);
                new_size = need;
            }
            self.set_header(block, new_size + LIVE);
            Some(new_size - W::BYTES)
        }
    }

    unsafe fn largest(&self) -> usize {
        // SAFETY: the tree is whole.
        unsafe {
            let root = self.tree().load(Cartesian::<W>::ROOT);
            if root == NULL { 0 } else { free_size(self.memory, root) - W::BYTES }
        }
    }

    unsafe fn walk(&self, visit: &mut dyn FnMut(Block)) {
        let mut block = Self::FIRST;
        while block < self.end {
            // SAFETY: `block` is a block: the first, or what the one in front of it leads to.
            let header = unsafe { self.header(block) };
            let size_bytes = header & !LIVE;
            visit(Block {
                address: self.memory.address(block),
                front_bytes: W::BYTES,
                size_bytes,
                usable_bytes: size_bytes - W::BYTES,
                free: header & LIVE == 0,
            });
            block += size_bytes;
        }
    }

    unsafe fn check(&self) -> Result<(), Corruption> {
        if Self::base(room_behind(self)) != Some(self.memory.address(0)) || self.end & (W::GRANULE - 1) != 0 {
            let address = core::ptr::from_ref(self).addr();
            return Err(Corruption { invariant: "blocks lie where the room begins, in whole granules", address });
        }
        let mut block = Self::FIRST;
        let mut prev_free = false;
        let mut free_blocks = 0;
        // SAFETY: the root's link exists; sizes are followed only within the heap, and so are the tree's links.
        unsafe {
            let mut links = usize::from(self.tree().load(Cartesian::<W>::ROOT) != NULL);
            while block < self.end {
                let broken = |invariant| Err(Corruption { invariant, address: self.memory.address(block) });
                let header = self.header(block);
                let size = header & !LIVE;
                if !self.is_size(size) || size > self.end - block {
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
                block += size;
            }
            if links != free_blocks {
                let address = self.memory.address(Cartesian::<W>::ROOT);
                return Err(Corruption { invariant: "the tree holds the free blocks and nothing else", address });
            }
        }
        Ok(())
    }

    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: the policy has begun; a free block is a node.
        unsafe {
            word(self.tree().load(Cartesian::<W>::ROOT));
            self.walk(&mut |block| {
                word(block.address);
                word(block.size_bytes | usize::from(block.free));
                if block.free {
                    let (left, right) = self.tree().children(self.memory.offset(block.address));
                    word(left);
                    word(right);
                }
            });
        }
    }
}

//! Doubly linked free lists without special cases, and the index that is one such list.
//!
//! A free block is a *node*: its first word is `prev`, its second `next`. `prev` does not name the predecessor but the
//! node whose `next` leads here, and the head of a list is the `next` of a node too, one that has no block. The list
//! ends at the *null node*, offset 0, whose `prev` may be written but means nothing:
//!
//! ```text
//! head node [....|next] --> block [prev|next] --> block [prev|next] --> null node [prev|....]
//!     ^-------------------------'  ^----------------'  ^------------------'
//! ```
//!
//! So linking and unlinking test for nothing: not for the first block, not for the last.
//!
//! For a heap with a single list the null node's `prev` is the list's last node, kept right by the same writes: that is
//! what makes FIFO order free.

use crate::contract::Corruption;
use crate::mechanism::boundary_tag::{FreeIndex, free_size};
use crate::mechanism::memory::Memory;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::word::Width;
use core::marker::PhantomData;

/// The node that ends a list.
pub const NULL: usize = 0;

/// Offset of a node's `next` word; its `prev` word is at the node's own offset.
#[inline(always)]
pub(crate) fn next_at<W: Width>(node: usize) -> usize {
    node.wrapping_add(W::BYTES)
}

/// Links `block` in behind `node`.
///
/// # Safety
///
/// `block` is free and in no list; `node` is the head of a list or a block in it.
#[inline(always)]
pub(crate) unsafe fn link<W: Width>(memory: Memory<W>, node: usize, block: usize) {
    // SAFETY: the caller's promise; the null node takes the write that has no block to go to.
    unsafe {
        let after = memory.load(next_at::<W>(node));
        memory.store(block, node);
        memory.store(next_at::<W>(block), after);
        memory.store(after, block);
        memory.store(next_at::<W>(node), block);
    }
}

/// [`link`] for a block that is likely to be unlinked again at once: its two links in one store, which a processor can
/// hand on to the [load of both](unlink_or_empty) before it reaches the cache. One instruction more where links are
/// narrower than a word. `node` is told twice, once to be read and written and once to be noted, since what is computed
/// sooner is not what is noted at least cost.
///
/// # Safety
///
/// As [`link`]; the two are one node.
#[inline(always)]
pub(crate) unsafe fn link_in_one<W: Width>(memory: Memory<W>, node: usize, noted: usize, block: usize) {
    // SAFETY: the caller's promise; the null node takes the write that has no block to go to.
    unsafe {
        let after = memory.load(next_at::<W>(node));
        memory.store(after, block);
        W::store_pair(memory, block, noted, after);
        memory.store(next_at::<W>(node), block);
    }
}

/// Takes `block` out of its list; returns the node it stood behind.
///
/// # Safety
///
/// `block` is in a list.
#[inline(always)]
pub(crate) unsafe fn unlink<W: Width>(memory: Memory<W>, block: usize) -> usize {
    // SAFETY: the caller's promise; the null node takes the write that has no block to go to.
    unsafe {
        let node = memory.load(block);
        let after = memory.load(next_at::<W>(block));
        memory.store(next_at::<W>(node), after);
        memory.store(after, node);
        node
    }
}

/// Takes `block` out of its list; if the list is empty now, returns the list's head, which is a node below
/// `first_block`.
///
/// # Safety
///
/// `block` is in a list.
#[inline(always)]
pub(crate) unsafe fn unlink_or_empty<W: Width>(memory: Memory<W>, block: usize, first_block: usize) -> Option<usize> {
    // SAFETY: the caller's promise; the null node takes the write that has no block to go to.
    unsafe {
        let (node, after) = match W::load_pair(memory, block) {
            // `next` is the upper half: one comparison for "no next and behind a head".
            Some(pair) if pair < first_block => {
                memory.store(next_at::<W>(pair), NULL);
                return Some(pair);
            }
            Some(pair) => {
                core::hint::cold_path();
                (W::get(W::put(pair)), pair >> W::BITS)
            }
            None => (memory.load(block), memory.load(next_at::<W>(block))),
        };
        memory.store(next_at::<W>(node), after);
        memory.store(after, node);
        (!W::PAIRS && after == NULL && node < first_block).then_some(node)
    }
}

/// Verifies the list at `head`, following no link that `is_place` does not allow, and calls `visit` with every block of
/// it; returns their number and the last node.
///
/// # Errors
///
/// A link that leads nowhere or not back, or more blocks than `limit` (a cycle).
///
/// # Safety
///
/// `head` is the head of a list, and a block could be wherever `is_place` says so.
pub(crate) unsafe fn check_list<W: Width>(
    memory: Memory<W>,
    head: usize,
    limit: usize,
    is_place: &dyn Fn(usize) -> bool,
    visit: &mut dyn FnMut(usize) -> Result<(), Corruption>,
) -> Result<(usize, usize), Corruption> {
    let mut node = head;
    let mut count = 0;
    loop {
        // SAFETY: `node` is the head or a block that was visited.
        let block = unsafe { memory.load(next_at::<W>(node)) };
        if block == NULL {
            return Ok((count, node));
        }
        if !is_place(block) {
            let invariant = "a free list's links lead to blocks";
            return Err(Corruption { invariant, address: memory.address(node) });
        }
        // SAFETY: a block could be there, so its first word is the heap's to read.
        if unsafe { memory.load(block) } != node {
            return Err(Corruption {
                invariant: "a free block's prev is the node that leads to it",
                address: memory.address(block),
            });
        }
        count += 1;
        if count > limit {
            return Err(Corruption {
                invariant: "a free list holds each free block once",
                address: memory.address(head),
            });
        }
        visit(block)?;
        node = block;
    }
}

/// Where a block that becomes free goes in the list.
pub trait Order: Sealed + Copy + core::fmt::Debug + 'static {
    /// The order in words.
    const NAME: &'static str;
    /// Whether links ascend.
    const ASCENDS: bool = false;

    /// The node behind which `block` belongs in the list at `head`; `place` is the node behind which a block that it
    /// swallowed stood, or `usize::MAX`.
    ///
    /// # Safety
    ///
    /// `head` is the heap's only list, `place` a node of it.
    unsafe fn node<W: Width>(memory: Memory<W>, head: usize, place: usize, block: usize) -> usize;
}

/// No node.
pub(crate) const NO_PLACE: usize = usize::MAX;

/// Last in, first out: at the head.
#[derive(Clone, Copy, Debug)]
pub struct Lifo;

impl Sealed for Lifo {}

impl Order for Lifo {
    const NAME: &'static str = "LIFO";

    #[inline(always)]
    unsafe fn node<W: Width>(_: Memory<W>, head: usize, _: usize, _: usize) -> usize {
        head
    }
}

/// First in, first out: behind the last node, which the null node knows.
#[derive(Clone, Copy, Debug)]
pub struct Fifo;

impl Sealed for Fifo {}

impl Order for Fifo {
    const NAME: &'static str = "FIFO";

    #[inline(always)]
    unsafe fn node<W: Width>(memory: Memory<W>, _: usize, _: usize, _: usize) -> usize {
        // SAFETY: the null node is initialised, and with a single list its prev is that list's last node.
        unsafe { memory.load(NULL) }
    }
}

/// By address: where a swallowed neighbour stood, else by search.
#[derive(Clone, Copy, Debug)]
pub struct AddressOrder;

impl Sealed for AddressOrder {}

impl Order for AddressOrder {
    const NAME: &'static str = "address order";
    const ASCENDS: bool = true;

    #[inline(always)]
    unsafe fn node<W: Width>(memory: Memory<W>, head: usize, place: usize, block: usize) -> usize {
        if place != NO_PLACE {
            return place;
        }
        let mut node = head;
        // turns: free blocks
        loop {
            // SAFETY: `node` is the head or a block in the list.
            let next = unsafe { memory.load(next_at::<W>(node)) };
            if next == NULL || next > block {
                return node;
            }
            node = next;
        }
    }
}

/// Which block of the list serves a request.
pub trait Fit: Sealed + Copy + core::fmt::Debug + 'static {
    /// The policy in words.
    const NAME: &'static str;

    /// Whether searches begin where the last one ended: at the rover, a word behind the head.
    const ROVES: bool = false;

    /// The block that serves `need` bytes, or [`NULL`].
    ///
    /// # Safety
    ///
    /// `head` is a list of the heap.
    unsafe fn choose<W: Width>(memory: Memory<W>, head: usize, need: usize) -> usize;
}

/// The first block that is large enough.
#[derive(Clone, Copy, Debug)]
pub struct First;

impl Sealed for First {}

impl Fit for First {
    const NAME: &'static str = "first fit";

    #[inline(always)]
    unsafe fn choose<W: Width>(memory: Memory<W>, head: usize, need: usize) -> usize {
        // SAFETY: links lead to free blocks.
        unsafe {
            let mut block = memory.load(next_at::<W>(head));
            // turns: free blocks
            while block != NULL && free_size(memory, block) < need {
                block = memory.load(next_at::<W>(block));
            }
            block
        }
    }
}

/// The smallest block that is large enough; the first of equals.
#[derive(Clone, Copy, Debug)]
pub struct Best;

impl Sealed for Best {}

impl Fit for Best {
    const NAME: &'static str = "best fit";

    #[inline(always)]
    unsafe fn choose<W: Width>(memory: Memory<W>, head: usize, need: usize) -> usize {
        // SAFETY: links lead to free blocks.
        unsafe {
            let mut best = NULL;
            let mut best_size = usize::MAX;
            let mut block = memory.load(next_at::<W>(head));
            // turns: free blocks
            while block != NULL {
                let size = free_size(memory, block);
                if size >= need && size < best_size {
                    best = block;
                    best_size = size;
                    if size == need {
                        break;
                    }
                }
                block = memory.load(next_at::<W>(block));
            }
            best
        }
    }
}

/// Offset of the word that holds the *rover*, for a list at `head` that has one: the node behind which the next search
/// begins.
#[inline(always)]
pub(crate) fn rover_at<W: Width>(head: usize) -> usize {
    head.wrapping_add(2 * W::BYTES)
}

/// The first block that is large enough from where the last search succeeded, around the list.
///
/// The rover is the node *in front of* the block that was found. So the search begins at what is left of that block, or
/// at what followed it; and when the rover is taken out of the list, the node in front of it takes over, so that what a
/// block becomes when it coalesces is searched where the block would have been.
///
/// ```text
/// request 100:  head -> [32] -> [64] -> [400] -> [128] -> head
///                                ^ rover         then: [32] -> [64] -> [300] -> [128]
///                                                               ^ rover
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Next;

impl Sealed for Next {}

impl Fit for Next {
    const NAME: &'static str = "next fit";
    const ROVES: bool = true;

    #[inline(always)]
    unsafe fn choose<W: Width>(memory: Memory<W>, head: usize, need: usize) -> usize {
        // SAFETY: the rover is the head or a block of the list, links lead to free blocks, and the last one's to the head,
        // which has a header of size zero: no request is served with it.
        unsafe {
            let rover = memory.load(rover_at::<W>(head));
            let mut node = rover;
            // turns: free blocks
            loop {
                let block = memory.load(next_at::<W>(node));
                if free_size(memory, block) >= need {
                    memory.store(rover_at::<W>(head), node);
                    return block;
                }
                if block == rover {
                    return NULL;
                }
                node = block;
            }
        }
    }
}

/// The index that is one list: sequential fits.
#[derive(Clone, Copy, Debug)]
pub struct OneList<F, O>(PhantomData<(F, O)>);

/// The one list's head: the null node serves as both ends.
const HEAD: usize = NULL;

// SAFETY: `choose` returns a block of the list that holds `need` bytes, `insert` links exactly the block it is given
// and `remove` unlinks it; nothing else touches the list.
unsafe impl<F: Fit, O: Order, W: Width> FreeIndex<W> for OneList<F, O> {
    type Place = usize;
    const NOWHERE: usize = NO_PLACE;

    fn bytes_below() -> usize {
        0
    }

    fn bytes_above(_: usize) -> usize {
        if F::ROVES { 3 * W::BYTES } else { 2 * W::BYTES }
    }

    unsafe fn init(memory: Memory<W>, _: usize) {
        // SAFETY: the control structure is the index's to initialise.
        unsafe {
            memory.store(HEAD, HEAD);
            memory.store(next_at::<W>(HEAD), NULL);
            if F::ROVES {
                memory.store(rover_at::<W>(HEAD), HEAD);
            }
        }
    }

    fn granted(need: usize) -> usize {
        need
    }

    #[inline(always)]
    unsafe fn take(memory: Memory<W>, need: usize) -> Option<(usize, usize, usize)> {
        // SAFETY: the head is initialised and all links are the list's own.
        unsafe {
            let block = F::choose(memory, HEAD, need);
            if block == NULL {
                return None;
            }
            Some((block, need, unlink(memory, block)))
        }
    }

    #[inline(always)]
    unsafe fn insert(memory: Memory<W>, block: usize, _: usize, place: usize) {
        // SAFETY: the block is free and in no list by the caller's promise; `node` returns a node of the list.
        unsafe { link(memory, O::node(memory, HEAD, place, block), block) }
    }

    #[inline(always)]
    unsafe fn remove(memory: Memory<W>, block: usize) -> usize {
        // SAFETY: the block is in the list by the caller's promise.
        unsafe {
            let node = unlink(memory, block);
            if F::ROVES && memory.load(rover_at::<W>(HEAD)) == block {
                memory.store(rover_at::<W>(HEAD), node);
            }
            node
        }
    }

    #[inline(always)]
    fn first_of(first: usize, second: usize) -> usize {
        if first == NO_PLACE { second } else { first }
    }

    unsafe fn largest(memory: Memory<W>) -> usize {
        let mut largest = 0;
        // SAFETY: links lead to free blocks.
        unsafe {
            let mut block = memory.load(next_at::<W>(HEAD));
            while block != NULL {
                largest = largest.max(free_size(memory, block));
                block = memory.load(next_at::<W>(block));
            }
        }
        largest
    }

    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, usize)) {
        // SAFETY: links lead to free blocks.
        unsafe {
            let mut block = memory.load(next_at::<W>(HEAD));
            while block != NULL {
                visit(0, block);
                block = memory.load(next_at::<W>(block));
            }
            if F::ROVES {
                visit(1, memory.load(rover_at::<W>(HEAD)));
            }
        }
    }

    unsafe fn check(
        memory: Memory<W>,
        free_blocks: usize,
        _: usize,
        is_place: &dyn Fn(usize) -> bool,
    ) -> Result<usize, Corruption> {
        // SAFETY: a list that is searched from a rover has one.
        let rover = if F::ROVES { unsafe { memory.load(rover_at::<W>(HEAD)) } } else { HEAD };
        let mut is_rover_found = rover == HEAD;
        let mut before = 0;
        let mut in_order = |block: usize| {
            is_rover_found |= block == rover;
            if O::ASCENDS && block < before {
                let invariant = "an address-ordered list ascends";
                return Err(Corruption { invariant, address: memory.address(block) });
            }
            before = block;
            Ok(())
        };
        // SAFETY: the head is the heap's own list, and the null node its own word.
        unsafe {
            let (count, last) = check_list(memory, HEAD, free_blocks, is_place, &mut in_order)?;
            if memory.load(NULL) != last {
                let invariant = "the null node knows the end of the only list";
                return Err(Corruption { invariant, address: memory.address(NULL) });
            }
            if !is_rover_found {
                let invariant = "the rover is a node of the list";
                return Err(Corruption { invariant, address: memory.address(rover_at::<W>(HEAD)) });
            }
            Ok(count)
        }
    }
}

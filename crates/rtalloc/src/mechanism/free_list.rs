//! Doubly linked free lists without special cases, and the index made of a single list.
//!
//! A free block is a *node*: its first word is `prev`, its second `next`. `prev` is the node whose `next` leads here.
//! The head of a list is such a node too, although it has no block: only its `next` word is used. The list ends at the
//! *null node*, offset 0, whose `prev` may be written and is ignored:
//!
//! ```text
//! head node [....|next] --> block [prev|next] --> block [prev|next] --> null node [prev|....]
//!     ^-------------------------'  ^----------------'  ^------------------'
//! ```
//!
//! So linking and unlinking need no tests for the first or the last block.
//!
//! In a heap with a single list, the same writes make the null node's `prev` the last node of the list. FIFO order
//! therefore costs nothing.

use crate::contract::{Corruption, LoopBound, loop_bound};
use crate::mechanism::boundary_tag::{FreeIndex, bytes_through, free_size};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::word::Width;
use core::marker::PhantomData;

/// The node that ends a list.
pub const NULL: Offset = Offset::BASE;

/// Offset of a node's `next` word; its `prev` word is at the node's own offset.
#[inline(always)]
pub(crate) fn next_at<W: Width>(node: Offset) -> Offset {
    node.up(W::BYTES)
}

/// Links `block` in after `node`.
///
/// # Safety
///
/// `block` is free and in no list; `node` is the head of a list or a block in it.
#[inline(always)]
pub(crate) unsafe fn link<W: Width>(memory: Memory<W>, node: Offset, block: Offset) {
    // SAFETY: `node` and the node after it are nodes of the list, and `block` is free, so their links are the heap's.
    // At the end of the list, the null node takes the write to `prev`.
    unsafe {
        let after = memory.load_link(next_at::<W>(node));
        memory.store_link(block, node);
        memory.store_link(next_at::<W>(block), after);
        memory.store_link(after, block);
        memory.store_link(next_at::<W>(node), block);
    }
}

/// Takes `block` out of its list; returns its predecessor.
///
/// # Safety
///
/// `block` is in a list.
#[inline(always)]
pub(crate) unsafe fn unlink<W: Width>(memory: Memory<W>, block: Offset) -> Offset {
    // SAFETY: `block` is in a list, so its links lead to its neighbours there. If it is the last, the null node takes
    // the write to `prev`.
    unsafe {
        let node = memory.load_link(block);
        let after = memory.load_link(next_at::<W>(block));
        memory.store_link(next_at::<W>(node), after);
        memory.store_link(after, node);
        node
    }
}

/// Takes `block` out of its list. If the list is now empty, returns its head, which is a node below `first_block`.
///
/// # Safety
///
/// `block` is in a list.
#[inline(always)]
pub(crate) unsafe fn unlink_or_empty<W: Width>(
    memory: Memory<W>,
    block: Offset,
    first_block: Offset,
) -> Option<Offset> {
    // SAFETY: `block` is in a list, so its links lead to its neighbours there. If it is the last, the null node takes
    // the write to `prev`.
    unsafe {
        let (node, after) = match W::load_pair(memory, block) {
            // `next` is the upper half: one comparison for "no next, and prev is a head".
            Some(pair) if pair < first_block.bytes() => {
                let head = Offset::new(pair);
                memory.store_link(next_at::<W>(head), NULL);
                return Some(head);
            }
            Some(pair) => {
                core::hint::cold_path();
                (Offset::new(W::get(W::put(pair))), Offset::new(pair >> W::BITS))
            }
            None => (memory.load_link(block), memory.load_link(next_at::<W>(block))),
        };
        memory.store_link(next_at::<W>(node), after);
        memory.store_link(after, node);
        (!W::PAIRS && after == NULL && node < first_block).then_some(node)
    }
}

/// Verifies the list whose head is the word at `head_at`, with `named` for its first block's `prev`, and calls `visit` with every block of it; returns their number and the last node. It
/// follows only links that `is_place` accepts.
///
/// # Errors
///
/// An invalid link, a `prev` that does not match, or more blocks than `limit` (a cycle).
///
/// # Safety
///
/// `head_at` is the head of a list, and the first word of any offset that `is_place` accepts may be read.
pub(crate) unsafe fn check_list<W: Width>(
    memory: Memory<W>,
    head_at: Offset,
    named: Offset,
    limit: usize,
    is_place: &dyn Fn(Offset) -> bool,
    visit: &mut dyn FnMut(Offset) -> Result<(), Corruption>,
) -> Result<(usize, Offset), Corruption> {
    let (mut node, mut at) = (named, head_at);
    let mut count = 0;
    loop {
        // SAFETY: this is the head or the link of a block that was verified.
        let block = unsafe { memory.load_link(at) };
        if block == NULL {
            return Ok((count, node));
        }
        if !is_place(block) {
            let invariant = "a free list's links lead to blocks";
            return Err(Corruption { invariant, address: memory.address(at) });
        }
        // SAFETY: `is_place` accepted the block, so its first word may be read.
        if unsafe { memory.load_link(block) } != node {
            return Err(Corruption {
                invariant: "a free block's prev is the node that leads to it",
                address: memory.address(block),
            });
        }
        count += 1;
        if count > limit {
            return Err(Corruption {
                invariant: "a free list holds each free block once",
                address: memory.address(head_at),
            });
        }
        visit(block)?;
        (node, at) = (block, next_at::<W>(block));
    }
}

/// Where a freed block goes in the list.
pub trait Order: Sealed + Copy + core::fmt::Debug + 'static {
    /// The name of the order.
    const NAME: &'static str;
    /// Whether links ascend.
    const ASCENDS: bool = false;

    /// The node after which `block` belongs in the list at `head`. `place` is the former predecessor of a block that
    /// was coalesced into `block`, or the constant `NO_PLACE`.
    ///
    /// # Safety
    ///
    /// `head` is the heap's only list, `place` a node of it.
    unsafe fn node<W: Width>(memory: Memory<W>, head: Offset, place: Offset, block: Offset) -> Offset;
}

/// No node.
pub(crate) const NO_PLACE: Offset = Offset::new(usize::MAX);

/// Last in, first out: at the head.
#[derive(Clone, Copy, Debug)]
pub struct Lifo;

impl Sealed for Lifo {}

impl Order for Lifo {
    const NAME: &'static str = "LIFO";

    #[inline(always)]
    unsafe fn node<W: Width>(_: Memory<W>, head: Offset, _: Offset, _: Offset) -> Offset {
        head
    }
}

/// First in, first out: after the last node, which is the null node's `prev`.
#[derive(Clone, Copy, Debug)]
pub struct Fifo;

impl Sealed for Fifo {}

impl Order for Fifo {
    const NAME: &'static str = "FIFO";

    #[inline(always)]
    unsafe fn node<W: Width>(memory: Memory<W>, _: Offset, _: Offset, _: Offset) -> Offset {
        // SAFETY: the null node is initialised, and with a single list its prev is that list's last node.
        unsafe { memory.load_link(NULL) }
    }
}

/// By address: where a coalesced neighbour was, otherwise by search.
#[derive(Clone, Copy, Debug)]
pub struct AddressOrder;

impl Sealed for AddressOrder {}

impl Order for AddressOrder {
    const NAME: &'static str = "address order";
    const ASCENDS: bool = true;

    #[inline(always)]
    unsafe fn node<W: Width>(memory: Memory<W>, head: Offset, place: Offset, block: Offset) -> Offset {
        if place != NO_PLACE {
            return place;
        }
        let mut node = head;
        loop {
            loop_bound!(LoopBound::FreeBlocks);
            // SAFETY: `node` is the head or a block in the list.
            let next = unsafe { memory.load_link(next_at::<W>(node)) };
            if next == NULL || next > block {
                return node;
            }
            node = next;
        }
    }
}

/// Which block of the list serves a request.
pub trait Fit: Sealed + Copy + core::fmt::Debug + 'static {
    /// The name of the policy.
    const NAME: &'static str;

    /// Whether a search begins where the last one ended: at the rover, stored in the word after the head.
    const ROVES: bool = false;

    /// The block that serves `need` bytes, or [`NULL`].
    ///
    /// # Safety
    ///
    /// `head` is the head of a list of the heap.
    unsafe fn choose<W: Width>(memory: Memory<W>, head: Offset, need: usize) -> Offset;
}

/// The first block that is large enough.
#[derive(Clone, Copy, Debug)]
pub struct First;

impl Sealed for First {}

impl Fit for First {
    const NAME: &'static str = "first fit";

    #[inline(always)]
    unsafe fn choose<W: Width>(memory: Memory<W>, head: Offset, need: usize) -> Offset {
        // SAFETY: `head` is a list's head, and links lead to free blocks, which have headers.
        unsafe {
            let mut block = memory.load_link(next_at::<W>(head));
            while block != NULL && free_size(memory, block) < need {
                loop_bound!(LoopBound::FreeBlocks);
                block = memory.load_link(next_at::<W>(block));
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
    unsafe fn choose<W: Width>(memory: Memory<W>, head: Offset, need: usize) -> Offset {
        // SAFETY: `head` is a list's head, and links lead to free blocks, which have headers.
        unsafe {
            let mut best = NULL;
            let mut best_size = usize::MAX;
            let mut block = memory.load_link(next_at::<W>(head));
            while block != NULL {
                loop_bound!(LoopBound::FreeBlocks);
                let size = free_size(memory, block);
                if size >= need && size < best_size {
                    best = block;
                    best_size = size;
                    if size == need {
                        break;
                    }
                }
                block = memory.load_link(next_at::<W>(block));
            }
            best
        }
    }
}

/// Offset of the word that holds the *rover* of the list at `head`: the node after which the next search begins.
#[inline(always)]
pub(crate) fn rover_at<W: Width>(head: Offset) -> Offset {
    head.up(2 * W::BYTES)
}

/// The first block that is large enough, searching in a circle from where the last search succeeded.
///
/// The rover is the node *before* the block that was found. So the search begins at the rest of that block, or at the
/// block that followed it. When the rover itself is taken out of the list, its predecessor becomes the rover: a block
/// that coalesces with its neighbours is searched in the place of the original.
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
    unsafe fn choose<W: Width>(memory: Memory<W>, head: Offset, need: usize) -> Offset {
        // SAFETY: the rover is the head or a block of the list, and links lead to free blocks. The last link leads to
        // the head, whose header has size zero, so the head serves no request.
        unsafe {
            let rover = memory.load_link(rover_at::<W>(head));
            let mut node = rover;
            loop {
                loop_bound!(LoopBound::FreeBlocks);
                let block = memory.load_link(next_at::<W>(node));
                if free_size(memory, block) >= need {
                    memory.store_link(rover_at::<W>(head), node);
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

/// The index made of one list: sequential fits.
#[derive(Clone, Copy, Debug)]
pub struct OneList<F, O>(PhantomData<(F, O)>);

/// The head of the single list: the null node is both of its ends.
const HEAD: Offset = NULL;

// SAFETY: `choose` returns a block of the list that holds `need` bytes; `insert` links and `remove` unlinks exactly the
// block it is given. No other code writes the links.
unsafe impl<F: Fit, O: Order, W: Width> FreeIndex<W> for OneList<F, O> {
    type Place = Offset;
    const NOWHERE: Offset = NO_PLACE;
    type Summary = ();

    fn bytes(_: usize) -> usize {
        if F::ROVES { 3 * W::BYTES } else { 2 * W::BYTES }
    }

    unsafe fn init(memory: Memory<W>, _: usize) {
        // SAFETY: the control structure has room for the head and the rover (`bytes`).
        unsafe {
            memory.store_link(HEAD, HEAD);
            memory.store_link(next_at::<W>(HEAD), NULL);
            if F::ROVES {
                memory.store_link(rover_at::<W>(HEAD), HEAD);
            }
        }
    }

    #[inline(always)]
    unsafe fn load(_: Memory<W>) {}

    #[inline(always)]
    unsafe fn store(_: Memory<W>, (): ()) {}

    #[inline(always)]
    fn granted(last: usize) -> usize {
        bytes_through::<W>(last)
    }

    #[inline(always)]
    unsafe fn take(memory: Memory<W>, (): &mut (), last: usize) -> Option<(Offset, usize, Offset)> {
        let need = bytes_through::<W>(last);
        // SAFETY: the head is initialised, and its links lead to free blocks of the list.
        unsafe {
            let block = F::choose(memory, HEAD, need);
            if block == NULL {
                return None;
            }
            Some((block, need, unlink(memory, block)))
        }
    }

    #[inline(always)]
    unsafe fn insert(memory: Memory<W>, (): &mut (), block: Offset, _: usize, place: Offset) {
        // SAFETY: the caller guarantees that `block` is free and in no list; `node` returns a node of the list.
        unsafe { link(memory, O::node(memory, HEAD, place, block), block) }
    }

    #[inline(always)]
    unsafe fn remove(memory: Memory<W>, (): &mut (), block: Offset) -> Offset {
        // SAFETY: the caller guarantees that `block` is in the list; the rover's word is initialised.
        unsafe {
            let node = unlink(memory, block);
            if F::ROVES && memory.load_link(rover_at::<W>(HEAD)) == block {
                memory.store_link(rover_at::<W>(HEAD), node);
            }
            node
        }
    }

    #[inline(always)]
    fn first_of(first: Offset, second: Offset) -> Offset {
        if first == NO_PLACE { second } else { first }
    }

    unsafe fn largest(memory: Memory<W>) -> usize {
        let mut largest = 0;
        // SAFETY: the head is initialised, and links lead to free blocks.
        unsafe {
            let mut block = memory.load_link(next_at::<W>(HEAD));
            while block != NULL {
                largest = largest.max(free_size(memory, block));
                block = memory.load_link(next_at::<W>(block));
            }
        }
        largest
    }

    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, Offset)) {
        // SAFETY: the head and the rover are initialised, and links lead to free blocks.
        unsafe {
            let mut block = memory.load_link(next_at::<W>(HEAD));
            while block != NULL {
                visit(0, block);
                block = memory.load_link(next_at::<W>(block));
            }
            if F::ROVES {
                visit(1, memory.load_link(rover_at::<W>(HEAD)));
            }
        }
    }

    unsafe fn check(
        memory: Memory<W>,
        free_blocks: usize,
        _: usize,
        is_place: &dyn Fn(Offset) -> bool,
    ) -> Result<usize, Corruption> {
        // SAFETY: with `ROVES`, the rover's word is initialised.
        let rover = if F::ROVES { unsafe { memory.load_link(rover_at::<W>(HEAD)) } } else { HEAD };
        let mut is_rover_found = rover == HEAD;
        let mut before = NULL;
        let mut in_order = |block: Offset| {
            is_rover_found |= block == rover;
            if O::ASCENDS && block < before {
                let invariant = "an address-ordered list ascends";
                return Err(Corruption { invariant, address: memory.address(block) });
            }
            before = block;
            Ok(())
        };
        // SAFETY: `HEAD` is the head of the heap's only list, and the null node's `prev` is an initialised word.
        unsafe {
            let (count, last) = check_list(memory, next_at::<W>(HEAD), HEAD, free_blocks, is_place, &mut in_order)?;
            if memory.load_link(NULL) != last {
                let invariant = "the null node's prev is the last node of the only list";
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

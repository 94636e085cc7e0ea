//! Doubly linked free lists without special cases, and the index that is one such list.
//!
//! A *slot* is the offset of a word that holds a link: the head of a list, or the `next` word of a free block. A free
//! block stores the slot that leads to it instead of its predecessor, and the list ends at the *null node*, a word at
//! offset 0 that may be written but means nothing. So linking and unlinking are four memory operations with no
//! test for the first or the last block:
//!
//! ```text
//! head ---> [prev|next] ---> [prev|next] ---> null node
//!   ^---------'    ^-----------'    ^-----------'
//! ```
//!
//! For a heap with a single list the null node's `prev` word is the slot at the list's end, kept right by the same
//! four operations: that is what makes FIFO order free.

use crate::contract::Corruption;
use crate::mechanism::boundary_tag::{FreeIndex, free_size};
use crate::mechanism::memory::Memory;
use crate::mechanism::word::Width;
use core::marker::PhantomData;

/// The link that ends a list.
pub const NULL: usize = 0;

/// Offset of a free block's `next` word; its `prev` word is at the block's own offset.
#[inline(always)]
pub(crate) fn next_slot<W: Width>(block: usize) -> usize {
    block.wrapping_add(W::BYTES)
}

/// Links `block` in at `slot`, in front of the block the slot led to.
///
/// # Safety
///
/// `block` is free and in no list; `slot` is a head or the next word of a block in a list.
#[inline(always)]
pub(crate) unsafe fn link<W: Width>(memory: Memory<W>, slot: usize, block: usize) {
    // SAFETY: the caller's promise; the null node takes the write that has no block to go to.
    unsafe {
        let after = memory.load(slot);
        memory.store(block, slot);
        memory.store(next_slot::<W>(block), after);
        memory.store(after, next_slot::<W>(block));
        memory.store(slot, block);
    }
}

/// Takes `block` out of its list; returns the slot that led to it and the link that the slot holds now.
///
/// # Safety
///
/// `block` is in a list.
#[inline(always)]
pub(crate) unsafe fn unlink<W: Width>(memory: Memory<W>, block: usize) -> (usize, usize) {
    // SAFETY: the caller's promise; the null node takes the write that has no block to go to.
    unsafe {
        let slot = memory.load(block);
        let after = memory.load(next_slot::<W>(block));
        memory.store(slot, after);
        memory.store(after, slot);
        (slot, after)
    }
}

/// Verifies the list at `head` and calls `visit` with every block of it; returns their number.
///
/// # Errors
///
/// A link that does not lead back, or more blocks than `limit` (a cycle).
///
/// # Safety
///
/// `head` is a list head of the heap, and links lead into its regions.
pub(crate) unsafe fn check_list<W: Width>(
    memory: Memory<W>,
    head: usize,
    limit: usize,
    visit: &mut dyn FnMut(usize) -> Result<(), Corruption>,
) -> Result<usize, Corruption> {
    let mut slot = head;
    let mut count = 0;
    loop {
        // SAFETY: `slot` is the head or the next word of a block that was visited.
        let block = unsafe { memory.load(slot) };
        if block == NULL {
            return Ok(count);
        }
        // SAFETY: links lead to free blocks, by the caller's promise.
        if unsafe { memory.load(block) } != slot {
            return Err(Corruption {
                invariant: "a free block's prev word is the slot that leads to it",
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
        slot = next_slot::<W>(block);
    }
}

/// Where a block that becomes free goes in the list.
pub trait Order: Copy + core::fmt::Debug + 'static {
    /// The order in words.
    const NAME: &'static str;

    /// The slot at which `block` belongs in the list at `head`; `place` is where a block that it swallowed stood, or
    /// [`NULL`].
    ///
    /// # Safety
    ///
    /// `head` is the heap's only list, `place` a slot of it.
    unsafe fn slot<W: Width>(memory: Memory<W>, head: usize, place: usize, block: usize) -> usize;
}

/// Last in, first out: at the head.
#[derive(Clone, Copy, Debug)]
pub struct Lifo;

impl Order for Lifo {
    const NAME: &'static str = "LIFO";

    #[inline(always)]
    unsafe fn slot<W: Width>(_: Memory<W>, head: usize, _: usize, _: usize) -> usize {
        head
    }
}

/// First in, first out: at the end, whose slot the null node knows.
#[derive(Clone, Copy, Debug)]
pub struct Fifo;

impl Order for Fifo {
    const NAME: &'static str = "FIFO";

    #[inline(always)]
    unsafe fn slot<W: Width>(memory: Memory<W>, _: usize, _: usize, _: usize) -> usize {
        // SAFETY: the null node is initialised, and with a single list its prev word is that list's last slot.
        unsafe { memory.load(NULL) }
    }
}

/// By address: where a swallowed neighbour stood, else by search.
#[derive(Clone, Copy, Debug)]
pub struct AddressOrder;

impl Order for AddressOrder {
    const NAME: &'static str = "address order";

    #[inline(always)]
    unsafe fn slot<W: Width>(memory: Memory<W>, head: usize, place: usize, block: usize) -> usize {
        if place != NULL {
            return place;
        }
        let mut slot = head;
        loop {
            // SAFETY: `slot` is the head or the next word of a block in the list.
            let next = unsafe { memory.load(slot) };
            if next == NULL || next > block {
                return slot;
            }
            slot = next_slot::<W>(next);
        }
    }
}

/// Which block of the list serves a request.
pub trait Fit: Copy + core::fmt::Debug + 'static {
    /// The policy in words.
    const NAME: &'static str;

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

impl Fit for First {
    const NAME: &'static str = "first fit";

    #[inline(always)]
    unsafe fn choose<W: Width>(memory: Memory<W>, head: usize, need: usize) -> usize {
        // SAFETY: links lead to free blocks.
        unsafe {
            let mut block = memory.load(head);
            while block != NULL && free_size(memory, block) < need {
                block = memory.load(next_slot::<W>(block));
            }
            block
        }
    }
}

/// The smallest block that is large enough; the first of equals.
#[derive(Clone, Copy, Debug)]
pub struct Best;

impl Fit for Best {
    const NAME: &'static str = "best fit";

    #[inline(always)]
    unsafe fn choose<W: Width>(memory: Memory<W>, head: usize, need: usize) -> usize {
        // SAFETY: links lead to free blocks.
        unsafe {
            let mut best = NULL;
            let mut best_size = usize::MAX;
            let mut block = memory.load(head);
            while block != NULL {
                let size = free_size(memory, block);
                if size >= need && size < best_size {
                    best = block;
                    best_size = size;
                    if size == need {
                        break;
                    }
                }
                block = memory.load(next_slot::<W>(block));
            }
            best
        }
    }
}

/// The index that is one list: sequential fits.
#[derive(Clone, Copy, Debug)]
pub struct OneList<F, O>(PhantomData<(F, O)>);

impl<F: Fit, O: Order> OneList<F, O> {
    /// Offset of the list's head, behind the null node.
    const fn head<W: Width>() -> usize {
        W::BYTES
    }
}

// SAFETY: `choose` returns a block of the list that holds `need` bytes, `insert` links exactly the block it is given
// and `remove` unlinks it; nothing else touches the list.
unsafe impl<F: Fit, O: Order, W: Width> FreeIndex<W> for OneList<F, O> {
    type Place = usize;
    const NOWHERE: usize = NULL;

    fn bytes_below() -> usize {
        0
    }

    fn bytes_above(_: usize) -> usize {
        2 * W::BYTES
    }

    unsafe fn init(memory: Memory<W>, _: usize) {
        let head = Self::head::<W>();
        // SAFETY: the control structure is the index's to initialise.
        unsafe {
            memory.store(head, NULL);
            memory.store(NULL, head);
        }
    }

    fn granted(need: usize) -> usize {
        need
    }

    #[inline(always)]
    unsafe fn take(memory: Memory<W>, need: usize) -> Option<(usize, usize, usize)> {
        // SAFETY: the head is initialised and all links are the list's own.
        unsafe {
            let block = F::choose(memory, Self::head::<W>(), need);
            if block == NULL {
                return None;
            }
            let (slot, _) = unlink(memory, block);
            Some((block, need, slot))
        }
    }

    #[inline(always)]
    unsafe fn insert(memory: Memory<W>, block: usize, _: usize, place: usize) {
        // SAFETY: the block is free and in no list by the caller's promise; `slot` returns a slot of the list.
        unsafe { link(memory, O::slot(memory, Self::head::<W>(), place, block), block) }
    }

    #[inline(always)]
    unsafe fn remove(memory: Memory<W>, block: usize) -> usize {
        // SAFETY: the block is in the list by the caller's promise.
        unsafe { unlink(memory, block).0 }
    }

    fn first_of(first: usize, _: usize) -> usize {
        first
    }

    unsafe fn largest(memory: Memory<W>) -> usize {
        let mut largest = 0;
        // SAFETY: links lead to free blocks.
        unsafe {
            let mut block = memory.load(Self::head::<W>());
            while block != NULL {
                largest = largest.max(free_size(memory, block));
                block = memory.load(next_slot::<W>(block));
            }
        }
        largest
    }

    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, usize)) {
        // SAFETY: links lead to free blocks.
        unsafe {
            let mut block = memory.load(Self::head::<W>());
            while block != NULL {
                visit(0, block);
                block = memory.load(next_slot::<W>(block));
            }
        }
    }

    unsafe fn check(memory: Memory<W>, free_blocks: usize, _: usize) -> Result<usize, Corruption> {
        // SAFETY: the head is the heap's own list.
        unsafe { check_list(memory, Self::head::<W>(), free_blocks, &mut |_| Ok(())) }
    }
}

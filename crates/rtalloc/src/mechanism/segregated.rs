//! The index of one free list per size class, with a bitmap of the classes that have a free block.
//!
//! Control structure around the heap's own words:
//!
//! ```text
//! [bitmap: summary, leaves][heap's words] base: [null][head of the smallest class] ... [head of the largest planned]
//! ```
//!
//! A block is unlinked without knowing its class: the node that leads to it tells, when it is a head, which class that
//! head is of, and only the last block of a list needs the answer.

use crate::contract::Corruption;
use crate::mechanism::bitmap::Bitmap;
use crate::mechanism::boundary_tag::{FreeIndex, first_block_at, free_size, own_bytes};
use crate::mechanism::free_list::{NULL, check_list, link, link_in_one, next_at, unlink_or_empty};
use crate::mechanism::memory::Memory;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Classes;
use crate::mechanism::word::Width;
use core::marker::PhantomData;

/// How much of a found block a request gets.
pub trait SplitPolicy: Sealed + Copy + core::fmt::Debug + 'static {
    /// The policy in words.
    const NAME: &'static str;
    /// Bytes granted to a block request of `need` bytes for which the search began at blocks of `rounded` bytes.
    fn granted(need: usize, rounded: usize) -> usize;
}

/// Grants the size at which the search began (TLSF paper 4.3): once freed, the block is in the list where the same
/// request looks first. Requests at alignments beyond the granule are searched with room to align, so that the promise
/// is not made for them.
#[derive(Clone, Copy, Debug)]
pub struct RoundUp;

impl Sealed for RoundUp {}

impl SplitPolicy for RoundUp {
    const NAME: &'static str = "round-up split";
    #[inline(always)]
    fn granted(_: usize, rounded: usize) -> usize {
        rounded
    }
}

/// Grants what was asked, in whole granules.
#[derive(Clone, Copy, Debug)]
pub struct Exact;

impl Sealed for Exact {}

impl SplitPolicy for Exact {
    const NAME: &'static str = "exact split";
    #[inline(always)]
    fn granted(need: usize, _: usize) -> usize {
        need
    }
}

/// One list per class of `C`, found through a bitmap `B`, split by policy `P`.
#[derive(Clone, Copy, Debug)]
pub struct Segregated<C, B, P>(PhantomData<(C, B, P)>);

impl<C: Classes, B: Bitmap, P: SplitPolicy> Segregated<C, B, P> {
    /// Offset of the bitmap, which ends where the heap's own words begin. It has room for the class beyond the largest
    /// that a rounded-up search may begin at in the widest heap.
    #[inline(always)]
    fn bitmap<W: Width>() -> usize {
        0usize.wrapping_sub(own_bytes::<W>()).wrapping_sub(Self::bitmap_bytes::<W>())
    }

    /// Bytes of the bitmap.
    #[inline(always)]
    fn bitmap_bytes<W: Width>() -> usize {
        B::bytes(C::below::<W>(), C::class_of::<W>(W::MAX & !(W::GRANULE - 1)) + 1)
    }

    /// The head of a class, a node of which only the `next` word exists: the next class's `prev` is its `next`. The
    /// class `below` the smallest has the null node.
    #[inline(always)]
    fn head<W: Width>(class: usize) -> usize {
        // Narrowed to the width of a link, so that one instruction makes it and every use shares it.
        W::get(W::put(Self::head_at_once::<W>(class)))
    }

    /// [`head`](Self::head) where time matters more than one instruction: it is part of the address of whatever is
    /// loaded from it, so that the load does not wait for it.
    #[inline(always)]
    fn head_at_once<W: Width>(class: usize) -> usize {
        class.wrapping_sub(C::below::<W>()).wrapping_mul(W::BYTES)
    }

    /// The classes of a heap whose largest block has `max_block` bytes.
    fn classes<W: Width>(max_block: usize) -> core::ops::RangeInclusive<usize> {
        C::below::<W>() + 1..=C::class_of::<W>(max_block)
    }
}

// SAFETY: a class's list holds blocks of at least the class's size and its bit is set if and only if it has one, so
// `take` returns a block of at least the size searched for; `insert` and `remove` link and unlink exactly the block
// they are given.
unsafe impl<C: Classes, B: Bitmap, P: SplitPolicy, W: Width> FreeIndex<W> for Segregated<C, B, P> {
    type Place = ();
    const NOWHERE: () = ();

    fn bytes_below() -> usize {
        Self::bitmap_bytes::<W>()
    }

    fn bytes_above(max_block: usize) -> usize {
        next_at::<W>(Self::head::<W>(C::class_of::<W>(max_block) + 1))
    }

    unsafe fn init(memory: Memory<W>, max_block: usize) {
        for word in 0..Self::bitmap_bytes::<W>() / size_of::<usize>() {
            // SAFETY: the bitmap lies in the control structure, which is the index's to initialise.
            unsafe { memory.store_bits(Self::bitmap::<W>().wrapping_add(word * size_of::<usize>()), 0) }
        }
        for class in Self::classes::<W>(max_block) {
            // SAFETY: so do the heads.
            unsafe { memory.store(next_at::<W>(Self::head::<W>(class)), NULL) }
        }
    }

    #[inline(always)]
    fn granted(need: usize) -> usize {
        P::granted(need, C::class_for::<W>(need).1)
    }

    #[inline(always)]
    unsafe fn take(memory: Memory<W>, need: usize) -> Option<(usize, usize, ())> {
        let (class, rounded) = C::class_for::<W>(need);
        // SAFETY: the bitmap has room for the class of any size a word can express; a set bit means that the list has
        // a block, and every block of the class found is at least `rounded` bytes large.
        unsafe {
            let class = B::find(memory, Self::bitmap::<W>(), C::below::<W>(), class)?;
            let head = Self::head::<W>(class);
            let sooner = if C::HASTENS { Self::head_at_once::<W>(class) } else { head };
            let block = memory.load(next_at::<W>(sooner));
            let after = memory.load(next_at::<W>(block));
            memory.store(next_at::<W>(sooner), after);
            memory.store(after, head);
            let number = head / W::BYTES;
            B::remove_if(memory, Self::bitmap::<W>(), C::below::<W>(), class, number, after == NULL);
            Some((block, P::granted(need, rounded), ()))
        }
    }

    #[inline(always)]
    unsafe fn insert(memory: Memory<W>, block: usize, size: usize, (): ()) {
        let class = C::class_of::<W>(size);
        let head = Self::head::<W>(class);
        // SAFETY: no block is larger than the control structure was planned for, so the class has a head and a bit.
        unsafe {
            if C::HASTENS {
                link_in_one(memory, Self::head_at_once::<W>(class), head, block);
            } else {
                link(memory, head, block);
            }
            B::insert(memory, Self::bitmap::<W>(), C::below::<W>(), class, head / W::BYTES);
        }
    }

    #[inline(always)]
    unsafe fn remove(memory: Memory<W>, block: usize) {
        // SAFETY: the block is in a list, and heads lie below the first block.
        unsafe {
            if let Some(head) = unlink_or_empty(memory, block, memory.load_bits(first_block_at::<W>())) {
                B::remove(memory, Self::bitmap::<W>(), C::below::<W>(), head / W::BYTES);
            }
        }
    }

    #[inline(always)]
    fn first_of((): (), (): ()) {}

    unsafe fn largest(memory: Memory<W>) -> usize {
        // SAFETY: the bitmap is initialised.
        let highest = unsafe { B::highest(memory, Self::bitmap::<W>(), C::below::<W>()) };
        highest.map_or(0, C::size::<W>)
    }

    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, usize)) {
        let mut from = C::below::<W>() + 1;
        // SAFETY: the bitmap is initialised, a set bit has a list, and links lead to free blocks.
        unsafe {
            while let Some(class) = B::find(memory, Self::bitmap::<W>(), C::below::<W>(), from) {
                let mut block = memory.load(next_at::<W>(Self::head::<W>(class)));
                while block != NULL {
                    visit(class, block);
                    block = memory.load(next_at::<W>(block));
                }
                from = class + 1;
            }
        }
    }

    unsafe fn check(
        memory: Memory<W>,
        free_blocks: usize,
        max_block: usize,
        is_place: &dyn Fn(usize) -> bool,
    ) -> Result<usize, Corruption> {
        let mut total = 0;
        for class in Self::classes::<W>(max_block) {
            let head = Self::head::<W>(class);
            // SAFETY: the class has a head, and links lead to free blocks.
            let (count, _) = unsafe {
                check_list(memory, head, free_blocks, is_place, &mut |block| {
                    if C::class_of::<W>(free_size(memory, block)) == class {
                        Ok(())
                    } else {
                        let invariant = "a free block is in the list of its class";
                        Err(Corruption { invariant, address: memory.address(block) })
                    }
                })?
            };
            // SAFETY: the class has a bit.
            if !unsafe { B::agrees(memory, Self::bitmap::<W>(), C::below::<W>(), class, count != 0) } {
                let invariant = "a class's bit is set if and only if its list has a block";
                return Err(Corruption { invariant, address: memory.address(head) });
            }
            total += count;
        }
        Ok(total)
    }
}

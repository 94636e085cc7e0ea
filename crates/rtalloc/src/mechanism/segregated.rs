//! The index of one free list per size class, with a bitmap of the classes that have a free block.
//!
//! Layout of the control structure:
//!
//! ```text
//! [bitmap: summary, leaves][heap's words] base: [null][head of the smallest class] ... [head of the largest planned]
//! ```
//!
//! A block is unlinked without knowing its class. Only the last block of a list needs its class, to clear the bit; its
//! `prev` is then the head, whose offset gives the class.

use crate::contract::Corruption;
use crate::mechanism::bitmap::{Bitmap, BitmapView};
use crate::mechanism::boundary_tag::{FreeIndex, first_block, first_block_at, free_size};
use crate::mechanism::free_list::{NULL, check_list, link, link_in_one, next_at, unlink_or_empty};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::{Class, Classes, Rank};
use crate::mechanism::word::Width;
use core::marker::PhantomData;

/// How many bytes of a found block a request gets.
pub trait SplitPolicy: Sealed + Copy + core::fmt::Debug + 'static {
    /// The name of the policy.
    const NAME: &'static str;
    /// Bytes granted to a block request of `need` bytes for which the search began at blocks of `rounded` bytes.
    fn granted(need: usize, rounded: usize) -> usize;
}

/// Grants the size at which the search began (TLSF paper 4.3): once freed, the block is in the list where the same
/// request looks first. This does not hold for alignments beyond the granule, whose search includes room to align.
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

/// Grants the requested size, in whole granules.
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
    /// The bitmap, which ends where the heap's own words begin. It includes a bit for the class after the largest one,
    /// where a rounded-up search may begin in the widest heap.
    #[inline(always)]
    fn bitmap<W: Width>(memory: Memory<W>) -> BitmapView<W> {
        let at = first_block_at::<W>().down(Self::bitmap_bytes::<W>());
        BitmapView { memory, at, below: C::below::<W>() }
    }

    /// Bytes of the bitmap.
    #[inline(always)]
    fn bitmap_bytes<W: Width>() -> usize {
        B::bytes(C::below::<W>(), C::class_of::<W>(W::MAX & !(W::GRANULE - 1)).up(1))
    }

    /// The head of a class: a node of which only the `next` word exists. The next class's `prev` would be this class's
    /// `next`. The class `below`, before the smallest, has the null node.
    #[inline(always)]
    fn head<W: Width>(class: Class) -> Offset {
        // Narrowed to the width of a link, so that one instruction computes it and all uses share it.
        Offset::new(W::get(W::put(Self::head_at_once::<W>(class).bytes())))
    }

    /// [`head`](Self::head) with lower latency, at one more instruction: the computation becomes part of the address
    /// operand, so that the load does not wait for it.
    #[inline(always)]
    fn head_at_once<W: Width>(class: Class) -> Offset {
        NULL.up(class.rank(C::below::<W>()).number().wrapping_mul(W::BYTES))
    }

    /// The rank of the class of a head.
    #[inline(always)]
    fn rank_of<W: Width>(head: Offset) -> Rank {
        Rank::new(head.bytes() / W::BYTES)
    }

    /// The classes of a heap whose largest block has `max_block` bytes.
    fn classes<W: Width>(max_block: usize) -> impl Iterator<Item = Class> {
        C::below::<W>().up(1).through(C::class_of::<W>(max_block))
    }
}

// SAFETY: the list of a class holds only blocks of at least the class's size, and its bit is set if and only if the
// list has a block. So `take` returns a block of at least the size searched for. `insert` links and `remove` unlinks
// exactly the block it is given.
unsafe impl<C: Classes, B: Bitmap, P: SplitPolicy, W: Width> FreeIndex<W> for Segregated<C, B, P> {
    type Place = ();
    const NOWHERE: () = ();

    fn bytes_below() -> usize {
        Self::bitmap_bytes::<W>()
    }

    fn bytes_above(max_block: usize) -> usize {
        next_at::<W>(Self::head::<W>(C::class_of::<W>(max_block).up(1))).bytes()
    }

    unsafe fn init(memory: Memory<W>, max_block: usize) {
        for word in 0..Self::bitmap_bytes::<W>() / size_of::<usize>() {
            // SAFETY: the bitmap lies in the control structure, which the index initialises.
            unsafe { memory.store_bits(Self::bitmap(memory).at.up(word * size_of::<usize>()), 0) }
        }
        for class in Self::classes::<W>(max_block) {
            // SAFETY: the heads lie in the control structure, which the index initialises.
            unsafe { memory.store_link(next_at::<W>(Self::head::<W>(class)), NULL) }
        }
    }

    #[inline(always)]
    fn granted(need: usize) -> usize {
        P::granted(need, C::class_for::<W>(need).1)
    }

    #[inline(always)]
    unsafe fn take(memory: Memory<W>, need: usize) -> Option<(Offset, usize, ())> {
        let (class, rounded) = C::class_for::<W>(need);
        // SAFETY: the bitmap has a bit for the class of any size that a word can hold. If the bit is set, the list has
        // a block, and every block of that class has at least `rounded` bytes.
        unsafe {
            let class = B::find(Self::bitmap(memory), class)?;
            let head = Self::head::<W>(class);
            let sooner = if C::HASTENS { Self::head_at_once::<W>(class) } else { head };
            let block = memory.load_link(next_at::<W>(sooner));
            let after = memory.load_link(next_at::<W>(block));
            memory.store_link(next_at::<W>(sooner), after);
            memory.store_link(after, head);
            B::remove_if(Self::bitmap(memory), class, Self::rank_of::<W>(head), after == NULL);
            Some((block, P::granted(need, rounded), ()))
        }
    }

    #[inline(always)]
    unsafe fn insert(memory: Memory<W>, block: Offset, size: usize, (): ()) {
        let class = C::class_of::<W>(size);
        let head = Self::head::<W>(class);
        // SAFETY: the control structure is planned for the largest possible block, so the class has a head and a bit.
        unsafe {
            if C::HASTENS {
                link_in_one(memory, Self::head_at_once::<W>(class), head, block);
            } else {
                link(memory, head, block);
            }
            B::insert(Self::bitmap(memory), class, Self::rank_of::<W>(head));
        }
    }

    #[inline(always)]
    unsafe fn remove(memory: Memory<W>, block: Offset) {
        // SAFETY: the caller guarantees that the block is in a list; heads lie below the first block.
        unsafe {
            if let Some(head) = unlink_or_empty(memory, block, first_block(memory)) {
                B::remove(Self::bitmap(memory), Self::rank_of::<W>(head));
            }
        }
    }

    #[inline(always)]
    fn first_of((): (), (): ()) {}

    unsafe fn largest(memory: Memory<W>) -> usize {
        // SAFETY: the bitmap is initialised.
        let highest = unsafe { B::highest(Self::bitmap(memory)) };
        highest.map_or(0, C::size::<W>)
    }

    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, Offset)) {
        let mut from = C::below::<W>().up(1);
        // SAFETY: the bitmap is initialised, a set bit has a list, and links lead to free blocks.
        unsafe {
            while let Some(class) = B::find(Self::bitmap(memory), from) {
                let mut block = memory.load_link(next_at::<W>(Self::head::<W>(class)));
                while block != NULL {
                    visit(class.number(), block);
                    block = memory.load_link(next_at::<W>(block));
                }
                from = class.up(1);
            }
        }
    }

    unsafe fn check(
        memory: Memory<W>,
        free_blocks: usize,
        max_block: usize,
        is_place: &dyn Fn(Offset) -> bool,
    ) -> Result<usize, Corruption> {
        let mut total = 0;
        for class in Self::classes::<W>(max_block) {
            let head = Self::head::<W>(class);
            // SAFETY: the class has a head, and `is_place` accepts only places where a block can be.
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
            // SAFETY: the bitmap has a bit for the class.
            if !unsafe { B::agrees(Self::bitmap(memory), class, count != 0) } {
                let invariant = "a class's bit is set if and only if its list has a block";
                return Err(Corruption { invariant, address: memory.address(head) });
            }
            total += count;
        }
        Ok(total)
    }
}

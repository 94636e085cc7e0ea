//! The index of one free list per size class, with a bitmap of the classes that have a free block.
//!
//! Layout of the control structure:
//!
//! ```text
//! [heap's words, number of names] base: [null][bitmap][head of the smallest class] ... [the largest]
//! ```
//!
//! A block is unlinked without its size: the first block of a list has its class for `prev`. A number is taken for a
//! class only where its head and its bit are in the control structure, whatever was written over a free block.

use crate::contract::Corruption;
use crate::mechanism::bitmap::Bitmap;
use crate::mechanism::bits::computed;
use crate::mechanism::boundary_tag::{FreeIndex, bytes_through, free_size, index_word_at};
use crate::mechanism::free_list::{NULL, check_list, next_at};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::{Class, Classes};
use crate::mechanism::word::Width;
use core::marker::PhantomData;

/// How many bytes of a found block a request gets.
pub trait SplitPolicy: Sealed + Copy + core::fmt::Debug + 'static {
    /// The name of the policy.
    const NAME: &'static str;
    /// Bytes granted to a request that needs a byte `last`, for which the search began at blocks of `rounded` bytes.
    fn granted<W: Width>(last: usize, rounded: usize) -> usize;
}

/// Grants the size at which the search began (TLSF paper 4.3): once freed, the block is in the list where the same
/// request looks first. This would not hold for alignments beyond the granule, whose search includes room to align; they
/// get the requested size.
#[derive(Clone, Copy, Debug)]
pub struct RoundUp;

impl Sealed for RoundUp {}

impl SplitPolicy for RoundUp {
    const NAME: &'static str = "round-up split";
    #[inline(always)]
    fn granted<W: Width>(_: usize, rounded: usize) -> usize {
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
    fn granted<W: Width>(last: usize, _: usize) -> usize {
        bytes_through::<W>(last)
    }
}

/// One list per class of `C`, split by policy `P`.
#[derive(Clone, Copy, Debug)]
pub struct Segregated<C, P>(PhantomData<(C, P)>);

impl<C: Classes, P: SplitPolicy> Segregated<C, P> {
    /// The bitmap, which follows the null node.
    #[inline(always)]
    fn bitmap<W: Width>(memory: Memory<W>) -> Bitmap<W> {
        Bitmap { memory, at: Self::bitmap_at::<W>(), below: C::below::<W>(), highest: C::highest::<W>() }
    }

    /// Offset of the bitmap.
    #[inline(always)]
    fn bitmap_at<W: Width>() -> Offset {
        NULL.up(W::BYTES.next_multiple_of(size_of::<usize>()))
    }

    /// Bytes of the bitmap.
    #[inline(always)]
    fn bitmap_bytes<W: Width>() -> usize {
        Bitmap::<W>::bytes(C::below::<W>(), C::highest::<W>())
    }

    /// Where the head of a class is: the heads follow the bitmap.
    fn head_at<W: Width>(class: Class) -> Offset {
        Self::heads_at::<W>().up(Self::in_heads::<W>(class).bytes())
    }

    /// Where class 0 would have its head.
    #[inline(always)]
    fn heads_at<W: Width>() -> Offset {
        let first = C::below::<W>().up(1);
        Self::bitmap_at::<W>().up(Self::bitmap_bytes::<W>()).down(Self::in_heads::<W>(first).bytes())
    }

    /// Offset of a class's head in [`heads`](Self::heads).
    #[inline(always)]
    fn in_heads<W: Width>(class: Class) -> Offset {
        Offset::BASE.up(class.number().wrapping_mul(W::BYTES))
    }

    /// The memory from the head of class 0 on.
    #[inline(always)]
    fn heads<W: Width>(memory: Memory<W>) -> Memory<W> {
        memory.array(Self::heads_at::<W>())
    }

    /// What the first block of a class's list has for `prev`: the class, which is less than any block's offset.
    #[inline(always)]
    fn named(class: Class) -> Offset {
        Offset::new(class.number())
    }

    /// The class that is the `prev` of a list's first block.
    #[inline(always)]
    fn class_named(prev: Offset) -> Class {
        Class::new(prev.bytes())
    }

    /// The least number that `remove` takes for a class: that of the smallest class; but 0, which saves an instruction,
    /// where class 0 would have its head in the control structure. A number below the smallest class then leads to the
    /// null node, or to the word of the bitmap that every operation writes at its end.
    #[inline(always)]
    fn least_name<W: Width>() -> usize {
        if (Self::heads_at::<W>().bytes() as isize) < 0 { C::below::<W>().up(1).number() } else { 0 }
    }

    /// How far a number is above the least one that is taken for a class. Those that are less than the number of names
    /// have what would be a head and a bit in the control structure.
    #[inline(always)]
    fn name<W: Width>(number: usize) -> usize {
        number.wrapping_sub(Self::least_name::<W>())
    }

    /// The number of names in a heap whose largest block has `max_block` bytes.
    fn names<W: Width>(max_block: usize) -> usize {
        Self::name::<W>(Self::named(C::class_of::<W>(max_block).up(1)).bytes())
    }

    /// The classes of a heap whose largest block has `max_block` bytes.
    fn classes<W: Width>(max_block: usize) -> impl Iterator<Item = Class> {
        C::below::<W>().up(1).through(C::class_of::<W>(max_block))
    }
}

// SAFETY: the list of a class holds only blocks of at least the class's size, and its bit is set if and only if the
// list has a block. So `take` returns a block of at least the size searched for. `insert` links and `remove` unlinks
// exactly the block it is given.
unsafe impl<C: Classes, P: SplitPolicy, W: Width> FreeIndex<W> for Segregated<C, P> {
    type Place = ();
    const NOWHERE: () = ();
    type Summary = usize;

    fn bytes(max_block: usize) -> usize {
        let end = C::class_of::<W>(max_block).up(1);
        // No block's offset is as small as a class.
        Self::head_at::<W>(end).bytes().max(Self::named(end).bytes())
    }

    unsafe fn init(memory: Memory<W>, max_block: usize) {
        // SAFETY: the word follows the null node's in the control structure, which the index initialises.
        unsafe { memory.store_bits(index_word_at::<W>(), Self::names::<W>(max_block)) };
        for word in 0..Self::bitmap_bytes::<W>() / size_of::<usize>() {
            // SAFETY: the bitmap lies in the control structure, which the index initialises.
            unsafe { memory.store_bits(Self::bitmap_at::<W>().up(word * size_of::<usize>()), 0) }
        }
        for class in Self::classes::<W>(max_block) {
            // SAFETY: the heads lie in the control structure, which the index initialises.
            unsafe { memory.store_link(Self::head_at::<W>(class), NULL) }
        }
    }

    #[inline(always)]
    unsafe fn load(memory: Memory<W>) -> usize {
        // SAFETY: the bitmap is initialised.
        unsafe { Self::bitmap(memory).load() }
    }

    #[inline(always)]
    unsafe fn store(memory: Memory<W>, summary: usize) {
        // SAFETY: the bitmap is initialised.
        unsafe { Self::bitmap(memory).store(summary) }
    }

    #[inline(always)]
    fn granted(last: usize) -> usize {
        P::granted::<W>(last, C::below_for::<W>(last).1)
    }

    #[inline(always)]
    fn found(last: usize) -> usize {
        C::below_for::<W>(last).1
    }

    #[inline(always)]
    unsafe fn take(memory: Memory<W>, summary: &mut usize, last: usize) -> Option<(Offset, usize, ())> {
        let (below, rounded) = C::below_for::<W>(last);
        // SAFETY: the bitmap has a bit for the class of any size that a word can hold. If the bit is set, the list has
        // a block, and every block of that class has at least `rounded` bytes.
        unsafe {
            let (class, leaf) = Self::bitmap(memory).find(*summary, below)?;
            let heads = Self::heads(memory);
            let block = heads.load_link(Self::in_heads::<W>(class));
            let after = memory.load_link(next_at::<W>(block));
            heads.store_link(Self::in_heads::<W>(class), after);
            memory.store_link(after, Self::named(class));
            Self::bitmap(memory).remove_if(summary, class, leaf, after == NULL);
            Some((block, P::granted::<W>(last, rounded), ()))
        }
    }

    #[inline(always)]
    unsafe fn insert(memory: Memory<W>, summary: &mut usize, block: Offset, size: usize, (): ()) {
        let class = C::class_of::<W>(size);
        // SAFETY: the control structure is planned for the largest possible block, so the class has a head and a bit.
        // At the end of the list, the null node takes the write to `prev`.
        unsafe {
            let heads = Self::heads(memory);
            let after = heads.load_link(Self::in_heads::<W>(class));
            memory.store_link(after, block);
            // One store, which a processor forwards to the load of both in `remove` before it reaches the cache: a
            // freed block is often unlinked again soon.
            W::store_pair(memory, block, Self::named(class), after);
            heads.store_link(Self::in_heads::<W>(class), block);
            Self::bitmap(memory).insert(summary, class);
        }
    }

    #[inline(always)]
    unsafe fn remove(memory: Memory<W>, summary: &mut usize, block: Offset) {
        // SAFETY: the caller guarantees that the block is in a list, so its links lead to its neighbours there: classes
        // are less than the first block's offset. At the end of the list, the null node takes the write to `prev`.
        unsafe {
            let (name, prev, after) = match W::load_pair(memory, block) {
                Some(pair) => {
                    let name = Self::name::<W>(pair);
                    // `next` is the upper half: one comparison for "no next, and prev is a class".
                    if name < memory.load_bits(index_word_at::<W>()) {
                        let class = Self::class_named(Offset::new(pair));
                        Self::heads(memory).store_link(Self::in_heads::<W>(class), NULL);
                        return Self::bitmap(memory).remove(summary, class);
                    }
                    core::hint::cold_path();
                    let lower = |word: usize| computed(W::get(W::put(word)) as u64) as usize;
                    (lower(name), Offset::new(lower(pair)), Offset::new(pair >> W::BITS))
                }
                None => {
                    let prev = memory.load_link(block);
                    (Self::name::<W>(prev.bytes()), prev, memory.load_link(next_at::<W>(block)))
                }
            };
            memory.store_link(after, prev);
            if name >= memory.reload_bits(index_word_at::<W>()) {
                memory.store_link(next_at::<W>(prev), after);
                return;
            }
            let class = Self::class_named(prev);
            Self::heads(memory).store_link(Self::in_heads::<W>(class), after);
            if !W::PAIRS && after == NULL {
                Self::bitmap(memory).remove(summary, class);
            }
        }
    }

    #[inline(always)]
    fn first_of((): (), (): ()) {}

    unsafe fn largest(memory: Memory<W>) -> usize {
        // SAFETY: the bitmap is initialised.
        let highest = unsafe { Self::bitmap(memory).highest_member(Self::load(memory)) };
        highest.map_or(0, C::size::<W>)
    }

    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, Offset)) {
        let mut below = C::below::<W>();
        // SAFETY: the bitmap is initialised, a set bit has a list, and links lead to free blocks.
        unsafe {
            while let Some((class, _)) = Self::bitmap(memory).find(Self::load(memory), below) {
                let mut block = memory.load_link(Self::head_at::<W>(class));
                while block != NULL {
                    visit(class.number(), block);
                    block = memory.load_link(next_at::<W>(block));
                }
                below = class;
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
        // SAFETY: `init` initialised the word.
        if unsafe { memory.load_bits(index_word_at::<W>()) } != Self::names::<W>(max_block) {
            let invariant = "the control structure has the number of names";
            return Err(Corruption { invariant, address: memory.address(index_word_at::<W>()) });
        }
        for class in Self::classes::<W>(max_block) {
            let head = Self::head_at::<W>(class);
            // SAFETY: the class has a head, and `is_place` accepts only places where a block can be.
            let (count, _) = unsafe {
                check_list(memory, head, Self::named(class), free_blocks, is_place, &mut |block| {
                    if C::class_of::<W>(free_size(memory, block)) == class {
                        Ok(())
                    } else {
                        let invariant = "a free block is in the list of its class";
                        Err(Corruption { invariant, address: memory.address(block) })
                    }
                })?
            };
            // SAFETY: the bitmap has a bit for the class.
            if !unsafe { Self::bitmap(memory).agrees(class, count != 0) } {
                let invariant = "a class's bit is set if and only if its list has a block";
                return Err(Corruption { invariant, address: memory.address(head) });
            }
            total += count;
        }
        Ok(total)
    }
}

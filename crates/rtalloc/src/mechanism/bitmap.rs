//! Which classes have a free block: one bit per class, searched without a loop.

use crate::mechanism::bits::{first_set, floor_log2};
use crate::mechanism::memory::Memory;
use crate::mechanism::word::Width;
use core::num::NonZeroUsize;

/// Bits of one word.
const BITS: usize = usize::BITS as usize;

/// A set of classes in the control structure at offset `at`.
pub trait Bitmap: Copy + core::fmt::Debug + 'static {
    /// Most classes it can hold.
    const CAPACITY: usize;

    /// Bytes it takes for `classes` classes, a multiple of `size_of::<usize>()`.
    fn bytes(classes: usize) -> usize;

    /// The lowest member that is at least `class`.
    ///
    /// # Safety
    ///
    /// This set, for more than `class` classes, is at `at`.
    unsafe fn find<W: Width>(memory: Memory<W>, at: usize, class: usize) -> Option<usize>;

    /// The highest member.
    ///
    /// # Safety
    ///
    /// This set is at `at`.
    unsafe fn highest<W: Width>(memory: Memory<W>, at: usize) -> Option<usize>;

    /// Adds a class.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find).
    unsafe fn insert<W: Width>(memory: Memory<W>, at: usize, class: usize);

    /// Removes a member.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find), and `class` is a member.
    unsafe fn remove<W: Width>(memory: Memory<W>, at: usize, class: usize);

    /// Whether a class is a member.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find).
    unsafe fn contains<W: Width>(memory: Memory<W>, at: usize, class: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { Self::find(memory, at, class) == Some(class) }
    }
}

/// The bit of `class` in its word. The shift takes the class modulo the word's width, as the processor does.
#[inline(always)]
fn bit(class: usize) -> usize {
    1usize.wrapping_shl(class as u32)
}

/// One word: for half-fit's power-of-two classes.
#[derive(Clone, Copy, Debug)]
pub struct OneWord;

impl Bitmap for OneWord {
    const CAPACITY: usize = BITS;

    #[inline(always)]
    fn bytes(_: usize) -> usize {
        size_of::<usize>()
    }

    #[inline(always)]
    unsafe fn find<W: Width>(memory: Memory<W>, at: usize, class: usize) -> Option<usize> {
        // SAFETY: the set is at `at` by the caller's promise.
        let members = unsafe { memory.load_bits(at) };
        let candidates = NonZeroUsize::new(members & usize::MAX.wrapping_shl(class as u32))?;
        Some(first_set(candidates) as usize)
    }

    #[inline(always)]
    unsafe fn highest<W: Width>(memory: Memory<W>, at: usize) -> Option<usize> {
        // SAFETY: the set is at `at` by the caller's promise.
        let members = unsafe { memory.load_bits(at) };
        NonZeroUsize::new(members).map(|members| floor_log2(members) as usize)
    }

    #[inline(always)]
    unsafe fn insert<W: Width>(memory: Memory<W>, at: usize, class: usize) {
        // SAFETY: the set is at `at` by the caller's promise.
        unsafe { memory.store_bits(at, memory.load_bits(at) | bit(class)) }
    }

    #[inline(always)]
    unsafe fn remove<W: Width>(memory: Memory<W>, at: usize, class: usize) {
        // SAFETY: the set is at `at` by the caller's promise.
        unsafe { memory.store_bits(at, memory.load_bits(at) & !bit(class)) }
    }
}

/// Two levels: leaf words, and a summary word with one bit per leaf that is not zero.
///
/// The levels are those of the machine word, not of the class map: with J = 5 on a 64-bit machine a leaf spans two
/// power-of-two ranges, which halves the leaves.
#[derive(Clone, Copy, Debug)]
pub struct TwoLevel;

impl TwoLevel {
    /// Offset of the leaf with number `leaf`.
    #[inline(always)]
    fn leaf_at(at: usize, leaf: usize) -> usize {
        at + (leaf + 1) * size_of::<usize>()
    }
}

impl Bitmap for TwoLevel {
    const CAPACITY: usize = BITS * BITS;

    #[inline(always)]
    fn bytes(classes: usize) -> usize {
        (1 + classes.div_ceil(BITS)) * size_of::<usize>()
    }

    #[inline(always)]
    unsafe fn find<W: Width>(memory: Memory<W>, at: usize, class: usize) -> Option<usize> {
        let mut leaf = class / BITS;
        // SAFETY: the set is at `at` by the caller's promise; a summary bit is set only where the leaf is not zero.
        unsafe {
            let above = memory.load_bits(Self::leaf_at(at, leaf)) & usize::MAX.wrapping_shl(class as u32);
            let candidates = match NonZeroUsize::new(above) {
                Some(candidates) => candidates,
                None => {
                    let later = (usize::MAX - 1).wrapping_shl(leaf as u32);
                    let leaves = NonZeroUsize::new(memory.load_bits(at) & later)?;
                    leaf = first_set(leaves) as usize;
                    NonZeroUsize::new_unchecked(memory.load_bits(Self::leaf_at(at, leaf)))
                }
            };
            Some(leaf * BITS + first_set(candidates) as usize)
        }
    }

    #[inline(always)]
    unsafe fn highest<W: Width>(memory: Memory<W>, at: usize) -> Option<usize> {
        // SAFETY: the set is at `at` by the caller's promise; a summary bit is set only where the leaf is not zero.
        unsafe {
            let leaves = NonZeroUsize::new(memory.load_bits(at))?;
            let leaf = floor_log2(leaves) as usize;
            let members = NonZeroUsize::new_unchecked(memory.load_bits(Self::leaf_at(at, leaf)));
            Some(leaf * BITS + floor_log2(members) as usize)
        }
    }

    #[inline(always)]
    unsafe fn insert<W: Width>(memory: Memory<W>, at: usize, class: usize) {
        let leaf = class / BITS;
        let leaf_at = Self::leaf_at(at, leaf);
        // SAFETY: the set is at `at` by the caller's promise.
        unsafe {
            memory.store_bits(leaf_at, memory.load_bits(leaf_at) | bit(class));
            memory.store_bits(at, memory.load_bits(at) | bit(leaf));
        }
    }

    #[inline(always)]
    unsafe fn remove<W: Width>(memory: Memory<W>, at: usize, class: usize) {
        let leaf = class / BITS;
        let leaf_at = Self::leaf_at(at, leaf);
        // SAFETY: the set is at `at` by the caller's promise.
        unsafe {
            let members = memory.load_bits(leaf_at) & !bit(class);
            memory.store_bits(leaf_at, members);
            if members == 0 {
                memory.store_bits(at, memory.load_bits(at) & !bit(leaf));
            }
        }
    }
}

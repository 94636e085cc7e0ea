//! Which classes have a free block: one bit per class, searched without a loop.

use crate::mechanism::bits::{computed, first_set, floor_log2, with_bit, without_bit};
use crate::mechanism::memory::Memory;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::word::Width;
use core::num::NonZeroUsize;

/// Bits of one word.
const BITS: usize = usize::BITS as usize;

/// A set of classes above `below`, in the control structure at offset `at`.
///
/// `below` is a constant at every call, and so are the sums and shifts derived from it.
pub trait Bitmap: Sealed + Copy + core::fmt::Debug + 'static {
    /// Bytes the set takes for classes up to `highest`, a multiple of `size_of::<usize>()`.
    fn bytes(below: usize, highest: usize) -> usize;

    /// The lowest member that is at least `class`.
    ///
    /// # Safety
    ///
    /// A set with a bit for `class` is at `at`.
    unsafe fn find<W: Width>(memory: Memory<W>, at: usize, below: usize, class: usize) -> Option<usize>;

    /// The highest member.
    ///
    /// # Safety
    ///
    /// A set is at `at`.
    unsafe fn highest<W: Width>(memory: Memory<W>, at: usize, below: usize) -> Option<usize>;

    /// Adds a class; `number` is `class - below`, which every caller has already computed.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find).
    unsafe fn insert<W: Width>(memory: Memory<W>, at: usize, below: usize, class: usize, number: usize);

    /// Removes the class `below + number`.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find), and the class is a member.
    unsafe fn remove<W: Width>(memory: Memory<W>, at: usize, below: usize, number: usize);

    /// Whether membership of `class` equals `is_member`, on every level.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find).
    unsafe fn agrees<W: Width>(memory: Memory<W>, at: usize, below: usize, class: usize, is_member: bool) -> bool;

    /// Removes `class`, which is `below + number`, if `gone`. Branch-free, because `gone` is hard to predict.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find), and the class is a member.
    unsafe fn remove_if<W: Width>(memory: Memory<W>, at: usize, below: usize, class: usize, number: usize, gone: bool);
}

/// The bit of `class` in its word. The shift takes the class modulo the word width, as the processor does.
#[inline(always)]
fn bit(class: usize) -> usize {
    1usize.wrapping_shl(class as u32)
}

/// All bits except that of `fixed + number`: a constant, rotated by `number`.
#[inline(always)]
fn all_but(fixed: usize, number: usize) -> usize {
    (!bit(fixed)).rotate_left(number as u32)
}

/// One word: for the power-of-two classes of half-fit.
#[derive(Clone, Copy, Debug)]
pub struct OneWord;

impl Sealed for OneWord {}

impl Bitmap for OneWord {
    #[inline(always)]
    fn bytes(_: usize, _: usize) -> usize {
        size_of::<usize>()
    }

    #[inline(always)]
    unsafe fn find<W: Width>(memory: Memory<W>, at: usize, _: usize, class: usize) -> Option<usize> {
        // SAFETY: a set is at `at`: one initialised, aligned word of the control structure.
        let members = unsafe { memory.load_bits(at) };
        let candidates = NonZeroUsize::new(members & usize::MAX.wrapping_shl(class as u32))?;
        Some(first_set(candidates) as usize)
    }

    #[inline(always)]
    unsafe fn highest<W: Width>(memory: Memory<W>, at: usize, _: usize) -> Option<usize> {
        // SAFETY: a set is at `at`: one initialised, aligned word of the control structure.
        let members = unsafe { memory.load_bits(at) };
        NonZeroUsize::new(members).map(|members| floor_log2(members) as usize)
    }

    #[inline(always)]
    unsafe fn insert<W: Width>(memory: Memory<W>, at: usize, _: usize, class: usize, _: usize) {
        // SAFETY: a set is at `at`: one initialised, aligned word of the control structure.
        unsafe { memory.store_bits(at, memory.load_bits(at) | bit(class)) }
    }

    #[inline(always)]
    unsafe fn remove<W: Width>(memory: Memory<W>, at: usize, below: usize, number: usize) {
        // SAFETY: a set is at `at`: one initialised, aligned word of the control structure.
        unsafe { memory.store_bits(at, memory.load_bits(at) & all_but(below, number)) }
    }

    unsafe fn agrees<W: Width>(memory: Memory<W>, at: usize, _: usize, class: usize, is_member: bool) -> bool {
        // SAFETY: a set is at `at`: one initialised, aligned word of the control structure.
        (unsafe { memory.load_bits(at) } & bit(class) != 0) == is_member
    }

    #[inline(always)]
    unsafe fn remove_if<W: Width>(memory: Memory<W>, at: usize, _: usize, class: usize, _: usize, gone: bool) {
        // SAFETY: a set is at `at`: one initialised, aligned word. Flipping the member's bit clears it.
        unsafe { memory.store_bits(at, memory.load_bits(at) ^ usize::from(gone).wrapping_shl(class as u32)) }
    }
}

/// Two levels: leaf words, and a summary word with one bit per leaf that is not zero.
///
/// The levels follow the machine word, not the class map: with J = 5 on a 64-bit machine a leaf spans two power-of-two
/// ranges, which halves the number of leaves.
#[derive(Clone, Copy, Debug)]
pub struct TwoLevel;

impl TwoLevel {
    /// Offset of leaf number `leaf`; leaf 0 holds the first class.
    #[inline(always)]
    fn leaf_at(at: usize, leaf: usize) -> usize {
        at.wrapping_add(size_of::<usize>()).wrapping_add(leaf.wrapping_mul(size_of::<usize>()))
    }

    /// The number of a class's leaf.
    #[inline(always)]
    fn leaf(below: usize, class: usize) -> usize {
        (class / BITS).wrapping_sub(below / BITS)
    }
}

impl Sealed for TwoLevel {}

impl Bitmap for TwoLevel {
    fn bytes(below: usize, highest: usize) -> usize {
        (2 + highest / BITS - below / BITS) * size_of::<usize>()
    }

    #[inline(always)]
    unsafe fn find<W: Width>(memory: Memory<W>, at: usize, below: usize, class: usize) -> Option<usize> {
        let leaf = Self::leaf(below, class);
        // SAFETY: a set with a leaf for `class` is at `at`. A summary bit is set only if its leaf is not zero.
        unsafe {
            let here = memory.load_bits(Self::leaf_at(at, leaf)).wrapping_shr(class as u32);
            let here = computed(here as u64) as usize;
            // Predictable branch: avoids the latency of the bit scan.
            if here & 1 != 0 {
                return Some(class);
            }
            if let Some(here) = NonZeroUsize::new(here) {
                return Some(class + first_set(here) as usize);
            }
            let later = (usize::MAX - 1).wrapping_shl(leaf as u32);
            let leaf = first_set(NonZeroUsize::new(memory.load_bits(at) & later)?) as usize;
            let members = NonZeroUsize::new_unchecked(memory.load_bits(Self::leaf_at(at, leaf)));
            Some((leaf + below / BITS) * BITS + first_set(members) as usize)
        }
    }

    #[inline(always)]
    unsafe fn highest<W: Width>(memory: Memory<W>, at: usize, below: usize) -> Option<usize> {
        // SAFETY: a set is at `at`. A summary bit is set only if its leaf is not zero.
        unsafe {
            let leaf = floor_log2(NonZeroUsize::new(memory.load_bits(at))?) as usize;
            let members = NonZeroUsize::new_unchecked(memory.load_bits(Self::leaf_at(at, leaf)));
            Some((leaf + below / BITS) * BITS + floor_log2(members) as usize)
        }
    }

    #[inline(always)]
    unsafe fn insert<W: Width>(memory: Memory<W>, at: usize, below: usize, class: usize, number: usize) {
        let leaf = (number + below % BITS) / BITS;
        let leaf_at = Self::leaf_at(at, leaf);
        // SAFETY: a set with a leaf for `class` is at `at`, so the leaf and the summary are initialised words of it.
        unsafe {
            memory.store_bits(leaf_at, memory.load_bits(leaf_at) | bit(class));
            memory.store_bits(at, with_bit(memory.load_bits(at), leaf));
        }
    }

    #[inline(always)]
    unsafe fn remove<W: Width>(memory: Memory<W>, at: usize, below: usize, number: usize) {
        let number = number + below % BITS;
        let leaf = number / BITS;
        let leaf_at = Self::leaf_at(at, leaf);
        // SAFETY: a set with a leaf for the class is at `at`, so the leaf and the summary are initialised words of it.
        unsafe {
            let members = memory.load_bits(leaf_at) & all_but(0, number);
            memory.store_bits(leaf_at, members);
            if members == 0 {
                memory.store_bits(at, without_bit(memory.load_bits(at), leaf));
            } else {
                core::hint::cold_path();
            }
        }
    }

    unsafe fn agrees<W: Width>(memory: Memory<W>, at: usize, below: usize, class: usize, is_member: bool) -> bool {
        let leaf = Self::leaf(below, class);
        // SAFETY: a set with a leaf for `class` is at `at`, so the leaf and the summary are initialised words of it.
        let (members, leaves) = unsafe { (memory.load_bits(Self::leaf_at(at, leaf)), memory.load_bits(at)) };
        (members & bit(class) != 0) == is_member && (leaves & bit(leaf) != 0) == (members != 0)
    }

    #[inline(always)]
    unsafe fn remove_if<W: Width>(memory: Memory<W>, at: usize, below: usize, class: usize, number: usize, gone: bool) {
        let leaf = (number + below % BITS) / BITS;
        let leaf_at = Self::leaf_at(at, leaf);
        // SAFETY: a set with a leaf for `class` is at `at`. The class is a member, so flipping its bit clears it; a
        // leaf becomes empty only if its last member is cleared.
        unsafe {
            let members = memory.load_bits(leaf_at) ^ usize::from(gone).wrapping_shl(class as u32);
            memory.store_bits(leaf_at, members);
            if members == 0 {
                memory.store_bits(at, without_bit(memory.load_bits(at), leaf));
            }
        }
    }
}

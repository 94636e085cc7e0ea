//! Choices by type, and the arithmetic of runs in one word.

use crate::contract::{LoopBound, loop_bound};
use crate::mechanism::bits::first_set;
use crate::mechanism::sealed::Sealed;
use core::num::NonZeroUsize;

/// Binary logarithm of the bits of a machine word.
pub const WORD_LOG2: u32 = usize::BITS.ilog2();

/// How many bits of a word are used, and whether the unneeded part of a block becomes free.
pub trait Shape: Sealed + Copy + core::fmt::Debug + Send + Sync + 'static {
    /// Binary logarithm of the bits that a word of the hierarchy uses.
    const FAN_LOG2: u32;
    /// Whether the tail of a block becomes free as soon as the block is allocated.
    const TRIMS: bool;
    /// Name of the allocator.
    const NAME: &'static str;
    /// Short description of the policy.
    const POLICY: &'static str;
}

/// A block keeps the leaves it needs; the others become free at once. Words have `2^FAN_LOG2` bits: fewer bits than a
/// machine word make the hierarchy deep in little memory, for tests and models.
#[derive(Clone, Copy, Debug)]
pub struct Trimmed<const FAN_LOG2: u32 = WORD_LOG2>;

/// A block is a power of two of leaves. Words as in [`Trimmed`].
#[derive(Clone, Copy, Debug)]
pub struct Whole<const FAN_LOG2: u32 = WORD_LOG2>;

impl<const FAN_LOG2: u32> Sealed for Trimmed<FAN_LOG2> {}
impl<const FAN_LOG2: u32> Sealed for Whole<FAN_LOG2> {}

impl<const FAN_LOG2: u32> Shape for Trimmed<FAN_LOG2> {
    const FAN_LOG2: u32 = FAN_LOG2;
    const TRIMS: bool = true;
    const NAME: &'static str = "bitmap-buddy";
    const POLICY: &'static str = "binary buddies, tails trimmed";
}

impl<const FAN_LOG2: u32> Shape for Whole<FAN_LOG2> {
    const FAN_LOG2: u32 = FAN_LOG2;
    const TRIMS: bool = false;
    const NAME: &'static str = "bitmap-buddy-whole";
    const POLICY: &'static str = "binary buddies";
}

/// The number of bits that a word uses.
#[inline(always)]
pub(super) const fn bits<S: Shape>() -> usize {
    assert!(S::FAN_LOG2 >= 1 && S::FAN_LOG2 <= WORD_LOG2, "a word must use from 2 bits to all");
    1 << S::FAN_LOG2
}

/// A word whose bits are all set.
#[inline(always)]
pub(super) const fn all<S: Shape>() -> usize {
    usize::MAX >> (usize::BITS as usize - bits::<S>())
}

/// The first `count` bits of a word, from one to all.
#[inline(always)]
pub(super) const fn ones<S: Shape>(count: usize) -> usize {
    usize::MAX.wrapping_shr(usize::BITS - count as u32) & all::<S>()
}

/// The bits whose number is a multiple of `2^run`.
#[inline(always)]
const fn aligned<S: Shape>(run: usize) -> usize {
    all::<S>() / (usize::MAX >> (usize::BITS as usize - (1 << run)))
}

/// The positions where a run of `2^run` set bits begins, at a multiple of its length, given the positions of runs of
/// half that length. (For `run` 0, these are all set bits.)
///
/// ```text
/// word         1111_0110    runs of 1   1111_0110
///                           runs of 2   0101_0000
///                           runs of 4   0001_0000
/// ```
#[inline(always)]
const fn doubled<S: Shape>(halves: usize, run: usize) -> usize {
    halves & halves >> (1 << (run - 1)) & aligned::<S>(run)
}

/// The positions where a run of `2^run` set bits begins, at a multiple of its length.
#[inline(always)]
pub(super) fn runs<S: Shape>(word: usize, run: usize) -> usize {
    let mut places = word;
    let mut length = 1;
    while length <= run {
        loop_bound!(LoopBound::Fixed(5));
        places = doubled::<S>(places, length);
        length += 1;
    }
    places
}

/// The longest run in a nonzero word, as its logarithm, at most half the word.
#[inline(always)]
pub(super) fn longest_run<S: Shape>(word: NonZeroUsize) -> usize {
    let mut places = word.get();
    let mut run = 0;
    while run + 1 < S::FAN_LOG2 as usize {
        loop_bound!(LoopBound::Fixed(5));
        places = doubled::<S>(places, run + 1);
        if places == 0 {
            break;
        }
        run += 1;
    }
    run
}

/// Number of the first set bit from `start` on, wrapping around, of a nonzero word.
#[inline(always)]
pub(super) fn first_from(word: NonZeroUsize, start: usize) -> usize {
    let later = word.get() & usize::MAX.wrapping_shl(start as u32);
    first_set(NonZeroUsize::new(later).unwrap_or(word)) as usize
}

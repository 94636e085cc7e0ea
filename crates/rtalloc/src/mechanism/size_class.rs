//! Size classes, and maps from block sizes to them.

use crate::mechanism::bits::{computed, floor_log2, floor_log2_in_place, sum_with};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::word::Width;
use core::num::NonZeroUsize;

/// The number of a size class. Neither a size nor an offset nor an index: each conversion is a function.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(usize);

impl Class {
    /// The class of a number.
    #[inline(always)]
    pub const fn new(number: usize) -> Self {
        Class(number)
    }

    /// The number.
    #[inline(always)]
    pub const fn number(self) -> usize {
        self.0
    }

    /// The class `count` after this one.
    #[inline(always)]
    pub const fn up(self, count: usize) -> Self {
        Class(self.0.wrapping_add(count))
    }

    /// The class `count` before this one.
    #[inline(always)]
    pub const fn down(self, count: usize) -> Self {
        Class(self.0.wrapping_sub(count))
    }

    /// How far the class is above another, `below`.
    #[inline(always)]
    pub const fn rank(self, below: Class) -> Rank {
        Rank(self.0.wrapping_sub(below.0))
    }

    /// The bit of the class in its word of a bitmap. The shift takes the number modulo the word width, as the processor
    /// does.
    #[inline(always)]
    pub const fn bit(self) -> usize {
        1usize.wrapping_shl(self.0 as u32)
    }

    /// The classes from this one to `last`.
    #[inline(always)]
    pub fn through(self, last: Class) -> impl DoubleEndedIterator<Item = Class> {
        (self.0..=last.0).map(Class)
    }
}

/// How far a class is above another, such as [`Classes::below`]: an index.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank(usize);

impl Rank {
    /// The rank of a number.
    #[inline(always)]
    pub const fn new(number: usize) -> Self {
        Rank(number)
    }

    /// The number.
    #[inline(always)]
    pub const fn number(self) -> usize {
        self.0
    }
}

/// A division of block sizes into classes: every block of a class has at least the class's [`size`](Self::size).
///
/// Sizes are bytes in whole granules. Class numbers do not begin at zero, because that would cost an instruction in
/// every mapping: where a class is the index of an array, the difference is part of the address.
pub trait Classes: Sealed + Copy + core::fmt::Debug + 'static {
    /// The class before the smallest block's; no block has it.
    fn below<W: Width>() -> Class;
    /// The class of the largest block whose size a word can hold.
    fn highest<W: Width>() -> Class;
    /// The class that holds free blocks of `size`; the papers' `mapping_insert`.
    fn class_of<W: Width>(size: usize) -> Class;
    /// The class below the lowest one whose every block has a byte `last`, and the size at which that lowest class
    /// begins; the papers' `mapping_search`. `last` need not be the last byte of a granule, but is at least one less
    /// than the smallest block.
    fn below_for<W: Width>(last: usize) -> (Class, usize);
    /// Size of the smallest block of a class.
    fn size<W: Width>(class: Class) -> usize;
}

/// Two-level classes of the TLSF paper (4.1, 5.1): every power-of-two range is divided linearly into 2^J classes,
/// and sizes below 2^J granules, where a range has fewer sizes than classes, have a class each.
///
/// The paper's two indices are kept as one number, first level · 2^J + second level, so that rounding up to the next
/// class carries into the next range.
///
/// ```text
/// J = 2:  granules  1 2 3 | 4 5 6 7 | 8-9 10-11 12-13 14-15 | 16-19 ...
///         class     1 2 3 | 4 5 6 7 |  8    9     10    11  |  12         + below
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TwoLevelClasses<const J: u32>;

impl<const J: u32> TwoLevelClasses<J> {
    /// log2 of the class width at a size.
    #[inline(always)]
    fn shift<W: Width>(size: usize) -> usize {
        const {
            // The summary word has a bit per leaf; 2^6 classes per range would need more than 32 leaves of 32 bits.
            assert!(J >= 1 && J <= 6, "J must be between 1 and 6");
            assert!(usize::BITS == 64 || J <= 5, "J must be at most 5 on 32-bit machines");
        }
        // SAFETY: `GRANULE << J` has a bit above bit J - 1, so the operand is not zero, and its logarithm is at least J.
        unsafe {
            let log2 = floor_log2_in_place(NonZeroUsize::new_unchecked(size | W::GRANULE << J));
            core::hint::assert_unchecked(log2 >= J as usize);
            log2 - J as usize
        }
    }
}

impl<const J: u32> TwoLevelClasses<J> {
    /// What is subtracted from every class number: a multiple of the word width, so that bits are numbered as without.
    /// On x86-64, where the sum of two numbers and a constant is one instruction, class numbers begin near zero. Then
    /// no number is below the first class's, and removing a block tests for greater ones only.
    #[inline(always)]
    const fn less(granule: usize) -> usize {
        let first = (granule.ilog2() as usize) << J;
        if cfg!(all(target_arch = "x86_64", not(miri))) { first & !(usize::BITS as usize - 1) } else { 0 }
    }

    /// The class of a quotient by 2^shift, both constant.
    #[inline(always)]
    fn constant<W: Width>(quotient: usize, shift: u32) -> Class {
        Class::new(quotient + ((shift as usize) << J) - Self::less(W::GRANULE))
    }

    /// The class of a quotient by 2^shift.
    #[inline(always)]
    fn numbered<W: Width>(quotient: usize, shift: usize) -> Class {
        let first = shift << J;
        Class::new(match const { Self::less(W::GRANULE) } {
            0 => quotient + first,
            _ => sum_with!(quotient, first, -(Self::less(W::GRANULE) as isize)),
        })
    }
}

impl<const J: u32> Sealed for TwoLevelClasses<J> {}

impl<const J: u32> Classes for TwoLevelClasses<J> {
    #[inline(always)]
    fn below<W: Width>() -> Class {
        Self::constant::<W>(0, W::GRANULE.ilog2())
    }

    #[inline(always)]
    fn highest<W: Width>() -> Class {
        Self::constant::<W>((2 << J) - 1, W::MAX.ilog2() - J)
    }

    #[inline(always)]
    fn class_of<W: Width>(size: usize) -> Class {
        let shift = Self::shift::<W>(size);
        Self::numbered::<W>(size >> shift, shift)
    }

    #[inline(always)]
    fn below_for<W: Width>(last: usize) -> (Class, usize) {
        // If the last byte is in a lower range than the size, the quotient is the largest of its range, and adding one
        // carries into the next.
        let shift = Self::shift::<W>(last);
        let quotient = last >> shift;
        let rounded = computed(((quotient + 1) << shift) as u64) as usize;
        (Self::numbered::<W>(quotient, shift), rounded)
    }

    #[inline(always)]
    fn size<W: Width>(class: Class) -> usize {
        let class = class.up(Self::less(W::GRANULE));
        let shift = ((class.number() >> J).saturating_sub(1)).max(W::GRANULE.ilog2() as usize);
        class.down(shift << J).number() << shift
    }
}

/// Power-of-two classes of half-fit (TLSF paper 2.2): class i holds blocks of 2^i to 2^(i+1) - 1; a request of r is
/// served from class floor(log2(r - 1)) + 1.
#[derive(Clone, Copy, Debug)]
pub struct PowerOfTwoClasses;

impl Sealed for PowerOfTwoClasses {}

impl Classes for PowerOfTwoClasses {
    #[inline(always)]
    fn below<W: Width>() -> Class {
        Class::new(W::GRANULE.ilog2() as usize - 1)
    }

    #[inline(always)]
    fn highest<W: Width>() -> Class {
        Class::new(W::MAX.ilog2() as usize)
    }

    #[inline(always)]
    fn class_of<W: Width>(size: usize) -> Class {
        // SAFETY: bit 0 is set, so the operand is not zero.
        Class::new(floor_log2(unsafe { NonZeroUsize::new_unchecked(size | 1) }) as usize)
    }

    #[inline(always)]
    fn below_for<W: Width>(last: usize) -> (Class, usize) {
        // SAFETY: the operand has bits of the granule. They do not change the logarithm of the last byte's number in a
        // granule's block or a larger one.
        let class = floor_log2(unsafe { NonZeroUsize::new_unchecked(last | (W::GRANULE - 1)) }) as usize;
        (Class::new(class), 2usize.wrapping_shl(class as u32))
    }

    #[inline(always)]
    fn size<W: Width>(class: Class) -> usize {
        1 << class.number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::word::{Offset16, Offset32};

    fn agrees_with_definition<C: Classes, W: Width>(limit: usize) {
        assert_eq!(C::highest::<W>(), C::class_of::<W>(W::MAX & !(W::GRANULE - 1)));
        for size in (W::GRANULE..limit).step_by(W::GRANULE) {
            let class = C::class_of::<W>(size);
            assert!(class > C::below::<W>(), "class of {size}");
            assert!(C::size::<W>(class) <= size && size < C::size::<W>(class.up(1)), "class of {size}");
            let (below, floor) = C::below_for::<W>(size - 1);
            let class = below.up(1);
            assert_eq!(floor, C::size::<W>(class), "floor of the class for {size}");
            for last in size - W::GRANULE..size {
                let anyhow = last.max(W::MIN_BLOCK - 1);
                let (below, floor) = C::below_for::<W>(anyhow);
                assert_eq!((below.up(1), floor).1, C::below_for::<W>(anyhow | (W::GRANULE - 1)).1, "byte {last}");
                assert_eq!(floor, C::size::<W>(below.up(1)), "byte {last}");
            }
            assert!(size <= floor, "the class for {size} begins below it");
            let is_first = class == C::below::<W>().up(1);
            assert!(is_first || C::size::<W>(class.down(1)) < size, "a lower class serves {size} too");
        }
    }

    #[test]
    fn classes_are_what_they_say() {
        agrees_with_definition::<TwoLevelClasses<1>, Offset32>(80_000);
        agrees_with_definition::<TwoLevelClasses<3>, Offset16>(65_000);
        agrees_with_definition::<TwoLevelClasses<5>, Offset32>(1_200_000);
        agrees_with_definition::<TwoLevelClasses<{ if usize::BITS == 64 { 6 } else { 5 } }>, Offset32>(1_200_000);
        agrees_with_definition::<PowerOfTwoClasses, Offset32>(1_200_000);
        agrees_with_definition::<PowerOfTwoClasses, Offset16>(65_000);
    }

    /// The paper's examples: with J = 3, r = 74 is inserted in (6, 1), which begins at 72, and searched from (6, 2),
    /// which begins at 80 (section 5; here in granules of 8, so that 74 has a class width of one granule too); a
    /// request of 1512 is rounded up to 1536 (figure 4).
    #[test]
    fn the_papers_examples() {
        type C = TwoLevelClasses<3>;
        assert_eq!(C::size::<Offset16>(C::class_of::<Offset16>(74 * 8)), 72 * 8);
        assert_eq!(C::below_for::<Offset16>(74 * 8 - 1).1, 80 * 8);
        assert_eq!(C::below_for::<Offset16>(1511).1, 1536);
    }

    #[test]
    fn half_fit_index_is_the_papers_formula() {
        for r in (8usize..10_000).step_by(8) {
            assert_eq!(PowerOfTwoClasses::below_for::<Offset16>(r - 1).0, Class::new((r - 1).ilog2() as usize));
        }
    }
}

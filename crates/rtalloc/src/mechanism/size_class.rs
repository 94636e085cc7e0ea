//! Maps from block sizes to size classes. Sizes are in granules here; class 0 is the smallest.

use crate::mechanism::bits::floor_log2;
use core::num::NonZeroUsize;

/// A division of block sizes into classes such that every block of a class is at least its [`floor`](Self::size)
/// large.
pub trait Classes: Copy + core::fmt::Debug + 'static {
    /// The class that holds free blocks of `granules`; the papers' `mapping_insert`.
    fn class_of(granules: usize) -> usize;
    /// The lowest class whose every block serves a request of `granules`, and the size in granules at which that
    /// class begins; the papers' `mapping_search`.
    fn class_for(granules: usize) -> (usize, usize);
    /// Granules of the smallest block of a class.
    fn size(class: usize) -> usize;
}

/// Two-level classes of the TLSF paper (4.1, 5.1): every power-of-two range is divided linearly into 2^J classes,
/// and sizes below 2^J granules, where a range has fewer sizes than classes, have a class each.
///
/// The two indices of the paper are kept as one number, first level · 2^J + second level, so that the round-up to
/// the next class carries into the next range by itself.
///
/// ```text
/// J = 2:  granules  1 2 3 | 4 5 6 7 | 8-9 10-11 12-13 14-15 | 16-19 ...
///         class     1 2 3 | 4 5 6 7 |  8    9     10    11  |  12
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TwoLevelClasses<const J: u32>;

impl<const J: u32> TwoLevelClasses<J> {
    /// log2 of the class width at a size: 0 below 2^(J+1) granules.
    #[inline(always)]
    fn shift(granules: usize) -> u32 {
        const { assert!(J >= 1 && J <= 6, "J must be between 1 and 6") }
        // SAFETY: a bit is set.
        floor_log2(unsafe { NonZeroUsize::new_unchecked(granules | 1 << J) }) - J
    }
}

impl<const J: u32> Classes for TwoLevelClasses<J> {
    #[inline(always)]
    fn class_of(granules: usize) -> usize {
        let shift = Self::shift(granules);
        (granules >> shift) + ((shift as usize) << J)
    }

    #[inline(always)]
    fn class_for(granules: usize) -> (usize, usize) {
        let shift = Self::shift(granules);
        let width_mask = usize::MAX << shift;
        let up = granules.wrapping_add(!width_mask);
        ((up >> shift) + ((shift as usize) << J), up & width_mask)
    }

    #[inline(always)]
    fn size(class: usize) -> usize {
        let shift = (class >> J).saturating_sub(1);
        (class - (shift << J)) << shift
    }
}

/// Power-of-two classes of half-fit (TLSF paper 2.2): class i holds blocks of 2^i to 2^(i+1) - 1 granules; a request
/// of r granules is served from class floor(log2(r - 1)) + 1, or 0 if r = 1.
#[derive(Clone, Copy, Debug)]
pub struct PowerOfTwoClasses;

impl Classes for PowerOfTwoClasses {
    #[inline(always)]
    fn class_of(granules: usize) -> usize {
        // SAFETY: a bit is set.
        floor_log2(unsafe { NonZeroUsize::new_unchecked(granules | 1) }) as usize
    }

    #[inline(always)]
    fn class_for(granules: usize) -> (usize, usize) {
        // 2r - 1 instead of r - 1: the same logarithm plus one, and r = 1 is no special case.
        // SAFETY: a bit is set.
        let class = floor_log2(unsafe { NonZeroUsize::new_unchecked((granules.wrapping_mul(2).wrapping_sub(1)) | 1) });
        (class as usize, 1 << class)
    }

    #[inline(always)]
    fn size(class: usize) -> usize {
        1 << class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees_with_definition<C: Classes>(limit: usize) {
        for granules in 1..limit {
            let class = C::class_of(granules);
            assert!(C::size(class) <= granules && granules < C::size(class + 1), "class of {granules}");
            let (class, floor) = C::class_for(granules);
            assert_eq!(floor, C::size(class), "floor of the class for {granules}");
            assert!(granules <= floor, "the class for {granules} begins below it");
            assert!(class == 0 || C::size(class - 1) < granules, "a lower class serves {granules} too");
        }
    }

    #[test]
    fn classes_are_what_they_say() {
        agrees_with_definition::<TwoLevelClasses<1>>(5000);
        agrees_with_definition::<TwoLevelClasses<3>>(20_000);
        agrees_with_definition::<TwoLevelClasses<5>>(70_000);
        agrees_with_definition::<TwoLevelClasses<6>>(70_000);
        agrees_with_definition::<PowerOfTwoClasses>(70_000);
    }

    /// The paper's example (section 5): with J = 3, r = 74 is inserted in (6, 1), which begins at 72, and searched
    /// from (6, 2), which begins at 80.
    #[test]
    fn the_papers_example() {
        assert_eq!(TwoLevelClasses::<3>::size(TwoLevelClasses::<3>::class_of(74)), 72);
        assert_eq!(TwoLevelClasses::<3>::class_for(74).1, 80);
        // Figure 4: a request of 1512 is rounded up to 1536.
        assert_eq!(TwoLevelClasses::<3>::class_for(1512).1, 1536);
    }

    #[test]
    fn half_fit_index_is_the_papers_formula() {
        assert_eq!(PowerOfTwoClasses::class_for(1).0, 0);
        for r in 2usize..10_000 {
            assert_eq!(PowerOfTwoClasses::class_for(r).0, (r - 1).ilog2() as usize + 1);
        }
    }
}

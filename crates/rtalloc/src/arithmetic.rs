//! Sums, counts and multiples that cannot panic.
//!
//! The core library's check for overflow where the code that they are compiled into does. So in a program with
//! `overflow-checks = true` they would be panic edges of this library, even if it is compiled without.

/// The smallest multiple of `align`, a power of two, that is not below `value`, which is far from the largest number.
#[inline(always)]
pub(crate) const fn rounded_up(value: usize, align: usize) -> usize {
    value.wrapping_add(align - 1) & !(align - 1)
}

/// How many items there are.
#[inline(always)]
pub(crate) fn count<T>(items: impl Iterator<Item = T>) -> usize {
    items.fold(0, |count: usize, _| count.wrapping_add(1))
}

/// The sum of numbers, which is far from the largest one.
#[inline(always)]
pub(crate) fn sum(numbers: impl Iterator<Item = usize>) -> usize {
    numbers.fold(0, usize::wrapping_add)
}

//! One bit for every quantum of a page: where blocks begin, or which of them are live.
//!
//! Finding the bit of an address takes a shift; the number of a block in its page would take a division.

use crate::contract::{LoopBound, loop_bound};
use crate::mechanism::bits::first_set;
use core::num::NonZeroUsize;

/// Bits for the quanta of `QUANTUM` bytes, a power of two, of a page of `PAGE` bytes. The caller passes their address.
#[derive(Clone, Copy, Debug)]
pub struct Marks<const PAGE: usize, const QUANTUM: usize>;

impl<const PAGE: usize, const QUANTUM: usize> Marks<PAGE, QUANTUM> {
    /// Number of bits.
    pub const COUNT: usize = {
        assert!(QUANTUM.is_power_of_two() && PAGE.is_multiple_of(QUANTUM), "quanta divide a page");
        PAGE / QUANTUM
    };
    /// Words for the bits.
    pub const WORDS: usize = Self::COUNT.div_ceil(usize::BITS as usize);
    /// Bytes for the bits.
    pub const BYTES: usize = Self::WORDS * size_of::<usize>();

    /// The number of the bit of a byte of the page.
    #[inline(always)]
    pub const fn index(offset_bytes: usize) -> usize {
        offset_bytes >> QUANTUM.trailing_zeros()
    }

    /// The word of a bit, and the bit in it.
    #[inline(always)]
    fn place(at: usize, index: usize) -> (*mut usize, usize) {
        let word = if Self::WORDS == 1 { 0 } else { index / usize::BITS as usize };
        let address = at.wrapping_add(word.wrapping_mul(size_of::<usize>()));
        (core::ptr::with_exposed_provenance_mut(address), 1usize.wrapping_shl(index as u32))
    }

    /// Clears every bit.
    ///
    /// # Safety
    ///
    /// The caller owns [`BYTES`](Self::BYTES) at `at`, aligned to a word.
    #[inline(always)]
    pub unsafe fn begin(at: usize) {
        // SAFETY: the caller owns `WORDS` aligned words at `at`.
        unsafe { core::ptr::with_exposed_provenance_mut::<usize>(at).write_bytes(0, Self::WORDS) }
    }

    /// Whether a bit is set.
    ///
    /// # Safety
    ///
    /// The bits at `at` are initialised; `index` is below [`COUNT`](Self::COUNT).
    #[inline(always)]
    pub unsafe fn is_set(at: usize, index: usize) -> bool {
        let (word, bit) = Self::place(at, index);
        // SAFETY: the caller guarantees initialised bits at `at`, and `index` is below their number.
        unsafe { word.read() & bit != 0 }
    }

    /// Sets a bit.
    ///
    /// # Safety
    ///
    /// As [`is_set`](Self::is_set).
    #[inline(always)]
    pub unsafe fn set(at: usize, index: usize) {
        let (word, bit) = Self::place(at, index);
        // SAFETY: the caller guarantees initialised bits at `at`, and `index` is below their number.
        unsafe { word.write(word.read() | bit) }
    }

    /// Clears a bit; returns whether it was set.
    ///
    /// # Safety
    ///
    /// As [`is_set`](Self::is_set).
    #[inline(always)]
    pub unsafe fn clear(at: usize, index: usize) -> bool {
        let (word, bit) = Self::place(at, index);
        // SAFETY: the caller guarantees initialised bits at `at`, and `index` is below their number.
        unsafe {
            let bits = word.read();
            if bits & bit == 0 {
                return false;
            }
            word.write(bits ^ bit);
        }
        true
    }

    /// The first set bit after `index`, or [`COUNT`](Self::COUNT).
    ///
    /// # Safety
    ///
    /// As [`is_set`](Self::is_set).
    ///
    /// # Time
    ///
    /// At most [`WORDS`](Self::WORDS) iterations; no loop if the bits are one word.
    #[inline(always)]
    pub unsafe fn next(at: usize, index: usize) -> usize {
        // Two shifts, because a shift by the whole width would be taken modulo the width.
        let above = (usize::MAX << 1).wrapping_shl(index as u32);
        let (word, _) = Self::place(at, index);
        // SAFETY: the caller guarantees initialised bits at `at`, and `index` is below their number.
        if let Some(bits) = NonZeroUsize::new(unsafe { word.read() } & above) {
            return (index & !(usize::BITS as usize - 1)) | first_set(bits) as usize;
        }
        let mut first = (index | (usize::BITS as usize - 1)).wrapping_add(1);
        while first < Self::COUNT {
            loop_bound!(LoopBound::PageGranules { per_iteration: 64 });
            let (word, _) = Self::place(at, first);
            // SAFETY: the caller guarantees initialised bits at `at`, and `first` is below their number.
            if let Some(bits) = NonZeroUsize::new(unsafe { word.read() }) {
                return first | first_set(bits) as usize;
            }
            first = first.wrapping_add(usize::BITS as usize);
        }
        Self::COUNT
    }

    /// Number of set bits.
    ///
    /// # Safety
    ///
    /// The bits at `at` are initialised.
    pub unsafe fn count(at: usize) -> usize {
        let words = core::ptr::with_exposed_provenance::<usize>(at);
        // SAFETY: the caller guarantees initialised bits at `at`, which are `WORDS` words.
        (0..Self::WORDS).map(|word| unsafe { words.add(word).read().count_ones() } as usize).sum()
    }

    /// Emits the words.
    ///
    /// # Safety
    ///
    /// The bits at `at` are initialised.
    pub unsafe fn fingerprint(at: usize, word: &mut dyn FnMut(usize)) {
        let words = core::ptr::with_exposed_provenance::<usize>(at);
        // SAFETY: the caller guarantees initialised bits at `at`, which are `WORDS` words.
        (0..Self::WORDS).for_each(|index| word(unsafe { words.add(index).read() }));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    fn behaves<const PAGE: usize, const QUANTUM: usize>() {
        let count = Marks::<PAGE, QUANTUM>::COUNT;
        let mut memory = vec![usize::MAX; Marks::<PAGE, QUANTUM>::WORDS];
        let at = memory.as_mut_ptr().expose_provenance();
        // SAFETY: the memory holds the bits and outlives the test.
        unsafe {
            Marks::<PAGE, QUANTUM>::begin(at);
            assert_eq!(Marks::<PAGE, QUANTUM>::count(at), 0);
            for first in 0..count {
                Marks::<PAGE, QUANTUM>::set(at, first);
                assert!(Marks::<PAGE, QUANTUM>::is_set(at, first));
                for second in first + 1..count {
                    assert_eq!(Marks::<PAGE, QUANTUM>::next(at, first), count);
                    Marks::<PAGE, QUANTUM>::set(at, second);
                    assert_eq!(Marks::<PAGE, QUANTUM>::next(at, first), second);
                    assert_eq!(Marks::<PAGE, QUANTUM>::count(at), 2);
                    assert!(Marks::<PAGE, QUANTUM>::clear(at, second));
                    assert!(!Marks::<PAGE, QUANTUM>::clear(at, second));
                }
                assert!(Marks::<PAGE, QUANTUM>::clear(at, first));
            }
        }
    }

    #[test]
    fn bits_of_a_word_or_less_or_more() {
        behaves::<64, 16>();
        behaves::<1024, 16>();
        behaves::<1024, 8>();
        behaves::<4096, 16>();
    }
}

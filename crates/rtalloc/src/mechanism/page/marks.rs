//! One bit for every quantum of a page: where blocks begin, or which of them are live.
//!
//! Finding the bit of an address takes a shift; the number of a block in its page would take a division.

use crate::arithmetic::sum;
use crate::contract::{LoopBound, loop_bound};
use crate::mechanism::bits::first_set;
use core::num::NonZeroUsize;

/// The number of a quantum of `QUANTUM` bytes in its page.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantum<const QUANTUM: usize>(usize);

impl<const QUANTUM: usize> Quantum<QUANTUM> {
    /// The quantum of a byte of the page.
    #[inline(always)]
    pub const fn at(offset_bytes: usize) -> Self {
        Quantum(offset_bytes >> QUANTUM.trailing_zeros())
    }

    /// Its offset in the page.
    #[inline(always)]
    pub const fn offset_bytes(self) -> usize {
        self.0.wrapping_mul(QUANTUM)
    }

    /// Bytes from another quantum, `start`, to this one.
    #[inline(always)]
    pub const fn bytes_from(self, start: Self) -> usize {
        self.0.wrapping_sub(start.0).wrapping_mul(QUANTUM)
    }

    /// The number.
    #[inline(always)]
    pub const fn number(self) -> usize {
        self.0
    }
}

/// Bits for the quanta of `QUANTUM` bytes, a power of two, of a page of `PAGE` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Marks<const PAGE: usize, const QUANTUM: usize> {
    /// Address of the bits.
    address: usize,
}

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

    /// The marks at an address.
    #[inline(always)]
    pub const fn new(address: usize) -> Self {
        Marks { address }
    }

    /// Address of the marks.
    #[inline(always)]
    pub const fn address(self) -> usize {
        self.address
    }

    /// Every quantum of a page.
    pub fn quanta() -> impl Iterator<Item = Quantum<QUANTUM>> {
        (0..Self::COUNT).map(Quantum)
    }

    /// The word of a bit, and the bit in it.
    #[inline(always)]
    fn place(self, quantum: Quantum<QUANTUM>) -> (*mut usize, usize) {
        let word = if Self::WORDS == 1 { 0 } else { quantum.0 / usize::BITS as usize };
        let address = self.address.wrapping_add(word.wrapping_mul(size_of::<usize>()));
        (core::ptr::with_exposed_provenance_mut(address), 1usize.wrapping_shl(quantum.0 as u32))
    }

    /// Clears every bit.
    ///
    /// # Safety
    ///
    /// The caller owns [`BYTES`](Self::BYTES) there, aligned to a word.
    #[inline(always)]
    pub unsafe fn begin(self) {
        // SAFETY: the caller owns `WORDS` aligned words there.
        unsafe { core::ptr::with_exposed_provenance_mut::<usize>(self.address).write_bytes(0, Self::WORDS) }
    }

    /// Whether a bit is set.
    ///
    /// # Safety
    ///
    /// The bits are initialised; `quantum` is below [`COUNT`](Self::COUNT).
    #[inline(always)]
    pub unsafe fn is_set(self, quantum: Quantum<QUANTUM>) -> bool {
        let (word, bit) = self.place(quantum);
        // SAFETY: the caller guarantees initialised bits, and `quantum` is below their number.
        unsafe { word.read() & bit != 0 }
    }

    /// Sets a bit.
    ///
    /// # Safety
    ///
    /// As [`is_set`](Self::is_set).
    #[inline(always)]
    pub unsafe fn set(self, quantum: Quantum<QUANTUM>) {
        let (word, bit) = self.place(quantum);
        // SAFETY: the caller guarantees initialised bits, and `quantum` is below their number.
        unsafe { word.write(word.read() | bit) }
    }

    /// Clears a bit; returns whether it was set.
    ///
    /// # Safety
    ///
    /// As [`is_set`](Self::is_set).
    #[inline(always)]
    pub unsafe fn clear(self, quantum: Quantum<QUANTUM>) -> bool {
        let (word, bit) = self.place(quantum);
        // SAFETY: the caller guarantees initialised bits, and `quantum` is below their number.
        unsafe {
            let bits = word.read();
            if bits & bit == 0 {
                return false;
            }
            word.write(bits ^ bit);
        }
        true
    }

    /// The first quantum after `quantum` whose bit is set, or the one after the last.
    ///
    /// # Safety
    ///
    /// As [`is_set`](Self::is_set).
    ///
    /// # Time
    ///
    /// At most [`WORDS`](Self::WORDS) iterations; no loop if the bits are one word.
    #[inline(always)]
    pub unsafe fn next(self, quantum: Quantum<QUANTUM>) -> Quantum<QUANTUM> {
        // Two shifts, because a shift by the whole width would be taken modulo the width.
        let above = (usize::MAX << 1).wrapping_shl(quantum.0 as u32);
        let (word, _) = self.place(quantum);
        // SAFETY: the caller guarantees initialised bits, and `quantum` is below their number.
        if let Some(bits) = NonZeroUsize::new(unsafe { word.read() } & above) {
            return Quantum((quantum.0 & !(usize::BITS as usize - 1)) | first_set(bits) as usize);
        }
        let mut first = (quantum.0 | (usize::BITS as usize - 1)).wrapping_add(1);
        while first < Self::COUNT {
            loop_bound!(LoopBound::PageGranules { per_iteration: 64 });
            let (word, _) = self.place(Quantum(first));
            // SAFETY: the caller guarantees initialised bits, and `first` is below their number.
            if let Some(bits) = NonZeroUsize::new(unsafe { word.read() }) {
                return Quantum(first | first_set(bits) as usize);
            }
            first = first.wrapping_add(usize::BITS as usize);
        }
        Quantum(Self::COUNT)
    }

    /// Number of set bits.
    ///
    /// # Safety
    ///
    /// The bits are initialised.
    pub unsafe fn count(self) -> usize {
        let words = core::ptr::with_exposed_provenance::<usize>(self.address);
        // SAFETY: the caller guarantees initialised bits, which are `WORDS` words.
        sum((0..Self::WORDS).map(|word| unsafe { words.add(word).read().count_ones() } as usize))
    }

    /// Emits the words.
    ///
    /// # Safety
    ///
    /// The bits are initialised.
    pub unsafe fn fingerprint(self, word: &mut dyn FnMut(usize)) {
        let words = core::ptr::with_exposed_provenance::<usize>(self.address);
        // SAFETY: the caller guarantees initialised bits, which are `WORDS` words.
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
        let marks = Marks::<PAGE, QUANTUM>::new(memory.as_mut_ptr().expose_provenance());
        // SAFETY: the memory holds the bits and outlives the test.
        unsafe {
            marks.begin();
            assert_eq!(marks.count(), 0);
            for first in Marks::<PAGE, QUANTUM>::quanta() {
                marks.set(first);
                assert!(marks.is_set(first));
                for second in Marks::<PAGE, QUANTUM>::quanta().filter(|&second| second > first) {
                    assert_eq!(marks.next(first).number(), count);
                    marks.set(second);
                    assert_eq!(marks.next(first), second);
                    assert_eq!(marks.count(), 2);
                    assert!(marks.clear(second));
                    assert!(!marks.clear(second));
                }
                assert!(marks.clear(first));
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

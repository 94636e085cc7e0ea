//! The width of tags and links.
//!
//! All tags and links of a heap have one width, which decides three things: how far a heap reaches, how many bytes
//! precede a block, and how small a block can be.
//!
//! | width | reach from the base | header | granule | smallest block |
//! |---|---|---|---|---|
//! | [`Offset16`] | 65,535 B | 2 B | 8 B | 8 B |
//! | [`Offset32`] | 4 GiB - 1 B | 4 B | 2·`usize` | 16 B |
//! | [`Offset32By8`] | 4 GiB - 1 B | 4 B | 8 B | 16 B |
//! | [`Wide`] | the address space | 1 `usize` | 2·`usize` | 4·`usize` |
//!
//! With a width narrower than a `usize`, added regions must lie after the first one, within reach. A whole `usize`
//! (`Wide`, and `Offset32` on a 32-bit machine) reaches regions anywhere.

use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::sealed::Sealed;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering};

/// A width of tags and links. Sealed: this module has all of them.
pub trait Width: Sealed + Sized + Copy + core::fmt::Debug + 'static {
    /// The integer in memory.
    type Word: Copy + 'static;
    /// Bytes of one word.
    const BYTES: usize;
    /// Bits of one word.
    const BITS: u32 = 8 * Self::BYTES as u32;
    /// Whether two words fit into one `usize`, the first of them in its lower half.
    const PAIRS: bool = 2 * Self::BYTES <= size_of::<usize>() && cfg!(target_endian = "little");
    /// Largest offset from the base that a word can hold.
    const MAX: usize;
    /// Block sizes and addresses are multiples of this.
    const GRANULE: usize;
    /// Two tags and two links, in whole granules.
    const MIN_BLOCK: usize = (4 * Self::BYTES).next_multiple_of(Self::GRANULE);
    /// The word's value.
    fn get(word: Self::Word) -> usize;
    /// The word that holds `value`, which must not exceed [`MAX`](Self::MAX): excess bits are dropped.
    fn put(value: usize) -> Self::Word;
    /// The two links at an offset as one integer, if [`PAIRS`](Self::PAIRS).
    ///
    /// # Safety
    ///
    /// Two initialised words are there, at a multiple of the granule.
    unsafe fn load_pair(memory: Memory<Self>, offset: Offset) -> Option<usize>;
    /// Writes two links at an offset, with one store if [`PAIRS`](Self::PAIRS): a processor forwards a store to a load
    /// of the pair only if one store wrote all of it.
    ///
    /// # Safety
    ///
    /// As [`Memory::store`], for both words, at a multiple of the granule.
    unsafe fn store_pair(memory: Memory<Self>, offset: Offset, first: Offset, second: Offset);
    /// Reads a word that its owner may write concurrently by
    /// [`store_watched`](Self::store_watched): an ordinary load.
    ///
    /// # Safety
    ///
    /// As [`Memory::load`].
    unsafe fn load_watched(memory: Memory<Self>, offset: Offset) -> usize;
    /// Writes a word that other threads may read concurrently by
    /// [`load_watched`](Self::load_watched): an ordinary store.
    ///
    /// # Safety
    ///
    /// As [`Memory::store`].
    unsafe fn store_watched(memory: Memory<Self>, offset: Offset, value: usize);
}

macro_rules! width {
    ($(#[$doc:meta])* $name:ident, $word:ty, $granule:expr, $pair:ty, $atomic:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Sealed for $name {}
        impl Width for $name {
            type Word = $word;
            const BYTES: usize = size_of::<$word>();
            const MAX: usize = <$word>::MAX as usize;
            const GRANULE: usize = $granule;
            #[inline(always)]
            fn get(word: $word) -> usize {
                word as usize
            }
            #[inline(always)]
            fn put(value: usize) -> $word {
                value as $word
            }
            #[inline(always)]
            unsafe fn load_pair(memory: Memory<Self>, offset: Offset) -> Option<usize> {
                // SAFETY: the caller guarantees two initialised words at a multiple of the granule: aligned.
                Self::PAIRS.then(|| unsafe { memory.at::<$pair>(offset).read() as usize })
            }
            #[inline(always)]
            unsafe fn store_pair(memory: Memory<Self>, offset: Offset, first: Offset, second: Offset) {
                // SAFETY: the caller guarantees room for two words at a multiple of the granule: aligned.
                unsafe {
                    if Self::PAIRS {
                        // No offset is beyond `MAX`, so the sum has both.
                        let pair = second.bytes().wrapping_shl(Self::BITS).wrapping_add(first.bytes());
                        memory.at::<$pair>(offset).write(pair as $pair);
                    } else {
                        memory.store_link(offset, first);
                        memory.store_link(offset.up(Self::BYTES), second);
                    }
                }
            }
            #[inline(always)]
            unsafe fn load_watched(memory: Memory<Self>, offset: Offset) -> usize {
                // SAFETY: the caller guarantees an initialised, aligned word; concurrent writes are atomic.
                Self::get(unsafe { <$atomic>::from_ptr(memory.at(offset)) }.load(Ordering::Relaxed))
            }
            #[inline(always)]
            unsafe fn store_watched(memory: Memory<Self>, offset: Offset, value: usize) {
                // SAFETY: the caller guarantees an aligned word of the heap; concurrent reads are atomic.
                unsafe { <$atomic>::from_ptr(memory.at(offset)) }.store(Self::put(value), Ordering::Relaxed);
            }
        }
    };
}

width! {
    /// Two-byte tags for heaps up to 65,535 bytes.
    Offset16, u16, 8, u32, AtomicU16
}
width! {
    /// Four-byte tags for heaps up to 4 GiB.
    Offset32, u32, 2 * size_of::<usize>(), u64, AtomicU32
}
width! {
    /// Four-byte tags as [`Offset32`], in granules of 8 bytes on every machine: blocks lose less to rounding, and are
    /// aligned to 8 bytes only.
    Offset32By8, u32, 8, u64, AtomicU32
}
width! {
    /// Tags of one machine word, for regions anywhere in the address space.
    Wide, usize, 2 * size_of::<usize>(), usize, AtomicUsize
}

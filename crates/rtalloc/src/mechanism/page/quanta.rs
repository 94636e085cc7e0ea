//! Size classes one quantum apart, for pages whose blocks are all of one class.
//!
//! A block of k quanta lies at a multiple of its size from the page's start, which is a multiple of the page's size. So
//! its alignment is the largest power of two that divides its size. A block that is alone in its page is at the page's
//! start:
//!
//! ```text
//! 24 bytes at alignment 64 -> class of 64:   [64][64][64] ...
//! 900 bytes at alignment 256 -> class of 912, alone in a page of 1,024
//! ```

use crate::contract::Block;
use crate::mechanism::page::marks::{Marks, Quantum};
use crate::mechanism::page::pool::{Footer, Page, Pool};
use crate::mechanism::size_class::Class;
use core::marker::PhantomData;

/// The default quantum: 16 bytes with a `usize` of 8 bytes. (In the papers, on 32-bit machines: 8.)
pub const QUANTUM: usize = 2 * size_of::<usize>();

/// `CLASSES` classes of 1, 2, 3 ... quanta, as long as a page with the footer `F` holds a block of the class.
#[derive(Clone, Copy, Debug)]
pub struct Quanta<F, const PAGE: usize, const QUANTUM: usize, const CLASSES: usize>(PhantomData<F>);

impl<F: Footer, const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> Quanta<F, PAGE, QUANTUM, CLASSES> {
    /// Bytes of a page available to blocks: whole quanta.
    pub const ROOM_BYTES: usize = {
        assert!(QUANTUM.is_power_of_two() && QUANTUM >= size_of::<u32>(), "a free block holds two links of 16 bits");
        assert!(PAGE <= 1 << 16, "offsets in a page have 16 bits");
        Pool::<F, PAGE>::BLOCK_BYTES & !(QUANTUM - 1)
    };

    /// Bytes of the largest class.
    pub const LARGEST_BYTES: usize = {
        assert!(CLASSES >= 1 && Self::ROOM_BYTES >= QUANTUM, "a page holds a block");
        let all = CLASSES * QUANTUM;
        if all < Self::ROOM_BYTES { all } else { Self::ROOM_BYTES }
    };

    /// The largest alignment in bytes that is available for every size up to it.
    pub const LARGEST_ALIGNMENT_BYTES: usize = 1 << Self::LARGEST_BYTES.ilog2();

    /// The class, from 0, of blocks of a size.
    #[inline(always)]
    pub const fn class(block_bytes: usize) -> Class {
        Class::new(block_bytes >> QUANTUM.trailing_zeros()).down(1)
    }

    /// The size of the blocks that serve a request of at least 1 and at most the largest class; `None` if no class has
    /// that alignment, a power of two, and is large enough.
    #[inline(always)]
    pub fn block_bytes(size_bytes: usize, align_bytes: usize) -> Option<usize> {
        if align_bytes > QUANTUM {
            return Self::aligned_block_bytes(size_bytes, align_bytes);
        }
        Some(Self::up(size_bytes, QUANTUM))
    }

    #[cold]
    #[inline(never)]
    fn aligned_block_bytes(size_bytes: usize, align_bytes: usize) -> Option<usize> {
        let multiple = Self::up(size_bytes, align_bytes);
        if multiple <= Self::LARGEST_BYTES {
            return Some(multiple);
        }
        // A block alone in its page lies at the page's start.
        let alone = Self::up(size_bytes, QUANTUM);
        (alone > Self::ROOM_BYTES / 2 && align_bytes <= PAGE).then_some(alone)
    }

    /// Bytes of a page that are whole blocks of a size. A size of 0, in a damaged page, yields the room.
    #[inline(always)]
    pub const fn whole_bytes(block_bytes: usize) -> usize {
        match Self::ROOM_BYTES.checked_rem(block_bytes) {
            Some(rest_bytes) => Self::ROOM_BYTES - rest_bytes,
            None => Self::ROOM_BYTES,
        }
    }

    /// Visits the blocks of a page: those cut so far, live or free by their marks `live`, and the uncut rest as one
    /// free block. In a damaged page, the blocks visited are unspecified, but lie within the room.
    ///
    /// # Safety
    ///
    /// The marks are the page's, initialised.
    pub unsafe fn walk_page(
        page: Page<PAGE>,
        block_bytes: usize,
        cut_bytes: usize,
        live: Marks<PAGE, QUANTUM>,
        visit: &mut dyn FnMut(Block),
    ) {
        let block = |offset, size_bytes, free| {
            let address = page.address(offset);
            Block { address, front_bytes: 0, size_bytes, usable_bytes: size_bytes, free }
        };
        let block_bytes = if block_bytes == 0 { Self::ROOM_BYTES } else { block_bytes };
        for offset in (0..cut_bytes.min(Self::ROOM_BYTES)).step_by(block_bytes) {
            // SAFETY: the marks are initialised, and the offset lies in the page.
            let is_live = unsafe { live.is_set(Quantum::at(offset)) };
            visit(block(offset, block_bytes, !is_live));
        }
        let whole_bytes = Self::whole_bytes(block_bytes);
        if cut_bytes < whole_bytes {
            visit(block(cut_bytes, whole_bytes - cut_bytes, true));
        }
    }

    /// `value` rounded up to a multiple of a power of two; the sum does not overflow.
    #[inline(always)]
    const fn up(value: usize, align: usize) -> usize {
        value.wrapping_add(align - 1) & !(align - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::sealed::Sealed;

    #[derive(Debug)]
    struct Footer32(#[expect(dead_code, reason = "its size counts")] [u32; 8]);
    impl Sealed for Footer32 {}
    impl Footer for Footer32 {
        fn is_in_use(&self) -> bool {
            false
        }
    }

    type Paper = Quanta<Footer32, 1024, 8, 64>;
    type Ours = Quanta<Footer32, 1024, 16, 64>;

    #[test]
    fn classes_are_the_papers() {
        assert_eq!((Paper::LARGEST_BYTES, Paper::ROOM_BYTES, Paper::LARGEST_ALIGNMENT_BYTES), (512, 992, 512));
        assert_eq!([1, 8, 9, 512].map(|size| Paper::block_bytes(size, 1)), [Some(8), Some(8), Some(16), Some(512)]);
        assert_eq!((Paper::class(8), Paper::class(512)), (Class::new(0), Class::new(63)));
        // Sixty-four classes of 16 bytes would end at 1,024, but a page has room for 62 quanta and its footer.
        assert_eq!((Ours::LARGEST_BYTES, Ours::class(Ours::LARGEST_BYTES)), (992, Class::new(61)));
    }

    #[test]
    fn a_damaged_page_is_walked_within_its_room() {
        let marks = [0usize; Marks::<1024, 16>::WORDS];
        for (block_bytes, cut_bytes) in [(0, 0), (0, 65_535), (16, 65_535), (65_520, 65_535), (3, 7)] {
            let mut blocks = 0;
            // SAFETY: the marks are initialised.
            unsafe {
                Ours::walk_page(
                    Page::of(1024),
                    block_bytes,
                    cut_bytes,
                    Marks::new(marks.as_ptr().expose_provenance()),
                    &mut |block| {
                        assert!(block.address < 2048);
                        blocks += 1;
                    },
                );
            }
            assert!((1..=64).contains(&blocks), "{block_bytes} {cut_bytes}");
        }
    }

    #[test]
    fn alignment_is_that_of_the_class_or_of_the_page() {
        assert_eq!(Ours::block_bytes(24, 64), Some(64));
        assert_eq!(Ours::block_bytes(65, 64), Some(128));
        assert_eq!(Ours::block_bytes(900, 256), Some(912));
        assert_eq!(Quanta::<Footer32, 4096, 16, 62>::block_bytes(900, 256), None);
    }
}

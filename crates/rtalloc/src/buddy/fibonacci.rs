//! Fibonacci buddies: sizes that are the sum of the two below them.
//!
//! # Idea
//!
//! A block of F(n) smallest blocks splits into F(n-1) and F(n-2) of them, the larger part first; the sizes are closer
//! together than powers of two (Hirschberg 1973; Puaut 2002, section 2.5; thesis, 3.2.3). A request takes the smaller
//! part if it suffices.
//!
//! ```text
//! sizes: 1 1 2 3 5 8 13 ...        request 2:  [free 13] -> [free 8][free 5] -> [free 8][free 3][used 2]
//! ```
//!
//! # The buddy, without a search
//!
//! A block of F(n) is the lower part of F(n+1) or the upper part of F(n+2), and its address does not say which.
//! Hirschberg stored in every block how often in succession it is a lower part, in as many bits as the levels take. Two
//! bits suffice (Cranston and Thomas 1975): the side of the block itself, and one bit inherited from an ancestor
//! ([`UPPER`] describes how splitting passes them down and merging restores them).
//!
//! ```text
//! lower part of class c at a:   buddy of class c-1 at a + F(c),    whole of class c+1 at a
//! upper part of class c at a:   buddy of class c+1 at a - F(c+1),  whole of class c+2 at a - F(c+1)
//! ```
//!
//! # Any region
//!
//! The top blocks are the largest Fibonacci number of smallest blocks that fits, then the largest that fits the rest,
//! and so on. No two of them are equal or neighbours in the series, and nothing is lost, because every number is such a
//! sum (Zeckendorf). The largest request is at least 1/1.62 of the region.
//!
//! # Placement of tags
//!
//! Tags are in headers of four bytes: with class and state, the two bits do not fit into one byte, so a side table
//! would cost an eighth of the heap. The sizes that programs prefer are not Fibonacci numbers anyway.
//!
//! # Alignment
//!
//! Blocks are aligned to the smallest block only. Beyond that, a block with room is taken and split as long as a part
//! holds the payload at its alignment, and the payload is displaced in it.
//!
//! # Costs
//!
//! If F(f) is the largest Fibonacci number up to the number of smallest blocks in the region, deallocate's loop has at
//! most f - 1 iterations, and allocate's half as many; f is about 1.44·log2. The smallest block has 16 bytes on 64-bit
//! machines, as in the papers (on 32-bit ones 8 bytes cannot hold header and links, so it has 16 there, too).
//!
//! # When they win, when they lose
//!
//! In the limit, a block has at most 1.62 times its request, against twice with binary buddies. Merging takes more
//! iterations, and table lookups instead of shifts. Remainders fit worse, and alignments cost memory.
//!
//! # Figures
//!
//! <!-- figures: fibonacci-buddy -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `fibonacci-buddy` | 652, 935, 1,800 | 4 B | 16 B | 140 B, 156 B | 779.0 %, 1335.8 % |
//!
//! Measured 2026-11-26 at 0d75829 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

use crate::mechanism::bits::floor_log2;
use crate::mechanism::buddy::{Buddies, Headers, Piece, System, UPPER, select, select_class};
use crate::mechanism::policy_heap::PolicyHeap;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::stats::NoStats;
use crate::mechanism::word::Offset32;
use core::num::NonZeroUsize;

/// Fibonacci buddies with links of width `W`, statistics `T`, tags in `P`, and a smallest block of `UNIT` bytes.
pub type FibonacciBuddy<'r, W = Offset32, T = NoStats, P = Headers, const UNIT: usize = 16> =
    PolicyHeap<'r, Buddies<Fibonacci<UNIT>, P, W>, T>;

/// Fibonacci numbers of `UNIT` bytes. Class n has F(n + 1) units: classes 0 and 1 are both one unit, the upper and the
/// lower part of two.
#[derive(Clone, Copy, Debug)]
pub struct Fibonacci<const UNIT: usize>;

/// Number of classes in the table: as many as tags and shifts can express.
const CLASSES: usize = 64;

impl<const UNIT: usize> Fibonacci<UNIT> {
    /// Bytes of each class, saturating at the end of the address space.
    const BYTES: [usize; CLASSES] = {
        let mut bytes = [UNIT; CLASSES];
        let mut class = 2;
        while class < CLASSES {
            bytes[class] = bytes[class - 1].saturating_add(bytes[class - 2]);
            class += 1;
        }
        bytes
    };

    /// For every power of two, the smallest class that is at least as large.
    const FROM_LOG2: [u8; usize::BITS as usize] = {
        let mut classes = [CLASSES as u8 - 3; usize::BITS as usize];
        let mut log2 = 0;
        while log2 < usize::BITS {
            let mut class = 0;
            while class < CLASSES - 3 && Self::BYTES[class] < 1 << log2 {
                class += 1;
            }
            classes[log2 as usize] = class as u8;
            log2 += 1;
        }
        classes
    };
}

impl<const UNIT: usize> Sealed for Fibonacci<UNIT> {}

// SAFETY: F(n) = F(n-1) + F(n-2). Top blocks count as lower parts: their computed buddy begins where the next top block
// does, at which every piece is a lower part, or at the end.
unsafe impl<const UNIT: usize> System for Fibonacci<UNIT> {
    const NAME: &'static str = "fibonacci-buddy";
    const SOURCE: &'static str = "Hirschberg 1973; Cranston and Thomas 1975; Puaut 2002, section 2.5";
    const POLICY: &'static str = "Fibonacci buddies";
    const UNIT_BYTES: usize = UNIT;
    const FIRST: Class = Class::new(0);
    const LAST: Class = {
        let mut class = 0;
        while class < CLASSES - 4 && Self::BYTES[class + 1] < usize::MAX / 4 {
            class += 1;
        }
        Class::new(class)
    };
    const HAS_SIDES: bool = true;
    const LEAVES: bool = false;
    const ALIGNED: u64 = 0;
    type Cell = u16;

    #[inline(always)]
    fn bytes(class: Class) -> usize {
        // SAFETY: the index is taken modulo the length of the table.
        unsafe { *Self::BYTES.get_unchecked(class.number() % CLASSES) }
    }

    #[inline(always)]
    fn class_for(bytes: usize) -> Class {
        // SAFETY: `UNIT` has a bit set, so the operand is not zero.
        let log2 = floor_log2(unsafe { NonZeroUsize::new_unchecked(bytes | UNIT) }) as usize;
        // SAFETY: the table has an entry for every logarithm of a `usize`.
        let class = Class::new(unsafe { *Self::FROM_LOG2.get_unchecked(log2) }.into());
        // At most two numbers of the series lie between a power of two and the next, so the third is beyond.
        class.up((Self::bytes(class) < bytes).into()).up((Self::bytes(class.up(1)) < bytes).into())
    }

    fn class_within(bytes: usize) -> Class {
        let mut class = Self::LAST;
        while class > Self::FIRST && Self::bytes(class) > bytes {
            class = class.down(1);
        }
        class
    }

    #[inline(always)]
    fn is_divisible(class: Class) -> bool {
        class.number() >= 2
    }

    #[inline(always)]
    fn upper(class: Class) -> Class {
        class.down(2)
    }

    #[inline(always)]
    fn buddy(_: usize, piece: Piece) -> Option<Piece> {
        let is_upper = piece.sides & UPPER != 0;
        let class = select_class(is_upper, piece.class.down(1), piece.class.up(1));
        // The lower one of the two is the larger one, and the upper one begins at its end.
        let lower_bytes = Self::bytes(select_class(is_upper, piece.class, class));
        let distance = select(is_upper, lower_bytes, lower_bytes.wrapping_neg());
        Some(Piece { address: piece.address.wrapping_add(distance), class, sides: piece.sides & UPPER ^ UPPER })
    }

    fn top(_: usize, end: usize, at: usize) -> Class {
        Self::class_within(end - at)
    }
}

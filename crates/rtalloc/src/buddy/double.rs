//! Double buddies: two binary systems with alternating sizes.
//!
//! # Idea
//!
//! One part of the heap has blocks of 2, 4, 8 ... units, the other of 3, 6, 12 ... units. In each, blocks split into
//! halves and merge as with binary buddies (Wise 1978; thesis, 3.2.3). A request takes the next size of either system
//! from the part that has it or, if that part has no room, the next larger size from the other part.
//!
//! ```text
//! [2^k: 16][ 32 .........][ 64 ............... ] | [3·2^k: 48 .............][24 .....][ 6][3]
//!     request 13: 16 from the left                     request 10: 12 from the right
//! ```
//!
//! # Any region
//!
//! If requests of all sizes are equally likely, the sizes up to a power of two are requested in the proportion three to
//! four. So about three sevenths of the region belong to the system of three, and the rest to the other. Both parts are
//! divided into the largest blocks that fit, and nothing is lost. The largest request is therefore between two and four
//! sevenths of a large region.
//!
//! # The buddy, without a search
//!
//! A block of 2^k units differs from its buddy in one bit of the address. A block of 3·2^k units is an odd or an even
//! multiple of its size from the start of its part. Three times an odd number is odd, so bit k of the distance, in
//! units, decides whether the buddy is before or after it.
//!
//! # Alignment
//!
//! Blocks of 2^k are aligned to their size. If none is free, the payload is displaced in a block of 3·2^k.
//!
//! # Costs
//!
//! With n units in the region, either loop has at most floor(log2 n) - 1 iterations. Tags are in a side table with one
//! byte for every unit, as with [`BinaryBuddy`](super::BinaryBuddy). A unit has 16 bytes by default on 64-bit machines,
//! so the smallest block has 32.
//!
//! # When they win, when they lose
//!
//! They are as fast as binary buddies, and a block has at most 1.5 times its request. Free blocks of one part are of
//! less use to the requests of the other, and no block is larger than either part.
//!
//! # Figures
//!
//! <!-- figures: double-buddy -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `double-buddy` | 616, 1,166, 1,058 | 0 B | 32 B | 4,000 B, 61,856 B | 727.3 %, 1251.4 % |
//!
//! Measured 2026-11-26 at 0d75829 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

use super::binary::{UNIT_BYTES, aligned_log2};
use super::weighted::Sizes;
use crate::mechanism::buddy::{Buddies, Piece, SideTable, System, lowest_from};
use crate::mechanism::policy_heap::PolicyHeap;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::stats::NoStats;
use crate::mechanism::word::Offset32;

/// Double buddies with links of width `W`, statistics `T`, tags in `P`, and smallest blocks of two and three times
/// `UNIT` bytes.
pub type DoubleBuddy<'r, W = Offset32, T = NoStats, P = SideTable, const UNIT: usize = UNIT_BYTES> =
    PolicyHeap<'r, Buddies<Double<UNIT>, P, W>, T>;

/// Sizes of 2^k and 3·2^k units. Class 2k has 2^k units, class 2k + 1 half as many more; the smallest are 2 and 3.
#[derive(Clone, Copy, Debug)]
pub struct Double<const UNIT: usize>;

/// The classes of powers of two.
const POWERS: u64 = u64::MAX / 3;

/// Whether a class is one of [`POWERS`].
#[inline(always)]
fn is_power(class: Class) -> bool {
    class.number() & 1 == 0
}

impl<const UNIT: usize> Double<UNIT> {
    /// Where the part with blocks of 3·2^k begins: an even number of units after the origin, a multiple of three units
    /// before the end.
    fn border(origin: usize, end: usize) -> usize {
        let units = (end - origin) / UNIT;
        let threes = units / 7;
        end - (threes + (threes + units) % 2) * (3 * UNIT)
    }
}

impl<const UNIT: usize> Sealed for Double<UNIT> {}

// SAFETY: both parts are binary systems, of units and of three units. The computed buddy of a top block has a class
// that the neighbouring top block does not have, or is in the other part or outside.
unsafe impl<const UNIT: usize> System for Double<UNIT> {
    const NAME: &'static str = "double-buddy";
    const SOURCE: &'static str = "Wise 1978";
    const POLICY: &'static str = "double buddies";
    const UNIT_BYTES: usize = UNIT;
    const SMALLEST_BYTES: usize = 2 * UNIT;
    const FIRST: Class = Class::new(2);
    const LAST: Class = Sizes::<UNIT>::LAST;
    const STEP: usize = 2;
    const HAS_SIDES: bool = false;
    const LEAVES: bool = true;
    const ALIGNED: u64 = POWERS;
    type Cell = u8;

    #[inline(always)]
    fn bytes(class: Class) -> usize {
        Sizes::<UNIT>::bytes(class)
    }

    #[inline(always)]
    fn class_for(bytes: usize) -> Class {
        Sizes::<UNIT>::class_for(bytes.max(Self::SMALLEST_BYTES))
    }

    fn class_within(bytes: usize) -> Class {
        Sizes::<UNIT>::class_within(bytes)
    }

    #[inline(always)]
    fn is_divisible(class: Class) -> bool {
        class.number() >= 4
    }

    #[inline(always)]
    fn upper(class: Class) -> Class {
        class.down(2)
    }

    fn anchor(origin: usize, end: usize) -> usize {
        Self::border(origin, end)
    }

    #[inline(always)]
    fn buddy(border: usize, piece: Piece) -> Option<Piece> {
        let bytes = Self::bytes(piece.class);
        let address = if is_power(piece.class) {
            piece.address ^ bytes
        } else {
            let power = (2 * UNIT).wrapping_shl((piece.class.number() / 2) as u32) / 2;
            let is_upper = piece.address.wrapping_sub(border) & (power / 2) != 0;
            if is_upper { piece.address.wrapping_sub(bytes) } else { piece.address.wrapping_add(bytes) }
        };
        Some(Piece { address, ..piece })
    }

    fn top(origin: usize, end: usize, at: usize) -> Class {
        let border = Self::border(origin, end);
        let class = match at < border {
            true => 2 * (aligned_log2(at, border - at) - UNIT.trailing_zeros()) as usize,
            false => 2 * (((end - at) / (3 * UNIT)) | 1).ilog2() as usize + 3,
        };
        Class::new(class.min(Self::LAST.number() - (Self::LAST.number() + class) % 2))
    }

    #[inline(always)]
    fn find(free: u64, class: Class) -> Option<Class> {
        let own = if is_power(class) { POWERS } else { !POWERS };
        lowest_from(free & own, class).or_else(|| lowest_from(free & !own, class))
    }
}

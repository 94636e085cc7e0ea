//! Weighted buddies: powers of two, and three times powers of two between them.
//!
//! # Idea
//!
//! Blocks have 2^k or 3·2^k smallest blocks. A power of two splits three to one, three times a power of two splits two
//! to one (Shen and Peterson 1974; thesis, 3.2.3), so there are twice as many sizes as with binary buddies:
//!
//! ```text
//! 2^(k+2):  [3·2^k ............][2^k]        3·2^k:  [2^(k+1) .....][2^k]
//!
//! request 1:  [free 16] -> [free 12][free 4] -> [free 12][free 3][used 1]
//! ```
//!
//! A block of two smallest blocks does not split: its parts would not be whole blocks.
//!
//! # The buddy, without a search
//!
//! All blocks lie at multiples of the largest power of two in them; three times a power of two even at multiples of the
//! next larger one. A lower part's buddy follows it. An upper part is 2^k at an address a whose bits k and k+1 give the
//! rest: if both are set, it was split from a power of two, and 3·2^k precede it; if only the upper one is set, it was
//! split from 3·2^k, and 2^(k+1) precede it. Whether a block is a lower or an upper part is stored in the two bits of
//! Cranston and Thomas ([`UPPER`]); Shen and Peterson store two type bits instead.
//!
//! # Any region
//!
//! The top blocks are the largest block that fits at an address and is allowed there, and so on; nothing is lost. Every
//! block of at least an alignment's size is aligned to it.
//!
//! # Costs
//!
//! With n smallest blocks in the region and k = floor(log2 n): at most 2·k - 1 iterations of deallocate's loop, and k +
//! 1 of allocate's. Tags are in headers, as with [`FibonacciBuddy`](super::FibonacciBuddy): they do not fit a byte.
//!
//! # When they win, when they lose
//!
//! A block has at most 1.5 times its request, header included, a third less loss than with binary buddies. The small
//! upper parts that every split leaves serve only small requests: external fragmentation is larger.
//!
//! # Figures
//!
//! <!-- figures: weighted-buddy -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `weighted-buddy` | 731, 744, 2,876 | 4 B | 16 B | 156 B, 188 B | 119.8 %, 79.4 % |
//!
//! Measured 2026-11-26 at 0d75829 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

use super::binary::aligned_log2;
use crate::mechanism::bits::floor_log2;
use crate::mechanism::buddy::{Buddies, Headers, Piece, System, UPPER, select, select_class};
use crate::mechanism::policy_heap::PolicyHeap;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::stats::NoStats;
use crate::mechanism::word::Offset32;
use core::num::NonZeroUsize;

/// Weighted buddies with links of width `W`, statistics `T`, tags in `P`, and a smallest block of `UNIT` bytes.
pub type WeightedBuddy<'r, W = Offset32, T = NoStats, P = Headers, const UNIT: usize = 16> =
    PolicyHeap<'r, Buddies<Weighted<UNIT>, P, W>, T>;

/// Sizes of 2^k and 3·2^k units. Class 2k has 2^k units, class 2k + 1 half as many more; there is no class 1.
#[derive(Clone, Copy, Debug)]
pub struct Weighted<const UNIT: usize>;

/// The sizes common to [`Weighted`] and [`Double`](super::double::Double).
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes<const UNIT: usize>;

impl<const UNIT: usize> Sizes<UNIT> {
    /// The largest class whose bytes fit an address, and which tags and shifts can express.
    pub(super) const LAST: Class = {
        let most_log2 = usize::BITS as usize - 2 - UNIT.trailing_zeros() as usize;
        Class::new(if 2 * most_log2 < 60 { 2 * most_log2 } else { 60 })
    };

    /// Bytes of a class.
    #[inline(always)]
    pub(super) fn bytes(class: Class) -> usize {
        ((2 + (class.number() & 1)) * (UNIT / 2)).wrapping_shl((class.number() / 2) as u32)
    }

    /// The smallest class of at least `bytes`.
    #[inline(always)]
    pub(super) fn class_for(bytes: usize) -> Class {
        let units = (bytes - 1) / UNIT + 1;
        // SAFETY: there is at least one unit, and twice that minus one is odd, so the operand is not zero.
        let log2 = floor_log2(unsafe { NonZeroUsize::new_unchecked(2 * units - 1) }) as usize;
        Class::new(2 * log2 - usize::from(4 * units <= 3usize.wrapping_shl(log2 as u32)))
    }

    /// The largest class of at most `bytes`.
    pub(super) fn class_within(bytes: usize) -> Class {
        let log2 = ((bytes / UNIT) | 1).ilog2() as usize;
        let is_half_more = log2 > 0 && bytes >= Self::bytes(Class::new(2 * log2 + 1));
        Self::LAST.min(Class::new(2 * log2 + usize::from(is_half_more)))
    }
}

impl<const UNIT: usize> Sealed for Weighted<UNIT> {}

// SAFETY: 4 = 3 + 1 and 3 = 2 + 1. Top blocks count as lower parts: their computed buddy begins where the next top
// block does, at which every piece is a lower part, or at the end.
unsafe impl<const UNIT: usize> System for Weighted<UNIT> {
    const NAME: &'static str = "weighted-buddy";
    const SOURCE: &'static str = "Shen and Peterson 1974";
    const POLICY: &'static str = "weighted buddies";
    const UNIT_BYTES: usize = UNIT;
    const FIRST: Class = Class::new(0);
    const LAST: Class = Sizes::<UNIT>::LAST;
    const HAS_SIDES: bool = true;
    const LEAVES: bool = false;
    const ALIGNED: u64 = u64::MAX;
    type Cell = u16;

    #[inline(always)]
    fn bytes(class: Class) -> usize {
        Sizes::<UNIT>::bytes(class)
    }

    #[inline(always)]
    fn class_for(bytes: usize) -> Class {
        Sizes::<UNIT>::class_for(bytes)
    }

    fn class_within(bytes: usize) -> Class {
        Sizes::<UNIT>::class_within(bytes)
    }

    #[inline(always)]
    fn is_divisible(class: Class) -> bool {
        class.number() >= 3
    }

    #[inline(always)]
    fn upper(class: Class) -> Class {
        class.down(4).up(class.number() & 1)
    }

    #[inline(always)]
    fn buddy(_: usize, piece: Piece) -> Option<Piece> {
        let is_upper = piece.sides & UPPER != 0;
        // Bit k of the address is set if and only if 3·2^k precede; otherwise 2^(k+1) do.
        let lower = piece.class.up(2).up((piece.address & Self::bytes(piece.class) != 0).into());
        let class = select_class(is_upper, Self::upper(piece.class.up(1)), lower);
        let lower_bytes = Self::bytes(select_class(is_upper, piece.class, lower));
        let distance = select(is_upper, lower_bytes, lower_bytes.wrapping_neg());
        Some(Piece { address: piece.address.wrapping_add(distance), class, sides: piece.sides & UPPER ^ UPPER })
    }

    fn top(_: usize, end: usize, at: usize) -> Class {
        let log2 = aligned_log2(at, end - at);
        let power = 2 * (log2 - UNIT.trailing_zeros()) as usize;
        // A block of half as much again must be aligned to the next larger power.
        let has_room = power > 0 && at.trailing_zeros() > log2 && end - at >= Self::bytes(Class::new(power + 1));
        Self::LAST.min(Class::new(power + usize::from(has_room)))
    }
}

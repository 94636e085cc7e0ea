//! Binary buddies: powers of two, each split into halves.
//!
//! # Idea
//!
//! A request is rounded up to a power of two. A larger block is halved until it has that size. A freed block merges
//! with its buddy, the other half of the block that it was split from, if the buddy is free and not split. The buddy's
//! address differs in one bit (Knowlton 1965; Puaut 2002, section 2.5; Masmano et al. 2008, section 2; bitframe thesis
//! 2012, section 3.2.3):
//!
//! ```text
//! block of 2^k at address a:   buddy at a ^ 2^k,   both together at a & !2^k
//!
//! [free 128] -> [used 32][free 32][free 64]  -> [used 32][used 32][free 64]
//!                a        a ^ 32   a ^ 64
//! ```
//!
//! # Any region
//!
//! Blocks are aligned to their size by absolute address, and a region is divided into the largest such blocks that fit:
//! ascending ones up to its roundest address, descending ones from there. Only the bytes at either end where no
//! smallest block fits are lost, and an alignment costs nothing beyond the larger of size and alignment.
//!
//! ```text
//! 0x50: [16][32][128 ........][64 ...][16]
//! ```
//!
//! # Placement of tags
//!
//! [`BinaryBuddy`] keeps tags in a side table: one byte for every smallest block, a sixteenth of the heap, and a
//! request of 2^k takes 2^k. With headers before the payloads, as in the papers
//! ([`Headers`](crate::mechanism::buddy::Headers)), there is no table, and every request of 2^k takes 2^(k+1). Programs
//! request powers of two more often than any other sizes, which is why the side table is the default. Payloads are
//! aligned to their block's size either way: a header lies at the end of the previous block.
//!
//! The thesis' `bbuddy` (6.2) is `Buddies<Binary<32, 1024>, Headers<16>, Offset32>`: blocks of 32 to 1024 bytes for
//! requests of at most 1008. In a region that is not aligned, the first and the last blocks are smaller; the thesis has
//! an aligned heap.
//!
//! # Costs
//!
//! With n smallest blocks in the region, the loops of allocate and of deallocate have at most floor(log2 n) iterations;
//! five for `bbuddy`, whatever the region. The papers' smallest block has 16 bytes, and so does ours on 64-bit machines
//! (8 by default on 32-bit ones), with two links of 4 bytes in it.
//!
//! # When they win, when they lose
//!
//! They have a bound that grows with the logarithm of the heap, alignment at no cost, and little external
//! fragmentation. Up to half of every block is lost to internal fragmentation, a quarter on average over sizes.
//!
//! # Figures
//!
//! <!-- figures: binary-buddy -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `binary-buddy` | 442, 455, 674 | 0 B | 16 B | 3,968 B, 61,808 B | 58.6 %, 23.0 % |
//!
//! Measured 2026-11-27 at db7faa7 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

use crate::limits::{Limit, largest_bytes, most_objects};
use crate::mechanism::bits::{computed, floor_log2};
use crate::mechanism::buddy::{Buddies, Piece, Placement, SideTable, System};
use crate::mechanism::policy_heap::PolicyHeap;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::stats::{NoStats, StatsPolicy};
use crate::mechanism::word::{Offset32, Width};
use core::num::NonZeroUsize;

/// Bytes of the smallest block by default.
pub const UNIT_BYTES: usize = 2 * size_of::<usize>();

/// Larger than any region: only the region limits blocks.
pub const UNLIMITED: usize = 1 << (usize::BITS - 2);

/// Binary buddies with links of width `W`, statistics `T`, tags in `P`, and a smallest block of `UNIT` bytes.
pub type BinaryBuddy<'r, W = Offset32, T = NoStats, P = SideTable, const UNIT: usize = UNIT_BYTES> =
    PolicyHeap<'r, Buddies<Binary<UNIT, UNLIMITED>, P, W>, T>;

impl<W: Width, T: StatsPolicy, P: Placement, const UNIT: usize, const MOST: usize>
    PolicyHeap<'_, Buddies<Binary<UNIT, MOST>, P, W>, T>
{
    /// Bytes of a region, wherever it starts, in which no request within the limits is ever refused;
    /// [`usize::MAX`] if no region suffices. Theorem and proof: `docs/guarantees/binary-buddy.md`.
    ///
    /// ```
    /// use rtalloc::BinaryBuddy;
    /// use rtalloc::limits::Limit;
    ///
    /// // Sizes that are known, in any number: little more than what is live, 63.5 KiB, and a largest block.
    /// const KNOWN: [Limit; 2] = [Limit::of(100, 512), Limit::of(7, 2048)];
    /// assert!(<BinaryBuddy>::region_bytes_for(&KNOWN) < 80 << 10);
    /// ```
    ///
    /// # Time
    ///
    /// Linear in the limits, times the number of block sizes.
    #[must_use]
    pub const fn region_bytes_for(limits: &[Limit]) -> usize {
        Self::region_bytes_for_modes(&[limits])
    }

    /// The same for a program with several modes: at any time, what is live is within the limits of one of them.
    ///
    /// # Time
    ///
    /// As [`region_bytes_for`](Self::region_bytes_for).
    #[must_use]
    pub const fn region_bytes_for_modes(modes: &[&[Limit]]) -> usize {
        let largest_bytes = largest_bytes(modes);
        if largest_bytes == 0 {
            return 0;
        }
        let mut blocks = LargestBlocks::NONE;
        // The bytes of a block, and those of the largest request below it.
        let (mut block_bytes, mut below_bytes) = (UNIT, 0);
        loop {
            if block_bytes > MOST {
                return usize::MAX;
            }
            let request_bytes = block_bytes - P::HEADER_BYTES;
            blocks = blocks.and(modes, below_bytes, request_bytes);
            if request_bytes >= largest_bytes {
                break;
            }
            (block_bytes, below_bytes) = (2 * block_bytes, request_bytes);
        }
        // Aligned blocks in a span that begins anywhere.
        let Some(aligned_bytes) = blocks.count().checked_mul(block_bytes) else { return usize::MAX };
        if aligned_bytes > UNLIMITED / 2 {
            return usize::MAX;
        }
        let span_bytes = aligned_bytes + block_bytes - UNIT;
        let Some(last) = (if span_bytes > MOST { MOST } else { span_bytes }).checked_ilog2() else { return usize::MAX };
        let room_bytes = Buddies::<Binary<UNIT, MOST>, P, W>::room_bytes(span_bytes, Class::new(last as usize));
        if Self::CONTROL_BYTES + room_bytes > W::MAX { usize::MAX } else { Self::CONTROL_BYTES + room_bytes }
    }
}

/// The blocks of the largest size that a binary buddy system needs, computed from the smallest size upwards. Of each
/// size, as many blocks may be divided or allocated as
///
/// ```text
/// u_i = the most of d + a,   d <= ceil(u_{i-1} / 2) divided blocks, each with a smaller live object, and
///                            a live objects of this size, as the limits allow at the same time
/// ```
///
/// where each size is twice the one before. The proof is in `docs/guarantees/binary-buddy.md`.
#[derive(Clone, Copy, Debug)]
pub struct LargestBlocks(usize);

impl LargestBlocks {
    /// Before the smallest size.
    pub const NONE: Self = LargestBlocks(0);

    /// With the next size, which serves requests above `below_bytes`, up to `request_bytes`.
    #[must_use]
    pub const fn and(self, modes: &[&[Limit]], below_bytes: usize, request_bytes: usize) -> Self {
        let divided = self.0.div_ceil(2);
        let (mut most, mut mode) = (0, 0);
        while mode < modes.len() {
            let limits = modes[mode];
            let blocks = if let [limit] = limits {
                limit.most_objects_with(divided, below_bytes, request_bytes)
            } else {
                let of_size = most_objects(&[limits], below_bytes + 1, request_bytes);
                let (blocks, objects) = (of_size.saturating_add(divided), most_objects(&[limits], 1, request_bytes));
                if blocks < objects { blocks } else { objects }
            };
            if blocks > most {
                most = blocks;
            }
            mode += 1;
        }
        LargestBlocks(most)
    }

    /// Their number.
    #[must_use]
    pub const fn count(self) -> usize {
        self.0
    }
}

/// Powers of two from `UNIT` to `MOST` bytes. A class is the logarithm.
#[derive(Clone, Copy, Debug)]
pub struct Binary<const UNIT: usize, const MOST: usize>;

/// The logarithm of the largest power of two that divides an address and does not exceed a length.
#[inline]
pub(super) fn aligned_log2(address: usize, length_bytes: usize) -> u32 {
    address.trailing_zeros().min((length_bytes | 1).ilog2())
}

impl<const UNIT: usize, const MOST: usize> Sealed for Binary<UNIT, MOST> {}

// SAFETY: a block is aligned to its size, and its halves differ in one address bit. Two buddies that both lie in a
// region are in one top block, because a top block is as large as its address allows, or has `MOST` bytes and no
// parent.
unsafe impl<const UNIT: usize, const MOST: usize> System for Binary<UNIT, MOST> {
    const NAME: &'static str = if MOST == UNLIMITED { "binary-buddy" } else { "bbuddy" };
    const SOURCE: &'static str = match MOST {
        UNLIMITED => "Knowlton 1965; Puaut 2002, section 2.5; Masmano et al. 2008, section 2",
        _ => "Bitframe thesis 2012, sections 3.2.3 and 6.2",
    };
    const POLICY: &'static str = "binary buddies";
    const UNIT_BYTES: usize = UNIT;
    const FIRST: Class = Class::new(UNIT.trailing_zeros() as usize);
    const LAST: Class = {
        assert!(MOST.is_power_of_two() && MOST >= UNIT, "a largest block of a power of two");
        Class::new(MOST.trailing_zeros() as usize)
    };
    const IS_CAPPED: bool = MOST != UNLIMITED;
    const HAS_SIDES: bool = false;
    const LEAVES: bool = true;
    const ALIGNED: u64 = u64::MAX;
    const HALVES: bool = true;
    type Cell = u8;

    #[inline(always)]
    fn bytes(class: Class) -> usize {
        1usize.wrapping_shl(class.number() as u32)
    }

    #[inline(always)]
    fn class_for(bytes: usize) -> Class {
        // SAFETY: a smallest block has more than one byte, so a low bit is set and the operand is not zero.
        let below = unsafe { NonZeroUsize::new_unchecked((bytes - 1) | (UNIT - 1)) };
        // Hides the value range: knowing it, LLVM would scale the class in a separate instruction for every address.
        Class::new(computed(floor_log2(below).into()) as usize + 1)
    }

    fn class_within(bytes: usize) -> Class {
        Self::LAST.min(Class::new((bytes | 1).ilog2() as usize))
    }

    #[inline(always)]
    fn is_divisible(class: Class) -> bool {
        class > Self::FIRST
    }

    #[inline(always)]
    fn upper(class: Class) -> Class {
        class.down(1)
    }

    #[inline(always)]
    fn buddy(_: usize, piece: Piece) -> Option<Piece> {
        if Self::IS_CAPPED && piece.class >= Self::LAST {
            return None;
        }
        Some(Piece { address: piece.address ^ Self::bytes(piece.class), ..piece })
    }

    fn top(_: usize, end: usize, at: usize) -> Class {
        Self::LAST.min(Class::new(aligned_log2(at, end - at) as usize))
    }

    fn top_near(origin: usize, address: usize) -> usize {
        origin.max(address & !(MOST - 1))
    }
}

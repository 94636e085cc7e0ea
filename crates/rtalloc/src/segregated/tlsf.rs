//! TLSF, two-level segregated fit: constant time, and fragmentation at best-fit's level.
//!
//! # Idea
//!
//! Free blocks are in lists by size class. Classes divide every power-of-two range into 2^J equal parts, and one bit
//! per class says whether its list has a block. A request is rounded up to the next class boundary, so that *any* block
//! of the class found serves it and no list is searched: a good fit, close to best fit (Masmano, Ripoll, Real, Crespo
//! and Wellings, "Implementation of a constant-time dynamic storage allocator", Software: Practice and Experience 38,
//! 2008; sections 4 and 5).
//!
//! ```text
//! request 1512 -> class [1536, 1664) -> first set bit at or above it -> head of that list
//!
//! summary  0 0 1 0 1 ...            one bit per leaf, set if the leaf is not zero
//! leaves   ....  0 1 0 0 1 0 ...    one bit per class whose list has a block
//! heads    ....    |     |
//!              [1630]  [1800] -> [1744]
//! ```
//!
//! # Costs
//!
//! Allocate and deallocate have no loop; reallocate adds the copy of a block that has to move. The laboratory's report
//! has the bounds in machine instructions, and where they were measured.
//!
//! The control structure is sized from the region (see [`TagHeap::control_bytes`]). A test pins these figures, for
//! x86-64 and without alignment:
//!
//! | | 4 KiB | 64 KiB | 1 MiB | 16 MiB |
//! |---|---|---|---|---|
//! | `Tlsf<5>` (32-bit tags) | 628 B | 1,176 B | 1,692 B | 2,204 B |
//! | `Tlsf<4>` | 424 B | 692 B | 948 B | 1,204 B |
//! | `Tlsf<3>` | 280 B | 412 B | 540 B | 668 B |
//! | `tlsf-small`: `Tlsf<3, RoundUp, Offset16>` (up to 65,535 B) | 182 B | 246 B | | |
//!
//! In a 4 KiB heap, `Tlsf<3, RoundUp, Offset16>` leaves 3,904 bytes for blocks, each with two bytes of tag; the largest
//! single request is 3,838 bytes, where the last class begins.
//!
//! # When it wins, when it loses
//!
//! It is the default choice: the time bound is low, and memory consumption is close to the best known. It loses to a
//! pool if all blocks have one size, and to the region allocators if all blocks die together. Under a worst-case
//! adversary, it fragments like best-fit (Robson), far above first-fit: if the bound on *memory* matters more than the
//! mean, compare that figure.
//!
//! # Parameters
//!
//! `J`, from 1 to 6 (5 on 32-bit machines), is log2 of the classes per power-of-two range; internal fragmentation of
//! the round-up policy is at most 1/(1 + 2^J) (section 5.3). `P` is the split policy: [`RoundUp`] grants the rounded
//! size, so that a freed block serves the same request again (section 4.3);
//! [`Exact`](crate::mechanism::segregated::Exact) grants the requested size. `W` is the width of tags and links
//! ([`crate::mechanism::word`]), `T` the statistics ([`crate::mechanism::stats`]), `G` the validation of tags
//! ([`crate::mechanism::validation`]).
//!
//! # Figures
//!
//! <!-- figures: tlsf tlsf-exact tlsf-small tlsf-full-validation tlsf-own-tag tlsf-unchecked -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `tlsf` | 74, 125, 68 | 4 B | 16 B | 1,180 B, 1,692 B | 9.1 %, 21.7 % |
//! | `tlsf-exact` | 75, 125, 68 | 4 B | 16 B | 1,180 B, 1,692 B | 7.2 %, 25.7 % |
//! | `tlsf-small` | 67, 124, 71 | 2 B | 8 B | 246 B, - | -, - |
//! | `tlsf-full-validation` | 95, 149, 96 | 4 B | 16 B | 1,180 B, 1,692 B | 9.1 %, 21.7 % |
//! | `tlsf-own-tag` | 74, 125, 67 | 4 B | 16 B | 1,180 B, 1,692 B | 9.1 %, 21.7 % |
//! | `tlsf-unchecked` | 74, 125, 60 | 4 B | 16 B | 1,180 B, 1,692 B | 9.1 %, 21.7 % |
//!
//! Measured 2026-11-29 at 071d4ca by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

use crate::contract::{Contract, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::segregated::{RoundUp, Segregated, SplitPolicy};
use crate::mechanism::size_class::TwoLevelClasses;
use crate::mechanism::stats::NoStats;
use crate::mechanism::validation::Basic;
use crate::mechanism::word::{Offset32, Width};

/// The index of a [`Tlsf`] heap.
pub type TlsfIndex<const J: u32, P> = Segregated<TwoLevelClasses<J>, P>;

/// Two-level segregated fit; see the [module](self) for the parameters.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::{RegionAllocator, Tlsf};
///
/// let mut memory = [MaybeUninit::uninit(); 4096];
/// let mut heap: Tlsf = Tlsf::new(&mut memory, Default::default())?;
/// let block = heap.allocate_bytes(100, 8)?;
/// // SAFETY: `block` came from this heap and is not used again.
/// unsafe { heap.deallocate(block) };
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type Tlsf<'r, const J: u32 = 5, P = RoundUp, W = Offset32, T = NoStats, G = Basic> =
    TagHeap<'r, TlsfIndex<J, P>, W, T, G>;

impl<const J: u32, P: SplitPolicy, W: Width> Named<W> for TlsfIndex<J, P> {
    const CONTRACT: Contract = Contract {
        name: "tlsf",
        source: "Masmano et al. 2008, sections 4 and 5",
        policy: P::NAME,
        mechanism: Mechanism::SegregatedFit,
        ..tag_contract::<W>()
    };
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::contract::RegionAllocator;
    use crate::mechanism::segregated::Exact;
    use crate::mechanism::word::Offset16;
    use core::mem::MaybeUninit;
    use std::{vec, vec::Vec};

    #[test]
    #[cfg(target_pointer_width = "32")]
    fn control_structures_have_the_documented_sizes() {
        let sizes = [64 << 10, 16 << 20];
        assert_eq!(sizes.map(Tlsf::<5>::control_bytes), [1280, 2308]);
        assert_eq!(sizes.map(Tlsf::<4>::control_bytes), [728, 1240]);
        type Small<'r> = Tlsf<'r, 3, RoundUp, Offset16>;
        assert_eq!([4 << 10, (64 << 10) - 1].map(Small::control_bytes), [158, 222]);
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn control_structures_have_the_documented_sizes() {
        let kib = |size: usize| size << 10;
        let sizes = [kib(4), kib(64), kib(1024), kib(16384)];
        assert_eq!(sizes.map(Tlsf::<5>::control_bytes), [628, 1176, 1692, 2204]);
        assert_eq!(sizes.map(Tlsf::<4>::control_bytes), [424, 692, 948, 1204]);
        assert_eq!(sizes.map(Tlsf::<3>::control_bytes), [280, 412, 540, 668]);
        type Small<'r> = Tlsf<'r, 3, RoundUp, Offset16>;
        assert_eq!([kib(4), kib(64) - 1].map(Small::control_bytes), [182, 246]);

        #[repr(align(16))]
        struct Aligned([MaybeUninit<u8>; 4096]);
        let mut memory = Aligned([MaybeUninit::uninit(); 4096]);
        let heap = Small::new(&mut memory.0, Default::default()).unwrap();
        let mut room = 0;
        heap.walk(&mut |block| room += block.size_bytes);
        assert_eq!(room, 3904);
        assert_eq!(heap.largest_allocatable(), 3838);
    }

    /// Section 4.3 and figure 4: the block after it is live, so the freed block does not coalesce. The same request
    /// must find it again although its class begins above the request.
    fn freed_block_serves_the_same_request<P: SplitPolicy>(size: usize) -> bool {
        let mut memory = vec![MaybeUninit::uninit(); 1 << 20];
        let mut heap: Tlsf<'_, 3, P> = Tlsf::new(&mut memory, Default::default()).unwrap();
        let block = heap.allocate_bytes(size, 1).unwrap();
        let _fence = heap.allocate_bytes(1, 1).unwrap();
        // No other block is left to serve the request.
        while heap.allocate_bytes(size, 1).is_ok() {}
        // SAFETY: `block` is live.
        unsafe { heap.deallocate(block) };
        heap.allocate_bytes(size, 1) == Ok(block)
    }

    #[test]
    fn round_up_split_reuses_every_freed_block_and_exact_split_does_not() {
        let sizes: Vec<usize> = (1..3000).step_by(7).chain([1512, 4000, 10_001, 60_000]).collect();
        assert!(sizes.iter().all(|&size| freed_block_serves_the_same_request::<RoundUp>(size)));
        assert!(!freed_block_serves_the_same_request::<Exact>(1512));
    }
}

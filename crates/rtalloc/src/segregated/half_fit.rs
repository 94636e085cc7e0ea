//! Half-fit: the first constant-time allocator.
//!
//! # Idea
//!
//! One list per power-of-two range of sizes, and one bitmap word. A request of r is served from the first non-empty
//! list at or above floor(log2(r - 1)) + 1, all of whose blocks are large enough. The block is split, and the remainder
//! goes to the list of floor(log2) of its size. Freed blocks coalesce immediately (Ogasawara 1995, as described in
//! section 2.2 of the TLSF paper).
//!
//! ```text
//! request 100 -> list [128, 256) -> first set bit at or above -> its first block, split
//! ```
//!
//! # Costs
//!
//! No loop; one bitmap word instead of TLSF's two levels. The control structure takes 96 bytes for a heap of 4 KiB, 112
//! for 64 KiB and 144 for 16 MiB (64-bit, 32-bit tags; a test pins them), and up to 12 more before the first block,
//! whose payload is aligned.
//!
//! # When it wins, when it loses
//!
//! It has the lowest instruction bound and the smallest control structure of the constant-time allocators here. It
//! loses on memory: a free block of 200 bytes never serves a request of 150, which its author calls *incomplete memory
//! use*.
//!
//! Its worst case in memory is about n·M (M: most live, n: largest request, in units of the smallest block): n'·(M -
//! n'/2) units suffice, where n' is n rounded up to a power of two, and an adversary makes it need n·(M - 2n).
//!
//! # Parameters
//!
//! `P` is the split policy. [`Exact`] grants the requested size. With
//! [`RoundUp`](crate::mechanism::segregated::RoundUp) every block is a power of two, header included, as in o1heap: up
//! to half of it is lost, but a request is refused only if no free block is as large as its block. The attacks that
//! make the other policy need n·M then find 4.7·M for n = 16 and 7.5·M for n = 256, little more than against a binary
//! buddy. No proof of such a bound is known: what is guaranteed is the same n'·(M - n'/2), and o1heap's 2M·(1 + ⌈log2
//! n⌉) is neither proved nor refuted for it. For `Exact` it is refuted.
//!
//! `W` is the width of tags and links ([`crate::mechanism::word`]), `T` the statistics ([`crate::mechanism::stats`]),
//! `G` the validation of tags ([`crate::mechanism::validation`]).
//!
//! # Figures
//!
//! <!-- figures: half-fit half-fit-rounded -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `half-fit` | 43, 82, 58 | 4 B | 16 B | 124 B, 140 B | 40.3 %, 31.5 % |
//! | `half-fit-rounded` | 44, 82, 58 | 4 B | 16 B | 124 B, 140 B | 58.9 %, 39.5 % |
//!
//! Measured 2026-11-27 at db7faa7 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

use crate::contract::{Contract, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::segregated::{Exact, Segregated, SplitPolicy};
use crate::mechanism::size_class::PowerOfTwoClasses;
use crate::mechanism::stats::NoStats;
use crate::mechanism::validation::Basic;
use crate::mechanism::word::{Offset32, Width};

/// The index of a [`HalfFit`] heap.
pub type HalfFitIndex<P> = Segregated<PowerOfTwoClasses, P>;

/// Half-fit with split policy `P`, tags of width `W`, statistics `T` and validation `G`.
pub type HalfFit<'r, P = Exact, W = Offset32, T = NoStats, G = Basic> = TagHeap<'r, HalfFitIndex<P>, W, T, G>;

impl<P: SplitPolicy, W: Width> Named<W> for HalfFitIndex<P> {
    const CONTRACT: Contract = Contract {
        name: "half-fit",
        source: "Ogasawara 1995; Masmano et al. 2008, section 2.2",
        policy: P::NAME,
        mechanism: Mechanism::SegregatedFit,
        ..tag_contract::<W>()
    };
}

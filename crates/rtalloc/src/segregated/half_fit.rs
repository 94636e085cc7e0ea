//! Half-fit: the first allocator with constant time.
//!
//! # Idea
//!
//! One list per power-of-two range of sizes and one bitmap word. A request of r is served from the first non-empty list
//! at or above floor(log2(r - 1)) + 1, all of whose blocks are large enough; the block is split and the remainder goes
//! to the list of floor(log2) of its size; freed blocks coalesce at once (Ogasawara 1995, as the TLSF paper tells it in
//! 2.2).
//!
//! ```text
//! request 100 -> list [128, 256) -> first set bit at or above -> its first block, split
//! ```
//!
//! # Costs
//!
//! No loop; one bitmap word instead of TLSF's two levels: 49 and 59 instructions at the worst on x86-64, against TLSF's 87
//! and 82. The control structure takes 96 bytes for a heap of 4 KiB, 112 for 64 KiB and 144 for 16 MiB (64-bit, 32-bit
//! tags; a test pins them), and up to 12 more in front of the first block, whose payload is aligned.
//!
//! # When it wins, when it loses
//!
//! It has the shortest bound and the smallest control structure of the constant-time allocators here. It pays in memory:
//! a free block of 200 bytes never serves a request of 150, which its author calls *incomplete memory use*.
//!
//! # Figures
//!
//! <!-- figures: half-fit -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `half-fit` | 49, 123, 60 | 4 B | 16 B | 124 B, 140 B | 36.0 %, 31.5 % |
//! <!-- end of figures -->

use crate::contract::{Contract, Mechanism};
use crate::mechanism::bitmap::OneWord;
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::scrutiny::Brief;
use crate::mechanism::segregated::{Exact, Segregated};
use crate::mechanism::size_class::PowerOfTwoClasses;
use crate::mechanism::tally::Untallied;
use crate::mechanism::word::{Offset32, Width};

/// The index of a [`HalfFit`] heap.
pub type HalfFitIndex = Segregated<PowerOfTwoClasses, OneWord, Exact>;

/// Half-fit with tags of width `W`, keeping the statistics `T`, testing tags as closely as `G` says.
pub type HalfFit<'r, W = Offset32, T = Untallied, G = Brief> = TagHeap<'r, HalfFitIndex, W, T, G>;

impl<W: Width> Named<W> for HalfFitIndex {
    const CONTRACT: Contract = Contract {
        name: "half-fit",
        source: "Ogasawara 1995; Masmano et al. 2008, section 2.2",
        policy: "half fit, exact split",
        mechanism: Mechanism::SegregatedFit,
        ..tag_contract::<W>()
    };
}

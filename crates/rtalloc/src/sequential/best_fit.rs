//! Best-fit: the smallest free block that is large enough.
//!
//! # Idea
//!
//! As first-fit ([`FirstFit`](super::FirstFit)), but the whole list is searched for the smallest block that fits; an
//! exact fit ends the search early. Freed blocks go to the end of the list, so that of equal blocks the one that has
//! been free longest is taken (Puaut 2002, section 2.2).
//!
//! # Costs
//!
//! Allocate is linear in the number of free blocks, and usually visits all of them; deallocate is constant.
//!
//! # When it wins, when it loses
//!
//! It wins on fragmentation: hardly any policy fragments less on real programs. TLSF achieves about the same in
//! constant time, so best-fit is here as the reference. An adversary can make it need M·(n - 2) (Robson 1977).
//!
//! # Figures
//!
//! <!-- figures: best-fit -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `best-fit` | 50 + 15 per free block, 86 + 15 per free block, 44 | 4 B | 16 B | 60 B, 60 B | 6.9 %, 21.6 % |
//!
//! Measured 2026-11-27 at db7faa7 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

use crate::contract::{Contract, Cost, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::free_list::{Best, Fifo, OneList};
use crate::mechanism::stats::NoStats;
use crate::mechanism::validation::Basic;
use crate::mechanism::word::{Offset32, Width};

/// Best-fit over a FIFO list.
pub type BestFit<'r, W = Offset32, T = NoStats, G = Basic> = TagHeap<'r, OneList<Best, Fifo>, W, T, G>;

impl<W: Width> Named<W> for OneList<Best, Fifo> {
    const CONTRACT: Contract = Contract {
        name: "best-fit",
        source: "Puaut 2002, section 2.2",
        policy: "best fit, FIFO",
        mechanism: Mechanism::SequentialFit,
        allocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        ..tag_contract::<W>()
    };
}

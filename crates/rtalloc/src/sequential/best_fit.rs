//! Best-fit: the smallest free block that is large enough.
//!
//! # Idea
//!
//! As first-fit ([`FirstFit`](super::FirstFit)), but the whole list is searched for the smallest block that fits, and
//! the search ends early at an exact fit. What becomes free goes to the end of the list, so that of equal blocks the one
//! that has been free longest is taken (Puaut 2002, section 2.2).
//!
//! # Costs
//!
//! Allocate is linear in the number of free blocks, and mostly visits them all; deallocate is constant.
//!
//! # When it wins, when it loses
//!
//! Hardly any policy fragments less on real programs, and TLSF does what it does in constant time: best-fit is here as
//! the measure. Under an adversary it can need M·(n - 2) (Robson 1977).
//!
//! # Figures
//!
//! <!-- figures: best-fit -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `best-fit` | 49 + 15 per free block, 118 + 15 per free block, 47 | 4 B | 16 B | 60 B, 60 B | 8.8 %, 21.6 % |
//! <!-- end of figures -->

use crate::contract::{Contract, Cost, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::free_list::{Best, Fifo, OneList};
use crate::mechanism::scrutiny::Brief;
use crate::mechanism::tally::Untallied;
use crate::mechanism::word::{Offset32, Width};

/// Best-fit over a FIFO list.
pub type BestFit<'r, W = Offset32, T = Untallied, G = Brief> = TagHeap<'r, OneList<Best, Fifo>, W, T, G>;

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

//! First-fit: the first free block of the list that is large enough.
//!
//! # Idea
//!
//! All free blocks are in one doubly linked list, searched from its head. The two allocators here differ only in the
//! order of the list: [`FirstFit`] puts freed blocks at the head (Puaut 2002, section 2.2); [`AddressOrderedFirstFit`]
//! keeps the list in address order, which packs live blocks at the low end.
//!
//! ```text
//! request 100:   head -> [32] -> [64] -> [400] -> [128]
//!                                        ^ split: [100][300]
//! ```
//!
//! # Costs
//!
//! Allocate visits at most every free block: linear in their number, which is linear in the heap. A LIFO deallocate is
//! constant. An address-ordered one is constant if a neighbour is free, because it takes the neighbour's place in the
//! list, and linear otherwise.
//!
//! # When they win, when they lose
//!
//! Address order fragments least in the worst case: M·(1 + ⌈log2 n⌉) units suffice for a program of at most M live
//! units in blocks of up to n that are not shrunk in place (Robson 1977). LIFO order has the shortest mean time and
//! leaves more holes; it may need as much as n·(M - n + 1). Except in tiny heaps, neither has a useful bound on time.
//!
//! # Figures
//!
//! <!-- figures: first-fit first-fit-address -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `first-fit` | 36 + 7 per free block, 69 + 7 per free block, 43 | 4 B | 16 B | 60 B, 60 B | 86.8 %, 285.1 % |
//! | `first-fit-address` | 36 + 7 per free block, 73 + 12 per free block, 38 + 5 per free block | 4 B | 16 B | 60 B, 60 B | 11.4 %, 22.0 % |
//!
//! Measured 2026-11-27 at db7faa7 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

use crate::contract::{Contract, Cost, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::free_list::{AddressOrder, First, Lifo, OneList};
use crate::mechanism::stats::NoStats;
use crate::mechanism::validation::Basic;
use crate::mechanism::word::{Offset32, Width};

/// First-fit over a LIFO list.
pub type FirstFit<'r, W = Offset32, T = NoStats, G = Basic> = TagHeap<'r, OneList<First, Lifo>, W, T, G>;

/// First-fit over an address-ordered list.
pub type AddressOrderedFirstFit<'r, W = Offset32, T = NoStats, G = Basic> =
    TagHeap<'r, OneList<First, AddressOrder>, W, T, G>;

impl<W: Width> Named<W> for OneList<First, Lifo> {
    const CONTRACT: Contract = Contract {
        name: "first-fit",
        source: "Puaut 2002, section 2.2",
        policy: "first fit, LIFO",
        mechanism: Mechanism::SequentialFit,
        allocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        ..tag_contract::<W>()
    };
}

impl<W: Width> Named<W> for OneList<First, AddressOrder> {
    const CONTRACT: Contract = Contract {
        name: "first-fit-ao",
        source: "Masmano et al. 2008, section 3.1; Robson 1977",
        policy: "first fit, address order",
        mechanism: Mechanism::SequentialFit,
        allocate: Cost::LinearInFreeBlocks,
        deallocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        ..tag_contract::<W>()
    };
}

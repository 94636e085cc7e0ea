//! First-fit: the first free block of the list that is large enough.
//!
//! # Idea
//!
//! All free blocks are in one doubly linked list, searched from its head. The order of the list is the whole difference
//! between the two allocators here: [`FirstFit`] puts what becomes free at the head (Puaut 2002, section 2.2);
//! [`AddressOrderedFirstFit`] keeps the list in address order, which packs live blocks at the low end.
//!
//! ```text
//! request 100:   head -> [32] -> [64] -> [400] -> [128]
//!                                        ^ split: [100][300]
//! ```
//!
//! # Costs
//!
//! Allocate visits at most every free block: linear in their number, which is linear in the heap. A LIFO deallocate is
//! constant; an address-ordered one is constant when a neighbour is free, whose place in the list it takes, and linear
//! otherwise.
//!
//! # When they win, when they lose
//!
//! Address order fragments least of all in the worst case: a guarantee of M·(1 + log2 n), against M·(n - 2) for best-fit
//! (Robson 1977). LIFO order has the shortest mean and leaves more holes. Neither has a useful bound on time beyond tiny
//! heaps.
//!
//! # Figures
//!
//! <!-- figures: first-fit first-fit-address -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `first-fit` | 38 + 7 per free block, 105 + 7 per free block, 46 | 4 B | 16 B | 60 B, 60 B | 102.6 %, 285.1 % |
//! | `first-fit-address` | 38 + 7 per free block, 104 + 12 per free block, 45 + 6 per free block | 4 B | 16 B | 60 B, 60 B | 13.2 %, 22.0 % |
//! <!-- end of figures -->

use crate::contract::{Contract, Cost, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::free_list::{AddressOrder, First, Lifo, OneList};
use crate::mechanism::scrutiny::Brief;
use crate::mechanism::tally::Untallied;
use crate::mechanism::word::{Offset32, Width};

/// First-fit over a LIFO list.
pub type FirstFit<'r, W = Offset32, T = Untallied, G = Brief> = TagHeap<'r, OneList<First, Lifo>, W, T, G>;

/// First-fit over an address-ordered list.
pub type AddressOrderedFirstFit<'r, W = Offset32, T = Untallied, G = Brief> =
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

//! First-fit.
use crate::contract::{Contract, Cost, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::free_list::{AddressOrder, First, Lifo, OneList};
use crate::mechanism::tally::Untallied;
use crate::mechanism::word::{Offset32, Width};

/// First-fit over a LIFO list.
pub type FirstFit<'r, W = Offset32, T = Untallied> = TagHeap<'r, OneList<First, Lifo>, W, T>;

/// First-fit over an address-ordered list.
pub type AddressOrderedFirstFit<'r, W = Offset32, T = Untallied> = TagHeap<'r, OneList<First, AddressOrder>, W, T>;

impl<W: Width> Named<W> for OneList<First, Lifo> {
    const CONTRACT: Contract = Contract {
        name: "first-fit",
        source: "Puaut 2.2",
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
        source: "Puaut 2.2",
        policy: "first fit, address order",
        mechanism: Mechanism::SequentialFit,
        allocate: Cost::LinearInFreeBlocks,
        deallocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        ..tag_contract::<W>()
    };
}

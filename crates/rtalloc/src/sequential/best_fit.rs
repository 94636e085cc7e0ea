//! Best-fit.
use crate::contract::{Contract, Cost, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::free_list::{Best, Fifo, OneList};
use crate::mechanism::tally::Untallied;
use crate::mechanism::word::{Offset32, Width};

/// Best-fit over a FIFO list.
pub type BestFit<'r, W = Offset32, T = Untallied> = TagHeap<'r, OneList<Best, Fifo>, W, T>;

impl<W: Width> Named<W> for OneList<Best, Fifo> {
    const CONTRACT: Contract = Contract {
        name: "best-fit",
        source: "Puaut 2.2",
        policy: "best fit, FIFO",
        mechanism: Mechanism::SequentialFit,
        allocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        ..tag_contract::<W>()
    };
}

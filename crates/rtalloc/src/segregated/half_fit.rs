//! Half-fit.
use crate::contract::{Contract, Mechanism};
use crate::mechanism::bitmap::OneWord;
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::segregated::{Exact, Segregated};
use crate::mechanism::size_class::PowerOfTwoClasses;
use crate::mechanism::tally::Untallied;
use crate::mechanism::word::{Offset32, Width};

/// The index of a [`HalfFit`] heap.
pub type HalfFitIndex = Segregated<PowerOfTwoClasses, OneWord, Exact>;

/// Half-fit.
pub type HalfFit<'r, W = Offset32, T = Untallied> = TagHeap<'r, HalfFitIndex, W, T>;

impl<W: Width> Named<W> for HalfFitIndex {
    const CONTRACT: Contract = Contract {
        name: "half-fit",
        source: "TLSF 2.2",
        policy: "half fit, exact split",
        mechanism: Mechanism::SegregatedFit,
        ..tag_contract::<W>()
    };
}

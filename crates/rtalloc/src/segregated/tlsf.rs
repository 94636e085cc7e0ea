//! TLSF.
use crate::contract::{Contract, Mechanism};
use crate::mechanism::bitmap::TwoLevel;
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::segregated::{RoundUp, Segregated, SplitPolicy};
use crate::mechanism::size_class::TwoLevelClasses;
use crate::mechanism::tally::Untallied;
use crate::mechanism::word::{Offset32, Width};

/// The index of a [`Tlsf`] heap.
pub type TlsfIndex<const J: u32, P> = Segregated<TwoLevelClasses<J>, TwoLevel, P>;

/// Two-level segregated fit.
pub type Tlsf<'r, const J: u32 = 5, P = RoundUp, W = Offset32, T = Untallied> = TagHeap<'r, TlsfIndex<J, P>, W, T>;

impl<const J: u32, P: SplitPolicy, W: Width> Named<W> for TlsfIndex<J, P> {
    const CONTRACT: Contract = Contract {
        name: "tlsf",
        source: "TLSF 4-5",
        policy: P::NAME,
        mechanism: Mechanism::SegregatedFit,
        ..tag_contract::<W>()
    };
}

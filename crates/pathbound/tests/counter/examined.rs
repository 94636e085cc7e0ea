//! Explorations of one image share what they find out about its functions, and its graphs; they find the same as those
//! that do not.

use crate::{Function, address, subjects};
use pathbound::graph::NeverReturns;
use pathbound::image::{Image, Pointer, Source, Symbol};
use pathbound::{Graph, Process};
use std::collections::BTreeSet;
use std::ops::Range;

/// A process that keeps nothing.
struct Forgetful<'a>(&'a Process);

impl Image for Forgetful<'_> {
    fn code(&self, address: u64) -> Option<&[u8]> {
        self.0.code(address)
    }

    fn pointer(&self, address: u64) -> Option<Pointer> {
        self.0.pointer(address)
    }

    fn symbol(&self, address: u64) -> Option<Symbol> {
        self.0.symbol(address)
    }

    fn find(&self, name: &str) -> Vec<Symbol> {
        self.0.find(name)
    }

    fn source(&self, address: u64) -> Vec<Source> {
        self.0.source(address)
    }

    fn chosen(&self, address: u64) -> Option<String> {
        self.0.chosen(address)
    }

    fn landing_pads(&self, instruction: Range<u64>) -> Option<Vec<u64>> {
        self.0.landing_pads(instruction)
    }
}

/// Reaches panic functions that the others do not.
unsafe extern "C" fn panics(divisor: u64, index: u64, text: u64) -> u64 {
    let table = [3_u64, 1, 4, 1];
    let quotient = text / divisor;
    table[usize::try_from(index).expect("64 bits")] + char::from_u32(quotient as u32).map(u64::from).unwrap()
}

#[test]
fn explorations_that_share_what_they_examined_find_the_same() {
    let process = Process::current().expect("this process");
    let functions: [Function; 5] = [panics, subjects::format, subjects::sort, subjects::search, subjects::hash];
    for function in functions {
        let explored = |image: &dyn Image| {
            Graph::explore_to_count(image, &[address(function)], &NeverReturns::default()).expect("code")
        };
        let (shared, alone) = (explored(&process), explored(&Forgetful(&process)));
        assert!(shared.nodes().count() > 100, "it reaches no panic");
        assert_eq!(shared, alone);
        assert_eq!(explored(&process), alone, "the kept graph");
    }
    // A kept graph is not that of another question: with escapes, or with a function stated not to return.
    let plain = |image: &dyn Image, never: &NeverReturns| {
        Graph::explore(image, &[address(subjects::sort)], never).expect("code")
    };
    let nothing = NeverReturns::default();
    let counted =
        |image: &dyn Image| Graph::explore_to_count(image, &[address(subjects::sort)], &nothing).expect("code");
    let callee = plain(&process, &nothing).functions().nth(1).expect("a callee");
    let stated = NeverReturns { functions: BTreeSet::from([callee]), ..NeverReturns::default() };
    assert_ne!(plain(&process, &nothing), counted(&process));
    assert_ne!(plain(&process, &nothing), plain(&process, &stated));
    for never in [&nothing, &stated] {
        assert_eq!(plain(&process, never), plain(&Forgetful(&process), never));
    }
    // Nor that of other entries.
    let entries = functions.map(address);
    let explored =
        |image: &dyn Image| Graph::explore_to_count(image, &entries, &NeverReturns::default()).expect("code");
    assert_eq!(explored(&process), explored(&Forgetful(&process)));
}

//! Explorations of one image share what they find out about its functions, and its graphs; they find the same as those
//! that do not.

use crate::fixtures::{pbc_calls, pbc_return_to_function, pbc_straight};
use crate::{Function, address, subjects};
use pathbound::arch::Arch;
use pathbound::graph::NeverReturns;
use pathbound::image::{Image, Pointer, Source, Symbol};
use pathbound::{Graph, Process};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// A process that keeps nothing.
struct Forgetful<'a>(&'a Process);

impl Image for Forgetful<'_> {
    fn arch(&self) -> Arch {
        self.0.arch()
    }

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
    // A kept graph is not that of another question: with escapes, with a function stated not to return.
    let nothing = NeverReturns::default();
    let stated = NeverReturns { functions: BTreeSet::from([address(pbc_straight)]), ..NeverReturns::default() };
    let plain = |image: &dyn Image, function: Function, never: &NeverReturns| {
        Graph::explore(image, &[address(function)], never).expect("code")
    };
    let counted = |function: Function| Graph::explore_to_count(&process, &[address(function)], &nothing).expect("code");
    assert_ne!(plain(&process, pbc_return_to_function, &nothing), counted(pbc_return_to_function));
    assert_ne!(plain(&process, pbc_calls, &nothing), plain(&process, pbc_calls, &stated));
    for (function, never) in
        [(pbc_return_to_function as Function, &nothing), (pbc_calls, &nothing), (pbc_calls, &stated)]
    {
        assert_eq!(plain(&process, function, never), plain(&Forgetful(&process), function, never));
    }
    // Nor that of other entries.
    let entries = functions.map(address);
    let explored =
        |image: &dyn Image| Graph::explore_to_count(image, &entries, &NeverReturns::default()).expect("code");
    assert_eq!(explored(&process), explored(&Forgetful(&process)));
}

#[test]
fn a_thread_shares_its_process_with_no_other() {
    let shared = || Process::shared().expect("this process");
    assert!(Arc::ptr_eq(&shared(), &shared()));
    let own = shared();
    std::thread::scope(|scope| scope.spawn(|| assert!(!Arc::ptr_eq(&own, &shared()))).join()).expect("another");
}

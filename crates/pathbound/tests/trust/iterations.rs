//! Answering the message about an unbounded loop with its number of iterations gives a bound that holds.

use super::library::{Entry, Input, Library};
use pathbound::decline::OpenLoop;
use pathbound::facts::{LoopFact, Place};
use pathbound::{Bound, Decline};

/// The most iterations of every loop of the fixture.
const ITERATIONS: u64 = 6;

/// Bounds a function, giving the same answer about every loop of the message.
fn answered(library: &Library, entry: Entry) -> Bound {
    match library.bound(entry, &[]) {
        Ok(bound) => bound,
        Err(Decline::UnboundedLoops(loops)) => {
            let fact = |one: &OpenLoop| LoopFact { place: Place::Address(one.place.address), at_most: ITERATIONS };
            let facts: Vec<LoopFact> = loops.iter().map(fact).collect();
            library.bound(entry, &facts).unwrap_or_else(|decline| panic!("{decline}"))
        }
        Err(decline) => panic!("{decline}"),
    }
}

#[test]
fn the_message_of_a_loop_asks_for_its_iterations() {
    let keys: Vec<u64> = (0..63).map(|key| 10 * key).collect();
    let inputs = |function: &str| -> Vec<[u64; 3]> {
        match function {
            "bisected" => (0..640).step_by(5).map(|wanted| [0, wanted, 63]).collect(),
            "searched" => [10, 30, 50, 70].map(|wanted| [0, wanted, ITERATIONS]).to_vec(),
            _ => (0..=ITERATIONS).map(|count| [0, count, 1]).collect(),
        }
    };
    for level in ["-O0", "-O1", "-O2", "-Os"] {
        for function in ["bisected", "paired", "twice", "searched"] {
            let library =
                Library::compiled("cc", &[level], "iterations.c", include_str!("fixtures/iterations.c"), &[function]);
            let entry = library.entry(0);
            let bound = answered(&library, entry);
            let inputs: Vec<Input> =
                inputs(function).into_iter().map(|words| Input { words, memory: keys.clone() }).collect();
            let calls: Vec<_> = inputs.iter().map(|input| (entry, input)).collect();
            for count in library.count(&calls) {
                assert!(
                    (bound.least..=bound.most).contains(&count),
                    "{function} at {level}: {count} counted, {} to {} bounded",
                    bound.least,
                    bound.most
                );
            }
        }
    }
}

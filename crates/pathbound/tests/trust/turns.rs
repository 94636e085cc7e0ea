//! Whoever answers the message about an unbounded loop with the number of its turns gets a bound that holds.

use super::library::{Entry, Input, Library};
use pathbound::facts::LoopFact;
use pathbound::{Bound, Decline};

/// Turns of every loop of the fixture, most of them.
const TURNS: u64 = 6;

/// Bounds a function, answering every message as it asks.
fn answered(library: &Library, entry: Entry) -> Bound {
    let mut facts: Vec<LoopFact> = Vec::new();
    loop {
        match library.bound(entry, &facts) {
            Ok(bound) => return bound,
            Err(Decline::UnboundedLoop(_, place)) => {
                assert!(facts.iter().all(|fact| fact.place != place), "{place} is asked for again");
                facts.push(LoopFact { place, at_most: TURNS });
            }
            Err(decline) => panic!("{decline}"),
        }
    }
}

#[test]
fn the_turns_of_a_loop_are_what_its_message_asks_for() {
    let keys: Vec<u64> = (0..63).map(|key| 10 * key).collect();
    let inputs = |function: &str| -> Vec<[u64; 3]> {
        match function {
            "bisected" => (0..640).step_by(5).map(|wanted| [0, wanted, 63]).collect(),
            "searched" => [10, 30, 50, 70].map(|wanted| [0, wanted, TURNS]).to_vec(),
            _ => (0..=TURNS).map(|count| [0, count, 1]).collect(),
        }
    };
    for level in ["-O0", "-O1", "-O2", "-Os"] {
        for function in ["bisected", "paired", "twice", "searched"] {
            let library = Library::compiled("turns.c", include_str!("fixtures/turns.c"), level, function);
            let entry = library.entry(0);
            let bound = answered(&library, entry);
            let inputs: Vec<Input> =
                inputs(function).into_iter().map(|words| Input { words, memory: keys.clone() }).collect();
            let calls: Vec<_> = inputs.iter().map(|input| (entry, input)).collect();
            for count in library.count(&calls) {
                assert!(
                    (bound.shortest..=bound.instructions).contains(&count),
                    "{function} at {level}: {count} counted, {} to {} bounded",
                    bound.shortest,
                    bound.instructions
                );
            }
        }
    }
}

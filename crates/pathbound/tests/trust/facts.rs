//! Facts about loops of compiled code: a bound that follows from true facts is not exceeded. Counts that a reader of
//! the source may state about lines are refused, or lead to a bound that is not exceeded either.

use super::is_installed;
use super::library::{Entry, Input, Library};
use pathbound::bound::BoundableLoop;
use pathbound::facts::{LoopFact, Place};
use pathbound::graph::NeverReturns;
use pathbound::{Decline, Graph};
use std::collections::{BTreeMap, BTreeSet};

const SOURCE: &str = include_str!("fixtures/facts.c");

/// The functions, each with the words it is called with besides the keys.
const FUNCTIONS: [(&str, &[[u64; 2]]); 12] = [
    ("rarely", &[[0, 1], [1, 1], [49, 1], [50, 1]]),
    ("stepped", &[[0, 0], [0, 1], [0, 49], [0, 50]]),
    ("linked", &[[0, 0], [0, 1], [0, 49], [0, 50]]),
    ("until", &[[0, 0], [0, 1], [0, 49], [0, 50]]),
    ("skipping", &[[0, 1], [1, 1], [49, 1], [50, 1]]),
    ("unrolled", &[[0, 1], [1, 1], [49, 1], [50, 1]]),
    ("peeled", &[[0, 1], [1, 1], [49, 1], [50, 1]]),
    ("nested", &[[0, 1], [1, 1], [49, 1], [50, 1]]),
    ("leaving", &[[0, 0], [10, 0], [1_000, 0], [1_190, 0]]),
    ("summed", &[[0, 1], [1, 1], [49, 1], [50, 1]]),
    ("columns", &[[0, 1], [1, 1], [5, 1], [49, 1], [50, 1]]),
    ("inlined", &[[0, 0], [1, 50], [50, 1], [50, 50]]),
];

const LEVELS: &[&[&str]] =
    &[&["-O0"], &["-O1"], &["-O2"], &["-O3"], &["-Os"], &["-O3", "-funroll-loops"], &["-O3", "-march=x86-64-v2"]];

/// The instructions of each loop, those of loops inside it included.
fn members(loops: &[BoundableLoop]) -> Vec<BTreeSet<u64>> {
    let mut members: Vec<BTreeSet<u64>> = loops.iter().map(|one| one.own.clone()).collect();
    // Outer loops come before inner ones.
    for index in (0..loops.len()).rev() {
        if let Some(around) = loops[index].around {
            let inside = members[index].clone();
            members[around].extend(inside);
        }
    }
    members
}

/// The most executions of each loop's place, by address, for each entry into the loop.
fn counted(loops: &[BoundableLoop], traces: &[Vec<u64>]) -> BTreeMap<u64, u64> {
    let mut most = BTreeMap::new();
    for (one, members) in loops.iter().zip(members(loops)) {
        let most = most.entry(one.place).or_insert(0);
        for trace in traces {
            let mut count = 0;
            for address in trace {
                count = if members.contains(address) { count + u64::from(*address == one.place) } else { 0 };
                *most = (*most).max(count);
            }
        }
    }
    most
}

/// The lines, with the number of executions that a reader would state for each.
fn stated() -> Vec<LoopFact> {
    let stated = SOURCE.lines().zip(1..).filter_map(|(text, line)| {
        let (_, count) = text.rsplit_once("// = ")?;
        let place = Place::Line { file: "facts.c".to_owned(), line };
        Some(LoopFact { place, at_most: count.parse().expect("a number") })
    });
    stated.collect()
}

/// The outcomes of facts about lines.
#[derive(Default)]
struct Outcomes {
    bounded: usize,
    refused: usize,
}

#[test]
fn no_fact_about_compiled_loops_leads_to_a_bound_that_is_exceeded() {
    let mut lines = Outcomes::default();
    let compilers: Vec<&str> = ["gcc", "clang"].into_iter().filter(|compiler| is_installed(compiler)).collect();
    for compiler in &compilers {
        for options in LEVELS {
            let library = Library::compiled(compiler, options, "facts.c", SOURCE, &FUNCTIONS.map(|(name, _)| name));
            for (part, (function, calls)) in FUNCTIONS.iter().enumerate() {
                hold(
                    &library,
                    library.entry(part),
                    &format!("{function} by {compiler} {options:?}"),
                    calls,
                    &mut lines,
                );
            }
        }
    }
    let few = 50 * compilers.len();
    assert!(lines.bounded > few && lines.refused > few, "{} and {}", lines.bounded, lines.refused);
}

fn hold(library: &Library, entry: Entry, what: &str, calls: &[[u64; 2]], lines: &mut Outcomes) {
    let keys: Vec<u64> = (0..200).map(|key| 10 * key).collect();
    let inputs: Vec<Input> = calls.iter().map(|[a, b]| Input { words: [0, *a, *b], memory: keys.clone() }).collect();
    let traces: Vec<Vec<u64>> = inputs.iter().map(|input| library.trace(entry, input)).collect();
    let executed = traces.iter().map(|trace| trace.len() as u64).max().expect("calls");

    let graph = Graph::explore(&library.file, &[entry.address], &NeverReturns::default()).expect("code");
    let loops =
        pathbound::loops(&library.file, &graph, entry.address).unwrap_or_else(|decline| panic!("{what}: {decline}"));
    let most = counted(&loops, &traces);
    let exact = |address: &u64| LoopFact { place: Place::Address(*address), at_most: most[address] };
    let bound = library.bound(entry, &most.keys().map(exact).collect::<Vec<_>>());
    let bound = bound.unwrap_or_else(|decline| panic!("{what}: {decline}"));
    assert!(bound.instructions >= executed, "{what}: {} by addresses, {executed} executed", bound.instructions);

    let concerns =
        |fact: &LoopFact| !fact.place.find(&library.file, graph.nodes().map(|(address, _)| address)).is_empty();
    for fact in stated().into_iter().filter(concerns) {
        let mut facts = vec![fact.clone()];
        let answer = match library.bound(entry, &facts) {
            Err(Decline::UnboundedLoops(open)) => {
                facts.extend(open.iter().map(|one| exact(&one.place.address)));
                library.bound(entry, &facts)
            }
            answer => answer,
        };
        match answer {
            Ok(bound) => {
                let bound = bound.instructions;
                assert!(bound >= executed, "{what}: {bound} by {fact:?}, {executed} executed");
                lines.bounded += 1;
            }
            Err(Decline::RefusedFact(..) | Decline::UselessFact(_)) => lines.refused += 1,
            Err(decline) => panic!("{what}: {fact:?}: {decline}"),
        }
    }
}

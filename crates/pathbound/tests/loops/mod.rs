//! Loops of compiled functions, and facts about them: those that executions give, and those that a reader of the source
//! states.

use pathbound::bound::BoundableLoop;
use pathbound::check::{check_proof, second_opinion};
use pathbound::facts::{LoopFact, Place};
use pathbound::graph::NeverReturns;
use pathbound::{Bound, Decline, ElfFile, Facts, Graph, Image, bound};
use std::collections::{BTreeMap, BTreeSet};

/// The source text of the functions.
pub const SOURCE: &str = include_str!("facts.c");

/// The functions, each with the words it is called with besides the keys.
pub const FUNCTIONS: [(&str, &[[u64; 2]]); 12] = [
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
fn counted(file: &ElfFile, loops: &[BoundableLoop], traces: &[Vec<u64>]) -> BTreeMap<u64, u64> {
    let mut most = BTreeMap::new();
    for (one, members) in loops.iter().zip(members(loops)) {
        let function = file.symbol(one.header).expect("a function");
        let most = most.entry(one.place).or_insert(0);
        for trace in traces {
            let mut count = 0;
            // What the loop calls does not leave it.
            for address in trace.iter().filter(|address| address.wrapping_sub(function.address) < function.size) {
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
pub struct Outcomes {
    pub bounded: usize,
    pub refused: usize,
}

/// Checks that no bound by facts is exceeded by executions, given as the addresses of their instructions.
pub fn hold(
    file: &ElfFile,
    entry: u64,
    what: &str,
    traces: &[Vec<u64>],
    bound: &dyn Fn(&[LoopFact]) -> Result<Bound, Decline>,
    lines: &mut Outcomes,
) {
    let executed = traces.iter().map(|trace| trace.len() as u64).max().expect("calls");
    let graph = Graph::explore(file, &[entry], &NeverReturns::default()).expect("code");
    let loops = pathbound::loops(file, &graph, entry).unwrap_or_else(|decline| panic!("{what}: {decline}"));
    let most = counted(file, &loops, traces);
    let exact = |address: &u64| LoopFact { place: Place::Address(*address), at_most: most[address] };
    let exactly = bound(&most.keys().map(exact).collect::<Vec<_>>());
    let exactly = exactly.unwrap_or_else(|decline| panic!("{what}: {decline}"));
    assert!(exactly.most >= executed, "{what}: {} by addresses, {executed} executed", exactly.most);

    let concerns = |fact: &LoopFact| !fact.place.find(file, graph.nodes().map(|(address, _)| address)).is_empty();
    for fact in stated().into_iter().filter(concerns) {
        let mut facts = vec![fact.clone()];
        let answer = match bound(&facts) {
            Err(Decline::UnboundedLoops(open)) => {
                facts.extend(open.iter().map(|one| exact(&one.place.address)));
                bound(&facts)
            }
            answer => answer,
        };
        match answer {
            Ok(bound) => {
                let bound = bound.most;
                assert!(bound >= executed, "{what}: {bound} by {fact:?}, {executed} executed");
                lines.bounded += 1;
            }
            Err(Decline::RefusedFact(..) | Decline::UselessFact(_)) => lines.refused += 1,
            Err(decline) => panic!("{what}: {fact:?}: {decline}"),
        }
    }
}

/// Bounds an entry with the facts that concern it. Both decoders must agree, and the checker with the solver.
pub fn verified(image: &dyn Image, entry: u64, facts: &[LoopFact]) -> Result<Bound, Decline> {
    let graph = Graph::explore(image, &[entry], &NeverReturns::default()).expect("code");
    second_opinion(&graph, image).unwrap_or_else(|disagreement| panic!("{disagreement}"));
    let concerns = |fact: &&LoopFact| !fact.place.find(image, graph.nodes().map(|(address, _)| address)).is_empty();
    let facts = Facts { loops: facts.iter().filter(concerns).cloned().collect(), ..Facts::default() };
    let bound = bound(image, &graph, entry, &facts)?;
    check_proof(&bound.proof, image).unwrap_or_else(|rejection| panic!("{rejection}"));
    Ok(bound)
}

//! Bounds of code for other processors, against executions: functions compiled by Clang run under QEMU's user
//! emulation, which logs the address of every instruction. ci/test.sh installs both.
#![cfg(target_os = "linux")]

mod declined;
mod emulated;
#[path = "../loops/mod.rs"]
mod loops;

use emulated::{Call, Program, installed};
use pathbound::facts::LoopFact;
use pathbound::graph::{NeverReturns, Obstacle};
use pathbound::{Bound, Certificate, Decline, Graph, check};

/// Levels of optimisation.
const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-Os"];

/// What is expected of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    /// A bound.
    Bound,
    /// A bound, or an indirect jump where the compiler made a table of jumps.
    BoundOrTable,
    /// No bound: an indirect call.
    IndirectCall,
    /// No bound: recursion.
    Recursion,
    /// No bound: a trap, or a breakpoint in place of one.
    Trap,
}

/// The functions of flow.c, with what is expected.
const FLOW: [(&str, Expected); 15] = [
    ("leaf", Expected::Bound),
    ("guarded", Expected::Bound),
    ("tail", Expected::Bound),
    ("crowded", Expected::Bound),
    ("large", Expected::Bound),
    ("aligned", Expected::Bound),
    ("varying", Expected::Bound),
    ("many", Expected::Bound),
    ("checked", Expected::Bound),
    ("wide", Expected::Bound),
    ("indirect", Expected::IndirectCall),
    ("recursive", Expected::Recursion),
    ("switched", Expected::BoundOrTable),
    ("nine", Expected::Bound),
    ("trapping", Expected::Trap),
];

/// Bounds a function, checks the certificate and compares the two decoders.
fn bounded(program: &Program, entry: u64, facts: &[LoopFact]) -> Result<Bound, Decline> {
    let bound = loops::verified(&program.file, entry, facts)?;
    let certificate = Certificate::of(&bound, program.file.provenance());
    let checked = check(&certificate, &program.file, program.file.provenance());
    assert_eq!(checked.unwrap_or_else(|rejection| panic!("{rejection}")).instructions, bound.instructions);
    Ok(bound)
}

#[test]
fn executions_are_within_bounds_and_in_the_graph() {
    let words = [[0, 0, 0], [1, 0, 9], [2, 9, 1], [3, 8, 5], [9, 3, 0], [4, 70, 2], [5, 1, 1], [6, 12, 3], [7, 7, 7]];
    let calls: Vec<Call> =
        FLOW.iter().flat_map(|(name, _)| words.map(|words| Call { function: name, words })).collect();
    for target in installed() {
        let (mut reached, mut tables) = (0, 0);
        for level in LEVELS {
            let program = Program::new(target, level, "flow.c", include_str!("fixtures/flow.c"), &calls);
            for (function, expected) in FLOW {
                let what = format!("{function}, {} {level}", target.name);
                let (entry, traces) = (program.entry(function), program.traces(function));
                match (bounded(&program, entry, &[]), expected) {
                    (Ok(bound), Expected::Bound | Expected::BoundOrTable) => {
                        let graph = Graph::explore(&program.file, &[entry], &NeverReturns::default()).expect("code");
                        for trace in &traces {
                            let range = bound.shortest..=bound.instructions;
                            assert!(range.contains(&(trace.len() as u64)), "{what}: {range:?}, {}", trace.len());
                            let missing = trace.iter().find(|address| graph.node(**address).is_none());
                            assert_eq!(missing, None, "{what}");
                        }
                        reached += u32::from(traces.iter().any(|trace| trace.len() as u64 == bound.instructions));
                    }
                    (
                        Err(Decline::Obstacle(Obstacle::IndirectJump | Obstacle::TakenPlace, _)),
                        Expected::BoundOrTable,
                    ) => {
                        tables += 1;
                    }
                    (Err(Decline::Obstacle(Obstacle::IndirectCall, _)), Expected::IndirectCall) => {}
                    (Err(Decline::Recursion(_)), Expected::Recursion) => {}
                    (Err(Decline::Obstacle(Obstacle::Trap | Obstacle::Kernel, _)), Expected::Trap) => {}
                    (answer, _) => panic!("{what}: {answer:?}"),
                }
            }
        }
        assert!(reached >= 10 && tables >= 1, "{}: {reached} bounds are reached, {tables} tables", target.name);
    }
}

#[test]
fn no_fact_about_loops_leads_to_a_bound_that_is_exceeded() {
    let calls = |(name, calls): &(&'static str, &[[u64; 2]])| -> Vec<Call> {
        calls.iter().map(|[a, b]| Call { function: name, words: [Call::KEYS, *a, *b] }).collect()
    };
    let calls: Vec<Call> = loops::FUNCTIONS.iter().flat_map(calls).collect();
    for target in installed() {
        let mut lines = loops::Outcomes::default();
        for level in LEVELS {
            let program = Program::new(target, level, "facts.c", loops::SOURCE, &calls);
            for (function, _) in loops::FUNCTIONS {
                let what = format!("{function}, {} {level}", target.name);
                let entry = program.entry(function);
                let bound = |facts: &[LoopFact]| bounded(&program, entry, facts);
                loops::hold(&program.file, entry, &what, &program.traces(function), &bound, &mut lines);
            }
        }
        assert!(lines.bounded > 30 && lines.refused > 30, "{}: {}, {}", target.name, lines.bounded, lines.refused);
    }
}

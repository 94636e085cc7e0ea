//! Bounds of code for other processors, against executions: functions compiled by Clang run under QEMU's user
//! emulation, which logs the address of every instruction. ci/test.sh installs both.
#![cfg(target_os = "linux")]

mod declined;
mod emulated;
#[path = "../loops/mod.rs"]
mod loops;

use emulated::{Call, Program, installed};
use pathbound::check::check_proof;
use pathbound::facts::LoopFact;
use pathbound::graph::{NeverReturns, Obstacle};
use pathbound::{Bound, Certificate, Core, Decline, Facts, Graph, Image as _, Unit, bound_in, check};
use std::collections::BTreeMap;

/// Levels of optimisation.
const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-Os", "-Oz"];

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
    assert_eq!(checked.unwrap_or_else(|rejection| panic!("{rejection}")).most, bound.most);
    Ok(bound)
}

#[test]
fn executions_are_within_bounds_and_in_the_graph() {
    let words = [[0, 0, 0], [1, 0, 9], [2, 9, 1], [3, 8, 5], [9, 3, 0], [4, 70, 2], [5, 1, 1], [6, 12, 3], [7, 7, 7]];
    let calls: Vec<Call> =
        FLOW.iter().flat_map(|(name, _)| words.map(|words| Call { function: name, words })).collect();
    for target in installed() {
        let (mut reached, mut tables, mut cycles) = (0, 0, BTreeMap::new());
        for level in LEVELS {
            let program = Program::new(target, level, "flow.c", include_str!("fixtures/flow.c"), &calls);
            for (function, expected) in FLOW {
                let what = format!("{function}, {} {level}", target.name);
                let (entry, traces) = (program.entry(function), program.traces(function));
                match (bounded(&program, entry, &[]), expected) {
                    (Ok(bound), Expected::Bound | Expected::BoundOrTable) => {
                        let graph = Graph::explore(&program.file, &[entry], &NeverReturns::default()).expect("code");
                        for trace in &traces {
                            let range = bound.least..=bound.most;
                            assert!(range.contains(&(trace.len() as u64)), "{what}: {range:?}, {}", trace.len());
                            let missing = trace.iter().find(|address| graph.node(**address).is_none());
                            assert_eq!(missing, None, "{what}");
                        }
                        reached += u32::from(traces.iter().any(|trace| trace.len() as u64 == bound.most));
                        in_cycles(&program, entry, &graph, &traces, &what, &mut cycles);
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
        let cores: &[&str] = match target.name {
            "rv32im_zba_zbb_zbs" => &["ibex-small-zb", "ibex-maxperf-zb"],
            name if name.starts_with("rv32") => &["picorv32", "ibex-small", "ibex-maxperf", "ibex-maxperf-zb"],
            "thumbv6m" => &["cortex-m0", "cortex-m0+", "cortex-m3", "cortex-m4"],
            "thumbv7m" => &["cortex-m3", "cortex-m4"],
            "thumbv7em-hf" => &["cortex-m4"],
            // No core of these is known.
            _ => &[],
        };
        for core in cores {
            let (bounded, reached) = cycles.get(core).copied().unwrap_or_default();
            assert!(bounded >= 25 && reached >= 8, "{}, {core}: {cycles:?}", target.name);
        }
    }
}

/// Bounds a function in the cycles of each core, and compares the bounds with what the core's model says of executions.
/// Counts bounds, and those that are reached.
fn in_cycles(
    program: &Program,
    entry: u64,
    graph: &Graph,
    traces: &[Vec<u64>],
    what: &str,
    cycles: &mut BTreeMap<&'static str, (u32, u32)>,
) {
    let file = &program.file;
    for core in Core::all().filter(|core| core.arch() == file.arch()) {
        let what = format!("{what}, {}", core.name());
        let bound = match bound_in(Unit::Cycles(core), file, graph, entry, &Facts::default()) {
            Ok(bound) => bound,
            // The core lacks an extension.
            Err(Decline::UnknownCost(_)) => continue,
            Err(decline) => panic!("{what}: {decline}"),
        };
        let total: u64 = bound.witness.iter().map(|step| step.cost).sum();
        assert_eq!(total, bound.most, "{what}");
        let checked = check_proof(&bound.proof, file).unwrap_or_else(|rejection| panic!("{what}: {rejection}"));
        assert_eq!((checked.unit, checked.most), (Unit::Cycles(core), bound.most), "{what}");
        let mut less = bound.proof.clone();
        less.most -= 1;
        assert!(check_proof(&less, file).is_err(), "{what}");
        let mut reached = false;
        for trace in traces {
            let next = trace[1..].iter().copied().map(Some).chain([None]);
            let costs = trace.iter().zip(next).map(|(at, next)| core.cycles(file, *at, next, None));
            let sum = costs.map(|cost| cost.expect("known")).reduce(|sum, cost| sum + cost).expect("instructions");
            assert!(bound.least as i64 <= sum.least && sum.most <= bound.most as i64, "{what}: {sum:?}");
            reached |= sum.most == bound.most as i64;
        }
        let count = cycles.entry(core.name()).or_default();
        *count = (count.0 + 1, count.1 + u32::from(reached));
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

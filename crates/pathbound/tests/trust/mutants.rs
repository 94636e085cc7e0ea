//! Mutants: instructions are added, branches inverted or redirected, and bounds and counts must follow.

use super::assembly::Assembly;
use super::fixtures::{Fixture, known, real};
use super::library::{Entry, Library};
use pathbound::arch::x86_64;
use pathbound::graph::NeverReturns;
use pathbound::{Bound, Graph, Image};

/// The reachable instructions of a fixture: the numbers of their lines, and their addresses.
fn places(fixture: &Fixture, library: &Library) -> Vec<(usize, u64)> {
    let graph = Graph::explore(&library.file, &[library.entry(0).address], &NeverReturns::default()).expect("code");
    let mut places = Vec::new();
    for function in fixture.assembly.functions() {
        let mut address = library.file.find(function).first().expect("a function of the file").address;
        for line in fixture.assembly.instructions(function) {
            if graph.node(address).is_some() {
                places.push((line, address));
            }
            let decoded = library.file.code(address).and_then(|code| x86_64::decode(code, address));
            address += u64::from(decoded.expect("an instruction").length);
        }
    }
    assert_eq!(places.len(), graph.nodes().filter(|(address, _)| is_in_text(library, *address)).count());
    places
}

/// Whether an instruction is not in a stub made by the linker.
fn is_in_text(library: &Library, address: u64) -> bool {
    library.file.symbol(address).is_some_and(|symbol| !symbol.name.ends_with("@plt"))
}

/// Counts all inputs on all parts of a library, part by part.
fn counts(fixture: &Fixture, library: &Library, entries: &[Entry]) -> Vec<Vec<u64>> {
    let inputs = &fixture.inputs;
    let calls: Vec<_> = entries.iter().flat_map(|entry| inputs.iter().map(|input| (*entry, input))).collect();
    library.count(&calls).chunks(inputs.len()).map(<[u64]>::to_vec).collect()
}

#[test]
fn added_instructions_move_bounds_and_counts_by_their_executions() {
    let mut mutants = 0;
    for fixture in known().into_iter().chain(real()) {
        mutants += add_instructions(&fixture);
    }
    assert!(mutants > 250, "{mutants}");
}

/// Adds instructions at each place in turn. Returns the number of mutants.
fn add_instructions(fixture: &Fixture) -> usize {
    let name = fixture.name;
    let original = fixture.library(std::slice::from_ref(&fixture.assembly));
    let entry = original.entry(0);
    let bound = original.bound(entry, &original.exact(entry, &fixture.facts)).expect("a bound");
    let traces: Vec<Vec<u64>> = fixture.inputs.iter().map(|input| original.trace(entry, input)).collect();
    let reaches = |count: u64| traces.iter().any(|trace| trace.len() as u64 == count);
    let (reaches_least, reaches_most) = (reaches(bound.least), reaches(bound.most));

    let places = places(fixture, &original);
    let nops = |place: usize| 1 + place % 5;
    let mutants = places.iter().enumerate().map(|(i, (line, _))| fixture.assembly.with_nops(*line, nops(i)));
    let mutants: Vec<Assembly> = mutants.collect();
    let library = fixture.library(&mutants);
    let entries: Vec<Entry> = (0..mutants.len()).map(|part| library.entry(part)).collect();
    let all = counts(fixture, &library, &entries);

    for (i, ((line, address), counts)) in places.iter().zip(&all).enumerate() {
        let (added, at) = (nops(i) as u64, fixture.assembly.line(*line).1);
        let executions = |trace: &Vec<u64>| trace.iter().filter(|executed| *executed == address).count() as u64;
        let expected: Vec<u64> = traces.iter().map(|trace| trace.len() as u64 + added * executions(trace)).collect();
        assert_eq!(*counts, expected, "{name}: {added} at {at}, line {line}");

        let mutant = library
            .bound(entries[i], &library.exact(entries[i], &fixture.facts))
            .unwrap_or_else(|decline| panic!("{name}: {decline}"));
        let on_longest: u64 =
            bound.witness.iter().filter(|step| step.address == *address).map(|step| step.executions).sum();
        assert!(mutant.most >= bound.most + added * on_longest, "{name}: {at}, line {line}");
        let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
        assert!(Some(mutant.least) <= least && most <= Some(mutant.most), "{name}: {at}, line {line}");
        if reaches_least {
            assert_eq!(Some(mutant.least), least, "{name}: {added} at {at}, line {line}");
        }
        if reaches_most {
            assert_eq!(Some(mutant.most), most, "{name}: {added} at {at}, line {line}");
        }
    }
    mutants.len()
}

#[test]
fn redirected_branches_leave_counts_within_bounds() {
    let mut executed = 0;
    for fixture in known() {
        let mutants = redirected_branches(&fixture);
        if mutants.is_empty() {
            continue;
        }
        let library = fixture.library(&mutants);
        let bound = |part| {
            let entry = library.entry(part);
            library.bound(entry, &library.exact(entry, &fixture.facts))
        };
        let bound = |part| bound(part).unwrap_or_else(|decline| panic!("{}: {decline}", fixture.name));
        // Mutants that can abort would do so.
        let returning = (0..mutants.len()).map(|part| (library.entry(part), bound(part)));
        let (entries, bounds): (Vec<Entry>, Vec<Bound>) =
            returning.filter(|(_, bound)| bound.never_returning.is_empty()).unzip();
        for (counts, bound) in counts(&fixture, &library, &entries).iter().zip(&bounds) {
            let possible = bound.least..=bound.most;
            assert!(counts.iter().all(|count| possible.contains(count)), "{}: {counts:?} {possible:?}", fixture.name);
        }
        executed += entries.len();
    }
    assert!(executed > 30, "{executed}");
}

/// Mutants with one conditional jump inverted, or with one forward jump redirected to another later place.
fn redirected_branches(fixture: &Fixture) -> Vec<Assembly> {
    let assembly = &fixture.assembly;
    let lines = assembly.instructions(fixture.name);
    let mut mutants = Vec::new();
    for (i, number) in lines.iter().enumerate() {
        let Some((jump, target)) = assembly.line(*number).1.split_once(' ') else { continue };
        if let Some(inverse) = inverse(jump) {
            mutants.push(assembly.with(*number, &format!("{inverse} {target}")));
        }
        // If rcx is 0, a loop that `jrcxz` does not skip has 2^64 iterations.
        if jump.starts_with('j') && jump != "jrcxz" && target.ends_with('f') {
            let labels = lines[i + 1..].iter().filter_map(|later| assembly.line(*later).0.strip_suffix(':'));
            let others = labels.filter(|label| *label != target.trim_end_matches('f'));
            mutants.extend(others.map(|label| assembly.with(*number, &format!("{jump} {label}f"))));
        }
    }
    mutants
}

/// The conditional jump that is taken whenever another is not.
fn inverse(jump: &str) -> Option<&'static str> {
    const PAIRS: &[(&str, &str)] = &[("je", "jne"), ("jz", "jnz"), ("jb", "jae"), ("ja", "jbe")];
    PAIRS.iter().find_map(|(one, other)| match jump {
        _ if jump == *one => Some(*other),
        _ if jump == *other => Some(*one),
        _ => None,
    })
}

//! Functions of known counts: the bound, the shortest path, and calls that reach both.

use super::assembly::Assembly;
use super::fixtures::{known, real};
use super::library::{Input, Library};
use super::loops::verified;
use pathbound::Decline;
use pathbound::graph::Obstacle;

#[test]
fn bounds_are_the_known_ones_and_calls_reach_both() {
    for fixture in known() {
        let (name, known) = (fixture.name, fixture.known.as_ref().expect("it is known"));
        let library = fixture.library(std::slice::from_ref(&fixture.assembly));
        let entry = library.entry(0);
        let bound = library
            .bound(entry, &library.exact(entry, &fixture.facts))
            .unwrap_or_else(|decline| panic!("{name}: {decline}"));
        assert_eq!((bound.least, bound.most), known.bounds, "{name}");
        let calls: Vec<_> = fixture.inputs.iter().map(|input| (entry, input)).collect();
        let counts = library.count(&calls);
        let extremes = (counts.iter().min().copied(), counts.iter().max().copied());
        assert_eq!(extremes, (Some(known.counts.0), Some(known.counts.1)), "{name}");
    }
}

#[test]
fn calls_of_compiled_functions_reach_their_bounds() {
    for fixture in real() {
        let library = fixture.library(std::slice::from_ref(&fixture.assembly));
        let entry = library.entry(0);
        let bound = library
            .bound(entry, &library.exact(entry, &fixture.facts))
            .unwrap_or_else(|decline| panic!("{}: {decline}", fixture.name));
        let calls: Vec<_> = fixture.inputs.iter().map(|input| (entry, input)).collect();
        let counts = library.count(&calls);
        assert_eq!(counts.iter().max(), Some(&bound.most), "{}", fixture.name);
        assert!(counts.iter().all(|count| *count >= bound.least), "{}", fixture.name);
    }
}

#[test]
fn a_stub_is_followed_if_its_target_is_known() {
    let assembly = Assembly::new(include_str!("fixtures/stub.s"));
    let library = Library::new("stub.s", &[(assembly, "calls_by_stub")]);
    let entry = library.entry(0);
    let in_file = library.bound(entry, &[]).expect_err("another library may define it");
    assert!(
        matches!(&in_file, Decline::Obstacle(Obstacle::ExternalCall(name), site)
            if name == "target" && site.address == entry.address),
        "{in_file}"
    );
    let bound = verified(&library.process, entry.in_process(), &[]).unwrap_or_else(|decline| panic!("{decline}"));
    assert_eq!((bound.least, bound.most), (5, 5));
    let input = Input { words: [1, 2, 3], memory: Vec::new() };
    assert_eq!(library.count(&[(entry, &input)]), [5]);
}

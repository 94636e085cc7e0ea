//! `rtalloc compare` from the outside.

use super::{rtalloc, text};
use rtalloc_lab::result::comparison::Comparisons;

#[test]
fn a_pair_is_compared_on_workloads_and_shipped_traces() {
    let arguments = ["compare", "tlsf", "rlsf", "p2 --mallocs 1000", "lame-decode", "--seconds", "0"];
    let output = rtalloc().args(arguments).env("COLUMNS", "120").assert().success();
    let table = text(&output.get_output().stdout);
    for part in ["tlsf (first) against rlsf (second)", "p2 ", "lame-decode ", "geometric mean", "Of 2 traces, tlsf is"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
}

#[test]
fn without_names_ours_meet_their_peers() {
    let output = rtalloc().args(["compare", "espeak-speech", "--seconds", "0", "--json", "-"]).assert().success();
    let comparisons: Comparisons =
        serde_json::from_slice(&output.get_output().stdout).expect("nothing but the figures");
    let pairs: Vec<(&str, &str)> = comparisons.traces[0]
        .comparisons
        .iter()
        .map(|comparison| (comparison.first.as_str(), comparison.second.as_str()))
        .collect();
    assert_eq!(pairs, [("tlsf", "rlsf"), ("first-fit-address", "linked-list"), ("binary-buddy", "buddy-system")]);
    for comparison in &comparisons.traces[0].comparisons {
        let figures = comparison.outcome.as_ref().expect("compared");
        assert!(figures.rounds >= 2 && figures.replay_ratio() > 0.0, "{figures:?}");
    }
}

#[test]
fn a_refusal_is_reported_and_fails() {
    let arguments = ["compare", "tlsf", "kingsley", "espeak-speech", "--seconds", "0", "--heap", "64K"];
    let output = rtalloc().args(arguments).assert().failure();
    let table = text(&output.get_output().stdout);
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("espeak-speech: not compared: tlsf refused "), "{table}");
    assert!(words.contains("a larger --heap may serve them"), "{table}");
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    for (arguments, parts) in [
        (&["tlfs", "rlsf"][..], &["tlfs is neither an allocator nor a trace or workload", "did you mean tlsf"][..]),
        (&["tlsf", "unknown"], &["no allocator \"unknown\""]),
        (&["tlsf"], &["tlsf: name a second allocator to compare it with"]),
        (&["tlsf", "buddy", "p1"], &["\"buddy\" is a group", "binary-buddy"]),
        (&["tlsf", "system"], &["system takes its pages from the system", "rtalloc run"]),
        (&["tlsf", "rlsf", "nothing"], &["\"nothing\" cannot be replayed", "p1, p2", "lua-entities"]),
        (&["tlsf", "rlsf", "p1 --mallocs x"], &["the workload \"p1 --mallocs x\": invalid value 'x'"]),
        (&["tlsf", "rlsf", "Cargo.toml"], &["Cargo.toml: not an rtalloc trace"]),
    ] {
        let output = rtalloc().arg("compare").args(arguments).assert().failure().code(1);
        let error = text(&output.get_output().stderr);
        assert!(error.lines().count() == 1 && parts.iter().all(|part| error.contains(part)), "{arguments:?}: {error}");
    }
}

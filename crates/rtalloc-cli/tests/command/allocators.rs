//! `rtalloc allocators` from the outside.

use super::rtalloc;
use rtalloc_lab::result::catalogue::Summary;
use rtalloc_lab::result::schema::Origin;

fn allocators(arguments: &[&str], columns: usize) -> assert_cmd::assert::Assert {
    let mut command = rtalloc();
    command.env("COLUMNS", columns.to_string()).arg("allocators").args(arguments).assert()
}

fn output(arguments: &[&str], columns: usize) -> String {
    String::from_utf8(allocators(arguments, columns).success().get_output().stdout.clone()).expect("text")
}

#[test]
fn the_table_has_everybody_within_its_width() {
    for columns in [80, 120] {
        let table = output(&[], columns);
        for subject in rtalloc_subjects::all() {
            let line = table.lines().find(|line| line.split_whitespace().next() == Some(subject.name));
            assert!(line.is_some(), "{} is missing:\n{table}", subject.name);
        }
        let longest = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest <= columns, "{longest} columns of {columns}:\n{table}");
        assert!(table.contains("ours, segregated") && table.contains("peers, hybrid"), "{table}");
    }
    let wide = output(&[], 150);
    assert!(
        wide.contains("Puaut 2002") && wide.contains("Bitframe thesis 2012") && !wide.contains("Omitted because"),
        "{wide}"
    );
}

#[test]
fn a_name_prints_a_summary_and_a_group_a_table() {
    let summary = output(&["tlsf"], 100);
    for fact in [
        "segregated, ours; one of the default twelve",
        "Masmano et al. 2008, sections 4 and 5",
        "deallocate          O(1)",
        "4 B before every live block",
        "multiples of 16 B, at least 16 B",
        "in a heap of 64 KiB",
        "strengths",
        "does not",
        "options",
    ] {
        assert!(summary.contains(fact), "{fact}:\n{summary}");
    }
    assert!(summary.lines().all(|line| line.chars().count() <= 100), "{summary}");
    let two = output(&["rlsf", "system"], 100);
    assert!(two.contains("the crate rlsf") && two.contains("it takes pages from the system"), "{two}");
    let sequential = output(&["sequential"], 100);
    assert!(sequential.contains("best-fit") && !sequential.contains("talc"), "{sequential}");
}

fn summaries_of(arguments: &[&str]) -> Vec<Summary> {
    let mut document: serde_json::Value = serde_json::from_str(&output(arguments, 100)).expect("JSON");
    serde_json::from_value(document["allocators"].take()).expect("summaries")
}

#[test]
fn the_json_has_every_summary() {
    let summaries = summaries_of(&["--json"]);
    assert_eq!(summaries.len(), rtalloc_subjects::all().len());
    for summary in &summaries {
        assert_eq!(summary.operations.len(), 4, "{}", summary.name);
        assert!(
            !summary.idea.is_empty()
                && !summary.source.is_empty()
                && !summary.wins.is_empty()
                && !summary.loses.is_empty()
        );
        if summary.origin == Origin::Ours {
            assert!(summary.operations.iter().all(|operation| operation.cost.is_some()), "{}", summary.name);
            let sizes = if summary.blocks.max_span_bytes.is_some_and(|bytes| bytes < 1 << 16) { 1 } else { 3 };
            assert_eq!(summary.control.len(), sizes, "{}", summary.name);
        }
    }
    assert_eq!(summaries_of(&["half-fit", "--json"]).len(), 1);
    assert_eq!(summaries_of(&["half-fit,tlsf", "talc", "--json"]).len(), 3);
}

#[test]
fn an_unknown_name_is_answered_with_those_like_it() {
    let refused = allocators(&["haf-fit"], 100).failure();
    let message = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(message.contains("did you mean half-fit"), "{message}");
    assert!(refused.get_output().stdout.is_empty());
}

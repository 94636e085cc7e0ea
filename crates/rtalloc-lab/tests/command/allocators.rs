//! `rtalloc allocators` from the outside.

use super::rtalloc;
use rtalloc_lab::result::catalogue::Card;
use rtalloc_lab::result::schema::Origin;

fn allocators(arguments: &[&str], columns: usize) -> assert_cmd::assert::Assert {
    let mut command = rtalloc();
    command.env("COLUMNS", columns.to_string()).arg("allocators").args(arguments).assert()
}

fn told(arguments: &[&str], columns: usize) -> String {
    String::from_utf8(allocators(arguments, columns).success().get_output().stdout.clone()).expect("text")
}

#[test]
fn the_table_has_everybody_within_its_width() {
    for columns in [80, 120] {
        let table = told(&[], columns);
        for subject in rtalloc_subjects::all() {
            let line = table.lines().find(|line| line.split_whitespace().next() == Some(subject.name));
            assert!(line.is_some(), "{} is missing:\n{table}", subject.name);
        }
        let longest = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest <= columns, "{longest} columns of {columns}:\n{table}");
        assert!(table.contains("ours, segregated") && table.contains("peers, hybrid"), "{table}");
    }
    let wide = told(&[], 150);
    assert!(
        wide.contains("Puaut 2002") && wide.contains("Bitframe thesis 2012") && !wide.contains("Left out"),
        "{wide}"
    );
}

#[test]
fn a_name_gives_the_card_and_a_group_its_table() {
    let card = told(&["tlsf"], 100);
    for fact in [
        "segregated, ours; one of the default twelve",
        "Masmano et al. 2008, sections 4 and 5",
        "deallocate          O(1)",
        "4 B in front of every live block",
        "multiples of 16 B, at least 16 B",
        "in a heap of 64 KiB",
        "take it for",
        "does not",
        "options",
    ] {
        assert!(card.contains(fact), "{fact}:\n{card}");
    }
    assert!(card.lines().all(|line| line.chars().count() <= 100), "{card}");
    let two = told(&["rlsf", "system"], 100);
    assert!(two.contains("the crate rlsf") && two.contains("it takes pages from the system"), "{two}");
    let sequential = told(&["sequential"], 100);
    assert!(sequential.contains("best-fit") && !sequential.contains("talc"), "{sequential}");
}

fn cards_of(arguments: &[&str]) -> Vec<Card> {
    let mut document: serde_json::Value = serde_json::from_str(&told(arguments, 100)).expect("JSON");
    serde_json::from_value(document["allocators"].take()).expect("cards")
}

#[test]
fn the_json_is_every_card() {
    let cards = cards_of(&["--json"]);
    assert_eq!(cards.len(), rtalloc_subjects::all().len());
    for card in &cards {
        assert_eq!(card.operations.len(), 4, "{}", card.name);
        assert!(!card.idea.is_empty() && !card.source.is_empty() && !card.wins.is_empty() && !card.loses.is_empty());
        if card.origin == Origin::Ours {
            assert!(card.operations.iter().all(|operation| operation.cost.is_some()), "{}", card.name);
            assert_eq!(card.control.len(), 3, "{}", card.name);
        }
    }
    assert_eq!(cards_of(&["half-fit", "--json"]).len(), 1);
    assert_eq!(cards_of(&["half-fit,tlsf", "talc", "--json"]).len(), 3);
}

#[test]
fn an_unknown_name_is_answered_with_those_like_it() {
    let refused = allocators(&["haf-fit"], 100).failure();
    let message = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(message.contains("did you mean half-fit"), "{message}");
    assert!(refused.get_output().stdout.is_empty());
}

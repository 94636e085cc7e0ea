//! What every heap of C's detects of every misuse: `misuse.c` commits one at a time in a process of its own, `misuse_objects.c` does
//! so with handles, and `docs/MISUSE.md` says what came of it. With `UPDATE_MISUSE=1` the tables are written anew.

mod toolchain;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use toolchain::{compiled, krate, said, shipped};

/// The document, and the line that ends a table.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/MISUSE.md");
const END: &str = "<!-- end of table -->\n";

/// What came of a misuse, in the words of `misuse.c`, or how the process ended.
fn committed(program: &Path, heap: &str, misuse: &str) -> String {
    let output = Command::new(program).args([heap, misuse]).output().expect("started");
    if output.status.success() {
        String::from_utf8(output.stdout).expect("text").trim().to_string()
    } else {
        panic!("{heap}, {misuse}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
}

/// A cell of the table: what is detected stands out.
fn cell(outcome: &str) -> String {
    let told = |part: &str| match part.strip_prefix("reported ") {
        Some(kind) => format!("**{kind}**"),
        None if part == "refused" => "**refused**".into(),
        None if part == "checked" => "check".into(),
        None => part.into(),
    };
    outcome.split(", ").map(told).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_document_says_what_every_heap_detects() {
    let program = compiled("cc", &["-std=c11", "-O1"], &krate().join("tests/misuse.c"), "misuse");
    let listed = said(&program);
    let all = |what| listed.lines().filter_map(|line| line.strip_prefix(what)).collect::<Vec<&str>>();
    let (heaps, misuses) = (all("heap "), all("misuse "));
    assert!(heaps.len() > 20 && heaps.contains(&"tlsf"), "{heaps:?}");
    assert!(misuses.len() > 8 && misuses.contains(&"double free"), "{misuses:?}");

    // Heaps that answer alike share a line, in the order of the first of them.
    let mut places: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let mut rows: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    for heap in heaps {
        let outcomes: Vec<String> = misuses.iter().map(|misuse| committed(&program, heap, misuse)).collect();
        let place = *places.entry(outcomes.clone()).or_insert(rows.len());
        if place == rows.len() {
            rows.push((Vec::new(), outcomes));
        }
        rows[place].0.push(heap);
    }

    let mut table = format!("| heap | {} |\n|---{}|\n", misuses.join(" | "), "|---".repeat(misuses.len()));
    for (heaps, outcomes) in rows {
        let names: Vec<String> = heaps.iter().map(|heap| format!("`rt_{heap}`")).collect();
        let cells: Vec<String> = outcomes.iter().map(|outcome| cell(outcome)).collect();
        table += &format!("| {} | {} |\n", names.join(" "), cells.join(" | "));
    }

    is_told("heaps", &table);
}

#[test]
fn the_document_says_what_heaps_of_handles_answer() {
    let program = compiled("cc", &["-std=c11", "-O1"], &krate().join("tests/misuse_objects.c"), "misuse_objects");
    let told = said(&program);
    let mut table = String::from("| heap | misuse | answer |\n|---|---|---|\n");
    // Heaps that answer alike share a line.
    let mut rows: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for line in told.lines() {
        let words: Vec<&str> = line.splitn(3, ": ").collect();
        let [heap, misuse, answer] = words[..] else { panic!("{line}") };
        let heap = format!("`rt_{heap}`");
        match rows.iter_mut().find(|row| (row.0, row.1) == (misuse, answer)) {
            Some((_, _, heaps)) => heaps.push(heap),
            None => rows.push((misuse, answer, vec![heap])),
        }
    }
    assert!(rows.len() > 6, "{told}");
    for (misuse, answer, heaps) in rows {
        table += &format!("| {} | {misuse} | {answer} |\n", heaps.join(" "));
    }
    is_told("objects", &table);
}

/// What the preloaded library says of a misuse before it ends the program, and its name in the table.
#[cfg(target_os = "linux")]
const SAID: [(&str, &str); 8] = [
    ("not a block of this heap", "foreign pointer"),
    ("it is free already", "double free"),
    ("its tags contradict each other", "contradictory tags"),
    ("bytes behind it were written", "overrun"),
    ("bytes in front of it were written", "underrun"),
    ("it was written after it was freed", "use after free"),
    ("inside a block", "interior pointer"),
    ("nobody writes to a block that was freed", "use after free"),
];

#[cfg(target_os = "linux")]
#[test]
fn the_document_says_what_programs_are_told() {
    use std::os::unix::process::ExitStatusExt;
    const SIGABRT: i32 = 6;
    let flags = ["-std=c11", "-O1", "-fno-builtin", "-DPRELOADED"];
    let program = compiled("cc", &flags, &krate().join("tests/misuse.c"), "misuse_preloaded");
    let listed = said(&program);
    let misuses: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("misuse ")).collect();
    assert!(misuses.len() > 8, "{listed}");
    let library = shipped("rtalloc-malloc", "librtalloc_malloc.so");
    let mut table = format!("| `RTALLOC` | {} |\n|---{}|\n", misuses.join(" | "), "|---".repeat(misuses.len()));
    for heap in ["arenas", "tlsf", "bitmap-buddy", "guarded"] {
        let cells = misuses.iter().map(|misuse| {
            let mut run = Command::new(&program);
            run.args(["malloc", misuse]).env("LD_PRELOAD", &library).env("RTALLOC", heap);
            let output = run.output().expect("started");
            if output.status.success() {
                return cell(String::from_utf8_lossy(&output.stdout).trim());
            }
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.signal(), Some(SIGABRT), "{heap}, {misuse}: {} {error}", output.status);
            let known = SAID.iter().find(|(words, _)| error.contains(words));
            let (_, kind) = known.unwrap_or_else(|| panic!("{heap}, {misuse}: {error}"));
            format!("**{kind}**")
        });
        table += &format!("| `{heap}` | {} |\n", cells.collect::<Vec<_>>().join(" | "));
    }
    is_told("programs", &table);
}

/// Compares a table of the document, or writes it.
fn is_told(name: &str, table: &str) {
    // One test at a time writes.
    static WRITER: Mutex<()> = Mutex::new(());
    let _writer = WRITER.lock();
    let begin = format!("<!-- table: {name} -->\n");
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/MISUSE.md");
    let (before, rest) = document.split_once(&begin).expect("the table's beginning");
    let (_, after) = rest.split_once(END).expect("the table's end");
    let now = format!("{before}{begin}{table}{END}{after}");
    if std::env::var_os("UPDATE_MISUSE").is_some() {
        std::fs::write(DOCUMENT, now).expect("written");
    } else {
        assert_eq!(
            document, now,
            "the heaps do otherwise than docs/MISUSE.md says: look why, then set UPDATE_MISUSE=1"
        );
    }
}

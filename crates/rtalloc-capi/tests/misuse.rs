//! Tests which misuse every heap of C detects: `misuse.c` commits one misuse per process, `misuse_rates.c` commits a
//! thousand random misuses of each kind, and `misuse_objects.c` misuses handles. The results are those in
//! `docs/MISUSE.md`. With `UPDATE_MISUSE=1` its tables are rewritten.

mod toolchain;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use toolchain::{compiled, krate, output_of, shipped};

/// The document, and the line that ends a table.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/MISUSE.md");
const END: &str = "<!-- end of table -->\n";

/// The signal of a fault, on all systems that have signals.
const SIGSEGV: i32 = 11;

/// The result of a misuse as printed by `misuse.c`, or `crashed` if a fault ended the process.
fn committed(program: &Path, heap: &str, misuse: &str) -> String {
    let output = Command::new(program).args([heap, misuse]).output().expect("started");
    if output.status.success() {
        String::from_utf8(output.stdout).expect("text").trim().to_string()
    } else if output.status.signal() == Some(SIGSEGV) {
        "crashed".into()
    } else {
        panic!("{heap}, {misuse}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
}

/// A cell of the table. Detected misuse is bold.
fn cell(outcome: &str) -> String {
    let shown = |part: &str| match part.strip_prefix("reported ") {
        Some(kind) => format!("**{kind}**"),
        None if part == "refused" => "**refused**".into(),
        None if part == "checked" => "check".into(),
        None => part.into(),
    };
    outcome.split(", ").map(shown).collect::<Vec<_>>().join(", ")
}

#[test]
fn misuse_of_blocks_is_detected_as_documented() {
    let program = compiled("cc", &["-std=c11", "-O1"], &krate().join("tests/misuse.c"), "misuse");
    let listed = output_of(&program);
    let all = |what| listed.lines().filter_map(|line| line.strip_prefix(what)).collect::<Vec<&str>>();
    let (heaps, misuses) = (all("heap "), all("misuse "));
    assert!(heaps.len() > 20 && heaps.contains(&"tlsf"), "{heaps:?}");
    assert!(misuses.len() > 8 && misuses.contains(&"double free"), "{misuses:?}");

    // Heaps with equal results share a row, in the order of the first heap.
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

    assert_documented("heaps", &table);
}

/// The number of trials and their outcomes.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rate {
    trials: usize,
    /// Reported, crashed, overlapped, checked, unseen.
    outcomes: Vec<usize>,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
impl Rate {
    fn harmed(&self) -> usize {
        self.outcomes[1] + self.outcomes[2]
    }

    /// A cell of the table, in percent.
    fn cell(&self) -> String {
        if self.trials == 0 {
            return "–".into();
        }
        let percent = |&count: &usize| match (200 * count + self.trials) / (2 * self.trials) {
            0 if count > 0 => "<1".into(),
            100 if count < self.trials => ">99".into(),
            rounded => rounded.to_string(),
        };
        if self.outcomes[0] == self.trials {
            return "**100**".into();
        }
        self.outcomes.iter().map(percent).collect::<Vec<String>>().join(" / ")
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn detection_rates_are_as_documented_and_keep_the_contracts() {
    const TRIALS: usize = 1000;
    let program = compiled("cc", &["-std=c11", "-O1"], &krate().join("tests/misuse_rates.c"), "misuse_rates");
    let listed = output_of(&program);
    let mut rows: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    for heap in listed.lines() {
        let output = toolchain::done(Command::new(&program).args([heap, &TRIALS.to_string()]));
        let mut promises = vec![0; 3];
        let mut rates: BTreeMap<String, Rate> = BTreeMap::new();
        columns.clear();
        for line in String::from_utf8(output.stdout).expect("text").lines() {
            let (what, numbers) = line.split_once(": ").expect("a colon");
            let mut numbers: Vec<usize> = numbers.split(' ').map(|word| word.parse().expect("a number")).collect();
            if what == "promises" {
                promises = numbers;
                continue;
            }
            let rate = Rate { trials: numbers.remove(0), outcomes: numbers };
            assert_eq!((rate.outcomes.len(), rate.outcomes.iter().sum::<usize>()), (5, rate.trials), "{heap}: {line}");
            columns.push(what.into());
            rates.insert(what.into(), rate);
        }
        assert!(rates.len() > 6, "{heap}: {} misuses", rates.len());
        // Up to seven requests and frees lie between the two frees; the suite of the crate tests the immediate double
        // free.
        let frees = &rates["double free, memory not reused"];
        let is_kept = promises[1] == 0 || frees.outcomes[0] == frees.trials;
        assert!(is_kept, "{heap} promises to detect stale pointers: {:?}", frees.outcomes);
        for place in ["live", "free"] {
            let rate = &rates[&format!("one byte after the end, next block {place}")];
            let is_kept = promises[2] == 0 || 100 * rate.harmed() <= rate.trials;
            assert!(is_kept, "{heap} promises to detect overwritten tags: next block {place}: {:?}", rate.outcomes);
            if heap == "tlsf_full_validation" {
                assert!(rate.trials == TRIALS && 100 * rate.outcomes[0] >= 99 * TRIALS, "{place}: {:?}", rate.outcomes);
            }
        }
        if ["guarded_tlsf", "debug_tlsf", "quota_tlsf"].contains(&heap) {
            let stale = &rates["block of the region's previous heap"];
            assert!(stale.trials == TRIALS && stale.outcomes[0] == TRIALS, "{heap}: {:?}", stale.outcomes);
        }
        let cells: Vec<String> = columns.iter().map(|what| rates[what].cell()).collect();
        match rows.iter_mut().find(|(_, known)| *known == cells) {
            Some((heaps, _)) => heaps.push(heap),
            None => rows.push((vec![heap], cells)),
        }
    }
    let mut table = format!("| heap | {} |\n|---{}|\n", columns.join(" | "), "|---".repeat(columns.len()));
    for (heaps, cells) in rows {
        let names: Vec<String> = heaps.iter().map(|heap| format!("`rt_{heap}`")).collect();
        table += &format!("| {} | {} |\n", names.join(" "), cells.join(" | "));
    }
    assert_documented("rates", &table);
}

#[test]
fn misuse_of_handles_is_refused_as_documented() {
    let program = compiled("cc", &["-std=c11", "-O1"], &krate().join("tests/misuse_objects.c"), "misuse_objects");
    let output = output_of(&program);
    let mut table = String::from("| heap | misuse | answer |\n|---|---|---|\n");
    // Heaps with equal results share a row.
    let mut rows: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for line in output.lines() {
        let words: Vec<&str> = line.splitn(3, ": ").collect();
        let [heap, misuse, answer] = words[..] else { panic!("{line}") };
        let heap = format!("`rt_{heap}`");
        match rows.iter_mut().find(|row| (row.0, row.1) == (misuse, answer)) {
            Some((_, _, heaps)) => heaps.push(heap),
            None => rows.push((misuse, answer, vec![heap])),
        }
    }
    assert!(rows.len() > 6, "{output}");
    for (misuse, answer, heaps) in rows {
        table += &format!("| {} | {misuse} | {answer} |\n", heaps.join(" "));
    }
    assert_documented("objects", &table);
}

/// The message of the preloaded library before it ends the program, and the name of the misuse in the table.
#[cfg(target_os = "linux")]
const MESSAGES: [(&str, &str); 8] = [
    ("not a block of this heap", "foreign pointer"),
    ("it is free already", "double free"),
    ("its tags contradict each other", "contradictory tags"),
    ("bytes after it were written", "overrun"),
    ("bytes before it were written", "underrun"),
    ("it was written after it was freed", "use after free"),
    ("inside a block", "interior pointer"),
    ("a freed block is not written", "use after free"),
];

#[cfg(target_os = "linux")]
#[test]
fn misuse_under_the_preloaded_library_is_reported_as_documented() {
    use std::os::unix::process::ExitStatusExt;
    const SIGABRT: i32 = 6;
    let flags = ["-std=c11", "-O1", "-fno-builtin", "-DPRELOADED"];
    let program = compiled("cc", &flags, &krate().join("tests/misuse.c"), "misuse_preloaded");
    let listed = output_of(&program);
    let misuses: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("misuse ")).collect();
    assert!(misuses.len() > 8, "{listed}");
    let library = shipped("rtalloc-malloc", "librtalloc_malloc.so");
    let mut table = format!("| `RTALLOC` | {} |\n|---{}|\n", misuses.join(" | "), "|---".repeat(misuses.len()));
    for heap in ["arenas", "tree-buddy", "bitmap-buddy", "tlsf", "half-fit", "guarded"] {
        let cells = misuses.iter().map(|misuse| {
            let mut run = Command::new(&program);
            run.args(["malloc", misuse]).env("LD_PRELOAD", &library).env("RTALLOC", heap);
            let output = run.output().expect("started");
            if output.status.success() {
                return cell(String::from_utf8_lossy(&output.stdout).trim());
            }
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.signal(), Some(SIGABRT), "{heap}, {misuse}: {} {error}", output.status);
            let known = MESSAGES.iter().find(|(words, _)| error.contains(words));
            let (_, kind) = known.unwrap_or_else(|| panic!("{heap}, {misuse}: {error}"));
            format!("**{kind}**")
        });
        table += &format!("| `{heap}` | {} |\n", cells.collect::<Vec<_>>().join(" | "));
    }
    assert_documented("programs", &table);
}

/// Compares a table of the document with the results, or rewrites it.
fn assert_documented(name: &str, table: &str) {
    // Only one test at a time writes.
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
        assert_eq!(document, now, "the results differ from docs/MISUSE.md: find the reason, then set UPDATE_MISUSE=1");
    }
}

//! `docs/guarantees/`: every theorem is there, and the table of small worlds is what the search finds.

use assert_cmd::Command;
use rtalloc_subjects::{all, region_allocators};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guarantees")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect(name)
}

#[test]
fn every_guarantee_has_a_theorem() {
    for subject in all() {
        if let Some(guarantee) = subject.about.guarantee {
            let theorem = guarantee.theorem();
            assert!(read(&format!("{theorem}.md")).starts_with("# "), "{}: {theorem}", subject.name);
        }
    }
    let index = read("README.md");
    let (_, without) = index.split_once("No guarantee is known for").expect("a paragraph");
    let (without, _) = without.split_once("\n\n").expect("its end");
    for subject in region_allocators() {
        let is_named = without.contains(&format!("`{}`", subject.name));
        assert_eq!(is_named, subject.about.guarantee.is_none(), "{}", subject.name);
    }
}

/// The cells of the committed table: allocator, n and M; the text is as printed.
fn committed() -> BTreeMap<(String, usize, usize), String> {
    let mut cells = BTreeMap::new();
    let (mut name, mut columns): (String, Vec<(usize, usize)>) = (String::new(), Vec::new());
    for line in read("exact.txt").lines() {
        if let Some((subject, _)) = line.split_once(": units of ") {
            name = subject.into();
        } else if line.starts_with("any allocator") {
            name = "any allocator".into();
        } else if line.trim_start().starts_with("M ") {
            columns = ends(line).into_iter().skip(1).map(|(end, text)| (end, text.parse().expect("M"))).collect();
        } else if let Some(rest) = line.strip_prefix("n = ") {
            let n = rest.split_whitespace().next().expect("n").parse().expect("a number");
            for (end, text) in ends(line).into_iter().skip(3) {
                let (_, m) = columns.iter().find(|(column, _)| *column == end).expect("a column");
                cells.insert((name.clone(), n, *m), text);
            }
        }
    }
    cells
}

/// The words of a line, and where each ends.
fn ends(line: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut at = 0;
    for word in line.split(' ') {
        at += word.len();
        if !word.is_empty() {
            words.push((at, word.to_string()));
        }
        at += 1;
    }
    words
}

/// All worlds up to M = 7 and n = 5 with few states are explored again.
#[test]
fn small_worlds_are_as_committed() {
    let run = Command::cargo_bin("rtalloc")
        .expect("the command")
        .args(["--quiet", "size", "--exact", "7,5", "--states", "20000", "--json", "-"])
        .assert()
        .success();
    let found: Value = serde_json::from_slice(&run.get_output().stdout).expect("JSON");
    let committed = committed();
    let mut compared = 0;
    for row in found["rows"].as_array().expect("rows") {
        let name = row["subject"].as_str().expect("a name");
        for cell in row["cells"].as_array().expect("cells") {
            let number = |field: &str| cell[field].as_u64().expect(field) as usize;
            if cell["is_exact"] == true {
                let units = number("block_bytes").div_ceil(row["unit_bytes"].as_u64().expect("bytes") as usize);
                let key = (name.to_string(), number("n"), number("m"));
                assert_eq!(committed.get(&key), Some(&units.to_string()), "{key:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 250, "{compared} worlds");
}

#[test]
fn a_witness_is_refused_by_its_heap_and_by_no_larger_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("teeth.rtrace");
    let rtalloc = || Command::cargo_bin("rtalloc").expect("the command");
    let found =
        rtalloc().args(["size", "--exact", "5,4", "--on", "half-fit", "--witness"]).arg(&trace).assert().success();
    let note = String::from_utf8_lossy(&found.get_output().stderr).into_owned();
    let heap: usize = note
        .split("--heap ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("a heap")
        .parse()
        .expect("a size");
    let failed = |bytes: usize| {
        let heap = bytes.to_string();
        let args = ["--on", "half-fit", "--probe", "space", "--json", "-", "--heap", &heap];
        let run = rtalloc().arg("run").arg(&trace).args(args).assert();
        let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
        let run: Value = serde_json::from_str(&text).expect("JSON");
        run["traces"][0]["cells"][0]["outcome"]["failures"]["failed"].as_u64().unwrap_or(0)
    };
    assert_eq!(failed(heap), 1, "{note}");
    assert_eq!(failed(heap + 16), 0, "{note}");
}

#[test]
fn limits_give_sizes_and_wrong_ones_are_explained() {
    let size = |args: &[&str]| Command::cargo_bin("rtalloc").expect("the command").arg("size").args(args).assert();
    let limits = ["--limit", "64x200", "--limit", "8x1500", "--limit", "1x4096"];
    let on = ["--on", "binary-buddy,kingsley,tlsf,simple-segregated", "--json", "-"];
    let run = size(&[limits.as_slice(), &on].concat()).success();
    let sizes: Value = serde_json::from_slice(&run.get_output().stdout).expect("JSON");
    let rows = sizes["rows"].as_array().expect("rows");
    let guaranteed = |row: &Value| row["guaranteed_bytes"].as_u64();
    assert_eq!(rows[0]["subject"], "binary-buddy");
    assert!(guaranteed(&rows[0]).is_some_and(|bytes| bytes <= 64 << 10), "{sizes}");
    for row in rows {
        if let (Some(forced), Some(guaranteed)) = (row["forced"]["region_bytes"].as_u64(), guaranteed(row)) {
            assert!(forced <= guaranteed, "{row}");
        }
    }
    for (args, said) in [
        (&["--limit", "64"][..], "not a limit"),
        (&["--limit", "0x64"], "at least one object"),
        (&["--limit", "2x300-200"], "300 is more than 200"),
        (&["--live", "28K"], "--largest"),
        (&["--limit", "64x200", "--margin", "20%"], "--margin is for"),
        (&["--limit", "64x200", "--smallest", "16"], "COUNTxMIN-MAX"),
        (&["--exact", "4,5"], "M must be at least n"),
        (&["--exact", "5,1"], "n must be at least 2"),
        (&["--exact", "5,3", "--on", "rlsf"], "choose a region allocator of ours"),
        (&["--exact", "5,3", "--witness", "x.rtrace"], "name it with --on"),
        (&[], "--limit"),
    ] {
        let run = size(args).failure();
        let text = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(text.contains(said), "{args:?}: {text}");
    }
}

/// The search finds, unaided, programs that refute any-fit's formula for half-fit, and that a heap refuses when their
/// trace is replayed; what it finds is the same at every run, and nothing exceeds a guarantee.
#[test]
fn a_search_finds_what_half_fit_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("worst.rtrace");
    let attack = |more: &[&str]| {
        let run = Command::cargo_bin("rtalloc")
            .expect("the command")
            .args(["size", "--attack", "128,8", "--json", "-", "--programs", "20000"])
            .args(more)
            .assert()
            .success();
        let note = String::from_utf8(run.get_output().stderr.clone()).expect("UTF-8");
        (serde_json::from_slice::<Value>(&run.get_output().stdout).expect("JSON"), note)
    };
    let (found, note) = attack(&["--on", "half-fit", "--witness", trace.to_str().expect("UTF-8")]);
    let row = &found["rows"][0];
    let bytes = |of: &Value| of.as_u64().expect("bytes");
    let needed = bytes(&row["found"]["block_bytes"]);
    let (any_fit, guaranteed) = (8 * (128 - 8 + 1) * 16, bytes(&row["guaranteed_bytes"]));
    assert!(needed > any_fit / 2 && needed <= guaranteed, "{needed} of {guaranteed}");
    assert_is_refused(&note);
    let (again, _) = attack(&["--on", "half-fit,kingsley,tlsf,binary-buddy"]);
    let same = again["rows"].as_array().expect("rows").iter().find(|other| other["subject"] == "half-fit");
    assert_eq!(same.expect("half-fit")["found"], row["found"]);
}

/// The adversary that forces the most within limits is a trace that a smaller region refuses.
#[test]
fn what_limits_force_can_be_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("forced.rtrace");
    let within = [&["--limit", "20x200", "--limit", "3x1500"][..], &["--live", "8K", "--largest", "512"][..]];
    for limits in within {
        for subject in ["binary-buddy", "kingsley", "tlsf", "half-fit"] {
            let run = Command::cargo_bin("rtalloc")
                .expect("the command")
                .args(["size", "--on", subject, "--witness", trace.to_str().expect("UTF-8")])
                .args(limits)
                .assert()
                .success();
            assert_is_refused(&String::from_utf8(run.get_output().stderr.clone()).expect("UTF-8"));
        }
    }
}

/// Performs the command of a note: its last request alone is refused.
fn assert_is_refused(note: &str) {
    let command = note.lines().find_map(|line| line.split("refused by: rtalloc run ").nth(1)).expect("a command");
    let replay = Command::cargo_bin("rtalloc")
        .expect("the command")
        .args(["--quiet", "run", "--probe", "space", "--json", "-"])
        .args(command.split_whitespace())
        .output()
        .expect("a run");
    let replay: Value = serde_json::from_slice(&replay.stdout).expect("JSON");
    let outcome = replay["traces"][0]["cells"][0]["outcome"].to_string();
    assert!(outcome.contains("\"failed\":1,"), "{command}: {outcome}");
}

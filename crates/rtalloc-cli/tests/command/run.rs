//! `rtalloc run` from the outside.

use super::{rtalloc, text};
use rtalloc_lab::result::schema::{Outcome, Run};
use std::path::PathBuf;
use tempfile::TempDir;

fn small_trace(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("small.trace");
    // The alignment of the smallest quantum, so that everybody serves everything.
    rtalloc().args(["generate", "small", "--mallocs", "2000", "--align", "8", "-o"]).arg(&path).assert().success();
    path
}

#[test]
fn tables_and_files_hold_every_chosen_allocator() {
    let directory = TempDir::new().expect("a directory");
    let trace = small_trace(&directory);
    let (json, csv) = (directory.path().join("run.json"), directory.path().join("run.csv"));
    let output = rtalloc()
        .args(["run", "--on", "sequential,segregated,buddy-system,-best-fit", "--replicas", "2", "--heap", "4M"])
        .arg(&trace)
        .arg("--json")
        .arg(&json)
        .arg("--csv")
        .arg(&csv)
        .assert()
        .success();
    let table = text(&output.get_output().stdout);
    let run: Run = serde_json::from_slice(&std::fs::read(&json).expect("the JSON")).expect("a run");
    let csv = std::fs::read_to_string(&csv).expect("the CSV");
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("heap of 4.00 MiB"), "the heap is stated: {table}");
    let cells = &run.traces[0].cells;
    let chosen = rtalloc_subjects::select(&["sequential", "segregated", "buddy-system", "-best-fit"]).expect("names");
    let names: Vec<&str> = cells.iter().map(|cell| cell.subject.name.as_str()).collect();
    assert_eq!(names, chosen.iter().map(|subject| subject.name).collect::<Vec<_>>());
    for cell in cells {
        let name = &cell.subject.name;
        assert_ne!(name, "best-fit");
        match &cell.outcome {
            Outcome::Completed => {}
            // Its heap is smaller than the live memory.
            Outcome::Failures { .. } if name == "tlsf-small" => {}
            // Blocks as C's malloc aligns them are beyond what it serves, every one of them and nothing else.
            Outcome::Failures { failed, beyond_reach, .. } => {
                assert!(cell.subject.largest_alignment_bytes.is_some_and(|bytes| bytes < 16), "{name}");
                assert_eq!(failed, beyond_reach, "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(cell.heap_bytes, Some(if name == "tlsf-small" { 65_535 } else { 4 << 20 }));
        assert!(table.contains(name) && csv.contains(name), "{name}");
    }
    assert!(run.environment.tsc_hz > 0 && run.environment.rustc.starts_with("rustc "));
}

#[test]
fn standard_output_is_for_one_format() {
    let directory = TempDir::new().expect("a directory");
    let trace = small_trace(&directory);
    let only_space = ["run", "--on", "tlsf", "--probe", "space"];
    let output = rtalloc().args(only_space).arg(&trace).args(["--json", "-"]).assert().success();
    let run: Run = serde_json::from_slice(&output.get_output().stdout).expect("nothing but a run");
    let cell = &run.traces[0].cells[0];
    assert!(cell.space.is_some() && cell.time.is_none() && cell.instructions.is_none());
    let both = rtalloc().args(only_space).arg(&trace).args(["--json", "-", "--csv", "-"]).assert().failure();
    assert!(text(&both.get_output().stderr).contains("--json and --csv"));
}

#[test]
fn a_wrong_argument_is_answered_with_what_is_right() {
    let directory = TempDir::new().expect("a directory");
    let trace = small_trace(&directory);
    let refused = |arguments: &[&str]| {
        let output = rtalloc().arg("run").arg(&trace).args(arguments).assert().failure();
        text(&output.get_output().stderr)
    };
    let unknown = refused(&["--on", "tlfs"]);
    assert!(unknown.contains("tlfs") && unknown.contains("did you mean tlsf"), "{unknown}");
    let strange = refused(&["--on", "quetzalcoatl"]);
    assert!(strange.contains("quetzalcoatl") && strange.contains("`rtalloc allocators` lists them"), "{strange}");
    assert!(refused(&["--on", "tlsf,-tlsf"]).contains("empty"));
    assert!(refused(&["--heap", "12Q"]).contains("64K"));
    assert!(refused(&["--probe", "luck"]).contains("instructions"));
    assert!(refused(&["--limit", "18446744073709551615"]).contains("1000000"));
    assert!(refused(&["--replicas", "0"]).contains("--replicas"));
    let tiny = refused(&["--heap", "10", "--on", "ours,linked-list,dlmalloc", "--probe", "space"]);
    assert_eq!(tiny.lines().count(), 1, "{tiny}");
    assert!(tiny.contains("--heap 10: no allocator could serve anything") && tiny.contains("without --heap"), "{tiny}");
    let missing = rtalloc().args(["run", "nowhere.trace"]).assert().failure();
    assert!(text(&missing.get_output().stderr).contains("nowhere.trace"));
}

#[test]
fn a_trace_cut_to_small_blocks_is_replayed_as_one() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("p2.trace");
    rtalloc().args(["generate", "p2", "--mallocs", "2000", "-o"]).arg(&path).assert().success();
    let cut = ["--at-most", "512", "--probe", "space", "--on", "tlsf", "--json", "-"];
    let output = rtalloc().arg("run").arg(&path).args(cut).assert().success();
    let run: Run = serde_json::from_slice(&output.get_output().stdout).expect("a run");
    let (result, cell) = (&run.traces[0].trace, &run.traces[0].cells[0]);
    assert!(result.largest_request_bytes <= 512 && result.allocations < 2000 && result.allocations > 0);
    assert!(result.about.ends_with("; blocks of at most 512 B only"), "{}", result.about);
    assert_eq!(cell.outcome, Outcome::Completed);
    let inspected = rtalloc().arg("inspect").arg(&path).args(["--at-most", "512"]).assert().success();
    let output = text(&inspected.get_output().stdout);
    assert!(
        output.contains("100.0 % are of 512 bytes or less") && output.contains("cut_to_at_most_bytes = 512"),
        "{output}"
    );
    let none = rtalloc().arg("run").arg(&path).args(["--at-most", "1"]).assert().failure();
    assert!(text(&none.get_output().stderr).contains("no request has at most 1 bytes"));
    let missing = rtalloc().args(["inspect", "nowhere.trace", "--at-most", "1K"]).assert().failure();
    assert!(text(&missing.get_output().stderr).contains("nowhere.trace"));
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_measuring() {
    let directory = TempDir::new().expect("a directory");
    let trace = small_trace(&directory);
    for format in ["--json", "--csv"] {
        let refused = rtalloc().arg("run").arg(&trace).args([format, "missing/results"]).assert().failure();
        let message = text(&refused.get_output().stderr);
        assert!(message.contains(&format!("{format}: cannot write missing/results; choose another")), "{message}");
        assert!(refused.get_output().stdout.is_empty());
    }
}

#[test]
fn a_pipe_is_no_trace() {
    let directory = TempDir::new().expect("a directory");
    let trace = std::fs::read(small_trace(&directory)).expect("the trace");
    let refused = rtalloc().args(["run", "/dev/stdin"]).write_stdin(trace).assert().failure();
    let message = text(&refused.get_output().stderr);
    assert!(message.contains("/dev/stdin: a trace is read several times: give a regular file"), "{message}");
}

//! `rtalloc threads` and `rtalloc interleave` from the outside.

use super::{rtalloc, text};
use rtalloc_lab::result::interleave::Interleaved;
use rtalloc_lab::result::schema::Outcome;
use rtalloc_lab::result::threads::ThreadedRun;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The shipped recording of a program with five threads.
fn gstreamer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/gstreamer-ogg.rtrace")
}

#[test]
fn the_recorded_threads_replay_on_ours_under_a_lock_and_on_the_systems_allocator() {
    let directory = TempDir::new().expect("a directory");
    let [json, csv, report] = ["json", "csv", "html"].map(|end| directory.path().join("threads").with_extension(end));
    let output = rtalloc()
        // Threads may run ahead of those that free: room for that.
        .args(["threads", "--on", "pooled-arenas,tlsf-mutex,system", "--replays", "1", "--heap", "128M"])
        .arg(gstreamer())
        .arg("--json")
        .arg(&json)
        .arg("--csv")
        .arg(&csv)
        .arg("--report")
        .arg(&report)
        .assert()
        .success();
    let table = text(&output.get_output().stdout);
    let run: ThreadedRun = serde_json::from_slice(&std::fs::read(&json).expect("the JSON")).expect("a run");
    let trace = &run.traces[0];
    assert_eq!(trace.threads, 5);
    assert!(trace.cross_thread_frees > 1000);
    assert_eq!(trace.cells.len(), 3);
    for cell in &trace.cells {
        assert_eq!(cell.outcome, Outcome::Completed, "{}", cell.subject);
        let (time, space) = (cell.time.as_ref().expect("timed"), cell.space.expect("verified"));
        assert_eq!(time.foreign_free.count, trace.cross_thread_frees, "{}", cell.subject);
        assert_eq!(time.allocate.count, trace.trace.allocations, "{}", cell.subject);
        assert_eq!(time.free.count + time.foreign_free.count, trace.trace.frees, "{}", cell.subject);
        assert_eq!(space.smallest_heap_bytes.is_some(), cell.heap_bytes.is_some(), "{}", cell.subject);
        assert!(table.contains(&cell.subject));
    }
    let csv = std::fs::read_to_string(&csv).expect("the CSV");
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns.len(), 1 + 3 * 4);
    assert!(columns.iter().all(|count| *count == columns[0]), "{csv}");
    let page = std::fs::read_to_string(&report).expect("the report");
    assert_eq!(page.matches("<svg ").count(), 4, "a figure for each kind of operation");
    for subject in ["pooled-arenas", "tlsf-mutex", "system"] {
        // A row for each operation and one of memory; a curve in each figure.
        let count = |end: &str| page.matches(&format!("{subject}{end}")).count();
        assert_eq!((count("</th>"), count("</text>")), (4 + 1, 4), "{subject}");
    }
}

#[test]
fn a_program_with_one_thread_is_replayed_by_copies_or_refused_with_a_next_step() {
    let directory = TempDir::new().expect("a directory");
    let trace = directory.path().join("small.rtrace");
    rtalloc().args(["generate", "small", "--mallocs", "1000", "-o"]).arg(&trace).assert().success();
    let refused = rtalloc().args(["threads", "--on", "system"]).arg(&trace).assert().failure();
    let words = text(&refused.get_output().stderr);
    assert!(words.contains("--copies 2") && words.contains("rtalloc run"), "{words}");
    let copied = rtalloc()
        .args(["threads", "--on", "tlsf-spin", "--copies", "2,3", "--order", "recorded", "--json", "-"])
        .arg(&trace)
        .assert()
        .success();
    let run: ThreadedRun = serde_json::from_slice(&copied.get_output().stdout).expect("a run");
    assert_eq!(run.traces.iter().map(|trace| trace.threads).collect::<Vec<_>>(), [2, 3]);
    for trace in &run.traces {
        let space = trace.cells[0].space.expect("verified");
        assert_eq!(space.peak_live_bytes, trace.threads * trace.trace.peak_live_bytes, "all copies, in step");
    }
}

#[test]
fn steps_keep_their_bounds_and_repeat_themselves() {
    let run = || {
        let output = rtalloc()
            .args(["interleave", "--schedules", "20", "--load", "II,mixed,handover", "--json", "-"])
            .assert()
            .success();
        serde_json::from_slice::<Interleaved>(&output.get_output().stdout).expect("figures")
    };
    let first = run();
    assert!(!first.allocators.is_empty());
    for allocator in &first.allocators {
        assert_eq!(allocator.fault, None, "{}", allocator.name);
        assert!(allocator.operations.iter().any(|operation| operation.most_total > 0), "{}", allocator.name);
    }
    assert_eq!(first, run(), "another process, the same figures");
    let unknown = rtalloc().args(["interleave", "tlsf"]).assert().failure();
    assert!(text(&unknown.get_output().stderr).contains("pooled-arenas"));
}

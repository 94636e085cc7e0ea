//! The main job as a user meets it, up to the measuring; `ci/main_job.sh` runs it whole.

use assert_cmd::Command;
use std::time::{Duration, Instant};

#[test]
fn a_report_that_cannot_be_written_is_refused_at_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let begun = Instant::now();
    let refused = Command::cargo_bin("rtalloc")
        .expect("the binary")
        .current_dir(&directory)
        .args(["--report", "missing/report.html"])
        .assert()
        .failure();
    let message = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(message.contains("--report: cannot write missing/report.html; choose another place"), "{message}");
    assert!(refused.get_output().stdout.is_empty());
    // Measuring takes many times this.
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn so_are_results_that_cannot_be_written_and_no_empty_report_stays() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let refused = Command::cargo_bin("rtalloc")
        .expect("the binary")
        .current_dir(&directory)
        .args(["--json", "missing/results.json"])
        .assert()
        .failure();
    let message = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(message.contains("--json: cannot write missing/results.json"), "{message}");
    assert!(!directory.path().join("report.html").exists());
}

//! The main job as a user meets it, up to the measuring; `ci/main_job.sh` runs it whole.

use super::rtalloc;

#[test]
fn a_report_that_cannot_be_written_is_refused_at_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let refused = rtalloc().current_dir(&directory).args(["--report", "missing/report.html"]).assert().failure();
    let message = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(message.contains("--report: cannot write missing/report.html; choose another place"), "{message}");
    assert!(refused.get_output().stdout.is_empty() && !message.contains("cell"), "{message}");
}

#[test]
fn so_are_results_that_cannot_be_written_and_no_empty_report_stays() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let refused = rtalloc().current_dir(&directory).args(["--json", "missing/results.json"]).assert().failure();
    let message = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(message.contains("--json: cannot write missing/results.json"), "{message}");
    assert!(!directory.path().join("report.html").exists());
}

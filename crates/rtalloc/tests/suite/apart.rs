//! Tests that may crash the process run in a process of their own, so that a crash fails the one test and not all.

#[path = "../process/mod.rs"]
mod process;

/// Tells a process of this binary which test it runs apart.
const CHILD: &str = "TESTS_APART";

/// Runs the test whose full name is `path` in a process of its own.
pub fn run(path: &str, test: fn()) {
    let (_crate_name, name) = path.split_once("::").expect("a path begins with the crate");
    if std::env::var_os(CHILD).is_some_and(|running| running == name) {
        return test();
    }
    let binary = std::env::current_exe().expect("the path of this binary");
    let child = process::of(binary).args([name, "--exact", "--nocapture"]).env(CHILD, name).output();
    let output = child.expect("a second process of this binary");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{name} apart: {}\n{text}\n{errors}", output.status);
}

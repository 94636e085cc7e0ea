//! Tests that may crash run in their own process, so that a crash fails one test instead of all.

#[path = "../process/mod.rs"]
pub mod process;

/// In a child process, the name of its test.
const CHILD: &str = "TESTS_APART";

/// Runs the test with the full name `path` in its own process.
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

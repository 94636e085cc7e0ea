//! The library as C has it: the suite in C beside this file, compiled and run, and the list of allocators it goes through.
//!
//! Needs a C compiler: `cc`, or what the variable CC names. The library is built as it is shipped, which takes half a minute
//! once.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a command that must succeed; what it prints is the message otherwise.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Builds the library as it is shipped, and says where it is.
fn shipped_library() -> PathBuf {
    // Cargo keeps the temporary files of tests in a folder of its target directory.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder of the target directory");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    run(Command::new(cargo)
        .args(["build", "--quiet", "--package", "rtalloc-capi", "--profile", "c", "--target-dir"])
        .arg(target)
        // As it is shipped, whatever the settings of whoever runs the tests.
        .env("CARGO_INCREMENTAL", "0")
        .current_dir(CRATE));
    target.join("c/librtalloc_c.a")
}

#[test]
fn every_allocator_passes_the_suite() {
    let library = shipped_library();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suite");
    let compiler = env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
    let tests = Path::new(CRATE).join("tests");
    run(Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-pthread", "-I"])
        .arg(Path::new(CRATE).join("include"))
        .args(["main.c", "region.c", "debug.c", "handle.c", "shared.c"].map(|file| tests.join(file)))
        .arg(library)
        .arg("-o")
        .arg(&program));
    let said = run(&mut Command::new(program));
    assert!(said.contains("allocators in one hand\n") && said.ends_with("shared objects\n"), "{said}");
}

/// The names X of lines that end a declaration of `rt_X` and `end`.
fn declared(header: &str, end: &str) -> BTreeSet<String> {
    let names = header.lines().filter_map(|line| line.split_once(end)?.0.rsplit_once("rt_"));
    names.map(|(_, name)| name.to_string()).collect()
}

/// What the lists in allocators.h name.
fn listed(list: &str) -> BTreeSet<String> {
    let names = list.lines().filter_map(|line| line.trim().strip_prefix("X(")?.split_once(')'));
    names.map(|(name, _)| name.to_string()).collect()
}

#[test]
fn the_suite_goes_through_every_allocator_of_the_header() {
    let read = |file: &str| {
        let path = Path::new(CRATE).join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    };
    let mut declared = declared(&read("include/rtalloc.h"), "_init(void *region, size_t bytes");
    // It has a test of its own.
    assert!(declared.remove("shared_compact_fit"));
    assert!(declared.len() > 40, "{declared:?}");
    assert_eq!(declared, listed(&read("tests/allocators.h")));
}

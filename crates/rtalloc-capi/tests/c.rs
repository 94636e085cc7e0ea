//! The library as C has it: the suite in C beside this file, compiled and run, and the list of allocators it goes through.
//!
//! Needs a C compiler, `cc`. The library is built as it is shipped, which takes half a minute once.

mod toolchain;

use std::collections::BTreeSet;
use std::process::Command;
use toolchain::{WARNINGS, done, include, krate, library, out, said};

#[test]
fn every_allocator_passes_the_suite() {
    let program = out("suite");
    let tests = krate().join("tests");
    let mut compile = Command::new("cc");
    compile.args(WARNINGS).args(["-std=c11", "-O1", "-pthread", "-I"]).arg(include());
    compile.args(["main.c", "region.c", "debug.c", "handle.c", "shared.c"].map(|file| tests.join(file)));
    done(compile.arg(library()).arg("-o").arg(&program));
    let said = said(&program);
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
        let path = krate().join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    };
    let mut declared = declared(&read("include/rtalloc.h"), "_init(void *region, size_t bytes");
    // It has a test of its own.
    assert!(declared.remove("shared_compact_fit"));
    assert!(declared.len() > 40, "{declared:?}");
    assert_eq!(declared, listed(&read("tests/allocators.h")));
}

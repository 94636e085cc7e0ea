//! Compiles and runs the suite of the C library, and compares its list of heaps with rtalloc.h.
//!
//! Needs a C compiler, `cc`. Builds the library as shipped, which takes half a minute once.

mod toolchain;

use std::collections::BTreeSet;
use std::process::Command;
use toolchain::{WARNINGS, done, heaps_of, include, krate, library, out, output_of};

#[test]
fn every_heap_passes_the_suite() {
    let program = out("suite");
    let tests = krate().join("tests");
    let mut compile = Command::new("cc");
    compile.args(WARNINGS).args(["-std=c11", "-O1", "-pthread", "-I"]).arg(include());
    compile.args(["main.c", "region.c", "debug.c", "handle.c", "shared.c"].map(|file| tests.join(file)));
    done(compile.arg(library()).arg("-o").arg(&program));
    let output = output_of(&program);
    assert!(output.contains("region heaps\n") && output.ends_with("shared objects\n"), "{output}");
}

/// The heaps in the lists of allocators.h.
fn listed(list: &str) -> BTreeSet<&str> {
    let names = list.lines().filter_map(|line| line.trim().strip_prefix("X(")?.split_once(')'));
    names.map(|(name, _)| name).collect()
}

#[test]
fn the_suite_tests_every_heap_of_the_header() {
    let read = |file: &str| {
        let path = krate().join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    };
    let (header, lists) = (read("include/rtalloc.h"), read("tests/allocators.h"));
    let mut declared = heaps_of(&header);
    // It has its own test.
    assert!(declared.remove("shared_compact_fit"));
    assert!(declared.len() > 30, "{declared:?}");
    assert_eq!(declared, listed(&lists));
}

//! What is declined in compiled files: the message names the address, the function and the line.

use super::library::compile;
use pathbound::graph::NeverReturns;
use pathbound::{Decline, ElfFile, Facts, Graph, Image, bound};
use std::path::Path;

const SOURCE: &str = include_str!("fixtures/declined.c");

/// Bounds a function of `declined.c`. The decline must be at the marked line, and its text must begin as given.
#[track_caller]
fn declined(function: &str, begins: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let library = directory.path().join("library.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trust/fixtures/declined.c");
    compile(&["-O2", "-g", "-shared", "-fpic", "-fcf-protection=none"], &[source], &library);
    let file = ElfFile::open(&library).expect("an ELF file");
    let entry = file.find(function)[0].address;
    let graph = Graph::explore(&file, &[entry], &NeverReturns::default()).expect("code");
    let decline = bound(&file, &graph, entry, &Facts::default()).expect_err("there is no bound");
    let site = match &decline {
        Decline::Obstacle(_, site) | Decline::Recursion(site) => site,
        Decline::UnboundedLoops(loops) => &loops[0].entry,
        other => panic!("{other}"),
    };
    assert!(graph.node(site.address).is_some(), "{decline}");
    let marked = |(text, number): (&str, u32)| text.ends_with(&format!("declined: {function}")).then_some(number);
    let line = SOURCE.lines().zip(1..).find_map(marked).expect("a marked line");
    let text = decline.to_string();
    assert!(text.starts_with(begins), "{text}");
    assert!(text.contains(&format!(" at {:#x} in {function}", site.address)), "{text}");
    assert!(text.contains(&format!("declined.c:{line})")), "{text}");
    text
}

#[test]
fn an_indirect_jump() {
    assert!(declined("jumps", "indirect jump").contains("-fno-jump-tables"));
}

#[test]
fn recursion() {
    assert!(declined("recurses", "recursion through the call").contains("loop"));
}

#[test]
fn a_repeated_instruction() {
    declined("repeats", "repeated string instruction");
}

#[test]
fn an_unbounded_loop() {
    assert!(declined("loops", "unbounded loop").contains("`--loop=0x"));
}

#[test]
fn a_call_of_another_file() {
    assert!(
        declined("calls_outside", "call of outside, which another file defines")
            .contains("call a function of this file")
    );
}

#[test]
fn a_call_through_a_pointer() {
    declined("calls_chosen", "indirect call");
}

#[test]
fn a_system_call() {
    declined("asks_kernel", "system call");
}

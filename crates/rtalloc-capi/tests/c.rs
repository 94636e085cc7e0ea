//! Compiles and runs the suite of the C library.
//!
//! Needs a C compiler, `cc`. Builds the library as shipped, which takes half a minute once.

mod toolchain;

use std::process::Command;
use toolchain::{WARNINGS, done, include, krate, library, out, output_of};

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

//! Builds the library for C and C++, finds the installed compilers, and compiles and runs programs.

// Each test uses only some of these functions.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The warnings, which are errors.
pub const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"];

/// The folder of this crate.
pub fn krate() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the headers.
pub fn include() -> PathBuf {
    krate().join("include")
}

/// The path of a compiled program.
pub fn out(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The static library, built as shipped.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| shipped("rtalloc-capi", "librtalloc_c.a"))
}

/// A library of a package of this workspace, built as shipped.
pub fn shipped(package: &str, file: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", package, "--profile", "c", "--target-dir"]).arg(target);
    // The environment of a test does not apply to another build, and the shipped build is not incremental.
    build.env_remove("RUSTFLAGS").env_remove("CARGO_BUILD_TARGET").env("CARGO_INCREMENTAL", "0").current_dir(krate());
    done(&mut build);
    target.join("c").join(file)
}

/// Whether a compiler is installed.
pub fn is_there(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The installed C++ compilers, in order of preference.
pub fn cpp_compilers() -> Vec<&'static str> {
    let there: Vec<_> = ["g++", "clang++"].into_iter().filter(|compiler| is_there(compiler)).collect();
    assert!(!there.is_empty(), "the tests of rtalloc.hpp need a compiler for C++: install g++ or clang++");
    there
}

/// Runs a command that must succeed; on failure, panics with its output.
pub fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Compiles a program and links it with the library.
pub fn compiled(compiler: &str, flags: &[&str], source: &Path, name: &str) -> PathBuf {
    let program = out(name);
    let mut compile = Command::new(compiler);
    compile.args(WARNINGS).args(flags).arg("-I").arg(include()).arg(source);
    done(compile.arg(library()).arg("-pthread").arg("-o").arg(&program));
    program
}

/// The output of a program that must succeed.
pub fn output_of(program: &Path) -> String {
    String::from_utf8(done(&mut Command::new(program)).stdout).expect("words")
}

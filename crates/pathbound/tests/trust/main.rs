//! Why a number of this library can be trusted: functions with hand-counted instructions, mutants of them, damaged
//! files, two decoders, and what is declined.
//!
//! Each library built here is bounded from its file, with the proof checked and both decoders compared on every
//! instruction. Loaded into this process, it is counted by rewritten copies and by a process that single-steps the same
//! calls.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod assembly;
mod attacks;
mod bytes;
mod declines;
mod facts;
mod fixtures;
mod iterations;
mod known;
mod library;
#[path = "../loops/mod.rs"]
mod loops;
mod mutants;
#[path = "../counter/witness.rs"]
mod witness;

/// The type of all functions in these tests.
type Function = unsafe extern "C" fn(u64, u64, u64) -> u64;

/// Whether a compiler is installed. GCC is required; ci/test.sh installs Clang.
fn is_installed(compiler: &str) -> bool {
    compiler.starts_with('g') || std::process::Command::new(compiler).arg("--version").output().is_ok()
}

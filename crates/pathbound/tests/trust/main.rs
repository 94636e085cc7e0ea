//! Why a number of this library can be believed: functions whose counts are known by hand, mutants of them, damaged files, two
//! decoders, and what it declines.
//!
//! Whatever is built here is bounded from its file, the proof checked, both decoders compared on every instruction, then
//! loaded into this process, counted by rewritten copies, and counted by a process that steps through the same calls.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod assembly;
mod bytes;
mod declines;
mod fixtures;
mod known;
mod library;
mod mutants;
mod turns;
#[path = "../counter/witness.rs"]
mod witness;

/// What all functions of these tests look like.
type Function = unsafe extern "C" fn(u64, u64, u64) -> u64;

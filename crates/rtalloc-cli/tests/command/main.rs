//! The `rtalloc` command from the outside, one module per verb or family of verbs, in one test program: every program
//! costs a link with the whole laboratory.

mod advise;
mod allocators;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod bound;
mod compare;
mod figures;
mod files;
mod guarantees;
mod import;
mod layers;
mod record;
mod recover;
mod reproduce;
mod run;
mod showcase;
mod stated_bounds;
mod threads;
mod trace_cli;
mod worst;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use std::path::Path;

/// The command.
const RTALLOC: &str = env!("CARGO_BIN_EXE_rtalloc");

fn rtalloc() -> Command {
    Command::new(RTALLOC)
}

/// The command in a folder, with arguments that contain no spaces.
fn rtalloc_in(folder: &Path, arguments: &str) -> Assert {
    rtalloc().current_dir(folder).args(arguments.split_whitespace()).assert()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn stdout(assert: Assert) -> String {
    text(&assert.get_output().stdout)
}

fn stderr(assert: Assert) -> String {
    text(&assert.get_output().stderr)
}

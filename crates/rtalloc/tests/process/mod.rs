//! Starts programs that were built with the tests.

use std::ffi::OsStr;
use std::process::Command;

/// The emulator that runs them, where they are not for this machine (`ci/test_emulated.sh`).
const EMULATOR: &str = "TESTS_EMULATOR";

/// A command that runs a program.
pub fn of(program: impl AsRef<OsStr>) -> Command {
    match std::env::var_os(EMULATOR) {
        None => Command::new(program),
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(program);
            command
        }
    }
}

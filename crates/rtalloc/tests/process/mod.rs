//! Processes of programs that were compiled with the tests.

use std::ffi::OsStr;
use std::process::Command;

/// What runs them, if they are no programs of this machine (`ci/test_big_endian.sh`).
const EMULATOR: &str = "TESTS_EMULATOR";

/// A process to be.
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

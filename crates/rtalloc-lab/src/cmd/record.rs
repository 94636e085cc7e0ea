//! `rtalloc record`

use std::process::ExitCode;

/// Records the memory traffic of a program into a trace.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Runs the verb.
///
/// # Errors
///
/// Whatever stopped it, with its context.
pub fn main(_arguments: &Arguments) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}

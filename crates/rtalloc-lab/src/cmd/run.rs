//! `rtalloc run`

use std::process::ExitCode;

/// Replays traces on allocators and tabulates time, instructions and space.
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

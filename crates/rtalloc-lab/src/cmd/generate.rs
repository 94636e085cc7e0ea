//! `rtalloc generate`

use std::process::ExitCode;

/// Generates a trace from a model of the literature.
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

//! `rtalloc inspect`

use std::process::ExitCode;

/// Tells what is in a trace.
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

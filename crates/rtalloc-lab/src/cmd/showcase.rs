//! `rtalloc showcase`

use std::process::ExitCode;

/// The main job: the shipped traces on everything.
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

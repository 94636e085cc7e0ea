//! `rtalloc export`

use super::destination::{Files, Output};
use crate::present;
use anyhow::Context as _;
use rtalloc_lab::campaign::store::Store;
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes the results of a store for other programs.
///
/// As JSON: the checksums of the program and of its traces, and every result with its task, its environment (processor,
/// kernel, compiler, clock), when it was done and how long it took; histograms are whole. As CSV: a line for each
/// figure, with the place of the figure within its result. The store is an SQLite file (tables origin, environment,
/// cell): `sqlite3` reads it, too.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The store.
    #[arg(value_name = "STORE")]
    store: PathBuf,

    /// As JSON, to FILE or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,

    /// As CSV, to FILE or to standard output; the default without --json and --csv.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    csv: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc export results.db --json results.json
  rtalloc export results.db --csv | grep '^thesis'
  sqlite3 results.db \"SELECT key, seconds FROM cell ORDER BY seconds DESC LIMIT 5\"

The exit status is 0 when all was written.";

/// Runs the subcommand.
///
/// # Errors
///
/// A store that cannot be read, or a place that cannot be written.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let store = Store::read(&arguments.store).with_context(|| arguments.store.display().to_string())?;
    let mut files = Files::new();
    files.reads("STORE", &arguments.store)?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let csv = files.output("--csv", arguments.csv.as_deref())?;
    let csv = if json.is_none() { csv.or(Some(Output::Standard)) } else { csv };
    let kept = store.all().with_context(|| arguments.store.display().to_string())?;
    if let Some(json) = json {
        json.write(&present::campaign::json(store.origin(), &kept)?)?;
    }
    if let Some(csv) = csv {
        csv.write(&present::campaign::csv(&kept))?;
    }
    Ok(ExitCode::SUCCESS)
}

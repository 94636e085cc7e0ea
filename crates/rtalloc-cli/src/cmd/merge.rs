//! `rtalloc merge`

use super::destination::{Files, print};
use anyhow::Context as _;
use rtalloc_lab::campaign::store::Store;
use rtalloc_lab::number;
use std::path::PathBuf;
use std::process::ExitCode;

/// Joins stores of results, such as those of a campaign's slices.
///
/// Copies to INTO all results that it lacks; INTO is created if it does not exist. Results in INTO are kept, and
/// merging twice has no further effect. All stores must be of one build of rtalloc with one set of traces: figures of
/// different origins are not comparable. If any store has another origin, nothing is added.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The store that is added to.
    #[arg(value_name = "INTO")]
    into: PathBuf,

    /// The stores whose results are added; they are not changed.
    #[arg(value_name = "FROM", required = true)]
    from: Vec<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc reproduce all --full --shard 1/2 --store one.db  on one machine
  rtalloc reproduce all --full --shard 2/2 --store two.db  on another, with the same binary
  rtalloc merge all.db one.db two.db
  rtalloc reproduce all --full --store all.db              the missing tasks, if any, and the tables

The exit status is 0 when all stores were added, and 1 when a store was refused.";

/// Runs the subcommand.
///
/// # Errors
///
/// A store that cannot be read, or is of another origin.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut files = Files::new();
    files.changes("INTO", &arguments.into)?;
    arguments.from.iter().try_for_each(|path| files.reads("FROM", path))?;
    let read = |path: &PathBuf| Store::read(path).with_context(|| path.display().to_string());
    let stores = arguments.from.iter().map(read).collect::<anyhow::Result<Vec<Store>>>()?;
    let origin = stores[0].origin().clone();
    let mut into = Store::open(&arguments.into, origin).with_context(|| arguments.into.display().to_string())?;
    for (path, store) in arguments.from.iter().zip(&stores) {
        into.admits(store).with_context(|| path.display().to_string())?;
    }
    let mut text = String::new();
    for (path, store) in arguments.from.iter().zip(&stores) {
        let merged = into.merge(store).with_context(|| path.display().to_string())?;
        text += &format!(
            "{}: {} added, {} already known\n",
            path.display(),
            number::counted(merged.added as u64, "result"),
            merged.known
        );
    }
    print(&text).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

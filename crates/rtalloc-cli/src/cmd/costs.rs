//! `rtalloc costs`

use super::destination::{Files, is_stdout, print};
use super::progress::Bar;
use crate::present;
use crate::present::table::Look;
use anyhow::Context as _;
use pathbound::image::Process;
use rtalloc_lab::experiment::costs;
use rtalloc_lab::result::costs::Finding;
use rtalloc_lab::result::document::{self, Schema};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures worst cases in heaps of 64 KiB to 64 MiB, and determines their cost class.
///
/// Each allocator's worst-case recipes (those that `rtalloc generate
/// worst:ALLOCATOR` writes) are performed in heaps of six sizes; the
/// instructions of the last operation are counted. A rule then determines the
/// class of the counts: constant, logarithmic in the size of the heap, linear
/// in the number of free blocks, linear in the size of the heap. The result is
/// compared with the class that the allocator's contract states.
///
/// Peers state no class as data, so only our own allocators are measured. All of
/// them take about a minute on two cores.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
pub struct Arguments {
    /// Allocators, separated by spaces or commas: names, families or groups. Without any, all our allocators.
    #[arg(value_name = "ALLOCATOR", value_delimiter = ',')]
    allocators: Vec<String>,

    /// Writes the figure to FILE as SVG: a panel for each operation, instructions over heap size.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Writes the counts as JSON to FILE, or to standard output in place of the table for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc costs                                 all our allocators
  rtalloc costs first-fit tlsf --plot costs.svg
  rtalloc costs --json -                        for another program

The exit status is 0 when every allocator costs what its contract states, and 1 when one does not.";

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let choice = if arguments.allocators.is_empty() { &["ours".to_string()][..] } else { &arguments.allocators };
    let subjects = rtalloc_subjects::select(choice)?;
    anyhow::ensure!(
        subjects.iter().any(|subject| subject.view.is_some()),
        "{} states no cost classes to compare the counts with; choose one of ours (`rtalloc allocators` lists them)",
        choice.join(", ")
    );
    anyhow::ensure!(!arguments.plot.as_deref().is_some_and(is_stdout), "--plot needs the name of a file");
    let mut files = Files::new();
    let plot = files.file("--plot", arguments.plot.as_deref())?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let process = Process::shared()?;
    let bar = Bar::new();
    let costs = costs::measure(&process, &subjects, &costs::HEAP_BYTES, &mut |progress| bar.show(progress))?;
    bar.clear();
    if let Some(plot) = plot {
        plot.write(&present::costs::svg(&costs)?.context("--plot: nothing was measured")?)?;
    }
    let replaced = match json {
        Some(json) => json.write(&document::pretty(Schema::COSTS, &costs).context("as JSON")?)?,
        None => false,
    };
    if !replaced {
        print(&present::costs::table(&costs, Look::of_stdout())).context("standard output")?;
    }
    let operations = || costs.subjects.iter().flat_map(|subject| &subject.operations);
    let held = operations().all(|operation| matches!(operation.finding, Finding::AsStated(_)));
    let complete = costs.subjects.iter().all(|subject| subject.troubles.is_empty());
    Ok(if held && complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

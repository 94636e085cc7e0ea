//! The default command, `rtalloc` without a subcommand: the shipped traces on a selected dozen, and a report.

use super::arguments::parse_size;
use super::cut;
use super::destination::{Files, print};
use super::note;
use super::progress::Bar;
use crate::present;
use crate::present::table::{Look, Tables};
use anyhow::Context as _;
use pathbound::image::Process;
use rtalloc_lab::experiment::cells;
use rtalloc_lab::experiment::costs;
use rtalloc_lab::replay::isolate::Progress;
use rtalloc_lab::replay::settings::Settings;
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::result::schema::Run;
use rtalloc_lab::shipped;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The default command: the shipped traces on a selected dozen.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Allocators, separated by commas, as `rtalloc run --on`: names, families, ours, peers, all. The dozen is the best
    /// known of each family and the most common peers (`rtalloc allocators` marks them).
    #[arg(long, value_name = "A,B", value_delimiter = ',', allow_hyphen_values = true, default_value = "dozen")]
    on: Vec<String>,

    /// Replays only the blocks of at most SIZE bytes, as `rtalloc run --at-most`.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    at_most: Option<u64>,

    /// Where the report goes: one HTML file with everything in it.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,

    /// Writes the results as JSON to FILE as well.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Amount of measurement, chosen to finish within a minute on two cores.
fn settings() -> Settings {
    Settings { replicas: 3, limit: Duration::from_secs(2), ..Settings::default() }
}

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let mut files = Files::new();
    let report = files.file("--report", Some(&arguments.report))?;
    let json = files.file("--json", arguments.json.as_deref())?;
    let subjects = rtalloc_subjects::select(&arguments.on).context("--on")?;
    let mut traces = shipped::unpack()?;
    if let Some(largest) = arguments.at_most {
        traces = cut::at_most(&traces.paths, largest).context("--at-most")?;
    }
    if std::io::stderr().is_terminal() {
        note(&format!("Replaying {} traces of real programs on {} allocators.\n", traces.paths.len(), subjects.len()));
    }
    let bar = Bar::new();
    let mut tables = Tables::new(Look::of_stdout());
    let mut printed = Ok(());
    let mut print_table = |run: &Run, trace| {
        let table = tables.of_trace(run, trace);
        if printed.is_ok() {
            printed = bar.print(&table);
        }
    };
    let show = &mut |progress: Progress<'_>| bar.show(progress);
    let mut run = cells::measure(&traces.paths, &subjects, &settings(), show, &mut print_table)?;
    // Instructions can be counted only here; elsewhere the report omits them.
    if let Ok(process) = Process::shared() {
        let costs = costs::measure(&process, &subjects, &costs::HEAP_BYTES, show)?;
        let measured = costs.subjects.iter().any(|costs| !costs.operations.is_empty());
        run.costs = measured.then_some(costs);
    }
    bar.clear();
    if let Some(report) = report {
        report.write(&present::report::html(&run)?)?;
    }
    if let Some(json) = json {
        json.write(&document::pretty(Schema::RUN, &run).context("the results as JSON")?)?;
    }
    let text = format!(
        "{}\n{}\nThe report with every figure: {} ({:.0} s in all)\n",
        tables.notes(&run),
        present::verdict(&run).text(tables.look.columns.min(120)),
        arguments.report.display(),
        begun.elapsed().as_secs_f64(),
    );
    printed.and_then(|()| print(&text)).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

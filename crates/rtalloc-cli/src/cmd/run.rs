//! `rtalloc run`

use super::arguments::{parse_size, refuse_streams};
use super::cut;
use super::destination::{Files, Output, print};
use super::note_incomplete;
use super::progress::Bar;
use crate::present;
use crate::present::table::{Look, Tables};
use anyhow::Context;
use rtalloc_lab::experiment::cells;
use rtalloc_lab::number;
use rtalloc_lab::replay::settings::{Probes, Settings, automatic_heap_bytes};
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::result::schema::{Cell, Outcome, Run};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Replays traces on allocators and tabulates time, instructions and space.
///
/// Every allocator replays every trace, each in processes of its own, so that a crash, a hang or
/// exhausted memory is a row of the table, not the end of the run. Traces come from
/// `rtalloc record` and `rtalloc generate`.
///
/// Three probes look at different things:
///
///   cycles        time of every operation in ticks of the time-stamp counter: the minimum over R
///                 identical replays, which excludes interruptions; maxima on a shared machine are
///                 noise nevertheless.
///   instructions  executed instructions of every operation, counted by instrumented copies of the
///                 allocators' machine code: exact, not estimated. No operation may exceed its static
///                 bound (see `rtalloc bound`), or the allocator is reported as broken.
///   space         H, the memory the allocator needed; F = (H - M) / M, where M is the largest live
///                 memory; and the smallest heap in which the whole trace succeeds. Also verifies
///                 that every block is aligned, in the heap, and no block overlaps another.
///
/// Allocators that take their pages from the system (mimalloc, system, and jemalloc in a build with
/// `--features jemalloc`) have no space figures.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
pub struct Arguments {
    /// Traces to replay.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// Allocators, separated by commas: names, families (sequential, indexed, segregated, buddy, bitmapped, regional,
    /// compacting, hybrid), or the groups ours, peers (other authors'), dozen (those of `rtalloc` without a command),
    /// all. A leading `-` excludes; a selection that begins with an exclusion starts from all. `rtalloc allocators`
    /// lists them.
    #[arg(long, value_name = "A,B", value_delimiter = ',', allow_hyphen_values = true, default_value = "dozen")]
    on: Vec<String>,

    /// Replays only the blocks of at most SIZE bytes of every trace, to compare allocators of small blocks on real
    /// programs: a block leaves the trace when a reallocation makes it larger, and enters it when one makes it small
    /// enough.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    at_most: Option<u64>,

    /// Bytes of the heap every allocator is given, with suffix K, M or G (powers of 1024). Without it, the next power
    /// of two above eight times the largest live memory, at least 64K.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    heap: Option<u64>,

    /// Probes, separated by commas. Without it, all; instructions can be counted on x86-64 Linux only.
    #[arg(long, value_name = "P,Q", value_delimiter = ',', value_parser = ["cycles", "instructions", "space"])]
    probe: Vec<String>,

    /// Identical replays of the cycle probe; each operation's minimum over them is reported.
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    replicas: u32,

    /// Seconds of processor time a probe may use on one allocator and trace; a probe that exceeds them is reported as
    /// such.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,

    /// Writes the results as JSON to FILE, or to standard output in place of the tables for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Writes one line per trace and allocator as CSV to FILE, or to standard output in place of the tables for `-`.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc run lua.rtrace                              all probes, on the dozen
  rtalloc run lua.rtrace --on all                     on every allocator of the table
  rtalloc run *.rtrace --on ours,rlsf --heap 4M       ours and one peer in 4 MiB
  rtalloc run lua.rtrace --on=-linked-list            all but one
  rtalloc run lua.rtrace --on buddy,tlsf              a family and one other allocator
  rtalloc run lua.rtrace --at-most 512                only its blocks of at most 512 bytes
  rtalloc run lua.rtrace --probe space --csv -        only space, for another program

The exit status is 0 when every allocator was measured, whatever the outcome.";

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let subjects = rtalloc_subjects::select(&arguments.on).context("--on")?;
    let wants = |probe: &str| arguments.probe.iter().any(|wanted| wanted == probe);
    let probes = if arguments.probe.is_empty() {
        Probes::available()
    } else {
        Probes { cycles: wants("cycles"), instructions: wants("instructions"), space: wants("space") }
    };
    let settings = Settings {
        heap_bytes: arguments.heap,
        probes,
        replicas: arguments.replicas,
        limit: Duration::from_secs(arguments.limit),
        ..Settings::default()
    };
    let mut files = Files::new();
    for path in &arguments.traces {
        refuse_streams(path)?;
        files.reads("TRACE", path)?;
    }
    arguments.traces.iter().for_each(|path| note_incomplete(path));
    let json = files.output("--json", arguments.json.as_deref())?;
    let csv = files.output("--csv", arguments.csv.as_deref())?;

    let cut =
        arguments.at_most.map(|largest| cut::at_most(&arguments.traces, largest)).transpose().context("--at-most")?;
    let traces = cut.as_ref().map_or(&arguments.traces, |cut| &cut.paths);

    let bar = Bar::new();
    let run = cells::measure(traces, &subjects, &settings, &mut |progress| bar.show(progress), &mut |_, _| {})?;
    bar.clear();
    refuse_tiny_heap(arguments, &run)?;
    give_out(json, csv, &run)?;
    Ok(ExitCode::SUCCESS)
}

/// A heap in which no allocator can be initialised is a typing error, not a result.
fn refuse_tiny_heap(arguments: &Arguments, run: &Run) -> anyhow::Result<()> {
    let Some(heap) = arguments.heap else { return Ok(()) };
    let cells = || run.traces.iter().flat_map(|result| &result.cells).filter(|cell| cell.heap_bytes.is_some());
    let began = |cell: &Cell| match &cell.outcome {
        Outcome::Broken { .. } => false,
        Outcome::Failures { first: 0, .. } => cell.space.as_ref().is_none_or(|space| space.peak_live_bytes > 0),
        _ => true,
    };
    if cells().count() == 0 || cells().any(began) {
        return Ok(());
    }
    let suggested = run.traces.iter().map(|result| automatic_heap_bytes(result.trace.peak_live_bytes)).max();
    anyhow::bail!(
        "--heap {heap}: no allocator could serve anything in a heap of {}; without --heap it would be {}",
        number::bytes(heap),
        number::bytes(suggested.unwrap_or(heap))
    )
}

/// Writes the requested outputs: files, and on standard output the tables or their replacement.
fn give_out(json: Option<Output>, csv: Option<Output>, run: &Run) -> anyhow::Result<()> {
    let mut replaced = false;
    if let Some(json) = json {
        replaced |= json.write(&document::pretty(Schema::RUN, run).context("the results as JSON")?)?;
    }
    if let Some(csv) = csv {
        replaced |= csv.write(&present::csv(run))?;
    }
    if !replaced {
        let look = Look::of_stdout();
        let text = format!("{}\n{}\n", Tables::new(look).whole(run), present::verdict(run).text(look.columns.min(120)));
        print(&text).context("standard output")?;
    }
    Ok(())
}

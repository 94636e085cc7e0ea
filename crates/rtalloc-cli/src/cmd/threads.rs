//! `rtalloc threads`

use super::after_help;
use super::arguments::{parse_size, refuse_streams};
use super::destination::{Files, print};
use super::note_incomplete;
use super::progress::Bar;
use crate::present;
use crate::present::table::Look;
use anyhow::Context as _;
use rtalloc_lab::experiment::threads::{self, Settings};
use rtalloc_lab::replay::threaded::Ordering;
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_subjects::shared;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Replays traces with their real threads, on the allocators that threads share.
///
/// Every recorded thread is a thread here. Its operations are performed in order, and a block is
/// freed or resized after all earlier operations on it, by any thread; no other order is enforced,
/// so threads contend in the allocator as they would in the program. Waiting for another thread's
/// block is not part of any time.
///
/// Two tables for each trace:
///
///   ticks    of the time-stamp counter, of every successful operation, by kind: a free of another
///            thread's block is listed separately. No minimum over replays is taken: interference
///            between threads is what is measured, and no two replays are the same.
///   memory   most bytes live at a time, the smallest heap that serves the trace in its recorded
///            order, and requests refused by reason: exhausted, contended (others were at work),
///            pending (others have freed blocks that the owner has not reclaimed yet), request (this
///            heap never serves it); and operations that waited for another thread's block.
///
/// One replay before the timed ones verifies every block: in the heap, aligned, overlapping no
/// other, its content intact, for all threads.
///
/// With --copies, several threads replay each thread of the trace, each with blocks of its own: a
/// load of equal threads, which the program never had.
#[derive(Debug, clap::Args)]
#[command(after_long_help = after_help("Allocators and groups for --on", shared::names(), EXAMPLES), verbatim_doc_comment)]
pub struct Arguments {
    /// Traces to replay: of your program, by `rtalloc record`, or those in the folder traces of the source.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// Allocators, separated by commas: names, or the groups all, ours, peers, options (variants of one allocator). A
    /// leading `-` excludes; a selection that begins with an exclusion starts from all. They are listed below.
    #[arg(long, value_name = "A,B", value_delimiter = ',', allow_hyphen_values = true, default_value = "all")]
    on: Vec<String>,

    /// Which operations are ordered: `free`, only those on the same block; `recorded`, all of them, as in the trace, so
    /// that no two run at the same time.
    #[arg(long, value_name = "ORDER", default_value = "free", value_parser = ["free", "recorded"])]
    order: String,

    /// Threads that replay each thread of the trace, with blocks of their own; several numbers, separated by commas,
    /// are run one after another and shown side by side: `--copies 1,2,8` replays a trace of two threads with 2, 4 and
    /// 16.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    copies: Vec<u32>,

    /// Bytes of the heap every allocator is given, with suffix K, M or G (powers of 1024). Without it, the next power
    /// of two above eight times the largest live memory of all copies, at least 64K.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    heap: Option<u64>,

    /// Number of timed replays; the samples of all of them are used.
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    replays: u32,

    /// Limit of processor time per thread in seconds, for the timing and for the memory measurement each, of one
    /// allocator, trace and number of copies.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,

    /// Writes one HTML file with the tables and figures: the latency distribution of each kind of operation, from the
    /// common to the rarest, with a panel for each number of threads and a curve for each allocator.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Writes the results as JSON to FILE, or to standard output in place of the tables for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Writes one line per trace, allocator and operation as CSV to FILE, or to standard output in place of the tables
    /// for `-`.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc threads traces/gstreamer-ogg.rtrace            five threads, on all allocators
  rtalloc threads gstreamer-ogg.rtrace --on=-system      all but one
  rtalloc threads lua-entities.rtrace --copies 2         a program with one thread, on two threads
  rtalloc threads gstreamer-ogg.rtrace --copies 1,2 --report threads.html
                                                         with 5 and with 10 threads, and figures
  rtalloc threads mine.rtrace --order recorded --csv -   no concurrent operations

The exit status is 0 when every allocator was measured, whatever the outcome.";

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let subjects = shared::select(&arguments.on).context("--on")?;
    let mut files = Files::new();
    for path in &arguments.traces {
        refuse_streams(path)?;
        files.reads("TRACE", path)?;
    }
    let report = files.file("--report", arguments.report.as_deref())?;
    arguments.traces.iter().for_each(|path| note_incomplete(path));
    let json = files.output("--json", arguments.json.as_deref())?;
    let csv = files.output("--csv", arguments.csv.as_deref())?;
    let settings = Settings {
        heap_bytes: arguments.heap,
        ordering: if arguments.order == Ordering::Recorded.name() { Ordering::Recorded } else { Ordering::Causal },
        copies: arguments.copies.clone(),
        replays: arguments.replays,
        limit: Duration::from_secs(arguments.limit),
    };
    let bar = Bar::new();
    let run = threads::measure(&arguments.traces, &subjects, &settings, &mut |progress| bar.show(progress))?;
    bar.clear();
    if let Some(report) = report {
        report.write(&present::threads::html(&run)?)?;
    }
    let mut replaced = false;
    if let Some(json) = json {
        replaced |= json.write(&document::pretty(Schema::THREADS, &run).context("the results as JSON")?)?;
    }
    if let Some(csv) = csv {
        replaced |= csv.write(&present::threads::csv(&run))?;
    }
    if !replaced {
        let look = Look::of_stdout();
        let text = present::threads::tables(&run, Look { columns: look.columns.min(120), ..look });
        print(&text).context("standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}

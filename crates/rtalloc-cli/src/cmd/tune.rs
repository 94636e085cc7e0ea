//! `rtalloc tune`

use super::arguments::parse_size;
use super::destination::{Files, is_stdout, print};
use super::note_incomplete;
use super::progress::Bar;
use crate::present;
use crate::present::table::Look;
use anyhow::Context as _;
use rtalloc::compact_fit::{DefaultLadder, PaperLadder};
use rtalloc_lab::experiment::tune::{Shape, analyse};
use rtalloc_lab::replay::isolate::Progress;
use rtalloc_lab::replay::settings::automatic_heap_bytes;
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::trace::{Event, Reader, survey};
use rtalloc_subjects::{Heap, Region, one};
use std::path::PathBuf;
use std::process::ExitCode;

/// Finds parameters of an allocator for a program, from a trace of it.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    allocator: Allocator,
}

#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
enum Allocator {
    CompactFit(CompactFit),
}

const EXAMPLES: &str = "\
Examples:
  rtalloc tune compact-fit lua.rtrace
  rtalloc tune compact-fit lua.rtrace --plot lua.svg
  rtalloc tune compact-fit lua.rtrace --allocatable 64,4096 --heap 4M
  rtalloc tune compact-fit lua.rtrace --json -

The exit status is 0 when the trace was analysed.";

/// Compact-fit: how many not-full pages each size class may have
///
/// Compact-fit moves an object when a free would leave a size class with more than max_nr_nf_pages
/// pages that are not full. A small limit keeps memory compact, a large one avoids moves. From a
/// trace this computes, for every size class:
///
///   longest run of frees   the maximum of n_f of the paper's section 3.4: frees of the class without
///                          a later allocation
///   enough                 the smallest max_nr_nf_pages with which no free ever moves an object
///
/// and the Pareto-optimal choices of all limits together: those that no other choice beats in the
/// pages needed, at most and in the mean, and the bytes moved. In addition, the number of abstract
/// addresses needed, and, with --allocatable, for how many more objects of a size there would be
/// room, at the worst moment of the trace and at its end.
///
/// The figures are those of the moving implementation. They are exact, from a model of the size
/// classes that a test compares with the allocator; only pages of abstract addresses are counted as
/// if none were given back. They hold for this trace: a program that behaves differently in another
/// run can move objects with any limit.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
struct CompactFit {
    /// The trace, from `rtalloc record` or `rtalloc generate`.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Uses the paper's 46 size classes, aligned to 4 bytes, instead of the default ones, aligned to 16.
    #[arg(long)]
    paper: bool,

    /// Prints for how many more objects of these sizes there is room, in bytes, separated by commas.
    #[arg(long, value_name = "SIZE,SIZE", value_delimiter = ',', value_parser = parse_size)]
    allocatable: Vec<u64>,

    /// Bytes of the heap for --allocatable, with suffix K, M or G. Without it, the next power of two above eight times
    /// the largest live memory, at least 64K, as in `rtalloc run`.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "allocatable")]
    heap: Option<u64>,

    /// Writes the figure to FILE as SVG: runs of frees over time, and memory against compaction.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Writes everything as JSON to FILE, or to standard output in place of the tables for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Allocator::CompactFit(compact_fit) = &arguments.allocator;
    of_compact_fit(compact_fit)
}

fn of_compact_fit(arguments: &CompactFit) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!arguments.plot.as_deref().is_some_and(is_stdout), "--plot needs the name of a file");
    let mut files = Files::new();
    files.reads("TRACE", &arguments.trace)?;
    let plot = files.file("--plot", arguments.plot.as_deref())?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let shown = arguments.trace.display();
    let mut events: Vec<Event> = Vec::new();
    let mut reader = Reader::open(&arguments.trace)?;
    let name = reader.meta().name.clone();
    note_incomplete(&arguments.trace);
    let mut chunk = Vec::new();
    while reader.next_chunk(&mut chunk)? {
        events.append(&mut chunk);
    }
    anyhow::ensure!(!events.is_empty(), "{shown} has no operations; choose another trace");
    let (shape, subject) = if arguments.paper {
        (Shape::moving::<PaperLadder>(), "compact-fit-paper")
    } else {
        (Shape::moving::<DefaultLadder>(), "compact-fit")
    };
    if let Some(size) = arguments.allocatable.iter().find(|size| shape.class_of(**size).is_none()) {
        anyhow::bail!(
            "--allocatable: objects of {size} bytes do not fit a page; the largest have {} bytes",
            shape.page_bytes - shape.reference_bytes
        );
    }
    let room = if arguments.allocatable.is_empty() {
        None
    } else {
        let heap_bytes = match arguments.heap {
            Some(bytes) => bytes,
            None => automatic_heap_bytes(survey(Reader::open(&arguments.trace)?)?.totals.peak_live_bytes),
        };
        Some((heap_bytes, pages(subject, heap_bytes, &shape).context("--heap")?))
    };
    let room = room.map(|(heap_bytes, pages)| (arguments.allocatable.as_slice(), heap_bytes, pages));
    let bar = Bar::new();
    let tuning = analyse(&name, &events, &shape, room, &mut |done, total| bar.show(Progress { done, total, last: "" }));
    bar.clear();
    anyhow::ensure!(
        !tuning.classes.is_empty(),
        "every request of {shown} is larger than a page of {} bytes; Compact-fit serves none of them",
        tuning.page_bytes
    );
    if let Some(plot) = plot {
        plot.write(&present::tune::figure(&tuning)?.context("--plot: there is nothing to draw")?)?;
    }
    let replaced = match json {
        Some(json) => json.write(&document::pretty(Schema::TUNE, &tuning).context("as JSON")?)?,
        None => false,
    };
    if !replaced {
        let look = Look::of_stdout();
        print(&present::tune::tables(&tuning, Look { columns: look.columns.min(120), ..look }))
            .context("standard output")?;
    }
    if let Some(allocatable) = &tuning.allocatable {
        let fits = allocatable.rows.iter().flat_map(|row| &row.by_choice).any(|(_, room)| room.is_some());
        let needed = tuning.choices.iter().map(|choice| choice.pages).min().unwrap_or(0);
        anyhow::ensure!(
            fits,
            "--heap: a heap of {} bytes has {} pages, and the trace needs {needed}; give a larger one",
            allocatable.heap_bytes,
            allocatable.pages
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Pages of a heap.
fn pages(subject: &str, heap_bytes: u64, shape: &Shape) -> anyhow::Result<u64> {
    let mut region = Region::new(heap_bytes as usize, false)?;
    let heap = Heap::new(one(subject)?, &mut region, heap_bytes as usize)?;
    Ok((heap_bytes - heap.control_bytes() as u64) / shape.page_bytes as u64)
}

//! `rtalloc advise`

use super::arguments::{MOST_BYTES, limit, parse_size, per_cent, refuse_streams};
use super::destination::{Files, is_stdout, print};
use super::progress::Bar;
use super::{note, note_incomplete};
use crate::present;
use crate::present::table::Look;
use anyhow::Context as _;
use rtalloc::limits::Limit;
use rtalloc_lab::experiment::advise::{MOST_SLOTS, Question, answer};
use rtalloc_lab::experiment::heap_size::sizes;
use rtalloc_lab::result::advice::Wishes;
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::result::targets::Elsewhere;
use rtalloc_lab::trace::Reader;
use std::path::PathBuf;
use std::process::ExitCode;

/// Recommends an allocator, the bytes of its region, and the code that creates it.
///
/// From a recording of your program, or from limits of what it has live, and from what you need: a
/// deadline, a region that is given, a heap that never refuses, several threads. Prints one
/// recommendation with its proved bound, and the heap that is guaranteed, that an adversary forces, and
/// that the recording needs; the runner-up; what would change the choice; and what is not known.
///
/// An allocator is recommended only if it meets these rules; the table says which one each does not
/// meet:
///
///   serves      serves every request of the recording, and sizes up to the largest limit
///   bounded     allocate and free have static bounds; with --target, committed ones
///   deadline    the larger bound is within --deadline
///   checked     reports a double free, which tlsf-unchecked does not
///   shared      with --threads, several threads use it at once without waiting for each other
///   guaranteed  with --never-refuse, a theorem gives a region that refuses nothing within the limits
///   fits        what it needs is within --heap
///
/// Of those that do, one is taken by the first of these lines that applies, and of the others in the
/// same way the runner-up:
///
///   TLSF is one of them, and --never-refuse is not given: TLSF, the default
///   --deadline alone: the smallest region
///   --heap alone: the shortest bound
///   otherwise: the smallest product of bound and region
///
/// If none does, the requirements contradict each other, and the nearest that can be met are printed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
#[command(group(clap::ArgGroup::new("program").args(["trace", "limit", "live"]).required(true).multiple(true)))]
pub struct Arguments {
    /// A recording of the program, from `rtalloc record`.
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,

    /// At most COUNT live objects of up to SIZE bytes, as in `rtalloc size`; may be given several times. Without it,
    /// the limits are those of the recording. Without a recording, --never-refuse is implied.
    #[arg(long, value_name = "COUNTxSIZE", value_parser = limit)]
    limit: Vec<Limit>,

    /// At most SIZE live bytes (as requested), with suffix K, M or G, instead of numbers of objects.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "largest", conflicts_with_all = ["limit", "trace"])]
    live: Option<u64>,

    /// With --live: the largest request in bytes.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "live")]
    largest: Option<u64>,

    /// With --live: the smallest request in bytes; 1 by default. A request of one byte takes a whole unit, so state it.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "live")]
    smallest: Option<u64>,

    /// An allocate or a free may execute at most N instructions, of the Rust type's x86-64 code or, with --target, of its
    /// code for that processor; or take at most N cycles, if --target is a core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    deadline: Option<u64>,

    /// The region has SIZE bytes, with suffix K, M or G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    heap: Option<u64>,

    /// The program runs on this processor: Armv6-M, Armv7-M, Armv7E-M, Armv7E-M-z (opt-level z), RV32IMC, RV32IMC+Zb,
    /// A64, or a Rust target; or on a core of `rtalloc bound --core`, whose bounds are in cycles. Its committed bounds
    /// decide; operations with loops have none. Regions are those of a 64-bit machine nevertheless. Not with --threads.
    #[arg(long, value_name = "NAME", value_parser = Elsewhere::find)]
    target: Option<Elsewhere>,

    /// No request within the limits may ever be refused.
    #[arg(long)]
    never_refuse: bool,

    /// N threads use the heap at the same time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=MOST_SLOTS as u64))]
    threads: Option<u64>,

    /// Increases the objects of a recording, and the region that serves it, by this percentage.
    #[arg(long, value_name = "PERCENT", value_parser = per_cent, default_value = "20", requires = "trace")]
    margin: u64,

    /// Writes the figure to FILE as SVG: bound against region, guaranteed and measured.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Writes everything as JSON to FILE, or to standard output in place of the text for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc advise mine.rtrace
  rtalloc advise mine.rtrace --deadline 500 --heap 64K
  rtalloc advise mine.rtrace --never-refuse --plot mine.svg
  rtalloc advise --limit 64x200 --limit 8x1500 --limit 1x4096
  rtalloc advise --live 28K --smallest 16 --largest 4096
  rtalloc advise mine.rtrace --target thumbv7em-none-eabihf --deadline 150

The exit status is 0 when an allocator is recommended, and 1 when none meets all wishes.";

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!arguments.plot.as_deref().is_some_and(is_stdout), "--plot needs the name of a file");
    anyhow::ensure!(arguments.heap.is_none_or(|heap| heap <= MOST_BYTES), "--heap: more than 64G");
    anyhow::ensure!(
        arguments.target.is_none() || arguments.threads.is_none(),
        "--threads: no heap that threads share has committed bounds for another processor; ask without --threads for one \
         under a lock"
    );
    let mut limits = arguments.limit.clone();
    if let (Some(live), Some(largest)) = (arguments.live, arguments.largest) {
        let smallest = arguments.smallest.unwrap_or(1);
        let limit = Limit::checked(usize::MAX, live as usize, smallest as usize, largest as usize);
        limits.push(limit.context("--smallest is more than --largest")?);
    }
    let mut files = Files::new();
    let mut question = Question {
        limits: &limits,
        are_recorded: false,
        trace: arguments.trace.as_deref(),
        name: None,
        resizes: 0,
        aligned: 0,
        align_bytes: 1,
        margin_per_cent: arguments.margin,
        elsewhere: arguments.target.as_ref(),
        wishes: Wishes {
            deadline: arguments.deadline,
            heap_bytes: arguments.heap,
            never_refuse: arguments.never_refuse || arguments.trace.is_none(),
            threads: arguments.threads,
        },
    };
    let mut recorded = Vec::new();
    if let Some(trace) = &arguments.trace {
        refuse_streams(trace)?;
        files.reads("TRACE", trace)?;
        note_incomplete(trace);
        let found = sizes::limits_of(trace, arguments.margin)?;
        (question.resizes, question.aligned) = (found.resizes, found.aligned);
        question.align_bytes = found.align_bytes;
        question.name = Some(Reader::open(trace)?.meta().name.clone());
        recorded = found.limits;
    } else if !arguments.never_refuse {
        note("rtalloc: without a recording, only a guaranteed region can be recommended\n");
    }
    if limits.is_empty() {
        question.limits = &recorded;
        question.are_recorded = true;
    } else if let Some(trace) = &arguments.trace
        && let Some(excess) = sizes::excess(trace, &limits)?
    {
        anyhow::bail!("--limit: {excess}");
    }
    anyhow::ensure!(
        question.limits.iter().any(|limit| limit.largest_bytes() > 0),
        "nothing is ever live; there is nothing to recommend"
    );
    let plot = files.file("--plot", arguments.plot.as_deref())?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let bar = Bar::new();
    let advice = answer(&question, &mut |progress| bar.show(progress))?;
    bar.clear();
    if let Some(plot) = plot {
        plot.write(&present::advice::figure(&advice)?.context("--plot: there is nothing to draw")?)?;
    }
    let replaced = match json {
        Some(json) => json.write(&document::pretty(Schema::ADVISE, &advice).context("as JSON")?)?,
        None => false,
    };
    if !replaced {
        print(&present::advice::text(&advice, Look::of_stdout())).context("standard output")?;
    }
    Ok(if advice.taken.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

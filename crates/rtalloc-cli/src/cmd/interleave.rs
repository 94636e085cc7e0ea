//! `rtalloc interleave`

use super::after_help;
use super::arguments::parse_size;
use super::destination::{Files, print};
use super::progress::Bar;
use crate::present;
use crate::present::table::Look;
use anyhow::Context as _;
use rtalloc_lab::experiment::interleave::{self, CANDIDATES, Candidate, Load, MOST_THREADS, Settings};
use rtalloc_lab::replay::isolate::Progress;
use rtalloc_lab::result::document::{self, Schema};
use std::path::PathBuf;
use std::process::ExitCode;

/// Counts the steps of operations under adversarial schedules of the other threads.
///
/// A wait-free allocator bounds how long other threads can delay an operation. Time measurements do
/// not find that delay: bad schedules are rare, and the machine decides when they occur. Here nothing
/// is left to the machine. All threads are coroutines of one thread; a switch occurs only where a
/// coroutine is about to access a shared word, and an adversary chooses the next one:
///
///   alone    one thread after another: what an operation takes undisturbed
///   random   any thread at any step
///   PCT      random priorities and three changes of them (Burckhardt et al. 2010)
///   stall    one thread stops at one of its steps until the others are done; each thread, each step
///   crowd    between any two steps of one thread the others make 1, 2, 3, ... each
///   greedy   changes the schedule repeatedly, and keeps a change if an operation of one thread takes
///            no fewer steps
///
/// The loads are the four of the wait-free paper on a small heap: I and II, blocks of 948 bytes,
/// kept until the heap is full, or freed at once; III and IV, blocks of 10 bytes, 1.25 times that and
/// so on, kept, or freed at once. Besides: mixed, sizes and lifetimes at random; handover, every
/// block freed by another thread.
///
/// Compact-fit's threads have handles. In its mixed and handover loads they begin with full pages,
/// which all threads read and free, so that objects are moved; an object that is read stays pinned
/// across other operations. compact-fit moves 256 bytes with each object allocated or freed,
/// compact-fit-by-16 at most 16, so that a move takes many operations.
///
/// Every operation is compared with the bound that its allocator publishes. One that takes more, a
/// block that overlaps another, a heap that is not whole again when everything was freed: each is an
/// error. The same seed gives the same figures on every machine.
#[derive(Debug, clap::Args)]
#[command(after_long_help = after_help("Allocators", CANDIDATES.iter().map(|one| one.name), EXAMPLES), verbatim_doc_comment)]
pub struct Arguments {
    /// Allocators, separated by spaces; without any, all. They are listed below.
    #[arg(value_name = "ALLOCATOR")]
    allocators: Vec<String>,

    /// Loads, separated by commas. Without it, all.
    #[arg(long, value_name = "L,M", value_delimiter = ',', value_parser = ["I", "II", "III", "IV", "mixed", "handover"])]
    load: Vec<String>,

    /// Number of threads. They are coroutines: the number of processors does not matter.
    #[arg(long, value_name = "T", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=MOST_THREADS as u64))]
    threads: u64,

    /// Schedules of each adversary on each load; the run takes seconds to minutes, in proportion.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    schedules: u64,

    /// Bytes of the heap, with suffix K, M or G. Without it, a size suitable for each allocator, 16 to 48 KiB: small,
    /// so that threads contend.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    heap: Option<u64>,

    /// Seed of all schedules.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Writes the figures as JSON to FILE, or to standard output in place of the tables for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc interleave                                  every allocator that publishes bounds
  rtalloc interleave pooled-arenas --threads 4        one of them, with more threads
  rtalloc interleave compact-fit --load mixed         pins and moves
  rtalloc interleave --load handover --schedules 10000
  rtalloc interleave --seed 7 --json -                the figures for another program

The exit status is 0 when every operation kept its bound and no heap was corrupted, and 1 when an
operation exceeded its bound or a heap was corrupted.";

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let candidates = chosen(&arguments.allocators)?;
    let json = Files::new().output("--json", arguments.json.as_deref())?;
    let wanted = |load: &Load| arguments.load.is_empty() || arguments.load.iter().any(|name| name == load.name());
    let settings = Settings {
        seed: arguments.seed,
        threads: arguments.threads as usize,
        schedules: arguments.schedules as usize,
        loads: Load::ALL.into_iter().filter(wanted).collect(),
        heap_bytes: arguments.heap.map(|bytes| bytes as usize),
    };
    let total = interleave::steps(candidates.len(), &settings);
    let bar = Bar::new();
    let found = interleave::measure(&candidates, &settings, &mut |done, last| bar.show(Progress { done, total, last }));
    bar.clear();
    let replaced = match json {
        Some(json) => json.write(&document::pretty(Schema::INTERLEAVE, &found).context("as JSON")?)?,
        None => false,
    };
    if !replaced {
        let look = Look::of_stdout();
        let text = present::interleave::tables(&found, Look { columns: look.columns.min(120), ..look });
        print(&text).context("standard output")?;
    }
    let sound = found.allocators.iter().all(|allocator| allocator.fault.is_none());
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Candidate>> {
    for name in names {
        anyhow::ensure!(
            CANDIDATES.iter().any(|candidate| candidate.name == name),
            "there is no allocator {name:?} whose steps can be interleaved; choose from {}",
            CANDIDATES.iter().map(|candidate| candidate.name).collect::<Vec<_>>().join(", ")
        );
    }
    let all = names.is_empty();
    Ok(CANDIDATES.iter().filter(|candidate| all || names.iter().any(|name| name == candidate.name)).copied().collect())
}

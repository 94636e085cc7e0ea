//! `rtalloc reproduce wait-free`

use super::{Keeping, Outputs, environments, performed, print_chapter};
use crate::cmd::after_help;
use crate::cmd::arguments::parse_size;
use crate::papers::wait_free::chapter;
use crate::papers::wait_free::measure::{PAIRS, Part, Settings, THREADS};
use crate::papers::{Reproduced, Scale};
use anyhow::Context as _;
use rtalloc_lab::campaign::kept;
use rtalloc_lab::result::document::Schema;
use rtalloc_subjects::shared::{self, SharedSubject};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  rtalloc reproduce wait-free --quick --report wait-free.html
                                       everything with few repetitions, with verdicts and figures
  rtalloc reproduce wait-free --threads 1,2 --on pooled-arenas,tlsf-mutex --parts cases,scaling
                                       two allocators, one thread and two
  rtalloc reproduce wait-free --parts drift --frees 100000000
                                       memory over 10^8 remote frees";

/// Wait-free DSA (2010), figure 10: how long operations take when threads share a heap, in cases I to IV
///
/// Every shared allocator in a heap of 64 MiB, with 1, 2 and 16 threads: I allocates 948 B until refused; II allocates
/// and frees 948 B; III allocates 10 B and 1.25 times as much each time, until refused; IV frees each of these at once.
/// Threads are pinned to processors and run at the highest real-time priority where permitted; with more threads than
/// processors, the figures are not comparable with the paper's. Also: steps (accesses to shared words) compared with
/// the published bounds, one thread with pooled arenas and TLSF alternating, throughput by threads, and memory when every free
/// is remote. Peers that are not installed, and locks that a thread may not take, are reported as such. Takes up to an
/// hour with every allocator and number of threads, and 72 MiB of memory for a heap; nothing else should run meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_long_help = after_help("Allocators and groups for --on", shared::names(), EXAMPLES))]
pub struct Arguments {
    /// Allocators, separated by commas: names, or the groups all, ours, peers, options (variants of one allocator). A
    /// leading `-` excludes: --on=-options. They are listed below; the default is all.
    #[arg(long, value_name = "A,B", value_delimiter = ',', allow_hyphen_values = true)]
    on: Vec<String>,

    /// Parts of the experiment, separated by commas; the default is all.
    #[arg(long, value_name = "P,Q", value_enum, value_delimiter = ',')]
    parts: Vec<Part>,

    /// Numbers of threads, separated by commas: the cases and the throughput are measured with each of them, one after
    /// another. `--threads 1,2,16` is alone, two at a time, and sixteen as in the paper.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = THREADS,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Vec<u8>,

    /// Bytes of the heap, with suffix K, M or G. A tree buddy needs its counters in addition, so 64M takes 72 MiB of
    /// memory.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    heap: u64,

    /// Pairs that each thread performs in case II.
    #[arg(long, value_name = "N", default_value_t = PAIRS)]
    pairs: u64,

    /// About five minutes: cases I and II once, 10^6 remote frees.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Cases I and II 20 times, III and IV 1,000 times, 10^8 remote frees: hours.
    #[arg(long)]
    full: bool,

    /// Repetitions of cases III and IV [default: 100; with --full 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    repeat: Option<u64>,

    /// Remote frees over which memory is watched [default: 10^7; with --quick 10^6, with --full 10^8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frees: Option<u64>,

    /// Seconds for one allocator in one case with one number of threads; unfinished cases are marked [default: 20; with
    /// --quick 4, with --full 120].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    #[command(flatten)]
    outputs: Outputs,

    /// Writes cases I to IV as CSV; without a file, in place of the tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    csv: Option<PathBuf>,

    #[command(flatten)]
    keeping: Keeping,
}

/// Performs the experiment and shows its results.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let subjects = shared::select(&arguments.on).context("--on")?;
    let mut outputs = arguments.outputs.open(&arguments.keeping)?;
    let csv = outputs.files.output("--csv", arguments.csv.as_deref())?;
    let settings = settings(arguments, subjects);
    let store = performed(&settings, &arguments.keeping)?;
    let found = settings.conclude(kept(&settings, &store)?)?;
    let environments = environments(&[&settings], &store)?;
    let rows = csv.is_some().then(|| chapter::csv(&found));
    let scale = Scale::of(arguments.quick, arguments.full);
    let reproduced = Reproduced::new(Schema::WAIT_FREE, found, chapter::chapter)?.at(scale);
    let mut replaced = outputs.write(&reproduced, &environments)?;
    if let (Some(csv), Some(rows)) = (csv, rows) {
        replaced |= csv.write(&rows)?;
    }
    if !replaced {
        print_chapter(&reproduced.chapter)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn settings(arguments: &Arguments, subjects: Vec<&'static SharedSubject>) -> Settings {
    let defaults = Settings::of(Scale::of(arguments.quick, arguments.full), subjects);
    let limit = arguments.seconds.map_or(defaults.limit, Duration::from_secs);
    let (first, then) = defaults.repetitions;
    Settings {
        parts: if arguments.parts.is_empty() { defaults.parts } else { arguments.parts.clone() },
        threads: arguments.threads.iter().map(|threads| usize::from(*threads)).collect(),
        heap_bytes: arguments.heap as usize,
        pairs: arguments.pairs,
        repetitions: (first, arguments.repeat.unwrap_or(then)),
        frees: arguments.frees.unwrap_or(defaults.frees),
        limit,
        drift_limit: limit.max(defaults.drift_limit),
        ..defaults
    }
}

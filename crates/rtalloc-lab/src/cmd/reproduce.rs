//! `rtalloc reproduce`

use super::after_help;
use super::destination::{Destination, Output, is_stdout};
use super::inspect::print;
use super::progress::Bar;
use super::run::parse_size;
use super::shipped;
use crate::analysis::Analysis;
use crate::experiment::{self, compact_fit, puaut, thesis, wait_free};
use crate::present;
use crate::present::table::Look;
use crate::replay::campaign::Progress;
use crate::result::tlsf;
use crate::subject::shared::{self, SharedSubject};
use crate::trace::Reader;
use crate::workload::Holding;
use anyhow::Context as _;
use pathbound::image::Process;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Repeats published experiments and prints published and own figures side by side.
///
/// Every figure stands beside the one that was published, and their ratio. A ratio far from 1 is a result, not a failure:
/// machines, word sizes and traces differ, and what differs is said below the tables.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
enum Paper {
    Thesis(Thesis),
    Puaut(Puaut),
    CompactFit(CompactFit),
    WaitFree(WaitFree),
    Tlsf(Tlsf),
}

const EXAMPLES: &str = "\
Examples:
  rtalloc reproduce thesis             tables 7 and 8 of the Bitframe thesis
  rtalloc reproduce thesis --json      the figures for another program
  rtalloc reproduce puaut              worst cases beside means, tables 2 and 3 of Puaut
  rtalloc reproduce compact-fit        figures 6 to 8 of Compact-fit and its other figures
  rtalloc reproduce compact-fit --plots figures
                                       the figures as SVG in a folder
  rtalloc reproduce tlsf --quick       tables IV to VI and figures 6 to 9 of the TLSF paper
  rtalloc reproduce wait-free --quick  cases I to IV of wait-free DSA, and what it leads to
  rtalloc reproduce wait-free --parts cases --threads 2 --on tree-buddy,tlsf-mutex --json cases.json
                                       two allocators, with every histogram

The exit status is 0 when every experiment was performed, whatever came out.";

/// Bitframe thesis (2012), tables 7 and 8: memory used, fragmentation and overhead on uniform and small
///
/// Seven allocators replay the thesis' synthetic traces (sizes U[1, 512] B, and Normal(32, 19.455) B; 100,000 allocations,
/// a random live block freed after every second) in a heap of 3 MiB until a request fails. H is the memory used, control
/// structure included; M the largest live memory; F = (H - M) / M; I = L / (H - M), where L is what the allocator
/// keeps for itself: control structure, headers, what belongs to pages.
#[derive(Debug, clap::Args)]
struct Thesis {
    /// Traces of each kind, of as many seeds from 1 on; figures are means over them.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,

    /// Bytes of the heap, with suffix K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "3M", value_parser = parse_size)]
    heap: u64,

    /// Prints the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Puaut (2002), tables 2 and 3: the worst case of allocate and free beside the mean, as ratios
///
/// Seven allocators in a heap of 4 MiB: the paper's worst-case scenarios, the MEAN model, and a decoder's trace (lame
/// --decode, which allocates for every frame as mpg123 did). Hers are cycles, ours instructions, so that ratios stand side by
/// side: to the mean, and to first-fit's. Takes about a minute.
#[derive(Debug, clap::Args)]
struct Puaut {
    /// Seed of the MEAN model.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Prints the figures as JSON.
    #[arg(long)]
    json: bool,
}

const WAIT_FREE_EXAMPLES: &str = "\
Examples:
  rtalloc reproduce wait-free --quick --report wait-free.html
                                       everything with few repetitions, with verdicts and figures
  rtalloc reproduce wait-free --threads 1,2 --on arenas,tlsf-mutex --parts cases,scaling
                                       two allocators, one thread and two
  rtalloc reproduce wait-free --parts drift --frees 100000000
                                       memory over 10^8 remote frees";

/// Compact-fit (2008), figures 6 to 8: time with and without compaction, and the room left in a fragmented heap
///
/// First-fit, best-fit, DL (dlmalloc), half-fit, TLSF and Compact-fit, moving (CFM) and non-moving (CFNM), on the paper's two
/// loads: objects of 8, 12, 16, ... B, every second one freed and allocated again (figure 6), and five periodic tasks (figure
/// 7), with full and with partial compaction; and how many objects of a size a heap still has room for when a fifth of small
/// objects was freed (figure 8). Besides: what a dereference costs, the making of a heap, pages and back references, and from
/// which block-frame on CFNM frees with fewer instructions than CFM. Counts are exact. Takes about a minute.
#[derive(Debug, clap::Args)]
struct CompactFit {
    /// Seed of the tasks' sizes and of the random frees.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Writes the figures as SVG to a folder, which is made if there is none: figure-6.svg, figure-7.svg, figure-8.svg.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,

    /// Prints the figures as JSON, every operation's count included.
    #[arg(long)]
    json: bool,
}

/// Wait-free DSA (2010), figure 10: how long operations take when threads share a heap, in cases I to IV
///
/// Every shared allocator in a heap of 64 MiB, with 1, 2 and 16 threads: I allocates 948 B until that is refused; II allocates and
/// frees 948 B; III allocates 10 B and 1.25 times as much each time, until refused; IV frees each of these at once. Threads are
/// pinned to processors and run at the highest real-time priority where that is permitted; where there are more threads than
/// processors, the figures say nothing of the paper's. Besides: steps (accesses to shared words) beside the published bounds, one
/// thread alone with arenas and TLSF in turns, throughput by threads, and memory when every free is remote. Peers that are not
/// installed, and locks that a thread may not take, are said to be so. Takes up to an hour with every allocator and number of
/// threads, and 72 MiB of memory for a heap; nothing else should run meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_long_help = after_help("Allocators and groups for --on", shared::names(), WAIT_FREE_EXAMPLES))]
struct WaitFree {
    /// Allocators, separated by commas: names, or the groups all, ours, peers, options (variants of one allocator). A leading `-`
    /// leaves out: --on=-options. They are listed below; all without this.
    #[arg(long, value_name = "A,B", value_delimiter = ',', allow_hyphen_values = true)]
    on: Vec<String>,

    /// Parts of the experiment, separated by commas; all without this.
    #[arg(long, value_name = "P,Q", value_enum, value_delimiter = ',')]
    parts: Vec<wait_free::Part>,

    /// Numbers of threads, separated by commas: the cases and the throughput are measured with each of them, one after another.
    /// `--threads 1,2,16` is alone, two at a time, and sixteen as in the paper.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [1, 2, 16],
          value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Vec<u8>,

    /// Bytes of the heap, with suffix K, M or G. A tree buddy gets its counters besides, so that 64M takes 72 MiB of memory.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    heap: u64,

    /// Pairs that each thread performs in case II.
    #[arg(long, value_name = "N", default_value_t = wait_free::PAIRS)]
    pairs: u64,

    /// Five minutes, with --on=-options: cases I and II once, 10^6 remote frees.
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

    /// Seconds for one allocator in one case with one number of threads; what is not done by then is marked [default: 20; with --quick 4,
    /// with --full 120].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// Writes one HTML file with everything in it: verdicts, the tables, and every figure.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Writes the figures as SVG to a folder, which is made if there is none: one for each case, options.svg, scaling.svg,
    /// memory.svg.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,

    /// Writes everything as JSON, every histogram included; without a file, in place of the tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Writes cases I to IV as CSV; without a file, in place of the tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    csv: Option<PathBuf>,
}

/// TLSF (2008), tables IV to VI and figures 6 to 9: cycles, instructions and fragmentation under periodic tasks
///
/// Binary buddy, dlmalloc, half-fit and TLSF, and others beside them, serve task sets of three profiles from a pool of 16 MiB.
/// Worst-case scenarios with harder ones, the most observed and static bounds; what each operation of TLSF executes by what it does;
/// cycles, instructions and F with the published figures beside them; the readings of the paper's holding time, which has no unit, side
/// by side; and verdicts on what the paper says. Instructions and memory are the same for the same sets, bit for bit. Takes about a minute.
#[derive(Debug, clap::Args)]
struct Tlsf {
    /// Allocators and groups beside the paper's four, a leading - excludes [default: ours that serve any size].
    #[arg(long, value_name = "NAMES", value_delimiter = ',', allow_hyphen_values = true)]
    on: Vec<String>,

    /// Task sets of each profile [default: 10; with --quick 3, with --full 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    sets: Option<u64>,

    /// Allocations of each task set [default: 100,000; with --quick 30,000, with --full 10^6].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    mallocs: Option<u64>,

    /// The reading of the holding time in tables IV to VI; the others are compared for F.
    #[arg(long, value_enum, value_name = "READING", default_value_t = Holding::Fit)]
    holding: Holding,

    /// Some seconds.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The paper's own size: 100 sets of 10^6 allocations for each profile, hours. The table of times says how many.
    #[arg(long)]
    full: bool,

    /// Writes the figures as SVG to a folder, which is made if there is none: figure-6.svg to figure-9.svg.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,

    /// Writes everything as JSON, every histogram included; without a file, in place of the tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// Runs the verb.
///
/// # Errors
///
/// Whatever stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.paper {
        Paper::Thesis(thesis) => of_thesis(thesis),
        Paper::Puaut(puaut) => of_puaut(puaut),
        Paper::CompactFit(compact_fit) => of_compact_fit(compact_fit),
        Paper::WaitFree(wait_free) => of_wait_free(wait_free),
        Paper::Tlsf(tlsf) => of_tlsf(tlsf),
    }
}

fn of_wait_free(arguments: &WaitFree) -> anyhow::Result<ExitCode> {
    let subjects = shared::select(&arguments.on).context("--on")?;
    anyhow::ensure!(
        !(is_stdout(arguments.json.as_deref()) && is_stdout(arguments.csv.as_deref())),
        "--json and --csv cannot both go to standard output; give one of them a file"
    );
    make_folder(arguments.plots.as_deref())?;
    let report = arguments.report.as_deref().map(Destination::open).transpose().context("--report")?;
    let json = arguments.json.as_deref().map(Output::open).transpose().context("--json")?;
    let csv = arguments.csv.as_deref().map(Output::open).transpose().context("--csv")?;
    let found = wait_free::measure(&settings(arguments, subjects), &mut {
        let bar = Bar::new();
        move |progress: Progress<'_>| {
            bar.show(progress);
            if progress.done == progress.total {
                bar.clear();
            }
        }
    })
    .context("cannot run an allocator in a process of its own")?;
    if let Some(folder) = &arguments.plots {
        write_figures(folder, present::wait_free::figures(&found)?)?;
    }
    if let Some(report) = report {
        report.write(&present::wait_free::html(&found)?)?;
    }
    let mut replaced = false;
    if let Some(json) = json {
        replaced |= json.write(&(serde_json::to_string(&found).context("the figures as JSON")? + "\n"))?;
    }
    if let Some(csv) = csv {
        replaced |= csv.write(&present::wait_free::csv(&found))?;
    }
    if !replaced {
        let look = Look::of_stdout();
        print(&present::wait_free::tables(&found, Look { columns: look.columns.min(120), ..look }))
            .context("standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn of_tlsf(arguments: &Tlsf) -> anyhow::Result<ExitCode> {
    let Tlsf { quick, full, holding, .. } = *arguments;
    let of = |quickly: u64, usually: u64, fully: u64| match (quick, full) {
        (true, _) => quickly,
        (_, true) => fully,
        _ => usually,
    };
    let sets = arguments.sets.unwrap_or_else(|| of(3, 10, 100));
    let settings = tlsf::Settings {
        sets,
        few_sets: of(1, 3, 100).min(sets),
        mallocs: arguments.mallocs.unwrap_or_else(|| of(30_000, 100_000, 1_000_000)),
        holding,
        others: Holding::ALL.into_iter().filter(|other| *other != holding).collect(),
        replicas: 3,
        pool_bytes: experiment::tlsf::POOL_BYTES,
        subjects: experiment::tlsf::cast(&arguments.on).context("--on")?,
    };
    make_folder(arguments.plots.as_deref())?;
    let json = arguments.json.as_deref().map(Output::open).transpose().context("--json")?;
    let analysis = Analysis::of_this_program()?;
    let bar = Bar::new();
    let found = experiment::tlsf::measure(&analysis, settings, &mut |progress| bar.show(progress))
        .context("cannot run an allocator in a process of its own")?;
    bar.clear();
    if let Some(folder) = &arguments.plots {
        write_figures(folder, present::tlsf::figures(&found)?)?;
    }
    let mut replaced = false;
    if let Some(json) = json {
        replaced |= json.write(&(serde_json::to_string(&found).context("the figures as JSON")? + "\n"))?;
    }
    if !replaced {
        let look = Look::of_stdout();
        print(&present::tlsf::tables(&found, Look { columns: look.columns.min(120), ..look }))
            .context("standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn settings(arguments: &WaitFree, subjects: Vec<&'static SharedSubject>) -> wait_free::Settings {
    use clap::ValueEnum as _;
    let WaitFree { quick, full, .. } = *arguments;
    let of = |quickly: u64, usually: u64, fully: u64| match (quick, full) {
        (true, _) => quickly,
        (_, true) => fully,
        _ => usually,
    };
    let seconds = arguments.seconds.unwrap_or_else(|| of(4, 20, 120));
    let parts =
        if arguments.parts.is_empty() { wait_free::Part::value_variants().into() } else { arguments.parts.clone() };
    wait_free::Settings {
        subjects,
        parts,
        threads: arguments.threads.iter().map(|threads| usize::from(*threads)).collect(),
        heap_bytes: arguments.heap as usize,
        pairs: arguments.pairs,
        repetitions: (of(1, 5, 20), arguments.repeat.unwrap_or_else(|| of(100, 100, 1000))),
        allocations: of(50_000, 200_000, 1_000_000),
        rounds: of(3, 7, 15) as usize,
        frees: arguments.frees.unwrap_or_else(|| of(1_000_000, 10_000_000, 100_000_000)),
        limit: Duration::from_secs(seconds),
        drift_limit: Duration::from_secs(seconds.max(of(10, 60, 600))),
    }
}

/// A folder for figures, before anything is measured.
fn make_folder(folder: Option<&Path>) -> anyhow::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("--plots: cannot make the folder {}; choose another place", folder.display()))
}

fn write_figures(folder: &Path, figures: Vec<(String, String)>) -> anyhow::Result<()> {
    for (name, content) in figures {
        let path = folder.join(name);
        std::fs::write(&path, content).with_context(|| format!("--plots: cannot write {}", path.display()))?;
    }
    Ok(())
}

fn of_compact_fit(CompactFit { seed, plots, json }: &CompactFit) -> anyhow::Result<ExitCode> {
    make_folder(plots.as_deref())?;
    let process = Process::current()?;
    let bar = Bar::new();
    let found = compact_fit::measure(&process, *seed, &mut |done, total| bar.show(Progress { done, total, last: "" }));
    bar.clear();
    if let Some(folder) = plots {
        write_figures(folder, present::compact_fit::figures(&found)?)?;
    }
    let look = Look::of_stdout();
    let text = if *json {
        serde_json::to_string(&found).context("the figures as JSON")? + "\n"
    } else {
        present::compact_fit::tables(&found, Look { columns: look.columns.min(120), ..look })
    };
    print(&text).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn of_puaut(Puaut { seed, json }: &Puaut) -> anyhow::Result<ExitCode> {
    const DECODER: &str = "lame-decode";
    let traces = shipped::unpack()?;
    let mut events = Vec::new();
    for path in &traces.paths {
        let mut reader = Reader::open(path)?;
        if reader.meta().name == DECODER {
            let mut chunk = Vec::new();
            while reader.next_chunk(&mut chunk)? {
                events.append(&mut chunk);
            }
        }
    }
    anyhow::ensure!(!events.is_empty(), "this binary was built without the trace {DECODER}");
    let analysis = Analysis::of_this_program()?;
    let bar = Bar::new();
    let tables = puaut::measure(&analysis, &events, *seed, &mut |done, total| {
        bar.show(Progress { done, total, last: "" });
    });
    bar.clear();
    let look = Look::of_stdout();
    let text = if *json {
        serde_json::to_string_pretty(&tables).context("the figures as JSON")? + "\n"
    } else {
        present::puaut::tables(&tables, Look { columns: look.columns.min(120), ..look })
    };
    print(&text).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn of_thesis(Thesis { seeds, heap, json }: &Thesis) -> anyhow::Result<ExitCode> {
    let bar = Bar::new();
    let tables = thesis::measure(*seeds, *heap as usize, &mut |done, total| {
        bar.show(Progress { done, total, last: "" });
    })
    .context("cannot run an allocator in a process of its own")?;
    bar.clear();
    let look = Look::of_stdout();
    let text = if *json {
        serde_json::to_string_pretty(&tables).context("the figures as JSON")? + "\n"
    } else {
        present::thesis::tables(&tables, Look { columns: look.columns.min(120), ..look })
    };
    print(&text).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

//! `rtalloc reproduce`

use super::inspect::print;
use super::progress::Bar;
use super::run::parse_size;
use super::shipped;
use crate::analysis::Analysis;
use crate::experiment::{compact_fit, puaut, thesis};
use crate::present;
use crate::present::table::Look;
use crate::replay::campaign::Progress;
use crate::trace::Reader;
use anyhow::Context as _;
use pathbound::image::Process;
use std::path::PathBuf;
use std::process::ExitCode;

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
}

const EXAMPLES: &str = "\
Examples:
  rtalloc reproduce thesis             tables 7 and 8 of the Bitframe thesis
  rtalloc reproduce thesis --json      the figures for another program
  rtalloc reproduce puaut              worst cases beside means, tables 2 and 3 of Puaut
  rtalloc reproduce compact-fit        figures 6 to 8 of Compact-fit and its other figures
  rtalloc reproduce compact-fit --plots figures
                                       the figures as SVG in a folder

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
    }
}

fn of_compact_fit(CompactFit { seed, plots, json }: &CompactFit) -> anyhow::Result<ExitCode> {
    if let Some(folder) = plots {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("--plots: cannot make the folder {}; choose another place", folder.display()))?;
    }
    let process = Process::current()?;
    let bar = Bar::new();
    let found = compact_fit::measure(&process, *seed, &mut |done, total| bar.show(Progress { done, total, last: "" }));
    bar.clear();
    if let Some(folder) = plots {
        for (name, content) in present::compact_fit::figures(&found)? {
            let path = folder.join(name);
            std::fs::write(&path, content).with_context(|| format!("--plots: cannot write {}", path.display()))?;
        }
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

//! `rtalloc reproduce thesis`

use super::{Keeping, Outputs};
use crate::cmd::arguments::parse_size;
use crate::papers::Scale;
use crate::papers::thesis::measure::Experiments;
use crate::papers::thesis::result::Settings;
use rtalloc_lab::analysis::Analysis;
use std::process::ExitCode;

/// Bitframe thesis (2012), tables 3 to 8 and figures 14 to 33: time and memory of allocators of small blocks
///
/// Seven allocators, and Bitframe with the thesis' proposed improvements, serve requests of up to 512 bytes in a heap
/// of 3 MiB until one fails. The thesis' recordings of a booting system and of the same system in its stable phase are
/// not available; parts of the shipped recordings sqlite-shop and lua-entities replace them. Its other traces are
/// generated: sizes U[1, 512] B, and Normal(32, 19.455) B, 100,000 and 95,400 allocations, a random live block freed
/// after every second.
///
/// Instructions and memory are deterministic, bit for bit. H is the memory used, control structure included; M the
/// largest live memory; F = (H - M) / M; I = L / (H - M), where L is what the allocator keeps for itself: control
/// structure, headers, per-page data. The time of each operation is the minimum over several replicas. Takes about four
/// minutes, with --quick one.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The generated traces are others: seed N has those of numbers (N - 1)·seeds + 1 to N·seeds.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seed: u64,

    /// Number of generated traces of each kind; figures are means over them [default: 20; with
    /// --quick 10, with --full 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: Option<u64>,

    /// Identical replays, whose minimum is an operation's time; they exist at the same time, with 4 MiB of memory each;
    /// 0 leaves the times out [default: 100; with --quick 5, with --full 1000, as in the thesis].
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(0..=4000))]
    replicas: Option<u32>,

    /// Bytes of the heap, with suffix K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "3M", value_parser = parse_size)]
    heap: u64,

    /// About a minute.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The thesis' 1000 replicas: about two hours and 4 GiB of memory.
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    outputs: Outputs,

    #[command(flatten)]
    keeping: Keeping,
}

/// Performs the experiment and shows its results.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let defaults = Settings::of(Scale::of(arguments.quick, arguments.full));
    let settings = Settings {
        heap_bytes: arguments.heap,
        seeds: arguments.seeds.unwrap_or(defaults.seeds),
        replicas: arguments.replicas.unwrap_or(defaults.replicas),
        ..defaults
    }
    .with_seed(arguments.seed);
    let outputs = arguments.outputs.open(&arguments.keeping)?;
    let analysis = Analysis::of_this_program()?;
    outputs.show(
        &Experiments::new(&analysis, settings)?,
        Scale::of(arguments.quick, arguments.full),
        &arguments.keeping,
    )
}

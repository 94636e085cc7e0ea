//! `rtalloc reproduce tlsf`

use super::{Keeping, Outputs};
use crate::analysis::Analysis;
use crate::papers::Scale;
use crate::papers::tlsf::measure::{Experiments, cast};
use crate::papers::tlsf::result::Settings;
use crate::workload::Holding;
use anyhow::Context as _;
use std::process::ExitCode;

/// TLSF (2008), tables I to VI and figures 6 to 9: cycles, instructions and fragmentation under periodic tasks
///
/// Binary buddy, dlmalloc, half-fit and TLSF, and others beside them, serve task sets of three profiles from a pool of
/// 16 MiB. Worst-case scenarios with harder ones, the most observed and static bounds; what each operation of TLSF
/// executes by what it does; cycles, instructions and F with the published figures beside them; the readings of the
/// paper's holding time, which has no unit, side by side; and verdicts on what the paper says. Instructions and memory
/// are the same for the same sets, bit for bit. Takes about a minute.
#[derive(Debug, clap::Args)]
pub struct Arguments {
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

    /// Under a minute.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The paper's own size: 100 sets of 10^6 allocations for each profile, hours. The table of times says how many.
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    outputs: Outputs,

    #[command(flatten)]
    keeping: Keeping,
}

/// Performs it and shows what came of it.
///
/// # Errors
///
/// Whatever stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { quick, full, holding, .. } = *arguments;
    let subjects = cast(&arguments.on).context("--on")?;
    let defaults = Settings::of(Scale::of(quick, full), holding, subjects);
    let sets = arguments.sets.unwrap_or(defaults.sets);
    let settings = Settings {
        sets,
        few_sets: defaults.few_sets.min(sets),
        mallocs: arguments.mallocs.unwrap_or(defaults.mallocs),
        ..defaults
    };
    let outputs = arguments.outputs.open(&arguments.keeping)?;
    let analysis = Analysis::of_this_program()?;
    outputs.tell(&Experiments::new(&analysis, settings)?, &arguments.keeping)
}

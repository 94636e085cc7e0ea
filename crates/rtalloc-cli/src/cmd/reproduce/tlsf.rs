//! `rtalloc reproduce tlsf`

use super::{Keeping, Outputs};
use crate::papers::Scale;
use crate::papers::tlsf::measure::{Experiments, selected};
use crate::papers::tlsf::result::Settings;
use anyhow::Context as _;
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::workload::Holding;
use std::process::ExitCode;

/// TLSF (2008), tables I to VI and figures 6 to 9: cycles, instructions and fragmentation under periodic tasks
///
/// Binary buddy, dlmalloc, half-fit, TLSF and others serve task sets of three profiles from a pool of 16 MiB.
/// Worst-case scenarios and harder ones, observed maxima and static bounds; the instructions of TLSF's operations by
/// what they do; cycles, instructions and F next to the published figures; the possible interpretations of the paper's
/// holding time, which has no unit, side by side; and verdicts on the paper's claims. Instructions and memory are the
/// same for the same sets, bit for bit. Takes about a minute.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Allocators and groups in addition to the paper's four, a leading - excludes [default: ours that serve any size].
    #[arg(long, value_name = "NAMES", value_delimiter = ',', allow_hyphen_values = true)]
    on: Vec<String>,

    /// Task sets of each profile and reading [default: 100, as in the paper]; other allocators than those that the
    /// paper compares, and times, have fewer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    sets: Option<u64>,

    /// Allocations of each task set [default: 100,000; with --quick 10,000, with --full 10^6].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    mallocs: Option<u64>,

    /// Task sets are drawn from other numbers: seed N has sets (N - 1)·sets + 1 to N·sets.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seed: u64,

    /// Interpretation of the holding time in tables IV and V; F is measured in all of them.
    #[arg(long, value_enum, value_name = "READING", default_value_t = Holding::DEFAULT)]
    holding: Holding,

    /// Under a minute.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The paper's own size: 100 sets of 10^6 allocations for each profile. Takes hours; see the table of times.
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
    let Arguments { quick, full, holding, .. } = *arguments;
    let subjects = selected(&arguments.on).context("--on")?;
    let defaults = Settings::of(Scale::of(quick, full), holding, subjects);
    let sets = arguments.sets.unwrap_or(defaults.sets);
    let settings = Settings {
        sets,
        few_sets: defaults.few_sets.min(sets),
        mallocs: arguments.mallocs.unwrap_or(defaults.mallocs),
        ..defaults
    }
    .with_seed(arguments.seed);
    let outputs = arguments.outputs.open(&arguments.keeping)?;
    let analysis = Analysis::of_this_program()?;
    outputs.show(&Experiments::new(&analysis, settings)?, Scale::of(quick, full), &arguments.keeping)
}

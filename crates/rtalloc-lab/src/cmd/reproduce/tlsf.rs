//! `rtalloc reproduce tlsf`

use super::{Keeping, Outputs, Scale};
use crate::analysis::Analysis;
use crate::experiment::tlsf;
use crate::present;
use crate::result::document::Schema;
use crate::result::tlsf::Settings;
use crate::workload::Holding;
use anyhow::Context as _;
use clap::Parser as _;
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

    /// Task sets of each profile [default: 10; with --quick 3, with --full 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    sets: Option<u64>,

    /// Allocations of each task set [default: 100,000; with --quick 30,000, with --full 10^6].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    mallocs: Option<u64>,

    /// Interpretation of the holding time in tables IV to VI; the others are compared for F.
    #[arg(long, value_enum, value_name = "READING", default_value_t = Holding::Fit)]
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
    let settings = settings(arguments)?;
    let outputs = arguments.outputs.open(&arguments.keeping)?;
    let analysis = Analysis::of_this_program()?;
    let experiments = tlsf::Experiments::new(&analysis, settings)
        .context("cannot make a folder for traces; set TMPDIR to a directory with room")?;
    outputs.tell(Schema::TLSF, &experiments, &arguments.keeping, present::tlsf::chapter)
}

fn settings(arguments: &Arguments) -> anyhow::Result<Settings> {
    let Arguments { quick, full, holding, .. } = *arguments;
    let scale = Scale::of(quick, full);
    let of = |quickly: u64, usually: u64, fully: u64| scale.pick(quickly, usually, fully);
    let sets = arguments.sets.unwrap_or_else(|| of(3, 10, 100));
    Ok(Settings {
        sets,
        few_sets: of(1, 3, 100).min(sets),
        mallocs: arguments.mallocs.unwrap_or_else(|| of(30_000, 100_000, 1_000_000)),
        holding,
        others: Holding::ALL.into_iter().filter(|other| *other != holding).collect(),
        replicas: 3,
        pool_bytes: tlsf::POOL_BYTES,
        subjects: tlsf::cast(&arguments.on).context("--on")?,
    })
}

/// The settings in a campaign of all papers.
///
/// # Errors
///
/// None, as long as the options have defaults.
pub fn settings_of(scale: Scale) -> anyhow::Result<Settings> {
    #[derive(clap::Parser)]
    struct Defaults {
        #[command(flatten)]
        arguments: Arguments,
    }
    let option = scale.pick(Some("--quick"), None, Some("--full"));
    let Defaults { arguments } = Defaults::try_parse_from(["tlsf"].into_iter().chain(option))?;
    settings(&arguments)
}

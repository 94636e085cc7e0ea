//! `rtalloc reproduce robson`

use super::{Keeping, Outputs, Scale};
use crate::cmd::after_help;
use crate::experiment::robson::{self, Settings};
use crate::present;
use crate::result::document::Schema;
use anyhow::Context as _;
use clap::Parser as _;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  rtalloc reproduce robson --quick     every allocator, requests of 4 to 256 units
  rtalloc reproduce robson --on tlsf,half-fit,first-fit-address --m 4096
                                       three allocators, with at most 4,096 units live
  rtalloc reproduce robson --quick --plots figures
                                       the figures as SVG in a folder";

/// Worst-case memory (Robson): what adversaries make each allocator need, compared with the bounds of theory
///
/// An adversary has at most M units live, in requests of 1 to n units, and chooses each request depending on the
/// addresses returned so far. A unit is the smallest block of the allocator. Reported, for each n, is the smallest heap
/// in which no request is refused, divided by M; a heap one granule smaller was tried and refused a request. Nine
/// adversaries: Robson's program for powers of two, which needs M(1/2 log2 n + 1) - n + 1 of every allocator that does
/// not move blocks; requests of every size; the worst cases of half-fit, buddies, best-fit and next-fit; one size after
/// another; one object left in each page. In addition, the guarantees of theory, and verdicts. The results are the same
/// on every machine.
#[derive(Debug, clap::Args)]
#[command(after_long_help = after_help("Allocators and groups for --on", names(), EXAMPLES))]
pub struct Arguments {
    /// Allocators and groups, separated by commas, a leading - excludes [default: all that take a region].
    #[arg(long, value_name = "NAMES", value_delimiter = ',', allow_hyphen_values = true)]
    on: Vec<String>,

    /// Units that may be live, M [default: 4096; with --quick 1024, with --full 16384]. For the comb against best-fit,
    /// whose work is quadratic in M, at most 1024 (with --quick 512, with --full 2048).
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u64).range(64..=65_536))]
    m: Option<u64>,

    /// Largest request in units: n is 4, 8, 16, ... up to this [default: 1024; with --quick 256].
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u64).range(4..=4096))]
    n: Option<u64>,

    /// A minute.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// An hour.
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    outputs: Outputs,

    #[command(flatten)]
    keeping: Keeping,
}

fn names() -> Vec<&'static str> {
    rtalloc_subjects::all().iter().filter(|subject| !subject.own_pages).map(|subject| subject.name).collect()
}

/// Performs the experiment and shows its results.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let settings = settings(arguments)?;
    arguments.outputs.open(&arguments.keeping)?.tell(
        Schema::ROBSON,
        &settings,
        &arguments.keeping,
        present::robson::chapter,
    )
}

fn settings(arguments: &Arguments) -> anyhow::Result<Settings> {
    let scale = Scale::of(arguments.quick, arguments.full);
    let m = arguments.m.unwrap_or_else(|| scale.pick(1024, 4096, 16_384)) as usize;
    let most = arguments.n.unwrap_or_else(|| scale.pick(256, 1024, 1024)) as usize;
    Ok(Settings {
        subjects: robson::cast(&arguments.on).context("--on")?,
        m,
        comb_m: m.min(scale.pick(512, 1024, 2048)),
        sizes: (2..=most.ilog2()).map(|power| 1 << power).collect(),
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
    let Defaults { arguments } = Defaults::try_parse_from(["robson"].into_iter().chain(option))?;
    settings(&arguments)
}

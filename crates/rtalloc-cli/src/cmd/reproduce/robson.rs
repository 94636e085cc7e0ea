//! `rtalloc reproduce robson`

use super::{Keeping, Outputs};
use crate::cmd::after_help;
use crate::papers::Scale;
use crate::papers::robson::measure::{Settings, selected, sizes};
use anyhow::Context as _;
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
    let defaults = Settings::of(Scale::of(arguments.quick, arguments.full), selected(&arguments.on).context("--on")?);
    let m = arguments.m.map_or(defaults.m, |m| m as usize);
    let settings = Settings {
        m,
        comb_m: m.min(defaults.comb_m),
        sizes: arguments.n.map_or(defaults.sizes, |n| sizes(n as usize)),
        subjects: defaults.subjects,
    };
    arguments.outputs.open(&arguments.keeping)?.show(
        &settings,
        Scale::of(arguments.quick, arguments.full),
        &arguments.keeping,
    )
}

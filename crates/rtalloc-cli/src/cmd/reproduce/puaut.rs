//! `rtalloc reproduce puaut`

use super::{Keeping, Outputs};
use crate::papers::Scale;
use crate::papers::puaut::measure::{Experiments, SEED};
use rtalloc_lab::analysis::Analysis;
use std::process::ExitCode;

/// Puaut (2002), tables 1 to 3 and figures 1 to 4: the worst case of malloc and free, the mean, and their effect on a
/// program
///
/// Seven allocators in a heap of 4 MiB: the paper's worst-case scenarios, the MEAN model, and a decoder's trace (lame
/// --decode, which allocates for every frame as mpg123 did). The paper's figures are cycles and ours instructions,
/// shown with their ratio. The observed maximum, the scenario maximum and the static bound are three different numbers.
/// Also: malloc's share of a program's time, under each assumption of its cost, and the worst malloc in heaps of 64 KiB
/// to 64 MiB. Counts are exact. Takes about a minute.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Seed of the MEAN model.
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,

    /// Figure 4 in heaps of up to 16 MiB.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Everything, which is the default.
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
    let outputs = arguments.outputs.open(&arguments.keeping)?;
    let analysis = Analysis::of_this_program()?;
    let scale = Scale::of(arguments.quick, arguments.full);
    outputs.show(&Experiments::new(&analysis, arguments.seed, scale)?, scale, &arguments.keeping)
}

//! `rtalloc reproduce compact-fit`

use super::{Keeping, Outputs};
use crate::papers::Scale;
use crate::papers::compact_fit::measure::{Experiments, SEED};
use pathbound::image::Process;
use std::process::ExitCode;

/// Compact-fit (2008), figures 6 to 8: time with and without compaction, and the room left in a fragmented heap
///
/// First-fit, best-fit, DL (dlmalloc), half-fit, TLSF and Compact-fit, moving (CFM) and non-moving (CFNM), on the
/// paper's two loads: objects of 8, 12, 16, ... B, every second one freed and allocated again (figure 6), and five
/// periodic tasks (figure 7), with full and with partial compaction; and how many objects of a size a heap still has
/// room for after a fifth of the small objects was freed (figure 8). Also: the costs of a dereference, of creating a
/// heap, of pages and of back references, and from which block-frame size on CFNM frees with fewer instructions than
/// CFM. Counts are exact. Takes about a minute.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Seed of the tasks' sizes and of the random frees.
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,

    /// Everything, which is the default.
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
    let process = Process::shared()?;
    outputs.show(
        &Experiments { process: &process, seed: arguments.seed },
        Scale::of(arguments.quick, arguments.full),
        &arguments.keeping,
    )
}

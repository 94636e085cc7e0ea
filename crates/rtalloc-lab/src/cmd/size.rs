//! `rtalloc size`

use super::destination::{Files, is_stdout, print};
use super::progress::Bar;
use crate::experiment::heap_size::{program, worlds};
use crate::present;
use crate::present::table::Look;
use crate::result::document::{self, Schema};
use crate::result::heap_size::ExactCell;
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Computes how large a heap must be so that no request is ever refused.
///
/// With --exact, explores every state of real heaps of a few units, against every program that keeps
/// at most M units live and requests 1 to n units at a time. For every such world up to the one
/// given, this finds the smallest heap that refuses nothing, and compares it with what the
/// allocator guarantees. The first table is a game of two players: what the best possible allocator
/// that moves nothing would need.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
pub struct Arguments {
    /// Explores all worlds up to M live units and requests of n units.
    #[arg(long, value_name = "M,n", value_parser = world, required = true)]
    exact: (usize, usize),

    /// Allocators, separated by commas: names, families or groups. Without it, all our region allocators, and the best
    /// possible one.
    #[arg(long, value_name = "ALLOCATORS", value_delimiter = ',')]
    on: Vec<String>,

    /// The most states of a heap that are explored; 10 million take about 1 GiB and a minute.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    states: usize,

    /// Writes a shortest program that the next smaller heap refuses, in the largest decided world, as a trace to FILE.
    #[arg(long, value_name = "FILE")]
    witness: Option<PathBuf>,

    /// Writes everything as JSON to FILE, or to standard output in place of the tables for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc size --exact 8,4 --on tlsf,half-fit
  rtalloc size --exact 7,4 --on half-fit --witness teeth.rtrace
  rtalloc size --exact 16,8 --states 10000000 --json exact.json

The exit status is 0, and 1 when an argument is invalid or a guarantee is refuted.";

/// Parses `M,n`.
fn world(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("{text:?} is not a world; write the most live units and the largest request: 8,4");
    let (m, n) = text.split_once(',').ok_or_else(wrong)?;
    let (m, n) = (m.trim().parse().map_err(|_| wrong())?, n.trim().parse().map_err(|_| wrong())?);
    match (m, n) {
        (_, 0 | 1) => Err("n must be at least 2: objects of one unit leave no useless gaps".into()),
        (m, n) if m < n => Err(format!("M must be at least n, which is {n}")),
        (m, _) if m > worlds::MOST_UNITS => Err(format!("M must be at most {}", worlds::MOST_UNITS)),
        world => Ok(world),
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let subjects = if arguments.on.is_empty() { worlds::all() } else { rtalloc_subjects::select(&arguments.on)? };
    for subject in &subjects {
        anyhow::ensure!(
            subject.view.is_some() && subject.entries.handles.is_none(),
            "{}: the state of its heaps cannot be read; choose a region allocator of ours (`rtalloc allocators` lists them)",
            subject.name
        );
    }
    anyhow::ensure!(!arguments.witness.as_deref().is_some_and(is_stdout), "--witness needs the name of a file");
    anyhow::ensure!(
        arguments.witness.is_none() || subjects.len() == 1,
        "--witness is a program against one allocator; name it with --on"
    );
    let mut files = Files::new();
    let witness = files.file("--witness", arguments.witness.as_deref())?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let (m, n) = arguments.exact;
    let bar = Bar::new();
    let has_any = arguments.on.is_empty();
    let exact = worlds::measure(&subjects, has_any, m, n, arguments.states, &mut |progress| bar.show(progress))?;
    bar.clear();
    if let (Some(path), Some(_)) = (&arguments.witness, witness) {
        let row = exact.rows.last().context("no allocator")?;
        let decided = row.cells.iter().filter(|cell| cell.witness.is_some());
        let cell = decided.max_by_key(|cell| (cell.block_bytes, cell.m)).context(
            "--witness: no heap was refuted; choose a larger world, or more --states",
        )?;
        let heap = program::write(row, cell, path)?;
        super::note(&format!("rtalloc run {} --on {} --heap {heap} --probe space\n", path.display(), row.subject));
    }
    let replaced = match json {
        Some(json) => json.write(&document::pretty(Schema::SIZE, &exact).context("as JSON")?)?,
        None => false,
    };
    if !replaced {
        print(&present::heap_size::exact(&exact, Look::of_stdout())).context("standard output")?;
    }
    let is_refuted = |cell: &ExactCell| cell.guaranteed_bytes.is_some_and(|bytes| bytes < cell.block_bytes as u64);
    let refuted = exact.rows.iter().flat_map(|row| &row.cells).any(is_refuted);
    Ok(if refuted { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

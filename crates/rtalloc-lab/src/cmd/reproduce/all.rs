//! `rtalloc reproduce all`

use super::{
    Keeping, Scale, environments, print_chapter, print_measured, puaut, robson, store, thesis, tlsf, wait_free,
    write_json,
};
use crate::analysis::Analysis;
use crate::campaign::shard::Shard;
use crate::campaign::{self, Experiment, Tasks, kept};
use crate::cmd::destination::print;
use crate::cmd::progress::Bar;
use crate::cmd::shipped;
use crate::present::papers::Papers;
use crate::present::table::Look;
use crate::result::claim::Claim;
use crate::result::compact_fit::CompactFit;
use crate::result::document::Schema;
use crate::result::overview::Overview;
use crate::result::puaut::Puaut;
use crate::result::robson::Robson;
use crate::result::thesis::Thesis;
use crate::result::tlsf::Tlsf;
use crate::result::wait_free::WaitFree;
use crate::{experiment, present};
use anyhow::Context as _;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// All five papers and worst-case memory: every experiment, one after another, and the list of all verdicts
///
/// Counting tasks run on all processors in parallel; timed tasks run afterwards, one by one; nothing else should run
/// then. Needs about 1 GiB of memory, with --full 5 GiB (the thesis' 1000 replicas). Seeds are fixed: 1, or 1 to N
/// where there are several. Only tasks without a result in the store are performed; so the same command resumes after
/// an interruption, and several machines can each perform a slice (docs/CAMPAIGNS.md).
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// All experiments, reduced replication: under ten minutes on two cores.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The papers' own sizes: hours.
    #[arg(long)]
    full: bool,

    /// Performs slice (shard) K of N, and prints no tables: `rtalloc merge` joins the stores of all slices.
    #[arg(long, value_name = "K/N", requires = "store")]
    shard: Option<Shard>,

    /// Writes one HTML file with everything in it: which allocator when, all verdicts, every table and figure, and the
    /// papers' errors.
    #[arg(long, value_name = "FILE", conflicts_with = "shard")]
    report: Option<PathBuf>,

    /// Writes everything as JSON, every histogram included; without a file, in place of the tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with = "shard")]
    json: Option<PathBuf>,

    #[command(flatten)]
    keeping: Keeping,
}

/// All figures.
#[derive(Serialize)]
struct All<'a> {
    overview: &'a Overview,
    tlsf: &'a Tlsf,
    puaut: &'a Puaut,
    wait_free: &'a WaitFree,
    thesis: &'a Thesis,
    compact_fit: &'a CompactFit,
    robson: &'a Robson,
}

/// Performs the experiments and shows their results.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let scale = Scale::of(arguments.quick, arguments.full);
    let mut files = arguments.keeping.files()?;
    let report = files.file("--report", arguments.report.as_deref())?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let analysis = Analysis::of_this_program()?;
    let traces = shipped::unpack()?;
    let overview = experiment::overview::Everybody {
        analysis: &analysis,
        subjects: rtalloc_subjects::all().iter().collect(),
        traces: shipped::names().zip(traces.paths.iter().cloned()).collect(),
    };
    let decoder = puaut::decoder()?;
    let tlsf = experiment::tlsf::Experiments::new(&analysis, tlsf::settings_of(scale)?)
        .context("cannot make a folder for traces; set TMPDIR to a directory with room")?;
    let puaut = puaut::experiments(&analysis, &decoder, 1, scale);
    let wait_free = wait_free::settings_of(scale)?;
    let thesis = thesis::experiments(&analysis, thesis::settings_of(scale))?;
    let compact_fit = experiment::compact_fit::Experiments { process: analysis.process(), seed: 1 };
    let robson = robson::settings_of(scale)?;
    let experiments: [&dyn Tasks; 7] = [&overview, &tlsf, &puaut, &wait_free, &thesis, &compact_fit, &robson];

    let mut store = store(&arguments.keeping)?;
    let bar = Bar::new();
    let shard = arguments.shard.unwrap_or(Shard::WHOLE);
    let performed = campaign::perform(&experiments, shard, &mut store, &mut |progress| bar.show(progress));
    bar.clear();
    performed?;
    if arguments.shard.is_some() {
        print(&format!("slice {shard} is performed; `rtalloc merge` joins the stores of all slices\n"))
            .context("standard output")?;
        return Ok(ExitCode::SUCCESS);
    }
    let environments = environments(&experiments, &store)?;
    let overview = overview.conclude(kept(&overview, &store)?)?;
    let tlsf = tlsf.conclude(kept(&tlsf, &store)?)?;
    let puaut = puaut.conclude(kept(&puaut, &store)?)?;
    let wait_free = wait_free.conclude(kept(&wait_free, &store)?)?;
    let thesis = thesis.conclude(kept(&thesis, &store)?)?;
    let compact_fit = compact_fit.conclude(kept(&compact_fit, &store)?)?;
    let robson = robson.conclude(kept(&robson, &store)?)?;
    let chapters = [
        present::tlsf::chapter(&tlsf)?,
        present::puaut::chapter(&puaut)?,
        present::wait_free::chapter(&wait_free)?,
        present::thesis::chapter(&thesis)?,
        present::compact_fit::chapter(&compact_fit)?,
        present::robson::chapter(&robson)?,
    ];
    if let Some(report) = report {
        let papers =
            Papers { performed: scale.words(), overview: &overview, chapters: &chapters, environments: &environments };
        report.write(&present::papers::html(&papers)?)?;
    }
    if let Some(json) = json {
        let all = All {
            overview: &overview,
            tlsf: &tlsf,
            puaut: &puaut,
            wait_free: &wait_free,
            thesis: &thesis,
            compact_fit: &compact_fit,
            robson: &robson,
        };
        if write_json(json, Schema::ALL_PAPERS, &all)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let look = Look::of_stdout();
    print(&(present::papers::text(&overview, Look { columns: look.columns.min(120), ..look }) + "\n"))
        .context("standard output")?;
    chapters.iter().try_for_each(print_chapter)?;
    let verdicts: Vec<(&str, &[Claim])> = chapters.iter().map(|chapter| (chapter.id, &*chapter.claims)).collect();
    print(&present::campaign::verdicts(&verdicts, Look::of_stdout())).context("standard output")?;
    print_measured(&environments)?;
    Ok(ExitCode::SUCCESS)
}

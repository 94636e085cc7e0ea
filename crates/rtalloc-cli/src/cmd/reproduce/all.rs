//! `rtalloc reproduce all`

use super::{Keeping, environments, perform, print_chapter, print_measured, store, write_json};
use crate::cmd::destination::print;
use crate::papers::claims::{self, Claim};
use crate::papers::overview::measure::Everybody;
use crate::papers::page::{self, Papers};
use crate::papers::{self, Scale};
use crate::present::table::Look;
use anyhow::Context as _;
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::shard::Shard;
use rtalloc_lab::campaign::{Tasks, kept};
use rtalloc_lab::result::document::Schema;
use rtalloc_lab::shipped;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// All five papers and worst-case memory: every experiment, one after another, and the list of all verdicts
///
/// Counting tasks run on all processors in parallel; timed tasks run afterwards, one by one; nothing else should run
/// then. Needs about 1 GiB of memory, with --full 5 GiB (the thesis' 1000 replicas). Only tasks without a result in
/// the store are performed; so the same command resumes after an interruption, and several machines can each perform a
/// slice (docs/CAMPAIGNS.md).
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// All experiments, reduced replication: under ten minutes on two cores.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The papers' own sizes: hours.
    #[arg(long)]
    full: bool,

    /// Seed of all generated loads; the task sets of the TLSF paper and the traces of the thesis are the N-th hundred,
    /// or as many as there are.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seed: u64,

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
    let overview = Everybody {
        analysis: &analysis,
        subjects: rtalloc_subjects::all().iter().collect(),
        traces: shipped::names().zip(traces.paths.iter().cloned()).collect(),
    };
    let papers = papers::all(&analysis, scale, arguments.seed)?;
    let mut experiments: Vec<&dyn Tasks> = vec![&overview];
    experiments.extend(papers.iter().map(|paper| &**paper as &dyn Tasks));

    let mut store = store(&arguments.keeping)?;
    let shard = arguments.shard.unwrap_or(Shard::WHOLE);
    perform(&experiments, shard, &mut store)?;
    if arguments.shard.is_some() {
        print(&format!("slice {shard} is complete; join the stores of all slices with `rtalloc merge`\n"))
            .context("standard output")?;
        return Ok(ExitCode::SUCCESS);
    }
    let environments = environments(&experiments, &store)?;
    let overview = overview.conclude(kept(&overview, &store)?)?;
    let reproduced = papers.iter().map(|paper| paper.reproduce(&store)).collect::<anyhow::Result<Vec<_>>>()?;
    let (chapters, found): (Vec<_>, Vec<_>) = reproduced.into_iter().map(|of| (of.chapter, of.json)).unzip();
    if let Some(report) = report {
        let papers = Papers { scale, overview: &overview, chapters: &chapters, environments: &environments };
        report.write(&page::html(&papers)?)?;
    }
    if let Some(json) = json {
        let mut fields = format!("\"overview\":{}", serde_json::to_string(&overview)?);
        for (paper, found) in papers.iter().zip(&found) {
            let _ = write!(fields, ",\"{}\":{}", paper.name().replace('-', "_"), found()?);
        }
        if write_json(json, Schema::ALL_PAPERS, &format!("{{{fields}}}"))? {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let look = Look::of_stdout();
    print(&(page::text(&overview, Look { columns: look.columns.min(120), ..look }) + "\n"))
        .context("standard output")?;
    chapters.iter().try_for_each(print_chapter)?;
    let verdicts: Vec<(&str, &[Claim])> = chapters.iter().map(|chapter| (chapter.id, &*chapter.claims)).collect();
    print(&claims::verdicts(&verdicts, look)).context("standard output")?;
    print_measured(&environments)?;
    Ok(ExitCode::SUCCESS)
}

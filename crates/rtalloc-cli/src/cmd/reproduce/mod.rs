//! `rtalloc reproduce`: one file per paper.

mod all;
mod compact_fit;
mod puaut;
mod robson;
mod thesis;
mod tlsf;
mod wait_free;

use super::destination::{Destination, Files, Output, print};
use super::progress::Bar;
use crate::papers::chapter::Chapter;
use crate::papers::{Paper, Reproduced, Scale, page};
use crate::present;
use crate::present::table::Look;
use anyhow::Context as _;
use rtalloc_lab::campaign::shard::Shard;
use rtalloc_lab::campaign::store::Store;
use rtalloc_lab::campaign::{self, Tasks, kept};
use rtalloc_lab::probe::cycles::Clock;
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::result::schema::Environment;
use rtalloc_lab::shipped;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Repeats published experiments and prints published and own figures side by side.
///
/// Every figure is shown next to the published one, with their ratio. A ratio far from 1 is a result, not a failure:
/// machines, word sizes and traces differ; the differences are listed below the tables.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
enum Subcommand {
    Tlsf(tlsf::Arguments),
    Puaut(puaut::Arguments),
    WaitFree(wait_free::Arguments),
    Thesis(thesis::Arguments),
    CompactFit(compact_fit::Arguments),
    Robson(robson::Arguments),
    All(all::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  rtalloc reproduce thesis --quick     tables 3 to 8 and figures 14 to 33 of the Bitframe thesis
  rtalloc reproduce thesis --replicas 0 --json
                                       only memory and instructions, for another program
  rtalloc reproduce puaut --quick      worst cases and means: Puaut's tables 1 to 3, figures 1 to 4
  rtalloc reproduce compact-fit        figures 6 to 8 of Compact-fit and its other figures
  rtalloc reproduce compact-fit --plots figures
                                       the figures as SVG in a folder
  rtalloc reproduce tlsf --quick       tables I to VI and figures 6 to 9 of the TLSF paper
  rtalloc reproduce wait-free --quick  cases I to IV of wait-free DSA, and further measurements
  rtalloc reproduce wait-free --parts cases --threads 2 --on tree-buddy,tlsf-mutex --json cases.json
                                       two allocators, with every histogram
  rtalloc reproduce robson --quick     the memory that adversaries make each allocator need
  rtalloc reproduce all --quick --report papers.html
                                       all papers on one page: answer, verdicts, tables and figures
  rtalloc reproduce all --quick --store results.db
                                       all papers and verdicts; resumes where it was stopped

The exit status is 0 when every experiment was performed, whatever the results.";

/// Where results are stored.
#[derive(Debug, clap::Args)]
struct Keeping {
    /// Stores each task's result in FILE at once (an SQLite file, created if missing) and performs only tasks that are
    /// not in it yet; so the same command resumes. See docs/CAMPAIGNS.md.
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

impl Keeping {
    /// The files of the call so far.
    fn files(&self) -> anyhow::Result<Files> {
        let mut files = Files::new();
        self.store.as_deref().map_or(Ok(()), |store| files.changes("--store", store))?;
        Ok(files)
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.subcommand {
        Subcommand::Tlsf(arguments) => tlsf::main(arguments),
        Subcommand::Puaut(arguments) => puaut::main(arguments),
        Subcommand::WaitFree(arguments) => wait_free::main(arguments),
        Subcommand::Thesis(arguments) => thesis::main(arguments),
        Subcommand::CompactFit(arguments) => compact_fit::main(arguments),
        Subcommand::Robson(arguments) => robson::main(arguments),
        Subcommand::All(arguments) => all::main(arguments),
    }
}

/// The store of this process' results: the given file, or memory.
fn store(keeping: &Keeping) -> anyhow::Result<Store> {
    let here = Environment::here(Clock::calibrate());
    let origin = shipped::origin(&here);
    anyhow::ensure!(
        keeping.store.is_none() || here.binary != "unknown",
        "--store: this program's file cannot be read any more, so the origin of its results would be unknown; start it again"
    );
    let mut store = match &keeping.store {
        Some(path) => Store::open(path, origin).with_context(|| format!("--store: {}", path.display()))?,
        None => Store::in_memory(origin)?,
    };
    store.measure(&here)?;
    Ok(store)
}

/// Outputs in addition to the tables, or in place of them.
#[derive(Debug, clap::Args)]
struct Outputs {
    /// Writes one HTML file with everything in it: verdicts, the tables, every figure, and the paper's errors.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Writes the figures as SVG to a folder, which is created if missing.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,

    /// Writes everything as JSON, including every histogram; without a file, in place of the tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// The outputs, found writable.
struct Opened<'a> {
    files: Files,
    report: Option<Destination>,
    plots: Option<&'a Path>,
    json: Option<Output>,
}

impl Outputs {
    /// Checks that all of them can be written, before anything is measured.
    fn open(&self, keeping: &Keeping) -> anyhow::Result<Opened<'_>> {
        let mut files = keeping.files()?;
        if let Some(folder) = &self.plots {
            std::fs::create_dir_all(folder).with_context(|| {
                format!("--plots: cannot make the folder {}; choose another place", folder.display())
            })?;
        }
        Ok(Opened {
            report: files.file("--report", self.report.as_deref())?,
            plots: self.plots.as_deref(),
            json: files.output("--json", self.json.as_deref())?,
            files,
        })
    }
}

impl Opened<'_> {
    /// Performs a paper's experiments and prints their results.
    fn show<'a>(self, paper: &dyn Paper<'a>, scale: Scale, keeping: &Keeping) -> anyhow::Result<ExitCode> {
        let store = performed(paper, keeping)?;
        let reproduced = paper.reproduce(&store)?.at(scale);
        let environments = environments(&[paper], &store)?;
        if !self.write(&reproduced, &environments)? {
            print_chapter(&reproduced.chapter)?;
            print_measured(&environments)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the requested outputs; returns whether one replaced the tables.
    fn write(mut self, of: &Reproduced, environments: &[Environment]) -> anyhow::Result<bool> {
        if let Some(folder) = self.plots {
            for (name, content) in of.chapter.files() {
                if let Some(plot) = self.files.file("--plots", Some(&folder.join(name)))? {
                    plot.write(&content).context("--plots")?;
                }
            }
        }
        if let Some(report) = self.report {
            report.write(&page::of_one(&of.chapter, environments))?;
        }
        self.json.map_or(Ok(false), |json| write_json(json, of.schema, &(of.json)()?))
    }
}

/// Writes the fields of a JSON object as a document; returns whether it replaced the tables.
fn write_json(json: Output, schema: Schema, object: &str) -> anyhow::Result<bool> {
    json.write(&document::of_object(schema, object).context("the figures as JSON")?)
}

/// Performs experiments and stores their results if requested.
fn performed(experiments: &dyn Tasks, keeping: &Keeping) -> anyhow::Result<Store> {
    let mut store = store(keeping)?;
    perform(&[experiments], Shard::WHOLE, &mut store)?;
    Ok(store)
}

/// Performs what the store lacks of a slice, and shows how far that is.
fn perform(experiments: &[&dyn Tasks], shard: Shard, store: &mut Store) -> anyhow::Result<()> {
    let bar = Bar::new();
    let performed = campaign::perform(experiments, shard, store, &mut |progress| bar.show(progress));
    bar.clear();
    performed
}

/// Where results were measured: first the environment of the last timed one, if any, then all other machines that have
/// timed ones.
fn environments(experiments: &[&dyn Tasks], store: &Store) -> anyhow::Result<Vec<Environment>> {
    let mut all = Vec::new();
    for experiment in experiments {
        all.extend(kept(*experiment, store)?);
    }
    all.sort_by_key(|kept| std::cmp::Reverse((kept.timed, kept.finished_unix)));
    let mut distinct: Vec<Environment> = Vec::new();
    for kept in all {
        let known =
            |other: &Environment| (&other.cpu, &other.kernel) == (&kept.environment.cpu, &kept.environment.kernel);
        if distinct.is_empty() || kept.timed && !distinct.iter().any(known) {
            distinct.push(kept.environment);
        }
    }
    anyhow::ensure!(!distinct.is_empty(), "there are no results");
    Ok(distinct)
}

/// Prints a chapter, with a limited line length.
fn print_chapter(chapter: &Chapter) -> anyhow::Result<()> {
    let look = Look::of_stdout();
    print(&chapter.text(Look { columns: look.columns.min(120), ..look })).context("standard output")
}

/// Prints when the figures above were measured, and by which code.
fn print_measured(environments: &[Environment]) -> anyhow::Result<()> {
    environments.first().map_or(Ok(()), |first| print(&(present::measured(first) + "\n")).context("standard output"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn all_papers_take_the_same_options() {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            _arguments: Arguments,
        }
        for paper in ["tlsf", "puaut", "wait-free", "thesis", "compact-fit", "robson", "all"] {
            for scale in ["--quick", "--full"] {
                let line = ["reproduce", paper, scale, "--report", "a.html", "--json", "a.json", "--store", "a.db"];
                let parsed = Line::try_parse_from(line);
                assert!(parsed.is_ok(), "{line:?}: {:?}", parsed.err());
            }
            assert!(Line::try_parse_from(["reproduce", paper, "--json"]).is_ok(), "{paper}: to standard output");
        }
    }
}

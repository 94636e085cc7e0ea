//! `rtalloc allocators`

use super::destination::print;
use super::progress::Bar;
use crate::present::catalogue;
use crate::present::table::Look;
use anyhow::Context as _;
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::replay::isolate::Progress;
use rtalloc_lab::result::catalogue::Summary;
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_subjects::Subject;
use serde::Serialize;
use std::process::ExitCode;

/// Lists the allocators, ours and the peers', or describes some of them in full.
///
/// The table has a line for each: which block serves a request, what is stated and what is proved
/// of its operations, how its blocks are made, and what it never serves. With names, the full
/// summary of each: every fact of its contract, the static bounds of its operations in this very
/// program, the committed bounds on other processors and cores, its control structure in heaps
/// of three sizes, what it does not do, when to use it and when not, and its parameters. With
/// groups (ours, peers, dozen, a family), the table of those.
///
/// cost is the class that the contract, or a peer's author, states: H is the heap's size, n the
/// number of free blocks. bound is the most x86-64 instructions the operation executes, whatever
/// the state of the heap, proved from the machine code as by `rtalloc bound`; `-` where the
/// code has loops without a known bound.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
pub struct Arguments {
    /// Allocators, separated by spaces or commas: a summary of each; or groups: a table of each. Without any, the table
    /// of all.
    #[arg(value_name = "ALLOCATOR", value_delimiter = ',')]
    names: Vec<String>,

    /// Prints the summaries as JSON, for any selection.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc allocators                  the table
  rtalloc allocators buddy            the buddy systems
  rtalloc allocators tlsf half-fit    two summaries
  rtalloc allocators --json | jq '.allocators[] | select(.blocks.header_bytes == 0) | .name'";

/// All summaries, as a document.
#[derive(Serialize)]
struct Summaries<'a> {
    allocators: &'a [Summary],
}

/// Runs the subcommand.
///
/// # Errors
///
/// An unknown name, or a program whose file is gone.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let subjects = rtalloc_subjects::select(&arguments.names)?;
    let analysis = Analysis::of_this_program()?;
    let bar = Bar::new();
    let summary = |(done, subject): (usize, &&'static Subject)| {
        bar.show(Progress { done: done as u64, total: subjects.len() as u64, last: subject.name });
        rtalloc_lab::catalogue::summary(&analysis, subject)
    };
    let summaries: Vec<Summary> = subjects.iter().enumerate().map(summary).collect();
    bar.clear();
    let one_by_one = !arguments.names.is_empty() && arguments.names.iter().all(|name| names(&subjects, name));
    let look = Look::of_stdout();
    let look = Look { columns: look.columns.min(catalogue::WIDEST), ..look };
    let text = match (arguments.json, one_by_one) {
        (true, _) => document::pretty(Schema::ALLOCATORS, &Summaries { allocators: &summaries })
            .context("the summaries as JSON")?,
        (false, true) => {
            summaries.iter().map(|summary| catalogue::summary(summary, look)).collect::<Vec<_>>().join("\n")
        }
        (false, false) => catalogue::table(&summaries, look),
    };
    print(&text).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a word is the name of an allocator, not of a group.
fn names(subjects: &[&'static Subject], word: &str) -> bool {
    subjects.iter().any(|subject| subject.name == word)
}

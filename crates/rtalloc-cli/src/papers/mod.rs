//! The papers whose experiments are reproduced. Each is a module with the same structure:
//!
//! ```text
//! published   the paper's figures
//! measure     the experiments, as tasks of a campaign
//! result      their results, as they are written and read
//! claims      the paper's claims, with verdicts
//! chapter     tables, figures, notes and errata
//! ```
//!
//! `rtalloc reproduce` uses a paper through the trait [`Paper`]; [`all`] lists the papers. The [`page`] of all papers
//! also shows the [`overview`] of all allocators.

pub mod chapter;
pub mod claims;
pub mod compact_fit;
pub mod overview;
pub mod page;
pub mod puaut;
pub mod published;
pub mod robson;
pub mod sample;
pub mod thesis;
pub mod tlsf;
pub mod wait_free;

use crate::present::plot::PlotError;
use anyhow::Context as _;
use chapter::Chapter;
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::Tasks;
use rtalloc_lab::campaign::store::Store;
use rtalloc_lab::result::document::Schema;
use serde::Serialize;

/// The amount of replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Reduced replication.
    Quick,
    /// Moderate replication.
    Usual,
    /// The papers' own sizes.
    Full,
}

impl Scale {
    /// The scale selected by the options, of which at most one is given.
    #[must_use]
    pub fn of(quick: bool, full: bool) -> Self {
        match (quick, full) {
            (true, _) => Self::Quick,
            (_, true) => Self::Full,
            _ => Self::Usual,
        }
    }

    /// The scale as text, for result reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        self.pick(
            "all experiments with reduced replication (--quick); every table states its number of runs",
            "all experiments with moderate replication; every table states its number of runs",
            "all experiments in the papers' sizes (--full)",
        )
    }

    /// What a title says of the scale.
    #[must_use]
    pub fn in_title(self) -> &'static str {
        self.pick(" (quick run)", "", "")
    }

    /// The value for this scale.
    pub fn pick<T>(self, quick: T, usual: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Usual => usual,
            Self::Full => full,
        }
    }
}

/// The experiments of a paper. Their [name](Tasks::name) is that of its subcommand and its chapter.
pub trait Paper<'a>: Tasks {
    /// The paper's experiments at a scale, with default settings; the seed selects the generated loads, if there are
    /// any.
    ///
    /// # Errors
    ///
    /// A binary built without the shipped traces, or a system without room for temporary files.
    fn at(analysis: &'a Analysis, scale: Scale, seed: u64) -> anyhow::Result<Self>
    where
        Self: Sized;

    /// Assembles the paper's results from those of all tasks.
    ///
    /// # Errors
    ///
    /// If the store lacks the result of a task, if results were written by another version of the laboratory, or if a
    /// figure cannot be drawn.
    fn reproduce(&self, store: &Store) -> anyhow::Result<Reproduced>;
}

/// All papers at a scale and with a seed, in the order of their chapters.
///
/// # Errors
///
/// As [`Paper::at`].
pub fn all<'a>(analysis: &'a Analysis, scale: Scale, seed: u64) -> anyhow::Result<[Box<dyn Paper<'a> + 'a>; 6]> {
    Ok([
        Box::new(tlsf::measure::Experiments::at(analysis, scale, seed)?),
        Box::new(puaut::measure::Experiments::at(analysis, scale, seed)?),
        Box::new(wait_free::measure::Settings::at(analysis, scale, seed)?),
        Box::new(thesis::measure::Experiments::at(analysis, scale, seed)?),
        Box::new(compact_fit::measure::Experiments::at(analysis, scale, seed)?),
        Box::new(robson::measure::Settings::at(analysis, scale, seed)?),
    ])
}

/// The results of a paper's experiments.
pub struct Reproduced {
    /// Their document schema.
    pub schema: Schema,
    /// The results as tables and figures.
    pub chapter: Chapter,
    /// The results as a JSON object, created on demand.
    pub json: Box<dyn Fn() -> serde_json::Result<String>>,
}

impl Reproduced {
    /// A result and its chapter.
    ///
    /// # Errors
    ///
    /// See [`PlotError`].
    pub fn new<T: Serialize + 'static>(
        schema: Schema,
        found: T,
        chapter: impl FnOnce(&T) -> Result<Chapter, PlotError>,
    ) -> Result<Self, PlotError> {
        Ok(Self { schema, chapter: chapter(&found)?, json: Box::new(move || serde_json::to_string(&found)) })
    }

    /// With the scale in the title, if the run was a quick one.
    #[must_use]
    pub fn at(mut self, scale: Scale) -> Self {
        self.chapter.title.push_str(scale.in_title());
        self
    }
}

/// A directory for the traces of an experiment.
fn folder() -> anyhow::Result<tempfile::TempDir> {
    tempfile::tempdir().context("cannot create a folder for traces; set TMPDIR to a directory with free space")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are the subcommands and, with underscores, the fields of the JSON of all papers.
    #[test]
    fn papers_keep_their_names_and_order() {
        let analysis = Analysis::of_this_program().expect("this program");
        let papers = all(&analysis, Scale::Quick, 1).expect("room for traces");
        let names = papers.each_ref().map(|paper| paper.name());
        assert_eq!(names, ["tlsf", "puaut", "wait-free", "thesis", "compact-fit", "robson"]);
    }
}

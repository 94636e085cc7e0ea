//! What the experiments of a paper came to, in the parts of which a terminal shows the tables and a page everything.

use super::claims;
use super::compact_fit::standing;
use super::page::Tabled;
use super::palette;
use super::plot::curves::{Panel, curves};
use super::plot::{Cast, PlotError, standalone};
use super::standing::Standing;
use super::table::Look;
use super::verdict::wrapped;
use crate::result::claim::Claim;
use std::fmt::Write as _;

/// A paper.
pub struct Chapter {
    /// What links name it by.
    pub id: &'static str,
    /// Name (year): title.
    pub title: String,
    /// Claims, each with a verdict.
    pub claims: Vec<Claim>,
    /// Its tables and figures, in the paper's order.
    pub(super) sections: Vec<Section>,
    /// What has to be known to read the tables.
    pub notes: Vec<String>,
    /// Where the paper errs, contradicts itself, or leaves open what a reader needs; and what was chosen here.
    pub errata: Vec<String>,
}

/// A table or figure of the paper, or several that belong together.
pub(super) struct Section {
    /// Number and subject, such as `Table V: instructions`.
    pub(super) title: String,
    /// What it shows, in one or two sentences; may be empty.
    pub(super) about: String,
    /// Tables, each with the line above it, which may be empty.
    pub(super) tables: Vec<(String, Tabled)>,
    /// Figures.
    pub(super) figures: Vec<Figure>,
}

/// A figure.
pub(super) struct Figure {
    /// Name as a file, without its ending.
    pub(super) name: String,
    /// What is seen: a heading, and sentences.
    pub(super) caption: (String, String),
    /// The drawing; its classes name allocators by their place in `standings`.
    pub(super) svg: String,
    /// Who is drawn.
    pub(super) standings: Vec<Standing>,
}

impl Figure {
    /// Panels of curves, of allocators under these labels and names; `None` where there is no point at all.
    ///
    /// # Errors
    ///
    /// See [`PlotError`].
    pub(super) fn of_curves(
        name: &str,
        caption: (&str, &str),
        panels: &[Panel],
        names: &[(&str, &str)],
        description: &str,
    ) -> Result<Option<Self>, PlotError> {
        let standings: Vec<Standing> = names.iter().map(|(label, name)| standing(label, name)).collect();
        let styles = palette::of(&standings);
        let svg = curves(panels, Cast { standings: &standings, styles: &styles }, description)?;
        let (heading, sentences) = caption;
        let caption = (heading.to_string(), sentences.to_string());
        Ok(svg.map(|svg| Self { name: name.into(), caption, svg, standings }))
    }

    /// Name and content of the figure as a file of its own.
    pub(super) fn file(&self) -> (String, String) {
        (format!("{}.svg", self.name), standalone(&self.svg, &palette::of(&self.standings)))
    }
}

impl Chapter {
    /// For the terminal.
    #[must_use]
    pub fn text(&self, look: Look) -> String {
        let mut text = format!("{}\n", self.title);
        for section in self.sections.iter().filter(|section| !section.tables.is_empty()) {
            let _ = writeln!(text, "\n{}", section.title);
            if !section.about.is_empty() {
                let _ = writeln!(text, "{}", wrapped(&section.about, look.columns, 0));
            }
            for (line, table) in &section.tables {
                if !line.is_empty() {
                    let _ = writeln!(text, "\n{}", wrapped(line, look.columns, 0));
                }
                text.push_str(&table.text(look));
            }
        }
        text.push_str(&claims::claims(&self.claims, &self.notes, look));
        text
    }

    /// Every figure as a file: name and content.
    #[must_use]
    pub fn files(&self) -> Vec<(String, String)> {
        self.sections.iter().flat_map(|section| &section.figures).map(Figure::file).collect()
    }
}

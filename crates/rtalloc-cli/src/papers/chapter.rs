//! A paper's results as a chapter; a terminal shows the tables, a page shows everything.

use super::claims;
use crate::papers::claims::Claim;
use crate::present::page::Tabled;
use crate::present::palette;
use crate::present::plot::curves::{Panel, curves};
use crate::present::plot::{PlotError, Selection, standalone};
use crate::present::summary::Standing;
use crate::present::summary::named;
use crate::present::table::Look;
use crate::present::verdict::wrapped;
use std::fmt::Write as _;

/// The chapter of a paper.
pub struct Chapter {
    /// Its identifier in links.
    pub id: &'static str,
    /// Author (year): title.
    pub title: String,
    /// Claims with verdicts.
    pub claims: Vec<Claim>,
    /// Its tables and figures, in the paper's order.
    pub(crate) sections: Vec<Section>,
    /// Notes needed to read the tables.
    pub notes: Vec<String>,
    /// Errors, contradictions and omissions of the paper, with the choices made here.
    pub errata: Vec<String>,
}

/// A table or figure of the paper, or several related ones.
pub(crate) struct Section {
    /// Number and subject, e.g. `Table V: instructions`.
    pub(crate) title: String,
    /// A description in one or two sentences; may be empty.
    pub(crate) about: String,
    /// Tables, each with a caption, which may be empty.
    pub(crate) tables: Vec<(String, Tabled)>,
    /// Figures.
    pub(crate) figures: Vec<Figure>,
}

/// A figure.
pub(crate) struct Figure {
    /// File name without extension.
    pub(crate) name: String,
    /// A heading and a description.
    pub(crate) caption: (String, String),
    /// The drawing; its classes refer to allocators by their index in `standings`.
    pub(crate) svg: String,
    /// The allocators in the drawing.
    pub(crate) standings: Vec<Standing>,
}

impl Figure {
    /// Panels of curves, for allocators with these labels and names; `None` if there are no points.
    ///
    /// # Errors
    ///
    /// See [`PlotError`].
    pub(crate) fn of_curves(
        name: &str,
        caption: (&str, &str),
        panels: &[Panel],
        names: &[(&str, &str)],
        description: &str,
    ) -> Result<Option<Self>, PlotError> {
        let standings: Vec<Standing> = names.iter().map(|(label, name)| named(label, name)).collect();
        let styles = palette::of(&standings);
        let svg = curves(panels, Selection { standings: &standings, styles: &styles }, description)?;
        let (heading, sentences) = caption;
        let caption = (heading.to_string(), sentences.to_string());
        Ok(svg.map(|svg| Self { name: name.into(), caption, svg, standings }))
    }

    /// Name and content of the figure as a separate file.
    pub(crate) fn file(&self) -> (String, String) {
        (format!("{}.svg", self.name), standalone(&self.svg, &palette::of(&self.standings)))
    }
}

impl Chapter {
    /// Renders the chapter for the terminal.
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

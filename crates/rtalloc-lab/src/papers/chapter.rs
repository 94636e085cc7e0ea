//! What the experiments of a paper came to, in the parts of which a terminal shows the tables and a page everything.

use super::claims;
use crate::papers::claims::Claim;
use crate::present::page::Tabled;
use crate::present::palette;
use crate::present::plot::curves::{Panel, curves};
use crate::present::plot::{Cast, PlotError, standalone};
use crate::present::standing::Standing;
use crate::present::standing::named;
use crate::present::table::Look;
use crate::present::verdict::wrapped;
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
    pub(crate) sections: Vec<Section>,
    /// What has to be known to read the tables.
    pub notes: Vec<String>,
    /// Where the paper errs, contradicts itself, or leaves open what a reader needs; and what was chosen here.
    pub errata: Vec<String>,
}

/// A table or figure of the paper, or several that belong together.
pub(crate) struct Section {
    /// Number and subject, such as `Table V: instructions`.
    pub(crate) title: String,
    /// What it shows, in one or two sentences; may be empty.
    pub(crate) about: String,
    /// Tables, each with the line above it, which may be empty.
    pub(crate) tables: Vec<(String, Tabled)>,
    /// Figures.
    pub(crate) figures: Vec<Figure>,
}

/// A figure.
pub(crate) struct Figure {
    /// Name as a file, without its ending.
    pub(crate) name: String,
    /// What is seen: a heading, and sentences.
    pub(crate) caption: (String, String),
    /// The drawing; its classes name allocators by their place in `standings`.
    pub(crate) svg: String,
    /// Who is drawn.
    pub(crate) standings: Vec<Standing>,
}

impl Figure {
    /// Panels of curves, of allocators under these labels and names; `None` where there is no point at all.
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
        let svg = curves(panels, Cast { standings: &standings, styles: &styles }, description)?;
        let (heading, sentences) = caption;
        let caption = (heading.to_string(), sentences.to_string());
        Ok(svg.map(|svg| Self { name: name.into(), caption, svg, standings }))
    }

    /// Name and content of the figure as a file of its own.
    pub(crate) fn file(&self) -> (String, String) {
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

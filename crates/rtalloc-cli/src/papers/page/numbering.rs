//! Numbers the allocators of a page: each has one number in all figures and tables, so that pointing at one highlights
//! it everywhere.

use crate::present::palette::{self, Style};
use crate::present::plot::canvas::renumbered;
use crate::present::summary::Standing;

/// The allocators on the page, in order of appearance.
#[derive(Default)]
pub(super) struct Numbering {
    /// Name in the tables of subjects.
    identities: Vec<String>,
    /// Labels used for it in figures.
    labels: Vec<String>,
    /// An allocator that occurs several times in one figure, under several labels, has a different style each time, so
    /// each occurrence has an entry of its own.
    pub(super) styles: Vec<Style>,
}

impl Numbering {
    /// The figure, renumbered with the page's allocator numbers.
    pub(super) fn entered(&mut self, svg: &str, standings: &[Standing]) -> String {
        let places: Vec<usize> =
            standings.iter().zip(palette::of(standings)).map(|(standing, style)| self.place(standing, style)).collect();
        renumbered(svg, &places)
    }

    fn place(&mut self, standing: &Standing, style: Style) -> usize {
        let known =
            (0..self.styles.len()).find(|at| self.identities[*at] == standing.identity && self.styles[*at] == style);
        known.unwrap_or_else(|| {
            self.identities.push(standing.identity.clone());
            self.labels.push(standing.subject.name.clone());
            self.styles.push(style);
            self.styles.len() - 1
        })
    }

    /// The number of the allocator with this name in a table, if it occurs in a figure.
    pub(super) fn index(&self, text: &str) -> Option<usize> {
        let name = text.trim_end_matches('*');
        let of = |names: &[String]| names.iter().position(|known| known == name);
        of(&self.identities).or_else(|| of(&self.labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::summary::named;

    #[test]
    fn an_allocator_has_one_number_on_the_page_whatever_a_figure_calls_it() {
        let mut numbering = Numbering::default();
        let first = numbering
            .entered("<a class=\"s0\"/><a class=\"f1\"/>", &[named("first-fit", "first-fit"), named("TLSF", "tlsf")]);
        assert_eq!(first, "<a class=\"s0\"/><a class=\"f1\"/>");
        let second = numbering.entered("<a class=\"v0\"/><a class=\"plot\"/>", &[named("tlsf", "tlsf")]);
        assert_eq!(second, "<a class=\"v1\"/><a class=\"plot\"/>");
        assert_eq!(
            ["tlsf*", "TLSF", "first-fit", "unknown"].map(|name| numbering.index(name)),
            [Some(1), Some(1), Some(0), None]
        );
        let many = [named("CFM 1", "compact-fit-paper"), named("CFM 2", "compact-fit-paper")];
        assert_eq!(
            numbering.entered("<a class=\"s0\"/><a class=\"s1\"/>", &many),
            "<a class=\"s2\"/><a class=\"s3\"/>"
        );
    }
}

//! Everybody on a page: one number for each allocator in all figures and tables, so that pointing at it anywhere shows
//! it everywhere.

use crate::present::palette::{self, Style};
use crate::present::plot::canvas::renumbered;
use crate::present::standing::Standing;

/// Who is on the page, in the order of appearance.
#[derive(Default)]
pub(super) struct Roll {
    /// Name in the tables of subjects.
    identities: Vec<String>,
    /// Names that figures give it.
    labels: Vec<String>,
    /// One allocator that a figure has several times, under several labels, looks differently each time, and so is
    /// several here.
    pub(super) styles: Vec<Style>,
}

impl Roll {
    /// The figure with the page's numbers for its allocators.
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

    /// The number of the allocator that a table calls so, if it is in a figure.
    pub(super) fn index(&self, text: &str) -> Option<usize> {
        let name = text.trim_end_matches('*');
        let of = |names: &[String]| names.iter().position(|known| known == name);
        of(&self.identities).or_else(|| of(&self.labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::standing::named;

    #[test]
    fn an_allocator_has_one_number_on_the_page_whatever_a_figure_calls_it() {
        let mut roll = Roll::default();
        let first = roll
            .entered("<a class=\"s0\"/><a class=\"f1\"/>", &[named("first-fit", "first-fit"), named("TLSF", "tlsf")]);
        assert_eq!(first, "<a class=\"s0\"/><a class=\"f1\"/>");
        let second = roll.entered("<a class=\"v0\"/><a class=\"plot\"/>", &[named("tlsf", "tlsf")]);
        assert_eq!(second, "<a class=\"v1\"/><a class=\"plot\"/>");
        assert_eq!(
            ["tlsf*", "TLSF", "first-fit", "nobody"].map(|name| roll.index(name)),
            [Some(1), Some(1), Some(0), None]
        );
        let many = [named("CFM 1", "compact-fit-paper"), named("CFM 2", "compact-fit-paper")];
        assert_eq!(roll.entered("<a class=\"s0\"/><a class=\"s1\"/>", &many), "<a class=\"s2\"/><a class=\"s3\"/>");
    }
}

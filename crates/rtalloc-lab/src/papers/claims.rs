//! Claims, and whether our figures confirm them.

use crate::number;
use crate::present::table::{Look, table};
use crate::present::verdict::wrapped;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// A claim of the paper, and the result for our figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// The claim.
    pub claim: String,
    /// Whether our figures satisfy the rule stated in the claim; `None` if undecided: a figure is missing or, for the
    /// TLSF paper's table VI only, our mean is outside the range of the published sets.
    pub confirmed: Option<bool>,
    /// The figures, published and ours.
    pub figures: String,
}

/// The meanings of the verdicts, in the same words as METHODOLOGY.md.
pub(crate) const VERDICTS_MEAN: &str = "confirmed: our figures satisfy the rule in the claim. refuted: they violate \
                                        it. not reproduced: no judgement, because a figure is missing (a part was not \
                                        run, an allocator failed, or there were too few processors), our load does not \
                                        decide the claim (Compact-fit's 6a and 7c), a parameter of ours was calibrated \
                                        with the same figure (F with the reading fit), or, only in table VI of the \
                                        TLSF paper, our mean is outside the published sets.";

/// Each claim with its verdict and figures, then the notes.
pub(crate) fn claims(claims: &[Claim], notes: &[String], look: Look) -> String {
    let mut text = listed("Claims and verdicts", claims, look);
    text.push('\n');
    for note in notes {
        let _ = writeln!(text, "{}", wrapped(note, look.columns, 0));
    }
    text
}

/// Each claim with its verdict and figures, under a title.
pub(crate) fn listed(title: &str, claims: &[Claim], look: Look) -> String {
    let mut text = format!("\n{title}\n{}\n", wrapped(VERDICTS_MEAN, look.columns, 0));
    for claim in claims {
        let line = format!("{}: {} ({}).", verdict(claim), claim.claim, claim.figures);
        let _ = writeln!(text, "{}", wrapped(&line, look.columns, 2));
    }
    text
}

/// The numbers of confirmed and refuted claims of each chapter, and each claim on one line.
#[must_use]
pub fn verdicts(papers: &[(&str, &[Claim])], look: Look) -> String {
    let rows = papers.iter().map(|(paper, claims)| {
        let count = |verdict: Option<bool>| {
            number::grouped(claims.iter().filter(|claim| claim.confirmed == verdict).count() as u64)
        };
        vec![(*paper).to_string(), count(Some(true)), count(Some(false)), count(None)]
    });
    let mut text = format!("\nVerdicts\n{}\n", wrapped(VERDICTS_MEAN, look.columns, 0));
    text.push_str(&table(&["chapter", "confirmed", "refuted", "not reproduced"], 1, rows, look));
    for (paper, claims) in papers {
        let _ = writeln!(text, "\n{paper}");
        for claim in *claims {
            let _ = writeln!(text, "{}", wrapped(&format!("{}: {}.", verdict(claim), claim.claim), look.columns, 2));
        }
    }
    text
}

/// The verdict as text.
pub(crate) fn verdict(claim: &Claim) -> &'static str {
    match claim.confirmed {
        Some(true) => "confirmed",
        Some(false) => "refuted",
        None => "not reproduced",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_methodology_defines_the_verdicts_in_the_same_words() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../METHODOLOGY.md");
        let methodology = std::fs::read_to_string(path).expect("the document");
        let words: Vec<&str> = methodology.split_whitespace().collect();
        assert!(words.join(" ").contains(VERDICTS_MEAN), "{VERDICTS_MEAN}");
    }
}

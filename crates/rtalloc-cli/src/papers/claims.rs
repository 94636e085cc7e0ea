//! Claims, and whether our figures confirm them.

use crate::papers::sample::Decided;
use crate::present::table::{Look, table};
use crate::present::verdict::wrapped;
use rtalloc_lab::number;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// What our figures say about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Our figures satisfy the rule stated in the claim.
    Confirmed,
    /// They violate it.
    Refuted,
    /// They satisfy it, but we fitted a parameter of ours to the same figures.
    Calibrated,
    /// Our machine or program cannot show what the claim is about.
    NotComparable,
    /// The paper's result or its circumstances were not obtained, or a figure is missing.
    NotReproduced,
}

impl Verdict {
    /// All verdicts, in the order of tables.
    pub const ALL: [Self; 5] =
        [Self::Confirmed, Self::Refuted, Self::Calibrated, Self::NotComparable, Self::NotReproduced];

    /// The verdict as text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Calibrated => "calibrated",
            Self::NotComparable => "not comparable",
            Self::NotReproduced => "not reproduced",
        }
    }

    /// Whether the claim's rule holds; `None` if our figures do not decide.
    #[must_use]
    pub fn holds(self) -> Option<bool> {
        match self {
            Self::Confirmed => Some(true),
            Self::Refuted => Some(false),
            Self::Calibrated | Self::NotComparable | Self::NotReproduced => None,
        }
    }

    /// The claims that have it.
    pub(crate) fn count(self, claims: &[Claim]) -> usize {
        claims.iter().filter(|claim| claim.verdict == self).count()
    }
}

/// The reason of a claim without figures.
const MISSING: &str = "a figure is missing: a part was not run, or an allocator failed";

/// The reason of a claim about samples that do not decide.
const UNDECIDED: &str = "an interval of 99 % includes the limit: more task sets or seeds may decide";

/// A claim of the paper, and the verdict of our figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// The claim, with the rule that decides it.
    pub claim: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why the verdict is what it is; empty if it is another one than in all runs so far.
    pub reason: String,
    /// The figures, published and ours.
    pub figures: String,
}

impl Claim {
    /// A claim that is confirmed or refuted by its rule, or not reproduced because a figure is missing.
    pub(crate) fn new(claim: impl Into<String>, holds: Option<bool>, figures: impl Into<String>) -> Self {
        let (verdict, reason) = match holds {
            Some(true) => (Verdict::Confirmed, ""),
            Some(false) => (Verdict::Refuted, ""),
            None => (Verdict::NotReproduced, MISSING),
        };
        Self { claim: claim.into(), verdict, reason: reason.into(), figures: figures.into() }
    }

    /// A claim about samples: its rule may also be undecided.
    pub(crate) fn decided(claim: impl Into<String>, holds: Decided, figures: impl Into<String>) -> Self {
        match holds {
            Some(None) => Self::new(claim, None, figures).because(Verdict::NotReproduced, UNDECIDED),
            holds => Self::new(claim, holds.flatten(), figures),
        }
    }

    /// States the reason if this is the verdict.
    pub(crate) fn because(mut self, verdict: Verdict, reason: impl Into<String>) -> Self {
        if self.verdict == verdict {
            self.reason = reason.into();
        }
        self
    }

    /// Replaces *confirmed*, if we fitted a parameter of ours to these figures.
    pub(crate) fn calibrated(self, is_calibrated: bool, reason: &str) -> Self {
        let applies = is_calibrated && self.verdict == Verdict::Confirmed;
        if applies { self.with(Verdict::Calibrated, reason) } else { self }
    }

    /// Replaces any verdict of figures: our experiment does not measure what the claim is about.
    pub(crate) fn not_comparable(self, differs: bool, reason: &str) -> Self {
        let applies = differs && !self.lacks_figures();
        if applies { self.with(Verdict::NotComparable, reason) } else { self }
    }

    /// Replaces a verdict by rule: the paper's circumstances were not obtained. The reason says what was tried.
    pub(crate) fn not_reproduced(self, differs: bool, tried: &str) -> Self {
        let applies = differs && self.verdict.holds().is_some();
        if applies { self.with(Verdict::NotReproduced, tried) } else { self }
    }

    fn with(self, verdict: Verdict, reason: &str) -> Self {
        Self { verdict, reason: reason.into(), ..self }
    }

    /// Whether a figure is missing.
    pub(crate) fn lacks_figures(&self) -> bool {
        self.reason == MISSING
    }

    /// The reason as text.
    pub(crate) fn reason(&self) -> &str {
        if self.reason.is_empty() { "unexplained: earlier runs had another verdict" } else { &self.reason }
    }
}

/// The meanings of the verdicts, in the same words as METHODOLOGY.md.
pub(crate) const VERDICTS_MEAN: &str = "confirmed: our figures satisfy the rule in the claim. refuted: they violate \
                                        it, which may be due to our code where the reason says so. calibrated: they \
                                        satisfy it, but we fitted a parameter of ours to the same figures. not \
                                        comparable: our machine or program cannot show what the claim is about. not \
                                        reproduced: the paper's result or its circumstances were not obtained, or a \
                                        figure is missing.";

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
        let Claim { claim: what, verdict, figures, .. } = claim;
        let line = format!("{}: {what} ({figures}). Why: {}.", verdict.name(), claim.reason());
        let _ = writeln!(text, "{}", wrapped(&line, look.columns, 2));
    }
    text
}

/// The number of claims of each chapter with each verdict, and each claim with its reason.
#[must_use]
pub fn verdicts(papers: &[(&str, &[Claim])], look: Look) -> String {
    let rows = papers.iter().map(|(paper, claims)| {
        let counts = Verdict::ALL.map(|verdict| number::grouped(verdict.count(claims) as u64));
        std::iter::once((*paper).to_string()).chain(counts).collect()
    });
    let mut text = format!("\nVerdicts\n{}\n", wrapped(VERDICTS_MEAN, look.columns, 0));
    let header: Vec<&str> = std::iter::once("chapter").chain(Verdict::ALL.map(Verdict::name)).collect();
    text.push_str(&table(&header, 1, rows, look));
    for (paper, claims) in papers {
        let _ = writeln!(text, "\n{paper}");
        for claim in *claims {
            let line = format!("{}: {}. Why: {}.", claim.verdict.name(), claim.claim, claim.reason());
            let _ = writeln!(text, "{}", wrapped(&line, look.columns, 2));
        }
    }
    text
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

//! Claims, and whether our figures bear them out.

use super::table::Look;
use super::verdict::wrapped;
use crate::result::claim::Claim;
use std::fmt::Write as _;

/// What the verdicts mean: METHODOLOGY.md has the same words.
pub(super) const VERDICTS_MEAN: &str = "confirmed: our figures obey the rule in the claim. refuted: they break it. not reproduced: no judgement: \
    a figure is missing (a part not run, an allocator that failed, too few processors), our load cannot tell (Compact-fit's 6a and 7c), a \
    choice of ours was calibrated by the same figure (F under the reading fit) or, in the TLSF paper's table VI alone, our mean is outside \
    the published sets.";

/// Each claim with its verdict and figures, then the notes.
pub(super) fn claims(claims: &[Claim], notes: &[String], look: Look) -> String {
    let mut text = listed("Claims and verdicts", claims, look);
    text.push('\n');
    for note in notes {
        let _ = writeln!(text, "{}", wrapped(note, look.columns, 0));
    }
    text
}

/// Each claim with its verdict and figures, under a title.
pub(super) fn listed(title: &str, claims: &[Claim], look: Look) -> String {
    let mut text = format!("\n{title}\n{}\n", wrapped(VERDICTS_MEAN, look.columns, 0));
    for claim in claims {
        let line = format!("{}: {} ({}).", verdict(claim), claim.claim, claim.figures);
        let _ = writeln!(text, "{}", wrapped(&line, look.columns, 2));
    }
    text
}

/// The verdict in words.
pub(super) fn verdict(claim: &Claim) -> &'static str {
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

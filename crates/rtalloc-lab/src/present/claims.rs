//! What a paper says, and whether our figures say it too.

use super::table::Look;
use super::verdict::wrapped;
use crate::result::claim::Claim;
use std::fmt::Write as _;

/// Each claim with its verdict and figures, then the notes.
pub(super) fn claims(claims: &[Claim], notes: &[String], look: Look) -> String {
    let mut text = listed("What the paper says of its figures", claims, look);
    text.push('\n');
    for note in notes {
        let _ = writeln!(text, "{}", wrapped(note, look.columns, 0));
    }
    text
}

/// Each claim with its verdict and figures, under a title.
pub(super) fn listed(title: &str, claims: &[Claim], look: Look) -> String {
    let mut text = format!("\n{title}\n");
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

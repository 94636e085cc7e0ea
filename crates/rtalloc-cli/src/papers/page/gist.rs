//! What holds of each paper, what does not, and why, in a few sentences.
//!
//! Each sentence belongs to a claim and to one verdict: it is shown only if the claim has that verdict in this run.

use crate::papers::chapter::Chapter;
use crate::papers::claims::Claim;
use crate::papers::claims::Verdict::{self, Calibrated, Confirmed, NotReproduced, Refuted};
use maud::{Markup, html};

/// The beginning of a claim, a verdict, and the sentence.
type Sentence = (&'static str, Verdict, &'static str);

/// The sentences of each chapter.
const GIST: [(&str, &[Sentence]); 6] = [
    (
        "tlsf",
        &[
            (
                "7.3.2: the maximum instructions of half-fit",
                Confirmed,
                "The maxima of TLSF and half-fit do not depend on the load; those of a binary buddy and dlmalloc do.",
            ),
            (
                "7.3.3: mean F: TLSF at most a third",
                Confirmed,
                "TLSF wastes at most a third of what a binary buddy wastes.",
            ),
            (
                "section 6.1: its worst case of free",
                Refuted,
                "The stated worst case of free is not the worst: one whose neighbours are alone in their lists is \
                 longer.",
            ),
            (
                "summary: F of TLSF",
                Refuted,
                "TLSF does not fragment less than best-fit, as the summary says, but a little more.",
            ),
            (
                "7.3.3: mean F: binary buddy below half-fit",
                Refuted,
                "Half-fit does not fragment by 80 %, but less than a binary buddy; a search one list too high would \
                 explain most of it.",
            ),
            (
                "table VI: TLSF has",
                NotReproduced,
                "Table VI is nearly reproduced, but only with a unit of the holding time, which the paper omits, that \
                 we fitted to it.",
            ),
        ],
    ),
    (
        "puaut",
        &[
            (
                "the sequential fits have the highest worst",
                Confirmed,
                "Sequential fits have by far the highest worst cases of malloc, linear in the free blocks.",
            ),
            (
                "buddies: the worst malloc is logarithmic",
                Confirmed,
                "Buddies are logarithmic, and their worst malloc can be budgeted.",
            ),
            (
                "fast-fit and quick-fit have the best means",
                Refuted,
                "The order of the means depends on the code: here first-fit and the binary buddy are the fastest.",
            ),
            (
                "the scenarios are safe",
                Refuted,
                "Scenarios called analytical are not bounds: frees exceed them in the paper's own table, and here.",
            ),
        ],
    ),
    (
        "wait-free",
        &[
            (
                "allocate visits at most",
                Confirmed,
                "The bounds on steps hold: a search visits each node once, a free each node of its subtree.",
            ),
            (
                "3.6: in a tree of 8 leaves",
                Confirmed,
                "No execution of the four requests of section 3.6 rejects one; all were explored.",
            ),
            (
                "its coefficient of variation",
                Verdict::NotComparable,
                "Times of sixteen threads on sixteen cores cannot be compared here: contention differs.",
            ),
        ],
    ),
    (
        "thesis",
        &[
            (
                "table 7, uniform: tlsf",
                Confirmed,
                "F and I of TLSF in table 7 come out, with the thesis' own bookkeeping.",
            ),
            (
                "6.9: reaps has the lowest F on small (each",
                Confirmed,
                "Reaps waste least where blocks are small, regions most.",
            ),
            (
                "6.9: except in regis1",
                Refuted,
                "Most of TLSF's waste is its headers and control structure, as the thesis' tables say and its text \
                 denies.",
            ),
            (
                "6.10: binary buddies have a higher worst case",
                Confirmed,
                "Binary buddies have a higher worst case than TLSF.",
            ),
            (
                "6.9: tlsf has the lowest F",
                NotReproduced,
                "What it says about boot and stable depends on the recording, which is not published.",
            ),
        ],
    ),
    (
        "compact-fit",
        &[
            (
                "6c: free with partial compaction",
                Confirmed,
                "With the moving implementation, a free takes constant time under partial compaction.",
            ),
            (
                "6c: free is linear in the object with CFNM",
                Confirmed,
                "The non-moving implementation is linear in the object always, as listing 5 has it.",
            ),
            (
                "proposition 1",
                Refuted,
                "Proposition 1 is false with the order of pages that the paper prescribes; a condition with one page \
                 less held in all tests.",
            ),
            (
                "2.5.1: a page-block loses",
                Refuted,
                "Internal fragmentation can exceed an eighth of an object: of small ones, and of large ones with 46 \
                 size classes.",
            ),
            (
                "7c: free with partial compaction",
                Calibrated,
                "The tasks of figure 7 are not given; a search found some that behave as reported, for one draw of \
                 sizes.",
            ),
        ],
    ),
    (
        "robson",
        &[
            (
                "the usual ranking is inverted",
                Confirmed,
                "Best-fit and TLSF, which waste little on programs, need more than first-fit or a buddy in the worst \
                 case.",
            ),
            (
                "an adversary makes half-fit need",
                Confirmed,
                "Half-fit needs about n times M: what o1heap's documentation states for its kind does not suffice for \
                 it.",
            ),
        ],
    ),
];

/// The sentences of a chapter whose claims have their verdicts.
fn sentences(chapter: &Chapter) -> Vec<(Verdict, &'static str)> {
    let own = GIST.iter().filter(|(id, _)| *id == chapter.id).flat_map(|(_, sentences)| *sentences);
    let has = |(start, verdict, _): &&Sentence| {
        let is_it =
            |claim: &Claim| claim.claim.starts_with(start) && claim.verdict == *verdict && !claim.lacks_figures();
        chapter.claims.iter().any(is_it)
    };
    own.filter(has).map(|(_, verdict, sentence)| (*verdict, *sentence)).collect()
}

/// The summary of all papers.
pub(super) fn gist(chapters: &[Chapter]) -> Markup {
    html! {
        section id="gist" {
            h2 { "What holds, what does not, and why" }
            @for chapter in chapters {
                @let all = sentences(chapter);
                @if !all.is_empty() {
                    h3 { a href={ "#" (chapter.id) } { (super::short(&chapter.title)) } }
                    ul.gist {
                        @for (verdict, sentence) in all { li { (super::badge(verdict)) " " (sentence) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_shown_only_with_its_verdict() {
        let chapter = |holds: bool| Chapter {
            id: "compact-fit",
            title: "Compact-fit".into(),
            claims: vec![Claim::new("proposition 1: a free moves nothing", Some(holds), "1 of 2")],
            sections: Vec::new(),
            notes: Vec::new(),
            errata: Vec::new(),
        };
        assert!(sentences(&chapter(true)).is_empty());
        let [(verdict, sentence)] = sentences(&chapter(false))[..] else { panic!("one sentence") };
        assert!(verdict == Refuted && sentence.starts_with("Proposition 1 is false"), "{sentence}");
        assert!(gist(&[chapter(false)]).into_string().contains("refuted"));
    }
}

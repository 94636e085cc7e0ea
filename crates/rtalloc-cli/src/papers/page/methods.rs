//! The methods behind the page's figures, and the definitions of its terms.

use super::Papers;
use crate::version;
use maud::{Markup, html};
use rtalloc_lab::number;

/// The repository's documents: paths relative to the directory docs, and titles.
const DOCUMENTS: [(&str, &str, &str); 3] = [
    ("../METHODOLOGY.md", "METHODOLOGY.md", "what is measured, how, and the rules of judgement"),
    ("../BIAS.md", "BIAS.md", "what could mislead, including our own bias"),
    ("CAMPAIGNS.md", "docs/CAMPAIGNS.md", "how to repeat it, on one machine or on many"),
];

pub(super) fn methods(papers: &Papers<'_>) -> Markup {
    let heap = number::bytes(papers.overview.heap_bytes);
    let version = papers.environments.first().map_or(version::TEXT, |first| &first.rtalloc);
    html! {
        section id="methods" {
            h2 { "Methods" }
            p { "Performed: " (papers.scale.words()) "." }
            p {
                "Every experiment is a set of tasks: one allocator in one load with one seed. Each task runs in its \
                 own process, and timed tasks run one after another. Loads come from a seeded generator in integer \
                 arithmetic, so the same program yields the same instructions and bytes on every machine. Published \
                 figures were copied from the papers' texts by two readers, and their copies compared."
            }
            p {
                "More is in rtalloc's repository, version " (version) ". These links work if this report is in its \
                    folder docs:"
            }
            ul {
                @for (place, name, what) in DOCUMENTS { li { a href=(place) { (name) } ": " (what) "." } }
            }
            dl {
                dt { "live memory M, used memory H, fragmentation F" }
                dd {
                    "M: the largest sum of live requested bytes. H: the highest address in use, relative to the start \
                     of the heap. F = (H - M) / M."
                }
                dt { "smallest heap" }
                dd {
                    "The smallest region, control structure included, in which the whole trace succeeds; found by \
                     bisection. A system must reserve this much for this program; another program differs."
                }
                dt { "static bound" }
                dd {
                    "No allocate or free that returns executes more instructions in a heap of " (heap) ", \
                        whatever its history. Proved from the machine code of this binary; an independent checker \
                        verified the proof. It is a number of instructions, not a time."
                }
                dt { "scenario maximum, observed maximum" }
                dd {
                    "The most instructions in a constructed worst case, and in any replay. Neither exceeds the bound, \
                     and neither replaces it."
                }
                dt { "ticks" }
                dd {
                    "Differences of the processor's time-stamp counter around an operation, less those of an empty \
                     measurement. On a virtual or shared machine raw maxima are noise: compare quantiles and \
                     instructions."
                }
                dt { "ratio" }
                dd { "Ours / published." }
                dt { "the guide at the top" }
                dd {
                    "Candidates are the allocators whose allocate and free have a static bound and that served every \
                     trace. TLSF is the default if it is a candidate. Otherwise the bound and the largest ratio of \
                     smallest heap to M are each divided by the best candidate's, and the smallest product wins. Ties \
                     go to fewer instructions, then to ours, then to the first name."
                }
                dt { "colours" }
                dd {
                    "Each family of allocators has a hue, the same in every figure; each member has a shade, a dash \
                     pattern and a marker. Pointing at a name, a curve or a point highlights it everywhere."
                }
            }
        }
    }
}

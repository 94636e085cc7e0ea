//! The methods behind the page's figures, and the definitions of its terms.

use super::Papers;
use crate::number;
use crate::result::version;
use maud::{Markup, html};

/// The repository's documents: paths relative to the directory docs, and titles.
const DOCUMENTS: [(&str, &str, &str); 3] = [
    ("../METHODOLOGY.md", "METHODOLOGY.md", "what is measured, how, and by which rules it is judged"),
    ("../BIAS.md", "BIAS.md", "what could mislead, our own favour included"),
    ("CAMPAIGNS.md", "docs/CAMPAIGNS.md", "how to repeat it, on one machine or on many"),
];

pub(super) fn methods(papers: &Papers<'_>) -> Markup {
    let heap = number::bytes(papers.overview.heap_bytes);
    let version = papers.environments.first().map_or(version::TEXT, |first| &first.rtalloc);
    html! {
        section id="methods" {
            h2 { "Methods" }
            p { "Performed: " (papers.performed) "." }
            p {
                "Every experiment is a set of tasks: one allocator in one load with one seed. Each is performed in a process of its own, those \
                 that are timed one after another. Loads are drawn by a seeded generator in integer arithmetic; instructions and bytes are \
                 therefore the same on every machine with the same program. Published figures were copied from the papers' texts by two \
                 readers, and their copies compared."
            }
            p {
                "More is in rtalloc's repository, version " (version) ". These links work where this report lies in its folder docs:"
            }
            ul {
                @for (place, name, what) in DOCUMENTS { li { a href=(place) { (name) } ": " (what) "." } }
            }
            dl {
                dt { "live memory M, used memory H, fragmentation F" }
                dd {
                    "M: the largest sum of requested bytes that were live. H: the highest address in use, from the beginning of the heap. \
                     F = (H - M) / M."
                }
                dt { "smallest heap" }
                dd {
                    "The smallest region, control structure included, in which the whole trace succeeds; found by bisection. This is \
                     what a system has to reserve for this program, not for another."
                }
                dt { "static bound" }
                dd {
                    "No allocate and no free that returns executes more instructions, in a heap of " (heap) ", whatever happened before. Proved \
                     from the machine code of this very binary; a second program verified the proof. It is no time."
                }
                dt { "scenario maximum, observed maximum" }
                dd {
                    "The most instructions in a worst case that somebody thought of, and in anything that was replayed. Both are below the \
                     bound or equal to it, and neither stands for it."
                }
                dt { "ticks" }
                dd {
                    "Differences of the processor's time-stamp counter around an operation, less an empty measurement. On a virtual or shared \
                     machine raw maxima are noise: compare quantiles, and instructions."
                }
                dt { "ratio" }
                dd { "Ours / published." }
                dt { "the guide at the top" }
                dd {
                    "Candidates are the allocators whose allocate and free have a static bound and that served every trace. TLSF is taken, \
                     the default, unless it is none of them; then bound, and the largest quotient of smallest heap and M, are each divided by \
                     the best candidate's, and the smallest product is named. Ties go to the fewer instructions, then to ours, then to the \
                     first name."
                }
                dt { "colours" }
                dd {
                    "A hue for each family of allocators, the same in every figure; a tone, a dash and a marker for each member. Pointing \
                     at a name, a curve or a point shows it everywhere."
                }
            }
        }
    }
}

//! Selects an allocator by rules that can be verified against the overview's table.
//!
//! **The rule** is that of [`rules`](rtalloc_lab::rules), with static bounds instead of observed maxima: candidates are the
//! allocators that served every trace and have static bounds of allocate and free.

use crate::papers::overview::result::{Need, Overview, Row};
use crate::present::metric;
use crate::present::summary::{HeapNeed, Standing, Worst};
use crate::present::verdict::{candidates, choose, is_default, memory_caution};
use rtalloc_lab::number;
use rtalloc_lab::result::schema::Outcome;
use rtalloc_lab::rules::front;

/// The conclusions of the overview.
pub(super) struct Guide {
    /// All allocators in the order of the overview; the worst operation is the one with the larger bound.
    pub(super) standings: Vec<Standing>,
    /// The selected allocator.
    pub(super) take: Option<usize>,
    /// The Pareto front: candidates that no other candidate dominates.
    pub(super) front: Vec<usize>,
    /// The result in one line.
    pub(super) headline: String,
    /// Recommendations by use case.
    pub(super) paragraph: String,
}

/// Applies the rule of this module.
pub(super) fn guide(overview: &Overview) -> Guide {
    let standings: Vec<Standing> = overview.rows.iter().map(|row| standing(overview, row)).collect();
    let candidates = candidates(&standings, |_| true);
    let (take, front, count) = (choose(&candidates), front(&candidates), candidates.len());
    let headline = match take {
        Some(take) if is_default(&standings[take]) => {
            format!("For hard deadlines, use {}.", standings[take].subject.name)
        }
        Some(take) => format!("Of these, {} has the smallest product of bound and heap.", standings[take].subject.name),
        None => "No allocator with a bound served every trace.".into(),
    };
    let paragraph = paragraph(overview, &standings, take, &front, count);
    Guide { standings, take, front, headline, paragraph }
}

fn standing(overview: &Overview, row: &Row) -> Standing {
    let worst =
        row.bounds.worst().map(|(operation, instructions)| Worst { instructions, operation, trace: String::new() });
    let needs = || overview.traces.iter().zip(&row.needs);
    let ratios: Vec<(&String, f64)> = needs().filter_map(|(trace, need)| Some((trace, need.ratio()?))).collect();
    let all = !row.needs.is_empty() && ratios.len() == row.needs.len();
    let largest = ratios.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let troubles: Vec<(String, String)> =
        needs().filter_map(|(trace, need)| Some((trace.clone(), trouble(need)?))).collect();
    let beyond = row.needs.iter().filter(|need| metric::is_only_beyond_reach(&need.outcome)).count();
    Standing {
        worst,
        heap: largest.filter(|_| all).map(|(trace, ratio)| HeapNeed { ratio, trace: trace.clone() }),
        only_beyond_reach: beyond > 0 && beyond == troubles.len(),
        own_pages: row.needs.is_empty(),
        troubles,
        ..Standing::of(row.subject.clone())
    }
}

/// Why a trace was not served, in a few words.
fn trouble(need: &Need) -> Option<String> {
    match &need.outcome {
        Outcome::Completed if need.smallest_heap_bytes.is_some() => None,
        Outcome::Completed => Some("no smallest heap found in time".into()),
        Outcome::Failures { failed, .. } => Some(format!("{} failed", number::counted(*failed, "allocation"))),
        Outcome::TimedOut { .. } => Some("not finished in time".into()),
        Outcome::Broken { what } | Outcome::NotMeasured { what } => Some(what.clone()),
    }
}

fn paragraph(
    overview: &Overview,
    standings: &[Standing],
    take: Option<usize>,
    front: &[usize],
    candidates: usize,
) -> String {
    let mut sentences = Vec::new();
    let traces = number::counted(overview.traces.len() as u64, "real program");
    let heap = number::bytes(overview.heap_bytes);
    let bound_of = |index: usize| {
        let whose = if overview.rows[index].bounds.is_of_any_heap() {
            "whatever the heap".into()
        } else {
            format!("in a heap of {heap}")
        };
        let worst = standings[index].worst.as_ref()?;
        Some((worst.instructions, whose))
    };
    let formatted = |index: usize| {
        let (instructions, whose) = bound_of(index)?;
        let need = standings[index].heap.as_ref()?;
        Some(format!(
            "at most {} {whose}, {:.2} x M of heap (on {})",
            number::counted(instructions, "instruction"),
            need.ratio,
            need.trace
        ))
    };
    if let Some((take, words)) = take.and_then(|take| Some((take, formatted(take)?))) {
        let why = if is_default(&standings[take]) {
            format!(
                "It is the default among the {candidates} allocators whose allocate and free have a proved bound and that served all {traces}."
            )
        } else {
            format!(
                "Of the {candidates} allocators whose allocate and free have a proved bound and that served all {traces} it has the smallest \
                 product of bound and heap."
            )
        };
        sentences.push(format!("For hard deadlines, {}: {words}. {why}", standings[take].subject.name));
        for (which, of) in [
            ("instructions matter more than memory", front.first()),
            ("memory matters more than instructions", front.last()),
        ] {
            if let Some((index, words)) =
                of.filter(|index| **index != take).and_then(|index| Some((*index, formatted(*index)?)))
            {
                let caution = memory_caution(&standings[index]);
                sentences.push(format!("If {which}, {}: {words}.{caution}", standings[index].subject.name));
            }
        }
        sentences.push(
            "These heaps are for the recorded programs and guarantee nothing for another. If it must be proved that no \
             request is refused, use a pool for each size, the binary buddy, Compact-fit's pages or address-ordered \
             first-fit (its proof is published, not checked here), and size the heap by its formula."
                .into(),
        );
    }
    let frugal = standings
        .iter()
        .filter(|standing| standing.troubles.is_empty())
        .filter_map(|standing| Some((standing, standing.heap.as_ref()?)))
        .min_by(|one, other| one.1.ratio.total_cmp(&other.1.ratio));
    let least = front.last().and_then(|last| standings[*last].heap.as_ref()).map_or(f64::INFINITY, |need| need.ratio);
    if let Some((standing, need)) = frugal.filter(|(_, need)| need.ratio < least) {
        sentences.push(format!(
            "Without deadlines, {} needed the least memory, {:.2} x M (on {}), and has {}.",
            standing.subject.name,
            need.ratio,
            need.trace,
            standing.worst.as_ref().map_or_else(
                || "no static bound".into(),
                |worst| format!("a bound of {}", number::counted(worst.instructions, "instruction"))
            )
        ));
    }
    let small = standings
        .iter()
        .filter(|standing| standing.only_beyond_reach)
        .filter_map(|standing| Some((standing, standing.worst.as_ref()?, standing.subject.largest_request_bytes?)))
        .min_by_key(|(_, worst, _)| worst.instructions);
    if let Some((standing, worst, limit)) = small {
        sentences.push(format!(
            "If all blocks have at most {}, {}: at most {}.",
            number::bytes(limit),
            standing.subject.name,
            number::counted(worst.instructions, "instruction")
        ));
    }
    let without = standings.iter().filter(|standing| standing.worst.is_none()).count();
    if without > 0 {
        sentences.push(format!(
            "{} of the {} allocators have no static bound, because of a search, recursion or system code. What they \
             executed in one trace says nothing about another.",
            without,
            standings.len()
        ));
    }
    sentences.join(" ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::papers::overview::result::Bounds;
    use rtalloc_subjects;

    /// Bounds and heaps of several allocators on two traces.
    pub(in crate::papers::page) fn overview(rows: &[(&str, Option<u64>, Option<u64>)]) -> Overview {
        let row = |(name, bound, heap): &(&str, Option<u64>, Option<u64>)| {
            let need = |more| Need {
                outcome: Outcome::Completed,
                peak_live_bytes: 1000,
                smallest_heap_bytes: heap.map(|heap| heap + more),
            };
            Row {
                subject: rtalloc_lab::catalogue::facts(rtalloc_subjects::one(name).expect("a subject")),
                bounds: Bounds { in_heap: [*bound, bound.map(|bound| bound - 1)], in_largest: [*bound; 2] },
                needs: vec![need(0), need(10)],
            }
        };
        Overview {
            heap_bytes: 16 << 20,
            traces: vec!["gcc".into(), "lua".into()],
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn tlsf_is_taken_though_half_fit_has_the_smaller_product() {
        let overview = overview(&[
            ("tlsf", Some(100), Some(1100)),
            ("half-fit", Some(60), Some(1500)),
            ("binary-buddy", Some(400), Some(1090)),
            ("best-fit", None, Some(1050)),
            ("bbuddy", Some(50), None),
        ]);
        let guide = guide(&overview);
        assert_eq!((guide.take, guide.front), (Some(0), vec![1, 0, 2]));
        assert_eq!(guide.headline, "For hard deadlines, use tlsf.");
        for words in [
            "tlsf: at most 100 instructions in a heap of 16.0 MiB, 1.11 x M of heap (on lua)",
            "It is the default among the 3 allocators",
            "If instructions matter more than memory, half-fit: at most 60",
            "(on lua). Its worst-case memory is n times M",
            "use a pool for each size, the binary buddy",
            "If memory matters more than instructions, binary-buddy: at most 400",
            "Without deadlines, best-fit needed the least memory, 1.06 x M (on lua), and has no static bound.",
            "1 of the 5 allocators have no static bound",
        ] {
            assert!(guide.paragraph.contains(words), "{words}: {}", guide.paragraph);
        }
        assert!(!guide.paragraph.contains("bbuddy"), "it did not serve: {}", guide.paragraph);
    }

    #[test]
    fn without_tlsf_the_smallest_product_is_named_and_nothing_advised() {
        let guide = guide(&overview(&[("half-fit", Some(60), Some(1500)), ("binary-buddy", Some(400), Some(1090))]));
        assert_eq!(guide.headline, "Of these, half-fit has the smallest product of bound and heap.");
    }

    #[test]
    fn nothing_is_recommended_without_figures() {
        let guide = guide(&overview(&[("best-fit", None, Some(1050))]));
        assert_eq!((guide.take, guide.headline.as_str()), (None, "No allocator with a bound served every trace."));
        assert!(super::guide(&overview(&[])).standings.is_empty());
    }
}

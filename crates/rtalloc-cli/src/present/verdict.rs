//! The verdict: the recommended allocator, by a rule that can be verified against the tables.
//!
//! **The rule** is that of [`rules`]. A *candidate* is an allocator whose author states constant
//! cost for allocate and free, that served every trace without a failure, and for which both figures are known on every
//! trace: the observed maximum of instructions of an allocate or a free, and the smallest heap relative to the live
//! memory M (for both, the worst trace counts). Candidates whose product of the two figures differs from that of the
//! selected one by at most 5 % are listed with it: other traces could reverse so small a difference.
//!
//! Among the others, allocators whose authors state a logarithmic cost that is consistent with their worst operations
//! (the growth from the trace with the fewest live blocks to that with the most is at most twice the growth of the
//! logarithm) are listed separately from those to avoid: for a heap of known size, they are bounded too.
//!
//! Every number in the sentences is computed from the results.

use super::summary::{self, Standing, worst_in_words};
use rtalloc_lab::number;
use rtalloc_lab::result::advice::Wishes;
use rtalloc_lab::result::schema::{Origin, Run};
use rtalloc_lab::rules::{self, AS_GOOD_AS, Offer};
use std::fmt::Write as _;

/// Threshold above which an operation counts as growing with the heap: worst on the trace with the most live blocks /
/// worst on the trace with the fewest.
const GROWTH_WORTH_NAMING: f64 = 2.0;

/// The recommendations that follow from a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Every allocator over all traces, in table order.
    pub standings: Vec<Standing>,
    /// The selected allocator, as an index into `standings`; `None` if no allocator satisfies the rule.
    pub take: Option<usize>,
    /// The Pareto front of the candidates in both figures, by increasing instructions; indices into `standings`.
    pub front: Vec<usize>,
    /// The verdict in one line.
    pub headline: String,
    /// The reasons, and when to choose another: one paragraph each.
    pub reasons: Vec<String>,
    /// The allocators to avoid, and the limits of the verdict: one paragraph each; lines after the first are a list.
    pub cautions: Vec<String>,
}

/// The candidates among allocators of which both figures are known.
pub(crate) fn candidates(standings: &[Standing], is_candidate: impl Fn(&Standing) -> bool) -> Vec<Offer<'_>> {
    let offer = |(index, standing): (usize, &'_ Standing)| {
        let (worst, heap) = standing.figures().filter(|_| is_candidate(standing))?;
        #[allow(clippy::cast_precision_loss)] // compared as quotients
        let time = worst.instructions as f64;
        Some((index, time, heap.ratio))
    };
    let figures = standings.iter().enumerate().filter_map(offer);
    let named = |(index, time, heap): (usize, f64, f64)| {
        let subject = &standings[index].subject;
        Offer { index, name: &subject.name, is_ours: subject.origin == Origin::Ours, time, heap }
    };
    figures.map(named).collect()
}

/// Applies the rule of this module to a run.
#[must_use]
pub fn verdict(run: &Run) -> Verdict {
    let standings = summary::all(run);
    let candidates = candidates(&standings, Standing::constant_cost);
    let take = choose(&candidates);
    let front = rules::front(&candidates);
    let ties = take.and_then(|take| ties(take, &candidates));
    let count = candidates.len();
    let headline = headline(run, &standings, take);
    let mut reasons = Vec::new();
    if let Some(take) = take {
        reasons.push(praise(run, &standings[take], count));
        reasons.extend(ties);
        reasons.extend(alternatives(&standings, take, &front));
    }
    let cautions = [
        logarithmic(&standings, take),
        avoid(&standings, take),
        small_blocks(&standings),
        small_heaps(&standings),
        not_judged(&standings),
        caveat(run),
    ]
    .into_iter()
    .flatten()
    .collect();
    Verdict { standings, take, front, headline, reasons, cautions }
}

/// The selected candidate, without wishes.
pub(crate) fn choose(candidates: &[Offer<'_>]) -> Option<usize> {
    rules::choose(candidates, &Wishes::default())
}

/// Whether this is the default allocator.
pub(crate) fn is_default(standing: &Standing) -> bool {
    standing.subject.name == rules::DEFAULT
}

/// A caveat to the advice to choose an allocator for its instructions alone.
pub(crate) fn memory_caution(standing: &Standing) -> &'static str {
    if standing.subject.name == "half-fit" {
        " Its worst-case memory is n times M, n being the largest request in units of its smallest block, rounded up \
         to a power of two: an adversary makes it need nearly that much (`rtalloc reproduce robson`)."
    } else {
        ""
    }
}

fn headline(run: &Run, standings: &[Standing], take: Option<usize>) -> String {
    let name = |index: usize| &standings[index].subject.name;
    match take {
        Some(take) if is_default(&standings[take]) => return format!("Take {}.", name(take)),
        Some(take) => return format!("Of these, {} has the smallest product of instructions and heap.", name(take)),
        None => {}
    }
    if standings.is_empty() {
        return "No verdict: nothing was measured.".into();
    }
    let counted = run.traces.iter().flat_map(|result| &result.cells).any(|cell| cell.instructions.is_some());
    let sized = standings.iter().any(|standing| standing.heap.is_some());
    match (counted, sized) {
        (false, _) => "No verdict: it needs the instruction probe, which was not selected.".into(),
        (true, false) => "No verdict: no allocator's smallest heap is known on every trace.".into(),
        (true, true) => "No verdict: no allocator of constant cost served every trace.".into(),
    }
}

fn origin_in_words(origin: Origin) -> &'static str {
    match origin {
        Origin::Ours => "ours",
        Origin::Peer => "a published crate",
        Origin::System => "the system's",
    }
}

fn praise(run: &Run, taken: &Standing, candidates: usize) -> String {
    let Some((worst, heap)) = taken.figures() else { return String::new() };
    let mut text = format!(
        "{} ({}, {}, {}) served {} without a failure. Its worst observed allocate or free executed {}, and the \
         smallest heap that served a trace was at most {:.2} times its live memory M (on {}).",
        taken.subject.name,
        origin_in_words(taken.subject.origin),
        taken.subject.family,
        taken.subject.cost,
        number::counted(run.traces.len() as u64, "trace"),
        worst_in_words(worst),
        heap.ratio,
        heap.trace,
    );
    if is_default(taken) {
        text.push_str(
            " It is the default where operations must be bounded; the tables have the figures of the others.",
        );
    } else if candidates > 1 {
        let _ = write!(
            text,
            " Of the {candidates} allocators of constant cost that served every trace, it has the smallest product of \
             the two figures; none of them is better in both."
        );
    } else {
        text.push_str(" It is the only allocator of constant cost that served every trace.");
    }
    text.push_str(memory_caution(taken));
    text
}

/// The candidates equivalent to the selected one.
fn ties(take: usize, candidates: &[Offer<'_>]) -> Option<String> {
    let product = |offer: &Offer<'_>| offer.time.max(1.0) * offer.heap;
    let taken = candidates.iter().find(|offer| offer.index == take)?;
    let is_equal = |offer: &&Offer<'_>| {
        let ratio = product(offer) / product(taken);
        offer.index != take && (1.0 / AS_GOOD_AS..=AS_GOOD_AS).contains(&ratio)
    };
    let names: Vec<&str> = candidates.iter().filter(is_equal).map(|offer| offer.name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "A tie, since their products of worst instructions and heap / M differ by at most 5 %: {}, {}.",
            taken.name,
            names.join(", ")
        )
    })
}

/// The ends of the front, and the recommendation for users without deadlines.
fn alternatives(standings: &[Standing], take: usize, front: &[usize]) -> Option<String> {
    let mut sentences = Vec::new();
    let (taken_worst, taken_heap) = standings[take].figures()?;
    let of = |index: usize| standings[index].figures().map(|figures| (&standings[index].subject.name, figures));
    if let Some((name, (worst, heap))) = front.first().filter(|first| **first != take).and_then(|first| of(*first)) {
        sentences.push(format!(
            "If instructions matter more than memory: {name}, whose worst observed operation executed {}, in at most \
             {:.2} times M (on {}).{}",
            worst_in_words(worst),
            heap.ratio,
            heap.trace,
            memory_caution(&standings[front[0]]),
        ));
    }
    if let Some((name, (worst, heap))) = front.last().filter(|last| **last != take).and_then(|last| of(*last)) {
        sentences.push(format!(
            "If memory matters more than instructions: {name}, which needed at most {:.2} times M (on {}), at {} in \
             the worst case observed.",
            heap.ratio,
            heap.trace,
            worst_in_words(worst),
        ));
    }
    let frugal = standings
        .iter()
        .filter(|standing| !standing.constant_cost())
        .filter_map(|standing| standing.figures().map(|figures| (standing, figures)))
        .min_by(|(_, (_, a)), (_, (_, b))| a.ratio.total_cmp(&b.ratio));
    let least = front.last().and_then(|last| of(*last)).map_or(taken_heap.ratio, |(_, (_, heap))| heap.ratio);
    if let Some((standing, (worst, heap))) = frugal.filter(|(_, (_, heap))| heap.ratio < least) {
        sentences.push(format!(
            "Without deadlines: {} ({}) needed {:.2} times M (on {}), but one of its operations executed {}, {} as \
             many.",
            standing.subject.name,
            standing.subject.cost,
            heap.ratio,
            heap.trace,
            worst_in_words(worst),
            times(worst.instructions, taken_worst.instructions),
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn times(of: u64, reference: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // shown with two digits
    let quotient = of as f64 / reference.max(1) as f64;
    if quotient < 10.0 { format!("{quotient:.1} times") } else { format!("{} times", number::compact(quotient)) }
}

/// Allocators whose worst operation is logarithmic, as stated and as observed, by increasing instructions.
fn logarithmic(standings: &[Standing], take: Option<usize>) -> Option<String> {
    let reference = take.and_then(|take| standings[take].worst.as_ref());
    let mut entries: Vec<(u64, String)> = standings
        .iter()
        .filter(|standing| standing.troubles.is_empty() || standing.only_beyond_reach)
        .filter(|standing| standing.keeps_to_its_logarithm())
        .filter_map(|standing| {
            let worst = most_seen(standing)?;
            let mut text =
                format!("{}: {}; at most {}", standing.subject.name, standing.subject.cost, worst_in_words(worst));
            if let Some(reference) = reference {
                let _ = write!(text, ", {} the choice's worst", times(worst.instructions, reference.instructions));
            }
            Some((worst.instructions, text))
        })
        .collect();
    entries.sort();
    let list: Vec<String> = entries.into_iter().map(|(_, text)| text).collect();
    (!list.is_empty()).then(|| {
        format!("Not constant, but bounded for a known heap size (see `rtalloc bound`):\n{}.", list.join(".\n"))
    })
}

/// Allocators whose worst operation is unbounded or that failed, the worst first.
fn avoid(standings: &[Standing], take: Option<usize>) -> Option<String> {
    let reference = take.and_then(|take| standings[take].worst.as_ref());
    let mut entries: Vec<(u64, String)> = Vec::new();
    for (index, standing) in standings.iter().enumerate() {
        if Some(index) == take {
            continue;
        }
        let mut reasons = Vec::new();
        if !standing.constant_cost()
            && !standing.keeps_to_its_logarithm()
            && let Some(worst) = most_seen(standing)
        {
            reasons.push(why_not_constant(standing, worst, reference));
        }
        let is_limited = standing.only_beyond_reach || standing.largest_heap_bytes.is_some();
        if let Some((trace, what)) = standing.troubles.first().filter(|_| !is_limited) {
            let more = match standing.troubles.len() {
                1 => String::new(),
                count => format!(" (and {} more)", number::counted(count as u64 - 1, "trace")),
            };
            reasons.push(format!("on {trace}{more}, {}", what.trim_end_matches('.')));
        }
        if !reasons.is_empty() {
            let worst = most_seen(standing).map_or(u64::MAX, |worst| worst.instructions);
            entries.push((worst, format!("{}: {}", standing.subject.name, reasons.join("; "))));
        }
    }
    if entries.is_empty() {
        return None;
    }
    entries.sort_by_key(|(worst, _)| std::cmp::Reverse(*worst));
    let list: Vec<String> = entries.into_iter().map(|(_, text)| text).collect();
    Some(format!("Avoid if there are hard deadlines:\n{}.", list.join(".\n")))
}

/// The observed maximum instructions, even if not every trace was counted.
fn most_seen(standing: &Standing) -> Option<&super::summary::Worst> {
    standing.worst.as_ref().or(standing
        .growth
        .as_ref()
        .map(|growth| if growth.many.instructions >= growth.few.instructions { &growth.many } else { &growth.few }))
}

fn why_not_constant(
    standing: &Standing,
    worst: &super::summary::Worst,
    reference: Option<&super::summary::Worst>,
) -> String {
    let grown = standing.growth.as_ref().filter(|growth| {
        #[allow(clippy::cast_precision_loss)] // a quotient
        let quotient = growth.many.instructions as f64 / growth.few.instructions.max(1) as f64;
        quotient >= GROWTH_WORTH_NAMING
    });
    let mut text = match grown {
        Some(growth) => format!(
            "{}; its worst operation grew with the heap, from {} with {} live blocks ({}) to {} with {} ({})",
            standing.subject.cost,
            number::counted(growth.few.instructions, "instruction"),
            number::grouped(growth.few_blocks),
            growth.few.trace,
            number::grouped(growth.many.instructions),
            number::grouped(growth.many_blocks),
            growth.many.trace,
        ),
        None => format!("{}; an operation executed {}", standing.subject.cost, worst_in_words(worst)),
    };
    if grown.is_some_and(|growth| growth.many.instructions < worst.instructions) {
        let _ = write!(text, ", and reached {}", worst_in_words(worst));
    }
    if let Some(reference) = reference.filter(|reference| reference.instructions < worst.instructions) {
        let _ = write!(text, ", {} the choice's worst", times(worst.instructions, reference.instructions));
    }
    text
}

/// Allocators that serve only small blocks, if the traces contain others too.
fn small_blocks(standings: &[Standing]) -> Option<String> {
    let limited: Vec<&Standing> = standings.iter().filter(|standing| standing.only_beyond_reach).collect();
    let limits: Vec<u64> = limited.iter().filter_map(|standing| standing.subject.largest_request_bytes).collect();
    let advice = limits.iter().min().map_or_else(String::new, |least| {
        format!(" `--at-most {least}` compares all allocators on the blocks that all of them serve.")
    });
    let names: Vec<String> = limited
        .iter()
        .map(|standing| match standing.subject.largest_request_bytes {
            Some(limit) => format!("{} (up to {})", standing.subject.name, number::bytes(limit)),
            None => standing.subject.name.clone(),
        })
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "Only for small blocks, whatever the heap: {}. The traces have larger requests, so these are not judged \
             here.{advice}",
            names.join(", ")
        )
    })
}

/// Allocators whose largest heap is too small for some trace.
fn small_heaps(standings: &[Standing]) -> Option<String> {
    let of = |standing: &Standing| {
        let bytes = standing.largest_heap_bytes?;
        Some(format!("{} (up to {} B)", standing.subject.name, number::grouped(bytes)))
    };
    let names: Vec<String> = standings.iter().filter_map(of).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Only for small heaps: {}. Some traces need larger ones, so these are not judged here.",
            names.join(", ")
        )
    })
}

fn not_judged(standings: &[Standing]) -> Option<String> {
    let names: Vec<&str> =
        standings.iter().filter(|standing| standing.own_pages).map(|standing| standing.subject.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Without a figure for space: {}. They take pages from the system, so their heap size cannot be chosen.",
            names.join(", ")
        )
    })
}

/// Whether instructions were counted, which the notes on maxima require.
pub(crate) fn counted(run: &Run) -> bool {
    run.traces.iter().flat_map(|result| &result.cells).any(|cell| cell.instructions.is_some())
}

fn caveat(run: &Run) -> Option<String> {
    counted(run).then(|| {
        "These are observed maxima over all operations of these traces; `rtalloc bound` prints the bounds for every \
         trace."
            .to_string()
    })
}

impl Verdict {
    /// The verdict as text, wrapped at `columns`.
    #[must_use]
    pub fn text(&self, columns: usize) -> String {
        let mut text = self.headline.clone();
        text.push('\n');
        for paragraph in self.reasons.iter().chain(&self.cautions) {
            text.push('\n');
            for (position, line) in paragraph.lines().enumerate() {
                text.push_str(&wrapped(line, columns, if position > 0 { 2 } else { 0 }));
                text.push('\n');
            }
        }
        text
    }
}

/// Breaks a line at spaces so that no line is longer than `columns` if possible; the first line is indented by `indent`
/// spaces, the following ones by two more.
#[must_use]
pub fn wrapped(line: &str, columns: usize, indent: usize) -> String {
    let mut text = " ".repeat(indent);
    let mut width = indent;
    let mut first = true;
    for word in line.split_whitespace() {
        let length = word.chars().count();
        if !first && width + 1 + length > columns {
            text.push('\n');
            width = if indent > 0 { indent + 2 } else { 0 };
            text.push_str(&" ".repeat(width));
        } else if !first {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
        first = false;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rtalloc_lab::result::schema::{Origin, Outcome};

    fn taken(verdict: &Verdict) -> Option<&str> {
        verdict.take.map(|take| verdict.standings[take].subject.name.as_str())
    }

    #[test]
    fn the_usual_run_takes_tlsf() {
        let verdict = verdict(&fixture::usual());
        assert_eq!(taken(&verdict), Some("tlsf"));
        assert_eq!(verdict.headline, "Take tlsf.");
        let front: Vec<&str> =
            verdict.front.iter().map(|index| verdict.standings[*index].subject.name.as_str()).collect();
        assert_eq!(front, ["half-fit", "tlsf"]);
        let text = verdict.text(100);
        let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for sentence in [
            "executed 131 instructions (allocate, on gcc)",
            "at most 1.12 times its live memory M",
            "A tie, since their products of worst instructions and heap / M differ by at most 5 %: tlsf, tlsf-exact.",
            "If instructions matter more than memory: half-fit",
            "Its worst-case memory is n times M",
            "It is the default where operations must be bounded",
            "Without deadlines: best-fit (O(n)) needed 1.07",
            "first-fit: O(n); its worst operation grew with the heap, from 1,566 instructions",
        ] {
            assert!(unwrapped.contains(sentence), "{sentence}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    /// The product of two observed figures is no reason to deviate from the default.
    #[test]
    fn a_smaller_product_does_not_displace_tlsf() {
        let two = [
            ("half-fit", Origin::Ours, "segregated", "O(1)", 40, 60, 1.2),
            ("tlsf", Origin::Ours, "segregated", "O(1)", 50, 100, 1.1),
        ];
        let both = verdict(&fixture::run(vec![fixture::trace("lua", 1 << 20, &two)]));
        assert_eq!((taken(&both), both.headline.as_str()), (Some("tlsf"), "Take tlsf."));
        let alone = verdict(&fixture::run(vec![fixture::trace("lua", 1 << 20, &two[..1])]));
        assert_eq!(alone.headline, "Of these, half-fit has the smallest product of instructions and heap.");
        assert!(alone.reasons[0].contains("Its worst-case memory is n times M"), "{:?}", alone.reasons);
    }

    #[test]
    fn only_an_unproven_logarithm_is_to_be_avoided() {
        let selection = |keeps, pretends| {
            [
                ("tlsf", Origin::Ours, "segregated", "O(1)", 50, 100, 1.2),
                ("keeper", Origin::Ours, "buddy", "O(log H)", 50, keeps, 1.5),
                ("pretender", Origin::Peer, "buddy", "O(log n)", 50, pretends, 1.5),
            ]
        };
        let small = fixture::trace("small", 1 << 12, &selection(200, 200));
        let large = fixture::trace("large", 1 << 20, &selection(500, 9000));
        let alone = verdict(&fixture::run(vec![large.clone()])).cautions.join("\n");
        let both = verdict(&fixture::run(vec![small, large])).cautions.join("\n");
        for text in [alone, both] {
            let (bounded, avoided) = text.split_once("Avoid if").expect("both lists");
            assert!(
                bounded.contains("keeper: O(log H); at most 500 instructions") && bounded.contains("5.0 times"),
                "{text}"
            );
            assert!(
                !bounded.contains("pretender") && avoided.contains("pretender") && !avoided.contains("keeper"),
                "{text}"
            );
        }
    }

    #[test]
    fn an_allocator_that_failed_anywhere_is_not_taken() {
        let mut run = fixture::usual();
        run.traces[1].cells[0].outcome = Outcome::Failures { failed: 1, first: 7, beyond_reach: 0 };
        let verdict = verdict(&run);
        assert_eq!(taken(&verdict), Some("tlsf-exact"));
        let text = verdict.text(200);
        assert!(text.contains("tlsf: on lame, 1 allocation failed, the first at operation 7 of 200,000"), "{text}");
    }

    #[test]
    fn an_allocator_of_small_blocks_is_neither_taken_nor_to_be_avoided() {
        let mut run = fixture::usual();
        for result in &mut run.traces {
            let cell = &mut result.cells[0];
            cell.subject.largest_request_bytes = Some(512);
            cell.outcome = Outcome::Failures { failed: 9, first: 7, beyond_reach: 9 };
        }
        let verdict = verdict(&run);
        assert_eq!(taken(&verdict), Some("tlsf-exact"));
        let text = verdict.text(400);
        assert!(text.contains("Only for small blocks, whatever the heap: tlsf (up to 512 B)."), "{text}");
        assert!(text.contains("`--at-most 512`") && !text.contains("tlsf: on"), "{text}");
    }

    #[test]
    fn an_allocator_of_small_heaps_is_neither_taken_nor_to_be_avoided() {
        let mut run = fixture::usual();
        let cell = &mut run.traces[0].cells[0];
        (cell.heap_bytes, cell.outcome) = (Some(65_535), Outcome::Failures { failed: 9, first: 7, beyond_reach: 0 });
        let verdict = verdict(&run);
        assert_eq!(taken(&verdict), Some("tlsf-exact"));
        let text = verdict.text(400);
        assert!(text.contains("Only for small heaps: tlsf (up to 65,535 B).") && !text.contains("tlsf: on"), "{text}");
    }

    #[test]
    fn ties_go_to_ours_then_to_the_name() {
        let twins = [
            ("alpha", Origin::Peer, "segregated", "O(1)", 50, 100, 1.2),
            ("zeta", Origin::Ours, "segregated", "O(1)", 50, 100, 1.2),
            ("eta", Origin::Ours, "segregated", "O(1)", 50, 100, 1.2),
        ];
        assert_eq!(taken(&verdict(&fixture::run(vec![fixture::trace("lua", 1 << 20, &twins)]))), Some("eta"));
        // For equal products, fewer instructions win.
        let traded = [
            ("lean", Origin::Ours, "segregated", "O(1)", 50, 200, 1.0),
            ("quick", Origin::Peer, "segregated", "O(1)", 50, 100, 2.0),
        ];
        let verdict = verdict(&fixture::run(vec![fixture::trace("lua", 1 << 20, &traded)]));
        assert_eq!(taken(&verdict), Some("quick"));
        assert!(verdict.text(200).contains("If memory matters more than instructions: lean"));
    }

    #[test]
    fn a_run_of_peers_only_takes_a_peer() {
        let peers: Vec<_> = fixture::SELECTION.into_iter().filter(|profile| profile.1 == Origin::Peer).collect();
        let verdict = verdict(&fixture::run(vec![fixture::trace("lua", 1 << 20, &peers)]));
        assert_eq!(taken(&verdict), Some("rlsf"));
        assert!(verdict.reasons[0].contains("the only allocator of constant cost"), "{}", verdict.reasons[0]);
        assert!(!verdict.text(200).contains("a tie"), "alone");
    }

    #[test]
    fn without_candidates_there_is_no_verdict_but_a_reason() {
        assert_eq!(verdict(&fixture::run(vec![])).headline, "No verdict: nothing was measured.");
        let linear = [("list", Origin::Ours, "sequential", "O(n)", 50, 100, 1.2)];
        let slow = verdict(&fixture::run(vec![fixture::trace("lua", 1 << 20, &linear)]));
        assert_eq!(slow.headline, "No verdict: no allocator of constant cost served every trace.");
        let mut uncounted = fixture::usual();
        for cell in uncounted.traces.iter_mut().flat_map(|result| &mut result.cells) {
            cell.instructions = None;
        }
        assert!(verdict(&uncounted).headline.contains("instruction probe"));
        assert_eq!(verdict(&uncounted).take, None);
        let mut unsized_heaps = fixture::usual();
        for space in unsized_heaps.traces.iter_mut().flat_map(|r| &mut r.cells).filter_map(|cell| cell.space.as_mut()) {
            space.smallest_heap_bytes = None;
        }
        assert!(verdict(&unsized_heaps).headline.contains("smallest heap"));
    }

    #[test]
    fn long_lines_are_wrapped_at_spaces() {
        assert_eq!(wrapped("one two three", 7, 0), "one two\nthree");
        assert_eq!(wrapped("one two three", 9, 2), "  one two\n    three");
        assert_eq!(wrapped("incompressible", 5, 0), "incompressible");
    }
}

//! The report: one self-contained HTML file that loads no external resources.

use super::metric::{self, Metric, Scale};
use super::page::{environment, figure, measured, name_cell, page};
use super::palette;
use super::plot::{self, Measure, PlotError, Selection};
use super::summary::{self, Standing};
use super::table;
use super::verdict::{Verdict, verdict};
use maud::{Markup, html};
use rtalloc_lab::number;
use rtalloc_lab::result::schema::{Cell, Origin, Outcome, Run, TraceResult};

/// The whole report of a run as an HTML document.
///
/// # Errors
///
/// See [`PlotError`].
pub fn html(run: &Run) -> Result<String, PlotError> {
    let verdict = verdict(run);
    let styles = palette::of(&verdict.standings);
    let selection = Selection { standings: &verdict.standings, styles: &styles };
    let traces = run
        .traces
        .iter()
        .enumerate()
        .map(|(index, result)| trace(index, result, selection))
        .collect::<Result<Vec<_>, _>>()?;
    let mut links: Vec<(String, String)> = (0..)
        .zip(&run.traces)
        .map(|(index, result): (usize, _)| (format!("trace-{index}"), result.trace.name.clone()))
        .collect();
    let link = |id: &str, words: &str| (id.to_string(), words.to_string());
    links.extend(run.costs.is_some().then(|| link("worst-cases", "worst cases")));
    links.extend([link("methods", "methods"), link("environment", "environment")]);
    let body = html! {
        (verdict_section(&verdict, selection)?)
        p { (measured(&run.environment)) }
        @for trace in &traces { (trace) }
        (worst_cases(run, selection)?)
        (methods())
        (environment(&run.environment))
    };
    let heading = "rtalloc: which allocator, how large a heap, what worst case";
    Ok(page(&format!("rtalloc: {}", verdict.headline), heading, &styles, &links, &body))
}

fn verdict_section(verdict: &Verdict, selection: Selection<'_>) -> Result<Markup, PlotError> {
    let picture = plot::pareto(plot::Field::of(verdict), selection.styles)?;
    Ok(html! {
        section.verdict {
            h2 { (verdict.headline) }
            @for paragraph in &verdict.reasons { p { (paragraph) } }
        }
        (figure(picture.as_deref(), &html! {
            b { "Worst observed instructions against heap needed. " }
            "Lower left is better; both axes are logarithmic. Each allocator is at its worst trace. Filled: constant \
             cost according to its author; hollow: not. The dotted line is the Pareto front of the allocators of \
             constant cost. The ring marks the verdict's choice. Allocators that failed on a trace, or whose heap size \
             cannot be chosen, are not shown."
        }))
        @for paragraph in &verdict.cautions {
            @let mut lines = paragraph.lines();
            p { (lines.next().unwrap_or_default()) }
            @let listed: Vec<&str> = lines.collect();
            @if !listed.is_empty() { ul { @for line in listed { li { (line) } } } }
        }
        @if !verdict.standings.is_empty() {
            h3 { "All traces together" }
            (overview(verdict))
        }
    })
}

/// Worst cases over heap sizes; empty if not measured.
fn worst_cases(run: &Run, selection: Selection<'_>) -> Result<Markup, PlotError> {
    let Some(costs) = &run.costs else { return Ok(html! {}) };
    let picture = plot::costs(costs, selection)?;
    Ok(html! {
        section id="worst-cases" {
            h2 { "Worst cases" }
            p.about { "No trace shows the worst case of an operation; it must be constructed." }
            (figure(picture.as_deref(), &html! {
                b { "Instructions of the worst case over the size of the heap. " }
                "Only our allocators: each point is the costliest of the papers' and our own worst-case recipes, \
                 performed in a heap of that size. A flat curve is constant; one parallel to the grid's diagonal is \
                 linear. `rtalloc costs` has all numbers, and the class that each contract states."
            }))
        }
    })
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Ours => "ours",
        Origin::Peer => "peer",
        Origin::System => "system",
    }
}

fn overview(verdict: &Verdict) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th.left { "allocator" }
                        th.left { "origin" }
                        th.left { "family" }
                        th.left { "cost" }
                        th { "worst operation" br; "instructions" }
                        th.left { "which" }
                        th { "heap needed" br; "/ M" }
                        th.left { "on" }
                        th.left { "what happened" }
                    }
                }
                tbody {
                    @for (index, standing) in verdict.standings.iter().enumerate() {
                        tr.taken[verdict.take == Some(index)] {
                            (name_cell(index, &standing.subject.name))
                            td.left data-v=(origin(standing.subject.origin)) { (origin(standing.subject.origin)) }
                            td.left data-v=(standing.subject.family) { (standing.subject.family) }
                            td.left data-v=(standing.subject.cost) { (standing.subject.cost) }
                            @if let Some(worst) = &standing.worst {
                                td data-v=(worst.instructions) { (number::grouped(worst.instructions)) }
                                td.left data-v=(worst.operation) { (worst.operation) ", " (worst.trace) }
                            } @else { td { "-" } td.left { "-" } }
                            @if let Some(heap) = &standing.heap {
                                td data-v=(heap.ratio) { (format!("{:.2}", heap.ratio)) }
                                td.left data-v=(heap.trace) { (heap.trace) }
                            } @else { td { "-" } td.left { "-" } }
                            (happened(standing))
                        }
                    }
                }
            }
        }
    }
}

fn happened(standing: &Standing) -> Markup {
    html! {
        @if standing.troubles.is_empty() {
            td.left.what data-v="" { @if standing.own_pages { "served every trace, from its own pages" } @else { "served every trace" } }
        } @else if let Some(bytes) = standing.largest_heap_bytes {
            td.left.what data-v="small" { "its heaps have at most " (number::grouped(bytes)) " B" }
        } @else if standing.only_beyond_reach {
            td.left.what data-v="small" {
                @match standing.subject.largest_request_bytes {
                    Some(limit) => { "serves only requests up to " (number::bytes(limit)) }
                    None => { "does not serve every alignment" }
                }
            }
        } @else {
            td.left.what.warn data-v="trouble" {
                "problems on "
                @for (position, (trace, _)) in standing.troubles.iter().enumerate() {
                    @if position > 0 { ", " }
                    (trace)
                }
            }
        }
    }
}

fn trace(index: usize, result: &TraceResult, selection: Selection<'_>) -> Result<Markup, PlotError> {
    let memory = plot::memory(result, selection, plot::HIGHEST_SHARE)?;
    let fragmentation = plot::fragmentation(result, selection)?;
    let instructions = plot::distributions(result, selection, Measure::Instructions)?;
    let ticks = plot::distributions(result, selection, Measure::Ticks)?;
    Ok(html! {
        section id={ "trace-" (index) } {
            h2 { (result.trace.name) }
            p.about { (result.trace.about) }
            p { (table::facts(result)) "." }
            (figures_table(result, selection))
            (figure(instructions.as_deref(), &html! {
                b { "Instructions per operation. " }
                "One row per allocator. The height is the share of operations on a logarithmic scale, so rare ones are \
                 visible; the vertical line is the 99.9th percentile, the thick end the observed maximum. A bounded \
                 allocator's row ends early."
            }))
            (figure(ticks.as_deref(), &html! {
                b { "Time per operation in ticks of the time-stamp counter. " }
                "As above. An arrow means that raw maxima lie beyond the figure: on a shared machine they are noise, \
                 such as an interrupt during an operation. The combs at the left are the steps of the counter."
            }))
            (figure(memory.as_deref(), &html! {
                b { "Memory over the trace. " }
                "Shaded: live memory, requested and not yet freed. Lines: used memory of each allocator so far (its \
                 running H); the numbers are the final values."
            }))
            (figure(fragmentation.as_deref(), &html! {
                b { "Memory beyond the live memory. " }
                "F = (H - M) / M, and the excess over M of the smallest heap that serves the whole trace, control \
                 structure included. Markers at the right edge lie beyond it."
            }))
        }
    })
}

/// The terminal's table, sortable, with every column.
fn figures_table(result: &TraceResult, selection: Selection<'_>) -> Markup {
    let scale = Scale::for_bytes(result.trace.peak_live_bytes);
    let rows: Vec<(usize, &Cell)> = selection
        .standings
        .iter()
        .enumerate()
        .filter_map(|(index, standing)| summary::cell_of(result, &standing.subject.name).map(|cell| (index, cell)))
        .collect();
    let cells: Vec<&Cell> = rows.iter().map(|(_, cell)| *cell).collect();
    let best: Vec<Option<f64>> = metric::ALL.iter().map(|metric| metric.best(&cells)).collect();
    html! {
        div.scroll {
            table {
                thead {
                    tr.groups {
                        th colspan="2" {}
                        th colspan="3" { "allocate, ticks" }
                        th colspan="3" { "free, ticks" }
                        th colspan="2" { "allocate, instructions" }
                        th colspan="2" { "free, instructions" }
                        th colspan="3" { "space" }
                        th {}
                    }
                    tr {
                        th.left { "allocator" }
                        th.left { "cost" }
                        @for metric in &metric::ALL { th { (heading(metric, scale)) } }
                        th.left { "outcome" }
                    }
                }
                tbody {
                    @for (index, cell) in &rows {
                        tr {
                            (name_cell(*index, &cell.subject.name))
                            td.left data-v=(cell.subject.cost) { (cell.subject.cost) }
                            @for (metric, best) in metric::ALL.iter().zip(&best) {
                                @let value = (metric.value)(cell);
                                @let is_best = value.is_some() && value == *best && cell.outcome == Outcome::Completed;
                                td.best[is_best] data-v=[value] { (metric.text(cell, scale)) }
                            }
                            @let word = metric::outcome_word(cell, &result.trace);
                            td.left.warn[cell.outcome != Outcome::Completed] data-v=(word) { (word) }
                        }
                    }
                }
            }
        }
        ul.notes {
            @for cell in &cells {
                @if let Some(what) = metric::outcome_sentence(cell, &result.trace) {
                    li { b { (cell.subject.name) } ": " (what) }
                }
            }
        }
    }
}

fn heading(metric: &Metric, scale: Scale) -> Markup {
    html! {
        @match metric.unit {
            metric::Unit::Ticks | metric::Unit::Instructions => (metric.name),
            metric::Unit::Percent | metric::Unit::Bytes => {
                @if !metric.group.is_empty() { (metric.group) br; }
                (metric.name) ", " (metric.unit_name(scale))
            }
        }
    }
}

/// The definitions of the report's terms, numbers and dashes.
fn methods() -> Markup {
    html! {
        section id="methods" {
            h2 { "Methods" }
            p {
                "Every trace is the sequence of memory operations of a real program or of a model. It is replayed on \
                 each allocator: the same sizes in the same order, blocks freed when the program freed them. Each \
                 allocator runs in its own process; one that crashes, fails or is too slow remains in the tables with \
                 its outcome."
            }
            dl {
                dt { "live memory, M" }
                dd { "Sum of the requested sizes of the blocks not yet freed; M is its maximum over the trace." }
                dt { "used memory, H" }
                dd { "Maximum over time of the highest end address handed out minus the start of the heap, control structure \
                      excluded." }
                dt { "fragmentation, F" }
                dd { "(H - M) / M." }
                dt { "smallest heap" }
                dd { "The smallest region, control structure included, in which the whole trace succeeds; found by \
                      bisection. This is the memory that a system must reserve." }
                dt { "instructions" }
                dd { "Executed machine instructions of one operation from its entry to its return, counted in every \
                      operation of the trace; the same on every run of the same binary, whatever else the machine \
                      does. A maximum is of these traces; `rtalloc bound` prints the bound for every trace." }
                dt { "reallocations" }
                dd { "Replayed like all operations; their figures are only in the JSON and CSV exports, because their \
                      cost depends on whether the block must move." }
                dt { "ticks" }
                dd { "Differences of the processor's time-stamp counter around an operation, less the cost of an empty \
                      measurement. The trace is replayed several times and the minimum of each operation is kept, \
                      which removes most disturbances by the rest of the machine, but not all." }
                dt { "raw maxima of ticks" }
                dd { "On a shared or virtual machine they are noise. Compare the quantiles, and the instructions." }
                dt { "observed maximum" }
                dd { "The largest value seen in a replay. It is not a bound: a bound holds for every sequence of \
                      operations." }
                dt { "cost" }
                dd { "How the cost of an operation grows with the number n of blocks, as the allocator's author states it." }
                dt { "the verdict" }
                dd {
                    "Candidates are the allocators of stated constant cost that served every trace and whose figures \
                     are both known: the maximum instructions of an allocate or free on any trace, and the largest \
                     ratio of smallest heap to M on any trace. TLSF is the default if it is a candidate. Otherwise \
                     each figure is divided by the best candidate's, and the smallest product wins. Ties go to fewer \
                     instructions, then to ours, then to the first name."
                }
            }
            h3 { "Words in the tables" }
            dl {
                dt { "-" }
                dd { "No figure: the probe was not selected or could not run; or (space) the allocator takes its own \
                      pages from the system; or (smallest heap) none of the heap sizes tried served the whole trace, \
                      or the search exceeded the limit of processor time." }
                dt { "ok" }
                dd { "Every operation succeeded." }
                dt { "failed" }
                dd { "Number of failed allocations; the replay continued without those blocks." }
                dt { "stopped" }
                dd { "The limit of processor time was reached; its figures cover the operations before that, and it is \
                      excluded from the comparison." }
                dt { "not measured" }
                dd { "The machine was busy and gave it too little processor time, in several attempts; nothing is \
                      known about it." }
                dt { "broken" }
                dd { "It did not run at all, or crashed." }
                dt { "green" }
                dd { "The best value of its column among those that served the whole trace." }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// Elements without an end tag.
    const VOID: [&str; 5] = ["meta", "link", "br", "hr", "img"];

    /// Checks that every tag of a document is closed in order.
    fn assert_balanced(html: &str) {
        let mut open: Vec<String> = Vec::new();
        let mut rest = html;
        while let Some(at) = rest.find('<') {
            rest = &rest[at + 1..];
            // Within quotes, a '>' does not end the tag.
            let mut quoted = false;
            let end = rest
                .char_indices()
                .find(|(_, letter)| {
                    quoted ^= *letter == '"';
                    *letter == '>' && !quoted
                })
                .map(|(at, _)| at)
                .expect("a tag that ends");
            let tag = &rest[..end];
            rest = &rest[end + 1..];
            let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
            if tag.starts_with('!') || tag.ends_with('/') || VOID.contains(&name.as_str()) {
                continue;
            }
            if tag.starts_with('/') {
                assert_eq!(open.pop().as_deref(), Some(name.as_str()), "closed out of order");
                continue;
            }
            if name == "style" || name == "script" {
                let closing = format!("</{name}>");
                let at = rest.find(&closing).expect("a closed style or script");
                rest = &rest[at + closing.len()..];
                continue;
            }
            open.push(name);
        }
        assert!(open.is_empty(), "left open: {open:?}");
    }

    fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
        html.split(&format!(" {name}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn the_report_is_well_formed_and_complete() {
        let run = fixture::usual();
        let page = html(&run).expect("drawn");
        assert_balanced(&page);
        let ids = attributes(&page, "id");
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(ids.len(), unique.len(), "{ids:?}");
        // Every link within the page has a target.
        for target in attributes(&page, "href").iter().filter_map(|target| target.strip_prefix('#')) {
            assert!(ids.contains(&target), "{target}");
        }
        // The verdict's figure, and four figures per trace.
        assert_eq!(page.matches("<svg ").count(), 1 + 4 * run.traces.len());
        assert!(page.find("Take tlsf.").expect("the verdict") < page.find("trace-0\"").expect("a trace") + 2000);
        assert!(page.contains("stopped by the limit of processor time at operation 150,000 of 200,000"));
        assert!(page.contains("<p>Measured 2026-03-01 14:05 UTC by rtalloc 0.1.0.</p>"));
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        let page = html(&fixture::usual()).expect("drawn");
        for mark in ["http:", "https:", "//cdn", "@import", "url(", "src=\"", "xmlns"] {
            assert!(!page.contains(mark), "{mark}");
        }
    }

    #[test]
    fn hostile_names_stay_text() {
        let mut run = fixture::usual();
        let hostile = "\"><script>alert(1)</script><b x='&";
        run.traces[0].trace.name = hostile.into();
        run.traces[0].trace.about = hostile.into();
        for result in &mut run.traces {
            result.cells[0].subject.name = hostile.into();
            result.cells[0].subject.family = hostile.into();
        }
        run.environment.cpu = hostile.into();
        let page = html(&run).expect("drawn");
        assert_balanced(&page);
        assert!(!page.contains("<script>alert") && !page.contains("<b x="));
        assert!(page.contains("&lt;script&gt;alert(1)"));
    }

    #[test]
    fn degenerate_runs_make_a_report_too() {
        let empty = html(&fixture::run(vec![])).expect("drawn");
        assert_balanced(&empty);
        assert!(empty.contains("No verdict: nothing was measured."));
        let mut bare = fixture::usual();
        for cell in bare.traces.iter_mut().flat_map(|result| &mut result.cells) {
            cell.time = None;
            cell.instructions = None;
            cell.space = None;
        }
        let bare = html(&bare).expect("drawn");
        assert_balanced(&bare);
        assert_eq!(bare.matches("<svg ").count(), 0);
        // An empty trace, on one allocator that executed one instruction.
        let mut tiny = fixture::run(vec![fixture::trace("nothing", 0, &[("a", Origin::Ours, "f", "O(1)", 5, 6, 1.0)])]);
        tiny.traces[0].trace.live.points.clear();
        assert_balanced(&html(&tiny).expect("drawn"));
    }

    #[test]
    fn eight_traces_of_fifteen_allocators_stay_small() {
        let mut selection = fixture::SELECTION.to_vec();
        selection.extend([("x", Origin::Peer, "hybrid", "O(n)", 60, 900, 1.3); 1]);
        selection.extend([("y", Origin::Peer, "hybrid", "O(n)", 61, 950, 1.31); 1]);
        selection.extend([("z", Origin::Peer, "hybrid", "O(n)", 62, 990, 1.32); 1]);
        let run = fixture::run((0..8).map(|index| fixture::trace(&format!("t{index}"), 1 << 20, &selection)).collect());
        assert!(html(&run).expect("drawn").len() < 3 << 20);
    }
}

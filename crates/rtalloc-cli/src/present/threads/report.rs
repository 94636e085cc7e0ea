//! Traces replayed by several threads as a page: the duration of each kind of operation, by number of threads.

use super::{head, memory, notes, operations, sentences, ticks};
use crate::present::page::{environment, figure, measured, page};
use crate::present::palette;
use crate::present::plot::curves::{Panel, Spacing, Stroke, curves};
use crate::present::plot::{PlotError, Selection};
use crate::present::shared_heaps::{RARITY, Sharer, rarity};
use crate::present::summary::Standing;
use maud::{Markup, html};
use rtalloc_lab::number;
use rtalloc_lab::result::threads::{ThreadedCell, ThreadedRun, ThreadedTrace};

/// The whole report as an HTML document.
///
/// # Errors
///
/// See [`PlotError`].
pub fn html(run: &ThreadedRun) -> Result<String, PlotError> {
    let everybody: Vec<&ThreadedCell> = run.traces.first().map_or_else(Vec::new, |trace| trace.cells.iter().collect());
    let place = |name: &str| everybody.iter().position(|cell| cell.subject == name);
    let standings: Vec<Standing> = everybody.iter().map(|cell| standing(cell)).collect();
    let styles = palette::of(&standings);
    let selection = Selection { standings: &standings, styles: &styles };
    // Entries of one trace are grouped, ordered by number of threads.
    let groups: Vec<&[ThreadedTrace]> = run.traces.chunk_by(|one, other| one.trace.name == other.trace.name).collect();
    let figures = groups.iter().map(|group| figures(group, selection)).collect::<Result<Vec<_>, _>>()?;
    let body = html! {
        @for (index, (group, figures)) in groups.iter().zip(&figures).enumerate() {
            section id={ "trace-" (index) } {
                h2 { (group[0].trace.name) }
                p.about { (group[0].trace.about) }
                @for figure in figures { (figure) }
                @for trace in *group {
                    h3 { (number::counted(trace.threads, "thread")) }
                    p { (head(trace, &run.ordering)) "." }
                    (ticks(trace).html(&place))
                    (memory(trace).html(&place))
                    ul.notes { @for sentence in sentences(trace) { li { (sentence) } } }
                }
            }
        }
        section id="notes" {
            h2 { "Notes" }
            ul.notes { @for note in notes(run) { li { (note) } } }
            p { (measured(&run.environment)) }
        }
        (environment(&run.environment))
    };
    let mut links: Vec<(String, String)> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| (format!("trace-{index}"), group[0].trace.name.clone()))
        .collect();
    links.extend(["notes", "environment"].map(|id| (id.to_string(), id.to_string())));
    let heading = "rtalloc threads: multithreaded traces on shared allocators";
    Ok(page("rtalloc: multithreaded replays", heading, &styles, &links, &body))
}

fn standing(cell: &ThreadedCell) -> Standing {
    Sharer {
        name: &cell.subject,
        origin: cell.origin,
        lock: cell.lock.as_deref(),
        own_pages: cell.heap_bytes.is_none(),
    }
    .standing()
}

/// One figure per kind of operation for all allocators except variants, and one for the variants.
fn figures(group: &[ThreadedTrace], selection: Selection<'_>) -> Result<Vec<Markup>, PlotError> {
    let kinds = operations(&Default::default()).map(|(name, _)| name);
    let is_option = |cell: &ThreadedCell| cell.option_of.is_some();
    let has_options =
        |cell: &ThreadedCell| group[0].cells.iter().any(|one| one.option_of.as_ref() == Some(&cell.subject));
    let mut drawn = Vec::new();
    let mut add = |kind: usize, of: &str, wanted: &dyn Fn(&ThreadedCell) -> bool| -> Result<(), PlotError> {
        let panels: Vec<Panel> = group.iter().map(|trace| panel(trace, kind, wanted)).collect();
        let name = kinds[kind];
        let svg = curves(&panels, selection, &format!("Duration of {name} on {}", group[0].trace.name))?;
        drawn.push(figure(
            svg.as_deref(),
            &html! {
                b { (capital(name)) (of) ". " }
                "Each point: one in this many operations takes at least this long. Typical durations are at the left, \
                 the longest observed at the right, which on a shared machine includes disturbances by other programs. \
                 The curve of a bounded allocator is flat. Both axes are logarithmic."
            },
        ));
        Ok(())
    };
    for kind in 0..kinds.len() {
        add(kind, "", &|cell| !is_option(cell))?;
    }
    if group[0].cells.iter().any(is_option) {
        for kind in 0..kinds.len() {
            add(kind, ", options of an allocator beside it", &|cell| is_option(cell) || has_options(cell))?;
        }
    }
    Ok(drawn)
}

fn panel(trace: &ThreadedTrace, kind: usize, wanted: &dyn Fn(&ThreadedCell) -> bool) -> Panel {
    let points = |cell: &ThreadedCell| {
        let time = cell.time.as_ref()?;
        let (_, ticks) = operations(time)[kind];
        (wanted(cell) && ticks.count > 0).then(|| rarity(ticks))
    };
    let (name, _) = operations(&Default::default())[kind];
    Panel {
        title: format!("{}, {}", capital(name), number::counted(trace.threads, "thread")),
        x: (RARITY.into(), Spacing::Logarithmic),
        y: ("ticks; longest at the right".into(), Spacing::Logarithmic),
        curves: trace
            .cells
            .iter()
            .enumerate()
            .filter_map(|(index, cell)| points(cell).map(|points| (index, points)))
            .collect(),
        stroke: Stroke::Marked,
        published: Vec::new(),
        marks: Vec::new(),
    }
}

/// Capitalises the first letter.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

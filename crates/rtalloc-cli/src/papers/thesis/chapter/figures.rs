//! Figures 14 to 33.

use super::rows;
use crate::papers::chapter::Figure;
use crate::papers::published::THESIS;
use crate::papers::thesis::published::ALLOCATORS;
use crate::papers::thesis::result::{CLASS_BYTES, Costs, Moment, OnTrace, Part, Row, Side, Thesis};
use crate::present::palette;
use crate::present::plot::curves::{Panel, Spacing, Stroke};
use crate::present::plot::marks::{Panel as Marked, marks};
use crate::present::plot::multiples::{Multiple, Shape, multiples};
use crate::present::plot::{Measure, PlotError, Selection, distributions, memory as drawn_memory};
use crate::present::summary::Standing;
use crate::present::summary::named;
use rtalloc_lab::result::schema::{Cell, Curve, Instructions, Outcome, Space, TraceFacts, TraceResult};

/// Used memory beyond this multiple of M is drawn at the edge; the thesis' regions reach 5.
const HIGHEST_SHARE: f64 = 6.0;

#[allow(clippy::cast_precision_loss)] // drawn
fn float(value: u64) -> f64 {
    value as f64
}

fn kib(bytes: u64) -> f64 {
    float(bytes) / 1024.0
}

/// Figures 14 to 17: allocations by size class.
pub(super) fn classes(found: &Thesis) -> Result<Figure, PlotError> {
    let panel = |trace: &OnTrace| {
        let bars = (0..)
            .zip(&trace.facts.classes)
            .map(|(class, count)| (float(class * CLASS_BYTES), float((class + 1) * CLASS_BYTES), float(*count)));
        let spacing = if trace.load.part == Part::Uniform { Spacing::Even } else { Spacing::Logarithmic };
        Multiple {
            title: trace.load.name(),
            remark: String::new(),
            x: "bytes requested".into(),
            y: ("allocations".into(), spacing),
            index: 0,
            shape: Shape::Bars(bars.collect()),
        }
    };
    let panels: Vec<Multiple> = found.traces.iter().map(panel).collect();
    Ok(Figure {
        name: "figures-14-to-17".into(),
        caption: (
            "Figures 14 to 17: allocations by size".into(),
            format!("Classes of {CLASS_BYTES} bytes; logarithmic except for uniform."),
        ),
        svg: multiples(&panels, 2, 1, "Bitframe thesis, figures 14 to 17: allocations by size class")?,
        standings: vec![named("allocations", "allocations")],
    })
}

/// Figures 18 and 19: live memory of the recorded traces.
pub(super) fn live(found: &Thesis) -> Result<Figure, PlotError> {
    let recorded = found.traces.iter().filter(|trace| trace.load.part.is_recorded());
    let panel = |trace: &OnTrace| Multiple {
        title: trace.load.name(),
        remark: format!("M = {}", rtalloc_lab::number::bytes(trace.facts.peak_live_bytes)),
        x: "operations".into(),
        y: ("KiB live".into(), Spacing::Even),
        index: 0,
        shape: Shape::Areas(vec![(
            0.6,
            trace.facts.live.points.iter().map(|(at, bytes)| (float(*at), kib(*bytes))).collect(),
        )]),
    };
    let panels: Vec<Multiple> = recorded.map(panel).collect();
    Ok(Figure {
        name: "figures-18-and-19".into(),
        caption: ("Figures 18 and 19: live memory".into(), "The maximum of each interval of operations.".into()),
        svg: multiples(&panels, 2, 1, "Bitframe thesis, figures 18 and 19: live memory over the operations")?,
        standings: vec![named("live memory", "live memory")],
    })
}

/// The allocators in the figures, in the thesis' order.
fn selection() -> Vec<Standing> {
    ALLOCATORS.iter().map(|(there, here)| named(there, here)).collect()
}

/// The trace in the form used by trace plots.
fn as_result(trace: &OnTrace) -> TraceResult {
    let facts = &trace.facts;
    let used = |timeline: &[Moment]| Curve {
        points: timeline.iter().map(|moment| (moment.operation, moment.used_bytes)).collect(),
    };
    let cell = |row: &Row| {
        let subject = named(&row.name, ALLOCATORS.iter().find(|(there, _)| *there == row.name)?.1).subject;
        let ours = row.ours.as_ref().ok();
        Some(Cell {
            subject,
            heap_bytes: None,
            outcome: Outcome::Completed,
            time: None,
            instructions: ours.map(|ours| Instructions {
                allocate: ours.instructions.malloc.clone(),
                free: ours.instructions.free.clone(),
                ..Instructions::default()
            }),
            space: ours.map(|ours| Space { used: used(&ours.timeline), ..Space::default() }),
        })
    };
    TraceResult {
        trace: TraceFacts {
            name: trace.load.name(),
            about: String::new(),
            allocations: facts.mallocs,
            frees: facts.operations - facts.mallocs,
            reallocations: 0,
            threads: 1,
            peak_live_bytes: facts.peak_live_bytes,
            peak_live_blocks: facts.peak_live_blocks,
            largest_request_bytes: 0,
            live: facts.live.clone(),
        },
        cells: rows(trace).filter_map(cell).collect(),
    }
}

/// Numbers of the thesis' figures for a part: times, used memory, overhead, waste.
fn numbers(part: Part) -> Option<[&'static str; 4]> {
    match part {
        Part::Boot => Some(["20 and 21", "24", "26", "28 to 30"]),
        Part::Stable => Some(["22 and 23", "25", "27", "31 to 33"]),
        Part::Uniform | Part::Small => None,
    }
}

/// Figures 20 to 23, mean and maximum ticks beside the published cycles, and distributions of instructions.
pub(super) fn times(trace: &OnTrace) -> Result<Vec<Figure>, PlotError> {
    let standings = selection();
    let styles = palette::of(&standings);
    let selected = || Selection { standings: &standings, styles: &styles };
    let (name, slug, part) = (trace.load.name(), trace.load.slug(), trace.load.part);
    let mut figures = Vec::new();
    let ticks = |row: &Row| row.ticks.clone().and_then(Result::ok);
    if let Some([number, ..]) = numbers(part).filter(|_| rows(trace).any(|row| ticks(row).is_some())) {
        let panel = |(operation, of): (&str, Side)| {
            let both = |row: &Row| {
                let published = THESIS.cycles(part, &row.name, operation);
                let ours = ticks(row).map(|costs| vec![of(&costs).mean, float(of(&costs).max)]);
                [published.map(|[most, mean, _]| vec![float(mean), float(most)]), ours]
            };
            Marked { title: operation.into(), rows: rows(trace).map(both).collect() }
        };
        let description = format!("Bitframe thesis, figures {number}: mean and maximum time of malloc and free");
        let drawn = marks(&Costs::SIDES.map(panel), &["mean", "maximum"], selected(), &description)?;
        figures.extend(drawn.map(|svg| {
            Figure {
            name: format!("time-{slug}-ticks"),
            caption: (
                format!("Figures {number}: mean and maximum time on {name}"),
                "Grey: the thesis' cycles of an Atom, on its own recording. In colour: our ticks. Compare the order of \
                 the means: with few replicas, our maxima are interruptions of a shared machine."
                    .into(),
            ),
            svg,
            standings: standings.clone(),
        }
        }));
    }
    let drawn = distributions(&as_result(trace), selected(), Measure::Instructions)?;
    figures.extend(drawn.map(|svg| {
        Figure {
        name: format!("time-{slug}-instructions"),
        caption: (
            format!("Beyond the thesis: instructions on {name}"),
            "Heights are logarithmic, so a single operation is visible. Long mark: 99.9th percentile; short mark or \
             arrow: the maximum."
                .into(),
        ),
        svg,
        standings: standings.clone(),
    }
    }));
    Ok(figures)
}

/// Figures 24 to 33: used and live memory, overhead, and total waste; empty if the trace was not recorded.
pub(super) fn memory(trace: &OnTrace) -> Result<Vec<Figure>, PlotError> {
    let Some([_, used, overhead, waste]) = numbers(trace.load.part) else { return Ok(Vec::new()) };
    let standings = selection();
    let styles = palette::of(&standings);
    let (name, slug) = (trace.load.name(), trace.load.slug());
    let mut figures = Vec::new();
    let svg = drawn_memory(&as_result(trace), Selection { standings: &standings, styles: &styles }, HIGHEST_SHARE)?;
    figures.extend(svg.map(|svg| Figure {
        name: format!("used-{slug}"),
        caption: (
            format!("Figure {used}: used memory on {name}"),
            format!(
                "Lines: memory used so far, control structures included. Shaded: live memory. Published at the end, of \
                 another program: {}.",
                published_heaps(trace.load.part)
            ),
        ),
        svg,
        standings: standings.clone(),
    }));
    let names: Vec<(&str, &str)> = ALLOCATORS.into();
    let curves = (0..).zip(rows(trace)).map(|(index, row)| {
        let timeline = row.ours.as_ref().map_or(&[][..], |ours| &ours.timeline);
        (index, timeline.iter().map(|moment| (float(moment.operation), float(moment.bookkeeping_bytes))).collect())
    });
    let last = rows(trace).filter_map(|row| Some(row.ours.as_ref().ok()?.timeline.last()?.operation)).max();
    let published = ALLOCATORS.iter().enumerate().filter_map(|(index, (name, _))| {
        let space = THESIS.space(trace.load.part.table(), name)?;
        let bytes = float(space.used_bytes - space.live_bytes) * space.overhead_percent / 100.0;
        Some((index, vec![(0.0, bytes), (float(last?), bytes)]))
    });
    let panel = Panel {
        title: format!("Figure {overhead}: overhead on {name}"),
        x: ("operations".into(), Spacing::Even),
        y: ("bytes of control structure, headers and page metadata".into(), Spacing::Logarithmic),
        curves: curves.collect(),
        stroke: Stroke::Lines,
        published: published.collect(),
        marks: Vec::new(),
    };
    let caption = format!("Figure {overhead}: overhead on {name}");
    figures.extend(Figure::of_curves(
        &format!("overhead-{slug}"),
        (
            &caption,
            "Bytes that the allocators use for metadata; logarithmic. Dashed: L in the thesis' table, of another \
             program.",
        ),
        &[panel],
        &names,
        &format!("Bitframe thesis, figure {overhead}: implementation overhead"),
    )?);
    let panels: Vec<Multiple> = rows(trace).enumerate().map(|(index, row)| wasted(index, row)).collect();
    figures.push(Figure {
        name: format!("waste-{slug}"),
        caption: (
            format!("Figures {waste}: total waste on {name}"),
            "Dark: implementation overhead. Light, above it: internal fragmentation. Every panel has its own scale."
                .into(),
        ),
        svg: multiples(
            &panels,
            2,
            standings.len(),
            &format!("Bitframe thesis, figures {waste}: internal fragmentation and overhead"),
        )?,
        standings,
    });
    Ok(figures)
}

/// The published H of a part.
fn published_heaps(part: Part) -> String {
    let each = ALLOCATORS.iter().filter_map(|(name, _)| {
        let used_bytes = THESIS.space(part.table(), name)?.used_bytes;
        Some(format!("{name} {:.1} KiB", kib(used_bytes)))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// A panel of figures 28 to 33.
fn wasted(index: usize, row: &Row) -> Multiple {
    let timeline = row.ours.as_ref().map_or(&[][..], |ours| &ours.timeline);
    let area = |bytes: fn(&Moment) -> u64| -> Vec<(f64, f64)> {
        timeline.iter().map(|moment| (float(moment.operation), kib(bytes(moment)))).collect()
    };
    let sum = |bytes: fn(&Moment) -> u64| float(timeline.iter().map(bytes).sum());
    let (own, inside) = (sum(|moment| moment.bookkeeping_bytes), sum(|moment| moment.internal_bytes));
    Multiple {
        title: row.name.clone(),
        remark: if own + inside > 0.0 {
            format!("overhead {:.0} % of the waste", 100.0 * own / (own + inside))
        } else {
            String::new()
        },
        x: "operations".into(),
        y: ("KiB".into(), Spacing::Even),
        index,
        shape: Shape::Areas(vec![
            (0.95, area(|moment| moment.bookkeeping_bytes)),
            (0.4, area(|moment| moment.internal_bytes)),
        ]),
    }
}

//! Distributions: one row per allocator, allocate to the left and free to the right.
//!
//! The height of a row is logarithmic in the share of samples, so that an operation observed once in a hundred thousand
//! remains visible: rare operations matter in real-time systems.

use super::canvas::{Anchor, Canvas, Ink, PlotError, Scale, Tooltip, sheet};
use super::{NAMES, ROW, Selection, WIDTH, row_middle, row_names, rows_height};
use crate::present::summary;
use rtalloc_lab::number;
use rtalloc_lab::result::schema::{Cell, Distribution, TraceResult};

/// The measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Executed instructions, drawn up to the maximum.
    Instructions,
    /// Ticks of the time-stamp counter, drawn up to a multiple of the largest 99.9th percentile, since maxima are
    /// noise.
    Ticks,
}

impl Measure {
    fn of(self, cell: &Cell) -> Option<[&Distribution; 2]> {
        match self {
            Self::Instructions => cell.instructions.as_ref().map(|counted| [&counted.allocate, &counted.free]),
            Self::Ticks => cell.time.as_ref().map(|time| [&time.allocate, &time.free]),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Ticks => "ticks",
        }
    }
}

/// Bins per factor of ten.
const BINS_PER_DECADE: f64 = 30.0;
/// The multiple of the largest 99.9th percentile of ticks up to which the axis extends.
const TICKS_BEYOND_P999: f64 = 4.0;
/// How far below its median a distribution may extend before it is drawn at the edge: a single reading of 0 would take
/// a third of the axis.
const FURTHEST_BELOW_MEDIAN: u64 = 10;
const TOP: i32 = 44;
const GAP: i32 = 24;

/// The distributions of one measure on one trace; `None` if no allocator has any.
///
/// # Errors
///
/// See [`PlotError`].
pub fn distributions(
    result: &TraceResult,
    selection: Selection<'_>,
    measure: Measure,
) -> Result<Option<String>, PlotError> {
    let both = |standing: &summary::Standing| {
        summary::cell_of(result, &standing.subject.name).and_then(|cell| measure.of(cell))
    };
    let side = |at: usize| selection.standings.iter().map(move |standing| both(standing).map(|both| both[at]));
    let sampled = || (0..2).flat_map(&side).flatten().filter(|distribution| distribution.count > 0);
    let Some(least) = sampled().map(|one| one.min.max(one.p50 / FURTHEST_BELOW_MEDIAN)).min() else {
        return Ok(None);
    };
    #[allow(clippy::cast_precision_loss)] // drawn
    let low = (least as f64).max(1.0) / 1.1;
    #[allow(clippy::cast_precision_loss)] // drawn
    let high = sampled()
        .map(|distribution| match measure {
            Measure::Instructions => distribution.max as f64,
            Measure::Ticks => distribution.p999 as f64 * TICKS_BEYOND_P999,
        })
        .fold(low * 2.0, f64::max)
        * 1.1;
    #[allow(clippy::cast_precision_loss)] // its order of magnitude is drawn
    let decades = sampled().map(|distribution| distribution.count as f64).fold(10.0, f64::max).log10().ceil();
    let bottom = TOP + rows_height(selection.standings.len());
    let description = format!("Distribution of {} of allocate and free on {}", measure.unit(), result.trace.name);
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_wrap)] // a sheet of positive size
    let svg = sheet(WIDTH, (bottom + 40) as u32, selection.standings.len(), &description, |canvas| {
        // Room on the right for half of the widest label, five digits.
        let panel = (WIDTH as i32 - NAMES - GAP - 24) / 2;
        row_names(canvas, selection, TOP)?;
        for (at, operation) in ["allocate", "free"].into_iter().enumerate() {
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // 0 or 1
            let left = NAMES + at as i32 * (panel + GAP);
            let x = Scale::logarithmic((low, high), (left, left + panel));
            axis(canvas, &x, (left, left + panel), bottom, &format!("{operation}, {}", measure.unit()))?;
            for (index, distribution) in side(at).enumerate() {
                let Some(distribution) = distribution.filter(|one| one.count > 0) else { continue };
                row(canvas, &x, index, distribution, decades)?;
                let name = &selection.standings[index].subject.name;
                let axes = [measure.unit(), "% take at most that"];
                canvas.tooltips((index, name), axes, quantiles(&x, index, distribution));
            }
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

fn axis(
    canvas: &mut Canvas<'_>,
    x: &Scale,
    (left, right): (i32, i32),
    bottom: i32,
    title: &str,
) -> Result<(), PlotError> {
    canvas.text(title, ((left + right) / 2, 14), Anchor::Middle, 14, Ink::Text)?;
    for tick in x.ticks(44) {
        let at = x.at(tick);
        canvas.edge((at, TOP - 4), (at, bottom), 1, Ink::Grid)?;
        canvas.text(&number::tick(tick), (at, TOP - 13), Anchor::Middle, 11, Ink::Faint)?;
        canvas.text(&number::tick(tick), (at, bottom + 14), Anchor::Middle, 11, Ink::Faint)?;
    }
    Ok(())
}

fn row(
    canvas: &mut Canvas<'_>,
    x: &Scale,
    index: usize,
    distribution: &Distribution,
    decades: f64,
) -> Result<(), PlotError> {
    let ink = Ink::Allocator(index);
    let base = row_middle(TOP, index) + ROW / 2 - 3;
    for run in outline(distribution, x, base, decades) {
        let mut closed = run.clone();
        if let (Some(first), Some(last)) = (run.first(), run.last()) {
            closed.extend([(last.0, base), (first.0, base)]);
        }
        canvas.area(closed, 0.75, ink)?;
    }
    #[allow(clippy::cast_precision_loss)] // drawn
    let (min, max, p999) = (distribution.min as f64, distribution.max as f64, distribution.p999 as f64);
    canvas.edge((x.at(min.max(1.0)), base), (x.at(max), base), 1, ink)?;
    canvas.edge((x.at(p999.max(1.0)), base - 9), (x.at(p999.max(1.0)), base + 3), 2, Ink::Text)?;
    if x.is_beyond(max) {
        let end = x.at(max);
        canvas.area(vec![(end + 1, base), (end - 7, base - 4), (end - 7, base + 4)], 1.0, ink)
    } else {
        canvas.bar((x.at(max) - 1, base - 6), (x.at(max) + 1, base + 3), 1.0, ink)
    }
}

/// The baseline of a row.
fn quantiles(x: &Scale, index: usize, distribution: &Distribution) -> impl Iterator<Item = Tooltip> {
    let Distribution { p50, p99, p999, max, .. } = *distribution;
    let (x, middle) = (*x, row_middle(TOP, index));
    [(p50, 50.0), (p99, 99.0), (p999, 99.9), (max, 100.0)].into_iter().map(move |(value, share)| {
        #[allow(clippy::cast_precision_loss)] // drawn
        let value = value as f64;
        ((x.at(value.max(1.0)), middle), value, share)
    })
}

/// The histogram in bins of equal width on the scale, as runs of steps without empty bins.
fn outline(distribution: &Distribution, x: &Scale, base: i32, decades: f64) -> Vec<Vec<(i32, i32)>> {
    let mut bins: Vec<(i32, u64)> = Vec::new();
    for (value, samples) in &distribution.histogram {
        #[allow(clippy::cast_precision_loss)] // its bin is wanted
        let value = (*value as f64).max(1.0);
        if x.is_beyond(value) {
            break;
        }
        #[allow(clippy::cast_possible_truncation)] // a few hundred bins
        let bin = (value.log10() * BINS_PER_DECADE).floor() as i32;
        match bins.last_mut() {
            Some((last, sum)) if *last == bin => *sum += samples,
            _ => bins.push((bin, *samples)),
        }
    }
    #[allow(clippy::cast_precision_loss)] // drawn
    let total = distribution.count as f64;
    let mut runs: Vec<Vec<(i32, i32)>> = Vec::new();
    let mut previous = None;
    for (bin, samples) in bins {
        let from = x.at(10_f64.powf(f64::from(bin) / BINS_PER_DECADE));
        let to = x.at(10_f64.powf(f64::from(bin + 1) / BINS_PER_DECADE)).max(from + 1);
        #[allow(clippy::cast_precision_loss)] // drawn
        let share = (1.0 + (samples as f64 / total).log10() / decades).clamp(0.06, 1.0);
        #[allow(clippy::cast_possible_truncation)] // within a row
        let top = base - (share * f64::from(ROW - 5)).round() as i32;
        let steps = [(from, top), (to, top)];
        match runs.last_mut() {
            Some(run) if previous == Some(bin - 1) => {
                // Merges equal neighbours into one step.
                if run.last().is_some_and(|last| last.1 == top) {
                    run.pop();
                    run.push((to, top));
                } else {
                    run.extend(steps);
                }
            }
            _ => runs.push(steps.to_vec()),
        }
        previous = Some(bin);
    }
    runs
}

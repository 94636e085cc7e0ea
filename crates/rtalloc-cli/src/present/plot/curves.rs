//! Line charts with many points: panels stacked vertically, each with its own scales and with curve labels beside it.

use super::super::palette::Marker;
use super::canvas::{Anchor, Canvas, Ink, PlotError, Scale, sheet};
use super::{Selection, WIDTH, shortened, spread};
use rtalloc_lab::number;
use std::collections::BTreeSet;

const LEFT: i32 = 78;
const RIGHT: i32 = 800;
/// Room above each panel, for its title.
const HEAD: i32 = 36;
/// Height of a label beside a panel.
const LABEL: i32 = 14;
/// Height of a row of marks.
const MARKS: i32 = 14;
/// Height of a panel with few labels.
const LEAST_HEIGHT: i32 = 250;
/// Room below each panel, for its axis.
const FOOT: i32 = 46;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Linear, starting at 0.
    Even,
    /// Logarithmic; along y, values of 0 are not drawn, and interrupt their line.
    Logarithmic,
    /// Logarithmic, with every power of two labelled.
    Doubling,
}

/// A panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// The quantity along x, and its scale.
    pub x: (String, Spacing),
    /// The quantity along y, and its scale.
    pub y: (String, Spacing),
    /// The curves: index of the allocator, and points in the order of x.
    pub curves: Vec<(usize, Vec<(f64, f64)>)>,
    /// How the points are drawn.
    pub stroke: Stroke,
    /// Published values beside the curves: index of the allocator, and points in the order of x.
    pub published: Vec<(usize, Vec<(f64, f64)>)>,
    /// What happens along x, in rows below the curves.
    pub marks: Vec<Marks>,
}

/// Events of one kind.
#[derive(Clone, Debug)]
pub struct Marks {
    /// What happens.
    pub what: String,
    /// Their marker.
    pub marker: Marker,
    /// How often.
    pub count: u64,
    /// Where, increasing.
    pub at: Vec<f64>,
}

/// How the points of a panel are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// As lines.
    Lines,
    /// As lines with a few markers, including one at the end.
    Marked,
    /// As points: neighbours have nothing to do with each other.
    Points,
}

/// The family of live memory, which is not an allocator: the area below its curve is shaded.
pub const LIVE: &str = "live memory";

/// Draws panels; `None` if there are no points.
///
/// # Errors
///
/// See [`PlotError`].
pub fn curves(panels: &[Panel], selection: Selection<'_>, description: &str) -> Result<Option<String>, PlotError> {
    let shown: Vec<&Panel> =
        panels.iter().filter(|panel| panel.curves.iter().any(|(_, points)| !points.is_empty())).collect();
    if shown.is_empty() {
        return Ok(None);
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // some dozens of curves
    let height = shown.iter().map(|panel| panel.curves.len() as i32 * LABEL).max().unwrap_or(0).max(LEAST_HEIGHT);
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // a few panels
    let full = shown.len() as i32 * (HEAD + height + FOOT);
    #[allow(clippy::cast_sign_loss)] // a sheet of positive size
    let svg = sheet(WIDTH, full as u32, selection.standings.len(), description, |canvas| {
        let mut top = HEAD;
        for panel in shown {
            one(canvas, selection, panel, (top, top + height))?;
            top += height + FOOT + HEAD;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

fn scale(values: impl Iterator<Item = f64> + Clone, spacing: Spacing, pixels: (i32, i32)) -> Scale {
    let most = values.clone().fold(0.0, f64::max);
    match spacing {
        Spacing::Even => Scale::linear((0.0, most * 1.02), pixels),
        Spacing::Logarithmic | Spacing::Doubling => {
            let least = values.filter(|value| *value > 0.0).fold(f64::MAX, f64::min).min(most);
            Scale::logarithmic((least.max(f64::MIN_POSITIVE) / 1.1, most * 1.1), pixels)
        }
    }
}

fn one(
    canvas: &mut Canvas<'_>,
    selection: Selection<'_>,
    panel: &Panel,
    (top, bottom): (i32, i32),
) -> Result<(), PlotError> {
    let points = || panel.curves.iter().chain(&panel.published).flat_map(|(_, points)| points);
    let x = scale(points().map(|(x, _)| *x), panel.x.1, (LEFT, RIGHT));
    let rows: Vec<&Marks> = panel.marks.iter().filter(|marks| !marks.at.is_empty()).collect();
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // a few kinds
    let floor = bottom - rows.len() as i32 * MARKS;
    let y = scale(points().map(|(_, y)| *y), panel.y.1, (floor, top));
    canvas.text(&panel.title, (LEFT, top - 22), Anchor::Left, 14, Ink::Text)?;
    canvas.text(&panel.y.0, (LEFT, top - 7), Anchor::Left, 11, Ink::Faint)?;
    for tick in y.ticks(30) {
        canvas.edge((LEFT, y.at(tick)), (RIGHT, y.at(tick)), 1, Ink::Grid)?;
        canvas.text(&number::tick(tick), (LEFT - 8, y.at(tick)), Anchor::Right, 11, Ink::Faint)?;
    }
    // Integer quantities have no fractional ticks.
    let is_whole = points().all(|(x, _)| x.fract() == 0.0);
    let (ticks, label): (_, fn(f64) -> String) = match panel.x.1 {
        Spacing::Even | Spacing::Logarithmic => (x.ticks(70), number::tick),
        Spacing::Doubling => (powers_of_two(points().map(|(x, _)| *x)), number::compact),
    };
    for tick in ticks.into_iter().filter(|tick| !is_whole || tick.fract() == 0.0) {
        canvas.edge((x.at(tick), top), (x.at(tick), bottom), 1, Ink::Grid)?;
        canvas.text(&label(tick), (x.at(tick), bottom + 14), Anchor::Middle, 11, Ink::Faint)?;
    }
    canvas.text(&panel.x.0, ((LEFT + RIGHT) / 2, bottom + 32), Anchor::Middle, 13, Ink::Text)?;
    // Drawn first, below everything else.
    for (_, points) in panel.curves.iter().filter(|(index, _)| selection.standings[*index].subject.family == LIVE) {
        let mut shade = thinned(points.iter().map(|(at, value)| (x.at(*at), y.at(*value))));
        let ends = shade.first().zip(shade.last()).map(|(first, last)| [(last.0, floor), (first.0, floor)]);
        shade.extend(ends.into_iter().flatten());
        canvas.area(shade, 1.0, Ink::Live)?;
    }
    let mut ends = Vec::new();
    for (index, points) in &panel.curves {
        let Some(last) = points.last() else { continue };
        let is_drawn = |value: f64| panel.y.1 == Spacing::Even || value > 0.0;
        let parts = points.chunk_by(|(_, one), (_, other)| is_drawn(*one) == is_drawn(*other));
        let parts = parts.filter(|part| part.iter().all(|(_, value)| is_drawn(*value)));
        let lines: Vec<_> =
            parts.map(|part| thinned(part.iter().map(|(at, value)| (x.at(*at), y.at(*value))))).collect();
        let line = lines.concat();
        let (style, name) = (&selection.styles[*index], &selection.standings[*index].subject.name);
        if panel.stroke == Stroke::Marked {
            let every = (line.len() / 12).max(1);
            for place in line.iter().skip(every / 2).step_by(every) {
                canvas.marker(*place, 3, style.marker, true, Ink::Allocator(*index))?;
            }
        }
        ends.push((*index, (x.at(last.0), y.at(last.1)), last.1));
        let values = points.iter().map(|(along, value)| ((x.at(*along), y.at(*value)), *along, *value));
        canvas.tooltips((*index, name), [&panel.x.0, &panel.y.0], values);
        if panel.stroke == Stroke::Points {
            let places: BTreeSet<(i32, i32)> = line.iter().map(|(x, y)| (x / 3 * 3, y / 3 * 3)).collect();
            for (x, y) in places {
                canvas.bar((x - 1, y - 1), (x + 1, y + 1), 0.7, Ink::Allocator(*index))?;
            }
        } else {
            for line in &lines {
                canvas.line(straightened(line), style.line_width, Ink::Allocator(*index))?;
            }
        }
    }
    for (index, points) in &panel.published {
        let places: Vec<(i32, i32)> = points.iter().map(|(along, value)| (x.at(*along), y.at(*value))).collect();
        for pair in places.windows(2) {
            dashed(canvas, pair[0], pair[1], Ink::Allocator(*index))?;
        }
        for place in &places {
            canvas.marker(*place, 5, selection.styles[*index].marker, false, Ink::Allocator(*index))?;
        }
        let name = format!("{}, published", selection.standings[*index].subject.name);
        let values = points.iter().map(|(along, value)| ((x.at(*along), y.at(*value)), *along, *value));
        canvas.tooltips((*index, &name), [&panel.x.0, &panel.y.0], values);
    }
    if !panel.published.is_empty() {
        canvas.text("hollow, dashed: published", (RIGHT, top - 7), Anchor::Right, 11, Ink::Faint)?;
    }
    ends.sort_by_key(|(_, (_, y), _)| *y);
    let wanted: Vec<i32> = ends.iter().map(|(_, (_, y), _)| *y).collect();
    for ((index, end, value), place) in
        ends.iter().zip(spread(&wanted, LABEL, top, floor - (bottom - floor).min(LABEL / 2)))
    {
        let ink = Ink::Allocator(*index);
        canvas.edge((end.0 + 4, end.1), (RIGHT + 26, place), 1, ink)?;
        canvas.marker((RIGHT + 33, place), 4, selection.styles[*index].marker, true, ink)?;
        canvas.text(
            &shortened(&selection.standings[*index].subject.name, 16),
            (RIGHT + 42, place),
            Anchor::Left,
            12,
            ink,
        )?;
        canvas.text(&formatted(*value), (996, place), Anchor::Right, 11, Ink::Faint)?;
    }
    for (row, marks) in (0..).zip(rows) {
        let middle = floor + row * MARKS + MARKS / 2;
        canvas.edge((LEFT, middle - MARKS / 2), (RIGHT, middle - MARKS / 2), 1, Ink::Faint)?;
        for at in apart(marks.at.iter().map(|at| x.at(*at))) {
            canvas.marker((at, middle), 3, marks.marker, true, Ink::Bad)?;
        }
        canvas.marker((RIGHT + 33, middle), 4, marks.marker, true, Ink::Bad)?;
        canvas.text(&marks.what, (RIGHT + 42, middle), Anchor::Left, 12, Ink::Bad)?;
        canvas.text(&number::grouped(marks.count), (996, middle), Anchor::Right, 11, Ink::Faint)?;
    }
    Ok(())
}

/// The places of marks: of those that would overlap, the first.
fn apart(places: impl Iterator<Item = i32>) -> Vec<i32> {
    const WIDTH: i32 = 7;
    let mut kept: Vec<i32> = Vec::new();
    for place in places {
        if kept.last().is_none_or(|last| place - last >= WIDTH) {
            kept.push(place);
        }
    }
    kept
}

/// A dashed line.
fn dashed(canvas: &mut Canvas<'_>, from: (i32, i32), to: (i32, i32), ink: Ink) -> Result<(), PlotError> {
    const DASH: i32 = 7;
    const PERIOD: i32 = 12;
    let (along, up) = (to.0 - from.0, to.1 - from.1);
    let length = along.abs().max(up.abs()).max(1);
    let at = |part: i32| (from.0 + along * part.min(length) / length, from.1 + up * part.min(length) / length);
    for start in (0..length).step_by(PERIOD as usize) {
        canvas.edge(at(start), at(start + DASH), 1, ink)?;
    }
    Ok(())
}

/// A value; a small non-integer has one decimal.
fn formatted(value: f64) -> String {
    if value.fract() == 0.0 { number::compact(value) } else { number::mean(value) }
}

/// The range of some values, from minimum to maximum.
fn powers_of_two(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let (least, most) = (values.clone().fold(f64::MAX, f64::min), values.fold(0.0, f64::max));
    (0..64).map(|power| 2_f64.powi(power)).filter(|power| (least..=most).contains(power)).collect()
}

/// Keeps the first, the lowest, the highest and the last point of each pixel column, which does not change the line's
/// appearance.
fn thinned(points: impl Iterator<Item = (i32, i32)>) -> Vec<(i32, i32)> {
    let mut line: Vec<(i32, i32)> = Vec::new();
    let mut column: Vec<(i32, i32)> = Vec::new();
    let flush = |column: &mut Vec<(i32, i32)>, line: &mut Vec<(i32, i32)>| {
        let (first, last) = (column.first().copied(), column.last().copied());
        let low = column.iter().copied().min_by_key(|(_, y)| *y);
        let high = column.iter().copied().max_by_key(|(_, y)| *y);
        for place in [first, low, high, last].into_iter().flatten() {
            if line.last() != Some(&place) {
                line.push(place);
            }
        }
        column.clear();
    };
    for point in points {
        if column.first().is_some_and(|(x, _)| *x != point.0) {
            flush(&mut column, &mut line);
        }
        column.push(point);
    }
    flush(&mut column, &mut line);
    line
}

/// Removes points on the straight line between their neighbours, which does not change the line.
fn straightened(line: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let mut kept: Vec<(i32, i32)> = Vec::with_capacity(line.len());
    for point in line {
        if let [.., (a, b), (c, d)] = kept[..]
            && (c - a).signum() == (point.0 - c).signum()
            && (d - b).signum() == (point.1 - d).signum()
            && (c - a) * (point.1 - d) == (point.0 - c) * (d - b)
        {
            kept.pop();
        }
        kept.push(*point);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_would_overlap_are_one() {
        assert_eq!(apart([3, 4, 9, 10, 11, 30].into_iter()), [3, 10, 30]);
    }

    #[test]
    fn thinning_keeps_ends_and_extremes_of_every_column() {
        let points = [(0, 5), (0, 9), (0, 1), (0, 4), (1, 3), (2, 7), (2, 7)];
        assert_eq!(thinned(points.into_iter()), [(0, 5), (0, 1), (0, 9), (0, 4), (1, 3), (2, 7)]);
        assert!(thinned(std::iter::empty()).is_empty());
    }

    #[test]
    fn a_straight_way_needs_its_ends_only() {
        let points = [(0, 5), (1, 5), (2, 5), (3, 6), (4, 7), (4, 9), (4, 7), (5, 8)];
        assert_eq!(straightened(&points), [(0, 5), (2, 5), (4, 7), (4, 9), (4, 7), (5, 8)]);
    }
}

//! The verdict's picture: worst observed instructions against the heap needed, over all traces.

use super::canvas::{Anchor, Canvas, Ink, PlotError, Point, Scale, sheet};
use super::{Cast, WIDTH, shortened};
use crate::present::number;
use crate::present::verdict::Verdict;

const LEFT: i32 = 84;
const RIGHT: i32 = 976;
const TOP: i32 = 20;
const BOTTOM: i32 = 430;
const TEXT: u32 = 13;

/// The allocators that served every trace, and the front of those of constant cost; `None` where there are none.
///
/// # Errors
///
/// See [`PlotError`].
pub fn pareto(verdict: &Verdict, cast: Cast<'_>) -> Result<Option<String>, PlotError> {
    let figures: Vec<(usize, f64, f64)> = verdict
        .standings
        .iter()
        .enumerate()
        .filter_map(|(index, standing)| {
            #[allow(clippy::cast_precision_loss)] // drawn
            standing.figures().map(|(worst, heap)| (index, worst.instructions as f64, heap.ratio))
        })
        .collect();
    let range = |values: &dyn Fn(&(usize, f64, f64)) -> f64| {
        figures.iter().map(values).fold(None, |range: Option<(f64, f64)>, value| {
            Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        })
    };
    let (Some(instructions), Some(heap)) = (range(&|figure| figure.1), range(&|figure| figure.2)) else {
        return Ok(None);
    };
    let x = Scale::logarithmic((heap.0 / 1.03, heap.1 * 1.12), (LEFT, RIGHT));
    let y = Scale::logarithmic((instructions.0.max(1.0) / 1.4, instructions.1 * 1.5), (BOTTOM, TOP));
    let points: Vec<(usize, Point)> =
        figures.iter().map(|(index, count, ratio)| (*index, (x.at(*ratio), y.at(*count)))).collect();
    let description = "Worst observed instructions against heap needed, over all traces";
    #[allow(clippy::cast_sign_loss)] // a sheet of positive size
    let svg = sheet(WIDTH, (BOTTOM + 50) as u32, cast.standings.len(), description, |canvas| {
        axes(canvas, &x, &y)?;
        let front = front_path(verdict, &points);
        if !front.is_empty() {
            canvas.line(front.clone(), 2, Ink::Chosen)?;
        }
        for (index, at) in &points {
            let constant = verdict.standings[*index].constant_cost();
            canvas.marker(*at, 6, cast.styles[*index].marker, constant, Ink::Allocator(*index))?;
            if verdict.take == Some(*index) {
                canvas.ring(*at, 13, Ink::Chosen)?;
            }
        }
        labels(canvas, verdict, &points, &front)
    })?;
    Ok(Some(svg))
}

fn axes(canvas: &mut Canvas<'_>, x: &Scale, y: &Scale) -> Result<(), PlotError> {
    for tick in x.ticks(54) {
        canvas.edge((x.at(tick), TOP), (x.at(tick), BOTTOM), 1, Ink::Grid)?;
        canvas.text(&format!("{tick:.2}"), (x.at(tick), BOTTOM + 15), Anchor::Middle, 12, Ink::Faint)?;
    }
    for tick in y.ticks(34) {
        canvas.edge((LEFT, y.at(tick)), (RIGHT, y.at(tick)), 1, Ink::Grid)?;
        canvas.text(&number::compact(tick), (LEFT - 8, y.at(tick)), Anchor::Right, 12, Ink::Faint)?;
    }
    canvas.text(
        "smallest heap / live memory M (worst trace)",
        ((LEFT + RIGHT) / 2, BOTTOM + 37),
        Anchor::Middle,
        13,
        Ink::Text,
    )?;
    canvas.text("instructions of the worst operation", (LEFT + 6, TOP - 10), Anchor::Left, 13, Ink::Text)
}

/// The steps that no candidate is below and to the left of.
fn front_path(verdict: &Verdict, points: &[(usize, Point)]) -> Vec<Point> {
    let at = |member: &usize| points.iter().find(|(index, _)| index == member).map(|(_, at)| *at);
    let members: Vec<Point> = verdict.front.iter().filter_map(at).collect();
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return Vec::new();
    };
    let mut path = vec![(RIGHT, first.1), *first];
    for pair in members.windows(2) {
        path.extend([(pair[0].0, pair[1].1), pair[1]]);
    }
    path.push((last.0, TOP));
    path
}

/// A rectangle that a label covers: left, top, right, bottom.
type Covered = (i32, i32, i32, i32);

/// Names beside their points, where they cover neither each other nor a point nor the front.
fn labels(
    canvas: &mut Canvas<'_>,
    verdict: &Verdict,
    points: &[(usize, Point)],
    front: &[Point],
) -> Result<(), PlotError> {
    let mut taken: Vec<Covered> = points.iter().map(|(_, (x, y))| (x - 8, y - 8, x + 8, y + 8)).collect();
    taken.extend(front.windows(2).map(|ends| {
        let ((a, b), (c, d)) = (ends[0], ends[1]);
        (a.min(c) - 1, b.min(d) - 1, a.max(c) + 1, b.max(d) + 1)
    }));
    for (index, at) in points {
        let name = shortened(&verdict.standings[*index].subject.name, 24);
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // a short name
        let width = name.chars().count() as i32 * 8;
        let own = if verdict.take == Some(*index) { 18 } else { 11 };
        let (place, anchor) = place(*at, width, own, &taken);
        taken.push(covered(place, anchor, width));
        if (place.1 - at.1).abs() > 24 || (place.0 - at.0).abs() > 24 {
            canvas.edge(*at, place, 1, Ink::Grid)?;
        }
        canvas.text(&name, place, anchor, TEXT, Ink::Allocator(*index))?;
    }
    Ok(())
}

fn covered((x, y): Point, anchor: Anchor, width: i32) -> Covered {
    let left = match anchor {
        Anchor::Left => x,
        Anchor::Middle => x - width / 2,
        Anchor::Right => x - width,
    };
    (left, y - 8, left + width, y + 8)
}

/// The nearest place for a label that is free and on the sheet.
fn place((x, y): Point, width: i32, own: i32, taken: &[Covered]) -> (Point, Anchor) {
    let candidates = (0..12).flat_map(|ring| {
        let away = own + ring * 9;
        let drop = ring * 14;
        [
            ((x + away, y), Anchor::Left),
            ((x - away, y), Anchor::Right),
            ((x, y - away - 5), Anchor::Middle),
            ((x, y + away + 5), Anchor::Middle),
            ((x + own, y - drop), Anchor::Left),
            ((x + own, y + drop), Anchor::Left),
            ((x - own, y - drop), Anchor::Right),
            ((x - own, y + drop), Anchor::Right),
        ]
    });
    let free = |place: &(Point, Anchor)| {
        let (left, top, right, bottom) = covered(place.0, place.1, width);
        let inside = left >= LEFT && right <= RIGHT && top >= TOP && bottom <= BOTTOM;
        inside && taken.iter().all(|other| right < other.0 || left > other.2 || bottom < other.1 || top > other.3)
    };
    candidates.into_iter().find(free).unwrap_or(((x + own, y), Anchor::Left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_cover_each_other() {
        let mut taken = Vec::new();
        for step in 0..8 {
            let (at, anchor) = place((300 + step, 200), 80, 11, &taken);
            let box_of = covered(at, anchor, 80);
            for other in &taken {
                let (left, top, right, bottom): Covered = *other;
                let apart = box_of.2 < left || box_of.0 > right || box_of.3 < top || box_of.1 > bottom;
                assert!(apart, "{box_of:?} {other:?}");
            }
            taken.push(box_of);
        }
    }
}

//! The verdict's figure: the worst operation's instructions, observed or bounded, over the heap needed, for all traces.

use super::canvas::{Anchor, Canvas, Ink, PlotError, Point, Scale, sheet};
use super::{WIDTH, shortened};
use crate::present::palette::Style;
use crate::present::summary::Standing;
use crate::present::verdict::Verdict;
use rtalloc_lab::number;

const LEFT: i32 = 84;
const RIGHT: i32 = 976;
const TOP: i32 = 20;
const BOTTOM: i32 = 430;
/// Height of the band for allocators with unknown instruction counts.
const UNKNOWN: i32 = 84;
const TEXT: u32 = 13;

/// The heap of allocators over all traces.
pub const HEAP: &str = "smallest heap / live memory M (worst trace)";

/// The content of the figure.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    /// All allocators; those that served every trace and whose heap is known are drawn.
    pub standings: &'a [Standing],
    /// The Pareto front, by increasing instructions.
    pub front: &'a [usize],
    /// The allocator marked with a ring.
    pub take: Option<usize>,
    /// The heap at which the ring is drawn; `None`: at the allocator's.
    pub take_at: Option<f64>,
    /// The instruction counts' origin.
    pub worst: &'a str,
    /// What a heap is measured in.
    pub heap: &'a str,
    /// A second heap of each allocator, with a small marker; empty if there is none. Where both are the same, there is
    /// the small marker alone.
    pub beside: &'a [Option<f64>],
    /// The label of the band for allocators with unknown instruction counts; `None` if they are not drawn.
    pub unknown: Option<&'a str>,
    /// The figure's description.
    pub description: &'a str,
}

impl<'a> Field<'a> {
    /// The allocators of a verdict, by observed instructions.
    #[must_use]
    pub fn of(verdict: &'a Verdict) -> Self {
        Self {
            standings: &verdict.standings,
            front: &verdict.front,
            take: verdict.take,
            take_at: None,
            worst: "instructions of the worst operation",
            heap: HEAP,
            beside: &[],
            unknown: None,
            description: "Worst observed instructions against heap needed, over all traces",
        }
    }
}

/// The allocators that served every trace, and the front; `None` if there are none.
///
/// # Errors
///
/// See [`PlotError`].
pub fn pareto(field: Field<'_>, styles: &[Style]) -> Result<Option<String>, PlotError> {
    #[allow(clippy::cast_precision_loss)] // drawn
    let figures: Vec<(usize, Option<f64>, f64)> = field
        .standings
        .iter()
        .enumerate()
        .filter(|(_, standing)| standing.troubles.is_empty())
        .filter_map(|(index, standing)| {
            let worst = standing.worst.as_ref().map(|worst| worst.instructions as f64);
            Some((index, worst, standing.heap.as_ref()?.ratio)).filter(|_| worst.is_some() || field.unknown.is_some())
        })
        .collect();
    let Some(instructions) = range(figures.iter().filter_map(|figure| figure.1)) else { return Ok(None) };
    let seconds = figures.iter().filter_map(|figure| field.beside.get(figure.0).copied().flatten());
    let Some(heap) = range(figures.iter().map(|figure| figure.2).chain(seconds).chain(field.take_at)) else {
        return Ok(None);
    };
    let x = Scale::logarithmic((heap.0 / 1.03, heap.1 * 1.12), (LEFT, RIGHT));
    // Above the instruction axis is room for the allocators with unknown counts.
    let top = if field.unknown.is_some() { TOP + UNKNOWN } else { TOP };
    let y = Scale::logarithmic((instructions.0.max(1.0) / 1.4, instructions.1 * 1.5), (BOTTOM, top));
    let at = |worst: Option<f64>, ratio: f64| (x.at(ratio), worst.map_or(TOP + UNKNOWN / 2, |worst| y.at(worst)));
    let points: Vec<(usize, Point)> =
        figures.iter().map(|(index, worst, ratio)| (*index, at(*worst, *ratio))).collect();
    #[allow(clippy::cast_sign_loss)] // a sheet of positive size
    let svg = sheet(WIDTH, (BOTTOM + 50) as u32, field.standings.len(), field.description, |canvas| {
        axes(canvas, field, &x, &y)?;
        let front = front_path(field, &points);
        if !front.is_empty() {
            canvas.line(front.clone(), 2, Ink::Chosen)?;
        }
        for ((index, at), (_, worst, ratio)) in points.iter().zip(&figures) {
            let standing = &field.standings[*index];
            if let Some(beside) = field.beside.get(*index).copied().flatten() {
                let second = (x.at(beside), at.1);
                canvas.edge(second, *at, 1, Ink::Allocator(*index))?;
                canvas.marker(second, 3, styles[*index].marker, true, Ink::Allocator(*index))?;
            }
            if field.beside.get(*index) != Some(&Some(*ratio)) {
                canvas.marker(*at, 6, styles[*index].marker, standing.constant_cost(), Ink::Allocator(*index))?;
            }
            if field.take == Some(*index) {
                let ring = field.take_at.map_or(*at, |heap| (x.at(heap), at.1));
                canvas.edge(ring, *at, 1, Ink::Chosen)?;
                canvas.ring(ring, 13, Ink::Chosen)?;
            }
            let worst_is = if worst.is_some() { field.worst } else { field.unknown.unwrap_or_default() };
            let tips = (*at, *ratio, worst.unwrap_or(0.0));
            canvas.tooltips((*index, &standing.subject.name), [field.heap, worst_is], [tips]);
        }
        labels(canvas, field, &points, &front)
    })?;
    Ok(Some(svg))
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    })
}

fn axes(canvas: &mut Canvas<'_>, field: Field<'_>, x: &Scale, y: &Scale) -> Result<(), PlotError> {
    if let Some(unknown) = field.unknown {
        canvas.bar((LEFT, TOP), (RIGHT, TOP + UNKNOWN), 1.0, Ink::Live)?;
        canvas.text(unknown, (RIGHT - 8, TOP + 12), Anchor::Right, 12, Ink::Faint)?;
    }
    for tick in x.ticks(54) {
        canvas.edge((x.at(tick), TOP), (x.at(tick), BOTTOM), 1, Ink::Grid)?;
        let text = if tick < 10.0 { format!("{tick:.2}") } else { number::tick(tick) };
        canvas.text(&text, (x.at(tick), BOTTOM + 15), Anchor::Middle, 12, Ink::Faint)?;
    }
    for tick in y.ticks(34) {
        canvas.edge((LEFT, y.at(tick)), (RIGHT, y.at(tick)), 1, Ink::Grid)?;
        canvas.text(&number::tick(tick), (LEFT - 8, y.at(tick)), Anchor::Right, 12, Ink::Faint)?;
    }
    canvas.text(field.heap, ((LEFT + RIGHT) / 2, BOTTOM + 37), Anchor::Middle, 13, Ink::Text)?;
    canvas.text(field.worst, (LEFT + 6, TOP - 10), Anchor::Left, 13, Ink::Text)
}

/// The staircase below and to the left of which there are no candidates.
fn front_path(field: Field<'_>, points: &[(usize, Point)]) -> Vec<Point> {
    let at = |member: &usize| points.iter().find(|(index, _)| index == member).map(|(_, at)| *at);
    let members: Vec<Point> = field.front.iter().filter_map(at).collect();
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

/// The rectangle of a label: left, top, right, bottom.
type Covered = (i32, i32, i32, i32);

/// Half the edge of the square around a point that is kept free of labels.
const MARKER: i32 = 8;
/// Maximum distance of a label without a leader line from its point.
const NEAR: i32 = 24;
/// The margin by which a label without a leader line must be closer to its own point than to any other.
const MARGIN: i32 = 8;

/// A point to be labelled.
struct Named {
    at: Point,
    /// Width of the label.
    width: i32,
    /// Minimum distance of the label from the point.
    own: i32,
}

/// The position of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    at: Point,
    anchor: Anchor,
    /// The end of the leader line from the point, if the label would otherwise be ambiguous.
    leader: Option<Point>,
}

/// Labels points such that labels overlap neither each other, nor a point, nor the front.
fn labels(
    canvas: &mut Canvas<'_>,
    field: Field<'_>,
    points: &[(usize, Point)],
    front: &[Point],
) -> Result<(), PlotError> {
    // The selected allocator gets the best position, since its label is the most important.
    let mut points = points.to_vec();
    points.sort_by_key(|(index, _)| field.take != Some(*index));
    let names: Vec<String> =
        points.iter().map(|(index, _)| shortened(&field.standings[*index].subject.name, 24)).collect();
    let named: Vec<Named> = points
        .iter()
        .zip(&names)
        .map(|((index, at), name)| Named {
            at: *at,
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // a short name
            width: name.chars().count() as i32 * 8,
            own: if field.take == Some(*index) { 18 } else { 11 },
        })
        .collect();
    for (((index, at), name), place) in points.iter().zip(&names).zip(arranged(&named, front)) {
        if let Some(end) = place.leader {
            canvas.edge(*at, end, 1, Ink::Allocator(*index))?;
        }
        canvas.text(name, place.at, place.anchor, TEXT, Ink::Allocator(*index))?;
    }
    Ok(())
}

/// A position for every label, in the order of `named`: earlier labels have priority.
fn arranged(named: &[Named], front: &[Point]) -> Vec<Place> {
    let mut taken: Vec<Covered> =
        named.iter().map(|Named { at: (x, y), .. }| (x - MARKER, y - MARKER, x + MARKER, y + MARKER)).collect();
    taken.extend(front.windows(2).map(|ends| {
        let ((a, b), (c, d)) = (ends[0], ends[1]);
        (a.min(c) - 1, b.min(d) - 1, a.max(c) + 1, b.max(d) + 1)
    }));
    let mut places = Vec::with_capacity(named.len());
    for (index, point) in named.iter().enumerate() {
        let others: Vec<Point> =
            named.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other.at).collect();
        let place = place(point, &others, &taken);
        taken.push(covered(place.at, place.anchor, point.width));
        places.push(place);
    }
    places
}

fn covered((x, y): Point, anchor: Anchor, width: i32) -> Covered {
    let left = match anchor {
        Anchor::Left => x,
        Anchor::Middle => x - width / 2,
        Anchor::Right => x - width,
    };
    (left, y - 8, left + width, y + 8)
}

/// The point of a rectangle closest to another point.
fn nearest((left, top, right, bottom): Covered, (x, y): Point) -> Point {
    (x.clamp(left, right), y.clamp(top, bottom))
}

fn distance((a, b): Point, (c, d): Point) -> f64 {
    f64::from(a - c).hypot(f64::from(b - d))
}

/// The distance of a point from the line segment between two others.
fn passes(from: Point, to: Point, third: Point) -> f64 {
    let along = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
    let offset = (f64::from(third.0 - from.0), f64::from(third.1 - from.1));
    let length = along.0 * along.0 + along.1 * along.1;
    let share = if length > 0.0 { ((offset.0 * along.0 + offset.1 * along.1) / length).clamp(0.0, 1.0) } else { 0.0 };
    (offset.0 - share * along.0).hypot(offset.1 - share * along.1)
}

/// The nearest free position at which the label is unambiguous: by its distance alone, or with a leader line that
/// passes no other point.
fn place(point: &Named, others: &[Point], taken: &[Covered]) -> Place {
    let ((x, y), own) = (point.at, point.own);
    let box_at = |place: &(Point, Anchor)| covered(place.0, place.1, point.width);
    let free = |place: &(Point, Anchor)| {
        let (left, top, right, bottom) = box_at(place);
        let inside = left >= LEFT && right <= RIGHT && top >= TOP && bottom <= BOTTOM;
        inside && taken.iter().all(|other| right < other.0 || left > other.2 || bottom < other.1 || top > other.3)
    };
    let candidates: Vec<(Point, Anchor)> = (0..12)
        .flat_map(|ring| {
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
                ((x + away, y - drop), Anchor::Left),
                ((x + away, y + drop), Anchor::Left),
                ((x - away, y - drop), Anchor::Right),
                ((x - away, y + drop), Anchor::Right),
            ]
        })
        .filter(free)
        .collect();
    let plain = |place: &&(Point, Anchor)| {
        let covered = box_at(place);
        let own = distance(nearest(covered, point.at), point.at);
        own <= f64::from(NEAR)
            && others.iter().all(|other| distance(nearest(covered, *other), *other) >= own + f64::from(MARGIN))
    };
    if let Some((at, anchor)) = candidates.iter().find(plain) {
        return Place { at: *at, anchor: *anchor, leader: None };
    }
    let end = |place: &(Point, Anchor)| nearest(box_at(place), point.at);
    let clear = |place: &&(Point, Anchor)| {
        others.iter().all(|other| passes(point.at, end(place), *other) > f64::from(MARKER + 1))
    };
    let chosen = candidates.iter().find(clear).or(candidates.first()).copied().unwrap_or(((x + own, y), Anchor::Left));
    Place { at: chosen.0, anchor: chosen.1, leader: Some(end(&chosen)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clusters like those of real runs, and coincident points.
    fn crowds() -> Vec<Vec<Point>> {
        vec![
            (0..8).map(|step| (300 + step, 200)).collect(),
            vec![(500, 200), (560, 205), (545, 230), (520, 190), (515, 215)],
            vec![(400, 300); 4],
            (0..12).map(|step| (200 + step % 4 * 30, 100 + step / 4 * 20)).collect(),
        ]
    }

    fn named(points: &[Point]) -> Vec<Named> {
        points
            .iter()
            .enumerate()
            .map(|(index, at)| Named { at: *at, width: 80, own: if index == 0 { 18 } else { 11 } })
            .collect()
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        for points in crowds() {
            let mut boxes: Vec<Covered> = Vec::new();
            for place in arranged(&named(&points), &[]) {
                let (left, top, right, bottom) = covered(place.at, place.anchor, 80);
                for other in &boxes {
                    let apart = right < other.0 || left > other.2 || bottom < other.1 || top > other.3;
                    assert!(apart, "{place:?} {other:?}");
                }
                boxes.push((left, top, right, bottom));
            }
        }
    }

    #[test]
    fn the_nearest_marker_of_a_label_is_its_own_or_a_leader_connects_them() {
        for points in crowds() {
            for (index, place) in arranged(&named(&points), &[]).into_iter().enumerate() {
                let covered = covered(place.at, place.anchor, 80);
                if let Some(end) = place.leader {
                    assert_eq!(nearest(covered, end), end, "the leader ends at the label");
                    continue;
                }
                let from = |point: &Point| distance(nearest(covered, *point), *point);
                let others = points.iter().enumerate().filter(|(other, _)| *other != index);
                let nearest_other = others.map(|(_, point)| from(point)).fold(f64::INFINITY, f64::min);
                assert!(from(&points[index]) < nearest_other, "{points:?} {index} {place:?}");
            }
        }
    }

    #[test]
    fn a_label_with_room_has_no_leader() {
        let places = arranged(&named(&[(300, 200), (600, 300)]), &[]);
        assert!(places.iter().all(|place| place.leader.is_none()), "{places:?}");
        assert_eq!(places[0].at, (318, 200));
    }

    #[test]
    fn a_leader_passes_no_other_point_where_there_is_room() {
        let points = &crowds()[1];
        for (index, place) in arranged(&named(points), &[]).into_iter().enumerate() {
            let Some(end) = place.leader else { continue };
            for (_, other) in points.iter().enumerate().filter(|(other, _)| *other != index) {
                assert!(passes(points[index], end, *other) > f64::from(MARKER), "{place:?} {other:?}");
            }
        }
    }
}

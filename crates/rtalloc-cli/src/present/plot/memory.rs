//! Memory over a trace: live memory, and the memory that each allocator used for it.

use super::canvas::{Anchor, Ink, PlotError, Scale, sheet};
use super::{Selection, WIDTH, shortened, spread};
use crate::present::{metric, summary};
use rtalloc_lab::number;
use rtalloc_lab::result::schema::{Curve, Outcome, TraceResult};

const LEFT: i32 = 78;
const RIGHT: i32 = 790;
const TOP: i32 = 16;
const BOTTOM: i32 = 376;
const LABEL: i32 = 15;
/// Used memory beyond this multiple of M is drawn at the upper edge, so that one outlier does not compress the rest.
pub const HIGHEST_SHARE: f64 = 2.0;
/// Maximum points of a curve; more are not visible at this width.
const POINTS: usize = 240;

/// Live and used memory over the operations of a trace, up to a multiple of M; `None` if no allocator has a curve.
///
/// # Errors
///
/// See [`PlotError`].
pub fn memory(result: &TraceResult, selection: Selection<'_>, highest_share: f64) -> Result<Option<String>, PlotError> {
    let mut curves: Vec<(usize, Vec<(u64, u64)>)> = selection
        .standings
        .iter()
        .enumerate()
        .filter_map(|(index, standing)| {
            let cell = summary::cell_of(result, &standing.subject.name)?;
            let mut points = thinned(&cell.space.as_ref()?.used);
            let (_, end) = *points.last()?;
            if !matches!(cell.outcome, Outcome::TimedOut { .. }) {
                // After its last change, it stays constant to the end of the trace.
                points.push((metric::operations(&result.trace), end));
            }
            Some((index, points))
        })
        .collect();
    if curves.is_empty() {
        return Ok(None);
    }
    let live = thinned(&result.trace.live);
    let last_index = live.iter().chain(curves.iter().flat_map(|(_, points)| points)).map(|(at, _)| *at).max();
    let most = curves.iter().flat_map(|(_, points)| points).map(|(_, used)| *used).max().unwrap_or(0);
    #[allow(clippy::cast_precision_loss)] // drawn
    let (operations, peak, most) = (last_index.unwrap_or(1) as f64, result.trace.peak_live_bytes as f64, most as f64);
    let x = Scale::linear((0.0, operations), (LEFT, RIGHT));
    let y = Scale::linear((0.0, most.min(peak * highest_share).max(peak) * 1.03), (BOTTOM, TOP));
    let final_of = |points: &[(u64, u64)]| points.last().map_or(0, |(_, used)| *used);
    curves.sort_by_key(|(_, points)| std::cmp::Reverse(final_of(points)));
    #[allow(clippy::cast_precision_loss)] // drawn
    let at = |(index, bytes): &(u64, u64)| (x.at(*index as f64), y.at(*bytes as f64));
    let description = format!("Live and used memory over the operations of {}", result.trace.name);
    #[allow(clippy::cast_sign_loss)] // a sheet of positive size
    let svg = sheet(WIDTH, (BOTTOM + 46) as u32, selection.standings.len(), &description, |canvas| {
        for tick in y.ticks_in(byte_unit(peak), 44) {
            canvas.edge((LEFT, y.at(tick)), (RIGHT, y.at(tick)), 1, Ink::Grid)?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sizes
            let label = if tick == 0.0 { "0".to_owned() } else { number::bytes(tick.round() as u64) };
            canvas.text(&label, (LEFT - 8, y.at(tick)), Anchor::Right, 11, Ink::Faint)?;
        }
        for tick in x.ticks(90) {
            canvas.text(&number::tick(tick), (x.at(tick), BOTTOM + 14), Anchor::Middle, 11, Ink::Faint)?;
        }
        canvas.text("operations replayed", ((LEFT + RIGHT) / 2, BOTTOM + 34), Anchor::Middle, 13, Ink::Text)?;
        let mut shade: Vec<(i32, i32)> = live.iter().map(at).collect();
        shade.insert(0, (shade.first().map_or(LEFT, |first| first.0), BOTTOM));
        shade.push((shade.last().map_or(LEFT, |last| last.0), BOTTOM));
        canvas.area(shade, 1.0, Ink::Live)?;
        for (index, points) in curves.iter().rev() {
            canvas.line(steps(points.iter().map(at)), selection.styles[*index].line_width, Ink::Allocator(*index))?;
            #[allow(clippy::cast_precision_loss)] // tooltip value
            let tips = points.iter().map(|point| (at(point), point.0 as f64, point.1 as f64));
            canvas.tooltips((*index, &selection.standings[*index].subject.name), ["operations", "bytes used"], tips);
        }
        canvas.edge((LEFT, BOTTOM), (RIGHT, BOTTOM), 1, Ink::Faint)?;
        let ends: Vec<(i32, i32)> = curves.iter().filter_map(|(_, points)| points.last().map(at)).collect();
        let wanted: Vec<i32> = ends.iter().map(|(_, y)| *y).collect();
        let places = spread(&wanted, LABEL, TOP, BOTTOM + 30);
        for (((index, points), end), place) in curves.iter().zip(ends).zip(places) {
            let ink = Ink::Allocator(*index);
            canvas.edge((end.0, end.1), (RIGHT + 26, place), 1, Ink::Grid)?;
            canvas.marker((RIGHT + 34, place), 4, selection.styles[*index].marker, true, ink)?;
            let name = shortened(&selection.standings[*index].subject.name, 15);
            canvas.text(&name, (RIGHT + 44, place), Anchor::Left, 12, ink)?;
            let size = number::bytes(final_of(points));
            canvas.text(&size, (996, place), Anchor::Right, 11, Ink::Faint)?;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

fn byte_unit(peak: f64) -> f64 {
    if peak >= 1_048_576.0 {
        1_048_576.0
    } else if peak >= 1024.0 {
        1024.0
    } else {
        1.0
    }
}

/// A step curve: used memory is constant between the operations that change it.
fn steps(points: impl Iterator<Item = (i32, i32)>) -> Vec<(i32, i32)> {
    let mut path: Vec<(i32, i32)> = Vec::new();
    for (x, y) in points {
        match path.last() {
            Some((_, last)) if *last != y => path.extend([(x, *last), (x, y)]),
            Some(_) if path.len() > 1 && path[path.len() - 2].1 == y => {
                path.pop();
                path.push((x, y));
            }
            _ => path.push((x, y)),
        }
    }
    path
}

/// At most [`POINTS`] points: the maximum of each group, and the last point.
fn thinned(curve: &Curve) -> Vec<(u64, u64)> {
    let group = curve.points.len().div_ceil(POINTS).max(1);
    let mut points: Vec<(u64, u64)> =
        curve.points.chunks(group).filter_map(|chunk| chunk.iter().max_by_key(|(_, bytes)| *bytes).copied()).collect();
    points.extend(curve.points.last().filter(|last| points.last() != Some(last)));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_peaks_and_the_end() {
        let curve = Curve { points: (0..1000).map(|at| (at, if at == 777 { 99 } else { 1 })).collect() };
        let points = thinned(&curve);
        assert!(points.len() <= POINTS + 1);
        assert!(points.contains(&(777, 99)));
        assert_eq!(points.last(), Some(&(999, 1)));
        assert!(thinned(&Curve::default()).is_empty());
    }

    #[test]
    fn steps_merge_what_is_level() {
        assert_eq!(steps([(0, 5), (1, 5), (2, 5), (3, 2)].into_iter()), [(0, 5), (2, 5), (3, 5), (3, 2)]);
    }
}

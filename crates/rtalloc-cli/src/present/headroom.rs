//! The largest request that succeeds over a trace, as a figure.

use super::palette::{self, Marker};
use super::plot::curves::{Marks, Panel, Spacing, Stroke, curves};
use super::plot::{PlotError, Selection, standalone};
use super::summary::{Standing, named};
use rtalloc_lab::number;
use rtalloc_lab::result::headroom::{Headroom, Point};

/// The figure: the largest request that succeeds beside the largest one that follows; `None` if there is no operation.
///
/// # Errors
///
/// See [`PlotError`].
pub fn figure(headroom: &Headroom, trace: &str) -> Result<Option<String>, PlotError> {
    let heap = number::bytes(headroom.heap_bytes);
    let title = format!("{}: largest request on {}, heap of {heap}", super::printable(trace), headroom.allocator);
    let panel = Panel {
        title: title.clone(),
        x: ("operations of the trace".into(), Spacing::Even),
        y: ("bytes, on a logarithmic scale; of each interval, the least that succeeds".into(), Spacing::Logarithmic),
        curves: vec![
            (0, steps(&headroom.points, |point| point.succeeds_bytes)),
            (1, steps(&headroom.points, |point| point.follows_bytes)),
        ],
        stroke: Stroke::Lines,
        published: Vec::new(),
        marks: vec![
            marks("falls below", Marker::Down, &headroom.points, |point| point.falls),
            marks("refused", Marker::Cross, &headroom.points, |point| point.refused),
        ],
    };
    let standings: Vec<Standing> = [named("succeeds", ""), named("follows", "")].into();
    let styles = palette::of(&standings);
    let drawn = curves(&[panel], Selection { standings: &standings, styles: &styles }, &title)?;
    Ok(drawn.map(|drawn| standalone(&drawn, &styles)))
}

/// The intervals in which something happens.
fn marks(what: &str, marker: Marker, points: &[Point], count: impl Fn(&Point) -> u64) -> Marks {
    let happens = points.iter().filter(|point| count(point) > 0);
    #[allow(clippy::cast_precision_loss)] // drawn
    let at = happens.map(|point| point.operation as f64).collect();
    Marks { what: what.into(), marker, count: points.iter().map(count).sum(), at }
}

/// A step curve: a value holds from the first operation of its interval to that of the next.
fn steps(points: &[Point], value: impl Fn(&Point) -> u64) -> Vec<(f64, f64)> {
    let mut curve: Vec<(f64, f64)> = Vec::new();
    for point in points {
        #[allow(clippy::cast_precision_loss)] // drawn
        let (at, value) = (point.operation as f64, value(point) as f64);
        if let Some((_, last)) = curve.last().copied().filter(|(_, last)| *last != value) {
            curve.push((at, last));
        }
        curve.push((at, value));
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_follows_is_not_drawn() {
        let figure = |follows: [u64; 5]| {
            let points = (0..).zip(follows).map(|(operation, follows_bytes)| Point {
                operation: 10 * operation,
                succeeds_bytes: 500,
                follows_bytes,
                falls: 0,
                refused: 0,
            });
            let headroom = Headroom {
                allocator: "tlsf".into(),
                heap_bytes: 4096,
                stride: 1,
                is_exact: true,
                points: points.collect(),
                queries: 5,
                below: 0,
                first: None,
                refused: 0,
                beyond_reach: 0,
                refusal: None,
            };
            figure(&headroom, "trace").expect("drawn").expect("points").matches("<polyline").count()
        };
        assert_eq!(figure([90, 90, 50, 50, 50]), 2);
        assert_eq!(figure([90, 90, 0, 50, 50]), 3);
        assert_eq!(figure([90, 90, 50, 0, 0]), 2);
        assert_eq!(figure([0; 5]), 1);
    }

    #[test]
    fn a_value_holds_until_the_next_interval() {
        let of =
            |operation, succeeds_bytes| Point { operation, succeeds_bytes, follows_bytes: 0, falls: 0, refused: 0 };
        let points = [of(0, 5), of(10, 5), of(20, 3)];
        let curve = steps(&points, |point| point.succeeds_bytes);
        assert_eq!(curve, [(0.0, 5.0), (10.0, 5.0), (20.0, 5.0), (20.0, 3.0)]);
    }
}

//! Small multiples: many small panels side by side, each with bars or stacked areas.

use super::WIDTH;
use super::canvas::{Anchor, Canvas, Ink, PlotError, Scale, sheet};
use super::curves::Spacing;
use rtalloc_lab::number;

/// Room to the left of each panel, for the labels of its axis.
const LEFT: i32 = 62;
/// Gap between a panel and the next one's labels.
const RIGHT: i32 = 18;
/// Room above each panel, for its title.
const HEAD: i32 = 40;
/// Height of a panel.
const HEIGHT: i32 = 150;
/// Room below each panel, for its axis.
const FOOT: i32 = 42;

/// The content of a panel.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Bars: from, to, height.
    Bars(Vec<(f64, f64, f64)>),
    /// Stacked areas from the bottom up: opacity, and heights by position; all have the same positions.
    Areas(Vec<(f64, Vec<(f64, f64)>)>),
}

impl Shape {
    /// The largest position, and the minimum and maximum of the nonzero heights.
    fn extent(&self) -> (f64, f64, f64) {
        let mut extent = (0.0_f64, f64::MAX, 0.0_f64);
        let mut note = |x: f64, y: f64| {
            extent = (extent.0.max(x), if y > 0.0 { extent.1.min(y) } else { extent.1 }, extent.2.max(y));
        };
        match self {
            Self::Bars(bars) => bars.iter().for_each(|(_, to, height)| note(*to, *height)),
            Self::Areas(areas) => stacked(areas).iter().flatten().for_each(|(x, y)| note(*x, *y)),
        }
        extent
    }
}

/// A panel.
#[derive(Clone, Debug)]
pub struct Multiple {
    /// Its title.
    pub title: String,
    /// A key figure beside the title; may be empty.
    pub remark: String,
    /// The quantity along x.
    pub x: String,
    /// The quantity along y, and its scale.
    pub y: (String, Spacing),
    /// Index of the allocator whose colour it has.
    pub index: usize,
    /// The content.
    pub shape: Shape,
}

/// Draws panels in the given number of columns, row by row, in the colours of `allocators` allocators.
///
/// # Errors
///
/// See [`PlotError`].
pub fn multiples(
    panels: &[Multiple],
    columns: usize,
    allocators: usize,
    description: &str,
) -> Result<String, PlotError> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // a few panels
    let (rows, columns) = (panels.len().div_ceil(columns.max(1)) as i32, columns.max(1) as i32);
    let width = WIDTH.cast_signed() / columns;
    let full = rows * (HEAD + HEIGHT + FOOT);
    sheet(WIDTH, full.unsigned_abs(), allocators, description, |canvas| {
        for (place, panel) in (0..).zip(panels) {
            let (column, row) = (place % columns, place / columns);
            let (left, top) = (column * width + LEFT, row * (HEAD + HEIGHT + FOOT) + HEAD);
            one(canvas, panel, (left, (column + 1) * width - RIGHT), (top, top + HEIGHT))?;
        }
        Ok(())
    })
}

/// The upper edge of each area.
fn stacked(areas: &[(f64, Vec<(f64, f64)>)]) -> Vec<Vec<(f64, f64)>> {
    let mut edges: Vec<Vec<(f64, f64)>> = Vec::new();
    for (_, area) in areas {
        let below = |place: usize| edges.last().and_then(|edge| edge.get(place)).map_or(0.0, |(_, height)| *height);
        let edge = area.iter().enumerate().map(|(place, (x, height))| (*x, below(place) + height)).collect();
        edges.push(edge);
    }
    edges
}

fn one(
    canvas: &mut Canvas<'_>,
    panel: &Multiple,
    (left, right): (i32, i32),
    (top, bottom): (i32, i32),
) -> Result<(), PlotError> {
    let (last, least, most) = panel.shape.extent();
    let x = Scale::linear((0.0, last), (left, right));
    let y = match panel.y.1 {
        Spacing::Even => Scale::linear((0.0, most * 1.05), (bottom, top)),
        Spacing::Logarithmic | Spacing::Doubling => {
            Scale::logarithmic((least.min(most) / 1.5, most * 1.2), (bottom, top))
        }
    };
    canvas.text(&panel.title, (left, top - 24), Anchor::Left, 13, Ink::Text)?;
    canvas.text(&panel.remark, (right, top - 24), Anchor::Right, 11, Ink::Faint)?;
    canvas.text(&panel.y.0, (left, top - 8), Anchor::Left, 10, Ink::Faint)?;
    for tick in y.ticks(28) {
        canvas.edge((left, y.at(tick)), (right, y.at(tick)), 1, Ink::Grid)?;
        canvas.text(&number::tick(tick), (left - 7, y.at(tick)), Anchor::Right, 10, Ink::Faint)?;
    }
    for tick in x.ticks(64) {
        canvas.text(&number::tick(tick), (x.at(tick), bottom + 12), Anchor::Middle, 10, Ink::Faint)?;
    }
    canvas.text(&panel.x, ((left + right) / 2, bottom + 27), Anchor::Middle, 11, Ink::Text)?;
    let ink = Ink::Allocator(panel.index);
    let tips: Vec<(f64, f64)> = match &panel.shape {
        Shape::Bars(bars) => bars.iter().map(|(from, _, height)| (*from, *height)).collect(),
        Shape::Areas(areas) => stacked(areas).pop().unwrap_or_default(),
    };
    let tips = tips.into_iter().map(|(along, height)| ((x.at(along), y.at(height)), along, height));
    canvas.tooltips((panel.index, &panel.title), [&panel.x, &panel.y.0], tips);
    match &panel.shape {
        Shape::Bars(bars) => {
            for (from, to, height) in bars.iter().filter(|(.., height)| *height > 0.0) {
                let (from, to) = (x.at(*from), x.at(*to) - 1);
                canvas.bar((from, y.at(*height)), (to.max(from + 1), bottom), 0.85, ink)?;
            }
        }
        Shape::Areas(areas) => {
            let mut lower = vec![(left, bottom), (right, bottom)];
            for ((opacity, _), edge) in areas.iter().zip(stacked(areas)) {
                let upper: Vec<(i32, i32)> = edge.iter().map(|(at, height)| (x.at(*at), y.at(*height))).collect();
                if upper.len() > 1 {
                    let outline = upper.iter().copied().chain(lower.iter().rev().copied()).collect();
                    canvas.area(outline, *opacity, ink)?;
                    lower = upper;
                }
            }
        }
    }
    canvas.edge((left, bottom), (right, bottom), 1, Ink::Faint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_lie_upon_one_another() {
        let areas = [(1.0, vec![(0.0, 1.0), (1.0, 2.0)]), (0.5, vec![(0.0, 3.0), (1.0, 0.0)])];
        assert_eq!(stacked(&areas), [vec![(0.0, 1.0), (1.0, 2.0)], vec![(0.0, 4.0), (1.0, 2.0)]]);
        assert_eq!(Shape::Areas(areas.into()).extent(), (1.0, 1.0, 4.0));
        assert_eq!(Shape::Bars(vec![(0.0, 8.0, 0.0), (8.0, 16.0, 3.0)]).extent(), (16.0, 3.0, 3.0));
    }

    #[test]
    fn panels_without_anything_can_be_drawn() {
        let panel = Multiple {
            title: "nothing".into(),
            remark: String::new(),
            x: "x".into(),
            y: ("y".into(), Spacing::Logarithmic),
            index: 0,
            shape: Shape::Bars(Vec::new()),
        };
        let svg = multiples(&[panel.clone(), panel], 2, 1, "two").expect("drawn");
        assert_eq!(svg.matches("nothing</text>").count(), 2, "{svg}");
    }
}

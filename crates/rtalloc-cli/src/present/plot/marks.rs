//! Dot plots: one row per allocator with the published values above ours, and panels side by side on a common scale.

use super::canvas::{Anchor, Canvas, Ink, PlotError, Scale, sheet};
use super::{NAMES, Selection, WIDTH, row_middle, row_names, rows_height};
use crate::present::palette::Marker;
use rtalloc_lab::number;

/// The shapes of the values of a row, in order.
const SHAPES: [Marker; 3] = [Marker::Circle, Marker::Diamond, Marker::Square];
const TOP: i32 = 44;
const GAP: i32 = 24;
/// Room below the rows for the axis and the legend.
const FOOT: i32 = 62;
/// Vertical offset of published marks above, and of ours below, the middle of a row.
const LANE: i32 = 5;

/// A panel.
pub struct Panel {
    /// Its title.
    pub title: String,
    /// Published values and ours, by allocator; values in the order of the marks.
    pub rows: Vec<[Option<Vec<f64>>; 2]>,
}

/// Draws panels; `marks` are the names of a row's values. `None` if no value is positive.
///
/// # Errors
///
/// See [`PlotError`].
pub fn marks(
    panels: &[Panel],
    marks: &[&str],
    selection: Selection<'_>,
    description: &str,
) -> Result<Option<String>, PlotError> {
    let values = || panels.iter().flat_map(|panel| panel.rows.iter().flatten().flatten().flatten()).copied();
    let Some(low) = values().filter(|value| *value > 0.0).min_by(f64::total_cmp) else { return Ok(None) };
    let low = low / 1.2;
    let high = values().fold(low * 10.0, f64::max) * 1.2;
    let rows = selection.standings.len();
    let bottom = TOP + rows_height(rows);
    #[allow(clippy::cast_sign_loss)] // a sheet of positive size
    let height = (bottom + FOOT) as u32;
    let svg = sheet(WIDTH, height, rows, description, |canvas| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // two panels
        let count = panels.len().max(1) as i32;
        #[allow(clippy::cast_possible_wrap)] // a sheet
        let width = (WIDTH as i32 - NAMES - 24 - GAP * (count - 1)) / count;
        row_names(canvas, selection, TOP)?;
        for (number, panel) in (0..).zip(panels) {
            let left = NAMES + number * (width + GAP);
            let x = Scale::logarithmic((low, high), (left, left + width));
            canvas.text(&panel.title, (left + width / 2, 14), Anchor::Middle, 14, Ink::Text)?;
            for tick in x.ticks(50) {
                canvas.edge((x.at(tick), TOP - 4), (x.at(tick), bottom), 1, Ink::Grid)?;
                for y in [TOP - 13, bottom + 14] {
                    canvas.text(&short(tick), (x.at(tick), y), Anchor::Middle, 11, Ink::Faint)?;
                }
            }
            for (index, lanes) in panel.rows.iter().enumerate() {
                if let [Some(published), Some(ours)] = lanes {
                    let y = row_middle(TOP, index) + LANE;
                    let tips =
                        ours.iter().zip(published).map(|(ours, published)| ((x.at(*ours), y), *ours, *published));
                    let axes = [&format!("{}, ours", panel.title), "paper"];
                    canvas.tooltips((index, &selection.standings[index].subject.name), axes, tips);
                }
                for (values, is_ours) in
                    lanes.iter().zip([false, true]).filter_map(|(lane, ours)| Some((lane.as_ref()?, ours)))
                {
                    lane(canvas, &x, index, values, is_ours)?;
                }
            }
        }
        legend(canvas, marks, bottom + 42)
    })?;
    Ok(Some(svg))
}

fn lane(canvas: &mut Canvas<'_>, x: &Scale, index: usize, values: &[f64], is_ours: bool) -> Result<(), PlotError> {
    let y = row_middle(TOP, index) + if is_ours { LANE } else { -LANE };
    let ink = if is_ours { Ink::Allocator(index) } else { Ink::Faint };
    let places = || values.iter().map(|value| x.at(*value));
    if let Some((from, to)) = places().min().zip(places().max()) {
        canvas.edge((from, y), (to, y), 1, ink)?;
    }
    for (place, shape) in places().zip(SHAPES) {
        canvas.marker((place, y), 3, shape, is_ours, ink)?;
    }
    Ok(())
}

fn legend(canvas: &mut Canvas<'_>, marks: &[&str], y: i32) -> Result<(), PlotError> {
    let mut left = NAMES;
    for (mark, shape) in marks.iter().zip(SHAPES) {
        canvas.marker((left, y), 4, shape, true, Ink::Text)?;
        canvas.text(mark, (left + 10, y), Anchor::Left, 12, Ink::Text)?;
        left += 200;
    }
    canvas.text("grey: the paper; in colour: ours", (left, y), Anchor::Left, 12, Ink::Text)
}

/// A value on the axis.
fn short(value: f64) -> String {
    if value < 1.0 { format!("{value}") } else { number::tick(value) }
}

//! The figures of the report, as SVG.

pub mod canvas;
mod costs;
pub mod curves;
mod distribution;
mod fragmentation;
pub mod marks;
mod memory;
pub mod multiples;
mod pareto;
mod standalone;

pub use canvas::PlotError;
pub use costs::costs;
pub use distribution::{Measure, distributions};
pub use fragmentation::fragmentation;
pub use memory::{HIGHEST_SHARE, memory};
pub use pareto::{Field, HEAP, pareto};
pub use standalone::standalone;

use super::palette::Style;
use super::summary::Standing;
use canvas::{Anchor, Canvas, Ink};

/// Width of every figure in pixels.
pub const WIDTH: u32 = 1000;

/// Data about the whole run that every figure needs: the allocators and their styles.
#[derive(Clone, Copy)]
pub struct Selection<'a> {
    /// Every allocator in table order.
    pub standings: &'a [Standing],
    /// Their styles, by the same index.
    pub styles: &'a [Style],
}

/// Height of the rows of figures with one row per allocator.
const ROW: i32 = 24;
/// Width of the row labels to the left.
const NAMES: i32 = 150;

/// The row labels, each with its marker; `top` is the upper edge of the first row.
fn row_names(canvas: &mut Canvas<'_>, selection: Selection<'_>, top: i32) -> Result<(), PlotError> {
    for (index, (standing, style)) in selection.standings.iter().zip(selection.styles).enumerate() {
        let middle = row_middle(top, index);
        canvas.text(
            &shortened(&standing.subject.name, 19),
            (NAMES - 26, middle),
            Anchor::Right,
            13,
            Ink::Allocator(index),
        )?;
        canvas.marker((NAMES - 14, middle), 4, style.marker, true, Ink::Allocator(index))?;
    }
    Ok(())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // a few dozen rows
fn row_middle(top: i32, index: usize) -> i32 {
    top + index as i32 * ROW + ROW / 2
}

/// Height of `rows` rows.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // a few dozen rows
fn rows_height(rows: usize) -> i32 {
    rows as i32 * ROW
}

/// A text truncated to a number of characters.
fn shortened(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters - 1).chain(['\u{2026}']).collect()
}

/// Centres of labels `height` apart, as close as possible to `wanted` (increasing), between `top` and `bottom`.
fn spread(wanted: &[i32], height: i32, top: i32, bottom: i32) -> Vec<i32> {
    let mut placed: Vec<i32> = Vec::with_capacity(wanted.len());
    for want in wanted {
        let least = placed.last().map_or(top, |last| last + height);
        placed.push((*want).max(least));
    }
    let mut limit = bottom;
    for place in placed.iter_mut().rev() {
        *place = (*place).min(limit);
        limit = *place - height;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_pushed_apart_and_kept_inside() {
        assert_eq!(spread(&[10, 11, 12, 90], 10, 0, 100), [10, 20, 30, 90]);
        assert_eq!(spread(&[95, 97, 99], 10, 0, 100), [80, 90, 100]);
        assert_eq!(spread(&[], 10, 0, 100), Vec::<i32>::new());
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("tlsf", 5), "tlsf");
        assert_eq!(shortened("abcdefgh", 5), "abcd\u{2026}");
    }
}

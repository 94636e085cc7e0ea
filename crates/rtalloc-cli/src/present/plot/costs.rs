//! Worst cases over heap sizes: one panel per operation with logarithmic axes, so that constant costs are horizontal
//! and linear costs have the same slope for all allocators. Puaut's figure 4, measured.

use super::canvas::{Anchor, Canvas, Ink, PlotError, Scale, sheet};
use super::{Selection, WIDTH, shortened, spread};
use rtalloc_lab::number;
use rtalloc_lab::result::costs::{Costs, OperationCosts};

const LEFT: i32 = 78;
const RIGHT: i32 = 760;
/// Room above each panel, for its title.
const HEAD: i32 = 34;
/// Height of a label next to a panel.
const LABEL: i32 = 14;
/// Height of a panel with few labels.
const LEAST_HEIGHT: i32 = 260;
/// Room below each panel, for its axis.
const FOOT: i32 = 44;

/// A panel's curves: allocator, and points.
type Curve<'a> = (usize, &'a OperationCosts);

/// The worst case of every operation of every allocator over heap sizes; `None` if nothing was measured.
///
/// # Errors
///
/// See [`PlotError`].
pub fn costs(costs: &Costs, selection: Selection<'_>) -> Result<Option<String>, PlotError> {
    let (Some(first), Some(last)) = (costs.heap_bytes.first(), costs.heap_bytes.last()) else { return Ok(None) };
    let mut panels: Vec<(&str, Vec<Curve<'_>>)> = Vec::new();
    for subject in &costs.subjects {
        let known = selection.standings.iter().position(|standing| standing.subject.name == subject.subject.name);
        let Some(index) = known else { continue };
        for operation in subject.operations.iter().filter(|operation| !operation.points.is_empty()) {
            match panels.iter_mut().find(|(name, _)| *name == operation.operation) {
                Some((_, curves)) => curves.push((index, operation)),
                None => panels.push((&operation.operation, vec![(index, operation)])),
            }
        }
    }
    if panels.is_empty() {
        return Ok(None);
    }
    let counts = || panels.iter().flat_map(|(_, curves)| curves).flat_map(|(_, operation)| &operation.points);
    let least = counts().map(|point| point.instructions).min().unwrap_or(1);
    let most = counts().map(|point| point.instructions).max().unwrap_or(1);
    #[allow(clippy::cast_precision_loss)] // drawn
    let (x, range) = (
        Scale::logarithmic((*first as f64, *last as f64), (LEFT, RIGHT)),
        (least.max(1) as f64 / 1.6, most as f64 * 1.6),
    );
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // some dozens of allocators
    let height = panels.iter().map(|(_, curves)| curves.len() as i32 * LABEL).max().unwrap_or(0).max(LEAST_HEIGHT);
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // three panels
    let full = panels.len() as i32 * (HEAD + height + FOOT);
    let description = "Instructions of the worst case of every operation over the size of the heap";
    #[allow(clippy::cast_sign_loss)] // a sheet of positive size
    let svg = sheet(WIDTH, full as u32, selection.standings.len(), description, |canvas| {
        let mut top = HEAD;
        for (name, curves) in &panels {
            let y = Scale::logarithmic(range, (top + height, top));
            axes(canvas, costs, &x, &y, (top, top + height))?;
            canvas.text(&format!("{name}: instructions"), (LEFT, top - 15), Anchor::Left, 14, Ink::Text)?;
            draw(canvas, selection, curves, &x, &y, (top, top + height))?;
            top += height + FOOT + HEAD;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

fn axes(
    canvas: &mut Canvas<'_>,
    costs: &Costs,
    x: &Scale,
    y: &Scale,
    (top, bottom): (i32, i32),
) -> Result<(), PlotError> {
    for tick in y.ticks(30) {
        canvas.edge((LEFT, y.at(tick)), (RIGHT, y.at(tick)), 1, Ink::Grid)?;
        canvas.text(&number::tick(tick), (LEFT - 8, y.at(tick)), Anchor::Right, 11, Ink::Faint)?;
    }
    for bytes in &costs.heap_bytes {
        #[allow(clippy::cast_precision_loss)] // drawn
        let at = x.at(*bytes as f64);
        canvas.edge((at, top), (at, bottom), 1, Ink::Grid)?;
        canvas.text(&heap(*bytes), (at, bottom + 14), Anchor::Middle, 11, Ink::Faint)?;
    }
    canvas.text("size of the heap", ((LEFT + RIGHT) / 2, bottom + 32), Anchor::Middle, 13, Ink::Text)
}

fn draw(
    canvas: &mut Canvas<'_>,
    selection: Selection<'_>,
    curves: &[Curve<'_>],
    x: &Scale,
    y: &Scale,
    (top, bottom): (i32, i32),
) -> Result<(), PlotError> {
    let last = |curve: &Curve<'_>| curve.1.points.last().map_or(0, |point| point.instructions);
    let mut curves = curves.to_vec();
    curves.sort_by_key(|curve| std::cmp::Reverse(last(curve)));
    #[allow(clippy::cast_precision_loss)] // drawn
    let at = |curve: &Curve<'_>| -> Vec<(i32, i32)> {
        curve.1.points.iter().map(|point| (x.at(point.heap_bytes as f64), y.at(point.instructions as f64))).collect()
    };
    for curve in &curves {
        let style = &selection.styles[curve.0];
        canvas.line(at(curve), style.line_width, Ink::Allocator(curve.0))?;
        #[allow(clippy::cast_precision_loss)] // tooltip value
        let tips = at(curve).into_iter().zip(&curve.1.points);
        let tips = tips.map(|(at, point)| (at, point.heap_bytes as f64, point.instructions as f64));
        let name = &selection.standings[curve.0].subject.name;
        canvas.tooltips((curve.0, name), ["bytes of heap", "instructions"], tips);
        for point in at(curve) {
            canvas.marker(point, 3, style.marker, true, Ink::Allocator(curve.0))?;
        }
    }
    let ends: Vec<(i32, i32)> = curves.iter().filter_map(|curve| at(curve).last().copied()).collect();
    let wanted: Vec<i32> = ends.iter().map(|(_, y)| *y).collect();
    for ((curve, end), place) in curves.iter().zip(ends).zip(spread(&wanted, LABEL, top, bottom)) {
        let ink = Ink::Allocator(curve.0);
        canvas.edge((end.0 + 5, end.1), (RIGHT + 30, place), 1, ink)?;
        canvas.marker((RIGHT + 37, place), 4, selection.styles[curve.0].marker, true, ink)?;
        let name = shortened(&selection.standings[curve.0].subject.name, 20);
        canvas.text(&name, (RIGHT + 46, place), Anchor::Left, 12, ink)?;
        #[allow(clippy::cast_precision_loss)] // drawn
        let count = number::compact(last(curve) as f64);
        canvas.text(&count, (996, place), Anchor::Right, 11, Ink::Faint)?;
    }
    Ok(())
}

/// `64 KiB`, without decimals.
fn heap(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

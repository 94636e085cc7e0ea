//! Memory in excess of live memory, per allocator: fragmentation F, and the excess of the smallest heap over M.

use super::canvas::{Anchor, Ink, PlotError, Scale, sheet};
use super::{NAMES, Selection, WIDTH, row_middle, row_names, rows_height};
use crate::present::summary;
use rtalloc_lab::result::schema::TraceResult;

const TOP: i32 = 28;
const RIGHT: i32 = 840;
/// Values above this, in per cent, are drawn at the edge with their number.
const HIGHEST_PERCENT: f64 = 220.0;

/// F and the smallest heap's excess in per cent of M; `None` if no allocator has either.
///
/// # Errors
///
/// See [`PlotError`].
pub fn fragmentation(result: &TraceResult, selection: Selection<'_>) -> Result<Option<String>, PlotError> {
    #[allow(clippy::cast_precision_loss)] // per cent
    let peak = result.trace.peak_live_bytes.max(1) as f64;
    let rows: Vec<Option<(f64, Option<f64>)>> = selection
        .standings
        .iter()
        .map(|standing| {
            let space = summary::cell_of(result, &standing.subject.name)?.space.as_ref()?;
            #[allow(clippy::cast_precision_loss)] // per cent
            let heap = space.smallest_heap_bytes.map(|smallest| (smallest as f64 / peak - 1.0) * 100.0);
            Some((space.fragmentation * 100.0, heap))
        })
        .collect();
    let values = || rows.iter().flatten().flat_map(|(f, heap)| [Some(*f), *heap]).flatten();
    let Some(most) = values().max_by(f64::total_cmp) else {
        return Ok(None);
    };
    let bottom = TOP + rows_height(rows.len());
    let x = Scale::linear((0.0, most.clamp(1.0, HIGHEST_PERCENT) * 1.04), (NAMES, RIGHT));
    let description = format!("Fragmentation F and smallest heap of every allocator on {}", result.trace.name);
    #[allow(clippy::cast_sign_loss)] // a sheet of positive size
    let svg = sheet(WIDTH, (bottom + 42) as u32, rows.len(), &description, |canvas| {
        row_names(canvas, selection, TOP)?;
        for tick in x.ticks(60) {
            canvas.edge((x.at(tick), TOP), (x.at(tick), bottom), 1, Ink::Grid)?;
            canvas.text(&format!("{tick} %"), (x.at(tick), bottom + 13), Anchor::Middle, 11, Ink::Faint)?;
        }
        let title = "per cent of M: filled F, hollow smallest heap above M";
        canvas.text(title, ((NAMES + RIGHT) / 2, bottom + 33), Anchor::Middle, 13, Ink::Text)?;
        canvas.text("F", (RIGHT + 72, 12), Anchor::Right, 13, Ink::Text)?;
        canvas.text("heap", (RIGHT + 146, 12), Anchor::Right, 13, Ink::Text)?;
        for (index, row) in rows.iter().enumerate() {
            let middle = row_middle(TOP, index);
            let Some((f, heap)) = row else {
                canvas.text(
                    "no figure: takes its own pages, or did not finish",
                    (NAMES + 8, middle),
                    Anchor::Left,
                    11,
                    Ink::Faint,
                )?;
                continue;
            };
            let ink = Ink::Allocator(index);
            let shape = selection.styles[index].marker;
            let tips = heap.iter().map(|heap| ((x.at(*heap), middle), *f, *heap));
            let tips = std::iter::once(((x.at(*f), middle), *f, heap.unwrap_or(*f))).chain(tips);
            let axes = ["F in %", "smallest heap above M in %"];
            canvas.tooltips((index, &selection.standings[index].subject.name), axes, tips);
            if let Some(heap) = heap {
                canvas.edge((x.at(*f), middle), (x.at(*heap), middle), 1, ink)?;
                canvas.marker((x.at(*heap), middle), 5, shape, false, ink)?;
                canvas.text(&format!("{heap:.1}"), (RIGHT + 146, middle), Anchor::Right, 12, Ink::Faint)?;
            }
            canvas.edge((NAMES, middle), (x.at(*f), middle), 2, ink)?;
            canvas.marker((x.at(*f), middle), 5, shape, true, ink)?;
            canvas.text(&format!("{f:.1}"), (RIGHT + 72, middle), Anchor::Right, 12, Ink::Faint)?;
        }
        canvas.edge((NAMES, TOP), (NAMES, bottom), 1, Ink::Faint)
    })?;
    Ok(Some(svg))
}

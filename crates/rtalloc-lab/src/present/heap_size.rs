//! Heap sizes for the terminal: the exact smallest heaps of small worlds.

use super::table::Look;
use super::verdict::wrapped;
use crate::number;
use crate::result::heap_size::{ANY, Exact, ExactCell, ExactRow};
use comfy_table::{Cell, CellAlignment};
use std::fmt::Write as _;

/// The exact heaps of all worlds: a table for each allocator.
#[must_use]
pub fn exact(exact: &Exact, look: Look) -> String {
    let mut text = wrapped(
        "The exact smallest heap, in units, that refuses no program with at most M units live and requests of 1 to n; a unit is the \
         smallest block, its header included. >= where a heap has too many states: all smaller heaps refuse some program.",
        look.columns,
        0,
    );
    text.push_str("\n\n");
    for row in &exact.rows {
        text.push_str(&of_row(row, exact, look));
        text.push('\n');
    }
    let states = number::grouped(exact.most_states as u64);
    let note = format!("Breadth-first search of at most {states} states of each heap, with the allocator's own code (METHODOLOGY.md).");
    text.push_str(&wrapped(&note, look.columns, 0));
    text.push('\n');
    text
}

fn of_row(row: &ExactRow, exact: &Exact, look: Look) -> String {
    let mut text = match row.subject.as_str() {
        ANY => format!("{ANY} that moves nothing: the game of two players\n"),
        name if row.page_bytes > 0 => format!("{name}: units of {} B, pages of {} B\n", row.unit_bytes, row.page_bytes),
        name => format!("{name}: units of {} B, {} of them header\n", row.unit_bytes, row.header_bytes),
    };
    if row.cells.is_empty() {
        text.push_str("no world has few enough states\n");
        return text;
    }
    let mut table = look.table();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let most_m = row.cells.iter().map(|cell| cell.m).max().unwrap_or(0);
    let mut header = vec![right("M".into())];
    header.extend((2..=most_m).map(|m| right(m.to_string())));
    table.set_header(header);
    for n in 2..=exact.n {
        let of_world = |m: usize| row.cells.iter().find(|cell| cell.n == n && cell.m == m);
        if (2..=most_m).all(|m| of_world(m).is_none()) {
            continue;
        }
        let shown = |m: usize| right(of_world(m).map_or_else(String::new, |cell| units(row, cell)));
        let mut line = vec![right(format!("n = {n}"))];
        line.extend((2..=most_m).map(shown));
        table.add_row(line);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if let Some(guarantee) = &row.guarantee {
        text.push_str(&wrapped(&held(row, guarantee), look.columns, 0));
        text.push('\n');
    }
    text
}

/// The heap of a world in units.
fn units(row: &ExactRow, cell: &ExactCell) -> String {
    let mut text = if cell.is_exact { String::new() } else { ">=".into() };
    let _ = write!(text, "{}", cell.block_bytes.div_ceil(row.unit_bytes));
    text
}

/// How the guarantee compares with the exact heaps.
fn held(row: &ExactRow, guarantee: &str) -> String {
    let promised = |cell: &ExactCell| cell.guaranteed_bytes.map(|bytes| bytes as f64 / cell.block_bytes as f64);
    let ratios: Vec<f64> = row.cells.iter().filter_map(promised).collect();
    let (least, most) = ratios.iter().fold((f64::MAX, 0_f64), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
    let broken = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    match (ratios.len(), broken) {
        (0, _) => format!("guaranteed: {guarantee}; not for these worlds"),
        (worlds, 0) => format!(
            "guaranteed: {guarantee}; at least the exact heap in all {worlds} worlds, {least:.2} to {most:.2} times as much"
        ),
        (worlds, broken) => format!("guaranteed: {guarantee}; REFUTED in {broken} of {worlds} worlds"),
    }
}

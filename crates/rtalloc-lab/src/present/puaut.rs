//! Puaut's tables 2 and 3 for the terminal: ratios published and ours side by side, and our three numbers.

use super::claims::claims;
use super::number;
use super::table::Look;
use crate::result::puaut::{Operation, Ours, Puaut, Row};
use comfy_table::{Cell, CellAlignment};
use std::fmt::Write as _;

/// The tables and what is to be said of them.
#[must_use]
pub fn tables(puaut: &Puaut, look: Look) -> String {
    let heap = number::bytes(puaut.heap_bytes);
    let mut text = format!("Puaut 2002, tables 2 and 3 as ratios: worst-case scenario in a heap of {heap}\n");
    text.push_str(&ratios(puaut, look));
    let _ = writeln!(text, "\nThree numbers of ours, in instructions, never one for another");
    text.push_str(&numbers(puaut, look));
    text.push_str(&claims(&puaut.claims, &notes(puaut), look));
    text
}

const RATIOS: [&str; 10] = [
    "\n\npaper",
    "\n\nours",
    "allocate\nworst / mean\npaper",
    "\n\nours",
    "alloc worst\n/ first-fit\npaper",
    "\n\nours",
    "free worst\n/ first-fit\npaper",
    "\n\nours",
    "alloc mean\n/ first-fit\npaper",
    "\n\nours",
];

fn ratios(puaut: &Puaut, look: Look) -> String {
    let first = &puaut.rows[0];
    let base: Option<&Ours> = first.ours.as_ref().ok();
    let texts = |row: &Row| {
        let ours = row.ours.as_ref().ok();
        let published = |value: u64, by: u64| ratio(value as f64 / by as f64);
        let own = |value: &dyn Fn(&Ours) -> f64| match (ours, base) {
            (Some(ours), Some(base)) => ratio(value(ours) / value(base)),
            _ => "-".into(),
        };
        vec![
            row.published_as.clone(),
            row.subject.clone(),
            published(row.published.allocate_worst, row.published.model_mean),
            ours.map_or_else(|| "-".into(), |ours| ratio(ours.allocate.scenario as f64 / ours.allocate.mean)),
            published(row.published.allocate_worst, first.published.allocate_worst),
            own(&|ours| ours.allocate.scenario as f64),
            published(row.published.free_worst, first.published.free_worst),
            own(&|ours| ours.free.scenario as f64),
            published(row.published.model_mean, first.published.model_mean),
            own(&|ours| ours.allocate.mean),
        ]
    };
    table(&RATIOS, puaut.rows.iter().map(texts), look)
}

const NUMBERS: [&str; 11] = [
    "\nallocator",
    "allocate\nmean",
    "\nobserved",
    "\nscenario",
    "\nbound",
    "\nclass",
    "free\nmean",
    "\nobserved",
    "\nscenario",
    "\nbound",
    "\nclass",
];

fn numbers(puaut: &Puaut, look: Look) -> String {
    let texts = |row: &Row| {
        let mut texts = vec![row.subject.clone()];
        match &row.ours {
            Ok(ours) => [&ours.allocate, &ours.free].into_iter().for_each(|one| texts.extend(of_operation(one))),
            Err(_) => texts.extend(vec!["-".into(); NUMBERS.len() - 1]),
        }
        texts
    };
    table(&NUMBERS, puaut.rows.iter().map(texts), look)
}

fn of_operation(operation: &Operation) -> [String; 5] {
    [
        format!("{:.1}", operation.mean),
        number::grouped(operation.observed),
        number::grouped(operation.scenario),
        operation.bound.map_or_else(|| "-".into(), number::grouped),
        operation.class.map_or("-", crate::result::costs::Class::notation).into(),
    ]
}

fn table(headings: &[&str], rows: impl Iterator<Item = Vec<String>>, look: Look) -> String {
    let names = if headings.len() == RATIOS.len() { 2 } else { 1 };
    let cell = |(place, text): (usize, String)| {
        Cell::new(text).set_alignment(if place < names { CellAlignment::Left } else { CellAlignment::Right })
    };
    let mut table = look.table();
    table.set_header(headings.iter().map(|text| (*text).to_string()).enumerate().map(cell));
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(cell));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Three digits are enough for a ratio.
fn ratio(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".into(),
        value if value >= 999.5 => number::grouped(value.round() as u64),
        value if value >= 9.95 => format!("{value:.1}"),
        value if value >= 0.01 => format!("{value:.2}"),
        value => format!("{value:.1e}"),
    }
}

fn notes(puaut: &Puaut) -> Vec<String> {
    let mut notes = vec![
        "paper: cycles of a Pentium 90 with caches and branch prediction off; mean: of the MEAN model. ours: executed \
         instructions of the same model and recipes. Her worst figures are of scenarios, which she calls analytical; they are \
         no bounds. The paper has no mean of free."
            .into(),
        "observed: the most in the MEAN model. bound: static, in a heap of 16 MiB; -: a search, whose cost for each free block \
         `rtalloc bound` tells. class: of the scenarios in heaps of 64 KiB to 4 MiB."
            .into(),
    ];
    for row in &puaut.rows {
        if let Err(what) = &row.ours {
            notes.push(format!("{}: {what}.", row.subject));
        }
    }
    notes
}

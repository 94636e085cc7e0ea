//! Tables 7 and 8 of the Bitframe thesis for the terminal, published and ours side by side.

use super::number;
use super::table::Look;
use super::verdict::wrapped;
use crate::result::thesis::{Figures, Row, Table, Thesis};
use comfy_table::{Cell, CellAlignment};
use std::fmt::Write as _;

/// Both tables and what is to be said of them.
#[must_use]
pub fn tables(thesis: &Thesis, look: Look) -> String {
    let mut text = String::new();
    for table in &thesis.tables {
        let _ = writeln!(
            text,
            "Bitframe thesis, table {}: {}, a heap of {}",
            table.number,
            table.trace,
            number::bytes(thesis.heap_bytes)
        );
        text.push_str(&one(table, look));
        for row in &table.rows {
            if let Err(what) = &row.ours {
                let _ = writeln!(text, "{}", wrapped(&format!("{}: {what}", row.subject), look.columns, 2));
            }
        }
        text.push('\n');
    }
    for note in notes(thesis) {
        let _ = writeln!(text, "{}", wrapped(&note, look.columns, 0));
    }
    text
}

const HEADINGS: [&str; 14] = [
    "\n\nthesis",
    "\n\nours",
    "M\nthesis\nKiB",
    "\nours\nKiB",
    "H\nthesis\nKiB",
    "\nours\nKiB",
    "F\nthesis\n%",
    "\nours\n%",
    "\n\nratio",
    "I\nthesis\n%",
    "\nours\n%",
    "\n\nratio",
    "equal\nF\n%",
    "prefix\nI\n%",
];

fn one(table: &Table, look: Look) -> String {
    let mut shown = look.table();
    let aligned = |place: usize, text: String| {
        Cell::new(text).set_alignment(if place < 2 { CellAlignment::Left } else { CellAlignment::Right })
    };
    let cells = |texts: Vec<String>| {
        texts.into_iter().enumerate().map(|(place, text)| aligned(place, text)).collect::<Vec<_>>()
    };
    shown.set_header(cells(HEADINGS.map(String::from).into()));
    for row in &table.rows {
        shown.add_row(cells(texts(row)));
    }
    for column in shown.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let mut text = String::new();
    for line in shown.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn texts(row: &Row) -> Vec<String> {
    let kib = |bytes: f64| format!("{:.0}", bytes / 1024.0);
    let percent = |fraction: f64| format!("{:.1}", fraction * 100.0);
    let published = &row.published;
    let (cut, prefix) = match &row.ours {
        Ok(ours) => (Some(&ours.cut), Some(&ours.prefix)),
        Err(_) => (None, None),
    };
    let of = |figures: Option<&Figures>, show: &dyn Fn(&Figures) -> String| figures.map_or_else(|| "-".into(), show);
    let ratio = |ours: f64, published: f64| format!("{:.2}", ours / published);
    vec![
        row.published_as.clone(),
        row.subject.clone(),
        kib(published.live_bytes),
        of(cut, &|figures| kib(figures.live_bytes)),
        kib(published.high_water_bytes),
        of(cut, &|figures| kib(figures.high_water_bytes)),
        percent(published.fragmentation),
        of(cut, &|figures| percent(figures.fragmentation)),
        of(cut, &|figures| ratio(figures.fragmentation, published.fragmentation)),
        percent(published.overhead),
        of(cut, &|figures| percent(figures.overhead)),
        of(cut, &|figures| ratio(figures.overhead, published.overhead)),
        of(prefix, &|figures| percent(figures.fragmentation)),
        of(prefix, &|figures| percent(figures.overhead)),
    ]
}

fn notes(thesis: &Thesis) -> Vec<String> {
    let prefixes: Vec<String> = thesis
        .tables
        .iter()
        .map(|table| {
            let (prefix, all) = (number::grouped(table.prefix_operations), number::grouped(table.operations));
            format!("{prefix} of {all} operations of {}", table.trace)
        })
        .collect();
    vec![
        format!(
            "Each run ends at the first request that fails, as the thesis' runs do. equal prefix: all allocators up to the first \
             failure of any, at least {}. Ours are means over {}.",
            prefixes.join(" and "),
            number::counted(thesis.seeds, "seed")
        ),
        "M: largest live memory. H: memory used, control structure included. F = (H - M) / M. I = L / (H - M), L: control \
         structure, headers of live blocks, and what of pages no block can have. ratio: ours / thesis."
            .into(),
        "What differs: the thesis' machine has words of 32 bits, and its traces were drawn by another generator. Its TLSF has \
         headers of 8 bytes and a granule of 8 where ours has 4 and 16. Our pages keep a mark for every block, by which a double \
         free is found, and words of 64 bits, so their L is larger: the thesis' regions keep one counter."
            .into(),
    ]
}

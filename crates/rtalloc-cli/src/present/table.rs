//! One table per trace for the terminal.

use super::metric::{self, Metric, Scale};
use super::page::measured;
use super::printable;
use super::summary::{self, Standing};
use super::verdict::{counted, wrapped};
use comfy_table::{Attribute, CellAlignment, Color, ContentLineStyle, LineStyle, Table, TableStyle};
use rtalloc_lab::number;
use rtalloc_lab::result::schema::{Cell, Outcome, Run, TraceResult};
use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// The capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Width in characters.
    pub columns: usize,
    /// Whether the best values are emphasised by escape sequences.
    pub colour: bool,
}

impl Look {
    /// Width of tables that are not printed to a terminal.
    const PIPE_COLUMNS: usize = 120;

    /// The capabilities of standard output: in a pipe, plain and wide unless `COLUMNS` is set; colour only if
    /// `NO_COLOR` is not set.
    #[must_use]
    pub fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
            return Self { columns: columns.unwrap_or(Self::PIPE_COLUMNS), colour: false };
        }
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { columns: usize::from(console::Term::stdout().size().1), colour: !no_colour && !dumb }
    }

    /// An empty table in this style.
    pub(super) fn table(self) -> Table {
        let mut table = Table::new();
        table.load_style(STYLE);
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table
    }
}

/// Rules below the heading and below the table, only spaces between columns.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('-').junction('-'))
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('-').junction('-'))
    .content_lines(ContentLineStyle::none())
    .bottom_border(LineStyle::none().fill('-').junction('-'));

/// The tables of a run: one per trace, and common notes.
pub struct Tables {
    /// Where they are printed.
    pub look: Look,
    /// The columns for which there was no room.
    left_out: Vec<String>,
}

impl Tables {
    /// Tables in this look.
    #[must_use]
    pub fn new(look: Look) -> Self {
        Self { look, left_out: Vec::new() }
    }

    /// The table of the trace with this number.
    #[must_use]
    pub fn of_trace(&mut self, run: &Run, number: usize) -> String {
        trace(&run.traces[number], &summary::all(run), self.look, &mut self.left_out) + "\n"
    }

    /// The notes on all tables so far.
    #[must_use]
    pub fn notes(&self, run: &Run) -> String {
        let notes = notes(run, &self.left_out).into_iter().chain([measured(&run.environment)]);
        notes.map(|note| wrapped(&note, self.look.columns, 0) + "\n").collect()
    }

    /// All tables, and the notes.
    #[must_use]
    pub fn whole(mut self, run: &Run) -> String {
        if run.traces.is_empty() {
            return "No trace was replayed.\n".into();
        }
        let tables: String = (0..run.traces.len()).map(|number| self.of_trace(run, number)).collect();
        tables + &self.notes(run)
    }
}

/// A trace's properties in one line, and the size of the replay's heap.
#[must_use]
pub fn facts(result: &TraceResult) -> String {
    let trace = &result.trace;
    let heap = result.cells.iter().filter_map(|cell| cell.heap_bytes).max();
    let heap = heap.map_or_else(String::new, |heap| format!("; replayed in a heap of {}", number::bytes(heap)));
    format!(
        "{}, {}, {}, {}; live memory M = {} in at most {}, largest request {}{heap}",
        number::counted(trace.allocations, "allocation"),
        number::counted(trace.frees, "free"),
        number::counted(trace.reallocations, "reallocation"),
        number::counted(u64::from(trace.threads), "thread"),
        number::bytes(trace.peak_live_bytes),
        number::counted(trace.peak_live_blocks, "block"),
        number::bytes(trace.largest_request_bytes),
    )
}

/// The notes that apply to every table.
fn notes(run: &Run, left_out: &[String]) -> Vec<String> {
    let cells = || run.traces.iter().flat_map(|result| &result.cells);
    let mut notes = Vec::new();
    if cells().any(|cell| cell.time.is_some()) {
        notes.push(
            "ticks: of the time-stamp counter, the cost of an empty measurement subtracted, the minimum over identical \
             replays kept per operation. On a shared machine a raw maximum in ticks is noise: it includes interrupts."
                .to_string(),
        );
    }
    if cells().any(|cell| cell.space.is_some()) {
        notes.push(
            "M: maximum of bytes requested and not freed. H: used memory, without control structure. F = (H - M) / M. \
             smallest heap: the smallest region, control structure included, that serves the whole trace."
                .to_string(),
        );
    }
    if counted(run) {
        notes.push(
            "instr: executed instructions, counted in every operation; max includes refused requests, mean does not. \
             `rtalloc bound` prints their bounds."
                .to_string(),
        );
    }
    let mut reads: Vec<String> =
        cells().filter_map(|cell| Some(format!("{} {}", cell.subject.name, cell.subject.read_instructions?))).collect();
    reads.sort();
    reads.dedup();
    if !reads.is_empty() {
        notes.push(format!(
            "Instructions to read a byte of an object through its handle: {}; through a pointer 2. The table has \
             operations only, not accesses.",
            reads.join(", ")
        ));
    }
    if cells().any(|cell| metric::ALL.iter().any(|metric| (metric.value)(cell).is_none())) {
        notes.push(
            "-: no figure: the probe was not selected or could not run, or (F, H, heap) the allocator takes its own \
             pages from the system, or (smallest heap) none of the heap sizes tried served the whole trace or the \
             search exceeded the limit of processor time."
                .to_string(),
        );
    }
    if let Some((word, limit)) = run.traces.iter().find_map(beyond_reach) {
        notes.push(format!(
            "{word}: this share of the requests is larger than the allocator serves in any heap, and was refused; its \
             figures are for the others. `--at-most {limit}` compares all allocators on the requests it serves."
        ));
    }
    if !left_out.is_empty() {
        notes.push(format!("Omitted because the terminal is too narrow: {}.", left_out.join(", ")));
    }
    notes
}

/// The first outcome of a table that reports a share of requests that are too large, and the largest request within the
/// limits.
fn beyond_reach(result: &TraceResult) -> Option<(String, u64)> {
    result.cells.iter().filter(|cell| metric::is_only_beyond_reach(&cell.outcome)).find_map(|cell| {
        let limit = cell.subject.largest_request_bytes.filter(|limit| result.trace.largest_request_bytes > *limit)?;
        Some((metric::outcome_word(cell, &result.trace), limit))
    })
}

fn trace(result: &TraceResult, standings: &[Standing], look: Look, left_out: &mut Vec<String>) -> String {
    let mut text = String::new();
    let mut name = printable(&result.trace.name);
    if look.colour {
        name = console::style(name).bold().force_styling(true).to_string();
    }
    let _ = writeln!(text, "{name}: {}", printable(&result.trace.about));
    let _ = writeln!(text, "{}", wrapped(&facts(result), look.columns, 0));
    let cells: Vec<&Cell> =
        standings.iter().filter_map(|standing| summary::cell_of(result, &standing.subject.name)).collect();
    let mut columns: Vec<&Metric> =
        metric::ALL.iter().filter(|metric| cells.iter().any(|cell| (metric.value)(cell).is_some())).collect();
    let mut with_cost = true;
    let table = loop {
        let table = build(result, &cells, &columns, with_cost, look);
        let width = table.lines().next().map_or(0, |line| line.chars().count());
        // The cost class is dropped after the raw maxima and H, before any other figure.
        let most_dispensable = columns.iter().map(|metric| metric.dispensable).max().unwrap_or(0);
        if width <= look.columns || (most_dispensable == 0 && !with_cost) {
            break table;
        }
        if with_cost && most_dispensable < 6 {
            with_cost = false;
            note(left_out, "cost".into());
        } else if let Some(at) = columns.iter().rposition(|metric| metric.dispensable == most_dispensable) {
            let metric = columns.remove(at);
            let full = format!("{} {} {}", metric.group, metric.name, metric.unit_name(Scale::for_bytes(0)));
            note(left_out, full.trim().trim_end_matches(" B").into());
        }
    };
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let most = cells.iter().filter_map(|cell| cell.heap_bytes).max();
    for cell in &cells {
        if let Some(bytes) = cell.heap_bytes.filter(|bytes| Some(*bytes) < most) {
            let what =
                format!("{}: in a heap of {} B, the largest that it takes.", cell.subject.name, number::grouped(bytes));
            text.push_str(&wrapped(&what, look.columns, 2));
            text.push('\n');
        }
        if let Some(what) = metric::outcome_sentence(cell, &result.trace) {
            text.push_str(&wrapped(&format!("{}: {what}", cell.subject.name), look.columns, 2));
            text.push('\n');
        }
    }
    text
}

fn note(left_out: &mut Vec<String>, what: String) {
    if !left_out.contains(&what) {
        left_out.push(what);
    }
}

fn build(result: &TraceResult, cells: &[&Cell], columns: &[&Metric], with_cost: bool, look: Look) -> String {
    let scale = Scale::for_bytes(result.trace.peak_live_bytes);
    let mut table = look.table();
    let heading = |text: String, alignment| comfy_table::Cell::new(text).set_alignment(alignment);
    let mut header = vec![heading("\n\nallocator".into(), CellAlignment::Left)];
    if with_cost {
        header.push(heading("\n\ncost".into(), CellAlignment::Left));
    }
    for metric in columns {
        let text = format!("{}\n{}\n{}", metric.group, metric.name, metric.unit_name(scale));
        header.push(heading(text, CellAlignment::Right));
    }
    header.push(heading("\n\noutcome".into(), CellAlignment::Left));
    table.set_header(header);
    let best: Vec<Option<f64>> = columns.iter().map(|metric| metric.best(cells)).collect();
    for cell in cells {
        let mut row = vec![comfy_table::Cell::new(&cell.subject.name)];
        if with_cost {
            row.push(comfy_table::Cell::new(&cell.subject.cost));
        }
        for (metric, best) in columns.iter().zip(&best) {
            let value = (metric.value)(cell);
            let mut shown = heading(metric.text(cell, scale), CellAlignment::Right);
            if value.is_some() && value == *best && cell.outcome == Outcome::Completed {
                shown = shown.add_attribute(Attribute::Bold).fg(Color::Green);
            }
            row.push(shown);
        }
        let mut outcome = comfy_table::Cell::new(metric::outcome_word(cell, &result.trace));
        if cell.outcome != Outcome::Completed {
            outcome = outcome.fg(Color::Yellow);
        }
        row.push(outcome);
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.to_string()
}

/// A table as lines without spaces at their ends, its columns `apart` spaces from each other.
pub(super) fn lines(mut table: Table, apart: u16) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, apart));
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A table whose first columns are text.
pub(crate) fn table(headings: &[&str], names: usize, rows: impl Iterator<Item = Vec<String>>, look: Look) -> String {
    let cell = |(place, text): (usize, String)| {
        comfy_table::Cell::new(text).set_alignment(if place < names {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        })
    };
    // Tables with more columns than this have less padding, to fit the terminal.
    const MANY: usize = 12;
    let apart = if headings.len() > MANY { 1 } else { 2 };
    let mut table = look.table();
    table.set_header(headings.iter().map(|text| (*text).to_string()).enumerate().map(cell));
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(cell));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, apart));
    }
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn plain(columns: usize) -> String {
        Tables::new(Look { columns, colour: false }).whole(&fixture::usual())
    }

    /// On one line, with wrapping removed.
    fn plain_of(run: &Run) -> String {
        Tables::new(Look { columns: 140, colour: false }).whole(run).replace('\n', " ")
    }

    /// The expected first table; a change of the layout changes this file.
    #[test]
    fn the_table_of_the_fixture() {
        let text = plain(140);
        let first: String = text.split("\n\n").next().unwrap_or_default().to_owned() + "\n";
        assert_eq!(first, include_str!("table_snapshot.txt"));
    }

    #[test]
    fn every_width_is_kept_to_and_what_is_left_out_is_said() {
        for columns in [80, 100, 120, 140, 200] {
            let text = plain(columns);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest.is_some_and(|longest| longest <= columns), "{columns}: {longest:?}\n{text}");
        }
        let words = plain(80).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Omitted because the terminal is too narrow: free max ticks, allocate max ticks, H"));
        assert!(!plain(200).contains("Omitted because"));
    }

    #[test]
    fn escape_sequences_only_with_colour() {
        assert!(!plain(140).contains('\x1b'));
        assert!(Tables::new(Look { columns: 140, colour: true }).whole(&fixture::usual()).contains("\x1b[1m"));
    }

    #[test]
    fn outcomes_are_printed_in_words() {
        let text = plain(140);
        assert!(text.ends_with("Measured 2026-03-01 14:05 UTC by rtalloc 0.1.0.\n"), "{text}");
        let mut run = fixture::usual();
        let cell = &mut run.traces[0].cells[0];
        cell.outcome = Outcome::NotMeasured { what: "the machine was busy".into() };
        let sentence =
            format!("{}: not measured: the machine was busy; nothing is known about the allocator.", cell.subject.name);
        assert!(plain_of(&run).contains(&sentence));
        assert!(text.contains("buddy-system: 3 allocations failed, the first at operation 91,234 of 200,000"));
        assert!(text.contains("linked-list: stopped by the limit of processor time at operation 150,000 of 200,000"));
        assert!(text.contains("mimalloc: did not finish: killed by signal 11"));
    }

    #[test]
    fn a_share_beyond_reach_is_explained_by_the_first_there_is() {
        let mut run = fixture::usual();
        let result = &mut run.traces[0];
        assert!(beyond_reach(result).is_none());
        result.trace.largest_request_bytes = 4096;
        result.cells[1].subject.largest_request_bytes = Some(1008);
        result.cells[1].outcome = Outcome::Failures { failed: 1, first: 7, beyond_reach: 1 };
        let text = plain_of(&run);
        assert!(text.contains("<0.1 % > 1008 B: this share") && text.contains("`--at-most 1008`"), "{text}");
    }

    #[test]
    fn the_notes_speak_of_instructions_where_they_were_counted() {
        let words = plain_of;
        let mut run = fixture::usual();
        assert!(words(&run).contains("counted in every operation"));
        for cell in run.traces.iter_mut().flat_map(|result| &mut result.cells) {
            cell.instructions = None;
        }
        assert!(!words(&run).contains("counted in every operation"));
    }

    #[test]
    fn a_run_without_traces_says_so() {
        assert_eq!(
            Tables::new(Look { columns: 80, colour: false }).whole(&fixture::run(vec![])),
            "No trace was replayed.\n"
        );
    }
}

//! `rtalloc inspect`

use super::arguments::parse_size;
use super::cut;
use super::destination::{Files, is_stdout, print};
use super::progress::DelayedBar;
use crate::present::verdict::wrapped;
use crate::present::{headroom, printable};
use anyhow::Context;
use rtalloc_lab::experiment;
use rtalloc_lab::number::{bytes, compact, counted, date, grouped};
use rtalloc_lab::replay::settings::automatic_heap_bytes;
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::result::headroom::{Headroom, Refused, Shortfall};
use rtalloc_lab::trace::{Bin, Origin, Reader, Spread, Survey, TickUnit, survey_with};
use rtalloc_subjects::one;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints a summary of a trace.
///
/// Counts, sizes, live memory over time, lifetimes, threads and reallocations, in one pass; memory is needed only for
/// the live blocks. The whole file is verified on the way. Counts, means, minima, maxima and histograms are exact;
/// quantiles are exact below 2,048 and within 0.1 % above.
///
/// With `--on`, replays the trace on an allocator and draws the largest request that succeeds after each operation,
/// beside the largest request that follows. Where less succeeds than follows, memory must become free before that
/// request, or it is refused. If enough is free, but in pieces, the heap is fragmented. A warning names the first such
/// operation, the request, and whether it was served. A request with a larger alignment than every block has may need
/// more than the figure shows.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The trace
    trace: PathBuf,
    /// Reports only on the blocks of at most SIZE bytes, as `rtalloc run --at-most` replays them; suffix K, M or G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    at_most: Option<u64>,
    /// Draws the largest request that succeeds on this allocator: any of ours but pooled-arenas-global (`rtalloc
    /// allocators ours` lists them)
    #[arg(long, value_name = "ALLOCATOR")]
    on: Option<String>,
    /// Bytes of the heap for --on, with suffix K, M or G. Without it, the next power of two above eight times the
    /// largest live memory, at least 64K, as in `rtalloc run`
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "on")]
    heap: Option<u64>,
    /// Writes the figure of --on to FILE as SVG
    #[arg(long, value_name = "FILE", requires = "on")]
    plot: Option<PathBuf>,
    /// Everything as JSON, including the curves
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc inspect lua.rtrace
  rtalloc inspect lua.rtrace --on tlsf --heap 512K
  rtalloc inspect lua.rtrace --on half-fit --heap 512K --plot lua.svg

The exit status is 0 when the trace was read, even with a warning.";

/// The survey, and what an allocator adds to it.
#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    survey: &'a Survey,
    #[serde(skip_serializing_if = "Option::is_none")]
    headroom: Option<&'a Headroom>,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!arguments.plot.as_deref().is_some_and(is_stdout), "--plot needs the name of a file");
    let mut files = Files::new();
    files.reads("TRACE", &arguments.trace)?;
    let plot = files.file("--plot", arguments.plot.as_deref())?;
    let subject = arguments.on.as_deref().map(one).transpose().context("--on")?;
    let cut = arguments.at_most.map(|largest| cut::at_most(std::slice::from_ref(&arguments.trace), largest));
    let cut = cut.transpose().context("--at-most")?;
    let path = cut.as_ref().map_or(&arguments.trace, |cut| &cut.paths[0]);
    let reader = Reader::open(path).with_context(|| format!("cannot inspect {}", path.display()))?;
    let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut progress = DelayedBar::new(length, "{bar:40} {bytes} of {total_bytes}, {eta} left");
    let survey = survey_with(reader, |offset| progress.set(offset))
        .with_context(|| format!("cannot inspect {}", path.display()))?;
    drop(progress);
    let headroom = match subject {
        None => None,
        Some(subject) => {
            let automatic = || automatic_heap_bytes(survey.totals.peak_live_bytes);
            let heap_bytes = arguments.heap.unwrap_or_else(automatic).min(subject.largest_heap_bytes());
            let mut progress = DelayedBar::new(2 * length, "{bar:40} {percent} % on the allocator, {eta} left");
            // Two passes.
            let (mut before, mut last) = (0, 0);
            let mut set = |offset: u64| {
                before += if offset < last { last } else { 0 };
                last = offset;
                progress.set(before + offset);
            };
            let found = experiment::headroom::headroom(path, subject, heap_bytes as usize, &mut set);
            Some(found.with_context(|| format!("--on {}", subject.name))?)
        }
    };
    if let (Some(plot), Some(headroom)) = (plot, &headroom) {
        let drawn = headroom::figure(headroom, &survey.meta.name)?;
        plot.write(&drawn.context("--plot: the trace has no operations")?)?;
    }
    let headroom = headroom.as_ref();
    let text = match arguments.json {
        true => document::pretty(Schema::INSPECT, &Document { survey: &survey, headroom })?,
        false => describe(&survey, headroom),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Columns of the chart and of the longest bar.
const CHART_COLUMNS: usize = 72;
const BAR_COLUMNS: usize = 40;
/// Rows of the chart, eight steps each.
const CHART_ROWS: usize = 8;
/// Threads listed one by one; the rest is summed up.
const THREADS_LISTED: usize = 16;

/// Bars of one to eight eighths, upwards and to the right.
const UPWARDS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const RIGHTWARDS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The survey as text.
fn describe(survey: &Survey, headroom: Option<&Headroom>) -> String {
    let mut page = Page::default();
    page.head(survey);
    page.operations(survey);
    page.memory(survey);
    if let Some(headroom) = headroom {
        page.headroom(headroom, survey.totals.events);
    }
    page.sizes(survey);
    page.lifetimes(survey);
    page.threads(survey);
    page.text
}

/// `part` of `whole` in percent.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

/// The cell of a row in a column that is this many eighths high.
fn filled(eighths: usize, row: usize) -> char {
    match eighths.saturating_sub(row * 8).min(8) {
        0 => ' ',
        filled => UPWARDS[filled - 1],
    }
}

/// What the curves mean.
fn warnings(headroom: &Headroom) -> Vec<String> {
    let mut paragraphs = Vec::new();
    match &headroom.first {
        None => {
            let when = match headroom.stride {
                1 => "every operation".into(),
                stride => format!("each query, one in {} operations", grouped(stride)),
            };
            paragraphs.push(format!("After {when}, the largest request that follows would succeed at once."));
        }
        Some(first) => {
            paragraphs.push(shortfall(first, headroom.is_exact));
            let operation = if headroom.stride == 1 { "operation" } else { "queried operation" };
            let (below, queries) = (grouped(headroom.below), counted(headroom.queries, operation));
            paragraphs.push(format!("What succeeds is less than what follows after {below} of {queries}."));
        }
    }
    if headroom.refused > 0 {
        let beyond = match headroom.beyond_reach {
            0 => String::new(),
            beyond => format!(", {} of them larger than any heap of this allocator serves", grouped(beyond)),
        };
        let mut text = format!("REFUSED: {}{beyond}.", counted(headroom.refused, "request"));
        if let Some(refusal) = &headroom.refusal {
            text.push_str(&refused(refusal));
        }
        paragraphs.push(text);
    }
    paragraphs
}

/// The first warning.
fn shortfall(first: &Shortfall, is_exact: bool) -> String {
    let Shortfall { operation, succeeds_bytes, follows_bytes, request, .. } = *first;
    let limit = match (is_exact, succeeds_bytes) {
        (true, 0) => "no request succeeds".into(),
        (true, most) => format!("no request above {} succeeds", counted(most, "byte")),
        (false, most) => format!("no request above {} is guaranteed", counted(most, "byte")),
    };
    let free = match first.free_bytes {
        None => String::new(),
        Some(free) if free >= follows_bytes => format!(", although {} are free in all", counted(free, "byte")),
        Some(free) => format!("; {} are free in all", counted(free, "byte")),
    };
    let verb = if first.is_reallocation { "grows a block to" } else { "requests" };
    let outcome = match (first.is_served, first.is_reallocation) {
        (Some(false), _) => "it was refused",
        (Some(true), false) if is_exact => "it was served, because memory became free in between",
        (Some(true), false) => "it was served",
        (Some(true), true) => "it was served, where it was or because memory became free in between",
        (None, _) => "it was not performed, because its block had been refused",
    };
    let (operation, request, bytes) = (grouped(operation), grouped(request), counted(follows_bytes, "byte"));
    format!("WARNING: after operation {operation}, {limit}{free}. Operation {request} {verb} {bytes}: {outcome}.")
}

/// The first refusal, and since when it would have happened.
fn refused(refusal: &Refused) -> String {
    let Refused { operation, bytes, align_bytes, last_fit } = *refusal;
    let align = align_bytes.map_or_else(String::new, |align| format!(" at alignment {align}"));
    let mut text = format!(" The first is operation {}, {}{align}.", grouped(operation), counted(bytes, "byte"));
    if let Some(last) = last_fit {
        let before = counted(operation - last, "operation");
        let blocks = if align_bytes.is_some() { ", at a smaller alignment," } else { "" };
        let _ = write!(
            text,
            " The last time that this size{blocks} would have succeeded was after operation {}, {before} before.",
            grouped(last)
        );
    }
    text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref().trim_end());
        self.text.push('\n');
    }

    fn section(&mut self, title: &str) {
        self.line("");
        self.line(title);
    }

    /// An indented line with a name and its value.
    fn entry(&mut self, name: &str, value: impl AsRef<str>) {
        self.line(format!("  {name:<18}{}", value.as_ref()));
    }

    /// An indented line with a right-aligned number.
    fn number(&mut self, name: &str, value: u64, remark: &str) {
        self.line(format!("  {name:<18}{:>16}  {remark}", grouped(value)));
    }

    fn head(&mut self, survey: &Survey) {
        let meta = &survey.meta;
        self.line(printable(&format!("{}: {}", meta.name, meta.about)));
        match &meta.origin {
            Origin::Program { command } => {
                let words: Vec<String> = command
                    .iter()
                    .map(|word| {
                        match word.is_empty() || word.contains(|c: char| c.is_whitespace() || "'\"$\\".contains(c)) {
                            true => format!("'{}'", word.replace('\'', "'\\''")),
                            false => word.clone(),
                        }
                    })
                    .collect();
                self.entry("recorded from", printable(&words.join(" ")));
            }
            Origin::Model { model, seed, random, parameters } => {
                self.entry("generated by", printable(&format!("{model}, seed {seed}")));
                self.entry("random numbers", printable(random));
                for (name, value) in parameters {
                    self.entry("", printable(&format!("{name} = {value}")));
                }
            }
        }
        if let Some(seconds) = meta.created_unix_seconds {
            self.entry("recorded on", date(seconds));
        }
        if let Some(incomplete) = &meta.incomplete {
            self.entry("INCOMPLETE", incomplete.to_string());
        }
        let duration = survey.last_tick - survey.first_tick;
        self.entry(
            "duration",
            match meta.tick_unit {
                TickUnit::Nanoseconds => format!("{:.3} s", duration as f64 / 1e9),
                TickUnit::Logical => format!("{} logical ticks", grouped(duration)),
            },
        );
        self.entry("fingerprint", format!("{:08x} (CRC-32 of the events)", survey.fingerprint_crc32));
    }

    fn operations(&mut self, survey: &Survey) {
        let totals = &survey.totals;
        self.section("Operations");
        self.number("allocations", totals.allocations, "");
        self.number("frees", totals.frees, "");
        let asked = &survey.reallocations;
        let remark = match totals.reallocations {
            0 => String::new(),
            _ => format!(
                "{} grew (+{}), {} shrank (-{}), {} kept their size",
                grouped(asked.grown),
                bytes(asked.grown_bytes),
                grouped(asked.shrunk),
                bytes(asked.shrunk_bytes),
                grouped(asked.unchanged)
            ),
        };
        self.number("reallocations", totals.reallocations, &remark);
    }

    fn memory(&mut self, survey: &Survey) {
        let totals = &survey.totals;
        self.section("Memory, bytes requested");
        let blocks = counted(totals.peak_live_blocks, "block");
        self.number(
            "peak live (M)",
            totals.peak_live_bytes,
            &format!("{}; at most {blocks} live", bytes(totals.peak_live_bytes)),
        );
        let left = counted(survey.lifetimes.never_freed, "block");
        self.number(
            "live at the end",
            survey.live_bytes_at_end,
            &format!("{} in {left}", bytes(survey.live_bytes_at_end)),
        );
        self.number("largest request", totals.largest_request_bytes, &bytes(totals.largest_request_bytes));
        self.number("total requested", totals.requested_bytes, &bytes(totals.requested_bytes));
        if totals.peak_live_bytes > 0 {
            self.section("Live memory over the operations");
            self.chart(survey);
        }
    }

    /// Live memory as columns, each the maximum of its interval.
    fn chart(&mut self, survey: &Survey) {
        let points = &survey.live.points;
        let (events, peak) = (survey.totals.events, survey.totals.peak_live_bytes);
        let mut heights: [Option<u64>; CHART_COLUMNS] = [None; CHART_COLUMNS];
        for &(index, live) in points {
            let column = (u128::from(index) * CHART_COLUMNS as u128 / u128::from(events)) as usize;
            heights[column] = Some(heights[column].unwrap_or(0).max(live));
        }
        let mut last = 0;
        let eighths = heights.map(|height| {
            last = height.unwrap_or(last);
            (u128::from(last) * (CHART_ROWS * 8) as u128).div_ceil(u128::from(peak)) as usize
        });
        self.frame([peak, peak / 2, 0], events, |row, column| filled(eighths[column], row));
    }

    /// A chart over the operations: the values at the upper end, half-way and below, and what is in each cell.
    fn frame(&mut self, [upper, middle, lower]: [u64; 3], events: u64, cell: impl Fn(usize, usize) -> char) {
        for row in (0..CHART_ROWS).rev() {
            let label = match row {
                _ if row + 1 == CHART_ROWS => bytes(upper),
                _ if row + 1 == CHART_ROWS / 2 => bytes(middle),
                _ => String::new(),
            };
            let columns: String = (0..CHART_COLUMNS).map(|column| cell(row, column)).collect();
            self.line(format!("  {label:>10} │{columns}"));
        }
        let lower = if lower == 0 { "0".into() } else { bytes(lower) };
        self.line(format!("  {lower:>10} └{}", "─".repeat(CHART_COLUMNS)));
        let end = grouped(events);
        self.line(format!("  {:>10}  0{end:>width$}", "", width = CHART_COLUMNS - 1));
    }

    /// The largest request that succeeds beside the largest that follows, on a logarithmic scale.
    fn headroom(&mut self, headroom: &Headroom, events: u64) {
        let Headroom { allocator, heap_bytes, points, .. } = headroom;
        let heap = bytes(*heap_bytes);
        self.section(&format!(
            "Largest request that succeeds on {allocator}, in a heap of {heap}, and largest that follows"
        ));
        let mut columns: [Option<(u64, u64)>; CHART_COLUMNS] = [None; CHART_COLUMNS];
        for point in points {
            let column = (u128::from(point.operation) * CHART_COLUMNS as u128 / u128::from(events)) as usize;
            let (least, most) = columns[column].unwrap_or((u64::MAX, 0));
            columns[column] = Some((least.min(point.succeeds_bytes), most.max(point.follows_bytes)));
        }
        let mut last = columns.iter().flatten().next().copied().unwrap_or_default();
        let columns = columns.map(|column| {
            last = column.unwrap_or(last);
            last
        });
        let values = || columns.iter().flat_map(|(succeeds, follows)| [*succeeds, *follows]).filter(|value| *value > 0);
        let (Some(least), Some(most)) = (values().min(), values().max()) else { return };
        // The scale begins half-way below the least value, so that it is not empty.
        let lower = (least / 2).max(1);
        let range = (most as f64 / lower as f64).ln();
        let height = |value: u64| match value {
            0 => 0,
            _ => ((value as f64 / lower as f64).ln() / range * (CHART_ROWS * 8) as f64).ceil() as usize,
        };
        let middle = (lower as f64 * (range / 2.0).exp()) as u64;
        self.frame([most, middle, lower], events, |row, column| {
            let (succeeds, follows) = columns[column];
            match height(follows).checked_sub(1).map(|eighths| eighths / 8) {
                Some(at) if at == row && succeeds < follows => '!',
                Some(at) if at == row => '─',
                _ => filled(height(succeeds), row),
            }
        });
        self.line("");
        self.line(
            "  logarithmic; █ the largest request that succeeds, least of the column; ─ the largest that follows",
        );
        if headroom.below > 0 {
            self.line("  ! the largest that follows, where it is more than what succeeds");
        }
        if headroom.stride > 1 {
            let stride = grouped(headroom.stride);
            self.line(format!(
                "  queried after one operation in {stride}, because a query does not take constant time"
            ));
        }
        self.line("");
        for paragraph in warnings(headroom) {
            self.line(wrapped(&paragraph, 2 + 11 + CHART_COLUMNS, 2));
        }
    }

    fn sizes(&mut self, survey: &Survey) {
        if survey.sizes.count == 0 {
            return;
        }
        self.section("Sizes of the allocations, bytes");
        self.spreads(&[("size", &survey.sizes)]);
        let share = percent(survey.sizes_at_most_512, survey.sizes.count);
        self.line(format!("  {share} are of 512 bytes or less"));
        self.line("");
        self.histogram(&survey.size_histogram);
        let alignments: Vec<String> = survey
            .alignments
            .iter()
            .map(|&(align, count)| format!("{align} B {}", percent(count, survey.sizes.count)))
            .collect();
        self.line("");
        self.line(format!("  alignment: {}", alignments.join(", ")));
    }

    fn lifetimes(&mut self, survey: &Survey) {
        let lives = &survey.lifetimes;
        self.section("Lifetimes of the freed blocks");
        self.line(format!("  {} freed, {} never freed", counted(lives.freed, "block"), grouped(lives.never_freed)));
        if lives.freed == 0 {
            return;
        }
        let unit = survey.meta.tick_unit.symbol();
        let both = [
            ("operations", &lives.operations, &lives.operations_histogram),
            (unit, &lives.ticks, &lives.ticks_histogram),
        ];
        // Without a clock, an importer counts operations.
        let is_same = both[0].1 == both[1].1 && both[0].2 == both[1].2;
        let shown = if is_same { &both[..1] } else { &both[..] };
        self.spreads(&shown.iter().map(|(unit, spread, _)| (*unit, *spread)).collect::<Vec<_>>());
        for (unit, _, bins) in shown {
            self.line("");
            self.line(format!("  in {unit}"));
            self.histogram(bins);
        }
    }

    fn threads(&mut self, survey: &Survey) {
        if survey.threads.len() < 2 {
            return;
        }
        self.section(&format!(
            "Threads: {}, {} of another thread's blocks ({})",
            survey.threads.len(),
            counted(survey.cross_thread_frees, "free"),
            percent(survey.cross_thread_frees, survey.totals.frees)
        ));
        let row = |page: &mut Self, cells: [String; 6]| {
            let [name, rest @ ..] = cells;
            let rest: String = rest.iter().map(|cell| format!("{cell:>15}")).collect();
            page.line(format!("  {name:<8}{rest}"));
        };
        let titles = ["thread", "operations", "allocations", "frees", "reallocations", "others' blocks"];
        row(self, titles.map(String::from));
        for (number, thread) in survey.threads.iter().enumerate().take(THREADS_LISTED) {
            let counts =
                [thread.operations(), thread.allocations, thread.frees, thread.reallocations, thread.frees_of_others];
            let [a, b, c, d, e] = counts.map(grouped);
            row(self, [number.to_string(), a, b, c, d, e]);
        }
        if let Some(rest @ [_, ..]) = survey.threads.get(THREADS_LISTED..) {
            let sum = |field: fn(&rtalloc_lab::trace::ThreadFacts) -> u64| grouped(rest.iter().map(field).sum());
            row(
                self,
                [
                    format!("+{}", rest.len()),
                    sum(|thread| thread.operations()),
                    sum(|thread| thread.allocations),
                    sum(|thread| thread.frees),
                    sum(|thread| thread.reallocations),
                    sum(|thread| thread.frees_of_others),
                ],
            );
        }
    }

    /// A table of distributions, one line each.
    fn spreads(&mut self, spreads: &[(&str, &Spread)]) {
        let titles = ["mean", "min", "10 %", "median", "90 %", "99 %", "99.9 %", "max"];
        let titles: String = titles.iter().map(|title| format!("{title:>10}")).collect();
        self.line(format!("  {:<10}{titles}", ""));
        for (name, spread) in spreads {
            let Spread { min, p10, p50, p90, p99, p999, max, mean, .. } = **spread;
            let quantiles: String = [min, p10, p50, p90, p99, p999, max]
                .iter()
                .map(|&value| format!("{:>10}", compact(value as f64)))
                .collect();
            let mean = rtalloc_lab::number::mean(mean);
            self.line(format!("  {name:<10}{mean:>10}{quantiles}"));
        }
    }

    /// One line per bin, with a bar relative to the fullest.
    fn histogram(&mut self, bins: &[Bin]) {
        let all: u64 = bins.iter().map(|bin| bin.count).sum();
        let fullest = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
        for &Bin { from, to, count } in bins {
            let eighths = (u128::from(count) * (BAR_COLUMNS * 8) as u128).div_ceil(u128::from(fullest)) as usize;
            let mut bar = "█".repeat(eighths / 8);
            if !eighths.is_multiple_of(8) {
                bar.push(RIGHTWARDS[eighths % 8 - 1]);
            }
            let (from, to) = (compact(from as f64), compact(to as f64));
            let share = percent(count, all);
            // Writing to a string cannot fail.
            let _ = writeln!(self.text, "  {from:>7} .. {to:<7}{:>13}{share:>9}  {bar}", grouped(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share_of_the_fullest() {
        let mut page = Page::default();
        let bins = [(0, 0, 0), (1, 1, 1), (2, 3, 160), (4, 7, 320)];
        page.histogram(&bins.map(|(from, to, count)| Bin { from, to, count }));
        let bars: Vec<&str> = page.text.lines().map(|line| line.rsplit("%  ").next().unwrap()).collect();
        assert_eq!(bars, ["", "▏", &"█".repeat(20), &"█".repeat(40)]);
    }
}

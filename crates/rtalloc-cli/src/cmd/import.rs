//! `rtalloc import`

use super::destination::{Files, print};
use crate::present::printable;
use anyhow::Context as _;
use rtalloc_lab::import::{Findings, Format, Log, Mode, Noted, Part, convert, incomplete};
use rtalloc_lab::number::{bytes, counted, grouped};
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::trace::{Incomplete, Meta, Origin, TickUnit, Totals, Writer};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Makes a trace of the log that a system prints of its heap.
///
/// Reads the logs of the heaps of FreeRTOS, Zephyr and ESP-IDF; the system needs no heap of ours:
///
///   FreeRTOS  traceMALLOC(ADDRESS, SIZE[, NUMBER]) and traceFREE(ADDRESS, SIZE[, NUMBER]), from the
///             macros of these names
///   Zephyr    heap_alloc(HEAP, ADDRESS, SIZE[, NUMBER]) and heap_free(HEAP, ADDRESS, SIZE[, NUMBER]),
///             from heap listeners
///   ESP-IDF   the text of heap_trace_dump(), and that of host-based tracing
///
/// The format is recognised from the text. The chapter "Measuring your program" of the book has the
/// C code for each system. NUMBER counts the lines from 0: it shows which lines were lost.
///
/// Other text may be before, between and after these lines. Damaged lines, refused requests, and
/// operations that contradict others are left out and counted, each kind with its first line. Missing
/// lines are counted. A log of several starts of the board, or of several dumps, has several parts.
///
/// heap_trace_dump() prints whether a block was freed, but not when. The trace frees it as late as
/// possible: before the next block in its memory, or else at the end. So the live memory of the blocks
/// in the dump is never less than it was; it may be more.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
pub struct Arguments {
    /// The log
    log: PathBuf,
    /// Trace file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Imports one of several parts of the log, counted from 1; by default the one with the most operations
    #[arg(long, value_name = "NUMBER")]
    part: Option<usize>,
    /// Imports one of several heaps of the log, by its name there; by default all
    #[arg(long, value_name = "NAME")]
    heap: Option<String>,
    /// Name of the trace; by default the log's
    #[arg(long)]
    name: Option<String>,
    /// One-line description of what was running
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// File for the findings as JSON
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc import uart.log -o mission.rtrace
  rtalloc import uart.log -o boot.rtrace --part 1
  rtalloc import zephyr.log -o net.rtrace --heap 0x20001a40

`rtalloc inspect` prints INCOMPLETE for a trace that lacks operations.

The exit status is 0 when a trace was written, even if lines are missing.";

/// The findings, for other programs.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    format: Format,
    part: usize,
    parts: usize,
    first_line: u64,
    last_line: u64,
    heaps: &'a [String],
    damaged_lines: u64,
    other_lines: u64,
    missing_by_number: Option<u64>,
    incomplete: Option<&'a Incomplete>,
    findings: &'a Findings,
    totals: &'a Totals,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let path = &arguments.log;
    let mut files = Files::new();
    files.reads("LOG", path)?;
    files.file("--output", Some(&arguments.output))?;
    let summary = files.file("--summary", arguments.summary.as_deref())?;
    let cannot = || format!("cannot import {}", path.display());
    let text = std::fs::read(path).with_context(cannot)?;
    let log = Log::parse(&text).with_context(cannot)?;
    let number = arguments.part.map_or_else(|| log.longest(), |part| part.wrapping_sub(1));
    let part = log.parts.get(number).with_context(|| {
        let instead = match log.parts.len() {
            1 => "1 part: leave --part out".into(),
            parts => format!("parts 1 to {parts}"),
        };
        format!("--part {}: {} has {instead}", number.wrapping_add(1), path.display())
    })?;
    let heap = arguments.heap.as_deref().map(|name| heap_of(&log, name)).transpose()?;

    // The head of a trace says what it lacks, which its conversion finds.
    let mut meta = meta(arguments, &log, part);
    let findings = convert(&log, part, heap, &mut Writer::new(std::io::sink(), &meta)?)?;
    meta.incomplete = incomplete(&log, part, &findings);
    let mut writer = Writer::create(&arguments.output, &meta)?;
    convert(&log, part, heap, &mut writer)?;
    let totals = writer.finish()?;

    print(&describe(arguments, &log, number, &findings, &totals))?;
    if let Some(file) = summary {
        let content = Summary {
            format: log.format,
            part: number + 1,
            parts: log.parts.len(),
            first_line: part.first_line,
            last_line: part.last_line,
            heaps: &log.heaps,
            damaged_lines: part.damaged,
            other_lines: log.other_lines,
            missing_by_number: part.missing,
            incomplete: meta.incomplete.as_ref(),
            findings: &findings,
            totals: &totals,
        };
        let text = document::pretty(Schema::IMPORT, &content).context("cannot write the summary as JSON")?;
        file.write(&text).context("--summary")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The place of a heap among those of the log.
fn heap_of(log: &Log, name: &str) -> anyhow::Result<usize> {
    let named: Vec<&str> = log.heaps.iter().map(String::as_str).filter(|heap| !heap.is_empty()).collect();
    let format = log.format.name();
    anyhow::ensure!(!named.is_empty(), "--heap {name}: a log of {format} has no names of heaps: leave --heap out");
    log.heaps.iter().position(|heap| heap == name).with_context(|| {
        format!("--heap {name}: no operation is in this heap; the log has {}", printable(&named.join(", ")))
    })
}

/// The metadata of the trace, without what it lacks.
fn meta(arguments: &Arguments, log: &Log, part: &Part) -> Meta {
    let shown = arguments.log.display().to_string();
    let stem = arguments.log.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let about = format!("lines {} to {} of a log of {}", part.first_line, part.last_line, log.format.name());
    let mut command: Vec<String> = ["rtalloc", "import"].map(String::from).into();
    command.push(shown);
    Meta {
        name: arguments.name.clone().unwrap_or(stem),
        about: arguments.about.clone().unwrap_or(about),
        origin: Origin::Program { command },
        tick_unit: TickUnit::Logical,
        // The log contains no date, and its conversion is deterministic.
        created_unix_seconds: None,
        incomplete: None,
    }
}

/// The findings as text.
fn describe(arguments: &Arguments, log: &Log, number: usize, findings: &Findings, totals: &Totals) -> String {
    let part = &log.parts[number];
    let mut text = format!("{}: a log of {}\n", arguments.log.display(), log.format.name());
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<12}{value}");
    };
    let range = |part: &Part| format!("lines {} to {}", grouped(part.first_line), grouped(part.last_line));
    if log.parts.len() > 1 {
        let what = if log.format == Format::EspDump { "dumps" } else { "starts of the program" };
        line("parts", &format!("{}, which are {what}; --part chooses", grouped(log.parts.len() as u64)));
        for (place, each) in log.parts.iter().enumerate() {
            let chosen = if place == number { ", imported" } else { "" };
            let operations = counted(each.entries.len() as u64, "operation");
            line("", &format!("{}: {}, {operations}{chosen}", place + 1, range(each)));
        }
    } else {
        line("lines", &format!("{} to {}", grouped(part.first_line), grouped(part.last_line)));
    }
    line("other text", &counted(log.other_lines, "line"));
    heaps(&mut line, log, part, arguments.heap.as_deref());
    let operations = format!(
        "{}, {}, {}; at most {} in {} live at once",
        counted(totals.allocations, "allocation"),
        counted(totals.reallocations, "reallocation"),
        counted(totals.frees, "free"),
        bytes(totals.peak_live_bytes),
        counted(totals.peak_live_blocks, "block"),
    );
    line("operations", &operations);
    match (log.format, part.missing) {
        (Format::EspDump, _) => dump(&mut line, part),
        (_, Some(0)) => line("numbers", "complete: no line is missing"),
        (_, Some(missing)) => {
            line("MISSING", &format!("{}, by the numbers of the lines", counted(missing, "operation")));
        }
        (_, None) => line("numbers", "none: a lost line is noticed only if a later one contradicts it"),
    }
    if let Some(first) = part.first_damaged {
        let first = grouped(first);
        match part.damaged {
            1 => line("DAMAGED", &format!("line {first}, left out")),
            lines => line("DAMAGED", &format!("{} lines, left out; the first is line {first}", grouped(lines))),
        }
    }
    // Of one block, or of several.
    let of = |noted: Noted, one: &'static str, several: &'static str| if noted.count == 1 { one } else { several };
    let unknown = of(findings.unknown_frees, "of an unknown block", "of unknown blocks");
    let unknown = format!("{unknown}, allocated before the log or in a lost line");
    let repeated = of(findings.repeated_frees, "of a block that was free already", "of blocks that were free already");
    let missed = of(findings.missed_frees, "of a block", "of blocks");
    let missed = format!("{missed} in whose memory another block was allocated");
    let notes: [(Noted, &str, &str, &str); 7] = [
        (findings.refused, "refused", "request", "that returned null, left out"),
        (findings.zero_sized, "changed", "request", "of 0 bytes to 1 byte"),
        (findings.null_frees, "left out", "free", "of a null address, which C permits"),
        (findings.unknown_frees, "left out", "free", &unknown),
        (findings.repeated_frees, "left out", "free", repeated),
        (findings.missed_frees, "added", "free", &missed),
        (findings.other_sizes, "sizes", "free", "with another size than the allocation, which counts"),
    ];
    for (noted, name, noun, what) in notes {
        let line_number = grouped(noted.first_line);
        match noted.count {
            0 => {}
            1 => line(name, &format!("1 {noun} {what}; in line {line_number}")),
            count => line(name, &format!("{} {what}; the first in line {line_number}", counted(count, noun))),
        }
    }
    if findings.late_frees > 0 {
        let frees = counted(findings.late_frees, "free");
        line("late", &format!("{frees} at an unknown time: in the trace as late as the addresses permit"));
    }
    line("trace", &format!("{}: {}", arguments.output.display(), counted(totals.events, "event")));
    text
}

/// The heaps of a part, if they have names.
fn heaps(line: &mut impl FnMut(&str, &str), log: &Log, part: &Part, chosen: Option<&str>) {
    if log.heaps.iter().all(String::is_empty) {
        return;
    }
    let each = log.heaps.iter().enumerate().map(|(place, name)| {
        let count = part.entries.iter().filter(|entry| entry.heap == place).count() as u64;
        let name = if name.is_empty() { "unnamed" } else { name };
        format!("{name} ({})", counted(count, "operation"))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let remark = match chosen {
        Some(name) => format!("; imported: {name}"),
        None if log.heaps.len() > 1 => "; all in one trace, --heap imports one".into(),
        None => String::new(),
    };
    line("heaps", &printable(&(each + &remark)));
}

/// What a dump says of itself, where it differs from its lines.
fn dump(line: &mut impl FnMut(&str, &str), part: &Part) {
    let there = part.entries.len() as u64;
    let dump = &part.dump;
    match dump.mode {
        None => line("MISSING", "the end of the dump"),
        Some(Mode::All) => line("mode", "all allocations"),
        Some(Mode::Leaks) => line("mode", "leaks: only the blocks that were still live, no program"),
    }
    if let Some(announced) = dump.records.filter(|announced| *announced != there) {
        let why = "lost, or left out by heap_trace_dump_caps";
        line("records", &format!("{} of {}; the others are {why}", grouped(there), grouped(announced)));
    }
    let live: u64 = part.entries.iter().filter(|entry| !entry.is_freed()).map(|entry| entry.size).sum();
    if let Some(stated) = dump.live_bytes.filter(|stated| *stated != live) {
        let stated = grouped(stated);
        line(
            "DIFFERENT",
            &format!("the dump states {stated} live bytes, its lines have {}: some are lost", grouped(live)),
        );
    }
    if let (Some(allocations), Some(frees)) = (dump.allocations, dump.frees) {
        let both = format!("{}, {}", counted(allocations, "allocation"), counted(frees, "free"));
        let overflow = if dump.has_overflowed { "; the oldest records were overwritten" } else { "" };
        line("traced", &format!("{both}{overflow}"));
        let marked = part.entries.iter().filter(|entry| entry.is_freed()).count() as u64;
        if dump.mode == Some(Mode::All) && frees > marked {
            let frees = counted(frees - marked, "free");
            line("left out", &format!("{frees} that no record has: of older blocks, or not marked by this version"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_heap_is_refused_with_those_of_the_log() {
        let log = Log::parse(b"heap_alloc(0x2000, 0x3000, 8)\nheap_alloc(0x2800, 0x4000, 8)\n").expect("a log");
        assert_eq!(heap_of(&log, "0x2800").expect("it is there"), 1);
        let refused = heap_of(&log, "0x1").expect_err("no such heap").to_string();
        assert_eq!(refused, "--heap 0x1: no operation is in this heap; the log has 0x2000, 0x2800");
        let log = Log::parse(b"traceMALLOC(0x2000, 8)\n").expect("a log");
        let refused = heap_of(&log, "0x1").expect_err("no heaps").to_string();
        assert_eq!(refused, "--heap 0x1: a log of FreeRTOS has no names of heaps: leave --heap out");
    }
}

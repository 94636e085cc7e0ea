//! `rtalloc recover`

use super::destination::{Files, print};
use crate::present::printable;
use anyhow::Context as _;
use rtalloc_lab::number::{bytes, counted, grouped};
use rtalloc_lab::recover::{
    Entry, Findings, Found, Kind, Outcome, Replayed, Ring, Ticks, choose, convert, find, replay,
};
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::trace::{Cause, Incomplete, Meta, Origin, TickUnit, Totals, Writer};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Reads a flight recorder back: the last operations of a heap, from a dump of its memory.
///
/// A heap of the type `adapt::Traced` (in C, `rt_traced_tlsf`) keeps its last operations in its own region. The dump
/// may be what its `ring` returns, the whole region, what a debugger read (`dump binary memory` in gdb), or a core
/// file: the recorder is found by its signature. Without options, prints its contents. `--output` converts it to a
/// trace, for `inspect`, `run` and `compare`. `--replay` performs the operations again, on the same allocator in a
/// region of the same length, and compares every address with the recorded one.
///
/// A ring that ran over holds only the last operations. The trace then omits operations on blocks from before: their
/// frees are counted and omitted, and their reallocations become allocations. Addresses can be compared if nothing is
/// missing.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The dump
    dump: PathBuf,
    /// Trace file to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Performs the operations again and compares the addresses; fails if one differs
    #[arg(long)]
    replay: bool,
    /// Selects one of several recorders in a dump, by its byte offset; decimal, or hexadecimal after 0x
    #[arg(long, value_name = "BYTE", value_parser = parse_offset)]
    at: Option<u64>,
    /// Lists the last COUNT records
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "20")]
    last: Option<usize>,
    /// Unit of the trace's ticks
    #[arg(long, value_enum, default_value_t)]
    ticks: Ticks,
    /// Name of the trace; by default the dump's
    #[arg(long)]
    name: Option<String>,
    /// One-line description of what was running
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// File for the findings as JSON
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

fn parse_offset(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|error| format!("{error}: give an offset that `rtalloc recover DUMP` prints"))
}

/// The findings, for other programs.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    offset: u64,
    allocator: &'a str,
    bits: u32,
    region_address: u64,
    region_bytes: u64,
    capacity: u64,
    recorded: u64,
    overwritten: u64,
    damaged: u64,
    is_complete: bool,
    under_way: Option<&'a Entry>,
    findings: &'a Findings,
    totals: &'a Totals,
    replayed: Option<&'a Replayed>,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let path = &arguments.dump;
    let mut files = Files::new();
    files.reads("DUMP", path)?;
    files.file("--output", arguments.output.as_deref())?;
    let summary = files.file("--summary", arguments.summary.as_deref())?;
    let cannot = || format!("cannot recover from {}", path.display());
    let mut dump = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let metadata = dump.metadata().with_context(cannot)?;
    anyhow::ensure!(!metadata.is_dir(), "{} is a directory; name the file of the dump", path.display());
    let found = find(&mut dump).with_context(cannot)?;
    let has_work = arguments.output.is_some() || arguments.replay || arguments.last.is_some();
    if !has_work && arguments.at.is_none() && found.iter().filter(|found| found.ring.is_ok()).count() > 1 {
        print(&several(path, &found))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (offset, ring) = choose(found, arguments.at, metadata.len()).with_context(cannot)?;

    let meta = meta(arguments, &ring);
    let (totals, findings) = match &arguments.output {
        Some(output) => {
            let mut writer = Writer::create(output, &meta)?;
            let findings = convert(&ring, arguments.ticks, &mut writer)?;
            (writer.finish()?, findings)
        }
        None => {
            let mut writer = Writer::new(std::io::sink(), &meta)?;
            let findings = convert(&ring, arguments.ticks, &mut writer)?;
            (writer.finish()?, findings)
        }
    };
    let mut text = describe(path, offset, &ring, &findings, &totals);
    if let Some(output) = &arguments.output {
        line(&mut text, "trace", &format!("{}: {}", output.display(), counted(totals.events, "event")));
    }
    if let Some(count) = arguments.last {
        list(&mut text, &ring, count);
    }
    print(&text)?;
    // The findings are printed even if the replay fails.
    let replayed = arguments.replay.then(|| replay(&ring)).transpose().context("cannot replay")?;
    if let Some(replayed) = &replayed {
        print(&compared(replayed))?;
    }
    if let Some(file) = summary {
        let content = Summary {
            offset,
            allocator: &ring.name,
            bits: ring.bits,
            region_address: ring.base,
            region_bytes: ring.length,
            capacity: ring.capacity,
            recorded: ring.count,
            overwritten: ring.overwritten(),
            damaged: ring.damaged,
            is_complete: ring.is_complete(),
            under_way: ring.under_way.as_ref(),
            findings: &findings,
            totals: &totals,
            replayed: replayed.as_ref(),
        };
        let text = document::pretty(Schema::RECOVER, &content).context("cannot write the summary as JSON")?;
        file.write(&text).context("--summary")?;
    }
    let is_same = replayed.is_none_or(|replayed| replayed.difference.is_none());
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The metadata of the trace.
fn meta(arguments: &Arguments, ring: &Ring) -> Meta {
    let dump = arguments.dump.display().to_string();
    let stem = arguments.dump.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let about = format!(
        "the last {} of a heap of {} under {}",
        counted(ring.entries.len() as u64, "record"),
        bytes(ring.length),
        ring.name
    );
    let mut command: Vec<String> = ["rtalloc", "recover"].map(String::from).into();
    command.push(dump);
    Meta {
        name: arguments.name.clone().unwrap_or(stem),
        about: arguments.about.clone().unwrap_or(about),
        origin: Origin::Program { command },
        tick_unit: TickUnit::Logical,
        // The dump contains no time, and its conversion is deterministic.
        created_unix_seconds: None,
        incomplete: incomplete(ring),
    }
}

/// What the trace of a ring lacks.
fn incomplete(ring: &Ring) -> Option<Incomplete> {
    let cause = match (ring.overwritten(), ring.damaged) {
        (0, 0) => return None,
        (0, _) => Cause::Damaged,
        _ => Cause::Overwritten,
    };
    Some(Incomplete { cause, missing: Some(ring.overwritten() + ring.damaged), signal: None })
}

/// An indented line with a name and its value.
fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {name:<12}{value}");
}

/// Several recorders in one dump.
fn several(path: &Path, found: &[Found]) -> String {
    let mut text = format!("{}: several flight recorders; choose one with --at\n", path.display());
    for found in found {
        if let Ok(ring) = &found.ring {
            let records = counted(ring.entries.len() as u64, "record");
            let heap =
                format!("{}, {}, region of {} at {:#x}", printable(&ring.name), records, bytes(ring.length), ring.base);
            line(&mut text, &found.offset.to_string(), &heap);
        }
    }
    text
}

/// The findings as text.
fn describe(path: &Path, offset: u64, ring: &Ring, findings: &Findings, totals: &Totals) -> String {
    let mut text = format!("{}: a flight recorder of {} at byte {offset}\n", path.display(), printable(&ring.name));
    let order = if ring.is_big_endian { "most" } else { "least" };
    let machine = format!("a {}-bit machine, {order} significant byte first", ring.bits);
    line(&mut text, "heap", &format!("a region of {} bytes at {:#x} of {machine}", grouped(ring.length), ring.base));
    let there = ring.entries.len() as u64;
    let all = format!("{} of room for {}", grouped(there), grouped(ring.capacity));
    let overwritten = grouped(ring.overwritten());
    let completeness = match (ring.overwritten(), ring.damaged) {
        (0, 0) => "complete: from the heap's first operation on".into(),
        (_, 0) => format!("{overwritten} older ones were overwritten"),
        (0, _) => format!("not complete: {}", damaged(ring)),
        _ => format!("{overwritten} older ones were overwritten; {}", damaged(ring)),
    };
    line(&mut text, "records", &format!("{all}; {completeness}"));
    let operations = format!(
        "{}, {}, {}; at most {} in {} live at once",
        counted(totals.allocations, "allocation"),
        counted(totals.reallocations, "reallocation"),
        counted(totals.frees, "free"),
        bytes(totals.peak_live_bytes),
        counted(totals.peak_live_blocks, "block"),
    );
    line(&mut text, "operations", &operations);
    for refused in &findings.refused {
        line(&mut text, "refused", &format!("{} {}", counted(refused.count, "request"), refused.outcome.name()));
    }
    let notes = [
        (findings.marks, "marks", ""),
        (findings.regions, "regions", ": added or removed; a trace has no regions"),
        (findings.older_frees, "left out", ": frees of blocks from before the ring begins"),
        (findings.older_reallocations, "changed", ": reallocations of such blocks, which are allocations in the trace"),
        (findings.missed_frees, "added", ": frees that the damaged records must have contained"),
    ];
    for (count, name, what) in notes {
        if count > 0 {
            line(&mut text, name, &format!("{}{what}", grouped(count)));
        }
    }
    if let Some(first) = &findings.first_misuse {
        let count = counted(findings.misuses, "operation");
        line(
            &mut text,
            "MISUSE",
            &format!("{count} on blocks that were not live, left out; the first: {}", text_of(first)),
        );
    }
    if let Some(entry) = &ring.under_way {
        line(&mut text, "UNDER WAY", &format!("the machine stopped in the middle of {}", text_of(entry)));
    }
    text
}

/// How many records are damaged, and since when.
fn damaged(ring: &Ring) -> String {
    let first = ring.first_damaged.unwrap_or_default();
    let records = counted(ring.damaged, "record");
    format!("{records} damaged, the first number {first}: the ring was overwritten")
}

/// A record as text.
fn text_of(entry: &Entry) -> String {
    let Entry { number, kind, size, address, from, .. } = entry;
    // The refused value may not be a power of two; only its number of trailing zero bits is recorded.
    let align = match entry.outcome {
        Outcome::Alignment => format!("an alignment that ends in {}", counted(entry.align_log2.into(), "zero bit")),
        _ => format!("alignment {}", entry.align()),
    };
    let request = match kind {
        Kind::Allocate => format!("allocate {size} bytes at {align}"),
        Kind::Reallocate => format!("reallocate the block at {from:#x} to {size} bytes at {align}"),
        Kind::Deallocate => format!("free the block at {address:#x}"),
        Kind::Mark => format!("mark {size}"),
        Kind::AddRegion | Kind::RemoveRegion => format!("{} of {size} bytes at {address:#x}", kind.name()),
    };
    let answer = match entry.outcome {
        Outcome::Done if matches!(kind, Kind::Allocate | Kind::Reallocate) => format!(": the block at {address:#x}"),
        Outcome::Done | Outcome::UnderWay => String::new(),
        outcome => format!(": refused, {}", reason(outcome)),
    };
    format!("number {number}, {request}{answer}")
}

/// Why one request was refused.
fn reason(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::ZeroSize => "zero bytes",
        Outcome::Alignment => "for its alignment",
        Outcome::TooLarge => "larger than the heap",
        other => other.name(),
    }
}

/// The last records, one line each.
fn list(text: &mut String, ring: &Ring, count: usize) {
    let skipped = ring.entries.len().saturating_sub(count);
    let shown = &ring.entries[skipped..];
    let _ = writeln!(text, "\nThe last {}; offsets from {:#x}:", counted(shown.len() as u64, "record"), ring.base);
    for entry in shown {
        let _ = writeln!(text, "  {}", text_of(entry));
    }
}

/// The outcome of a replay, as text.
fn compared(replayed: &Replayed) -> String {
    let Replayed { subject, compared, same, .. } = replayed;
    let mut text = String::new();
    let share = format!("{} of {} results are identical, including every address", grouped(*same), grouped(*compared));
    match &replayed.difference {
        None if *compared == 0 => {
            line(&mut text, "replay", &format!("nothing to compare: no recorded request can be replayed on {subject}"));
        }
        None => line(&mut text, "replay", &format!("{share}, on {subject}")),
        Some(difference) => {
            let now = match difference.now {
                Some(offset) => format!("the block is at {offset:#x}"),
                None => "it is refused".into(),
            };
            let recorded = text_of(&difference.recorded);
            line(
                &mut text,
                "replay",
                &format!("{} results are identical on {subject}; the first difference:", grouped(*same)),
            );
            line(&mut text, "DIFFERENT", &format!("recorded: {recorded}; now {now}"));
            let why =
                "the heap's tags were overwritten, the heap was also used without the recorder, or the version differs";
            line(&mut text, "", &format!("possible reasons: {why}"));
        }
    }
    if replayed.misuses > 0 {
        let count = counted(replayed.misuses, "operation");
        line(
            &mut text,
            "",
            &format!("{count} on blocks that were not live were left out, because the heap ignored them"),
        );
    }
    if let Some(number) = replayed.region_added {
        line(&mut text, "", &format!("up to record number {number}, which added another region to the heap"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_alignment_is_printed_as_far_as_it_was_recorded() {
        let (kind, size, outcome) = (Kind::Allocate, 8, Outcome::Alignment);
        // Of 24.
        let entry = Entry { number: 7, kind, outcome, align_log2: 3, address: 0, size, from: 0 };
        let expected =
            "number 7, allocate 8 bytes at an alignment that ends in 3 zero bits: refused, for its alignment";
        assert_eq!(text_of(&entry), expected);
        let served = Entry { outcome: Outcome::Done, address: 0x40, ..entry };
        assert_eq!(text_of(&served), "number 7, allocate 8 bytes at alignment 8: the block at 0x40");
    }

    #[test]
    fn a_replay_that_compared_nothing_claims_no_match() {
        let none =
            Replayed { subject: "tlsf", compared: 0, same: 0, difference: None, misuses: 0, region_added: Some(0) };
        let said = compared(&none);
        assert!(said.contains("nothing to compare") && !said.contains("identical"), "{said}");
        assert!(said.contains("up to record number 0"), "{said}");
        let said = compared(&Replayed { compared: 4, same: 4, ..none });
        assert!(said.contains("4 of 4 results are identical"), "{said}");
    }
}

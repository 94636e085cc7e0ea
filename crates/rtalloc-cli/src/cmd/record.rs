//! `rtalloc record`

use super::destination::Files;
use super::note;
use anyhow::Context;
use rtalloc_lab::record::{self, Findings, RawLog, RawReader, convert, exit_code, incomplete, launch};
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::trace::{Cause, Incomplete, Meta, Origin, TickUnit, Totals, Writer};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Records the memory traffic of a program into a trace.
///
/// Runs the program as it would run by itself, with its input, output and exit code, and records every call of malloc,
/// free and their relatives, of all its threads. The trace is complete up to the end of the program, however it ended.
/// Child processes run unrecorded; a program that replaces itself (`sh -c 'exec prog'`, `nice prog`) is recorded under
/// its last name.
///
/// The recorder is a library that is removed when rtalloc ends. A daemon that the program leaves behind keeps running,
/// but programs that it starts later do not find the library: each prints a warning of the dynamic linker (ld.so) and
/// runs nevertheless.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// Trace file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Name of the trace; by default the program's
    #[arg(long)]
    name: Option<String>,
    /// One-line description of what is running; by default the command
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Directory for the raw log while the program runs: 32 bytes per call, 64 per realloc. One in memory, such as
    /// /dev/shm, slows the program least
    #[arg(long, value_name = "DIRECTORY")]
    log_directory: Option<PathBuf>,
    /// Largest raw log in MiB; recording stops there and the program goes on
    #[arg(long, value_name = "MIB", default_value_t = record::DEFAULT_LIMIT_BYTES >> 20, value_parser = clap::value_parser!(u64).range(1..1 << 24))]
    log_limit_mib: u64,
    /// File for the summary as JSON
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Summary of the recording, for other programs.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    exit_code: u8,
    incomplete: Option<&'a Incomplete>,
    totals: &'a Totals,
    findings: &'a Findings,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc record -o lua.rtrace -- lua entities.lua
  rtalloc record -o server.rtrace --log-directory /dev/shm -- ./server --port 8080

Exit status:
  the program's own, or 128 + N when signal N ended it; the trace is complete up to that point
  123   calls are missing from the trace, for a reason other than a signal; `rtalloc inspect` shows
        the reason and the number
  125   nothing was recorded, or the trace could not be written
  2     the command line is invalid";

/// Exit status when the trace lacks calls.
const INCOMPLETE: u8 = 123;
/// Exit status when there is no trace; programs do not use it themselves, as with `env` and `timeout`.
pub(super) const FAILED: u8 = 125;

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut files = Files::new();
    let (program, rest) = arguments.command.split_first().context("name the program to record")?;
    files.reads("the program", &record::resolve(program))?;
    for word in rest.iter().map(Path::new).filter(|word| word.is_file()) {
        files.reads("a file that the program is given", word)?;
    }
    files.file("--output", Some(&arguments.output))?;
    let summary = files.file("--summary", arguments.summary.as_deref())?;
    let log_directory = arguments.log_directory.clone().unwrap_or_else(std::env::temp_dir);
    let log = RawLog::create(&log_directory, arguments.log_limit_mib << 20)?;
    let status = launch(&log, &arguments.command)?;

    let read = || RawReader::open(&log.log_path());
    let (survey, reader) = (read()?, read()?);
    // From here on an interrupt may end this process: the log is deleted with its last descriptor.
    drop(log);
    let incomplete = incomplete(survey, status)?;
    if !reader.is_attached() {
        anyhow::bail!("nothing was recorded ({status}): {}", record::obstacle(program));
    }
    let mut writer = Writer::create(&arguments.output, &meta(arguments, incomplete.clone()))?;
    let findings = convert(reader, &mut writer)?;
    let totals = writer.finish()?;
    note(&report(&arguments.output, &totals, &findings));
    let program_code = exit_code(status);
    let exit_code = match &incomplete {
        None => program_code,
        // The exit status reports it already.
        Some(killed @ Incomplete { cause: Cause::Killed, .. }) => {
            note(&format!("rtalloc: {killed}\n"));
            program_code
        }
        Some(incomplete) => {
            eprintln!("rtalloc: the recording is incomplete: {incomplete}{}", remedy(incomplete.cause));
            eprintln!("rtalloc: the program ended with {status}");
            INCOMPLETE
        }
    };
    if let Some(summary) = summary {
        let incomplete = incomplete.as_ref();
        let content = Summary { exit_code: program_code, incomplete, totals: &totals, findings: &findings };
        let text = document::pretty(Schema::RECORD, &content).context("cannot write the summary as JSON")?;
        summary.write(&text).context("--summary")?;
    }
    Ok(ExitCode::from(exit_code))
}

/// What to do about it.
fn remedy(cause: Cause) -> &'static str {
    match cause {
        Cause::LogLimit => "; raise the limit with --log-limit-mib",
        Cause::DiskFull => "; choose another directory with --log-directory",
        _ => "",
    }
}

/// The metadata of the trace.
fn meta(arguments: &Arguments, incomplete: Option<Incomplete>) -> Meta {
    let command: Vec<String> = arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    Meta {
        name: arguments.name.clone().unwrap_or_else(|| program.to_string_lossy().into_owned()),
        about: arguments.about.clone().unwrap_or_else(|| command.join(" ")),
        origin: Origin::Program { command },
        tick_unit: TickUnit::Nanoseconds,
        created_unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs()),
        incomplete,
    }
}

/// The summary as text. Goes to standard error: standard output is the program's.
fn report(output: &Path, totals: &Totals, findings: &Findings) -> String {
    let mut text = format!(
        "rtalloc: {}: {} allocations, {} reallocations, {} frees, {} threads; at most {} bytes in {} blocks live at once\n",
        output.display(),
        totals.allocations,
        totals.reallocations,
        totals.frees,
        totals.threads,
        totals.peak_live_bytes,
        totals.peak_live_blocks,
    );
    // Writing to a String cannot fail.
    let mut line = |count: u64, what: &str| {
        if count > 0 {
            let _ = writeln!(text, "rtalloc: {count} {what}");
        }
    };
    line(findings.cross_thread_frees, "blocks were freed by a thread other than the one that allocated them");
    line(findings.zero_sized, "requests of size 0 are recorded as 1 byte");
    line(findings.refused, "requests returned null and are not in the trace");
    line(
        u64::from(findings.programs.saturating_sub(1)),
        "times the program replaced itself with another (exec); the trace is that of the last one",
    );
    line(findings.unknown_frees, "frees of blocks allocated before recording began are not in the trace");
    line(
        findings.unknown_reallocations,
        "reallocations of blocks allocated before recording began are recorded as allocations",
    );
    line(findings.missed_frees, "blocks were reused without a recorded free; the trace frees them just before");
    if totals.events == 0 {
        let _ = writeln!(text, "rtalloc: the program allocated nothing, so the trace is empty");
    }
    text
}

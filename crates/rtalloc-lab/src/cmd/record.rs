//! `rtalloc record`

use crate::record::{self, Findings, RawLog, StopReason, convert, exit_code, launch};
use crate::trace::{Meta, Origin, TickUnit, Totals, Writer};
use anyhow::Context;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Records the memory traffic of a program into a trace.
///
/// Runs the program as it would run by itself, with its input, output and exit code, and writes down every call of malloc, free
/// and their relatives, of all its threads. What ended the program does not matter: the trace holds everything up to
/// there. Child processes run unrecorded; a program that replaces itself (`sh -c 'exec prog'`, `nice prog`) is recorded under its last name.
///
/// The recorder is a library that is removed when rtalloc ends. A daemon that the program leaves behind keeps running, but
/// further programs that it starts then find the library gone: each prints a warning of the dynamic linker (ld.so) and
/// runs all the same.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Trace file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Name of the trace; by default the program's
    #[arg(long)]
    name: Option<String>,
    /// One line for people on what is running; by default the command
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

/// What the recording came to, for programs.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    exit_code: u8,
    totals: &'a Totals,
    findings: &'a Findings,
}

/// Runs the verb.
///
/// # Errors
///
/// Whatever stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let log_directory = arguments.log_directory.clone().unwrap_or_else(std::env::temp_dir);
    let log = RawLog::create(&log_directory, arguments.log_limit_mib << 20)?;
    let mut writer = Writer::create(&arguments.output, &meta(arguments))?;
    let status = launch(&log, &arguments.command)?;
    let exit_code = exit_code(status);

    let findings = convert(&log.log_path(), &mut writer)?;
    if !findings.is_attached {
        let program = arguments.command.first().map(OsString::as_os_str).unwrap_or_default();
        anyhow::bail!("nothing was recorded ({status}): {}", record::obstacle(program));
    }
    let totals = writer.finish()?;
    eprint!("{}", report(&arguments.output, &totals, &findings));
    if let Some(path) = &arguments.summary {
        let summary = Summary { exit_code, totals: &totals, findings: &findings };
        let text = serde_json::to_string_pretty(&summary).context("cannot write the summary as JSON")?;
        std::fs::write(path, text + "\n").with_context(|| format!("cannot write the summary to {}", path.display()))?;
    }
    Ok(ExitCode::from(exit_code))
}

/// The head of the trace.
fn meta(arguments: &Arguments) -> Meta {
    let command: Vec<String> = arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    Meta {
        name: arguments.name.clone().unwrap_or_else(|| program.to_string_lossy().into_owned()),
        about: arguments.about.clone().unwrap_or_else(|| command.join(" ")),
        origin: Origin::Program { command },
        tick_unit: TickUnit::Nanoseconds,
        created_unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs()),
    }
}

/// The summary for people. Goes to standard error: standard output is the program's.
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
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            let _ = writeln!(text, "rtalloc: {count} {what}");
        }
    };
    note(findings.cross_thread_frees, "blocks were freed by another thread than the one that allocated them");
    note(findings.zero_sized, "requests of size 0 are held as 1 byte");
    note(findings.refused, "requests returned null and are not in the trace");
    note(
        u64::from(findings.programs.saturating_sub(1)),
        "times the program replaced itself by another (exec); the trace is of the last one",
    );
    note(
        findings.unknown_frees,
        "frees of blocks that were never seen allocated are not in the trace (blocks from before recording)",
    );
    note(
        findings.unknown_reallocations,
        "reallocations of blocks that were never seen allocated are held as allocations (blocks from before recording)",
    );
    note(findings.missed_frees, "blocks were reused without a free that was seen; the trace frees them just before");
    note(findings.unfinished, "records were begun but not completed when the program ended");
    if let Some(reason) = findings.stop_reason {
        let why = match reason {
            StopReason::Limit => "the raw log reached its limit; raise it by --log-limit-mib",
            StopReason::DiskFull => "the disk of the raw log is full; name another directory by --log-directory",
            StopReason::KernelTooOld => "the kernel is older than Linux 4.14, which recording needs",
        };
        let _ = writeln!(text, "rtalloc: recording stopped early, {} calls are missing: {why}", findings.lost);
    }
    if totals.events == 0 {
        let _ = writeln!(text, "rtalloc: the program allocated nothing, so the trace is empty");
    }
    text
}

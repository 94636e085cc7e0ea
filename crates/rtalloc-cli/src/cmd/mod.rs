//! The command line: one file per subcommand.

pub mod advise;
pub mod allocators;
mod arguments;
pub mod bound;
pub mod compare;
pub mod completions;
pub mod costs;
mod cut;
mod destination;
pub mod export;
pub mod generate;
pub mod import;
pub mod inspect;
pub mod interleave;
mod link;
pub mod merge;
pub mod progress;
pub mod record;
pub mod recover;
pub mod reproduce;
pub mod run;
pub mod showcase;
pub mod size;
pub mod threads;
pub mod tune;

use crate::present;
use crate::version;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rtalloc_lab::trace::Reader;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Dynamic memory for real-time systems: load, measure, bound and compare allocators.
///
/// Without a command, replays the traces of real programs that ship with rtalloc on a selected dozen of allocators and
/// writes report.html, within a minute on two cores. The dozen: the best known of each family of ours, so that every
/// mechanism is in one table, and the most common peers. `--on all` shows everything.
#[derive(Debug, Parser)]
#[command(name = "rtalloc", version = version::TEXT, propagate_version = true, about, long_about)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    showcase: showcase::Arguments,
    /// Prints no progress and no notes on standard error: only results and errors
    #[arg(long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(record::Arguments),
    Recover(recover::Arguments),
    Import(import::Arguments),
    Generate(generate::Arguments),
    Inspect(inspect::Arguments),
    Run(run::Arguments),
    Threads(threads::Arguments),
    Compare(compare::Arguments),
    Advise(advise::Arguments),
    Bound(bound::Arguments),
    Allocators(allocators::Arguments),
    Reproduce(reproduce::Arguments),
    Costs(costs::Arguments),
    Size(size::Arguments),
    Interleave(interleave::Arguments),
    Tune(tune::Arguments),
    Export(export::Arguments),
    Merge(merge::Arguments),
    Completions(completions::Arguments),
}

/// Parses the command line and runs the subcommand; an error goes to standard error with its causes.
pub fn main() -> ExitCode {
    rtalloc_lab::result::version::set(version::TEXT);
    let matches = stating_exit_status(Cli::command()).get_matches_from(generate::spelled_out(std::env::args_os()));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    QUIET.store(cli.quiet, Ordering::Relaxed);
    let failure = match cli.command {
        Some(Command::Record(_)) => ExitCode::from(record::FAILED),
        _ => ExitCode::FAILURE,
    };
    let outcome = match cli.command {
        None => showcase::main(&cli.showcase),
        Some(Command::Record(arguments)) => record::main(&arguments),
        Some(Command::Recover(arguments)) => recover::main(&arguments),
        Some(Command::Import(arguments)) => import::main(&arguments),
        Some(Command::Generate(arguments)) => generate::main(&arguments),
        Some(Command::Inspect(arguments)) => inspect::main(&arguments),
        Some(Command::Run(arguments)) => run::main(&arguments),
        Some(Command::Threads(arguments)) => threads::main(&arguments),
        Some(Command::Compare(arguments)) => compare::main(&arguments),
        Some(Command::Advise(arguments)) => advise::main(&arguments),
        Some(Command::Bound(arguments)) => bound::main(&arguments),
        Some(Command::Allocators(arguments)) => allocators::main(&arguments),
        Some(Command::Reproduce(arguments)) => reproduce::main(&arguments),
        Some(Command::Costs(arguments)) => costs::main(&arguments),
        Some(Command::Size(arguments)) => size::main(&arguments),
        Some(Command::Interleave(arguments)) => interleave::main(&arguments),
        Some(Command::Tune(arguments)) => tune::main(&arguments),
        Some(Command::Export(arguments)) => export::main(&arguments),
        Some(Command::Merge(arguments)) => merge::main(&arguments),
        Some(Command::Completions(arguments)) => completions::main(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rtalloc: {}", one_line(&error));
            failure
        }
    }
}

/// What every command has in common in its help: its summary has no full stop; and the exit status: a command states
/// what 0 means, and what else is special. `record` returns the status of the recorded program.
fn stating_exit_status(command: clap::Command) -> clap::Command {
    if command.get_name() == "record" {
        return command;
    }
    let own = command.get_after_long_help().or(command.get_after_help());
    let mut text = own.map(ToString::to_string).unwrap_or_default();
    if !text.contains(SUCCESS) {
        text.push_str(if text.is_empty() { "" } else { "\n\n" });
        text.push_str(SUCCESS);
        text.push_str(" on success.");
    }
    text.push_str(FAILURES);
    // A verbatim doc comment keeps the full stop that clap takes from others.
    let about = command.get_about().map(|about| about.to_string().trim_end_matches('.').to_string());
    let command = if let Some(about) = about { command.about(about) } else { command };
    command.after_long_help(text).mut_subcommands(stating_exit_status)
}

const SUCCESS: &str = "The exit status is 0";
const FAILURES: &str = "
It is 2 when the command line is malformed: an unknown or missing argument, or a value that
cannot be read. It is 1 after any other error.";

/// Whether `--quiet` was given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether only results and errors are printed.
fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints what is neither a result nor an error, to standard error.
fn note(text: &str) {
    if !is_quiet() {
        eprint!("{text}");
    }
}

/// Notes that the recording at `path` is incomplete, if its header says so. A file that cannot be read is reported by
/// its reader.
fn note_incomplete(path: &Path) {
    if let Ok(reader) = Reader::open(path)
        && let Some(incomplete) = &reader.meta().incomplete
    {
        note(&format!("rtalloc: {} is incomplete: {incomplete}\n", path.display()));
    }
}

/// The text after the options in the help of a subcommand: the possible names, and examples.
fn after_help<'a>(title: &str, names: impl IntoIterator<Item = &'a str>, examples: &str) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    format!("{title}:\n{}\n\n{examples}", present::verdict::wrapped(&names.join(", "), 100, 2))
}

/// An error and its causes in one line, each once: many errors already include their cause.
fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn the_help_of_every_command_is_like_the_others_and_states_its_exit_status_once() {
        fn visit(mut command: clap::Command, visited: &mut usize) {
            let about = command.get_about().expect("a summary").to_string();
            assert!(!about.ends_with('.') || *visited == 0, "{about}");
            // Clap breaks longer lines, also of a text that is already broken.
            let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
            let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            let broken = long.split("\n\n").filter(|paragraph| paragraph.contains('\n')).chain([&*after]);
            let too_long = broken.flat_map(str::lines).find(|line| line.chars().count() > 100);
            assert_eq!(too_long, None, "{}", command.get_name());
            let help = command.render_long_help().to_string();
            let (successes, failures) = (help.matches(SUCCESS).count(), help.matches(FAILURES).count());
            let expected = usize::from(command.get_name() != "record");
            assert_eq!((successes, failures), (expected, expected), "{help}");
            *visited += 1;
            // Clap adds `help` when it renders.
            let own = command.get_subcommands().filter(|each| each.get_name() != "help");
            own.for_each(|each| visit(each.clone(), visited));
        }
        let mut visited = 0;
        visit(stating_exit_status(Cli::command()), &mut visited);
        assert!(visited > 20, "{visited}");
    }

    #[test]
    fn every_cause_is_printed_once() {
        let missing = Reader::open("nowhere.trace").map(drop).context("cannot inspect").expect_err("no such file");
        let text = one_line(&missing);
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
        assert!(text.starts_with("cannot inspect: cannot open nowhere.trace: No such file"), "{text}");
        let plain = anyhow::anyhow!("no room").context("cannot write").context("--json");
        assert_eq!(one_line(&plain), "--json: cannot write: no room");
    }
}

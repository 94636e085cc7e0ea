//! The command line: one file per verb.

pub mod generate;
pub mod inspect;
pub mod progress;
pub mod record;
pub mod run;
mod shipped;
pub mod showcase;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Dynamic memory for real-time systems: load, measure and compare allocators.
///
/// Without a command, replays the traces of real programs that ship with rtalloc on every allocator and writes
/// report.html.
#[derive(Debug, Parser)]
#[command(name = "rtalloc", version, about, long_about)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    showcase: showcase::Arguments,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Record(record::Arguments),
    Generate(generate::Arguments),
    Inspect(inspect::Arguments),
    Run(run::Arguments),
}

/// Parses the command line and runs the verb; an error goes to standard error with its causes.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.verb {
        None => showcase::main(&cli.showcase),
        Some(Verb::Record(arguments)) => record::main(&arguments),
        Some(Verb::Generate(arguments)) => generate::main(&arguments),
        Some(Verb::Inspect(arguments)) => inspect::main(&arguments),
        Some(Verb::Run(arguments)) => run::main(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rtalloc: {error:#}");
            ExitCode::FAILURE
        }
    }
}

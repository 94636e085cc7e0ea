//! `rtalloc completions`

use super::Cli;
use super::destination::print;
use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::process::ExitCode;

/// Prints completions for a shell: subcommands, options, and the values of options.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The shell.
    #[arg(value_name = "SHELL", value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc completions bash > ~/.local/share/bash-completion/completions/rtalloc
  rtalloc completions zsh > ~/.zfunc/_rtalloc       with fpath+=~/.zfunc before compinit
  rtalloc completions fish > ~/.config/fish/completions/rtalloc.fish";

/// Runs the subcommand.
///
/// # Errors
///
/// Standard output cannot be written.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let shell: Shell = arguments.shell.parse().map_err(anyhow::Error::msg)?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "rtalloc", &mut script);
    print(&String::from_utf8(script).context("the completions")?).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

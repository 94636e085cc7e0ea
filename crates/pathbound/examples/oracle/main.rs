//! Bounds against executions: runs programs under `ptrace` and compares every bound with the executions that it covers.
//!
//! ```text
//! oracle [--executions N] [--seconds N] PLAN
//! ```
//!
//! Each line of PLAN is a group, a tab and a command, optionally with `NAME=VALUE` before it. A function of the
//! program, or of a library it loads, is analysed when it is first executed. If it has a bound, its executions are
//! single-stepped from the entry to the return, and
//!
//! - no execution that returns has more instructions than the bound, or fewer than the shortest path,
//! - every step is an edge of the graph,
//! - the certificate passes the checker, and both decoders agree on the graph.
//!
//! A function that is declined only because its loops need facts gets the facts of one execution: how often each loop
//! iterated in it. The bound under these facts must then cover that very execution.
//!
//! A program is cut after N seconds of processor time, its own and that of stepping it, so that a busy machine decides
//! nothing.
//!
//! The exit status is 1 after a violation or failure. The report goes to standard output, violations to standard error.

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
mod compare;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
mod measure;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
mod object;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
mod report;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
mod traced;

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    let mut limits = compare::Limits::default();
    let mut plan = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|value| value.parse().ok());
        let understood = match argument.as_str() {
            "--executions" => number().map(|value| limits.executions = value),
            "--seconds" => number().map(|value| limits.run = std::time::Duration::from_secs(value.into())),
            path => plan.replace(path.to_owned()).is_none().then_some(()),
        };
        if understood.is_none() {
            eprintln!(
                "unknown argument {argument:?}, or it lacks a number; usage: oracle [--executions N] [--seconds N] PLAN"
            );
            return ExitCode::from(2);
        }
    }
    let Some(plan) = plan else {
        eprintln!("no plan; usage: oracle [--executions N] [--seconds N] PLAN");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(&plan) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("cannot read {plan}: {error}");
            return ExitCode::from(2);
        }
    };
    let mut oracle = compare::Oracle::new(limits);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some((group, command)) = line.split_once('\t') else {
            eprintln!("{line:?} is not a group, a tab and a command");
            return ExitCode::from(2);
        };
        if let Err(error) = oracle.run(group, command) {
            eprintln!("{command}: {error}");
            oracle.failed_runs.push(command.to_owned());
        }
    }
    report::print(&oracle);
    ExitCode::from(u8::from(oracle.violations > 0 || !oracle.failed_runs.is_empty()))
}

/// On other systems nothing can be executed.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64")))]
fn main() {
    eprintln!("NOT RUN: executions are stepped on 64-bit x86-64 Linux");
    std::process::exit(77);
}

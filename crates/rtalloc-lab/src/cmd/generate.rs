//! `rtalloc generate`

use crate::present::number::{bytes, counted};
use crate::trace::{Event, TraceError, Writer};
use crate::workload::{Model, Sink, WorkloadError};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Generates a trace from a model of the literature.
#[derive(Debug, clap::Args)]
// No long help: it would spread the parameters of all models over ten pages.
#[command(
    flatten_help = true,
    long_about = None,
    subcommand_value_name = "MODEL",
    subcommand_help_heading = "Models",
    after_help = READINGS
)]
pub struct Arguments {
    #[command(subcommand)]
    model: Model,
    /// Trace file to write; by default MODEL.rtrace
    #[arg(short, long, value_name = "FILE", global = true)]
    output: Option<PathBuf>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", global = true, default_value_t = 1)]
    seed: u64,
}

/// What the options alone do not tell.
const READINGS: &str = "\
Model, parameters and seed determine every event, on every machine: random numbers are PCG64's,
all arithmetic is in integers, and the trace's header records what was asked for. MIN..MAX is an
inclusive range; one number fixes it. kB is 1024 bytes; a tick is a step of the model's clock.

Models and their sources:
  p1 p2 p3    Masmano, Ripoll, Balbastre, Crespo: A constant-time dynamic storage allocator for
              real-time systems. Software: Practice and Experience 38 (2008), section 7. A task
              of period p_i activates from a random phase on and requests N_r blocks of
              Normal(g_i/N_r, 10 % of it) bytes, each held for h; p_i, N_r and g_i are drawn once
              per task. Within a tick, ends of holding times come first.
  mean        Puaut: Real-time performance of dynamic memory allocation algorithms. ECRTS 2002,
              section 3; the MEAN model of Zorn and Grunwald (1994). Size, lifetime and interval
              are each U[0, 2 mean].
  uniform     The thesis on Bitframe (2012), section 6.1. A random live block is freed after
  small       every second allocation, so that the heap grows. small is Normal(32, 19.455), and
              every size above 108 comes at least once.
  loguniform  Loads that compare published allocators at a constant number of live blocks: a
  steady      random live block is freed and one allocated, over and over.

Readings of the holding time h, whose unit the paper does not give:
  fit         300..500 ticks: with these, three original implementations fragment as published
  literal     30..50 ticks, the paper's numbers in the unit of its periods
  periods     10..20 of the task's own periods

Examples:
  rtalloc generate p3 --seed 7 -o p3.rtrace
  rtalloc generate p1 --holding literal --mallocs 100000
  rtalloc generate loguniform --min 32 --max 4096 --live 500";

/// A progress bar that appears only when the work takes more than two seconds, and never in a pipe.
pub(super) struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// A bar of `length` steps; `template` as indicatif has it.
    pub(super) fn new(length: u64, template: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
        bar.set_style(
            ProgressStyle::with_template(template).expect("the template is a constant").progress_chars("=> "),
        );
        Self { bar, started: Instant::now(), shown: false }
    }

    /// Shows `position`, at most a few times a second.
    pub(super) fn set(&mut self, position: u64) {
        if !self.shown && self.started.elapsed() > Duration::from_secs(2) {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(position);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Passes events on to a writer and shows how many allocations there were.
struct Watched<W: std::io::Write> {
    writer: Writer<W>,
    progress: Progress,
}

impl<W: std::io::Write> Sink for Watched<W> {
    fn take(&mut self, event: &Event) -> Result<(), TraceError> {
        self.writer.push(event)?;
        if self.writer.totals().events.is_multiple_of(65_536) {
            self.progress.set(self.writer.totals().allocations);
        }
        Ok(())
    }
}

/// Runs the verb.
///
/// # Errors
///
/// Whatever stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { model, seed, output } = arguments;
    let path = output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.rtrace", model.name())));
    model.check()?;
    let progress = Progress::new(model.mallocs(), "{bar:40} {human_pos} of {human_len} mallocs, {eta} left");
    let mut sink = Watched { writer: Writer::create(&path, &model.meta(*seed))?, progress };
    match model.generate(*seed, &mut sink) {
        Err(WorkloadError::Trace(error)) => {
            return Err(error).with_context(|| format!("cannot write {}", path.display()));
        }
        outcome => outcome?,
    }
    let Watched { writer, progress } = sink;
    let totals = writer.finish().with_context(|| format!("cannot write {}", path.display()))?;
    drop(progress);
    let length = std::fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?.len();
    super::inspect::print(&format!(
        "{}: {}, {}, peak {} live in {}; file of {}\n",
        path.display(),
        counted(totals.allocations, "allocation"),
        counted(totals.frees, "free"),
        bytes(totals.peak_live_bytes),
        counted(totals.peak_live_blocks, "block"),
        bytes(length),
    ))?;
    Ok(ExitCode::SUCCESS)
}

//! `rtalloc generate`

use super::arguments::{operation, parse_size};
use super::destination::Files;
use super::progress::DelayedBar;
use anyhow::Context;
use clap::Subcommand;
use rtalloc_lab::experiment::costs::{self, CostsError};
use rtalloc_lab::number::{bytes, counted};
use rtalloc_lab::observe::Operation;
use rtalloc_lab::observe::scenario::{self, Recipe, Scenario};
use rtalloc_lab::trace::{Event, Meta, Origin, TickUnit, TraceError, Writer};
use rtalloc_lab::workload::{Model, Sink, WorkloadError};
use rtalloc_subjects::{Heap, Region, Subject};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Generates a trace from a model of the literature, or the worst case of an allocator.
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
    kind: Kind,
    /// Trace file to write; by default MODEL.rtrace, or worst-ALLOCATOR-OPERATION.rtrace
    #[arg(short, long, value_name = "FILE", global = true)]
    output: Option<PathBuf>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", global = true, default_value_t = 1)]
    seed: u64,
}

/// What is generated.
#[derive(Clone, Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
enum Kind {
    #[command(flatten)]
    Model(Model),
    /// The worst case of an allocator's operation, as the last operation: `worst:ALLOCATOR`
    ///
    /// The recipe is performed on a heap of the allocator while it is written down, so that nothing in the trace fails
    /// in a heap of that size. For peers it is TLSF's recipe, not known to be their worst.
    Worst(Worst),
}

/// The allocator and operation of a worst case.
#[derive(Clone, Debug, clap::Args)]
struct Worst {
    /// The allocator; `worst:NAME` is equivalent
    #[arg(value_name = "ALLOCATOR")]
    allocator: String,
    /// allocate, deallocate (or free), reallocate
    #[arg(long, value_name = "OP", default_value = "allocate", value_parser = operation)]
    operation: Operation,
    /// Recipe of the worst case: the paper's, or the harder one found through the allocator's bound; without it, the
    /// costliest known at that heap size
    #[arg(long, value_name = "RECIPE", value_parser = recipe)]
    recipe: Option<Recipe>,
    /// Bytes of the heap that the trace is for, with suffix K, M or G (powers of 1024)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "4M")]
    heap: u64,
}

fn recipe(text: &str) -> Result<Recipe, String> {
    let known = [Recipe::Paper, Recipe::Harder].into_iter().find(|recipe| recipe.name() == text);
    known.ok_or_else(|| format!("there is no recipe {text:?}; there are: paper, harder"))
}

/// Splits `worst:NAME` into two words, as clap expects.
pub(super) fn spelled_out(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut spelled: Vec<OsString> = Vec::new();
    for argument in arguments {
        let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
        let generates = spelled.iter().skip(1).find(|word| !is_option(word)).is_some_and(|verb| verb == "generate");
        match argument.to_str().and_then(|text| text.strip_prefix("worst:")).filter(|_| generates) {
            Some(name) => spelled.extend([OsStr::new("worst").into(), OsStr::new(name).into()]),
            None => spelled.push(argument),
        }
    }
    spelled
}

/// Notes on the models that the options do not cover.
const READINGS: &str = "\
Model, parameters and seed determine every event, on every machine: random numbers are PCG64's,
all arithmetic is in integers, and the trace's header records all of them. MIN..MAX is an inclusive
range; one number fixes it. A tick is a step of the model's clock.

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
              every size above 108 occurs at least once.
  loguniform  Loads for comparing allocators at a constant number of live blocks: a random
  steady      live block is freed and one allocated, repeatedly.

Worst cases: the last operation of worst:ALLOCATOR is the worst case of that operation, in a heap
(`rtalloc run --heap`) of the same size. By default the costliest recipe known at that heap size;
`--recipe paper` is what `rtalloc bound` shows as the scenario maximum. `rtalloc costs` takes the
costliest. Recipes are those of Puaut 2002, section 3.1, of Masmano et al. 2008, section 6.1, of the
thesis on Bitframe, section 6.3, and harder ones of our own.

Interpretations of the holding time h, whose unit the paper does not give:
  fit         300..500 ticks, calibrated: binary buddy, dlmalloc, TLSF fragment about as published
  literal     30..50 ticks, the paper's numbers in the unit of its periods
  periods     10..20 of the task's own periods

Examples:
  rtalloc generate p3 --seed 7 -o p3.rtrace
  rtalloc generate p1 --holding literal --mallocs 100000
  rtalloc generate loguniform --min 32 --max 4096 --live 500
  rtalloc generate worst:first-fit --heap 64M
  rtalloc generate worst:tlsf --operation free --recipe paper";

/// Passes events on to a writer and shows how many allocations there were.
struct Watched<W: std::io::Write> {
    writer: Writer<W>,
    progress: DelayedBar,
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

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.kind {
        Kind::Model(model) => of_model(model, arguments),
        Kind::Worst(worst) => of_worst(worst, arguments.output.as_deref()),
    }
}

fn of_model(model: &Model, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { seed, output, .. } = arguments;
    let path = output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.rtrace", model.name())));
    model.check()?;
    Files::new().file("--output", Some(&path))?;
    let progress = DelayedBar::new(model.mallocs(), "{bar:40} {human_pos} of {human_len} mallocs, {eta} left");
    let mut sink = Watched { writer: Writer::create(&path, &model.meta(*seed))?, progress };
    match model.generate(*seed, &mut sink) {
        Err(WorkloadError::Trace(error)) => {
            return Err(error).with_context(|| format!("cannot write {}", path.display()));
        }
        outcome => outcome?,
    }
    let Watched { writer, progress } = sink;
    finish(writer, &path, || drop(progress), "")
}

/// Writes the trace of a worst case.
fn of_worst(worst: &Worst, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let Worst { allocator, operation, heap, .. } = worst;
    anyhow::ensure!(!allocator.is_empty(), "name an allocator for the worst case: rtalloc generate worst:tlsf");
    let subject = rtalloc_subjects::one(allocator)?;
    anyhow::ensure!(!subject.own_pages, "{allocator} takes its own pages: its heap cannot be prepared");
    let heap = &(*heap).min(subject.largest_heap_bytes());
    let heap_bytes = usize::try_from(*heap).context("--heap")?;
    // Checked before a recipe is chosen: every recipe would fail in the same way.
    let mut region = Region::new(heap_bytes, false).context("no memory for a heap of that size")?;
    let larger = || format!("{allocator} needs a larger --heap than {heap}");
    Heap::new(subject, &mut region, heap_bytes).with_context(larger)?;
    let scenario = scenario(worst, subject, heap_bytes)?;
    let script = scenario.script(subject, &mut region, heap_bytes).with_context(larger)?;
    let operation = operation.name().replace(' ', "-");
    let default = || PathBuf::from(format!("worst-{allocator}-{operation}.rtrace"));
    let path = output.map_or_else(default, Path::to_path_buf);
    Files::new().file("--output", Some(&path))?;
    // For allocators without a recipe of their own this is only an attempt.
    let borrowed = subject.view.is_none() && scenario.subjects.is_empty();
    let description = if borrowed {
        format!("{scenario}; the recipe is TLSF's, not known to be the worst case of {allocator}")
    } else {
        scenario.to_string()
    };
    let worst = if borrowed { "" } else { "worst " };
    let parameters = [
        ("operation", operation.clone()),
        ("recipe", scenario.recipe.name().into()),
        ("heap_bytes", heap_bytes.to_string()),
    ];
    let meta = Meta {
        name: format!("worst-{allocator}-{operation}"),
        about: format!("{worst}{operation} of {allocator} in a heap of {}: {description}", bytes(*heap)),
        origin: Origin::Model {
            model: format!("worst:{allocator}"),
            seed: 0,
            random: "none".into(),
            parameters: BTreeMap::from(parameters.map(|(name, value)| (name.into(), value))),
        },
        tick_unit: TickUnit::Logical,
        created_unix_seconds: None,
        incomplete: None,
    };
    let mut writer = Writer::create(&path, &meta)?;
    let written = script.events().iter().try_for_each(|event| writer.push(event));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    finish(writer, &path, || {}, &format!("last: {description}\n"))
}

/// The costliest of the requested scenarios.
fn scenario(worst: &Worst, subject: &Subject, heap_bytes: usize) -> anyhow::Result<&'static Scenario> {
    let of_operation = || scenario::of(subject).filter(|scenario| scenario.operation == worst.operation);
    let wanted = |scenario: &&Scenario| worst.recipe.is_none_or(|recipe| scenario.recipe == recipe);
    let choice: Vec<&'static Scenario> = of_operation().filter(wanted).collect();
    let found = match costs::costliest(subject, &choice, heap_bytes) {
        // Where instructions cannot be counted: the recipe named `harder`.
        Err(CostsError::Count(_)) => choice.into_iter().max_by_key(|scenario| scenario.recipe),
        found => found?,
    };
    found.with_context(|| {
        let name = |operation: Operation| operation.name().replace(' ', "-");
        let operation = name(worst.operation);
        let mut recipes: Vec<&str> = of_operation().map(|scenario| scenario.recipe.name()).collect();
        recipes.dedup();
        if recipes.is_empty() {
            let known = |operation: &Operation| scenario::of(subject).any(|scenario| scenario.operation == *operation);
            let there = Operation::ALL.into_iter().filter(known).map(name).collect::<Vec<_>>().join(", ");
            format!("no worst case of {operation} is known for {}; there are: {there}", subject.name)
        } else {
            format!("{} has no such recipe for {operation}; available: {}", subject.name, recipes.join(", "))
        }
    })
}

/// Ends a trace and reports on it.
fn finish<W: std::io::Write>(
    writer: Writer<W>,
    path: &Path,
    done: impl FnOnce(),
    more: &str,
) -> anyhow::Result<ExitCode> {
    let totals = writer.finish().with_context(|| format!("cannot write {}", path.display()))?;
    done();
    let length = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
    super::destination::print(&format!(
        "{}: {}, {}, peak {} live in {}; file of {}\n{more}",
        path.display(),
        counted(totals.allocations, "allocation"),
        counted(totals.frees, "free"),
        bytes(totals.peak_live_bytes),
        counted(totals.peak_live_blocks, "block"),
        bytes(length),
    ))?;
    Ok(ExitCode::SUCCESS)
}

//! Generators of traces: the models of the literature.
//!
//! A [`Model`] with its parameters and a seed determines every event, on every machine: all arithmetic is in integers,
//! and no order depends on a hash. The parameter structures also define the command line of `rtalloc generate`, so the
//! two cannot differ.
//!
//! ```
//! use rtalloc_lab::workload::Model;
//!
//! let model = Model::parse("p2 --mallocs 1000")?;
//! let mut events = Vec::new();
//! model.generate(1, &mut events)?;
//! assert!(events.len() > 1000);
//! # Ok::<(), rtalloc_lab::workload::WorkloadError>(())
//! ```

mod mean;
mod profile;
pub mod random;
mod steady;
mod thesis;

pub use mean::MeanModel;
pub use profile::{Holding, Profile};
pub use steady::{LogUniform, Steady};
pub use thesis::{Small, Uniform};

use crate::trace::{Event, Meta, Op, Origin, TickUnit, Totals, TraceError, Writer};
use clap::{FromArgMatches, Subcommand};
use random::Random;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

/// A model of the literature with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum Model {
    /// TLSF paper, profile 1: periodic tasks, large blocks, g in 8..64 KiB
    ///
    /// Masmano, Ripoll, Balbastre, Crespo: A constant-time dynamic storage allocator for real-time systems, Software:
    /// Practice and Experience 38 (2008), section 7.2. Tasks, periods, requests per activation and g are drawn
    /// uniformly per task, phases at random; sizes are Normal(g/N_r, 10 % of it), non-positive ones redrawn.
    #[command(mut_arg("g", |g| g.required(false).default_value("8192..65536")))]
    P1(Profile),
    /// TLSF paper, profile 2: periodic tasks, small blocks, g in 64 B..8 KiB
    ///
    /// As p1, with smaller g.
    #[command(mut_arg("g", |g| g.required(false).default_value("64..8192")))]
    P2(Profile),
    /// TLSF paper, profile 3: periodic tasks, mixed blocks, g in 64 B..48 KiB
    ///
    /// As p1, with g over the whole range.
    #[command(mut_arg("g", |g| g.required(false).default_value("64..49152")))]
    P3(Profile),
    /// Puaut's MEAN model: uniform sizes, lifetimes and intervals around three means
    ///
    /// Puaut: Real-time performance of dynamic memory allocation algorithms, ECRTS 2002, after Zorn and Grunwald:
    /// Evaluating models of memory allocation, 1994.
    Mean(MeanModel),
    /// Bitframe thesis, uniform: sizes U[1, 512] B, a growing heap
    ///
    /// The thesis on Bitframe, 2012, section 6.1.
    Uniform(Uniform),
    /// Bitframe thesis, small: sizes Normal(32, 19.455) B, a growing heap
    ///
    /// The thesis on Bitframe, 2012, section 6.1, after Zorn and Grunwald 1992 and Berger, Zorn and McKinley 2002.
    Small(Small),
    /// Log-uniform sizes 16 B..64 KiB, 20,000 blocks live: the large steady load
    #[command(name = "loguniform")]
    LogUniform(LogUniform),
    /// Uniform sizes 8..512 B, 2,000 blocks live: the small steady load
    Steady(Steady),
}

impl Model {
    /// Names of all models, in the order of the help.
    pub const NAMES: [&str; 8] = ["p1", "p2", "p3", "mean", "uniform", "small", "loguniform", "steady"];

    /// The model of this name with its default parameters.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMES.contains(&name).then(|| Self::parse(name).expect("every model has defaults"))
    }

    /// The model that `rtalloc generate` makes of the same words: "p1 --holding literal --mallocs 1000".
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Words`] if the words do not name a model or one of its parameters.
    pub fn parse(words: &str) -> Result<Self, WorkloadError> {
        let command = clap::Command::new("model").no_binary_name(true).subcommand_required(true);
        Self::augment_subcommands(command)
            .try_get_matches_from(words.split_whitespace())
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|error| {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                WorkloadError::Words(line.strip_prefix("error: ").unwrap_or(line).into())
            })
    }

    /// Name as in `rtalloc generate`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Model::P1(_) => "p1",
            Model::P2(_) => "p2",
            Model::P3(_) => "p3",
            Model::Mean(_) => "mean",
            Model::Uniform(_) => "uniform",
            Model::Small(_) => "small",
            Model::LogUniform(_) => "loguniform",
            Model::Steady(_) => "steady",
        }
    }

    /// Header of the trace that [`generate`](Self::generate) makes with `seed`.
    #[must_use]
    pub fn meta(&self, seed: u64) -> Meta {
        let generator = self.generator();
        Meta {
            name: self.name().into(),
            about: generator.about(),
            origin: Origin::Model {
                model: self.name().into(),
                seed,
                random: random::NAME.into(),
                parameters: generator.parameters(),
            },
            tick_unit: TickUnit::Logical,
            created_unix_seconds: None,
            incomplete: None,
        }
    }

    /// Allocations the trace will have.
    #[must_use]
    pub fn mallocs(&self) -> u64 {
        match self {
            Model::P1(model) | Model::P2(model) | Model::P3(model) => model.mallocs,
            Model::Mean(model) => model.mallocs,
            Model::Uniform(model) => model.mallocs,
            Model::Small(model) => model.mallocs,
            Model::LogUniform(model) => model.mallocs,
            Model::Steady(model) => model.mallocs,
        }
    }

    /// Rejects invalid parameters.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Parameter`] with the parameter and its rule.
    pub fn check(&self) -> Result<(), WorkloadError> {
        self.generator().check()
    }

    /// Sends every event of the trace to `sink`; the memory needed does not grow with the trace.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Parameter`] before the first event, or an error of the sink.
    pub fn generate(&self, seed: u64, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        self.check()?;
        self.generator().events(&mut Random::new(seed), sink)
    }

    /// Writes the trace to a file.
    ///
    /// # Errors
    ///
    /// As [`generate`](Self::generate), or an error of the file system; then there is no file.
    pub fn write_to(&self, seed: u64, path: impl AsRef<Path>) -> Result<Totals, WorkloadError> {
        self.check()?;
        let mut writer = Writer::create(path, &self.meta(seed))?;
        self.generate(seed, &mut writer)?;
        Ok(writer.finish()?)
    }

    fn generator(&self) -> &dyn Generator {
        match self {
            Model::P1(model) | Model::P2(model) | Model::P3(model) => model,
            Model::Mean(model) => model,
            Model::Uniform(model) => model,
            Model::Small(model) => model,
            Model::LogUniform(model) => model,
            Model::Steady(model) => model,
        }
    }
}

/// Receives the events of a trace one by one.
pub trait Sink {
    /// Receives the next event.
    ///
    /// # Errors
    ///
    /// The reason to stop; the generator then stops too.
    fn take(&mut self, event: &Event) -> Result<(), TraceError>;
}

impl<W: Write> Sink for Writer<W> {
    fn take(&mut self, event: &Event) -> Result<(), TraceError> {
        self.push(event)
    }
}

impl Sink for Vec<Event> {
    fn take(&mut self, event: &Event) -> Result<(), TraceError> {
        self.push(*event);
        Ok(())
    }
}

/// A trace that could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A parameter outside the model's range.
    #[error("{name} must be {rule}, not {value}")]
    Parameter {
        /// The parameter's name on the command line.
        name: &'static str,
        /// Its rule.
        rule: String,
        /// Its value.
        value: String,
    },
    /// Words that do not describe a model.
    #[error("{0}")]
    Words(String),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// An inclusive range of numbers, written `MIN..MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Smallest number.
    pub min: u64,
    /// Largest number, not below `min`.
    pub max: u64,
}

impl Span {
    fn draw(self, random: &mut Random) -> u64 {
        random.within(self.min, self.max)
    }

    fn at_most(self, name: &'static str, most: u64) -> Result<(), WorkloadError> {
        if self.max <= most {
            return Ok(());
        }
        Err(WorkloadError::Parameter { name, rule: format!("at most {most}"), value: self.max.to_string() })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}..{}", self.min, self.max)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let number = |part: &str| part.trim().parse::<u64>().map_err(|_| format!("`{part}` is not a whole number"));
        let span = Self { min: number(min)?, max: number(max)? };
        if span.min > span.max {
            return Err(format!("{} is above {}; write MIN..MAX", span.min, span.max));
        }
        Ok(span)
    }
}

/// The operations of a model. Implemented by the parameter structures.
trait Generator {
    /// One-line description.
    fn about(&self) -> String;
    /// Every parameter by its name with its unit, for the header.
    fn parameters(&self) -> BTreeMap<String, String>;
    /// Rejects invalid parameters.
    fn check(&self) -> Result<(), WorkloadError>;
    /// Generates the events; `check` has passed.
    fn events(&self, random: &mut Random, sink: &mut dyn Sink) -> Result<(), WorkloadError>;
}

/// A header entry.
fn parameter(name: &str, value: impl ToString) -> (String, String) {
    (name.to_string(), value.to_string())
}

fn at_least(name: &'static str, value: u64, least: u64) -> Result<(), WorkloadError> {
    if value >= least {
        return Ok(());
    }
    Err(WorkloadError::Parameter { name, rule: format!("at least {least}"), value: value.to_string() })
}

fn alignment(align: u32) -> Result<(), WorkloadError> {
    if align.is_power_of_two() {
        return Ok(());
    }
    Err(WorkloadError::Parameter { name: "--align", rule: "a power of two".into(), value: align.to_string() })
}

/// Sends allocations and frees of one thread to a sink and assigns slots, reusing the most recently freed first.
struct Events<'a> {
    sink: &'a mut dyn Sink,
    align: u32,
    free: Vec<u32>,
    slots: u32,
}

impl<'a> Events<'a> {
    fn new(sink: &'a mut dyn Sink, align: u32) -> Self {
        Self { sink, align, free: Vec::new(), slots: 0 }
    }

    /// Allocates a block and returns its slot.
    fn allocate(&mut self, tick: u64, size: u64) -> Result<u32, TraceError> {
        let slot = self.free.pop().unwrap_or(self.slots);
        self.slots = self.slots.max(slot + 1);
        self.sink.take(&Event { tick, thread: 0, op: Op::Allocate { slot, size, align: self.align } })?;
        Ok(slot)
    }

    /// Frees the block in `slot`.
    fn free(&mut self, tick: u64, slot: u32) -> Result<(), TraceError> {
        self.free.push(slot);
        self.sink.take(&Event { tick, thread: 0, op: Op::Free { slot } })
    }
}

#[cfg(test)]
mod tests;

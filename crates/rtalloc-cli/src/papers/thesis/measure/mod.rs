//! The experiments of the Bitframe thesis (2012), chapter 6: time, memory and fragmentation of seven small-block
//! allocators on four traces, in a heap of 3 MiB; and the variants of Bitframe that the thesis proposes.
//!
//! The recordings *boot* and *stable* are not available; parts of other [recordings](traces) replace them. The thesis'
//! runs end at the first request that fails, so its figures cover different lengths of a trace; our figures are also
//! given for the *equal prefix*, up to the first failure of any allocator.
//!
//! H includes the control structure here, as it must in the thesis, where it exceeds the heap. L, the *bookkeeping*, is
//! the control structure, the headers of live blocks, and the overhead of pages.

mod allocators;
mod pages;
mod run;
pub mod traces;

use crate::papers::sample::Sample;
use crate::papers::thesis::claims;
use crate::papers::thesis::result::{
    Costs, Facts, Figures, Found, Granted, Load, Measured, OnTrace, Opening, Replayed, Row, Run, Settings, Summary,
    Thesis, Unit,
};
use crate::papers::{Scale, folder};
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::store::Kept;
use rtalloc_lab::campaign::{self, Task, Tasks};
use rtalloc_lab::probe::{self, Counts};
use rtalloc_lab::replay::isolate::{Board, Child, Death, undecided};
use rtalloc_lab::result::schema::Distribution;
use rtalloc_lab::shipped;
use rtalloc_lab::trace::Event;
use serde_json::Value;
use std::time::Duration;
use traces::{RECORDINGS, Recording};

/// The heap of the thesis, in bytes.
pub const HEAP_BYTES: u64 = 3 << 20;

/// Time limit per allocator and trace.
const LIMIT: Duration = Duration::from_secs(60);

/// The experiments of the given settings.
pub struct Experiments<'a> {
    analysis: &'a Analysis,
    settings: Settings,
    recordings: Vec<Recording>,
    loads: Vec<Load>,
    units: Vec<Unit>,
    /// Directory of the trace files for timing.
    folder: tempfile::TempDir,
}

impl Settings {
    /// The default settings at a scale.
    #[must_use]
    pub fn of(scale: Scale) -> Self {
        Self {
            heap_bytes: HEAP_BYTES,
            first_seed: 1,
            seeds: scale.pick(30, 30, 100),
            replicas: scale.pick(5, 100, 1000),
        }
    }
}

impl Settings {
    /// With the generated traces of another seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { first_seed: (seed - 1) * self.seeds + 1, ..self }
    }
}

impl<'a> Experiments<'a> {
    /// Experiments on the shipped recordings.
    ///
    /// # Errors
    ///
    /// If the binary was built without them, or if the system has no room for temporary files.
    pub fn new(analysis: &'a Analysis, settings: Settings) -> anyhow::Result<Self> {
        let recorded = |name: &str| Ok(Recording::new(name, &shipped::events(name)?));
        let recordings: Vec<Recording> = RECORDINGS.into_iter().map(recorded).collect::<anyhow::Result<_>>()?;
        let loads = traces::loads(&recordings);
        let units = units(&loads, settings);
        Ok(Self { analysis, settings, recordings, loads, units, folder: folder()? })
    }

    /// Measures a unit in the calling process.
    fn measured(&self, number: usize, board: &Board) -> Result<Found, String> {
        let process = self.analysis.process();
        Ok(match &self.units[number] {
            Unit::Replay { load, seed } => {
                Found::Replayed(self.replayed(load, &traces::events(&self.recordings, load, *seed)?))
            }
            Unit::Time { load, subject, replicas } => {
                let write = |path: &std::path::Path, events: &[Event]| {
                    traces::write(path, load, events).map_err(|error| error.to_string())
                };
                let events = traces::events(&self.recordings, load, self.settings.first_seed)?;
                let path = self.folder.path().join(format!("{number}.rtrace"));
                let heap_bytes = self.settings.heap_bytes as usize;
                Found::Time(run::time(
                    allocators::subject(subject)?,
                    write,
                    &events,
                    heap_bytes,
                    &path,
                    (*replicas, board),
                )?)
            }
            Unit::Sizes => Found::Sizes(pages::sizes(self.settings.heap_bytes as usize)),
            Unit::Pages => Found::Pages(pages::openings(process, self.settings.heap_bytes as usize)),
        })
    }

    /// All allocators on a trace: first each as far as possible, then all up to the equal prefix.
    fn replayed(&self, load: &Load, events: &[Event]) -> Replayed {
        let run = |name: &str, events: &[Event]| -> Result<Run, String> {
            let mut run = self.apart(name, events)?;
            if !load.part.is_recorded() {
                run.timeline.clear();
            }
            Ok(run)
        };
        let cuts: Vec<Result<Run, String>> = allocators::names().into_iter().map(|name| run(name, events)).collect();
        let prefix = cuts.iter().flatten().map(|run| run.operations as usize).min().unwrap_or(0);
        let both = |(name, cut): (&str, Result<Run, String>)| {
            let cut = cut?;
            let mut short = if cut.operations as usize == prefix { cut.clone() } else { run(name, &events[..prefix])? };
            short.timeline.clear();
            Ok([cut, short])
        };
        Replayed {
            facts: traces::facts(events),
            prefix_operations: prefix as u64,
            runs: allocators::names().into_iter().zip(cuts).map(both).collect(),
        }
    }

    /// A run in a process of its own. If it times out or is killed, the task fails too: the machine's speed must not
    /// become a result.
    fn apart(&self, name: &str, events: &[Event]) -> Result<Run, String> {
        let subject = allocators::subject(name)?;
        let perform = |_: &Board| run::run(self.analysis.process(), subject, events, self.settings.heap_bytes as usize);
        match Child::spawn(perform).map_err(|error| error.to_string())?.wait::<Result<Run, String>>(LIMIT) {
            Ok(run) => run,
            Err(death) if death.is_from_outside() => undecided(&format!("{name} was killed")),
            Err(death @ Death::Hung { .. }) => undecided(&format!("{name}: {death}")),
            Err(death) => Err(death.to_string()),
        }
    }
}

/// All tasks of the given settings.
fn units(loads: &[Load], Settings { first_seed, seeds, replicas, .. }: Settings) -> Vec<Unit> {
    let mut units = vec![Unit::Sizes, Unit::Pages];
    for load in loads {
        let seeds = if load.part.is_recorded() { 0..1 } else { first_seed..first_seed + seeds };
        units.extend(seeds.map(|seed| Unit::Replay { load: load.clone(), seed }));
    }
    if replicas > 0 {
        for load in loads {
            let time = |name: &str| Unit::Time { load: load.clone(), subject: name.into(), replicas };
            units.extend(allocators::names().into_iter().map(time));
        }
    }
    units
}

impl Tasks for Experiments<'_> {
    fn name(&self) -> &'static str {
        "thesis"
    }

    fn tasks(&self) -> Vec<Task> {
        let task = |unit: &Unit| {
            let parameters = serde_json::to_string(unit).expect("units can be written as JSON");
            let key = format!("thesis {parameters} heap={}", self.settings.heap_bytes);
            match unit {
                // A tenth of a second per replay of the longest trace.
                Unit::Time { replicas, .. } => Task::timed(key, u64::from(*replicas) / 10),
                Unit::Replay { load, .. } if load.part.is_recorded() => Task::counted(key, 6),
                Unit::Replay { .. } => Task::counted(key, 3),
                Unit::Sizes | Unit::Pages => Task::counted(key, 1),
            }
        };
        self.units.iter().map(task).collect()
    }

    fn prepare(&self) {
        let subjects = allocators::names().into_iter().filter_map(|name| allocators::subject(name).ok());
        probe::explore(self.analysis.process(), subjects);
    }

    fn perform(&self, number: usize, board: &Board) -> Value {
        campaign::found(&self.measured(number, board))
    }

    fn died(&self, _: usize, what: &str) -> Option<Value> {
        Some(campaign::found(&Result::<Found, &str>::Err(what)))
    }
}

impl Experiments<'_> {
    /// Combines the results of all tasks, in their order.
    pub(super) fn conclude(&self, kept: Vec<Kept>) -> anyhow::Result<Thesis> {
        let found: Vec<Result<Found, String>> = campaign::results(kept)?;
        let cells = || self.units.iter().zip(&found);
        let traces: Vec<OnTrace> = self.loads.iter().map(|load| on_trace(load, cells())).collect();
        let sizes = found_of(cells(), &Unit::Sizes, |found| match found {
            Found::Sizes(sizes) => Some(sizes.clone()),
            _ => None,
        });
        let pages = found_of(cells(), &Unit::Pages, |found| match found {
            Found::Pages(pages) => Some(pages.clone()),
            _ => None,
        });
        let names = allocators::names().into_iter().map(String::from).collect();
        Ok(concluded(self.settings, names, traces, sizes, pages))
    }
}

fn concluded(
    settings: Settings,
    names: Vec<String>,
    traces: Vec<OnTrace>,
    sizes: Result<Vec<Granted>, String>,
    pages: Result<Vec<Opening>, String>,
) -> Thesis {
    let claims = claims::claims(&traces, sizes.as_deref().unwrap_or_default(), pages.as_deref().unwrap_or_default());
    Thesis { settings, names, traces, sizes, pages, claims }
}

/// The result of a unit.
fn found_of<'a, T>(
    mut cells: impl Iterator<Item = (&'a Unit, &'a Result<Found, String>)>,
    unit: &Unit,
    of: impl Fn(&Found) -> Option<T>,
) -> Result<T, String> {
    let (_, found) = cells.find(|(known, _)| *known == unit).ok_or("it was not measured")?;
    found.as_ref().map_err(Clone::clone).and_then(|found| of(found).ok_or_else(|| "it is of another kind".into()))
}

/// All seeds of a trace, and its times.
fn on_trace<'a>(load: &Load, cells: impl Iterator<Item = (&'a Unit, &'a Result<Found, String>)> + Clone) -> OnTrace {
    let replays: Result<Vec<&Replayed>, String> = cells
        .clone()
        .filter(|(unit, _)| matches!(unit, Unit::Replay { load: own, .. } if own == load))
        .map(|(_, found)| match found {
            Ok(Found::Replayed(replayed)) => Ok(replayed),
            Ok(_) => Err("it is of another kind".into()),
            Err(what) => Err(what.clone()),
        })
        .collect();
    let seeds = replays.as_deref().unwrap_or_default();
    let ticks = |name: &str| {
        let mut own = cells.clone();
        let (_, found) = own.find(
            |(unit, _)| matches!(unit, Unit::Time { load: own, subject, .. } if own == load && subject == name),
        )?;
        Some(match found {
            Ok(Found::Time(costs)) => Ok(costs.clone()),
            Ok(_) => Err("it is of another kind".into()),
            Err(what) => Err(what.clone()),
        })
    };
    let row = |(place, name): (usize, &'static str)| {
        let runs: Result<Vec<&[Run; 2]>, String> = match &replays {
            Ok(seeds) => seeds.iter().map(|one| one.runs[place].as_ref().map_err(Clone::clone)).collect(),
            Err(what) => Err(what.clone()),
        };
        Row { name: name.into(), ours: runs.map(|runs| measured(&runs)), ticks: ticks(name) }
    };
    OnTrace {
        load: load.clone(),
        facts: seeds.first().map_or_else(Facts::default, |one| one.facts.clone()),
        prefix_operations: seeds.iter().map(|one| one.prefix_operations).min().unwrap_or(0),
        rows: allocators::names().into_iter().enumerate().map(row).collect(),
    }
}

/// An allocator over all seeds.
fn measured(runs: &[&[Run; 2]]) -> Measured {
    let average = |end: usize, value: &dyn Fn(&Run) -> f64| {
        runs.iter().map(|run| value(&run[end])).sum::<f64>() / runs.len().max(1) as f64
    };
    let sample = |end: usize, of: fn(&Figures) -> f64| Sample::of(runs.iter().map(|run| of(&run[end].figures)));
    let summary = |end| Summary {
        high_water_bytes: average(end, &|run| run.figures.high_water_bytes),
        live_bytes: average(end, &|run| run.figures.live_bytes),
        fragmentation: sample(end, |figures| figures.fragmentation),
        overhead: sample(end, |figures| figures.overhead),
    };
    let pooled = |end: usize, of: fn(&Costs) -> &Distribution| {
        let mut counts = Counts::default();
        runs.iter().for_each(|run| counts.merge(&of(&run[end].instructions).histogram));
        counts.distribution()
    };
    let costs = |end| Costs { malloc: pooled(end, |costs| &costs.malloc), free: pooled(end, |costs| &costs.free) };
    Measured {
        cut: summary(0),
        prefix: summary(1),
        operations: average(0, &|run| run.operations as f64),
        completed: runs.iter().filter(|run| run[0].completed).count() as u64,
        instructions: costs(0),
        prefix_instructions: costs(1),
        timeline: runs.first().map_or_else(Vec::new, |run| run[0].timeline.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_what_settings_ask_for() {
        let recordings = [Recording::new("a", &[]), Recording::new("b", &[])];
        let loads = traces::loads(&recordings);
        assert_eq!(
            loads.iter().map(Load::name).collect::<Vec<_>>(),
            ["boot, a", "stable, a", "boot, b", "stable, b", "uniform", "small"]
        );
        let settings = Settings { heap_bytes: HEAP_BYTES, first_seed: 4, seeds: 3, replicas: 5 };
        let units = super::units(&loads, settings);
        let replays = units.iter().filter(|unit| matches!(unit, Unit::Replay { .. })).count();
        let timed = units.iter().filter(|unit| matches!(unit, Unit::Time { replicas: 5, .. })).count();
        assert_eq!((replays, timed, units.len()), (4 + 2 * 3, 6 * 11, 2 + 10 + 66));
        assert_eq!(super::units(&loads, Settings { replicas: 0, ..settings }).len(), 12);
    }
}

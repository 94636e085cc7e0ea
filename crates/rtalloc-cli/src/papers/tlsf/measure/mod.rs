//! The experiments of the TLSF paper (2008), sections 5.3, 6 and 7.
//!
//! Each measurement is a [`Unit`]: its parameters determine instructions and memory, bit for bit, and each runs in a
//! process of its own. The output is computed from the [cells](Cell) alone: [`pools()`] combines the task sets of a
//! profile, `claims` evaluates the paper's claims.

pub mod bands;
pub mod load;
mod pools;
pub mod steps;
mod worst;

pub use pools::pools;

use crate::papers::published::TLSF;
use crate::papers::tlsf::result::{Cell, Found, Load, Profile, SIZE_BIN_BYTES, Settings, Tlsf, Unit};
use crate::papers::tlsf::{claims, published};
use crate::papers::{Scale, folder};
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::store::Kept;
use rtalloc_lab::campaign::{self, Task, Tasks};
use rtalloc_lab::probe;
use rtalloc_lab::replay::isolate::Board;
use rtalloc_lab::workload::Holding;
use rtalloc_lab::workload::random::{NORMAL_FRACTION_BITS, Random};
use rtalloc_subjects::{SelectError, Subject, one, select};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// The paper's pool, in bytes.
pub const POOL_BYTES: u64 = 16 << 20;

/// In addition to the paper's four: our other allocators that serve requests of any size, without their variants.
pub const OTHERS: [&str; 10] = [
    "quick-fit",
    "kingsley",
    "first-fit",
    "next-fit",
    "best-fit",
    "tree-best-fit",
    "fast-fit",
    "fibonacci-buddy",
    "weighted-buddy",
    "double-buddy",
];

/// The hypothesis on the paper's half-fit.
pub const HYPOTHESIS: &str = "half-fit-one-list-high";

/// TLSF with the paper's other number of lists (section 5.3).
pub const COARSE: &str = "tlsf-j4";

/// The allocators whose F is compared in all readings: the paper's, the hypothesis, and best-fit, to which the paper's
/// summary compares TLSF.
pub fn compared() -> impl Iterator<Item = &'static str> {
    published::ALLOCATORS.into_iter().map(|(_, name)| name).chain([HYPOTHESIS, "best-fit"])
}

/// Task sets of a unit.
const SETS_PER_UNIT: u64 = 10;

/// Allocations of figure 6.
const BAND_MALLOCS: u64 = 3000;

/// Time limit per unit.
const LIMIT: Duration = Duration::from_secs(3600);

/// The paper's four allocators, which the claims need, followed by the selected ones, or by [`OTHERS`] if none are
/// selected.
///
/// # Errors
///
/// [`SelectError`].
pub fn selected(choice: &[String]) -> Result<Vec<String>, SelectError> {
    let chosen: Vec<&Subject> = if choice.is_empty() { select(&OTHERS)? } else { select(choice)? };
    let paper = published::ALLOCATORS.map(|(_, name)| name);
    let others = chosen.iter().map(|subject| subject.name).filter(|name| !paper.contains(name));
    Ok(paper.into_iter().chain(others).map(String::from).collect())
}

impl Settings {
    /// The default settings at a scale.
    #[must_use]
    pub fn of(scale: Scale, holding: Holding, subjects: Vec<String>) -> Self {
        Self {
            sets: 100,
            few_sets: scale.pick(1, 3, 10),
            first_set: 1,
            mallocs: scale.pick(10_000, 100_000, 1_000_000),
            holding,
            replicas: 3,
            pool_bytes: POOL_BYTES,
            subjects,
        }
    }
}

impl Settings {
    /// With the task sets of another seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { first_set: (seed - 1) * self.sets + 1, ..self }
    }
}

/// All units of the given settings; timed units come last and run one at a time.
#[must_use]
pub fn units(settings: &Settings) -> Vec<Unit> {
    let paper = |subject: &&String| published::Tlsf::name_of(subject).is_some();
    let load = |profile, holding, set, subject: &str| Load {
        profile,
        holding,
        set,
        mallocs: settings.mallocs,
        pool_bytes: settings.pool_bytes,
        subject: subject.into(),
    };
    let mut units: Vec<Unit> =
        settings.subjects.iter().map(|subject| Unit::Worst { subject: subject.clone() }).collect();
    units.push(Unit::Bands { subject: "tlsf".into(), seed: 1, mallocs: BAND_MALLOCS });
    units.push(Unit::Steps { subject: "tlsf".into(), seed: 1, mallocs: BAND_MALLOCS });
    units.extend(["tlsf", COARSE].map(|subject| Unit::Internal { subject: subject.into() }));
    for subject in settings.subjects.iter().filter(paper) {
        units.push(Unit::Timeline(load(Profile::P3, settings.holding, settings.first_set, subject)));
    }
    let mut run = |profile, holding, subject: &str, sets: u64| {
        for skipped in (0..sets).step_by(SETS_PER_UNIT as usize) {
            let load = load(profile, holding, settings.first_set + skipped, subject);
            units.push(Unit::Run { load, sets: SETS_PER_UNIT.min(sets - skipped) });
        }
    };
    for profile in Profile::ALL {
        for holding in Holding::ALL {
            compared().for_each(|subject| run(profile, holding, subject, settings.sets));
        }
        for subject in settings.subjects.iter().filter(|subject| compared().all(|name| name != *subject)) {
            run(profile, settings.holding, subject, settings.few_sets);
        }
    }
    for profile in Profile::ALL {
        for set in settings.first_set..settings.first_set + settings.few_sets {
            units.extend(settings.subjects.iter().filter(paper).map(|subject| Unit::Time {
                load: load(profile, settings.holding, set, subject),
                replicas: settings.replicas,
            }));
        }
    }
    units
}

/// Measures a unit in the calling process. Traces are written to `folder`.
///
/// # Errors
///
/// If the measurement failed, with a message.
pub fn measured(analysis: &Analysis, folder: &Path, unit: &Unit, board: &Board) -> Result<Found, String> {
    let process = analysis.process();
    Ok(match unit {
        Unit::Run { load, sets } => Found::Run(load::run(process, load, *sets)?),
        Unit::Time { load, replicas } => Found::Time(load::time(folder, load, *replicas, board)?),
        Unit::Timeline(load) => Found::Timeline(load::timeline(load)?),
        Unit::Bands { subject, seed, mallocs } => Found::Bands(bands::bands(process, subject, *seed, *mallocs)?),
        Unit::Steps { subject, seed, mallocs } => Found::Steps(steps::steps(process, subject, *seed, *mallocs)?),
        Unit::Worst { subject } => Found::Worst(worst::worst(analysis, subject)?),
        Unit::Internal { subject } => Found::Internal(bands::internal(subject)?),
    })
}

/// The experiments of the given settings.
pub struct Experiments<'a> {
    /// The machine code whose instructions are counted.
    pub analysis: &'a Analysis,
    /// The settings.
    pub settings: Settings,
    /// Directory of the trace files for replays.
    folder: tempfile::TempDir,
    units: Vec<Unit>,
}

impl<'a> Experiments<'a> {
    /// Experiments with a trace directory.
    ///
    /// # Errors
    ///
    /// If the system cannot create a directory.
    pub fn new(analysis: &'a Analysis, settings: Settings) -> anyhow::Result<Self> {
        let units = units(&settings);
        Ok(Self { analysis, settings, folder: folder()?, units })
    }
}

impl Tasks for Experiments<'_> {
    fn name(&self) -> &'static str {
        "tlsf"
    }

    fn tasks(&self) -> Vec<Task> {
        let task = |unit: &Unit| {
            let parameters = serde_json::to_string(unit).expect("units can be written as JSON");
            // Half a microsecond per operation, five per operation that is replayed and timed.
            let (timed, parts) = match unit {
                Unit::Time { .. } => (true, 10),
                Unit::Run { sets, .. } => (false, *sets),
                _ => (false, 1),
            };
            let seconds = parts * self.settings.mallocs / 1_000_000;
            Task { timed, limit: LIMIT, ..Task::counted(format!("tlsf {parameters}"), seconds) }
        };
        self.units.iter().map(task).collect()
    }

    fn prepare(&self) {
        let subjects = self.settings.subjects.iter().filter_map(|name| one(name).ok());
        probe::explore(self.analysis.process(), subjects);
    }

    fn perform(&self, task: usize, board: &Board) -> Value {
        campaign::found(&measured(self.analysis, self.folder.path(), &self.units[task], board))
    }

    fn died(&self, _: usize, what: &str) -> Option<Value> {
        Some(campaign::found(&Result::<Found, &str>::Err(what)))
    }
}

impl Experiments<'_> {
    /// Combines the results of all tasks, in their order.
    pub(super) fn conclude(&self, kept: Vec<Kept>) -> anyhow::Result<Tlsf> {
        let seconds: Vec<f64> = kept.iter().map(|kept| kept.seconds).collect();
        let cell = |((unit, found), seconds): ((&Unit, Result<Found, String>), f64)| Cell {
            unit: unit.clone(),
            found,
            seconds,
        };
        let cells: Vec<Cell> = self.units.iter().zip(campaign::results(kept)?).zip(seconds).map(cell).collect();
        let pools = pools(&cells);
        let claims = claims::claims(&self.settings, &cells, &pools);
        Ok(Tlsf { settings: self.settings.clone(), cells, sizes: sizes(SIZE_BIN_BYTES), pools, claims })
    }
}

/// Figure 7: the number per thousand requests of table III's task set in each size bin. A task makes g divided by its
/// mean size requests per period.
fn sizes(bin_bytes: u64) -> Vec<(u64, f64)> {
    const REQUESTS: u64 = 100_000;
    let mut random = Random::new(1);
    let mut bins: std::collections::BTreeMap<u64, f64> = std::collections::BTreeMap::new();
    let tasks = &TLSF.table_3.rows;
    let rate = |task: &published::Task| (task.g_bytes as f64 / task.mean_bytes as f64).round() / task.period as f64;
    let rates: f64 = tasks.values().map(rate).sum();
    for task in tasks.values() {
        let share = rate(task) / rates;
        let requests = (REQUESTS as f64 * share).round() as u64;
        for _ in 0..requests {
            let deviate = i128::from(random.normal()) * i128::from(task.deviation_bytes);
            let bytes = i128::from(task.mean_bytes) + (deviate >> NORMAL_FRACTION_BITS);
            *bins.entry(bytes.max(1) as u64 / bin_bytes * bin_bytes).or_default() += 1000.0 / REQUESTS as f64;
        }
    }
    bins.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtalloc_lab::workload::Holding;

    #[test]
    fn the_papers_allocators_are_always_there_and_first() {
        let selected = |choice: &[&str]| {
            selected(&choice.iter().map(|name| (*name).into()).collect::<Vec<String>>()).expect("known names")
        };
        assert_eq!(selected(&["talc", "tlsf"]), ["binary-buddy", "dlmalloc", "half-fit", "tlsf", "talc"]);
        assert_eq!(selected(&[]).len(), 4 + OTHERS.len());
    }

    #[test]
    fn units_are_what_settings_ask_for() {
        let settings = Settings {
            sets: 5,
            few_sets: 2,
            first_set: 11,
            mallocs: 10,
            holding: Holding::Fit,
            replicas: 3,
            pool_bytes: POOL_BYTES,
            subjects: selected(&["first-fit".into()]).expect("known names"),
        };
        let units = units(&settings);
        let of = |test: &dyn Fn(&Unit) -> bool| units.iter().filter(|unit| test(unit)).count();
        // Six allocators in all readings, and first-fit in one: 5 and 2 sets are one unit each.
        assert_eq!(of(&|unit| matches!(unit, Unit::Run { load, sets: 5 } if load.set == 11)), 3 * 6 * 3);
        assert_eq!(of(&|unit| matches!(unit, Unit::Run { load, sets: 2 } if load.subject == "first-fit")), 3);
        let many = super::units(&Settings { sets: 100, ..settings });
        let sets = |unit: &Unit| match unit {
            Unit::Run { load, sets } if load.subject == "tlsf" && load.holding == Holding::Fit => {
                (load.set..load.set + sets).collect()
            }
            _ => Vec::new(),
        };
        let mut all: Vec<u64> = many.iter().flat_map(sets).collect();
        all.sort_unstable();
        assert_eq!(all, (11..111).flat_map(|set| [set; 3]).collect::<Vec<u64>>(), "each set once in each profile");
        assert_eq!(of(&|unit| matches!(unit, Unit::Time { .. })), 3 * 2 * 4);
        assert_eq!(of(&|unit| matches!(unit, Unit::Worst { .. })), 5);
        assert_eq!(of(&|unit| matches!(unit, Unit::Timeline(_))), 4);
    }

    #[test]
    fn the_example_has_a_hill_for_each_task() {
        let bins = sizes(1000);
        assert!((bins.iter().map(|(_, share)| share).sum::<f64>() - 1000.0).abs() < 0.1);
        let near = |bytes: u64| bins.iter().filter(|(bin, _)| bin.abs_diff(bytes) < 3000).map(|(_, n)| n).sum::<f64>();
        // 1/60, 1/96, 1/98, 4/120 and 4/150 per tick.
        for (bytes, rate) in [(18_198, 1.0 / 60.0), (41_636, 1.0 / 96.0), (13_998, 4.0 / 120.0)] {
            assert!(near(bytes) > 900.0 * rate / 0.097_3, "{bytes}: {}", near(bytes));
        }
    }
}

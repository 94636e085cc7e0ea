//! The study of `rtalloc bound`: for every entry point the bound proved from the machine code, and how close observed
//! operations come to it.
//!
//! The static part runs in this process; operations are performed in separate processes, two at a time, since an
//! allocator may crash. A *part* of the observation is one subject under one kind of load.

mod evidence;
mod processes;

use crate::analysis::loop_bounds::Marked;
use crate::analysis::{self, Analysis, Unbounded, proved_as_fits};
use crate::observe::{Operation, search};
use crate::probe::CountError;
use crate::replay::isolate::Progress;
use crate::replay::settings::automatic_heap_bytes;
use crate::result::bounds::{Answer, Bounded, Core, Formula, OperationBounds, PathStep, Study, SubjectBounds};
use crate::trace::{Reader, TraceError, survey};
use evidence::{Evidence, Paths};
use pathbound::certificate::Address;
use pathbound::facts::Place;
use pathbound::image::{ElfFile, Image, Source};
use pathbound::{Bound, Facts, Unit};
use rtalloc_subjects::Subject;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

/// A trace to observe operations in.
#[derive(Clone, Debug)]
pub struct Load {
    /// Its path.
    pub path: PathBuf,
    /// Size of the heap for its replay, in bytes.
    heap_bytes: usize,
    /// Its operations.
    events: u64,
    /// M of the whole trace.
    peak_live_bytes: u64,
    /// Its name.
    name: String,
}

impl Load {
    /// Surveys a trace.
    ///
    /// # Errors
    ///
    /// [`TraceError`] where it cannot be read.
    pub fn of(path: PathBuf) -> Result<Self, TraceError> {
        let survey = Reader::open(&path).and_then(survey)?;
        let peak_live_bytes = survey.totals.peak_live_bytes;
        let heap_bytes = automatic_heap_bytes(peak_live_bytes) as usize;
        Ok(Self { path, heap_bytes, events: survey.totals.events, peak_live_bytes, name: survey.meta.name })
    }
}

/// The loads in which operations are observed.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    /// Traces of programs.
    pub programs: Vec<Load>,
    /// Traces of models.
    pub models: Vec<Load>,
}

/// Why there is no study.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The code cannot be counted here.
    #[error(transparent)]
    Count(#[from] CountError),
    /// A fact applies to none of the entry points.
    #[error("the fact about {0} fits no requested entry point: there is no such loop or instruction")]
    UselessFact(Place),
    /// The system refused a process.
    #[error("the system refused a process: {0}")]
    System(#[from] std::io::Error),
}

/// Bounds the chosen operations of the subjects and, if there are loads, observes them.
///
/// The calling process should be single-threaded: others are forked from it.
///
/// # Errors
///
/// [`StudyError`].
pub fn study(
    analysis: &Analysis,
    subjects: &[&'static Subject],
    operations: &[Operation],
    facts: &Facts,
    loads: Option<&Loads>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(Study, Vec<Bound>), StudyError> {
    let mut useful = HashSet::new();
    let mut formulas: BTreeMap<(usize, Operation), (Formula, Option<u64>)> = BTreeMap::new();
    let answers: Vec<Vec<Result<Bound, Unbounded>>> = subjects
        .iter()
        .enumerate()
        .map(|(number, subject)| {
            let answer = |operation: &Operation| {
                // A user's facts about loops take the place of the source's.
                if facts.loops.is_empty()
                    && facts.conflicts.is_empty()
                    && let Some(marked) = Marked::new(analysis, subject, *operation)?
                {
                    if let Some(formula) = marked.formula()? {
                        formulas.insert((number, *operation), (formula, marked.in_largest()?));
                    }
                    if let Some(bound) = marked.bound()? {
                        return Ok(bound);
                    }
                }
                let entry = analysis.entry(subject, *operation);
                proved_as_fits(
                    Unit::Instructions,
                    analysis.file(),
                    entry,
                    facts,
                    analysis.calls_without_report(),
                    &mut useful,
                )
            };
            operations.iter().map(answer).collect()
        })
        .collect();
    if let Some(place) = analysis::places(facts).find(|place| !useful.contains(*place)) {
        return Err(StudyError::UselessFact(place.clone()));
    }

    let mut evidence: Vec<Evidence> = subjects.iter().map(|_| Evidence::default()).collect();
    if let Some(loads) = loads {
        processes::observe(analysis, subjects, operations, &answers, loads, &mut evidence, progress)?;
    }

    let mut bounds = Vec::new();
    let mut entries = Vec::new();
    for (number, ((subject, answers), evidence)) in subjects.iter().zip(answers).zip(evidence).enumerate() {
        let mut own = Vec::new();
        for (operation, answer) in operations.iter().zip(answers) {
            let mut seen = evidence.of(*operation);
            let (formula, in_largest) = formulas.remove(&(number, *operation)).unzip();
            let answer = match answer {
                Ok(bound) => {
                    let described = described(analysis.file(), &bound, seen.paths.take());
                    bounds.push(bound);
                    Answer::Bounded(Bounded { in_largest: in_largest.flatten(), ..described })
                }
                Err(why) => {
                    let brief = formula.as_ref().map_or_else(|| why.brief(), |formula| format!("loop: {formula}"));
                    Answer::Declined { brief, why: why.to_string() }
                }
            };
            own.push(OperationBounds {
                operation: operation.name().into(),
                answer,
                formula,
                holds: analysis.holds(subjects[number], *operation),
                one_attempt: analysis.one_attempt(subjects[number], *operation),
                scenario: seen.scenario,
                observed: seen.observed,
                observed_by: seen.by,
            });
        }
        entries.push(SubjectBounds {
            subject: subject.name.into(),
            unobserved: (!evidence.troubles.is_empty()).then(|| evidence.troubles.join("; ")),
            explored: evidence.explored,
            operations: own,
        });
    }
    let study = Study {
        rtalloc: env!("CARGO_PKG_VERSION").into(),
        rustc: env!("LAB_RUSTC_VERSION").into(),
        sha256: analysis.file().provenance().sha256.clone(),
        instruction_set: analysis.file().arch().name().into(),
        of_file: false,
        core: None,
        observed_in: loads.map(sources).unwrap_or_default(),
        subjects: entries,
        classes: Vec::new(),
    };
    Ok((study, bounds))
}

/// The study of functions of a file, which are not executed.
#[must_use]
pub fn of_functions(
    file: &ElfFile,
    name: &str,
    core: Option<Core>,
    answers: Vec<(String, Result<Bound, Unbounded>)>,
) -> Study {
    let operation = |(symbol, answer): (String, Result<Bound, Unbounded>)| OperationBounds {
        operation: symbol,
        answer: match answer {
            Ok(bound) => Answer::Bounded(described(file, &bound, None)),
            Err(why) => Answer::Declined { brief: why.brief(), why: why.to_string() },
        },
        formula: None,
        holds: BTreeMap::new(),
        one_attempt: None,
        scenario: None,
        observed: None,
        observed_by: BTreeMap::new(),
    };
    let subject = SubjectBounds {
        subject: name.into(),
        unobserved: None,
        explored: None,
        operations: answers.into_iter().map(operation).collect(),
    };
    let compilers = file.provenance().compilers.join(", ");
    Study {
        rtalloc: env!("CARGO_PKG_VERSION").into(),
        rustc: if compilers.is_empty() { "an unknown compiler".into() } else { compilers },
        sha256: file.provenance().sha256.clone(),
        instruction_set: file.arch().name().into(),
        of_file: true,
        core,
        observed_in: Vec::new(),
        subjects: vec![subject],
        classes: Vec::new(),
    }
}

/// The sources of the observed maxima, as text.
fn sources(loads: &Loads) -> Vec<String> {
    let names = |loads: &[Load]| loads.iter().map(|load| load.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut sources = Vec::new();
    if !loads.programs.is_empty() {
        sources.push(format!("the traces of programs ({})", names(&loads.programs)));
    }
    if !loads.models.is_empty() {
        sources
            .push(format!("a generated trace of each model ({}; its first 400,000 operations)", names(&loads.models)));
    }
    sources.push(format!(
        "the exploration of every state of a tiny heap (ours), a directed enumeration of neighbourhoods, and a random search \
         (seed {}, {})",
        search::SEED,
        search::GENERATOR
    ));
    sources
}

/// A bound in the form of results.
fn described(image: &ElfFile, bound: &Bound, paths: Option<Paths>) -> Bounded {
    let reached = paths.map(|paths| paths.reached(bound));
    let path = bound.witness.iter().enumerate().map(|(position, step)| PathStep {
        address: step.address,
        text: image.arch().text(image, step.address).unwrap_or_default(),
        source: Source::named(&image.source(step.address)).map(Source::short).unwrap_or_default(),
        executions: step.executions,
        cost: step.cost,
        depth: step.depth,
        reached: reached.as_ref().map(|reached| reached[position].clone()),
    });
    let names: BTreeSet<String> = bound.never_returning.iter().map(|(name, _)| name.clone()).collect();
    Bounded {
        most: bound.most,
        in_largest: None,
        fewest: bound.least,
        assumptions: bound.proof.assumptions.clone(),
        facts: assumed(image, bound),
        never_returning: names.into_iter().collect(),
        not_called: bound.not_called.iter().cloned().collect(),
        path: path.collect(),
    }
}

/// The facts that a bound assumes, as text.
fn assumed(image: &ElfFile, bound: &Bound) -> Vec<String> {
    let named = |place: Address| match Source::named(&image.source(place.0)) {
        Some(source) => format!("{} ({place})", source.short()),
        None => place.to_string(),
    };
    let loops = bound.proof.loops.iter().map(|one| {
        let (place, at_most) = (named(one.place), one.at_most);
        format!(
            "{place} is executed at most {at_most} times each time its loop is entered, which begins at {}",
            one.entry
        )
    });
    let conflicts = bound.proof.conflicts.iter().map(|conflict| {
        let place = |places: &BTreeSet<Address>| places.first().copied().map_or_else(String::new, named);
        format!("{} and {} are never executed by one call", place(&conflict.first), place(&conflict.second))
    });
    loops.chain(conflicts).collect()
}

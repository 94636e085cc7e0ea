//! The study behind `rtalloc bound`: for every entry point what the machine code proves, and how near to it operations came.
//!
//! The static part is this process's; what performs operations works in processes of its own, two at a time, since an
//! allocator may crash. A *part* of the observation is one subject under one kind of load.

use crate::analysis::{Analysis, Unbounded};
use crate::observe::{
    Maxima, Observation, ObserveError, Operation, Stage, directed, explore, replays, scenario, search, watch::Watch,
};
use crate::replay::campaign::Progress;
use crate::replay::isolate::{Child, Death, Job, decode, run_all};
use crate::replay::settings::automatic_heap_bytes;
use crate::result::bounds::{
    Answer, Bounded, Explored, OperationBounds, PathStep, Reached, Seen, Study, SubjectBounds,
};
use crate::subject::{CountError, Counted, Subject};
use crate::trace::{Reader, TraceError, survey};
use pathbound::arch::x86_64;
use pathbound::certificate::Address;
use pathbound::counter::Record;
use pathbound::facts::Place;
use pathbound::image::{ElfFile, Image, Source};
use pathbound::{Bound, Decline, Facts};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Version of the studies this writes.
const SCHEMA_VERSION: u32 = 1;

/// Time a part may take. What has a bound is done long before; an allocator that searches may not be.
const PART_LIMIT: Duration = Duration::from_secs(60);
/// Time a trace may take, for the same reason.
const TRACE_LIMIT: Duration = Duration::from_secs(4);

/// A trace to observe operations in.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where it is.
    pub path: PathBuf,
    /// Heap it is replayed in, in bytes.
    heap_bytes: usize,
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
        let heap_bytes = automatic_heap_bytes(survey.totals.peak_live_bytes) as usize;
        Ok(Self { path, heap_bytes, name: survey.meta.name })
    }
}

/// What operations are observed in.
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
    /// A fact is of use to none of the entry points.
    #[error("the fact about {0} fits no entry point that was asked for: there is no such loop or instruction")]
    UselessFact(Place),
    /// The system refused a process.
    #[error("the system refused a process: {0}")]
    System(#[from] std::io::Error),
}

/// Bounds the chosen operations of the subjects and, where there are loads, observes them.
///
/// The calling process should have one thread only: others are forked from it.
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
    let answers: Vec<Vec<Result<Bound, Unbounded>>> = subjects
        .iter()
        .map(|subject| {
            let answer = |operation: &Operation| bounded(analysis, subject, *operation, facts, &mut useful);
            operations.iter().map(answer).collect()
        })
        .collect();
    if let Some(place) = places(facts).find(|place| !useful.contains(*place)) {
        return Err(StudyError::UselessFact(place.clone()));
    }

    let mut evidence: Vec<Evidence> = subjects.iter().map(|_| Evidence::default()).collect();
    if let Some(loads) = loads {
        observe(analysis, subjects, operations, &answers, loads, &mut evidence, progress)?;
    }

    let mut bounds = Vec::new();
    let mut entries = Vec::new();
    for ((subject, answers), evidence) in subjects.iter().zip(answers).zip(evidence) {
        let mut own = Vec::new();
        for (operation, answer) in operations.iter().zip(answers) {
            let mut seen = evidence.of(*operation);
            let answer = match answer {
                Ok(bound) => {
                    let answer = Answer::Bounded(described(analysis.file(), &bound, seen.paths.take()));
                    bounds.push(bound);
                    answer
                }
                Err(why) => Answer::Declined { why: why.to_string() },
            };
            own.push(OperationBounds {
                operation: operation.name().into(),
                answer,
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
        schema: SCHEMA_VERSION,
        rtalloc: env!("CARGO_PKG_VERSION").into(),
        rustc: env!("RTALLOC_RUSTC_VERSION").into(),
        sha256: analysis.file().provenance().sha256.clone(),
        observed_in: loads.map(sources).unwrap_or_default(),
        subjects: entries,
    };
    Ok((study, bounds))
}

/// Where observed maxima come from, in words.
fn sources(loads: &Loads) -> Vec<String> {
    let names = |loads: &[Load]| loads.iter().map(|load| load.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut sources = Vec::new();
    if !loads.programs.is_empty() {
        sources.push(format!("the traces of programs ({})", names(&loads.programs)));
    }
    if !loads.models.is_empty() {
        sources.push(format!("the generated traces ({})", names(&loads.models)));
    }
    sources.push(format!(
        "the exploration of every state of a tiny heap (ours), a directed enumeration of neighbourhoods, and a random search \
         (seed {}, {})",
        search::SEED,
        search::GENERATOR
    ));
    sources
}

fn places(facts: &Facts) -> impl Iterator<Item = &Place> {
    let loops = facts.loops.iter().map(|fact| &fact.place);
    loops.chain(facts.conflicts.iter().flat_map(|conflict| [&conflict.first, &conflict.second]))
}

/// Bounds an entry point with those of the facts that fit it, and enters these as useful.
fn bounded(
    analysis: &Analysis,
    subject: &Subject,
    operation: Operation,
    facts: &Facts,
    useful: &mut HashSet<Place>,
) -> Result<Bound, Unbounded> {
    let mut facts = facts.clone();
    loop {
        match analysis.bound(subject, operation, &facts) {
            Err(Unbounded::Declined(Decline::UselessFact(place))) => {
                facts.loops.retain(|fact| fact.place != place);
                facts.conflicts.retain(|conflict| conflict.first != place && conflict.second != place);
            }
            answer => {
                useful.extend(places(&facts).cloned());
                return answer;
            }
        }
    }
}

/// A bound as results carry it.
fn described(image: &ElfFile, bound: &Bound, paths: Option<Paths>) -> Bounded {
    let reached = paths.map(|paths| paths.reached(bound));
    let path = bound.witness.iter().enumerate().map(|(position, step)| PathStep {
        address: step.address,
        text: image.code(step.address).and_then(|code| x86_64::text(code, step.address)).unwrap_or_default(),
        source: image.source(step.address).first().map(short).unwrap_or_default(),
        executions: step.executions,
        depth: step.depth,
        reached: reached.as_ref().map(|reached| reached[position].clone()),
    });
    let names: BTreeSet<&String> = bound.never_returning.iter().map(|(name, _)| name).collect();
    Bounded {
        most: bound.instructions,
        fewest: bound.shortest,
        facts: assumed(bound),
        never_returning: names.into_iter().cloned().collect(),
        path: path.collect(),
    }
}

/// The facts that a bound assumes, in words.
fn assumed(bound: &Bound) -> Vec<String> {
    let loops = bound.proof.loops.iter().map(|one| {
        let place = one.source.as_ref().map_or_else(|| one.place.to_string(), short);
        format!("{place} is executed at most {} times each time its loop is entered", one.at_most)
    });
    let conflicts = bound.proof.conflicts.iter().map(|conflict| {
        let place = |places: &BTreeSet<Address>| places.first().map_or_else(String::new, ToString::to_string);
        format!("{} and {} are never executed by one operation", place(&conflict.first), place(&conflict.second))
    });
    loops.chain(conflicts).collect()
}

/// A source line without the folders before the file's own.
fn short(source: &Source) -> String {
    let mut components: Vec<&str> = source.file.rsplit('/').take(2).collect();
    components.reverse();
    format!("{}:{}", components.join("/"), source.line)
}

/// What was seen of a subject.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Evidence {
    of: [Sighting; Operation::ALL.len()],
    explored: Option<Explored>,
    troubles: Vec<String>,
}

/// What was seen of one operation of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Sighting {
    scenario: Option<Seen>,
    observed: Option<Seen>,
    by: BTreeMap<String, u64>,
    paths: Option<Paths>,
}

/// What of the longest path different operations executed: a bit for each of its steps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Paths {
    each: HashSet<Vec<u64>>,
    union: Vec<u64>,
}

impl Paths {
    fn of(bound: &Bound, each: &[BTreeSet<u64>], union: &BTreeSet<u64>, bias: u64) -> Self {
        let bits = |executed: &BTreeSet<u64>| {
            let mut bits = vec![0; bound.witness.len().div_ceil(64)];
            for (position, step) in bound.witness.iter().enumerate() {
                bits[position / 64] |=
                    u64::from(executed.contains(&(step.address.wrapping_add(bias)))) << (position % 64);
            }
            bits
        };
        Self { each: each.iter().map(bits).collect(), union: bits(union) }
    }

    fn merge(&mut self, other: Self) {
        self.each.extend(other.each);
        self.union.resize(self.union.len().max(other.union.len()), 0);
        self.union.iter_mut().zip(other.union).for_each(|(bits, others)| *bits |= others);
    }

    /// For each step of the longest path, what was seen of it.
    fn reached(&self, bound: &Bound) -> Vec<Reached> {
        let has = |bits: &[u64], step: usize| bits.get(step / 64).is_some_and(|word| word >> (step % 64) & 1 == 1);
        let steps = bound.witness.len();
        let weight = |bits: &[u64]| -> u64 {
            (0..steps).filter(|step| has(bits, *step)).map(|step| bound.witness[step].executions).sum()
        };
        // Of two paths as near, the one with the earlier bits: the choice must not hang on the order of a hash.
        let nearest = self.each.iter().max_by_key(|bits| (weight(bits), std::cmp::Reverse(*bits)));
        let nearest = nearest.map_or(&[][..], Vec::as_slice);
        let with = |step: usize, other: usize| self.each.iter().any(|bits| has(bits, step) && has(bits, other));
        (0..steps)
            .map(|step| {
                if has(nearest, step) {
                    Reached::Yes
                } else if !has(&self.union, step) {
                    Reached::Never
                } else {
                    match (0..steps).find(|other| has(nearest, *other) && !with(step, *other)) {
                        Some(other) => Reached::NeverWith { other: bound.witness[other].address },
                        None => Reached::Elsewhere,
                    }
                }
            })
            .collect()
    }
}

impl Sighting {
    fn merge(&mut self, other: Self) {
        raise(&mut self.scenario, other.scenario);
        raise(&mut self.observed, other.observed);
        for (driver, most) in other.by {
            let known = self.by.entry(driver).or_default();
            *known = most.max(*known);
        }
        match (&mut self.paths, other.paths) {
            (Some(paths), Some(others)) => paths.merge(others),
            (paths, others) => *paths = paths.take().or(others),
        }
    }
}

impl Evidence {
    fn of(&self, operation: Operation) -> Sighting {
        self.of[operation as usize].clone()
    }

    fn merge(&mut self, other: Self) {
        self.of.iter_mut().zip(other.of).for_each(|(own, other)| own.merge(other));
        self.explored = self.explored.or(other.explored);
        self.troubles.extend(other.troubles);
    }

    /// Enters what a driver saw.
    fn enter(&mut self, driver: &str, maxima: &Maxima) {
        for operation in Operation::ALL {
            let Some(maximum) = maxima.of(operation) else { continue };
            let seen = Seen { instructions: maximum.instructions, circumstance: maximum.circumstance.clone() };
            let sighting = Sighting {
                by: BTreeMap::from([(driver.to_string(), seen.instructions)]),
                observed: Some(seen),
                ..Sighting::default()
            };
            self.of[operation as usize].merge(sighting);
        }
    }
}

/// Keeps the larger; of equals the first.
fn raise(known: &mut Option<Seen>, other: Option<Seen>) {
    let instructions = |seen: &Option<Seen>| seen.as_ref().map(|seen| seen.instructions);
    if instructions(&other) > instructions(known) {
        *known = other;
    }
}

/// The kinds of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Programs,
    Models,
    Built,
}

impl Part {
    const ALL: [Self; 3] = [Self::Programs, Self::Models, Self::Built];

    fn name(self) -> &'static str {
        match self {
            Self::Programs => "programs",
            Self::Models => "models",
            Self::Built => "built",
        }
    }
}

/// Observes every subject under every kind of load.
fn observe(
    analysis: &Analysis,
    subjects: &[&'static Subject],
    operations: &[Operation],
    answers: &[Vec<Result<Bound, Unbounded>>],
    loads: &Loads,
    evidence: &mut [Evidence],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), StudyError> {
    let parts: Vec<(usize, Part)> = (0..subjects.len())
        .filter(|subject| !subjects[*subject].own_pages)
        .flat_map(|subject| Part::ALL.map(|part| (subject, part)))
        .collect();
    for (subject, evidence) in subjects.iter().zip(evidence.iter_mut()) {
        if subject.own_pages {
            evidence
                .troubles
                .push("not observed: it takes its own pages, so that no heap of it can be begun anew".into());
        }
    }
    let counted: Vec<Option<Counted>> = subjects
        .iter()
        .map(|subject| {
            let counted = || Counted::new(analysis.process(), subject, &[], Record::Coverage);
            (!subject.own_pages).then(counted).transpose()
        })
        .collect::<Result<_, _>>()?;
    let jobs = parts
        .iter()
        .map(|(number, part)| {
            let (subject, part) = (subjects[*number], *part);
            let counted = counted[*number].as_ref().expect("made for every subject that is observed");
            let bounds: Vec<(Operation, &Bound)> = operations
                .iter()
                .zip(&answers[*number])
                .filter_map(|(operation, answer)| Some((*operation, answer.as_ref().ok()?)))
                .collect();
            let spawn = move || Child::spawn(|_| watched(analysis, subject, counted, &bounds, part, loads));
            Job { spawn: Box::new(spawn), limit: PART_LIMIT }
        })
        .collect();
    let total = parts.len() as u64;
    let mut done = 0;
    progress(Progress { done, total, last: "" });
    let width = std::thread::available_parallelism().map_or(1, usize::from);
    run_all(jobs, width, |number, result| {
        let (subject, part) = parts[number];
        let evidence = &mut evidence[subject];
        match decode::<Evidence>(result) {
            Ok(found) => evidence.merge(found),
            Err(Death::Crashed(what)) => evidence.troubles.push(format!("{}: {what}", part.name())),
            Err(Death::Hung { .. }) => {
                evidence.troubles.push(format!("{}: not done within the time limit", part.name()))
            }
        }
        done += 1;
        progress(Progress { done, total, last: &format!("{} / {}", subjects[subject].name, part.name()) });
    })?;
    Ok(())
}

/// Has a subject perform one kind of load.
fn watched(
    analysis: &Analysis,
    subject: &Subject,
    counted: &Counted,
    bounds: &[(Operation, &Bound)],
    part: Part,
    loads: &Loads,
) -> Evidence {
    let subject = Subject { entries: counted.entries(), ..*subject };
    let watch = Watch::new(counted.counter());
    let mut evidence = Evidence::default();
    let outcome = match part {
        Part::Programs => replayed(&subject, &watch, &loads.programs, "programs", &mut evidence),
        Part::Models => replayed(&subject, &watch, &loads.models, "models", &mut evidence),
        Part::Built => built(&subject, &watch, &mut evidence),
    };
    if let Err(error) = outcome {
        evidence.troubles.push(format!("{}: {error}", part.name()));
    }
    if !counted.counter().misses().is_empty() {
        evidence.troubles.push(format!("{}: a jump left the code that counts, the maxima are too small", part.name()));
    }
    for (operation, bound) in bounds {
        let (each, union) = (watch.paths(*operation), watch.union(*operation));
        let sighting = &mut evidence.of[*operation as usize];
        sighting.paths = Some(Paths::of(bound, &each, &union, analysis.bias()));
        // The facts that a bound was given may be wrong. Then it has to be said, and loudly.
        if let Some(seen) = sighting.observed.as_ref().filter(|seen| seen.instructions > bound.instructions) {
            evidence.troubles.push(format!(
                "{} EXECUTED {} INSTRUCTIONS, MORE THAN ITS BOUND: {}; a fact that was assumed is wrong, or pathbound is",
                operation.name(),
                seen.instructions,
                seen.circumstance
            ));
        }
    }
    evidence
}

fn replayed(
    subject: &Subject,
    watch: &Watch<'_>,
    loads: &[Load],
    driver: &str,
    evidence: &mut Evidence,
) -> Result<(), ObserveError> {
    let mut maxima = Maxima::new();
    let mut cut = Vec::new();
    for load in loads {
        let deadline = Instant::now() + TRACE_LIMIT;
        let sink = |observation: &Observation<'_>| {
            watch.note(observation);
            maxima.note(observation);
        };
        if !replays::drive(subject, watch, &load.path, &load.name, load.heap_bytes, deadline, sink)? {
            cut.push(load.name.as_str());
        }
    }
    if !cut.is_empty() {
        evidence.troubles.push(format!("{} cut short after {} s", cut.join(", "), TRACE_LIMIT.as_secs()));
    }
    evidence.enter(driver, &maxima);
    Ok(())
}

fn built(subject: &Subject, watch: &Watch<'_>, evidence: &mut Evidence) -> Result<(), ObserveError> {
    let mut stage = Stage::new(subject, watch)?;
    scenario::drive(&mut stage, |_, observation| {
        watch.note(observation);
        let seen = Seen { instructions: observation.instructions, circumstance: observation.to_string() };
        raise(&mut evidence.of[observation.operation as usize].scenario, Some(seen));
    })?;
    let mut maxima = Maxima::new();
    directed::drive(&mut stage, |observation| {
        watch.note(observation);
        maxima.note(observation);
    })?;
    evidence.enter("directed", &maxima);
    let mut maxima = Maxima::new();
    search::drive(&mut stage, search::OPERATIONS, |observation| {
        watch.note(observation);
        maxima.note(observation);
    })?;
    evidence.enter("search", &maxima);
    if let Some(view) = &subject.view {
        let mut maxima = Maxima::new();
        for scope in [explore::Scope::of_suite(&view.contract), explore::Scope::aligned(&view.contract)] {
            let explored = explore::drive(subject, watch, &scope, |observation| {
                watch.note(observation);
                maxima.note(observation);
            })?;
            let all = evidence.explored.get_or_insert(Explored { states: 0, transitions: 0 });
            all.states += explored.states;
            all.transitions += explored.transitions;
        }
        evidence.enter("exploration", &maxima);
    }
    Ok(())
}

/// The study of functions of a file, which nobody performs.
#[must_use]
pub fn of_functions(file: &ElfFile, name: &str, answers: Vec<(String, Result<Bound, String>)>) -> Study {
    let operation = |(symbol, answer): (String, Result<Bound, String>)| OperationBounds {
        operation: symbol,
        answer: match answer {
            Ok(bound) => Answer::Bounded(described(file, &bound, None)),
            Err(why) => Answer::Declined { why },
        },
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
        schema: SCHEMA_VERSION,
        rtalloc: env!("CARGO_PKG_VERSION").into(),
        rustc: if compilers.is_empty() { "an unknown compiler".into() } else { compilers },
        sha256: file.provenance().sha256.clone(),
        observed_in: Vec::new(),
        subjects: vec![subject],
    }
}

//! The processes in which operations are observed.

use super::evidence::{Evidence, Paths, raise};
use super::{Load, Loads, StudyError};
use crate::analysis::{Analysis, Unbounded};
use crate::observe::{
    Limits, Maxima, Observation, ObserveError, Operation, Stage, directed, explore, replays, scenario,
    scenario::Recipe, search, watch::Watch,
};
use crate::probe::Counted;
use crate::probe::{Task, instructions};
use crate::replay::isolate::{Board, Child, Job, Progress, decode, run_all};
use crate::replay::processor::Budget;
use crate::result::bounds::{Explored, Seen};
use crate::result::schema::Outcome;
use pathbound::Bound;
use pathbound::counter::Record;
use rtalloc_subjects::Subject;
use std::time::Duration;

/// Time limit of a part. Bounded operations finish long before it; an allocator that searches may not.
const PART_LIMIT: Duration = Duration::from_secs(120);
/// Time limit of a trace, for the same reason.
const TRACE_LIMIT: Duration = Duration::from_secs(4);
/// Time limit of a trace that is replayed repeatedly until all code is known.
const REPEATED_LIMIT: Duration = Duration::from_secs(12);

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
pub(super) fn observe(
    analysis: &Analysis,
    subjects: &[&'static Subject],
    operations: &[Operation],
    answers: &[Vec<Result<Bound, Unbounded>>],
    loads: &Loads,
    evidence: &mut [Evidence],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), StudyError> {
    let parts: Vec<(usize, Part)> = (0..subjects.len())
        .flat_map(|subject| Part::ALL.map(|part| (subject, part)))
        .filter(|(subject, part)| !subjects[*subject].own_pages || *part != Part::Built)
        .collect();
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
            let counted = counted[*number].as_ref();
            let bounds: Vec<(Operation, &Bound)> = operations
                .iter()
                .zip(&answers[*number])
                .filter_map(|(operation, answer)| Some((*operation, answer.as_ref().ok()?)))
                .collect();
            let spawn = move || {
                Child::spawn(|board| match counted {
                    Some(counted) => watched(analysis, subject, counted, &bounds, part, loads),
                    None => measured(analysis, subject, part, loads, board),
                })
            };
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
            Err(death) => evidence.troubles.push(format!("{}: {death}", part.name())),
        }
        done += 1;
        progress(Progress { done, total, last: &format!("{} / {}", subjects[subject].name, part.name()) });
    })?;
    Ok(())
}

/// Observes a subject under one kind of load.
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
    if !counted.counter().misses().is_empty() || !counted.counter().departures().is_empty() {
        evidence.troubles.push(format!("{}: a jump left the counting code, the maxima are too small", part.name()));
    }
    for (operation, bound) in bounds {
        let (each, union) = (watch.paths(*operation), watch.union(*operation));
        let sighting = &mut evidence.of[*operation as usize];
        sighting.paths = Some(Paths::of(bound, &each, &union, analysis.bias()));
    }
    evidence
}

/// Observes a subject with pages of its own under one kind of load, with the instruction probe: its heap can only be
/// created afresh in a new process.
fn measured(analysis: &Analysis, subject: &'static Subject, part: Part, loads: &Loads, board: &Board) -> Evidence {
    let mut evidence = Evidence::default();
    let loads = if part == Part::Programs { &loads.programs } else { &loads.models };
    let counted = match Counted::new(analysis.process(), subject, &[], Record::Count) {
        Ok(counted) => counted,
        Err(error) => {
            evidence.troubles.push(error.to_string());
            return evidence;
        }
    };
    for load in loads {
        let task = Task {
            trace: &load.path,
            events: load.events,
            peak_live_bytes: load.peak_live_bytes,
            subject,
            heap_bytes: load.heap_bytes,
            budget: Budget::new(REPEATED_LIMIT),
            board,
        };
        let report = instructions::measure(&task, analysis.process(), &counted, Limits::default());
        match report.outcome {
            // A refused request is an operation like any other.
            Outcome::Completed | Outcome::Failures { .. } => {}
            Outcome::TimedOut { .. } => evidence.troubles.push(cut_short(&[&load.name], REPEATED_LIMIT)),
            Outcome::Broken { what } | Outcome::NotMeasured { what } => {
                evidence.troubles.push(format!("{}: {what}", load.name))
            }
        }
        for (operation, most) in Operation::ALL.into_iter().zip(report.figures.map_or([0; 4], |figures| figures.most)) {
            if most > 0 {
                evidence.see(operation, part.name(), Seen { instructions: most, circumstance: load.name.clone() });
            }
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
        let budget = Budget::new(TRACE_LIMIT);
        let sink = |observation: &Observation<'_>| {
            watch.glance(observation);
            maxima.note(observation);
        };
        if !replays::drive(subject, watch, &load.path, &load.name, load.heap_bytes, budget, sink)? {
            cut.push(load.name.as_str());
        }
    }
    if !cut.is_empty() {
        evidence.troubles.push(cut_short(&cut, TRACE_LIMIT));
    }
    evidence.enter(driver, &maxima);
    Ok(())
}

fn cut_short(traces: &[&str], limit: Duration) -> String {
    format!("{} cut short after {} s of processor time", traces.join(", "), limit.as_secs())
}

fn built(subject: &Subject, watch: &Watch<'_>, evidence: &mut Evidence) -> Result<(), ObserveError> {
    let mut stage = Stage::new(subject, watch)?;
    let mut harder = Maxima::new();
    scenario::drive(&mut stage, scenario::HEAP_BYTES, |scenario, observation| {
        watch.note(observation);
        let seen = Seen { instructions: observation.instructions, circumstance: observation.to_string() };
        match scenario.recipe {
            Recipe::Paper => raise(&mut evidence.of[observation.operation as usize].scenario, Some(seen)),
            Recipe::Harder => drop(harder.note(observation)),
        }
    })?;
    evidence.enter("harder recipes", &harder);
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
    // Exploration identifies blocks by their addresses.
    if let Some(view) = subject.view.as_ref().filter(|_| subject.entries.handles.is_none()) {
        let mut maxima = Maxima::new();
        let mut incomplete = false;
        for scope in [explore::Scope::of_suite(&view.contract), explore::Scope::aligned(&view.contract)] {
            let explored = explore::drive(subject, watch, &scope, |observation| {
                watch.note(observation);
                maxima.note(observation);
            })?;
            let all = evidence.explored.get_or_insert(Explored { states: 0, transitions: 0 });
            all.states += explored.states;
            all.transitions += explored.transitions;
            incomplete |= !explored.complete;
        }
        if incomplete {
            evidence.troubles.push("not every state of the tiny heap was explored, as there are too many".into());
        }
        evidence.enter("exploration", &maxima);
    }
    Ok(())
}

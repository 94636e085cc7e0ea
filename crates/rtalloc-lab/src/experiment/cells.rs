//! Every trace on every subject: the plan of a run, and the assembly of its results.
//!
//! A *cell* is one subject on one trace. Each probe measures a cell in a process of its own. The probes that other
//! processes do not disturb, space and instructions, run first and share the processors; then time is measured, one
//! cell at a time on an otherwise idle machine.

use crate::analysis::Analysis;
use crate::catalogue;
use crate::observe::Limits;
use crate::probe::cycles::Clock;
use crate::probe::{CountError, Counted};
use crate::probe::{Report, Task, cycles, instructions, space};
use crate::replay::isolate::{Board, Child, Death, Job, Progress, decode, run_all};
use crate::replay::processor::Budget;
use crate::replay::settings::{Settings, automatic_heap_bytes};
use crate::result::schema::{Cell, Environment, Outcome, Run, TraceResult};
use crate::trace::{Reader, Survey, TraceError, survey};
use pathbound::counter::Record;
use pathbound::image::Process;
use rtalloc_subjects::Subject;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processor time beyond its limit after which a process is killed. It checks the limit itself, but cannot while an
/// operation does not return.
const GRACE: Duration = Duration::from_secs(5);

/// Why a campaign could not run.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// A trace could not be read.
    #[error("{}: {source}", path.display())]
    Trace {
        /// The trace.
        path: PathBuf,
        /// What is wrong with it.
        source: TraceError,
    },
    /// Instructions cannot be counted here.
    #[error("{0}")]
    Count(#[from] CountError),
    /// The system refused a process, a pipe or memory.
    #[error("the system refused to {action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// The probes, in execution order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Space,
    Instructions,
    Cycles,
}

impl Probe {
    fn name(self) -> &'static str {
        match self {
            Probe::Space => "space",
            Probe::Instructions => "instructions",
            Probe::Cycles => "cycles",
        }
    }
}

/// One step of the plan.
#[derive(Clone, Copy, Debug)]
struct Step {
    trace: usize,
    subject: usize,
    probe: Probe,
}

/// Replays every trace on every subject and returns the measurements. Each cell runs in processes of its own: a crash,
/// a hang or a failure of a subject is a result. Calls `finished` with each trace's number in their order, as soon as its
/// cells are complete and those of the other traces lack at most times.
///
/// The calling process should be single-threaded: the cells are forked from it.
///
/// # Errors
///
/// A trace that cannot be read, a probe that is unavailable on this machine, or a system that cannot create processes.
pub fn measure(
    traces: &[PathBuf],
    subjects: &[&'static Subject],
    settings: &Settings,
    progress: &mut dyn FnMut(Progress<'_>),
    finished: &mut dyn FnMut(&Run, usize),
) -> Result<Run, CampaignError> {
    let surveys: Vec<Survey> = traces.iter().map(|path| survey_of(path)).collect::<Result<_, _>>()?;
    // An error here is better than a run in which no cell can be counted.
    let counting = settings.probes.instructions.then(|| Counting::new(subjects)).transpose()?;
    let clock = Clock::calibrate();
    let environment = Environment::here(clock);
    let heaps: Vec<u64> = surveys
        .iter()
        .map(|survey| settings.heap_bytes.unwrap_or_else(|| automatic_heap_bytes(survey.totals.peak_live_bytes)))
        .collect();
    let empty = |(survey, heap_bytes): (&Survey, &u64)| TraceResult {
        trace: survey.facts(),
        cells: subjects.iter().map(|subject| empty_cell(subject, *heap_bytes)).collect(),
    };
    let mut run = Run { environment, traces: surveys.iter().zip(&heaps).map(empty).collect(), costs: None };

    let (mut done, mut complete) = (0, 0);
    let phases =
        [(settings.parallel, steps(traces, subjects, settings, false)), (1, steps(traces, subjects, settings, true))];
    let total = phases.iter().map(|(_, steps)| steps.len() as u64).sum();
    progress(Progress { done, total, last: "" });
    for (width, steps) in &phases {
        let jobs = steps
            .iter()
            .map(|step| {
                let work = Work {
                    trace: &traces[step.trace],
                    survey: &surveys[step.trace],
                    heap_bytes: heaps[step.trace] as usize,
                    subject: subjects[step.subject],
                    settings,
                    clock,
                    counting: counting.as_ref().map(|counting| counting.of(step.subject)),
                };
                let probe = step.probe;
                Job { spawn: Box::new(move || work.spawn(probe)), limit: settings.limit + GRACE }
            })
            .collect();
        run_all(jobs, *width, |number, result| {
            let step = steps[number];
            enter(&mut run.traces[step.trace].cells[step.subject], step.probe, result);
            done += 1;
            // Times are measured one by one, in the order of the plan.
            if step.probe == Probe::Cycles && step.subject + 1 == subjects.len() {
                finished(&run, step.trace);
                complete += 1;
            }
            let (trace, subject) = (&surveys[step.trace].meta.name, subjects[step.subject].name);
            let last = format!("{trace} / {subject} / {}", step.probe.name());
            progress(Progress { done, total, last: &last });
        })
        .map_err(|source| CampaignError::System { action: "run a cell in a process of its own", source })?;
    }

    (complete..traces.len()).for_each(|trace| finished(&run, trace));
    Ok(run)
}

/// Reads a trace file from beginning to end.
///
/// # Errors
///
/// If the file cannot be read, or is not a trace.
pub fn survey_of(path: &Path) -> Result<Survey, CampaignError> {
    Reader::open(path).and_then(survey).map_err(|source| CampaignError::Trace { path: path.into(), source })
}

/// The steps of one phase: those that need an idle machine, or all others.
fn steps(traces: &[PathBuf], subjects: &[&'static Subject], settings: &Settings, alone: bool) -> Vec<Step> {
    let probes = [
        (Probe::Space, settings.probes.space),
        (Probe::Instructions, settings.probes.instructions),
        (Probe::Cycles, settings.probes.cycles),
    ];
    let mut steps = Vec::new();
    for trace in 0..traces.len() {
        for subject in 0..subjects.len() {
            for (probe, wanted) in probes {
                if wanted && (probe == Probe::Cycles) == alone {
                    steps.push(Step { trace, subject, probe });
                }
            }
        }
    }
    steps
}

fn empty_cell(subject: &Subject, heap_bytes: u64) -> Cell {
    Cell {
        subject: catalogue::facts(subject),
        heap_bytes: (!subject.own_pages).then_some(heap_bytes.min(subject.largest_heap_bytes())),
        outcome: Outcome::Completed,
        time: None,
        instructions: None,
        space: None,
    }
}

/// The instruction counters of all subjects. Created once, before the processes that use them are forked.
struct Counting {
    analysis: Analysis,
    subjects: Vec<(Counted, Limits)>,
}

impl Counting {
    fn new(subjects: &[&'static Subject]) -> Result<Self, CountError> {
        let analysis = Analysis::of_this_program().map_err(CountError::Image)?;
        let subjects = subjects
            .iter()
            .map(|subject| {
                Ok((Counted::new(analysis.process(), subject, &[], Record::Count)?, analysis.limits(subject)))
            })
            .collect::<Result<_, CountError>>()?;
        Ok(Self { analysis, subjects })
    }

    fn of(&self, subject: usize) -> (&Process, &Counted, Limits) {
        let (counted, limits) = &self.subjects[subject];
        (self.analysis.process(), counted, *limits)
    }
}

/// The inputs of a step.
#[derive(Clone, Copy)]
struct Work<'a> {
    trace: &'a Path,
    survey: &'a Survey,
    heap_bytes: usize,
    subject: &'static Subject,
    settings: &'a Settings,
    clock: Clock,
    counting: Option<(&'a Process, &'a Counted, Limits)>,
}

impl Work<'_> {
    fn spawn(self, probe: Probe) -> std::io::Result<Child> {
        let settings = self.settings;
        match probe {
            Probe::Space => self.fork(move |task| space::measure(task, settings.smallest_heap)),
            Probe::Instructions => self.fork(move |task| {
                let (process, counted, limits) = self.counting.expect("prepared for this probe");
                instructions::measure(task, process, counted, limits)
            }),
            Probe::Cycles => self.fork(move |task| cycles::measure(task, self.clock, settings.replicas)),
        }
    }

    fn fork<T: Serialize>(self, probe: impl FnOnce(&Task<'_>) -> Report<T>) -> std::io::Result<Child> {
        Child::spawn(|board: &Board| {
            probe(&Task {
                trace: self.trace,
                events: self.survey.totals.events,
                peak_live_bytes: self.survey.totals.peak_live_bytes,
                subject: self.subject,
                heap_bytes: self.heap_bytes,
                budget: Budget::new(self.settings.limit),
                board,
            })
        })
    }
}

/// Stores a step's report in its cell.
fn enter(cell: &mut Cell, probe: Probe, result: Result<Vec<u8>, Death>) {
    let outcome = match probe {
        Probe::Space => take(result, &mut cell.space),
        Probe::Instructions => take(result, &mut cell.instructions),
        Probe::Cycles => take(result, &mut cell.time),
    };
    if severity(&outcome) > severity(&cell.outcome) {
        cell.outcome = outcome;
    }
}

fn take<T: serde::de::DeserializeOwned>(result: Result<Vec<u8>, Death>, place: &mut Option<T>) -> Outcome {
    match decode::<Report<T>>(result) {
        Ok(report) => {
            *place = report.figures;
            report.outcome
        }
        Err(death) => death.outcome(),
    }
}

/// A cell's outcome is the worst one that its probes report.
fn severity(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Completed => 0,
        Outcome::NotMeasured { .. } => 1,
        Outcome::Failures { .. } => 2,
        Outcome::TimedOut { .. } => 3,
        Outcome::Broken { .. } => 4,
    }
}

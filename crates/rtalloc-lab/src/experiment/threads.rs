//! Replays traces with their original threads on every shared allocator, each cell in a process of its own.

use super::cells::{CampaignError, survey_of};
use crate::probe::Report;
use crate::probe::cycles::Clock;
use crate::probe::threads::{ThreadedTask, space, time};
use crate::replay::isolate::{Child, Job, Progress, decode, run_all};
use crate::replay::processor::Budget;
use crate::replay::settings::automatic_heap_bytes;
use crate::replay::threaded::{Ordering, Parameters};
use crate::result::schema::{Environment, Outcome};
use crate::result::threads::{ThreadedCell, ThreadedRun, ThreadedTrace};
use crate::trace::Survey;
use rtalloc_subjects::shared::SharedSubject;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time beyond its limit after which a process is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The settings of a replay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of the heap; `None` selects them from the trace.
    pub heap_bytes: Option<u64>,
    /// The ordering constraints between operations.
    pub ordering: Ordering,
    /// Numbers of copies of each thread of the trace: each number is measured in turn.
    pub copies: Vec<u32>,
    /// Number of timed replays.
    pub replays: u32,
    /// Limit of a probe's processor time per cell and thread of the replay.
    pub limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let limit = Duration::from_secs(60);
        Self { heap_bytes: None, ordering: Ordering::Causal, copies: vec![1], replays: 3, limit }
    }
}

/// Why a trace cannot be replayed with threads.
#[derive(Debug, thiserror::Error)]
pub enum ThreadsError {
    /// A trace could not be read, or the system refused a resource.
    #[error("{0}")]
    Campaign(#[from] CampaignError),
    /// The trace has no parallelism.
    #[error(
        "{} was recorded from a single-threaded program: with `--copies 2` two threads replay it concurrently, each \
         with its own blocks; `rtalloc run` replays it unchanged",
        path.display()
    )]
    OneThread {
        /// The trace.
        path: PathBuf,
    },
}

/// Replays every trace on every subject.
///
/// The calling process should be single-threaded: it forks.
///
/// # Errors
///
/// [`ThreadsError`].
pub fn measure(
    traces: &[PathBuf],
    subjects: &[&'static SharedSubject],
    settings: &Settings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<ThreadedRun, ThreadsError> {
    let clock = Clock::calibrate();
    let environment = Environment::here(clock);
    let surveys: Vec<Survey> = traces.iter().map(|path| survey_of(path)).collect::<Result<_, _>>()?;
    for (path, survey) in traces.iter().zip(&surveys) {
        if survey.totals.threads < 2 && settings.copies.iter().all(|copies| *copies < 2) {
            return Err(ThreadsError::OneThread { path: path.clone() });
        }
    }
    let total = (traces.len() * settings.copies.len() * subjects.len() * 2) as u64;
    let mut done = 0;
    progress(Progress { done, total, last: "" });
    let mut results = Vec::new();
    for (path, survey) in traces.iter().zip(&surveys) {
        for copies in settings.copies.iter().copied() {
            let mut cells = Vec::new();
            let threads = u64::from(survey.totals.threads) * u64::from(copies);
            for subject in subjects {
                let work = Work { path, survey, subject, settings, copies };
                cells.push(work.measure(clock, &mut |what| {
                    done += 1;
                    let last = format!("{} / {threads} threads / {} / {what}", survey.meta.name, subject.name);
                    progress(Progress { done, total, last: &last });
                })?);
            }
            results.push(ThreadedTrace {
                trace: survey.facts(),
                copies,
                threads,
                cross_thread_frees: survey.cross_thread_frees * u64::from(copies),
                heap_bytes: Work::heap_bytes(survey, settings, copies),
                cells,
            });
        }
    }
    Ok(ThreadedRun { environment, ordering: settings.ordering.name().into(), traces: results })
}

/// One cell.
#[derive(Clone, Copy)]
struct Work<'a> {
    path: &'a Path,
    survey: &'a Survey,
    subject: &'static SharedSubject,
    settings: &'a Settings,
    copies: u32,
}

impl Work<'_> {
    fn peak_live_bytes(survey: &Survey, copies: u32) -> u64 {
        survey.totals.peak_live_bytes.saturating_mul(u64::from(copies))
    }

    fn heap_bytes(survey: &Survey, settings: &Settings, copies: u32) -> u64 {
        settings.heap_bytes.unwrap_or_else(|| automatic_heap_bytes(Self::peak_live_bytes(survey, copies)))
    }

    fn measure(self, clock: Clock, done: &mut dyn FnMut(&str)) -> Result<ThreadedCell, CampaignError> {
        let (subject, settings) = (self.subject, self.settings);
        let heap_bytes = Self::heap_bytes(self.survey, settings, self.copies);
        let mut cell = ThreadedCell {
            subject: subject.name.into(),
            origin: subject.origin,
            lock: subject.lock.map(Into::into),
            option_of: subject.option_of.map(Into::into),
            allocate: subject.progress.map(|(allocate, _)| allocate.name().into()),
            deallocate: subject.progress.map(|(_, deallocate)| deallocate.name().into()),
            heap_bytes: (!subject.own_pages).then_some(heap_bytes),
            outcome: Outcome::Completed,
            time: None,
            space: None,
        };
        if let Err(what) = subject.ready() {
            cell.outcome = Outcome::Broken { what };
            done("space");
            done("time");
            return Ok(cell);
        }
        // Memory first: this replay verifies every block, and a corrupt cell is not timed.
        cell.outcome = self.apart(space, &mut cell.space)?;
        done("space");
        if !matches!(cell.outcome, Outcome::Broken { .. }) {
            let outcome = self.apart(|task| time(task, clock, settings.replays), &mut cell.time)?;
            if cell.outcome == Outcome::Completed || !matches!(outcome, Outcome::Completed | Outcome::Failures { .. }) {
                cell.outcome = outcome;
            }
        }
        done("time");
        Ok(cell)
    }

    /// Measures in a separate process.
    fn apart<T: serde::Serialize + serde::de::DeserializeOwned>(
        self,
        probe: impl Fn(&ThreadedTask<'_>) -> Report<T>,
        figures: &mut Option<T>,
    ) -> Result<Outcome, CampaignError> {
        let (totals, settings) = (&self.survey.totals, self.settings);
        let limit = settings.limit * totals.threads.saturating_mul(self.copies);
        let spawn = || {
            Child::spawn(|board| {
                probe(&ThreadedTask {
                    parameters: Parameters {
                        trace: self.path,
                        events: totals.events,
                        slots: totals.slots,
                        threads: totals.threads,
                        copies: self.copies,
                        ordering: settings.ordering,
                        budget: Budget::new(limit),
                        board,
                    },
                    peak_live_bytes: Self::peak_live_bytes(self.survey, self.copies),
                    subject: self.subject,
                    heap_bytes: Self::heap_bytes(self.survey, settings, self.copies) as usize,
                })
            })
        };
        let mut outcome = Outcome::Completed;
        let job = Job { spawn: Box::new(spawn), limit: limit + GRACE };
        run_all(vec![job], 1, |_, result| {
            outcome = match decode::<Report<T>>(result) {
                Ok(report) => {
                    *figures = report.figures;
                    report.outcome
                }
                Err(death) => death.outcome(),
            };
        })
        .map_err(|source| CampaignError::System { action: "run a cell in a process of its own", source })?;
        Ok(outcome)
    }
}

//! Campaigns: experiments as tasks, each performed by itself and kept in a [`Store`] as soon as it is done.
//!
//! ```text
//! experiment -> tasks -> shard K of N -> what the store lacks -> perform -> store -> conclude -> tables
//! ```
//!
//! A task's result depends only on its key and, if timed, on the machine. So an interrupted campaign resumes where it
//! stopped, and slices performed on several machines can be [merged](Store::merge).

pub mod difference;
pub mod shard;
pub mod store;

use crate::replay::isolate::{Board, Child, Death, Job, Progress, decode, run_all};
use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use shard::Shard;
use std::cell::OnceCell;
use std::time::{Duration, Instant};
use store::{Kept, Store, StoreError};

/// A part of an experiment that is performed as a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What determines its result: the experiment and every parameter, as text. Unique over all experiments.
    pub key: String,
    /// Expected seconds on a machine of 2025: for estimating the time left, and for slices of similar duration.
    pub seconds: u64,
    /// Whether it is timed: then nothing else runs at the same time.
    pub timed: bool,
    /// Limit of processor time, over all its threads; beyond it the task is killed.
    pub limit: Duration,
}

impl Task {
    /// A counting task of an expected duration in seconds, at least one. Its limit is a hundred times that, and at
    /// least an hour: the result must not depend on the machine's speed.
    #[must_use]
    pub fn counted(key: String, seconds: u64) -> Self {
        let seconds = seconds.max(1);
        Self { key, seconds, timed: false, limit: Duration::from_secs((100 * seconds).max(3600)) }
    }

    /// As [`counted`](Self::counted), but timed.
    #[must_use]
    pub fn timed(key: String, seconds: u64) -> Self {
        Self { timed: true, ..Self::counted(key, seconds) }
    }
}

/// An experiment as tasks.
pub trait Tasks {
    /// Its name, as `rtalloc reproduce` takes it.
    fn name(&self) -> &'static str;

    /// All tasks, in the order in which [`kept`] returns their results.
    fn tasks(&self) -> Vec<Task>;

    /// Prepares what many tasks need, before their processes are forked.
    fn prepare(&self) {}

    /// Performs the task with this number, in a process of its own. An allocator's failure is a result.
    fn perform(&self, number: usize, board: &Board) -> Value;

    /// The result of a task whose process crashed, as text, or, if timed, exceeded its limit; `None` where that is a
    /// failure of the campaign.
    fn died(&self, _number: usize, _what: &str) -> Option<Value> {
        None
    }
}

/// A task's finding, in the form in which it is stored.
///
/// # Panics
///
/// A type that JSON cannot express; the laboratory has none.
pub fn found(what: &impl Serialize) -> Value {
    serde_json::to_value(what).expect("results can be written as JSON")
}

/// Results of all tasks of an experiment, in their order.
///
/// # Errors
///
/// A task that the store has no result of, or a store that cannot be read.
pub fn kept(experiment: &dyn Tasks, store: &Store) -> anyhow::Result<Vec<Kept>> {
    let kept = |task: &Task| -> anyhow::Result<Kept> {
        store.get(&task.key)?.with_context(|| format!("no result of {:?}; run the rest of the campaign", task.key))
    };
    experiment.tasks().iter().map(kept).collect()
}

/// Stored results, deserialised.
///
/// # Errors
///
/// Results that this version of the laboratory did not write.
pub fn results<T: DeserializeOwned>(kept: Vec<Kept>) -> serde_json::Result<Vec<T>> {
    kept.into_iter().map(|kept| serde_json::from_value(kept.result)).collect()
}

/// Performs every task of a slice that the store has no result of: first the counting tasks, as many in parallel as
/// there are processors; then the timed ones, one by one. Each result is stored as soon as it is available.
///
/// The calling process should be single-threaded: tasks are forked from it.
///
/// # Errors
///
/// A task whose process ended without a result that can be stored: it was killed, or counts and exceeded its limit; the
/// other tasks are performed, and the next call retries it. Or the system cannot create a process, or the store cannot
/// be written: then nothing more is performed. Results obtained before that are in the store.
pub fn perform(
    experiments: &[&dyn Tasks],
    shard: Shard,
    store: &mut Store,
    progress: &mut dyn FnMut(Progress<'_>),
) -> anyhow::Result<()> {
    let mut open = Vec::new();
    let all = experiments.iter().flat_map(|experiment| {
        experiment.tasks().into_iter().enumerate().map(move |(number, task)| (*experiment, number, task))
    });
    for work in shard.of(all.collect(), |(_, _, task)| task) {
        if !store.has(&work.2.key)? {
            open.push(work);
        }
    }
    let total = open.iter().map(|(_, _, task)| task.seconds).sum();
    let mut done = 0;
    progress(Progress { done, total, last: "" });
    for experiment in experiments {
        if open.iter().any(|(of, _, _)| of.name() == experiment.name()) {
            experiment.prepare();
        }
    }
    let (timed, counted): (Vec<_>, Vec<_>) = open.into_iter().partition(|(_, _, task)| task.timed);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failed = None;
    let mut unkept = OnceCell::new();
    for (work, width) in [(counted, processors), (timed, 1)] {
        let jobs =
            work.iter().map(|(experiment, number, task)| job(*experiment, *number, task.limit, &unkept)).collect();
        // Tasks after a failure are still performed and stored; the failure is reported at the end.
        let ran = run_all(jobs, width, |place, sent| {
            let (experiment, number, task) = &work[place];
            let result = match decode::<(Value, Duration)>(sent) {
                Ok(both) => Some(both),
                Err(death) => {
                    let what = death.to_string();
                    let tells_nothing = match death {
                        Death::Hung { .. } | Death::Blocked { .. } => !task.timed,
                        Death::Crashed { .. } | Death::Starved { .. } => death.is_from_outside(),
                    };
                    let result = if tells_nothing { None } else { experiment.died(*number, &what) };
                    if result.is_none() {
                        failed.get_or_insert_with(|| {
                            anyhow::anyhow!("{what}; run the same command to try again")
                                .context(format!("{:?}", task.key))
                        });
                    }
                    result.map(|result| (result, Duration::ZERO))
                }
            };
            if let Some((result, took)) = result
                && let Err(error) = store.keep(experiment.name(), task, took, &result)
            {
                let _ = unkept.set(error);
            }
            done += task.seconds;
            progress(Progress { done, total, last: &task.key });
        });
        if let Some(error) = unkept.take() {
            return Err(anyhow::Error::from(error).context("the store of results"));
        }
        ran.context("cannot run a task in a process of its own")?;
    }
    failed.map_or(Ok(()), Err)
}

/// A task's process. It is not started after a result could not be stored: on a full disk a campaign would work in vain
/// for hours.
fn job<'a>(experiment: &'a dyn Tasks, number: usize, limit: Duration, unkept: &'a OnceCell<StoreError>) -> Job<'a> {
    let perform = move |board: &Board| {
        let begun = Instant::now();
        let found = experiment.perform(number, board);
        (found, begun.elapsed())
    };
    let spawn = move || match unkept.get() {
        None => Child::spawn(perform),
        Some(_) => Err(std::io::Error::other("the store cannot be written")),
    };
    Job { spawn: Box::new(spawn), limit }
}

#[cfg(test)]
mod tests {
    use super::store::Origin;
    use super::*;
    use crate::probe::cycles::Clock;
    use crate::replay::isolate::SharedMemory;
    use crate::result::schema::Environment;
    use std::sync::atomic::Ordering;

    /// Squares, and how often each was computed.
    struct Squares {
        asked: SharedMemory,
        crashes_at: Option<usize>,
        ends: fn(),
        limit: Option<Duration>,
    }

    const COUNT: usize = 20;

    impl Squares {
        fn new() -> Self {
            let asked = SharedMemory::new(COUNT).expect("memory");
            Self { asked, crashes_at: None, ends: || std::process::abort(), limit: None }
        }

        fn asked(&self) -> Vec<usize> {
            let asked = |number: &usize| self.asked.words()[*number].load(Ordering::Relaxed) > 0;
            assert!(self.asked.words().iter().all(|times| times.load(Ordering::Relaxed) <= 1));
            (0..COUNT).filter(asked).collect()
        }
    }

    impl Tasks for Squares {
        fn name(&self) -> &'static str {
            "squares"
        }

        fn tasks(&self) -> Vec<Task> {
            let task = |number: usize| {
                let task = Task::counted(format!("squares {number}"), 1 + number as u64 % 3);
                Task { timed: number % 5 == 1, limit: self.limit.unwrap_or(task.limit), ..task }
            };
            (0..COUNT).map(task).collect()
        }

        fn perform(&self, number: usize, _: &Board) -> Value {
            self.asked.words()[number].fetch_add(1, Ordering::Relaxed);
            if self.crashes_at == Some(number) {
                (self.ends)();
            }
            found(&(number * number))
        }

        fn died(&self, number: usize, what: &str) -> Option<Value> {
            assert!(what.contains("SIGABRT") || what.contains("not finished within"), "{what}");
            number.is_multiple_of(2).then(|| found(&1000))
        }
    }

    impl Squares {
        fn run(&self, store: &mut Store, progress: &mut dyn FnMut(Progress<'_>)) -> anyhow::Result<u64> {
            perform(&[self], Shard::WHOLE, store, progress)?;
            Ok(results::<u64>(kept(self, store)?)?.iter().sum())
        }
    }

    fn store() -> Store {
        let origin = Origin { binary: "sha256:b".into(), traces: "sha256:t".into() };
        let mut store = Store::in_memory(origin).expect("a store");
        store.measure(&Environment::here(Clock::calibrate())).expect("written");
        store
    }

    #[test]
    fn only_failed_tasks_are_retried() {
        let mut store = store();
        let crashing = Squares { crashes_at: Some(7), ..Squares::new() };
        let error = format!("{:#}", crashing.run(&mut store, &mut |_| {}).expect_err("it crashed"));
        assert!(error.starts_with("\"squares 7\"") && error.contains("SIGABRT"), "{error}");
        assert_eq!(crashing.asked(), (0..COUNT).collect::<Vec<_>>(), "the others are performed nevertheless");
        assert!(kept(&crashing, &store).expect_err("not all").to_string().contains("squares 7"));
        let again = Squares::new();
        let mut seen = Vec::new();
        let sum = again.run(&mut store, &mut |progress| seen.push((progress.done, progress.total)));
        assert_eq!(sum.expect("all are there"), 2470);
        assert_eq!((again.asked(), seen), (vec![7], vec![(0, 2), (2, 2)]));
    }

    #[test]
    fn a_crash_that_is_a_result_is_kept() {
        let crashing = Squares { crashes_at: Some(4), ..Squares::new() };
        assert_eq!(crashing.run(&mut store(), &mut |_| {}).expect("concluded"), 2470 - 16 + 1000);
    }

    #[test]
    fn a_death_without_a_result_is_not_kept() {
        fn killed() {
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("raised");
        }
        fn hangs() {
            loop {
                std::hint::spin_loop();
            }
        }
        fn blocks() {
            std::thread::sleep(Duration::from_secs(600));
        }
        let run = |ends: fn(), number: usize, limit| {
            let mut store = store();
            let crashing = Squares { crashes_at: Some(number), ends, limit, ..Squares::new() };
            let outcome = crashing.run(&mut store, &mut |_| {}).map_err(|error| format!("{error:#}"));
            (outcome, store.has(&format!("squares {number}")).expect("read"))
        };
        let limit = Some(Duration::from_secs(1));
        for (ends, limit, why) in
            [(killed as fn(), None, "SIGKILL"), (hangs, limit, "not finished within"), (blocks, limit, "blocked")]
        {
            let (outcome, kept) = run(ends, 4, limit);
            let error = outcome.expect_err("a task has no result");
            assert!(!kept && error.contains(why) && error.contains("run the same command"), "{error}");
        }
        let (outcome, kept) = run(hangs, 6, limit);
        assert_eq!((outcome, kept), (Ok(2470 - 36 + 1000), true), "one that is timed and hangs does so by itself");
    }

    #[test]
    fn nothing_is_measured_that_cannot_be_stored() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.db");
        let mut store = Store::open(&path, store().origin().clone()).expect("a new store");
        store.measure(&Environment::here(Clock::calibrate())).expect("written");
        let squares = Squares::new();
        let mut spoiled = false;
        let outcome = perform(&[&squares], Shard::WHOLE, &mut store, &mut |_| {
            if !std::mem::replace(&mut spoiled, true) {
                rusqlite::Connection::open(&path)
                    .and_then(|other| other.execute_batch("DROP TABLE cell"))
                    .expect("spoiled");
            }
        });
        let error = format!("{:#}", outcome.expect_err("nothing can be written"));
        assert!(error.starts_with("the store of results: "), "{error}");
        let timed = |number: &usize| squares.tasks()[*number].timed;
        assert!(!squares.asked().iter().any(timed), "{:?}", squares.asked());
    }

    #[test]
    fn slices_come_to_the_whole() {
        let mut joined = store();
        for slice in ["1/3", "3/3", "2/3"] {
            let squares = Squares::new();
            let mut part = store();
            perform(&[&squares], slice.parse().expect("a slice"), &mut part, &mut |_| {}).expect("performed");
            assert!((5..=8).contains(&squares.asked().len()));
            assert_eq!(joined.merge(&part).expect("of one origin").added, squares.asked().len());
        }
        let squares = Squares::new();
        assert_eq!(squares.run(&mut joined, &mut |_| {}).expect("concluded"), 2470);
        assert!(squares.asked().is_empty());
    }
}

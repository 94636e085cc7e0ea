//! The wait-free paper's evaluation (2010, section 3.5), with every shared allocator in the same run, and related
//! measurements: steps, throughput, memory over time.
//!
//! Every cell runs in a process of its own, whose threads are pinned to the processors in round-robin order and run at
//! the highest real-time priority if permitted. Parameters that the paper omits are chosen here:
//!
//! - The sizes of cases III and IV are the whole parts of 10 · 1.25^k.
//! - Only requests that are served are timed; the others are counted.
//! - In case IV, a thread whose request is refused retries until no thread has been served since its attempt began and
//!   every thread's last request was refused.
//! - A heap has the paper's 2^26 bytes. Tree buddies, which need a complete tree, get additional memory for their
//!   counters ([`region_bytes`]). An allocator whose memory comes from the system gets requests of 2^26 bytes in total.

mod counted;
pub(super) mod rejections;
#[cfg(test)]
mod tests;

use crate::papers::Scale;
use crate::papers::wait_free::claims;
use crate::papers::wait_free::published::ALLOCATORS;
use crate::papers::wait_free::result::{Case, Cell, Drift, Facts, Scaling, Setting, WaitFree};
use anyhow::Context as _;
use clap::ValueEnum as _;
use rtalloc_lab::campaign::store::Kept;
use rtalloc_lab::campaign::{self, Task, Tasks};
use rtalloc_lab::experiment::contention::crew::Crew;
use rtalloc_lab::experiment::contention::{cases, concurrent};
use rtalloc_lab::probe::cycles::Clock;
use rtalloc_lab::probe::environment::ticks_per_second;
use rtalloc_lab::replay::isolate::Board;
use rtalloc_lab::result::schema::Origin;
use rtalloc_subjects::shared::{SharedSubject, alone};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The heap of the paper, in bytes.
pub const HEAP_BYTES: usize = 64 << 20;
/// Default numbers of threads.
pub const THREADS: [u8; 3] = [1, 2, 16];
/// Allocate-free pairs of case II.
pub const PAIRS: u64 = 20_000;
/// The paper's own allocator.
pub(super) const TREE: &str = ALLOCATORS[0].1;
/// Our recommendation for several cores.
pub(super) const ARENAS: &str = "pooled-arenas";

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Test cases I to IV
    Cases,
    /// Accesses to shared words, beside the published bounds
    Steps,
    /// One thread alone with pooled arenas and with TLSF, alternately
    Local,
    /// Throughput by threads: own blocks, and all frees remote
    Scaling,
    /// Memory over remote frees
    Drift,
}

/// The settings of the measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The allocators.
    pub subjects: Vec<&'static SharedSubject>,
    /// The parts of the experiment.
    pub parts: Vec<Part>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Bytes of the heap.
    pub heap_bytes: usize,
    /// Allocate-free pairs per thread in case II.
    pub pairs: u64,
    /// Repetitions of cases I and II, and of cases III and IV.
    pub repetitions: (u64, u64),
    /// Allocations per thread in a round of throughput.
    pub allocations: u64,
    /// Maximum number of throughput rounds.
    pub rounds: usize,
    /// Remote frees of a drift measurement.
    pub frees: u64,
    /// Time limit per cell; a cell that reaches it reports partial results.
    pub limit: Duration,
    /// Time limit per drift measurement.
    pub drift_limit: Duration,
}

impl Settings {
    /// The default settings at a scale.
    #[must_use]
    pub fn of(scale: Scale, subjects: Vec<&'static SharedSubject>) -> Self {
        Self {
            subjects,
            parts: Part::value_variants().into(),
            threads: THREADS.map(usize::from).into(),
            heap_bytes: HEAP_BYTES,
            pairs: PAIRS,
            repetitions: (scale.pick(1, 5, 20), scale.pick(100, 100, 1000)),
            allocations: scale.pick(50_000, 200_000, 1_000_000),
            rounds: scale.pick(3, 7, 15),
            frees: scale.pick(1_000_000, 10_000_000, 100_000_000),
            limit: Duration::from_secs(scale.pick(4, 20, 120)),
            drift_limit: Duration::from_secs(scale.pick(10, 60, 600)),
        }
    }
}

/// Bytes of the region of `subject` for a heap of `heap_bytes`.
#[must_use]
pub fn region_bytes(subject: &SharedSubject, heap_bytes: usize) -> usize {
    /// Room for the control structure.
    const CONTROL_BYTES: usize = 4096;
    let tree = subject.name == TREE || subject.option_of == Some(TREE);
    // One counter of 4 bytes per node; the smallest node of the variants has 32 bytes.
    if tree { heap_bytes + heap_bytes / 8 + CONTROL_BYTES } else { heap_bytes }
}

/// Bytes by which a request of an allocator is larger, for the header that the paper's has: our tree buddy keeps its
/// counters and tags beside the heap.
fn header_bytes(subject: &SharedSubject) -> usize {
    const PUBLISHED: usize = 12;
    if subject.name == TREE { PUBLISHED } else { 0 }
}

/// A measurement in a process of its own.
#[derive(Clone, Copy)]
enum Work {
    Cell(&'static SharedSubject, Case, usize),
    Steps(&'static SharedSubject, &'static SharedSubject),
    Local,
    Scaling(&'static SharedSubject),
    Drift(&'static SharedSubject),
}

fn work(settings: &Settings) -> Vec<Work> {
    let wants = |part| settings.parts.contains(&part);
    let subjects = || settings.subjects.iter().copied();
    let mut work = Vec::new();
    if wants(Part::Cases) {
        for threads in &settings.threads {
            for case in Case::ALL {
                work.extend(subjects().map(|subject| Work::Cell(subject, case, *threads)));
            }
        }
    }
    if wants(Part::Steps) {
        work.extend(subjects().filter_map(|subject| Some(Work::Steps(subject, subject.stepped?))));
    }
    if wants(Part::Local) && subjects().any(|subject| subject.name == ARENAS) {
        work.push(Work::Local);
    }
    if wants(Part::Scaling) {
        work.push(Work::Scaling(alone()));
        work.extend(subjects().filter(|subject| subject.option_of.is_none()).map(Work::Scaling));
    }
    if wants(Part::Drift) {
        work.extend(subjects().filter(|subject| subject.option_of.is_none()).map(Work::Drift));
    }
    work
}

/// A result with the placement of its threads.
#[derive(Serialize, Deserialize)]
struct Noted<T> {
    processors: u32,
    priority: Result<u32, String>,
    found: T,
}

impl Tasks for Settings {
    fn name(&self) -> &'static str {
        "wait-free"
    }

    fn tasks(&self) -> Vec<Task> {
        /// Time for the parts that cannot be interrupted.
        const GRACE: Duration = Duration::from_secs(20);
        // A task stops at its own time limit, with all processors possibly in use.
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let task = |work| Task {
            limit: (self.limit_of(work) + GRACE) * processors,
            ..Task::timed(self.key(work), self.seconds(work))
        };
        work(self).into_iter().map(task).collect()
    }

    fn perform(&self, task: usize, _: &Board) -> Value {
        let crew = Crew::here();
        let stage = Stage { settings: self, crew: &crew, clock: Clock::calibrate(), clock_hz: ticks_per_second() };
        noted(&crew, stage.perform(work(self)[task]))
    }

    fn died(&self, task: usize, what: &str) -> Option<Value> {
        let failed = json!({ "Err": what });
        // Cells and single-thread comparisons are sent as a `Result`, the others as a row that contains one.
        let found = match work(self)[task] {
            Work::Cell(..) | Work::Local => failed,
            Work::Steps(subject, _) => json!({ "subject": subject.name, "rows": failed }),
            Work::Scaling(subject) | Work::Drift(subject) => json!({ "subject": subject.name, "outcome": failed }),
        };
        Some(noted(&Crew::here(), found))
    }
}

fn noted(crew: &Crew, found: Value) -> Value {
    let priority = crew.priority.clone().map(|priority| priority as u32);
    campaign::found(&Noted { processors: crew.size() as u32, priority, found })
}

impl Settings {
    /// The parameters that determine a result.
    fn key(&self, work: Work) -> String {
        let what = match work {
            Work::Cell(subject, case @ (Case::I | Case::II), threads) => format!(
                "case={} on={} threads={threads} pairs={} repetitions={}",
                case.name(),
                subject.name,
                self.pairs,
                self.repetitions.0
            ),
            Work::Cell(subject, case, threads) => {
                format!("case={} on={} threads={threads} repetitions={}", case.name(), subject.name, self.repetitions.1)
            }
            Work::Steps(subject, _) => format!("steps on={} pairs={}", subject.name, self.pairs),
            Work::Local => format!("local on={ARENAS} allocations={} rounds={}", self.allocations, self.rounds),
            Work::Scaling(subject) => format!(
                "scaling on={} threads={:?} allocations={} rounds={}",
                subject.name, self.threads, self.allocations, self.rounds
            ),
            Work::Drift(subject) => format!("drift on={} frees={}", subject.name, self.frees),
        };
        format!("wait-free {what} heap={} seconds={}", self.heap_bytes, self.limit_of(work).as_secs_f64())
    }

    fn limit_of(&self, work: Work) -> Duration {
        if matches!(work, Work::Drift(_)) { self.drift_limit } else { self.limit }
    }

    fn seconds(&self, work: Work) -> u64 {
        match work {
            Work::Cell(..) => self.limit.as_secs() / 8,
            Work::Steps(..) | Work::Local => 1,
            Work::Scaling(_) => self.limit.as_secs() / 2,
            Work::Drift(_) => self.frees / 4_000_000,
        }
    }
}

impl Settings {
    /// Combines the results of all tasks, in their order.
    pub(crate) fn conclude(&self, kept: Vec<Kept>) -> anyhow::Result<WaitFree> {
        let first =
            kept.first().context("no selected allocator has this part; see `rtalloc reproduce wait-free --help`")?;
        let environment = first.environment.clone();
        let Circumstances { processors, priority, unlike } = circumstances(&kept)?;
        let mut found = WaitFree {
            setting: Setting {
                heap_bytes: self.heap_bytes as u64,
                processors,
                priority,
                unlike,
                pairs: self.pairs,
                repetitions: self.repetitions,
            },
            subjects: self.subjects.iter().map(|subject| facts(subject)).collect(),
            environment,
            cells: Vec::new(),
            steps: Vec::new(),
            local: None,
            scaling: Vec::new(),
            drift: Vec::new(),
            claims: Vec::new(),
            targets: Vec::new(),
            seconds: kept.iter().map(|kept| kept.seconds).sum(),
        };
        for (work, kept) in work(self).into_iter().zip(kept) {
            note(&mut found, work, kept.result)?;
        }
        found.claims = claims::of_the_paper(&found);
        found.targets = claims::of_ours(&found);
        Ok(found)
    }
}

/// The placements under which results were measured.
struct Circumstances {
    /// The minimum over all results.
    processors: u32,
    priority: Result<u32, String>,
    /// All placements, if there are several.
    unlike: Vec<String>,
}

/// The placements of results that may come from several machines.
fn circumstances(kept: &[Kept]) -> serde_json::Result<Circumstances> {
    let (mut least, mut lowest) = (u32::MAX, Ok(u32::MAX));
    let mut all: Vec<(String, u64)> = Vec::new();
    for kept in kept {
        let Noted { processors, priority, .. } = Noted::<Value>::deserialize(&kept.result)?;
        let at =
            priority.as_ref().map_or_else(|_| "ordinary priority".into(), |priority| format!("priority {priority}"));
        let text = format!("{processors} of {} processors ({}), {at}", kept.environment.cores, kept.environment.cpu);
        match all.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => all.push((text, 1)),
        }
        least = least.min(processors);
        lowest = match (lowest, priority) {
            (Ok(one), Ok(other)) => Ok(one.min(other)),
            (Err(why), _) | (_, Err(why)) => Err(why),
        };
    }
    let several = all.len() > 1;
    let unlike = all.into_iter().filter(|_| several).map(|(text, count)| format!("{count} results: {text}")).collect();
    Ok(Circumstances { processors: least, priority: lowest, unlike })
}

fn facts(subject: &SharedSubject) -> Facts {
    Facts {
        name: subject.name.into(),
        origin: subject.origin,
        lock: subject.lock.map(String::from),
        progress: subject.progress.map(|(allocate, free)| (allocate.name().into(), free.name().into())),
        refuses: subject.refuses.iter().map(|reason| (*reason).into()).collect(),
        option_of: subject.option_of.map(String::from),
        own_pages: subject.own_pages,
    }
}

/// The properties shared by all tasks.
#[derive(Clone, Copy)]
struct Stage<'a> {
    settings: &'a Settings,
    crew: &'a Crew,
    clock: Clock,
    clock_hz: u64,
}

impl Stage<'_> {
    fn perform(self, work: Work) -> Value {
        let Self { settings, crew, clock, clock_hz } = self;
        let plan = |subject: &SharedSubject, limit: Duration| concurrent::Plan {
            heap_bytes: settings.heap_bytes,
            region_bytes: region_bytes(subject, settings.heap_bytes),
            allocations: settings.allocations,
            rounds: settings.rounds,
            frees: settings.frees,
            end: Instant::now() + limit,
        };
        let cases = |subject: &SharedSubject, clock: Clock, repetitions: u64| cases::Plan {
            heap_bytes: settings.heap_bytes,
            region_bytes: region_bytes(subject, settings.heap_bytes),
            header_bytes: header_bytes(subject),
            pairs: settings.pairs,
            repetitions,
            limit_ticks: (settings.limit.as_secs_f64() * clock_hz as f64) as u64,
            clock,
        };
        match work {
            Work::Cell(subject, case, threads) => {
                let (few, many) = settings.repetitions;
                let repetitions = if matches!(case, Case::I | Case::II) { few } else { many };
                let timed = |()| cases::timed(subject, crew, case, threads, &cases(subject, clock, repetitions));
                campaign::found(&ready(crew, subject).and_then(timed))
            }
            Work::Steps(subject, counting) => {
                let nothing = Clock { overhead_ticks: 0, ..clock };
                campaign::found(&counted::measure(subject, counting, crew, &cases(counting, nothing, 1)))
            }
            Work::Local => campaign::found(&concurrent::local(ARENAS, crew, clock, &plan(alone(), settings.limit))),
            Work::Scaling(subject) => {
                let threads: Vec<usize> = if subject.name == alone().name { vec![1] } else { settings.threads.clone() };
                let plan = plan(subject, settings.limit);
                let throughput = |()| concurrent::throughput(subject, crew, clock_hz, &threads, &plan);
                let outcome = ready(crew, subject).and_then(throughput);
                campaign::found(&Scaling { subject: subject.name.into(), outcome })
            }
            Work::Drift(subject) => {
                let memory = |()| concurrent::memory(subject, crew, &plan(subject, settings.drift_limit));
                let outcome = ready(crew, subject).and_then(memory);
                campaign::found(&Drift { subject: subject.name.into(), outcome })
            }
        }
    }
}

/// Whether the crew's threads can use the subject, and also the calling thread, which joins them.
fn ready(crew: &Crew, subject: &'static SharedSubject) -> Result<(), String> {
    crew.lead();
    subject.ready()
}

/// Adds a result.
fn note(found: &mut WaitFree, work: Work, result: Value) -> serde_json::Result<()> {
    fn parsed<T: DeserializeOwned>(result: Value) -> serde_json::Result<T> {
        serde_json::from_value::<Noted<T>>(result).map(|noted| noted.found)
    }
    match work {
        Work::Cell(subject, case, threads) => found.cells.push(Cell {
            subject: subject.name.into(),
            case,
            threads: threads as u32,
            outcome: parsed(result)?,
        }),
        Work::Steps(..) => found.steps.push(parsed(result)?),
        Work::Local => found.local = Some(parsed(result)?),
        Work::Scaling(_) => found.scaling.push(parsed(result)?),
        Work::Drift(_) => found.drift.push(parsed(result)?),
    }
    Ok(())
}

/// Whether it is a peer, or one of ours with a lock: the baselines for wait-free allocators.
pub(super) fn is_a_peer(facts: &Facts) -> bool {
    facts.origin != Origin::Ours || facts.lock.is_some()
}

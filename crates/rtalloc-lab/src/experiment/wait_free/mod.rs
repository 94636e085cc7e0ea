//! The wait-free paper's evaluation (2010, section 3.5), with every shared allocator in the same run, and what its text leads to:
//! steps, throughput, memory over time.
//!
//! Every cell is a process of its own, whose threads are pinned to processors in turns and run at the highest real-time
//! priority where that is permitted. What the paper leaves open is chosen here:
//!
//! - The sizes of cases III and IV are the whole parts of 10 · 1.25^k.
//! - Only requests that are served are timed; the others are counted.
//! - In case IV a thread whose request is refused tries again, until nobody has been served since its attempt began and everybody
//!   was refused last.
//! - A heap is the paper's 2^26 bytes. Trees, which are complete or nothing, get their counters besides
//!   ([`region_bytes`]). Whose memory comes from the system gets requests of 2^26 bytes and no more.

mod cases;
mod claims;
mod counted;
mod crew;
mod together;

use crate::probe::cycles::Clock;
use crate::replay::campaign::Progress;
use crate::replay::isolate::{Child, Death, Job, decode, run_all};
use crate::result::schema::{Environment, Origin};
use crate::result::wait_free::{Case, Cell, Drift, Facts, Published, Scaling, Setting, Stepped, WaitFree};
use crate::subject::shared::{SharedSubject, alone};
use crew::Crew;
use std::io;
use std::time::{Duration, Instant};

/// The heap of the paper, in bytes.
pub const HEAP_BYTES: usize = 64 << 20;
/// Pairs of case II.
pub const PAIRS: u64 = 20_000;
/// The paper's own allocator.
const TREE: &str = "tree-buddy";
/// What we recommend where there are several cores.
const ARENAS: &str = "arenas";

/// Figure 10: name there and here, and cases I to IV.
pub const PUBLISHED: [(&str, &str, [Published; 4]); 3] = [
    (
        "our",
        TREE,
        [
            published([5006.0, 19_975.0, 29_707.0, 20_046.0, 0.15], Some(0.9258)),
            published([2252.0, 27_557.0, 37_111.0, 27_469.0, 0.14], None),
            published([1114.0, 29_444.0, 57_264.0, 30_551.0, 0.35], Some(0.6679)),
            published([467.0, 12_019.0, 36_788.0, 11_662.0, 0.6], None),
        ],
    ),
    (
        "tlsf",
        "tlsf-mutex",
        [
            published([6485.0, 14_475.0, 6e5, 54_301.0, 1.7], Some(0.9792)),
            published([612.0, 19_975.0, 3e5, 46_791.0, 1.3], None),
            published([459.0, 30_600.0, 536_698.0, 74_580.0, 1.3], Some(0.9899)),
            published([416.0, 22_788.0, 362_585.0, 47_387.0, 1.3], None),
        ],
    ),
    (
        "atops",
        "atomic-ops",
        [
            published([629.0, 13_846.0, 367_438.0, 48_500.0, 1.4], Some(0.9249)),
            published([901.0, 20_799.0, 372_699.0, 53_998.0, 1.4], None),
            published([629.0, 13_642.0, 1.1e8, 777_530.0, 8.5], Some(0.1732)),
            published([246.0, 1802.0, 2e7, 131_865.0, 9.3], None),
        ],
    ),
];

const fn published([min, median, max, mean, cv]: [f64; 5], utilisation: Option<f64>) -> Published {
    Published { min, median, max, mean, cv, utilisation }
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Test cases I to IV
    Cases,
    /// Accesses to shared words, beside the published bounds
    Steps,
    /// One thread alone with arenas and with TLSF, in turns
    Local,
    /// Throughput by threads: own blocks, and all frees remote
    Scaling,
    /// Memory over remote frees
    Drift,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who.
    pub subjects: Vec<&'static SharedSubject>,
    /// What.
    pub parts: Vec<Part>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Bytes of the heap.
    pub heap_bytes: usize,
    /// Pairs that each thread performs in case II.
    pub pairs: u64,
    /// How often cases I and II, and III and IV are repeated.
    pub repetitions: (u64, u64),
    /// Allocations of a thread in a round of throughput.
    pub allocations: u64,
    /// Most rounds of throughput.
    pub rounds: usize,
    /// Remote frees of a drift.
    pub frees: u64,
    /// Time for one cell; what is not done by then is told as far as it is.
    pub limit: Duration,
    /// Time for one drift.
    pub drift_limit: Duration,
}

/// Bytes of the region that `subject` gets for a heap of `heap_bytes`.
#[must_use]
pub fn region_bytes(subject: &SharedSubject, heap_bytes: usize) -> usize {
    /// Room for the control structure itself.
    const CONTROL_BYTES: usize = 4096;
    let tree = subject.name == TREE || subject.option_of == Some(TREE);
    // A counter of 4 bytes for each node; the smallest node of the options is one of 32 bytes.
    if tree { heap_bytes + heap_bytes / 8 + CONTROL_BYTES } else { heap_bytes }
}

/// Something that a process of its own does.
#[derive(Clone, Copy)]
enum Task {
    Cell(&'static SharedSubject, Case, usize),
    Steps(&'static SharedSubject, &'static SharedSubject),
    Local,
    Scaling(&'static SharedSubject),
    Drift(&'static SharedSubject),
}

impl Task {
    fn name(self) -> String {
        match self {
            Task::Cell(subject, case, threads) => {
                format!("case {} / {} / {threads} threads", case.name(), subject.name)
            }
            Task::Steps(subject, _) => format!("steps / {}", subject.name),
            Task::Local => "one thread alone".into(),
            Task::Scaling(subject) => format!("throughput / {}", subject.name),
            Task::Drift(subject) => format!("memory / {}", subject.name),
        }
    }
}

fn tasks(settings: &Settings) -> Vec<Task> {
    let wants = |part| settings.parts.contains(&part);
    let subjects = || settings.subjects.iter().copied();
    let mut tasks = Vec::new();
    if wants(Part::Cases) {
        for threads in &settings.threads {
            for case in Case::ALL {
                tasks.extend(subjects().map(|subject| Task::Cell(subject, case, *threads)));
            }
        }
    }
    if wants(Part::Steps) {
        tasks.extend(subjects().filter_map(|subject| Some(Task::Steps(subject, subject.stepped?))));
    }
    if wants(Part::Local) && subjects().any(|subject| subject.name == ARENAS) {
        tasks.push(Task::Local);
    }
    if wants(Part::Scaling) {
        tasks.push(Task::Scaling(alone()));
        tasks.extend(subjects().filter(|subject| subject.option_of.is_none()).map(Task::Scaling));
    }
    if wants(Part::Drift) {
        tasks.extend(subjects().filter(|subject| subject.option_of.is_none()).map(Task::Drift));
    }
    tasks
}

/// Performs the experiment. The calling process should have one thread only: the others are forked from it.
///
/// # Errors
///
/// The system's refusal of a process.
pub fn measure(settings: &Settings, progress: &mut dyn FnMut(Progress<'_>)) -> io::Result<WaitFree> {
    let begun = Instant::now();
    let clock = Clock::calibrate();
    let environment = Environment::here(clock);
    let crew = Crew::here();
    let tasks = tasks(settings);
    let stage = Stage { settings, crew: &crew, clock, clock_hz: environment.tsc_hz };
    let mut found = WaitFree {
        setting: Setting {
            heap_bytes: settings.heap_bytes as u64,
            processors: crew.size() as u32,
            priority: crew.priority.clone().map(|priority| priority as u32),
            pairs: settings.pairs,
            repetitions: settings.repetitions,
        },
        subjects: settings.subjects.iter().map(|subject| facts(subject)).collect(),
        environment,
        cells: Vec::new(),
        steps: Vec::new(),
        local: None,
        scaling: Vec::new(),
        drift: Vec::new(),
        claims: Vec::new(),
        targets: Vec::new(),
        seconds: 0.0,
    };
    let (mut done, total) = (0, tasks.len() as u64);
    progress(Progress { done, total, last: "" });
    let jobs = tasks.iter().map(|task| stage.job(*task)).collect();
    run_all(jobs, 1, |number, result| {
        note(&mut found, tasks[number], result);
        done += 1;
        progress(Progress { done, total, last: &tasks[number].name() });
    })?;
    found.claims = claims::of_the_paper(&found);
    found.targets = claims::of_ours(&found);
    found.seconds = begun.elapsed().as_secs_f64();
    Ok(found)
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

/// What all tasks have in common.
#[derive(Clone, Copy)]
struct Stage<'a> {
    settings: &'a Settings,
    crew: &'a Crew,
    clock: Clock,
    clock_hz: u64,
}

impl<'a> Stage<'a> {
    fn job(self, task: Task) -> Job<'a> {
        /// For what cannot be stopped in between.
        const GRACE: Duration = Duration::from_secs(20);
        let limit = if matches!(task, Task::Drift(_)) { self.settings.drift_limit } else { self.settings.limit };
        Job { spawn: Box::new(move || self.spawn(task)), limit: limit + GRACE }
    }

    fn spawn(self, task: Task) -> io::Result<Child> {
        let Self { settings, crew, clock, clock_hz } = self;
        let plan = |limit: Duration| together::Plan {
            heap_bytes: settings.heap_bytes,
            allocations: settings.allocations,
            rounds: settings.rounds,
            frees: settings.frees,
            end: Instant::now() + limit,
        };
        let cases = |clock: Clock, repetitions: u64| cases::Plan {
            heap_bytes: settings.heap_bytes,
            pairs: settings.pairs,
            repetitions,
            limit_ticks: (settings.limit.as_secs_f64() * clock_hz as f64) as u64,
            clock,
        };
        match task {
            Task::Cell(subject, case, threads) => Child::spawn(|_| {
                ready(crew, subject)?;
                let (few, many) = settings.repetitions;
                let repetitions = if matches!(case, Case::I | Case::II) { few } else { many };
                cases::timed(subject, crew, case, threads, &cases(clock, repetitions))
            }),
            Task::Steps(subject, told) => Child::spawn(|_| {
                let nothing = Clock { overhead_ticks: 0, ..clock };
                counted::measure(subject, told, crew, &cases(nothing, 1))
            }),
            Task::Local => Child::spawn(|_| together::local(ARENAS, crew, clock, &plan(settings.limit))),
            Task::Scaling(subject) => Child::spawn(|_| match ready(crew, subject) {
                Ok(()) => {
                    let threads: Vec<usize> =
                        if subject.name == alone().name { vec![1] } else { settings.threads.clone() };
                    together::scaling(subject, crew, clock_hz, &threads, &plan(settings.limit))
                }
                Err(what) => Scaling { subject: subject.name.into(), outcome: Err(what) },
            }),
            Task::Drift(subject) => Child::spawn(|_| match ready(crew, subject) {
                Ok(()) => together::drift(subject, crew, &plan(settings.drift_limit)),
                Err(what) => Drift { subject: subject.name.into(), outcome: Err(what) },
            }),
        }
    }
}

/// Whether the crew's threads can use it, and the calling one, which becomes one of them.
fn ready(crew: &Crew, subject: &'static SharedSubject) -> Result<(), String> {
    crew.lead();
    subject.ready()
}

/// Adds what a process sent.
fn note(found: &mut WaitFree, task: Task, result: Result<Vec<u8>, Death>) {
    let died = |death: Death| match death {
        Death::Crashed(what) => what,
        Death::Hung { .. } => "not done in its time".into(),
    };
    match task {
        Task::Cell(subject, case, threads) => found.cells.push(Cell {
            subject: subject.name.into(),
            case,
            threads: threads as u32,
            outcome: decode(result).map_err(died).flatten(),
        }),
        Task::Steps(subject, _) => found.steps.push(
            decode(result).unwrap_or_else(|death| Stepped { subject: subject.name.into(), rows: Err(died(death)) }),
        ),
        Task::Local => found.local = Some(decode(result).map_err(died).flatten()),
        Task::Scaling(subject) => found.scaling.push(
            decode(result).unwrap_or_else(|death| Scaling { subject: subject.name.into(), outcome: Err(died(death)) }),
        ),
        Task::Drift(subject) => found.drift.push(
            decode(result).unwrap_or_else(|death| Drift { subject: subject.name.into(), outcome: Err(died(death)) }),
        ),
    }
}

/// Whether it is a peer, or one of ours under a lock: what a wait-free allocator is compared with.
fn is_a_peer(facts: &Facts) -> bool {
    facts.origin != Origin::Ours || facts.lock.is_some()
}

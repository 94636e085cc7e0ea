//! Steps per operation under adversarial schedules, independent of the machine: a seed determines the figures.
//!
//! The threads of an *execution* are coroutines of one thread (by `shuttle`). A context switch can occur only before an
//! access to a shared word, so a schedule is a sequence of choices. The scheduler may be adversarial: it can stop a
//! thread permanently at any step, run others between any two steps, or search for the schedule that maximises an
//! operation's steps, which are then compared with the published bound. An operation that exceeds its bound is an
//! error.
//!
//! All threads see all accesses in one order (sequential consistency). The effects of weaker orderings are not explored
//! here; the library's model-checker tests cover them.

mod adversary;
mod load;
mod objects;
#[cfg(test)]
mod tests;
mod turn;
mod world;

pub use adversary::Adversary;
pub use load::Load;
pub use turn::Turnstile;

use crate::result::interleave::{Explored, Interleaved, OperationSteps};
use load::Worker;
use rtalloc::concurrent::PooledArenas;
use rtalloc::concurrent::atomics::WithListener;
use rtalloc::concurrent::bitmap_buddy::BitmapBuddy;
use rtalloc::concurrent::tree_buddy::{self, TreeBuddy};
use rtalloc::contract::{Progress, SharedAllocator};
use rtalloc::segregated::Tlsf;
use rtalloc_subjects::Region;
use rtalloc_subjects::shared::Tuned;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::mem::MaybeUninit;
use std::sync::Arc;
use world::Kind;

/// The settings of an exploration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of every schedule.
    pub seed: u64,
    /// Number of threads, from 1 to [`MOST_THREADS`].
    pub threads: usize,
    /// Number of schedules per adversary and load.
    pub schedules: usize,
    /// The loads to run.
    pub loads: Vec<Load>,
    /// Bytes of the heap; `None` gives each allocator its smallest useful heap.
    pub heap_bytes: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, threads: 3, schedules: 300, loads: Load::ALL.to_vec(), heap_bytes: None }
    }
}

/// Maximum number of threads of an execution.
pub const MOST_THREADS: usize = turn::MAX_TASKS - 1;

/// An allocator whose steps can be interleaved.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its name.
    pub name: &'static str,
    /// Default heap size in bytes.
    heap_bytes: usize,
    /// The promised progress of allocate and deallocate.
    progress: (Progress, Progress),
    /// Performs an execution.
    perform: fn(&Execution),
}

/// A tree buddy whose steps are interleaved.
type Tree<L, O> = TreeBuddy<'static, 64, L, O, WithListener<Turnstile>>;

/// All candidates.
pub const CANDIDATES: &[Candidate] = &[
    candidate::<PooledArenas<'static, Tlsf<'static>, WithListener<Turnstile>>>("pooled-arenas", 16 << 10),
    candidate::<BitmapBuddy<'static, 64, WithListener<Turnstile>>>("bitmap-buddy", 16 << 10),
    candidate::<Tree<tree_buddy::OutOfBand, tree_buddy::Faithful>>("tree-buddy", 16 << 10),
    candidate::<Tree<tree_buddy::InBand, tree_buddy::Faithful>>("tree-buddy-in-band", 16 << 10),
    candidate::<Tree<tree_buddy::OutOfBand, tree_buddy::Everything>>("tree-buddy-everything", 16 << 10),
    objects::candidate::<256>("compact-fit", 48 << 10),
    objects::candidate::<16>("compact-fit-by-16", 48 << 10),
];

/// A candidate with the default configuration.
const fn candidate<H: Tuned + 'static>(name: &'static str, heap_bytes: usize) -> Candidate {
    let progress = (H::CONTRACT.allocate, H::CONTRACT.deallocate);
    Candidate { name, heap_bytes, progress, perform: Execution::perform::<H> }
}

/// Explores every candidate; `progress` is called at each step, [`steps`] times in total.
pub fn measure(candidates: &[Candidate], settings: &Settings, progress: &mut dyn FnMut(u64, &str)) -> Interleaved {
    let mut done = 0;
    let allocators = candidates
        .iter()
        .map(|candidate| {
            explore(*candidate, settings, &mut |what| {
                done += 1;
                progress(done, &format!("{} / {what}", candidate.name));
            })
        })
        .collect();
    Interleaved {
        seed: settings.seed,
        threads: settings.threads,
        schedules_each: settings.schedules,
        loads: settings.loads.iter().map(|load| load.name().into()).collect(),
        allocators,
    }
}

/// The number of times [`measure`] reports progress.
#[must_use]
pub fn steps(candidates: usize, settings: &Settings) -> u64 {
    (candidates * settings.loads.len() * adversaries(settings).count()) as u64
}

fn explore(candidate: Candidate, settings: &Settings, progress: &mut dyn FnMut(&'static str)) -> Explored {
    let heap_bytes = settings.heap_bytes.unwrap_or(candidate.heap_bytes);
    let mut explored = Explored {
        name: candidate.name.into(),
        heap_bytes: heap_bytes as u64,
        allocate: candidate.progress.0.name().into(),
        deallocate: candidate.progress.1.name().into(),
        schedules: 0,
        decisions: 0,
        fault: None,
        operations: Vec::new(),
    };
    let region = match Region::new(heap_bytes, false) {
        Ok(region) => region,
        Err(error) => {
            explored.fault = Some(format!("no memory for a heap of {heap_bytes} bytes: {error}"));
            return explored;
        }
    };
    world::clear();
    for load in &settings.loads {
        for adversary in adversaries(settings) {
            if !world::is_faulty() {
                world::enter(adversary.name(), load.name());
                let start = region.start().expose_provenance();
                let execution =
                    Execution { load: *load, seed: settings.seed, threads: settings.threads, start, heap_bytes };
                let schedules = adversary.schedules(settings.schedules, settings.threads);
                let scheduler = adversary.scheduler(settings.seed, schedules, settings.threads);
                explored.schedules +=
                    Runner::new(scheduler, config()).run(move || (candidate.perform)(&execution)) as u64;
            }
            progress(adversary.name());
        }
    }
    let (seen, fault, decisions) = world::results();
    explored.fault = fault;
    explored.decisions = decisions;
    explored.operations = together(seen);
    explored
}

/// With a single thread, only the sequential adversary applies.
fn adversaries(settings: &Settings) -> impl Iterator<Item = Adversary> + use<> {
    let many = settings.threads > 1;
    Adversary::ALL.into_iter().filter(move |adversary| many || *adversary == Adversary::Alone)
}

fn config() -> Config {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(100_000_000);
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    config
}

/// Merges neighbouring sizes that have the same bound.
fn together(seen: std::collections::BTreeMap<(Kind, usize), world::Seen>) -> Vec<OperationSteps> {
    let mut operations: Vec<OperationSteps> = Vec::new();
    for ((kind, size), seen) in seen {
        let size = size as u64;
        match operations.last_mut() {
            Some(last) if last.operation == kind.name() && last.bound == seen.bound => {
                last.sizes.1 = size;
                last.calls += seen.calls;
                last.most.read_modify_writes = last.most.read_modify_writes.max(seen.most.read_modify_writes);
                last.most.loads = last.most.loads.max(seen.most.loads);
                last.most.stores = last.most.stores.max(seen.most.stores);
                if seen.most_total > last.most_total {
                    (last.most_total, last.found_by) = (seen.most_total, seen.found_by.into());
                }
                last.alone_total = last.alone_total.max(seen.alone_total);
                last.refused += seen.refused;
                last.spurious += seen.spurious;
            }
            _ => operations.push(OperationSteps {
                operation: kind.name().into(),
                sizes: (size, size),
                calls: seen.calls,
                most: seen.most,
                most_total: seen.most_total,
                found_by: seen.found_by.into(),
                alone_total: seen.alone_total,
                bound: seen.bound,
                refused: seen.refused,
                spurious: seen.spurious,
            }),
        }
    }
    operations
}

/// An execution: a heap, threads that use it, and the blocks they leave.
struct Execution {
    load: Load,
    seed: u64,
    threads: usize,
    /// Address and length of the region.
    start: usize,
    heap_bytes: usize,
}

impl Execution {
    fn perform<H: Tuned + 'static>(&self) {
        world::begin(self.threads);
        let start: *mut MaybeUninit<u8> = std::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: this execution has exclusive use of the region. The previous execution's heap in it has been dropped,
        // and this heap is dropped before the region is.
        let memory: &'static mut [MaybeUninit<u8>] = unsafe { std::slice::from_raw_parts_mut(start, self.heap_bytes) };
        let mut heap = match H::new(memory, H::tuned(self.threads)) {
            Ok(heap) => heap,
            Err(error) => return world::fault(|| format!("no heap of {} bytes: {error}", self.heap_bytes)),
        };
        let room = heap.largest_allocatable();
        let heap = Arc::new(heap);
        let range = self.start..self.start + self.heap_bytes;
        let threads: Vec<_> = (1..=self.threads)
            .map(|number| {
                let (heap, range) = (heap.clone(), range.clone());
                let (load, seed, threads) = (self.load, self.seed, self.threads);
                shuttle::thread::spawn(move || {
                    turn::begin(number);
                    match heap.claim(number - 1) {
                        Some(_claim) => {
                            // SAFETY: this thread has exclusive use of the slot while it is claimed; the claim's own
                            // operations are not used.
                            unsafe { Worker::new(&*heap, number - 1, number, range) }.work(load, seed, threads)
                        }
                        None => world::fault(|| format!("slot {} cannot be claimed", number - 1)),
                    }
                    drop(heap);
                })
            })
            .collect();
        for thread in threads {
            if thread.join().is_err() {
                world::fault(|| "a thread panicked".into());
            }
        }
        turn::resume(0);
        match Arc::try_unwrap(heap) {
            Ok(heap) if !world::is_faulty() => self.look_at(heap, room, range),
            _ => {}
        }
    }

    /// Once all threads have finished, the heap must be consistent, both with the live blocks and after everything has
    /// been freed; then its capacity must be what it was initially.
    fn look_at<H: SharedAllocator<'static>>(&self, mut heap: H, room: usize, range: std::ops::Range<usize>) {
        let verify = |heap: &mut H| {
            if let Err(corruption) = heap.check() {
                world::fault(|| format!("the heap is corrupt after all threads finished: {corruption}"));
            }
        };
        verify(&mut heap);
        {
            // SAFETY: no other thread has a slot.
            let mut worker = unsafe { Worker::<H>::new(&heap, 0, 0, range.clone()) };
            for thread in 0..=self.threads {
                while let Some(block) = world::take(thread) {
                    worker.free(block);
                }
            }
        }
        for slot in 0..self.threads {
            // SAFETY: no other thread has a slot.
            let mut worker = unsafe { Worker::<H>::new(&heap, slot, 0, range.clone()) };
            while worker.reclaim(1) > 0 {}
        }
        verify(&mut heap);
        let left = heap.largest_allocatable();
        if left != room {
            world::fault(|| format!("all blocks were freed, but the largest block has {left} bytes instead of {room}"));
        }
    }
}

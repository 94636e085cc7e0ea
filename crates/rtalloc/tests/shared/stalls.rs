//! Wait-freedom: one user stops for good, at each of its steps in turn; the others finish within the promised steps,
//! and are served. And one user is slow: the others take many steps for each of its steps, and it finishes within the
//! promised steps.

use crate::schedules;
use crate::subject::Subject;
use crate::tier::Tiers;
use crate::watch;
use crate::world::{Random, User, World};
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The task of the user that stops: the first after the one that waits for all.
const VICTIM: usize = 1;
/// Other users.
const OTHERS: usize = 3;
/// Least operations of each of them.
const ACTS: usize = 8;
/// Orders of the others' steps for each step at which the victim stops.
pub const ORDERS: Tiers<u64> = Tiers { daily: 4, full: 16 };

#[derive(Clone, Copy, Default)]
struct Stop {
    /// The victim makes this many steps and stops.
    after: usize,
    taken: usize,
    is_stopped: bool,
}

thread_local! {
    static STOP: Cell<Stop> = const { Cell::new(Stop { after: 0, taken: 0, is_stopped: false }) };
}

/// A step of any user; stops the victim once it has made its steps.
pub fn step() {
    if schedules::who() == VICTIM {
        let mut stop = STOP.get();
        stop.is_stopped = stop.taken == stop.after;
        stop.taken += usize::from(!stop.is_stopped);
        STOP.set(stop);
    }
    schedules::switch();
}

/// Users besides the slow one; they continue until it is done.
const FAST: usize = 3;
/// Executions with a slow user, for each pace.
const SLOW: Tiers<u64> = Tiers { daily: 20, full: 200 };

/// One execution, in which the victim never resumes once it is stopped.
struct Stalling {
    /// The victim runs first, and the others start once it is stopped.
    victim_first: bool,
    random: Random,
    is_done: bool,
}

impl Scheduler for Stalling {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.is_done, true)).then(|| Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], _current: Option<TaskId>, _is_yielding: bool) -> Option<TaskId> {
        let is_stopped = STOP.get().is_stopped;
        let able: Vec<TaskId> = runnable.iter().map(|task| task.id()).collect();
        let victim = TaskId::from(VICTIM);
        if is_stopped || !self.victim_first || !able.contains(&victim) {
            let able: Vec<TaskId> = able.into_iter().filter(|&task| !is_stopped || task != victim).collect();
            return (!able.is_empty()).then(|| able[self.random.below(able.len())]);
        }
        Some(victim)
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next()
    }
}

/// Runs one execution, whose first user, which it must start first, stops after `after` steps. Returns whether it did.
/// The users make [`step`]s.
pub fn stops_at(after: usize, seed: u64, execution: impl Fn() + Send + Sync + 'static) -> bool {
    STOP.set(Stop { after, ..Stop::default() });
    let scheduler = Stalling { victim_first: seed.is_multiple_of(2), random: Random(seed), is_done: false };
    schedules::run(scheduler, execution);
    STOP.get().is_stopped
}

/// The victim performs every kind of operation, with blocks of several sizes, its own and others'.
fn script(user: &mut User, parcel: Option<crate::world::Live>, sizes: &[usize]) {
    for &size_bytes in sizes {
        let answer = user.allocate(size_bytes, 1);
        user.mine.extend(answer.ok());
    }
    if let Some(parcel) = parcel {
        user.free(parcel);
    }
    while let Some(live) = user.mine.pop() {
        user.free(live);
    }
    user.reclaim(2);
    assert!(user.allocate(usize::MAX / 2, 1).is_err(), "no heap has memory for that");
}

/// Runs one execution in which the victim stops after `after` steps; returns whether it did.
fn stalled(subject: &'static Subject, after: usize, seed: u64, len_bytes: usize) -> bool {
    let finished = Arc::new(AtomicUsize::new(0));
    let served = Arc::new(AtomicUsize::new(0));
    let counts = (finished.clone(), served.clone());
    let is_stopped = stops_at(after, seed, move || {
        let (finished, served) = (finished.clone(), served.clone());
        let world = World::new(subject.watched, len_bytes, OTHERS + 1);
        let parcel = User::new(&world, 1, seed).allocate(subject.sizes[0], 1).ok();
        schedules::begin(step);
        let victim = {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || script(&mut User::new(&world, 0, seed), parcel, subject.sizes))
        };
        let others: Vec<_> = (1..=OTHERS)
            .map(|number| {
                let (world, served) = (Arc::clone(&world), served.clone());
                shuttle::thread::spawn(move || {
                    let mut user = User::new(&world, number, seed);
                    (0..ACTS).for_each(|_| user.act(subject.sizes));
                    while let Some(live) = user.mine.pop() {
                        user.free(live);
                    }
                    // Others' frees that are not reclaimed yet may cause a few refusals.
                    let answer = (0..ACTS).find_map(|_| user.allocate(subject.sizes[0], 1).ok());
                    served.fetch_add(usize::from(answer.is_some()), Ordering::Relaxed);
                    user.mine.extend(answer);
                })
            })
            .collect();
        for other in others {
            other.join().expect("the user finishes");
            finished.fetch_add(1, Ordering::Relaxed);
        }
        victim.join().expect("the user finishes, unless it is stopped");
    });
    let (finished, served) = counts;
    assert_eq!(
        finished.load(Ordering::Relaxed),
        OTHERS,
        "users that finished while one was stopped after {after} steps"
    );
    assert_eq!(
        served.load(Ordering::Relaxed),
        OTHERS,
        "users that were served while one was stopped after {after} steps"
    );
    is_stopped
}

/// A user stops at each of its steps in turn.
pub fn at_every_step(subject: &'static Subject) {
    let mut places = 0;
    let mut executions = 0;
    for seed in 0..ORDERS.now() {
        let mut after = 0;
        while stalled(subject, after, seed, subject.large_bytes) {
            after += 1;
        }
        executions += after + 1;
        places = places.max(after);
    }
    assert!(places > 0, "the victim makes no step");
    let heap = subject.name();
    println!("{heap}: {places} steps to stop at, {executions} executions, at most {} steps", watch::longest());
}

/// Executions in which the victim makes one step while the others make about `pace`.
struct Starving {
    pace: usize,
    random: Random,
    left: u64,
}

impl Scheduler for Starving {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.left = self.left.checked_sub(1)?;
        Some(Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], _current: Option<TaskId>, _is_yielding: bool) -> Option<TaskId> {
        let able: Vec<TaskId> = runnable.iter().map(|task| task.id()).collect();
        let victim = TaskId::from(VICTIM);
        if able.contains(&victim) && self.random.below(self.pace) == 0 {
            return Some(victim);
        }
        let others: Vec<TaskId> = able.iter().copied().filter(|&task| task != victim).collect();
        Some(if others.is_empty() { victim } else { others[self.random.below(others.len())] })
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next()
    }
}

/// A user is slow, and memory is short.
pub fn slow_among_fast(subject: &'static Subject) {
    let capacity = World::new(subject.watched, subject.small_bytes, FAST + 1).capacity(FAST + 1, subject.sizes[0]);
    let mut executions = 0;
    for pace in [4, 12, 40] {
        let seeds = AtomicUsize::new(pace);
        let scheduler = Starving { pace, random: Random(pace as u64), left: SLOW.now() };
        executions += schedules::run(scheduler, move || {
            let seed = seeds.fetch_add(1, Ordering::Relaxed) as u64;
            let world = World::new(subject.watched, subject.small_bytes, FAST + 1);
            let parcel = User::new(&world, 1, seed).allocate(subject.sizes[0], 1).ok();
            let is_done = Arc::new(AtomicBool::new(false));
            schedules::begin(schedules::switch);
            let victim = {
                let (world, is_done) = (Arc::clone(&world), is_done.clone());
                shuttle::thread::spawn(move || {
                    script(&mut User::new(&world, 0, seed), parcel, subject.sizes);
                    is_done.store(true, Ordering::Relaxed);
                })
            };
            let others: Vec<_> = (1..=FAST)
                .map(|number| {
                    let (world, is_done) = (Arc::clone(&world), is_done.clone());
                    shuttle::thread::spawn(move || {
                        let mut user = User::new(&world, number, seed);
                        while !is_done.load(Ordering::Relaxed) {
                            user.act(subject.sizes);
                            // An operation may have no steps; an iteration of this loop has at least one.
                            schedules::switch();
                        }
                    })
                })
                .collect();
            victim.join().expect("the user finishes");
            others.into_iter().for_each(|other| other.join().expect("the user finishes"));
            schedules::end();
            world.close(FAST + 1, subject.sizes[0], capacity);
        });
    }
    let heap = subject.name();
    println!("{heap}: slow among {FAST}: {executions} executions, at most {} steps", watch::longest());
}

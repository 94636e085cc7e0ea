//! Wait-freedom: one user stands still for ever, at each of the steps of what it does; the others come to their end within the
//! promised steps, and are served. And one user is slow: the others take many steps for each of its, and it comes to its end
//! within the promised steps all the same.

use crate::effort::Effort;
use crate::schedules;
use crate::subject::Subject;
use crate::watch;
use crate::world::{Random, User, World};
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The user who stops: the first after the one who waits for all.
const VICTIM: usize = 1;
/// Other users.
const OTHERS: usize = 3;
/// What each of them does at least.
const ACTS: usize = 8;
/// Orders of the others' steps for each place where the victim stops.
pub const ORDERS: Effort<u64> = Effort { daily: 4, in_earnest: 16 };

#[derive(Clone, Copy, Default)]
struct Stop {
    /// The victim makes so many steps and no more.
    after: usize,
    taken: usize,
    stands: bool,
}

thread_local! {
    static STOP: Cell<Stop> = const { Cell::new(Stop { after: 0, taken: 0, stands: false }) };
}

/// A step of somebody: where the victim has made as many as it may, it stands.
pub fn step() {
    if schedules::who() == VICTIM {
        let mut stop = STOP.get();
        stop.stands = stop.taken == stop.after;
        stop.taken += usize::from(!stop.stands);
        STOP.set(stop);
    }
    schedules::switch();
}

/// Users besides the slow one, who go on until it is done.
const FAST: usize = 3;
/// Executions with a slow user, for each of the paces.
const SLOW: Effort<u64> = Effort { daily: 20, in_earnest: 200 };

/// One execution, in which the victim goes on no more once it stands.
struct Stalling {
    /// The victim begins, and the others see nothing of it before it stands.
    victim_first: bool,
    random: Random,
    is_done: bool,
}

impl Scheduler for Stalling {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.is_done, true)).then(|| Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], _current: Option<TaskId>, _is_yielding: bool) -> Option<TaskId> {
        let stands = STOP.get().stands;
        let able: Vec<TaskId> = runnable.iter().map(|task| task.id()).collect();
        let victim = TaskId::from(VICTIM);
        if stands || !self.victim_first || !able.contains(&victim) {
            let able: Vec<TaskId> = able.into_iter().filter(|&task| !stands || task != victim).collect();
            return (!able.is_empty()).then(|| able[self.random.below(able.len())]);
        }
        Some(victim)
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next()
    }
}

/// One execution, of which the first user, who is to be started first, stops after so many steps: whether it did. The users make
/// [`step`]s.
pub fn standing(after: usize, seed: u64, execution: impl Fn() + Send + Sync + 'static) -> bool {
    STOP.set(Stop { after, ..Stop::default() });
    let scheduler = Stalling { victim_first: seed.is_multiple_of(2), random: Random(seed), is_done: false };
    schedules::run(scheduler, execution);
    STOP.get().stands
}

/// What the victim does: everything a user can do, with blocks of several sizes, its own and others'.
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

/// One execution: the victim stops after so many steps. Whether it did.
fn stalled(subject: &'static Subject, after: usize, seed: u64, len_bytes: usize) -> bool {
    let finished = Arc::new(AtomicUsize::new(0));
    let served = Arc::new(AtomicUsize::new(0));
    let counts = (finished.clone(), served.clone());
    let stands = standing(after, seed, move || {
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
                    // Others' frees, not taken back yet, may stand in the way a few times.
                    let answer = (0..ACTS).find_map(|_| user.allocate(subject.sizes[0], 1).ok());
                    served.fetch_add(usize::from(answer.is_some()), Ordering::Relaxed);
                    user.mine.extend(answer);
                })
            })
            .collect();
        for other in others {
            other.join().expect("a user who ends");
            finished.fetch_add(1, Ordering::Relaxed);
        }
        victim.join().expect("a user who ends, unless it stands");
    });
    let (finished, served) = counts;
    assert_eq!(
        finished.load(Ordering::Relaxed),
        OTHERS,
        "users who came to their end while one stood after {after} steps"
    );
    assert_eq!(served.load(Ordering::Relaxed), OTHERS, "users who were served while one stood after {after} steps");
    stands
}

/// A user stands still at every step of what it does.
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
    println!("{heap}: {places} places to stand still, {executions} executions, at most {} steps", watch::longest());
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

/// A user is slow, where memory is short.
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
                            // An act may be none; a turn of this loop is a step in any case.
                            schedules::switch();
                        }
                    })
                })
                .collect();
            victim.join().expect("a user who ends");
            others.into_iter().for_each(|other| other.join().expect("a user who ends"));
            schedules::end();
            world.close(FAST + 1, subject.sizes[0], capacity);
        });
    }
    let heap = subject.name();
    println!("{heap}: slow among {FAST}: {executions} executions, at most {} steps", watch::longest());
}

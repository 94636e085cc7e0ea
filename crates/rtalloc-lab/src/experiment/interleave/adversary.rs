//! The schedulers: each selects which thread runs next.
//!
//! Thread 0 creates the heap, starts the other threads, waits for them and checks what they left; only the other
//! threads compete. All decisions depend only on the seed and on the threads' earlier steps, so a run is exactly
//! reproducible.

use super::turn;
use super::world;
use crate::workload::random::Random;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};

/// A scheduling strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adversary {
    /// One thread after another, each to completion: no interleaving, so the cost of operations without contention.
    Alone,
    /// A random thread at each step.
    Random,
    /// Random priorities with a few priority changes (Burckhardt et al. 2010), by `shuttle`.
    Pct,
    /// One thread stops at one of its steps until all others have finished; tried for every thread and every step.
    Stall,
    /// The other threads perform many steps between any two steps of one thread.
    Crowd,
    /// Searches for a schedule in which one operation of one thread takes the most steps: mutates the best schedule so
    /// far, and keeps the result unless it is worse.
    Greedy,
}

impl Adversary {
    /// All strategies, in execution order.
    pub const ALL: [Self; 6] = [Self::Alone, Self::Random, Self::Pct, Self::Stall, Self::Crowd, Self::Greedy];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Random => "random",
            Self::Pct => "PCT",
            Self::Stall => "stall",
            Self::Crowd => "crowd",
            Self::Greedy => "greedy",
        }
    }

    /// The number of schedules to run if `schedules` are requested. Without interleaving, there is one per choice of
    /// the first thread.
    pub(super) fn schedules(self, schedules: usize, threads: usize) -> usize {
        if self == Self::Alone { threads } else { schedules }
    }

    /// The scheduler for this number of schedules.
    pub(super) fn scheduler(self, seed: u64, schedules: usize, threads: usize) -> Box<dyn Scheduler + Send> {
        /// Number of priority changes plus one: the depth of PCT.
        const PCT_DEPTH: usize = 4;
        let own = |tactic: Box<dyn Tactic + Send>| -> Box<dyn Scheduler + Send> {
            Box::new(Own { tactic, run: 0, runs: schedules, choices: Vec::new() })
        };
        let random = Random::new(seed);
        match self {
            Self::Alone => own(Box::new(Alone { first: 1, threads })),
            Self::Random => Box::new(Counted(RandomScheduler::new_from_seed(seed, schedules))),
            Self::Pct => Box::new(Counted(PctScheduler::new_from_seed(seed, PCT_DEPTH, schedules))),
            Self::Stall => {
                own(Box::new(Stall { victim: 1, at: 0, lengths: vec![0; threads], random, threads, runs: schedules }))
            }
            Self::Crowd => own(Box::new(Crowd { victim: 1, burst: 1, left: 0, next: 1, threads })),
            Self::Greedy => own(Box::new(Greedy::new(random, threads, schedules))),
        }
    }
}

/// The decisions of one of our own schedulers.
trait Tactic {
    /// Starts execution number `run`.
    fn begin(&mut self, run: usize);
    /// Selects one of several runnable threads.
    fn choose(&mut self, able: &[usize], current: usize) -> usize;
}

/// State shared by our own schedulers.
struct Own {
    tactic: Box<dyn Tactic + Send>,
    run: usize,
    runs: usize,
    choices: Vec<usize>,
}

impl Scheduler for Own {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.run == self.runs {
            return None;
        }
        self.tactic.begin(self.run);
        self.run += 1;
        Some(Schedule::new(0))
    }

    fn next_task(&mut self, able: &[&Task], current: Option<TaskId>, _yields: bool) -> Option<TaskId> {
        world::count_decision();
        self.choices.clear();
        self.choices.extend(able.iter().map(|task| usize::from(task.id())));
        let chosen = match self.choices[..] {
            [only] => only,
            // No decisions are made until all threads have started.
            _ if self.choices.contains(&0) => 0,
            _ => self.tactic.choose(&self.choices, current.map_or(0, usize::from)),
        };
        Some(TaskId::from(chosen))
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}

/// Wraps one of shuttle's schedulers and counts its decisions.
struct Counted<S>(S);

impl<S: Scheduler> Scheduler for Counted<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.0.new_execution()
    }

    fn next_task(&mut self, able: &[&Task], current: Option<TaskId>, yields: bool) -> Option<TaskId> {
        world::count_decision();
        self.0.next_task(able, current, yields)
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// The next thread in round-robin order.
fn behind(thread: usize, threads: usize) -> usize {
    thread % threads + 1
}

struct Alone {
    first: usize,
    threads: usize,
}

impl Tactic for Alone {
    fn begin(&mut self, run: usize) {
        self.first = run % self.threads + 1;
    }

    fn choose(&mut self, able: &[usize], current: usize) -> usize {
        if able.contains(&current) {
            return current;
        }
        let mut next = if current == 0 { self.first } else { behind(current, self.threads) };
        while !able.contains(&next) {
            next = behind(next, self.threads);
        }
        next
    }
}

struct Stall {
    victim: usize,
    /// The step before which the victim stops.
    at: usize,
    /// The highest step count of each thread so far.
    lengths: Vec<usize>,
    random: Random,
    threads: usize,
    runs: usize,
}

impl Tactic for Stall {
    fn begin(&mut self, run: usize) {
        for (length, thread) in self.lengths.iter_mut().zip(1..) {
            *length = (*length).max(turn::steps(thread).total());
        }
        self.victim = run % self.threads + 1;
        // Each step of the victim in turn; if there are more steps than schedules, evenly spaced ones.
        let (place, places) = (run / self.threads, self.runs.div_ceil(self.threads));
        let length = self.lengths[self.victim - 1].max(1);
        self.at = if length <= places { place % length } else { place * length / places } + 1;
    }

    fn choose(&mut self, able: &[usize], _current: usize) -> usize {
        let stopped = turn::steps(self.victim).total() >= self.at;
        // Until then the victim has priority, so that its steps run under contention instead of after the others have
        // finished.
        if !stopped && able.contains(&self.victim) && self.random.below(2) == 0 {
            return self.victim;
        }
        let others = able.iter().filter(|thread| !stopped || **thread != self.victim).count() as u64;
        let mut which = self.random.below(others);
        *able
            .iter()
            .filter(|thread| !stopped || **thread != self.victim)
            .find(|_| {
                let here = which == 0;
                which = which.wrapping_sub(1);
                here
            })
            .unwrap_or(&able[0])
    }
}

struct Crowd {
    victim: usize,
    /// Steps of each other thread between two steps of the victim.
    burst: usize,
    left: usize,
    next: usize,
    threads: usize,
}

impl Tactic for Crowd {
    fn begin(&mut self, run: usize) {
        self.victim = run % self.threads + 1;
        self.burst = run / self.threads + 1;
        self.next = self.victim;
        self.left = 1;
    }

    fn choose(&mut self, able: &[usize], _current: usize) -> usize {
        loop {
            if self.left > 0 && able.contains(&self.next) {
                self.left -= 1;
                return self.next;
            }
            self.next = behind(self.next, self.threads);
            self.left = if self.next == self.victim { 1 } else { self.burst };
        }
    }
}

/// The other threads run for a while before a step of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Burst {
    at: usize,
    who: usize,
    steps: usize,
}

struct Greedy {
    random: Random,
    threads: usize,
    /// Schedules spent on one victim and kind of operation.
    share: usize,
    /// The current search target.
    victim: usize,
    kind: world::Kind,
    best: Vec<Burst>,
    best_steps: usize,
    /// The range of the victim's steps that contains its costliest operation in the best schedule.
    window: (usize, usize),
    tried: Vec<Burst>,
    /// State of the schedule under trial.
    next: usize,
    left: usize,
}

impl Greedy {
    fn new(random: Random, threads: usize, schedules: usize) -> Self {
        Self {
            random,
            threads,
            share: (schedules / (threads.min(2) * world::Kind::SEARCHED.len())).max(1),
            victim: 1,
            kind: world::Kind::SEARCHED[0],
            best: Vec::new(),
            best_steps: 0,
            window: (0, 0),
            tried: Vec::new(),
            next: 0,
            left: 0,
        }
    }

    /// Accepts the trial schedule unless it is worse.
    fn learn(&mut self) {
        if let Some(costliest) = world::costliest(self.victim, self.kind)
            && costliest.steps >= self.best_steps
        {
            self.best_steps = costliest.steps;
            self.window = costliest.window;
            std::mem::swap(&mut self.best, &mut self.tried);
        }
    }

    /// Mutates the best schedule in one or a few places.
    fn change(&mut self) {
        const LENGTHS: [usize; 9] = [1, 2, 3, 5, 8, 13, 21, 55, 1000];
        self.tried.clone_from(&self.best);
        for _ in 0..1 + self.random.below(3) {
            let remove = !self.tried.is_empty() && self.random.below(3) == 0;
            if remove {
                let place = self.random.below(self.tried.len() as u64) as usize;
                self.tried.swap_remove(place);
                continue;
            }
            // Includes a few earlier steps: what the others do before the operation determines the state it finds.
            let (start, end) = (self.window.0.saturating_sub(8), self.window.1 + 1);
            let at = self.random.within(start as u64, end as u64) as usize;
            let mut who = 1 + self.random.below(self.threads as u64 - 1) as usize;
            if who >= self.victim {
                who += 1;
            }
            let steps = LENGTHS[self.random.below(LENGTHS.len() as u64) as usize];
            self.tried.push(Burst { at, who, steps });
        }
        self.tried.sort_unstable();
    }
}

impl Tactic for Greedy {
    fn begin(&mut self, run: usize) {
        if run > 0 {
            self.learn();
        }
        if run.is_multiple_of(self.share) {
            let target = run / self.share;
            self.kind = world::Kind::SEARCHED[target % world::Kind::SEARCHED.len()];
            self.victim = target / world::Kind::SEARCHED.len() % self.threads + 1;
            self.best.clear();
            self.best_steps = 0;
            self.window = (0, 64);
            self.tried.clear();
        }
        if self.threads > 1 {
            self.change();
        }
        (self.next, self.left) = (0, self.tried.first().map_or(0, |burst| burst.steps));
    }

    fn choose(&mut self, able: &[usize], _current: usize) -> usize {
        let here = turn::steps(self.victim).total();
        while let Some(burst) = self.tried.get(self.next) {
            if burst.at > here && able.contains(&self.victim) {
                break;
            }
            if self.left > 0 && able.contains(&burst.who) {
                self.left -= 1;
                return burst.who;
            }
            self.next += 1;
            self.left = self.tried.get(self.next).map_or(0, |burst| burst.steps);
        }
        if able.contains(&self.victim) { self.victim } else { able[0] }
    }
}

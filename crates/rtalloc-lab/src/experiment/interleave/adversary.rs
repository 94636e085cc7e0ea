//! Who decides which thread goes on.
//!
//! Thread 0 makes the heap, starts the others, waits and looks at what they left; only the others are played off
//! against each other. Everything is decided by the seed and by what threads did before, so that a run repeats itself
//! exactly.

use super::turn;
use super::world;
use crate::workload::random::Random;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};

/// A way to schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adversary {
    /// One thread after another, each to its end: no interleaving. What operations cost where nobody is in the way.
    Alone,
    /// Any thread at any step.
    Random,
    /// Random priorities and a few changes of them (Burckhardt et al. 2010), by `shuttle`.
    Pct,
    /// One thread stops at one of its steps until all others are done; every thread, every step.
    Stall,
    /// Between any two steps of one thread the others make many.
    Crowd,
    /// Looks for a schedule in which one operation of one thread takes most steps: changes the best one so far, and
    /// keeps what is no worse.
    Greedy,
}

impl Adversary {
    /// All, in the order in which they are tried.
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

    /// Schedules it makes where `schedules` are wanted. Without interleaving there are as many as threads: who comes
    /// first.
    pub(super) fn schedules(self, schedules: usize, threads: usize) -> usize {
        if self == Self::Alone { threads } else { schedules }
    }

    /// Its scheduler for so many schedules.
    pub(super) fn scheduler(self, seed: u64, schedules: usize, threads: usize) -> Box<dyn Scheduler + Send> {
        /// Changes of priority and one: preemptions that matter.
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

/// How one of our own schedulers decides.
trait Tactic {
    /// An execution follows, the `run`th.
    fn begin(&mut self, run: usize);
    /// Chooses among several threads that can go on.
    fn choose(&mut self, able: &[usize], current: usize) -> usize;
}

/// What our own schedulers have in common.
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
            // Nothing is decided before all threads are there.
            _ if self.choices.contains(&0) => 0,
            _ => self.tactic.choose(&self.choices, current.map_or(0, usize::from)),
        };
        Some(TaskId::from(chosen))
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}

/// One of shuttle's schedulers, whose decisions are counted.
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

/// The thread behind another one, round about.
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
    /// The step in front of which the victim stops.
    at: usize,
    /// Most steps of each thread that were seen so far.
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
        // The steps of the victim, each in its turn; where there are more than schedules, those at equal distances.
        let (place, places) = (run / self.threads, self.runs.div_ceil(self.threads));
        let length = self.lengths[self.victim - 1].max(1);
        self.at = if length <= places { place % length } else { place * length / places } + 1;
    }

    fn choose(&mut self, able: &[usize], _current: usize) -> usize {
        let stopped = turn::steps(self.victim).total() >= self.at;
        // Until it is there the victim goes first, so that its steps are met and not what is left when the others are
        // done.
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
    /// Steps of each other thread between two of the victim's.
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

/// Others go on for a while in front of a step of the victim.
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
    /// What the search looks for.
    victim: usize,
    kind: world::Kind,
    best: Vec<Burst>,
    best_steps: usize,
    /// Steps of the victim between which its costliest operation was, in the best schedule.
    window: (usize, usize),
    tried: Vec<Burst>,
    /// Of the schedule that is tried.
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

    /// Keeps what was tried if it was no worse.
    fn learn(&mut self) {
        if let Some(costliest) = world::costliest(self.victim, self.kind)
            && costliest.steps >= self.best_steps
        {
            self.best_steps = costliest.steps;
            self.window = costliest.window;
            std::mem::swap(&mut self.best, &mut self.tried);
        }
    }

    /// Changes the best schedule in a place or a few.
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
            // A few steps earlier too: what others do before the operation decides what it finds.
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

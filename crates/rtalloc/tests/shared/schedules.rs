//! A scheduler orders the users' steps: at random, or so that it finds a fault of a given depth with a known
//! probability (PCT: Burckhardt, Kothari, Musuvathi and Nagarakatte 2010).
//!
//! A scheduler runs all users on one operating-system thread, and may switch users at every step of a heap. A load sees
//! the last store: the models test weaker orders.

use crate::subject::Subject;
use crate::tier::Tiers;
use crate::watch;
use crate::world::{User, World};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::AtomicUsize;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Schedules explored by each scheduler.
pub const SCHEDULES: Tiers<usize> = Tiers { daily: 1_000, full: 12_000 };
/// Operations of each user in a schedule.
pub const ACTS: usize = 5;
/// Points where PCT changes priorities.
pub const DEPTH: usize = 4;
/// More steps than this in one schedule mean that one user waits for another.
const MAX_STEPS: usize = 200_000;

thread_local! {
    static POINT: RefCell<Option<Rc<AtomicUsize>>> = const { RefCell::new(None) };
}

/// Lets another user run.
pub fn switch() {
    let point = POINT.with_borrow(|point| point.clone());
    if let Some(point) = point {
        point.load(Ordering::SeqCst);
    }
}

/// Number of the running user.
pub fn who() -> usize {
    shuttle::current::get_current_task().map_or(0, usize::from)
}

/// Begins an execution: `event`, which may [`switch`], runs at every step.
pub fn begin(event: watch::Event) {
    POINT.set(Some(Rc::new(AtomicUsize::new(0))));
    watch::at_every_step(Some(event), Some(who));
}

/// Ends the execution.
pub fn end() {
    watch::at_every_step(None, None);
    POINT.set(None);
}

/// Runs the executions of a scheduler; returns how many.
pub fn run(scheduler: impl Scheduler + 'static, execution: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = shuttle::Config::new();
    config.silence_warnings = true;
    config.max_steps = shuttle::MaxSteps::FailAfter(MAX_STEPS);
    config.failure_persistence = shuttle::FailurePersistence::None;
    // Unoptimised code needs more than the default.
    config.stack_size = 1 << 17;
    let executions = shuttle::Runner::new(scheduler, config).run(execution);
    end();
    executions
}

/// Users that perform random operations under a scheduler.
fn users_under(subject: &'static Subject, scheduler: impl Scheduler + 'static, users: usize, name: &str) {
    let fresh = move || World::new(subject.watched, subject.small_bytes, users);
    let capacity = fresh().capacity(users, subject.sizes[0]);
    let seeds = AtomicSeed::new(0);
    let executions = run(scheduler, move || {
        let seed = seeds.fetch_add(1, Ordering::Relaxed);
        let world = fresh();
        begin(switch);
        let threads: Vec<_> = (0..users)
            .map(|number| {
                let world = Arc::clone(&world);
                shuttle::thread::spawn(move || {
                    let mut user = User::new(&world, number, seed);
                    (0..ACTS).for_each(|_| user.act(subject.sizes));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("the user finishes"));
        end();
        world.close(users, subject.sizes[0], capacity);
    });
    let heap = subject.name();
    println!("{heap}: {users} users, {name}: {executions} schedules, at most {} steps", watch::longest());
}

type AtomicSeed = std::sync::atomic::AtomicU64;

/// Users under a random scheduler.
pub fn at_random(subject: &'static Subject) {
    users_under(subject, RandomScheduler::new_from_seed(0x5EED, SCHEDULES.now() / 2), 4, "random");
}

/// Users under PCT.
pub fn by_priorities(subject: &'static Subject) {
    users_under(subject, PctScheduler::new_from_seed(0x5EED, DEPTH, SCHEDULES.now() / 2), 4, "PCT");
    users_under(subject, PctScheduler::new_from_seed(0x5EED, DEPTH, SCHEDULES.now() / 10), 8, "PCT");
}

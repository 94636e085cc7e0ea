//! Sees every step of a heap under test before it happens: counts it, checks it against the promised bound, and runs an
//! event: a switch to another thread, a signal, or the stop of a process.

use rtalloc::concurrent::atomics::{Listener, Step, WithListener};
use rtalloc::contract::Steps;
use std::cell::Cell;
use std::panic::Location;

/// The atomics of a heap under test.
pub type Watched = WithListener<Watch>;

/// The listener.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch;

/// Most tasks of a scheduled execution.
const TASKS: usize = 16;

/// The operation that a task is in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ledger {
    /// Steps taken.
    pub taken: Steps,
    /// Steps promised, where any are.
    pub most: Option<Steps>,
}

/// What happens at a step.
pub type Event = fn();

thread_local! {
    static LEDGERS: [Cell<Ledger>; TASKS] = const { [const { Cell::new(Ledger { taken: NO_STEPS, most: None }) }; TASKS] };
    /// Returns the task that runs now, the index of its ledger.
    static WHO: Cell<Option<fn() -> usize>> = const { Cell::new(None) };
    static EVENT: Cell<Option<Event>> = const { Cell::new(None) };
    static LONGEST: Cell<usize> = const { Cell::new(0) };
}

const NO_STEPS: Steps = Steps { read_modify_writes: 0, loads: 0, stores: 0 };

// SAFETY: a panic ends the execution, and the heap is dropped with it.
unsafe impl Listener for Watch {
    #[track_caller]
    fn before(step: Step) {
        let mut ledger = ledger();
        match step {
            Step::Load => ledger.taken.loads += 1,
            Step::Store => ledger.taken.stores += 1,
            Step::Modify(_) | Step::CompareExchange => ledger.taken.read_modify_writes += 1,
        }
        set_ledger(ledger);
        let is_within = ledger.most.is_none_or(|most| ledger.taken.within(most));
        assert!(is_within, "{:?} taken of {:?} promised, at {}", ledger.taken, ledger.most, Location::caller());
        if let Some(event) = EVENT.get() {
            event();
        }
    }
}

/// The user that runs now.
pub fn who() -> usize {
    WHO.get().map_or(0, |who| who())
}

/// The operation that the running task is in.
pub fn ledger() -> Ledger {
    LEDGERS.with(|ledgers| ledgers[who()].get())
}

fn set_ledger(ledger: Ledger) {
    LEDGERS.with(|ledgers| ledgers[who()].set(ledger));
}

/// Performs an operation that must end within `most` steps, perhaps within another operation.
pub fn measured<R>(most: Option<Steps>, operation: impl FnOnce() -> R) -> R {
    let outer = ledger();
    set_ledger(Ledger { taken: NO_STEPS, most });
    let answer = operation();
    LONGEST.set(LONGEST.get().max(ledger().taken.total()));
    set_ledger(outer);
    answer
}

/// Most steps of an operation of this thread since the last call.
pub fn longest() -> usize {
    LONGEST.replace(0)
}

/// Runs `event` at every step of this operating-system thread from now on. `who` returns which user runs.
pub fn at_every_step(event: Option<Event>, who: Option<fn() -> usize>) {
    EVENT.set(event);
    WHO.set(who);
    LEDGERS.with(|ledgers| ledgers.iter().for_each(|ledger| ledger.set(Ledger::default())));
}

/// Runs without any event.
pub fn undisturbed<R>(run: impl FnOnce() -> R) -> R {
    let event = EVENT.replace(None);
    let answer = run();
    EVENT.set(event);
    answer
}

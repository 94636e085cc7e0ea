//! Whose turn it is, and how many steps each thread has taken: what stands between a heap and the scheduler.
//!
//! All threads of an execution are coroutines of one thread of the system, so a variable of that thread is one they
//! share.

use rtalloc::concurrent::atomics::{Listener, Step};
use rtalloc::contract::Steps;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use std::cell::Cell;

/// Most threads of an execution, the one that makes the heap included.
pub(super) const MAX_TASKS: usize = 9;

thread_local! {
    static ME: Cell<usize> = const { Cell::new(0) };
    static UNDISTURBED: Cell<bool> = const { Cell::new(true) };
    static STEPS: Cell<[Steps; MAX_TASKS]> = const { Cell::new([Steps { read_modify_writes: 0, loads: 0, stores: 0 }; MAX_TASKS]) };
}

/// Counts a step and lets the scheduler decide who goes on, before the step is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turnstile;

// SAFETY: where the scheduler unwinds, the execution ends, and the heap with it.
unsafe impl Listener for Turnstile {
    fn before(step: Step) {
        let me = ME.get();
        let mut steps = STEPS.get();
        let one = match step {
            Step::Load => Steps { loads: 1, ..Steps::default() },
            Step::Store => Steps { stores: 1, ..Steps::default() },
            Step::Modify(_) | Step::CompareExchange => Steps { read_modify_writes: 1, ..Steps::default() },
        };
        steps[me] = steps[me] + one;
        STEPS.set(steps);
        if !UNDISTURBED.get() {
            // An access to a word of the scheduler's own, which is where it may let another thread go on.
            AtomicBool::new(false).load(Ordering::SeqCst);
            ME.set(me);
        }
    }
}

/// An execution begins: nobody has done anything, and the only thread is 0.
pub(super) fn reset() {
    STEPS.set([Steps::default(); MAX_TASKS]);
    ME.set(0);
    UNDISTURBED.set(true);
}

/// The calling thread is this one from now on, and others may interrupt it.
pub(super) fn begin(task: usize) {
    ME.set(task);
    UNDISTURBED.set(false);
}

/// The calling thread, again, after something else that may have let others go on.
pub(super) fn resume(task: usize) {
    ME.set(task);
    UNDISTURBED.set(task == 0);
}

/// Steps that a thread has taken.
pub(super) fn steps(task: usize) -> Steps {
    STEPS.get()[task]
}

/// Does something without being interrupted.
pub(super) fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let before = UNDISTURBED.replace(true);
    let result = work();
    UNDISTURBED.set(before);
    result
}

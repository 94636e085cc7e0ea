//! The interface between a heap and the scheduler: the running thread, and the steps each thread has taken.
//!
//! All threads of an execution are coroutines of one OS thread, so they share its thread-local variables.

use rtalloc::concurrent::atomics::{Listener, Step};
use rtalloc::contract::Steps;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use std::cell::Cell;

/// Maximum number of threads of an execution, including the one that creates the heap.
pub(super) const MAX_TASKS: usize = 9;

thread_local! {
    static ME: Cell<usize> = const { Cell::new(0) };
    static UNDISTURBED: Cell<bool> = const { Cell::new(true) };
    static STEPS: Cell<[Steps; MAX_TASKS]> = const { Cell::new([Steps { read_modify_writes: 0, loads: 0, stores: 0 }; MAX_TASKS]) };
}

/// Counts a step and calls the scheduler before the step is performed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turnstile;

// SAFETY: if the scheduler unwinds, the execution ends and the heap is discarded.
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
            // Accesses a word of the scheduler, which makes this a possible context switch.
            AtomicBool::new(false).load(Ordering::SeqCst);
            ME.set(me);
        }
    }
}

/// Starts an execution: all step counts are zero, and thread 0 is the only thread.
pub(super) fn reset() {
    STEPS.set([Steps::default(); MAX_TASKS]);
    ME.set(0);
    UNDISTURBED.set(true);
}

/// Declares the calling thread to be this one; from now on others may interrupt it.
pub(super) fn begin(task: usize) {
    ME.set(task);
    UNDISTURBED.set(false);
}

/// Restores the calling thread after a call that may have switched threads.
pub(super) fn resume(task: usize) {
    ME.set(task);
    UNDISTURBED.set(task == 0);
}

/// Steps that a thread has taken.
pub(super) fn steps(task: usize) -> Steps {
    STEPS.get()[task]
}

/// Runs a closure without interruption.
pub(super) fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let before = UNDISTURBED.replace(true);
    let result = work();
    UNDISTURBED.set(before);
    result
}

//! Accesses to shared words, counted by the thread that makes them: a measure of time that is independent of the
//! machine.
//!
//! Subjects with reported steps ([`SharedSubject::stepped`](crate::shared::SharedSubject::stepped)) report them here. A
//! thread can register a function that is called before each of its steps, to let other threads run first.

use rtalloc::concurrent::atomics::{Listener, Step};
use rtalloc::contract::Steps;
use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<Steps> = const { Cell::new(Steps { read_modify_writes: 0, loads: 0, stores: 0 }) };
    static BEFORE: Cell<Option<fn(Step)>> = const { Cell::new(None) };
}

/// Counts the steps of each thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

// SAFETY: it only counts; a function registered by `before_each` ends the process if it fails.
unsafe impl Listener for Counting {
    #[inline]
    fn before(step: Step) {
        if let Some(before) = BEFORE.get() {
            before(step);
        }
        let mut steps = TAKEN.get();
        match step {
            Step::Load => steps.loads += 1,
            Step::Store => steps.stores += 1,
            Step::Modify(_) | Step::CompareExchange => steps.read_modify_writes += 1,
        }
        TAKEN.set(steps);
    }
}

/// The number of steps of this thread since the last call.
#[must_use]
pub fn taken() -> Steps {
    TAKEN.take()
}

/// Sets the function that is called before each step of this thread from now on.
pub fn before_each(call: Option<fn(Step)>) {
    BEFORE.set(call);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtalloc::concurrent::atomics::{Shared, WithListener};
    use std::sync::atomic::Ordering;

    #[test]
    fn steps_are_counted_by_their_kind_and_thread() {
        let word: Shared<u32, WithListener<Counting>> = Shared::new(1);
        let _ = taken();
        word.store(2, Ordering::Relaxed);
        word.fetch_add(word.load(Ordering::Relaxed), Ordering::Relaxed);
        let _ = word.compare_exchange(4, 5, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| word.load(Ordering::Relaxed));
        });
        assert_eq!(taken(), Steps { read_modify_writes: 2, loads: 1, stores: 1 });
        assert_eq!(taken(), Steps::default());
    }

    #[test]
    fn a_registered_function_is_called_before_steps() {
        thread_local!(static CALLS: Cell<usize> = const { Cell::new(0) });
        let word: Shared<u32, WithListener<Counting>> = Shared::new(1);
        before_each(Some(|_| CALLS.set(CALLS.get() + 1)));
        let _ = word.load(Ordering::Relaxed);
        before_each(None);
        let _ = word.load(Ordering::Relaxed);
        assert_eq!(CALLS.get(), 1);
    }
}

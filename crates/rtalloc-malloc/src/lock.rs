//! The one kind of lock here: it knows its holder, and it needs nothing of the system but time.
//!
//! That it knows its holder is for signal handlers: one that interrupts the holder is told so and goes without, instead of waiting for
//! what it interrupted. That it is a plain word is for `fork`: the child's only thread finds it as the parent's had it.

use crate::{libc, system, thread};
use core::ptr::null_mut;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Looks at the lock before others are let run.
const SPINS: usize = 100;
/// Times others are let run before it sleeps.
const YIELDS: usize = 20;
/// Longest sleep, in nanoseconds.
const LONGEST_NS: i64 = 1_000_000;

/// Mutual exclusion of threads. Not fair: how long one waits has no bound.
#[derive(Debug)]
pub struct Lock {
    /// Who holds it, by [`thread::identity`]; 0: nobody.
    holder: AtomicUsize,
}

impl Lock {
    /// A lock that nobody holds.
    #[must_use]
    pub const fn new() -> Self {
        Lock { holder: AtomicUsize::new(0) }
    }

    /// Whether the calling thread holds it.
    #[must_use]
    pub fn is_mine(&self) -> bool {
        self.holder.load(Relaxed) == thread::identity()
    }

    /// Whether somebody holds it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.holder.load(Relaxed) != 0
    }

    /// Waits until it is the calling thread's, which does not hold it.
    pub fn lock(&self) {
        let me = thread::identity();
        if self.holder.compare_exchange(0, me, Acquire, Relaxed).is_err() {
            self.wait(me);
        }
    }

    #[cold]
    fn wait(&self, me: usize) {
        let mut patience = Patience::new();
        loop {
            patience.wait();
            if self.holder.load(Relaxed) == 0 && self.holder.compare_exchange(0, me, Acquire, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Gives it up.
    pub fn unlock(&self) {
        self.holder.store(0, Release);
    }

    /// Runs something while nobody else holds the lock; `None` if the calling thread holds it already.
    #[inline]
    pub fn hold<T>(&self, inside: impl FnOnce() -> T) -> Option<T> {
        if self.is_mine() {
            return None;
        }
        self.lock();
        let result = inside();
        self.unlock();
        Some(result)
    }
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

/// How somebody waits: longer each time, so that who is waited for gets to run.
#[derive(Debug)]
pub struct Patience {
    turns: usize,
    sleep_ns: i64,
}

impl Patience {
    /// Just begun.
    #[must_use]
    pub const fn new() -> Self {
        Patience { turns: 0, sleep_ns: 1_000 }
    }

    /// Waits a little.
    pub fn wait(&mut self) {
        self.turns += 1;
        if self.turns <= SPINS {
            core::hint::spin_loop();
        } else if self.turns <= SPINS + YIELDS {
            // SAFETY: no precondition.
            unsafe { libc::sched_yield() };
        } else {
            crate::tell::keeping_errno(|| {
                let time = system::Timespec { seconds: 0, nanoseconds: self.sleep_ns };
                // SAFETY: the time is readable, and nobody wants to know what was left of it.
                unsafe { libc::nanosleep(&raw const time, null_mut()) };
            });
            self.sleep_ns = (self.sleep_ns * 2).min(LONGEST_NS);
        }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

/// What keeps threads out of a heap that is for one at a time: one lock for all of them, as regions have theirs for the same
/// requests.
#[derive(Debug)]
pub struct HeapLock;

static HEAPS: Lock = Lock::new();

/// Whether the calling thread was interrupted in the midst of an operation of a heap under the lock.
#[must_use]
pub fn is_inside() -> bool {
    HEAPS.is_mine()
}

// SAFETY: the functions of all of these run one at a time, ordered by release and acquire.
unsafe impl rtalloc::adapt::Lock for HeapLock {
    const FREE: Self = HeapLock;

    #[inline(always)]
    fn hold<T>(&self, inside: impl FnOnce() -> T) -> T {
        HEAPS.lock();
        let result = inside();
        HEAPS.unlock();
        result
    }

    fn is_held(&self) -> bool {
        HEAPS.is_held()
    }
}

//! A spin lock that records its owner and needs nothing of the system but time.
//!
//! The owner is recorded for signal handlers: a handler that interrupted the owner finds that out and does without the
//! lock, instead of waiting for the code it interrupted. The lock is one word for `fork`: the child finds it as the
//! parent left it.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use rtalloc_sys::errno::keeping_errno;
use rtalloc_sys::{libc, syscall, thread};

/// Mutual exclusion of threads. Not fair: waiting times are unbounded.
#[derive(Debug)]
pub struct Lock {
    /// The owner's [`thread::identity`]; 0 if the lock is free.
    owner: AtomicUsize,
}

impl Lock {
    /// A free lock.
    pub const fn new() -> Self {
        Lock { owner: AtomicUsize::new(0) }
    }

    /// Whether the calling thread owns it.
    pub fn is_mine(&self) -> bool {
        self.owner.load(Relaxed) == thread::identity()
    }

    /// Whether any thread owns it.
    pub fn is_locked(&self) -> bool {
        self.owner.load(Relaxed) != 0
    }

    /// Locks it. The calling thread must not own it.
    pub fn lock(&self) {
        let me = thread::identity();
        if self.owner.compare_exchange(0, me, Acquire, Relaxed).is_err() {
            self.wait(me);
        }
    }

    #[cold]
    fn wait(&self, me: usize) {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            if self.owner.load(Relaxed) == 0 && self.owner.compare_exchange(0, me, Acquire, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Unlocks it. The calling thread must own it.
    pub fn unlock(&self) {
        self.owner.store(0, Release);
    }

    /// Runs a critical section; `None` if the calling thread already owns the lock.
    #[inline]
    pub fn with<T>(&self, critical_section: impl FnOnce() -> T) -> Option<T> {
        if self.is_mine() {
            return None;
        }
        self.lock();
        let result = critical_section();
        self.unlock();
        Some(result)
    }

    /// Runs a critical section; `None` if a thread owns the lock.
    pub fn try_with<T>(&self, critical_section: impl FnOnce() -> T) -> Option<T> {
        self.owner.compare_exchange(0, thread::identity(), Acquire, Relaxed).ok()?;
        let result = critical_section();
        self.unlock();
        Some(result)
    }
}

/// Waiting in a loop: spins, then yields, then sleeps for longer and longer, so that the awaited thread gets the
/// processor.
#[derive(Debug)]
pub struct Backoff {
    attempts: usize,
    sleep_ns: i64,
}

impl Backoff {
    /// Attempts that only spin.
    const SPINS: usize = 100;
    /// Attempts after those that yield the processor.
    const YIELDS: usize = 20;
    /// Longest sleep, in nanoseconds.
    const LONGEST_NS: i64 = 1_000_000;

    /// No attempt yet.
    pub const fn new() -> Self {
        Backoff { attempts: 0, sleep_ns: 1_000 }
    }

    /// Waits.
    pub fn wait(&mut self) {
        self.attempts += 1;
        if self.attempts <= Self::SPINS {
            core::hint::spin_loop();
        } else if self.attempts <= Self::SPINS + Self::YIELDS {
            // SAFETY: `sched_yield` has no precondition.
            unsafe { libc::sched_yield() };
        } else {
            keeping_errno(|| syscall::sleep(self.sleep_ns));
            self.sleep_ns = (self.sleep_ns * 2).min(Self::LONGEST_NS);
        }
    }
}

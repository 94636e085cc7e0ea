//! Locks: mutual exclusion for the users of a heap.
//!
//! A heap under a lock ([`Locked`](super::Locked)) uses it through the trait [`Lock`]. The choices:
//!
//! | lock | feature | waiting |
//! |---|---|---|
//! | every `lock_api::RawMutex`: `spin::Mutex<()>`, `spin::mutex::TicketMutex<()>`, `parking_lot::RawMutex`, ... | `lock_api` | as the lock does |
//! | `Masked`: interrupts off | `critical-section` | none on one core |
//! | `BackoffLock`: spins, yields, then sleeps | `std` | backs off, so that the holder gets to run |
//! | your own | none | whatever the platform has |
//!
//! The trait calls a function while the lock is held, where `lock_api` has a guard, because not every kind of exclusion
//! can end in any order: critical sections must end in the reverse of the order in which they began, but a guard can be
//! kept and dropped at any time.

#[cfg(feature = "std")]
use crate::concurrent::atomics::{Atomics, Native, Shared};
#[cfg(feature = "critical-section")]
use core::cell::UnsafeCell;
#[cfg(feature = "std")]
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
#[cfg(feature = "std")]
use core::time::Duration;

/// Mutual exclusion.
///
/// # Safety
///
/// Of the functions that are passed to [`hold`](Self::hold) of one lock, no two run at a time: not in different threads
/// or cores, not in an interrupt of one another, and not one inside the other. Each happens before the next. (Moving a
/// lock that is not held is allowed.)
pub unsafe trait Lock: Send + Sync {
    /// A lock that is not held.
    // A constant from which locks are made: each use is intended to be a separate lock.
    #[allow(clippy::declare_interior_mutable_const)]
    const FREE: Self;

    /// Calls a function while holding the lock. A call inside another of the same lock never returns.
    ///
    /// # Time
    ///
    /// That of the function, and the waiting time, which depends on the kind of lock.
    fn hold<T>(&self, inside: impl FnOnce() -> T) -> T;

    /// Whether the lock is held now.
    fn is_held(&self) -> bool;
}

#[cfg(feature = "lock_api")]
// SAFETY: a `RawMutex` is exclusive, and unlock synchronises with lock; it is unlocked even on unwinding.
unsafe impl<L: lock_api::RawMutex + Send + Sync> Lock for L {
    #[allow(clippy::declare_interior_mutable_const)]
    const FREE: Self = L::INIT;

    #[inline(always)]
    fn hold<T>(&self, inside: impl FnOnce() -> T) -> T {
        struct Unlock<'l, L: lock_api::RawMutex>(&'l L);

        impl<L: lock_api::RawMutex> Drop for Unlock<'_, L> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: this thread locked it when this was made.
                unsafe { self.0.unlock() }
            }
        }

        self.lock();
        let _unlock = Unlock(self);
        inside()
    }

    fn is_held(&self) -> bool {
        self.is_locked()
    }
}

/// A critical section of the platform, by the crate `critical-section`: on one core, it turns interrupts off.
///
/// This is the priority ceiling protocol at the highest priority: nothing else runs during a critical section. So no
/// caller waits for the lock, interrupt handlers may use the heap, and no priority is inverted. The price is that every
/// interrupt of the core, whether its handler uses the heap or not, may be delayed by the lock hold time.
///
/// Code that the platform's critical section does not exclude must not use the heap: non-maskable interrupts and faults
/// (on Cortex-M NMI and HardFault; also interrupts above the level, where it masks only those up to one). Such a
/// handler that preempts a holder finds the lock held and never returns. And it is for one core: most implementations
/// mask only the interrupts of the current core, so two cores could be in the heap at a time. On several cores, make
/// sure that the implementation excludes the others too.
///
/// A second [`hold`](Lock::hold) inside the first never returns, as with any lock: nested critical sections are legal,
/// but not a second user of the protected data.
#[cfg(feature = "critical-section")]
#[derive(Debug)]
pub struct Masked {
    /// Accessed only inside critical sections. Set while a function passed to `hold` runs.
    held: UnsafeCell<bool>,
}

#[cfg(feature = "critical-section")]
// SAFETY: `held` is accessed only inside critical sections.
unsafe impl Sync for Masked {}

#[cfg(feature = "critical-section")]
// SAFETY: critical sections do not overlap, and each happens before the next; a nested one finds `held` set and stops.
unsafe impl Lock for Masked {
    #[allow(clippy::declare_interior_mutable_const)]
    const FREE: Self = Masked { held: UnsafeCell::new(false) };

    #[inline(always)]
    fn hold<T>(&self, inside: impl FnOnce() -> T) -> T {
        struct Release<'l>(&'l UnsafeCell<bool>);

        impl Drop for Release<'_> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: this is dropped inside the critical section in which it was made.
                unsafe { *self.0.get() = false }
            }
        }

        critical_section::with(|_| {
            // SAFETY: only this critical section accesses it now.
            if unsafe { self.held.get().replace(true) } {
                stop();
            }
            let _release = Release(&self.held);
            inside()
        })
    }

    fn is_held(&self) -> bool {
        // SAFETY: only this critical section accesses it now.
        critical_section::with(|_| unsafe { *self.held.get() })
    }
}

/// Where a caller ends that would wait for itself.
#[cfg(feature = "critical-section")]
#[cold]
#[inline(never)]
fn stop() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// A lock for rare contention: one word, no memory, and no system service but the clock.
///
/// A waiting thread spins a few times, then yields, then sleeps 50 microseconds at a time. So a holder of a lower
/// priority gets to run, which it does not under a lock that only spins. It is not fair.
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct BackoffLock<A: Atomics = Native> {
    /// 1 while it is held.
    held: Shared<u32, A>,
}

#[cfg(feature = "std")]
impl<A: Atomics> BackoffLock<A> {
    /// Waits until the lock looks free.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut round = 0;
        // Loop bound: none; the holder releases the lock.
        while self.is_held() {
            match round {
                0..64 => core::hint::spin_loop(),
                64..72 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
            round += u32::from(round < 72);
        }
    }
}

#[cfg(feature = "std")]
// SAFETY: only one compare-and-swap changes the word from 0 to 1 before the holder stores 0.
unsafe impl<A: Atomics> Lock for BackoffLock<A> {
    #[allow(clippy::declare_interior_mutable_const)]
    const FREE: Self = BackoffLock { held: Shared::new(0) };

    #[inline]
    fn hold<T>(&self, inside: impl FnOnce() -> T) -> T {
        struct Leave<'l, A: Atomics>(&'l Shared<u32, A>);

        impl<A: Atomics> Drop for Leave<'_, A> {
            #[inline(always)]
            fn drop(&mut self) {
                // Release: this holder's accesses come before those of the next one.
                self.0.store(0, Release);
            }
        }

        // Acquire: the last holder's accesses come before those of this one.
        // Loop bound: none; the holder releases the lock.
        while self.held.compare_exchange(0, 1, Acquire).is_err() {
            self.wait();
        }
        let _leave = Leave(&self.held);
        inside()
    }

    fn is_held(&self) -> bool {
        self.held.load(Relaxed) != 0
    }
}

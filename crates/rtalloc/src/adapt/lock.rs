//! Locks: what keeps others out while a heap is used.
//!
//! A heap under a lock ([`Locked`](super::Locked)) asks three things of it, which are the trait [`Lock`]. What there is:
//!
//! | lock | feature | waiting |
//! |---|---|---|
//! | every `lock_api::RawMutex`: `spin::Mutex<()>`, `spin::mutex::TicketMutex<()>`, `parking_lot::RawMutex`, ... | `lock_api` | as the lock does |
//! | `Masked`: interrupts off | `critical-section` | nobody waits on one core |
//! | `Patient`: spins, yields, then sleeps | `std` | longer each time, so that the holder gets to run |
//! | one's own | none | whatever the platform has |
//!
//! The trait calls a function while the lock is held, where `lock_api` has a guard, because not every exclusion can end in
//! any order: critical sections must end in the reverse of the order in which they began, and a guard can be kept and
//! dropped at any time.

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
/// Of the functions that are given to [`hold`](Self::hold) of one lock, no two run at a time: not in different threads or
/// cores, not in an interrupt of the other, and not one inside the other. What one did happened before the next. (Moving a lock
/// that nobody holds does not matter.)
pub unsafe trait Lock: Send + Sync {
    /// A lock that nobody holds.
    // A value to make locks from; that each use is a lock of its own is what is wanted.
    #[allow(clippy::declare_interior_mutable_const)]
    const FREE: Self;

    /// Calls a function while nobody else holds the lock. A call inside another of the same lock never returns.
    ///
    /// # Time
    ///
    /// The function's, and the waiting, which is up to the kind of lock.
    fn hold<T>(&self, inside: impl FnOnce() -> T) -> T;

    /// Whether somebody holds the lock now.
    fn is_held(&self) -> bool;
}

#[cfg(feature = "lock_api")]
// SAFETY: a `RawMutex` is exclusive, and a lock and an unlock synchronise; it is unlocked when the function ends, however it ends.
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

/// A critical section of the platform, by the crate `critical-section`: on one core, interrupts are off while the lock is
/// held.
///
/// It is the priority ceiling at its highest: nothing else runs in between, so nobody waits for the lock, interrupt handlers may
/// use the heap, and no priority is inverted. The price is that every interrupt of the core, whether its handler uses the heap or
/// not, may come later by the time the lock is held.
///
/// What the platform's critical section does not keep out may not use the heap: non-maskable interrupts and faults (on Cortex-M NMI and
/// HardFault run in spite of it; so do interrupts above the level, where it masks only those up to one). Such a handler
/// that comes while the lock is held finds it so and never returns. And it is for one core: most implementations mask
/// the interrupts of the core they run on alone, and then two cores are in the heap at a time. On several cores, see to it that the
/// implementation keeps the others out too.
///
/// A second [`hold`](Lock::hold) inside the first never returns, as with any lock: a critical section inside another is
/// legal, a second user of what the lock guards is not.
#[cfg(feature = "critical-section")]
#[derive(Debug)]
pub struct Masked {
    /// Accessed inside critical sections alone. Set while a function given to `hold` runs.
    held: UnsafeCell<bool>,
}

#[cfg(feature = "critical-section")]
// SAFETY: `held` is accessed inside critical sections alone.
unsafe impl Sync for Masked {}

#[cfg(feature = "critical-section")]
// SAFETY: what runs inside a critical section runs alone, and before or after whatever runs inside another; one inside the other
// finds `held` set and goes no further.
unsafe impl Lock for Masked {
    #[allow(clippy::declare_interior_mutable_const)]
    const FREE: Self = Masked { held: UnsafeCell::new(false) };

    #[inline(always)]
    fn hold<T>(&self, inside: impl FnOnce() -> T) -> T {
        struct Release<'l>(&'l UnsafeCell<bool>);

        impl Drop for Release<'_> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: this is dropped inside the critical section it was made in.
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

/// Where a user ends who waits for himself.
#[cfg(feature = "critical-section")]
#[cold]
#[inline(never)]
fn stop() -> ! {
    // turns: without end
    loop {
        core::hint::spin_loop();
    }
}

/// A lock for where waiting is the exception: a word, no memory, nothing of the system but its clock.
///
/// Who waits looks again some times at once, then lets others run, then sleeps 50 microseconds at a time. So a thread of a lower
/// priority that holds the lock gets to run, which it does not under a lock that spins for ever. It is not fair.
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct Patient<A: Atomics = Native> {
    /// 1 while it is held.
    held: Shared<u32, A>,
}

#[cfg(feature = "std")]
impl<A: Atomics> Patient<A> {
    /// Waits until the lock looks free.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut turn = 0;
        // turns: without end
        while self.is_held() {
            match turn {
                0..64 => core::hint::spin_loop(),
                64..72 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
            turn += u32::from(turn < 72);
        }
    }
}

#[cfg(feature = "std")]
// SAFETY: one compare-and-swap alone finds the word 0 and makes it 1, until its holder stores 0.
unsafe impl<A: Atomics> Lock for Patient<A> {
    #[allow(clippy::declare_interior_mutable_const)]
    const FREE: Self = Patient { held: Shared::new(0) };

    #[inline]
    fn hold<T>(&self, inside: impl FnOnce() -> T) -> T {
        struct Leave<'l, A: Atomics>(&'l Shared<u32, A>);

        impl<A: Atomics> Drop for Leave<'_, A> {
            #[inline(always)]
            fn drop(&mut self) {
                // Release: what the holder did comes before what the next one does.
                self.0.store(0, Release);
            }
        }

        // Acquire: what the last holder did comes before what this one does.
        // turns: without end
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

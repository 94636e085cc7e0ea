//! The locks for sequential allocators: those that a program on this system would use.

use lock_api::{GuardSend, RawMutex};
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A lock that may not be usable by every thread.
pub trait Lock: RawMutex {
    /// Its name.
    const NAME: &'static str;
    /// Maximum number of users.
    const MAX_USERS: usize = usize::MAX;

    /// Whether a thread like the calling one can acquire it.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    fn ready() -> Result<(), String> {
        Ok(())
    }
}

/// A spin lock. Waiting threads are not ordered.
#[derive(Debug)]
pub struct Spin(AtomicBool);

// SAFETY: only one thread at a time sets the flag.
unsafe impl RawMutex for Spin {
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    #[inline(always)]
    fn lock(&self) {
        while !self.try_lock() {
            while self.0.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release of the last owner.
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        // Release: makes the writes under the lock visible to the next owner.
        self.0.store(false, Ordering::Release);
    }
}

impl Lock for Spin {
    const NAME: &'static str = "spin";
}

/// A ticket lock: each waiting thread is overtaken by none, and waits for each other thread at most once.
#[derive(Debug)]
pub struct Ticket {
    drawn: AtomicU32,
    called: AtomicU32,
}

// SAFETY: each number is drawn by one thread, and served until that thread unlocks.
unsafe impl RawMutex for Ticket {
    const INIT: Self = Self { drawn: AtomicU32::new(0), called: AtomicU32::new(0) };
    type GuardMarker = GuardSend;

    #[inline(always)]
    fn lock(&self) {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        // Acquire: pairs with the release of the last owner.
        while self.called.load(Ordering::Acquire) != number {
            spin_loop();
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        let called = self.called.load(Ordering::Acquire);
        let next = called.wrapping_add(1);
        self.drawn.compare_exchange(called, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        let next = self.called.load(Ordering::Relaxed).wrapping_add(1);
        // Release: makes the writes under the lock visible to the next owner.
        self.called.store(next, Ordering::Release);
    }
}

impl Lock for Ticket {
    const NAME: &'static str = "ticket";
}

/// No lock, for one user.
#[derive(Debug)]
pub(super) struct NoLock;

// SAFETY: there is no other user ([`Lock::MAX_USERS`]).
unsafe impl RawMutex for NoLock {
    const INIT: Self = Self;
    type GuardMarker = GuardSend;

    #[inline(always)]
    fn lock(&self) {}

    fn try_lock(&self) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn unlock(&self) {}
}

impl Lock for NoLock {
    const NAME: &'static str = "none: one user";
    const MAX_USERS: usize = 1;
}

/// A mutex of the C library, created at its first use: it must not move after that.
#[derive(Debug)]
pub struct Pthread<const PROTOCOL: i32>(OnceLock<Box<Cell>>);

#[derive(Debug)]
struct Cell(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex is thread-safe.
unsafe impl Sync for Cell {}
// SAFETY: it stays in its box.
unsafe impl Send for Cell {}

unsafe extern "C" {
    fn pthread_mutexattr_setprioceiling(attributes: *mut libc::pthread_mutexattr_t, ceiling: i32) -> i32;
}

/// The default protocol.
pub type Mutex = Pthread<{ libc::PTHREAD_PRIO_NONE }>;
/// The owner of the lock runs at the priority of the most urgent waiting thread.
pub type Inheriting = Pthread<{ libc::PTHREAD_PRIO_INHERIT }>;
/// The owner of the lock runs at the highest priority.
pub type Ceiling = Pthread<{ libc::PTHREAD_PRIO_PROTECT }>;

impl<const PROTOCOL: i32> Pthread<PROTOCOL> {
    #[inline(always)]
    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.0.get_or_init(Self::make).0.get()
    }

    #[cold]
    fn make() -> Box<Cell> {
        let mutex = Box::new(Cell(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: plain calls on attributes and on a mutex at its final address.
        unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attributes);
            libc::pthread_mutexattr_setprotocol(&mut attributes, PROTOCOL);
            if PROTOCOL == libc::PTHREAD_PRIO_PROTECT {
                let ceiling = libc::sched_get_priority_max(libc::SCHED_FIFO);
                pthread_mutexattr_setprioceiling(&mut attributes, ceiling);
            }
            libc::pthread_mutex_init(mutex.0.get(), &attributes);
            libc::pthread_mutexattr_destroy(&mut attributes);
        }
        mutex
    }
}

// SAFETY: a pthread mutex is owned by one thread at a time.
unsafe impl<const PROTOCOL: i32> RawMutex for Pthread<PROTOCOL> {
    const INIT: Self = Self(OnceLock::new());
    type GuardMarker = lock_api::GuardNoSend;

    #[inline(always)]
    fn lock(&self) {
        // SAFETY: the mutex is initialised and does not move.
        let refused = unsafe { libc::pthread_mutex_lock(self.mutex()) };
        assert!(refused == 0, "the system refuses the lock: {}", std::io::Error::from_raw_os_error(refused));
    }

    fn try_lock(&self) -> bool {
        // SAFETY: the mutex is initialised and does not move.
        unsafe { libc::pthread_mutex_trylock(self.mutex()) == 0 }
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        // SAFETY: the mutex is initialised and does not move, and the caller owns it.
        unsafe { libc::pthread_mutex_unlock(self.mutex()) };
    }
}

impl<const PROTOCOL: i32> Drop for Pthread<PROTOCOL> {
    fn drop(&mut self) {
        if let Some(mutex) = self.0.get() {
            // SAFETY: no thread owns it any more.
            unsafe { libc::pthread_mutex_destroy(mutex.0.get()) };
        }
    }
}

impl<const PROTOCOL: i32> Lock for Pthread<PROTOCOL> {
    const NAME: &'static str = match PROTOCOL {
        libc::PTHREAD_PRIO_INHERIT => "mutex with priority inheritance",
        libc::PTHREAD_PRIO_PROTECT => "mutex with priority ceiling",
        _ => "mutex",
    };

    fn ready() -> Result<(), String> {
        let lock = Self::INIT;
        // SAFETY: the mutex is initialised and does not move; it is unlocked by its owner.
        unsafe {
            match libc::pthread_mutex_lock(lock.mutex()) {
                0 => {
                    libc::pthread_mutex_unlock(lock.mutex());
                    Ok(())
                }
                refused => {
                    let error = std::io::Error::from_raw_os_error(refused);
                    Err(format!("a {} needs a real-time priority, which this thread lacks ({error})", Self::NAME))
                }
            }
        }
    }
}

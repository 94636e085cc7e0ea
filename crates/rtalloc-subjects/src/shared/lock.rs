//! The locks that sequential allocators are put under: the ones a program on this system would take.

use lock_api::{GuardSend, RawMutex};
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A lock that may not be usable by every thread.
pub trait Lock: RawMutex {
    /// What it is.
    const NAME: &'static str;
    /// Most users.
    const MOST_USERS: usize = usize::MAX;

    /// Whether a thread like the calling one can take it.
    ///
    /// # Errors
    ///
    /// Why not.
    fn ready() -> Result<(), String> {
        Ok(())
    }
}

/// A flag that is tried until it is had. No order among those that wait.
#[derive(Debug)]
pub struct Spin(AtomicBool);

// SAFETY: the flag is set by one at a time.
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
        // Acquire: what the last owner wrote is seen.
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        // Release: what was written under the lock is seen by the next owner.
        self.0.store(false, Ordering::Release);
    }
}

impl Lock for Spin {
    const NAME: &'static str = "spin";
}

/// Numbers are drawn and called in order: nobody waits for more than everybody else once.
#[derive(Debug)]
pub struct Ticket {
    drawn: AtomicU32,
    called: AtomicU32,
}

// SAFETY: a number is drawn by one, and called until that one is done.
unsafe impl RawMutex for Ticket {
    const INIT: Self = Self { drawn: AtomicU32::new(0), called: AtomicU32::new(0) };
    type GuardMarker = GuardSend;

    #[inline(always)]
    fn lock(&self) {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        // Acquire: what the last owner wrote is seen.
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
        // Release: what was written under the lock is seen by the next owner.
        self.called.store(next, Ordering::Release);
    }
}

impl Lock for Ticket {
    const NAME: &'static str = "ticket";
}

/// No lock, for one user.
#[derive(Debug)]
pub(super) struct Nobody;

// SAFETY: nobody else is there ([`Lock::MOST_USERS`]).
unsafe impl RawMutex for Nobody {
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

impl Lock for Nobody {
    const NAME: &'static str = "none: one user";
    const MOST_USERS: usize = 1;
}

/// A mutex of the C library, made when it is first used: it may not move from then on.
#[derive(Debug)]
pub struct Pthread<const PROTOCOL: i32>(OnceLock<Box<Cell>>);

#[derive(Debug)]
struct Cell(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex is for several threads.
unsafe impl Sync for Cell {}
// SAFETY: it stays in its box.
unsafe impl Send for Cell {}

unsafe extern "C" {
    fn pthread_mutexattr_setprioceiling(attributes: *mut libc::pthread_mutexattr_t, ceiling: i32) -> i32;
}

/// The default protocol.
pub type Mutex = Pthread<{ libc::PTHREAD_PRIO_NONE }>;
/// Whoever owns the lock runs at the priority of the most urgent thread that waits for it.
pub type Inheriting = Pthread<{ libc::PTHREAD_PRIO_INHERIT }>;
/// Whoever owns the lock runs at the highest priority.
pub type Ceiling = Pthread<{ libc::PTHREAD_PRIO_PROTECT }>;

impl<const PROTOCOL: i32> Pthread<PROTOCOL> {
    #[inline(always)]
    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.0.get_or_init(Self::make).0.get()
    }

    #[cold]
    fn make() -> Box<Cell> {
        let mutex = Box::new(Cell(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: plain calls on attributes and a mutex that is in its place.
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

// SAFETY: a pthread mutex is had by one thread at a time.
unsafe impl<const PROTOCOL: i32> RawMutex for Pthread<PROTOCOL> {
    const INIT: Self = Self(OnceLock::new());
    type GuardMarker = lock_api::GuardNoSend;

    #[inline(always)]
    fn lock(&self) {
        // SAFETY: the mutex was made and stays where it is.
        let refused = unsafe { libc::pthread_mutex_lock(self.mutex()) };
        assert!(refused == 0, "the system refuses the lock: {}", std::io::Error::from_raw_os_error(refused));
    }

    fn try_lock(&self) -> bool {
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_trylock(self.mutex()) == 0 }
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        // SAFETY: as above, and the caller has it.
        unsafe { libc::pthread_mutex_unlock(self.mutex()) };
    }
}

impl<const PROTOCOL: i32> Drop for Pthread<PROTOCOL> {
    fn drop(&mut self) {
        if let Some(mutex) = self.0.get() {
            // SAFETY: nobody has it any more.
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
        // SAFETY: the mutex was made and stays where it is; unlocked by its owner.
        unsafe {
            match libc::pthread_mutex_lock(lock.mutex()) {
                0 => {
                    libc::pthread_mutex_unlock(lock.mutex());
                    Ok(())
                }
                refused => {
                    let error = std::io::Error::from_raw_os_error(refused);
                    Err(format!("a {} needs a real-time priority, which this thread has not ({error})", Self::NAME))
                }
            }
        }
    }
}

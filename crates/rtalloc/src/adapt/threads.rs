//! Slots for threads that come and go.
//!
//! # Idea
//!
//! A thread takes the lowest free number when it first needs one, and releases it when it ends: the next thread
//! continues with its slot, and with the blocks that others have freed there meanwhile. Numbers belong to the process,
//! not to a heap; a thread has one, in a thread-local word without a destructor, which exists as long as the thread.
//!
//! ```text
//! slots of a heap    0    1    2   ...   S-2   S-1
//!                    threads of those numbers   all others, one at a time
//! ```
//!
//! # More threads than slots
//!
//! A thread that has no number below the last slot checks at every operation whether one is free. If it has no number
//! at all it keeps the free one. If it has a higher one, as a heap with more slots allows, it borrows the free one for
//! the operation: its own may be in use at that moment, inside an operation of the other heap. If no number is free it
//! uses the last slot, which all such threads share under a lock: a global allocator that refuses ends the program, so
//! no request is refused because no number is free. The lock is not fair ([`BackoffLock`]), so the wait has no bound.
//! A thread that has released its number (in later thread-local destructors) shares too.
//! [`ThreadSlots::overflow_operations`] counts the operations that took the lock, for whatever reason.
//!
//! A heap with one slot more than there are threads has such operations in only three cases: a thread started just when
//! another ended, and its search had passed the number before it was released; a thread that has released its number
//! uses the heap; or a slot ran out of memory, see below.
//!
//! # Threads with a deadline
//!
//! A thread that must not wait asks at its start whether it has a slot of its own ([`ThreadSlots::own`]). If others may
//! have taken all of them by then, a slot is kept for it before it starts ([`ThreadSlots::reserve`]). Its requests have
//! a bound with [`Bounded<ThreadSlots>`](super::Bounded), which refuses what its slot refuses.
//!
//! # When a slot has no memory left
//!
//! Without `Bounded`, the thread then takes back all blocks that others freed there, and tries other slots
//! ([`elsewhere`](CurrentSlot::elsewhere)): it waits for the lock of the last slot, and tries that; then it borrows
//! each free number, one after the other. Meanwhile threads of the last slot wait, and a new thread may find no number
//! free and have to share.
//!
//! # Limits
//!
//! Not for signal handlers: a handler has the number of the thread it interrupts, which may be inside an operation. Nor
//! for a `fork` of a process with several threads: the numbers of the other threads stay taken in the child.

use super::current::CurrentSlot;
use super::lock::{BackoffLock, Lock};
use crate::concurrent::atomics::{Atomics, Native, Shared};
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Numbers for the threads of a process: 1,024, or 512 on 32-bit machines.
const NUMBERS: usize = WORDS * usize::BITS as usize;
/// Words of a process's numbers.
pub const WORDS: usize = 16;

/// Numbers that are taken and released: the lowest first, a bit for each.
#[derive(Debug)]
pub struct Numbers<const WORDS: usize, A: Atomics = Native> {
    /// A bit is set while its number is taken.
    taken: [Shared<usize, A>; WORDS],
}

impl<const WORDS: usize, A: Atomics> Numbers<WORDS, A> {
    /// All numbers, free.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Numbers { taken: [const { Shared::new(0) }; WORDS] }
    }

    /// Takes the lowest free number from `first` on, and below `end`. Tries each at most once: a number that is
    /// released meanwhile may be missed.
    ///
    /// # Time
    ///
    /// Linear in the numbers tried: a step each, and one for each word of numbers.
    pub fn take(&self, first: usize, end: usize) -> Option<usize> {
        const BITS: usize = usize::BITS as usize;
        let end = end.min(WORDS * BITS);
        let mut start = first;
        // Loop bound: numbers
        while start < end {
            let index = start / BITS;
            let word = self.taken.get(index)?;
            let untried = usize::MAX << (start % BITS);
            let free = !word.load(Relaxed) & untried;
            if free == 0 {
                start = (index + 1) * BITS;
                continue;
            }
            let bit = free.trailing_zeros() as usize;
            let number = index * BITS + bit;
            if number >= end {
                return None;
            }
            // Acquire: everything the number's last owner did, in any slot, comes before what this one does.
            if word.fetch_or(1 << bit, Acquire) & (1 << bit) == 0 {
                return Some(number);
            }
            start = number + 1;
        }
        None
    }

    /// Releases a number.
    ///
    /// # Safety
    ///
    /// The caller took it, and does not use it any more.
    ///
    /// # Time
    ///
    /// Constant: one step.
    pub unsafe fn release(&self, number: usize) {
        const BITS: usize = usize::BITS as usize;
        if let Some(word) = self.taken.get(number / BITS) {
            // Release: everything this owner did comes before what the number's next owner does.
            word.fetch_and(!(1 << (number % BITS)), Release);
        }
    }
}

/// Where [`ThreadSlots`] keeps numbers: those that are taken, and that of each thread. The tests implement it for the
/// threads of a model checker.
///
/// # Safety
///
/// [`numbers`](Self::numbers) is always the same value, and [`own`](Self::own) is what the calling thread set last,
/// [`UNASKED`] at first. Nothing else sets it.
pub unsafe trait Threads: Send + Sync + 'static {
    /// How words that threads share are accessed.
    type Atomics: Atomics;

    /// The numbers of all threads.
    fn numbers() -> &'static Numbers<WORDS, Self::Atomics>;

    /// The number of the calling thread, or one of the values [`UNASKED`], `NONE` and `ENDED`.
    fn own() -> usize;

    /// Sets the number of the calling thread.
    ///
    /// # Safety
    ///
    /// The thread took the number from [`numbers`](Self::numbers), or it is one of those values. No operation uses the
    /// thread's previous number.
    unsafe fn set_own(number: usize);

    /// Arranges that [`end`] is called when the calling thread ends. `false` if the thread is ending already.
    fn end_at_exit() -> bool;
}

/// Threads of the operating system.
#[derive(Debug)]
pub struct Process;

/// The numbers of this process's threads.
static TAKEN: Numbers<WORDS> = Numbers::new();

// SAFETY: a static, and a thread-local variable.
unsafe impl Threads for Process {
    type Atomics = Native;

    #[inline(always)]
    fn numbers() -> &'static Numbers<WORDS> {
        &TAKEN
    }

    #[inline(always)]
    fn own() -> usize {
        NUMBER.get()
    }

    #[inline(always)]
    unsafe fn set_own(number: usize) {
        NUMBER.set(number);
    }

    fn end_at_exit() -> bool {
        RELEASE_AT_EXIT.try_with(|_| ()).is_ok()
    }
}

/// Values instead of a number, all larger than the number of any slot: the thread has not asked for one,
pub const UNASKED: usize = usize::MAX - 1;
/// none was free,
const NONE: usize = usize::MAX - 2;
/// or it has released it.
const ENDED: usize = usize::MAX - 3;

/// Releases the thread's number when the thread ends.
struct ReleaseAtExit;

impl Drop for ReleaseAtExit {
    fn drop(&mut self) {
        // SAFETY: destructors of thread-local variables run outside of operations.
        unsafe { end::<Process>() }
    }
}

/// Releases the number of a thread that ends. If it uses a heap afterwards, it shares the last slot.
///
/// # Safety
///
/// No operation uses the calling thread's number.
pub unsafe fn end<T: Threads>() {
    let number = T::own();
    // SAFETY: by this function's contract. The number was this thread's, which shares from now on.
    unsafe {
        T::set_own(ENDED);
        if number < NUMBERS {
            T::numbers().release(number);
        }
    }
}

std::thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNASKED) };
    static RELEASE_AT_EXIT: ReleaseAtExit = const { ReleaseAtExit };
}

/// Gives a number to the thread, which has none. `false` if the thread is ending, and does not get it.
///
/// # Safety
///
/// The number was taken, and no other thread has it.
unsafe fn enter<T: Threads>(number: usize) -> bool {
    // SAFETY: by this function's contract; the thread had no number that an operation could use.
    unsafe {
        // The number is set first: if registering the destructor allocates, it uses the number.
        T::set_own(number);
        let is_alive = T::end_at_exit();
        if !is_alive {
            T::set_own(ENDED);
        }
        is_alive
    }
}

/// Gives a number that was just taken to the thread, which has none. `false` if the thread is ending.
///
/// # Safety
///
/// As [`enter`].
unsafe fn keep<T: Threads>(number: usize) -> bool {
    // SAFETY: by this function's contract. A number that is not kept is not used any more: the thread shares.
    unsafe {
        let is_kept = enter::<T>(number);
        if !is_kept {
            T::numbers().release(number);
        }
        is_kept
    }
}

/// A number that a thread borrows for one or a few operations, or keeps for another.
#[derive(Debug)]
struct Lent<T: Threads>(usize, PhantomData<T>);

impl<T: Threads> Lent<T> {
    /// A number that was just taken.
    fn new(number: usize) -> Self {
        Lent(number, PhantomData)
    }
}

impl<T: Threads> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: taken when this was made, and the operations have ended.
        unsafe { T::numbers().release(self.0) }
    }
}

/// A number that no thread has, kept for one; see [`ThreadSlots::reserve`]. It is free again when this is dropped.
#[derive(Debug)]
pub struct Reserved<T: Threads = Process>(Lent<T>);

impl<T: Threads> Reserved<T> {
    /// Gives the number to the calling thread, which keeps it until it ends.
    ///
    /// # Errors
    ///
    /// The reservation, if the thread has a number already, which an operation may be using, or is ending.
    ///
    /// # Time
    ///
    /// Constant, and the registration of a destructor.
    pub fn enter(self) -> Result<usize, Self> {
        let (own, number) = (T::own(), self.0.0);
        // SAFETY: the number was taken for this reservation.
        if own < NUMBERS || own == ENDED || !unsafe { enter::<T>(number) } {
            return Err(self);
        }
        // It is the thread's now, whose end releases it.
        core::mem::forget(self);
        Ok(number)
    }
}

/// The current thread's slot; see the [module](self).
pub struct ThreadSlots<T: Threads = Process> {
    /// Held by the user of the last slot.
    last: BackoffLock<T::Atomics>,
    /// Operations that took the lock.
    overflow_operations: Shared<usize, T::Atomics>,
}

impl ThreadSlots {
    /// For one heap. (Each heap needs a value of its own, since its last slot has a lock.)
    pub const fn new() -> Self {
        Self::of_threads()
    }

    /// The calling thread's own slot in a heap with so many slots; a thread without a number takes one. `None` if none
    /// is free below the last slot, which the thread then shares.
    ///
    /// For a thread with a deadline, which calls this, or [`Reserved::enter`], before anything else: it keeps the slot
    /// until it ends.
    ///
    /// # Time
    ///
    /// Linear in `slots`.
    pub fn own(slots: usize) -> Option<usize> {
        own::<Process>(slots)
    }

    /// Takes a number for another thread, which must have a slot of its own in a heap with so many slots. `None` if
    /// none is free below the last slot.
    ///
    /// # Time
    ///
    /// Linear in `slots`.
    pub fn reserve(slots: usize) -> Option<Reserved> {
        reserve::<Process>(slots)
    }
}

/// [`ThreadSlots::own`], for threads of any kind.
#[doc(hidden)]
pub fn own<T: Threads>(slots: usize) -> Option<usize> {
    let last = slots.checked_sub(1)?;
    let number = T::own();
    if number < NUMBERS {
        return (number < last).then_some(number);
    }
    if number == ENDED {
        return None;
    }
    // SAFETY: the number was just taken.
    T::numbers().take(0, last).filter(|&number| unsafe { keep::<T>(number) })
}

/// [`ThreadSlots::reserve`], for threads of any kind.
#[doc(hidden)]
pub fn reserve<T: Threads>(slots: usize) -> Option<Reserved<T>> {
    T::numbers().take(0, slots.checked_sub(1)?).map(|number| Reserved(Lent::new(number)))
}

impl<T: Threads> ThreadSlots<T> {
    /// For one heap, used by threads of this kind.
    #[doc(hidden)]
    pub const fn of_threads() -> Self {
        ThreadSlots { last: BackoffLock::FREE, overflow_operations: Shared::new(0) }
    }

    /// Operations so far that took the lock of the last slot: because their thread had no number below it, or because
    /// their own slot was full. With 0, no thread has waited for another one.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn overflow_operations(&self) -> usize {
        self.overflow_operations.load(Relaxed)
    }

    /// Runs an operation for a thread that has no number below the last one: with a free number, else in the last slot.
    #[cold]
    #[inline(never)]
    fn crowd<R>(&self, last: usize, operation: impl FnOnce(usize) -> R) -> R {
        let own = T::own();
        if own != ENDED
            && let Some(number) = T::numbers().take(0, last)
        {
            if own < NUMBERS {
                // Does not replace its own number, which another heap's operation may be using.
                let lent = Lent::<T>::new(number);
                return operation(lent.0);
            }
            // SAFETY: the number was just taken.
            if unsafe { keep::<T>(number) } {
                return operation(number);
            }
        }
        self.hold_last(|| operation(last))
    }

    /// Runs an operation of the last slot.
    fn hold_last<R>(&self, operation: impl FnOnce() -> R) -> R {
        // Before the lock is taken, so that a thread that waits counts.
        self.overflow_operations.fetch_add(1, Relaxed);
        self.last.hold(operation)
    }

    /// Takes the first number of a thread that has not asked for one.
    #[cold]
    #[inline(never)]
    fn first() {
        // SAFETY: the number was just taken, or the thread has none.
        unsafe {
            match T::numbers().take(0, NUMBERS) {
                Some(number) => drop(keep::<T>(number)),
                None => T::set_own(NONE),
            }
        }
    }
}

impl Default for ThreadSlots {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Threads> fmt::Debug for ThreadSlots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slots by thread, {} operations took the lock of the last", self.overflow_operations())
    }
}

// SAFETY: a number belongs to one thread from `take` to `release`, and the thread runs one operation at a time; the
// last number belongs to no thread, and its users hold the lock. Release and acquire order both.
unsafe impl<T: Threads> CurrentSlot for ThreadSlots<T> {
    const EXCLUSIVE: bool = true;
    const INSISTS: bool = true;

    #[inline]
    fn hint(&self) -> usize {
        if T::own() == UNASKED {
            Self::first();
        }
        let number = T::own();
        if number < NUMBERS { number } else { 0 }
    }

    #[inline(always)]
    fn own(&self, slots: usize) -> Option<usize> {
        let number = T::own();
        (number.wrapping_add(1) < slots).then_some(number)
    }

    fn with<R>(&self, slots: usize, operation: impl FnOnce(usize) -> R) -> Option<R> {
        let last = slots.checked_sub(1)?;
        Some(match CurrentSlot::own(self, slots) {
            Some(number) => operation(number),
            None => self.crowd(last, operation),
        })
    }

    fn elsewhere<R>(&self, slots: usize, mut operation: impl FnMut(usize) -> Option<R>) -> Option<R> {
        let last = slots.checked_sub(1)?;
        let answer = self.hold_last(|| operation(last));
        if answer.is_some() {
            return answer;
        }
        let mut first = 0;
        // Loop bound: slots
        while let Some(number) = T::numbers().take(first, last) {
            let lent = Lent::<T>::new(number);
            let answer = operation(lent.0);
            if answer.is_some() {
                return answer;
            }
            first = number + 1;
        }
        None
    }
}

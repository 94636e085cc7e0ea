//! Threads as they come and go, as users of slots.
//!
//! # Idea
//!
//! A thread takes the lowest number that no other has when it first needs one, and gives it back when it ends: the next thread
//! goes on with its slot, and with the blocks that others have freed there meanwhile. Numbers are the process's, not a heap's;
//! a thread has one, in a thread-local word without a destructor, which is there as long as the thread is.
//!
//! ```text
//! slots of a heap    0    1    2   ...   S-2   S-1
//!                    threads of those numbers   everybody else, one at a time
//! ```
//!
//! # More threads than slots
//!
//! A thread that has no number below the last slot asks with every operation whether one is free. If it has none at all it keeps
//! that; if it has a higher one, as a heap with more slots lets it have, it borrows the free one for the operation: its own it may
//! be using at that moment, in the midst of an operation of the other heap. Where none is free it uses the last slot, which all such threads
//! share under a lock: a global allocator that refuses ends the program, so nobody is refused for want of a number. The lock is
//! not fair ([`Patient`]): how long a thread waits for others has no bound. [`ThreadSlots::crowded`] counts the operations that had to
//! share. A thread that has ended its part, because destructors of other thread-local values still run, shares too.
//!
//! A heap with one slot more than there are threads has no such operations, but for three reasons: a thread came just when
//! another went, so that the number was given back behind its look for one; a thread that has ended its part uses the heap; or a slot ran
//! out of memory, see below.
//!
//! # When a slot has no memory left
//!
//! Then the thread asks others ([`elsewhere`](CurrentSlot::elsewhere)): it waits for the lock of the last slot, and asks that; then it
//! borrows each number that nobody has, one after the other. For as long as that takes, threads of the last slot wait, and
//! one that comes may find no number free and have to share.
//!
//! # What it is not
//!
//! Not for signal handlers: a handler has the number of the thread it interrupts, and this may be in the middle of an
//! operation. Nor for a `fork` of a process with several threads: the numbers of those that are not in the child stay
//! taken there.

use super::current::CurrentSlot;
use super::lock::{Lock, Patient};
use crate::concurrent::atomics::{Atomics, Native, Shared};
use core::cell::Cell;
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Numbers a process has for threads: 1,024, or 512 on 32-bit machines.
const NUMBERS: usize = WORDS * usize::BITS as usize;
const WORDS: usize = 16;

/// Numbers that are taken and given back: the lowest first, a bit for each.
#[derive(Debug)]
pub struct Numbers<const WORDS: usize, A: Atomics = Native> {
    /// A bit is set while somebody has its number.
    taken: [Shared<usize, A>; WORDS],
}

impl<const WORDS: usize, A: Atomics> Numbers<WORDS, A> {
    /// All of them, had by nobody.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Numbers { taken: [const { Shared::new(0) }; WORDS] }
    }

    /// Takes the lowest number from `first` on, and below `end`, that nobody has. Tries each at most once: a number that is
    /// given back meanwhile may be missed.
    ///
    /// # Time
    ///
    /// Linear in the numbers tried: a step each, and one for each word of numbers.
    pub fn take(&self, first: usize, end: usize) -> Option<usize> {
        const BITS: usize = usize::BITS as usize;
        let end = end.min(WORDS * BITS);
        let mut start = first;
        // turns: numbers
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
            // Acquire: what the number's last owner did, in whichever slots, comes before what we do.
            if word.fetch_or(1 << bit, Acquire) & (1 << bit) == 0 {
                return Some(number);
            }
            start = number + 1;
        }
        None
    }

    /// Gives a number back.
    ///
    /// # Safety
    ///
    /// The caller took it, and does nothing more in its name.
    ///
    /// # Time
    ///
    /// Constant: one step.
    pub unsafe fn give(&self, number: usize) {
        const BITS: usize = usize::BITS as usize;
        if let Some(word) = self.taken.get(number / BITS) {
            // Release: what we did comes before what the number's next owner does.
            word.fetch_and(!(1 << (number % BITS)), Release);
        }
    }
}

/// The numbers of this process's threads.
static TAKEN: Numbers<WORDS> = Numbers::new();

/// Instead of a number: the thread has not asked for one,
const UNASKED: usize = usize::MAX;
/// none was left,
const NONE: usize = usize::MAX - 1;
/// or it has given it back.
const ENDED: usize = usize::MAX - 2;

/// Gives the thread's number back when the thread ends.
struct AtTheEnd;

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let number = NUMBER.replace(ENDED);
        if number < NUMBERS {
            // SAFETY: it was this thread's, which from now on shares.
            unsafe { TAKEN.give(number) }
        }
    }
}

std::thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNASKED) };
    static AT_THE_END: AtTheEnd = const { AtTheEnd };
}

/// Makes a number that was taken just now the thread's, which has none. `false` if the thread has ended its part.
fn keep(number: usize) -> bool {
    // First the number, then the destructor: where registering one allocates, that is done in the number's name.
    NUMBER.set(number);
    let is_alive = AT_THE_END.try_with(|_| ()).is_ok();
    if !is_alive {
        NUMBER.set(ENDED);
        // SAFETY: it was taken for this thread, which shares.
        unsafe { TAKEN.give(number) }
    }
    is_alive
}

/// A number that is lent to a thread for an operation, or a few.
struct Lent(usize);

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: taken when this was made, and the operations have ended.
        unsafe { TAKEN.give(self.0) }
    }
}

/// The current thread's slot; see the [module](self).
pub struct ThreadSlots {
    /// Held by who uses the last slot.
    last: Patient,
    /// Operations in the last slot.
    crowded: Shared<usize>,
}

impl ThreadSlots {
    /// For a heap. (The value is a heap's: another heap has another last slot.)
    pub const fn new() -> Self {
        ThreadSlots { last: Patient::FREE, crowded: Shared::new(0) }
    }

    /// Operations so far that had to share the last slot.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn crowded(&self) -> usize {
        self.crowded.load(Relaxed)
    }

    /// Calls an operation for a thread that has no number below the last one: with one that is free, else in the last slot.
    #[cold]
    #[inline(never)]
    fn crowd<T>(&self, last: usize, operation: impl FnOnce(usize) -> T) -> T {
        let own = NUMBER.get();
        if own != ENDED
            && let Some(number) = TAKEN.take(0, last)
        {
            if own < NUMBERS {
                // Not exchanged for its own, which may be in use: whoever calls may be in the midst of another heap's operation.
                let lent = Lent(number);
                return operation(lent.0);
            }
            if keep(number) {
                return operation(number);
            }
        }
        self.last.hold(|| {
            self.crowded.fetch_add(1, Relaxed);
            operation(last)
        })
    }

    /// The first number of a thread that has not asked for one.
    #[cold]
    #[inline(never)]
    fn first() {
        match TAKEN.take(0, NUMBERS) {
            Some(number) => drop(keep(number)),
            None => NUMBER.set(NONE),
        }
    }
}

impl Default for ThreadSlots {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ThreadSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slots by thread, {} operations shared the last", self.crowded())
    }
}

// SAFETY: a number is one thread's from `take` to `give`, and the thread runs one operation at a time; the last number is no
// thread's own, and its users hold the lock. Both are ordered by release and acquire.
unsafe impl CurrentSlot for ThreadSlots {
    const EXCLUSIVE: bool = true;

    #[inline]
    fn hint(&self) -> usize {
        if NUMBER.get() == UNASKED {
            Self::first();
        }
        let number = NUMBER.get();
        if number < NUMBERS { number } else { 0 }
    }

    #[inline(always)]
    fn with<T>(&self, slots: usize, operation: impl FnOnce(usize) -> T) -> Option<T> {
        let last = slots.checked_sub(1)?;
        let number = NUMBER.get();
        Some(if number < last && number < NUMBERS { operation(number) } else { self.crowd(last, operation) })
    }

    fn elsewhere<T>(&self, slots: usize, mut operation: impl FnMut(usize) -> Option<T>) -> Option<T> {
        let last = slots.checked_sub(1)?;
        let answer = self.last.hold(|| operation(last));
        if answer.is_some() {
            return answer;
        }
        let mut first = 0;
        // turns: slots
        while let Some(number) = TAKEN.take(first, last) {
            let lent = Lent(number);
            let answer = operation(lent.0);
            if answer.is_some() {
                return answer;
            }
            first = number + 1;
        }
        None
    }
}

//! Who is calling: a seat for each thread, and the moments in which nobody sits.
//!
//! # Seats
//!
//! A thread takes the lowest number that no other has when it first allocates, and gives it back when it ends. Its number is its slot
//! in every region, and names its *seat*: what it needs on the short way, in lines of its own. Where all slots but the last are taken,
//! a thread has none and works in the last slot, which all such threads share under a lock ([`CROWD`]); with every operation it looks
//! again. So does a thread that has ended its part, while destructors of its other thread-local values run; and a signal handler that
//! interrupted its own thread in the midst of an operation, which the seat's `busy` tells.
//!
//! # One slot
//!
//! Where there is one slot in all, the last one, the first thread has it as its own until another one comes: that closes the gate for
//! good, and all work under the lock from then on.
//!
//! # Pauses
//!
//! A fork copies memory while other threads write it. What the child gets of their arenas must be whole, and there is no lock to
//! hold: so a fork *pauses* the process ([`pause`]). It closes the gate, and waits until nobody is busy; who comes to the gate waits
//! until it opens. The same serves whoever must see all heaps at rest: `mallinfo2`, `malloc_trim`, the report.
//!
//! ```text
//! operation   busy = 1;            gate open?  ->  work  ->  busy = 0        pause   close the gate;  barrier  ; wait for busy = 0
//!                                  closed      ->  busy = 0, wait for the gate
//! ```
//!
//! Each side writes its word before it reads the other's, and both must be seen in that order: one of the two needs a full barrier
//! between them, which the operation, for whom it would be the most expensive instruction of all, leaves to the pause: the kernel runs one
//! in every thread of the process (`membarrier`). Where the kernel refuses that, the pause waits a millisecond, longer than a store
//! stays in a processor.

use crate::lock::{Lock, Patience};
use crate::regions::{self, Arenas};
use crate::{libc, life, system, thread};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, compiler_fence};
use rtalloc::SharedAllocator;

/// Most seats, and so most slots: threads that work at a time without sharing.
pub const MOST: usize = 1024;

/// The thread's word, instead of a seat's address: it has given its seat back. It is 0 where the thread has not asked for one, or none
/// was free.
const ENDED: u64 = 1;

/// What the short way uses of a region.
pub type Slot = <Arenas as SharedAllocator<'static>>::Slot<'static>;

/// What a thread needs on the short way.
#[repr(C, align(128))]
pub struct Seat {
    /// 1 while its thread is in the midst of an operation. Written by its thread alone.
    busy: AtomicU8,
    /// Number of the region that the thread allocates from, as long as that serves.
    pub region: AtomicU8,
    short: UnsafeCell<Short>,
}

/// The short way: the arena of the thread in the region it allocates from. Its thread's alone while `busy`.
pub struct Short {
    /// Requests of fewer bytes are served by `slot`; 0 where there is none.
    pub below_bytes: usize,
    /// Where the slot's region begins.
    pub start: usize,
    /// How long it is; 0 where there is no slot.
    pub span_bytes: usize,
    /// The slot, if `span_bytes` is not 0.
    pub slot: MaybeUninit<Slot>,
}

// SAFETY: what is not atomic is used by the thread that has the seat, one after the other.
unsafe impl Sync for Seat {}

static SEATS: [Seat; MOST] = [const {
    Seat {
        busy: AtomicU8::new(0),
        region: AtomicU8::new(0),
        short: UnsafeCell::new(Short { below_bytes: 0, start: 0, span_bytes: 0, slot: MaybeUninit::uninit() }),
    }
}; MOST];

/// Which seats are taken: a bit for each.
static TAKEN: [AtomicUsize; MOST / BITS] = [const { AtomicUsize::new(0) }; MOST / BITS];
const BITS: usize = usize::BITS as usize;

/// Held by who works in the last slot.
pub static CROWD: Lock = Lock::new();

/// Value of [`GATE`]: the only slot is shared. No thread's identity is so small.
const SHARED: usize = 1;
/// Who has closed the gate, by [`thread::identity`]; 0: it is open.
static GATE: AtomicUsize = AtomicUsize::new(0);
/// What the gate is when nobody pauses the process: 0, or [`SHARED`].
static USUAL: AtomicUsize = AtomicUsize::new(0);
/// Held by who pauses the process.
static PAUSES: Lock = Lock::new();
/// Whether the kernel runs barriers for us.
static BARRIERS: AtomicBool = AtomicBool::new(false);

/// Operations that had to share the last slot.
pub static CROWDED: AtomicUsize = AtomicUsize::new(0);
/// Most seats that were taken at a time, less than one.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

impl Seat {
    /// The calling thread's, if it has one.
    #[inline(always)]
    #[must_use]
    pub fn mine() -> Option<&'static Seat> {
        let word = thread::word();
        // SAFETY: every larger value is the address of a seat, which this thread set.
        (word > ENDED).then(|| unsafe { &*core::ptr::with_exposed_provenance(word as usize) })
    }

    /// Begins an operation; false if its thread is in the midst of one, or the gate is closed.
    #[inline(always)]
    pub fn enter(&self) -> bool {
        if self.busy.load(Relaxed) != 0 {
            return false;
        }
        self.busy.store(1, Relaxed);
        // The processor's order is what the pause sees to.
        compiler_fence(SeqCst);
        // Acquire: what was done in the pause comes before what we do.
        if GATE.load(Acquire) != 0 {
            self.busy.store(0, Release);
            return false;
        }
        true
    }

    /// Ends an operation.
    #[inline(always)]
    pub fn leave(&self) {
        // Release: what we did comes before what the pause looks at.
        self.busy.store(0, Release);
    }

    /// The short way.
    ///
    /// # Safety
    ///
    /// The calling thread has the seat and is in the midst of an operation.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    #[must_use]
    pub unsafe fn short(&self) -> &mut Short {
        // SAFETY: by the caller's promise nobody else has it.
        unsafe { &mut *self.short.get() }
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> usize {
        (core::ptr::from_ref(self).addr() - SEATS.as_ptr().addr()) / size_of::<Seat>()
    }
}

/// Who carries out an operation.
#[derive(Clone, Copy)]
pub struct Worker {
    /// The slot.
    pub number: usize,
    /// The thread's seat, if it has one and this is not the last slot.
    pub seat: Option<&'static Seat>,
    /// Whether the thread was interrupted in the midst of another operation.
    pub interrupting: bool,
}

/// Runs an operation as whoever the caller is. `None` if the thread was interrupted while it shared the last slot: there is nothing
/// left that the handler could work in.
#[inline]
pub fn work<T>(operation: impl FnOnce(Worker) -> T) -> Option<T> {
    let seat = match Seat::mine() {
        Some(seat) => Some(seat),
        None => take_seat(),
    };
    let mut interrupting = false;
    if let Some(seat) = seat {
        let worker = Worker { number: seat.number(), seat: Some(seat), interrupting: false };
        let mut patience = Patience::new();
        loop {
            if seat.enter() {
                let answer = operation(worker);
                seat.leave();
                return Some(answer);
            }
            if seat.busy.load(Relaxed) != 0 {
                interrupting = true;
                break;
            }
            match GATE.load(Relaxed) {
                SHARED => break,
                // Whoever paused the process works on: functions that a program has called around a fork allocate.
                pauser if pauser == thread::identity() => return Some(operation(worker)),
                _ => patience.wait(),
            }
        }
    } else if regions::last_slot() == 0 && regions::kind().has_slots {
        share_the_only_slot();
    }
    if interrupting && seat.is_some_and(|seat| seat.number() == regions::last_slot()) && regions::kind().has_slots {
        // What was interrupted is at work in the only slot.
        return None;
    }
    let last = Worker { number: regions::last_slot(), seat: None, interrupting };
    if GATE.load(Relaxed) == thread::identity() {
        return Some(operation(last));
    }
    CROWD.hold(|| {
        CROWDED.fetch_add(1, Relaxed);
        operation(last)
    })
}

/// Ends that the first thread has the only slot for itself, if it has.
#[cold]
fn share_the_only_slot() {
    if USUAL.load(Relaxed) != SHARED && pause() {
        USUAL.store(SHARED, Relaxed);
        resume();
    }
}

/// Takes a seat for the calling thread, if one is free and it has not ended its part.
#[cold]
fn take_seat() -> Option<&'static Seat> {
    if thread::word() == ENDED {
        return None;
    }
    let number = take(0, regions::own_slots())?;
    let seat = SEATS.get(number)?;
    // Sequentially consistent, as is the look of the pause: either it sees this seat, or this thread sees the gate.
    HIGHEST.fetch_max(number + 1, SeqCst);
    seat.region.store(0, Relaxed);
    // SAFETY: the seat was free and is this thread's now.
    unsafe { regions::seat_in(seat, number, 0) };
    // First the seat, then what gives it back: where that allocates, it is done from the seat.
    thread::set_word(core::ptr::from_ref(seat).expose_provenance() as u64);
    life::give_back_at_end();
    Some(seat)
}

/// Takes the lowest number from `first` on and below `end` that nobody has.
pub fn take(first: usize, end: usize) -> Option<usize> {
    let mut number = first;
    while number < end.min(MOST) {
        let word = TAKEN.get(number / BITS)?;
        let free = !word.load(Relaxed) & (usize::MAX << (number % BITS));
        if free == 0 {
            number = (number / BITS + 1) * BITS;
            continue;
        }
        let bit = free.trailing_zeros() as usize;
        number = number / BITS * BITS + bit;
        // Acquire: what the number's last owner did comes before what we do.
        if number < end && word.fetch_or(1 << bit, Acquire) & (1 << bit) == 0 {
            return Some(number);
        }
        number += 1;
    }
    None
}

/// Gives a number back, in whose name its owner does nothing more.
pub fn give(number: usize) {
    if let Some(word) = TAKEN.get(number / BITS) {
        // Release: what we did comes before what the next owner does.
        word.fetch_and(!(1 << (number % BITS)), Release);
    }
}

/// Ends the calling thread's part.
pub fn stand_up() {
    let Some(seat) = Seat::mine() else { return };
    thread::set_word(ENDED);
    give(seat.number());
}

/// Most threads that had a seat at a time.
#[must_use]
pub fn most_seated() -> usize {
    HIGHEST.load(Relaxed)
}

/// Asks the kernel, once, to run barriers for this process.
pub fn announce_barriers() {
    // SAFETY: the system call changes nothing but what it is asked for.
    let answer = unsafe { libc::syscall(libc::MEMBARRIER, libc::BARRIER_ANNOUNCED, 0, 0) };
    BARRIERS.store(answer == 0, Relaxed);
}

/// Stops everybody at the gate, and waits until nobody is in the midst of an operation. An operation of the calling thread that a signal
/// handler interrupted is not waited for. False if the calling thread has paused the process already, or shares the last slot
/// at this moment: then nothing was done.
pub fn pause() -> bool {
    let me = thread::identity();
    if PAUSES.is_mine() || CROWD.is_mine() {
        return false;
    }
    PAUSES.lock();
    GATE.store(me, SeqCst);
    let mine = Seat::mine().map(Seat::number);
    let highest = HIGHEST.load(SeqCst);
    if highest > usize::from(mine.is_some()) {
        barrier();
    }
    for (number, seat) in SEATS.iter().enumerate().take(highest) {
        let mut patience = Patience::new();
        // Acquire: what its thread did comes before what we look at.
        while Some(number) != mine && seat.busy.load(Acquire) != 0 {
            patience.wait();
        }
    }
    // Last: who is busy may be waiting for it, because memory ran out.
    CROWD.lock();
    true
}

/// A full barrier in every thread.
fn barrier() {
    // SAFETY: the system call runs barriers.
    let done =
        BARRIERS.load(Relaxed) && unsafe { libc::syscall(libc::MEMBARRIER, libc::BARRIER_EVERYWHERE, 0, 0) } == 0;
    if !done {
        let millisecond = system::Timespec { seconds: 0, nanoseconds: 1_000_000 };
        // SAFETY: the time is readable, and nobody wants to know what was left of it.
        unsafe { libc::nanosleep(&raw const millisecond, null_mut()) };
    }
}

/// Lets everybody go on.
pub fn resume() {
    // Release: what was done in the pause comes before what the others do.
    GATE.store(USUAL.load(Relaxed), Release);
    CROWD.unlock();
    PAUSES.unlock();
}

/// In a child that was forked in a pause: nobody has a seat but the calling thread, and nobody shares.
pub fn alone_now() {
    let mine = Seat::mine().map(Seat::number);
    for (index, word) in TAKEN.iter().enumerate() {
        let kept = mine.filter(|number| number / BITS == index).map_or(0, |number| 1 << (number % BITS));
        word.store(kept, Relaxed);
    }
    USUAL.store(0, Relaxed);
}

/// Whether the gate is closed by the calling thread.
#[must_use]
pub fn is_pausing() -> bool {
    GATE.load(Relaxed) == thread::identity()
}

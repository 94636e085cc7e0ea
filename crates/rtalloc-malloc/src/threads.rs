//! State of each thread, and pauses in which no thread operates.
//!
//! # Thread states
//!
//! A thread takes the lowest free slot number when it first allocates, and returns it when it ends. The number is its
//! slot in every region, and the index of its *thread state*: what it needs on the fast path, in cache lines of its
//! own. If all slots but the last are taken, a thread has no state and works in the last slot, which all such threads
//! share under a lock ([`Threads::shared_slot`]); it tries again with every operation. The last slot is also used by a
//! thread that has returned its number while destructors of its other thread-local values run, and by a signal handler
//! that interrupted its own thread inside an operation (`busy`).
//!
//! If there is only one slot, the first thread has it as its own until a second thread needs it. Then the gate is
//! closed for good, and every thread works under the lock.
//!
//! # Pauses
//!
//! A fork copies memory while other threads write it. The child's arenas must be consistent, and they have no lock: so
//! a fork *pauses* the process ([`Threads::pause`]). It closes the gate and waits until no thread is busy; threads that
//! arrive wait until the gate opens. `mallinfo2`, `malloc_trim` and the report do the same.
//!
//! ```text
//! operation   busy = 1;  gate open?  ->  work  ->  busy = 0
//!                        closed      ->  busy = 0, wait for the gate
//! pause       close the gate;  barrier;  wait for busy = 0
//! ```
//!
//! Each side writes its word before it reads the other's, and each must see the other's write. So one side needs a full
//! barrier in between. In the operation it would be the most expensive instruction, so the pause has it: the kernel
//! executes one in every thread of the process (`membarrier`). Where the kernel does not support that, the pause waits
//! a millisecond, longer than a store stays in a store buffer.

use crate::lock::{Backoff, Lock};
use crate::settings::MAX_SLOTS;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, compiler_fence};
use rtalloc::adapt::Cached;
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::validation::BasicSettingAside;
use rtalloc::mechanism::word::Wide;
use rtalloc::{SharedAllocator, Tlsf};
use rtalloc_sys::{syscall, thread};

/// The heap of a slot.
pub type ArenaHeap = Cached<'static, Tlsf<'static, 5, RoundUp, Wide, NoStats, BasicSettingAside>>;
/// The default allocator.
pub type Arenas = rtalloc::PooledArenas<'static, ArenaHeap>;
/// A slot of it.
pub type ArenaSlot = <Arenas as SharedAllocator<'static>>::Slot<'static>;

/// The thread-local word after the thread returned its slot number. Before, it is the address of the thread's state, or
/// 0 if it has none.
const ENDED: u64 = 1;

/// What a thread needs on the fast path.
#[repr(C, align(128))]
pub struct ThreadState {
    /// 1 while the thread is inside an operation. Only the thread writes it.
    busy: AtomicU8,
    /// Index of the region that the thread allocates from first.
    pub region: AtomicU8,
    /// Accessed only by the thread, while `busy` is 1 or before the thread's word is set.
    fast: UnsafeCell<FastPath>,
}

/// The thread's slot in the region it allocates from.
pub struct FastPath {
    /// `slot` serves requests of fewer bytes; 0 if there is no slot.
    pub below_bytes: usize,
    /// First address of the region.
    pub start: usize,
    /// Bytes of the region; 0 if there is no slot.
    pub span_bytes: usize,
    /// The slot; initialised if `span_bytes` is not 0.
    pub slot: MaybeUninit<ArenaSlot>,
    /// Bytes that the thread frees before it looks for pages to give back.
    pub before_return: isize,
    /// How many these are each time.
    pub interval: usize,
    /// Its page faults when it gave pages back the last time; the largest number if it kept them.
    pub faults: usize,
    /// When an ending thread of this slot may give pages back again, in nanoseconds.
    pub next_end: u64,
}

impl FastPath {
    /// Counts bytes that the thread freed. True if it is to look for pages to give back.
    #[inline(always)]
    pub fn counts_freed(&mut self, bytes: usize) -> bool {
        self.before_return = self.before_return.wrapping_sub(bytes as isize);
        self.before_return < 0
    }
}

// SAFETY: `fast` is accessed only by the thread that has the slot number; numbers pass from thread to thread with
// release and acquire.
unsafe impl Sync for ThreadState {}

impl ThreadState {
    /// All zero, so that the states take no room in the library's file. [`assign`](crate::regions::assign) sets them.
    const fn new() -> Self {
        let slot = MaybeUninit::zeroed();
        let fast = FastPath {
            below_bytes: 0,
            start: 0,
            span_bytes: 0,
            slot,
            before_return: 0,
            interval: 0,
            faults: 0,
            next_end: 0,
        };
        ThreadState { busy: AtomicU8::new(0), region: AtomicU8::new(0), fast: UnsafeCell::new(fast) }
    }

    /// The calling thread's state, if it has one.
    #[inline(always)]
    pub fn mine() -> Option<&'static ThreadState> {
        let word = thread::word();
        // SAFETY: a larger value is the address of a state in a static, stored by this thread.
        (word > ENDED).then(|| unsafe { &*core::ptr::with_exposed_provenance(word as usize) })
    }

    /// Whether the calling thread has returned its slot number.
    pub fn has_ended() -> bool {
        thread::word() == ENDED
    }

    /// Begins an operation. False if the thread is inside one already, or the gate is closed.
    #[inline(always)]
    pub fn enter(&self, gate: &Gate) -> bool {
        if self.busy.load(Relaxed) != 0 {
            return false;
        }
        self.busy.store(1, Relaxed);
        // The pause executes the processor's barrier.
        compiler_fence(SeqCst);
        // Acquire: what the pause did happens before this operation.
        if gate.0.load(Acquire) != OPEN {
            self.busy.store(0, Release);
            return false;
        }
        true
    }

    /// Ends an operation.
    #[inline(always)]
    pub fn leave(&self) {
        // Release: this operation happens before what the pause does.
        self.busy.store(0, Release);
    }

    /// Whether the thread is inside an operation.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) != 0
    }

    /// The data of the fast path.
    ///
    /// # Safety
    ///
    /// The calling thread has the state's number, is inside an operation or has not yet set its word, and has no other
    /// reference to the data.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    pub unsafe fn fast_path(&self) -> &mut FastPath {
        // SAFETY: the caller guarantees that this is the only reference.
        unsafe { &mut *self.fast.get() }
    }
}

/// Value of [`Gate`]: threads with a state may operate.
const OPEN: usize = 0;
/// Value of [`Gate`]: the only slot is shared. Smaller than every thread's identity.
const SHARED: usize = 1;

/// [`OPEN`], [`SHARED`], or the [`thread::identity`] of the thread that pauses the process. In a cache line of its own,
/// because every operation reads it.
#[repr(align(128))]
pub struct Gate(AtomicUsize);

/// Whether the calling thread may operate although the gate is closed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The only slot is shared: use it under the lock.
    Shared,
    /// The calling thread pauses the process: it may operate.
    ByMe,
    /// Wait.
    ByAnother,
}

impl Gate {
    /// Why the gate is closed, if it is.
    pub fn state(&self) -> Closed {
        match self.0.load(Relaxed) {
            SHARED => Closed::Shared,
            owner if owner == thread::identity() => Closed::ByMe,
            _ => Closed::ByAnother,
        }
    }
}

/// Bits of a word.
const BITS: usize = usize::BITS as usize;

/// The states of all threads, and what a pause needs.
pub struct Threads {
    /// By slot number.
    states: [ThreadState; MAX_SLOTS],
    /// Closed during a pause.
    pub gate: Gate,
    /// Whether the gate is [`SHARED`] when no thread pauses the process.
    is_shared: AtomicBool,
    /// Slot numbers that are taken: one bit each.
    taken: [AtomicUsize; MAX_SLOTS / BITS],
    /// The highest slot number that was ever taken, plus one.
    highest: AtomicUsize,
    /// Locked during a pause, by the thread that pauses the process.
    pauses: Lock,
    /// Whether the kernel executes barriers in every thread.
    has_barriers: AtomicBool,
    /// Locked by the thread that works in the last slot.
    pub shared_slot: Lock,
    /// Operations in the last slot.
    pub shared_operations: AtomicUsize,
}

impl Threads {
    /// No thread.
    pub const fn new() -> Self {
        Threads {
            states: [const { ThreadState::new() }; MAX_SLOTS],
            gate: Gate(AtomicUsize::new(OPEN)),
            is_shared: AtomicBool::new(false),
            taken: [const { AtomicUsize::new(0) }; MAX_SLOTS / BITS],
            highest: AtomicUsize::new(0),
            pauses: Lock::new(),
            has_barriers: AtomicBool::new(false),
            shared_slot: Lock::new(),
            shared_operations: AtomicUsize::new(0),
        }
    }

    /// The slot number of a state.
    pub fn number(&self, state: &ThreadState) -> usize {
        (core::ptr::from_ref(state).addr() - self.states.as_ptr().addr()) / size_of::<ThreadState>()
    }

    /// Takes a slot number below `end` for the calling thread, and passes its state to `prepare` before the thread's
    /// operations use it. `None` if all are taken.
    pub fn begin(&'static self, end: usize, prepare: impl FnOnce(&ThreadState, usize)) -> Option<&'static ThreadState> {
        let number = self.take(0, end)?;
        let state = self.states.get(number)?;
        // SeqCst, as the load in `pause`: either the pause sees this state, or this thread sees the closed gate.
        self.highest.fetch_max(number + 1, SeqCst);
        prepare(state, number);
        thread::set_word(core::ptr::from_ref(state).expose_provenance() as u64);
        Some(state)
    }

    /// Returns the calling thread's slot number, if it has one.
    pub fn end(&self) {
        let Some(state) = ThreadState::mine() else { return };
        thread::set_word(ENDED);
        self.give(self.number(state));
    }

    /// Takes the lowest free slot number from `first` to `end - 1`.
    pub fn take(&self, first: usize, end: usize) -> Option<usize> {
        let mut number = first;
        while number < end.min(MAX_SLOTS) {
            let word = self.taken.get(number / BITS)?;
            let free = !word.load(Relaxed) & (usize::MAX << (number % BITS));
            if free == 0 {
                number = (number / BITS + 1) * BITS;
                continue;
            }
            let bit = free.trailing_zeros() as usize;
            number = number / BITS * BITS + bit;
            // Acquire: what the number's last owner did happens before what this thread does.
            if number < end && word.fetch_or(1 << bit, Acquire) & (1 << bit) == 0 {
                return Some(number);
            }
            number += 1;
        }
        None
    }

    /// Returns a slot number, which its owner no longer uses.
    pub fn give(&self, number: usize) {
        if let Some(word) = self.taken.get(number / BITS) {
            // Release: what this thread did happens before what the next owner does.
            word.fetch_and(!(1 << (number % BITS)), Release);
        }
    }

    /// Most threads that had a slot number at the same time.
    pub fn most(&self) -> usize {
        self.highest.load(Relaxed)
    }

    /// Registers the process for barriers in every thread.
    pub fn register_barriers(&self) {
        self.has_barriers.store(syscall::register_barriers(), Relaxed);
    }

    /// Closes the gate and waits until no thread is inside an operation, except the operation of the calling thread
    /// that a signal handler interrupted. False, with no effect, if the calling thread has paused the process already
    /// or is in the shared slot.
    pub fn pause(&self) -> bool {
        let me = thread::identity();
        if self.pauses.is_mine() || self.shared_slot.is_mine() {
            return false;
        }
        self.pauses.lock();
        self.gate.0.store(me, SeqCst);
        let mine = ThreadState::mine().map(|state| self.number(state));
        let highest = self.highest.load(SeqCst);
        if highest > usize::from(mine.is_some())
            && !(self.has_barriers.load(Relaxed) && syscall::barrier_in_every_thread())
        {
            syscall::sleep(1_000_000);
        }
        for (number, state) in self.states.iter().enumerate().take(highest) {
            let mut backoff = Backoff::new();
            // Acquire: what the thread did happens before what this thread does in the pause.
            while Some(number) != mine && state.busy.load(Acquire) != 0 {
                backoff.wait();
            }
        }
        // Last, because a busy thread may be waiting for it: its own memory has run out.
        self.shared_slot.lock();
        true
    }

    /// Ends a pause.
    pub fn resume(&self) {
        // Release: what was done in the pause happens before the operations after it.
        self.gate.0.store(if self.is_shared.load(Relaxed) { SHARED } else { OPEN }, Release);
        self.shared_slot.unlock();
        self.pauses.unlock();
    }

    /// Whether the calling thread pauses the process.
    pub fn is_pausing(&self) -> bool {
        self.gate.state() == Closed::ByMe
    }

    /// Makes all threads share the only slot, which the first thread had as its own.
    #[cold]
    pub fn share_only_slot(&self) {
        if !self.is_shared.load(Relaxed) && self.pause() {
            self.is_shared.store(true, Relaxed);
            self.resume();
        }
    }

    /// In a child that was forked in a pause: only the calling thread exists, so all other slot numbers are free.
    pub fn forget_others(&self) {
        let mine = ThreadState::mine().map(|state| self.number(state));
        for (index, word) in self.taken.iter().enumerate() {
            let kept = mine.filter(|number| number / BITS == index).map_or(0, |number| 1 << (number % BITS));
            word.store(kept, Relaxed);
        }
        self.is_shared.store(false, Relaxed);
    }
}

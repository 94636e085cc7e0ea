//! Remote-free queues: how a block that one slot frees returns to the slot that owns it. Neither side waits.
//!
//! # Idea
//!
//! Every pair of slots has a queue. One slot alone pushes to it (the *producer*), and one alone empties it (the
//! *owner*). The queue is one word: the top of a stack of *queued frees*, each linked to the one below. A queued free
//! is a nonzero number whose meaning both sides know; while it is queued, it has a word of memory for its link. Every
//! owner has one more word, its *pending bits*: one bit for each producer, set when its queue may not be empty.
//!
//! ```text
//! pending bits of owner 2   0 1 0 1         queues 0 and 2 may not be empty
//! queue 0 to 2              [ 7 ] -> 3 -> 9 -> none
//! queue 1 to 2              [ none ]
//! ```
//!
//! | | steps, whatever the other side does |
//! |---|---|
//! | [`push`](RemoteQueue::push) to a queue that is not empty | 1 load, 1 store, 1 compare-and-swap |
//! | [`push`](RemoteQueue::push), emptied concurrently | 1 load, 3 stores, 1 compare-and-swap, then the pending bit: 1 fetch-or |
//! | [`push`](RemoteQueue::push) to an empty queue | 1 load, 2 stores, then the pending bit: 1 fetch-or |
//! | [`collect`](PendingBits::collect) | 2 loads, 1 fetch-and, 1 swap; more where producers share a bit |
//!
//! One queue for several producers, which swap its end, would save a step. It does not work here: a producer that stops
//! between its swap and its link hides everything that other producers push after it.
//!
//! # Why neither side waits
//!
//! Only the producer writes a number to the queue; only the owner writes *none*. So the producer's compare-and-swap
//! fails for one reason: the owner has emptied the queue. The queue then stays empty until the producer writes, so the
//! producer's next step, a plain store, succeeds. (A second compare-and-swap could not fail, so it is not needed.)
//! There is no ABA: a queued free that the producer found on top can return there only through the producer itself.
//!
//! # Why no free is lost
//!
//! After the first push to an empty queue, the producer sets its pending bit. Later pushes need not: while the queue is
//! not empty, either the bit is set, or the owner has cleared it and has yet to empty the queue, which takes them all.
//! The owner clears the bit first and starts emptying only after that. In the opposite order, it could clear the bit of
//! a queued free that it has not seen.
//!
//! # Memory orderings
//!
//! | step | ordering | what it orders |
//! |---|---|---|
//! | store and compare-and-swap of `push` | release | the link, and the producer's earlier accesses to the block, come first |
//! | swap of `collect` | acquire | reading the link, and using the memory, come after |
//! | fetch-or of `set` | release | the push comes before its pending bit |
//! | fetch-and of `collect` | acquire | reading the queue comes after clearing the bit that led there |
//!
//! Everything else is relaxed: a load of the pending bits that misses a recent one sees it the next time.

use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::{LoopBound, Steps, loop_bound};
use crate::mechanism::bits::first_set;
use core::num::{NonZeroU32, NonZeroUsize};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What is pushed to queues: a number whose meaning both sides know.
pub type QueuedFree = NonZeroU32;

/// The link of a queued free: to the one below it.
#[derive(Debug)]
#[repr(transparent)]
pub struct Link<A: Atomics = Native>(Shared<u32, A>);

impl<A: Atomics> Default for Link<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics> Link<A> {
    /// A link to nothing.
    pub const fn new() -> Self {
        Link(Shared::new(0))
    }

    /// The link at an address.
    ///
    /// # Safety
    ///
    /// `word` is aligned and valid for `'a`, and every access to it during `'a` is as a link.
    #[inline(always)]
    pub const unsafe fn at<'a>(word: *mut u32) -> &'a Self {
        // SAFETY: a `Link` is `repr(transparent)` over its word, which the caller guarantees is aligned and valid.
        unsafe { &*word.cast() }
    }

    /// The queued free below, for the owner that has collected this one.
    #[inline(always)]
    pub fn next(&self) -> Option<QueuedFree> {
        QueuedFree::new(self.0.load(Relaxed))
    }
}

/// The queued frees from one producer to one owner.
#[derive(Debug)]
#[repr(transparent)]
pub struct RemoteQueue<A: Atomics = Native> {
    /// The latest queued free, or 0.
    top: Shared<u32, A>,
}

/// What a producer has to do after a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// Nothing: the owner knows that this queue is not empty.
    Queued,
    /// [`set`](PendingBits::set) its pending bit, before anything else is pushed to this queue.
    First,
    /// Nothing was pushed: this free is already on top of the queue.
    Duplicate,
}

impl<A: Atomics> Default for RemoteQueue<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics> RemoteQueue<A> {
    /// An empty queue.
    pub const fn new() -> Self {
        RemoteQueue { top: Shared::new(0) }
    }

    /// Pushes a free, with its link at `link`.
    ///
    /// # Safety
    ///
    /// The caller is the producer, and pushes to this queue happen one after another. The free is in no queue. Its link
    /// belongs to the caller until this returns, and to the owner afterwards.
    ///
    /// # Time
    ///
    /// Constant, whatever the owner does: 1 load, at most 3 stores and 1 compare-and-swap.
    #[inline(always)]
    pub unsafe fn push(&self, queued: QueuedFree, link: &Link<A>) -> Pushed {
        let below = self.top.load(Relaxed);
        if below == queued.get() {
            return Pushed::Duplicate;
        }
        if below != 0 {
            link.0.store(below, Relaxed);
            // Release: the link, and all earlier accesses to the block, come before the push.
            if self.top.compare_exchange(below, queued.get(), Release).is_ok() {
                return Pushed::Queued;
            }
        }
        // Empty, and it stays so: the owner never writes to an empty queue.
        link.0.store(0, Relaxed);
        // Release: as for the compare-and-swap.
        self.top.store(queued.get(), Release);
        Pushed::First
    }

    /// Empties the queue and returns the latest queued free, whose link leads to the others.
    #[inline(always)]
    fn empty(&self) -> Option<QueuedFree> {
        // Acquire: the links and the blocks are read after this swap.
        QueuedFree::new(self.top.swap(0, Acquire))
    }

    /// The latest queued free. Exact only while no other thread uses the queue.
    #[inline(always)]
    pub fn top(&self) -> Option<QueuedFree> {
        QueuedFree::new(self.top.load(Relaxed))
    }
}

/// Which queues of an owner may not be empty: a bit for every producer. With more than `BITS` producers, those whose
/// numbers are equal modulo `BITS` share a bit.
#[derive(Debug)]
#[repr(transparent)]
pub struct PendingBits<A: Atomics = Native, const BITS: usize = { usize::BITS as usize }> {
    bits: Shared<usize, A>,
}

impl<A: Atomics, const BITS: usize> Default for PendingBits<A, BITS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics, const BITS: usize> PendingBits<A, BITS> {
    /// No bit set.
    pub const fn new() -> Self {
        const { assert!(BITS.is_power_of_two() && BITS <= usize::BITS as usize, "bits of a word, a power of two") }
        PendingBits { bits: Shared::new(0) }
    }

    /// The bit of a producer.
    #[inline(always)]
    const fn bit(producer: usize) -> usize {
        1_usize.wrapping_shl((producer % BITS) as u32)
    }

    /// Whether a producer's bit is set. Exact only while no other thread uses the bits.
    pub fn is_set(&self, producer: usize) -> bool {
        self.bits.load(Relaxed) & Self::bit(producer) != 0
    }

    /// Whether any bit is set, as far as the owner has seen: an ordinary load.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.bits.load(Relaxed) != 0
    }

    /// Whether any bit is set at this moment: every bit set before is seen.
    #[inline(always)]
    pub fn any_now(&self) -> bool {
        // An RMW that changes nothing reads the latest value, which a load need not. Relaxed: it guards no memory.
        self.bits.fetch_or(0, Relaxed) != 0
    }

    /// Sets the bit of a producer, after its first push to an empty queue.
    ///
    /// # Time
    ///
    /// Constant: 1 fetch-or.
    #[inline(always)]
    pub fn set(&self, producer: usize) {
        // Release: the push comes before its bit, so that the owner that clears the bit finds the push.
        self.bits.fetch_or(Self::bit(producer), Release);
    }

    /// Empties the queue of one producer whose bit is set: returns the latest queued free, whose link leads to the
    /// others. `queue` returns the queue of each of the `producers` to this owner. Returns `None` if no bit is set, or
    /// if the bit was set for frees that were collected earlier, which happens where producers share a bit.
    ///
    /// # Safety
    ///
    /// The caller is the owner.
    ///
    /// # Time
    ///
    /// Constant, whatever the producers do: 1 load, 1 fetch-and, and, where `producers` is at most `BITS`, 1 load and 1
    /// swap; otherwise `producers / BITS` loads, rounded up, 1 swap and 1 fetch-or.
    #[inline(always)]
    pub unsafe fn collect<'a>(
        &self,
        producers: usize,
        queue: impl Fn(usize) -> &'a RemoteQueue<A>,
    ) -> Option<QueuedFree>
    where
        A: 'a,
    {
        let first = first_set(NonZeroUsize::new(self.bits.load(Relaxed))?) as usize;
        let bit = Self::bit(first);
        // Acquire: the queues are read after the bit is cleared.
        self.bits.fetch_and(!bit, Acquire);
        let mut found = None;
        let mut producer = first;
        while producer < producers {
            loop_bound!(LoopBound::PendingWords);
            let queue = queue(producer);
            if queue.top().is_some() {
                if found.is_some() {
                    // Sets the bit again for the others that share it. Relaxed: the owner sets it for itself.
                    self.bits.fetch_or(bit, Relaxed);
                    break;
                }
                found = queue.empty();
            }
            producer = producer.wrapping_add(BITS);
        }
        found
    }
}

/// Most steps of [`RemoteQueue::push`] and of the pending bit that may follow.
pub const PUSH_STEPS: Steps = Steps { read_modify_writes: 2, loads: 1, stores: 3 };

/// Most steps of [`PendingBits::collect`] for this many producers, which share this many bits.
pub const fn collect_steps(producers: usize, bits: usize) -> Steps {
    let shared = if producers > bits { 1 } else { 0 };
    Steps { read_modify_writes: 2 + shared, loads: 1 + producers.div_ceil(bits), stores: 0 }
}

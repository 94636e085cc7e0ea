//! Mail between slots: what one slot has freed and another one must take back, without waiting on either side.
//!
//! # Idea
//!
//! Every pair of slots has a mailbox, which one of them alone fills (the *producer*) and the other alone empties (the
//! *owner*). It is one word: a stack of *letters*, each of which holds the link to the one it was put upon. A letter is
//! a number that the two agree upon, not zero, and has a word of memory for its link while it is in the mail. Every
//! owner has another word, its *notices*: a bit for every producer that says where to look.
//!
//! ```text
//! notices of owner 2     0 1 0 1          mail from 0 and from 2
//! mailbox 0 to 2         [ 7 ] -> 3 -> 9 -> none
//! mailbox 1 to 2         [ none ]
//! ```
//!
//! | | steps, whatever the other one does |
//! |---|---|
//! | [`put`](Mailbox::put) on letters | 1 load, 1 store, 1 compare-and-swap |
//! | [`put`](Mailbox::put), and they are collected meanwhile | 1 load, 3 stores, 1 compare-and-swap, then a notice: 1 fetch-or |
//! | [`put`](Mailbox::put) in an empty mailbox | 1 load, 2 stores, then a notice: 1 fetch-or |
//! | [`collect`](Notices::collect) | 2 loads, 1 fetch-and, 1 swap; more where producers share a bit |
//!
//! A queue of several producers that swap its end would take one step less, and would not do: one producer that is
//! stopped between its swap and its link hides whatever the others put behind it.
//!
//! # Why nobody waits
//!
//! Only the producer puts a number into a mailbox, only the owner puts *none* there. A compare-and-swap of the producer
//! therefore fails for one reason: the owner has emptied the mailbox. From then on it stays empty until the producer
//! writes, so that its next step, a plain store, succeeds. (Another compare-and-swap could not fail, and so is not
//! needed.) There is no ABA: a letter that the producer found in the mailbox can come back there only by the producer
//! itself.
//!
//! # Why nothing is lost
//!
//! The first letter in an empty mailbox is followed by a notice. Later ones need none: as long as the mailbox is not
//! empty, either the notice stands, or the owner has withdrawn it and has yet to empty the mailbox, which takes them
//! all. Withdrawing comes first, and no step of emptying is made before it; were it the other way round, a notice could
//! be withdrawn whose letter was not seen.
//!
//! # Orders
//!
//! | step | order | what it orders |
//! |---|---|---|
//! | store and compare-and-swap of `put` | release | the letter's link, and whatever its sender did to its memory, come first |
//! | swap of `collect` | acquire | reading the link, and using the memory, come after |
//! | fetch-or of `notify` | release | the letter comes before its notice |
//! | fetch-and of `collect` | acquire | looking into the mailbox comes after withdrawing the notice that sent us there |
//!
//! Everything else is relaxed: a load of notices that misses a late one finds it the next time.

use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::Steps;
use crate::mechanism::bits::first_set;
use core::num::{NonZeroU32, NonZeroUsize};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What is put into mailboxes: a number that both sides know the meaning of.
pub type Letter = NonZeroU32;

/// A letter's link: to the one below it in its mailbox.
#[derive(Debug)]
#[repr(transparent)]
pub struct Link<A: Atomics = Native>(Shared<u32, A>);

impl<A: Atomics> Default for Link<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics> Link<A> {
    /// A link that leads nowhere.
    pub const fn new() -> Self {
        Link(Shared::new(0))
    }

    /// The link at an address.
    ///
    /// # Safety
    ///
    /// `word` is aligned and valid for `'a`, and accessed as a link alone by whoever accesses it meanwhile.
    #[inline(always)]
    pub const unsafe fn at<'a>(word: *mut u32) -> &'a Self {
        // SAFETY: a `Link` is its word; the caller's promise.
        unsafe { &*word.cast() }
    }

    /// The letter below, for the owner who has the letter.
    #[inline(always)]
    pub fn next(&self) -> Option<Letter> {
        Letter::new(self.0.load(Relaxed))
    }
}

/// The letters from one producer to one owner.
#[derive(Debug)]
#[repr(transparent)]
pub struct Mailbox<A: Atomics = Native> {
    /// The latest letter, or 0.
    top: Shared<u32, A>,
}

/// What a producer that put a letter has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Put {
    /// Nothing: the owner knows of letters in this mailbox.
    Upon,
    /// To [`notify`](Notices::notify) the owner, before anything else is put into this mailbox.
    First,
    /// The letter is the latest one in the mailbox already: nothing was put.
    Twice,
}

impl<A: Atomics> Default for Mailbox<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics> Mailbox<A> {
    /// An empty mailbox.
    pub const fn new() -> Self {
        Mailbox { top: Shared::new(0) }
    }

    /// Puts a letter, with its link at `link`.
    ///
    /// # Safety
    ///
    /// The caller is the producer, and whoever puts into this mailbox after it does so after it. The letter is in no
    /// mailbox. Its link is the caller's until this returns, and then the owner's.
    ///
    /// # Time
    ///
    /// Constant, whatever the owner does: 1 load, at most 3 stores and 1 compare-and-swap.
    #[inline(always)]
    pub unsafe fn put(&self, letter: Letter, link: &Link<A>) -> Put {
        let below = self.top.load(Relaxed);
        if below == letter.get() {
            return Put::Twice;
        }
        if below != 0 {
            link.0.store(below, Relaxed);
            // Release: the link, and all that was done to the letter's memory, before the letter.
            if self.top.compare_exchange(below, letter.get(), Release).is_ok() {
                return Put::Upon;
            }
        }
        // Empty, and so it stays: the owner changes nothing in an empty mailbox.
        link.0.store(0, Relaxed);
        // Release: as above.
        self.top.store(letter.get(), Release);
        Put::First
    }

    /// Takes all letters out: the latest one, whose link leads to the others.
    #[inline(always)]
    fn empty(&self) -> Option<Letter> {
        // Acquire: the links, and the memory of the letters, after the letters.
        Letter::new(self.top.swap(0, Acquire))
    }

    /// The latest letter. Nobody is at work, or it is old news.
    #[inline(always)]
    pub fn top(&self) -> Option<Letter> {
        Letter::new(self.top.load(Relaxed))
    }
}

/// Where an owner has mail: a bit for every producer, or, where there are more than `BITS` of them, one for all whose
/// numbers are alike modulo `BITS`.
#[derive(Debug)]
#[repr(transparent)]
pub struct Notices<A: Atomics = Native, const BITS: usize = { usize::BITS as usize }> {
    bits: Shared<usize, A>,
}

impl<A: Atomics, const BITS: usize> Default for Notices<A, BITS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics, const BITS: usize> Notices<A, BITS> {
    /// No mail.
    pub const fn new() -> Self {
        const { assert!(BITS.is_power_of_two() && BITS <= usize::BITS as usize, "bits of a word, a power of two") }
        Notices { bits: Shared::new(0) }
    }

    /// The bit of a producer.
    #[inline(always)]
    const fn bit(producer: usize) -> usize {
        1_usize.wrapping_shl((producer % BITS) as u32)
    }

    /// Whether a producer's bit is set. Nobody is at work, or it is old news.
    pub fn names(&self, producer: usize) -> bool {
        self.bits.load(Relaxed) & Self::bit(producer) != 0
    }

    /// Whether there is mail, as far as the owner has heard: an ordinary load, no more.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.bits.load(Relaxed) != 0
    }

    /// Whether there is mail at this moment: every notice that was given before is seen.
    #[inline(always)]
    pub fn any_now(&self) -> bool {
        // A change of nothing reads the latest of all changes, which a load need not. It orders nothing: no memory is
        // used because of the answer.
        self.bits.fetch_or(0, Relaxed) != 0
    }

    /// Tells the owner of the first letter in the mailbox of a producer.
    ///
    /// # Time
    ///
    /// Constant: 1 fetch-or.
    #[inline(always)]
    pub fn notify(&self, producer: usize) {
        // Release: the letter before its notice, so that whoever withdraws the notice finds the letter.
        self.bits.fetch_or(Self::bit(producer), Release);
    }

    /// Collects the letters of one producer, if there is mail: the latest one, whose link leads to the others.
    /// `mailbox` gives the mailbox of each of the `producers` to this owner. None, too, if a notice had been given for
    /// letters that were collected before, which happens where producers share a bit.
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
    pub unsafe fn collect<'a>(&self, producers: usize, mailbox: impl Fn(usize) -> &'a Mailbox<A>) -> Option<Letter>
    where
        A: 'a,
    {
        let first = first_set(NonZeroUsize::new(self.bits.load(Relaxed))?) as usize;
        let bit = Self::bit(first);
        // Acquire: the mailboxes after the notice is withdrawn.
        self.bits.fetch_and(!bit, Acquire);
        let mut found = None;
        let mut producer = first;
        // turns: words of notices
        while producer < producers {
            let mailbox = mailbox(producer);
            if mailbox.top().is_some() {
                if found.is_some() {
                    // A notice for all others that share the bit. The owner gives it to itself, which needs no order.
                    self.bits.fetch_or(bit, Relaxed);
                    break;
                }
                found = mailbox.empty();
            }
            producer = producer.wrapping_add(BITS);
        }
        found
    }
}

/// Most steps of [`Mailbox::put`] and the notice that may follow.
pub const PUT_STEPS: Steps = Steps { read_modify_writes: 2, loads: 1, stores: 3 };

/// Most steps of [`Notices::collect`] where so many producers have bits of their own, or share as many.
pub const fn collect_steps(producers: usize, bits: usize) -> Steps {
    let shared = if producers > bits { 1 } else { 0 };
    Steps { read_modify_writes: 2 + shared, loads: 1 + producers.div_ceil(bits), stores: 0 }
}

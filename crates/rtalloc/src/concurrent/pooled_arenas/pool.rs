//! The pool: which chunks of a region belong to no one. Any thread takes runs of them and gives them back; none waits.
//!
//! # Idea
//!
//! A word has a bit for each of half as many chunks as it has bits. The other half counts how often chunks were given
//! back to the word: its *version*. So one addition gives chunks back and counts: the bits are clear before.
//!
//! ```text
//! word      [version 7 | 0 1 1 0 ... 1]        a set bit is a chunk in the pool
//! take      compare-and-swap: the bits of the run become clear, the version stays
//! give      fetch-and-add: the bits become set, and the version one more
//! ```
//!
//! A run is taken word by word, from its first chunk on; if another taker was faster, what was taken goes back. The
//! search is first fit, so that long runs remain at the end.
//!
//! # Exhausted or contended
//!
//! A search that finds no run in any word, and lost no run to another taker, reads all words again, by an RMW that
//! changes nothing. If no version is another than before, nothing was given back to any word between its two reads:
//! when the last word was read the first time, every word had at most the bits that the search saw, so there was no
//! run. Otherwise it cannot tell. (A version that returns to its value between the two reads would deceive it: that
//! takes 2^32 gives to one word during a search, 2^16 where a machine word has 32 bits. The same could leave the second
//! compare-and-swap of a take without the order that the first one establishes.)
//!
//! # Progress
//!
//! No step waits. A compare-and-swap fails if another thread changed the word; it is tried twice. A search that loses
//! two short runs to others, or a long one, gives up: [`Missed::Contended`].
//!
//! # Memory orderings
//!
//! | step | ordering | what it orders |
//! |---|---|---|
//! | compare-and-swap of `take` | acquire | using the chunks comes after |
//! | fetch-and-add of `give` | release | the giver's accesses to the chunks come first |

use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::{LoopBound, Steps, loop_bound};
use crate::mechanism::bits::computed;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Chunks of a word.
pub const WORD_CHUNKS: usize = usize::BITS as usize / 2;
/// Words of the largest pool.
const MAX_WORDS: usize = 64;
/// Chunks of the largest pool.
pub const MAX_CHUNKS: usize = MAX_WORDS * WORD_CHUNKS;
/// Short runs that a search loses to others before it gives up.
const TRIES: usize = 2;
/// Chunks of the longest run that lies in one word for sure.
pub const SHORT_RUN: usize = 8;
const ALL: usize = usize::MAX >> WORD_CHUNKS;
/// One more in the version.
const GIVEN: usize = ALL + 1;

/// Why no run was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// At a moment of the search there was no such run.
    Exhausted,
    /// Others took or gave back chunks meanwhile.
    Contended,
}

/// The next index of a loop, which the compiler does not unroll then: with four words to an iteration, its bound would
/// count four times as many.
#[inline(always)]
pub(super) fn next(index: usize) -> usize {
    computed(index as u64) as usize + 1
}

/// How far a search is.
#[derive(Clone, Copy, Default)]
struct Search {
    /// The word to be read next.
    index: usize,
    /// The sum of the versions of those before it.
    versions: usize,
}

/// A run that was in the pool.
struct Found {
    first: usize,
    /// The word where it ends, as it was.
    word: usize,
}

/// A pool's words, which follow each other in memory.
#[derive(Debug)]
pub struct Pool<'h, A: Atomics = Native> {
    words: usize,
    count: usize,
    memory: PhantomData<&'h Shared<usize, A>>,
}

impl<A: Atomics> Clone for Pool<'_, A> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: Atomics> Copy for Pool<'_, A> {}

/// The chunks `from..to` of a word, as bits; `from` is less than `to`.
#[inline(always)]
const fn bits(from: usize, to: usize) -> usize {
    (ALL >> (WORD_CHUNKS - (to - from))) << from
}

impl<'h, A: Atomics> Pool<'h, A> {
    /// The pool at an address.
    ///
    /// # Safety
    ///
    /// `count` words are there for `'h`, and others access them only through a `Pool`.
    #[inline(always)]
    pub const unsafe fn at(address: usize, count: usize) -> Self {
        Pool { words: address, count, memory: PhantomData }
    }

    /// A word; `index` is less than their number.
    #[inline(always)]
    fn word(self, index: usize) -> &'h Shared<usize, A> {
        let address = self.words.wrapping_add(index.wrapping_mul(size_of::<usize>()));
        // SAFETY: the words follow each other, initialised.
        unsafe { Shared::at(core::ptr::with_exposed_provenance_mut(address)) }
    }

    /// Whether a chunk is in the pool. Exact only while no other thread uses it.
    pub fn has(self, chunk: usize) -> bool {
        self.word(chunk / WORD_CHUNKS).load(Relaxed) >> (chunk % WORD_CHUNKS) & 1 != 0
    }

    /// Takes a run of at most [`SHORT_RUN`] chunks that lies in one word, the first that there is; returns its first
    /// chunk.
    ///
    /// # Errors
    ///
    /// [`Missed`].
    ///
    /// # Time
    ///
    /// Linear in the words: [`take_short_steps`].
    #[inline(never)]
    pub fn take_short(self, run: usize) -> Result<usize, Missed> {
        let (mut search, mut tries) = (Search::default(), 0);
        while tries < TRIES {
            loop_bound!(LoopBound::Fixed(2));
            let Some(found) = self.find::<false>(run, &mut search) else {
                return Err(if tries == 0 { self.missed(search) } else { Missed::Contended });
            };
            let from = found.first % WORD_CHUNKS;
            if self.claim_in(search.index, found.word, bits(from, from + run)) {
                return Ok(found.first);
            }
            tries += 1;
        }
        Err(Missed::Contended)
    }

    /// Takes a run of any length from the first one that is longer by `slack`; returns its first chunk, which `place`
    /// chooses among the first `slack` and one, given the first of them.
    ///
    /// # Errors
    ///
    /// [`Missed`].
    ///
    /// # Time
    ///
    /// Linear in the words: [`take_steps`].
    #[inline(always)]
    pub fn take(self, run: usize, slack: usize, place: impl Fn(usize) -> usize) -> Result<usize, Missed> {
        let mut search = Search::default();
        match self.find::<true>(run + slack, &mut search) {
            Some(found) => {
                let first = place(found.first);
                if self.claim(first, run) { Ok(first) } else { Err(Missed::Contended) }
            }
            None => Err(self.missed(search)),
        }
    }

    /// Finds a run: in one word, or across words where `ACROSS`.
    #[inline(always)]
    fn find<const ACROSS: bool>(self, run: usize, search: &mut Search) -> Option<Found> {
        let mut carried = 0;
        let shifts = Shifts::of(run);
        // A run longer than a word lies in none.
        let within = if ACROSS && run > WORD_CHUNKS { 0 } else { ALL };
        while search.index < self.count {
            loop_bound!(LoopBound::Words);
            let word = self.word(search.index).load(Relaxed);
            let here = word & ALL;
            let start = search.index * WORD_CHUNKS;
            if ACROSS && carried + here.trailing_ones() as usize >= run {
                return Some(Found { first: start - carried, word });
            }
            let places = shifts.starts::<ACROSS>(here & within);
            if places != 0 {
                return Some(Found { first: start + places.trailing_zeros() as usize, word });
            }
            // The free chunks at the end of this word.
            carried = if here == ALL { carried + WORD_CHUNKS } else { (here << WORD_CHUNKS).leading_ones() as usize };
            search.versions = search.versions.wrapping_add(word / GIVEN);
            search.index = next(search.index);
        }
        None
    }

    /// Why a search that has read all words, and lost no run, found none.
    #[inline(always)]
    fn missed(self, search: Search) -> Missed {
        if search.versions == self.versions() { Missed::Exhausted } else { Missed::Contended }
    }

    /// The sum of all versions at this time or later.
    #[inline(never)]
    fn versions(self) -> usize {
        let (mut index, mut versions) = (0, 0_usize);
        while index < self.count {
            loop_bound!(LoopBound::Words);
            // An RMW that changes nothing reads the latest value, which a load need not. Relaxed: it guards no memory.
            versions = versions.wrapping_add(self.word(index).fetch_add(0, Relaxed) / GIVEN);
            index = next(index);
        }
        versions
    }

    /// Takes these chunks, if all are in the pool.
    ///
    /// # Time
    ///
    /// Linear in the words that have one of them: [`claim_steps`].
    #[inline(never)]
    pub fn claim(self, first: usize, run: usize) -> bool {
        let span = Span::of(first, run);
        let (mut index, mut chunks) = (span.first, span.head);
        while index <= span.last {
            loop_bound!(LoopBound::Words);
            let chunks_here = if index == span.last { chunks & span.tail } else { chunks };
            if !self.claim_in(index, self.word(index).load(Relaxed), chunks_here) {
                if index != span.first {
                    self.give(first, index * WORD_CHUNKS - first);
                }
                return false;
            }
            chunks = ALL;
            index = next(index);
        }
        true
    }

    /// Takes chunks of one word, which had this value, if all are in the pool.
    #[inline(always)]
    fn claim_in(self, index: usize, value: usize, chunks: usize) -> bool {
        let word = self.word(index);
        if value & chunks != chunks {
            return false;
        }
        // Acquire, also if it fails: the chunks are used after they were given back.
        match word.compare_exchange(value, value - chunks, Acquire) {
            Ok(_) => true,
            Err(value) if value & chunks != chunks => false,
            // Relaxed: no give came after the value that was just acquired, or the version would be another.
            Err(value) => word.compare_exchange(value, value - chunks, Relaxed).is_ok(),
        }
    }

    /// Gives back chunks of one word.
    ///
    /// # Time
    ///
    /// Constant: 1 fetch-and-add.
    #[inline(always)]
    pub fn give_short(self, first: usize, run: usize) {
        let from = first % WORD_CHUNKS;
        // Release: everything that was done with the chunks comes before their next use.
        self.word(first / WORD_CHUNKS).fetch_add(GIVEN.wrapping_add(bits(from, from + run)), Release);
    }

    /// Gives chunks back.
    ///
    /// # Time
    ///
    /// Linear in the words that have one of them: [`give_steps`].
    #[inline(never)]
    pub fn give(self, first: usize, run: usize) {
        let span = Span::of(first, run);
        let (mut index, mut chunks) = (span.first, span.head);
        while index <= span.last {
            loop_bound!(LoopBound::Words);
            let chunks_here = if index == span.last { chunks & span.tail } else { chunks };
            // Release: as in `give_short`.
            self.word(index).fetch_add(GIVEN.wrapping_add(chunks_here), Release);
            chunks = ALL;
            index = next(index);
        }
    }
}

/// The words that have chunks of a run, which is not empty.
struct Span {
    first: usize,
    last: usize,
    /// The run's chunks in the first word, and maybe some after the run.
    head: usize,
    /// The run's chunks in the last word, and maybe some before the run.
    tail: usize,
}

impl Span {
    #[inline(always)]
    fn of(first: usize, run: usize) -> Self {
        let end = first.wrapping_add(run).wrapping_sub(1);
        Span {
            first: first / WORD_CHUNKS,
            last: end / WORD_CHUNKS,
            head: ALL & ALL << (first % WORD_CHUNKS),
            tail: ALL >> (WORD_CHUNKS - 1 - end % WORD_CHUNKS),
        }
    }
}

/// How far to shift a word, again and again, until its set bits are those where a run begins.
#[derive(Clone, Copy)]
struct Shifts([u32; 5]);

impl Shifts {
    #[inline(always)]
    fn of(run: usize) -> Self {
        const { assert!(SHORT_RUN == 8 && WORD_CHUNKS <= 32) }
        // A run of `length` is known; each shift at most doubles it.
        let more = |length: usize| length.min(run.saturating_sub(length)) as u32;
        Shifts([more(1), more(2), more(4), more(8), more(16)])
    }

    /// Where a run of set bits begins, which is at most [`SHORT_RUN`] long unless `LONG`.
    #[inline(always)]
    fn starts<const LONG: bool>(self, word: usize) -> usize {
        let Shifts([first, second, third, fourth, fifth]) = self;
        let shifted = |places: usize, shift: u32| places & places.wrapping_shr(shift);
        let short = shifted(shifted(shifted(word, first), second), third);
        if LONG { shifted(shifted(short, fourth), fifth) } else { short }
    }
}

/// Most words that have one of so many consecutive chunks.
const fn words_of(run: usize) -> usize {
    run.saturating_add(2 * WORD_CHUNKS - 2) / WORD_CHUNKS
}

/// Most steps of [`Pool::give`].
pub fn give_steps(run: usize) -> Steps {
    Steps { read_modify_writes: words_of(run), loads: 0, stores: 0 }
}

/// Most steps of [`Pool::claim`].
pub fn claim_steps(run: usize) -> Steps {
    let words = words_of(run);
    Steps { read_modify_writes: 2 * words, loads: words, stores: 0 } + give_steps(run)
}

/// Most steps of [`Pool::take_short`] from a pool of so many words.
pub fn take_short_steps(words: usize) -> Steps {
    Steps { read_modify_writes: words.max(2 * TRIES), loads: words + TRIES - 1, stores: 0 }
}

/// Most steps of [`Pool::take`] from a pool of so many words.
pub fn take_steps(words: usize, run: usize) -> Steps {
    let missed = Steps { read_modify_writes: words, loads: 0, stores: 0 };
    Steps { read_modify_writes: 0, loads: words, stores: 0 } + missed.max(claim_steps(run))
}

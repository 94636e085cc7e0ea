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
//! give      fetch-and-add: the bits become set, and the version one more; a store, if a word gets all of its bits
//! ```
//!
//! The search is first fit, so that long runs remain at the end. A *short* run, of at most as many chunks as a word
//! has, lies in one word or in two that follow each other: the search looks at each word and the next one together. A
//! run is taken word by word, from its first chunk on; if another taker was faster, what was taken goes back. While a
//! thread owns all chunks of a word, no other thread changes the word: there is nothing to take and nothing to give back.
//!
//! # Exhausted or contended
//!
//! A search that finds no run reads all words again, by an RMW that changes nothing. If no version
//! has changed, nothing was given back to any word between its two reads:
//! when the last word was read the first time, every word had at most the bits that the search saw, so there was no
//! run. Otherwise it cannot tell. (Versions whose sum returns to its value between the two reads would deceive it: that
//! takes 2^32 gives during a search, 2^16 where a machine word has 32 bits.)
//!
//! # Progress
//!
//! No step waits. A compare-and-swap fails if another thread changed the word since it was read. A search that has
//! found a short run and loses it looks at its words once more; then, or if it loses a longer run, it gives up:
//! [`Missed::Contended`].
//!
//! # Memory orderings
//!
//! | step | ordering | what it orders |
//! |---|---|---|
//! | compare-and-swap of `take` | acquire | using the chunks comes after |
//! | fetch-and-add of `give` | release | the giver's accesses to the chunks come first |
//! | store of `give` | release | the same; earlier givers' accesses, too: the giver acquired them when it took the chunks |

use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::{LoopBound, Steps, loop_bound};
use crate::mechanism::bits::computed;
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Chunks of a word.
pub const WORD_CHUNKS: usize = usize::BITS as usize / 2;
/// Words of the largest pool.
const MAX_WORDS: usize = 64;
/// Chunks of the largest pool.
pub const MAX_CHUNKS: usize = MAX_WORDS * WORD_CHUNKS;
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
    (computed(index as u64) as usize).wrapping_add(1)
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
        // SAFETY: the words follow each other, initialised.
        unsafe { Self::word_at(self.word_address(index)) }
    }

    #[inline(always)]
    fn word_address(self, index: usize) -> usize {
        self.words.wrapping_add(index.wrapping_mul(size_of::<usize>()))
    }

    /// The word at an address.
    ///
    /// # Safety
    ///
    /// There is one.
    #[inline(always)]
    unsafe fn word_at(address: usize) -> &'h Shared<usize, A> {
        // SAFETY: as the caller guarantees; the words are initialised.
        unsafe { Shared::at(core::ptr::with_exposed_provenance_mut(address)) }
    }

    /// Whether a chunk is in the pool. Exact only while no other thread uses it.
    pub fn has(self, chunk: usize) -> bool {
        self.word(chunk / WORD_CHUNKS).load(Relaxed) >> (chunk % WORD_CHUNKS) & 1 != 0
    }

    /// Takes a run from the first one that is longer by `slack`; returns its first chunk, which `place` chooses among
    /// the first `slack` and one, given the first of them.
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
        if run + slack > WORD_CHUNKS {
            let first = place(self.find_long(run + slack)?);
            return if self.claim(first, run) { Ok(first) } else { Err(Missed::Contended) };
        }
        self.take_short(Shifts::<5>::of(run + slack), run, place, |_| run).map(|taken| taken.start)
    }

    /// Takes a run of 1 to 4 chunks, and up to `most` chunks where those behind it in the same word are in the pool.
    ///
    /// # Errors
    ///
    /// [`Missed`].
    ///
    /// # Time
    ///
    /// As [`take`](Self::take), in fewer instructions.
    #[inline(always)]
    pub fn take_piece(self, run: usize, most: usize) -> Result<Range<usize>, Missed> {
        self.take_short(Shifts::<2>::of(run), run, |first| first, |first| self.run_at(first).min(most).max(run))
    }

    /// Takes one of the first short runs: `place` chooses its first chunk, and `longest` how many chunks to take from
    /// there. If others change its words meanwhile, tries once more, for `run` chunks.
    #[inline(always)]
    fn take_short<const N: usize>(
        self,
        shifts: Shifts<N>,
        run: usize,
        place: impl Fn(usize) -> usize,
        longest: impl Fn(usize) -> usize,
    ) -> Result<Range<usize>, Missed> {
        let (index, begins) = self.find_short(shifts)?;
        let first = place(index * WORD_CHUNKS + begins.trailing_zeros() as usize);
        let longer = longest(first);
        if self.claim_short(first, longer) {
            return Ok(first..first + longer);
        }
        let after = if index + 1 < self.count { self.word(index + 1).load(Relaxed) } else { 0 };
        let begins = shifts.begins(self.word(index).load(Relaxed), after);
        let first = place(index * WORD_CHUNKS + begins.trailing_zeros() as usize);
        if begins != 0 && self.claim_short(first, run) { Ok(first..first + run) } else { Err(Missed::Contended) }
    }

    /// Chunks in the pool from this one on, as far as its word goes.
    #[inline(always)]
    fn run_at(self, chunk: usize) -> usize {
        let here = self.word(chunk / WORD_CHUNKS).load(Relaxed) & ALL;
        here.wrapping_shr((chunk % WORD_CHUNKS) as u32).trailing_ones() as usize
    }

    /// Finds the first short runs: the word where they begin, and its chunks where one does.
    #[inline(always)]
    fn find_short<const N: usize>(self, shifts: Shifts<N>) -> Result<(usize, usize), Missed> {
        let mut versions = 0_usize;
        // A word, and the index of the one after it.
        let (mut word, mut index) = (self.word(0).load(Relaxed), 1);
        while index < self.count {
            loop_bound!(LoopBound::Words);
            let after = self.word(index).load(Relaxed);
            let begins = shifts.begins(word, after);
            if begins != 0 {
                return Ok((index - 1, begins));
            }
            versions = versions.wrapping_add(word / GIVEN);
            index = next(index);
            word = after;
        }
        let begins = shifts.begins(word, 0);
        if begins == 0 { Err(self.missed(versions.wrapping_add(word / GIVEN))) } else { Ok((index - 1, begins)) }
    }

    /// Finds the first run of so many chunks, more than a word has.
    #[inline(always)]
    fn find_long(self, run: usize) -> Result<usize, Missed> {
        let (mut index, mut versions, mut before) = (0, 0_usize, 0);
        while index < self.count {
            loop_bound!(LoopBound::Words);
            let word = self.word(index).load(Relaxed);
            let here = word & ALL;
            if before + here.trailing_ones() as usize >= run {
                return Ok(index * WORD_CHUNKS - before);
            }
            // The free chunks at the end of this word, and of those before it.
            before = if here == ALL { before + WORD_CHUNKS } else { (here << WORD_CHUNKS).leading_ones() as usize };
            versions = versions.wrapping_add(word / GIVEN);
            index = next(index);
        }
        Err(self.missed(versions))
    }

    /// Why a search found no run in words whose versions have this sum.
    #[inline(always)]
    fn missed(self, versions: usize) -> Missed {
        if versions == self.versions() { Missed::Exhausted } else { Missed::Contended }
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

    /// Takes these chunks, if all are in the pool. May fail also if others take or give back chunks meanwhile.
    ///
    /// # Time
    ///
    /// Linear in the words that have one of them: [`claim_steps`].
    #[inline(always)]
    pub fn claim(self, first: usize, run: usize) -> bool {
        if run > WORD_CHUNKS { self.claim_long(first, run) } else { self.claim_short(first, run) }
    }

    /// As [`claim`](Self::claim), for a short run.
    #[inline(never)]
    fn claim_short(self, first: usize, run: usize) -> bool {
        let (index, [here, after]) = parts(first, run);
        if !self.claim_in(index, here) {
            return false;
        }
        if after != 0 && !self.claim_in(index + 1, after) {
            self.give_in(index, here);
            return false;
        }
        true
    }

    /// As [`claim`](Self::claim), for a longer run.
    #[inline(never)]
    fn claim_long(self, first: usize, run: usize) -> bool {
        let span = Span::of(first, run);
        if !self.claim_in(span.first, span.head) {
            return false;
        }
        let mut index = next(span.first);
        while index < span.last && self.claim_in(index, ALL) {
            loop_bound!(LoopBound::Words);
            index = next(index);
        }
        if index == span.last && self.claim_in(index, span.tail) {
            return true;
        }
        self.give_words(next(span.first), index);
        // Last, as in `give_long`: the stores are visible to all when this is.
        self.give_in(span.first, span.head);
        false
    }

    /// Takes all chunks of a word that are in the pool, and returns them as bits; none if another thread changes the word
    /// meanwhile.
    pub fn claim_all_in(self, index: usize) -> usize {
        let chunks = self.word(index).load(Relaxed) & ALL;
        if chunks != 0 && self.claim_in(index, chunks) { chunks } else { 0 }
    }

    /// Takes chunks of one word, if all are in the pool.
    #[inline(always)]
    fn claim_in(self, index: usize, chunks: usize) -> bool {
        let word = self.word(index);
        let value = word.load(Relaxed);
        // Acquire: the chunks are used after they were given back.
        value & chunks == chunks && word.compare_exchange(value, value - chunks, Acquire).is_ok()
    }

    /// Gives chunks back.
    ///
    /// # Time
    ///
    /// Linear in the words that have one of them: [`give_steps`].
    #[inline(always)]
    pub fn give(self, first: usize, run: usize) {
        if run > WORD_CHUNKS { self.give_long(first, run) } else { self.give_short(first, run) }
    }

    /// Gives back a short run.
    ///
    /// # Time
    ///
    /// Constant: at most 2 fetch-and-adds.
    #[inline(always)]
    pub fn give_short(self, first: usize, run: usize) {
        let (index, [here, after]) = parts(first, run);
        self.give_in(index, here);
        if after != 0 {
            self.give_in(index + 1, after);
        }
    }

    /// As [`give`](Self::give), for a run that is not short.
    #[inline(never)]
    fn give_long(self, first: usize, run: usize) {
        let span = Span::of(first, run);
        self.give_in(span.first, span.head);
        self.give_words(next(span.first), span.last);
        self.give_in(span.last, span.tail);
    }

    /// Gives back all chunks of the words `from..to`.
    #[inline(always)]
    fn give_words(self, from: usize, to: usize) {
        // Counted up to 0, which needs no comparison.
        let (end, mut index) = (self.word_address(to), from.wrapping_sub(to));
        while index != 0 {
            loop_bound!(LoopBound::Words);
            // SAFETY: `from` is at most `to`, at most the number of words.
            let word = unsafe { Self::word_at(end.wrapping_add(index.wrapping_mul(size_of::<usize>()))) };
            let value = word.load(Relaxed).wrapping_add(GIVEN.wrapping_add(ALL));
            // No other thread changes a word all of whose chunks have one owner. Release: as in `give_in`.
            word.store(value, Release);
            index = next(index);
        }
    }

    /// Gives back chunks of one word.
    #[inline(always)]
    pub fn give_in(self, index: usize, chunks: usize) {
        // Release: everything that was done with the chunks comes before their next use.
        self.word(index).fetch_add(GIVEN.wrapping_add(chunks), Release);
    }
}

/// The chunks of a short run, which is not empty: the first word that has some, those of it, and those of the next one.
#[inline(always)]
fn parts(first: usize, run: usize) -> (usize, [usize; 2]) {
    let chunks = (1_usize.wrapping_shl(run as u32).wrapping_sub(1)).wrapping_shl((first % WORD_CHUNKS) as u32);
    (computed((first / WORD_CHUNKS) as u64) as usize, [chunks & ALL, chunks >> WORD_CHUNKS])
}

/// The words that have chunks of a run, more than one word has.
struct Span {
    first: usize,
    last: usize,
    /// The run's chunks in the first word.
    head: usize,
    /// The run's chunks in the last word.
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

/// How far to shift two words, again and again, until the set bits are those where a run of at most 2^N chunks begins.
#[derive(Clone, Copy)]
struct Shifts<const N: usize>([u32; N]);

impl<const N: usize> Shifts<N> {
    #[inline(always)]
    fn of(run: usize) -> Self {
        const { assert!(WORD_CHUNKS <= 32 && N <= 5) }
        // A run of `length` is known; each shift at most doubles it.
        Shifts(core::array::from_fn(|step| (1 << step).min(run.saturating_sub(1 << step)) as u32))
    }

    /// The chunks of a word where a run begins, which may end in the next word.
    #[inline(always)]
    fn begins(self, word: usize, after: usize) -> usize {
        let both = word & ALL | after << WORD_CHUNKS;
        self.0.iter().fold(both, |places, &shift| places & places.wrapping_shr(shift)) & ALL
    }
}

/// Most words that have one of so many consecutive chunks.
#[inline(always)]
const fn words_of(run: usize) -> usize {
    run.saturating_add(2 * WORD_CHUNKS - 2) / WORD_CHUNKS
}

/// Most steps of [`Pool::give`].
pub fn give_steps(run: usize) -> Steps {
    let words = words_of(run);
    let whole = words.saturating_sub(2);
    Steps { read_modify_writes: words - whole, loads: whole, stores: whole }
}

/// Most steps of [`Pool::claim`].
pub fn claim_steps(run: usize) -> Steps {
    let words = words_of(run);
    Steps { read_modify_writes: words, loads: words, stores: 0 } + give_steps(run)
}

/// Most steps of [`Pool::take`] from a pool of so many words, of so many chunks with the slack.
pub fn take_steps(words: usize, run: usize) -> Steps {
    let missed = Steps { read_modify_writes: words, loads: 0, stores: 0 };
    let again = if run > WORD_CHUNKS {
        Steps::default()
    } else {
        // What follows the run; the two words again.
        Steps { read_modify_writes: 0, loads: 3, stores: 0 } + claim_steps(run)
    };
    Steps { read_modify_writes: 0, loads: words, stores: 0 } + missed.max(claim_steps(run) + again)
}

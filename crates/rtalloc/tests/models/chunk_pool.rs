//! The pool of chunks by itself: takers of runs that cross words, and of single chunks.

use crate::controls::Model;
use crate::scene::{self, Loomed};
use rtalloc::concurrent::pooled_arenas::pool::{Missed, Pool, WORD_CHUNKS, claim_steps, give_steps, take_steps};
use std::ops::Range;
use std::ptr::NonNull;

/// Words of a pool, unless a model needs more.
const WORDS: usize = 2;
const CHUNK_BYTES: usize = 16;
const CHUNKS: usize = WORDS * WORD_CHUNKS;
/// The words of the largest pool, then its chunks.
const REGION_BYTES: usize = 4 * (size_of::<usize>() + WORD_CHUNKS * CHUNK_BYTES);

/// A pool, and the memory of its chunks.
#[derive(Clone, Copy)]
struct Chunks {
    words: usize,
    pool: Pool<'static, Loomed>,
    memory: NonNull<u8>,
}

impl Chunks {
    /// In a fresh region, which threads will share: a pool that has these chunks.
    fn new(has: impl Fn(usize) -> bool) -> Self {
        Self::in_words(WORDS, 0, has)
    }

    /// As [`new`](Self::new), with `words` words, each of this version.
    fn in_words(words: usize, version: usize, has: impl Fn(usize) -> bool) -> Self {
        let start = NonNull::from(scene::region()).cast::<u8>();
        start.expose_provenance();
        for word in 0..words {
            let bits = (0..WORD_CHUNKS).filter(|bit| has(word * WORD_CHUNKS + bit)).map(|bit| 1 << bit).sum::<usize>();
            // SAFETY: the words are at the region's start, aligned.
            unsafe { start.cast::<usize>().add(word).write(version << WORD_CHUNKS | bits) };
        }
        // SAFETY: the words are initialised, and used only as a pool; the chunks follow.
        let chunks = unsafe {
            let memory = start.add((words * size_of::<usize>()).next_multiple_of(CHUNK_BYTES));
            Chunks { words, pool: Pool::at(start.addr().get(), words), memory }
        };
        scene::share();
        chunks
    }

    fn memory_of(self, first: usize) -> NonNull<u8> {
        // SAFETY: the chunk is in the region.
        unsafe { self.memory.add(first * CHUNK_BYTES) }
    }

    fn own(self, first: usize, run: usize) {
        scene::own(self.memory_of(first), run * CHUNK_BYTES);
    }

    fn take(self, run: usize) -> Result<usize, Missed> {
        let answer = scene::measured(Some(take_steps(self.words, run)), || self.pool.take(run, 0, |first| first));
        answer.inspect(|&first| self.own(first, run))
    }

    fn claim(self, first: usize, run: usize) -> bool {
        let is_taken = scene::measured(Some(claim_steps(run)), || self.pool.claim(first, run));
        if is_taken {
            self.own(first, run);
        }
        is_taken
    }

    fn take_piece(self, run: usize, most: usize) -> Result<Range<usize>, Missed> {
        let answer = scene::measured(Some(take_steps(self.words, most)), || self.pool.take_piece(run, most));
        answer.inspect(|chunks| self.own(chunks.start, chunks.len()))
    }

    fn give(self, first: usize, run: usize) {
        scene::disown(self.memory_of(first), run * CHUNK_BYTES);
        scene::measured(Some(give_steps(run)), || self.pool.give(first, run));
    }

    /// All threads have ended: the pool has these chunks, and no other.
    fn close(self, has: impl Fn(usize) -> bool) {
        scene::gather();
        if !scene::is_void() {
            assert!(
                (0..self.words * WORD_CHUNKS).all(|chunk| self.pool.has(chunk) == has(chunk)),
                "a chunk was lost, or is there twice"
            );
        }
    }
}

/// A run is in the pool at every moment, first at the end, then at the start: no search may find that there is none.
fn one_is_there<const RUN: usize>() {
    const { assert!(RUN <= WORD_CHUNKS) }
    let chunks = Chunks::new(|chunk| chunk >= CHUNKS - RUN);
    chunks.own(0, RUN);
    let other = loom::thread::spawn(move || {
        chunks.give(0, RUN);
        chunks.claim(CHUNKS - RUN, RUN)
    });
    let mine = chunks.take(RUN);
    let is_claimed = other.join().expect("the thread ends");
    assert!(scene::is_void() || mine != Err(Missed::Exhausted), "exhausted, while a run was there all the time");
    chunks.close(|chunk| {
        chunk < RUN && mine != Ok(0) || chunk >= CHUNKS - RUN && !is_claimed && mine != Ok(CHUNKS - RUN)
    });
}

/// The first chunk of a run that crosses the words is taken; the rest is long enough at every moment.
fn one_end_is_taken() {
    const RUN: usize = 4;
    const FIRST: usize = WORD_CHUNKS - 3;
    let chunks = Chunks::new(|chunk| (FIRST..FIRST + RUN + 1).contains(&chunk));
    let other = loom::thread::spawn(move || chunks.take(1));
    let mine = chunks.take(RUN);
    let short = other.join().expect("the thread ends");
    assert!(scene::is_void() || mine != Err(Missed::Exhausted), "exhausted, while a run was there all the time");
    let is_taken = |chunk| mine.is_ok_and(|at| (at..at + RUN).contains(&chunk)) || short == Ok(chunk);
    chunks.close(|chunk| (FIRST..FIRST + RUN + 1).contains(&chunk) && !is_taken(chunk));
}

/// Two threads take runs that cross the words and overlap, and give them back; one after the other has room.
fn runs_overlap() {
    const RUN: usize = 4;
    let chunks = Chunks::new(|chunk| (WORD_CHUNKS - 3..WORD_CHUNKS + 3).contains(&chunk));
    let turn = move |run: usize| match chunks.take(run) {
        Ok(first) => chunks.give(first, run),
        Err(missed) => assert!(scene::is_void() || missed == Missed::Contended || run == RUN),
    };
    let other = loom::thread::spawn(move || turn(RUN));
    turn(RUN);
    turn(1);
    other.join().expect("the thread ends");
    chunks.close(|chunk| (WORD_CHUNKS - 3..WORD_CHUNKS + 3).contains(&chunk));
}

/// Two threads take the only chunk and give it back.
fn the_same_chunk() {
    let chunks = Chunks::new(|chunk| chunk == 0);
    let turn = move || {
        if let Ok(first) = chunks.take(1) {
            chunks.give(first, 1);
        }
    };
    let other = loom::thread::spawn(turn);
    turn();
    other.join().expect("the thread ends");
    chunks.close(|chunk| chunk == 0);
}

/// A thread takes a piece of up to 3 chunks, while another takes one of them and gives it back: at every moment, a
/// chunk is there.
fn longer_piece() {
    let chunks = Chunks::new(|chunk| (1..4).contains(&chunk));
    let other = loom::thread::spawn(move || {
        if let Ok(first) = chunks.take(1) {
            chunks.give(first, 1);
        }
    });
    let mine = chunks.take_piece(1, 3);
    other.join().expect("the thread ends");
    assert!(scene::is_void() || mine != Err(Missed::Exhausted), "exhausted, while a chunk was there all the time");
    if let Ok(chunks) = &mine {
        assert!(scene::is_void() || [1, 3].contains(&chunks.len()), "a piece of {} chunks", chunks.len());
    }
    let taken = mine.unwrap_or(0..0);
    chunks.close(|chunk| (1..4).contains(&chunk) && !taken.contains(&chunk));
}

/// Two threads take pieces of 2 or more chunks from 5 that cross the words, and give them back.
fn pieces_overlap() {
    const ALL: Range<usize> = WORD_CHUNKS - 2..WORD_CHUNKS + 3;
    let chunks = Chunks::new(|chunk| ALL.contains(&chunk));
    let turn = move |run: usize| {
        if let Ok(taken) = chunks.take_piece(run, 4) {
            assert!(scene::is_void() || (run..=4).contains(&taken.len()), "{} chunks", taken.len());
            chunks.give(taken.start, taken.len());
        }
    };
    let other = loom::thread::spawn(move || turn(2));
    turn(3);
    other.join().expect("the thread ends");
    chunks.close(|chunk| ALL.contains(&chunk));
}

/// A thread gives back a whole word and a chunk of the next one, while another searches for a run of both.
fn whole_word() {
    const RUN: usize = WORD_CHUNKS + 1;
    let chunks = Chunks::new(|chunk| chunk == WORD_CHUNKS + 1);
    chunks.own(0, RUN);
    let other = loom::thread::spawn(move || chunks.give(0, RUN));
    let mine = [chunks.take(RUN), chunks.take(1)];
    other.join().expect("the thread ends");
    let taken = mine.map(|answer| answer.map_or(0..0, |first| first..first + 1));
    let [long, short] = taken;
    let long = if long.is_empty() { 0..0 } else { long.start..long.start + RUN };
    chunks.close(|chunk| chunk <= WORD_CHUNKS + 1 && !long.contains(&chunk) && !short.contains(&chunk));
}

/// The last chunk of the first word, all of the second one, and the first of the third.
const THREE_WORDS: Range<usize> = WORD_CHUNKS - 1..2 * WORD_CHUNKS + 1;

/// A thread gives these chunks back, while another one takes the second word, and gives that back.
fn three_words() {
    let chunks = Chunks::in_words(3, 0, |_| false);
    chunks.own(THREE_WORDS.start, THREE_WORDS.len());
    let other = loom::thread::spawn(move || chunks.give(THREE_WORDS.start, THREE_WORDS.len()));
    if chunks.claim(WORD_CHUNKS, WORD_CHUNKS) {
        chunks.give(WORD_CHUNKS, WORD_CHUNKS);
    }
    let mine = chunks.take(WORD_CHUNKS);
    other.join().expect("the thread ends");
    let taken = mine.map_or(0..0, |first| first..first + WORD_CHUNKS);
    chunks.close(|chunk| THREE_WORDS.contains(&chunk) && !taken.contains(&chunk));
}

/// The three words lack a chunk, which a thread gives back; then it takes another chunk of the same word. Meanwhile a
/// second thread takes all of them, and gives them back. What the first thread did with its chunk comes before that
/// chunk's next use.
fn three_words_but_one() {
    const LACKING: usize = WORD_CHUNKS + 1;
    let chunks = Chunks::in_words(3, 0, |chunk| THREE_WORDS.contains(&chunk) && chunk != LACKING);
    chunks.own(LACKING, 1);
    let other = loom::thread::spawn(move || {
        chunks.give(LACKING, 1);
        chunks.claim(LACKING + 1, 1)
    });
    if let Ok(first) = chunks.take(THREE_WORDS.len()) {
        chunks.give(first, THREE_WORDS.len());
    }
    let is_claimed = other.join().expect("the thread ends");
    chunks.close(|chunk| THREE_WORDS.contains(&chunk) && !(is_claimed && chunk == LACKING + 1));
}

/// One thread takes a run in three words, another one its last chunk: at most one succeeds, and what the loser took
/// goes back.
fn three_words_overlap() {
    const LAST: usize = THREE_WORDS.end - 1;
    let chunks = Chunks::in_words(3, 0, |chunk| THREE_WORDS.contains(&chunk));
    let other = loom::thread::spawn(move || chunks.claim(LAST, 1));
    let is_mine = chunks.claim(THREE_WORDS.start, THREE_WORDS.len());
    let is_others = other.join().expect("the thread ends");
    assert!(scene::is_void() || !(is_mine && is_others), "a chunk was taken twice");
    // If the run was lost, its first words are in the pool again.
    let whole = scene::is_void() || is_mine || chunks.claim(WORD_CHUNKS, WORD_CHUNKS);
    assert!(whole, "chunks of a run that was lost did not come back");
    let middle = WORD_CHUNKS..2 * WORD_CHUNKS;
    let is_taken = |chunk| is_mine || middle.contains(&chunk) || is_others && chunk == LAST;
    chunks.close(|chunk| THREE_WORDS.contains(&chunk) && !is_taken(chunk));
}

/// As [`one_is_there`], where the run that is given back is one of three words, and the search is for a word's chunks.
fn a_long_run_is_there<const VERSION: usize>() {
    const LAST: usize = 3 * WORD_CHUNKS;
    let chunks = Chunks::in_words(4, VERSION, |chunk| chunk >= LAST);
    chunks.own(THREE_WORDS.start, THREE_WORDS.len());
    let other = loom::thread::spawn(move || {
        chunks.give(THREE_WORDS.start, THREE_WORDS.len());
        chunks.claim(LAST, WORD_CHUNKS)
    });
    let mine = chunks.take(WORD_CHUNKS);
    let is_claimed = other.join().expect("the thread ends");
    assert!(scene::is_void() || mine != Err(Missed::Exhausted), "exhausted, while a run was there all the time");
    let taken = mine.map_or(0..0, |first| first..first + WORD_CHUNKS);
    chunks.close(|chunk| (THREE_WORDS.contains(&chunk) || chunk >= LAST && !is_claimed) && !taken.contains(&chunk));
}

/// All of them.
pub fn models() -> [Model; 13] {
    let model = |name, execution| Model {
        name,
        region_bytes: REGION_BYTES,
        preemptions: None,
        stores_are_ordered: false,
        execution,
    };
    [
        model("one is there", one_is_there::<1>),
        model("one word is there", one_is_there::<WORD_CHUNKS>),
        model("one end is taken", one_end_is_taken),
        model("the same chunk", the_same_chunk),
        model("runs overlap", runs_overlap).within(3, 4),
        model("a whole word", whole_word),
        model("three words", three_words),
        model("three words but one", three_words_but_one),
        model("three words overlap", three_words_overlap),
        model("a long run is there", a_long_run_is_there::<0>),
        model("a long run is there, given before", a_long_run_is_there::<1>),
        model("a longer piece", longer_piece),
        model("pieces overlap", pieces_overlap).within(3, 4),
    ]
}

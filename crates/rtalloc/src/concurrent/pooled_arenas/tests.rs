//! White-box tests of pooled arenas: one side interrupted by others at every step, what slots withhold from each other,
//! and which misuse is found.

extern crate std;
use super::remote_queue::{PendingBits, Pushed};
use super::*;
use crate::adapt::cached::Remains;
use crate::adapt::{Bounded, CurrentSlot, Global, Memory, Numbered};
use crate::concurrent::LINE_BYTES;
use crate::concurrent::atomics::{Listener, Step, WithListener};
use crate::contract::{AllocError, Claim, Misuse, MisuseKind, SharedError, Slot};
use crate::hook::set_misuse_hook;
use crate::mechanism::segregated::RoundUp;
use crate::mechanism::stats::NoStats;
use crate::mechanism::validation::BasicSettingAside;
use crate::mechanism::word::Wide;
use core::iter::from_fn;
use core::mem::offset_of;
use std::boxed::Box;
use std::cell::RefCell;
use std::sync::Once;
use std::{vec, vec::Vec};

type Heap = PooledArenas<'static, Tlsf<'static>, WithListener<Script>>;
type User<'h> = Claim<'h, 'static, Heap>;

/// Bytes of a chunk in most tests: the fewest, so that a small region has several words of chunks.
const CHUNK: usize = LEAST_CHUNK_BYTES;

/// An action before a step of an operation; steps are numbered from 0.
struct Interruption<'a> {
    step: usize,
    act: Box<dyn FnOnce() + 'a>,
}

std::thread_local! {
    static STEPS: Cell<Steps> = const { Cell::new(Steps { read_modify_writes: 0, loads: 0, stores: 0 }) };
    static SCRIPT: RefCell<Vec<Interruption<'static>>> = const { RefCell::new(Vec::new()) };
    static REPORTS: RefCell<Vec<Misuse>> = const { RefCell::new(Vec::new()) };
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// Counts steps, and runs the actions of the script before them.
#[derive(Clone, Copy, Default)]
struct Script;

// SAFETY: a panic fails the test, and the heap is not used after it.
unsafe impl Listener for Script {
    fn before(step: Step) {
        let mut steps = STEPS.get();
        let due = || SCRIPT.with_borrow_mut(|script| script.pop_if(|next| next.step == steps.total()));
        while let Some(Interruption { act, .. }) = due() {
            // Steps of the action are not counted for the operation, and later actions do not interrupt this one.
            let later = SCRIPT.take();
            act();
            SCRIPT.set(later);
        }
        match step {
            Step::Load => steps.loads += 1,
            Step::Store => steps.stores += 1,
            Step::Modify(_) | Step::CompareExchange => steps.read_modify_writes += 1,
        }
        STEPS.set(steps);
    }
}

/// Runs an operation, interrupted before the steps of the script, in order; returns its own steps.
fn steps_of<'a, const COUNT: usize>(
    script: [(usize, Box<dyn FnOnce() + 'a>); COUNT],
    operation: impl FnOnce(),
) -> Steps {
    let script: Vec<_> = script.into_iter().rev().map(|(step, act)| Interruption { step, act }).collect();
    // SAFETY: the rest of the script is dropped before this returns.
    SCRIPT.set(unsafe { core::mem::transmute::<Vec<Interruption<'_>>, Vec<Interruption<'static>>>(script) });
    STEPS.set(Steps::default());
    operation();
    SCRIPT.set(Vec::new());
    STEPS.get()
}

fn config(slots: usize, chunk_bytes: usize) -> PooledArenasConfig {
    PooledArenasConfig { slots, chunk_bytes, ..Default::default() }
}

/// A heap with so many chunks, in memory that is never freed, or was that of the test's last heap.
fn heap(chunks: usize, config: PooledArenasConfig) -> Heap {
    std::thread_local! {
        static MEMORY: NonNull<[MaybeUninit<u64>]> = NonNull::from(vec![MaybeUninit::new(!0); 1 << 14].leak());
    }
    let memory = MEMORY.with(|memory| *memory);
    let len_bytes = Heap::layout(chunks, config.chunk_bytes, config.slots).unwrap().front_bytes;
    // The control structure begins with a cache line, and ends where a chunk may begin.
    let ends_at = (memory.addr().get() + len_bytes).next_multiple_of(config.chunk_bytes.max(LINE_BYTES));
    let len_bytes = len_bytes + chunks * config.chunk_bytes;
    let skipped = ends_at + chunks * config.chunk_bytes - len_bytes - memory.addr().get();
    assert!(skipped + len_bytes <= memory.len() * size_of::<u64>());
    // SAFETY: the memory is as long, and a test has one heap at a time.
    let region =
        unsafe { core::slice::from_raw_parts_mut(memory.as_ptr().cast::<MaybeUninit<u8>>().add(skipped), len_bytes) };
    let heap = Heap::new(region, config).unwrap();
    assert_eq!(heap.view().plan().chunks, chunks);
    heap
}

fn state(heap: &mut Heap) -> Vec<usize> {
    heap.check().unwrap();
    let mut words = vec![];
    heap.fingerprint(&mut |word| words.push(word));
    words
}

/// The state after every slot has taken back its blocks and given back its spare.
fn settled(heap: &mut Heap) -> Vec<usize> {
    heap.check().unwrap();
    for slot in 0..heap.slots() {
        let mut user = heap.claim(slot).unwrap();
        while user.reclaim(usize::MAX) != 0 {}
    }
    state(heap)
}

/// Frees a block through a slot, whichever slot owns it.
fn free(user: &mut User<'_>, block: NonNull<u8>) {
    // SAFETY: the tests free live blocks, or misuse the heap on purpose.
    unsafe { user.deallocate(block) }
}

fn resize(user: &mut User<'_>, block: NonNull<u8>, size_bytes: usize) -> Result<NonNull<u8>, SharedError> {
    // SAFETY: the tests resize live blocks, or misuse the heap on purpose.
    unsafe { user.reallocate_bytes(block, size_bytes, 8) }
}

fn blocks<const COUNT: usize>(user: &mut User<'_>) -> [NonNull<u8>; COUNT] {
    [(); COUNT].map(|()| user.allocate_bytes(100, 8).unwrap())
}

fn at(block: NonNull<u8>) -> usize {
    block.addr().get()
}

/// How many chunks are not in the pool.
fn outside(heap: &Heap) -> usize {
    (0..heap.view().plan().chunks).filter(|&chunk| !heap.view().pool().has(chunk)).count()
}

/// The misuse reported on this thread since the last call.
fn reports() -> Vec<(MisuseKind, usize)> {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| set_misuse_hook(Some(|misuse| REPORTS.with_borrow_mut(|reports| reports.push(*misuse)))));
    REPORTS.take().into_iter().map(|misuse| (misuse.kind, misuse.address)).collect()
}

#[test]
fn every_step_of_a_free_survives_its_owner() {
    let mut longest = Steps::default();
    // A piece for each block, or one for all.
    let cases = [128, 1024].into_iter().flat_map(|chunk| (0..9).map(move |step| (chunk, step)));
    for ((chunk_bytes, step), queued_before) in cases.flat_map(|case| (0..3).map(move |queued| (case, queued))) {
        for reclaim_budget in 1..4 {
            let mut heap = heap(10, config(2, chunk_bytes));
            let fresh = state(&mut heap);
            {
                let bound = heap.max_steps(Operation::Deallocate { size_bytes: 100, align_bytes: 8 }).unwrap();
                let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
                let [first, second, third] = blocks(&mut owner);
                [first, second][..queued_before].iter().for_each(|&block| free(&mut other, block));
                let act = Box::new(|| assert!(owner.reclaim(reclaim_budget) <= queued_before + 1));
                let steps = steps_of([(step, act)], || free(&mut other, third));
                assert!(steps.within(bound), "{steps:?}");
                longest = longest.max(steps);
                [first, second][queued_before..].iter().for_each(|&block| free(&mut other, block));
            }
            // Before the first step, between any two, after the last: no block is lost.
            assert_eq!(fresh, settled(&mut heap), "{queued_before} queued, {reclaim_budget} taken at step {step}");
        }
    }
    assert_eq!(longest, Steps { read_modify_writes: 2, loads: 2, stores: 3 }, "the documented steps are reached");
}

#[test]
fn every_step_of_taking_back_survives_two_producers() {
    let mut longest = 0;
    for (budget, first_step) in (1..5).flat_map(|budget| (0..40).map(move |step| (budget, step))) {
        for second_step in first_step..40 {
            // Each block has a piece of its own, which goes back with it.
            let mut heap = heap(10, config(3, 128));
            let fresh = state(&mut heap);
            {
                let bound = heap.max_steps(Operation::Reclaim { budget }).unwrap();
                let [mut owner, left, mut right] = [0, 1, 2].map(|slot| heap.claim(slot).unwrap());
                let (left, unsent) = (RefCell::new(left), RefCell::new(blocks::<5>(&mut owner).to_vec()));
                let send = |user: &mut User<'_>| free(user, unsent.borrow_mut().pop().unwrap());
                send(&mut left.borrow_mut());
                let both_by_one = Box::new(|| (0..2).for_each(|_| send(&mut left.borrow_mut())));
                let one_by_each = Box::new(|| (send(&mut left.borrow_mut()), send(&mut right)).0);
                let mut taken = 0;
                let script: [(usize, Box<dyn FnOnce() + '_>); 2] =
                    [(first_step, both_by_one), (second_step, one_by_each)];
                let steps = steps_of(script, || taken = owner.reclaim(budget));
                assert!(steps.within(bound), "{steps:?} for {taken} of {budget}");
                assert!((1..=budget).contains(&taken));
                longest = longest.max(steps.total());
                // Frees that came too late are found afterwards.
                let late = owner.reclaim(9);
                assert_eq!(late + taken + unsent.borrow().len(), 5, "at {first_step} and {second_step}");
                unsent.take().iter().for_each(|&block| free(&mut owner, block));
            }
            assert_eq!(fresh, settled(&mut heap), "{budget} taken back, frees at {first_step} and {second_step}");
        }
    }
    assert!((15..40).contains(&longest), "the script interrupts all steps: {longest}");
}

#[test]
fn producers_that_share_a_bit_are_all_found() {
    const PRODUCERS: usize = 5;
    type Listened = WithListener<Script>;
    for (step, late) in (0..16).flat_map(|step| (0..PRODUCERS).map(move |late| (step, late))) {
        let links: [Link<Listened>; 2 * PRODUCERS] = Default::default();
        let queues: [RemoteQueue<Listened>; PRODUCERS] = Default::default();
        let pending_bits = PendingBits::<Listened, 2>::new();
        let send = |number: usize| {
            let producer = number % PRODUCERS;
            let queued = QueuedFree::new(number as u32 + 1).unwrap();
            // SAFETY: there is no other user of this producer, and each free is pushed once.
            if unsafe { queues[producer].push(queued, &links[number]) } == Pushed::First {
                pending_bits.set(producer);
            }
        };
        (0..PRODUCERS).for_each(send);
        let mut seen = vec![];
        let mut act = Some(Box::new(|| send(PRODUCERS + late)));
        let bound = collect_steps(PRODUCERS, 2);
        while pending_bits.any() {
            let mut top = None;
            // SAFETY: there is one owner.
            let collect = || top = unsafe { pending_bits.collect(PRODUCERS, |producer| &queues[producer]) };
            let steps = match act.take() {
                Some(act) => steps_of([(step, act)], collect),
                None => steps_of([], collect),
            };
            assert!(steps.within(bound), "{steps:?}");
            while let Some(queued) = top {
                seen.push(queued.get() as usize - 1);
                assert!(seen.len() <= PRODUCERS + 1, "a queued free was collected twice: {seen:?}");
                top = links[queued.get() as usize - 1].next();
            }
        }
        seen.sort_unstable();
        let is_sent = seen.len() > PRODUCERS;
        let all: Vec<usize> = (0..PRODUCERS).chain(is_sent.then_some(PRODUCERS + late)).collect();
        assert_eq!(seen, all, "late free of {late} at step {step}");
    }
}

/// Producers that share a bit: one sets the bit for a free that was collected before. The bit leads to nothing, and
/// does not hide the free of another producer.
#[test]
fn a_pending_bit_set_late_hides_no_free() {
    let slots = usize::BITS as usize + 2;
    let mut heap = heap(10, config(slots, 128));
    let fresh = state(&mut heap);
    {
        let mut owner = heap.claim(1).unwrap();
        let [sample, first, second, third] = blocks::<4>(&mut owner);
        let mut other = heap.claim(9).unwrap();
        let undisturbed = steps_of([], || free(&mut other, sample)).total();
        assert_eq!(owner.reclaim(1), 1);
        free(&mut heap.claim(0).unwrap(), first);
        // The other producer of bit 0 is stopped between its push and setting the bit, the last step of a free.
        let mut late = heap.claim(slots - 2).unwrap();
        let act = Box::new(|| {
            assert_eq!(owner.reclaim(1), 1, "the free by slot 0");
            assert_eq!(owner.reclaim(1), 1, "the free that shares its bit, whose bit is not set yet");
            free(&mut heap.claim(5).unwrap(), third);
        });
        steps_of([(undisturbed - 1, act)], || free(&mut late, second));
        assert_eq!(owner.reclaim(2), 1, "after the bit that was set late");
        assert_eq!(owner.reclaim(2), 0);
    }
    assert_eq!(fresh, settled(&mut heap));
}

/// A block with one value in all of its bytes: an overlap with another block changes some.
struct Filled(NonNull<u8>, usize, u8);

impl Filled {
    fn verify(&self) {
        let &Filled(block, bytes, value) = self;
        // SAFETY: the block is live and initialised.
        let is_intact = unsafe { core::slice::from_raw_parts(block.as_ptr(), bytes) }.iter().all(|&byte| byte == value);
        assert!(is_intact, "block {value} overlaps with another one");
    }
}

/// Bytes that a slot allocates, unless 0, and which of the blocks that it has it frees then.
type Act = (usize, &'static [usize]);

/// A slot and its blocks: first one in a piece of three chunks, and a long one.
struct Side<'h>(User<'h>, Vec<Filled>);

impl Side<'_> {
    fn act(&mut self, (size_bytes, freed): Act) -> Result<(), SharedError> {
        let Side(user, held) = self;
        let block = if size_bytes == 0 { None } else { Some(user.allocate_bytes(size_bytes, 8)) };
        if let Some(Ok(block)) = block {
            // SAFETY: the block is live, and has as many bytes.
            let bytes = unsafe { user.usable_size(block) };
            held.push(Filled(block, bytes, (16 * user.number() + held.len()) as u8));
            // SAFETY: as above.
            unsafe { block.write_bytes(held[held.len() - 1].2, bytes) };
        }
        for &index in freed {
            held[index].verify();
            free(user, held.remove(index).0);
        }
        block.map_or(Ok(()), |block| block.map(|_| ()))
    }
}

/// One slot takes chunks or gives them back, while two others do so before any two of its steps.
#[test]
fn every_step_on_chunks_survives_two_slots() {
    const PIECE: Act = (40, &[]);
    const LONGER_PIECE: Act = (150, &[]);
    // More chunks than a word of the pool has.
    const LONG: Act = (40 * CHUNK, &[]);
    const FREE_LONG: Act = (0, &[1]);
    // Room for everything, and for little.
    let cases = [(240, true), (75, false)].into_iter();
    let acts = [PIECE, LONGER_PIECE, LONG, (0, &[0]), FREE_LONG];
    for ((chunks, is_ample), act) in cases.flat_map(|case| acts.map(|act| (case, act))) {
        let mut answers = vec![];
        for other in [PIECE, LONGER_PIECE, LONG, FREE_LONG, (150, &[1, 0])] {
            let (mut step, mut second_step) = (0, 0);
            loop {
                let mut heap = heap(chunks, config(3, CHUNK));
                let fresh = state(&mut heap);
                let [mut mine, left, right] = [0, 1, 2].map(|slot| {
                    let mut side = Side(heap.claim(slot).unwrap(), vec![]);
                    assert_eq!((side.act(LONGER_PIECE), side.act((20 * CHUNK, &[]))), (Ok(()), Ok(())));
                    side
                });
                // A spare, which an allocation from the pool gives back.
                assert_eq!(mine.act((8, &[2])), Ok(()));
                let (left, right) = (RefCell::new(left), RefCell::new(right));
                let interrupt = |side: &RefCell<Side<'_>>| {
                    // Served or refused: only the blocks matter.
                    let _ = side.borrow_mut().act(other);
                };
                let script: [(usize, Box<dyn FnOnce() + '_>); 2] =
                    [(step, Box::new(|| interrupt(&left))), (second_step, Box::new(|| interrupt(&right)))];
                let steps = steps_of(script, || answers.push(mine.act(act)));
                let bound = heap.max_steps(match act {
                    (0, _) => Operation::Deallocate { size_bytes: 20 * CHUNK, align_bytes: 8 },
                    (size_bytes, _) => Operation::Allocate { size_bytes, align_bytes: 8 },
                });
                assert!(steps.within(bound.unwrap()), "{act:?}: {steps:?}");
                let sides = [mine, left.into_inner(), right.into_inner()];
                let held: Vec<_> = sides.into_iter().flat_map(|Side(_, held)| held).collect();
                heap.check().unwrap();
                held.iter().for_each(Filled::verify);
                held.iter().for_each(|filled| free(&mut heap.claim(2).unwrap(), filled.0));
                assert_eq!(fresh, settled(&mut heap), "{act:?}, {other:?} at {step} and {second_step}");
                if steps.total() > second_step {
                    second_step += 1;
                } else if steps.total() > step {
                    (step, second_step) = (step + 1, step + 1);
                } else {
                    break;
                }
            }
        }
        let has = |error| answers.contains(&Err(error));
        // A search gives up when it has lost a long run, or two short ones.
        let may_be_refused = act.0 != 0 && !is_ample;
        assert!(may_be_refused || has(SharedError::Contended) == (act.0 != 0), "{act:?} of {chunks}");
        assert!(may_be_refused || !has(SharedError::Exhausted), "{act:?} of {chunks}: there is room at every moment");
        assert!(!has(SharedError::Pending) && answers.contains(&Ok(())));
    }
}

/// *Exhausted* is certain: chunks given back before the last look at their word are taken, or the request is contended.
#[test]
fn chunks_given_back_before_the_last_look_are_not_overlooked() {
    const WORDS: usize = 16;
    let full = || {
        let heap = heap(WORDS * WORD_CHUNKS - 3, config(2, CHUNK));
        let mut other = heap.claim(1).unwrap();
        let long: Vec<_> = from_fn(|| other.allocate_bytes(9 * CHUNK, 8).ok()).collect();
        assert!(from_fn(|| other.allocate_bytes(40, 8).ok()).count() < 9);
        drop(other);
        assert_eq!(outside(&heap), WORDS * WORD_CHUNKS - 3);
        (heap, long)
    };
    for (size_bytes, is_long) in [(9 * CHUNK, true), (40, false)] {
        let (heap, long) = full();
        let mut user = heap.claim(0).unwrap();
        let mut answer = None;
        let steps = steps_of([], || answer = Some(user.allocate_bytes(size_bytes, 8)));
        assert!(steps.within(heap.max_steps(Operation::Allocate { size_bytes, align_bytes: 8 }).unwrap()));
        // One look for queued frees, two at each word, another for queued frees, the count of refusals.
        assert_eq!((answer, steps.total()), (Some(Err(SharedError::Exhausted)), 1 + 2 * WORDS + 2));
        for (given, step) in (0..long.len()).flat_map(|given| (0..=steps.total()).map(move |step| (given, step))) {
            let (heap, long) = full();
            let (mut mine, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
            let first = heap.view().plan().chunk_at(at(long[given])).unwrap();
            let last_word = (first + 8) / WORD_CHUNKS;
            // The whole of a run that crosses words has to be there when the first is read; a chunk of it, the last.
            let found_in = if is_long { first / WORD_CHUNKS } else { last_word };
            let act = Box::new(|| free(&mut other, long[given]));
            steps_of([(step, act)], || answer = Some(mine.allocate_bytes(size_bytes, 8)));
            match answer.unwrap() {
                Ok(_) => assert!(step <= 1 + found_in, "{given} at {step}"),
                Err(error) => {
                    let is_seen = step <= 1 + WORDS + last_word;
                    let expected = if is_seen { SharedError::Contended } else { SharedError::Exhausted };
                    assert!(step > 1 + found_in && error == expected, "{given} at {step}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_piece_may_lie_in_two_words_and_a_block_of_whole_chunks_is_no_piece() {
    let mut heap = heap(2 * WORD_CHUNKS, config(2, CHUNK));
    let fresh = state(&mut heap);
    let (mut user, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
    let before = other.allocate_bytes((WORD_CHUNKS - 1) * CHUNK, 8).unwrap();
    let entry = |block| heap.view().entry_at(at(block)).unwrap();
    // Two chunks and a half, on both sides of the words' border.
    let crossing = user.allocate_bytes(5 * CHUNK / 2, 8).unwrap();
    assert_eq!(entry(crossing), (WORD_CHUNKS - 1, Entry::first(1, 3)));
    // As many chunks as the block has: a piece would need one more. At half a chunk, so would an aligned block.
    for (size_bytes, align_bytes, run) in [(2 * CHUNK, 8, 2), (CHUNK - 8, 8, 1), (CHUNK - 24, CHUNK / 2, 1)] {
        let long = user.allocate_bytes(size_bytes, align_bytes).unwrap();
        assert_eq!(entry(long), (WORD_CHUNKS + 2, Entry::first(Entry::LONG, run)), "{size_bytes}");
        free(&mut other, long);
    }
    free(&mut user, crossing);
    free(&mut user, before);
    drop((user, other));
    assert_eq!(fresh, state(&mut heap), "both words have their chunks again");
}

/// Chunks are aligned to their length, so the search for a request that is aligned to that or less is the same.
#[test]
fn an_alignment_up_to_a_chunk_changes_no_bound() {
    let heap = heap(100, config(2, CHUNK));
    let bound = |size_bytes, align_bytes| heap.max_steps(Operation::Allocate { size_bytes, align_bytes }).unwrap();
    for (size_bytes, log2) in (1..=80).flat_map(|chunks| (0..=6).map(move |log2| (chunks * CHUNK, log2))) {
        assert_eq!(bound(size_bytes, 1 << log2), bound(size_bytes, 1), "{size_bytes} B, aligned to 2^{log2}");
    }
}

#[test]
fn the_local_pair_takes_a_load_each() {
    let heap = heap(10, config(2, CHUNK));
    let mut user = heap.claim(0).unwrap();
    let one_load = Steps { loads: 1, ..Steps::default() };
    // The first block takes a piece, and others find it.
    let kept = user.allocate_bytes(8, 8).unwrap();
    let mut block = kept;
    assert_eq!(steps_of([], || block = user.allocate_bytes(20, 8).unwrap()), one_load);
    assert_eq!(steps_of([], || free(&mut user, block)), one_load);
    // Where the piece is empty then, it is the spare, which serves the next request.
    assert_eq!(steps_of([], || free(&mut user, kept)), one_load);
    assert_eq!(steps_of([], || assert_eq!(user.allocate_bytes(20, 8), Ok(kept))), one_load);
    assert_eq!(outside(&heap), 1);
}

#[test]
fn long_blocks_are_aligned_and_resized_in_place() {
    let mut heap = heap(200, config(3, CHUNK));
    let fresh = state(&mut heap);
    {
        let [mut first, mut second, mut third] = [0, 1, 2].map(|slot| heap.claim(slot).unwrap());
        for (log2, size_bytes) in (0..13).flat_map(|log2| [(log2, 1), (log2, 9 * CHUNK - 1)]) {
            let block = first.allocate_bytes(size_bytes, 1 << log2).unwrap();
            assert_eq!(at(block) % (1 << log2), 0);
            // SAFETY: the block is live.
            assert!(size_bytes == 1 || unsafe { second.usable_size(block) } == 9 * CHUNK);
            free(&mut first, block);
        }
        let invalid = |error| Err(SharedError::Request(error));
        assert_eq!(first.allocate_bytes(1, 1 << 14), invalid(AllocError::Alignment));
        assert_eq!(first.allocate_bytes(200 * CHUNK + 1, 1), invalid(AllocError::TooLarge));
        assert_eq!(first.allocate_bytes(200 * CHUNK, 4 * CHUNK), invalid(AllocError::TooLarge));
        first.reclaim(1);
        let block = first.allocate_bytes(10 * CHUNK, 8).unwrap();
        let content = |block: NonNull<u8>| block.cast::<[u8; 9 * CHUNK]>();
        // SAFETY: the block is live and as long.
        unsafe { content(block).write([0x5A; 9 * CHUNK]) };
        // By any slot, across words of the pool and back: what is beyond is any slot's at once.
        for chunks in [70, 9, 110, 10] {
            assert_eq!(resize(&mut second, block, chunks * CHUNK - 1), Ok(block));
            // SAFETY: the block is live.
            assert_eq!(unsafe { third.usable_size(block) }, chunks * CHUNK);
            let rest = third.allocate_bytes((200 - chunks) * CHUNK, 8).unwrap();
            assert_eq!(at(rest), at(block) + chunks * CHUNK);
            assert_eq!(resize(&mut first, block, (chunks + 1) * CHUNK), Err(SharedError::Exhausted));
            free(&mut first, rest);
        }
        // A neighbour is in the way, in the same word of the pool or the next one: the block moves.
        let [between, neighbour] = [40, 9].map(|chunks| third.allocate_bytes(chunks * CHUNK, 8).unwrap());
        for is_far in [false, true] {
            if is_far {
                free(&mut second, between);
            }
            let moved = resize(&mut second, block, 60 * CHUNK).unwrap();
            assert_eq!(at(moved), at(neighbour) + 9 * CHUNK);
            // SAFETY: the block is live, and its content as long.
            assert!(unsafe { content(moved).read() } == [0x5A; 9 * CHUNK]);
            assert_eq!(third.allocate_bytes(10 * CHUNK, 8), Ok(block), "its memory is any slot's at once");
            free(&mut first, moved);
            // SAFETY: as above.
            unsafe { content(block).write([0x5A; 9 * CHUNK]) };
        }
        free(&mut second, neighbour);
        let small = resize(&mut second, block, CHUNK / 2).unwrap();
        assert!(second.is_own(at(small)), "a block that would be small moves to a piece");
        free(&mut first, small);
    }
    assert_eq!(fresh, settled(&mut heap));
}

#[test]
fn a_long_block_is_freed_once() {
    let mut heap = heap(100, config(3, CHUNK));
    let fresh = state(&mut heap);
    assert_eq!(reports(), []);
    for step in 0..10 {
        let [mut first, mut second, mut third] = [0, 1, 2].map(|slot| heap.claim(slot).unwrap());
        // Across all words of the pool.
        let block = first.allocate_bytes(100 * CHUNK, 8).unwrap();
        let act = Box::new(|| free(&mut third, block));
        let steps = steps_of([(step, act)], || free(&mut second, block));
        let bound = heap.max_steps(Operation::Deallocate { size_bytes: 100 * CHUNK, align_bytes: 8 });
        assert!(steps.within(bound.unwrap()), "{steps:?}");
        // The interruption comes before any step of the free, or after its last one.
        if steps.total() <= step {
            free(&mut first, block);
        }
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(block))], "at step {step} of {steps:?}");
        drop((first, second, third));
        assert_eq!(fresh, state(&mut heap), "a second free changes nothing: {step}");
        let mut third = heap.claim(2).unwrap();
        assert_eq!(third.allocate_bytes(100 * CHUNK, 8), Ok(block), "another slot has it at once");
        free(&mut third, block);
    }
}

#[test]
fn slots_share_the_region_and_withhold_a_spare_each() {
    const CHUNKS: usize = 120;
    let mut heap = heap(CHUNKS, config(3, CHUNK));
    let fresh = state(&mut heap);
    for slot in 0..3 {
        assert_eq!(heap.largest_allocatable_by(slot), CHUNKS * CHUNK);
        let mut user = heap.claim(slot).unwrap();
        let whole = user.allocate_bytes(CHUNKS * CHUNK, 8).unwrap();
        free(&mut user, whole);
    }
    assert_eq!(heap.largest_allocatable_by(3), 0, "there is no such slot");
    heap.walk_by(3, &mut |block| panic!("{block:?}"));
    for slot in 0..3 {
        let mut user = heap.claim(slot).unwrap();
        // One block for each chunk that no other slot withholds.
        let small: Vec<_> = from_fn(|| user.allocate_bytes(40, 8).ok()).collect();
        assert_eq!((small.len(), outside(&heap)), (CHUNKS - slot, CHUNKS));
        drop(user);
        assert!(heap.largest_allocatable_by((slot + 1) % 3) <= CHUNK, "nothing, or its own spare");
        let mut user = heap.claim(slot).unwrap();
        // The first piece that becomes empty is the spare, whatever comes after.
        free(&mut user, small[0]);
        (1..small.len()).rev().for_each(|index| free(&mut user, small[index]));
        drop(user);
        assert_eq!(outside(&heap), slot + 1, "a spare for each slot that had blocks");
        for other in 0..3 {
            let is_last = usize::from(other == slot);
            assert_eq!(heap.largest_allocatable_by(other), (CHUNKS - slot - 1 + is_last) * CHUNK, "{other} of {slot}");
        }
    }
    // The request gives the spare back first, and so does `reclaim`.
    let mut user = heap.claim(2).unwrap();
    let long = user.allocate_bytes((CHUNKS - 2) * CHUNK, 8).unwrap();
    free(&mut user, long);
    assert_eq!(outside(&heap), 2);
    drop(user);
    assert_eq!(heap.claim(0).unwrap().reclaim(0), 0);
    assert_eq!(outside(&heap), 2, "a budget of 0 does nothing");
    assert_eq!(heap.claim(0).unwrap().reclaim(1), 0);
    assert_eq!(outside(&heap), 1);
    assert_eq!(fresh, settled(&mut heap));
}

#[test]
fn an_allocation_takes_back_as_many_blocks_as_configured() {
    let heap = heap(100, PooledArenasConfig { reclaim_budget: 7, ..config(2, CHUNK) });
    let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
    blocks::<10>(&mut owner).into_iter().for_each(|block| free(&mut other, block));
    // Each block has a piece of its own, which goes back with it; then the request takes another piece.
    let bound = heap.max_steps(Operation::Allocate { size_bytes: 200, align_bytes: 1 }).unwrap();
    let steps = steps_of([], || assert!(owner.allocate_bytes(200, 1).is_ok()));
    assert!(steps.within(bound) && steps.loads > 3 * 7, "{steps:?}, at most {bound:?}");
    assert_eq!(owner.reclaim(usize::MAX), 3);
}

#[test]
fn the_bound_of_an_unlimited_budget_saturates() {
    let heap = heap(10, PooledArenasConfig { reclaim_budget: usize::MAX, ..config(2, CHUNK) });
    let bound = heap.max_steps(Operation::Allocate { size_bytes: 1, align_bytes: 1 }).unwrap();
    assert_eq!((bound.read_modify_writes, bound.total()), (usize::MAX, usize::MAX));
}

#[test]
fn pending_is_not_exhausted() {
    const CHUNKS: usize = 30;
    let heap = heap(CHUNKS, PooledArenasConfig { reclaim_budget: 1, ..config(2, 512) });
    let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
    let all: Vec<_> = from_fn(|| owner.allocate_bytes(200, 8).ok()).collect();
    assert_eq!(all.len(), 2 * CHUNKS);
    assert_eq!(owner.allocate_bytes(200, 8), Err(SharedError::Exhausted));
    all.iter().for_each(|&block| free(&mut other, block));
    let whole = CHUNKS * 512;
    let bound = heap.max_steps(Operation::Allocate { size_bytes: whole, align_bytes: 1 }).unwrap();
    let mut refused = 0;
    loop {
        let mut answer = Err(SharedError::Contended);
        let steps = steps_of([], || answer = owner.allocate_bytes(whole, 1));
        assert!(steps.within(bound), "{steps:?}");
        match answer {
            Ok(block) => break free(&mut owner, block),
            Err(error) => assert_eq!(error, SharedError::Pending),
        }
        refused += 1;
    }
    assert_eq!(refused, all.len() - 1, "each request takes one block back");
    assert_eq!(owner.allocate_bytes(whole + 1, 1), Err(SharedError::Request(AllocError::TooLarge)));
    assert_eq!(owner.allocate_bytes(1, 3), Err(SharedError::Request(AllocError::Alignment)));
    // The one that ended the filling, and the one asserted after it.
    assert_eq!(heap.refusals(), Refusals { request: 2, exhausted: 2, contended: 0, pending: refused });
}

/// Blocks that four slots have queued are more than a request takes back: it is *pending*, as often as needed.
#[test]
fn what_is_left_in_queues_is_pending() {
    let heap = heap(20, PooledArenasConfig { reclaim_budget: 1, ..config(5, 128) });
    let mut owner = heap.claim(0).unwrap();
    // Each block has a chunk.
    let blocks: Vec<_> = from_fn(|| owner.allocate_bytes(100, 8).ok()).collect();
    assert_eq!(blocks.len(), 20);
    for (slot, block) in (1..).zip(&blocks[4..8]) {
        free(&mut heap.claim(slot).unwrap(), *block);
    }
    for _ in 0..3 {
        assert_eq!(owner.allocate_bytes(4 * 128, 8), Err(SharedError::Pending));
    }
    assert!(owner.allocate_bytes(4 * 128, 8).is_ok());
    assert_eq!(owner.allocate_bytes(4 * 128, 8), Err(SharedError::Exhausted));
}

/// *Exhausted* is certain: a free that was completed before the last look, after any step of the request, is either
/// taken back or answered with *pending*.
#[test]
fn a_free_before_the_last_look_is_not_overlooked() {
    let full = || {
        let heap = heap(20, config(2, 128));
        let blocks: Vec<_> = {
            let mut owner = heap.claim(0).unwrap();
            from_fn(|| owner.allocate_bytes(100, 8).ok()).collect()
        };
        (heap, blocks)
    };
    let (heap, _) = full();
    let mut owner = heap.claim(0).unwrap();
    let mut answer = None;
    let steps = steps_of([], || answer = Some(owner.allocate_bytes(100, 8))).total();
    assert_eq!(answer, Some(Err(SharedError::Exhausted)));
    for step in 0..steps {
        let (heap, blocks) = full();
        let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        let mut answer = None;
        let act = Box::new(|| free(&mut other, blocks[0]));
        steps_of([(step, act)], || answer = Some(owner.allocate_bytes(100, 8)));
        // The last step counts the refusal; the one before is the last look.
        let is_seen = step + 1 < steps;
        assert_eq!(answer != Some(Err(SharedError::Exhausted)), is_seen, "step {step} of {steps}: {answer:?}");
    }
}

#[test]
fn a_block_of_another_slot_is_resized_by_copying() {
    let mut heap = heap(20, config(2, 512));
    let fresh = state(&mut heap);
    {
        let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        let [block] = blocks(&mut owner);
        let invalid = |error| Err(SharedError::Request(error));
        // SAFETY: the block is live, here and below.
        unsafe {
            assert_eq!(other.usable_size(block), owner.usable_size(block));
            block.write_bytes(0x5A, 100);
            assert_eq!(resize(&mut other, block, 60), Ok(block), "a block that shrinks by less than half stays");
            assert_eq!(resize(&mut other, block, 0), invalid(AllocError::ZeroSize));
            assert_eq!(other.reallocate_bytes(block, 40, 3), invalid(AllocError::Alignment));
            assert_eq!(resize(&mut other, block, 20 * 512 + 1), invalid(AllocError::TooLarge));
            let moved = resize(&mut other, block, 300).unwrap();
            assert!(other.is_own(at(moved)) && !owner.is_own(at(moved)));
            assert!(core::slice::from_raw_parts(moved.as_ptr(), 100).iter().all(|&byte| byte == 0x5A));
            assert_eq!(owner.reclaim(9), 1, "the old block was queued");
            free(&mut owner, moved);
            assert_eq!(other.reclaim(9), 1);
        }
    }
    assert_eq!(fresh, settled(&mut heap));
}

/// One slot makes records in large buffers, in a piece or long ones, and another one keeps what they need.
#[test]
fn a_block_of_another_slot_that_shrinks_gives_its_memory_back() {
    const CHUNKS: usize = 100;
    for buffer_bytes in [3000, 4096] {
        let mut heap = heap(CHUNKS, config(2, 512));
        let fresh = state(&mut heap);
        {
            let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
            let mut records = vec![];
            while let Ok(buffer) = owner.allocate_bytes(buffer_bytes, 8) {
                // SAFETY: the block is live, with so many bytes.
                unsafe { buffer.write_bytes(records.len() as u8, buffer_bytes) };
                records.push(resize(&mut other, buffer, 16).unwrap());
            }
            assert!(records.len() > 1000, "{} records in {} B", records.len(), CHUNKS * 512);
            for (index, record) in records.into_iter().enumerate() {
                // SAFETY: the record has 16 bytes.
                assert_eq!(unsafe { record.cast::<[u8; 16]>().read() }, [index as u8; 16]);
                free(&mut other, record);
            }
        }
        assert_eq!(fresh, settled(&mut heap));
    }
}

#[test]
fn a_slot_passes_on_its_heap_its_chain_its_spare_and_its_queued_frees() {
    let mut heap = heap(20, config(2, 128));
    let fresh = state(&mut heap);
    {
        let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        assert!(heap.claim(0).is_none() && heap.claim_any().is_none() && heap.claim(2).is_none());
        let [kept, a, b, c, d] = blocks(&mut owner);
        [a, b, c].into_iter().for_each(|block| free(&mut other, block));
        assert_eq!(owner.reclaim(1), 1);
        free(&mut other, d);
        drop(owner);
        // Each block has a piece, and that of `d`, the last one taken, is the spare: that of `c` went back. The other
        // frees wait for the next user.
        assert_eq!(outside(&heap), 4);
        let mut next = heap.claim_any().unwrap();
        assert_eq!((next.number(), next.reclaim(9), outside(&heap)), (0, 3, 1));
        free(&mut next, kept);
        // Not the spare, which went back when nothing was left to take back.
        assert_eq!((outside(&heap), next.reclaim(9)), (0, 0));
    }
    assert_eq!(fresh, state(&mut heap));
}

#[test]
fn misuse_by_another_slot_is_found_as_far_as_it_can_be() {
    let mut heap = heap(30, config(2, 512));
    let fresh = state(&mut heap);
    {
        let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        let [a, b, c, d] = blocks(&mut owner);
        let long = owner.allocate_bytes(9 * 512, 8).unwrap();
        let (control, plan) = (heap.control.addr().get(), heap.view().plan());
        assert_eq!(reports(), []);
        let foreign = [
            // Outside of the region, in the control structure, after the last chunk.
            [16, usize::MAX & !15, control, control + 64, plan.pool, plan.start - 16, plan.range(0, 30).end],
            // Off the grid, the first granule of a piece, in a long block.
            [at(a) + 1, at(a) + size_of::<usize>(), at(long) + 4, plan.start, at(long) + 16, at(long) + 256, 0x1000],
        ];
        let nothing_live = [at(long) + 512, at(long) + 9 * 512 - 16, at(long) + 9 * 512, plan.range(0, 30).end - 16];
        let foreign = foreign.as_flattened().iter().map(|&address| (MisuseKind::ForeignPointer, address));
        for (kind, address) in foreign.chain(nothing_live.map(|address| (MisuseKind::DoubleFree, address))) {
            free(&mut other, NonNull::new(core::ptr::without_provenance_mut(address)).unwrap());
            assert_eq!(reports(), [(kind, address)]);
        }
        // Twice, one after the other.
        free(&mut other, a);
        free(&mut other, a);
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(a))]);
        // By the owner in between: the block is not live when the queued free is processed.
        free(&mut owner, a);
        assert_eq!((reports(), owner.reclaim(9)), (vec![], 1));
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(a))]);
        // After the block was taken back.
        free(&mut other, a);
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(a))]);
        // A link that was overwritten: the queued frees after it are lost, and nothing else.
        [b, c].into_iter().for_each(|block| free(&mut other, block));
        // SAFETY: a deliberate misuse, which the heap detects.
        unsafe { c.cast::<u32>().write(u32::MAX) };
        assert_eq!(owner.reclaim(9), 1);
        assert_eq!(reports(), [(MisuseKind::ContradictoryTags, at(c))]);
        [b, c, d, long].into_iter().for_each(|block| free(&mut owner, block));
        assert_eq!(reports(), []);
        for block in [a, long] {
            assert_eq!(resize(&mut other, block, 300), Err(SharedError::Request(AllocError::Misused)));
            assert_eq!(reports(), [(MisuseKind::DoubleFree, at(block))]);
        }
        // The piece went back: nothing is live there.
        owner.reclaim(1);
        free(&mut other, a);
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(a))]);
    }
    assert_eq!(fresh, state(&mut heap));
}

#[test]
fn configurations_and_regions_are_validated() {
    let refused = |config| Heap::new(&mut [], config).unwrap_err();
    // Chunks as long as the address space are too long for any region.
    for log2 in [usize::BITS - 1, usize::BITS - 2] {
        assert!(matches!(refused(config(1, 1 << log2)), InitError::TooSmall { .. }));
    }
    let no_budget = PooledArenasConfig { reclaim_budget: 0, ..config(1, 0) };
    for config in [no_budget, config(0, 0), config(0xFFFF, 0), config(1, 32), config(1, 96), config(1, 1)] {
        assert!(matches!(refused(config), InitError::Configuration { .. }), "{config:?}");
    }
    // As many chunks as there may be, and one more after whatever aligns the others.
    let front_bytes = Heap::layout(MAX_CHUNKS, CHUNK, 1).unwrap().front_bytes;
    for (more_bytes, is_possible) in [(front_bytes, true), (front_bytes + LINE_BYTES + 2 * CHUNK, false)] {
        let made = Heap::new(vec![MaybeUninit::uninit(); MAX_CHUNKS * CHUNK + more_bytes].leak(), config(1, CHUNK));
        assert_eq!(
            made.map_err(|error| matches!(error, InitError::Configuration { .. })).err(),
            (!is_possible).then_some(true)
        );
    }
    for (slots, chunk_bytes) in
        [1, 2, 3, 7, 65, 300].into_iter().flat_map(|slots| [0, 64, 4096].map(|bytes| (slots, bytes)))
    {
        let config = config(slots, chunk_bytes);
        let InitError::TooSmall { needed_bytes } = refused(config) else { panic!() };
        let memory = vec![MaybeUninit::new(0_u8); needed_bytes + 4096].leak();
        // All offsets in a cache line, and some in the longest chunk.
        for offset in (0..64).chain((64..4096).step_by(255)) {
            // SAFETY: the heap before is gone, and the memory is never freed.
            let region = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().add(offset), needed_bytes) };
            let mut heap = Heap::new(region, config).unwrap();
            assert_eq!(heap.slots(), slots);
            heap.check().unwrap();
            let largest = heap.largest_allocatable();
            assert!(largest >= chunk_bytes && heap.claim(slots - 1).unwrap().allocate_bytes(largest, 1).is_ok());
        }
    }
}

/// Flips every bit before the chunks, one at a time, while frees are queued. Checking never faults, and finds each that
/// it must find.
///
/// What cannot be found: another reclaim budget, counters of refusals, and versions of the pool, which are numbers
/// without a relation to others; whether a slot is claimed; a queued free that becomes that of another live block; and
/// padding. An entry that names another slot is found by the free blocks of its piece: there are some here, except for
/// the last slot's, whose number has no bit that leads to another slot.
#[test]
fn check_finds_overwrites() {
    // The pool has bits after the last chunk.
    let mut heap = heap(35, config(4, CHUNK));
    {
        let [mut owner, mut left, mut right, mut last] = [0, 1, 2, 3].map(|slot| heap.claim(slot).unwrap());
        let [a, b, c, d] = blocks(&mut owner);
        assert!(owner.allocate_bytes(9 * CHUNK, 8).is_ok() && owner.allocate_bytes(300, 8).is_ok());
        [a, b].into_iter().for_each(|block| free(&mut left, block));
        assert_eq!(owner.reclaim(1), 1);
        free(&mut left, c);
        free(&mut right, d);
        // A spare, and a piece of one chunk.
        let block = left.allocate_bytes(8, 8).unwrap();
        free(&mut left, block);
        assert!(right.allocate_bytes(8, 8).is_ok());
        // Full pieces up to the last chunk, so that the number of chunks is found by nothing else; and two free chunks.
        let overhead_bytes = <Tlsf<'static> as InPieces<'_>>::OVERHEAD_BYTES + Heap::CONTRACT.single_user.header_bytes;
        let full: Vec<_> = from_fn(|| last.allocate_bytes(CHUNK - overhead_bytes, 8).ok()).collect();
        full[..2].iter().for_each(|&block| free(&mut last, block));
        // The spare is the piece taken last, and goes back.
        let spare = last.allocate_bytes(8, 8).unwrap();
        free(&mut last, spare);
        last.reclaim(1);
    }
    heap.check().unwrap();
    let plan = *heap.view().plan();
    let control = heap.control.addr().get();
    let places = control + size_of::<Control<WithListener<Script>>>();
    type ThisPlace = Place<Tlsf<'static>, WithListener<Script>>;
    type ThisOwn = Own<Tlsf<'static>>;
    let common = offset_of!(ThisPlace, common);
    let must_be_found = |address: usize, bit: usize| {
        let of_plan = address.wrapping_sub(control);
        let of_place = address.wrapping_sub(places) % size_of::<ThisPlace>();
        let is_place = (places..plan.queues).contains(&address);
        let is_own = (offset_of!(ThisOwn, spare)..=offset_of!(ThisOwn, seal)).contains(&of_place);
        let is_pending = of_place == common + offset_of!(Common<WithListener<Script>>, pending_bits);
        let is_claim = of_place == common + offset_of!(Common<WithListener<Script>>, claim);
        let of_pool = address.wrapping_sub(plan.pool);
        let of_entries = address.wrapping_sub(plan.entries) + bit / 8;
        of_plan < size_of::<Plan>() && of_plan != offset_of!(Plan, reclaim_budget)
            || is_place && (is_own || is_pending || is_claim && bit != 0)
            || of_pool < plan.words as usize * size_of::<usize>() && bit < WORD_CHUNKS
            || of_entries < plan.chunks * size_of::<u32>()
    };
    let mut missed = vec![];
    for address in (control..plan.start).step_by(size_of::<usize>()) {
        let word: *mut usize = core::ptr::with_exposed_provenance_mut(address);
        for bit in 0..usize::BITS as usize {
            // SAFETY: the word is in the heap's region, and its value is restored.
            let answer = unsafe {
                let whole = word.read();
                word.write(whole ^ 1 << bit);
                let answer = heap.check();
                word.write(whole);
                answer
            };
            if answer.is_ok() && must_be_found(address, bit) {
                missed.push((address - control, bit));
            }
        }
    }
    assert_eq!(missed, [], "{:?}", plan);
    heap.check().unwrap();
    // The chunk of an empty piece would be lost.
    let spare = heap.place(1).own.0.spare.replace(0);
    assert_eq!(heap.check().map_err(|found| found.address), Err(spare));
}

#[test]
fn threads_free_each_others_blocks() {
    const THREADS: usize = 3;
    let mut heap = heap(200, config(THREADS, 512));
    let fresh = state(&mut heap);
    let long = std::sync::atomic::AtomicUsize::new(0);
    let (senders, receivers): (Vec<_>, Vec<_>) = [(); THREADS].map(|()| std::sync::mpsc::channel()).into_iter().unzip();
    std::thread::scope(|scope| {
        for (number, receiver) in receivers.into_iter().enumerate() {
            let (heap, long, senders) = (&heap, &long, senders.clone());
            scope.spawn(move || {
                let mut user = heap.claim_any().unwrap();
                let mut random = 88_172_645_463_325_252 ^ number as u64;
                let release = |user: &mut User<'_>, (address, words): (usize, usize)| {
                    let block: NonNull<usize> = NonNull::new(core::ptr::with_exposed_provenance_mut(address)).unwrap();
                    // SAFETY: the block is live, and its words hold its address.
                    let content = unsafe { core::slice::from_raw_parts(block.as_ptr(), words) };
                    assert!(content.iter().all(|&word| word == address));
                    free(user, block.cast());
                };
                for round in 0..20_000 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    // Every 16th is a long block.
                    let words =
                        1 + (random % 25) as usize + if random >> 60 == 0 { 4096 / size_of::<usize>() } else { 0 };
                    if let Ok(block) = user.allocate_bytes(words * size_of::<usize>(), 16) {
                        let address = block.as_ptr().expose_provenance();
                        // SAFETY: the block has so many words.
                        unsafe { core::slice::from_raw_parts_mut(block.cast().as_ptr(), words).fill(address) };
                        senders[(random / 256) as usize % THREADS].send((address, words)).unwrap();
                        long.fetch_add(usize::from(words > 25), Relaxed);
                    } else {
                        // Until others free something.
                        std::thread::yield_now();
                    }
                    receiver.try_iter().for_each(|sent| release(&mut user, sent));
                    if round % 1000 == 999 {
                        user.reclaim(100);
                    }
                }
                drop(senders);
                receiver.iter().for_each(|sent| release(&mut user, sent));
            });
        }
        drop(senders);
    });
    assert!(long.into_inner() > 500, "few long blocks");
    assert_eq!(fresh, settled(&mut heap));
}

/// A source of slots whose callers insist, as those of `ThreadSlots` do.
struct Insisting;

// SAFETY: one thread uses the heap, and its number changes between operations.
unsafe impl CurrentSlot for Insisting {
    const EXCLUSIVE: bool = true;
    const INSISTS: bool = true;

    fn hint(&self) -> usize {
        NUMBER.get()
    }

    fn own(&self, slots: usize) -> Option<usize> {
        Some(NUMBER.get()).filter(|&number| number < slots)
    }

    fn elsewhere<T>(&self, _slots: usize, _operation: impl FnMut(usize) -> Option<T>) -> Option<T> {
        panic!("a request in another slot")
    }
}

/// README's heap for firmware, with as many frees queued as fit: a request through the global allocator is one
/// operation of its slot, whose bound does not depend on how many these are.
#[test]
fn a_request_of_the_global_allocator_is_one_of_its_slot() {
    // SAFETY: one thread uses the heap, and its number changes between operations.
    let numbered = unsafe { Numbered::new(|| NUMBER.get()) };
    static NUMBERED: Memory<{ 48 << 10 }> = Memory::new();
    requests_are_operations_of_a_slot(Global::configured(&NUMBERED, numbered, config(3, 0)));
    static BOUNDED: Memory<{ 48 << 10 }> = Memory::new();
    requests_are_operations_of_a_slot(Global::configured(&BOUNDED, Bounded(Insisting), config(3, 0)));
}

fn requests_are_operations_of_a_slot(global: Global<Heap, impl CurrentSlot>) {
    let bound = global.heap().unwrap().max_steps(Operation::Allocate { size_bytes: 12_000, align_bytes: 8 }).unwrap();
    let mut small: Vec<_> = from_fn(|| global.allocate_bytes(12, 4).ok()).collect();
    assert!(small.len() > 1500, "{}", small.len());
    NUMBER.set(1);
    // SAFETY: the blocks are live.
    small.drain(..).for_each(|block| unsafe { global.deallocate(block) });
    NUMBER.set(0);
    let mut requests = 0;
    loop {
        requests += 1;
        let mut answer = None;
        let steps = steps_of([], || answer = Some(global.allocate_bytes(12_000, 8)));
        assert!(steps.within(bound), "request {requests}: {steps:?}, at most {bound:?}");
        match answer.unwrap() {
            Ok(_) => break,
            Err(error) => assert_eq!(error, SharedError::Pending),
        }
    }
    // Each took back two blocks, and the long block has 24 chunks of at least 15 blocks each.
    assert!((24 * 15 / 2..600).contains(&requests), "{requests}");
}

/// Chunks that come back behind the search make the slot refuse as contended; the global allocator asks it again, also
/// for callers that do not insist.
#[test]
fn the_global_allocator_repeats_a_contended_request() {
    static MEMORY: Memory<{ 48 << 10 }> = Memory::new();
    // SAFETY: one thread uses the heap; where an operation is interrupted, the other one has another number.
    let numbered = unsafe { Numbered::new(|| NUMBER.get()) };
    let global: Global<Heap, Numbered> = Global::configured(&MEMORY, numbered, config(2, 0));
    let full = || from_fn(|| global.allocate_bytes(9 * 512, 8).ok()).collect::<Vec<_>>();
    NUMBER.set(1);
    let mut long = full();
    assert!(long.len() > 3);
    NUMBER.set(0);
    let mut answer = None;
    let steps = steps_of([], || answer = Some(global.allocate_bytes(9 * 512, 8))).total();
    assert_eq!(answer, Some(Err(SharedError::Exhausted)));
    let act = Box::new(|| {
        NUMBER.set(1);
        // SAFETY: the block is live.
        unsafe { global.deallocate(long.pop().unwrap()) };
        NUMBER.set(0);
    });
    // The last step counts the refusal; before come a look for queued frees, and the last one at each word.
    let contended = || global.heap().unwrap().refusals().contended;
    assert_eq!(contended(), 0);
    steps_of([(steps - 3, act)], || answer = Some(global.allocate_bytes(9 * 512, 8)));
    assert_eq!((answer.unwrap().is_ok(), contended()), (true, 1));
}

/// The tags of a block whose piece went back do not look live, wherever the piece's chunks are used next.
#[test]
fn a_double_free_after_the_piece_went_back_is_reported() {
    // The order of the frees decides whether the block has free neighbours when its piece goes back.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for again in 0..9 {
            let mut heap = heap(8, config(1, 512));
            let mut user = heap.claim(0).unwrap();
            // Three pieces of one chunk with three blocks each, and the spare.
            let small: Vec<_> = (0..9).map(|_| user.allocate_bytes(140, 8).unwrap()).collect();
            let spare = user.allocate_bytes(220, 8).unwrap();
            assert_eq!(outside(&heap), 4);
            small.chunks(3).for_each(|piece| order.iter().for_each(|&index| free(&mut user, piece[index])));
            assert_eq!(outside(&heap), 1);
            // A piece of three chunks, where old tags are not written again.
            let long = user.allocate_bytes(1400, 8).unwrap();
            assert!(at(long) <= at(small[0]) && at(small[8]) < at(long) + 1400);
            reports();
            // The first small block is where the long one is: that is its free.
            if at(small[again]) != at(long) {
                free(&mut user, small[again]);
                assert_eq!(reports().len(), 1, "freed in the order {order:?}, then {again} again");
            }
            free(&mut user, long);
            free(&mut user, spare);
            drop(user);
            heap.check().unwrap();
        }
    }
}

/// One block of a slot keeps as many chunks from the others as the documentation says, and no slot keeps more than one
/// piece beyond its blocks.
#[test]
fn a_slot_withholds_no_more_than_the_bound() {
    const CHUNKS: usize = 96;
    const BYTES: usize = 512;
    let heap = heap(CHUNKS, config(2, BYTES));
    let mut owner = heap.claim(0).unwrap();
    // The largest block that the longest piece is taken for, and one that fills the rest of the piece.
    const PIECE: usize = PIECE_CHUNKS * BYTES;
    let fits = |size: &usize| <Tlsf<'_> as InPieces>::piece_bytes(*size, 8).is_some_and(|bytes| bytes <= PIECE);
    let large = (1..PIECE).rev().find(fits).unwrap();
    let small = PIECE - <Tlsf<'_> as InPieces>::OVERHEAD_BYTES - (large + 4) - 4;
    let pairs: Vec<_> =
        from_fn(|| Some((owner.allocate_bytes(large, 8).ok()?, owner.allocate_bytes(small, 8).ok()?))).collect();
    assert_eq!((pairs.len(), outside(&heap)), (CHUNKS / PIECE_CHUNKS, CHUNKS));
    pairs.iter().for_each(|&(large, _)| free(&mut owner, large));
    assert_eq!(outside(&heap), PIECE_CHUNKS * pairs.len(), "the bound is attained: a piece for each block");
    for (index, &(_, small)) in pairs.iter().enumerate() {
        free(&mut owner, small);
        let left = pairs.len() - index - 1;
        assert_eq!(outside(&heap), PIECE_CHUNKS * left, "a piece of several chunks is never spare");
    }
    let last = owner.allocate_bytes(small, 8).unwrap();
    free(&mut owner, last);
    assert_eq!(outside(&heap), 1, "the spare");
    // Blocks of just over half a chunk: one in the spare, one in a piece of one chunk, one in a longer piece, which
    // becomes the spare.
    let larger = [(); 3].map(|()| owner.allocate_bytes(BYTES / 2, 8).unwrap());
    assert_eq!(outside(&heap), 1 + 1 + PIECE_CHUNKS);
    larger.into_iter().rev().for_each(|block| free(&mut owner, block));
    assert_eq!(outside(&heap), PIECE_CHUNKS, "the spare");
    // What it serves does not access the pool.
    let steps = steps_of([], || {
        let again = owner.allocate_bytes(BYTES / 2, 8).unwrap();
        free(&mut owner, again);
    });
    assert_eq!((steps.read_modify_writes, steps.stores), (0, 0));
    owner.reclaim(1);
    assert_eq!(outside(&heap), 0);
}

/// After a block that fills less than two thirds of its chunks, a piece for another one has more, which several such
/// blocks fill better, if they are free.
#[test]
fn a_piece_is_as_long_as_its_blocks_fill_well() {
    const BYTES: usize = 512;
    const OVERHEAD: usize = <Tlsf<'_> as InPieces>::OVERHEAD_BYTES;
    for size in 1..PIECE_CHUNKS * BYTES {
        let (block, needed) = (<Tlsf<'_> as InPieces>::piece_bytes(size, 8).unwrap(), size.div_ceil(BYTES));
        let fills = |blocks: usize, chunks: usize| 3 * blocks * block >= 2 * chunks * BYTES;
        let all = heap(12, config(1, BYTES));
        let mut user = all.claim(0).unwrap();
        user.allocate_bytes(size, 8).unwrap();
        assert_eq!(outside(&all), needed, "the first block of {size} bytes");
        user.allocate_bytes(size, 8).unwrap();
        let run = outside(&all) - needed;
        let more = core::iter::repeat_with(|| user.allocate_bytes(size, 8));
        let held = more.take_while(|_| outside(&all) == needed + run).count() + 1;
        if run == 0 {
            assert!(2 * block <= BYTES + OVERHEAD, "{size} bytes");
        } else if run == needed {
            let better = (needed..=PIECE_CHUNKS).find(|&chunks| fills(chunks * BYTES / block, chunks));
            assert!(fills(1, run) || better.is_none(), "{size} bytes: {better:?} chunks");
        } else {
            assert!(3 * block <= 2 * needed * BYTES && run <= PIECE_CHUNKS, "{size} bytes: {run} chunks");
            assert!(fills(held, run), "{held} of {size} bytes in {run} chunks");
        }
        // With no chunk beyond those that it needs.
        let few = heap(needed, config(1, BYTES));
        assert!(few.claim(0).unwrap().allocate_bytes(size, 8).is_ok(), "{size} bytes");
        assert_eq!(outside(&few), needed);
    }
}

/// The length of a slot's pieces depends on the requests before; after `reclaim`, a slot serves what a fresh one does.
#[test]
fn a_reclaimed_slot_fills_like_a_fresh_one() {
    for (size, align) in (1..1300).step_by(7).flat_map(|size| [1, 64, 1024].map(|align| (size, align))) {
        let mut heap = heap(24, config(2, 512));
        let fresh = state(&mut heap);
        let mut served = Vec::new();
        for round in 0..4 {
            let mut user = heap.claim(0).unwrap();
            let mut all: Vec<_> = from_fn(|| user.allocate_bytes(size, align).ok()).collect();
            served.push(all.len());
            if round % 2 == 1 {
                all.reverse();
            }
            all.into_iter().for_each(|block| free(&mut user, block));
            user.reclaim(1);
            drop(user);
            assert_eq!(fresh, state(&mut heap), "{size} bytes at {align}, round {round}");
        }
        assert!(served[0] > 0 && served.iter().all(|&count| count == served[0]), "{size} bytes at {align}: {served:?}");
    }
}

/// A block that does not exist is refused, however large it would become, and nothing is copied.
#[test]
fn a_freed_block_does_not_become_a_long_one() {
    let mut heap = heap(40, config(2, 512));
    let fresh = state(&mut heap);
    {
        let mut user = heap.claim(0).unwrap();
        let [block, fence] = blocks(&mut user);
        free(&mut user, block);
        reports();
        for address in [at(block), at(block) + 3, at(fence) + 16] {
            let stale = NonNull::new(core::ptr::with_exposed_provenance_mut(address)).unwrap();
            let answer = resize(&mut user, stale, 10 * 512);
            assert_eq!(answer, Err(SharedError::Request(AllocError::Misused)), "{address:#x}");
            assert_eq!(reports().len(), 1);
        }
        free(&mut user, fence);
    }
    heap.check().unwrap();
    assert_eq!(fresh, settled(&mut heap));
}

/// A second free of a long block whose first chunk became a piece of the slot: the word before it belongs to another
/// block, whatever it looks like.
#[test]
fn the_start_of_an_own_piece_is_no_block() {
    let heap = heap(40, config(2, 512));
    let (mut user, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
    let before = other.allocate_bytes(10 * 512, 8).unwrap();
    let long = user.allocate_bytes(10 * 512, 8).unwrap();
    free(&mut user, long);
    let [_, _] = blocks(&mut user);
    assert_eq!(heap.view().entry_at(at(long)).map(|(_, entry)| entry.owner()), Some(1), "it is a piece now");
    // SAFETY: the last word of a live block; it looks like the tag of a live block of 128 bytes.
    let word = unsafe { before.byte_add(10 * 512 - 4).cast::<u32>() };
    // SAFETY: as above.
    unsafe { word.write(0x81) };
    reports();
    free(&mut user, long);
    assert_eq!(reports(), [(MisuseKind::ForeignPointer, at(long))]);
    // SAFETY: as above.
    assert_eq!(unsafe { word.read() }, 0x81);
}

/// A long block that becomes small keeps one chunk where there is no memory to move it.
#[test]
fn a_long_block_shrinks_to_a_chunk_in_a_full_heap() {
    let heap = heap(40, config(1, 512));
    let mut user = heap.claim(0).unwrap();
    let block = user.allocate_bytes(40 * 512, 8).unwrap();
    let refused = heap.refusals();
    assert_eq!(resize(&mut user, block, 16), Ok(block));
    assert_eq!((outside(&heap), heap.refusals()), (1, refused));
    let bound = heap.max_steps(Operation::Deallocate { size_bytes: 16, align_bytes: 8 }).unwrap();
    assert!(steps_of([], || free(&mut user, block)).within(bound));
    assert_eq!(outside(&heap), 0);
}

type Keeping = PooledArenas<
    'static,
    Cached<'static, Tlsf<'static, 5, RoundUp, Wide, NoStats, BasicSettingAside>>,
    WithListener<Script>,
>;

/// A heap of two slots that keep freed blocks.
fn keeping(chunk_bytes: usize) -> Keeping {
    let memory = vec![MaybeUninit::new(!0_u64); 1 << 12].leak();
    // SAFETY: the memory is as long, and never freed.
    let region = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), size_of_val(memory)) };
    Keeping::new(region, config(2, chunk_bytes)).unwrap()
}

/// `allocate_kept` and `keep` do what an operation would, or nothing.
#[test]
fn lists_alone_serve_what_they_can() {
    // Bytes of a header, half of a granule; of the requests whose blocks are the smallest; of their blocks.
    const HEADER: usize = size_of::<usize>();
    const SMALL: usize = 3 * HEADER;
    const BLOCK: usize = SMALL + HEADER;
    let heap = keeping(512);
    let at = |block: NonNull<u8>, bytes: usize| NonNull::new(block.as_ptr().wrapping_add(bytes)).unwrap();
    {
        let [mut owner, mut other] = [0, 1].map(|slot| {
            assert!(heap.take(slot));
            // SAFETY: the slot was taken, and has one user.
            unsafe { heap.slot(slot) }
        });
        let [small, fence, foreign] = [SMALL; 3].map(|size| owner.allocate_bytes(size, HEADER).unwrap());
        let long = owner.allocate_bytes(4096, 8).unwrap();
        let (heap_remains, all_remains) = (Err(Remains::Heap), Err(Remains::Everything));
        // SAFETY: live blocks, and pointers to none, which both must detect.
        unsafe {
            assert_eq!(
                (owner.allocate_kept(SMALL), other.keep(small.as_ptr())),
                (Err(Remains::Heap), Err(Remains::Everything))
            );
            for no_block in [at(small, HEADER), at(small, 2 * HEADER)] {
                assert_eq!(owner.keep(no_block.as_ptr()), Err(Remains::Heap), "{no_block:?}");
            }
            for elsewhere in [at(small, 1 << 20), NonNull::dangling(), long] {
                assert_eq!(owner.keep(elsewhere.as_ptr()), Err(Remains::Everything), "{elsewhere:?}");
            }
            assert_eq!(owner.keep(core::ptr::null_mut()), all_remains.map(|_: NonNull<u8>| 0));
            assert_eq!((owner.keep(small.as_ptr()), owner.keep(small.as_ptr())), (Ok(BLOCK), Err(Remains::Heap)));
            assert_eq!([SMALL + 1, 127 * HEADER + 1].map(|size| owner.allocate_kept(size)), [heap_remains; 2]);
            // A size of 0 has the list of the smallest blocks.
            assert_eq!([0, 0].map(|size| owner.allocate_kept(size)), [Ok(small), heap_remains]);
            // Queued frees are processed before anything is served.
            assert_eq!(owner.keep(small.as_ptr()), Ok(BLOCK));
            other.deallocate(foreign);
            assert_eq!(owner.allocate_kept(SMALL), all_remains);
            assert_eq!(owner.allocate_bytes(SMALL, HEADER), Ok(foreign));
            assert_eq!(owner.allocate_kept(SMALL), Ok(small));
            // Past the lists: a block that merges again.
            let beside = owner.allocate_past_lists(125 * HEADER).unwrap();
            assert_eq!(owner.deallocate_past_lists(beside), 125 * HEADER);
            assert_eq!(owner.allocate_past_lists(125 * HEADER), Ok(beside));
            assert_eq!((owner.allocate_past_lists(1 << 20), reports()), (Err(AllocError::TooLarge.into()), vec![]));
            // An overwritten header: the request that finds it is served otherwise, and the block is abandoned.
            assert_eq!(owner.keep(small.as_ptr()), Ok(BLOCK));
            small.sub(HEADER).cast::<usize>().write(0);
            assert_eq!((owner.allocate_kept(SMALL), reports()), (all_remains, vec![]));
            let again = owner.allocate_bytes(SMALL, HEADER).unwrap();
            assert_eq!(reports().len(), 1);
            assert!(![small, fence, foreign, long].contains(&again));
            assert_eq!(owner.allocate_kept(SMALL), heap_remains);
        }
    }
}

/// Blocks that a slot's heap keeps withhold their pieces. They are freed before a request is refused, and by `reclaim`,
/// within the bound in steps.
#[test]
fn kept_blocks_are_freed_before_a_refusal() {
    const BYTES: usize = 512;
    let mut heap = keeping(BYTES);
    let chunks = heap.view().plan().chunks;
    let in_pool = |heap: &Keeping| (0..chunks).filter(|&chunk| heap.view().pool().has(chunk)).count();
    assert!(chunks > 20);
    for reclaimed in [false, true] {
        let [mut owner, mut other] = [0, 1].map(|slot| heap.claim(slot).unwrap());
        // Each in a piece of its own; a list keeps at most as many as there are chunks.
        let sizes = [400, 416, 432].iter().cycle();
        let blocks: Vec<_> = sizes.map_while(|size| owner.allocate_bytes(*size, 8).ok()).collect();
        assert_eq!((blocks.len(), in_pool(&heap)), (chunks, 0));
        // SAFETY: the block is live.
        blocks.into_iter().for_each(|block| unsafe { owner.deallocate(block) });
        assert_eq!(in_pool(&heap), 0);
        assert_eq!(other.allocate_bytes(BYTES, 8), Err(SharedError::Exhausted));
        let (size_bytes, align_bytes) = (chunks * BYTES, 8);
        if reclaimed {
            let bound = heap.max_steps(Operation::Reclaim { budget: 1 }).unwrap();
            assert!(steps_of([], || assert_eq!(owner.reclaim(1), 0)).total() <= bound.total());
            assert_eq!(in_pool(&heap), chunks);
        }
        let bound = heap.max_steps(Operation::Allocate { size_bytes, align_bytes }).unwrap();
        let mut long = Err(SharedError::Exhausted);
        let steps = steps_of([], || long = owner.allocate_bytes(size_bytes, align_bytes));
        assert!(steps.total() <= bound.total(), "{steps:?} of {bound:?}");
        // SAFETY: the block is live.
        unsafe { other.deallocate(long.unwrap()) };
        drop((owner, other));
        heap.check().unwrap();
        assert_eq!(in_pool(&heap), chunks);
    }
}

/// What is free is passed in runs, while no one can take it, and is free afterwards.
#[test]
fn free_chunks_are_visited_in_runs() {
    let mut heap = heap(100, config(1, CHUNK));
    let start = heap.view().plan().start;
    let fresh = state(&mut heap);
    {
        let mut user = heap.claim(0).unwrap();
        let [first, long, last] = [1, 30, 3].map(|chunks| user.allocate_bytes(chunks * CHUNK, 8).unwrap());
        free(&mut user, long);
        let mut runs = Vec::new();
        for word in 0..=heap.pool_words() {
            heap.visit_free(word, &mut |run| {
                let chunk = (run.start - start) / CHUNK;
                assert!(!heap.view().pool().has(chunk));
                runs.push((chunk, run.len() / CHUNK));
            });
        }
        let words: Vec<_> = [(1, 30), (34, 66)]
            .into_iter()
            .flat_map(|(first, run)| {
                let word = move |chunk: &usize| chunk / WORD_CHUNKS;
                let chunks: Vec<_> = (first..first + run).collect();
                let parts = chunks.chunk_by(|a, b| word(a) == word(b)).map(|part| (part[0], part.len()));
                parts.collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(runs, words);
        assert_eq!(outside(&heap), 4);
        [first, last].into_iter().for_each(|block| free(&mut user, block));
    }
    heap.check().unwrap();
    assert_eq!((outside(&heap), fresh.len()), (0, state(&mut heap).len()));
}

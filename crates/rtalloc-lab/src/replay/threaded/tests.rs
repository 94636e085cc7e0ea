use super::super::tests::{random_events, written};
use super::*;
use rtalloc_subjects::Region;
use rtalloc_subjects::shared::{all, one};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

/// A trace in which threads free, and resize, each other's blocks.
fn crossing(count: usize, threads: u32, seed: u64) -> Vec<Event> {
    let mut events = random_events(count, seed);
    for (place, event) in events.iter_mut().enumerate() {
        // Every thread once first: threads are numbered by their first operation.
        let turn = if place < threads as usize { place as u64 } else { (place as u64).wrapping_mul(0x9e37_79b9) >> 7 };
        event.thread = (turn % u64::from(threads)) as u32;
    }
    events
}

fn parameters<'a>(
    trace: &'a Path,
    totals: &crate::trace::Totals,
    copies: u32,
    ordering: Ordering,
    board: &'a Board,
) -> Parameters<'a> {
    Parameters {
        trace,
        events: totals.events,
        slots: totals.slots,
        threads: totals.threads,
        copies,
        ordering,
        budget: Budget::new(Duration::from_secs(60)),
        board,
    }
}

const BYTES: usize = 8 << 20;

#[test]
fn every_subject_replays_threads_that_free_each_others_blocks() {
    // Few, because on a busy machine each operation under a fair lock that spins may take a time slice.
    let (file, totals) = written(&crossing(1000, 4, 3));
    let board = Board::new().expect("a board");
    for subject in all().iter().filter(|subject| subject.ready().is_ok()) {
        for (ordering, copies) in [(Ordering::Causal, 1), (Ordering::Recorded, 1), (Ordering::Causal, 2)] {
            let parameters = parameters(file.path(), &totals, copies, ordering, &board);
            let mut region = Region::new(BYTES, false).expect("memory");
            let start = if subject.own_pages { 0 } else { region.start() as usize };
            let mut heap = SharedHeap::new(subject, &mut region, BYTES, parameters.users()).expect(subject.name);
            let verified = Verified::new(start, start + BYTES);
            let watches = vec![Verifying(&verified); parameters.users()];
            let (summary, _) = run(parameters, &heap, watches).expect(subject.name);
            assert_eq!(summary.operations, 1000 * u64::from(copies), "{}", subject.name);
            // An allocator that cannot serve such an alignment skips the later operations on such blocks; all others
            // skip nothing.
            assert_eq!((summary.refused.total(), summary.timed_out), (summary.beyond_reach, false), "{}", subject.name);
            assert_eq!(summary.left_out > 0, summary.beyond_reach > 0, "{}", subject.name);
            assert_eq!(summary.beyond_reach > 0, subject.reach.alignment_bytes < 64, "{}", subject.name);
            assert!(summary.foreign_frees > 125 * u64::from(copies), "{}", subject.name);
            assert!(verified.peak_live_bytes() > 0);
            if ordering == Ordering::Recorded && summary.beyond_reach == 0 {
                assert_eq!(verified.peak_live_bytes(), totals.peak_live_bytes, "{}", subject.name);
            }
            heap.check().expect(subject.name);
        }
    }
}

/// Records when each operation on each block was performed.
#[derive(Clone)]
struct Clocked<'a> {
    now: &'a AtomicUsize,
    seen: Vec<(u64, usize)>,
}

impl Watch for Clocked<'_> {
    fn granted(&mut self, index: u64, _block: &Block, _old: Option<&Block>) -> Result<(), Fault> {
        self.seen.push((index, self.now.fetch_add(1, atomic::Ordering::SeqCst)));
        Ok(())
    }

    fn freeing(&mut self, index: u64, _block: &Block) -> Result<(), Fault> {
        self.seen.push((index, self.now.fetch_add(1, atomic::Ordering::SeqCst)));
        Ok(())
    }
}

fn times(events: &[Event], ordering: Ordering) -> Vec<usize> {
    let (file, totals) = written(events);
    let board = Board::new().expect("a board");
    let parameters = parameters(file.path(), &totals, 1, ordering, &board);
    let mut region = Region::new(BYTES, false).expect("memory");
    let heap = SharedHeap::new(one("tlsf-mutex").expect("ours"), &mut region, BYTES, parameters.users()).expect("room");
    let now = AtomicUsize::new(0);
    let watches = vec![Clocked { now: &now, seen: Vec::new() }; parameters.users()];
    let (summary, watches) = run(parameters, &heap, watches).expect("sound");
    assert_eq!(summary.refused.total(), 0);
    let mut times = vec![usize::MAX; events.len()];
    for (index, time) in watches.iter().flat_map(|watch| &watch.seen) {
        times[*index as usize] = *time;
    }
    assert!(times.iter().all(|time| *time != usize::MAX));
    times
}

#[test]
fn causal_order_is_preserved() {
    let events = crossing(20_000, 5, 9);
    let times = times(&events, Ordering::Causal);
    let (mut of_thread, mut of_slot) = (vec![None::<usize>; 5], Vec::new());
    for (event, time) in events.iter().zip(&times) {
        let before = of_thread[event.thread as usize].replace(*time);
        assert!(before.is_none_or(|before| before < *time), "the order of a thread");
        let slot = slot_of(event) as usize;
        if of_slot.len() <= slot {
            of_slot.resize(slot + 1, None);
        }
        let before: Option<usize> = if matches!(event.op, Op::Allocate { .. }) { None } else { of_slot[slot] };
        assert!(before.is_none_or(|before| before < *time), "the order of a block");
        of_slot[slot] = Some(*time);
    }
}

#[test]
fn the_recorded_order_is_preserved() {
    let events = crossing(3000, 3, 4);
    assert!(times(&events, Ordering::Recorded).is_sorted());
}

#[test]
fn names_of_freed_blocks_are_reused_in_a_trace_longer_than_the_read_ahead() {
    // One thread allocates a thousand blocks, the other frees them, repeatedly.
    const BLOCKS: u64 = 1000;
    let events: Vec<Event> = (0..AHEAD + 200_000)
        .map(|tick| {
            let (slot, thread) = ((tick % BLOCKS) as u32, (tick / BLOCKS % 2) as u32);
            let op = if thread == 0 { Op::Allocate { slot, size: 40, align: 16 } } else { Op::Free { slot } };
            Event { tick, thread, op }
        })
        .collect();
    let (file, totals) = written(&events);
    let board = Board::new().expect("a board");
    let parameters = parameters(file.path(), &totals, 1, Ordering::Causal, &board);
    // The allocating thread may be ahead by half of the read-ahead.
    const ROOM: usize = 64 << 20;
    let mut region = Region::new(ROOM, false).expect("memory");
    let heap = SharedHeap::new(one("tlsf-ticket").expect("ours"), &mut region, ROOM, 2).expect("room");
    let (summary, _) = run(parameters, &heap, vec![(), ()]).expect("sound");
    assert_eq!((summary.operations, summary.foreign_frees), (totals.events, totals.frees));
}

impl Watch for () {}

#[test]
fn blocks_that_do_not_fit_are_skipped_and_counted() {
    let (file, totals) = written(&crossing(2000, 2, 5));
    let board = Board::new().expect("a board");
    let parameters = parameters(file.path(), &totals, 1, Ordering::Recorded, &board);
    let bytes = totals.peak_live_bytes as usize / 2;
    let mut region = Region::new(bytes, false).expect("memory");
    let subject = one("tlsf-mutex").expect("ours");
    let replay = |region: &mut Region, bytes| {
        let heap = SharedHeap::new(subject, region, bytes, 2).expect("room for the control structure");
        run(parameters, &heap, vec![(), ()]).expect("sound").0
    };
    let summary = replay(&mut region, bytes);
    assert!(summary.refused.exhausted > 0 && summary.left_out > 0 && summary.first_refused.is_some(), "{summary:?}");
    // The recorded order is deterministic.
    assert_eq!(Summary { waits: 0, ..replay(&mut region, bytes) }, Summary { waits: 0, ..summary });
    let heap = SharedHeap::new(subject, &mut region, bytes, 2).expect("as before");
    assert_eq!(serves(parameters, &heap).expect("sound"), Some(false));
}

#[test]
fn a_block_owned_twice_is_detected() {
    let verified = Verified::new(4096, 8192);
    let memory = [0_u64; 64];
    let block = |at: usize| Block { address: memory[at..].as_ptr() as usize, size: 64, align: 8, stamp: 7 };
    let verified_here = Verified::new(memory.as_ptr() as usize, memory.as_ptr() as usize + 512);
    assert_eq!(verified.peak_live_bytes(), 0);
    let (mut one, mut other) = (Verifying(&verified_here), Verifying(&verified_here));
    one.granted(0, &block(0), None).expect("free");
    assert!(matches!(other.granted(1, &block(4), None), Err(Fault::Overlapping { index: 1, .. })));
    let foreign = Block { stamp: 8, ..block(0) };
    assert!(matches!(other.freeing(2, &foreign), Err(Fault::Overwritten { index: 2, .. })));
}

#[test]
fn a_thread_that_waits_in_vain_ends_when_the_time_runs_out() {
    let (file, totals) = written(&crossing(2000, 2, 6));
    let board = Board::new().expect("a board");
    let late = Parameters {
        budget: Budget::new(Duration::ZERO),
        ..parameters(file.path(), &totals, 1, Ordering::Causal, &board)
    };
    let mut region = Region::new(BYTES, false).expect("memory");
    let heap = SharedHeap::new(one("tlsf-mutex").expect("ours"), &mut region, BYTES, 2).expect("room");
    let (summary, _) = run(late, &heap, vec![(), ()]).expect("sound");
    assert!(summary.timed_out && summary.operations < totals.events, "{summary:?}");
    let broken = PathBuf::from("no/such.rtrace");
    assert!(matches!(run(Parameters { trace: &broken, ..late }, &heap, vec![(), ()]), Err(ThreadedError::Trace(_))));
}

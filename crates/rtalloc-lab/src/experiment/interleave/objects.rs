//! The concurrent Compact-fit, whose threads use handles: they pin, free and allocate objects while other objects are
//! moved.
//!
//! The loads are the same as for all other heaps. In the mixed load and the load with remote frees, all threads start
//! with full pages of shared objects, which any thread may read and free, so that from the second free on, objects have
//! to be moved. Threads read objects and keep them pinned during other operations. All bytes of an object have the same
//! value, which is derived from its handle; any other value means an incomplete copy, or memory that was reused too
//! early.

use super::load::{BUDGET, FIRST_BYTES, Load, OPERATIONS, PAIRS, PAPERS_BYTES};
use super::turn::{self, Turnstile};
use super::world::{self, Kind};
use super::{Candidate, Execution};
use crate::workload::random::Random;
use rtalloc::compact_fit::Geometric;
use rtalloc::concurrent::atomics::WithListener;
use rtalloc::concurrent::compact_fit::{
    CompactFitSlot, Guard, Operation, PinError, SharedCompactFit, SharedCompactFitConfig,
};
use rtalloc::contract::{Corruption, Handle, HandleError, Progress, SharedError, Steps};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

type A = WithListener<Turnstile>;
/// Pages of 1 KiB.
type Ladder = Geometric<1024, 32, 8>;
type Heap<const IOTA: usize> = SharedCompactFit<'static, IOTA, Ladder, A>;
type Hand<'h, const IOTA: usize> = CompactFitSlot<'h, 'static, IOTA, Ladder, A>;

/// Bytes of the objects that fill the initial pages, the number of them per page, and the number of such pages per
/// slot.
const FURNITURE_BYTES: usize = 100;
const ON_A_PAGE: usize = 8;
const FULL_PAGES: usize = 3;
/// Maximum number of objects per slot.
const OBJECTS: usize = 40;
/// Budget of a compaction, in bytes moved.
const COMPACTED_BYTES: usize = 64;

/// A heap that moves this number of bytes with each allocation or free.
pub(super) const fn candidate<const IOTA: usize>(name: &'static str, heap_bytes: usize) -> Candidate {
    Candidate { name, heap_bytes, progress: (Progress::WaitFree, Progress::WaitFree), perform: perform::<IOTA> }
}

/// The content of an object.
fn content(handle: Handle) -> u8 {
    handle.to_bits().get() as u8 ^ 0x5A
}

/// State shared by the threads; accessed without interruption.
type Board = Mutex<Vec<Handle>>;

/// A slot, and the objects that its thread has pinned.
struct Worker<'h, const IOTA: usize> {
    heap: &'h Heap<IOTA>,
    hand: ManuallyDrop<Hand<'h, IOTA>>,
    number: usize,
    board: &'h Board,
    pinned: Option<ManuallyDrop<Guard<'h, A>>>,
}

impl<'h, const IOTA: usize> Worker<'h, IOTA> {
    fn new(heap: &'h Heap<IOTA>, slot: usize, number: usize, board: &'h Board) -> Option<Self> {
        Some(Self { heap, hand: ManuallyDrop::new(heap.claim(slot)?), number, board, pinned: None })
    }

    /// Performs an operation and records its steps.
    fn counted<T, E>(
        &mut self,
        (kind, size): (Kind, usize),
        bound: Option<Operation>,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
        refused: impl FnOnce(&E) -> Option<SharedError>,
    ) -> Result<T, E> {
        let bound: Option<Steps> = bound.map(|operation| self.heap.max_steps(operation));
        let before = turn::steps(self.number);
        let answer = work(self);
        let after = turn::steps(self.number);
        world::note(self.number, kind, size, (before, after), bound, answer.as_ref().err().and_then(refused));
        answer
    }

    fn ask(&mut self, size: usize) -> Result<Handle, SharedError> {
        let bound = Some(Operation::Allocate);
        self.counted((Kind::Allocate, size), bound, |worker| worker.hand.allocate(size), |error| Some(*error))
    }

    /// Allocates an object and fills it; after a refusal, repeats the request at once without interruption.
    fn allocate(&mut self, size: usize) -> Option<Handle> {
        let handle = self.ask(size).ok().or_else(|| {
            let again = turn::undisturbed(|| self.ask(size)).ok()?;
            world::note_spurious(size);
            Some(again)
        })?;
        match self.pin(handle) {
            Ok(guard) => {
                // No other thread accesses a new object, so interrupting each write would waste schedules.
                let written = turn::undisturbed(|| guard.write(0, &vec![content(handle); size]));
                if written.is_err() {
                    world::fault(|| format!("an object of {size} bytes has fewer"));
                }
                self.unpin(guard);
            }
            Err(error) => world::fault(|| format!("a new object of {size} bytes could not be pinned: {error}")),
        }
        Some(handle)
    }

    fn pin(&mut self, handle: Handle) -> Result<Guard<'h, A>, PinError> {
        self.counted((Kind::Pin, 0), Some(Operation::Pin), |worker| worker.heap.pin(handle), |_| None)
    }

    fn unpin(&mut self, guard: Guard<'h, A>) {
        let end = |_: &mut Self| -> Result<(), ()> {
            drop(guard);
            Ok(())
        };
        let _ = self.counted((Kind::Unpin, 0), Some(Operation::Unpin), end, |()| None);
    }

    /// Whether the pinned object has the same value in all bytes. Concurrent moves only read it; premature reuse of its
    /// memory would be detected later.
    fn is_whole(guard: &Guard<'_, A>, byte: Option<u8>) -> bool {
        let mut bytes = vec![0; guard.size_bytes()];
        turn::undisturbed(|| guard.read(0, &mut bytes)).is_ok()
            && bytes.iter().all(|one| *one == byte.unwrap_or(bytes[0]))
    }

    /// Reads an object of the board if it is still live, and keeps it pinned until the next call.
    fn visit(&mut self, which: u64) {
        self.let_go();
        let handle = {
            let board = self.board.lock().expect("no thread panicked");
            if board.is_empty() {
                return;
            }
            board[which as usize % board.len()]
        };
        match self.pin(handle) {
            Ok(guard) => {
                if !Self::is_whole(&guard, Some(content(handle))) {
                    world::fault(|| format!("an object of {} bytes has changed", guard.size_bytes()));
                }
                self.pinned = Some(ManuallyDrop::new(guard));
            }
            Err(PinError::Handle(HandleError::Stale)) => {}
            Err(error) => world::fault(|| format!("the handle of a live object was rejected: {error}")),
        }
    }

    fn let_go(&mut self) {
        if let Some(guard) = self.pinned.take() {
            let guard = ManuallyDrop::into_inner(guard);
            if !Self::is_whole(&guard, None) {
                world::fault(|| format!("an object of {} bytes changed while it was pinned", guard.size_bytes()));
            }
            self.unpin(guard);
        }
    }

    /// Frees an object of any thread. No other thread has access to it.
    fn free(&mut self, handle: Handle) {
        let bound = Some(Operation::Deallocate);
        let answer = self.counted((Kind::Free, 0), bound, |worker| worker.hand.deallocate(handle), |_| None);
        if let Err(error) = answer {
            world::fault(|| format!("a live object could not be freed: {error}"));
        }
    }

    fn leave(&self, handle: Handle) {
        self.board.lock().expect("no thread panicked").push(handle);
    }

    fn take(&self, which: u64) -> Option<Handle> {
        let mut board = self.board.lock().expect("no thread panicked");
        let len = board.len();
        (len > 0).then(|| board.swap_remove(which as usize % len))
    }

    fn reclaim(&mut self, budget: usize) -> usize {
        let reclaim = |worker: &mut Self| -> Result<usize, ()> { Ok(worker.hand.reclaim(budget)) };
        self.counted((Kind::Reclaim, budget), Some(Operation::Reclaim { budget }), reclaim, |()| None).unwrap_or(0)
    }

    fn compact(&mut self) {
        let compact = |worker: &mut Self| -> Result<usize, ()> { Ok(worker.hand.compact(COMPACTED_BYTES)) };
        let _ = self.counted((Kind::Compact, COMPACTED_BYTES), None, compact, |()| None);
    }

    /// Performs the load. Stops as soon as the heap is found to be corrupt.
    fn work(&mut self, load: Load, seed: u64) {
        let mut random = Random::new(seed.wrapping_mul(64).wrapping_add(self.number as u64));
        match load {
            Load::I => {
                while let Some(handle) = self.allocate(PAPERS_BYTES)
                    && !world::is_faulty()
                {
                    self.leave(handle);
                }
            }
            Load::II => {
                for _ in 0..PAIRS {
                    if let Some(handle) = self.allocate(PAPERS_BYTES) {
                        self.free(handle);
                    }
                }
            }
            Load::III | Load::IV => {
                let mut size = FIRST_BYTES;
                while let Some(handle) = self.allocate(size)
                    && !world::is_faulty()
                {
                    if load == Load::III {
                        self.leave(handle)
                    } else {
                        self.free(handle)
                    }
                    size += size.div_ceil(4);
                }
            }
            Load::Mixed => {
                let mut mine = Vec::new();
                for _ in 0..OPERATIONS {
                    match random.below(8) {
                        0..2 => mine.extend(self.allocate([28, FURNITURE_BYTES, 300][random.below(3) as usize])),
                        2 => mine.pop().into_iter().for_each(|handle| self.free(handle)),
                        3..5 => self.take(random.below(1 << 20)).into_iter().for_each(|handle| self.free(handle)),
                        5..7 => self.visit(random.below(1 << 20)),
                        _ => self.compact(),
                    }
                }
                mine.into_iter().for_each(|handle| self.leave(handle));
            }
            Load::Handover => {
                for round in 0..OPERATIONS {
                    let size = [24, FURNITURE_BYTES, PAPERS_BYTES][round % 3];
                    if let Some(handle) = self.allocate(size) {
                        self.leave(handle);
                    }
                    self.visit(random.below(1 << 20));
                    if round % 2 == 1 {
                        // The oldest object, which usually belongs to another thread.
                        for _ in 0..2 {
                            self.take(0).into_iter().for_each(|handle| self.free(handle));
                        }
                    }
                    if round % 5 == 4 {
                        self.reclaim(BUDGET);
                    }
                }
            }
        }
        self.let_go();
    }
}

impl<const IOTA: usize> Drop for Worker<'_, IOTA> {
    fn drop(&mut self) {
        // An unwinding thread keeps its objects.
        if !std::thread::panicking() {
            self.let_go();
            // SAFETY: it is not used again.
            unsafe { ManuallyDrop::drop(&mut self.hand) };
        }
    }
}

/// The number of page-sized objects for which each slot has room, slot by slot.
fn room<const IOTA: usize>(heap: &Heap<IOTA>) -> Vec<usize> {
    let room = |slot| {
        let mut hand = heap.claim(slot)?;
        Some((0..).take_while(|_| hand.allocate(Heap::<IOTA>::LARGEST_BYTES).is_ok()).count())
    };
    (0..heap.slots()).filter_map(room).collect()
}

/// An execution.
fn perform<const IOTA: usize>(execution: &Execution) {
    let Execution { load, seed, threads, .. } = *execution;
    world::begin(threads);
    let fresh = || {
        let start: *mut u8 = std::ptr::with_exposed_provenance_mut(execution.start);
        // SAFETY: this execution has exclusive use of the region, which has been initialised. The previous heap in it
        // has been dropped.
        let memory: &'static mut [u8] = unsafe { std::slice::from_raw_parts_mut(start, execution.heap_bytes) };
        let config = SharedCompactFitConfig { slots: threads, objects: OBJECTS, ..SharedCompactFitConfig::default() };
        Heap::<IOTA>::new(memory, config)
    };
    let (before, heap) = match fresh().map(|heap| room(&heap)).and_then(|room| Ok((room, fresh()?))) {
        Ok(made) => made,
        Err(error) => return world::fault(|| format!("no heap of {} bytes: {error}", execution.heap_bytes)),
    };
    let (heap, board) = (Arc::new(heap), Arc::new(Board::default()));
    if matches!(load, Load::Mixed | Load::Handover) {
        for slot in 0..threads {
            let Some(mut worker) = Worker::new(&heap, slot, 0, &board) else { continue };
            for _ in 0..FULL_PAGES * ON_A_PAGE {
                worker.allocate(FURNITURE_BYTES).into_iter().for_each(|handle| worker.leave(handle));
            }
        }
    }
    let workers: Vec<_> = (1..=threads)
        .map(|number| {
            let (heap, board) = (heap.clone(), board.clone());
            shuttle::thread::spawn(move || {
                turn::begin(number);
                match Worker::new(&heap, number - 1, number, &board) {
                    Some(mut worker) => worker.work(load, seed),
                    None => world::fault(|| format!("slot {} cannot be claimed", number - 1)),
                }
            })
        })
        .collect();
    for worker in workers {
        if worker.join().is_err() {
            world::fault(|| "a thread panicked".into());
        }
    }
    turn::resume(0);
    match Arc::try_unwrap(heap) {
        Ok(heap) if !world::is_faulty() => look_at(heap, &board, &before),
        _ => {}
    }
}

/// Once all threads have finished, the heap must be consistent, both with the live objects and after everything has
/// been freed; then no compaction is pending, and its capacity is what it was initially.
fn look_at<const IOTA: usize>(mut heap: Heap<IOTA>, board: &Board, before: &[usize]) {
    let corrupt = |answer: Result<(), Corruption>| {
        if let Err(corruption) = answer {
            world::fault(|| format!("the heap is corrupt after all threads finished: {corruption}"));
        }
    };
    corrupt(heap.check());
    if let Some(mut worker) = Worker::new(&heap, 0, 0, board) {
        while let Some(handle) = worker.take(0)
            && !world::is_faulty()
        {
            worker.free(handle);
        }
    }
    for slot in 0..heap.slots() {
        let Some(mut hand) = heap.claim(slot) else { continue };
        while hand.reclaim(usize::MAX) > 0 {}
        while hand.compact(1 << 16) > 0 {}
        if hand.has_pending_compaction() {
            world::fault(|| format!("nothing is pinned or live, but compaction is pending in slot {slot}"));
        }
    }
    corrupt(heap.check());
    let now = room(&heap);
    if now != before {
        world::fault(|| {
            format!("all objects were freed, but the heap has room for {now:?} objects instead of {before:?}")
        });
    }
}

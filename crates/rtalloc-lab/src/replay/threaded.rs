//! Replays a trace with its real threads: one thread for each recorded thread, on a shared heap.
//!
//! The order of the trace is preserved where the program required it: a thread's operations are performed in order, and
//! a block is freed or resized after all earlier operations on it, by any thread. [`Ordering::Causal`] preserves
//! nothing else; in [`Ordering::Recorded`] every operation waits for the previous one in the trace. No thread waits
//! within an operation.
//!
//! ```text
//!            +-> orders of thread 0 -> operations ---+
//! trace -> feed -> orders of thread 1 -> operations -+-> blocks: number of operations done on each
//!            +-> ...                                 |
//!            ^------- blocks that were freed --------+
//! ```
//!
//! The *feed* reads the trace once, in order, so for every operation it knows the earlier operations on its block: an
//! order carries their number, and waits until that many are done. The feed is at most [`AHEAD`] operations ahead of
//! the slowest thread. This cannot deadlock: of the operations fed and not done, the first in the trace waits for
//! nothing.

use super::isolate::Board;
use super::processor::Budget;
use super::shadow::SharedShadow;
use super::{Block, Fault, MAX_REQUEST_BYTES, stamp_in_place, verify_range, verify_stamp_in_place};
use crate::trace::{Event, Op, Reader, TraceError};
use rtalloc_subjects::shared::{Refused, SharedHeap, User};
use std::cell::UnsafeCell;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{self, AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Maximum number of operations that are read and not done: a short trace is read completely before anything is timed.
pub const AHEAD: u64 = 1 << 20;

/// Which operations are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// Those of a thread, and those on a block.
    Causal,
    /// All of them, as in the trace.
    Recorded,
}

impl Ordering {
    /// The name on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Causal => "free",
            Self::Recorded => "recorded",
        }
    }
}

/// A replay's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    /// The trace.
    pub trace: &'a Path,
    /// Its operations.
    pub events: u64,
    /// Its slots.
    pub slots: u32,
    /// Its threads.
    pub threads: u32,
    /// Number of threads that replay each thread of the trace, with blocks of their own.
    pub copies: u32,
    /// Which operations are ordered.
    pub ordering: Ordering,
    /// Limit of processor time, for all threads together.
    pub budget: Budget,
    /// Where progress is reported.
    pub board: &'a Board,
}

impl Parameters<'_> {
    /// Number of threads of the replay.
    #[must_use]
    pub fn users(&self) -> usize {
        self.threads as usize * self.copies as usize
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An allocation.
    Allocate,
    /// A free of a block that the same thread allocated.
    Free,
    /// A free of another thread's block.
    ForeignFree,
    /// A reallocation.
    Reallocate,
}

/// Observes the operations of one thread.
pub trait Watch: Send {
    /// Calls an operation.
    #[inline(always)]
    fn call<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        operation()
    }

    /// The last operation called was of this kind, and succeeded.
    #[inline(always)]
    fn done(&mut self, _kind: Kind) {}

    /// A block was allocated, or resized from the old one.
    ///
    /// # Errors
    ///
    /// The block is invalid.
    #[inline(always)]
    fn granted(&mut self, _index: u64, _block: &Block, _old: Option<&Block>) -> Result<(), Fault> {
        Ok(())
    }

    /// A block is about to be freed.
    ///
    /// # Errors
    ///
    /// The block is invalid.
    #[inline(always)]
    fn freeing(&mut self, _index: u64, _block: &Block) -> Result<(), Fault> {
        Ok(())
    }

    /// A block is about to be resized.
    ///
    /// # Errors
    ///
    /// The block is invalid.
    #[inline(always)]
    fn resizing(&mut self, _index: u64, _block: &Block) -> Result<(), Fault> {
        Ok(())
    }

    /// Resizing was refused: the block stays live.
    #[inline(always)]
    fn kept(&mut self, _block: &Block) {}
}

/// Memory that all threads verify together: live blocks are marked in a map and stamped at both ends, and their bytes
/// are counted.
#[derive(Debug)]
pub struct Verified {
    shadow: SharedShadow,
    live_bytes: AtomicI64,
    peak_live_bytes: AtomicI64,
}

impl Verified {
    /// For a heap between two addresses, without live blocks. If the first is 0, blocks may be anywhere, and only their
    /// stamps are verified.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        Self {
            shadow: SharedShadow::new(start, end),
            live_bytes: AtomicI64::new(0),
            peak_live_bytes: AtomicI64::new(0),
        }
    }

    /// Largest number of bytes that were requested and not freed.
    #[must_use]
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes.load(atomic::Ordering::Relaxed) as u64
    }

    fn grow(&self, bytes: i64) {
        let live = self.live_bytes.fetch_add(bytes, atomic::Ordering::Relaxed) + bytes;
        self.peak_live_bytes.fetch_max(live, atomic::Ordering::Relaxed);
    }
}

/// One thread's view of [`Verified`].
#[derive(Clone, Copy, Debug)]
pub struct Verifying<'a>(pub &'a Verified);

impl Watch for Verifying<'_> {
    fn granted(&mut self, index: u64, block: &Block, old: Option<&Block>) -> Result<(), Fault> {
        if !self.0.shadow.claim(block.address, block.size) {
            return Err(Fault::Overlapping { index, address: block.address, size: block.size });
        }
        if let Some(old) = old {
            // SAFETY: the block is live, this thread's, and at least as long as the verified part of the old content.
            unsafe { verify_stamp_in_place(index, &Block { size: old.size, ..*block }, block.size) }?;
        }
        // SAFETY: the block is live, in the heap and this thread's.
        unsafe { stamp_in_place(block) };
        self.0.grow(block.size as i64 - old.map_or(0, |old| old.size as i64));
        Ok(())
    }

    fn freeing(&mut self, index: u64, block: &Block) -> Result<(), Fault> {
        self.resizing(index, block)?;
        self.0.grow(-(block.size as i64));
        Ok(())
    }

    fn resizing(&mut self, index: u64, block: &Block) -> Result<(), Fault> {
        // SAFETY: the block is live and this thread's.
        unsafe { verify_stamp_in_place(index, block, block.size) }?;
        // Must precede the call: afterwards another thread may get the memory.
        self.0.shadow.release(block.address, block.size);
        Ok(())
    }

    fn kept(&mut self, block: &Block) {
        self.0.shadow.claim(block.address, block.size);
    }
}

/// Statistics of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Operations done or skipped.
    pub operations: u64,
    /// Requests refused.
    pub refused: Refused,
    /// The part of them that no heap of this allocator serves.
    pub beyond_reach: u64,
    /// The first operation in the trace's order that was refused.
    pub first_refused: Option<u64>,
    /// Operations skipped because their block was refused.
    pub left_out: u64,
    /// Frees of another thread's block.
    pub foreign_frees: u64,
    /// Operations that had to wait for another thread.
    pub waits: u64,
    /// Whether the time ran out.
    pub timed_out: bool,
}

impl Summary {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.refused += other.refused;
        self.beyond_reach += other.beyond_reach;
        self.first_refused = [self.first_refused, other.first_refused].into_iter().flatten().min();
        self.left_out += other.left_out;
        self.foreign_frees += other.foreign_frees;
        self.waits += other.waits;
        self.timed_out |= other.timed_out;
    }
}

/// Why a replay cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum ThreadedError {
    /// The trace cannot be read.
    #[error("the trace cannot be read: {0}")]
    Trace(#[from] TraceError),
    /// The allocator is broken.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The heap has no slot for a thread.
    #[error("the heap has no slot for thread {0}")]
    NoPlace(usize),
}

/// An operation for a thread: its index in the trace, its block, and the number of earlier operations on that block.
#[derive(Clone, Copy, Debug)]
struct Order {
    index: u64,
    block: u32,
    turn: u32,
    task: Task,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    Allocate { size: u64, align: u32 },
    Reallocate { size: u64 },
    Free,
}

/// A block, and the number of operations done on it. The names of freed blocks are reused; the count continues.
#[derive(Debug)]
struct Entry {
    turn: AtomicU32,
    /// The block and the thread that allocated it; accessed by the thread whose turn it is.
    owned: UnsafeCell<(Block, u32)>,
}

// SAFETY: `owned` is accessed only by the thread whose order has the turn; it waited for the turn, and passes it to
// exactly one other.
unsafe impl Sync for Entry {}

/// The shared state of a replay's threads.
struct Shared<'a> {
    parameters: Parameters<'a>,
    heap: &'a SharedHeap<'a>,
    blocks: Vec<Entry>,
    /// Names of freed blocks.
    freed: Mutex<Vec<u32>>,
    /// Operations fed and not done, updated per batch.
    outstanding: AtomicU64,
    /// The operation whose turn it is, in the recorded order.
    turn: AtomicU64,
    go: AtomicBool,
    stop: AtomicBool,
}

/// Replays a trace on a heap with a thread for each of its threads and copies. `watches` has one for each; they are
/// returned in that order.
///
/// # Errors
///
/// [`ThreadedError`].
pub fn run<W: Watch>(
    parameters: Parameters<'_>,
    heap: &SharedHeap<'_>,
    watches: Vec<W>,
) -> Result<(Summary, Vec<W>), ThreadedError> {
    // Live blocks, blocks freed by operations that are fed and not done, and those of the current chunk.
    let copies = u64::from(parameters.copies);
    let operations = parameters.events.saturating_mul(copies);
    let chunk = crate::trace::CHUNK_EVENTS as u64 * copies;
    let names = u64::from(parameters.slots) * copies + AHEAD.min(operations) + chunk.min(operations);
    let shared = Shared {
        parameters,
        heap,
        blocks: (0..names)
            .map(|_| Entry { turn: AtomicU32::new(0), owned: UnsafeCell::new((Block::NONE, 0)) })
            .collect(),
        freed: Mutex::new((0..names as u32).rev().collect()),
        outstanding: AtomicU64::new(0),
        turn: AtomicU64::new(0),
        go: AtomicBool::new(false),
        stop: AtomicBool::new(false),
    };
    let users: Vec<User<'_>> = (0..parameters.users())
        .map(|number| heap.join(number).ok_or(ThreadedError::NoPlace(number)))
        .collect::<Result<_, _>>()?;
    std::thread::scope(|scope| {
        let (mut orders, mut threads) = (Vec::new(), Vec::new());
        for (user, watch) in users.into_iter().zip(watches) {
            let (sender, receiver) = channel();
            orders.push(sender);
            let shared = &shared;
            threads
                .push(scope.spawn(move || Worker { shared, user, watch, summary: Summary::default() }.work(&receiver)));
        }
        let fed = feed(&shared, orders);
        let mut summary = Summary { timed_out: matches!(fed, Ok(false)), ..Summary::default() };
        let mut watches = Vec::new();
        let mut fault = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok((of_thread, watch))) => {
                    summary.add(&of_thread);
                    watches.push(watch);
                }
                Ok(Err(what)) => fault = Some(what),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        fed?;
        fault.map_or(Ok((summary, watches)), |fault| Err(fault.into()))
    })
}

/// Reads the trace and sends each thread its orders, until the end; `false` if it stopped earlier.
fn feed(shared: &Shared<'_>, threads: Vec<Sender<Vec<Order>>>) -> Result<bool, TraceError> {
    let go = || shared.go.store(true, atomic::Ordering::Release);
    let fed = feed_all(shared, &threads, go);
    if fed.is_err() {
        shared.stop.store(true, atomic::Ordering::Relaxed);
    }
    go();
    fed
}

fn feed_all(shared: &Shared<'_>, threads: &[Sender<Vec<Order>>], go: impl Fn()) -> Result<bool, TraceError> {
    let Parameters { trace, copies, threads: recorded, budget, .. } = shared.parameters;
    let mut reader = Reader::open(trace)?;
    let mut chunk = Vec::new();
    let mut index = 0;
    // By slot and copy: the current block. By block: the turn of the next order.
    let mut names: Vec<u32> = Vec::new();
    let mut next_turns = vec![0_u32; shared.blocks.len()];
    let mut unused = Vec::new();
    while reader.next_chunk(&mut chunk)? {
        let mut batches = vec![Vec::new(); threads.len()];
        for event in &chunk {
            for copy in 0..copies {
                let task = task_of(event);
                let place = slot_of(event) as usize * copies as usize + copy as usize;
                if names.len() <= place {
                    names.resize(place + 1, 0);
                }
                if matches!(task, Task::Allocate { .. }) {
                    if unused.is_empty() {
                        std::mem::swap(&mut unused, &mut *shared.freed.lock().expect("no thread panicked"));
                    }
                    names[place] = unused.pop().expect("more names than blocks and operations ahead");
                }
                let block = names[place];
                let turn = next_turns[block as usize];
                next_turns[block as usize] = turn.wrapping_add(1);
                batches[(copy * recorded + event.thread) as usize].push(Order { index, block, turn, task });
                index += 1;
            }
        }
        let operations: u64 = batches.iter().map(|batch| batch.len() as u64).sum();
        while shared.outstanding.load(atomic::Ordering::Acquire) > 0
            && shared.outstanding.load(atomic::Ordering::Acquire) + operations > AHEAD
        {
            go();
            if budget.is_spent() || shared.stop.load(atomic::Ordering::Relaxed) {
                shared.stop.store(true, atomic::Ordering::Relaxed);
                return Ok(false);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        shared.outstanding.fetch_add(operations, atomic::Ordering::AcqRel);
        for (thread, batch) in threads.iter().zip(batches) {
            if !batch.is_empty() {
                // A thread that ended has found a fault, which it reports itself.
                let _ = thread.send(batch);
            }
        }
        shared.parameters.board.at(index / u64::from(copies));
    }
    Ok(true)
}

fn slot_of(event: &Event) -> u32 {
    match event.op {
        Op::Allocate { slot, .. } | Op::Reallocate { slot, .. } | Op::Free { slot } => slot,
    }
}

fn task_of(event: &Event) -> Task {
    match event.op {
        Op::Allocate { size, align, .. } => Task::Allocate { size, align },
        Op::Reallocate { size, .. } => Task::Reallocate { size },
        Op::Free { .. } => Task::Free,
    }
}

/// A running thread.
struct Worker<'a, 'h, W> {
    shared: &'a Shared<'a>,
    user: User<'h>,
    watch: W,
    summary: Summary,
}

/// Number of checks before the processor is yielded.
const SPINS: u32 = 200;
/// Operations between two checks of the clock.
const STRIDE: usize = 1024;

impl<W: Watch> Worker<'_, '_, W> {
    fn work(mut self, orders: &Receiver<Vec<Order>>) -> Result<(Summary, W), Fault> {
        self.wait_until(|shared| shared.go.load(atomic::Ordering::Acquire));
        let mut freed = Vec::new();
        while let Ok(batch) = orders.recv() {
            for stride in batch.chunks(STRIDE) {
                if self.is_over() {
                    return Ok(self.end());
                }
                for order in stride {
                    if !self.wait_for(order) {
                        return Ok(self.end());
                    }
                    if let Err(fault) = self.perform(order, &mut freed) {
                        self.shared.stop.store(true, atomic::Ordering::Relaxed);
                        return Err(fault);
                    }
                }
            }
            self.shared.freed.lock().expect("no thread panicked").append(&mut freed);
            // The feed reads the names of freed blocks once it sees that the batch is done.
            self.shared.outstanding.fetch_sub(batch.len() as u64, atomic::Ordering::AcqRel);
        }
        Ok(self.end())
    }

    fn end(mut self) -> (Summary, W) {
        self.summary.refused = self.user.refused();
        (self.summary, self.watch)
    }

    /// Waits for the order's turn; `false` if it will never come.
    #[inline(always)]
    fn wait_for(&mut self, order: &Order) -> bool {
        let entry = &self.shared.blocks[order.block as usize];
        let ready = |shared: &Shared<'_>| {
            // Earlier operations on the block happen before later ones, whichever thread performed them.
            entry.turn.load(atomic::Ordering::Acquire) == order.turn
                && (shared.parameters.ordering == Ordering::Causal
                    || shared.turn.load(atomic::Ordering::Acquire) == order.index)
        };
        if ready(self.shared) {
            return true;
        }
        self.summary.waits += 1;
        self.wait_until(ready)
    }

    #[cold]
    #[inline(never)]
    fn wait_until(&mut self, ready: impl Fn(&Shared<'_>) -> bool) -> bool {
        loop {
            for _ in 0..SPINS {
                if ready(self.shared) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.is_over() {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// Whether another thread stopped, or the time ran out.
    fn is_over(&mut self) -> bool {
        if self.shared.parameters.budget.is_spent() {
            self.summary.timed_out = true;
            self.shared.stop.store(true, atomic::Ordering::Relaxed);
        }
        self.shared.stop.load(atomic::Ordering::Relaxed)
    }

    fn perform(&mut self, order: &Order, freed: &mut Vec<u32>) -> Result<(), Fault> {
        let entry = &self.shared.blocks[order.block as usize];
        // SAFETY: it is this order's turn.
        let (block, owner) = unsafe { &mut *entry.owned.get() };
        match order.task {
            Task::Allocate { size, align } => {
                *owner = self.user.number() as u32;
                *block = self.allocate(order.index, size, align)?;
            }
            Task::Reallocate { size } => {
                if block.address == 0 {
                    self.summary.left_out += 1;
                } else {
                    self.reallocate(order.index, block, size)?;
                }
            }
            Task::Free => {
                if block.address == 0 {
                    self.summary.left_out += 1;
                } else {
                    let kind = if *owner == self.user.number() as u32 { Kind::Free } else { Kind::ForeignFree };
                    self.free(order.index, block, kind)?;
                }
                freed.push(order.block);
            }
        }
        self.summary.operations += 1;
        entry.turn.store(order.turn.wrapping_add(1), atomic::Ordering::Release);
        if self.shared.parameters.ordering == Ordering::Recorded {
            self.shared.turn.store(order.index + 1, atomic::Ordering::Release);
        }
        Ok(())
    }

    #[inline(always)]
    fn allocate(&mut self, index: u64, size: u64, align: u32) -> Result<Block, Fault> {
        let align = align.max(self.user.entries.natural_align_bytes as u32);
        let (watch, user) = (&mut self.watch, &mut self.user);
        let address = if size > MAX_REQUEST_BYTES {
            0
        } else {
            watch.call(|| user.allocate(size as usize, align as usize)) as usize
        };
        let block = Block { address, size: size as usize, align, stamp: index as u32 };
        if address == 0 {
            self.refuse(index, block.size, align);
        } else {
            self.watch.done(Kind::Allocate);
            verify_range(self.shared.heap.start, self.shared.heap.end, index, &block)?;
            self.watch.granted(index, &block, None)?;
        }
        Ok(block)
    }

    #[inline(always)]
    fn free(&mut self, index: u64, block: &Block, kind: Kind) -> Result<(), Fault> {
        self.watch.freeing(index, block)?;
        let (watch, user) = (&mut self.watch, &mut self.user);
        // SAFETY: the block is live and was requested with this size and alignment.
        watch.call(|| unsafe { user.deallocate(block.address as *mut u8, block.size, block.align as usize) });
        self.watch.done(kind);
        self.summary.foreign_frees += u64::from(kind == Kind::ForeignFree);
        Ok(())
    }

    #[inline(always)]
    fn reallocate(&mut self, index: u64, block: &mut Block, size: u64) -> Result<(), Fault> {
        let old = *block;
        let size = if size > MAX_REQUEST_BYTES { None } else { Some(size as usize) };
        self.watch.resizing(index, &old)?;
        let (watch, user) = (&mut self.watch, &mut self.user);
        let address = size.map_or(0, |size| {
            let (entries, context) = (user.entries, user.context);
            // SAFETY: the context is this user's; the block is live and was requested with this size and alignment; the
            // new size comes from a trace, so it is not zero.
            watch.call(|| unsafe {
                (entries.reallocate)(context, old.address as *mut u8, old.size, old.align as usize, size)
            }) as usize
        });
        if address == 0 {
            self.watch.kept(&old);
            self.refuse(index, size.unwrap_or(usize::MAX), old.align);
            return Ok(());
        }
        self.watch.done(Kind::Reallocate);
        *block = Block { address, size: size.unwrap_or(old.size), ..old };
        verify_range(self.shared.heap.start, self.shared.heap.end, index, block)?;
        self.watch.granted(index, block, Some(&old))
    }

    #[cold]
    fn refuse(&mut self, index: u64, size: usize, align: u32) {
        self.summary.first_refused.get_or_insert(index);
        let reach = self.shared.heap.subject().reach;
        self.summary.beyond_reach += u64::from(reach.is_beyond(size, align as usize));
    }
}

/// Whether a heap serves every operation of a trace, performed in the recorded order by one thread that uses the slots
/// of all users. An allocator's results depend only on slots and order, so the threads get the same results in the
/// recorded order. `None` if the time ran out. With fewer threads than the trace has, several of these share a slot.
///
/// # Errors
///
/// [`ThreadedError`].
pub fn serves(parameters: Parameters<'_>, heap: &SharedHeap<'_>) -> Result<Option<bool>, ThreadedError> {
    let mut users: Vec<User<'_>> = (0..parameters.users())
        .map(|number| heap.join(number).ok_or(ThreadedError::NoPlace(number)))
        .collect::<Result<_, _>>()?;
    let mut blocks = vec![Block::NONE; parameters.slots as usize * parameters.copies as usize];
    let mut reader = Reader::open(parameters.trace)?;
    let mut chunk = Vec::new();
    while reader.next_chunk(&mut chunk)? {
        for event in &chunk {
            for copy in 0..parameters.copies {
                let user = &mut users[(copy * parameters.threads + event.thread % parameters.threads) as usize];
                let block = &mut blocks[slot_of(event) as usize * parameters.copies as usize + copy as usize];
                match task_of(event) {
                    Task::Allocate { size, align } => {
                        let align = align.max(user.entries.natural_align_bytes as u32);
                        let address = user.allocate(size as usize, align as usize) as usize;
                        *block = Block { address, size: size as usize, align, stamp: 0 };
                    }
                    Task::Reallocate { size } => {
                        // SAFETY: the block is live and was requested with this size and alignment; the new size is not
                        // zero.
                        block.address = unsafe {
                            (user.entries.reallocate)(
                                user.context,
                                block.address as *mut u8,
                                block.size,
                                block.align as usize,
                                size as usize,
                            )
                        } as usize;
                        block.size = size as usize;
                    }
                    // SAFETY: the block is live and was requested with this size and alignment.
                    Task::Free => unsafe {
                        user.deallocate(block.address as *mut u8, block.size, block.align as usize);
                        continue;
                    },
                }
                if block.address == 0 {
                    return Ok(Some(false));
                }
            }
        }
        if parameters.budget.is_spent() {
            return Ok(None);
        }
    }
    Ok(Some(true))
}

#[cfg(test)]
mod tests;

//! Time of every operation in ticks of the time-stamp counter.
//!
//! An operation is timed by `lfence; rdtsc; lfence` on both sides; the calibrated cost of the empty pair is subtracted.
//! *Voting*: R replicas replay the identical sequence, and the minimum of each operation is kept, since disturbances
//! only ever add to a measurement. A replica is a separate process with its own heap, prefaulted if the region is ours,
//! at the same addresses as the others. The replicas alternate on one processor, a batch of operations each, so the
//! memory needed is that of a batch, not of the trace.
//!
//! On a shared or virtual machine the maximum is noise nevertheless, if every replica is disturbed.

use super::{Report, Samples, Task};
use crate::replay::isolate::{Board, Child, Death, SharedMemory, poll};
use crate::replay::whole_trace::Noted;
use crate::replay::{Block, Fault, Observer, Replay};
use crate::result::schema::{Outcome, Time};
use crate::trace::{Event, Reader};
use rtalloc_subjects::{Heap, Region, Subject};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Operations per batch.
const BATCH: usize = 65_536;
/// Operations between two checks of the clock.
const STRIDE: usize = 1024;
/// A batch ends after this time even if it is not full.
const BATCH_TIME: Duration = Duration::from_millis(200);
/// Processor time that an operation may use, or time that its threads may sleep, before the replica counts as hung.
const PATIENCE: Duration = Duration::from_secs(4);

/// The clock of a run, calibrated once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Ticks of an empty measurement.
    pub overhead_ticks: u64,
    /// Smallest step between two different readings.
    pub step_ticks: u64,
}

/// The time-stamp counter after all earlier instructions have executed and before any later one begins. Not for the
/// command, which is not optimised (`Cargo.toml`).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub(crate) fn ticks() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: reads a counter; the fences order, and touch no memory.
    unsafe {
        std::arch::asm!("lfence", "rdtsc", "lfence", out("rax") low, out("rdx") high, options(nostack));
    }
    (high << 32) | low
}

/// Nanoseconds of the monotonic clock, on machines without a time-stamp counter supported here.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
#[must_use]
pub(crate) fn ticks() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

impl Clock {
    /// Calibrates the empty pair: the minimum of many, so that no time is too short by more than the counter's step.
    #[must_use]
    pub fn calibrate() -> Self {
        const ROUNDS: usize = 100_000;
        let overhead_ticks = empty_ticks(ROUNDS);
        let mut step_ticks = u64::MAX;
        let mut last = ticks();
        for _ in 0..ROUNDS {
            let before = ticks();
            let after = ticks();
            for step in [before.saturating_sub(last), after.saturating_sub(before)] {
                step_ticks = if step > 0 { step_ticks.min(step) } else { step_ticks };
            }
            last = after;
        }
        // The counter advances in multiples of its step; two readings are several steps apart.
        let mut divisor = 0;
        let mut last = ticks();
        for _ in 0..ROUNDS {
            let now = ticks();
            divisor = greatest_common_divisor(divisor, now.saturating_sub(last));
            last = now;
        }
        Self { overhead_ticks, step_ticks: if divisor > 0 { divisor } else { step_ticks } }
    }
}

/// Ticks of an empty measurement: the smallest of `measurements`.
#[must_use]
pub(crate) fn empty_ticks(measurements: usize) -> u64 {
    (0..measurements)
        .map(|_| {
            let before = ticks();
            ticks().saturating_sub(before)
        })
        .min()
        .unwrap_or(0)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Measures one cell; the calling process coordinates, the replicas are its children.
#[must_use]
pub fn measure(task: &Task<'_>, clock: Clock, replicas: u32) -> Report<Time> {
    match vote(task, clock, replicas.max(1)) {
        Ok(report) => report,
        Err(error) => Report::broken(format!("the replicas could not be run: {error}")),
    }
}

fn vote(task: &Task<'_>, clock: Clock, replicas: u32) -> io::Result<Report<Time>> {
    pin_to_last_processor();
    allow_files(64 + 8 * u64::from(replicas));
    let mut children = Vec::new();
    for _ in 0..replicas {
        children.push(Replica::spawn(task)?);
    }
    for child in &mut children {
        if let Err(what) = child.ready(task.budget.left()) {
            return Ok(Report::broken(what));
        }
    }
    let mut time = Time { replicas, ..Time::default() };
    let (mut allocate, mut free, mut reallocate) = (Samples::default(), Samples::default(), Samples::default());
    let (mut at, mut refused, mut beyond_reach, mut first_refused) = (0_u64, 0_u64, 0_u64, None);
    let mut timed_out = false;
    loop {
        // The first replica decides the length of this batch.
        let mut order = Order { operations: BATCH, may_stop_early: true };
        for child in &mut children {
            match child.run_batch(order) {
                Ok(done) => order = Order { operations: done, may_stop_early: false },
                Err(what) => return Ok(Report::broken(what)),
            }
        }
        let batch = order.operations;
        if batch == 0 {
            break;
        }
        for place in 0..batch {
            let sample = children
                .iter()
                .map(|child| child.samples.words()[place].load(Ordering::Relaxed))
                .min_by_key(|sample| sample & Kind::TICKS)
                .unwrap_or(0);
            let ticks = (sample & Kind::TICKS).saturating_sub(clock.overhead_ticks);
            match sample >> Kind::SHIFT {
                Kind::ALLOCATE => allocate.add(ticks),
                Kind::FREE => free.add(ticks),
                Kind::REALLOCATE => reallocate.add(ticks),
                kind @ (Kind::REFUSED | Kind::BEYOND_REACH) => {
                    refused += 1;
                    beyond_reach += u64::from(kind == Kind::BEYOND_REACH);
                    first_refused.get_or_insert(at + place as u64);
                }
                _ => {}
            }
        }
        at += batch as u64;
        task.board.at(at);
        if at < task.events && task.budget.is_spent_with_children() {
            timed_out = true;
            break;
        }
    }
    time.allocate = allocate.distribution();
    time.free = free.distribution();
    time.reallocate = reallocate.distribution();
    let outcome = match first_refused {
        _ if timed_out => Outcome::TimedOut { at },
        Some(first) => Outcome::Failures { failed: refused, first, beyond_reach },
        None => Outcome::Completed,
    };
    Ok(Report { outcome, figures: Some(time) })
}

/// Pins this process and its children to one processor, the last one it may use; if the system refuses, timing
/// continues unpinned.
pub(crate) fn pin_to_last_processor() {
    // SAFETY: plain system calls on a set of processors that is a local value.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let bytes = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, bytes, &mut allowed) != 0 {
            return;
        }
        let last = (0..libc::CPU_SETSIZE as usize).rev().find(|processor| libc::CPU_ISSET(*processor, &allowed));
        if let Some(processor) = last {
            let mut chosen: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(processor, &mut chosen);
            libc::sched_setaffinity(0, bytes, &chosen);
        }
    }
}

/// Raises the limit of open files to `wanted`, as far as the system permits: every replica communicates through pipes.
/// If that does not suffice, creating a replica fails.
fn allow_files(wanted: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls on a structure that is a local value.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < wanted {
            limit.rlim_cur = wanted.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// A sample is a word: its kind, and ticks.
struct Kind;

impl Kind {
    const SHIFT: u32 = 56;
    const TICKS: u64 = (1 << Self::SHIFT) - 1;
    const ALLOCATE: u64 = 0;
    const FREE: u64 = 1;
    const REALLOCATE: u64 = 2;
    const REFUSED: u64 = 3;
    const BEYOND_REACH: u64 = 4;
    const LEFT_OUT: u64 = 5;
}

/// The next batch of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    operations: usize,
    /// Whether the batch may end on a timeout: only for the first replica, whose length the others follow.
    may_stop_early: bool,
}

impl Order {
    fn to_bytes(self) -> [u8; 8] {
        ((self.operations as u64) << 1 | u64::from(self.may_stop_early)).to_le_bytes()
    }

    fn from_bytes(bytes: [u8; 8]) -> Self {
        let word = u64::from_le_bytes(bytes);
        Self { operations: ((word >> 1) as usize).min(BATCH), may_stop_early: word & 1 != 0 }
    }
}

/// A replica as the coordinator sees it.
struct Replica {
    child: Option<Child>,
    samples: std::rc::Rc<SharedMemory>,
    orders: File,
    answers: File,
}

impl Replica {
    fn spawn(task: &Task<'_>) -> io::Result<Self> {
        let samples = std::rc::Rc::new(SharedMemory::new(BATCH)?);
        let (orders_read, orders) = io::pipe()?;
        let (answers, answers_write) = io::pipe()?;
        let [orders_read, orders, answers, answers_write] =
            [OwnedFd::from(orders_read), orders.into(), answers.into(), answers_write.into()].map(File::from);
        let child = Child::spawn(|board| {
            let mut stage = Stage { orders: &orders_read, answers: &answers_write, samples: &samples, board };
            stage.play(task.trace, task.subject, task.heap_bytes)
        })?;
        Ok(Self { child: Some(child), samples, orders, answers })
    }

    /// Lets the replica perform a batch, and returns its number of operations.
    fn run_batch(&mut self, order: Order) -> Result<usize, String> {
        let ordered = self.orders.write_all(&order.to_bytes());
        if ordered.is_err() {
            return Err(self.final_error());
        }
        self.answer(PATIENCE, |death| match death {
            Death::Hung { at, limit } => {
                format!("operation {at} did not end within {} seconds of processor time", limit.as_secs())
            }
            death => death.to_string(),
        })
    }

    /// Waits until its heap is ready; this is not an operation: touching a large region takes seconds of processor
    /// time.
    fn ready(&mut self, limit: Duration) -> Result<(), String> {
        self.answer(limit + PATIENCE, |death| format!("its heap was not ready: {death}")).map(drop)
    }

    /// Waits for an answer. `limit` is the processor time of one operation. The process that started this cell detects
    /// whether the machine is overloaded.
    fn answer(&mut self, limit: Duration, what: impl FnOnce(Death) -> String) -> Result<usize, String> {
        let Some(child) = &self.child else { return Err("a replica that had ended was called again".into()) };
        let (mut watch, mut at) = (child.watch(limit), child.board().index());
        loop {
            match poll([self.answers.as_fd()].into_iter(), watch.interval()) {
                Ok(ready) if ready[0] => break,
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
            if child.board().index() != at {
                (watch, at) = (child.watch(limit), child.board().index());
            }
            if let Some(death) = child.verdict(&mut watch)
                && !matches!(death, Death::Starved { .. })
            {
                self.child = None;
                return Err(what(death));
            }
        }
        let mut answer = [0; 8];
        match self.answers.read_exact(&mut answer) {
            Ok(()) => Ok(u64::from_le_bytes(answer) as usize),
            Err(_) => Err(self.final_error()),
        }
    }

    /// The error message of a replica whose pipes are closed, or the cause of its death.
    fn final_error(&mut self) -> String {
        match self.child.take().map(|child| child.wait::<String>(PATIENCE)) {
            Some(Ok(what)) => what,
            Some(Err(death)) => death.to_string(),
            None => "a replica that had ended was called again".into(),
        }
    }
}

/// The state of a replica.
struct Stage<'a> {
    orders: &'a File,
    answers: &'a File,
    samples: &'a SharedMemory,
    board: &'a Board,
}

impl Stage<'_> {
    /// Replays the trace in batches, until it ends or the coordinator exits. Returns the error message, or an empty
    /// text.
    fn play(&mut self, trace: &Path, subject: &Subject, heap_bytes: usize) -> String {
        match self.replay(trace, subject, heap_bytes) {
            Ok(()) => String::new(),
            Err(what) => what,
        }
    }

    fn replay(&mut self, trace: &Path, subject: &Subject, heap_bytes: usize) -> Result<(), String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let mut region = Region::new(heap_bytes, !subject.own_pages).map_err(|error| words(&error))?;
        let heap = Heap::new(subject, &mut region, heap_bytes).map_err(|error| words(&error))?;
        let mut reader = Reader::open(trace).map_err(|error| words(&error))?;
        let mut events = Vec::new();
        let mut rest = 0..0;
        let mut replay = Replay::new();
        let mut timing = Timing { samples: vec![0; BATCH], place: 0 };
        // Touches the pages of the samples, so that the first batch does not fault.
        for word in self.samples.words() {
            word.store(0, Ordering::Relaxed);
        }
        self.answer(0);
        while let Some(order) = self.order() {
            let start = Instant::now();
            timing.place = 0;
            while timing.place < order.operations && !(order.may_stop_early && start.elapsed() >= BATCH_TIME) {
                if rest.is_empty() {
                    if !reader.next_chunk(&mut events).map_err(|error| words(&error))? {
                        break;
                    }
                    rest = 0..events.len();
                }
                let length = rest.len().min(STRIDE).min(order.operations - timing.place);
                let stride = &events[rest.start..rest.start + length];
                rest.start += length;
                self.perform(&heap, stride, &mut replay, &mut timing).map_err(|fault| words(&fault))?;
            }
            for (word, sample) in self.samples.words().iter().zip(&timing.samples[..timing.place]) {
                word.store(*sample, Ordering::Relaxed);
            }
            self.answer(timing.place as u64);
        }
        Ok(())
    }

    /// Sends an answer to the coordinator. If the coordinator has exited, there is no next order either.
    fn answer(&mut self, operations: u64) {
        let _ = self.answers.write_all(&operations.to_le_bytes());
    }

    /// The next order, or `None` if the coordinator has exited.
    fn order(&mut self) -> Option<Order> {
        let mut order = [0; 8];
        self.orders.read_exact(&mut order).ok().map(|()| Order::from_bytes(order))
    }

    fn perform(
        &self,
        heap: &Heap<'_>,
        events: &[Event],
        replay: &mut Replay,
        timing: &mut Timing,
    ) -> Result<(), Fault> {
        replay.run::<false, _>(heap, events, &mut Noted { board: self.board, observer: timing })
    }
}

/// Times every operation.
struct Timing {
    samples: Vec<u64>,
    place: usize,
}

impl Timing {
    #[inline(always)]
    fn note(&mut self, kind: u64) {
        self.samples[self.place] |= kind << Kind::SHIFT;
        self.place += 1;
    }

    #[inline(always)]
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let before = ticks();
        let result = call();
        let after = ticks();
        self.samples[self.place] = after.wrapping_sub(before).min(Kind::TICKS);
        result
    }
}

impl Observer for Timing {
    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        self.time(|| unsafe { (heap.entries.allocate_at(align))(heap.context, size, align) })
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        self.time(|| unsafe { (heap.entries.deallocate)(heap.context, block, size, align) });
    }

    #[inline(always)]
    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        self.time(|| unsafe { (heap.entries.reallocate)(heap.context, block, old, align, new) })
    }

    #[inline(always)]
    fn before(&mut self, _index: u64) {
        // A request that the replay itself refuses is not timed.
        self.samples[self.place] = 0;
    }

    #[inline(always)]
    fn granted(&mut self, _heap: &Heap<'_>, _index: u64, _block: &Block, old_size: Option<usize>) {
        self.note(if old_size.is_some() { Kind::REALLOCATE } else { Kind::ALLOCATE });
    }

    #[inline(always)]
    fn freed(&mut self, _index: u64, _block: &Block) {
        self.note(Kind::FREE);
    }

    #[inline(always)]
    fn refused(&mut self, _index: u64, beyond_reach: bool) {
        self.note(if beyond_reach { Kind::BEYOND_REACH } else { Kind::REFUSED });
    }

    #[inline(always)]
    fn left_out(&mut self, _index: u64) {
        self.note(Kind::LEFT_OUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_calibrated() {
        let clock = Clock::calibrate();
        assert!(clock.step_ticks >= 1, "{clock:?}");
        assert!(clock.overhead_ticks < 10_000, "{clock:?}");
    }
}

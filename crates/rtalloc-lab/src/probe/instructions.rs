//! Executed instructions of every operation.
//!
//! The trace is replayed on [copies](Counted) of the entry points that count their own instructions: exact for every
//! operation, at nearly the speed of the originals. A subject that jumps to computed addresses may reach code that was
//! not copied; then the replay is repeated, in a fresh process, with that code copied too, until nothing is missed.
//!
//! Counts are compared with the [static bounds](Limits) of the entry points, if any: if one operation exceeds its
//! bound, the cell has no figures, because one of the two is wrong.

use super::{Counts, Report, Task};
use crate::observe::Limits;
use crate::observe::Operation;
use crate::probe::Counted;
use crate::replay::isolate::Child;
use crate::replay::processor::Budget;
use crate::replay::whole_trace::outcome;
use crate::replay::{Block, Observer, Replay};
use crate::result::schema::{Instructions, Refused};
use pathbound::counter::{Record, executed};
use pathbound::image::Process;
use rtalloc_subjects::{Heap, Region};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum number of replays, each with more code copied: each finds the targets of the most recently copied code.
pub const ROUNDS: usize = 24;

/// The outcome of a replay: its report, or the addresses it missed.
#[derive(Debug, Serialize, Deserialize)]
enum Attempt {
    Complete(Box<Report<Instructions>>),
    Missed(Vec<u64>),
}

/// Measures one cell. `counted` is the subject's.
#[must_use]
pub fn measure(task: &Task<'_>, process: &Process, counted: &Counted, limits: Limits) -> Report<Instructions> {
    if !counted.computes_targets() {
        return match attempt(task, counted, limits) {
            Attempt::Complete(report) => *report,
            Attempt::Missed(_) => Report::broken("a jump left the copied code: the counts would be too small"),
        };
    }
    let mut further = Vec::new();
    for _ in 0..ROUNDS {
        match isolated(task, process, &further, limits) {
            Ok(Attempt::Complete(report)) => return *report,
            Ok(Attempt::Missed(missed)) => further.extend(missed),
            Err(what) => return Report::broken(what),
        }
    }
    Report::broken(format!("{ROUNDS} replays did not find all code that its computed jumps lead to"))
}

/// An attempt in a separate process, since the heap of a subject with its own pages cannot be created afresh.
fn isolated(task: &Task<'_>, process: &Process, further: &[u64], limits: Limits) -> Result<Attempt, String> {
    let left = task.budget.left();
    let child = Child::spawn(|_| {
        let task = &Task { budget: Budget::new(left), ..*task };
        let counted = Counted::new(process, task.subject, further, Record::Count);
        counted.map_or_else(Attempt::broken, |counted| attempt(task, &counted, limits))
    });
    child.map_err(|error| error.to_string())?.wait(left + Duration::from_secs(1)).map_err(|death| death.to_string())
}

impl Attempt {
    fn broken(what: impl std::fmt::Display) -> Self {
        Self::Complete(Box::new(Report::broken(what)))
    }
}

fn attempt(task: &Task<'_>, counted: &Counted, limits: Limits) -> Attempt {
    let mut region = match Region::new(task.heap_bytes, false) {
        Ok(region) => region,
        Err(error) => {
            return Attempt::broken(format!("no memory for a heap of {} bytes: {error}", task.heap_bytes));
        }
    };
    let mut heap = match Heap::new(task.subject, &mut region, task.heap_bytes) {
        Ok(heap) => heap,
        Err(refusal) => return Attempt::broken(refusal),
    };
    heap.entries = counted.entries();
    let mut counting = Counting::default();
    let mut replay = Replay::new();
    let end = task.whole_trace().run::<false, false, _>(&heap, &mut replay, &mut counting);
    if !counted.counter().departures().is_empty() {
        return Attempt::broken(
            "instructions were reached that cannot be executed in a copy: the counts would be too small",
        );
    }
    let missed = counted.counter().misses();
    if !missed.is_empty() {
        return Attempt::Missed(missed.into_iter().collect());
    }
    match end {
        Ok(_) if let Some(what) = counting.excess(limits) => Attempt::broken(what),
        Ok(end) => {
            Attempt::Complete(Box::new(Report { outcome: outcome(end, &replay), figures: Some(counting.figures()) }))
        }
        Err(error) => Attempt::Complete(Box::new(error.into())),
    }
}

/// Records the count of every operation.
#[derive(Debug, Default)]
struct Counting {
    /// The operation in progress; `None` until it is performed.
    underway: Option<(Operation, u64)>,
    /// The largest counts by entry point, refused requests included.
    largest: [u64; Operation::ALL.len()],
    allocate: Counts,
    free: Counts,
    reallocate: Counts,
    refused_allocate: Refused,
    refused_reallocate: Refused,
}

impl Counting {
    /// The entry point that exceeded its bound, as text.
    fn excess(&self, limits: Limits) -> Option<String> {
        Operation::ALL.iter().zip(self.largest).zip(limits).find_map(|((operation, largest), limit)| {
            let limit = limit.filter(|limit| largest > *limit)?;
            Some(format!(
                "{} executed {largest} instructions, more than the {limit} of its static bound; one of the two is \
                 wrong, please report it",
                operation.name()
            ))
        })
    }

    fn figures(&self) -> Instructions {
        Instructions {
            allocate: self.allocate.distribution(),
            free: self.free.distribution(),
            reallocate: self.reallocate.distribution(),
            most: self.largest,
            refused_allocate: self.refused_allocate,
            refused_reallocate: self.refused_reallocate,
        }
    }

    /// Calls an entry point and records its count.
    #[inline(always)]
    fn count<R>(&mut self, operation: Operation, call: impl FnOnce() -> R) -> R {
        let before = executed();
        let result = call();
        let instructions = executed().wrapping_sub(before);
        self.underway = Some((operation, instructions));
        let largest = &mut self.largest[operation as usize];
        *largest = instructions.max(*largest);
        result
    }
}

impl Observer for Counting {
    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let entry = heap.entries.allocate_at(align);
        let natural = heap.entries.is_natural(align);
        let operation = if natural { Operation::Allocate } else { Operation::AllocateAligned };
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        self.count(operation, || unsafe { entry(heap.context, size, align) })
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        let entry = heap.entries.deallocate;
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        self.count(Operation::Deallocate, || unsafe { entry(heap.context, block, size, align) });
    }

    #[inline(always)]
    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        let entry = heap.entries.reallocate;
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        self.count(Operation::Reallocate, || unsafe { entry(heap.context, block, old, align, new) })
    }

    #[inline(always)]
    fn granted(&mut self, _heap: &Heap<'_>, _index: u64, _block: &Block, old_size: Option<usize>) {
        let counts = if old_size.is_some() { &mut self.reallocate } else { &mut self.allocate };
        counts.add(self.underway.map_or(0, |(_, instructions)| instructions));
    }

    #[inline(always)]
    fn freed(&mut self, _index: u64, _block: &Block) {
        self.free.add(self.underway.map_or(0, |(_, instructions)| instructions));
    }

    #[inline(always)]
    fn before(&mut self, _index: u64) {
        self.underway = None;
    }

    #[inline(always)]
    fn refused(&mut self, _index: u64, _beyond_reach: bool) {
        // A request that the replay itself refused executed nothing.
        let Some((operation, instructions)) = self.underway else { return };
        let refused = match operation {
            Operation::Reallocate => &mut self.refused_reallocate,
            _ => &mut self.refused_allocate,
        };
        refused.count += 1;
        refused.max = refused.max.max(instructions);
    }
}

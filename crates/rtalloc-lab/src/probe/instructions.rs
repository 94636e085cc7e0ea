//! Executed instructions of a sample of the operations.
//!
//! All operations are performed; those of the sample by [`Stepper`]. The trace is cut into as many stretches of
//! equal length as samples are wanted, and one operation of each, at a place chosen by a fixed hash so that no rhythm
//! of the program can hide in it, is stepped through. A subject with long operations would take minutes: there is a
//! budget of stepped instructions, and one of half the time allowed, that grow along the trace; while one is overdrawn
//! stretches are skipped. As many samples as operations count every one.

use super::step::Stepper;
use super::{Counts, Report, Task};
use crate::replay::course::outcome;
use crate::replay::{Block, Observer, Replay};
use crate::result::schema::Instructions;
use crate::subject::{Heap, Region};
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// How operations are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Operations to step through.
    pub operations: u64,
    /// Instructions to step through at most.
    pub instructions: u64,
}

/// What stepping may cost, or has cost.
#[derive(Clone, Copy, Debug)]
struct Expense {
    instructions: u64,
    time: Duration,
}

/// Measures one cell.
#[must_use]
pub fn measure(task: &Task<'_>, sample: Sample) -> Report<Instructions> {
    let mut stepper = match Stepper::new() {
        Ok(stepper) => stepper,
        Err(error) => return Report::broken(error),
    };
    let mut region = match Region::new(task.heap_bytes, false) {
        Ok(region) => region,
        Err(error) => return Report::broken(format!("no memory for a heap of {} bytes: {error}", task.heap_bytes)),
    };
    let heap = match Heap::new(task.subject, &mut region, task.heap_bytes) {
        Ok(heap) => heap,
        Err(refusal) => return Report::broken(refusal),
    };
    let budget = Expense {
        instructions: sample.instructions,
        time: task.deadline.saturating_duration_since(Instant::now()) / 2,
    };
    let mut stepping = Stepping::new(&mut stepper, Choice::new(task.events, sample.operations, budget));
    let mut replay = Replay::new();
    match task.course().run::<false, false, _>(&heap, &mut replay, &mut stepping) {
        Ok(end) => Report { outcome: outcome(end, &replay), figures: Some(stepping.figures()) },
        Err(error) => error.into(),
    }
}

/// Which operations are stepped through.
#[derive(Clone, Debug)]
struct Choice {
    events: u64,
    operations: u64,
    stretch: u64,
    next: u64,
    budget: Expense,
    spent: Expense,
}

impl Choice {
    fn new(events: u64, operations: u64, budget: Expense) -> Self {
        let spent = Expense { instructions: 0, time: Duration::ZERO };
        let operations = operations.min(events);
        let mut choice = Self { events, operations, stretch: 0, next: u64::MAX, budget, spent };
        choice.advance();
        choice
    }

    /// Chooses the operation of the next stretch.
    fn advance(&mut self) {
        if self.stretch >= self.operations {
            self.next = u64::MAX;
            return;
        }
        let boundary = |stretch: u64| {
            let product = u128::from(stretch) * u128::from(self.events) / u128::from(self.operations);
            u64::try_from(product).unwrap_or(u64::MAX)
        };
        let (start, end) = (boundary(self.stretch), boundary(self.stretch + 1));
        self.next = start + hash(self.stretch) % (end - start);
        self.stretch += 1;
    }

    /// Whether to step through this operation.
    #[inline(always)]
    fn takes(&mut self, index: u64) -> bool {
        if index != self.next {
            return false;
        }
        self.advance();
        // A tenth of the budget is there from the start.
        let share = (index + self.events / 10 + 1) as f64 / self.events as f64;
        self.spent.instructions as f64 <= self.budget.instructions as f64 * share
            && self.spent.time.as_secs_f64() <= self.budget.time.as_secs_f64() * share
    }
}

/// Mixes the bits of a number (the finaliser of splitmix64).
fn hash(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Calls the chosen operations through the stepper, the others plainly.
struct Stepping<'a> {
    stepper: &'a mut Stepper,
    choice: Choice,
    chosen: bool,
    count: u64,
    allocate: Counts,
    free: Counts,
    reallocate: Counts,
    sampled: u64,
}

impl<'a> Stepping<'a> {
    fn new(stepper: &'a mut Stepper, choice: Choice) -> Self {
        Self {
            stepper,
            choice,
            chosen: false,
            count: 0,
            allocate: Counts::default(),
            free: Counts::default(),
            reallocate: Counts::default(),
            sampled: 0,
        }
    }

    /// # Safety
    ///
    /// As [`Stepper::call`].
    #[cold]
    unsafe fn step(&mut self, entry: *const c_void, arguments: [usize; 5]) -> usize {
        let start = Instant::now();
        // SAFETY: the caller's promise.
        let (result, count) = unsafe { self.stepper.call(entry, arguments) };
        self.count = count;
        self.choice.spent.instructions += count;
        self.choice.spent.time += start.elapsed();
        result
    }

    fn figures(&self) -> Instructions {
        Instructions {
            sampled: self.sampled,
            method: "single-step".into(),
            allocate: self.allocate.distribution(),
            free: self.free.distribution(),
            reallocate: self.reallocate.distribution(),
        }
    }
}

impl Observer for Stepping<'_> {
    #[inline(always)]
    fn before(&mut self, index: u64) {
        self.chosen = self.choice.takes(index);
    }

    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let entry = heap.entries.allocate_at(align);
        // SAFETY: the caller's promise; the entry points and the context belong together.
        unsafe {
            if self.chosen {
                self.step(entry as *const c_void, [heap.context as usize, size, align, 0, 0]) as *mut u8
            } else {
                entry(heap.context, size, align)
            }
        }
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        let entry = heap.entries.deallocate;
        // SAFETY: the caller's promise; the entry points and the context belong together.
        unsafe {
            if self.chosen {
                self.step(entry as *const c_void, [heap.context as usize, block as usize, size, align, 0]);
            } else {
                entry(heap.context, block, size, align);
            }
        }
    }

    #[inline(always)]
    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        let entry = heap.entries.reallocate;
        // SAFETY: the caller's promise; the entry points and the context belong together.
        unsafe {
            if self.chosen {
                let arguments = [heap.context as usize, block as usize, old, align, new];
                self.step(entry as *const c_void, arguments) as *mut u8
            } else {
                entry(heap.context, block, old, align, new)
            }
        }
    }

    #[inline(always)]
    fn granted(&mut self, _heap: &Heap<'_>, _index: u64, _block: &Block, old_size: Option<usize>) {
        if self.chosen {
            self.sampled += 1;
            let counts = if old_size.is_some() { &mut self.reallocate } else { &mut self.allocate };
            counts.add(self.count);
        }
    }

    #[inline(always)]
    fn freed(&mut self, _index: u64, _block: &Block) {
        if self.chosen {
            self.sampled += 1;
            self.free.add(self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(events: u64, operations: u64, budget: Expense, cost: Expense) -> Vec<u64> {
        let mut choice = Choice::new(events, operations, budget);
        (0..events)
            .filter(|index| {
                let takes = choice.takes(*index);
                if takes {
                    choice.spent.instructions += cost.instructions;
                    choice.spent.time += cost.time;
                }
                takes
            })
            .collect()
    }

    const PLENTY: Expense = Expense { instructions: u64::MAX, time: Duration::MAX };
    const LITTLE: Expense = Expense { instructions: 1, time: Duration::from_nanos(1) };

    #[test]
    fn one_operation_of_every_stretch_is_chosen() {
        let indices = chosen(10_000, 100, PLENTY, LITTLE);
        let stretches: Vec<u64> = indices.iter().map(|index| index / 100).collect();
        assert_eq!(stretches, (0..100).collect::<Vec<_>>());
        let offsets: std::collections::BTreeSet<u64> = indices.iter().map(|index| index % 100).collect();
        assert!(offsets.len() > 40, "no fixed rhythm: {offsets:?}");
    }

    #[test]
    fn a_sample_as_large_as_the_trace_is_every_operation() {
        assert_eq!(chosen(50, 90, PLENTY, LITTLE), (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn a_budget_is_spread_over_the_trace() {
        let cost = Expense { instructions: 100, time: Duration::from_millis(1) };
        let budgets =
            [Expense { instructions: 10_000, ..PLENTY }, Expense { time: Duration::from_millis(100), ..PLENTY }];
        for budget in budgets {
            let indices = chosen(10_000, 1_000, budget, cost);
            assert!((90..=115).contains(&indices.len()), "{}", indices.len());
            assert!(indices.iter().any(|index| *index > 9_000), "the end is sampled too");
        }
    }
}

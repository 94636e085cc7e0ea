//! Executed instructions of a sample of the operations.
//!
//! All operations are performed; those of the sample by [`Stepper`]. The trace is cut into as many stretches of
//! equal length as samples are wanted, and one operation of each, at a place chosen by a fixed hash so that no rhythm
//! of the program can hide in it, is stepped through. As many samples as operations count every one.
//!
//! A subject with long operations would take minutes: there is a budget of stepped instructions, and one of time, that
//! grow along the trace. When one is overdrawn, of every two neighbouring stretches (then of every four, eight, ...)
//! only one keeps its sample, *in the part already replayed as well*; a hash chooses it, never the cost. So the sample
//! has one rate over the whole trace whatever operations cost where, and its mean is that of the trace; skipping
//! what follows an expensive operation would favour the cheap ones. Below 64 samples nothing more is given up;
//! a subject that cannot afford those in half the time allowed gets no figures.
//!
//! The maximum is that of every operation stepped through: those given up later too, and some allocations with
//! large alignments, often the longest way through an allocator of constant time, which are stepped through besides
//! the sample, the same for every subject, so that a maximum does not hang on whether the sample met one.

use super::step::Stepper;
use super::{Counts, Report, Task};
use crate::replay::course::outcome;
use crate::replay::{Block, Observer, Replay};
use crate::result::schema::{Distribution, Instructions};
use crate::subject::{Heap, NATURAL_ALIGN_BYTES, Region};
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
#[derive(Clone, Copy, Debug, Default)]
struct Expense {
    instructions: u64,
    time: Duration,
}

impl Expense {
    fn add(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.time += other.time;
    }

    /// Whether this is more than `share` of the budget.
    fn exceeds(self, budget: Self, share: f64) -> bool {
        self.instructions as f64 > budget.instructions as f64 * share
            || self.time.as_secs_f64() > budget.time.as_secs_f64() * share
    }
}

/// Samples that are not given up for the budget's sake: of fewer a mean says nothing.
const FEWEST: u64 = 64;
/// Allocations with large alignments that are stepped through besides the sample, at most.
const MOST_ALIGNED: u32 = 24;

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
        time: task.deadline.saturating_duration_since(Instant::now()) / 4,
    };
    let mut stepping = Stepping::new(&mut stepper, Choice::new(task.events, sample.operations), budget);
    let mut replay = Replay::new();
    match task.course().run::<false, false, _>(&heap, &mut replay, &mut stepping) {
        Ok(end) => Report { outcome: outcome(end, &replay), figures: stepping.figures() },
        Err(error) => error.into(),
    }
}

/// Which operations are stepped through.
#[derive(Clone, Debug)]
struct Choice {
    events: u64,
    operations: u64,
    /// The stretch whose operation comes next.
    stretch: u64,
    next: u64,
    /// Of every 2^level stretches one has a sample.
    level: u32,
}

impl Choice {
    fn new(events: u64, operations: u64) -> Self {
        let mut choice = Self { events, operations: operations.min(events), stretch: 0, next: u64::MAX, level: 0 };
        choice.seek();
        choice
    }

    /// Goes on to the operation of the first stretch, from this one on, that has a sample.
    fn seek(&mut self) {
        while self.stretch < self.operations && !keeps(self.stretch, self.level) {
            self.stretch += 1;
        }
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
    }

    /// The stretch this operation stands for, if it is one to step through.
    #[inline(always)]
    fn takes(&mut self, index: u64) -> Option<u64> {
        if index != self.next {
            return None;
        }
        let stretch = self.stretch;
        self.stretch += 1;
        self.seek();
        Some(stretch)
    }

    /// Halves the rate, unless too few samples would be left.
    fn thin(&mut self) -> bool {
        if self.operations >> (self.level + 1) < FEWEST {
            return false;
        }
        self.level += 1;
        self.seek();
        true
    }

    fn stop(&mut self) {
        self.stretch = self.operations;
        self.seek();
    }
}

/// Whether a stretch has a sample where one of every 2^level has: it must win against its neighbour, the winner
/// against the neighbouring pair's, and so on.
fn keeps(stretch: u64, level: u32) -> bool {
    (0..level).all(|round| {
        let pair = stretch >> (round + 1);
        (stretch >> round) & 1 == hash(pair ^ (u64::from(round) + 1) << 48) & 1
    })
}

/// Mixes the bits of a number (the finaliser of splitmix64).
fn hash(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What an operation that was stepped through did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Allocate,
    Free,
    Reallocate,
    Refused,
}

/// An operation of the sample.
#[derive(Clone, Copy, Debug)]
struct Stepped {
    stretch: u64,
    kind: Kind,
    expense: Expense,
}

/// Why an operation is stepped through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    /// It is not.
    No,
    /// For its stretch.
    Sample(u64),
    /// For the maximum alone.
    Aligned,
}

/// Calls the chosen operations through the stepper, the others plainly.
struct Stepping<'a> {
    stepper: &'a mut Stepper,
    choice: Choice,
    budget: Expense,
    chosen: Chosen,
    /// Of the operation underway.
    expense: Expense,
    sample: Vec<Stepped>,
    /// Of the sample as it is.
    spent: Expense,
    /// On the sample and on what was given up of it.
    time: Duration,
    exhausted: bool,
    aligned: Aligned,
    allocate_max: u64,
    free_max: u64,
    reallocate_max: u64,
}

/// Which allocations with large alignments are stepped through besides the sample.
#[derive(Clone, Copy, Debug, Default)]
struct Aligned {
    met: u64,
    stepped: u32,
    time: Duration,
}

impl Aligned {
    /// The first, second, third, fourth, sixth, eighth, twelfth, ...: wherever the trace has its first many, and the
    /// same for every subject that has the time.
    fn takes(&mut self, most_time: Duration) -> bool {
        self.met += 1;
        let takes = matches!(self.met >> self.met.trailing_zeros(), 1 | 3)
            && self.stepped < MOST_ALIGNED
            && self.time <= most_time;
        self.stepped += u32::from(takes);
        takes
    }
}

impl<'a> Stepping<'a> {
    fn new(stepper: &'a mut Stepper, choice: Choice, budget: Expense) -> Self {
        Self {
            stepper,
            choice,
            budget,
            chosen: Chosen::No,
            expense: Expense::default(),
            sample: Vec::new(),
            spent: Expense::default(),
            time: Duration::ZERO,
            exhausted: false,
            aligned: Aligned::default(),
            allocate_max: 0,
            free_max: 0,
            reallocate_max: 0,
        }
    }

    /// # Safety
    ///
    /// As [`Stepper::call`].
    #[cold]
    unsafe fn step(&mut self, entry: *const c_void, arguments: [usize; 5]) -> usize {
        let start = Instant::now();
        // SAFETY: the caller's promise.
        let (result, instructions) = unsafe { self.stepper.call(entry, arguments) };
        self.expense = Expense { instructions, time: start.elapsed() };
        result
    }

    /// Enters the operation that was stepped through, and thins the sample out where the budget is overdrawn.
    #[cold]
    fn enter(&mut self, index: u64, kind: Kind) {
        let expense = self.expense;
        let max = match kind {
            Kind::Allocate => &mut self.allocate_max,
            Kind::Free => &mut self.free_max,
            Kind::Reallocate => &mut self.reallocate_max,
            Kind::Refused => &mut 0,
        };
        *max = expense.instructions.max(*max);
        let Chosen::Sample(stretch) = self.chosen else {
            self.aligned.time += expense.time;
            return;
        };
        self.sample.push(Stepped { stretch, kind, expense });
        self.spent.add(expense);
        self.time += expense.time;
        // A tenth of the budget is there from the start.
        let events = self.choice.events;
        let share = (index + events / 10 + 1) as f64 / events as f64;
        if self.spent.exceeds(self.budget, share) && self.choice.thin() {
            let level = self.choice.level;
            self.sample.retain(|stepped| keeps(stepped.stretch, level));
            self.spent = Expense::default();
            self.sample.iter().for_each(|stepped| self.spent.add(stepped.expense));
        }
        if self.time > self.budget.time * 2 {
            self.exhausted = true;
            self.choice.stop();
        }
    }

    /// None where the sample ended before the trace did: it would speak for the beginning alone.
    fn figures(&self) -> Option<Instructions> {
        let distribution = |kind: Kind, max: u64| {
            let mut counts = Counts::default();
            for stepped in self.sample.iter().filter(|stepped| stepped.kind == kind) {
                counts.add(stepped.expense.instructions);
            }
            Distribution { max, ..counts.distribution() }
        };
        let [allocate, free, reallocate] = [
            distribution(Kind::Allocate, self.allocate_max),
            distribution(Kind::Free, self.free_max),
            distribution(Kind::Reallocate, self.reallocate_max),
        ];
        (!self.exhausted).then(|| Instructions {
            sampled: allocate.count + free.count + reallocate.count,
            method: "single-step".into(),
            allocate,
            free,
            reallocate,
        })
    }
}

impl Observer for Stepping<'_> {
    #[inline(always)]
    fn before(&mut self, index: u64) {
        self.chosen = self.choice.takes(index).map_or(Chosen::No, Chosen::Sample);
        // A request that the replay refuses by itself costs nothing.
        self.expense = Expense::default();
    }

    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let entry = heap.entries.allocate_at(align);
        if align > NATURAL_ALIGN_BYTES && self.aligned.takes(self.budget.time) && self.chosen == Chosen::No {
            self.chosen = Chosen::Aligned;
        }
        // SAFETY: the caller's promise; the entry points and the context belong together.
        unsafe {
            if self.chosen != Chosen::No {
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
            if self.chosen != Chosen::No {
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
            if self.chosen != Chosen::No {
                let arguments = [heap.context as usize, block as usize, old, align, new];
                self.step(entry as *const c_void, arguments) as *mut u8
            } else {
                entry(heap.context, block, old, align, new)
            }
        }
    }

    #[inline(always)]
    fn granted(&mut self, _heap: &Heap<'_>, index: u64, _block: &Block, old_size: Option<usize>) {
        if self.chosen != Chosen::No {
            self.enter(index, if old_size.is_some() { Kind::Reallocate } else { Kind::Allocate });
        }
    }

    #[inline(always)]
    fn freed(&mut self, index: u64, _block: &Block) {
        if self.chosen != Chosen::No {
            self.enter(index, Kind::Free);
        }
    }

    #[inline(always)]
    fn refused(&mut self, index: u64) {
        if self.chosen != Chosen::No {
            self.enter(index, Kind::Refused);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(choice: &mut Choice) -> Vec<u64> {
        (0..choice.events).filter(|index| choice.takes(*index).is_some()).collect()
    }

    #[test]
    fn one_operation_of_every_stretch_is_chosen() {
        let indices = chosen(&mut Choice::new(10_000, 100));
        let stretches: Vec<u64> = indices.iter().map(|index| index / 100).collect();
        assert_eq!(stretches, (0..100).collect::<Vec<_>>());
        let offsets: std::collections::BTreeSet<u64> = indices.iter().map(|index| index % 100).collect();
        assert!(offsets.len() > 40, "no fixed rhythm: {offsets:?}");
    }

    #[test]
    fn a_sample_as_large_as_the_trace_is_every_operation() {
        assert_eq!(chosen(&mut Choice::new(50, 90)), (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn thinning_leaves_one_of_every_group_down_to_the_fewest() {
        let mut choice = Choice::new(100_000, 1024);
        for level in 1..=4 {
            assert!(choice.thin());
            let kept: Vec<u64> = (0..1024).filter(|stretch| keeps(*stretch, level)).collect();
            let groups: Vec<u64> = kept.iter().map(|stretch| stretch >> level).collect();
            assert_eq!(groups, (0..1024 >> level).collect::<Vec<_>>());
            let first = kept.iter().filter(|stretch| **stretch & 1 == 0).count();
            assert!((kept.len() / 4..=kept.len() * 3 / 4).contains(&first), "no fixed rhythm: {kept:?}");
        }
        assert!(!choice.thin(), "{FEWEST} are left");
        assert_eq!(chosen(&mut choice).len() as u64, FEWEST);
    }

    /// Enters the whole trace with made-up costs.
    fn entered(stepper: &mut Stepper, events: u64, budget: Expense, cost: impl Fn(u64) -> Expense) -> Stepping<'_> {
        let mut stepping = Stepping::new(stepper, Choice::new(events, 4_096), budget);
        for index in 0..events {
            stepping.before(index);
            if stepping.chosen != Chosen::No {
                stepping.expense = cost(index);
                stepping.enter(index, Kind::Allocate);
            }
        }
        stepping
    }

    const LONG: Duration = Duration::from_secs(1_000_000);

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn the_mean_of_uneven_costs_is_kept_within_a_budget() {
        const EVENTS: u64 = 400_000;
        // Dear at the end, with rare peaks: a budget that skips what follows a dear operation gets this wrong.
        let instructions = |index: u64| 10 + index / 1_000 + if hash(index).is_multiple_of(16) { 2_000 } else { 0 };
        let mean = (0..EVENTS).map(instructions).sum::<u64>() as f64 / EVENTS as f64;
        let mut stepper = Stepper::new().expect("single-stepping");
        let budget = Expense { instructions: 300_000, time: LONG };
        let cost = |index| Expense { instructions: instructions(index), time: Duration::ZERO };
        let stepping = entered(&mut stepper, EVENTS, budget, cost);
        let figures = stepping.figures().expect("figures");
        assert!((500..=1_024).contains(&figures.sampled), "{}", figures.sampled);
        assert_eq!(figures.sampled, figures.allocate.count);
        assert!((figures.allocate.mean / mean - 1.0).abs() < 0.15, "{} is not {mean}", figures.allocate.mean);
        assert!(stepping.spent.instructions <= budget.instructions * 11 / 10 + 3_000);
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn a_subject_too_slow_for_the_fewest_samples_gets_no_figures() {
        let mut stepper = Stepper::new().expect("single-stepping");
        let budget = Expense { instructions: u64::MAX, time: Duration::from_secs(1) };
        let cost = |_| Expense { instructions: 100, time: Duration::from_millis(100) };
        let stepping = entered(&mut stepper, 400_000, budget, cost);
        assert!(stepping.figures().is_none());
        assert!(stepping.time <= Duration::from_millis(2_200), "{:?}", stepping.time);
    }

    #[test]
    fn the_same_aligned_requests_are_always_stepped_through() {
        let mut aligned = Aligned::default();
        let taken: Vec<u64> = (1..=20).filter(|_| aligned.takes(LONG)).collect();
        assert_eq!(taken, [1, 2, 3, 4, 6, 8, 12, 16]);
        let more = (0..1 << 20).filter(|_| aligned.takes(LONG)).count();
        assert_eq!(more + taken.len(), MOST_ALIGNED as usize);
    }
}

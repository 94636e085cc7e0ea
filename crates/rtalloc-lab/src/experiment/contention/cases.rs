//! The test cases of the wait-free paper (2010, section 3.5.2).
//!
//! Each repetition has its own heap and its own threads, which start together. Only the call is timed: counters,
//! budgets and the check for the time limit follow the second reading of the clock.
//!
//! *Spurious* refusals. Nothing is freed in cases I and III, so if a refused request is served after all threads have
//! stopped, the memory was available. In case II every thread has one block at a time, so every refusal is spurious. In
//! case IV this cannot be determined.

use super::crew::Crew;
use crate::probe::Counts;
use crate::probe::cycles::{Clock, ticks};
use crate::result::contention::{Case, Figures, Interval};
use rtalloc::contract::Steps;
use rtalloc_subjects::Region;
use rtalloc_subjects::shared::{Refused, SharedHeap, SharedSubject, User};
use rtalloc_subjects::steps;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Block size of cases I and II, in bytes: 15 of the paper's nodes of 64 B, minus the header.
pub const SIZE: usize = 948;
/// The first size of cases III and IV, and the growth factor.
const FIRST_SIZE: f64 = 10.0;
const GROWTH: f64 = 1.25;

/// The sizes of cases III and IV: the last one exceeds the heap, so every thread is eventually refused.
fn sizes(heap_bytes: usize) -> Vec<usize> {
    let next = |size: &f64| Some(size * GROWTH);
    let sizes = std::iter::successors(Some(FIRST_SIZE), next).map(|size| size as usize);
    let mut sizes: Vec<usize> = sizes.take_while(|size| *size <= heap_bytes).collect();
    sizes.push(2 * heap_bytes);
    sizes
}

/// The amount of measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes of the heap.
    pub heap_bytes: usize,
    /// Bytes of the region that has such a heap.
    pub region_bytes: usize,
    /// Bytes by which every request is larger, for a header that the paper's allocator has in the heap.
    pub header_bytes: usize,
    /// Allocate-free pairs per thread in case II.
    pub pairs: u64,
    /// Repetitions of the case.
    pub repetitions: u64,
    /// Time limit for all repetitions, in ticks.
    pub limit_ticks: u64,
    /// The clock; its overhead is subtracted from every sample.
    pub clock: Clock,
}

/// The cost of an operation.
trait Meter {
    fn begin() -> u64;
    fn end(begun: u64) -> u64;
}

/// Ticks of the clock.
struct Timer;

impl Meter for Timer {
    #[inline(always)]
    fn begin() -> u64 {
        ticks()
    }

    #[inline(always)]
    fn end(begun: u64) -> u64 {
        ticks().wrapping_sub(begun)
    }
}

/// Accesses to shared words, packed into one word.
struct Stepper;

const FIELD: u32 = 21;

impl Meter for Stepper {
    fn begin() -> u64 {
        let _ = steps::taken();
        0
    }

    fn end(_: u64) -> u64 {
        let Steps { read_modify_writes, loads, stores } = steps::taken();
        [read_modify_writes, loads, stores].into_iter().fold(0, |all, one| all << FIELD | (one as u64).min(MOST))
    }
}

const MOST: u64 = (1 << FIELD) - 1;

/// Unpacks the counts of [`Stepper`]: atomic RMWs, loads, stores.
fn unpacked(sample: u64) -> [u64; 3] {
    [sample >> (2 * FIELD), sample >> FIELD & MOST, sample & MOST]
}

/// State shared by the threads of a repetition.
struct Common {
    /// Bytes that may still be requested, if the heap itself cannot be limited.
    budget: Option<AtomicI64>,
    /// Case IV: the threads that were refused and have not been served since, and the total number of requests served.
    failing: Vec<AtomicBool>,
    served: AtomicU64,
    end_ticks: u64,
}

impl Common {
    fn take(&self, size: usize) -> bool {
        self.budget.as_ref().is_none_or(|budget| {
            let taken = budget.fetch_sub(size as i64, Ordering::Relaxed) >= size as i64;
            if !taken {
                budget.fetch_add(size as i64, Ordering::Relaxed);
            }
            taken
        })
    }

    fn give_back(&self, size: usize) {
        if let Some(budget) = &self.budget {
            budget.fetch_add(size as i64, Ordering::Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        ticks() > self.end_ticks
    }

    fn all_failing(&self) -> bool {
        self.failing.iter().all(|failing| failing.load(Ordering::SeqCst))
    }
}

/// The results of a thread.
struct Log<'heap> {
    user: User<'heap>,
    samples: Vec<u64>,
    /// Live blocks: address and size.
    blocks: Vec<(usize, usize)>,
    /// The request at which it stopped.
    refused: Option<usize>,
    unfinished: bool,
}

impl Log<'_> {
    /// One allocation; `None` if it was refused.
    #[inline(always)]
    fn allocate<M: Meter>(&mut self, size: usize) -> Option<*mut u8> {
        let begun = M::begin();
        let block = self.user.allocate(size, 1);
        let taken = M::end(begun);
        if block.is_null() {
            return None;
        }
        self.samples.push(taken);
        Some(block)
    }

    fn keep<M: Meter>(&mut self, common: &Common, sizes: impl Iterator<Item = usize>) {
        for size in sizes {
            if common.is_over() || self.samples.len() == self.samples.capacity() {
                self.unfinished = true;
                return;
            }
            if !common.take(size) {
                return;
            }
            let Some(block) = self.allocate::<M>(size) else {
                self.refused = Some(size);
                return;
            };
            self.blocks.push((block as usize, size));
        }
    }

    fn pairs<M: Meter>(&mut self, common: &Common, pairs: u64, size: usize) {
        for _ in 0..pairs {
            let begun = M::begin();
            let block = self.user.allocate(size, 1);
            if block.is_null() {
                if common.is_over() {
                    self.unfinished = true;
                    return;
                }
                continue;
            }
            // SAFETY: the block is live, and not used again.
            unsafe { self.user.deallocate(block, size, 1) };
            let taken = M::end(begun);
            self.samples.push(taken);
            if common.is_over() {
                self.unfinished = true;
                return;
            }
        }
    }

    fn grow_and_free<M: Meter>(&mut self, common: &Common, number: usize, sizes: &[usize]) {
        for size in sizes {
            loop {
                if common.is_over() {
                    self.unfinished = true;
                    common.failing[number].store(true, Ordering::SeqCst);
                    return;
                }
                let served = common.served.load(Ordering::SeqCst);
                if common.take(*size) {
                    let block = self.allocate::<M>(*size);
                    if let Some(block) = block {
                        common.failing[number].store(false, Ordering::SeqCst);
                        // SAFETY: the block is live, and not used again.
                        unsafe { self.user.deallocate(block, *size, 1) };
                    }
                    common.give_back(*size);
                    if block.is_some() {
                        common.served.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                }
                common.failing[number].store(true, Ordering::SeqCst);
                if common.all_failing() && common.served.load(Ordering::SeqCst) == served {
                    return;
                }
                std::thread::yield_now();
            }
        }
        common.failing[number].store(true, Ordering::SeqCst);
    }
}

/// Maximum number of operations of a thread in a repetition.
fn capacity(case: Case, plan: &Plan, sizes: &[usize]) -> usize {
    match case {
        Case::I => plan.heap_bytes / SIZE + 2,
        Case::II => plan.pairs as usize,
        Case::III | Case::IV => sizes.len(),
    }
}

/// The results of all repetitions.
struct Found {
    samples: Counts,
    means: Vec<f64>,
    utilisations: Vec<f64>,
    refused: Refused,
    spurious: u64,
    unfinished: bool,
}

/// Runs a case with the given number of threads, one repetition after the other, in this process.
fn perform<M: Meter>(
    subject: &'static SharedSubject,
    crew: &Crew,
    case: Case,
    threads: usize,
    plan: &Plan,
) -> Result<Found, String> {
    let region_bytes = plan.region_bytes;
    let mut region = Region::new(region_bytes, !subject.own_pages).map_err(|error| error.to_string())?;
    let more = plan.header_bytes;
    let sizes: Vec<usize> = sizes(plan.heap_bytes).into_iter().map(|size| size + more).collect();
    let end_ticks = ticks() + plan.limit_ticks;
    let mut found = Found {
        samples: Counts::default(),
        means: Vec::new(),
        utilisations: Vec::new(),
        refused: Refused::default(),
        spurious: 0,
        unfinished: false,
    };
    for repetition in 0..plan.repetitions {
        if ticks() > end_ticks {
            found.unfinished = true;
            break;
        }
        let mut heap =
            SharedHeap::new(subject, &mut region, region_bytes, threads).map_err(|refusal| refusal.to_string())?;
        let common = Common {
            budget: subject.own_pages.then(|| AtomicI64::new(plan.heap_bytes as i64)),
            failing: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            served: AtomicU64::new(0),
            end_ticks,
        };
        let users: Option<Vec<User<'_>>> = (0..threads).map(|number| heap.join(number)).collect();
        let users = users.ok_or("it does not support that many threads")?;
        let mut logs = crew.perform(users, |user, barrier| {
            let number = user.number();
            let capacity = capacity(case, plan, &sizes);
            // Touches every page before timing starts.
            let (mut samples, mut blocks) = (vec![1; capacity], vec![(1, 1); capacity]);
            samples.clear();
            blocks.clear();
            let mut log = Log { user, samples, blocks, refused: None, unfinished: false };
            barrier.wait();
            match case {
                Case::I => log.keep::<M>(&common, std::iter::repeat(SIZE + more)),
                Case::II => log.pairs::<M>(&common, plan.pairs, SIZE + more),
                Case::III => log.keep::<M>(&common, sizes.iter().copied()),
                Case::IV => log.grow_and_free::<M>(&common, number, &sizes),
            }
            log
        });
        conclude(subject, case, plan, &mut logs, &mut found, (heap.start, heap.end))?;
        drop(logs);
        if repetition == 0 {
            heap.check()?;
        }
    }
    Ok(found)
}

/// Verifies, adds up and frees the blocks of the threads of a repetition.
fn conclude(
    subject: &SharedSubject,
    case: Case,
    plan: &Plan,
    logs: &mut [Log<'_>],
    found: &mut Found,
    (start, end): (usize, usize),
) -> Result<(), String> {
    let mut blocks: Vec<(usize, usize)> = logs.iter().flat_map(|log| log.blocks.iter().copied()).collect();
    blocks.sort_unstable();
    if blocks.iter().any(|(block, size)| *block < start || block.saturating_add(*size) > end) {
        return Err("a block lies outside the heap".into());
    }
    if blocks.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        return Err("two live blocks overlap".into());
    }
    let (mut sum, mut count) = (0, 0);
    for log in logs.iter() {
        found.refused += log.user.refused();
        found.unfinished |= log.unfinished;
        for sample in &log.samples {
            let sample = sample.saturating_sub(plan.clock.overhead_ticks);
            found.samples.add(sample);
            sum += sample;
            count += 1;
        }
    }
    if count > 0 {
        found.means.push(sum as f64 / f64::from(count));
    }
    if case == Case::II {
        found.spurious = found.refused.total();
    }
    for log in logs.iter_mut() {
        if let Some(size) = log.refused {
            let block = log.user.allocate(size, 1);
            if !block.is_null() {
                found.spurious += 1;
                // SAFETY: the block is live, and not used again.
                unsafe { log.user.deallocate(block, size, 1) };
            }
        }
    }
    let requested: usize = blocks.iter().map(|(_, size)| size - plan.header_bytes).sum();
    if matches!(case, Case::I | Case::III) && !subject.own_pages && !logs.iter().any(|log| log.unfinished) {
        found.utilisations.push(requested as f64 / plan.heap_bytes as f64);
    }
    if subject.own_pages {
        for log in logs {
            for (block, size) in std::mem::take(&mut log.blocks) {
                // SAFETY: the block is live, and not used again.
                unsafe { log.user.deallocate(block as *mut u8, size, 1) };
            }
        }
    }
    Ok(())
}

/// Times a case: every successful operation, by each thread.
///
/// # Errors
///
/// No memory for the heap, an allocator that does not support that many threads, or one that failed, as text.
pub fn timed(
    subject: &'static SharedSubject,
    crew: &Crew,
    case: Case,
    threads: usize,
    plan: &Plan,
) -> Result<Figures, String> {
    let found = perform::<Timer>(subject, crew, case, threads, plan)?;
    Ok(Figures {
        ticks: found.samples.distribution(),
        mean: interval(&found.means),
        utilisation: (!found.utilisations.is_empty()).then(|| interval(&found.utilisations)),
        refused: found.refused,
        spurious: (case != Case::IV).then_some(found.spurious),
        unfinished: found.unfinished,
    })
}

/// Steps of the pairs of case II by two threads at a time: atomic RMWs, loads and stores of a pair, and how many pairs
/// had them. The subject counts its steps.
///
/// # Errors
///
/// As [`timed`]; or the time limit was reached.
pub fn steps_of_pairs(
    subject: &'static SharedSubject,
    crew: &Crew,
    plan: &Plan,
) -> Result<Vec<([u64; 3], u64)>, String> {
    let found = perform::<Stepper>(subject, crew, Case::II, 2, plan)?;
    if found.unfinished {
        return Err("cut short".into());
    }
    let histogram = found.samples.distribution().histogram;
    Ok(histogram.into_iter().map(|(sample, pairs)| (unpacked(sample), pairs)).collect())
}

/// The mean, and half of its 95 % confidence interval.
fn interval(values: &[f64]) -> Interval {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    if values.len() < 2 {
        return Interval { mean, half: 0.0 };
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Interval { mean, half: 1.96 * (variance / count).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtalloc_subjects::shared::one;

    fn plan() -> Plan {
        let clock = Clock { overhead_ticks: 0, step_ticks: 1 };
        Plan {
            heap_bytes: 1 << 20,
            region_bytes: 1 << 20,
            header_bytes: 0,
            pairs: 500,
            repetitions: 2,
            limit_ticks: 1 << 40,
            clock,
        }
    }

    #[test]
    fn sizes_grow_by_a_quarter_beyond_the_heap() {
        let sizes = sizes(1 << 26);
        assert_eq!(sizes[..8], [10, 12, 15, 19, 24, 30, 38, 47]);
        assert_eq!(sizes.len(), 72, "71 sizes up to the heap, and one that never fits");
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]) && sizes[71] == 1 << 27);
    }

    #[test]
    fn an_interval_is_that_of_the_mean() {
        let two = interval(&[1.0, 3.0]);
        assert!((two.mean - 2.0).abs() < 1e-12 && (two.half - 1.96).abs() < 1e-12);
        assert_eq!(interval(&[5.0]), Interval { mean: 5.0, half: 0.0 });
        assert_eq!(interval(&[]), Interval::default());
    }

    #[test]
    fn steps_are_packed_and_unpacked() {
        let packed = [3_u64, 1_048_574, 7].into_iter().fold(0, |all, one| all << FIELD | one);
        assert_eq!(unpacked(packed), [3, 1_048_574, 7]);
    }

    /// With a lock, no refusal is spurious, and every case ends by itself.
    #[test]
    fn every_case_ends() {
        let crew = Crew::without_priority();
        let subject = one("tlsf-mutex").expect("ours");
        for case in Case::ALL {
            for threads in [1, 3] {
                let found = perform::<Timer>(subject, &crew, case, threads, &plan()).expect("performed");
                let operations = found.samples.distribution().count;
                assert!(!found.unfinished && found.spurious == 0, "{case:?} {threads}");
                match case {
                    Case::I => assert!(found.utilisations.iter().all(|share| (0.95..1.0).contains(share))),
                    Case::II => assert_eq!((operations, found.refused.total()), (1000 * threads as u64, 0)),
                    Case::III => assert!(found.utilisations.iter().all(|share| (0.3..1.0).contains(share))),
                    // A single thread gets every size except the last one or two.
                    Case::IV => assert!(operations >= 2 * 50 && found.refused.total() >= 2 * threads as u64),
                }
                if case == Case::I || case == Case::III {
                    assert_eq!(found.refused, Refused { exhausted: 2 * threads as u64, ..Refused::default() });
                }
            }
        }
    }

    /// An allocator whose heap cannot be limited gets exactly this many bytes.
    #[test]
    fn a_budget_limits_what_the_heap_does_not() {
        let crew = Crew::without_priority();
        let found = perform::<Timer>(one("system").expect("it"), &crew, Case::I, 2, &plan()).expect("performed");
        assert_eq!(found.samples.distribution().count, 2 * ((1 << 20) / SIZE as u64));
        assert!(found.utilisations.is_empty() && found.refused.total() == 0);
    }
}

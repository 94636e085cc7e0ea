//! Measures worst-case scenarios in heaps of many sizes, to check the cost classes that contracts state.
//!
//! Every [scenario] of an allocator is performed in heaps of 64 KiB to 64 MiB. At each size, the costliest scenario of
//! an operation is used. The counts are exact, so a rule (METHODOLOGY.md) decides whether they have the class that the
//! allocator's [contract](rtalloc::contract::Contract) states.

use super::fit;
use crate::catalogue;
use crate::observe::scenario::{self, Scenario};
use crate::observe::{Count, Observation, ObserveError, Operation, Stage};
use crate::probe::instructions::ROUNDS;
use crate::probe::{CountError, Counted};
use crate::replay::isolate::{Child, Job, Progress, decode, run_all};
use crate::result::costs::{Class, Costs, OperationCosts, Point, SubjectCosts};
use pathbound::counter::Record;
use pathbound::image::Process;
use rtalloc::contract::{Contract, Cost};
use rtalloc_subjects::{Heap, Subject};
use std::time::{Duration, Instant};

/// Heaps of 64 KiB to 64 MiB, each four times the previous one.
pub const HEAP_BYTES: [usize; 6] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

/// Heaps of 16 KiB to 64 KiB, for allocators whose tags reach no further.
const SMALL_HEAP_BYTES: [usize; 5] = [16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10];

/// The operations whose cost classes contracts state.
const OPERATIONS: [Operation; 3] = [Operation::Allocate, Operation::Deallocate, Operation::Reallocate];

/// Limit of the processor time per allocator.
const LIMIT: Duration = Duration::from_secs(120);

/// Measures the cost classes of the subjects that have a contract, two at a time if there are two processors. The
/// calling process should be single-threaded: it forks.
///
/// # Errors
///
/// If the system cannot create a process.
pub fn measure(
    process: &Process,
    subjects: &[&'static Subject],
    heap_bytes: &[usize],
    progress: &mut dyn FnMut(Progress<'_>),
) -> std::io::Result<Costs> {
    let begun = Instant::now();
    let subjects: Vec<&Subject> = subjects.iter().copied().filter(|subject| subject.view.is_some()).collect();
    let spawn = |subject: &'static Subject| move || Child::spawn(|_| of_subject(process, subject, heap_bytes));
    let jobs = subjects.iter().map(|subject| Job { spawn: Box::new(spawn(subject)), limit: LIMIT }).collect();
    let mut found: Vec<Option<SubjectCosts>> = vec![None; subjects.len()];
    let (mut done, total) = (0, subjects.len() as u64);
    progress(Progress { done, total, last: "" });
    let width = std::thread::available_parallelism().map_or(1, usize::from);
    run_all(jobs, width, |number, result| {
        let subject = subjects[number];
        found[number] = Some(decode(result).unwrap_or_else(|death| {
            let what = death.to_string();
            SubjectCosts { subject: catalogue::facts(subject), operations: Vec::new(), troubles: vec![what] }
        }));
        done += 1;
        progress(Progress { done, total, last: subject.name });
    })?;
    Ok(Costs {
        heap_bytes: heap_bytes.iter().map(|bytes| *bytes as u64).collect(),
        subjects: found.into_iter().flatten().collect(),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// The cost classes of one allocator.
#[must_use]
pub fn of_subject(process: &Process, subject: &Subject, heap_bytes: &[usize]) -> SubjectCosts {
    let mut costs = SubjectCosts { subject: catalogue::facts(subject), operations: Vec::new(), troubles: Vec::new() };
    // An allocator that takes none of these heaps is measured in smaller ones.
    let takes_all = heap_bytes.iter().all(|bytes| *bytes as u64 <= subject.largest_heap_bytes());
    let heap_bytes = if takes_all { heap_bytes } else { &SMALL_HEAP_BYTES };
    if let Err(error) = measured(process, subject, heap_bytes, &mut costs) {
        costs.troubles.push(error.to_string());
    }
    costs
}

/// Why an allocator is not measured.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// Its instructions cannot be counted.
    #[error(transparent)]
    Count(#[from] CountError),
    /// Its worst-case scenarios cannot be performed.
    #[error(transparent)]
    Observe(#[from] ObserveError),
}

/// The costliest of several scenarios of one operation in a heap of `heap_bytes` bytes, as [`measure`] selects it;
/// `None` if there are none. A single scenario is returned without being performed.
///
/// # Errors
///
/// If they cannot be counted, or if none of them can be performed.
pub fn costliest(
    subject: &Subject,
    scenarios: &[&'static Scenario],
    heap_bytes: usize,
) -> Result<Option<&'static Scenario>, CostsError> {
    if let [] | [_] = scenarios {
        return Ok(scenarios.first().copied());
    }
    let process = Process::shared().map_err(CountError::Image)?;
    let counted = Counted::new(&process, subject, &[], Record::Count)?;
    let mut stage = Stage::with_room(subject, &Count, heap_bytes)?;
    let mut most: Option<(u64, &'static Scenario)> = None;
    let mut refused = None;
    for scenario in scenarios {
        match point(&mut stage, &counted, scenario, heap_bytes) {
            Ok(point) if most.is_none_or(|(instructions, _)| instructions <= point.instructions) => {
                most = Some((point.instructions, scenario));
            }
            Ok(_) => {}
            Err(error) => refused = Some(error),
        }
    }
    match (most, refused) {
        (None, Some(error)) => Err(error.into()),
        (most, _) => Ok(most.map(|(_, scenario)| scenario)),
    }
}

fn measured(
    process: &Process,
    subject: &Subject,
    heap_bytes: &[usize],
    costs: &mut SubjectCosts,
) -> Result<(), CostsError> {
    let Some(view) = subject.view else { return Ok(()) };
    let (mut further, mut rounds) = (Vec::new(), 0);
    let curves = loop {
        let counted = Counted::new(process, subject, &further, Record::Count)?;
        let (curves, troubles) = sweep(subject, &counted, heap_bytes)?;
        let missed = counted.counter().misses();
        rounds += 1;
        // Retry with the code that the computed jumps reached.
        if !missed.is_empty() && counted.computes_targets() && rounds < ROUNDS {
            further.extend(missed);
            continue;
        }
        costs.troubles.extend(troubles);
        if !missed.is_empty() || !counted.counter().departures().is_empty() {
            costs.troubles.push("a jump left the code that counts, the counts are too small".into());
        }
        break curves;
    };
    for (operation, curves) in OPERATIONS.into_iter().zip(curves) {
        let stated = stated(&view.contract, operation);
        let curves: Vec<Vec<Point>> = curves.into_iter().map(|(_, points)| points).collect();
        let finding = fit::find(&curves, stated);
        let at = |bytes: &usize| {
            let there = curves.iter().flatten().filter(|point| point.heap_bytes == *bytes as u64);
            there.max_by_key(|point| point.instructions).cloned()
        };
        let points = heap_bytes.iter().filter_map(at).collect();
        costs.operations.push(OperationCosts { operation: operation.name().into(), stated, points, finding });
    }
    Ok(())
}

/// One curve per scenario for each operation, and the scenarios that could not be performed.
type Curves = [Vec<(&'static Scenario, Vec<Point>)>; OPERATIONS.len()];

fn sweep(subject: &Subject, counted: &Counted, heap_bytes: &[usize]) -> Result<(Curves, Vec<String>), CostsError> {
    let room = heap_bytes.iter().copied().max().unwrap_or(0);
    let mut stage = Stage::with_room(subject, &Count, room)?;
    let mut curves = OPERATIONS.map(|operation| {
        let of_operation = scenario::of(subject).filter(|scenario| scenario.operation == operation);
        of_operation.map(|scenario| (scenario, Vec::<Point>::new())).collect::<Vec<_>>()
    });
    let mut troubles = Vec::new();
    for bytes in heap_bytes {
        for (scenario, points) in curves.iter_mut().flatten() {
            match point(&mut stage, counted, scenario, *bytes) {
                Ok(point) => points.push(point),
                Err(error) => troubles.push(error.to_string()),
            }
        }
    }
    Ok((curves, troubles))
}

/// Performs a scenario and counts the instructions of its last operation.
fn point(
    stage: &mut Stage<'_, Count>,
    counted: &Counted,
    scenario: &Scenario,
    heap_bytes: usize,
) -> Result<Point, ObserveError> {
    let script = stage.rehearse(scenario, heap_bytes)?;
    let walk = stage.subject().view.ok_or(ObserveError::NoView(stage.subject().name))?.walk;
    let mut free_blocks = 0;
    let look = |heap: &Heap<'_>| {
        // SAFETY: the context belongs to the live heap.
        unsafe { walk(heap.context, &mut |block| free_blocks += u64::from(block.free)) };
    };
    let mut instructions = 0;
    let mut sink = |observation: &Observation<'_>| instructions = observation.instructions;
    stage.perform_last(heap_bytes, &script, counted.entries(), scenario, look, &mut sink)?;
    Ok(Point { heap_bytes: heap_bytes as u64, free_blocks, instructions, recipe: scenario.name.into() })
}

/// The class a contract states.
fn stated(contract: &Contract, operation: Operation) -> Class {
    let cost = match operation {
        Operation::Allocate | Operation::AllocateAligned => contract.allocate,
        Operation::Deallocate => contract.deallocate,
        Operation::Reallocate => contract.reallocate,
    };
    match cost {
        // The sweep varies the heap and its free blocks, not the size of the block.
        Cost::Constant | Cost::LinearInBlock => Class::Constant,
        Cost::LogarithmicInRegion => Class::Logarithmic,
        Cost::LinearInFreeBlocks => Class::LinearInFreeBlocks,
        Cost::LinearInRegion => Class::LinearInRegion,
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::result::costs::Finding;
    use crate::tier::is_full;

    /// Up to 4 MiB; `rtalloc costs` covers the larger sizes.
    const FEW: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];

    #[test]
    fn every_allocator_costs_what_its_contract_states() {
        let process = Process::shared().expect("this process");
        let mut failures = Vec::new();
        let ours = rtalloc_subjects::all().iter().filter(|subject| subject.view.is_some());
        for subject in ours.filter(|subject| subject.about.in_dozen || is_full()) {
            let costs = of_subject(&process, subject, &FEW);
            failures.extend(costs.troubles.iter().map(|trouble| format!("{}: {trouble}", subject.name)));
            for operation in costs.operations {
                // A bitmap buddy gains one level per factor of 64 in memory, so there may be none between these sizes.
                let is_flat = matches!(&operation.finding, Finding::Better(fit) if fit.class == Class::Constant);
                let is_wide = subject.name == "bitmap-buddy" && operation.stated == Class::Logarithmic;
                if !(matches!(operation.finding, Finding::AsStated(_)) || is_wide && is_flat) {
                    failures.push(format!("{} {operation:#?}", subject.name));
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

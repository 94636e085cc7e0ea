//! Random sequences, evolved for coverage and length.
//!
//! A sequence survives if it executes a new basic block or edge, an operation with a new number of instructions (a path
//! of another length), or more than any before. Survivors are cut, joined, repeated and mutated to make new sequences,
//! more often those that hold the maxima. The number of operations and the seed are fixed.

use super::{Maxima, Meter, Observation, ObserveError, Operation, Script, Stage};
use crate::workload::random::{self, Random};
use std::collections::HashSet;

/// The seed of the random numbers.
pub const SEED: u64 = 1;
/// The random numbers' algorithm.
pub const GENERATOR: &str = random::NAME;
/// Minimum number of operations performed; the last sequence is finished.
pub const OPERATIONS: u64 = 1_000_000;

/// Heap sizes in bytes: one that is soon full, one that is sometimes full, one that never is.
const HEAP_BYTES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Longest sequence.
const MOST_STEPS: usize = 120;
/// Longest newly generated sequence.
const MOST_NEW_STEPS: u64 = 60;
/// One in this many sequences is newly generated.
const NEW_EVERY: u64 = 8;
/// Counts of one operation that are distinguished; longer paths, those of searches, survive only as maxima.
const MOST_LENGTH: u64 = 4096;

/// The amount of work of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Sequences performed.
    pub sequences: u64,
    /// Operations performed.
    pub operations: u64,
    /// Sequences that survived.
    pub survivors: usize,
}

/// One operation, valid in any sequence: blocks are identified by their index among the live ones.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate { size: usize, align: usize },
    Deallocate { pick: u64 },
    Reallocate { pick: u64, size: usize },
}

#[derive(Clone, Debug)]
struct Sequence {
    heap_bytes: usize,
    steps: Vec<Step>,
}

/// Searches, and passes every operation to `sink`.
///
/// # Errors
///
/// [`ObserveError::Refusal`] and [`ObserveError::Fault`].
pub fn drive<M: Meter>(
    stage: &mut Stage<'_, M>,
    operations: u64,
    mut sink: impl FnMut(&Observation<'_>),
) -> Result<Searched, ObserveError> {
    // Some allocators need more than the smallest of these for their control structures.
    let heaps: Vec<usize> = HEAP_BYTES.into_iter().filter(|bytes| stage.accepts(*bytes)).collect();
    if heaps.is_empty() {
        return Ok(Searched { sequences: 0, operations: 0, survivors: 0 });
    }
    let mut random = Random::new(SEED);
    let mut survivors: Vec<Sequence> = Vec::new();
    // The survivor that holds the maximum of each operation.
    let mut holders = [None; Operation::ALL.len()];
    let mut maxima = Maxima::new();
    let mut lengths: HashSet<(Operation, u64)> = HashSet::new();
    let mut covered = stage.meter().covered();
    let mut searched = Searched { sequences: 0, operations: 0, survivors: 0 };
    let mut script = Script::new();
    while searched.operations < operations {
        let sequence = next(&mut random, &survivors, &holders, &heaps);
        sequence.write(&mut script);
        let scene =
            format_args!("search with seed {SEED}, sequence {}, heap of {} B", searched.sequences, sequence.heap_bytes);
        let mut survives = false;
        let number = survivors.len();
        stage.perform(sequence.heap_bytes, &script, &scene, &mut |observation: &Observation<'_>| {
            searched.operations += 1;
            let Observation { operation, instructions, .. } = *observation;
            if maxima.note(observation) {
                holders[operation as usize] = Some(number);
                survives = true;
            }
            survives |= instructions < MOST_LENGTH && lengths.insert((operation, instructions));
            sink(observation);
        })?;
        let covered_now = stage.meter().covered();
        if survives || covered_now > covered {
            covered = covered_now;
            survivors.push(sequence);
        }
        searched.sequences += 1;
    }
    searched.survivors = survivors.len();
    Ok(searched)
}

/// The next sequence to try.
fn next(random: &mut Random, survivors: &[Sequence], holders: &[Option<usize>], heaps: &[usize]) -> Sequence {
    if survivors.is_empty() || random.below(NEW_EVERY) == 0 {
        let heap_bytes = pick(random, heaps);
        let steps = (0..random.within(1, MOST_NEW_STEPS)).map(|_| step(random)).collect();
        return Sequence { heap_bytes, steps };
    }
    let parent = match holders[random.below(holders.len() as u64) as usize] {
        Some(holder) if random.below(2) == 0 => holder,
        _ => random.below(survivors.len() as u64) as usize,
    };
    let mut sequence = survivors[parent].clone();
    for _ in 0..random.within(1, 4) {
        sequence.mutate(random, survivors, heaps);
    }
    sequence.steps.truncate(MOST_STEPS);
    sequence
}

fn pick<T: Copy>(random: &mut Random, choice: &[T]) -> T {
    choice[random.below(choice.len() as u64) as usize]
}

/// An operation of any kind: half of them allocate.
fn step(random: &mut Random) -> Step {
    match random.below(16) {
        0..=5 => Step::Allocate { size: size(random), align: 1 },
        6..=7 => Step::Allocate { size: size(random), align: 1 << random.within(5, 13) },
        8..=12 => Step::Deallocate { pick: random.below(1 << 32) },
        _ => Step::Reallocate { pick: random.below(1 << 32), size: size(random) },
    }
}

/// A size: tiny; near a class boundary, a power of two plus a multiple of its fraction; anything; or more than the heap
/// has.
fn size(random: &mut Random) -> usize {
    let size = match random.below(16) {
        0..=4 => random.within(1, 128),
        5..=9 => {
            let power = 1 << random.within(4, 16);
            let boundary = power + random.below(32) * power / 32;
            (boundary + random.below(3) * 16).saturating_sub(16 + random.below(3) * 4)
        }
        10..=14 => random.log_uniform(1, 1 << 18),
        _ => 1 << random.within(18, 40),
    };
    size.max(1) as usize
}

impl Sequence {
    /// Mutates the sequence.
    fn mutate(&mut self, random: &mut Random, survivors: &[Self], heaps: &[usize]) {
        let len = self.steps.len() as u64;
        if len == 0 {
            self.steps.push(step(random));
            return;
        }
        let at = random.below(len) as usize;
        match random.below(8) {
            0 => self.steps[at] = step(random),
            1 | 2 => self.steps.insert(at, step(random)),
            3 => {
                let count = random.within(1, 8.min(len)) as usize;
                self.steps.drain(at..(at + count).min(self.steps.len()));
            }
            4 => {
                let count = random.within(1, 8.min(len)) as usize;
                self.steps.extend_from_within(at..(at + count).min(len as usize));
            }
            5 => {
                let other = &survivors[random.below(survivors.len() as u64) as usize];
                self.steps.truncate(at + 1);
                let from = random.below(other.steps.len() as u64 + 1) as usize;
                self.steps.extend_from_slice(&other.steps[from..]);
            }
            6 => self.steps[at].nudge(random),
            _ => self.heap_bytes = pick(random, heaps),
        }
    }

    /// Writes the sequence to a script, with block numbers.
    fn write(&self, script: &mut Script) {
        script.clear();
        let mut live = Vec::new();
        for step in &self.steps {
            match *step {
                Step::Allocate { size, align } => live.push(script.allocate_aligned(size, align)),
                Step::Deallocate { pick } if !live.is_empty() => {
                    script.deallocate(live.remove((pick % live.len() as u64) as usize));
                }
                Step::Reallocate { pick, size } if !live.is_empty() => {
                    script.reallocate(live[(pick % live.len() as u64) as usize], size);
                }
                Step::Deallocate { .. } | Step::Reallocate { .. } => {}
            }
        }
    }
}

impl Step {
    /// Changes a size by about a granule, or selects a neighbouring block.
    fn nudge(&mut self, random: &mut Random) {
        let by = random.within(1, 64);
        let up = random.below(2) == 0;
        match self {
            Step::Allocate { size, .. } | Step::Reallocate { size, .. } => {
                *size = if up { *size + by as usize } else { size.saturating_sub(by as usize).max(1) };
            }
            Step::Deallocate { pick } => *pick = pick.wrapping_add(if up { 1 } else { u64::MAX }),
        }
    }
}

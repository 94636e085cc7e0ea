//! A meter that remembers which paths operations took.
//!
//! For every operation it stores which basic blocks and edges of the machine code were executed, each distinct set
//! once: the evidence for why an observed maximum is below the bound.

use super::{Meter, Observation, Operation};
use pathbound::counter::{Counter, Coverage, executed};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

/// Distinct paths of one operation that are stored; later ones only enter the union.
const MOST_PATHS: usize = 20_000;

/// A meter for code that records coverage.
#[derive(Debug)]
pub struct Watch<'a> {
    counter: &'a Counter,
    taken: RefCell<Taken>,
    /// Instruction counts that operations were observed to have.
    lengths: RefCell<HashSet<(Operation, u64)>>,
}

#[derive(Debug, Default)]
struct Taken {
    /// By operation.
    paths: [HashSet<Coverage>; Operation::ALL.len()],
    /// The union of all paths of an operation, including those that were not stored.
    unions: [Coverage; Operation::ALL.len()],
    covered: usize,
    /// The coverage of the last operation.
    now: Coverage,
}

impl<'a> Watch<'a> {
    /// Watches a counter that records coverage.
    #[must_use]
    pub fn new(counter: &'a Counter) -> Self {
        counter.clear_coverage();
        Self { counter, taken: RefCell::default(), lengths: RefCell::default() }
    }

    /// Records the last operation, unless an operation of its kind had the same instruction count before: for loads of
    /// millions of operations, few of which are new.
    #[inline]
    pub fn glance(&self, observation: &Observation<'_>) {
        if self.lengths.borrow_mut().insert((observation.operation, observation.instructions)) {
            self.note(observation);
        } else {
            self.counter.clear_coverage();
        }
    }

    /// Records the last operation.
    pub fn note(&self, observation: &Observation<'_>) {
        let taken = &mut *self.taken.borrow_mut();
        self.counter.coverage(&mut taken.now);
        self.counter.clear_coverage();
        let operation = observation.operation as usize;
        if taken.paths[operation].contains(&taken.now) {
            return;
        }
        taken.unions[operation].merge(&taken.now);
        taken.covered = taken.unions.iter().map(Coverage::marked).sum();
        if taken.paths[operation].len() < MOST_PATHS {
            taken.paths[operation].insert(taken.now.clone());
        }
    }

    /// The instructions of each distinct path of an operation, by their addresses in this process.
    #[must_use]
    pub fn paths(&self, operation: Operation) -> Vec<BTreeSet<u64>> {
        let taken = self.taken.borrow();
        taken.paths[operation as usize].iter().map(|path| self.counter.instructions(path)).collect()
    }

    /// The instructions of the union of an operation's paths.
    #[must_use]
    pub fn union(&self, operation: Operation) -> BTreeSet<u64> {
        self.counter.instructions(&self.taken.borrow().unions[operation as usize])
    }
}

impl Meter for Watch<'_> {
    #[inline(always)]
    fn executed(&self) -> u64 {
        executed()
    }

    fn covered(&self) -> usize {
        self.taken.borrow().covered
    }
}

//! A meter that remembers which paths operations took.
//!
//! Of every operation it keeps which blocks and edges of the machine code were executed, each different set once: the
//! evidence for why an observed maximum stays below the bound.

use super::{Meter, Observation, Operation};
use pathbound::counter::{Counter, Coverage, executed};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

/// Different paths of one operation that are kept; later ones count for the union alone.
const MOST_PATHS: usize = 20_000;

/// A meter on code that records coverage.
#[derive(Debug)]
pub struct Watch<'a> {
    counter: &'a Counter,
    taken: RefCell<Taken>,
    /// Numbers of instructions that operations were seen to execute.
    lengths: RefCell<HashSet<(Operation, u64)>>,
}

#[derive(Debug, Default)]
struct Taken {
    /// By operation.
    paths: [HashSet<Coverage>; Operation::ALL.len()],
    /// All paths of an operation together, those included that were not kept.
    unions: [Coverage; Operation::ALL.len()],
    covered: usize,
    /// Of the operation that was just performed.
    now: Coverage,
}

impl<'a> Watch<'a> {
    /// Watches a counter that records coverage.
    #[must_use]
    pub fn new(counter: &'a Counter) -> Self {
        counter.clear_coverage();
        Self { counter, taken: RefCell::default(), lengths: RefCell::default() }
    }

    /// Enters the operation that was just performed, unless one of its kind executed as many instructions before: for
    /// loads of millions of operations, few of which are new.
    #[inline]
    pub fn glance(&self, observation: &Observation<'_>) {
        if self.lengths.borrow_mut().insert((observation.operation, observation.instructions)) {
            self.note(observation);
        } else {
            self.counter.clear_coverage();
        }
    }

    /// Enters the operation that was just performed.
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

    /// The instructions that each different path of an operation executed, by their addresses in this process.
    #[must_use]
    pub fn paths(&self, operation: Operation) -> Vec<BTreeSet<u64>> {
        let taken = self.taken.borrow();
        taken.paths[operation as usize].iter().map(|path| self.counter.instructions(path)).collect()
    }

    /// The instructions that any path of an operation executed.
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

//! Drivers that make allocators execute their longest paths, so that an observed maximum is meaningful.
//!
//! A static bound states that no operation executes more; how close an operation can come is seen only by executing it.
//! Traces of programs seldom do. In addition to the traces, four drivers try, each in its own way:
//!
//! | driver | what it performs |
//! |---|---|
//! | [`scenario`] | the worst cases that papers describe, by name |
//! | [`directed`] | combinations of an operation's circumstances: neighbours, lists, ranges, remainders |
//! | [`explore`] | every operation in every state that a tiny heap can reach; ours only |
//! | [`search`] | random sequences, evolved for coverage and length |
//! | [`replays`] | whole traces |
//!
//! All drivers pass every operation they perform to a sink, as an [`Observation`]; [`Maxima`] keeps the largest. They
//! call the subject's [entry points](rtalloc_subjects::Entries), so a subject whose entry points count instructions is
//! counted; a [`Meter`] reads the count. Everything is deterministic: the same binary gives the same maxima.

pub mod directed;
pub mod explore;
pub mod replays;
pub mod scenario;
pub mod search;
pub mod tiny;
pub mod watch;

mod script;
mod stage;
#[cfg(test)]
mod tests;

pub use script::Script;
pub use stage::{ObserveError, Stage};

use pathbound::counter::executed;
use std::fmt;

/// The operations whose maxima are observed: the four entry points of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`Entries::allocate`](rtalloc_subjects::Entries::allocate).
    Allocate,
    /// [`Entries::allocate_aligned`](rtalloc_subjects::Entries::allocate_aligned).
    AllocateAligned,
    /// [`Entries::deallocate`](rtalloc_subjects::Entries::deallocate).
    Deallocate,
    /// [`Entries::reallocate`](rtalloc_subjects::Entries::reallocate).
    Reallocate,
}

/// The static bound of each entry point, in the order of [`Operation::ALL`]; `None` where there is none.
pub type Limits = [Option<u64>; Operation::ALL.len()];

impl Operation {
    /// Every operation, in table order.
    pub const ALL: [Self; 4] = [Self::Allocate, Self::AllocateAligned, Self::Deallocate, Self::Reallocate];

    /// The operation's name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::AllocateAligned => "allocate aligned",
            Self::Deallocate => "deallocate",
            Self::Reallocate => "reallocate",
        }
    }
}

/// Reads what the entry points count.
pub trait Meter {
    /// Instructions that this thread has executed in the entry points so far.
    fn executed(&self) -> u64;

    /// Number of distinct basic blocks and edges executed so far: never decreases.
    fn covered(&self) -> usize;
}

/// The meter of entry points that count.
#[derive(Debug)]
pub struct Count;

impl Meter for Count {
    fn executed(&self) -> u64 {
        executed()
    }

    fn covered(&self) -> usize {
        0
    }
}

/// The request to the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Allocate { size: usize, align: usize },
    Deallocate { size: usize },
    Reallocate { old: usize, new: usize, align: usize },
}

/// One performed operation. Its `Display` describes the circumstance.
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    /// Which entry point was called.
    pub operation: Operation,
    /// Instructions it executed.
    pub instructions: u64,
    /// Index of the operation in its sequence, from 0.
    pub index: u64,
    request: Request,
    served: bool,
    scene: &'a dyn fmt::Display,
}

impl fmt::Display for Observation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.request {
            Request::Allocate { size, .. } if self.operation == Operation::Allocate => write!(f, "allocate {size} B")?,
            Request::Allocate { size, align } => write!(f, "allocate {size} B at {align}")?,
            Request::Deallocate { size } => write!(f, "deallocate {size} B")?,
            Request::Reallocate { old, new, align } => write!(f, "reallocate {old} B to {new} B at {align}")?,
        }
        let refused = if self.served { "" } else { ", refused" };
        write!(f, "{refused}; operation {} of: {}", self.index, self.scene)
    }
}

impl fmt::Debug for Observation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instructions: {self}", self.instructions)
    }
}

/// The largest count of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maximum {
    /// Instructions.
    pub instructions: u64,
    /// Where it was first seen.
    pub circumstance: String,
}

/// The largest counts seen, by operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maxima {
    largest: [Option<Maximum>; Operation::ALL.len()],
}

impl Maxima {
    /// No maxima yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an operation into account; returns `true` if it executed more than any of its kind before.
    #[inline]
    pub fn note(&mut self, observation: &Observation<'_>) -> bool {
        let largest = &mut self.largest[observation.operation as usize];
        if largest.as_ref().is_some_and(|largest| largest.instructions >= observation.instructions) {
            return false;
        }
        *largest = Some(Maximum { instructions: observation.instructions, circumstance: observation.to_string() });
        true
    }

    /// The maximum of an operation; `None` if it was never performed.
    #[must_use]
    pub fn of(&self, operation: Operation) -> Option<&Maximum> {
        self.largest[operation as usize].as_ref()
    }

    /// Merges other maxima into these.
    pub fn merge(&mut self, other: &Self) {
        for (largest, others) in self.largest.iter_mut().zip(&other.largest) {
            let instructions = |maximum: &Option<Maximum>| maximum.as_ref().map(|maximum| maximum.instructions);
            if instructions(others) > instructions(largest) {
                largest.clone_from(others);
            }
        }
    }
}

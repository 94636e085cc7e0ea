//! Why there is no bound.

use crate::facts::Place;
use crate::graph::Obstacle;
use crate::image::{Image, Source};

/// A place in the code, described for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Address of the instruction.
    pub address: u64,
    /// Function, demangled, if known.
    pub function: Option<String>,
    /// Source lines, innermost inlined function first.
    pub source: Vec<Source>,
}

impl Site {
    /// Describes an address.
    #[must_use]
    pub fn of(image: &dyn Image, address: u64) -> Self {
        Self { address, function: image.symbol(address).map(|symbol| symbol.name), source: image.source(address) }
    }
}

/// Why there is no bound. Never a wrong number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decline {
    /// An instruction on a path to the return cannot be bounded.
    Obstacle(Obstacle, Site),
    /// A function calls itself, directly or through others.
    Recursion(Site),
    /// No fact bounds a loop.
    UnboundedLoop(Site),
    /// A loop has several entries, so that no fact can be said of one.
    IrreducibleLoop(Site),
    /// The entry never returns.
    NeverReturns(Site),
    /// A fact names a place there is no such loop or instruction at.
    UselessFact(Place),
    /// More conflicts than are worth all their cases.
    TooManyConflicts(usize),
    /// The two solvers disagree. A defect of this library.
    Disagreement(String),
}

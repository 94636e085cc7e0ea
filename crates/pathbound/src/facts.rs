//! What a bound may assume because somebody says so.

use crate::image::Image;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Facts about paths that machine code does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// How often loops run.
    pub loops: Vec<LoopFact>,
    /// What is never executed together.
    pub conflicts: Vec<Conflict>,
}

/// The innermost loop around a place executes the place at most so often each time the loop is entered.
///
/// Count executions of the *body* at the place named, not jumps back: compilers rotate loops. By a
/// source line, the place is the header of the innermost loop with an instruction of that line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopFact {
    /// An instruction of the loop.
    pub place: Place,
    /// Most executions for each entry into the loop.
    pub at_most: u64,
}

/// No execution of the entry point executes instructions of both places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// One.
    pub first: Place,
    /// The other.
    pub second: Place,
}

/// A place in the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    /// An instruction.
    Address(u64),
    /// The instructions of a source line. The file matches if it ends with these path components.
    Line {
        /// File, or its last components.
        file: String,
        /// Line, from 1.
        line: u32,
    },
}

impl Place {
    /// The instructions, of those given, that are meant.
    pub fn find(&self, _image: &dyn Image, _among: impl Iterator<Item = u64>) -> BTreeSet<u64> {
        todo!()
    }
}

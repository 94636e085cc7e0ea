//! placeholder
use crate::certificate::Certificate;
use crate::decline::{Decline, Site};
use crate::facts::Facts;
use crate::graph::Graph;
use crate::image::Image;

/// The most and the fewest instructions between an entry and its return.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The entry point.
    pub entry: u64,
    /// The most instructions any execution that returns can have, the entry's first and its return included.
    pub instructions: u64,
    /// The fewest.
    pub shortest: u64,
    /// A path that has the most, in order of execution; where there are loops, in order of address within each function.
    pub witness: Vec<Step>,
    /// Calls that never return, on whose paths nothing was bounded: who is called and from where.
    pub never_returning: Vec<(String, Site)>,
    /// The proof.
    pub certificate: Certificate,
}

/// An instruction of the witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its address.
    pub address: u64,
    /// How often it is executed.
    pub executions: u64,
    /// Depth of calls: 0 in the entry.
    pub depth: u32,
}

/// Bounds an entry point.
///
/// # Errors
///
/// [`Decline`] says what cannot be bounded and where.
pub fn bound(_image: &dyn Image, _graph: &Graph, _entry: u64, _facts: &Facts) -> Result<Bound, Decline> {
    todo!()
}

//! Proofs that a bound holds, which can be verified without trusting the solver.
//!
//! A [`Proof`] gives for every instruction the most that can follow until its function returns, in instructions or
//! cycles: its *potential*. If every potential is at least the cost of its instruction plus the potential of each
//! successor, potentials are upper bounds. [`check`](mod@crate::check) verifies that instruction by instruction,
//! without knowing how they were found. A loop would raise potentials without limit. So executing the place of a loop
//! fact lowers the potential by the loop's *multiplier*, and entering the loop raises it by the multiplier times the
//! number in the fact.
//!
//! With conflicts there are several cases: in each, one place of every conflict is never executed.
//!
//! A [`Certificate`] is a proof about a file, with the file's SHA-256. It is written as JSON and lists its assumptions.
//! It does not include the shortest path, which potentials do not bound.

pub use crate::address::Address;

use crate::assumption::Assumption;
use crate::bound::Bound;
use crate::image::{Provenance, Source};
use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The version of the format that is written and read.
pub const FORMAT: u32 = 4;

/// A proof about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Version of the format: [`FORMAT`].
    pub format: u32,
    /// The file.
    pub binary: Provenance,
    /// The proof.
    pub proof: Proof,
}

/// A proof that no execution of an entry that returns costs more than `most`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The entry point.
    pub entry: Address,
    /// Its name, if known.
    pub function: Option<String>,
    /// What is counted.
    pub unit: Unit,
    /// The most that an execution costs.
    pub most: u64,
    /// The assumptions from the published list. The fields from here to `cases` are assumed in addition.
    pub assumptions: BTreeSet<Assumption>,
    /// The facts about loops.
    pub loops: Vec<BoundedLoop>,
    /// Instructions that are assumed never to be executed together.
    pub conflicts: Vec<Exclusion>,
    /// The functions that are assumed never to return or not to be called, and where they are called.
    pub never_returning: Vec<NeverReturning>,
    /// One proof for each way of resolving the conflicts; a single one where there are none.
    pub cases: Vec<Case>,
}

/// A loop, and the fact about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundedLoop {
    /// The instruction through which it is entered.
    pub entry: Address,
    /// The instruction that is counted.
    pub place: Address,
    /// The most executions of it, each time the loop is entered.
    pub at_most: u64,
    /// Its source line, if known.
    pub source: Option<Source>,
    /// The instructions of the loop.
    pub members: BTreeSet<Address>,
}

/// Instructions that are assumed never to be executed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclusion {
    /// One side.
    pub first: BTreeSet<Address>,
    /// The other side: an execution with an instruction of one side has none of the other.
    pub second: BTreeSet<Address>,
}

/// A function that is assumed never to return or not to be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeverReturning {
    /// Its name.
    pub name: String,
    /// Where it begins, if it is in the image.
    pub address: Option<Address>,
    /// The calls of it.
    pub calls: BTreeSet<Address>,
}

/// The proof of one way of resolving the conflicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The instructions that are not executed.
    pub avoid: BTreeSet<Address>,
    /// The multiplier of each loop.
    pub multipliers: Vec<i64>,
    /// Instructions from which no path returns.
    pub no_return: BTreeSet<Address>,
    /// The most from each instruction to the return of its function, itself included.
    pub potentials: BTreeMap<Address, i64>,
}

/// Why a text cannot be read as a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It is not JSON, or not of this shape.
    #[error("not a certificate: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It has another version of the format.
    #[error("the certificate has format {0}; this checker reads format {FORMAT}: make the certificate again")]
    Format(u32),
}

impl Certificate {
    /// Binds the proof of a bound to a file.
    #[must_use]
    pub fn of(bound: &Bound, binary: &Provenance) -> Self {
        Self { format: FORMAT, binary: binary.clone(), proof: bound.proof.clone() }
    }

    /// Reads a certificate.
    ///
    /// # Errors
    ///
    /// [`CertificateError`] says what is wrong with the text.
    pub fn from_json(text: &str) -> Result<Self, CertificateError> {
        /// The field that every version has.
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        match serde_json::from_str::<Versioned>(text)?.format {
            FORMAT => Ok(serde_json::from_str(text)?),
            other => Err(CertificateError::Format(other)),
        }
    }

    /// Writes it as indented JSON, which [`from_json`](Self::from_json) reads.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("numbers, strings and maps with keys that are strings");
        text.push('\n');
        text
    }
}

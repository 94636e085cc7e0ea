//! What convinces somebody who does not trust the solver that a bound holds.
//!
//! A [`Proof`] says of every instruction how many more can be executed until the entry returns: its *potential*. A potential
//! that is everywhere at least the cost of the instruction plus the potential of whatever may come next is an upper bound, and
//! that can be verified instruction by instruction, by somebody who does not know how it was found
//! ([`check`](mod@crate::check)). A loop would raise a potential without end. So executing the place a loop fact names lowers
//! it, by the loop's *multiplier*, and entering the loop raises it, by the multiplier times what the fact allows.
//!
//! With conflicts there are several cases: in each, one place of every conflict is never executed.
//!
//! A [`Certificate`] is a proof about a file, with the file's SHA-256. It is written as JSON. Two things it does not carry: that
//! returns go to where the calls came from, which the graph verifies and the checker does not, and the shortest path, of which
//! the potentials say nothing.

use crate::bound::Bound;
use crate::image::{Provenance, Source};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The version of the format that is written and read.
pub const FORMAT: u32 = 1;

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

/// That no execution of an entry that returns has more than so many instructions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The entry point.
    pub entry: Address,
    /// Its name, if known.
    pub function: Option<String>,
    /// The most instructions.
    pub instructions: u64,
    /// What is assumed of loops.
    pub loops: Vec<BoundedLoop>,
    /// What is assumed never to be executed together.
    pub conflicts: Vec<Exclusion>,
    /// The functions that are assumed never to return, and where they are called.
    pub never_returning: Vec<NeverReturning>,
    /// One proof for each way of resolving the conflicts; a single one where there are none.
    pub cases: Vec<Case>,
}

/// A loop and what is assumed of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundedLoop {
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
    /// An execution with one of these
    pub first: BTreeSet<Address>,
    /// has none of these.
    pub second: BTreeSet<Address>,
}

/// A function that is assumed never to return.
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
    /// For each loop, what executing its place once is worth.
    pub multipliers: Vec<i64>,
    /// Instructions from which nothing returns.
    pub no_return: BTreeSet<Address>,
    /// The most instructions from each one to the return of its function, itself included.
    pub potentials: BTreeMap<Address, i64>,
}

/// An address, written in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not an address, such as 0x401136")))
    }
}

/// Why a text is not a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It is not JSON, or not of this shape.
    #[error("not a certificate: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It is of another version.
    #[error("the certificate has format {0}; this checker reads format {FORMAT}")]
    Format(u32),
}

impl Certificate {
    /// Says which file a bound is about.
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
        /// What every version has.
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        match serde_json::from_str::<Versioned>(text)?.format {
            FORMAT => Ok(serde_json::from_str(text)?),
            other => Err(CertificateError::Format(other)),
        }
    }

    /// Writes it, for readers and for [`from_json`](Self::from_json).
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("numbers, strings and maps with keys that are strings");
        text.push('\n');
        text
    }
}

//! What a path costs: its instructions, or the cycles of a core.

use crate::arch::{Core, Decoder};
use crate::image::Image;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a bound counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Unit {
    /// Executed instructions.
    Instructions,
    /// Cycles of a core, under the conditions of its model.
    Cycles(Core),
}

impl Unit {
    /// What an instruction costs if `next` is executed after it, or, for `None`, if its function is left. A call is
    /// followed by the first instruction of its callee. `None` if that is not known.
    pub(crate) fn cost(self, image: &dyn Image, at: u64, next: Option<u64>) -> Option<Cost> {
        match self {
            Self::Instructions => Some(Cost { least: 1, most: 1 }),
            Self::Cycles(core) => core.cycles(image, at, next, None),
        }
    }

    /// The most that an instruction costs, by the second decoder.
    pub(crate) fn most_by_second(self, image: &dyn Image, at: u64, next: Option<u64>) -> Option<i64> {
        match self {
            Self::Instructions => Some(1),
            Self::Cycles(core) => core.cycles_by(Decoder::Second, image, at, next, None).map(|cost| cost.most),
        }
    }

    /// The core whose cycles it counts, if any.
    #[must_use]
    pub fn core(self) -> Option<Core> {
        match self {
            Self::Instructions => None,
            Self::Cycles(core) => Some(core),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instructions => f.write_str("instructions"),
            Self::Cycles(_) => f.write_str("cycles"),
        }
    }
}

impl From<Unit> for String {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Instructions => "instructions".to_owned(),
            Unit::Cycles(core) => core.to_string(),
        }
    }
}

impl TryFrom<String> for Unit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), Core::find(&text)) {
            ("instructions", _) => Ok(Self::Instructions),
            (_, Some(core)) => Ok(Self::Cycles(core)),
            _ => Err(format!("there is no cost model for {text:?}")),
        }
    }
}

/// What an instruction costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The least.
    pub least: i64,
    /// The most, over all values of its operands.
    pub most: i64,
}

impl Cost {
    /// The range that covers both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { least: self.least + other.least, most: self.most + other.most }
    }
}

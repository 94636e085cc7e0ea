//! Facts that a bound may assume because the user states them.
//!
//! On command lines, a place is `0x401136` or `src/list.rs:120`, a loop fact `PLACE=N`, and a conflict `PLACE,PLACE`.

use crate::image::{Image, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Facts about paths that cannot be read from machine code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Loop bounds.
    pub loops: Vec<LoopFact>,
    /// Places that are never both executed.
    pub conflicts: Vec<Conflict>,
}

/// Each time the loop around PLACE is entered, the instruction at the address PLACE is executed at most N times; or,
/// where PLACE is a source line, each loop with its condition on that line goes around at most N times, and tests its
/// condition at most N + 1 times.
///
/// The loop is the innermost one around the place *in the machine code*; each activation of its function enters it
/// anew. An address that an iteration can skip is refused. The condition of a loop is the only branch that every
/// iteration executes and that can leave the loop; a loop with several such branches has no condition. A line names
/// every loop whose condition is on it. It is refused if there is no such loop, or if one is inside another. Several
/// loops can come from one line, if a function is inlined twice or a compiler splits a loop: the fact applies to each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopFact {
    /// An instruction that every iteration executes, or the line of the loop's condition.
    pub place: Place,
    /// N, for each entry into the loop: the most executions of the instruction, or times that the loop goes around.
    pub at_most: u64,
}

/// No execution of the entry point executes instructions of both places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// One place.
    pub first: Place,
    /// The other place.
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
    /// Selects the instructions at this place.
    ///
    /// For a line, these are the instructions that [`Source::named`] assigns to it: inlined instructions belong to the
    /// lines of the inlined function, not to the line of the call.
    pub fn find(&self, image: &dyn Image, among: impl Iterator<Item = u64>) -> BTreeSet<u64> {
        among.filter(|address| self.contains(image, *address)).collect()
    }

    fn contains(&self, image: &dyn Image, instruction: u64) -> bool {
        match self {
            Self::Address(address) => instruction == *address,
            Self::Line { file, line } => Source::named(&image.source(instruction))
                .is_some_and(|source| source.line == *line && Path::new(&source.file).ends_with(file)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address:#x}"),
            Self::Line { file, line } => write!(f, "{file}:{line}"),
        }
    }
}

/// A fact that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct FactError {
    /// The text.
    text: String,
    /// The expected form, with an example.
    expected: &'static str,
}

impl FactError {
    fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected }
    }
}

impl FromStr for Place {
    type Err = FactError;

    fn from_str(text: &str) -> Result<Self, FactError> {
        let wrong = || FactError::new(text, "a place: write an address, 0x401136, or a source line, list.rs:120");
        if let Some(digits) = text.strip_prefix("0x") {
            return u64::from_str_radix(digits, 16).map(Self::Address).map_err(|_| wrong());
        }
        let (file, line) = text.rsplit_once(':').ok_or_else(wrong)?;
        match line.parse() {
            Ok(line) if line > 0 && !file.is_empty() => Ok(Self::Line { file: file.to_owned(), line }),
            _ => Err(wrong()),
        }
    }
}

impl FromStr for LoopFact {
    type Err = FactError;

    fn from_str(text: &str) -> Result<Self, FactError> {
        let wrong = || FactError::new(text, "a loop fact: write PLACE=N, such as list.rs:120=16");
        let (place, at_most) = text.rsplit_once('=').ok_or_else(wrong)?;
        Ok(Self { place: place.parse()?, at_most: at_most.parse().map_err(|_| wrong())? })
    }
}

impl FromStr for Conflict {
    type Err = FactError;

    fn from_str(text: &str) -> Result<Self, FactError> {
        let wrong = || FactError::new(text, "a conflict: write PLACE,PLACE, such as list.rs:120,list.rs:140");
        let (first, second) = text.split_once(',').ok_or_else(wrong)?;
        Ok(Self { first: first.parse()?, second: second.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, line: u32) -> Place {
        Place::Line { file: file.to_owned(), line }
    }

    #[test]
    fn facts_are_parsed_from_their_written_form() {
        assert_eq!("0x401136".parse(), Ok(Place::Address(0x40_1136)));
        assert_eq!("src/a:b.rs:120".parse(), Ok(line("src/a:b.rs", 120)));
        assert_eq!("a=b.rs:7=16".parse(), Ok(LoopFact { place: line("a=b.rs", 7), at_most: 16 }));
        let conflict = Conflict { first: line("a.rs", 1), second: Place::Address(0x10) };
        assert_eq!("a.rs:1,0x10".parse(), Ok(conflict));
        for place in [Place::Address(0x40_1136), line("src/list.rs", 120)] {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
    }

    #[test]
    fn malformed_facts_are_refused_with_an_example() {
        for text in ["", "list.rs", "list.rs:", "list.rs:0", ":12", "list.rs:-1", "0x", "0xg", "12"] {
            let error = text.parse::<Place>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}` is not a place")), "{error}");
        }
        for text in ["list.rs:120", "list.rs:120=", "list.rs:120=-1", "=4", "list.rs=4"] {
            assert!(text.parse::<LoopFact>().is_err(), "{text}");
        }
        for text in ["list.rs:120", "list.rs:120,", "0x1,0x2,0x3"] {
            assert!(text.parse::<Conflict>().is_err(), "{text}");
        }
    }
}

//! What a bound may assume because somebody says so.
//!
//! Facts have a written form, for command lines: a place is `0x401136` or `src/list.rs:120`, a loop fact `PLACE=N`, a conflict
//! `PLACE,PLACE`.

use crate::image::{Image, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

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
/// source line, the place is the last instruction of that line that every turn of the innermost loop with one passes. A loop may
/// test its condition before each turn and once more; so where no such instruction is of the line, the instruction
/// through which the loop is entered is taken to be executed once more than the line. Several loops can come from one line, as where a function is inlined twice; the fact is said of each.
/// Of a loop and one inside it, both with instructions of the line, it is said of the inner one only.
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
    ///
    /// Of a line, those whose line it is by [`Source::named`]: where a function is inlined, its instructions belong to its own
    /// lines, not to the line that calls it.
    pub fn find(&self, image: &dyn Image, among: impl Iterator<Item = u64>) -> BTreeSet<u64> {
        among.filter(|address| self.means(image, *address)).collect()
    }

    fn means(&self, image: &dyn Image, instruction: u64) -> bool {
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

/// A fact that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct FactError {
    /// What was to be read.
    text: String,
    /// What would have been right.
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
    fn facts_are_read_as_they_are_written() {
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
    fn what_is_no_fact_is_refused_with_an_example() {
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

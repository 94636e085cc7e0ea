//! Why there is no bound.

use crate::facts::Place;
use crate::graph::Obstacle;
use crate::image::{Image, Source};
use std::fmt;

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

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)?;
        if let Some(function) = &self.function {
            write!(f, " in {function}")?;
        }
        match Source::named(&self.source) {
            Some(source) => write!(f, " ({})", source.short()),
            None => Ok(()),
        }
    }
}

/// Why there is no bound. Never a wrong number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decline {
    /// An instruction on a path to the return cannot be bounded.
    Obstacle(Obstacle, Site),
    /// A function calls itself, directly or through others.
    Recursion(Site),
    /// No fact bounds a loop. The place is one where its turns can be counted.
    UnboundedLoop(Site, Place),
    /// A loop has several entries, so that no fact can be said of one.
    IrreducibleLoop(Site),
    /// The entry never returns.
    NeverReturns(Site),
    /// A fact names a place there is no such loop or instruction at.
    UselessFact(Place),
    /// More conflicts than are worth all their cases.
    TooManyConflicts(usize),
    /// A function has more instructions on a path than are counted exactly.
    TooLarge(Site),
    /// The two solvers disagree. A defect of this library.
    Disagreement(String),
}

impl std::error::Error for Decline {}

impl Decline {
    /// What stands in the way in a word or two, for a table: "loop", "calls memcpy", "indirect jump".
    #[must_use]
    pub fn brief(&self) -> String {
        match self {
            Self::Obstacle(Obstacle::ExternalCall(name), _) => format!("calls {name}"),
            Self::Obstacle(Obstacle::Repeat, _) => "rep".to_owned(),
            Self::Obstacle(Obstacle::Kernel, _) => "system call".to_owned(),
            Self::Obstacle(Obstacle::IndirectJump, _) => "indirect jump".to_owned(),
            Self::Obstacle(Obstacle::IndirectCall, _) => "indirect call".to_owned(),
            Self::Obstacle(Obstacle::NoCode(_) | Obstacle::Undecodable, _) => "no code".to_owned(),
            Self::Obstacle(_, _) => "no plain control flow".to_owned(),
            Self::Recursion(_) => "recursion".to_owned(),
            Self::UnboundedLoop(..) | Self::IrreducibleLoop(_) => "loop".to_owned(),
            Self::NeverReturns(_) => "never returns".to_owned(),
            Self::UselessFact(_) | Self::TooManyConflicts(_) => "facts".to_owned(),
            Self::TooLarge(_) => "too large".to_owned(),
            Self::Disagreement(_) => "defect".to_owned(),
        }
    }
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Obstacle(obstacle, site) => write!(f, "{} at {site}: {}", what(obstacle), remedy(obstacle)),
            Self::Recursion(site) => write!(f, "recursion through the call at {site}: replace it by a loop"),
            Self::UnboundedLoop(site, place) => write!(
                f,
                "unbounded loop at {site}: say how often its body runs, at most, each time the loop is entered: \
                 `--loop {place}=N`"
            ),
            Self::IrreducibleLoop(site) => {
                write!(f, "loop with several entries at {site}: write it without jumps into its body")
            }
            Self::NeverReturns(site) => write!(f, "no path returns from {site}: bound a function that returns"),
            Self::UselessFact(place) => {
                write!(f, "a fact names {place}, where the entry has no such loop or instruction: correct or remove it")
            }
            Self::TooManyConflicts(conflicts) => {
                write!(f, "{conflicts} conflicts, each of which doubles the work: keep those that lower the bound")
            }
            Self::TooLarge(site) => {
                write!(f, "more than 2^53 instructions in the function at {site}: lower what the loops are said to run")
            }
            Self::Disagreement(difference) => {
                write!(f, "the two solvers disagree, a defect of pathbound, please report it: {difference}")
            }
        }
    }
}

fn what(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Repeat => "repeated string instruction".to_owned(),
        Obstacle::Kernel => "call of the kernel or breakpoint".to_owned(),
        Obstacle::IndirectJump => "indirect jump".to_owned(),
        Obstacle::IndirectCall => "indirect call".to_owned(),
        Obstacle::ExternalCall(name) => {
            format!("call of {name}, which another file defines or which is chosen when the program starts,")
        }
        Obstacle::NoCode(target) => format!("transfer to {target:#x}, where there is no code,"),
        Obstacle::Undecodable => "no instruction".to_owned(),
        Obstacle::Elsewhere => "transfer that cannot be followed (far, transactional, out of an interrupt)".to_owned(),
        Obstacle::CaughtException => "call that may throw an exception or panic, which is caught,".to_owned(),
        Obstacle::UnmatchedReturn => "return that may not go to where the call came from".to_owned(),
    }
}

fn remedy(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Repeat => "copy or fill in a loop that a fact bounds, or in words whose number is constant",
        Obstacle::Kernel => "keep it off the paths that return",
        Obstacle::IndirectJump => {
            "compile without jump tables, `-C jump-tables=no` (rustc) or `-fno-jump-tables` (gcc, clang)"
        }
        Obstacle::IndirectCall => "call the function by its name instead of through a pointer or a trait object",
        Obstacle::ExternalCall(_) => {
            "call a function of this file whose loops facts can bound; where the source has a loop instead of the call, \
             the compiler made it one: `-fno-tree-loop-distribute-patterns` (gcc)"
        }
        Obstacle::NoCode(_) => "the address is not what runs: analyse a linked file, not an object",
        Obstacle::Undecodable => "this is data, or newer than the decoder",
        Obstacle::Elsewhere => "keep it off the paths that return",
        Obstacle::CaughtException => "catch it outside of what is bounded: throwing takes nobody knows how long",
        Obstacle::UnmatchedReturn => {
            "compile without what rewrites return addresses or the stack pointer (retpolines, alloca)"
        }
    }
}

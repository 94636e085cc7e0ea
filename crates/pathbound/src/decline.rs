//! Why there is no bound.

use crate::arch::{Arch, Core};
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

/// A loop that needs a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLoop {
    /// The instruction through which it is entered.
    pub entry: Site,
    /// An instruction that every iteration executes, about which a fact can be stated.
    pub place: Site,
}

/// Writes the fact to state, with N for its number.
impl fmt::Display for OpenLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`--loop={:#x}=N`", self.place.address)?;
        match Source::named(&self.place.source) {
            Some(source) => write!(f, " ({})", source.short()),
            None => Ok(()),
        }
    }
}

/// Why a place does not bound a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An iteration can skip the instruction.
    PassedBy,
    /// The loop's condition is not on the line, or the loop has several.
    NotTheCondition,
    /// The conditions of a loop and of one inside it are on the line.
    Nested,
}

/// Why there is no bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decline {
    /// An instruction on a path to the return cannot be bounded.
    Obstacle(Obstacle, Site),
    /// A function calls itself, directly or through others.
    Recursion(Site),
    /// No fact bounds these loops. The list is complete, outer loops before inner ones.
    UnboundedLoops(Vec<OpenLoop>),
    /// A loop has several entries, so that no fact can bound it.
    IrreducibleLoop(Site),
    /// The entry never returns.
    NeverReturns(Site),
    /// A fact names a place where there is no such loop or instruction.
    UselessFact(Place),
    /// A fact names a place that cannot bound its loop. With the loops around it, and places that can bound them.
    RefusedFact(Place, Refusal, Vec<OpenLoop>),
    /// There are too many conflicts to solve all their cases.
    TooManyConflicts(usize),
    /// A path of a function has more instructions than can be counted exactly.
    TooLarge(Site),
    /// The model of a core does not say what an instruction costs.
    UnknownCost(Site),
    /// The core executes another instruction set than that of the file.
    OtherCore(Core, Arch),
    /// The two solvers disagree: a defect of this library.
    Disagreement(String),
}

impl std::error::Error for Decline {}

impl Decline {
    /// The reason in a few words, for a table: "loop", "calls memcpy", "indirect jump".
    #[must_use]
    pub fn brief(&self) -> String {
        match self {
            Self::Obstacle(Obstacle::ExternalCall(name), _) => format!("calls {name}"),
            Self::Obstacle(Obstacle::Repeat, _) => "rep".to_owned(),
            Self::Obstacle(Obstacle::Kernel, _) => "system call".to_owned(),
            Self::Obstacle(Obstacle::Trap, _) => "trap".to_owned(),
            Self::Obstacle(Obstacle::Chosen(_), _) => "indirect function".to_owned(),
            Self::Obstacle(Obstacle::Disputed, _) => "disputed instruction".to_owned(),
            Self::Obstacle(Obstacle::CaughtException, _) => "caught exception".to_owned(),
            Self::Obstacle(Obstacle::UnknownHandlers, _) => "unwind table".to_owned(),
            Self::Obstacle(Obstacle::IndirectJump, _) => "indirect jump".to_owned(),
            Self::Obstacle(Obstacle::IndirectCall, _) => "indirect call".to_owned(),
            Self::Obstacle(Obstacle::NoCode(_) | Obstacle::Undecodable, _) => "no code".to_owned(),
            Self::Obstacle(Obstacle::UnmatchedReturn, _) => "return to another place".to_owned(),
            Self::Obstacle(Obstacle::Elsewhere | Obstacle::TakenPlace, _) => "unsupported control flow".to_owned(),
            Self::Recursion(_) => "recursion".to_owned(),
            Self::UnboundedLoops(_) | Self::IrreducibleLoop(_) => "loop".to_owned(),
            Self::NeverReturns(_) => "never returns".to_owned(),
            Self::UselessFact(_) | Self::RefusedFact(..) | Self::TooManyConflicts(_) => "facts".to_owned(),
            Self::TooLarge(_) => "too large".to_owned(),
            Self::UnknownCost(_) => "unknown cost".to_owned(),
            Self::OtherCore(..) => "other core".to_owned(),
            Self::Disagreement(_) => "defect".to_owned(),
        }
    }
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Obstacle(obstacle, site) => write!(f, "{} at {site}: {}", what(obstacle), remedy(obstacle)),
            Self::Recursion(site) => write!(f, "recursion through the call at {site}: replace it with a loop"),
            Self::UnboundedLoops(loops) => {
                const STATE: &str = "the most executions of the named instruction each time the loop is entered";
                if let [one] = loops.as_slice() {
                    return write!(f, "unbounded loop at {}: state {STATE}: {one}", one.entry);
                }
                write!(f, "{} unbounded loops: state for each {STATE}:", loops.len())?;
                loops.iter().try_for_each(|one| write!(f, "\nunbounded loop at {}: {one}", one.entry))
            }
            Self::IrreducibleLoop(site) => {
                write!(f, "loop with several entries at {site}: write it without jumps into its body")
            }
            Self::NeverReturns(site) => write!(f, "no path returns from {site}: bound a function that returns"),
            Self::UselessFact(place) => {
                write!(f, "a fact names {place}, where the entry has no such loop or instruction: correct or remove it")
            }
            Self::RefusedFact(place, why, instead) => {
                let why = match why {
                    Refusal::PassedBy => "which an iteration of its loop can skip",
                    Refusal::NotTheCondition => {
                        "which is not the line of its loop's condition in the machine code, the only branch that every \
                         iteration executes and that can leave the loop"
                    }
                    Refusal::Nested => "which holds the conditions of nested loops",
                };
                write!(
                    f,
                    "a fact names {place}, {why}: state the most executions of an instruction that every iteration executes, \
                     each time the loop is entered:"
                )?;
                instead.iter().try_for_each(|one| write!(f, "\nloop at {}: {one}", one.entry))
            }
            Self::TooManyConflicts(conflicts) => {
                write!(
                    f,
                    "{conflicts} conflicts are too many, since each doubles the work: keep those that lower the bound"
                )
            }
            Self::TooLarge(site) => {
                write!(f, "more than 2^53 in the function at {site}: lower the numbers in the facts about loops")
            }
            Self::UnknownCost(site) => {
                write!(
                    f,
                    "instruction at {site} whose cycles the model of the core does not give, perhaps because the core lacks it: keep it off the paths \
                     that return, or bound instructions"
                )
            }
            Self::OtherCore(core, arch) => {
                write!(f, "{} executes {}, and this is code for {}", core.name(), core.arch().name(), arch.name())
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
        Obstacle::Kernel => "system call or breakpoint".to_owned(),
        Obstacle::IndirectJump => "indirect jump".to_owned(),
        Obstacle::IndirectCall => "indirect call".to_owned(),
        Obstacle::ExternalCall(name) => {
            format!("call of {name}, which another file defines or which is chosen when the program starts,")
        }
        Obstacle::NoCode(target) => {
            format!("jump or call to {target:#x}, where there is no code, or code that may be overwritten,")
        }
        Obstacle::Undecodable => "invalid instruction".to_owned(),
        Obstacle::Elsewhere => {
            "transfer that cannot be followed (far, transactional, into or out of an enclave, a virtual \
                                machine or an interrupt, with another target on Intel than on AMD processors, or on \
                                RISC-V a call that links another register than ra)"
                .to_owned()
        }
        Obstacle::Trap => "trap".to_owned(),
        Obstacle::Chosen(name) => {
            format!("indirect function (IFUNC) {name}, which is chosen when the program starts,")
        }
        Obstacle::Disputed => {
            "instruction that the two decoders read differently, or that one of them does not know,".to_owned()
        }
        Obstacle::CaughtException => "instruction that may throw an exception or panic, which is caught,".to_owned(),
        Obstacle::UnknownHandlers => {
            "instruction whose exception handlers cannot be read from the unwind tables,".to_owned()
        }
        Obstacle::UnmatchedReturn => "return that may not go back to the caller".to_owned(),
        Obstacle::TakenPlace => {
            "instruction that takes the address of an instruction inside a function, to which other code may jump,"
                .to_owned()
        }
    }
}

fn remedy(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Repeat => "copy or fill in a loop that a fact bounds, or a constant number of words",
        Obstacle::Kernel => "keep it off the paths that return",
        Obstacle::IndirectJump => {
            "compile without jump tables, `-C jump-tables=no` (rustc) or `-fno-jump-tables` (gcc, clang)"
        }
        Obstacle::IndirectCall => "call the function by its name instead of through a pointer or a trait object",
        Obstacle::ExternalCall(_) => {
            "call a function of this file whose loops facts can bound; if the source has a loop instead, which the \
             compiler replaced by the call, compile with `-fno-tree-loop-distribute-patterns` (gcc)"
        }
        Obstacle::NoCode(_) => "analyse a linked file, not an object file, whose addresses are not final",
        Obstacle::Undecodable => "it is data, or newer than the decoder",
        Obstacle::Elsewhere => {
            "keep it off the paths that return; on RISC-V, compile without outlined functions (-C \
             llvm-args=-enable-machine-outliner=never) and without -msave-restore"
        }
        Obstacle::Trap => "keep it off the paths that return: a handler of its signal may continue after it",
        Obstacle::Chosen(_) => "its resolver is at this address: bound the chosen function by its own name or address",
        Obstacle::Disputed => "keep it off the paths that return",
        Obstacle::UnknownHandlers => {
            "keep the symbol of the personality routine, and leave the unwind tables as the compiler wrote them"
        }
        Obstacle::CaughtException => "catch it outside the bounded code: the instructions of throwing are not bounded",
        Obstacle::TakenPlace => "go back by a return, not by `__builtin_longjmp`",
        Obstacle::UnmatchedReturn => {
            "compile without code that rewrites return addresses or the stack pointer (retpolines, alloca)"
        }
    }
}

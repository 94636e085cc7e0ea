//! The schema of bounds: what `rtalloc bound` finds out, and the table of bounds that is committed and may not grow.

use pathbound::Assumption;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the instruction counts of every subject asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Study {
    /// Version of rtalloc.
    pub rtalloc: String,
    /// Compiler that built the laboratory, the allocators in it included.
    pub rustc: String,
    /// SHA-256 of the binary whose code was bounded, hexadecimal.
    pub sha256: String,
    /// Where observed maxima come from, one line each; empty where nothing was observed.
    pub observed_in: Vec<String>,
    /// One entry per subject, in table order.
    pub subjects: Vec<SubjectBounds>,
    /// The same by size class, of those that compact; one entry per subject.
    #[serde(default)]
    pub classes: Vec<SizeClasses>,
}

/// What is known of a subject whose operations cost by size class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SizeClasses {
    /// Its name.
    pub subject: String,
    /// Instructions to read a byte of an object through its handle; a pointer takes 2.
    pub read_instructions: Option<u64>,
    /// Sizes of the heaps that were measured in, in bytes; empty where nothing was.
    pub heap_bytes: Vec<u64>,
    /// The classes, smallest first.
    pub classes: Vec<ClassBounds>,
}

/// A size class: bounds, and the most that was measured in each heap.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassBounds {
    /// Its number, from 1.
    pub number: u32,
    /// Bytes of a page-block.
    pub block_bytes: u64,
    /// Allocate.
    pub allocate: ClassOperation,
    /// Free that moves nothing.
    pub free: ClassOperation,
    /// Free that moves an object.
    pub free_moving: ClassOperation,
}

/// An operation of a class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClassOperation {
    /// The static bound.
    pub bound: Option<u64>,
    /// The most measured, by heap; `None` where it did not happen.
    pub most: Vec<Option<u64>>,
}

/// The entry points of a subject.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubjectBounds {
    /// Its name; where a file was asked about, the file's.
    pub subject: String,
    /// Why nothing, or not everything, was observed; where that is so.
    pub unobserved: Option<String>,
    /// States the exhaustive exploration reached, and operations it tried; `None` where it could not look.
    pub explored: Option<Explored>,
    /// The operations.
    pub operations: Vec<OperationBounds>,
}

/// The size of an exhaustive exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explored {
    /// States reached.
    pub states: usize,
    /// Operations tried.
    pub transitions: usize,
}

/// An entry point: three numbers side by side, never one for another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperationBounds {
    /// Which: "allocate", "allocate aligned", "deallocate", "reallocate".
    pub operation: String,
    /// What the machine code proves.
    pub answer: Answer,
    /// The bound as a function of how often loops turn, where the source says what bounds them.
    #[serde(default)]
    pub formula: Option<Formula>,
    /// The most instructions for which a lock is held that this operation is performed under, by kind of lock.
    #[serde(default)]
    pub holds: BTreeMap<String, u64>,
    /// The most instructions in the scenarios that papers call the worst case.
    pub scenario: Option<Seen>,
    /// The most instructions in anything that was performed.
    pub observed: Option<Seen>,
    /// The most by what was performed: "traces", "profiles", "exploration", ...
    pub observed_by: BTreeMap<String, u64>,
}

/// What the machine code proves of an entry point.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A bound, whose certificate was checked.
    Bounded(Bounded),
    /// None, and why.
    Declined {
        /// What stands in the way, in a word or two.
        brief: String,
        /// What stands in the way, where, and what to do about it.
        why: String,
    },
}

/// A bound as a function of how often loops turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formula {
    /// Instructions without any turn.
    pub base: u64,
    /// What turns add.
    pub terms: Vec<Term>,
    /// The turns of each from which on it holds. Fewer take no more instructions than so many.
    #[serde(default)]
    pub at_least: u64,
    /// The bound of calls that turn no loop which most calls do not come to; `None` where there is no such loop.
    #[serde(default)]
    pub at_once: Option<u64>,
}

impl Formula {
    /// The turns from which on most hold, which nobody needs to be told.
    pub const USUALLY_AT_LEAST: u64 = 8;
}

/// What the turns of a loop add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// Instructions of each.
    pub instructions: u64,
    /// What there is one for: "split", "merge", "free block", "page".
    pub unit: String,
    /// The most turns in a heap of 16 MiB; `None` where that is no useful bound.
    pub turns: Option<u64>,
}

impl std::fmt::Display for Formula {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(at_once) = self.at_once {
            write!(f, "{at_once}, or ")?;
        }
        write!(f, "{}", self.base)?;
        self.terms.iter().try_for_each(|term| write!(f, " + {} per {}", term.instructions, term.unit))?;
        if self.at_least > Self::USUALLY_AT_LEAST { write!(f, " (at least {})", self.at_least) } else { Ok(()) }
    }
}

/// A static bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bounded {
    /// The most instructions an execution that returns can have; where that depends on the heap's size, in a heap of 16
    /// MiB.
    pub most: u64,
    /// The same in the largest heap there is, where it depends on the heap's size.
    #[serde(default)]
    pub in_largest: Option<u64>,
    /// The fewest.
    pub fewest: u64,
    /// What is assumed, of the published list.
    #[serde(default)]
    pub assumptions: BTreeSet<Assumption>,
    /// Facts that were assumed of loops and conflicts, as they were given.
    pub facts: Vec<String>,
    /// Functions that never return and may be called instead of returning: panics and aborts.
    pub never_returning: Vec<String>,
    /// The path that has the most.
    pub path: Vec<PathStep>,
}

/// An instruction of the longest path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathStep {
    /// Its address in the file.
    pub address: u64,
    /// The instruction as text.
    pub text: String,
    /// Its source line, e.g. `free_list.rs:81`; empty without debug information.
    pub source: String,
    /// How often the path executes it.
    pub executions: u64,
    /// Depth of calls: 0 in the entry point.
    pub depth: u32,
    /// Whether the operation that came nearest to the path executed it; `None` where nothing was observed.
    pub reached: Option<Reached>,
}

/// What was seen of an instruction on the longest path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reached {
    /// The operation that executed most of the path executed it.
    Yes,
    /// Other operations executed it, but none that also executed the instruction at this address, which is on the path.
    NeverWith {
        /// Address of the other.
        other: u64,
    },
    /// Other operations executed it, but none together with all of the path.
    Elsewhere,
    /// No operation executed it.
    Never,
}

/// A maximum that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Instructions.
    pub instructions: u64,
    /// Which operation of what.
    pub circumstance: String,
}

impl Study {
    /// Operations that executed more than their bound, one line each: a fact that was assumed is wrong, or the bound
    /// is.
    #[must_use]
    pub fn contradictions(&self) -> Vec<String> {
        let operations =
            self.subjects.iter().flat_map(|subject| subject.operations.iter().map(move |one| (subject, one)));
        operations
            .flat_map(|(subject, operation)| {
                let Answer::Bounded(bounded) = &operation.answer else { return Vec::new() };
                // Scenarios are performed in the heap that the bound is of, everything else in heaps of any size.
                let anywhere = bounded.in_largest.unwrap_or(bounded.most);
                [(&operation.scenario, bounded.most), (&operation.observed, anywhere)]
                    .into_iter()
                    .filter_map(|(seen, most)| Some((seen.as_ref()?, most)))
                    .filter(|(seen, most)| seen.instructions > *most)
                    .map(|(seen, most)| {
                        format!(
                            "{} {} executed {} instructions, more than its bound of {most}: {}",
                            subject.subject, operation.operation, seen.instructions, seen.circumstance
                        )
                    })
                    .collect()
            })
            .collect()
    }
}

/// The bounds that are committed: by subject and operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// Compiler whose code they are of.
    pub rustc: String,
    /// When they were found, and with which version.
    #[serde(default)]
    pub measured: String,
    /// Most instructions.
    pub bounds: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Baseline {
    /// The bounds of a study, without what was declined.
    #[must_use]
    pub fn of(study: &Study) -> Self {
        let mut bounds: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for subject in &study.subjects {
            for operation in &subject.operations {
                let mut enter = |what: String, instructions| {
                    bounds.entry(subject.subject.clone()).or_default().insert(what, instructions);
                };
                if let Answer::Bounded(bounded) = &operation.answer {
                    enter(operation.operation.clone(), bounded.most);
                }
                for (lock, most) in &operation.holds {
                    enter(format!("{}, under {lock}", operation.operation), *most);
                }
                // What each turn costs may not grow either: where nothing bounds the turns, that is all there is.
                if let Some(formula) = &operation.formula {
                    enter(format!("{}, base", operation.operation), formula.base);
                    if let Some(at_once) = formula.at_once {
                        enter(format!("{}, at once", operation.operation), at_once);
                    }
                    if formula.at_least > Formula::USUALLY_AT_LEAST {
                        enter(format!("{}, turns at least", operation.operation), formula.at_least);
                    }
                    for term in &formula.terms {
                        enter(format!("{}, per {}", operation.operation, term.unit), term.instructions);
                    }
                }
            }
        }
        Self { rustc: study.rustc.clone(), measured: format!("with rtalloc {}", super::version::TEXT), bounds }
    }

    /// What is worse in `now` than here: bounds that grew and bounds that are gone, one line each.
    #[must_use]
    pub fn regressions(&self, now: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (subject, operations) in &self.bounds {
            for (operation, most) in operations {
                match now.bounds.get(subject).and_then(|operations| operations.get(operation)) {
                    Some(now) if now > most => {
                        lines.push(format!("{subject} {operation}: {now} instructions, {most} committed"));
                    }
                    Some(_) => {}
                    None => lines.push(format!("{subject} {operation}: no bound any more, {most} committed")),
                }
            }
        }
        lines
    }

    /// What is better in `now` than here, one line each: reason to commit it.
    #[must_use]
    pub fn improvements(&self, now: &Self) -> Vec<String> {
        self.beside(now, |most, committed| {
            let committed = committed.filter(|committed| *committed > most)?;
            Some(format!("{most} instructions, {committed} committed"))
        })
    }

    /// What `now` has that is not here, one line each.
    #[must_use]
    pub fn additions(&self, now: &Self) -> Vec<String> {
        self.beside(now, |most, committed| committed.is_none().then(|| format!("{most} instructions")))
    }

    /// What there is to say of the bounds of `now` beside those here.
    fn beside(&self, now: &Self, say: impl Fn(u64, Option<u64>) -> Option<String>) -> Vec<String> {
        let mut lines = Vec::new();
        for (subject, operations) in &now.bounds {
            for (operation, most) in operations {
                let committed = self.bounds.get(subject).and_then(|operations| operations.get(operation));
                lines.extend(say(*most, committed.copied()).map(|what| format!("{subject} {operation}: {what}")));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(bounds: &[(&str, &str, u64)]) -> Baseline {
        let mut all: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (subject, operation, most) in bounds {
            all.entry((*subject).into()).or_default().insert((*operation).into(), *most);
        }
        Baseline { rustc: "rustc 1.95".into(), measured: String::new(), bounds: all }
    }

    #[test]
    fn what_grew_or_is_gone_is_a_regression_and_nothing_else_is() {
        let committed = baseline(&[("tlsf", "allocate", 88), ("tlsf", "deallocate", 82), ("half-fit", "allocate", 49)]);
        assert!(committed.regressions(&committed).is_empty() && committed.improvements(&committed).is_empty());
        let now = baseline(&[("tlsf", "allocate", 89), ("tlsf", "deallocate", 80), ("best-fit", "deallocate", 46)]);
        assert_eq!(
            committed.regressions(&now),
            ["half-fit allocate: no bound any more, 49 committed", "tlsf allocate: 89 instructions, 88 committed"]
        );
        assert_eq!(committed.improvements(&now), ["tlsf deallocate: 80 instructions, 82 committed"]);
        assert_eq!(committed.additions(&now), ["best-fit deallocate: 46 instructions"]);
    }
}

//! The schema of bounds: the results of `rtalloc bound`, and the committed table of bounds, which must not grow.

use pathbound::Assumption;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The instruction counts of all selected subjects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Study {
    /// Version of rtalloc.
    pub rtalloc: String,
    /// Compiler that built the laboratory, the allocators in it included.
    pub rustc: String,
    /// SHA-256 of the analysed binary, hexadecimal.
    pub sha256: String,
    /// Its instruction set.
    pub instruction_set: String,
    /// Whether the subject is a user's file, and its operations are functions of it.
    pub of_file: bool,
    /// The core whose cycles are bounded instead of instructions.
    #[serde(default)]
    pub core: Option<Core>,
    /// Sources of the observed maxima, one line each; empty if nothing was observed.
    pub observed_in: Vec<String>,
    /// One entry per subject, in table order.
    pub subjects: Vec<SubjectBounds>,
    /// Results by size class for subjects that compact; one entry per subject.
    #[serde(default)]
    pub classes: Vec<SizeClasses>,
}

/// The results of a subject whose operations have costs by size class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SizeClasses {
    /// Its name.
    pub subject: String,
    /// Instructions to read a byte of an object through its handle; a pointer takes 2.
    pub read_instructions: Option<u64>,
    /// Sizes of the measured heaps in bytes; empty if nothing was measured.
    pub heap_bytes: Vec<u64>,
    /// The classes, smallest first.
    pub classes: Vec<ClassBounds>,
}

/// A size class: its bounds, and the observed maximum in each heap.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassBounds {
    /// Its number, starting at 1.
    pub number: u32,
    /// Bytes of a page-block.
    pub block_bytes: u64,
    /// Allocate.
    pub allocate: ClassOperation,
    /// A free that moves nothing.
    pub free: ClassOperation,
    /// A free that moves an object.
    pub free_moving: ClassOperation,
}

/// An operation of a class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClassOperation {
    /// The static bound.
    pub bound: Option<u64>,
    /// The observed maximum by heap; `None` if the case did not occur.
    pub most: Vec<Option<u64>>,
}

/// A core whose cycles are bounded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Core {
    /// Its name.
    pub name: String,
    /// What it is, and the configuration and memory for which its cycles hold.
    pub conditions: String,
    /// Where its cycles come from.
    pub source: String,
    /// Its clock in MHz, to show times.
    pub mhz: Option<f64>,
}

impl Core {
    /// Cycles as microseconds, rounded up; `None` if the clock is not known.
    #[must_use]
    pub fn microseconds(&self, cycles: u64) -> Option<String> {
        self.mhz.map(|mhz| format!("{:.3}", (cycles as f64 / mhz * 1000.0).ceil() / 1000.0))
    }

    /// What is counted and assumed.
    #[must_use]
    pub fn assumed(&self) -> String {
        format!(
            "Cycles of {}, from the first instruction up to and including the return: {}. Without these \
             conditions the bound does not hold. Source of the cycles of its instructions: {}.",
            self.name, self.conditions, self.source
        )
    }
}

/// The entry points of a subject.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubjectBounds {
    /// Its name, or the name of the analysed file.
    pub subject: String,
    /// Why the observations are missing or incomplete; `None` if they are complete.
    pub unobserved: Option<String>,
    /// The size of the exhaustive exploration; `None` if the subject could not be explored.
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

/// An entry point. Its three numbers are different things and are never interchanged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperationBounds {
    /// Which: "allocate", "allocate aligned", "deallocate", "reallocate".
    pub operation: String,
    /// The static result.
    pub answer: Answer,
    /// The bound as a function of loop iterations, if the source states what bounds them.
    #[serde(default)]
    pub formula: Option<Formula>,
    /// Maximum lock hold time in instructions, by kind of lock, for a lock under which this operation is performed.
    #[serde(default)]
    pub holds: BTreeMap<String, u64>,
    /// The bound of calls that repeat nothing because of contention, in a heap of 16 MiB, if others do.
    #[serde(default)]
    pub one_attempt: Option<u64>,
    /// The maximum instruction count in the papers' worst-case scenarios.
    pub scenario: Option<Seen>,
    /// The maximum instruction count over everything that was performed.
    pub observed: Option<Seen>,
    /// The maximum by source: "traces", "profiles", "exploration", ...
    pub observed_by: BTreeMap<String, u64>,
}

/// The static result for an entry point.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A bound, whose certificate was checked.
    Bounded(Bounded),
    /// No bound, with the reason.
    Declined {
        /// The obstacle in one or two words.
        brief: String,
        /// The obstacle, its location, and what to do about it.
        why: String,
    },
}

/// A bound as a function of loop iterations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formula {
    /// Instructions with no loop iteration.
    pub base: u64,
    /// The contribution of each loop.
    pub terms: Vec<Term>,
    /// The minimum number of iterations of each loop for which the bound is valid. Fewer iterations take no more
    /// instructions than this minimum.
    #[serde(default)]
    pub at_least: u64,
    /// The bound of calls that execute no iteration of a loop that most calls do not reach; `None` if there is no such
    /// loop.
    #[serde(default)]
    pub at_once: Option<u64>,
}

impl Formula {
    /// The usual value of `at_least`, which is not printed.
    pub const USUALLY_AT_LEAST: u64 = 8;
}

/// The contribution of one loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// Instructions per iteration.
    pub instructions: u64,
    /// What one iteration corresponds to: "split", "merge", "free block", "page".
    pub unit: String,
    /// The loop bound in a heap of 16 MiB; `None` if there is no useful one.
    pub iterations: Option<u64>,
}

impl std::fmt::Display for Formula {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(at_once) = self.at_once {
            write!(f, "{at_once}, or ")?;
        }
        write!(f, "{}", self.base)?;
        self.terms.iter().try_for_each(|term| write!(f, " + {} per {}", term.instructions, term.unit))?;
        if self.at_least > Self::USUALLY_AT_LEAST {
            write!(f, " (linear from {} iterations)", self.at_least)
        } else {
            Ok(())
        }
    }
}

/// A static bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bounded {
    /// The maximum instruction count of an execution that returns; if it depends on the heap's size, in a heap of 16
    /// MiB.
    pub most: u64,
    /// The same in the largest supported heap, if it depends on the heap's size.
    #[serde(default)]
    pub in_largest: Option<u64>,
    /// The minimum.
    pub fewest: u64,
    /// The assumptions, from the published list.
    #[serde(default)]
    pub assumptions: BTreeSet<Assumption>,
    /// Facts about loops and conflicts that were assumed, verbatim.
    pub facts: Vec<String>,
    /// Functions that never return and may be called: panics and aborts.
    pub never_returning: Vec<String>,
    /// Functions that are stated not to be called: the bound does not cover calls that reach them.
    pub not_called: Vec<String>,
    /// The longest path.
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
    /// Number of times the path executes it.
    pub executions: u64,
    /// What they cost, in instructions or cycles.
    #[serde(default)]
    pub cost: u64,
    /// Call depth: 0 in the entry point.
    pub depth: u32,
    /// Whether the operation closest to the path executed it; `None` if nothing was observed.
    pub reached: Option<Reached>,
}

/// The observations of an instruction on the longest path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reached {
    /// Executed by the operation that executed most of the path.
    Yes,
    /// Executed by other operations, but by none that also executed the instruction at this address, which is on the
    /// path.
    NeverWith {
        /// Address of the conflicting instruction.
        other: u64,
    },
    /// Executed by other operations, but by none together with the whole path.
    Elsewhere,
    /// Executed by no operation.
    Never,
}

/// An observed maximum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Instructions.
    pub instructions: u64,
    /// The operation and its source.
    pub circumstance: String,
}

impl Study {
    /// Operations that exceeded their bound, one line each: an assumed fact or the bound is wrong.
    #[must_use]
    pub fn contradictions(&self) -> Vec<String> {
        let operations =
            self.subjects.iter().flat_map(|subject| subject.operations.iter().map(move |one| (subject, one)));
        operations
            .flat_map(|(subject, operation)| {
                let Answer::Bounded(bounded) = &operation.answer else { return Vec::new() };
                // Scenarios are performed in the heap for which the bound is valid, everything else in heaps of any
                // size.
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

/// The committed bounds, by subject and operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The compiler that produced the analysed code.
    pub rustc: String,
    /// Date and version of the analysis.
    #[serde(default)]
    pub measured: String,
    /// The maximum instruction counts.
    pub bounds: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Baseline {
    /// The bounds of a study, without those that were declined.
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
                if let Some(most) = operation.one_attempt {
                    enter(format!("{}, one attempt", operation.operation), most);
                }
                // The cost per iteration must not grow either: without a loop bound, it is the only figure.
                if let Some(formula) = &operation.formula {
                    enter(format!("{}, base", operation.operation), formula.base);
                    if let Some(at_once) = formula.at_once {
                        enter(format!("{}, at once", operation.operation), at_once);
                    }
                    if formula.at_least > Formula::USUALLY_AT_LEAST {
                        enter(format!("{}, iterations at least", operation.operation), formula.at_least);
                    }
                    for term in &formula.terms {
                        enter(format!("{}, per {}", operation.operation, term.unit), term.instructions);
                    }
                }
            }
        }
        Self { rustc: study.rustc.clone(), measured: format!("with rtalloc {}", super::version::text()), bounds }
    }

    /// Regressions in `now`: bounds that grew or disappeared, one line each.
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

    /// Improvements in `now`, one line each: a reason to commit it.
    #[must_use]
    pub fn improvements(&self, now: &Self) -> Vec<String> {
        self.beside(now, |most, committed| {
            let committed = committed.filter(|committed| *committed > most)?;
            Some(format!("{most} instructions, {committed} committed"))
        })
    }

    /// Bounds in `now` that are missing here, one line each.
    #[must_use]
    pub fn additions(&self, now: &Self) -> Vec<String> {
        self.beside(now, |most, committed| committed.is_none().then(|| format!("{most} instructions")))
    }

    /// Compares the bounds of `now` with those here; one line for each bound for which `say` returns text.
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

//! Worst cases by name: the source of the *scenario maximum*, and of the traces of `rtalloc generate worst:ALLOCATOR`.
//!
//! A scenario is one operation on a heap prepared for it, in a heap of any size. It is not necessarily the worst case,
//! although its author took it for that: tables show it next to the observed maximum and the bound. Where an
//! allocator's bound showed that more is possible, there is a *harder* recipe of our own; [`Recipe`] distinguishes
//! them.
//!
//! | allocators | allocate | deallocate |
//! |---|---|---|
//! | sequential fits | search a list of H/2M blocks, M the smallest (Puaut 3.1.1) | both neighbours free (3.1.2); address order: the last place in the list |
//! | tree best-fit | a splay tree that is a path: all sizes there are, freed upwards (3.1.1) | both neighbours free, at the path's end (3.1.2) |
//! | fast-fit | a Cartesian tree that is a path: equal sizes freed downwards (3.1.1) | both neighbours free, at the path's end (3.1.2) |
//! | buddies | one largest block, smallest request (3.1.1) | the only block, of the smallest size (3.1.2) |
//! | quick-fit | a page split for the smallest request (3.1.1); harder: the last run of pages alternately free (5.1) | the last fragment of a page between free pages (3.1.2) |
//! | regions, reaps | a new page (thesis 6.3); harder: one that was given back | the last block of a page; harder: among other pages |
//! | bitframe | a new page (thesis 6.3); harder: one that was given back | the longest sequence of a page changes (6.3); harder: the last block of a page |
//! | Compact-fit | one large block, smallest request | one of a full page, while another page is not full (2.6) |
//! | simple segregated, Kingsley | an empty list: a block is cut from new memory (thesis 6.3) | any block |
//! | tree buddy | every second leaf is live: a search for two visits every node, in vain (Fig. 8) | the largest block: every counter in it is reset |
//! | bitmap buddy | nothing is free: every word is looked at, in vain | the only block of a largest one: a word of every level is closed |
//! | pooled arenas | every second chunk is live: a search for two looks at every word | the last block of a piece, or the longest block, whose chunks are in every word |
//! | TLSF, half-fit | a small request from one large block (Masmano et al. 6.1) | both neighbours free; harder: each alone in its list and range |

mod builder;
mod recipes;

use super::{Meter, Observation, ObserveError, Operation, Script, Stage};
use builder::ScriptBuilder;
use rtalloc_subjects::WorstCases;
use rtalloc_subjects::{Heap, Region, Subject};
use std::fmt;

/// Origin of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipe {
    /// A paper's.
    Paper,
    /// Ours, found from the bound.
    Harder,
}

impl Recipe {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Harder => "harder",
        }
    }
}

/// A worst case as described in the literature, or by us.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What it is, in a few words.
    pub name: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// The operation it is the worst case of, the last one that is performed.
    pub operation: Operation,
    /// Its origin.
    pub recipe: Recipe,
    /// The allocators it is for; empty: all allocators that no other scenario of the operation names.
    pub subjects: &'static [WorstCases],
    /// Performs the operations; `None` where the heap is too small for them.
    build: fn(&mut ScriptBuilder<'_>) -> Option<()>,
}

pub use recipes::ALL;

/// The heap size of the papers' measurements, the pool of the TLSF paper's experiments (section 7), in bytes.
pub const HEAP_BYTES: usize = 16 << 20;

/// The scenarios for an allocator.
pub fn of(subject: &Subject) -> impl Iterator<Item = &'static Scenario> + use<'_> {
    let named = |scenario: &Scenario| scenario.subjects.contains(&subject.about.worst_cases);
    ALL.iter().filter(move |scenario| {
        let others = || ALL.iter().filter(|other| other.operation == scenario.operation);
        named(scenario) || (scenario.subjects.is_empty() && !others().any(named))
    })
}

impl Scenario {
    /// The operations in a heap of `heap_bytes` bytes in `region`; the last one is the scenario's.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Refusal`] and [`ObserveError::NoRoom`].
    pub fn script(&self, subject: &Subject, region: &mut Region, heap_bytes: usize) -> Result<Script, ObserveError> {
        let heap = Heap::new(subject, region, heap_bytes)?;
        let mut builder = ScriptBuilder::new(subject, heap, heap_bytes);
        (self.build)(&mut builder).ok_or(ObserveError::NoRoom { scenario: self.name, heap_bytes })?;
        Ok(builder.into_script())
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.source)
    }
}

/// Performs every scenario of the stage's subject in a heap of `heap_bytes` bytes, and passes the last operation of
/// each to `sink`.
///
/// # Errors
///
/// [`ObserveError::Refusal`], [`ObserveError::NoRoom`] and [`ObserveError::Fault`].
pub fn drive<M: Meter>(
    stage: &mut Stage<'_, M>,
    heap_bytes: usize,
    mut sink: impl FnMut(&Scenario, &Observation<'_>),
) -> Result<(), ObserveError> {
    let subject = *stage.subject();
    for scenario in of(&subject) {
        let script = stage.rehearse(scenario, heap_bytes)?;
        let last = script.events().len() as u64 - 1;
        stage.perform(heap_bytes, &script, scenario, &mut |observation: &Observation<'_>| {
            if observation.index == last {
                sink(scenario, observation);
            }
        })?;
    }
    Ok(())
}

//! Subjects whose entry points count their instructions.
//!
//! The four entry points and everything they call are copied with counters inserted ([`pathbound::counter`]); a caller
//! of the copies instead of the originals has every instruction counted, including the C library's. Where a subject
//! jumps to computed addresses, the copies look up the target in a table of the copied code; a target outside it is
//! *missed*: executed nevertheless, uncounted, and recorded, so that the next copy includes it.

use super::instructions::ROUNDS;
use pathbound::counter::{Counter, CounterError, Record};
use pathbound::graph::{Callee, Flow, Graph, GraphError, NeverReturns, Obstacle};
use pathbound::image::{ImageError, Process};
use rtalloc_subjects::{Entries, Subject};
use std::sync::Arc;

/// Why a subject cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// This process cannot be analysed.
    #[error("instructions cannot be counted: {0}")]
    Image(#[from] ImageError),
    /// An entry point is not code.
    #[error("instructions cannot be counted: {0}")]
    Graph(#[from] GraphError),
    /// The code cannot be rewritten.
    #[error("instructions cannot be counted: {0}")]
    Counter(#[from] CounterError),
}

/// Counting copies of a subject's entry points.
#[derive(Debug)]
pub struct Counted {
    counter: Counter,
    graph: Arc<Graph>,
    entries: Entries,
    computes_targets: bool,
}

impl Counted {
    /// Copies the entry points of `subject` and what they call, and the code at `further` addresses, which earlier
    /// copies missed.
    ///
    /// # Errors
    ///
    /// [`CountError`], on every machine but x86-64 Linux.
    pub fn new(process: &Process, subject: &Subject, further: &[u64], record: Record) -> Result<Self, CountError> {
        let originals = subject.entries.addresses();
        let roots: Vec<u64> = originals.iter().chain(further).copied().collect();
        let graph = Graph::explore_to_count(process, &roots, &NeverReturns::default())?;
        let counter = Counter::new(process, &graph, record)?;
        let copy = |original: u64| counter.entry(original).expect("every root is in the graph");
        // SAFETY: the counter copied each function and keeps the copies for as long as it lives.
        let entries = unsafe { subject.entries.with_copies(originals.map(copy)) };
        let computes_targets = graph.nodes().any(|(_, node)| {
            matches!(
                node.flow,
                Flow::Unknown(Obstacle::IndirectJump)
                    | Flow::Tail(Callee::Unknown(Obstacle::IndirectJump))
                    | Flow::Call(Callee::Unknown(Obstacle::IndirectCall))
            )
        });
        Ok(Self { counter, graph, entries, computes_targets })
    }

    /// The counting entry points.
    #[must_use]
    pub fn entries(&self) -> Entries {
        self.entries
    }

    /// The graph of the copied code.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The counter.
    #[must_use]
    pub fn counter(&self) -> &Counter {
        &self.counter
    }

    /// Whether there are jumps or calls to computed addresses, so that targets may be missed.
    #[must_use]
    pub fn computes_targets(&self) -> bool {
        self.computes_targets
    }
}

/// Explores the code of subjects, so that the process keeps the graphs: neither it nor a child forked from it explores
/// that code again. Errors are ignored here: [`Counted::new`] reports them.
pub fn explore<'a>(process: &Process, subjects: impl IntoIterator<Item = &'a Subject>) {
    for subject in subjects {
        let _ = Graph::explore_to_count(process, &subject.entries.addresses(), &NeverReturns::default());
    }
}

/// Calls `job` with entry points that count, again with more code copied as long as computed jumps lead to code that
/// was not.
///
/// # Errors
///
/// If counting failed, with a message.
pub fn counting<R>(
    process: &Process,
    subject: &Subject,
    mut job: impl FnMut(Entries) -> Result<R, String>,
) -> Result<R, String> {
    let mut further = Vec::new();
    for _ in 0..ROUNDS {
        let counted = Counted::new(process, subject, &further, Record::Count).map_err(|error| error.to_string())?;
        let found = job(counted.entries())?;
        if !counted.counter().departures().is_empty() {
            return Err("instructions were reached that cannot be executed in a copy".into());
        }
        let missed = counted.counter().misses();
        if missed.is_empty() {
            return Ok(found);
        }
        further.extend(missed);
    }
    Err("not all code that computed jumps lead to was found".into())
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::tier::is_full;
    use pathbound::check::second_opinion;

    #[test]
    fn two_decoders_agree_on_every_instruction_of_every_subject() {
        let process = &*Process::shared().expect("this process");
        for subject in rtalloc_subjects::all().iter().filter(|subject| subject.about.in_dozen || is_full()) {
            let roots = subject.entries.addresses();
            let graph = Graph::explore_to_count(process, &roots, &NeverReturns::default()).expect("code");
            second_opinion(&graph, process).unwrap_or_else(|disagreement| panic!("{}: {disagreement}", subject.name));
        }
    }
}

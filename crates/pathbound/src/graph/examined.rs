//! What explorations of an image found out, kept for later ones.
//!
//! From a panic, nearly the whole C library is reached. Each exploration of a process would examine it anew. The graphs
//! are kept, too: the same entry is bounded several times with different facts, and children that are forked from a
//! process find its graphs.

use super::{Graph, NeverReturns};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What explorations of an image found out.
#[derive(Debug, Default)]
pub struct Examined {
    /// Whether functions may return, for those whose code was examined and their callees, with and without the search
    /// for escapes.
    functions: Mutex<BTreeMap<(bool, u64), bool>>,
    graphs: Mutex<BTreeMap<Question, Arc<Graph>>>,
    /// Whether functions never return, as the checker found with the second decoder.
    never_returning: Mutex<BTreeMap<u64, bool>>,
}

/// What determines the graph of an image: whether escapes are searched for, the entries, and what is stated.
type Question = (bool, Vec<u64>, NeverReturns);

impl Examined {
    pub(super) fn get(&self, finds_escapes: bool, function: u64) -> Option<bool> {
        locked(&self.functions).get(&(finds_escapes, function)).copied()
    }

    pub(super) fn add(&self, finds_escapes: bool, functions: BTreeMap<u64, bool>) {
        locked(&self.functions)
            .extend(functions.into_iter().map(|(function, returns)| ((finds_escapes, function), returns)));
    }

    /// What the checker found about a function, or finds now.
    pub(crate) fn never_returns(&self, function: u64, find: impl FnOnce() -> bool) -> bool {
        if let Some(known) = locked(&self.never_returning).get(&function) {
            return *known;
        }
        let found = find();
        locked(&self.never_returning).insert(function, found);
        found
    }

    pub(super) fn graph(&self, question: &Question) -> Option<Arc<Graph>> {
        locked(&self.graphs).get(question).cloned()
    }

    pub(super) fn add_graph(&self, question: Question, graph: Arc<Graph>) {
        locked(&self.graphs).insert(question, graph);
    }
}

/// A panic elsewhere leaves no entry half written.
fn locked<T>(entries: &Mutex<T>) -> MutexGuard<'_, T> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

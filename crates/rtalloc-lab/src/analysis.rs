//! What the machine code of this program proves about its subjects.
//!
//! The bounded entry points are the measured ones: functions of the running binary, whose file is analysed. The checker
//! verifies every bound's certificate before the bound is shown.

pub mod loop_bounds;

use crate::observe::{Limits, Operation};
use loop_bounds::Marked;
use pathbound::bound::BoundableLoop;
use pathbound::certificate::Certificate;
use pathbound::facts::{LoopFact, Place};
use pathbound::graph::{Graph, NeverReturns};
use pathbound::image::{ElfFile, Image as _, ImageError, Process};
use pathbound::{Bound, Decline, Facts, Unit, bound_in, check};
use rtalloc_subjects::Subject;
use rtalloc_subjects::shared::{self, SharedSubject, UnderLock};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// This program, as a process and as the file it was started from.
#[derive(Debug)]
pub struct Analysis {
    process: Arc<Process>,
    /// The functions of the library that bounds do not cover.
    not_called: NeverReturns,
    /// These, and the function that repeats contended requests.
    not_called_at_first: NeverReturns,
}

/// Why an entry point has no bound.
#[derive(Debug, thiserror::Error)]
pub enum Unbounded {
    /// It cannot be bounded.
    #[error("{0}")]
    Declined(#[from] Decline),
    /// It is not code of the file.
    #[error("{0}")]
    NoCode(#[from] pathbound::graph::GraphError),
    /// The checker refuses the solver's proof. A defect of pathbound.
    #[error("the checker rejects the certificate, a defect of pathbound, please report it: {0}")]
    Rejected(#[from] pathbound::check::Rejection),
}

impl Unbounded {
    /// Why, in a word or two, for a table.
    #[must_use]
    pub fn brief(&self) -> String {
        match self {
            Self::Declined(decline) => decline.brief(),
            Self::NoCode(_) => "no code".into(),
            Self::Rejected(_) => "defect".into(),
        }
    }
}

impl Analysis {
    /// Looks at this program.
    ///
    /// # Errors
    ///
    /// [`ImageError`]: the file is gone, or cannot be analysed; or several of its functions have the name of the one
    /// that reports misuse.
    pub fn of_this_program() -> Result<Self, ImageError> {
        let process = Process::shared()?;
        let unsuitable = |reason| ImageError::Unsuitable { path: "this program".into(), reason };
        let Some((file, _)) = process.executable() else {
            return Err(unsuitable("cannot be analysed: its file can no longer be read; start it again".into()));
        };
        let mut not_called = NeverReturns::default();
        not_called
            .add(file, REPORTS_MISUSE)
            .map_err(|ambiguous| unsuitable(format!("cannot be analysed: {ambiguous}")))?;
        // One for each type of heap and of slots.
        let all = |name| file.find(name).into_iter().map(|symbol| symbol.address);
        not_called.functions.extend(all(MAKES_A_HEAP));
        let mut not_called_at_first = not_called.clone();
        not_called_at_first.functions.extend(all(REPEATS));
        Ok(Self { process, not_called, not_called_at_first })
    }

    /// What a bound of our allocators covers: calls that report no misuse, and do not make the heap of a `Global`. The
    /// hook belongs to the user's program and cannot be analysed, and another thread may be making the heap, so the
    /// functions that call it and that make or await the heap are stated not to be called.
    #[must_use]
    pub fn calls_without_report(&self) -> &NeverReturns {
        &self.not_called
    }

    /// The same, of calls that also repeat nothing because of contention.
    fn calls_without_contention(&self) -> &NeverReturns {
        &self.not_called_at_first
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &ElfFile {
        self.executable().0
    }

    /// What is added to an address in the file to get that in the process.
    #[must_use]
    pub fn bias(&self) -> u64 {
        self.executable().1
    }

    fn executable(&self) -> (&ElfFile, u64) {
        self.process.executable().expect("looked at when this was made")
    }

    /// The address of an entry point in the file.
    #[must_use]
    pub fn entry(&self, subject: &Subject, operation: Operation) -> u64 {
        subject.entries.addresses()[operation as usize].wrapping_sub(self.bias())
    }

    /// Upper bounds on the lock hold time, in instructions, of a heap's operation in the table of shared heaps, by kind
    /// of lock: the bound of the whole operation under the lock, from its entry point, without contention. Valid for
    /// operations without loops; nothing is known of the system's locks.
    #[must_use]
    pub fn holds(&self, subject: &Subject, operation: Operation) -> BTreeMap<String, u64> {
        let file = self.file();
        let never = self.calls_without_report();
        let bound = |entry: u64| {
            let graph = Graph::explore(file, &[entry], never).ok()?;
            // The only loop is the one that waits for the lock.
            let tried = |one: &BoundableLoop| LoopFact { place: Place::Address(one.place), at_most: 1 };
            let loops = pathbound::loops(file, &graph, entry).ok()?.iter().map(tried).collect();
            Some(proved(file, entry, &Facts { loops, ..Facts::default() }, never).ok()?.most)
        };
        let guarded = |one: &'static SharedSubject| Some((one.lock?, one.guards.filter(|it| it.heap == subject.name)?));
        let under: Vec<_> = shared::all().iter().filter_map(guarded).collect();
        if under.is_empty() || proved(file, self.entry(subject, operation), &Facts::default(), never).is_err() {
            return BTreeMap::new();
        }
        let hold = |(lock, guarded): (&str, UnderLock)| {
            let entry = guarded.entries.addresses()[operation as usize].wrapping_sub(self.bias());
            Some((lock.to_string(), bound(entry)?))
        };
        under.into_iter().filter_map(hold).collect()
    }

    /// The bound, in a heap of 16 MiB, of the calls that repeat nothing because of contention; `None` if no call of the
    /// operation does.
    #[must_use]
    pub fn one_attempt(&self, subject: &Subject, operation: Operation) -> Option<u64> {
        let marked = Marked::of_calls(self, subject, operation, self.calls_without_contention()).ok()??;
        let bound = marked.bound().ok()??;
        bound.not_called.contains(REPEATS).then_some(bound.most)
    }

    /// The bounds of a subject in a heap of any size, from the loop bounds in the library's source.
    #[must_use]
    pub fn limits(&self, subject: &Subject) -> Limits {
        Operation::ALL.map(|operation| match Marked::new(self, subject, operation) {
            Ok(Some(marked)) => marked.in_largest().ok().flatten(),
            _ => self.without_loops(subject, operation),
        })
    }

    /// The same of an operation in a heap of 16 MiB.
    #[must_use]
    pub fn limit_in_heap(&self, subject: &Subject, operation: Operation) -> Option<u64> {
        match Marked::new(self, subject, operation) {
            Ok(Some(marked)) => marked.bound().ok().flatten().map(|bound| bound.most),
            _ => self.without_loops(subject, operation),
        }
    }

    fn without_loops(&self, subject: &Subject, operation: Operation) -> Option<u64> {
        let entry = self.entry(subject, operation);
        proved(self.file(), entry, &Facts::default(), self.calls_without_report()).ok().map(|bound| bound.most)
    }
}

/// The function of the library that reports misuse.
pub const REPORTS_MISUSE: &str = "rtalloc::hook::report";
/// The function of the library that makes the heap of a `Global`, or waits until another thread has.
pub const MAKES_A_HEAP: &str = "rtalloc::adapt::global::Global<H,C,A>::begin";
/// The function of the library that repeats the contended requests of a `Global` or `Joint`.
const REPEATS: &str = "rtalloc::adapt::joint::Operations<H,C>::retry";

/// Bounds the instructions of a function of a file, and verifies the proof.
///
/// # Errors
///
/// [`Unbounded`] says what cannot be bounded and where.
pub fn proved(file: &ElfFile, entry: u64, facts: &Facts, never: &NeverReturns) -> Result<Bound, Unbounded> {
    proved_in(Unit::Instructions, file, entry, facts, never)
}

fn proved_in(unit: Unit, file: &ElfFile, entry: u64, facts: &Facts, never: &NeverReturns) -> Result<Bound, Unbounded> {
    let graph = Graph::explore(file, &[entry], never)?;
    let bound = bound_in(unit, file, &graph, entry, facts)?;
    check(&Certificate::of(&bound, file.provenance()), file, file.provenance())?;
    Ok(bound)
}

/// As [`proved`], in a unit and with only those facts that fit the function; their places are added to the used ones.
/// Facts are given for several functions at once.
///
/// # Errors
///
/// [`Unbounded`] says what cannot be bounded and where.
pub fn proved_as_fits(
    unit: Unit,
    file: &ElfFile,
    entry: u64,
    facts: &Facts,
    never: &NeverReturns,
    useful: &mut HashSet<Place>,
) -> Result<Bound, Unbounded> {
    let mut facts = facts.clone();
    loop {
        match proved_in(unit, file, entry, &facts, never) {
            Err(Unbounded::Declined(Decline::UselessFact(place))) => {
                facts.loops.retain(|fact| fact.place != place);
                facts.conflicts.retain(|conflict| conflict.first != place && conflict.second != place);
            }
            Ok(bound) => {
                useful.extend(places(&facts).cloned());
                return Ok(bound);
            }
            // Declined for another reason, perhaps before the facts were examined.
            Err(why) => {
                let graph = Graph::explore(file, &[entry], never)?;
                let has = |place: &&Place| !place.find(file, graph.nodes().map(|(address, _)| address)).is_empty();
                useful.extend(places(&facts).filter(has).cloned());
                return Err(why);
            }
        }
    }
}

/// The places that facts are about.
pub fn places(facts: &Facts) -> impl Iterator<Item = &Place> {
    let loops = facts.loops.iter().map(|fact| &fact.place);
    loops.chain(facts.conflicts.iter().flat_map(|conflict| [&conflict.first, &conflict.second]))
}

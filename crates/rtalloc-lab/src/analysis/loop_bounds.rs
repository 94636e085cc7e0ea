//! Instruction bounds of loops, from the loop bounds in the library's source.
//!
//! Machine code does not show the iteration count of a loop. The library's source states it in the loop, where the
//! reason for it is ([`rtalloc::loop_bound!`]):
//!
//! ```text
//! while S::is_divisible(piece.class) {
//!     loop_bound!(LoopBound::Splits);
//! ```
//!
//! The build script lists these markers and the lines of their loops. A loop of the machine code gets the marker of the
//! source loop from whose lines most of its own instructions come. Together with a heap's size this gives facts
//! ([`pathbound::facts`]):
//!
//! Each time the loop around PLACE is entered, the instruction at the address PLACE is executed at most N times; or,
//! where PLACE is a source line, each loop with its condition on that line goes around at most N times, and tests its
//! condition at most N + 1 times.
//!
//! Here PLACE is the address of the last instruction that every iteration executes, and N is the number of iterations;
//! if this instruction is the one through which the loop is entered, N is one more. Facts give a bound ([`pathbound`]);
//! a bound that is linear in every iteration count is expressed as a [`Formula`]: the cost of one call, and the cost of
//! each additional iteration.

use super::{Analysis, Unbounded, proved, proved_as_fits};
use crate::observe::Operation;
use crate::observe::scenario::HEAP_BYTES;
use crate::result::bounds::{Formula, Term};
use pathbound::bound::BoundableLoop;
use pathbound::facts::{Conflict, LoopFact, Place};
use pathbound::graph::{Graph, NeverReturns};
use pathbound::image::{ElfFile, Image as _};
use pathbound::{Bound, Decline, Facts, Unit};
use rtalloc::contract::LoopBound;
use rtalloc_subjects::Subject;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

include!(concat!(env!("OUT_DIR"), "/loop_markers.rs"));

/// A source loop with a marker.
#[derive(Debug, PartialEq, Eq)]
struct Marker {
    file: &'static str,
    first_line: u32,
    last_line: u32,
    bound: LoopBound,
}

/// The largest heap in which anything is observed, in bytes: the range of 32-bit offsets.
const LARGEST_HEAP_BYTES: usize = 1 << 32;

/// The unit of iterations, as text.
fn unit(bound: LoopBound) -> String {
    match bound {
        LoopBound::Splits => "split".into(),
        LoopBound::Merges => "merge".into(),
        LoopBound::Levels => "level".into(),
        LoopBound::Visits => "visit".into(),
        LoopBound::BlockNodes => "node".into(),
        LoopBound::FreeBlocks => "free block".into(),
        LoopBound::Pages => "page".into(),
        LoopBound::Words => "word".into(),
        LoopBound::RemoteFrees => "reclaimed block".into(),
        LoopBound::PageBlockBytes { per_iteration } => format!("piece of {per_iteration} bytes"),
        LoopBound::PageGranules { .. }
        | LoopBound::BitmapLevels
        | LoopBound::Slots
        | LoopBound::PendingWords
        | LoopBound::Caller
        | LoopBound::Fixed(_) => "iteration".into(),
    }
}

/// Whether the bound is independent of the heap's size.
fn is_fixed(bound: LoopBound) -> bool {
    match bound {
        LoopBound::BitmapLevels
        | LoopBound::Slots
        | LoopBound::PendingWords
        | LoopBound::PageGranules { .. }
        | LoopBound::Fixed(_) => true,
        LoopBound::Splits
        | LoopBound::Merges
        | LoopBound::Levels
        | LoopBound::Visits
        | LoopBound::BlockNodes
        | LoopBound::FreeBlocks
        | LoopBound::Pages
        | LoopBound::Words
        | LoopBound::RemoteFrees
        | LoopBound::PageBlockBytes { .. }
        | LoopBound::Caller => false,
    }
}

/// Whether most calls do not enter such a loop: it runs only if other threads freed blocks of this slot, or if the
/// first place searched was empty.
fn is_rare(bound: LoopBound) -> bool {
    match bound {
        LoopBound::RemoteFrees
        | LoopBound::PendingWords
        | LoopBound::BitmapLevels
        | LoopBound::Words
        | LoopBound::Slots => true,
        LoopBound::Splits
        | LoopBound::Merges
        | LoopBound::Levels
        | LoopBound::Visits
        | LoopBound::BlockNodes
        | LoopBound::FreeBlocks
        | LoopBound::Pages
        | LoopBound::PageGranules { .. }
        | LoopBound::PageBlockBytes { .. }
        | LoopBound::Caller
        | LoopBound::Fixed(_) => false,
    }
}

/// The largest number of iterations in a heap of `heap_bytes`; `None` if the heap's size gives no useful bound.
fn most_iterations(bound: LoopBound, subject: &Subject, heap_bytes: usize) -> Option<u64> {
    let limits = subject.about.loop_limits;
    let levels = || limits.levels.map(|levels| levels(heap_bytes));
    match bound {
        LoopBound::Splits => limits.splits.map(|splits| splits(heap_bytes) as u64),
        LoopBound::Merges => limits.merges.map(|merges| merges(heap_bytes) as u64),
        LoopBound::Levels => levels().map(u64::from),
        // A node is entered once and left once.
        LoopBound::Visits => levels().map(|levels| 2 * ((1 << levels) - 1)),
        LoopBound::BlockNodes => levels().map(|levels| (1 << levels) - 1),
        LoopBound::Words => limits.words.map(|words| words(heap_bytes) as u64),
        // The number of levels for orders below 2^31 with words of 64 bits.
        LoopBound::BitmapLevels => limits.words.map(|_| 6),
        LoopBound::Slots => limits.slots.map(|slots| slots() as u64),
        LoopBound::RemoteFrees => limits.remote_frees.map(|frees| frees() as u64),
        LoopBound::PendingWords => limits.pending_words.map(|words| words() as u64),
        LoopBound::FreeBlocks | LoopBound::Pages | LoopBound::Caller => None,
        LoopBound::PageGranules { per_iteration } => {
            let contract = subject.view?.contract;
            Some((contract.page_bytes / contract.granule_bytes) as u64 / per_iteration)
        }
        LoopBound::PageBlockBytes { per_iteration } => Some(subject.view?.contract.page_bytes as u64 / per_iteration),
        LoopBound::Fixed(iterations) => Some(iterations),
    }
}

/// A loop of the machine code and its bound from the source.
#[derive(Debug)]
struct Known {
    fact: LoopFact,
    once_more: bool,
    bound: LoopBound,
}

impl Known {
    /// The fact that each time the loop is entered, it has at most this many iterations.
    fn at_most(&self, iterations: u64) -> LoopFact {
        LoopFact { place: self.fact.place.clone(), at_most: iterations + u64::from(self.once_more) }
    }
}

/// The facts about the loops of a function with line tables that has code of this library, from the source's markers:
/// `most` is the largest number of iterations of each kind. `None` if a loop has no marker, or a kind no number.
#[must_use]
pub fn facts_of(
    file: &ElfFile,
    entry: u64,
    never: &NeverReturns,
    most: &dyn Fn(LoopBound) -> Option<u64>,
) -> Option<Vec<LoopFact>> {
    let graph = Graph::explore(file, &[entry], never).ok()?;
    let known = known(file, &pathbound::loops(file, &graph, entry).ok()?)?;
    known.iter().map(|known| Some(known.at_most(most(known.bound)?))).collect()
}

/// An entry point whose loops are all marked.
#[derive(Debug)]
pub struct Marked<'a> {
    analysis: &'a Analysis,
    subject: &'a Subject,
    entry: u64,
    known: Vec<Known>,
    not_called: &'a NeverReturns,
}

impl<'a> Marked<'a> {
    /// `None` if the entry point has no loops, or one without a marker.
    ///
    /// # Errors
    ///
    /// [`Unbounded`]: the reason, other than loops.
    pub fn new(analysis: &'a Analysis, subject: &'a Subject, operation: Operation) -> Result<Option<Self>, Unbounded> {
        Self::of_calls(analysis, subject, operation, analysis.calls_without_report())
    }

    /// The same of the calls that do not call these functions.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(super) fn of_calls(
        analysis: &'a Analysis,
        subject: &'a Subject,
        operation: Operation,
        not_called: &'a NeverReturns,
    ) -> Result<Option<Self>, Unbounded> {
        let file = analysis.file();
        let entry = analysis.entry(subject, operation);
        let graph = Graph::explore(file, &[entry], not_called)?;
        let known = known(file, &pathbound::loops(file, &graph, entry)?).filter(|known| !known.is_empty());
        Ok(known.map(|known| Self { analysis, subject, entry, known, not_called }))
    }

    /// The bound in a heap of [`HEAP_BYTES`]; `None` where there is a loop over free blocks or pages.
    ///
    /// # Errors
    ///
    /// [`Unbounded`]: the reason, other than loops.
    pub fn bound(&self) -> Result<Option<Bound>, Unbounded> {
        self.in_heap(HEAP_BYTES)
    }

    /// The same in the largest heap, in instructions.
    ///
    /// # Errors
    ///
    /// As [`bound`](Self::bound).
    pub fn in_largest(&self) -> Result<Option<u64>, Unbounded> {
        match self.in_heap(LARGEST_HEAP_BYTES) {
            Ok(bound) => Ok(bound.map(|bound| bound.most)),
            // The iteration counts exceed the witness's range; the sum gives the same bound.
            Err(Unbounded::Declined(Decline::Disagreement(_))) => {
                let kinds = self.kinds();
                Ok(self.linear()?.and_then(|formula| {
                    let mut terms = kinds.iter().filter(|kind| !is_fixed(**kind)).zip(&formula.terms);
                    terms.try_fold(formula.base, |sum, (kind, term)| {
                        Some(sum + term.instructions * most_iterations(*kind, self.subject, LARGEST_HEAP_BYTES)?)
                    })
                }))
            }
            Err(why) => Err(why),
        }
    }

    /// The bound as a function of the iteration counts, if it is linear in each.
    ///
    /// # Errors
    ///
    /// As [`bound`](Self::bound).
    pub fn formula(&self) -> Result<Option<Formula>, Unbounded> {
        Ok(self.linear()?.map(|formula| Formula { at_once: self.at_once(), ..formula }))
    }

    fn linear(&self) -> Result<Option<Formula>, Unbounded> {
        formula(self.subject, &self.kinds(), &|iterations| Ok(self.with(iterations)?.most))
    }

    fn kinds(&self) -> BTreeSet<LoopBound> {
        self.known.iter().map(|known| known.bound).collect()
    }

    /// The same in a heap of so many bytes.
    ///
    /// # Errors
    ///
    /// As [`bound`](Self::bound).
    pub fn in_heap(&self, bytes: usize) -> Result<Option<Bound>, Unbounded> {
        let most = |bound| most_iterations(bound, self.subject, bytes);
        let all: Option<Vec<u64>> = self.known.iter().map(|known| most(known.bound)).collect();
        all.map(|_| self.with(&|bound| most(bound).unwrap_or(0))).transpose()
    }

    /// The bound with the given iterations of each loop.
    fn with(&self, iterations: &dyn Fn(LoopBound) -> u64) -> Result<Bound, Unbounded> {
        let loops = self.known.iter().map(|known| known.at_most(iterations(known.bound))).collect();
        let facts = Facts { loops, ..Facts::default() };
        proved(self.analysis.file(), self.entry, &facts, self.not_called)
    }

    /// The bound of calls that do no rare work.
    fn at_once(&self) -> Option<u64> {
        let never = |known: &Known| Conflict { first: known.fact.place.clone(), second: known.fact.place.clone() };
        let rare: Vec<Conflict> = self.known.iter().filter(|known| is_rare(known.bound)).map(never).collect();
        let in_heap = |known: &Known| Some(known.at_most(most_iterations(known.bound, self.subject, HEAP_BYTES)?));
        let loops: Vec<LoopFact> = self.known.iter().map(in_heap).collect::<Option<_>>()?;
        if rare.is_empty() {
            return None;
        }
        let facts = Facts { loops, conflicts: rare };
        let never = self.analysis.calls_without_contention();
        // A loop within one that is never entered is not a loop any more.
        let bound =
            proved_as_fits(Unit::Instructions, self.analysis.file(), self.entry, &facts, never, &mut HashSet::new());
        bound.ok().map(|bound| bound.most)
    }
}

/// Bounds an entry point of a heap with moving objects, by the size class of the object.
#[derive(Debug)]
pub struct ByClass<'a> {
    analysis: &'a Analysis,
    subject: &'a Subject,
    entry: u64,
    known: Vec<Known>,
    /// An instruction that is on every path that moves an object, and on no other.
    moves: Option<u64>,
}

impl<'a> ByClass<'a> {
    /// Analyses an entry point; `None` if a loop has no marker in the source.
    #[must_use]
    pub fn new(analysis: &'a Analysis, subject: &'a Subject, operation: Operation) -> Option<Self> {
        let file = analysis.file();
        let entry = analysis.entry(subject, operation);
        let graph = Graph::explore(file, &[entry], analysis.calls_without_report()).ok()?;
        let loops = pathbound::loops(file, &graph, entry).ok()?;
        let known = known(file, &loops)?;
        let mut found = Self { analysis, subject, entry, known, moves: None };
        let moves = |address: &u64| {
            let sources = file.source(*address);
            let mut functions = sources.iter().filter_map(|source| source.function.as_deref());
            functions.any(|function| function.contains("move_object"))
        };
        let in_loop = |address: &u64| loops.iter().any(|one| one.own.contains(address));
        // Excluding an instruction that is on all paths that move an object excludes these paths, and gives the
        // smallest bound. A compiler may have moved a single instruction to other paths, too: two must agree.
        let mut agreeing: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let page = subject.view?.contract.page_bytes as u64;
        for address in graph.nodes().map(|(address, _)| address).filter(|address| moves(address) && !in_loop(address)) {
            if let Some(bound) = found.proved(page, Some(address)) {
                agreeing.entry(bound).or_default().push(address);
            }
        }
        found.moves = agreeing.values().find(|addresses| addresses.len() > 1).map(|addresses| addresses[0]);
        Some(found)
    }

    /// The bound for objects in page-blocks of `block_bytes`.
    #[must_use]
    pub fn bound(&self, block_bytes: u64) -> Option<u64> {
        self.proved(block_bytes, None)
    }

    /// The same for calls that move no other object; `None` if there are none.
    #[must_use]
    pub fn without_moving(&self, block_bytes: u64) -> Option<u64> {
        self.proved(block_bytes, Some(self.moves?))
    }

    fn proved(&self, block_bytes: u64, avoided: Option<u64>) -> Option<u64> {
        let granule = self.subject.view?.contract.granule_bytes as u64;
        let iterations = |bound: LoopBound| match bound {
            LoopBound::PageBlockBytes { per_iteration } => Some(block_bytes / per_iteration),
            // A page of one page-block has this many granules: the marker refers to the largest.
            LoopBound::PageGranules { per_iteration } => Some(block_bytes / granule / per_iteration),
            _ => most_iterations(bound, self.subject, HEAP_BYTES),
        };
        let loops: Option<Vec<LoopFact>> =
            self.known.iter().map(|known| Some(known.at_most(iterations(known.bound)?))).collect();
        let never = |address| Conflict { first: Place::Address(address), second: Place::Address(address) };
        let facts = Facts { loops: loops?, conflicts: avoided.map(never).into_iter().collect() };
        let bound = proved(self.analysis.file(), self.entry, &facts, self.analysis.calls_without_report());
        bound.ok().map(|bound| bound.most)
    }
}

/// The bound as a function of the iteration counts.
type BoundOfIterations<'a> = dyn Fn(&dyn Fn(LoopBound) -> u64) -> Result<u64, Unbounded> + 'a;

/// The bound as a function of the iteration counts, if it is linear in each: from small counts on, or, if with small
/// counts a path around the loops is longer than one through them, from larger ones on.
fn formula(
    subject: &Subject,
    kinds: &BTreeSet<LoopBound>,
    bound: &BoundOfIterations<'_>,
) -> Result<Option<Formula>, Unbounded> {
    for few in [Formula::USUALLY_AT_LEAST, 128] {
        if let Some(formula) = formula_from(few, subject, kinds, bound)? {
            return Ok(Some(formula));
        }
    }
    Ok(None)
}

/// As [`formula`], from a given number of iterations on: derived there and at many, and verified at many of all.
fn formula_from(
    few: u64,
    subject: &Subject,
    kinds: &BTreeSet<LoopBound>,
    bound: &BoundOfIterations<'_>,
) -> Result<Option<Formula>, Unbounded> {
    const MANY: u64 = 4096;
    let most = |kind| most_iterations(kind, subject, HEAP_BYTES);
    let fixed = |kind: LoopBound| most(kind).filter(|_| is_fixed(kind));
    if kinds.iter().all(|kind| fixed(*kind).is_some()) {
        return Ok(None);
    }
    let least = bound(&|kind| fixed(kind).unwrap_or(few))?;
    let all = bound(&|kind| fixed(kind).unwrap_or(MANY))?;
    let mut terms = Vec::new();
    let (mut base, mut expected) = (Some(least), least);
    for kind in kinds.iter().copied().filter(|kind| fixed(*kind).is_none()) {
        let more = bound(&|one| fixed(one).unwrap_or(if one == kind { MANY } else { few }))?;
        let each = (more - least) / (MANY - few);
        expected += each * (MANY - few);
        base = base.and_then(|base| base.checked_sub(each * few));
        terms.push(Term { instructions: each, unit: unit(kind), iterations: most(kind) });
    }
    Ok(base.filter(|_| expected == all).map(|base| Formula { base, terms, at_least: few, at_once: None }))
}

/// The bound of every loop from the source; `None` if one has no marker.
fn known(file: &ElfFile, loops: &[BoundableLoop]) -> Option<Vec<Known>> {
    let markers: Vec<Option<&Marker>> = loops.iter().map(|one| marker(file, one)).collect();
    let known = loops.iter().zip(&markers).map(|(one, marker)| {
        // One marker refers to one loop, not to others that were inlined into it.
        let around = one.around.and_then(|around| markers[around]);
        let marker = marker.filter(|marker| around.is_none_or(|around| around != *marker))?;
        let fact = LoopFact { place: Place::Address(one.place), at_most: 0 };
        Some(Known { fact, once_more: one.once_more, bound: marker.bound })
    });
    known.collect()
}

/// The marker of the source loop from which most of a loop's own instructions come.
fn marker(file: &ElfFile, one: &BoundableLoop) -> Option<&'static Marker> {
    // By marker: the instructions for which it is the innermost, and those that it encloses.
    let mut votes: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for address in &one.own {
        // From the innermost inlined function outwards.
        let of = |source: &pathbound::image::Source| {
            let here = MARKERS.iter().enumerate().filter(|(_, marker)| {
                (marker.first_line..=marker.last_line).contains(&source.line)
                    && Path::new(&source.file).ends_with(marker.file)
            });
            here.min_by_key(|(_, marker)| marker.last_line - marker.first_line).map(|(index, _)| index)
        };
        let mut around: Vec<usize> = file.source(*address).iter().filter_map(of).collect();
        if let Some(innermost) = around.first() {
            votes.entry(*innermost).or_default().0 += 1;
        }
        around.sort_unstable();
        around.dedup();
        around.into_iter().for_each(|index| votes.entry(index).or_default().1 += 1);
    }
    // Instructions hoisted into a loop from elsewhere may be many, but not most. If functions with loops of their own
    // are inlined into it, the smallest marked loop that encloses most instructions is meant.
    let is_most = |votes: usize| 2 * votes >= one.own.len();
    let own = votes.iter().filter(|(_, (own, _))| is_most(*own)).max_by_key(|(_, (own, _))| *own);
    let around = || votes.iter().filter(|(_, (_, around))| is_most(*around)).min_by_key(|(_, (_, around))| *around);
    own.or_else(around).map(|(index, _)| &MARKERS[*index])
}

// A module of the build script, here for its tests.
#[cfg(test)]
#[path = "../../build/loop_markers.rs"]
mod loop_markers;

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::experiment::costs;
    use crate::probe::counting;
    use crate::tier::is_full;
    use rtalloc_subjects::global::CONTENDED;
    use rtalloc_subjects::{Entries, Heap, Region};

    fn formula(name: &str, operation: Operation) -> Option<Formula> {
        let analysis = Analysis::of_this_program().expect("this program");
        let subject = rtalloc_subjects::select(&[name]).expect("a subject")[0];
        Marked::new(&analysis, subject, operation).ok()??.formula().ok()?
    }

    /// The same search in both orders of the list.
    #[test]
    fn a_search_costs_so_much_for_every_free_block() {
        let first = formula("first-fit", Operation::Allocate).expect("one loop");
        assert!(
            matches!(&first.terms[..], [term] if term.unit == "free block" && term.iterations.is_none()),
            "{first}"
        );
        let ordered = formula("first-fit-address", Operation::Allocate).expect("one loop");
        assert_eq!(ordered.terms, first.terms, "{ordered}");
        assert_eq!(formula("tlsf", Operation::Allocate), None, "no loop");
    }

    /// A request that the global allocator repeats to the last takes no more than its bound, and all of its attempts.
    #[test]
    fn a_contended_request_is_within_the_bound_of_all_attempts() {
        const BYTES: usize = 64 << 10;
        let analysis = Analysis::of_this_program().expect("this program");
        // The most instructions of a request until the first refusal, and those of the refusal.
        let observed = |subject: &Subject| {
            let counted = |entries: Entries| {
                let mut region = Region::new(BYTES, false).map_err(|error| error.to_string())?;
                let heap = Heap::new(subject, &mut region, BYTES).map_err(|error| error.to_string())?;
                let mut most = 0;
                loop {
                    let before = pathbound::counter::executed();
                    // SAFETY: the context is that of the heap, and the layout is valid.
                    let block = unsafe { (entries.allocate)(heap.context, 64, 16) };
                    let instructions = pathbound::counter::executed() - before;
                    if block.is_null() {
                        return Ok((most, instructions));
                    }
                    most = instructions.max(most);
                }
            };
            counting(analysis.process(), subject, counted).expect("counted")
        };
        let (served, contended) = observed(&CONTENDED);
        let (_, once) = observed(rtalloc_subjects::select(&["tree-buddy"]).expect("a subject")[0]);
        let marked = Marked::new(&analysis, &CONTENDED, Operation::Allocate).expect("no obstacle").expect("loops");
        let bound = marked.in_heap(BYTES).expect("no obstacle").expect("a bound").most;
        assert!(served < contended && contended <= bound, "{served}, {contended}, at most {bound}");
        assert!(17 * once < contended, "{once}, {contended}");
    }

    /// The costs of recipes are within the formulas: loop bounds from the source, and costs per iteration from the
    /// machine code.
    #[test]
    fn no_recipe_costs_more_than_the_formula_says() {
        let analysis = Analysis::of_this_program().expect("this program");
        let mut compared = 0;
        let ours = rtalloc_subjects::all().iter().filter(|subject| subject.view.is_some());
        for subject in ours.filter(|subject| subject.about.in_dozen || is_full()) {
            let costs = costs::of_subject(analysis.process(), subject, &[64 << 10, 1 << 20]);
            for measured in costs.operations {
                let operation = Operation::ALL.into_iter().find(|one| one.name() == measured.operation).expect("known");
                let Ok(Some(marked)) = Marked::new(&analysis, subject, operation) else { continue };
                let Ok(Some(formula)) = marked.formula() else { continue };
                for point in measured.points {
                    let most = |bound| most_iterations(bound, subject, point.heap_bytes as usize);
                    let iterations = |term: &Term| match term.unit.as_str() {
                        "split" => most(LoopBound::Splits).expect("a buddy system"),
                        "merge" => most(LoopBound::Merges).expect("a buddy system"),
                        "level" => most(LoopBound::Levels).expect("a tree buddy"),
                        "visit" => most(LoopBound::Visits).expect("a tree buddy"),
                        "node" => most(LoopBound::BlockNodes).expect("a tree buddy"),
                        "word" => most(LoopBound::Words).expect("a bitmap buddy"),
                        unit if unit.starts_with("reclaimed block") => {
                            term.iterations.expect("as many as it was made with")
                        }
                        "free block" => point.free_blocks,
                        unit if unit.starts_with("piece") => term.iterations.expect("a page's at most"),
                        _ => point.heap_bytes / subject.view.expect("ours").contract.page_bytes as u64,
                    };
                    let added = |term: &Term| term.instructions * iterations(term).max(formula.at_least);
                    let most = formula.base + formula.terms.iter().map(added).sum::<u64>();
                    let name = (subject.name, operation, &point);
                    assert!(point.instructions <= most, "{name:?}: {formula}, {most}");
                    compared += 1;
                }
            }
        }
        assert!(compared >= 6, "{compared}");
    }
}

//! Loop bounds from comments in the library's source, and the instruction bounds that follow.
//!
//! Machine code does not show the iteration count of a loop. The library's source states it at the loop, where the
//! reason for it is:
//!
//! ```text
//! // turns: splits
//! while S::is_divisible(piece.class) {
//! ```
//!
//! The build reads these comments. A loop of the machine code gets the comment on the source lines from which most of
//! its own instructions come. Together with a heap's size this gives facts ([`pathbound::facts`]):
//!
//! Each time the loop around PLACE is entered, the instruction at the address PLACE is executed at most N times; or,
//! where PLACE is a source line, each loop with its condition on that line goes around at most N times, and tests its
//! condition at most N + 1 times.
//!
//! Here PLACE is the address of the last instruction that every iteration executes, and N is the number of iterations;
//! if this instruction is the one through which the loop is entered, N is one more. Facts give a bound ([`pathbound`]);
//! a bound that is linear in every iteration count is expressed as a [`Formula`]: the cost of one call, and the cost of
//! each additional iteration.
//!
//! | comment | iterations |
//! |---|---|
//! | `splits`, `merges` | of a buddy system's two loops, at most: computed by the system itself from the region's size |
//! | `levels`, `visits`, `nodes of a block` | levels of a tree buddy, nodes that a search enters or leaves, nodes of a block: at most those of the tree that the region holds |
//! | `words` | words of a bitmap buddy, on all levels together: at most those of the region |
//! | `blocks taken back` | blocks that other threads freed and an allocation of arenas takes back, before it serves its request and again if it finds nothing: each time at most the number the heap was made with |
//! | `words of pending bits`, `lines` | by the number of slots the heap was made with: one |
//! | `levels of the bitmaps` | 6, whatever the heap's size |
//! | `free blocks` | the number of free blocks: no bound, a cost for each |
//! | `pages` | the number of pages: no bound, a cost for each |
//! | `granules of a page`, `granules of a page / 8` | by the allocator's contract, whatever the heap's size |
//! | `page-block / 64` | bytes of a page-block, divided: at most those of a page, whatever the heap's size |
//! | `N`, `leaves ...`, `pieces ...` | by the caller's request: in no bounded entry point |
//! | a number | at most this number, whatever the heap's size |

use super::{Analysis, Unbounded, proved, proved_as_fits};
use crate::observe::Operation;
use crate::observe::scenario::HEAP_BYTES;
use crate::result::bounds::{Formula, Term};
use pathbound::bound::BoundableLoop;
use pathbound::facts::{Conflict, LoopFact, Place};
use pathbound::graph::{Graph, NeverReturns};
use pathbound::image::{ElfFile, Image as _};
use pathbound::{Bound, Decline, Facts};
use rtalloc_subjects::Subject;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

include!(concat!(env!("OUT_DIR"), "/turns.rs"));

/// A comment on a loop.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    file: &'static str,
    first: u32,
    last: u32,
    what: &'static str,
}

/// The largest heap in which anything is observed, in bytes: the range of 32-bit offsets.
const LARGEST_HEAP_BYTES: usize = 1 << 32;

/// What bounds the iterations of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turns {
    Splits,
    Merges,
    Levels,
    Visits,
    NodesOfABlock,
    FreeBlocks,
    Pages,
    /// The words of a bitmap buddy.
    Words,
    /// The levels of a bitmap buddy.
    BitmapLevels,
    /// The slots over which a bitmap buddy sums its operation counts.
    Lines,
    /// The blocks that an allocation of arenas takes back.
    TakenBack,
    /// The words of an arena's pending bits.
    Notices,
    /// The granules of a page, divided by this.
    Granules(u64),
    /// The bytes of a page-block, divided by this.
    PageBlock(u64),
    /// A number chosen by the caller.
    Chosen,
    Fixed(u64),
}

impl Turns {
    fn parse(what: &str) -> Option<Self> {
        Some(match what {
            "splits" => Self::Splits,
            "merges" => Self::Merges,
            "levels" => Self::Levels,
            "visits" => Self::Visits,
            "nodes of a block" => Self::NodesOfABlock,
            "free blocks" => Self::FreeBlocks,
            "pages" => Self::Pages,
            "N" => Self::Chosen,
            "words" => Self::Words,
            "lines" => Self::Lines,
            "levels of the bitmaps" => Self::BitmapLevels,
            "blocks taken back" => Self::TakenBack,
            "words of pending bits" => Self::Notices,
            other if ["leaves", "pieces", "bytes", "budget"].iter().any(|what| other.starts_with(what)) => Self::Chosen,
            "granules of a page" => Self::Granules(1),
            other => {
                let divided = |what: &str| other.strip_prefix(what).and_then(|divisor| divisor.strip_prefix(" / "));
                match (divided("granules of a page"), divided("page-block")) {
                    (Some(divisor), _) => Self::Granules(divisor.parse().ok()?),
                    (_, Some(divisor)) => Self::PageBlock(divisor.parse().ok()?),
                    (None, None) => Self::Fixed(other.parse().ok()?),
                }
            }
        })
    }

    /// The unit of iterations, as text.
    fn unit(self) -> String {
        match self {
            Self::Splits => "split".into(),
            Self::Merges => "merge".into(),
            Self::Levels => "level".into(),
            Self::Visits => "visit".into(),
            Self::NodesOfABlock => "node".into(),
            Self::FreeBlocks => "free block".into(),
            Self::Pages => "page".into(),
            Self::Words => "word".into(),
            Self::TakenBack => "reclaimed block".into(),
            Self::PageBlock(bytes) => format!("piece of {bytes} bytes"),
            Self::Granules(_) | Self::BitmapLevels | Self::Lines | Self::Notices | Self::Chosen | Self::Fixed(_) => {
                "turn".into()
            }
        }
    }

    /// Whether the bound is independent of the heap's size.
    fn is_fixed(self) -> bool {
        let by_kind = matches!(self, Self::BitmapLevels | Self::Lines | Self::Notices);
        by_kind || matches!(self, Self::Fixed(_) | Self::Granules(_))
    }

    /// Whether most calls do not enter such a loop: it runs only if other threads freed blocks of this slot, or if the
    /// first place searched was empty.
    fn is_rare(self) -> bool {
        matches!(self, Self::TakenBack | Self::Notices | Self::BitmapLevels | Self::Words | Self::Lines)
    }

    /// The largest number of iterations in a heap of `heap_bytes`; `None` if the heap's size gives no useful bound.
    fn most(self, subject: &Subject, heap_bytes: usize) -> Option<u64> {
        let limits = subject.about.loop_limits;
        let levels = || limits.levels.map(|levels| levels(heap_bytes));
        match self {
            Self::Splits => limits.splits.map(|splits| splits(heap_bytes) as u64),
            Self::Merges => limits.merges.map(|merges| merges(heap_bytes) as u64),
            Self::Levels => levels().map(u64::from),
            // A node is entered once and left once.
            Self::Visits => levels().map(|levels| 2 * ((1 << levels) - 1)),
            Self::NodesOfABlock => levels().map(|levels| (1 << levels) - 1),
            Self::Words => limits.words.map(|words| words(heap_bytes) as u64),
            // The number of levels for orders below 2^31 with words of 64 bits.
            Self::BitmapLevels => limits.words.map(|_| 6),
            Self::Lines => limits.slots.map(|slots| slots() as u64),
            Self::TakenBack => limits.remote_frees.map(|frees| frees() as u64),
            Self::Notices => limits.pending_words.map(|words| words() as u64),
            Self::FreeBlocks | Self::Pages | Self::Chosen => None,
            Self::Granules(divisor) => {
                let contract = subject.view?.contract;
                Some((contract.page_bytes / contract.granule_bytes) as u64 / divisor)
            }
            Self::PageBlock(divisor) => Some(subject.view?.contract.page_bytes as u64 / divisor),
            Self::Fixed(turns) => Some(turns),
        }
    }
}

/// The bounds of an entry point whose loops all have comments.
#[derive(Debug)]
pub struct LoopBounds {
    /// The bound in a heap of [`HEAP_BYTES`]; `None` where there is a loop over free blocks or pages.
    pub bound: Option<Bound>,
    /// The bound in the largest heap.
    pub in_largest: Option<u64>,
    /// The bound as a function of the iteration counts, if it is linear in each.
    pub formula: Option<Formula>,
}

/// A loop of the machine code and its bound from the source.
#[derive(Debug)]
struct Known {
    fact: LoopFact,
    once_more: bool,
    turns: Turns,
}

/// Bounds an entry point by the loop comments of the source. `None` if it has no loops, or one without a comment.
///
/// # Errors
///
/// [`Unbounded`]: the reason, other than loops.
pub fn loop_bounds(
    analysis: &Analysis,
    subject: &Subject,
    operation: Operation,
) -> Result<Option<LoopBounds>, Unbounded> {
    let file = analysis.file();
    let entry = analysis.entry(subject, operation);
    let graph = Graph::explore(file, &[entry], &NeverReturns::default())?;
    let Some(known) = known(file, &pathbound::loops(file, &graph, entry)?) else { return Ok(None) };
    if known.is_empty() {
        return Ok(None);
    }
    let bound = |turns: &dyn Fn(Turns) -> u64| {
        let fact = |known: &Known| LoopFact {
            place: known.fact.place.clone(),
            at_most: turns(known.turns) + u64::from(known.once_more),
        };
        let facts = Facts { loops: known.iter().map(fact).collect(), ..Facts::default() };
        proved(file, entry, &facts, &NeverReturns::default())
    };
    let in_heap = |bytes: usize| {
        let all: Option<Vec<u64>> = known.iter().map(|known| known.turns.most(subject, bytes)).collect();
        all.map(|_| bound(&|turns| turns.most(subject, bytes).unwrap_or(0))).transpose()
    };
    let at_once = || {
        let fact = |known: &Known| {
            let turns = known.turns.most(subject, HEAP_BYTES)?;
            Some(LoopFact { place: known.fact.place.clone(), at_most: turns + u64::from(known.once_more) })
        };
        let never = |known: &Known| Conflict { first: known.fact.place.clone(), second: known.fact.place.clone() };
        let rare: Vec<Conflict> = known.iter().filter(|known| known.turns.is_rare()).map(never).collect();
        let loops: Vec<LoopFact> = known.iter().map(fact).collect::<Option<_>>()?;
        if rare.is_empty() {
            return None;
        }
        let facts = Facts { loops, conflicts: rare };
        // A loop within one that is never entered is not a loop any more.
        let bound = proved_as_fits(file, entry, &facts, &NeverReturns::default(), &mut HashSet::new());
        bound.ok().map(|bound| bound.instructions)
    };
    let kinds: BTreeSet<Turns> = known.iter().map(|known| known.turns).collect();
    let formula = formula(subject, &kinds, &|turns| Ok(bound(turns)?.instructions))?;
    let in_largest = match in_heap(LARGEST_HEAP_BYTES) {
        Ok(bound) => bound.map(|bound| bound.instructions),
        // The iteration counts exceed the witness's range; the sum gives the same bound.
        Err(Unbounded::Declined(Decline::Disagreement(_))) => formula.as_ref().and_then(|formula| {
            let mut terms = kinds.iter().filter(|kind| !kind.is_fixed()).zip(&formula.terms);
            terms.try_fold(formula.base, |sum, (kind, term)| {
                Some(sum + term.instructions * kind.most(subject, LARGEST_HEAP_BYTES)?)
            })
        }),
        Err(why) => return Err(why),
    };
    Ok(Some(LoopBounds {
        bound: in_heap(HEAP_BYTES)?,
        in_largest,
        formula: formula.map(|formula| Formula { at_once: at_once(), ..formula }),
    }))
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
    /// Analyses an entry point; `None` if a loop has no comment in the source.
    #[must_use]
    pub fn new(analysis: &'a Analysis, subject: &'a Subject, operation: Operation) -> Option<Self> {
        let file = analysis.file();
        let entry = analysis.entry(subject, operation);
        let graph = Graph::explore(file, &[entry], &NeverReturns::default()).ok()?;
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
        let turns = |turns: Turns| match turns {
            Turns::PageBlock(divisor) => Some(block_bytes / divisor),
            // A page of one page-block has this many granules: the comment refers to the largest.
            Turns::Granules(divisor) => Some(block_bytes / granule / divisor),
            _ => turns.most(self.subject, HEAP_BYTES),
        };
        let fact = |known: &Known| {
            Some(LoopFact {
                place: known.fact.place.clone(),
                at_most: turns(known.turns)? + u64::from(known.once_more),
            })
        };
        let loops: Option<Vec<LoopFact>> = self.known.iter().map(fact).collect();
        let never = |address| Conflict { first: Place::Address(address), second: Place::Address(address) };
        let facts = Facts { loops: loops?, conflicts: avoided.map(never).into_iter().collect() };
        let bound = proved(self.analysis.file(), self.entry, &facts, &NeverReturns::default());
        bound.ok().map(|bound| bound.instructions)
    }
}

/// The bound as a function of the iteration counts.
type BoundOfTurns<'a> = dyn Fn(&dyn Fn(Turns) -> u64) -> Result<u64, Unbounded> + 'a;

/// The bound as a function of the iteration counts, if it is linear in each: from small counts on, or, if with small
/// counts a path around the loops is longer than one through them, from larger ones on.
fn formula(subject: &Subject, kinds: &BTreeSet<Turns>, bound: &BoundOfTurns<'_>) -> Result<Option<Formula>, Unbounded> {
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
    kinds: &BTreeSet<Turns>,
    bound: &BoundOfTurns<'_>,
) -> Result<Option<Formula>, Unbounded> {
    const MANY: u64 = 4096;
    let fixed = |turns: Turns| turns.most(subject, HEAP_BYTES).filter(|_| turns.is_fixed());
    if kinds.iter().all(|kind| fixed(*kind).is_some()) {
        return Ok(None);
    }
    let least = bound(&|turns| fixed(turns).unwrap_or(few))?;
    let all = bound(&|turns| fixed(turns).unwrap_or(MANY))?;
    let mut terms = Vec::new();
    let (mut base, mut expected) = (Some(least), least);
    for kind in kinds.iter().copied().filter(|kind| fixed(*kind).is_none()) {
        let more = bound(&|turns| fixed(turns).unwrap_or(if turns == kind { MANY } else { few }))?;
        let each = (more - least) / (MANY - few);
        expected += each * (MANY - few);
        base = base.and_then(|base| base.checked_sub(each * few));
        let turns = kind.most(subject, HEAP_BYTES);
        terms.push(Term { instructions: each, unit: kind.unit(), turns });
    }
    Ok(base.filter(|_| expected == all).map(|base| Formula { base, terms, at_least: few, at_once: None }))
}

/// The bound of every loop from the source; `None` if one has no comment.
fn known(file: &ElfFile, loops: &[BoundableLoop]) -> Option<Vec<Known>> {
    let marks: Vec<Option<&Mark>> = loops.iter().map(|one| mark(file, one)).collect();
    let known = loops.iter().zip(&marks).map(|(one, mark)| {
        // One comment refers to one loop, not to others that were inlined into it.
        let around = one.around.and_then(|around| marks[around]);
        let mark = mark.filter(|mark| around.is_none_or(|around| around != *mark))?;
        let fact = LoopFact { place: Place::Address(one.place), at_most: 0 };
        Some(Known { fact, once_more: one.once_more, turns: Turns::parse(mark.what)? })
    });
    known.collect()
}

/// The comment on the loop from which most of a loop's own instructions come.
fn mark(file: &ElfFile, one: &BoundableLoop) -> Option<&'static Mark> {
    // By comment: the instructions for which it is the innermost, and those that it encloses.
    let mut votes: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for address in &one.own {
        // From the innermost inlined function outwards.
        let of = |source: &pathbound::image::Source| {
            let here = MARKS.iter().enumerate().filter(|(_, mark)| {
                (mark.first..=mark.last).contains(&source.line) && Path::new(&source.file).ends_with(mark.file)
            });
            here.min_by_key(|(_, mark)| mark.last - mark.first).map(|(index, _)| index)
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
    // are inlined into it, the smallest comment that encloses most instructions is meant.
    let is_most = |votes: usize| 2 * votes >= one.own.len();
    let own = votes.iter().filter(|(_, (own, _))| is_most(*own)).max_by_key(|(_, (own, _))| *own);
    let around = || votes.iter().filter(|(_, (_, around))| is_most(*around)).min_by_key(|(_, (_, around))| *around);
    own.or_else(around).map(|(index, _)| &MARKS[*index])
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::experiment::costs;

    #[test]
    fn every_comment_on_a_loop_is_understood() {
        for mark in MARKS {
            assert!(Turns::parse(mark.what).is_some(), "{mark:?}");
            assert!(mark.first <= mark.last, "{mark:?}");
        }
    }

    fn formula(name: &str, operation: Operation) -> Option<Formula> {
        let analysis = Analysis::of_this_program().expect("this program");
        let subject = rtalloc_subjects::select(&[name]).expect("a subject")[0];
        loop_bounds(&analysis, subject, operation).ok()??.formula
    }

    /// The same search in both orders of the list.
    #[test]
    fn a_search_costs_so_much_for_every_free_block() {
        let first = formula("first-fit", Operation::Allocate).expect("one loop");
        assert!(matches!(&first.terms[..], [term] if term.unit == "free block" && term.turns.is_none()), "{first}");
        let ordered = formula("first-fit-address", Operation::Allocate).expect("one loop");
        assert_eq!(ordered.terms, first.terms, "{ordered}");
        assert_eq!(formula("tlsf", Operation::Allocate), None, "no loop");
    }

    /// The costs of recipes are within the formulas: loop bounds from the source, and costs per iteration from the
    /// machine code.
    #[test]
    fn no_recipe_costs_more_than_the_formula_says() {
        let analysis = Analysis::of_this_program().expect("this program");
        let mut compared = 0;
        for subject in rtalloc_subjects::all().iter().filter(|subject| subject.view.is_some()) {
            let costs = costs::of_subject(analysis.process(), subject, &[64 << 10, 1 << 20]);
            for measured in costs.operations {
                let operation = Operation::ALL.into_iter().find(|one| one.name() == measured.operation).expect("known");
                let Ok(Some(LoopBounds { formula: Some(formula), .. })) = loop_bounds(&analysis, subject, operation)
                else {
                    continue;
                };
                for point in measured.points {
                    let turns = |term: &Term| match term.unit.as_str() {
                        "split" => Turns::Splits.most(subject, point.heap_bytes as usize).expect("a buddy system"),
                        "merge" => Turns::Merges.most(subject, point.heap_bytes as usize).expect("a buddy system"),
                        "level" => Turns::Levels.most(subject, point.heap_bytes as usize).expect("a tree buddy"),
                        "visit" => Turns::Visits.most(subject, point.heap_bytes as usize).expect("a tree buddy"),
                        "node" => Turns::NodesOfABlock.most(subject, point.heap_bytes as usize).expect("a tree buddy"),
                        "word" => Turns::Words.most(subject, point.heap_bytes as usize).expect("a bitmap buddy"),
                        "reclaimed block" => term.turns.expect("as many as it was made with"),
                        "free block" => point.free_blocks,
                        unit if unit.starts_with("piece") => term.turns.expect("a page's at most"),
                        _ => point.heap_bytes / subject.view.expect("ours").contract.page_bytes as u64,
                    };
                    let added = |term: &Term| term.instructions * turns(term).max(formula.at_least);
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

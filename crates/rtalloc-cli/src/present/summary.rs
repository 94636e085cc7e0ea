//! Summary of every allocator over all traces.

use super::metric;
use super::printable;
use rtalloc_lab::catalogue;
use rtalloc_lab::number;
use rtalloc_lab::result::schema::{Cell, Origin, Outcome, Run, SubjectFacts, TraceResult};

/// One allocator over all traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The label.
    pub subject: SubjectFacts,
    /// Name in the tables of subjects, if a figure uses a different label.
    pub identity: String,
    /// Maximum instructions of an allocate or a free; `None` unless counted on every trace.
    pub worst: Option<Worst>,
    /// Maximum heap needed relative to the live memory; `None` unless determined on every trace.
    pub heap: Option<HeapNeed>,
    /// Worst operation on the traces with the fewest and the most live blocks, if both were counted and differ.
    pub growth: Option<Growth>,
    /// Traces that it did not serve completely, with the reason as text.
    pub troubles: Vec<(String, String)>,
    /// Whether its only failures are requests whose size or alignment exceeds its limits.
    pub only_beyond_reach: bool,
    /// Its largest heap, if it was smaller than the others' where it failed.
    pub largest_heap_bytes: Option<u64>,
    /// Whether it takes its pages from the system instead of the given region.
    pub own_pages: bool,
}

/// The maximum instructions of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worst {
    /// Their number.
    pub instructions: u64,
    /// `allocate` or `free`.
    pub operation: &'static str,
    /// Name of the trace; sanitised for a terminal, like every text of a standing.
    pub trace: String,
}

/// The heap an allocator needed relative to the live memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HeapNeed {
    /// Smallest heap that served the trace / M.
    pub ratio: f64,
    /// Name of the trace; sanitised for a terminal, like every text of a standing.
    pub trace: String,
}

/// The worst operation on a small and on a large trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// On the trace with the fewest live blocks.
    pub few: Worst,
    /// Live blocks at that trace's peak.
    pub few_blocks: u64,
    /// On the trace with the most live blocks.
    pub many: Worst,
    /// Live blocks at that trace's peak.
    pub many_blocks: u64,
}

impl Standing {
    /// An allocator without figures over traces.
    #[must_use]
    pub fn of(subject: SubjectFacts) -> Self {
        Self {
            identity: subject.name.clone(),
            subject,
            worst: None,
            heap: None,
            growth: None,
            troubles: Vec::new(),
            only_beyond_reach: false,
            largest_heap_bytes: None,
            own_pages: false,
        }
    }

    /// Whether its author states a constant cost.
    #[must_use]
    pub fn constant_cost(&self) -> bool {
        cost_rank(&self.subject.cost) == 0
    }

    /// Whether its author states a logarithmic cost, and the growth of its worst operation is consistent with it, with
    /// a tolerance of a factor of two for differences between traces. Without traces of different sizes, the statements
    /// of our allocators are accepted: tests compare them with counts.
    #[must_use]
    pub fn keeps_to_its_logarithm(&self) -> bool {
        let growth = |growth: &Growth| {
            #[allow(clippy::cast_precision_loss)] // compared as quotients
            let quotient = |many: u64, few: u64| many.max(1) as f64 / few.max(1) as f64;
            let logarithm = |blocks: u64| u64::from(blocks.max(2).ilog2());
            let allowed = 2.0 * quotient(logarithm(growth.many_blocks), logarithm(growth.few_blocks));
            quotient(growth.many.instructions, growth.few.instructions) <= allowed
        };
        cost_rank(&self.subject.cost) == 1 && self.growth.as_ref().map_or(self.subject.origin == Origin::Ours, growth)
    }

    /// Worst instructions and heap / M, if it served every trace and both are known: the input of the verdict.
    #[must_use]
    pub fn figures(&self) -> Option<(&Worst, &HeapNeed)> {
        match (&self.worst, &self.heap) {
            (Some(worst), Some(heap)) if self.troubles.is_empty() => Some((worst, heap)),
            _ => None,
        }
    }
}

/// Rank of a cost class: constant, logarithmic, linear, other.
fn cost_rank(cost: &str) -> u8 {
    match cost.trim() {
        "O(1)" => 0,
        cost if cost.starts_with("O(log") => 1,
        cost if cost.starts_with("O(") => 2,
        _ => 3,
    }
}

fn origin_rank(origin: Origin) -> u8 {
    match origin {
        Origin::Ours => 0,
        Origin::Peer => 1,
        Origin::System => 2,
    }
}

/// Every allocator of a run, in the order of all tables and figures: ours, peers, system; within each group constant
/// ones first, then by worst operation.
#[must_use]
pub fn all(run: &Run) -> Vec<Standing> {
    let mut subjects: Vec<&SubjectFacts> = Vec::new();
    for cell in run.traces.iter().flat_map(|result| &result.cells) {
        if !subjects.iter().any(|known| known.name == cell.subject.name) {
            subjects.push(&cell.subject);
        }
    }
    let mut standings: Vec<Standing> = subjects.into_iter().map(|subject| standing(run, subject)).collect();
    standings.sort_by_key(|standing| {
        (
            origin_rank(standing.subject.origin),
            cost_rank(&standing.subject.cost),
            standing.worst.as_ref().map_or(u64::MAX, |worst| worst.instructions),
            standing.subject.name.clone(),
        )
    });
    standings
}

/// The cell of a subject in a trace.
#[must_use]
pub fn cell_of<'a>(result: &'a TraceResult, name: &str) -> Option<&'a Cell> {
    result.cells.iter().find(|cell| cell.subject.name == name)
}

fn standing(run: &Run, subject: &SubjectFacts) -> Standing {
    let mut worst_of_each = Vec::new();
    let mut needs = Vec::new();
    let mut troubles = Vec::new();
    let (mut own_pages, mut beyond_reach, mut largest_heap_bytes) = (false, 0, None);
    for result in &run.traces {
        let trace = &result.trace;
        let name = printable(&trace.name);
        let Some(cell) = cell_of(result, &subject.name) else {
            troubles.push((name, "was not replayed.".into()));
            continue;
        };
        if let Some(what) = metric::outcome_sentence(cell, trace) {
            troubles.push((name.clone(), what));
        }
        beyond_reach += usize::from(metric::is_only_beyond_reach(&cell.outcome));
        if matches!(cell.outcome, Outcome::Failures { .. })
            && cell.heap_bytes.is_some()
            && cell.heap_bytes < result.cells.iter().filter_map(|other| other.heap_bytes).max()
        {
            largest_heap_bytes = cell.heap_bytes;
        }
        own_pages |= cell.heap_bytes.is_none() && !matches!(cell.outcome, Outcome::Broken { .. });
        if let Some(worst) = worst_operation(cell, &name) {
            worst_of_each.push((trace.peak_live_blocks, worst));
        }
        let smallest = cell.space.as_ref().and_then(|space| space.smallest_heap_bytes);
        if let Some(smallest) = smallest.filter(|_| trace.peak_live_bytes > 0) {
            #[allow(clippy::cast_precision_loss)] // a ratio shown with two decimals
            let ratio = smallest as f64 / trace.peak_live_bytes as f64;
            needs.push(HeapNeed { ratio, trace: name });
        }
    }
    let few = worst_of_each.iter().min_by_key(|(blocks, _)| *blocks);
    let many = worst_of_each.iter().max_by_key(|(blocks, _)| *blocks);
    let growth = few.zip(many).filter(|(few, many)| few.0 < many.0).map(|(few, many)| Growth {
        few: few.1.clone(),
        few_blocks: few.0,
        many: many.1.clone(),
        many_blocks: many.0,
    });
    let everywhere = |count: usize| count == run.traces.len();
    let worst = everywhere(worst_of_each.len())
        .then(|| worst_of_each.into_iter().map(|(_, worst)| worst).max_by_key(|worst| worst.instructions))
        .flatten();
    let heap = everywhere(needs.len())
        .then(|| needs.into_iter().max_by(|left, right| left.ratio.total_cmp(&right.ratio)))
        .flatten();
    let only_beyond_reach = beyond_reach > 0 && beyond_reach == troubles.len();
    Standing {
        worst,
        heap,
        growth,
        troubles,
        only_beyond_reach,
        largest_heap_bytes,
        own_pages,
        ..Standing::of(subject.clone())
    }
}

fn worst_operation(cell: &Cell, trace: &str) -> Option<Worst> {
    let instructions = cell.instructions.as_ref()?;
    [("allocate", instructions.max_allocate()), ("free", instructions.max_free())]
        .into_iter()
        .filter_map(|(operation, max)| Some(Worst { instructions: max?, operation, trace: trace.into() }))
        .max_by_key(|worst| worst.instructions)
}

/// `159 instructions (free, on lua)`.
#[must_use]
pub fn worst_in_words(worst: &Worst) -> String {
    format!("{} ({}, on {})", number::counted(worst.instructions, "instruction"), worst.operation, worst.trace)
}

/// The label of a curve.
pub(crate) fn named(label: &str, name: &str) -> Standing {
    let known = rtalloc_subjects::one(name).ok().map(catalogue::facts);
    let facts = known.unwrap_or_else(|| SubjectFacts {
        name: label.into(),
        origin: Origin::Ours,
        family: label.into(),
        cost: String::new(),
        largest_request_bytes: None,
        largest_alignment_bytes: None,
        read_instructions: None,
    });
    Standing { identity: name.into(), ..Standing::of(SubjectFacts { name: label.into(), ..facts }) }
}

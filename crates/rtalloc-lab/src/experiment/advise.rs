//! What every allocator offers a program, and which one the [rules] select.

use super::heap_size::sizes::{LIMIT, Program, Recording, each_in_a_process, of_subject};
use crate::analysis::Analysis;
use crate::catalogue::bound_in;
use crate::observe::Operation;
use crate::probe::space;
use crate::probe::threads::{ThreadedTask, smallest as smallest_shared};
use crate::replay::isolate::{Board, Progress};
use crate::replay::processor::Budget;
use crate::replay::settings::automatic_heap_bytes;
use crate::replay::threaded::{Ordering, Parameters, serves};
use crate::result::advice::{Advice, Candidate, Change, Rule, Wishes};
use crate::result::heap_size::Size;
use crate::result::schema::Outcome;
use crate::result::targets::Elsewhere;
use crate::rules::{self, Offer};
use rtalloc::limits::Limit;
use rtalloc_subjects::pools::for_limits;
use rtalloc_subjects::shared::{self, SharedHeap};
use rtalloc_subjects::{NATURAL_ALIGN_BYTES, Region, Subject, one, region_allocators};
use std::path::Path;

/// The allocator that several threads may use at the same time without waiting for each other.
const SHARED: &str = "pooled-arenas";
/// Granularity of its regions.
const GRANULE_BYTES: usize = 64;
/// Its chunk is at most this part of a region, or this many bytes.
const CHUNKS_AT_LEAST: usize = 128;
const SMALL_CHUNK_BYTES: usize = 512;

/// Most threads of a question.
pub const MOST_SLOTS: usize = 256;

/// What is to be decided.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// What is live at most.
    pub limits: &'a [Limit],
    /// Whether the limits are those of the recording.
    pub are_recorded: bool,
    /// A recording of the program.
    pub trace: Option<&'a Path>,
    /// Its name.
    pub name: Option<String>,
    /// Its resizes.
    pub resizes: u64,
    /// Its requests at an alignment above [`rtalloc_subjects::NATURAL_ALIGN_BYTES`].
    pub aligned: u64,
    /// The largest alignment requested.
    pub align_bytes: usize,
    /// Per cent by which the recording's objects were increased, and its region is.
    pub margin_per_cent: u64,
    /// The processor or core whose bounds decide; this program's if `None`.
    pub elsewhere: Option<&'a Elsewhere>,
    /// What the user wants.
    pub wishes: Wishes,
}

/// Answers a question. The calling process should be single-threaded: it forks.
///
/// # Errors
///
/// If the system cannot create a process, or the recording cannot be read.
pub fn answer(question: &Question<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> anyhow::Result<Advice> {
    let analysis = Analysis::of_this_program()?;
    let trace = question.trace.map(Recording::of).transpose()?;
    let program = Program { limits: question.limits, align_bytes: question.align_bytes, trace, is_attacked: true };
    // Those that the library has in every language, and the one that threads share.
    let has_code = |subject: &&Subject| !subject.about.c_type.is_empty();
    let mut subjects: Vec<&'static Subject> = region_allocators().iter().filter(has_code).collect();
    subjects.push(one(SHARED)?);
    let subjects: Vec<&'static Subject> =
        subjects.into_iter().map(|subject| for_limits(subject, question.limits)).collect();
    let mut candidates: Vec<Candidate> = Vec::new();
    // What is common to all proofs; each candidate's process would find it out again.
    if question.elsewhere.is_none() {
        let _ = bound_in(&analysis, subjects[0], Operation::Allocate, 1 << 20);
    }
    let work = |subject: &'static Subject, board: &Board| of_candidate(&analysis, subject, &program, question, board);
    each_in_a_process(&subjects, LIMIT, &work, progress, |subject, candidate| {
        candidates.push(candidate.unwrap_or_else(|death| Candidate {
            size: Size { subject: subject.name.into(), trouble: Some(death.to_string()), ..Size::default() },
            ..Candidate::default()
        }));
    })?;
    let Question { wishes, margin_per_cent, .. } = *question;
    for candidate in &mut candidates {
        candidate.broken = rules::broken(candidate, &wishes, margin_per_cent);
    }
    let order = |candidate: &Candidate| {
        let needed = rules::needed_bytes(candidate, &wishes, margin_per_cent).unwrap_or(u64::MAX);
        (candidate.broken.len(), needed, candidate.time_bound, candidate.size.subject.clone())
    };
    candidates.sort_by_key(order);
    let offers = rules::offers(&candidates, &wishes, margin_per_cent);
    let taken = rules::choose(&offers, &wishes);
    let others: Vec<Offer<'_>> = offers.iter().filter(|offer| Some(offer.index) != taken).copied().collect();
    let runner_up = rules::choose(&others, &wishes);
    let changes = others_wishes(&candidates, taken, question);
    Ok(Advice {
        trace: question.name.clone(),
        peak_live_bytes: trace.map(|trace| trace.peak_live_bytes),
        operations: trace.map(|trace| trace.events),
        resizes: question.resizes,
        aligned: question.aligned,
        limits: question.limits.iter().map(|limit| limit.into()).collect(),
        are_recorded: question.are_recorded,
        margin_per_cent,
        wishes,
        elsewhere: question.elsewhere.cloned(),
        taken,
        runner_up,
        changes,
        candidates,
    })
}

fn of_candidate(
    analysis: &Analysis,
    subject: &'static Subject,
    program: &Program<'_>,
    question: &Question<'_>,
    board: &Board,
) -> Candidate {
    let slots = question.wishes.threads.unwrap_or(1) as usize;
    let of_slots = with_slots(subject, slots);
    let bound = |bytes: u64| {
        let mut operations = vec![Operation::Allocate, Operation::Deallocate];
        // A recording's alignments up to C's malloc's are that of its processor, and 8 where words have 32 bits.
        let is_short = question.elsewhere.is_some_and(|elsewhere| elsewhere.word_bits == 32);
        let is_mallocs = is_short && question.align_bytes <= NATURAL_ALIGN_BYTES;
        if !is_mallocs && !subject.entries.is_natural(question.align_bytes) {
            operations.push(Operation::AllocateAligned);
        }
        let bounds = operations.into_iter().map(|operation| match question.elsewhere {
            Some(elsewhere) => elsewhere.bound(subject.name, operation.name()),
            None => bound_in(analysis, &of_slots, operation, bytes as usize),
        });
        bounds.collect::<Option<Vec<u64>>>().and_then(|bounds| bounds.into_iter().max())
    };
    // Without a bound it is never recommended, and its operations may take long.
    let is_bounded = bound(1 << 20).is_some();
    let trace = program.trace.filter(|_| is_bounded);
    let size = of_subject(analysis, subject, &Program { trace, is_attacked: is_bounded, ..*program }, board);
    let Question { wishes, margin_per_cent, .. } = question;
    let mut candidate = Candidate {
        size,
        is_unchecked: subject.view.is_some_and(|view| !view.contract.detects_double_free),
        is_shared: subject.name == SHARED,
        ..Candidate::default()
    };
    let share = candidate.size.measured_bytes.and_then(|bytes| rules::with_margin(bytes, *margin_per_cent));
    let together = trace.filter(|_| candidate.is_shared);
    let together = together.and_then(|trace| Together::new(subject, trace, slots, board));
    if let Some(together) = &together {
        candidate.shared_bytes = together.region_bytes(*margin_per_cent);
        if candidate.shared_bytes.is_none() {
            candidate.size.trouble.get_or_insert_with(|| format!("no region was found for {slots} threads"));
        }
    }
    candidate.largest_bytes = Some(subject.largest_heap_bytes()).filter(|bytes| *bytes < u64::MAX);
    candidate.region_bytes = rules::region_bytes(&candidate, wishes, *margin_per_cent);
    // Loops are bounded in the largest region that may be chosen.
    let largest = [candidate.region_bytes, candidate.size.guaranteed_bytes, share];
    candidate.time_bound = bound(largest.into_iter().flatten().max().unwrap_or(1 << 20));
    // A larger region may have fewer chunks, which are larger.
    let smaller = candidate.shared_bytes.filter(|_| together.is_some());
    let smaller = smaller.into_iter().flat_map(|bytes| [bytes, bytes + rules::MORE_IN_C]);
    candidate.time_bound = smaller.fold(candidate.time_bound, |most, bytes| Some(most?.max(bound(bytes)?)));
    if let Some(together) = &together {
        match candidate.region_bytes {
            // It was found there that none is.
            region if region == candidate.shared_bytes => candidate.refused = region.map(|_| 0),
            Some(region) if together.is_served_in(region as usize) => candidate.refused = Some(0),
            region => {
                let what = || format!("refuses requests of {slots} threads in {} B", region.unwrap_or(0));
                candidate.size.trouble.get_or_insert_with(what);
            }
        }
    } else if let Some((trace, region)) = trace.zip(candidate.region_bytes) {
        let task = trace.task(subject, region as usize, board);
        candidate.refused = match space::measure(&task, false).outcome {
            Outcome::Completed => Some(0),
            Outcome::Failures { failed, .. } => Some(failed),
            _ => None,
        };
    }
    candidate
}

/// The subject as a heap of so many slots is bounded: up to 64 of them have a pending bit each.
fn with_slots(subject: &Subject, slots: usize) -> Subject {
    let mut of_slots = *subject;
    if let Some(of_one) = &mut of_slots.about.loop_limits.pending_words {
        *of_one = match slots.div_ceil(u64::BITS as usize) {
            0 | 1 => || 1,
            2 => || 2,
            3 => || 3,
            _ => || MOST_SLOTS.div_ceil(u64::BITS as usize),
        };
    }
    of_slots
}

/// The slots of a shared heap, each of which performs the whole recording; all at the same pace.
struct Together<'a> {
    shared: &'static shared::SharedSubject,
    trace: Recording<'a>,
    slots: usize,
    /// The largest region tried.
    most_bytes: u64,
    board: &'a Board,
}

impl<'a> Together<'a> {
    fn new(subject: &Subject, trace: Recording<'a>, slots: usize, board: &'a Board) -> Option<Self> {
        let all_bytes = trace.peak_live_bytes.saturating_mul(slots as u64);
        let most_bytes = automatic_heap_bytes(all_bytes).min(subject.largest_heap_bytes());
        Some(Self { shared: shared::one(subject.name).ok()?, trace, slots, most_bytes, board })
    }

    fn parameters(&self) -> Parameters<'_> {
        let Recording { path, events, slots, .. } = self.trace;
        Parameters {
            trace: path,
            events,
            slots,
            threads: 1,
            copies: self.slots as u32,
            ordering: Ordering::Recorded,
            budget: Budget::new(LIMIT),
            board: self.board,
        }
    }

    /// The smallest region that serves them, increased by a margin, and further until it does so wherever it starts.
    fn region_bytes(&self, margin_per_cent: u64) -> Option<u64> {
        let mut region = Region::new(usize::try_from(self.most_bytes).ok()?, false).ok()?;
        let task = ThreadedTask {
            parameters: self.parameters(),
            peak_live_bytes: self.trace.peak_live_bytes.saturating_mul(self.slots as u64),
            subject: self.shared,
            heap_bytes: self.most_bytes as usize,
        };
        let first_bytes = rules::with_margin(smallest_shared(&task, &mut region)?, margin_per_cent)?;
        drop(region);
        let step_bytes = (first_bytes / 64).next_multiple_of(GRANULE_BYTES as u64);
        let tried = (0..64).map(|steps| first_bytes + steps * step_bytes);
        tried.take_while(|bytes| *bytes <= self.most_bytes).find(|bytes| self.is_served_in(*bytes as usize))
    }

    /// Whether all requests are served in a region of so many bytes, at the start where it has the fewest for blocks.
    fn is_served_in(&self, bytes: usize) -> bool {
        let chunk_bytes = (bytes / CHUNKS_AT_LEAST).max(SMALL_CHUNK_BYTES);
        let Ok(mut region) = Region::new(bytes + chunk_bytes, false) else { return false };
        let mut block_bytes = |offset: usize| {
            let mut sum = 0;
            if let Ok(mut heap) = SharedHeap::within(self.shared, &mut region, offset, bytes, self.slots) {
                heap.walk(&mut |block| sum += block.size_bytes);
            }
            sum
        };
        // One byte after a line of cache.
        let starts = (1..chunk_bytes).step_by(GRANULE_BYTES);
        let Some(worst) = starts.min_by_key(|offset| block_bytes(*offset)) else { return false };
        let heap = SharedHeap::within(self.shared, &mut region, worst, bytes, self.slots);
        heap.is_ok_and(|heap| matches!(serves(self.parameters(), &heap), Ok(Some(true))))
    }
}

/// What would be recommended with each wish dropped, or made stricter than what is taken allows; only where it differs.
fn others_wishes(candidates: &[Candidate], taken: Option<usize>, question: &Question<'_>) -> Vec<Change> {
    let Question { wishes, margin_per_cent, .. } = *question;
    // The recording was replayed in the region of the actual wishes alone.
    let not_replayed = |candidate: &Candidate| Candidate { refused: None, ..candidate.clone() };
    let candidates: Vec<Candidate> = candidates.iter().map(not_replayed).collect();
    let mut others = Vec::new();
    if question.trace.is_some() {
        others.push(Wishes { never_refuse: !wishes.never_refuse, ..wishes });
    }
    let taken_one = taken.map(|index| &candidates[index]);
    let time = taken_one.and_then(|candidate| candidate.time_bound);
    let needed = taken_one.and_then(|candidate| rules::needed_bytes(candidate, &wishes, margin_per_cent));
    others.extend(wishes.deadline.map(|_| Wishes { deadline: None, ..wishes }));
    others.extend(wishes.heap_bytes.map(|_| Wishes { heap_bytes: None, ..wishes }));
    others.extend(wishes.threads.map(|_| Wishes { threads: None, ..wishes }));
    others.extend(time.map(|time| Wishes { deadline: Some(time - 1), ..wishes }));
    others.extend(needed.map(|needed| Wishes { heap_bytes: Some(needed + rules::MORE_IN_C - 1), ..wishes }));
    if taken.is_none() {
        others.extend(nearest(&candidates, question));
    }
    let change = |wishes: Wishes| {
        let offers = rules::offers(&candidates, &wishes, margin_per_cent);
        let taken = rules::choose(&offers, &wishes);
        let region_bytes = taken.and_then(|taken| rules::region_bytes(&candidates[taken], &wishes, margin_per_cent));
        Change { wishes, taken, region_bytes }
    };
    others.into_iter().map(change).filter(|change| change.taken != taken).collect()
}

/// The wishes with the smallest heap, the shortest deadline, or both, that some allocator meets.
fn nearest(candidates: &[Candidate], question: &Question<'_>) -> Vec<Wishes> {
    let Question { wishes, margin_per_cent, .. } = *question;
    let without = |rules: &'static [Rule]| {
        candidates.iter().filter(move |one| one.broken.iter().all(|rule| rules.contains(rule)))
    };
    let heap = |one: &Candidate| Some(rules::needed_bytes(one, &wishes, margin_per_cent)? + rules::MORE_IN_C);
    let mut nearest = Vec::new();
    if wishes.heap_bytes.is_some() {
        let least = without(&[Rule::Fits]).filter_map(heap).min();
        nearest.extend(least.map(|heap| Wishes { heap_bytes: Some(heap), ..wishes }));
    }
    if wishes.deadline.is_some() {
        let bound = without(&[Rule::Deadline]).filter_map(|one| one.time_bound).min();
        nearest.extend(bound.map(|bound| Wishes { deadline: Some(bound), ..wishes }));
    }
    if nearest.is_empty() && wishes.heap_bytes.is_some() && wishes.deadline.is_some() {
        let both = without(&[Rule::Fits, Rule::Deadline]);
        let least = both.filter_map(|one| Some((heap(one)?, one.time_bound?))).min();
        nearest.extend(least.map(|(heap, bound)| Wishes {
            heap_bytes: wishes.heap_bytes.max(Some(heap)),
            deadline: wishes.deadline.max(Some(bound)),
            ..wishes
        }));
    }
    nearest
}

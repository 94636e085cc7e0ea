//! Heap sizes for a program whose limits are known: guaranteed, forced by an adversary, and needed by a recording.

use super::limited::{forced, region_bytes};
use super::unit_of;
use crate::analysis::Analysis;
use crate::catalogue;
use crate::observe::Operation;
use crate::probe::{self, space};
use crate::replay::isolate::{Board, Child, Death, Job, Progress, decode, run_all};
use crate::replay::processor::Budget;
use crate::replay::settings::automatic_heap_bytes;
use crate::result::heap_size::{Forced, LiveRow, MayBeLive, Size, Sizes};
use crate::rules::MORE_IN_C;
use crate::trace::{Event, Op, Reader, survey};
use rtalloc::limits::{Limit, largest_bytes};
use rtalloc_subjects::pools::for_limits;
use rtalloc_subjects::{NATURAL_ALIGN_BYTES, Subject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

/// Limit of the processor time of an allocator.
pub const LIMIT: Duration = Duration::from_secs(600);

/// The sizes for every allocator, sorted by what is guaranteed, then by what an adversary forces. `align_bytes` is
/// the largest alignment requested; limits count alignments above [`NATURAL_ALIGN_BYTES`] as sizes. The calling process
/// should be single-threaded: it forks.
///
/// # Errors
///
/// If the system cannot create a process, or the trace cannot be read.
pub fn measure(
    subjects: &[&'static Subject],
    limits: &[Limit],
    align_bytes: usize,
    trace: Option<&Path>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> anyhow::Result<Sizes> {
    let analysis = Analysis::of_this_program()?;
    let subjects = &subjects.iter().map(|subject| for_limits(subject, limits)).collect::<Vec<_>>();
    let trace = trace.map(Recording::of).transpose()?;
    let program = Program { limits, align_bytes, trace, is_attacked: true };
    let mut rows: Vec<Size> = Vec::new();
    each_in_a_process(
        subjects,
        LIMIT,
        &|subject, board| of_subject(&analysis, subject, &program, board),
        progress,
        |subject, row| {
            rows.push(row.unwrap_or_else(|death| Size {
                subject: subject.name.into(),
                trouble: Some(death.to_string()),
                ..Size::default()
            }));
        },
    )?;
    let forced = |row: &Size| row.forced.as_ref().map_or(u64::MAX, |forced| forced.region_bytes);
    rows.sort_by_key(|row| (row.guaranteed_bytes.unwrap_or(u64::MAX), forced(row), row.subject.clone()));
    Ok(Sizes { limits: limits.iter().map(|limit| limit.into()).collect(), rows })
}

/// Performs `work` for every allocator, each in a process of its own with a limit of processor time, and passes the
/// results to `done` as they come. The calling process should be single-threaded: it forks.
///
/// # Errors
///
/// If the system cannot create a process.
pub fn each_in_a_process<T: Serialize + DeserializeOwned>(
    subjects: &[&'static Subject],
    limit: Duration,
    work: &dyn Fn(&'static Subject, &Board) -> T,
    progress: &mut dyn FnMut(Progress<'_>),
    mut take: impl FnMut(&'static Subject, Result<T, Death>),
) -> anyhow::Result<()> {
    let spawn = |subject: &'static Subject| move || Child::spawn(|board| work(subject, board));
    let jobs = subjects.iter().map(|subject| Job { spawn: Box::new(spawn(subject)), limit }).collect();
    let (mut done, total) = (0, subjects.len() as u64);
    progress(Progress { done, total, last: "" });
    let width = std::thread::available_parallelism().map_or(1, usize::from);
    run_all(jobs, width, |number, result| {
        take(subjects[number], decode(result));
        done += 1;
        progress(Progress { done, total, last: subjects[number].name });
    })?;
    Ok(())
}

/// What a program does.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// What is live at most.
    pub limits: &'a [Limit],
    /// The largest alignment requested; limits count alignments above [`NATURAL_ALIGN_BYTES`] as sizes.
    pub align_bytes: usize,
    /// A recording of it.
    pub trace: Option<Recording<'a>>,
    /// Whether adversaries are played.
    pub is_attacked: bool,
}

/// A recording that is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Its operations.
    pub events: u64,
    /// Its most live bytes.
    pub peak_live_bytes: u64,
    /// Its slots: names of live blocks.
    pub slots: u32,
}

impl<'a> Recording<'a> {
    /// Reads the totals of a recording.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn of(path: &'a Path) -> anyhow::Result<Self> {
        let totals = survey(Reader::open(path)?)?.totals;
        Ok(Self { path, events: totals.events, peak_live_bytes: totals.peak_live_bytes, slots: totals.slots })
    }

    /// The work of replaying it on an allocator.
    #[must_use]
    pub fn task<'b>(&'b self, subject: &'b Subject, heap_bytes: usize, board: &'b Board) -> probe::Task<'b> {
        let Self { path, events, peak_live_bytes, .. } = *self;
        probe::Task { trace: path, events, peak_live_bytes, subject, heap_bytes, budget: Budget::new(LIMIT), board }
    }
}

/// The sizes for one allocator.
#[must_use]
pub fn of_subject(analysis: &Analysis, subject: &'static Subject, program: &Program<'_>, board: &Board) -> Size {
    let Program { limits, align_bytes, trace, is_attacked } = *program;
    let summary = catalogue::summary(analysis, subject);
    let bound = |operation: Operation| {
        let found = summary.operations.iter().find(|other| other.name == operation.name());
        found.and_then(|found| found.bound)
    };
    let mut size = Size {
        subject: subject.name.into(),
        cost: subject.cost.into(),
        pools: pools_for(subject, limits),
        allocate_bound: bound(Operation::Allocate),
        deallocate_bound: bound(Operation::Deallocate),
        theorem: subject.about.guarantee.map(|guarantee| guarantee.theorem().into()),
        ..Size::default()
    };
    if largest_bytes(&[limits]) > subject.reach.request_bytes {
        size.trouble = Some(format!("serves at most {} B", subject.reach.request_bytes));
        return size;
    }
    // A larger alignment counts as a larger request only where there is no header to add.
    let is_covered =
        subject.about.region_for.is_some() && subject.view.is_some_and(|view| view.contract.header_bytes == 0);
    if subject.entries.is_natural(align_bytes) || is_covered {
        size.guaranteed_bytes =
            guaranteed(subject, limits).map(|bytes| bytes as u64).filter(|bytes| is_within_reach(subject, *bytes));
    }
    match if is_attacked { forced(subject, limits) } else { Ok(None) } {
        Ok(forced) => {
            let forced = forced.map(|(bytes, name)| Forced { region_bytes: bytes as u64, adversary: name.into() });
            size.forced = forced;
        }
        Err(error) => size.trouble = Some(error),
    }
    if let Some(trace) = trace {
        let tried_bytes = automatic_heap_bytes(trace.peak_live_bytes);
        let task = trace.task(subject, tried_bytes as usize, board);
        let figures = space::measure(&task, true).figures;
        let smallest = figures.and_then(|figures| figures.smallest_heap_bytes);
        size.measured_bytes = smallest.filter(|bytes| is_within_reach(subject, *bytes));
        if size.measured_bytes.is_none() && subject.largest_heap_bytes() < tried_bytes {
            let most = || format!("its heaps have at most {} B", subject.largest_heap_bytes());
            size.trouble.get_or_insert_with(most);
        }
    }
    size
}

/// Whether a region is within reach of the subject's tags, in C too.
fn is_within_reach(subject: &Subject, region_bytes: u64) -> bool {
    region_bytes.saturating_add(MORE_IN_C) <= subject.largest_heap_bytes()
}

/// The sizes of pools for limits; none unless the allocator's sizes are chosen.
fn pools_for(subject: &Subject, limits: &[Limit]) -> Vec<u64> {
    let sizes = subject.about.sizes_for.map(|sizes_for| sizes_for(&[limits]));
    sizes.unwrap_or_default().into_iter().map(|bytes| bytes as u64).collect()
}

/// Bytes of a region in which no request within the limits is refused; `None` if no guarantee is known.
#[must_use]
pub fn guaranteed(subject: &Subject, limits: &[Limit]) -> Option<usize> {
    let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
    if let Some(region_for) = subject.about.region_for {
        return Some(region_for(&[limits])).filter(|bytes| *bytes != usize::MAX);
    }
    let unit = unit_of(subject).ok()?;
    let block_bytes = subject.about.guarantee?.bytes_within(page_bytes, unit, &[limits])?;
    region_bytes(subject, usize::try_from(block_bytes).ok()?).ok()
}

/// [`may_be_live`] for every allocator, the most first.
///
/// # Errors
///
/// If the system cannot create a process.
pub fn may_be_live_in(
    subjects: &[&'static Subject],
    heap_bytes: usize,
    smallest: usize,
    largest: usize,
    progress: &mut dyn FnMut(Progress<'_>),
) -> anyhow::Result<MayBeLive> {
    let mut rows: Vec<LiveRow> = Vec::new();
    let work = |subject: &'static Subject, _: &Board| may_be_live(subject, heap_bytes, smallest, largest);
    each_in_a_process(subjects, LIMIT, &work, progress, |subject, live| {
        let live_bytes = live.unwrap_or(None).map(|bytes| bytes as u64);
        let theorem = subject.about.guarantee.map(|guarantee| guarantee.theorem().into());
        let limit = live_bytes.map(|live| Limit::live(live as usize, smallest, largest));
        let pools = limit.map_or_else(Vec::new, |limit| pools_for(subject, &[limit]));
        rows.push(LiveRow { subject: subject.name.into(), live_bytes, pools, theorem });
    })?;
    rows.sort_by_key(|row| (std::cmp::Reverse(row.live_bytes), row.subject.clone()));
    let facts = |bytes: usize| bytes as u64;
    Ok(MayBeLive {
        heap_bytes: facts(heap_bytes),
        smallest_bytes: facts(smallest),
        largest_bytes: facts(largest),
        rows,
    })
}

/// The most live requested bytes that a region of `heap_bytes` serves for certain, in requests of `smallest` to
/// `largest` bytes; `None` if no guarantee is known, or not even for one such request.
#[must_use]
pub fn may_be_live(subject: &Subject, heap_bytes: usize, smallest: usize, largest: usize) -> Option<usize> {
    if !is_within_reach(subject, heap_bytes as u64) {
        return None;
    }
    let suffices = |live: usize| {
        guaranteed(subject, &[Limit::live(live, smallest, largest)]).is_some_and(|bytes| bytes <= heap_bytes)
    };
    let (mut enough, mut too_much) = (largest, heap_bytes + 1);
    if !suffices(enough) {
        return None;
    }
    while too_much - enough > 16 {
        let live = enough + (too_much - enough) / 2;
        if suffices(live) { enough = live } else { too_much = live }
    }
    Some(enough)
}

/// Passes the size of every object that becomes live or is freed, a request at a larger alignment than every block has
/// as one of that size. A resize is an allocation followed by a free. Returns the resizes, the requests with a larger
/// alignment, and the largest alignment.
fn each_change(trace: &Path, mut change: impl FnMut(Change)) -> anyhow::Result<(u64, u64, usize)> {
    let mut reader = Reader::open(trace)?;
    let mut sizes: HashMap<u32, u64> = HashMap::new();
    let (mut chunk, mut resizes, mut aligned): (Vec<Event>, u64, u64) = (Vec::new(), 0, 0);
    let mut align_bytes = 1;
    while reader.next_chunk(&mut chunk)? {
        for event in chunk.drain(..) {
            resizes += u64::from(matches!(event.op, Op::Reallocate { .. }));
            let freed = match event.op {
                Op::Allocate { slot, size, align } | Op::Reallocate { slot, size, align } => {
                    aligned += u64::from(align as usize > NATURAL_ALIGN_BYTES);
                    align_bytes = align_bytes.max(align as usize);
                    let size = if align as usize > NATURAL_ALIGN_BYTES { size.max(u64::from(align)) } else { size };
                    change(Change::Live(size));
                    sizes.insert(slot, size)
                }
                Op::Free { slot } => sizes.remove(&slot),
            };
            if let Some(size) = freed {
                change(Change::Freed(size));
            }
        }
    }
    Ok((resizes, aligned, align_bytes))
}

/// An object becomes live, or is freed.
#[derive(Clone, Copy, Debug)]
enum Change {
    Live(u64),
    Freed(u64),
}

/// Limits of a recording: the most live objects in each range of sizes from above a power of two to the next, each
/// increased by a margin in per cent. A resize is an allocation followed by a free, and a
/// request at a larger alignment than every block has counts as one of that size.
///
/// # Errors
///
/// If it cannot be read.
pub fn limits_of(trace: &Path, margin_per_cent: u64) -> anyhow::Result<Recorded> {
    let mut classes: BTreeMap<u32, Class> = BTreeMap::new();
    let (resizes, aligned, align_bytes) = each_change(trace, |change| match change {
        Change::Live(size) => classes.entry(class_of(size)).or_default().take(size),
        Change::Freed(size) => {
            if let Some(class) = classes.get_mut(&class_of(size)) {
                class.live -= 1;
            }
        }
    })?;
    let limit = |class: &Class| {
        let objects = (class.most * (100 + margin_per_cent)).div_ceil(100);
        Limit::between(objects as usize, class.smallest as usize, class.largest as usize)
    };
    Ok(Recorded { limits: classes.values().map(limit).collect(), resizes, aligned, align_bytes })
}

/// How a recording exceeds limits on numbers of objects, if it does: it has more objects live above the largest size of
/// some limit, or below the smallest, than the other limits allow.
///
/// # Errors
///
/// If it cannot be read.
pub fn excess(trace: &Path, limits: &[Limit]) -> anyhow::Result<Option<String>> {
    let allowed = |is_there: &dyn Fn(&Limit) -> bool| {
        limits.iter().filter(|limit| is_there(limit)).map(Limit::objects).fold(0, usize::saturating_add) as u64
    };
    // Whether above or below, the size, the objects allowed, and those that are live.
    let above = limits.iter().map(|limit| limit.largest_bytes() as u64).chain([0]);
    let below = limits.iter().map(|limit| limit.smallest_bytes() as u64);
    let mut marks: Vec<(bool, u64, u64, u64)> = above
        .map(|size| (true, size, allowed(&|limit| limit.largest_bytes() as u64 > size), 0))
        .chain(below.map(|size| (false, size, allowed(&|limit| (limit.smallest_bytes() as u64) < size), 0)))
        .collect();
    let mut found = None;
    each_change(trace, |change| {
        let (size, is_live) = match change {
            Change::Live(size) => (size, true),
            Change::Freed(size) => (size, false),
        };
        for (is_above, mark, allowed, live) in &mut marks {
            if if *is_above { size > *mark } else { size < *mark } {
                *live = if is_live { *live + 1 } else { live.saturating_sub(1) };
                if *live > *allowed && found.is_none() {
                    let side = if *is_above { "more" } else { "less" };
                    found = Some(format!(
                        "the recording has {live} objects of {side} than {mark} B live at a time, and the \
                         limits allow {allowed}"
                    ));
                }
            }
        }
    })?;
    Ok(found)
}

/// What a recording has live.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its limits.
    pub limits: Vec<Limit>,
    /// Its resizes.
    pub resizes: u64,
    /// Its requests at an alignment above [`NATURAL_ALIGN_BYTES`].
    pub aligned: u64,
    /// The largest alignment requested.
    pub align_bytes: usize,
}

/// The number of the range of sizes: from above a power of two to the next.
fn class_of(size: u64) -> u32 {
    size.next_power_of_two().ilog2()
}

/// A range of sizes: live objects now and at most, and the sizes that occur.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    live: u64,
    most: u64,
    smallest: u64,
    largest: u64,
}

impl Class {
    fn take(&mut self, size: u64) {
        self.live += 1;
        self.smallest = if self.most == 0 { size } else { self.smallest.min(size) };
        self.most = self.most.max(self.live);
        self.largest = self.largest.max(size);
    }
}

//! The largest request that an allocator can serve over the operations of a trace, beside the largest one that follows.
//!
//! Where the first is less than the second, memory must become free before that request, or it is refused: the early
//! sign of death by fragmentation, if enough memory is free in pieces. The trace is replayed, so what happened to the
//! request is known, too.
//!
//! The query takes constant time where allocation does. Elsewhere it is linear in the free blocks, and not every
//! operation is followed by one ([`QUERIES`]).

use crate::replay::{Block, Fault, Observer, Replay};
use crate::result::headroom::{Headroom, Point, Refused, Shortfall};
use crate::trace::{Op, Reader, TraceError};
use rtalloc::contract::Cost;
use rtalloc_subjects::{Heap, LargestEntry, Origin, Reach, Refusal, Region, Subject, View, all, similar};
use std::ffi::c_void;
use std::path::Path;

/// Most queries where one is not of constant time.
pub const QUERIES: u64 = 20_000;

/// Most points of the curve.
const POINTS: u64 = 720;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum HeadroomError {
    /// The allocator lacks the query.
    #[error(
        "{name} does not report the largest request that succeeds; every allocator of ours but {} does{}: `rtalloc \
         allocators ours` lists them",
        ours_without_query().join(", "),
        like(name)
    )]
    NoQuery {
        /// Its name.
        name: &'static str,
    },
    /// The heap is too small.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The allocator is broken.
    #[error("the allocator is broken: {0}")]
    Fault(#[from] Fault),
    /// There is no memory for the heap.
    #[error("no memory for a heap of {bytes} bytes")]
    Memory {
        /// Its size.
        bytes: usize,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Whether an allocator has the query.
fn is_asked(subject: &Subject) -> bool {
    subject.view.is_some_and(|view| view.largest.is_some())
}

/// The names of our allocators without it.
fn ours_without_query() -> Vec<&'static str> {
    let is_without = |subject: &&Subject| subject.origin == Origin::Ours && !is_asked(subject);
    all().iter().filter(is_without).map(|subject| subject.name).collect()
}

/// The allocator with the query whose name is the most similar.
fn like(name: &str) -> String {
    let asked = |near: &&str| all().iter().any(|subject| subject.name == *near && is_asked(subject));
    similar(name).into_iter().find(asked).map_or_else(String::new, |near| format!(", such as {near}"))
}

/// Replays a trace on `subject` in a heap of `heap_bytes` bytes. Calls `progress` with the bytes of the file that were
/// read, in two passes.
///
/// # Errors
///
/// [`HeadroomError`].
pub fn headroom(
    trace: &Path,
    subject: &'static Subject,
    heap_bytes: usize,
    progress: &mut dyn FnMut(u64),
) -> Result<Headroom, HeadroomError> {
    let no_query = HeadroomError::NoQuery { name: subject.name };
    let Some((view, largest)) = subject.view.and_then(|view| Some((view, view.largest?))) else {
        return Err(no_query);
    };
    let (events, following) = following(Reader::open(trace)?, subject.reach, progress)?;
    let region = Region::new(heap_bytes, false);
    let mut region = region.map_err(|source| HeadroomError::Memory { bytes: heap_bytes, source })?;
    let heap = Heap::new(subject, &mut region, heap_bytes)?;
    let stride = match view.contract.allocate {
        Cost::Constant => 1,
        _ => events.div_ceil(QUERIES).max(1),
    };
    let mut watch = Watch {
        view,
        largest,
        has_blocks: subject.entries.handles.is_none(),
        context: heap.context,
        natural_align: subject.entries.natural_align_bytes,
        stride,
        width: events.div_ceil(POINTS).next_multiple_of(stride).max(1),
        following,
        request: None,
        fits: Vec::new(),
        points: Vec::new(),
        queries: 0,
        below: 0,
        is_below: false,
        first: None,
        is_resolved: false,
        refusal: None,
    };
    let mut replay = Replay::new();
    let mut reader = Reader::open(trace)?;
    let mut chunk = Vec::new();
    while reader.next_chunk(&mut chunk)? {
        replay.run::<false, _>(&heap, &chunk, &mut watch)?;
        progress(reader.offset_bytes());
    }
    Ok(Headroom {
        allocator: subject.name.into(),
        heap_bytes: heap_bytes as u64,
        stride,
        // Pending compaction of handles may serve a larger request.
        is_exact: view.contract.largest_is_exact && subject.entries.handles.is_none(),
        points: watch.points,
        queries: watch.queries,
        below: watch.below,
        first: watch.first,
        refused: replay.refused(),
        beyond_reach: replay.beyond_reach(),
        refusal: watch.refusal,
    })
}

/// A request that is larger than all that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peak {
    index: u64,
    bytes: u64,
}

/// The number of operations, and the peaks of the requests, the last one first. A reallocation that does not grow its
/// block requests nothing; requests that no heap of this allocator serves are left out.
fn following<R: std::io::Read>(
    mut reader: Reader<R>,
    reach: Reach,
    progress: &mut dyn FnMut(u64),
) -> Result<(u64, Vec<Peak>), TraceError> {
    let mut peaks: Vec<Peak> = Vec::new();
    let mut sizes: Vec<u64> = Vec::new();
    let (mut index, mut events) = (0, Vec::new());
    while reader.next_chunk(&mut events)? {
        for event in &events {
            let request = match event.op {
                Op::Allocate { slot, size, .. } => {
                    if slot as usize >= sizes.len() {
                        sizes.resize(slot as usize + 1, 0);
                    }
                    sizes[slot as usize] = size;
                    Some(size)
                }
                Op::Reallocate { slot, size, .. } => {
                    let old = std::mem::replace(&mut sizes[slot as usize], size);
                    (size > old).then_some(size)
                }
                Op::Free { .. } => None,
            };
            if let Some(bytes) = request.filter(|bytes| *bytes <= reach.request_bytes as u64) {
                while peaks.last().is_some_and(|peak| peak.bytes <= bytes) {
                    peaks.pop();
                }
                peaks.push(Peak { index, bytes });
            }
            index += 1;
        }
        progress(reader.offset_bytes());
    }
    peaks.reverse();
    Ok((index, peaks))
}

/// What is asked of the heap after each operation.
struct Watch {
    view: View,
    largest: LargestEntry,
    /// Whether its walk visits free blocks.
    has_blocks: bool,
    context: *mut c_void,
    natural_align: usize,
    stride: u64,
    /// Operations per point: a multiple of the stride.
    width: u64,
    /// The peaks that are not yet requested, the next one last.
    following: Vec<Peak>,
    /// Size and alignment of the current request, and whether it is a reallocation.
    request: Option<(u64, u64, bool)>,
    /// The queries that no later one reached: operation and bytes, which decrease.
    fits: Vec<(u64, u64)>,
    points: Vec<Point>,
    queries: u64,
    below: u64,
    /// Whether the last query's answer was.
    is_below: bool,
    first: Option<Shortfall>,
    /// Whether the request of the first shortfall was there.
    is_resolved: bool,
    refusal: Option<Refused>,
}

impl Watch {
    /// Resolves the first shortfall, if this operation is its request, and queries the heap.
    #[inline]
    fn after(&mut self, index: u64, is_served: Option<bool>) {
        if self.following.last().is_some_and(|peak| peak.index <= index) {
            self.following.pop();
        }
        if let Some(first) = self.first.as_mut().filter(|_| !self.is_resolved) {
            let requested = self.request.filter(|(bytes, ..)| *bytes == first.follows_bytes);
            // The replay leaves out a reallocation of a block that was refused.
            if requested.is_some() || index == first.request {
                first.request = index;
                first.is_reallocation = requested.is_none_or(|(.., is_reallocation)| is_reallocation);
                first.is_served = is_served;
                self.is_resolved = true;
            }
        }
        if index.is_multiple_of(self.stride) {
            self.query(index);
        }
    }

    fn query(&mut self, index: u64) {
        self.queries += 1;
        // SAFETY: the context is that of a heap of this view's subject, which exists as long as the replay.
        let succeeds_bytes = unsafe { (self.largest)(self.context) } as u64;
        while self.fits.last().is_some_and(|(_, bytes)| *bytes <= succeeds_bytes) {
            self.fits.pop();
        }
        self.fits.push((index, succeeds_bytes));
        let peak = self.following.last().copied();
        let follows_bytes = peak.map_or(0, |peak| peak.bytes);
        match self.points.last_mut() {
            Some(last) if last.operation / self.width == index / self.width => {
                last.succeeds_bytes = last.succeeds_bytes.min(succeeds_bytes);
            }
            _ => self.points.push(Point { operation: index, succeeds_bytes, follows_bytes, falls: 0, refused: 0 }),
        }
        let was_below = std::mem::replace(&mut self.is_below, succeeds_bytes < follows_bytes);
        if self.is_below {
            self.below += 1;
            if let Some(point) = self.points.last_mut().filter(|_| !was_below) {
                point.falls += 1;
            }
            if self.first.is_none() {
                self.first = Some(Shortfall {
                    operation: index,
                    succeeds_bytes,
                    free_bytes: self.has_blocks.then(|| self.free_bytes()),
                    follows_bytes,
                    // The last one of this size, until the first one is there.
                    request: peak.map_or(index, |peak| peak.index),
                    is_reallocation: false,
                    is_served: None,
                });
            }
        }
    }

    fn free_bytes(&self) -> u64 {
        let mut bytes = 0;
        // SAFETY: the context is that of a heap of this view's subject, which exists as long as the replay.
        unsafe {
            (self.view.walk)(self.context, &mut |block| {
                bytes += if block.free { block.usable_bytes as u64 } else { 0 };
            });
        }
        bytes
    }

    /// The last query so far at which a request of `bytes` would have succeeded.
    fn last_fit(&self, bytes: u64) -> Option<u64> {
        let reached = self.fits.partition_point(|(_, largest)| *largest >= bytes);
        Some(self.fits[reached.checked_sub(1)?].0)
    }
}

impl Observer for Watch {
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        self.request = Some((size as u64, align as u64, false));
        // SAFETY: the context belongs to these entry points; the caller promises the rest.
        unsafe { (heap.entries.allocate_at(align))(heap.context, size, align) }
    }

    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        self.request = (new > old).then_some((new as u64, align as u64, true));
        // SAFETY: the context belongs to these entry points; the caller promises the rest.
        unsafe { (heap.entries.reallocate)(heap.context, block, old, align, new) }
    }

    fn before(&mut self, _index: u64) {
        self.request = None;
    }

    fn granted(&mut self, _heap: &Heap<'_>, index: u64, _block: &Block, _old_size: Option<usize>) {
        self.after(index, Some(true));
    }

    fn freed(&mut self, index: u64, _block: &Block) {
        self.after(index, None);
    }

    fn refused(&mut self, index: u64, beyond_reach: bool) {
        if let (None, false, Some((bytes, align, _))) = (self.refusal, beyond_reach, self.request) {
            let last_fit = self.view.contract.largest_covers_smaller.then(|| self.last_fit(bytes)).flatten();
            let align_bytes = (align > self.natural_align as u64).then_some(align);
            self.refusal = Some(Refused { operation: index, bytes, align_bytes, last_fit });
        }
        self.after(index, Some(false));
        // The first operation of each interval is followed by a query, so there is a point.
        if let Some(point) = self.points.last_mut() {
            point.refused += 1;
        }
    }

    fn left_out(&mut self, index: u64) {
        self.after(index, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::NoObserver;
    use crate::trace::{Event, Meta, Origin as Source, SlotTable, TickUnit, Writer};
    use proptest::prelude::*;
    use rtalloc_subjects::one;
    use std::path::PathBuf;

    /// Operations derived from arbitrary numbers.
    fn operations(steps: &[(u8, u16, u16)]) -> Vec<Event> {
        let (mut slots, mut live): (SlotTable, Vec<u64>) = Default::default();
        let mut operation = |(index, (kind, size, choice)): (usize, &(u8, u16, u16))| {
            let size = u64::from(size >> (kind >> 4)) % 3000 + 1;
            let place = usize::from(*choice) % live.len().max(1);
            let op = match (kind % 8, live.get(place).copied()) {
                (0..3, Some(name)) => {
                    live.swap_remove(place);
                    Op::Free { slot: slots.free(name).expect("live") }
                }
                (3, Some(name)) => Op::Reallocate { slot: slots.get(name).expect("live"), size, align: 8 },
                _ => {
                    live.push(index as u64);
                    Op::Allocate { slot: slots.allocate(index as u64).expect("new"), size, align: 8 }
                }
            };
            Event { tick: 0, thread: 0, op }
        };
        steps.iter().enumerate().map(&mut operation).collect()
    }

    fn written(events: &[Event]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.rtrace");
        let meta = Meta {
            name: "t".into(),
            about: "made by a test".into(),
            origin: Source::Program { command: Vec::new() },
            tick_unit: TickUnit::Logical,
            created_unix_seconds: None,
            incomplete: None,
        };
        let mut writer = Writer::create(&path, &meta).expect("a file");
        events.iter().try_for_each(|event| writer.push(event)).expect("valid events");
        writer.finish().expect("written");
        (folder, path)
    }

    /// The largest request after an operation, one by one.
    fn follows(events: &[Event], index: usize) -> u64 {
        let mut sizes = vec![0; events.len()];
        let mut most = 0;
        for (at, event) in events.iter().enumerate() {
            let request = match event.op {
                Op::Allocate { slot, size, .. } => {
                    sizes[slot as usize] = size;
                    size
                }
                Op::Reallocate { slot, size, .. } => {
                    let old = std::mem::replace(&mut sizes[slot as usize], size);
                    if size > old { size } else { 0 }
                }
                Op::Free { .. } => 0,
            };
            most = if at > index { most.max(request) } else { 0 };
        }
        most
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        /// Each answer is compared with an attempt, in a heap on which the operations up to there were performed.
        #[test]
        fn every_answer_is_that_of_an_attempt(
            steps in prop::collection::vec(any::<(u8, u16, u16)>(), 1..60),
            name in prop::sample::select(vec!["tlsf", "half-fit", "first-fit-address", "binary-buddy"]),
        ) {
            const HEAP_BYTES: usize = 16 << 10;
            let events = operations(&steps);
            let (_folder, path) = written(&events);
            let subject = one(name).expect("ours");
            let found = headroom(&path, subject, HEAP_BYTES, &mut |_| {}).expect("a result");
            prop_assert!(found.is_exact && found.stride == 1);
            prop_assert_eq!(found.queries, events.len() as u64);

            let mut region = Region::new(HEAP_BYTES, false).expect("memory");
            let mut fits = |index: usize, bytes: u64| {
                let heap = Heap::new(subject, &mut region, HEAP_BYTES).expect("a heap");
                Replay::new().run::<false, _>(&heap, &events[..=index], &mut NoObserver).expect("no fault");
                // SAFETY: the size is one of the trace's.
                !unsafe { (heap.entries.allocate)(heap.context, bytes as usize, 1) }.is_null()
            };
            let misses: Vec<usize> = (0..events.len())
                .filter(|index| {
                    let bytes = follows(&events, *index);
                    bytes > 0 && !fits(*index, bytes)
                })
                .collect();
            prop_assert_eq!(found.below, misses.len() as u64);
            let falls = misses.iter().filter(|index| **index == 0 || !misses.contains(&(**index - 1)));
            let falls: Vec<u64> = falls.map(|index| *index as u64).collect();
            let marked = found.points.iter().filter(|point| point.falls > 0).map(|point| point.operation);
            prop_assert_eq!(marked.collect::<Vec<_>>(), falls, "each operation is an interval of its own");
            prop_assert_eq!(found.points.iter().map(|point| point.refused).sum::<u64>(), found.refused);
            prop_assert_eq!(found.first.map(|first| first.operation as usize), misses.first().copied());
            if let Some(first) = found.first {
                prop_assert_eq!(first.follows_bytes, follows(&events, first.operation as usize));
                prop_assert!(!fits(first.operation as usize, first.succeeds_bytes + 1));
                prop_assert!(first.succeeds_bytes == 0 || fits(first.operation as usize, first.succeeds_bytes));
                prop_assert!(first.free_bytes.expect("it lists blocks") >= first.succeeds_bytes);
                let size = match events[first.request as usize].op {
                    Op::Allocate { size, .. } | Op::Reallocate { size, .. } => size,
                    Op::Free { .. } => 0,
                };
                prop_assert!(size == first.follows_bytes && first.request > first.operation);
                // An allocation is served if and only if there is room for it just before.
                if !first.is_reallocation {
                    prop_assert_eq!(first.is_served, Some(fits(first.request as usize - 1, size)));
                }
            }
            let refused = (0..events.len()).find(|index| match events[*index].op {
                Op::Allocate { size, .. } => *index > 0 && !fits(index - 1, size),
                _ => false,
            });
            if let Some(refusal) = found.refusal {
                let operation = refusal.operation as usize;
                prop_assert!(refused.is_none_or(|refused| operation <= refused));
                let last = (0..operation).rev().find(|index| fits(*index, refusal.bytes));
                prop_assert_eq!(refusal.last_fit, last.map(|last| last as u64));
            } else {
                prop_assert_eq!(refused, None);
            }
        }
    }

    #[test]
    fn free_memory_in_pieces_is_reported_before_the_refusal() {
        let allocate = |slot, size| Op::Allocate { slot, size, align: 8 };
        // Six blocks nearly fill the heap; every second one is freed, and twice as much as one is requested.
        let ops = (0..6).map(|slot| allocate(slot, 9000)).chain([0, 2, 4].map(|slot| Op::Free { slot }));
        let ops = ops.chain([allocate(4, 64), allocate(2, 18_000)]);
        let events: Vec<Event> = ops.map(|op| Event { tick: 0, thread: 0, op }).collect();
        let (_folder, path) = written(&events);
        let found = headroom(&path, one("tlsf").expect("ours"), 60 << 10, &mut |_| {}).expect("a result");
        let first = found.first.expect("a shortfall");
        assert_eq!((first.request, first.is_served, first.is_reallocation), (10, Some(false), false));
        assert_eq!(first.follows_bytes, 18_000);
        // There was room for it before the fifth block.
        let refusal = found.refusal.expect("a refusal");
        assert_eq!((refusal.operation, refusal.bytes, refusal.align_bytes), (10, 18_000, None));
        assert_eq!(refusal.last_fit, Some(first.operation - 1));
        assert_eq!((found.refused, found.beyond_reach, found.below), (1, 0, 10 - first.operation));
        assert_eq!(found.points.len(), events.len());
        assert_eq!(found.points.last().map(|point| point.follows_bytes), Some(0));
    }

    #[test]
    fn linear_queries_are_asked_less_often() {
        let pair = [Op::Allocate { slot: 0, size: 100, align: 8 }, Op::Free { slot: 0 }];
        let events: Vec<Event> =
            pair.into_iter().cycle().take(50_000).map(|op| Event { tick: 0, thread: 0, op }).collect();
        let (_folder, path) = written(&events);
        let of = |name| headroom(&path, one(name).expect("ours"), 64 << 10, &mut |_| {}).expect("a result");
        let (constant, linear) = (of("tlsf"), of("first-fit-address"));
        assert_eq!((constant.stride, constant.queries, constant.below), (1, 50_000, 0));
        assert_eq!((linear.stride, linear.queries), (3, 50_000_u64.div_ceil(3)));
        assert!(linear.points.len() <= 721 && constant.points.len() <= 720);
    }

    #[test]
    fn an_allocator_without_the_query_is_refused() {
        let (_folder, path) = written(&[]);
        assert_eq!(ours_without_query(), ["pooled-arenas-global"], "and the help of `--on`");
        for without in all().iter().filter(|subject| !is_asked(subject)) {
            let refused = headroom(&path, without, 1 << 20, &mut |_| {}).expect_err("no query").to_string();
            let name = without.name;
            assert!(refused.starts_with(name) && refused.contains("`rtalloc allocators ours`"), "{refused}");
            assert!(name != "rlsf" || refused.contains("such as tlsf"), "{refused}");
            assert!(refused.len() < 200, "{refused}");
        }
    }
}

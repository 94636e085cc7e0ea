//! Memory used: H, F, the curve of H, and the smallest heap that serves the trace.
//!
//! *H* is the highest end address of any block, including its granted size if the allocator reports it, minus the start
//! of the block area; *F* = (H - M) / M, where M is the largest sum of requested sizes of the live blocks of this
//! replay. The replay also verifies, so that figures exist only for an allocator whose blocks do not overlap.
//!
//! *The smallest heap* is searched with a resolution of M/256 (at least 64 bytes): the size returned was verified to
//! serve the whole trace, and one step less to fail. Success is not monotone in the heap's size: an allocator may
//! succeed by luck in an even smaller one; the result is a heap that suffices, not a bound.

use super::{Report, Task};
use crate::replay::whole_trace::{End, outcome};
use crate::replay::{Block, NoObserver, Observer, Replay};
use crate::result::schema::{Curve, Outcome, Space};
use rtalloc_subjects::{Heap, Region};

/// Maximum number of points of the curve of H.
const CURVE_POINTS: u64 = 400;

/// Measures one cell. A subject with its own pages is replayed, and thereby tested, but has no figures.
#[must_use]
pub fn measure(task: &Task<'_>, smallest_heap: bool) -> Report<Space> {
    let mut region = match Region::new(task.heap_bytes, false) {
        Ok(region) => region,
        Err(error) => return Report::broken(format!("no memory for a heap of {} bytes: {error}", task.heap_bytes)),
    };
    let heap = match Heap::new(task.subject, &mut region, task.heap_bytes) {
        Ok(heap) => heap,
        Err(refusal) => return Report::broken(refusal),
    };
    let mut watch = Watch::new(task.events, heap.start);
    let mut replay = Replay::new();
    let end = match task.whole_trace().run::<true, false, _>(&heap, &mut replay, &mut watch) {
        Ok(end) => end,
        Err(error) => return error.into(),
    };
    let outcome = outcome(end, &replay);
    if task.subject.own_pages {
        return Report { outcome, figures: None };
    }
    let (control_bytes, outside_bytes) = (heap.control_bytes(), heap.outside_bytes);
    drop(heap);

    let high_water_bytes = watch.high_water_bytes();
    let peak_live_bytes = watch.peak_live_bytes;
    let mut space = Space {
        high_water_bytes,
        high_water_with_control_bytes: high_water_bytes + control_bytes as u64,
        peak_live_bytes,
        fragmentation: if peak_live_bytes == 0 {
            0.0
        } else {
            (high_water_bytes as f64 - peak_live_bytes as f64) / peak_live_bytes as f64
        },
        smallest_heap_bytes: None,
        used: watch.curve(),
    };
    if smallest_heap && outcome == Outcome::Completed && peak_live_bytes > 0 {
        let search = Search { task, outside_bytes };
        space.smallest_heap_bytes = search.run(&mut region, space.high_water_with_control_bytes);
    }
    Report { outcome, figures: Some(space) }
}

/// Records the addresses of the blocks.
struct Watch {
    start: usize,
    highest_end: usize,
    live_bytes: u64,
    peak_live_bytes: u64,
    /// Operations per point of the curve.
    width: u64,
    curve: Vec<(u64, u64)>,
}

impl Watch {
    fn new(events: u64, start: usize) -> Self {
        let width = events.div_ceil(CURVE_POINTS).max(1);
        Self { start, highest_end: start, live_bytes: 0, peak_live_bytes: 0, width, curve: Vec::new() }
    }

    fn high_water_bytes(&self) -> u64 {
        (self.highest_end - self.start) as u64
    }

    /// H never falls, so the last value in each interval of operations is its maximum.
    #[cold]
    fn raise(&mut self, index: u64, end: usize) {
        self.highest_end = end;
        let high = self.high_water_bytes();
        match self.curve.last_mut() {
            Some(last) if last.0 / self.width == index / self.width => *last = (index, high),
            _ => self.curve.push((index, high)),
        }
    }

    fn curve(self) -> Curve {
        Curve { points: self.curve }
    }
}

impl Observer for Watch {
    #[inline(always)]
    fn granted(&mut self, heap: &Heap<'_>, index: u64, block: &Block, old_size: Option<usize>) {
        self.live_bytes = self.live_bytes + block.size as u64 - old_size.unwrap_or(0) as u64;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        // SAFETY: the block was just granted with this size and alignment.
        let granted_bytes = unsafe { heap.granted_bytes(block.address, block.size, block.align as usize) };
        let end = heap.end_of(block.address, granted_bytes);
        if end > self.highest_end {
            self.raise(index, end);
        }
    }

    #[inline(always)]
    fn freed(&mut self, _index: u64, block: &Block) {
        self.live_bytes -= block.size as u64;
    }
}

/// The search for the smallest heap.
struct Search<'a> {
    task: &'a Task<'a>,
    outside_bytes: usize,
}

/// The result of one heap size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Serves,
    Fails,
    /// The time limit was reached.
    Unknown,
}

impl Search<'_> {
    /// All sizes are in steps.
    fn run(&self, region: &mut Region, guess_bytes: u64) -> Option<u64> {
        let step_bytes = (self.task.peak_live_bytes / 256).max(64);
        // A heap smaller than the largest live memory fails without a trial.
        let hopeless = (self.task.peak_live_bytes - 1) / step_bytes;
        // The last step may be a partial one: a trace can fill its heap to the last byte.
        let given_bytes = (self.task.heap_bytes + self.outside_bytes) as u64;
        let given = given_bytes.div_ceil(step_bytes);
        let bytes = |steps: u64| (steps * step_bytes).min(given_bytes);
        let verdict = |steps: u64| {
            if steps <= hopeless { Verdict::Fails } else { self.verdict(region, bytes(steps)) }
        };

        let guess = guess_bytes.div_ceil(step_bytes).min(given);
        least_that_serves(guess, hopeless, given, verdict).map(bytes)
    }

    /// Whether a heap of this size, including what the subject keeps outside its region, serves the whole trace.
    fn verdict(&self, region: &mut Region, total_bytes: u64) -> Verdict {
        let Some(region_bytes) = (total_bytes as usize).checked_sub(self.outside_bytes) else {
            return Verdict::Fails;
        };
        let Ok(heap) = Heap::new(self.task.subject, region, region_bytes) else {
            return Verdict::Fails;
        };
        match self.task.whole_trace().run::<false, true, _>(&heap, &mut Replay::new(), &mut NoObserver) {
            Ok(End::Completed) => Verdict::Serves,
            Ok(End::Refused) | Err(_) => Verdict::Fails,
            Ok(End::TimedOut) => Verdict::Unknown,
        }
    }
}

/// Gallops from a first guess to two sizes one step apart, of which the smaller fails and the larger succeeds; returns
/// the larger. `hopeless` is known to fail, and nothing above `most` is tried; `None` if no size succeeds or the time
/// limit is reached.
pub(super) fn least_that_serves(
    guess: u64,
    hopeless: u64,
    most: u64,
    mut verdict: impl FnMut(u64) -> Verdict,
) -> Option<u64> {
    let mut stride = 1;
    let (mut fails, mut serves);
    match verdict(guess) {
        Verdict::Unknown => return None,
        Verdict::Serves => {
            serves = guess;
            fails = loop {
                let lower = serves.saturating_sub(stride).max(hopeless);
                match verdict(lower) {
                    Verdict::Unknown => return None,
                    Verdict::Serves => serves = lower,
                    Verdict::Fails => break lower,
                }
                stride *= 2;
            };
        }
        Verdict::Fails => {
            fails = guess;
            serves = loop {
                if fails >= most {
                    return None;
                }
                let higher = (fails + stride).min(most);
                match verdict(higher) {
                    Verdict::Unknown => return None,
                    Verdict::Serves => break higher,
                    Verdict::Fails => fails = higher,
                }
                stride *= 2;
            };
        }
    }
    while serves - fails > 1 {
        let middle = fails + (serves - fails) / 2;
        match verdict(middle) {
            Verdict::Unknown => return None,
            Verdict::Serves => serves = middle,
            Verdict::Fails => fails = middle,
        }
    }
    Some(serves)
}

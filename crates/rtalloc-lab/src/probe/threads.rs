//! Threads on a shared heap: time of every operation, and memory.
//!
//! Each operation is timed by the thread that performs it, excluding all work of the replay. There is no voting as in
//! [`cycles`](super::cycles): no two replays of several threads are the same, and interference between threads is what
//! is measured. All samples of all replays are used.

use super::cycles::{Clock, ticks};
use super::space::{Verdict, least_that_serves};
use super::{Report, Samples};
use crate::replay::threaded::{Kind, Parameters, Summary, ThreadedError, Verified, Verifying, Watch, run, serves};
use crate::result::schema::Outcome;
use crate::result::threads::{ThreadedSpace, ThreadedTime};
use rtalloc_subjects::Region;
use rtalloc_subjects::shared::{SharedHeap, SharedSubject};

/// One shared subject on one trace, to be measured.
#[derive(Clone, Copy, Debug)]
pub struct ThreadedTask<'a> {
    /// The replay.
    pub parameters: Parameters<'a>,
    /// M of the trace, of all copies together.
    pub peak_live_bytes: u64,
    /// The allocator.
    pub subject: &'static SharedSubject,
    /// Bytes of the region given.
    pub heap_bytes: usize,
}

impl ThreadedTask<'_> {
    fn region(&self, touched: bool) -> Result<Region, String> {
        Region::new(self.heap_bytes, touched && !self.subject.own_pages)
            .map_err(|error| format!("no memory for a heap of {} bytes: {error}", self.heap_bytes))
    }

    /// Creates a heap, lets threads replay the trace on it, and verifies it at the end.
    fn replay<W: Watch>(&self, region: &mut Region, watches: Vec<W>) -> Result<(Summary, Vec<W>), String> {
        let users = self.parameters.users();
        let mut heap =
            SharedHeap::new(self.subject, region, self.heap_bytes, users).map_err(|error| error.to_string())?;
        let result = run(self.parameters, &heap, watches).map_err(|error: ThreadedError| error.to_string())?;
        heap.check().map_err(|what| format!("the heap is corrupt after all threads finished: {what}"))?;
        Ok(result)
    }

    fn outcome(&self, summary: &Summary) -> Outcome {
        let copies = u64::from(self.parameters.copies);
        match summary.first_refused {
            _ if summary.timed_out => Outcome::TimedOut { at: summary.operations / copies },
            Some(first) => Outcome::Failures {
                failed: summary.refused.total(),
                first: first / copies,
                beyond_reach: summary.beyond_reach,
            },
            None => Outcome::Completed,
        }
    }
}

/// Times every operation of one thread.
#[derive(Default)]
struct Timing {
    overhead: u64,
    last: u64,
    /// By kind.
    samples: [Samples; 4],
}

impl Watch for Timing {
    #[inline(always)]
    fn call<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let before = ticks();
        let result = operation();
        let after = ticks();
        // After a migration of the thread, the new processor's counter may lag behind the old one's.
        self.last = after.saturating_sub(before);
        result
    }

    #[inline(always)]
    fn done(&mut self, kind: Kind) {
        self.samples[kind as usize].add(self.last.saturating_sub(self.overhead));
    }
}

/// Times a cell, over the given number of replays.
#[must_use]
pub fn time(task: &ThreadedTask<'_>, clock: Clock, replays: u32) -> Report<ThreadedTime> {
    let mut samples: [Samples; 4] = Default::default();
    let mut time = ThreadedTime { replays, ..ThreadedTime::default() };
    let mut worst = Outcome::Completed;
    let (mut waits, mut done) = (0, 0);
    for _ in 0..replays {
        let timing = || Timing { overhead: clock.overhead_ticks, ..Timing::default() };
        let watches = (0..task.parameters.users()).map(|_| timing()).collect();
        let made = task.region(true).and_then(|mut region| task.replay(&mut region, watches));
        let (summary, watches) = match made {
            Ok(result) => result,
            Err(what) => return Report::broken(what),
        };
        for watch in &watches {
            samples.iter_mut().zip(&watch.samples).for_each(|(all, of_thread)| all.merge(of_thread));
        }
        time.refused += summary.refused;
        waits += summary.waits;
        done += 1;
        let outcome = task.outcome(&summary);
        if worst == Outcome::Completed || summary.timed_out {
            worst = outcome;
        }
        if summary.timed_out {
            break;
        }
    }
    [time.allocate, time.free, time.foreign_free, time.reallocate] = samples.map(|samples| samples.distribution());
    time.replays = done;
    time.waits = waits / u64::from(done.max(1));
    Report { outcome: worst, figures: Some(time) }
}

/// Measures the memory of a cell, and verifies every block.
#[must_use]
pub fn space(task: &ThreadedTask<'_>) -> Report<ThreadedSpace> {
    match verified(task) {
        Ok(report) => report,
        Err(what) => Report::broken(what),
    }
}

fn verified(task: &ThreadedTask<'_>) -> Result<Report<ThreadedSpace>, String> {
    let mut region = task.region(false)?;
    let start = if task.subject.own_pages { 0 } else { region.start() as usize };
    let verified = Verified::new(start, start + task.heap_bytes);
    let (summary, _) = task.replay(&mut region, vec![Verifying(&verified); task.parameters.users()])?;
    let peak_live_bytes = verified.peak_live_bytes();
    let outcome = task.outcome(&summary);
    let smallest_heap_bytes = if task.subject.own_pages || matches!(outcome, Outcome::TimedOut { .. }) {
        None
    } else {
        smallest(task, &mut region)
    };
    let figures = ThreadedSpace { peak_live_bytes, smallest_heap_bytes, refused: summary.refused };
    Ok(Report { outcome, figures: Some(figures) })
}

/// The smallest heap that serves the trace in its recorded order, with the resolution of [`super::space`]; `None` if
/// the region does not, or the time ran out.
pub fn smallest(task: &ThreadedTask<'_>, region: &mut Region) -> Option<u64> {
    let step_bytes = (task.peak_live_bytes / 256).max(64);
    let given_bytes = task.heap_bytes as u64;
    let given = given_bytes.div_ceil(step_bytes);
    let hopeless = task.peak_live_bytes.saturating_sub(1) / step_bytes;
    let bytes = |steps: u64| (steps * step_bytes).min(given_bytes);
    let verdict = |steps: u64| {
        if steps <= hopeless {
            return Verdict::Fails;
        }
        match SharedHeap::new(task.subject, region, bytes(steps) as usize, task.parameters.users()) {
            Err(_) => Verdict::Fails,
            Ok(heap) => match serves(task.parameters, &heap) {
                Ok(Some(true)) => Verdict::Serves,
                Ok(Some(false)) | Err(_) => Verdict::Fails,
                Ok(None) => Verdict::Unknown,
            },
        }
    };
    let guess = (task.peak_live_bytes * 3 / 2).div_ceil(step_bytes).min(given);
    least_that_serves(guess, hopeless, given, verdict).map(bytes)
}

//! A/B comparison: two allocators on the same trace in one process, alternating.
//!
//! Separate processes that run one after the other see different machine conditions: on a virtual machine the clock
//! rate alone varies by half. Here each *round* replays the trace on both allocators, in fresh heaps in one prefaulted
//! region, once with every operation timed and once with none; the starting allocator alternates from round to round.
//! Each operation's figure is its minimum over the rounds, because disturbances only add time; the untimed replay's
//! figure is the median, and the ratio is taken within each round.

use super::cells::{CampaignError, survey_of};
use crate::probe::cycles::{Clock, empty_ticks, pin_to_last_processor, ticks};
use crate::replay::isolate::{Board, Child, Job, Progress, decode, run_all};
use crate::replay::settings::automatic_heap_bytes;
use crate::replay::whole_trace::Noted;
use crate::replay::{Fault, NoObserver, Observer, Replay};
use crate::result::comparison::{Comparison, Comparisons, Figures, Side, TraceComparisons};
use crate::result::schema::Environment;
use crate::trace::{Event, Op, Reader};
use rtalloc_subjects::{Heap, Region, Subject};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Minimum number of rounds, however long they take. All round counts are even, so that each allocator starts equally
/// often.
const LEAST_ROUNDS: usize = 2;
/// Maximum number of rounds, however much time is left: the minimum hardly improves with more.
const MOST_ROUNDS: usize = 400;
/// Empty measurements per round. The timer's cost in ticks depends on the processor's clock rate just as an operation's
/// does, so its minimum is taken over the same rounds.
const EMPTY_MEASUREMENTS: usize = 1000;
/// Processor time a pair may use beyond its budget, to complete the minimum number of rounds on a long trace.
const GRACE: Duration = Duration::from_secs(120);

/// Two allocators.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The first allocator.
    pub first: &'static Subject,
    /// The second allocator, the baseline.
    pub second: &'static Subject,
}

/// Limits of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of the region; `None` selects them from the trace ([`automatic_heap_bytes`]).
    pub heap_bytes: Option<u64>,
    /// Time for the rounds of one pair on one trace.
    pub budget: Duration,
}

/// Measures every pair on every trace. Each pair runs in a process of its own, one at a time. The calling process
/// should be single-threaded: it forks.
///
/// # Errors
///
/// If a trace cannot be read, or the system cannot create a process.
pub fn measure(
    pairs: &[Pair],
    traces: &[PathBuf],
    settings: &Settings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Comparisons, CampaignError> {
    let begun = Instant::now();
    let environment = Environment::here(Clock::calibrate());
    // Before the first measurement, so that an invalid trace is rejected at once.
    let surveys = traces.iter().map(|path| survey_of(path)).collect::<Result<Vec<_>, _>>()?;
    let (mut done, total) = (0, (pairs.len() * traces.len()) as u64);
    progress(Progress { done, total, last: "" });
    let mut results = Vec::new();
    for (path, survey) in traces.iter().zip(&surveys) {
        let totals = &survey.totals;
        let heap_bytes = settings.heap_bytes.unwrap_or_else(|| automatic_heap_bytes(totals.peak_live_bytes));
        let bout = Bout {
            events: &events_of(path)?,
            slots: totals.slots as usize,
            heap_bytes: heap_bytes as usize,
            budget: settings.budget,
        };
        let spawn = |pair: Pair| move || Child::spawn(|board| bout.of_pair(pair, board));
        let limit = settings.budget + GRACE;
        let jobs = pairs.iter().map(|pair| Job { spawn: Box::new(spawn(*pair)), limit }).collect();
        let mut comparisons = Vec::new();
        run_all(jobs, 1, |number, result| {
            let Pair { first, second } = pairs[number];
            let outcome = decode(result).unwrap_or_else(|death| Err(death.to_string()));
            comparisons.push(Comparison { first: first.name.into(), second: second.name.into(), outcome });
            done += 1;
            let last = format!("{} / {} against {}", survey.meta.name, first.name, second.name);
            progress(Progress { done, total, last: &last });
        })
        .map_err(|source| CampaignError::System { action: "run a pair in a process of its own", source })?;
        results.push(TraceComparisons { trace: survey.facts(), heap_bytes, comparisons });
    }
    Ok(Comparisons { environment, traces: results, seconds: begun.elapsed().as_secs_f64() })
}

/// All events of a trace, in memory: a round must not wait for a file.
fn events_of(path: &Path) -> Result<Vec<Event>, CampaignError> {
    let read = || {
        let mut reader = Reader::open(path)?;
        let (mut events, mut chunk) = (Vec::new(), Vec::new());
        while reader.next_chunk(&mut chunk)? {
            events.extend_from_slice(&chunk);
        }
        Ok(events)
    };
    read().map_err(|source| CampaignError::Trace { path: path.into(), source })
}

/// The data shared by all pairs on a trace.
#[derive(Clone, Copy, Debug)]
struct Bout<'a> {
    events: &'a [Event],
    slots: usize,
    heap_bytes: usize,
    budget: Duration,
}

impl Bout<'_> {
    /// Measures a pair in this process.
    fn of_pair(&self, pair: Pair, board: &Board) -> Result<Figures, String> {
        pin_to_last_processor();
        let region = Region::new(self.heap_bytes, true);
        let mut region =
            region.map_err(|error| format!("no memory for a heap of {} bytes: {error}", self.heap_bytes))?;
        let subjects = [pair.first, pair.second];
        for subject in subjects {
            self.try_out(subject, &mut region, board).map_err(|what| format!("{} {what}", subject.name))?;
        }
        let mut sides = [(); 2].map(|()| Series::new(self.events.len()));
        let begun = Instant::now();
        let (mut rounds, mut timer_ticks) = (0, u64::MAX);
        while rounds < LEAST_ROUNDS || (rounds < MOST_ROUNDS && begun.elapsed() < self.budget) {
            for order in [[0, 1], [1, 0]] {
                timer_ticks = timer_ticks.min(empty_ticks(EMPTY_MEASUREMENTS));
                for who in order {
                    let mut least = Least { ticks: &mut sides[who].least_ticks, at: 0 };
                    self.replay(subjects[who], &mut region, &mut least)?;
                }
                for who in order {
                    let time = self.replay(subjects[who], &mut region, &mut NoObserver)?;
                    sides[who].seconds.push(time.as_secs_f64());
                }
                rounds += 1;
            }
        }
        let ratios = sides[0].seconds.iter().zip(&sides[1].seconds).map(|(first, second)| first / second).collect();
        let [first, second] = sides.map(|series| self.side(series, timer_ticks));
        Ok(Figures { rounds: rounds as u64, timer_ticks, first, second, replay_ratio_quartiles: quartiles(ratios) })
    }

    /// Replays once and verifies every block; a pair with refused requests is not compared.
    fn try_out(&self, subject: &Subject, region: &mut Region, board: &Board) -> Result<(), String> {
        let heap = Heap::new(subject, region, self.heap_bytes).map_err(|refusal| format!("gets {refusal}"))?;
        let mut replay = Replay::with_slots(self.slots);
        let verified = replay.run::<true, _>(&heap, self.events, &mut Noted { board, observer: &mut NoObserver });
        verified.map_err(|fault| format!("is broken: {fault}"))?;
        let Some(first) = replay.first_refused() else { return Ok(()) };
        let is_largest = self.heap_bytes as u64 >= subject.largest_heap_bytes();
        let remedy = if replay.beyond_reach() > 0 || is_largest {
            "no heap serves them all"
        } else {
            "a larger --heap may serve them"
        };
        Err(format!("refused {} of {} operations, the first at {first}; {remedy}", replay.refused(), self.events.len()))
    }

    /// Replays on a fresh heap; returns the time of the replay alone.
    fn replay<O: Observer>(
        &self,
        subject: &Subject,
        region: &mut Region,
        observer: &mut O,
    ) -> Result<Duration, String> {
        let formatted = |what: &dyn std::fmt::Display| format!("{}: {what}", subject.name);
        let heap = Heap::new(subject, region, self.heap_bytes).map_err(|refusal| formatted(&refusal))?;
        let mut replay = Replay::with_slots(self.slots);
        let begun = Instant::now();
        replay.run::<false, _>(&heap, self.events, observer).map_err(|fault: Fault| formatted(&fault))?;
        Ok(begun.elapsed())
    }

    fn side(&self, series: Series, timer_ticks: u64) -> Side {
        let mean = |of: fn(&Op) -> bool| {
            let chosen = self.events.iter().zip(&series.least_ticks).filter(|(event, _)| of(&event.op));
            let (count, sum) = chosen.fold((0_u64, 0_u64), |(count, sum), (_, ticks)| {
                (count + 1, sum + u64::from(*ticks).saturating_sub(timer_ticks))
            });
            (count > 0).then(|| sum as f64 / count as f64)
        };
        Side {
            allocate_ticks: mean(|op| matches!(op, Op::Allocate { .. })),
            free_ticks: mean(|op| matches!(op, Op::Free { .. })),
            replay_nanoseconds: quartiles(series.seconds)[1] * 1e9 / self.events.len().max(1) as f64,
        }
    }
}

/// The measurements of one allocator of a pair.
struct Series {
    /// By operation: the minimum over the rounds, timer overhead included.
    least_ticks: Vec<u32>,
    /// By round: the untimed replay.
    seconds: Vec<f64>,
}

impl Series {
    fn new(operations: usize) -> Self {
        Self { least_ticks: vec![u32::MAX; operations], seconds: Vec::new() }
    }
}

/// Keeps the minimum ticks of each allocation and free.
struct Least<'a> {
    ticks: &'a mut [u32],
    at: usize,
}

impl Least<'_> {
    #[inline(always)]
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let before = ticks();
        let result = call();
        let after = ticks();
        let taken = after.wrapping_sub(before).min(u64::from(u32::MAX)) as u32;
        let least = &mut self.ticks[self.at];
        *least = taken.min(*least);
        result
    }
}

impl Observer for Least<'_> {
    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        self.time(|| unsafe { (heap.entries.allocate_at(align))(heap.context, size, align) })
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        self.time(|| unsafe { (heap.entries.deallocate)(heap.context, block, size, align) });
    }

    #[inline(always)]
    fn before(&mut self, index: u64) {
        self.at = index as usize;
    }
}

/// Lower quartile, median and upper quartile, interpolated between two values if necessary; zeros for an empty input.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [0.25, 0.5, 0.75].map(|share| {
        let place = share * values.len().saturating_sub(1) as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        let value = |at: usize| values.get(at).copied().unwrap_or(0.0);
        value(below) + (value(above) - value(below)) * place.fract()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Model;
    use rtalloc_subjects;

    fn pair(first: &str, second: &str) -> Pair {
        let [first, second] = [first, second].map(|name| rtalloc_subjects::one(name).expect("a name of the table"));
        Pair { first, second }
    }

    /// Compares a pair on a model, for a short time.
    fn measured(pair: Pair, words: &str, heap_bytes: Option<u64>) -> Result<Figures, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        Model::parse(words).expect("a model").write_to(1, file.path()).expect("written");
        let settings = Settings { heap_bytes, budget: Duration::from_millis(500) };
        let traces = [file.path().to_path_buf()];
        let comparisons = measure(&[pair], &traces, &settings, &mut |_| {}).expect("measured");
        comparisons.traces[0].comparisons[0].outcome.clone()
    }

    #[test]
    fn an_allocator_is_as_fast_as_itself() {
        let figures = measured(pair("tlsf", "tlsf"), "p2 --mallocs 5000", None).expect("figures");
        assert!(figures.rounds > LEAST_ROUNDS as u64 && figures.rounds.is_multiple_of(2), "{figures:?}");
        // Minima over alternating rounds differ by a few per cent; a fifth allows for a machine that also runs other
        // tests. The whole replay includes every interruption.
        for ratio in [figures.allocate_ratio(), figures.free_ratio()] {
            assert!(ratio.is_some_and(|ratio| (0.8..1.25).contains(&ratio)), "{figures:?}");
        }
        assert!((0.5..2.0).contains(&figures.replay_ratio()), "{figures:?}");
        let [lower, median, upper] = figures.replay_ratio_quartiles;
        assert!(lower <= median && median <= upper, "{figures:?}");
    }

    #[test]
    fn a_search_of_a_long_list_is_slower() {
        let figures = measured(pair("linked-list", "tlsf"), "uniform --mallocs 5000", None).expect("figures");
        assert!(figures.allocate_ratio().is_some_and(|ratio| ratio > 2.0), "{figures:?}");
        assert!(figures.replay_ratio() > 1.5, "{figures:?}");
        assert!(figures.first.replay_nanoseconds > figures.second.replay_nanoseconds, "{figures:?}");
    }

    #[test]
    fn an_allocator_that_refuses_is_named_and_not_compared() {
        let refusal = measured(pair("tlsf", "linked-list"), "uniform --mallocs 5000", Some(64 << 10));
        let what = refusal.expect_err("too small");
        assert!(what.starts_with("tlsf refused ") && what.ends_with("a larger --heap may serve them"), "{what}");
    }

    #[test]
    fn quartiles_lie_between_values() {
        assert_eq!(quartiles(vec![5.0, 1.0, 3.0, 2.0, 4.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(vec![1.0, 2.0]), [1.25, 1.5, 1.75]);
        assert_eq!(quartiles(Vec::new()), [0.0; 3]);
    }
}

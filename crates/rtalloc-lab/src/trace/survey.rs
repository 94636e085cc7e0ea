//! Statistics of a trace that need no allocator, in one streaming pass.

use super::{Event, Meta, Op, Reader, Totals, TraceError};
use crate::result::schema::{Curve, TraceFacts};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::Read;

/// Most points of [`Survey::live`].
const CURVE_POINTS: usize = 400;

/// Statistics of a trace that need no allocator.
///
/// Counts, sums, means, minima, maxima and histograms are exact. Quantiles are exact below 2,048 and within 0.1 %
/// above.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Survey {
    /// The trace's metadata.
    pub meta: Meta,
    /// Its verified sums.
    pub totals: Totals,
    /// CRC-32 of the events, independent of their compression: equal for equal events.
    pub fingerprint_crc32: u32,
    /// Tick of the first event.
    pub first_tick: u64,
    /// Tick of the last event.
    pub last_tick: u64,
    /// Requested sizes of allocations, bytes.
    pub sizes: Spread,
    /// Allocations of at most 512 bytes.
    pub sizes_at_most_512: u64,
    /// Requested sizes of allocations, by powers of two.
    pub size_histogram: Vec<Bin>,
    /// Requested alignments of allocations: (alignment in bytes, allocations), increasing.
    pub alignments: Vec<(u32, u64)>,
    /// Live memory over the index of the operation: at most 400 points, each the maximum of its interval; the last
    /// point is the state at the end.
    pub live: Curve,
    /// Live memory at the end, bytes.
    pub live_bytes_at_end: u64,
    /// Lifetimes of blocks.
    pub lifetimes: Lifetimes,
    /// One entry per thread, in the order of its number.
    pub threads: Vec<ThreadFacts>,
    /// Frees by another thread than the one that allocated.
    pub cross_thread_frees: u64,
    /// Requested sizes of reallocations.
    pub reallocations: Reallocations,
}

impl Survey {
    /// The facts of the trace, as stored in results.
    #[must_use]
    pub fn facts(&self) -> TraceFacts {
        TraceFacts {
            name: self.meta.name.clone(),
            about: self.meta.about.clone(),
            allocations: self.totals.allocations,
            frees: self.totals.frees,
            reallocations: self.totals.reallocations,
            threads: self.totals.threads,
            peak_live_bytes: self.totals.peak_live_bytes,
            peak_live_blocks: self.totals.peak_live_blocks,
            largest_request_bytes: self.totals.largest_request_bytes,
            live: self.live.clone(),
        }
    }
}

/// Statistics of a distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Values.
    pub count: u64,
    /// Smallest value, exact.
    pub min: u64,
    /// Mean, exact up to rounding.
    pub mean: f64,
    /// Tenth percentile.
    pub p10: u64,
    /// Median.
    pub p50: u64,
    /// Ninetieth percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest value, exact.
    pub max: u64,
}

/// A bin of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Smallest value of the bin.
    pub from: u64,
    /// Largest value of the bin.
    pub to: u64,
    /// Values in it.
    pub count: u64,
}

/// Lifetimes of blocks; a reallocated block continues to live.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lifetimes {
    /// Number of freed blocks; the distributions are of these.
    pub freed: u64,
    /// Blocks still live at the end.
    pub never_freed: u64,
    /// Lifetime in operations of the whole trace: 1 where the free directly follows the allocation.
    pub operations: Spread,
    /// The same by powers of two.
    pub operations_histogram: Vec<Bin>,
    /// Lifetime in ticks.
    pub ticks: Spread,
    /// The same by powers of two.
    pub ticks_histogram: Vec<Bin>,
}

/// Statistics of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFacts {
    /// Its allocations.
    pub allocations: u64,
    /// Its frees.
    pub frees: u64,
    /// Its reallocations.
    pub reallocations: u64,
    /// Those of its frees whose block another thread had allocated.
    pub frees_of_others: u64,
}

impl ThreadFacts {
    /// Operations of every kind.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.allocations + self.frees + self.reallocations
    }
}

/// Requested sizes of reallocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reallocations {
    /// To a larger size.
    pub grown: u64,
    /// To a smaller size.
    pub shrunk: u64,
    /// To the same size.
    pub unchanged: u64,
    /// Total bytes added by growth.
    pub grown_bytes: u64,
    /// Total bytes given up by shrinking.
    pub shrunk_bytes: u64,
}

/// Surveys a trace.
///
/// # Errors
///
/// Errors of [`Reader::next_chunk`].
///
/// # Time
///
/// Linear in the trace; memory proportional to the largest number of live blocks.
pub fn survey<R: Read>(reader: Reader<R>) -> Result<Survey, TraceError> {
    survey_with(reader, |_| ())
}

/// As [`survey`]; after every chunk `progress` is called with the bytes of the file read so far.
///
/// # Errors
///
/// Errors of [`Reader::next_chunk`].
pub fn survey_with<R: Read>(mut reader: Reader<R>, mut progress: impl FnMut(u64)) -> Result<Survey, TraceError> {
    let mut surveyor = Surveyor::default();
    let mut events = Vec::new();
    while reader.next_chunk(&mut events)? {
        for event in &events {
            surveyor.note(event);
        }
        progress(reader.offset_bytes());
    }
    let totals = reader.totals().expect("totals are known at the end").clone();
    Ok(surveyor.finish(reader.meta().clone(), totals))
}

/// CRC-32 of events in a fixed-width encoding: equal for equal events, independent of compression.
#[derive(Clone, Default)]
pub struct Fingerprint {
    checksum: crc32fast::Hasher,
}

impl Fingerprint {
    /// Adds the next event.
    pub fn note(&mut self, event: &Event) {
        let (kind, slot, size, align) = match event.op {
            Op::Allocate { slot, size, align } => (0u8, slot, size, align),
            Op::Free { slot } => (1, slot, 0, 0),
            Op::Reallocate { slot, size, align } => (2, slot, size, align),
        };
        let mut bytes = [0; 29];
        bytes[0] = kind;
        bytes[1..5].copy_from_slice(&slot.to_le_bytes());
        bytes[5..13].copy_from_slice(&size.to_le_bytes());
        bytes[13..17].copy_from_slice(&align.to_le_bytes());
        bytes[17..25].copy_from_slice(&event.tick.to_le_bytes());
        bytes[25..29].copy_from_slice(&event.thread.to_le_bytes());
        self.checksum.update(&bytes);
    }

    /// The CRC-32 of all events so far.
    #[must_use]
    pub fn crc32(&self) -> u32 {
        self.checksum.clone().finalize()
    }
}

/// A live block.
#[derive(Clone, Copy, Default)]
struct Block {
    size: u64,
    born_index: u64,
    born_tick: u64,
    thread: u32,
}

/// The pass over the events; relies on the rules that [`Reader`] enforces.
#[derive(Default)]
struct Surveyor {
    fingerprint: Fingerprint,
    first_tick: Option<u64>,
    last_tick: u64,
    index: u64,
    blocks: Vec<Block>,
    live_bytes: u64,
    curve: CurveBuilder,
    sizes: SpreadBuilder,
    sizes_at_most_512: u64,
    alignments: [u64; 32],
    life_operations: SpreadBuilder,
    life_ticks: SpreadBuilder,
    threads: Vec<ThreadFacts>,
    reallocations: Reallocations,
}

impl Surveyor {
    fn note(&mut self, event: &Event) {
        self.fingerprint.note(event);
        self.first_tick.get_or_insert(event.tick);
        self.last_tick = event.tick;
        let thread_index = event.thread as usize;
        if thread_index == self.threads.len() {
            self.threads.push(ThreadFacts::default());
        }
        let thread = &mut self.threads[thread_index];
        match event.op {
            Op::Allocate { slot, size, align } => {
                let block = Block { size, born_index: self.index, born_tick: event.tick, thread: event.thread };
                match self.blocks.get_mut(slot as usize) {
                    Some(place) => *place = block,
                    None => self.blocks.push(block),
                }
                self.live_bytes += size;
                self.sizes.note(size);
                self.sizes_at_most_512 += u64::from(size <= 512);
                self.alignments[align.trailing_zeros() as usize] += 1;
                thread.allocations += 1;
            }
            Op::Free { slot } => {
                let block = self.blocks[slot as usize];
                self.live_bytes -= block.size;
                self.life_operations.note(self.index - block.born_index);
                self.life_ticks.note(event.tick - block.born_tick);
                thread.frees += 1;
                thread.frees_of_others += u64::from(block.thread != event.thread);
            }
            Op::Reallocate { slot, size, .. } => {
                let block = &mut self.blocks[slot as usize];
                let before = std::mem::replace(&mut block.size, size);
                self.live_bytes = self.live_bytes - before + size;
                match size.cmp(&before) {
                    std::cmp::Ordering::Greater => {
                        self.reallocations.grown += 1;
                        self.reallocations.grown_bytes += size - before;
                    }
                    std::cmp::Ordering::Less => {
                        self.reallocations.shrunk += 1;
                        self.reallocations.shrunk_bytes += before - size;
                    }
                    std::cmp::Ordering::Equal => self.reallocations.unchanged += 1,
                }
                thread.reallocations += 1;
            }
        }
        self.curve.note(self.index, self.live_bytes);
        self.index += 1;
    }

    fn finish(self, meta: Meta, totals: Totals) -> Survey {
        let (sizes, size_histogram) = self.sizes.finish();
        let (operations, operations_histogram) = self.life_operations.finish();
        let (ticks, ticks_histogram) = self.life_ticks.finish();
        Survey {
            fingerprint_crc32: self.fingerprint.crc32(),
            first_tick: self.first_tick.unwrap_or(0),
            last_tick: self.last_tick,
            sizes,
            sizes_at_most_512: self.sizes_at_most_512,
            size_histogram,
            alignments: (0..32).map(|place| (1 << place, self.alignments[place])).filter(|&(_, n)| n > 0).collect(),
            live: self.curve.finish(),
            live_bytes_at_end: self.live_bytes,
            lifetimes: Lifetimes {
                freed: totals.frees,
                never_freed: totals.allocations - totals.frees,
                operations,
                operations_histogram,
                ticks,
                ticks_histogram,
            },
            cross_thread_frees: self.threads.iter().map(|thread| thread.frees_of_others).sum(),
            threads: self.threads,
            reallocations: self.reallocations,
            meta,
            totals,
        }
    }
}

/// Computes a [`Spread`] and its power-of-two histogram.
struct SpreadBuilder {
    quantiles: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
    /// Values by their bit length: 0, 1, 2..=3, 4..=7, ...
    by_bit_length: [u64; 65],
}

impl Default for SpreadBuilder {
    fn default() -> Self {
        Self {
            quantiles: Histogram::new(3).expect("three digits are within the histogram's range"),
            sum: 0,
            min: u64::MAX,
            max: 0,
            by_bit_length: [0; 65],
        }
    }
}

impl SpreadBuilder {
    fn note(&mut self, value: u64) {
        // Grows automatically; a value beyond its maximum counts as the maximum.
        if self.quantiles.record(value).is_err() {
            self.quantiles.saturating_record(value);
        }
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.by_bit_length[(64 - value.leading_zeros()) as usize] += 1;
    }

    fn finish(self) -> (Spread, Vec<Bin>) {
        let count = self.quantiles.len();
        if count == 0 {
            return (Spread::default(), Vec::new());
        }
        // The histogram returns the upper edge of a cell, which may lie beyond the largest value.
        let quantile = |share| self.quantiles.value_at_quantile(share).clamp(self.min, self.max);
        let spread = Spread {
            count,
            min: self.min,
            mean: self.sum as f64 / count as f64,
            p10: quantile(0.1),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: self.max,
        };
        let first = self.by_bit_length.iter().position(|&count| count > 0).unwrap_or(0);
        let last = self.by_bit_length.iter().rposition(|&count| count > 0).unwrap_or(0);
        let bins = (first..=last)
            .map(|length| Bin {
                from: if length == 0 { 0 } else { 1 << (length - 1) },
                to: if length == 64 { u64::MAX } else { (1 << length) - 1 },
                count: self.by_bit_length[length],
            })
            .collect();
        (spread, bins)
    }
}

/// Computes the maximum of each of a bounded number of equal intervals of a curve of unknown length.
///
/// When no intervals are left, neighbours are merged in pairs and the interval length doubles.
pub(crate) struct CurveBuilder {
    stretch: u64,
    maxima: Vec<(u64, u64)>,
    last: Option<(u64, u64)>,
}

impl Default for CurveBuilder {
    fn default() -> Self {
        Self { stretch: 1, maxima: Vec::new(), last: None }
    }
}

impl CurveBuilder {
    /// Appends the point of `index`, which is one more than the last one's.
    #[inline]
    fn note(&mut self, index: u64, value: u64) {
        self.last = Some((index, value));
        let place = (index / self.stretch) as usize;
        if let Some(maximum) = self.maxima.get_mut(place) {
            if value > maximum.1 {
                *maximum = (index, value);
            }
            return;
        }
        // One point is reserved for the state at the end.
        if place == CURVE_POINTS - 2 {
            self.maxima = self
                .maxima
                .chunks(2)
                .map(|pair| if pair.len() == 2 && pair[1].1 > pair[0].1 { pair[1] } else { pair[0] })
                .collect();
            self.stretch *= 2;
        }
        self.maxima.push((index, value));
    }

    fn finish(self) -> Curve {
        let mut points = self.maxima;
        if let Some(last) = self.last
            && points.last().is_some_and(|point| point.0 < last.0)
        {
            points.push(last);
        }
        Curve { points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Origin, TickUnit, Writer};

    fn meta() -> Meta {
        Meta {
            name: "test".into(),
            about: "a test".into(),
            origin: Origin::Program { command: vec!["test".into()] },
            tick_unit: TickUnit::Nanoseconds,
            created_unix_seconds: Some(1),
            incomplete: None,
        }
    }

    fn survey_of(events: &[Event]) -> Survey {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &meta()).unwrap();
        for event in events {
            writer.push(event).unwrap();
        }
        writer.finish().unwrap();
        survey(Reader::new(file.as_slice()).unwrap()).unwrap()
    }

    #[test]
    fn a_trace_worked_out_by_hand() {
        let at = |tick, thread, op| Event { tick, thread, op };
        let survey = survey_of(&[
            at(10, 0, Op::Allocate { slot: 0, size: 100, align: 16 }),
            at(12, 1, Op::Allocate { slot: 1, size: 1000, align: 64 }),
            at(13, 0, Op::Reallocate { slot: 0, size: 300, align: 16 }),
            at(20, 1, Op::Free { slot: 0 }),
            at(25, 1, Op::Reallocate { slot: 1, size: 900, align: 64 }),
            at(26, 1, Op::Reallocate { slot: 1, size: 900, align: 64 }),
            at(30, 0, Op::Allocate { slot: 0, size: 16, align: 16 }),
            at(31, 0, Op::Free { slot: 0 }),
        ]);
        assert_eq!((survey.first_tick, survey.last_tick), (10, 31));
        assert_eq!((survey.sizes.count, survey.sizes.min, survey.sizes.p50, survey.sizes.max), (3, 16, 100, 1000));
        assert_eq!(survey.sizes.mean, 372.0);
        assert_eq!(survey.sizes_at_most_512, 2);
        assert_eq!(survey.size_histogram.len(), 6);
        assert_eq!(survey.size_histogram[0], Bin { from: 16, to: 31, count: 1 });
        assert_eq!(survey.size_histogram[5], Bin { from: 512, to: 1023, count: 1 });
        assert_eq!(survey.alignments, [(16, 2), (64, 1)]);
        let live: Vec<u64> = survey.live.points.iter().map(|point| point.1).collect();
        assert_eq!(live, [100, 1100, 1300, 1000, 900, 900, 916, 900]);
        assert_eq!(survey.live_bytes_at_end, 900);
        assert_eq!((survey.lifetimes.freed, survey.lifetimes.never_freed), (2, 1));
        assert_eq!((survey.lifetimes.operations.min, survey.lifetimes.operations.max), (1, 3));
        assert_eq!((survey.lifetimes.ticks.min, survey.lifetimes.ticks.max), (1, 10));
        assert_eq!(survey.threads[0], ThreadFacts { allocations: 2, frees: 1, reallocations: 1, frees_of_others: 0 });
        assert_eq!(survey.threads[1], ThreadFacts { allocations: 1, frees: 1, reallocations: 2, frees_of_others: 1 });
        assert_eq!(survey.cross_thread_frees, 1);
        let asked = Reallocations { grown: 1, shrunk: 1, unchanged: 1, grown_bytes: 200, shrunk_bytes: 100 };
        assert_eq!(survey.reallocations, asked);
        assert_eq!(survey.totals.peak_live_bytes, 1300);
        assert_eq!(survey.facts().live.points, survey.live.points);

        let text = serde_json::to_string(&survey).unwrap();
        assert_eq!(serde_json::to_string(&serde_json::from_str::<Survey>(&text).unwrap()).unwrap(), text);
    }

    #[test]
    fn an_empty_trace_has_a_survey() {
        let survey = survey_of(&[]);
        assert_eq!(survey.totals, Totals::default());
        assert!(survey.live.points.is_empty() && survey.size_histogram.is_empty() && survey.threads.is_empty());
    }

    #[test]
    fn the_curve_keeps_every_maximum_whatever_its_length() {
        for length in [1u64, 2, 397, 398, 399, 400, 401, 797, 5_000, 100_003] {
            let peak_at = length * 2 / 3;
            let value = |index: u64| if index == peak_at { 1_000_000 } else { index % 7 };
            let mut builder = CurveBuilder::default();
            for index in 0..length {
                builder.note(index, value(index));
            }
            let points = builder.finish().points;
            assert!(points.len() <= CURVE_POINTS && points.len() as u64 >= length.min(190), "{length}");
            assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert!(points.iter().all(|&(index, kept)| kept == value(index)));
            assert!(points.contains(&(peak_at, 1_000_000)));
            assert_eq!(points.last(), Some(&(length - 1, value(length - 1))));
        }
    }

    #[test]
    fn quantiles_are_exact_below_2048_and_close_above() {
        let mut builder = SpreadBuilder::default();
        for value in 0..2000 {
            builder.note(value);
        }
        let (spread, _) = builder.finish();
        assert_eq!((spread.p10, spread.p50, spread.p999, spread.max), (199, 999, 1997, 1999));

        let mut builder = SpreadBuilder::default();
        for value in [3_000_000, 5_000_000_000, u64::MAX] {
            builder.note(value);
        }
        let (spread, bins) = builder.finish();
        assert!(spread.p50.abs_diff(5_000_000_000) <= 5_000_000);
        assert_eq!((spread.min, spread.max), (3_000_000, u64::MAX));
        assert_eq!(bins.last().unwrap().to, u64::MAX);
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 3);
    }
}

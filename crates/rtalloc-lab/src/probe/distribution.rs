//! Samples and their statistics.

use crate::result::schema::Distribution;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Exact sums, in addition to a histogram: mean and deviation are not affected by its rounding.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    sum: u128,
    sum_of_squares: u128,
}

impl Moments {
    fn add(&mut self, value: u64, samples: u64) {
        self.count += samples;
        self.sum += u128::from(value) * u128::from(samples);
        self.sum_of_squares += u128::from(value) * u128::from(value) * u128::from(samples);
    }

    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Population standard deviation: sqrt(n·Σx² - (Σx)²) / n.
    fn deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let count = u128::from(self.count);
        match count.checked_mul(self.sum_of_squares).zip(self.sum.checked_mul(self.sum)) {
            Some((squares, square)) => (squares.saturating_sub(square) as f64).sqrt() / self.count as f64,
            None => {
                let mean = self.mean();
                (self.sum_of_squares as f64 / self.count as f64 - mean * mean).max(0.0).sqrt()
            }
        }
    }
}

/// Values below this are counted in an array: nearly all instruction counts, in little memory.
const FEW: usize = 4096;

/// Exact counts of every value: for instructions.
#[derive(Clone, Debug)]
pub struct Counts {
    few: Box<[u64; FEW]>,
    many: BTreeMap<u64, u64>,
}

impl Default for Counts {
    fn default() -> Self {
        Self { few: Box::new([0; FEW]), many: BTreeMap::new() }
    }
}

impl Counts {
    /// Adds a sample.
    #[inline(always)]
    pub fn add(&mut self, value: u64) {
        match usize::try_from(value).ok().and_then(|value| self.few.get_mut(value)) {
            Some(count) => *count += 1,
            None => self.add_large(value),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_large(&mut self, value: u64) {
        *self.many.entry(value).or_default() += 1;
    }

    /// Adds all samples of a histogram.
    pub fn merge(&mut self, histogram: &[(u64, u64)]) {
        for (value, samples) in histogram {
            match usize::try_from(*value).ok().and_then(|value| self.few.get_mut(value)) {
                Some(count) => *count += samples,
                None => *self.many.entry(*value).or_default() += samples,
            }
        }
    }

    /// Their statistics.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let few = self.few.iter().enumerate().filter(|(_, samples)| **samples > 0);
        let histogram: Vec<(u64, u64)> = few
            .map(|(value, samples)| (value as u64, *samples))
            .chain(self.many.iter().map(|(value, samples)| (*value, *samples)))
            .collect();
        let mut moments = Moments::default();
        histogram.iter().for_each(|(value, samples)| moments.add(*value, *samples));
        let count = moments.count;
        let quantile = |share: f64| {
            let rank = ((share * count as f64).ceil() as u64).max(1);
            let mut passed = 0;
            let at = histogram.iter().find(|(_, samples)| {
                passed += samples;
                passed >= rank
            });
            at.map_or(0, |(value, _)| *value)
        };
        Distribution {
            count,
            min: histogram.first().map_or(0, |(value, _)| *value),
            mean: moments.mean(),
            std: moments.deviation(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: histogram.last().map_or(0, |(value, _)| *value),
            histogram,
        }
    }
}

/// A histogram at three significant digits: for time.
#[derive(Clone, Debug)]
pub struct Samples {
    moments: Moments,
    smallest: u64,
    largest: u64,
    histogram: Histogram<u64>,
}

impl Default for Samples {
    fn default() -> Self {
        const LARGEST_TICKS: u64 = 1 << 56;
        let histogram = Histogram::new_with_bounds(1, LARGEST_TICKS, 3).expect("these bounds are legal");
        Self { moments: Moments::default(), smallest: u64::MAX, largest: 0, histogram }
    }
}

impl Samples {
    /// Adds a sample.
    pub fn add(&mut self, value: u64) {
        self.moments.add(value, 1);
        self.smallest = self.smallest.min(value);
        self.largest = self.largest.max(value);
        self.histogram.saturating_record(value);
    }

    /// Adds the samples of another.
    pub fn merge(&mut self, other: &Self) {
        self.moments.count += other.moments.count;
        self.moments.sum += other.moments.sum;
        self.moments.sum_of_squares += other.moments.sum_of_squares;
        self.smallest = self.smallest.min(other.smallest);
        self.largest = self.largest.max(other.largest);
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
    }

    /// Their statistics; minimum, maximum, mean and deviation are exact.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        if self.moments.count == 0 {
            return Distribution::default();
        }
        let quantile = |share| self.histogram.value_at_quantile(share).min(self.largest);
        Distribution {
            count: self.moments.count,
            min: self.smallest,
            mean: self.moments.mean(),
            std: self.moments.deviation(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: self.largest,
            histogram: self
                .histogram
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_values_are_counted_alike() {
        let mut counts = Counts::default();
        for value in [3, 4095, 4096, 4096, 1 << 40] {
            counts.add(value);
        }
        let distribution = counts.distribution();
        assert_eq!(distribution.histogram, [(3, 1), (4095, 1), (4096, 2), (1 << 40, 1)]);
        assert_eq!((distribution.count, distribution.min, distribution.p50, distribution.max), (5, 3, 4096, 1 << 40));
    }

    #[test]
    fn merged_histograms_are_those_of_all_samples() {
        let (mut merged, mut all) = (Counts::default(), Counts::default());
        for values in [[3, 3, 5000], [3, 4, 5000]] {
            let mut part = Counts::default();
            for value in values {
                part.add(value);
                all.add(value);
            }
            merged.merge(&part.distribution().histogram);
        }
        let (merged, all) = (merged.distribution(), all.distribution());
        assert_eq!(merged.histogram, [(3, 3), (4, 1), (5000, 2)]);
        assert_eq!((merged.mean, merged.std, merged.p50), (all.mean, all.std, all.p50));
    }

    #[test]
    fn both_kinds_agree_with_the_definitions() {
        let (mut counts, mut samples) = (Counts::default(), Samples::default());
        for value in 1..=1000 {
            counts.add(value);
            samples.add(value);
        }
        for distribution in [counts.distribution(), samples.distribution()] {
            assert_eq!((distribution.count, distribution.min, distribution.max), (1000, 1, 1000));
            assert!((distribution.mean - 500.5).abs() < 1e-9);
            assert!((distribution.std - ((1000.0_f64 * 1000.0 - 1.0) / 12.0).sqrt()).abs() < 1e-9);
            assert_eq!((distribution.p50, distribution.p99, distribution.p999), (500, 990, 999));
            assert_eq!(distribution.histogram.iter().map(|(_, samples)| samples).sum::<u64>(), 1000);
        }
    }

    #[test]
    fn samples_of_several_are_those_of_one() {
        let (mut all, mut parts) = (Samples::default(), [Samples::default(), Samples::default()]);
        for value in 1..=1000_u64 {
            all.add(value * 7 % 1009);
            parts[value as usize % 2].add(value * 7 % 1009);
        }
        let [mut merged, other] = parts;
        merged.merge(&other);
        let (all, merged) = (all.distribution(), merged.distribution());
        assert_eq!((all.count, all.min, all.max, all.p999), (merged.count, merged.min, merged.max, merged.p999));
        assert_eq!((all.mean, all.std), (merged.mean, merged.std));
        assert_eq!(all.histogram, merged.histogram);
    }

    #[test]
    fn nothing_gives_zeros() {
        for distribution in [Counts::default().distribution(), Samples::default().distribution()] {
            assert_eq!((distribution.count, distribution.min, distribution.max, distribution.p50), (0, 0, 0, 0));
            assert!(distribution.histogram.is_empty());
        }
    }
}

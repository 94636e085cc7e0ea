//! Samples of task sets, seeds or runs, with confidence intervals of 99 %.
//!
//! Means have intervals of Student's distribution; the logarithm of a standard deviation has that of the normal one,
//! which assumes values that are about normal. They are meant for samples of a hundred, the papers' own repetition; fewer
//! than ten values have no interval, and decide nothing.

use serde::{Deserialize, Serialize};
use std::ops::{Div, Mul};

/// Values of a sample that has intervals.
const FEWEST: u64 = 10;

/// Quantile of the normal distribution for a two-sided interval of 99 %.
const NORMAL: f64 = 2.576;

/// The quantile of the normal distribution for so many two-sided intervals that all hold in 99 % of cases (Bonferroni),
/// by the approximation 26.2.23 of Abramowitz and Stegun (within 0.0005).
fn normal(intervals: usize) -> f64 {
    let tail = 0.005 / intervals.max(1) as f64;
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    t - above / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)))
}

/// Whether a rule about samples holds: `None` if a figure is missing, `Some(None)` if an interval includes the limit.
pub type Decided = Option<Option<bool>>;

/// The quantile of Student's distribution for a mean of so many values, by its expansion around the normal one `z`
/// (within 2 % from eight values on, for 99 %).
fn quantile(count: u64, z: f64) -> f64 {
    let freedom = count.saturating_sub(1).max(1) as f64;
    let second = (z.powi(3) + z) / 4.0;
    let third = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + second / freedom + third / freedom.powi(2)
}

/// The summary of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation, with one degree of freedom less than values; 0 for a single value.
    pub deviation: f64,
    /// Maximum.
    pub most: f64,
    /// Minimum.
    pub least: f64,
}

impl Sample {
    /// The summary of these values.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        Self {
            count: values.len() as u64,
            mean,
            deviation: if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
            most: values.iter().copied().fold(f64::MIN, f64::max),
            least: values.iter().copied().fold(f64::MAX, f64::min),
        }
    }

    /// A published summary of `count` values: mean, deviation, maximum, minimum.
    #[must_use]
    pub fn published(count: u64, [mean, deviation, most, least]: [f64; 4]) -> Self {
        Self { count, mean, deviation, most, least }
    }

    /// The sample with all values multiplied by a positive factor.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            count: self.count,
            mean: factor * self.mean,
            deviation: factor * self.deviation,
            most: factor * self.most,
            least: factor * self.least,
        }
    }

    /// Half the width of the mean's interval; infinite for fewer than ten values.
    #[must_use]
    pub fn error(&self) -> f64 {
        if self.count < FEWEST {
            f64::INFINITY
        } else {
            quantile(self.count, NORMAL) * self.deviation / (self.count as f64).sqrt()
        }
    }

    /// Half the width of the interval of the logarithm of the deviation; infinite for fewer than ten values.
    fn error_of_deviation(&self) -> f64 {
        if self.count < FEWEST { f64::INFINITY } else { NORMAL / (2.0 * (self.count as f64 - 1.0)).sqrt() }
    }

    /// The mean with its interval.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        Estimate { value: self.mean, error: self.error() }
    }

    /// Whether the mean is below another sample's; see [`Estimate::is_below`]. Samples of the same task sets are
    /// compared by [`is_below_in_pairs`].
    #[must_use]
    pub fn is_below(&self, other: &Self) -> Option<bool> {
        self.estimate().is_below(&other.estimate())
    }

    /// Whether the means of the two are compatible: the interval of the difference includes 0. Too few values are not.
    #[must_use]
    pub fn has_mean_of(&self, other: &Self) -> bool {
        let error = self.error().hypot(other.error());
        error.is_finite() && (self.mean - other.mean).abs() <= error
    }

    /// Whether a single value is compatible with the sample; see [`reach`](Self::reach).
    #[must_use]
    pub fn may_include(&self, value: f64, intervals: usize) -> bool {
        self.count >= FEWEST && (value - self.mean).abs() <= self.reach(intervals)
    }

    /// Half the width of the interval of another value, one of so many that all hold in 99 % of cases; infinite for
    /// fewer than ten values.
    #[must_use]
    pub fn reach(&self, intervals: usize) -> f64 {
        if self.count < FEWEST {
            f64::INFINITY
        } else {
            quantile(self.count, normal(intervals)) * self.deviation * (1.0 + 1.0 / self.count as f64).sqrt()
        }
    }

    /// Whether the deviations of the two are compatible: the interval of their quotient includes 1. Too few values
    /// are not.
    #[must_use]
    pub fn has_deviation_of(&self, other: &Self) -> bool {
        let quotient = (self.deviation / other.deviation).ln().abs();
        self.count.min(other.count) >= FEWEST && quotient <= self.error_of_deviation().hypot(other.error_of_deviation())
    }

    /// Mean with its interval, and deviation: `9.9 ± 0.4 (dev. 1.5)`.
    #[must_use]
    pub fn words(&self, decimals: usize) -> String {
        let mean = self.estimate().words(decimals);
        if self.count < FEWEST { mean } else { format!("{mean} (dev. {:.decimals$})", self.deviation) }
    }
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Half the width of its interval; 0 for a value that every run has.
    pub error: f64,
}

impl Estimate {
    /// A value that every run has.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// Whether it is below another, which counts as independent; `None` if the interval of the difference includes 0.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> Option<bool> {
        let (difference, error) = (other.value - self.value, self.error.hypot(other.error));
        (error == 0.0 || difference.abs() > error).then_some(difference > 0.0)
    }

    /// Value and interval: `9.9 ± 0.4`, or `9.9` if it is exact.
    #[must_use]
    pub fn words(&self, decimals: usize) -> String {
        let Self { value, error } = self;
        match *error {
            0.0 => format!("{value:.decimals$}"),
            error if error.is_finite() => format!("{value:.decimals$} \u{b1} {error:.decimals$}"),
            _ => format!("{value:.decimals$} (no interval)"),
        }
    }
}

impl Mul<f64> for Estimate {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self { value: self.value * factor, error: self.error * factor.abs() }
    }
}

impl Div for Estimate {
    type Output = Self;

    /// The quotient of two positive values, whose relative errors add in quadrature.
    fn div(self, divisor: Self) -> Self {
        let value = self.value / divisor.value;
        Self { value, error: value * (self.error / self.value).hypot(divisor.error / divisor.value) }
    }
}

/// Whether the mean of the first values, multiplied, is below that of the second ones, each pair of which is of the
/// same task set; `None` if the interval of the mean difference includes 0.
#[must_use]
pub fn is_below_in_pairs((first, factor): (&[f64], f64), second: &[f64]) -> Option<bool> {
    Sample::of(first.iter().zip(second).map(|(first, second)| factor * first - second))
        .estimate()
        .is_below(&Estimate::exact(0.0))
}

/// Whether all statements hold, of which some may be undecided: one that does not hold decides.
#[must_use]
pub fn all(statements: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let (mut some, mut open) = (false, false);
    for statement in statements {
        match statement {
            Some(false) => return Some(false),
            Some(true) => some = true,
            None => open = true,
        }
    }
    (some && !open).then_some(true)
}

/// Whether all of these rules hold; `None` if a figure of any is missing, or there is none.
#[must_use]
pub fn all_of(rules: impl IntoIterator<Item = Decided>) -> Decided {
    let rules = rules.into_iter().collect::<Option<Vec<_>>>()?;
    (!rules.is_empty()).then(|| all(rules))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtalloc_lab::workload::random::{NORMAL_FRACTION_BITS, Random};

    fn value(random: &mut Random, mean: f64, deviation: f64) -> f64 {
        mean + deviation * random.normal() as f64 / (1_u64 << NORMAL_FRACTION_BITS) as f64
    }

    #[test]
    fn summaries_are_those_of_the_textbook() {
        let sample = Sample::of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((sample.count, sample.mean, sample.most, sample.least), (8, 5.0, 9.0, 2.0));
        assert!((sample.deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        // The table of Student's distribution has 3.499 for seven degrees of freedom, and 2.626 for 99.
        assert!((quantile(8, NORMAL) / 3.499 - 1.0).abs() < 0.02 && sample.error().is_infinite());
        assert!((quantile(100, NORMAL) - 2.626).abs() < 0.001 && (quantile(20, NORMAL) - 2.861).abs() < 0.01);
        // For 28 intervals: the normal distribution has 3.570, Student's with 29 degrees of freedom 4.053.
        assert!((normal(1) - NORMAL).abs() < 0.0006 && (normal(28) - 3.570).abs() < 0.001);
        assert!((quantile(30, normal(28)) - 4.053).abs() < 0.02);
        assert_eq!(Sample::of([]), Sample::default());
        assert_eq!(Sample::of([3.0]).words(1), "3.0 (no interval)");
    }

    #[test]
    fn few_values_decide_nothing() {
        for count in [1, 2, 9] {
            let few = |mean: f64| Sample::published(count, [mean, 1e-9, mean, mean]);
            assert!(few(1.0).is_below(&few(1000.0)).is_none() && !few(1.0).may_include(1.0, 1), "{count}");
        }
        let (one, other) = (Sample::of([1.0]), Sample::of([1000.0]));
        assert_eq!((one.is_below(&other), one.estimate().is_below(&Estimate::exact(2.0))), (None, None));
        assert!(!one.has_mean_of(&other) && !one.has_deviation_of(&Sample::of([1.0, 900.0])));
    }

    /// In a thousand samples of a hundred, intervals of 99 % miss the truth about ten times; with another mean or
    /// deviation, they miss it nearly always.
    #[test]
    fn intervals_cover_as_often_as_they_say() {
        let mut random = Random::new(1);
        let mut missed = [0; 6];
        for _ in 0..1000 {
            let [one, same, higher, wider] = [(10.0, 2.0), (10.0, 2.0), (11.4, 2.0), (10.0, 3.4)]
                .map(|(mean, deviation)| Sample::of((0..100).map(|_| value(&mut random, mean, deviation))));
            missed[0] += u32::from(!one.has_mean_of(&same));
            missed[1] += u32::from(!one.has_deviation_of(&same));
            missed[2] += u32::from(one.is_below(&higher) != Some(true));
            missed[3] += u32::from(one.has_deviation_of(&wider));
            missed[4] += u32::from(!one.may_include(value(&mut random, 10.0, 2.0), 1));
            missed[5] += u32::from(one.may_include(10.0 + 2.0 * 3.5, 1));
        }
        assert!((1..=25).contains(&missed[0]) && (1..=25).contains(&missed[1]), "{missed:?}");
        assert!(missed[2] < 50 && missed[3] < 50 && missed[5] < 50, "{missed:?}");
        assert!((1..=25).contains(&missed[4]), "{missed:?}");
    }

    /// Values that vary much more than they differ in a pair.
    #[test]
    fn pairs_decide_what_samples_do_not() {
        let values: Vec<f64> = (0..100).map(|value| 10.0 + f64::from(value % 17)).collect();
        let higher: Vec<f64> =
            (0..).zip(&values).map(|(place, value)| value + 0.5 + f64::from(place % 3) / 10.0).collect();
        assert_eq!(Sample::of(values.iter().copied()).is_below(&Sample::of(higher.iter().copied())), None);
        assert_eq!(is_below_in_pairs((&values, 1.0), &higher), Some(true));
        assert_eq!(is_below_in_pairs((&higher, 1.0), &values), Some(false));
        assert_eq!(is_below_in_pairs((&higher, 0.9), &values), Some(true));
        assert_eq!(is_below_in_pairs((&values[..1], 1.0), &higher[..1]), None);
    }

    #[test]
    fn values_that_every_run_has_are_compared_as_they_are() {
        let (one, two) = (Estimate::exact(1.0), Estimate::exact(2.0));
        assert_eq!(
            (one.is_below(&two), two.is_below(&one), one.is_below(&one)),
            (Some(true), Some(false), Some(false))
        );
        assert_eq!((two / one * 3.0, two.words(1)), (Estimate::exact(6.0), "2.0".into()));
        let wide = Estimate { value: 2.0, error: 1.5 };
        assert_eq!((one.is_below(&wide), wide.words(1)), (None, "2.0 \u{b1} 1.5".into()));
        // 75 % and 10 %, in quadrature.
        let quotient = wide / Estimate { value: 10.0, error: 1.0 };
        assert!((quotient.error / quotient.value - 0.7566).abs() < 1e-4, "{quotient:?}");
    }

    #[test]
    fn rules_about_missing_figures_are_missing() {
        assert_eq!(all_of([Some(Some(true)), Some(None)]), Some(None));
        assert_eq!(all_of([Some(Some(true)), Some(Some(false)), Some(None)]), Some(Some(false)));
        assert_eq!(all_of([Some(Some(true)), None]), None);
        assert_eq!(all_of([]), None);
    }

    #[test]
    fn one_false_statement_decides() {
        assert_eq!(all([Some(true), Some(true)]), Some(true));
        assert_eq!(all([Some(true), None]), None);
        assert_eq!(all([None, Some(false)]), Some(false));
        assert_eq!(all([]), None);
    }
}

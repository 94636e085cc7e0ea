//! Random numbers in integer arithmetic, so that a trace is reproduced bit for bit on every machine.
//!
//! Floating point is unsuitable: `ln`, `exp` and `cos` differ between mathematical libraries in the last bit, and a
//! last bit that crosses a rounding edge changes a size and thereby every later event.
//!
//! Every distribution here is exact, not an approximation of its namesake:
//!
//! - **uniform**: multiplication with rejection (Lemire, "Fast random integer generation in an interval", 2019);
//! - **normal**: Karney's algorithm N ("Sampling exactly from the normal distribution", ACM TOMS 42:1, 2016), which
//!   decides by comparing uniform numbers alone. A sum of twelve uniforms would end at six deviations and have
//!   kurtosis 2.9; a table of the inverse distribution needs care in its tails, where the largest sizes of a
//!   trace come from;
//! - **log-uniform**: an octave at random, a number of it at random, kept with probability octave / number.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng as _;

/// Name of [`Random`] in the header of a trace.
pub(crate) const NAME: &str = "PCG XSL RR 128/64 (rand_pcg Pcg64), state and stream from SplitMix64(seed)";

/// Fractional bits of [`Random::normal`].
pub const NORMAL_FRACTION_BITS: u32 = 32;

/// The random numbers of a trace.
pub struct Random {
    generator: Pcg64,
}

impl Random {
    /// The sequence of `seed`; neighbouring seeds give unrelated sequences.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            // SplitMix64 (Steele, Lea, Flood 2014).
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            u128::from(mixed ^ (mixed >> 31))
        };
        let (state, stream) = (next() << 64 | next(), next() << 64 | next());
        Self { generator: Pcg64::new(state, stream) }
    }

    /// 64 random bits; interpreted as a fraction, a uniform number in [0, 1).
    #[inline]
    fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Uniform below `bound`, which is at least 1.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        // The high half is the result. Among the low halves of each result, the first (2^64 mod bound) are rejected.
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            let surplus = bound.wrapping_neg() % bound;
            while (product as u64) < surplus {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform within `min..=max`, where `min <= max < u64::MAX`.
    #[inline]
    pub fn within(&mut self, min: u64, max: u64) -> u64 {
        min + self.below(max - min + 1)
    }

    /// Within `min..=max`, each number with probability proportional to its reciprocal; `1 <= min <= max < 2^63`.
    pub(crate) fn log_uniform(&mut self, min: u64, max: u64) -> u64 {
        let octaves = u64::from(max.ilog2() - min.ilog2()) + 1;
        loop {
            // Each number n of the octave is drawn with 1 / octave and kept with octave / n.
            let octave = 1u64 << (u64::from(min.ilog2()) + self.below(octaves));
            let number = octave + self.below(octave);
            if (min..=max).contains(&number) && self.below(number) < octave {
                return number;
            }
        }
    }

    /// Standard normal deviate in units of 2^-32.
    pub fn normal(&mut self) -> i64 {
        loop {
            // N1, N2: k with probability proportional to exp(-k^2 / 2).
            let mut k = 0u64;
            while self.half_exponential() {
                k += 1;
            }
            if !(1..=k * k.saturating_sub(1)).all(|_| self.half_exponential()) {
                continue;
            }
            // N3, N4: the fraction x, kept with probability exp(-x (2k + x) / 2).
            let x = self.bits();
            if (0..=k).all(|_| self.fraction_trial(k, x)) {
                let magnitude = (k << NORMAL_FRACTION_BITS | x >> (64 - NORMAL_FRACTION_BITS)) as i64;
                return if self.bits() >> 63 == 0 { magnitude } else { -magnitude };
            }
        }
    }

    /// Algorithm H: true with probability exp(-1/2), by the parity of a falling run that starts below one half.
    fn half_exponential(&mut self) -> bool {
        let mut last = 1 << 63;
        let mut even = true;
        loop {
            let next = self.bits();
            if next >= last {
                return even;
            }
            last = next;
            even = !even;
        }
    }

    /// Algorithm B: true with probability exp(-x (2k + x) / (2k + 2)), `x` in units of 2^-64.
    fn fraction_trial(&mut self, k: u64, x: u64) -> bool {
        let mut last = x;
        let mut even = true;
        loop {
            let next = self.bits();
            if next >= last {
                return even;
            }
            let (twice_k, chance) = (u128::from(2 * k), u128::from(self.bits()));
            if chance * (twice_k + 2) >= (twice_k << 64) + u128::from(x) {
                return even;
            }
            last = next;
            even = !even;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within `sigmas` standard errors of the expected number of `samples` with `probability`.
    fn close(observed: usize, samples: usize, probability: f64, sigmas: f64) -> bool {
        let expected = samples as f64 * probability;
        (observed as f64 - expected).abs() <= sigmas * (expected * (1.0 - probability)).sqrt()
    }

    /// The standard normal distribution function, by its continued series (Marsaglia 2004).
    fn normal_cdf(x: f64) -> f64 {
        let (mut sum, mut term, mut step) = (x, x, 3.0);
        while term.abs() > 1e-17 * sum.abs() {
            term *= x * x / step;
            sum += term;
            step += 2.0;
        }
        0.5 + sum * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
    }

    #[test]
    fn the_sequence_of_a_seed_is_pinned_and_neighbours_differ() {
        let first = |seed| {
            let mut random = Random::new(seed);
            [random.bits(), random.bits()]
        };
        // Computed with an independent implementation of SplitMix64 and PCG XSL RR 128/64.
        assert_eq!(first(1), [6_027_986_710_923_973_334, 7_169_523_067_235_436_098]);
        assert_ne!(first(0), first(1));
        let differing = (first(1)[0] ^ first(2)[0]).count_ones();
        assert!((16..=48).contains(&differing), "{differing}");
    }

    #[test]
    fn uniform_numbers_are_uniform_and_stay_within() {
        let mut random = Random::new(1);
        let mut counts = [0usize; 7];
        for _ in 0..700_000 {
            counts[(random.within(10, 16) - 10) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| close(count, 700_000, 1.0 / 7.0, 4.5)), "{counts:?}");
        assert!((0..100).all(|_| random.below(1) == 0));
        // A bound just above 2^63 rejects almost half of all draws: the halves must still be even.
        let bound = (1 << 63) + 1;
        let low = (0..100_000).filter(|_| random.below(bound) < 1 << 62).count();
        assert!(close(low, 100_000, 0.5, 4.5), "{low}");
    }

    #[test]
    fn log_uniform_numbers_follow_the_reciprocal() {
        let mut random = Random::new(2);
        let (min, max) = (3u64, 1000u64);
        let samples = 1_000_000;
        let mut counts = vec![0usize; 1001];
        for _ in 0..samples {
            counts[random.log_uniform(min, max) as usize] += 1;
        }
        assert!(counts[..3].iter().all(|&count| count == 0));
        let norm: f64 = (min..=max).map(|n| 1.0 / n as f64).sum();
        for number in [3usize, 4, 7, 8, 100, 511, 512, 513, 1000] {
            let probability = 1.0 / number as f64 / norm;
            assert!(close(counts[number], samples, probability, 4.5), "{number}: {}", counts[number]);
        }
        assert!((0..100).all(|_| random.log_uniform(77, 77) == 77));
    }

    #[test]
    fn normal_deviates_have_the_moments_and_the_tails_of_the_normal_distribution() {
        let mut random = Random::new(3);
        let samples = 2_000_000usize;
        let deviates: Vec<f64> =
            (0..samples).map(|_| random.normal() as f64 / (1u64 << NORMAL_FRACTION_BITS) as f64).collect();
        let moment = |power| deviates.iter().map(|z: &f64| z.powi(power)).sum::<f64>() / samples as f64;
        // Five standard errors; the variances of the moments are 1, 2, 15 and 96.
        let error = |variance: f64| 5.0 * (variance / samples as f64).sqrt();
        assert!(moment(1).abs() < error(1.0), "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < error(2.0), "{}", moment(2));
        assert!(moment(3).abs() < error(15.0), "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < error(96.0), "{}", moment(4));
        // Both tails, out to where a sum of twelve uniforms has lost four fifths of its weight.
        for edge in [0.0, 0.1, 0.5, 0.9, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5] {
            let beyond = 1.0 - normal_cdf(edge);
            let above = deviates.iter().filter(|&&z| z > edge).count();
            let below = deviates.iter().filter(|&&z| z < -edge).count();
            assert!(close(above, samples, beyond, 4.5), "above {edge}: {above}, not {}", beyond * samples as f64);
            assert!(close(below, samples, beyond, 4.5), "below -{edge}: {below}, not {}", beyond * samples as f64);
        }
        // Chi-squared over 60 bins of width 0.1 in [-3, 3]: mean 59, deviation 10.9.
        let mut bins = [0usize; 60];
        for z in deviates.iter().filter(|z| z.abs() < 3.0) {
            bins[((z + 3.0) * 10.0) as usize] += 1;
        }
        let chi_squared: f64 = (0..60)
            .map(|bin| {
                let from = f64::from(bin) / 10.0 - 3.0;
                let expected = (normal_cdf(from + 0.1) - normal_cdf(from)) * samples as f64;
                (bins[bin as usize] as f64 - expected).powi(2) / expected
            })
            .sum();
        assert!((25.0..110.0).contains(&chi_squared), "{chi_squared}");
    }
}

//! Theoretical bounds of worst-case memory: lower bounds for all non-moving allocators, and guarantees.
//!
//! All in units: at most `m` live, requests of 1 to `n`. A guarantee is a heap size in which no request is refused as
//! long as the program respects `m` and `n`.
//!

use crate::papers::robson::result::Law;
use rtalloc_subjects::{Guarantee, Unit};

/// The memory that [`Adversary::Powers`](crate::papers::robson::result::Adversary::Powers) makes every non-moving
/// allocator need: `M(1/2 log2 n + 1) - n + 1` (Robson, "Bounds for some functions concerning dynamic storage
/// allocation", Journal of the ACM 21, 1974).
///
/// # Derivation
///
/// After phase i, let c be the number of live objects. Each covers a distinct address x = f modulo 2^i: a block of 2^i
/// covers such an x at any position, and the addresses of retained objects are occupied. So at least `2^i (c - 1) + 1`
/// units are needed. Assume that all M units are live (up to less than 2^i). In phase i + 1, the objects have a value
/// of `2^(i+1) - size` each, `2^(i+1) c - M` in total; each covers an x in one of the two residues modulo 2^(i+1), so
/// the better residue has at least half of the value: with k retained objects of L units, `2^(i+1) k - L >= 2^i c -
/// M/2`. The remaining M - L units are requested in blocks of 2^(i+1). With c' objects afterwards, `2^(i+1) c' =
/// 2^(i+1) k + M - L >= 2^i c + M/2`. Starting from M in phase 0, log2 n phases give `n c = M(1 + 1/2 log2 n)`; the
/// memory needed is this minus n - 1.
#[must_use]
pub fn lower_bound(m: usize, n: usize) -> f64 {
    m as f64 * (0.5 * log2(n) + 1.0) - n as f64 + 1.0
}

/// The memory that [`Adversary::Comb`](crate::papers::robson::result::Adversary::Comb) makes best-fit need: `(M - 4n +
/// 11)(n - 2)` (Knuth, The Art of Computer Programming, volume 1, third edition, section 2.5, exercise 42, after Robson
/// 1977); negative if M is not much larger than n. The adversary's module contains the derivation.
#[must_use]
pub fn comb(m: usize, n: usize) -> f64 {
    (m as f64 - 4.0 * n as f64 + 11.0) * (n as f64 - 2.0)
}

/// The memory that [`Adversary::Teeth`](crate::papers::robson::result::Adversary::Teeth) makes half-fit need, for n a
/// power of two: `n(M - 2n)`, one tooth every n units until M - 2n of them are live. The adversary's module contains
/// the derivation.
#[must_use]
pub fn teeth(m: usize, n: usize) -> f64 {
    n as f64 * (m as f64 - 2.0 * n as f64)
}

/// The bound stated in o1heap's documentation for half-fit: `2M(1 + ceil(log2 n))` units. [`teeth`] refutes it for the
/// half-fit here, whose blocks are not rounded to powers of two; it is not a guarantee.
#[must_use]
pub fn refuted_of_half_fit(m: usize, n: usize) -> usize {
    2 * m * (1 + n.next_power_of_two().ilog2() as usize)
}

/// The theoretical curves of the figures, for `m` units: the lower bound first.
#[must_use]
pub fn laws(m: usize, sizes: &[usize]) -> Vec<Law> {
    // The formulas are in units, independent of the unit's size.
    let unit = Unit { bytes: 1, header_bytes: 0 };
    let law = |name: &str, formula: String, value: &dyn Fn(usize) -> Option<f64>| Law {
        name: name.into(),
        formula,
        points: sizes.iter().filter_map(|n| Some((*n as u64, value(*n)? / m as f64))).collect(),
    };
    let lower = law("lower bound", "M(\u{bd} log2 n + 1) - n + 1".into(), &|n| Some(lower_bound(m, n)));
    let guarantees = [("first-fit's law", Guarantee::FirstFit), ("any fit's law", Guarantee::AnyFit)];
    let guarantees = guarantees.map(|(name, guarantee)| {
        law(name, guarantee.formula(), &|n| guarantee.bytes(0, unit, m, n).map(|units| units as f64))
    });
    std::iter::once(lower).chain(guarantees).collect()
}

fn log2(n: usize) -> f64 {
    (n as f64).log2()
}

//! What theory says of worst-case memory: lower bounds that hold for everybody, and guarantees.
//!
//! All in units: at most `m` live, requests of 1 to `n`. A guarantee is a size of heap in which no request is refused
//! as long as the program keeps within `m` and `n`.
//!

use crate::papers::robson::result::Law;
use rtalloc_subjects::{Guarantee, Unit};

/// What [`Adversary::Powers`](crate::papers::robson::result::Adversary::Powers) makes every allocator need that moves nothing:
/// `M(1/2 log2 n + 1) - n + 1` (Robson, "Bounds for some functions concerning dynamic storage allocation", Journal of
/// the ACM 21, 1974).
///
/// # Derivation
///
/// After phase i, let c be the number of live objects; each covers an address x = f modulo 2^i of its own, since a
/// block of 2^i covers such an x wherever it lies, and those of the objects that were kept are taken. So at least `2^i
/// (c - 1) + 1` units are needed. Let all M units be live (but for less than 2^i). The objects are worth `2^(i+1) -
/// size` each in phase i + 1, together `2^(i+1) c - M`; each of them covers x of one of the two residues modulo
/// 2^(i+1), so that those of the better one are worth half of it: with k objects of L units kept, `2^(i+1) k - L >= 2^i
/// c - M/2`. Requested anew are M - L units, in blocks of 2^(i+1). With c' objects then, `2^(i+1) c' = 2^(i+1) k + M -
/// L >= 2^i c + M/2`. From M in phase 0, log2 n phases come to `n c = M(1 + 1/2 log2 n)`, and that is needed but for n
/// - 1.
#[must_use]
pub fn lower_bound(m: usize, n: usize) -> f64 {
    m as f64 * (0.5 * log2(n) + 1.0) - n as f64 + 1.0
}

/// What [`Adversary::Comb`](crate::papers::robson::result::Adversary::Comb) makes best-fit need: `(M - 4n + 11)(n - 2)` (Knuth,
/// The Art of Computer Programming, volume 1, third edition, section 2.5, exercise 42, after Robson 1977), less than
/// nothing where M is not much larger than n. Its derivation is the adversary itself.
#[must_use]
pub fn comb(m: usize, n: usize) -> f64 {
    (m as f64 - 4.0 * n as f64 + 11.0) * (n as f64 - 2.0)
}

/// What [`Adversary::Teeth`](crate::papers::robson::result::Adversary::Teeth) makes half-fit need, for n a power of two: `n(M -
/// 2n)`, a tooth every n units until M - 2n of them are live. Its derivation is the adversary itself.
#[must_use]
pub fn teeth(m: usize, n: usize) -> f64 {
    n as f64 * (m as f64 - 2.0 * n as f64)
}

/// What o1heap's documentation states of half-fit: `2M(1 + ceil(log2 n))` units. [`teeth`] refutes it of the half-fit
/// here, whose blocks are not rounded to powers of two; it is no guarantee.
#[must_use]
pub fn refuted_of_half_fit(m: usize, n: usize) -> usize {
    2 * m * (1 + n.next_power_of_two().ilog2() as usize)
}

/// The curves of theory that figures have, for `m` units: the lower bound first.
#[must_use]
pub fn laws(m: usize, sizes: &[usize]) -> Vec<Law> {
    // The formulas are of units, whatever a unit is.
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

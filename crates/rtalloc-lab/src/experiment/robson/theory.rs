//! What theory says of worst-case memory: lower bounds that hold for everybody, and guarantees.
//!
//! All in units: at most `m` live, requests of 1 to `n`. A guarantee is a size of heap in which no request is refused as long as the
//! program keeps within `m` and `n`.

use super::game::Unit;
use crate::result::robson::Law;
use crate::subject::Subject;
use rtalloc::compact_fit::guarantee::{entry_pages, pages_of_bytes};
use rtalloc::compact_fit::{DefaultLadder, Ladder, PaperLadder};

/// What [`Adversary::Powers`](crate::result::robson::Adversary::Powers) makes every allocator need that moves nothing: `M(1/2 log2 n + 1) - n
/// + 1` (Robson, "Bounds for some functions concerning dynamic storage allocation", Journal of the ACM 21, 1974).
///
/// # Derivation
///
/// After phase i, let c be the number of live objects; each covers an address x = f modulo 2^i of its own, since a block of 2^i covers
/// such an x wherever it lies, and those of the objects that were kept are taken. So at least `2^i (c - 1) + 1` units are needed. Let
/// all M units be live (but for less than 2^i). The objects are worth `2^(i+1) - size` each in phase i + 1, together `2^(i+1) c - M`; each
/// of them covers x of one of the two residues modulo 2^(i+1), so that those of the better one are worth half of it: with k objects of
/// L units kept, `2^(i+1) k - L >= 2^i c - M/2`. Requested anew are M - L units, in blocks of 2^(i+1). With c' objects then,
/// `2^(i+1) c' = 2^(i+1) k + M - L >= 2^i c + M/2`. From M in phase 0, log2 n phases come to `n c = M(1 + 1/2 log2 n)`, and that is
/// needed but for n - 1.
#[must_use]
pub fn lower_bound(m: usize, n: usize) -> f64 {
    m as f64 * (0.5 * log2(n) + 1.0) - n as f64 + 1.0
}

/// What [`Adversary::Comb`](crate::result::robson::Adversary::Comb) makes best-fit need: `(M - 4n + 11)(n - 2)` (Knuth, The Art of Computer
/// Programming, volume 1, third edition, section 2.5, exercise 42, after Robson 1977), less than nothing where M is not much larger than
/// n. Its derivation is the adversary itself.
#[must_use]
pub fn comb(m: usize, n: usize) -> f64 {
    (m as f64 - 4.0 * n as f64 + 11.0) * (n as f64 - 2.0)
}

/// Half-fit's guarantee in bytes, `a k + 2 l n M' (ceil(log2 n') + 1) / (l + n)`: at most `m` bytes requested, in requests of `l` to `n`
/// bytes with `a` bytes of header each; `M' = ceil(m / l)`, `n' = ceil(n / l)`, `k = M' - n' + 1` (o1heap's documentation).
///
/// Of the source, not derived here: [`Guarantee::HalfFit`] with what a unit is divided into header and request, k headers at the most, and
/// a mean of l and n in place of l.
#[must_use]
pub fn half_fit_bytes(m: usize, n: usize, l: usize, a: usize) -> f64 {
    let (objects, sizes) = (m.div_ceil(l), n.div_ceil(l));
    let mean = 2.0 * (l * n) as f64 / (l + n) as f64;
    (a * (objects - sizes + 1)) as f64 + mean * objects as f64 * (log2(sizes).ceil() + 1.0)
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
    let guarantees = [
        ("first-fit's law", Guarantee::FirstFit),
        ("half-fit's law", Guarantee::HalfFit),
        ("best-fit's law", Guarantee::BestFit),
    ];
    let guarantees = guarantees.map(|(name, guarantee)| {
        law(name, guarantee.formula(), &|n| guarantee.bytes(unit, m, n).map(|units| units as f64))
    });
    std::iter::once(lower).chain(guarantees).collect()
}

fn log2(n: usize) -> f64 {
    (n as f64).log2()
}

/// A guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// `M(1 + ceil(log2 n))`, of first-fit in address order: Robson, "Worst case fragmentation of first fit and best fit storage
    /// allocation strategies", The Computer Journal 20, 1977, as o1heap's documentation tells it.
    ///
    /// Derivation, for objects that are aligned to their sizes, which are powers of two: let N(i) be the highest end that an object of
    /// at most 2^i ever had. When N(i) rises, an object of 2^i is put behind N(i - 1), where everything is a multiple of 2^i, and no gap
    /// in front of it suffices: so there is none between N(i - 1) and it, and `N(i) - N(i - 1) <= M`. With N(0) = M the sum is
    /// `M(1 + log2 n)`. For objects that are not aligned it is taken from the source.
    FirstFit,
    /// `n(M - n + 1)`, of everyone who coalesces at once and refuses a request only if no gap is as large.
    ///
    /// Derivation: when r <= n is refused, at most M - r units are live, in at most as many objects, and none of the gaps, of which
    /// there is one more than objects, has more than r - 1. So the heap has at most `(M - r) + (M - r + 1)(r - 1) = r(M - r + 1) - 1`
    /// units, which grows with r as long as `2r <= M + 1`.
    AnyFit,
    /// The same with the request rounded up by at most one part in so many first, as TLSF does to find a class.
    GoodFit(u32),
    /// `M(n - 2)`, of best-fit (Robson 1977, as o1heap's documentation tells it), for n >= 8; below that [`AnyFit`](Self::AnyFit).
    ///
    /// Of the source; what can be derived in two lines is `AnyFit`, which is larger by about 2M.
    BestFit,
    /// `2M(1 + ceil(log2 n))`, of half-fit (Robson's bound for first-fit, doubled, as o1heap's documentation tells it): to half-fit
    /// a request is a power of two, less than twice as large.
    HalfFit,
    /// `2M(1 + ceil(log2 n)) + n`, of the binary buddy.
    ///
    /// Derivation, for requests that are powers of two: call a block *used* if an object is in it, let T(i) be the most memory in used
    /// blocks of 2^i at any time, and T(0) <= M. A block of 2^i is divided only if no smaller one that would do is free: then both
    /// halves of every other divided block are used, so that divided blocks of 2^i have at most `T(i - 1) + 2^(i-1)`. The others are
    /// objects of 2^i, at most M. So `T(i) <= T(i - 1) + M + 2^(i-1)`, and `T(log2 n) <= M(1 + log2 n) + n - 1`. A request that is
    /// refused needs all blocks used. With rounding, an object is less than twice what was requested: 2M for M.
    BinaryBuddy,
    /// `n M`, of simple segregated storage, whose classes are the multiples of a unit: each of c = n classes has at most as many blocks
    /// as were ever live at a time, at most M units of them.
    EveryClass,
    /// `2M(1 + log2 n)` and a page for each class, of Kingsley's allocator: as above, where a block is less than twice the request and
    /// classes are powers of two.
    PowerClasses {
        /// Bytes of a page.
        page_bytes: usize,
    },
    /// A page for every live unit, and one more, of those who give an empty page to whoever asks next, as long as no object is
    /// larger than half a page: when a page is refused, an object is in each.
    Pages {
        /// Bytes of a page.
        page_bytes: usize,
    },
    /// The pages that [`rtalloc::compact_fit::guarantee`] finds, where the derivation is: about (1 + f)M, f being the distance of
    /// classes, and what is left of pages, and so many not-full pages for each class.
    CompactFit {
        /// Not-full pages of a class.
        not_full: usize,
        /// Whether the ladder is the paper's.
        paper: bool,
    },
}

impl Guarantee {
    /// The guarantee of a subject, if one is known.
    #[must_use]
    pub fn of(subject: &Subject) -> Option<Self> {
        let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
        Some(match subject.name {
            "first-fit-address" | "linked-list" => Self::FirstFit,
            "best-fit" | "tree-best-fit" => Self::BestFit,
            "first-fit" | "next-fit" | "next-fit-lifo" | "fast-fit" | "fast-fit-leftmost" => Self::AnyFit,
            "tlsf" | "tlsf-exact" | "tlsf-thorough" => Self::GoodFit(32),
            "half-fit" => Self::HalfFit,
            "binary-buddy" | "bbuddy" | "buddy-system" => Self::BinaryBuddy,
            "simple-segregated" | "simple-segregated-8" => Self::EveryClass,
            "kingsley" => Self::PowerClasses { page_bytes },
            "reaps" | "reaps-8" | "regis1" | "regis1-8" | "regis2" | "regis2-8" | "bitframe" | "bitframe-8"
            | "bitframe-eager" | "bitframe-16" | "bitframe-4" | "bitframe-crossing" => Self::Pages { page_bytes },
            "compact-fit" => Self::CompactFit { not_full: 1, paper: false },
            "compact-fit-3" => Self::CompactFit { not_full: 3, paper: false },
            "compact-fit-9" => Self::CompactFit { not_full: 9, paper: false },
            "compact-fit-paper" => Self::CompactFit { not_full: 1, paper: true },
            _ => return None,
        })
    }

    /// In words.
    #[must_use]
    pub fn formula(&self) -> String {
        match self {
            Self::FirstFit => "M(1 + \u{2308}log2 n\u{2309})".into(),
            Self::AnyFit => "n(M - n + 1)".into(),
            Self::GoodFit(parts) => format!("n\u{b7}{}/{parts}\u{b7}(M - n + 1)", parts + 1),
            Self::BestFit => "M(n - 2)".into(),
            Self::HalfFit => "2M(1 + \u{2308}log2 n\u{2309})".into(),
            Self::BinaryBuddy => "2M(1 + \u{2308}log2 n\u{2309}) + n".into(),
            Self::EveryClass => "n\u{b7}M".into(),
            Self::PowerClasses { .. } => "2M(1 + log2 n) + a page for each class".into(),
            Self::Pages { .. } => "a page for every unit, and one".into(),
            Self::CompactFit { not_full, .. } => {
                format!("full pages, and {not_full} not-full for each class")
            }
        }
    }

    /// Bytes that blocks may have in a heap that is guaranteed to suffice; `None` where the guarantee does not speak of such sizes.
    #[must_use]
    pub fn bytes(&self, unit: Unit, m: usize, n: usize) -> Option<u64> {
        let logarithm = n.next_power_of_two().ilog2() as usize;
        let units = match *self {
            Self::FirstFit => m * (1 + logarithm),
            Self::BestFit if n >= 8 => m * (n - 2),
            Self::AnyFit | Self::BestFit => any_fit(m, n, n),
            Self::GoodFit(parts) => any_fit(m, n, n + n.div_ceil(parts as usize)),
            Self::HalfFit => 2 * m * (1 + logarithm),
            Self::BinaryBuddy => 2 * m * (1 + logarithm) + n,
            Self::EveryClass => m * n,
            Self::PowerClasses { page_bytes } => {
                2 * m * (1 + logarithm) + (logarithm + 2) * page_bytes.div_ceil(unit.bytes)
            }
            Self::Pages { page_bytes } if 2 * n * unit.bytes <= page_bytes => (m + 1) * page_bytes.div_ceil(unit.bytes),
            Self::Pages { .. } => return None,
            Self::CompactFit { not_full, paper: false } => return compact_fit::<DefaultLadder>(unit, m, n, not_full),
            Self::CompactFit { not_full, paper: true } => return compact_fit::<PaperLadder>(unit, m, n, not_full),
        };
        Some((units * unit.bytes) as u64)
    }
}

/// The most of `r(M - r + 1)` over r up to n, where a gap that is refused has less than `rounded` units.
fn any_fit(m: usize, n: usize, rounded: usize) -> usize {
    let most = n.min(m.div_ceil(2));
    (m - most + 1) * rounded.min(most + rounded - n)
}

fn compact_fit<L: Ladder>(unit: Unit, m: usize, n: usize, not_full: usize) -> Option<u64> {
    const BACK_BYTES: usize = 4;
    let (least, most) = (unit.request_bytes(1), unit.request_bytes(n));
    let pages = pages_of_bytes::<L, BACK_BYTES>(m * unit.bytes, least, most, |_| not_full).ok()?;
    Some(((pages + entry_pages::<L>(m)) * L::PAGE) as u64)
}

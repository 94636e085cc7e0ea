//! Proved heap sizes: a heap of such a size never refuses a request, as long as the program keeps at most `m` units
//! live and requests 1 to `n` units at a time.
//!
//! A guarantee is listed only where `docs/guarantees/` has its theorem: statement, assumptions, proof. All assume:
//!
//! - Blocks are allocated and freed, not resized.
//! - Alignments are at most the allocator's natural one, and an object of k units takes a block of k units (header
//!   included) before the allocator's own rounding.
//! - A few units at the ends of a heap are not blocks (end marks, alignment). They come on top.

use crate::compact_fit::BACK_BYTES;
use rtalloc::buddy::binary::LargestBlocks;
use rtalloc::compact_fit::guarantee::{entry_pages, pages_of_bytes};
use rtalloc::compact_fit::{DefaultLadder, Ladder, PaperLadder};
use rtalloc::limits::{Limit, largest_bytes, most_block_bytes, most_objects};

/// The unit that M and n are counted in: a block of `k` units takes `k * bytes` bytes, of which `header_bytes` are the
/// allocator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Bytes of the smallest block.
    pub bytes: usize,
    /// Bytes of a block that cannot be requested.
    pub header_bytes: usize,
}

impl Unit {
    /// The request for a block of `units` units, in bytes.
    #[must_use]
    pub fn request_bytes(&self, units: usize) -> usize {
        units * self.bytes - self.header_bytes
    }
}

/// A guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// `M(1 + ceil(log2 n))`, of first-fit in address order: published (Robson, "Worst case fragmentation of first fit
    /// and best fit storage allocation strategies", The Computer Journal 20, 1977), in the form that o1heap's
    /// documentation quotes. Its full proof is not in this repository.
    FirstFit,
    /// `n(M - n + 1)`, or the maximum of `r(M - r + 1)` over r up to n, of every allocator that coalesces immediately
    /// and refuses a request only if no gap is as large.
    AnyFit,
    /// The same with the request first rounded up by at most one part in this many, as TLSF does to find a class.
    GoodFit(u32),
    /// `n'(M - n'/2)`, n' being n rounded up to a power of two, of half-fit.
    HalfFit {
        /// Whether blocks are powers of two.
        is_rounded: bool,
    },
    /// `(u + 1) n' - 1`, n' being n rounded up to a power of two, of the binary buddy: [`LargestBlocks`] computes u.
    /// Theorem and proof: `docs/guarantees/binary-buddy.md`; here for a heap that begins anywhere.
    BinaryBuddy,
    /// The sum of `k floor(M / k)` over k from 1 to n, at most `n M`, of simple segregated storage, whose classes are
    /// the multiples of a unit: a class has at most as many blocks as were ever live at a time
    /// (`docs/guarantees/segregated.md`).
    EveryClass,
    /// The same over powers of two, of pools of these sizes; and a page for each class, of Kingsley's allocator: a class of 2^i serves objects
    /// of more than 2^(i-1), at most `M / (2^(i-1) + 1)` at a time.
    PowerClasses,
    /// A page for every live unit, and one more, of allocators that give an empty page to the next request, as long as
    /// no object is larger than half a page.
    Pages,
    /// The pages that [`rtalloc::compact_fit::guarantee`] computes, where the derivation is: about (1 + f)M, where f is
    /// the distance of classes, plus the unused ends of pages, plus the given number of not-full pages for each class.
    CompactFit {
        /// Not-full pages of a class.
        not_full: usize,
        /// Whether the ladder is the paper's.
        paper: bool,
    },
}

impl Guarantee {
    /// The file of `docs/guarantees/` with the theorem, without its ending.
    #[must_use]
    pub const fn theorem(&self) -> &'static str {
        match self {
            Self::FirstFit => "first-fit",
            Self::AnyFit | Self::GoodFit(_) | Self::HalfFit { .. } => "any-fit",
            Self::BinaryBuddy => "binary-buddy",
            Self::EveryClass | Self::PowerClasses => "segregated",
            Self::Pages => "pages",
            Self::CompactFit { .. } => "compact-fit",
        }
    }

    /// The formula as text.
    #[must_use]
    pub fn formula(&self) -> String {
        match self {
            Self::FirstFit => "M(1 + \u{2308}log2 n\u{2309})".into(),
            Self::AnyFit => "max r(M - r + 1), r \u{2264} n".into(),
            Self::GoodFit(parts) => format!("max (r + \u{2308}r/{parts}\u{2309})(M - r + 1), r \u{2264} n"),
            Self::HalfFit { .. } => "max r'(M - r + 1), r \u{2264} n, r' = 2^\u{2308}log2 r\u{2309}".into(),
            Self::BinaryBuddy => "(u + 1)n' - 1, u in blocks of n' = 2^\u{2308}log2 n\u{2309}".into(),
            Self::EveryClass => "the sum of k\u{230a}M/k\u{230b}, k to n".into(),
            Self::PowerClasses => "the sum of the peaks of classes, and for each a page, if there are pages".into(),
            Self::Pages => "a page for every unit, and one".into(),
            Self::CompactFit { not_full, .. } => {
                format!("full pages, and {not_full} not-full for each class")
            }
        }
    }

    /// Bytes of blocks in a heap that never refuses; `None` where the guarantee does not cover requests of `n` units.
    /// `page_bytes` is the page of the allocator, 0 where it has none.
    #[must_use]
    pub fn bytes(&self, page_bytes: usize, unit: Unit, m: usize, n: usize) -> Option<u64> {
        let logarithm = n.next_power_of_two().ilog2() as usize;
        let units = match *self {
            Self::FirstFit => m * (1 + logarithm),
            Self::AnyFit => most_with_gaps(m, n, |r| r),
            Self::GoodFit(parts) => most_with_gaps(m, n, |r| r + r.div_ceil(parts as usize)),
            Self::HalfFit { .. } => most_with_gaps(m, n, usize::next_power_of_two),
            Self::BinaryBuddy => {
                // Units instead of bytes.
                let limits = [Limit::live(m, 1, n)];
                let and = |blocks: LargestBlocks, log2| blocks.and(&[&limits], (1_usize << log2) >> 1, 1_usize << log2);
                ((0..=logarithm).fold(LargestBlocks::NONE, and).count() + 1) * n.next_power_of_two() - 1
            }
            Self::EveryClass => (1..=n).map(|k| k * (m / k)).sum(),
            Self::PowerClasses => {
                let page = page_bytes.div_ceil(unit.bytes);
                let of_class = |log2| (most_of(m, log2) << log2) + page;
                (0..=logarithm).map(of_class).sum()
            }
            Self::Pages if 2 * n * unit.bytes <= page_bytes => (m + 1) * page_bytes.div_ceil(unit.bytes),
            Self::Pages => return None,
            Self::CompactFit { not_full, paper: false } => return compact_fit::<DefaultLadder>(unit, m, n, not_full),
            Self::CompactFit { not_full, paper: true } => return compact_fit::<PaperLadder>(unit, m, n, not_full),
        };
        Some((units * unit.bytes) as u64)
    }
}

impl Guarantee {
    /// Bytes of blocks in a heap that never refuses a program within limits, where the guarantee follows from the most
    /// live units, the number of live objects and the largest request; `None` for the others.
    ///
    /// For any fit, the smaller of the two theorems in `docs/guarantees/any-fit.md`. `page_bytes` is the page of the
    /// allocator, 0 where it has none.
    #[must_use]
    pub fn bytes_within(&self, page_bytes: usize, unit: Unit, modes: &[&[Limit]]) -> Option<u64> {
        let m = most_block_bytes(modes, unit.bytes, unit.header_bytes).div_ceil(unit.bytes);
        let n = (largest_bytes(modes) + unit.header_bytes).div_ceil(unit.bytes);
        let objects = most_objects(modes, 1, usize::MAX);
        let (granted, searched) = match *self {
            Self::FirstFit => return self.bytes(0, unit, m, n),
            Self::AnyFit => (0, n),
            Self::GoodFit(parts) => (n.div_ceil(parts as usize), n + n.div_ceil(parts as usize)),
            Self::HalfFit { is_rounded: false } => (0, n.next_power_of_two()),
            Self::HalfFit { is_rounded: true } => {
                ((n.next_power_of_two() / 2).saturating_sub(1), n.next_power_of_two())
            }
            Self::Pages if 2 * largest_bytes(modes) <= page_bytes => {
                return (objects.checked_add(1)?.checked_mul(page_bytes)).map(|bytes| bytes as u64);
            }
            _ => return None,
        };
        let counted = objects.checked_mul(granted + searched - 1)?.checked_add(m)?.checked_mul(unit.bytes)? as u64;
        Some(counted.min(self.bytes(0, unit, m, n)?))
    }
}

/// The most live objects that are rounded up to 2^`log2` units.
fn most_of(m: usize, log2: usize) -> usize {
    m / if log2 == 0 { 1 } else { (1 << (log2 - 1)) + 1 }
}

/// The most of `(M - r + 1) R` over r up to n, where a request of r is refused if no gap has R units.
fn most_with_gaps(m: usize, n: usize, rounded: impl Fn(usize) -> usize) -> usize {
    (1..=n.min(m)).map(|r| (m - r + 1) * rounded(r)).max().unwrap_or(0)
}

fn compact_fit<L: Ladder>(unit: Unit, m: usize, n: usize, not_full: usize) -> Option<u64> {
    let (least, most) = (unit.request_bytes(1), unit.request_bytes(n));
    let pages = pages_of_bytes::<L, BACK_BYTES>(m * unit.bytes, least, most, |_| not_full).ok()?;
    Some(((pages + entry_pages::<L>(m)) * L::PAGE) as u64)
}

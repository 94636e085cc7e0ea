//! Allocators as the papers describe or publish them, where ours differ on purpose, and hypotheses about them.
//!
//! They serve the reproduction alone: a claim about the paper's program is decided with the paper's program. No table
//! of allocators has them; [`one`](crate::one) finds them by name.

mod half_fit;
mod headed;
mod paged;

pub use half_fit::OneListHigh;
pub use headed::Headed;
pub use paged::{PublishedReaps, PublishedRegis1, PublishedRegis2};

use crate::ablations::SimpleSegregated8;
use crate::adapter::{Ours, Target, ours, subject};
use crate::{About, Origin, Subject, WorstCases};
use rtalloc::mechanism::boundary_tag::TagHeap;
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::validation::Basic;
use rtalloc::mechanism::word::{Offset32, Offset32By8};
use rtalloc::{QuickFit, Tlsf};

/// All of them.
pub static AS_PUBLISHED: &[Subject] = &[
    ours::<HalfFitOneListHigh>("half-fit-one-list-high", GOOD_FIT),
    ours::<Tlsf<'static, 4>>("tlsf-j4", GOOD_FIT),
    ours::<QuickFit<'static, 4096, 8>>("quick-fit-8", About { worst_cases: WorstCases::QuickFit, ..About::NOTHING }),
    as_published::<Headed<Ours<TlsfBy8>, 4>>("tlsf-8-8", "segregated", GOOD_FIT),
    as_published::<Headed<Ours<SimpleSegregated8>, 4>>("sss-published", "segregated", CARVING),
    as_published::<PublishedRegis1>("regis1-published", "regional", PAGES),
    as_published::<PublishedRegis2>("regis2-published", "regional", PAGES),
    as_published::<PublishedReaps>("reaps-published", "regional", PAGES),
];

const GOOD_FIT: About = About { worst_cases: WorstCases::GoodFit, ..About::NOTHING };
const CARVING: About = About { worst_cases: WorstCases::Carving, ..About::NOTHING };
const PAGES: About = About { worst_cases: WorstCases::Pages, ..About::NOTHING };

const fn as_published<T: Target>(name: &'static str, family: &'static str, about: About) -> Subject {
    subject::<T>(name, Origin::Ours, family, "O(1)", about)
}

/// A hypothesis on the TLSF paper's half-fit (table VI): it searches from one list too high.
pub type HalfFitOneListHigh = TagHeap<'static, OneListHigh, Offset32, NoStats, Basic>;

/// TLSF with granules of 8 bytes, as on the 32-bit machines of the papers. With four more bytes before each block, its
/// headers are those of TLSF 2.x: size and previous block.
pub type TlsfBy8 = Tlsf<'static, 5, RoundUp, Offset32By8>;

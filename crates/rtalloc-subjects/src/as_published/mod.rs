//! Allocators as the papers describe or publish them, where ours differ on purpose, and hypotheses about them.
//!
//! They serve the reproduction alone: a claim about the paper's program is decided with the paper's program. No table
//! of allocators has them; [`one`](crate::one) finds them by name.

mod half_fit;

pub use half_fit::OneListHigh;

use crate::adapter::ours;
use crate::{About, Subject, WorstCases};
use rtalloc::Tlsf;
use rtalloc::mechanism::boundary_tag::TagHeap;
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::validation::Basic;
use rtalloc::mechanism::word::Offset32;

/// All of them.
pub static AS_PUBLISHED: &[Subject] =
    &[ours::<HalfFitOneListHigh>("half-fit-one-list-high", GOOD_FIT), ours::<Tlsf<'static, 4>>("tlsf-j4", GOOD_FIT)];

const GOOD_FIT: About = About { worst_cases: WorstCases::GoodFit, ..About::NOTHING };

/// A hypothesis on the TLSF paper's half-fit (table VI): it searches from one list too high.
pub type HalfFitOneListHigh = TagHeap<'static, OneListHigh, Offset32, NoStats, Basic>;

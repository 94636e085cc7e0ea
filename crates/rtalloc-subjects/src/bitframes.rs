//! Bitframe with the variants that the thesis proposes, at the thesis' quantum.

use crate::adapter::ours;
use crate::{About, Guarantee, Subject, WorstCases};
use rtalloc::bitmapped::bitframe::{BITFRAME_PAGE, Bitframe4, Bitframe16, BitframeCrossing, BitframeEager};

/// The thesis' quantum, in bytes.
pub const QUANTUM: usize = 8;

const ABOUT: About = About { worst_cases: WorstCases::Bitframes, guarantee: Some(Guarantee::Pages), ..About::NOTHING };

/// Bitframe with a decision of section 5.7 or footnotes 9 and 11: its name in tables, and the allocator. The base,
/// `bframe`, initialises pages as in footnote 11.
pub static VARIANTS: [(&str, Subject); 4] = [
    ("bframe, eager", ours::<BitframeEager<'static, BITFRAME_PAGE, QUANTUM>>("bitframe-8-eager", ABOUT)),
    ("bframe, 16 bits", ours::<Bitframe16<'static, BITFRAME_PAGE, QUANTUM>>("bitframe-8-16", ABOUT)),
    ("bframe, 4 chunks", ours::<Bitframe4<'static, BITFRAME_PAGE, QUANTUM>>("bitframe-8-4", ABOUT)),
    ("bframe, crossing", ours::<BitframeCrossing<'static, BITFRAME_PAGE, QUANTUM>>("bitframe-8-crossing", ABOUT)),
];

//! Allocators that only papers compare: parameters of the library's types that no user needs.
//!
//! # Figures
//!
//! <!-- figures: bbuddy bitframe-8 bitframe-eager bitframe-16 bitframe-4 bitframe-crossing -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `bbuddy` | 211, 225, 274 | 16 B | 32 B | 112 B, 112 B | -, 84.1 % (blocks up to 1,008 B) |
//! | `bitframe-8` | 332, 352, 180 | 0 B | 8 B | 16,384 B, 16,384 B | -, 29.2 % (blocks up to 512 B) |
//! | `bitframe-eager` | 3,039, 3,059, 180 | 0 B | 16 B | 16,384 B, 16,384 B | -, 28.1 % (blocks up to 1,024 B) |
//! | `bitframe-16` | 468, 491, 262 | 0 B | 16 B | 16,384 B, 16,384 B | -, 25.9 % (blocks up to 4,096 B) |
//! | `bitframe-4` | 327, 349, 180 | 0 B | 16 B | 16,384 B, 16,384 B | -, 28.1 % (blocks up to 1,024 B) |
//! | `bitframe-crossing` | 581, 625, 384 | 0 B | 16 B | 16,384 B, 16,384 B | -, 20.4 % (blocks up to 1,024 B) |
//!
//! Measured 2026-11-27 at db7faa7 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

use crate::adapter::ours;
use crate::{About, Guarantee, Subject, WorstCases};
use rtalloc::bitmapped::bitframe::{BITFRAME_PAGE, Eager, Lazy};
use rtalloc::buddy::binary::Binary;
use rtalloc::mechanism::buddy::{Buddies, Headers};
use rtalloc::mechanism::frame::Frames;
use rtalloc::mechanism::page;
use rtalloc::mechanism::policy_heap::PolicyHeap;
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{Bitframe, ClassRegions, Reaps, SimpleSegregated, SingleRegion};

/// The thesis' quantum, in bytes (Bitframe thesis 2012, 6.2). Its seven allocators are compared with classes and chunks
/// of this size.
pub const QUANTUM: usize = 8;

/// `bbuddy` (the thesis, 6.2): binary buddies of 32 to 1024 bytes with headers of 16.
pub type ThesisBuddy = PolicyHeap<'static, Buddies<ThesisSizes, Headers<16>, Offset32>, NoStats>;

/// The sizes of a [`ThesisBuddy`].
pub type ThesisSizes = Binary<32, 1024>;

/// `sss` (the thesis, 6.2): classes for requests of up to 512 bytes and their header.
pub type SimpleSegregated8 = SimpleSegregated<'static, QUANTUM, 65>;

/// `regis1` (the thesis, 6.2).
pub type SingleRegion8 = SingleRegion<'static, 1024, QUANTUM>;

/// `regis2` (the thesis, 6.2).
pub type ClassRegions8 = ClassRegions<'static, 1024, QUANTUM>;

/// `reaps` (the thesis, 6.2).
pub type Reaps8 = Reaps<'static, 1024, QUANTUM>;

/// `bframe` (the thesis, 6.2), with frames initialised on demand (footnote 11).
pub type Bitframe8 = Bitframe<'static, Frames<8, 8, 0>, Lazy, BITFRAME_PAGE, QUANTUM>;

/// Bitframe that initialises all frames of a page at once (the thesis, 5.5): a bound linear in the page.
pub type BitframeEager<const Q: usize = { page::QUANTUM }> =
    Bitframe<'static, Frames<8, 8, 0>, Eager, BITFRAME_PAGE, Q>;

/// Bitframe with frames of 16 chunks (footnote 9): three blocks of 5 chunks per frame instead of one in each 8.
pub type Bitframe16<const Q: usize = { page::QUANTUM }> = Bitframe<'static, Frames<16, 16, 0>, Lazy, BITFRAME_PAGE, Q>;

/// Bitframe with sequences of at most 4 chunks, and a third chunk size (5.7): two blocks per frame at least.
pub type Bitframe4<const Q: usize = { page::QUANTUM }> = Bitframe<'static, Frames<8, 4, 0>, Lazy, BITFRAME_PAGE, Q, 3>;

/// The same with sequences that cross frames (5.7): an operation updates up to three frames.
pub type BitframeCrossing<const Q: usize = { page::QUANTUM }> =
    Bitframe<'static, Frames<8, 4, 3>, Lazy, BITFRAME_PAGE, Q, 3>;

const ABOUT: About = About { worst_cases: WorstCases::Bitframes, guarantee: Some(Guarantee::Pages), ..About::NOTHING };

/// Bitframe with a decision of section 5.7 or footnotes 9 and 11 at the thesis' quantum: its name in tables, and the
/// allocator. The base is `bframe`.
pub static BITFRAMES: [(&str, Subject); 4] = [
    ("bframe, eager", ours::<BitframeEager<QUANTUM>>("bitframe-8-eager", ABOUT)),
    ("bframe, 16 bits", ours::<Bitframe16<QUANTUM>>("bitframe-8-16", ABOUT)),
    ("bframe, 4 chunks", ours::<Bitframe4<QUANTUM>>("bitframe-8-4", ABOUT)),
    ("bframe, crossing", ours::<BitframeCrossing<QUANTUM>>("bitframe-8-crossing", ABOUT)),
];

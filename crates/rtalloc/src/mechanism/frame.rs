//! Bitframes: a few chunks of memory with one bit each, and the searches on these bits.
//!
//! A frame has one bit per chunk that is set while the chunk is allocated, and one that is set where a block ends (the
//! *termination bits*). The search needs the length of the longest run of free chunks, and where it begins. The thesis
//! looks both up in tables (5.1):
//!
//! ```text
//! bits      0 1 1 0 0 0 1 0      chunk 0 is the rightmost
//! longest         3              LONGEST[0b0110_0010]
//! its place       2              PLACE[0b0110_0010]
//! ```
//!
//! | shape | chunks, longest run | tables |
//! |---|---|---|
//! | `Frames<8, 8, 0>` | 8, 8: the thesis, 5.2 | 2 of 2^8 bytes |
//! | `Frames<16, 16, 0>` | 16, 16: its footnote 9 | none: 2 of 2^16 bytes would be too much, so the runs are computed by halving |
//! | `Frames<8, 4, 0>` | 8, 4: sequences of at most 4 chunks (5.7) | 2 of 2^8 bytes |
//! | `Frames<8, 4, 3>` | 8 and the first 3 of the next frame, 4: sequences that cross frames (5.7) | 2 of 2^11 bytes |
//! | `Frames<4, 4, 0>`, `Frames<4, 2, 0>`, `Frames<4, 2, 1>` | half of the thesis', for pages of a few hundred bytes | 2 of 2^4, 2^5 bytes |
//!
//! Where a shape looks ahead, a run begins in one frame and may end in the next.

use crate::contract::{LoopBound, loop_bound};
use crate::mechanism::sealed::Sealed;

/// A shape of frames.
pub trait Shape: Sealed + Copy + core::fmt::Debug + 'static {
    /// The integer with a bit per chunk.
    type Word: Copy + core::fmt::Debug + Into<u32> + 'static;
    /// Chunks of a frame.
    const CHUNKS: usize;
    /// Chunks of the longest sequence, a power of two.
    const LONGEST: usize;
    /// Chunks of the next frame that a sequence can reach: none, or one less than the longest.
    const AHEAD: usize;
    /// Names of the heap with such frames: with lazy and with eager initialisation of pages.
    const NAMES: [&'static str; 2];
    /// The policy in words.
    const POLICY: &'static str;

    /// Converts bits to the word.
    fn word(bits: u32) -> Self::Word;
    /// Length of the longest run of clear bits that begins below [`CHUNKS`](Self::CHUNKS), at most
    /// [`LONGEST`](Self::LONGEST). `bits` has `CHUNKS + AHEAD` bits.
    fn longest(bits: u32) -> usize;
    /// Where the first run of that length begins; unspecified if there is none.
    fn place(bits: u32) -> usize;
}

/// Frames of `CHUNKS` chunks that allocate sequences of up to `LONGEST` chunks, of which the last `AHEAD` may be in the
/// next frame.
#[derive(Clone, Copy, Debug)]
pub struct Frames<const CHUNKS: usize, const LONGEST: usize, const AHEAD: usize>;

impl<const CHUNKS: usize, const LONGEST: usize, const AHEAD: usize> Sealed for Frames<CHUNKS, LONGEST, AHEAD> {}

/// The longest run and its place, found bit by bit: the contents of the tables.
const fn scanned(bits: usize, chunks: usize, longest: usize, ahead: usize) -> (u8, u8) {
    let (mut best, mut place) = (0, 0);
    let mut start = 0;
    while start < chunks {
        let mut length = 0;
        while length < longest && start + length < chunks + ahead && bits >> (start + length) & 1 == 0 {
            length += 1;
        }
        if length > best {
            (best, place) = (length, start);
        }
        start += 1;
    }
    (best as u8, place as u8)
}

/// A shape with tables of `$entries` entries: two to the power of the bits it looks at.
macro_rules! tabled {
    ($chunks:literal, $longest:literal, $ahead:literal, $entries:literal, $names:expr, $policy:literal) => {
        impl Frames<$chunks, $longest, $ahead> {
            /// `lookup_longest` and `lookup_longest_idx` of the thesis.
            const TABLES: &'static ([u8; $entries], [u8; $entries]) = &{
                let mut tables = ([0; $entries], [0; $entries]);
                let mut bits = 0;
                while bits < $entries {
                    (tables.0[bits], tables.1[bits]) = scanned(bits, $chunks, $longest, $ahead);
                    bits += 1;
                }
                tables
            };
        }

        impl Shape for Frames<$chunks, $longest, $ahead> {
            type Word = u8;
            const CHUNKS: usize = $chunks;
            const LONGEST: usize = $longest;
            const AHEAD: usize = $ahead;
            const NAMES: [&'static str; 2] = $names;
            const POLICY: &'static str = $policy;

            #[inline(always)]
            fn word(bits: u32) -> u8 {
                bits as u8
            }

            #[inline(always)]
            fn longest(bits: u32) -> usize {
                Self::TABLES.0[bits as usize & ($entries - 1)] as usize
            }

            #[inline(always)]
            fn place(bits: u32) -> usize {
                Self::TABLES.1[bits as usize & ($entries - 1)] as usize
            }
        }
    };
}

tabled!(8, 8, 0, 256, ["bitframe", "bitframe-eager"], "good fit, frames of 8");
tabled!(8, 4, 0, 256, ["bitframe-4", "bitframe-4-eager"], "good fit, frames of 8, at most 4 chunks");
tabled!(
    8,
    4,
    3,
    2048,
    ["bitframe-crossing", "bitframe-crossing-eager"],
    "good fit, at most 4 chunks across frames of 8"
);
tabled!(4, 4, 0, 16, ["bitframe", "bitframe-eager"], "good fit, frames of 4");
tabled!(4, 2, 0, 16, ["bitframe-4", "bitframe-4-eager"], "good fit, frames of 4, at most 2 chunks");
tabled!(4, 2, 1, 32, ["bitframe-crossing", "bitframe-crossing-eager"], "good fit, at most 2 chunks across frames of 4");

impl Frames<16, 16, 0> {
    /// The places where runs of the longest length begin, and that length.
    ///
    /// A run of 2k begins where a run of k begins and another run of k follows it. So the places of runs of 2, 4, 8 and
    /// 16 follow from those of runs half as long. The length is then found from its highest bit down: each step keeps
    /// the places whose run continues for that many more chunks, if there is one.
    #[inline(always)]
    fn runs(bits: u32) -> (u32, usize) {
        let ones = !bits & 0xFFFF;
        let twos = ones & ones >> 1;
        let fours = twos & twos >> 2;
        let eights = fours & fours >> 4;
        let sixteens = eights & eights >> 8;
        if sixteens != 0 {
            return (sixteens, 16);
        }
        let (mut places, mut length) = (0xFFFF, 0);
        if eights != 0 {
            (places, length) = (eights, 8);
        }
        for (runs, more) in [(fours, 4), (twos, 2), (ones, 1)] {
            loop_bound!(LoopBound::Fixed(3));
            let longer = places & runs >> length;
            if longer != 0 {
                (places, length) = (longer, length + more);
            }
        }
        (places, length)
    }
}

impl Shape for Frames<16, 16, 0> {
    type Word = u16;
    const CHUNKS: usize = 16;
    const LONGEST: usize = 16;
    const AHEAD: usize = 0;
    const NAMES: [&'static str; 2] = ["bitframe-16", "bitframe-16-eager"];
    const POLICY: &'static str = "good fit, frames of 16";

    #[inline(always)]
    fn word(bits: u32) -> u16 {
        bits as u16
    }

    #[inline(always)]
    fn longest(bits: u32) -> usize {
        Self::runs(bits).1
    }

    #[inline(always)]
    fn place(bits: u32) -> usize {
        Self::runs(bits).0.trailing_zeros() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_what_a_scan_finds<S: Shape>() {
        for bits in 0..1usize << (S::CHUNKS + S::AHEAD) {
            let (longest, place) = scanned(bits, S::CHUNKS, S::LONGEST, S::AHEAD);
            assert_eq!(S::longest(bits as u32), longest as usize, "{bits:#b}");
            assert!(longest == 0 || S::place(bits as u32) == place as usize, "{bits:#b}");
        }
    }

    #[test]
    fn runs_are_what_a_scan_finds() {
        is_what_a_scan_finds::<Frames<8, 8, 0>>();
        is_what_a_scan_finds::<Frames<16, 16, 0>>();
        is_what_a_scan_finds::<Frames<8, 4, 0>>();
        is_what_a_scan_finds::<Frames<8, 4, 3>>();
        is_what_a_scan_finds::<Frames<4, 4, 0>>();
        is_what_a_scan_finds::<Frames<4, 2, 0>>();
        is_what_a_scan_finds::<Frames<4, 2, 1>>();
    }

    #[test]
    fn the_drawn_example() {
        type S = Frames<8, 8, 0>;
        assert_eq!((S::longest(0b0110_0010), S::place(0b0110_0010)), (3, 2));
        assert_eq!((S::longest(0), S::place(0), S::longest(0xFF)), (8, 0, 0));
    }
}

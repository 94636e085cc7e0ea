//! Compact-fit with the parameters of the paper's experiments (2008, section 5).

use super::Subject;
use super::handles::{AsDefault, Choice, subject};
use rtalloc::CompactFit;
use rtalloc::compact_fit::{CompactFitConfig, DefaultLadder, Ladder, PaperLadder};
use rtalloc::mechanism::tally::{Tally, Untallied};

/// A number of not-full pages for every class.
#[derive(Clone, Copy, Debug)]
pub struct NotFull<const PAGES: u32>;

impl<const PAGES: u32, L: Ladder, T: Tally, const IOTA: usize> Choice<CompactFit<'static, L, T, IOTA>>
    for NotFull<PAGES>
{
    fn config() -> CompactFitConfig {
        CompactFitConfig::with_most_not_full(PAGES)
    }
}

/// The numbers of figure 7: two not-full pages in the classes 15 to 18 and 28 to 29, three in 19 to 27, one elsewhere. The paper
/// counts classes from 1.
#[derive(Clone, Copy, Debug)]
pub struct Tuned;

impl Tuned {
    const CONFIG: CompactFitConfig = {
        let mut config = CompactFitConfig::with_most_not_full(1);
        let mut number = 15;
        while number <= 29 {
            config = config.and_class(number - 1, if number >= 19 && number <= 27 { 3 } else { 2 });
            number += 1;
        }
        config
    };
}

impl<L: Ladder, T: Tally, const IOTA: usize> Choice<CompactFit<'static, L, T, IOTA>> for Tuned {
    fn config() -> CompactFitConfig {
        Self::CONFIG
    }
}

/// Not-full pages enough that nothing is ever moved.
const WIDELY: u32 = u32::MAX;

/// Those of the table of subjects: of partial compaction, as much as figure 7 uses at most and as much as figure 8 does.
pub const NAMED: [Subject; 5] = [
    subject::<CompactFit<'static>, AsDefault>("compact-fit"),
    subject::<CompactFit<'static>, NotFull<3>>("compact-fit-3"),
    subject::<CompactFit<'static>, NotFull<9>>("compact-fit-9"),
    subject::<CompactFit<'static, DefaultLadder, Untallied, 256>, AsDefault>("compact-fit-iota"),
    subject::<Moving, AsDefault>("compact-fit-paper"),
];

/// An implementation as the paper calls it.
pub type Variant = (&'static str, Subject);

type Moving = CompactFit<'static, PaperLadder>;

/// Full compaction.
pub const FULL: &[Variant] = &[("CFM", subject::<Moving, NotFull<1>>("compact-fit-paper"))];
/// No compaction at all.
pub const WIDE: &[Variant] = &[("CFM", subject::<Moving, NotFull<WIDELY>>("compact-fit-paper"))];
/// As in figure 7c.
pub const RATE_MONOTONIC: &[Variant] = &[("CFM", subject::<Moving, Tuned>("compact-fit-paper"))];
/// With 1 to 9 not-full pages, as in figure 8.
pub const PARTIAL: &[Subject] = &[
    subject::<Moving, NotFull<1>>("compact-fit-paper"),
    subject::<Moving, NotFull<2>>("compact-fit-paper"),
    subject::<Moving, NotFull<3>>("compact-fit-paper"),
    subject::<Moving, NotFull<4>>("compact-fit-paper"),
    subject::<Moving, NotFull<5>>("compact-fit-paper"),
    subject::<Moving, NotFull<6>>("compact-fit-paper"),
    subject::<Moving, NotFull<7>>("compact-fit-paper"),
    subject::<Moving, NotFull<8>>("compact-fit-paper"),
    subject::<Moving, NotFull<9>>("compact-fit-paper"),
];
/// Full compaction by block-frame; `None`: the moving implementation.
pub const FRAMES: &[(Option<u64>, Subject)] = &[(None, subject::<Moving, NotFull<1>>("compact-fit-paper"))];

/// Bytes of a page-block by class, of the subjects of the table; empty for others.
#[must_use]
pub fn blocks_of(name: &str) -> Vec<usize> {
    fn of<L: Ladder>() -> Vec<usize> {
        L::TABLE[..L::CLASSES].iter().map(|class| class.block_bytes as usize).collect()
    }
    match name {
        "compact-fit" | "compact-fit-3" | "compact-fit-9" | "compact-fit-iota" => of::<DefaultLadder>(),
        "compact-fit-paper" => of::<PaperLadder>(),
        _ => Vec::new(),
    }
}

//! Compact-fit with the parameters of the paper's experiments (2008, section 5).

use crate::adapter::Choice;
use crate::handles::subject;
use crate::{About, Subject, WorstCases};
use rtalloc::compact_fit::guarantee::{entry_pages, pages_within};
use rtalloc::compact_fit::{CompactFitConfig, FrameByFrame, Ladder, NonMovingConfig, PaperLadder};
use rtalloc::limits::{Limit, most_objects};
use rtalloc::{CompactFit, CompactFitNonMoving, HandleAllocator};

/// A number of not-full pages for every class.
#[derive(Clone, Copy, Debug)]
pub struct NotFull<const PAGES: u32>;

impl<const PAGES: u32> Choice<CompactFitConfig> for NotFull<PAGES> {
    fn config() -> CompactFitConfig {
        CompactFitConfig::with_max_not_full(PAGES)
    }
}

impl<const PAGES: u32> Choice<NonMovingConfig> for NotFull<PAGES> {
    fn config() -> NonMovingConfig {
        CompactFitConfig::with_max_not_full(PAGES).into()
    }
}

/// The numbers of figure 7: two not-full pages in the classes 15 to 18 and 28 to 29, three in 19 to 27, one elsewhere.
/// The paper counts classes from 1.
#[derive(Clone, Copy, Debug)]
pub struct Tuned;

impl Tuned {
    const CONFIG: CompactFitConfig = {
        let mut config = CompactFitConfig::with_max_not_full(1);
        let mut number = 15;
        while number <= 29 {
            config = config.with_class(number - 1, if number >= 19 && number <= 27 { 3 } else { 2 });
            number += 1;
        }
        config
    };
}

impl Choice<CompactFitConfig> for Tuned {
    fn config() -> CompactFitConfig {
        Self::CONFIG
    }
}

impl Choice<NonMovingConfig> for Tuned {
    fn config() -> NonMovingConfig {
        Self::CONFIG.into()
    }
}

/// Bytes of a page-block that the moving heap uses for itself.
pub(crate) const BACK_BYTES: usize = 4;

/// Bytes of a region in which objects within the limits are never refused, with at most `NOT_FULL` not-full pages of
/// each class.
pub(crate) fn region_bytes_for<L: Ladder, const NOT_FULL: usize>(modes: &[&[Limit]]) -> usize {
    let Some(pages) = pages_within::<L, BACK_BYTES>(modes, NOT_FULL) else { return usize::MAX };
    let entries = entry_pages::<L>(most_objects(modes, 1, usize::MAX));
    let pages = pages.saturating_add(entries);
    let most_bytes = <CompactFit<'static, L> as HandleAllocator>::CONTRACT.max_span_bytes;
    match pages.checked_mul(L::PAGE) {
        Some(bytes) if bytes < most_bytes => {
            let region_bytes = CompactFit::<'static, L>::region_bytes(pages);
            if region_bytes <= most_bytes { region_bytes } else { usize::MAX }
        }
        _ => usize::MAX,
    }
}

/// Enough not-full pages that no object is ever moved.
const WIDELY: u32 = u32::MAX;

/// An implementation, with the paper's name.
pub type Variant = (&'static str, Subject);

type Moving = CompactFit<'static, PaperLadder>;
/// As in listing 5: freed frames are returned one by one.
type NonMoving<const FRAME: usize> = CompactFitNonMoving<'static, FrameByFrame<PaperLadder>, FRAME>;

const fn moving<C: Choice<CompactFitConfig>>() -> Subject {
    subject::<Moving, C>("compact-fit-paper", ABOUT)
}

const fn non_moving<const FRAME: usize, C: Choice<NonMovingConfig>>() -> Subject {
    subject::<NonMoving<FRAME>, C>("compact-fit-non-moving", ABOUT)
}

/// Variants are not in the table; only the fields that replays use are set.
const ABOUT: About = About { worst_cases: WorstCases::Compacting, ..About::NOTHING };

/// Bytes of a page-block by size class.
pub(crate) fn page_blocks<L: Ladder>() -> Vec<usize> {
    L::TABLE[..L::CLASSES].iter().map(|class| class.block_bytes as usize).collect()
}

/// Full compaction.
pub const FULL: &[Variant] = &[("CFM", moving::<NotFull<1>>()), ("CFNM", non_moving::<32, NotFull<1>>())];
/// No compaction at all.
pub const WIDE: &[Variant] = &[("CFM", moving::<NotFull<WIDELY>>()), ("CFNM", non_moving::<32, NotFull<WIDELY>>())];
/// As in figure 7c. The classes of the non-moving implementation are multiples of a frame, to which the paper's bounds
/// do not apply: it compacts nothing.
pub const RATE_MONOTONIC: &[Variant] = &[("CFM", moving::<Tuned>()), ("CFNM", non_moving::<32, NotFull<WIDELY>>())];
/// With 1 to 9 not-full pages, as in figure 8.
pub const PARTIAL: &[Subject] = &[
    moving::<NotFull<1>>(),
    moving::<NotFull<2>>(),
    moving::<NotFull<3>>(),
    moving::<NotFull<4>>(),
    moving::<NotFull<5>>(),
    moving::<NotFull<6>>(),
    moving::<NotFull<7>>(),
    moving::<NotFull<8>>(),
    moving::<NotFull<9>>(),
];
/// Full compaction by block-frame; `None`: the moving implementation.
pub const FRAMES: &[(Option<u64>, Subject)] = &[
    (None, moving::<NotFull<1>>()),
    (Some(16), non_moving::<16, NotFull<1>>()),
    (Some(32), non_moving::<32, NotFull<1>>()),
    (Some(64), non_moving::<64, NotFull<1>>()),
    (Some(128), non_moving::<128, NotFull<1>>()),
    (Some(256), non_moving::<256, NotFull<1>>()),
    (Some(512), non_moving::<512, NotFull<1>>()),
];

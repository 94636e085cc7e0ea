//! Compact-fit with the parameters of the paper's experiments (2008, section 5).

use super::Subject;
use super::adapter::{AsDefault, Choice};
use super::handles::{ReadEntry, count_call, subject};
use pathbound::image::Process;
use rtalloc::HandleAllocator as _;
use rtalloc::compact_fit::{CompactFitConfig, DefaultLadder, Framed, Ladder, NonMovingConfig, PaperLadder};
use rtalloc::mechanism::tally::Untallied;
use rtalloc::{CompactFit, CompactFitNonMoving};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A number of not-full pages for every class.
#[derive(Clone, Copy, Debug)]
pub struct NotFull<const PAGES: u32>;

impl<const PAGES: u32> Choice<CompactFitConfig> for NotFull<PAGES> {
    fn config() -> CompactFitConfig {
        CompactFitConfig::with_most_not_full(PAGES)
    }
}

impl<const PAGES: u32> Choice<NonMovingConfig> for NotFull<PAGES> {
    fn config() -> NonMovingConfig {
        CompactFitConfig::with_most_not_full(PAGES).into()
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

/// Not-full pages enough that nothing is ever moved.
const WIDELY: u32 = u32::MAX;

/// Those of the table of subjects: of partial compaction, as much as figure 7 uses at most and as much as figure 8 does.
pub const NAMED: [Subject; 6] = [
    subject::<CompactFit<'static>, AsDefault>("compact-fit"),
    subject::<CompactFit<'static>, NotFull<3>>("compact-fit-3"),
    subject::<CompactFit<'static>, NotFull<9>>("compact-fit-9"),
    subject::<CompactFit<'static, DefaultLadder, Untallied, 256>, AsDefault>("compact-fit-iota"),
    subject::<CompactFitNonMoving<'static>, AsDefault>(NON_MOVING),
    subject::<Moving, AsDefault>(PAPER),
];

/// An implementation as the paper calls it.
pub type Variant = (&'static str, Subject);

type Moving = CompactFit<'static, PaperLadder>;
type NonMoving<const FRAME: usize> = CompactFitNonMoving<'static, PaperLadder, FRAME>;

const PAPER: &str = "compact-fit-paper";
const NON_MOVING: &str = "compact-fit-non-moving";

/// Full compaction.
pub const FULL: &[Variant] =
    &[("CFM", subject::<Moving, NotFull<1>>(PAPER)), ("CFNM", subject::<NonMoving<32>, NotFull<1>>(NON_MOVING))];
/// No compaction at all.
pub const WIDE: &[Variant] = &[
    ("CFM", subject::<Moving, NotFull<WIDELY>>(PAPER)),
    ("CFNM", subject::<NonMoving<32>, NotFull<WIDELY>>(NON_MOVING)),
];
/// As in figure 7c.
pub const RATE_MONOTONIC: &[Variant] =
    &[("CFM", subject::<Moving, Tuned>(PAPER)), ("CFNM", subject::<NonMoving<32>, Tuned>(NON_MOVING))];
/// With 1 to 9 not-full pages, as in figure 8.
pub const PARTIAL: &[Subject] = &[
    subject::<Moving, NotFull<1>>(PAPER),
    subject::<Moving, NotFull<2>>(PAPER),
    subject::<Moving, NotFull<3>>(PAPER),
    subject::<Moving, NotFull<4>>(PAPER),
    subject::<Moving, NotFull<5>>(PAPER),
    subject::<Moving, NotFull<6>>(PAPER),
    subject::<Moving, NotFull<7>>(PAPER),
    subject::<Moving, NotFull<8>>(PAPER),
    subject::<Moving, NotFull<9>>(PAPER),
];
/// Full compaction by block-frame; `None`: the moving implementation.
pub const FRAMES: &[(Option<u64>, Subject)] = &[
    (None, subject::<Moving, NotFull<1>>(PAPER)),
    (Some(16), subject::<NonMoving<16>, NotFull<1>>(NON_MOVING)),
    (Some(32), subject::<NonMoving<32>, NotFull<1>>(NON_MOVING)),
    (Some(64), subject::<NonMoving<64>, NotFull<1>>(NON_MOVING)),
    (Some(128), subject::<NonMoving<128>, NotFull<1>>(NON_MOVING)),
    (Some(256), subject::<NonMoving<256>, NotFull<1>>(NON_MOVING)),
    (Some(512), subject::<NonMoving<512>, NotFull<1>>(NON_MOVING)),
];

/// Bytes of a page-block by class, of the subjects of the table; empty for others.
#[must_use]
pub fn blocks_of(name: &str) -> Vec<usize> {
    fn of<L: Ladder>() -> Vec<usize> {
        L::TABLE[..L::CLASSES].iter().map(|class| class.block_bytes as usize).collect()
    }
    match name {
        "compact-fit" | "compact-fit-3" | "compact-fit-9" | "compact-fit-iota" => of::<DefaultLadder>(),
        NON_MOVING => of::<Framed<DefaultLadder, 32>>(),
        PAPER => of::<PaperLadder>(),
        _ => Vec::new(),
    }
}

/// Instructions to read a byte of an object through its abstract address, of the moving implementation.
///
/// # Errors
///
/// Why they cannot be counted.
pub fn abstract_read(process: &Process) -> Result<u64, String> {
    let mut memory = vec![MaybeUninit::new(0); 1 << 20];
    let mut heap: CompactFit<'_, PaperLadder> =
        CompactFit::new(&mut memory, CompactFitConfig::default()).map_err(|error| error.to_string())?;
    let handle = heap.allocate(100).map_err(|error| error.to_string())?;
    let place = heap.abstract_address(handle).map_err(|error| error.to_string())?;
    count_call(process, read_indirectly as *const () as usize as u64, |entry| {
        // SAFETY: the copy of a function is called as the function is.
        let read = unsafe { std::mem::transmute::<*const c_void, ReadEntry>(entry) };
        // SAFETY: the object is live and longer than the offset; its memory was zero before.
        unsafe { read(std::ptr::null_mut(), place.as_ptr().cast(), 70) };
    })
}

/// Reads a byte of an object whose address is kept at a place.
#[inline(never)]
unsafe extern "C" fn read_indirectly(_context: *mut c_void, place: *mut u8, offset: usize) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { place.cast::<*const u8>().read().add(offset).read() }
}

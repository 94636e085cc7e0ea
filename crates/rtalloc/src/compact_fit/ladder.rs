//! Size classes as a type: each an eighth larger than the one before, up to the page itself.
//!
//! ```text
//! S_1 = FIRST      S_k = S_(k-1) * 9/8, rounded up to GRAIN      ... while below the page      S_n = PAGE
//!
//! 32  48  64  80  96  112  128  144  176  208 ...  14,752  16,384      GRAIN = 16: 45 classes
//! 32  36  44  52  60   68   80   92  104  120 ...   8,424  16,384      GRAIN = 4, the paper's 46 classes
//! ```
//!
//! (Compact-fit 2008, section 2.4 and equation 1 with f = 1/8.) One lookup in a table with an entry for every GRAIN
//! bytes finds the class of a size, always with the same few instructions.

use crate::mechanism::sealed::Sealed;

/// The properties common to all pages of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeClass {
    /// The bits of the last row of a page's bitmap that belong to page-blocks.
    pub tail: usize,
    /// Bytes of a page-block.
    pub block_bytes: u32,
    /// Page-blocks of a page: B.
    pub blocks: u16,
    /// Half of them, rounded down: a page with at most this many used page-blocks is at most half full.
    pub half: u16,
    /// Number of the last row.
    pub tail_row: u16,
    /// The header state of a page whose first page-block is used.
    pub(crate) opened: State,
}

/// The state of a page's page-blocks in its header: the two-dimensional bitmap without its rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Used page-blocks.
    pub(crate) used: u16,
    /// The set of rows with a free page-block; 0 when the page is full.
    pub(crate) free_rows: u16,
    /// The set of rows with a used page-block.
    pub(crate) used_rows: u16,
    /// The class, or another use of the page.
    pub(crate) class: u8,
    /// Unused, so that there is no padding.
    pub(crate) spare: u8,
}

impl SizeClass {
    /// Fills the table after the last class.
    const NONE: Self = {
        let opened = State { used: 0, free_rows: 0, used_rows: 0, class: 0, spare: 0 };
        SizeClass { tail: 0, block_bytes: 0, blocks: 0, half: 0, tail_row: 0, opened }
    };

    /// The class with this number, of page-blocks of `block_bytes` in pages of `page_bytes`.
    const fn of(class: usize, page_bytes: usize, block_bytes: usize) -> Self {
        let blocks = page_bytes / block_bytes;
        let tail_row = (blocks - 1) / usize::BITS as usize;
        let tail_blocks = blocks - tail_row * usize::BITS as usize;
        SizeClass {
            tail: usize::MAX >> (usize::BITS as usize - tail_blocks),
            block_bytes: block_bytes as u32,
            blocks: blocks as u16,
            half: (blocks / 2) as u16,
            tail_row: tail_row as u16,
            opened: State {
                used: 1,
                free_rows: if blocks == 1 { 0 } else { (u32::MAX >> (31 - tail_row)) as u16 },
                used_rows: 1,
                class: class as u8,
                spare: 0,
            },
        }
    }
}

/// A number above that of the classes of any ladder.
pub(super) const MAX_CLASSES: usize = 128;

/// A ladder of size classes, numbered from 0. Sealed: unsafe code relies on its tables.
pub trait Ladder: Sealed + Copy + core::fmt::Debug + 'static {
    /// Bytes of a page, a power of two.
    const PAGE: usize;
    /// All page-block sizes are multiples of this power of two, so page-blocks are aligned to it.
    const GRAIN: usize;
    /// Number of classes.
    const CLASSES: usize;
    /// Page-blocks of a page of the smallest class: no page has more.
    const MAX_BLOCKS: usize;
    /// The classes; entries after the last one are unused.
    const TABLE: &'static [SizeClass; MAX_CLASSES];
    /// The class of every multiple of the grain, from one grain on.
    const LOOKUP: *const u8;
    /// Bytes of the block table in a page's header; 0 if the page-blocks are in the page itself.
    const BLOCK_TABLE_BYTES: usize = 0;
    /// Whether the block-frames of a freed object return to the free list one by one.
    const FRAME_BY_FRAME: bool = false;

    /// The properties of a class.
    ///
    /// # Safety
    ///
    /// `class` is below [`CLASSES`](Self::CLASSES).
    #[inline(always)]
    unsafe fn size_class(class: usize) -> &'static SizeClass {
        // SAFETY: `class` is below the number of classes, all of which are in the table.
        unsafe { Self::TABLE.get_unchecked(class) }
    }

    /// The class with the smallest page-blocks that hold `bytes`.
    ///
    /// # Safety
    ///
    /// `bytes` is from 1 to [`PAGE`](Self::PAGE).
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    unsafe fn class_of(bytes: usize) -> usize {
        // SAFETY: `bytes` is from 1 to a page, and the table has an entry for every grain of a page.
        unsafe { Self::LOOKUP.add(bytes.wrapping_sub(1) >> Self::GRAIN.trailing_zeros()).read().into() }
    }
}

/// Classes from `FIRST` bytes on, each an eighth larger than the one before and rounded up to `GRAIN` bytes, as long as
/// they are smaller than a page of `PAGE` bytes and there are at most `MOST`; then one class of the size of the page.
#[derive(Clone, Copy, Debug)]
pub struct Geometric<const PAGE: usize, const FIRST: usize, const GRAIN: usize, const MOST: usize = { usize::MAX }>;

/// 16 KiB pages, page-blocks from 32 bytes on, with the alignment of C's `malloc`: 45 classes on 64 bits.
pub type DefaultLadder = Geometric<16384, 32, { 2 * size_of::<usize>() }>;

/// The paper's 46 classes: 45 multiples of four below the page, and 16 KiB. Page-blocks are aligned to 4 bytes.
pub type PaperLadder = Geometric<16384, 32, 4, 45>;

impl<const PAGE: usize, const FIRST: usize, const GRAIN: usize, const MOST: usize> Geometric<PAGE, FIRST, GRAIN, MOST> {
    const VALID: () = {
        assert!(PAGE.is_power_of_two() && PAGE >= 1024 && PAGE <= 65536, "a page has 1 KB to 64 KB");
        assert!(GRAIN.is_power_of_two() && GRAIN >= 4, "back references are aligned to 4 bytes");
        assert!(PAGE / FIRST <= 16 * usize::BITS as usize, "a page has at most 16 rows of page-blocks");
        assert!(
            FIRST >= 16 && FIRST.is_multiple_of(GRAIN) && FIRST < PAGE,
            "the first class is a multiple of the grain"
        );
    };

    /// The page-block size after `bytes`.
    const fn next(bytes: usize) -> usize {
        (bytes + bytes.div_ceil(8)).next_multiple_of(GRAIN)
    }

    const CLASS_COUNT: usize = {
        const { Self::VALID };
        let (mut count, mut bytes) = (0, FIRST);
        while bytes < PAGE && count < MOST {
            bytes = Self::next(bytes);
            count += 1;
        }
        assert!(count < MAX_CLASSES, "too many classes");
        count + 1
    };

    const CLASS_TABLE: [SizeClass; MAX_CLASSES] = {
        let mut table = [SizeClass::NONE; MAX_CLASSES];
        let (mut class, mut bytes) = (0, FIRST);
        while class < Self::CLASS_COUNT {
            if class == Self::CLASS_COUNT - 1 {
                bytes = PAGE;
            }
            table[class] = SizeClass::of(class, PAGE, bytes);
            bytes = Self::next(bytes);
            class += 1;
        }
        table
    };
}

/// The lookup table of a ladder in `N` bytes, of which there is at least one for every grain of a page.
struct Lookup<L, const N: usize>(core::marker::PhantomData<L>);

impl<L: Ladder, const N: usize> Lookup<L, N> {
    const TABLE: &'static [u8; N] = &{
        let mut table = [0; N];
        let (mut index, mut class) = (0, 0);
        while index < N && index < L::PAGE / L::GRAIN {
            if (index + 1) * L::GRAIN > L::TABLE[class].block_bytes as usize {
                class += 1;
            }
            table[index] = class as u8;
            index += 1;
        }
        table
    };
}

/// The lookup table of a ladder.
#[inline(always)]
const fn lookup<L: Ladder>() -> *const u8 {
    match L::PAGE / L::GRAIN {
        0..=256 => Lookup::<L, 256>::TABLE.as_ptr(),
        257..=1024 => Lookup::<L, 1024>::TABLE.as_ptr(),
        1025..=4096 => Lookup::<L, 4096>::TABLE.as_ptr(),
        _ => Lookup::<L, 16384>::TABLE.as_ptr(),
    }
}

impl<const PAGE: usize, const FIRST: usize, const GRAIN: usize, const MOST: usize> Sealed
    for Geometric<PAGE, FIRST, GRAIN, MOST>
{
}

impl<const PAGE: usize, const FIRST: usize, const GRAIN: usize, const MOST: usize> Ladder
    for Geometric<PAGE, FIRST, GRAIN, MOST>
{
    const PAGE: usize = PAGE;
    const GRAIN: usize = GRAIN;
    const CLASSES: usize = Self::CLASS_COUNT;
    const MAX_BLOCKS: usize = PAGE / FIRST;
    const TABLE: &'static [SizeClass; MAX_CLASSES] = &Self::CLASS_TABLE;
    const LOOKUP: *const u8 = lookup::<Self>();
}

/// The ladder `L` for objects in block-frames of `FRAME` bytes: every size is rounded up to whole frames, and equal
/// sizes become one class (section 3.3). A page's header has a block table: 4 bytes for every frame of its page-blocks.
///
/// ```text
/// DefaultLadder            32  48 64  80 96  112 128  144 ...
/// Framed<DefaultLadder, 32> 32  64     96      128      160 ...
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Framed<L, const FRAME: usize>(core::marker::PhantomData<L>);

impl<L: Ladder, const FRAME: usize> Framed<L, FRAME> {
    const ROUNDED: (usize, [SizeClass; MAX_CLASSES]) = {
        assert!(FRAME.is_power_of_two() && FRAME >= 16, "a frame has a power of two of bytes, at least 16");
        assert!(FRAME * 4 <= L::PAGE, "a page holds frames and their entries");
        let mut table = [SizeClass::NONE; MAX_CLASSES];
        let (mut from, mut count) = (0, 0);
        while from < L::CLASSES {
            let block_bytes = (L::TABLE[from].block_bytes as usize).next_multiple_of(FRAME);
            if count == 0 || table[count - 1].block_bytes as usize != block_bytes {
                table[count] = SizeClass::of(count, L::PAGE, block_bytes);
                count += 1;
            }
            from += 1;
        }
        (count, table)
    };
}

impl<L: Ladder, const FRAME: usize> Sealed for Framed<L, FRAME> {}

impl<L: Ladder, const FRAME: usize> Ladder for Framed<L, FRAME> {
    const PAGE: usize = L::PAGE;
    const GRAIN: usize = FRAME;
    const CLASSES: usize = Self::ROUNDED.0;
    const MAX_BLOCKS: usize = Self::TABLE[0].blocks as usize;
    const TABLE: &'static [SizeClass; MAX_CLASSES] = &Self::ROUNDED.1;
    const LOOKUP: *const u8 = lookup::<Self>();
    const BLOCK_TABLE_BYTES: usize = L::PAGE / FRAME * size_of::<u32>();
}

/// The classes of `L`; a freed object of the non-moving implementation returns its block-frames one by one, as in the
/// paper's listing 5, and not as the chain that they are. For comparisons: a free costs one iteration per frame more.
#[derive(Clone, Copy, Debug)]
pub struct FrameByFrame<L>(core::marker::PhantomData<L>);

impl<L: Ladder> Sealed for FrameByFrame<L> {}

impl<L: Ladder> Ladder for FrameByFrame<L> {
    const PAGE: usize = L::PAGE;
    const GRAIN: usize = L::GRAIN;
    const CLASSES: usize = L::CLASSES;
    const MAX_BLOCKS: usize = L::MAX_BLOCKS;
    const TABLE: &'static [SizeClass; MAX_CLASSES] = L::TABLE;
    const LOOKUP: *const u8 = L::LOOKUP;
    const BLOCK_TABLE_BYTES: usize = L::BLOCK_TABLE_BYTES;
    const FRAME_BY_FRAME: bool = true;
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn sizes<L: Ladder>() -> Vec<usize> {
        L::TABLE[..L::CLASSES].iter().map(|class| class.block_bytes as usize).collect()
    }

    /// Every size has the class of its definition: S_(i-1) < size <= S_i.
    fn every_size_has_its_class<L: Ladder>() {
        let sizes = sizes::<L>();
        for bytes in 1..=L::PAGE {
            let expected = sizes.iter().position(|&size| bytes <= size).unwrap();
            // SAFETY: the size is at most that of a page.
            assert_eq!(unsafe { L::class_of(bytes) }, expected, "{bytes} bytes");
        }
        for (class, &size) in sizes.iter().enumerate() {
            let SizeClass { tail, blocks, half, tail_row, opened, .. } = L::TABLE[class];
            let (blocks, bits) = (usize::from(blocks), usize::BITS as usize);
            assert_eq!((blocks, usize::from(half)), (L::PAGE / size, L::PAGE / size / 2));
            assert_eq!(usize::from(opened.class), class);
            let rows = if blocks == 1 { 0 } else { blocks.div_ceil(bits) };
            assert_eq!(opened.free_rows.count_ones() as usize, rows);
            assert_eq!(usize::from(tail_row) + 1, blocks.div_ceil(bits));
            assert_eq!(usize::from(tail_row) * bits + tail.count_ones() as usize, blocks);
            assert!(size.is_multiple_of(L::GRAIN));
        }
    }

    #[test]
    fn classes_are_those_of_the_definition() {
        every_size_has_its_class::<DefaultLadder>();
        every_size_has_its_class::<PaperLadder>();
        every_size_has_its_class::<Geometric<1024, 32, 32>>();
        every_size_has_its_class::<Geometric<4096, 16, 16>>();
        every_size_has_its_class::<Geometric<65536, 128, 64>>();
        every_size_has_its_class::<Framed<DefaultLadder, 16>>();
        every_size_has_its_class::<Framed<DefaultLadder, 32>>();
        every_size_has_its_class::<Framed<PaperLadder, 32>>();
        every_size_has_its_class::<Framed<PaperLadder, 128>>();
        every_size_has_its_class::<Framed<Geometric<1024, 16, 16>, 256>>();
    }

    #[test]
    fn frames_round_sizes_up_and_make_equal_ones_one_class() {
        let sizes = sizes::<Framed<PaperLadder, 32>>();
        assert_eq!(sizes[..11], [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352]);
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
        assert_eq!(sizes.last(), Some(&16384));
        assert_eq!(Framed::<PaperLadder, 32>::BLOCK_TABLE_BYTES, 2048);
    }

    #[test]
    fn the_papers_ladder_has_46_classes() {
        let sizes = sizes::<PaperLadder>();
        assert_eq!(sizes.len(), 46);
        assert_eq!(sizes[..10], [32, 36, 44, 52, 60, 68, 80, 92, 104, 120]);
        assert_eq!(sizes[45], 16384);
        assert!(sizes.windows(2).take(44).all(|pair| pair[1] == (pair[0] * 9).div_ceil(8).next_multiple_of(4)));
        if size_of::<usize>() == 8 {
            assert_eq!(DefaultLadder::CLASSES, 45);
        }
    }
}

//! The recipes.
//!
//! Live blocks are drawn `L`, free ones `f`, the block of the last operation `*`.

use super::builder::ScriptBuilder;
use super::{Recipe, Scenario};
use crate::observe::Operation;
use crate::observe::script::Slot;
use rtalloc::concurrent::{PooledArenas, PooledArenasConfig};
use rtalloc_subjects::WorstCases::*;

const TLSF_PAPER: &str = "Masmano et al. 2008, section 6.1";
const PUAUT_ALLOCATE: &str = "Puaut 2002, section 3.1.1";
const PUAUT_FREE: &str = "Puaut 2002, section 3.1.2";
const COMPACT_FIT: &str = "Compact-fit 2008, section 2.6";
const FROM_THE_BOUND: &str = "ours, from the static bound";
const FROM_THE_CONTRACT: &str = "ours: the worst allocate, and the copy of a smallest block";

const THESIS: &str = "bitframe thesis 2012, section 6.3";

const WAIT_FREE: &str = "Wait-free DSA 2010, section 3.3 and Fig. 8";

/// Every scenario.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "one of a full page, while another page is not full",
        source: COMPACT_FIT,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[Compacting],
        build: of_a_full_page,
    },
    Scenario {
        name: "to another size class",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[Compacting],
        build: to_another_class,
    },
    Scenario {
        name: "one large free block, small request",
        source: TLSF_PAPER,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[],
        build: smallest_of_all,
    },
    Scenario {
        name: "both neighbours free",
        source: TLSF_PAPER,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[],
        build: both_neighbours_free,
    },
    Scenario {
        name: "moved, both neighbours free",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[],
        build: moved_from_between_free,
    },
    Scenario {
        name: "both neighbours free",
        source: TLSF_PAPER,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[GoodFit, HalfFit],
        build: both_neighbours_free,
    },
    Scenario {
        name: "both neighbours free, each alone in its list and range",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &[GoodFit, HalfFit],
        build: isolated_neighbours_free,
    },
    Scenario {
        name: "both neighbours free, neither alone in its list",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &[HalfFit],
        build: accompanied_neighbours_free,
    },
    Scenario {
        name: "smallest blocks alternately free and live, the last one fits",
        source: PUAUT_ALLOCATE,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[Sequential, AddressOrdered],
        build: alternating_allocate,
    },
    Scenario {
        name: "smallest blocks alternately free and live, moved to the last one",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[Sequential, AddressOrdered],
        build: alternating_reallocate,
    },
    Scenario {
        name: "both neighbours free",
        source: PUAUT_FREE,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[Sequential],
        build: both_neighbours_free,
    },
    Scenario {
        name: "smallest blocks alternately free and live, the last in the list",
        source: "ours: the last place of an address-ordered list",
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &[AddressOrdered],
        build: alternating_deallocate,
    },
    Scenario {
        name: "free blocks of all sizes, freed in the order of their sizes: a path, walked to its end",
        source: PUAUT_ALLOCATE,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[SplayTree],
        build: |r| {
            rising(r)?;
            r.allocate(r.smallest()).map(drop)
        },
    },
    Scenario {
        name: "both neighbours free, at the end of a path of all sizes",
        source: PUAUT_FREE,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[SplayTree],
        build: |r| {
            let block = rising(r)?;
            r.deallocate(block);
            Some(())
        },
    },
    Scenario {
        name: "moved from the end of a path of all sizes",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[SplayTree],
        build: |r| {
            let block = rising(r)?;
            r.reallocate(block, RISING_WIDE_GRANULES * r.granule())
        },
    },
    Scenario {
        name: "free blocks that grow with their addresses, freed downwards: a path, walked to its end",
        source: PUAUT_ALLOCATE,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[CartesianTree],
        build: |r| {
            descending(r)?;
            r.allocate(r.smallest()).map(drop)
        },
    },
    Scenario {
        name: "both neighbours free, at the end of a path of addresses",
        source: PUAUT_FREE,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[CartesianTree],
        build: |r| {
            let block = descending(r)?;
            r.deallocate(block);
            Some(())
        },
    },
    Scenario {
        name: "moved from the end of a path of addresses",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[CartesianTree],
        build: |r| {
            let block = descending(r)?;
            r.reallocate(block, (sizes_of_descending(r.heap_bytes()) + 2) * r.granule())
        },
    },
    Scenario {
        name: "one largest block free, smallest request",
        source: PUAUT_ALLOCATE,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[Buddies],
        build: |r| {
            one_largest_free(r)?;
            r.allocate(r.smallest()).map(drop)
        },
    },
    Scenario {
        name: "the only block of a largest one, of the smallest size",
        source: PUAUT_FREE,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[Buddies],
        build: |r| {
            one_largest_free(r)?;
            let block = r.allocate(r.smallest())?;
            r.deallocate(block);
            Some(())
        },
    },
    Scenario {
        name: "the only block of a largest one, its deepest; other blocks of every size free",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &[Buddies],
        build: deepest_of_largest,
    },
    Scenario {
        name: "the only block of a largest one, grown from the smallest size",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[Buddies],
        build: |r| {
            let largest = one_largest_free(r)?;
            let block = r.allocate(r.smallest())?;
            r.reallocate(block, (largest / 4).max(1))
        },
    },
    Scenario {
        name: "smallest request, no page of its size: a page is split",
        source: PUAUT_ALLOCATE,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[QuickFit],
        build: smallest_of_all,
    },
    Scenario {
        name: "pages alternately free and live, the last run fits",
        source: "Puaut 2002, section 5.1",
        operation: Operation::Allocate,
        recipe: Recipe::Harder,
        subjects: &[QuickFit],
        build: |r| {
            alternate(r, r.page())?;
            r.allocate(REQUEST_BLOCKS * r.page()).map(drop)
        },
    },
    Scenario {
        name: "the last fragment of a page between free pages",
        source: PUAUT_FREE,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[QuickFit],
        build: fragment_between_pages,
    },
    Scenario {
        name: "a fragment moved to the last run of pages alternately free and live",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[QuickFit],
        build: |r| {
            let page = alternate(r, r.page())?;
            r.deallocate(page);
            let block = r.allocate(r.smallest())?;
            r.reallocate(block, REQUEST_BLOCKS * r.page())
        },
    },
    Scenario {
        name: "a new page",
        source: THESIS,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[Pages],
        build: smallest_of_all,
    },
    Scenario {
        name: "a page that was given back",
        source: FROM_THE_BOUND,
        operation: Operation::Allocate,
        recipe: Recipe::Harder,
        subjects: &[Pages],
        build: |r| {
            only_block(r)?;
            r.allocate(r.smallest()).map(drop)
        },
    },
    Scenario {
        name: "the only block of a page",
        source: THESIS,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[Pages],
        build: only_block,
    },
    Scenario {
        name: "the last block of a page among others",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &[Pages],
        build: page_emptied,
    },
    Scenario {
        name: "moved to a new page from one that is given back",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[Pages],
        build: |r| {
            let block = r.allocate(r.smallest())?;
            // More than the remainder of the page, for allocators that cut blocks of any size off one.
            r.reallocate(block, r.largest_request())
        },
    },
    Scenario {
        name: "no page has a chunk free: a new page",
        source: THESIS,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[Bitframes],
        build: smallest_of_all,
    },
    Scenario {
        name: "a page that was given back",
        source: FROM_THE_BOUND,
        operation: Operation::Allocate,
        recipe: Recipe::Harder,
        subjects: &[Bitframes],
        build: |r| {
            only_block(r)?;
            r.allocate(r.smallest()).map(drop)
        },
    },
    Scenario {
        name: "the longest sequence of a page changes: frame and page change their lists",
        source: THESIS,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[Bitframes],
        build: longest_sequence,
    },
    Scenario {
        name: "the last block of a page among others",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &[Bitframes],
        build: page_emptied,
    },
    Scenario {
        name: "moved to a new page from one that is given back",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[Bitframes],
        build: |r| {
            let block = r.allocate(r.smallest())?;
            r.reallocate(block, r.largest_request())
        },
    },
    Scenario {
        name: "every second leaf live, two leaves requested",
        source: WAIT_FREE,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[CounterTree],
        build: |r| {
            every_second_leaf(r)?;
            r.refuse(r.granule() + 1)
        },
    },
    Scenario {
        name: "the largest block",
        source: WAIT_FREE,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[CounterTree],
        build: longest_block,
    },
    Scenario {
        name: "every second leaf live, one of them resized to two",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[CounterTree],
        build: |r| {
            let block = every_second_leaf(r)?;
            r.refuse_to_move(block, r.granule() + 1)
        },
    },
    Scenario {
        name: "every second chunk live, two chunks requested",
        source: FROM_THE_BOUND,
        operation: Operation::Allocate,
        recipe: Recipe::Harder,
        subjects: &[Pooled],
        build: |r| {
            every_second_chunk(r)?;
            r.allocate(two_chunks(r)).map(drop)
        },
    },
    Scenario {
        name: "the last block of a piece, between free ones, while another piece is empty",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &[Pooled],
        build: piece_emptied,
    },
    Scenario {
        name: "the longest block",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &[Pooled],
        build: longest_block,
    },
    Scenario {
        name: "every second chunk live, the only block of a piece moved to two chunks",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[Pooled],
        build: |r| {
            let block = every_second_chunk(r)?;
            r.reallocate(block, two_chunks(r))
        },
    },
    Scenario {
        name: "nothing free",
        source: FROM_THE_BOUND,
        operation: Operation::Allocate,
        recipe: Recipe::Harder,
        subjects: &[BitmapHierarchy],
        build: |r| {
            r.fill(LEAST);
            r.refuse(LEAST)
        },
    },
    Scenario {
        name: "the only block of a largest one, of the smallest size",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &[BitmapHierarchy],
        build: |r| {
            one_largest_free(r)?;
            let block = r.allocate(LEAST)?;
            r.deallocate(block);
            Some(())
        },
    },
    Scenario {
        name: "nothing free, a leaf resized to two",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[BitmapHierarchy],
        build: |r| {
            let block = r.fill(LEAST).pop()?;
            r.refuse_to_move(block, r.granule() + 1)
        },
    },
    Scenario {
        name: "an empty list: a block cut from new memory",
        source: THESIS,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: &[Carving],
        build: smallest_of_all,
    },
    Scenario {
        name: "any block",
        source: THESIS,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &[Carving],
        build: only_block,
    },
    Scenario {
        name: "moved to a block cut from new memory",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: &[Carving],
        build: |r| {
            let block = r.allocate(r.smallest())?;
            r.reallocate(block, r.largest_request().min(1000))
        },
    },
];

/// `[*|f............................]`
fn smallest_of_all(r: &mut ScriptBuilder<'_>) -> Option<()> {
    r.allocate(r.smallest()).map(drop)
}

/// `[f][*][f][L]`, all of one size.
fn both_neighbours_free(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let small = r.smallest();
    let [before, block, after, _fence] = several(r, [small; 4])?;
    r.deallocate_all([before, after, block]);
    Some(())
}

/// Sizes in bytes in different power-of-two ranges, with no other free block in any of them, that of the merged block
/// included.
const ISOLATED: [usize; 3] = [208, 1104, 5008];

/// `[f 208][* 1104][f 5008][L]`
fn isolated_neighbours_free(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let [before, block, after] = several(r, ISOLATED)?;
    r.allocate(r.smallest())?;
    r.deallocate_all([before, after, block]);
    Some(())
}

/// `[f 208][L][f 5008][L][f 208][* 1104][f 5008][L]`
fn accompanied_neighbours_free(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let small = r.smallest();
    let [older, _, old, _] = several(r, [ISOLATED[0], small, ISOLATED[2], small])?;
    let [before, block, after, _] = several(r, [ISOLATED[0], ISOLATED[1], ISOLATED[2], small])?;
    r.deallocate_all([older, old, before, after, block]);
    Some(())
}

/// `[f 208][* smallest][f 5008][L]`; the block is reallocated to more than all of them.
fn moved_from_between_free(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let small = r.smallest();
    let [before, block, after, _fence] = several(r, [ISOLATED[0], small, ISOLATED[2], small])?;
    r.deallocate_all([before, after]);
    r.reallocate(block, 2 * ISOLATED[2])
}

/// This many blocks at the end of the heap become one.
const WIDE_BLOCKS: usize = 6;
/// A request is for this many of them: more than a block and its two neighbours.
const REQUEST_BLOCKS: usize = 5;

/// `[L][f][L][f][L] ... [f][L][f wide]`: the wide block is the oldest and has the highest address, so a search finds it
/// last whatever the order of the list. Blocks are freed from the highest address down, which an address-ordered list
/// inserts at its head. Returns a live block between two free ones.
fn alternate(r: &mut ScriptBuilder<'_>, size: usize) -> Option<Slot> {
    let mut slots = r.fill_by_address(size);
    let wide = slots.split_off(slots.len().checked_sub(WIDE_BLOCKS)?);
    r.deallocate_all(wide);
    // The last one before the wide block stays live.
    slots.pop()?;
    r.deallocate_all(slots.iter().copied().rev().step_by(2));
    slots.into_iter().rev().nth(1)
}

fn alternating_allocate(r: &mut ScriptBuilder<'_>) -> Option<()> {
    alternate(r, r.smallest())?;
    r.allocate(REQUEST_BLOCKS * r.smallest()).map(drop)
}

fn alternating_reallocate(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let block = alternate(r, r.smallest())?;
    r.reallocate(block, REQUEST_BLOCKS * r.smallest())
}

/// `[L][f][L][f][L] ... [f][L][*][L]`
fn alternating_deallocate(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let mut slots = r.fill_by_address(r.smallest());
    slots.pop()?;
    let last = slots.pop()?;
    r.deallocate_all(slots.into_iter().rev().skip(1).step_by(2));
    r.deallocate(last);
    Some(())
}

/// `[*]`, and everything else is free.
fn only_block(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let block = r.allocate(r.smallest())?;
    r.deallocate(block);
    Some(())
}

/// Granules of the smallest free block of [`rising`], which the request does not fill.
const RISING_GRANULES: usize = 4;
/// Granules of the one large free block of [`rising`].
const RISING_WIDE_GRANULES: usize = 8;

/// `[f 4][*][f 5][L][f 6][L] ... [f k][L]`, sizes in granules: as many different sizes as the heap has room for, freed
/// in ascending order. Each becomes the root of the tree by size, above all others, which form a path down its left
/// side. Returns the live block between the two smallest.
fn rising(r: &mut ScriptBuilder<'_>) -> Option<Slot> {
    let (granule, small) = (r.granule(), r.smallest());
    // Room for control structures and headers.
    let room = r.heap_bytes() / 8 * 7;
    let mut free = Vec::new();
    let mut between = None;
    let mut used = 0;
    for granules in RISING_GRANULES.. {
        used += granules * granule + r.smallest_block();
        if used > room {
            break;
        }
        free.push(r.allocate(granules * granule - r.header())?);
        between = between.or(Some(r.allocate(small)?));
        if free.len() > 1 {
            r.allocate(small)?;
        }
    }
    r.exhaust();
    r.deallocate_all(free);
    between
}

/// How many sizes [`descending`] uses: building the tree takes time quadratic in the number of blocks of one size. One
/// size in small heaps, more in larger heaps, so that the number of blocks grows as well.
fn sizes_of_descending(heap_bytes: usize) -> usize {
    let quarters = heap_bytes as f64 / f64::from(256 << 10);
    (quarters.powf(0.75) as usize).max(1)
}

/// Granules of the one large free block of [`descending`], and of the reallocation into it.
const DESCENDING_WIDE_GRANULES: usize = 12;

/// `[f a][*][f a][L] ... [f a][L][f b][L] ... [f b][L] ... [f wide][L]`, a < b < ...: the sizes rise with the
/// addresses, and blocks of one size are freed from the highest address down. Among equal blocks the one freed later
/// goes below: the tree is a path down the left side, through every free block, with the lowest address at its end.
/// Returns the live block between the two lowest.
fn descending(r: &mut ScriptBuilder<'_>) -> Option<Slot> {
    let (granule, small) = (r.granule(), r.smallest());
    let sizes = sizes_of_descending(r.heap_bytes());
    let room = r.heap_bytes() / 16 * 15;
    // Each size has the same number of blocks, of two granules and more.
    let of_each: usize = (0..sizes).map(|size| (size + 2) * granule + r.smallest_block()).sum();
    let blocks = room / of_each;
    let mut between = None;
    let mut levels = Vec::new();
    for size in 0..sizes {
        let mut level = Vec::new();
        for _ in 0..blocks {
            level.push(r.allocate((size + 2) * granule - r.header())?);
            let live = r.allocate(small)?;
            between = between.or(Some(live));
        }
        levels.push(level);
    }
    levels.push(vec![r.allocate((sizes + DESCENDING_WIDE_GRANULES) * granule - r.header())?]);
    r.allocate(small)?;
    r.exhaust();
    for level in levels {
        r.deallocate_all(level.into_iter().rev());
    }
    between
}

/// `[f largest][L][L][L] ...`: the largest block available to a request is free, and everything around it is live in
/// smallest blocks. Returns the largest request.
fn one_largest_free(r: &mut ScriptBuilder<'_>) -> Option<usize> {
    let largest = r.largest()?;
    let block = r.allocate(largest)?;
    r.fill(r.smallest());
    r.deallocate(block);
    Some(largest)
}

/// A request that any leaf serves, in bytes.
const LEAST: usize = 1;

/// Of any two leaves below a node the left one is free and the right one, which cannot grow, is live. Returns the last
/// of the right ones.
fn every_second_leaf(r: &mut ScriptBuilder<'_>) -> Option<Slot> {
    let leaves = r.fill_by_address(LEAST);
    r.deallocate_all(leaves.iter().copied().step_by(2));
    leaves.last().copied()
}

/// The only block, as long as can be.
fn longest_block(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let largest = r.largest()?;
    let block = r.allocate(largest)?;
    r.deallocate(block);
    Some(())
}

/// Bytes of a chunk.
fn chunk(r: &ScriptBuilder<'_>) -> usize {
    <PooledArenas<'static>>::chunk_bytes(r.heap_bytes(), &PooledArenasConfig::default())
}

/// A request for a piece of two chunks, in bytes.
fn two_chunks(r: &ScriptBuilder<'_>) -> usize {
    chunk(r) + chunk(r) / 2
}

/// `[* ..][f][L][f][L] ... [f][L][f][f]`, chunks: the first is a piece of one smallest block, the second one the empty
/// piece that the slot keeps, the other live ones are blocks of a chunk. Returns the smallest block.
fn every_second_chunk(r: &mut ScriptBuilder<'_>) -> Option<Slot> {
    let half = chunk(r) / 2;
    let [only, beside, alone] = several(r, [r.smallest(), half, half])?;
    let mut chunks = r.fill_by_address(chunk(r));
    r.deallocate_all([beside, alone]);
    let last = chunks.split_off(chunks.len().checked_sub(2)?);
    // The one before the last two stays live.
    chunks.pop()?;
    r.deallocate_all(chunks.into_iter().skip(1).step_by(2));
    r.deallocate_all(last);
    Some(only)
}

/// `[f][*][f]` in one piece, and an empty piece.
fn piece_emptied(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let quarter = chunk(r) / 4;
    let [before, block, after, alone] = several(r, [quarter, quarter, quarter, 2 * quarter])?;
    r.deallocate_all([alone, before, after, block]);
    Some(())
}

/// `[f page][* in a page of its own][f page][L page]`
fn fragment_between_pages(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let before = r.allocate(r.page())?;
    let block = r.allocate(r.smallest())?;
    let after = r.allocate(r.page())?;
    r.allocate(r.page())?;
    r.deallocate_all([before, after, block]);
    Some(())
}

/// `[*][f][f 2][f 4] ... `: a largest block is filled with smallest blocks; then all but the one with the lowest
/// address are freed. Where buddies differ in size, this one results from the most splits, because lower parts are the
/// larger ones. Everything around the largest block is free too, except for one smallest block, so that no list is ever
/// empty.
fn deepest_of_largest(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let largest = r.largest()?;
    let block = r.allocate(largest)?;
    let small = r.smallest();
    let mut around = r.fill_by_address(small);
    r.deallocate(block);
    let mut within = r.fill_by_address(small);
    // One stays live, or the surroundings merge again.
    around.pop();
    let last = (!within.is_empty()).then(|| within.remove(0))?;
    r.deallocate_all(around);
    r.deallocate_all(within);
    r.deallocate(last);
    Some(())
}

/// Full pages of smallest blocks; the first eight but one of a page are freed, and then that one: two free sequences of
/// its frame become one, longer than any other of the page.
fn longest_sequence(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let mut page = full_pages(r)?.swap_remove(1);
    page.truncate(8);
    let last = page.remove(3);
    r.deallocate_all(page);
    r.deallocate(last);
    Some(())
}

/// Three pages of smallest blocks; those of the middle one are freed; the last of them is the scenario's operation.
fn page_emptied(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let middle = full_pages(r)?.swap_remove(1);
    r.deallocate_all(middle);
    Some(())
}

/// Three objects, two of which fill a page: one of `[L*][Lf]` is freed, and the third is moved into its place.
fn of_a_full_page(r: &mut ScriptBuilder<'_>) -> Option<()> {
    // A class of two page-blocks per page, for every set of size classes.
    let [first, ..] = several(r, [r.page() / 3 - 64; 3])?;
    r.deallocate(first);
    Some(())
}

/// The only object is reallocated to another class.
fn to_another_class(r: &mut ScriptBuilder<'_>) -> Option<()> {
    let slot = r.allocate(r.smallest())?;
    r.reallocate(slot, 4 * r.smallest())
}

/// Smallest blocks, until a third page is begun; grouped by page.
fn full_pages(r: &mut ScriptBuilder<'_>) -> Option<Vec<Vec<Slot>>> {
    let page = r.page();
    let mut pages: Vec<Vec<Slot>> = Vec::new();
    while pages.len() < 3 {
        let slot = r.allocate(r.smallest())?;
        let of = |r: &ScriptBuilder<'_>, slot: Slot| r.address(slot) / page;
        match pages.last_mut() {
            Some(last) if of(r, last[0]) == of(r, slot) => last.push(slot),
            _ => pages.push(vec![slot]),
        }
    }
    Some(pages)
}

fn several<const N: usize>(r: &mut ScriptBuilder<'_>, sizes: [usize; N]) -> Option<[Slot; N]> {
    let slots: Option<Vec<_>> = sizes.into_iter().map(|size| r.allocate(size)).collect();
    slots?.try_into().ok()
}

//! The recipes.
//!
//! Live blocks are drawn `L`, free ones `f`, the block of the last operation `*`.

use super::rehearsal::Rehearsal;
use super::{Recipe, Scenario};
use crate::observe::Operation;
use crate::observe::script::Slot;

const TLSF_PAPER: &str = "Masmano et al. 2008, section 6.1";
const PUAUT_ALLOCATE: &str = "Puaut 2002, section 3.1.1";
const PUAUT_FREE: &str = "Puaut 2002, section 3.1.2";
const FROM_THE_BOUND: &str = "ours, from the static bound";
const FROM_THE_CONTRACT: &str = "ours: the worst allocate, and the copy of a smallest block";

const THESIS: &str = "bitframe thesis 2012, section 6.3";

/// TLSF and half-fit in all their types.
const GOOD_FITS: &[&str] = &["tlsf", "tlsf-exact", "tlsf-thorough", "half-fit"];
/// Those that search a list of free blocks.
const SEQUENTIAL: &[&str] = &["first-fit", "first-fit-address", "best-fit", "next-fit", "next-fit-lifo"];
/// Those of them that keep the list in address order.
const ADDRESS_ORDERED: &[&str] = &["first-fit-address", "next-fit"];
/// The splay tree of sizes.
const SPLAY: &[&str] = &["tree-best-fit"];
/// The Cartesian tree.
const CARTESIAN: &[&str] = &["fast-fit", "fast-fit-leftmost"];
/// Those that divide blocks in two.
const BUDDIES: &[&str] = &["binary-buddy", "bbuddy", "fibonacci-buddy", "weighted-buddy", "double-buddy"];
/// Those whose pages hold blocks of one kind and go when they are empty.
const PAGED: &[&str] = &["regis1", "regis2", "reaps"];
/// Those that cut blocks off and never give them back.
const BUMPING: &[&str] = &["simple-segregated", "kingsley"];

/// Every scenario.
pub const ALL: &[Scenario] = &[
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
        subjects: GOOD_FITS,
        build: both_neighbours_free,
    },
    Scenario {
        name: "both neighbours free, each alone in its list and range",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: GOOD_FITS,
        build: lonely_neighbours_free,
    },
    Scenario {
        name: "smallest blocks alternately free and live, the last one fits",
        source: PUAUT_ALLOCATE,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: SEQUENTIAL,
        build: alternating_allocate,
    },
    Scenario {
        name: "smallest blocks alternately free and live, moved to the last one",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: SEQUENTIAL,
        build: alternating_reallocate,
    },
    Scenario {
        name: "both neighbours free",
        source: PUAUT_FREE,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: &["first-fit", "best-fit", "next-fit-lifo"],
        build: both_neighbours_free,
    },
    Scenario {
        name: "smallest blocks alternately free and live, the last in the list",
        source: "ours: the last place of an address-ordered list",
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: ADDRESS_ORDERED,
        build: alternating_deallocate,
    },
    Scenario {
        name: "free blocks of all sizes, freed in the order of their sizes: a path, walked to its end",
        source: PUAUT_ALLOCATE,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: SPLAY,
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
        subjects: SPLAY,
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
        subjects: SPLAY,
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
        subjects: CARTESIAN,
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
        subjects: CARTESIAN,
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
        subjects: CARTESIAN,
        build: |r| {
            let block = descending(r)?;
            r.reallocate(block, 8 * r.granule())
        },
    },
    Scenario {
        name: "one largest block free, smallest request",
        source: PUAUT_ALLOCATE,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: BUDDIES,
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
        subjects: BUDDIES,
        build: |r| {
            one_largest_free(r)?;
            let block = r.allocate(r.smallest())?;
            r.deallocate(block);
            Some(())
        },
    },
    Scenario {
        name: "the only block of a largest one, grown from the smallest size",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: BUDDIES,
        build: |r| {
            let largest = one_largest_free(r)?;
            let block = r.allocate(r.smallest())?;
            r.reallocate(block, (largest / 4).max(1))
        },
    },
    Scenario {
        name: "a new page",
        source: THESIS,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: PAGED,
        build: smallest_of_all,
    },
    Scenario {
        name: "a page that was given back",
        source: FROM_THE_BOUND,
        operation: Operation::Allocate,
        recipe: Recipe::Harder,
        subjects: PAGED,
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
        subjects: PAGED,
        build: only_block,
    },
    Scenario {
        name: "the last block of a page among others",
        source: FROM_THE_BOUND,
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: PAGED,
        build: page_emptied,
    },
    Scenario {
        name: "moved to a new page from one that is given back",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: PAGED,
        build: |r| {
            let block = r.allocate(r.smallest())?;
            // More than the rest of the page, for those that cut blocks of any size off one.
            r.reallocate(block, r.largest_request())
        },
    },
    Scenario {
        name: "an empty list: a block cut from new memory",
        source: THESIS,
        operation: Operation::Allocate,
        recipe: Recipe::Paper,
        subjects: BUMPING,
        build: smallest_of_all,
    },
    Scenario {
        name: "any block",
        source: THESIS,
        operation: Operation::Deallocate,
        recipe: Recipe::Paper,
        subjects: BUMPING,
        build: only_block,
    },
    Scenario {
        name: "moved to a block cut from new memory",
        source: FROM_THE_CONTRACT,
        operation: Operation::Reallocate,
        recipe: Recipe::Harder,
        subjects: BUMPING,
        build: |r| {
            let block = r.allocate(r.smallest())?;
            r.reallocate(block, r.largest_request().min(1000))
        },
    },
];

/// `[*|f............................]`
fn smallest_of_all(r: &mut Rehearsal<'_>) -> Option<()> {
    r.allocate(r.smallest()).map(drop)
}

/// `[f][*][f][L]`, all of one size.
fn both_neighbours_free(r: &mut Rehearsal<'_>) -> Option<()> {
    let small = r.smallest();
    let [before, block, after, _fence] = several(r, [small; 4])?;
    r.deallocate_all([before, after, block]);
    Some(())
}

/// Sizes in bytes in different power-of-two ranges, with no other free block in any of them, that of the merged block
/// included.
const LONELY: [usize; 3] = [208, 1104, 5008];

/// `[f 208][* 1104][f 5008][L]`
fn lonely_neighbours_free(r: &mut Rehearsal<'_>) -> Option<()> {
    let [before, block, after] = several(r, LONELY)?;
    r.allocate(r.smallest())?;
    r.deallocate_all([before, after, block]);
    Some(())
}

/// `[f 208][* smallest][f 5008][L]`, and the block is to have more than all of them.
fn moved_from_between_free(r: &mut Rehearsal<'_>) -> Option<()> {
    let small = r.smallest();
    let [before, block, after, _fence] = several(r, [LONELY[0], small, LONELY[2], small])?;
    r.deallocate_all([before, after]);
    r.reallocate(block, 2 * LONELY[2])
}

/// As many smallest blocks at the end of the heap become one.
const WIDE_BLOCKS: usize = 16;
/// A request is for so many of them: more than a block and its two neighbours.
const REQUEST_BLOCKS: usize = 8;

/// `[L][f][L][f][L] ... [f][L][f wide]`: the wide block is the oldest and has the highest address, so that a search finds it last
/// whatever the order of the list. Blocks are freed from the highest address down, which an address-ordered list takes at its
/// head. Returns a live block between two free ones.
fn alternate(r: &mut Rehearsal<'_>) -> Option<Slot> {
    let mut slots = r.fill_by_address(r.smallest());
    let wide = slots.split_off(slots.len().checked_sub(WIDE_BLOCKS)?);
    r.deallocate_all(wide);
    // The last one before the wide block stays.
    slots.pop()?;
    r.deallocate_all(slots.iter().copied().rev().step_by(2));
    slots.into_iter().rev().nth(1)
}

fn alternating_allocate(r: &mut Rehearsal<'_>) -> Option<()> {
    alternate(r)?;
    r.allocate(REQUEST_BLOCKS * r.smallest()).map(drop)
}

fn alternating_reallocate(r: &mut Rehearsal<'_>) -> Option<()> {
    let block = alternate(r)?;
    r.reallocate(block, REQUEST_BLOCKS * r.smallest())
}

/// `[L][f][L][f][L] ... [f][L][*][L]`
fn alternating_deallocate(r: &mut Rehearsal<'_>) -> Option<()> {
    let mut slots = r.fill_by_address(r.smallest());
    slots.pop()?;
    let last = slots.pop()?;
    r.deallocate_all(slots.into_iter().rev().skip(1).step_by(2));
    r.deallocate(last);
    Some(())
}

/// `[*]`, and everything else is free.
fn only_block(r: &mut Rehearsal<'_>) -> Option<()> {
    let block = r.allocate(r.smallest())?;
    r.deallocate(block);
    Some(())
}

/// Granules of the smallest free block of [`rising`], which what it serves does not fill.
const RISING_GRANULES: usize = 4;
/// Granules of the one large free block of [`rising`].
const RISING_WIDE_GRANULES: usize = 8;

/// `[f 4][*][f 5][L][f 6][L] ... [f k][L]`, sizes in granules: as many different sizes as the heap has room for, freed from the
/// smallest up. Each becomes the root of a tree by size above all others, which are a path down its left side. Returns the live
/// block between the two smallest.
fn rising(r: &mut Rehearsal<'_>) -> Option<Slot> {
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

/// Bytes of heap for each size of [`descending`]: the tree is built by walking it, which takes the square of the number of
/// blocks of one size.
const BYTES_PER_SIZE: usize = 512 << 10;

/// `[f a][*][f a][L] ... [f a][L][f b][L] ... [f b][L] ... `, a < b < ...: the sizes rise with the addresses, and blocks of one size
/// are freed from the highest address down. Of equals the one freed later goes below: the tree is a path down the left side, of
/// every free block, the one with the lowest address at its end. Returns the live block between the two lowest.
fn descending(r: &mut Rehearsal<'_>) -> Option<Slot> {
    let (granule, small) = (r.granule(), r.smallest());
    let sizes = (r.heap_bytes() / BYTES_PER_SIZE).max(1);
    let room = r.heap_bytes() / 16 * 15;
    // Each size has as many blocks, of two granules and more.
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
    r.exhaust();
    for level in levels {
        r.deallocate_all(level.into_iter().rev());
    }
    between
}

/// `[f largest][L][L][L] ...`: the largest block that a request gets is free, and of what is around it everything is live in
/// smallest blocks. Returns the largest request.
fn one_largest_free(r: &mut Rehearsal<'_>) -> Option<usize> {
    let largest = r.largest()?;
    let block = r.allocate(largest)?;
    r.fill(r.smallest());
    r.deallocate(block);
    Some(largest)
}

/// Three pages of smallest blocks, of which the middle one's are freed; the last of them is the scenario's.
fn page_emptied(r: &mut Rehearsal<'_>) -> Option<()> {
    let page = r.page();
    let mut pages: Vec<Vec<Slot>> = Vec::new();
    while pages.len() < 3 {
        let slot = r.allocate(r.smallest())?;
        let of = |r: &Rehearsal<'_>, slot: Slot| r.address(slot) / page;
        match pages.last_mut() {
            Some(last) if of(r, last[0]) == of(r, slot) => last.push(slot),
            _ => pages.push(vec![slot]),
        }
    }
    let middle = pages.swap_remove(1);
    r.deallocate_all(middle);
    Some(())
}

fn several<const N: usize>(r: &mut Rehearsal<'_>, sizes: [usize; N]) -> Option<[Slot; N]> {
    let slots: Option<Vec<_>> = sizes.into_iter().map(|size| r.allocate(size)).collect();
    slots?.try_into().ok()
}

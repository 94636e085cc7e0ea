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

/// TLSF and half-fit in all their types.
const GOOD_FITS: &[&str] = &["tlsf", "tlsf-exact", "tlsf-thorough", "half-fit"];
/// Those that search a list of free blocks.
const SEQUENTIAL: &[&str] = &["first-fit", "first-fit-address", "best-fit", "next-fit"];

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
        subjects: &["first-fit", "best-fit", "next-fit"],
        build: both_neighbours_free,
    },
    Scenario {
        name: "smallest blocks alternately free and live, the last in the list",
        source: "ours: the last place of an address-ordered list",
        operation: Operation::Deallocate,
        recipe: Recipe::Harder,
        subjects: &["first-fit-address"],
        build: alternating_deallocate,
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

fn several<const N: usize>(r: &mut Rehearsal<'_>, sizes: [usize; N]) -> Option<[Slot; N]> {
    let slots: Option<Vec<_>> = sizes.into_iter().map(|size| r.allocate(size)).collect();
    slots?.try_into().ok()
}

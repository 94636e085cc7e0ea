//! The most steps that an operation takes, whatever other threads do.

use super::layout::{level_of, unit_log2};
use super::search::TRIES;
use super::shape::{Shape, bits};
use super::{BitmapSlot, tag};
use crate::concurrent::atomics::Atomics;
use crate::contract::Steps;
use crate::mechanism::bits::floor_log2;
use core::num::NonZeroUsize;

const NOTHING: Steps = Steps { read_modify_writes: 0, loads: 0, stores: 0 };

const fn steps(read_modify_writes: usize, loads: usize, stores: usize) -> Steps {
    Steps { read_modify_writes, loads, stores }
}

/// `count` times the steps.
const fn times(count: usize, once: Steps) -> Steps {
    steps(count * once.read_modify_writes, count * once.loads, count * once.stores)
}

/// One word is examined, and its bits are taken or not.
const LOOK: Steps = steps(1, 1, 0);

impl<const LEAF: usize, A: Atomics, S: Shape> BitmapSlot<'_, LEAF, A, S> {
    /// How many bytes after the first hold the length of a block: none if it is not trimmed.
    fn digits_of(leaves: usize) -> usize {
        let order = NonZeroUsize::new(leaves).map_or(0, |leaves| floor_log2(leaves) as usize);
        if leaves.is_power_of_two() { 0 } else { tag::digits(order) }
    }

    /// A word or node is listed: at most `above` nodes are above it.
    fn listing(above: usize) -> Steps {
        steps(above, above, 0)
    }

    /// A word is unlisted, with `above` nodes above it: each node is cleared and the node below is examined again; the
    /// word is listed again; a node found filled meanwhile is listed again, at the second node or at the last.
    fn unlisting(above: usize) -> Steps {
        match above {
            0 => NOTHING,
            1 => steps(3, 2, 0),
            _ => steps(3 * above + 1, 3 * above - 2, 0),
        }
    }

    /// The lists of a level are asked, from the one of runs of `2^run` on.
    fn asking(self, level: usize, run: usize) -> Steps {
        let above = self.control.top - level;
        // SAFETY: the highest level exists.
        let roots = unsafe { self.control.level(self.control.top) }.words;
        // A node found empty, the second above the words at the lowest, is unlisted.
        let struck = if above < 2 { NOTHING } else { steps(2 * above - 1, 2 * above - 3, 0) };
        let named = steps(0, roots + above - 1, 0) + struck;
        steps(0, 1, 0) + LOOK + times(S::FAN_LOG2 as usize - run, named) + times(TRIES, LOOK)
    }

    /// See [`SharedAllocator::max_steps`](crate::contract::SharedAllocator::max_steps).
    pub(super) fn steps_to_take(self, order: usize, leaves: usize) -> Steps {
        let top = self.control.top;
        let level = level_of::<S>(order);
        let lines = self.control.line_mask + 1;
        let opens = leaves & Self::within(top) != 0;
        let mut sum = if leaves & Self::within(level) == 0 { steps(0, 1, 0) + LOOK } else { NOTHING };
        for number in level..=top {
            let run = if number == level { order - level * S::FAN_LOG2 as usize } else { 0 };
            // SAFETY: the level is one of the heap's.
            let words = unsafe { self.control.level(number) }.words;
            // Tried as a listed word, or as one of the few highest; and at last with all.
            let tried = if number == top { steps(0, 1, 0) + times(words, LOOK) } else { self.asking(number, run) };
            sum = sum + tried + times(words, LOOK);
        }
        // Begun and ended are counted; all ended operations are summed before the last search.
        sum = sum + steps(if opens { 2 } else { 0 }, lines, 0);
        // Every level below the highest is opened, down to the last one that the block does not end with.
        let lowest = leaves.trailing_zeros() as usize / S::FAN_LOG2 as usize;
        let opened = (lowest..top).fold(NOTHING, |sum, number| sum + steps(1, 0, 1) + Self::listing(top - number));
        let recorded = steps(0, 0, 2 + Self::digits_of(leaves));
        let tidied = times(TRIES, Self::unlisting(top - level));
        sum + (opened + recorded + tidied).max(steps(lines + 1, 0, 0))
    }

    /// As [`steps_to_take`](Self::steps_to_take).
    pub(super) fn steps_to_give(self, leaves: usize) -> Steps {
        let top = self.control.top;
        // On a level whose word gets bits: it is closed, and the next level's word gets one; or it is listed, possibly
        // after other operations kept it from being closed, and the next level continues with the block's own bits.
        let (mut merged, mut own) = (NOTHING, NOTHING);
        let mut lowest = NOTHING;
        for level in (0..=top).rev() {
            let here = if level == top {
                steps(1, 0, 0)
            } else {
                steps(2, 0, 0) + merged.max(Self::listing(top - level) + own)
            };
            merged = here;
            if (leaves >> unit_log2::<S>(level)) & (bits::<S>() - 1) != 0 {
                own = here;
                lowest = here;
            }
        }
        lowest + steps(3, 0, 0) + Self::locating(leaves)
    }

    /// As [`steps_to_take`](Self::steps_to_take), for a block of `leaves` leaves that becomes one of `wanted`: it is
    /// tried in place, and then moved. A block that stays takes fewer: it is written like a new one, and its end freed.
    pub(super) fn steps_to_resize(self, leaves: usize, order: usize, wanted: usize) -> Steps {
        let tried = steps(3, 1, 0);
        Self::locating(leaves) + tried + self.steps_to_take(order, wanted) + self.steps_to_give(leaves)
    }

    /// The bytes of a block are read.
    fn locating(leaves: usize) -> Steps {
        steps(0, 1 + Self::digits_of(leaves), 0)
    }
}

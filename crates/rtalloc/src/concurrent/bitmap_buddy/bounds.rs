//! The most steps that an operation takes, whatever others do.

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

/// The same, so many times.
const fn times(count: usize, once: Steps) -> Steps {
    steps(count * once.read_modify_writes, count * once.loads, count * once.stores)
}

/// One word looked at, and its bits taken or not.
const LOOK: Steps = steps(1, 1, 0);

impl<const LEAF: usize, A: Atomics, S: Shape> BitmapSlot<'_, LEAF, A, S> {
    /// Whether a block of so many leaves is trimmed, and how many bytes tell its length then.
    fn digits_of(leaves: usize) -> usize {
        let order = NonZeroUsize::new(leaves).map_or(0, |leaves| floor_log2(leaves) as usize);
        if leaves.is_power_of_two() { 0 } else { tag::digits(order) }
    }

    /// A word or node listed: `above` nodes at most are above it.
    fn listing(above: usize) -> Steps {
        steps(above, above, 0)
    }

    /// A word struck out, with `above` nodes above it: each node cleared and what is below it looked at again; the word listed
    /// again; a node found filled meanwhile, and so listed again, at the second node or at the last.
    fn unlisting(above: usize) -> Steps {
        match above {
            0 => NOTHING,
            1 => steps(3, 2, 0),
            _ => steps(3 * above + 1, 3 * above - 2, 0),
        }
    }

    /// The lists of a level asked, from the one of runs of `2^run` on.
    fn asking(self, level: usize, run: usize) -> Steps {
        let above = self.control.top - level;
        // SAFETY: the highest level is one.
        let roots = unsafe { self.control.level(self.control.top) }.words;
        // A node found empty, the second above the words at the lowest, is struck out.
        let struck = if above < 2 { NOTHING } else { steps(2 * above - 1, 2 * above - 3, 0) };
        let named = steps(0, roots + above - 1, 0) + struck;
        steps(0, 1, 0) + LOOK + times(S::FAN_LOG2 as usize - run, named) + times(TRIES, LOOK)
    }

    /// See [`SharedAllocator::most_steps`](crate::contract::SharedAllocator::most_steps).
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
            // Tried as one that is named, or as one of the few highest; and at last with all.
            let tried = if number == top { steps(0, 1, 0) + times(words, LOOK) } else { self.asking(number, run) };
            sum = sum + tried + times(words, LOOK);
        }
        // Begun, ended; all that ended is counted before the last search.
        sum = sum + steps(if opens { 2 } else { 0 }, lines, 0);
        // Opened is what lies below the highest level, down to the last one that the block does not end with.
        let lowest = leaves.trailing_zeros() as usize / S::FAN_LOG2 as usize;
        let opened = (lowest..top).fold(NOTHING, |sum, number| sum + steps(1, 0, 1) + Self::listing(top - number));
        let told = steps(0, 0, 2 + Self::digits_of(leaves));
        let tidied = times(TRIES, Self::unlisting(top - level));
        sum + (opened + told + tidied).most(steps(lines + 1, 0, 0))
    }

    /// As [`steps_to_take`](Self::steps_to_take).
    pub(super) fn steps_to_give(self, leaves: usize) -> Steps {
        let top = self.control.top;
        // Of a level whose word gets bits: it is closed, and the next level's word gets one; or it is listed, if need be after
        // others kept it from being closed, and the next level goes on where the block itself has bits.
        let (mut merged, mut own) = (NOTHING, NOTHING);
        let mut lowest = NOTHING;
        for level in (0..=top).rev() {
            let here = if level == top {
                steps(1, 0, 0)
            } else {
                steps(2, 0, 0) + merged.most(Self::listing(top - level) + own)
            };
            merged = here;
            if (leaves >> unit_log2::<S>(level)) & (bits::<S>() - 1) != 0 {
                own = here;
                lowest = here;
            }
        }
        lowest + steps(3, 0, 0) + Self::locating(leaves)
    }

    /// As [`steps_to_take`](Self::steps_to_take), of a block of so many leaves to `wanted` of them: it is tried where it stands,
    /// and then moves. What a block that stays takes is less: it is opened and told of as a new one, and its end given back.
    pub(super) fn steps_to_resize(self, leaves: usize, order: usize, wanted: usize) -> Steps {
        let tried = steps(3, 1, 0);
        Self::locating(leaves) + tried + self.steps_to_take(order, wanted) + self.steps_to_give(leaves)
    }

    /// The bytes of a block read.
    fn locating(leaves: usize) -> Steps {
        steps(0, 1 + Self::digits_of(leaves), 0)
    }
}

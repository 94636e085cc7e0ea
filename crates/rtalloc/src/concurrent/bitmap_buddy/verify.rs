//! Inspection of a bitmap buddy at rest: walk, check of every invariant, abstract state, largest request.

use super::layout::{Control, place_of, unit_log2, word_of};
use super::shape::{Shape, all, longest_run, runs};
use super::{BitmapSlot, tag};
use crate::arithmetic::sum;
use crate::concurrent::atomics::Atomics;
use crate::contract::{Block, Corruption};
use core::num::NonZeroUsize;
use core::sync::atomic::Ordering::Relaxed;

/// The block that begins at a leaf.
enum Piece {
    Live { leaves: usize },
    Free { level: usize, run: usize },
    Nothing,
}

impl<const LEAF: usize, A: Atomics, S: Shape> BitmapSlot<'_, LEAF, A, S> {
    /// A word of a level.
    fn value(self, level: usize, word: usize) -> usize {
        // SAFETY: callers pass words that the level has.
        unsafe { self.control.word(level, word) }.load(Relaxed)
    }

    /// The words of a level, by their numbers.
    fn words(self, level: usize) -> core::ops::Range<usize> {
        // SAFETY: callers pass levels that the heap has.
        let level = unsafe { self.control.level(level) };
        level.first..level.first + level.words
    }

    /// The block that begins at a leaf of the heap.
    fn piece(self, leaf: usize) -> Piece {
        if let Ok(live) = self.locate(leaf * LEAF) {
            return Piece::Live { leaves: live.leaves };
        }
        for level in (0..=self.control.top).rev() {
            let unit = unit_log2::<S>(level);
            let bit = leaf >> unit;
            if bit << unit != leaf {
                continue;
            }
            let value = self.value(level, word_of::<S>(bit));
            let run = (0..S::FAN_LOG2 as usize).rev().find(|&run| runs::<S>(value, run) >> place_of::<S>(bit) & 1 != 0);
            if let Some(run) = run {
                return Piece::Free { level, run };
            }
        }
        Piece::Nothing
    }

    /// See [`SharedAllocator::walk`](crate::contract::SharedAllocator::walk).
    pub(super) fn visit_blocks(self, visit: &mut dyn FnMut(Block)) {
        let mut leaf = self.control.first;
        while leaf < self.control.end {
            let (leaves, free) = match self.piece(leaf) {
                Piece::Live { leaves } => (leaves, false),
                Piece::Free { level, run } => (1 << (unit_log2::<S>(level) as usize + run), true),
                // In a damaged heap: a leaf that belongs to no block is not free.
                Piece::Nothing => (1, false),
            };
            let size_bytes = leaves * LEAF;
            visit(Block { address: leaf * LEAF, front_bytes: 0, size_bytes, usable_bytes: size_bytes, free });
            leaf += leaves;
        }
    }

    /// See [`SharedAllocator::largest_allocatable`](crate::contract::SharedAllocator::largest_allocatable).
    pub(super) fn largest(self) -> usize {
        for level in (0..=self.control.top).rev() {
            let longest = self.words(level).filter_map(|word| NonZeroUsize::new(self.value(level, word)));
            if let Some(run) = longest.map(longest_run::<S>).max() {
                return LEAF << (unit_log2::<S>(level) as usize + run);
            }
        }
        0
    }

    /// See [`SharedAllocator::check`](crate::contract::SharedAllocator::check).
    pub(super) fn verify(self) -> Result<(), Corruption> {
        let control = self.control;
        let place = core::ptr::from_ref(control).addr();
        let corrupt = |invariant: &'static str, address: usize| Err(Corruption { invariant, address });
        if !control.agrees_with_its_place(LEAF) {
            return corrupt("the control structure matches its address and the heap's leaves", place);
        }
        for line in 0..=control.line_mask {
            // SAFETY: every line exists, and has a word for each level.
            let line_at = unsafe { control.line(line) };
            let address = core::ptr::from_ref(line_at).addr();
            if line_at.begun.load(Relaxed) != line_at.ended.load(Relaxed) {
                return corrupt("no operation is under way", address);
            }
            for level in 0..=control.top {
                // SAFETY: every line exists, and has a word for each level.
                if !self.words(level).contains(&unsafe { control.served(line, level) }.load(Relaxed)) {
                    return corrupt("the word that a slot served last is one of the level", address);
                }
            }
        }
        self.verify_leaves()?;
        for level in 0..control.top {
            for word in self.words(level) {
                let value = self.value(level, word);
                // SAFETY: the word is one of the level's.
                let address = core::ptr::from_ref(unsafe { control.word(level, word) }).addr();
                if value == all::<S>() {
                    return corrupt("a full word is closed", address);
                }
                if NonZeroUsize::new(value).is_some_and(|value| !self.is_listed(level, longest_run::<S>(value), word)) {
                    return corrupt("a word is in the list of its longest run or a longer one", address);
                }
            }
        }
        Ok(())
    }

    /// Whether a search for a run of that length finds a word.
    fn is_listed(self, level: usize, run: usize, word: usize) -> bool {
        (run..S::FAN_LOG2 as usize).any(|list| {
            let mut bit = word;
            (level + 1..=self.control.top).all(|above| {
                // SAFETY: there is a node above every word and node.
                let node = unsafe { self.control.node(level, list, above, word_of::<S>(bit)) }.load(Relaxed);
                let is_set = node >> place_of::<S>(bit) & 1 != 0;
                bit = word_of::<S>(bit);
                is_set
            })
        })
    }

    /// Verifies that every leaf is part of one block, and that no bit and no byte stands for another one.
    fn verify_leaves(self) -> Result<(), Corruption> {
        let control = self.control;
        let mut free_units = [0usize; usize::BITS as usize];
        let mut leaf = control.first;
        while leaf < control.end {
            let leaves = match self.piece(leaf) {
                Piece::Live { leaves } => leaves,
                Piece::Free { level, run } => {
                    if let Some(units) = free_units.get_mut(level) {
                        *units += 1 << run;
                    }
                    1 << (unit_log2::<S>(level) as usize + run)
                }
                Piece::Nothing => {
                    return Err(Corruption {
                        invariant: "every leaf is free or part of a block",
                        address: leaf * LEAF,
                    });
                }
            };
            let is_first_live = matches!(self.piece(leaf), Piece::Live { .. });
            for inside in leaf + usize::from(is_first_live)..(leaf + leaves).min(control.end) {
                // SAFETY: the leaf is one of the heap's.
                if unsafe { control.tag(inside) }.load(Relaxed) & tag::LIVE != 0 {
                    return Err(Corruption {
                        invariant: "no live block begins inside another block",
                        address: inside * LEAF,
                    });
                }
            }
            leaf += leaves;
        }
        if leaf != control.end {
            return Err(Corruption { invariant: "the last block ends with the leaves", address: leaf * LEAF });
        }
        for level in 0..=control.top {
            let bits: usize = sum(self.words(level).map(|word| self.value(level, word).count_ones() as usize));
            if free_units.get(level) != Some(&bits) {
                return Err(Corruption {
                    invariant: "only the bits of free blocks are set",
                    // SAFETY: every level has words.
                    address: core::ptr::from_ref(unsafe { control.word(level, self.words(level).start) }).addr(),
                });
            }
        }
        Ok(())
    }

    /// See [`SharedAllocator::fingerprint`](crate::contract::SharedAllocator::fingerprint): the blocks, the bitmaps,
    /// and everything that decides where a search begins, which is behaviour too.
    pub(super) fn emit_state(self, word: &mut dyn FnMut(usize)) {
        let control = self.control;
        self.visit_blocks(&mut |block| {
            if !block.free {
                word(block.address);
                word(block.size_bytes);
            }
        });
        for level in 0..=control.top {
            self.words(level).for_each(|number| word(self.value(level, number)));
            for list in 0..S::FAN_LOG2 as usize {
                for above in level + 1..=control.top {
                    for number in self.words(above) {
                        // SAFETY: a list has a node for every word above.
                        word(unsafe { control.node(level, list, above, number) }.load(Relaxed));
                    }
                }
            }
            // SAFETY: every line has a word for the level.
            (0..=control.line_mask).for_each(|line| word(unsafe { control.served(line, level) }.load(Relaxed)));
        }
    }
}

impl<S: Shape, A: Atomics> Control<S, A> {
    /// Whether the fields are those that the address and the leaves determine. (Not the numbers of leaves and lines.)
    fn agrees_with_its_place(&self, leaf_bytes: usize) -> bool {
        let lines = self.line_mask.wrapping_add(1);
        let is_plausible = lines.is_power_of_two()
            && lines <= super::MAX_LINES
            && self.first < self.end
            && self.end - self.first <= usize::MAX >> 8
            && self.end.checked_mul(leaf_bytes).is_some();
        if !is_plausible {
            return false;
        }
        let planned = Self::over(core::ptr::from_ref(self).addr(), self.first, self.end, leaf_bytes, lines).0;
        self.is_as(&planned)
            // SAFETY: the levels follow the control structure, which matches its plan.
            && (0..=self.top).all(|level| *unsafe { self.level(level) } == self.planned(level))
    }
}

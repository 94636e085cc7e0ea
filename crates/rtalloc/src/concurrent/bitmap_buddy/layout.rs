//! Where everything is: the levels of the hierarchy, the lists of places, the slots' lines, the leaves.
//!
//! ```text
//! region: [control][levels][refusals][line of slot 0][line of slot 1]...[words of the bitmaps][words of the lists][bytes of the leaves] [leaf][leaf]...
//! ```

use super::shape::{Shape, bits, longest_run};
use super::tag;
use crate::concurrent::LINE_BYTES;
use crate::concurrent::atomics::{Atomics, Shared};
use crate::region::round_up;
use core::marker::PhantomData;
use core::num::NonZeroUsize;

/// Bytes of a machine word.
const WORD: usize = size_of::<usize>();

/// One level of the hierarchy. Numbers of words count from address zero, as those of leaves do.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// Number of its first word.
    pub first: usize,
    /// How many words it has.
    pub words: usize,
    /// What a word's number is added to for its place among the words of a tree, the highest level's first.
    pub place: usize,
    /// Place of the first list of this level, which has nodes on every level above.
    pub lists: usize,
    /// Words of one such list: those of all levels above.
    pub list_words: usize,
}

impl Level {
    /// Number of its first word, and that behind its last.
    #[inline(always)]
    pub(super) const fn range(&self) -> (usize, usize) {
        (self.first, self.first + self.words)
    }
}

/// What a heap is, fixed when it is made.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Control<S, A> {
    /// Number of the first leaf: its address in leaves.
    pub first: usize,
    /// Number behind the last leaf.
    pub end: usize,
    /// The largest aligned block that the leaves hold has two to this many of them.
    pub last_order: usize,
    /// The level of that block's order, where the hierarchy ends. No word of it is ever full.
    pub top: usize,
    /// Address of the words.
    pub words: usize,
    /// Address of what would be the byte of leaf 0.
    pub tags: usize,
    /// Address of the line of slot 0.
    pub lines: usize,
    /// Bytes of a slot's line.
    pub line_bytes: usize,
    /// Lines, less one: a power of two, less one.
    pub line_mask: usize,
    /// Bytes of the largest block.
    pub limit_bytes: usize,
    kind: PhantomData<(S, A)>,
}

/// Why requests were refused, how often each, on a line of its own.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Refused<A: Atomics> {
    pub request: Shared<usize, A>,
    pub exhausted: Shared<usize, A>,
    pub contended: Shared<usize, A>,
}

/// A slot's line: what it did, and the word of each level that it served last.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Line<A: Atomics> {
    /// Operations begun that make memory free, or move it from one level to another.
    pub begun: Shared<usize, A>,
    /// Those ended. Never more than were begun.
    pub ended: Shared<usize, A>,
}

/// The level of an order, and which run of its words.
#[inline(always)]
pub(super) const fn level_of<S: Shape>(order: usize) -> usize {
    order / S::FAN_LOG2 as usize
}

/// Binary logarithm of the leaves that a bit of a level stands for.
#[inline(always)]
pub(super) const fn unit_log2<S: Shape>(level: usize) -> u32 {
    level as u32 * S::FAN_LOG2
}

/// Number of the word that a bit of its level belongs to; also that of its bit on the level above.
#[inline(always)]
pub(super) const fn word_of<S: Shape>(bit: usize) -> usize {
    bit >> S::FAN_LOG2
}

/// Which bit of its word a bit of a level is.
#[inline(always)]
pub(super) const fn place_of<S: Shape>(bit: usize) -> usize {
    bit & (bits::<S>() - 1)
}

/// First multiple of `2^log2` from a number on, in such units; no leaf's number is near the end of the address space.
const fn units_from(number: usize, log2: u32) -> usize {
    (number + (1usize.wrapping_shl(log2) - 1)) >> log2
}

/// The order of the largest aligned block between two leaves.
const fn last_order(first: usize, end: usize) -> usize {
    let mut order = 0;
    while order < tag::LAST_ORDER && units_from(first, order as u32 + 1) < end >> (order + 1) {
        order += 1;
    }
    order
}

/// The most words of all levels over so many leaves, wherever they begin.
pub(super) const fn most_words<S: Shape>(leaves: usize) -> usize {
    let (mut words, mut level) = (0, 0);
    // No level is above that of an order the leaves suffice for.
    while leaves >> unit_log2::<S>(level) != 0 {
        words += units_from(leaves - 1, unit_log2::<S>(level) + S::FAN_LOG2) + 1;
        level += 1;
    }
    words
}

impl<S: Shape, A: Atomics> Control<S, A> {
    /// Plans the leaves from `first` to `end` behind a control structure at `start`, which is the beginning of a line.
    /// Returns it with the address behind all bookkeeping.
    pub(super) fn over(start: usize, first: usize, end: usize, leaf_bytes: usize, lines: usize) -> (Self, usize) {
        let last_order = last_order(first, end);
        let top = level_of::<S>(last_order);
        let line_bytes = (2 * WORD + (top + 1) * WORD).next_multiple_of(LINE_BYTES);
        let refusals = (start + size_of::<Self>() + (top + 1) * size_of::<Level>()).next_multiple_of(LINE_BYTES);
        let lines_at = refusals + LINE_BYTES;
        let words = lines_at + lines * line_bytes;
        let mut control = Control {
            first,
            end,
            last_order,
            top,
            words,
            tags: 0,
            lines: lines_at,
            line_bytes,
            line_mask: lines - 1,
            limit_bytes: leaf_bytes << last_order,
            kind: PhantomData,
        };
        let bottom = control.planned(0);
        let tags = words + (bottom.lists + S::FAN_LOG2 as usize * bottom.list_words) * WORD;
        control.tags = tags.wrapping_sub(first);
        (control, tags + (end - first))
    }

    /// Whether two plans are the same.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let fields = |control: &Self| {
            [
                control.last_order,
                control.top,
                control.words,
                control.tags,
                control.lines,
                control.line_bytes,
                control.limit_bytes,
            ]
        };
        fields(self) == fields(other)
    }

    /// A level, computed.
    pub(super) fn planned(&self, number: usize) -> Level {
        let words_of = |level: usize| {
            let shift = unit_log2::<S>(level) + S::FAN_LOG2;
            (self.first >> shift, (((self.end - 1) >> shift) - (self.first >> shift)) + 1)
        };
        let all: usize = (0..=self.top).map(|level| words_of(level).1).sum();
        // The lists of the highest levels come first, behind the bitmaps.
        let (mut above, mut lists) = (0, all);
        for level in (number + 1..=self.top).rev() {
            lists += S::FAN_LOG2 as usize * above;
            above += words_of(level).1;
        }
        let (first, words) = words_of(number);
        Level { first, words, place: above.wrapping_sub(first), lists, list_words: above }
    }

    /// The control structure of the largest heap in a region, and where it stands; `None` if there is no room for a leaf.
    pub(super) fn plan(start: usize, end: usize, leaf_bytes: usize, lines: usize) -> Option<(usize, Self)> {
        let leaf_log2 = leaf_bytes.trailing_zeros();
        let start = round_up(start, LINE_BYTES)?;
        let end = end >> leaf_log2;
        let fits = |first: usize| {
            let (control, behind) = Self::over(start, first, end, leaf_bytes, lines);
            (behind <= first << leaf_log2).then_some(control)
        };
        // The bookkeeping of fewer leaves is never more: the first leaf that fits is found by halving.
        let (mut low, mut high) = (start >> leaf_log2, end.checked_sub(1)?);
        if low > high {
            return None;
        }
        fits(high)?;
        while low < high {
            let middle = low + (high - low) / 2;
            if fits(middle).is_some() { high = middle } else { low = middle + 1 }
        }
        fits(high).map(|control| (start, control))
    }

    /// Length of a region that suffices, wherever it starts.
    pub(super) fn needed_bytes(leaf_bytes: usize, lines: usize) -> usize {
        // A heap of one leaf, wherever it is, has one word.
        let (_, behind) = Self::over(0, 0, 1, leaf_bytes, lines);
        (LINE_BYTES - 1) + behind + (leaf_bytes - 1) + leaf_bytes
    }

    /// Writes what the control structure leads to: levels, lines, words and bytes.
    ///
    /// # Safety
    ///
    /// The control structure stands where it was planned, and nobody shares the heap yet.
    pub(super) unsafe fn begin(&self) {
        let first_tag = self.tags.wrapping_add(self.first);
        // SAFETY: everything is where it was planned, inside the region.
        unsafe {
            self.refused_at().write_bytes(0, 1);
            self.at_place(0).write_bytes(0, (first_tag - self.words) / WORD);
            core::ptr::with_exposed_provenance_mut::<u8>(first_tag).write_bytes(tag::NONE, self.end - self.first);
            for number in 0..=self.top {
                self.level_at(number).write(self.planned(number));
            }
            for line in 0..=self.line_mask {
                self.line_at(line).write_bytes(0, 1);
                for number in 0..=self.top {
                    let level = self.level(number);
                    // Each slot begins elsewhere.
                    let word = level.first + ((level.words * line) >> self.line_mask.count_ones());
                    self.served_at(line, number).write(word);
                }
            }
            for number in 0..=self.top {
                self.begin_level(number);
            }
        }
    }

    /// Marks as free what a level has of the largest aligned blocks that the leaves are, and lists the words.
    ///
    /// # Safety
    ///
    /// As [`begin`](Self::begin); the levels were written.
    unsafe fn begin_level(&self, number: usize) {
        let (unit, above) = (unit_log2::<S>(number), unit_log2::<S>(number) + S::FAN_LOG2);
        let (from, to) = (units_from(self.first, unit), self.end >> unit);
        let (above_from, above_to) = (units_from(self.first, above), self.end >> above);
        let is_divided = number < self.top && above_from < above_to;
        let (left_to, right_from) =
            if is_divided { (above_from << S::FAN_LOG2, above_to << S::FAN_LOG2) } else { (to, to) };
        for unit in (from..left_to).chain(right_from..to) {
            // SAFETY: the unit lies between the leaves, so its word is one of the level's.
            unsafe { *self.word_at(number, word_of::<S>(unit)) |= 1 << place_of::<S>(unit) };
        }
        let level = self.planned(number);
        for word in level.first..level.first + level.words {
            // SAFETY: the level has the word.
            let Some(free) = NonZeroUsize::new(unsafe { *self.word_at(number, word) }) else { continue };
            let run = longest_run::<S>(free);
            let mut below = word;
            for above in number + 1..=self.top {
                // SAFETY: there is a node above every word and every node but the highest.
                unsafe { *self.node_at(number, run, above, word_of::<S>(below)) |= 1 << place_of::<S>(below) };
                below = word_of::<S>(below);
            }
        }
    }

    /// Where a level is described. Its number is at most that of the highest.
    #[inline(always)]
    fn level_at(&self, number: usize) -> *mut Level {
        let behind = core::ptr::from_ref(self).addr().wrapping_add(size_of::<Self>());
        core::ptr::with_exposed_provenance_mut(behind.wrapping_add(number.wrapping_mul(size_of::<Level>())))
    }

    /// Where a word is, by its place.
    #[inline(always)]
    fn at_place(&self, place: usize) -> *mut usize {
        core::ptr::with_exposed_provenance_mut(self.words.wrapping_add(place.wrapping_mul(WORD)))
    }

    /// Where a word of a level's bitmap is.
    ///
    /// # Safety
    ///
    /// The levels were written, and this is one.
    #[inline(always)]
    unsafe fn word_at(&self, level: usize, word: usize) -> *mut usize {
        // SAFETY: the caller's promise.
        self.at_place(unsafe { self.level(level) }.place.wrapping_add(word))
    }

    /// Where a node is.
    ///
    /// # Safety
    ///
    /// As [`word_at`](Self::word_at), for both.
    #[inline(always)]
    unsafe fn node_at(&self, level: usize, run: usize, above: usize, word: usize) -> *mut usize {
        // SAFETY: the caller's promise.
        let (of, on) = unsafe { (self.level(level), self.level(above)) };
        let list = of.lists.wrapping_add(run.wrapping_mul(of.list_words));
        self.at_place(list.wrapping_add(on.place).wrapping_add(word))
    }

    /// Where a slot's line is.
    #[inline(always)]
    fn line_at(&self, slot: usize) -> *mut Line<A> {
        let line = (slot & self.line_mask).wrapping_mul(self.line_bytes);
        core::ptr::with_exposed_provenance_mut(self.lines.wrapping_add(line))
    }

    /// Where a slot notes what word of a level it served last.
    #[inline(always)]
    fn served_at(&self, slot: usize, level: usize) -> *mut usize {
        self.line_at(slot).cast::<usize>().wrapping_add(2).wrapping_add(level)
    }

    /// Where refusals are counted: in front of the lines.
    fn refused_at(&self) -> *mut Refused<A> {
        core::ptr::with_exposed_provenance_mut(self.lines.wrapping_sub(LINE_BYTES))
    }

    /// A level. Its number is at most that of the highest.
    ///
    /// # Safety
    ///
    /// The heap exists, here and below.
    #[inline(always)]
    pub(super) unsafe fn level(&self, number: usize) -> &Level {
        // SAFETY: the levels follow the control structure.
        unsafe { &*self.level_at(number) }
    }

    /// A word of a level's bitmap: a bit is set while what it stands for is free and unopened.
    ///
    /// # Safety
    ///
    /// The level has the word.
    #[inline(always)]
    pub(super) unsafe fn word(&self, level: usize, word: usize) -> &Shared<usize, A> {
        // SAFETY: the level has the word.
        unsafe { Shared::at(self.word_at(level, word)) }
    }

    /// A node of the list of a level's words whose longest run is `2^run`; nodes on level `above` are numbered as its words.
    ///
    /// # Safety
    ///
    /// `above` is above the level, and has the word.
    #[inline(always)]
    pub(super) unsafe fn node(&self, level: usize, run: usize, above: usize, word: usize) -> &Shared<usize, A> {
        // SAFETY: each list has a node for every word of the levels above.
        unsafe { Shared::at(self.node_at(level, run, above, word)) }
    }

    /// The byte of a leaf.
    ///
    /// # Safety
    ///
    /// The leaf is one of the heap's.
    #[inline(always)]
    pub(super) unsafe fn tag(&self, leaf: usize) -> &Shared<u8, A> {
        // SAFETY: every leaf has a byte.
        unsafe { Shared::at(core::ptr::with_exposed_provenance_mut(self.tags.wrapping_add(leaf))) }
    }

    /// The line of a slot.
    ///
    /// # Safety
    ///
    /// The heap exists, here and below.
    #[inline(always)]
    pub(super) unsafe fn line(&self, slot: usize) -> &Line<A> {
        // SAFETY: the mask keeps the number below that of the lines.
        unsafe { &*self.line_at(slot) }
    }

    /// Number of the word of a level that a slot served last, or was to begin with.
    ///
    /// # Safety
    ///
    /// As [`line`](Self::line).
    #[inline(always)]
    pub(super) unsafe fn served(&self, slot: usize, level: usize) -> &Shared<usize, A> {
        // SAFETY: a line has a word for every level.
        unsafe { Shared::at(self.served_at(slot, level)) }
    }

    /// The numbers of refusals.
    ///
    /// # Safety
    ///
    /// As [`line`](Self::line).
    pub(super) unsafe fn refused(&self) -> &Refused<A> {
        // SAFETY: they stand in front of the lines.
        unsafe { &*self.refused_at() }
    }
}

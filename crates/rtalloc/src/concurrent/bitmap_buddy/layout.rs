//! The layout of a region: the levels of the hierarchy, the lists of words, the slots' lines, the leaves.
//!
//! ```text
//! region: [control][levels][refusals][line of slot 0][line of slot 1]...[words of the bitmaps][words of the lists][bytes of the leaves] [leaf][leaf]...
//! ```

use super::shape::{Shape, bits, longest_run};
use super::tag;
use crate::arithmetic::{rounded_up, sum};
use crate::concurrent::LINE_BYTES;
use crate::concurrent::atomics::{Atomics, Shared};
use crate::region::round_up;
use core::marker::PhantomData;
use core::num::NonZeroUsize;

/// Bytes of a machine word.
const WORD: usize = size_of::<usize>();

/// One level of the hierarchy. Words are numbered from address zero, as leaves are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// Number of the first word.
    pub first: usize,
    /// Number of words.
    pub words: usize,
    /// Added to a word's number, this gives its position among the words of a tree, the highest level's first.
    pub place: usize,
    /// Position of the first list of this level, which has nodes on every level above.
    pub lists: usize,
    /// Words of one list: those of all levels above.
    pub list_words: usize,
}

impl Level {
    /// Number of the first word, and of the one after the last.
    #[inline(always)]
    pub(super) const fn range(&self) -> (usize, usize) {
        (self.first, self.first + self.words)
    }
}

/// The parameters of a heap, fixed when it is made.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Control<S, A> {
    /// Number of the first leaf: its address in leaves.
    pub first: usize,
    /// Number of the leaf after the last.
    pub end: usize,
    /// Order of the largest aligned block that the leaves hold.
    pub last_order: usize,
    /// The level of that order, where the hierarchy ends. No word of it is ever full.
    pub top: usize,
    /// Address of the words.
    pub words: usize,
    /// Address that the byte of leaf 0 would have.
    pub tags: usize,
    /// Address of the line of slot 0.
    pub lines: usize,
    /// Bytes of a slot's line.
    pub line_bytes: usize,
    /// Number of lines, a power of two, less one.
    pub line_mask: usize,
    /// Bytes of the largest block.
    pub limit_bytes: usize,
    kind: PhantomData<(S, A)>,
}

/// Refusals by kind, in a line of their own.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Refused<A: Atomics> {
    pub request: Shared<usize, A>,
    pub exhausted: Shared<usize, A>,
    pub contended: Shared<usize, A>,
}

/// A slot's line: its operation counts, and after them the word of each level that it served last.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Line<A: Atomics> {
    /// Operations begun that make memory free, or move it from one level to another.
    pub begun: Shared<usize, A>,
    /// Operations ended. Never more than were begun.
    pub ended: Shared<usize, A>,
}

/// The level of an order.
#[inline(always)]
pub(super) const fn level_of<S: Shape>(order: usize) -> usize {
    order / S::FAN_LOG2 as usize
}

/// Binary logarithm of the leaves that a bit of a level stands for.
#[inline(always)]
pub(super) const fn unit_log2<S: Shape>(level: usize) -> u32 {
    level as u32 * S::FAN_LOG2
}

/// Number of the word that holds a bit; also the number of that word's bit on the level above.
#[inline(always)]
pub(super) const fn word_of<S: Shape>(bit: usize) -> usize {
    bit >> S::FAN_LOG2
}

/// Position of a bit in its word.
#[inline(always)]
pub(super) const fn place_of<S: Shape>(bit: usize) -> usize {
    bit & (bits::<S>() - 1)
}

/// First multiple of `2^log2` from a number on, in such units. Leaf numbers are far from overflow.
#[inline(always)]
const fn units_from(number: usize, log2: u32) -> usize {
    (number + (1usize.wrapping_shl(log2) - 1)) >> log2
}

/// The order of the largest aligned block between two leaves.
#[inline(always)]
const fn last_order(first: usize, end: usize) -> usize {
    let mut order = 0;
    while order < tag::LAST_ORDER && units_from(first, order as u32 + 1) < end >> (order + 1) {
        order += 1;
    }
    order
}

/// The most words of all levels over this many leaves, for any first leaf.
pub(super) const fn max_words<S: Shape>(leaves: usize) -> usize {
    let (mut words, mut level) = (0, 0);
    // No level lies above that of an order for which the leaves suffice.
    while leaves >> unit_log2::<S>(level) != 0 {
        words += units_from(leaves - 1, unit_log2::<S>(level) + S::FAN_LOG2) + 1;
        level += 1;
    }
    words
}

impl<S: Shape, A: Atomics> Control<S, A> {
    /// Plans the leaves from `first` to `end` after a control structure at `start`, which is aligned to a line. Returns
    /// the control structure, and the address after all metadata.
    pub(super) fn over(start: usize, first: usize, end: usize, leaf_bytes: usize, lines: usize) -> (Self, usize) {
        let last_order = last_order(first, end);
        let top = level_of::<S>(last_order);
        let line_bytes = rounded_up(2 * WORD + (top + 1) * WORD, LINE_BYTES);
        let refusals = rounded_up(start + size_of::<Self>() + (top + 1) * size_of::<Level>(), LINE_BYTES);
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

    /// Whether two plans are equal.
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
        let all: usize = sum((0..=self.top).map(|level| words_of(level).1));
        // The lists of the highest levels come first, after the bitmaps.
        let (mut above, mut lists) = (0, all);
        for level in (number + 1..=self.top).rev() {
            lists += S::FAN_LOG2 as usize * above;
            above += words_of(level).1;
        }
        let (first, words) = words_of(number);
        Level { first, words, place: above.wrapping_sub(first), lists, list_words: above }
    }

    /// The control structure of the largest heap in a region, and its address; `None` if there is no room for a leaf.
    pub(super) fn plan(start: usize, end: usize, leaf_bytes: usize, lines: usize) -> Option<(usize, Self)> {
        let leaf_log2 = leaf_bytes.trailing_zeros();
        let start = round_up(start, LINE_BYTES)?;
        let end = end >> leaf_log2;
        let fits = |first: usize| {
            let (control, after) = Self::over(start, first, end, leaf_bytes, lines);
            (after <= first << leaf_log2).then_some(control)
        };
        // Fewer leaves never need more metadata: the first leaf that fits is found by bisection.
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

    /// Length of a region that suffices, for any start address.
    pub(super) fn needed_bytes(leaf_bytes: usize, lines: usize) -> usize {
        // A heap of one leaf has one word, at any address.
        let (_, after) = Self::over(0, 0, 1, leaf_bytes, lines);
        (LINE_BYTES - 1) + after + (leaf_bytes - 1) + leaf_bytes
    }

    /// Initialises everything that the control structure leads to: levels, lines, words and bytes.
    ///
    /// # Safety
    ///
    /// The control structure is at its planned address, and the heap is not shared yet.
    pub(super) unsafe fn begin(&self) {
        let first_tag = self.tags.wrapping_add(self.first);
        // SAFETY: everything is at its planned address, in the region, and not shared yet.
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
                    // Each slot starts in another word.
                    let word = level.first + ((level.words * line) >> self.line_mask.count_ones());
                    self.served_at(line, number).write(word);
                }
            }
            for number in 0..=self.top {
                self.begin_level(number);
            }
        }
    }

    /// Marks the largest aligned blocks of the leaves that belong to a level as free, and lists their words.
    ///
    /// # Safety
    ///
    /// As [`begin`](Self::begin); the levels are initialised.
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
            // SAFETY: the word is one of the level's.
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

    /// Address of a level's description. Its number is at most that of the highest.
    #[inline(always)]
    fn level_at(&self, number: usize) -> *mut Level {
        let after = core::ptr::from_ref(self).addr().wrapping_add(size_of::<Self>());
        core::ptr::with_exposed_provenance_mut(after.wrapping_add(number.wrapping_mul(size_of::<Level>())))
    }

    /// Address of a word, by its position.
    #[inline(always)]
    fn at_place(&self, place: usize) -> *mut usize {
        core::ptr::with_exposed_provenance_mut(self.words.wrapping_add(place.wrapping_mul(WORD)))
    }

    /// Address of a word of a level's bitmap.
    ///
    /// # Safety
    ///
    /// The levels are initialised, and `level` is one of them.
    #[inline(always)]
    unsafe fn word_at(&self, level: usize, word: usize) -> *mut usize {
        // SAFETY: the levels are initialised, and `level` is one of them.
        self.at_place(unsafe { self.level(level) }.place.wrapping_add(word))
    }

    /// Address of a node.
    ///
    /// # Safety
    ///
    /// The levels are initialised, and both `level` and `above` are among them.
    #[inline(always)]
    unsafe fn node_at(&self, level: usize, run: usize, above: usize, word: usize) -> *mut usize {
        // SAFETY: the levels are initialised, and both are among them.
        let (of, on) = unsafe { (self.level(level), self.level(above)) };
        let list = of.lists.wrapping_add(run.wrapping_mul(of.list_words));
        self.at_place(list.wrapping_add(on.place).wrapping_add(word))
    }

    /// Address of a slot's line.
    #[inline(always)]
    fn line_at(&self, slot: usize) -> *mut Line<A> {
        let line = (slot & self.line_mask).wrapping_mul(self.line_bytes);
        core::ptr::with_exposed_provenance_mut(self.lines.wrapping_add(line))
    }

    /// Address of the number of the word of a level that a slot served last.
    #[inline(always)]
    fn served_at(&self, slot: usize, level: usize) -> *mut usize {
        self.line_at(slot).cast::<usize>().wrapping_add(2).wrapping_add(level)
    }

    /// Address of the refusal counters: before the lines.
    fn refused_at(&self) -> *mut Refused<A> {
        core::ptr::with_exposed_provenance_mut(self.lines.wrapping_sub(LINE_BYTES))
    }

    /// A level. Its number is at most that of the highest.
    ///
    /// # Safety
    ///
    /// The heap is initialised.
    #[inline(always)]
    pub(super) unsafe fn level(&self, number: usize) -> &Level {
        // SAFETY: the levels follow the control structure, initialised.
        unsafe { &*self.level_at(number) }
    }

    /// A word of a level's bitmap: a bit is set while its leaves are free and it is not opened.
    ///
    /// # Safety
    ///
    /// The word is one of the level's.
    #[inline(always)]
    pub(super) unsafe fn word(&self, level: usize, word: usize) -> &Shared<usize, A> {
        // SAFETY: the word is one of the level's; words are accessed through `A` alone.
        unsafe { Shared::at(self.word_at(level, word)) }
    }

    /// A node of the list of a level's words whose longest run is `2^run`; nodes on level `above` are numbered as its
    /// words.
    ///
    /// # Safety
    ///
    /// `above` is a level above `level`, and has the word.
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
    /// The heap is initialised.
    #[inline(always)]
    pub(super) unsafe fn line(&self, slot: usize) -> &Line<A> {
        // SAFETY: the mask keeps the number below the number of lines.
        unsafe { &*self.line_at(slot) }
    }

    /// Number of the word of a level that a slot served last, or starts with.
    ///
    /// # Safety
    ///
    /// As [`line`](Self::line).
    #[inline(always)]
    pub(super) unsafe fn served(&self, slot: usize, level: usize) -> &Shared<usize, A> {
        // SAFETY: a line has a word for every level.
        unsafe { Shared::at(self.served_at(slot, level)) }
    }

    /// The refusal counters.
    ///
    /// # Safety
    ///
    /// As [`line`](Self::line).
    pub(super) unsafe fn refused(&self) -> &Refused<A> {
        // SAFETY: they lie before the lines, initialised.
        unsafe { &*self.refused_at() }
    }
}

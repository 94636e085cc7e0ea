//! Freeing leaves, and closing words that became full.

use super::layout::{place_of, unit_log2, word_of};
use super::shape::{Shape, all, bits, longest_run, ones, runs};
use super::{BitmapSlot, tag};
use crate::concurrent::atomics::Atomics;
use crate::contract::{LoopBound, MisuseKind, loop_bound};
use crate::mechanism::bits::floor_log2;
use core::num::NonZeroUsize;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

impl<const LEAF: usize, A: Atomics, S: Shape> BitmapSlot<'_, LEAF, A, S> {
    /// The live block at an address.
    ///
    /// # Errors
    ///
    /// What is wrong with the address.
    #[inline(always)]
    pub(super) fn locate(self, address: usize) -> Result<Live, MisuseKind> {
        // One comparison for range and alignment.
        let control = self.control;
        let offset = address.wrapping_sub(control.first.wrapping_mul(LEAF)).rotate_right(LEAF.trailing_zeros());
        if offset >= control.end - control.first {
            return Err(MisuseKind::ForeignPointer);
        }
        let leaf = control.first + offset;
        // SAFETY: the leaf is one of the heap's.
        let byte = unsafe { control.tag(leaf) }.load(Relaxed);
        if byte & tag::LIVE == 0 {
            return Err(MisuseKind::DoubleFree);
        }
        let contradiction = Err(MisuseKind::ContradictoryTags);
        let Some(order) = tag::order(byte) else { return contradiction };
        if order > control.last_order {
            return contradiction;
        }
        let mut leaves = 1usize.wrapping_shl(order as u32);
        let mut beyond = leaves;
        // The length of a trimmed block is read from its own leaves, which must be the heap's.
        if leaf + leaves > control.end {
            return contradiction;
        }
        if S::TRIMS && byte & tag::TRIMMED != 0 {
            leaves = match self.trimmed_leaves(leaf, order) {
                Some(leaves) => leaves,
                None => return contradiction,
            };
            beyond <<= 1;
        } else if byte & tag::TRIMMED != 0 {
            return contradiction;
        }
        if leaf & (beyond - 1) != 0 || leaf + leaves > control.end {
            return contradiction;
        }
        Ok(Live { leaf, leaves, byte })
    }

    /// The number of leaves of a trimmed block, if its bytes are consistent.
    #[inline(always)]
    fn trimmed_leaves(self, leaf: usize, order: usize) -> Option<usize> {
        let (mut leaves, mut digit) = (0, 0);
        while digit < tag::digits(order) {
            loop_bound!(LoopBound::Fixed(6));
            // SAFETY: the caller checked that `2^order` leaves follow, which are more than the bytes.
            let byte = unsafe { self.control.tag(leaf + 1 + digit) }.load(Relaxed);
            leaves |= tag::value(byte, digit)?;
            digit += 1;
        }
        // More than a power of two, and less than the next.
        (leaves >> order == 1 && leaves & (leaves - 1) != 0).then_some(leaves)
    }

    /// Frees the leaves of a block after the first `kept`, of `leaves`; the block's bytes already say so. Returns
    /// false, with nothing more done, where one of them was free.
    ///
    /// On each level the leaves are a run of one word, and where the word below became full, one bit more after it:
    ///
    /// ```text
    /// 3 levels of 4 bits, 27 leaves given back     level 2            [.][  1  ]              1 of 16
    ///                                              level 1                    [1 1 .  .]      2 of 4
    ///                                              level 0                         [1 1 1 .]  3 of 1
    /// the last bit of level 0 is free already:     [1 1 1 1] -> [0 0 0 0], and level 1 gets [1 1 1 .]
    /// ```
    ///
    /// # Safety
    ///
    /// The leaves are those of a block that belongs to the caller.
    #[inline(always)]
    pub(super) unsafe fn give_back(self, leaf: usize, kept: usize, leaves: usize) -> bool {
        let top = self.control.top;
        // SAFETY: `kept` is less than `leaves`, so they differ.
        let differ = floor_log2(unsafe { NonZeroUsize::new_unchecked(kept ^ leaves) });
        let highest = (differ / S::FAN_LOG2) as usize;
        if kept & Self::within(highest) != 0 {
            // SAFETY: the bit in which the kept leaves end belongs to the block.
            unsafe { self.open(highest, leaf, kept) };
        }
        // The bit of the level that became free with the word below, if any.
        let (mut merged, mut is_merged) = (0, false);
        let mut level = 0;
        while level <= top {
            loop_bound!(LoopBound::Fixed(6));
            let unit = unit_log2::<S>(level);
            let after = (leaf + leaves) >> unit;
            let (start, count) = if level < highest {
                (after - place_of::<S>(after), place_of::<S>(after) + usize::from(is_merged))
            } else if level == highest {
                let start = (leaf + kept + Self::within(level)) >> unit;
                (start, after - start + usize::from(is_merged))
            } else if is_merged {
                (merged, 1)
            } else {
                return true;
            };
            is_merged = false;
            if count != 0 {
                let word = word_of::<S>(start);
                let mask = ones::<S>(count).wrapping_shl(place_of::<S>(start) as u32);
                // SAFETY: the word is one of the level's.
                match unsafe { self.set(level, word, mask) } {
                    Set::Open => {}
                    Set::Closed => (merged, is_merged) = (word, true),
                    Set::WasFree => return false,
                }
            }
            level += 1;
        }
        true
    }

    /// Sets bits of a word, and closes it if it is then full.
    ///
    /// # Safety
    ///
    /// The word is one of the level's; the caller owns the leaves of the bits.
    #[inline(always)]
    unsafe fn set(self, level: usize, word: usize, mask: usize) -> Set {
        // SAFETY: the word is one of the level's.
        let cell = unsafe { self.control.word(level, word) };
        // The bits are clear, so adding sets them; and adding is one instruction on every machine that has one.
        // Release: accesses by this block's owner come before those by the next. Acquire: an unlisting of the word is
        // seen, so that it is listed again.
        let before = cell.fetch_add(mask, AcqRel);
        if before & mask != 0 {
            // SAFETY: the word is one of the level's.
            return unsafe { self.undo(level, word, mask) };
        }
        let mut now = before | mask;
        if level == self.control.top {
            return Set::Open;
        }
        if now == all::<S>() {
            // Acquire: accesses by the owners of the parts come before those by the owner of the whole.
            match cell.compare_exchange(now, 0, Acquire) {
                Ok(_) => return Set::Closed,
                // Another operation took some of it: the word stays open, or that operation closes it.
                Err(other) => now = other,
            }
        }
        if let Some(now) = NonZeroUsize::new(now) {
            let run = longest_run::<S>(now);
            if runs::<S>(before, run) == 0 {
                // SAFETY: the level is below the highest, and has the list.
                unsafe { self.list(level, run, level + 1, word) };
            }
        }
        Set::Open
    }

    /// Undoes the addition for a block of which a part was free already: its bytes were overwritten.
    ///
    /// # Safety
    ///
    /// The word is one of the level's.
    #[cold]
    #[inline(never)]
    unsafe fn undo(self, level: usize, word: usize, mask: usize) -> Set {
        // SAFETY: the word is one of the level's.
        unsafe { self.control.word(level, word) }.fetch_add(mask.wrapping_neg(), Relaxed);
        Set::WasFree
    }

    /// Takes the leaves after a block, if the block then may have `leaves` and they are bits of one word.
    ///
    /// ```text
    /// [1 1 1 1 . . 1 1] -> [1 1 . . . . 1 1]     from two bits to four
    /// ```
    ///
    /// # Safety
    ///
    /// The block belongs to the caller and has fewer leaves, and `leaves` is at most the heap's largest block.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn grow(self, leaf: usize, from: usize, leaves: usize) -> bool {
        // SAFETY: a block has at least one leaf, and more than one after growing.
        let (order, low) = unsafe {
            (
                floor_log2(NonZeroUsize::new_unchecked(leaves - 1)) + 1,
                NonZeroUsize::new_unchecked(from).trailing_zeros(),
            )
        };
        if leaf & (1usize.wrapping_shl(order) - 1) != 0 {
            return false;
        }
        // The level of the bit that the block ends with.
        let level = (low / S::FAN_LOG2) as usize;
        let unit = unit_log2::<S>(level);
        let start = (leaf + from) >> unit;
        let count = (leaves - from + Self::within(level)) >> unit;
        let place = place_of::<S>(start);
        if place == 0 || place + count > bits::<S>() {
            return false;
        }
        let mask = ones::<S>(count).wrapping_shl(place as u32);
        let opens = leaves & Self::within(level) != 0;
        if opens {
            self.begin();
        }
        // SAFETY: the word is that of the block's last bit, and the bits taken belong to the block.
        let is_taken = unsafe {
            let cell = self.control.word(level, word_of::<S>(start));
            let value = cell.load(Relaxed);
            // Acquire: as for any block.
            let is_taken = value & mask == mask && cell.compare_exchange(value, value & !mask, Acquire).is_ok();
            if is_taken && opens {
                self.open(level, leaf, leaves);
            }
            is_taken
        };
        if opens {
            self.end();
        }
        is_taken
    }
}

/// A live block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    /// Its first leaf.
    pub leaf: usize,
    /// Number of leaves.
    pub leaves: usize,
    /// The byte of its first leaf.
    pub byte: u8,
}

/// The state of a word after its bits were set.
enum Set {
    /// It has free and taken bits, or was closed by another operation.
    Open,
    /// It was full, and is empty now: the caller must set the bit above.
    Closed,
    /// One of the bits was set before.
    WasFree,
}

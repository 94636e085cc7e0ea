//! Giving leaves back, and closing words that became whole.

use super::layout::{place_of, unit_log2, word_of};
use super::shape::{Shape, all, bits, longest_run, ones, runs};
use super::{BitmapSlot, tag};
use crate::concurrent::atomics::Atomics;
use crate::contract::MisuseKind;
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
        // The length of a trimmed block is looked for in its own leaves, which the heap has.
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

    /// How many leaves a trimmed block has, if its bytes agree.
    #[inline(always)]
    fn trimmed_leaves(self, leaf: usize, order: usize) -> Option<usize> {
        let (mut leaves, mut digit) = (0, 0);
        // turns: 6
        while digit < tag::digits(order) {
            // SAFETY: the caller saw that `2^order` leaves follow, which are more than the bytes.
            let byte = unsafe { self.control.tag(leaf + 1 + digit) }.load(Relaxed);
            leaves |= tag::value(byte, digit)?;
            digit += 1;
        }
        // More than a power of two, and less than the next.
        (leaves >> order == 1 && leaves & (leaves - 1) != 0).then_some(leaves)
    }

    /// Gives back the leaves of a block behind the first `kept`, of `leaves`; the block's bytes tell so already. Returns false,
    /// with nothing more done, where one of them was free.
    ///
    /// On each level the leaves are a run of one word, and where the word below became whole, one bit more behind it:
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
    /// The leaves are a block's, which is the caller's.
    #[inline(always)]
    pub(super) unsafe fn give_back(self, leaf: usize, kept: usize, leaves: usize) -> bool {
        let top = self.control.top;
        // SAFETY: fewer leaves are kept than there are.
        let differ = floor_log2(unsafe { NonZeroUsize::new_unchecked(kept ^ leaves) });
        let highest = (differ / S::FAN_LOG2) as usize;
        if kept & Self::within(highest) != 0 {
            // SAFETY: the bit that the kept leaves end inside of is the block's own.
            unsafe { self.open(highest, leaf, kept) };
        }
        // The bit of the level that became free with the word below, if it did.
        let (mut merged, mut is_merged) = (0, false);
        let mut level = 0;
        // turns: 6
        while level <= top {
            let unit = unit_log2::<S>(level);
            let behind = (leaf + leaves) >> unit;
            let (start, count) = if level < highest {
                (behind - place_of::<S>(behind), place_of::<S>(behind) + usize::from(is_merged))
            } else if level == highest {
                let start = (leaf + kept + Self::within(level)) >> unit;
                (start, behind - start + usize::from(is_merged))
            } else if is_merged {
                (merged, 1)
            } else {
                return true;
            };
            is_merged = false;
            if count != 0 {
                let word = word_of::<S>(start);
                let mask = ones::<S>(count).wrapping_shl(place_of::<S>(start) as u32);
                // SAFETY: the level has the word.
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

    /// Sets bits of a word, and closes it if it is whole then.
    ///
    /// # Safety
    ///
    /// The level has the word; what the bits stand for is the caller's.
    #[inline(always)]
    unsafe fn set(self, level: usize, word: usize, mask: usize) -> Set {
        // SAFETY: the level has the word.
        let cell = unsafe { self.control.word(level, word) };
        // The bits are clear, so that adding sets them; and adding is one instruction on every machine that has one.
        // Release: what this block's owner did with the memory comes before what the next one does. Acquire: that the word
        // was struck out of a list is seen, so that it is listed again.
        let before = cell.fetch_add(mask, AcqRel);
        if before & mask != 0 {
            // SAFETY: the level has the word.
            return unsafe { self.undo(level, word, mask) };
        }
        let mut now = before | mask;
        if level == self.control.top {
            return Set::Open;
        }
        if now == all::<S>() {
            // Acquire: what the owners of all of it did comes before what the owner of the whole does.
            match cell.compare_exchange(now, 0, Acquire) {
                Ok(_) => return Set::Closed,
                // Somebody took some of it: the word stays open, or was closed by whoever gave that back.
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

    /// Takes back what was added for a block of which a part was free already: somebody changed its bytes.
    ///
    /// # Safety
    ///
    /// The level has the word.
    #[cold]
    #[inline(never)]
    unsafe fn undo(self, level: usize, word: usize, mask: usize) -> Set {
        // SAFETY: the level has the word.
        unsafe { self.control.word(level, word) }.fetch_add(mask.wrapping_neg(), Relaxed);
        Set::WasFree
    }

    /// Takes the leaves behind a block, if the block can have `leaves` then and they are bits of one word.
    ///
    /// ```text
    /// [1 1 1 1 . . 1 1] -> [1 1 . . . . 1 1]     from two bits to four
    /// ```
    ///
    /// # Safety
    ///
    /// The block is the caller's, has fewer leaves, and no larger one than this heap has is asked for.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn grow(self, leaf: usize, from: usize, leaves: usize) -> bool {
        // SAFETY: a block has a leaf, and more than one if it is to grow.
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
        // SAFETY: the word is that of the block's last bit. What was taken is the block's.
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
    /// How many it has.
    pub leaves: usize,
    /// The byte that tells so, or its beginning.
    pub byte: u8,
}

/// What became of a word whose bits were set.
enum Set {
    /// It stays as it is.
    Open,
    /// It was whole, and is empty now: the bit above is the caller's to set.
    Closed,
    /// One of the bits was set before.
    WasFree,
}

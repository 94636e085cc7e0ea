//! Which classes have a free block: one bit per class, searched without a loop.
//!
//! The bits are in *leaves*, a word each. Their number is known when the program is compiled, and decides the rest:
//!
//! | leaves | memory | an operation |
//! |---|---|---|
//! | 1 | the leaf | holds the leaf in a register, and writes it once |
//! | 2 | both leaves | looks at one of them, or at both |
//! | more | the leaves, and a *summary*: one bit per leaf that is not zero | holds the summary in a register |
//!
//! A leaf is a whole machine word, not one range of the class map: with 2^5 classes in a power-of-two range, a leaf
//! of 64 bits has two ranges, which halves the number of leaves.

use crate::mechanism::bits::{all_but, first_set, floor_log2, with_bit, without_bit};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::size_class::Class;
use crate::mechanism::word::Width;
use core::num::NonZeroUsize;

/// Bits of a leaf.
const BITS: usize = usize::BITS as usize;
/// Bytes of a leaf.
const WORD: usize = size_of::<usize>();

/// All bits above that of `number`, modulo the word width.
#[inline(always)]
fn above(number: usize) -> usize {
    (usize::MAX - 1).wrapping_shl(number as u32)
}

/// A leaf of a set: the number of any of its classes, divided by the bits of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf(usize);

impl Leaf {
    /// The leaf of a class.
    #[inline(always)]
    fn of(class: Class) -> Self {
        Leaf(class.number() / BITS)
    }

    /// The leaf's bit in the summary.
    #[inline(always)]
    fn bit(self) -> usize {
        // SAFETY: a word has a bit for the leaf of any size's class (`Classes::class_of`).
        unsafe { core::hint::assert_unchecked(self.0 < BITS) };
        self.0
    }

    /// The class of a bit.
    #[inline(always)]
    fn class(self, bit: u32) -> Class {
        Class::new(self.0 * BITS + bit as usize)
    }
}

/// A set of classes in the control structure. `below` and `highest` are constants at every call, and so is what is
/// computed from them.
#[derive(Clone, Copy, Debug)]
pub struct Bitmap<W> {
    /// The memory of the control structure.
    pub memory: Memory<W>,
    /// Offset of the first word.
    pub at: Offset,
    /// The class before the first one with a bit.
    pub below: Class,
    /// The last class with a bit.
    pub highest: Class,
}

/// `held` is the word that an operation holds in a register: [`load`](Self::load) returns it, and
/// [`store`](Self::store) writes it back. Of two leaves, none is held: it is 0, and not written.
impl<W: Width> Bitmap<W> {
    /// Bytes of the set for classes above `below` up to `highest`: a multiple of `size_of::<usize>()`.
    #[inline(always)]
    pub fn bytes(below: Class, highest: Class) -> usize {
        let leaves = Leaf::of(highest).0 - Leaf::of(below).0 + 1;
        (if leaves > 2 { leaves + 1 } else { leaves }) * WORD
    }

    #[inline(always)]
    fn first(self) -> Leaf {
        Leaf::of(self.below)
    }

    #[inline(always)]
    fn last(self) -> Leaf {
        Leaf::of(self.highest)
    }

    /// Whether the only leaf is held.
    #[inline(always)]
    fn is_held(self) -> bool {
        self.first() == self.last()
    }

    /// Whether there is a summary, which is held.
    #[inline(always)]
    fn has_summary(self) -> bool {
        self.last().0 - self.first().0 > 1
    }

    /// Offset of the word that is held. On x86-64 a summary is the last word. Elsewhere it is the first: instructions
    /// of Armv6-M have short offsets only.
    #[inline(always)]
    fn held_at(self) -> Offset {
        match self.has_summary() && cfg!(target_arch = "x86_64") {
            true => self.at.up(Self::bytes(self.below, self.highest) - WORD),
            false => self.at,
        }
    }

    /// Reads the word that is held.
    ///
    /// # Safety
    ///
    /// The set is initialised, in the control structure.
    #[inline(always)]
    pub unsafe fn load(self) -> usize {
        if !self.is_held() && !self.has_summary() {
            return 0;
        }
        // SAFETY: a word of the set: initialised, aligned, in the control structure.
        unsafe { self.memory.load_bits(self.held_at()) }
    }

    /// Writes the word that was held.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[inline(always)]
    pub unsafe fn store(self, held: usize) {
        if self.is_held() || self.has_summary() {
            // SAFETY: a word of the set: aligned, in the control structure.
            unsafe { self.memory.store_bits(self.held_at(), held) }
        }
    }

    /// Offset of a leaf that is not held.
    #[inline(always)]
    fn leaf_at(self, leaf: Leaf) -> Offset {
        let first = if self.has_summary() && !cfg!(target_arch = "x86_64") { self.at.up(WORD) } else { self.at };
        first.down(self.first().0.wrapping_mul(WORD)).up(leaf.0.wrapping_mul(WORD))
    }

    /// Reads a leaf that is not held.
    ///
    /// # Safety
    ///
    /// The set is initialised, and has this leaf.
    #[inline(always)]
    unsafe fn leaf(self, leaf: Leaf) -> usize {
        // SAFETY: the set has this leaf: initialised, aligned, in the control structure.
        unsafe { self.memory.load_bits(self.leaf_at(leaf)) }
    }

    /// Writes a leaf that is not held.
    ///
    /// # Safety
    ///
    /// As [`leaf`](Self::leaf).
    #[inline(always)]
    unsafe fn set_leaf(self, leaf: Leaf, members: usize) {
        // SAFETY: the set has this leaf: aligned, in the control structure.
        unsafe { self.memory.store_bits(self.leaf_at(leaf), members) }
    }

    /// The lowest member above `below`, and its leaf.
    ///
    /// # Safety
    ///
    /// The set is initialised, with a leaf for `below`, which need not have a bit.
    #[inline(always)]
    pub unsafe fn find(self, held: usize, below: Class) -> Option<(Class, Leaf)> {
        if self.is_held() {
            let members = NonZeroUsize::new(held & above(below.number()))?;
            return Some((self.first().class(first_set(members)), self.first()));
        }
        let mut leaf = Leaf::of(below);
        // SAFETY: the set has a leaf for `below`. A bit of the summary is set only if its leaf is not zero.
        unsafe {
            let mut members = self.leaf(leaf) & above(below.number());
            if members == 0 {
                if self.has_summary() {
                    leaf = Leaf(first_set(NonZeroUsize::new(held & above(leaf.bit()))?) as usize);
                    members = self.leaf(leaf);
                } else if leaf == self.last() {
                    return None;
                } else {
                    leaf = self.last();
                    members = NonZeroUsize::new(self.leaf(leaf))?.get();
                }
            }
            Some((leaf.class(first_set(NonZeroUsize::new_unchecked(members))), leaf))
        }
    }

    /// The highest member.
    ///
    /// # Safety
    ///
    /// The set is initialised.
    #[inline(always)]
    pub unsafe fn highest_member(self, held: usize) -> Option<Class> {
        let leaf = match self.has_summary() {
            true => Leaf(floor_log2(NonZeroUsize::new(held)?) as usize),
            // SAFETY: if there are two leaves, none is held.
            false if self.is_held() || unsafe { self.leaf(self.last()) } == 0 => self.first(),
            false => self.last(),
        };
        // SAFETY: the set has this leaf.
        let members = if self.is_held() { held } else { unsafe { self.leaf(leaf) } };
        NonZeroUsize::new(members).map(|members| leaf.class(floor_log2(members)))
    }

    /// Adds a class.
    ///
    /// # Safety
    ///
    /// The set is initialised, with a bit for `class`.
    #[inline(always)]
    pub unsafe fn insert(self, held: &mut usize, class: Class) {
        if self.is_held() {
            *held |= class.bit();
            return;
        }
        let leaf = Leaf::of(class);
        // SAFETY: the set has a leaf for `class`.
        unsafe { self.set_leaf(leaf, with_bit(self.leaf(leaf), class.number())) };
        if self.has_summary() {
            *held = with_bit(*held, leaf.bit());
        }
    }

    /// Removes a class.
    ///
    /// # Safety
    ///
    /// As [`insert`](Self::insert).
    #[inline(always)]
    pub unsafe fn remove(self, held: &mut usize, class: Class) {
        let (others, number) = all_but(class.number());
        if self.is_held() {
            *held &= others;
            return;
        }
        let leaf = Leaf::of(Class::new(number));
        // SAFETY: the set has a leaf for the class.
        unsafe {
            let members = self.leaf(leaf) & others;
            self.set_leaf(leaf, members);
            if !self.has_summary() {
                return;
            }
            if members == 0 {
                *held = without_bit(*held, leaf.bit());
            } else {
                core::hint::cold_path();
            }
        }
    }

    /// Removes `class`, a member in this leaf, if `gone`. Branch-free, because `gone` is hard to predict.
    ///
    /// # Safety
    ///
    /// As [`insert`](Self::insert).
    #[inline(always)]
    pub unsafe fn remove_if(self, held: &mut usize, class: Class, leaf: Leaf, gone: bool) {
        // Flipping the member's bit clears it.
        let flipped = usize::from(gone).wrapping_shl(class.number() as u32);
        if self.is_held() {
            *held ^= flipped;
            return;
        }
        // SAFETY: the set has this leaf, which becomes empty only if its last member is cleared.
        unsafe {
            let members = self.leaf(leaf) ^ flipped;
            self.set_leaf(leaf, members);
            if self.has_summary() && members == 0 {
                *held = without_bit(*held, leaf.bit());
            }
        }
    }

    /// Whether membership of `class` equals `is_member`, in every word.
    ///
    /// # Safety
    ///
    /// As [`insert`](Self::insert).
    pub unsafe fn agrees(self, class: Class, is_member: bool) -> bool {
        let leaf = Leaf::of(class);
        // SAFETY: the set has a leaf for `class`.
        let (held, members) = unsafe {
            let held = self.load();
            (held, if self.is_held() { held } else { self.leaf(leaf) })
        };
        let is_summarised = !self.has_summary() || (held.wrapping_shr(leaf.0 as u32) & 1 != 0) == (members != 0);
        (members & class.bit() != 0) == is_member && is_summarised
    }
}

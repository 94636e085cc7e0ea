//! Which classes have a free block: one bit per class, searched without a loop.
//!
//! One word of a set is its summary, which an operation holds in a register.

use crate::mechanism::bits::{all_but, first_set, floor_log2, with_bit, without_bit};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::word::Width;
use core::num::NonZeroUsize;

/// Bits of one word.
const BITS: usize = usize::BITS as usize;

/// Where a set of classes is. Offsets and class are constants at every call, and so is what is derived from them.
#[derive(Clone, Copy, Debug)]
pub struct BitmapView<W> {
    /// The memory of the control structure.
    pub memory: Memory<W>,
    /// Offset of the set's first leaf.
    pub at: Offset,
    /// Offset of the summary, or of the only word.
    pub summary_at: Offset,
    /// The class before the first one with a bit.
    pub below: Class,
}

impl<W: Width> BitmapView<W> {
    /// Reads the summary.
    ///
    /// # Safety
    ///
    /// The view is that of a set.
    #[inline(always)]
    pub unsafe fn summary(self) -> usize {
        // SAFETY: a set has a summary: initialised, aligned, in the control structure.
        unsafe { self.memory.load_bits(self.summary_at) }
    }

    /// Writes the summary.
    ///
    /// # Safety
    ///
    /// As [`summary`](Self::summary).
    #[inline(always)]
    pub unsafe fn set_summary(self, summary: usize) {
        // SAFETY: a set has a summary: aligned, in the control structure.
        unsafe { self.memory.store_bits(self.summary_at, summary) }
    }

    /// Offset of a leaf's word.
    #[inline(always)]
    fn leaf_at(self, leaf: Leaf) -> Offset {
        let first = Leaf::of(self.below).0.wrapping_mul(size_of::<usize>());
        self.at.down(first).up(leaf.0.wrapping_mul(size_of::<usize>()))
    }

    /// Reads a leaf.
    ///
    /// # Safety
    ///
    /// The view is that of a set with this leaf.
    #[inline(always)]
    unsafe fn leaf(self, leaf: Leaf) -> usize {
        // SAFETY: the set has this leaf: initialised, aligned, in the control structure.
        unsafe { self.memory.load_bits(self.leaf_at(leaf)) }
    }

    /// Writes a leaf.
    ///
    /// # Safety
    ///
    /// As [`leaf`](Self::leaf).
    #[inline(always)]
    unsafe fn set_leaf(self, leaf: Leaf, members: usize) {
        // SAFETY: the set has this leaf: aligned, in the control structure.
        unsafe { self.memory.store_bits(self.leaf_at(leaf), members) }
    }
}

/// A set of classes. Every method but [`agrees`](Self::agrees) gets the summary as it is now.
pub trait Bitmap: Sealed + Copy + core::fmt::Debug + 'static {
    /// Where a class's bit is.
    type Place: Copy;

    /// Bytes the set takes for classes above `below` up to `highest`, a multiple of `size_of::<usize>()`.
    fn bytes(below: Class, highest: Class) -> usize;

    /// The lowest member above `below`, and its place.
    ///
    /// # Safety
    ///
    /// The view is that of a set with a leaf for `below`, which need not have a bit.
    unsafe fn find<W: Width>(set: BitmapView<W>, summary: usize, below: Class) -> Option<(Class, Self::Place)>;

    /// The highest member.
    ///
    /// # Safety
    ///
    /// The view is that of a set.
    unsafe fn highest<W: Width>(set: BitmapView<W>, summary: usize) -> Option<Class>;

    /// Adds a class.
    ///
    /// # Safety
    ///
    /// The view is that of a set with a bit for `class`.
    unsafe fn insert<W: Width>(set: BitmapView<W>, summary: &mut usize, class: Class);

    /// Removes a class.
    ///
    /// # Safety
    ///
    /// As [`insert`](Self::insert), and the class is a member.
    unsafe fn remove<W: Width>(set: BitmapView<W>, summary: &mut usize, class: Class);

    /// Removes `class`, whose bit is at `place`, if `gone`. Branch-free, because `gone` is hard to predict.
    ///
    /// # Safety
    ///
    /// As [`remove`](Self::remove).
    unsafe fn remove_if<W: Width>(
        set: BitmapView<W>,
        summary: &mut usize,
        class: Class,
        place: Self::Place,
        gone: bool,
    );

    /// Whether membership of `class` equals `is_member`, on every level.
    ///
    /// # Safety
    ///
    /// As [`insert`](Self::insert).
    unsafe fn agrees<W: Width>(set: BitmapView<W>, class: Class, is_member: bool) -> bool;
}

/// All bits above that of `number`, modulo the word width.
#[inline(always)]
fn above(number: usize) -> usize {
    (usize::MAX - 1).wrapping_shl(number as u32)
}

/// One word: for the power-of-two classes of half-fit.
#[derive(Clone, Copy, Debug)]
pub struct OneWord;

impl Sealed for OneWord {}

impl Bitmap for OneWord {
    type Place = ();

    #[inline(always)]
    fn bytes(_: Class, _: Class) -> usize {
        size_of::<usize>()
    }

    #[inline(always)]
    unsafe fn find<W: Width>(_: BitmapView<W>, members: usize, below: Class) -> Option<(Class, ())> {
        let candidates = NonZeroUsize::new(members & above(below.number()))?;
        Some((Class::new(first_set(candidates) as usize), ()))
    }

    #[inline(always)]
    unsafe fn highest<W: Width>(_: BitmapView<W>, members: usize) -> Option<Class> {
        NonZeroUsize::new(members).map(|members| Class::new(floor_log2(members) as usize))
    }

    #[inline(always)]
    unsafe fn insert<W: Width>(_: BitmapView<W>, members: &mut usize, class: Class) {
        *members |= class.bit();
    }

    #[inline(always)]
    unsafe fn remove<W: Width>(_: BitmapView<W>, members: &mut usize, class: Class) {
        *members &= all_but(class.number()).0;
    }

    #[inline(always)]
    unsafe fn remove_if<W: Width>(_: BitmapView<W>, members: &mut usize, class: Class, (): (), gone: bool) {
        // Flipping the member's bit clears it.
        *members ^= usize::from(gone).wrapping_shl(class.number() as u32);
    }

    unsafe fn agrees<W: Width>(set: BitmapView<W>, class: Class, is_member: bool) -> bool {
        // SAFETY: the view is that of a set, which is one word.
        (unsafe { set.summary() } & class.bit() != 0) == is_member
    }
}

/// Two levels: leaf words, and before or after them a summary word with one bit per leaf that is not zero.
///
/// The levels follow the machine word, not the class map: with J = 5 on a 64-bit machine a leaf spans two power-of-two
/// ranges, which halves the number of leaves.
#[derive(Clone, Copy, Debug)]
pub struct TwoLevel;

/// A leaf of a set with two levels, by the numbers of its classes without their lowest bits.
#[derive(Clone, Copy, Debug)]
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
        // SAFETY: the classes of any size have at most as many leaves as a word has bits (`Classes::class_of`).
        unsafe { core::hint::assert_unchecked(self.0 < BITS) };
        self.0
    }
}

impl Sealed for TwoLevel {}

impl Bitmap for TwoLevel {
    type Place = Leaf;

    fn bytes(below: Class, highest: Class) -> usize {
        (2 + Leaf::of(highest).0 - Leaf::of(below).0) * size_of::<usize>()
    }

    #[inline(always)]
    unsafe fn find<W: Width>(set: BitmapView<W>, summary: usize, below: Class) -> Option<(Class, Leaf)> {
        let mut leaf = Leaf::of(below);
        // SAFETY: the view is that of a set with a leaf for `below`. A summary bit is set only if its leaf is not zero.
        unsafe {
            let mut members = set.leaf(leaf) & above(below.number());
            if members == 0 {
                leaf = Leaf(first_set(NonZeroUsize::new(summary & above(leaf.bit()))?) as usize);
                members = set.leaf(leaf);
            }
            let bit = first_set(NonZeroUsize::new_unchecked(members)) as usize;
            Some((Class::new(leaf.0 * BITS + bit), leaf))
        }
    }

    #[inline(always)]
    unsafe fn highest<W: Width>(set: BitmapView<W>, summary: usize) -> Option<Class> {
        let leaf = Leaf(floor_log2(NonZeroUsize::new(summary)?) as usize);
        // SAFETY: the view is that of a set. A summary bit is set only if its leaf is not zero.
        let members = unsafe { NonZeroUsize::new_unchecked(set.leaf(leaf)) };
        Some(Class::new(leaf.0 * BITS + floor_log2(members) as usize))
    }

    #[inline(always)]
    unsafe fn insert<W: Width>(set: BitmapView<W>, summary: &mut usize, class: Class) {
        let leaf = Leaf::of(class);
        // SAFETY: the view is that of a set with a leaf for `class`: an initialised word of it.
        unsafe { set.set_leaf(leaf, with_bit(set.leaf(leaf), class.number())) };
        *summary = with_bit(*summary, leaf.bit());
    }

    #[inline(always)]
    unsafe fn remove<W: Width>(set: BitmapView<W>, summary: &mut usize, class: Class) {
        let (others, number) = all_but(class.number());
        let leaf = Leaf::of(Class::new(number));
        // SAFETY: the view is that of a set with a leaf for the class: an initialised word of it.
        unsafe {
            let members = set.leaf(leaf) & others;
            set.set_leaf(leaf, members);
            if members == 0 {
                *summary = without_bit(*summary, leaf.bit());
            } else {
                core::hint::cold_path();
            }
        }
    }

    #[inline(always)]
    unsafe fn remove_if<W: Width>(set: BitmapView<W>, summary: &mut usize, class: Class, leaf: Leaf, gone: bool) {
        // SAFETY: the view is that of a set with a leaf for `class`. The class is a member, so flipping its bit clears
        // it; a leaf becomes empty only if its last member is cleared.
        unsafe {
            let members = set.leaf(leaf) ^ usize::from(gone).wrapping_shl(class.number() as u32);
            set.set_leaf(leaf, members);
            if members == 0 {
                *summary = without_bit(*summary, leaf.bit());
            }
        }
    }

    unsafe fn agrees<W: Width>(set: BitmapView<W>, class: Class, is_member: bool) -> bool {
        let leaf = Leaf::of(class);
        // SAFETY: the view is that of a set with a leaf for `class`, so leaf and summary are initialised words of it.
        let (members, leaves) = unsafe { (set.leaf(leaf), set.summary()) };
        (members & class.bit() != 0) == is_member && (leaves.wrapping_shr(leaf.0 as u32) & 1 != 0) == (members != 0)
    }
}

//! Which classes have a free block: one bit per class, searched without a loop.

use crate::mechanism::bits::{computed, first_set, floor_log2, with_bit, without_bit};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::{Class, Rank};
use crate::mechanism::word::Width;
use core::num::NonZeroUsize;

/// Bits of one word.
const BITS: usize = usize::BITS as usize;

/// Where a set of classes is. `below` is a constant at every call, and so are the sums and shifts derived from it.
#[derive(Clone, Copy, Debug)]
pub struct BitmapView<W> {
    /// The memory of the control structure.
    pub memory: Memory<W>,
    /// Offset of the set's first word.
    pub at: Offset,
    /// The class before the first one with a bit.
    pub below: Class,
}

impl<W: Width> BitmapView<W> {
    /// Reads the set's first word.
    ///
    /// # Safety
    ///
    /// The view is that of a set.
    #[inline(always)]
    unsafe fn first(self) -> usize {
        // SAFETY: a set has a first word: initialised, aligned, in the control structure.
        unsafe { self.memory.load_bits(self.at) }
    }

    /// Writes the set's first word.
    ///
    /// # Safety
    ///
    /// As [`first`](Self::first).
    #[inline(always)]
    unsafe fn set_first(self, bits: usize) {
        // SAFETY: a set has a first word: aligned, in the control structure.
        unsafe { self.memory.store_bits(self.at, bits) }
    }

    /// Offset of a leaf's word. The first word of a set with leaves is the summary.
    #[inline(always)]
    fn leaf_at(self, leaf: Leaf) -> Offset {
        self.at.up(size_of::<usize>()).up(leaf.0.wrapping_mul(size_of::<usize>()))
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

/// A set of classes above [`below`](BitmapView::below).
pub trait Bitmap: Sealed + Copy + core::fmt::Debug + 'static {
    /// Bytes the set takes for classes up to `highest`, a multiple of `size_of::<usize>()`.
    fn bytes(below: Class, highest: Class) -> usize;

    /// The lowest member that is at least `class`.
    ///
    /// # Safety
    ///
    /// The view is that of a set with a bit for `class`.
    unsafe fn find<W: Width>(set: BitmapView<W>, class: Class) -> Option<Class>;

    /// The highest member.
    ///
    /// # Safety
    ///
    /// The view is that of a set.
    unsafe fn highest<W: Width>(set: BitmapView<W>) -> Option<Class>;

    /// Adds a class; `rank` is its rank, which every caller has already computed.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find).
    unsafe fn insert<W: Width>(set: BitmapView<W>, class: Class, rank: Rank);

    /// Removes the class of a rank.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find), and the class is a member.
    unsafe fn remove<W: Width>(set: BitmapView<W>, rank: Rank);

    /// Whether membership of `class` equals `is_member`, on every level.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find).
    unsafe fn agrees<W: Width>(set: BitmapView<W>, class: Class, is_member: bool) -> bool;

    /// Removes `class`, whose rank is `rank`, if `gone`. Branch-free, because `gone` is hard to predict.
    ///
    /// # Safety
    ///
    /// As [`find`](Self::find), and the class is a member.
    unsafe fn remove_if<W: Width>(set: BitmapView<W>, class: Class, rank: Rank, gone: bool);
}

/// All bits except that of `fixed + number`: a constant, rotated by `number`.
#[inline(always)]
fn all_but(fixed: usize, number: usize) -> usize {
    (!1usize.wrapping_shl(fixed as u32)).rotate_left(number as u32)
}

/// One word: for the power-of-two classes of half-fit.
#[derive(Clone, Copy, Debug)]
pub struct OneWord;

impl Sealed for OneWord {}

impl Bitmap for OneWord {
    #[inline(always)]
    fn bytes(_: Class, _: Class) -> usize {
        size_of::<usize>()
    }

    #[inline(always)]
    unsafe fn find<W: Width>(set: BitmapView<W>, class: Class) -> Option<Class> {
        // SAFETY: the view is that of a set, which is one word.
        let members = unsafe { set.first() };
        let candidates = NonZeroUsize::new(members & usize::MAX.wrapping_shl(class.number() as u32))?;
        Some(Class::new(first_set(candidates) as usize))
    }

    #[inline(always)]
    unsafe fn highest<W: Width>(set: BitmapView<W>) -> Option<Class> {
        // SAFETY: the view is that of a set, which is one word.
        let members = unsafe { set.first() };
        NonZeroUsize::new(members).map(|members| Class::new(floor_log2(members) as usize))
    }

    #[inline(always)]
    unsafe fn insert<W: Width>(set: BitmapView<W>, class: Class, _: Rank) {
        // SAFETY: the view is that of a set, which is one word.
        unsafe { set.set_first(set.first() | class.bit()) }
    }

    #[inline(always)]
    unsafe fn remove<W: Width>(set: BitmapView<W>, rank: Rank) {
        // SAFETY: the view is that of a set, which is one word.
        unsafe { set.set_first(set.first() & all_but(set.below.number(), rank.number())) }
    }

    unsafe fn agrees<W: Width>(set: BitmapView<W>, class: Class, is_member: bool) -> bool {
        // SAFETY: the view is that of a set, which is one word.
        (unsafe { set.first() } & class.bit() != 0) == is_member
    }

    #[inline(always)]
    unsafe fn remove_if<W: Width>(set: BitmapView<W>, class: Class, _: Rank, gone: bool) {
        // SAFETY: the view is that of a set, which is one word. Flipping the member's bit clears it.
        unsafe { set.set_first(set.first() ^ usize::from(gone).wrapping_shl(class.number() as u32)) }
    }
}

/// Two levels: a summary word with one bit per leaf that is not zero, then the leaf words.
///
/// The levels follow the machine word, not the class map: with J = 5 on a 64-bit machine a leaf spans two power-of-two
/// ranges, which halves the number of leaves.
#[derive(Clone, Copy, Debug)]
pub struct TwoLevel;

/// A leaf of a set with two levels. Leaf 0 has the bit of the first class.
#[derive(Clone, Copy, Debug)]
struct Leaf(usize);

impl Leaf {
    /// The leaf of a class.
    #[inline(always)]
    fn of(below: Class, class: Class) -> Self {
        Leaf((class.number() / BITS).wrapping_sub(below.number() / BITS))
    }

    /// The leaf of the class of a rank, and a number congruent to the class modulo the word width.
    #[inline(always)]
    fn of_rank(below: Class, rank: Rank) -> (Self, usize) {
        let number = rank.number() + below.number() % BITS;
        (Leaf(number / BITS), number)
    }

    /// The class of the leaf's lowest bit.
    #[inline(always)]
    fn lowest(self, below: Class) -> Class {
        Class::new((self.0 + below.number() / BITS) * BITS)
    }
}

impl Sealed for TwoLevel {}

impl Bitmap for TwoLevel {
    fn bytes(below: Class, highest: Class) -> usize {
        (2 + Leaf::of(below, highest).0) * size_of::<usize>()
    }

    #[inline(always)]
    unsafe fn find<W: Width>(set: BitmapView<W>, class: Class) -> Option<Class> {
        let leaf = Leaf::of(set.below, class);
        // SAFETY: the view is that of a set with a leaf for `class`. A summary bit is set only if its leaf is not zero.
        unsafe {
            let here = set.leaf(leaf).wrapping_shr(class.number() as u32);
            let here = computed(here as u64) as usize;
            // Predictable branch: avoids the latency of the bit scan.
            if here & 1 != 0 {
                return Some(class);
            }
            if let Some(here) = NonZeroUsize::new(here) {
                return Some(class.up(first_set(here) as usize));
            }
            let later = (usize::MAX - 1).wrapping_shl(leaf.0 as u32);
            let leaf = Leaf(first_set(NonZeroUsize::new(set.first() & later)?) as usize);
            let members = NonZeroUsize::new_unchecked(set.leaf(leaf));
            Some(leaf.lowest(set.below).up(first_set(members) as usize))
        }
    }

    #[inline(always)]
    unsafe fn highest<W: Width>(set: BitmapView<W>) -> Option<Class> {
        // SAFETY: the view is that of a set. A summary bit is set only if its leaf is not zero.
        unsafe {
            let leaf = Leaf(floor_log2(NonZeroUsize::new(set.first())?) as usize);
            let members = NonZeroUsize::new_unchecked(set.leaf(leaf));
            Some(leaf.lowest(set.below).up(floor_log2(members) as usize))
        }
    }

    #[inline(always)]
    unsafe fn insert<W: Width>(set: BitmapView<W>, class: Class, rank: Rank) {
        let (leaf, _) = Leaf::of_rank(set.below, rank);
        // SAFETY: the view is that of a set with a leaf for `class`, so leaf and summary are initialised words of it.
        unsafe {
            set.set_leaf(leaf, set.leaf(leaf) | class.bit());
            set.set_first(with_bit(set.first(), leaf.0));
        }
    }

    #[inline(always)]
    unsafe fn remove<W: Width>(set: BitmapView<W>, rank: Rank) {
        let (leaf, number) = Leaf::of_rank(set.below, rank);
        // SAFETY: the view is that of a set with a leaf for the class, so leaf and summary are initialised words of it.
        unsafe {
            let members = set.leaf(leaf) & all_but(0, number);
            set.set_leaf(leaf, members);
            if members == 0 {
                set.set_first(without_bit(set.first(), leaf.0));
            } else {
                core::hint::cold_path();
            }
        }
    }

    unsafe fn agrees<W: Width>(set: BitmapView<W>, class: Class, is_member: bool) -> bool {
        let leaf = Leaf::of(set.below, class);
        // SAFETY: the view is that of a set with a leaf for `class`, so leaf and summary are initialised words of it.
        let (members, leaves) = unsafe { (set.leaf(leaf), set.first()) };
        (members & class.bit() != 0) == is_member && (leaves.wrapping_shr(leaf.0 as u32) & 1 != 0) == (members != 0)
    }

    #[inline(always)]
    unsafe fn remove_if<W: Width>(set: BitmapView<W>, class: Class, rank: Rank, gone: bool) {
        let (leaf, _) = Leaf::of_rank(set.below, rank);
        // SAFETY: the view is that of a set with a leaf for `class`. The class is a member, so flipping its bit clears
        // it; a leaf becomes empty only if its last member is cleared.
        unsafe {
            let members = set.leaf(leaf) ^ usize::from(gone).wrapping_shl(class.number() as u32);
            set.set_leaf(leaf, members);
            if members == 0 {
                set.set_first(without_bit(set.first(), leaf.0));
            }
        }
    }
}

//! Where the tag of a block is stored: its class, its sides in systems that have them, and its state.
//!
//! | | cost | a request of 2^k takes | what can overwrite a tag |
//! |---|---|---|---|
//! | [`SideTable`] | a cell per smallest block: 1/16 of the heap with cells of one byte | 2^k bytes | no overrun near a block |
//! | [`Headers`] | a header per live block | the next size above 2^k | a write past the end of the previous block |

use super::{INHERITED, System, UPPER};
use crate::mechanism::memory::Memory;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::word::Width;

/// The state of a block.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Free.
    Free = 0x40,
    /// Live, and its payload begins at its start.
    Live = 0x80,
    /// Live, and its payload is displaced.
    Displaced = 0xC0,
}

/// A tag: class, sides and state of a block. Other words have bits beyond those, or no state.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(usize);

impl Tag {
    /// The bits of a class.
    const CLASS: usize = 0x3F;
    /// The bits of the sides.
    const SIDES: usize = UPPER | INHERITED;
    /// Bits of a tag.
    pub(super) const BITS: u32 = 10;
    /// No class has this number or a higher one.
    pub(super) const CLASSES: usize = Self::CLASS;
    /// The tag of a displaced payload.
    pub(super) const MARKER: Tag = Tag(Self::CLASS);
    /// No block begins here.
    pub(super) const NONE: Tag = Tag(0);

    /// The tag of a block.
    #[inline(always)]
    pub(super) fn new(class: Class, sides: usize, state: State) -> Self {
        Tag(class.number() | sides | state as usize)
    }

    /// The class.
    #[inline(always)]
    pub(super) fn class(self) -> Class {
        Class::new(self.0 & Self::CLASS)
    }

    /// The sides.
    #[inline(always)]
    pub(super) fn sides(self) -> usize {
        self.0 & Self::SIDES
    }

    /// The tag without `INHERITED`, and that side.
    #[inline(always)]
    pub(super) fn without_inherited(self) -> (Self, usize) {
        (Tag(self.0 & !INHERITED), self.0 & INHERITED)
    }

    /// The tag without some of its sides.
    #[inline(always)]
    pub(super) fn without(self, sides: usize) -> Self {
        Tag(self.0 ^ sides)
    }

    /// Whether the word is the tag of a block in this state.
    #[inline(always)]
    pub(super) fn is(self, state: State) -> bool {
        self.0 & !(Self::CLASS | Self::SIDES) == state as usize
    }

    /// Whether the block is live, wherever its payload begins.
    pub(super) fn is_live(self) -> bool {
        self.0 & State::Live as usize != 0
    }

    /// Class and state in one word.
    pub(super) fn without_sides(self) -> usize {
        self.0 & (Self::CLASS | State::Displaced as usize)
    }
}

const _: () = assert!(Tag::SIDES | Tag::CLASS | State::Displaced as usize == (1 << Tag::BITS) - 1);

/// An integer that holds a tag in a side table. Sealed: one byte, or two where pieces have sides.
pub trait Cell: Sealed + Copy + core::fmt::Debug + 'static {
    /// Reads a tag.
    fn get(self) -> Tag;
    /// Encodes a tag.
    fn put(tag: Tag) -> Self;
}

macro_rules! cell {
    ($($integer:ty),*) => {$(
        impl Sealed for $integer {}
        impl Cell for $integer {
            #[inline(always)]
            fn get(self) -> Tag {
                Tag(self as usize)
            }
            #[inline(always)]
            fn put(tag: Tag) -> Self {
                tag.0 as $integer
            }
        }
    )*};
}

cell!(u8, u16);

/// Where tags are stored.
///
/// # Safety
///
/// [`load`](Self::load) reads what [`store`](Self::store) wrote for an address, unless a user writes out of bounds. No
/// tag lies in a payload or in a free block's links.
pub unsafe trait Placement: Sealed + Copy + PartialEq + core::fmt::Debug + 'static {
    /// Bytes before every payload; 0 if tags are in a side table.
    const HEADER_BYTES: usize;

    /// Tags of blocks from `origin` on, with room for a side table at `map`.
    fn new<S: System>(map: usize, origin: usize) -> Self;

    /// Reads the tag of a unit. A word that is not a tag has bits beyond those of a tag, or no state.
    ///
    /// # Safety
    ///
    /// The address is a unit of the heap, or its end if there is a tag.
    unsafe fn load<S: System, W: Width>(self, memory: Memory<W>, address: usize) -> Tag;

    /// Writes the tag of a unit.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    unsafe fn store<S: System, W: Width>(self, memory: Memory<W>, address: usize, tag: Tag);
}

/// Tags in a table between the control structure and the blocks, one cell per smallest block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideTable {
    /// Address of the cell that a unit at address zero would have.
    bias: usize,
}

impl SideTable {
    /// The cell of a unit.
    #[inline(always)]
    fn cell<S: System>(self, address: usize) -> *mut S::Cell {
        let unit = address >> S::UNIT_BYTES.trailing_zeros();
        core::ptr::with_exposed_provenance_mut(self.bias.wrapping_add(unit * size_of::<S::Cell>()))
    }
}

impl Sealed for SideTable {}

// SAFETY: each unit has a cell of its own in the table, which no block covers.
unsafe impl Placement for SideTable {
    const HEADER_BYTES: usize = 0;

    fn new<S: System>(map: usize, origin: usize) -> Self {
        SideTable { bias: map.wrapping_sub((origin >> S::UNIT_BYTES.trailing_zeros()) * size_of::<S::Cell>()) }
    }

    #[inline(always)]
    unsafe fn load<S: System, W: Width>(self, _: Memory<W>, address: usize) -> Tag {
        // SAFETY: the unit has a cell, which `begin` initialised.
        unsafe { self.cell::<S>(address).read() }.get()
    }

    #[inline(always)]
    unsafe fn store<S: System, W: Width>(self, _: Memory<W>, address: usize, tag: Tag) {
        // SAFETY: the unit has a cell.
        unsafe { self.cell::<S>(address).write(S::Cell::put(tag)) }
    }
}

/// Tags in the last word of a header of `BYTES` before every payload.
///
/// The bits of the word above the tag hold the lower bits of the unit's number. A word is accepted as a header only if
/// it matches in all of them.
///
/// ```text
/// [header: ....|unit's number, tag][payload: at a multiple of the unit ............][header of the next block
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<const BYTES: usize = 4>;

impl<const BYTES: usize> Sealed for Headers<BYTES> {}

impl<const BYTES: usize> Headers<BYTES> {
    /// The bits of a header above its tag, for the unit at an address.
    #[inline(always)]
    fn number<S: System>(address: usize) -> usize {
        address >> S::UNIT_BYTES.trailing_zeros() << Tag::BITS
    }
}

// SAFETY: the header of a block follows the payload of the previous block, and a free block's links follow its header.
unsafe impl<const BYTES: usize> Placement for Headers<BYTES> {
    const HEADER_BYTES: usize = BYTES;

    fn new<S: System>(_: usize, _: usize) -> Self {
        Headers
    }

    #[inline(always)]
    unsafe fn load<S: System, W: Width>(self, memory: Memory<W>, address: usize) -> Tag {
        // SAFETY: the word before a unit lies in the heap.
        let word = unsafe { memory.load(memory.offset(address).down(W::BYTES)) };
        Tag(word ^ W::get(W::put(Self::number::<S>(address))))
    }

    #[inline(always)]
    unsafe fn store<S: System, W: Width>(self, memory: Memory<W>, address: usize, tag: Tag) {
        let word = tag.0 | Self::number::<S>(address);
        // SAFETY: the header of a unit that begins a block belongs to the heap.
        unsafe { memory.store(memory.offset(address).down(W::BYTES), word) }
    }
}

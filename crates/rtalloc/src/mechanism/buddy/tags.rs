//! Where the tag of a block is kept: its class, the sides of the systems that have them, and its state.
//!
//! | | costs | a request of 2^k takes | a tag can be overwritten |
//! |---|---|---|---|
//! | [`Aside`] | a cell per smallest block: 1/16 of the heap with cells of one byte | 2^k bytes | by nobody who stays near a block |
//! | [`InFront`] | a header per live block | the next size above 2^k | by a block that is written past its end |

use super::{INHERITED, System, UPPER};
use crate::mechanism::memory::Memory;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::word::Width;

/// The parts of a tag.
pub(super) mod tag {
    /// The class.
    pub const CLASS: usize = 0x3F;
    /// State: the block is free.
    pub const FREE: usize = 0x40;
    /// State: the block is live, and its payload begins where it does.
    pub const LIVE: usize = 0x80;
    /// State: the block is live, and its payload is displaced.
    pub const DISPLACED: usize = FREE | LIVE;
    /// The tag of a displaced payload. No class has this number.
    pub const MARKER: usize = CLASS;
    /// No block begins here.
    pub const NONE: usize = 0;
    /// Bits of a tag, sides included.
    pub const BITS: u32 = 10;
}

const _: () = assert!(UPPER | INHERITED | tag::CLASS | tag::DISPLACED == (1 << tag::BITS) - 1);

/// An integer that holds a tag aside. Sealed: one byte, or two where pieces have sides.
pub trait Cell: Sealed + Copy + core::fmt::Debug + 'static {
    /// A tag from memory.
    fn get(self) -> usize;
    /// A tag to memory.
    fn put(tag: usize) -> Self;
}

macro_rules! cell {
    ($($integer:ty),*) => {$(
        impl Sealed for $integer {}
        impl Cell for $integer {
            #[inline(always)]
            fn get(self) -> usize {
                self as usize
            }
            #[inline(always)]
            fn put(tag: usize) -> Self {
                tag as $integer
            }
        }
    )*};
}

cell!(u8, u16);

/// Where tags are kept.
///
/// # Safety
///
/// What [`store`](Self::store) wrote for an address is what [`load`](Self::load) reads for it, as long as nobody writes where
/// they should not, and nothing of it lies in a payload or in a free block's links.
pub unsafe trait Placement: Sealed + Copy + PartialEq + core::fmt::Debug + 'static {
    /// Bytes in front of every payload.
    const HEADER_BYTES: usize;

    /// Bytes of a tag that is kept aside.
    fn cell_bytes<S: System>() -> usize;

    /// Bytes that a map for `units` of smallest blocks takes; a system whose buddies stay within the region needs a tag at
    /// its end too.
    fn map_bytes<S: System>(units: usize) -> usize {
        (units + usize::from(!S::LEAVES)) * Self::cell_bytes::<S>()
    }

    /// Tags of blocks from `origin` on, with room for a map at `map`.
    fn new<S: System>(map: usize, origin: usize) -> Self;

    /// Reads the tag of a unit. What is no tag has bits beyond those of one, or none of a state.
    ///
    /// # Safety
    ///
    /// The address is a unit of the heap or, where a tag is there, its end.
    unsafe fn load<S: System, W: Width>(self, memory: Memory<W>, address: usize) -> usize;

    /// Writes the tag of a unit.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    unsafe fn store<S: System, W: Width>(self, memory: Memory<W>, address: usize, tag: usize);
}

/// Tags in a map between the control structure and the blocks, one cell per smallest block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Address of the cell that a unit at address zero would have.
    bias: usize,
}

impl Aside {
    /// The cell of a unit.
    #[inline(always)]
    fn cell<S: System>(self, address: usize) -> *mut S::Cell {
        let unit = address >> S::UNIT_BYTES.trailing_zeros();
        core::ptr::with_exposed_provenance_mut(self.bias.wrapping_add(unit * size_of::<S::Cell>()))
    }
}

impl Sealed for Aside {}

// SAFETY: each unit has a cell of its own in the map, which no block covers.
unsafe impl Placement for Aside {
    const HEADER_BYTES: usize = 0;

    fn cell_bytes<S: System>() -> usize {
        size_of::<S::Cell>()
    }

    fn new<S: System>(map: usize, origin: usize) -> Self {
        Aside { bias: map.wrapping_sub((origin >> S::UNIT_BYTES.trailing_zeros()) * size_of::<S::Cell>()) }
    }

    #[inline(always)]
    unsafe fn load<S: System, W: Width>(self, _: Memory<W>, address: usize) -> usize {
        // SAFETY: the unit has a cell, which `begin` initialised.
        unsafe { self.cell::<S>(address).read() }.get()
    }

    #[inline(always)]
    unsafe fn store<S: System, W: Width>(self, _: Memory<W>, address: usize, tag: usize) {
        // SAFETY: the unit has a cell.
        unsafe { self.cell::<S>(address).write(S::Cell::put(tag)) }
    }
}

/// Tags in the last word of a header of `BYTES` in front of every payload.
///
/// The bits that the tag leaves free hold the number of the unit, as many of its lower bits as they are: what is no header
/// of this place has to look like one in all of them.
///
/// ```text
/// [header: ....|unit's number, tag][payload: at a multiple of the unit ............][header of the next block
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFront<const BYTES: usize = 4>;

impl<const BYTES: usize> Sealed for InFront<BYTES> {}

impl<const BYTES: usize> InFront<BYTES> {
    /// What a word at this place holds beside a tag.
    #[inline(always)]
    fn number<S: System>(address: usize) -> usize {
        address >> S::UNIT_BYTES.trailing_zeros() << tag::BITS
    }
}

// SAFETY: the header of a block lies behind the payload of the block in front of it, and a free block's links behind its
// header.
unsafe impl<const BYTES: usize> Placement for InFront<BYTES> {
    const HEADER_BYTES: usize = BYTES;

    fn cell_bytes<S: System>() -> usize {
        0
    }

    fn new<S: System>(_: usize, _: usize) -> Self {
        InFront
    }

    #[inline(always)]
    unsafe fn load<S: System, W: Width>(self, memory: Memory<W>, address: usize) -> usize {
        // SAFETY: the header of a unit is the heap's to read.
        let word = unsafe { memory.load(memory.offset(address).wrapping_sub(W::BYTES)) };
        word ^ W::get(W::put(Self::number::<S>(address)))
    }

    #[inline(always)]
    unsafe fn store<S: System, W: Width>(self, memory: Memory<W>, address: usize, tag: usize) {
        let word = tag | Self::number::<S>(address);
        // SAFETY: the header of a unit that begins a block is the heap's.
        unsafe { memory.store(memory.offset(address).wrapping_sub(W::BYTES), word) }
    }
}

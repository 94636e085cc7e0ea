//! A heap's memory as words at offsets from one base.

use crate::mechanism::bits::array_at;
use crate::mechanism::word::Width;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// A place in a heap's memory: its distance from the base in bytes. Neither a size nor an address; only [`Memory`]
/// converts it to an address and back. Offsets wrap, so that [`Wide`](crate::mechanism::word::Wide) heaps reach regions
/// below the base.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset(usize);

impl Offset {
    /// The base.
    pub const BASE: Self = Offset(0);

    /// The place this many bytes after the base.
    #[inline(always)]
    pub const fn new(bytes: usize) -> Self {
        Offset(bytes)
    }

    /// Bytes from the base to here.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        self.0
    }

    /// The place this many bytes after this one.
    #[inline(always)]
    pub const fn up(self, bytes: usize) -> Self {
        Offset(self.0.wrapping_add(bytes))
    }

    /// The place this many bytes before this one.
    #[inline(always)]
    pub const fn down(self, bytes: usize) -> Self {
        Offset(self.0.wrapping_sub(bytes))
    }

    /// Bytes from another place, `start`, to this one.
    #[inline(always)]
    pub const fn bytes_from(self, start: Self) -> usize {
        self.0.wrapping_sub(start.0)
    }

    /// The last multiple of `align`, a power of two, that is not after this place.
    #[inline(always)]
    pub const fn aligned_down(self, align: usize) -> Self {
        Offset(self.0 & !(align - 1))
    }

    /// Whether the offset is a multiple of `align`, a power of two.
    #[inline(always)]
    pub const fn is_aligned(self, align: usize) -> bool {
        self.0 & (align - 1) == 0
    }
}

/// The base of a heap.
#[derive(Debug)]
pub struct Memory<W> {
    base: usize,
    width: PhantomData<W>,
}

impl<W> Clone for Memory<W> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<W> Copy for Memory<W> {}

impl<W: Width> Memory<W> {
    /// The memory around `base`. Its provenance, and that of every added region, is exposed.
    #[inline(always)]
    pub fn new(base: NonNull<u8>) -> Self {
        Memory { base: base.addr().get(), width: PhantomData }
    }

    /// The memory with another base, at an offset of this one: an array is there.
    #[inline(always)]
    pub fn array(self, offset: Offset) -> Self {
        Memory { base: array_at(self.address(offset)), width: PhantomData }
    }

    /// The address at an offset.
    #[inline(always)]
    pub fn address(self, offset: Offset) -> usize {
        self.base.wrapping_add(offset.0)
    }

    /// The offset of an address.
    #[inline(always)]
    pub fn offset(self, address: usize) -> Offset {
        Offset(address.wrapping_sub(self.base))
    }

    /// A pointer to the byte at an offset.
    ///
    /// # Safety
    ///
    /// The offset leads into a region of the heap.
    #[inline(always)]
    pub unsafe fn pointer(self, offset: Offset) -> NonNull<u8> {
        let pointer = core::ptr::with_exposed_provenance_mut(self.address(offset));
        // SAFETY: no region contains address zero, and the offset leads into a region.
        unsafe { NonNull::new_unchecked(pointer) }
    }

    /// A pointer to a `T` at an offset.
    #[inline(always)]
    pub(crate) fn at<T>(self, offset: Offset) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.address(offset))
    }

    /// Reads the word at an offset.
    ///
    /// # Safety
    ///
    /// An initialised, aligned word of the heap's own (control structure, tag or link) is there.
    #[inline(always)]
    pub unsafe fn load(self, offset: Offset) -> usize {
        // SAFETY: the caller guarantees an initialised, aligned word of the heap's own at the offset.
        W::get(unsafe { self.at::<W::Word>(offset).read() })
    }

    /// Writes the word at an offset.
    ///
    /// # Safety
    ///
    /// The offset is aligned and in a region of the heap, and the heap owns the word there: no live block covers it.
    #[inline(always)]
    pub unsafe fn store(self, offset: Offset, value: usize) {
        // SAFETY: the caller guarantees an aligned word in a region that no live block covers.
        unsafe { self.at::<W::Word>(offset).write(W::put(value)) }
    }

    /// Reads the link, a word that holds an offset, at an offset.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[inline(always)]
    pub unsafe fn load_link(self, offset: Offset) -> Offset {
        // SAFETY: the caller guarantees an initialised, aligned word of the heap's own at the offset.
        Offset(unsafe { self.load(offset) })
    }

    /// Writes the link at an offset.
    ///
    /// # Safety
    ///
    /// As [`store`](Self::store).
    #[inline(always)]
    pub unsafe fn store_link(self, offset: Offset, target: Offset) {
        // SAFETY: the caller guarantees an aligned word in a region that no live block covers.
        unsafe { self.store(offset, target.0) }
    }

    /// Reads the bitmap word (one `usize`) at an offset of the control structure.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load), for a `usize`.
    #[inline(always)]
    pub unsafe fn load_bits(self, offset: Offset) -> usize {
        // SAFETY: the caller guarantees an initialised, aligned `usize` of the heap's own at the offset.
        unsafe { self.at::<usize>(offset).read() }
    }

    /// Reads a word of the control structure again, where a register is worth more than a load.
    ///
    /// # Safety
    ///
    /// As [`load_bits`](Self::load_bits).
    #[inline(always)]
    pub unsafe fn reload_bits(self, offset: Offset) -> usize {
        // SAFETY: the caller guarantees an initialised, aligned `usize` of the heap's own at the offset.
        unsafe { self.at::<usize>(offset).read_volatile() }
    }

    /// Writes the bitmap word at an offset of the control structure.
    ///
    /// # Safety
    ///
    /// As [`store`](Self::store), for a `usize`.
    #[inline(always)]
    pub unsafe fn store_bits(self, offset: Offset, bits: usize) {
        // SAFETY: the caller guarantees an aligned `usize` in a region that no live block covers.
        unsafe { self.at::<usize>(offset).write(bits) }
    }
}

//! A heap's memory as words at offsets from one base.

use crate::mechanism::word::Width;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// The base of a heap. Offsets wrap, so that [`Wide`](crate::mechanism::word::Wide) heaps reach regions below the base.
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

    /// The address at an offset.
    #[inline(always)]
    pub fn address(self, offset: usize) -> usize {
        self.base.wrapping_add(offset)
    }

    /// The offset of an address.
    #[inline(always)]
    pub fn offset(self, address: usize) -> usize {
        address.wrapping_sub(self.base)
    }

    /// A pointer to the byte at an offset.
    ///
    /// # Safety
    ///
    /// The offset leads into a region of the heap.
    #[inline(always)]
    pub unsafe fn pointer(self, offset: usize) -> NonNull<u8> {
        let pointer = core::ptr::with_exposed_provenance_mut(self.address(offset));
        // SAFETY: no region contains address zero, and the offset leads into a region.
        unsafe { NonNull::new_unchecked(pointer) }
    }

    /// A pointer to a `T` at an offset.
    #[inline(always)]
    pub(crate) fn at<T>(self, offset: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.address(offset))
    }

    /// Reads the word at an offset.
    ///
    /// # Safety
    ///
    /// An initialised, aligned word of the heap's own (control structure, tag or link) is there.
    #[inline(always)]
    pub unsafe fn load(self, offset: usize) -> usize {
        // SAFETY: the caller guarantees an initialised, aligned word of the heap's own at the offset.
        W::get(unsafe { self.at::<W::Word>(offset).read() })
    }

    /// Writes the word at an offset.
    ///
    /// # Safety
    ///
    /// The offset is aligned and in a region of the heap, and the heap owns the word there: no live block covers it.
    #[inline(always)]
    pub unsafe fn store(self, offset: usize, value: usize) {
        // SAFETY: the caller guarantees an aligned word in a region that no live block covers.
        unsafe { self.at::<W::Word>(offset).write(W::put(value)) }
    }

    /// Reads the bitmap word (one `usize`) at an offset of the control structure.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load), for a `usize`.
    #[inline(always)]
    pub unsafe fn load_bits(self, offset: usize) -> usize {
        // SAFETY: the caller guarantees an initialised, aligned `usize` of the heap's own at the offset.
        unsafe { self.at::<usize>(offset).read() }
    }

    /// Writes the bitmap word at an offset of the control structure.
    ///
    /// # Safety
    ///
    /// As [`store`](Self::store), for a `usize`.
    #[inline(always)]
    pub unsafe fn store_bits(self, offset: usize, bits: usize) {
        // SAFETY: the caller guarantees an aligned `usize` in a region that no live block covers.
        unsafe { self.at::<usize>(offset).write(bits) }
    }
}

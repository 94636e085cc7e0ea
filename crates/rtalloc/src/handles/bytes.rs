//! A heap of bytes, all of them initialised, which makes `&[u8]` sound.
//!
//! An object is initialised when it is made: with zeros, or with a copy of the caller's bytes. An object grows by
//! zeros. So making an object is linear in its size here, whatever it costs in the heap. For constant time, and where
//! everything is written anyway, use [`Access`] and memory that may be uninitialised.
//!
//! ```
//! use core::mem::MaybeUninit;
//! use rtalloc::CompactFit;
//! use rtalloc::handles::{AbstractPointer, Bytes};
//!
//! let mut memory = [MaybeUninit::uninit(); 256 * 1024];
//! let mut heap: Bytes<'_, CompactFit> = Bytes::new(&mut memory, Default::default())?;
//!
//! let name = heap.insert(b"compact")?;
//! let zeros = heap.allocate(4)?;
//! heap.get_mut(zeros)?[0] = 7;
//! assert_eq!(heap.get(name)?, b"compact");
//!
//! // What C writes as `value++; print(*value);`
//! let value = AbstractPointer::from(name) + 1;
//! let mut byte = [0];
//! heap.read_at(value, &mut byte)?;
//! assert_eq!(&byte, b"o");
//!
//! heap.free(name)?;
//! assert!(heap.get(name).is_err(), "not the bytes of another object");
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # What does not compile
//!
//! A reference that is alive while an object is allocated, which may take a compaction step:
//!
//! ```compile_fail,E0502
//! # use rtalloc::{CompactFit, handles::Bytes};
//! # fn forbidden(mut heap: Bytes<'_, CompactFit>, object: rtalloc::contract::Handle) {
//! let bytes = heap.get(object).unwrap();
//! heap.allocate(100).unwrap();
//! assert_eq!(bytes[0], 0);
//! # }
//! ```
//!
//! while an object is freed, even another one, into whose place this one may be moved:
//!
//! ```compile_fail,E0502
//! # use rtalloc::{CompactFit, handles::Bytes};
//! # fn forbidden(mut heap: Bytes<'_, CompactFit>, object: rtalloc::contract::Handle, other: rtalloc::contract::Handle) {
//! let bytes = heap.get(object).unwrap();
//! heap.free(other).unwrap();
//! assert_eq!(bytes[0], 0);
//! # }
//! ```
//!
//! while an object is resized:
//!
//! ```compile_fail,E0502
//! # use rtalloc::{CompactFit, handles::Bytes};
//! # fn forbidden(mut heap: Bytes<'_, CompactFit>, object: rtalloc::contract::Handle) {
//! let bytes = heap.get(object).unwrap();
//! heap.resize(object, 100).unwrap();
//! assert_eq!(bytes[0], 0);
//! # }
//! ```
//!
//! while the heap compacts:
//!
//! ```compile_fail,E0502
//! # use rtalloc::{CompactFit, handles::Bytes};
//! # fn forbidden(mut heap: Bytes<'_, CompactFit>, object: rtalloc::contract::Handle) {
//! let bytes = heap.get(object).unwrap();
//! heap.compact(4096);
//! assert_eq!(bytes[0], 0);
//! # }
//! ```
//!
//! while another, mutable reference is alive, even to another object (for which there is
//! [`get_many_mut`](Bytes::get_many_mut)):
//!
//! ```compile_fail,E0499
//! # use rtalloc::{CompactFit, handles::Bytes};
//! # fn forbidden(mut heap: Bytes<'_, CompactFit>, object: rtalloc::contract::Handle, other: rtalloc::contract::Handle) {
//! let bytes = heap.get_mut(object).unwrap();
//! let others = heap.get_mut(other).unwrap();
//! bytes[0] = others[0];
//! # }
//! ```
//!
//! after the end of the heap, or of its region:
//!
//! ```compile_fail,E0505
//! # use rtalloc::{CompactFit, handles::Bytes};
//! # fn forbidden(heap: Bytes<'_, CompactFit>, object: rtalloc::contract::Handle) {
//! let bytes = heap.get(object).unwrap();
//! drop(heap);
//! assert_eq!(bytes[0], 0);
//! # }
//! ```
//!
//! ```compile_fail,E0597
//! # use core::mem::MaybeUninit;
//! # use rtalloc::{CompactFit, handles::Bytes};
//! let mut heap: Bytes<'_, CompactFit> = {
//!     let mut memory = [MaybeUninit::uninit(); 256 * 1024];
//!     Bytes::new(&mut memory, Default::default()).unwrap()
//! };
//! heap.allocate(100).unwrap();
//! ```

use super::access::{AbstractPointer, Access, DisjointError};
use crate::contract::{
    AccessError, AllocError, Handle, HandleAllocator, HandleError, InitError, LoopBound, ResizeError, loop_bound,
};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A heap all of whose bytes are initialised.
#[derive(Debug)]
pub struct Bytes<'r, H> {
    /// Every byte of every object in it is initialised. The heap is never lent by `&mut`.
    heap: H,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

impl<'r, H: HandleAllocator<'r>> Bytes<'r, H> {
    /// Makes a heap.
    ///
    /// # Errors
    ///
    /// [`InitError`]; the region is then untouched.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn new(region: &'r mut [MaybeUninit<u8>], config: H::Config) -> Result<Self, InitError> {
        Ok(Bytes { heap: H::new(region, config)?, region: PhantomData })
    }

    /// The heap, for queries.
    #[inline(always)]
    pub fn heap(&self) -> &H {
        &self.heap
    }

    /// The heap with its objects, which are plain memory from now on.
    pub fn into_heap(self) -> H {
        self.heap
    }

    /// Allocates an object of zeros.
    ///
    /// # Errors
    ///
    /// [`AllocError`]; nothing changed.
    ///
    /// # Time
    ///
    /// That of the heap, and linear in the size.
    #[inline]
    pub fn allocate(&mut self, size_bytes: usize) -> Result<Handle, AllocError> {
        let handle = self.heap.allocate(size_bytes)?;
        let written = self.zero(AbstractPointer::from(handle), size_bytes);
        debug_assert!(written.is_ok(), "the object is live and large enough");
        Ok(handle)
    }

    /// Allocates a copy of bytes.
    ///
    /// # Errors
    ///
    /// [`AllocError`]; nothing changed.
    ///
    /// # Time
    ///
    /// That of the heap, and linear in the size.
    #[inline]
    pub fn insert(&mut self, bytes: &[u8]) -> Result<Handle, AllocError> {
        let handle = self.heap.allocate(bytes.len())?;
        let written = self.write_at(handle, bytes);
        debug_assert!(written.is_ok(), "the object is live and large enough");
        Ok(handle)
    }

    /// [`HandleAllocator::free`].
    ///
    /// # Errors
    ///
    /// As [`HandleAllocator::free`].
    ///
    /// # Time
    ///
    /// As [`HandleAllocator::free`].
    #[inline(always)]
    pub fn free(&mut self, handle: Handle) -> Result<(), HandleError> {
        self.heap.free(handle)
    }

    /// [`HandleAllocator::resize`]; the object grows by zeros.
    ///
    /// # Errors
    ///
    /// As [`HandleAllocator::resize`].
    ///
    /// # Time
    ///
    /// As [`HandleAllocator::resize`], and linear in the growth.
    #[inline]
    pub fn resize(&mut self, handle: Handle, size_bytes: usize) -> Result<(), ResizeError> {
        let before_bytes = self.heap.size(handle)?;
        self.heap.resize(handle, size_bytes)?;
        let growth_bytes = size_bytes.saturating_sub(before_bytes);
        let written = self.zero(AbstractPointer::new(handle, before_bytes.min(size_bytes)), growth_bytes);
        debug_assert!(written.is_ok(), "the object is live and large enough");
        Ok(())
    }

    /// [`HandleAllocator::compact`].
    ///
    /// # Time
    ///
    /// As [`HandleAllocator::compact`].
    #[inline(always)]
    pub fn compact(&mut self, budget_bytes: usize) -> usize {
        self.heap.compact(budget_bytes)
    }

    /// An object, for reading. Does not compile for a heap whose objects are pieces.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub fn get(&self, handle: Handle) -> Result<&[u8], AccessError> {
        let object = self.heap.slice(handle)?;
        // SAFETY: every byte of every object is initialised.
        Ok(unsafe { object.assume_init_ref() })
    }

    /// An object, for writing. Does not compile for a heap whose objects are pieces.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub fn get_mut(&mut self, handle: Handle) -> Result<&mut [u8], AccessError> {
        let object = self.heap.slice_mut(handle)?;
        // SAFETY: every byte of every object is initialised.
        Ok(unsafe { object.assume_init_mut() })
    }

    /// Several objects, for writing at the same time. Does not compile for a heap whose objects are pieces.
    ///
    /// # Errors
    ///
    /// [`DisjointError`]: two of the handles are the same, or one is invalid.
    ///
    /// # Time
    ///
    /// Quadratic in their number.
    #[inline(always)]
    pub fn get_many_mut<const N: usize>(&mut self, handles: [Handle; N]) -> Result<[&mut [u8]; N], DisjointError> {
        let objects = self.heap.slices_mut(handles)?;
        // SAFETY: every byte of every object is initialised.
        Ok(objects.map(|object| unsafe { object.assume_init_mut() }))
    }

    /// An object, for reading piece by piece.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant, and so is each piece.
    #[inline(always)]
    pub fn pieces(&self, handle: Handle) -> Result<impl Iterator<Item = &[u8]>, AccessError> {
        let size_bytes = self.heap.size(handle)?;
        let pieces = self.heap.pieces(AbstractPointer::from(handle), size_bytes)?;
        // SAFETY: every byte of every object is initialised.
        Ok(pieces.map(|piece| unsafe { piece.assume_init_ref() }))
    }

    /// An object, for writing piece by piece.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant, and so is each piece.
    #[inline(always)]
    pub fn pieces_mut(&mut self, handle: Handle) -> Result<impl Iterator<Item = &mut [u8]>, AccessError> {
        let size_bytes = self.heap.size(handle)?;
        let pieces = self.heap.pieces_mut(AbstractPointer::from(handle), size_bytes)?;
        // SAFETY: every byte of every object is initialised.
        Ok(pieces.map(|piece| unsafe { piece.assume_init_mut() }))
    }

    /// Copies bytes of an object, from a pointer on, to `into`.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; `into` is then unchanged.
    ///
    /// # Time
    ///
    /// Linear in the bytes.
    #[inline]
    pub fn read_at(&self, from: impl Into<AbstractPointer>, into: &mut [u8]) -> Result<(), AccessError> {
        let pieces = self.heap.pieces(from.into(), into.len())?;
        let mut place = NonNull::from(into).cast::<MaybeUninit<u8>>();
        for piece in pieces {
            loop_bound!(LoopBound::Caller);
            // SAFETY: the pieces are together as long as `into`, and every byte of every object is initialised; they do
            // not overlap `into`, which is borrowed exclusively.
            unsafe {
                place.copy_from_nonoverlapping(NonNull::from(piece).cast(), piece.len());
                place = place.add(piece.len());
            }
        }
        Ok(())
    }

    /// Copies `bytes` into an object, from a pointer on.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; the object is then unchanged.
    ///
    /// # Time
    ///
    /// Linear in the bytes.
    #[inline]
    pub fn write_at(&mut self, to: impl Into<AbstractPointer>, bytes: &[u8]) -> Result<(), AccessError> {
        let pieces = self.heap.pieces_mut(to.into(), bytes.len())?;
        let mut from = NonNull::from(bytes).cast::<MaybeUninit<u8>>();
        for piece in pieces {
            loop_bound!(LoopBound::Caller);
            // SAFETY: the pieces are together as long as `bytes`; they do not overlap it: the object is borrowed
            // exclusively.
            unsafe {
                NonNull::from(&mut *piece).cast().copy_from_nonoverlapping(from, piece.len());
                from = from.add(piece.len());
            }
        }
        Ok(())
    }

    /// Writes zeros into bytes of an object.
    #[inline]
    fn zero(&mut self, start: AbstractPointer, len_bytes: usize) -> Result<(), AccessError> {
        for piece in self.heap.pieces_mut(start, len_bytes)? {
            loop_bound!(LoopBound::Caller);
            piece.fill(MaybeUninit::new(0));
        }
        Ok(())
    }
}

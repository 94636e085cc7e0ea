//! References into objects, which borrow the heap; abstract pointers (Compact-fit 2008, section 3.5).
//!
//! A contiguous object is one slice; any object is a sequence of [pieces](Pieces), each of them a slice: block-frames,
//! arraylets. The memory may be uninitialised, because a heap does not write to what it allocates.
//!
//! They cost no more than the heap's own `locate`, once per object or piece.

use crate::contract::{AccessError, Handle, HandleAllocator, LoopBound, loop_bound};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::ptr::NonNull;

/// A byte of an object: the paper's *abstract pointer* (2008, sections 2.3 and 3.5), which stays valid when the object
/// moves.
///
/// Its arithmetic is that of an offset, and wraps. As in C a pointer may point beyond its object if it is not accessed
/// there; an access returns an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AbstractPointer {
    /// The object.
    pub handle: Handle,
    /// Which byte of it.
    pub offset_bytes: usize,
}

impl AbstractPointer {
    /// The byte at an offset of an object.
    #[inline(always)]
    pub const fn new(handle: Handle, offset_bytes: usize) -> Self {
        AbstractPointer { handle, offset_bytes }
    }
}

/// The first byte of an object.
impl From<Handle> for AbstractPointer {
    #[inline(always)]
    fn from(handle: Handle) -> Self {
        AbstractPointer::new(handle, 0)
    }
}

impl Add<usize> for AbstractPointer {
    type Output = Self;

    #[inline(always)]
    fn add(self, bytes: usize) -> Self {
        AbstractPointer::new(self.handle, self.offset_bytes.wrapping_add(bytes))
    }
}

impl Sub<usize> for AbstractPointer {
    type Output = Self;

    #[inline(always)]
    fn sub(self, bytes: usize) -> Self {
        AbstractPointer::new(self.handle, self.offset_bytes.wrapping_sub(bytes))
    }
}

impl AddAssign<usize> for AbstractPointer {
    #[inline(always)]
    fn add_assign(&mut self, bytes: usize) {
        *self = *self + bytes;
    }
}

impl SubAssign<usize> for AbstractPointer {
    #[inline(always)]
    fn sub_assign(&mut self, bytes: usize) {
        *self = *self - bytes;
    }
}

/// Why several objects were not accessed at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisjointError {
    /// One of them cannot be accessed.
    Access(AccessError),
    /// Two of them are the same object.
    Same,
}

impl From<AccessError> for DisjointError {
    fn from(error: AccessError) -> Self {
        DisjointError::Access(error)
    }
}

impl fmt::Display for DisjointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DisjointError::Access(error) => error.fmt(f),
            DisjointError::Same => f.write_str("two of the references would be to the same object"),
        }
    }
}

impl core::error::Error for DisjointError {}

/// Objects as memory: implemented for every [`HandleAllocator`].
pub trait Access<'r>: HandleAllocator<'r> {
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
    fn slice(&self, handle: Handle) -> Result<&[MaybeUninit<u8>], AccessError> {
        const { assert!(Self::IS_CONTIGUOUS, "objects of this heap are pieces: use `pieces` instead of slices") }
        let (start, len_bytes) = self.locate(handle, 0)?;
        let object = NonNull::slice_from_raw_parts(start.cast(), len_bytes);
        // SAFETY: a live object of a heap whose objects are contiguous; the heap is borrowed meanwhile.
        Ok(unsafe { object.as_ref() })
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
    fn slice_mut(&mut self, handle: Handle) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let mut object = whole_to_write(self, handle)?;
        // SAFETY: a live object; there is no other access to it while the heap is borrowed exclusively.
        Ok(unsafe { object.as_mut() })
    }

    /// Several objects, for writing at the same time. Does not compile for a heap whose objects are pieces.
    ///
    /// # Errors
    ///
    /// [`DisjointError`].
    ///
    /// # Time
    ///
    /// Quadratic in their number.
    #[inline(always)]
    fn slices_mut<const N: usize>(
        &mut self,
        handles: [Handle; N],
    ) -> Result<[&mut [MaybeUninit<u8>]; N], DisjointError> {
        let objects = all_distinct(handles, |handle| whole_to_write(self, handle))?;
        // SAFETY: live objects, which begin at different addresses and so are different ones; different objects do not
        // overlap, and there is no other access to them while the heap is borrowed exclusively.
        Ok(objects.map(|mut object| unsafe { object.as_mut() }))
    }

    /// `len_bytes` bytes of an object from `start` on, for reading piece by piece.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant, and so is each piece.
    #[inline(always)]
    fn pieces(&self, start: AbstractPointer, len_bytes: usize) -> Result<Pieces<'_, 'r, Self>, AccessError> {
        Ok(Pieces { span: Span::new(self, start, len_bytes)?, heap: self, region: PhantomData })
    }

    /// `len_bytes` bytes of an object from `start` on, for writing piece by piece.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant, and so is each piece.
    #[inline(always)]
    fn pieces_mut(&mut self, start: AbstractPointer, len_bytes: usize) -> Result<PiecesMut<'_, 'r, Self>, AccessError> {
        Ok(PiecesMut { span: Span::new(self, start, len_bytes)?, heap: self, exclusive: PhantomData })
    }
}

impl<'r, H: HandleAllocator<'r>> Access<'r> for H {}

/// The address of a contiguous object, for writing.
#[inline(always)]
fn whole_to_write<'r, H: HandleAllocator<'r>>(
    heap: &H,
    handle: Handle,
) -> Result<NonNull<[MaybeUninit<u8>]>, AccessError> {
    const { assert!(H::IS_CONTIGUOUS, "objects of this heap are pieces: use `pieces` instead of slices") }
    let (start, len_bytes) = heap.locate_mut(handle, 0)?;
    Ok(NonNull::slice_from_raw_parts(start.cast(), len_bytes))
}

/// Locates several objects, which must begin at different addresses.
#[inline(always)]
pub(super) fn all_distinct<K: Copy, T: ?Sized, E: Into<DisjointError>, const N: usize>(
    names: [K; N],
    locate: impl Fn(K) -> Result<NonNull<T>, E>,
) -> Result<[NonNull<T>; N], DisjointError> {
    let mut found = names.map(|_| None);
    for (index, &name) in names.iter().enumerate() {
        loop_bound!(LoopBound::Caller);
        let object = locate(name).map_err(Into::into)?;
        for slot in &mut found[..index] {
            loop_bound!(LoopBound::Caller);
            if slot.is_some_and(|other: NonNull<T>| other.addr() == object.addr()) {
                return Err(DisjointError::Same);
            }
        }
        found[index] = Some(object);
    }
    // SAFETY: the loop has filled every slot.
    Ok(found.map(|slot| unsafe { slot.unwrap_unchecked() }))
}

/// Bytes of a live object that have not been visited yet.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: AbstractPointer,
    /// They lie within the object.
    left_bytes: usize,
}

impl Span {
    #[inline(always)]
    fn new<'r, H: HandleAllocator<'r>>(heap: &H, at: AbstractPointer, len_bytes: usize) -> Result<Self, AccessError> {
        let size_bytes = heap.size(at.handle)?;
        if at.offset_bytes > size_bytes || len_bytes > size_bytes - at.offset_bytes {
            return Err(AccessError::OutOfBounds { size_bytes });
        }
        Ok(Span { at, left_bytes: len_bytes })
    }

    /// The next piece, given a function that locates its first byte.
    #[inline(always)]
    fn next(
        &mut self,
        locate: impl FnOnce(Handle, usize) -> Result<(NonNull<u8>, usize), AccessError>,
    ) -> Option<NonNull<[MaybeUninit<u8>]>> {
        if self.left_bytes == 0 {
            return None;
        }
        let (start, piece_bytes) = locate(self.at.handle, self.at.offset_bytes).ok()?;
        let len_bytes = piece_bytes.min(self.left_bytes);
        self.at += len_bytes;
        self.left_bytes -= len_bytes;
        Some(NonNull::slice_from_raw_parts(start.cast(), len_bytes))
    }
}

/// Pieces of an object, for reading: see [`Access::pieces`].
#[derive(Debug)]
pub struct Pieces<'a, 'r, H> {
    span: Span,
    heap: &'a H,
    region: PhantomData<&'r ()>,
}

impl<'a, 'r, H: HandleAllocator<'r>> Iterator for Pieces<'a, 'r, H> {
    type Item = &'a [MaybeUninit<u8>];

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.span.next(|handle, offset_bytes| self.heap.locate(handle, offset_bytes))?;
        // SAFETY: bytes of a live object; nothing moves or writes it while the heap is borrowed.
        Some(unsafe { piece.as_ref() })
    }
}

/// Pieces of an object, for writing: see [`Access::pieces_mut`].
#[derive(Debug)]
pub struct PiecesMut<'a, 'r, H> {
    span: Span,
    heap: &'a H,
    /// The heap is borrowed exclusively.
    exclusive: PhantomData<(&'a mut H, &'r ())>,
}

impl<'a, 'r, H: HandleAllocator<'r>> Iterator for PiecesMut<'a, 'r, H> {
    type Item = &'a mut [MaybeUninit<u8>];

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let mut piece = self.span.next(|handle, offset_bytes| self.heap.locate_mut(handle, offset_bytes))?;
        // SAFETY: bytes of a live object that no earlier piece holds; the heap is borrowed exclusively.
        Some(unsafe { piece.as_mut() })
    }
}

//! The contract of heaps whose blocks may move: objects are named by handles, and reached through the heap alone.

use super::{AllocError, Contract, Corruption, InitError, Stats};
use core::fmt;
use core::mem::MaybeUninit;
use core::num::{NonZeroU32, NonZeroU64};
use core::ptr::NonNull;

/// Names an object for as long as it lives, wherever it moves: the *abstract address* of the Compact-fit paper (2008,
/// section 2.3) with a generation.
///
/// A handle is a number: copying it copies no object and keeps none alive. When the object is freed its abstract address
/// may serve another one, of a later generation, so that an old handle is told from a new one: using it is an error, never
/// an access to the wrong object. `Option<Handle>` is as large as `Handle`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(NonZeroU64);

impl Handle {
    /// The handle of an abstract address and a generation.
    #[inline(always)]
    pub(crate) const fn new(address: u32, generation: NonZeroU32) -> Self {
        // SAFETY: the upper half is not zero.
        Handle(unsafe { NonZeroU64::new_unchecked((generation.get() as u64) << 32 | address as u64) })
    }

    /// The abstract address.
    #[inline(always)]
    pub(crate) const fn address(self) -> u32 {
        self.0.get() as u32
    }

    /// The generation; 0 only in a handle that came [from bits](Self::from_bits) no heap ever made.
    #[inline(always)]
    pub(crate) const fn generation(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    /// The handle as a number that is not zero, for a C interface or a file.
    #[inline(always)]
    pub const fn to_bits(self) -> NonZeroU64 {
        self.0
    }

    /// The handle with these bits. Every value is legal to use; one that no heap made names no object.
    #[inline(always)]
    pub const fn from_bits(bits: NonZeroU64) -> Self {
        Handle(bits)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:#x}, generation {})", self.address(), self.generation())
    }
}

/// A sequential allocator of objects that may move: *handle-based*. All state lives in the region; the value itself is one
/// pointer.
///
/// Everything that may move an object takes the heap by `&mut self`, and every reference into an object borrows the heap, so
/// a program in which a reference outlives its object's place does not compile.
///
/// # Safety
///
/// An implementation's objects lie in its region, are aligned to [`Contract::alignment_bytes`], do not overlap each other
/// or the allocator's own state, and keep their bytes until they are freed.
pub unsafe trait HandleAllocator<'r>: Sized {
    /// What can be chosen when the heap is made.
    type Config: Copy + Default + fmt::Debug;

    /// The facts of this allocator as data.
    const CONTRACT: Contract;

    /// Whether an object is one contiguous piece of memory; if not, it is pieces of [`PIECE_BYTES`](Self::PIECE_BYTES).
    const IS_CONTIGUOUS: bool;

    /// Bytes of a piece of an object that is contiguous in memory, beginning at multiples of it within the object:
    /// the block-frame. `usize::MAX` where objects are contiguous.
    const PIECE_BYTES: usize;

    /// Makes a heap in `region`, in constant time: nothing is written but the fields of the control structure.
    ///
    /// # Errors
    ///
    /// [`InitError`]; the region is then untouched.
    ///
    /// # Time
    ///
    /// Constant, whatever the region's size (Compact-fit 2008, section 6).
    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError>;

    /// Allocates an object of `size_bytes` bytes, uninitialised. Moves other objects only where the heap compacts in steps.
    ///
    /// # Errors
    ///
    /// [`AllocError`] tells which; nothing changed, but that a heap which compacts in steps may have taken one.
    ///
    /// # Time
    ///
    /// `CONTRACT.allocate`.
    fn allocate(&mut self, size_bytes: usize) -> Result<Handle, AllocError>;

    /// Frees an object. May move one other object of the same size class; where the heap compacts in steps, others
    /// that it owes to move.
    ///
    /// # Errors
    ///
    /// [`HandleError`]; nothing changed.
    ///
    /// # Time
    ///
    /// `CONTRACT.deallocate`.
    fn free(&mut self, handle: Handle) -> Result<(), HandleError>;

    /// Changes the size of an object; its handle stays valid. The content survives up to the smaller of the two sizes. May
    /// move this object and one other. An object that becomes smaller keeps its place where there is no other: shrinking
    /// never fails.
    ///
    /// # Errors
    ///
    /// [`ResizeError`]; nothing changed, but that a heap which compacts in steps may have taken one.
    ///
    /// # Time
    ///
    /// Constant within a size class, else of an allocate, a free and a copy of the content.
    fn resize(&mut self, handle: Handle, size_bytes: usize) -> Result<(), ResizeError>;

    /// Bytes that were requested for an object.
    ///
    /// # Errors
    ///
    /// [`HandleError`].
    ///
    /// # Time
    ///
    /// Constant.
    fn size(&self, handle: Handle) -> Result<usize, HandleError>;

    /// Where the byte `offset_bytes` of an object is now, and how many bytes from there on to the end of the object are
    /// contiguous with it, itself included: what all access is made of.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant.
    fn locate(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError>;

    /// As [`locate`](Self::locate), to write there until the next operation that takes the heap by `&mut self`: a move
    /// of this object that is under way begins anew. It takes the heap by `&self` because several objects are written at
    /// a time, and objects with interior mutability through shared references; a heap is therefore never `Sync`.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant.
    fn locate_to_write(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError>;

    /// Where the byte `offset_bytes` of an object is now, unchecked: the dereference that the paper counts (section 3.5).
    ///
    /// # Safety
    ///
    /// The handle names a live object of this heap that is larger than the offset. The address is the byte's until the next
    /// operation that takes the heap by `&mut self`; who writes to it uses [`locate_to_write`](Self::locate_to_write) unless
    /// objects move in one step.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn dereference(&self, handle: Handle, offset_bytes: usize) -> NonNull<u8>;

    /// Bytes that compaction owes: what has still to be moved until every size class has at most its number of not-full
    /// pages. 0 unless the heap compacts incrementally.
    ///
    /// # Time
    ///
    /// Constant.
    fn owed_bytes(&self) -> usize;

    /// Compacts in idle time: moves at most `budget_bytes` bytes of what is [owed](Self::owed_bytes), and returns how many.
    ///
    /// # Time
    ///
    /// Linear in the bytes moved.
    fn compact(&mut self, budget_bytes: usize) -> usize;

    /// A promise: a request of this many bytes succeeds now, and one byte more fails unless `CONTRACT.largest_is_exact` is
    /// false or compaction is [owed](Self::owed_bytes), of which a request pays a part. 0 when nothing can be allocated.
    ///
    /// # Time
    ///
    /// Constant.
    fn largest_allocatable(&self) -> usize;

    /// Running tallies, or `None` where the heap's type leaves them out.
    ///
    /// # Time
    ///
    /// Constant.
    fn stats(&self) -> Option<Stats>;

    /// Bytes lost to each kind of fragmentation now.
    ///
    /// # Time
    ///
    /// Linear in the pages and objects.
    fn fragmentation(&self) -> Fragmentation;

    /// Visits every live object, page by page.
    ///
    /// # Time
    ///
    /// Linear in the pages and objects.
    fn walk(&self, visitor: &mut dyn FnMut(Object));

    /// Verifies every invariant of the heap.
    ///
    /// # Errors
    ///
    /// The first [`Corruption`] found.
    ///
    /// # Time
    ///
    /// Linear in the pages and objects.
    fn check(&self) -> Result<(), Corruption>;

    /// Emits the abstract state: two heaps of one type and region that emit the same words behave alike from now on, but for
    /// the generations of the handles they will give. Exhaustive exploration counts states by it.
    ///
    /// # Time
    ///
    /// Linear in the pages and objects.
    fn fingerprint(&self, word: &mut dyn FnMut(usize));
}

/// A live object as [`HandleAllocator::walk`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its handle.
    pub handle: Handle,
    /// Address of its first byte now.
    pub address: usize,
    /// Bytes requested.
    pub size_bytes: usize,
    /// Bytes of its page-block that it may use.
    pub usable_bytes: usize,
    /// Bytes of its page-block.
    pub page_block_bytes: usize,
}

/// The three kinds of fragmentation (Compact-fit 2008, section 2.5), in bytes, over all pages in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Page-block-internal: bytes of used page-blocks that were not requested (2.5.1).
    pub block_internal_bytes: usize,
    /// Page-internal: bytes at the ends of pages that hold no page-block (2.5.2).
    pub page_internal_bytes: usize,
    /// Size-external: free page-blocks of used pages, which serve requests of their class alone (2.5.3).
    pub size_external_bytes: usize,
}

/// What is wrong with a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleError {
    /// The object was freed. A number that no heap gave may be taken for the handle of such an object.
    Stale,
    /// No object of this heap ever had this handle.
    Foreign,
}

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandleError::Stale => "the object of this handle was freed",
            HandleError::Foreign => "a handle that this heap never gave",
        })
    }
}

impl core::error::Error for HandleError {}

/// Why an object was not accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The handle names no live object.
    Handle(HandleError),
    /// The access reaches beyond the object's end.
    OutOfBounds {
        /// Bytes of the object.
        size_bytes: usize,
    },
}

impl From<HandleError> for AccessError {
    fn from(error: HandleError) -> Self {
        AccessError::Handle(error)
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessError::Handle(error) => error.fmt(f),
            AccessError::OutOfBounds { size_bytes } => write!(f, "an access beyond the object's {size_bytes} bytes"),
        }
    }
}

impl core::error::Error for AccessError {}

/// Why an object was not resized. It is live and unchanged, if the handle names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeError {
    /// The handle names no live object.
    Handle(HandleError),
    /// The new size is refused.
    Refused(AllocError),
}

impl From<HandleError> for ResizeError {
    fn from(error: HandleError) -> Self {
        ResizeError::Handle(error)
    }
}

impl From<AllocError> for ResizeError {
    fn from(error: AllocError) -> Self {
        ResizeError::Refused(error)
    }
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResizeError::Handle(error) => error.fmt(f),
            ResizeError::Refused(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ResizeError {}

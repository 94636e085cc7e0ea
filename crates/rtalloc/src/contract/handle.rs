//! The contract of heaps whose blocks may move: objects are identified by handles, and accessed only through the heap.

use super::{AllocError, Contract, Corruption, InitError, Stats};
use core::fmt;
use core::mem::MaybeUninit;
use core::num::{NonZeroU32, NonZeroU64};
use core::ptr::NonNull;

/// Identifies an object for as long as it lives, wherever it moves: the *abstract address* of the Compact-fit paper
/// (2008, section 2.3) with a generation.
///
/// A handle is a number: copying it neither copies the object nor keeps it alive. When the object is freed, its
/// abstract address may be reused with a later generation, so that an old handle is distinguished from a new one: using
/// it is an error, never an access to the wrong object. `Option<Handle>` is as large as `Handle`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(NonZeroU64);

impl Handle {
    /// The handle of an abstract address and a generation.
    #[inline(always)]
    pub(crate) const fn new(address: u32, generation: NonZeroU32) -> Self {
        // SAFETY: the upper half is the generation, which is not zero.
        Handle(unsafe { NonZeroU64::new_unchecked((generation.get() as u64) << 32 | address as u64) })
    }

    /// The abstract address.
    #[inline(always)]
    pub(crate) const fn address(self) -> u32 {
        self.0.get() as u32
    }

    /// The generation; 0 only in a handle [from bits](Self::from_bits) that no heap made.
    #[inline(always)]
    pub(crate) const fn generation(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    /// The handle as a nonzero number, for a C interface or a file.
    #[inline(always)]
    pub const fn to_bits(self) -> NonZeroU64 {
        self.0
    }

    /// The handle with these bits. Every value is legal to use; one that no heap made identifies no object.
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

/// A sequential allocator of objects that may move: *handle-based*. All state lives in the region; the value itself is
/// one pointer.
///
/// Every method that may move an object takes the heap by `&mut self`, and every reference into an object borrows the
/// heap. So a program in which a reference outlives its object's place does not compile.
///
/// # Safety
///
/// An implementation's objects lie in its region, are aligned to [`Contract::alignment_bytes`], do not overlap each
/// other or the allocator's own state, and keep their bytes until they are freed.
pub unsafe trait HandleAllocator<'r>: Sized {
    /// Configuration of a heap.
    type Config: Copy + Default + fmt::Debug;

    /// The properties of this allocator as data.
    const CONTRACT: Contract;

    /// Whether an object is one contiguous piece of memory; if not, it consists of pieces of
    /// [`PIECE_BYTES`](Self::PIECE_BYTES).
    const IS_CONTIGUOUS: bool;

    /// Bytes of a contiguous piece of an object; pieces begin at multiples of this within the object: the block-frame.
    /// `usize::MAX` where objects are contiguous.
    const PIECE_BYTES: usize;

    /// Makes a heap in `region`, in constant time: only the fields of the control structure are written.
    ///
    /// # Errors
    ///
    /// [`InitError`]; the region is then untouched.
    ///
    /// # Time
    ///
    /// Constant, whatever the region's size (Compact-fit 2008, section 6).
    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError>;

    /// Allocates an object of `size_bytes` bytes, uninitialised. Moves others only if the heap compacts incrementally.
    ///
    /// # Errors
    ///
    /// [`AllocError`]; nothing changed, except that a heap which compacts incrementally may have taken a step.
    ///
    /// # Time
    ///
    /// `CONTRACT.allocate`.
    fn allocate(&mut self, size_bytes: usize) -> Result<Handle, AllocError>;

    /// Frees an object. May move one other object of the same size class; where the heap compacts incrementally,
    /// pending moves.
    ///
    /// # Errors
    ///
    /// [`HandleError`]; nothing changed.
    ///
    /// # Time
    ///
    /// `CONTRACT.deallocate`.
    fn free(&mut self, handle: Handle) -> Result<(), HandleError>;

    /// Changes the size of an object; its handle stays valid. The content survives up to the smaller of the two sizes.
    /// May move this object and one other. An object may shrink in place: shrinking never fails.
    ///
    /// # Errors
    ///
    /// [`ResizeError`]; nothing changed, except that a heap which compacts incrementally may have taken a step.
    ///
    /// # Time
    ///
    /// Constant within a size class, else that of an allocate, a free and a copy of the content.
    fn resize(&mut self, handle: Handle, size_bytes: usize) -> Result<(), ResizeError>;

    /// Bytes requested for an object.
    ///
    /// # Errors
    ///
    /// [`HandleError`].
    ///
    /// # Time
    ///
    /// Constant.
    fn size(&self, handle: Handle) -> Result<usize, HandleError>;

    /// The current address of byte `offset_bytes` of an object, and how many bytes from there to the end of the object
    /// are contiguous with it, including itself. All access is built on this.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant.
    fn locate(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError>;

    /// As [`locate`](Self::locate), for writing there until the next operation that takes the heap by `&mut self`: a
    /// pending move of this object starts over. It takes the heap by `&self` because several objects may be written at
    /// a time, and objects with interior mutability through shared references; a heap is therefore never `Sync`.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    ///
    /// # Time
    ///
    /// Constant.
    fn locate_mut(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError>;

    /// The current address of byte `offset_bytes` of an object, unchecked: the paper's dereference (section 3.5).
    ///
    /// # Safety
    ///
    /// The handle identifies a live object of this heap that is larger than the offset. The address is valid until the
    /// next operation that takes the heap by `&mut self`; writes use [`locate_mut`](Self::locate_mut) unless
    /// objects move in one step.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn dereference(&self, handle: Handle, offset_bytes: usize) -> NonNull<u8>;

    /// Bytes of pending compaction: those to be moved until every size class has at most its number of not-full pages.
    /// 0 unless the heap compacts incrementally.
    ///
    /// # Time
    ///
    /// Constant.
    fn pending_bytes(&self) -> usize;

    /// Compacts in idle time: moves at most `budget_bytes` bytes of [pending compaction](Self::pending_bytes), and
    /// returns their number.
    ///
    /// # Time
    ///
    /// Linear in the bytes moved.
    fn compact(&mut self, budget_bytes: usize) -> usize;

    /// A guarantee: a request of this many bytes succeeds now, and one byte more fails unless
    /// `CONTRACT.largest_is_exact` is false or compaction is [pending](Self::pending_bytes), of which a request does a
    /// part. 0 when nothing can be allocated.
    ///
    /// # Time
    ///
    /// Constant.
    fn largest_allocatable(&self) -> usize;

    /// Running statistics, or `None` where the heap's type leaves them out.
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

    /// Emits the abstract state: two heaps of one type and region that emit the same words behave alike from now on,
    /// except for the generations of the handles they will return. Exhaustive exploration identifies states by it.
    ///
    /// # Time
    ///
    /// Linear in the pages and objects.
    fn fingerprint(&self, word: &mut dyn FnMut(usize));
}

/// A live object as reported by [`HandleAllocator::walk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its handle.
    pub handle: Handle,
    /// Current address of its first byte.
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
    /// Size-external: free page-blocks of used pages, which serve only requests of their class (2.5.3).
    pub size_external_bytes: usize,
}

/// Why a handle is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleError {
    /// The object was freed. A number that no heap returned may be taken for the handle of such an object.
    Stale,
    /// No object of this heap ever had this handle.
    Foreign,
}

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandleError::Stale => "the object of this handle was freed",
            HandleError::Foreign => "a handle that this heap never returned",
        })
    }
}

impl core::error::Error for HandleError {}

/// Why an object was not accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The handle identifies no live object.
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

/// Why an object was not resized. It is live and unchanged, if the handle identifies one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeError {
    /// The handle identifies no live object.
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

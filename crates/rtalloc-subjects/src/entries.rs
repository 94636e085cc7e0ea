//! The calling convention of subjects.

use crate::Handles;
use std::ffi::c_void;

/// Alignment of every block for which no larger one is requested, as of C's `malloc` on 64-bit machines, in bytes.
pub const NATURAL_ALIGN_BYTES: usize = 16;

/// `allocate(context, size, align)`: the block, or null if the request is refused. The entry point for natural
/// alignment takes the third argument as well and ignores it.
pub type AllocateEntry = unsafe extern "C-unwind" fn(*mut c_void, usize, usize) -> *mut u8;
/// `deallocate(context, block, size, align)`: frees a block.
pub type DeallocateEntry = unsafe extern "C-unwind" fn(*mut c_void, *mut u8, usize, usize);
/// `reallocate(context, block, old_size, align, new_size)`: the block, or null if the request is refused and the old
/// block stays live.
pub type ReallocateEntry = unsafe extern "C-unwind" fn(*mut c_void, *mut u8, usize, usize, usize) -> *mut u8;
/// `granted(context, block, size, align)`: bytes a live block occupies from its address on, if the allocator reports
/// more than the request.
pub type GrantedEntry = unsafe fn(*mut c_void, *mut u8, usize, usize) -> usize;

/// The functions a replay calls.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    /// Allocates at [`natural_align_bytes`](Self::natural_align_bytes), C's `malloc`: a constant for the compiler.
    pub allocate: AllocateEntry,
    /// Allocates at a larger alignment, C's `aligned_alloc`.
    pub allocate_aligned: AllocateEntry,
    /// Deallocates.
    pub deallocate: DeallocateEntry,
    /// Reallocates.
    pub reallocate: ReallocateEntry,
    /// Returns granted sizes; never measured. `None`: the requested size.
    pub granted: Option<GrantedEntry>,
    /// Alignment of every block without a request for it, at most [`NATURAL_ALIGN_BYTES`]: less if the allocator's
    /// quantum is smaller. A trace's own alignment is requested if it is larger.
    pub natural_align_bytes: usize,
    /// Access to objects, if they move: blocks are the bits of handles instead of addresses. Never counted.
    pub handles: Option<Handles>,
}

impl Entries {
    /// The entry point that serves requests at `align` bytes.
    #[inline(always)]
    #[must_use]
    pub fn allocate_at(&self, align: usize) -> AllocateEntry {
        if self.is_natural(align) { self.allocate } else { self.allocate_aligned }
    }

    /// Whether every block is aligned to `align` bytes without a request for it.
    #[inline(always)]
    #[must_use]
    pub fn is_natural(&self, align: usize) -> bool {
        align <= self.natural_align_bytes
    }
}

/// The largest requests that an allocator serves, however large its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Largest request, in bytes.
    pub request_bytes: usize,
    /// Largest alignment, in bytes.
    pub alignment_bytes: usize,
}

impl Reach {
    /// Limited only by the region.
    pub const UNLIMITED: Self = Self { request_bytes: usize::MAX, alignment_bytes: usize::MAX };

    /// Whether no heap of this allocator serves a request.
    #[inline(always)]
    #[must_use]
    pub fn is_beyond(&self, size: usize, align: usize) -> bool {
        size > self.request_bytes || align > self.alignment_bytes
    }
}

impl Entries {
    /// The addresses of the four entry points.
    #[must_use]
    pub fn addresses(&self) -> [u64; 4] {
        [
            self.allocate as usize as u64,
            self.allocate_aligned as usize as u64,
            self.deallocate as usize as u64,
            self.reallocate as usize as u64,
        ]
    }

    /// The same, with the four functions replaced by copies of them, in the order of [`addresses`](Self::addresses).
    ///
    /// # Safety
    ///
    /// Each pointer is to code equivalent to the function at its position.
    #[must_use]
    pub unsafe fn with_copies(self, [allocate, allocate_aligned, deallocate, reallocate]: [*const c_void; 4]) -> Self {
        // SAFETY: the caller passes copies of these functions, in this order, so each has the type of its place.
        unsafe {
            Self {
                allocate: std::mem::transmute::<*const c_void, AllocateEntry>(allocate),
                allocate_aligned: std::mem::transmute::<*const c_void, AllocateEntry>(allocate_aligned),
                deallocate: std::mem::transmute::<*const c_void, DeallocateEntry>(deallocate),
                reallocate: std::mem::transmute::<*const c_void, ReallocateEntry>(reallocate),
                granted: self.granted,
                natural_align_bytes: self.natural_align_bytes,
                handles: self.handles,
            }
        }
    }
}

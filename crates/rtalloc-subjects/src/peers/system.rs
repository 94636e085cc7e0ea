//! The C library's malloc.

use super::no_heap;
use crate::NATURAL_ALIGN_BYTES;
use crate::adapter::{Made, Target, subject};
use crate::{About, Origin, Peer, Subject};
use std::ffi::c_void;

/// The C library's malloc.
///
/// Caveat: the laboratory's own memory comes from the same heap; an alignment above 16 is lost by its realloc, so
/// such blocks are moved here.
pub struct SystemMalloc;

// SAFETY: the C library's malloc is an allocator.
unsafe impl Target for SystemMalloc {
    const OWN_PAGES: bool = true;

    unsafe fn make(_region: *mut u8, _bytes: usize) -> Result<Made, String> {
        Ok(no_heap())
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(_context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: any size and power of two is legal.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES {
                libc::malloc(size).cast()
            } else {
                libc::aligned_alloc(align, size).cast()
            }
        }
    }

    #[inline(always)]
    unsafe fn deallocate(_context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: the block is live.
        unsafe { libc::free(block.cast()) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the block is live and at least `old` bytes long; a new block is distinct from it.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES {
                return libc::realloc(block.cast(), new).cast();
            }
            let moved = Self::allocate(context, new, align);
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, old.min(new));
                libc::free(block.cast());
            }
            moved
        }
    }
}

/// The entry of the table.
pub(crate) const SUBJECT: Subject = subject::<SystemMalloc>(
    "system",
    Origin::System,
    "hybrid",
    "unbounded",
    About {
        summary: "The C library's malloc.",
        wins: "it is there already",
        loses: "neither time nor memory has a bound",
        in_dozen: true,
        peer: Some(Peer {
            source: "the C library of this machine",
            policy: "that of the C library",
            deallocate: None,
            header_bytes: None,
            granule_bytes: None,
            smallest_bytes: None,
            coalescing: None,
        }),
        ..About::NOTHING
    },
);

//! mimalloc.

use super::no_heap;
use crate::NATURAL_ALIGN_BYTES;
use crate::adapter::{Made, Target, subject};
use crate::{About, Origin, Peer, Subject};
use rtalloc::contract::Coalescing;
use std::ffi::c_void;

/// `mimalloc` through its C interface.
///
/// Caveat: its plain `mi_malloc` aligns a block to no more than its size, so smaller requests take the aligned
/// entry, as its `GlobalAlloc` does for all.
pub struct Mimalloc;

// SAFETY: `mimalloc` is an allocator.
unsafe impl Target for Mimalloc {
    const OWN_PAGES: bool = true;

    unsafe fn make(_region: *mut u8, _bytes: usize) -> Result<Made, String> {
        Ok(no_heap())
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(_context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: any size and power of two is legal.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES && align <= size {
                libmimalloc_sys::mi_malloc(size).cast()
            } else {
                libmimalloc_sys::mi_malloc_aligned(size, align).cast()
            }
        }
    }

    #[inline(always)]
    unsafe fn deallocate(_context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: the block is live.
        unsafe { libmimalloc_sys::mi_free(block.cast()) }
    }

    #[inline(always)]
    unsafe fn reallocate(_context: *mut c_void, block: *mut u8, _old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the block is live.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES && align <= new {
                libmimalloc_sys::mi_realloc(block.cast(), new).cast()
            } else {
                libmimalloc_sys::mi_realloc_aligned(block.cast(), new, align).cast()
            }
        }
    }
}

/// The entry of the table.
pub(crate) const SUBJECT: Subject = subject::<Mimalloc>(
    "mimalloc",
    Origin::Peer,
    "hybrid",
    "unbounded",
    About {
        summary: "Pages of one class with sharded free lists; memory from the system.",
        wins: "the fastest on average",
        loses: "takes pages from the system at any time: neither time nor memory has a bound",
        in_dozen: true,
        peer: Some(Peer {
            source: "mimalloc (Leijen, Zorn and de Moura 2019), the crate libmimalloc-sys 0.1",
            policy: "class lists, sharded",
            deallocate: None,
            header_bytes: Some(0),
            granule_bytes: Some(8),
            smallest_bytes: Some(8),
            coalescing: Some(Coalescing::Pages),
        }),
        ..About::NOTHING
    },
);

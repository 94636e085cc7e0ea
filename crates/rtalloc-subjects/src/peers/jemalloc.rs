//! jemalloc.

use super::no_heap;
use crate::NATURAL_ALIGN_BYTES;
use crate::adapter::{Made, Target, subject};
use crate::{About, Origin, Peer, Subject};
use rtalloc::contract::Coalescing;
use std::ffi::c_void;

/// `jemalloc` through its prefixed C interface; the process's own malloc stays the C library's.
///
/// Caveat: it aligns a block to no more than its size unless asked, so smaller requests take `mallocx`, as its
/// `GlobalAlloc` does.
pub struct Jemalloc;

// SAFETY: `jemalloc` is an allocator.
unsafe impl Target for Jemalloc {
    const OWN_PAGES: bool = true;

    unsafe fn make(_region: *mut u8, _bytes: usize) -> Result<Made, String> {
        Ok(no_heap())
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(_context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: any size but zero and any power of two is legal.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES && align <= size {
                tikv_jemalloc_sys::malloc(size).cast()
            } else {
                tikv_jemalloc_sys::mallocx(size, tikv_jemalloc_sys::MALLOCX_ALIGN(align)).cast()
            }
        }
    }

    #[inline(always)]
    unsafe fn deallocate(_context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: the block is live.
        unsafe { tikv_jemalloc_sys::free(block.cast()) }
    }

    #[inline(always)]
    unsafe fn reallocate(_context: *mut c_void, block: *mut u8, _old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the block is live; the new size is not zero.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES && align <= new {
                tikv_jemalloc_sys::realloc(block.cast(), new).cast()
            } else {
                tikv_jemalloc_sys::rallocx(block.cast(), new, tikv_jemalloc_sys::MALLOCX_ALIGN(align)).cast()
            }
        }
    }
}

/// The entry of the table.
pub(crate) const SUBJECT: Subject = subject::<Jemalloc>(
    "jemalloc",
    Origin::Peer,
    "hybrid",
    "unbounded",
    About {
        summary: "Slabs of one class with bitmaps, caches per thread; memory from the system.",
        wins: "little memory in long-running programs with many threads",
        loses: "takes pages from the system at any time: neither time nor memory has a bound",
        peer: Some(Peer {
            source: "jemalloc (Evans 2006), the crate tikv-jemalloc-sys 0.7",
            policy: "class slabs",
            deallocate: None,
            header_bytes: Some(0),
            granule_bytes: Some(8),
            smallest_bytes: Some(8),
            coalescing: Some(Coalescing::Pages),
        }),
        ..About::NOTHING
    },
);

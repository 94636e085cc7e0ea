//! The crate `dlmalloc`.

use super::{boxed, peer, unbox};
use crate::adapter::{Made, Target, subject};
use crate::{About, Origin, Peer, Subject};
use rtalloc::contract::Coalescing;
use std::ffi::c_void;
use std::ptr::null_mut;

/// `dlmalloc`, the Rust port of Doug Lea's allocator, on a region that it gets completely at its first request.
///
/// Caveat: its granularity is set to 16 bytes, so that it does not refuse a region below its 64 KiB; an alignment
/// above 16 is lost by its reallocate in place, so it moves such blocks.
pub struct Dlmalloc;
type DlmallocHeap = dlmalloc::Dlmalloc<OneRegion>;

/// The memory of a `dlmalloc`: one region, given once.
pub struct OneRegion {
    region: *mut u8,
    bytes: usize,
    given: std::cell::Cell<bool>,
}

// SAFETY: the pointer is to a region that belongs exclusively to this value.
unsafe impl Send for OneRegion {}

// SAFETY: `alloc` returns the whole region once; nothing is ever returned to it.
unsafe impl dlmalloc::Allocator for OneRegion {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        /// `EXTERN_BIT` of dlmalloc: a segment it may not unmap or merge.
        const NOT_YOURS: u32 = 1;
        if size > self.bytes || self.given.replace(true) {
            return (null_mut(), 0, 0);
        }
        (self.region, self.bytes, NOT_YOURS)
    }

    fn remap(&self, _ptr: *mut u8, _oldsize: usize, _newsize: usize, _can_move: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, _ptr: *mut u8, _oldsize: usize, _newsize: usize) -> bool {
        false
    }

    fn free(&self, _ptr: *mut u8, _size: usize) -> bool {
        false
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        false
    }

    fn page_size(&self) -> usize {
        4096
    }
}

// SAFETY: `dlmalloc` is an allocator; blocks lie in the segment it was given.
unsafe impl Target for Dlmalloc {
    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let mut heap =
            DlmallocHeap::new_with_allocator(OneRegion { region, bytes, given: std::cell::Cell::new(false) });
        if !heap.set_granularity(16) {
            return Err("dlmalloc refused a granularity of 16 bytes".into());
        }
        Ok(Made {
            context: boxed(heap),
            first_block_address: region as usize,
            outside_bytes: size_of::<DlmallocHeap>() - size_of::<OneRegion>(),
        })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        unsafe { unbox::<DlmallocHeap>(context) }
    }

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it.
        unsafe { peer::<DlmallocHeap>(context).malloc(size, align) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: `make` boxed it; the block is live and was requested with this layout.
        unsafe { peer::<DlmallocHeap>(context).free(block, size, align) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the block is live and was requested with this layout.
        unsafe { peer::<DlmallocHeap>(context).realloc(block, old, align, new) }
    }
}

/// The entry of the table.
pub(crate) const SUBJECT: Subject = subject::<Dlmalloc>(
    "dlmalloc",
    Origin::Peer,
    "hybrid",
    "O(log n)",
    About {
        summary: "Doug Lea's allocator, the DL of the papers: small bins, trees of large blocks, a designated victim.",
        wins: "best-fit's memory, fast on average",
        loses: "no bound short of the heap's size",
        in_dozen: true,
        peer: Some(Peer {
            source: "the crate dlmalloc 0.2",
            policy: "best fit",
            deallocate: None,
            header_bytes: Some(8),
            granule_bytes: Some(16),
            smallest_bytes: Some(32),
            coalescing: Some(Coalescing::Neighbours),
        }),
        ..About::NOTHING
    },
);

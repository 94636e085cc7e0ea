//! The crate `rlsf`.

use super::{boxed, layout, peer, pointer, unbox};
use crate::adapter::{Made, Target, subject};
use crate::{About, Origin, Peer, Subject};
use rtalloc::contract::{Coalescing, Cost};
use std::ffi::c_void;
use std::ptr::NonNull;

/// `rlsf`, TLSF with 28 first-level and 32 second-level classes.
///
/// Caveat: blocks are multiples of 32 bytes with headers of 16, and deallocation takes the alignment.
pub struct Rlsf;
type RlsfHeap = rlsf::Tlsf<'static, u32, u32, 28, 32>;

// SAFETY: `rlsf` is an allocator; blocks lie in the region inserted.
unsafe impl Target for Rlsf {
    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let mut heap = RlsfHeap::new();
        let slice = NonNull::slice_from_raw_parts(NonNull::new(region).ok_or("a null region")?, bytes);
        // SAFETY: the caller gives the region exclusively to this heap.
        unsafe { heap.insert_free_block_ptr(slice) }.ok_or("rlsf found no room for a block")?;
        let first_block_address = (region as usize).next_multiple_of(rlsf::GRANULARITY);
        Ok(Made { context: boxed(heap), first_block_address, outside_bytes: size_of::<RlsfHeap>() })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        unsafe { unbox::<RlsfHeap>(context) }
    }

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the layout is valid by the caller's guarantee.
        unsafe { pointer(peer::<RlsfHeap>(context).allocate(layout(size, align))) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, _size: usize, align: usize) {
        // SAFETY: `make` boxed it; the block is live, so not null.
        unsafe { peer::<RlsfHeap>(context).deallocate(NonNull::new_unchecked(block), align) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, _old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the block is live, so not null; the layout is valid.
        unsafe { pointer(peer::<RlsfHeap>(context).reallocate(NonNull::new_unchecked(block), layout(new, align))) }
    }
}

/// The entry of the table.
pub(crate) const SUBJECT: Subject = subject::<Rlsf>(
    "rlsf",
    Origin::Peer,
    "segregated",
    "O(1)",
    About {
        summary: "TLSF, published; here with 28 first-level and 32 second-level classes.",
        wins: "constant time, well tested, works in a region of unknown size",
        loses: "headers of 16 bytes, blocks in multiples of 32",
        options: "number and kind of the classes",
        in_dozen: true,
        peer: Some(Peer {
            source: "the crate rlsf 0.2",
            policy: "good fit, exact split",
            deallocate: Some(Cost::Constant.notation()),
            header_bytes: Some(16),
            granule_bytes: Some(32),
            smallest_bytes: Some(32),
            coalescing: Some(Coalescing::Neighbours),
        }),
        ..About::NOTHING
    },
);

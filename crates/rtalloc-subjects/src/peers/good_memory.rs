//! The crate `good_memory_allocator`.

use super::{boxed, layout, peer, unbox};
use crate::adapter::{Made, Target, subject};
use crate::{About, Origin, Peer, Subject};
use rtalloc::contract::{Coalescing, Cost};
use std::ffi::c_void;

/// `good_memory_allocator` with its default bins.
///
/// Caveat: blocks above its small bins are searched in one list, in linear time; its value may not move once it
/// has a region.
pub struct GoodMemory;
type GoodMemoryHeap = good_memory_allocator::Allocator;

// SAFETY: `good_memory_allocator` is an allocator; blocks lie in its region.
unsafe impl Target for GoodMemory {
    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        if bytes < 64 {
            return Err("good_memory_allocator needs room for one chunk".into());
        }
        let context = boxed(GoodMemoryHeap::empty());
        // SAFETY: boxed above, and does not move from now on; the caller gives the region exclusively to this heap.
        unsafe { peer::<GoodMemoryHeap>(context).init(region as usize, bytes) };
        Ok(Made { context, first_block_address: region as usize, outside_bytes: size_of::<GoodMemoryHeap>() })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        unsafe { unbox::<GoodMemoryHeap>(context) }
    }

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the layout is valid by the caller's guarantee.
        unsafe { peer::<GoodMemoryHeap>(context).alloc(layout(size, align)) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: `make` boxed it; the block is live.
        unsafe { peer::<GoodMemoryHeap>(context).dealloc(block) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the block is live and was requested with this layout.
        unsafe { peer::<GoodMemoryHeap>(context).realloc(block, layout(old, align), new) }
    }
}

/// The entry of the table.
pub(crate) const SUBJECT: Subject = subject::<GoodMemory>(
    "good-memory",
    Origin::Peer,
    "segregated",
    "O(n)",
    About {
        summary: "Small bins of one size each, and one list for all larger blocks.",
        wins: "fast on small blocks",
        loses: "the list of larger blocks is searched",
        options: "number of small bins",
        peer: Some(Peer {
            source: "the crate good_memory_allocator 0.1",
            policy: "first fit in bins",
            deallocate: Some(Cost::Constant.notation()),
            header_bytes: Some(8),
            granule_bytes: Some(16),
            smallest_bytes: Some(32),
            coalescing: Some(Coalescing::Neighbours),
        }),
        ..About::NOTHING
    },
);

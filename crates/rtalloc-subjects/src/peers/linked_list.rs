//! The crate `linked_list_allocator`.

use super::{boxed, layout, peer, pointer, reallocate_by_moving, unbox};
use crate::adapter::{Made, Target, subject};
use crate::{About, Origin, Peer, Subject};
use rtalloc::contract::{Coalescing, Cost};
use std::ffi::c_void;
use std::ptr::NonNull;

/// `linked_list_allocator`: first-fit over one list in address order.
///
/// Caveat: both operations walk the list; there is no reallocate, so every one moves. It panics on a region
/// without room for its first hole, which is refused here instead.
pub struct LinkedList;
type LinkedListHeap = linked_list_allocator::Heap;

// SAFETY: `linked_list_allocator` is an allocator; blocks lie in its region.
unsafe impl Target for LinkedList {
    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        if bytes < 4 * size_of::<usize>() {
            return Err("linked_list_allocator needs room for one hole".into());
        }
        // SAFETY: the caller gives the region exclusively to this heap.
        let heap = unsafe { LinkedListHeap::new(region, bytes) };
        let first_block_address = heap.bottom() as usize;
        Ok(Made { context: boxed(heap), first_block_address, outside_bytes: size_of::<LinkedListHeap>() })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        unsafe { unbox::<LinkedListHeap>(context) }
    }

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the layout is valid by the caller's guarantee.
        unsafe { pointer(peer::<LinkedListHeap>(context).allocate_first_fit(layout(size, align)).ok()) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: `make` boxed it; the block is live, so not null, and was requested with this layout.
        unsafe { peer::<LinkedListHeap>(context).deallocate(NonNull::new_unchecked(block), layout(size, align)) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the caller's guarantee is passed on unchanged.
        unsafe { reallocate_by_moving::<Self>(context, block, old, align, new) }
    }
}

/// The entry of the table.
pub(crate) const SUBJECT: Subject = subject::<LinkedList>(
    "linked-list",
    Origin::Peer,
    "sequential",
    "O(n)",
    About {
        summary: "First-fit over one list in address order.",
        wins: "the simplest allocator that coalesces",
        loses: "both operations walk the list",
        peer: Some(Peer {
            source: "the crate linked_list_allocator 0.10",
            policy: "first fit, address order",
            deallocate: Some(Cost::LinearInFreeBlocks.notation()),
            header_bytes: Some(0),
            granule_bytes: Some(8),
            smallest_bytes: Some(16),
            coalescing: Some(Coalescing::Neighbours),
        }),
        ..About::NOTHING
    },
);

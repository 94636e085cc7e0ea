//! The crate `buddy_system_allocator`.

use super::{boxed, layout, peer, pointer, reallocate_by_moving, unbox};
use crate::adapter::{Made, Target, subject};
use crate::{About, Origin, Peer, Subject};
use rtalloc::contract::{Coalescing, Cost};
use std::ffi::c_void;
use std::ptr::NonNull;

/// `buddy_system_allocator`, blocks up to 4 GiB.
///
/// Caveat: free searches the list of the block's size for its buddy, in linear time; there is no reallocate, so every
/// one moves; a region whose size is not a power of two becomes several blocks.
pub struct BuddySystem;
type BuddyHeap = buddy_system_allocator::Heap<33>;

// SAFETY: `buddy_system_allocator` is an allocator; blocks lie in the region added.
unsafe impl Target for BuddySystem {
    const REPORTS_GRANTED: bool = true;

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let mut heap = BuddyHeap::empty();
        // SAFETY: the caller gives the region exclusively to this heap.
        unsafe { heap.init(region as usize, bytes) };
        Ok(Made { context: boxed(heap), first_block_address: region as usize, outside_bytes: size_of::<BuddyHeap>() })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        unsafe { unbox::<BuddyHeap>(context) }
    }

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the layout is valid by the caller's guarantee.
        unsafe { pointer(peer::<BuddyHeap>(context).alloc(layout(size, align)).ok()) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: `make` boxed it; the block is live, so not null, and was requested with this layout.
        unsafe { peer::<BuddyHeap>(context).dealloc(NonNull::new_unchecked(block), layout(size, align)) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the caller's guarantee is passed on unchanged.
        unsafe { reallocate_by_moving::<Self>(context, block, old, align, new) }
    }

    unsafe fn granted(_context: *mut c_void, _block: *mut u8, size: usize, align: usize) -> usize {
        size.next_power_of_two().max(align).max(size_of::<usize>())
    }
}

/// The entry of the table.
pub(crate) const SUBJECT: Subject = subject::<BuddySystem>(
    "buddy-system",
    Origin::Peer,
    "buddy",
    "O(log n)",
    About {
        summary: "A binary buddy with a list per power of two.",
        wins: "short, well-known code",
        loses: "a free searches the list for the buddy, in linear time; every size is rounded up to a power of two",
        options: "largest order",
        peer: Some(Peer {
            source: "the crate buddy_system_allocator 0.13",
            policy: "binary buddy",
            deallocate: Some(Cost::LinearInFreeBlocks.notation()),
            header_bytes: Some(0),
            granule_bytes: Some(8),
            smallest_bytes: Some(8),
            coalescing: Some(Coalescing::Buddies),
        }),
        ..About::NOTHING
    },
);

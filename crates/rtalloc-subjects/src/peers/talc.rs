//! The crate `talc`.

use super::{boxed, layout, peer, pointer, reallocate_by_moving, unbox};
use crate::adapter::{Made, Target, subject};
use crate::{About, Origin, Peer, Subject};
use rtalloc::contract::{Coalescing, Cost};
use std::ffi::c_void;

/// `talc` with its default bins and no source of further memory.
///
/// Caveat: its array of bins lies at the start of the region; it has no reallocation in one call, so ours is the
/// one of its own `GlobalAlloc` implementation without the lock.
pub struct Talc;
type TalcHeap = talc::base::Talc<talc::source::Manual, talc::DefaultBinning>;

// SAFETY: `talc` is an allocator; blocks lie in the region claimed.
unsafe impl Target for Talc {
    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let mut heap = TalcHeap::new(talc::source::Manual);
        // SAFETY: the caller gives the region exclusively to this heap; the probe block is freed again.
        let first_block_address = unsafe {
            heap.claim(region, bytes).ok_or("talc found no room for its bins")?;
            // The bins end where the lowest block begins: a block starts at its payload, the tag is at its end.
            let probe = heap.allocate(layout(1, 1)).ok_or("talc found no room for a block")?;
            heap.deallocate(probe.as_ptr(), layout(1, 1));
            probe.as_ptr() as usize
        };
        Ok(Made { context: boxed(heap), first_block_address, outside_bytes: size_of::<TalcHeap>() })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        unsafe { unbox::<TalcHeap>(context) }
    }

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the layout is valid and not of size zero by the caller's guarantee.
        unsafe { pointer(peer::<TalcHeap>(context).allocate(layout(size, align))) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: `make` boxed it; the block is live and was requested with this layout.
        unsafe { peer::<TalcHeap>(context).deallocate(block, layout(size, align)) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the block is live and was requested with this layout.
        unsafe {
            if peer::<TalcHeap>(context).try_realloc_in_place(block, layout(old, align), new) {
                return block;
            }
            reallocate_by_moving::<Self>(context, block, old, align, new)
        }
    }
}

/// The entry of the table.
pub(crate) const SUBJECT: Subject = subject::<Talc>(
    "talc",
    Origin::Peer,
    "segregated",
    "O(n)",
    About {
        summary: "Bins of sizes with a bitmap; tags at the end of blocks.",
        wins: "fast and frugal on average",
        loses: "the search within a bin has no bound",
        options: "bins, a source of further memory",
        in_dozen: true,
        peer: Some(Peer {
            source: "the crate talc 5.1",
            policy: "first fit in a bin",
            deallocate: Some(Cost::Constant.notation()),
            header_bytes: Some(8),
            granule_bytes: Some(16),
            smallest_bytes: Some(32),
            coalescing: Some(Coalescing::Neighbours),
        }),
        ..About::NOTHING
    },
);

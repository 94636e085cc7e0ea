//! Peers that live in the region they are given. Their control structures are Rust values that their users keep
//! outside the region; the replay counts them (`outside_bytes`) where ours are counted.

use super::adapter::{Made, Target};
use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// The context of a peer: its value in a box.
fn boxed<T>(peer: T) -> *mut c_void {
    Box::into_raw(Box::new(peer)).cast()
}

/// # Safety
///
/// `context` came from `boxed::<T>` and is not used again.
unsafe fn unbox<T>(context: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(context.cast::<T>()) });
}

/// # Safety
///
/// `context` came from `boxed::<T>`, and no other reference to the peer is alive.
#[inline(always)]
unsafe fn peer<'a, T>(context: *mut c_void) -> &'a mut T {
    // SAFETY: the caller's promise.
    unsafe { &mut *context.cast::<T>() }
}

/// # Safety
///
/// As [`Layout::from_size_align_unchecked`]; a replay asks for nothing else.
#[inline(always)]
unsafe fn layout(size: usize, align: usize) -> Layout {
    // SAFETY: the caller's promise.
    unsafe { Layout::from_size_align_unchecked(size, align) }
}

#[inline(always)]
fn pointer(block: Option<NonNull<u8>>) -> *mut u8 {
    block.map_or(null_mut(), NonNull::as_ptr)
}

/// The reallocation of an allocator that has none, as `GlobalAlloc` defines it: allocate, copy, deallocate.
///
/// # Safety
///
/// As [`Target::reallocate`].
#[inline(always)]
unsafe fn reallocate_by_moving<T: Target>(
    context: *mut c_void,
    block: *mut u8,
    old: usize,
    align: usize,
    new: usize,
) -> *mut u8 {
    // SAFETY: the caller's promise; the new block is another one than the live old one, both at least as long as
    // what is copied.
    unsafe {
        let moved = T::allocate(context, new, align);
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(block, moved, old.min(new));
            T::deallocate(context, block, old, align);
        }
        moved
    }
}

/// `rlsf`, TLSF with 28 first-level and 32 second-level classes.
///
/// Caveat: blocks are multiples of 32 bytes with headers of 16, and deallocation is told the alignment.
pub struct Rlsf;
type RlsfHeap = rlsf::Tlsf<'static, u32, u32, 28, 32>;

// SAFETY: `rlsf` is an allocator; blocks lie in the region inserted.
unsafe impl Target for Rlsf {
    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let mut heap = RlsfHeap::new();
        let slice = NonNull::slice_from_raw_parts(NonNull::new(region).ok_or("a null region")?, bytes);
        // SAFETY: the caller gives the region to this heap alone.
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
        // SAFETY: `make` boxed it; the layout is valid by the caller's promise.
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
        // SAFETY: the caller gives the region to this heap alone; the block probed for is given back.
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
        // SAFETY: `make` boxed it; the layout is valid and not of size zero by the caller's promise.
        unsafe { pointer(peer::<TalcHeap>(context).allocate(layout(size, align))) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: `make` boxed it; the block is live and was asked for with this layout.
        unsafe { peer::<TalcHeap>(context).deallocate(block, layout(size, align)) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the block is live and was asked for with this layout.
        unsafe {
            if peer::<TalcHeap>(context).try_realloc_in_place(block, layout(old, align), new) {
                return block;
            }
            reallocate_by_moving::<Self>(context, block, old, align, new)
        }
    }
}

/// `dlmalloc`, the Rust port of Doug Lea's allocator, on a region that it gets whole at its first request.
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

// SAFETY: the pointer is to a region that belongs to this value alone.
unsafe impl Send for OneRegion {}

// SAFETY: `alloc` hands out the region once, whole; nothing is ever taken back.
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
        // SAFETY: `make` boxed it; the block is live and was asked for with this layout.
        unsafe { peer::<DlmallocHeap>(context).free(block, size, align) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the block is live and was asked for with this layout.
        unsafe { peer::<DlmallocHeap>(context).realloc(block, old, align, new) }
    }
}

/// `buddy_system_allocator`, blocks up to 4 GiB.
///
/// Caveat: free searches the list of the block's size for its buddy, in linear time; there is no reallocate, so
/// every one moves; a region that is no power of two becomes several blocks.
pub struct BuddySystem;
type BuddyHeap = buddy_system_allocator::Heap<33>;

// SAFETY: `buddy_system_allocator` is an allocator; blocks lie in the region added.
unsafe impl Target for BuddySystem {
    const TELLS_GRANTED: bool = true;

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let mut heap = BuddyHeap::empty();
        // SAFETY: the caller gives the region to this heap alone.
        unsafe { heap.init(region as usize, bytes) };
        Ok(Made { context: boxed(heap), first_block_address: region as usize, outside_bytes: size_of::<BuddyHeap>() })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        unsafe { unbox::<BuddyHeap>(context) }
    }

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the layout is valid by the caller's promise.
        unsafe { pointer(peer::<BuddyHeap>(context).alloc(layout(size, align)).ok()) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: `make` boxed it; the block is live, so not null, and was asked for with this layout.
        unsafe { peer::<BuddyHeap>(context).dealloc(NonNull::new_unchecked(block), layout(size, align)) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { reallocate_by_moving::<Self>(context, block, old, align, new) }
    }

    unsafe fn granted(_context: *mut c_void, _block: *mut u8, size: usize, align: usize) -> usize {
        size.next_power_of_two().max(align).max(size_of::<usize>())
    }
}

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
        // SAFETY: the caller gives the region to this heap alone.
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
        // SAFETY: `make` boxed it; the layout is valid by the caller's promise.
        unsafe { pointer(peer::<LinkedListHeap>(context).allocate_first_fit(layout(size, align)).ok()) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: `make` boxed it; the block is live, so not null, and was asked for with this layout.
        unsafe { peer::<LinkedListHeap>(context).deallocate(NonNull::new_unchecked(block), layout(size, align)) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { reallocate_by_moving::<Self>(context, block, old, align, new) }
    }
}

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
        // SAFETY: boxed above, and does not move from now on; the caller gives the region to this heap alone.
        unsafe { peer::<GoodMemoryHeap>(context).init(region as usize, bytes) };
        Ok(Made { context, first_block_address: region as usize, outside_bytes: size_of::<GoodMemoryHeap>() })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        unsafe { unbox::<GoodMemoryHeap>(context) }
    }

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the layout is valid by the caller's promise.
        unsafe { peer::<GoodMemoryHeap>(context).alloc(layout(size, align)) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: `make` boxed it; the block is live.
        unsafe { peer::<GoodMemoryHeap>(context).dealloc(block) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `make` boxed it; the block is live and was asked for with this layout.
        unsafe { peer::<GoodMemoryHeap>(context).realloc(block, layout(old, align), new) }
    }
}

//! The verbs of heaps in one hand. What is asked of the pointers is told in the documentation of the verbs: `heap` is null or a live
//! heap of the type, `block` null or a live block of it, and a place is null or writable.

use super::{
    Configured, IMPOSSIBLE, block_or_null, lent, make, natural_align_bytes, rt_region, shown, told, value, verified,
};
use crate::error::rt_error::{self, *};
use crate::report::{rt_corruption, rt_stats, rt_visitor};
use core::ffi::c_void;
use core::mem::{ManuallyDrop, transmute_copy};
use core::ptr::{NonNull, null_mut};
use rtalloc::contract::RegionId;
use rtalloc::{MultiRegion, RegionAllocator};

pub(crate) unsafe fn init_with<A: RegionAllocator<'static, Config: Configured<C>>, C: Copy>(
    region: *mut c_void,
    bytes: usize,
    config: *const C,
    place: *mut *mut c_void,
) -> rt_error {
    // SAFETY: the caller's promise: null or readable, and so is what it leads to.
    let config = match unsafe { config.as_ref() } {
        // SAFETY: as above.
        Some(&config) => unsafe { A::Config::configured(config) },
        None => Some(A::Config::default()),
    };
    // SAFETY: the caller's promise.
    unsafe { make(region, bytes, place, |region| A::new(region, config.ok_or(IMPOSSIBLE)?)) }
}

pub(crate) unsafe fn init<A: RegionAllocator<'static>>(region: *mut c_void, bytes: usize) -> *mut c_void {
    let mut heap = null_mut();
    // SAFETY: the caller's promise; the place is ours.
    unsafe { make(region, bytes, &mut heap, |region| A::new(region, A::Config::default())) };
    heap
}

#[inline(always)]
pub(crate) unsafe fn aligned_alloc<A: RegionAllocator<'static>>(
    heap: *mut c_void,
    align: usize,
    size: usize,
) -> *mut c_void {
    let Some(heap) = NonNull::new(heap) else { return null_mut() };
    // SAFETY: the caller's promise.
    block_or_null(unsafe { value::<A>(heap) }.allocate_bytes(size, align))
}

#[inline(always)]
pub(crate) unsafe fn malloc<A: RegionAllocator<'static>>(heap: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { aligned_alloc::<A>(heap, const { natural_align_bytes(A::CONTRACT) }, size) }
}

#[inline(always)]
pub(crate) unsafe fn calloc<A: RegionAllocator<'static>>(heap: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // A product that overflows is refused like any other request that no heap can serve, and counted.
    let bytes = count.saturating_mul(size);
    // SAFETY: the caller's promise.
    let block = unsafe { malloc::<A>(heap, bytes) };
    if !block.is_null() {
        // SAFETY: the block was made for so many bytes.
        unsafe { block.cast::<u8>().write_bytes(0, bytes) };
    }
    block
}

#[inline(always)]
pub(crate) unsafe fn allocate<A: RegionAllocator<'static>>(
    heap: *mut c_void,
    align: usize,
    size: usize,
    place: *mut *mut c_void,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap), NonNull::new(place)) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise.
    unsafe { told(value::<A>(heap).allocate_bytes(size, align), place) }
}

#[inline(always)]
pub(crate) unsafe fn realloc<A: RegionAllocator<'static>>(
    heap: *mut c_void,
    block: *mut c_void,
    size: usize,
) -> *mut c_void {
    let Some(live) = NonNull::new(block.cast::<u8>()) else {
        // SAFETY: the caller's promise.
        return unsafe { malloc::<A>(heap, size) };
    };
    let Some(heap) = NonNull::new(heap) else { return null_mut() };
    // SAFETY: the caller's promise.
    let answer = unsafe { value::<A>(heap).reallocate_bytes(live, size, const { natural_align_bytes(A::CONTRACT) }) };
    block_or_null(answer)
}

#[inline(always)]
pub(crate) unsafe fn reallocate<A: RegionAllocator<'static>>(
    heap: *mut c_void,
    place: *mut *mut c_void,
    align: usize,
    size: usize,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap), NonNull::new(place)) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise, of heap, block and place.
    unsafe {
        let mut heap = value::<A>(heap);
        let answer = match NonNull::new(place.read().cast::<u8>()) {
            Some(block) => heap.reallocate_bytes(block, size, align),
            None => heap.allocate_bytes(size, align),
        };
        told(answer, place)
    }
}

#[inline(always)]
pub(crate) unsafe fn free<A: RegionAllocator<'static>>(heap: *mut c_void, block: *mut c_void) {
    if let (Some(heap), Some(block)) = (NonNull::new(heap), NonNull::new(block)) {
        // SAFETY: the caller's promise.
        unsafe { value::<A>(heap).deallocate(block.cast()) }
    }
}

pub(crate) unsafe fn usable_size<A: RegionAllocator<'static>>(heap: *const c_void, block: *const c_void) -> usize {
    match (NonNull::new(heap.cast_mut()), NonNull::new(block.cast_mut())) {
        // SAFETY: the caller's promise.
        (Some(heap), Some(block)) => unsafe { value::<A>(heap).usable_size(block.cast()) },
        _ => 0,
    }
}

pub(crate) unsafe fn largest<A: RegionAllocator<'static>>(heap: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    NonNull::new(heap.cast_mut()).map_or(0, |heap| unsafe { value::<A>(heap) }.largest_allocatable())
}

pub(crate) unsafe fn stats<A: RegionAllocator<'static>>(heap: *const c_void, place: *mut rt_stats) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the caller's promise.
    let heap = unsafe { value::<A>(heap) };
    let (stats, error) = match heap.stats() {
        Some(stats) => (stats.into(), RT_OK),
        None => {
            let largest_free_bytes = heap.largest_allocatable();
            (rt_stats { largest_free_bytes, ..rt_stats::default() }, RT_ERROR_NO_TALLIES)
        }
    };
    // SAFETY: the caller's promise.
    unsafe { place.write(stats) };
    error
}

pub(crate) unsafe fn walk<A: RegionAllocator<'static>>(
    heap: *const c_void,
    visitor: rt_visitor,
    context: *mut c_void,
) -> rt_error {
    let (Some(heap), Some(visitor)) = (NonNull::new(heap.cast_mut()), visitor) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise.
    unsafe { value::<A>(heap) }.walk(&mut shown(visitor, context));
    RT_OK
}

pub(crate) unsafe fn check<A: RegionAllocator<'static>>(heap: *const c_void, place: *mut rt_corruption) -> rt_error {
    let Some(heap) = NonNull::new(heap.cast_mut()) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise.
    unsafe { verified(value::<A>(heap).check(), place) }
}

pub(crate) unsafe fn add_region<A: MultiRegion<'static>>(
    heap: *mut c_void,
    region: *mut c_void,
    bytes: usize,
    place: *mut rt_region,
) -> rt_error {
    let Some(heap) = NonNull::new(heap) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise.
    let region = match unsafe { lent(region, bytes) } {
        Ok(region) => region,
        Err(error) => return error,
    };
    // SAFETY: the caller's promise.
    match unsafe { value::<A>(heap) }.add_region(region) {
        Ok(id) => {
            if let Some(place) = NonNull::new(place) {
                // SAFETY: the caller's promise.
                unsafe { place.write(id.to_bits()) };
            }
            RT_OK
        }
        Err(error) => error.into(),
    }
}

pub(crate) unsafe fn remove_region<A: MultiRegion<'static>>(heap: *mut c_void, region: rt_region) -> rt_error {
    let Some(heap) = NonNull::new(heap) else { return RT_ERROR_NULL };
    let Some(region) = RegionId::from_bits(region) else { return RT_ERROR_NOT_REMOVABLE };
    // SAFETY: the caller's promise.
    let removed = unsafe { value::<A>(heap) }.remove_region(region);
    rt_error::from(removed.map(|_| ()))
}

/// Asks a heap something that no other heap has an answer to.
///
/// # Errors
///
/// No heap.
pub(crate) unsafe fn asked<A, T>(heap: *const c_void, question: impl FnOnce(&mut A) -> T) -> Result<T, rt_error> {
    let Some(heap) = NonNull::new(heap.cast_mut()) else { return Err(RT_ERROR_NULL) };
    // SAFETY: the caller's promise.
    let mut heap = unsafe { value::<A>(heap) };
    Ok(question(&mut heap))
}

/// A copy of the pointer that a heap is, of a heap inside another one.
///
/// # Safety
///
/// Nobody uses the heap while the copy is used.
pub(crate) unsafe fn copy_of<A>(heap: &A) -> ManuallyDrop<A> {
    const { assert!(size_of::<A>() == size_of::<*mut c_void>(), "the value in hand is one pointer") }
    // SAFETY: a heap is one pointer; the copy is not dropped.
    unsafe { transmute_copy(heap) }
}

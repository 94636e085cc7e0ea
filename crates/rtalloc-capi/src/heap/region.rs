//! The functions of region heaps, as documented in `verbs::region`. `heap` is null or a live heap of this type that
//! nothing else uses during the call; `block` is null or a live block of it; `place` is null or writable.

use super::{
    Configured, RT_MOST_LIMITS, UNSUPPORTED, block_or_null, create, natural_align_bytes, passing_to, region_of,
    rt_limit, rt_region, stored, value, verified,
};
use crate::error::rt_error::{self, *};
use crate::report::{rt_corruption, rt_stats, rt_visitor};
use core::ffi::c_void;
use core::mem::{ManuallyDrop, transmute_copy};
use core::ptr::{NonNull, null_mut};
use rtalloc::contract::{RegionId, ResizeInPlace};
use rtalloc::limits::Limit;
use rtalloc::{MultiRegion, RegionAllocator};

/// The configuration that C passes, the default for null; `None` if it is invalid.
pub(crate) unsafe fn configuration<A: RegionAllocator<'static, Config: Configured<C>>, C: Copy>(
    config: *const C,
) -> Option<A::Config> {
    // SAFETY: the configuration is null or readable.
    match unsafe { config.as_ref() } {
        // SAFETY: the pointers in the configuration are null or readable.
        Some(&config) => unsafe { A::Config::configured(config) },
        None => Some(A::Config::default()),
    }
}

pub(crate) unsafe fn init_with<A: RegionAllocator<'static, Config: Configured<C>>, C: Copy>(
    region: *mut c_void,
    bytes: usize,
    config: *const C,
    place: *mut *mut c_void,
) -> rt_error {
    // SAFETY: the configuration and its pointers are null or readable.
    let config = unsafe { configuration::<A, C>(config) };
    // SAFETY: the region is writable and exclusive to the heap, and the place is null or writable.
    unsafe { create(region, bytes, place, |region| A::new(region, config.ok_or(UNSUPPORTED)?)) }
}

pub(crate) unsafe fn init<A: RegionAllocator<'static>>(region: *mut c_void, bytes: usize) -> *mut c_void {
    let mut heap = null_mut();
    // SAFETY: the region is writable and exclusive to the heap; the place is a local variable.
    unsafe { create(region, bytes, &mut heap, |region| A::new(region, A::Config::default())) };
    heap
}

#[inline(always)]
pub(crate) unsafe fn aligned_alloc<A: RegionAllocator<'static>>(
    heap: *mut c_void,
    align: usize,
    size: usize,
) -> *mut c_void {
    let Some(heap) = NonNull::new(heap) else { return null_mut() };
    // SAFETY: heap and block are live.
    block_or_null(unsafe { value::<A>(heap) }.allocate_bytes(size, align))
}

#[inline(always)]
pub(crate) unsafe fn malloc<A: RegionAllocator<'static>>(heap: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the conditions of that function are those of this one.
    unsafe { aligned_alloc::<A>(heap, const { natural_align_bytes(A::CONTRACT) }, size) }
}

#[inline(always)]
pub(crate) unsafe fn calloc<A: RegionAllocator<'static>>(heap: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // A product that overflows is refused like any other request that no heap can serve, and counted.
    let bytes = count.saturating_mul(size);
    // SAFETY: the conditions of that function are those of this one.
    let block = unsafe { malloc::<A>(heap, bytes) };
    if !block.is_null() {
        // SAFETY: the block has at least `bytes` bytes.
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
    // SAFETY: the heap is live.
    unsafe { stored(value::<A>(heap).allocate_bytes(size, align), place) }
}

#[inline(always)]
pub(crate) unsafe fn realloc<A: RegionAllocator<'static>>(
    heap: *mut c_void,
    block: *mut c_void,
    size: usize,
) -> *mut c_void {
    let Some(live) = NonNull::new(block.cast::<u8>()) else {
        // SAFETY: the conditions of that function are those of this one.
        return unsafe { malloc::<A>(heap, size) };
    };
    let Some(heap) = NonNull::new(heap) else { return null_mut() };
    // SAFETY: heap and block are live.
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
    // SAFETY: heap and block are live, and the place is writable.
    unsafe {
        let mut heap = value::<A>(heap);
        let answer = match NonNull::new(place.read().cast::<u8>()) {
            Some(block) => heap.reallocate_bytes(block, size, align),
            None => heap.allocate_bytes(size, align),
        };
        stored(answer, place)
    }
}

#[inline(always)]
pub(crate) unsafe fn realloc_in_place<A: ResizeInPlace<'static>>(
    heap: *mut c_void,
    block: *mut c_void,
    size: usize,
) -> rt_error {
    let (Some(heap), Some(block)) = (NonNull::new(heap), NonNull::new(block)) else { return RT_ERROR_NULL };
    // SAFETY: heap and block are live.
    match unsafe { value::<A>(heap).resize_in_place(block.cast(), size, 1) } {
        Ok(true) => RT_OK,
        Ok(false) => RT_ERROR_NOT_IN_PLACE,
        Err(error) => error.into(),
    }
}

#[inline(always)]
pub(crate) unsafe fn free<A: RegionAllocator<'static>>(heap: *mut c_void, block: *mut c_void) {
    if let (Some(heap), Some(block)) = (NonNull::new(heap), NonNull::new(block)) {
        // SAFETY: heap and block are live.
        unsafe { value::<A>(heap).deallocate(block.cast()) }
    }
}

pub(crate) unsafe fn usable_size<A: RegionAllocator<'static>>(heap: *const c_void, block: *const c_void) -> usize {
    match (NonNull::new(heap.cast_mut()), NonNull::new(block.cast_mut())) {
        // SAFETY: heap and block are live.
        (Some(heap), Some(block)) => unsafe { value::<A>(heap).usable_size(block.cast()) },
        _ => 0,
    }
}

pub(crate) unsafe fn largest<A: RegionAllocator<'static>>(heap: *const c_void) -> usize {
    // SAFETY: the heap is live.
    NonNull::new(heap.cast_mut()).map_or(0, |heap| unsafe { value::<A>(heap) }.largest_allocatable())
}

pub(crate) unsafe fn stats<A: RegionAllocator<'static>>(heap: *const c_void, place: *mut rt_stats) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the heap is live.
    let heap = unsafe { value::<A>(heap) };
    let (stats, error) = match heap.stats() {
        Some(stats) => (stats.into(), RT_OK),
        None => {
            let largest_free_bytes = heap.largest_allocatable();
            (rt_stats { largest_free_bytes, ..rt_stats::default() }, RT_ERROR_NO_STATS)
        }
    };
    // SAFETY: the place is writable.
    unsafe { place.write(stats) };
    error
}

pub(crate) unsafe fn walk<A: RegionAllocator<'static>>(
    heap: *const c_void,
    visitor: rt_visitor,
    context: *mut c_void,
) -> rt_error {
    let (Some(heap), Some(visitor)) = (NonNull::new(heap.cast_mut()), visitor) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live.
    unsafe { value::<A>(heap) }.walk(&mut passing_to(visitor, context));
    RT_OK
}

pub(crate) unsafe fn check<A: RegionAllocator<'static>>(heap: *const c_void, place: *mut rt_corruption) -> rt_error {
    let Some(heap) = NonNull::new(heap.cast_mut()) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live.
    unsafe { verified(value::<A>(heap).check(), place) }
}

pub(crate) unsafe fn add_region<A: MultiRegion<'static>>(
    heap: *mut c_void,
    region: *mut c_void,
    bytes: usize,
    place: *mut rt_region,
) -> rt_error {
    let Some(heap) = NonNull::new(heap) else { return RT_ERROR_NULL };
    // SAFETY: the region is writable and exclusive to the heap.
    let region = match unsafe { region_of(region, bytes) } {
        Ok(region) => region,
        Err(error) => return error,
    };
    // SAFETY: the heap is live.
    match unsafe { value::<A>(heap) }.add_region(region) {
        Ok(id) => {
            if let Some(place) = NonNull::new(place) {
                // SAFETY: the place is writable.
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
    // SAFETY: the heap is live.
    let removed = unsafe { value::<A>(heap) }.remove_region(region);
    rt_error::from(removed.map(|_| ()))
}

/// Calls a function with a heap.
///
/// # Errors
///
/// `heap` is null.
pub(crate) unsafe fn with_heap<A, T>(heap: *const c_void, action: impl FnOnce(&mut A) -> T) -> Result<T, rt_error> {
    let Some(heap) = NonNull::new(heap.cast_mut()) else { return Err(RT_ERROR_NULL) };
    // SAFETY: the heap is live.
    let mut heap = unsafe { value::<A>(heap) };
    Ok(action(&mut heap))
}

/// A copy of the pointer that holds an inner heap.
///
/// # Safety
///
/// Nothing else uses the heap while the copy is in use.
pub(crate) unsafe fn copy_of<A>(heap: &A) -> ManuallyDrop<A> {
    const { assert!(size_of::<A>() == size_of::<*mut c_void>(), "a heap is one pointer") }
    // SAFETY: a heap is one pointer, and the copy is not dropped.
    unsafe { transmute_copy(heap) }
}

/// [`usize::MAX`] if a limit is invalid. `limits` is null or has `count` limits.
pub(crate) unsafe fn region_bytes_for(
    limits: *const rt_limit,
    count: usize,
    region_bytes_for: impl Fn(&[Limit]) -> usize,
) -> usize {
    if limits.is_null() || count > RT_MOST_LIMITS {
        return usize::MAX;
    }
    // Replaced below.
    let mut converted = [const { Limit::live(0, 1, 1) }; RT_MOST_LIMITS];
    // SAFETY: there are `count` limits.
    for (place, limit) in converted.iter_mut().zip(unsafe { core::slice::from_raw_parts(limits, count) }) {
        let rt_limit { objects, live_bytes, smallest_bytes, largest_bytes } = *limit;
        // 0 sets no limit, and one of both is set.
        let (objects, live_bytes) = match (objects, live_bytes) {
            (1.., 0) => (objects, usize::MAX),
            (0, 1..) => (usize::MAX, live_bytes),
            _ => return usize::MAX,
        };
        let Some(limit) = Limit::checked(objects, live_bytes, smallest_bytes, largest_bytes) else {
            return usize::MAX;
        };
        *place = limit;
    }
    region_bytes_for(converted.get(..count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtalloc::Kingsley;
    use rtalloc::mechanism::stats::WithStats;
    use rtalloc::mechanism::word::Offset32;

    type Heap = Kingsley<'static, 4096, Offset32, WithStats>;

    fn bytes_for(limits: &[rt_limit]) -> usize {
        // SAFETY: a slice.
        unsafe { region_bytes_for(limits.as_ptr(), limits.len(), Heap::region_bytes_for) }
    }

    const COUNTED: rt_limit = rt_limit { objects: 64, live_bytes: 0, smallest_bytes: 0, largest_bytes: 200 };
    const OF_BYTES: rt_limit = rt_limit { objects: 0, live_bytes: 9000, smallest_bytes: 16, largest_bytes: 1500 };

    #[test]
    fn limits_are_those_of_the_rust_library() {
        let expected = Heap::region_bytes_for(&[Limit::up_to(64, 200), Limit::live(9000, 16, 1500)]);
        assert_eq!(bytes_for(&[COUNTED, OF_BYTES]), expected);
        assert_eq!(bytes_for(&[]), 0);
        assert_eq!(
            bytes_for(&[COUNTED; RT_MOST_LIMITS]),
            Heap::region_bytes_for(&[Limit::up_to(64, 200); RT_MOST_LIMITS])
        );
    }

    #[test]
    fn invalid_limits_have_no_region() {
        let invalid = [
            rt_limit { objects: 0, ..COUNTED },
            rt_limit { live_bytes: 100, ..COUNTED },
            rt_limit { largest_bytes: 0, ..COUNTED },
            rt_limit { smallest_bytes: 201, ..COUNTED },
        ];
        for limit in invalid {
            assert_eq!(bytes_for(&[COUNTED, limit]), usize::MAX, "{limit:?}");
        }
        assert_eq!(bytes_for(&[COUNTED; RT_MOST_LIMITS + 1]), usize::MAX);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { region_bytes_for(core::ptr::null(), 1, Heap::region_bytes_for) }, usize::MAX);
    }
}

//! The functions of C, generic over the allocator. C holds the Rust value of a heap, which is one pointer into its
//! region.

pub mod handle;
pub(crate) mod region;
#[cfg(target_has_atomic = "ptr")]
pub mod shared;

use crate::error::rt_error::{self, *};
use crate::report::{rt_block, rt_corruption};
use core::ffi::c_void;
use core::mem::{ManuallyDrop, MaybeUninit, transmute_copy};
use core::ptr::{NonNull, null_mut};
use rtalloc::TagConfig;
use rtalloc::contract::{Block, Contract, Corruption, InitError};
use rtalloc::segregated::pools::{MOST_POOLS, PoolSizes};

/// The configuration of a heap.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_heap_config {
    /// Largest region, in bytes, to be added later. The control structure is sized for it. 0: added regions have no
    /// larger blocks than the first region. Must be 0 for heaps without `add_region`.
    pub max_region_bytes: usize,
}

/// Most pools of a heap of pools.
pub const RT_MOST_POOLS: usize = 16;
const _: () = assert!(RT_MOST_POOLS == MOST_POOLS);

/// The configuration of a heap of pools. In C, pools for requests of up to 200 and 1,500 bytes are
/// `{.largest_bytes = {200, 1500}}`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_pools_config {
    /// The largest request of each pool, ascending, each below 2 GiB; 0 after the last one. All 0: the default.
    pub largest_bytes: [usize; RT_MOST_POOLS],
}

/// Objects that may be live at the same time: a number of them or of bytes. In C, 64 objects of up to 200 bytes are
/// `{.objects = 64, .largest_bytes = 200}`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_limit {
    /// Most live objects; 0 if `live_bytes` is set.
    pub objects: usize,
    /// Most live bytes, as requested; 0 if `objects` is set.
    pub live_bytes: usize,
    /// Smallest request, in bytes; 0 is treated as 1. The larger it is, the less memory suffices.
    pub smallest_bytes: usize,
    /// Largest request, in bytes; must be set.
    pub largest_bytes: usize,
}

/// Most limits of a program.
pub const RT_MOST_LIMITS: usize = 64;

/// Identifies a region that was added to a heap.
pub type rt_region = usize;

/// Converts a configuration from C, of type `C`.
pub(crate) trait Configured<C>: Sized {
    /// The configuration, or `None` if it is invalid or sets something that the allocator does not support.
    ///
    /// # Safety
    ///
    /// Pointers in the configuration are null or readable.
    unsafe fn configured(config: C) -> Option<Self>;
}

impl Configured<rt_heap_config> for TagConfig {
    unsafe fn configured(config: rt_heap_config) -> Option<Self> {
        Some(TagConfig { max_region_bytes: config.max_region_bytes })
    }
}

impl Configured<rt_pools_config> for PoolSizes {
    unsafe fn configured(config: rt_pools_config) -> Option<Self> {
        let sizes = config.largest_bytes;
        let used = sizes.iter().position(|bytes| *bytes == 0).unwrap_or(RT_MOST_POOLS);
        let (used, rest) = sizes.split_at_checked(used)?;
        match rest.iter().all(|bytes| *bytes == 0) {
            true if used.is_empty() => Some(PoolSizes::default()),
            true => PoolSizes::checked(used),
            false => None,
        }
    }
}

impl Configured<rt_heap_config> for () {
    unsafe fn configured(config: rt_heap_config) -> Option<Self> {
        (config.max_region_bytes == 0).then_some(())
    }
}

/// The error for a configuration that is invalid or that the allocator does not support.
pub(crate) const UNSUPPORTED: InitError =
    InitError::Configuration { what: "a configuration that the allocator supports" };

/// The alignment that `malloc` requests: sufficient for every type of C, or the alignment of the allocator's blocks if
/// that is less.
pub(crate) const fn natural_align_bytes(contract: Contract) -> usize {
    let natural = 2 * size_of::<usize>();
    if contract.alignment_bytes < natural { contract.alignment_bytes } else { natural }
}

/// The heap that a pointer from C holds.
///
/// # Safety
///
/// The pointer came from [`into_pointer`] of an `H` whose region is still valid.
#[inline(always)]
pub(crate) unsafe fn value<H>(heap: NonNull<c_void>) -> ManuallyDrop<H> {
    const { assert!(size_of::<H>() == size_of::<*mut c_void>(), "a heap is one pointer") }
    // SAFETY: the pointer holds an `H`, which has its size. The copy is used by one function and not dropped.
    unsafe { transmute_copy(&heap) }
}

/// The pointer that holds a heap.
pub(crate) fn into_pointer<H>(heap: H) -> *mut c_void {
    const { assert!(size_of::<H>() == size_of::<*mut c_void>(), "a heap is one pointer") }
    let heap = ManuallyDrop::new(heap);
    // SAFETY: an `H` is exactly one pointer.
    unsafe { transmute_copy(&heap) }
}

/// The region that C passes.
///
/// # Errors
///
/// A null pointer, or a length that exceeds the address space.
///
/// # Safety
///
/// The bytes are writable, and only the heap accesses them from now on.
pub(crate) unsafe fn region_of(region: *mut c_void, bytes: usize) -> Result<&'static mut [MaybeUninit<u8>], rt_error> {
    if region.is_null() {
        return Err(RT_ERROR_NULL);
    }
    if bytes > isize::MAX as usize || region.addr().checked_add(bytes).is_none() {
        return Err(RT_ERROR_OVERFLOW);
    }
    // SAFETY: the pointer is not null, and the length is at most `isize::MAX`; the caller ensures exclusive access.
    Ok(unsafe { core::slice::from_raw_parts_mut(region.cast(), bytes) })
}

/// Creates a heap in a region and stores it at `place`.
///
/// # Safety
///
/// As [`region_of`]. `place` is null or writable.
pub(crate) unsafe fn create<H>(
    region: *mut c_void,
    bytes: usize,
    place: *mut *mut c_void,
    new: impl FnOnce(&'static mut [MaybeUninit<u8>]) -> Result<H, InitError>,
) -> rt_error {
    if place.is_null() {
        return RT_ERROR_NULL;
    }
    // SAFETY: the region is writable and exclusive to the heap.
    let made = unsafe { region_of(region, bytes) }.and_then(|region| new(region).map_err(rt_error::from));
    let (heap, error) = match made {
        Ok(heap) => (into_pointer(heap), RT_OK),
        Err(error) => (null_mut(), error),
    };
    // SAFETY: `place` is not null, hence writable.
    unsafe { place.write(heap) };
    error
}

/// The block as a pointer of C: null if the request was refused.
#[inline(always)]
pub(crate) fn block_or_null<E>(answer: Result<NonNull<u8>, E>) -> *mut c_void {
    answer.map_or(null_mut(), |block| block.as_ptr().cast())
}

/// Stores a block at `place`, or returns the reason for the refusal and leaves `place` unchanged.
///
/// # Safety
///
/// `place` is writable.
#[inline(always)]
pub(crate) unsafe fn stored(answer: Result<NonNull<u8>, impl Into<rt_error>>, place: NonNull<*mut c_void>) -> rt_error {
    match answer {
        Ok(block) => {
            // SAFETY: `place` is writable.
            unsafe { place.write(block.as_ptr().cast()) };
            RT_OK
        }
        Err(error) => error.into(),
    }
}

/// Passes blocks to a visitor of C.
pub(crate) fn passing_to(
    visitor: unsafe extern "C" fn(*const rt_block, *mut c_void),
    context: *mut c_void,
) -> impl FnMut(Block) {
    // SAFETY: the visitor is a C function of this type, and the block is initialised.
    move |block| unsafe { visitor(&rt_block::from(block), context) }
}

/// The result of a check. Stores the broken invariant at `place`, which may be null.
///
/// # Safety
///
/// `place` is null or writable.
pub(crate) unsafe fn verified(answer: Result<(), Corruption>, place: *mut rt_corruption) -> rt_error {
    let Err(corruption) = answer else { return RT_OK };
    if let Some(place) = NonNull::new(place) {
        // SAFETY: `place` is not null, hence writable.
        unsafe { place.write(corruption.into()) };
    }
    RT_ERROR_CORRUPTION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[usize]) -> Option<PoolSizes> {
        let mut largest_bytes = [0; RT_MOST_POOLS];
        largest_bytes[..sizes.len()].copy_from_slice(sizes);
        // SAFETY: the configuration has no pointers.
        unsafe { PoolSizes::configured(rt_pools_config { largest_bytes }) }
    }

    #[test]
    fn pools_are_those_of_the_rust_library() {
        assert_eq!(of(&[200, 1500, 4096]), Some(PoolSizes::of(&[200, 1500, 4096])));
        let most: [usize; RT_MOST_POOLS] = core::array::from_fn(|number| 10 * (number + 1));
        assert_eq!(of(&most), Some(PoolSizes::of(&most)));
        assert_eq!(of(&[]), Some(PoolSizes::default()));
        for wrong in [&[200, 0, 300][..], &[300, 200], &[200, 200], &[1 << 31], &[0, 200]] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }
}

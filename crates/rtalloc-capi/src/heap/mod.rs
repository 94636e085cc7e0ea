//! What every verb does, for any allocator: a heap in C's hand is the heap's value, which is one pointer into its region.

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

/// How a heap is made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_heap_config {
    /// Largest region, in bytes, that will be added later; the control structure is sized for it. 0: none that holds a larger
    /// block than the first one does. An allocator that takes no further regions takes 0 alone.
    pub max_region_bytes: usize,
}

/// Names a region that was added to a heap.
pub type rt_region = usize;

/// Makes a configuration of an allocator of C's, which is a `C`.
pub(crate) trait Configured<C>: Sized {
    /// The configuration, or `None` where C's cannot be, or says what the allocator has no use for.
    ///
    /// # Safety
    ///
    /// What C's configuration leads to is readable.
    unsafe fn configured(config: C) -> Option<Self>;
}

impl Configured<rt_heap_config> for TagConfig {
    unsafe fn configured(config: rt_heap_config) -> Option<Self> {
        Some(TagConfig { max_region_bytes: config.max_region_bytes })
    }
}

impl Configured<rt_heap_config> for () {
    unsafe fn configured(config: rt_heap_config) -> Option<Self> {
        (config.max_region_bytes == 0).then_some(())
    }
}

/// The refusal of a configuration of C's that there cannot be, or that the allocator has no use for.
pub(crate) const IMPOSSIBLE: InitError = InitError::Configuration { what: "what the allocator has a use for" };

/// Alignment that `malloc` asks for: that of every object of C that is no larger, as far as the allocator's blocks have it.
pub(crate) const fn natural_align_bytes(contract: Contract) -> usize {
    let natural = 2 * size_of::<usize>();
    if contract.alignment_bytes < natural { contract.alignment_bytes } else { natural }
}

/// The value that C's pointer is.
///
/// # Safety
///
/// The pointer was made by [`handed_out`] of an `H`, whose region lives.
#[inline(always)]
pub(crate) unsafe fn value<H>(heap: NonNull<c_void>) -> ManuallyDrop<H> {
    const { assert!(size_of::<H>() == size_of::<*mut c_void>(), "the value in hand is one pointer") }
    // SAFETY: an `H` is exactly this pointer, by the caller's promise. It is used by one verb and not dropped.
    unsafe { transmute_copy(&heap) }
}

/// The pointer that a heap's value is.
pub(crate) fn handed_out<H>(heap: H) -> *mut c_void {
    const { assert!(size_of::<H>() == size_of::<*mut c_void>(), "the value in hand is one pointer") }
    let heap = ManuallyDrop::new(heap);
    // SAFETY: an `H` is exactly one pointer.
    unsafe { transmute_copy(&heap) }
}

/// The memory that C lends.
///
/// # Errors
///
/// No memory at all, or more than there can be.
///
/// # Safety
///
/// The bytes are writable, and the caller's to give, for ever.
pub(crate) unsafe fn lent(region: *mut c_void, bytes: usize) -> Result<&'static mut [MaybeUninit<u8>], rt_error> {
    if region.is_null() {
        return Err(RT_ERROR_NULL);
    }
    if bytes > isize::MAX as usize || region.addr().checked_add(bytes).is_none() {
        return Err(RT_ERROR_OVERFLOW);
    }
    // SAFETY: not null, no longer than an object can be; the rest is the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts_mut(region.cast(), bytes) })
}

/// Makes a heap of a region and tells C.
///
/// # Safety
///
/// Of [`lent`]; `place`, where it is not null, is writable.
pub(crate) unsafe fn make<H>(
    region: *mut c_void,
    bytes: usize,
    place: *mut *mut c_void,
    new: impl FnOnce(&'static mut [MaybeUninit<u8>]) -> Result<H, InitError>,
) -> rt_error {
    if place.is_null() {
        return RT_ERROR_NULL;
    }
    // SAFETY: the caller's promise.
    let made = unsafe { lent(region, bytes) }.and_then(|region| new(region).map_err(rt_error::from));
    let (heap, error) = match made {
        Ok(heap) => (handed_out(heap), RT_OK),
        Err(error) => (null_mut(), error),
    };
    // SAFETY: the caller promises that the place is writable.
    unsafe { place.write(heap) };
    error
}

/// A block in C's hand: null where the request was refused.
#[inline(always)]
pub(crate) fn block_or_null<E>(answer: Result<NonNull<u8>, E>) -> *mut c_void {
    answer.map_or(null_mut(), |block| block.as_ptr().cast())
}

/// Tells C of a block, or why there is none; `place` is then left as it was.
///
/// # Safety
///
/// `place` is writable.
#[inline(always)]
pub(crate) unsafe fn told(answer: Result<NonNull<u8>, impl Into<rt_error>>, place: NonNull<*mut c_void>) -> rt_error {
    match answer {
        Ok(block) => {
            // SAFETY: the caller's promise.
            unsafe { place.write(block.as_ptr().cast()) };
            RT_OK
        }
        Err(error) => error.into(),
    }
}

/// Shows a block to C's visitor.
pub(crate) fn shown(
    visitor: unsafe extern "C" fn(*const rt_block, *mut c_void),
    context: *mut c_void,
) -> impl FnMut(Block) {
    // SAFETY: the visitor is C's function of this type, and is shown a whole block.
    move |block| unsafe { visitor(&rt_block::from(block), context) }
}

/// Tells C whether a heap is whole; `place` may be null.
///
/// # Safety
///
/// `place` is null or writable.
pub(crate) unsafe fn verified(answer: Result<(), Corruption>, place: *mut rt_corruption) -> rt_error {
    let Err(corruption) = answer else { return RT_OK };
    if let Some(place) = NonNull::new(place) {
        // SAFETY: the caller's promise.
        unsafe { place.write(corruption.into()) };
    }
    RT_ERROR_CORRUPTION
}

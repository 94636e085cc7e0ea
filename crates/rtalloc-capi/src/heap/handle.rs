//! The functions of handle heaps, as documented in `verbs::handle`. `heap` is null or a live heap of this type that
//! nothing else uses during the call; `place` is null or writable. Any handle value is valid.

use super::{UNSUPPORTED, create, value, verified};
use crate::error::rt_error::{self, *};
use crate::report::{rt_corruption, rt_stats};
use core::ffi::c_void;
use core::num::NonZeroU64;
use core::ptr::{NonNull, null_mut, with_exposed_provenance};
use rtalloc::HandleAllocator;
use rtalloc::compact_fit::{CompactFitConfig, NonMovingConfig};
use rtalloc::contract::{AccessError, Fragmentation, Handle, HandleError, Object, ResizeError};

/// Identifies an object during its lifetime, wherever it moves. 0 identifies none. A stale handle of a freed object is
/// distinguished from all other handles.
pub type rt_handle = u64;

/// The configuration of a handle heap.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_compact_fit_config {
    /// Maximum number of not-full pages of a size class. 0 means 1. Fewer pages mean more moves and less lost memory.
    pub max_not_full: u32,
    /// Separate maxima for the first `classes` size classes. May be NULL if `classes` is 0.
    pub class_not_full: *const u32,
    /// Number of maxima at `class_not_full`.
    pub classes: usize,
    /// For the non-moving variant: virtual pages whose memory no frame may use. Must be 0 for the moving variant.
    pub reserved_pages: u32,
}

/// Converts a configuration from C.
pub(crate) trait Configured: Sized {
    /// The configuration, or `None` if it sets something that the allocator does not support.
    fn configured(compaction: CompactFitConfig, reserved_pages: u32) -> Option<Self>;
}

impl Configured for CompactFitConfig {
    fn configured(compaction: CompactFitConfig, reserved_pages: u32) -> Option<Self> {
        (reserved_pages == 0).then_some(compaction)
    }
}

impl Configured for NonMovingConfig {
    fn configured(compaction: CompactFitConfig, reserved_pages: u32) -> Option<Self> {
        Some(NonMovingConfig { compaction, reserved_pages })
    }
}

/// The maxima of not-full pages in a configuration from C.
///
/// # Safety
///
/// `class_not_full` points to `classes` readable numbers, or is null.
pub(crate) unsafe fn compaction(config: &rt_compact_fit_config) -> Option<CompactFitConfig> {
    if config.classes != 0 && config.class_not_full.is_null() {
        return None;
    }
    let mut compaction = CompactFitConfig::with_max_not_full(config.max_not_full);
    // Loop bound: classes
    for class in 0..config.classes {
        // SAFETY: `class_not_full` points to `classes` numbers, and `class` is less.
        compaction = compaction.with_class(class, unsafe { config.class_not_full.add(class).read() });
    }
    Some(compaction)
}

/// A live object, as passed to a visitor.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_object {
    /// Its handle.
    pub handle: rt_handle,
    /// Its current address.
    pub address: *const c_void,
    /// Bytes requested.
    pub size_bytes: usize,
    /// Usable bytes of its page-block.
    pub usable_bytes: usize,
    /// Bytes of its page-block.
    pub page_block_bytes: usize,
}

impl From<Object> for rt_object {
    fn from(object: Object) -> Self {
        rt_object {
            handle: object.handle.to_bits().get(),
            address: with_exposed_provenance(object.address),
            size_bytes: object.size_bytes,
            usable_bytes: object.usable_bytes,
            page_block_bytes: object.page_block_bytes,
        }
    }
}

/// Called for each object, with the context passed to the walk. It must not modify the heap.
pub type rt_object_visitor = Option<unsafe extern "C" fn(object: *const rt_object, context: *mut c_void)>;

/// Bytes lost to each kind of fragmentation, in all pages in use.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct rt_fragmentation {
    /// Bytes of used page-blocks that were not requested.
    pub block_internal_bytes: usize,
    /// Bytes at the ends of pages that belong to no page-block.
    pub page_internal_bytes: usize,
    /// Bytes of free page-blocks in used pages, which only serve requests of their class.
    pub size_external_bytes: usize,
}

impl From<Fragmentation> for rt_fragmentation {
    fn from(fragmentation: Fragmentation) -> Self {
        let Fragmentation { block_internal_bytes, page_internal_bytes, size_external_bytes } = fragmentation;
        rt_fragmentation { block_internal_bytes, page_internal_bytes, size_external_bytes }
    }
}

impl From<HandleError> for rt_error {
    #[inline(always)]
    fn from(error: HandleError) -> Self {
        match error {
            HandleError::Stale => RT_ERROR_STALE_HANDLE,
            HandleError::Foreign => RT_ERROR_FOREIGN_HANDLE,
        }
    }
}

impl From<AccessError> for rt_error {
    #[inline(always)]
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Handle(error) => error.into(),
            AccessError::OutOfBounds { .. } => RT_ERROR_OUT_OF_RANGE,
        }
    }
}

impl From<ResizeError> for rt_error {
    #[inline(always)]
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::Handle(error) => error.into(),
            ResizeError::Refused(error) => error.into(),
        }
    }
}

/// The handle of a number from C.
///
/// # Errors
///
/// 0 identifies no object.
#[inline(always)]
pub(crate) fn handle_of(handle: rt_handle) -> Result<Handle, rt_error> {
    NonZeroU64::new(handle).map(Handle::from_bits).ok_or(RT_ERROR_FOREIGN_HANDLE)
}

/// The error of a result, or `RT_OK` after the value was passed on.
#[inline(always)]
pub(crate) fn status_of<T>(answer: Result<T, impl Into<rt_error>>, then: impl FnOnce(T)) -> rt_error {
    match answer {
        Ok(value) => {
            then(value);
            RT_OK
        }
        Err(error) => error.into(),
    }
}

pub(crate) unsafe fn init_with<H: HandleAllocator<'static, Config: Configured>>(
    region: *mut c_void,
    bytes: usize,
    config: *const rt_compact_fit_config,
    place: *mut *mut c_void,
) -> rt_error {
    // SAFETY: the configuration is null or readable.
    let config = match unsafe { config.as_ref() } {
        // SAFETY: the pointers in the configuration are null or readable.
        Some(config) => unsafe { compaction(config) }
            .and_then(|compaction| H::Config::configured(compaction, config.reserved_pages)),
        None => Some(H::Config::default()),
    };
    // SAFETY: the region is writable and exclusive to the heap, and the place is null or writable.
    unsafe { create(region, bytes, place, |region| H::new(region, config.ok_or(UNSUPPORTED)?)) }
}

pub(crate) unsafe fn init<H: HandleAllocator<'static>>(region: *mut c_void, bytes: usize) -> *mut c_void {
    let mut heap = null_mut();
    // SAFETY: the region is writable and exclusive to the heap; the place is a local variable.
    unsafe { create(region, bytes, &mut heap, |region| H::new(region, H::Config::default())) };
    heap
}

#[inline(always)]
pub(crate) unsafe fn allocate<H: HandleAllocator<'static>>(
    heap: *mut c_void,
    size: usize,
    place: *mut rt_handle,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap), NonNull::new(place)) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live, and the place is writable.
    unsafe { status_of(value::<H>(heap).allocate(size), |handle| place.write(handle.to_bits().get())) }
}

#[inline(always)]
pub(crate) unsafe fn free<H: HandleAllocator<'static>>(heap: *mut c_void, handle: rt_handle) -> rt_error {
    let Some(heap) = NonNull::new(heap) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live.
    let mut heap = unsafe { value::<H>(heap) };
    handle_of(handle).and_then(|handle| heap.free(handle).map_err(rt_error::from)).into()
}

pub(crate) unsafe fn resize<H: HandleAllocator<'static>>(
    heap: *mut c_void,
    handle: rt_handle,
    size: usize,
) -> rt_error {
    let Some(heap) = NonNull::new(heap) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live.
    let mut heap = unsafe { value::<H>(heap) };
    handle_of(handle).and_then(|handle| heap.resize(handle, size).map_err(rt_error::from)).into()
}

pub(crate) unsafe fn size<H: HandleAllocator<'static>>(
    heap: *const c_void,
    handle: rt_handle,
    place: *mut usize,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the heap is live, and the place is writable.
    unsafe {
        let heap = value::<H>(heap);
        let size = handle_of(handle).and_then(|handle| heap.size(handle).map_err(rt_error::from));
        status_of(size, |bytes| place.write(bytes))
    }
}

#[inline(always)]
pub(crate) unsafe fn locate<H: HandleAllocator<'static>>(
    heap: *mut c_void,
    handle: rt_handle,
    offset: usize,
    place: *mut *mut c_void,
    piece: *mut usize,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap), NonNull::new(place)) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live, and the places are writable.
    unsafe {
        let heap = value::<H>(heap);
        let found = handle_of(handle).and_then(|handle| heap.locate_mut(handle, offset).map_err(rt_error::from));
        status_of(found, |(address, bytes)| {
            place.write(address.as_ptr().cast());
            if let Some(piece) = NonNull::new(piece) {
                piece.write(bytes);
            }
        })
    }
}

#[inline(always)]
pub(crate) unsafe fn get<H: HandleAllocator<'static>>(
    heap: *mut c_void,
    handle: rt_handle,
    place: *mut *mut c_void,
) -> rt_error {
    const { assert!(H::IS_CONTIGUOUS, "an object of this heap is pieces") }
    // SAFETY: the conditions of that function are those of this one.
    unsafe { locate::<H>(heap, handle, 0, place, null_mut()) }
}

/// The handle, if the bytes from an offset on are inside the object.
fn object_at<H: HandleAllocator<'static>>(
    heap: &H,
    handle: rt_handle,
    offset: usize,
    bytes: usize,
) -> Result<Handle, rt_error> {
    let handle = handle_of(handle)?;
    let size = heap.size(handle)?;
    if offset > size || bytes > size - offset { Err(RT_ERROR_OUT_OF_RANGE) } else { Ok(handle) }
}

pub(crate) unsafe fn read<H: HandleAllocator<'static>>(
    heap: *const c_void,
    handle: rt_handle,
    offset: usize,
    buffer: *mut c_void,
    bytes: usize,
) -> rt_error {
    let (Some(heap), Some(buffer)) = (NonNull::new(heap.cast_mut()), NonNull::new(buffer)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the heap is live.
    let heap = unsafe { value::<H>(heap) };
    let copied = object_at(&*heap, handle, offset, bytes).and_then(|handle| {
        let mut done = 0;
        // Loop bound: pieces of the bytes.
        while done < bytes {
            let (place, piece) = heap.locate(handle, offset + done)?;
            let piece = piece.min(bytes - done);
            // SAFETY: the bytes belong to a live object; the buffer has room for them and is outside the heap's region.
            unsafe { buffer.cast::<u8>().add(done).copy_from_nonoverlapping(place, piece) };
            done += piece;
        }
        Ok(())
    });
    copied.into()
}

pub(crate) unsafe fn write<H: HandleAllocator<'static>>(
    heap: *mut c_void,
    handle: rt_handle,
    offset: usize,
    buffer: *const c_void,
    bytes: usize,
) -> rt_error {
    let (Some(heap), Some(buffer)) = (NonNull::new(heap), NonNull::new(buffer.cast_mut())) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the heap is live.
    let heap = unsafe { value::<H>(heap) };
    let copied = object_at(&*heap, handle, offset, bytes).and_then(|handle| {
        let mut done = 0;
        // Loop bound: pieces of the bytes.
        while done < bytes {
            let (place, piece) = heap.locate_mut(handle, offset + done)?;
            let piece = piece.min(bytes - done);
            // SAFETY: the bytes belong to a live object; the buffer has as many and is outside the heap's region.
            unsafe { place.copy_from_nonoverlapping(buffer.cast::<u8>().add(done), piece) };
            done += piece;
        }
        Ok(())
    });
    copied.into()
}

pub(crate) unsafe fn pending_bytes<H: HandleAllocator<'static>>(heap: *const c_void) -> usize {
    // SAFETY: the heap is live.
    NonNull::new(heap.cast_mut()).map_or(0, |heap| unsafe { value::<H>(heap) }.pending_bytes())
}

pub(crate) unsafe fn step<H: HandleAllocator<'static>>(heap: *mut c_void, budget: usize) -> usize {
    // SAFETY: the heap is live.
    NonNull::new(heap).map_or(0, |heap| unsafe { value::<H>(heap) }.compact(budget))
}

pub(crate) unsafe fn largest<H: HandleAllocator<'static>>(heap: *const c_void) -> usize {
    // SAFETY: the heap is live.
    NonNull::new(heap.cast_mut()).map_or(0, |heap| unsafe { value::<H>(heap) }.largest_allocatable())
}

pub(crate) unsafe fn stats<H: HandleAllocator<'static>>(heap: *const c_void, place: *mut rt_stats) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the heap is live.
    let stats = unsafe { value::<H>(heap) }.stats();
    // SAFETY: the place is writable.
    status_of(stats.ok_or(RT_ERROR_NO_STATS), |stats| unsafe { place.write(stats.into()) })
}

pub(crate) unsafe fn fragmentation<H: HandleAllocator<'static>>(
    heap: *const c_void,
    place: *mut rt_fragmentation,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the heap is live, and the place is writable.
    unsafe { place.write(value::<H>(heap).fragmentation().into()) };
    RT_OK
}

pub(crate) unsafe fn walk<H: HandleAllocator<'static>>(
    heap: *const c_void,
    visitor: rt_object_visitor,
    context: *mut c_void,
) -> rt_error {
    let (Some(heap), Some(visitor)) = (NonNull::new(heap.cast_mut()), visitor) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live. The visitor is a C function of this type.
    unsafe { value::<H>(heap).walk(&mut |object| visitor(&rt_object::from(object), context)) };
    RT_OK
}

pub(crate) unsafe fn check<H: HandleAllocator<'static>>(heap: *const c_void, place: *mut rt_corruption) -> rt_error {
    let Some(heap) = NonNull::new(heap.cast_mut()) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live.
    unsafe { verified(value::<H>(heap).check(), place) }
}

//! The verbs of heaps whose objects move. What is asked of the pointers is told in the documentation of the verbs: `heap` is null or a
//! live heap of the type, and a place is null or writable. Every handle is legal.

use super::{IMPOSSIBLE, make, value, verified};
use crate::error::rt_error::{self, *};
use crate::report::{rt_corruption, rt_stats};
use core::ffi::c_void;
use core::num::NonZeroU64;
use core::ptr::{NonNull, null_mut, with_exposed_provenance};
use rtalloc::HandleAllocator;
use rtalloc::compact_fit::{CompactFitConfig, NonMovingConfig};
use rtalloc::contract::{AccessError, Fragmentation, Handle, HandleError, Object, ResizeError};

/// Names an object for as long as it lives, wherever it moves; 0 names none. An old handle of a freed object is told from every other
/// one.
pub type rt_handle = u64;

/// How a heap of objects that move is made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_compact_fit_config {
    /// How many pages of a size class may be not full; 0 is taken for 1. The fewer, the more is moved and the less memory is lost.
    pub most_not_full: u32,
    /// Other numbers for the first `classes` size classes; may be NULL where there are none.
    pub class_not_full: *const u32,
    /// How many there are at `class_not_full`.
    pub classes: usize,
    /// Of the non-moving variant, virtual pages whose room no frame may take. The moving one takes 0 alone.
    pub reserved_pages: u32,
}

/// Makes a configuration of C's.
pub(crate) trait Configured: Sized {
    /// The configuration, or `None` where C's says what the allocator has no use for.
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

/// The numbers of not-full pages that C's configuration tells.
///
/// # Safety
///
/// So many classes as it says are readable where it says.
pub(crate) unsafe fn compaction(config: &rt_compact_fit_config) -> Option<CompactFitConfig> {
    if config.classes != 0 && config.class_not_full.is_null() {
        return None;
    }
    let mut compaction = CompactFitConfig::with_most_not_full(config.most_not_full);
    // turns: classes
    for class in 0..config.classes {
        // SAFETY: the caller's promise.
        compaction = compaction.and_class(class, unsafe { config.class_not_full.add(class).read() });
    }
    Some(compaction)
}

/// A live object as a walk shows it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_object {
    /// Its handle.
    pub handle: rt_handle,
    /// Where it is now.
    pub address: *const c_void,
    /// Bytes requested.
    pub size_bytes: usize,
    /// Bytes of its page-block that it may use.
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

/// Is shown one object after the other, with the context that the walk was given. It may not change the heap.
pub type rt_object_visitor = Option<unsafe extern "C" fn(object: *const rt_object, context: *mut c_void)>;

/// Bytes lost to each kind of fragmentation, over all pages in use.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct rt_fragmentation {
    /// Bytes of used page-blocks that were not requested.
    pub block_internal_bytes: usize,
    /// Bytes at the ends of pages that hold no page-block.
    pub page_internal_bytes: usize,
    /// Free page-blocks of used pages, which serve requests of their class alone.
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

/// The handle of C's number.
///
/// # Errors
///
/// 0 names no object.
#[inline(always)]
pub(crate) fn named(handle: rt_handle) -> Result<Handle, rt_error> {
    NonZeroU64::new(handle).map(Handle::from_bits).ok_or(RT_ERROR_FOREIGN_HANDLE)
}

/// The error of an answer, or what becomes of its value.
#[inline(always)]
pub(crate) fn answered<T>(answer: Result<T, impl Into<rt_error>>, then: impl FnOnce(T)) -> rt_error {
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
    // SAFETY: the caller's promise: null or readable.
    let config = match unsafe { config.as_ref() } {
        // SAFETY: as above.
        Some(config) => unsafe { compaction(config) }
            .and_then(|compaction| H::Config::configured(compaction, config.reserved_pages)),
        None => Some(H::Config::default()),
    };
    // SAFETY: the caller's promise.
    unsafe { make(region, bytes, place, |region| H::new(region, config.ok_or(IMPOSSIBLE)?)) }
}

pub(crate) unsafe fn init<H: HandleAllocator<'static>>(region: *mut c_void, bytes: usize) -> *mut c_void {
    let mut heap = null_mut();
    // SAFETY: the caller's promise; the place is ours.
    unsafe { make(region, bytes, &mut heap, |region| H::new(region, H::Config::default())) };
    heap
}

#[inline(always)]
pub(crate) unsafe fn allocate<H: HandleAllocator<'static>>(
    heap: *mut c_void,
    size: usize,
    place: *mut rt_handle,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap), NonNull::new(place)) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise, of heap and place.
    unsafe { answered(value::<H>(heap).allocate(size), |handle| place.write(handle.to_bits().get())) }
}

#[inline(always)]
pub(crate) unsafe fn free<H: HandleAllocator<'static>>(heap: *mut c_void, handle: rt_handle) -> rt_error {
    let Some(heap) = NonNull::new(heap) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise.
    let mut heap = unsafe { value::<H>(heap) };
    named(handle).and_then(|handle| heap.free(handle).map_err(rt_error::from)).into()
}

pub(crate) unsafe fn resize<H: HandleAllocator<'static>>(
    heap: *mut c_void,
    handle: rt_handle,
    size: usize,
) -> rt_error {
    let Some(heap) = NonNull::new(heap) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise.
    let mut heap = unsafe { value::<H>(heap) };
    named(handle).and_then(|handle| heap.resize(handle, size).map_err(rt_error::from)).into()
}

pub(crate) unsafe fn size<H: HandleAllocator<'static>>(
    heap: *const c_void,
    handle: rt_handle,
    place: *mut usize,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the caller's promise, of heap and place.
    unsafe {
        let heap = value::<H>(heap);
        let size = named(handle).and_then(|handle| heap.size(handle).map_err(rt_error::from));
        answered(size, |bytes| place.write(bytes))
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
    // SAFETY: the caller's promise, of heap and places.
    unsafe {
        let heap = value::<H>(heap);
        let found = named(handle).and_then(|handle| heap.locate_to_write(handle, offset).map_err(rt_error::from));
        answered(found, |(address, bytes)| {
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
    // SAFETY: the caller's promise.
    unsafe { locate::<H>(heap, handle, 0, place, null_mut()) }
}

/// Whether so many bytes from an offset on are an object's.
fn reaches<H: HandleAllocator<'static>>(
    heap: &H,
    handle: rt_handle,
    offset: usize,
    bytes: usize,
) -> Result<Handle, rt_error> {
    let handle = named(handle)?;
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
    // SAFETY: the caller's promise.
    let heap = unsafe { value::<H>(heap) };
    let copied = reaches(&*heap, handle, offset, bytes).and_then(|handle| {
        let mut done = 0;
        // turns: pieces of the bytes.
        while done < bytes {
            let (place, piece) = heap.locate(handle, offset + done)?;
            let piece = piece.min(bytes - done);
            // SAFETY: bytes of a live object; the buffer holds as many, by the caller's promise, and is none of the heap's.
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
    // SAFETY: the caller's promise.
    let heap = unsafe { value::<H>(heap) };
    let copied = reaches(&*heap, handle, offset, bytes).and_then(|handle| {
        let mut done = 0;
        // turns: pieces of the bytes.
        while done < bytes {
            let (place, piece) = heap.locate_to_write(handle, offset + done)?;
            let piece = piece.min(bytes - done);
            // SAFETY: as above, the other way.
            unsafe { place.copy_from_nonoverlapping(buffer.cast::<u8>().add(done), piece) };
            done += piece;
        }
        Ok(())
    });
    copied.into()
}

pub(crate) unsafe fn owed<H: HandleAllocator<'static>>(heap: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    NonNull::new(heap.cast_mut()).map_or(0, |heap| unsafe { value::<H>(heap) }.owed_bytes())
}

pub(crate) unsafe fn step<H: HandleAllocator<'static>>(heap: *mut c_void, budget: usize) -> usize {
    // SAFETY: the caller's promise.
    NonNull::new(heap).map_or(0, |heap| unsafe { value::<H>(heap) }.compact(budget))
}

pub(crate) unsafe fn largest<H: HandleAllocator<'static>>(heap: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    NonNull::new(heap.cast_mut()).map_or(0, |heap| unsafe { value::<H>(heap) }.largest_allocatable())
}

pub(crate) unsafe fn stats<H: HandleAllocator<'static>>(heap: *const c_void, place: *mut rt_stats) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the caller's promise.
    let stats = unsafe { value::<H>(heap) }.stats();
    // SAFETY: the caller's promise.
    answered(stats.ok_or(RT_ERROR_NO_TALLIES), |stats| unsafe { place.write(stats.into()) })
}

pub(crate) unsafe fn fragmentation<H: HandleAllocator<'static>>(
    heap: *const c_void,
    place: *mut rt_fragmentation,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the caller's promise, of heap and place.
    unsafe { place.write(value::<H>(heap).fragmentation().into()) };
    RT_OK
}

pub(crate) unsafe fn walk<H: HandleAllocator<'static>>(
    heap: *const c_void,
    visitor: rt_object_visitor,
    context: *mut c_void,
) -> rt_error {
    let (Some(heap), Some(visitor)) = (NonNull::new(heap.cast_mut()), visitor) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise; the visitor is shown one object after the other.
    unsafe { value::<H>(heap).walk(&mut |object| visitor(&rt_object::from(object), context)) };
    RT_OK
}

pub(crate) unsafe fn check<H: HandleAllocator<'static>>(heap: *const c_void, place: *mut rt_corruption) -> rt_error {
    let Some(heap) = NonNull::new(heap.cast_mut()) else { return RT_ERROR_NULL };
    // SAFETY: the caller's promise.
    unsafe { verified(value::<H>(heap).check(), place) }
}

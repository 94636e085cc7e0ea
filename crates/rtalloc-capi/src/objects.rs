//! The functions of concurrent Compact-fit: objects that move, shared by several threads. It is the only heap of its
//! kind.
//!
//! C keeps the number of a slot and the three words of a pin, which are values with destructors in Rust.

use crate::error::rt_error::{self, *};
use crate::heap::handle::{compaction, handle_of, rt_compact_fit_config, rt_handle, status_of};
use crate::heap::shared::rt_refusals;
use crate::heap::{create, value, verified};
use crate::report::rt_corruption;
use core::ffi::c_void;
use core::mem::{ManuallyDrop, transmute};
use core::ptr::{NonNull, null, null_mut};
use rtalloc::compact_fit::DefaultLadder;
use rtalloc::concurrent::compact_fit::{CompactFitSlot, Guard, PinError};
use rtalloc::{SharedCompactFit, SharedCompactFitConfig};

/// Compact-fit for several threads: objects that move, identified by handles. Any thread may pin and free any object.
///
/// Several threads use it at a time, each with its own slot.
#[derive(Debug)]
pub struct rt_shared_compact_fit(());

type Heap = SharedCompactFit<'static>;
type Slot<'h> = CompactFitSlot<'h, 'static, 256, DefaultLadder>;

/// The configuration of a shared handle heap.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_shared_objects_config {
    /// Number of slots, at least 1. Each gets the same share of the region.
    pub slots: usize,
    /// Maximum number of live objects of a slot. 0 means 1024.
    pub objects: usize,
    /// Maximum number of objects freed by other slots that an allocation reclaims before it serves its request. 0 means
    /// 2.
    pub reclaim_budget: usize,
    /// Maximum number of objects that an allocation reclaims when it finds no memory, before it retries. 0 means 32.
    pub reclaim_budget_on_miss: usize,
    /// Maximum number of not-full pages of a size class of a slot. 0 means 1.
    pub max_not_full: u32,
}

/// A pinned object: it stays in place until it is unpinned.
///
/// Several threads may pin an object. A write at `address` while others may have it pinned, or while its owner may be
/// moving it, must consist of atomic four-byte words. `rt_shared_compact_fit_read` and `rt_shared_compact_fit_write`
/// use such words.
#[derive(Debug)]
#[repr(C)]
pub struct rt_pin {
    /// Address of the object.
    pub address: *mut c_void,
    /// Bytes of the object.
    pub size_bytes: usize,
    /// Internal to the library.
    pub own: [usize; 3],
}

impl From<PinError> for rt_error {
    fn from(error: PinError) -> Self {
        match error {
            PinError::Handle(error) => error.into(),
            PinError::TooMany => RT_ERROR_PINS,
        }
    }
}

/// Creates a heap with `slots` slots in the `bytes` bytes at `region`, which may have any alignment. Returns NULL on
/// failure; `rt_shared_compact_fit_init_with` returns the reason.
///
/// # Safety
/// The region is writable, and only the heap accesses it for as long as the heap is in use.
///
/// # Time
/// O(slots and objects).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_init(
    region: *mut c_void,
    bytes: usize,
    slots: usize,
) -> *mut rt_shared_compact_fit {
    let mut heap = null_mut();
    let config =
        rt_shared_objects_config { slots, objects: 0, reclaim_budget: 0, reclaim_budget_on_miss: 0, max_not_full: 0 };
    // SAFETY: the region is writable and exclusive to the heap; configuration and place are local variables.
    unsafe { rt_shared_compact_fit_init_with(region, bytes, &config, &mut heap) };
    heap
}

/// Creates a heap in the `bytes` bytes at `region` and stores it at `heap`, or NULL on failure. A `config` of NULL
/// selects the default configuration (4 slots).
///
/// # Errors
/// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH, RT_ERROR_CONFIGURATION. The
/// region is then unchanged.
///
/// # Safety
/// As `rt_shared_compact_fit_init`.
///
/// # Time
/// O(slots and objects).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_init_with(
    region: *mut c_void,
    bytes: usize,
    config: *const rt_shared_objects_config,
    heap: *mut *mut rt_shared_compact_fit,
) -> rt_error {
    let default = SharedCompactFitConfig::default();
    let or = |given, default| if given == 0 { default } else { given };
    // SAFETY: the configuration is null or readable.
    let config = match unsafe { config.as_ref() } {
        Some(config) => {
            let rt_shared_objects_config { slots, objects, reclaim_budget, reclaim_budget_on_miss, max_not_full } =
                *config;
            let compaction_config =
                rt_compact_fit_config { max_not_full, class_not_full: null(), classes: 0, reserved_pages: 0 };
            SharedCompactFitConfig {
                slots,
                objects: or(objects, default.objects),
                reclaim_budget: or(reclaim_budget, default.reclaim_budget),
                reclaim_budget_on_miss: or(reclaim_budget_on_miss, default.reclaim_budget_on_miss),
                // SAFETY: the configuration has no classes.
                not_full: unsafe { compaction(&compaction_config) }.unwrap_or(default.not_full),
            }
        }
        None => default,
    };
    // SAFETY: the region is writable and exclusive to the heap, and `heap` is null or writable.
    unsafe {
        create(region, bytes, heap.cast(), |region| {
            // Memory from C counts as initialised bytes.
            let start = region.as_mut_ptr().cast::<u8>();
            Heap::new(core::slice::from_raw_parts_mut(start, region.len()), config)
        })
    }
}

/// The heap that a pointer from C holds.
///
/// # Safety
///
/// The pointer is null or came from `rt_shared_compact_fit_init`.
#[inline(always)]
unsafe fn heap_of(heap: *const rt_shared_compact_fit) -> Result<ManuallyDrop<Heap>, rt_error> {
    // SAFETY: the pointer is null or holds a live heap.
    NonNull::new(heap.cast_mut()).map(|heap| unsafe { value::<Heap>(heap.cast()) }).ok_or(RT_ERROR_NULL)
}

/// Calls a function with a slot, if it exists.
///
/// # Safety
///
/// As [`heap_of`]. The caller owns the slot, and nothing else uses it during the call.
#[inline(always)]
unsafe fn as_slot<T>(
    heap: *const rt_shared_compact_fit,
    slot: usize,
    act: impl FnOnce(&mut ManuallyDrop<Slot<'_>>) -> T,
) -> Result<T, rt_error> {
    // SAFETY: the pointer is null or holds a live heap.
    let heap = unsafe { heap_of(heap) }?;
    if slot >= heap.slots() {
        return Err(RT_ERROR_SLOT);
    }
    // SAFETY: the slot exists, and nothing else uses it during the call.
    Ok(act(&mut unsafe { heap.slot(slot) }))
}

/// Returns the number of slots.
///
/// # Safety
/// `heap` is NULL or came from `rt_shared_compact_fit_init`.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_slots(heap: *const rt_shared_compact_fit) -> usize {
    // SAFETY: `heap` is null or a live heap.
    unsafe { heap_of(heap) }.map_or(0, |heap| heap.slots())
}

/// Claims the first unclaimed slot and stores its number at `slot`.
///
/// # Errors
/// RT_ERROR_NULL. RT_ERROR_SLOT if all are claimed.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`.
///
/// # Time
/// O(slots).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_claim(heap: *mut rt_shared_compact_fit, slot: *mut usize) -> rt_error {
    let Some(place) = NonNull::new(slot) else { return RT_ERROR_NULL };
    // SAFETY: `heap` is null or a live heap.
    let heap = match unsafe { heap_of(heap) } {
        Ok(heap) => heap,
        Err(error) => return error,
    };
    let claimed = heap.claim_any().map(|slot| ManuallyDrop::new(slot).number()).ok_or(RT_ERROR_SLOT);
    // SAFETY: the place is not null, hence writable.
    status_of(claimed, |number| unsafe { place.write(number) })
}

/// Claims this slot.
///
/// # Errors
/// RT_ERROR_NULL. RT_ERROR_SLOT if it is claimed or does not exist.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_take(heap: *mut rt_shared_compact_fit, slot: usize) -> rt_error {
    // SAFETY: `heap` is null or a live heap.
    let taken = unsafe { heap_of(heap) }
        .and_then(|heap| heap.claim(slot).map(|slot| ManuallyDrop::new(slot).number()).ok_or(RT_ERROR_SLOT));
    status_of(taken, |_| ())
}

/// Releases a slot. Its objects stay live; objects that others free to it stay with the slot until it is claimed again.
///
/// # Errors
/// RT_ERROR_NULL. RT_ERROR_SLOT if it does not exist.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`. The caller owns the slot and stops using it.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_release(heap: *mut rt_shared_compact_fit, slot: usize) -> rt_error {
    // SAFETY: `heap` is null or a live heap, and the slot is not used after its drop.
    unsafe { as_slot(heap, slot, |slot| ManuallyDrop::drop(slot)) }.into()
}

/// Returns the largest request that any heap serves, in bytes.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub extern "C" fn rt_shared_compact_fit_largest_request() -> usize {
    Heap::LARGEST_BYTES
}

/// Allocates an object of `size` bytes and stores its handle at `handle`, which a refusal leaves unchanged. Moves at
/// most 256 bytes of other objects, plus 256 for each object that it reclaims.
///
/// # Errors
/// RT_ERROR_NULL, RT_ERROR_SLOT, RT_ERROR_ZERO_SIZE, RT_ERROR_TOO_LARGE. RT_ERROR_PENDING if objects freed by others
/// are still to be reclaimed, or objects are still to be moved: repeating the request continues with that.
/// RT_ERROR_CONTENDED if freed objects, or objects to be moved, are pinned. Otherwise RT_ERROR_EXHAUSTED.
///
/// # Safety
/// `heap` is NULL or came from `rt_shared_compact_fit_init`. The caller owns the slot, and nothing else uses it during
/// the call.
///
/// # Time
/// O(1), whatever other threads do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_allocate(
    heap: *mut rt_shared_compact_fit,
    slot: usize,
    size: usize,
    handle: *mut rt_handle,
) -> rt_error {
    let Some(place) = NonNull::new(handle) else { return RT_ERROR_NULL };
    // SAFETY: `heap` is null or a live heap, and the caller owns the slot.
    match unsafe { as_slot(heap, slot, |slot| slot.allocate(size)) } {
        // SAFETY: the place is not null, hence writable.
        Ok(answer) => status_of(answer, |handle| unsafe { place.write(handle.to_bits().get()) }),
        Err(error) => error,
    }
}

/// Frees an object of any slot. Its handle is stale immediately; its memory is free after its owner has reclaimed it
/// and the last pin has ended. If several threads free an object, exactly one succeeds.
///
/// # Errors
/// RT_ERROR_NULL, RT_ERROR_SLOT, RT_ERROR_STALE_HANDLE, RT_ERROR_FOREIGN_HANDLE.
///
/// # Safety
/// As `rt_shared_compact_fit_allocate`.
///
/// # Time
/// O(1), whatever other threads do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_free(
    heap: *mut rt_shared_compact_fit,
    slot: usize,
    handle: rt_handle,
) -> rt_error {
    // SAFETY: `heap` is null or a live heap, and the caller owns the slot.
    let freed = unsafe {
        as_slot(heap, slot, |slot| handle_of(handle).and_then(|handle| slot.deallocate(handle).map_err(rt_error::from)))
    };
    freed.and_then(|freed| freed).into()
}

/// For idle time: reclaims at most `budget` objects of this slot that others freed, and examines at most `budget`
/// objects that were pinned when they were freed. Returns the number of both.
///
/// # Safety
/// As `rt_shared_compact_fit_allocate`.
///
/// # Time
/// O(budget).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_reclaim(
    heap: *mut rt_shared_compact_fit,
    slot: usize,
    budget: usize,
) -> usize {
    // SAFETY: `heap` is null or a live heap, and the caller owns the slot.
    unsafe { as_slot(heap, slot, |slot| slot.reclaim(budget)) }.unwrap_or(0)
}

/// For idle time: does pending compaction. Moves at most `budget` bytes and returns the bytes moved.
///
/// # Safety
/// As `rt_shared_compact_fit_allocate`.
///
/// # Time
/// O(budget and objects of the classes with pending compaction).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_step(
    heap: *mut rt_shared_compact_fit,
    slot: usize,
    budget: usize,
) -> usize {
    // SAFETY: `heap` is null or a live heap, and the caller owns the slot.
    unsafe { as_slot(heap, slot, |slot| slot.compact(budget)) }.unwrap_or(0)
}

/// Returns whether compaction is pending: a size class of the slot exceeds its maximum of not-full pages, or a move is
/// in progress.
///
/// # Safety
/// As `rt_shared_compact_fit_allocate`.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_has_pending_compaction(
    heap: *mut rt_shared_compact_fit,
    slot: usize,
) -> bool {
    // SAFETY: `heap` is null or a live heap, and the caller owns the slot.
    unsafe { as_slot(heap, slot, |slot| slot.has_pending_compaction()) }.unwrap_or(false)
}

/// The guard of the words that C keeps.
///
/// # Safety
///
/// The words came from a guard.
unsafe fn guard_of<'h>(own: [usize; 3]) -> Guard<'h> {
    // SAFETY: the words came from a guard.
    unsafe { transmute::<[usize; 3], Guard<'h>>(own) }
}

/// Pins an object of any slot: until it is unpinned, it stays in place, and its memory is not reused even if it is
/// freed. Needs no slot. Stores the pin at `pin`, which a refusal leaves unchanged.
///
/// # Errors
/// RT_ERROR_NULL, RT_ERROR_STALE_HANDLE, RT_ERROR_FOREIGN_HANDLE, RT_ERROR_PINS.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`.
///
/// # Time
/// O(1), whatever other threads do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_pin(
    heap: *const rt_shared_compact_fit,
    handle: rt_handle,
    pin: *mut rt_pin,
) -> rt_error {
    let Some(place) = NonNull::new(pin) else { return RT_ERROR_NULL };
    // SAFETY: `heap` is null or a live heap.
    let heap = match unsafe { heap_of(heap) } {
        Ok(heap) => heap,
        Err(error) => return error,
    };
    let pinned = handle_of(handle).and_then(|handle| heap.pin(handle).map_err(rt_error::from));
    status_of(pinned, |guard| {
        let (address, size_bytes) = (guard.as_ptr().as_ptr().cast(), guard.size_bytes());
        // SAFETY: a guard is three words, which C keeps until it unpins; `pin` is not null, hence writable.
        unsafe {
            let own = transmute::<Guard<'_>, [usize; 3]>(guard);
            place.write(rt_pin { address, size_bytes, own });
        }
    })
}

/// Ends a pin and clears `pin`.
///
/// # Errors
/// RT_ERROR_NULL, also for a cleared pin.
///
/// # Safety
/// `pin` is NULL or came from `rt_shared_compact_fit_pin` of a heap that is still valid, and is not a copy of an ended
/// pin.
///
/// # Time
/// O(1), whatever other threads do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_unpin(pin: *mut rt_pin) -> rt_error {
    // SAFETY: `pin` is null or valid.
    let Some(pin) = (unsafe { pin.as_mut() }) else { return RT_ERROR_NULL };
    if pin.address.is_null() {
        return RT_ERROR_NULL;
    }
    // SAFETY: the pin was not ended, so the words are those of its guard.
    drop(unsafe { guard_of(pin.own) });
    *pin = rt_pin { address: null_mut(), size_bytes: 0, own: [0; 3] };
    RT_OK
}

/// Calls a function with the guard of a pin; the pin stays in effect.
///
/// # Safety
///
/// As `rt_shared_compact_fit_unpin`.
unsafe fn with_guard(pin: *const rt_pin, act: impl FnOnce(&Guard<'_>) -> rt_error) -> rt_error {
    // SAFETY: `pin` is null or valid.
    let Some(pin) = (unsafe { pin.as_ref() }) else { return RT_ERROR_NULL };
    if pin.address.is_null() {
        return RT_ERROR_NULL;
    }
    // SAFETY: the pin was not ended, so the words are those of its guard.
    act(&ManuallyDrop::new(unsafe { guard_of(pin.own) }))
}

/// Copies `bytes` bytes of a pinned object, starting at `offset`, to `buffer`, in atomic reads of four bytes.
///
/// # Errors
/// RT_ERROR_NULL. RT_ERROR_OUT_OF_RANGE, and nothing is copied.
///
/// # Safety
/// As `rt_shared_compact_fit_unpin`. The buffer has room for the bytes.
///
/// # Time
/// O(bytes).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_read(
    pin: *const rt_pin,
    offset: usize,
    buffer: *mut c_void,
    bytes: usize,
) -> rt_error {
    if buffer.is_null() || bytes > isize::MAX as usize {
        return if buffer.is_null() { RT_ERROR_NULL } else { RT_ERROR_OUT_OF_RANGE };
    }
    // SAFETY: the buffer has `bytes` bytes, and the pin is null or valid.
    unsafe {
        let buffer = core::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes);
        with_guard(pin, |guard| guard.read(offset, buffer).into())
    }
}

/// Copies `bytes` bytes from `buffer` into a pinned object, starting at `offset`, in atomic writes of four bytes.
///
/// # Errors
/// RT_ERROR_NULL. RT_ERROR_OUT_OF_RANGE, and nothing is copied.
///
/// # Safety
/// As `rt_shared_compact_fit_unpin`. The buffer has that many bytes.
///
/// # Time
/// O(bytes).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_write(
    pin: *const rt_pin,
    offset: usize,
    buffer: *const c_void,
    bytes: usize,
) -> rt_error {
    if buffer.is_null() || bytes > isize::MAX as usize {
        return if buffer.is_null() { RT_ERROR_NULL } else { RT_ERROR_OUT_OF_RANGE };
    }
    // SAFETY: the buffer has `bytes` bytes, and the pin is null or valid.
    unsafe {
        let buffer = core::slice::from_raw_parts(buffer.cast::<u8>(), bytes);
        with_guard(pin, |guard| guard.write(offset, buffer).into())
    }
}

/// Stores the numbers of refused requests at `refusals`.
///
/// # Errors
/// RT_ERROR_NULL.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_refusals(
    heap: *const rt_shared_compact_fit,
    refusals: *mut rt_refusals,
) -> rt_error {
    let Some(place) = NonNull::new(refusals) else { return RT_ERROR_NULL };
    // SAFETY: `heap` is null or a live heap, and `refusals` is writable.
    status_of(unsafe { heap_of(heap) }, |heap| unsafe { place.write(heap.refusals().into()) })
}

/// Verifies every invariant of the heap. `where` may be NULL.
///
/// # Errors
/// RT_ERROR_NULL. RT_ERROR_CORRUPTION, with the first broken invariant at `where`.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`, and nothing else uses the heap during the call.
///
/// # Time
/// O(pages and entries).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_check(
    heap: *const rt_shared_compact_fit,
    r#where: *mut rt_corruption,
) -> rt_error {
    // SAFETY: `heap` is null or a live heap.
    match unsafe { heap_of(heap) } {
        // SAFETY: `where` is null or writable.
        Ok(mut heap) => unsafe { verified(heap.check(), r#where) },
        Err(error) => error,
    }
}

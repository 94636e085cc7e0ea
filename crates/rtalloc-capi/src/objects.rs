//! The verbs of concurrent Compact-fit, the only allocator of its kind: objects that move, shared by several threads.
//!
//! C keeps the number of a slot and the three words of a pin where Rust has values that end by themselves.

use crate::error::rt_error::{self, *};
use crate::heap::handle::{answered, compaction, named, rt_compact_fit_config, rt_handle};
use crate::heap::shared::rt_refusals;
use crate::heap::{make, value, verified};
use crate::report::rt_corruption;
use core::ffi::c_void;
use core::mem::{ManuallyDrop, transmute};
use core::ptr::{NonNull, null, null_mut};
use rtalloc::compact_fit::DefaultLadder;
use rtalloc::concurrent::compact_fit::{CompactFitSlot, Guard, PinError};
use rtalloc::{SharedCompactFit, SharedCompactFitConfig};

/// Compact-fit for several threads: objects that move, named by handles, which any thread pins and frees.
///
/// Several threads use it at a time, each with a slot of its own. The heap is in the region it was made in; a pointer to it is all there is
/// besides.
#[derive(Debug)]
pub struct rt_shared_compact_fit(());

type Heap = SharedCompactFit<'static>;
type Seat<'h> = CompactFitSlot<'h, 'static, 256, DefaultLadder>;

/// How a heap of objects that several threads share is made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_shared_objects_config {
    /// Number of slots, at least 1. Each gets the same share of the region.
    pub slots: usize,
    /// Objects that a slot may have at a time; 0: 1024.
    pub objects: usize,
    /// Most objects that others freed and an allocation takes back before it serves its request; 0: 2.
    pub taken_back: usize,
    /// Most objects that an allocation takes back when it finds no memory, before it tries again; 0: 32.
    pub taken_back_on_miss: usize,
    /// How many pages of a size class of a slot may be not full; 0 is taken for 1.
    pub most_not_full: u32,
}

/// An object that stays where it is until it is unpinned.
///
/// Other threads may pin it as well. Who writes at `address` while others may have it pinned, or while its owner may be moving it, writes
/// words of four bytes atomically; `rt_shared_compact_fit_read` and `rt_shared_compact_fit_write` do.
#[derive(Debug)]
#[repr(C)]
pub struct rt_pin {
    /// Where the object is.
    pub address: *mut c_void,
    /// Bytes of the object.
    pub size_bytes: usize,
    /// The library's own.
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

/// Makes a heap for `slots` users in `bytes` bytes at `region`, which may have any alignment. NULL if they do not do;
/// `rt_shared_compact_fit_init_with` tells why.
///
/// # Safety
/// The region is writable and the heap's alone until nobody uses the heap any more.
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
    let config = rt_shared_objects_config { slots, objects: 0, taken_back: 0, taken_back_on_miss: 0, most_not_full: 0 };
    // SAFETY: the caller's promise; configuration and place are ours.
    unsafe { rt_shared_compact_fit_init_with(region, bytes, &config, &mut heap) };
    heap
}

/// Makes a heap in `bytes` bytes at `region` with a configuration, or the default one for NULL (4 slots), and stores it at `heap`;
/// NULL where it cannot be made.
///
/// # Errors
/// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH, RT_ERROR_CONFIGURATION; the region is then
/// untouched.
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
    // SAFETY: the caller's promise: null or readable.
    let config = match unsafe { config.as_ref() } {
        Some(config) => {
            let rt_shared_objects_config { slots, objects, taken_back, taken_back_on_miss, most_not_full } = *config;
            let compaction_config =
                rt_compact_fit_config { most_not_full, class_not_full: null(), classes: 0, reserved_pages: 0 };
            SharedCompactFitConfig {
                slots,
                objects: or(objects, default.objects),
                taken_back: or(taken_back, default.taken_back),
                taken_back_on_miss: or(taken_back_on_miss, default.taken_back_on_miss),
                // SAFETY: no classes are told.
                not_full: unsafe { compaction(&compaction_config) }.unwrap_or(default.not_full),
            }
        }
        None => default,
    };
    // SAFETY: the caller's promise.
    unsafe {
        make(region, bytes, heap.cast(), |region| {
            // What C's memory holds are bytes, whatever they are.
            let start = region.as_mut_ptr().cast::<u8>();
            Heap::new(core::slice::from_raw_parts_mut(start, region.len()), config)
        })
    }
}

/// The heap that a pointer of C's is.
///
/// # Safety
///
/// The pointer is null or came from `rt_shared_compact_fit_init`.
#[inline(always)]
unsafe fn heap_of(heap: *const rt_shared_compact_fit) -> Result<ManuallyDrop<Heap>, rt_error> {
    // SAFETY: the caller's promise.
    NonNull::new(heap.cast_mut()).map(|heap| unsafe { value::<Heap>(heap.cast()) }).ok_or(RT_ERROR_NULL)
}

/// Does something as a slot, if there is one.
///
/// # Safety
///
/// As [`heap_of`]; the slot is the caller's, and nobody else uses it meanwhile.
#[inline(always)]
unsafe fn as_slot<T>(
    heap: *const rt_shared_compact_fit,
    slot: usize,
    act: impl FnOnce(&mut ManuallyDrop<Seat<'_>>) -> T,
) -> Result<T, rt_error> {
    // SAFETY: the caller's promise.
    let heap = unsafe { heap_of(heap) }?;
    if slot >= heap.slots() {
        return Err(RT_ERROR_SLOT);
    }
    // SAFETY: there is such a slot; the rest is the caller's promise.
    Ok(act(&mut unsafe { heap.slot(slot) }))
}

/// How many slots the heap has.
///
/// # Safety
/// `heap` is NULL or came from `rt_shared_compact_fit_init`.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_slots(heap: *const rt_shared_compact_fit) -> usize {
    // SAFETY: the caller's promise, here and below.
    unsafe { heap_of(heap) }.map_or(0, |heap| heap.slots())
}

/// Claims the first slot that nobody has, and stores its number at `slot`.
///
/// # Errors
/// RT_ERROR_NULL; RT_ERROR_SLOT where all are taken.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`.
///
/// # Time
/// O(slots).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_claim(heap: *mut rt_shared_compact_fit, slot: *mut usize) -> rt_error {
    let Some(place) = NonNull::new(slot) else { return RT_ERROR_NULL };
    // SAFETY: as above.
    let heap = match unsafe { heap_of(heap) } {
        Ok(heap) => heap,
        Err(error) => return error,
    };
    let claimed = heap.claim_any().map(|slot| ManuallyDrop::new(slot).number()).ok_or(RT_ERROR_SLOT);
    // SAFETY: the caller's promise.
    answered(claimed, |number| unsafe { place.write(number) })
}

/// Claims this slot.
///
/// # Errors
/// RT_ERROR_NULL; RT_ERROR_SLOT where somebody has it, or there is none of this number.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_take(heap: *mut rt_shared_compact_fit, slot: usize) -> rt_error {
    // SAFETY: as above.
    let taken = unsafe { heap_of(heap) }
        .and_then(|heap| heap.claim(slot).map(|slot| ManuallyDrop::new(slot).number()).ok_or(RT_ERROR_SLOT));
    answered(taken, |_| ())
}

/// Gives a slot back. Its objects live on; what others free to it stays with it until somebody claims it.
///
/// # Errors
/// RT_ERROR_NULL; RT_ERROR_SLOT where there is none of this number.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`; the slot is the caller's, who uses it no more.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_release(heap: *mut rt_shared_compact_fit, slot: usize) -> rt_error {
    // SAFETY: as above; what is dropped is used no more.
    unsafe { as_slot(heap, slot, |slot| ManuallyDrop::drop(slot)) }.into()
}

/// Largest request that a heap may serve, in bytes.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub extern "C" fn rt_shared_compact_fit_largest_request() -> usize {
    Heap::LARGEST_BYTES
}

/// Allocates an object of `size` bytes and stores its handle at `handle`, which a refusal leaves as it was. Moves at most 256 bytes of
/// others, and as many for each that it takes back.
///
/// # Errors
/// RT_ERROR_NULL, RT_ERROR_SLOT, RT_ERROR_ZERO_SIZE, RT_ERROR_TOO_LARGE; RT_ERROR_PENDING if others' frees have still to be taken back,
/// or objects to be moved, which repeating it goes on with; RT_ERROR_CONTENDED if objects that were freed, or have to be moved,
/// are pinned; RT_ERROR_EXHAUSTED otherwise.
///
/// # Safety
/// `heap` is NULL or came from `rt_shared_compact_fit_init`; the slot is the caller's, and nobody else uses it meanwhile.
///
/// # Time
/// O(1), whatever others do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_allocate(
    heap: *mut rt_shared_compact_fit,
    slot: usize,
    size: usize,
    handle: *mut rt_handle,
) -> rt_error {
    let Some(place) = NonNull::new(handle) else { return RT_ERROR_NULL };
    // SAFETY: as above.
    match unsafe { as_slot(heap, slot, |slot| slot.allocate(size)) } {
        // SAFETY: the caller's promise.
        Ok(answer) => answered(answer, |handle| unsafe { place.write(handle.to_bits().get()) }),
        Err(error) => error,
    }
}

/// Frees an object, whoever allocated it. Its handle is stale at once; its memory is free when it has come back to its owner and the last
/// pin is gone. Of several who free an object, one succeeds.
///
/// # Errors
/// RT_ERROR_NULL, RT_ERROR_SLOT, RT_ERROR_STALE_HANDLE, RT_ERROR_FOREIGN_HANDLE.
///
/// # Safety
/// As `rt_shared_compact_fit_allocate`.
///
/// # Time
/// O(1), whatever others do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_free(
    heap: *mut rt_shared_compact_fit,
    slot: usize,
    handle: rt_handle,
) -> rt_error {
    // SAFETY: as above.
    let freed = unsafe {
        as_slot(heap, slot, |slot| named(handle).and_then(|handle| slot.deallocate(handle).map_err(rt_error::from)))
    };
    freed.and_then(|freed| freed).into()
}

/// For idle time: takes back at most `budget` objects of this slot that others have freed, and looks at as many that were pinned when
/// they were freed. Says how many both are.
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
    // SAFETY: as above.
    unsafe { as_slot(heap, slot, |slot| slot.reclaim(budget)) }.unwrap_or(0)
}

/// For idle time: moves at most `budget` bytes of what is owed, and says how many.
///
/// # Safety
/// As `rt_shared_compact_fit_allocate`.
///
/// # Time
/// O(budget and objects of the classes that owe).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_step(
    heap: *mut rt_shared_compact_fit,
    slot: usize,
    budget: usize,
) -> usize {
    // SAFETY: as above.
    unsafe { as_slot(heap, slot, |slot| slot.compact(budget)) }.unwrap_or(0)
}

/// Whether a size class of the slot has more not-full pages than it may have, or a move is under way.
///
/// # Safety
/// As `rt_shared_compact_fit_allocate`.
///
/// # Time
/// O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_owes(heap: *mut rt_shared_compact_fit, slot: usize) -> bool {
    // SAFETY: as above.
    unsafe { as_slot(heap, slot, |slot| slot.owes()) }.unwrap_or(false)
}

/// A pin as C keeps it, and back.
///
/// # Safety
///
/// The words are those of a guard.
unsafe fn guard_of<'h>(own: [usize; 3]) -> Guard<'h> {
    // SAFETY: the caller's promise.
    unsafe { transmute::<[usize; 3], Guard<'h>>(own) }
}

/// Pins an object, whoever allocated it: until it is unpinned it stays where it is, and its memory is not used again even if it is
/// freed. Needs no slot. Stores the pin at `pin`, which a refusal leaves as it was.
///
/// # Errors
/// RT_ERROR_NULL, RT_ERROR_STALE_HANDLE, RT_ERROR_FOREIGN_HANDLE, RT_ERROR_PINS.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`.
///
/// # Time
/// O(1), whatever others do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_pin(
    heap: *const rt_shared_compact_fit,
    handle: rt_handle,
    pin: *mut rt_pin,
) -> rt_error {
    let Some(place) = NonNull::new(pin) else { return RT_ERROR_NULL };
    // SAFETY: as above.
    let heap = match unsafe { heap_of(heap) } {
        Ok(heap) => heap,
        Err(error) => return error,
    };
    let pinned = named(handle).and_then(|handle| heap.pin(handle).map_err(rt_error::from));
    answered(pinned, |guard| {
        let (address, size_bytes) = (guard.as_ptr().as_ptr().cast(), guard.size_bytes());
        // SAFETY: a guard is three words, which C keeps until it unpins; the place is the caller's promise.
        unsafe {
            let own = transmute::<Guard<'_>, [usize; 3]>(guard);
            place.write(rt_pin { address, size_bytes, own });
        }
    })
}

/// Ends a pin, and clears what is at `pin`.
///
/// # Errors
/// RT_ERROR_NULL, also for a pin that was cleared.
///
/// # Safety
/// `pin` is NULL, or came from `rt_shared_compact_fit_pin` of a heap that still is there, and is no copy of one that was ended.
///
/// # Time
/// O(1), whatever others do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_unpin(pin: *mut rt_pin) -> rt_error {
    // SAFETY: as above.
    let Some(pin) = (unsafe { pin.as_mut() }) else { return RT_ERROR_NULL };
    if pin.address.is_null() {
        return RT_ERROR_NULL;
    }
    // SAFETY: a pin that was not ended: the words are its guard's.
    drop(unsafe { guard_of(pin.own) });
    *pin = rt_pin { address: null_mut(), size_bytes: 0, own: [0; 3] };
    RT_OK
}

/// Does something with the guard of a pin, which goes on.
///
/// # Safety
///
/// As `rt_shared_compact_fit_unpin`.
unsafe fn with_guard(pin: *const rt_pin, act: impl FnOnce(&Guard<'_>) -> rt_error) -> rt_error {
    // SAFETY: the caller's promise.
    let Some(pin) = (unsafe { pin.as_ref() }) else { return RT_ERROR_NULL };
    if pin.address.is_null() {
        return RT_ERROR_NULL;
    }
    // SAFETY: a pin that was not ended: the words are its guard's.
    act(&ManuallyDrop::new(unsafe { guard_of(pin.own) }))
}

/// Copies `bytes` bytes of a pinned object from `offset` on to `buffer`, in words of four bytes that are read at once each.
///
/// # Errors
/// RT_ERROR_NULL; RT_ERROR_OUT_OF_RANGE, and nothing was copied.
///
/// # Safety
/// As `rt_shared_compact_fit_unpin`; the buffer has room.
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
    // SAFETY: as above.
    unsafe {
        let buffer = core::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes);
        with_guard(pin, |guard| guard.read(offset, buffer).into())
    }
}

/// Copies `bytes` bytes from `buffer` into a pinned object, from `offset` on, in words of four bytes that are written at once each.
///
/// # Errors
/// RT_ERROR_NULL; RT_ERROR_OUT_OF_RANGE, and nothing was copied.
///
/// # Safety
/// As `rt_shared_compact_fit_unpin`; the buffer is that long.
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
    // SAFETY: as above.
    unsafe {
        let buffer = core::slice::from_raw_parts(buffer.cast::<u8>(), bytes);
        with_guard(pin, |guard| guard.write(offset, buffer).into())
    }
}

/// Stores at `refusals` how many requests were refused so far.
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
    // SAFETY: as above; the place is the caller's promise.
    answered(unsafe { heap_of(heap) }, |heap| unsafe { place.write(heap.refusals().into()) })
}

/// Verifies every invariant of the heap; `where` may be NULL.
///
/// # Errors
/// RT_ERROR_NULL; RT_ERROR_CORRUPTION with the first broken invariant at `where`.
///
/// # Safety
/// As `rt_shared_compact_fit_slots`, and nobody uses the heap meanwhile.
///
/// # Time
/// O(pages and entries).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rt_shared_compact_fit_check(
    heap: *const rt_shared_compact_fit,
    r#where: *mut rt_corruption,
) -> rt_error {
    // SAFETY: as above.
    match unsafe { heap_of(heap) } {
        // SAFETY: as above.
        Ok(mut heap) => unsafe { verified(heap.check(), r#where) },
        Err(error) => error,
    }
}

//! The concurrent Compact-fit behind C functions: slots are numbers, and a pin lasts for one access.

use super::{DefaultLadder, Rmws};
use core::ffi::c_void;
use core::num::NonZeroU64;
use core::ptr::null_mut;
use rtalloc::contract::Handle;
use rtalloc::{SharedCompactFit, SharedCompactFitConfig};

type Heap = SharedCompactFit<'static, 256, DefaultLadder, Rmws>;

/// # Safety
/// `region` points to `len` bytes, written once, that live forever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shared_objects_new(region: *mut u8, len: usize) -> *mut c_void {
    // SAFETY: `region` points to `len` initialised bytes that live forever.
    let region = unsafe { core::slice::from_raw_parts_mut(region, len) };
    match Heap::new(region, SharedCompactFitConfig::default()) {
        // SAFETY: a heap is one pointer.
        Ok(heap) => unsafe { core::mem::transmute::<Heap, *mut c_void>(heap) },
        Err(_) => null_mut(),
    }
}

/// # Safety
/// `heap` came from `shared_objects_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shared_objects_allocate(heap: *mut c_void, slot: usize, size: usize) -> u64 {
    // SAFETY: a heap is one pointer.
    let heap = unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) };
    let Some(mut slot) = heap.claim(slot) else { return 0 };
    slot.allocate(size).map_or(0, |handle| handle.to_bits().get())
}

/// # Safety
/// `heap` came from `shared_objects_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shared_objects_deallocate(heap: *mut c_void, slot: usize, handle: NonZeroU64) -> bool {
    // SAFETY: a heap is one pointer.
    let heap = unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) };
    heap.claim(slot).is_some_and(|mut slot| slot.deallocate(Handle::from_bits(handle)).is_ok())
}

/// # Safety
/// `heap` came from `shared_objects_new`; `bytes` points to `len` bytes that are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shared_objects_read(
    heap: *mut c_void,
    handle: NonZeroU64,
    offset: usize,
    bytes: *mut u8,
    len: usize,
) -> bool {
    // SAFETY: a heap is one pointer, and `bytes` points to `len` bytes that only the caller accesses.
    let (heap, bytes) =
        unsafe { (core::mem::transmute::<*mut c_void, Heap>(heap), core::slice::from_raw_parts_mut(bytes, len)) };
    heap.pin(Handle::from_bits(handle)).is_ok_and(|guard| guard.read(offset, bytes).is_ok())
}

/// # Safety
/// `heap` came from `shared_objects_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shared_objects_write(
    heap: *mut c_void,
    handle: NonZeroU64,
    offset: usize,
    bytes: *const u8,
    len: usize,
) -> bool {
    // SAFETY: a heap is one pointer, and `bytes` points to `len` initialised bytes.
    let (heap, bytes) =
        unsafe { (core::mem::transmute::<*mut c_void, Heap>(heap), core::slice::from_raw_parts(bytes, len)) };
    heap.pin(Handle::from_bits(handle)).is_ok_and(|guard| guard.write(offset, bytes).is_ok())
}

/// # Safety
/// `heap` came from `shared_objects_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shared_objects_reclaim(heap: *mut c_void, slot: usize, budget: usize) -> usize {
    // SAFETY: a heap is one pointer.
    let heap = unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) };
    heap.claim(slot).map_or(0, |mut slot| slot.reclaim(budget))
}

/// # Safety
/// `heap` came from `shared_objects_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shared_objects_compact(heap: *mut c_void, slot: usize, budget_bytes: usize) -> usize {
    // SAFETY: a heap is one pointer.
    let heap = unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) };
    heap.claim(slot).map_or(0, |mut slot| slot.compact(budget_bytes))
}

/// # Safety
/// `heap` came from `shared_objects_new`; no other thread uses the heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shared_objects_check(heap: *mut c_void) -> bool {
    // SAFETY: a heap is one pointer.
    unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) }.check().is_ok()
}

//! A heap that one thread uses from several places: its operations take `&self`.

use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use rtalloc::Tlsf;
use rtalloc::adapt::Local;

type Heap = Local<'static, Tlsf<'static>>;

/// # Safety
///
/// `place` is valid for a heap, and `region` points to `len` bytes that live forever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn local_new(place: *mut MaybeUninit<Heap>, region: *mut MaybeUninit<u8>, len: usize) -> bool {
    // SAFETY: `region` points to `len` bytes that live forever.
    let region = unsafe { core::slice::from_raw_parts_mut(region, len) };
    match Heap::new(region, Default::default()) {
        Ok(heap) => {
            // SAFETY: `place` is valid for writes of a heap.
            unsafe { (*place).write(heap) };
            true
        }
        Err(_) => false,
    }
}

/// `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn local_allocate(heap: &Heap, size: usize) -> *mut u8 {
    heap.allocate_bytes(size, super::NATURAL_ALIGN_BYTES).map_or(null_mut(), NonNull::as_ptr)
}

/// `free`.
///
/// # Safety
///
/// As `Local::deallocate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn local_deallocate(heap: &Heap, block: NonNull<u8>) {
    // SAFETY: `block` is a live block of this heap.
    unsafe { heap.deallocate(block) }
}

/// `realloc`.
///
/// # Safety
///
/// As `Local::reallocate_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn local_reallocate(heap: &Heap, block: NonNull<u8>, size: usize) -> *mut u8 {
    // SAFETY: `block` is a live block of this heap.
    let answer = unsafe { heap.reallocate_bytes(block, size, super::NATURAL_ALIGN_BYTES) };
    answer.map_or(null_mut(), NonNull::as_ptr)
}

//! Every allocator behind C functions, for a target without an operating system: what links here is all there is.
//!
//! The panic handler calls a function that exists nowhere, so a panic edge in any of these paths shows as an undefined
//! symbol (`ci/no_std.sh` looks for it).
#![no_std]

use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use rtalloc::{AddressOrderedFirstFit, BestFit, FirstFit, HalfFit, RegionAllocator, Tlsf};

unsafe extern "C" {
    fn a_panic_edge_was_linked() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: never linked; that is the test.
    unsafe { a_panic_edge_was_linked() }
}

macro_rules! face {
    ($heap:ty, $allocate:ident, $deallocate:ident, $reallocate:ident) => {
        /// # Safety
        /// `region` points to `len` bytes that live forever.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $allocate(region: *mut MaybeUninit<u8>, len: usize, size: usize, align: usize) -> *mut u8 {
            // SAFETY: the caller's promise.
            let region = unsafe { core::slice::from_raw_parts_mut(region, len) };
            let Ok(mut heap) = <$heap>::new(region, Default::default()) else { return null_mut() };
            heap.allocate_bytes(size, align).map_or(null_mut(), NonNull::as_ptr)
        }

        /// # Safety
        /// As `RegionAllocator::deallocate`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $deallocate(heap: &mut $heap, block: NonNull<u8>) {
            // SAFETY: the caller's promise.
            unsafe { heap.deallocate(block) }
        }

        /// # Safety
        /// As `RegionAllocator::reallocate_bytes`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $reallocate(heap: &mut $heap, block: NonNull<u8>, size: usize, align: usize) -> *mut u8 {
            // SAFETY: the caller's promise.
            unsafe { heap.reallocate_bytes(block, size, align) }.map_or(null_mut(), NonNull::as_ptr)
        }
    };
}

face!(Tlsf<'static>, tlsf_allocate, tlsf_deallocate, tlsf_reallocate);
face!(HalfFit<'static>, half_fit_allocate, half_fit_deallocate, half_fit_reallocate);
face!(FirstFit<'static>, first_fit_allocate, first_fit_deallocate, first_fit_reallocate);
face!(AddressOrderedFirstFit<'static>, first_fit_ao_allocate, first_fit_ao_deallocate, first_fit_ao_reallocate);
face!(BestFit<'static>, best_fit_allocate, best_fit_deallocate, best_fit_reallocate);

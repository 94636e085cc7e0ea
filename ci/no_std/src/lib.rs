//! Every allocator behind C functions, for a target without an operating system: what links here is all there is.
//!
//! The panic handler calls a function that exists nowhere, so a panic edge in any of these paths shows as an undefined
//! symbol (`ci/no_std.sh` looks for it).
#![no_std]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use rtalloc::mechanism::scrutiny::Thorough;
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::tally::Untallied;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{AddressOrderedFirstFit, BestFit, FirstFit, HalfFit, RegionAllocator, Tlsf};

unsafe extern "C" {
    fn a_panic_edge_was_linked() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: never linked; that is the test.
    unsafe { a_panic_edge_was_linked() }
}

/// Natural alignment of C's `malloc` on this target, in bytes: the allocators' granule.
const NATURAL_ALIGN_BYTES: usize = 2 * size_of::<usize>();

macro_rules! face {
    ($heap:ty, $new:ident, $allocate:ident, $aligned:ident, $deallocate:ident, $reallocate:ident) => {
        /// # Safety
        /// `region` points to `len` bytes that live forever.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $new(region: *mut MaybeUninit<u8>, len: usize) -> *mut c_void {
            // SAFETY: the caller's promise.
            let region = unsafe { core::slice::from_raw_parts_mut(region, len) };
            match <$heap>::new(region, Default::default()) {
                // SAFETY: a heap is one pointer.
                Ok(heap) => unsafe { core::mem::transmute::<$heap, *mut c_void>(heap) },
                Err(_) => null_mut(),
            }
        }

        /// # Safety
        /// `heap` came from `new`, here and below.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $allocate(heap: *mut c_void, size: usize) -> *mut u8 {
            // SAFETY: a heap is one pointer.
            let mut heap = unsafe { core::mem::transmute::<*mut c_void, $heap>(heap) };
            heap.allocate_bytes(size, NATURAL_ALIGN_BYTES).map_or(null_mut(), NonNull::as_ptr)
        }

        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $aligned(heap: *mut c_void, size: usize, align: usize) -> *mut u8 {
            // SAFETY: a heap is one pointer.
            let mut heap = unsafe { core::mem::transmute::<*mut c_void, $heap>(heap) };
            heap.allocate_bytes(size, align).map_or(null_mut(), NonNull::as_ptr)
        }

        /// # Safety
        /// As `RegionAllocator::deallocate`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $deallocate(heap: *mut c_void, block: NonNull<u8>) {
            // SAFETY: a heap is one pointer; the rest is the caller's promise.
            unsafe { core::mem::transmute::<*mut c_void, $heap>(heap).deallocate(block) }
        }

        /// # Safety
        /// As `RegionAllocator::reallocate_bytes`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $reallocate(
            heap: *mut c_void,
            block: NonNull<u8>,
            size: usize,
            align: usize,
        ) -> *mut u8 {
            // SAFETY: a heap is one pointer; the rest is the caller's promise.
            let answer =
                unsafe { core::mem::transmute::<*mut c_void, $heap>(heap).reallocate_bytes(block, size, align) };
            answer.map_or(null_mut(), NonNull::as_ptr)
        }
    };
}

/// Sets the hook, so that the reports of misuse are part of what is linked.
#[unsafe(no_mangle)]
pub fn set_hook(hook: rtalloc::hook::Hook) {
    rtalloc::hook::set_misuse_hook(Some(hook));
}

type ThoroughTlsf = Tlsf<'static, 5, RoundUp, Offset32, Untallied, Thorough>;
face!(Tlsf<'static>, tlsf_new, tlsf_allocate, tlsf_aligned, tlsf_deallocate, tlsf_reallocate);
face!(Tlsf<'static, 5, Exact>, exact_new, exact_allocate, exact_aligned, exact_deallocate, exact_reallocate);
face!(ThoroughTlsf, thorough_new, thorough_allocate, thorough_aligned, thorough_deallocate, thorough_reallocate);
face!(HalfFit<'static>, half_new, half_allocate, half_aligned, half_deallocate, half_reallocate);
face!(FirstFit<'static>, first_new, first_allocate, first_aligned, first_deallocate, first_reallocate);
face!(AddressOrderedFirstFit<'static>, order_new, order_allocate, order_aligned, order_deallocate, order_reallocate);
face!(BestFit<'static>, best_new, best_allocate, best_aligned, best_deallocate, best_reallocate);

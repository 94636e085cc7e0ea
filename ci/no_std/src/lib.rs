//! Every allocator behind C functions, for a target without an operating system: what links here is all there is.
//!
//! The panic handler calls a function that exists nowhere, so a panic edge in any of these paths shows as an undefined
//! symbol (`ci/no_std.sh` looks for it).
#![no_std]

mod local;
#[cfg(target_arch = "arm")]
mod masked;
mod shared_objects;

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::num::NonZeroU64;
use core::ptr::{NonNull, null_mut};
use rtalloc::adapt::{Failing, Guarded, Quota, Traced};
use rtalloc::compact_fit::DefaultLadder;
use rtalloc::contract::Handle;
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{Bitframe, CompactFit, CompactFitNonMoving, HandleAllocator, RegionAllocator, Tlsf};

unsafe extern "C" {
    fn a_panic_edge_was_linked() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: never linked; that is the test.
    unsafe { a_panic_edge_was_linked() }
}

/// The RMWs of shared heaps.
#[cfg(target_has_atomic = "ptr")]
type Rmws = rtalloc::concurrent::atomics::Native;
#[cfg(not(target_has_atomic = "ptr"))]
type Rmws = rtalloc::concurrent::atomics::masking::InterruptMasking<Board>;

/// A single core.
#[cfg(not(target_has_atomic = "ptr"))]
#[derive(Clone, Copy, Default)]
struct Board;
#[cfg(not(target_has_atomic = "ptr"))]
// SAFETY: its heaps are linked and never executed.
unsafe impl rtalloc::concurrent::atomics::masking::SingleCore for Board {}

/// Natural alignment of C's `malloc` on this target, in bytes.
const NATURAL_ALIGN_BYTES: usize = 2 * size_of::<usize>();

/// The functions of an allocator.
macro_rules! face {
    ($name:ident: $heap:ty) => {
        pub mod $name {
            use super::*;

            type Heap = $heap;

            /// Alignment of every block.
            const ALIGN_BYTES: usize = {
                let own = <Heap as RegionAllocator<'static>>::CONTRACT.alignment_bytes;
                if own < NATURAL_ALIGN_BYTES { own } else { NATURAL_ALIGN_BYTES }
            };

            /// # Safety
            /// `region` points to `len` bytes that live forever.
            #[unsafe(export_name = concat!(stringify!($name), "_new"))]
            pub unsafe extern "C" fn new(region: *mut MaybeUninit<u8>, len: usize) -> *mut c_void {
                // SAFETY: `region` points to `len` bytes that live forever.
                let region = unsafe { core::slice::from_raw_parts_mut(region, len) };
                match Heap::new(region, Default::default()) {
                    // SAFETY: a heap is one pointer.
                    Ok(heap) => unsafe { core::mem::transmute::<Heap, *mut c_void>(heap) },
                    Err(_) => null_mut(),
                }
            }

            /// # Safety
            /// `heap` came from `new`.
            #[unsafe(export_name = concat!(stringify!($name), "_allocate"))]
            pub unsafe extern "C" fn allocate(heap: *mut c_void, size: usize) -> *mut u8 {
                // SAFETY: a heap is one pointer.
                let mut heap = unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) };
                heap.allocate_bytes(size, ALIGN_BYTES).map_or(null_mut(), NonNull::as_ptr)
            }

            /// # Safety
            /// `heap` came from `new`.
            #[unsafe(export_name = concat!(stringify!($name), "_aligned"))]
            pub unsafe extern "C" fn aligned(heap: *mut c_void, size: usize, align: usize) -> *mut u8 {
                // SAFETY: a heap is one pointer.
                let mut heap = unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) };
                heap.allocate_bytes(size, align).map_or(null_mut(), NonNull::as_ptr)
            }

            /// # Safety
            /// As `RegionAllocator::deallocate`.
            #[unsafe(export_name = concat!(stringify!($name), "_deallocate"))]
            pub unsafe extern "C" fn deallocate(heap: *mut c_void, block: NonNull<u8>) {
                // SAFETY: a heap is one pointer, and `block` is a live block of this heap.
                unsafe { core::mem::transmute::<*mut c_void, Heap>(heap).deallocate(block) }
            }

            /// # Safety
            /// As `RegionAllocator::reallocate_bytes`.
            #[unsafe(export_name = concat!(stringify!($name), "_reallocate"))]
            pub unsafe extern "C" fn reallocate(
                heap: *mut c_void,
                block: NonNull<u8>,
                size: usize,
                align: usize,
            ) -> *mut u8 {
                // SAFETY: a heap is one pointer, and `block` is a live block of this heap.
                let block =
                    unsafe { core::mem::transmute::<*mut c_void, Heap>(heap).reallocate_bytes(block, size, align) };
                block.map_or(null_mut(), NonNull::as_ptr)
            }
        }
    };
}

/// The functions of every entry of the library's table.
macro_rules! faces {
    ($($(#[$summary:meta])* $name:ident, $command:literal: $heap:ty, [$($ability:ident),*] { $($exposed:tt)* })*) => {
        $(face!($name: $heap);)*
    };
}

/// Sets the hook, so that the reports of misuse are part of what is linked.
#[unsafe(no_mangle)]
pub fn set_hook(hook: rtalloc::hook::Hook) {
    rtalloc::hook::set_misuse_hook(Some(hook));
}

rtalloc::region_allocators!(faces, Offset32, NoStats);
mod concurrent;
type FailingTlsf = Failing<'static, Tlsf<'static>>;
face!(failing: FailingTlsf);
/// Fails every third request; returns how many failed before.
///
/// # Safety
/// `heap` came from `new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn failing_arm(heap: *mut c_void) -> usize {
    // SAFETY: a heap is one pointer.
    let heap = unsafe { core::mem::transmute::<*mut c_void, FailingTlsf>(heap) };
    let failed = heap.failed_requests().fold(0, |count: usize, _| count.wrapping_add(1));
    heap.arm(rtalloc::adapt::Failures::EveryNth(3));
    failed
}
type QuotaTlsf = Quota<'static, Tlsf<'static>>;
face!(quota: QuotaTlsf);
/// Lets a component ask, at some time.
///
/// # Safety
/// `heap` came from `new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quota_enter(heap: *mut c_void, component: usize, now: u64, live_bytes: usize) -> usize {
    // SAFETY: a heap is one pointer.
    let heap = unsafe { core::mem::transmute::<*mut c_void, QuotaTlsf>(heap) };
    heap.tick(now);
    heap.enter(component);
    heap.set_limits(component, rtalloc::adapt::QuotaLimits { live_bytes, ..Default::default() });
    heap.used(component).map_or(0, |used| used.peak_live_bytes)
}
face!(nested: Guarded<'static, Quota<'static, Failing<'static, Traced<'static, Tlsf<'static>>>>>);
face!(guarded: Guarded<'static, Tlsf<'static>>);
face!(guarded_bits: Guarded<'static, Bitframe<'static>, 8>);
type TracedTlsf = Traced<'static, Tlsf<'static>>;
face!(traced: TracedTlsf);

/// # Safety
/// `heap` came from `traced_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn traced_mark(heap: *mut c_void, number: u32) {
    // SAFETY: a heap is one pointer.
    unsafe { core::mem::transmute::<*mut c_void, TracedTlsf>(heap) }.mark(number);
}

/// # Safety
/// `heap` came from `traced_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn traced_ring_bytes(heap: *mut c_void) -> usize {
    // SAFETY: a heap is one pointer.
    unsafe { core::mem::transmute::<*mut c_void, TracedTlsf>(heap) }.ring().len()
}

/// # Safety
/// `heap` came from `traced_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn traced_check(heap: *mut c_void) -> bool {
    // SAFETY: a heap is one pointer.
    unsafe { core::mem::transmute::<*mut c_void, TracedTlsf>(heap) }.check().is_ok()
}

/// As `face!`, for heaps of handles.
macro_rules! handle_face {
    ($name:ident: $heap:ty) => {
        pub mod $name {
            use super::*;

            type Heap = $heap;

            /// # Safety
            /// `region` points to `len` bytes that live forever.
            #[unsafe(export_name = concat!(stringify!($name), "_new"))]
            pub unsafe extern "C" fn new(region: *mut MaybeUninit<u8>, len: usize) -> *mut c_void {
                // SAFETY: `region` points to `len` bytes that live forever.
                let region = unsafe { core::slice::from_raw_parts_mut(region, len) };
                match Heap::new(region, Default::default()) {
                    // SAFETY: a heap is one pointer.
                    Ok(heap) => unsafe { core::mem::transmute::<Heap, *mut c_void>(heap) },
                    Err(_) => null_mut(),
                }
            }

            /// # Safety
            /// `heap` came from `new`.
            #[unsafe(export_name = concat!(stringify!($name), "_allocate"))]
            pub unsafe extern "C" fn allocate(heap: *mut c_void, size: usize) -> u64 {
                // SAFETY: a heap is one pointer.
                let mut heap = unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) };
                heap.allocate(size).map_or(0, |handle| handle.to_bits().get())
            }

            /// # Safety
            /// `heap` came from `new`.
            #[unsafe(export_name = concat!(stringify!($name), "_free"))]
            pub unsafe extern "C" fn free(heap: *mut c_void, handle: NonZeroU64) -> bool {
                // SAFETY: a heap is one pointer.
                unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) }.free(Handle::from_bits(handle)).is_ok()
            }

            /// # Safety
            /// `heap` came from `new`.
            #[unsafe(export_name = concat!(stringify!($name), "_resize"))]
            pub unsafe extern "C" fn resize(heap: *mut c_void, handle: NonZeroU64, size: usize) -> bool {
                // SAFETY: a heap is one pointer.
                let mut heap = unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) };
                heap.resize(Handle::from_bits(handle), size).is_ok()
            }

            /// # Safety
            /// `heap` came from `new`.
            #[unsafe(export_name = concat!(stringify!($name), "_locate"))]
            pub unsafe extern "C" fn locate(heap: *mut c_void, handle: NonZeroU64, offset: usize) -> *mut u8 {
                // SAFETY: a heap is one pointer.
                let heap = unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) };
                heap.locate_mut(Handle::from_bits(handle), offset).map_or(null_mut(), |(place, _)| place.as_ptr())
            }

            /// # Safety
            /// As `HandleAllocator::dereference`.
            #[unsafe(export_name = concat!(stringify!($name), "_dereference"))]
            pub unsafe extern "C" fn dereference(heap: *mut c_void, handle: NonZeroU64, offset: usize) -> NonNull<u8> {
                // SAFETY: a heap is one pointer, and `handle` identifies a live object with a byte at `offset`.
                unsafe {
                    core::mem::transmute::<*mut c_void, Heap>(heap).dereference(Handle::from_bits(handle), offset)
                }
            }

            /// # Safety
            /// `heap` came from `new`.
            #[unsafe(export_name = concat!(stringify!($name), "_compact"))]
            pub unsafe extern "C" fn compact(heap: *mut c_void, budget: usize) -> usize {
                // SAFETY: a heap is one pointer.
                unsafe { core::mem::transmute::<*mut c_void, Heap>(heap) }.compact(budget)
            }
        }
    };
}

handle_face!(moving: CompactFit<'static>);
// Compaction of at most 256 bytes in each operation.
handle_face!(stepped: CompactFit<'static, DefaultLadder, NoStats, 256>);
handle_face!(non_moving: CompactFitNonMoving<'static>);

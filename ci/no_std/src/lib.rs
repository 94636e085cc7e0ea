//! Every allocator behind C functions, for a target without an operating system: what links here is all there is.
//!
//! The panic handler calls a function that exists nowhere, so a panic edge in any of these paths shows as an undefined
//! symbol (`ci/no_std.sh` looks for it).
#![no_std]

mod local;
mod masked;
mod shared_objects;

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::num::NonZeroU64;
use core::ptr::{NonNull, null_mut};
use rtalloc::adapt::{Alone, Failing, Guarded, Quota, Traced};
use rtalloc::compact_fit::DefaultLadder;
use rtalloc::concurrent::atomics::Native;
use rtalloc::concurrent::bitmap_buddy::Whole;
use rtalloc::concurrent::tree_buddy::{Everything, Faithful, InBand, OutOfBand, TreeBuddy};
use rtalloc::contract::Handle;
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::validation::Full;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{
    AddressOrderedFirstFit, Arenas, BestFit, BinaryBuddy, Bitframe, BitmapBuddy, ClassRegions, CompactFit,
    CompactFitNonMoving, DoubleBuddy, FastFit, FibonacciBuddy, FirstFit, HalfFit, HandleAllocator, Kingsley,
    LeftmostFastFit, LifoNextFit, NextFit, QuickFit, Reaps, RegionAllocator, SimpleSegregated, SingleRegion, Tlsf,
    TreeBestFit, WeightedBuddy,
};

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

type FullyValidatingTlsf = Tlsf<'static, 5, RoundUp, Offset32, NoStats, Full>;
face!(Tlsf<'static>, tlsf_new, tlsf_allocate, tlsf_aligned, tlsf_deallocate, tlsf_reallocate);
face!(Tlsf<'static, 5, Exact>, exact_new, exact_allocate, exact_aligned, exact_deallocate, exact_reallocate);
face!(FullyValidatingTlsf, thorough_new, thorough_allocate, thorough_aligned, thorough_deallocate, thorough_reallocate);
face!(HalfFit<'static>, half_new, half_allocate, half_aligned, half_deallocate, half_reallocate);
face!(FirstFit<'static>, first_new, first_allocate, first_aligned, first_deallocate, first_reallocate);
face!(AddressOrderedFirstFit<'static>, order_new, order_allocate, order_aligned, order_deallocate, order_reallocate);
face!(BestFit<'static>, best_new, best_allocate, best_aligned, best_deallocate, best_reallocate);
face!(NextFit<'static>, next_new, next_allocate, next_aligned, next_deallocate, next_reallocate);
face!(
    LifoNextFit<'static>,
    next_lifo_new,
    next_lifo_allocate,
    next_lifo_aligned,
    next_lifo_deallocate,
    next_lifo_reallocate
);
face!(TreeBestFit<'static>, tree_new, tree_allocate, tree_aligned, tree_deallocate, tree_reallocate);
face!(FastFit<'static>, fast_new, fast_allocate, fast_aligned, fast_deallocate, fast_reallocate);
face!(
    LeftmostFastFit<'static>,
    leftmost_new,
    leftmost_allocate,
    leftmost_aligned,
    leftmost_deallocate,
    leftmost_reallocate
);
face!(SimpleSegregated<'static>, simple_new, simple_allocate, simple_aligned, simple_deallocate, simple_reallocate);
face!(Kingsley<'static>, kingsley_new, kingsley_allocate, kingsley_aligned, kingsley_deallocate, kingsley_reallocate);
face!(BinaryBuddy<'static>, binary_new, binary_allocate, binary_aligned, binary_deallocate, binary_reallocate);
face!(
    FibonacciBuddy<'static>,
    fibonacci_new,
    fibonacci_allocate,
    fibonacci_aligned,
    fibonacci_deallocate,
    fibonacci_reallocate
);
face!(
    WeightedBuddy<'static>,
    weighted_new,
    weighted_allocate,
    weighted_aligned,
    weighted_deallocate,
    weighted_reallocate
);
face!(DoubleBuddy<'static>, double_new, double_allocate, double_aligned, double_deallocate, double_reallocate);
type Tree<L, O> = Alone<'static, TreeBuddy<'static, 64, L, O>>;
face!(
    Tree<OutOfBand, Faithful>,
    tree_buddy_new,
    tree_buddy_allocate,
    tree_buddy_aligned,
    tree_buddy_deallocate,
    tree_buddy_reallocate
);
face!(
    Tree<InBand, Faithful>,
    tree_in_band_new,
    tree_in_band_allocate,
    tree_in_band_aligned,
    tree_in_band_deallocate,
    tree_in_band_reallocate
);
face!(
    Tree<OutOfBand, Everything>,
    tree_everything_new,
    tree_everything_allocate,
    tree_everything_aligned,
    tree_everything_deallocate,
    tree_everything_reallocate
);
face!(
    Tree<InBand, Everything>,
    tree_in_band_everything_new,
    tree_in_band_everything_allocate,
    tree_in_band_everything_aligned,
    tree_in_band_everything_deallocate,
    tree_in_band_everything_reallocate
);
face!(SingleRegion<'static>, region_new, region_allocate, region_aligned, region_deallocate, region_reallocate);
face!(ClassRegions<'static>, regions_new, regions_allocate, regions_aligned, regions_deallocate, regions_reallocate);
face!(Reaps<'static>, reaps_new, reaps_allocate, reaps_aligned, reaps_deallocate, reaps_reallocate);
face!(Bitframe<'static>, bitframe_new, bitframe_allocate, bitframe_aligned, bitframe_deallocate, bitframe_reallocate);
face!(Alone<'static, BitmapBuddy<'static>>, bits_new, bits_allocate, bits_aligned, bits_deallocate, bits_reallocate);
type WholeBits = Alone<'static, BitmapBuddy<'static, 16, Native, Whole>>;
face!(WholeBits, whole_bits_new, whole_bits_allocate, whole_bits_aligned, whole_bits_deallocate, whole_bits_reallocate);
face!(
    Alone<'static, Arenas<'static>>,
    arenas_new,
    arenas_allocate,
    arenas_aligned,
    arenas_deallocate,
    arenas_reallocate
);
type FailingTlsf = Failing<'static, Tlsf<'static>>;
face!(FailingTlsf, failing_new, failing_allocate, failing_aligned, failing_deallocate, failing_reallocate);
/// Fails every third request, and tells which did.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn failing_arm(heap: *mut c_void) -> usize {
    // SAFETY: a heap is one pointer.
    let heap = unsafe { core::mem::transmute::<*mut c_void, FailingTlsf>(heap) };
    let failed = heap.failed_requests().count();
    heap.arm(rtalloc::adapt::Failures::EveryNth(3));
    failed
}
type QuotaTlsf = Quota<'static, Tlsf<'static>>;
face!(QuotaTlsf, quota_new, quota_allocate, quota_aligned, quota_deallocate, quota_reallocate);
/// Lets a component ask, at some time.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quota_enter(heap: *mut c_void, component: usize, now: u64, live_bytes: usize) -> usize {
    // SAFETY: a heap is one pointer.
    let heap = unsafe { core::mem::transmute::<*mut c_void, QuotaTlsf>(heap) };
    heap.tick(now);
    heap.enter(component);
    heap.set_limits(component, rtalloc::adapt::QuotaLimits { live_bytes, ..Default::default() });
    heap.used(component).map_or(0, |used| used.peak_live_bytes)
}
type NestedTlsf = Guarded<'static, Quota<'static, Failing<'static, Traced<'static, Tlsf<'static>>>>>;
face!(NestedTlsf, nested_new, nested_allocate, nested_aligned, nested_deallocate, nested_reallocate);
type GuardedBitframe = Guarded<'static, Bitframe<'static>, 8>;
face!(
    Guarded<'static, Tlsf<'static>>,
    guarded_new,
    guarded_allocate,
    guarded_aligned,
    guarded_deallocate,
    guarded_reallocate
);
face!(
    GuardedBitframe,
    guarded_bits_new,
    guarded_bits_allocate,
    guarded_bits_aligned,
    guarded_bits_deallocate,
    guarded_bits_reallocate
);
face!(QuickFit<'static>, quick_new, quick_allocate, quick_aligned, quick_deallocate, quick_reallocate);
type TracedTlsf = Traced<'static, Tlsf<'static>>;
face!(TracedTlsf, traced_new, traced_allocate, traced_aligned, traced_deallocate, traced_reallocate);

/// # Safety
/// `heap` came from `traced_new`, here and below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn traced_mark(heap: *mut c_void, number: u32) {
    // SAFETY: a heap is one pointer.
    unsafe { core::mem::transmute::<*mut c_void, TracedTlsf>(heap) }.mark(number);
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn traced_ring_bytes(heap: *mut c_void) -> usize {
    // SAFETY: a heap is one pointer.
    unsafe { core::mem::transmute::<*mut c_void, TracedTlsf>(heap) }.ring().len()
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn traced_check(heap: *mut c_void) -> bool {
    // SAFETY: a heap is one pointer.
    unsafe { core::mem::transmute::<*mut c_void, TracedTlsf>(heap) }.check().is_ok()
}

/// As `face!`, for heaps of handles.
macro_rules! handle_face {
    ($heap:ty, $new:ident, $allocate:ident, $free:ident, $resize:ident, $locate:ident, $dereference:ident, $compact:ident) => {
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
        pub unsafe extern "C" fn $allocate(heap: *mut c_void, size: usize) -> u64 {
            // SAFETY: a heap is one pointer.
            let mut heap = unsafe { core::mem::transmute::<*mut c_void, $heap>(heap) };
            heap.allocate(size).map_or(0, |handle| handle.to_bits().get())
        }

        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $free(heap: *mut c_void, handle: NonZeroU64) -> bool {
            // SAFETY: a heap is one pointer.
            unsafe { core::mem::transmute::<*mut c_void, $heap>(heap) }.free(Handle::from_bits(handle)).is_ok()
        }

        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $resize(heap: *mut c_void, handle: NonZeroU64, size: usize) -> bool {
            // SAFETY: a heap is one pointer.
            let mut heap = unsafe { core::mem::transmute::<*mut c_void, $heap>(heap) };
            heap.resize(Handle::from_bits(handle), size).is_ok()
        }

        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $locate(heap: *mut c_void, handle: NonZeroU64, offset: usize) -> *mut u8 {
            // SAFETY: a heap is one pointer.
            let heap = unsafe { core::mem::transmute::<*mut c_void, $heap>(heap) };
            heap.locate_to_write(Handle::from_bits(handle), offset).map_or(null_mut(), |(place, _)| place.as_ptr())
        }

        /// # Safety
        /// As `HandleAllocator::dereference`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $dereference(heap: *mut c_void, handle: NonZeroU64, offset: usize) -> NonNull<u8> {
            // SAFETY: a heap is one pointer; the rest is the caller's promise.
            unsafe { core::mem::transmute::<*mut c_void, $heap>(heap).dereference(Handle::from_bits(handle), offset) }
        }

        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $compact(heap: *mut c_void, budget: usize) -> usize {
            // SAFETY: a heap is one pointer.
            unsafe { core::mem::transmute::<*mut c_void, $heap>(heap) }.compact(budget)
        }
    };
}

/// Compaction of at most 256 bytes in each operation.
type SteppedCompactFit = CompactFit<'static, DefaultLadder, NoStats, 256>;
handle_face!(
    CompactFit<'static>,
    moving_new,
    moving_allocate,
    moving_free,
    moving_resize,
    moving_locate,
    moving_dereference,
    moving_compact
);
handle_face!(
    SteppedCompactFit,
    stepped_new,
    stepped_allocate,
    stepped_free,
    stepped_resize,
    stepped_locate,
    stepped_dereference,
    stepped_compact
);
handle_face!(
    CompactFitNonMoving<'static>,
    non_moving_new,
    non_moving_allocate,
    non_moving_free,
    non_moving_resize,
    non_moving_locate,
    non_moving_dereference,
    non_moving_compact
);

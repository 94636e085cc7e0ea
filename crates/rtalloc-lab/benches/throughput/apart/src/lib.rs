//! The subjects of the benchmark `throughput`: each as two functions to be called through pointers or, with the feature
//! `inlined`, inlined into the measured loop. All have the same frame: an object in memory, a constant alignment, and
//! one place of each kind where the allocator is called. With a second place, the compiler would keep a large function
//! of one allocator out of line, and inline another that asks for it.

#[cfg_attr(not(feature = "inlined"), expect(dead_code, reason = "only the types"))]
#[path = "../../replay.rs"]
mod replay;

use replay::{Operation, Slot};
use rtalloc::adapt::Cached;
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::validation::{BasicSettingAside, Full};
use rtalloc::mechanism::word::Offset32;
use rtalloc::{HalfFit, RegionAllocator, Tlsf};
use std::alloc::Layout;
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

/// Alignment of every block, in bytes.
const ALIGN: usize = 16;

/// What the benchmark loads. A library in C exports an array of these, too, with a null `replay`.
#[repr(C)]
pub struct Subject {
    /// Its name; null after the last one.
    name: *const c_char,
    /// Makes a heap in a region; null if it is refused.
    make: Option<unsafe extern "C" fn(*mut u8, usize) -> *mut c_void>,
    allocate: Option<unsafe extern "C" fn(*mut c_void, usize) -> *mut u8>,
    free: Option<unsafe extern "C" fn(*mut c_void, *mut u8, usize)>,
    /// The measured loop with both inlined.
    replay: Option<unsafe extern "C" fn(*mut c_void, *const Operation, usize, *mut Slot, usize, *mut u64) -> bool>,
}

// SAFETY: functions and a literal.
unsafe impl Sync for Subject {}

/// An allocator. Heaps are boxed and never freed: a round makes one.
trait Target: Sized {
    fn make(region: &'static mut [MaybeUninit<u8>]) -> Option<Self>;
    fn allocate(&mut self, layout: Layout) -> *mut u8;
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout);
}

/// Ours.
struct Ours<A>(A);

impl<A: RegionAllocator<'static>> Target for Ours<A> {
    fn make(region: &'static mut [MaybeUninit<u8>]) -> Option<Self> {
        A::new(region, A::Config::default()).ok().map(Self)
    }
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        self.0.allocate(layout).map_or(null_mut(), NonNull::as_ptr)
    }
    #[inline(always)]
    unsafe fn free(&mut self, block: NonNull<u8>, _: Layout) {
        // SAFETY: passed on.
        unsafe { self.0.deallocate(block) }
    }
}

impl Target for rlsf::Tlsf<'static, u32, u32, 28, 32> {
    fn make(region: &'static mut [MaybeUninit<u8>]) -> Option<Self> {
        let mut heap = Self::new();
        heap.insert_free_block(region);
        Some(heap)
    }
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        self.allocate(layout).map_or(null_mut(), NonNull::as_ptr)
    }
    #[inline(always)]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on.
        unsafe { self.deallocate(block, layout.align()) }
    }
}

impl Target for talc::base::Talc<talc::source::Manual, talc::DefaultBinning> {
    fn make(region: &'static mut [MaybeUninit<u8>]) -> Option<Self> {
        let mut heap = Self::new(talc::source::Manual);
        // SAFETY: the region is the heap's.
        unsafe { heap.claim(region.as_mut_ptr().cast(), region.len()) }?;
        Some(heap)
    }
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: no size is zero.
        unsafe { self.allocate(layout) }.map_or(null_mut(), NonNull::as_ptr)
    }
    #[inline(always)]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on.
        unsafe { self.deallocate(block.as_ptr(), layout) }
    }
}

/// Not an allocator: what the loop takes without one.
struct Null(*mut u8);

impl Target for Null {
    fn make(region: &'static mut [MaybeUninit<u8>]) -> Option<Self> {
        Some(Self(region.as_mut_ptr().cast()))
    }
    #[inline(always)]
    fn allocate(&mut self, _: Layout) -> *mut u8 {
        self.0
    }
    #[inline(always)]
    unsafe fn free(&mut self, block: NonNull<u8>, _: Layout) {
        self.0 = block.as_ptr();
    }
}

unsafe extern "C" fn make<T: Target>(region: *mut u8, bytes: usize) -> *mut c_void {
    // SAFETY: the benchmark gives the region to this heap.
    let region = unsafe { std::slice::from_raw_parts_mut(region.cast(), bytes) };
    T::make(region).map_or(null_mut(), |heap| Box::into_raw(Box::new(heap)).cast())
}

/// The layout of a request.
#[inline(always)]
fn layout(size: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and no size of the lists is near the address space's.
    unsafe { Layout::from_size_align_unchecked(size, ALIGN) }
}

#[cfg(not(feature = "inlined"))]
unsafe extern "C" fn allocate<T: Target>(heap: *mut c_void, size: usize) -> *mut u8 {
    // SAFETY: `make` boxed it.
    unsafe { (*heap.cast::<T>()).allocate(layout(size)) }
}

#[cfg(not(feature = "inlined"))]
unsafe extern "C" fn free<T: Target>(heap: *mut c_void, block: *mut u8, size: usize) {
    // SAFETY: `make` boxed it; the block is live.
    unsafe { (*heap.cast::<T>()).free(NonNull::new_unchecked(block), layout(size)) }
}

#[cfg(feature = "inlined")]
unsafe extern "C" fn inlined<T: Target>(
    heap: *mut c_void,
    operations: *const Operation,
    count: usize,
    slots: *mut Slot,
    slot_count: usize,
    ticks: *mut u64,
) -> bool {
    let heap = heap.cast::<T>();
    // SAFETY: the benchmark's lists; `make` boxed the heap.
    unsafe {
        replay::replay(
            std::slice::from_raw_parts(operations, count),
            std::slice::from_raw_parts_mut(slots, slot_count),
            std::slice::from_raw_parts_mut(ticks, count.div_ceil(replay::CHUNK)),
            |size| (*heap).allocate(layout(size)),
            |block, size| (*heap).free(NonNull::new_unchecked(block), layout(size)),
        )
    }
}

/// The functions of `T`.
const fn subject<T: Target>(name: &'static CStr) -> Subject {
    Subject {
        name: name.as_ptr(),
        make: Some(make::<T>),
        #[cfg(not(feature = "inlined"))]
        allocate: Some(allocate::<T>),
        #[cfg(not(feature = "inlined"))]
        free: Some(free::<T>),
        #[cfg(not(feature = "inlined"))]
        replay: None,
        #[cfg(feature = "inlined")]
        allocate: None,
        #[cfg(feature = "inlined")]
        free: None,
        #[cfg(feature = "inlined")]
        replay: Some(inlined::<T>),
    }
}

/// All subjects; the last entry has no name.
#[unsafe(no_mangle)]
pub static THROUGHPUT_SUBJECTS: [Subject; 10] = [
    subject::<Null>(c"(harness)"),
    subject::<Ours<Tlsf<'static>>>(c"tlsf"),
    subject::<Ours<Tlsf<'static, 5, Exact>>>(c"tlsf-exact"),
    subject::<Ours<Tlsf<'static, 2>>>(c"tlsf-2"),
    subject::<Ours<Tlsf<'static, 5, RoundUp, Offset32, NoStats, Full>>>(c"tlsf-full-validation"),
    subject::<Ours<Cached<'static, Tlsf<'static, 5, RoundUp, Offset32, NoStats, BasicSettingAside>>>>(c"cached-tlsf"),
    subject::<Ours<HalfFit<'static>>>(c"half-fit"),
    subject::<rlsf::Tlsf<'static, u32, u32, 28, 32>>(c"rlsf"),
    subject::<talc::base::Talc<talc::source::Manual, talc::DefaultBinning>>(c"talc"),
    Subject { name: std::ptr::null(), make: None, allocate: None, free: None, replay: None },
];

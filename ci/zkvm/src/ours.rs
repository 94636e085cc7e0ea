//! The library's heaps as global allocators.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use rtalloc::RegionAllocator;
use rtalloc::adapt::Guest;

/// A heap for a program with one thread.
pub struct Single<H>(UnsafeCell<Option<H>>);

impl<H: RegionAllocator<'static>> Single<H> {
    #[inline(always)]
    fn with(&self, operation: impl FnOnce(&mut H) -> Option<NonNull<u8>>) -> *mut u8 {
        // SAFETY: the program has one thread.
        unsafe { (*self.0.get()).as_mut() }.and_then(operation).map_or(null_mut(), NonNull::as_ptr)
    }
}

// SAFETY: blocks are the heap's, which fulfils the contract.
unsafe impl<H: RegionAllocator<'static>> GlobalAlloc for Single<H> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.with(|heap| heap.allocate(layout).ok())
    }
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller guarantees a live block.
        self.with(|heap| unsafe {
            heap.deallocate(NonNull::new_unchecked(block));
            None
        });
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees a live block.
        self.with(|heap| unsafe { heap.reallocate_bytes(NonNull::new_unchecked(block), size, layout.align()).ok() })
    }
}

impl<H: RegionAllocator<'static, Config: Default>> crate::Begin for Single<H> {
    unsafe fn empty() -> Self {
        Single(UnsafeCell::new(None))
    }
    unsafe fn begin(&self, start: usize, size: usize) {
        // SAFETY: the caller guarantees that the memory is this heap's alone, and that the program has one thread.
        unsafe { *self.0.get() = Some(H::new(region(start, size), Default::default()).expect("a region for a heap")) }
    }
}

impl<H: RegionAllocator<'static, Config: Default>> crate::Begin for Guest<H> {
    unsafe fn empty() -> Self {
        // SAFETY: the program has one thread.
        unsafe { Guest::new() }
    }
    unsafe fn begin(&self, start: usize, size: usize) {
        // SAFETY: the caller guarantees that the memory is this heap's alone.
        self.init(unsafe { region(start, size) }).expect("a region for a heap");
    }
}

/// # Safety
///
/// Nothing else uses the memory.
unsafe fn region(start: usize, size: usize) -> &'static mut [MaybeUninit<u8>] {
    // SAFETY: the caller guarantees it.
    unsafe { core::slice::from_raw_parts_mut(start as *mut _, size) }
}

//! A sequential heap used from several places in one thread.
//!
//! A collection keeps a reference to its allocator, so the heap of several collections is borrowed by all of them: its
//! operations must take `&self`. If threads share the heap, that needs a lock ([`Locked`](super::Locked)); otherwise it
//! is enough that the heap stays in one thread. So the bound of an operation is the heap's.

use crate::contract::{AllocError, Corruption, InitError, RegionAllocator, Stats};
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A [`RegionAllocator`] whose operations take `&self`: it may go to another thread, but not be shared.
///
/// With the feature `allocator-api2`, `&Local` is an `allocator_api2::alloc::Allocator`:
///
/// ```
/// # #[cfg(feature = "allocator-api2")] {
/// use allocator_api2::{boxed::Box, vec::Vec};
/// use core::mem::MaybeUninit;
/// use rtalloc::Tlsf;
/// use rtalloc::adapt::Local;
///
/// let mut memory = [MaybeUninit::uninit(); 4096];
/// let heap: Local<'_, Tlsf<'_>> = Local::new(&mut memory, Default::default()).expect("large enough");
///
/// let mut numbers = Vec::new_in(&heap);
/// numbers.extend(1..=100);
/// let boxed = Box::new_in(numbers.iter().sum::<i32>(), &heap);
/// assert_eq!(*boxed, 5050);
///
/// let mut too_many = Vec::<u64, _>::new_in(&heap);
/// assert!(too_many.try_reserve(1000).is_err(), "the heap is full, the program is not at its end");
/// # }
/// ```
///
/// It cannot be shared between threads, and its heap cannot be borrowed mutably while a collection uses it:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<rtalloc::adapt::Local<rtalloc::Tlsf>>();
/// ```
///
/// ```compile_fail,E0502
/// # use rtalloc::adapt::Local;
/// # use rtalloc::Tlsf;
/// # fn forbidden(mut heap: Local<'_, Tlsf<'_>>) {
/// let numbers = allocator_api2::vec::Vec::<u8, _>::new_in(&heap);
/// heap.get_mut();
/// drop(numbers);
/// # }
/// ```
#[repr(transparent)]
pub struct Local<'r, H> {
    /// Used by one operation at a time: there is one thread, and an operation calls no code that has this value.
    heap: UnsafeCell<H>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

impl<'r, H: RegionAllocator<'r>> Local<'r, H> {
    /// Makes a heap in `region`. (`Local::from` converts an existing heap.)
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::new`].
    ///
    /// # Time
    ///
    /// As [`RegionAllocator::new`].
    pub fn new(region: &'r mut [MaybeUninit<u8>], config: H::Config) -> Result<Self, InitError> {
        H::new(region, config).map(Local::from)
    }

    /// The heap.
    pub fn into_inner(self) -> H {
        self.heap.into_inner()
    }

    /// The heap, for other operations: for example [`walk`](RegionAllocator::walk), whose visitor must not use it.
    pub fn get_mut(&mut self) -> &mut H {
        self.heap.get_mut()
    }

    /// Runs one operation of the heap.
    #[inline(always)]
    fn with<T>(&self, operation: impl FnOnce(&mut H) -> T) -> T {
        // SAFETY: the value is used by one thread, and no operation begins inside `operation`: heaps call only the
        // misuse hook, which must not use the heap that reported.
        operation(unsafe { &mut *self.heap.get() })
    }

    /// Allocates `size_bytes` bytes at a multiple of `align_bytes`, as [`RegionAllocator::allocate_bytes`].
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::allocate_bytes`].
    ///
    /// # Time
    ///
    /// The heap's `CONTRACT.allocate`.
    #[inline(always)]
    pub fn allocate_bytes(&self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.with(|heap| heap.allocate_bytes(size_bytes, align_bytes))
    }

    /// Frees a block, as [`RegionAllocator::deallocate`].
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::deallocate`].
    ///
    /// # Time
    ///
    /// The heap's `CONTRACT.deallocate`.
    #[inline(always)]
    pub unsafe fn deallocate(&self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        self.with(|heap| unsafe { heap.deallocate(block) });
    }

    /// Changes the size of a block, as [`RegionAllocator::reallocate_bytes`].
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    ///
    /// # Time
    ///
    /// The heap's `CONTRACT.reallocate`, and the copy of a block that moves.
    #[inline]
    pub unsafe fn reallocate_bytes(
        &self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        self.with(|heap| unsafe { heap.reallocate_bytes(block, size_bytes, align_bytes) })
    }

    /// Bytes that the caller may use at `block`, as [`RegionAllocator::usable_size`].
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::usable_size`].
    ///
    /// # Time
    ///
    /// Constant.
    pub unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is live in this heap.
        self.with(|heap| unsafe { heap.usable_size(block) })
    }

    /// The largest request that succeeds now, as [`RegionAllocator::largest_allocatable`].
    ///
    /// # Time
    ///
    /// As [`RegionAllocator::largest_allocatable`].
    pub fn largest_allocatable(&self) -> usize {
        self.with(|heap| heap.largest_allocatable())
    }

    /// Running statistics, as [`RegionAllocator::stats`].
    ///
    /// # Time
    ///
    /// As [`RegionAllocator::stats`].
    pub fn stats(&self) -> Option<Stats> {
        self.with(|heap| heap.stats())
    }

    /// Verifies every invariant, as [`RegionAllocator::check`].
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::check`].
    ///
    /// # Time
    ///
    /// Linear in the number of blocks.
    pub fn check(&self) -> Result<(), Corruption> {
        self.with(|heap| heap.check())
    }
}

impl<'r, H: RegionAllocator<'r>> From<H> for Local<'r, H> {
    fn from(heap: H) -> Self {
        Local { heap: UnsafeCell::new(heap), region: PhantomData }
    }
}

impl<'r, H: RegionAllocator<'r>> fmt::Debug for Local<'r, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("allocator", &H::CONTRACT.name).finish_non_exhaustive()
    }
}

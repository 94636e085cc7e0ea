//! Shared and local heaps as allocators of collections: `allocator_api2::alloc::Allocator`, as used by hashbrown's,
//! bumpalo's and allocator-api2's own collections.
//!
//! Requests for zero bytes do not reach the heap: they get an address that is a multiple of the alignment.

use super::current::{AnySlot, CurrentSlot};
#[cfg(any(target_has_atomic = "ptr", feature = "critical-section"))]
use super::global::Global;
use super::joint::{Joint, Operations};
use super::local::Local;
use super::lock::Lock;
use super::locked::Locked;
use crate::contract::{RegionAllocator, SharedAllocator};
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// The operations of a collection on a heap, which refuses requests for zero bytes.
trait Serve {
    /// Allocates a block of `size_bytes`, which is not 0.
    fn block(&self, size_bytes: usize, align_bytes: usize) -> Option<NonNull<u8>>;

    /// # Safety
    ///
    /// The block is live in this heap, and no longer used.
    unsafe fn free(&self, block: NonNull<u8>);

    /// # Safety
    ///
    /// The block is live in this heap, has `old_bytes`, and is no longer used unless the result is `None`.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old_bytes: usize,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Option<NonNull<u8>>;

    #[inline(always)]
    fn serve(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(nothing(layout));
        }
        let block = self.block(layout.size(), layout.align()).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// # Safety
    ///
    /// As [`Allocator::deallocate`].
    #[inline(always)]
    unsafe fn take_back(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: the block is live in this heap, since its layout is not empty, and the caller gives it up.
            unsafe { self.free(block) }
        }
    }

    /// # Safety
    ///
    /// As [`Allocator::grow`] or [`Allocator::shrink`].
    #[inline(always)]
    unsafe fn fit(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.serve(new);
        }
        if new.size() == 0 {
            // SAFETY: the block is live in this heap, since its old layout is not empty, and the caller gives it up.
            unsafe { self.free(block) };
            return Ok(nothing(new));
        }
        // SAFETY: the block is live in this heap, since its old layout is not empty, and has `old.size()` bytes.
        let answer = unsafe { self.resize(block, old.size(), new.size(), new.align()) };
        Ok(NonNull::slice_from_raw_parts(answer.ok_or(AllocError)?, new.size()))
    }
}

impl<'r, H: SharedAllocator<'r>, C: CurrentSlot> Serve for Operations<'_, 'r, H, C> {
    #[inline(always)]
    fn block(&self, size_bytes: usize, align_bytes: usize) -> Option<NonNull<u8>> {
        self.allocate(size_bytes, align_bytes).ok()
    }

    #[inline(always)]
    unsafe fn free(&self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        unsafe { self.deallocate(block) }
    }

    #[inline(always)]
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old_bytes: usize,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller guarantees that the block is live in this heap and has `old_bytes`.
        unsafe { self.reallocate(block, old_bytes, size_bytes, align_bytes) }.ok()
    }
}

impl<'r, H: RegionAllocator<'r>> Serve for &Local<'r, H> {
    #[inline(always)]
    fn block(&self, size_bytes: usize, align_bytes: usize) -> Option<NonNull<u8>> {
        self.allocate_bytes(size_bytes, align_bytes).ok()
    }

    #[inline(always)]
    unsafe fn free(&self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        unsafe { Local::deallocate(self, block) }
    }

    #[inline(always)]
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        _old_bytes: usize,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe { self.reallocate_bytes(block, size_bytes, align_bytes) }.ok()
    }
}

/// A slice of zero bytes, aligned as the layout asks.
fn nothing(layout: Layout) -> NonNull<[u8]> {
    // An alignment is not zero.
    let address = NonNull::new(core::ptr::without_provenance_mut(layout.align())).unwrap_or(NonNull::dangling());
    NonNull::slice_from_raw_parts(address, 0)
}

macro_rules! allocator {
    ([$($generics:tt)*] $type:ty, $operations:expr) => {
        // SAFETY: blocks belong to a heap that outlives the reference, and a copy of the reference is equivalent.
        unsafe impl<$($generics)*> Allocator for $type {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                $operations(self).ok_or(AllocError)?.serve(layout)
            }

            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                if let Some(operations) = $operations(self) {
                    // SAFETY: the caller guarantees that the block came from here with `layout` and is unused.
                    unsafe { operations.take_back(block, layout) }
                }
            }

            #[inline]
            unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: the caller guarantees that the block was allocated here with `old`.
                unsafe { $operations(self).ok_or(AllocError)?.fit(block, old, new) }
            }

            #[inline]
            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: the caller guarantees that the block came from here with `old`; so do the bytes after the old
                // ones.
                unsafe {
                    let grown = self.grow(block, old, new)?;
                    grown.cast::<u8>().add(old.size()).write_bytes(0, new.size() - old.size());
                    Ok(grown)
                }
            }

            #[inline]
            unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: the caller guarantees that the block was allocated here with `old`.
                unsafe { $operations(self).ok_or(AllocError)?.fit(block, old, new) }
            }
        }
    };
}

allocator!(['r, H: SharedAllocator<'r>, C: CurrentSlot] &Joint<'_, 'r, H, C>, |joint: &Self| Some(joint.operations()));
#[cfg(any(target_has_atomic = "ptr", feature = "critical-section"))]
allocator!([H: SharedAllocator<'static>, C: CurrentSlot] &Global<H, C>, |global: &Self| global.operations());
allocator!(
    ['r, H: RegionAllocator<'r> + Send, L: Lock] &Locked<'r, H, L>,
    |heap: &Self| Some(Operations { heap: *heap, current: &AnySlot, region: PhantomData })
);
allocator!(['r, H: RegionAllocator<'r>] &Local<'r, H>, |heap: &Self| Some(*heap));

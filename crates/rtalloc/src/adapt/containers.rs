//! Heaps as allocators of collections, shared ones and one thread's: `allocator_api2::alloc::Allocator`, as hashbrown's, bumpalo's and
//! allocator-api2's own collections take it.
//!
//! A request for nothing is served without the heap, by an address that is a multiple of its alignment.

use super::current::{Anyone, CurrentSlot};
#[cfg(target_has_atomic = "ptr")]
use super::global::Global;
use super::joint::{Joint, Verbs};
use super::local::Local;
use super::lock::Lock;
use super::locked::Locked;
use crate::contract::{RegionAllocator, SharedAllocator};
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// What a collection asks for, of a heap that refuses requests for nothing.
trait Serve {
    /// A block of so many bytes, which are not 0.
    fn block(&self, size_bytes: usize, align_bytes: usize) -> Option<NonNull<u8>>;

    /// # Safety
    ///
    /// The block is the heap's, and nobody uses it any more.
    unsafe fn free(&self, block: NonNull<u8>);

    /// # Safety
    ///
    /// The block is the heap's, has `old_bytes`, and nobody uses it any more unless the answer is `None`.
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
            // SAFETY: the caller's promise, and the block is the heap's.
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
            // SAFETY: the caller's promise, and the block is the heap's.
            unsafe { self.free(block) };
            return Ok(nothing(new));
        }
        // SAFETY: as above.
        let answer = unsafe { self.resize(block, old.size(), new.size(), new.align()) };
        Ok(NonNull::slice_from_raw_parts(answer.ok_or(AllocError)?, new.size()))
    }
}

impl<'r, H: SharedAllocator<'r>, C: CurrentSlot> Serve for Verbs<'_, 'r, H, C> {
    #[inline(always)]
    fn block(&self, size_bytes: usize, align_bytes: usize) -> Option<NonNull<u8>> {
        self.allocate(size_bytes, align_bytes).ok()
    }

    #[inline(always)]
    unsafe fn free(&self, block: NonNull<u8>) {
        // SAFETY: the caller's promise, here and below.
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
        // SAFETY: as above.
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
        // SAFETY: the caller's promise, here and below.
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
        // SAFETY: as above.
        unsafe { self.reallocate_bytes(block, size_bytes, align_bytes) }.ok()
    }
}

/// No bytes, where the layout wants them.
fn nothing(layout: Layout) -> NonNull<[u8]> {
    // An alignment is not zero.
    let address = NonNull::new(core::ptr::without_provenance_mut(layout.align())).unwrap_or(NonNull::dangling());
    NonNull::slice_from_raw_parts(address, 0)
}

macro_rules! allocator {
    ([$($generics:tt)*] $type:ty, $verbs:expr) => {
        // SAFETY: blocks are a heap's, which lives as long as what this refers to, and a copy of the reference is as good.
        unsafe impl<$($generics)*> Allocator for $type {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                $verbs(self).ok_or(AllocError)?.serve(layout)
            }

            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                if let Some(verbs) = $verbs(self) {
                    // SAFETY: the caller's promise, here and below.
                    unsafe { verbs.take_back(block, layout) }
                }
            }

            #[inline]
            unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: as above.
                unsafe { $verbs(self).ok_or(AllocError)?.fit(block, old, new) }
            }

            #[inline]
            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: as above; what is behind the old bytes is the block's too.
                unsafe {
                    let grown = self.grow(block, old, new)?;
                    grown.cast::<u8>().add(old.size()).write_bytes(0, new.size() - old.size());
                    Ok(grown)
                }
            }

            #[inline]
            unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: as above.
                unsafe { $verbs(self).ok_or(AllocError)?.fit(block, old, new) }
            }
        }
    };
}

allocator!(['r, H: SharedAllocator<'r>, C: CurrentSlot] &Joint<'_, 'r, H, C>, |joint: &Self| Some(joint.verbs()));
#[cfg(target_has_atomic = "ptr")]
allocator!([H: SharedAllocator<'static>, C: CurrentSlot] &Global<H, C>, |global: &Self| global.verbs());
allocator!(
    ['r, H: RegionAllocator<'r> + Send, L: Lock] &Locked<'r, H, L>,
    |heap: &Self| Some(Verbs { heap: *heap, current: &Anyone, region: PhantomData })
);
allocator!(['r, H: RegionAllocator<'r>] &Local<'r, H>, |heap: &Self| Some(*heap));

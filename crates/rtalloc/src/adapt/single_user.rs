//! A shared heap with a single user, as a sequential one.
//!
//! For comparison: it shows what the shared heap costs without sharing, and that it passes every test of sequential
//! heaps. It uses slot 0, and reports only what that slot can see.

use crate::contract::{
    AllocError, Block, Contract, Corruption, InitError, RegionAllocator, SharedAllocator, SharedError, Slot, Stats,
};
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;

/// A [`SharedAllocator`] for a single user: it may go to another thread, but not be shared.
///
/// ```
/// fn go<T: Send>() {}
/// go::<rtalloc::adapt::SingleUser<rtalloc::PooledArenas>>();
/// ```
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<rtalloc::adapt::SingleUser<rtalloc::PooledArenas>>();
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct SingleUser<'r, H> {
    heap: H,
    /// Queries take `&self` and require that no operation is under way, so this must not be `Sync`.
    region: PhantomData<(&'r mut [MaybeUninit<u8>], Cell<()>)>,
}

impl<'r, H: SharedAllocator<'r>> SingleUser<'r, H> {
    /// The shared heap.
    pub fn into_inner(self) -> H {
        self.heap
    }

    /// The operations of the only slot used.
    #[inline(always)]
    fn slot(&mut self) -> H::Slot<'_> {
        // SAFETY: every heap has a slot 0. `self` is borrowed exclusively, so there is no other user.
        unsafe { self.heap.slot(0) }
    }

    /// The heap by value, for queries that need exclusive access.
    fn whole(&self) -> ManuallyDrop<H> {
        const { assert!(size_of::<H>() == size_of::<usize>(), "a heap's value must be one pointer") }
        // SAFETY: a copy of the heap's one pointer, which is not dropped. `self` is borrowed, it is not `Sync`, and
        // every operation that changes the heap takes `&mut self`: no operation is under way, as the queries require.
        // They only read, through shared references, so a visitor may call another query.
        unsafe { core::mem::transmute_copy(&self.heap) }
    }
}

/// Converts the error to that of a sequential heap. A single user is never contended.
#[inline(always)]
fn single_user_error(error: SharedError) -> AllocError {
    match error {
        SharedError::Request(error) => error,
        SharedError::Exhausted | SharedError::Contended => AllocError::Exhausted,
        SharedError::Pending => AllocError::Pending,
    }
}

// SAFETY: the blocks are the shared heap's, whose contract gives the same guarantees.
unsafe impl<'r, H: SharedAllocator<'r>> RegionAllocator<'r> for SingleUser<'r, H> {
    type Config = H::Config;

    const CONTRACT: Contract = H::CONTRACT.single_user;

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        Ok(SingleUser { heap: H::new(region, config)?, region: PhantomData })
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.slot().allocate_bytes(size_bytes, align_bytes).map_err(single_user_error)
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        unsafe { self.slot().deallocate(block) }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe { self.slot().reallocate_bytes(block, size_bytes, align_bytes).map_err(single_user_error) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is live; of slots made from `&self` only this query is used.
        unsafe { self.heap.slot(0).usable_size(block) }
    }

    fn largest_allocatable(&self) -> usize {
        self.whole().largest_allocatable_by(0)
    }

    fn stats(&self) -> Option<Stats> {
        None
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        self.whole().walk_by(0, visitor);
    }

    fn check(&self) -> Result<(), Corruption> {
        self.whole().check()
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.whole().fingerprint(word);
    }
}

//! A shared heap in the hand of one user, as a sequential one.
//!
//! It is for comparison: what the shared heap costs where nobody shares it, and that it passes every test a sequential
//! heap passes. It takes slot 0, and what only that slot can see is what it sees.

use crate::contract::{
    AllocError, Block, Contract, Corruption, InitError, RegionAllocator, SharedAllocator, SharedError, Slot, Stats,
};
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;

/// A [`SharedAllocator`] used by one user alone: it may go to another thread, but not be shared.
///
/// ```
/// fn go<T: Send>() {}
/// go::<rtalloc::adapt::Alone<rtalloc::Arenas>>();
/// ```
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<rtalloc::adapt::Alone<rtalloc::Arenas>>();
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct Alone<'r, H> {
    heap: H,
    /// Questions take `&self`, and believe that nobody is at work: not in another thread either.
    region: PhantomData<(&'r mut [MaybeUninit<u8>], Cell<()>)>,
}

impl<'r, H: SharedAllocator<'r>> Alone<'r, H> {
    /// The shared heap.
    pub fn into_inner(self) -> H {
        self.heap
    }

    /// The operations of the only slot in use.
    #[inline(always)]
    fn slot(&mut self) -> H::Slot<'_> {
        // SAFETY: every heap has a slot 0. Nobody else has the heap: it is borrowed whole as long as the slot is used.
        unsafe { self.heap.slot(0) }
    }

    /// The heap, for questions that need it whole.
    fn whole(&self) -> ManuallyDrop<H> {
        const { assert!(size_of::<H>() == size_of::<usize>(), "the value in hand is one pointer") }
        // SAFETY: a copy of the pointer that a heap is, which is not dropped. `self` is borrowed, no other thread has a reference to it,
        // and every operation that changes the heap takes `&mut self`: nobody is at work, which is what the questions ask for. They
        // only read, by shared references, so that a visitor may ask while it is called.
        unsafe { core::mem::transmute_copy(&self.heap) }
    }
}

/// The refusal as a sequential heap's. Alone, nobody can be in the way.
#[inline(always)]
fn alone(error: SharedError) -> AllocError {
    match error {
        SharedError::Request(error) => error,
        SharedError::Exhausted | SharedError::Contended => AllocError::Exhausted,
        SharedError::Pending => AllocError::Pending,
    }
}

// SAFETY: the blocks are the shared heap's, whose contract promises the same.
unsafe impl<'r, H: SharedAllocator<'r>> RegionAllocator<'r> for Alone<'r, H> {
    type Config = H::Config;

    const CONTRACT: Contract = H::CONTRACT.alone;

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        Ok(Alone { heap: H::new(region, config)?, region: PhantomData })
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.slot().allocate_bytes(size_bytes, align_bytes).map_err(alone)
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise, here and below.
        unsafe { self.slot().deallocate(block) }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: as above.
        unsafe { self.slot().reallocate_bytes(block, size_bytes, align_bytes).map_err(alone) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: as above; of the slots of `&self` only this question is asked.
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

//! Pooled arenas whose last slot the tests use: the memory of the others must not appear.

use rtalloc::concurrent::{PooledArenas, PooledArenasConfig, PooledSlot};
use rtalloc::contract::{AllocError, Block, Contract, Corruption, InPieces, InitError, SharedError, Stats};
use rtalloc::{RegionAllocator, SharedAllocator, Slot, Tlsf};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

/// The last slot of pooled arenas with `SLOTS` slots.
#[repr(transparent)]
pub struct WithSlots<const SLOTS: usize, H = Tlsf<'static>>(PooledArenas<'static, H>);

impl<const SLOTS: usize, H: InPieces<'static> + 'static> WithSlots<SLOTS, H> {
    fn slot(&self) -> PooledSlot<'_, 'static, H> {
        // SAFETY: the slot exists, and one thread uses the heap.
        unsafe { self.0.slot(SLOTS - 1) }
    }

    /// The heap, for methods that need exclusive access.
    fn whole(&self) -> ManuallyDrop<PooledArenas<'static, H>> {
        assert_eq!(size_of_val(&self.0), size_of::<usize>(), "a heap is one pointer");
        // SAFETY: a heap is one pointer, and no operation is running.
        unsafe { std::mem::transmute_copy(&self.0) }
    }
}

/// The refusal as a sequential heap's.
fn alone(error: SharedError) -> AllocError {
    match error {
        SharedError::Request(error) => error,
        SharedError::Exhausted => AllocError::Exhausted,
        SharedError::Contended | SharedError::Pending => panic!("{error}, of a heap with one user"),
    }
}

// SAFETY: the blocks are those of the arenas.
unsafe impl<const SLOTS: usize, H: InPieces<'static> + 'static> RegionAllocator<'static> for WithSlots<SLOTS, H> {
    type Config = ();

    const CONTRACT: Contract = <PooledArenas<'static, H> as SharedAllocator<'static>>::CONTRACT.single_user;

    fn new(region: &'static mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        PooledArenas::new(region, PooledArenasConfig { slots: SLOTS, ..Default::default() }).map(WithSlots)
    }

    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.slot().allocate_bytes(size_bytes, align_bytes).map_err(alone)
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the block is live in this heap, as the caller guarantees.
        unsafe { self.slot().deallocate(block) }
    }

    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: as for `deallocate`.
        unsafe { self.slot().reallocate_bytes(block, size_bytes, align_bytes) }.map_err(alone)
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: as for `deallocate`.
        unsafe { self.slot().usable_size(block) }
    }

    fn largest_allocatable(&self) -> usize {
        self.whole().largest_allocatable_by(SLOTS - 1)
    }

    fn stats(&self) -> Option<Stats> {
        None
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        self.whole().walk_by(SLOTS - 1, visitor);
    }

    fn check(&self) -> Result<(), Corruption> {
        self.whole().check()
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.whole().fingerprint(word);
    }
}

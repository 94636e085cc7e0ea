//! Arenas of which the tests use the last: what the others have must not show.

use rtalloc::contract::{AllocError, Block, Contract, Corruption, InitError, Observable, SharedError, Stats};
use rtalloc::{Arenas, ArenasConfig, RegionAllocator, SharedAllocator, Slot, Tlsf};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

/// The last slot of [`Arenas`] with so many.
#[repr(transparent)]
pub struct WithSlots<const SLOTS: usize, H: Observable<'static> + 'static = Tlsf<'static>>(Arenas<'static, H>);

type SlotOf<'h, H> = <Arenas<'static, H> as SharedAllocator<'static>>::Slot<'h>;

impl<const SLOTS: usize, H: Observable<'static> + 'static> WithSlots<SLOTS, H> {
    fn slot(&self) -> SlotOf<'_, H> {
        // SAFETY: there is such a slot, and one thread has the heap.
        unsafe { self.0.slot(SLOTS - 1) }
    }

    /// The heap, for questions that need it whole.
    fn whole(&self) -> ManuallyDrop<Arenas<'static, H>> {
        // SAFETY: a heap is one pointer, and nobody is at work.
        unsafe { std::mem::transmute_copy(&self.0) }
    }
}

/// The refusal as a sequential heap's.
fn alone(error: SharedError) -> AllocError {
    match error {
        SharedError::Request(error) => error,
        SharedError::Exhausted => AllocError::Exhausted,
        SharedError::Contended | SharedError::Pending => panic!("{error}, of a heap that one has alone"),
    }
}

// SAFETY: the blocks are those of the arenas.
unsafe impl<const SLOTS: usize, H: Observable<'static> + 'static> RegionAllocator<'static> for WithSlots<SLOTS, H> {
    type Config = ();

    const CONTRACT: Contract = <Arenas<'static, H> as SharedAllocator<'static>>::CONTRACT.alone;

    fn new(region: &'static mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        let config = ArenasConfig { slots: SLOTS, ..ArenasConfig::default() };
        Arenas::new(region, config).map(WithSlots)
    }

    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.slot().allocate_bytes(size_bytes, align_bytes).map_err(alone)
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise, here and below.
        unsafe { self.slot().deallocate(block) }
    }

    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: as above.
        unsafe { self.slot().reallocate_bytes(block, size_bytes, align_bytes) }.map_err(alone)
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: as above.
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

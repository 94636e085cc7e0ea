//! Guarded heaps with so many blocks in their quarantine.

use rtalloc::RegionAllocator;
use rtalloc::adapt::{Guarded, GuardedConfig};
use rtalloc::contract::{AllocError, Block, Contract, Corruption, InitError, Stats};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// [`Guarded`] with a quarantine for `BLOCKS`, and fences of `FENCE` bytes.
#[repr(transparent)]
pub struct Holding<const BLOCKS: usize, H, const FENCE: usize = 16>(Guarded<'static, H, FENCE>);

// SAFETY: the blocks are those of the guarded heap.
unsafe impl<const BLOCKS: usize, H, const FENCE: usize> RegionAllocator<'static> for Holding<BLOCKS, H, FENCE>
where
    H: RegionAllocator<'static>,
{
    type Config = ();

    const CONTRACT: Contract = {
        let contract = Guarded::<'static, H, FENCE>::CONTRACT;
        match BLOCKS {
            // Without a quarantine, a guarded heap coalesces and promises what the heap beneath does. That one's tag is not the
            // guard's to judge: it reports damage to it by its own name, when it is given the block.
            0 => Contract {
                coalescing: H::CONTRACT.coalescing,
                detects_overwritten_tags: true,
                largest_is_exact: H::CONTRACT.largest_is_exact,
                header_bytes: contract.header_bytes - H::CONTRACT.header_bytes,
                ..contract
            },
            _ => contract,
        }
    };

    fn new(region: &'static mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        Guarded::new(region, GuardedConfig { quarantine_blocks: BLOCKS, ..Default::default() }).map(Holding)
    }

    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.0.allocate_bytes(size_bytes, align_bytes)
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise, here and below.
        unsafe { self.0.deallocate(block) }
    }

    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: as above.
        unsafe { self.0.reallocate_bytes(block, size_bytes, align_bytes) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: as above.
        unsafe { self.0.usable_size(block) }
    }

    fn largest_allocatable(&self) -> usize {
        self.0.largest_allocatable()
    }

    fn stats(&self) -> Option<Stats> {
        self.0.stats()
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        self.0.walk(visitor);
    }

    fn check(&self) -> Result<(), Corruption> {
        self.0.check()
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.0.fingerprint(word);
    }
}

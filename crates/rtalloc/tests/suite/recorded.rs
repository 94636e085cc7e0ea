//! Heaps with a flight recorder whose ring is so short that it runs over all the time.

use rtalloc::RegionAllocator;
use rtalloc::adapt::{Traced, TracedConfig};
use rtalloc::contract::{
    AllocError, Block, Contract, Corruption, InitError, MultiRegion, RegionId, RemoveError, Stats,
};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// A heap with a flight recorder of so many records.
#[repr(transparent)]
pub struct WithRecords<const RECORDS: usize, H>(Traced<'static, H>);

// SAFETY: the blocks are those of the recorded heap, here and below.
unsafe impl<const RECORDS: usize, H: RegionAllocator<'static>> RegionAllocator<'static> for WithRecords<RECORDS, H> {
    type Config = ();

    const CONTRACT: Contract = <Traced<'static, H> as RegionAllocator<'static>>::CONTRACT;

    fn new(region: &'static mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        Traced::new(region, TracedConfig { records: RECORDS, heap: H::Config::default() }).map(WithRecords)
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

// SAFETY: as above.
unsafe impl<const RECORDS: usize, H: MultiRegion<'static>> MultiRegion<'static> for WithRecords<RECORDS, H> {
    fn add_region(&mut self, region: &'static mut [MaybeUninit<u8>]) -> Result<RegionId, InitError> {
        self.0.add_region(region)
    }

    fn remove_region(&mut self, region: RegionId) -> Result<&'static mut [MaybeUninit<u8>], RemoveError> {
        self.0.remove_region(region)
    }
}

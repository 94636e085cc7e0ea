//! Adapters with configurations other than the default.

use rtalloc::RegionAllocator;
use rtalloc::adapt::{Failing, FailingConfig, Failures, Guarded, GuardedConfig, Traced, TracedConfig};
use rtalloc::contract::{
    AllocError, Block, Contract, Corruption, InitError, MultiRegion, RegionId, RemoveError, Stats,
};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// [`Guarded`] with a quarantine of `BLOCKS` blocks and fences of `FENCE` bytes.
#[repr(transparent)]
pub struct Holding<const BLOCKS: usize, H, const FENCE: usize = 16>(Guarded<'static, H, FENCE>);

/// A heap with a flight recorder of so few records that it wraps around all the time.
#[repr(transparent)]
pub struct WithRecords<const RECORDS: usize, H>(Traced<'static, H>);

/// [`Failing`] that counts requests but refuses none.
#[repr(transparent)]
pub struct Armed<H>(Failing<'static, H>);

/// Methods that forward to the wrapped heap.
macro_rules! by_the_heap_within {
    () => {
        fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
            self.0.allocate_bytes(size_bytes, align_bytes)
        }

        unsafe fn deallocate(&mut self, block: NonNull<u8>) {
            // SAFETY: the block is live in this heap, as the caller guarantees.
            unsafe { self.0.deallocate(block) }
        }

        unsafe fn reallocate_bytes(
            &mut self,
            block: NonNull<u8>,
            size_bytes: usize,
            align_bytes: usize,
        ) -> Result<NonNull<u8>, AllocError> {
            // SAFETY: as for `deallocate`.
            unsafe { self.0.reallocate_bytes(block, size_bytes, align_bytes) }
        }

        unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
            // SAFETY: as for `deallocate`.
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
    };
    (regions) => {
        fn add_region(&mut self, region: &'static mut [MaybeUninit<u8>]) -> Result<RegionId, InitError> {
            self.0.add_region(region)
        }

        fn remove_region(&mut self, region: RegionId) -> Result<&'static mut [MaybeUninit<u8>], RemoveError> {
            self.0.remove_region(region)
        }
    };
}

// SAFETY: the blocks are those of the guarded heap.
unsafe impl<const BLOCKS: usize, H, const FENCE: usize> RegionAllocator<'static> for Holding<BLOCKS, H, FENCE>
where
    H: RegionAllocator<'static>,
{
    type Config = ();

    const CONTRACT: Contract = {
        let contract = Guarded::<'static, H, FENCE>::CONTRACT;
        match BLOCKS {
            // Without a quarantine, a guarded heap coalesces and promises what the heap beneath does. The guard does
            // not check that heap's tags: the heap beneath reports damage to them by its own name when the block is
            // freed.
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

    by_the_heap_within!();

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.0.fingerprint(word);
    }
}

// SAFETY: the blocks are those of the recorded heap.
unsafe impl<const RECORDS: usize, H: RegionAllocator<'static>> RegionAllocator<'static> for WithRecords<RECORDS, H> {
    type Config = ();

    const CONTRACT: Contract = <Traced<'static, H> as RegionAllocator<'static>>::CONTRACT;

    fn new(region: &'static mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        Traced::new(region, TracedConfig { records: RECORDS, heap: H::Config::default() }).map(WithRecords)
    }

    by_the_heap_within!();

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.0.fingerprint(word);
    }
}

// SAFETY: the blocks are those of the failing heap.
unsafe impl<H: RegionAllocator<'static>> RegionAllocator<'static> for Armed<H> {
    type Config = ();

    const CONTRACT: Contract = <Failing<'static, H> as RegionAllocator<'static>>::CONTRACT;

    fn new(region: &'static mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        Failing::new(region, FailingConfig { failures: Failures::Nth(0), heap: H::Config::default() }).map(Armed)
    }

    by_the_heap_within!();

    /// Without the number of requests, which refusals change too.
    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.0.inner().fingerprint(word);
    }
}

// SAFETY: as for the allocator above.
unsafe impl<const RECORDS: usize, H: MultiRegion<'static>> MultiRegion<'static> for WithRecords<RECORDS, H> {
    by_the_heap_within!(regions);
}

// SAFETY: as for the allocator above.
unsafe impl<H: MultiRegion<'static>> MultiRegion<'static> for Armed<H> {
    by_the_heap_within!(regions);
}

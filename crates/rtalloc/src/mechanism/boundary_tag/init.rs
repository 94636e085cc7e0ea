//! Initialisation of a tag heap: the layout of its region.

use super::{Front, Named, TagConfig, TagHeap, sentinels_at};
use crate::arithmetic::rounded_up;
use crate::contract::InitError;
use crate::mechanism::memory::Offset;
use crate::mechanism::stats::StatsPolicy;
use crate::mechanism::validation::Validation;
use crate::mechanism::word::Width;
use crate::region::{Region, round_up};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// The layout of a region.
struct Plan {
    first: Offset,
    sentinel: Offset,
    /// Largest block the control structure is planned for.
    max_block: usize,
}

impl<'r, I: Named<W>, W: Width, T: StatsPolicy, G: Validation> TagHeap<'r, I, W, T, G> {
    /// Bytes that a heap in a region of `region_bytes`, aligned to a granule, uses for its control structure, without
    /// the header of the first block.
    ///
    /// # Time
    ///
    /// Linear in the control structure.
    pub fn control_bytes(region_bytes: usize) -> usize {
        let room = region_bytes.saturating_sub(Self::front_bytes());
        let max_block = Self::plan(room, TagConfig::default()).map_or(I::MIN_BLOCK, |plan| plan.max_block);
        Self::front_bytes() + I::bytes(max_block)
    }

    /// Bytes from the base to the first block after a control structure for blocks of at most `max_block` bytes.
    fn first_block_after(max_block: usize) -> usize {
        rounded_up(I::bytes(max_block) + W::BYTES, W::GRANULE)
    }

    /// Largest block of the regions that may be added. No region is longer than a slice can be, so no size within the
    /// limit overflows in the arithmetic of classes and alignments.
    fn added_block(config: TagConfig) -> usize {
        let longest = config.max_region_bytes.min(W::MAX).min(isize::MAX as usize);
        longest.saturating_sub(Self::SENTINEL_BYTES) & !(W::GRANULE - 1)
    }

    /// Plans the `room` bytes from the base to the region's end; `None` if they cannot hold one smallest block. The
    /// control structure is the smallest one that suffices for the largest block in the remaining room.
    fn plan(room: usize, config: TagConfig) -> Option<Plan> {
        let sentinel = room.checked_sub(Self::SENTINEL_BYTES - W::BYTES)? & !(W::GRANULE - 1);
        let room_left = |max_block| sentinel.saturating_sub(Self::first_block_after(max_block));
        let mut max_block = room_left(I::MIN_BLOCK).max(I::MIN_BLOCK);
        while max_block > I::MIN_BLOCK && room_left(max_block - W::GRANULE) <= max_block - W::GRANULE {
            max_block -= W::GRANULE;
        }
        max_block = max_block.max(Self::added_block(config));
        let first = Self::first_block_after(max_block);
        let is_room = sentinel >= first + I::MIN_BLOCK;
        is_room.then_some(Plan { first: Offset::new(first), sentinel: Offset::new(sentinel), max_block })
    }

    /// Length of a region that suffices for a heap with one smallest block, wherever it starts.
    fn needed_bytes(config: TagConfig) -> usize {
        let first = Self::first_block_after(Self::added_block(config).max(I::MIN_BLOCK));
        Self::BASE_ALIGN - 1 + Self::front_bytes() + first + I::MIN_BLOCK + W::GRANULE - 1 + Self::SENTINEL_BYTES
    }

    /// See [`RegionAllocator::new`](crate::contract::RegionAllocator::new).
    pub(super) fn init(region: &'r mut [MaybeUninit<u8>], config: TagConfig) -> Result<Self, InitError> {
        if region.len() > W::MAX {
            return Err(InitError::OutOfReach { max_span_bytes: W::MAX });
        }
        let too_small = InitError::TooSmall { needed_bytes: Self::needed_bytes(config) };
        let start = region.as_ptr().addr();
        let base = start.checked_add(Self::front_bytes()).and_then(|base| round_up(base, Self::BASE_ALIGN));
        let base = base.ok_or(too_small)?;
        let room = (start + region.len()).checked_sub(base).ok_or(too_small)?;
        let Plan { first, sentinel, max_block } = Self::plan(room, config).ok_or(too_small)?;
        let region = Region::new(region);
        let base = NonNull::new(core::ptr::with_exposed_provenance_mut(base)).ok_or(too_small)?;
        let mut heap = TagHeap { base, regions: PhantomData, kind: PhantomData };
        let memory = heap.memory();
        let first_address = memory.address(first);
        // SAFETY: the front and the control structure lie between the region's start and the first block. They are
        // aligned, because the base is a multiple of BASE_ALIGN and whole `usize`s precede it.
        unsafe {
            let limit = max_block - W::BYTES;
            heap.front().write(Front { limit, span: Offset::BASE, first_address, block_units: 0, stats: T::default() });
            memory.store_bits(Offset::BASE.down(size_of::<usize>()), 0);
            memory.store_bits(sentinels_at::<W>(), Offset::BASE.bytes());
            I::init(memory, max_block);
            heap.install(&region, first, sentinel, heap.front().addr() - start);
        }
        Ok(heap)
    }
}

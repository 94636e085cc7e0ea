//! A naive allocator that tests the suite: without a fault it must pass; with any of the faults below it must fail.
//!
//! It has one byte of state per granule and searches first fit, unlike the allocators of the library. The faults are
//! ones that real allocators had, one at a time.

use super::misuse;
use rtalloc::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, Cost, InitError, Mechanism, Misuse, MisuseKind,
    RegionAllocator, Stats,
};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

const GRANULE: usize = 16;
/// Bytes of the words before the map.
const WORDS_BYTES: usize = size_of::<Words>();

/// States of a granule.
const FREE: u8 = 0;
const START: u8 = 1;
const REST: u8 = 2;
/// Free, but not coalesced with the granule before it: only a fault makes these.
const FENCE: u8 = 3;

/// The fault of a [`Reference`].
pub mod fault {
    macro_rules! faults {
        ($($name:ident = $value:literal),* $(,)?) => {
            $(pub const $name: u8 = $value;)*
        };
    }
    faults! {
        NONE = 0,
        // Blocks
        OVERLAPPING_BLOCK = 1,
        LOST_ALIGNMENT = 2,
        USABLE_ONE_TOO_MANY = 3,
        WHOLE_POOL = 4,
        OVERFLOWING_SIZE = 5,
        ZERO_SIZE_SERVED = 6,
        // Freeing
        NO_COALESCING = 10,
        LEAKED_GRANULE = 11,
        DOUBLE_FREE_UNREPORTED = 12,
        DOUBLE_FREE_HARMS = 13,
        FOREIGN_POINTER_ROUNDED = 14,
        NO_REUSE = 15,
        // Reallocation
        LOST_CONTENT = 20,
        LOST_ALIGNMENT_ON_MOVE = 21,
        OLD_BLOCK_FREED_ON_FAILURE = 22,
        NO_GROWTH_IN_PLACE = 23,
        TAIL_KEPT = 24,
        SAME_SIZE_MOVES = 25,
        // Promises and refusals
        LARGEST_TOO_MUCH = 30,
        LARGEST_TOO_LITTLE = 31,
        LARGEST_NEVER_ZERO = 32,
        REFUSAL_CHANGES_STATE = 33,
        WRONG_ERROR = 34,
        EARLY_EXHAUSTION = 35,
        // What the heap says about itself
        WALK_MISSES_FREE = 40,
        WALK_TWICE = 41,
        PEAK_FORGOTTEN = 42,
        FAILURES_UNCOUNTED = 43,
        HIDDEN_STATE = 44,
        CHECK_FAILS = 45,
        // Regions
        TOUCHES_REFUSED_REGION = 50,
        WRONG_NEEDED_BYTES = 51,
        WRITES_BEHIND_REGION = 52,
    }
}

/// The words before the map.
#[repr(C)]
struct Words {
    granules: usize,
    stats: Stats,
    /// Counts allocations, for the fault that lets behaviour depend on what no fingerprint shows.
    hidden: usize,
}

/// The allocator; `FAULT` is one of [`fault`].
pub struct Reference<'r, const FAULT: u8> {
    words: NonNull<Words>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

impl<const FAULT: u8> Reference<'_, FAULT> {
    const fn has(fault: u8) -> bool {
        FAULT == fault
    }

    fn words(&mut self) -> &mut Words {
        // SAFETY: `new` wrote the words at the start of the region, which this value owns.
        unsafe { self.words.as_mut() }
    }

    fn granules(&self) -> usize {
        // SAFETY: as in `words`.
        unsafe { self.words.as_ref() }.granules
    }

    fn map_start(&self) -> *mut u8 {
        self.words.as_ptr().cast::<u8>().wrapping_add(WORDS_BYTES)
    }

    fn map(&self) -> &[u8] {
        // SAFETY: the map has a byte per granule and follows the words in the region.
        unsafe { std::slice::from_raw_parts(self.map_start(), self.granules()) }
    }

    fn map_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `map`.
        unsafe { std::slice::from_raw_parts_mut(self.map_start(), self.granules()) }
    }

    fn memory(&self) -> *mut u8 {
        self.map_start().wrapping_add(self.granules().next_multiple_of(GRANULE))
    }

    fn address(&self, index: usize) -> usize {
        self.memory().addr() + index * GRANULE
    }

    /// Length in granules of the free block or live block that begins at `index`.
    fn block_len(&self, index: usize) -> usize {
        let map = self.map();
        let more = map[index + 1..].iter();
        let is_free = matches!(map[index], FREE | FENCE);
        1 + more.take_while(|&&state| state == if is_free { FREE } else { REST }).count()
    }

    /// Length of the free run at `index`, which only a fault ends at a fence.
    fn is_free_run(&self, index: usize, len: usize) -> bool {
        let map = self.map();
        index + len <= map.len()
            && matches!(map[index], FREE | FENCE)
            && map[index + 1..index + len].iter().all(|&state| state == FREE)
    }

    fn longest_run(&self) -> usize {
        let mut longest = 0;
        let mut index = 0;
        while index < self.granules() {
            let len = self.block_len(index);
            if matches!(self.map()[index], FREE | FENCE) {
                longest = longest.max(len);
            }
            index += len;
        }
        longest
    }

    fn find(&mut self, len: usize, align_bytes: usize) -> Option<usize> {
        let mut index = 0;
        let mut found = None;
        while index + len <= self.granules() {
            let is_live = !matches!(self.map()[index], FREE | FENCE);
            if is_live {
                index += self.block_len(index);
                continue;
            }
            let is_aligned = Self::has(fault::LOST_ALIGNMENT) || self.address(index).is_multiple_of(align_bytes);
            if is_aligned && self.is_free_run(index, len) {
                found = Some(index);
                if !(Self::has(fault::HIDDEN_STATE) && self.words().hidden % 2 == 1) {
                    break;
                }
            }
            index += 1;
        }
        found
    }

    fn refuse(&mut self, error: AllocError) -> AllocError {
        if !Self::has(fault::FAILURES_UNCOUNTED) {
            self.words().stats.failures += 1;
        }
        if Self::has(fault::REFUSAL_CHANGES_STATE)
            && let Some(index) = self.find(1, 1)
        {
            self.map_mut()[index] = START;
        }
        if Self::has(fault::WRONG_ERROR) && error == AllocError::Exhausted { AllocError::ZeroSize } else { error }
    }

    /// Granules for a request, or why it is impossible.
    fn granules_for(&self, size_bytes: usize, align_bytes: usize) -> Result<usize, AllocError> {
        if !align_bytes.is_power_of_two() || align_bytes > self.granules() * GRANULE {
            return Err(AllocError::Alignment);
        }
        if size_bytes == 0 {
            return if Self::has(fault::ZERO_SIZE_SERVED) { Ok(1) } else { Err(AllocError::ZeroSize) };
        }
        if Self::has(fault::OVERFLOWING_SIZE) {
            return Ok((size_bytes.wrapping_add(GRANULE - 1) / GRANULE).max(1));
        }
        if size_bytes > self.granules() * GRANULE {
            return Err(AllocError::TooLarge);
        }
        if Self::has(fault::WHOLE_POOL) && size_bytes == 24 {
            return Ok(self.longest_run().max(2));
        }
        Ok(size_bytes.div_ceil(GRANULE))
    }

    fn mark(&mut self, index: usize, len: usize) {
        let len = if Self::has(fault::OVERLAPPING_BLOCK) && len == 3 { 2 } else { len };
        self.map_mut()[index] = START;
        self.map_mut()[index + 1..index + len].fill(REST);
    }

    fn counters(&mut self, index: usize, len: usize) {
        let stats = &mut self.words().stats;
        stats.live_bytes += len * GRANULE;
        stats.live_blocks += 1;
        if !Self::has(fault::PEAK_FORGOTTEN) {
            stats.peak_live_bytes = stats.peak_live_bytes.max(stats.live_bytes);
        }
        stats.high_water_bytes = stats.high_water_bytes.max((index + len) * GRANULE);
    }

    fn untally(&mut self, len: usize) {
        let stats = &mut self.words().stats;
        stats.live_bytes = stats.live_bytes.wrapping_sub(len * GRANULE);
        stats.live_blocks = stats.live_blocks.wrapping_sub(1);
    }

    fn serve(&mut self, size_bytes: usize, align_bytes: usize) -> Result<usize, AllocError> {
        let len = self.granules_for(size_bytes, align_bytes)?;
        let room = if Self::has(fault::EARLY_EXHAUSTION) { len + 1 } else { len };
        if self.find(room, align_bytes).is_none() {
            return Err(AllocError::Exhausted);
        }
        let index = self.find(len, align_bytes).ok_or(AllocError::Exhausted)?;
        self.words().hidden += 1;
        self.mark(index, len);
        self.counters(index, len);
        Ok(index)
    }

    fn release(&mut self, index: usize) {
        let len = self.block_len(index);
        self.untally(len);
        if Self::has(fault::NO_REUSE) {
            return;
        }
        let kept = usize::from(Self::has(fault::LEAKED_GRANULE) && len > 3);
        self.map_mut()[index..index + len - kept].fill(FREE);
        if kept != 0 {
            self.map_mut()[index + len - kept] = START;
        }
        if Self::has(fault::NO_COALESCING) {
            self.map_mut()[index] = FENCE;
            if index + len < self.granules() && self.map()[index + len] == FREE {
                self.map_mut()[index + len] = FENCE;
            }
        }
    }

    fn pointer(&self, index: usize) -> NonNull<u8> {
        NonNull::new(self.memory().wrapping_add(index * GRANULE)).expect("memory is not at zero")
    }

    /// The granule at which a live block begins at this address, or what is wrong; reports it.
    fn live_index(&mut self, pointer: NonNull<u8>) -> Option<usize> {
        let address = pointer.addr().get();
        let offset = address.wrapping_sub(self.memory().addr());
        let is_foreign = !offset.is_multiple_of(GRANULE) && !Self::has(fault::FOREIGN_POINTER_ROUNDED);
        let kind = if is_foreign || offset / GRANULE >= self.granules() {
            MisuseKind::ForeignPointer
        } else {
            let index = offset / GRANULE;
            if self.map()[index] == START {
                return Some(index);
            }
            if Self::has(fault::DOUBLE_FREE_HARMS) && index + 1 < self.granules() && self.map()[index + 1] == START {
                self.map_mut()[index + 1] = FREE;
            }
            if Self::has(fault::DOUBLE_FREE_UNREPORTED) {
                return None;
            }
            MisuseKind::DoubleFree
        };
        misuse::record(&Misuse { allocator: Self::CONTRACT.name, kind, address });
        None
    }

    fn resize(&mut self, index: usize, size_bytes: usize, align_bytes: usize) -> Result<usize, AllocError> {
        let len = self.granules_for(size_bytes, align_bytes)?;
        let old_len = self.block_len(index);
        let can_stay = self.address(index).is_multiple_of(align_bytes) || Self::has(fault::LOST_ALIGNMENT_ON_MOVE);
        let can_grow = |this: &Self| {
            let map = this.map();
            let more = map.get(index + old_len..index + len);
            !Self::has(fault::NO_GROWTH_IN_PLACE)
                && more.is_some_and(|more| more.iter().all(|&state| matches!(state, FREE | FENCE)))
        };
        let must_move = Self::has(fault::SAME_SIZE_MOVES) && len == old_len && self.find(len, align_bytes).is_some();
        if can_stay && !must_move && (len <= old_len || can_grow(self)) {
            if len < old_len && Self::has(fault::TAIL_KEPT) {
                return Ok(index);
            }
            self.map_mut()[index..index + old_len].fill(FREE);
            self.mark(index, len);
            self.untally(old_len);
            self.counters(index, len);
            return Ok(index);
        }
        let moved = match self.serve(size_bytes, align_bytes) {
            Ok(moved) => moved,
            Err(error) => {
                if Self::has(fault::OLD_BLOCK_FREED_ON_FAILURE) {
                    self.release(index);
                }
                return Err(error);
            }
        };
        let copied_bytes = size_bytes.min(old_len * GRANULE) - usize::from(Self::has(fault::LOST_CONTENT));
        // SAFETY: both blocks are live, apart from each other, and at least this long.
        unsafe { self.pointer(index).copy_to_nonoverlapping(self.pointer(moved), copied_bytes) };
        self.release(index);
        Ok(moved)
    }
}

// SAFETY: without a fault, blocks are runs of free granules, marked before they are returned. With one it breaks this
// invariant on purpose; only the suite uses it, inside guarded memory.
unsafe impl<'r, const FAULT: u8> RegionAllocator<'r> for Reference<'r, FAULT> {
    type Config = ();

    const CONTRACT: Contract = Contract {
        name: "reference",
        source: "this suite",
        policy: "first fit, map of granules",
        mechanism: Mechanism::SequentialFit,
        granule_bytes: GRANULE,
        header_bytes: 0,
        alignment_bytes: GRANULE,
        min_block_bytes: GRANULE,
        splitting_threshold_bytes: 0,
        max_span_bytes: 1 << 16,
        largest_request_bytes: usize::MAX,
        largest_alignment_bytes: usize::MAX,
        page_bytes: 0,
        coarsest_bytes: 0,
        allocate: Cost::LinearInFreeBlocks,
        deallocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        coalescing: Coalescing::Neighbours,
        grows_in_place: true,
        shrinks_in_place: true,
        detects_double_free: true,
        detects_stale_pointers: true,
        detects_overwritten_tags: true,
        largest_is_exact: true,
        largest_covers_smaller: true,
    };

    fn new(region: &'r mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        let len_bytes = region.len();
        if Self::has(fault::TOUCHES_REFUSED_REGION) && len_bytes > 0 {
            region[0] = MaybeUninit::new(0);
        }
        if len_bytes > Self::CONTRACT.max_span_bytes {
            return Err(InitError::OutOfReach { max_span_bytes: Self::CONTRACT.max_span_bytes });
        }
        let least_bytes = GRANULE - 1 + WORDS_BYTES + 2 * GRANULE;
        let needed_bytes = if Self::has(fault::WRONG_NEEDED_BYTES) { least_bytes - GRANULE } else { least_bytes };
        let start = region.as_mut_ptr().cast::<u8>();
        let front_bytes = start.addr().wrapping_neg() % GRANULE + WORDS_BYTES;
        let room_bytes = len_bytes.saturating_sub(front_bytes);
        let fits = |granules: &usize| granules.next_multiple_of(GRANULE) + granules * GRANULE <= room_bytes;
        let granules = (1..=room_bytes / GRANULE).rev().find(fits);
        let granules = granules.ok_or(InitError::TooSmall { needed_bytes })?;
        let words = NonNull::new(start.wrapping_add(front_bytes - WORDS_BYTES).cast::<Words>()).expect("not at zero");
        // SAFETY: the words fit, and are aligned to the granule; so does the map.
        unsafe { words.write(Words { granules, stats: Stats::default(), hidden: 0 }) };
        let mut heap = Reference { words, region: PhantomData };
        heap.map_mut().fill(FREE);
        if Self::has(fault::WRITES_BEHIND_REGION) {
            // SAFETY: the fault; the guard of the buffer follows the region.
            unsafe { start.add(len_bytes).write(0) };
        }
        Ok(heap)
    }

    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        match self.serve(size_bytes, align_bytes) {
            Ok(index) => Ok(self.pointer(index)),
            Err(error) => Err(self.refuse(error)),
        }
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        if let Some(index) = self.live_index(block) {
            self.release(index);
        }
    }

    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        let answer = match self.live_index(block) {
            Some(index) => self.resize(index, size_bytes, align_bytes),
            None => Err(AllocError::Misused),
        };
        match answer {
            Ok(index) => Ok(self.pointer(index)),
            Err(error) => Err(self.refuse(error)),
        }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        let index = (block.addr().get() - self.memory().addr()) / GRANULE;
        self.block_len(index) * GRANULE + usize::from(Self::has(fault::USABLE_ONE_TOO_MANY))
    }

    fn largest_allocatable(&self) -> usize {
        let exact = self.longest_run() * GRANULE;
        match FAULT {
            fault::LARGEST_TOO_MUCH => exact + 1,
            fault::LARGEST_TOO_LITTLE => exact.saturating_sub(1),
            fault::LARGEST_NEVER_ZERO => exact.max(GRANULE),
            _ => exact,
        }
    }

    fn stats(&self) -> Option<Stats> {
        // SAFETY: as in `words`.
        let stats = unsafe { self.words.as_ref() }.stats;
        Some(Stats { largest_free_bytes: self.largest_allocatable(), ..stats })
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        let mut index = 0;
        while index < self.granules() {
            let len = self.block_len(index);
            let size_bytes = len * GRANULE;
            let is_free = matches!(self.map()[index], FREE | FENCE);
            let usable_bytes = size_bytes + usize::from(Self::has(fault::USABLE_ONE_TOO_MANY) && !is_free);
            let block = Block { address: self.address(index), front_bytes: 0, size_bytes, usable_bytes, free: is_free };
            if !(Self::has(fault::WALK_MISSES_FREE) && is_free && index != 0) {
                visitor(block);
            }
            if Self::has(fault::WALK_TWICE) && !is_free && len == 3 {
                visitor(block);
            }
            index += len;
        }
    }

    fn check(&self) -> Result<(), Corruption> {
        let is_torn = |pair: &[u8]| pair[1] == REST && matches!(pair[0], FREE | FENCE);
        let is_full = Self::has(fault::CHECK_FAILS) && self.longest_run() == 0;
        if self.map().windows(2).any(is_torn) || self.map()[0] == REST || is_full {
            return Err(Corruption { invariant: "a block has a start", address: self.map_start().addr() });
        }
        Ok(())
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.map().iter().for_each(|&state| word(usize::from(state)));
    }
}

//! Regions of a tag heap: added when the heap is made or later, and returned to the user when empty.
//!
//! A region's record follows its sentinel's header, in words: the sentinel of the next region (0: none), the bytes cut
//! off at the region's end for alignment, the offset of the first block, and the bytes cut off at the region's start.
//! The last are the bytes before the first header; in the first region, which is never removed, the bytes before the
//! heap's own words. A granule after the sentinel would have its header in one of the cut words. These are less than a
//! granule and so not a size: a pointer there is never taken for a block.
//!
//! ```text
//! [cut][header][first block ...][header 0][next][cut after][first][cut before][cut]
//! ```

use super::{Header, TagHeap, sentinels_at};
use crate::contract::{InitError, MultiRegion, RegionId, RemoveError};
use crate::mechanism::boundary_tag::{Named, free_size};
use crate::mechanism::memory::Offset;
use crate::mechanism::stats::StatsPolicy;
use crate::mechanism::validation::Validation;
use crate::mechanism::word::Width;
use crate::region::{Region, overlaps};
use core::mem::MaybeUninit;

/// Words of a region's record, counted from its sentinel.
const NEXT: usize = 0;
const CUT_AFTER: usize = 1;
const FIRST: usize = 2;
const CUT_BEFORE: usize = 3;

impl<'r, I: Named<W>, W: Width, T: StatsPolicy, G: Validation> TagHeap<'r, I, W, T, G> {
    /// Makes the memory between `first` and `sentinel` one free block and writes the region's record.
    ///
    /// # Safety
    ///
    /// Both offsets are whole granules in `region`, with a header before and the record after, and the control
    /// structure is initialised. `cut_before` bytes of the region precede the first header, or the front.
    pub(super) unsafe fn install(&mut self, region: &Region<'r>, first: Offset, sentinel: Offset, cut_before: usize) {
        let memory = self.memory();
        let cut_after = region.end() - memory.address(sentinel.up(4 * W::BYTES));
        // SAFETY: both offsets are whole granules in `region`, which has room for the header and for the record.
        unsafe {
            self.set_header(sentinel, Header::live(0, true));
            self.set_record(sentinel, NEXT, self.latest_sentinel().bytes());
            self.set_record(sentinel, FIRST, first.bytes());
            self.set_record(sentinel, CUT_BEFORE, cut_before);
            self.set_record(sentinel, CUT_AFTER, cut_after);
            memory.store_bits(sentinels_at::<W>(), sentinel.bytes());
            self.set_span((*self.front()).span.max(sentinel));
            let mut summary = I::load(memory);
            self.make_free(&mut summary, first, sentinel, sentinel.bytes_from(first), I::NOWHERE);
            I::store(memory, summary);
        }
    }

    /// Stores the offset of the highest sentinel.
    fn set_span(&mut self, span: Offset) {
        // SAFETY: `init` initialised the front.
        unsafe {
            (*self.front()).span = span;
            let distance = self.memory().address(span).wrapping_sub((*self.front()).first_address);
            (*self.front()).block_units = distance / Self::UNIT_BYTES;
        }
    }

    /// Offset of the first block of the region that ends at `sentinel`.
    pub(super) fn first_block(&self, sentinel: Offset) -> Offset {
        Offset::new(self.record(sentinel, FIRST))
    }

    /// The sentinel of the region added last.
    pub(super) fn latest_sentinel(&self) -> Offset {
        // SAFETY: `init` initialised the control structure.
        Offset::new(unsafe { self.memory().load_bits(sentinels_at::<W>()) })
    }

    /// The sentinel of the region added before the one that ends at `sentinel`; the base if that is the first.
    pub(super) fn next_sentinel(&self, sentinel: Offset) -> Offset {
        Offset::new(self.record(sentinel, NEXT))
    }

    /// Calls `visit` with every region's sentinel, the latest first.
    pub(super) fn for_each_region(&self, visit: &mut dyn FnMut(Offset)) {
        let mut sentinel = self.latest_sentinel();
        while sentinel != Offset::BASE {
            visit(sentinel);
            sentinel = self.next_sentinel(sentinel);
        }
    }

    /// Whether an offered region shares a byte with one of the heap's regions.
    fn overlaps_a_region(&self, region: &[MaybeUninit<u8>]) -> bool {
        let mut is_shared = false;
        self.for_each_region(&mut |sentinel| {
            let front = match self.next_sentinel(sentinel) {
                Offset::BASE => self.front().addr(),
                _ => self.memory().address(self.first_block(sentinel)).wrapping_sub(W::BYTES),
            };
            let end = self.memory().address(sentinel).wrapping_add(4 * W::BYTES + self.record(sentinel, CUT_AFTER));
            is_shared |= overlaps(region, front - self.record(sentinel, CUT_BEFORE), end);
        });
        is_shared
    }

    /// A word of the record of the region that ends at `sentinel`.
    fn record(&self, sentinel: Offset, word: usize) -> usize {
        // SAFETY: every sentinel in the list of regions has a record.
        unsafe { self.memory().load(sentinel.up(word * W::BYTES)) }
    }

    /// Writes a word of the record of the region that ends at `sentinel`.
    ///
    /// # Safety
    ///
    /// `sentinel` ends a region of the heap.
    unsafe fn set_record(&mut self, sentinel: Offset, word: usize, value: usize) {
        // SAFETY: `sentinel` ends a region of the heap, so it has a record.
        unsafe { self.memory().store(sentinel.up(word * W::BYTES), value) }
    }
}

// SAFETY: an added region is tagged like the first one, and regions never coalesce: each ends with a live sentinel, and
// the PREV_FREE flag of its first block is never set.
unsafe impl<'r, I: Named<W>, W: Width, T: StatsPolicy, G: Validation> MultiRegion<'r> for TagHeap<'r, I, W, T, G> {
    fn add_region(&mut self, region: &'r mut [MaybeUninit<u8>]) -> Result<RegionId, InitError> {
        let too_small =
            InitError::TooSmall { needed_bytes: W::BYTES + 2 * (W::GRANULE - 1) + I::MIN_BLOCK + Self::SENTINEL_BYTES };
        if self.overlaps_a_region(region) {
            return Err(InitError::Overlap);
        }
        let memory = self.memory();
        let start = memory.offset(region.as_ptr().addr());
        let end = start.up(region.len());
        if W::MAX < usize::MAX && (end.bytes() > W::MAX || end < start) {
            return Err(InitError::OutOfReach { max_span_bytes: W::MAX });
        }
        let first = start.up(W::BYTES + W::GRANULE - 1).aligned_down(W::GRANULE);
        let sentinel = end.down(Self::SENTINEL_BYTES - W::BYTES).aligned_down(W::GRANULE);
        let room = region.len().saturating_sub(Self::SENTINEL_BYTES - W::BYTES);
        if room < first.bytes_from(start) + I::MIN_BLOCK {
            return Err(too_small);
        }
        // SAFETY: `init` initialised the front.
        let max_block = unsafe { (*self.front()).limit } + W::BYTES;
        if sentinel.bytes_from(first) > max_block {
            return Err(InitError::LargerThanPlanned { max_region_bytes: max_block + Self::SENTINEL_BYTES });
        }
        let region = Region::new(region);
        // SAFETY: both offsets are whole granules inside the region, which has room for the record after the sentinel.
        unsafe { self.install(&region, first, sentinel, first.down(W::BYTES).bytes_from(start)) };
        Ok(RegionId(sentinel.bytes()))
    }

    fn remove_region(&mut self, region: RegionId) -> Result<&'r mut [MaybeUninit<u8>], RemoveError> {
        let memory = self.memory();
        let sentinel = Offset::new(region.0);
        // The later region whose record links to this one, if any.
        let mut later = None;
        let mut found = self.latest_sentinel();
        while found != sentinel {
            if found == Offset::BASE {
                return Err(RemoveError::NotRemovable);
            }
            later = Some(found);
            found = self.next_sentinel(found);
        }
        let next = self.next_sentinel(sentinel);
        if next == Offset::BASE {
            // The first region is the last of the list, and it holds the control structure.
            return Err(RemoveError::NotRemovable);
        }
        let first = self.first_block(sentinel);
        // SAFETY: every region begins with a block; a free block that ends at the sentinel is the whole region.
        unsafe {
            if self.header(first).is_live() || first.up(free_size(memory, first)) != sentinel {
                return Err(RemoveError::InUse);
            }
            let mut summary = I::load(memory);
            I::remove(memory, &mut summary, first);
            I::store(memory, summary);
            match later {
                Some(later) => self.set_record(later, NEXT, next.bytes()),
                None => memory.store_bits(sentinels_at::<W>(), next.bytes()),
            }
            let mut span = Offset::BASE;
            self.for_each_region(&mut |sentinel| span = span.max(sentinel));
            self.set_span(span);
            let start = memory.address(first).wrapping_sub(W::BYTES + self.record(sentinel, CUT_BEFORE));
            let end = memory.address(sentinel).wrapping_add(4 * W::BYTES + self.record(sentinel, CUT_AFTER));
            if Self::CLEARS_HEADERS {
                // Added again with its neighbours, these words would be inside a free block.
                for word in 0..Self::SENTINEL_BYTES / W::BYTES {
                    memory.store(sentinel.down(W::BYTES).up(word * W::BYTES), 0);
                }
            }
            Ok(Region::return_to_user(start, end.wrapping_sub(start)))
        }
    }
}

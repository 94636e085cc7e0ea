//! The shadow allocator: runs operations on a heap and on a model of it, and compares.

use super::memory::{Buffer, Pattern, fingerprint, foreign};
use super::ops::Op;
use super::subject::{Subject, counts_refusals, facts, has_frames, may_let_go};
use rtalloc::contract::{AllocError, Block, Coalescing, Contract};
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;

/// Of the operations that fill a heap, one in this many is followed by an audit.
const FILL_AUDIT_EVERY: usize = 61;

/// A block that the heap returned.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Where it is.
    pub pointer: NonNull<u8>,
    /// Requested bytes.
    pub size_bytes: usize,
    /// Its usable size; all of it holds the pattern of `number`.
    pub usable_bytes: usize,
    /// Blocks are numbered in the order of allocation.
    pub number: u64,
}

impl Live {
    /// Its address.
    pub fn address(&self) -> usize {
        self.pointer.addr().get()
    }

    /// Fails unless the block holds what was written to it.
    pub fn assert_content(&self) {
        // SAFETY: the block is live, and this is its usable size.
        let is_kept = unsafe { Pattern(self.number).is_at(self.pointer, self.usable_bytes) };
        assert!(is_kept, "the content of {self:x?} changed");
    }
}

/// What a refused operation must not change.
struct Image {
    fingerprint: Box<[usize]>,
    largest_bytes: usize,
    /// The whole memory, unless the heap counts refusals in it.
    bytes: Option<Vec<u8>>,
}

/// A heap and a model of it.
pub struct Shadow<'b> {
    /// The heap.
    pub allocator: Subject,
    /// The memory its regions are cut from.
    pub buffer: &'b Buffer,
    /// The live blocks.
    pub live: Vec<Live>,
    /// End of the block at each address.
    ends: BTreeMap<usize, usize>,
    /// For each region, the addresses its blocks tile, headers included.
    extents: Vec<Range<usize>>,
    /// The largest request that the fresh heap served, in bytes.
    pub fresh_largest_bytes: usize,
    /// How many operations lie between two audits.
    audit_every: usize,
    operations: usize,
    live_bytes: usize,
    peak_live_bytes: usize,
    /// The peak if a moving reallocation holds both blocks for a moment.
    peak_moving_bytes: usize,
    high_water_bytes: usize,
    failures: usize,
    handed_out: u64,
}

impl<'b> Shadow<'b> {
    /// A heap in the first `len_bytes` of the buffer. Every `audit_every`-th operation is followed by an audit and
    /// compared with the state before it if it was refused.
    pub fn new(buffer: &'b Buffer, len_bytes: usize, audit_every: usize) -> Self {
        // SAFETY: the buffer outlives the shadow, which owns the heap.
        let allocator: Subject = unsafe { buffer.heap(0, len_bytes) }.expect("a region that is large enough");
        let mut shadow = Shadow {
            fresh_largest_bytes: allocator.largest_allocatable(),
            allocator,
            buffer,
            live: Vec::new(),
            ends: BTreeMap::new(),
            extents: Vec::new(),
            audit_every,
            operations: 0,
            live_bytes: 0,
            peak_live_bytes: 0,
            peak_moving_bytes: 0,
            high_water_bytes: 0,
            failures: 0,
            handed_out: 0,
        };
        shadow.learn_extent(buffer.start()..buffer.start() + len_bytes);
        shadow.audit();
        shadow
    }

    /// Learns which addresses the blocks of a region that is still empty tile.
    pub fn learn_extent(&mut self, region: Range<usize>) {
        let mut blocks = self.blocks();
        blocks.retain(|block| region.contains(&block.address));
        let (first, last) = (blocks[0], blocks[blocks.len() - 1]);
        assert!(blocks.iter().all(|block| block.free), "a fresh region has live blocks");
        let extent = first.address - first.front_bytes..last.address - last.front_bytes + last.size_bytes;
        assert!(region.start <= extent.start && extent.end <= region.end, "blocks {extent:x?} outside {region:x?}");
        self.extents.push(extent);
    }

    /// Removes a region from the model.
    pub fn forget_extent(&mut self, region: Range<usize>) {
        self.extents.retain(|extent| !region.contains(&extent.start));
    }

    /// What the walk shows.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        self.allocator.walk(&mut |block| blocks.push(block));
        blocks
    }

    /// Runs one operation and judges its outcome.
    pub fn apply(&mut self, op: &Op) {
        self.operations += 1;
        let is_audited = self.operations.is_multiple_of(self.audit_every);
        let before = is_audited.then(|| self.image());
        match *op {
            Op::Allocate { size_bytes, align_bytes } => {
                let answer = self.allocator.allocate_bytes(size_bytes, align_bytes);
                self.judge(size_bytes, align_bytes, answer.err(), before.as_ref());
                if let Ok(pointer) = answer {
                    self.enter(pointer, size_bytes, align_bytes, 0);
                }
            }
            Op::Free { index } if !self.live.is_empty() => self.free(index % self.live.len()),
            Op::Reallocate { index, size_bytes, align_bytes } if !self.live.is_empty() => {
                self.reallocate(index % self.live.len(), size_bytes, align_bytes, before.as_ref());
            }
            Op::Free { .. } | Op::Reallocate { .. } => {}
        }
        if is_audited {
            self.audit();
        }
    }

    /// Allocates at the alignment every block has; returns whether the heap served it.
    pub fn allocate(&mut self, size_bytes: usize) -> bool {
        let before = self.live.len();
        self.apply(&Op::Allocate { size_bytes, align_bytes: 1 });
        self.live.len() > before
    }

    /// Allocates until the heap refuses. A heap of many pages takes thousands of blocks, so not each is followed by an
    /// audit.
    pub fn fill(&mut self, size_bytes: usize) {
        let audit_every = core::mem::replace(&mut self.audit_every, FILL_AUDIT_EVERY);
        while self.allocate(size_bytes) {}
        self.audit_every = audit_every;
        self.audit();
    }

    /// Frees the block at an index of `live`, where the last one takes its place.
    pub fn free(&mut self, index: usize) {
        let block = self.live.swap_remove(index);
        block.assert_content();
        self.leave(&block);
        // SAFETY: the block is live in this heap and forgotten here.
        unsafe { self.allocator.deallocate(block.pointer) }
    }

    fn reallocate(&mut self, index: usize, size_bytes: usize, align_bytes: usize, before: Option<&Image>) {
        let old = self.live[index];
        old.assert_content();
        // SAFETY: the block is live in this heap.
        let answer = unsafe { self.allocator.reallocate_bytes(old.pointer, size_bytes, align_bytes) };
        match answer {
            Err(error) => {
                let fits = self.is_servable(size_bytes, align_bytes, before);
                assert!(!fits, "refused to make {old:x?} {size_bytes} bytes although a new block would do: {error}");
                self.note_refusal(size_bytes, align_bytes, error, before);
                old.assert_content();
            }
            Ok(pointer) => {
                // SAFETY: the block is live and at least as large as was asked (`enter` verifies both).
                let is_kept = unsafe { Pattern(old.number).is_at(pointer, old.usable_bytes.min(size_bytes)) };
                assert!(is_kept, "reallocating {old:x?} to {size_bytes} bytes lost content");
                let moved_from_bytes = if pointer == old.pointer { 0 } else { old.usable_bytes };
                self.live.swap_remove(index);
                self.leave(&old);
                let kept_from_bytes = if pointer == old.pointer { old.usable_bytes } else { 0 };
                self.enter(pointer, size_bytes, align_bytes, kept_from_bytes);
                self.peak_moving_bytes = self.peak_moving_bytes.max(self.live_bytes + moved_from_bytes);
            }
        }
    }

    /// Enters a block that was allocated, or resized in place from `kept_from_bytes` (otherwise 0), and fills all of
    /// it.
    fn enter(&mut self, pointer: NonNull<u8>, size_bytes: usize, align_bytes: usize, kept_from_bytes: usize) {
        let contract = facts();
        let address = pointer.addr().get();
        let asked = format!("{size_bytes} bytes at alignment {align_bytes}");
        assert!(size_bytes > 0 && align_bytes.is_power_of_two(), "served a request for {asked}");
        // SAFETY: the heap says that the block is live.
        let usable_bytes = unsafe { self.allocator.usable_size(pointer) };
        assert!(usable_bytes >= size_bytes, "served {asked} with {usable_bytes} bytes");
        // A class, a buddy or a page may grant up to twice the request, or the alignment it was rounded up to, or both
        // where the payload was displaced; a displaced payload may have most of its block before it.
        let is_over_aligned = align_bytes > contract.alignment_bytes;
        let least_bytes = if is_over_aligned { size_bytes.max(align_bytes) } else { size_bytes };
        let coarsest_bytes = contract.min_block_bytes.max(contract.coarsest_bytes);
        let granted_for = |bytes: usize| 2 * bytes + 2 * coarsest_bytes + contract.splitting_threshold_bytes;
        let keeps_its_size = size_bytes < kept_from_bytes && !contract.shrinks_in_place;
        let is_fair = keeps_its_size || usable_bytes < granted_for(least_bytes);
        assert!(
            is_fair
                || self.is_displaced(address)
                    && (kept_from_bytes != 0 || usable_bytes < granted_for(size_bytes + align_bytes)),
            "served {asked} with a block of {usable_bytes} bytes"
        );
        assert!(address.is_multiple_of(align_bytes), "served {asked} at {address:#x}");
        assert!(address.is_multiple_of(contract.alignment_bytes), "a block at {address:#x} for {asked}");
        // A run of whole pages has no header before it.
        let is_run = contract.page_bytes != 0 && address.is_multiple_of(contract.page_bytes);
        let block = address - if is_run { 0 } else { contract.header_bytes }..address + usable_bytes;
        let extent = self.extents.iter().find(|extent| extent.start <= block.start && block.end <= extent.end);
        let extent = extent.unwrap_or_else(|| panic!("served {asked} with {block:x?}, outside {:x?}", self.extents));
        let high_water_bytes = block.end.saturating_sub(self.extents[0].start);
        let below = self.ends.range(..block.end).next_back();
        if let Some((&start, &end)) = below {
            assert!(end <= block.start, "served {asked} with {block:x?} in {extent:x?}: overlaps {start:x}..{end:x}");
        }
        self.high_water_bytes = self.high_water_bytes.max(high_water_bytes);
        self.ends.insert(address, address + usable_bytes);
        self.handed_out += 1;
        let number = self.handed_out;
        // SAFETY: the block is live, inside its region and apart from all others.
        unsafe { Pattern(number).write(pointer, usable_bytes) };
        self.live.push(Live { pointer, size_bytes, usable_bytes, number });
        self.live_bytes += usable_bytes;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        self.peak_moving_bytes = self.peak_moving_bytes.max(self.live_bytes);
    }

    /// Whether the live block at an address has more than its header before its payload, for an alignment. The payload
    /// may then lie across the line at which the block could be divided.
    fn is_displaced(&self, address: usize) -> bool {
        let is_here = |block: &Block| block.address == address && block.front_bytes > facts().header_bytes;
        self.blocks().iter().any(is_here)
    }

    fn leave(&mut self, block: &Live) {
        self.ends.remove(&block.address());
        self.live_bytes -= block.usable_bytes;
    }

    fn image(&self) -> Image {
        Image {
            fingerprint: fingerprint(&self.allocator),
            largest_bytes: self.allocator.largest_allocatable(),
            bytes: (!counts_refusals(&self.allocator)).then(|| self.buffer.save()),
        }
    }

    /// Whether the heap's promise says that it must serve this request.
    fn is_servable(&self, size_bytes: usize, align_bytes: usize, before: Option<&Image>) -> bool {
        let Some(before) = before else { return false };
        let is_possible = size_bytes != 0 && align_bytes.is_power_of_two();
        if !is_possible || align_bytes > facts().largest_alignment_bytes {
            return false;
        }
        let needed_bytes = Self::with_room_to_align(size_bytes, align_bytes);
        match facts().largest_covers_smaller {
            true => needed_bytes <= before.largest_bytes,
            false => size_bytes == before.largest_bytes && needed_bytes == size_bytes,
        }
    }

    /// The size of an unaligned request that has room for an aligned one: the payload can be shifted, with a block
    /// before it.
    fn with_room_to_align(size_bytes: usize, align_bytes: usize) -> usize {
        if align_bytes <= facts().alignment_bytes {
            return size_bytes;
        }
        let Contract { min_block_bytes, header_bytes, granule_bytes, .. } = facts();
        let size_bytes = size_bytes.max(min_block_bytes.saturating_sub(header_bytes));
        size_bytes.saturating_add(align_bytes).saturating_add(min_block_bytes + granule_bytes)
    }

    /// Judges whether an allocation was served or refused as it must be.
    fn judge(&mut self, size_bytes: usize, align_bytes: usize, error: Option<AllocError>, before: Option<&Image>) {
        match (error, before) {
            (Some(error), _) => {
                let fits = self.is_servable(size_bytes, align_bytes, before);
                assert!(!fits, "refused {size_bytes} bytes at alignment {align_bytes} against its promise: {error}");
                self.note_refusal(size_bytes, align_bytes, error, before);
            }
            (None, Some(before)) if facts().largest_is_exact => {
                let most = before.largest_bytes;
                assert!(size_bytes <= most, "served {size_bytes} bytes although at most {most} were allocatable");
            }
            (None, _) => {}
        }
    }

    /// Notes a refusal: its error must be the right one and nothing may have changed.
    fn note_refusal(&mut self, size_bytes: usize, align_bytes: usize, error: AllocError, before: Option<&Image>) {
        self.failures += 1;
        let asked = format!("{size_bytes} bytes at alignment {align_bytes}");
        let most_bytes = self.buffer.end() - self.buffer.start();
        let is_right = match error {
            AllocError::ZeroSize => size_bytes == 0,
            AllocError::Alignment => {
                let most_bytes = self.fresh_largest_bytes.min(facts().largest_alignment_bytes);
                !align_bytes.is_power_of_two() || align_bytes > most_bytes
            }
            AllocError::TooLarge => Self::with_room_to_align(size_bytes, align_bytes) > self.fresh_largest_bytes,
            AllocError::Exhausted => {
                size_bytes != 0 && align_bytes.is_power_of_two() && size_bytes.max(align_bytes) <= most_bytes
            }
            AllocError::Misused | AllocError::Pending | AllocError::Quota | AllocError::Injected => false,
        };
        assert!(is_right, "refused {asked} with the wrong error: {error:?}");
        let Some(before) = before else { return };
        if error != AllocError::Exhausted || !may_let_go() {
            self.assert_unchanged(before, &asked);
        }
    }

    fn assert_unchanged(&self, before: &Image, asked: &str) {
        assert_eq!(before.fingerprint, fingerprint(&self.allocator), "refusing {asked} changed the state");
        if let Some(bytes) = &before.bytes {
            assert!(bytes == self.buffer.bytes(), "refusing {asked} changed bytes");
        }
    }

    /// Runs requests that must all be refused. Fails if they change the heap, unless it may release quarantined blocks.
    pub fn assert_unchanged_by(&mut self, requests: impl FnOnce(&mut Self)) {
        let before = self.image();
        requests(self);
        if facts().coalescing != Coalescing::Deferred {
            self.assert_unchanged(&before, "impossible requests");
        }
    }

    /// Compares the model with what the heap reports.
    pub fn audit(&self) {
        let contract = facts();
        self.allocator.check().unwrap_or_else(|corruption| panic!("{corruption}"));
        self.audit_walk();
        for block in &self.live {
            block.assert_content();
        }
        self.buffer.assert_guards();
        let Some(stats) = self.allocator.stats() else { return };
        assert_eq!(stats.live_blocks, self.live.len(), "live blocks in {stats:?}");
        assert_eq!(stats.live_bytes, self.live_bytes, "live bytes in {stats:?}");
        assert_eq!(stats.failures, self.failures, "failures in {stats:?}");
        assert_eq!(stats.largest_free_bytes, self.allocator.largest_allocatable(), "largest free in {stats:?}");
        let peaks = self.peak_live_bytes..=self.peak_moving_bytes;
        assert!(peaks.contains(&stats.peak_live_bytes), "peak in {stats:?}, expected within {peaks:?}");
        let high = self.high_water_bytes;
        // A granted block may end a few bytes after its usable bytes, where tags follow them.
        let highs = high..=high + contract.granule_bytes;
        assert!(highs.contains(&stats.high_water_bytes), "high water in {stats:?}, expected {high}");
    }

    /// The walk tiles every region, shows each live block once, and no free neighbours where they should be one.
    fn audit_walk(&self) {
        let contract = facts();
        let mut live_blocks = 0;
        let mut regions = 0;
        let mut current: Option<(&Range<usize>, usize, bool)> = None;
        for block in self.blocks() {
            let start = block.address - block.front_bytes;
            let (extent, expected, prev_free) = match current {
                Some((extent, cursor, prev_free)) if !Self::ends_at(cursor, extent.end) || extent.contains(&start) => {
                    (extent, cursor, prev_free)
                }
                _ => {
                    regions += 1;
                    let extent = self.extents.iter().find(|extent| extent.contains(&start));
                    let extent = extent.unwrap_or_else(|| panic!("{block:x?} lies outside {:x?}", self.extents));
                    (extent, extent.start, false)
                }
            };
            assert!(Self::ends_at(expected, start), "{block:x?} leaves a gap or overlaps {expected:x}, in {extent:x?}");
            // Free blocks are those of the heap beneath, which may be smaller.
            let is_beneath = block.free && has_frames();
            assert!(block.size_bytes >= contract.min_block_bytes || is_beneath, "{block:x?} is smaller than a block");
            assert!(
                block.size_bytes.is_multiple_of(contract.granule_bytes),
                "{block:x?} is not a whole number of granules"
            );
            // The tag of a run of pages is elsewhere.
            let is_run = contract.page_bytes != 0 && block.front_bytes == 0;
            assert!(block.front_bytes >= contract.header_bytes || is_beneath || is_run, "{block:x?}");
            assert!(block.usable_bytes + block.front_bytes <= block.size_bytes, "{block:x?}");
            assert!(start + block.size_bytes <= extent.end, "{block:x?} ends outside {extent:x?}");
            if block.free {
                assert!(
                    !(prev_free && contract.coalescing == Coalescing::Neighbours),
                    "{block:x?} follows a free block"
                );
            } else {
                live_blocks += 1;
                let end = self.ends.get(&block.address);
                assert_eq!(end, Some(&(block.address + block.usable_bytes)), "{block:x?} is not live or not as large");
            }
            current = Some((extent, start + block.size_bytes, block.free));
        }
        assert!(
            current.is_some_and(|(extent, cursor, _)| Self::ends_at(cursor, extent.end)),
            "the walk ends inside a region"
        );
        assert_eq!(regions, self.extents.len(), "the walk misses a region or shows one twice");
        assert_eq!(live_blocks, self.live.len(), "the walk misses a live block");
    }

    /// Frees everything; the heap must then be as good as new.
    pub fn finish(mut self) {
        while !self.live.is_empty() {
            self.apply(&Op::Free { index: self.live.len() - 1 });
        }
        self.assert_recovered();
    }

    /// Fails unless the heap, whose blocks are all freed, is as good as new.
    pub fn assert_recovered(&self) {
        assert!(self.live.is_empty());
        self.audit();
        if facts().coalescing == Coalescing::Neighbours {
            let blocks = self.blocks();
            assert_eq!(blocks.len(), self.extents.len(), "not one free block per region: {blocks:x?}");
        }
        let recovers = facts().coalescing.recovers() && facts().coalescing != Coalescing::Deferred;
        if recovers && self.extents.len() == 1 {
            assert_eq!(self.allocator.largest_allocatable(), self.fresh_largest_bytes);
        }
    }

    /// Whether `start` is at `cursor`, or after it with only the bookkeeping of a page between.
    fn ends_at(cursor: usize, start: usize) -> bool {
        start == cursor || start > cursor && start - cursor < facts().page_bytes
    }

    /// The live block at an address.
    pub fn find(&self, address: usize) -> Option<&Live> {
        self.live.iter().find(|block| block.address() == address)
    }

    /// Frees an address that is not a live block's, which the heap must survive.
    pub fn misfree(&mut self, address: usize) {
        assert!(self.find(address).is_none(), "the test frees a live block by mistake");
        if let Some(pointer) = foreign(address) {
            // SAFETY: violates the contract on purpose; the heap must detect it by its tags, which the caller verifies.
            unsafe { self.allocator.deallocate(pointer) }
        }
    }
}

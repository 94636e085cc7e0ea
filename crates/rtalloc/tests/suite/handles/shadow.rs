//! The shadow of a heap of handles: runs operations on a heap and on a model of it, and compares.

use super::ops::HandleOp;
use super::subject::{Subject, traits};
use crate::memory::{Buffer, Pattern};
use crate::ops::Op;
use crate::subject::facts;
use hashbrown::HashMap;
use rtalloc::contract::{AccessError, AllocError, Fragmentation, Handle, HandleError, Object, ResizeError};
use std::collections::{BTreeMap, HashSet};
use std::ptr::NonNull;

/// An object the heap holds.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Its handle.
    pub handle: Handle,
    /// Requested bytes.
    pub size_bytes: usize,
    /// All of it holds the pattern of this number.
    pub number: u64,
}

impl Live {
    /// The object's content.
    pub fn content(&self) -> Vec<u8> {
        pattern(self.number, self.size_bytes)
    }
}

/// The bytes of a pattern.
pub fn pattern(number: u64, len_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; len_bytes];
    // SAFETY: the bytes are the vector's.
    unsafe { Pattern(number).write(NonNull::from(&mut bytes[..]).cast(), len_bytes) };
    bytes
}

/// The state before an operation.
struct Image {
    fingerprint: Box<[usize]>,
    largest_bytes: usize,
    pending_bytes: usize,
    objects: Vec<Object>,
    /// The whole memory, unless the heap counts refusals in it.
    bytes: Option<Vec<u8>>,
}

/// A heap and a model of it.
pub struct Shadow<'b> {
    /// The heap.
    pub heap: Subject,
    /// The memory of its region.
    pub buffer: &'b Buffer,
    /// The live objects.
    pub live: Vec<Live>,
    /// Every stale handle.
    pub freed: Vec<Handle>,
    /// Every handle that the heap returned.
    given: HashSet<Handle>,
    /// The largest request that the fresh heap promised, in bytes.
    pub fresh_largest_bytes: usize,
    /// How many operations lie between two audits.
    audit_every: usize,
    operations: usize,
    written: u64,
    /// By size of page-blocks: how many objects were freed for which none was allocated since, n_f.
    not_allocated_again: BTreeMap<usize, usize>,
}

impl<'b> Shadow<'b> {
    /// A heap in the first `len_bytes` of the buffer. Every `audit_every`-th operation is judged and followed by an
    /// audit.
    pub fn new(buffer: &'b Buffer, len_bytes: usize, audit_every: usize) -> Self {
        // SAFETY: the buffer outlives the shadow, which owns the heap.
        let heap = unsafe { Subject::new(buffer, 0, len_bytes) }.expect("a region that is large enough");
        let shadow = Shadow {
            fresh_largest_bytes: heap.largest_allocatable(),
            heap,
            buffer,
            live: Vec::new(),
            freed: Vec::new(),
            given: HashSet::new(),
            audit_every,
            operations: 0,
            written: 0,
            not_allocated_again: BTreeMap::new(),
        };
        shadow.assert_recovered();
        shadow
    }

    /// Runs one operation and judges its outcome.
    pub fn apply(&mut self, op: &HandleOp) {
        self.operations += 1;
        let is_audited = self.operations.is_multiple_of(self.audit_every);
        let before = is_audited.then(|| self.image());
        let some = !self.live.is_empty();
        match *op {
            HandleOp::Heap(Op::Allocate { size_bytes, .. }) => {
                self.allocate(size_bytes, before.as_ref());
            }
            HandleOp::Heap(Op::Free { index }) if some => self.free(index % self.live.len(), before.as_ref()),
            HandleOp::Heap(Op::Reallocate { index, size_bytes, .. }) if some => {
                self.resize(index % self.live.len(), size_bytes, before.as_ref());
            }
            HandleOp::Write { index } if some => self.write(index % self.live.len()),
            HandleOp::Compact { budget_bytes } => self.compact(budget_bytes),
            HandleOp::Heap(_) | HandleOp::Write { .. } => {}
        }
        if is_audited {
            self.audit();
        }
    }

    /// Allocates as an operation does; returns whether the heap served it.
    pub fn try_allocate(&mut self, size_bytes: usize) -> bool {
        let before = self.live.len();
        self.apply(&HandleOp::Heap(Op::Allocate { size_bytes, align_bytes: 1 }));
        self.live.len() > before
    }

    fn allocate(&mut self, size_bytes: usize, before: Option<&Image>) {
        match self.heap.allocate(size_bytes) {
            Err(error) => self.judge_refusal(size_bytes, error, before),
            Ok(handle) => {
                let is_served = size_bytes > 0 && size_bytes <= facts().largest_request_bytes;
                assert!(is_served, "served a request for {size_bytes} bytes");
                assert!(self.given.insert(handle), "gave {handle:?} a second time");
                assert_eq!(self.heap.size(handle), Ok(size_bytes), "{handle:?}");
                if let Some(before) = before.filter(|_| !traits().is_incremental && !traits().is_layered) {
                    let objects = by_handle(&before.objects);
                    let moved =
                        self.heap.objects().into_iter().find(|object| {
                            objects.get(&object.handle).is_some_and(|was| was.address != object.address)
                        });
                    assert_eq!(moved, None, "an allocation moved an object");
                }
                self.count_allocation(handle, before);
                self.live.push(Live { handle, size_bytes, number: 0 });
                self.write(self.live.len() - 1);
            }
        }
    }

    /// Frees the object at an index of `live`, where the last one takes its place.
    fn free(&mut self, index: usize, before: Option<&Image>) {
        let object = self.live.swap_remove(index);
        assert!(self.heap.content(object.handle) == object.content(), "the content of {object:?} changed");
        assert_eq!(self.heap.free(object.handle), Ok(()), "{object:?}");
        assert_eq!(self.heap.free(object.handle), Err(HandleError::Stale), "{object:?} was freed");
        self.freed.push(object.handle);
        if let Some(before) = before {
            self.judge_moves(object.handle, before);
        }
    }

    /// At most one object moves when another is freed, of its class and into its place; none if few were freed
    /// (Compact-fit 2008, rule 2 and proposition 1).
    fn judge_moves(&mut self, freed: Handle, before: &Image) {
        if traits().is_incremental || traits().is_layered {
            return;
        }
        let objects = by_handle(&before.objects);
        let freed = objects[&freed];
        let not_again = self.not_allocated_again.entry(freed.page_block_bytes).or_default();
        // Only audited operations are counted.
        let is_constant = self.audit_every == 1 && *not_again + 1 < traits().max_not_full;
        *not_again += 1;
        let moved: Vec<(Object, Object)> = self
            .heap
            .objects()
            .into_iter()
            .map(|object| (objects[&object.handle], object))
            .filter(|(was, is)| was.address != is.address)
            .collect();
        // Objects made of pieces move in a table; their bytes stay.
        let most = usize::from(!is_constant && traits().piece_bytes == usize::MAX);
        assert!(moved.len() <= most, "freeing {freed:x?}, n_f = {not_again}, moved {moved:x?}");
        for (was, is) in moved {
            assert_eq!(is.address, freed.address, "{was:x?} moved elsewhere than to {freed:x?}: {is:x?}");
            assert_eq!(is.page_block_bytes, freed.page_block_bytes, "{was:x?} moved to {freed:x?}: {is:x?}");
        }
    }

    fn count_allocation(&mut self, handle: Handle, before: Option<&Image>) {
        // The count is used only with audits.
        if before.is_some() && !traits().is_layered {
            let object = self.heap.objects().into_iter().find(|object| object.handle == handle).expect("live");
            let count = self.not_allocated_again.entry(object.page_block_bytes).or_default();
            *count = count.saturating_sub(1);
        }
    }

    fn resize(&mut self, index: usize, size_bytes: usize, before: Option<&Image>) {
        let object = self.live[index];
        assert!(self.heap.content(object.handle) == object.content(), "the content of {object:?} changed");
        match self.heap.resize(object.handle, size_bytes) {
            Err(ResizeError::Refused(error)) => {
                self.judge_refusal(size_bytes, error, before);
                assert!(self.heap.content(object.handle) == object.content(), "refusing to resize changed {object:?}");
            }
            Err(ResizeError::Handle(error)) => panic!("{object:?} is live: {error}"),
            Ok(()) => {
                assert!(size_bytes > 0 && size_bytes <= facts().largest_request_bytes, "resized to {size_bytes} bytes");
                assert_eq!(self.heap.size(object.handle), Ok(size_bytes), "{object:?}");
                let kept_bytes = size_bytes.min(object.size_bytes);
                let is_kept = self.heap.content(object.handle)[..kept_bytes] == object.content()[..kept_bytes];
                assert!(is_kept, "resizing {object:?} to {size_bytes} bytes lost content");
                if let Some(before) = before.filter(|_| !traits().is_layered) {
                    let was = by_handle(&before.objects)[&object.handle];
                    let is = self.heap.objects().into_iter().find(|is| is.handle == object.handle).expect("live");
                    if was.page_block_bytes != is.page_block_bytes {
                        *self.not_allocated_again.entry(was.page_block_bytes).or_default() += 1;
                        self.count_allocation(object.handle, Some(before));
                    } else {
                        assert_eq!(was.address, is.address, "{was:x?} moved within its class: {is:x?}");
                    }
                }
                self.live[index].size_bytes = size_bytes;
                self.write(index);
            }
        }
    }

    fn write(&mut self, index: usize) {
        self.written += 1;
        self.live[index].number = self.written;
        let object = self.live[index];
        self.heap.set_content(object.handle, &object.content());
    }

    fn compact(&mut self, budget_bytes: usize) {
        let pending_bytes = self.heap.pending_bytes();
        let moved_bytes = self.heap.compact(budget_bytes);
        let after_bytes = self.heap.pending_bytes();
        assert!(moved_bytes <= budget_bytes, "compacted {moved_bytes} bytes with a budget of {budget_bytes}");
        assert!(pending_bytes > 0 || moved_bytes == 0, "compacted {moved_bytes} bytes with no compaction pending");
        assert!(
            budget_bytes < usize::MAX || after_bytes == 0,
            "{after_bytes} bytes are pending after unlimited compaction"
        );
    }

    fn image(&self) -> Image {
        Image {
            fingerprint: self.heap.fingerprint(),
            largest_bytes: self.heap.largest_allocatable(),
            pending_bytes: self.heap.pending_bytes(),
            objects: self.heap.objects(),
            bytes: self.heap.stats().is_none().then(|| self.buffer.save()),
        }
    }

    /// Judges a refusal: its error must be the right one, no promise may be broken, and nothing may have changed.
    fn judge_refusal(&self, size_bytes: usize, error: AllocError, before: Option<&Image>) {
        let is_right = match error {
            AllocError::ZeroSize => size_bytes == 0,
            AllocError::TooLarge => size_bytes > self.fresh_largest_bytes,
            AllocError::Exhausted | AllocError::Pending => {
                size_bytes != 0 && size_bytes <= facts().largest_request_bytes
            }
            AllocError::Alignment | AllocError::Misused | AllocError::Quota | AllocError::Injected => false,
        };
        assert!(is_right, "refused {size_bytes} bytes with the wrong error: {error:?}");
        let Some(before) = before else { return };
        let is_promised = match facts().largest_covers_smaller {
            true => size_bytes != 0 && size_bytes <= before.largest_bytes,
            false => size_bytes != 0 && size_bytes == before.largest_bytes,
        };
        assert!(!is_promised, "refused {size_bytes} bytes against its promise: {error}");
        if traits().is_layered && size_bytes > self.fresh_largest_bytes {
            // Parts may have been allocated and freed again.
            return;
        }
        let after_bytes = self.heap.pending_bytes();
        match error {
            AllocError::Pending => assert!(after_bytes > 0, "reported pending compaction, but none is pending"),
            AllocError::Exhausted => assert_eq!(after_bytes, 0, "reported exhaustion while compaction is pending"),
            _ => {}
        }
        // Pending compaction may have been done in part.
        if traits().is_layered || before.pending_bytes > 0 {
            return;
        }
        assert!(before.fingerprint == self.heap.fingerprint(), "refusing {size_bytes} bytes changed the state");
        if let Some(bytes) = &before.bytes {
            assert!(bytes == self.buffer.bytes(), "refusing {size_bytes} bytes changed bytes");
        }
    }

    /// Compares the model with what the heap reports.
    pub fn audit(&self) {
        self.heap.check().unwrap_or_else(|corruption| panic!("{corruption}"));
        self.buffer.assert_guards();
        self.audit_objects();
        for object in &self.live {
            assert!(self.heap.content(object.handle) == object.content(), "the content of {object:?} changed");
        }
        assert!(
            traits().is_incremental || self.heap.pending_bytes() == 0,
            "compaction is pending in a heap without incremental compaction"
        );
        if let Some(stats) = self.heap.stats().filter(|_| !traits().is_layered) {
            assert_eq!(stats.live_blocks, self.live.len(), "{stats:?}");
        }
    }

    /// The walk shows each live object once. Objects lie where they report, aligned, disjoint and in pieces as
    /// promised, and fragmentation is the memory that they leave.
    fn audit_objects(&self) {
        let objects = self.heap.objects();
        let shown = by_handle(&objects);
        assert!(shown.len() == objects.len() && shown.len() == self.live.len(), "the walk shows {objects:x?}");
        let mut pieces: Vec<(usize, usize)> = Vec::new();
        for live in &self.live {
            let object = shown.get(&live.handle).unwrap_or_else(|| panic!("the walk misses {live:?}"));
            assert_eq!(object.size_bytes, live.size_bytes, "{object:x?}");
            assert!(object.size_bytes <= object.usable_bytes, "{object:x?}");
            assert!(object.usable_bytes <= object.page_block_bytes || traits().is_layered, "{object:x?}");
            assert_eq!(self.heap.size(live.handle), Ok(live.size_bytes), "{object:x?}");
            let out = Err(AccessError::OutOfBounds { size_bytes: live.size_bytes });
            for beyond in [live.size_bytes, live.size_bytes + 1, usize::MAX] {
                assert_eq!(self.heap.locate(live.handle, beyond), out, "{object:x?}");
                assert_eq!(self.heap.locate_mut(live.handle, beyond), out, "{object:x?}");
            }
            let mut offset_bytes = 0;
            for (place, len_bytes) in self.heap.pieces(live.handle) {
                let left_bytes = live.size_bytes - offset_bytes;
                assert_eq!(len_bytes, left_bytes.min(traits().piece_bytes), "a piece at {offset_bytes} of {object:x?}");
                let address = place.addr().get();
                assert!(address.is_multiple_of(facts().alignment_bytes), "{address:#x}, a piece of {object:x?}");
                assert!(offset_bytes != 0 || address == object.address, "{object:x?} begins at {address:#x}");
                // The last byte of the piece, located otherwise.
                let last = offset_bytes + len_bytes - 1;
                // SAFETY: the object is live and has this byte.
                let last_place = unsafe { self.heap.dereference(live.handle, last) };
                assert_eq!(last_place.addr().get(), address + len_bytes - 1, "byte {last} of {object:x?}");
                assert_eq!(self.heap.locate(live.handle, last), Ok((last_place, 1)), "byte {last} of {object:x?}");
                pieces.push((address, address + len_bytes));
                offset_bytes += len_bytes;
            }
        }
        pieces.sort_unstable();
        for pair in pieces.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "two objects overlap: {pair:x?}");
        }
        let is_inside = pieces.first().is_none_or(|piece| piece.0 >= self.buffer.start())
            && pieces.last().is_none_or(|piece| piece.1 <= self.buffer.end());
        assert!(is_inside, "an object outside the region: {pieces:x?}");
        // If objects are pieces, a free page-block has no memory.
        if !traits().is_layered && traits().piece_bytes == usize::MAX {
            self.audit_fragmentation(&objects);
        }
    }

    /// The three kinds of fragmentation are what the objects leave of whole pages, and no more than partial compaction
    /// allows.
    fn audit_fragmentation(&self, objects: &[Object]) {
        let fragmentation = self.heap.fragmentation();
        let internal_bytes: usize = objects.iter().map(|object| object.page_block_bytes - object.size_bytes).sum();
        assert_eq!(fragmentation.block_internal_bytes, internal_bytes, "{fragmentation:?}");
        let page_bytes = facts().page_bytes;
        let mut used_bytes: BTreeMap<usize, usize> = BTreeMap::new();
        for object in objects {
            *used_bytes.entry(object.page_block_bytes).or_default() += object.page_block_bytes;
        }
        // Page-blocks per page; the rest of the page is lost.
        let blocks_of = |block_bytes: usize| page_bytes / block_bytes;
        let most_free_bytes: usize =
            used_bytes.keys().map(|bytes| traits().max_not_full * (blocks_of(*bytes) - 1) * bytes).sum();
        let is_kept = self.heap.pending_bytes() > 0 || fragmentation.size_external_bytes <= most_free_bytes;
        assert!(is_kept, "{fragmentation:?}, at most {most_free_bytes} bytes of free page-blocks by compaction");
        let used_bytes: usize = used_bytes.values().sum();
        let pages_bytes = used_bytes + fragmentation.size_external_bytes + fragmentation.page_internal_bytes;
        assert!(pages_bytes.is_multiple_of(page_bytes), "{fragmentation:?} with {used_bytes} bytes used");
    }

    /// Uses every stale handle in every way: the heap reports each use, and nothing changes.
    pub fn assert_stale(&mut self) {
        let bytes = self.heap.stats().is_none().then(|| self.buffer.save());
        for index in 0..self.freed.len() {
            self.assert_refused(self.freed[index], Some(HandleError::Stale));
        }
        if let Some(bytes) = bytes {
            assert!(bytes == self.buffer.bytes(), "using stale handles changed bytes");
        }
    }

    /// Uses a handle without a live object in every way: the heap refuses each use.
    pub fn assert_refused(&mut self, handle: Handle, expected: Option<HandleError>) {
        let error = self.heap.free(handle).expect_err("freed an object that is not live");
        assert!(expected.is_none_or(|expected| expected == error), "{handle:?}: {error:?} instead of {expected:?}");
        assert_eq!(self.heap.resize(handle, 24), Err(ResizeError::Handle(error)), "{handle:?}");
        assert_eq!(self.heap.size(handle), Err(error), "{handle:?}");
        for offset_bytes in [0, 24, usize::MAX] {
            assert_eq!(self.heap.locate(handle, offset_bytes), Err(AccessError::Handle(error)), "{handle:?}");
            assert_eq!(self.heap.locate_mut(handle, offset_bytes), Err(AccessError::Handle(error)), "{handle:?}");
        }
    }

    /// Frees everything; the heap must then serve what a new one serves.
    pub fn finish(mut self) {
        while !self.live.is_empty() {
            self.apply(&HandleOp::Heap(Op::Free { index: self.live.len() - 1 }));
        }
        self.apply(&HandleOp::Compact { budget_bytes: usize::MAX });
        self.assert_recovered();
    }

    /// Fails unless the heap, whose objects are all freed, serves what a new one serves.
    pub fn assert_recovered(&self) {
        assert!(self.live.is_empty());
        self.audit();
        assert_eq!(self.heap.pending_bytes(), 0, "compaction is pending in an empty heap");
        assert_eq!(self.heap.fragmentation(), Fragmentation::default(), "an empty heap");
        let most = self.heap.largest_allocatable();
        let is_as_new = most == self.fresh_largest_bytes || traits().keeps_pages && most < self.fresh_largest_bytes;
        assert!(is_as_new, "an emptied heap serves {most} bytes, a new one {}", self.fresh_largest_bytes);
    }
}

/// Objects by handle.
fn by_handle(objects: &[Object]) -> HashMap<Handle, Object> {
    objects.iter().map(|object| (object.handle, *object)).collect()
}

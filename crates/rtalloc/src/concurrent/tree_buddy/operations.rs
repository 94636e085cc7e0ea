//! Allocate, deallocate, reallocate: a request becomes a height, a height a subtree, a subtree a block.

use super::layout::{Layout, tag};
use super::options::Options;
use super::shape::{Node, leaves};
use super::{FLAG, Live, Tree};
use crate::concurrent::atomics::Atomics;
use crate::contract::{AllocError, LoopBound, MisuseKind, SharedError, loop_bound};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Tree<NODE, L, O, A> {
    /// Allocates; `align_bytes` is a power of two.
    #[inline(always)]
    pub(super) fn serve(self, size_bytes: usize, align_bytes: usize, slot: usize) -> Result<NonNull<u8>, SharedError> {
        if size_bytes.wrapping_sub(1) >= self.limit() {
            return Err(self.refuse_size(size_bytes));
        }
        let payload = if align_bytes <= Self::ALIGN_BYTES {
            self.serve_plain(size_bytes, slot)?
        } else {
            self.serve_aligned(size_bytes, align_bytes, slot)?
        };
        // SAFETY: no region contains address zero.
        Ok(unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(payload)) })
    }

    /// Allocates a block whose payload is not displaced.
    #[inline(always)]
    fn serve_plain(self, size_bytes: usize, slot: usize) -> Result<usize, SharedError> {
        let begun = self.begun();
        let Some(root) = self.take(Self::height_for(size_bytes), slot) else {
            return Err(self.refuse_search(begun));
        };
        let payload = self.begin(root.first());
        self.mark(Live { root, payload });
        self.ended();
        Ok(payload)
    }

    /// Allocates a block with room to align its payload, and frees the rest.
    ///
    /// ```text
    /// [used 7: .|payload|........] -> [free 1][used 1] 1 [free 3] 1
    /// ```
    #[inline(never)]
    fn serve_aligned(self, size_bytes: usize, align_bytes: usize, slot: usize) -> Result<usize, SharedError> {
        if align_bytes > self.limit() {
            return Err(self.refuse(AllocError::Alignment));
        }
        let room_bytes = size_bytes + (align_bytes - Self::ALIGN_BYTES);
        if room_bytes > self.limit() {
            return Err(self.refuse(AllocError::TooLarge));
        }
        let begun = self.begun();
        let Some(root) = self.take(Self::height_for(room_bytes), slot) else {
            return Err(self.refuse_search(begun));
        };
        let payload = (self.begin(root.first()) + (align_bytes - 1)) & !(align_bytes - 1);
        let kept = self.smallest_holding(root, payload, size_bytes);
        self.mark(Live { root: kept, payload });
        if kept.height < root.height {
            self.settle(self.trim(root, kept), payload);
        }
        self.ended();
        Ok(payload)
    }

    /// Reserves a subtree of a height for a slot.
    #[inline(always)]
    fn take(self, wanted: u32, slot: usize) -> Option<Node> {
        let order = if O::ROTATED { slot.reverse_bits() >> (usize::BITS - self.depth()) } else { 0 };
        if Self::READS_FIRST {
            match self.look(wanted, order) {
                Some(seen) if self.reserve_way(seen, leaves(wanted)) => return Some(seen),
                None if self.is_lacking(wanted) => return None,
                _ => {}
            }
        }
        self.search(wanted, order)
    }

    /// Writes the tags of a block that belongs to the caller.
    #[inline(always)]
    fn mark(self, live: Live) {
        let place = self.control().place;
        let begin = self.begin(live.root.first());
        let height = live.root.height as usize;
        // SAFETY: the block belongs to the caller, and the payload lies in it.
        unsafe {
            if live.payload == begin {
                L::set_tag::<A>(place, NODE, begin, tag::PLAIN | height);
            } else {
                L::set_tag::<A>(place, NODE, begin, tag::BEGIN | height);
                L::set_tag::<A>(place, NODE, live.payload, tag::DISPLACED | height);
                L::note_displaced::<A>(begin, live.payload);
            }
            L::seal::<A>(place, NODE, live.root.at);
        }
    }

    /// Clears the tags of a block that belongs to the caller.
    #[inline(always)]
    fn unmark(self, live: Live) {
        let place = self.control().place;
        let begin = self.begin(live.root.first());
        // SAFETY: the block belongs to the caller, and the payload lies in it.
        unsafe {
            L::set_tag::<A>(place, NODE, live.payload, tag::NONE);
            if live.payload != begin {
                L::set_tag::<A>(place, NODE, begin, tag::NONE);
            }
        }
    }

    /// The live block at an address.
    #[inline(always)]
    pub(super) fn find(self, payload: usize) -> Result<Live, MisuseKind> {
        let place = self.control().place;
        let offset = payload.wrapping_sub(place.nodes + L::HEADER_BYTES);
        if offset & (Self::ALIGN_BYTES - 1) != 0 || offset >= place.count * NODE - L::HEADER_BYTES {
            return Err(MisuseKind::ForeignPointer);
        }
        // SAFETY: the address is a possible payload address, by the tests above.
        let found = unsafe { L::tag::<A>(place, NODE, payload) };
        if found == tag::NONE {
            return Err(MisuseKind::DoubleFree);
        }
        let height = (found & tag::HEIGHT) as u32;
        let is_tag = found & !(tag::HEIGHT | tag::DISPLACED) == 0 && height != 0 && height <= self.depth();
        if !is_tag {
            return Err(MisuseKind::ContradictoryTags);
        }
        let Some(root) = Node::containing(self.depth(), offset / NODE, height) else {
            return Err(MisuseKind::ContradictoryTags);
        };
        let begin = self.begin(root.first());
        let agrees = match found & tag::DISPLACED {
            tag::PLAIN => payload == begin,
            // SAFETY: the payload of a block can begin at every node.
            tag::DISPLACED => unsafe { L::tag::<A>(place, NODE, begin) == tag::BEGIN | height as usize },
            _ => false,
        };
        // SAFETY: the root is a node.
        if !agrees || !unsafe { L::is_sealed::<A>(place, NODE, root.at) } {
            return Err(MisuseKind::ContradictoryTags);
        }
        // In band a user may have overwritten the counter as well; a negative one may be a failing search's.
        if L::IN_BAND && Self::count(self.counter(root.at).load(Relaxed)) > 0 {
            return Err(MisuseKind::ContradictoryTags);
        }
        Ok(Live { root, payload })
    }

    /// Frees the block at an address (the paper's `release`).
    #[inline(always)]
    pub(super) fn give(self, payload: usize) {
        let live = match self.find(payload) {
            Ok(live) => live,
            Err(kind) => return Self::report(kind, payload),
        };
        self.begun();
        self.unmark(live);
        let size = leaves(live.root.height);
        let mut first = Self::amount(size);
        if Self::RESETS {
            self.reset_inside(live.root);
        } else if Self::FLAGGED && live.root.height > 1 {
            first |= !self.counter(live.root.at).load(Relaxed) & FLAG;
        }
        self.settle(self.give_back(live.root, size, first), payload);
        self.ended();
    }

    /// Reports a counter that would have exceeded its leaves: more was freed than allocated.
    #[inline(always)]
    fn settle(self, outcome: Result<(), Node>, payload: usize) {
        if outcome.is_err() {
            Self::report(MisuseKind::ContradictoryTags, payload);
        }
    }

    /// See [`reallocate_bytes`](crate::contract::Slot::reallocate_bytes).
    ///
    /// # Safety
    ///
    /// As [`reallocate_bytes`](crate::contract::Slot::reallocate_bytes).
    #[inline(never)]
    pub(super) unsafe fn resize(
        self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
        slot: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        let payload = block.addr().get();
        if !align_bytes.is_power_of_two() {
            return Err(self.refuse(AllocError::Alignment));
        }
        if size_bytes.wrapping_sub(1) >= self.limit() {
            return Err(self.refuse_size(size_bytes));
        }
        let live = match self.find(payload) {
            Ok(live) => live,
            Err(kind) => {
                Self::report(kind, payload);
                return Err(self.refuse(AllocError::Misused));
            }
        };
        if payload & (align_bytes - 1) == 0 && self.fit_in_place(live, size_bytes) {
            return Ok(block);
        }
        let moved = self.serve(size_bytes, align_bytes, slot)?;
        let usable_bytes = self.end(live.root.at) - payload;
        // SAFETY: both blocks are live and disjoint, and both are at least as long as the copy.
        unsafe { core::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), size_bytes.min(usable_bytes)) };
        self.give(payload);
        Ok(moved)
    }

    /// Makes a live block fit a size in place: it keeps the smallest subtree that holds the payload, or grows if it is
    /// the left child, and its parent too, and so on.
    fn fit_in_place(self, live: Live, size_bytes: usize) -> bool {
        let Live { root, payload } = live;
        if self.holds(root, payload, size_bytes) {
            let kept = self.smallest_holding(root, payload, size_bytes);
            if kept.height < root.height {
                self.begun();
                self.unmark(live);
                self.mark(Live { root: kept, payload });
                self.settle(self.trim(root, kept), payload);
                self.ended();
            }
            return true;
        }
        let mut to = root;
        while !self.holds(to, payload, size_bytes) {
            loop_bound!(LoopBound::Levels);
            if to.height == self.depth() || to.is_right() {
                return false;
            }
            to = to.parent();
        }
        self.begun();
        let has_grown = self.grow(root, to);
        if has_grown {
            self.mark(Live { root: to, payload });
        }
        self.ended();
        has_grown
    }
}

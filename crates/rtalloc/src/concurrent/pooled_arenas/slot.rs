//! The operations of one slot.

use super::layout::Entry;
use super::pool::Missed;
use super::remote_queue::{Link, Pushed, QueuedFree};
use super::{Own, Place, PooledArenas, View};
use crate::adapt::cached::{Cached, Remains};
use crate::concurrent::atomics::{Atomics, Native};
use crate::concurrent::slots::Common;
use crate::contract::{
    AllocError, InPieces, LoopBound, MisuseKind, RegionAllocator, SetAside, SharedError, Slot, loop_bound,
};
use crate::hook::report;
use crate::mechanism::pair_result::PairResult;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

/// One user's operations on [`PooledArenas`]: two pointers, to the heap and to the slot's state in it.
pub struct PooledSlot<'h, 'r, H, A: Atomics = Native> {
    pub(super) view: View<'h, H, A>,
    /// The slot's own state.
    pub(super) place: NonNull<Place<H, A>>,
    pub(super) heap: PhantomData<&'h PooledArenas<'r, H, A>>,
}

// SAFETY: only the slot's user uses its heap, on whichever thread that user runs; `H` is `Send`.
unsafe impl<H: Send, A: Atomics> Send for PooledSlot<'_, '_, H, A> {}

impl<H, A: Atomics> fmt::Debug for PooledSlot<'_, '_, H, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.number())
    }
}

/// A block that is not in a piece of this slot.
enum Elsewhere<'h, H, A: Atomics> {
    /// In a piece of another slot.
    Remote { place: &'h Place<H, A>, owner: usize, queued: QueuedFree, link: &'h Link<A> },
    /// A run of chunks of its own.
    Long { first: usize, run: usize },
}

impl<H, A: Atomics> PooledSlot<'_, '_, H, A> {
    /// The slot's number.
    #[inline(always)]
    fn number(&self) -> usize {
        self.own().owner.wrapping_sub(1)
    }

    /// The same pointers, so that a call passes them in registers, not by reference.
    #[inline(always)]
    fn by_value(&self) -> Self {
        PooledSlot { view: self.view, place: self.place, heap: PhantomData }
    }

    /// The part that this slot alone uses.
    #[inline(always)]
    fn own(&self) -> &Own<H> {
        // SAFETY: the place is initialised; only its cells are written again, by this slot's user.
        unsafe { &(*self.place.as_ptr()).own.0 }
    }

    /// The part that other threads write.
    #[inline(always)]
    fn common(&self) -> &Common<A> {
        // SAFETY: the place is initialised, and this part consists of atomic words.
        unsafe { &(*self.place.as_ptr()).common.0 }
    }

    /// Whether frees of this slot's blocks wait to be processed, as far as the slot has seen.
    #[inline(always)]
    fn has_remote_frees(&self) -> bool {
        (self.own().chain.get() != 0) | self.common().pending_bits.any()
    }

    /// Whether an address lies in a piece of this slot, where a block can be.
    #[inline(always)]
    pub(super) fn is_own(&self, address: usize) -> bool {
        self.view.entry_at(address).is_some_and(|(_, entry)| self.is_of_own(address, entry))
    }

    /// As [`is_own`](Self::is_own), where the address is in a chunk with this entry: not in a piece's first granule, whose
    /// "header" would belong to the chunk before.
    #[inline(always)]
    fn is_of_own(&self, address: usize, entry: Entry) -> bool {
        match entry.run_of(self.own().owner as u32) {
            Some(run) => run == 0 || !self.view.plan().is_start(address),
            None => false,
        }
    }
}

/// An operation in two parts: what the lists of the slot's heap serve alone, to be inlined, and what remains.
impl<'r, H: SetAside<'r> + InPieces<'r>, A: Atomics> PooledSlot<'_, 'r, Cached<'r, H>, A> {
    /// Allocates a block that the heap has kept, at the alignment of all blocks; 0 bytes like 1.
    ///
    /// # Errors
    ///
    /// What remains: [`allocate_past_lists`](Self::allocate_past_lists) or [`Slot::allocate_bytes`]. Nothing has
    /// changed.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub fn allocate_kept(&mut self, size_bytes: usize) -> Result<NonNull<u8>, Remains> {
        if self.has_remote_frees() { Err(Remains::Everything) } else { self.arena().allocate_kept(size_bytes) }
    }

    /// Allocates after [`allocate_kept`](Self::allocate_kept) has left the heap; `size_bytes` is not 0.
    ///
    /// # Errors
    ///
    /// As [`Slot::allocate_bytes`].
    ///
    /// # Time
    ///
    /// As [`Slot::allocate_bytes`].
    #[inline(always)]
    pub fn allocate_past_lists(&mut self, size_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        match self.arena().allocate_within(size_bytes) {
            Some(block) => Ok(block),
            None => self.by_value().allocate_from_pool::<false>(size_bytes, 1).into(),
        }
    }

    /// Frees a block if the slot's heap keeps it: its bytes with the header.
    ///
    /// # Errors
    ///
    /// What remains: [`deallocate_past_lists`](Self::deallocate_past_lists), where the address is in a piece of this
    /// slot, or [`Slot::deallocate`]. Nothing has changed.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`], or `block` is null.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub unsafe fn keep(&mut self, block: *mut u8) -> Result<usize, Remains> {
        if !self.is_own(block.addr()) {
            return Err(Remains::Everything);
        }
        // SAFETY: no piece contains address zero. The caller guarantees that the block, which is in a piece of this
        // heap, is no longer used.
        unsafe { self.arena().keep(NonNull::new_unchecked(block), true) }.ok_or(Remains::Heap)
    }

    /// Frees a block after [`keep`](Self::keep) has left the heap: its usable bytes.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`].
    ///
    /// # Time
    ///
    /// As [`Slot::deallocate`].
    #[inline(always)]
    pub unsafe fn deallocate_past_lists(&mut self, block: NonNull<u8>) -> usize {
        let may_be_piece = self.may_be_piece();
        // SAFETY: the caller guarantees that the block, which is this heap's, is no longer used.
        let (bytes, piece) =
            unsafe { (self.arena().usable_size(block), self.arena().deallocate_within_piece(block, may_be_piece)) };
        self.end_if_piece(piece);
        bytes
    }
}

impl<'h, 'r, H: InPieces<'r>, A: Atomics> PooledSlot<'h, 'r, H, A> {
    /// The slot's heap.
    #[inline(always)]
    fn arena(&self) -> ManuallyDrop<H> {
        PooledArenas::<'r, H, A>::copy_of(self.own())
    }

    /// As [`deallocate`](Slot::deallocate); returns the block's usable bytes, but 0 if it is in a piece of another slot.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`].
    #[inline(always)]
    pub unsafe fn deallocate_counted(&mut self, block: NonNull<u8>) -> usize {
        let address = block.addr().get();
        // SAFETY: the caller guarantees that the block is live and no longer used.
        unsafe {
            let Some((chunk, entry)) = self.view.entry_at(address) else {
                Self::misused(MisuseKind::ForeignPointer, address);
                return 0;
            };
            if self.is_of_own(address, entry) {
                let bytes = self.arena().usable_size(block);
                self.free_own(block);
                return bytes;
            }
            self.by_value().free_elsewhere(block, chunk, entry);
            if entry.owner() == Entry::LONG { self.view.plan().bytes_of(entry.run()) } else { 0 }
        }
    }

    /// The largest request that the slot's heap serves without another piece, in bytes.
    ///
    /// # Time
    ///
    /// As the query of `H`.
    pub fn largest_in_pieces(&self) -> usize {
        self.arena().largest_allocatable()
    }

    /// Reports misuse. In a loop, the compiler may keep the address of [`report`] in a register, and a call through a
    /// register has no bound. This function it calls directly.
    #[cold]
    #[inline(never)]
    fn misused(kind: MisuseKind, address: usize) {
        report(H::CONTRACT.name, kind, address);
    }

    /// Counts a refusal, and returns it.
    #[cold]
    #[inline(never)]
    fn refuse(&self, error: SharedError) -> SharedError {
        self.view.refused().count(error)
    }

    /// Frees a block of this slot.
    ///
    /// # Safety
    ///
    /// It lies in one of its pieces, and as [`Slot::deallocate`].
    #[inline(always)]
    unsafe fn free_own(&mut self, block: NonNull<u8>) {
        let may_be_piece = self.may_be_piece();
        // SAFETY: the caller guarantees a block of this slot's heap, which is no longer used.
        if let Some(left) = unsafe { self.arena().deallocate_in_piece(block, may_be_piece) } {
            self.end_apart(left);
        }
    }

    /// Whether free memory begins and ends on chunk boundaries: a whole piece does.
    #[inline(always)]
    fn may_be_piece(&self) -> impl FnOnce(&Range<usize>) -> bool + use<'h, 'r, H, A> {
        let plan = self.view.plan();
        move |memory| plan.is_start(memory.start | memory.end)
    }

    /// As [`end_piece`](Self::end_piece), unless the range is empty.
    #[inline(always)]
    fn end_if_piece(&mut self, left: Range<usize>) {
        if !left.is_empty() {
            self.end_apart(left);
        }
    }

    /// Frees what the slot's heap keeps for later requests. False if it keeps nothing.
    #[inline(always)]
    fn deallocate_kept(&mut self) -> bool {
        let (mut place, mut is_any) = (0, false);
        while let Some(freed) = self.arena().deallocate_kept(&mut place, self.may_be_piece()) {
            loop_bound!(LoopBound::Fixed(8000));
            if let Some(piece) = freed {
                is_any = true;
                self.end_if_piece(piece);
            }
        }
        is_any
    }

    /// Returns the free memory that the heap did not put into a list to the pool, if it is a piece and not the spare;
    /// otherwise back to the heap.
    #[inline(always)]
    fn end_piece(&self, left: Range<usize>, chunk_log2: u32) {
        if left.start != self.own().spare.get() {
            let plan = self.view.plan();
            let first = left.start.wrapping_sub(plan.start) >> chunk_log2;
            let run = left.end.wrapping_sub(left.start) >> chunk_log2;
            if first < plan.chunks && self.view.entry(first).is_first(self.own().owner as u32, run) {
                return self.give_back(first, run);
            }
        }
        // SAFETY: `deallocate_in_piece` returned it, and the heap was not used since.
        unsafe { self.arena().put_back(left) };
    }

    /// [`end_piece`](Self::end_piece) apart from the operation, which then needs fewer registers.
    #[inline(always)]
    fn end_apart(&self, left: Range<usize>) {
        let free_bytes = left.end.wrapping_sub(left.start).wrapping_sub(H::OVERHEAD_BYTES);
        self.by_value().end_piece_apart(left.start, self.view.plan().chunk_log2, free_bytes);
    }

    /// Gets the number of places to shift in the register that x86-64 takes it from, and the bytes without those before
    /// the first block.
    #[cold]
    #[inline(never)]
    fn end_piece_apart(self, start: usize, chunk_log2: u32, free_bytes: usize) {
        let bytes = free_bytes.wrapping_add(H::OVERHEAD_BYTES);
        self.end_piece(start..start.wrapping_add(bytes), chunk_log2);
    }

    /// Gives the chunks of a piece that was withdrawn back to the pool.
    #[inline(always)]
    fn give_back(&self, first: usize, run: usize) {
        self.view.set_entries(first, run, Entry::NONE);
        self.view.pool().give_short(first, run);
    }

    /// Gives back the spare piece, if it is empty.
    #[inline(always)]
    fn give_spare(&mut self) {
        let plan = self.view.plan();
        let spare = self.own().spare.get();
        let Some((first, entry)) = self.view.entry_at(spare) else { return };
        let piece = spare..spare.wrapping_add(plan.bytes_of(entry.run()));
        // SAFETY: the spare piece is this slot's.
        unsafe {
            if self.arena().is_empty(piece.clone()) {
                self.own().spare.set(0);
                self.arena().withdraw(piece);
                self.give_back(first, entry.run());
            }
        }
    }

    /// Processes a queued free: unlinks it from the chain, and frees its block.
    #[inline(always)]
    fn process(&mut self, queued: QueuedFree) {
        self.own().chain.set(0);
        let Some(address) = PooledArenas::<'r, H, A>::address_of(self.view.plan(), queued) else { return };
        if !self.is_own(address) {
            Self::misused(MisuseKind::ContradictoryTags, address);
            return;
        }
        let block = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: no region contains address zero. The slot that queued the block passed it to this one under the
        // contract of `deallocate`; the tags may show that it is not a live block after all.
        unsafe {
            let block = NonNull::new_unchecked(block);
            if !self.arena().looks_live(block) {
                Self::misused(MisuseKind::DoubleFree, address);
                return;
            }
            let next = PooledArenas::<'r, H, A>::link_at(address).next();
            if next.is_some_and(|next| PooledArenas::<'r, H, A>::address_of(self.view.plan(), next).is_none()) {
                Self::misused(MisuseKind::ContradictoryTags, address);
                return;
            }
            // First, so that a free is processed once, whatever happens to the block.
            self.own().chain.set(next.map_or(0, QueuedFree::get) as usize);
            if let Some(left) = self.arena().deallocate_in_piece(block, self.may_be_piece()) {
                self.end_piece(left, self.view.plan().chunk_log2);
            }
        }
    }

    /// Takes back the block queued last. `None` if none is queued; false if a bit led to an empty queue, but another
    /// bit is set.
    #[inline(always)]
    fn take_back_one(&mut self) -> Option<bool> {
        let number = self.number();
        let view = self.view;
        let slots = view.plan().slots;
        let latest = match QueuedFree::new(self.own().chain.get() as u32) {
            Some(queued) => Some(queued),
            // SAFETY: all slots less than `slots` exist, and this one is the owner.
            None => unsafe { self.common().pending_bits.collect(slots, |producer| view.queue(producer, number)) },
        };
        match latest {
            Some(queued) => {
                self.process(queued);
                Some(true)
            }
            // The bit's frees were collected earlier.
            None => self.common().pending_bits.any().then_some(false),
        }
    }

    /// Takes back at most `budget` blocks, and returns how many.
    #[inline(never)]
    fn take_back(&mut self, budget: usize) -> usize {
        let (mut taken, mut iteration) = (0, 0);
        while iteration < budget {
            loop_bound!(LoopBound::RemoteFrees);
            iteration += 1;
            let Some(is_taken) = self.take_back_one() else { break };
            taken += usize::from(is_taken);
        }
        taken
    }

    /// Whether every block has this alignment, if it is a power of two.
    #[inline(always)]
    fn is_natural(align_bytes: usize) -> bool {
        align_bytes <= H::CONTRACT.alignment_bytes && align_bytes.is_power_of_two()
    }

    /// Allocates when there are queued remote frees. Without `ALIGNED`, here and below, at the alignment of all blocks:
    /// larger alignments have separate code, so that the bound of other requests excludes it.
    #[cold]
    #[inline(never)]
    fn allocate_with_remote_frees<const ALIGNED: bool>(
        mut self,
        size_bytes: usize,
        align_bytes: usize,
    ) -> PairResult<SharedError> {
        let align_bytes = if ALIGNED { align_bytes } else { 1 };
        self.take_back(self.view.plan().reclaim_budget);
        match self.arena().allocate_inlined(size_bytes, align_bytes) {
            Ok(block) => Ok(block).into(),
            Err(_) => self.by_value().allocate_from_pool::<ALIGNED>(size_bytes, align_bytes),
        }
    }

    /// Allocates after the slot's heap has refused: from another piece, or as a long block.
    #[cold]
    #[inline(never)]
    fn allocate_from_pool<const ALIGNED: bool>(
        mut self,
        size_bytes: usize,
        align_bytes: usize,
    ) -> PairResult<SharedError> {
        self.draw_or_empty::<ALIGNED>(size_bytes, align_bytes).map_err(|error| self.refuse(error)).into()
    }

    /// As [`draw`](Self::draw); if that fails, the slot's heap gives up what it keeps for later requests, and is asked
    /// again.
    #[inline(always)]
    fn draw_or_empty<const ALIGNED: bool>(
        &mut self,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        let align_bytes = if ALIGNED { align_bytes } else { 1 };
        let drawn = self.draw::<ALIGNED>(size_bytes, align_bytes);
        if matches!(drawn, Ok(_) | Err(SharedError::Request(_))) || !self.deallocate_kept() {
            return drawn;
        }
        let served = self.arena().allocate_bytes(size_bytes, align_bytes);
        served.or_else(|_| self.draw::<ALIGNED>(size_bytes, align_bytes))
    }

    /// As [`allocate_from_pool`](Self::allocate_from_pool), without counting a refusal.
    #[inline(always)]
    fn draw<const ALIGNED: bool>(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        if !align_bytes.is_power_of_two() {
            return Err(SharedError::Request(AllocError::Alignment));
        }
        if size_bytes == 0 {
            return Err(SharedError::Request(AllocError::ZeroSize));
        }
        let plan = self.view.plan();
        let length = plan.chunks_for(size_bytes);
        // Chunks are aligned to their length; for more, the search is for a longer run.
        let slack = if ALIGNED { (align_bytes >> plan.chunk_log2).saturating_sub(1) } else { 0 };
        if length > plan.chunks || slack > plan.chunks - length {
            let is_aligned = align_bytes <= plan.bytes_of(plan.chunks);
            return Err(SharedError::Request(if is_aligned { AllocError::TooLarge } else { AllocError::Alignment }));
        }
        // Were it empty, it would have served a request that a piece of one chunk serves.
        self.give_spare();
        // A piece, unless it would need more chunks than the block alone, so that the block fills its own well.
        let piece_bytes = H::piece_bytes(size_bytes, align_bytes)
            .filter(|&bytes| length <= plan.piece_chunks() && plan.chunks_for(bytes) <= length);
        let missed = if let Some(bytes) = piece_bytes {
            let fitting = plan.piece_for(bytes, length);
            // The first such block gets no more chunks than it needs: others may not follow.
            let fits_badly = if fitting > length { self.own().seal } else { 0 };
            let most = if self.own().fits_badly.replace(fits_badly) != 0 { fitting } else { length };
            match self.view.pool().take_piece(length, most) {
                Ok(chunks) => return Ok(self.allocate_in_piece(chunks, length, size_bytes, align_bytes)),
                Err(missed) => missed,
            }
        } else {
            let aligned = |first| {
                let gap = plan.address_of(first).wrapping_neg() & (align_bytes - 1);
                first + (gap >> plan.chunk_log2)
            };
            match self.view.pool().take(length, slack, aligned) {
                Ok(first) => {
                    self.view.set_entry(first, Entry::first(Entry::LONG, length));
                    let block = core::ptr::with_exposed_provenance_mut(plan.address_of(first));
                    // SAFETY: no region contains address zero.
                    return Ok(unsafe { NonNull::new_unchecked(block) });
                }
                Err(missed) => missed,
            }
        };
        if self.own().chain.get() != 0 || self.common().pending_bits.any_now() {
            return Err(SharedError::Pending);
        }
        Err(match missed {
            Missed::Contended => SharedError::Contended,
            Missed::Exhausted => SharedError::Exhausted,
        })
    }

    /// Lends chunks that were taken from the pool to the slot's heap for a request that `length` of them serve.
    #[inline(always)]
    fn allocate_in_piece(
        &mut self,
        chunks: Range<usize>,
        length: usize,
        size_bytes: usize,
        align_bytes: usize,
    ) -> NonNull<u8> {
        let (first, run) = (chunks.start, chunks.end.wrapping_sub(chunks.start));
        let owner = self.own().owner as u32;
        self.view.set_entries(first, run, Entry::first(owner, 0));
        self.view.set_entry(first, Entry::first(owner, run));
        if length == 1 {
            self.own().spare.set(self.view.plan().address_of(first));
        }
        // SAFETY: the chunks are this slot's from now on, in the span, at most as many as planned, and enough.
        unsafe { self.arena().lend(self.view.plan().range(first, run), size_bytes, align_bytes) }
    }

    /// The block at an address that is not in a piece of this slot, but in a chunk with this entry.
    ///
    /// # Errors
    ///
    /// What is wrong with the address.
    #[inline(always)]
    fn find_elsewhere(&self, address: usize, chunk: usize, entry: Entry) -> Result<Elsewhere<'_, H, A>, MisuseKind> {
        let plan = self.view.plan();
        if entry.owner() == Entry::LONG {
            let long = Elsewhere::Long { first: chunk, run: entry.run() };
            return if plan.is_start(address) { Ok(long) } else { Err(MisuseKind::ForeignPointer) };
        }
        let unit_bytes = PooledArenas::<'r, H, A>::UNIT_BYTES;
        let distance = address.wrapping_sub(plan.start);
        if !distance.is_multiple_of(unit_bytes) {
            return Err(MisuseKind::ForeignPointer);
        }
        let owner = (entry.owner() as usize).wrapping_sub(1);
        if owner >= plan.slots {
            // Nothing is live there.
            return Err(MisuseKind::DoubleFree);
        }
        // SAFETY: the address is in the span, on the grid of blocks, so it is not zero.
        let block = unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) };
        // The first granule of a piece precedes its first block.
        let is_before = plan.is_start(address) && entry.run() != 0;
        // SAFETY: the address lies in a piece, after its first granule; any thread may ask through any heap.
        if is_before || !unsafe { self.arena().looks_live(block) } {
            return Err(if is_before { MisuseKind::ForeignPointer } else { MisuseKind::DoubleFree });
        }
        // The distance is less than the span, so its number fits 32 bits (`LARGEST_SPAN_BYTES`).
        let queued = QueuedFree::MIN.saturating_add((distance / unit_bytes) as u32);
        // SAFETY: `owner` is less than the number of slots, and places are initialised; the address is that of a block.
        unsafe {
            let place = self.view.place(owner).as_ref();
            Ok(Elsewhere::Remote { place, owner, queued, link: PooledArenas::<'r, H, A>::link_at(address) })
        }
    }

    /// Frees a block that is not in a piece of this slot, but in a chunk with this entry: queues it for its owner, or
    /// gives its chunks back.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`].
    #[inline(never)]
    unsafe fn free_elsewhere(self, block: NonNull<u8>, chunk: usize, entry: Entry) {
        let address = block.addr().get();
        let kind = match self.find_elsewhere(address, chunk, entry) {
            Ok(Elsewhere::Remote { place, owner, queued, link }) => {
                // SAFETY: both slots exist.
                let queue = unsafe { self.view.queue(self.number(), owner) };
                // SAFETY: this slot is the producer; the caller gives up the block, whose first word is the link.
                match unsafe { queue.push(queued, link) } {
                    Pushed::First => return place.common.0.pending_bits.set(self.number()),
                    Pushed::Queued => return,
                    Pushed::Duplicate => MisuseKind::DoubleFree,
                }
            }
            Ok(Elsewhere::Long { first, run }) => {
                // Relaxed: the pool orders the chunks; this decides between two frees of the block.
                if self.view.entry_word(first).compare_exchange(entry.0, Entry::NONE.0, Relaxed).is_ok() {
                    return self.view.pool().give(first, run);
                }
                MisuseKind::DoubleFree
            }
            Err(kind) => kind,
        };
        Self::misused(kind, address);
    }

    /// Resizes a long block where it is, if it can be.
    #[inline(always)]
    fn resize_long(&mut self, first: usize, run: usize, size_bytes: usize, align_bytes: usize) -> bool {
        let plan = self.view.plan();
        if plan.address_of(first) & (align_bytes - 1) != 0 || size_bytes > plan.bytes_of(plan.chunks) {
            return false;
        }
        let wanted = plan.chunks_for(size_bytes);
        let is_resized = match wanted.checked_sub(run) {
            Some(0) => return true,
            Some(more) => {
                let claim = || self.view.pool().claim(first + run, more);
                // Once more, in case that another slot changed one of these words meanwhile.
                wanted <= plan.chunks - first && (claim() || claim())
            }
            None => true,
        };
        if is_resized {
            self.view.set_entry(first, Entry::first(Entry::LONG, wanted));
        }
        if wanted < run {
            self.view.pool().give(first + wanted, run - wanted);
        }
        is_resized
    }

    /// Resizes a block: where it is, or by moving it to this slot.
    ///
    /// # Safety
    ///
    /// As [`Slot::reallocate_bytes`].
    #[inline(never)]
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        let invalid = |slot: &Self, error| Err(slot.refuse(SharedError::Request(error)));
        if !align_bytes.is_power_of_two() {
            return invalid(self, AllocError::Alignment);
        }
        if size_bytes == 0 {
            return invalid(self, AllocError::ZeroSize);
        }
        let address = block.addr().get();
        let Some((chunk, entry)) = self.view.entry_at(address) else {
            Self::misused(MisuseKind::ForeignPointer, address);
            return invalid(self, AllocError::Misused);
        };
        let keeps_too_much;
        if self.is_of_own(address, entry) {
            // SAFETY: the caller guarantees that the block is live, and it is this slot's.
            match unsafe { self.arena().resize_in_place(block, size_bytes, align_bytes) } {
                Ok(true) => return Ok(block),
                Ok(false) => keeps_too_much = false,
                Err(error) => return invalid(self, error),
            }
        } else {
            match self.find_elsewhere(address, chunk, entry) {
                Err(kind) => {
                    Self::misused(kind, address);
                    return invalid(self, AllocError::Misused);
                }
                Ok(Elsewhere::Long { first, run }) => {
                    // A block that would be small moves to a piece, unless there is no memory for it.
                    keeps_too_much = size_bytes <= self.view.plan().chunk_bytes() / 2;
                    if !keeps_too_much && self.resize_long(first, run, size_bytes, align_bytes) {
                        return Ok(block);
                    }
                }
                Ok(Elsewhere::Remote { .. }) => {
                    // SAFETY: the block is live.
                    let usable_bytes = unsafe { self.usable_size(block) };
                    let fits = address & (align_bytes - 1) == 0 && size_bytes <= usable_bytes;
                    // Only its owner can split a block.
                    keeps_too_much =
                        usable_bytes - size_bytes.min(usable_bytes) > size_bytes.max(H::CONTRACT.min_block_bytes);
                    if fits && !keeps_too_much {
                        return Ok(block);
                    }
                }
            }
        }
        // SAFETY: the block is live.
        let usable_bytes = unsafe { self.usable_size(block) };
        let fits = address & (align_bytes - 1) == 0 && size_bytes <= usable_bytes;
        if self.has_remote_frees() {
            self.take_back(self.view.plan().reclaim_budget);
        }
        let served = self.arena().allocate_bytes(size_bytes, align_bytes);
        let moved = match served.or_else(|_| self.draw_or_empty::<true>(size_bytes, align_bytes)) {
            Ok(moved) => moved,
            // Shrinking never fails.
            Err(_) if fits && keeps_too_much => {
                if let Ok(Elsewhere::Long { first, run }) = self.find_elsewhere(address, chunk, entry) {
                    self.resize_long(first, run, size_bytes, align_bytes);
                }
                return Ok(block);
            }
            Err(error) => return Err(self.refuse(error)),
        };
        // SAFETY: both blocks are live and disjoint, and at least as long as the copy; the caller gives up `block`.
        unsafe {
            core::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), size_bytes.min(usable_bytes));
            self.deallocate(block);
        }
        Ok(moved)
    }
}

// SAFETY: blocks come from the slot's heap, which only the slot's user works with, or are runs of chunks that no one
// else has; blocks of other slots are queued for their owner.
unsafe impl<'r, H: InPieces<'r>, A: Atomics> Slot for PooledSlot<'_, 'r, H, A> {
    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        if self.has_remote_frees() {
            return match Self::is_natural(align_bytes) {
                true => self.by_value().allocate_with_remote_frees::<false>(size_bytes, align_bytes).into(),
                false => self.by_value().allocate_with_remote_frees::<true>(size_bytes, align_bytes).into(),
            };
        }
        match self.arena().allocate_bytes(size_bytes, align_bytes) {
            Ok(block) => Ok(block),
            Err(_) if Self::is_natural(align_bytes) => {
                self.by_value().allocate_from_pool::<false>(size_bytes, align_bytes).into()
            }
            Err(_) => self.by_value().allocate_from_pool::<true>(size_bytes, align_bytes).into(),
        }
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let address = block.addr().get();
        let Some((chunk, entry)) = self.view.entry_at(address) else {
            return Self::misused(MisuseKind::ForeignPointer, address);
        };
        // SAFETY: the caller guarantees that the block is live and no longer used.
        unsafe {
            if self.is_of_own(address, entry) {
                self.free_own(block);
            } else {
                self.by_value().free_elsewhere(block, chunk, entry);
            }
        }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: the caller guarantees that the block is live.
        unsafe { self.resize(block, size_bytes, align_bytes) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        match self.view.entry_at(block.addr().get()) {
            Some((_, entry)) if entry.owner() == Entry::LONG => self.view.plan().bytes_of(entry.run()),
            // SAFETY: the caller guarantees that the block is live; any thread may ask through any heap.
            Some((_, entry)) if entry != Entry::NONE => unsafe { self.arena().usable_size(block) },
            _ => 0,
        }
    }

    fn reclaim(&mut self, budget: usize) -> usize {
        let taken = self.take_back(budget);
        if taken < budget {
            self.deallocate_kept();
            self.give_spare();
            self.own().fits_badly.set(0);
        }
        taken
    }
}

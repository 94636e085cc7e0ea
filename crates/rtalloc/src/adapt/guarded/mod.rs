//! A heap that detects misuse: fences around every block, fill patterns, and a quarantine of freed blocks.
//!
//! # Idea
//!
//! Every block of the inner heap gets a frame, and a freed block waits in a ring before it returns there:
//!
//! ```text
//! region: [control structure][ring of the last N freed blocks] [the region of the inner heap ...]
//!
//! block:  [record][fence >= F][payload: exactly the requested bytes][fence F] the excess that the heap granted
//! ```
//!
//! | misuse | detected | reported as |
//! |---|---|---|
//! | one byte or more written after the *requested* bytes | when the block is freed or resized; by [`check`](RegionAllocator::check) | [`Overrun`](MisuseKind::Overrun) |
//! | bytes written before a block | the same | [`Underrun`](MisuseKind::Underrun) |
//! | a block written after it was freed | when it leaves the quarantine; by `check` | [`UseAfterFree`](MisuseKind::UseAfterFree) |
//! | a block of an earlier heap in the same region | at once | depends on what the memory is now: a [`DoubleFree`](MisuseKind::DoubleFree) where it is free |
//! | freed or resized after it was freed | at once: guaranteed as long as its memory was not allocated again at the same address | [`DoubleFree`](MisuseKind::DoubleFree) |
//! | an address inside a block | at once | [`InteriorPointer`](MisuseKind::InteriorPointer) |
//! | the block of another guarded heap | at once | [`WrongHeap`](MisuseKind::WrongHeap) |
//! | any other address | at once | [`ForeignPointer`](MisuseKind::ForeignPointer) |
//! | memory read before it is written, or after it was freed | it holds [`FRESH`] or [`FREED`] bytes | not reported: visible in what the program does with them |
//!
//! All reports go to the [`hook`], with the address that the user knows. A block with a damaged fence is *kept*: as
//! with every misuse the call is ignored, the block stays live, and the bytes written remain for inspection. If the
//! bytes before a block are so damaged that its record is gone, or a double free comes so late that the memory was
//! divided anew, the report describes the current state of the memory.
//!
//! # Costs
//!
//! Each operation is one of the inner heap, a constant number of instructions for record and fences, and a pass over
//! the payload: it is filled when it is allocated and when it is freed, and compared when it leaves the quarantine. So
//! deallocate is linear in the freed block and in the block of any size that leaves the quarantine in exchange.
//! Allocate is linear in its block; only a request that the inner heap refuses is linear in the quarantine, from which
//! the oldest blocks are released, one after the other, until the request is served: no request is refused because of
//! the quarantine. (The quota of an inner [`Quota`](super::Quota) is not a lack of memory: there, a quarantined block
//! counts as its owner's until it leaves, and leaving counts as an operation of the current component. A `Quota` around
//! the guard counts what the program has.) The contract states the sum as linear in the region. With
//! [`GuardedConfig::quarantine_blocks`] = 0 only the blocks' own sizes remain. A report of a wrong address verifies
//! and walks the heap.
//!
//! Memory: four words and two fences for each block (64 bytes on a 64-bit machine with the default fence of 16), and
//! two words for each place in the quarantine, besides the blocks in it.
//!
//! # When it wins, when it loses
//!
//! It is for tests, and for programs in the field suspected of corrupting memory. A write far after a block, past the
//! fence and into the next block's payload, is not detected. Nor is a read. Nor is a byte that happens to equal the
//! fence's: that is impossible for ASCII letters, for 0 and for 255, and has a probability of one in 256 for random
//! bytes. Writing to a block after it left the quarantine may harm the inner heap as without guards.
//!
//! The excess of a shrunken block is returned to the inner heap at once; a growing block that does not fit always
//! moves, so that pointers to the old block are stale, and detected. A block's size is the requested one:
//! [`usable_size`](RegionAllocator::usable_size) returns it too.

mod quarantine;
mod regions;

use super::frames::{Frames, Record, State, fill, is_filled};
use super::front::{Name, divide};
use crate::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, Cost, InitError, MisuseKind, RegionAllocator, ResizeInPlace,
    Stats,
};
use crate::hook;
use crate::mechanism::stats::{StatsPolicy, WithStats};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use quarantine::{Held, Quarantine};

/// The fill of fresh memory: as an address it is not aligned, as a number large and negative.
pub const FRESH: u8 = 0xA5;
/// The fill of freed memory.
pub const FREED: u8 = 0xDD;
/// Bytes of a fence by default.
pub const FENCE_BYTES: usize = 16;

/// Configuration of a guarded heap.
#[derive(Clone, Copy, Debug)]
pub struct GuardedConfig<C> {
    /// The configuration of the inner heap.
    pub heap: C,
    /// How many freed blocks are held back, the oldest leaving for the next; 16 by default. 0 returns each at once.
    pub quarantine_blocks: usize,
    /// An input of seals and fences, besides addresses and the number of heaps with frames that the program made
    /// before. Any number works: 0, the default, is as good, and reproducible. Blocks of an earlier heap of the program
    /// in the same region are never taken for this one's. If another program made the earlier heap, in shared memory or
    /// in memory that outlives a reset, use a different number than it did.
    pub secret: usize,
}

impl<C: Default> Default for GuardedConfig<C> {
    fn default() -> Self {
        GuardedConfig { heap: C::default(), quarantine_blocks: 16, secret: 0 }
    }
}

/// The control structure. The ring of the quarantine follows.
#[repr(C)]
struct Control<H, const FENCE: usize> {
    heap: H,
    frames: Frames<H, FENCE>,
    /// The digest of `frames`, by which `check` detects an overwrite.
    seal: usize,
    /// The largest payload that the fresh heap guaranteed; no alignment is larger.
    most_bytes: usize,
    /// Address of the first block's front, from which the high-water mark counts.
    origin: usize,
    /// Counts payloads; a block in quarantine is not live.
    counters: WithStats,
    quarantine: Quarantine,
}

/// The region allocator `H` with guards: fences of at least `FENCE` bytes, whole words; see the [module](self).
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::adapt::Guarded;
/// use rtalloc::contract::MisuseKind;
/// use rtalloc::{RegionAllocator, Tlsf, hook};
///
/// hook::set_misuse_hook(Some(|misuse| assert_eq!(misuse.kind, MisuseKind::Overrun)));
/// let mut memory = [MaybeUninit::uninit(); 8192];
/// let mut heap: Guarded<Tlsf> = Guarded::new(&mut memory, Default::default())?;
/// let block = heap.allocate_bytes(10, 1)?;
/// // SAFETY: a deliberate overrun: the eleventh byte is not the block's. The hook is called when the block is freed.
/// unsafe {
///     block.add(10).write(0);
///     heap.deallocate(block);
/// }
/// assert!(heap.check().is_err());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[repr(transparent)]
pub struct Guarded<'r, H, const FENCE: usize = FENCE_BYTES> {
    /// Initialised, in the region.
    control: NonNull<Control<H, FENCE>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the control structure and the inner heap belong to this value alone, and the latter is `Send`.
unsafe impl<H: Send, const FENCE: usize> Send for Guarded<'_, H, FENCE> {}

impl<'r, H: RegionAllocator<'r>, const FENCE: usize> Guarded<'r, H, FENCE> {
    const JOINED: &'static Name = &Name::joined("guarded-", H::CONTRACT.name);
    const NAME: &'static str = Self::JOINED.as_str();

    #[inline(always)]
    fn control(&self) -> &Control<H, FENCE> {
        // SAFETY: initialised when the heap was made, and changed only under `&mut self`.
        unsafe { self.control.as_ref() }
    }

    #[inline(always)]
    fn control_mut(&mut self) -> &mut Control<H, FENCE> {
        // SAFETY: initialised when the heap was made; `self` is borrowed exclusively.
        unsafe { self.control.as_mut() }
    }

    /// Address of the quarantine's ring.
    #[inline(always)]
    fn ring(&self) -> NonNull<Held> {
        // SAFETY: the region has the ring after the control structure.
        unsafe { self.control.add(1).cast() }
    }

    /// The inner heap, for queries: for example its own statistics, in which fences and quarantine are live.
    pub fn inner(&self) -> &H {
        &self.control().heap
    }

    /// Blocks in the quarantine now.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn quarantined(&self) -> usize {
        self.control().quarantine.len()
    }

    /// Returns every block in the quarantine to the inner heap; those that were written meanwhile are reported.
    ///
    /// # Time
    ///
    /// Linear in the blocks that are held.
    pub fn flush(&mut self) {
        // Loop bound: blocks in the quarantine
        while self.evict_oldest() {}
    }

    /// Reports a misuse.
    #[cold]
    #[inline(never)]
    fn report(kind: MisuseKind, address: usize) {
        hook::report(Self::NAME, kind, address);
    }

    /// Counts a refusal, and returns it.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: AllocError) -> AllocError {
        self.control_mut().counters.refused();
        error
    }

    /// Refuses requests that no heap of this size could serve.
    #[inline(always)]
    fn validate(&self, size_bytes: usize, align_bytes: usize) -> Result<usize, AllocError> {
        let control = self.control();
        control.frames.validate(size_bytes, align_bytes, control.most_bytes)
    }

    /// The record of a live block whose fences are intact.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    #[inline(always)]
    fn examine(&self, address: usize) -> Result<Record, MisuseKind> {
        let frames = &self.control().frames;
        match frames.find(address) {
            Some((record, State::Live)) => {
                // SAFETY: only a live block's record has the seal of a live block.
                unsafe { frames.check_fences(address, record.size_bytes) }?;
                Ok(record)
            }
            _ => Err(self.diagnose(address)),
        }
    }

    /// The kind of misuse for an address without a live block's record before it.
    #[cold]
    #[inline(never)]
    fn diagnose(&self, address: usize) -> MisuseKind {
        let Control { heap, frames, quarantine, .. } = self.control();
        if quarantine.holds(self.ring(), address) {
            return MisuseKind::DoubleFree;
        }
        if regions::is_elsewhere(address, frames.region().0) {
            return MisuseKind::WrongHeap;
        }
        frames.diagnose(heap, address)
    }

    /// Allocates; the arguments are valid.
    #[inline(always)]
    fn serve(
        &mut self,
        request_bytes: usize,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // Loop bound: blocks in the quarantine
        let block = loop {
            match self.control_mut().heap.allocate_bytes(request_bytes, Frames::<H, FENCE>::UNIT) {
                Ok(block) => break block.expose_provenance().get(),
                Err(AllocError::Exhausted | AllocError::Pending) if self.evict_oldest() => {}
                Err(error) => return Err(error),
            }
        };
        let payload = Frames::<H, FENCE>::payload_in(block, align_bytes);
        let control = self.control_mut();
        let record = Record { offset_bytes: payload - block, size_bytes, tag: 0 };
        // SAFETY: the block belongs to this adapter, and is large enough for payload and frame.
        unsafe {
            control.frames.write(payload, record, State::Live);
            control.frames.write_fences(payload, size_bytes);
            fill(payload, size_bytes, FRESH);
        }
        control.counters.allocated(size_bytes, (payload + size_bytes).wrapping_sub(control.origin));
        Ok(Frames::<H, FENCE>::pointer(payload))
    }

    /// Frees a live block that was examined.
    #[inline(always)]
    fn retire(&mut self, payload: usize, record: Record) {
        self.control_mut().counters.freed(record.size_bytes);
        // SAFETY: the block belongs to the adapter again, and has this size.
        unsafe { fill(payload, record.size_bytes, FREED) };
        if self.control().quarantine.capacity() == 0 {
            self.give_back(payload, record);
            return;
        }
        if self.control().quarantine.is_full() {
            self.evict_oldest();
        }
        let ring = self.ring();
        let control = self.control_mut();
        // SAFETY: the block belongs to the adapter again, and has a frame.
        unsafe { control.frames.write(payload, record, State::Held) };
        control.quarantine.push(ring, Held { payload, block: payload - record.offset_bytes });
    }

    /// Returns a block with its record to the inner heap.
    #[inline(always)]
    fn give_back(&mut self, payload: usize, record: Record) {
        let control = self.control_mut();
        // SAFETY: the block belongs to this adapter, and is no longer used. Its record is marked as gone.
        unsafe {
            control.frames.write(payload, record, State::Gone);
            control.heap.deallocate(Frames::<H, FENCE>::pointer(payload - record.offset_bytes));
        }
    }

    /// Verifies the oldest block in the quarantine, and returns it to the inner heap; false if there is none.
    #[inline(never)]
    fn evict_oldest(&mut self) -> bool {
        let ring = self.ring();
        let Some(held) = self.control_mut().quarantine.pop(ring) else { return false };
        match self.examine_held(held) {
            Ok(record) => self.give_back(held.payload, record),
            Err(record) => {
                Self::report(MisuseKind::UseAfterFree, held.payload);
                let record =
                    record.unwrap_or(Record { offset_bytes: held.payload - held.block, size_bytes: 0, tag: 0 });
                self.give_back(held.payload, record);
            }
        }
        true
    }

    /// The record of an unmodified block in the quarantine.
    ///
    /// # Errors
    ///
    /// The record of a block that was written; `None` if the record itself was overwritten.
    fn examine_held(&self, held: Held) -> Result<Record, Option<Record>> {
        let frames = &self.control().frames;
        let Some((record, State::Held)) = frames.find(held.payload) else { return Err(None) };
        // SAFETY: a block in the quarantine belongs to the adapter, and was filled.
        let is_whole = unsafe {
            frames.check_fences(held.payload, record.size_bytes).is_ok()
                && is_filled(held.payload, record.size_bytes, FREED)
        };
        if is_whole { Ok(record) } else { Err(Some(record)) }
    }

    /// See [`RegionAllocator::reallocate_bytes`].
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    #[inline(never)]
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        let request_bytes = match self.validate(size_bytes, align_bytes) {
            Ok(request_bytes) => request_bytes,
            Err(error) => return Err(self.refuse(error)),
        };
        let payload = block.addr().get();
        let record = self.live(payload)?;
        if payload & (align_bytes - 1) == 0 && size_bytes <= self.room_bytes(payload, record) {
            return Ok(self.refit(payload, record, size_bytes, |heap, block, needed_bytes| {
                // SAFETY: the block is live.
                unsafe { heap.reallocate_bytes(block, needed_bytes, Frames::<H, FENCE>::UNIT) }.ok()
            }));
        }
        let moved = match self.serve(request_bytes, size_bytes, align_bytes) {
            Ok(moved) => moved,
            Err(error) => return Err(self.refuse(error)),
        };
        // SAFETY: both blocks are live and disjoint, and both are at least as long as the copy.
        unsafe { block.copy_to_nonoverlapping(moved, size_bytes.min(record.size_bytes)) };
        self.retire(payload, record);
        Ok(moved)
    }

    /// The record of a live block; reports the address if there is none, or its fences were written.
    #[inline(always)]
    fn live(&mut self, payload: usize) -> Result<Record, AllocError> {
        self.examine(payload).map_err(|kind| {
            Self::report(kind, payload);
            self.refuse(AllocError::Misused)
        })
    }

    /// Bytes that a payload may have in place.
    #[inline(always)]
    fn room_bytes(&self, payload: usize, record: Record) -> usize {
        // SAFETY: the block of the inner heap is live.
        let usable_bytes =
            unsafe { self.control().heap.usable_size(Frames::<H, FENCE>::pointer(payload - record.offset_bytes)) };
        usable_bytes.saturating_sub(record.offset_bytes + FENCE)
    }

    /// Gives a block another size for which it has room. A function lets the inner heap shrink the block to a size; it
    /// returns the block, or `None` if it is unchanged.
    #[inline(always)]
    fn refit(
        &mut self,
        payload: usize,
        record: Record,
        size_bytes: usize,
        shrink: impl FnOnce(&mut H, NonNull<u8>, usize) -> Option<NonNull<u8>>,
    ) -> NonNull<u8> {
        let old_bytes = record.size_bytes;
        let control = self.control_mut();
        let mut block = payload - record.offset_bytes;
        if size_bytes < old_bytes {
            // Memory returned to the inner heap must not contain a record that looks live, wherever the heap moves the
            // rest.
            // SAFETY: the block is live, and its user keeps only the first `size_bytes`.
            unsafe {
                fill(payload + size_bytes, old_bytes - size_bytes, FREED);
                control.frames.unseal(payload);
                let needed_bytes = record.offset_bytes + size_bytes + FENCE;
                if let Some(kept) = shrink(&mut control.heap, Frames::<H, FENCE>::pointer(block), needed_bytes) {
                    block = kept.expose_provenance().get();
                }
            }
        }
        let payload = block + record.offset_bytes;
        // SAFETY: the block has room for payload and frame.
        unsafe {
            control.frames.write(payload, Record { size_bytes, ..record }, State::Live);
            control.frames.write_fences(payload, size_bytes);
            fill(payload + old_bytes.min(size_bytes), size_bytes.saturating_sub(old_bytes), FRESH);
        }
        control.counters.freed(old_bytes);
        control.counters.allocated(size_bytes, (payload + size_bytes).wrapping_sub(control.origin));
        Frames::<H, FENCE>::pointer(payload)
    }
}

// SAFETY: payloads lie in blocks of the inner heap, disjoint from records and fences, aligned as requested.
unsafe impl<'r, H: RegionAllocator<'r>, const FENCE: usize> RegionAllocator<'r> for Guarded<'r, H, FENCE> {
    type Config = GuardedConfig<H::Config>;

    const CONTRACT: Contract = Contract {
        name: Self::NAME,
        header_bytes: H::CONTRACT.header_bytes + Frames::<H, FENCE>::FRONT_BYTES,
        min_block_bytes: Frames::<H, FENCE>::MIN_BLOCK_BYTES,
        largest_request_bytes: Frames::<H, FENCE>::LARGEST_REQUEST_BYTES,
        largest_alignment_bytes: Frames::<H, FENCE>::LARGEST_ALIGNMENT_BYTES,
        allocate: Cost::LinearInRegion,
        deallocate: Cost::LinearInRegion,
        reallocate: Cost::LinearInRegion,
        coalescing: match H::CONTRACT.coalescing {
            Coalescing::Never => Coalescing::Never,
            Coalescing::Pages | Coalescing::Buddies | Coalescing::Neighbours | Coalescing::Deferred => {
                Coalescing::Deferred
            }
        },
        grows_in_place: false,
        detects_double_free: true,
        detects_stale_pointers: true,
        // Those of records and fences are always detected; those of the inner heap only when it gets the block back,
        // possibly after its neighbours.
        detects_overwritten_tags: false,
        largest_is_exact: false,
        ..H::CONTRACT
    };

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        const { assert!(FENCE > 0, "a fence must have at least one word") }
        let len_bytes = region.len();
        let end = region.as_ptr().addr() + len_bytes;
        let capacity = config.quarantine_blocks;
        let ring_bytes = capacity
            .checked_mul(size_of::<Held>())
            .ok_or(InitError::Configuration { what: "a quarantine that fits the address space" })?;
        let spare_bytes = Frames::<H, FENCE>::SPARE_BYTES;
        let (control, heap) = divide::<Control<H, FENCE>, H>(region, config.heap, ring_bytes, spare_bytes)?;
        let most_bytes = heap.largest_allocatable().saturating_sub(Frames::<H, FENCE>::FRAME_BYTES);
        if most_bytes == 0 {
            // A heap of this kind needs an unknown amount more for a block with a frame.
            return Err(InitError::TooSmall { needed_bytes: len_bytes.saturating_mul(2) });
        }
        let start = control.addr().get() + size_of::<Control<H, FENCE>>() + ring_bytes;
        let frames = Frames::new(start, end, config.secret);
        let origin = Frames::<H, FENCE>::origin(&heap);
        let quarantine = Quarantine::new(capacity);
        let counters = WithStats::default();
        // SAFETY: the place is in the region, aligned, and not used by the inner heap.
        unsafe {
            control.write(Control { heap, frames, seal: !frames.digest(), most_bytes, origin, counters, quarantine })
        };
        regions::remember(start, end);
        Ok(Guarded { control, region: PhantomData })
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        match self.validate(size_bytes, align_bytes).and_then(|bytes| self.serve(bytes, size_bytes, align_bytes)) {
            Ok(block) => Ok(block),
            Err(error) => Err(self.refuse(error)),
        }
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let payload = block.addr().get();
        match self.examine(payload) {
            Ok(record) => self.retire(payload, record),
            Err(kind) => Self::report(kind, payload),
        }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe { self.resize(block, size_bytes, align_bytes) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        self.control().frames.find(block.addr().get()).map_or(0, |(record, _)| record.size_bytes)
    }

    fn largest_allocatable(&self) -> usize {
        self.control().heap.largest_allocatable().saturating_sub(Frames::<H, FENCE>::FRAME_BYTES)
    }

    fn stats(&self) -> Option<Stats> {
        self.control().counters.stats(self.largest_allocatable())
    }

    /// Blocks in the quarantine are reported as free, other free blocks as the inner heap reports them.
    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        let Control { heap, frames, .. } = self.control();
        heap.walk(&mut |block| visitor(frames.shown(block)));
    }

    fn check(&self) -> Result<(), Corruption> {
        let Control { heap, frames, quarantine, counters, seal, .. } = self.control();
        let broken = |invariant, address| Err(Corruption { invariant, address });
        if *seal != !frames.digest() || !quarantine.is_sound() {
            return broken("the guard's own words are unchanged", self.control.addr().get());
        }
        heap.check()?;
        let mut held_blocks = 0;
        // Loop bound: blocks in the quarantine
        for held in quarantine.iter(self.ring()) {
            if self.examine_held(held).is_err() {
                return broken("a freed block is not written", held.payload);
            }
            held_blocks += 1;
        }
        let mut live_blocks = 0;
        let mut found = Ok(());
        heap.walk(&mut |block| {
            if block.free || found.is_err() {
                return;
            }
            let invariant = match frames.find_in(&block) {
                Some((_, _, State::Held)) => {
                    held_blocks -= 1;
                    return;
                }
                Some((payload, record, State::Live)) => {
                    live_blocks += 1;
                    // SAFETY: the record is that of a live block.
                    match unsafe { frames.check_fences(payload, record.size_bytes) } {
                        Ok(()) => return,
                        Err(MisuseKind::Overrun) => ("the fence after a block is intact", payload),
                        Err(_) => ("the fence before a block is intact", payload),
                    }
                }
                _ => ("a block's record is before its payload", block.address + Frames::<H, FENCE>::FRONT_BYTES),
            };
            found = broken(invariant.0, invariant.1);
        });
        found?;
        if held_blocks != 0_isize || counters.stats(0).is_some_and(|stats| stats.live_blocks != live_blocks) {
            return broken("the numbers of live and freed blocks match the counts", self.control.addr().get());
        }
        Ok(())
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        let Control { heap, frames, quarantine, .. } = self.control();
        heap.fingerprint(word);
        heap.walk(&mut |block| {
            if let (false, Some((_, record, state))) = (block.free, frames.find_in(&block)) {
                word(record.offset_bytes);
                word(record.size_bytes);
                word(usize::from(state == State::Live));
            }
        });
        // Loop bound: blocks in the quarantine
        for held in quarantine.iter(self.ring()) {
            word(held.payload - frames.region().0);
        }
    }
}

impl<'r, H: RegionAllocator<'r>, const FENCE: usize> fmt::Debug for Guarded<'r, H, FENCE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:p}", Self::NAME, self.control)
    }
}

// SAFETY: the inner heap's block has room for the record, the payload and the fences.
/// A block grows into what its block of the inner heap has, not into free memory after that.
unsafe impl<'r, H: ResizeInPlace<'r>, const FENCE: usize> ResizeInPlace<'r> for Guarded<'r, H, FENCE> {
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<bool, AllocError> {
        let is_too_large = match self.validate(size_bytes, align_bytes) {
            Ok(_) => false,
            Err(AllocError::TooLarge) => true,
            Err(error) => return Err(self.refuse(error)),
        };
        let payload = block.addr().get();
        let record = self.live(payload)?;
        if is_too_large || payload & (align_bytes - 1) != 0 || size_bytes > self.room_bytes(payload, record) {
            return Ok(false);
        }
        self.refit(payload, record, size_bytes, |heap, block, needed_bytes| {
            // SAFETY: the block is live.
            let is_done = unsafe { heap.resize_in_place(block, needed_bytes, Frames::<H, FENCE>::UNIT) };
            (is_done == Ok(true)).then_some(block)
        });
        Ok(true)
    }
}

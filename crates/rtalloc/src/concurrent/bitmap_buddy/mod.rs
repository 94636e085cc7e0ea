//! Bitmap buddies: binary buddies whose free blocks are bits, for several threads at a time.

mod layout;
mod release;
mod search;
mod shape;
mod tag;
mod verify;

pub use shape::{Shape, Trimmed, WORD_LOG2, Whole};

use crate::concurrent::atomics::{Atomics, Native};
use crate::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, Cost, InitError, Mechanism, MisuseKind, Operation, Progress,
    Refusals, SharedAllocator, SharedContract, SharedError, Slot, Steps,
};
use crate::hook;
use crate::mechanism::bits::floor_log2;
use crate::region::Region;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use layout::Control;
use search::Missed;

/// Most lines that a heap has for its slots.
const MOST_LINES: usize = 1 << 10;

/// What can be chosen when a heap is made.
#[derive(Clone, Copy, Debug)]
pub struct BitmapConfig {
    /// How many slots have a line of their own, rounded up to a power of two, at most 1024: as many as there are threads or
    /// cores. More slots share lines.
    pub slots: usize,
}

impl Default for BitmapConfig {
    fn default() -> Self {
        BitmapConfig { slots: 8 }
    }
}

impl BitmapConfig {
    /// Lines of the heap.
    fn lines(self) -> usize {
        self.slots.clamp(1, MOST_LINES).next_power_of_two()
    }
}

/// Binary buddies as bitmaps, with smallest blocks (*leaves*) of `LEAF` bytes, whose words are accessed by `A`.
#[derive(Debug)]
pub struct BitmapBuddy<'r, const LEAF: usize = 64, A: Atomics = Native, S: Shape = Trimmed> {
    /// The control structure, initialised, in front of everything else in the region.
    control: NonNull<Control<S, A>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the heap owns its region for 'r; whatever threads share is accessed by `A`.
unsafe impl<const LEAF: usize, A: Atomics, S: Shape> Send for BitmapBuddy<'_, LEAF, A, S> {}
// SAFETY: as above.
unsafe impl<const LEAF: usize, A: Atomics, S: Shape> Sync for BitmapBuddy<'_, LEAF, A, S> {}

/// The operations of a [`BitmapBuddy`] in the hand of one user.
#[derive(Debug)]
pub struct BitmapSlot<'h, const LEAF: usize, A: Atomics = Native, S: Shape = Trimmed> {
    control: &'h Control<S, A>,
    number: usize,
}

impl<const LEAF: usize, A: Atomics, S: Shape> Clone for BitmapSlot<'_, LEAF, A, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<const LEAF: usize, A: Atomics, S: Shape> Copy for BitmapSlot<'_, LEAF, A, S> {}

/// Why a request was refused without a search.
#[derive(Clone, Copy, Debug)]
enum Why {
    Request(AllocError),
    Missed(Missed),
}

impl<const LEAF: usize, A: Atomics, S: Shape> BitmapSlot<'_, LEAF, A, S> {
    const LEAF_LOG2: u32 = LEAF.trailing_zeros();

    /// Counts and answers a refusal.
    #[cold]
    #[inline(never)]
    fn refuse(self, why: Why) -> SharedError {
        // SAFETY: the heap exists.
        let refused = unsafe { self.control.refused() };
        let (counter, error) = match why {
            Why::Request(error) => (&refused.request, SharedError::Request(error)),
            Why::Missed(Missed::Exhausted) => (&refused.exhausted, SharedError::Exhausted),
            Why::Missed(Missed::Contended) => (&refused.contended, SharedError::Contended),
        };
        counter.fetch_add(1, Relaxed);
        error
    }

    /// Why a size beyond the limit, or zero, is refused.
    #[cold]
    #[inline(never)]
    fn refuse_size(self, size_bytes: usize) -> SharedError {
        self.refuse(Why::Request(if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge }))
    }

    /// The order whose blocks serve a request, and how many leaves it keeps of one.
    #[inline(always)]
    fn needs(size_bytes: usize, align_bytes: usize) -> (usize, usize) {
        // The larger of the two as far as the next power of two is concerned, without a comparison.
        let most = ((size_bytes - 1) | (align_bytes - 1)) >> Self::LEAF_LOG2;
        let order = match NonZeroUsize::new(most) {
            Some(most) => floor_log2(most) as usize + 1,
            None => 0,
        };
        let leaves =
            if S::TRIMS { ((size_bytes - 1) >> Self::LEAF_LOG2) + 1 } else { 1usize.wrapping_shl(order as u32) };
        (order, leaves)
    }

    /// Why a request is refused without a search, if it is.
    #[inline(always)]
    fn judge(self, size_bytes: usize, align_bytes: usize) -> Result<(), SharedError> {
        if !align_bytes.is_power_of_two() {
            return Err(self.refuse(Why::Request(AllocError::Alignment)));
        }
        // One comparison for zero and for too large.
        if size_bytes.wrapping_sub(1) >= self.control.limit_bytes {
            return Err(self.refuse_size(size_bytes));
        }
        if align_bytes > self.control.limit_bytes {
            return Err(self.refuse(Why::Request(AllocError::Alignment)));
        }
        Ok(())
    }

    /// The address of a leaf.
    #[inline(always)]
    fn address(leaf: usize) -> NonNull<u8> {
        let pointer = core::ptr::with_exposed_provenance_mut(leaf.wrapping_mul(LEAF));
        // SAFETY: no region contains address zero.
        unsafe { NonNull::new_unchecked(pointer) }
    }

    /// Reports what is wrong with an address.
    #[cold]
    #[inline(never)]
    fn report(kind: MisuseKind, address: usize) {
        hook::report(S::NAME, kind, address);
    }

    /// Makes a block of `leaves` one of `wanted`, where it stands, if that can be.
    ///
    /// # Safety
    ///
    /// The block is the caller's, and no larger one than this heap has is asked for.
    unsafe fn fit_in_place(self, leaf: usize, leaves: usize, wanted: usize) -> bool {
        if wanted == leaves {
            return true;
        }
        if wanted > leaves {
            // SAFETY: the caller's promise.
            let is_grown = unsafe { self.grow(leaf, leaves, wanted) };
            if is_grown {
                self.write_tag(leaf, wanted);
            }
            return is_grown;
        }
        self.write_tag(leaf, wanted);
        self.begin();
        // SAFETY: the block is the caller's, and its bytes tell the new length.
        let was_live = unsafe { self.give_back(leaf, wanted, leaves) };
        self.end();
        if !was_live {
            Self::report(MisuseKind::ContradictoryTags, leaf.wrapping_mul(LEAF));
        }
        true
    }

    /// See [`Slot::reallocate_bytes`].
    ///
    /// # Safety
    ///
    /// As [`Slot::reallocate_bytes`].
    #[inline(never)]
    unsafe fn resize(
        mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        self.judge(size_bytes, align_bytes)?;
        let address = block.addr().get();
        let (leaf, leaves) = match self.locate(address) {
            Ok(found) => found,
            Err(kind) => {
                Self::report(kind, address);
                return Err(self.refuse(Why::Request(AllocError::Misused)));
            }
        };
        let (_, wanted) = Self::needs(size_bytes, LEAF);
        // SAFETY: the block is live, so the caller's.
        if address & (align_bytes - 1) == 0 && unsafe { self.fit_in_place(leaf, leaves, wanted) } {
            return Ok(block);
        }
        let moved = self.allocate_bytes(size_bytes, align_bytes)?;
        // SAFETY: both blocks are live and apart, and neither is shorter than what is copied.
        unsafe {
            core::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), size_bytes.min(leaves.wrapping_mul(LEAF)));
            self.deallocate(block);
        }
        Ok(moved)
    }
}

// SAFETY: a block's leaves are bits that nobody else took: each is taken in one step, and set again when the block is freed.
unsafe impl<const LEAF: usize, A: Atomics, S: Shape> Slot for BitmapSlot<'_, LEAF, A, S> {
    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        self.judge(size_bytes, align_bytes)?;
        let (order, leaves) = Self::needs(size_bytes, align_bytes);
        match self.take(order, leaves) {
            Ok(leaf) => Ok(Self::address(leaf)),
            Err(missed) => Err(self.refuse(Why::Missed(missed))),
        }
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let address = block.addr().get();
        match self.locate(address) {
            Ok((leaf, leaves)) => {
                self.begin();
                // SAFETY: the leaf is the heap's, and a block's that is the caller's.
                let was_live = unsafe {
                    self.control.tag(leaf).store(tag::NONE, Relaxed);
                    self.give_back(leaf, 0, leaves)
                };
                self.end();
                if !was_live {
                    Self::report(MisuseKind::DoubleFree, address);
                }
            }
            Err(kind) => Self::report(kind, address),
        }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { self.resize(block, size_bytes, align_bytes) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        self.locate(block.addr().get()).map_or(0, |(_, leaves)| leaves * LEAF)
    }
}

// SAFETY: what the slots promise; the control structure and all bookkeeping lie in front of the leaves.
unsafe impl<'r, const LEAF: usize, A: Atomics, S: Shape> SharedAllocator<'r> for BitmapBuddy<'r, LEAF, A, S> {
    type Config = BitmapConfig;

    type Slot<'h>
        = BitmapSlot<'h, LEAF, A, S>
    where
        Self: 'h;

    const CONTRACT: SharedContract = {
        assert!(LEAF.is_power_of_two() && LEAF >= size_of::<usize>(), "leaves of a power of two, of a word at least");
        assert!(shape::bits::<S>() >= 2);
        SharedContract {
            alone: Contract {
                name: S::NAME,
                source: "this crate; the hierarchy of bitmaps is folklore, the buddies are Knowlton 1965",
                policy: S::POLICY,
                mechanism: Mechanism::Buddy,
                granule_bytes: LEAF,
                header_bytes: 0,
                alignment_bytes: LEAF,
                min_block_bytes: LEAF,
                splitting_threshold_bytes: 0,
                max_span_bytes: match LEAF.checked_shl(tag::LAST_ORDER as u32 + 1) {
                    Some(bytes) if bytes != 0 => bytes,
                    _ => usize::MAX,
                },
                largest_request_bytes: usize::MAX,
                largest_alignment_bytes: usize::MAX,
                page_bytes: 0,
                coarsest_bytes: 0,
                allocate: Cost::LinearInRegion,
                deallocate: Cost::LogarithmicInRegion,
                reallocate: Cost::LinearInRegion,
                coalescing: Coalescing::Buddies,
                grows_in_place: false,
                shrinks_in_place: true,
                detects_double_free: true,
                detects_stale_pointers: true,
                detects_overwritten_tags: false,
                largest_is_exact: true,
                largest_covers_smaller: true,
            },
            allocate: Progress::WaitFree,
            deallocate: Progress::WaitFree,
            slots_are_exclusive: false,
            exhaustion_is_certain: true,
        }
    };

    fn new(region: &'r mut [MaybeUninit<u8>], config: BitmapConfig) -> Result<Self, InitError> {
        let max_span_bytes = Self::CONTRACT.alone.max_span_bytes;
        if region.len() > max_span_bytes {
            return Err(InitError::OutOfReach { max_span_bytes });
        }
        let lines = config.lines();
        let too_small = InitError::TooSmall { needed_bytes: Control::<S, A>::needed_bytes(LEAF, lines) };
        let start = region.as_ptr().addr();
        let (place, control) = Control::<S, A>::plan(start, start + region.len(), LEAF, lines).ok_or(too_small)?;
        // The provenance is exposed here, once, for all addresses.
        let _region = Region::new(region);
        let at = NonNull::new(core::ptr::with_exposed_provenance_mut(place)).ok_or(too_small)?;
        // SAFETY: the control structure and what it leads to lie in the region, where it was planned.
        unsafe {
            at.write(control);
            at.as_ref().begin();
        }
        Ok(BitmapBuddy { control: at, region: PhantomData })
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        usize::MAX
    }

    #[inline(always)]
    fn take(&self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn release(&self, _: usize) {}

    #[inline(always)]
    unsafe fn slot(&self, slot: usize) -> Self::Slot<'_> {
        // SAFETY: the control structure is initialised, and lives as long as the heap.
        BitmapSlot { control: unsafe { self.control.as_ref() }, number: slot }
    }

    fn most_steps(&self, operation: Operation) -> Option<Steps> {
        let _ = operation;
        None
    }

    fn refusals(&self) -> Refusals {
        // SAFETY: the control structure is initialised.
        let refused = unsafe { self.control.as_ref().refused() };
        Refusals {
            request: refused.request.load(Relaxed),
            exhausted: refused.exhausted.load(Relaxed),
            contended: refused.contended.load(Relaxed),
            pending: 0,
        }
    }

    fn largest_allocatable(&mut self) -> usize {
        // SAFETY: any number is a slot's, here and below.
        unsafe { self.slot(0) }.largest()
    }

    fn walk(&mut self, visitor: &mut dyn FnMut(Block)) {
        // SAFETY: as above.
        unsafe { self.slot(0) }.visit_blocks(visitor);
    }

    fn check(&mut self) -> Result<(), Corruption> {
        // SAFETY: as above.
        unsafe { self.slot(0) }.verify()
    }

    fn fingerprint(&mut self, word: &mut dyn FnMut(usize)) {
        // SAFETY: as above.
        unsafe { self.slot(0) }.emit_state(word);
    }
}

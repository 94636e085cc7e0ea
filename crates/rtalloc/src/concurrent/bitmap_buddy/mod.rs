//! Bitmap buddies: binary buddies for several threads, whose free blocks are bits.
//!
//! # Idea
//!
//! A word has 64 bits (32 on 32-bit machines), and a hierarchy of words has a bit for every leaf, for every 64 leaves,
//! for every 4096, and so on. A set bit means that all of its leaves are free, and that no other bit stands for them. A
//! block of `2^o` leaves is a run of `2^(o mod 6)` set bits, aligned to its length, on level `o / 6`; so each order is
//! found by a few shifts in one word, and taken by one instruction. (Buddies are Knowlton 1965; bitmaps instead of
//! their lists are folklore; the protocol is this crate's. It is an alternative to the tree of counters of the
//! wait-free paper of 2010, whose free takes steps in proportion to the block.)
//!
//! ```text
//! words of 4 bits:   level 2   [. . . 1]                               the last 16 leaves are free
//!                    level 1   [. . 1 1]  [. . . .]                    so are 8 of the first 16
//!                    level 0   [. . 1 1]  [. . . .]  (0)  (0)  ...     and two single leaves
//! ```
//!
//! Leaves, bits and words are numbered from address zero: a block is aligned to its size, a region need not be, and the
//! number of a bit's word is the bit's number divided. Leaves at either end that no larger bit covers never merge.
//!
//! # Taking, opening, giving back, closing
//!
//! ```text
//! take      a word                [1 1 1 1] -> [. 1 1 1]      one fetch-and; a run: one compare-and-swap
//! open      a bit above           [1 1 . .] -> [. 1 . .]      taken first: its taker owns what lies below
//!           the word below        (0)       -> [. 1 1 1]      one swap: the part that the taker does not need
//! give      a word                [. 1 1 .] -> [1 1 1 .]      one fetch-and-add
//! close     the word, if full     [1 1 1 1] -> (0)            one compare-and-swap; if it fails, the word stays open
//!           the bit above         [. 1 . .] -> [1 1 . .]      and so on upwards
//! ```
//!
//! A word's transitions, and which operations may make them:
//!
//! | transition | step | ordering | by |
//! |---|---|---|---|
//! | any to fewer bits | fetch-and of one bit, compare-and-swap of several | acquire | any taker; it owns the bits that were set |
//! | any to more bits | fetch-and-add: they are clear | release, acquire | the owner of those bits |
//! | full to empty | compare-and-swap | acquire | an operation that added bits to it; it then owns the bit above |
//! | empty to some bits | swap | release, acquire | the owner of the bit above, which took it |
//!
//! No operation changes an empty word whose bit above is set, or taken and not opened yet: a fetch-and of clear bits
//! changes nothing, a compare-and-swap finds another value, and no bit below has an owner. A bit always stands for the
//! same memory, so a word may change and change back between a load and a compare-and-swap without harm. Orderings: an
//! owner's accesses to a block come before it adds the bits; takers of the same bits acquire them; a closer acquires
//! them by its compare-and-swap, and releases them by adding the bit above; an opener acquires them by taking that bit,
//! and releases them by its swap.
//!
//! # Trimmed blocks
//!
//! A block keeps the leaves it needs, not a power of two of them (unless [`Whole`]): the request for 3 leaves takes a
//! run of 4 and leaves the last bit set, in the same step; that for 33 takes a bit of level 1, opens it and leaves the
//! 31 others below. The length of a block is stored in the bytes of its own leaves in the byte map: the first has the
//! logarithm, the next ones the number, six bits each. A block whose length needs several such bytes always has that
//! many leaves. When it is freed, its leaves are a run of one word per level, and if the word below closes, its bit is
//! the next one of the run: so the block, however trimmed, is freed with one fetch-and-add per level.
//!
//! # Where a search looks
//!
//! A search starts in the word that its slot served last, then follows lists of words. For every level and every length
//! of run there is a list: again a hierarchy of bits, one for each word whose longest run has this length or had when
//! it was listed. A word is listed when an added bit makes its longest run longer. That its run has become shorter is
//! found by a search that fails there and finds a block elsewhere; only then is the word unlisted. Next, the search
//! opens a bit of the next level. At last it examines every word once. Lists are hints, but no entry is lost: an
//! unlisting operation examines the word again, by an RMW that changes nothing (a release), and an operation that later
//! adds a bit or opens the word sees the updated list (an acquire; a plain store that opens could be delayed while both
//! look). So at rest, every word that has a free bit is in the list of its longest run or of a longer one, which
//! [`check`](SharedAllocator::check) verifies.
//!
//! # Exhausted or contended
//!
//! Memory is invisible for a moment when a closer has emptied a word and not yet set the bit above, and when an opener
//! has taken a bit and not yet opened the word below; and leaves may be freed in words that a search has already
//! examined. Every operation that does any of this counts itself, in the line of its slot, before and after: *begun*
//! (acquire) and *ended* (release). A search sums the ended counts (acquire) before it examines every word, and the
//! begun counts (by a fetch-and-add of zero: release) after it. If the sums are equal, every operation that ever began
//! had ended before, and none has begun since: in each line the second number is at least the first. The words then
//! only lost bits meanwhile, so at the end there was no block: [`Exhausted`](SharedError::Exhausted). Otherwise the
//! result is [`Contended`](SharedError::Contended), as it is if a run was seen and lost to another taker. An allocation
//! that opens nothing is not counted: it makes no memory free.
//!
//! # Costs
//!
//! With n leaves, L levels (1 to 6), and W = n/63 words: an allocation takes one load of a hint, one of a word and one
//! RMW where the slot's word has a run; else about seven loads and two RMWs on average in a churned heap; and where
//! nearly all is taken, 2·W and some. A deallocation takes 1 load, 1 compare-and-swap of a byte, 2 counts, and on each
//! level up to where the merging ends one fetch-and-add and one compare-and-swap; where it ends the word may have to be
//! listed, with a load and an RMW for each level above (a trimmed block, on each level where it has bits): at most 29
//! RMWs on six levels. An allocation that opens takes as many, and a swap for each word that it opens.
//! [`max_steps`](SharedAllocator::max_steps) has the exact bounds. All operations are wait-free. Free memory is never
//! read or written. Besides the leaves there are a byte for each, a bit and a seventieth for each with the bits of the
//! upper levels, six seventieths for the lists, and a line of 64 bytes for each slot: 1.8 % with leaves of 64.
//!
//! # When it wins, when it loses
//!
//! Constant work in the common case, a free in logarithmic time whatever the size, alignment up to the block's size at
//! no cost, internal waste below one leaf. The words of the highest levels are shared: threads that open and close all
//! the time contend there. An allocation from an exhausted heap examines every word, and a last free leaf is found at
//! the end of that. Two words of a region's map are written for every block. Requests below a leaf take a leaf.
//!
//! # Reallocation
//!
//! A block shrinks in place, and its tail is freed. It grows in place if it is aligned for its new size and the bits
//! after it, in the word of its last bit, are set: by one compare-and-swap, or not at all.
//!
//! # Misuse
//!
//! A byte of the map has a parity bit, and shows that a block is live. A free swaps it for zero if it is unchanged. So
//! a second free, even a concurrent one, a pointer into a block, and a byte with one flipped bit are reported, and
//! nothing is changed. A second free is not detected if a new block was allocated there: before the second free reads
//! the byte, any block; after that, one whose first byte is the same. Then that block is freed. If it is a trimmed one
//! of another length, bits are added that are already set or not its own, and adding to a set bit carries to the next:
//! this is undone at once, and reported, but an operation that takes a block of that word in between may receive memory
//! that is in use. (An or would not carry. On x86-64 it would be a loop that other threads can prolong without bound.)
//!
//! # Instructions
//!
//! A step is one instruction where the machine has one for it. x86-64 has none that sets or clears bits and returns all
//! previous bits: a compiler makes a loop of it, which other threads can prolong without bound. So bits are freed by
//! adding (they are clear), taken by an and that tests one bit (`btr`) or a single compare-and-swap, opened by a swap,
//! and listed without a returned value. On machines with only load-linked and store-conditional every step is a loop:
//! there all this is lock-free.
//!
//! # Figures
//!
//! <!-- figures: bitmap-buddy -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `bitmap-buddy` | 23217, or 77522 + 154 per word (linear from 128 iterations), 23224, or 77529 + 154 per word (linear from 128 iterations), 1,680 | 0 B | 64 B | 1,536 B, 18,880 B | 118.0 %, 144.0 % |
//!
//! Measured 2026-11-29 at 2773d74 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

mod bounds;
mod layout;
mod release;
mod search;
mod shape;
mod tag;
mod verify;
#[cfg(test)]
mod white_box;

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
use release::Live;
use search::Missed;

/// Most lines that a heap has for its slots.
const MAX_LINES: usize = 1 << 10;

/// Configuration of a heap.
#[derive(Clone, Copy, Debug)]
pub struct BitmapConfig {
    /// Number of slots with a line of their own, rounded up to a power of two, at most 1024: as many as there are
    /// threads or cores. More slots share lines.
    pub slots: usize,
}

impl Default for BitmapConfig {
    fn default() -> Self {
        BitmapConfig { slots: 8 }
    }
}

impl BitmapConfig {
    /// Number of lines.
    fn lines(self) -> usize {
        self.slots.clamp(1, MAX_LINES).next_power_of_two()
    }
}

/// Binary buddies as bitmaps, with smallest blocks (*leaves*) of `LEAF` bytes, whose words are accessed by `A`.
#[derive(Debug)]
pub struct BitmapBuddy<'r, const LEAF: usize = 64, A: Atomics = Native, S: Shape = Trimmed> {
    /// The control structure, initialised, before everything else in the region.
    control: NonNull<Control<S, A>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the heap owns its region for 'r; shared words are accessed through `A`.
unsafe impl<const LEAF: usize, A: Atomics, S: Shape> Send for BitmapBuddy<'_, LEAF, A, S> {}
// SAFETY: as for `Send`.
unsafe impl<const LEAF: usize, A: Atomics, S: Shape> Sync for BitmapBuddy<'_, LEAF, A, S> {}

/// One user's operations on a [`BitmapBuddy`].
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

/// Why a request was refused.
#[derive(Clone, Copy, Debug)]
enum Why {
    Request(AllocError),
    Missed(Missed),
}

impl<const LEAF: usize, A: Atomics, S: Shape> BitmapSlot<'_, LEAF, A, S> {
    const LEAF_LOG2: u32 = LEAF.trailing_zeros();

    /// Counts a refusal, and returns the error.
    #[cold]
    #[inline(never)]
    fn refuse(self, why: Why) -> SharedError {
        // SAFETY: the heap is initialised.
        let refused = unsafe { self.control.refused() };
        let (counter, error) = match why {
            Why::Request(error) => (&refused.request, SharedError::Request(error)),
            Why::Missed(Missed::Exhausted) => (&refused.exhausted, SharedError::Exhausted),
            Why::Missed(Missed::Contended) => (&refused.contended, SharedError::Contended),
        };
        counter.fetch_add(1, Relaxed);
        error
    }

    /// Returns why a size of zero or beyond the limit is refused.
    #[cold]
    #[inline(never)]
    fn refuse_size(self, size_bytes: usize) -> SharedError {
        self.refuse(Why::Request(if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge }))
    }

    /// The order whose blocks serve a request, and how many leaves the request keeps of one.
    #[inline(always)]
    fn needs(size_bytes: usize, align_bytes: usize) -> (usize, usize) {
        // Rounds up to the same power of two as the larger of the two would, without a comparison.
        let most = ((size_bytes - 1) | (align_bytes - 1)) >> Self::LEAF_LOG2;
        let order = match NonZeroUsize::new(most) {
            Some(most) => floor_log2(most) as usize + 1,
            None => 0,
        };
        let leaves =
            if S::TRIMS { ((size_bytes - 1) >> Self::LEAF_LOG2) + 1 } else { 1usize.wrapping_shl(order as u32) };
        (order, leaves)
    }

    /// Refuses a request that needs no search.
    #[inline(always)]
    fn validate(self, size_bytes: usize, align_bytes: usize) -> Result<(), SharedError> {
        if !align_bytes.is_power_of_two() {
            return Err(self.refuse(Why::Request(AllocError::Alignment)));
        }
        // One comparison for both zero and too large.
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

    /// Reports misuse of an address.
    #[cold]
    #[inline(never)]
    fn report(kind: MisuseKind, address: usize) {
        hook::report(S::NAME, kind, address);
    }

    /// Resizes a block of `leaves` to `wanted` in place, if possible.
    ///
    /// # Safety
    ///
    /// The block belongs to the caller, and `wanted` is at most the heap's largest block.
    unsafe fn fit_in_place(self, leaf: usize, leaves: usize, wanted: usize) -> bool {
        if wanted == leaves {
            return true;
        }
        if wanted > leaves {
            // SAFETY: the block belongs to the caller, and `wanted` is at most the heap's largest block.
            let is_grown = unsafe { self.grow(leaf, leaves, wanted) };
            if is_grown {
                self.write_tag(leaf, wanted);
            }
            return is_grown;
        }
        self.write_tag(leaf, wanted);
        self.begin();
        // SAFETY: the block belongs to the caller, and its bytes already have the new length.
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
        self.validate(size_bytes, align_bytes)?;
        let address = block.addr().get();
        let Live { leaf, leaves, .. } = match self.locate(address) {
            Ok(found) => found,
            Err(kind) => {
                Self::report(kind, address);
                return Err(self.refuse(Why::Request(AllocError::Misused)));
            }
        };
        let (_, wanted) = Self::needs(size_bytes, LEAF);
        // SAFETY: the caller guarantees that the block is live and its own; `wanted` passed the limit.
        if address & (align_bytes - 1) == 0 && unsafe { self.fit_in_place(leaf, leaves, wanted) } {
            return Ok(block);
        }
        let moved = self.allocate_bytes(size_bytes, align_bytes)?;
        // SAFETY: both blocks are live and disjoint, and both are at least as long as the copy.
        unsafe {
            core::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), size_bytes.min(leaves.wrapping_mul(LEAF)));
            self.deallocate(block);
        }
        Ok(moved)
    }
}

impl<const LEAF: usize, A: Atomics, S: Shape> BitmapBuddy<'_, LEAF, A, S> {
    /// The most words that the bitmaps of a region of this length have, on all levels together, for any start address:
    /// as many as a failed allocation examines.
    pub const fn max_words(region_bytes: usize) -> usize {
        layout::max_words::<S>(region_bytes / LEAF)
    }
}

// SAFETY: a block's leaves are bits that no other operation took: each is taken in one step, and set again by the free.
unsafe impl<const LEAF: usize, A: Atomics, S: Shape> Slot for BitmapSlot<'_, LEAF, A, S> {
    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        self.validate(size_bytes, align_bytes)?;
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
            Ok(Live { leaf, leaves, byte }) => {
                // Of several concurrent frees of the block, one finds it live. A block of another length that was
                // allocated there meanwhile is not the caller's.
                // SAFETY: the leaf is one of the heap's.
                if unsafe { self.control.tag(leaf) }.compare_exchange(byte, tag::NONE, Relaxed).is_err() {
                    return Self::report(MisuseKind::DoubleFree, address);
                }
                self.begin();
                // SAFETY: the block was live, and belongs to the caller.
                let was_live = unsafe { self.give_back(leaf, 0, leaves) };
                self.end();
                if !was_live {
                    Self::report(MisuseKind::ContradictoryTags, address);
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
        // SAFETY: the caller guarantees that the block is live and its own.
        unsafe { self.resize(block, size_bytes, align_bytes) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        self.locate(block.addr().get()).map_or(0, |live| live.leaves * LEAF)
    }
}

// SAFETY: as for the slots; the control structure and all metadata lie before the leaves.
unsafe impl<'r, const LEAF: usize, A: Atomics, S: Shape> SharedAllocator<'r> for BitmapBuddy<'r, LEAF, A, S> {
    type Config = BitmapConfig;

    type Slot<'h>
        = BitmapSlot<'h, LEAF, A, S>
    where
        Self: 'h;

    const CONTRACT: SharedContract = {
        assert!(LEAF.is_power_of_two() && LEAF >= size_of::<usize>(), "LEAF must be a power of two, at least a word");
        assert!(shape::bits::<S>() >= 2);
        SharedContract {
            single_user: Contract {
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
        let max_span_bytes = Self::CONTRACT.single_user.max_span_bytes;
        if region.len() > max_span_bytes {
            return Err(InitError::OutOfReach { max_span_bytes });
        }
        let lines = config.lines();
        let too_small = InitError::TooSmall { needed_bytes: Control::<S, A>::needed_bytes(LEAF, lines) };
        let start = region.as_ptr().addr();
        let (place, control) = Control::<S, A>::plan(start, start + region.len(), LEAF, lines).ok_or(too_small)?;
        // Exposes the region's provenance once, for all addresses.
        let _region = Region::new(region);
        let at = NonNull::new(core::ptr::with_exposed_provenance_mut(place)).ok_or(too_small)?;
        // SAFETY: the control structure and everything it leads to lie in the region, where they were planned.
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

    fn max_steps(&self, operation: Operation) -> Option<Steps> {
        // SAFETY: slot numbers are hints: any number is valid.
        let slot = unsafe { self.slot(0) };
        let needs = |size_bytes: usize, align_bytes: usize| {
            let limit_bytes = slot.control.limit_bytes;
            let is_served = align_bytes.is_power_of_two() && align_bytes <= limit_bytes;
            (is_served && size_bytes.wrapping_sub(1) < limit_bytes)
                .then(|| BitmapSlot::<LEAF, A, S>::needs(size_bytes, align_bytes))
        };
        // A block that kept more leaves for its alignment than for its bytes loses them when resized in place.
        let kept = |size_bytes, align_bytes| Some([needs(size_bytes, align_bytes)?.1, needs(size_bytes, LEAF)?.1]);
        // A refusal without a search is counted.
        let counted = Steps { read_modify_writes: 1, loads: 0, stores: 0 };
        Some(match operation {
            Operation::Allocate { size_bytes, align_bytes } => match needs(size_bytes, align_bytes) {
                Some((order, leaves)) => slot.steps_to_take(order, leaves),
                None => counted,
            },
            Operation::Deallocate { size_bytes, align_bytes } => {
                let [moved, resized] = kept(size_bytes, align_bytes)?;
                slot.steps_to_give(moved).max(slot.steps_to_give(resized))
            }
            Operation::Reallocate { old_bytes, size_bytes, align_bytes } => match needs(size_bytes, align_bytes) {
                Some((order, leaves)) => {
                    let resized = needs(size_bytes, LEAF)?.1;
                    let most =
                        |old| slot.steps_to_resize(old, order, leaves).max(slot.steps_to_resize(old, order, resized));
                    let [one, other] = kept(old_bytes, align_bytes)?;
                    most(one).max(most(other))
                }
                None => counted,
            },
            Operation::Reclaim { .. } => Steps::default(),
        })
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
        // SAFETY: slot numbers are hints: any number is valid.
        unsafe { self.slot(0) }.largest()
    }

    fn walk(&mut self, visitor: &mut dyn FnMut(Block)) {
        // SAFETY: slot numbers are hints: any number is valid.
        unsafe { self.slot(0) }.visit_blocks(visitor);
    }

    fn check(&mut self) -> Result<(), Corruption> {
        // SAFETY: slot numbers are hints: any number is valid.
        unsafe { self.slot(0) }.verify()
    }

    fn fingerprint(&mut self, word: &mut dyn FnMut(usize)) {
        // SAFETY: slot numbers are hints: any number is valid.
        unsafe { self.slot(0) }.emit_state(word);
    }
}

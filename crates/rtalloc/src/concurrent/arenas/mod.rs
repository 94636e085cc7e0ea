//! Multi-core arenas: a sequential heap for every slot, and remote-free queues for blocks that another slot frees.
//!
//! # Idea
//!
//! The region is divided into equal *arenas*, one for each slot. Every arena is run by a sequential heap, [`Tlsf`] by
//! default. A slot allocates from its own arena as if it were alone: no other thread ever touches that heap. A slot
//! that frees a block of another slot pushes it to a *remote-free queue* of the owner ([`remote_queue`]). The owner
//! frees the block the next time it allocates. So the shared part of the allocator is a set of stacks with one producer
//! and one consumer each; the rest is the sequential heap, with its bound, its tests and its fragmentation.
//!
//! ```text
//! slot 0                         slot 1                          slot 2
//! allocate, free                 allocate, free                  allocate, free
//!    |   \_ free(block of 1) __     |    \_ free(block of 2) __     |
//!    v                         \    v                          \    v
//! [arena 0: Tlsf]           queue ->[arena 1: Tlsf]         queue ->[arena 2: Tlsf]
//!
//! region: [plan][refusals][places of the slots][queues, a row for each producer][arena 0][arena 1] ... [rest]
//! place:  [chain, first block, span, heap]                   written by the slot's user alone
//!         [pending bits, claim]                              written by others: a cache line of its own
//! ```
//!
//! An allocation checks for queued remote frees. If there are any, it takes back at most K blocks (`reclaim_budget`)
//! before it serves its request. If the heap then finds nothing, it takes back at most K_miss
//! (`reclaim_budget_on_miss`) more and tries again. Frees that were collected from a queue but not yet processed wait
//! in the slot's own *chain*.
//!
//! We found no source that describes this combination; its parts are old. Per-thread heaps are Hoard's and ptmalloc's,
//! lists of remote frees are those of mimalloc and snmalloc, and it is not the first wait-free allocator: wfspan (2022)
//! exists on paper. What is combined here is a constant-time heap that coalesces, and a remote free whose bound does
//! not depend on other threads.
//!
//! # Progress, and why
//!
//! Every operation is *wait-free*: it ends within a number of its own steps that [`max_steps`] returns beforehand,
//! whether other threads run, wait, or stop forever in the middle of an operation. T is the number of slots, K and
//! K_miss are as above, c = 2 (3 where T is more than the bits of a word), g = T / bits of a word, rounded up.
//!
//! | operation | sequential part | steps on shared words |
//! |---|---|---|
//! | allocate, no queued remote frees | 1 allocate of H | 1 load |
//! | allocate, with queued remote frees | 1 allocate and at most K deallocates of H | 1 load, and for each block taken back c RMWs, 2 + g loads |
//! | allocate, when H finds nothing | 2 allocates and at most K + K_miss deallocates of H | the same, and 2 RMWs |
//! | deallocate, of this slot's block | 1 deallocate of H | none |
//! | deallocate, of another slot's block | none | at most 2 RMWs, 1 load, 3 stores |
//! | reallocate | as H, or allocate, copy and deallocate | as their sum |
//! | reclaim of n blocks | n deallocates of H | for each, c RMWs, 2 + g loads |
//! | take, release | none | 1 RMW, 1 store |
//!
//! An *RMW* is one atomic read-modify-write (fetch-and-or, swap, compare-and-swap). Tags are not counted: the size that
//! a remote deallocate reads from the block's header, and ordinary stores to tags.
//!
//! 1. *No step waits for another thread's.* No loop ends because another thread does something. Loops iterate over the
//!    blocks to take back, at most K, K_miss or the budget, or over words of producers, at most g.
//! 2. *A compare-and-swap fails at most once.* The only one in a free is that of the queue, which only the owner
//!    empties; after a failure the queue is empty, and only this producer can change that ([`remote_queue`]).
//! 3. *No two threads use one heap.* A heap is used by the holder of its slot, one at a time (`claim`, or the contract
//!    of [`slot`](SharedAllocator::slot)). In the arena of another slot, a slot touches only blocks that it holds, and
//!    the size in the header of one that it frees or resizes. That size does not change while the block is live; the
//!    flag beside it does, so both sides access that word by relaxed atomics, which are ordinary instructions.
//! 4. *No block is lost or freed twice.* A block is held by the user, in one queue, in one chain, or free. It enters
//!    the queue by the step that writes the queue's word, and goes from queue to chain by the swap that empties the
//!    queue. A chain is used by its owner alone.
//! 5. *What was written before a free is visible to the block's next user:* release in the push, acquire in the swap,
//!    and from there on the program order of the owner's thread.
//! 6. *Exhausted is certain.* When it is returned, H has refused, the chain is empty, and at a moment after that no
//!    pending bit was set: every free that had completed by then was taken back before.
//!
//! A local allocation and deallocation execute no atomic instruction beyond a load that is an ordinary one: no lock
//! prefix, no fence, no exclusive load or store. So an interrupt handler may preempt its thread anywhere, even inside
//! an operation, and allocate and free *through its own slot*: give every interrupt level a slot, like every core. The
//! handler meets no lock, and needs nothing from the preempted slot.
//!
//! # Memory
//!
//! - Fixed: two cache lines for each slot, and a row of 4·T bytes in whole cache lines for each: 4·T² bytes or little
//!   more. Two lines for the plan. 4 slots: 896 B; 64 slots: 24.1 KiB.
//! - The shares are equal and of whole cache lines, and the last arena takes the remainder: nothing of the region is
//!   lost except what aligns its start to a line. (Shares of a power of two would reduce finding a block's owner to a
//!   shift, and could waste half of the region. Only remote frees divide, where cache misses between cores cost more.)
//! - A request larger than the largest block of one arena is too large, however much is free in others: about 1/T of
//!   the region.
//! - *Blow-up.* A block returns to the arena it came from, so memory does not drift between producers and consumers:
//!   what an arena needs follows from what its own slot allocates. Let m(s) be the most that slot s has allocated at a
//!   time, whichever slots free it. Then arena s needs what H needs for m(s), plus its queued remote frees. As the
//!   shares are equal, each must hold the largest of these needs. Where slots have similar budgets, nothing is lost.
//!   Where budgets differ, or a peak moves from slot to slot, the region is up to T times what one heap would have
//!   needed, and not more: give slots with small budgets a heap of their own.
//! - *Queued remote frees* are freed, but count as used until they are taken back. With K >= 2, an owner that keeps
//!   allocating takes back two for every block it hands out, so a backlog shrinks by one with every allocation: a block
//!   waits for no more allocations than there were live blocks when it was queued. (Where slots share a pending bit, a
//!   bit may lead to an empty queue: with g slots to a bit, once for g / (g - 1) blocks at most. Two for one then takes
//!   K >= 3 if g is 2, and K >= 4 beyond.) An allocation that finds nothing takes back K_miss at once, and returns
//!   [`Pending`](SharedError::Pending) if more are left: each retry makes progress.
//!
//! # Weak points
//!
//! - Queues grow with the square of the slots. This allocator does not suit hundreds of threads, each with a slot;
//!   threads that come and go share slots through [`claim_any`](SharedAllocator::claim_any).
//! - An owner that never allocates keeps the blocks that others free to it until it calls [`reclaim`](Slot::reclaim)
//!   ([`Global::reclaim`](crate::adapt::Global::reclaim) where the heap is the global allocator), or until its slot
//!   passes to a user that allocates; no other slot can take them back. An arena whose slot is not held serves no
//!   requests, unless `ThreadSlots` lends the slot to a thread that has run out of memory.
//! - An arena does not lend to another. A slot may be exhausted beside an empty arena.
//! - A block does not shrink in place when another slot resizes it, which only the owner could: it moves to that slot
//!   if it would keep more than twice its new size, unless the slot has no memory for it.
//! - Under [`Global`](crate::adapt::Global) and [`Joint`](crate::adapt::Joint) with `ThreadSlots`, a request that finds
//!   its arena full has no bound: it takes back everything, waits for a lock and tries other arenas.
//! - On processors that build an RMW from an exclusive load and store (Armv7, Armv8.0; RISC-V without Zacas for the
//!   compare-and-swap), a step may have to be repeated because another core wrote to the same cache line. There each
//!   step is lock-free, and the bounds count steps, not instructions.
//! - Misuse. A foreign pointer is recognised by its address. A second free by the owner is found as H finds it. A
//!   double free that involves another slot is found in these cases: at once, if the same slot frees the block twice in
//!   a row; when the block has been taken back and its tag still marks it free; by H when the second queued free is
//!   processed, unless the memory was allocated again. Not found: a block queued twice with others in between, or by
//!   two slots. The chain is then damaged: frees after the second one may be lost or processed twice, and only the tags
//!   that H tests keep the heap from giving one block to two users. Writing to a block while it is queued breaks the
//!   chain, which is found if the link leads out of the arena.
//!
//! # When it wins, when it loses
//!
//! It is the allocator for several cores with bounds: an allocation and a deallocation of one thread cost what [`Tlsf`]
//! costs and, on x86-64, seven and six instructions more. It loses where one thread needs what all others have free,
//! and against a single heap under a lock where memory matters more than time.
//!
//! [`max_steps`]: SharedAllocator::max_steps
//!
//! # Figures
//!
//! <!-- figures: arenas -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `arenas` | 5,634, 5,642, 86 | 4 B | 16 B | 1,500 B, 2,012 B | 9.1 %, 21.7 % |
//!
//! Measured 2026-11-27 at 0747602 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

pub mod remote_queue;
#[cfg(test)]
mod tests;
mod verify;

use crate::concurrent::LINE_BYTES;
use crate::concurrent::atomics::{Atomics, Native};
use crate::concurrent::slots::{Common, Line, Refused, times};
use crate::contract::{
    AllocError, Block, Contract, Corruption, InitError, LoopBound, Mechanism, MisuseKind, Observable, Operation,
    Progress, Refusals, SharedAllocator, SharedContract, SharedError, Slot, Steps, loop_bound,
};
use crate::hook::report;
use crate::mechanism::pair_result::PairResult;
use crate::region::{Region, round_up};
use crate::segregated::Tlsf;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::num::NonZeroUsize;
use core::ops::Range;
use core::ptr::NonNull;
use remote_queue::{Link, PUSH_STEPS, Pushed, QueuedFree, RemoteQueue, collect_steps};

/// How [`Arenas`] are made.
#[derive(Clone, Copy, Debug)]
pub struct ArenasConfig<C> {
    /// Number of slots, at least 1: threads, cores, interrupt levels. Each gets the same share of the region.
    pub slots: usize,
    /// Most blocks that an allocation takes back before it serves its request, at least 1. From 2 on, every block is
    /// taken back eventually if only its owner keeps allocating (from 4 on, with more slots than a word has bits).
    pub reclaim_budget: usize,
    /// Most blocks that an allocation takes back when it finds no free block, before it tries again, at least 1.
    pub reclaim_budget_on_miss: usize,
    /// Configuration of the heaps in the arenas.
    pub heap: C,
}

impl<C: Default> Default for ArenasConfig<C> {
    /// 4 slots, 2 blocks taken back, 32 on a miss.
    fn default() -> Self {
        ArenasConfig { slots: 4, reclaim_budget: 2, reclaim_budget_on_miss: 32, heap: C::default() }
    }
}

/// The start of the region.
#[repr(C)]
struct Control<A: Atomics> {
    plan: Line<Plan>,
    refused: Line<Refused<A>>,
}

/// What is fixed when the heap is made.
#[derive(Clone, Copy, Debug)]
struct Plan {
    slots: usize,
    reclaim_budget: usize,
    reclaim_budget_on_miss: usize,
    /// Bytes of one producer's queues, whole cache lines.
    row_bytes: usize,
    /// Address of the first queue.
    queues: usize,
    /// Address of the first arena.
    arenas: usize,
    /// Bytes of an arena, whole cache lines; the last one also takes the remainder.
    share_bytes: NonZeroUsize,
    /// First address after the region.
    end: usize,
}

impl Plan {
    /// Address range of a slot's arena.
    fn arena(&self, slot: usize) -> Range<usize> {
        let start = self.arenas.wrapping_add(slot.wrapping_mul(self.share_bytes.get()));
        let is_last = slot.wrapping_add(1) == self.slots;
        start..if is_last { self.end } else { start.wrapping_add(self.share_bytes.get()) }
    }
}

/// The state of a slot.
#[repr(C)]
struct Place<H, A: Atomics> {
    own: Line<Own<H>>,
    common: Line<Common<A>>,
}

/// The part of a slot's state that only the slot's user writes.
#[repr(C)]
struct Own<H> {
    /// Queued frees that were collected but not processed: the latest one, or 0. Used by the owner alone.
    chain: Cell<usize>,
    /// Address of the first block in the arena.
    first: usize,
    /// Bytes from there to the end of the arena.
    span_bytes: usize,
    /// The heap in the arena: one pointer, which is never written again. Users of the heap make a copy.
    heap: ManuallyDrop<H>,
    /// A checksum of `first`, `span_bytes` and the heap's address, so that a check detects an overwrite first.
    seal: usize,
}

impl<H> Own<H> {
    /// The heap's pointer as an address.
    fn heap_at(&self) -> usize {
        // SAFETY: a heap is one pointer, by the assertion in `UNIT_BYTES`.
        unsafe { core::mem::transmute_copy::<_, NonNull<u8>>(&self.heap) }.addr().get()
    }

    /// The checksum of the words before it.
    fn sealed(&self) -> usize {
        !(self.first ^ self.span_bytes.rotate_left(1) ^ self.heap_at().rotate_left(2))
    }
}

/// A heap for several threads, each of which has an arena of its own, run by the sequential heap `H`.
///
/// The value is one pointer; everything else is in the region.
pub struct Arenas<'r, H = Tlsf<'r>, A: Atomics = Native> {
    /// The start of the region.
    control: NonNull<Control<A>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
    heaps: PhantomData<H>,
}

// SAFETY: threads share only atomic words and words that are never written again; a heap in an arena is used by one
// thread at a time, and `H: Send` lets it move between threads.
unsafe impl<H: Send, A: Atomics> Send for Arenas<'_, H, A> {}
// SAFETY: as for `Send`; all methods through `&self` access only those shared words.
unsafe impl<H: Send, A: Atomics> Sync for Arenas<'_, H, A> {}

impl<H, A: Atomics> fmt::Debug for Arenas<'_, H, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.view().plan())
    }
}

impl<'r, H, A: Atomics> Arenas<'r, H, A> {
    /// The control structure.
    #[inline(always)]
    fn view(&self) -> View<'_, H, A> {
        View { control: self.control, heap: PhantomData }
    }
}

/// A copyable reference to the control structure.
struct View<'h, H, A: Atomics> {
    /// Initialised, at the start of the region.
    control: NonNull<Control<A>>,
    heap: PhantomData<(&'h (), *const H)>,
}

impl<H, A: Atomics> Clone for View<'_, H, A> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<H, A: Atomics> Copy for View<'_, H, A> {}

impl<'h, H, A: Atomics> View<'h, H, A> {
    /// The part that is fixed.
    #[inline(always)]
    fn plan(self) -> &'h Plan {
        // SAFETY: the control structure is initialised, and this part of it is never written again.
        unsafe { &(*self.control.as_ptr()).plan.0 }
    }

    /// The counters of refusals.
    fn refused(self) -> &'h Refused<A> {
        // SAFETY: the control structure is initialised, and these are atomic words.
        unsafe { &(*self.control.as_ptr()).refused.0 }
    }

    /// The state of a slot.
    ///
    /// # Safety
    ///
    /// `slot` is less than the number of slots.
    #[inline(always)]
    unsafe fn place(self, slot: usize) -> NonNull<Place<H, A>> {
        let front = self.control.as_ptr().wrapping_add(1).cast::<Place<H, A>>();
        // SAFETY: the places follow the control structure, one for each slot, so the pointer is not null.
        unsafe { NonNull::new_unchecked(front.wrapping_add(slot)) }
    }

    /// The queue from one slot to another.
    ///
    /// # Safety
    ///
    /// Both numbers are less than the number of slots.
    #[inline(always)]
    unsafe fn queue(self, producer: usize, owner: usize) -> &'h RemoteQueue<A> {
        let plan = self.plan();
        let row = plan.queues.wrapping_add(producer.wrapping_mul(plan.row_bytes));
        let queue = row.wrapping_add(owner.wrapping_mul(size_of::<RemoteQueue<A>>()));
        // SAFETY: after the places lies a row of queues for every producer, one for each owner, initialised to 0.
        unsafe { &*core::ptr::with_exposed_provenance(queue) }
    }
}

/// One user's operations on [`Arenas`]: two pointers, to the heap and to the slot's state in it.
pub struct ArenaSlot<'h, 'r, H, A: Atomics = Native> {
    view: View<'h, H, A>,
    /// The slot's own state.
    place: NonNull<Place<H, A>>,
    heap: PhantomData<&'h Arenas<'r, H, A>>,
}

// SAFETY: only the slot's user uses its arena, on whichever thread that user runs; `H` is `Send`.
unsafe impl<H: Send, A: Atomics> Send for ArenaSlot<'_, '_, H, A> {}

impl<H, A: Atomics> fmt::Debug for ArenaSlot<'_, '_, H, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.number())
    }
}

/// A block of another slot.
struct Remote<'h, H, A: Atomics> {
    owner: usize,
    place: &'h Place<H, A>,
    queued: QueuedFree,
    link: &'h Link<A>,
}

impl<H, A: Atomics> ArenaSlot<'_, '_, H, A> {
    /// The slot's number.
    #[inline(always)]
    fn number(&self) -> usize {
        // SAFETY: there is at least one slot.
        let first = unsafe { self.view.place(0) };
        self.place.addr().get().wrapping_sub(first.addr().get()) / size_of::<Place<H, A>>()
    }

    /// The part that this slot alone uses.
    #[inline(always)]
    fn own(&self) -> &Own<H> {
        // SAFETY: the place is initialised; only its cell is written again, by this slot's user.
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

    /// Whether an address lies in this slot's arena, from its first block on.
    #[inline(always)]
    fn is_own(&self, address: usize) -> bool {
        let own = self.own();
        address.wrapping_sub(own.first) < own.span_bytes
    }
}

impl<'r, H: Observable<'r>, A: Atomics> ArenaSlot<'_, 'r, H, A> {
    /// The heap in this slot's arena.
    #[inline(always)]
    fn arena(&self) -> ManuallyDrop<H> {
        Arenas::<'r, H, A>::copy_of(self.own())
    }

    /// Counts a refusal, and returns it.
    #[cold]
    #[inline(never)]
    fn refuse(&self, error: SharedError) -> SharedError {
        self.view.refused().count(error)
    }

    /// Processes a queued free: unlinks it from the chain, and returns its block to the arena.
    #[inline(always)]
    fn process(&mut self, queued: QueuedFree) {
        self.own().chain.set(0);
        let Some(address) = Arenas::<'r, H, A>::address_of(self.own(), queued) else { return };
        let mut arena = self.arena();
        let block = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: no region contains address zero. The slot that queued the block passed it to this one under the
        // contract of `deallocate`; the tags may show that it is not a live block after all.
        unsafe {
            let block = NonNull::new_unchecked(block);
            if !arena.looks_live(block) {
                report(H::CONTRACT.name, MisuseKind::DoubleFree, address);
                return;
            }
            let next = Arenas::<'r, H, A>::link_at(address).next();
            if next.is_some_and(|next| Arenas::<'r, H, A>::address_of(self.own(), next).is_none()) {
                report(H::CONTRACT.name, MisuseKind::ContradictoryTags, address);
                return;
            }
            // First, so that a free is processed once, whatever happens to the block.
            self.own().chain.set(next.map_or(0, QueuedFree::get) as usize);
            arena.deallocate(block);
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

    /// Takes back the blocks of a miss: in a loop of its own, which has a bound of its own.
    #[inline(never)]
    fn take_back_on_miss(&mut self) {
        let budget = self.view.plan().reclaim_budget_on_miss;
        let mut iteration = 0;
        while iteration < budget {
            loop_bound!(LoopBound::RemoteFreesOnMiss);
            iteration += 1;
            if self.take_back_one().is_none() {
                break;
            }
        }
    }

    /// Allocates when there are queued remote frees.
    #[cold]
    #[inline(never)]
    fn allocate_with_remote_frees(&mut self, size_bytes: usize, align_bytes: usize) -> PairResult<SharedError> {
        self.take_back(self.view.plan().reclaim_budget);
        match self.arena().allocate_bytes(size_bytes, align_bytes) {
            Ok(block) => Ok(block).into(),
            Err(_) => self.allocate_after_miss(size_bytes, align_bytes),
        }
    }

    /// Allocates after the heap has refused. It refuses again with the reason, which was dropped on the way here.
    #[cold]
    #[inline(never)]
    fn allocate_after_miss(&mut self, size_bytes: usize, align_bytes: usize) -> PairResult<SharedError> {
        self.after_miss(|slot| slot.arena().allocate_bytes(size_bytes, align_bytes)).into()
    }

    /// Takes back blocks after the heap has refused, and tries again.
    #[inline(always)]
    fn after_miss(
        &mut self,
        again: impl FnOnce(&mut Self) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, SharedError> {
        self.take_back_on_miss();
        again(self).map_err(|error| {
            let has_more = || self.own().chain.get() != 0 || self.common().pending_bits.any_now();
            self.refuse(match error {
                AllocError::Exhausted if has_more() => SharedError::Pending,
                error => error.into(),
            })
        })
    }

    /// The block of another slot at an address.
    ///
    /// # Errors
    ///
    /// What is wrong with the address.
    #[inline(always)]
    fn find_remote(&self, address: usize) -> Result<Remote<'_, H, A>, MisuseKind> {
        let plan = self.view.plan();
        // For an address outside of the arenas this is the last slot, whose range it fails.
        let owner = (address.wrapping_sub(plan.arenas) / plan.share_bytes).min(plan.slots.wrapping_sub(1));
        // SAFETY: `owner` is less than the number of slots, and places are initialised.
        let place = unsafe { self.view.place(owner).as_ref() };
        let distance = address.wrapping_sub(place.own.0.first);
        if distance >= place.own.0.span_bytes || distance % Arenas::<'r, H, A>::UNIT_BYTES != 0 {
            return Err(MisuseKind::ForeignPointer);
        }
        // SAFETY: the address lies in the arena, on the grid of its blocks, so it is not zero.
        let block = unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) };
        // SAFETY: the address is in the arena's heap, on its grid; any thread may call `looks_live`.
        if !unsafe { Arenas::<'r, H, A>::copy_of(&place.own.0).looks_live(block) } {
            return Err(MisuseKind::DoubleFree);
        }
        // The distance is less than the arena, so its number fits 32 bits (`LARGEST_ARENA_BYTES`).
        let queued = QueuedFree::MIN.saturating_add((distance / Arenas::<'r, H, A>::UNIT_BYTES) as u32);
        // SAFETY: the address is that of a block in the arena.
        let link = unsafe { Arenas::<'r, H, A>::link_at(address) };
        Ok(Remote { owner, place, queued, link })
    }

    /// Pushes a block of another slot to its owner's remote-free queue.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`].
    #[inline(never)]
    unsafe fn queue_remote_free(&mut self, block: NonNull<u8>) {
        let address = block.addr().get();
        let producer = self.number();
        match self.find_remote(address) {
            Ok(Remote { owner, place, queued, link }) => {
                // SAFETY: both slots exist, and this one is the producer. The caller owns the block and its link.
                let put = unsafe { self.view.queue(producer, owner).push(queued, link) };
                match put {
                    Pushed::Queued => {}
                    Pushed::First => place.common.0.pending_bits.set(producer),
                    Pushed::Duplicate => report(H::CONTRACT.name, MisuseKind::DoubleFree, address),
                }
            }
            Err(kind) => report(H::CONTRACT.name, kind, address),
        }
    }

    /// Resizes a block of another slot.
    ///
    /// # Safety
    ///
    /// As [`Slot::reallocate_bytes`].
    #[cold]
    #[inline(never)]
    unsafe fn resize_remote(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        let address = block.addr().get();
        let usable_bytes = match self.find_remote(address) {
            // SAFETY: the caller guarantees that the block is live; any thread may call `usable_size`.
            Ok(remote) => unsafe { Arenas::<'r, H, A>::copy_of(&remote.place.own.0).usable_size(block) },
            Err(_) => {
                // The arena's heap judges the request, and then the pointer, which is not one of its blocks.
                // SAFETY: the heap reports the foreign pointer and changes nothing.
                let answer = unsafe { self.arena().reallocate_bytes(block, size_bytes, align_bytes) };
                return Err(self.refuse(SharedError::Request(answer.err().unwrap_or(AllocError::Misused))));
            }
        };
        let fits = size_bytes != 0
            && size_bytes <= usable_bytes
            && align_bytes.is_power_of_two()
            && address & (align_bytes - 1) == 0;
        // Only its owner can split a block; one that would keep more than it needs moves to this slot.
        if fits && usable_bytes - size_bytes <= size_bytes.max(H::CONTRACT.min_block_bytes) {
            return Ok(block);
        }
        let moved = match self.allocate_bytes(size_bytes, align_bytes) {
            Ok(moved) => moved,
            // Shrinking never fails.
            Err(_) if fits => return Ok(block),
            Err(error) => return Err(error),
        };
        // SAFETY: both blocks are live and disjoint, and at least as long as the copy; the caller gives up `block`.
        unsafe {
            core::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), size_bytes.min(usable_bytes));
            self.queue_remote_free(block);
        }
        Ok(moved)
    }
}

// SAFETY: blocks come from the heap in the slot's arena, which only the slot's user works with; blocks of other arenas
// are queued for their owner.
unsafe impl<'r, H: Observable<'r>, A: Atomics> Slot for ArenaSlot<'_, 'r, H, A> {
    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        if self.has_remote_frees() {
            return self.allocate_with_remote_frees(size_bytes, align_bytes).into();
        }
        match self.arena().allocate_bytes(size_bytes, align_bytes) {
            Ok(block) => Ok(block),
            Err(_) => self.allocate_after_miss(size_bytes, align_bytes).into(),
        }
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live and no longer used.
        unsafe {
            if self.is_own(block.addr().get()) {
                self.arena().deallocate(block);
            } else {
                self.queue_remote_free(block);
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
        if !self.is_own(block.addr().get()) {
            // SAFETY: the caller guarantees that the block is live; it belongs to another slot.
            return unsafe { self.resize_remote(block, size_bytes, align_bytes) };
        }
        if self.has_remote_frees() {
            self.take_back(self.view.plan().reclaim_budget);
        }
        // SAFETY: the caller guarantees that the block is live, and it is this slot's. A refusal changes nothing.
        let resize = |slot: &mut Self| unsafe { slot.arena().reallocate_bytes(block, size_bytes, align_bytes) };
        match resize(self) {
            Ok(block) => Ok(block),
            Err(AllocError::Exhausted) => self.after_miss(resize),
            Err(error) => Err(self.refuse(error.into())),
        }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        let address = block.addr().get();
        if self.is_own(address) {
            // SAFETY: the caller guarantees that the block is live, and it lies in this arena.
            return unsafe { self.arena().usable_size(block) };
        }
        match self.find_remote(address) {
            // SAFETY: the block is live and lies in that arena; any thread may call `usable_size`.
            Ok(remote) => unsafe { Arenas::<'r, H, A>::copy_of(&remote.place.own.0).usable_size(block) },
            Err(_) => 0,
        }
    }

    fn reclaim(&mut self, budget: usize) -> usize {
        self.take_back(budget)
    }
}

/// The division of a region.
struct Layout {
    plan: Plan,
    /// Address of the control structure.
    control: usize,
}

impl<'r, H: Observable<'r>, A: Atomics> Arenas<'r, H, A> {
    /// Queued frees number blocks in this unit.
    const UNIT_BYTES: usize = {
        let contract = H::CONTRACT;
        assert!(size_of::<H>() == size_of::<usize>(), "a heap's value must be one pointer");
        assert!(contract.alignment_bytes.is_power_of_two(), "blocks must be aligned to a power of two");
        assert!(contract.alignment_bytes >= align_of::<u32>(), "blocks must be aligned for a link");
        assert!(contract.min_block_bytes - contract.header_bytes >= size_of::<u32>(), "a link must fit every block");
        contract.alignment_bytes
    };

    /// Largest arena, in bytes: as many units as a queued free can number.
    const LARGEST_ARENA_BYTES: usize = (u32::MAX as usize).saturating_mul(Self::UNIT_BYTES);

    /// A copy of an arena's heap: one pointer, equivalent to the original.
    #[inline(always)]
    fn copy_of(place: &Own<H>) -> ManuallyDrop<H> {
        // SAFETY: an `Observable` heap may be copied if the copies are not dropped and only one is used at a time,
        // except for the queries that other threads may make.
        unsafe { core::ptr::read(&raw const place.heap) }
    }

    /// The address of a queued free's block in an arena, if it lies there.
    #[inline(always)]
    fn address_of(place: &Own<H>, queued: QueuedFree) -> Option<usize> {
        let distance = (queued.get() as usize).wrapping_sub(1).wrapping_mul(Self::UNIT_BYTES);
        (distance < place.span_bytes).then(|| place.first.wrapping_add(distance))
    }

    /// The link of a block: its first word.
    ///
    /// # Safety
    ///
    /// The address is aligned like a block, and lies in an arena.
    #[inline(always)]
    unsafe fn link_at<'a>(address: usize) -> &'a Link<A> {
        // SAFETY: the address is in an arena, which is exposed, and aligned for a `u32`; a queued block's word is its
        // link.
        unsafe { Link::at(core::ptr::with_exposed_provenance_mut(address)) }
    }

    /// Bytes before the arenas, whole cache lines, and bytes of one producer's queues; `None` beyond the address space.
    fn front_bytes(slots: usize) -> Option<(usize, usize)> {
        let row_bytes = round_up(slots.checked_mul(size_of::<RemoteQueue<A>>())?, LINE_BYTES)?;
        let each_bytes = size_of::<Place<H, A>>().checked_add(row_bytes)?;
        Some((size_of::<Control<A>>().checked_add(slots.checked_mul(each_bytes)?)?, row_bytes))
    }

    /// Length of a region that suffices for any start address.
    fn needed_bytes(config: &ArenasConfig<H::Config>) -> usize {
        let needed = || {
            let Err(InitError::TooSmall { needed_bytes }) = H::new(&mut [], config.heap) else { return None };
            let shares = round_up(needed_bytes, LINE_BYTES)?.checked_mul(config.slots)?;
            Self::front_bytes(config.slots)?.0.checked_add(shares)?.checked_add(LINE_BYTES - 1)
        };
        needed().unwrap_or(usize::MAX)
    }

    /// Divides a region; `None` if the arenas would have no bytes.
    fn plan(start: usize, len_bytes: usize, config: &ArenasConfig<H::Config>) -> Option<Layout> {
        let control = round_up(start, LINE_BYTES)?;
        let (front_bytes, row_bytes) = Self::front_bytes(config.slots)?;
        let arenas = control.checked_add(front_bytes)?;
        let end = start.checked_add(len_bytes)?;
        let room = end.checked_sub(arenas)?;
        let share_bytes = NonZeroUsize::new(room.checked_div(config.slots)? & !(LINE_BYTES - 1))?;
        let plan = Plan {
            slots: config.slots,
            reclaim_budget: config.reclaim_budget,
            reclaim_budget_on_miss: config.reclaim_budget_on_miss,
            row_bytes,
            queues: arenas.checked_sub(config.slots.checked_mul(row_bytes)?)?,
            arenas,
            share_bytes,
            end,
        };
        Some(Layout { plan, control })
    }

    /// Most steps to take back one block.
    fn steps_of_taking_back(&self) -> Steps {
        collect_steps(self.view().plan().slots, usize::BITS as usize) + Steps { loads: 1, ..Steps::default() }
    }
}

// SAFETY: the arenas are disjoint and in the region, after the control structure; each is a sequential heap that one
// slot's user works with. A block that another slot frees reaches its owner through a queue, whose release and acquire
// order earlier accesses to the block before later ones.
unsafe impl<'r, H: Observable<'r> + 'r, A: Atomics> SharedAllocator<'r> for Arenas<'r, H, A> {
    type Config = ArenasConfig<H::Config>;

    type Slot<'h>
        = ArenaSlot<'h, 'r, H, A>
    where
        Self: 'h;

    const CONTRACT: SharedContract = SharedContract {
        single_user: Contract {
            name: "arenas",
            source: "a heap for each slot, remote-free queues for blocks that others free",
            mechanism: Mechanism::Arenas,
            ..H::CONTRACT
        },
        allocate: Progress::WaitFree,
        deallocate: Progress::WaitFree,
        slots_are_exclusive: true,
        exhaustion_is_certain: true,
    };

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        if config.slots == 0 || config.reclaim_budget == 0 || config.reclaim_budget_on_miss == 0 {
            return Err(InitError::Configuration { what: "at least one slot, and at least one block to take back" });
        }
        let too_small = InitError::TooSmall { needed_bytes: Self::needed_bytes(&config) };
        let start = region.as_ptr().addr();
        let Layout { plan, control } = Self::plan(start, region.len(), &config).ok_or(too_small)?;
        let max_share_bytes = Self::LARGEST_ARENA_BYTES.min(H::CONTRACT.max_span_bytes);
        if plan.arena(plan.slots.wrapping_sub(1)).len() > max_share_bytes {
            return Err(InitError::OutOfReach { max_span_bytes: max_share_bytes.saturating_mul(plan.slots) });
        }
        let _region = Region::new(region);
        let control: NonNull<Control<A>> =
            NonNull::new(core::ptr::with_exposed_provenance_mut(control)).ok_or(too_small)?;
        let arenas = Arenas { control, region: PhantomData, heaps: PhantomData };
        let view: View<'_, H, A> = arenas.view();
        for slot in 0..plan.slots {
            let arena = plan.arena(slot);
            // SAFETY: the arenas are disjoint and in the region, which is exclusively borrowed.
            let memory = unsafe { Region::return_to_user(arena.start, arena.len()) };
            // Only the first can be refused, before anything is written: the others are alike or longer.
            let heap = H::new(memory, config.heap)
                .map_err(|error| if matches!(error, InitError::TooSmall { .. }) { too_small } else { error })?;
            let mut first = arena.end;
            heap.walk(&mut |block| first = first.min(block.address));
            let span_bytes = arena.end.wrapping_sub(first);
            let mut own = Own { chain: Cell::new(0), first, span_bytes, heap: ManuallyDrop::new(heap), seal: 0 };
            own.seal = own.sealed();
            // SAFETY: places and queues lie between the control structure and the arenas, aligned to whole lines.
            unsafe {
                view.place(slot).write(Place { own: Line(own), common: Line(Common::new()) });
                let row = plan.queues.wrapping_add(slot.wrapping_mul(plan.row_bytes));
                core::ptr::with_exposed_provenance_mut::<u8>(row).write_bytes(0, plan.row_bytes);
            }
        }
        // SAFETY: the control structure lies in the region, aligned.
        unsafe { control.write(Control { plan: Line(plan), refused: Line(Refused::new()) }) };
        Ok(arenas)
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        self.view().plan().slots
    }

    fn take(&self, slot: usize) -> bool {
        if slot >= self.slots() {
            return false;
        }
        // SAFETY: `slot` is less than the number of slots.
        let place = unsafe { self.view().place(slot).as_ref() };
        place.common.0.take()
    }

    unsafe fn release(&self, slot: usize) {
        // SAFETY: the caller has taken the slot, so it exists.
        let place = unsafe { self.view().place(slot).as_ref() };
        place.common.0.release();
    }

    #[inline(always)]
    unsafe fn slot(&self, slot: usize) -> ArenaSlot<'_, 'r, H, A> {
        let view = self.view();
        // SAFETY: the caller guarantees that `slot` is less than the number of slots.
        ArenaSlot { view, place: unsafe { view.place(slot) }, heap: PhantomData }
    }

    fn max_steps(&self, operation: Operation) -> Option<Steps> {
        let Plan { reclaim_budget, reclaim_budget_on_miss, .. } = *self.view().plan();
        // The check for queued frees; blocks taken back on entry and on a miss; the last check, the refusal counter.
        let allocate = times(reclaim_budget.saturating_add(reclaim_budget_on_miss), self.steps_of_taking_back())
            + Steps { read_modify_writes: 2, loads: 1, stores: 0 };
        Some(match operation {
            Operation::Allocate { .. } => allocate,
            Operation::Deallocate { .. } => PUSH_STEPS,
            // Another slot's block moves to this one.
            Operation::Reallocate { .. } => allocate + PUSH_STEPS,
            Operation::Reclaim { budget } => times(budget, self.steps_of_taking_back()),
        })
    }

    fn refusals(&self) -> Refusals {
        self.view().refused().so_far()
    }

    fn largest_allocatable(&mut self) -> usize {
        (0..self.slots()).map(|slot| self.largest_allocatable_by(slot)).max().unwrap_or(0)
    }

    fn largest_allocatable_by(&mut self, slot: usize) -> usize {
        if slot >= self.slots() {
            return 0;
        }
        self.heap_of(slot).largest_allocatable()
    }

    fn walk(&mut self, visitor: &mut dyn FnMut(Block)) {
        (0..self.slots()).for_each(|slot| self.walk_by(slot, visitor));
    }

    fn walk_by(&mut self, slot: usize, visitor: &mut dyn FnMut(Block)) {
        if slot < self.slots() {
            self.heap_of(slot).walk(visitor);
        }
    }

    fn check(&mut self) -> Result<(), Corruption> {
        self.verify()
    }

    fn fingerprint(&mut self, word: &mut dyn FnMut(usize)) {
        self.emit_state(word);
    }
}

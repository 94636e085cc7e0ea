//! Multi-core arenas: a sequential heap for every slot, and mail for the blocks that another slot frees.
//!
//! # Idea
//!
//! The region is divided into equal *arenas*, one for each slot, and every arena is run by a sequential heap, [`Tlsf`]
//! unless the type says otherwise. A slot allocates from its own arena, as if it were alone: no other thread ever
//! touches that heap. A block that another slot frees is not freed by it; it is *mailed* to the owner ([`mailbox`]),
//! who frees it when it allocates the next time. So the shared part of the allocator is a set of stacks with one
//! producer and one consumer each, and everything else is the sequential heap with its bound, its tests and its
//! fragmentation.
//!
//! ```text
//! slot 0                         slot 1                          slot 2
//! allocate, free                 allocate, free                  allocate, free
//!    |   \_ free(block of 1) __     |    \_ free(block of 2) __     |
//!    v                         \    v                          \    v
//! [arena 0: Tlsf]            mail ->[arena 1: Tlsf]          mail ->[arena 2: Tlsf]
//!
//! region: [plan][refusals][places of the slots][mailboxes, a row for each producer][arena 0][arena 1] ... [rest]
//! place:  [chain, first block, span, heap]                   the slot's user writes it, nobody else
//!         [notices, claim]                                   others write it: a cache line of its own
//! ```
//!
//! An allocation looks whether there is mail, and if so takes back at most K blocks (`taken_back`) before it serves its
//! request. If the heap then finds nothing, it takes back at most K_miss (`taken_back_on_miss`) more and tries once
//! more. What is collected from a mailbox at once and not needed at once waits in the slot's own *chain*.
//!
//! We found no source that describes this combination; its parts are old. Heaps by thread are Hoard's and ptmalloc's,
//! lists of what others freed are those of mimalloc and snmalloc, and it is not the first wait-free allocator: wfspan
//! (2022) exists on paper. What is put together here is a constant-time heap that coalesces, and a remote free whose
//! bound depends on nobody.
//!
//! # Progress, and why
//!
//! Every operation is *wait-free*: it ends within a number of its own steps that [`most_steps`] tells beforehand,
//! whatever the other threads do: run, wait, or stop for ever in the midst of any operation. T is the number of slots,
//! K and K_miss as above, c = 2 (3 where T is more than the bits of a word), g = T / bits of a word, rounded up.
//!
//! | operation | sequential part | steps on shared words |
//! |---|---|---|
//! | allocate, no mail | 1 allocate of H | 1 load |
//! | allocate, mail | 1 allocate and at most K deallocates of H | 1 load, and for each block taken back c changes, 2 + g loads |
//! | allocate, when H finds nothing | 2 allocates and at most K + K_miss deallocates of H | the same, and 2 changes |
//! | deallocate, of this slot's block | 1 deallocate of H | none |
//! | deallocate, of another slot's block | none | at most 2 changes, 1 load, 3 stores |
//! | reallocate | as H, or allocate, copy and deallocate | as their sum |
//! | reclaim of n blocks | n deallocates of H | for each, c changes, 2 + g loads |
//! | take, release | none | 1 change, 1 store |
//!
//! A *change* is one instruction that reads and writes (fetch-and-or, swap, compare-and-swap). Tags are not counted:
//! the size that a remote deallocate reads in front of the block, and ordinary stores to tags.
//!
//! 1. *Nobody's step waits for another's.* There is no loop that ends when somebody else does something. Loops turn as
//!    often as there are blocks to take back, at most K, K_miss or the budget, or words of producers, at most g.
//! 2. *A compare-and-swap fails at most once.* The only one on the way of a free is that of its mailbox, which only the
//!    owner empties; after a failure the mailbox is empty, and only this producer can change that ([`mailbox`]).
//! 3. *No two threads use one heap.* A heap is used by whoever has its slot, one at a time (`claim`, or the promise
//!    made to [`slot`](SharedAllocator::slot)). Other slots touch of an arena the blocks that are theirs, and the size
//!    in front of one that they free or resize, which does not change while the block is live; the flag beside it does,
//!    so both sides access that word by (relaxed) atomic loads and stores, which are ordinary instructions.
//! 4. *No block is lost or freed twice.* A block is in the user's hand, in one mailbox, in one chain, or free. From
//!    hand to mailbox it goes by the step that changes the mailbox, from mailbox to chain by the swap that empties it.
//!    Chains are the owner's own.
//! 5. *What was written before a free is seen by the block's next user:* release in the mailbox, acquire in the swap,
//!    and from there on the order of the owner's thread.
//! 6. *Exhausted is certain.* When it is answered, H has refused, the chain is empty, and at a moment after that no
//!    notice stood: every free that had come to its end by then was taken back before.
//!
//! The local pair has no atomic instruction beyond a load that is an ordinary one: no lock prefix, no fence, no
//! exclusive load or store. A handler may therefore interrupt its thread anywhere, in the midst of an operation too,
//! and allocate and free *by its own slot*: give every interrupt level one, as every core. It finds no lock, and
//! nothing of the other slot that it needs.
//!
//! # Memory
//!
//! - Fixed: two cache lines for each slot, a row of 4·T bytes in whole cache lines for each: 4·T² bytes or little more.
//!   Two lines for the plan. 4 slots: 896 B; 64 slots: 24.1 KiB.
//! - The shares are equal and of whole cache lines, and the last arena takes what is left: nothing of the region is
//!   lost but what aligns its start to a line. (Shares of a power of two would make the owner of a block a shift, and
//!   could lose half of the region. The division that stands in its place is made by remote frees alone, beside which
//!   the cache lines that pass from core to core cost more.)
//! - A request larger than the largest block of one arena is too large, however much is free in others: about 1/T of
//!   the region.
//! - *Blow-up.* A block returns to the arena it came from, so that producers and consumers do not let memory drift:
//!   what an arena needs follows from what its own slot allocates. Let m(s) be the most that slot s has allocated at a
//!   time, by whomever it is freed. Then arena s needs what H needs for m(s), plus what waits in the mail. As the shares
//!   are equal, each must hold the largest of these needs. Where slots have like budgets, nothing is lost. Where budgets
//!   are unlike, or a peak moves from slot to slot, the region is up to T times what one heap would have needed, and not
//!   more: give slots with small budgets a heap of their own.
//! - *What waits in the mail* was freed, and is used until it is taken back. With K >= 2 an owner that goes on
//!   allocating takes two back for every one it hands out, so that a backlog shrinks by one with every allocation: a
//!   block waits for no more allocations than there were live blocks when it was mailed. (Where slots share a bit of the
//!   notices, a notice may lead to nothing: with g slots to a bit, once for g / (g - 1) blocks at most. Two for one then
//!   takes K >= 3 if g is 2, and K >= 4 beyond.) An allocation that finds nothing takes K_miss at once, and says
//!   [`Pending`](SharedError::Pending) if more are left: repeating it makes progress each time.
//!
//! # Weak points
//!
//! - Mailboxes grow with the square of the slots. Hundreds of threads are no use for this allocator; hundreds of slots,
//!   for threads that come and go, are what [`claim_any`](SharedAllocator::claim_any) shares out.
//! - An owner that never allocates keeps what others free of it, until it calls [`reclaim`](Slot::reclaim)
//!   ([`Global::reclaim`](crate::adapt::Global::reclaim) where the heap is the global allocator) or its slot is taken by
//!   somebody who allocates; no other slot can do it in its place. An arena whose slot nobody has serves nobody, unless
//!   `ThreadSlots` lends the slot to who has no memory left.
//! - An arena does not lend to another. A slot may be exhausted beside an empty arena.
//! - On processors that make a change by a pair of exclusive load and store (Armv7, Armv8.0; RISC-V without Zacas for the compare-and-swap), a
//!   step may have to be repeated, because somebody wrote to the same cache line: there each step is lock-free,
//!   and what the bounds count is steps, not instructions.
//! - Misuse. A foreign pointer is known by its address. A second free by the owner is found as H finds it. Of a second
//!   free in which another slot has a hand, these are found: at once by the same slot; when the block was taken back
//!   and its tag still says so; by H when the second letter is opened, unless the memory was handed out again. Not
//!   found: mailed twice with others in between, or by two slots; the chain of letters is then damaged, what is behind
//!   the second letter may be lost or come twice, and the tags that H tests are what is left between that and a block
//!   given to two users. A block that is written to while it is in the mail breaks the chain, which is found if the
//!   link leads out of the arena.
//!
//! # When it wins, when it loses
//!
//! It is the allocator for several cores with bounds: an allocation and a deallocation of one thread cost what [`Tlsf`]
//! costs and, on x86-64, seven and six instructions more. It loses where one thread needs what all others have free, and
//! against a single heap under a lock when memory is short and time is not.
//!
//! [`most_steps`]: SharedAllocator::most_steps
//!
//! # Figures
//!
//! <!-- figures: arenas -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `arenas` | 523, or 563 + 318 per mailed block, 531, or 571 + 318 per mailed block, 87 | 4 B | 16 B | 1,516 B, 2,028 B | 9.9 %, 21.7 % |
//! <!-- end of figures -->

pub mod mailbox;
#[cfg(test)]
mod tests;
mod verify;

use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::{
    AllocError, Block, Contract, Corruption, InitError, Mechanism, MisuseKind, Observable, Operation, Progress,
    Refusals, SharedAllocator, SharedContract, SharedError, Slot, Steps,
};
use crate::hook::report;
use crate::region::{Region, round_up};
use crate::segregated::Tlsf;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::num::NonZeroUsize;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use mailbox::{Letter, Link, Mailbox, Notices, PUT_STEPS, Put, collect_steps};

/// Bytes of a cache line, or of the two that a processor fetches together.
const LINE_BYTES: usize = if cfg!(target_arch = "aarch64") { 128 } else { 64 };

/// What is written by others than its neighbours in memory, in a cache line of its own.
#[derive(Debug)]
#[cfg_attr(target_arch = "aarch64", repr(C, align(128)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(64)))]
pub(super) struct Line<T>(pub(super) T);

/// How [`Arenas`] are made.
#[derive(Clone, Copy, Debug)]
pub struct ArenasConfig<C> {
    /// Number of slots, at least 1: threads, cores, interrupt levels. Each gets the same share of the region.
    pub slots: usize,
    /// Most blocks that an allocation takes back before it serves its request, at least 1; from 2 on, every block is
    /// taken back some time if only its owner goes on allocating (from 4 on, with more slots than a word has bits).
    pub taken_back: usize,
    /// Most blocks that an allocation takes back when it finds no free block, before it tries again, at least 1.
    pub taken_back_on_miss: usize,
    /// What is chosen for the heaps in the arenas.
    pub heap: C,
}

impl<C: Default> Default for ArenasConfig<C> {
    /// 4 slots, 2 blocks taken back, 32 on a miss.
    fn default() -> Self {
        ArenasConfig { slots: 4, taken_back: 2, taken_back_on_miss: 32, heap: C::default() }
    }
}

/// The front of the region.
#[repr(C)]
struct Control<A: Atomics> {
    plan: Line<Plan>,
    refused: Line<Refused<A>>,
}

/// What is fixed when the heap is made.
#[derive(Clone, Copy, Debug)]
struct Plan {
    slots: usize,
    taken_back: usize,
    taken_back_on_miss: usize,
    /// Bytes of one producer's mailboxes, whole cache lines.
    row_bytes: usize,
    /// Address of the first mailbox.
    mailboxes: usize,
    /// Address of the first arena.
    arenas: usize,
    /// Bytes of an arena, whole cache lines; the last one takes what is left as well.
    share_bytes: NonZeroUsize,
    /// First address behind the region.
    end: usize,
}

impl Plan {
    /// Addresses of the arena of a slot.
    fn arena(&self, slot: usize) -> Range<usize> {
        let start = self.arenas.wrapping_add(slot.wrapping_mul(self.share_bytes.get()));
        let is_last = slot.wrapping_add(1) == self.slots;
        start..if is_last { self.end } else { start.wrapping_add(self.share_bytes.get()) }
    }
}

/// Requests refused.
struct Refused<A: Atomics> {
    request: Shared<usize, A>,
    exhausted: Shared<usize, A>,
    pending: Shared<usize, A>,
}

/// What belongs to a slot.
#[repr(C)]
struct Place<H, A: Atomics> {
    own: Line<Own<H>>,
    common: Line<Common<A>>,
}

/// What the slot's user alone writes, or nobody.
#[repr(C)]
struct Own<H> {
    /// Letters that were collected, and not opened yet: the latest one, or 0. The owner's alone.
    chain: Cell<usize>,
    /// Address of the first block in the arena.
    first: usize,
    /// Bytes from there to the end of the arena.
    span_bytes: usize,
    /// The heap in the arena: one pointer, which nobody writes. Whoever works with it makes a copy.
    heap: ManuallyDrop<H>,
    /// What the three words before it make together, so that a check follows none of them that somebody wrote over.
    seal: usize,
}

impl<H> Own<H> {
    /// The address that the heap is.
    fn heap_at(&self) -> usize {
        // SAFETY: a heap is one pointer.
        unsafe { core::mem::transmute_copy::<_, NonNull<u8>>(&self.heap) }.addr().get()
    }

    /// The seal of the words in front of it.
    fn sealed(&self) -> usize {
        !(self.first ^ self.span_bytes.rotate_left(1) ^ self.heap_at().rotate_left(2))
    }
}

/// What others write.
#[repr(C)]
struct Common<A: Atomics> {
    notices: Notices<A>,
    /// 1 while somebody has the slot.
    claim: Shared<usize, A>,
}

/// A heap for several threads, each of which has an arena of its own, run by the sequential heap `H`.
///
/// The value is one pointer; everything else is in the region.
pub struct Arenas<'r, H = Tlsf<'r>, A: Atomics = Native> {
    /// The front of the region.
    control: NonNull<Control<A>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
    heaps: PhantomData<H>,
}

// SAFETY: what threads share are atomic words and what nobody writes; a heap in an arena is used by one at a time, and
// may go from thread to thread.
unsafe impl<H: Send, A: Atomics> Send for Arenas<'_, H, A> {}
// SAFETY: as above.
unsafe impl<H: Send, A: Atomics> Sync for Arenas<'_, H, A> {}

impl<H, A: Atomics> fmt::Debug for Arenas<'_, H, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.view().plan())
    }
}

impl<'r, H, A: Atomics> Arenas<'r, H, A> {
    /// What all slots see.
    #[inline(always)]
    fn view(&self) -> View<'_, H, A> {
        View { control: self.control, heap: PhantomData }
    }
}

/// The control structure, for whoever has the heap.
struct View<'h, H, A: Atomics> {
    /// Initialised, at the front of the region.
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
    /// What is fixed.
    #[inline(always)]
    fn plan(self) -> &'h Plan {
        // SAFETY: the control structure is initialised, and this part of it never written again.
        unsafe { &(*self.control.as_ptr()).plan.0 }
    }

    /// The counters of refusals.
    fn refused(self) -> &'h Refused<A> {
        // SAFETY: the control structure is initialised, and these are atomic words.
        unsafe { &(*self.control.as_ptr()).refused.0 }
    }

    /// The place of a slot.
    ///
    /// # Safety
    ///
    /// There is such a slot.
    #[inline(always)]
    unsafe fn place(self, slot: usize) -> NonNull<Place<H, A>> {
        let front = self.control.as_ptr().wrapping_add(1).cast::<Place<H, A>>();
        // SAFETY: the places follow the control structure, one for each slot.
        unsafe { NonNull::new_unchecked(front.wrapping_add(slot)) }
    }

    /// The mailbox of a pair of slots.
    ///
    /// # Safety
    ///
    /// There are such slots.
    #[inline(always)]
    unsafe fn mailbox(self, producer: usize, owner: usize) -> &'h Mailbox<A> {
        let plan = self.plan();
        let row = plan.mailboxes.wrapping_add(producer.wrapping_mul(plan.row_bytes));
        let mailbox = row.wrapping_add(owner.wrapping_mul(size_of::<Mailbox<A>>()));
        // SAFETY: a row of mailboxes for every producer, one for each owner, lies behind the places.
        unsafe { &*core::ptr::with_exposed_provenance(mailbox) }
    }
}

/// One user's operations on [`Arenas`]: two pointers, to the heap and to the slot's place in it.
pub struct ArenaSlot<'h, 'r, H, A: Atomics = Native> {
    view: View<'h, H, A>,
    /// The slot's own place.
    place: NonNull<Place<H, A>>,
    heap: PhantomData<&'h Arenas<'r, H, A>>,
}

// SAFETY: the slot's user alone uses its arena, whoever that is.
unsafe impl<H: Send, A: Atomics> Send for ArenaSlot<'_, '_, H, A> {}

impl<H, A: Atomics> fmt::Debug for ArenaSlot<'_, '_, H, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.number())
    }
}

/// A block that a slot other than its owner names.
struct Remote<'h, H, A: Atomics> {
    owner: usize,
    place: &'h Place<H, A>,
    letter: Letter,
    link: &'h Link<A>,
}

/// An answer that took longer. It is returned in two registers, so that the short way needs no memory for the long
/// one's answer.
struct Late {
    block: Option<NonNull<u8>>,
    /// Why there is no block.
    error: SharedError,
}

impl From<Result<NonNull<u8>, SharedError>> for Late {
    #[inline(always)]
    fn from(answer: Result<NonNull<u8>, SharedError>) -> Self {
        match answer {
            Ok(block) => Late { block: Some(block), error: SharedError::Exhausted },
            Err(error) => Late { block: None, error },
        }
    }
}

impl From<Late> for Result<NonNull<u8>, SharedError> {
    #[inline(always)]
    fn from(Late { block, error }: Late) -> Self {
        block.ok_or(error)
    }
}

impl<H, A: Atomics> ArenaSlot<'_, '_, H, A> {
    /// The slot's number.
    #[inline(always)]
    fn number(&self) -> usize {
        // SAFETY: there is always a first slot.
        let first = unsafe { self.view.place(0) };
        self.place.addr().get().wrapping_sub(first.addr().get()) / size_of::<Place<H, A>>()
    }

    /// What is this slot's own.
    #[inline(always)]
    fn own(&self) -> &Own<H> {
        // SAFETY: the place is initialised, nobody writes it but through the cell, and this one's user alone uses that.
        unsafe { &(*self.place.as_ptr()).own.0 }
    }

    /// What others write.
    #[inline(always)]
    fn common(&self) -> &Common<A> {
        // SAFETY: the place is initialised, and these are atomic words.
        unsafe { &(*self.place.as_ptr()).common.0 }
    }

    /// Whether blocks of this slot wait to be taken back, as far as it has heard.
    #[inline(always)]
    fn has_mail(&self) -> bool {
        (self.own().chain.get() != 0) | self.common().notices.any()
    }

    /// Whether an address is one of this slot's blocks, or nearly.
    #[inline(always)]
    fn is_own(&self, address: usize) -> bool {
        let own = self.own();
        address.wrapping_sub(own.first) < own.span_bytes
    }
}

impl<'r, H: Observable<'r>, A: Atomics> ArenaSlot<'_, 'r, H, A> {
    /// The heap in this slot's arena.
    #[inline(always)]
    fn arena(&mut self) -> ManuallyDrop<H> {
        Arenas::<'r, H, A>::copy_of(self.own())
    }

    /// Counts and answers a refusal.
    #[cold]
    #[inline(never)]
    fn refuse(&self, error: SharedError) -> SharedError {
        let refused = self.view.refused();
        let counter = match error {
            SharedError::Request(_) | SharedError::Contended => &refused.request,
            SharedError::Exhausted => &refused.exhausted,
            SharedError::Pending => &refused.pending,
        };
        counter.fetch_add(1, Relaxed);
        error
    }

    /// Opens a letter: puts the next one first, and returns its block to the arena.
    #[inline(always)]
    fn open(&mut self, letter: Letter) {
        self.own().chain.set(0);
        let Some(address) = Arenas::<'r, H, A>::address_of(self.own(), letter) else { return };
        let mut arena = self.arena();
        let block = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: no region contains address zero. Whoever mailed the block gave it to this slot, if it kept the
        // contract; that it is no live block at all, the tags may show.
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
            // First, so that a letter is opened once whatever becomes of this.
            self.own().chain.set(next.map_or(0, Letter::get) as usize);
            arena.deallocate(block);
        }
    }

    /// Takes back at most `budget` blocks, and says how many.
    #[inline(never)]
    fn take_back(&mut self, budget: usize) -> usize {
        let number = self.number();
        let view = self.view;
        let slots = view.plan().slots;
        let (mut taken, mut turn) = (0, 0);
        // turns: blocks taken back
        while turn < budget {
            turn += 1;
            let latest = match Letter::new(self.own().chain.get() as u32) {
                Some(letter) => Some(letter),
                // SAFETY: there are such slots, and this one is the owner.
                None => unsafe { self.common().notices.collect(slots, |producer| view.mailbox(producer, number)) },
            };
            match latest {
                Some(letter) => {
                    self.open(letter);
                    taken += 1;
                }
                None if self.common().notices.any() => {} // of letters that were taken before it came; another stands
                None => break,
            }
        }
        taken
    }

    /// Allocates when there is mail.
    #[cold]
    #[inline(never)]
    fn allocate_with_mail(&mut self, size_bytes: usize, align_bytes: usize) -> Late {
        self.take_back(self.view.plan().taken_back);
        match self.arena().allocate_bytes(size_bytes, align_bytes) {
            Ok(block) => Ok(block).into(),
            Err(_) => self.allocate_after_miss(size_bytes, align_bytes),
        }
    }

    /// Allocates when the heap has refused. Why it did, it says once more: on the way here nobody kept it.
    #[cold]
    #[inline(never)]
    fn allocate_after_miss(&mut self, size_bytes: usize, align_bytes: usize) -> Late {
        self.after_miss(|slot| slot.arena().allocate_bytes(size_bytes, align_bytes)).into()
    }

    /// Takes back what can be taken when the heap has refused, and tries once more.
    #[inline(always)]
    fn after_miss(
        &mut self,
        again: impl FnOnce(&mut Self) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, SharedError> {
        self.take_back(self.view.plan().taken_back_on_miss);
        again(self).map_err(|error| {
            let has_more = || self.own().chain.get() != 0 || self.common().notices.any_now();
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
        // Of an address outside, this is the last one, whose bounds it fails.
        let owner = (address.wrapping_sub(plan.arenas) / plan.share_bytes).min(plan.slots.wrapping_sub(1));
        // SAFETY: there is such a slot, and its place is initialised.
        let place = unsafe { self.view.place(owner).as_ref() };
        let distance = address.wrapping_sub(place.own.0.first);
        if distance >= place.own.0.span_bytes || distance % Arenas::<'r, H, A>::UNIT_BYTES != 0 {
            return Err(MisuseKind::ForeignPointer);
        }
        // SAFETY: the address lies in the arena, on the grid of its blocks, and so it is not zero.
        let block = unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) };
        // SAFETY: as above; the question may be asked by others than the owner.
        if !unsafe { Arenas::<'r, H, A>::copy_of(&place.own.0).looks_live(block) } {
            return Err(MisuseKind::DoubleFree);
        }
        // No distance in an arena is that of a letter beyond the last.
        let letter = Letter::MIN.saturating_add((distance / Arenas::<'r, H, A>::UNIT_BYTES) as u32);
        // SAFETY: the block is in the arena.
        let link = unsafe { Arenas::<'r, H, A>::link_at(address) };
        Ok(Remote { owner, place, letter, link })
    }

    /// Mails a block of another slot to its owner.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`].
    #[inline(never)]
    unsafe fn mail(&mut self, block: NonNull<u8>) {
        let address = block.addr().get();
        let producer = self.number();
        match self.find_remote(address) {
            Ok(Remote { owner, place, letter, link }) => {
                // SAFETY: there are such slots, and this one is the producer; the block was the caller's, and so is its
                // link.
                let put = unsafe { self.view.mailbox(producer, owner).put(letter, link) };
                match put {
                    Put::Upon => {}
                    Put::First => place.common.0.notices.notify(producer),
                    Put::Twice => report(H::CONTRACT.name, MisuseKind::DoubleFree, address),
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
            // SAFETY: the caller promises that the block is live; the question may be asked by others than the owner.
            Ok(remote) => unsafe { Arenas::<'r, H, A>::copy_of(&remote.place.own.0).usable_size(block) },
            Err(_) => {
                // The arena's heap judges the request, and then the pointer, which is none of its blocks.
                // SAFETY: what the address shows is reported; nothing changes.
                let answer = unsafe { self.arena().reallocate_bytes(block, size_bytes, align_bytes) };
                return Err(self.refuse(SharedError::Request(answer.err().unwrap_or(AllocError::Misused))));
            }
        };
        if size_bytes != 0
            && size_bytes <= usable_bytes
            && align_bytes.is_power_of_two()
            && address & (align_bytes - 1) == 0
        {
            return Ok(block);
        }
        let moved = self.allocate_bytes(size_bytes, align_bytes)?;
        // SAFETY: both blocks are live and apart, and neither is shorter than what is copied.
        unsafe {
            core::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), size_bytes.min(usable_bytes));
            self.mail(block);
        }
        Ok(moved)
    }
}

// SAFETY: blocks come from the heap in the slot's arena, which the slot's user alone works with; blocks of other arenas
// are handed to those who may.
unsafe impl<'r, H: Observable<'r>, A: Atomics> Slot for ArenaSlot<'_, 'r, H, A> {
    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        if self.has_mail() {
            return self.allocate_with_mail(size_bytes, align_bytes).into();
        }
        match self.arena().allocate_bytes(size_bytes, align_bytes) {
            Ok(block) => Ok(block),
            Err(_) => self.allocate_after_miss(size_bytes, align_bytes).into(),
        }
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.is_own(block.addr().get()) {
                self.arena().deallocate(block);
            } else {
                self.mail(block);
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
            // SAFETY: the caller's promise, here and below.
            return unsafe { self.resize_remote(block, size_bytes, align_bytes) };
        }
        if self.has_mail() {
            self.take_back(self.view.plan().taken_back);
        }
        // SAFETY: as above. A refusal leaves the block as it was.
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
            // SAFETY: the block is live by the caller's promise, here and below.
            return unsafe { Arenas::<'r, H, A>::copy_of(self.own()).usable_size(block) };
        }
        match self.find_remote(address) {
            // SAFETY: as above; the question may be asked by others than the owner.
            Ok(remote) => unsafe { Arenas::<'r, H, A>::copy_of(&remote.place.own.0).usable_size(block) },
            Err(_) => 0,
        }
    }

    fn reclaim(&mut self, budget: usize) -> usize {
        self.take_back(budget)
    }
}

/// How a region is divided.
struct Layout {
    plan: Plan,
    /// Address of the control structure.
    control: usize,
}

impl<'r, H: Observable<'r>, A: Atomics> Arenas<'r, H, A> {
    /// Letters count blocks' places by this.
    const UNIT_BYTES: usize = {
        let contract = H::CONTRACT;
        assert!(size_of::<H>() == size_of::<usize>(), "the value in hand is one pointer");
        assert!(contract.alignment_bytes.is_power_of_two(), "blocks stand on a grid");
        assert!(contract.alignment_bytes >= align_of::<u32>(), "a link has a place in every block");
        assert!(contract.min_block_bytes - contract.header_bytes >= size_of::<u32>(), "a link fits every block");
        contract.alignment_bytes
    };

    /// Largest arena, in bytes: as far as letters reach.
    const LARGEST_ARENA_BYTES: usize = (u32::MAX as usize).saturating_mul(Self::UNIT_BYTES);

    /// A copy of the heap in a place: one pointer, as good as the original.
    #[inline(always)]
    fn copy_of(place: &Own<H>) -> ManuallyDrop<H> {
        // SAFETY: an `Observable` heap may be copied as long as the copies are not dropped and one is used at a time,
        // except for what others may ask it.
        unsafe { core::ptr::read(&raw const place.heap) }
    }

    /// The address of a letter's block in a place, if there can be one.
    #[inline(always)]
    fn address_of(place: &Own<H>, letter: Letter) -> Option<usize> {
        let distance = (letter.get() as usize).wrapping_sub(1).wrapping_mul(Self::UNIT_BYTES);
        (distance < place.span_bytes).then(|| place.first.wrapping_add(distance))
    }

    /// Where the link of a block is: in its first word.
    ///
    /// # Safety
    ///
    /// The address is that of a block, or could be, in an arena.
    #[inline(always)]
    unsafe fn link_at<'a>(address: usize) -> &'a Link<A> {
        // SAFETY: addresses in the arenas are aligned and exposed; the caller's promise.
        unsafe { Link::at(core::ptr::with_exposed_provenance_mut(address)) }
    }

    /// Bytes in front of the arenas, whole cache lines, and of one producer's mailboxes; `None` beyond the address
    /// space.
    fn front_bytes(slots: usize) -> Option<(usize, usize)> {
        let row_bytes = round_up(slots.checked_mul(size_of::<Mailbox<A>>())?, LINE_BYTES)?;
        let each_bytes = size_of::<Place<H, A>>().checked_add(row_bytes)?;
        Some((size_of::<Control<A>>().checked_add(slots.checked_mul(each_bytes)?)?, row_bytes))
    }

    /// Length of a region that suffices, wherever it starts.
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
            taken_back: config.taken_back,
            taken_back_on_miss: config.taken_back_on_miss,
            row_bytes,
            mailboxes: arenas.checked_sub(config.slots.checked_mul(row_bytes)?)?,
            arenas,
            share_bytes,
            end,
        };
        Some(Layout { plan, control })
    }

    /// Most steps of taking back one block.
    fn steps_of_taking_back(&self) -> Steps {
        collect_steps(self.view().plan().slots, usize::BITS as usize) + Steps { loads: 1, ..Steps::default() }
    }
}

/// So many times the steps.
pub(super) fn times(count: usize, steps: Steps) -> Steps {
    Steps {
        read_modify_writes: count.saturating_mul(steps.read_modify_writes),
        loads: count.saturating_mul(steps.loads),
        stores: count.saturating_mul(steps.stores),
    }
}

// SAFETY: the arenas lie apart in the region, behind the control structure, and each is a sequential heap that one
// slot's user works with. A block that another slot frees reaches its owner by mail, whose release and acquire order
// what was done to it before what is done to it after.
unsafe impl<'r, H: Observable<'r> + 'r, A: Atomics> SharedAllocator<'r> for Arenas<'r, H, A> {
    type Config = ArenasConfig<H::Config>;

    type Slot<'h>
        = ArenaSlot<'h, 'r, H, A>
    where
        Self: 'h;

    const CONTRACT: SharedContract = SharedContract {
        alone: Contract {
            name: "arenas",
            source: "a heap for each slot, mail for the blocks that others free",
            mechanism: Mechanism::Arenas,
            ..H::CONTRACT
        },
        allocate: Progress::WaitFree,
        deallocate: Progress::WaitFree,
        slots_are_exclusive: true,
        exhaustion_is_certain: true,
    };

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        if config.slots == 0 || config.taken_back == 0 || config.taken_back_on_miss == 0 {
            return Err(InitError::Configuration { what: "at least one slot, and one block taken back" });
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
            // SAFETY: the arenas lie in the region, apart from each other.
            let memory = unsafe { Region::return_to_user(arena.start, arena.len()) };
            // The first is refused, before anything is written, or none: the others are alike, but for the rest of the last.
            let heap = H::new(memory, config.heap)
                .map_err(|error| if matches!(error, InitError::TooSmall { .. }) { too_small } else { error })?;
            let mut first = arena.end;
            heap.walk(&mut |block| first = first.min(block.address));
            let span_bytes = arena.end.wrapping_sub(first);
            let mut own = Own { chain: Cell::new(0), first, span_bytes, heap: ManuallyDrop::new(heap), seal: 0 };
            own.seal = own.sealed();
            let common = Common { notices: Notices::new(), claim: Shared::new(0) };
            // SAFETY: places and mailboxes lie between the control structure and the arenas, aligned to whole lines.
            unsafe {
                view.place(slot).write(Place { own: Line(own), common: Line(common) });
                let row = plan.mailboxes.wrapping_add(slot.wrapping_mul(plan.row_bytes));
                core::ptr::with_exposed_provenance_mut::<u8>(row).write_bytes(0, plan.row_bytes);
            }
        }
        let refused = Refused { request: Shared::new(0), exhausted: Shared::new(0), pending: Shared::new(0) };
        // SAFETY: the control structure lies in the region, aligned.
        unsafe { control.write(Control { plan: Line(plan), refused: Line(refused) }) };
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
        // SAFETY: there is such a slot.
        let place = unsafe { self.view().place(slot).as_ref() };
        // Acquire: whatever the last user of the slot did to the arena, and to the chain, comes before what we do.
        place.common.0.claim.compare_exchange(0, 1, Acquire).is_ok()
    }

    unsafe fn release(&self, slot: usize) {
        // SAFETY: the caller took the slot, so there is one.
        let place = unsafe { self.view().place(slot).as_ref() };
        // Release: whatever we did to the arena comes before what the next user does.
        place.common.0.claim.store(0, Release);
    }

    #[inline(always)]
    unsafe fn slot(&self, slot: usize) -> ArenaSlot<'_, 'r, H, A> {
        let view = self.view();
        // SAFETY: the caller promises that there is such a slot.
        ArenaSlot { view, place: unsafe { view.place(slot) }, heap: PhantomData }
    }

    fn most_steps(&self, operation: Operation) -> Option<Steps> {
        let Plan { taken_back, taken_back_on_miss, .. } = *self.view().plan();
        // The look for mail; blocks taken back, twice; the last look, and the refusal's counter.
        let allocate = times(taken_back.saturating_add(taken_back_on_miss), self.steps_of_taking_back())
            + Steps { read_modify_writes: 2, loads: 1, stores: 0 };
        Some(match operation {
            Operation::Allocate { .. } => allocate,
            Operation::Deallocate { .. } => PUT_STEPS,
            // Another slot's block moves to this one.
            Operation::Reallocate { .. } => allocate + PUT_STEPS,
            Operation::Reclaim { budget } => times(budget, self.steps_of_taking_back()),
        })
    }

    fn refusals(&self) -> Refusals {
        let view = self.view();
        let Refused { request, exhausted, pending } = view.refused();
        Refusals {
            request: request.load(Relaxed),
            exhausted: exhausted.load(Relaxed),
            contended: 0,
            pending: pending.load(Relaxed),
        }
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

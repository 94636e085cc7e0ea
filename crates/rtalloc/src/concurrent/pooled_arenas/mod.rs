//! Arenas that draw their memory from one pool: a sequential heap for every slot, whose chunks come and go.
//!
//! # Idea
//!
//! The region is divided into equal *chunks*, by default at most 256 (128 where a word has 32 bits), or with more than 8
//! slots up to twice as many. A chunk is free (in the [`pool`]), or belongs to the heap of one slot, or to one long
//! block.
//!
//! Each slot has a sequential heap of its own, [`Tlsf`] by default, which no other thread touches. It begins without
//! memory. If none of its free blocks serves a request, the slot takes a run of 1 to 4 chunks from the pool and lends
//! it to its heap as a *piece* ([`InPieces`]). A piece has as few chunks as the request needs; but if that left more
//! than a third of the slot's last piece unused, and would do so again, it has more, which several such blocks fill
//! better. A piece goes back to the pool when its last block is freed; each slot keeps the piece that it took last for
//! a block of at most a chunk, its *spare*, so that repeated allocation and free of one block does not access the pool.
//! A request that needs more than 4 chunks, or fills its chunks so well that a piece for it would need one more, takes
//! a run of chunks for itself, a *long block*. Any slot may free a long block: its chunks are in the pool at once. A
//! slot that frees another block of another slot pushes it to a *remote-free queue* of the owner ([`remote_queue`]).
//! The owner frees at most K blocks of its queues (`reclaim_budget`) when it allocates. Frees that it has collected
//! from a queue but not yet processed wait in the slot's own *chain*.
//!
//! ```text
//! slot 0                       slot 1
//! allocate, free               allocate, free
//!    |   \_ free(block of 1) __    |
//!    v                         \   v
//! [heap 0: Tlsf]            queue [heap 1: Tlsf]     long blocks
//!    |       \                     |                     |
//! [piece 0][piece 0        ][free][piece 1][free        ][long             ][free ...]    chunks
//!
//! region: [plan][refusals][places of the slots][queues][pool][entries of the chunks][heaps' control][cut][chunks]
//! ```
//!
//! One word for each chunk, its entry, says to whom it belongs: so a free finds the owner of a block by its address.
//!
//! We found no source that describes this combination; its parts are old. Heaps of threads and superblocks that return
//! to a common heap are Hoard's (2000), lists of remote frees are those of mimalloc and snmalloc, and a bit map with a
//! counter in the same word is a common way to detect that something was given back meanwhile. It is not the first
//! wait-free allocator: wfspan (2022) exists on paper. What is combined here is a constant-time heap that coalesces, a
//! pool whose operations end within a bound, and a remote free whose bound does not depend on other threads.
//!
//! # Progress, and why
//!
//! Every operation is *wait-free*: it ends within a number of its own steps that [`max_steps`] returns beforehand,
//! whether other threads run, wait, or stop forever in the middle of an operation. W is the number of words of the
//! pool: by default at most 8, or T if that is more, up to 16; at most 64 with `chunk_bytes`. T is the number of slots,
//! c = 2 (3 where T is more than the bits of a word), g = T / bits of a word, rounded up.
//!
//! | operation | sequential part | steps on shared words |
//! |---|---|---|
//! | allocate, which the slot's heap serves | 1 allocate of H | 1 load |
//! | allocate, with queued remote frees | and at most K deallocates of H | and for each block taken back c RMWs, 3 + g loads, and what its piece costs |
//! | allocate, which takes a piece | 1 allocate, 1 lend of H | at most W + 8 loads, 6 RMWs, 9 stores |
//! | allocate of a long block | 1 allocate of H | at most W + 8 loads, 6 RMWs, 5 stores, and 1 load, 1 RMW for each word of a run that is longer than a word |
//! | refusal | 1 allocate of H | at most W + 8 loads, max(W, 8) + 4 RMWs, 4 stores; where a run is longer than a word, 3·W loads, W + 5 RMWs, W + 2 stores |
//! | deallocate, of this slot's block | 1 deallocate of H | 1 load |
//! | the same, where its piece is empty then | the same | plus 1 load, 2 RMWs, 4 stores; nothing for the spare |
//! | deallocate, of another slot's block | none | at most 2 RMWs, 2 loads, 3 stores |
//! | deallocate, of a long block | none | 1 load, at most 3 RMWs, and 1 load, 1 store for each word beyond two that has its chunks |
//! | take, release | none | 1 RMW, 1 store |
//!
//! An *RMW* is one atomic read-modify-write (fetch-and-or, swap, compare-and-swap). Tags are not counted: the size that
//! a remote deallocate reads from the block's header, and ordinary stores to tags.
//!
//! 1. *No step waits for another thread's.* Loops iterate over the blocks to take back, the words of the pool, the
//!    chunks of a piece, and words of producers. A run is tried at most twice. The compare-and-swap of a queue fails at
//!    most once: only the owner empties a queue, and then only this producer can change that ([`remote_queue`]).
//! 2. *No two threads use one heap.* A heap is used by the holder of its slot, one at a time (`claim`, or the contract
//!    of [`slot`](SharedAllocator::slot)). In a piece of another slot, a slot touches only blocks that it holds, and the
//!    size in the header of one that it frees or resizes. That size does not change while the block is live; the flag
//!    beside it does, so both sides access that word by relaxed atomics, which are ordinary instructions.
//! 3. *No queued free is lost or processed twice.* It enters a queue by the step that writes the queue's word, and goes
//!    from queue to chain by the swap that empties the queue; a chain is used by its owner alone. What was written
//!    before the free is visible to the block's next user: release in the push, acquire in the swap, and from there on
//!    the program order of the owner's thread.
//! 4. *No chunk belongs to two.* It leaves the pool by the compare-and-swap that clears its bit, and returns by the
//!    addition or store that sets it, which its only owner executes: the slot whose piece it was, or the thread whose
//!    compare-and-swap ended the long block.
//! 5. *The entry of a block's chunk is right.* It is written before the block is handed out, and not again before the
//!    block is freed. The thread that frees it gets it after the first write, and frees it before the second.
//! 6. *Exhausted is certain.* When it is returned, H has refused, at a moment after that no run in the pool was long
//!    enough ([`pool`]), and at a moment after that no pending bit was set: every free of this slot's blocks that had
//!    completed by the first of these moments was taken back before. Chunks count as taken as soon as another thread
//!    has taken the first ones of a run that lies in several words, even if it fails and gives them back. If a run was
//!    lost to another taker, or chunks were given back during the search, the answer is [`Contended`] instead. (A long
//!    block that is to grow where it is tries twice to take the chunks behind it; if it loses both to others, it moves
//!    like one that has no room there, or is refused so.)
//!
//! A local allocation and deallocation execute no atomic instruction beyond loads that are ordinary ones: no lock
//! prefix, no fence, no exclusive load or store. So an interrupt handler may preempt its thread anywhere, even inside an
//! operation, and allocate and free *through its own slot*: give every interrupt level a slot, like every core.
//!
//! # Memory
//!
//! - Any slot may have any part of the region, and a request may be as long as the longest run of free chunks.
//! - *What a slot withholds.* Between two operations of a slot, each of its pieces has a live block or one whose free
//!   waits in a queue, except for the spare. Why: a piece becomes empty only when a block in it is freed. The same
//!   operation gives the piece back, unless it is the spare. A new spare is recorded only when a piece is taken, and an
//!   empty old one goes back first. A piece is taken for a block that it serves at once. So a slot with L such blocks
//!   has at most L pieces and a spare: it withholds from others at most 4 chunks for each block, less the block, and as
//!   many for the spare. A block that with its alignment's gap needs at most half a chunk withholds more than one chunk
//!   only if a larger one that shared its piece was freed; the spare has more than one chunk only after two such larger
//!   blocks. `a_slot_withholds_no_more_than_the_bound` attains this.
//! - *The spare*, if it is empty, goes back with the slot's next request to the pool, and with [`reclaim`].
//! - *A heap that keeps freed blocks* ([`Cached`]) keeps their pieces, too: they count as live above. It frees them when
//!   the pool has no run for a request of its slot, which is then served or refused anew, and with [`reclaim`].
//! - Long blocks are whole chunks: one of more than 4 chunks loses less than a fourth, a shorter one less than a piece
//!   for it would: what H rounds the request up by (TLSF at most a 32nd), the alignment and two granules.
//! - A piece loses one granule. Its blocks do not coalesce with those of other pieces.
//! - All heaps reach the whole region: with tags of 32 bits it has at most 4 GiB.
//! - Fixed: 192 bytes for a slot, a row of queues, and its heap's control structure, planned for 4 chunks; 4 bytes for
//!   each chunk; what aligns the first chunk to its length. 3 slots in 48 KiB: 3.5 KiB; 10 slots in 256 KiB: 11 KiB; 9
//!   slots in 64 MiB: 256 KiB.
//! - *Queued remote frees* are freed, but count as used until they are taken back. With K >= 2, an owner that keeps
//!   allocating takes back two for every block it hands out, so a backlog shrinks by one with every allocation: a block
//!   waits for no more allocations than there were live blocks when it was queued. (Where slots share a pending bit, a
//!   bit may lead to an empty queue: with g slots to a bit, once for g / (g - 1) blocks at most. Two for one then takes
//!   K >= 3 if g is 2, and K >= 4 beyond.) After a refusal as [`Pending`], the next request takes back K, too: each
//!   retry makes progress.
//!
//! # Weak points
//!
//! - A small live block keeps its piece, up to 4 chunks, from other slots.
//! - Queues of an owner that never allocates stay full until it calls [`reclaim`], or its slot passes on. Long blocks
//!   are never queued.
//! - Queues grow with the square of the slots. This allocator does not suit hundreds of threads, each with a slot;
//!   threads that come and go share slots through [`claim_any`](SharedAllocator::claim_any).
//! - A request may be refused as [`Contended`] although memory was free, where another slot took or gave back chunks at
//!   that time: repeat it.
//! - A block does not shrink in place when another slot resizes it, which only the owner could: it moves to that slot
//!   if it would keep more than twice its new size, unless the slot has no memory for it. A long block keeps at least
//!   one chunk, unless it becomes half a chunk or less and moves.
//! - With `ThreadSlots`, but not with `Bounded<ThreadSlots>`, a request that the slot cannot serve has no bound
//!   (`adapt::threads`).
//! - On processors that build an RMW from an exclusive load and store (Armv7, Armv8.0; RISC-V without Zacas for the
//!   compare-and-swap), a step may have to be repeated because another core wrote to the same cache line. There each
//!   step is lock-free, and the bounds count steps, not instructions.
//! - Misuse. A foreign pointer is recognised by its address. A second free by the owner is found as H finds it. A
//!   double free that involves another slot is found in these cases: at once, if the same slot frees the block twice in
//!   a row; when the block has been taken back and its tag still marks it free; by H when the second queued free is
//!   processed, unless the memory was allocated again. Not found: a block queued twice with others in between, or by
//!   two slots. The chain is then damaged: frees after the second one may be lost or processed twice, and only the tags
//!   that H tests keep the heap from giving one block to two users. Writing to a block while it is queued breaks the
//!   chain, which is found if the link leads out of the chunks. A second free of a long block is found, even a
//!   concurrent one, unless its first chunk begins a long block of the same length again.
//!
//! # When it wins, when it loses
//!
//! It is the allocator for several cores with bounds, and for threads that need different amounts at different times.
//! It loses against a single heap under a lock where memory matters more than time. Any slot can use up the region: a
//! thread with a budget that must be kept from the others needs a heap of its own.
//!
//! [`max_steps`]: SharedAllocator::max_steps
//! [`Contended`]: crate::contract::SharedError::Contended
//! [`Pending`]: crate::contract::SharedError::Pending
//! [`reclaim`]: crate::contract::Slot::reclaim
//!
//! # Figures
//!
//! <!-- figures: pooled-arenas -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `pooled-arenas` | 1,090, 1,264, 114 | 4 B | 16 B | 1,536 B, 4,096 B | 13.3 %, 21.7 % |
//!
//! Measured 2026-11-29 at fe84c70 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

mod layout;
pub mod pool;
pub mod remote_queue;
mod slot;
#[cfg(test)]
mod tests;
mod verify;

pub use slot::PooledSlot;

use crate::adapt::Cached;
use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::concurrent::slots::{Common, Line, Refused, times};
use crate::contract::{
    Block, Coalescing, Contract, Corruption, InPieces, InitError, Mechanism, Operation, Progress, Refusals, SetAside,
    SharedAllocator, SharedContract, Steps,
};
use crate::mechanism::bits::sum_with;
use crate::region::Region;
use crate::segregated::Tlsf;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use layout::{Entry, Plan};
use pool::{MAX_CHUNKS, Pool, WORD_CHUNKS, claim_steps, give_steps, take_steps};
use remote_queue::{Link, PUSH_STEPS, QueuedFree, RemoteQueue, collect_steps};

/// Chunks of the longest piece: requests that need more take a run of their own.
pub const PIECE_CHUNKS: usize = 4;

/// How [`PooledArenas`] are made.
#[derive(Clone, Copy, Debug)]
pub struct PooledArenasConfig {
    /// Number of slots, at least 1: threads, cores, interrupt levels.
    pub slots: usize,
    /// Most blocks that an allocation takes back before it serves its request, at least 1. From 2 on, every block is
    /// taken back eventually if only its owner keeps allocating (from 4 on, with more slots than a word has bits).
    pub reclaim_budget: usize,
    /// Bytes of a chunk, a power of two, at least 64 and at least a [`MAX_CHUNKS`]th of the region; 0 chooses the
    /// smallest, at least 512, with which the pool has no more words than slots, or than 8 with fewer slots, or than 16
    /// with more. Smaller chunks lose less memory; the bounds in steps and instructions are linear in the words.
    pub chunk_bytes: usize,
}

impl Default for PooledArenasConfig {
    /// 4 slots, 2 blocks taken back, chunks as large as the region requires.
    fn default() -> Self {
        PooledArenasConfig { slots: 4, reclaim_budget: 2, chunk_bytes: 0 }
    }
}

/// Most words of a pool whose chunks are chosen for few slots: 256 chunks, or 128 where a word has 32 bits.
const LEAST_CHOSEN_WORDS: usize = 8;
/// Most words of a pool whose chunks are chosen for many slots, each of which has a spare: 512 chunks, or 256.
const MOST_CHOSEN_WORDS: usize = 16;
/// Bytes of the smallest chunk that is chosen.
const MIN_CHUNK_BYTES: usize = 512;
/// Bytes of the smallest chunk that is accepted.
const LEAST_CHUNK_BYTES: usize = 64;

/// The start of the region.
#[repr(C)]
struct Control<A: Atomics> {
    plan: Line<Plan>,
    refused: Line<Refused<A>>,
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
    /// Queued frees that were collected but not processed: the latest one, or 0.
    chain: Cell<usize>,
    /// Address of the piece that was taken last for a block of at most a chunk, or 0: it is not given back when it
    /// becomes empty.
    spare: Cell<usize>,
    /// The checksum, if the piece taken last was for a block that fills less than two thirds of the chunks it needs;
    /// otherwise 0.
    fits_badly: Cell<usize>,
    /// Number of the slot, plus 1.
    owner: usize,
    /// The slot's heap: one pointer, which is never written again. Users of the heap make a copy.
    heap: ManuallyDrop<H>,
    /// A checksum of the owner and the heap's address, so that a check detects an overwrite first.
    seal: usize,
}

impl<H> Own<H> {
    /// The heap's pointer as an address.
    fn heap_at(&self) -> usize {
        // SAFETY: a heap is one pointer, by the assertion in `UNIT_BYTES`.
        unsafe { core::mem::transmute_copy::<_, NonNull<u8>>(&self.heap) }.addr().get()
    }

    /// The checksum.
    fn sealed(&self) -> usize {
        !(self.owner ^ self.heap_at().rotate_left(2))
    }
}

/// A heap for several threads, each of which has a sequential heap `H` of its own; all draw from one pool of chunks.
///
/// The value is one pointer; everything else is in the region.
pub struct PooledArenas<'r, H = Tlsf<'r>, A: Atomics = Native> {
    /// The start of the region.
    control: NonNull<Control<A>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
    heaps: PhantomData<H>,
}

// SAFETY: threads share only atomic words and words that are never written again; a slot's heap is used by one thread
// at a time, and `H: Send` lets it move between threads.
unsafe impl<H: Send, A: Atomics> Send for PooledArenas<'_, H, A> {}
// SAFETY: as for `Send`; all methods through `&self` access only those shared words.
unsafe impl<H: Send, A: Atomics> Sync for PooledArenas<'_, H, A> {}

impl<H, A: Atomics> fmt::Debug for PooledArenas<'_, H, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.view().plan())
    }
}

impl<'r, H, A: Atomics> PooledArenas<'r, H, A> {
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

    /// The pool of chunks.
    #[inline(always)]
    fn pool(self) -> Pool<'h, A> {
        let plan = self.plan();
        // SAFETY: the words follow the queues, initialised.
        unsafe { Pool::at(plan.pool, plan.words as usize) }
    }

    /// The state of a slot.
    ///
    /// # Safety
    ///
    /// `slot` is less than the number of slots.
    #[inline(always)]
    unsafe fn place(self, slot: usize) -> NonNull<Place<H, A>> {
        // As a sum of addresses, which is one instruction.
        let distance = slot.wrapping_mul(size_of::<Place<H, A>>());
        let address = sum_with!(self.control.addr().get(), distance, size_of::<Control<A>>() as isize);
        // SAFETY: the places follow the control structure, one for each slot, so the address is not zero.
        unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) }
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

    /// The word of a chunk's entry; `chunk` is less than the number of chunks.
    #[inline(always)]
    fn entry_word(self, chunk: usize) -> &'h Shared<u32, A> {
        let word = self.plan().entries.wrapping_add(chunk.wrapping_mul(size_of::<u32>()));
        // SAFETY: there is a word for every chunk, initialised.
        unsafe { Shared::at(core::ptr::with_exposed_provenance_mut(word)) }
    }

    /// The entry of a chunk, as of the last step that the caller knows of: it does not change while a block is there.
    #[inline(always)]
    fn entry(self, chunk: usize) -> Entry {
        Entry(self.entry_word(chunk).load(Relaxed))
    }

    /// Writes the entry of a chunk that belongs to the caller. Relaxed: whoever reads it has been given a block there,
    /// or takes the chunk from the pool afterwards.
    #[inline(always)]
    fn set_entry(self, chunk: usize, entry: Entry) {
        self.entry_word(chunk).store(entry.0, Relaxed);
    }

    /// Writes the same entry for all chunks of a piece, which belongs to the caller: the first two and the last two,
    /// without a loop; for up to 3 chunks some are written twice.
    #[inline(always)]
    fn set_entries(self, first: usize, run: usize, entry: Entry) {
        const { assert!(PIECE_CHUNKS == 4) };
        let entries = self.plan().entries.wrapping_add(first.wrapping_mul(size_of::<u32>()));
        let set = |distance: usize| {
            let word = entries.wrapping_add(distance.wrapping_mul(size_of::<u32>()));
            // SAFETY: there is a word for every chunk, initialised.
            unsafe { Shared::<u32, A>::at(core::ptr::with_exposed_provenance_mut(word)) }.store(entry.0, Relaxed);
        };
        set(0);
        if run > 1 {
            set(1);
            set(run.wrapping_sub(2));
            set(run.wrapping_sub(1));
        }
    }

    /// The entry at an address, and its chunk.
    #[inline(always)]
    fn entry_at(self, address: usize) -> Option<(usize, Entry)> {
        let chunk = self.plan().chunk_at(address)?;
        Some((chunk, self.entry(chunk)))
    }
}

impl<'r, H: InPieces<'r>, A: Atomics> PooledArenas<'r, H, A> {
    /// Queued frees number blocks in this unit.
    const UNIT_BYTES: usize = {
        let contract = H::CONTRACT;
        assert!(size_of::<H>() == size_of::<usize>(), "a heap's value must be one pointer");
        assert!(contract.alignment_bytes.is_power_of_two(), "blocks must be aligned to a power of two");
        assert!(contract.alignment_bytes >= align_of::<u32>(), "blocks must be aligned for a link");
        assert!(contract.min_block_bytes - contract.header_bytes >= size_of::<u32>(), "a link must fit every block");
        contract.alignment_bytes
    };

    /// Longest span of chunks, in bytes: as many units as a queued free can number.
    const LARGEST_SPAN_BYTES: usize = (u32::MAX as usize).saturating_mul(Self::UNIT_BYTES);

    /// A copy of a slot's heap: one pointer, equivalent to the original.
    #[inline(always)]
    fn copy_of(own: &Own<H>) -> ManuallyDrop<H> {
        // SAFETY: an `Observable` heap may be copied if the copies are not dropped and only one is used at a time,
        // except for the queries that other threads may make.
        unsafe { core::ptr::read(&raw const own.heap) }
    }

    /// The address of a queued free's block, if there is a chunk.
    #[inline(always)]
    fn address_of(plan: &Plan, queued: QueuedFree) -> Option<usize> {
        let distance = (queued.get() as usize).wrapping_sub(1).wrapping_mul(Self::UNIT_BYTES);
        let address = plan.start.wrapping_add(distance);
        plan.chunk_at(address).map(|_| address)
    }

    /// The link of a block: its first word.
    ///
    /// # Safety
    ///
    /// The address is aligned like a block, and lies in a piece.
    #[inline(always)]
    unsafe fn link_at<'a>(address: usize) -> &'a Link<A> {
        // SAFETY: the address is in a piece, which is exposed, and aligned for a `u32`; a queued block's word is its
        // link.
        unsafe { Link::at(core::ptr::with_exposed_provenance_mut(address)) }
    }
}

impl<'r, H: InPieces<'r>, A: Atomics> PooledArenas<'r, H, A> {
    /// Words of the pool, at most [`max_words`](Self::max_words): the instructions of an operation are linear in them.
    pub fn pool_words(&self) -> usize {
        self.view().plan().words as usize
    }

    /// The budget that it was made with: the instructions of an allocation are linear in it, too.
    pub fn reclaim_budget(&self) -> usize {
        self.view().plan().reclaim_budget
    }

    /// Takes the chunks of one word of the pool from it, passes the memory of each run of them to `visit`, and gives them
    /// back: the caller may return their pages to the system. A request of another slot that searches meanwhile does
    /// not find them. `word` is less than [`pool_words`](Self::pool_words).
    ///
    /// # Time
    ///
    /// Constant, and what `visit` takes at most half as many times as a word has chunks.
    pub fn visit_free(&self, word: usize, visit: &mut dyn FnMut(Range<usize>)) {
        let (plan, pool) = (self.view().plan(), self.view().pool());
        if word >= plan.words as usize {
            return;
        }
        let chunks = pool.claim_all_in(word);
        let mut left = chunks;
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let run = (left >> first).trailing_ones() as usize;
            visit(plan.range(word * WORD_CHUNKS + first, run));
            left &= left.wrapping_add(1 << first);
        }
        if chunks != 0 {
            pool.give_in(word, chunks);
        }
    }

    /// Most steps to take back one block: its piece may be empty then.
    fn steps_of_taking_back(&self) -> Steps {
        let plan = self.view().plan();
        collect_steps(plan.slots, usize::BITS as usize)
            + Steps { loads: 2, ..Steps::default() }
            + Self::steps_of_giving_back(plan)
    }

    /// Most steps to free what a slot's heap keeps: the piece of each block may be empty then.
    fn steps_of_emptying(plan: &Plan) -> Steps {
        times(H::MOST_KEPT, Self::steps_of_giving_back(plan))
    }

    /// Most steps to give back a piece.
    fn steps_of_giving_back(plan: &Plan) -> Steps {
        give_steps(plan.piece_chunks()) + Steps { read_modify_writes: 0, loads: 1, stores: PIECE_CHUNKS }
    }
}

impl<'r, H: SetAside<'r> + InPieces<'r> + 'r, A: Atomics> PooledArenas<'r, Cached<'r, H>, A> {
    /// Changes how many bytes of freed blocks each list of a slot's heap has at most, as
    /// [`CachedConfig::list_bytes`](crate::adapt::CachedConfig::list_bytes), before a block was freed.
    pub fn set_list_bytes(&mut self, list_bytes: usize) {
        (0..self.slots()).for_each(|slot| self.heap_of(slot).set_list_bytes(list_bytes));
    }
}

// SAFETY: a chunk is in the pool, in a piece of one slot's heap, or in a long block: it changes from one to the other
// by a step of the pool, whose release and acquire order earlier accesses before later ones. A block that another slot
// frees reaches its owner through a queue, with the same order.
unsafe impl<'r, H: InPieces<'r> + 'r, A: Atomics> SharedAllocator<'r> for PooledArenas<'r, H, A> {
    type Config = PooledArenasConfig;

    type Slot<'h>
        = PooledSlot<'h, 'r, H, A>
    where
        Self: 'h;

    const CONTRACT: SharedContract = SharedContract {
        single_user: Contract {
            name: "pooled-arenas",
            source: "a heap for each slot, of chunks from a wait-free pool; remote-free queues",
            mechanism: Mechanism::Arenas,
            page_bytes: MIN_CHUNK_BYTES,
            coarsest_bytes: MIN_CHUNK_BYTES,
            coalescing: if matches!(H::CONTRACT.coalescing, Coalescing::Deferred) {
                Coalescing::Deferred
            } else {
                Coalescing::Pages
            },
            grows_in_place: false,
            ..H::CONTRACT
        },
        allocate: Progress::WaitFree,
        deallocate: Progress::WaitFree,
        slots_are_exclusive: true,
        exhaustion_is_certain: true,
    };

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        if config.slots == 0 || config.reclaim_budget == 0 {
            return Err(InitError::Configuration { what: "at least one slot, and at least one block to take back" });
        }
        if config.slots >= Entry::LONG as usize {
            return Err(InitError::Configuration { what: "at most 65,534 slots" });
        }
        let chunk_bytes = config.chunk_bytes;
        if chunk_bytes != 0 && (!chunk_bytes.is_power_of_two() || chunk_bytes < LEAST_CHUNK_BYTES) {
            return Err(InitError::Configuration { what: "chunks of a power of two of bytes, at least 64" });
        }
        let too_small = InitError::TooSmall { needed_bytes: Self::needed_bytes(&config) };
        let start = region.as_ptr().addr();
        let (plan, control, heaps) = Self::plan(start, region.len(), &config).ok_or(too_small)?;
        let span = plan.range(0, plan.chunks);
        if plan.chunks == MAX_CHUNKS && start + region.len() - span.end >= plan.chunk_bytes() {
            let what = "larger chunks: at most 2,048 in a region (1,024 where a word has 32 bits)";
            return Err(InitError::Configuration { what });
        }
        if span.len() > Self::LARGEST_SPAN_BYTES {
            return Err(InitError::OutOfReach { max_span_bytes: Self::LARGEST_SPAN_BYTES });
        }
        let _region = Region::new(region);
        let control: NonNull<Control<A>> =
            NonNull::new(core::ptr::with_exposed_provenance_mut(control)).ok_or(too_small)?;
        let arenas = PooledArenas { control, region: PhantomData, heaps: PhantomData };
        let view: View<'_, H, A> = arenas.view();
        let heap_bytes = heaps.len() / plan.slots;
        for slot in 0..plan.slots {
            // SAFETY: the heaps' control structures are disjoint and in the region, which is exclusively borrowed.
            let memory = unsafe { Region::return_to_user(heaps.start + slot * heap_bytes, heap_bytes) };
            // SAFETY: all chunks follow; only the first can be refused, before anything is written.
            let heap = unsafe { H::without_pieces(memory, span.clone(), plan.bytes_of(plan.piece_chunks()))? };
            let mut own = Own {
                chain: Cell::new(0),
                spare: Cell::new(0),
                fits_badly: Cell::new(0),
                owner: slot + 1,
                heap: ManuallyDrop::new(heap),
                seal: 0,
            };
            own.seal = own.sealed();
            // SAFETY: places and queues lie between the control structure and the heaps, aligned to whole lines.
            unsafe {
                view.place(slot).write(Place { own: Line(own), common: Line(Common::new()) });
                let row = plan.queues.wrapping_add(slot.wrapping_mul(plan.row_bytes));
                core::ptr::with_exposed_provenance_mut::<u8>(row).write_bytes(0, plan.row_bytes);
            }
        }
        // SAFETY: the control structure lies in the region, aligned; so do the words of the pool and the entries.
        unsafe {
            for word in 0..plan.words as usize {
                let here = plan.chunks.saturating_sub(word * WORD_CHUNKS).min(WORD_CHUNKS);
                let bits = if here == 0 { 0 } else { usize::MAX >> (usize::BITS as usize - here) };
                core::ptr::with_exposed_provenance_mut::<usize>(plan.pool).add(word).write(bits);
            }
            core::ptr::with_exposed_provenance_mut::<u32>(plan.entries).write_bytes(0, plan.entries());
            control.write(Control { plan: Line(plan), refused: Line(Refused::new()) });
        }
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
    unsafe fn slot(&self, slot: usize) -> PooledSlot<'_, 'r, H, A> {
        let view = self.view();
        // SAFETY: the caller guarantees that `slot` is less than the number of slots.
        PooledSlot { view, place: unsafe { view.place(slot) }, heap: PhantomData }
    }

    fn max_steps(&self, operation: Operation) -> Option<Steps> {
        let plan = self.view().plan();
        let run_of = |size_bytes: usize, align_bytes: usize| {
            // At an alignment beyond a chunk, the search is for a longer run.
            plan.chunks_for(size_bytes.max(1))
                .saturating_add((align_bytes >> plan.chunk_log2).saturating_sub(1))
                .clamp(PIECE_CHUNKS, plan.chunks.max(PIECE_CHUNKS))
        };
        let allocate = |size_bytes: usize, align_bytes: usize| {
            let run = run_of(size_bytes, align_bytes);
            // The spare; the search; entries; the check for queued frees at the end.
            let draw = take_steps(plan.words as usize, run)
                + Self::steps_of_giving_back(plan)
                + Steps { read_modify_writes: 1, loads: 0, stores: PIECE_CHUNKS + 1 };
            // The check for queued frees; blocks taken back; twice where blocks are kept; the refusal counter.
            times(plan.reclaim_budget, self.steps_of_taking_back())
                + times(1 + H::MOST_KEPT.min(1), draw)
                + Self::steps_of_emptying(plan)
                + Steps { read_modify_writes: 1, loads: 1, stores: 0 }
        };
        let deallocate = |size_bytes: usize, align_bytes: usize| {
            let run = run_of(size_bytes, align_bytes);
            let long = give_steps(run) + Steps { read_modify_writes: 1, loads: 0, stores: 0 };
            let looked_up = Steps { read_modify_writes: 0, loads: 1, stores: 0 };
            looked_up + PUSH_STEPS.max(long).max(Self::steps_of_giving_back(plan))
        };
        Some(match operation {
            Operation::Allocate { size_bytes, align_bytes } => allocate(size_bytes, align_bytes),
            Operation::Deallocate { size_bytes, align_bytes } => deallocate(size_bytes, align_bytes),
            Operation::Reallocate { old_bytes, size_bytes, align_bytes } => {
                let longest = old_bytes.max(size_bytes);
                let run = run_of(longest, align_bytes);
                let in_place = times(2, claim_steps(run)) + give_steps(run);
                allocate(size_bytes, align_bytes)
                    + deallocate(longest, align_bytes)
                    + in_place
                    + Steps { read_modify_writes: 0, loads: 6, stores: 1 }
            }
            Operation::Reclaim { budget } => {
                times(budget, self.steps_of_taking_back())
                    + Self::steps_of_emptying(plan)
                    + Self::steps_of_giving_back(plan)
            }
        })
    }

    fn refusals(&self) -> Refusals {
        self.view().refused().so_far()
    }

    fn largest_allocatable(&mut self) -> usize {
        (0..self.slots()).map(|slot| self.largest_allocatable_by(slot)).max().unwrap_or(0)
    }

    fn largest_allocatable_by(&mut self, slot: usize) -> usize {
        if slot >= self.slots() { 0 } else { self.heap_of(slot).largest_allocatable().max(self.largest_in_pool(slot)) }
    }

    fn walk(&mut self, visitor: &mut dyn FnMut(Block)) {
        self.visit(None, visitor);
    }

    fn walk_by(&mut self, slot: usize, visitor: &mut dyn FnMut(Block)) {
        if slot < self.slots() {
            self.visit(Some(slot), visitor);
        }
    }

    fn check(&mut self) -> Result<(), Corruption> {
        self.verify()
    }

    fn fingerprint(&mut self, word: &mut dyn FnMut(usize)) {
        self.emit_state(word);
    }
}

//! Arenas that draw their memory from one pool: a sequential heap for every slot, whose chunks come and go.
//!
//! # Idea
//!
//! The region is divided into equal *chunks*, by default at most 512 (256 where a word has 32 bits). A chunk belongs to
//! no one ([`pool`]), to the heap of one slot, or to one long block.
//!
//! Each slot has a sequential heap of its own, [`Tlsf`] by default, which no other thread touches. It begins without
//! memory. When it has no block for a request, the slot takes a run of 1 to 8 chunks from the pool and lends it to its
//! heap as a *piece* ([`InPieces`]). A piece goes back to the pool when its last block is freed; each slot keeps one
//! empty piece of a single chunk, its *spare*, so that a block that comes and goes does not cost a visit to the pool
//! each time. A request that needs more than 8 chunks, or for which there is no piece, takes a run of chunks for
//! itself, a *long block*. Any slot may free a long block: its chunks are in the pool at once. A slot that frees
//! another block of another slot pushes it to a *remote-free queue* of the owner, as in
//! [`arenas`](crate::concurrent::arenas).
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
//! The parts are old: superblocks that return to a common heap are Hoard's (2000), and a bit map with a counter in the
//! same word is a common way to detect that something was given back meanwhile. What is combined here is a
//! constant-time heap that coalesces, a pool whose operations end within a bound, and a remote free whose bound does
//! not depend on other threads.
//!
//! # Progress, and why
//!
//! Every operation is *wait-free*: it ends within a number of its own steps that [`max_steps`] returns beforehand,
//! whether other threads run, wait, or stop forever in the middle of an operation. W is the number of words of the
//! pool, at most 16; K is `reclaim_budget`.
//!
//! | operation | sequential part | steps on shared words |
//! |---|---|---|
//! | allocate, which the slot's heap serves | 1 allocate of H | 1 load |
//! | allocate, with queued remote frees | and at most K deallocates of H | and for each block taken back, as in `arenas`, and what its piece costs |
//! | allocate, which takes a piece | 2 allocates, 1 lend of H | at most W + 2 loads, 5 RMWs, 9 stores |
//! | allocate of a long block | 1 allocate of H | at most 2·W + 2 loads, W + 1 RMWs, 2 stores, and for each word of the run 1 load, 3 RMWs |
//! | refusal | 1 allocate of H | at most 2·W + 2 loads, 2·W + 3 RMWs, 1 store |
//! | deallocate, of this slot's block | 1 deallocate of H | 1 load |
//! | the same, where its piece is empty then | and 1 withdrawal of H | and 1 load, 1 RMW, a store for each chunk of the piece |
//! | deallocate, of another slot's block | none | at most 2 RMWs, 3 loads, 3 stores |
//! | deallocate, of a long block | none | 2 loads, 1 RMW, and 1 RMW for each word of the pool that has its chunks |
//!
//! 1. *No step waits for another thread's.* Loops iterate over the blocks to take back, the words of the pool, the
//!    chunks of a piece, and words of producers. A compare-and-swap of the pool is tried at most twice.
//! 2. *No two threads use one heap*, and no queued free is lost: as in [`arenas`](crate::concurrent::arenas), whose
//!    queues these are.
//! 3. *No chunk belongs to two.* It leaves the pool by the compare-and-swap that clears its bit, and returns by the
//!    addition that sets it, which its only owner executes: the slot whose piece it was, or the thread whose
//!    compare-and-swap ended the long block.
//! 4. *The entry of a block's chunk is right.* It is written before the block is handed out, and not again before the
//!    block is freed. Whoever frees the block has been given it after the first, and comes before the second.
//! 5. *Exhausted is certain.* When it is returned, H has refused, at a moment after that no run in the pool was long
//!    enough ([`pool`]), and at a moment after that no pending bit was set: every free of this slot's blocks that had
//!    completed by the first of these moments was taken back before. Chunks count as taken as soon as another thread
//!    has taken the first ones of a run that lies in several words, even if it fails and gives them back. If a run was
//!    lost to another taker, or chunks were given back during the search, the answer is
//!    [`Contended`](SharedError::Contended) instead.
//!
//! A local allocation and deallocation execute no atomic instruction beyond loads that are ordinary ones. So an
//! interrupt handler may preempt its thread anywhere, and allocate and free *through its own slot*.
//!
//! # Memory
//!
//! - Any slot may have any part of the region, and a request may be as long as the longest run of free chunks.
//! - *What a slot withholds.* Between two operations of a slot, each of its pieces has a live block or one whose free
//!   waits in a queue, except for the spare. (A piece becomes empty only when a block is freed there, and the same
//!   operation gives it back, or makes it the spare, if the previous spare is in use. A piece is taken for a block that
//!   it serves at once.) So a slot with L such blocks has at most L pieces and a spare: it withholds from others at
//!   most 8 chunks for each block, less the block, and one chunk. A block withholds as much only if a larger one that
//!   shared its piece was freed. `a_slot_withholds_no_more_than_the_bound` attains this.
//! - *The spare* goes back with the slot's next request to the pool, and with [`reclaim`](Slot::reclaim).
//! - Long blocks are whole chunks, at least 8, so less than a seventh is lost. Where a request needs a long block only
//!   for its alignment, or the region has fewer than 8 chunks, up to a chunk.
//! - A piece loses one granule. Its blocks do not coalesce with those of other pieces.
//! - Fixed: 192 bytes for a slot, a row of queues, and its heap's control structure, planned for 8 chunks; 4 bytes for
//!   each chunk; what aligns the first chunk to its length. 3 slots in 48 KiB: 3,520 B; 9 slots in 64 MiB: 132 KiB.
//! - *Queued remote frees* count as used until they are taken back, two for each allocation.
//!
//! # Weak points
//!
//! - A small live block keeps its piece, up to 8 chunks, from other slots.
//! - Queues of an owner that never allocates stay full until it calls [`reclaim`](Slot::reclaim), or its slot passes
//!   on. Long blocks are never queued.
//! - Queues grow with the square of the slots.
//! - A request may be refused as [`Contended`](SharedError::Contended) although memory was free, where another slot
//!   took or gave back chunks at that time: repeat it.
//! - A block does not shrink in place when another slot resizes it: as in [`arenas`](crate::concurrent::arenas). A long
//!   block keeps at least one chunk, unless it becomes half a chunk or less and moves.
//! - Under `ThreadSlots`, a request that the slot cannot serve has no bound, as described there.
//! - On processors that build an RMW from an exclusive load and store, a step may have to be repeated.
//! - Misuse: as in [`arenas`](crate::concurrent::arenas). A second free of a long block is found, even a concurrent
//!   one, unless its first chunk begins a long block of the same length again.
//!
//! # When it wins, when it loses
//!
//! It is the shared heap for a program whose threads need different amounts at different times. Against
//! [`Arenas`](crate::Arenas), a free looks up the entry of its chunk, and a request that takes chunks reads the pool's
//! words. Where each thread has a budget that must be kept from the others, private arenas keep it.
//!
//! [`max_steps`]: SharedAllocator::max_steps
//!
//! # Figures
//!
//! <!-- figures: pooled-arenas -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `pooled-arenas` | 3,107, 3,111, 229 | 4 B | 16 B | 2,048 B, 4,096 B | 13.3 %, 21.9 % |
//!
//! Measured 2026-11-27 at 9d27f0f by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

pub mod pool;
#[cfg(test)]
mod tests;
mod verify;

use crate::concurrent::LINE_BYTES;
use crate::concurrent::arenas::remote_queue::{
    Link, PUSH_STEPS, PendingBits, Pushed, QueuedFree, RemoteQueue, collect_steps,
};
use crate::concurrent::arenas::{Line, SlowResult, times};
use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, InPieces, InitError, LoopBound, Mechanism, MisuseKind,
    Operation, Progress, Refusals, SharedAllocator, SharedContract, SharedError, Slot, Steps, loop_bound,
};
use crate::hook::report;
use crate::region::{Region, round_up};
use crate::segregated::Tlsf;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use pool::{MAX_CHUNKS, Missed, Pool, SHORT_RUN, WORD_CHUNKS, claim_steps, give_steps, take_short_steps, take_steps};

/// Chunks of the longest piece: requests that need more take a run of their own.
pub const PIECE_CHUNKS: usize = SHORT_RUN;

/// How [`PooledArenas`] are made.
#[derive(Clone, Copy, Debug)]
pub struct PooledArenasConfig {
    /// Number of slots, at least 1: threads, cores, interrupt levels.
    pub slots: usize,
    /// Most blocks that an allocation takes back before it serves its request, at least 1. From 2 on, every block is
    /// taken back eventually if only its owner keeps allocating (from 4 on, with more slots than a word has bits).
    pub reclaim_budget: usize,
    /// Bytes of a chunk, a power of two, at least 64 and at least a [`MAX_CHUNKS`]th of the region; 0 chooses the
    /// smallest, at least 512, with which the pool has no more than [`CHOSEN_WORDS`] words. Smaller chunks lose less
    /// memory; the bounds in steps and instructions are linear in the words.
    pub chunk_bytes: usize,
}

impl Default for PooledArenasConfig {
    /// 4 slots, 2 blocks taken back, chunks as large as the region requires.
    fn default() -> Self {
        PooledArenasConfig { slots: 4, reclaim_budget: 2, chunk_bytes: 0 }
    }
}

/// Most words of a pool whose chunks are chosen: 512 chunks, or 256 where a word has 32 bits.
pub const CHOSEN_WORDS: usize = 16;
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

/// What is fixed when the heap is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// Address of the first chunk, a multiple of its length.
    start: usize,
    chunks: usize,
    chunk_log2: u32,
    /// Words of the pool.
    words: u32,
    /// Address of the chunks' entries.
    entries: usize,
    /// Address of the pool.
    pool: usize,
    slots: usize,
    reclaim_budget: usize,
    /// Bytes of one producer's queues, whole cache lines.
    row_bytes: usize,
    /// Address of the first queue.
    queues: usize,
}

impl Plan {
    #[inline(always)]
    fn chunk_bytes(&self) -> usize {
        1_usize.wrapping_shl(self.chunk_log2)
    }

    /// Bytes of so many chunks.
    #[inline(always)]
    fn bytes_of(&self, chunks: usize) -> usize {
        chunks.wrapping_shl(self.chunk_log2)
    }

    /// How many chunks have so many bytes.
    #[inline(always)]
    fn chunks_for(&self, bytes: usize) -> usize {
        (bytes.wrapping_sub(1) >> self.chunk_log2).wrapping_add(1)
    }

    /// The chunk at an address, if there is one.
    #[inline(always)]
    fn chunk_at(&self, address: usize) -> Option<usize> {
        let chunk = address.wrapping_sub(self.start) >> self.chunk_log2;
        (chunk < self.chunks).then_some(chunk)
    }

    /// Address of a chunk.
    #[inline(always)]
    fn address_of(&self, chunk: usize) -> usize {
        self.start.wrapping_add(self.bytes_of(chunk))
    }

    /// The memory of a run of chunks.
    #[inline(always)]
    fn range(&self, first: usize, run: usize) -> Range<usize> {
        self.address_of(first)..self.address_of(first.wrapping_add(run))
    }

    /// Entries in whole cache lines: those after the last chunk's are empty.
    fn entries(&self) -> usize {
        self.chunks.next_multiple_of(LINE_BYTES / size_of::<u32>())
    }

    /// Chunks of the longest piece.
    #[inline(always)]
    fn piece_chunks(&self) -> usize {
        self.chunks.min(PIECE_CHUNKS)
    }
}

/// Whom a chunk belongs to, in one word:
///
/// ```text
/// [0   | 0        ]     the pool; or it is inside of a long block
/// [run | slot + 1 ]     the first chunk of a piece of that slot's heap; the others have a run of 0
/// [run | LONG     ]     the first chunk of a long block
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u32);

impl Entry {
    const NONE: Entry = Entry(0);
    /// The owner of long blocks.
    const LONG: u32 = 0xFFFF;

    #[inline(always)]
    const fn first(owner: u32, run: usize) -> Self {
        Entry(owner | (run as u32) << 16)
    }

    #[inline(always)]
    const fn owner(self) -> u32 {
        self.0 & 0xFFFF
    }

    #[inline(always)]
    const fn run(self) -> usize {
        (self.0 >> 16) as usize
    }
}

/// Requests refused.
struct Refused<A: Atomics> {
    request: Shared<usize, A>,
    exhausted: Shared<usize, A>,
    contended: Shared<usize, A>,
    pending: Shared<usize, A>,
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
    /// Address of the piece of one chunk that became empty last, or 0: it is not given back at once.
    spare: Cell<usize>,
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

/// The part of a slot's state that other threads write.
#[repr(C)]
struct Common<A: Atomics> {
    pending_bits: PendingBits<A>,
    /// 1 while the slot is claimed.
    claim: Shared<usize, A>,
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

    /// The entry at an address, and its chunk.
    #[inline(always)]
    fn entry_at(self, address: usize) -> Option<(usize, Entry)> {
        let chunk = self.plan().chunk_at(address)?;
        Some((chunk, self.entry(chunk)))
    }
}

/// One user's operations on [`PooledArenas`]: two pointers, to the heap and to the slot's state in it.
pub struct PooledSlot<'h, 'r, H, A: Atomics = Native> {
    view: View<'h, H, A>,
    /// The slot's own state.
    place: NonNull<Place<H, A>>,
    heap: PhantomData<&'h PooledArenas<'r, H, A>>,
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

    /// Whether an address lies in a piece of this slot, where a block can be: not in a piece's first granule, whose
    /// "header" would belong to the chunk before.
    #[inline(always)]
    fn is_own(&self, address: usize) -> bool {
        let is_start = address & (self.view.plan().chunk_bytes() - 1) == 0;
        self.view
            .entry_at(address)
            .is_some_and(|(_, entry)| entry.owner() as usize == self.own().owner && !(is_start && entry.run() != 0))
    }
}

impl<'r, H: InPieces<'r>, A: Atomics> PooledSlot<'_, 'r, H, A> {
    /// The slot's heap.
    #[inline(always)]
    fn arena(&self) -> ManuallyDrop<H> {
        PooledArenas::<'r, H, A>::copy_of(self.own())
    }

    /// Counts a refusal, and returns it.
    #[cold]
    #[inline(never)]
    fn refuse(&self, error: SharedError) -> SharedError {
        let refused = self.view.refused();
        let counter = match error {
            SharedError::Request(_) => &refused.request,
            SharedError::Exhausted => &refused.exhausted,
            SharedError::Contended => &refused.contended,
            SharedError::Pending => &refused.pending,
        };
        counter.fetch_add(1, Relaxed);
        error
    }

    /// Frees a block of this slot.
    ///
    /// # Safety
    ///
    /// It lies in one of its pieces, and as [`Slot::deallocate`].
    #[inline(always)]
    unsafe fn free_own(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees a block of this slot's heap, which is no longer used.
        let Some(piece) = (unsafe { self.arena().deallocate_in_piece(block) }) else { return };
        // Chunks are aligned to their length.
        if (piece.start | piece.end) & (self.view.plan().chunk_bytes() - 1) == 0 {
            self.end_piece(piece);
        }
    }

    /// Gives back a piece that may be empty; keeps one of a single chunk.
    #[cold]
    #[inline(never)]
    fn end_piece(&mut self, piece: Range<usize>) {
        let plan = self.view.plan();
        let (Some(first), run) = (plan.chunk_at(piece.start), piece.len() >> plan.chunk_log2) else { return };
        if self.view.entry(first) != Entry::first(self.own().owner as u32, run) {
            // A free block inside of a longer piece.
            return;
        }
        if run == 1 {
            let spare = self.own().spare.get();
            if spare == piece.start {
                return;
            }
            // SAFETY: the spare piece is this slot's.
            if spare == 0 || !unsafe { self.arena().is_empty(spare..spare.wrapping_add(plan.chunk_bytes())) } {
                self.own().spare.set(piece.start);
                return;
            }
        }
        self.give_back(piece, first, run);
    }

    /// Gives back an empty piece of this slot.
    #[inline(always)]
    fn give_back(&mut self, piece: Range<usize>, first: usize, run: usize) {
        // SAFETY: the piece is this slot's, and empty.
        unsafe { self.arena().withdraw(piece) };
        let mut at = 0;
        while at < run {
            loop_bound!(LoopBound::Fixed(8));
            self.view.set_entry(first.wrapping_add(at), Entry::NONE);
            at = pool::next(at);
        }
        self.view.pool().give_short(first, run);
    }

    /// Gives back the spare piece, if it is still empty.
    #[inline(always)]
    fn give_spare(&mut self) {
        let plan = self.view.plan();
        let spare = self.own().spare.replace(0);
        let piece = spare..spare.wrapping_add(plan.chunk_bytes());
        let Some(first) = plan.chunk_at(spare) else { return };
        // SAFETY: the spare piece is this slot's.
        if unsafe { self.arena().is_empty(piece.clone()) } {
            self.give_back(piece, first, 1);
        }
    }

    /// Processes a queued free: unlinks it from the chain, and frees its block.
    #[inline(always)]
    fn process(&mut self, queued: QueuedFree) {
        self.own().chain.set(0);
        let Some(address) = PooledArenas::<'r, H, A>::address_of(self.view.plan(), queued) else { return };
        if !self.is_own(address) {
            report(H::CONTRACT.name, MisuseKind::ContradictoryTags, address);
            return;
        }
        let block = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: no region contains address zero. The slot that queued the block passed it to this one under the
        // contract of `deallocate`; the tags may show that it is not a live block after all.
        unsafe {
            let block = NonNull::new_unchecked(block);
            if !self.arena().looks_live(block) {
                report(H::CONTRACT.name, MisuseKind::DoubleFree, address);
                return;
            }
            let next = PooledArenas::<'r, H, A>::link_at(address).next();
            if next.is_some_and(|next| PooledArenas::<'r, H, A>::address_of(self.view.plan(), next).is_none()) {
                report(H::CONTRACT.name, MisuseKind::ContradictoryTags, address);
                return;
            }
            // First, so that a free is processed once, whatever happens to the block.
            self.own().chain.set(next.map_or(0, QueuedFree::get) as usize);
            self.free_own(block);
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

    /// Allocates when there are queued remote frees.
    #[cold]
    #[inline(never)]
    fn allocate_with_remote_frees(&mut self, size_bytes: usize, align_bytes: usize) -> SlowResult {
        self.take_back(self.view.plan().reclaim_budget);
        match self.arena().allocate_bytes(size_bytes, align_bytes) {
            Ok(block) => Ok(block).into(),
            Err(_) => self.allocate_from_pool(size_bytes, align_bytes),
        }
    }

    /// Allocates after the slot's heap has refused: from another piece, or as a long block.
    #[cold]
    #[inline(never)]
    fn allocate_from_pool(&mut self, size_bytes: usize, align_bytes: usize) -> SlowResult {
        self.draw(size_bytes, align_bytes).map_err(|error| self.refuse(error)).into()
    }

    /// As [`allocate_from_pool`](Self::allocate_from_pool), without counting a refusal.
    #[inline(always)]
    fn draw(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        if !align_bytes.is_power_of_two() {
            return Err(SharedError::Request(AllocError::Alignment));
        }
        if size_bytes == 0 {
            return Err(SharedError::Request(AllocError::ZeroSize));
        }
        let plan = self.view.plan();
        let length = plan.chunks_for(size_bytes);
        // Chunks are aligned to their length; for more, the search is for a longer run.
        let slack = (align_bytes >> plan.chunk_log2).saturating_sub(1);
        if length > plan.chunks || slack > plan.chunks - length {
            let is_aligned = align_bytes <= plan.bytes_of(plan.chunks);
            return Err(SharedError::Request(if is_aligned { AllocError::TooLarge } else { AllocError::Alignment }));
        }
        // Were it empty, it would have served a request for one chunk.
        self.give_spare();
        let mut is_contended = false;
        let piece_bytes = H::piece_bytes(size_bytes, align_bytes);
        let run = piece_bytes.map_or(usize::MAX, |bytes| plan.chunks_for(bytes));
        if run <= plan.piece_chunks() {
            match self.view.pool().take_short(run) {
                Ok(first) => {
                    self.add_piece(first, run);
                    return self.arena().allocate_bytes(size_bytes, align_bytes).map_err(SharedError::from);
                }
                // A run for the block alone may be shorter than a piece for it, and lie in two words.
                Err(missed) => is_contended = missed == Missed::Contended,
            }
        }
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
            Err(missed) => is_contended |= missed == Missed::Contended,
        }
        if self.own().chain.get() != 0 || self.common().pending_bits.any_now() {
            return Err(SharedError::Pending);
        }
        Err(if is_contended { SharedError::Contended } else { SharedError::Exhausted })
    }

    /// Adds chunks that were taken from the pool to the slot's heap.
    #[inline(always)]
    fn add_piece(&mut self, first: usize, run: usize) {
        let owner = self.own().owner as u32;
        self.view.set_entry(first, Entry::first(owner, run));
        let mut at = 1;
        while at < run {
            loop_bound!(LoopBound::Fixed(7));
            self.view.set_entry(first.wrapping_add(at), Entry::first(owner, 0));
            at = pool::next(at);
        }
        // SAFETY: the chunks are this slot's from now on, in the span, and at most as many as planned.
        unsafe { self.arena().lend(self.view.plan().range(first, run)) };
    }

    /// The block at an address that is not in a piece of this slot.
    ///
    /// # Errors
    ///
    /// What is wrong with the address.
    #[inline(always)]
    fn find_elsewhere(&self, address: usize) -> Result<Elsewhere<'_, H, A>, MisuseKind> {
        let plan = self.view.plan();
        let (chunk, entry) = self.view.entry_at(address).ok_or(MisuseKind::ForeignPointer)?;
        let unit_bytes = PooledArenas::<'r, H, A>::UNIT_BYTES;
        let distance = address.wrapping_sub(plan.start);
        if !distance.is_multiple_of(unit_bytes) {
            return Err(MisuseKind::ForeignPointer);
        }
        if entry.owner() == Entry::LONG {
            let is_first = address == plan.address_of(chunk);
            let long = Elsewhere::Long { first: chunk, run: entry.run() };
            return if is_first { Ok(long) } else { Err(MisuseKind::ForeignPointer) };
        }
        let owner = (entry.owner() as usize).wrapping_sub(1);
        if owner >= plan.slots {
            // Nothing is live there.
            return Err(MisuseKind::DoubleFree);
        }
        // SAFETY: the address is in the span, on the grid of blocks, so it is not zero.
        let block = unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) };
        // The first granule of a piece precedes its first block.
        let is_before = address & (plan.chunk_bytes() - 1) == 0 && entry.run() != 0;
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

    /// Frees a block that is not in a piece of this slot: queues it for its owner, or gives its chunks back.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`].
    #[inline(never)]
    unsafe fn free_elsewhere(&mut self, block: NonNull<u8>) {
        let address = block.addr().get();
        let kind = match self.find_elsewhere(address) {
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
                let entry = Entry::first(Entry::LONG, run).0;
                // Relaxed: the pool orders the chunks; this decides between two frees of the block.
                if self.view.entry_word(first).compare_exchange(entry, Entry::NONE.0, Relaxed).is_ok() {
                    return self.view.pool().give(first, run);
                }
                MisuseKind::DoubleFree
            }
            Err(kind) => kind,
        };
        report(H::CONTRACT.name, kind, address);
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
            Some(more) => wanted <= plan.chunks - first && self.view.pool().claim(first + run, more),
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
        let keeps_too_much;
        if self.is_own(address) {
            // SAFETY: the caller guarantees that the block is live, and it is this slot's.
            match unsafe { self.arena().resize_in_place(block, size_bytes, align_bytes) } {
                Ok(true) => return Ok(block),
                Ok(false) => keeps_too_much = false,
                Err(error) => return invalid(self, error),
            }
        } else {
            match self.find_elsewhere(address) {
                Err(kind) => {
                    report(H::CONTRACT.name, kind, address);
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
        let moved = match served.or_else(|_| self.draw(size_bytes, align_bytes)) {
            Ok(moved) => moved,
            // Shrinking never fails.
            Err(_) if fits && keeps_too_much => {
                if let Ok(Elsewhere::Long { first, run }) = self.find_elsewhere(address) {
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
            return self.allocate_with_remote_frees(size_bytes, align_bytes).into();
        }
        match self.arena().allocate_bytes(size_bytes, align_bytes) {
            Ok(block) => Ok(block),
            Err(_) => self.allocate_from_pool(size_bytes, align_bytes).into(),
        }
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live and no longer used.
        unsafe {
            if self.is_own(block.addr().get()) {
                self.free_own(block);
            } else {
                self.free_elsewhere(block);
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
            self.give_spare();
        }
        taken
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

/// The division of a region, from its control structure on: lengths in bytes.
#[derive(Clone, Copy)]
struct Layout {
    row_bytes: usize,
    /// Before the queues.
    places_bytes: usize,
    queues_bytes: usize,
    words: usize,
    entries_bytes: usize,
    /// Of the control structure of one heap, whole cache lines.
    heap_bytes: usize,
    /// Of all of these.
    front_bytes: usize,
}

impl Layout {
    /// The plan with its numbers of slots and chunks, whose control structure is at this address.
    fn plan(&self, control: usize, chunk_bytes: usize, numbers: &Plan) -> Option<Plan> {
        let front_end = control.checked_add(self.front_bytes)?;
        let queues = control.wrapping_add(self.places_bytes);
        let heaps = front_end.wrapping_sub(numbers.slots.wrapping_mul(self.heap_bytes));
        Some(Plan {
            start: round_up(front_end, chunk_bytes)?,
            words: self.words as u32,
            entries: heaps.wrapping_sub(self.entries_bytes),
            pool: queues.wrapping_add(self.queues_bytes),
            row_bytes: self.row_bytes,
            queues,
            ..*numbers
        })
    }
}

impl<'r, H: InPieces<'r>, A: Atomics> PooledArenas<'r, H, A> {
    /// Bytes of a chunk of a region.
    const fn chunk_bytes(len_bytes: usize, chunk_bytes: usize) -> usize {
        if chunk_bytes != 0 {
            return chunk_bytes;
        }
        let least = len_bytes.div_ceil(CHOSEN_WORDS * WORD_CHUNKS + 1);
        if least > MIN_CHUNK_BYTES { least.next_power_of_two() } else { MIN_CHUNK_BYTES }
    }

    /// The most words that the pool of a region of this length has, with chunks of so many bytes, or chosen ones (0).
    pub const fn max_words(region_bytes: usize, chunk_bytes: usize) -> usize {
        (region_bytes / Self::chunk_bytes(region_bytes, chunk_bytes)).div_ceil(WORD_CHUNKS)
    }

    /// The layout of what precedes so many chunks; `None` beyond the address space.
    fn layout(chunks: usize, chunk_bytes: usize, slots: usize) -> Option<Layout> {
        let piece_bytes = chunk_bytes.checked_mul(chunks.min(PIECE_CHUNKS))?;
        let row_bytes = round_up(slots.checked_mul(size_of::<RemoteQueue<A>>())?, LINE_BYTES)?;
        let places_bytes = size_of::<Control<A>>().checked_add(slots.checked_mul(size_of::<Place<H, A>>())?)?;
        let queues_bytes = slots.checked_mul(row_bytes)?;
        let words = chunks.div_ceil(WORD_CHUNKS);
        let pool_bytes = round_up(words * size_of::<usize>(), LINE_BYTES)?;
        let entries_bytes = round_up(chunks * size_of::<u32>(), LINE_BYTES)?;
        let heap_bytes = round_up(H::bytes_without_pieces(piece_bytes), LINE_BYTES)?;
        let front_bytes = places_bytes
            .checked_add(queues_bytes)?
            .checked_add(pool_bytes)?
            .checked_add(entries_bytes)?
            .checked_add(slots.checked_mul(heap_bytes)?)?;
        Some(Layout { row_bytes, places_bytes, queues_bytes, words, entries_bytes, heap_bytes, front_bytes })
    }

    /// Length of a region that suffices for one chunk, for any start address.
    fn needed_bytes(config: &PooledArenasConfig) -> usize {
        let needed_with = |chunk_bytes: usize| {
            let layout = Self::layout(1, chunk_bytes, config.slots)?;
            // What aligns the control structure and the first chunk, and that chunk.
            layout.front_bytes.checked_add(LINE_BYTES - 1)?.checked_add(chunk_bytes.checked_mul(2)? - 1)
        };
        let mut chunk_bytes = Self::chunk_bytes(0, config.chunk_bytes);
        loop {
            let Some(needed_bytes) = needed_with(chunk_bytes) else { return usize::MAX };
            // A longer region may have longer chunks.
            let longer_bytes = Self::chunk_bytes(needed_bytes, config.chunk_bytes);
            if longer_bytes == chunk_bytes {
                return needed_bytes;
            }
            chunk_bytes = longer_bytes;
        }
    }

    /// Divides a region into the plan, the address of the control structure, and those of the heaps; `None` if there
    /// would be no chunk.
    fn plan(start: usize, len_bytes: usize, config: &PooledArenasConfig) -> Option<(Plan, usize, Range<usize>)> {
        let chunk_bytes = Self::chunk_bytes(len_bytes, config.chunk_bytes);
        let control = round_up(start, LINE_BYTES)?;
        let end = start.checked_add(len_bytes)?;
        let mut chunks = (len_bytes / chunk_bytes).min(MAX_CHUNKS);
        let layout = loop {
            if chunks == 0 {
                return None;
            }
            let layout = Self::layout(chunks, chunk_bytes, config.slots)?;
            let first = round_up(control.checked_add(layout.front_bytes)?, chunk_bytes)?;
            if end.checked_sub(first).is_some_and(|room| room >= chunks * chunk_bytes) {
                break layout;
            }
            chunks -= 1;
        };
        let unplaced = Plan {
            start: 0,
            chunks,
            chunk_log2: chunk_bytes.trailing_zeros(),
            words: 0,
            entries: 0,
            pool: 0,
            slots: config.slots,
            reclaim_budget: config.reclaim_budget,
            row_bytes: 0,
            queues: 0,
        };
        let plan = layout.plan(control, chunk_bytes, &unplaced)?;
        let front_end = control + layout.front_bytes;
        let heaps = front_end - config.slots * layout.heap_bytes;
        Some((plan, control, heaps..front_end))
    }

    /// Most steps to take back one block: its piece may be empty then.
    fn steps_of_taking_back(&self) -> Steps {
        let plan = self.view().plan();
        collect_steps(plan.slots, usize::BITS as usize)
            + Steps { loads: 2, ..Steps::default() }
            + Self::steps_of_giving_back(plan)
    }

    /// Most steps to give back a piece.
    fn steps_of_giving_back(plan: &Plan) -> Steps {
        let run = plan.piece_chunks();
        give_steps(run) + Steps { read_modify_writes: 0, loads: 1, stores: run }
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
            coalescing: Coalescing::Pages,
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
                owner: slot + 1,
                heap: ManuallyDrop::new(heap),
                seal: 0,
            };
            own.seal = own.sealed();
            let common = Common { pending_bits: PendingBits::new(), claim: Shared::new(0) };
            // SAFETY: places and queues lie between the control structure and the heaps, aligned to whole lines.
            unsafe {
                view.place(slot).write(Place { own: Line(own), common: Line(common) });
                let row = plan.queues.wrapping_add(slot.wrapping_mul(plan.row_bytes));
                core::ptr::with_exposed_provenance_mut::<u8>(row).write_bytes(0, plan.row_bytes);
            }
        }
        let refused = Refused {
            request: Shared::new(0),
            exhausted: Shared::new(0),
            contended: Shared::new(0),
            pending: Shared::new(0),
        };
        // SAFETY: the control structure lies in the region, aligned; so do the words of the pool and the entries.
        unsafe {
            for word in 0..plan.words as usize {
                let here = plan.chunks.saturating_sub(word * WORD_CHUNKS).min(WORD_CHUNKS);
                let bits = if here == 0 { 0 } else { usize::MAX >> (usize::BITS as usize - here) };
                core::ptr::with_exposed_provenance_mut::<usize>(plan.pool).add(word).write(bits);
            }
            core::ptr::with_exposed_provenance_mut::<u32>(plan.entries).write_bytes(0, plan.entries());
            control.write(Control { plan: Line(plan), refused: Line(refused) });
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
        // Acquire: everything the last user of the slot did to its heap and the chain comes before this.
        place.common.0.claim.compare_exchange(0, 1, Acquire).is_ok()
    }

    unsafe fn release(&self, slot: usize) {
        // SAFETY: the caller has taken the slot, so it exists.
        let place = unsafe { self.view().place(slot).as_ref() };
        // Release: everything this user did to the heap comes before what the next user does.
        place.common.0.claim.store(0, Release);
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
                .saturating_add(align_bytes >> plan.chunk_log2)
                .clamp(PIECE_CHUNKS, plan.chunks.max(PIECE_CHUNKS))
        };
        let allocate = |size_bytes: usize, align_bytes: usize| {
            let run = run_of(size_bytes, align_bytes);
            // The check for queued frees; blocks taken back; the search; entries; the last check, the refusal
            // counter.
            times(plan.reclaim_budget, self.steps_of_taking_back())
                + take_short_steps(plan.words as usize)
                + take_steps(plan.words as usize, run)
                + Self::steps_of_giving_back(plan)
                + Steps { read_modify_writes: 2, loads: 1, stores: PIECE_CHUNKS }
        };
        let deallocate = |size_bytes: usize, align_bytes: usize| {
            let run = run_of(size_bytes, align_bytes);
            let long = give_steps(run) + Steps { read_modify_writes: 1, loads: 0, stores: 0 };
            let looked_up = Steps { read_modify_writes: 0, loads: 2, stores: 0 };
            looked_up + PUSH_STEPS.max(long).max(Self::steps_of_giving_back(plan))
        };
        Some(match operation {
            Operation::Allocate { size_bytes, align_bytes } => allocate(size_bytes, align_bytes),
            Operation::Deallocate { size_bytes, align_bytes } => deallocate(size_bytes, align_bytes),
            Operation::Reallocate { old_bytes, size_bytes, align_bytes } => {
                let longest = old_bytes.max(size_bytes);
                let in_place = claim_steps(run_of(longest, align_bytes)) + give_steps(run_of(longest, align_bytes));
                allocate(size_bytes, align_bytes)
                    + deallocate(longest, align_bytes)
                    + in_place
                    + Steps { read_modify_writes: 0, loads: 6, stores: 1 }
            }
            Operation::Reclaim { budget } => {
                times(budget, self.steps_of_taking_back()) + Self::steps_of_giving_back(plan)
            }
        })
    }

    fn refusals(&self) -> Refusals {
        let Refused { request, exhausted, contended, pending } = self.view().refused();
        Refusals {
            request: request.load(Relaxed),
            exhausted: exhausted.load(Relaxed),
            contended: contended.load(Relaxed),
            pending: pending.load(Relaxed),
        }
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

//! A shared pool of equal blocks with a bit for each: the simplest wait-free heap. The tests of shared heaps must find
//! each of its faults.

use rtalloc::concurrent::atomics::{Atomics, Native, Shared};
use rtalloc::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, Cost, InitError, Mechanism, Operation, Progress, Refusals,
    SharedAllocator, SharedContract, SharedError, Slot, Steps,
};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The faults of the pool.
pub mod fault {
    pub const NONE: u8 = 0;
    /// A bit is read and then cleared, in two steps.
    pub const TORN_CLAIM: u8 = 1;
    /// A bit is set in two steps.
    pub const TORN_FREE: u8 = 2;
    /// A search that finds nothing while others free restarts, any number of times.
    pub const RETRIES: u8 = 3;
    /// Users wait for a lock.
    pub const LOCKED: u8 = 4;
    /// A search does not check whether a block was freed meanwhile.
    pub const RASH_EXHAUSTION: u8 = 5;
    /// Refusals are counted in two steps.
    pub const TORN_TALLY: u8 = 6;
    /// An operation writes its argument to the heap, and reads it back.
    pub const SCRATCH: u8 = 7;
    /// The second user gets a block that overlaps the next.
    pub const TOO_LONG: u8 = 8;
    /// One step too many.
    pub const LONG_WAY: u8 = 9;
    /// A free writes to the block after releasing it.
    pub const LATE_WRITE: u8 = 10;
    /// Some freed blocks are lost.
    pub const LEAK: u8 = 11;
    /// Most blocks are allocated only if one was freed during the search.
    pub const RESERVE: u8 = 12;
}
use fault::*;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 64;
/// Blocks per word: few, so that small heaps have several words.
const BLOCKS_PER_WORD: usize = 2;

#[repr(C)]
struct Head<A: Atomics> {
    words: usize,
    refused: [Shared<usize, A>; 4],
    frees: Shared<usize, A>,
    lock: Shared<usize, A>,
    scratch: Shared<usize, A>,
}

/// The pool.
#[derive(Debug)]
#[repr(transparent)]
pub struct Bits<'r, const FAULT: u8 = NONE, A: Atomics = Native> {
    head: NonNull<Head<A>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the heap is its region, and every access by several threads is one of `A`.
unsafe impl<const FAULT: u8, A: Atomics> Send for Bits<'_, FAULT, A> {}
// SAFETY: every access by several threads is one of `A`.
unsafe impl<const FAULT: u8, A: Atomics> Sync for Bits<'_, FAULT, A> {}

impl<const FAULT: u8, A: Atomics> Bits<'_, FAULT, A> {
    fn head(&self) -> &Head<A> {
        // SAFETY: `new` initialised it in the region, which this heap owns.
        unsafe { self.head.as_ref() }
    }

    fn word(&self, index: usize) -> &Shared<usize, A> {
        // SAFETY: the words follow the head; `index` is one of them.
        unsafe { Shared::at(self.head.add(1).cast::<usize>().add(index).as_ptr()) }
    }

    fn blocks(&self) -> usize {
        let end = self.head.addr().get() + size_of::<Head<A>>() + self.head().words * size_of::<usize>();
        end.next_multiple_of(BLOCK_BYTES)
    }

    fn block(&self, index: usize) -> NonNull<u8> {
        let address = self.blocks() + index * BLOCK_BYTES;
        // SAFETY: the block lies in the region, from which the head's pointer was made.
        unsafe { self.head.cast::<u8>().add(address - self.head.addr().get()) }
    }

    fn refuse(&self, error: SharedError) -> SharedError {
        let index = match error {
            SharedError::Request(_) => 0,
            SharedError::Exhausted => 1,
            SharedError::Contended => 2,
            SharedError::Pending => 3,
        };
        let counter = &self.head().refused[index];
        if FAULT == TORN_TALLY {
            counter.store(counter.load(Relaxed) + 1, Relaxed);
        } else {
            counter.fetch_add(1, Relaxed);
        }
        error
    }

    fn claim(&self, index: usize) -> Option<NonNull<u8>> {
        let word = self.word(index);
        let mut seen = word.load(Relaxed);
        let mut tries = 0;
        while seen != 0 && tries < BLOCKS_PER_WORD {
            tries += 1;
            let bit = seen & seen.wrapping_neg();
            let old = if FAULT == TORN_CLAIM {
                let old = word.load(Acquire);
                word.store(old & !bit, Relaxed);
                old
            } else {
                // Acquire: what the last owner did to the block happened before what the next one does.
                word.fetch_and(!bit, Acquire)
            };
            if old & bit != 0 {
                return Some(self.block(index * BLOCKS_PER_WORD + bit.trailing_zeros() as usize));
            }
            seen = old & !bit;
        }
        None
    }

    fn search(&self, first: usize) -> Result<NonNull<u8>, SharedError> {
        let words = self.head().words;
        // Acquire: the bit of a free that was counted is seen.
        let frees = self.head().frees.load(Acquire);
        for offset in 0..words {
            let index = (first + offset) % words;
            if let Some(block) = self.claim(index) {
                if FAULT == RESERVE && index >= 2 && self.head().frees.load(Relaxed) == frees {
                    let offset = block.addr().get() - self.blocks();
                    self.word(index).fetch_or(1 << (offset / BLOCK_BYTES % BLOCKS_PER_WORD), Release);
                    break;
                }
                return Ok(block);
            }
        }
        if FAULT == LONG_WAY {
            self.head().scratch.load(Relaxed);
        }
        // Only unfinished frees set a bit after the search passed it. An RMW reads the last value.
        let is_certain = self.head().frees.fetch_add(0, Relaxed) == frees || FAULT == RASH_EXHAUSTION;
        if FAULT == RETRIES && !is_certain {
            return self.search(first);
        }
        Err(self.refuse(if is_certain { SharedError::Exhausted } else { SharedError::Contended }))
    }

    fn lock(&self) {
        while FAULT == LOCKED && self.head().lock.swap(1, Acquire) != 0 {}
    }

    fn unlock(&self) {
        if FAULT == LOCKED {
            self.head().lock.store(0, Release);
        }
    }
}

/// A user of the pool.
#[derive(Debug)]
pub struct BitsSlot<'h, const FAULT: u8, A: Atomics> {
    heap: &'h Bits<'h, FAULT, A>,
    number: usize,
}

// SAFETY: without a fault, only the user that cleared a block's bit gets the block. With one, the pool breaks this on
// purpose; only the tests use it.
unsafe impl<const FAULT: u8, A: Atomics> Slot for BitsSlot<'_, FAULT, A> {
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        let heap = self.heap;
        let error = if !align_bytes.is_power_of_two() || align_bytes > BLOCK_BYTES {
            Some(AllocError::Alignment)
        } else if size_bytes == 0 {
            Some(AllocError::ZeroSize)
        } else {
            (size_bytes > BLOCK_BYTES).then_some(AllocError::TooLarge)
        };
        if let Some(error) = error {
            return Err(heap.refuse(SharedError::Request(error)));
        }
        heap.lock();
        let mut first = self.number;
        if FAULT == SCRATCH {
            heap.head().scratch.store(first, Relaxed);
            first = heap.head().scratch.load(Relaxed);
            assert!(first == self.number, "another user overwrote the argument");
        }
        let answer = heap.search(first);
        heap.unlock();
        answer
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let heap = self.heap;
        heap.lock();
        let index = (block.addr().get() - heap.blocks()) / BLOCK_BYTES;
        let (word, bit) = (heap.word(index / BLOCKS_PER_WORD), 1 << (index % BLOCKS_PER_WORD));
        if FAULT == LEAK && index % 4 == 1 {
            // Lost.
        } else if FAULT == TORN_FREE {
            let old = word.load(Relaxed);
            word.store(old | bit, Release);
        } else {
            // Release: what the owner did to the block happened before what the next one does.
            word.fetch_or(bit, Release);
        }
        if FAULT == LATE_WRITE {
            // SAFETY: the block lies in the region. Another user may own it by now, which is the fault.
            unsafe { Shared::<usize, A>::at(block.as_ptr().cast()) }.store(0, Relaxed);
        }
        // Release: a user that sees the free counted sees the bit.
        heap.head().frees.fetch_add(1, Release);
        heap.unlock();
    }

    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        let is_room = size_bytes <= BLOCK_BYTES && align_bytes <= BLOCK_BYTES;
        if is_room { Ok(block) } else { Err(SharedError::Request(AllocError::TooLarge)) }
    }

    unsafe fn usable_size(&self, _block: NonNull<u8>) -> usize {
        BLOCK_BYTES + if FAULT == TOO_LONG && self.number == 1 { 16 } else { 0 }
    }
}

// SAFETY: a block belongs to the slot that took its bit, until its bit is cleared.
unsafe impl<'r, const FAULT: u8, A: Atomics> SharedAllocator<'r> for Bits<'r, FAULT, A> {
    type Config = ();

    type Slot<'h>
        = BitsSlot<'h, FAULT, A>
    where
        Self: 'h;

    const CONTRACT: SharedContract = SharedContract {
        single_user: Contract {
            name: "bits",
            source: "these tests",
            policy: "a bit per block",
            mechanism: Mechanism::BitmappedFit,
            granule_bytes: BLOCK_BYTES,
            header_bytes: 0,
            alignment_bytes: BLOCK_BYTES,
            min_block_bytes: BLOCK_BYTES,
            splitting_threshold_bytes: 0,
            max_span_bytes: usize::MAX,
            largest_request_bytes: BLOCK_BYTES,
            largest_alignment_bytes: BLOCK_BYTES,
            page_bytes: 0,
            coarsest_bytes: 0,
            allocate: Cost::LinearInFreeBlocks,
            deallocate: Cost::Constant,
            reallocate: Cost::Constant,
            coalescing: Coalescing::Never,
            grows_in_place: true,
            shrinks_in_place: false,
            detects_double_free: false,
            detects_stale_pointers: false,
            detects_overwritten_tags: false,
            largest_is_exact: true,
            largest_covers_smaller: true,
        },
        allocate: Progress::WaitFree,
        deallocate: Progress::WaitFree,
        slots_are_exclusive: false,
        exhaustion_is_certain: true,
    };

    fn new(region: &'r mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        let start = NonNull::from(&mut *region).cast::<u8>();
        assert!(start.addr().get().is_multiple_of(BLOCK_BYTES), "the tests' memory is aligned");
        let per_word = size_of::<usize>() + BLOCKS_PER_WORD * BLOCK_BYTES;
        let words = (region.len() - size_of::<Head<A>>() - BLOCK_BYTES) / per_word;
        let head = start.cast::<Head<A>>();
        let counter = || Shared::new(0);
        let fresh = Head {
            words,
            refused: [counter(), counter(), counter(), counter()],
            frees: counter(),
            lock: counter(),
            scratch: counter(),
        };
        // SAFETY: the region begins with room for the head and then for the words.
        unsafe {
            head.write(fresh);
            for index in 0..words {
                head.add(1).cast::<usize>().add(index).write((1 << BLOCKS_PER_WORD) - 1);
            }
        }
        Ok(Bits { head, region: PhantomData })
    }

    fn slots(&self) -> usize {
        usize::MAX
    }

    fn take(&self, _slot: usize) -> bool {
        true
    }

    unsafe fn release(&self, _slot: usize) {}

    unsafe fn slot(&self, slot: usize) -> Self::Slot<'_> {
        // SAFETY: a shorter borrow of the same heap, one pointer; all writes through it are atomic accesses of `A`.
        let heap = unsafe { &*std::ptr::from_ref(self).cast() };
        BitsSlot { heap, number: slot }
    }

    fn max_steps(&self, operation: Operation) -> Option<Steps> {
        let words = self.head().words;
        let bound = match operation {
            Operation::Allocate { .. } => {
                Steps { loads: 1 + words, read_modify_writes: words * BLOCKS_PER_WORD + 2, stores: 0 }
            }
            Operation::Deallocate { .. } => Steps { loads: 0, read_modify_writes: 2, stores: 0 },
            Operation::Reallocate { .. } | Operation::Reclaim { .. } => Steps::default(),
        };
        // These faults must be found by their effects, not by their steps.
        let is_torn = matches!(FAULT, LOCKED | RESERVE | TORN_CLAIM | TORN_FREE | TORN_TALLY | SCRATCH | LATE_WRITE);
        let more = if is_torn {
            Steps { loads: words * BLOCKS_PER_WORD, stores: words * BLOCKS_PER_WORD, ..bound }
        } else {
            bound
        };
        Some(if is_torn { bound + more } else { bound })
    }

    fn refusals(&self) -> Refusals {
        let count = |index: usize| self.head().refused[index].load(Relaxed);
        Refusals { request: count(0), exhausted: count(1), contended: count(2), pending: count(3) }
    }

    fn largest_allocatable(&mut self) -> usize {
        let is_free = (0..self.head().words).any(|index| self.word(index).load(Relaxed) != 0);
        if is_free { BLOCK_BYTES } else { 0 }
    }

    fn walk(&mut self, visitor: &mut dyn FnMut(Block)) {
        for index in 0..self.head().words * BLOCKS_PER_WORD {
            let word = self.word(index / BLOCKS_PER_WORD).load(Relaxed);
            visitor(Block {
                address: self.block(index).addr().get(),
                front_bytes: 0,
                size_bytes: BLOCK_BYTES,
                usable_bytes: BLOCK_BYTES,
                free: word >> (index % BLOCKS_PER_WORD) & 1 != 0,
            });
        }
    }

    fn check(&mut self) -> Result<(), Corruption> {
        for index in 0..self.head().words {
            if self.word(index).load(Relaxed) >> BLOCKS_PER_WORD != 0 {
                return Err(Corruption { invariant: "a bit is a block's", address: self.block(index).addr().get() });
            }
        }
        Ok(())
    }

    fn fingerprint(&mut self, word: &mut dyn FnMut(usize)) {
        for index in 0..self.head().words {
            word(self.word(index).load(Relaxed));
        }
    }
}

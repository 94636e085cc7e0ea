//! The contract of heaps that several threads, cores or interrupt levels use at a time.
//!
//! Whoever uses such a heap holds a *slot*: a number that nobody else has at the same time. For some allocators it decides
//! which memory is asked first and nothing else; for others memory belongs to a slot. A thread claims one
//! ([`SharedAllocator::claim`]) and gives it back when it ends; a core's interrupt level has one for ever.
//!
//! What [`SharedAllocator`] says of time it says of the *own* steps of an operation, whatever the others do meanwhile: wait
//! at any place, for ever, or run as fast as they can. A *step* is one access to a word that others may access too.

use super::{AllocError, Block, Contract, Corruption, InitError};
use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{Add, Deref};
use core::ptr::NonNull;

/// An allocator in memory its user gives, for several users at a time. All state lives in that region: the value itself is
/// one pointer.
///
/// # Safety
///
/// As [`RegionAllocator`](super::RegionAllocator), whatever its slots do at a time. What a thread wrote into a block before it
/// freed it happened before whatever a later owner of that memory does.
pub unsafe trait SharedAllocator<'r>: Sized + Send + Sync {
    /// What can be chosen when the heap is made.
    type Config: Copy + Default + fmt::Debug;

    /// The operations, in the hand of one user.
    type Slot<'h>: Slot
    where
        Self: 'h;

    /// The facts of this allocator as data.
    const CONTRACT: SharedContract;

    /// Makes a heap in `region`.
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::new`](super::RegionAllocator::new).
    ///
    /// # Time
    ///
    /// Linear in the control structure.
    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError>;

    /// How many slots the heap has; `usize::MAX` where any number will do.
    ///
    /// # Time
    ///
    /// Constant.
    fn slots(&self) -> usize;

    /// Marks a slot as taken. Whoever calls this and gets `true` owes a [`release`](Self::release);
    /// [`claim`](Self::claim) sees to that.
    ///
    /// # Time
    ///
    /// Constant: at most one step.
    fn take(&self, slot: usize) -> bool;

    /// Gives a taken slot back. The memory it had freed, or others had freed to it, stays with it until somebody takes it.
    ///
    /// # Safety
    ///
    /// The caller took the slot ([`take`](Self::take)), and nobody uses it any more.
    ///
    /// # Time
    ///
    /// Constant: at most one step.
    unsafe fn release(&self, slot: usize);

    /// The operations as a slot that the caller has.
    ///
    /// # Safety
    ///
    /// `slot` is less than [`slots`](Self::slots), and no two values of the same slot exist in different threads (or at different
    /// interrupt levels) at a time, nor is one used while an operation of another is under way. Where
    /// [`SharedContract::slots_are_exclusive`] is false this is not asked for.
    unsafe fn slot(&self, slot: usize) -> Self::Slot<'_>;

    /// Takes a slot, if nobody has it, until the value is dropped.
    ///
    /// # Time
    ///
    /// Constant.
    fn claim(&self, slot: usize) -> Option<Claim<'_, 'r, Self>> {
        if slot >= self.slots() || !self.take(slot) {
            return None;
        }
        // SAFETY: the slot exists and was taken just now.
        let operations = unsafe { self.slot(slot) };
        Some(Claim { heap: self, number: slot, operations })
    }

    /// Takes the first slot that nobody has, if there is one.
    ///
    /// # Time
    ///
    /// Linear in the number of slots: one step each.
    fn claim_any(&self) -> Option<Claim<'_, 'r, Self>> {
        (0..self.slots()).find_map(|slot| self.claim(slot))
    }

    /// Most steps that one operation takes, whatever other threads do; `None` where it may have to wait for others. What
    /// size or block it is about is part of `operation`.
    ///
    /// # Time
    ///
    /// Logarithmic in the region's size at most.
    fn most_steps(&self, operation: Operation) -> Option<Steps>;

    /// Requests refused so far.
    ///
    /// # Time
    ///
    /// Constant.
    fn refusals(&self) -> Refusals;

    /// As [`RegionAllocator::largest_allocatable`](super::RegionAllocator::largest_allocatable), for the slot that can allocate
    /// most. Nobody else is at work: the heap is borrowed whole.
    ///
    /// # Time
    ///
    /// Linear in the control structure.
    fn largest_allocatable(&mut self) -> usize;

    /// As [`largest_allocatable`](Self::largest_allocatable), for one slot.
    ///
    /// # Time
    ///
    /// As there.
    fn largest_allocatable_by(&mut self, slot: usize) -> usize {
        let _ = slot;
        self.largest_allocatable()
    }

    /// Visits every block, free and live, in address order. Nobody else is at work.
    ///
    /// # Time
    ///
    /// Linear in the region.
    fn walk(&mut self, visitor: &mut dyn FnMut(Block));

    /// As [`walk`](Self::walk), for the memory that serves one slot.
    ///
    /// # Time
    ///
    /// As there.
    fn walk_by(&mut self, slot: usize, visitor: &mut dyn FnMut(Block)) {
        let _ = slot;
        self.walk(visitor);
    }

    /// Verifies every invariant of the heap. Nobody else is at work.
    ///
    /// # Errors
    ///
    /// The first [`Corruption`] found.
    ///
    /// # Time
    ///
    /// Linear in the region.
    fn check(&mut self) -> Result<(), Corruption>;

    /// As [`RegionAllocator::fingerprint`](super::RegionAllocator::fingerprint). Nobody else is at work.
    ///
    /// # Time
    ///
    /// Linear in the region.
    fn fingerprint(&mut self, word: &mut dyn FnMut(usize));
}

/// The operations of a shared heap in the hand of one user.
///
/// # Safety
///
/// As [`SharedAllocator`].
pub unsafe trait Slot: Sized {
    /// Allocates `size_bytes` bytes at an address that is a multiple of `align_bytes`; every value of both is legal and
    /// answered.
    ///
    /// # Errors
    ///
    /// [`SharedError`] tells which; nothing changed for the caller.
    ///
    /// # Time
    ///
    /// [`SharedAllocator::most_steps`].
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError>;

    /// Allocates a block for `layout`.
    ///
    /// # Errors
    ///
    /// As [`allocate_bytes`](Self::allocate_bytes).
    ///
    /// # Time
    ///
    /// As [`allocate_bytes`](Self::allocate_bytes).
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, SharedError> {
        self.allocate_bytes(layout.size(), layout.align())
    }

    /// Gives a block back, whoever allocated it, by its address alone. A pointer that the heap can tell to be freed
    /// already, foreign or damaged is reported to the [`crate::hook`] and otherwise ignored.
    ///
    /// # Safety
    ///
    /// `block` was returned by this heap, to this or another slot, and not deallocated since; nobody uses it any more, and that
    /// it was returned happened before this call.
    ///
    /// # Time
    ///
    /// [`SharedAllocator::most_steps`].
    unsafe fn deallocate(&mut self, block: NonNull<u8>);

    /// Changes the size of a block, as [`RegionAllocator::reallocate_bytes`](super::RegionAllocator::reallocate_bytes).
    ///
    /// # Errors
    ///
    /// As [`allocate_bytes`](Self::allocate_bytes); the old block is then live and unchanged.
    ///
    /// # Safety
    ///
    /// As [`deallocate`](Self::deallocate). On success `block` is dead unless the same address came back.
    ///
    /// # Time
    ///
    /// [`SharedAllocator::most_steps`], and a copy of the content.
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError>;

    /// Bytes the caller may use at `block`: at least what was requested.
    ///
    /// # Safety
    ///
    /// `block` is live in this heap.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize;

    /// Takes back at most `budget` blocks of this slot that others freed, and says how many it took. For idle time:
    /// allocations do a little of it each. 0 where nothing is ever left to be taken back.
    ///
    /// # Time
    ///
    /// Linear in `budget`.
    fn reclaim(&mut self, budget: usize) -> usize {
        let _ = budget;
        0
    }
}

/// A slot that is taken until this is dropped. What it lends is used here: operations that could be exchanged between two claims
/// would go on with a slot that was given back.
///
/// ```compile_fail
/// # use rtalloc::{Arenas, SharedAllocator};
/// # let memory = vec![core::mem::MaybeUninit::uninit(); 1 << 16].leak();
/// let heap: Arenas<'static> = Arenas::new(memory, Default::default()).unwrap();
/// let (mut one, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
/// core::mem::swap(&mut *one, &mut *other);
/// ```
pub struct Claim<'h, 'r, H: SharedAllocator<'r>> {
    heap: &'h H,
    number: usize,
    operations: H::Slot<'h>,
}

impl<'r, H: SharedAllocator<'r>> Claim<'_, 'r, H> {
    /// Number of the slot.
    pub fn number(&self) -> usize {
        self.number
    }
}

impl<'h, 'r, H: SharedAllocator<'r>> Deref for Claim<'h, 'r, H> {
    type Target = H::Slot<'h>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.operations
    }
}

// SAFETY: those of the slot. They are lent one by one and never as a whole: two claims whose operations were exchanged would
// each give back what the other goes on using.
unsafe impl<'r, H: SharedAllocator<'r>> Slot for Claim<'_, 'r, H> {
    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        self.operations.allocate_bytes(size_bytes, align_bytes)
    }

    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, SharedError> {
        self.operations.allocate(layout)
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise, here and below.
        unsafe { self.operations.deallocate(block) }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: as above.
        unsafe { self.operations.reallocate_bytes(block, size_bytes, align_bytes) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: as above.
        unsafe { self.operations.usable_size(block) }
    }

    fn reclaim(&mut self, budget: usize) -> usize {
        self.operations.reclaim(budget)
    }
}

impl<'r, H: SharedAllocator<'r>> Drop for Claim<'_, 'r, H> {
    fn drop(&mut self) {
        // SAFETY: the slot was taken when this was made, and `operations` is not used again.
        unsafe { self.heap.release(self.number) }
    }
}

impl<'r, H: SharedAllocator<'r>> fmt::Debug for Claim<'_, 'r, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.number)
    }
}

/// What a shared allocator is and promises, as data.
#[derive(Clone, Copy, Debug)]
pub struct SharedContract {
    /// What it promises a user who is alone.
    pub alone: Contract,
    /// Whether an allocate comes to its end.
    pub allocate: Progress,
    /// Whether a deallocate comes to its end.
    pub deallocate: Progress,
    /// Two users may not have the same slot at a time. Otherwise a slot's number is a hint.
    pub slots_are_exclusive: bool,
    /// A refusal with [`SharedError::Exhausted`] proves that at some moment of the operation there was no block that the heap's policy
    /// would have taken.
    pub exhaustion_is_certain: bool,
}

/// Which operations come to their end, whatever other threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Every operation, within a number of its own steps that is known beforehand.
    WaitFree,
    /// Some operation, at any time.
    LockFree,
    /// Those nobody keeps waiting.
    Blocking,
}

impl Progress {
    /// The guarantee in words.
    pub const fn name(self) -> &'static str {
        match self {
            Progress::WaitFree => "wait-free",
            Progress::LockFree => "lock-free",
            Progress::Blocking => "blocking",
        }
    }
}

/// An operation whose steps are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An allocation of `size_bytes` at a multiple of `align_bytes`, whether it succeeds or not.
    Allocate {
        /// Bytes asked for.
        size_bytes: usize,
        /// Alignment asked for.
        align_bytes: usize,
    },
    /// A deallocation of a block of `size_bytes`, as it was allocated or last resized, by the slot that allocated it or another.
    Deallocate {
        /// Bytes asked for.
        size_bytes: usize,
        /// The strictest alignment asked for, when it was allocated or resized.
        align_bytes: usize,
    },
    /// A reallocation to `size_bytes` of a block that was allocated, or last resized, with `old_bytes`, whether it moves, stays or is
    /// refused.
    Reallocate {
        /// Bytes asked for before.
        old_bytes: usize,
        /// Bytes asked for.
        size_bytes: usize,
        /// The strictest alignment asked for, now or before.
        align_bytes: usize,
    },
    /// A [`Slot::reclaim`].
    Reclaim {
        /// Most blocks taken back.
        budget: usize,
    },
}

/// Accesses to words that others may access too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Instructions that read a word and write it as one: fetch-and-add, compare-and-swap and the like.
    pub read_modify_writes: usize,
    /// Loads.
    pub loads: usize,
    /// Stores.
    pub stores: usize,
}

impl Steps {
    /// All of them.
    pub const fn total(self) -> usize {
        self.read_modify_writes.saturating_add(self.loads).saturating_add(self.stores)
    }

    /// The more of each of the three.
    pub const fn most(self, other: Steps) -> Steps {
        const fn more(one: usize, other: usize) -> usize {
            if one > other { one } else { other }
        }
        Steps {
            read_modify_writes: more(self.read_modify_writes, other.read_modify_writes),
            loads: more(self.loads, other.loads),
            stores: more(self.stores, other.stores),
        }
    }

    /// Whether none of the three is more than in `bound`.
    pub const fn within(self, bound: Steps) -> bool {
        self.read_modify_writes <= bound.read_modify_writes && self.loads <= bound.loads && self.stores <= bound.stores
    }
}

impl Add for Steps {
    type Output = Steps;

    fn add(self, other: Steps) -> Steps {
        Steps {
            read_modify_writes: self.read_modify_writes.saturating_add(other.read_modify_writes),
            loads: self.loads.saturating_add(other.loads),
            stores: self.stores.saturating_add(other.stores),
        }
    }
}

/// Why a shared heap refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedError {
    /// The request itself: this heap never serves such a one, however much is free, or the block to be resized is none. Never
    /// [`AllocError::Exhausted`] nor [`AllocError::Pending`].
    Request(AllocError),
    /// At a moment of the operation there was no block that the heap's policy would have taken. (Where slots own memory, that is the
    /// slot's. It is certain where [`SharedContract::exhaustion_is_certain`] says so.)
    Exhausted,
    /// No block was found, and others were at work meanwhile (or might have been, where that is not watched): one may have
    /// been there at every moment, and a repetition may find it.
    Contended,
    /// As [`Exhausted`](Self::Exhausted), but others have freed blocks of this slot that it has not taken back yet: a repetition, or
    /// a [`Slot::reclaim`], goes on doing so.
    Pending,
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SharedError::Request(error) => error.fmt(f),
            SharedError::Exhausted => f.write_str("no free block is large enough"),
            SharedError::Contended => f.write_str("no block was found while others were at work: try again"),
            SharedError::Pending => {
                f.write_str("no free block is large enough before those that others freed are taken back: try again")
            }
        }
    }
}

impl core::error::Error for SharedError {}

impl From<AllocError> for SharedError {
    fn from(error: AllocError) -> Self {
        match error {
            AllocError::Exhausted => SharedError::Exhausted,
            AllocError::Pending => SharedError::Pending,
            other => SharedError::Request(other),
        }
    }
}

/// Requests refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// [`SharedError::Request`].
    pub request: usize,
    /// [`SharedError::Exhausted`].
    pub exhausted: usize,
    /// [`SharedError::Contended`].
    pub contended: usize,
    /// [`SharedError::Pending`].
    pub pending: usize,
}

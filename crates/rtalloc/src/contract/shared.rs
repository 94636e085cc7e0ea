//! The contract of heaps that several threads, cores or interrupt levels use at a time.
//!
//! Each user of such a heap has a *slot*: a number that no other user has at the same time. For some allocators it only
//! decides which memory is searched first; for others memory belongs to a slot. A thread claims one
//! ([`SharedAllocator::claim`]) and releases it when it ends; a core's interrupt level keeps one forever.
//!
//! The bounds of [`SharedAllocator`] count an operation's *own* steps, whatever other users do meanwhile: wait
//! anywhere, even forever, or run as fast as they can. A *step* is one access to a word that other users may access
//! too.

use super::{AllocError, Block, Contract, Corruption, InitError};
use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{Add, Deref};
use core::ptr::NonNull;

/// An allocator in memory that its user gives, for several users at a time. All state is in the region; the value is
/// one pointer.
///
/// # Safety
///
/// As [`RegionAllocator`](super::RegionAllocator), whatever its slots do concurrently. A thread's writes to a block
/// before it frees the block happen before everything that a later owner of that memory does.
pub unsafe trait SharedAllocator<'r>: Sized + Send + Sync {
    /// Configuration of a heap.
    type Config: Copy + Default + fmt::Debug;

    /// The operations of one user.
    type Slot<'h>: Slot
    where
        Self: 'h;

    /// The properties of this allocator as data.
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

    /// Number of slots; `usize::MAX` where any number is valid.
    ///
    /// # Time
    ///
    /// Constant.
    fn slots(&self) -> usize;

    /// Marks a slot as taken. On `true` the caller must [`release`](Self::release) it, as [`claim`](Self::claim) does.
    ///
    /// # Time
    ///
    /// Constant: at most one step.
    fn take(&self, slot: usize) -> bool;

    /// Releases a taken slot. Memory that it had freed, or others had freed to it, stays with it.
    ///
    /// # Safety
    ///
    /// The caller took the slot ([`take`](Self::take)), and no user uses it any more.
    ///
    /// # Time
    ///
    /// Constant: at most one step.
    unsafe fn release(&self, slot: usize);

    /// The operations of a slot that the caller has taken.
    ///
    /// # Safety
    ///
    /// `slot` is less than [`slots`](Self::slots), no two values of the same slot exist in different threads (or at
    /// different interrupt levels) at a time, and none is used during an operation of another. Not required where
    /// [`SharedContract::slots_are_exclusive`] is false.
    unsafe fn slot(&self, slot: usize) -> Self::Slot<'_>;

    /// Claims a slot, if it is free, until the value is dropped.
    ///
    /// # Time
    ///
    /// Constant.
    fn claim(&self, slot: usize) -> Option<Claim<'_, 'r, Self>> {
        if slot >= self.slots() || !self.take(slot) {
            return None;
        }
        // SAFETY: the slot exists and has just been taken.
        let operations = unsafe { self.slot(slot) };
        Some(Claim { heap: self, number: slot, operations })
    }

    /// Claims the first free slot, if there is one.
    ///
    /// # Time
    ///
    /// Linear in the number of slots: one step each.
    fn claim_any(&self) -> Option<Claim<'_, 'r, Self>> {
        (0..self.slots()).find_map(|slot| self.claim(slot))
    }

    /// Most steps that one operation takes, whatever other threads do; `None` where it may have to wait for them. Size
    /// and block are part of `operation`.
    ///
    /// # Time
    ///
    /// Logarithmic in the region's size at most.
    fn max_steps(&self, operation: Operation) -> Option<Steps>;

    /// Requests refused so far.
    ///
    /// # Time
    ///
    /// Constant.
    fn refusals(&self) -> Refusals;

    /// As [`RegionAllocator::largest_allocatable`](super::RegionAllocator::largest_allocatable), for the slot that can
    /// allocate most. The heap is borrowed exclusively, so no other user is active.
    ///
    /// # Time
    ///
    /// Linear in the control structure.
    fn largest_allocatable(&mut self) -> usize;

    /// As [`largest_allocatable`](Self::largest_allocatable), for one slot.
    ///
    /// # Time
    ///
    /// As [`largest_allocatable`](Self::largest_allocatable).
    fn largest_allocatable_by(&mut self, slot: usize) -> usize {
        let _ = slot;
        self.largest_allocatable()
    }

    /// Visits every block, free and live, in address order. No other user is active.
    ///
    /// # Time
    ///
    /// Linear in the region.
    fn walk(&mut self, visitor: &mut dyn FnMut(Block));

    /// As [`walk`](Self::walk), for the memory that serves one slot.
    ///
    /// # Time
    ///
    /// As [`walk`](Self::walk).
    fn walk_by(&mut self, slot: usize, visitor: &mut dyn FnMut(Block)) {
        let _ = slot;
        self.walk(visitor);
    }

    /// Verifies every invariant of the heap. No other user is active.
    ///
    /// # Errors
    ///
    /// The first [`Corruption`] found.
    ///
    /// # Time
    ///
    /// Linear in the region.
    fn check(&mut self) -> Result<(), Corruption>;

    /// As [`RegionAllocator::fingerprint`](super::RegionAllocator::fingerprint). No other user is active.
    ///
    /// # Time
    ///
    /// Linear in the region.
    fn fingerprint(&mut self, word: &mut dyn FnMut(usize));
}

/// One user's operations on a shared heap.
///
/// # Safety
///
/// As [`SharedAllocator`].
pub unsafe trait Slot: Sized {
    /// Allocates `size_bytes` bytes at an address that is a multiple of `align_bytes`; every value of both is legal.
    ///
    /// # Errors
    ///
    /// [`SharedError`]; nothing changed for the caller.
    ///
    /// # Time
    ///
    /// [`SharedAllocator::max_steps`].
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

    /// Frees a block, whichever slot allocated it, given its address alone. A pointer that the heap recognises as freed
    /// already, foreign or damaged is reported to the [`crate::hook`] and otherwise ignored.
    ///
    /// # Safety
    ///
    /// `block` was returned by this heap, to this or another slot, before this call (in the sense of happens-before),
    /// has not been deallocated since, and is no longer used.
    ///
    /// # Time
    ///
    /// [`SharedAllocator::max_steps`].
    unsafe fn deallocate(&mut self, block: NonNull<u8>);

    /// Changes the size of a block, as [`RegionAllocator::reallocate_bytes`](super::RegionAllocator::reallocate_bytes).
    ///
    /// # Errors
    ///
    /// As [`allocate_bytes`](Self::allocate_bytes); the old block is then live and unchanged.
    ///
    /// # Safety
    ///
    /// As [`deallocate`](Self::deallocate). On success `block` is dead unless the same address is returned.
    ///
    /// # Time
    ///
    /// [`SharedAllocator::max_steps`], and a copy of the content.
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError>;

    /// Bytes that the caller may use at `block`: at least those requested.
    ///
    /// # Safety
    ///
    /// `block` is live in this heap.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize;

    /// Takes back at most `budget` blocks of this slot that others freed, and returns how many. For idle time: each
    /// allocation does a little of it. 0 where no blocks are ever left to take back.
    ///
    /// # Time
    ///
    /// Linear in `budget`.
    fn reclaim(&mut self, budget: usize) -> usize {
        let _ = budget;
        0
    }
}

/// A slot that is taken until this is dropped. It forwards the operations instead of lending them by `&mut`: operations
/// swapped between two claims would go on using a slot that was released.
///
/// ```compile_fail
/// # use rtalloc::{PooledArenas, SharedAllocator};
/// # let memory = vec![core::mem::MaybeUninit::uninit(); 1 << 16].leak();
/// let heap: PooledArenas<'static> = PooledArenas::new(memory, Default::default()).unwrap();
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

// SAFETY: the operations are the slot's. They are forwarded one by one and never lent by `&mut`: if two claims swapped
// theirs, each would release the slot that the other goes on using.
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
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        unsafe { self.operations.deallocate(block) }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe { self.operations.reallocate_bytes(block, size_bytes, align_bytes) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is live in this heap.
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

/// The properties and guarantees of a shared allocator, as data.
#[derive(Clone, Copy, Debug)]
pub struct SharedContract {
    /// Its guarantees for a single user.
    pub single_user: Contract,
    /// Whether an allocate completes.
    pub allocate: Progress,
    /// Whether a deallocate completes.
    pub deallocate: Progress,
    /// No two users may have the same slot at a time. If false, a slot's number is only a hint.
    pub slots_are_exclusive: bool,
    /// A refusal with [`SharedError::Exhausted`] proves that at some moment of the operation there was no block that
    /// the heap's policy would have taken.
    pub exhaustion_is_certain: bool,
}

/// Which operations complete, whatever other threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Every operation, within a number of its own steps that is known beforehand.
    WaitFree,
    /// Some operation, at any time.
    LockFree,
    /// Those that do not wait for another thread.
    Blocking,
}

impl Progress {
    /// Description of the guarantee.
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
        /// Bytes requested.
        size_bytes: usize,
        /// Alignment requested.
        align_bytes: usize,
    },
    /// A deallocation of a block of `size_bytes`, as it was allocated or last resized, by the slot that allocated it or
    /// another.
    Deallocate {
        /// Bytes requested.
        size_bytes: usize,
        /// The strictest alignment requested, when it was allocated or resized.
        align_bytes: usize,
    },
    /// A reallocation to `size_bytes` of a block that was allocated, or last resized, with `old_bytes`, whether it
    /// moves, stays or is refused.
    Reallocate {
        /// Bytes requested before.
        old_bytes: usize,
        /// Bytes requested now.
        size_bytes: usize,
        /// The strictest alignment requested, now or before.
        align_bytes: usize,
    },
    /// A [`Slot::reclaim`].
    Reclaim {
        /// Most blocks taken back.
        budget: usize,
    },
}

/// Accesses to words that other users may access too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Atomic read-modify-writes: fetch-and-add, compare-and-swap and the like.
    pub read_modify_writes: usize,
    /// Loads.
    pub loads: usize,
    /// Stores.
    pub stores: usize,
}

impl Steps {
    /// The sum of all three.
    pub const fn total(self) -> usize {
        self.read_modify_writes.saturating_add(self.loads).saturating_add(self.stores)
    }

    /// The larger of each of the three.
    pub const fn max(self, other: Steps) -> Steps {
        const fn more(one: usize, other: usize) -> usize {
            if one > other { one } else { other }
        }
        Steps {
            read_modify_writes: more(self.read_modify_writes, other.read_modify_writes),
            loads: more(self.loads, other.loads),
            stores: more(self.stores, other.stores),
        }
    }

    /// Whether none of the three exceeds that of `bound`.
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
    /// The request itself is invalid: this heap never serves it, however much is free, or the block to be resized is
    /// not a block. Never [`AllocError::Exhausted`] nor [`AllocError::Pending`].
    Request(AllocError),
    /// At a moment of the operation there was no block that the heap's policy would have taken. (Where slots own
    /// memory: no block of the slot. Certain only where [`SharedContract::exhaustion_is_certain`].)
    Exhausted,
    /// No block was found, and other users were active meanwhile (or might have been, where that is not tracked): a
    /// block may have been free at every moment, and a retry may find it.
    Contended,
    /// As [`Exhausted`](Self::Exhausted), but others have freed blocks of this slot that it has not taken back yet: a
    /// retry, or a [`Slot::reclaim`], continues to take them back.
    Pending,
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SharedError::Request(error) => error.fmt(f),
            SharedError::Exhausted => f.write_str("no free block is large enough"),
            SharedError::Contended => f.write_str("no block was found while other users were active: try again"),
            SharedError::Pending => {
                f.write_str("no free block is large enough before blocks freed by others are taken back: try again")
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

//! A sequential heap under a lock, as a shared one.
//!
//! # Idea
//!
//! Every operation takes the lock, which lies at the start of the heap's own region:
//!
//! ```text
//! region: [lock][the heap's one word][refusals] [the heap's region ...]
//!         one or two cache lines on 64-bit machines
//! ```
//!
//! It is the right choice where the tasks of one core share a heap, and where operations are rare. It works with every
//! region allocator and every [`Lock`]: a spin or ticket lock, a mutex of the system, interrupts off.
//!
//! # Worst case
//!
//! Allocate and deallocate hold the lock for one operation of the heap and a few instructions around it. The *hold* is
//! the longer of the two critical sections. `rtalloc bound` proves it from the machine code of the heap under the lock:
//! the most instructions from the entry point, through lock, operation and unlock, to the return, without contention.
//! On x86-64:
//!
//! <!-- holds: tlsf half-fit -->
//! | heap, lock | longest hold: allocate, aligned, deallocate |
//! |---|---|
//! | `tlsf`, spin | 185, 185, 87 |
//! | `tlsf`, ticket | 185, 185, 86 |
//! | `half-fit`, spin | 142, 142, 77 |
//!
//! Measured 2026-11-28 at 166ce5f by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->
//!
//! | lock | longest wait of an operation |
//! |---|---|
//! | fair (ticket, queue), T users, none of them preempted or migrated while holding or waiting | (T - 1) · hold |
//! | fair, and users are preempted | the same, plus everything that preempts a holder, each time: priority inversion |
//! | priority ceiling, or interrupts off, on one core | one hold, before it begins |
//! | unfair (test-and-set, most system mutexes) | unbounded: others may get the lock again and again |
//!
//! A `reallocate` that has to move the block copies it under the lock, which lengthens the critical section by the
//! smaller of both sizes. Where that is too long, allocate, copy and deallocate instead: the copy is then outside.
//!
//! # When it wins, when it loses
//!
//! A single user pays for the lock, tens of cycles. Users on several cores serialise, and each operation fetches the
//! cache lines that the last user wrote. A user that is stopped while holding the lock stops all others. A lock that
//! waits cannot be used by an interrupt handler that may interrupt its holder.

use super::lock::Lock;
use crate::contract::{
    AllocError, Block, Corruption, InitError, Operation, Progress, Refusals, RegionAllocator, SharedAllocator,
    SharedContract, SharedError, Slot, Stats, Steps,
};
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// The data before the heap. Where machines have caches it has lines of its own, so that waiting threads do not
/// invalidate the lines that the holder writes.
#[repr(C)]
#[cfg_attr(all(target_pointer_width = "64", not(target_arch = "aarch64")), repr(align(64)))]
#[cfg_attr(target_arch = "aarch64", repr(align(128)))]
struct Control<H, L> {
    lock: L,
    /// Accessed only by the holder of the lock, or under exclusive access to the heap.
    guarded: UnsafeCell<Guarded<H>>,
}

#[repr(C)]
pub(super) struct Guarded<H> {
    /// The heap, in the rest of the region.
    pub(super) heap: H,
    /// The complement of the heap's one word, by which [`SharedAllocator::check`] detects an overwrite.
    seal: usize,
    refusals: Refusals,
}

impl<H> Guarded<H> {
    /// The heap's one word.
    fn word(heap: &H) -> usize {
        const { assert!(size_of::<H>() == size_of::<usize>(), "a heap's value must be one pointer") }
        // SAFETY: a heap is one pointer, by the assertion.
        unsafe { core::mem::transmute_copy(heap) }
    }
}

/// The region allocator `H` under a lock of the kind `L`; see the [module](self).
///
/// The value is one pointer. Slot numbers are ignored. All operations may be used by `&self`:
///
/// ```
/// # #[cfg(feature = "lock_api")] {
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use rtalloc::adapt::Locked;
/// use rtalloc::{SharedAllocator, Tlsf};
///
/// let mut memory = [MaybeUninit::uninit(); 4096];
/// let heap: Locked<Tlsf, spin::Mutex<()>> = Locked::new(&mut memory, Default::default())?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             let block = heap.allocate(Layout::new::<[u64; 8]>()).expect("room for two");
///             // SAFETY: the block came from this heap, once, and is no longer used.
///             unsafe { heap.deallocate(block) };
///         });
///     }
/// });
/// # }
/// # Ok::<(), rtalloc::contract::InitError>(())
/// ```
#[repr(transparent)]
pub struct Locked<'r, H, L> {
    /// Initialised, in the region.
    control: NonNull<Control<H, L>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the lock admits one thread at a time to the heap, and `H: Send` lets any thread use it.
unsafe impl<H: Send, L: Lock> Send for Locked<'_, H, L> {}
// SAFETY: as for `Send`.
unsafe impl<H: Send, L: Lock> Sync for Locked<'_, H, L> {}

impl<'r, H: RegionAllocator<'r> + Send, L: Lock> Locked<'r, H, L> {
    /// Alignment and size of the data before the heap, in bytes.
    const CONTROL: Layout = Layout::new::<Control<H, L>>();

    #[inline(always)]
    fn control(&self) -> &Control<H, L> {
        // SAFETY: initialised when the heap was made, and only shared from then on.
        unsafe { self.control.as_ref() }
    }

    /// The protected data, for queries under exclusive access. (Shared, because a walk's visitor may query.)
    fn whole(&mut self) -> &Guarded<H> {
        // SAFETY: the heap is borrowed exclusively, and queries do not change it.
        unsafe { &*self.control().guarded.get() }
    }

    /// Runs an operation under the lock.
    #[inline(always)]
    pub(super) fn hold<T>(&self, operation: impl FnOnce(&mut Guarded<H>) -> T) -> T {
        let control = self.control();
        control.lock.hold(|| {
            // SAFETY: the lock is held, so there is no other access to what it protects.
            operation(unsafe { &mut *control.guarded.get() })
        })
    }

    /// Runs a query under the lock.
    #[inline(always)]
    fn ask<T>(&self, question: impl FnOnce(&Guarded<H>) -> T) -> T {
        let control = self.control();
        control.lock.hold(|| {
            // SAFETY: the lock is held, so no other thread changes what it protects.
            question(unsafe { &*control.guarded.get() })
        })
    }

    /// Allocates `size_bytes` bytes at a multiple of `align_bytes`, as [`RegionAllocator::allocate_bytes`].
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::allocate_bytes`].
    ///
    /// # Time
    ///
    /// The heap's `CONTRACT.allocate`, under the lock.
    #[inline(always)]
    pub fn allocate_bytes(&self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.hold(|guarded| match guarded.heap.allocate_bytes(size_bytes, align_bytes) {
            Ok(block) => Ok(block),
            Err(error) => Err(refused(&mut guarded.refusals, error)),
        })
    }

    /// Allocates a block for `layout`, as [`RegionAllocator::allocate`].
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::allocate`].
    ///
    /// # Time
    ///
    /// The heap's `CONTRACT.allocate`, under the lock.
    #[inline(always)]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.hold(|guarded| match guarded.heap.allocate(layout) {
            Ok(block) => Ok(block),
            Err(error) => Err(refused(&mut guarded.refusals, error)),
        })
    }

    /// Frees a block, as [`RegionAllocator::deallocate`].
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::deallocate`].
    ///
    /// # Time
    ///
    /// The heap's `CONTRACT.deallocate`, under the lock.
    #[inline(always)]
    pub unsafe fn deallocate(&self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        self.hold(|guarded| unsafe { guarded.heap.deallocate(block) });
    }

    /// Changes the size of a block, as [`RegionAllocator::reallocate_bytes`].
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    ///
    /// # Time
    ///
    /// The heap's `CONTRACT.reallocate`, and the copy of a block that moves, under the lock.
    #[inline]
    pub unsafe fn reallocate_bytes(
        &self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        self.hold(|guarded| {
            // SAFETY: the caller guarantees that the block is live in this heap.
            match unsafe { guarded.heap.reallocate_bytes(block, size_bytes, align_bytes) } {
                Ok(block) => Ok(block),
                Err(error) => Err(refused(&mut guarded.refusals, error)),
            }
        })
    }

    /// Bytes that the caller may use at `block`, as [`RegionAllocator::usable_size`].
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::usable_size`].
    ///
    /// # Time
    ///
    /// Constant, under the lock.
    pub unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is live in this heap.
        self.ask(|guarded| unsafe { guarded.heap.usable_size(block) })
    }

    /// Running statistics, as [`RegionAllocator::stats`].
    ///
    /// # Time
    ///
    /// As [`RegionAllocator::stats`], under the lock.
    pub fn stats(&self) -> Option<Stats> {
        self.ask(|guarded| guarded.heap.stats())
    }

    /// Runs a query under the lock. The function must not use the heap in another way: it would deadlock.
    ///
    /// # Time
    ///
    /// That of the function, under the lock.
    pub fn inspect<T>(&self, question: impl FnOnce(&H) -> T) -> T {
        self.ask(|guarded| question(&guarded.heap))
    }
}

/// Counts a refusal. Cold, so that the hot path has one jump to it.
#[cold]
#[inline(never)]
fn refused(refusals: &mut Refusals, error: AllocError) -> AllocError {
    let count = match error.into() {
        SharedError::Request(_) => &mut refusals.request,
        SharedError::Exhausted => &mut refusals.exhausted,
        SharedError::Contended => &mut refusals.contended,
        SharedError::Pending => &mut refusals.pending,
    };
    *count = count.wrapping_add(1);
    error
}

// SAFETY: the blocks are the heap's, whose operations run one at a time, each before the next.
unsafe impl<'r, H: RegionAllocator<'r> + Send, L: Lock> SharedAllocator<'r> for Locked<'r, H, L> {
    type Config = H::Config;

    type Slot<'h>
        = &'h Self
    where
        Self: 'h;

    const CONTRACT: SharedContract = SharedContract {
        single_user: H::CONTRACT,
        allocate: Progress::Blocking,
        deallocate: Progress::Blocking,
        slots_are_exclusive: false,
        exhaustion_is_certain: true,
    };

    fn new(region: &'r mut [MaybeUninit<u8>], config: H::Config) -> Result<Self, InitError> {
        let padding_bytes = region.as_ptr().addr().wrapping_neg() & (Self::CONTROL.align() - 1);
        let front_bytes = padding_bytes + Self::CONTROL.size();
        // The heap needs the front in addition, which may be longer at another alignment of the region.
        let most_front_bytes = Self::CONTROL.align() - 1 + Self::CONTROL.size();
        let with_front = |error| match error {
            InitError::TooSmall { needed_bytes } => {
                InitError::TooSmall { needed_bytes: needed_bytes.saturating_add(most_front_bytes) }
            }
            InitError::LargerThanPlanned { max_region_bytes } => {
                InitError::LargerThanPlanned { max_region_bytes: max_region_bytes.saturating_add(front_bytes) }
            }
            InitError::OutOfReach { .. } | InitError::Overlap | InitError::Configuration { .. } => error,
        };
        let (front, rest): (_, &'r mut [_]) = match region.split_at_mut_checked(front_bytes) {
            Some((front, rest)) => (Some(front), rest),
            None => (None, &mut []),
        };
        let heap = H::new(rest, config).map_err(with_front)?;
        let Some(front) = front else {
            return Err(with_front(InitError::TooSmall { needed_bytes: 0 }));
        };
        let seal = !Guarded::word(&heap);
        let guarded = UnsafeCell::new(Guarded { heap, seal, refusals: Refusals::default() });
        // SAFETY: after the padding, the front is as long as the control structure, and aligned for it.
        let control = unsafe {
            let control = NonNull::from(front).cast::<u8>().add(padding_bytes).cast();
            control.write(Control { lock: L::FREE, guarded });
            control
        };
        Ok(Locked { control, region: PhantomData })
    }

    fn slots(&self) -> usize {
        usize::MAX
    }

    fn take(&self, _slot: usize) -> bool {
        true
    }

    unsafe fn release(&self, _slot: usize) {}

    #[inline(always)]
    unsafe fn slot(&self, _slot: usize) -> &Self {
        self
    }

    fn max_steps(&self, _operation: Operation) -> Option<Steps> {
        None
    }

    fn refusals(&self) -> Refusals {
        self.ask(|guarded| guarded.refusals)
    }

    fn largest_allocatable(&mut self) -> usize {
        self.whole().heap.largest_allocatable()
    }

    fn walk(&mut self, visitor: &mut dyn FnMut(Block)) {
        self.whole().heap.walk(visitor);
    }

    fn check(&mut self) -> Result<(), Corruption> {
        let broken = |invariant| Corruption { invariant, address: self.control.addr().get() };
        let held = broken("the lock is not held while the heap is not used");
        let overwritten = broken("the heap's one word is the complement of its seal");
        if self.control().lock.is_held() {
            return Err(held);
        }
        let guarded = self.whole();
        if Guarded::word(&guarded.heap) != !guarded.seal {
            return Err(overwritten);
        }
        guarded.heap.check()
    }

    fn fingerprint(&mut self, word: &mut dyn FnMut(usize)) {
        // The lock is free, and the counters do not affect behaviour.
        self.whole().heap.fingerprint(word);
    }
}

// SAFETY: as for `SharedAllocator`.
unsafe impl<'r, H: RegionAllocator<'r> + Send, L: Lock> Slot for &Locked<'r, H, L> {
    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        Locked::allocate_bytes(self, size_bytes, align_bytes).map_err(SharedError::from)
    }

    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, SharedError> {
        Locked::allocate(self, layout).map_err(SharedError::from)
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        unsafe { Locked::deallocate(self, block) }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe { Locked::reallocate_bytes(self, block, size_bytes, align_bytes) }.map_err(SharedError::from)
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe { Locked::usable_size(self, block) }
    }
}

impl<'r, H: RegionAllocator<'r> + Send, L: Lock> fmt::Debug for Locked<'r, H, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} under a lock, at {:p}", H::CONTRACT.name, self.control)
    }
}

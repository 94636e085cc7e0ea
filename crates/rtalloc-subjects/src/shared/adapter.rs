//! Adapts an allocator for several threads to the entry points of a replay.

use super::lock::Lock;
use super::{Check, Count, SharedSubject, UnderLock};
use crate::adapter::{Made, Target, ours};
use crate::{About, Entries, NATURAL_ALIGN_BYTES, Origin, Reach, View, WalkEntry};
use rtalloc::adapt::{Locked, SingleUser};
use rtalloc::concurrent::atomics::Atomics;
use rtalloc::concurrent::bitmap_buddy::{BitmapBuddy, BitmapConfig, Shape};
use rtalloc::concurrent::tree_buddy::{Layout, Options, TreeBuddy};
use rtalloc::concurrent::{PooledArenas, PooledArenasConfig};
use rtalloc::contract::{
    AllocError, InPieces, Operation, Progress, RegionAllocator, SharedAllocator, SharedError, Slot, Steps,
};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

/// An allocator that several threads call concurrently. The methods are inlined into one function each, the entry
/// points.
///
/// # Safety
///
/// The blocks returned are live memory of the given region (or the subject's own pages) until they are freed, under any
/// concurrent use.
pub unsafe trait SharedTarget {
    /// A user's access to the heap.
    type Slot;

    /// Whether memory comes from the system instead of the region.
    const OWN_PAGES: bool = false;
    /// Alignment of a block for which no larger one is requested.
    const NATURAL_ALIGN_BYTES: usize = NATURAL_ALIGN_BYTES;
    /// The requests it never serves, whatever the region.
    const REACH: Reach = Reach::UNLIMITED;
    /// Visits the blocks.
    const WALK: Option<WalkEntry> = None;
    /// Verifies a heap.
    const CHECK: Option<Check> = None;
    /// Published bounds of steps.
    const MAX_STEPS: Option<unsafe fn(*mut c_void, Operation) -> Option<Steps>> = None;

    /// Whether a thread like the calling one can use it.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    fn ready() -> Result<(), String> {
        Ok(())
    }

    /// Creates a heap for at most `users` concurrent threads.
    ///
    /// # Errors
    ///
    /// The region is unsuitable.
    ///
    /// # Safety
    ///
    /// The region is writable, page-aligned and exclusively the heap's until `release`.
    unsafe fn make(region: *mut u8, bytes: usize, users: usize) -> Result<Made, String>;

    /// Frees the memory that `make` allocated for itself.
    ///
    /// # Safety
    ///
    /// `heap` came from `make` and is not used again.
    unsafe fn release(heap: *mut c_void);

    /// A user's access to the heap; `None` if the number is in use.
    ///
    /// # Safety
    ///
    /// `heap` came from `make`.
    unsafe fn join(heap: *mut c_void, number: usize) -> Option<Self::Slot>;

    /// Releases a user's number.
    ///
    /// # Safety
    ///
    /// `number` was joined, and its slot is not used again.
    unsafe fn leave(_heap: *mut c_void, _number: usize) {}

    /// Allocates.
    ///
    /// # Errors
    ///
    /// The reason for the refusal.
    ///
    /// # Safety
    ///
    /// `size` is at least 1 and `align` a power of two that make a valid `Layout`.
    unsafe fn allocate(slot: &mut Self::Slot, size: usize, align: usize) -> Result<NonNull<u8>, SharedError>;

    /// Deallocates.
    ///
    /// # Safety
    ///
    /// `block` is live and was last requested with this size and alignment.
    unsafe fn deallocate(slot: &mut Self::Slot, block: NonNull<u8>, size: usize, align: usize);

    /// Reallocates.
    ///
    /// # Errors
    ///
    /// The reason for the refusal; the old block stays live.
    ///
    /// # Safety
    ///
    /// As [`deallocate`](Self::deallocate) and [`allocate`](Self::allocate).
    unsafe fn reallocate(
        slot: &mut Self::Slot,
        block: NonNull<u8>,
        old: usize,
        align: usize,
        new: usize,
    ) -> Result<NonNull<u8>, SharedError>;

    /// Reclaims blocks that other threads freed; returns their number.
    fn reclaim(_slot: &mut Self::Slot, _budget: usize) -> usize {
        0
    }
}

/// A slot with its user's count before it, where [`super::User`] expects it.
#[repr(C)]
struct UserContext<S> {
    count: Count,
    slot: S,
}

impl<S> UserContext<S> {
    #[inline(always)]
    unsafe fn of<'a>(context: *mut c_void) -> &'a mut Self {
        // SAFETY: the context belongs to a user, and only the caller accesses it now.
        unsafe { &mut *context.cast::<Self>() }
    }

    #[inline(always)]
    fn answer(&mut self, result: Result<NonNull<u8>, SharedError>) -> *mut u8 {
        match result {
            Ok(block) => block.as_ptr(),
            Err(error) => self.refuse(error),
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: SharedError) -> *mut u8 {
        self.count.refused.note(error);
        self.count.last = Some(error);
        null_mut()
    }
}

#[inline(never)]
unsafe extern "C-unwind" fn allocate<T: SharedTarget>(context: *mut c_void, size: usize, _align: usize) -> *mut u8 {
    // SAFETY: the caller's guarantee is passed on; natural alignment makes a valid layout wherever a smaller one does.
    unsafe {
        let user = UserContext::<T::Slot>::of(context);
        let result = T::allocate(&mut user.slot, size, T::NATURAL_ALIGN_BYTES);
        user.answer(result)
    }
}

#[inline(never)]
unsafe extern "C-unwind" fn allocate_aligned<T: SharedTarget>(
    context: *mut c_void,
    size: usize,
    align: usize,
) -> *mut u8 {
    // SAFETY: the caller's guarantee is passed on unchanged.
    unsafe {
        let user = UserContext::<T::Slot>::of(context);
        let result = T::allocate(&mut user.slot, size, align);
        user.answer(result)
    }
}

#[inline(never)]
unsafe extern "C-unwind" fn deallocate<T: SharedTarget>(
    context: *mut c_void,
    block: *mut u8,
    size: usize,
    align: usize,
) {
    // SAFETY: the block is live, so it is not null; what `deallocate` requires holds by this function's contract.
    unsafe { T::deallocate(&mut UserContext::<T::Slot>::of(context).slot, NonNull::new_unchecked(block), size, align) }
}

#[inline(never)]
unsafe extern "C-unwind" fn reallocate<T: SharedTarget>(
    context: *mut c_void,
    block: *mut u8,
    old: usize,
    align: usize,
    new: usize,
) -> *mut u8 {
    // SAFETY: the block is live, so it is not null; what `reallocate` requires holds by this function's contract.
    unsafe {
        let user = UserContext::<T::Slot>::of(context);
        let result = T::reallocate(&mut user.slot, NonNull::new_unchecked(block), old, align, new);
        user.answer(result)
    }
}

unsafe fn join<T: SharedTarget>(heap: *mut c_void, number: usize) -> Option<*mut c_void> {
    // SAFETY: `heap` came from `make`, and `number` is not in use.
    let slot = unsafe { T::join(heap, number) }?;
    Some(Box::into_raw(Box::new(UserContext { count: Count::default(), slot })).cast())
}

unsafe fn leave<T: SharedTarget>(heap: *mut c_void, number: usize, context: *mut c_void) {
    // SAFETY: the context was boxed by `join` and is not used again; the slot is dropped before its number is released.
    unsafe {
        drop(Box::from_raw(context.cast::<UserContext<T::Slot>>()));
        T::leave(heap, number);
    }
}

unsafe fn reclaim<T: SharedTarget>(context: *mut c_void, budget: usize) -> usize {
    // SAFETY: `context` came from `join`, and only the caller uses it.
    T::reclaim(unsafe { &mut UserContext::<T::Slot>::of(context).slot }, budget)
}

const fn subject<T: SharedTarget>(name: &'static str, origin: Origin) -> SharedSubject {
    SharedSubject {
        name,
        origin,
        lock: None,
        guards: None,
        progress: None,
        refuses: &["exhausted"],
        option_of: None,
        own_pages: T::OWN_PAGES,
        entries: Entries {
            allocate: allocate::<T>,
            allocate_aligned: allocate_aligned::<T>,
            deallocate: deallocate::<T>,
            reallocate: reallocate::<T>,
            granted: None,
            natural_align_bytes: T::NATURAL_ALIGN_BYTES,
            handles: None,
        },
        reach: T::REACH,
        stepped: None,
        ready: T::ready,
        make: T::make,
        release: T::release,
        join: join::<T>,
        leave: leave::<T>,
        reclaim: reclaim::<T>,
        check: T::CHECK,
        walk: T::WALK,
        max_steps: T::MAX_STEPS,
    }
}

/// A peer with its own pages, which is thread-safe by itself.
pub(super) const fn paged<T: Target>(name: &'static str, origin: Origin) -> SharedSubject {
    subject::<Paged<T>>(name, origin)
}

/// A sequential allocator under a lock.
pub(super) const fn under<T: Target, L: Lock>(name: &'static str, origin: Origin) -> SharedSubject {
    let lock = Some(L::NAME);
    let progress = Some((Progress::Blocking, Progress::Blocking));
    SharedSubject { lock, progress, ..subject::<Under<T, L>>(name, origin) }
}

/// One of our shared allocators, and the same with reported steps.
pub(super) const fn together<H: Tuned + 'static>(
    name: &'static str,
    stepped: Option<&'static SharedSubject>,
) -> SharedSubject {
    let contract = H::CONTRACT;
    SharedSubject {
        progress: Some((contract.allocate, contract.deallocate)),
        stepped,
        ..subject::<Together<H>>(name, Origin::Ours)
    }
}

/// One of our sequential allocators under a lock, with the library's own adapter.
pub(super) const fn locked<H: RegionAllocator<'static> + Send + 'static, L: Lock + Send + Sync + 'static>(
    name: &'static str,
) -> SharedSubject {
    let subject = together::<Locked<'static, H, L>>(name, None);
    // The functions of a program: a user's context and its count of refusals belong to the laboratory.
    let entries = ours::<SingleUser<'static, Locked<'static, H, L>>>(name, About::NOTHING).entries;
    let guards = Some(UnderLock { heap: H::CONTRACT.name, entries });
    SharedSubject { lock: Some(L::NAME), guards, ready: L::ready, ..subject }
}

/// The configuration of one of our heaps for a number of users.
pub trait Tuned: SharedAllocator<'static> {
    /// The configuration.
    #[must_use]
    fn tuned(_users: usize) -> Self::Config {
        Self::Config::default()
    }
}

impl<H: InPieces<'static> + 'static, A: Atomics> Tuned for PooledArenas<'static, H, A> {
    fn tuned(users: usize) -> Self::Config {
        PooledArenasConfig { slots: users, ..PooledArenasConfig::default() }
    }
}

impl<const LEAF: usize, A: Atomics, S: Shape> Tuned for BitmapBuddy<'static, LEAF, A, S> {
    fn tuned(users: usize) -> Self::Config {
        BitmapConfig { slots: users }
    }
}

impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Tuned for TreeBuddy<'static, NODE, L, O, A> {}

impl<H: RegionAllocator<'static> + Send, L: Lock + Send + Sync> Tuned for Locked<'static, H, L> {}

/// One of our shared allocators.
pub struct Together<H>(PhantomData<H>);

impl<H: Tuned> Together<H> {
    unsafe fn of<'a>(heap: *mut c_void) -> &'a mut H {
        // SAFETY: `make` boxed it, and there is no other reference.
        unsafe { &mut *heap.cast::<H>() }
    }
}

// SAFETY: the contract of SharedAllocator guarantees it.
unsafe impl<H: Tuned + 'static> SharedTarget for Together<H> {
    type Slot = H::Slot<'static>;

    const NATURAL_ALIGN_BYTES: usize = {
        let own = H::CONTRACT.single_user.alignment_bytes;
        if own < NATURAL_ALIGN_BYTES { own } else { NATURAL_ALIGN_BYTES }
    };
    const REACH: Reach = Reach {
        request_bytes: H::CONTRACT.single_user.largest_request_bytes,
        alignment_bytes: H::CONTRACT.single_user.largest_alignment_bytes,
    };
    // SAFETY: `make` boxed the heap, and no operation is in progress.
    const WALK: Option<WalkEntry> = Some(|heap, visitor| unsafe { Self::of(heap) }.walk(visitor));
    const CHECK: Option<Check> =
        // SAFETY: `make` boxed the heap, and no operation is in progress.
        Some(|heap| unsafe { Self::of(heap) }.check().map_err(|corruption| corruption.to_string()));
    const MAX_STEPS: Option<unsafe fn(*mut c_void, Operation) -> Option<Steps>> =
        // SAFETY: `make` boxed the heap; operations in progress only share it.
        Some(|heap, operation| unsafe { &*heap.cast::<H>() }.max_steps(operation));

    unsafe fn make(region: *mut u8, bytes: usize, users: usize) -> Result<Made, String> {
        // SAFETY: the caller gives the region exclusively to this heap, for as long as it is used.
        let memory: &'static mut [MaybeUninit<u8>] = unsafe { std::slice::from_raw_parts_mut(region.cast(), bytes) };
        let mut heap = H::new(memory, H::tuned(users)).map_err(|error| error.to_string())?;
        let mut first_block_address = usize::MAX;
        heap.walk(&mut |block| {
            first_block_address = first_block_address.min(block.address - block.front_bytes);
        });
        Ok(Made { context: Box::into_raw(Box::new(heap)).cast(), first_block_address, outside_bytes: 0 })
    }

    unsafe fn release(heap: *mut c_void) {
        // SAFETY: `make` boxed it, and no slot exists any more.
        drop(unsafe { Box::from_raw(heap.cast::<H>()) });
    }

    unsafe fn join(heap: *mut c_void, number: usize) -> Option<Self::Slot> {
        // SAFETY: `make` boxed it; it is not moved until `release`, which comes after every slot.
        let heap: &'static H = unsafe { &*heap.cast::<H>() };
        // SAFETY: the slot exists and was taken just now.
        (number < heap.slots() && heap.take(number)).then(|| unsafe { heap.slot(number) })
    }

    unsafe fn leave(heap: *mut c_void, number: usize) {
        // SAFETY: `join` took it, and its operations are not used any more.
        unsafe { (*heap.cast::<H>()).release(number) }
    }

    #[inline(always)]
    unsafe fn allocate(slot: &mut Self::Slot, size: usize, align: usize) -> Result<NonNull<u8>, SharedError> {
        slot.allocate_bytes(size, align)
    }

    #[inline(always)]
    unsafe fn deallocate(slot: &mut Self::Slot, block: NonNull<u8>, _size: usize, _align: usize) {
        // SAFETY: the block is live and came from this heap.
        unsafe { slot.deallocate(block) }
    }

    #[inline(always)]
    unsafe fn reallocate(
        slot: &mut Self::Slot,
        block: NonNull<u8>,
        _old: usize,
        align: usize,
        new: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: the block is live and came from this heap.
        unsafe { slot.reallocate_bytes(block, new, align) }
    }

    fn reclaim(slot: &mut Self::Slot, budget: usize) -> usize {
        slot.reclaim(budget)
    }
}

/// The block, or a refusal of an allocator that does not report the reason.
fn or_exhausted(block: *mut u8) -> Result<NonNull<u8>, SharedError> {
    NonNull::new(block).ok_or(SharedError::Exhausted)
}

/// A sequential allocator of the table under a lock, as in a program without another allocator for threads.
struct Under<T, L>(PhantomData<(T, L)>);

/// The lock, alone in its cache lines, and the guarded heap.
#[repr(align(128))]
struct Guarded<L> {
    lock: L,
    context: *mut c_void,
}

impl<T: Target, L: Lock> Under<T, L> {
    #[inline(always)]
    unsafe fn with<R>(slot: &mut NonNull<Guarded<L>>, operation: impl FnOnce(*mut c_void) -> R) -> R {
        // SAFETY: the guarded heap outlives its slots, and the lock excludes all other accesses.
        unsafe {
            let guarded = slot.as_ref();
            guarded.lock.lock();
            let result = operation(guarded.context);
            guarded.lock.unlock();
            result
        }
    }
}

// SAFETY: the lock ensures that only one user at a time calls an allocator that is safe for one.
unsafe impl<T: Target, L: Lock> SharedTarget for Under<T, L> {
    type Slot = NonNull<Guarded<L>>;

    const NATURAL_ALIGN_BYTES: usize = T::NATURAL_ALIGN_BYTES;
    const REACH: Reach = T::REACH;
    const WALK: Option<WalkEntry> = match T::VIEW {
        Some(View { .. }) => Some(|heap, visitor| {
            let view = T::VIEW.expect("checked above");
            // SAFETY: `make` boxed it, and no operation is in progress.
            unsafe { (view.walk)((*heap.cast::<Guarded<L>>()).context, visitor) }
        }),
        None => None,
    };

    fn ready() -> Result<(), String> {
        L::ready()
    }

    unsafe fn make(region: *mut u8, bytes: usize, users: usize) -> Result<Made, String> {
        if users > L::MAX_USERS {
            return Err(format!("{users} users without a lock"));
        }
        // SAFETY: the region outlives the heap, which alone uses it.
        let made = unsafe { T::make(region, bytes) }?;
        let guarded = Box::new(Guarded { lock: L::INIT, context: made.context });
        Ok(Made { context: Box::into_raw(guarded).cast(), ..made })
    }

    unsafe fn release(heap: *mut c_void) {
        // SAFETY: `make` boxed it, and it is not used any more.
        unsafe { T::release(Box::from_raw(heap.cast::<Guarded<L>>()).context) }
    }

    unsafe fn join(heap: *mut c_void, _number: usize) -> Option<Self::Slot> {
        NonNull::new(heap.cast())
    }

    #[inline(always)]
    unsafe fn allocate(slot: &mut Self::Slot, size: usize, align: usize) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: the slot is the heap that `make` boxed, and the size and alignment are valid.
        or_exhausted(unsafe { Self::with(slot, |context| T::allocate(context, size, align)) })
    }

    #[inline(always)]
    unsafe fn deallocate(slot: &mut Self::Slot, block: NonNull<u8>, size: usize, align: usize) {
        // SAFETY: the slot is the heap that `make` boxed, and the block is live with this size and alignment.
        unsafe { Self::with(slot, |context| T::deallocate(context, block.as_ptr(), size, align)) }
    }

    #[inline(always)]
    unsafe fn reallocate(
        slot: &mut Self::Slot,
        block: NonNull<u8>,
        old: usize,
        align: usize,
        new: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: the slot is the heap that `make` boxed, and the block is live with this size and alignment.
        or_exhausted(unsafe { Self::with(slot, |context| T::reallocate(context, block.as_ptr(), old, align, new)) })
    }
}

/// An allocator of the table that takes its own pages and is thread-safe by itself.
struct Paged<T>(PhantomData<T>);

// SAFETY: it is the process's allocator, or could be.
unsafe impl<T: Target> SharedTarget for Paged<T> {
    type Slot = ();

    const OWN_PAGES: bool = T::OWN_PAGES;
    const REACH: Reach = T::REACH;

    fn ready() -> Result<(), String> {
        // SAFETY: an allocator with its own pages ignores the region; the heap is not used.
        unsafe { T::make(null_mut(), 0).map(|made| T::release(made.context)) }
    }

    unsafe fn make(region: *mut u8, bytes: usize, _users: usize) -> Result<Made, String> {
        // SAFETY: the region is writable, page-aligned and exclusively the heap's until `release`.
        unsafe { T::make(region, bytes) }
    }

    unsafe fn release(heap: *mut c_void) {
        // SAFETY: `make` returned the heap, which is not used afterwards.
        unsafe { T::release(heap) }
    }

    unsafe fn join(_heap: *mut c_void, _number: usize) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    unsafe fn allocate(_slot: &mut (), size: usize, align: usize) -> Result<NonNull<u8>, SharedError> {
        if Self::REACH.is_beyond(size, align) {
            return Err(SharedError::Request(AllocError::TooLarge));
        }
        // SAFETY: `T` ignores its context, and the size and alignment are valid.
        or_exhausted(unsafe { T::allocate(null_mut(), size, align) })
    }

    #[inline(always)]
    unsafe fn deallocate(_slot: &mut (), block: NonNull<u8>, size: usize, align: usize) {
        // SAFETY: `T` ignores its context, and the block is live with this size and alignment.
        unsafe { T::deallocate(null_mut(), block.as_ptr(), size, align) }
    }

    #[inline(always)]
    unsafe fn reallocate(
        _slot: &mut (),
        block: NonNull<u8>,
        old: usize,
        align: usize,
        new: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: `T` ignores its context, and the block is live with this size and alignment.
        or_exhausted(unsafe { T::reallocate(null_mut(), block.as_ptr(), old, align, new) })
    }
}

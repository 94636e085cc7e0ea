//! A heap with its control structure at the start of its region, generic over the policy that divides the rest.
//!
//! The code that such allocators share is here: requests are validated before a policy sees them, refusals and blocks
//! are counted, misuse is reported, and a block that cannot be resized in place is moved. A [`Policy`] decides how
//! memory is divided, found and taken back.
//!
//! ```text
//! region: [statistics][policy's own fields][other data of the policy][blocks ...]
//! ```
//!
//! The boundary-tag heap ([`boundary_tag`](super::boundary_tag)) is not built on this: it accepts further regions, and
//! its control structure lies around the base from which its offsets count.

use crate::contract::{
    AllocError, Block, Contract, Corruption, InitError, MisuseKind, RegionAllocator, ResizeInPlace, Stats,
};
use crate::hook;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::stats::{NoStats, StatsPolicy};
use crate::region::{Region, round_up};
use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A block that a policy handed out.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Address of the payload.
    pub address: usize,
    /// Usable bytes of the payload.
    pub usable_bytes: usize,
}

/// How a [`PolicyHeap`] divides its region: the fields of the control structure, and the operations on them.
///
/// Addresses are exposed: a policy accesses its memory through [`core::ptr::with_exposed_provenance_mut`].
///
/// # Safety
///
/// Every block that [`take`](Self::take) returns lies in the room that was given to [`plan`](Self::plan), overlaps no
/// other live block and none of the policy's own data, is aligned, and is at least as large as requested.
pub unsafe trait Policy: Sealed + Sized + core::fmt::Debug + 'static {
    /// The options of the heap, chosen when it is made.
    type Config: Copy + Default + core::fmt::Debug;

    /// The facts of the allocator.
    const CONTRACT: Contract;

    /// Plans the room from `start`, a multiple of `align_of::<usize>()`, to `end`, without accessing it. `None` if it
    /// cannot hold the policy's data and one block.
    fn plan(start: usize, end: usize, config: Self::Config) -> Option<Self>;

    /// Length of a room that suffices for [`plan`](Self::plan), wherever it starts.
    fn needed_bytes(config: Self::Config) -> usize;

    /// Initialises the data that the policy keeps outside its own fields.
    ///
    /// # Safety
    ///
    /// The policy was planned for this room, lies directly before it and never moves, and owns the room.
    unsafe fn begin(&mut self);

    /// The largest request this heap could ever serve, in bytes; at least 1.
    fn limit(&self) -> usize;

    /// Address of the first byte of the first block (header included), from which the high-water mark is counted.
    fn origin(&self) -> usize;

    /// Takes a block of at least `size_bytes`, from 1 to the limit. The alignment is a power of two, at most the limit
    /// and the contract's largest alignment.
    ///
    /// # Errors
    ///
    /// [`AllocError::Exhausted`], or [`AllocError::TooLarge`] if the heap can never serve this size at this alignment.
    /// The heap is unchanged.
    ///
    /// # Safety
    ///
    /// [`begin`](Self::begin) has run.
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError>;

    /// Takes a block back; returns its usable bytes.
    ///
    /// # Errors
    ///
    /// The misuse, as far as the mechanism detects it. The heap is unchanged.
    ///
    /// # Safety
    ///
    /// [`begin`](Self::begin) has run.
    unsafe fn release(&mut self, address: usize) -> Result<usize, MisuseKind>;

    /// Usable bytes of the live block at an address.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    ///
    /// # Safety
    ///
    /// [`begin`](Self::begin) has run.
    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind>;

    /// Usable bytes of a block that is known to be live.
    ///
    /// # Safety
    ///
    /// [`begin`](Self::begin) has run, and the block is live.
    unsafe fn usable_bytes(&self, address: usize) -> usize {
        // SAFETY: `begin` has run, which the caller guarantees.
        unsafe { self.find(address) }.unwrap_or(0)
    }

    /// Resizes a live block of `usable_bytes` in place to hold `size_bytes`, from 1 to the limit; returns its new
    /// usable bytes. `None` if that is impossible; the block is then unchanged.
    ///
    /// # Safety
    ///
    /// [`begin`](Self::begin) has run; the block is live with that usable size.
    unsafe fn fit_in_place(&mut self, address: usize, usable_bytes: usize, size_bytes: usize) -> Option<usize> {
        let _ = address;
        (size_bytes <= usable_bytes).then_some(usable_bytes)
    }

    /// Bytes of the largest request that succeeds now; 0 if none does.
    ///
    /// # Safety
    ///
    /// [`begin`](Self::begin) has run.
    unsafe fn largest(&self) -> usize;

    /// Visits every block in address order.
    ///
    /// # Safety
    ///
    /// [`begin`](Self::begin) has run.
    unsafe fn walk(&self, visit: &mut dyn FnMut(Block));

    /// Verifies every invariant, and follows only links that it has verified.
    ///
    /// # Errors
    ///
    /// The first one that does not hold.
    ///
    /// # Safety
    ///
    /// [`begin`](Self::begin) has run.
    unsafe fn check(&self) -> Result<(), Corruption>;

    /// Emits the abstract state (see [`RegionAllocator::fingerprint`]).
    ///
    /// # Safety
    ///
    /// [`begin`](Self::begin) has run.
    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize));
}

/// The start of the control structure.
#[repr(C)]
#[derive(Debug)]
struct Control<P, T> {
    stats: T,
    policy: P,
}

/// A heap with the policy `P` and the statistics `T`.
///
/// The value is one pointer; everything else is in the region.
#[derive(Debug)]
pub struct PolicyHeap<'r, P, T = NoStats> {
    /// The control structure, initialised, at the start of the region.
    control: NonNull<Control<P, T>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the heap owns its region exclusively for 'r and has no thread affinity.
unsafe impl<P, T: Send> Send for PolicyHeap<'_, P, T> {}

impl<'r, P: Policy, T: StatsPolicy> PolicyHeap<'r, P, T> {
    /// Bytes from the start of a region, wherever it is, to the policy's room, at most.
    pub(crate) const CONTROL_BYTES: usize = align_of::<Control<P, T>>() - 1 + size_of::<Control<P, T>>();

    /// Length of a region that suffices for a heap, wherever it starts.
    fn needed_bytes(config: P::Config) -> usize {
        Self::CONTROL_BYTES + P::needed_bytes(config)
    }

    /// The policy.
    #[inline(always)]
    fn policy(&self) -> &P {
        // SAFETY: the control structure is initialised, and only this heap accesses it; `&self` excludes a `&mut`.
        unsafe { &(*self.control.as_ptr()).policy }
    }

    /// The policy, mutably.
    #[inline(always)]
    fn policy_mut(&mut self) -> &mut P {
        // SAFETY: the control structure is initialised, and only this heap accesses it; `&mut self` is exclusive.
        unsafe { &mut (*self.control.as_ptr()).policy }
    }

    /// The statistics, mutably.
    #[inline(always)]
    fn stats_mut(&mut self) -> &mut T {
        // SAFETY: the control structure is initialised, and only this heap accesses it; `&mut self` is exclusive.
        unsafe { &mut (*self.control.as_ptr()).stats }
    }

    /// Counts a refusal and returns its error. Cold, so that the hot path needs only one jump to it.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: AllocError) -> AllocError {
        self.stats_mut().refused();
        error
    }

    /// Refuses a size that is zero or beyond the limit.
    #[cold]
    #[inline(never)]
    fn refuse_size(&mut self, size_bytes: usize) -> AllocError {
        self.refuse(if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge })
    }

    /// Whether the heap can never serve this size: one comparison for zero and for too large.
    #[inline(always)]
    fn is_unservable(&self, size_bytes: usize) -> bool {
        size_bytes.wrapping_sub(1) >= self.policy().limit()
    }

    /// Reports a misuse of an address.
    #[cold]
    #[inline(never)]
    fn report(kind: MisuseKind, address: usize) {
        hook::report(P::CONTRACT.name, kind, address);
    }

    /// Allocates; `align_bytes` is a power of two.
    #[inline(always)]
    fn serve(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if self.is_unservable(size_bytes) {
            return Err(self.refuse_size(size_bytes));
        }
        if align_bytes > P::CONTRACT.alignment_bytes {
            let most_bytes = self.policy().limit().min(P::CONTRACT.largest_alignment_bytes);
            if align_bytes > most_bytes {
                return Err(self.refuse(AllocError::Alignment));
            }
        }
        // SAFETY: `begin` ran when the heap was made, and the size and the alignment are within the limits.
        match unsafe { self.policy_mut().take(size_bytes, align_bytes) } {
            Ok(served) => {
                self.count_allocated(served);
                // SAFETY: no region contains address zero.
                Ok(unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(served.address)) })
            }
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Counts a block that became live.
    #[inline(always)]
    fn count_allocated(&mut self, served: Served) {
        let end_bytes = (served.address + served.usable_bytes).wrapping_sub(self.policy().origin());
        self.stats_mut().allocated(served.usable_bytes, end_bytes);
    }

    /// See [`RegionAllocator::reallocate_bytes`].
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    #[inline(never)]
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees a block of this heap. Old and new block are disjoint, and both are at least as
        // long as the copy.
        unsafe {
            let Some(usable_bytes) = self.try_in_place(block, size_bytes, align_bytes)? else { return Ok(block) };
            let moved = self.serve(size_bytes, align_bytes)?;
            core::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), size_bytes.min(usable_bytes));
            self.deallocate(block);
            Ok(moved)
        }
    }

    /// Resizes a block if the policy can; otherwise returns its usable bytes.
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    #[inline(always)]
    unsafe fn try_in_place(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<Option<usize>, AllocError> {
        let address = block.addr().get();
        if !align_bytes.is_power_of_two() {
            return Err(self.refuse(AllocError::Alignment));
        }
        if self.is_unservable(size_bytes) {
            return Err(self.refuse_size(size_bytes));
        }
        let usable_bytes = self.checked(address)?;
        if address & (align_bytes - 1) == 0 {
            // SAFETY: the policy found the block live with this size.
            if let Some(fitted) = unsafe { self.policy_mut().fit_in_place(address, usable_bytes, size_bytes) } {
                self.stats_mut().freed(usable_bytes);
                self.count_allocated(Served { address, usable_bytes: fitted });
                return Ok(None);
            }
        }
        Ok(Some(usable_bytes))
    }

    /// The usable bytes of the live block at an address; reports it if there is none.
    #[inline(always)]
    fn checked(&mut self, address: usize) -> Result<usize, AllocError> {
        // SAFETY: `begin` ran when the heap was made.
        unsafe { self.policy().find(address) }.map_err(|kind| {
            Self::report(kind, address);
            self.refuse(AllocError::Misused)
        })
    }
}

// SAFETY: `Policy` guarantees disjoint, aligned blocks within its room, before which the control structure lies.
unsafe impl<'r, P: Policy, T: StatsPolicy> RegionAllocator<'r> for PolicyHeap<'r, P, T> {
    type Config = P::Config;

    const CONTRACT: Contract = P::CONTRACT;

    fn new(region: &'r mut [MaybeUninit<u8>], config: P::Config) -> Result<Self, InitError> {
        let max_span_bytes = P::CONTRACT.max_span_bytes;
        if region.len() > max_span_bytes {
            return Err(InitError::OutOfReach { max_span_bytes });
        }
        let too_small = InitError::TooSmall { needed_bytes: Self::needed_bytes(config) };
        let start = region.as_ptr().addr();
        let end = start + region.len();
        let control = round_up(start, align_of::<Control<P, T>>()).ok_or(too_small)?;
        let room = control.checked_add(size_of::<Control<P, T>>()).filter(|&room| room < end).ok_or(too_small)?;
        let policy = P::plan(room, end, config).ok_or(too_small)?;
        // The provenance is exposed here, once, for all accesses of the policy.
        let _region = Region::new(region);
        let control: NonNull<Control<P, T>> =
            NonNull::new(core::ptr::with_exposed_provenance_mut(control)).ok_or(too_small)?;
        let mut heap = PolicyHeap { control, region: PhantomData };
        // SAFETY: the control structure lies in the region, aligned; the room after it belongs to the policy.
        unsafe {
            control.write(Control { stats: T::default(), policy });
            heap.policy_mut().begin();
        }
        Ok(heap)
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if !align_bytes.is_power_of_two() {
            return Err(self.refuse(AllocError::Alignment));
        }
        self.serve(size_bytes, align_bytes)
    }

    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.serve(layout.size(), layout.align())
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let address = block.addr().get();
        // SAFETY: `begin` ran when the heap was made.
        match unsafe { self.policy_mut().release(address) } {
            Ok(usable_bytes) => self.stats_mut().freed(usable_bytes),
            Err(kind) => Self::report(kind, address),
        }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees that `block` came from this heap, as `resize` requires.
        unsafe { self.resize(block, size_bytes, align_bytes) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: `begin` ran when the heap was made, and the caller guarantees that the block is live.
        unsafe { self.policy().usable_bytes(block.addr().get()) }
    }

    fn largest_allocatable(&self) -> usize {
        // SAFETY: `begin` ran when the heap was made.
        unsafe { self.policy().largest() }
    }

    fn stats(&self) -> Option<Stats> {
        // SAFETY: the control structure is initialised.
        unsafe { (*self.control.as_ptr()).stats.stats(self.largest_allocatable()) }
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        // SAFETY: `begin` ran when the heap was made.
        unsafe { self.policy().walk(visitor) }
    }

    fn check(&self) -> Result<(), Corruption> {
        // SAFETY: `begin` ran when the heap was made.
        unsafe { self.policy().check() }
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: `begin` ran when the heap was made.
        unsafe { self.policy().fingerprint(word) }
    }
}

// SAFETY: `Policy` guarantees disjoint blocks of the sizes that it returns.
unsafe impl<'r, P: Policy, T: StatsPolicy> ResizeInPlace<'r> for PolicyHeap<'r, P, T> {
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<bool, AllocError> {
        // The size is beyond every block's, but the address must be that of a live one.
        if self.is_unservable(size_bytes) && size_bytes != 0 {
            return self.checked(block.addr().get()).map(|_| false);
        }
        // SAFETY: the caller guarantees a block of this heap.
        unsafe { self.try_in_place(block, size_bytes, align_bytes) }.map(|unfit| unfit.is_none())
    }
}

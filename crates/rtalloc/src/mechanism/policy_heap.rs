//! The heap whose control structure is at the start of its region, over any policy that divides the rest.
//!
//! What such allocators share is here, once: requests are judged before a policy sees them, refusals and blocks are
//! tallied, misuse is reported, a block that cannot be resized where it stands is moved. What differs is a [`Policy`]: how
//! memory is divided, found, and taken back.
//!
//! ```text
//! region: [tally][policy's own fields][whatever else the policy keeps][blocks ...]
//! ```
//!
//! The boundary-tag heap ([`boundary_tag`](super::boundary_tag)) is not one of these: it takes further regions, and its
//! control structure is laid out around the base that its offsets count from.

use crate::contract::{AllocError, Block, Contract, Corruption, InitError, MisuseKind, RegionAllocator, Stats};
use crate::hook;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::tally::{Tally, Untallied};
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
    /// Bytes of it.
    pub usable_bytes: usize,
}

/// How a [`PolicyHeap`] divides its region: the control structure's own fields, and what is done with them.
///
/// Addresses are exposed ones: a policy reaches its memory by [`core::ptr::with_exposed_provenance_mut`].
///
/// # Safety
///
/// What [`take`](Self::take) hands out lies in the room that [`plan`](Self::plan) was given, apart from every other live
/// block and from all that the policy keeps for itself, aligned and as large as asked.
pub unsafe trait Policy: Sealed + Sized + core::fmt::Debug + 'static {
    /// What can be chosen when the heap is made.
    type Config: Copy + Default + core::fmt::Debug;

    /// The facts of the allocator.
    const CONTRACT: Contract;

    /// Plans the room from `start`, a multiple of `align_of::<usize>()`, to `end`; touches nothing of it. `None` if it does
    /// not hold what the policy keeps and one block.
    fn plan(start: usize, end: usize, config: Self::Config) -> Option<Self>;

    /// Length of a room that suffices for [`plan`](Self::plan), wherever it starts.
    fn needed_bytes(config: Self::Config) -> usize;

    /// Initialises whatever the policy keeps beside its own fields.
    ///
    /// # Safety
    ///
    /// The policy was planned for this room, stands in front of it for good, and the room is its own.
    unsafe fn begin(&mut self);

    /// The largest request this heap could ever serve, in bytes; at least 1.
    fn limit(&self) -> usize;

    /// Address of the first block's first byte (its front): where the high-water mark is counted from.
    fn origin(&self) -> usize;

    /// Takes a block of at least `size_bytes`, which is from 1 to the limit, at an alignment that is a power of two not
    /// above the limit and the contract's largest.
    ///
    /// # Errors
    ///
    /// [`AllocError::Exhausted`], or [`AllocError::TooLarge`] where size and alignment together are beyond what the heap
    /// could ever serve. Nothing changed.
    ///
    /// # Safety
    ///
    /// The policy has begun.
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError>;

    /// Gives a block back; returns its usable bytes.
    ///
    /// # Errors
    ///
    /// What is wrong with the address, as far as the mechanism can tell. Nothing changed.
    ///
    /// # Safety
    ///
    /// The policy has begun.
    unsafe fn give(&mut self, address: usize) -> Result<usize, MisuseKind>;

    /// Usable bytes of the live block at an address.
    ///
    /// # Errors
    ///
    /// As [`give`](Self::give).
    ///
    /// # Safety
    ///
    /// The policy has begun.
    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind>;

    /// Usable bytes of a block that is known to be live.
    ///
    /// # Safety
    ///
    /// The policy has begun, and the block is live.
    unsafe fn usable_bytes(&self, address: usize) -> usize {
        // SAFETY: the policy has begun.
        unsafe { self.find(address) }.unwrap_or(0)
    }

    /// Makes a live block of `usable_bytes` fit `size_bytes`, which is from 1 to the limit, where it stands; returns its
    /// usable bytes then. `None` if it cannot, and nothing changed.
    ///
    /// # Safety
    ///
    /// The policy has begun; the block is live with that usable size.
    unsafe fn fit_in_place(&mut self, address: usize, usable_bytes: usize, size_bytes: usize) -> Option<usize> {
        let _ = address;
        (size_bytes <= usable_bytes).then_some(usable_bytes)
    }

    /// Bytes of the largest request that succeeds now; 0 if none does.
    ///
    /// # Safety
    ///
    /// The policy has begun.
    unsafe fn largest(&self) -> usize;

    /// Visits every block in address order.
    ///
    /// # Safety
    ///
    /// The policy has begun.
    unsafe fn walk(&self, visit: &mut dyn FnMut(Block));

    /// Verifies every invariant, following no link that it has not verified.
    ///
    /// # Errors
    ///
    /// The first one that does not hold.
    ///
    /// # Safety
    ///
    /// The policy has begun.
    unsafe fn check(&self) -> Result<(), Corruption>;

    /// Emits the abstract state (see [`RegionAllocator::fingerprint`]).
    ///
    /// # Safety
    ///
    /// The policy has begun.
    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize));
}

/// The control structure's beginning.
#[repr(C)]
#[derive(Debug)]
struct Control<P, T> {
    tally: T,
    policy: P,
}

/// A heap that is the policy `P`, keeping the statistics `T`.
///
/// The value is one pointer; everything else is in the region.
#[derive(Debug)]
pub struct PolicyHeap<'r, P, T = Untallied> {
    /// The control structure, initialised, at the start of the region.
    control: NonNull<Control<P, T>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the heap owns its region exclusively for 'r and has no thread affinity.
unsafe impl<P, T: Send> Send for PolicyHeap<'_, P, T> {}

impl<'r, P: Policy, T: Tally> PolicyHeap<'r, P, T> {
    /// Length of a region that suffices for a heap, wherever it starts.
    fn needed_bytes(config: P::Config) -> usize {
        align_of::<Control<P, T>>() - 1 + size_of::<Control<P, T>>() + P::needed_bytes(config)
    }

    /// The policy.
    #[inline(always)]
    fn policy(&self) -> &P {
        // SAFETY: the control structure is initialised, and this heap's alone.
        unsafe { &(*self.control.as_ptr()).policy }
    }

    /// The policy, to be changed.
    #[inline(always)]
    fn policy_mut(&mut self) -> &mut P {
        // SAFETY: as in `policy`.
        unsafe { &mut (*self.control.as_ptr()).policy }
    }

    /// The tally, to be changed.
    #[inline(always)]
    fn tally_mut(&mut self) -> &mut T {
        // SAFETY: as in `policy`.
        unsafe { &mut (*self.control.as_ptr()).tally }
    }

    /// Counts and answers a refusal. Cold, so that the hot path has one jump to it.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: AllocError) -> AllocError {
        self.tally_mut().refused();
        error
    }

    /// Why a size beyond the limit, or zero, is refused.
    #[cold]
    #[inline(never)]
    fn refuse_size(&mut self, size_bytes: usize) -> AllocError {
        self.refuse(if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge })
    }

    /// Whether a request is beyond what the heap could ever serve: one comparison for zero and for too large.
    #[inline(always)]
    fn is_unservable(&self, size_bytes: usize) -> bool {
        size_bytes.wrapping_sub(1) >= self.policy().limit()
    }

    /// Reports what is wrong with an address.
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
        // SAFETY: the policy began when the heap was made; size and alignment were judged.
        match unsafe { self.policy_mut().take(size_bytes, align_bytes) } {
            Ok(served) => {
                self.tally_allocated(served);
                // SAFETY: no region contains address zero.
                Ok(unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(served.address)) })
            }
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Tallies a block that became live.
    #[inline(always)]
    fn tally_allocated(&mut self, served: Served) {
        let end_bytes = (served.address + served.usable_bytes).wrapping_sub(self.policy().origin());
        self.tally_mut().allocated(served.usable_bytes, end_bytes);
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
        let address = block.addr().get();
        if !align_bytes.is_power_of_two() {
            return Err(self.refuse(AllocError::Alignment));
        }
        if self.is_unservable(size_bytes) {
            return Err(self.refuse_size(size_bytes));
        }
        // SAFETY: the policy has begun.
        let usable_bytes = match unsafe { self.policy().find(address) } {
            Ok(usable_bytes) => usable_bytes,
            Err(kind) => {
                Self::report(kind, address);
                return Err(self.refuse(AllocError::Misused));
            }
        };
        if address & (align_bytes - 1) == 0 {
            // SAFETY: the policy found the block live with this size.
            if let Some(fitted) = unsafe { self.policy_mut().fit_in_place(address, usable_bytes, size_bytes) } {
                self.tally_mut().freed(usable_bytes);
                self.tally_allocated(Served { address, usable_bytes: fitted });
                return Ok(block);
            }
        }
        let moved = self.serve(size_bytes, align_bytes)?;
        // SAFETY: both blocks are live and apart, and neither is shorter than what is copied.
        unsafe {
            core::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), size_bytes.min(usable_bytes));
            self.deallocate(block);
        }
        Ok(moved)
    }
}

// SAFETY: a policy promises it, and the control structure stands in front of the policy's room.
unsafe impl<'r, P: Policy, T: Tally> RegionAllocator<'r> for PolicyHeap<'r, P, T> {
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
        // The provenance is exposed here, once, for the policy's addresses.
        let _region = Region::new(region);
        let control: NonNull<Control<P, T>> =
            NonNull::new(core::ptr::with_exposed_provenance_mut(control)).ok_or(too_small)?;
        let mut heap = PolicyHeap { control, region: PhantomData };
        // SAFETY: the control structure lies in the region, aligned; the room behind it is the policy's.
        unsafe {
            control.write(Control { tally: T::default(), policy });
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
        // SAFETY: the policy has begun.
        match unsafe { self.policy_mut().give(address) } {
            Ok(usable_bytes) => self.tally_mut().freed(usable_bytes),
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
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { self.resize(block, size_bytes, align_bytes) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the policy has begun, and the caller promises that the block is live.
        unsafe { self.policy().usable_bytes(block.addr().get()) }
    }

    fn largest_allocatable(&self) -> usize {
        // SAFETY: the policy has begun.
        unsafe { self.policy().largest() }
    }

    fn stats(&self) -> Option<Stats> {
        // SAFETY: the control structure is initialised.
        unsafe { (*self.control.as_ptr()).tally.stats(self.largest_allocatable()) }
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        // SAFETY: the policy has begun.
        unsafe { self.policy().walk(visitor) }
    }

    fn check(&self) -> Result<(), Corruption> {
        // SAFETY: the policy has begun.
        unsafe { self.policy().check() }
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: the policy has begun.
        unsafe { self.policy().fingerprint(word) }
    }
}

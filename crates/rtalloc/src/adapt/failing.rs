//! A heap that refuses requests on purpose, to test how a program handles exhausted memory.
//!
//! # Idea
//!
//! Requests are numbered from 1, and a [`Failures`] determines which numbers are refused: the n-th, all from the n-th
//! on, every n-th, or a share of them chosen by a seed. Nothing else does: the same program on the same heap with the
//! same plan fails at the same place, and [`Failures::fails`] can be asked for any number, before and after. The error
//! is [`AllocError::Injected`], which no adapter or shared heap treats as a lack of memory and retries.
//!
//! ```text
//! region: [plan, counters] [the region of the inner heap ...]
//! ```
//!
//! While a plan is active, requests that need memory are counted: each allocation, and each reallocation to more than
//! the block has or to an alignment that it does not have. (A reallocation of a block outside the heap's first region
//! always counts.) Requests for zero bytes or with an invalid alignment are refused by the inner heap and not counted.
//! To count without refusing, arm a plan that refuses a number which is never reached: [`Failures::Nth`]`(0)`.
//!
//! # Testing every failure
//!
//! A program can run out of memory at each of its requests. This tests all of them, one after the other, until a run
//! makes fewer requests than the number to be refused:
//!
//! ```
//! use core::mem::MaybeUninit;
//! use rtalloc::adapt::{Failing, Failures};
//! use rtalloc::contract::AllocError;
//! use rtalloc::{RegionAllocator, Tlsf};
//!
//! /// What is tested: it makes two blocks or none.
//! fn program<'r>(heap: &mut Failing<'r, Tlsf<'r>>) -> Result<(), AllocError> {
//!     let first = heap.allocate_bytes(100, 8)?;
//!     let second = heap.allocate_bytes(200, 8);
//!     // SAFETY: the blocks are live, and no longer used.
//!     unsafe {
//!         heap.deallocate(first);
//!         heap.deallocate(second?);
//!     }
//!     Ok(())
//! }
//!
//! let mut memory = [MaybeUninit::uninit(); 8192];
//! let mut heap: Failing<Tlsf> = Failing::new(&mut memory, Default::default())?;
//! let mut ways_out = 0;
//! for number in 1.. {
//!     heap.arm(Failures::Nth(number));
//!     let answer = program(&mut heap);
//!     // In any case, no block may be leaked.
//!     let mut live = 0;
//!     heap.walk(&mut |block| live += usize::from(!block.free));
//!     assert_eq!(live, 0);
//!     if heap.failed() == 0 {
//!         assert_eq!(answer, Ok(()));
//!         break;
//!     }
//!     assert_eq!(answer, Err(AllocError::Injected));
//!     ways_out += 1;
//! }
//! assert_eq!(ways_out, 2);
//! # Ok::<(), rtalloc::contract::InitError>(())
//! ```
//!
//! # Costs and limits
//!
//! A few instructions for each request; a reallocation also queries the block's size. Without a plan
//! ([`Failures::Never`]), one test. While requests are refused on purpose,
//! [`largest_allocatable`](RegionAllocator::largest_allocatable) returns what would be served otherwise. This adapter
//! may wrap [`Guarded`](super::Guarded) or be wrapped by it; inside, a request that the guard repeats with fewer blocks
//! in its quarantine counts again.

use super::front::{Name, divide};
use crate::contract::{
    AllocError, Block, Contract, Corruption, InitError, MultiRegion, RegionAllocator, RegionId, RemoveError,
    ResizeInPlace, Stats,
};
use crate::region::overlaps;
use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Which requests are refused. They are numbered from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failures {
    /// None, and none is counted.
    #[default]
    Never,
    /// Only this one; none if it is 0, but requests are counted.
    Nth(usize),
    /// This one and all that follow, as if memory had run out; none if it is 0.
    From(usize),
    /// Each whose number is a multiple of this; none if it is 0.
    EveryNth(usize),
    /// This many of 2^32 requests on average, chosen by the seed and the request's number.
    Share {
        /// Of 2^32; `u32::MAX` refuses nearly all.
        chance: u32,
        /// Different seeds choose different requests.
        seed: u64,
    },
}

impl Failures {
    /// A share in thousandths; nearly all from 1000 on.
    pub const fn per_mille(per_mille: u32, seed: u64) -> Self {
        let share = per_mille as u64 * (1 << 32) / 1000;
        Failures::Share { chance: if share > u32::MAX as u64 { u32::MAX } else { share as u32 }, seed }
    }

    /// Whether the request of this number is refused.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline]
    pub const fn fails(self, number: usize) -> bool {
        match self {
            Failures::Never => false,
            Failures::Nth(refused) => number == refused && refused != 0,
            Failures::From(first) => number >= first && first != 0,
            Failures::EveryNth(every) => every != 0 && number.is_multiple_of(every),
            Failures::Share { chance, seed } => splitmix(seed, number as u64) < chance,
        }
    }
}

/// The upper half of the `number`-th output of the generator SplitMix64 (Steele, Lea and Flood 2014) with this seed.
const fn splitmix(seed: u64, number: u64) -> u32 {
    let word = seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((word ^ (word >> 31)) >> 32) as u32
}

/// Configuration of a failing heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailingConfig<C> {
    /// The configuration of the inner heap.
    pub heap: C,
    /// Which requests are refused initially: none by default.
    pub failures: Failures,
}

/// The control structure.
#[repr(C)]
struct Control<H> {
    heap: H,
    failures: Cell<Failures>,
    /// Requests since the plan was set.
    requests: Cell<usize>,
    /// Those that were refused on purpose.
    failed: Cell<usize>,
    /// The number of the last one refused on purpose.
    last_failed: Cell<usize>,
    /// Requests refused on purpose since the heap was made.
    refused: Cell<usize>,
    /// The heap's first region.
    start: usize,
    end: usize,
}

/// The region allocator `H`, which refuses requests by a plan; see the [module](self).
///
/// The plan is set by `&self`, so that it can be set for a heap inside other adapters, or under a lock, as well:
/// `guarded.inner().arm(..)`, `locked.inspect(|heap| heap.arm(..))`.
#[repr(transparent)]
pub struct Failing<'r, H> {
    /// Initialised, in the region.
    control: NonNull<Control<H>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the control structure and the inner heap belong to this value alone, and the latter is `Send`.
unsafe impl<H: Send> Send for Failing<'_, H> {}

impl<'r, H: RegionAllocator<'r>> Failing<'r, H> {
    const JOINED: &'static Name = &Name::joined("failing-", H::CONTRACT.name);

    #[inline(always)]
    fn control(&self) -> &Control<H> {
        // SAFETY: initialised when the heap was made; everything outside of cells changes only under `&mut self`.
        unsafe { self.control.as_ref() }
    }

    #[inline(always)]
    fn heap_mut(&mut self) -> &mut H {
        // SAFETY: initialised when the heap was made; `self` is borrowed exclusively.
        unsafe { &mut self.control.as_mut().heap }
    }

    /// The inner heap, for queries.
    pub fn inner(&self) -> &H {
        &self.control().heap
    }

    /// Sets which requests are refused from now on. Requests are numbered again from 1, and the counts are reset.
    pub fn arm(&self, failures: Failures) {
        let control = self.control();
        control.failures.set(failures);
        control.requests.set(0);
        control.failed.set(0);
        control.last_failed.set(0);
    }

    /// The current plan.
    pub fn failures(&self) -> Failures {
        self.control().failures.get()
    }

    /// Requests since [`arm`](Self::arm), or since the heap was made; 0 under [`Failures::Never`].
    pub fn requests(&self) -> usize {
        self.control().requests.get()
    }

    /// How many of them were refused on purpose.
    pub fn failed(&self) -> usize {
        self.control().failed.get()
    }

    /// The number of the last one that was refused on purpose.
    pub fn last_failed(&self) -> Option<usize> {
        Some(self.control().last_failed.get()).filter(|&number| number != 0)
    }

    /// The numbers of all that were refused on purpose.
    ///
    /// # Time
    ///
    /// Linear in the requests.
    pub fn failed_requests(&self) -> impl Iterator<Item = usize> + use<'r, H> {
        let failures = self.failures();
        (1..=self.requests()).filter(move |&number| failures.fails(number))
    }

    /// Whether requests are counted.
    #[inline(always)]
    fn is_armed(&self) -> bool {
        self.failures() != Failures::Never
    }

    /// Counts a request, and refuses it if the plan says so.
    #[inline(never)]
    fn pass(&self) -> Result<(), AllocError> {
        let control = self.control();
        let number = control.requests.get().wrapping_add(1);
        control.requests.set(number);
        if control.failures.get().fails(number) {
            control.failed.set(control.failed.get().wrapping_add(1));
            control.last_failed.set(number);
            control.refused.set(control.refused.get().wrapping_add(1));
            return Err(AllocError::Injected);
        }
        Ok(())
    }

    /// Counts a request to resize a block that needs memory, and refuses it if the plan says so.
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::usable_size`].
    #[inline(always)]
    unsafe fn pass_resize(&self, block: NonNull<u8>, size_bytes: usize, align_bytes: usize) -> Result<(), AllocError> {
        let is_request = self.is_armed() && size_bytes != 0 && align_bytes.is_power_of_two();
        // SAFETY: the caller guarantees that the block is live in this heap.
        if is_request && unsafe { self.needs_memory(block, size_bytes, align_bytes) } { self.pass() } else { Ok(()) }
    }

    /// Whether a block must move to have this size and alignment.
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::usable_size`].
    #[inline(always)]
    unsafe fn needs_memory(&self, block: NonNull<u8>, size_bytes: usize, align_bytes: usize) -> bool {
        let Control { heap, start, end, .. } = self.control();
        let address = block.addr().get();
        let unit_bytes = H::CONTRACT.alignment_bytes;
        // For other addresses the query would be invalid; the inner heap, which checks more thoroughly, reports them.
        let is_near = (*start..*end).contains(&address) && address & (unit_bytes - 1) == 0;
        // SAFETY: the caller guarantees that the block is live in this heap.
        !is_near || address & (align_bytes - 1) != 0 || size_bytes > unsafe { heap.usable_size(block) }
    }
}

// SAFETY: the blocks are those of the inner heap.
unsafe impl<'r, H: RegionAllocator<'r>> RegionAllocator<'r> for Failing<'r, H> {
    type Config = FailingConfig<H::Config>;

    const CONTRACT: Contract = Contract { name: Self::JOINED.as_str(), ..H::CONTRACT };

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        let end = region.as_ptr().addr() + region.len();
        let (control, heap) = divide::<Control<H>, H>(region, config.heap, 0, 0)?;
        let start = control.addr().get() + size_of::<Control<H>>();
        let failures = Cell::new(config.failures);
        let [requests, failed, last_failed, refused] = [const { Cell::new(0) }; 4];
        // SAFETY: the place is in the region, aligned, and not used by the inner heap.
        unsafe { control.write(Control { heap, failures, requests, failed, last_failed, refused, start, end }) };
        Ok(Failing { control, region: PhantomData })
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if self.is_armed() && size_bytes != 0 && align_bytes.is_power_of_two() {
            self.pass()?;
        }
        self.heap_mut().allocate_bytes(size_bytes, align_bytes)
    }

    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        if self.is_armed() && layout.size() != 0 {
            self.pass()?;
        }
        self.heap_mut().allocate(layout)
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        unsafe { self.heap_mut().deallocate(block) }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe {
            self.pass_resize(block, size_bytes, align_bytes)?;
            self.heap_mut().reallocate_bytes(block, size_bytes, align_bytes)
        }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe { self.inner().usable_size(block) }
    }

    fn largest_allocatable(&self) -> usize {
        self.inner().largest_allocatable()
    }

    /// Those of the inner heap, with the requests refused on purpose among the failures.
    fn stats(&self) -> Option<Stats> {
        let stats = self.inner().stats()?;
        Some(Stats { failures: stats.failures.wrapping_add(self.control().refused.get()), ..stats })
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        self.inner().walk(visitor);
    }

    fn check(&self) -> Result<(), Corruption> {
        let Control { heap, requests, failed, last_failed, start, end, .. } = self.control();
        let is_sound = failed.get() <= requests.get()
            && last_failed.get() <= requests.get()
            && start <= end
            && *start == self.control.addr().get() + size_of::<Control<H>>();
        if !is_sound {
            let invariant = "no more requests failed than there were";
            return Err(Corruption { invariant, address: self.control.addr().get() });
        }
        heap.check()
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.inner().fingerprint(word);
        if self.is_armed() {
            word(self.requests());
        }
    }
}

// SAFETY: the blocks are those of the inner heap, over all its regions.
unsafe impl<'r, H: MultiRegion<'r>> MultiRegion<'r> for Failing<'r, H> {
    fn add_region(&mut self, region: &'r mut [MaybeUninit<u8>]) -> Result<RegionId, InitError> {
        let start = self.control.addr().get();
        if overlaps(region, start, start + size_of::<Control<H>>()) {
            return Err(InitError::Overlap);
        }
        self.heap_mut().add_region(region)
    }

    fn remove_region(&mut self, region: RegionId) -> Result<&'r mut [MaybeUninit<u8>], RemoveError> {
        self.heap_mut().remove_region(region)
    }
}

impl<'r, H: RegionAllocator<'r>> fmt::Debug for Failing<'r, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:p}", Self::CONTRACT.name, self.control)
    }
}

// SAFETY: the inner heap resizes its block.
unsafe impl<'r, H: ResizeInPlace<'r>> ResizeInPlace<'r> for Failing<'r, H> {
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<bool, AllocError> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe {
            self.pass_resize(block, size_bytes, align_bytes)?;
            self.heap_mut().resize_in_place(block, size_bytes, align_bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn refused(failures: Failures, requests: usize) -> Vec<usize> {
        (1..=requests).filter(|&number| failures.fails(number)).collect()
    }

    #[test]
    fn plans_refuse_the_planned_requests() {
        assert_eq!(refused(Failures::Never, 9), []);
        assert_eq!(refused(Failures::Nth(4), 9), [4]);
        assert_eq!(refused(Failures::From(7), 9), [7, 8, 9]);
        assert_eq!(refused(Failures::EveryNth(3), 9), [3, 6, 9]);
        for never in [Failures::Nth(0), Failures::From(0), Failures::EveryNth(0), Failures::per_mille(0, 5)] {
            assert!(!(0..1000).any(|number| never.fails(number)));
        }
    }

    #[test]
    fn shares_are_kept_and_differ_by_seed() {
        for per_mille in [1, 50, 300, 999] {
            let count = refused(Failures::per_mille(per_mille, 1), 100_000).len();
            let expected = per_mille as usize * 100;
            assert!(count.abs_diff(expected) < 100 + expected / 10, "{count} of 100,000 at {per_mille} per mille");
        }
        assert_eq!(Failures::per_mille(5000, 1), Failures::Share { chance: u32::MAX, seed: 1 });
        let of = |seed| refused(Failures::per_mille(100, seed), 1000);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        // The generator's published outputs for the seed 1234567.
        assert_eq!(splitmix(1_234_567, 1), (6_457_827_717_110_365_317_u64 >> 32) as u32);
        assert_eq!(splitmix(1_234_567, 2), (3_203_168_211_198_807_973_u64 >> 32) as u32);
    }
}

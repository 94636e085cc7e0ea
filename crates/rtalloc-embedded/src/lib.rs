//! The interface of [embedded-alloc] 0.7 on rtalloc's TLSF. One line of `Cargo.toml` changes:
//!
//! ```toml
//! embedded-alloc = { package = "rtalloc-embedded", path = "rtalloc/crates/rtalloc-embedded" }
//! ```
//!
//! or, with the dependency under its own name, `use rtalloc_embedded::TlsfHeap as Heap;` in the program:
//!
//! ```no_run
//! use rtalloc_embedded::TlsfHeap as Heap;
//!
//! #[global_allocator]
//! static HEAP: Heap = Heap::empty();
//!
//! fn main() {
//!     // SAFETY: nothing was allocated before, and this runs once.
//!     unsafe { rtalloc_embedded::init!(HEAP, 64 * 1024) };
//!     let values = vec![1, 2, 3];
//!     assert!(HEAP.used() >= size_of_val(&values[..]) && HEAP.largest_free() < HEAP.free());
//! }
//! ```
//!
//! As there, the platform provides the critical section: on Cortex-M with one core, the feature
//! `critical-section-single-core` of the crate `cortex-m`.
//!
//! # What is different
//!
//! - **Both names are one allocator.** [`TlsfHeap`] and [`LlffHeap`] are TLSF: linked-list first-fit has no bound on
//!   time. Up to 64 KiB it is `tlsf-small` (2 bytes before a block, multiples of 8 bytes), above that `tlsf` (4 bytes),
//!   as [rtalloc's table](rtalloc#which-one) describes them. A program carries the code of both.
//! - **The control structure is in the region**, and is sized from it, instead of 4 KiB in the heap's value.
//! - **[`used`](Heap::used), [`free`](Heap::free) and [`largest_free`](Heap::largest_free) take constant time.**
//!   There, `TlsfHeap` walks all blocks with interrupts off. `used` is the sum of what live blocks were requested
//!   with, `free` that of free blocks. Neither includes the control structure, headers of live blocks, or rounding.
//! - **`realloc` resizes in place** where the block shrinks, or the next one is free and long enough. So do the collections of both
//!   `Allocator` traits.
//! - **Misuse is detected.** A double free, or a pointer that is not a block's, is reported to [`rtalloc::hook`] and
//!   otherwise ignored, as far as tags show it; `used` and `free` are not right afterwards.
//! - **A region too small for a control structure has one block**: a request gets all of it, and until it is freed all
//!   others are refused. With 32-bit pointers these are regions below 88 bytes.
//!
//! `largest_free` is the number to watch. Requests fail while many bytes are free, if they are in small pieces.
//!
//! # Figures
//!
//! On an emulated Cortex-M4: bytes that are not free in a fresh heap of 4 KiB and of 64 KiB, its value included; and
//! instructions of random operations, critical section included, with the static bound of the same machine code, at any
//! alignment and in any state (METHODOLOGY.md). A report of misuse is not covered. `none`: a loop has no bound.
//!
//! <!-- ci/embedded_alloc.sh -->
//! | | of 4 KiB | of 64 KiB | allocate: mean, most, bound | free: mean, most, bound |
//! |---|---|---|---|---|
//! | this crate's `TlsfHeap` | 192 B | 264 B | 110, 178, 191 | 102, 141, 151 |
//! | embedded-alloc's `TlsfHeap` | 4,272 B | 4,272 B | 105, 126, 128 | 71, 117, 119 |
//! | embedded-alloc's `LlffHeap` | 32 B | 32 B | 197, 380, none | 151, 286, none |
//!
//! rustc 1.95.0 (59807616e 2026-04-14).
//! Measured 2026-11-29 at 232c53b5 by `ci/embedded_alloc.sh --update`.
//! <!-- end -->
//!
//! This heap executes more instructions than embedded-alloc's TLSF: it also validates tags, counts bytes, and is one of
//! two. Above 64 KiB, 1.3 KiB of a fresh heap are not free, and 128 bytes more with each doubling. `realloc` is not in
//! the table, since it may copy a block.
//!
//! Frees are checked as by `Basic` (docs/MISUSE.md, Tiers). For another tier, use the heaps of the crate `rtalloc`.
//!
//! A bound is that of one program: `rtalloc bound --binary FIRMWARE --symbol FUNCTION` bounds yours. docs/TARGETS.md
//! has the heap's part of it on other Cortex-M processors, and its cycles: the rows `tlsf-small` and `tlsf`.
//!
//! [embedded-alloc]: https://docs.rs/embedded-alloc/0.7
//!
//! # Features
//!
//! `tlsf` and `llff` are the two names; both are on by default. `allocator_api` implements `core::alloc::Allocator` for
//! the heap, with a nightly compiler; others ignore it. `allocator-api2` implements that crate's trait, with any
//! compiler.

#![no_std]
#![cfg_attr(all(feature = "allocator_api", nightly), feature(allocator_api))]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::num::NonZero;
use core::ptr::{NonNull, null_mut};
use rtalloc::adapt::{Lock, Masked};
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::word::{Offset16, Offset32, Width};
use rtalloc::{RegionAllocator, Tlsf};

#[cfg(feature = "llff")]
pub use Heap as LlffHeap;
#[cfg(feature = "tlsf")]
pub use Heap as TlsfHeap;

/// Regions up to this size have a heap with 16-bit tags, which ends at its reach.
const SMALL_REGION_BYTES: usize = 64 << 10;

/// Every block of either heap is aligned to this.
const ALIGN: usize = 8;

/// `tlsf-small`.
type SmallTlsf = Tlsf<'static, 3, RoundUp, Offset16>;
/// `tlsf`.
type LargeTlsf = Tlsf<'static>;

/// Where blocks come from. Three cases: a match on four would be compiled to an indirect jump, which has no bound.
enum Source {
    /// A region too small for a heap, or none yet.
    Block(Only),
    Small(SmallTlsf),
    Large(LargeTlsf),
}

/// The only block of a region, which is live while no byte is free.
struct Only {
    /// A multiple of [`ALIGN`]; `None` before there is a region.
    start: Option<NonNull<u8>>,
    bytes: usize,
}

impl Only {
    /// Whether a layout fits at an address in it.
    fn holds(&self, address: usize, layout: Layout) -> bool {
        let start = self.start.map_or(0, |start| start.addr().get());
        let room = self.bytes.saturating_sub(address.wrapping_sub(start));
        layout.size() <= room && address.is_multiple_of(layout.align())
    }

    /// Where a layout fits into it.
    fn place(&self, layout: Layout) -> Option<NonNull<u8>> {
        let start = self.start?;
        let address = NonZero::new(start.addr().get().checked_next_multiple_of(layout.align())?)?;
        self.holds(address.get(), layout).then(|| start.with_addr(address))
    }
}

/// What is accessed in critical sections only.
struct State {
    source: Source,
    /// Bytes that live blocks were requested for.
    used: usize,
    /// Bytes of free blocks.
    free: usize,
}

/// The bytes that a live block takes, header included.
///
/// # Safety
///
/// The block is live in this heap.
#[inline(always)]
unsafe fn taken<H: RegionAllocator<'static>>(heap: &H, block: NonNull<u8>) -> usize {
    // SAFETY: the caller guarantees that the block is live.
    unsafe { heap.usable_size(block) }.wrapping_add(H::CONTRACT.header_bytes)
}

/// Allocates; returns the block and the bytes that it takes.
#[inline(always)]
fn allocate<H: RegionAllocator<'static>>(heap: &mut H, layout: Layout) -> Option<(NonNull<u8>, usize)> {
    let block = heap.allocate(layout).ok()?;
    // SAFETY: the block is live.
    Some((block, unsafe { taken(heap, block) }))
}

/// Frees a block; returns the bytes that it took.
///
/// # Safety
///
/// As [`RegionAllocator::deallocate`].
#[inline(always)]
unsafe fn deallocate<H: RegionAllocator<'static>>(heap: &mut H, block: NonNull<u8>) -> usize {
    // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
    unsafe {
        let bytes = taken(heap, block);
        heap.deallocate(block);
        bytes
    }
}

/// Resizes a block; returns it, and the bytes that it took and takes.
///
/// # Safety
///
/// As [`RegionAllocator::reallocate`].
#[inline(always)]
unsafe fn resize<H: RegionAllocator<'static>>(
    heap: &mut H,
    block: NonNull<u8>,
    layout: Layout,
) -> Option<(NonNull<u8>, usize, usize)> {
    // SAFETY: the caller guarantees that the old block is live in this heap; the new one is.
    unsafe {
        let before = taken(heap, block);
        let block = heap.reallocate(block, layout).ok()?;
        Some((block, before, taken(heap, block)))
    }
}

impl State {
    /// Makes the heap of a region.
    ///
    /// # Safety
    ///
    /// As [`Heap::init`].
    unsafe fn new(start: NonNull<u8>, size: usize) -> Self {
        // SAFETY: the caller guarantees that this memory is the heap's alone. It is borrowed anew for each attempt.
        let region =
            |bytes| unsafe { core::slice::from_raw_parts_mut(start.as_ptr().cast::<MaybeUninit<u8>>(), bytes) };
        let source = if size <= SMALL_REGION_BYTES {
            SmallTlsf::new(region(size.min(Offset16::MAX)), Default::default()).map(Source::Small)
        } else {
            LargeTlsf::new(region(size.min(Offset32::MAX)), Default::default()).map(Source::Large)
        };
        let source = source.unwrap_or_else(|_| {
            let gap = start.align_offset(ALIGN).min(size);
            // SAFETY: the gap is within the region.
            Source::Block(Only { start: Some(unsafe { start.add(gap) }), bytes: size - gap })
        });
        let mut free = 0;
        let mut count = |block: rtalloc::contract::Block| free += block.size_bytes;
        match &source {
            Source::Block(only) => free = only.bytes,
            Source::Small(heap) => heap.walk(&mut count),
            Source::Large(heap) => heap.walk(&mut count),
        }
        State { source, used: 0, free }
    }

    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let (block, bytes) = match &mut self.source {
            Source::Small(heap) => allocate(heap, layout)?,
            Source::Large(heap) => allocate(heap, layout)?,
            Source::Block(only) if self.free != 0 => (only.place(layout)?, self.free),
            Source::Block(_) => return None,
        };
        self.used = self.used.wrapping_add(layout.size());
        self.free = self.free.wrapping_sub(bytes);
        Some(block)
    }

    /// # Safety
    ///
    /// The block was allocated here with this layout, and is no longer used.
    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        let bytes = unsafe {
            match &mut self.source {
                Source::Small(heap) => deallocate(heap, block),
                Source::Large(heap) => deallocate(heap, block),
                Source::Block(only) => only.bytes,
            }
        };
        self.used = self.used.wrapping_sub(layout.size());
        self.free = self.free.wrapping_add(bytes);
    }

    /// # Safety
    ///
    /// The block was allocated here with the layout `old`, and is no longer used unless the result is `None`.
    #[inline(always)]
    unsafe fn resize(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        let (block, before, after) = unsafe {
            match &mut self.source {
                Source::Small(heap) => resize(heap, block, new)?,
                Source::Large(heap) => resize(heap, block, new)?,
                Source::Block(only) if only.holds(block.addr().get(), new) => (block, 0, 0),
                Source::Block(_) => return None,
            }
        };
        self.used = self.used.wrapping_sub(old.size()).wrapping_add(new.size());
        self.free = self.free.wrapping_add(before).wrapping_sub(after);
        Some(block)
    }

    fn largest_free(&self) -> usize {
        match &self.source {
            Source::Small(heap) => heap.largest_allocatable(),
            Source::Large(heap) => heap.largest_allocatable(),
            Source::Block(_) => self.free,
        }
    }
}

/// A heap in memory that [`init`](Self::init) gives it; every operation is a critical section.
///
/// Non-maskable interrupts and faults must not use it: see [`Masked`].
pub struct Heap {
    lock: Masked,
    /// Accessed while the lock is held.
    state: UnsafeCell<State>,
}

// SAFETY: the state is accessed while the lock is held.
unsafe impl Sync for Heap {}
// SAFETY: no part of it is bound to a thread; its region is its own.
unsafe impl Send for Heap {}

impl Heap {
    /// A heap without memory, which refuses every request.
    pub const fn empty() -> Heap {
        let source = Source::Block(Only { start: None, bytes: 0 });
        Heap { lock: Masked::FREE, state: UnsafeCell::new(State { source, used: 0, free: 0 }) }
    }

    #[inline(always)]
    fn with<T>(&self, operation: impl FnOnce(&mut State) -> T) -> T {
        // SAFETY: the lock is held, so no other operation has the state.
        self.lock.hold(|| operation(unsafe { &mut *self.state.get() }))
    }

    /// Gives the heap the `size` bytes from `start_addr` on. A few of them are not used: at most 7 at the start, and
    /// where the region has 64 KiB, or 4 GiB, those beyond the reach of the tags.
    ///
    /// # Safety
    ///
    /// The bytes are valid for reads and writes, and nothing else uses them as long as the heap or a block of it is in
    /// use.
    ///
    /// # Panics
    ///
    /// If `size` or `start_addr` is 0, or if the heap has memory.
    ///
    /// # Time
    ///
    /// Linear in the control structure, as one critical section.
    pub unsafe fn init(&self, start_addr: usize, size: usize) {
        assert!(size > 0, "a heap of 0 bytes");
        let start = NonNull::new(core::ptr::with_exposed_provenance_mut(start_addr)).expect("a heap at address 0");
        self.with(|state| {
            assert!(matches!(state.source, Source::Block(Only { start: None, .. })), "init is called twice");
            // SAFETY: the caller guarantees that the memory is this heap's alone.
            *state = unsafe { State::new(start, size) };
        });
    }

    /// The sum of the sizes that live blocks were requested with.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn used(&self) -> usize {
        self.with(|state| state.used)
    }

    /// Bytes of free blocks, with the headers that they will have. A request for as many may fail: see
    /// [`largest_free`](Self::largest_free).
    ///
    /// # Time
    ///
    /// Constant.
    pub fn free(&self) -> usize {
        self.with(|state| state.free)
    }

    /// The largest request that succeeds now, at an alignment of at most 8 bytes; larger ones fail.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn largest_free(&self) -> usize {
        self.with(|state| state.largest_free())
    }
}

/// The block as the caller of [`GlobalAlloc`] gets it.
#[inline(always)]
fn raw(block: Option<NonNull<u8>>) -> *mut u8 {
    block.map_or(null_mut(), NonNull::as_ptr)
}

// SAFETY: blocks are the heap's, which fulfils the contract. Only `init` panics.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        raw(self.with(|state| state.allocate(layout)))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(block) = NonNull::new(block) {
            // SAFETY: the caller guarantees that the block was allocated here with this layout and is no longer used.
            self.with(|state| unsafe { state.deallocate(block, layout) });
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the new size is legal, and that the block came from here with `layout`.
        raw(NonNull::new(block).and_then(|block| unsafe {
            let new = Layout::from_size_align_unchecked(new_size, layout.align());
            self.with(|state| state.resize(block, layout, new))
        }))
    }
}

/// Implements a trait `Allocator` for [`Heap`]. Requests for zero bytes do not reach the heap.
#[cfg(any(feature = "allocator-api2", all(feature = "allocator_api", nightly)))]
macro_rules! allocator {
    ($($alloc:tt)*) => {
        use super::Heap;
        use $($alloc)*::{AllocError, Allocator};
        use core::alloc::Layout;
        use core::ptr::{NonNull, without_provenance_mut};

        /// What a request got.
        fn slice(block: Option<NonNull<u8>>, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            Ok(NonNull::slice_from_raw_parts(block.ok_or(AllocError)?, layout.size()))
        }

        /// A place for zero bytes.
        fn nothing(layout: Layout) -> Option<NonNull<u8>> {
            NonNull::new(without_provenance_mut(layout.align()))
        }

        /// # Safety
        ///
        /// As `Allocator::grow` or `Allocator::shrink`.
        unsafe fn resize(
            heap: &Heap,
            block: NonNull<u8>,
            old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            if old.size() == 0 {
                return heap.allocate(new);
            }
            // SAFETY: the caller guarantees that the block was allocated here with `old`, which is not empty.
            let block = unsafe {
                if new.size() == 0 {
                    heap.deallocate(block, old);
                    nothing(new)
                } else {
                    heap.with(|state| state.resize(block, old, new))
                }
            };
            slice(block, new)
        }

        // SAFETY: blocks are the heap's, whose value may be moved.
        unsafe impl Allocator for Heap {
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                let is_empty = layout.size() == 0;
                slice(if is_empty { nothing(layout) } else { self.with(|state| state.allocate(layout)) }, layout)
            }

            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                if layout.size() != 0 {
                    // SAFETY: the caller guarantees that the block was allocated here with this layout.
                    self.with(|state| unsafe { state.deallocate(block, layout) });
                }
            }

            unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: the caller guarantees what `resize` requires.
                unsafe { resize(self, block, old, new) }
            }

            unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: the caller guarantees what `resize` requires.
                unsafe { resize(self, block, old, new) }
            }
        }
    };
}

#[cfg(feature = "allocator-api2")]
mod allocator_api2 {
    allocator!(::allocator_api2::alloc);
}

#[cfg(all(feature = "allocator_api", nightly))]
mod allocator_api {
    allocator!(core::alloc);
}

/// Gives a heap `$size` bytes of a static: [`Heap::init`], with its safety conditions and panics.
///
/// ```
/// static HEAP: rtalloc_embedded::TlsfHeap = rtalloc_embedded::TlsfHeap::empty();
///
/// // SAFETY: this runs once.
/// unsafe { rtalloc_embedded::init!(HEAP, 4096) };
/// assert_eq!(HEAP.used(), 0);
/// ```
#[macro_export]
macro_rules! init {
    ($heap:ident, $size:expr) => {{
        static mut MEMORY: [::core::mem::MaybeUninit<u8>; $size] = [::core::mem::MaybeUninit::uninit(); $size];
        $heap.init((&raw mut MEMORY).expose_provenance(), $size)
    }};
}

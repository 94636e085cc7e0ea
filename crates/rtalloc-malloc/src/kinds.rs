//! The allocators that can be asked for, behind one table of functions each.
//!
//! The table is for the long way; the short way of the arenas ([`seat`](crate::seat)) calls no function by its address. Blocks
//! of `malloc` are aligned to 16 bytes, so that heaps of boundary tags have tags of a whole word here: their granule is 16 bytes then.

use crate::lock::HeapLock;
use crate::regions::Arenas;
use crate::ring;
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use rtalloc::adapt::{Guarded, GuardedConfig, Locked, Traced, TracedConfig};
use rtalloc::concurrent::arenas::ArenasConfig;
use rtalloc::concurrent::bitmap_buddy::BitmapConfig;
use rtalloc::contract::{Block, Corruption, InitError, Refusals, SharedError};
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::word::Wide;
use rtalloc::{
    AddressOrderedFirstFit, BestFit, BinaryBuddy, BitmapBuddy, DoubleBuddy, FastFit, FibonacciBuddy, FirstFit, HalfFit,
    Kingsley, LeftmostFastFit, LifoNextFit, NextFit, QuickFit, RegionAllocator, SharedAllocator, Slot, Tlsf,
    TreeBestFit, TreeBuddy, WeightedBuddy,
};

/// The place of a heap, which is one pointer: a word that does not change any more.
pub type Heap = &'static AtomicUsize;

/// Resizes the block of a heap's slot to a size at an alignment.
pub type Reallocate = unsafe fn(Heap, usize, NonNull<u8>, usize, usize) -> Result<NonNull<u8>, SharedError>;

/// An allocator as the rest of this library sees it.
///
/// # Safety
///
/// For all functions: `heap` was made by `make` of the same table, `slot` is the caller's in it, and blocks are of it, as
/// [`Slot`] and [`SharedAllocator`] ask for it.
#[derive(Debug)]
pub struct Kind {
    /// Name as `RTALLOC` takes it, which is the laboratory's.
    pub name: &'static str,
    /// Whether each slot has memory of its own, and is one thread's at a time.
    pub has_slots: bool,
    /// Whether making a heap takes little time and touches little memory, however large its region is.
    pub starts_small: bool,
    /// Largest region, in bytes.
    pub max_region_bytes: usize,
    /// Strictest alignment that is served, in bytes.
    pub max_align_bytes: usize,
    /// Makes a heap in a region with a number of slots.
    pub make: unsafe fn(*mut u8, usize, usize) -> Result<usize, InitError>,
    /// Allocates.
    pub allocate: unsafe fn(heap: Heap, slot: usize, size: usize, align: usize) -> Result<NonNull<u8>, SharedError>,
    /// Gives a block back.
    pub deallocate: unsafe fn(heap: Heap, slot: usize, block: NonNull<u8>),
    /// Resizes a block.
    pub reallocate: Reallocate,
    /// Bytes that may be used.
    pub usable_size: unsafe fn(heap: Heap, slot: usize, block: NonNull<u8>) -> usize,
    /// Takes back blocks of the slot that others freed.
    pub reclaim: unsafe fn(heap: Heap, slot: usize, budget: usize) -> usize,
    /// Shows every block; nobody is at work.
    pub walk: unsafe fn(heap: Heap, visitor: &mut dyn FnMut(Block)),
    /// Shows every block that serves a slot; nobody is at work in it.
    pub walk_by: unsafe fn(heap: Heap, slot: usize, visitor: &mut dyn FnMut(Block)),
    /// Largest request that succeeds; nobody is at work.
    pub largest: unsafe fn(heap: Heap) -> usize,
    /// Verifies every invariant; nobody is at work.
    pub check: unsafe fn(heap: Heap) -> Result<(), Corruption>,
    /// Requests refused.
    pub refusals: unsafe fn(heap: Heap) -> Refusals,
}

/// A heap type with its configuration for a number of slots.
trait Choice {
    /// The heap.
    type Heap: SharedAllocator<'static>;
    /// What is chosen for it.
    fn config(slots: usize) -> <Self::Heap as SharedAllocator<'static>>::Config;
}

/// The arenas.
struct InArenas;

impl Choice for InArenas {
    type Heap = Arenas;

    fn config(slots: usize) -> ArenasConfig<<crate::regions::ArenaHeap as RegionAllocator<'static>>::Config> {
        ArenasConfig { slots, ..ArenasConfig::default() }
    }
}

/// The wait-free buddies of the paper.
struct Tree;

impl Choice for Tree {
    type Heap = TreeBuddy<'static>;

    fn config(_slots: usize) {}
}

/// The buddies as bitmaps.
struct Bitmap;

impl Choice for Bitmap {
    type Heap = BitmapBuddy<'static>;

    fn config(_slots: usize) -> BitmapConfig {
        BitmapConfig { slots: 16 }
    }
}

/// A sequential heap under a lock.
struct OneAtATime<H>(core::marker::PhantomData<H>);

impl<H: RegionAllocator<'static, Config: Default> + Send> Choice for OneAtATime<H> {
    type Heap = Locked<'static, H, HeapLock>;

    fn config(_slots: usize) -> H::Config {
        H::Config::default()
    }
}

/// TLSF with a flight recorder, under a lock. Its tags are of 32 bits, as the laboratory's are, which replays what is recorded.
struct WithRecorder;

impl Choice for WithRecorder {
    type Heap = Locked<'static, Traced<'static, Tlsf<'static>>, HeapLock>;

    fn config(_slots: usize) -> TracedConfig<<Tlsf<'static> as RegionAllocator<'static>>::Config> {
        TracedConfig { records: ring::records(), ..TracedConfig::default() }
    }
}

/// As that, with fences around blocks, fills, and a quarantine of freed blocks.
struct UnderGuard;

impl Choice for UnderGuard {
    type Heap = Locked<'static, Guarded<'static, Traced<'static, Tlsf<'static>>>, HeapLock>;

    fn config(slots: usize) -> GuardedConfig<TracedConfig<<Tlsf<'static> as RegionAllocator<'static>>::Config>> {
        GuardedConfig { heap: WithRecorder::config(slots), quarantine_blocks: QUARANTINED, ..GuardedConfig::default() }
    }
}

/// Freed blocks that a guarded heap holds back.
const QUARANTINED: usize = 256;

/// The heap in a place.
///
/// # Safety
///
/// It was put there by [`make`] of the same type.
#[inline(always)]
unsafe fn heap_in<H>(place: Heap) -> &'static H {
    const { assert!(size_of::<H>() == size_of::<usize>() && align_of::<H>() == align_of::<usize>(), "one pointer") }
    // SAFETY: the caller's promise; the place is never written again.
    unsafe { &*place.as_ptr().cast::<H>() }
}

/// A heap to be asked what needs it whole.
///
/// # Safety
///
/// As [`heap_in`], and nobody is at work in what is asked about.
#[inline(always)]
unsafe fn whole<H>(place: Heap) -> ManuallyDrop<H> {
    // SAFETY: the caller's promise; a copy of a pointer that nobody drops.
    unsafe { ManuallyDrop::new(core::ptr::read(place.as_ptr().cast::<H>())) }
}

/// The slot of a heap of arenas.
///
/// # Safety
///
/// `place` has arenas, which have such a slot, and it is the caller's as long as this is used.
#[inline(always)]
#[must_use]
pub unsafe fn arena_slot(place: Heap, slot: usize) -> <Arenas as SharedAllocator<'static>>::Slot<'static> {
    // SAFETY: the caller's promise.
    unsafe { heap_in::<Arenas>(place).slot(slot) }
}

unsafe fn make<C: Choice<Heap: 'static>>(start: *mut u8, len: usize, slots: usize) -> Result<usize, InitError> {
    start.expose_provenance();
    // SAFETY: whoever calls it gives the region away for ever.
    let region = unsafe { core::slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), len) };
    let heap = ManuallyDrop::new(C::Heap::new(region, C::config(slots))?);
    const { assert!(size_of::<C::Heap>() == size_of::<usize>(), "the value in hand is one pointer") }
    // SAFETY: a heap is one pointer, of the region, whose provenance is exposed.
    Ok(unsafe { core::mem::transmute_copy(&heap) })
}

/// Functions of one type of heaps.
const fn kind<C: Choice<Heap: 'static>>(name: &'static str, starts_small: bool) -> Kind {
    Kind {
        name,
        has_slots: C::Heap::CONTRACT.slots_are_exclusive,
        starts_small,
        max_region_bytes: C::Heap::CONTRACT.alone.max_span_bytes,
        max_align_bytes: C::Heap::CONTRACT.alone.largest_alignment_bytes,
        make: make::<C>,
        // SAFETY: here and below, as the functions of `Kind` ask for it.
        allocate: |heap, slot, size, align| unsafe { heap_in::<C::Heap>(heap).slot(slot).allocate_bytes(size, align) },
        // SAFETY: as above.
        deallocate: |heap, slot, block| unsafe { heap_in::<C::Heap>(heap).slot(slot).deallocate(block) },
        // SAFETY: as above.
        reallocate: |heap, slot, block, size, align| unsafe {
            heap_in::<C::Heap>(heap).slot(slot).reallocate_bytes(block, size, align)
        },
        // SAFETY: as above.
        usable_size: |heap, slot, block| unsafe { heap_in::<C::Heap>(heap).slot(slot).usable_size(block) },
        // SAFETY: as above.
        reclaim: |heap, slot, budget| unsafe { heap_in::<C::Heap>(heap).slot(slot).reclaim(budget) },
        // SAFETY: as above.
        walk: |heap, visitor| unsafe { whole::<C::Heap>(heap).walk(visitor) },
        // SAFETY: as above.
        walk_by: |heap, slot, visitor| unsafe { whole::<C::Heap>(heap).walk_by(slot, visitor) },
        // SAFETY: as above.
        largest: |heap| unsafe { whole::<C::Heap>(heap).largest_allocatable() },
        // SAFETY: as above.
        check: |heap| unsafe { whole::<C::Heap>(heap).check() },
        // SAFETY: as above.
        refusals: |heap| unsafe { heap_in::<C::Heap>(heap).refusals() },
    }
}

/// A sequential heap with boundary tags of a whole word.
macro_rules! locked {
    ($name:literal, $starts_small:literal, $heap:ty) => {
        kind::<OneAtATime<$heap>>($name, $starts_small)
    };
}

/// Every allocator that can be asked for; the first is the default. Those that serve small requests alone are none for a whole
/// program, and those whose objects move hand out no addresses.
pub static ALL: &[Kind] = &[
    kind::<InArenas>("arenas", true),
    kind::<Tree>("tree-buddy", false),
    kind::<Bitmap>("bitmap-buddy", false),
    locked!("tlsf", true, Tlsf<'static, 5, RoundUp, Wide>),
    locked!("tlsf-exact", true, Tlsf<'static, 5, Exact, Wide>),
    locked!("half-fit", true, HalfFit<'static, Wide>),
    locked!("first-fit", true, FirstFit<'static, Wide>),
    locked!("first-fit-address", true, AddressOrderedFirstFit<'static, Wide>),
    locked!("next-fit", true, NextFit<'static, Wide>),
    locked!("next-fit-lifo", true, LifoNextFit<'static, Wide>),
    locked!("best-fit", true, BestFit<'static, Wide>),
    locked!("tree-best-fit", true, TreeBestFit<'static, Wide>),
    locked!("fast-fit", true, FastFit<'static, Wide>),
    locked!("fast-fit-leftmost", true, LeftmostFastFit<'static, Wide>),
    locked!("binary-buddy", false, BinaryBuddy<'static>),
    locked!("fibonacci-buddy", false, FibonacciBuddy<'static>),
    locked!("weighted-buddy", false, WeightedBuddy<'static>),
    locked!("double-buddy", false, DoubleBuddy<'static>),
    locked!("quick-fit", false, QuickFit<'static>),
    locked!("kingsley", true, Kingsley<'static, 4096, Wide>),
    kind::<WithRecorder>("traced", true),
    kind::<UnderGuard>("guarded", true),
];

/// The names, for a message.
#[derive(Debug)]
pub struct Names;

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in ALL.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " " })?;
            f.write_str(kind.name)?;
        }
        Ok(())
    }
}

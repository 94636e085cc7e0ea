//! The allocators that `RTALLOC` names, each as a table of functions.
//!
//! Only the slow path uses the tables; the fast path of the arenas calls no function by its address. Blocks of `malloc`
//! are aligned to 16 bytes, so heaps with boundary tags have tags of a whole word here: their granule is then 16 bytes.

use crate::region_table::Heap;
use crate::state::STATE;
use crate::threads::{ArenaSlot, Arenas};
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Range;
use core::ptr::NonNull;
use rtalloc::adapt::{Guarded, GuardedConfig, Locked, Traced, TracedConfig};
use rtalloc::concurrent::bitmap_buddy::BitmapConfig;
use rtalloc::contract::{Block, Corruption, InitError, Refusals, SharedError};
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::word::Wide;
use rtalloc::{BitmapBuddy, HalfFit, PooledArenasConfig, RegionAllocator, SharedAllocator, Slot, Tlsf, TreeBuddy};

/// Resizes a block: heap, slot, block, size and alignment.
type Reallocate = unsafe fn(Heap, usize, NonNull<u8>, usize, usize) -> Result<NonNull<u8>, SharedError>;

/// An allocator as the rest of this library sees it.
///
/// # Safety
///
/// For all functions: `heap` was made by `make` of the same table, no other thread uses `slot` if `has_slots`, and
/// blocks are live blocks of the heap, as [`Slot`] and [`SharedAllocator`] require.
#[derive(Debug)]
pub struct Kind {
    /// Name, as in the laboratory.
    pub name: &'static str,
    /// Whether each slot has a heap of its own and is used by one thread at a time.
    pub has_slots: bool,
    /// Whether initialising a heap takes little time and touches little memory, however large its region is.
    pub starts_small: bool,
    /// Largest region, in bytes.
    pub max_region_bytes: usize,
    /// Largest alignment that is served, in bytes.
    pub max_align_bytes: usize,
    /// Makes a heap in a region, which is given to it for good.
    pub make: unsafe fn(*mut u8, usize, HeapConfig) -> Result<usize, InitError>,
    /// Allocates.
    pub allocate: unsafe fn(heap: Heap, slot: usize, size: usize, align: usize) -> Result<NonNull<u8>, SharedError>,
    /// Frees a block.
    pub deallocate: unsafe fn(heap: Heap, slot: usize, block: NonNull<u8>),
    /// Resizes a block.
    pub reallocate: Reallocate,
    /// Usable bytes of a block.
    pub usable_size: unsafe fn(heap: Heap, slot: usize, block: NonNull<u8>) -> usize,
    /// Processes at most `budget` of the slot's blocks that other slots freed; returns their number.
    pub reclaim: unsafe fn(heap: Heap, slot: usize, budget: usize) -> usize,
    /// Visits every block. No thread uses the heap.
    pub walk: unsafe fn(heap: Heap, visitor: &mut dyn FnMut(Block)),
    /// Largest request that succeeds. No thread uses the heap.
    pub largest: unsafe fn(heap: Heap) -> usize,
    /// Verifies every invariant. No thread uses the heap.
    pub check: unsafe fn(heap: Heap) -> Result<(), Corruption>,
    /// Requests refused.
    pub refusals: unsafe fn(heap: Heap) -> Refusals,
}

/// How to make a heap.
#[derive(Clone, Copy, Debug)]
pub struct HeapConfig {
    /// Slots.
    pub slots: usize,
    /// Operations that a flight recorder keeps.
    pub records: usize,
    /// Bytes of freed blocks that each slot of arenas keeps of each size.
    pub list_bytes: usize,
}

/// Excludes threads from sequential heaps: one lock for the heaps of all regions, because one request may ask several
/// of them.
#[derive(Debug)]
pub struct HeapLock;

// SAFETY: all critical sections run one at a time, ordered by release and acquire.
unsafe impl rtalloc::adapt::Lock for HeapLock {
    const FREE: Self = HeapLock;

    #[inline(always)]
    fn hold<T>(&self, critical_section: impl FnOnce() -> T) -> T {
        STATE.heap_lock.lock();
        let result = critical_section();
        STATE.heap_lock.unlock();
        result
    }

    fn is_held(&self) -> bool {
        STATE.heap_lock.is_locked()
    }
}

/// A heap type and its configuration.
trait Choice {
    /// The heap.
    type Heap: SharedAllocator<'static>;
    /// Its configuration.
    fn config(config: HeapConfig) -> <Self::Heap as SharedAllocator<'static>>::Config;
    /// Prepares a new heap.
    fn prepare(_heap: &mut Self::Heap, _config: HeapConfig) {}
}

/// The arenas.
struct ChooseArenas;

impl Choice for ChooseArenas {
    type Heap = Arenas;

    fn config(config: HeapConfig) -> PooledArenasConfig {
        PooledArenasConfig { slots: config.slots, ..PooledArenasConfig::default() }
    }

    fn prepare(heap: &mut Arenas, config: HeapConfig) {
        heap.set_list_bytes(config.list_bytes);
    }
}

/// The wait-free buddy system with a tree.
struct ChooseTree;

impl Choice for ChooseTree {
    type Heap = TreeBuddy<'static>;

    fn config(_: HeapConfig) {}
}

/// The buddy system with bitmaps.
struct ChooseBitmap;

impl Choice for ChooseBitmap {
    type Heap = BitmapBuddy<'static>;

    fn config(_: HeapConfig) -> BitmapConfig {
        BitmapConfig { slots: 16 }
    }
}

/// A sequential heap under the lock.
struct ChooseLocked<H>(core::marker::PhantomData<H>);

impl<H: RegionAllocator<'static, Config: Default> + Send> Choice for ChooseLocked<H> {
    type Heap = Locked<'static, H, HeapLock>;

    fn config(_: HeapConfig) -> H::Config {
        H::Config::default()
    }
}

/// TLSF with a flight recorder, under the lock. Its tags have 32 bits, as in the laboratory, which replays the records.
struct ChooseTraced;

impl Choice for ChooseTraced {
    type Heap = Locked<'static, Traced<'static, Tlsf<'static>>, HeapLock>;

    fn config(config: HeapConfig) -> TracedConfig<<Tlsf<'static> as RegionAllocator<'static>>::Config> {
        TracedConfig { records: config.records, ..TracedConfig::default() }
    }
}

/// The same with fences around blocks, fill patterns, and a quarantine of freed blocks.
struct ChooseGuarded;

impl Choice for ChooseGuarded {
    type Heap = Locked<'static, Guarded<'static, Traced<'static, Tlsf<'static>>>, HeapLock>;

    fn config(config: HeapConfig) -> GuardedConfig<TracedConfig<<Tlsf<'static> as RegionAllocator<'static>>::Config>> {
        /// Freed blocks in quarantine.
        const QUARANTINE_BLOCKS: usize = 256;
        let heap = ChooseTraced::config(config);
        GuardedConfig { heap, quarantine_blocks: QUARANTINE_BLOCKS, ..GuardedConfig::default() }
    }
}

/// The heap stored in a word.
///
/// # Safety
///
/// [`make`] of the same type returned the word.
#[inline(always)]
unsafe fn heap_in<H>(word: Heap) -> &'static H {
    const { assert!(size_of::<H>() == size_of::<usize>() && align_of::<H>() == align_of::<usize>(), "one pointer") }
    // SAFETY: the word is an `H` by the caller's guarantee, and is never written again.
    unsafe { &*word.as_ptr().cast::<H>() }
}

/// A heap for calls that need exclusive access.
///
/// # Safety
///
/// As [`heap_in`], and no thread uses the part of the heap that is asked about.
#[inline(always)]
unsafe fn exclusive<H>(word: Heap) -> ManuallyDrop<H> {
    // SAFETY: the word is an `H` by the caller's guarantee. The copy is one pointer and is never dropped.
    unsafe { ManuallyDrop::new(core::ptr::read(word.as_ptr().cast::<H>())) }
}

/// A slot of arenas.
///
/// # Safety
///
/// `word` stores arenas with that slot, and no other thread uses the slot as long as the result is used.
#[inline(always)]
pub unsafe fn arena_slot(word: Heap, slot: usize) -> ArenaSlot {
    // SAFETY: the word stores arenas, and the slot is the caller's alone.
    unsafe { heap_in::<Arenas>(word).slot(slot) }
}

/// Passes the free memory in some words of the pool of arenas to `visit`, while no thread can take it: in `most` words
/// from `first` on, counted modulo their number, or in all if there are fewer.
///
/// # Safety
///
/// `word` stores arenas.
pub unsafe fn visit_free(word: Heap, first: usize, most: usize, visit: &mut dyn FnMut(Range<usize>)) {
    // SAFETY: by the caller's guarantee.
    let arenas = unsafe { heap_in::<Arenas>(word) };
    let words = arenas.pool_words();
    for index in 0..words.min(most) {
        arenas.visit_free(first.wrapping_add(index) % words, visit);
    }
}

unsafe fn make<C: Choice<Heap: 'static>>(start: *mut u8, len: usize, config: HeapConfig) -> Result<usize, InitError> {
    start.expose_provenance();
    // SAFETY: `Kind::make` requires a region of `len` bytes that no other code uses any more.
    let region = unsafe { core::slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), len) };
    let mut heap = ManuallyDrop::new(C::Heap::new(region, C::config(config))?);
    C::prepare(&mut heap, config);
    const { assert!(size_of::<C::Heap>() == size_of::<usize>(), "a heap is one pointer") }
    // SAFETY: a heap is one pointer into the region, whose provenance is exposed.
    Ok(unsafe { core::mem::transmute_copy(&heap) })
}

/// The table of a type of heap.
const fn kind<C: Choice<Heap: 'static>>(name: &'static str, starts_small: bool) -> Kind {
    Kind {
        name,
        has_slots: C::Heap::CONTRACT.slots_are_exclusive,
        starts_small,
        max_region_bytes: C::Heap::CONTRACT.single_user.max_span_bytes,
        max_align_bytes: C::Heap::CONTRACT.single_user.largest_alignment_bytes,
        make: make::<C>,
        // SAFETY: the word stores a `C::Heap`, and no other thread uses an exclusive slot.
        allocate: |heap, slot, size, align| unsafe { heap_in::<C::Heap>(heap).slot(slot).allocate_bytes(size, align) },
        // SAFETY: the word stores a `C::Heap`, no other thread uses an exclusive slot, and the block is live.
        deallocate: |heap, slot, block| unsafe { heap_in::<C::Heap>(heap).slot(slot).deallocate(block) },
        // SAFETY: the word stores a `C::Heap`, no other thread uses an exclusive slot, and the block is live.
        reallocate: |heap, slot, block, size, align| unsafe {
            heap_in::<C::Heap>(heap).slot(slot).reallocate_bytes(block, size, align)
        },
        // SAFETY: the word stores a `C::Heap`, no other thread uses an exclusive slot, and the block is live.
        usable_size: |heap, slot, block| unsafe { heap_in::<C::Heap>(heap).slot(slot).usable_size(block) },
        // SAFETY: the word stores a `C::Heap`, and no other thread uses an exclusive slot.
        reclaim: |heap, slot, budget| unsafe { heap_in::<C::Heap>(heap).slot(slot).reclaim(budget) },
        // SAFETY: the word stores a `C::Heap`, and no thread uses the heap.
        walk: |heap, visitor| unsafe { exclusive::<C::Heap>(heap).walk(visitor) },
        // SAFETY: the word stores a `C::Heap`, and no thread uses the heap.
        largest: |heap| unsafe { exclusive::<C::Heap>(heap).largest_allocatable() },
        // SAFETY: the word stores a `C::Heap`, and no thread uses the heap.
        check: |heap| unsafe { exclusive::<C::Heap>(heap).check() },
        // SAFETY: the word stores a `C::Heap`.
        refusals: |heap| unsafe { heap_in::<C::Heap>(heap).refusals() },
    }
}

/// All allocators; the first is the default. `rtalloc run` replays a program's recording on the library's others.
const ALL: &[Kind] = &[
    kind::<ChooseArenas>("arenas", true),
    kind::<ChooseTree>("tree-buddy", false),
    kind::<ChooseBitmap>("bitmap-buddy", false),
    kind::<ChooseLocked<Tlsf<'static, 5, RoundUp, Wide, NoStats>>>("tlsf", true),
    kind::<ChooseLocked<HalfFit<'static, Exact, Wide, NoStats>>>("half-fit", true),
    kind::<ChooseTraced>("traced", true),
    kind::<ChooseGuarded>("guarded", true),
];

/// The names of all allocators.
pub const NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ALL[index].name;
        index += 1;
    }
    names
};

/// The allocator with an index.
pub fn get(index: usize) -> &'static Kind {
    ALL.get(index).unwrap_or(&ALL[0])
}

/// The allocator in use.
pub fn current() -> &'static Kind {
    get(STATE.settings().kind)
}

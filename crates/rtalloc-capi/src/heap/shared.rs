//! The functions of shared heaps, as documented in `verbs::shared`. `heap` is null or a live heap of this type; `block`
//! is null or a live block of it; `place` is null or writable. The caller owns the slot, or the slot does not exist.

use super::{UNSUPPORTED, block_or_null, create, natural_align_bytes, passing_to, stored, value, verified};
use crate::bound::{Iterations, Proof, rt_operation};
use crate::error::is;
use crate::error::rt_error::{self, *};
use crate::report::{rt_corruption, rt_visitor};
use core::ffi::c_void;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::{NonNull, null_mut};
use rtalloc::concurrent::{BitmapConfig, PooledArenasConfig};
use rtalloc::contract::{Operation, Refusals, SharedError, Steps};
use rtalloc::{BitmapBuddy, PooledArenas, SharedAllocator, Slot, TreeBuddy};

/// The configuration of a shared heap.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_shared_config {
    /// Number of slots, at least 1: threads, cores, interrupt levels.
    pub slots: usize,
    /// Maximum number of blocks freed by other slots that an allocation reclaims before it serves its request. 0 means
    /// 2. From 2 on (from 4 on with more slots than a word has bits), every block is eventually reclaimed if its owner
    /// continues to allocate. Must be 0 for heaps whose blocks have no owner.
    pub reclaim_budget: usize,
    /// Bytes of the chunks in which slots get memory: a power of two, at least 64, and at least a 2,048th of the region
    /// (a 1,024th where a word has 32 bits). 0 means the smallest, at least 512, with which the region has at most 256
    /// chunks (128). Smaller chunks lose less memory, but the bounds of allocations grow with the number of chunks.
    /// Must be 0 for heaps without chunks.
    pub chunk_bytes: usize,
}

/// Converts a configuration from C.
pub(crate) trait Configured: Sized {
    /// The configuration, or `None` if it sets something that the allocator does not support.
    fn configured(config: rt_shared_config) -> Option<Self>;
}

impl Configured for PooledArenasConfig {
    fn configured(config: rt_shared_config) -> Option<Self> {
        let rt_shared_config { slots, reclaim_budget, chunk_bytes } = config;
        let reclaim_budget = if reclaim_budget == 0 { Self::default().reclaim_budget } else { reclaim_budget };
        Some(PooledArenasConfig { slots, reclaim_budget, chunk_bytes })
    }
}

/// Whether a configuration sets only the slots.
const fn is_slots_alone(config: rt_shared_config) -> bool {
    config.slots != 0 && config.reclaim_budget == 0 && config.chunk_bytes == 0
}

impl Configured for BitmapConfig {
    fn configured(config: rt_shared_config) -> Option<Self> {
        is_slots_alone(config).then_some(BitmapConfig { slots: config.slots })
    }
}

impl Configured for () {
    fn configured(config: rt_shared_config) -> Option<Self> {
        is_slots_alone(config).then_some(())
    }
}

/// A shared heap whose instruction bounds may grow with its configuration.
pub(crate) trait Growing {
    /// The numbers of [`Proof::bound`](crate::bound::Proof::bound); `None` if no bound holds for this heap.
    fn iterations(&self) -> Option<Iterations> {
        None
    }
}

impl Growing for PooledArenas<'static> {
    fn iterations(&self) -> Option<Iterations> {
        // With more slots, several of them share a pending bit.
        let has_bit_for_each = self.slots() <= usize::BITS as usize;
        has_bit_for_each.then(|| Iterations { words: self.pool_words(), reclaimed: self.reclaim_budget() })
    }
}

impl Growing for BitmapBuddy<'static> {}

impl Growing for TreeBuddy<'static> {}

/// Numbers of requests that a shared heap refused, by reason.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct rt_refusals {
    /// No heap of this kind serves the request: RT_ERROR_ZERO_SIZE, RT_ERROR_ALIGNMENT, RT_ERROR_TOO_LARGE,
    /// RT_ERROR_MISUSED.
    pub request: usize,
    /// RT_ERROR_EXHAUSTED.
    pub exhausted: usize,
    /// RT_ERROR_CONTENDED.
    pub contended: usize,
    /// RT_ERROR_PENDING.
    pub pending: usize,
}

impl From<Refusals> for rt_refusals {
    fn from(refusals: Refusals) -> Self {
        let Refusals { request, exhausted, contended, pending } = refusals;
        rt_refusals { request, exhausted, contended, pending }
    }
}

/// Numbers of accesses to shared words.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct rt_steps {
    /// Atomic read-modify-writes.
    pub read_modify_writes: usize,
    /// Loads.
    pub loads: usize,
    /// Stores.
    pub stores: usize,
}

impl From<Steps> for rt_steps {
    fn from(steps: Steps) -> Self {
        let Steps { read_modify_writes, loads, stores } = steps;
        rt_steps { read_modify_writes, loads, stores }
    }
}

impl From<SharedError> for rt_error {
    #[inline(always)]
    fn from(error: SharedError) -> Self {
        match error {
            SharedError::Request(error) => error.into(),
            SharedError::Exhausted => RT_ERROR_EXHAUSTED,
            SharedError::Contended => RT_ERROR_CONTENDED,
            SharedError::Pending => RT_ERROR_PENDING,
        }
    }
}

pub(crate) unsafe fn init_with<H: SharedAllocator<'static, Config: Configured>>(
    region: *mut c_void,
    bytes: usize,
    config: *const rt_shared_config,
    place: *mut *mut c_void,
) -> rt_error {
    // SAFETY: the configuration is null or readable.
    let config = match unsafe { config.as_ref() } {
        Some(&config) => H::Config::configured(config),
        None => Some(H::Config::default()),
    };
    // SAFETY: the region is writable and exclusive to the heap, and the place is null or writable.
    unsafe { create(region, bytes, place, |region| H::new(region, config.ok_or(UNSUPPORTED)?)) }
}

pub(crate) unsafe fn init<H: SharedAllocator<'static, Config: Configured>>(
    region: *mut c_void,
    bytes: usize,
    slots: usize,
) -> *mut c_void {
    let mut heap = null_mut();
    let config = rt_shared_config { slots, reclaim_budget: 0, chunk_bytes: 0 };
    // SAFETY: the region is writable and exclusive to the heap; configuration and place are local variables.
    unsafe { init_with::<H>(region, bytes, &config, &mut heap) };
    heap
}

pub(crate) unsafe fn slots<H: SharedAllocator<'static>>(heap: *const c_void) -> usize {
    // SAFETY: the heap is live.
    NonNull::new(heap.cast_mut()).map_or(0, |heap| unsafe { value::<H>(heap) }.slots())
}

pub(crate) unsafe fn claim<H: SharedAllocator<'static>>(heap: *mut c_void, place: *mut usize) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap), NonNull::new(place)) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live.
    let heap = unsafe { value::<H>(heap) };
    // Loop bound: slots of the heap.
    match (0..heap.slots()).find(|&slot| heap.take(slot)) {
        Some(slot) => {
            // SAFETY: the place is writable.
            unsafe { place.write(slot) };
            RT_OK
        }
        None => RT_ERROR_SLOT,
    }
}

/// The heap, if the slot exists.
///
/// # Errors
///
/// RT_ERROR_NULL, RT_ERROR_SLOT.
///
/// # Safety
///
/// `heap` is null or a live `H`.
#[inline(always)]
unsafe fn with_slot<H: SharedAllocator<'static>>(heap: *mut c_void, slot: usize) -> Result<ManuallyDrop<H>, rt_error> {
    let heap = NonNull::new(heap).ok_or(RT_ERROR_NULL)?;
    // SAFETY: the heap is live.
    let heap = unsafe { value::<H>(heap) };
    if slot < heap.slots() { Ok(heap) } else { Err(RT_ERROR_SLOT) }
}

pub(crate) unsafe fn take<H: SharedAllocator<'static>>(heap: *mut c_void, slot: usize) -> rt_error {
    // SAFETY: the heap is null or live.
    match unsafe { with_slot::<H>(heap, slot) } {
        Ok(heap) if heap.take(slot) => RT_OK,
        Ok(_) => RT_ERROR_SLOT,
        Err(error) => error,
    }
}

pub(crate) unsafe fn release<H: SharedAllocator<'static>>(heap: *mut c_void, slot: usize) -> rt_error {
    // SAFETY: the heap is null or live.
    match unsafe { with_slot::<H>(heap, slot) } {
        Ok(heap) => {
            // SAFETY: the slot exists, and the caller owns it.
            unsafe { heap.release(slot) };
            RT_OK
        }
        Err(error) => error,
    }
}

#[inline(always)]
pub(crate) unsafe fn aligned_alloc<H: SharedAllocator<'static>>(
    heap: *mut c_void,
    slot: usize,
    align: usize,
    size: usize,
) -> *mut c_void {
    // SAFETY: the heap is null or live.
    match unsafe { with_slot::<H>(heap, slot) } {
        // SAFETY: the slot exists, and nothing else uses it during the call.
        Ok(heap) => block_or_null(unsafe { heap.slot(slot) }.allocate_bytes(size, align)),
        Err(_) => null_mut(),
    }
}

#[inline(always)]
pub(crate) unsafe fn malloc<H: SharedAllocator<'static>>(heap: *mut c_void, slot: usize, size: usize) -> *mut c_void {
    // SAFETY: the conditions of that function are those of this one.
    unsafe { aligned_alloc::<H>(heap, slot, const { natural_align_bytes(H::CONTRACT.single_user) }, size) }
}

#[inline(always)]
pub(crate) unsafe fn calloc<H: SharedAllocator<'static>>(
    heap: *mut c_void,
    slot: usize,
    count: usize,
    size: usize,
) -> *mut c_void {
    // A product that overflows is refused like any other request that no heap can serve, and counted.
    let bytes = count.saturating_mul(size);
    // SAFETY: the conditions of that function are those of this one.
    let block = unsafe { malloc::<H>(heap, slot, bytes) };
    if !block.is_null() {
        // SAFETY: the block has at least `bytes` bytes.
        unsafe { block.cast::<u8>().write_bytes(0, bytes) };
    }
    block
}

#[inline(always)]
pub(crate) unsafe fn allocate<H: SharedAllocator<'static>>(
    heap: *mut c_void,
    slot: usize,
    align: usize,
    size: usize,
    place: *mut *mut c_void,
) -> rt_error {
    let Some(place) = NonNull::new(place) else { return RT_ERROR_NULL };
    // SAFETY: the heap is null or live.
    match unsafe { with_slot::<H>(heap, slot) } {
        // SAFETY: the slot exists, and nothing else uses it during the call; the place is writable.
        Ok(heap) => unsafe { stored(heap.slot(slot).allocate_bytes(size, align), place) },
        Err(error) => error,
    }
}

#[inline(always)]
pub(crate) unsafe fn realloc<H: SharedAllocator<'static>>(
    heap: *mut c_void,
    slot: usize,
    block: *mut c_void,
    size: usize,
) -> *mut c_void {
    let Some(live) = NonNull::new(block.cast::<u8>()) else {
        // SAFETY: the conditions of that function are those of this one.
        return unsafe { malloc::<H>(heap, slot, size) };
    };
    let align = const { natural_align_bytes(H::CONTRACT.single_user) };
    // SAFETY: the heap is null or live.
    match unsafe { with_slot::<H>(heap, slot) } {
        // SAFETY: the slot exists, and nothing else uses it during the call; the block is live.
        Ok(heap) => block_or_null(unsafe { heap.slot(slot).reallocate_bytes(live, size, align) }),
        Err(_) => null_mut(),
    }
}

#[inline(always)]
pub(crate) unsafe fn reallocate<H: SharedAllocator<'static>>(
    heap: *mut c_void,
    slot: usize,
    place: *mut *mut c_void,
    align: usize,
    size: usize,
) -> rt_error {
    let Some(place) = NonNull::new(place) else { return RT_ERROR_NULL };
    // SAFETY: heap and block are live; the slot exists, and nothing else uses it during the call; the place is writable.
    unsafe {
        let heap = match with_slot::<H>(heap, slot) {
            Ok(heap) => heap,
            Err(error) => return error,
        };
        let answer = match NonNull::new(place.read().cast::<u8>()) {
            Some(block) => heap.slot(slot).reallocate_bytes(block, size, align),
            None => heap.slot(slot).allocate_bytes(size, align),
        };
        stored(answer, place)
    }
}

#[inline(always)]
pub(crate) unsafe fn free<H: SharedAllocator<'static>>(heap: *mut c_void, slot: usize, block: *mut c_void) {
    let Some(block) = NonNull::new(block.cast()) else { return };
    // SAFETY: the heap is null or live. Without a heap or such a slot nothing is done; otherwise nothing else uses the
    // slot during the call, and the block is live.
    unsafe {
        if let Ok(heap) = with_slot::<H>(heap, slot) {
            heap.slot(slot).deallocate(block);
        }
    }
}

pub(crate) unsafe fn usable_size<H: SharedAllocator<'static>>(
    heap: *const c_void,
    slot: usize,
    block: *const c_void,
) -> usize {
    let Some(block) = NonNull::new(block.cast_mut().cast()) else { return 0 };
    // SAFETY: the heap is null or live; the slot exists, and nothing else uses it during the call; the block is live.
    unsafe { with_slot::<H>(heap.cast_mut(), slot).map_or(0, |heap| heap.slot(slot).usable_size(block)) }
}

pub(crate) unsafe fn reclaim<H: SharedAllocator<'static>>(heap: *mut c_void, slot: usize, budget: usize) -> usize {
    // SAFETY: the heap is null or live; the slot exists, and nothing else uses it during the call.
    unsafe { with_slot::<H>(heap, slot).map_or(0, |heap| heap.slot(slot).reclaim(budget)) }
}

pub(crate) unsafe fn largest<H: SharedAllocator<'static>>(heap: *const c_void, slot: usize) -> usize {
    // SAFETY: the heap is null or live.
    unsafe { with_slot::<H>(heap.cast_mut(), slot) }.map_or(0, |mut heap| heap.largest_allocatable_by(slot))
}

pub(crate) unsafe fn refusals<H: SharedAllocator<'static>>(heap: *const c_void, place: *mut rt_refusals) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    // SAFETY: the heap is live.
    unsafe { place.write(value::<H>(heap).refusals().into()) };
    RT_OK
}

pub(crate) unsafe fn walk<H: SharedAllocator<'static>>(
    heap: *const c_void,
    visitor: rt_visitor,
    context: *mut c_void,
) -> rt_error {
    let (Some(heap), Some(visitor)) = (NonNull::new(heap.cast_mut()), visitor) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live.
    unsafe { value::<H>(heap) }.walk(&mut passing_to(visitor, context));
    RT_OK
}

pub(crate) unsafe fn check<H: SharedAllocator<'static>>(heap: *const c_void, place: *mut rt_corruption) -> rt_error {
    let Some(heap) = NonNull::new(heap.cast_mut()) else { return RT_ERROR_NULL };
    // SAFETY: the heap is live.
    unsafe { verified(value::<H>(heap).check(), place) }
}

pub(crate) unsafe fn max_steps<H: SharedAllocator<'static>>(
    heap: *const c_void,
    operation: MaybeUninit<rt_operation>,
    align: usize,
    size: usize,
    place: *mut rt_steps,
) -> rt_error {
    let (Some(heap), Some(place)) = (NonNull::new(heap.cast_mut()), NonNull::new(place)) else {
        return RT_ERROR_NULL;
    };
    if is(operation, rt_operation::RT_OPERATION_REALLOC_IN_PLACE) {
        return RT_ERROR_UNBOUNDED;
    }
    let align_bytes = if is(operation, rt_operation::RT_OPERATION_MALLOC) {
        const { natural_align_bytes(H::CONTRACT.single_user) }
    } else {
        align
    };
    let operation = if is(operation, rt_operation::RT_OPERATION_FREE) {
        Operation::Deallocate { size_bytes: size, align_bytes }
    } else {
        Operation::Allocate { size_bytes: size, align_bytes }
    };
    // SAFETY: the heap is live.
    match unsafe { value::<H>(heap) }.max_steps(operation) {
        Some(steps) => {
            // SAFETY: the place is writable.
            unsafe { place.write(steps.into()) };
            RT_OK
        }
        None => RT_ERROR_UNBOUNDED,
    }
}

/// Inlined for the same reason as [`Proof::bound`].
#[inline(always)]
pub(crate) unsafe fn bound<H: SharedAllocator<'static> + Growing>(
    proof: &Proof,
    heap: *const c_void,
    operation: MaybeUninit<rt_operation>,
    entries: [*const u8; 4],
) -> u64 {
    let Some(heap) = NonNull::new(heap.cast_mut()) else { return 0 };
    // SAFETY: the heap is live.
    let iterations = unsafe { value::<H>(heap) }.iterations();
    iterations.map_or(0, |iterations| proof.bound(operation, entries, iterations))
}

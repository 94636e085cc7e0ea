//! The functions of a heap that several threads share.

/// Exports the functions of the shared allocators in a table, as `region_heaps!` does.
macro_rules! shared_heaps {
    ($(
        $(#[doc = $about:literal])*
        $opaque:ident, $name:ident: $heap:ty, $allocate:literal $deallocate:literal $reallocate:literal;
    )*) => {
        $(
            pub use $name::$opaque;

            #[doc = concat!(" The functions of `", stringify!($opaque), "`.")]
            pub mod $name {
                use super::*;

                $(#[doc = $about])*
                #[derive(Debug)]
                pub struct $opaque(());

                type Heap = $heap;

                const _: () = {
                    let contract = <Heap as SharedAllocator<'static>>::CONTRACT.single_user;
                    assert!(same(contract.allocate.notation(), $allocate));
                    assert!(same(contract.deallocate.notation(), $deallocate));
                    assert!(same(contract.reallocate.notation(), $reallocate));
                };

                /// Creates a heap with `slots` slots in the `bytes` bytes at `region`, which may have any alignment.
                /// Returns NULL on failure; `rt_HEAP_init_with` returns the reason.
                ///
                /// # Safety
                /// The region is writable, and only the heap accesses it for as long as the heap is in use.
                ///
                /// # Time
                /// O(control structure).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_init"))]
                pub unsafe extern "C" fn init(region: *mut c_void, bytes: usize, slots: usize) -> *mut $opaque {
                    // SAFETY: the caller gives the region to the heap alone.
                    unsafe { shared::init::<Heap>(region, bytes, slots) }.cast()
                }

                /// Creates a heap in the `bytes` bytes at `region` and stores it at `heap`, or NULL on failure. A
                /// `config` of NULL selects the default configuration.
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH,
                /// RT_ERROR_CONFIGURATION. The region is then unchanged.
                ///
                /// # Safety
                /// As `rt_HEAP_init`.
                ///
                /// # Time
                /// O(control structure).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_init_with"))]
                pub unsafe extern "C" fn init_with(
                    region: *mut c_void,
                    bytes: usize,
                    config: *const rt_shared_config,
                    heap: *mut *mut $opaque,
                ) -> rt_error {
                    // SAFETY: the caller gives the region to the heap alone; `config` and `heap` are NULL or valid.
                    unsafe { shared::init_with::<Heap>(region, bytes, config, heap.cast()) }
                }

                forwarded! { $name, shared:
                    /// Returns the number of slots. SIZE_MAX if any slot number is valid, claimed or not.
                    ///
                    /// # Safety
                    /// `heap` is NULL or came from `rt_HEAP_init`.
                    ///
                    /// # Time
                    /// O(1).
                    fn slots(heap: *const $opaque) -> usize;

                    /// Claims the first unclaimed slot and stores its number at `slot`; 0 if any slot number is valid.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL. RT_ERROR_SLOT if all are claimed.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_slots`.
                    ///
                    /// # Time
                    /// O(slots).
                    fn claim(heap: *mut $opaque, slot: *mut usize) -> rt_error;

                    /// Claims this slot.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL. RT_ERROR_SLOT if it is claimed or does not exist.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_slots`.
                    ///
                    /// # Time
                    /// O(1).
                    fn take(heap: *mut $opaque, slot: usize) -> rt_error;

                    /// Releases a slot. Its blocks that others free stay with it until it is claimed again; so does
                    /// one empty chunk, if the heap has chunks.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL. RT_ERROR_SLOT if it does not exist.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_slots`. The caller owns the slot and stops using it.
                    ///
                    /// # Time
                    /// O(1).
                    fn release(heap: *mut $opaque, slot: usize) -> rt_error;

                    /// Allocates `size` bytes, aligned for every type of C. Returns NULL if the request is refused. 0
                    /// bytes are always refused.
                    ///
                    /// # Safety
                    /// `heap` is NULL or came from `rt_HEAP_init`. If slots are exclusive (see the contract), the
                    /// caller owns the slot, and nothing else uses it during the call.
                    ///
                    /// # Time
                    /// As listed for the heap, in steps of the calling thread, whatever other threads do.
                    fn malloc(heap: *mut $opaque, slot: usize, size: usize) -> *mut c_void;

                    /// Allocates `count` times `size` bytes and sets them to zero. Returns NULL if the request is
                    /// refused. A product that overflows is refused.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// As `rt_HEAP_malloc`, plus O(bytes) to clear them.
                    fn calloc(heap: *mut $opaque, slot: usize, count: usize, size: usize) -> *mut c_void;

                    /// Allocates `size` bytes at a multiple of `align` bytes. Returns NULL if the request is refused.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// As `rt_HEAP_malloc`.
                    fn aligned_alloc(heap: *mut $opaque, slot: usize, align: usize, size: usize) -> *mut c_void;

                    /// Resizes a block of any slot to `size` bytes, in place or by moving it; the content is kept up to
                    /// the smaller size. Returns NULL if the request is refused: the block is then still live and
                    /// unchanged. If `block` is NULL, allocates a new block. 0 bytes are refused.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc` and `rt_HEAP_free`.
                    ///
                    /// # Time
                    /// As listed for the heap, plus a copy if the block moves.
                    fn realloc(heap: *mut $opaque, slot: usize, block: *mut c_void, size: usize) -> *mut c_void;

                    /// Frees a block of any slot. NULL is ignored. A pointer that the heap detects not to be a live
                    /// block is reported to the misuse hook and otherwise ignored.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`. `block` is NULL or a live block of this heap that is no longer in use.
                    ///
                    /// # Time
                    /// As listed for the heap.
                    fn free(heap: *mut $opaque, slot: usize, block: *mut c_void);

                    /// As `rt_HEAP_aligned_alloc`, but returns the reason for a refusal. Stores the block at `block`,
                    /// which a refusal leaves unchanged.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL, RT_ERROR_SLOT, RT_ERROR_ZERO_SIZE, RT_ERROR_ALIGNMENT, RT_ERROR_TOO_LARGE,
                    /// RT_ERROR_EXHAUSTED, RT_ERROR_CONTENDED, RT_ERROR_PENDING.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// As `rt_HEAP_malloc`.
                    fn allocate(
                        heap: *mut $opaque,
                        slot: usize,
                        align: usize,
                        size: usize,
                        block: *mut *mut c_void,
                    ) -> rt_error;

                    /// As `rt_HEAP_realloc` of the block at `block`, aligned to a multiple of `align` bytes, but
                    /// returns the reason for a refusal, which leaves `block` unchanged.
                    ///
                    /// # Errors
                    /// As `rt_HEAP_allocate`, and RT_ERROR_MISUSED.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_realloc`.
                    ///
                    /// # Time
                    /// As `rt_HEAP_realloc`.
                    fn reallocate(
                        heap: *mut $opaque,
                        slot: usize,
                        block: *mut *mut c_void,
                        align: usize,
                        size: usize,
                    ) -> rt_error;

                    /// Reclaims at most `budget` blocks of this slot that other slots freed, and returns their number.
                    /// For idle time: each allocation also reclaims a few. If fewer were left, it also returns
                    /// the slot's empty chunk to the pool.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// O(budget).
                    fn reclaim(heap: *mut $opaque, slot: usize, budget: usize) -> usize;

                    /// Returns the usable bytes at `block`, at least as many as were requested; 0 for NULL.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`. `block` is NULL or a live block of this heap.
                    ///
                    /// # Time
                    /// O(1), or O(log H) without headers.
                    fn usable_size(heap: *const $opaque, slot: usize, block: *const c_void) -> usize;

                    /// Returns the size of a request by this slot that is guaranteed to succeed now, as long as no
                    /// other thread uses the heap. 0 if none is.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_slots`, and nothing else uses the heap during the call.
                    ///
                    /// # Time
                    /// O(control structure).
                    fn largest(heap: *const $opaque, slot: usize) -> usize;

                    /// Stores the numbers of refused requests at `refusals`.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_slots`.
                    ///
                    /// # Time
                    /// O(1).
                    fn refusals(heap: *const $opaque, refusals: *mut rt_refusals) -> rt_error;

                    /// Passes every block, free or live, to the visitor, in address order.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_slots`, and nothing else uses the heap during the call.
                    ///
                    /// # Time
                    /// O(H).
                    fn walk(heap: *const $opaque, visitor: rt_visitor, context: *mut c_void) -> rt_error;

                    /// Verifies every invariant of the heap. `where` may be NULL.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL. RT_ERROR_CORRUPTION, with the first broken invariant at `where`.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_slots`, and nothing else uses the heap during the call.
                    ///
                    /// # Time
                    /// O(H).
                    fn check(heap: *const $opaque, r#where: *mut rt_corruption) -> rt_error;

                    /// Stores at `steps` the most steps that an operation takes, whatever other threads do: `malloc`,
                    /// which ignores `align`; `aligned_alloc`; or `free` of a block that was allocated with this size
                    /// and alignment.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL. RT_ERROR_UNBOUNDED if there is no such bound.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_slots`.
                    ///
                    /// # Time
                    /// O(log H).
                    fn max_steps(
                        heap: *const $opaque,
                        operation: MaybeUninit<rt_operation>,
                        align: usize,
                        size: usize,
                        steps: *mut rt_steps,
                    ) -> rt_error;
                }

                /// Returns the contract of the allocator: its properties and guarantees.
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_contract"))]
                pub extern "C" fn contract() -> *const rt_shared_contract {
                    const FACTS: SharedContract = <Heap as SharedAllocator<'static>>::CONTRACT;
                    static CONTRACT: rt_shared_contract = rt_shared_contract::of(
                        FACTS,
                        [c_text!(FACTS.single_user.name), c_text!(FACTS.single_user.source), c_text!(FACTS.single_user.policy)],
                    );
                    &raw const CONTRACT
                }

                /// As `rt_HEAP_bound` of a region heap, for the operations of this heap, whatever other threads do. That
                /// of rt_arenas grows with the words of the heap's pool, which have 32 chunks each (16 where a word has 32
                /// bits), and with its `reclaim_budget`. How often loops iterate is a fact that the proof takes from the
                /// source. 0 also for NULL, for more than 64 slots, for a `reclaim_budget` above 4,096, and for the
                /// buddies.
                ///
                /// # Safety
                /// As `rt_HEAP_slots`.
                ///
                /// # Time
                /// O(bytes of the operation's code), which is compared at each call.
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_bound"))]
                pub unsafe extern "C" fn bound(heap: *const $opaque, operation: MaybeUninit<rt_operation>) -> u64 {
                    const PROOF: Proof = Proof::of(stringify!($name));
                    let entries = [malloc as *const u8, aligned_alloc as *const u8, free as *const u8, null()];
                    // SAFETY: the caller keeps the conditions of `# Safety`, and `Heap` is the type that `init` created.
                    unsafe { shared::bound::<Heap>(&PROOF, heap.cast(), operation, entries) }
                }
            }
        )*
    };
}
pub(crate) use shared_heaps;

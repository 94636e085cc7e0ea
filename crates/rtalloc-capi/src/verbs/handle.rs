//! The functions of a heap of objects that move.

/// Exports the functions of the handle allocators in a table, as `region_heaps!` does; `contiguous` if each object is
/// one piece of memory.
macro_rules! handle_heaps {
    ($(
        $(#[doc = $about:literal])*
        $opaque:ident, $name:ident: $heap:ty, $allocate:literal $deallocate:literal $(, $ability:ident)?;
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
                    let contract = <Heap as HandleAllocator<'static>>::CONTRACT;
                    assert!(same(contract.allocate.notation(), $allocate));
                    assert!(same(contract.deallocate.notation(), $deallocate));
                };

                /// Creates a heap in the `bytes` bytes at `region`, which may have any alignment. Returns NULL on
                /// failure; `rt_HEAP_init_with` returns the reason.
                ///
                /// # Safety
                /// The region is writable, and only the heap accesses it for as long as the heap is in use.
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_init"))]
                pub unsafe extern "C" fn init(region: *mut c_void, bytes: usize) -> *mut $opaque {
                    // SAFETY: the caller gives the region to the heap alone.
                    unsafe { handle::init::<Heap>(region, bytes) }.cast()
                }

                /// Creates a heap in the `bytes` bytes at `region` and stores it at `heap`, or NULL on failure. A
                /// `config` of NULL selects the default configuration.
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH,
                /// RT_ERROR_CONFIGURATION. The region is then unchanged.
                ///
                /// # Safety
                /// As `rt_HEAP_init`. Pointers in the configuration are NULL or valid.
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_init_with"))]
                pub unsafe extern "C" fn init_with(
                    region: *mut c_void,
                    bytes: usize,
                    config: *const rt_compact_fit_config,
                    heap: *mut *mut $opaque,
                ) -> rt_error {
                    // SAFETY: the caller gives the region to the heap alone; `config` and `heap` are NULL or valid.
                    unsafe { handle::init_with::<Heap>(region, bytes, config, heap.cast()) }
                }

                forwarded! { $name, handle:
                    /// Allocates an object of `size` bytes and stores its handle at `handle`, which a refusal leaves
                    /// unchanged.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL, RT_ERROR_ZERO_SIZE, RT_ERROR_TOO_LARGE, RT_ERROR_EXHAUSTED, RT_ERROR_PENDING.
                    ///
                    /// # Safety
                    /// `heap` is NULL or came from `rt_HEAP_init`, and nothing else uses it during the call.
                    ///
                    /// # Time
                    /// As listed for the heap.
                    fn allocate(heap: *mut $opaque, size: usize, handle: *mut rt_handle) -> rt_error;

                    /// Frees an object. May move others.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL, RT_ERROR_STALE_HANDLE, RT_ERROR_FOREIGN_HANDLE.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// As listed for the heap.
                    fn free(heap: *mut $opaque, handle: rt_handle) -> rt_error;

                    /// Resizes an object to `size` bytes. Its handle stays valid, and the content is kept up to the
                    /// smaller size. May move this object and others. Shrinking never fails.
                    ///
                    /// # Errors
                    /// As `rt_HEAP_allocate` and `rt_HEAP_free`.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// O(1) within a size class, otherwise that of an allocate, a free and a copy.
                    fn resize(heap: *mut $opaque, handle: rt_handle, size: usize) -> rt_error;

                    /// Stores the requested bytes of an object at `size`.
                    ///
                    /// # Errors
                    /// As `rt_HEAP_free`.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// O(1).
                    fn size(heap: *const $opaque, handle: rt_handle, size: *mut usize) -> rt_error;

                    /// Stores the address of the byte `offset` of an object at `place`, and the number of contiguous
                    /// bytes from there at `piece`, which may be NULL. Both are valid until the next operation that may
                    /// move objects.
                    ///
                    /// # Errors
                    /// As `rt_HEAP_free`, and RT_ERROR_OUT_OF_RANGE.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// O(1).
                    fn locate(
                        heap: *mut $opaque,
                        handle: rt_handle,
                        offset: usize,
                        place: *mut *mut c_void,
                        piece: *mut usize,
                    ) -> rt_error;

                    /// Copies `bytes` bytes of an object, starting at `offset`, to `buffer`.
                    ///
                    /// # Errors
                    /// As `rt_HEAP_locate`. Nothing is then copied.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`. The buffer has room for the bytes and is outside the heap's region.
                    ///
                    /// # Time
                    /// O(bytes).
                    fn read(
                        heap: *const $opaque,
                        handle: rt_handle,
                        offset: usize,
                        buffer: *mut c_void,
                        bytes: usize,
                    ) -> rt_error;

                    /// Copies `bytes` bytes from `buffer` into an object, starting at `offset`.
                    ///
                    /// # Errors
                    /// As `rt_HEAP_locate`. Nothing is then copied.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`. The buffer has that many bytes and is outside the heap's region.
                    ///
                    /// # Time
                    /// O(bytes).
                    fn write(
                        heap: *mut $opaque,
                        handle: rt_handle,
                        offset: usize,
                        buffer: *const c_void,
                        bytes: usize,
                    ) -> rt_error;

                    /// Returns the pending compaction: the bytes still to be moved. 0 unless the heap compacts
                    /// incrementally.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// O(1).
                    fn pending_bytes(heap: *const $opaque) -> usize;

                    /// Does pending compaction in idle time: moves at most `budget` bytes and returns the bytes moved.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// O(budget).
                    fn step(heap: *mut $opaque, budget: usize) -> usize;

                    /// Returns the size of a request that is guaranteed to succeed now. 0 if none is, and for NULL.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// O(1).
                    fn largest(heap: *const $opaque) -> usize;

                    /// Stores the heap's statistics at `stats`.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// O(1).
                    fn stats(heap: *const $opaque, stats: *mut rt_stats) -> rt_error;

                    /// Stores the bytes currently lost to each kind of fragmentation at `fragmentation`.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// O(pages and objects).
                    fn fragmentation(heap: *const $opaque, fragmentation: *mut rt_fragmentation) -> rt_error;

                    /// Passes every live object to the visitor, page by page.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`. The visitor does not modify the heap.
                    ///
                    /// # Time
                    /// O(pages and objects).
                    fn walk(heap: *const $opaque, visitor: rt_object_visitor, context: *mut c_void) -> rt_error;

                    /// Verifies every invariant of the heap. `where` may be NULL.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL. RT_ERROR_CORRUPTION, with the first broken invariant at `where`.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_allocate`.
                    ///
                    /// # Time
                    /// O(pages and objects).
                    fn check(heap: *const $opaque, r#where: *mut rt_corruption) -> rt_error;
                }

                /// Returns the contract of the allocator: its properties and guarantees.
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_contract"))]
                pub extern "C" fn contract() -> *const rt_contract {
                    const FACTS: Contract = <Heap as HandleAllocator<'static>>::CONTRACT;
                    static CONTRACT: rt_contract =
                        rt_contract::of(FACTS, [c_text!(FACTS.name), c_text!(FACTS.source), c_text!(FACTS.policy)]);
                    &raw const CONTRACT
                }

                /// As `rt_HEAP_bound` of a region heap. RT_OPERATION_MALLOC is `rt_HEAP_allocate`.
                ///
                /// # Time
                /// O(bytes of the operation's code), which is compared at each call.
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_bound"))]
                pub extern "C" fn bound(operation: MaybeUninit<rt_operation>) -> u64 {
                    const PROOF: Proof = Proof::of(stringify!($name));
                    PROOF.bound(operation, [allocate as *const u8, null(), free as *const u8, null()], Iterations::ONE)
                }

                $(get_verb!($ability $name $opaque);)?
            }
        )*
    };
}

/// Exports the function of allocators whose objects are contiguous.
macro_rules! get_verb {
    (contiguous $name:ident $opaque:ident) => {
        forwarded! { $name, handle:
            /// Stores the address of an object at `place`, valid until the next operation that may move objects.
            ///
            /// # Errors
            /// As `rt_HEAP_free`.
            ///
            /// # Safety
            /// As `rt_HEAP_allocate`.
            ///
            /// # Time
            /// O(1).
            fn get(heap: *mut $opaque, handle: rt_handle, place: *mut *mut c_void) -> rt_error;
        }
    };
}
pub(crate) use {get_verb, handle_heaps};

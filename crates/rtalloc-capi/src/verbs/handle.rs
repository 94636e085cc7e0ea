//! The verbs of an allocator of objects that move, written once.

/// Writes C's verbs of the allocators of handles in a table, as `region_heaps!` does; `contiguous` where an object is one piece of
/// memory.
macro_rules! handle_heaps {
    ($(
        $(#[doc = $about:literal])*
        $opaque:ident, $name:ident: $heap:ty, $allocate:literal $deallocate:literal $(, $ability:ident)?;
    )*) => {
        $(
            pub use $name::$opaque;

            #[doc = concat!(" The verbs of `", stringify!($opaque), "`.")]
            pub mod $name {
                use super::*;

                $(#[doc = $about])*
                ///
                /// The heap is in the region it was made in; a pointer to it is all there is besides.
                #[derive(Debug)]
                pub struct $opaque(());

                type Heap = $heap;

                const _: () = {
                    let contract = <Heap as HandleAllocator<'static>>::CONTRACT;
                    assert!(same(contract.allocate.notation(), $allocate));
                    assert!(same(contract.deallocate.notation(), $deallocate));
                };

                /// Makes a heap in `bytes` bytes at `region`, which may have any alignment. NULL if they do not do;
                #[doc = concat!(" `", stringify!($opaque), "_init_with` tells why.")]
                ///
                /// # Safety
                /// The region is writable and the heap's alone until nobody uses the heap any more.
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_init"))]
                pub unsafe extern "C" fn init(region: *mut c_void, bytes: usize) -> *mut $opaque {
                    // SAFETY: the caller's promise, here and below.
                    unsafe { handle::init::<Heap>(region, bytes) }.cast()
                }

                /// Makes a heap in `bytes` bytes at `region` with a configuration, or the default one for NULL, and stores it at
                /// `heap`; NULL where it cannot be made.
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH, RT_ERROR_CONFIGURATION; the
                /// region is then untouched.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_init`; what the configuration leads to is readable.")]
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
                    // SAFETY: as above.
                    unsafe { handle::init_with::<Heap>(region, bytes, config, heap.cast()) }
                }

                /// Allocates an object of `size` bytes and stores its handle at `handle`, which a refusal leaves as it was.
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_ZERO_SIZE, RT_ERROR_TOO_LARGE, RT_ERROR_EXHAUSTED, RT_ERROR_PENDING.
                ///
                /// # Safety
                #[doc = concat!(" `heap` is NULL or came from `", stringify!($opaque), "_init`, and nobody else uses it meanwhile.")]
                ///
                /// # Time
                #[doc = concat!(" ", $allocate, ".")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_allocate"))]
                pub unsafe extern "C" fn allocate(heap: *mut $opaque, size: usize, handle: *mut rt_handle) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::allocate::<Heap>(heap.cast(), size, handle) }
                }

                /// Frees an object. May move others.
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_STALE_HANDLE, RT_ERROR_FOREIGN_HANDLE.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                #[doc = concat!(" ", $deallocate, ".")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_free"))]
                pub unsafe extern "C" fn free(heap: *mut $opaque, handle: rt_handle) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::free::<Heap>(heap.cast(), handle) }
                }

                /// Changes the size of an object to `size` bytes; its handle stays valid, and the content survives up to the smaller
                /// size. May move this object and others. Shrinking never fails.
                ///
                /// # Errors
                #[doc = concat!(" As `", stringify!($opaque), "_allocate` and `", stringify!($opaque), "_free`.")]
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                /// O(1) within a size class, else of an allocate, a free and a copy.
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_resize"))]
                pub unsafe extern "C" fn resize(heap: *mut $opaque, handle: rt_handle, size: usize) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::resize::<Heap>(heap.cast(), handle, size) }
                }

                /// Stores at `size` how many bytes were requested for an object.
                ///
                /// # Errors
                #[doc = concat!(" As `", stringify!($opaque), "_free`.")]
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_size"))]
                pub unsafe extern "C" fn size(heap: *const $opaque, handle: rt_handle, size: *mut usize) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::size::<Heap>(heap.cast(), handle, size) }
                }

                /// Stores at `place` where the byte `offset` of an object is, until the next operation that may move objects, and at
                /// `piece`, which may be NULL, how many bytes from there on are in one piece.
                ///
                /// # Errors
                #[doc = concat!(" As `", stringify!($opaque), "_free`, and RT_ERROR_OUT_OF_RANGE.")]
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_locate"))]
                pub unsafe extern "C" fn locate(
                    heap: *mut $opaque,
                    handle: rt_handle,
                    offset: usize,
                    place: *mut *mut c_void,
                    piece: *mut usize,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::locate::<Heap>(heap.cast(), handle, offset, place, piece) }
                }

                $(get_verb!($ability $name $opaque);)?

                /// Copies `bytes` bytes of an object from `offset` on to `buffer`.
                ///
                /// # Errors
                #[doc = concat!(" As `", stringify!($opaque), "_locate`; nothing was copied.")]
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`; the buffer has room, and is none of the heap's.")]
                ///
                /// # Time
                /// O(bytes).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_read"))]
                pub unsafe extern "C" fn read(
                    heap: *const $opaque,
                    handle: rt_handle,
                    offset: usize,
                    buffer: *mut c_void,
                    bytes: usize,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::read::<Heap>(heap.cast(), handle, offset, buffer, bytes) }
                }

                /// Copies `bytes` bytes from `buffer` into an object, from `offset` on.
                ///
                /// # Errors
                #[doc = concat!(" As `", stringify!($opaque), "_locate`; nothing was copied.")]
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`; the buffer is that long, and none of the heap's.")]
                ///
                /// # Time
                /// O(bytes).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_write"))]
                pub unsafe extern "C" fn write(
                    heap: *mut $opaque,
                    handle: rt_handle,
                    offset: usize,
                    buffer: *const c_void,
                    bytes: usize,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::write::<Heap>(heap.cast(), handle, offset, buffer, bytes) }
                }

                /// Bytes that compaction owes: what has still to be moved. 0 unless the heap compacts in steps.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_owed"))]
                pub unsafe extern "C" fn owed(heap: *const $opaque) -> usize {
                    // SAFETY: as above.
                    unsafe { handle::owed::<Heap>(heap.cast()) }
                }

                /// Compacts in idle time: moves at most `budget` bytes of what is owed, and says how many.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                /// O(budget).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_step"))]
                pub unsafe extern "C" fn step(heap: *mut $opaque, budget: usize) -> usize {
                    // SAFETY: as above.
                    unsafe { handle::step::<Heap>(heap.cast(), budget) }
                }

                /// A promise: a request of this many bytes succeeds now. 0 when none does, and for NULL.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_largest"))]
                pub unsafe extern "C" fn largest(heap: *const $opaque) -> usize {
                    // SAFETY: as above.
                    unsafe { handle::largest::<Heap>(heap.cast()) }
                }

                /// Stores the heap's tallies at `stats`.
                ///
                /// # Errors
                /// RT_ERROR_NULL.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_stats"))]
                pub unsafe extern "C" fn stats(heap: *const $opaque, stats: *mut rt_stats) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::stats::<Heap>(heap.cast(), stats) }
                }

                /// Stores at `fragmentation` the bytes lost to each kind of fragmentation now.
                ///
                /// # Errors
                /// RT_ERROR_NULL.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                /// O(pages and objects).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_fragmentation"))]
                pub unsafe extern "C" fn fragmentation(
                    heap: *const $opaque,
                    fragmentation: *mut rt_fragmentation,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::fragmentation::<Heap>(heap.cast(), fragmentation) }
                }

                /// Shows every live object, page by page.
                ///
                /// # Errors
                /// RT_ERROR_NULL.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`; the visitor changes nothing of the heap.")]
                ///
                /// # Time
                /// O(pages and objects).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_walk"))]
                pub unsafe extern "C" fn walk(
                    heap: *const $opaque,
                    visitor: rt_object_visitor,
                    context: *mut c_void,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::walk::<Heap>(heap.cast(), visitor, context) }
                }

                /// Verifies every invariant of the heap; `where` may be NULL.
                ///
                /// # Errors
                /// RT_ERROR_NULL; RT_ERROR_CORRUPTION with the first broken invariant at `where`.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
                ///
                /// # Time
                /// O(pages and objects).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_check"))]
                pub unsafe extern "C" fn check(heap: *const $opaque, r#where: *mut rt_corruption) -> rt_error {
                    // SAFETY: as above.
                    unsafe { handle::check::<Heap>(heap.cast(), r#where) }
                }

                /// What the allocator is and promises.
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

                /// Most machine instructions that a call of an operation of this very library executes, where `malloc` is the allocate of
                /// this allocator, proved from its machine code; 0 where nothing was proved.
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_bound"))]
                pub extern "C" fn bound(operation: MaybeUninit<rt_operation>) -> u64 {
                    static BOUNDS: Bounds = Bounds::of(stringify!($name));
                    BOUNDS.get(operation)
                }
            }
        )*
    };
}

/// The verb of allocators whose objects are in one piece.
macro_rules! get_verb {
    (contiguous $name:ident $opaque:ident) => {
        /// Stores at `place` where an object is, all of it, until the next operation that may move objects.
        ///
        /// # Errors
        #[doc = concat!(" As `", stringify!($opaque), "_free`.")]
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_allocate`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_get"))]
        pub unsafe extern "C" fn get(heap: *mut $opaque, handle: rt_handle, place: *mut *mut c_void) -> rt_error {
            // SAFETY: the caller's promise.
            unsafe { handle::get::<Heap>(heap.cast(), handle, place) }
        }
    };
}
pub(crate) use {get_verb, handle_heaps};

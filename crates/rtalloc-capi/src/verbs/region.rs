//! The functions of a heap that one thread uses at a time.

/// Exports the functions of the allocators in a table.
///
/// Each line has the summary of the heap, the name of its type, the part of the functions' names, and the allocator.
/// Heaps with a configuration of their own have the cost classes of allocate, free and reallocate, which are compared
/// with the allocator's contract, and the type of the configuration. Then follow its further groups of functions:
/// `regions` if further regions can be added, `limits` if the heap has a region for limits, and the adapters for
/// debugging, each with the path from the heap to the adapter.
macro_rules! region_heaps {
    ($(
        $(#[doc = $about:literal])*
        $opaque:ident, $name:ident: $heap:ty
            $(, $allocate:literal $deallocate:literal $reallocate:literal by $config:ident)?
            $(, $ability:ident $([$($reach:tt)*])?)*;
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

                $(const _: () = {
                    let contract = <Heap as RegionAllocator<'static>>::CONTRACT;
                    assert!(same(contract.allocate.notation(), $allocate));
                    assert!(same(contract.deallocate.notation(), $deallocate));
                    assert!(same(contract.reallocate.notation(), $reallocate));
                };)?

                /// Creates a heap in the `bytes` bytes at `region`, which may have any alignment. Returns NULL on
                /// failure; `rt_HEAP_init_with` returns the reason.
                ///
                /// # Safety
                /// The region is writable, and only the heap accesses it for as long as the heap is in use.
                ///
                /// # Time
                /// O(control structure).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_init"))]
                pub unsafe extern "C" fn init(region: *mut c_void, bytes: usize) -> *mut $opaque {
                    // SAFETY: the caller gives the region to the heap alone.
                    unsafe { region::init::<Heap>(region, bytes) }.cast()
                }

                /// Creates a heap in the `bytes` bytes at `region` and stores it at `heap`, or NULL on failure. A
                /// `config` of NULL selects the default configuration.
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH,
                /// RT_ERROR_LARGER_THAN_PLANNED, RT_ERROR_CONFIGURATION. The region is then unchanged.
                ///
                /// # Safety
                /// As `rt_HEAP_init`. Pointers in the configuration are NULL or valid.
                ///
                /// # Time
                /// O(control structure).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_init_with"))]
                pub unsafe extern "C" fn init_with(
                    region: *mut c_void,
                    bytes: usize,
                    config: *const config_of!($($config)?),
                    heap: *mut *mut $opaque,
                ) -> rt_error {
                    // SAFETY: the caller gives the region to the heap alone; `config` and `heap` are NULL or valid.
                    unsafe { region::init_with::<Heap, _>(region, bytes, config, heap.cast()) }
                }

                forwarded! { $name, region:
                    /// Allocates `size` bytes, aligned for every type of C, or to the contract's `alignment_bytes` if
                    /// that is less. Returns NULL if the request is refused, which changes nothing. 0 bytes are always
                    /// refused.
                    ///
                    /// # Safety
                    /// `heap` is NULL or came from `rt_HEAP_init`, and nothing else uses it during the call.
                    ///
                    /// # Time
                    /// As listed for the heap.
                    fn malloc(heap: *mut $opaque, size: usize) -> *mut c_void;

                    /// Allocates `count` times `size` bytes and sets them to zero. Returns NULL if the request is
                    /// refused. A product that overflows is refused.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// As `rt_HEAP_malloc`, plus O(bytes) to clear them.
                    fn calloc(heap: *mut $opaque, count: usize, size: usize) -> *mut c_void;

                    /// Allocates `size` bytes at a multiple of `align` bytes. `size` need not be a multiple of `align`.
                    /// Returns NULL if the request is refused.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// As `rt_HEAP_malloc`.
                    fn aligned_alloc(heap: *mut $opaque, align: usize, size: usize) -> *mut c_void;

                    /// Resizes a block to `size` bytes, in place or by moving it; the content is kept up to the smaller
                    /// size. Returns NULL if the request is refused: the block is then still live and unchanged. If
                    /// `block` is NULL, allocates a new block. 0 bytes are refused.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc` and `rt_HEAP_free`.
                    ///
                    /// # Time
                    /// As listed for the heap, plus a copy if the block moves.
                    fn realloc(heap: *mut $opaque, block: *mut c_void, size: usize) -> *mut c_void;

                    /// Frees a block. NULL is ignored. A pointer that, by the tags, is not a live block of the heap is
                    /// reported to the misuse hook and otherwise ignored.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`. `block` is NULL or a live block of this heap that is no longer in use.
                    ///
                    /// # Time
                    /// As listed for the heap.
                    fn free(heap: *mut $opaque, block: *mut c_void);

                    /// As `rt_HEAP_aligned_alloc`, but returns the reason for a refusal. Stores the block at `block`,
                    /// which a refusal leaves unchanged.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL, RT_ERROR_ZERO_SIZE, RT_ERROR_ALIGNMENT, RT_ERROR_TOO_LARGE, RT_ERROR_EXHAUSTED.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// As `rt_HEAP_malloc`.
                    fn allocate(heap: *mut $opaque, align: usize, size: usize, block: *mut *mut c_void) -> rt_error;

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
                    fn reallocate(heap: *mut $opaque, block: *mut *mut c_void, align: usize, size: usize) -> rt_error;

                    /// Resizes a block to `size` bytes without moving it: it shrinks, or grows into its usable bytes or
                    /// free memory after it. A size up to the usable one always fits. A refusal changes nothing. After
                    /// RT_ERROR_NOT_IN_PLACE, also for a size that the heap never serves, allocate, copy and free.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL, also for a `block` of NULL. RT_ERROR_ZERO_SIZE. RT_ERROR_NOT_IN_PLACE, which is
                    /// not counted as a failure. RT_ERROR_MISUSED. RT_ERROR_QUOTA and RT_ERROR_INJECTED from heaps for
                    /// debugging.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc` and `rt_HEAP_free`.
                    ///
                    /// # Time
                    /// As `rt_HEAP_realloc`, without a copy.
                    fn realloc_in_place(heap: *mut $opaque, block: *mut c_void, size: usize) -> rt_error;

                    /// Returns the usable bytes at `block`, at least as many as were requested; 0 for NULL. Trusts the
                    /// block's tag: does not check that the block is live.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`. `block` is NULL or a live block of this heap.
                    ///
                    /// # Time
                    /// O(1).
                    fn usable_size(heap: *const $opaque, block: *const c_void) -> usize;

                    /// Returns the size of a request that is guaranteed to succeed now. 0 if none is, and for NULL.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// O(1) if malloc is O(1), otherwise at most O(free blocks).
                    fn largest(heap: *const $opaque) -> usize;

                    /// Stores the heap's statistics at `stats`.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL. RT_ERROR_NO_STATS if the heap keeps no statistics; then every field except
                    /// `largest_free_bytes` is 0.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// As `rt_HEAP_largest`.
                    fn stats(heap: *const $opaque, stats: *mut rt_stats) -> rt_error;

                    /// Passes every block, free or live, to the visitor, in address order within each region.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`. The visitor does not modify the heap.
                    ///
                    /// # Time
                    /// O(blocks).
                    fn walk(heap: *const $opaque, visitor: rt_visitor, context: *mut c_void) -> rt_error;

                    /// Verifies every invariant of the heap. `where` may be NULL.
                    ///
                    /// # Errors
                    /// RT_ERROR_NULL. RT_ERROR_CORRUPTION, with the first broken invariant at `where`.
                    ///
                    /// # Safety
                    /// As `rt_HEAP_malloc`.
                    ///
                    /// # Time
                    /// O(blocks).
                    fn check(heap: *const $opaque, r#where: *mut rt_corruption) -> rt_error;
                }

                /// Returns the contract of the allocator: its properties and guarantees.
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_contract"))]
                pub extern "C" fn contract() -> *const rt_contract {
                    const FACTS: Contract = <Heap as RegionAllocator<'static>>::CONTRACT;
                    static CONTRACT: rt_contract =
                        rt_contract::of(FACTS, [c_text!(FACTS.name), c_text!(FACTS.source), c_text!(FACTS.policy)]);
                    &raw const CONTRACT
                }

                /// Returns the most machine instructions that a call of an operation executes if it reports no misuse,
                /// proved from the machine code of the operation and of everything it calls. 0 means unknown: the code
                /// in memory is not, byte for byte, the code of the proof, as in any build other than that of `make`
                /// with the compiler of the proof; or there is no proof, as for operations that are not O(1) and on
                /// systems other than x86-64 Linux.
                ///
                /// # Time
                /// O(bytes of the operation's code), which is compared at each call.
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_bound"))]
                pub extern "C" fn bound(operation: MaybeUninit<rt_operation>) -> u64 {
                    const PROOF: Proof = Proof::of(stringify!($name));
                    let entries = [malloc as *const u8, aligned_alloc as _, free as _, realloc_in_place as _];
                    PROOF.bound(operation, entries, Iterations::ONE)
                }

                $(more_verbs!($ability [$($($reach)*)?] $name $opaque);)*
            }
        )*
    };
}

/// Exports a further group of functions.
macro_rules! more_verbs {
    // A property for the test suite, without functions.
    (serves_again [] $name:ident $opaque:ident) => {};
    (regions [] $name:ident $opaque:ident) => {
        forwarded! { $name, region:
            /// Adds a region to the heap; its memory becomes one free block. Stores the region's identifier at `added`,
            /// which may be NULL. Blocks of different regions never coalesce.
            ///
            /// # Errors
            /// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH,
            /// RT_ERROR_LARGER_THAN_PLANNED. RT_ERROR_OVERLAP if it overlaps a region of the heap. Heap and region are
            /// then unchanged.
            ///
            /// # Safety
            /// As `rt_HEAP_malloc` for the heap and as `rt_HEAP_init` for the region.
            ///
            /// # Time
            /// O(regions), plus the time of `rt_HEAP_free`.
            fn add_region(heap: *mut $opaque, region: *mut c_void, bytes: usize, added: *mut rt_region) -> rt_error;

            /// Removes an added region: its memory belongs to the caller again.
            ///
            /// # Errors
            /// RT_ERROR_NULL. RT_ERROR_IN_USE if blocks of it are live. RT_ERROR_NOT_REMOVABLE if the heap has no such
            /// region.
            ///
            /// # Safety
            /// As `rt_HEAP_malloc`.
            ///
            /// # Time
            /// O(regions).
            fn remove_region(heap: *mut $opaque, region: rt_region) -> rt_error;
        }
    };
    (limits [] $name:ident $opaque:ident) => {
        /// Returns the bytes of a region, wherever it starts, in which no request within the `count` limits is ever
        /// refused, whatever the order of requests and frees; SIZE_MAX if no region suffices, if a limit is invalid, or
        /// if there are more than RT_MOST_LIMITS. A larger region is as good. Alignments must be at most the contract's
        /// `alignment_bytes`, and blocks must not be resized: allocate, copy and free instead. docs/guarantees/ of
        /// rtalloc has theorem and proof.
        ///
        /// # Safety
        /// `limits` is NULL or has `count` limits.
        ///
        /// # Time
        /// O(count), for each size of a block.
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_region_bytes_for"))]
        pub unsafe extern "C" fn region_bytes_for(limits: *const rt_limit, count: usize) -> usize {
            // SAFETY: the limits are null or an array of this length.
            unsafe { region::region_bytes_for(limits, count, Heap::region_bytes_for) }
        }
    };
    (limits_for_sizes [] $name:ident $opaque:ident) => {
        /// Returns the bytes of a region, wherever it starts, in which a heap of these pools never refuses a request
        /// within the `count` limits, whatever the order of requests and frees; SIZE_MAX if no region suffices, if a
        /// request is larger than the largest pool's, if a limit or the configuration is invalid, or if there are more
        /// than RT_MOST_LIMITS. A larger region is as good. Alignments must be at most the contract's
        /// `alignment_bytes`, and blocks must not be resized: allocate, copy and free instead. docs/guarantees/ of
        /// rtalloc has theorem and proof.
        ///
        /// # Safety
        /// `limits` is NULL or has `count` limits; `config` is NULL or valid.
        ///
        /// # Time
        /// O(count), for each pool.
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_region_bytes_for"))]
        pub unsafe extern "C" fn region_bytes_for(
            config: *const rt_pools_config,
            limits: *const rt_limit,
            count: usize,
        ) -> usize {
            // SAFETY: the configuration is null or readable.
            let Some(sizes) = (unsafe { region::configuration::<Heap, _>(config) }) else { return usize::MAX };
            // SAFETY: the limits are null or an array of this length.
            unsafe { region::region_bytes_for(limits, count, |limits| Heap::region_bytes_for(sizes, limits)) }
        }
    };
    ($adapter:ident [$($reach:tt)*] $name:ident $opaque:ident) => {
        debug_verbs!($adapter [$($reach)*] $name $opaque);
    };
}

/// The type of a heap's configuration in C.
macro_rules! config_of {
    () => {
        rt_heap_config
    };
    ($config:ident) => {
        $config
    };
}
pub(crate) use {config_of, more_verbs, region_heaps};

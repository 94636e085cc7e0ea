//! The verbs of an allocator in one hand, written once.

/// Writes C's verbs of the allocators in a table.
///
/// Each line is the documentation of the opaque type, its name, the part of the verbs' names, the allocator, and the cost classes
/// of allocate, free and reallocate, which are compared with its contract; then what it is made with, if not with `rt_heap_config`, and
/// what else it has verbs for: `regions` where further regions are taken, and the adapters for debugging, with the way to each.
macro_rules! region_heaps {
    ($(
        $(#[doc = $about:literal])*
        $opaque:ident, $name:ident: $heap:ty, $allocate:literal $deallocate:literal $reallocate:literal
            $(by $config:ident)? $(, $ability:ident $([$($reach:tt)*])?)*;
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
                    let contract = <Heap as RegionAllocator<'static>>::CONTRACT;
                    assert!(same(contract.allocate.notation(), $allocate));
                    assert!(same(contract.deallocate.notation(), $deallocate));
                    assert!(same(contract.reallocate.notation(), $reallocate));
                };

                /// Makes a heap in `bytes` bytes at `region`, which may have any alignment. NULL if they do not do;
                #[doc = concat!(" `", stringify!($opaque), "_init_with` tells why.")]
                ///
                /// # Safety
                /// The region is writable and the heap's alone until nobody uses the heap any more.
                ///
                /// # Time
                /// O(control structure).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_init"))]
                pub unsafe extern "C" fn init(region: *mut c_void, bytes: usize) -> *mut $opaque {
                    // SAFETY: the caller's promise, here and below.
                    unsafe { region::init::<Heap>(region, bytes) }.cast()
                }

                /// Makes a heap in `bytes` bytes at `region` with a configuration, or the default one for NULL, and stores it at
                /// `heap`; NULL where it cannot be made.
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH, RT_ERROR_LARGER_THAN_PLANNED,
                /// RT_ERROR_CONFIGURATION; the region is then untouched.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_init`; what the configuration leads to is readable.")]
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
                    // SAFETY: as above.
                    unsafe { region::init_with::<Heap, _>(region, bytes, config, heap.cast()) }
                }

                /// Allocates `size` bytes, aligned as every object of C needs it, or to the contract's `alignment_bytes` where that
                /// is less. NULL if the request is refused, which changes nothing; 0 bytes always are.
                ///
                /// # Safety
                #[doc = concat!(" `heap` is NULL or came from `", stringify!($opaque), "_init`, and nobody else uses it meanwhile.")]
                ///
                /// # Time
                #[doc = concat!(" ", $allocate, ".")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_malloc"))]
                pub unsafe extern "C" fn malloc(heap: *mut $opaque, size: usize) -> *mut c_void {
                    // SAFETY: as above.
                    unsafe { region::malloc::<Heap>(heap.cast(), size) }
                }

                /// Allocates `count` times `size` bytes that are zero. NULL if the request is refused, as one is whose product
                /// overflows.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
                ///
                /// # Time
                #[doc = concat!(" ", $allocate, ", and O(bytes) to clear them.")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_calloc"))]
                pub unsafe extern "C" fn calloc(heap: *mut $opaque, count: usize, size: usize) -> *mut c_void {
                    // SAFETY: as above.
                    unsafe { region::calloc::<Heap>(heap.cast(), count, size) }
                }

                /// Allocates `size` bytes, which need be no multiple of it, at a multiple of `align` bytes. NULL if the request is
                /// refused.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
                ///
                /// # Time
                #[doc = concat!(" ", $allocate, ".")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_aligned_alloc"))]
                pub unsafe extern "C" fn aligned_alloc(heap: *mut $opaque, align: usize, size: usize) -> *mut c_void {
                    // SAFETY: as above.
                    unsafe { region::aligned_alloc::<Heap>(heap.cast(), align, size) }
                }

                /// Changes the size of a block to `size` bytes, in place or by moving it; the content survives up to the smaller size.
                /// NULL if the request is refused: the block is then live and as it was. A block of NULL is allocated; 0 bytes
                /// are refused.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc` and `", stringify!($opaque), "_free`.")]
                ///
                /// # Time
                #[doc = concat!(" ", $reallocate, ", and a copy where the block moves.")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_realloc"))]
                pub unsafe extern "C" fn realloc(
                    heap: *mut $opaque,
                    block: *mut c_void,
                    size: usize,
                ) -> *mut c_void {
                    // SAFETY: as above.
                    unsafe { region::realloc::<Heap>(heap.cast(), block, size) }
                }

                /// Gives a block back; NULL is ignored. A pointer that the tags show to be no live block of the heap is reported to
                /// the misuse hook and otherwise ignored.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`; `block` is NULL or a live block of this heap, which nobody uses any more.")]
                ///
                /// # Time
                #[doc = concat!(" ", $deallocate, ".")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_free"))]
                pub unsafe extern "C" fn free(heap: *mut $opaque, block: *mut c_void) {
                    // SAFETY: as above.
                    unsafe { region::free::<Heap>(heap.cast(), block) }
                }

                #[doc = concat!(" As `", stringify!($opaque), "_aligned_alloc`, telling why not: stores the block at `block`, which a refusal leaves as it was.")]
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_ZERO_SIZE, RT_ERROR_ALIGNMENT, RT_ERROR_TOO_LARGE, RT_ERROR_EXHAUSTED.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
                ///
                /// # Time
                #[doc = concat!(" ", $allocate, ".")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_allocate"))]
                pub unsafe extern "C" fn allocate(
                    heap: *mut $opaque,
                    align: usize,
                    size: usize,
                    block: *mut *mut c_void,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { region::allocate::<Heap>(heap.cast(), align, size, block) }
                }

                #[doc = concat!(" As `", stringify!($opaque), "_realloc` of the block at `block`, at a multiple of `align` bytes, telling why not: a refusal leaves it as it was.")]
                ///
                /// # Errors
                #[doc = concat!(" As `", stringify!($opaque), "_allocate`, and RT_ERROR_MISUSED.")]
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_realloc`.")]
                ///
                /// # Time
                #[doc = concat!(" ", $reallocate, ", and a copy where the block moves.")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_reallocate"))]
                pub unsafe extern "C" fn reallocate(
                    heap: *mut $opaque,
                    block: *mut *mut c_void,
                    align: usize,
                    size: usize,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { region::reallocate::<Heap>(heap.cast(), block, align, size) }
                }

                /// Bytes that may be used at `block`, at least what was requested; 0 for NULL. No test tells here that `block` is live: its tag
                /// is believed.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`; `block` is NULL or live in this heap.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_usable_size"))]
                pub unsafe extern "C" fn usable_size(heap: *const $opaque, block: *const c_void) -> usize {
                    // SAFETY: as above.
                    unsafe { region::usable_size::<Heap>(heap.cast(), block) }
                }

                /// A promise: a request of this many bytes succeeds now. 0 when none does, and for NULL.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
                ///
                /// # Time
                /// O(1) where malloc is; at most O(free blocks).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_largest"))]
                pub unsafe extern "C" fn largest(heap: *const $opaque) -> usize {
                    // SAFETY: as above.
                    unsafe { region::largest::<Heap>(heap.cast()) }
                }

                /// Stores the heap's tallies at `stats`.
                ///
                /// # Errors
                /// RT_ERROR_NULL; RT_ERROR_NO_TALLIES where the heap keeps none, and all but `largest_free_bytes` is 0.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
                ///
                /// # Time
                #[doc = concat!(" As `", stringify!($opaque), "_largest`.")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_stats"))]
                pub unsafe extern "C" fn stats(heap: *const $opaque, stats: *mut rt_stats) -> rt_error {
                    // SAFETY: as above.
                    unsafe { region::stats::<Heap>(heap.cast(), stats) }
                }

                /// Shows every block, free and live, in the order of addresses within each region.
                ///
                /// # Errors
                /// RT_ERROR_NULL.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`; the visitor changes nothing of the heap.")]
                ///
                /// # Time
                /// O(blocks).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_walk"))]
                pub unsafe extern "C" fn walk(
                    heap: *const $opaque,
                    visitor: rt_visitor,
                    context: *mut c_void,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { region::walk::<Heap>(heap.cast(), visitor, context) }
                }

                /// Verifies every invariant of the heap; `where` may be NULL.
                ///
                /// # Errors
                /// RT_ERROR_NULL; RT_ERROR_CORRUPTION with the first broken invariant at `where`.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
                ///
                /// # Time
                /// O(blocks).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_check"))]
                pub unsafe extern "C" fn check(heap: *const $opaque, r#where: *mut rt_corruption) -> rt_error {
                    // SAFETY: as above.
                    unsafe { region::check::<Heap>(heap.cast(), r#where) }
                }

                /// What the allocator is and promises.
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

                /// Most machine instructions that a call of an operation of this very library executes if it reports no misuse, proved from
                /// its machine code; 0 where nothing was proved: of operations that are not O(1), on other processors than
                /// x86-64, and from other compilers than the one whose code was looked at.
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_bound"))]
                pub extern "C" fn bound(operation: MaybeUninit<rt_operation>) -> u64 {
                    static BOUNDS: Bounds = Bounds::of(stringify!($name));
                    BOUNDS.get(operation)
                }

                $(more_verbs!($ability [$($($reach)*)?] $name $opaque $deallocate);)*
            }
        )*
    };
}

/// Verbs of some allocators.
macro_rules! more_verbs {
    (regions [] $name:ident $opaque:ident $deallocate:literal) => {
        /// Adds a region to the heap; its memory is one free block from now on. Stores its name at `added`, which may be NULL. Blocks of
        /// different regions never coalesce.
        ///
        /// # Errors
        /// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH, RT_ERROR_LARGER_THAN_PLANNED; heap
        /// and region are then unchanged.
        ///
        /// # Safety
        #[doc = concat!(" Of heap and region as `", stringify!($opaque), "_init`.")]
        ///
        /// # Time
        #[doc = concat!(" ", $deallocate, ".")]
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_add_region"))]
        pub unsafe extern "C" fn add_region(
            heap: *mut $opaque,
            region: *mut c_void,
            bytes: usize,
            added: *mut rt_region,
        ) -> rt_error {
            // SAFETY: the caller's promise, here and below.
            unsafe { region::add_region::<Heap>(heap.cast(), region, bytes, added) }
        }

        /// Takes an added region back: its memory is the caller's again.
        ///
        /// # Errors
        /// RT_ERROR_NULL; RT_ERROR_IN_USE where blocks of it are live; RT_ERROR_NOT_REMOVABLE where the heap has no such region.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(regions).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_remove_region"))]
        pub unsafe extern "C" fn remove_region(heap: *mut $opaque, region: rt_region) -> rt_error {
            // SAFETY: as above.
            unsafe { region::remove_region::<Heap>(heap.cast(), region) }
        }
    };
    ($adapter:ident [$($reach:tt)*] $name:ident $opaque:ident $deallocate:literal) => {
        debug_verbs!($adapter [$($reach)*] $name $opaque);
    };
}

/// The type of C's configuration.
macro_rules! config_of {
    () => {
        rt_heap_config
    };
    ($config:ident) => {
        $config
    };
}
pub(crate) use {config_of, more_verbs, region_heaps};

//! The verbs of an allocator that several threads share, written once.

/// Writes C's verbs of the shared allocators in a table, as `region_heaps!` does.
macro_rules! shared_heaps {
    ($(
        $(#[doc = $about:literal])*
        $opaque:ident, $name:ident: $heap:ty, $allocate:literal $deallocate:literal $reallocate:literal;
    )*) => {
        $(
            pub use $name::$opaque;

            #[doc = concat!(" The verbs of `", stringify!($opaque), "`.")]
            pub mod $name {
                use super::*;

                $(#[doc = $about])*
                ///
                /// Several threads use it at a time, each with a slot of its own. The heap is in the region it was made in; a pointer
                /// to it is all there is besides.
                #[derive(Debug)]
                pub struct $opaque(());

                type Heap = $heap;

                const _: () = {
                    let contract = <Heap as SharedAllocator<'static>>::CONTRACT.alone;
                    assert!(same(contract.allocate.notation(), $allocate));
                    assert!(same(contract.deallocate.notation(), $deallocate));
                    assert!(same(contract.reallocate.notation(), $reallocate));
                };

                /// Makes a heap for `slots` users in `bytes` bytes at `region`, which may have any alignment. NULL if they do not do;
                #[doc = concat!(" `", stringify!($opaque), "_init_with` tells why.")]
                ///
                /// # Safety
                /// The region is writable and the heap's alone until nobody uses the heap any more.
                ///
                /// # Time
                /// O(control structure).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_init"))]
                pub unsafe extern "C" fn init(region: *mut c_void, bytes: usize, slots: usize) -> *mut $opaque {
                    // SAFETY: the caller's promise, here and below.
                    unsafe { shared::init::<Heap>(region, bytes, slots) }.cast()
                }

                /// Makes a heap in `bytes` bytes at `region` with a configuration, or the default one for NULL, and stores it at
                /// `heap`; NULL where it cannot be made.
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_OVERFLOW, RT_ERROR_REGION_TOO_SMALL, RT_ERROR_OUT_OF_REACH, RT_ERROR_CONFIGURATION; the
                /// region is then untouched.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_init`.")]
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
                    // SAFETY: as above.
                    unsafe { shared::init_with::<Heap>(region, bytes, config, heap.cast()) }
                }

                /// How many slots the heap has; SIZE_MAX where any number will do, claimed or not.
                ///
                /// # Safety
                #[doc = concat!(" `heap` is NULL or came from `", stringify!($opaque), "_init`.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_slots"))]
                pub unsafe extern "C" fn slots(heap: *const $opaque) -> usize {
                    // SAFETY: as above.
                    unsafe { shared::slots::<Heap>(heap.cast()) }
                }

                /// Claims the first slot that nobody has, and stores its number at `slot`; 0 where any number will do.
                ///
                /// # Errors
                /// RT_ERROR_NULL; RT_ERROR_SLOT where all are taken.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_slots`.")]
                ///
                /// # Time
                /// O(slots).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_claim"))]
                pub unsafe extern "C" fn claim(heap: *mut $opaque, slot: *mut usize) -> rt_error {
                    // SAFETY: as above.
                    unsafe { shared::claim::<Heap>(heap.cast(), slot) }
                }

                /// Claims this slot.
                ///
                /// # Errors
                /// RT_ERROR_NULL; RT_ERROR_SLOT where somebody has it, or there is none of this number.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_slots`.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_take"))]
                pub unsafe extern "C" fn take(heap: *mut $opaque, slot: usize) -> rt_error {
                    // SAFETY: as above.
                    unsafe { shared::take::<Heap>(heap.cast(), slot) }
                }

                /// Gives a slot back. The memory it had freed, or others had freed to it, stays with it until somebody claims it.
                ///
                /// # Errors
                /// RT_ERROR_NULL; RT_ERROR_SLOT where there is none of this number.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_slots`; the slot is the caller's, who uses it no more.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_release"))]
                pub unsafe extern "C" fn release(heap: *mut $opaque, slot: usize) -> rt_error {
                    // SAFETY: as above.
                    unsafe { shared::release::<Heap>(heap.cast(), slot) }
                }

                /// Allocates `size` bytes, aligned as every object of C needs it. NULL if the request is refused; 0 bytes always are.
                ///
                /// # Safety
                #[doc = concat!(" `heap` is NULL or came from `", stringify!($opaque), "_init`. Where slots are exclusive (the contract tells),")]
                /// the slot is the caller's, and nobody else uses it meanwhile.
                ///
                /// # Time
                #[doc = concat!(" ", $allocate, " own steps, whatever others do.")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_malloc"))]
                pub unsafe extern "C" fn malloc(heap: *mut $opaque, slot: usize, size: usize) -> *mut c_void {
                    // SAFETY: as above.
                    unsafe { shared::malloc::<Heap>(heap.cast(), slot, size) }
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
                pub unsafe extern "C" fn calloc(
                    heap: *mut $opaque,
                    slot: usize,
                    count: usize,
                    size: usize,
                ) -> *mut c_void {
                    // SAFETY: as above.
                    unsafe { shared::calloc::<Heap>(heap.cast(), slot, count, size) }
                }

                /// Allocates `size` bytes at a multiple of `align` bytes. NULL if the request is refused.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
                ///
                /// # Time
                #[doc = concat!(" ", $allocate, ".")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_aligned_alloc"))]
                pub unsafe extern "C" fn aligned_alloc(
                    heap: *mut $opaque,
                    slot: usize,
                    align: usize,
                    size: usize,
                ) -> *mut c_void {
                    // SAFETY: as above.
                    unsafe { shared::aligned_alloc::<Heap>(heap.cast(), slot, align, size) }
                }

                /// Changes the size of a block, whoever allocated it, to `size` bytes, in place or by moving it; the content survives
                /// up to the smaller size. NULL if the request is refused: the block is then live and as it was. A block of NULL
                /// is allocated; 0 bytes are refused.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc` and `", stringify!($opaque), "_free`.")]
                ///
                /// # Time
                #[doc = concat!(" ", $reallocate, ", and a copy where the block moves.")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_realloc"))]
                pub unsafe extern "C" fn realloc(
                    heap: *mut $opaque,
                    slot: usize,
                    block: *mut c_void,
                    size: usize,
                ) -> *mut c_void {
                    // SAFETY: as above.
                    unsafe { shared::realloc::<Heap>(heap.cast(), slot, block, size) }
                }

                /// Gives a block back, whoever allocated it; NULL is ignored. A pointer that the heap can tell to be no live block is
                /// reported to the misuse hook and otherwise ignored.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`; `block` is NULL or a live block of this heap, which nobody uses any more.")]
                ///
                /// # Time
                #[doc = concat!(" ", $deallocate, ".")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_free"))]
                pub unsafe extern "C" fn free(heap: *mut $opaque, slot: usize, block: *mut c_void) {
                    // SAFETY: as above.
                    unsafe { shared::free::<Heap>(heap.cast(), slot, block) }
                }

                #[doc = concat!(" As `", stringify!($opaque), "_aligned_alloc`, telling why not: stores the block at `block`, which a refusal leaves as it was.")]
                ///
                /// # Errors
                /// RT_ERROR_NULL, RT_ERROR_SLOT, RT_ERROR_ZERO_SIZE, RT_ERROR_ALIGNMENT, RT_ERROR_TOO_LARGE, RT_ERROR_EXHAUSTED,
                /// RT_ERROR_CONTENDED, RT_ERROR_PENDING.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
                ///
                /// # Time
                #[doc = concat!(" ", $allocate, ".")]
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_allocate"))]
                pub unsafe extern "C" fn allocate(
                    heap: *mut $opaque,
                    slot: usize,
                    align: usize,
                    size: usize,
                    block: *mut *mut c_void,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { shared::allocate::<Heap>(heap.cast(), slot, align, size, block) }
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
                    slot: usize,
                    block: *mut *mut c_void,
                    align: usize,
                    size: usize,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { shared::reallocate::<Heap>(heap.cast(), slot, block, align, size) }
                }

                /// Takes back at most `budget` blocks of this slot that others freed, and says how many. For idle time: allocations
                /// do a little of it each.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
                ///
                /// # Time
                /// O(budget).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_reclaim"))]
                pub unsafe extern "C" fn reclaim(heap: *mut $opaque, slot: usize, budget: usize) -> usize {
                    // SAFETY: as above.
                    unsafe { shared::reclaim::<Heap>(heap.cast(), slot, budget) }
                }

                /// Bytes that may be used at `block`, at least what was requested; 0 for NULL.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_malloc`; `block` is NULL or live in this heap.")]
                ///
                /// # Time
                /// O(1), or O(log H) without headers.
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_usable_size"))]
                pub unsafe extern "C" fn usable_size(
                    heap: *const $opaque,
                    slot: usize,
                    block: *const c_void,
                ) -> usize {
                    // SAFETY: as above.
                    unsafe { shared::usable_size::<Heap>(heap.cast(), slot, block) }
                }

                /// A promise, while nobody is at work: a request of this many bytes by this slot succeeds now. 0 when none does.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_slots`, and nobody uses the heap meanwhile.")]
                ///
                /// # Time
                /// O(control structure).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_largest"))]
                pub unsafe extern "C" fn largest(heap: *const $opaque, slot: usize) -> usize {
                    // SAFETY: as above.
                    unsafe { shared::largest::<Heap>(heap.cast(), slot) }
                }

                /// Stores at `refusals` how many requests were refused so far.
                ///
                /// # Errors
                /// RT_ERROR_NULL.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_slots`.")]
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_refusals"))]
                pub unsafe extern "C" fn refusals(heap: *const $opaque, refusals: *mut rt_refusals) -> rt_error {
                    // SAFETY: as above.
                    unsafe { shared::refusals::<Heap>(heap.cast(), refusals) }
                }

                /// Shows every block, free and live, in the order of addresses.
                ///
                /// # Errors
                /// RT_ERROR_NULL.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_slots`, and nobody uses the heap meanwhile.")]
                ///
                /// # Time
                /// O(H).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_walk"))]
                pub unsafe extern "C" fn walk(
                    heap: *const $opaque,
                    visitor: rt_visitor,
                    context: *mut c_void,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { shared::walk::<Heap>(heap.cast(), visitor, context) }
                }

                /// Verifies every invariant of the heap; `where` may be NULL.
                ///
                /// # Errors
                /// RT_ERROR_NULL; RT_ERROR_CORRUPTION with the first broken invariant at `where`.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_slots`, and nobody uses the heap meanwhile.")]
                ///
                /// # Time
                /// O(H).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_check"))]
                pub unsafe extern "C" fn check(heap: *const $opaque, r#where: *mut rt_corruption) -> rt_error {
                    // SAFETY: as above.
                    unsafe { shared::check::<Heap>(heap.cast(), r#where) }
                }

                /// Stores at `steps` the most steps that an operation takes, whatever other threads do: `malloc`, which looks at no
                /// alignment, `aligned_alloc`, or `free` of a block that was allocated so.
                ///
                /// # Errors
                /// RT_ERROR_NULL; RT_ERROR_UNBOUNDED where there is no such number.
                ///
                /// # Safety
                #[doc = concat!(" As `", stringify!($opaque), "_slots`.")]
                ///
                /// # Time
                /// O(log H).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_most_steps"))]
                pub unsafe extern "C" fn most_steps(
                    heap: *const $opaque,
                    operation: MaybeUninit<rt_operation>,
                    align: usize,
                    size: usize,
                    steps: *mut rt_steps,
                ) -> rt_error {
                    // SAFETY: as above.
                    unsafe { shared::most_steps::<Heap>(heap.cast(), operation, align, size, steps) }
                }

                /// What the allocator is and promises.
                ///
                /// # Time
                /// O(1).
                #[unsafe(export_name = concat!("rt_", stringify!($name), "_contract"))]
                pub extern "C" fn contract() -> *const rt_shared_contract {
                    const FACTS: SharedContract = <Heap as SharedAllocator<'static>>::CONTRACT;
                    static CONTRACT: rt_shared_contract = rt_shared_contract::of(
                        FACTS,
                        [c_text!(FACTS.alone.name), c_text!(FACTS.alone.source), c_text!(FACTS.alone.policy)],
                    );
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
            }
        )*
    };
}
pub(crate) use shared_heaps;

//! The contract of an allocator as C data.

use core::ffi::c_char;
use rtalloc::contract::{Coalescing, Contract, Cost, Mechanism, Progress, SharedContract};

/// The families of allocators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_mechanism {
    /// A search of one list of free blocks.
    RT_MECHANISM_SEQUENTIAL_FIT,
    /// A tree of free blocks.
    RT_MECHANISM_INDEXED_FIT,
    /// Lists by size class.
    RT_MECHANISM_SEGREGATED_FIT,
    /// Blocks that are halves, or other fixed parts, of larger blocks.
    RT_MECHANISM_BUDDY,
    /// A bit for each chunk of memory.
    RT_MECHANISM_BITMAPPED_FIT,
    /// Sequential allocation from a region, which is freed as a whole.
    RT_MECHANISM_REGIONAL,
    /// Objects of one size class in pages, moved so that few pages of a class are not full.
    RT_MECHANISM_COMPACT_FIT,
    /// A heap of another family for each slot. Any slot can free the blocks of any other.
    RT_MECHANISM_ARENAS,
}

/// Cost classes of operations, in machine instructions: s is the size of the block, n the number of free blocks, H the
/// size of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_cost {
    /// O(1): a constant bound, independent of the heap's size and state.
    RT_COST_CONSTANT,
    /// O(s).
    RT_COST_LINEAR_IN_BLOCK,
    /// O(log H).
    RT_COST_LOGARITHMIC_IN_REGION,
    /// O(n).
    RT_COST_LINEAR_IN_FREE_BLOCKS,
    /// O(H).
    RT_COST_LINEAR_IN_REGION,
}

/// Which free memory coalesces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_coalescing {
    /// None: a block keeps its size forever.
    RT_COALESCING_NEVER,
    /// A page, when the last of its blocks is freed.
    RT_COALESCING_PAGES,
    /// Buddies. Free neighbours that are not buddies remain two blocks.
    RT_COALESCING_BUDDIES,
    /// All free neighbours, immediately.
    RT_COALESCING_NEIGHBOURS,
    /// As the inner heap, but deferred: a freed block first stays in quarantine.
    RT_COALESCING_DEFERRED,
}

/// The progress guarantee of an operation, whatever other threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_progress {
    /// Every operation completes within a bounded number of its own steps.
    RT_PROGRESS_WAIT_FREE,
    /// At any time, some operation makes progress.
    RT_PROGRESS_LOCK_FREE,
    /// An operation may have to wait for other threads.
    RT_PROGRESS_BLOCKING,
}

/// The properties and guarantees of an allocator. A limit of SIZE_MAX means that only the region limits it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_contract {
    /// Name of the algorithm. All texts are NUL-terminated.
    pub name: *const c_char,
    /// The paper and section that describe it.
    pub source: *const c_char,
    /// Which block serves a request.
    pub policy: *const c_char,
    /// How free blocks are found.
    pub mechanism: rt_mechanism,
    /// Block sizes are multiples of this, in bytes.
    pub granule_bytes: usize,
    /// Bytes of the tag before each live block.
    pub header_bytes: usize,
    /// Every block has at least this alignment, in bytes.
    pub alignment_bytes: usize,
    /// Smallest block, header included, in bytes.
    pub min_block_bytes: usize,
    /// The remainder of a block is split off only if it has more than this number of bytes.
    pub splitting_threshold_bytes: usize,
    /// Largest span of all regions of a heap, in bytes.
    pub max_span_bytes: usize,
    /// Largest request that any heap serves, in bytes.
    pub largest_request_bytes: usize,
    /// Largest alignment that any heap serves, in bytes.
    pub largest_alignment_bytes: usize,
    /// Bytes of a page, if blocks of one kind get memory in whole pages; otherwise 0.
    pub page_bytes: usize,
    /// The size to whose multiples a request may be rounded up, in bytes; 0 if a block is never more than about twice
    /// the request.
    pub coarsest_bytes: usize,
    /// Cost class of malloc, aligned_alloc and allocate.
    pub allocate: rt_cost,
    /// Cost class of free.
    pub deallocate: rt_cost,
    /// Cost class of realloc and reallocate, without the copy of a moved block.
    pub reallocate: rt_cost,
    /// Which free memory coalesces.
    pub coalescing: rt_coalescing,
    /// A block can grow into the free block after it.
    pub grows_in_place: bool,
    /// The remainder of a shrunk block is free immediately; in arenas, only if its own slot shrinks it.
    pub shrinks_in_place: bool,
    /// A double free, immediate or after the neighbours were freed too, is always detected.
    pub detects_double_free: bool,
    /// A double free at any later time is detected, until memory of the block is allocated again.
    pub detects_stale_pointers: bool,
    /// Freeing or resizing a block with an overwritten tag is reported or harms no other block, unless the tags still
    /// agree with each other.
    pub detects_overwritten_tags: bool,
    /// `largest` returns the largest request that succeeds, not a lower bound.
    pub largest_is_exact: bool,
    /// If a request of `largest` bytes succeeds, every smaller request does.
    pub largest_covers_smaller: bool,
}

// SAFETY: the pointers point to static strings, which are immutable.
unsafe impl Sync for rt_contract {}

impl rt_contract {
    /// The contract for C. `words` are name, source and policy, NUL-terminated.
    pub(crate) const fn of(contract: Contract, words: [*const c_char; 3]) -> Self {
        let [name, source, policy] = words;
        rt_contract {
            name,
            source,
            policy,
            mechanism: mechanism(contract.mechanism),
            granule_bytes: contract.granule_bytes,
            header_bytes: contract.header_bytes,
            alignment_bytes: contract.alignment_bytes,
            min_block_bytes: contract.min_block_bytes,
            splitting_threshold_bytes: contract.splitting_threshold_bytes,
            max_span_bytes: contract.max_span_bytes,
            largest_request_bytes: contract.largest_request_bytes,
            largest_alignment_bytes: contract.largest_alignment_bytes,
            page_bytes: contract.page_bytes,
            coarsest_bytes: contract.coarsest_bytes,
            allocate: cost(contract.allocate),
            deallocate: cost(contract.deallocate),
            reallocate: cost(contract.reallocate),
            coalescing: coalescing(contract.coalescing),
            grows_in_place: contract.grows_in_place,
            shrinks_in_place: contract.shrinks_in_place,
            detects_double_free: contract.detects_double_free,
            detects_stale_pointers: contract.detects_stale_pointers,
            detects_overwritten_tags: contract.detects_overwritten_tags,
            largest_is_exact: contract.largest_is_exact,
            largest_covers_smaller: contract.largest_covers_smaller,
        }
    }
}

/// The properties and guarantees of a shared allocator.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_shared_contract {
    /// Its contract for a single user.
    pub single_user: rt_contract,
    /// Progress of malloc, aligned_alloc and allocate.
    pub allocate: rt_progress,
    /// Progress of free.
    pub deallocate: rt_progress,
    /// Two threads must not use the same slot at a time. If false, the slot number is only a hint.
    pub slots_are_exclusive: bool,
    /// RT_ERROR_EXHAUSTED proves that at some time during the operation no block was acceptable to the heap's policy.
    pub exhaustion_is_certain: bool,
}

impl rt_shared_contract {
    /// The contract for C; `words` as for [`rt_contract::of`].
    pub(crate) const fn of(contract: SharedContract, words: [*const c_char; 3]) -> Self {
        rt_shared_contract {
            single_user: rt_contract::of(contract.single_user, words),
            allocate: progress(contract.allocate),
            deallocate: progress(contract.deallocate),
            slots_are_exclusive: contract.slots_are_exclusive,
            exhaustion_is_certain: contract.exhaustion_is_certain,
        }
    }
}

const fn mechanism(mechanism: Mechanism) -> rt_mechanism {
    match mechanism {
        Mechanism::SequentialFit => rt_mechanism::RT_MECHANISM_SEQUENTIAL_FIT,
        Mechanism::IndexedFit => rt_mechanism::RT_MECHANISM_INDEXED_FIT,
        Mechanism::SegregatedFit => rt_mechanism::RT_MECHANISM_SEGREGATED_FIT,
        Mechanism::Buddy => rt_mechanism::RT_MECHANISM_BUDDY,
        Mechanism::BitmappedFit => rt_mechanism::RT_MECHANISM_BITMAPPED_FIT,
        Mechanism::Regional => rt_mechanism::RT_MECHANISM_REGIONAL,
        Mechanism::CompactFit => rt_mechanism::RT_MECHANISM_COMPACT_FIT,
        Mechanism::Arenas => rt_mechanism::RT_MECHANISM_ARENAS,
    }
}

const fn cost(cost: Cost) -> rt_cost {
    match cost {
        Cost::Constant => rt_cost::RT_COST_CONSTANT,
        Cost::LinearInBlock => rt_cost::RT_COST_LINEAR_IN_BLOCK,
        Cost::LogarithmicInRegion => rt_cost::RT_COST_LOGARITHMIC_IN_REGION,
        Cost::LinearInFreeBlocks => rt_cost::RT_COST_LINEAR_IN_FREE_BLOCKS,
        Cost::LinearInRegion => rt_cost::RT_COST_LINEAR_IN_REGION,
    }
}

const fn coalescing(coalescing: Coalescing) -> rt_coalescing {
    match coalescing {
        Coalescing::Never => rt_coalescing::RT_COALESCING_NEVER,
        Coalescing::Pages => rt_coalescing::RT_COALESCING_PAGES,
        Coalescing::Buddies => rt_coalescing::RT_COALESCING_BUDDIES,
        Coalescing::Neighbours => rt_coalescing::RT_COALESCING_NEIGHBOURS,
        Coalescing::Deferred => rt_coalescing::RT_COALESCING_DEFERRED,
    }
}

/// The guarantee of a shared heap's operation.
pub(crate) const fn progress(progress: Progress) -> rt_progress {
    match progress {
        Progress::WaitFree => rt_progress::RT_PROGRESS_WAIT_FREE,
        Progress::LockFree => rt_progress::RT_PROGRESS_LOCK_FREE,
        Progress::Blocking => rt_progress::RT_PROGRESS_BLOCKING,
    }
}

/// A compile-time text as a static NUL-terminated string.
macro_rules! c_text {
    ($text:expr) => {{
        const TEXT: &str = $text;
        static TERMINATED: [core::ffi::c_char; TEXT.len() + 1] = $crate::report::copied(TEXT);
        TERMINATED.as_ptr()
    }};
}
pub(crate) use c_text;

/// Whether two texts are equal, at compile time.
pub(crate) const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

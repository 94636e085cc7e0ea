//! What an allocator is and promises, as C's data.

use core::ffi::c_char;
use rtalloc::contract::{Coalescing, Contract, Cost, Mechanism, Progress, SharedContract};

/// The families of allocators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_mechanism {
    /// One list of free blocks, searched.
    RT_MECHANISM_SEQUENTIAL_FIT,
    /// A tree of free blocks.
    RT_MECHANISM_INDEXED_FIT,
    /// Lists by size class.
    RT_MECHANISM_SEGREGATED_FIT,
    /// Blocks that are halves, or other fixed parts, of larger ones.
    RT_MECHANISM_BUDDY,
    /// A bit for every piece of memory.
    RT_MECHANISM_BITMAPPED_FIT,
    /// Memory cut off in the order of the requests, and given back together.
    RT_MECHANISM_REGIONAL,
    /// Objects of one size in pages, moved so that few pages of a size are not full.
    RT_MECHANISM_COMPACT_FIT,
    /// A heap of another family for each user, who free each other's blocks.
    RT_MECHANISM_ARENAS,
}

/// Cost classes of operations in machine instructions: s is the size of the block, n the number of free blocks, H the region's
/// size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_cost {
    /// O(1): a constant bound whatever the heap's size and state.
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

/// What becomes one block again when it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_coalescing {
    /// Nothing: a block serves the size it was cut for, for ever.
    RT_COALESCING_NEVER,
    /// A page, when the last of its blocks is freed.
    RT_COALESCING_PAGES,
    /// Two buddies. Free neighbours that are no buddies stay two blocks.
    RT_COALESCING_BUDDIES,
    /// All free neighbours, at once.
    RT_COALESCING_NEIGHBOURS,
    /// What the heap beneath coalesces, but later: a freed block is held back for a while.
    RT_COALESCING_LATER,
}

/// Which operations come to their end, whatever other threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_progress {
    /// Every operation, within a number of its own steps that is known beforehand.
    RT_PROGRESS_WAIT_FREE,
    /// Some operation, at any time.
    RT_PROGRESS_LOCK_FREE,
    /// Those nobody keeps waiting.
    RT_PROGRESS_BLOCKING,
}

/// What an allocator is and promises. Of every limit, SIZE_MAX says that the region alone decides.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_contract {
    /// Name of the algorithm; ends with NUL, like all words here.
    pub name: *const c_char,
    /// The paper and section that describe it.
    pub source: *const c_char,
    /// Which block serves a request.
    pub policy: *const c_char,
    /// How free blocks are found.
    pub mechanism: rt_mechanism,
    /// Block sizes are multiples of this, in bytes.
    pub granule_bytes: usize,
    /// Bytes of tag in front of every live block.
    pub header_bytes: usize,
    /// Every block is aligned to this without being asked, in bytes.
    pub alignment_bytes: usize,
    /// Smallest block, header included, in bytes.
    pub min_block_bytes: usize,
    /// What a block has beyond the request is not split off if it has at most so many bytes.
    pub splitting_threshold_bytes: usize,
    /// Largest span of all regions of a heap, in bytes.
    pub max_span_bytes: usize,
    /// Largest request that any heap serves, in bytes.
    pub largest_request_bytes: usize,
    /// Largest alignment that any heap serves, in bytes.
    pub largest_alignment_bytes: usize,
    /// Bytes of a page, where memory is given to blocks of one kind by whole pages; else 0.
    pub page_bytes: usize,
    /// The size whose multiples a request may be rounded up to, in bytes; 0 where a block is never more than about twice what
    /// was asked.
    pub coarsest_bytes: usize,
    /// Cost class of malloc, aligned_alloc and allocate.
    pub allocate: rt_cost,
    /// Cost class of free.
    pub deallocate: rt_cost,
    /// Cost class of realloc and reallocate, the copy of a moved block apart.
    pub reallocate: rt_cost,
    /// What becomes one block again when it is free.
    pub coalescing: rt_coalescing,
    /// A block grows into its free next neighbour.
    pub grows_in_place: bool,
    /// What a shrunken block no longer needs is free at once.
    pub shrinks_in_place: bool,
    /// A second free, at once or after the neighbours were freed as well, is always detected.
    pub detects_double_free: bool,
    /// So is one at any later time, until memory of the block is handed out again.
    pub detects_stale_pointers: bool,
    /// Freeing or resizing a block one of whose tags was overwritten is reported or harms no other block, unless the tags still
    /// agree with each other.
    pub detects_overwritten_tags: bool,
    /// The largest request that is promised is the largest that succeeds, not a lower bound.
    pub largest_is_exact: bool,
    /// Whenever that request succeeds, every smaller one does.
    pub largest_covers_smaller: bool,
}

// SAFETY: the pointers lead to static strings that nobody changes.
unsafe impl Sync for rt_contract {}

impl rt_contract {
    /// C's contract; `words` are name, source and policy with NUL behind them.
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

/// What a shared allocator is and promises.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_shared_contract {
    /// What it promises a user who is alone.
    pub alone: rt_contract,
    /// Whether malloc, aligned_alloc and allocate come to their end.
    pub allocate: rt_progress,
    /// Whether free does.
    pub deallocate: rt_progress,
    /// Two users may not have the same slot at a time. Otherwise a slot's number is a hint.
    pub slots_are_exclusive: bool,
    /// RT_ERROR_EXHAUSTED proves that at some moment of the operation there was no block that the heap's policy would have taken.
    pub exhaustion_is_certain: bool,
}

impl rt_shared_contract {
    /// C's contract; `words` as for [`rt_contract::of`].
    pub(crate) const fn of(contract: SharedContract, words: [*const c_char; 3]) -> Self {
        rt_shared_contract {
            alone: rt_contract::of(contract.alone, words),
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
        Coalescing::Later => rt_coalescing::RT_COALESCING_LATER,
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

/// A text that is known when this is compiled, with NUL behind it, as a static string of C.
macro_rules! c_text {
    ($text:expr) => {{
        const TEXT: &str = $text;
        static TERMINATED: [core::ffi::c_char; TEXT.len() + 1] = $crate::report::copied(TEXT);
        TERMINATED.as_ptr()
    }};
}
pub(crate) use c_text;

/// Whether two texts are the same: the words of this library's documentation, and those of a contract.
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

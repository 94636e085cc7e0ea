//! What a descriptor states about an allocator beyond its contract.

use crate::Guarantee;
use rtalloc::contract::Coalescing;
use rtalloc::limits::Limit;

/// Facts about an allocator, for users and for the laboratory.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The algorithm in a sentence.
    pub summary: &'static str,
    /// The type in Rust, with `$crate` for the library; empty for what is not in the table of region allocators.
    pub rust_type: &'static str,
    /// The type in C; empty where there is none.
    pub c_type: &'static str,
    /// When to choose it.
    pub wins: &'static str,
    /// When not to.
    pub loses: &'static str,
    /// Its parameters; empty if there are none.
    pub options: &'static str,
    /// Which worst cases are known for it.
    pub worst_cases: WorstCases,
    /// The proved size of a heap that never refuses, if there is one. Always `None` for peers.
    pub guarantee: Option<Guarantee>,
    /// The region for limits of what is live, if the library computes it.
    pub region_for: Option<RegionFor>,
    /// Chooses its sizes for limits, if they are chosen.
    pub sizes_for: Option<SizesFor>,
    /// What limits the loops of its operations.
    pub loop_limits: LoopLimits,
    /// Bytes of a page-block by size class, for heaps whose objects have handles.
    pub page_blocks: Option<fn() -> Vec<usize>>,
    /// Whether the default command of the laboratory shows it.
    pub in_dozen: bool,
    /// What is known about a peer; `None` for ours, which have a contract.
    pub peer: Option<Peer>,
}

impl About {
    /// No facts; entries of the table replace those they know.
    pub const NOTHING: Self = Self {
        summary: "",
        rust_type: "",
        c_type: "",
        wins: "",
        loses: "",
        options: "",
        worst_cases: WorstCases::Unknown,
        guarantee: None,
        region_for: None,
        sizes_for: None,
        loop_limits: LoopLimits::NONE,
        page_blocks: None,
        in_dozen: false,
        peer: None,
    };
}

/// Facts from the documentation and the code of a peer; `None` if not stated.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The crate or the publication.
    pub source: &'static str,
    /// The allocation policy.
    pub policy: &'static str,
    /// Cost class of deallocate.
    pub deallocate: Option<&'static str>,
    /// Bytes before a live block.
    pub header_bytes: Option<usize>,
    /// Block sizes are multiples of this.
    pub granule_bytes: Option<usize>,
    /// The smallest block.
    pub smallest_bytes: Option<usize>,
    /// When free blocks are merged.
    pub coalescing: Option<Coalescing>,
}

/// Bytes of a region in which nothing within the limits of any mode is refused; a set of limits for each mode.
pub type RegionFor = fn(modes: &[&[Limit]]) -> usize;

/// The sizes, the largest request of each, with which an allocator of chosen sizes needs the smallest such region.
pub type SizesFor = fn(modes: &[&[Limit]]) -> Vec<usize>;

/// Allocators that have the same worst cases. The laboratory lists the scenarios of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorstCases {
    /// None that is specific to the allocator.
    Unknown,
    /// Two-level good fit: TLSF.
    GoodFit,
    /// Half-fit: as good fit, and a further one.
    HalfFit,
    /// One list in the order of frees.
    Sequential,
    /// One list in address order.
    AddressOrdered,
    /// A splay tree of sizes.
    SplayTree,
    /// A Cartesian tree of addresses and sizes.
    CartesianTree,
    /// Blocks divided in two.
    Buddies,
    /// Fragments in pages, and runs of pages.
    QuickFit,
    /// Pages of one kind of block, released when empty.
    Pages,
    /// Bitmaps of chunks in pages.
    Bitframes,
    /// Objects that move within their size class.
    Compacting,
    /// A tree of counters.
    CounterTree,
    /// Pieces of chunks, whose bits are in words that are searched.
    Pooled,
    /// A hierarchy of bitmaps.
    BitmapHierarchy,
    /// Blocks cut off new memory and never released.
    Carving,
}

/// Limits of loop iterations, for the variants of [`LoopBound`](rtalloc::contract::LoopBound) that the heap determines.
/// A function takes the bytes of the region.
#[derive(Clone, Copy, Debug)]
pub struct LoopLimits {
    /// Most splits of one allocation.
    pub splits: Option<fn(usize) -> usize>,
    /// Most merges of one deallocation.
    pub merges: Option<fn(usize) -> usize>,
    /// Levels of a tree.
    pub levels: Option<fn(usize) -> u32>,
    /// Words of all bitmaps together.
    pub words: Option<fn(usize) -> usize>,
    /// Slots that count operations.
    pub slots: Option<fn() -> usize>,
    /// Queued remote frees that an allocation processes before it looks for a block.
    pub remote_frees: Option<fn() -> usize>,
    /// Words of pending bits.
    pub pending_words: Option<fn() -> usize>,
}

impl LoopLimits {
    /// No limits.
    pub const NONE: Self = Self {
        splits: None,
        merges: None,
        levels: None,
        words: None,
        slots: None,
        remote_frees: None,
        pending_words: None,
    };
}

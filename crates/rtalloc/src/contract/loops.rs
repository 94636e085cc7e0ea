//! Loop bounds, stated at the loops.

/// The most iterations of a loop each time it is entered, as a quantity of the heap.
///
/// Machine code does not show the iteration count of a loop, and a loop without a known count has no instruction bound.
/// [`loop_bound!`](crate::loop_bound) states it where the reason for it is. Proofs of instruction bounds read it from
/// the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoopBound {
    /// Splits of one allocation by a buddy system; the region's size limits them.
    Splits,
    /// Merges of one deallocation by a buddy system; the region's size limits them.
    Merges,
    /// Levels of a tree buddy; the region's size determines them.
    Levels,
    /// Nodes that a search of a tree buddy enters or leaves: two for each node of the tree.
    Visits,
    /// Nodes of one block of a tree buddy: at most those of the tree.
    BlockNodes,
    /// Free blocks. No useful bound: only the cost of each is known.
    FreeBlocks,
    /// Pages. No useful bound: only the cost of each is known.
    Pages,
    /// Words of a bitmap buddy, on all levels together, or of a pool of chunks; the region's size determines them.
    Words,
    /// Levels of a bitmap buddy: at most 6.
    BitmapLevels,
    /// Slots that the heap was made with.
    Slots,
    /// Blocks freed by other threads that an allocation takes back before it looks for a block: at most the number the
    /// heap was made with.
    RemoteFrees,
    /// Words of pending bits, one bit for each slot that the heap was made with.
    PendingWords,
    /// Granules of a page, by the allocator's contract.
    PageGranules {
        /// Granules per iteration.
        per_iteration: u64,
    },
    /// Bytes of a page-block: at most those of a page, by the allocator's contract.
    PageBlockBytes {
        /// Bytes per iteration.
        per_iteration: u64,
    },
    /// A number that the caller's request determines. No bound of an operation depends on it.
    Caller,
    /// This number of iterations, in every heap.
    Fixed(u64),
}

/// States the bound of a loop: a [`LoopBound`], as the first statement of the loop's body.
/// Emits no code.
///
/// ```
/// use rtalloc::contract::{LoopBound, loop_bound};
///
/// let mut sum = 0;
/// for digit in [1, 2, 3] {
///     loop_bound!(LoopBound::Fixed(3));
///     sum += digit;
/// }
/// # assert_eq!(sum, 6);
/// ```
///
/// A misspelt bound does not compile:
///
/// ```compile_fail,E0599
/// use rtalloc::contract::{LoopBound, loop_bound};
///
/// for _ in 0..3 {
///     loop_bound!(LoopBound::Fixde(3));
/// }
/// ```
#[macro_export]
macro_rules! loop_bound {
    ($bound:expr) => {
        const _: $crate::contract::LoopBound = $bound;
    };
}

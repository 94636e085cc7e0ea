//! The wait-free tree buddy: blocks are complete subtrees of a tree of counters.
//!
//! # Idea
//!
//! Memory is the 2^d - 1 nodes of a complete binary tree of depth d. A block is a complete subtree; in post-order that
//! is a contiguous run of nodes, the last of which is its root ("Wait-free DSA", 2010, sections 3.1 and 3.2):
//!
//! ```text
//!               4                     counter c(n): at most the leaves |L(n)| below n that are free
//!        2             2              a request of height k takes S = 2^(k-1) leaves, 2^k - 1 nodes
//!     1     1       1     1
//!    1 0   0 1     0 1   1 0          Fig. 8: four blocks of one node; nothing of height 2 is left
//!
//! 1 0 1  0 1 1  2  0 1 1  1 0 1  2  4     the same in post-order
//! ```
//!
//! *Allocate* goes depth first from the root. At every node it takes S from the counter by a fetch-and-add; if there
//! was less than S, another fetch-and-add returns it. Where |L(n)| = S, the subtree is taken. Otherwise the search
//! visits one child, then the other; if both fail, it returns S and goes back to the parent. *Deallocate* resets the
//! counters inside the block and adds S to its root and to every ancestor, bottom up.
//!
//! # Why blocks do not overlap
//!
//! At every moment c(n) <= |L(n)| - leaves allocated below n - leaves that current searches have reserved there; at
//! rest the two are equal, which [`check`](SharedAllocator::check) verifies. (The paper's equation 3 says "equal"
//! always; but its decrement is two steps, and between them a counter is smaller.) A search that takes |L(n)| from c(n)
//! therefore knows that nothing below is allocated and no other search is inside or will enter: c(n) is zero, or less
//! for a moment. Counters are signed, because one below zero would otherwise be a large one. So that none overflows, at
//! most [`TreeBuddy::max_users`] operations may be under way.
//!
//! | ordering | reason |
//! |---|---|
//! | the decrement: acquire | frees and failed searches below come before the new owner's accesses |
//! | a free's increments, each of them: release | the same, and the counters that were reset |
//! | the return after both children failed: release | the steps inside the subtree come before those of a thread that takes it whole |
//! | the return after too little: relaxed | nothing was done inside |
//!
//! Shared counters change only by RMWs, so each of these orderings extends through any number of later RMWs. Plain
//! stores change only counters inside a subtree that the storing thread owns.
//!
//! # Progress, and what a refusal means
//!
//! Wait-free: every loop is over the nodes, or the levels, of the tree; no thread waits or retries. A thread that stops
//! forever keeps what it has reserved. The price is that a request can fail although memory for it is free at every
//! moment; the paper's algorithm is not linearizable (section 3.4.2). There are three ways:
//!
//! 1. another search has reserved leaves of a node, and will return them because it finds no subtree (Fig. 9);
//! 2. another search is between the two halves of a decrement that fails;
//! 3. a block is freed in a part that the search has already visited, or has been freed below and not yet at the root.
//!
//! There is a fourth where subtrees are opened lazily in band: another search is about to initialise the children of a
//! node. A failure is therefore [`SharedError::Contended`], even if no other thread was active, and counted. With
//! [`Options::WATCHED`] it is [`SharedError::Exhausted`] if no other operation was under way at any time of the search:
//! then the counters were those of a heap at rest, and no block of the height was free. (The word of `WATCHED` counts
//! begun operations in three quarters of its bits. A search during which exactly 2^48 operations pass on 64-bit
//! machines would not detect them.)
//!
//! # Costs
//!
//! In steps, which are exact and are what [`max_steps`](SharedAllocator::max_steps) returns; k is the height of the
//! block:
//!
//! | | read-modify-writes | stores | loads |
//! |---|---|---|---|
//! | allocate | 2(2^(d-k+1) - 1), and one to count a refusal | 1 | 0 |
//! | deallocate | d - k + 1 | 2^k - 2, and 1 | 1 |
//! | deallocate, [`Lazy`] | d - k + 1 | 1 | 1 |
//!
//! A single thread reaches the bound of allocate, in Fig. 8: 1,048,574 for nodes of height 2 in 64 MiB. In band, the
//! canary adds a store to allocate; the canary, the counter and its flag each add a load to deallocate. [`Options`]
//! lists what the other options add. Where the counters are beside the nodes they need no resetting, because the
//! counters inside a subtree that is taken whole all have their initial values, and no thread changes them: [`Lazy`]
//! saves the paper's stores at no cost.
//!
//! # Memory
//!
//! The tree is the deepest that fits the region; the remainder is unused. In the worst case that is half, so regions of
//! 2^d times the size of a node and its counter and tag (69 bytes for nodes of 64) are best. A request takes the
//! smallest 2^k - 1 nodes that hold it. A load of blocks of height k alone can use 1 - 2^-k of the nodes: half of them
//! if all are single nodes, because the inner nodes of a divided subtree are unusable. An alignment beyond the node's
//! is served from a larger block, whose ends are freed as far as they are subtrees.
//!
//! ```text
//! [used 7: .|payload|........] -> [free 1][used 1] 1 [free 3] 1
//! ```
//!
//! # Resizing
//!
//! A block that shrinks keeps the smallest subtree that holds its payload. One that grows stays in place only as the
//! left child of a parent whose remainder is free: that remainder is reserved from the root down.
//!
//! # Misuse
//!
//! A tag for every block holds its height. A free clears it, so a second free is detected as long as the memory is not
//! allocated again. Of two concurrent frees of one block, the slower one finds that the root's counter would exceed its
//! leaves, and takes back what it added. If the memory was allocated again between the two, it does not, and frees that
//! new block: to detect this too, a free would have to clear the tag by an RMW, one more than the paper's bound.
//!
//! # When it wins, when it loses
//!
//! A bound that does not depend on other threads, in interrupt handlers too, with no state per thread. Every operation
//! writes the root, so it does not scale; a search in a fragmented heap takes time in proportion to it; half of the
//! memory is lost on small blocks.
//!
//! # Figures
//!
//! <!-- figures: tree-buddy tree-buddy-in-band -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `tree-buddy` | 31 + 25 per visit, 172 + 74 per level + 25 per visit, 113 + 34 per level + 21 per node | 0 B | 64 B | 2,624 B, 41,024 B | 59.7 %, 135.5 % |
//! | `tree-buddy-in-band` | 38 + 27 per visit, 113,248,168 in 16.0 MiB, 132 + 36 per level + 21 per node | 16 B | 64 B | 64 B, 64 B | 59.7 %, 320.0 % |
//!
//! Measured 2026-11-26 at 0d75829 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

mod layout;
mod operations;
mod options;
mod search;
mod shape;
mod steps;
mod verify;
#[cfg(test)]
mod white_box;

pub use layout::{InBand, Layout, OutOfBand, Place};
pub use options::{Everything, Faithful, Lazy, Options, ReadsFirst, Rotated, Watched};

use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, Cost, InitError, LoopBound, Mechanism, MisuseKind, Operation,
    Progress, Refusals, SharedAllocator, SharedContract, SharedError, Slot, Steps, loop_bound,
};
use crate::hook;
use crate::mechanism::bits::floor_log2;
use crate::region::{Region, round_up};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use shape::{Node, nodes};

/// The deepest tree: 2^23 leaves, so that counters of 32 bits allow 255 searches at a time.
const MAX_DEPTH: u32 = 24;

/// In a node's word, where freed subtrees are not reset: the counters below are stale.
const FLAG: u32 = 1;

/// In the word of operations under way: the unit of the lower count (under way) and of the upper count (begun).
const UNDER_WAY: usize = 1;
const BEGUN: usize = 1 << COUNT_BITS;
/// Bits that count the operations under way.
const COUNT_BITS: u32 = usize::BITS / 4;

/// The control structure, at the start of the region.
#[repr(C, align(64))]
struct Control<A: Atomics> {
    /// Addresses of the parts of the heap. Written once.
    place: Place,
    /// Depth of the tree: `place.count` is 2^depth - 1. Written once.
    depth: usize,
    /// Refusals of each kind.
    refused_requests: Shared<usize, A>,
    refused_exhausted: Shared<usize, A>,
    refused_contended: Shared<usize, A>,
    /// Operations under way in the lower [`COUNT_BITS`], operations begun in the others, with [`Options::WATCHED`].
    watch: Shared<usize, A>,
}

/// A heap of subtrees with nodes of `NODE` bytes, a power of two; `L` places the counters, and `O` has options; see the
/// [module](self).
pub struct TreeBuddy<'r, const NODE: usize = 64, L: Layout = OutOfBand, O: Options = Faithful, A: Atomics = Native> {
    tree: Tree<NODE, L, O, A>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

/// One user's operations on a [`TreeBuddy`].
pub struct TreeSlot<'h, const NODE: usize, L: Layout, O: Options, A: Atomics> {
    tree: Tree<NODE, L, O, A>,
    number: usize,
    heap: PhantomData<&'h ()>,
}

/// The heap's one pointer.
struct Tree<const NODE: usize, L, O, A: Atomics> {
    /// The control structure, initialised.
    control: NonNull<Control<A>>,
    of: PhantomData<(L, O)>,
}

impl<const NODE: usize, L, O, A: Atomics> Clone for Tree<NODE, L, O, A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<const NODE: usize, L, O, A: Atomics> Copy for Tree<NODE, L, O, A> {}

// SAFETY: every word that several users write is a `Shared`; the others are written once, before the heap is shared.
unsafe impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Send for TreeBuddy<'_, NODE, L, O, A> {}
// SAFETY: as for `Send`.
unsafe impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Sync for TreeBuddy<'_, NODE, L, O, A> {}
// SAFETY: as for `TreeBuddy`; a slot's number is only a hint.
unsafe impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Send for TreeSlot<'_, NODE, L, O, A> {}

impl<const NODE: usize, L: Layout, O: Options, A: Atomics> fmt::Debug for TreeBuddy<'_, NODE, L, O, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of depth {} at {:p}", O::NAMES[usize::from(L::IN_BAND)], self.tree.depth(), self.tree.control)
    }
}

impl<const NODE: usize, L: Layout, O: Options, A: Atomics> fmt::Debug for TreeSlot<'_, NODE, L, O, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of {:p}", self.number, self.tree.control)
    }
}

/// A live block.
#[derive(Clone, Copy, Debug)]
struct Live {
    /// Root of its subtree.
    root: Node,
    /// Address of its payload.
    payload: usize,
}

// Parameters, addresses and sizes.
impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Tree<NODE, L, O, A> {
    /// Whether counters carry a [`FLAG`].
    const FLAGGED: bool = O::LAZY && L::IN_BAND;
    /// Whether a search loads before it writes. In band it could load a user's memory (ThreadSanitizer found it).
    const READS_FIRST: bool = O::READS_FIRST && !L::IN_BAND;
    /// Whether freed subtrees are reset.
    const RESETS: bool = !O::LAZY;
    /// The natural alignment of payloads, in bytes.
    const ALIGN_BYTES: usize = if L::IN_BAND { L::HEADER_BYTES } else { NODE };
    /// Bytes of a block that are not its payload.
    const OVERHEAD_BYTES: usize = L::HEADER_BYTES + L::FOOTER_BYTES;
    /// Name of the heap.
    const NAME: &'static str = O::NAMES[L::IN_BAND as usize];

    /// The counter word for a number of leaves.
    #[inline(always)]
    fn amount(leaves: usize) -> u32 {
        (leaves as u32) << u32::from(Self::FLAGGED)
    }

    /// The leaves that a word counts: negative while searches that will fail are under way.
    #[inline(always)]
    fn count(word: u32) -> isize {
        (word as i32 >> u32::from(Self::FLAGGED)) as isize
    }

    #[inline(always)]
    fn control<'a>(self) -> &'a Control<A> {
        // SAFETY: the control structure is initialised, and lives as long as the heap that this pointer belongs to.
        unsafe { self.control.as_ref() }
    }

    #[inline(always)]
    fn depth(self) -> u32 {
        self.control().depth as u32
    }

    /// Position of the root.
    #[inline(always)]
    fn root(self) -> usize {
        self.control().place.count - 1
    }

    /// The counter of a node of the tree.
    #[inline(always)]
    fn counter<'a>(self, at: usize) -> &'a Shared<u32, A> {
        // SAFETY: every node of the tree has an aligned counter, which is accessed through `A` alone.
        unsafe { Shared::at(L::counter(self.control().place, NODE, at)) }
    }

    /// Address of the payload of a block whose first node is `first`, unless the payload is displaced.
    #[inline(always)]
    fn begin(self, first: usize) -> usize {
        self.control().place.nodes + first * NODE + L::HEADER_BYTES
    }

    /// First address after the payload of a block whose root is at this position.
    #[inline(always)]
    fn end(self, root: usize) -> usize {
        self.control().place.nodes + (root + 1) * NODE - L::FOOTER_BYTES
    }

    /// The largest request this heap could ever serve, in bytes.
    #[inline(always)]
    fn limit(self) -> usize {
        self.control().place.count * NODE - Self::OVERHEAD_BYTES
    }

    /// Height of the smallest block for a request.
    #[inline(always)]
    fn height_for(size_bytes: usize) -> u32 {
        // SAFETY: the size is at least one byte, so the count is at least one.
        let count = unsafe { NonZeroUsize::new_unchecked((size_bytes + Self::OVERHEAD_BYTES).div_ceil(NODE)) };
        floor_log2(count) + 1
    }

    /// Whether a payload lies in the block with this root.
    #[inline(always)]
    fn holds(self, node: Node, payload: usize, size_bytes: usize) -> bool {
        self.begin(node.first()) <= payload && payload + size_bytes <= self.end(node.at)
    }

    /// The smallest subtree of a block that holds its payload.
    fn smallest_holding(self, mut node: Node, payload: usize, size_bytes: usize) -> Node {
        while node.height > 1 {
            loop_bound!(LoopBound::Levels);
            let left = node.towards(0);
            let right = left.sibling();
            node = if self.holds(left, payload, size_bytes) {
                left
            } else if self.holds(right, payload, size_bytes) {
                right
            } else {
                break;
            };
        }
        node
    }
}

// Refusals, and counts of operations under way.
impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Tree<NODE, L, O, A> {
    /// Counts a request that no heap of this kind can serve, and returns the error.
    #[cold]
    #[inline(never)]
    fn refuse(self, error: AllocError) -> SharedError {
        self.control().refused_requests.fetch_add(1, Relaxed);
        SharedError::Request(error)
    }

    /// Returns why a size of zero or beyond the limit is refused.
    #[cold]
    #[inline(never)]
    fn refuse_size(self, size_bytes: usize) -> SharedError {
        self.refuse(if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge })
    }

    /// Counts a failed search, and returns the error.
    #[cold]
    #[inline(never)]
    fn refuse_search(self, begun: usize) -> SharedError {
        let ended = self.ended();
        // No operation was under way when this one began, and none has begun since.
        let is_alone = O::WATCHED && begun & (BEGUN - 1) == 0 && ended == begun.wrapping_add(BEGUN + UNDER_WAY);
        if is_alone {
            self.control().refused_exhausted.fetch_add(1, Relaxed);
            SharedError::Exhausted
        } else {
            self.control().refused_contended.fetch_add(1, Relaxed);
            SharedError::Contended
        }
    }

    /// Counts the start of an operation. Returns the word before it.
    #[inline(always)]
    fn begun(self) -> usize {
        if !O::WATCHED {
            return 0;
        }
        // Acquire: everything that completed operations did comes before this one. And an operation that begins after a
        // failed search ended changes no counter before that search read it.
        self.control().watch.fetch_add(BEGUN + UNDER_WAY, Acquire)
    }

    /// Counts the end of an operation. Returns the word before it.
    #[inline(always)]
    fn ended(self) -> usize {
        if !O::WATCHED {
            return 0;
        }
        // Release: this operation's steps come before later operations that see its end. With their acquire, a search
        // during which no operation is under way runs alone, whatever the orderings of its own steps and theirs.
        self.control().watch.fetch_add(UNDER_WAY.wrapping_neg(), Release)
    }

    /// Reports misuse of an address.
    #[cold]
    #[inline(never)]
    fn report(kind: MisuseKind, address: usize) {
        hook::report(Self::NAME, kind, address);
    }
}

impl<'r, const NODE: usize, L: Layout, O: Options, A: Atomics> TreeBuddy<'r, NODE, L, O, A> {
    /// Length of a region that suffices for one node, for any start address.
    const NEEDED_BYTES: usize = {
        assert!(NODE.is_power_of_two() && NODE >= 8, "NODE must be a power of two, at least a counter and its tag");
        assert!(!L::IN_BAND || NODE >= 32, "NODE must hold header, payload, canary and counter");
        let aside_bytes = if L::IN_BAND { 0 } else { 5 };
        align_of::<Control<A>>() - 1 + size_of::<Control<A>>() + aside_bytes + (NODE - 1) + NODE
    };

    /// The layout of the deepest tree between `room` and `end`, and its depth.
    fn plan(room: usize, end: usize) -> Option<(Place, u32)> {
        (1..=MAX_DEPTH).rev().find_map(|depth| {
            let (place, after) = L::plan(room, nodes(depth), NODE)?;
            (after <= end).then_some((place, depth))
        })
    }

    /// Depth of the tree in a region of this length that begins at a multiple of 64 and of `NODE`; 0 if none fits.
    pub fn depth_in(region_bytes: usize) -> u32 {
        let end = NODE.max(64).saturating_add(region_bytes);
        Self::plan(NODE.max(64) + size_of::<Control<A>>(), end).map_or(0, |(_, depth)| depth)
    }

    /// Most operations that may be under way at a time, so that no counter overflows and no block is handed out twice:
    /// each may have reserved a whole tree and not yet returned it. 255 in the deepest tree, twice as many for each
    /// level less. This is not enforced, since slots are hints that any number of users may share: use a heap from at
    /// most this many threads and interrupt levels.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn max_users(&self) -> usize {
        let by_counters = i32::MAX as usize >> (self.tree.depth() - 1 + u32::from(Tree::<NODE, L, O, A>::FLAGGED));
        if O::WATCHED { by_counters.min(BEGUN - 1) } else { by_counters }
    }
}

// SAFETY: a block is a subtree whose root's counter was decremented from all of its leaves to zero. A counter is at
// most its leaves less those allocated and reserved below, so no other operation is or gets inside it.
unsafe impl<'r, const NODE: usize, L: Layout, O: Options, A: Atomics> SharedAllocator<'r>
    for TreeBuddy<'r, NODE, L, O, A>
{
    type Config = ();
    type Slot<'h>
        = TreeSlot<'h, NODE, L, O, A>
    where
        Self: 'h;

    const CONTRACT: SharedContract = SharedContract {
        single_user: Contract {
            name: Tree::<NODE, L, O, A>::NAME,
            source: "Wait-free DSA 2010, section 3",
            policy: "binary buddies in a tree of counters",
            mechanism: Mechanism::Buddy,
            granule_bytes: NODE,
            header_bytes: L::HEADER_BYTES,
            alignment_bytes: Tree::<NODE, L, O, A>::ALIGN_BYTES,
            min_block_bytes: NODE,
            splitting_threshold_bytes: 0,
            max_span_bytes: nodes(MAX_DEPTH).saturating_mul(NODE + 8),
            largest_request_bytes: usize::MAX,
            largest_alignment_bytes: usize::MAX,
            page_bytes: 0,
            coarsest_bytes: 0,
            allocate: Cost::LinearInRegion,
            deallocate: if O::LAZY { Cost::LogarithmicInRegion } else { Cost::LinearInRegion },
            reallocate: Cost::LinearInRegion,
            coalescing: Coalescing::Buddies,
            grows_in_place: false,
            shrinks_in_place: true,
            detects_double_free: true,
            detects_stale_pointers: true,
            detects_overwritten_tags: true,
            largest_is_exact: true,
            largest_covers_smaller: true,
        },
        allocate: Progress::WaitFree,
        deallocate: Progress::WaitFree,
        slots_are_exclusive: false,
        // 2^48 operations take days; the 2^24 of 32-bit machines, less than a second.
        exhaustion_is_certain: O::WATCHED && usize::BITS >= 64,
    };

    fn new(region: &'r mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        let max_span_bytes = Self::CONTRACT.single_user.max_span_bytes;
        if region.len() > max_span_bytes {
            return Err(InitError::OutOfReach { max_span_bytes });
        }
        let too_small = InitError::TooSmall { needed_bytes: Self::NEEDED_BYTES };
        let start = region.as_ptr().addr();
        let end = start + region.len();
        let control = round_up(start, align_of::<Control<A>>()).ok_or(too_small)?;
        let room = control.checked_add(size_of::<Control<A>>()).ok_or(too_small)?;
        let (place, depth) = Self::plan(room, end).ok_or(too_small)?;
        // Exposes the region's provenance once, for all addresses.
        let _region = Region::new(region);
        let control: NonNull<Control<A>> =
            NonNull::new(core::ptr::with_exposed_provenance_mut(control)).ok_or(too_small)?;
        let tree = Tree { control, of: PhantomData };
        // SAFETY: the control structure lies in the region, aligned, and the region is exclusively borrowed.
        unsafe {
            control.write(Control {
                place,
                depth: depth as usize,
                refused_requests: Shared::new(0),
                refused_exhausted: Shared::new(0),
                refused_contended: Shared::new(0),
                watch: Shared::new(0),
            });
        }
        tree.begin_counters();
        Ok(TreeBuddy { tree, region: PhantomData })
    }

    fn slots(&self) -> usize {
        usize::MAX
    }

    fn take(&self, _: usize) -> bool {
        true
    }

    unsafe fn release(&self, _: usize) {}

    #[inline(always)]
    unsafe fn slot(&self, slot: usize) -> Self::Slot<'_> {
        TreeSlot { tree: self.tree, number: slot, heap: PhantomData }
    }

    fn max_steps(&self, operation: Operation) -> Option<Steps> {
        Some(self.tree.max_steps(operation))
    }

    fn refusals(&self) -> Refusals {
        let control = self.tree.control();
        Refusals {
            request: control.refused_requests.load(Relaxed),
            exhausted: control.refused_exhausted.load(Relaxed),
            contended: control.refused_contended.load(Relaxed),
            pending: 0,
        }
    }

    fn largest_allocatable(&mut self) -> usize {
        self.tree.largest()
    }

    fn walk(&mut self, visitor: &mut dyn FnMut(Block)) {
        self.tree.walk(visitor);
    }

    fn check(&mut self) -> Result<(), Corruption> {
        self.tree.check()
    }

    fn fingerprint(&mut self, word: &mut dyn FnMut(usize)) {
        self.tree.fingerprint(word);
    }
}

// SAFETY: as for the heap: a block is a subtree that no other operation is in.
unsafe impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Slot for TreeSlot<'_, NODE, L, O, A> {
    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        if !align_bytes.is_power_of_two() {
            return Err(self.tree.refuse(AllocError::Alignment));
        }
        self.tree.serve(size_bytes, align_bytes, self.number)
    }

    #[inline(always)]
    fn allocate(&mut self, layout: core::alloc::Layout) -> Result<NonNull<u8>, SharedError> {
        self.tree.serve(layout.size(), layout.align(), self.number)
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        self.tree.give(block.addr().get());
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: the caller guarantees that the block is live and not used by others.
        unsafe { self.tree.resize(block, size_bytes, align_bytes, self.number) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        let payload = block.addr().get();
        // The caller guarantees that the block is live.
        self.tree.find(payload).map_or(0, |live| self.tree.end(live.root.at) - payload)
    }
}

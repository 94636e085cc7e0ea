//! The contract of every allocator: the traits, and the terms they share.
//!
//! Three kinds of failure have three types. A *refusal* ([`AllocError`]) is a result: the request cannot be served and
//! nothing changed. *Misuse* ([`Misuse`]) is the caller's error, detected in the tags of a block: it is reported to the
//! one hook ([`crate::hook`]) and the heap is left unchanged. *Corruption* ([`Corruption`]) is what
//! [`RegionAllocator::check`] finds after an out-of-bounds write.

mod handle;
mod loops;
mod shared;

pub use crate::loop_bound;
pub use handle::{AccessError, Fragmentation, Handle, HandleAllocator, HandleError, Object, ResizeError};
pub use loops::LoopBound;
pub use shared::{Claim, Operation, Progress, Refusals, SharedAllocator, SharedContract, SharedError, Slot, Steps};

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

/// A sequential allocator in memory that its user gives (a *region*). All state is in the region; the value is one
/// pointer.
///
/// # Safety
///
/// An implementation returns blocks that lie in its regions, are aligned as requested, are at least as large as
/// requested, do not overlap each other or the allocator's own state, and stay in place until they are deallocated.
pub unsafe trait RegionAllocator<'r>: Sized {
    /// Configuration of a heap.
    type Config: Copy + Default + fmt::Debug;

    /// The properties of this allocator as data, for the test suite, the laboratory and the documentation.
    const CONTRACT: Contract;

    /// Makes a heap in `region`. Writes only the control structure and the tags of the initial free blocks: one, or a
    /// buddy system's largest blocks. To pointers from an earlier heap in the region, its remains may look like live
    /// blocks.
    ///
    /// # Errors
    ///
    /// [`InitError`] if the region cannot hold the control structure and one block, or lies beyond the reach of
    /// the allocator's tags; the region is then untouched.
    ///
    /// # Time
    ///
    /// Linear in the control structure, and for buddy systems in the number of their largest blocks.
    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError>;

    /// Allocates `size_bytes` bytes at an address that is a multiple of `align_bytes`, for callers that have no
    /// [`Layout`]: every value of both arguments is legal.
    ///
    /// # Errors
    ///
    /// As [`allocate`](Self::allocate); an alignment that is not a power of two is [`AllocError::Alignment`].
    ///
    /// # Time
    ///
    /// `CONTRACT.allocate`.
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError>;

    /// Allocates a block for `layout`.
    ///
    /// # Errors
    ///
    /// [`AllocError`]; nothing changed.
    ///
    /// # Time
    ///
    /// `CONTRACT.allocate`.
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.allocate_bytes(layout.size(), layout.align())
    }

    /// Frees a block, given its address alone. A pointer whose tags show that it was freed already, is foreign or
    /// damaged is reported to the [`crate::hook`] and otherwise ignored.
    ///
    /// # Safety
    ///
    /// `block` was returned by this heap, has not been deallocated since, and is no longer used. (Violations that the
    /// tags can show are detected; others are undefined behaviour.)
    ///
    /// # Time
    ///
    /// `CONTRACT.deallocate`.
    unsafe fn deallocate(&mut self, block: NonNull<u8>);

    /// Changes the size of a block: in place where it shrinks or the next neighbour is free and large enough, else by
    /// moving. The content survives up to the smaller of the two sizes, and the block is aligned to `align_bytes`.
    ///
    /// # Errors
    ///
    /// As [`allocate`](Self::allocate); the old block is then live and unchanged. Size and alignment are checked before
    /// the block: a request that no heap could serve is refused without examining the pointer.
    ///
    /// # Safety
    ///
    /// As [`deallocate`](Self::deallocate). On success `block` is dead unless the same address is returned.
    ///
    /// # Time
    ///
    /// `CONTRACT.reallocate`; moving adds one copy of the content.
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError>;

    /// [`reallocate_bytes`](Self::reallocate_bytes) for a [`Layout`].
    ///
    /// # Errors
    ///
    /// As [`allocate`](Self::allocate); the old block is then live and unchanged.
    ///
    /// # Safety
    ///
    /// As [`reallocate_bytes`](Self::reallocate_bytes).
    ///
    /// # Time
    ///
    /// `CONTRACT.reallocate`.
    #[inline(always)]
    unsafe fn reallocate(&mut self, block: NonNull<u8>, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees that `block` is live in this heap and no longer used after success.
        unsafe { self.reallocate_bytes(block, layout.size(), layout.align()) }
    }

    /// Bytes that the caller may use at `block`: at least those requested.
    ///
    /// # Safety
    ///
    /// `block` is live in this heap.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize;

    /// A guarantee: a request of this many bytes at [`Contract::alignment_bytes`] succeeds now, and one byte more fails
    /// unless `CONTRACT.largest_is_exact` is false. 0 when nothing can be allocated.
    ///
    /// # Time
    ///
    /// Constant for the allocators with a constant allocate, else linear in the free blocks.
    fn largest_allocatable(&self) -> usize;

    /// Running statistics, or `None` where the heap's type leaves them out (see [`crate::mechanism::stats`]).
    ///
    /// # Time
    ///
    /// As [`largest_allocatable`](Self::largest_allocatable).
    fn stats(&self) -> Option<Stats>;

    /// Visits every block, free and live, in address order within each region.
    ///
    /// # Time
    ///
    /// Linear in the number of blocks.
    fn walk(&self, visitor: &mut dyn FnMut(Block));

    /// Verifies every invariant of the heap.
    ///
    /// # Errors
    ///
    /// The first [`Corruption`] found.
    ///
    /// # Time
    ///
    /// Linear in the number of blocks.
    fn check(&self) -> Result<(), Corruption>;

    /// Emits the abstract state: two heaps of one type and region that emit the same words behave alike from now on,
    /// whatever their histories and the bytes in their blocks. Exhaustive exploration identifies states by it.
    ///
    /// # Time
    ///
    /// Linear in the number of blocks.
    fn fingerprint(&self, word: &mut dyn FnMut(usize));
}

/// A region allocator that resizes a block where it is, on request.
///
/// # Safety
///
/// As [`RegionAllocator`]: a block that was resized is at least as large as requested, and does not overlap another.
pub unsafe trait ResizeInPlace<'r>: RegionAllocator<'r> {
    /// Resizes a block if it need not move; returns whether it did. A block whose usable bytes suffice need not. A size
    /// that the heap never serves does not fit, and the block is checked all the same.
    ///
    /// # Errors
    ///
    /// As [`reallocate_bytes`](RegionAllocator::reallocate_bytes), which returns them before it moves a block, except
    /// for [`AllocError::TooLarge`].
    ///
    /// # Safety
    ///
    /// As [`reallocate_bytes`](RegionAllocator::reallocate_bytes).
    ///
    /// # Time
    ///
    /// As [`Contract::reallocate`], without a copy.
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<bool, AllocError>;
}

/// A region allocator whose heap can take further regions at run time.
///
/// # Safety
///
/// As [`RegionAllocator`], over all its regions.
pub unsafe trait MultiRegion<'r>: RegionAllocator<'r> {
    /// Adds a region to the heap; its memory is one free block from now on. Blocks of different regions never
    /// coalesce, even when the regions touch.
    ///
    /// # Errors
    ///
    /// [`InitError`]; heap and region are then unchanged. A region that shares memory with one of the heap's is
    /// [`Overlap`](InitError::Overlap); no reference can be to such memory, but a C program may pass it.
    ///
    /// # Time
    ///
    /// Linear in the number of regions, then `CONTRACT.deallocate`.
    fn add_region(&mut self, region: &'r mut [MaybeUninit<u8>]) -> Result<RegionId, InitError>;

    /// Removes an added region from the heap and returns it.
    ///
    /// # Errors
    ///
    /// [`RemoveError`] if it holds live blocks or does not belong to this heap; nothing changed.
    ///
    /// # Time
    ///
    /// Linear in the number of regions.
    fn remove_region(&mut self, region: RegionId) -> Result<&'r mut [MaybeUninit<u8>], RemoveError>;
}

/// A region allocator whose live blocks other threads may query while its owner works.
///
/// # Safety
///
/// Any thread may call [`usable_size`](RegionAllocator::usable_size) and [`looks_live`](Self::looks_live) at any time
/// for a live block. The heap's value may be copied; copies are used one at a time, except for those queries. Whether a
/// region is refused depends on its length, and on its address modulo 64.
pub unsafe trait Observable<'r>: RegionAllocator<'r> + Send {
    /// Whether the tag before an address is that of a live block; a stale tag may look live, too.
    ///
    /// # Safety
    ///
    /// The address lies between the heap's first block and the region's end, on the grid of its blocks
    /// ([`Contract::alignment_bytes`]).
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn looks_live(&self, address: NonNull<u8>) -> bool;
}

/// Calls a visitor with each of some pieces.
pub type Pieces<'a> = dyn Fn(&mut dyn FnMut(Range<usize>)) + 'a;

/// A sequential heap whose memory comes in *pieces*: they are lent to it, and withdrawn when they are empty. It has no
/// list of them; whoever lends them knows where they are.
///
/// # Safety
///
/// As [`Observable`]. Blocks lie in the pieces, and no block is in two. The queries of [`Observable`] may be made
/// through any heap of the same type, span and piece length.
pub unsafe trait InPieces<'r>: Observable<'r> + ResizeInPlace<'r> {
    /// Bytes of a piece that its largest block does not have.
    const OVERHEAD_BYTES: usize;

    /// Most blocks that a heap keeps for later requests although their users freed them.
    const MOST_KEPT: usize = 0;

    /// Bytes of the control structure of a heap whose pieces have at most `piece_bytes` bytes, from an address that is
    /// a multiple of a cache line.
    ///
    /// # Time
    ///
    /// As [`without_pieces`](Self::without_pieces).
    fn bytes_without_pieces(piece_bytes: usize) -> usize;

    /// A heap that has no piece yet, whose control structure is in `control`.
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::new`].
    ///
    /// # Safety
    ///
    /// All pieces will lie in `span`, which follows `control`, and whose start is a multiple of
    /// [`Contract::granule_bytes`]; its provenance is exposed.
    ///
    /// # Time
    ///
    /// Linear in the control structure.
    unsafe fn without_pieces(
        control: &'r mut [MaybeUninit<u8>],
        span: Range<usize>,
        piece_bytes: usize,
    ) -> Result<Self, InitError>;

    /// Bytes of the smallest piece that surely serves a request; `None` if no piece does.
    ///
    /// # Time
    ///
    /// Constant.
    fn piece_bytes(size_bytes: usize, align_bytes: usize) -> Option<usize>;

    /// Lends a piece, and allocates a block in it. All else in it is free from now on.
    ///
    /// # Safety
    ///
    /// It is part of the span, begins and ends at a multiple of [`Contract::granule_bytes`], is no longer than planned
    /// and no shorter than [`piece_bytes`](Self::piece_bytes) of the request, and no other heap has it.
    ///
    /// # Time
    ///
    /// As [`Contract::allocate`].
    unsafe fn lend(&mut self, piece: Range<usize>, size_bytes: usize, align_bytes: usize) -> NonNull<u8>;

    /// As [`allocate_bytes`](RegionAllocator::allocate_bytes), inlined: so in a bound of the caller, what follows a
    /// refusal does not come after the code of a success.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Time
    ///
    /// As [`Contract::allocate`].
    #[inline(always)]
    fn allocate_inlined(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.allocate_bytes(size_bytes, align_bytes)
    }

    /// Whether a piece has no live block.
    ///
    /// # Safety
    ///
    /// The piece was lent to this heap, and not withdrawn.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn is_empty(&self, piece: Range<usize>) -> bool;

    /// Withdraws a piece.
    ///
    /// # Safety
    ///
    /// As [`is_empty`](Self::is_empty), and it is empty.
    ///
    /// # Time
    ///
    /// As [`Contract::deallocate`].
    unsafe fn withdraw(&mut self, piece: Range<usize>);

    /// As [`deallocate`](RegionAllocator::deallocate). If `may_be_piece` accepts the free memory around the block, the
    /// heap does not use that memory, and returns it. The caller either keeps it (it is a withdrawn piece) or calls
    /// [`put_back`](Self::put_back) before anything else. `None`: not accepted, or the block was refused.
    ///
    /// # Safety
    ///
    /// As [`deallocate`](RegionAllocator::deallocate), and the address lies in a piece of this heap, after its first
    /// granule.
    ///
    /// # Time
    ///
    /// As [`Contract::deallocate`].
    unsafe fn deallocate_in_piece(
        &mut self,
        block: NonNull<u8>,
        may_be_piece: impl FnOnce(&Range<usize>) -> bool,
    ) -> Option<Range<usize>>;

    /// Puts back the memory that [`deallocate_in_piece`](Self::deallocate_in_piece) has returned.
    ///
    /// # Safety
    ///
    /// It was returned, and the heap has done nothing since then.
    ///
    /// # Time
    ///
    /// As [`Contract::deallocate`].
    unsafe fn put_back(&mut self, left: Range<usize>);

    /// Frees one of the blocks that the heap keeps for later requests although their users freed them. `place` is 0 at
    /// first. `Some(None)`: nothing was freed yet, call again. `Some(Some(range))`: one was freed, as by
    /// [`deallocate_in_piece`](Self::deallocate_in_piece); the range is empty for its `None`. `None`: none is kept.
    ///
    /// # Time
    ///
    /// As [`Contract::deallocate`].
    #[inline(always)]
    fn deallocate_kept(
        &mut self,
        place: &mut usize,
        may_be_piece: impl FnOnce(&Range<usize>) -> bool,
    ) -> Option<Option<Range<usize>>> {
        let _ = (place, may_be_piece);
        None
    }

    /// As [`walk`](RegionAllocator::walk), for one piece.
    ///
    /// # Safety
    ///
    /// As [`is_empty`](Self::is_empty).
    ///
    /// # Time
    ///
    /// Linear in the piece.
    unsafe fn walk_piece(&self, piece: Range<usize>, visitor: &mut dyn FnMut(Block));

    /// As [`check`](RegionAllocator::check); `pieces` calls its argument with each piece.
    ///
    /// # Errors
    ///
    /// As [`check`](RegionAllocator::check).
    ///
    /// # Safety
    ///
    /// As [`is_empty`](Self::is_empty), for all pieces of this heap, which are no others.
    ///
    /// # Time
    ///
    /// As [`check`](RegionAllocator::check).
    unsafe fn check_pieces(&self, pieces: &Pieces<'_>) -> Result<(), Corruption>;

    /// As [`fingerprint`](RegionAllocator::fingerprint), without the blocks: only the index of the free ones.
    ///
    /// # Time
    ///
    /// Linear in the control structure and the free blocks.
    fn fingerprint_of_index(&self, word: &mut dyn FnMut(usize));
}

/// A sequential heap whose live blocks can be set aside: their user has freed them, and they wait in a cache
/// ([`Cached`](crate::adapt::Cached)). A block that is set aside is no longer accepted by
/// [`deallocate`](RegionAllocator::deallocate) and [`reallocate`](RegionAllocator::reallocate_bytes), does not
/// [look live](Observable::looks_live), and is shown as free by [`walk`](RegionAllocator::walk); its neighbours do not
/// coalesce with it.
///
/// # Safety
///
/// As [`Observable`]; the payload of a block that is set aside belongs to the caller.
pub unsafe trait SetAside<'r>: Observable<'r> {
    /// The usable bytes of the block that a request of `size_bytes` gets where the heap splits a larger one, at no
    /// alignment beyond that of all blocks.
    ///
    /// # Time
    ///
    /// Constant.
    fn granted_bytes(size_bytes: usize) -> usize;

    /// The usable bytes of the block at an address, if [`deallocate`](RegionAllocator::deallocate) would free it, and
    /// they are at most `most_bytes`. `is_inside`: the caller knows that the address lies between the first block and
    /// the end of the heap's memory; it may be unaligned.
    ///
    /// # Safety
    ///
    /// As [`deallocate`](RegionAllocator::deallocate); `is_inside` is true only of such an address.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn held_bytes(&self, block: NonNull<u8>, most_bytes: usize, is_inside: bool) -> Option<usize>;

    /// Sets a block aside.
    ///
    /// # Safety
    ///
    /// The block is live: [`held_bytes`](Self::held_bytes) accepts it.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn set_aside(&mut self, block: NonNull<u8>);

    /// Makes a block an ordinary live block again, if its tag is still that of one with so many usable bytes that is
    /// set aside; otherwise false, and nothing changes.
    ///
    /// # Safety
    ///
    /// The block was set aside, and had so many usable bytes.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn take_back(&mut self, block: NonNull<u8>, usable_bytes: usize) -> bool;

    /// Reports a block that [`take_back`](Self::take_back) refused.
    fn report_overwritten(&self, block: NonNull<u8>);

    /// Whether the tag before an address is that of a block set aside.
    ///
    /// # Safety
    ///
    /// As [`looks_live`](Observable::looks_live).
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn is_aside(&self, address: NonNull<u8>) -> bool;
}

/// Identifies a region that was added to a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub(crate) usize);

impl RegionId {
    /// The identifier as a number, for a C interface.
    #[inline(always)]
    pub const fn to_bits(self) -> usize {
        self.0
    }

    /// The identifier with these bits; `None` for 0. Bits that no heap returned are legal to use and identify no
    /// region.
    #[inline(always)]
    pub const fn from_bits(bits: usize) -> Option<Self> {
        if bits == 0 { None } else { Some(RegionId(bits)) }
    }
}

/// The properties and guarantees of an allocator, as data.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// Name in the laboratory.
    pub name: &'static str,
    /// The paper and section that describe the algorithm.
    pub source: &'static str,
    /// Which block serves a request.
    pub policy: &'static str,
    /// How free blocks are found: the family in the literature.
    pub mechanism: Mechanism,
    /// Block sizes are multiples of this, in bytes.
    pub granule_bytes: usize,
    /// Bytes of tag before every live block.
    pub header_bytes: usize,
    /// Natural alignment of every block, in bytes.
    pub alignment_bytes: usize,
    /// Smallest block, header included, in bytes.
    pub min_block_bytes: usize,
    /// The remainder of a block is not split off if it has at most this many bytes (Puaut 2002, section 2.1); 0 where
    /// the mechanism splits no block, or leaves no choice.
    pub splitting_threshold_bytes: usize,
    /// Largest span from the heap's base, which lies near the start of the first region, to the end of the last one, in
    /// bytes.
    pub max_span_bytes: usize,
    /// Largest request that any heap of this type serves, however large its region, in bytes; `usize::MAX` where the
    /// region, or the configuration, decides.
    pub largest_request_bytes: usize,
    /// Largest alignment that any heap of this type serves, in bytes; `usize::MAX` where the region alone decides.
    pub largest_alignment_bytes: usize,
    /// Bytes of a page, where blocks of one kind get memory in whole pages, whose metadata may lie between the blocks;
    /// 0 where there are no pages; the fewest where the region decides.
    pub page_bytes: usize,
    /// The size to whose multiples a request may be rounded up when nothing finer is free, in bytes; 0 where a block is
    /// never more than about twice the request.
    pub coarsest_bytes: usize,
    /// Cost class of allocate.
    pub allocate: Cost,
    /// Cost class of deallocate.
    pub deallocate: Cost,
    /// Cost class of reallocate, without the copy of a moved block.
    pub reallocate: Cost,
    /// Which free memory merges into one block.
    pub coalescing: Coalescing,
    /// A block grows into its free next neighbour, up to the last byte of it.
    pub grows_in_place: bool,
    /// The excess of a shrunken block is free at once, as far as the mechanism can divide the block; otherwise the
    /// block keeps its size until it is freed or moved. In heaps whose slots own memory, this holds if the owner
    /// shrinks it; shrunk by another slot to less than half, it moves there if there is room.
    pub shrinks_in_place: bool,
    /// A second deallocate, at once or after the neighbours were freed as well, is always detected. If not, a freed
    /// block is not checked at all.
    pub detects_double_free: bool,
    /// So is one at any later time, until memory of the block is allocated again.
    pub detects_stale_pointers: bool,
    /// Freeing or resizing a block with an overwritten tag is reported or harms no other block, unless the tags are
    /// still consistent: for example, a size that leads to user bytes that look like a tag.
    pub detects_overwritten_tags: bool,
    /// [`RegionAllocator::largest_allocatable`] is the largest request that succeeds, not a lower bound.
    pub largest_is_exact: bool,
    /// Whenever that request succeeds, every smaller one does: free memory is not tied to a size.
    pub largest_covers_smaller: bool,
}

/// Which free memory merges into one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalescing {
    /// Nothing: a block serves the size it was cut for, forever.
    Never,
    /// A page, when the last of its blocks is freed.
    Pages,
    /// Two buddies. Free neighbours that are not buddies stay two blocks.
    Buddies,
    /// All free neighbours, at once: freeing everything gives one block.
    Neighbours,
    /// As the inner heap, but later: a freed block is held back for a while, at the latest until a request needs its
    /// memory. A refused request may have released some.
    Deferred,
}

impl Coalescing {
    /// Description of what coalesces.
    pub const fn name(self) -> &'static str {
        match self {
            Coalescing::Never => "never",
            Coalescing::Pages => "empty pages",
            Coalescing::Buddies => "buddies",
            Coalescing::Neighbours => "neighbours",
            Coalescing::Deferred => "later",
        }
    }

    /// Whether a heap whose blocks are all freed can serve the same requests as when it was made.
    pub const fn recovers(self) -> bool {
        !matches!(self, Coalescing::Never)
    }
}

/// The families of the literature's taxonomy (Wilson et al. 1995), like the folders of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// One list of free blocks, searched.
    SequentialFit,
    /// A tree of free blocks.
    IndexedFit,
    /// Lists by size class.
    SegregatedFit,
    /// Blocks that are halves, or other fixed parts, of larger ones.
    Buddy,
    /// A bit for every piece of memory.
    BitmappedFit,
    /// Memory cut off in the order of the requests, and freed together.
    Regional,
    /// Objects of one size in pages, moved so that few pages of a size are not full.
    CompactFit,
    /// A heap of another family for each user; users free each other's blocks.
    Arenas,
}

impl Mechanism {
    /// Description of the family.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::SequentialFit => "sequential",
            Mechanism::IndexedFit => "indexed",
            Mechanism::SegregatedFit => "segregated",
            Mechanism::Buddy => "buddy",
            Mechanism::BitmappedFit => "bitmapped",
            Mechanism::Regional => "regional",
            Mechanism::CompactFit => "compact-fit",
            Mechanism::Arenas => "arenas",
        }
    }
}

/// Cost classes of operations in machine instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A constant bound, independent of the heap's size and state: no loop, or one bounded by the type (the bits of a
    /// word, the blocks of a page).
    Constant,
    /// At most proportional to the size of the block, independent of the heap's size and state.
    LinearInBlock,
    /// At most proportional to the logarithm of the region's size.
    LogarithmicInRegion,
    /// At most proportional to the number of free blocks.
    LinearInFreeBlocks,
    /// At most proportional to the region's size.
    LinearInRegion,
}

impl Cost {
    /// The class in O-notation; s is the size of the block, n the number of free blocks, H the region's size.
    pub const fn notation(self) -> &'static str {
        match self {
            Cost::Constant => "O(1)",
            Cost::LinearInBlock => "O(s)",
            Cost::LogarithmicInRegion => "O(log H)",
            Cost::LinearInFreeBlocks => "O(n)",
            Cost::LinearInRegion => "O(H)",
        }
    }
}

/// Why a request was refused. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocError {
    /// Zero bytes were requested.
    ZeroSize,
    /// The alignment is not a power of two, is larger than any block of this heap, or exceeds
    /// [`Contract::largest_alignment_bytes`].
    Alignment,
    /// The request, with the room that its alignment may need, exceeds the largest block this heap was planned for.
    TooLarge,
    /// No free block fits now.
    Exhausted,
    /// No free block fits now, but one may after the pending compaction ([`HandleAllocator::pending_bytes`]).
    Pending,
    /// The tags of the block to be resized, or of the free block found, are damaged; reported as [`Misuse`].
    Misused,
    /// The component has used up its quota, however much is free.
    Quota,
    /// A test asked the heap to refuse this request, however much is free.
    Injected,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AllocError::ZeroSize => "a request for zero bytes",
            AllocError::Alignment => "an alignment that is not a power of two or exceeds the heap",
            AllocError::TooLarge => "a request larger than the heap could ever serve",
            AllocError::Exhausted => "no free block is large enough",
            AllocError::Pending => "no free block is large enough before pending compaction is done",
            AllocError::Misused => "the tags are not those of a live block",
            AllocError::Quota => "the component has used up its quota",
            AllocError::Injected => "refused on purpose, to test how the program handles it",
        })
    }
}

impl core::error::Error for AllocError {}

/// Why a region was not accepted. It is untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitError {
    /// The region cannot hold what the heap needs.
    TooSmall {
        /// Bytes that suffice for any start address.
        needed_bytes: usize,
    },
    /// The region is larger, or starts further from the heap's first region, than the tags can express.
    OutOfReach {
        /// Largest span of all regions, in bytes.
        max_span_bytes: usize,
    },
    /// The region is larger than the control structure was sized for.
    LargerThanPlanned {
        /// Largest region this heap takes, in bytes: the first one, or the configured one.
        max_region_bytes: usize,
    },
    /// The region shares memory with one of the heap's.
    Overlap,
    /// The configuration is invalid.
    Configuration {
        /// What it must have.
        what: &'static str,
    },
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitError::TooSmall { needed_bytes } => {
                write!(f, "the region is too small: at least {needed_bytes} bytes are needed")
            }
            InitError::OutOfReach { max_span_bytes } => {
                write!(
                    f,
                    "the region is out of the tags' reach: it must lie after the heap's first region and within {max_span_bytes} bytes; wider tags reach further"
                )
            }
            InitError::Overlap => f.write_str("the region overlaps one of the heap's: add other memory"),
            InitError::Configuration { what } => write!(f, "the configuration must have {what}"),
            InitError::LargerThanPlanned { max_region_bytes } => {
                write!(
                    f,
                    "the region is larger than the control structure was sized for: at most {max_region_bytes} bytes, or set TagConfig::max_region_bytes when the heap is made"
                )
            }
        }
    }
}

impl core::error::Error for InitError {}

/// Why a region was not removed. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveError {
    /// The region has live blocks.
    InUse,
    /// The heap has no such region, or it is the first one, which holds the control structure.
    NotRemovable,
}

impl fmt::Display for RemoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RemoveError::InUse => "blocks of the region are live",
            RemoveError::NotRemovable => "not a region of this heap, or the one that holds its control structure",
        })
    }
}

impl core::error::Error for RemoveError {}

/// A block as reported by [`RegionAllocator::walk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of the payload, as returned by allocate.
    pub address: usize,
    /// Bytes of the block before its payload: the header, and alignment padding.
    pub front_bytes: usize,
    /// Bytes of the block, front included.
    pub size_bytes: usize,
    /// Bytes the user may use while the block is live.
    pub usable_bytes: usize,
    /// Whether the block is free.
    pub free: bool,
}

/// Running statistics of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Usable bytes of all live blocks now (granted sizes; the heap does not know the requested ones).
    pub live_bytes: usize,
    /// Largest value `live_bytes` ever had.
    pub peak_live_bytes: usize,
    /// Live blocks now.
    pub live_blocks: usize,
    /// H: the highest end address ever returned minus the start of the first region's first block, bytes. Blocks in
    /// regions below the first one do not count.
    pub high_water_bytes: usize,
    /// Largest request that succeeds now ([`RegionAllocator::largest_allocatable`]), bytes.
    pub largest_free_bytes: usize,
    /// Requests refused so far, for any reason.
    pub failures: usize,
}

/// An error of the caller, detected by the tags of a block or by the fences of [`Guarded`](crate::adapt::Guarded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// The allocator that detected it.
    pub allocator: &'static str,
    /// What was detected.
    pub kind: MisuseKind,
    /// The address the caller passed.
    pub address: usize,
}

/// Kinds of [`Misuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MisuseKind {
    /// The address is outside the heap or is not aligned like a block.
    ForeignPointer,
    /// The block is free.
    DoubleFree,
    /// The tags around the block contradict each other: one was overwritten, or the block was freed before and is now
    /// inside a larger free block.
    ContradictoryTags,
    /// Bytes after the block were written: after the requested size, not only after the granted one.
    Overrun,
    /// Bytes before the block were written.
    Underrun,
    /// The block was written after it was freed.
    UseAfterFree,
    /// The address is inside a block, not at its start.
    InteriorPointer,
    /// The address is in the region of another heap.
    WrongHeap,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            MisuseKind::ForeignPointer => "not a block of this heap",
            MisuseKind::DoubleFree => "it is free already, or its header was overwritten",
            MisuseKind::ContradictoryTags => "its tags contradict each other: overwritten, or freed before",
            MisuseKind::Overrun => "bytes after it were written",
            MisuseKind::Underrun => "bytes before it were written",
            MisuseKind::UseAfterFree => "it was written after it was freed",
            MisuseKind::InteriorPointer => "inside a block, not at its start",
            MisuseKind::WrongHeap => "it lies in another heap",
        };
        write!(f, "{}: block {:#x}: {what}", self.allocator, self.address)
    }
}

/// A violated invariant, as reported by [`RegionAllocator::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// Which invariant.
    pub invariant: &'static str,
    /// The payload address of the block, or the address of the control structure's word.
    pub address: usize,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken invariant at {:#x}: {}", self.address, self.invariant)
    }
}

impl core::error::Error for Corruption {}

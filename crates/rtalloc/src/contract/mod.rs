//! The contract every allocator signs: the traits, and the vocabulary they share.
//!
//! Three things that can go wrong have three types. A *refusal* ([`AllocError`]) is an answer: the request
//! cannot be served and nothing changed. *Misuse* ([`Misuse`]) is the caller's fault, seen in the tags of a
//! block: it goes to the one hook ([`crate::hook`]) and the heap is left as it was. *Corruption*
//! ([`Corruption`]) is what [`RegionAllocator::check`] finds when somebody wrote where they should not.

mod handle;
mod shared;

pub use handle::{AccessError, Fragmentation, Handle, HandleAllocator, HandleError, Object, ResizeError};
pub use shared::{Claim, Operation, Progress, Refusals, SharedAllocator, SharedContract, SharedError, Slot, Steps};

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A sequential allocator in memory its user gives (a *region*). All state lives in that region: the value
/// itself is one pointer.
///
/// # Safety
///
/// An implementation hands out blocks that lie in its regions, are aligned as asked, are at least as large as
/// asked, do not overlap each other or the allocator's own state, and stay put until they are deallocated.
pub unsafe trait RegionAllocator<'r>: Sized {
    /// What can be chosen when the heap is made.
    type Config: Copy + Default + fmt::Debug;

    /// The facts of this allocator as data: the suite, the laboratory and the documentation read them here.
    const CONTRACT: Contract;

    /// Makes a heap in `region`. Nothing is written but the control structure and the tags of the blocks that the free
    /// memory is: one, or those that a buddy system's largest blocks are. What an earlier heap left in the region may
    /// look like live blocks to a pointer that heap handed out.
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
    /// [`Layout`]: every value of both arguments is legal and answered.
    ///
    /// # Errors
    ///
    /// As [`allocate`](Self::allocate); an alignment that is no power of two is [`AllocError::Alignment`].
    ///
    /// # Time
    ///
    /// `CONTRACT.allocate`.
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError>;

    /// Allocates a block for `layout`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] tells which; nothing changed.
    ///
    /// # Time
    ///
    /// `CONTRACT.allocate`.
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.allocate_bytes(layout.size(), layout.align())
    }

    /// Gives a block back, by its address alone. A pointer that the tags show to be freed already, foreign or
    /// damaged is reported to the [`crate::hook`] and otherwise ignored.
    ///
    /// # Safety
    ///
    /// `block` was returned by this heap and not deallocated since; nobody uses it any more. (What the tags can
    /// show of a breach is detected; what they cannot is undefined behaviour.)
    ///
    /// # Time
    ///
    /// `CONTRACT.deallocate`.
    unsafe fn deallocate(&mut self, block: NonNull<u8>);

    /// Changes the size of a block: in place where it shrinks or the next neighbour is free and large enough,
    /// else by moving. The content survives up to the smaller of the two sizes, and the block keeps the alignment
    /// that `size_bytes`/`align_bytes` asks for.
    ///
    /// # Errors
    ///
    /// As [`allocate`](Self::allocate); the old block is then live and unchanged. Size and alignment are judged before the
    /// block: what no heap could serve is refused without a look at the pointer.
    ///
    /// # Safety
    ///
    /// As [`deallocate`](Self::deallocate). On success `block` is dead unless the same address came back.
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
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { self.reallocate_bytes(block, layout.size(), layout.align()) }
    }

    /// Bytes the caller may use at `block`: at least what was requested.
    ///
    /// # Safety
    ///
    /// `block` is live in this heap.
    ///
    /// # Time
    ///
    /// Constant.
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize;

    /// A promise: a request of this many bytes at [`Contract::alignment_bytes`] succeeds now, and one byte more
    /// fails unless `CONTRACT.largest_is_exact` is false. 0 when nothing can be allocated.
    ///
    /// # Time
    ///
    /// Constant for the allocators with a constant allocate, else linear in the free blocks.
    fn largest_allocatable(&self) -> usize;

    /// Running tallies, or `None` where the heap's type leaves them out (see [`crate::mechanism::tally`]).
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

    /// Emits the abstract state: two heaps of one type and region that emit the same words behave alike from now
    /// on, whatever their histories and the bytes in their blocks. Exhaustive exploration counts states by it.
    ///
    /// # Time
    ///
    /// Linear in the number of blocks.
    fn fingerprint(&self, word: &mut dyn FnMut(usize));
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
    /// [`InitError`]; heap and region are then unchanged.
    ///
    /// # Time
    ///
    /// `CONTRACT.deallocate`.
    fn add_region(&mut self, region: &'r mut [MaybeUninit<u8>]) -> Result<RegionId, InitError>;

    /// Takes an added region back.
    ///
    /// # Errors
    ///
    /// [`RemoveError`] if blocks of it are live or the region is none of this heap's; nothing changed.
    ///
    /// # Time
    ///
    /// Linear in the number of regions.
    fn remove_region(&mut self, region: RegionId) -> Result<&'r mut [MaybeUninit<u8>], RemoveError>;
}

/// A region allocator of which other threads may ask about live blocks while its owner works.
///
/// # Safety
///
/// [`usable_size`](RegionAllocator::usable_size) and [`looks_live`](Self::looks_live) may be asked by any thread, at any time,
/// about a block that is live. The heap's value may be copied; copies are used one at a time, except for those questions. If
/// a region is refused depends on its length, and on its address modulo 64.
pub unsafe trait Observable<'r>: RegionAllocator<'r> + Send {
    /// Whether the tag in front of an address is that of a live block; a tag that is no longer in use may look so, too.
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

/// Names a region that was added to a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub(crate) usize);

impl RegionId {
    /// The name as a number, for a C interface.
    pub const fn to_bits(self) -> usize {
        self.0
    }

    /// The name with these bits; `None` for 0, which names no region. One that no heap gave is legal to use and names none, either.
    pub const fn from_bits(bits: usize) -> Option<Self> {
        if bits == 0 { None } else { Some(RegionId(bits)) }
    }
}

/// What an allocator is and promises, as data.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// Name as the laboratory knows it.
    pub name: &'static str,
    /// The paper and section that describe the algorithm.
    pub source: &'static str,
    /// Which block serves a request.
    pub policy: &'static str,
    /// How free blocks are found: the field's family.
    pub mechanism: Mechanism,
    /// Block sizes are multiples of this, in bytes.
    pub granule_bytes: usize,
    /// Bytes of tag in front of every live block.
    pub header_bytes: usize,
    /// Every block is aligned to this without being asked, in bytes.
    pub alignment_bytes: usize,
    /// Smallest block, header included, in bytes.
    pub min_block_bytes: usize,
    /// What a block has beyond the request is not split off if it has at most so many bytes (Puaut 2002, section 2.1); 0
    /// where the mechanism splits no block, or leaves no choice.
    pub splitting_threshold_bytes: usize,
    /// Largest span from the heap's base, which lies near the start of the first region, to the end of the last one, in
    /// bytes.
    pub max_span_bytes: usize,
    /// Largest request that any heap of this type serves, however large its region, in bytes; `usize::MAX` where the region
    /// alone decides.
    pub largest_request_bytes: usize,
    /// Largest alignment that any heap of this type serves, in bytes; `usize::MAX` where the region alone decides.
    pub largest_alignment_bytes: usize,
    /// Bytes of a page, where memory is given to blocks of one kind by whole pages, whose bookkeeping may lie between the
    /// blocks; 0 where there are no pages.
    pub page_bytes: usize,
    /// The size whose multiples a request may be rounded up to, when nothing finer is free, in bytes; 0 where a block is
    /// never more than about twice what was asked.
    pub coarsest_bytes: usize,
    /// Cost class of allocate.
    pub allocate: Cost,
    /// Cost class of deallocate.
    pub deallocate: Cost,
    /// Cost class of reallocate, the copy of a moved block apart.
    pub reallocate: Cost,
    /// What becomes one block again when it is free.
    pub coalescing: Coalescing,
    /// A block grows into its free next neighbour, up to the last byte of it.
    pub grows_in_place: bool,
    /// What a shrunken block no longer needs is free at once, as far as the mechanism can divide the block; otherwise it
    /// keeps its size until it is freed or moved.
    pub shrinks_in_place: bool,
    /// A second deallocate, at once or after the neighbours were freed as well, is always detected.
    pub detects_double_free: bool,
    /// So is one at any later time, until memory of the block is handed out again.
    pub detects_stale_pointers: bool,
    /// Freeing or resizing a block one of whose tags was overwritten is reported or harms no other block, unless the tags
    /// still agree with each other: a size, say, that leads to bytes of the user that look like a tag.
    pub detects_overwritten_tags: bool,
    /// [`RegionAllocator::largest_allocatable`] is the largest request that succeeds, not a lower bound.
    pub largest_is_exact: bool,
    /// Whenever that request succeeds, every smaller one does: free memory is not tied to a size.
    pub largest_covers_smaller: bool,
}

/// What becomes one block again when it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalescing {
    /// Nothing: a block serves the size it was cut for, for ever.
    Never,
    /// A page, when the last of its blocks is freed.
    Pages,
    /// Two buddies. Free neighbours that are no buddies stay two blocks.
    Buddies,
    /// All free neighbours, at once: freeing everything gives one block.
    Neighbours,
    /// What the heap beneath coalesces, but later: a freed block is held back for a while, until a request needs its memory at the
    /// latest. A request that is refused in the end may have let some go.
    Later,
}

impl Coalescing {
    /// What coalesces, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Coalescing::Never => "never",
            Coalescing::Pages => "empty pages",
            Coalescing::Buddies => "buddies",
            Coalescing::Neighbours => "neighbours",
            Coalescing::Later => "later",
        }
    }

    /// Whether a heap whose blocks are all freed serves what it served when it was made.
    pub const fn recovers(self) -> bool {
        !matches!(self, Coalescing::Never)
    }
}

/// The families of the field's taxonomy (Wilson et al. 1995), as the folders of this crate are named.
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
    /// Memory cut off in the order of the requests, and given back together.
    Regional,
    /// Objects of one size in pages, moved so that few pages of a size are not full.
    CompactFit,
    /// A heap of another family for each user, who free each other's blocks.
    Arenas,
}

impl Mechanism {
    /// The family in words.
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
    /// A constant bound whatever the heap's size and state: no loop, or one that the type bounds (the bits of a word, the
    /// blocks of a page).
    Constant,
    /// At most proportional to the size of the block, whatever the heap's size and state.
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
    /// Nothing was requested.
    ZeroSize,
    /// The alignment is no power of two, larger than any block of this heap, or beyond
    /// [`Contract::largest_alignment_bytes`].
    Alignment,
    /// The request, with the room that its alignment may take, is larger than the largest block this heap was planned
    /// for.
    TooLarge,
    /// No free block fits now.
    Exhausted,
    /// No free block fits now, but one may when the compaction that is owed
    /// ([`HandleAllocator::owed_bytes`]) is done.
    Pending,
    /// The block to be resized failed the test of its tags; it was reported as [`Misuse`].
    Misused,
    /// Whoever asks has used up what it may, however much is free.
    Quota,
    /// The heap was told to refuse this very request, however much is free.
    Injected,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AllocError::ZeroSize => "a request for zero bytes",
            AllocError::Alignment => "an alignment that is no power of two or exceeds the heap",
            AllocError::TooLarge => "a request larger than the heap could ever serve",
            AllocError::Exhausted => "no free block is large enough",
            AllocError::Pending => "no free block is large enough until the compaction that is owed is done",
            AllocError::Misused => "the block's tags are not those of a live block",
            AllocError::Quota => "the component has used up its quota",
            AllocError::Injected => "refused on purpose, to test what the program does then",
        })
    }
}

impl core::error::Error for AllocError {}

/// Why a region was not accepted. It is untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitError {
    /// The region cannot hold what the heap needs.
    TooSmall {
        /// Bytes that would do, at any alignment of the region.
        needed_bytes: usize,
    },
    /// The region is larger, or starts further from the heap's first region, than the tags can express.
    OutOfReach {
        /// Largest span of all regions, in bytes.
        max_span_bytes: usize,
    },
    /// The region is larger than the control structure was sized for.
    LargerThanPlanned {
        /// Largest region this heap takes, in bytes: the first one, or what its configuration said.
        max_region_bytes: usize,
    },
    /// The configuration cannot be.
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
                    "the region is out of the tags' reach: it must lie behind the heap's first region and within {max_span_bytes} bytes; wider tags reach further"
                )
            }
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

/// Why a region was not given back. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveError {
    /// Blocks of the region are live.
    InUse,
    /// The heap has no such region, or it is the first one, which holds the control structure.
    NotRemovable,
}

impl fmt::Display for RemoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RemoveError::InUse => "blocks of the region are live",
            RemoveError::NotRemovable => "no region of this heap, or the one that holds its control structure",
        })
    }
}

impl core::error::Error for RemoveError {}

/// A block as [`RegionAllocator::walk`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of the payload: what allocate returned.
    pub address: usize,
    /// Bytes of the block in front of its payload: the header, and whatever an alignment cost.
    pub front_bytes: usize,
    /// Bytes of the block, front included.
    pub size_bytes: usize,
    /// Bytes the user may use while the block is live.
    pub usable_bytes: usize,
    /// Whether the block is free.
    pub free: bool,
}

/// Running tallies of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Usable bytes of all live blocks now (granted sizes; the heap does not know the requested ones).
    pub live_bytes: usize,
    /// Largest value `live_bytes` ever had.
    pub peak_live_bytes: usize,
    /// Live blocks now.
    pub live_blocks: usize,
    /// H: the highest end address ever handed out minus the start of the first region's first block, bytes. Blocks in
    /// regions below the first one do not count.
    pub high_water_bytes: usize,
    /// Largest request that succeeds now ([`RegionAllocator::largest_allocatable`]), bytes.
    pub largest_free_bytes: usize,
    /// Requests refused so far, for any reason.
    pub failures: usize,
}

/// A caller's fault that the tags of a block show, or the fences that [`Guarded`](crate::adapt::Guarded) puts around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// The allocator that saw it.
    pub allocator: &'static str,
    /// What was seen.
    pub kind: MisuseKind,
    /// The address the caller passed.
    pub address: usize,
}

/// Kinds of [`Misuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MisuseKind {
    /// The address is outside the heap or is not aligned as every block is.
    ForeignPointer,
    /// The block is free.
    DoubleFree,
    /// The tags around the block contradict each other: somebody wrote over one, or the block was freed before and is
    /// now inside a larger free block.
    ContradictoryTags,
    /// Bytes behind the block were written: behind what was requested, not only behind what was granted.
    Overrun,
    /// Bytes in front of the block were written.
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
            MisuseKind::Overrun => "bytes behind it were written",
            MisuseKind::Underrun => "bytes in front of it were written",
            MisuseKind::UseAfterFree => "it was written after it was freed",
            MisuseKind::InteriorPointer => "inside a block, not at its start",
            MisuseKind::WrongHeap => "it lies in another heap",
        };
        write!(f, "{}: block {:#x}: {what}", self.allocator, self.address)
    }
}

/// A broken invariant, as [`RegionAllocator::check`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// Which invariant.
    pub invariant: &'static str,
    /// Where: the payload address of the block, or of the control structure's word.
    pub address: usize,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken invariant at {:#x}: {}", self.address, self.invariant)
    }
}

impl core::error::Error for Corruption {}

//! A heap that keeps freed small blocks, by size, to hand them out again without looking at its index.
//!
//! # Idea
//!
//! A freed block of up to 64 granules, header included, goes to the list of its size instead of back into the inner
//! heap; the next request of that size takes it from there. For the inner heap the block stays live, and a flag in its
//! header says that it is [set aside](SetAside). When the list is full, a block is freed as usual; when the inner heap
//! finds no memory for a request, all lists are emptied into it, and it is asked again.
//!
//! ```text
//! list of 2 granules -> [block] -> [block]
//! list of 3 granules                           none: allocate asks the inner heap
//! list of 4 granules -> [block]                full: free goes to the inner heap
//!
//! region: [65 lists, by granules: first block, places left] [the region of the inner heap ...]
//! ```
//!
//! This is the cache of ptmalloc for each thread (glibc's *tcache*), with its rules: lists last in, first out, of
//! bounded length, without coalescing. We know of no source for the emptying before a refusal; without it, a request
//! could fail beside free memory.
//!
//! # Costs
//!
//! A request that finds its list filled, and a free that finds a place in it, execute no step that depends on the
//! heap, and write no block but the one they are about. The worst case is in the contract's cost class, and far from
//! the mean: a request that the inner heap refuses frees every block that the lists may hold, [`MOST_BLOCKS`] at most.
//! Where a deadline counts, use the inner heap alone, or set [`CachedConfig::list_bytes`] to 0.
//!
//! Memory: two words for each list, and at most [`list_bytes`](CachedConfig::list_bytes) for each in blocks: with the
//! default, at most 1 MiB. These blocks do not coalesce, so the heap needs more by more than their bytes: what lies
//! between them is divided.
//!
//! Misuse is found as by the inner heap: a block is put into a list only if the inner heap would free it. A header that
//! was overwritten in a list is reported when the block leaves it; that block and those behind it are never allocated
//! again, because the link may be overwritten, too. A link is not checked: one that was overwritten alone is followed.
//!
//! # When it wins, when it loses
//!
//! It is for programs that allocate and free small blocks of few sizes all the time, where the mean counts: the replaced
//! `malloc` has one in every slot. It wins nothing where sizes seldom recur, and loses where memory is short.

use super::front::{Name, divide};
use crate::arithmetic::sum;
use crate::concurrent::LINE_BYTES;
use crate::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, InPieces, InitError, LoopBound, Observable, Pieces,
    RegionAllocator, ResizeInPlace, SetAside, Stats, loop_bound,
};
use crate::mechanism::pair_result::PairResult;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

/// Bytes of blocks in a list by default, and at most.
pub const LIST_BYTES: usize = 16384;
/// Granules of the largest block in a list.
const MOST_GRANULES: usize = 64;

/// Blocks that all lists together hold at most, if granules have 16 bytes.
pub const MOST_BLOCKS: usize = most_blocks(16);

/// Blocks that all lists together hold at most, in granules of this size.
const fn most_blocks(granule_bytes: usize) -> usize {
    let (mut granules, mut sum) = (2, 0);
    while granules <= MOST_GRANULES {
        sum += LIST_BYTES / (granules * granule_bytes);
        granules += 1;
    }
    sum
}

/// Configuration of a heap with a cache.
#[derive(Clone, Copy, Debug)]
pub struct CachedConfig<C> {
    /// The configuration of the inner heap.
    pub heap: C,
    /// Most bytes of blocks in each list, at most [`LIST_BYTES`], the default. With 0, nothing is kept.
    pub list_bytes: usize,
}

impl<C: Default> Default for CachedConfig<C> {
    fn default() -> Self {
        CachedConfig { heap: C::default(), list_bytes: LIST_BYTES }
    }
}

/// Free blocks of one size.
#[derive(Clone, Copy)]
struct List {
    /// The block freed last, or null. The first word of each is the next one.
    first: *mut u8,
    /// How many more blocks it may have.
    places: usize,
}

/// What is left to do for an operation that the lists alone do not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// What follows the look at the lists.
    Heap,
    /// The whole operation.
    Everything,
}

/// The control structure.
#[repr(C)]
struct Control<H> {
    /// By granules of the blocks; those below the smallest block stay empty.
    lists: [List; MOST_GRANULES + 1],
    heap: H,
    /// Where the memory of the inner heap lies.
    start: usize,
    end: usize,
    /// Bytes of blocks in each list, at most.
    list_bytes: usize,
    /// Whether the memory consists of pieces: their owner empties the lists, because it takes back empty pieces.
    is_in_pieces: bool,
}

/// A region allocator `H` with lists of freed blocks before it; see the [module](self). `H` validates by
/// [`BasicSettingAside`](crate::mechanism::validation::BasicSettingAside). There are no statistics.
///
/// # Time
///
/// Constant where a list serves the operation, otherwise that of `H`; a request that `H` refuses empties the lists.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::adapt::Cached;
/// use rtalloc::mechanism::segregated::RoundUp;
/// use rtalloc::mechanism::stats::NoStats;
/// use rtalloc::mechanism::validation::BasicSettingAside;
/// use rtalloc::mechanism::word::Wide;
/// use rtalloc::{RegionAllocator, Tlsf};
///
/// type Heap<'r> = Cached<'r, Tlsf<'r, 5, RoundUp, Wide, NoStats, BasicSettingAside>>;
/// let mut memory = [MaybeUninit::uninit(); 16384];
/// # if cfg!(target_pointer_width = "64") {
/// let mut heap = Heap::new(&mut memory, Default::default())?;
/// let block = heap.allocate_bytes(100, 8)?;
/// // SAFETY: the block is live, and no longer used.
/// unsafe { heap.deallocate(block) };
/// assert_eq!(heap.allocate_bytes(100, 8), Ok(block));
/// # }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[repr(transparent)]
pub struct Cached<'r, H> {
    /// Initialised, in the region.
    control: NonNull<Control<H>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the control structure, the inner heap and the blocks in the lists belong to this value alone.
unsafe impl<H: Send> Send for Cached<'_, H> {}

impl<'r, H: SetAside<'r>> Cached<'r, H> {
    const JOINED: &'static Name = &Name::joined("cached-", H::CONTRACT.name);
    const GRANULE: usize = H::CONTRACT.granule_bytes;
    /// A request of more bytes has no list.
    const LARGEST: usize = MOST_GRANULES * Self::GRANULE - H::CONTRACT.header_bytes;

    /// Bytes of the control structure before that of an inner heap in pieces: whole cache lines.
    const FRONT_BYTES: usize = size_of::<Control<H>>().next_multiple_of(LINE_BYTES);

    const VALID: () = {
        let contract = H::CONTRACT;
        assert!(contract.min_block_bytes - contract.header_bytes >= size_of::<*mut u8>(), "a free block has a link");
        assert!(contract.min_block_bytes <= MOST_GRANULES * contract.granule_bytes);
        assert!(contract.alignment_bytes >= align_of::<*mut u8>(), "a link is aligned");
    };

    #[inline(always)]
    fn control(&self) -> &Control<H> {
        // SAFETY: initialised when the heap was made; it changes only under `&mut self`.
        unsafe { self.control.as_ref() }
    }

    #[inline(always)]
    fn control_mut(&mut self) -> &mut Control<H> {
        // SAFETY: initialised when the heap was made; `self` is borrowed exclusively.
        unsafe { self.control.as_mut() }
    }

    /// The inner heap, for queries.
    pub fn inner(&self) -> &H {
        &self.control().heap
    }

    /// Blocks in the lists.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn kept(&self) -> usize {
        let control = self.control();
        let places = sum(control.lists.iter().map(|list| list.places));
        sum((0..=MOST_GRANULES).map(|granules| Self::places(granules, control.list_bytes))) - places
    }

    /// Blocks of this number of granules that a list may have.
    #[inline(always)]
    const fn places(granules: usize, list_bytes: usize) -> usize {
        if granules * Self::GRANULE < H::CONTRACT.min_block_bytes { 0 } else { list_bytes / (granules * Self::GRANULE) }
    }

    /// Granules of the block for a request, which is not larger than [`LARGEST`](Self::LARGEST).
    #[inline(always)]
    fn granules_for(size_bytes: usize) -> usize {
        let granules = (size_bytes + H::CONTRACT.header_bytes + Self::GRANULE - 1) >> Self::GRANULE.ilog2();
        granules.max(H::CONTRACT.min_block_bytes / Self::GRANULE)
    }

    /// Usable bytes of blocks of this number of granules.
    #[inline(always)]
    const fn usable_bytes(granules: usize) -> usize {
        granules * Self::GRANULE - H::CONTRACT.header_bytes
    }

    /// Frees every block in the lists.
    ///
    /// # Time
    ///
    /// Bounded: at most [`MOST_BLOCKS`] deallocations of the inner heap with granules of 16 bytes, twice as many with
    /// granules of 8.
    #[cold]
    #[inline(never)]
    pub fn flush(&mut self) {
        // A list ends when it is empty, so an iteration frees a block or goes to the next list.
        const { assert!(most_blocks(8) + MOST_GRANULES < 8000) };
        let mut granules = 0;
        while let Some(taken) = self.take_next(&mut granules) {
            loop_bound!(LoopBound::Fixed(8000));
            if let Some(block) = taken {
                // SAFETY: the block was set aside, and no one uses it.
                unsafe { self.control_mut().heap.deallocate(block) };
            }
        }
    }

    /// Takes the first block of the list of this number of granules, which is live for the inner heap again, or goes to
    /// the next list, with a `None` within. `None` after the last list.
    #[inline(always)]
    fn take_next(&mut self, granules: &mut usize) -> Option<Option<NonNull<u8>>> {
        let Control { lists, heap, list_bytes, .. } = self.control_mut();
        let list = lists.get_mut(*granules)?;
        let Some(block) = NonNull::new(list.first) else {
            list.places = Self::places(*granules, *list_bytes);
            *granules += 1;
            return Some(None);
        };
        // SAFETY: blocks in the lists are set aside, begin with their link, and leave the list here. If the header was
        // overwritten, so may be the link.
        unsafe {
            let is_sound = heap.take_back(block, Self::usable_bytes(*granules));
            if is_sound {
                list.first = block.cast::<*mut u8>().read();
            } else {
                heap.report_overwritten(block);
                list.first = core::ptr::null_mut();
            }
            Some(is_sound.then_some(block))
        }
    }

    /// Allocates from the list of the size, at no alignment beyond that of all blocks; 0 bytes like 1.
    ///
    /// # Errors
    ///
    /// [`Remains`], and nothing has changed.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub(crate) fn allocate_kept(&mut self, size_bytes: usize) -> Result<NonNull<u8>, Remains> {
        if size_bytes > Self::LARGEST {
            return Err(Remains::Heap);
        }
        let Control { lists, heap, .. } = self.control_mut();
        let granules = Self::granules_for(size_bytes);
        // SAFETY: the request is not larger than the largest with a list.
        let list = unsafe { lists.get_unchecked_mut(granules) };
        let block = NonNull::new(list.first).ok_or(Remains::Heap)?;
        // SAFETY: blocks in the lists are set aside, and begin with their link.
        unsafe {
            if !heap.take_back(block, Self::usable_bytes(granules)) {
                return Err(Remains::Everything);
            }
            list.first = block.cast::<*mut u8>().read();
        }
        list.places += 1;
        Ok(block)
    }

    /// Empties the list of a size whose first block's header was overwritten, without following its link.
    #[cold]
    #[inline(never)]
    fn abandon(&mut self, size_bytes: usize) {
        let Control { lists, heap, list_bytes, .. } = self.control_mut();
        let granules = Self::granules_for(size_bytes);
        if let Some(list) = lists.get_mut(granules)
            && let Some(block) = NonNull::new(list.first)
        {
            heap.report_overwritten(block);
            *list = List { first: core::ptr::null_mut(), places: Self::places(granules, *list_bytes) };
        }
    }

    /// Allocates from the inner heap at no alignment beyond that of all blocks. Not inlined, so that a request that a
    /// list serves saves no registers.
    #[inline(never)]
    pub(crate) fn allocate_within(&mut self, size_bytes: usize) -> Option<NonNull<u8>> {
        self.control_mut().heap.allocate_bytes(size_bytes, 1).ok()
    }

    /// The heap's pointer in a register.
    #[inline(always)]
    fn by_value(&mut self) -> Self {
        Cached { control: self.control, region: PhantomData }
    }

    /// Allocates from the inner heap. Not inlined, and the heap by value, so that the fast path spills no registers.
    #[inline(never)]
    fn allocate_otherwise(mut self, size_bytes: usize, align_bytes: usize) -> PairResult<AllocError> {
        match self.control_mut().heap.allocate_bytes(size_bytes, align_bytes) {
            Err(AllocError::Exhausted) if !self.control().is_in_pieces => {
                self.allocate_flushed(size_bytes, align_bytes)
            }
            answer => answer.into(),
        }
    }

    /// As [`allocate_otherwise`](Self::allocate_otherwise), after all lists were emptied.
    #[cold]
    #[inline(never)]
    fn allocate_flushed(mut self, size_bytes: usize, align_bytes: usize) -> PairResult<AllocError> {
        self.flush();
        self.control_mut().heap.allocate_bytes(size_bytes, align_bytes).into()
    }

    /// As [`allocate_otherwise`](Self::allocate_otherwise), after the list of the size was abandoned.
    #[cold]
    #[inline(never)]
    fn allocate_anew(mut self, size_bytes: usize, align_bytes: usize) -> PairResult<AllocError> {
        self.abandon(size_bytes);
        self.allocate_otherwise(size_bytes, align_bytes)
    }

    /// Puts a block that is freed into the list of its size, and returns its bytes with the header. `None`, without an
    /// effect, if there is no place, or the inner heap would not free it. `is_inside` as in [`SetAside::held_bytes`].
    ///
    /// # Safety
    ///
    /// As [`SetAside::held_bytes`].
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub(crate) unsafe fn keep(&mut self, block: NonNull<u8>, is_inside: bool) -> Option<usize> {
        let Control { lists, heap, .. } = self.control_mut();
        // SAFETY: as the caller guarantees; the heap accepts none but its live blocks, up to the largest with a list.
        unsafe {
            let bytes = heap.held_bytes(block, Self::LARGEST, is_inside)? + H::CONTRACT.header_bytes;
            let list = lists.get_unchecked_mut(bytes / Self::GRANULE);
            if list.places == 0 {
                return None;
            }
            heap.set_aside(block);
            block.cast::<*mut u8>().write(list.first);
            list.first = block.as_ptr();
            list.places -= 1;
            Some(bytes)
        }
    }

    /// Frees a block in the inner heap.
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::deallocate`].
    #[inline(never)]
    unsafe fn deallocate_within(mut self, block: NonNull<u8>) {
        // SAFETY: as the caller guarantees.
        unsafe { self.control_mut().heap.deallocate(block) };
    }

    /// Refuses inner heaps whose blocks the lists would not fit.
    ///
    /// # Errors
    ///
    /// [`InitError::Configuration`].
    fn validate() -> Result<(), InitError> {
        let () = Self::VALID;
        for granules in 1..=MOST_GRANULES {
            let bytes = Self::usable_bytes(granules);
            if granules * Self::GRANULE >= H::CONTRACT.min_block_bytes && H::granted_bytes(bytes) != bytes {
                return Err(InitError::Configuration {
                    what: "a heap that grants small requests no more than they need",
                });
            }
        }
        Ok(())
    }

    /// Changes how many bytes each list has at most, before a block was freed.
    pub(crate) fn set_list_bytes(&mut self, list_bytes: usize) {
        let control = self.control_mut();
        control.list_bytes = list_bytes.min(LIST_BYTES);
        control.lists = Self::empty_lists(control.list_bytes);
    }

    /// Empty lists of so many bytes.
    fn empty_lists(list_bytes: usize) -> [List; MOST_GRANULES + 1] {
        core::array::from_fn(|granules| List {
            first: core::ptr::null_mut(),
            places: Self::places(granules, list_bytes),
        })
    }

    /// Verifies the lists; `walk` visits every block of the inner heap.
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::check`].
    fn verify_lists(&self, walk: &Walk<'_>) -> Result<(), Corruption> {
        let Control { lists, heap, start, end, list_bytes, .. } = self.control();
        let broken = |invariant, address| Err(Corruption { invariant, address });
        // Every block that is set aside is in one list once, if their numbers and the sums of their hashes are equal.
        let (mut aside, mut listed) = ((0_usize, 0_u64), (0_usize, 0_u64));
        walk(&mut |block| {
            let payload = block.address;
            let at = NonNull::new(core::ptr::with_exposed_provenance_mut(payload));
            // SAFETY: a block begins here.
            if at.is_some_and(|at| unsafe { heap.is_aside(at) }) {
                aside = (aside.0 + 1, aside.1.wrapping_add(mixed(payload, block.size_bytes / Self::GRANULE)));
            }
        });
        for (granules, list) in lists.iter().enumerate() {
            let places = Self::places(granules, *list_bytes);
            if list.places > places {
                return broken("a list has at most as many places as blocks fit", self.control.addr().get());
            }
            let mut block = list.first;
            for _ in list.places..places {
                let is_in_region = (*start..*end).contains(&block.addr()) && block.addr() % Self::GRANULE == 0;
                // SAFETY: an aligned address in the heap's memory, which a word of it precedes.
                if !is_in_region || !unsafe { heap.is_aside(NonNull::new_unchecked(block)) } {
                    return broken("a list leads to blocks that are set aside", block.addr());
                }
                listed = (listed.0 + 1, listed.1.wrapping_add(mixed(block.addr(), granules)));
                // SAFETY: the block is set aside, so it begins with its link.
                block = unsafe { block.cast::<*mut u8>().read() };
            }
            if !block.is_null() {
                return broken("a list ends where its places do", block.addr());
            }
        }
        if aside != listed {
            return broken("every block that is set aside is in the list of its size", self.control.addr().get());
        }
        Ok(())
    }

    /// Emits the lists.
    fn emit_lists(&self, word: &mut dyn FnMut(usize)) {
        for list in &self.control().lists {
            let mut block = list.first;
            while !block.is_null() {
                word(block.addr());
                // SAFETY: blocks in the lists begin with their link.
                block = unsafe { block.cast::<*mut u8>().read() };
            }
            word(list.places);
        }
    }
}

// SAFETY: a block comes from the inner heap, for which it is live, or from a list, which it leaves.
unsafe impl<'r, H: SetAside<'r>> RegionAllocator<'r> for Cached<'r, H> {
    type Config = CachedConfig<H::Config>;

    const CONTRACT: Contract = Contract {
        name: Self::JOINED.as_str(),
        coalescing: Coalescing::Deferred,
        // A freed neighbour may be in a list.
        grows_in_place: false,
        largest_is_exact: false,
        ..H::CONTRACT
    };

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        Self::validate()?;
        let end = region.as_ptr().addr() + region.len();
        let (control, heap) = divide::<Control<H>, H>(region, config.heap, 0, 0)?;
        let start = control.addr().get() + size_of::<Control<H>>();
        let list_bytes = config.list_bytes.min(LIST_BYTES);
        let lists = Self::empty_lists(list_bytes);
        // SAFETY: the place is in the region, aligned, and not used by the inner heap.
        unsafe { control.write(Control { lists, heap, start, end, list_bytes, is_in_pieces: false }) };
        Ok(Cached { control, region: PhantomData })
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if align_bytes <= H::CONTRACT.alignment_bytes && align_bytes.is_power_of_two() && size_bytes != 0 {
            match self.allocate_kept(size_bytes) {
                Ok(block) => return Ok(block),
                Err(Remains::Heap) => {}
                Err(Remains::Everything) => return self.by_value().allocate_anew(size_bytes, align_bytes).into(),
            }
        }
        self.by_value().allocate_otherwise(size_bytes, align_bytes).into()
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: as the caller guarantees; the heap reports a block that is none of its live ones.
        unsafe {
            if self.keep(block, false).is_none() {
                self.by_value().deallocate_within(block);
            }
        }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees that the block is live in the inner heap, which reports it otherwise.
        unsafe {
            match self.control_mut().heap.reallocate_bytes(block, size_bytes, align_bytes) {
                Err(AllocError::Exhausted) if !self.control().is_in_pieces => {
                    self.flush();
                    self.control_mut().heap.reallocate_bytes(block, size_bytes, align_bytes)
                }
                answer => answer,
            }
        }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe { self.control().heap.usable_size(block) }
    }

    fn largest_allocatable(&self) -> usize {
        self.control().heap.largest_allocatable()
    }

    /// None: the inner heap's would count blocks in the lists as live.
    fn stats(&self) -> Option<Stats> {
        None
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        self.control().heap.walk(visitor);
    }

    fn check(&self) -> Result<(), Corruption> {
        self.control().heap.check()?;
        self.verify_lists(&|visit| self.control().heap.walk(visit))
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.control().heap.fingerprint(word);
        self.emit_lists(word);
    }
}

/// Passes every block of a heap to its argument.
type Walk<'a> = dyn Fn(&mut dyn FnMut(Block)) + 'a;

/// A hash of a block's address and size.
fn mixed(address: usize, granules: usize) -> u64 {
    let mixed = (address as u64 ^ (granules as u64) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

// SAFETY: the sizes of live blocks do not change, and the inner heap tells blocks in the lists from live ones by a flag,
// which it writes atomically. The control structure's size is constant.
unsafe impl<'r, H: SetAside<'r>> Observable<'r> for Cached<'r, H> {
    #[inline(always)]
    unsafe fn looks_live(&self, address: NonNull<u8>) -> bool {
        // SAFETY: as the caller guarantees, for the inner heap: it is in the same region.
        unsafe { self.control().heap.looks_live(address) }
    }
}

impl<'r, H: SetAside<'r> + InPieces<'r>> Cached<'r, H> {
    /// As [`InPieces::deallocate_in_piece`], of the inner heap; nothing for `None`, so that two registers return it.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(never)]
    pub(crate) unsafe fn deallocate_within_piece(
        &mut self,
        block: NonNull<u8>,
        may_be_piece: impl FnOnce(&Range<usize>) -> bool,
    ) -> Range<usize> {
        // SAFETY: as the caller guarantees.
        unsafe { self.control_mut().heap.deallocate_in_piece(block, may_be_piece) }.unwrap_or(0..0)
    }
}

// SAFETY: the inner heap resizes its block.
unsafe impl<'r, H: SetAside<'r> + ResizeInPlace<'r>> ResizeInPlace<'r> for Cached<'r, H> {
    #[inline(always)]
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<bool, AllocError> {
        // SAFETY: as the caller guarantees.
        unsafe { self.control_mut().heap.resize_in_place(block, size_bytes, align_bytes) }
    }
}

// SAFETY: the control structure's parts do not overlap; all else is the inner heap's, for which blocks in the lists are
// live.
unsafe impl<'r, H: SetAside<'r> + InPieces<'r>> InPieces<'r> for Cached<'r, H> {
    const OVERHEAD_BYTES: usize = H::OVERHEAD_BYTES;

    const MOST_KEPT: usize = most_blocks(Self::GRANULE);

    fn bytes_without_pieces(piece_bytes: usize) -> usize {
        Self::FRONT_BYTES + H::bytes_without_pieces(piece_bytes)
    }

    unsafe fn without_pieces(
        control: &'r mut [MaybeUninit<u8>],
        span: Range<usize>,
        piece_bytes: usize,
    ) -> Result<Self, InitError> {
        Self::validate()?;
        let needed_bytes = Self::bytes_without_pieces(piece_bytes) + align_of::<Control<H>>() - 1;
        let gap = control.as_ptr().align_offset(align_of::<Control<H>>());
        let (Range { start, end }, list_bytes) = (span.clone(), LIST_BYTES);
        let parts = control.get_mut(gap..).and_then(|control| control.split_at_mut_checked(Self::FRONT_BYTES));
        let Some((front, inner)) = parts else { return Err(InitError::TooSmall { needed_bytes }) };
        // SAFETY: the caller guarantees it for this heap; the inner one's control structure is in the same memory.
        let heap = unsafe { H::without_pieces(inner, span, piece_bytes) }?;
        let control = NonNull::from(front).cast::<Control<H>>();
        let lists = Self::empty_lists(list_bytes);
        // SAFETY: the place is long enough, aligned, and not used by the inner heap.
        unsafe { control.write(Control { lists, heap, start, end, list_bytes, is_in_pieces: true }) };
        Ok(Cached { control, region: PhantomData })
    }

    #[inline(always)]
    fn piece_bytes(size_bytes: usize, align_bytes: usize) -> Option<usize> {
        H::piece_bytes(size_bytes, align_bytes)
    }

    #[inline(always)]
    unsafe fn lend(&mut self, piece: Range<usize>, size_bytes: usize, align_bytes: usize) -> NonNull<u8> {
        // SAFETY: as the caller guarantees.
        unsafe { self.control_mut().heap.lend(piece, size_bytes, align_bytes) }
    }

    #[inline(always)]
    unsafe fn is_empty(&self, piece: Range<usize>) -> bool {
        // SAFETY: as the caller guarantees.
        unsafe { self.control().heap.is_empty(piece) }
    }

    #[inline(always)]
    unsafe fn withdraw(&mut self, piece: Range<usize>) {
        // SAFETY: as the caller guarantees. An empty piece is one free block, which is not set aside.
        unsafe { self.control_mut().heap.withdraw(piece) }
    }

    #[inline(always)]
    unsafe fn deallocate_in_piece(
        &mut self,
        block: NonNull<u8>,
        may_be_piece: impl FnOnce(&Range<usize>) -> bool,
    ) -> Option<Range<usize>> {
        // SAFETY: as the caller guarantees. Which piece an address is in is for the owner of the pieces to check.
        unsafe {
            if self.keep(block, true).is_some() {
                return None;
            }
            let piece = self.deallocate_within_piece(block, may_be_piece);
            (!piece.is_empty()).then_some(piece)
        }
    }

    #[inline(always)]
    unsafe fn put_back(&mut self, left: Range<usize>) {
        // SAFETY: as the caller guarantees.
        unsafe { self.control_mut().heap.put_back(left) }
    }

    #[inline(always)]
    fn deallocate_kept(
        &mut self,
        place: &mut usize,
        may_be_piece: impl FnOnce(&Range<usize>) -> bool,
    ) -> Option<Option<Range<usize>>> {
        let taken = self.take_next(place)?;
        // SAFETY: the block was set aside, and no one uses it.
        Some(taken.map(|block| unsafe { self.deallocate_within_piece(block, may_be_piece) }))
    }

    unsafe fn walk_piece(&self, piece: Range<usize>, visitor: &mut dyn FnMut(Block)) {
        // SAFETY: as the caller guarantees.
        unsafe { self.control().heap.walk_piece(piece, visitor) }
    }

    unsafe fn check_pieces(&self, pieces: &Pieces<'_>) -> Result<(), Corruption> {
        let heap = &self.control().heap;
        // SAFETY: as the caller guarantees.
        unsafe { heap.check_pieces(pieces) }?;
        // SAFETY: as above.
        self.verify_lists(&|visit| pieces(&mut |piece| unsafe { heap.walk_piece(piece, visit) }))
    }

    fn fingerprint_of_index(&self, word: &mut dyn FnMut(usize)) {
        self.control().heap.fingerprint_of_index(word);
        self.emit_lists(word);
    }
}

impl<'r, H: SetAside<'r>> fmt::Debug for Cached<'r, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:p}", Self::JOINED.as_str(), self.control)
    }
}

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
//! default, at most 512 KiB. These blocks do not coalesce, so the heap needs more by more than their bytes: what lies
//! between them is divided.
//!
//! Misuse is found as by the inner heap: a block is put into a list only if the inner heap would free it. A header that
//! was overwritten in a list is reported when the block leaves it; that block and those behind it are never allocated
//! again, because the link may be overwritten, too.
//!
//! # When it wins, when it loses
//!
//! It is for programs that allocate and free small blocks of few sizes all the time, where the mean counts: the replaced
//! `malloc` has one in every arena. It wins nothing where sizes seldom recur, and loses where memory is short.

use super::front::{Name, divide};
use crate::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, InitError, LoopBound, Observable, RegionAllocator, SetAside,
    Stats, loop_bound,
};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Bytes of blocks in a list by default, and at most.
pub const LIST_BYTES: usize = 8192;
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

/// The control structure.
#[repr(C)]
struct Control<H> {
    /// By granules of the blocks; those below the smallest block stay empty.
    lists: [List; MOST_GRANULES + 1],
    heap: H,
    /// The region of the inner heap.
    start: usize,
    end: usize,
    /// Bytes of blocks in each list, at most.
    list_bytes: usize,
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
        let places = control.lists.iter().map(|list| list.places).sum::<usize>();
        (0..=MOST_GRANULES).map(|granules| Self::places(granules, control.list_bytes)).sum::<usize>() - places
    }

    /// Blocks of this number of granules that a list may have.
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
        const { assert!(most_blocks(8) + MOST_GRANULES < 4000) };
        let Control { lists, heap, list_bytes, .. } = self.control_mut();
        let mut granules = 0;
        while let Some(list) = lists.get_mut(granules) {
            loop_bound!(LoopBound::Fixed(4000));
            let Some(block) = NonNull::new(list.first) else {
                list.places = Self::places(granules, *list_bytes);
                granules += 1;
                continue;
            };
            // SAFETY: blocks in the lists are set aside, begin with their link, and are given up here.
            unsafe {
                if heap.take_back(block, Self::usable_bytes(granules)) {
                    list.first = block.cast::<*mut u8>().read();
                    heap.deallocate(block);
                } else {
                    list.first = core::ptr::null_mut();
                }
            }
        }
    }

    /// Empties a list whose first block's header was overwritten, without following its link.
    #[cold]
    #[inline(never)]
    fn abandon(&mut self, granules: usize) {
        let Control { lists, list_bytes, .. } = self.control_mut();
        if let Some(list) = lists.get_mut(granules) {
            *list = List { first: core::ptr::null_mut(), places: Self::places(granules, *list_bytes) };
        }
    }

    /// Allocates after the inner heap has refused.
    #[cold]
    #[inline(never)]
    fn allocate_again(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.flush();
        self.control_mut().heap.allocate_bytes(size_bytes, align_bytes)
    }

    /// Allocates from the inner heap.
    #[inline(always)]
    fn allocate_within(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        match self.control_mut().heap.allocate_bytes(size_bytes, align_bytes) {
            Err(AllocError::Exhausted) => self.allocate_again(size_bytes, align_bytes),
            answer => answer,
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
        let () = Self::VALID;
        for granules in 1..=MOST_GRANULES {
            let bytes = Self::usable_bytes(granules);
            if granules * Self::GRANULE >= H::CONTRACT.min_block_bytes && H::granted_bytes(bytes) != bytes {
                return Err(InitError::Configuration {
                    what: "a heap that grants small requests no more than they need",
                });
            }
        }
        let end = region.as_ptr().addr() + region.len();
        let (control, heap) = divide::<Control<H>, H>(region, config.heap, 0, 0)?;
        let start = control.addr().get() + size_of::<Control<H>>();
        let list_bytes = config.list_bytes.min(LIST_BYTES);
        let list = |granules| List { first: core::ptr::null_mut(), places: Self::places(granules, list_bytes) };
        // SAFETY: the place is in the region, aligned, and not used by the inner heap.
        unsafe { control.write(Control { lists: core::array::from_fn(list), heap, start, end, list_bytes }) };
        Ok(Cached { control, region: PhantomData })
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if size_bytes.wrapping_sub(1) < Self::LARGEST
            && align_bytes <= H::CONTRACT.alignment_bytes
            && align_bytes.is_power_of_two()
        {
            let Control { lists, heap, .. } = self.control_mut();
            let granules = Self::granules_for(size_bytes);
            // SAFETY: the request is not larger than the largest with a list.
            let list = unsafe { lists.get_unchecked_mut(granules) };
            if let Some(block) = NonNull::new(list.first) {
                // SAFETY: blocks in the lists are set aside, and begin with their link.
                unsafe {
                    if heap.take_back(block, Self::usable_bytes(granules)) {
                        list.first = block.cast::<*mut u8>().read();
                        list.places += 1;
                        return Ok(block);
                    }
                }
                self.abandon(granules);
            }
        }
        self.allocate_within(size_bytes, align_bytes)
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let Control { lists, heap, .. } = self.control_mut();
        // SAFETY: as the caller guarantees; the heap reports a block that is none of its live ones.
        unsafe {
            if let Some(bytes) = heap.held_bytes(block)
                && let Some(list) = lists.get_mut((bytes + H::CONTRACT.header_bytes) / Self::GRANULE)
                && list.places != 0
            {
                heap.set_aside(block);
                block.cast::<*mut u8>().write(list.first);
                list.first = block.as_ptr();
                list.places -= 1;
                return;
            }
            heap.deallocate(block);
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
                Err(AllocError::Exhausted) => {
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
        let Control { lists, heap, start, end, list_bytes } = self.control();
        heap.check()?;
        let broken = |invariant, address| Err(Corruption { invariant, address });
        // Every block that is set aside is in one list once, if their numbers and the sums of their hashes are equal.
        let (mut aside, mut listed) = ((0_usize, 0_u64), (0_usize, 0_u64));
        heap.walk(&mut |block| {
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

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        let Control { lists, heap, .. } = self.control();
        heap.fingerprint(word);
        for list in lists {
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

impl<'r, H: SetAside<'r>> fmt::Debug for Cached<'r, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:p}", Self::JOINED.as_str(), self.control)
    }
}

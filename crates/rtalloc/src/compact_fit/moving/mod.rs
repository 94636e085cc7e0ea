//! Compact-fit, moving: every object is contiguous, and compaction copies it.
//!
//! # Idea
//!
//! Pages of 16 KiB belong to size classes. An object is in a page-block of the smallest class that holds it, and its
//! handle leads to an entry with its address. When the object of a full page is freed while its class has the largest
//! allowed number of not-full pages, one other object of the class moves into the gap. Its entry is updated, which is
//! found through the number of the entry at the end of every page-block (Compact-fit 2008, sections 2.6, 3.2 and 3.4).
//! So a class never has more than max_nr_nf_pages pages that are not full, whatever was allocated and freed before.
//!
//! ```text
//! handle -> entry [ o ][generation][size][page-block]
//!                   |                                      page-block: [ object ...... | rest | number of the entry ]
//!                   '--> page [xxxx][xxxx][....][xxxx]                                         4 bytes
//! ```
//!
//! An access goes through the entry: one load more than through a pointer. Everything is found by constant arithmetic
//! from the heap's single pointer, the address of the first page; the module of the directory shows what is below it.
//!
//! # Incremental compaction
//!
//! With a number of bytes for `IOTA`, no operation moves more than that. A free that would have to move an object
//! leaves a gap instead, and compaction of the class is *pending*: every allocate, free and resize moves at most `IOTA`
//! bytes, one object at a time. The object stays where it is until the copy is complete. If it is written before, its
//! copy restarts, and another object of its page is moved instead if there is one. If it is freed, the copy is
//! discarded.
//!
//! ```text
//! first not-full page [..oo]            o remains the object       [...o]     copy complete: its entry leads to the
//! new place,
//! last not-full page  [x:xx]  : reserved, copied piece by piece    [xoxx]     the old one is free
//! ```
//!
//! A request that finds no page while compaction is pending is refused as pending, and compacts like any other.
//!
//! # Costs
//!
//! Making a heap is constant: 45 classes and a few words are written, whatever the region's size. Allocate is constant.
//! Free is constant if nothing moves, otherwise linear in the page-block. An object costs its page-block (at most an
//! eighth more than requested, plus 4 bytes, plus rounding) and 16 bytes of entry; a page costs 96 bytes of header.
//! Resizing copies an object whose class changes. An object that shrinks while no page is left keeps its page-block, so
//! shrinking never fails.
//!
//! # When it wins, when it loses
//!
//! It wins where memory must be predictable: the number of pages follows from the number of live objects of each class,
//! not from history. It loses if pointers must not change, if only a few objects of many sizes are live (each class has
//! its own page), and if objects are larger than a page.

pub(super) mod copy;
mod entries;
mod verify;
#[cfg(test)]
mod white_box;

use super::CompactFitConfig;
use super::classes::{self, Block, Given, PageBlocks, address_of};
use super::ladder::{DefaultLadder, Ladder, SizeClass};
use super::page::{Directory, Header};
use super::steps::{self, Steps, Stepwise};
use crate::contract::{
    AccessError, AllocError, Coalescing, Contract, Corruption, Cost, Fragmentation, Handle, HandleAllocator,
    HandleError, InitError, Mechanism, Object, ResizeError, Stats,
};
use crate::mechanism::stats::{NoStats, StatsPolicy};
use crate::region::Region;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::NonNull;
pub(super) use entries::ENTRY_BYTES;
use entries::{Entries, Entry, entry_at, pointer};

/// Bytes at the end of a page-block for the number of its object's entry.
pub(super) const BACK_BYTES: usize = size_of::<u32>();

/// The value of `IOTA` with which whole objects are moved at once.
pub const AT_ONCE: usize = usize::MAX;

/// The data of this variant next to the directory.
#[repr(C)]
#[derive(Debug)]
struct Extra<T> {
    /// The entries.
    entries: Entries,
    /// The pending classes, and the move in progress.
    steps: Steps,
    /// Statistics.
    stats: T,
}

type At<L, T> = Directory<L, Extra<T>>;

/// Compact-fit with contiguous objects that move, on the ladder `L`, with the statistics `T`. An operation moves at
/// most `IOTA` bytes, a multiple of 16, or whole objects if it is [`AT_ONCE`].
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::{CompactFit, HandleAllocator};
///
/// let mut memory = vec![MaybeUninit::uninit(); 1 << 17];
/// let mut heap: CompactFit = CompactFit::new(&mut memory, Default::default())?;
/// let handle = heap.allocate(100)?;
/// assert_eq!(heap.size(handle), Ok(100));
/// heap.free(handle)?;
/// assert!(heap.free(handle).is_err(), "a freed object's handle names nothing");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CompactFit<'r, L: Ladder = DefaultLadder, T: StatsPolicy = NoStats, const IOTA: usize = AT_ONCE> {
    /// Address of the first page; the control structure is below it, initialised.
    base: NonNull<u8>,
    region: PhantomData<(&'r mut [MaybeUninit<u8>], L, T)>,
}

// SAFETY: the heap owns its region exclusively for 'r and has no thread affinity.
unsafe impl<L: Ladder, T: StatsPolicy + Send, const IOTA: usize> Send for CompactFit<'_, L, T, IOTA> {}

// SAFETY: pages are taken from the pool and returned to it.
unsafe impl<L: Ladder, T: StatsPolicy> PageBlocks for At<L, T> {
    type Ladder = L;
    type Extra = Extra<T>;

    #[inline(always)]
    fn directory(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn open_page(self) -> Option<*mut Header> {
        // SAFETY: the heap is initialised, and so is its directory.
        unsafe { self.take_page() }
    }

    #[inline(always)]
    unsafe fn close_page(self, header: *mut Header) {
        // SAFETY: the page came from `open_page`, so it was taken, and it is in no ring.
        unsafe { self.give_page(header) }
    }

    #[inline(always)]
    unsafe fn move_object(self, size_class: &SizeClass, from: Block, to: Block) {
        let bytes = size_class.block_bytes as usize;
        // SAFETY: both page-blocks are of the class, on different pages; a used one ends with its entry's number.
        unsafe {
            let (source, target) = (address_of(self, bytes, from), address_of(self, bytes, to));
            copy::copy(source, target, bytes);
            update_entry(self, bytes, target, to.number);
        }
    }
}

// SAFETY: the steps are stored next to the directory, and are initialised with it.
unsafe impl<L: Ladder, T: StatsPolicy> Stepwise for At<L, T> {
    #[inline(always)]
    fn steps(self) -> *mut Steps {
        self.extra().wrapping_byte_add(offset_of!(Extra<T>, steps)).cast()
    }

    #[inline(always)]
    unsafe fn choose(self) -> Option<(usize, Block)> {
        // SAFETY: the heap is initialised, which the caller guarantees.
        unsafe { steps::first_object(self) }
    }

    #[inline(always)]
    unsafe fn copy(from: usize, to: usize, bytes: usize) {
        // SAFETY: the caller guarantees that the bytes are readable at `from` and writable at `to`, without overlap.
        unsafe { copy::copy(from, to, bytes) }
    }

    #[inline(always)]
    unsafe fn publish(self, bytes: usize, target: usize, number: usize) -> bool {
        // SAFETY: the page-block at `target` is a complete copy of one with an object.
        unsafe { update_entry(self, bytes, target, number) };
        true
    }
}

/// The number of the entry, at the end of the page-block of `bytes` at an address.
#[inline(always)]
fn back_reference(address: usize, bytes: usize) -> *mut u32 {
    core::ptr::with_exposed_provenance_mut(address.wrapping_add(bytes).wrapping_sub(BACK_BYTES))
}

/// Updates the entry of the object that was copied to an address.
///
/// # Safety
///
/// A copy of a page-block of `bytes` with an object is at the address.
#[inline(always)]
unsafe fn update_entry<L: Ladder, T>(directory: At<L, T>, bytes: usize, address: usize, block: usize) {
    // SAFETY: a page-block with an object ends with the number of a live entry.
    unsafe {
        let entry = entry_at(directory, back_reference(address, bytes).read());
        pointer(entry).write(address);
        (*entry).block = block as u16;
    }
}

/// The class and the page-block of a live entry's object.
///
/// # Safety
///
/// The entry is live.
#[inline(always)]
unsafe fn block_of<L: Ladder, T>(directory: At<L, T>, entry: *mut Entry) -> (usize, Block) {
    // SAFETY: a live entry leads into a page of a size class, which has a header.
    unsafe {
        let header = directory.header(directory.page_of(pointer(entry).read()));
        ((*header).state.class.into(), Block { header, number: (*entry).block.into() })
    }
}

/// The class of the page-blocks for a request.
///
/// # Safety
///
/// The request is from 1 to the largest.
#[inline(always)]
unsafe fn class_for<L: Ladder>(size_bytes: usize) -> usize {
    // SAFETY: the request is from 1 to the largest, so the sum is at most a page.
    unsafe { L::class_of(size_bytes.wrapping_add(BACK_BYTES)) }
}

impl<L: Ladder, T: StatsPolicy, const IOTA: usize> CompactFit<'_, L, T, IOTA> {
    const VALID: () = assert!(IOTA == AT_ONCE || (IOTA != 0 && IOTA.is_multiple_of(16)), "steps of whole 16 bytes");

    /// Whether a free moves a whole object.
    const MOVES_AT_ONCE: bool = IOTA == AT_ONCE;

    /// Largest request.
    const LARGEST_BYTES: usize = L::PAGE - BACK_BYTES;

    /// Bytes of a region that holds `pages` pages, for objects and entries, wherever it starts.
    pub const fn region_bytes(pages: usize) -> usize {
        At::<L, T>::needed_bytes(pages)
    }

    /// Pages of the region, in use or not.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn pages(&self) -> usize {
        // SAFETY: the heap is initialised, and so is its pool.
        unsafe { (*self.directory().pool()).room as usize }
    }

    /// The place that stores the address of an object's first byte, as a `usize`: the paper's abstract address, `void
    /// **` in C. Its value is valid until the next operation that takes the heap by `&mut self`; the place itself is
    /// valid until the object is freed. So a dereference is one load more than through a pointer (section 3.5), and is
    /// not checked.
    ///
    /// Reading the place is plain memory access. Through the address, bytes may be read; they may be written only if
    /// objects move [`AT_ONCE`], because an incremental move does not notice such a write.
    ///
    /// # Errors
    ///
    /// [`HandleError`].
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub fn abstract_address(&self, handle: Handle) -> Result<NonNull<usize>, HandleError> {
        // SAFETY: the heap is initialised; no entry is at address zero.
        unsafe {
            let (entry, _) = entries::find(self.directory(), handle)?;
            Ok(NonNull::new_unchecked(pointer(entry)))
        }
    }

    #[inline(always)]
    fn directory(&self) -> At<L, T> {
        At::at(self.base.addr().get())
    }

    #[inline(always)]
    fn stats_mut(&mut self) -> &mut T {
        let stats = self.directory().extra().wrapping_byte_add(offset_of!(Extra<T>, stats)).cast();
        // SAFETY: the statistics are initialised, and `&mut self` makes this the only reference to them.
        unsafe { &mut *stats }
    }

    /// Counts a refusal and returns its error.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, size_bytes: usize) -> AllocError {
        self.stats_mut().refused();
        match size_bytes {
            0 => AllocError::ZeroSize,
            _ if size_bytes > Self::LARGEST_BYTES => AllocError::TooLarge,
            // SAFETY: the heap is initialised.
            _ if !Self::MOVES_AT_ONCE && unsafe { steps::is_pending(self.directory()) } => AllocError::Pending,
            _ => AllocError::Exhausted,
        }
    }

    /// Allocates when a page is needed, for the page-block, the entry or both. Nothing changes before all of them are
    /// known to be available.
    ///
    /// # Safety
    ///
    /// The class is that of the size.
    #[inline(never)]
    unsafe fn allocate_with_pages(&mut self, size_bytes: usize, class: usize) -> Result<Handle, AllocError> {
        let directory = self.directory();
        // SAFETY: the heap is initialised; the first test ensures that a page-block can be taken.
        unsafe {
            if classes::last(directory, class).is_none()
                && directory.free_pages() <= u32::from(entries::first(directory).is_none())
                && !entries::take_back(directory, true)
            {
                return Err(self.refuse(size_bytes));
            }
            let Some(taken) = entries::take(directory) else {
                return Err(self.refuse(size_bytes));
            };
            let block = classes::take(directory, class).unwrap_unchecked();
            Ok(self.create_object(taken, class, block, size_bytes))
        }
    }

    /// Makes a new object of an entry and a page-block.
    ///
    /// # Safety
    ///
    /// Both were taken for the object.
    #[inline(always)]
    unsafe fn create_object(&mut self, taken: entries::Taken, class: usize, block: Block, size_bytes: usize) -> Handle {
        // SAFETY: entry and page-block were taken for the object; the heap is initialised.
        unsafe {
            if !Self::MOVES_AT_ONCE {
                steps::note(self.directory(), class);
            }
            self.init_object(taken, class, block, size_bytes)
        }
    }

    /// Puts an object into a page-block and makes its entry live.
    ///
    /// # Safety
    ///
    /// Entry and page-block were taken for the object.
    #[inline(always)]
    unsafe fn init_object(&mut self, taken: entries::Taken, class: usize, block: Block, size_bytes: usize) -> Handle {
        let directory = self.directory();
        // SAFETY: entry and page-block were taken for the object, so both may be written.
        unsafe {
            let bytes = L::size_class(class).block_bytes as usize;
            let address = address_of(directory, bytes, block);
            back_reference(address, bytes).write(taken.address);
            pointer(taken.entry).write(address);
            (*taken.entry).generation = taken.generation.get();
            (*taken.entry).size = size_bytes as u16;
            (*taken.entry).block = block.number as u16;
            self.stats_mut().allocated(bytes - BACK_BYTES, address.wrapping_add(bytes).wrapping_sub(directory.base()));
        }
        Handle::new(taken.address, taken.generation)
    }

    /// Frees the page-block of a removed object.
    ///
    /// # Safety
    ///
    /// The page-block is used, of this class, and no live entry leads to it.
    #[inline(always)]
    unsafe fn free_block(&mut self, class: usize, block: Block) {
        let directory = self.directory();
        // SAFETY: the page-block is used, of this class, and no live entry leads to it.
        unsafe {
            let given = classes::give(directory, class, block, Self::MOVES_AT_ONCE);
            debug_assert!(!Self::MOVES_AT_ONCE || given != Given::Pending);
            self.stats_mut().freed(L::size_class(class).block_bytes as usize - BACK_BYTES);
            if !Self::MOVES_AT_ONCE {
                steps::note(directory, class);
            }
        }
    }

    /// Moves an object to a page-block of another class, truncated to the smaller of the two.
    ///
    /// # Safety
    ///
    /// The entry is live, and `old` is its page-block.
    #[inline(always)]
    unsafe fn move_to_class(&mut self, entry: *mut Entry, address: u32, old: (usize, Block), new: (usize, Block)) {
        let directory = self.directory();
        // SAFETY: the entry is live. The page-blocks are of different classes, so they do not overlap.
        unsafe {
            let (old_bytes, new_bytes) = (L::size_class(old.0).block_bytes, L::size_class(new.0).block_bytes);
            let target = address_of(directory, new_bytes as usize, new.1);
            copy::copy(pointer(entry).read(), target, old_bytes.min(new_bytes) as usize);
            back_reference(target, new_bytes as usize).write(address);
            pointer(entry).write(target);
            (*entry).block = new.1.number as u16;
            let end = target.wrapping_add(new_bytes as usize).wrapping_sub(directory.base());
            self.stats_mut().allocated(new_bytes as usize - BACK_BYTES, end);
            self.free_block(old.0, old.1);
        }
    }
}

// SAFETY: page-blocks are parts of pages that belong to one class each. An object's bytes are copied before its entry
// changes, and back references lie after the largest object of a page-block.
unsafe impl<'r, L: Ladder, T: StatsPolicy, const IOTA: usize> HandleAllocator<'r> for CompactFit<'r, L, T, IOTA> {
    type Config = CompactFitConfig;

    const CONTRACT: Contract = Contract {
        name: "compact-fit",
        source: "Compact-fit 2008, sections 2 and 3.2",
        policy: "last not-full page of the class",
        mechanism: Mechanism::CompactFit,
        granule_bytes: L::GRAIN,
        header_bytes: 0,
        alignment_bytes: L::GRAIN,
        min_block_bytes: L::TABLE[0].block_bytes as usize,
        splitting_threshold_bytes: 0,
        max_span_bytes: At::<L, T>::MOST_BYTES,
        largest_request_bytes: Self::LARGEST_BYTES,
        largest_alignment_bytes: L::GRAIN,
        page_bytes: L::PAGE,
        coarsest_bytes: 0,
        allocate: if IOTA == AT_ONCE { Cost::Constant } else { Cost::LinearInBlock },
        deallocate: Cost::LinearInBlock,
        reallocate: Cost::LinearInBlock,
        coalescing: Coalescing::Pages,
        grows_in_place: false,
        shrinks_in_place: false,
        detects_double_free: true,
        detects_stale_pointers: true,
        detects_overwritten_tags: false,
        largest_is_exact: true,
        largest_covers_smaller: false,
    };

    const IS_CONTIGUOUS: bool = true;

    const PIECE_BYTES: usize = usize::MAX;

    fn new(memory: &'r mut [MaybeUninit<u8>], config: CompactFitConfig) -> Result<Self, InitError> {
        const { Self::VALID };
        let max_span_bytes = At::<L, T>::MOST_BYTES;
        if memory.len() > max_span_bytes {
            return Err(InitError::OutOfReach { max_span_bytes });
        }
        // One page for entries and one for objects.
        let planned = At::<L, T>::plan(memory.as_ptr().addr(), memory.len()).filter(|&(_, pages)| pages >= 2);
        let Some((directory, pages)) = planned else {
            return Err(InitError::TooSmall { needed_bytes: At::<L, T>::needed_bytes(2) });
        };
        let Some(base) = NonNull::new(core::ptr::with_exposed_provenance_mut(directory.base())) else {
            return Err(InitError::TooSmall { needed_bytes: At::<L, T>::needed_bytes(2) });
        };
        // Exposes the provenance of the region, which the heap keeps.
        let _ = Region::new(memory);
        // SAFETY: the directory was planned in the region, which the heap owns.
        unsafe {
            directory.begin(pages as u32, &|class| config.max_not_full(class));
            entries::begin(directory);
            steps::begin(directory);
            directory.extra().wrapping_byte_add(offset_of!(Extra<T>, stats)).cast::<T>().write(T::default());
        }
        Ok(CompactFit { base, region: PhantomData })
    }

    #[inline(always)]
    fn allocate(&mut self, size_bytes: usize) -> Result<Handle, AllocError> {
        if size_bytes.wrapping_sub(1) >= Self::LARGEST_BYTES {
            return Err(self.refuse(size_bytes));
        }
        let directory = self.directory();
        // SAFETY: the heap is initialised, and the size is at most the largest request, so it has a class.
        unsafe {
            if !Self::MOVES_AT_ONCE {
                steps::pay(directory, IOTA);
            }
            let class = class_for::<L>(size_bytes);
            let (Some(page), Some(last)) = (entries::first(directory), classes::last(directory, class)) else {
                return self.allocate_with_pages(size_bytes, class);
            };
            let taken = entries::take_from(directory, page);
            let block = classes::take_from(directory, class, last);
            Ok(self.create_object(taken, class, block, size_bytes))
        }
    }

    #[inline(always)]
    fn free(&mut self, handle: Handle) -> Result<(), HandleError> {
        let directory = self.directory();
        // SAFETY: the heap is initialised; a live entry leads to its page-block.
        unsafe {
            let (entry, header) = entries::find(directory, handle)?;
            let (class, block) = block_of(directory, entry);
            if !Self::MOVES_AT_ONCE {
                steps::drop_move_of(directory, block);
            }
            entries::free(directory, entry, header);
            self.free_block(class, block);
            if !Self::MOVES_AT_ONCE {
                steps::pay(directory, IOTA);
            }
        }
        Ok(())
    }

    fn resize(&mut self, handle: Handle, size_bytes: usize) -> Result<(), ResizeError> {
        let directory = self.directory();
        // SAFETY: the heap is initialised; a live entry leads to its page-block.
        unsafe {
            let (entry, _) = entries::find(directory, handle)?;
            if size_bytes.wrapping_sub(1) >= Self::LARGEST_BYTES {
                return Err(self.refuse(size_bytes).into());
            }
            if !Self::MOVES_AT_ONCE {
                steps::pay(directory, IOTA);
            }
            let (old_class, old) = block_of(directory, entry);
            let class = class_for::<L>(size_bytes);
            if class != old_class {
                if classes::last(directory, class).is_none() && directory.free_pages() == 0 {
                    entries::take_back(directory, false);
                }
                match classes::take(directory, class) {
                    Some(new) => {
                        if !Self::MOVES_AT_ONCE {
                            steps::drop_move_of(directory, old);
                            steps::note(directory, class);
                        }
                        self.move_to_class(entry, handle.address(), (old_class, old), (class, new));
                    }
                    None if class > old_class => return Err(self.refuse(size_bytes).into()),
                    // A smaller object still fits its page-block.
                    None => {}
                }
            }
            (*entry).size = size_bytes as u16;
        }
        Ok(())
    }

    #[inline(always)]
    fn size(&self, handle: Handle) -> Result<usize, HandleError> {
        // SAFETY: the heap is initialised.
        unsafe { entries::find(self.directory(), handle).map(|(entry, _)| (*entry).size.into()) }
    }

    #[inline(always)]
    fn locate(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError> {
        // SAFETY: the heap is initialised; a live entry leads to its object.
        unsafe {
            let (entry, _) = entries::find(self.directory(), handle)?;
            let size_bytes = usize::from((*entry).size);
            if offset_bytes >= size_bytes {
                return Err(AccessError::OutOfBounds { size_bytes });
            }
            Ok((self.dereference(handle, offset_bytes), size_bytes - offset_bytes))
        }
    }

    #[inline(always)]
    fn locate_mut(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError> {
        let located = self.locate(handle, offset_bytes)?;
        if !Self::MOVES_AT_ONCE {
            let directory = self.directory();
            // SAFETY: `locate` found the handle's entry live.
            unsafe { steps::restart_move_of(directory, block_of(directory, entry_at(directory, handle.address())).1) };
        }
        Ok(located)
    }

    #[inline(always)]
    unsafe fn dereference(&self, handle: Handle, offset_bytes: usize) -> NonNull<u8> {
        // SAFETY: the caller guarantees that the handle's entry is live; no object is at address zero.
        unsafe {
            let address = pointer(entry_at(self.directory(), handle.address())).read().wrapping_add(offset_bytes);
            NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address))
        }
    }

    fn pending_bytes(&self) -> usize {
        if Self::MOVES_AT_ONCE {
            return 0;
        }
        // SAFETY: the heap is initialised.
        unsafe { steps::pending_bytes(self.directory()) }
    }

    fn compact(&mut self, budget_bytes: usize) -> usize {
        let mut moved = 0;
        if !Self::MOVES_AT_ONCE {
            // SAFETY: the heap is initialised.
            unsafe {
                loop {
                    let piece = steps::pay(self.directory(), budget_bytes - moved);
                    if piece == 0 {
                        break;
                    }
                    moved += piece;
                }
            }
        }
        moved
    }

    fn largest_allocatable(&self) -> usize {
        let directory = self.directory();
        // SAFETY: the heap is initialised.
        unsafe {
            let (entry, page) = entries::supply(directory);
            if page {
                return Self::LARGEST_BYTES;
            }
            let not_full = |&class: &usize| (*directory.record(class)).not_full != 0;
            match (0..L::CLASSES).rev().find(not_full) {
                Some(class) if entry => L::size_class(class).block_bytes as usize - BACK_BYTES,
                _ => 0,
            }
        }
    }

    fn stats(&self) -> Option<Stats> {
        let stats = self.directory().extra().wrapping_byte_add(offset_of!(Extra<T>, stats)).cast::<T>();
        // SAFETY: the statistics are initialised, and `&self` excludes a mutable reference to them.
        unsafe { (*stats).stats(self.largest_allocatable()) }
    }

    fn fragmentation(&self) -> Fragmentation {
        verify::fragmentation(self.directory())
    }

    fn walk(&self, visitor: &mut dyn FnMut(Object)) {
        verify::walk(self.directory(), visitor);
    }

    fn check(&self) -> Result<(), Corruption> {
        verify::check(self.directory(), !Self::MOVES_AT_ONCE)
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        verify::fingerprint(self.directory(), word);
    }
}

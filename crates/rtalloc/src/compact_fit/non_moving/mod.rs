//! The non-moving variant: objects stay where they are, and compaction moves table entries.
//!
//! # Idea
//!
//! (Compact-fit 2008, section 3.3.) Pages, size classes and page-blocks are those of the [moving variant](super), but
//! they are *virtual*: a page contains no data. Its page-blocks consist of blocks of the size of a *block-frame*, and
//! the page's block table maps each block to a frame; the frames of an object can be anywhere. So an object is
//! allocated frame by frame. Compaction keeps at most max_nr_nf_pages pages of a class not full; it copies the table
//! entries of an object and not its bytes.
//!
//! ```text
//!  handle ---.             virtual page, class 96 = 3 frames                     block-frames
//!  entry k   v             [header][bitmap][ block table                 ]       k    [object, bytes   0 .. 31]
//!  [ where . | gen | size ]                [ k  x  y |  .  .  . | p  q  r ]      ...  [another]
//!          '------------------------------>  ^------------------------------->   x    [object, bytes  32 .. 63]
//! ```
//!
//! The abstract address of an object is the *ordinal of its first frame*, k. The entry k follows from the first word of
//! its page-block, so data needs no reference back to entries, and an abstract address needs no search.
//!
//! ```text
//! region: [page of frames][page of frames] ->   ...   <- [header and block table 1][header and block table 0][classes]
//!          entries of its frames before them                                                             base of the heap ^
//! ```
//!
//! Frames are taken from one end of the region and virtual pages from the other, on demand: their numbers need not be
//! known beforehand, and only the classes are initialised. A page of frames stays one, and so does a virtual page;
//! [`NonMovingConfig::reserved_pages`] reserves room for virtual pages from the beginning.
//!
//! # Costs
//!
//! | | |
//! |---|---|
//! | allocate | linear in the frames of the size class |
//! | free | constant, because the frames of an object are a chain; linear, 4 B per frame, if it compacts. The paper's is always linear |
//! | resize | linear in the frames; no byte of the object is copied, because it keeps its frames |
//! | dereference | one load for the entry, one for the table, one for the base |
//! | memory, per frame | 10 B of entry (where the object begins 4, generation 4, requested size 2), 4 B of block table |
//! | memory, per virtual page | a header: 96 B for 16 KiB and classes from 32 B on, on 64 bits |
//! | compaction | moves 4 B per frame of one object, in the free that requires it: compaction is never [pending](HandleAllocator::pending_bytes) |
//!
//! The paper's entries have 4 bytes and no generation; its abstract address space and block tables are preallocated.
//!
//! # When it wins, when it loses
//!
//! A free page-block costs only its words in the block table: size-external fragmentation is 4/`FRAME` of the moving
//! variant's. Objects never move, so a device may write to their frames, and with frames of 32 bytes, compaction copies
//! an eighth of the bytes. It loses if objects are accessed as one piece, if allocation must be constant, and for small
//! objects in large frames.

mod blocks;
mod frames;
#[cfg(test)]
mod tests;
mod verify;

use super::CompactFitConfig;
use super::classes;
use super::free_list::NONE;
use super::ladder::{DefaultLadder, Framed, Ladder};
use super::page::Directory;
use crate::contract::{
    AccessError, AllocError, Contract, Corruption, Cost, Fragmentation, Handle, HandleAllocator, HandleError,
    InitError, LoopBound, Mechanism, Object, ResizeError, Stats, loop_bound,
};
use crate::mechanism::page::page_contract;
use crate::mechanism::stats::{NoStats, StatsPolicy};
use crate::region::Region;
use blocks::{Blocks, Own, copy_words};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroU32;
use core::ptr::NonNull;
use frames::{Frames, USED_UP};

/// Compact-fit that never moves objects, on the ladder `L`, in block-frames of `FRAME` bytes, a power of two of at
/// least 16, with the statistics `T`.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::{CompactFitNonMoving, HandleAllocator};
///
/// let mut memory = [MaybeUninit::uninit(); 64 * 1024];
/// let mut heap: CompactFitNonMoving = CompactFitNonMoving::new(&mut memory, Default::default())?;
/// let object = heap.allocate(100)?;
/// // Bytes 40 to 63 are in one piece: the rest of the second block-frame.
/// let (_, len_bytes) = heap.locate(object, 40)?;
/// assert_eq!(len_bytes, 24);
/// heap.free(object)?;
/// assert!(heap.free(object).is_err());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CompactFitNonMoving<'r, L = DefaultLadder, const FRAME: usize = 32, T = NoStats> {
    /// The base of the directory: after the last byte of the classes, which are at the end of the region.
    base: NonNull<u8>,
    kinds: PhantomData<(&'r mut [MaybeUninit<u8>], L, T)>,
}

// SAFETY: the heap owns its region exclusively for 'r and has no thread affinity.
unsafe impl<L, const FRAME: usize, T: Send> Send for CompactFitNonMoving<'_, L, FRAME, T> {}

/// Options of a non-moving heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonMovingConfig {
    /// How many pages of each size class may be not full.
    pub compaction: CompactFitConfig,
    /// Virtual pages whose room no frame may take, however many frames large objects used: with the number computed by
    /// [`guarantee`](super::guarantee), whether a request succeeds does not depend on history. Further virtual pages
    /// take the room that frames leave.
    pub reserved_pages: u32,
}

impl From<CompactFitConfig> for NonMovingConfig {
    fn from(compaction: CompactFitConfig) -> Self {
        NonMovingConfig { compaction, reserved_pages: 0 }
    }
}

impl<L: Ladder, const FRAME: usize, T: StatsPolicy> CompactFitNonMoving<'_, L, FRAME, T> {
    /// Pages of frames that an object of the largest size takes.
    const LARGEST_PAGES: usize = Frames::<L, FRAME>::PER_PAGE.div_ceil(Frames::<L, FRAME>::IN_PAGE);

    /// Block-frames in a page of frames.
    pub const FRAMES_PER_PAGE: usize = Frames::<L, FRAME>::IN_PAGE;

    /// Bytes of a region for this many virtual pages and block-frames, wherever it starts.
    pub const fn region_bytes(virtual_pages: usize, frames: usize) -> usize {
        let pages = frames.div_ceil(Self::FRAMES_PER_PAGE);
        let least = if pages < Self::LARGEST_PAGES { Self::LARGEST_PAGES } else { pages };
        Self::needed_bytes(if virtual_pages == 0 { 1 } else { virtual_pages }, least)
    }

    /// Length of a region for this many virtual pages and pages of frames, wherever it starts.
    const fn needed_bytes(virtual_pages: usize, frame_pages: usize) -> usize {
        let fixed = Directory::<Framed<L, FRAME>, Own<L, FRAME, T>>::FIXED;
        let header = Directory::<Framed<L, FRAME>, Own<L, FRAME, T>>::HEADER;
        let pages_bytes = frame_pages.saturating_mul(L::PAGE).saturating_add(virtual_pages.saturating_mul(header));
        pages_bytes.saturating_add(fixed + FRAME - 1 + align_of::<usize>() - 1)
    }

    /// The heap at the pointer.
    #[inline(always)]
    fn blocks(&self) -> Blocks<L, FRAME, T> {
        Blocks { directory: Directory::at(self.base.addr().get()) }
    }

    /// The statistics, mutably.
    #[inline(always)]
    fn stats_mut(&mut self) -> &mut T {
        // SAFETY: the variant's data is initialised and only this heap's; `&mut self` makes this the only reference.
        unsafe { &mut (*self.blocks().own()).stats }
    }

    /// Counts a refusal and returns its error. Cold, so that the hot path needs only one jump to it.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: AllocError) -> AllocError {
        self.stats_mut().refused();
        error
    }

    /// Refuses a size that is zero or larger than a page.
    #[cold]
    #[inline(never)]
    fn refuse_size(&mut self, size_bytes: usize) -> AllocError {
        self.refuse(if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge })
    }

    /// Counts an object that became live or changed its class.
    #[inline(always)]
    fn count_allocated(&mut self, count: usize) {
        let end_bytes = self.blocks().frames().list.fresh as usize * FRAME;
        self.stats_mut().allocated(count * FRAME, end_bytes);
    }
}

// SAFETY: a frame is in the free list or belongs to one object; frames lie in the region, before all headers.
unsafe impl<'r, L: Ladder, const FRAME: usize, T: StatsPolicy> HandleAllocator<'r>
    for CompactFitNonMoving<'r, L, FRAME, T>
{
    type Config = NonMovingConfig;

    const CONTRACT: Contract = Contract {
        name: "compact-fit-non-moving",
        source: "Compact-fit 2008, sections 2 and 3.3",
        policy: "last not-full page of the class, any block-frames",
        mechanism: Mechanism::CompactFit,
        max_span_bytes: if usize::BITS > 34 { (4usize << 16) << 16 } else { usize::MAX },
        largest_request_bytes: L::PAGE,
        largest_alignment_bytes: FRAME,
        allocate: Cost::LinearInBlock,
        deallocate: Cost::LinearInBlock,
        reallocate: Cost::LinearInBlock,
        shrinks_in_place: true,
        ..page_contract(L::PAGE, FRAME)
    };

    const IS_CONTIGUOUS: bool = false;

    const PIECE_BYTES: usize = FRAME;

    fn new(region: &'r mut [MaybeUninit<u8>], config: NonMovingConfig) -> Result<Self, InitError> {
        let max_span_bytes = Self::CONTRACT.max_span_bytes;
        if region.len() > max_span_bytes {
            return Err(InitError::OutOfReach { max_span_bytes });
        }
        let reserved_pages = config.reserved_pages.max(1);
        let needed_bytes = Self::needed_bytes(reserved_pages as usize, Self::LARGEST_PAGES);
        let too_small = InitError::TooSmall { needed_bytes };
        let start = region.as_ptr().addr();
        let end = (start + region.len()) & !(align_of::<usize>() - 1);
        let fixed = Directory::<Framed<L, FRAME>, Own<L, FRAME, T>>::FIXED;
        let header = Directory::<Framed<L, FRAME>, Own<L, FRAME, T>>::HEADER;
        let frames = Frames::plan(start).ok_or(too_small)?;
        let room_bytes = end.checked_sub(fixed).and_then(|end| end.checked_sub(frames.base)).ok_or(too_small)?;
        let least_bytes = Self::LARGEST_PAGES * L::PAGE;
        let pages = u32::try_from(room_bytes / header).unwrap_or(u32::MAX);
        let reserved_bytes = (reserved_pages as usize).checked_mul(header).ok_or(too_small)?;
        if room_bytes.checked_sub(reserved_bytes).is_none_or(|rest_bytes| rest_bytes < least_bytes) {
            return Err(too_small);
        }
        let _region = Region::new(region);
        let base: NonNull<u8> = NonNull::new(core::ptr::with_exposed_provenance_mut(end)).ok_or(too_small)?;
        let heap = CompactFitNonMoving { base, kinds: PhantomData };
        let blocks = heap.blocks();
        // SAFETY: the fixed part lies in the region, before the base, and the heap owns the region.
        unsafe {
            blocks.own().write(Own { frames, reserved_pages, stats: T::default() });
            blocks.directory.begin(pages, &|class| config.compaction.max_not_full(class));
            blocks.frames_mut().capacity = frames.capacity_up_to(blocks.end_now()).unwrap_or(0);
        }
        Ok(heap)
    }

    #[inline(always)]
    fn allocate(&mut self, size_bytes: usize) -> Result<Handle, AllocError> {
        if size_bytes.wrapping_sub(1) >= L::PAGE {
            return Err(self.refuse_size(size_bytes));
        }
        let blocks = self.blocks();
        // SAFETY: the size is at most that of a page; the page-block that was taken has a word for each frame.
        unsafe {
            let class = Framed::<L, FRAME>::class_of(size_bytes);
            let count = Blocks::<L, FRAME, T>::frames_of(Framed::<L, FRAME>::size_class(class));
            let Some(block) = blocks.take_block(class, count) else { return Err(self.refuse(AllocError::Exhausted)) };
            let table = Blocks::<L, FRAME, T>::table(block, count);
            let frames = blocks.frames_mut();
            frames.take(table, count);
            let entry = Frames::<L, FRAME>::entry_of(table.read());
            frames.link(entry).write(frames.words_to(table.addr()));
            frames.size(entry).write(size_bytes.wrapping_sub(1) as u16);
            // Odd from now on: a used-up entry is never taken.
            let generation = frames.generation(entry).read() | 1;
            frames.generation(entry).write(generation);
            self.count_allocated(count);
            Ok(Handle::new(entry, NonZeroU32::new_unchecked(generation)))
        }
    }

    #[inline(always)]
    fn free(&mut self, handle: Handle) -> Result<(), HandleError> {
        let blocks = self.blocks();
        let entry = blocks.find(handle)?;
        // SAFETY: the object is live, so it has a page-block with a word for each of its frames.
        unsafe {
            let table = blocks.table_of(entry);
            let (block, class, count) = blocks.block_of(table);
            let frames = blocks.frames_mut();
            let generation = handle.generation().wrapping_add(1);
            frames.generation(entry).write(generation);
            frames.give(table, count, generation == USED_UP);
            classes::give(blocks, class, block, true);
            self.stats_mut().freed(count * FRAME);
        }
        Ok(())
    }

    /// The object keeps the frames that it still needs, always including the first, so none of its bytes is copied:
    ///
    /// ```text
    /// class of 64: [k  x]  ->  class of 96: [k  x  y]      y is a free frame; shrinking returns it
    /// ```
    fn resize(&mut self, handle: Handle, size_bytes: usize) -> Result<(), ResizeError> {
        let blocks = self.blocks();
        let entry = blocks.find(handle)?;
        if size_bytes.wrapping_sub(1) >= L::PAGE {
            return Err(self.refuse_size(size_bytes).into());
        }
        // SAFETY: the object is live, so its page-block has a word for each of its frames, and so does the new one.
        unsafe {
            let old_table = blocks.table_of(entry);
            let (old_block, old_class, old_count) = blocks.block_of(old_table);
            let class = Framed::<L, FRAME>::class_of(size_bytes);
            if class != old_class {
                let count = Blocks::<L, FRAME, T>::frames_of(Framed::<L, FRAME>::size_class(class));
                let more = count.saturating_sub(old_count);
                match blocks.take_block(class, more) {
                    Some(block) => {
                        let table = Blocks::<L, FRAME, T>::table(block, count);
                        let kept = count.min(old_count);
                        copy_words(old_table, table, kept);
                        let frames = blocks.frames_mut();
                        if more != 0 {
                            frames.take(table.wrapping_add(kept), more);
                            frames.chain(
                                table.wrapping_add(kept).wrapping_sub(1).read(),
                                table.wrapping_add(kept).read(),
                            );
                        } else {
                            frames.give(old_table.wrapping_add(kept), old_count.wrapping_sub(kept), false);
                        }
                        blocks.set_start(table);
                        classes::give(blocks, old_class, old_block, true);
                        self.stats_mut().freed(old_count * FRAME);
                        self.count_allocated(count);
                    }
                    None if class > old_class => return Err(self.refuse(AllocError::Exhausted).into()),
                    // A smaller object stays in its page-block, with all its frames.
                    None => {}
                }
            }
            blocks.frames().size(entry).write(size_bytes.wrapping_sub(1) as u16);
        }
        Ok(())
    }

    #[inline(always)]
    fn size(&self, handle: Handle) -> Result<usize, HandleError> {
        let blocks = self.blocks();
        let entry = blocks.find(handle)?;
        // SAFETY: `find` returned the entry of a live object, which is initialised.
        Ok(usize::from(unsafe { blocks.frames().size(entry).read() }).wrapping_add(1))
    }

    #[inline(always)]
    fn locate(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError> {
        let size_bytes = self.size(handle)?;
        if offset_bytes >= size_bytes {
            return Err(AccessError::OutOfBounds { size_bytes });
        }
        let piece_bytes = FRAME.wrapping_sub(offset_bytes % FRAME);
        // SAFETY: the object is live and larger than the offset.
        let address = unsafe { self.blocks().address_of(handle.address(), offset_bytes) };
        Ok((address, piece_bytes.min(size_bytes.wrapping_sub(offset_bytes))))
    }

    #[inline(always)]
    fn locate_mut(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError> {
        self.locate(handle, offset_bytes)
    }

    #[inline(always)]
    unsafe fn dereference(&self, handle: Handle, offset_bytes: usize) -> NonNull<u8> {
        // SAFETY: the caller guarantees that the object is live and larger than the offset.
        unsafe { self.blocks().address_of(handle.address(), offset_bytes) }
    }

    /// Always 0: a free compacts immediately, and moves only table entries.
    #[inline(always)]
    fn pending_bytes(&self) -> usize {
        0
    }

    /// Moves nothing, because compaction is never pending.
    #[inline(always)]
    fn compact(&mut self, _: usize) -> usize {
        0
    }

    fn largest_allocatable(&self) -> usize {
        let blocks = self.blocks();
        // SAFETY: the directory is initialised, so every class has a record; the classes are the ladder's.
        unsafe {
            let list = (*blocks.directory.pool()).list;
            let frames = blocks.frames();
            let with_page = frames.capacity.wrapping_sub(frames.taken) as usize;
            let with_new_page = match list.returned == NONE {
                true => {
                    let capacity = frames.capacity_up_to(blocks.end(list.fresh.wrapping_add(1)));
                    capacity.map_or(0, |capacity| capacity.wrapping_sub(frames.taken) as usize)
                }
                false => with_page,
            };
            for class in (0..Framed::<L, FRAME>::CLASSES).rev() {
                loop_bound!(LoopBound::Fixed(128));
                let record = blocks.directory.record(class);
                let size_class = Framed::<L, FRAME>::size_class(class);
                let most = if (*record).not_full != 0 { with_page } else { with_new_page };
                if Blocks::<L, FRAME, T>::frames_of(size_class) <= most {
                    return size_class.block_bytes as usize;
                }
            }
        }
        0
    }

    fn stats(&self) -> Option<Stats> {
        // SAFETY: the variant's data is initialised.
        unsafe { (*self.blocks().own()).stats.stats(self.largest_allocatable()) }
    }

    fn fragmentation(&self) -> Fragmentation {
        self.blocks().fragmentation()
    }

    fn walk(&self, visitor: &mut dyn FnMut(Object)) {
        self.blocks().walk(visitor);
    }

    fn check(&self) -> Result<(), Corruption> {
        self.blocks().check()
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.blocks().fingerprint(word);
    }
}

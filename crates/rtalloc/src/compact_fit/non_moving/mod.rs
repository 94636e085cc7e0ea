//! The non-moving variant: objects stay where they are, and compaction moves table entries.
//!
//! # Idea
//!
//! (Compact-fit 2008, section 3.3.) Pages, size classes and page-blocks are those of the [moving variant](super), but they are
//! *virtual*: a page has no data. Its page-blocks are made of blocks as large as the memory's *block-frames*, and the page's
//! block table says which frame each block is; the frames of an object lie anywhere. So an object is allocated frame by frame,
//! and compaction, which keeps at most max_nr_nf_pages pages of a class not full, copies the table entries of an object and not
//! its bytes.
//!
//! ```text
//!  handle ---.             virtual page, class 96 = 3 frames                     block-frames
//!  entry k   v             [header][bitmap][ block table                 ]       k    [object, bytes   0 .. 31]
//!  [ where . | gen | size ]                [ k  x  y |  .  .  . | p  q  r ]      ...  [another]
//!          '------------------------------>  ^------------------------------->   x    [object, bytes  32 .. 63]
//! ```
//!
//! The abstract address of an object is the *ordinal of its first frame*, k: the entry of k is found from the first word of its
//! page-block, so nothing leads back from data to entries, and an abstract address needs no search of its own.
//!
//! ```text
//! region: [page of frames][page of frames] ->   ...   <- [header and block table 1][header and block table 0][classes]
//!          entries of its frames in front                                                                base of the heap ^
//! ```
//!
//! Frames are taken from one end of the region and virtual pages from the other, each as it is needed: nothing says beforehand
//! how many of each there will be, and nothing is initialised but the classes. What was a page of frames stays one, and
//! what was a virtual page, too; [`NonMovingConfig::reserved_pages`] keeps room for virtual pages from the beginning.
//!
//! # Costs
//!
//! | | |
//! |---|---|
//! | allocate | linear in the frames of the size class |
//! | free | constant, because the frames of an object are a chain; linear, 4 B per frame, when it compacts. The paper's is linear always |
//! | resize | linear in the frames; no byte of the object is copied, because its frames stay its own |
//! | dereference | a load for the entry, one for the table, one for the base of everything |
//! | memory, per frame | 10 B of entry (where the object begins 4, generation 4, requested size 2), 4 B of block table |
//! | memory, per virtual page | a header: 96 B for 16 KiB and classes from 32 B on, on 64 bits |
//! | compaction | moves 4 B per frame of one object, in the free that needs it: nothing is ever [owed](HandleAllocator::owed_bytes) |
//!
//! The paper's entries have 4 bytes and no generation; its abstract address space and block tables are allocated beforehand.
//!
//! # When it wins, when it loses
//!
//! A free page-block costs its block table's words and no memory: size-external fragmentation is 4/`FRAME` of the moving variant's.
//! Objects never move, so a device may write to their frames, and compaction is eight times less to copy with frames of 32 bytes. It
//! loses where objects are accessed as one piece, where allocation must be constant, and for small objects in large frames.

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
    InitError, Mechanism, Object, ResizeError, Stats,
};
use crate::mechanism::page::page_contract;
use crate::mechanism::tally::{Tally, Untallied};
use crate::region::Region;
use blocks::{Blocks, Own, copy_words};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroU32;
use core::ptr::NonNull;
use frames::{Frames, USED_UP};

/// Compact-fit that moves no object: on the ladder `L` in block-frames of `FRAME` bytes, a power of two from 16 on, keeping the
/// statistics `T`.
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
pub struct CompactFitNonMoving<'r, L = DefaultLadder, const FRAME: usize = 32, T = Untallied> {
    /// The base of the directory: behind the last byte of the classes, which are at the end of the region.
    base: NonNull<u8>,
    kinds: PhantomData<(&'r mut [MaybeUninit<u8>], L, T)>,
}

// SAFETY: the heap owns its region exclusively for 'r and has no thread affinity.
unsafe impl<L, const FRAME: usize, T: Send> Send for CompactFitNonMoving<'_, L, FRAME, T> {}

/// What can be chosen when a non-moving heap is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonMovingConfig {
    /// How many pages of each size class may be not full.
    pub compaction: CompactFitConfig,
    /// Virtual pages whose room no frame may take, however full of large objects memory was: with the number that
    /// [`guarantee`](super::guarantee) tells, what can be allocated does not depend on history. More are taken of what frames
    /// leave.
    pub reserved_pages: u32,
}

impl From<CompactFitConfig> for NonMovingConfig {
    fn from(compaction: CompactFitConfig) -> Self {
        NonMovingConfig { compaction, reserved_pages: 0 }
    }
}

impl<L: Ladder, const FRAME: usize, T: Tally> CompactFitNonMoving<'_, L, FRAME, T> {
    /// Pages of frames that an object of the largest size takes.
    const LARGEST_PAGES: usize = Frames::<L, FRAME>::PER_PAGE.div_ceil(Frames::<L, FRAME>::IN_PAGE);

    /// Block-frames of a page of them.
    pub const FRAMES_PER_PAGE: usize = Frames::<L, FRAME>::IN_PAGE;

    /// Bytes of a region that holds so many virtual pages and block-frames, wherever it starts.
    pub const fn region_bytes(virtual_pages: usize, frames: usize) -> usize {
        let pages = frames.div_ceil(Self::FRAMES_PER_PAGE);
        let least = if pages < Self::LARGEST_PAGES { Self::LARGEST_PAGES } else { pages };
        Self::needed_bytes(if virtual_pages == 0 { 1 } else { virtual_pages }, least)
    }

    /// Length of a region for so many virtual pages and pages of frames, wherever it starts.
    const fn needed_bytes(virtual_pages: usize, frame_pages: usize) -> usize {
        let fixed = Directory::<Framed<L, FRAME>, Own<L, FRAME, T>>::FIXED;
        let header = Directory::<Framed<L, FRAME>, Own<L, FRAME, T>>::HEADER;
        let pages_bytes = frame_pages.saturating_mul(L::PAGE).saturating_add(virtual_pages.saturating_mul(header));
        pages_bytes.saturating_add(fixed + FRAME - 1 + align_of::<usize>() - 1)
    }

    /// What is behind the pointer.
    #[inline(always)]
    fn blocks(&self) -> Blocks<L, FRAME, T> {
        Blocks { directory: Directory::at(self.base.addr().get()) }
    }

    /// The tally, to be changed.
    #[inline(always)]
    fn tally_mut(&mut self) -> &mut T {
        // SAFETY: what the variant keeps is initialised, and this heap's alone.
        unsafe { &mut (*self.blocks().own()).tally }
    }

    /// Counts and answers a refusal. Cold, so that the hot path has one jump to it.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: AllocError) -> AllocError {
        self.tally_mut().refused();
        error
    }

    /// Why a size beyond the page, or zero, is refused.
    #[cold]
    #[inline(never)]
    fn refuse_size(&mut self, size_bytes: usize) -> AllocError {
        self.refuse(if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge })
    }

    /// Tallies an object that became live, or is of another class from now on.
    #[inline(always)]
    fn tally_allocated(&mut self, count: usize) {
        let end_bytes = self.blocks().frames().list.fresh as usize * FRAME;
        self.tally_mut().allocated(count * FRAME, end_bytes);
    }
}

// SAFETY: a frame is in the list of free ones or one object's; frames lie in the region, in front of all headers.
unsafe impl<'r, L: Ladder, const FRAME: usize, T: Tally> HandleAllocator<'r> for CompactFitNonMoving<'r, L, FRAME, T> {
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
        // SAFETY: the fixed part lies in the region, in front of the base; nobody else's is there.
        unsafe {
            blocks.own().write(Own { frames, reserved_pages, tally: T::default() });
            blocks.directory.begin(pages, &|class| config.compaction.most_not_full(class));
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
        // SAFETY: the size is that of a page at the most; the page-block that was taken has a word for each frame.
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
            // Odd from now on: an entry that is used up never comes here.
            let generation = frames.generation(entry).read() | 1;
            frames.generation(entry).write(generation);
            self.tally_allocated(count);
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
            self.tally_mut().freed(count * FRAME);
        }
        Ok(())
    }

    /// The object keeps the frames that it still needs, the first one always, so no byte of it is copied:
    ///
    /// ```text
    /// class of 64: [k  x]  ->  class of 96: [k  x  y]      y is a free frame, or given back the other way round
    /// ```
    fn resize(&mut self, handle: Handle, size_bytes: usize) -> Result<(), ResizeError> {
        let blocks = self.blocks();
        let entry = blocks.find(handle)?;
        if size_bytes.wrapping_sub(1) >= L::PAGE {
            return Err(self.refuse_size(size_bytes).into());
        }
        // SAFETY: the object is live, so it has a page-block with a word for each of its frames, and so has the new one.
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
                        blocks.begins_at(table);
                        classes::give(blocks, old_class, old_block, true);
                        self.tally_mut().freed(old_count * FRAME);
                        self.tally_allocated(count);
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
        // SAFETY: the entry is initialised.
        Ok(usize::from(unsafe { blocks.frames().size(entry).read() }).wrapping_add(1))
    }

    #[inline(always)]
    fn locate(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError> {
        let size_bytes = self.size(handle)?;
        if offset_bytes >= size_bytes {
            return Err(AccessError::OutOfBounds { size_bytes });
        }
        let piece_bytes = FRAME.wrapping_sub(offset_bytes % FRAME);
        // SAFETY: the object is live, and larger than the offset.
        let address = unsafe { self.blocks().address_of(handle.address(), offset_bytes) };
        Ok((address, piece_bytes.min(size_bytes.wrapping_sub(offset_bytes))))
    }

    #[inline(always)]
    fn locate_to_write(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError> {
        self.locate(handle, offset_bytes)
    }

    #[inline(always)]
    unsafe fn dereference(&self, handle: Handle, offset_bytes: usize) -> NonNull<u8> {
        // SAFETY: the caller's promise.
        unsafe { self.blocks().address_of(handle.address(), offset_bytes) }
    }

    /// Always 0: a free compacts at once, and moves table entries only.
    #[inline(always)]
    fn owed_bytes(&self) -> usize {
        0
    }

    /// Moves nothing: nothing is owed.
    #[inline(always)]
    fn compact(&mut self, _: usize) -> usize {
        0
    }

    fn largest_allocatable(&self) -> usize {
        let blocks = self.blocks();
        // SAFETY: the directory has begun, so every class has a record; the classes are the ladder's.
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
            // turns: 128
            for class in (0..Framed::<L, FRAME>::CLASSES).rev() {
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
        // SAFETY: what the variant keeps is initialised.
        unsafe { (*self.blocks().own()).tally.stats(self.largest_allocatable()) }
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

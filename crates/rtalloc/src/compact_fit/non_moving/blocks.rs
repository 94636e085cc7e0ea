//! Virtual pages: page-blocks that consist of words of a block table, and the operations on them.

use super::frames::{Entry, Frame, Frames};
use crate::compact_fit::classes::{self, Block, PageBlocks};
use crate::compact_fit::free_list::NONE;
use crate::compact_fit::ladder::{Framed, Ladder, SizeClass};
use crate::compact_fit::moving::copy;
use crate::compact_fit::page::{Directory, Header, block_table_at};
use crate::contract::{Handle, HandleError, LoopBound, loop_bound};
use crate::mechanism::stats::StatsPolicy;
use core::num::NonZeroU32;
use core::ptr::NonNull;

/// The data of the variant next to the directory.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Own<L, const FRAME: usize, T> {
    /// The frames, from the start of the region on.
    pub(super) frames: Frames<L, FRAME>,
    /// Number of virtual pages for which frames leave room.
    pub(super) reserved_pages: u32,
    pub(super) stats: T,
}

/// The heap at the pointer.
#[derive(Debug)]
pub(super) struct Blocks<L, const FRAME: usize, T> {
    pub(super) directory: Directory<Framed<L, FRAME>, Own<L, FRAME, T>>,
}

impl<L, const FRAME: usize, T> Clone for Blocks<L, FRAME, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L, const FRAME: usize, T> Copy for Blocks<L, FRAME, T> {}

// SAFETY: the directory is initialised when a heap is made; its pages come from the pool.
unsafe impl<L: Ladder, const FRAME: usize, T: StatsPolicy> PageBlocks for Blocks<L, FRAME, T> {
    type Ladder = Framed<L, FRAME>;
    type Extra = Own<L, FRAME, T>;

    #[inline(always)]
    fn directory(self) -> Directory<Framed<L, FRAME>, Own<L, FRAME, T>> {
        self.directory
    }

    #[inline(always)]
    unsafe fn open_page(self) -> Option<*mut Header> {
        // SAFETY: the directory is initialised.
        unsafe {
            let list = (*self.directory.pool()).list;
            if list.returned == NONE {
                // `[frames ...   ][header 1][header 0] -> [frames ...][header 2][header 1][header 0]`
                let end = self.end(list.fresh.wrapping_add(1));
                self.frames_mut().capacity = self.frames().capacity_up_to(end)?;
            }
            self.directory.take_page()
        }
    }

    #[inline(always)]
    unsafe fn close_page(self, header: *mut Header) {
        // SAFETY: the page came from `open_page`, so it was taken, and it is in no ring.
        unsafe { self.directory.give_page(header) }
    }

    /// The object keeps its frames: `[.  .  .][k  x  y] -> [k  x  y][.  .  .]`, and entry k is updated.
    #[inline(always)]
    unsafe fn move_object(self, size_class: &SizeClass, from: Block, to: Block) {
        let count = Self::frames_of(size_class);
        // SAFETY: both page-blocks have `count` words; the first one's frame has an entry.
        unsafe {
            let (from, to) = (Self::table(from, count), Self::table(to, count));
            copy_words(from, to, count);
            self.set_start(to);
        }
    }
}

/// Copies table entries.
///
/// # Safety
///
/// Both have this many words, and do not overlap.
#[inline(always)]
pub(super) unsafe fn copy_words(from: *const Frame, to: *mut Frame, count: usize) {
    let (from, to, bytes) = (from.addr(), to.addr(), count.wrapping_mul(size_of::<Frame>()));
    let mut done = 0;
    // SAFETY: both have `count` words and do not overlap; the copy ends at the last word.
    unsafe {
        while bytes.wrapping_sub(done) >= 64 {
            loop_bound!(LoopBound::PageGranules { per_iteration: 16 });
            copy::line(from.wrapping_add(done), to.wrapping_add(done));
            done = done.wrapping_add(64);
        }
        copy::rest(from.wrapping_add(done), to.wrapping_add(done), bytes.wrapping_sub(done));
    }
}

impl<L: Ladder, const FRAME: usize, T: StatsPolicy> Blocks<L, FRAME, T> {
    /// Offset of the block table in a header.
    const TABLE_AT: usize = block_table_at::<Framed<L, FRAME>>();

    /// Number of frames of an object of a class.
    #[inline(always)]
    pub(super) fn frames_of(size_class: &SizeClass) -> usize {
        size_class.block_bytes as usize / FRAME
    }

    /// The first word of a page-block of `count` frames.
    #[inline(always)]
    pub(super) fn table(block: Block, count: usize) -> *mut Frame {
        let table: *mut Frame = block.header.cast::<u8>().wrapping_add(Self::TABLE_AT).cast();
        table.wrapping_add(block.number.wrapping_mul(count))
    }

    /// The data of the variant.
    #[inline(always)]
    pub(super) fn own(self) -> *mut Own<L, FRAME, T> {
        self.directory.extra()
    }

    /// The frames.
    #[inline(always)]
    pub(super) fn frames<'a>(self) -> &'a Frames<L, FRAME> {
        // SAFETY: they are initialised, and are changed only through `frames_mut`, without another reference.
        unsafe { &(*self.own()).frames }
    }

    /// The frames, mutably.
    #[inline(always)]
    pub(super) fn frames_mut<'a>(self) -> &'a mut Frames<L, FRAME> {
        // SAFETY: they are initialised, and callers use no other reference to them at the same time.
        unsafe { &mut (*self.own()).frames }
    }

    /// Address before this many headers of virtual pages, or before the reserved ones if more: the limit for frames.
    #[inline(always)]
    pub(super) fn end(self, pages: u32) -> usize {
        // SAFETY: the heap is initialised, and so is the variant's data.
        let reserved_pages = unsafe { (*self.own()).reserved_pages };
        self.directory.header((pages.max(reserved_pages) as usize).wrapping_sub(1)).addr()
    }

    /// The current limit for frames.
    pub(super) fn end_now(self) -> usize {
        // SAFETY: the directory is initialised.
        self.end(unsafe { (*self.directory.pool()).list.fresh })
    }

    /// Takes a page-block for an object that is about to take `more` frames. `None` without a page or enough frames.
    ///
    /// # Safety
    ///
    /// `class` is one of the ladder's.
    #[inline(always)]
    pub(super) unsafe fn take_block(self, class: usize, more: usize) -> Option<Block> {
        // The frames count as taken during the search for a page, which might otherwise take their room.
        let frames = self.frames_mut();
        frames.count_taken(more);
        // SAFETY: `class` is one of the ladder's, which the caller guarantees.
        let block = if frames.taken <= frames.capacity { unsafe { classes::take(self, class) } } else { None };
        self.frames_mut().count_given(more);
        block
    }

    /// Stores in the entry of an object at which word of a block table it begins.
    ///
    /// # Safety
    ///
    /// The word is the first one of its page-block.
    #[inline(always)]
    pub(super) unsafe fn set_start(self, table: *mut Frame) {
        let frames = self.frames();
        // SAFETY: the word is the number of a frame that was taken, so the frame has an entry.
        unsafe { frames.link(Frames::<L, FRAME>::entry_of(table.read())).write(frames.words_to(table.addr())) }
    }

    /// The page-block that begins at a word, its class, and the frames of an object of it.
    ///
    /// # Safety
    ///
    /// The word is the first one of a used page-block.
    #[inline(always)]
    pub(super) unsafe fn block_of(self, table: *mut Frame) -> (Block, usize, usize) {
        // Headers are counted downwards from the fixed part, and a word is never a header's first byte.
        let top = self.directory.header(usize::MAX).addr();
        let page = top.wrapping_sub(table.addr()) / Directory::<Framed<L, FRAME>, Own<L, FRAME, T>>::HEADER;
        let header = self.directory.header(page);
        let words = table.addr().wrapping_sub(header.addr()).wrapping_sub(Self::TABLE_AT) / size_of::<Frame>();
        // SAFETY: the page is one of a class, and every page-block has at least one frame.
        unsafe {
            let class = usize::from((*header).state.class);
            let count = Self::frames_of(Framed::<L, FRAME>::size_class(class));
            let number = words as u32 / NonZeroU32::new_unchecked(count as u32);
            (Block { header, number: number as usize }, class, count)
        }
    }

    /// The entry of a handle, if its object is live.
    #[inline(always)]
    pub(super) fn find(self, handle: Handle) -> Result<Entry, HandleError> {
        let (entry, generation) = (handle.address(), handle.generation());
        let frames = self.frames();
        // SAFETY: `has_entry` accepts only initialised entries.
        if frames.has_entry(entry) && unsafe { frames.generation(entry).read() } == generation && generation & 1 != 0 {
            return Ok(entry);
        }
        Err(self.handle_error(handle))
    }

    /// The error for a handle without a live object.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_error(self, handle: Handle) -> HandleError {
        let (entry, generation) = (handle.address(), handle.generation());
        let frames = self.frames();
        // SAFETY: `has_entry` accepts only initialised entries.
        let was_given =
            generation & 1 != 0 && frames.has_entry(entry) && generation < unsafe { frames.generation(entry).read() };
        if was_given { HandleError::Stale } else { HandleError::Foreign }
    }

    /// The first word of a live object's page-block.
    ///
    /// # Safety
    ///
    /// The entry is that of a live object.
    #[inline(always)]
    pub(super) unsafe fn table_of(self, entry: Entry) -> *mut Frame {
        let frames = self.frames();
        // SAFETY: the link of a live object's entry is the word where its page-block begins.
        frames.word(unsafe { frames.link(entry).read() })
    }

    /// The address of a byte of a live object.
    ///
    /// # Safety
    ///
    /// The entry is that of a live object larger than the offset.
    #[inline(always)]
    pub(super) unsafe fn address_of(self, entry: Entry, offset_bytes: usize) -> NonNull<u8> {
        // SAFETY: the object has a word for each of its frames. No frame is at address zero.
        unsafe {
            let frame = self.table_of(entry).wrapping_add(offset_bytes / FRAME).read();
            let address = self.frames().address(frame).wrapping_add(offset_bytes % FRAME);
            NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address))
        }
    }
}

//! Block-frames, and the entries of the abstract address space next to them.
//!
//! The frames are in pages, which are taken upwards from the start of the room, one frame after the other. A page of
//! frames begins with the entries of its frames, in three arrays, so that an entry has ten bytes and not twelve:
//!
//! ```text
//! page: [links, 4 B each][generations, 4 B each][sizes, 2 B each][ ][frame][frame] ... [frame]
//!        ^ entry of i     ^                      ^                   ^ frame i
//! ```
//!
//! A frame is identified by its number, counted in frames from the start of the room; an entry by the place of its
//! link, counted in words. Each follows from the other, so neither is stored: this is the paper's implicit reference
//! (section 3.3).
//!
//! For the first frame of a live object, the entry's link is the word of a block table where the object begins. For any
//! other frame, it is the next frame in the free list or in the object. So an object's frames keep the chain they had
//! in the free list, and return to it as a whole, in constant time; the paper returns them frame by frame:
//!
//! ```text
//! free: a -> b -> c -> d -> e        take 3: the object [a b c], b -> c      free: d -> e
//! give: c's link is d, a's is b      free: a -> b -> c -> d -> e
//! ```
//!
//! The bytes of a frame contain only object data: freeing does not touch them, and sixteen links share a cache line.

use crate::compact_fit::free_list::{FreeList, NONE};
use crate::compact_fit::ladder::Ladder;
use crate::contract::{LoopBound, loop_bound};
use crate::region::round_up;
use core::cell::Cell;
use core::marker::PhantomData;

/// Number of a frame.
pub(super) type Frame = u32;

/// Place of an entry, which a handle contains.
pub(super) type Entry = u32;

/// The generation of an entry that is never used again: even, like that of a free entry, and larger than any other.
pub(super) const USED_UP: u32 = u32::MAX - 1;

impl<L, const FRAME: usize> Clone for Frames<L, FRAME> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L, const FRAME: usize> Copy for Frames<L, FRAME> {}

/// Block-frames of `FRAME` bytes in pages of the ladder's size.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Frames<L, const FRAME: usize> {
    /// Address of the first page, a multiple of `FRAME`, from which frames and words are counted.
    pub(super) base: usize,
    /// The free frames. Every number below `fresh` is a frame with an entry, unless entries are at its place.
    pub(super) list: FreeList,
    /// Frames of live objects, and used-up frames: neither are in the list.
    pub(super) taken: u32,
    /// Number of frames that fit before the headers, in use or not: at least `taken`.
    pub(super) capacity: u32,
    ladder: PhantomData<L>,
}

impl<L: Ladder, const FRAME: usize> Frames<L, FRAME> {
    /// Frames that a page would hold without entries.
    pub(super) const PER_PAGE: usize = L::PAGE / FRAME;
    /// Bytes of an entry.
    const ENTRY_BYTES: usize = 10;
    /// Number of frames whose room the entries at the start of a page take.
    const FIRST: u32 = (Self::PER_PAGE * Self::ENTRY_BYTES).div_ceil(FRAME + Self::ENTRY_BYTES) as u32;
    /// Frames of a page.
    pub(super) const IN_PAGE: usize = Self::PER_PAGE - Self::FIRST as usize;
    /// Bits of a frame's number for its place in the page.
    const PLACE: u32 = Self::PER_PAGE as u32 - 1;
    /// Bits of an entry's number for its place in the page.
    const ENTRY_PLACE: u32 = (L::PAGE / 4) as u32 - 1;

    /// Plans frames from `start` on, without regard to their end.
    pub(super) fn plan(start: usize) -> Option<Self> {
        let base = round_up(start, FRAME)?;
        Some(Frames { base, list: FreeList::EMPTY, taken: 0, capacity: 0, ladder: PhantomData })
    }

    /// The word with this number, counted from the first page.
    #[inline(always)]
    pub(super) fn word(&self, words: u32) -> *mut u32 {
        core::ptr::with_exposed_provenance_mut(self.base.wrapping_add(words as usize * 4))
    }

    /// Number of words from the first page to an address.
    #[inline(always)]
    pub(super) fn words_to(&self, address: usize) -> u32 {
        (address.wrapping_sub(self.base) / 4) as u32
    }

    /// The address of a frame.
    #[inline(always)]
    pub(super) fn address(&self, frame: Frame) -> usize {
        self.base.wrapping_add(frame as usize * FRAME)
    }

    /// The entry of a frame: the implicit reference.
    #[inline(always)]
    pub(super) fn entry_of(frame: Frame) -> Entry {
        let place = frame & Self::PLACE;
        let page_words = (frame ^ place).wrapping_mul((FRAME / 4) as u32);
        page_words.wrapping_add(place).wrapping_sub(Self::FIRST)
    }

    /// The frame of an entry.
    #[inline(always)]
    fn frame_of(entry: Entry) -> Frame {
        let place = entry & Self::ENTRY_PLACE;
        ((entry ^ place) / (FRAME / 4) as u32).wrapping_add(place).wrapping_add(Self::FIRST)
    }

    /// Whether a number is the place of an initialised entry.
    #[inline(always)]
    pub(super) fn has_entry(&self, entry: Entry) -> bool {
        entry & Self::ENTRY_PLACE < Self::IN_PAGE as u32 && Self::frame_of(entry) < self.list.fresh
    }

    /// Whether a number is that of a frame that has been taken before.
    pub(super) fn is_frame(&self, frame: Frame) -> bool {
        frame & Self::PLACE >= Self::FIRST && frame < self.list.fresh
    }

    /// The link of an entry.
    #[inline(always)]
    pub(super) fn link(&self, entry: Entry) -> *mut u32 {
        self.word(entry)
    }

    /// The generation of an entry: odd while its object is live.
    #[inline(always)]
    pub(super) fn generation(&self, entry: Entry) -> *mut u32 {
        self.word(entry).wrapping_add(Self::IN_PAGE)
    }

    /// Bytes requested for an entry's object, minus one.
    #[inline(always)]
    pub(super) fn size(&self, entry: Entry) -> *mut u16 {
        let place = entry & Self::ENTRY_PLACE;
        let sizes = self.word(entry ^ place).wrapping_add(2 * Self::IN_PAGE);
        sizes.cast::<u16>().wrapping_add(place as usize)
    }

    /// The capacity if pages of frames may extend to `end`. `None` if a page that has been taken ends after it, or if
    /// more frames are taken.
    #[inline(always)]
    pub(super) fn capacity_up_to(&self, end: usize) -> Option<u32> {
        let pages = end.wrapping_sub(self.base) / L::PAGE;
        let capacity = pages.wrapping_mul(Self::IN_PAGE) as u32;
        (self.reach() <= end && self.taken <= capacity).then_some(capacity)
    }

    /// Address after the last page of frames that has been taken.
    #[inline(always)]
    pub(super) fn reach(&self) -> usize {
        self.address(self.list.fresh.wrapping_add(Self::PLACE) & !Self::PLACE)
    }

    /// Counts frames as taken.
    #[inline(always)]
    pub(super) fn count_taken(&mut self, count: usize) {
        self.taken = self.taken.wrapping_add(count as u32);
    }

    /// Counts frames as no longer taken.
    #[inline(always)]
    pub(super) fn count_given(&mut self, count: usize) {
        self.taken = self.taken.wrapping_sub(count as u32);
    }

    /// Takes frames: returned ones first, in LIFO order, then new ones in order. Stores their numbers at `numbers`.
    ///
    /// # Safety
    ///
    /// The total of frames taken does not exceed the capacity; `numbers` has room for `count` numbers.
    ///
    /// # Time
    ///
    /// Linear in the count.
    #[inline(always)]
    pub(super) unsafe fn take(&mut self, numbers: *mut Frame, count: usize) {
        self.count_taken(count);
        // A copy, which the compiler knows no store of a number to change.
        let frames = *self;
        let mut list = self.list;
        let mut last = None;
        let mut index = 0;
        while index != count {
            loop_bound!(LoopBound::PageGranules { per_iteration: 1 });
            // SAFETY: a frame in the list has an entry, whose link leads to the next one.
            let returned = list.take_returned(|frame| unsafe { frames.link(Self::entry_of(frame)).read() });
            let frame = match returned {
                Some(frame) => frame,
                None => {
                    // A page begins with entries.
                    let skipped = if list.fresh & Self::PLACE == 0 { Self::FIRST } else { 0 };
                    let frame = list.fresh.wrapping_add(skipped);
                    list.fresh = frame.wrapping_add(1);
                    // SAFETY: the capacity covers the frame, so its page has frames, and the entry is its own.
                    unsafe {
                        frames.generation(Self::entry_of(frame)).write(0);
                        if let Some(last) = last {
                            frames.link(last).write(frame);
                        }
                    }
                    frame
                }
            };
            // SAFETY: `index` is below `count`, for which `numbers` has room.
            unsafe { numbers.wrapping_add(index).write(frame) };
            last = Some(Self::entry_of(frame));
            index = index.wrapping_add(1);
        }
        self.list = list;
    }

    /// Links a frame of an object, except its first one, to the next one.
    ///
    /// # Safety
    ///
    /// Both are frames that were taken, and belong to the object.
    #[inline(always)]
    pub(super) unsafe fn chain(&self, frame: Frame, next: Frame) {
        // SAFETY: the frame was taken, so it has an entry.
        unsafe { self.link(Self::entry_of(frame)).write(next) }
    }

    /// Returns the last frames of an object, or all of them. If the first one `is_used_up`, it is never used again.
    ///
    /// # Safety
    ///
    /// The numbers are those of frames that were taken; each but the first leads to the next, and no object uses them
    /// from now on. There is at least one.
    ///
    /// # Time
    ///
    /// Constant, or linear in the frames with [`FrameByFrame`](crate::compact_fit::FrameByFrame).
    #[inline(always)]
    pub(super) unsafe fn give(&mut self, numbers: *const Frame, count: usize, is_used_up: bool) {
        let kept = usize::from(is_used_up);
        self.count_given(count.wrapping_sub(kept));
        if kept == count {
            return;
        }
        let frames = *self;
        if L::FRAME_BY_FRAME {
            let mut place = kept;
            while place != count {
                loop_bound!(LoopBound::PageGranules { per_iteration: 1 });
                // SAFETY: the numbers are those of frames that were taken, whose entries are initialised.
                unsafe {
                    let frame = numbers.wrapping_add(place).read();
                    self.list.give(frame, |next| frames.chain(frame, next));
                }
                place = place.wrapping_add(1);
            }
            return;
        }
        // SAFETY: the numbers are those of frames that were taken, whose entries are initialised.
        unsafe {
            let first = numbers.wrapping_add(kept).read();
            let last = numbers.wrapping_add(count).wrapping_sub(1).read();
            if last != first {
                // The link of an object's first frame was the place where the object begins.
                frames.chain(first, numbers.wrapping_add(kept).wrapping_add(1).read());
            }
            self.list.give(first, |next| frames.chain(last, next));
        }
    }

    /// Visits the free frames in the order in which they will be taken, and returns their number. `None` if the list is
    /// damaged; the numbers visited may then not be frames.
    ///
    /// # Safety
    ///
    /// Pages of frames that have been taken are in the region.
    pub(super) unsafe fn walk_free(&self, visit: &mut dyn FnMut(Frame)) -> Option<u32> {
        let astray = Cell::new(false);
        let link = |frame| match self.is_frame(frame) {
            // SAFETY: the frame has been taken before, so it has an entry.
            true => unsafe { self.link(Self::entry_of(frame)).read() },
            false => {
                astray.set(true);
                NONE
            }
        };
        self.list.walk(link, visit).filter(|_| !astray.get())
    }

    /// The number after the last frame that a room of this many bytes can hold.
    pub(super) fn most(room_bytes: usize) -> u32 {
        u32::try_from(room_bytes / L::PAGE * Self::PER_PAGE).unwrap_or(u32::MAX)
    }

    /// Frames that have been taken before.
    pub(super) fn frames_ever(&self) -> impl Iterator<Item = Frame> + use<L, FRAME> {
        (0..self.list.fresh).filter(|frame| frame & Self::PLACE >= Self::FIRST)
    }
}

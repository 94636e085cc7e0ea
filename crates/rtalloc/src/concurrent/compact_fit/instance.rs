//! The instance of one slot: a directory of pages with its size classes, and pending compaction, for its owner.

use super::entry::Entry;
use super::guard::{WORD_BYTES, word_at};
use crate::compact_fit::classes::{self, Block, PageBlocks, address_of};
use crate::compact_fit::free_list::{FreeList, NONE};
use crate::compact_fit::ladder::{Ladder, SizeClass};
use crate::compact_fit::page::{self, Directory, Header, header_of, node};
use crate::compact_fit::steps::{self, Steps, Stepwise};
use crate::concurrent::atomics::Atomics;
use crate::contract::{LoopBound, loop_bound};
use crate::mechanism::page::ring;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::num::NonZeroU32;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes at the end of a page-block that hold the number of its object's entry.
pub(super) const BACK_BYTES: usize = WORD_BYTES;

/// Objects that one operation examines in search of one that can be moved.
pub(super) const LOOKS: usize = 8;

/// The state of a slot besides its directory.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Own<A> {
    steps: Steps,
    pub(super) cursor: Cursor,
    /// Unused entries.
    pub(super) list: FreeList,
    /// Number of entries.
    pub(super) room: u32,
    /// Address of the first.
    entries: usize,
    /// Queued frees that were collected but not processed: the latest one, or 0.
    pub(super) chain: u32,
    /// Entries whose object was freed while pinned: the first and the last one, or [`NONE`].
    pub(super) waiting: [u32; 2],
    atomics: PhantomData<A>,
}

/// Where the search for an object that can be moved continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Cursor {
    /// The class, or [`NONE`].
    class: u32,
    /// The page, or [`NONE`] for the first not-full one.
    page: u32,
    /// The first page-block not yet examined.
    block: u32,
    /// How many times in a row a class was searched to its end without success.
    failed_searches: u32,
}

impl Cursor {
    const NONE: Self = Cursor { class: NONE, page: NONE, block: 0, failed_searches: 0 };
}

pub(super) type At<L, A> = Directory<L, Own<A>>;

// SAFETY: pages are taken from the pool and returned to it.
unsafe impl<L: Ladder, A: Atomics> PageBlocks for At<L, A> {
    type Ladder = L;
    type Extra = Own<A>;

    #[inline(always)]
    fn directory(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn open_page(self) -> Option<*mut Header> {
        // SAFETY: the instance is initialised.
        unsafe { self.take_page() }
    }

    #[inline(always)]
    unsafe fn close_page(self, header: *mut Header) {
        // SAFETY: the caller guarantees that the page is in use and has no blocks left.
        unsafe { self.give_page(header) }
    }

    /// For an object that no thread can access. Objects that threads can access are moved in steps only.
    unsafe fn move_object(self, size_class: &SizeClass, from: Block, to: Block) {
        let bytes = size_class.block_bytes as usize;
        // SAFETY: the page-blocks are of the class, and on different pages; a used one ends with its entry's number.
        unsafe {
            let (source, target) = (address_of(self, bytes, from), address_of(self, bytes, to));
            <Self as Stepwise>::copy(source, target, bytes);
            self.entry(self.number_at(target, bytes)).relocate(target);
        }
    }
}

// SAFETY: the steps lie beside the directory, and `begin` initialises both.
unsafe impl<L: Ladder, A: Atomics> Stepwise for At<L, A> {
    #[inline(always)]
    fn steps(self) -> *mut Steps {
        self.extra().wrapping_byte_add(offset_of!(Own<A>, steps)).cast()
    }

    /// An unpinned object on any not-full page except the last, page by page from the first on. Examines at most
    /// `LOOKS` objects, and continues there the next time.
    #[inline(always)]
    unsafe fn choose(self) -> Option<(usize, Block)> {
        // SAFETY: the instance is initialised; a used page-block ends with the number of its entry.
        unsafe {
            let mut looks = 0;
            while looks < LOOKS {
                loop_bound!(LoopBound::Fixed(8));
                looks = looks.wrapping_add(1);
                let Some((class, block)) = self.next_candidate() else {
                    if self.is_blocked() {
                        return None;
                    }
                    continue;
                };
                if self.entry(self.number_of(class, block)).begin_move() {
                    (*self.cursor()).failed_searches = 0;
                    return Some((class, block));
                }
            }
        }
        None
    }

    #[inline(always)]
    unsafe fn copy(from: usize, to: usize, bytes: usize) {
        let mut done = 0;
        while done < bytes {
            loop_bound!(LoopBound::PageBlockBytes { per_iteration: 4 });
            // SAFETY: both are words of page-blocks, accessed atomically. A thread that writes those at `from`
            // meanwhile has pinned the object, and the copy is then discarded.
            unsafe {
                let word = word_at::<A>(from.wrapping_add(done)).load(Relaxed);
                word_at::<A>(to.wrapping_add(done)).store(word, Relaxed);
            }
            done = done.wrapping_add(WORD_BYTES);
        }
    }

    #[inline(always)]
    unsafe fn publish(self, bytes: usize, target: usize, _number: usize) -> bool {
        // SAFETY: the page-block ends with the number of an entry, after the bytes that users write.
        unsafe { self.entry(self.number_at(target, bytes)).commit(target) }
    }
}

/// Initialises an instance whose entries are at an address.
///
/// # Safety
///
/// The directory is planned and initialised; `room` empty entries lie at `entries`.
pub(super) unsafe fn begin<L: Ladder, A: Atomics>(directory: At<L, A>, entries: usize, room: u32) {
    let own = directory.extra();
    // SAFETY: the directory is planned and initialised, so its extra data lie in the region.
    unsafe {
        steps::begin(directory);
        (&raw mut (*own).cursor).write(Cursor::NONE);
        (&raw mut (*own).list).write(FreeList::EMPTY);
        (&raw mut (*own).room).write(room);
        (&raw mut (*own).entries).write(entries);
        (&raw mut (*own).chain).write(0);
        (&raw mut (*own).waiting).write([NONE; 2]);
    }
}

impl<L: Ladder, A: Atomics> At<L, A> {
    fn cursor(self) -> *mut Cursor {
        self.extra().wrapping_byte_add(offset_of!(Own<A>, cursor)).cast()
    }

    /// Address of the first entry.
    ///
    /// # Safety
    ///
    /// The instance is initialised, here and below.
    #[inline(always)]
    pub(super) unsafe fn entries(self) -> usize {
        // SAFETY: the instance is initialised.
        unsafe { (*self.extra()).entries }
    }

    /// The entry with a number.
    ///
    /// # Safety
    ///
    /// There is an entry with this number.
    #[inline(always)]
    pub(super) unsafe fn entry<'a>(self, number: u32) -> &'a Entry<A> {
        // SAFETY: `number` is less than the number of entries, which lie at `entries` and consist of atomic words.
        unsafe {
            let first: *const Entry<A> = core::ptr::with_exposed_provenance(self.entries());
            &*first.wrapping_add(number as usize)
        }
    }

    /// The entry number at the end of the page-block of `bytes` bytes at an address.
    ///
    /// # Safety
    ///
    /// An object is in the page-block.
    #[inline(always)]
    pub(super) unsafe fn number_at(self, address: usize, bytes: usize) -> u32 {
        // SAFETY: the address is that of the last word of a page-block, which holds an entry number.
        unsafe { word_at::<A>(address.wrapping_add(bytes).wrapping_sub(BACK_BYTES)) }.load(Relaxed)
    }

    /// The number of the entry of the object in a page-block.
    ///
    /// # Safety
    ///
    /// An object is in the page-block.
    #[inline(always)]
    unsafe fn number_of(self, class: usize, block: Block) -> u32 {
        // SAFETY: an object is in the page-block, so its last word is an entry number.
        unsafe {
            let bytes = L::size_class(class).block_bytes as usize;
            self.number_at(address_of(self, bytes, block), bytes)
        }
    }

    /// The next object that the search examines. `None` where it reaches the end of a class.
    ///
    /// ```text
    /// first                                       last
    /// [.oo.] <-> [o..o] <-> [.o.o] <-> [oo.o] <-> [ooo.]
    ///               ^ cursor: continues here if this is still a not-full page of the class; else from the first
    /// ```
    #[inline(always)]
    unsafe fn next_candidate(self) -> Option<(usize, Block)> {
        let cursor = self.cursor();
        // SAFETY: the instance is initialised; pages in rings have headers and a used page-block.
        unsafe {
            let mut class = (*cursor).class;
            if class == NONE || steps::pending_from(self, class as usize) != Some(class as usize) {
                let from = if class == NONE { 0 } else { class as usize };
                let next = steps::pending_from(self, from).or_else(|| steps::pending_from(self, 0));
                class = next.map_or(NONE, |class| class as u32);
                *cursor = Cursor { class, failed_searches: (*cursor).failed_searches, ..Cursor::NONE };
                next?;
            }
            let size_class = L::size_class(class as usize);
            let record = self.record(class as usize);
            let last = (*record).head.prev;
            let mut header = header_of((*record).head.next);
            let mut from = 0;
            if (*cursor).page != NONE {
                let there = self.header((*cursor).page as usize);
                if u32::from((*there).state.class) == class && (*there).state.free_rows != 0 {
                    (header, from) = (there, (*cursor).block as usize);
                }
            }
            let mut found = page::used_block_from(header, from, size_class);
            if found.is_none() && node(header) != last {
                header = header_of(ring::next(node(header)));
                found = page::used_block_from(header, 0, size_class);
            }
            let found = found.filter(|_| node(header) != last);
            if let Some(number) = found {
                (*cursor).page = (*header).page;
                (*cursor).block = (number as u32).wrapping_add(1);
                return Some((class as usize, Block { header, number }));
            }
            // The end of the class. The last page receives the objects of the others.
            let after = steps::pending_from(self, (class as usize).wrapping_add(1));
            let next = after.or_else(|| steps::pending_from(self, 0)).map_or(NONE, |class| class as u32);
            *cursor =
                Cursor { class: next, failed_searches: (*cursor).failed_searches.saturating_add(1), ..Cursor::NONE };
        }
        None
    }

    /// Whether no class with pending compaction has an object that can be moved, as far as the search has seen: each
    /// was searched to its end since the last success. The first, searched in part, is searched once more.
    #[inline(always)]
    pub(super) unsafe fn is_blocked(self) -> bool {
        // SAFETY: the instance is initialised.
        unsafe {
            let pending = steps::pending_count(self);
            pending == 0 || (*self.cursor()).failed_searches > pending
        }
    }

    /// Moves at most `budget_bytes` of one object, and returns how many.
    #[inline(always)]
    pub(super) unsafe fn compact_step(self, budget_bytes: usize) -> usize {
        // SAFETY: the instance is initialised; the page-block of an object under way ends with the number of its entry.
        unsafe {
            if let Some(block) = steps::under_way(self) {
                let class = usize::from((*block.header).state.class);
                if !self.entry(self.number_of(class, block)).is_moving() {
                    steps::drop_move_of(self, block);
                }
            }
            steps::pay(self, budget_bytes)
        }
    }

    /// Moves at most `budget_bytes` of pending compaction, while an object can be moved, and returns how many.
    pub(super) unsafe fn compact(self, budget_bytes: usize) -> usize {
        let mut moved = 0_usize;
        // SAFETY: the instance is initialised.
        unsafe {
            (*self.cursor()).failed_searches = 0;
            while budget_bytes.wrapping_sub(moved) >= 16 && steps::is_pending(self) {
                loop_bound!(LoopBound::Caller); // budget / 16
                let moved_now = self.compact_step(budget_bytes.wrapping_sub(moved));
                if moved_now == 0 && self.is_blocked() {
                    break;
                }
                moved = moved.wrapping_add(moved_now);
            }
        }
        moved
    }

    /// Takes an entry and a page-block for a new object, and returns number and generation. `None` if one is missing.
    #[inline(always)]
    pub(super) unsafe fn take(self, size_bytes: usize, class: usize) -> Option<(u32, u32)> {
        let own = self.extra();
        // SAFETY: the instance is initialised; the entry and the page-block come from its free lists.
        unsafe {
            let link = |number| self.entry(number).link().load(Relaxed);
            let number = (*own).list.take((*own).room, link)?;
            let Some(block) = classes::take(self, class) else {
                self.put_back(number);
                return None;
            };
            steps::note(self, class);
            let bytes = L::size_class(class).block_bytes as usize;
            let address = address_of(self, bytes, block);
            word_at::<A>(address.wrapping_add(bytes).wrapping_sub(BACK_BYTES)).store(number, Relaxed);
            Some((number, self.entry(number).settle(address, size_bytes)))
        }
    }

    /// Returns an entry to the unused ones.
    #[inline(always)]
    unsafe fn put_back(self, number: u32) {
        // SAFETY: the instance is initialised, and the entry is one of its own, in no list.
        unsafe { (*self.extra()).list.give(number, |next| self.entry(number).link().store(next, Relaxed)) }
    }

    /// The class and the page-block of an object.
    ///
    /// # Safety
    ///
    /// An object is at the address.
    #[inline(always)]
    pub(super) unsafe fn block_of(self, address: usize) -> (usize, Block) {
        // SAFETY: an object lies in a page of a size class, whose page-blocks are not empty.
        unsafe {
            let page = self.page_of(address);
            let header = self.header(page);
            let class = usize::from((*header).state.class);
            let bytes = NonZeroU32::new_unchecked(L::size_class(class).block_bytes);
            let number = address.wrapping_sub(self.address(page)) as u32 / bytes;
            (class, Block { header, number: number as usize })
        }
    }

    /// Returns the memory of a freed object.
    ///
    /// # Safety
    ///
    /// The entry is not live, has no pins, and is in no list.
    #[inline(always)]
    pub(super) unsafe fn release(self, number: u32) {
        // SAFETY: the entry is not live, so no handle leads to its page-block; it has no pins, so no guard does either.
        unsafe {
            let (class, block) = self.block_of(self.entry(number).place());
            steps::drop_move_of(self, block);
            classes::give(self, class, block, false);
            steps::note(self, class);
            self.put_back(number);
        }
    }

    /// Appends an entry to those that wait for their last pin.
    ///
    /// # Safety
    ///
    /// The entry is not live, and in no list.
    #[inline(always)]
    pub(super) unsafe fn wait(self, number: u32) {
        let own = self.extra();
        // SAFETY: the entry is not live and in no list, so its link is unused; `waiting` holds numbers of entries.
        unsafe {
            self.entry(number).link().store(NONE, Relaxed);
            match (*own).waiting {
                [_, NONE] => (*own).waiting = [number; 2],
                [first, last] => {
                    self.entry(last).link().store(number, Relaxed);
                    (*own).waiting = [first, number];
                }
            }
        }
    }

    /// Examines the entry that has waited longest: releases it if unpinned, and returns true; else appends it again.
    #[inline(always)]
    pub(super) unsafe fn revisit(self) -> bool {
        let own = self.extra();
        // SAFETY: the instance is initialised; entries in `waiting` are not live and in no other list.
        unsafe {
            let [first, last] = (*own).waiting;
            if first == NONE {
                return false;
            }
            let entry = self.entry(first);
            let next = entry.link().load(Relaxed);
            (*own).waiting = if next == NONE { [NONE; 2] } else { [next, last] };
            let is_left = entry.is_left();
            if is_left {
                self.release(first);
            } else {
                self.wait(first);
            }
            is_left
        }
    }
}

//! What belongs to one slot: a directory of pages with its size classes, and what is owed. Its owner alone works with it.

use super::entry::Entry;
use super::guard::{WORD_BYTES, word_at};
use crate::compact_fit::classes::{self, Block, PageBlocks, address_of};
use crate::compact_fit::free_list::{FreeList, NONE};
use crate::compact_fit::ladder::{Ladder, SizeClass};
use crate::compact_fit::page::{self, Directory, Header, header_of, node};
use crate::compact_fit::steps::{self, Steps, Stepwise};
use crate::concurrent::atomics::Atomics;
use crate::mechanism::page::ring;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::num::NonZeroU32;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes at the end of a page-block that say which entry its object has.
pub(super) const BACK_BYTES: usize = WORD_BYTES;

/// Objects that one operation looks at in search of one that can be moved.
pub(super) const LOOKS: usize = 8;

/// What a slot keeps beside its directory.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Own<A> {
    steps: Steps,
    pub(super) cursor: Cursor,
    /// Entries that are not in use.
    pub(super) list: FreeList,
    /// How many entries there are.
    pub(super) room: u32,
    /// Address of the first.
    entries: usize,
    /// Letters that were collected and not opened yet: the latest one, or 0.
    pub(super) chain: u32,
    /// Entries whose object was freed and is pinned: the first and the last one, or [`NONE`].
    pub(super) waiting: [u32; 2],
    atomics: PhantomData<A>,
}

/// Where the search for an object that can be moved goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Cursor {
    /// The class, or [`NONE`].
    class: u32,
    /// The page, or [`NONE`] for the first not-full one.
    page: u32,
    /// The first page-block that was not looked at.
    block: u32,
    /// How often in a row a class was searched to its end in vain.
    vain: u32,
}

impl Cursor {
    const NONE: Self = Cursor { class: NONE, page: NONE, block: 0, vain: 0 };
}

pub(super) type At<L, A> = Directory<L, Own<A>>;

// SAFETY: pages come from the pool and go there.
unsafe impl<L: Ladder, A: Atomics> PageBlocks for At<L, A> {
    type Ladder = L;
    type Extra = Own<A>;

    #[inline(always)]
    fn directory(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn open_page(self) -> Option<*mut Header> {
        // SAFETY: the instance has begun.
        unsafe { self.take_page() }
    }

    #[inline(always)]
    unsafe fn close_page(self, header: *mut Header) {
        // SAFETY: the caller's promise.
        unsafe { self.give_page(header) }
    }

    /// Of an object that nobody may use meanwhile. Those that somebody may are moved in steps, and by nothing else.
    unsafe fn move_object(self, size_class: &SizeClass, from: Block, to: Block) {
        let bytes = size_class.block_bytes as usize;
        // SAFETY: the page-blocks are of the class, and of different pages; one with an object ends with its entry's number.
        unsafe {
            let (source, target) = (address_of(self, bytes, from), address_of(self, bytes, to));
            <Self as Stepwise>::copy(source, target, bytes);
            self.entry(self.number_at(target, bytes)).relocate(target);
        }
    }
}

// SAFETY: the steps lie beside the directory, and begin with it.
unsafe impl<L: Ladder, A: Atomics> Stepwise for At<L, A> {
    #[inline(always)]
    fn steps(self) -> *mut Steps {
        self.extra().wrapping_byte_add(offset_of!(Own<A>, steps)).cast()
    }

    /// An object that nobody has pinned, on any not-full page but the last, page by page from the first on. Looks at few of them,
    /// and goes on there the next time.
    #[inline(always)]
    unsafe fn choose(self) -> Option<(usize, Block)> {
        // SAFETY: the instance has begun; a used page-block ends with the number of its entry.
        unsafe {
            let mut looks = 0;
            // turns: 8
            while looks < LOOKS {
                looks = looks.wrapping_add(1);
                let Some((class, block)) = self.next_candidate() else {
                    if self.is_blocked() {
                        return None;
                    }
                    continue;
                };
                if self.entry(self.number_of(class, block)).begin_move() {
                    (*self.cursor()).vain = 0;
                    return Some((class, block));
                }
            }
        }
        None
    }

    #[inline(always)]
    unsafe fn copy(from: usize, to: usize, bytes: usize) {
        let mut done = 0;
        // turns: page-block / 4
        while done < bytes {
            // SAFETY: both are words of page-blocks. Those at `from` may be written meanwhile, by threads because of whom the copy
            // will be thrown away.
            unsafe {
                let word = word_at::<A>(from.wrapping_add(done)).load(Relaxed);
                word_at::<A>(to.wrapping_add(done)).store(word, Relaxed);
            }
            done = done.wrapping_add(WORD_BYTES);
        }
    }

    #[inline(always)]
    unsafe fn publish(self, bytes: usize, target: usize, _number: usize) -> bool {
        // SAFETY: the page-block ends with the number of an entry, behind what users write.
        unsafe { self.entry(self.number_at(target, bytes)).commit(target) }
    }
}

/// Begins an instance whose entries are at an address.
///
/// # Safety
///
/// The directory was planned and has begun; `room` entries are there, empty.
pub(super) unsafe fn begin<L: Ladder, A: Atomics>(directory: At<L, A>, entries: usize, room: u32) {
    let own = directory.extra();
    // SAFETY: the caller's promise.
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
    /// The instance has begun, here and below.
    #[inline(always)]
    pub(super) unsafe fn entries(self) -> usize {
        // SAFETY: the caller's promise.
        unsafe { (*self.extra()).entries }
    }

    /// The entry with a number.
    ///
    /// # Safety
    ///
    /// There is such an entry.
    #[inline(always)]
    pub(super) unsafe fn entry<'a>(self, number: u32) -> &'a Entry<A> {
        // SAFETY: the caller's promise; entries are atomic words.
        unsafe {
            let first: *const Entry<A> = core::ptr::with_exposed_provenance(self.entries());
            &*first.wrapping_add(number as usize)
        }
    }

    /// The number of its entry that the page-block of `bytes` at an address ends with.
    ///
    /// # Safety
    ///
    /// An object is there.
    #[inline(always)]
    pub(super) unsafe fn number_at(self, address: usize, bytes: usize) -> u32 {
        // SAFETY: the last word of a page-block.
        unsafe { word_at::<A>(address.wrapping_add(bytes).wrapping_sub(BACK_BYTES)) }.load(Relaxed)
    }

    /// The number of the entry of the object in a page-block.
    ///
    /// # Safety
    ///
    /// An object is there.
    #[inline(always)]
    unsafe fn number_of(self, class: usize, block: Block) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = L::size_class(class).block_bytes as usize;
            self.number_at(address_of(self, bytes, block), bytes)
        }
    }

    /// The next object that the search looks at. `None` where it came to the end of a class.
    ///
    /// ```text
    /// first                                       last
    /// [.oo.] <-> [o..o] <-> [.o.o] <-> [oo.o] <-> [ooo.]
    ///               ^ cursor: goes on here, if the page is still a not-full one of the class, else from the first on
    /// ```
    #[inline(always)]
    unsafe fn next_candidate(self) -> Option<(usize, Block)> {
        let cursor = self.cursor();
        // SAFETY: the caller's promise; pages in rings have headers and a used page-block.
        unsafe {
            let mut class = (*cursor).class;
            if class == NONE || steps::owing_from(self, class as usize) != Some(class as usize) {
                let from = if class == NONE { 0 } else { class as usize };
                let next = steps::owing_from(self, from).or_else(|| steps::owing_from(self, 0));
                class = next.map_or(NONE, |class| class as u32);
                *cursor = Cursor { class, vain: (*cursor).vain, ..Cursor::NONE };
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
            // The class's end. The last page is where the others' objects go.
            let behind = steps::owing_from(self, (class as usize).wrapping_add(1));
            let next = behind.or_else(|| steps::owing_from(self, 0)).map_or(NONE, |class| class as u32);
            *cursor = Cursor { class: next, vain: (*cursor).vain.saturating_add(1), ..Cursor::NONE };
        }
        None
    }

    /// Whether no class that owes has an object that can be moved, as far as the search has seen: each was searched to its end since
    /// it found one. The first of them may have been searched in part, and is searched once more.
    #[inline(always)]
    pub(super) unsafe fn is_blocked(self) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let owing = steps::owing_count(self);
            owing == 0 || (*self.cursor()).vain > owing
        }
    }

    /// Moves at most `budget_bytes` of one object.
    #[inline(always)]
    pub(super) unsafe fn pay(self, budget_bytes: usize) -> usize {
        // SAFETY: the caller's promise; the page-block of an object under way ends with the number of its entry.
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

    /// Moves at most `budget_bytes` of what is owed, as long as there is an object that can be moved.
    pub(super) unsafe fn compact(self, budget_bytes: usize) -> usize {
        let mut moved = 0_usize;
        // SAFETY: the caller's promise.
        unsafe {
            (*self.cursor()).vain = 0;
            // turns: budget / 16, and objects of the classes that owe
            while budget_bytes.wrapping_sub(moved) >= 16 && steps::owes(self) {
                let paid = self.pay(budget_bytes.wrapping_sub(moved));
                if paid == 0 && self.is_blocked() {
                    break;
                }
                moved = moved.wrapping_add(paid);
            }
        }
        moved
    }

    /// Takes an entry and a page-block, and makes them a new object's. `None` if one of them is missing.
    #[inline(always)]
    pub(super) unsafe fn take(self, size_bytes: usize, class: usize) -> Option<(u32, u32)> {
        let own = self.extra();
        // SAFETY: the caller's promise.
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

    /// Puts an entry to those that are not in use.
    #[inline(always)]
    unsafe fn put_back(self, number: u32) {
        // SAFETY: the caller's promise.
        unsafe { (*self.extra()).list.give(number, |next| self.entry(number).link().store(next, Relaxed)) }
    }

    /// Where the object of an entry is: its class and its page-block.
    ///
    /// # Safety
    ///
    /// It has one.
    #[inline(always)]
    pub(super) unsafe fn block_of(self, address: usize) -> (usize, Block) {
        // SAFETY: an object is in a page of a size class, whose page-blocks have bytes.
        unsafe {
            let page = self.page_of(address);
            let header = self.header(page);
            let class = usize::from((*header).state.class);
            let bytes = NonZeroU32::new_unchecked(L::size_class(class).block_bytes);
            let number = address.wrapping_sub(self.address(page)) as u32 / bytes;
            (class, Block { header, number: number as usize })
        }
    }

    /// Gives back the memory of an object that is no more.
    ///
    /// # Safety
    ///
    /// The entry is not live, nobody has pinned it, and it is in no list.
    #[inline(always)]
    pub(super) unsafe fn release(self, number: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            let (class, block) = self.block_of(self.entry(number).place());
            steps::drop_move_of(self, block);
            classes::give(self, class, block, false);
            steps::note(self, class);
            self.put_back(number);
        }
    }

    /// Puts an entry to those that wait for their last pin.
    ///
    /// # Safety
    ///
    /// The entry is not live, and in no list.
    #[inline(always)]
    pub(super) unsafe fn wait(self, number: u32) {
        let own = self.extra();
        // SAFETY: the caller's promise.
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

    /// Looks at the entry that has waited longest: if its last pin is gone, it is released, else it waits on. Tells which.
    #[inline(always)]
    pub(super) unsafe fn revisit(self) -> bool {
        let own = self.extra();
        // SAFETY: the caller's promise.
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

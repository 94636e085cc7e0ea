//! Walking, measuring and verifying.

use super::blocks::{Blocks, Own};
use super::frames::{Frame, Frames, USED_UP};
use crate::compact_fit::classes::{self, Block};
use crate::compact_fit::ladder::{Framed, Ladder, SizeClass};
use crate::compact_fit::page::{self, Directory, Header};
use crate::contract::{Corruption, Fragmentation, Handle, Object};
use crate::mechanism::tally::Tally;
use core::num::NonZeroU32;

/// A set of frames as two numbers: how many there are, and a sum in which each has its own share. Two sets that agree in both
/// are the same, but for an accident of one in 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: usize,
    mixed: u64,
}

impl Sum {
    fn add(&mut self, frame: Frame) {
        // The multiplications and shifts spread each bit of the number over all of its share.
        let number = (u64::from(frame) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let number = (number ^ number >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        self.count += 1;
        self.mixed = self.mixed.wrapping_add(number ^ number >> 32);
    }
}

impl<L: Ladder, const FRAME: usize, T: Tally> Blocks<L, FRAME, T> {
    /// Visits the pages of size classes.
    ///
    /// # Safety
    ///
    /// The directory has begun.
    unsafe fn pages(self) -> impl Iterator<Item = (*mut Header, &'static SizeClass)> {
        // SAFETY: headers of pages that were taken are initialised.
        unsafe {
            self.directory.headers().filter_map(|header| {
                let class = usize::from((*header).state.class);
                (class < Framed::<L, FRAME>::CLASSES).then(|| (header, Framed::<L, FRAME>::size_class(class)))
            })
        }
    }

    /// The words of the used page-blocks of a page, and how many each has.
    ///
    /// # Safety
    ///
    /// The page is one of this class.
    unsafe fn used_tables(header: *mut Header, size_class: &SizeClass) -> impl Iterator<Item = *mut Frame> {
        let count = Self::frames_of(size_class);
        // SAFETY: the page has so many page-blocks.
        let used = (0..size_class.blocks.into()).filter(move |&number| unsafe { page::is_used(header, number) });
        used.map(move |number| Self::table(Block { header, number }, count))
    }

    /// See [`HandleAllocator::walk`](crate::HandleAllocator::walk).
    pub(super) fn walk(self, visit: &mut dyn FnMut(Object)) {
        let frames = self.frames();
        // SAFETY: the heap is whole: a used page-block's first frame has the entry of a live object, of an odd generation.
        unsafe {
            for (header, size_class) in self.pages() {
                for table in Self::used_tables(header, size_class) {
                    let first = table.read();
                    let entry = Frames::<L, FRAME>::entry_of(first);
                    let generation = NonZeroU32::new_unchecked(frames.generation(entry).read());
                    visit(Object {
                        handle: Handle::new(entry, generation),
                        address: frames.address(first),
                        size_bytes: usize::from(frames.size(entry).read()) + 1,
                        usable_bytes: size_class.block_bytes as usize,
                        page_block_bytes: size_class.block_bytes as usize,
                    });
                }
            }
        }
    }

    /// See [`HandleAllocator::fragmentation`](crate::HandleAllocator::fragmentation): what is lost beside the objects are words of
    /// block tables, because a block that no object has is in no frame.
    pub(super) fn fragmentation(self) -> Fragmentation {
        let mut lost = Fragmentation::default();
        self.walk(&mut |object| lost.block_internal_bytes += object.page_block_bytes - object.size_bytes);
        // SAFETY: the directory has begun.
        for (header, size_class) in unsafe { self.pages() } {
            let words = Self::frames_of(size_class);
            let in_blocks = usize::from(size_class.blocks) * words;
            // SAFETY: the header of a page that was taken is initialised.
            let used = usize::from(unsafe { (*header).state.used }) * words;
            lost.page_internal_bytes += (Frames::<L, FRAME>::PER_PAGE - in_blocks) * size_of::<Frame>();
            lost.size_external_bytes += (in_blocks - used) * size_of::<Frame>();
        }
        lost
    }

    /// See [`HandleAllocator::check`](crate::HandleAllocator::check).
    pub(super) fn check(self) -> Result<(), Corruption> {
        let broken = |invariant, address| Err(Corruption { invariant, address });
        let frames = self.frames();
        let top = self.directory.header(usize::MAX).addr();
        let room_bytes = top.wrapping_sub(frames.base);
        let pages = room_bytes / Directory::<Framed<L, FRAME>, Own<L, FRAME, T>>::HEADER;
        if frames.base == 0 || frames.base > top || !frames.base.is_multiple_of(FRAME) {
            return broken("frames begin in front of the directory", frames.base);
        }
        // SAFETY: what is followed was verified before: pages in the room of the directory, frames in front of them.
        unsafe {
            let pool = self.directory.pool();
            if (*pool).room != u32::try_from(pages).unwrap_or(u32::MAX) {
                return broken("there is room for as many headers as pages are counted", pool.addr());
            }
            self.directory.check_pool()?;
            classes::check(self.directory, false)?;
            if frames.capacity_up_to(self.end_now()) != Some(frames.capacity)
                || frames.list.fresh > Frames::<L, FRAME>::most(room_bytes)
            {
                return broken(
                    "pages of frames lie in front of all headers and of the room reserved for them",
                    frames.base,
                );
            }
            let mut ever = Sum::default();
            let (mut found, mut used_up) = (Sum::default(), 0);
            for frame in frames.frames_ever() {
                ever.add(frame);
                if frames.generation(Frames::<L, FRAME>::entry_of(frame)).read() == USED_UP {
                    found.add(frame);
                    used_up += 1;
                }
            }
            let taken = self.check_objects(&mut found)? + used_up;
            if frames.taken as usize != taken {
                return broken(
                    "frames are counted as taken that objects have, and those that are used up",
                    frames.base,
                );
            }
            let is_even = |frame| frames.generation(Frames::<L, FRAME>::entry_of(frame)).read().is_multiple_of(2);
            let mut is_whole = true;
            let listed = frames.walk_free(&mut |frame| {
                is_whole = is_whole && frames.is_frame(frame) && is_even(frame);
                found.add(frame);
            });
            if listed.is_none() || !is_whole {
                return broken("the list of free frames leads to frames that begin no object, and ends", frames.base);
            }
            if found != ever {
                return broken("a frame is free, used up, or of one object: each once", frames.base);
            }
        }
        Ok(())
    }

    /// Verifies the objects of all pages, and adds up their frames; returns how many these are.
    ///
    /// # Safety
    ///
    /// Directory and classes are whole, and pages of frames that were taken lie in the region.
    unsafe fn check_objects(self, found: &mut Sum) -> Result<usize, Corruption> {
        let mut taken = 0;
        let frames = self.frames();
        // SAFETY: a used page-block has its words, and the entry of a frame is read when the number is one.
        unsafe {
            for (header, size_class) in self.pages() {
                let count = Self::frames_of(size_class);
                for table in Self::used_tables(header, size_class) {
                    for index in 0..count {
                        let frame = table.add(index).read();
                        let broken = |invariant| Err(Corruption { invariant, address: table.add(index).addr() });
                        if !frames.is_frame(frame) {
                            return broken("a block of an object is a frame");
                        }
                        let entry = Frames::<L, FRAME>::entry_of(frame);
                        let (generation, link) = (frames.generation(entry).read(), frames.link(entry).read());
                        if (generation % 2 == 1) != (index == 0) || generation == USED_UP {
                            return broken(
                                "an object's first frame, and no other, has the generation of a live object",
                            );
                        }
                        if index == 0 && frames.word(link) != table {
                            return broken("an object's entry says where in which block table it begins");
                        }
                        if index != 0 && index + 1 < count && link != table.add(index + 1).read() {
                            return broken("an object's frames lead from one to the next");
                        }
                        let size_bytes = usize::from(frames.size(entry).read()) + 1;
                        if index == 0 && (size_bytes > L::PAGE || Self::class_of(size_bytes) > (*header).state.class) {
                            return broken("an object fits its page-block");
                        }
                        found.add(frame);
                    }
                    taken += count;
                }
            }
        }
        Ok(taken)
    }

    /// The class of a size.
    ///
    /// # Safety
    ///
    /// The size is from 1 to a page.
    unsafe fn class_of(size_bytes: usize) -> u8 {
        // SAFETY: the caller's promise.
        unsafe { Framed::<L, FRAME>::class_of(size_bytes) as u8 }
    }

    /// See [`HandleAllocator::fingerprint`](crate::HandleAllocator::fingerprint).
    pub(super) fn fingerprint(self, word: &mut dyn FnMut(usize)) {
        let frames = self.frames();
        // SAFETY: the heap is whole.
        unsafe {
            self.directory.fingerprint_pool(word);
            classes::fingerprint(self.directory, word);
            word((*self.own()).reserved_pages as usize);
            word(frames.list.fresh as usize);
            // Frames that are used up are those which nothing else has.
            let _ = frames.walk_free(&mut |frame| word(frame as usize));
            word(usize::MAX);
            for (header, size_class) in self.pages() {
                for table in Self::used_tables(header, size_class) {
                    (0..Self::frames_of(size_class)).for_each(|index| word(table.add(index).read() as usize));
                    let entry = Frames::<L, FRAME>::entry_of(table.read());
                    word(frames.size(entry).read().into());
                }
            }
        }
    }
}

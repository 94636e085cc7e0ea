//! Walk, fragmentation, check and fingerprint of a non-moving heap.

use super::blocks::{Blocks, Own};
use super::frames::{Frame, Frames, USED_UP};
use crate::compact_fit::classes::{self, Block};
use crate::compact_fit::ladder::{Framed, Ladder, SizeClass};
use crate::compact_fit::page::{self, Directory, Header};
use crate::contract::{Corruption, Fragmentation, Handle, Object};
use crate::mechanism::stats::StatsPolicy;
use core::num::NonZeroU32;

/// A set of frames as two numbers: their count, and the sum of a hash of each. Two sets that agree in both are equal,
/// except with a probability of one in 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: usize,
    mixed: u64,
}

impl Sum {
    fn add(&mut self, frame: Frame) {
        // The multiplications and shifts spread each bit of the number over the whole hash.
        let number = (u64::from(frame) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let number = (number ^ number >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        self.count += 1;
        self.mixed = self.mixed.wrapping_add(number ^ number >> 32);
    }
}

impl<L: Ladder, const FRAME: usize, T: StatsPolicy> Blocks<L, FRAME, T> {
    /// Visits the pages of size classes.
    ///
    /// # Safety
    ///
    /// The directory is initialised.
    unsafe fn pages(self) -> impl Iterator<Item = (*mut Header, &'static SizeClass)> {
        // SAFETY: the directory is initialised, and headers of pages that have been taken are initialised.
        unsafe {
            self.directory.headers().filter_map(|header| {
                let class = usize::from((*header).state.class);
                (class < Framed::<L, FRAME>::CLASSES).then(|| (header, Framed::<L, FRAME>::size_class(class)))
            })
        }
    }

    /// The first words of the used page-blocks of a page.
    ///
    /// # Safety
    ///
    /// The page is one of this class.
    unsafe fn used_tables(header: *mut Header, size_class: &SizeClass) -> impl Iterator<Item = *mut Frame> {
        let count = Self::frames_of(size_class);
        // SAFETY: the page is one of this class, so it has this many page-blocks.
        let used = (0..size_class.blocks.into()).filter(move |&number| unsafe { page::is_used(header, number) });
        used.map(move |number| Self::table(Block { header, number }, count))
    }

    /// See [`HandleAllocator::walk`](crate::HandleAllocator::walk).
    pub(super) fn walk(self, visit: &mut dyn FnMut(Object)) {
        let frames = self.frames();
        // SAFETY: in an intact heap, a used page-block's first frame has a live object's entry, of odd generation.
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

    /// See [`HandleAllocator::fragmentation`](crate::HandleAllocator::fragmentation). Besides the loss within objects,
    /// only words of block tables are lost, because a block without an object has no frame.
    pub(super) fn fragmentation(self) -> Fragmentation {
        let mut lost = Fragmentation::default();
        self.walk(&mut |object| lost.block_internal_bytes += object.page_block_bytes - object.size_bytes);
        // SAFETY: the directory is initialised.
        for (header, size_class) in unsafe { self.pages() } {
            let words = Self::frames_of(size_class);
            let in_blocks = usize::from(size_class.blocks) * words;
            // SAFETY: the header of a page that has been taken is initialised.
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
            return broken("frames begin before the directory", frames.base);
        }
        // SAFETY: everything that is followed was verified before: pages in the room of the directory, and the frames
        // before them.
        unsafe {
            let pool = self.directory.pool();
            if (*pool).room != u32::try_from(pages).unwrap_or(u32::MAX) {
                return broken("the number of pages is that of the headers that fit", pool.addr());
            }
            self.directory.check_pool()?;
            classes::check(self.directory, false)?;
            if frames.capacity_up_to(self.end_now()) != Some(frames.capacity)
                || frames.list.fresh > Frames::<L, FRAME>::most(room_bytes)
            {
                return broken("pages of frames lie before all headers and the room reserved for them", frames.base);
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
                return broken("the frames counted as taken are those of objects and those used up", frames.base);
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

    /// Verifies the objects of all pages, and adds their frames to `found`; returns the number of these frames.
    ///
    /// # Safety
    ///
    /// The directory and the classes are verified, and pages of frames that have been taken lie in the region.
    unsafe fn check_objects(self, found: &mut Sum) -> Result<usize, Corruption> {
        let mut taken = 0;
        let frames = self.frames();
        // SAFETY: a used page-block has its words, and the entry of a frame is read only after its number is verified.
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
                            return broken("an object's entry leads to the start of its page-block");
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
        // SAFETY: the size is from 1 to a page, which the caller guarantees.
        unsafe { Framed::<L, FRAME>::class_of(size_bytes) as u8 }
    }

    /// See [`HandleAllocator::fingerprint`](crate::HandleAllocator::fingerprint).
    pub(super) fn fingerprint(self, word: &mut dyn FnMut(usize)) {
        let frames = self.frames();
        // SAFETY: the heap is initialised and intact, so tables contain frames, which have entries.
        unsafe {
            self.directory.fingerprint_pool(word);
            classes::fingerprint(self.directory, word);
            word((*self.own()).reserved_pages as usize);
            word(frames.list.fresh as usize);
            // Used-up frames need not be emitted: they are the frames that are neither free nor part of an object.
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

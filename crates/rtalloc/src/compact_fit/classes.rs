//! Size classes and their partial compaction: the paper's rules, common to both variants.
//!
//! # Idea
//!
//! A class has a ring of its pages that are not full; full pages are in no ring, because they are never searched for.
//! At most max_nr_nf_pages pages of a class may be not full (section 3.4; 1 is the paper's invariant 1):
//!
//! ```text
//! head <-> [page, at most half full] <-> [at most half] <-> [more than half] <-> [more than half] <-> head
//!           ^ compaction takes an object from here           an allocation is served from here ^
//! ```
//!
//! The effect of a free on the page p of its object:
//!
//! ```text
//! p was not full               [xx.x] -> [x..x]     nothing is moved; p goes to the front if it is now at most half
//! full
//! p has no other object        [x]    -> pool
//! p was full, room for one     [xxxx] -> [x.xx]     rule 1: p is now not full
//! p was full, no room for one  [xxxx] -> [xoxx]     rule 2: an object o of the first not-full page moves in; if that
//!                              [..o.] -> pool                page becomes empty, it goes to the pool
//! ```
//!
//! The order of the ring is maintained without a search: an allocation fills the last page, which may then be more than
//! half full and is in the right place; a page that a free leaves half full goes to the front, and so does the page
//! that compaction takes from, which is the first.
//!
//! # Proposition 1
//!
//! The paper (section 3.4) states that a free moves nothing while n_f < max_nr_nf_pages - 1, because there are never
//! more than n_f + 1 not-full pages, where n_f increases by one with a free and decreases to no less than 0 with an
//! allocation. That holds if an allocation is served from the page that became not full last. With the paper's own
//! order by half, it fails by one page: a page that becomes half full goes to the front, and the allocations that
//! decrease n_f go to another page. With 4 page-blocks a page:
//!
//! ```text
//! [xxxx][xxxx][x...]   two frees in one page   [xxxx][x..x][x...] n_f = 2
//!                      two allocations         [xxxx][x..x][xxx.] n_f = 0, two not-full pages
//! ```
//!
//! There are at most n_f + 2 not-full pages in every state of up to 8 page-blocks a page and 4 to 6 pages. So a free
//! moves nothing while n_f < max_nr_nf_pages - 2.

use super::ladder::{Ladder, SizeClass};
use super::page::{self, Directory, Header, Record, header_of, node};
use crate::contract::Corruption;
use crate::mechanism::page::ring;
use core::mem::offset_of;

/// A page-block: the place of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// The header of its page.
    pub(crate) header: *mut Header,
    /// Its number in the page.
    pub(crate) number: usize,
}

/// Address of a page-block of `bytes`.
///
/// # Safety
///
/// The block's header is that of a page in use.
#[inline(always)]
pub(crate) unsafe fn address_of<L: Ladder, X>(directory: Directory<L, X>, bytes: usize, block: Block) -> usize {
    // SAFETY: the block's header is that of a page in use, so it is initialised.
    let page = unsafe { (*block.header).page } as usize;
    directory.address(page).wrapping_add(block.number.wrapping_mul(bytes))
}

/// The operations on pages and page-blocks in which the variants differ.
///
/// # Safety
///
/// The directory is initialised. A page from `open_page` has no other use until `close_page`.
pub(crate) unsafe trait PageBlocks: Copy {
    /// The ladder.
    type Ladder: Ladder;
    /// The data that the variant stores next to the directory.
    type Extra;

    /// The directory.
    fn directory(self) -> Directory<Self::Ladder, Self::Extra>;

    /// Takes a page for a size class.
    ///
    /// # Safety
    ///
    /// The caller makes it a page of a class.
    unsafe fn open_page(self) -> Option<*mut Header>;

    /// Returns a page without objects.
    ///
    /// # Safety
    ///
    /// It came from [`open_page`](Self::open_page), and is in no ring.
    unsafe fn close_page(self, header: *mut Header);

    /// Moves the object in the page-block `from` to `to`, and updates its entry.
    ///
    /// # Safety
    ///
    /// Both are page-blocks of the class; `from` has an object and `to` has none.
    unsafe fn move_object(self, size_class: &SizeClass, from: Block, to: Block);
}

/// What [`give`] did besides freeing a page-block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// No object was moved, and the class has no more not-full pages than allowed.
    Free,
    /// An object was moved into the page-block.
    Compacted,
    /// The class has more not-full pages than allowed: compaction is pending.
    Pending,
}

/// The page that serves the next allocation of a class: the last not-full one. `None` if a page is needed.
///
/// # Safety
///
/// The directory is initialised; `class` is below the number of classes.
#[inline(always)]
pub(crate) unsafe fn last<L: Ladder, X>(directory: Directory<L, X>, class: usize) -> Option<*mut Header> {
    let record = directory.record(class);
    // SAFETY: the directory is initialised, so the class has a record.
    let last = unsafe { (*record).head.prev };
    (last != record.addr()).then(|| header_of(last))
}

/// Takes a page-block of a class, from the last not-full page or else from a new one. `None` if there is no page.
///
/// # Safety
///
/// `class` is below the number of classes.
///
/// # Time
///
/// Constant, except for the variant's cost of opening a page.
#[inline(always)]
pub(crate) unsafe fn take<B: PageBlocks>(blocks: B, class: usize) -> Option<Block> {
    let directory = blocks.directory();
    // SAFETY: `class` has a record; `last` returns the last not-full page, and an opened page belongs to the caller.
    unsafe {
        if let Some(last) = last(directory, class) {
            return Some(take_from(directory, class, last));
        }
        let header = blocks.open_page()?;
        let size_class = B::Ladder::size_class(class);
        page::begin_blocks::<B::Ladder>(header, size_class);
        if size_class.blocks > 1 {
            let record = directory.record(class);
            ring::insert_after(record.addr(), node(header));
            (*record).not_full = (*record).not_full.wrapping_add(1);
        }
        Some(Block { header, number: 0 })
    }
}

/// Takes a page-block of the [`last`] not-full page of a class.
///
/// # Safety
///
/// `header` is that page.
///
/// # Time
///
/// Constant.
#[inline(always)]
pub(crate) unsafe fn take_from<L: Ladder, X>(directory: Directory<L, X>, class: usize, header: *mut Header) -> Block {
    // SAFETY: `header` is the last page in the ring of the class, so it is not full.
    unsafe {
        let number = page::take_block(header);
        if (*header).state.free_rows == 0 {
            leave_ring(directory.record(class), header);
        }
        Block { header, number }
    }
}

/// Frees the page-block of a removed object. Moves another object into it if `may_move` and the class requires it.
///
/// # Safety
///
/// The page-block is used, and its class is `class`.
///
/// # Time
///
/// Constant, except for the variant's costs of moving an object and closing a page.
#[inline(always)]
pub(crate) unsafe fn give<B: PageBlocks>(blocks: B, class: usize, block: Block, may_move: bool) -> Given {
    let record = blocks.directory().record(class);
    let header = block.header;
    // SAFETY: the class is one of the ladder's, and the page-block is a used one of the class.
    unsafe {
        let size_class = B::Ladder::size_class(class);
        let was_full = (*header).state.free_rows == 0;
        if was_full && may_move && (*record).not_full >= (*record).max_not_full && size_class.blocks > 1 {
            compact(blocks, record, size_class, block);
            return Given::Compacted;
        }
        let used = page::free_block(header, block.number, size_class);
        if used == 0 {
            if !was_full {
                leave_ring(record, header);
            }
            blocks.close_page(header);
        } else if was_full {
            let not_full = (*record).not_full.wrapping_add(1);
            (*record).not_full = not_full;
            let is_half = used <= size_class.half;
            let place = if is_half { record.addr() } else { (*record).head.prev };
            ring::insert_after(place, node(header));
            if not_full > (*record).max_not_full {
                return Given::Pending;
            }
        } else if used == size_class.half {
            to_front(record, header);
        }
    }
    Given::Free
}

/// Rule 2: moves an object of the first not-full page into a page-block whose object was removed.
///
/// # Safety
///
/// As [`give`]; the class has a not-full page, and the block's page is not one.
#[inline(never)]
unsafe fn compact<B: PageBlocks>(blocks: B, record: *mut Record, size_class: &SizeClass, to: Block) {
    // SAFETY: the first page of the ring is not full, and every page of a class has an object.
    unsafe {
        let header = header_of((*record).head.next);
        let from = Block { header, number: page::used_block(header, size_class) };
        blocks.move_object(size_class, from, to);
        vacate(blocks, record, size_class, from);
    }
}

/// Frees a page-block of a not-full page, after its object was moved away.
///
/// # Safety
///
/// The page-block is used, and its page in the class's ring.
#[inline(always)]
pub(crate) unsafe fn vacate<B: PageBlocks>(blocks: B, record: *mut Record, size_class: &SizeClass, from: Block) {
    // SAFETY: the page-block is used, its object was moved away, and its page is in the ring of the class.
    unsafe {
        let used = page::free_block(from.header, from.number, size_class);
        if used == 0 {
            leave_ring(record, from.header);
            blocks.close_page(from.header);
        } else if used == size_class.half {
            to_front(record, from.header);
        }
    }
}

/// Takes a page out of its class's ring.
///
/// # Safety
///
/// The page is in the ring.
#[inline(always)]
unsafe fn leave_ring(record: *mut Record, header: *mut Header) {
    // SAFETY: the page is in the ring, so its node is linked.
    unsafe {
        ring::remove(node(header));
        (*record).not_full = (*record).not_full.wrapping_sub(1);
    }
}

/// Makes a page the first of its ring.
///
/// # Safety
///
/// The page is in the ring.
#[inline(always)]
unsafe fn to_front(record: *mut Record, header: *mut Header) {
    // SAFETY: the page is in the ring, whose head is at the start of the record.
    unsafe {
        ring::remove(node(header));
        ring::insert_after(record.addr(), node(header));
    }
}

/// Verifies the ring of every class (invariants 1 and 2 with max_nr_nf_pages for 1, and the order of section 3.4), and
/// every page of a size class.
///
/// # Errors
///
/// The first [`Corruption`].
///
/// # Safety
///
/// The directory is initialised. `may_be_pending` says whether a class may have more not-full pages than allowed.
pub(crate) unsafe fn check<L: Ladder, X>(directory: Directory<L, X>, may_be_pending: bool) -> Result<(), Corruption> {
    let broken = |invariant, address| Err(Corruption { invariant, address });
    let mut in_rings = 0;
    // SAFETY: only headers of pages that have been taken are read, and links are followed only to them.
    unsafe {
        for class in 0..L::CLASSES {
            let record = directory.record(class);
            let half = L::size_class(class).half;
            let mut seen_more_than_half = false;
            let count = directory.check_ring(record.addr() + offset_of!(Record, head), &mut |header| {
                if usize::from((*header).state.class) != class {
                    return broken("a ring of a class holds pages of the class", header.addr());
                }
                if (*header).state.free_rows == 0 {
                    return broken("a page in the ring of its class is not full", header.addr());
                }
                let is_half = (*header).state.used <= half;
                if is_half && seen_more_than_half {
                    return broken("pages at most half full precede the others", header.addr());
                }
                seen_more_than_half |= !is_half;
                Ok(())
            })?;
            if count != (*record).not_full as usize {
                return broken("a class counts its not-full pages", record.addr());
            }
            if (*record).max_not_full == 0 || ((*record).not_full > (*record).max_not_full && !may_be_pending) {
                return broken("a class has at most max_nr_nf_pages not-full pages", record.addr());
            }
            in_rings += count;
        }
        let mut not_full = 0;
        for header in directory.headers() {
            let class = usize::from((*header).state.class);
            if class >= L::CLASSES {
                continue;
            }
            if (*header).entries != 0 {
                return broken("a page of a size class has no abstract address", header.addr());
            }
            if let Err(invariant) = page::check_blocks(header, L::size_class(class)) {
                return broken(invariant, header.addr());
            }
            not_full += usize::from((*header).state.free_rows != 0);
        }
        if in_rings != not_full {
            return broken("every not-full page is in the ring of its class", directory.record(0).addr());
        }
    }
    Ok(())
}

/// Emits the rings, and the page-blocks of every page.
///
/// # Safety
///
/// The directory is initialised, and its invariants hold.
pub(crate) unsafe fn fingerprint<L: Ladder, X>(directory: Directory<L, X>, word: &mut dyn FnMut(usize)) {
    // SAFETY: the invariants hold, so rings lead to headers, and pages of a class have rows.
    unsafe {
        for class in 0..L::CLASSES {
            let record = directory.record(class);
            word((*record).max_not_full as usize);
            let _ = directory.check_ring(record.addr(), &mut |header| {
                word((*header).page as usize);
                Ok(())
            });
            word(usize::MAX);
        }
        for header in directory.headers() {
            let class = usize::from((*header).state.class);
            word(class);
            if class < L::CLASSES {
                let rows = page::rows(header);
                (0..=usize::from(L::size_class(class).tail_row)).for_each(|row| word(rows.add(row).read()));
            }
        }
    }
}

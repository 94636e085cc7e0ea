//! The directory: the headers of all pages, before the pages.
//!
//! ```text
//! region  [ ... header 2][header 1][header 0][X][pool][class records] [page 0][page 1][page 2] ...
//!                                                                     ^ base: a heap's one pointer
//! ```
//!
//! Everything is at a fixed distance from the base: the header of page p is (p + 1) headers below the fixed part, and
//! the page of an address is found by a shift. Headers of pages that were never taken have the region's old contents,
//! so making a heap writes only the fixed part. X is the data of a variant of Compact-fit.
//!
//! # The two-dimensional bitmap
//!
//! (Section 3.1.) A row is one machine word, with a bit for each page-block that is set while it is free. `free_rows`
//! has a bit for each row with a free page-block, `used_rows` for each row with a used one. So either kind is found by
//! two bit searches.
//!
//! ```text
//! free_rows 1101   used_rows 1110      16 page-blocks in rows of 5:  [11111][00110][00000][-----1]  1 = free
//!                                                                     row 0  row 1  row 2  row 3: only one page-block
//! ```
//!
//! | | 64-bit | 32-bit |
//! |---|---|---|
//! | header of a page of 16 KiB with page-blocks from 32 B on | 96 B: 0.59 % | 88 B: 0.54 % |

use super::free_list::FreeList;
use super::ladder::{Ladder, SizeClass, State};
use crate::contract::Corruption;
use crate::mechanism::bits::first_set;
use crate::mechanism::page::ring::{self, Node};
use crate::region::round_up;
use core::marker::PhantomData;
use core::num::NonZeroUsize;

/// The class of a page in the pool. Numbers from [`SPECIAL`] on are not size classes.
pub(crate) const FREE: u8 = u8::MAX;

/// The first number that a variant may use for pages without page-blocks.
pub(crate) const SPECIAL: u8 = 128;

/// The fixed part of a page's header; the rows of its bitmap follow.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    /// Links of the ring of the class's not-full pages, while the page is one. In the pool, `next` is the number of the
    /// next free page.
    pub(crate) node: Node,
    /// Number of the page.
    pub(crate) page: u32,
    /// The state of its page-blocks, and its class.
    pub(crate) state: State,
    /// Number of abstract addresses in this page that have been taken; 0 unless it is a page of abstract addresses. It
    /// is the last field, because such a page has no rows and stores further data after it.
    pub(crate) entries: u32,
}

/// The node of a [`Header`], which begins with its links.
#[inline(always)]
pub(crate) fn node(header: *mut Header) -> usize {
    header.addr()
}

/// The header that begins with a node.
#[inline(always)]
pub(crate) fn header_of(node: usize) -> *mut Header {
    core::ptr::with_exposed_provenance_mut(node)
}

/// The rows of a page's bitmap.
#[inline(always)]
pub(crate) fn rows(header: *mut Header) -> *mut usize {
    header.wrapping_add(1).cast()
}

/// The row of a page-block, and its bit there.
#[inline(always)]
fn place(block: usize) -> (usize, usize) {
    (block / usize::BITS as usize, 1usize.wrapping_shl(block as u32))
}

/// The bits of a row that belong to page-blocks.
#[inline(always)]
pub(crate) fn valid_bits(class: &SizeClass, row: usize) -> usize {
    if row == usize::from(class.tail_row) { class.tail } else { usize::MAX }
}

/// The first bit of a word that is not zero.
///
/// # Safety
///
/// The word is not zero.
#[inline(always)]
unsafe fn first(word: usize) -> usize {
    // SAFETY: the caller guarantees that the word is not zero.
    first_set(unsafe { NonZeroUsize::new_unchecked(word) }) as usize
}

/// Initialises a page of a class: its first page-block is used, all others are free, and it is in no ring.
///
/// # Safety
///
/// The header is that of a page that was taken from the pool; `size_class` is a class of the ladder `L`.
#[inline(always)]
pub(crate) unsafe fn begin_blocks<L: Ladder>(header: *mut Header, size_class: &SizeClass) {
    // SAFETY: the caller owns the header, which has `row_count` rows. Rows after the class's last one are never read.
    unsafe {
        let rows = rows(header);
        rows.write_bytes(0xFF, row_count::<L>());
        rows.add(size_class.tail_row.into()).write(size_class.tail);
        rows.write(rows.read() ^ 1);
        (*header).state = size_class.opened;
        (*header).entries = 0;
    }
}

/// Takes the first free page-block of a page and returns its number.
///
/// # Safety
///
/// The header is that of a page of a size class that is not full.
#[inline(always)]
pub(crate) unsafe fn take_block(header: *mut Header) -> usize {
    // SAFETY: the page is not full, so it has a row with a free page-block, and that row has a bit set.
    unsafe {
        let free_rows = usize::from((*header).state.free_rows);
        let row = first(free_rows);
        let bits = rows(header).add(row).read();
        let bit = first(bits);
        let rest = bits & bits.wrapping_sub(1);
        rows(header).add(row).write(rest);
        (*header).state.used = (*header).state.used.wrapping_add(1);
        (*header).state.used_rows |= 1usize.wrapping_shl(row as u32) as u16;
        if rest == 0 {
            (*header).state.free_rows = (free_rows & free_rows.wrapping_sub(1)) as u16;
        }
        row * usize::BITS as usize + bit
    }
}

/// Frees a page-block; returns how many of its page are still used.
///
/// # Safety
///
/// The page-block is used, and its page is of this class.
#[inline(always)]
pub(crate) unsafe fn free_block(header: *mut Header, block: usize, class: &SizeClass) -> u16 {
    let (row, bit) = place(block);
    // SAFETY: the page is of this class, so it has a row for the page-block.
    unsafe {
        let bits = rows(header).add(row).read() | bit;
        rows(header).add(row).write(bits);
        let row_bit = 1usize.wrapping_shl(row as u32) as u16;
        (*header).state.free_rows |= row_bit;
        if bits == valid_bits(class, row) {
            (*header).state.used_rows ^= row_bit;
        }
        let used = (*header).state.used.wrapping_sub(1);
        (*header).state.used = used;
        used
    }
}

/// The first used page-block of a page.
///
/// # Safety
///
/// The header is that of a page of this class with a used page-block.
#[inline(always)]
pub(crate) unsafe fn used_block(header: *mut Header, class: &SizeClass) -> usize {
    // SAFETY: the page has a used page-block, so `used_rows` is not zero, and its row has a valid clear bit.
    unsafe {
        let row = first((*header).state.used_rows.into());
        let bit = first(!rows(header).add(row).read() & valid_bits(class, row));
        row * usize::BITS as usize + bit
    }
}

/// The used page-block after `block`, wrapping around: `block` itself if it is the only one.
///
/// # Safety
///
/// As [`used_block`], and `block` is a used page-block of the page.
#[inline(always)]
pub(crate) unsafe fn used_block_after(header: *mut Header, block: usize, class: &SizeClass) -> usize {
    let (row, bit) = place(block);
    // SAFETY: the page has a used page-block, and every row with a bit in `used_rows` has one.
    unsafe {
        let used = |row: usize| !rows(header).add(row).read() & valid_bits(class, row);
        let here = used(row) & !(bit | bit.wrapping_sub(1));
        if here != 0 {
            return row * usize::BITS as usize + first(here);
        }
        let after = usize::from((*header).state.used_rows) & (usize::MAX - 1).wrapping_shl(row as u32);
        if after == 0 {
            return used_block(header, class);
        }
        let row = first(after);
        row * usize::BITS as usize + first(used(row))
    }
}

/// The first used page-block from a number on, if there is one.
///
/// # Safety
///
/// As [`used_block`].
#[inline(always)]
pub(crate) unsafe fn used_block_from(header: *mut Header, number: usize, class: &SizeClass) -> Option<usize> {
    if number >= class.blocks.into() {
        return None;
    }
    let (row, bit) = place(number);
    // SAFETY: the number is below that of the page-blocks, so it has a row; every row with a bit in `used_rows` has a
    // used page-block.
    unsafe {
        let used = |row: usize| !rows(header).add(row).read() & valid_bits(class, row);
        let here = used(row) & !bit.wrapping_sub(1);
        if here != 0 {
            return Some(row * usize::BITS as usize + first(here));
        }
        let after = usize::from((*header).state.used_rows) & (usize::MAX - 1).wrapping_shl(row as u32);
        if after == 0 {
            return None;
        }
        let row = first(after);
        Some(row * usize::BITS as usize + first(used(row)))
    }
}

/// Whether a page-block is used.
///
/// # Safety
///
/// The header is that of a page of a class that has a page-block with this number.
#[inline(always)]
pub(crate) unsafe fn is_used(header: *mut Header, block: usize) -> bool {
    let (row, bit) = place(block);
    // SAFETY: the page has a page-block with this number, so it has a row for it.
    unsafe { rows(header).add(row).read() & bit == 0 }
}

/// Verifies that used page-blocks, rows and counts agree.
///
/// # Errors
///
/// The first disagreement.
///
/// # Safety
///
/// The header is that of a page that was taken for this class.
pub(crate) unsafe fn check_blocks(header: *mut Header, class: &SizeClass) -> Result<(), &'static str> {
    let (mut used, mut used_rows, mut free_rows) = (0, 0, 0);
    for row in 0..=usize::from(class.tail_row) {
        let valid = valid_bits(class, row);
        // SAFETY: the page was taken for this class, so it has a row for each of its page-blocks.
        let free = unsafe { rows(header).add(row).read() };
        if free & !valid != 0 {
            return Err("a bit without a page-block is clear");
        }
        used += (valid ^ free).count_ones();
        used_rows |= u16::from(free != valid) << row;
        free_rows |= u16::from(free != 0) << row;
    }
    // SAFETY: the page was taken for this class, so its header is initialised.
    let header = unsafe { &*header };
    if used != u32::from(header.state.used) {
        return Err("a page counts its used page-blocks");
    }
    if used == 0 {
        return Err("a page of a class has a used page-block");
    }
    if (used_rows, free_rows) != (header.state.used_rows, header.state.free_rows) {
        return Err("a page's rows are those with a used and those with a free page-block");
    }
    Ok(())
}

/// Number of rows of a page's bitmap.
#[inline(always)]
const fn row_count<L: Ladder>() -> usize {
    L::MAX_BLOCKS.div_ceil(usize::BITS as usize)
}

/// Bytes of the rows, or of the data of a page without rows if that is more.
#[inline(always)]
const fn rows_bytes<L: Ladder>() -> usize {
    let bytes = row_count::<L>() * size_of::<usize>();
    if bytes > SPECIAL_BYTES { bytes } else { SPECIAL_BYTES }
}

/// Bytes after the fixed part of a header that a page without rows may use.
pub(crate) const SPECIAL_BYTES: usize = 16;

/// Offset of the block table in a page's header, if the ladder has one.
#[inline(always)]
pub(crate) const fn block_table_at<L: Ladder>() -> usize {
    size_of::<Header>() + rows_bytes::<L>()
}

/// The pages that are not in use.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Pool {
    /// The free-list of pages; those that have been taken have headers.
    pub(crate) list: FreeList,
    /// Number of pages, in use or not.
    pub(crate) room: u32,
    /// Number of pages that are not in use.
    pub(crate) free: u32,
}

/// A size class.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Record {
    /// Head of the ring of the class's not-full pages.
    pub(crate) head: Node,
    /// Their number: nr_not_full_pages.
    pub(crate) not_full: u32,
    /// Their largest number: max_nr_nf_pages, at least 1.
    pub(crate) max_not_full: u32,
}

/// The layout of a heap on the ladder `L`, identified by its base, whose variant stores an `X`.
#[derive(Debug)]
pub(crate) struct Directory<L, X> {
    base: usize,
    kinds: PhantomData<(L, X)>,
}

impl<L, X> Clone for Directory<L, X> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L, X> Copy for Directory<L, X> {}

impl<L: Ladder, X> Directory<L, X> {
    /// Distances below the base.
    const RECORDS: usize = L::CLASSES * size_of::<Record>();
    const POOL: usize = Self::RECORDS + size_of::<Pool>();
    const EXTRA: usize = Self::POOL + size_of::<X>().next_multiple_of(align_of::<usize>());
    /// Bytes of a header, its rows and block table included.
    pub(crate) const HEADER: usize = block_table_at::<L>() + L::BLOCK_TABLE_BYTES;
    /// Bytes of the fixed part of the control structure.
    pub(crate) const FIXED: usize = Self::EXTRA;
    /// The base is a multiple of this.
    pub(crate) const ALIGN: usize = if L::GRAIN > 16 { L::GRAIN } else { 16 };
    /// Largest number of pages: their numbers have 32 bits, and so do distances of entries in units of 16 bytes.
    const MAX_PAGES: usize = {
        let by_entries = (1u64 << 36) / L::PAGE as u64 - 1;
        let by_memory = (usize::MAX / (L::PAGE + Self::HEADER)) as u64;
        if by_entries < by_memory { by_entries as usize } else { by_memory as usize }
    };
    /// Bytes of the largest region.
    pub(crate) const MOST_BYTES: usize = Self::MAX_PAGES * (L::PAGE + Self::HEADER);

    const VALID: () = {
        assert!(align_of::<X>() <= align_of::<usize>() && L::CLASSES <= SPECIAL as usize);
        assert!(L::PAGE.is_multiple_of(Self::ALIGN));
    };

    /// The directory of the heap at a base.
    #[inline(always)]
    pub(crate) fn at(base: usize) -> Self {
        Directory { base, kinds: PhantomData }
    }

    /// Plans as many pages as a region holds, without accessing it. `None` if it holds none. The number may exceed
    /// [`MAX_PAGES`](Self::MAX_PAGES).
    pub(crate) fn plan(start: usize, len_bytes: usize) -> Option<(Self, usize)> {
        const { Self::VALID };
        let end = start.checked_add(len_bytes)?;
        let mut pages = len_bytes.checked_sub(Self::FIXED)? / (L::PAGE + Self::HEADER);
        // Aligning the base may cost one page.
        let mut base = round_up(start + Self::FIXED + pages * Self::HEADER, Self::ALIGN)?;
        if base > end || end - base < pages * L::PAGE {
            pages = pages.checked_sub(1)?;
            base = round_up(start + Self::FIXED + pages * Self::HEADER, Self::ALIGN)?;
        }
        (pages != 0).then_some((Self::at(base), pages))
    }

    /// Length of a region that holds `pages` pages wherever it starts; `usize::MAX` beyond the address space.
    pub(crate) const fn needed_bytes(pages: usize) -> usize {
        pages.saturating_mul(L::PAGE + Self::HEADER).saturating_add(Self::FIXED + Self::ALIGN - 1)
    }

    /// Initialises the pool and the classes; `max_not_full` returns max_nr_nf_pages of each.
    ///
    /// # Safety
    ///
    /// The directory was planned with this many pages in a region that the caller owns.
    pub(crate) unsafe fn begin(self, pages: u32, max_not_full: &dyn Fn(usize) -> u32) {
        // SAFETY: the pool and the records are in the region, which the caller owns.
        unsafe {
            self.pool().write(Pool { list: FreeList::EMPTY, room: pages, free: pages });
            for class in 0..L::CLASSES {
                let record = self.record(class);
                let head = Node { prev: record.addr(), next: record.addr() };
                record.write(Record { head, not_full: 0, max_not_full: max_not_full(class).max(1) });
            }
        }
    }

    /// The base.
    #[inline(always)]
    pub(crate) fn base(self) -> usize {
        self.base
    }

    #[inline(always)]
    fn below<T>(self, distance: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.base.wrapping_sub(distance))
    }

    /// The data of the variant.
    #[inline(always)]
    pub(crate) fn extra(self) -> *mut X {
        self.below(Self::EXTRA)
    }

    /// The pool.
    #[inline(always)]
    pub(crate) fn pool(self) -> *mut Pool {
        self.below(Self::POOL)
    }

    /// The record of a class.
    #[inline(always)]
    pub(crate) fn record(self, class: usize) -> *mut Record {
        self.below::<Record>(Self::RECORDS).wrapping_add(class)
    }

    /// The header of a page.
    #[inline(always)]
    pub(crate) fn header(self, page: usize) -> *mut Header {
        self.below(Self::FIXED.wrapping_add(Self::HEADER).wrapping_add(page.wrapping_mul(Self::HEADER)))
    }

    /// Address of a page.
    #[inline(always)]
    pub(crate) fn address(self, page: usize) -> usize {
        self.base.wrapping_add(page.wrapping_mul(L::PAGE))
    }

    /// The page of an address.
    #[inline(always)]
    pub(crate) fn page_of(self, address: usize) -> usize {
        address.wrapping_sub(self.base) / L::PAGE
    }

    /// Takes a page from the pool. Its number is in its header; the caller writes the rest.
    ///
    /// # Safety
    ///
    /// The directory is initialised.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub(crate) unsafe fn take_page(self) -> Option<*mut Header> {
        // SAFETY: the pool is initialised; pages in its list have headers, and the next fresh page is the pool's.
        unsafe {
            let pool = self.pool();
            let link = |page: u32| (*self.header(page as usize)).node.next as u32;
            let page = (*pool).list.take((*pool).room, link)?;
            (*pool).free = (*pool).free.wrapping_sub(1);
            let header = self.header(page as usize);
            (*header).page = page;
            Some(header)
        }
    }

    /// Returns a page to the pool.
    ///
    /// # Safety
    ///
    /// The page was taken and not returned since; it is in no ring.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub(crate) unsafe fn give_page(self, header: *mut Header) {
        // SAFETY: the page was taken, so it has a header, which belongs to the pool again.
        unsafe {
            let pool = self.pool();
            (*header).state.class = FREE;
            (*header).entries = 0;
            (*pool).list.give((*header).page, |next| (*header).node.next = next as usize);
            (*pool).free = (*pool).free.wrapping_add(1);
        }
    }

    /// Pages in the pool.
    ///
    /// # Safety
    ///
    /// The directory is initialised.
    #[inline(always)]
    pub(crate) unsafe fn free_pages(self) -> u32 {
        // SAFETY: the directory is initialised, and so is its pool.
        unsafe { (*self.pool()).free }
    }

    /// The headers of all pages that have been taken before, in the order of their numbers.
    ///
    /// # Safety
    ///
    /// The directory is initialised.
    pub(crate) unsafe fn headers(self) -> impl Iterator<Item = *mut Header> {
        // SAFETY: the directory is initialised, and so is its pool.
        let fresh = unsafe { (*self.pool()).list.fresh };
        (0..fresh as usize).map(move |page| self.header(page))
    }

    /// Verifies that the pool holds exactly the pages whose headers say so, each once.
    ///
    /// # Errors
    ///
    /// The first [`Corruption`].
    ///
    /// # Safety
    ///
    /// The directory is initialised.
    pub(crate) unsafe fn check_pool(self) -> Result<(), Corruption> {
        let broken = |invariant, address| Err(Corruption { invariant, address });
        // SAFETY: the pool is initialised, and only headers of pages that have been taken are read.
        unsafe {
            let pool = self.pool();
            if (*pool).list.fresh > (*pool).room {
                return broken("pages are taken in their order, and not more than there are", pool.addr());
            }
            let mut free = 0;
            for (page, header) in self.headers().enumerate() {
                if (*header).page as usize != page {
                    return broken("a page's header has its number", header.addr());
                }
                if (*header).state.class == FREE {
                    free += 1;
                    if (*header).entries != 0 {
                        return broken("a free page has no abstract address", header.addr());
                    }
                }
            }
            let mut strangers = 0;
            let listed = (*pool).list.walk(|page| (*self.header(page as usize)).node.next as u32, &mut |page| {
                strangers += u32::from((*self.header(page as usize)).state.class != FREE)
            });
            if listed != Some(free) || strangers != 0 {
                return broken("the pool holds each free page once", pool.addr());
            }
            if (*pool).free != (*pool).room - (*pool).list.fresh + free {
                return broken("the pool counts its pages", pool.addr());
            }
        }
        Ok(())
    }

    /// Verifies a ring of pages, following only links that lead to headers of pages that have been taken, and visits
    /// them; returns their number.
    ///
    /// # Errors
    ///
    /// The first [`Corruption`].
    ///
    /// # Safety
    ///
    /// The directory is initialised, and `head` is a head in it.
    pub(crate) unsafe fn check_ring(
        self,
        head: usize,
        visit: &mut dyn FnMut(*mut Header) -> Result<(), Corruption>,
    ) -> Result<usize, Corruption> {
        // SAFETY: the directory is initialised, and so is its pool.
        let fresh = unsafe { (*self.pool()).list.fresh } as usize;
        let top = self.header(0).addr();
        let is_node = |node: usize| {
            let distance = top.wrapping_sub(node);
            distance.is_multiple_of(Self::HEADER) && distance / Self::HEADER < fresh
        };
        // SAFETY: `is_node` accepts only headers of pages that have been taken, which are initialised.
        unsafe { ring::check(head, fresh, &is_node, &mut |node| visit(header_of(node))) }
    }

    /// Emits which pages are taken next, in order.
    ///
    /// # Safety
    ///
    /// The directory is initialised.
    pub(crate) unsafe fn fingerprint_pool(self, word: &mut dyn FnMut(usize)) {
        // SAFETY: the pool is initialised, and its list leads to pages with headers.
        unsafe {
            let list = (*self.pool()).list;
            word(list.fresh as usize);
            let _ = list.walk(|page| (*self.header(page as usize)).node.next as u32, &mut |page| word(page as usize));
        }
        word(usize::MAX);
    }
}

//! The pages of a heap: taken and returned in constant time. A page is not initialised before it is taken.
//!
//! Returned pages are taken first, last in, first out, through a link in each of them. If there are none, the pages
//! that were never taken follow in address order:
//!
//! ```text
//! [in use][returned][in use][returned][in use][never taken ........]
//!          ^ first    next  <--'              ^ first + used       ^ first + room
//! ```
//!
//! A returned page keeps its footer, which then says that the page is not in use. Given an address, one comparison
//! decides whether it is in a page with a footer ([`Pool::holds`]), and one load whether that page is in use.

use crate::arithmetic::count;
use crate::contract::{Block, Corruption, MisuseKind};
use crate::mechanism::sealed::Sealed;
use crate::region::round_up;
use core::marker::PhantomData;

/// A page's bookkeeping, at its end. It consists of integers, so any bytes are a valid value.
pub trait Footer: Sealed + Sized + core::fmt::Debug + 'static {
    /// Bytes at the end of a page that are not for blocks: this structure, and any bookkeeping before it.
    const BYTES: usize = size_of::<Self>();

    /// Whether the page is in use. A page is returned with a footer that says no; the caller that takes a page writes
    /// one that says yes.
    fn is_in_use(&self) -> bool;
}

/// A page of `PAGE` bytes, a power of two. Not any address in it: only [`of`](Self::of) makes a page from an address.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<const PAGE: usize>(usize);

impl<const PAGE: usize> Page<PAGE> {
    /// The page that contains an address.
    #[inline(always)]
    pub const fn of(address: usize) -> Self {
        Page(address & !(PAGE - 1))
    }

    /// Its first address, a multiple of `PAGE`.
    #[inline(always)]
    pub const fn start(self) -> usize {
        self.0
    }

    /// The address at an offset in it.
    #[inline(always)]
    pub const fn address(self, offset_bytes: usize) -> usize {
        self.0.wrapping_add(offset_bytes)
    }
}

/// Part of a room, as [`Pool::walk`] visits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages<const PAGE: usize> {
    /// This page is in use.
    InUse(Page<PAGE>),
    /// Consecutive free pages.
    Free {
        /// Address of the first of them.
        start: usize,
        /// Bytes of all of them together.
        len_bytes: usize,
    },
}

impl<const PAGE: usize> Pages<PAGE> {
    /// Free pages as one free block.
    pub fn as_block(self) -> Option<Block> {
        match self {
            Pages::InUse(_) => None,
            Pages::Free { start, len_bytes } => {
                let (size_bytes, usable_bytes) = (len_bytes, len_bytes);
                Some(Block { address: start, front_bytes: 0, size_bytes, usable_bytes, free: true })
            }
        }
    }
}

/// Pages of `PAGE` bytes, a power of two, with footers `F`.
#[repr(C)]
#[derive(Debug)]
pub struct Pool<F, const PAGE: usize> {
    /// Address of the first page, a multiple of `PAGE`.
    first: usize,
    /// Bytes from the first page to the first one that was never taken: whole pages, at most the room.
    used_bytes: usize,
    /// Bytes of all pages; at least one.
    room_bytes: usize,
    /// Head of the list of all unused pages below `used_bytes`, or 0; the first word of each page is the next page.
    returned: usize,
    footer: PhantomData<F>,
}

impl<F: Footer, const PAGE: usize> Pool<F, PAGE> {
    const VALID: () = {
        assert!(PAGE.is_power_of_two(), "pages are found by clearing the low bits of addresses");
        assert!(PAGE >= size_of::<usize>() + F::BYTES, "a page holds a link and its footer");
        assert!(F::BYTES >= size_of::<F>(), "what a page keeps includes the footer");
        assert!(align_of::<F>() <= size_of::<usize>() && PAGE >= align_of::<usize>(), "footers are aligned");
        assert!(size_of::<F>().is_multiple_of(align_of::<F>()));
    };

    /// Bytes of a page before its bookkeeping.
    pub const BLOCK_BYTES: usize = PAGE - F::BYTES;

    /// Plans the pages that lie completely in the room from `start` to `end`, without access. `None` if there are none.
    pub fn plan(start: usize, end: usize) -> Option<Self> {
        const { Self::VALID };
        let first = round_up(start, PAGE)?;
        let room_bytes = end.checked_sub(first)? & !(PAGE - 1);
        (room_bytes != 0).then_some(Pool { first, used_bytes: 0, room_bytes, returned: 0, footer: PhantomData })
    }

    /// Length of a room that holds `pages` pages, wherever it starts at a multiple of `align_of::<usize>()`.
    pub const fn needed_bytes(pages: usize) -> usize {
        pages * PAGE + PAGE - align_of::<usize>()
    }

    /// Address of the first page.
    #[inline(always)]
    pub fn first(&self) -> usize {
        self.first
    }

    /// Number of pages, free or not.
    pub fn pages(&self) -> usize {
        self.room_bytes / PAGE
    }

    /// The footer of a page.
    #[inline(always)]
    pub fn footer(page: Page<PAGE>) -> *mut F {
        core::ptr::with_exposed_provenance_mut(page.address(PAGE - size_of::<F>()))
    }

    /// Address of a page's bookkeeping, of which the footer is the last part.
    #[inline(always)]
    pub const fn bookkeeping(page: Page<PAGE>) -> usize {
        page.address(Self::BLOCK_BYTES)
    }

    /// Whether an address lies in a page that has been taken before, and so has a footer. One comparison.
    #[inline(always)]
    pub fn holds(&self, address: usize) -> bool {
        address.wrapping_sub(self.first) < self.used_bytes
    }

    /// The page of an address and its offset there.
    ///
    /// # Errors
    ///
    /// The address lies in no page that was ever taken, or is not a multiple of `quantum_bytes`, a power of two.
    #[inline(always)]
    pub fn locate(&self, address: usize, quantum_bytes: usize) -> Result<(Page<PAGE>, usize), MisuseKind> {
        if !self.holds(address) || address & (quantum_bytes - 1) != 0 {
            return Err(MisuseKind::ForeignPointer);
        }
        Ok((Page::of(address), address & (PAGE - 1)))
    }

    /// Whether every page is in use.
    #[inline(always)]
    pub fn is_exhausted(&self) -> bool {
        self.returned == 0 && self.used_bytes == self.room_bytes
    }

    /// Takes a page with arbitrary contents; the caller writes its footer.
    ///
    /// # Safety
    ///
    /// The pool owns the room, whose provenance is exposed.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub unsafe fn take(&mut self) -> Option<Page<PAGE>> {
        let page = Page(self.returned);
        if page.0 != 0 {
            // SAFETY: the page is in the list of returned pages, so its first word is a link.
            self.returned = unsafe { link(page).read() };
            return Some(page);
        }
        if self.used_bytes == self.room_bytes {
            return None;
        }
        let page = Page(self.first.wrapping_add(self.used_bytes));
        self.used_bytes = self.used_bytes.wrapping_add(PAGE);
        Some(page)
    }

    /// Returns a page to the pool.
    ///
    /// # Safety
    ///
    /// The page was taken and not returned since; none of its blocks is live, and its footer says so.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub unsafe fn release(&mut self, page: Page<PAGE>) {
        // SAFETY: the page was taken, so it has a footer; its first word belongs to the pool again.
        unsafe {
            debug_assert!(!(*Self::footer(page)).is_in_use(), "a page is returned while it is in use");
            link(page).write(self.returned);
        }
        self.returned = page.0;
    }

    /// Visits the pages in address order: those in use one by one, free ones as runs.
    ///
    /// # Safety
    ///
    /// As [`take`](Self::take); every page that has been taken has a footer.
    pub unsafe fn walk(&self, visit: &mut dyn FnMut(Pages<PAGE>)) {
        let mut start = self.first;
        let free = |start: usize, end: usize, visit: &mut dyn FnMut(Pages<PAGE>)| {
            if start < end {
                visit(Pages::Free { start, len_bytes: end - start });
            }
        };
        for page in self.used() {
            // SAFETY: the page has been taken before, so it has a footer.
            if unsafe { (*Self::footer(page)).is_in_use() } {
                free(start, page.start(), visit);
                visit(Pages::InUse(page));
                start = page.start() + PAGE;
            }
        }
        free(start, self.first + self.room_bytes, visit);
    }

    /// The pages that have been taken before, in address order.
    pub fn used(&self) -> impl Iterator<Item = Page<PAGE>> + use<F, PAGE> {
        let first = self.first;
        (0..self.used_bytes / PAGE).map(move |index| Page(first + index * PAGE))
    }

    /// Verifies that the pages lie in the room from `start`, for which the pool was planned, and that exactly the pages
    /// that are not in use can be taken.
    ///
    /// # Errors
    ///
    /// The first [`Corruption`].
    ///
    /// # Safety
    ///
    /// As [`walk`](Self::walk).
    pub unsafe fn check(&self, start: usize) -> Result<(), Corruption> {
        let broken = |invariant, address| Err(Corruption { invariant, address });
        if round_up(start, PAGE) != Some(self.first) || !self.room_bytes.is_multiple_of(PAGE) {
            return broken("the first page lies where the room begins", start);
        }
        if self.used_bytes > self.room_bytes || !self.used_bytes.is_multiple_of(PAGE) {
            return broken("pages are taken whole, in the order of their addresses", self.first);
        }
        // SAFETY: pages below `used_bytes` have footers.
        let is_free = |page| unsafe { !(*Self::footer(page)).is_in_use() };
        let free = count(self.used().filter(|&page| is_free(page)));
        let mut listed = 0;
        let mut next = self.returned;
        while next != 0 {
            let page = Page::of(next);
            if !self.holds(next) || page.start() != next {
                return broken("a free page's link leads to a page", next);
            }
            if !is_free(page) {
                return broken("a page that can be taken is not in use", next);
            }
            listed += 1;
            if listed > free {
                return broken("a free page can be taken once", next);
            }
            // SAFETY: the page is free and has been taken before, so its first word is a link.
            next = unsafe { link(page).read() };
        }
        if listed != free {
            return broken("every page that is not in use can be taken", self.first);
        }
        Ok(())
    }

    /// Emits the pool's abstract state: which pages are taken next, in order. Which ones are in use follows from it.
    ///
    /// # Safety
    ///
    /// As [`walk`](Self::walk).
    pub unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        word(self.used_bytes);
        let mut next = self.returned;
        while next != 0 {
            word(next - self.first);
            // SAFETY: the page is free and has been taken before, so its first word is a link.
            next = unsafe { link(Page::<PAGE>(next)).read() };
        }
        word(usize::MAX);
    }
}

/// The first word of a returned page.
#[inline(always)]
fn link<const PAGE: usize>(page: Page<PAGE>) -> *mut usize {
    core::ptr::with_exposed_provenance_mut(page.0)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{vec, vec::Vec};

    #[derive(Debug)]
    struct Used(u16);
    impl Sealed for Used {}
    impl Footer for Used {
        fn is_in_use(&self) -> bool {
            self.0 != 0
        }
    }

    const PAGE: usize = 64;
    type Small = Pool<Used, PAGE>;

    /// A pool of this many pages, in memory that lives as long as the test. It starts a byte after a page boundary.
    fn with_pool(pages: usize, test: impl FnOnce(&mut Small)) {
        let mut memory = vec![0xA5_u8; (pages + 2) * PAGE];
        let start = (memory.as_mut_ptr().expose_provenance() + PAGE) & !(PAGE - 1);
        let mut pool = Small::plan(start - PAGE + 1, start + pages * PAGE + PAGE - 1).unwrap();
        assert_eq!((pool.first(), pool.pages()), (start, pages));
        test(&mut pool);
        // SAFETY: all pages that have been taken have footers.
        assert_eq!(unsafe { pool.check(pool.first()) }, Ok(()));
    }

    fn mark(page: Page<PAGE>, is_used: bool) {
        // SAFETY: the page was taken.
        unsafe { Small::footer(page).write(Used(is_used.into())) }
    }

    #[test]
    fn pages_come_by_bumping_and_return_last_in_first_out() {
        with_pool(4, |pool| {
            let first = pool.first();
            // SAFETY: the pool owns the memory; footers are written as pages are taken and returned.
            unsafe {
                let take = |pool: &mut Small| {
                    let page = pool.take()?;
                    mark(page, true);
                    Some((page.start() - first) / PAGE)
                };
                assert!(!pool.holds(first), "a page that was never taken has no footer");
                assert_eq!((take(pool), take(pool), take(pool)), (Some(0), Some(1), Some(2)));
                assert!(pool.holds(first + 3 * PAGE - 1) && !pool.holds(first + 3 * PAGE) && !pool.holds(first - 1));
                for page in [first, first + 2 * PAGE].map(Page) {
                    mark(page, false);
                    pool.release(page);
                }
                let mut seen = Vec::new();
                pool.walk(&mut |pages| seen.push(pages));
                let expected = [
                    Pages::Free { start: first, len_bytes: PAGE },
                    Pages::InUse(Page(first + PAGE)),
                    Pages::Free { start: first + 2 * PAGE, len_bytes: 2 * PAGE },
                ];
                assert_eq!(seen, expected, "a returned page and those never taken are one run");
                assert_eq!((take(pool), take(pool), take(pool)), (Some(2), Some(0), Some(3)));
                assert!(pool.is_exhausted());
                assert_eq!(take(pool), None);
            }
        });
    }

    #[test]
    fn nothing_is_touched_before_it_is_taken() {
        let mut memory = vec![0xA5_u8; 3 * PAGE];
        let start = memory.as_mut_ptr().expose_provenance();
        let pool = Small::plan(start, start + memory.len()).unwrap();
        assert!(memory.iter().all(|&byte| byte == 0xA5));
        assert_eq!(pool.used().count(), 0);
        assert!(Small::plan(start + 1, start + PAGE).is_none());
        for offset in (0..PAGE).step_by(align_of::<usize>()) {
            let start = (1 << 20) + offset;
            assert_eq!(Small::plan(start, start + Small::needed_bytes(3)).unwrap().pages(), 3);
        }
    }

    #[test]
    fn a_damaged_list_is_found_and_not_followed() {
        with_pool(3, |pool| {
            // SAFETY: the pool owns the memory; footers are written as pages are taken and returned.
            unsafe {
                let pages: Vec<_> = (0..3).map(|_| pool.take().unwrap()).collect();
                pages.iter().for_each(|&page| mark(page, false));
                pool.release(pages[0]);
                assert_eq!(
                    pool.check(pool.first()).unwrap_err().invariant,
                    "every page that is not in use can be taken"
                );
                pool.release(pages[1]);
                pool.release(pages[2]);
                for (damage, invariant) in [
                    (pages[2].address(8), "a free page's link leads to a page"),
                    (8, "a free page's link leads to a page"),
                    (pages[2].start(), "a free page can be taken once"),
                    (0, "every page that is not in use can be taken"),
                ] {
                    let whole = link(pages[2]).read();
                    link(pages[2]).write(damage);
                    assert_eq!(pool.check(pool.first()).unwrap_err().invariant, invariant);
                    link(pages[2]).write(whole);
                }
                mark(pages[1], true);
                assert_eq!(pool.check(pool.first()).unwrap_err().invariant, "a page that can be taken is not in use");
                mark(pages[1], false);
            }
        });
    }
}

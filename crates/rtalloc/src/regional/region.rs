//! One region at a time: blocks of any size cut from one page, one after the other (regis1).
//!
//! # Idea
//!
//! The current page has a bump pointer, from which every request takes its bytes. If a request does not fit, the page
//! is discarded and another one taken. Freeing only decrements the page's number of live blocks; at zero the page is
//! returned, even the current one (the Bitframe thesis, 2012, sections 3.3.2 and 6.2).
//!
//! ```text
//! discarded  [dead 48][used 16][dead 32][lost ..][footer: 1 live]    waits for its last block
//! current    [used 64][dead 16][used 32]^        [footer: 2 live]    the next block goes here
//! ```
//!
//! # Bookkeeping of a page
//!
//! The paper's footer is the live counter alone. This one has two more bits for every quantum: where blocks begin, and
//! which ones are live. The counter would suffice to allocate and free; the size of a block, the walk and the detection
//! of double frees need the bits.
//!
//! | page of 1,024 B | counter | bits | for blocks |
//! |---|---|---|---|
//! | 64-bit, quantum 16 B | 8 B | 16 B | 992 B |
//! | 64-bit, the paper's quantum of 8 B | 8 B | 32 B | 984 B |
//! | 32-bit, quantum 8 B | 4 B | 32 B | 984 B |
//!
//! # Costs
//!
//! Constant: no loop at all if the bits of a page are one word, as by default; otherwise one iteration per word.
//!
//! # When it wins, when it loses
//!
//! It has the shortest operations of all, and no headers. But one live block keeps a whole page, whatever else was in
//! it: the thesis measured 408 % of fragmentation on a system's boot and 83 % on blocks of uniform sizes, and
//! recommends [reaps](super::reaps) instead. It wins if blocks die in the order in which they were made, or together.
//!
//! # Figures
//!
//! <!-- figures: regis1 -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `regis1` | 46, 58, 32 | 0 B | 16 B | 1,024 B, 1,024 B | -, 123.6 % (blocks up to 992 B) |
//!
//! Measured 2026-11-23 at e4c49f7 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

use crate::contract::{AllocError, Block, Contract, Corruption, MisuseKind};
use crate::mechanism::page::{self, Footer, Marks, Page, Pages, Pool, Quantum};
use crate::mechanism::policy_heap::{Policy, PolicyHeap, Served};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::stats::NoStats;
use crate::region::room_behind;

/// Regions one at a time, in pages of `PAGE` bytes; blocks are multiples of `QUANTUM` bytes.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::{RegionAllocator, SingleRegion};
///
/// let mut memory = [MaybeUninit::uninit(); 8192];
/// let mut heap: SingleRegion = SingleRegion::new(&mut memory, ())?;
/// let block = heap.allocate_bytes(100, 8)?;
/// // SAFETY: `block` came from this heap and is not used again.
/// unsafe { heap.deallocate(block) };
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type SingleRegion<'r, const PAGE: usize = 1024, const QUANTUM: usize = { page::QUANTUM }, T = NoStats> =
    PolicyHeap<'r, SingleRegionPolicy<PAGE, QUANTUM>, T>;

/// A page's footer; the marks of where blocks begin, and of those that are live, precede it.
#[repr(C)]
#[derive(Debug)]
pub struct RegionFooter<const PAGE: usize, const QUANTUM: usize> {
    /// Live blocks of the page; 0 when it is free.
    live: usize,
}

impl<const PAGE: usize, const QUANTUM: usize> Sealed for RegionFooter<PAGE, QUANTUM> {}

impl<const PAGE: usize, const QUANTUM: usize> Footer for RegionFooter<PAGE, QUANTUM> {
    const BYTES: usize = size_of::<Self>() + 2 * Marks::<PAGE, QUANTUM>::BYTES;

    #[inline(always)]
    fn is_in_use(&self) -> bool {
        self.live != 0
    }
}

type Bag<const PAGE: usize, const QUANTUM: usize> = Pool<RegionFooter<PAGE, QUANTUM>, PAGE>;

/// The policy of [`SingleRegion`].
#[repr(C)]
#[derive(Debug)]
pub struct SingleRegionPolicy<const PAGE: usize, const QUANTUM: usize> {
    /// A page is in use while a block of it is live.
    pool: Bag<PAGE, QUANTUM>,
    /// Address of the next block: a multiple of the quantum in the current page, or at the end of its room;
    /// [`NOWHERE`](Self::NOWHERE) if there is no current page.
    bump: usize,
}

impl<const PAGE: usize, const QUANTUM: usize> SingleRegionPolicy<PAGE, QUANTUM> {
    /// Bytes of a page available to blocks: whole quanta.
    const ROOM_BYTES: usize = Bag::<PAGE, QUANTUM>::BLOCK_BYTES & !(QUANTUM - 1);
    /// The end of the room of a page that does not exist: nothing fits there.
    const NOWHERE: usize = Self::ROOM_BYTES;

    /// The marks where blocks begin. A mark is also set at the end of each block.
    #[inline(always)]
    const fn begins(page: Page<PAGE>) -> Marks<PAGE, QUANTUM> {
        Marks::new(Bag::<PAGE, QUANTUM>::bookkeeping(page))
    }

    /// The marks of live blocks.
    #[inline(always)]
    const fn lives(page: Page<PAGE>) -> Marks<PAGE, QUANTUM> {
        Marks::new(Self::begins(page).address().wrapping_add(Marks::<PAGE, QUANTUM>::BYTES))
    }

    /// The current page, or 0.
    #[inline(always)]
    fn current(&self) -> Page<PAGE> {
        Page::of(self.bump)
    }

    /// Takes a page and makes it empty: `[................][footer: 0 live]`.
    ///
    /// # Safety
    ///
    /// As [`Policy::take`]; the caller makes a block of it live.
    #[inline(always)]
    unsafe fn open(&mut self) -> Option<Page<PAGE>> {
        // SAFETY: the policy owns the page that it takes.
        unsafe {
            let page = self.pool.take()?;
            Self::begins(page).begin();
            Self::lives(page).begin();
            Bag::<PAGE, QUANTUM>::footer(page).write(RegionFooter::<PAGE, QUANTUM> { live: 0 });
            Some(page)
        }
    }

    /// Bytes of the block that begins with a quantum.
    ///
    /// # Safety
    ///
    /// The page has been taken before, so it has marks.
    #[inline(always)]
    unsafe fn block_bytes(page: Page<PAGE>, quantum: Quantum<QUANTUM>) -> usize {
        // SAFETY: the page has marks.
        unsafe { Self::begins(page).next(quantum) }.bytes_from(quantum)
    }

    /// The pages in use.
    ///
    /// # Safety
    ///
    /// As [`Policy::check`].
    unsafe fn pages_in_use(&self) -> impl Iterator<Item = Page<PAGE>> {
        // SAFETY: pages that have been taken have footers.
        self.pool.used().filter(|&page| unsafe { (*Bag::<PAGE, QUANTUM>::footer(page)).is_in_use() })
    }

    /// Verifies a page that is in use.
    ///
    /// # Safety
    ///
    /// As [`Policy::check`].
    unsafe fn check_page(&self, page: Page<PAGE>) -> Result<(), &'static str> {
        let end = Quantum::at(Self::ROOM_BYTES);
        // SAFETY: the page has marks and a footer; every quantum is one of the page.
        unsafe {
            let begins = |quantum| Self::begins(page).is_set(quantum);
            let lives = |quantum| Self::lives(page).is_set(quantum);
            let live = (*Bag::<PAGE, QUANTUM>::footer(page)).live;
            if live != Self::lives(page).count() {
                return Err("a page's live counter counts its live blocks");
            }
            for quantum in Marks::<PAGE, QUANTUM>::quanta() {
                if quantum > end && begins(quantum) || quantum >= end && lives(quantum) {
                    return Err("blocks lie before the footer");
                }
                if !lives(quantum) {
                    continue;
                }
                if quantum.number() != 0 && !begins(quantum) {
                    return Err("a live block has a mark at its start");
                }
                if Self::begins(page).next(quantum) > end {
                    return Err("a live block has a mark at its end");
                }
            }
            if page == self.current() {
                let next = Quantum::at(self.bump & (PAGE - 1));
                let mut rest = Marks::<PAGE, QUANTUM>::quanta().filter(|&above| above >= next && above <= end);
                if !self.bump.is_multiple_of(QUANTUM)
                    || !begins(next)
                    || rest.any(|above| lives(above) || above > next && begins(above))
                {
                    return Err("the next block follows the last one of the current page");
                }
            }
        }
        Ok(())
    }
}

impl<const PAGE: usize, const QUANTUM: usize> Sealed for SingleRegionPolicy<PAGE, QUANTUM> {}

// SAFETY: a block is cut from the room of a page of the pool, after all blocks that were cut from it before.
unsafe impl<const PAGE: usize, const QUANTUM: usize> Policy for SingleRegionPolicy<PAGE, QUANTUM> {
    type Config = ();

    const CONTRACT: Contract = Contract {
        name: "regis1",
        source: "the Bitframe thesis (2012), sections 3.3.2 and 6.2",
        policy: "one region of all sizes",
        largest_request_bytes: Self::ROOM_BYTES,
        largest_alignment_bytes: 1 << Self::ROOM_BYTES.ilog2(),
        // The rest of the current page serves any request that fits.
        largest_covers_smaller: true,
        ..page::page_contract(PAGE, QUANTUM)
    };

    fn plan(start: usize, end: usize, (): ()) -> Option<Self> {
        Some(SingleRegionPolicy { pool: Pool::plan(start, end)?, bump: Self::NOWHERE })
    }

    fn needed_bytes((): ()) -> usize {
        Bag::<PAGE, QUANTUM>::needed_bytes(1)
    }

    unsafe fn begin(&mut self) {}

    #[inline(always)]
    fn limit(&self) -> usize {
        Self::ROOM_BYTES
    }

    #[inline(always)]
    fn origin(&self) -> usize {
        self.pool.first()
    }

    #[inline(always)]
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError> {
        let block_bytes = size_bytes.wrapping_add(QUANTUM - 1) & !(QUANTUM - 1);
        let mut page = self.current();
        let mut offset =
            (self.bump & (PAGE - 1)).wrapping_add(align_bytes.wrapping_sub(1)) & align_bytes.wrapping_neg();
        // SAFETY: `begin` has run; the page has marks and a footer, and the block lies within its room.
        unsafe {
            if offset.wrapping_add(block_bytes) > Self::ROOM_BYTES {
                page = self.open().ok_or(AllocError::Exhausted)?;
                offset = 0;
            }
            // [.. gap ..][used][free ..]: an aligned block begins after a gap, lost until the page is returned.
            if align_bytes > QUANTUM {
                Self::begins(page).set(Quantum::at(offset));
            }
            Self::lives(page).set(Quantum::at(offset));
            let end = offset.wrapping_add(block_bytes);
            Self::begins(page).set(Quantum::at(end));
            self.bump = page.address(end);
            let footer = Bag::<PAGE, QUANTUM>::footer(page);
            (*footer).live = (*footer).live.wrapping_add(1);
        }
        Ok(Served { address: page.address(offset), usable_bytes: block_bytes })
    }

    #[inline(always)]
    unsafe fn release(&mut self, address: usize) -> Result<usize, MisuseKind> {
        let (page, offset) = self.pool.locate(address, QUANTUM)?;
        let quantum = Quantum::at(offset);
        // SAFETY: the page has been taken before, so it has marks and a footer.
        unsafe {
            if !Self::lives(page).clear(quantum) {
                return Err(MisuseKind::DoubleFree);
            }
            let footer = Bag::<PAGE, QUANTUM>::footer(page);
            let live = (*footer).live.wrapping_sub(1);
            (*footer).live = live;
            let usable_bytes = Self::block_bytes(page, quantum);
            if live == 0 {
                if self.current() == page {
                    self.bump = Self::NOWHERE;
                }
                self.pool.release(page);
            }
            Ok(usable_bytes)
        }
    }

    #[inline(always)]
    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind> {
        let (page, offset) = self.pool.locate(address, QUANTUM)?;
        let quantum = Quantum::at(offset);
        // SAFETY: the page has been taken before, so it has marks.
        unsafe {
            match Self::lives(page).is_set(quantum) {
                true => Ok(Self::block_bytes(page, quantum)),
                false => Err(MisuseKind::DoubleFree),
            }
        }
    }

    unsafe fn largest(&self) -> usize {
        match self.pool.is_exhausted() {
            true => Self::ROOM_BYTES - (self.bump & (PAGE - 1)),
            false => Self::ROOM_BYTES,
        }
    }

    unsafe fn walk(&self, visit: &mut dyn FnMut(Block)) {
        let room_end = Quantum::at(Self::ROOM_BYTES);
        // SAFETY: pages that have been taken have footers and marks.
        unsafe {
            self.pool.walk(&mut |pages| {
                let Pages::InUse(page) = pages else { return pages.as_block().into_iter().for_each(&mut *visit) };
                let mut quantum = Quantum::at(0);
                while quantum < room_end {
                    let end = Self::begins(page).next(quantum).min(room_end);
                    let size_bytes = end.bytes_from(quantum);
                    visit(Block {
                        address: page.address(quantum.offset_bytes()),
                        front_bytes: 0,
                        size_bytes,
                        usable_bytes: size_bytes,
                        free: !Self::lives(page).is_set(quantum),
                    });
                    quantum = end;
                }
            });
        }
    }

    unsafe fn check(&self) -> Result<(), Corruption> {
        // SAFETY: pages that have been taken have footers and marks.
        unsafe {
            self.pool.check(room_behind(self))?;
            for page in self.pages_in_use() {
                self.check_page(page).map_err(|invariant| Corruption { invariant, address: page.start() })?;
            }
            if self.bump != Self::NOWHERE && !self.pages_in_use().any(|page| page == self.current()) {
                return Err(Corruption { invariant: "the current page has live blocks", address: self.bump });
            }
        }
        Ok(())
    }

    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: pages that have been taken have footers and marks.
        unsafe {
            self.pool.fingerprint(word);
            word(self.bump.wrapping_sub(self.pool.first()));
            for page in self.pages_in_use() {
                // Blocks that were freed in a page still in use have no effect any more.
                for quantum in Marks::<PAGE, QUANTUM>::quanta().take(Self::ROOM_BYTES / QUANTUM) {
                    if Self::lives(page).is_set(quantum) {
                        word(page.start() - self.pool.first() + quantum.number());
                        word(Self::block_bytes(page, quantum));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::Paged;
    use super::*;
    use crate::contract::RegionAllocator;
    use crate::mechanism::damage::{flip_every_bit, use_up};
    use core::mem::MaybeUninit;
    use core::ptr::NonNull;
    use std::vec::Vec;

    type Paper<'r> = SingleRegion<'r, 1024, 8>;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn pages_hold_what_the_documentation_says() {
        assert_eq!(SingleRegionPolicy::<1024, 16>::ROOM_BYTES, 992);
        assert_eq!(SingleRegionPolicy::<1024, 8>::ROOM_BYTES, 984);
        assert_eq!(RegionFooter::<1024, 16>::BYTES, 8 + 16);
        assert_eq!(RegionFooter::<1024, 8>::BYTES, 8 + 32);
    }

    #[test]
    fn damage_of_the_policy_is_found_and_not_followed() {
        type Policy = SingleRegionPolicy<1024, 8>;
        let (first, bump) = (core::mem::offset_of!(Policy, pool), core::mem::offset_of!(Policy, bump));
        let found = [first, bump].map(|field| field..field + size_of::<usize>());
        flip_every_bit::<Paper<'static>>(40 * 1024, size_of::<Policy>(), &found, use_up);
    }

    fn page_of(block: NonNull<u8>) -> Page<1024> {
        Page::of(block.addr().get())
    }

    #[test]
    fn a_page_is_discarded_when_a_request_does_not_fit_and_freed_when_its_last_block_is() {
        let mut memory = Paged([MaybeUninit::new(0); 5 * 1024]);
        let mut heap = Paper::new(&mut memory.0, ()).unwrap();
        // Two blocks of 400 leave too little of a page for the third: the page is discarded.
        let blocks: Vec<_> = (0..3).map(|_| heap.allocate_bytes(400, 1).unwrap()).collect();
        assert_eq!(page_of(blocks[0]), page_of(blocks[1]));
        assert_ne!(page_of(blocks[0]), page_of(blocks[2]));
        // A discarded page is not used again: a small request would fit there, but goes to the current page.
        let small = heap.allocate_bytes(8, 1).unwrap();
        assert_eq!(small.addr().get(), blocks[2].addr().get() + 400);
        // SAFETY: the blocks are live.
        unsafe {
            heap.deallocate(blocks[0]);
            // One live block keeps the page: the next pages are different ones.
            let others: Vec<_> = (0..2).map(|_| heap.allocate_bytes(984, 1).unwrap()).collect();
            assert!(others.iter().all(|&other| page_of(other) != page_of(blocks[0])));
            assert!(heap.allocate_bytes(984, 1).is_err());
            heap.deallocate(blocks[1]);
        }
        let again = heap.allocate_bytes(984, 1).unwrap();
        assert_eq!(page_of(again), page_of(blocks[0]), "a page without live blocks is free at once");
    }

    #[test]
    fn the_current_page_is_freed_too() {
        let mut memory = Paged([MaybeUninit::new(0); 3 * 1024]);
        let mut heap = Paper::new(&mut memory.0, ()).unwrap();
        let first = heap.allocate_bytes(100, 1).unwrap();
        let second = heap.allocate_bytes(100, 1).unwrap();
        assert_eq!(second.addr().get(), first.addr().get() + 104);
        // SAFETY: the blocks are live.
        unsafe {
            heap.deallocate(second);
            // A freed block of a region is not reused.
            let third = heap.allocate_bytes(100, 1).unwrap();
            assert_eq!(third.addr().get(), second.addr().get() + 104);
            heap.deallocate(first);
            heap.deallocate(third);
        }
        assert_eq!(heap.allocate_bytes(984, 1), Ok(first), "all of the page is free again");
    }

    #[test]
    fn damaged_bookkeeping_is_found() {
        let mut memory = Paged([MaybeUninit::new(0); 3 * 1024]);
        let mut heap = Paper::new(&mut memory.0, ()).unwrap();
        let blocks: Vec<_> = [8, 40, 16].map(|size| heap.allocate_bytes(size, 1).unwrap()).into();
        let page = page_of(blocks[0]);
        type Policy = SingleRegionPolicy<1024, 8>;
        let begins: *mut usize = core::ptr::with_exposed_provenance_mut(Policy::begins(page).address());
        let lives: *mut usize = core::ptr::with_exposed_provenance_mut(Policy::lives(page).address());
        let counter: *mut usize = core::ptr::with_exposed_provenance_mut(page.address(1024 - size_of::<usize>()));
        for (place, flipped, invariant) in [
            (counter, 1, "a page's live counter counts its live blocks"),
            (lives, 0b10, "a page's live counter counts its live blocks"),
            (begins, 0b10, "a live block has a mark at its start"),
            (begins, 1 << 8, "a live block has a mark at its end"),
            (begins, 1 << 9, "the next block follows the last one of the current page"),
        ] {
            // SAFETY: the place belongs to the heap, and its value is restored.
            unsafe {
                let whole = place.read();
                place.write(whole ^ flipped);
                assert_eq!(heap.check().map_err(|found| found.invariant), Err(invariant));
                place.write(whole);
            }
            assert_eq!(heap.check(), Ok(()));
        }
    }
}

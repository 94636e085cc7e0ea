//! A region for every size class (regis2).
//!
//! # Idea
//!
//! Every class has a current page with a bump pointer. A full page is discarded, and the next request of the class
//! takes another page. Freeing decrements the page's number of live blocks; at zero the page is returned (the Bitframe
//! thesis, 2012, sections 3.3.2 and 6.2).
//!
//! ```text
//! class 32   [used][dead][used]^         [footer: 2 live, 32]      the next block of 32 goes here
//! class 32   [dead][used][dead]..[used]  [footer: 7 live, 32]      discarded: waits for its last block
//! class 48   [used]^                     [footer: 1 live, 48]
//! ```
//!
//! # Bookkeeping of a page
//!
//! The paper's counter and class, and in addition a bit for every quantum that says which blocks are live. The walk and
//! the detection of double frees read it. The class is stored as the size of its blocks.
//!
//! | page of 1,024 B | counter, class | bits | for blocks |
//! |---|---|---|---|
//! | 64-bit, quantum 16 B | 8 B | 8 B | 1,008 B |
//! | 64-bit, the paper's quantum of 8 B | 8 B | 16 B | 1,000 B |
//! | 32-bit, quantum 8 B | 8 B | 16 B | 1,000 B |
//!
//! So a page holds one block of 512 bytes, as the paper's must, and two of 496.
//!
//! # Costs
//!
//! Constant, without a loop. The control structure has a word for each of the 64 classes. By default on 64-bit
//! machines, 63 of them are used, the last of which fills a page's room, 1,008 bytes; the paper's classes of 8 bytes
//! end at 512.
//!
//! # When it wins, when it loses
//!
//! It has short operations and no headers, and the blocks of a page are of one size: reading the size of a block costs
//! one load. It loses as every region does: one live block keeps a whole page, and each class keeps a page of its own.
//! The thesis measured 301 % of fragmentation on a system's boot, and 428 % in its steady state, the worst of all.
//!
//! # Figures
//!
//! <!-- figures: regis2 -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `regis2` | 39, 76, 37 | 0 B | 16 B | 1,024 B, 1,024 B | -, 156.0 % (blocks up to 1,008 B) |
//!
//! Measured 2026-11-23 at e4c49f7 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

use crate::contract::{AllocError, Block, Contract, Corruption, MisuseKind};
use crate::mechanism::page::{self, Footer, Marks, Page, Pages, Pool, Quanta, Quantum};
use crate::mechanism::policy_heap::{Policy, PolicyHeap, Served};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::stats::NoStats;
use crate::region::room_behind;

/// A region for each of `CLASSES` classes `QUANTUM` bytes apart, in pages of `PAGE` bytes.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::{ClassRegions, RegionAllocator};
///
/// let mut memory = [MaybeUninit::uninit(); 8192];
/// let mut heap: ClassRegions = ClassRegions::new(&mut memory, ())?;
/// let block = heap.allocate_bytes(100, 8)?;
/// // SAFETY: `block` came from this heap and is not used again.
/// unsafe { heap.deallocate(block) };
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type ClassRegions<
    'r,
    const PAGE: usize = 1024,
    const QUANTUM: usize = { page::QUANTUM },
    const CLASSES: usize = 64,
    T = NoStats,
> = PolicyHeap<'r, ClassRegionsPolicy<PAGE, QUANTUM, CLASSES>, T>;

/// A page's footer; the marks of live blocks precede it.
#[repr(C)]
#[derive(Debug)]
pub struct ClassFooter<const PAGE: usize, const QUANTUM: usize> {
    /// Live blocks of the page; 0 when it is free.
    live: u32,
    /// Bytes of each of its blocks: its class.
    block_bytes: u32,
}

impl<const PAGE: usize, const QUANTUM: usize> Sealed for ClassFooter<PAGE, QUANTUM> {}

impl<const PAGE: usize, const QUANTUM: usize> Footer for ClassFooter<PAGE, QUANTUM> {
    const BYTES: usize = size_of::<Self>() + Marks::<PAGE, QUANTUM>::BYTES;

    #[inline(always)]
    fn is_in_use(&self) -> bool {
        self.live != 0
    }
}

type Bag<const PAGE: usize, const QUANTUM: usize> = Pool<ClassFooter<PAGE, QUANTUM>, PAGE>;
type Classes<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> =
    Quanta<ClassFooter<PAGE, QUANTUM>, PAGE, QUANTUM, CLASSES>;

/// The policy of [`ClassRegions`].
#[repr(C)]
#[derive(Debug)]
pub struct ClassRegionsPolicy<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> {
    /// A page is in use while a block of it is live.
    pool: Bag<PAGE, QUANTUM>,
    /// For each class, the address of the next block, all of which lies in the room of a page that is in use. 0 if the
    /// class has no current page.
    next: [usize; CLASSES],
}

impl<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> ClassRegionsPolicy<PAGE, QUANTUM, CLASSES> {
    /// The marks of a page's live blocks.
    #[inline(always)]
    const fn lives(page: Page<PAGE>) -> Marks<PAGE, QUANTUM> {
        Marks::new(Bag::<PAGE, QUANTUM>::bookkeeping(page))
    }

    /// Takes a page for a class: `[................][footer: 0 live, class]`.
    ///
    /// # Safety
    ///
    /// As [`Policy::take`]; the caller makes a block of it live.
    #[inline(always)]
    unsafe fn open(&mut self, block_bytes: usize) -> Option<Page<PAGE>> {
        // SAFETY: the policy owns the page that it takes.
        unsafe {
            let page = self.pool.take()?;
            Self::lives(page).begin();
            Bag::<PAGE, QUANTUM>::footer(page).write(ClassFooter { live: 0, block_bytes: block_bytes as u32 });
            Some(page)
        }
    }

    /// Bytes of each block of a page.
    ///
    /// # Safety
    ///
    /// The page has been taken before.
    #[inline(always)]
    unsafe fn block_bytes(page: Page<PAGE>) -> usize {
        // SAFETY: the page has been taken before, so it has a footer.
        unsafe { (*Bag::<PAGE, QUANTUM>::footer(page)).block_bytes as usize }
    }

    /// Bytes of a page in use that are cut into blocks.
    ///
    /// # Safety
    ///
    /// The page has been taken before.
    unsafe fn cut_bytes(&self, page: Page<PAGE>) -> usize {
        // SAFETY: the page has been taken before, so it has a footer.
        let block_bytes = unsafe { Self::block_bytes(page) };
        // An invalid class, in a damaged page, has no next block.
        let next = self.next.get(Classes::<PAGE, QUANTUM, CLASSES>::class(block_bytes).number()).copied().unwrap_or(0);
        match Page::of(next) == page {
            true => next - page.start(),
            false => Classes::<PAGE, QUANTUM, CLASSES>::whole_bytes(block_bytes),
        }
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
        // SAFETY: the page has marks and a footer; every quantum is one of the page.
        unsafe {
            let ClassFooter { live, block_bytes } = Bag::<PAGE, QUANTUM>::footer(page).read();
            let block_bytes = block_bytes as usize;
            let largest_bytes = Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_BYTES;
            if block_bytes == 0 || !block_bytes.is_multiple_of(QUANTUM) || block_bytes > largest_bytes {
                return Err("a page in use has a class");
            }
            if live as usize != Self::lives(page).count() {
                return Err("a page's live counter counts its live blocks");
            }
            let cut_bytes = self.cut_bytes(page);
            for quantum in Marks::<PAGE, QUANTUM>::quanta() {
                let offset = quantum.offset_bytes();
                let is_block = offset < cut_bytes && offset.is_multiple_of(block_bytes);
                if Self::lives(page).is_set(quantum) && !is_block {
                    return Err("live blocks were cut from their page");
                }
            }
        }
        Ok(())
    }
}

impl<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> Sealed
    for ClassRegionsPolicy<PAGE, QUANTUM, CLASSES>
{
}

// SAFETY: a block is cut from the room of a page of the pool, after all blocks that were cut from it before.
unsafe impl<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> Policy
    for ClassRegionsPolicy<PAGE, QUANTUM, CLASSES>
{
    type Config = ();

    const CONTRACT: Contract = Contract {
        name: "regis2",
        source: "the Bitframe thesis (2012), sections 3.3.2 and 6.2",
        policy: "one region of each class",
        largest_request_bytes: Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_BYTES,
        largest_alignment_bytes: Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_ALIGNMENT_BYTES,
        ..page::page_contract(PAGE, QUANTUM)
    };

    fn plan(start: usize, end: usize, (): ()) -> Option<Self> {
        Some(ClassRegionsPolicy { pool: Pool::plan(start, end)?, next: [0; CLASSES] })
    }

    fn needed_bytes((): ()) -> usize {
        Bag::<PAGE, QUANTUM>::needed_bytes(1)
    }

    unsafe fn begin(&mut self) {}

    #[inline(always)]
    fn limit(&self) -> usize {
        Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_BYTES
    }

    #[inline(always)]
    fn origin(&self) -> usize {
        self.pool.first()
    }

    #[inline(always)]
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError> {
        let block_bytes =
            Classes::<PAGE, QUANTUM, CLASSES>::block_bytes(size_bytes, align_bytes).ok_or(AllocError::TooLarge)?;
        let class = Classes::<PAGE, QUANTUM, CLASSES>::class(block_bytes);
        // SAFETY: `begin` has run. No class is above that of the limit, for which `next` has a word.
        unsafe {
            let mut address = *self.next.get_unchecked(class.number());
            if address == 0 {
                address = self.open(block_bytes).ok_or(AllocError::Exhausted)?.start();
            }
            // [used][used][this][next][...]: the rest after the last block that fits is lost.
            let page = Page::of(address);
            let after = address.wrapping_add(block_bytes);
            let is_full = after.wrapping_sub(page.start()).wrapping_add(block_bytes)
                > Classes::<PAGE, QUANTUM, CLASSES>::ROOM_BYTES;
            *self.next.get_unchecked_mut(class.number()) = if is_full { 0 } else { after };
            let footer = Bag::<PAGE, QUANTUM>::footer(page);
            (*footer).live = (*footer).live.wrapping_add(1);
            let quantum = Quantum::at(address & (PAGE - 1));
            Self::lives(page).set(quantum);
            Ok(Served { address, usable_bytes: block_bytes })
        }
    }

    #[inline(always)]
    unsafe fn release(&mut self, address: usize) -> Result<usize, MisuseKind> {
        let (page, offset) = self.pool.locate(address, QUANTUM)?;
        // SAFETY: the page has been taken before, so it has marks and a footer.
        unsafe {
            let quantum = Quantum::at(offset);
            if !Self::lives(page).clear(quantum) {
                return Err(MisuseKind::DoubleFree);
            }
            let footer = Bag::<PAGE, QUANTUM>::footer(page);
            let block_bytes = (*footer).block_bytes as usize;
            let live = (*footer).live.wrapping_sub(1);
            (*footer).live = live;
            if live == 0 {
                // The class's current page is returned like any other.
                if let Some(next) = self.next.get_mut(Classes::<PAGE, QUANTUM, CLASSES>::class(block_bytes).number())
                    && Page::of(*next) == page
                {
                    *next = 0;
                }
                self.pool.release(page);
            }
            Ok(block_bytes)
        }
    }

    #[inline(always)]
    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind> {
        let (page, offset) = self.pool.locate(address, QUANTUM)?;
        // SAFETY: the page has been taken before, so it has marks and a footer.
        unsafe {
            let quantum = Quantum::at(offset);
            match Self::lives(page).is_set(quantum) {
                true => Ok(Self::block_bytes(page)),
                false => Err(MisuseKind::DoubleFree),
            }
        }
    }

    unsafe fn largest(&self) -> usize {
        match self.pool.is_exhausted() {
            true => self.next.iter().rposition(|&next| next != 0).map_or(0, |class| (class + 1) * QUANTUM),
            false => Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_BYTES,
        }
    }

    unsafe fn walk(&self, visit: &mut dyn FnMut(Block)) {
        // SAFETY: pages that have been taken have footers; those in use have marks and a class.
        unsafe {
            self.pool.walk(&mut |pages| {
                let Pages::InUse(page) = pages else { return pages.as_block().into_iter().for_each(&mut *visit) };
                let (block_bytes, cut_bytes) = (Self::block_bytes(page), self.cut_bytes(page));
                Classes::<PAGE, QUANTUM, CLASSES>::walk_page(page, block_bytes, cut_bytes, Self::lives(page), visit);
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
            for (class, &next) in self.next.iter().enumerate().filter(|&(_, &next)| next != 0) {
                let (page, block_bytes) = (Page::of(next), (class + 1) * QUANTUM);
                let is_open = self.pages_in_use().any(|used| used == page) && Self::block_bytes(page) == block_bytes;
                let offset = next - page.start();
                let fits = offset.is_multiple_of(block_bytes)
                    && offset + block_bytes <= Classes::<PAGE, QUANTUM, CLASSES>::ROOM_BYTES;
                if !is_open || !fits {
                    let invariant = "a class's next block lies in a page of the class";
                    return Err(Corruption { invariant, address: next });
                }
            }
        }
        Ok(())
    }

    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: pages that have been taken have footers and marks.
        unsafe {
            self.pool.fingerprint(word);
            self.next.iter().for_each(|next| word(next.wrapping_sub(self.pool.first())));
            for page in self.pages_in_use() {
                word(page.start() - self.pool.first());
                word(Self::block_bytes(page));
                Self::lives(page).fingerprint(word);
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

    type Paper<'r> = ClassRegions<'r, 1024, 8, 64>;

    fn page_of(block: NonNull<u8>) -> Page<1024> {
        Page::of(block.addr().get())
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn pages_hold_what_the_documentation_says() {
        assert_eq!((Classes::<1024, 16, 64>::ROOM_BYTES, Classes::<1024, 16, 64>::LARGEST_BYTES), (1008, 1008));
        assert_eq!((Classes::<1024, 8, 64>::ROOM_BYTES, Classes::<1024, 8, 64>::LARGEST_BYTES), (1000, 512));
    }

    #[test]
    fn damage_of_the_policy_is_found_and_not_followed() {
        type Policy = ClassRegionsPolicy<1024, 8, 64>;
        let first = core::mem::offset_of!(Policy, pool);
        // A class's next block could be any that is not live: only its place is verified.
        let found = first..first + size_of::<usize>();
        flip_every_bit::<Paper<'static>>(40 * 1024, size_of::<Policy>(), &[found], use_up);
    }

    #[test]
    fn a_page_of_the_largest_class_holds_one_block() {
        let mut memory = Paged([MaybeUninit::new(0); 5 * 1024]);
        let mut heap = Paper::new(&mut memory.0, ()).unwrap();
        let count = |heap: &mut Paper<'_>, size| {
            let blocks: Vec<_> = core::iter::from_fn(|| heap.allocate_bytes(size, 1).ok()).collect();
            // SAFETY: the blocks are live.
            blocks.iter().for_each(|&block| unsafe { heap.deallocate(block) });
            blocks.len()
        };
        let pages = count(&mut heap, 512);
        assert!(pages >= 3);
        assert_eq!(count(&mut heap, 496), 2 * pages);
        assert_eq!(count(&mut heap, 8), 125 * pages);
    }

    #[test]
    fn classes_have_regions_of_their_own_and_discarded_pages_wait() {
        let mut memory = Paged([MaybeUninit::new(0); 6 * 1024]);
        let mut heap = Paper::new(&mut memory.0, ()).unwrap();
        let first: Vec<_> = (0..2).map(|_| heap.allocate_bytes(490, 1).unwrap()).collect();
        let other = heap.allocate_bytes(20, 1).unwrap();
        assert_eq!(page_of(first[0]), page_of(first[1]));
        assert_ne!(page_of(first[0]), page_of(other));
        // SAFETY: the blocks are live.
        unsafe {
            heap.deallocate(first[0]);
            let second = heap.allocate_bytes(490, 1).unwrap();
            assert_ne!(page_of(second), page_of(first[1]), "a discarded page is not used again while a block lives");
            heap.deallocate(first[1]);
            // The page was returned immediately, and serves any class.
            assert_eq!(heap.allocate_bytes(100, 1), Ok(first[0]));
            // So is the current page of a class.
            heap.deallocate(other);
        }
        assert_eq!(heap.allocate_bytes(200, 1).map(page_of), Ok(page_of(other)));
    }
}

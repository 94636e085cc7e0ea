//! Reaps: pages of one class each, cut like a region and reused like a heap.
//!
//! # Idea
//!
//! A page serves blocks of one size class. As long as it has unused room, the next block is cut from it; after that,
//! freed blocks are reused in LIFO order. The pages of a class that have a free block are in a circular list; a page
//! leaves it when it is full, and is returned when its last block is freed. No block has a header (the Bitframe thesis,
//! 2012, sections 3.3.3 and 6.2; Berger, Zorn and McKinley 2002).
//!
//! ```text
//! class 32 <--> page [used][free]-.[used]^......[footer: 2 live, 32, links]     cut at ^ first,
//!   ^    ^           ^------------'                                             then along the free list
//!   |    '----> page [used][used]...[free][used][footer: 30 live, 32, links]
//!   '--------------------------------------'
//! full pages    [used][used]........[used][used][footer: 31 live, 32]           in no list
//! ```
//!
//! # Bookkeeping of a page
//!
//! The paper's reap (the bump pointer and the free list), live counter, class and two links, and in addition a bit for
//! every quantum that says which blocks are live. A reap works without these bits; the walk and the detection of double
//! frees read them.
//!
//! | page | reap, counter, class, links | bits | for blocks |
//! |---|---|---|---|
//! | 1,024 B, 64-bit, quantum 16 B | 24 B | 8 B | 992 B |
//! | 1,024 B, 64-bit, the paper's quantum of 8 B | 24 B | 16 B | 984 B |
//! | 1,024 B, 32-bit, quantum 8 B | 16 B | 16 B | 992 B |
//! | 16,384 B, 64-bit, quantum 16 B | 24 B | 128 B | 16,224 B |
//!
//! So a page of 1,024 bytes holds one block of 512, as the paper's must; one of 16,384 bytes holds 31.
//!
//! # Costs
//!
//! Constant, without a loop: both operations are longest when they take or return a page. The control structure has two
//! words for every class.
//!
//! # When it wins, when it loses
//!
//! For small blocks it is the thesis' recommendation: among the fastest, with the least fragmentation where many blocks
//! are small (18.7 %, where TLSF has 36 %), and with pages of one class that can be returned. It serves no blocks
//! beyond its largest class, and on a small heap with many sizes, every class keeps a page for itself: 117 % on a
//! system's boot and 178 % in its steady state.
//!
//! # Figures
//!
//! <!-- figures: reaps -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `reaps` | 44, 84, 45 | 0 B | 16 B | 2,048 B, 2,048 B | -, 16.8 % (blocks up to 992 B) |
//!
//! Measured 2026-11-23 at e4c49f7 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

use crate::contract::{AllocError, Block, Contract, Corruption, MisuseKind};
use crate::mechanism::page::ring::{self, Node};
use crate::mechanism::page::{self, Footer, Marks, Page, Pages, Pool, Quanta, Quantum};
use crate::mechanism::policy_heap::{Policy, PolicyHeap, Served};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::stats::NoStats;
use crate::region::room_behind;

/// Reaps in pages of `PAGE` bytes, of `CLASSES` classes `QUANTUM` bytes apart.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::{Reaps, RegionAllocator};
///
/// let mut memory = [MaybeUninit::uninit(); 8192];
/// let mut heap: Reaps = Reaps::new(&mut memory, ())?;
/// let block = heap.allocate_bytes(100, 8)?;
/// // SAFETY: `block` came from this heap and is not used again.
/// unsafe { heap.deallocate(block) };
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type Reaps<
    'r,
    const PAGE: usize = 1024,
    const QUANTUM: usize = { page::QUANTUM },
    const CLASSES: usize = 64,
    T = NoStats,
> = PolicyHeap<'r, ReapsPolicy<PAGE, QUANTUM, CLASSES>, T>;

/// No block: the end of a free list. Offsets of blocks are even.
const NONE: u16 = u16::MAX;

/// A page's footer; the marks of live blocks precede it.
#[repr(C)]
#[derive(Debug)]
pub struct ReapFooter<const PAGE: usize, const QUANTUM: usize> {
    /// Links of the class's ring, which contains the page while it is in use and not full.
    node: Node,
    /// Offset of the first unused byte; a multiple of the blocks' size.
    bump: u16,
    /// Offset of the block that was freed last, or [`NONE`]; each free block begins with that of the one before.
    free: u16,
    /// Live blocks of the page; 0 when it is free.
    live: u16,
    /// Bytes of each of its blocks: its class.
    block_bytes: u16,
}

impl<const PAGE: usize, const QUANTUM: usize> Sealed for ReapFooter<PAGE, QUANTUM> {}

impl<const PAGE: usize, const QUANTUM: usize> Footer for ReapFooter<PAGE, QUANTUM> {
    const BYTES: usize = size_of::<Self>() + Marks::<PAGE, QUANTUM>::BYTES;

    #[inline(always)]
    fn is_in_use(&self) -> bool {
        self.live != 0
    }
}

impl<const PAGE: usize, const QUANTUM: usize> ReapFooter<PAGE, QUANTUM> {
    /// Whether another block can be cut from the page's unused room.
    #[inline(always)]
    fn has_uncut(&self) -> bool {
        usize::from(self.bump).wrapping_add(self.block_bytes.into()) <= Self::ROOM_BYTES
    }

    /// Whether no block of the page is free.
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.free == NONE && !self.has_uncut()
    }

    /// Bytes of a page available to blocks: whole quanta.
    const ROOM_BYTES: usize = Quanta::<Self, PAGE, QUANTUM, 1>::ROOM_BYTES;
}

type Bag<const PAGE: usize, const QUANTUM: usize> = Pool<ReapFooter<PAGE, QUANTUM>, PAGE>;
type Classes<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> =
    Quanta<ReapFooter<PAGE, QUANTUM>, PAGE, QUANTUM, CLASSES>;

/// The policy of [`Reaps`]. The heads of the classes' rings follow it.
#[repr(C)]
#[derive(Debug)]
pub struct ReapsPolicy<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> {
    /// A page is in use while a block of it is live.
    pool: Bag<PAGE, QUANTUM>,
    /// Address of the first class's head: the ring of its pages that are in use and not full.
    heads: usize,
}

impl<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> ReapsPolicy<PAGE, QUANTUM, CLASSES> {
    /// Number of classes that fit a page.
    const CLASSES_USED: usize = Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_BYTES / QUANTUM;
    /// Bytes of the heads.
    const HEADS_BYTES: usize = Self::CLASSES_USED * size_of::<Node>();

    /// The head of a class.
    #[inline(always)]
    fn head(&self, block_bytes: usize) -> usize {
        let class = Classes::<PAGE, QUANTUM, CLASSES>::class(block_bytes);
        self.heads.wrapping_add(class.number().wrapping_mul(size_of::<Node>()))
    }

    /// A page's node.
    #[inline(always)]
    fn node(page: Page<PAGE>) -> usize {
        Bag::<PAGE, QUANTUM>::footer(page).addr()
    }

    /// The marks of a page's live blocks.
    #[inline(always)]
    const fn lives(page: Page<PAGE>) -> Marks<PAGE, QUANTUM> {
        Marks::new(Bag::<PAGE, QUANTUM>::bookkeeping(page))
    }

    /// Takes a page for a class and cuts its first block: `[block][....][footer: 0 live, class]`. If there is room for
    /// another block, the page enters the class's ring.
    ///
    /// # Safety
    ///
    /// As [`Policy::take`]; `head` is the head of the class, and the caller makes the block live.
    #[inline(always)]
    unsafe fn open(&mut self, head: usize, block_bytes: usize) -> Option<Page<PAGE>> {
        // SAFETY: the policy owns the page that it takes; the class has a head.
        unsafe {
            let page = self.pool.take()?;
            let size = block_bytes as u16;
            let node = Node { prev: 0, next: 0 };
            let footer = Bag::<PAGE, QUANTUM>::footer(page);
            footer.write(ReapFooter { node, bump: size, free: NONE, live: 0, block_bytes: size });
            Self::lives(page).begin();
            if (*footer).has_uncut() {
                ring::insert_after(head, Self::node(page));
            }
            Some(page)
        }
    }

    /// Takes a block of a page in the ring: the next unused one, or the one that was freed last.
    ///
    /// # Safety
    ///
    /// The page is in the ring, so it is not full.
    #[inline(always)]
    unsafe fn cut_or_reuse(page: Page<PAGE>, block_bytes: usize) -> usize {
        // SAFETY: the page is in use and not full; a free block begins with a link.
        unsafe {
            let footer = Bag::<PAGE, QUANTUM>::footer(page);
            let address = match (*footer).has_uncut() {
                true => {
                    let address = page.address((*footer).bump.into());
                    (*footer).bump = (*footer).bump.wrapping_add(block_bytes as u16);
                    address
                }
                false => {
                    let address = page.address((*footer).free.into());
                    (*footer).free = link(address).read();
                    address
                }
            };
            if (*footer).is_full() {
                ring::remove(Self::node(page));
            }
            address
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
    unsafe fn check_page(page: Page<PAGE>) -> Result<(), &'static str> {
        // SAFETY: the page has marks and a footer; links are followed only to blocks that were cut.
        unsafe {
            let ReapFooter { bump, free, live, block_bytes, .. } = Bag::<PAGE, QUANTUM>::footer(page).read();
            let (bump, live, block_bytes) = (usize::from(bump), usize::from(live), usize::from(block_bytes));
            let largest_bytes = Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_BYTES;
            if block_bytes == 0 || !block_bytes.is_multiple_of(QUANTUM) || block_bytes > largest_bytes {
                return Err("a page in use has a class");
            }
            if !bump.is_multiple_of(block_bytes) || bump > Classes::<PAGE, QUANTUM, CLASSES>::ROOM_BYTES {
                return Err("a page is cut into whole blocks");
            }
            if live != Self::lives(page).count() {
                return Err("a page's live counter counts its live blocks");
            }
            let is_block = |offset: usize| offset < bump && offset.is_multiple_of(block_bytes);
            let is_live = |quantum| Self::lives(page).is_set(quantum);
            let is_cut = |quantum: Quantum<QUANTUM>| is_block(quantum.offset_bytes());
            if Marks::<PAGE, QUANTUM>::quanta().any(|quantum| is_live(quantum) && !is_cut(quantum)) {
                return Err("live blocks were cut from their page");
            }
            let mut freed = 0;
            let mut offset = free;
            while offset != NONE {
                if !is_block(offset.into()) || is_live(Quantum::at(offset.into())) {
                    return Err("a page's free list leads to free blocks");
                }
                freed += 1;
                if freed + live > bump / block_bytes {
                    return Err("a page's free list holds each free block once");
                }
                offset = link(page.address(offset.into())).read();
            }
            if freed + live != bump / block_bytes {
                return Err("a page's blocks are live or in its free list");
            }
        }
        Ok(())
    }
}

/// The link at the start of a free block.
#[inline(always)]
fn link(address: usize) -> *mut u16 {
    core::ptr::with_exposed_provenance_mut(address)
}

impl<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> Sealed for ReapsPolicy<PAGE, QUANTUM, CLASSES> {}

// SAFETY: a block is cut from a page of the pool, after all blocks that were cut before, or is one of those, freed.
unsafe impl<const PAGE: usize, const QUANTUM: usize, const CLASSES: usize> Policy
    for ReapsPolicy<PAGE, QUANTUM, CLASSES>
{
    type Config = ();

    const CONTRACT: Contract = Contract {
        name: "reaps",
        source: "the Bitframe thesis (2012), sections 3.3.3 and 6.2; Berger et al. 2002",
        policy: "one reap of a class per page",
        largest_request_bytes: Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_BYTES,
        largest_alignment_bytes: Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_ALIGNMENT_BYTES,
        ..page::page_contract(PAGE, QUANTUM)
    };

    fn plan(start: usize, end: usize, (): ()) -> Option<Self> {
        let pool = Pool::plan(start.checked_add(Self::HEADS_BYTES)?, end)?;
        Some(ReapsPolicy { pool, heads: start })
    }

    fn needed_bytes((): ()) -> usize {
        Self::HEADS_BYTES + Bag::<PAGE, QUANTUM>::needed_bytes(1)
    }

    unsafe fn begin(&mut self) {
        for class in 0..Self::CLASSES_USED {
            // SAFETY: the heads belong to the policy, at the start of its room.
            unsafe { ring::begin(self.heads + class * size_of::<Node>()) }
        }
    }

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
        let head = self.head(block_bytes);
        // SAFETY: `begin` has run, and the class has a head; pages in its ring are not full.
        unsafe {
            let node = ring::next(head);
            let page = Page::of(node);
            let (page, address) = match node == head {
                true => {
                    let page = self.open(head, block_bytes).ok_or(AllocError::Exhausted)?;
                    (page, page.start())
                }
                false => (page, Self::cut_or_reuse(page, block_bytes)),
            };
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
        // SAFETY: the page has been taken before, so it has marks and a footer; the block is now the policy's.
        unsafe {
            let quantum = Quantum::at(offset);
            if !Self::lives(page).clear(quantum) {
                return Err(MisuseKind::DoubleFree);
            }
            let footer = Bag::<PAGE, QUANTUM>::footer(page);
            let was_full = (*footer).is_full();
            let block_bytes = (*footer).block_bytes.into();
            let live = (*footer).live.wrapping_sub(1);
            (*footer).live = live;
            if live == 0 {
                // No block of the page is live: it leaves the ring with all its free blocks.
                if !was_full {
                    ring::remove(Self::node(page));
                }
                self.pool.release(page);
                return Ok(block_bytes);
            }
            link(address).write((*footer).free);
            (*footer).free = offset as u16;
            if was_full {
                ring::insert_after(self.head(block_bytes), Self::node(page));
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
                true => Ok((*Bag::<PAGE, QUANTUM>::footer(page)).block_bytes.into()),
                false => Err(MisuseKind::DoubleFree),
            }
        }
    }

    unsafe fn largest(&self) -> usize {
        if !self.pool.is_exhausted() {
            return Classes::<PAGE, QUANTUM, CLASSES>::LARGEST_BYTES;
        }
        // SAFETY: `begin` has run, so every class has a head.
        let has_page = |&class: &usize| unsafe {
            let head = self.head(class * QUANTUM);
            ring::next(head) != head
        };
        (1..=Self::CLASSES_USED).rev().find(has_page).map_or(0, |class| class * QUANTUM)
    }

    unsafe fn walk(&self, visit: &mut dyn FnMut(Block)) {
        // SAFETY: pages that have been taken have footers; those in use have marks and a class.
        unsafe {
            self.pool.walk(&mut |pages| {
                let Pages::InUse(page) = pages else { return pages.as_block().into_iter().for_each(&mut *visit) };
                let ReapFooter { bump, block_bytes, .. } = Bag::<PAGE, QUANTUM>::footer(page).read();
                let (block_bytes, cut_bytes) = (block_bytes.into(), bump.into());
                Classes::<PAGE, QUANTUM, CLASSES>::walk_page(page, block_bytes, cut_bytes, Self::lives(page), visit);
            });
        }
    }

    unsafe fn check(&self) -> Result<(), Corruption> {
        // SAFETY: pages that have been taken have footers and marks; links are followed only to nodes of pages in use.
        unsafe {
            if self.heads != room_behind(self) {
                let invariant = "the heads follow the policy";
                return Err(Corruption { invariant, address: core::ptr::from_ref(self).addr() });
            }
            self.pool.check(self.heads.wrapping_add(Self::HEADS_BYTES))?;
            let mut open = 0;
            for page in self.pages_in_use() {
                Self::check_page(page).map_err(|invariant| Corruption { invariant, address: page.start() })?;
                open += usize::from(!(*Bag::<PAGE, QUANTUM>::footer(page)).is_full());
            }
            let is_node = |node: usize| {
                self.pool.holds(node) && {
                    let footer = Bag::<PAGE, QUANTUM>::footer(Page::of(node));
                    footer.addr() == node && (*footer).is_in_use()
                }
            };
            let mut listed = 0;
            for class in 1..=Self::CLASSES_USED {
                listed += ring::check(self.head(class * QUANTUM), open, &is_node, &mut |node| {
                    let footer = Bag::<PAGE, QUANTUM>::footer(Page::of(node));
                    match usize::from((*footer).block_bytes) == class * QUANTUM && !(*footer).is_full() {
                        true => Ok(()),
                        false => {
                            let invariant = "a class's ring holds pages of the class that have a free block";
                            Err(Corruption { invariant, address: node })
                        }
                    }
                })?;
            }
            if listed != open {
                let invariant = "every page with a free block is in a ring";
                return Err(Corruption { invariant, address: self.heads });
            }
        }
        Ok(())
    }

    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: `begin` has run, so links lead to nodes and free blocks.
        unsafe {
            self.pool.fingerprint(word);
            for class in 1..=Self::CLASSES_USED {
                let head = self.head(class * QUANTUM);
                let mut node = ring::next(head);
                while node != head {
                    word(node - self.pool.first());
                    node = ring::next(node);
                }
                word(usize::MAX);
            }
            for page in self.pages_in_use() {
                let ReapFooter { bump, free, block_bytes, .. } = Bag::<PAGE, QUANTUM>::footer(page).read();
                [page.start() - self.pool.first(), block_bytes.into(), bump.into()].into_iter().for_each(&mut *word);
                let mut offset = free;
                while offset != NONE {
                    word(offset.into());
                    offset = link(page.address(offset.into())).read();
                }
                word(usize::MAX);
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

    type Paper<'r> = Reaps<'r, 1024, 8, 64>;

    fn page_of(block: NonNull<u8>) -> Page<1024> {
        Page::of(block.addr().get())
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn pages_hold_what_the_documentation_says() {
        assert_eq!((Classes::<1024, 16, 64>::ROOM_BYTES, Classes::<1024, 16, 64>::LARGEST_BYTES), (992, 992));
        assert_eq!((Classes::<1024, 8, 64>::ROOM_BYTES, Classes::<1024, 8, 64>::LARGEST_BYTES), (984, 512));
        assert_eq!((Classes::<16384, 16, 64>::ROOM_BYTES, Classes::<16384, 16, 64>::LARGEST_BYTES), (16_224, 1024));
        assert_eq!(Classes::<16384, 16, 64>::ROOM_BYTES / 512, 31);
    }

    #[test]
    fn a_page_is_cut_first_and_then_reused_last_freed_first() {
        let mut memory = Paged([MaybeUninit::new(0); 4 * 1024]);
        let mut heap = Paper::new(&mut memory.0, ()).unwrap();
        // Nine blocks of 104 bytes fill a page.
        let blocks: Vec<_> = (0..5).map(|_| heap.allocate_bytes(100, 1).unwrap()).collect();
        // SAFETY: the blocks are live.
        unsafe {
            heap.deallocate(blocks[1]);
            heap.deallocate(blocks[3]);
        }
        // Freed blocks are reused only after the page is cut to its end.
        let cut: Vec<_> = (5..9).map(|_| heap.allocate_bytes(100, 1).unwrap()).collect();
        let expected: Vec<_> = (5..9).map(|index| blocks[0].addr().get() + index * 104).collect();
        assert_eq!(cut.iter().map(|block| block.addr().get()).collect::<Vec<_>>(), expected);
        assert_eq!(heap.allocate_bytes(100, 1), Ok(blocks[3]));
        assert_eq!(heap.allocate_bytes(100, 1), Ok(blocks[1]));
        // The page is full: the class continues in another page, and returns to this one when a block of it is freed.
        let other = heap.allocate_bytes(100, 1).unwrap();
        assert_ne!(page_of(other), page_of(blocks[0]));
        // SAFETY: the block is live.
        unsafe { heap.deallocate(blocks[0]) };
        assert_eq!(heap.allocate_bytes(100, 1), Ok(blocks[0]));
        assert_eq!(heap.check(), Ok(()));
    }

    #[test]
    fn an_empty_page_is_free_at_once_for_any_class() {
        let mut memory = Paged([MaybeUninit::new(0); 4 * 1024]);
        let mut heap = Paper::new(&mut memory.0, ()).unwrap();
        let blocks: Vec<_> = (0..3).map(|_| heap.allocate_bytes(8, 1).unwrap()).collect();
        // SAFETY: the blocks are live.
        blocks.iter().for_each(|&block| unsafe { heap.deallocate(block) });
        assert_eq!(heap.allocate_bytes(512, 1), Ok(blocks[0]));
        // One block of 512 fills the page: the next one needs another.
        assert_ne!(heap.allocate_bytes(512, 1).map(page_of), Ok(page_of(blocks[0])));
        assert_eq!(heap.check(), Ok(()));
    }

    #[test]
    fn damage_of_the_policy_is_found_and_not_followed() {
        type Policy = ReapsPolicy<1024, 8, 64>;
        let (first, heads) = (core::mem::offset_of!(Policy, pool), core::mem::offset_of!(Policy, heads));
        let found = [first, heads].map(|field| field..field + size_of::<usize>());
        flip_every_bit::<Paper<'static>>(60 * 1024, size_of::<Policy>(), &found, use_up);
    }

    #[test]
    fn damaged_bookkeeping_is_found() {
        let mut memory = Paged([MaybeUninit::new(0); 3 * 1024]);
        let mut heap = Paper::new(&mut memory.0, ()).unwrap();
        let blocks: Vec<_> = (0..4).map(|_| heap.allocate_bytes(16, 1).unwrap()).collect();
        // SAFETY: the blocks are live.
        unsafe {
            heap.deallocate(blocks[1]);
            heap.deallocate(blocks[2]);
        }
        let page = page_of(blocks[0]);
        let footer = Bag::<1024, 8>::footer(page);
        // SAFETY: the footer belongs to the heap, and its value is restored.
        let damage = |change: &dyn Fn(&mut ReapFooter<1024, 8>)| unsafe {
            let whole = footer.read();
            change(&mut *footer);
            let found = heap.check().unwrap_err().invariant;
            footer.write(whole);
            found
        };
        assert_eq!(damage(&|footer| footer.live += 1), "a page's live counter counts its live blocks");
        assert_eq!(damage(&|footer| footer.bump += 8), "a page is cut into whole blocks");
        assert_eq!(damage(&|footer| footer.bump -= 16), "live blocks were cut from their page");
        assert_eq!(damage(&|footer| footer.block_bytes = 0), "a page in use has a class");
        assert_eq!(damage(&|footer| footer.free = 0), "a page's free list leads to free blocks");
        assert_eq!(damage(&|footer| footer.free = 16), "a page's blocks are live or in its free list");
        assert_eq!(damage(&|footer| footer.node.next = 8), "a ring's links lead to nodes");
        // SAFETY: the block is free, so its first bytes are a link.
        unsafe {
            let link = link(blocks[1].addr().get());
            let whole = link.read();
            link.write(32);
            assert_eq!(heap.check().unwrap_err().invariant, "a page's free list holds each free block once");
            link.write(whole);
        }
        assert_eq!(heap.check(), Ok(()));
    }
}

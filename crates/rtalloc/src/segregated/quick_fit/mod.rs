//! Quick-fit: pages split into fragments of one power of two, and runs of whole pages allocated by next-fit.
//!
//! # Idea
//!
//! The heap is an array of pages, preceded by a table of headers, one per page. A request of up to half a page is a
//! fragment: its page is split into fragments of one power of two, all linked doubly at once, and counted in the
//! header. A larger request is a run of whole pages: the first free run that is long enough, searched from where the
//! last search ended (next-fit). A page whose fragments are all free is freed immediately; freed pages coalesce with
//! the free pages on both sides (Puaut 2002, sections 2.4 and 3.1; Weinstock and Wulf 1988).
//!
//! ```text
//! headers  [16: 3 free][run of 2][....][free run of 3 ...][512: 1 free]
//! pages    [u u f u f.][ used        ][ free .............][ u u f u ..]
//! lists    of fragments in each page; of pages of a class with a free one; of free runs, with the rover
//! ```
//!
//! The paper's header "maintains a count of the number of free blocks within the page as well as a doubly-linked list
//! of all free blocks", and a class has a free list that may be empty. Here a class has the ring of its pages that have
//! a free fragment, so a page leaves its class in constant time, with all its fragments. (The paper's figure for the
//! worst free, near half of that for the worst malloc, suggests that its fragments were unlinked one by one.) Free runs
//! are linked in the order in which they were freed; a run that coalesces keeps its neighbour's place.
//!
//! # Overhead per page
//!
//! | page of 4,096 B | header | bits | of the page |
//! |---|---|---|---|
//! | 64-bit, smallest fragment 16 B | 32 B | 32 B | 1.6 % |
//! | 64-bit, the paper's smallest fragment of 8 B | 32 B | 64 B | 2.3 % |
//! | 32-bit, smallest fragment 8 B | 20 B | 64 B | 2.1 % |
//!
//! The bits, one for every smallest fragment, say which fragments are live; the paper has none and detects no double
//! free. Links in fragments are 16-bit offsets, so the paper's 8 bytes suffice on any machine.
//!
//! # Costs
//!
//! Allocate visits at most every free run, of which there is at most one for every two pages: linear in the region.
//! Apart from that, its longest path is the paper's worst case: the smallest request when no page of its class has a
//! free fragment takes a page and splits it 512 ways at 8 bytes (256 at 16). Deallocate is constant, without a loop.
//!
//! # When it wins, when it loses
//!
//! Most small requests take a few instructions, and no block has a header. Rounding to a power of two wastes up to half
//! of a fragment, and a program that repeatedly allocates and frees a single block of a size causes a page to be split
//! and freed each time.
//!
//! # Figures
//!
//! <!-- figures: quick-fit -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `quick-fit` | 3455 + 12 per page, -, 113 | 0 B | 16 B | 4,096 B, 16,384 B | 765.3 %, 695.0 % |
//!
//! Measured 2026-11-26 at 0d75829 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

mod verify;
#[cfg(test)]
mod white_box;

use crate::contract::{AllocError, Block, Contract, Corruption, Cost, LoopBound, Mechanism, MisuseKind, loop_bound};
use crate::mechanism::bits::floor_log2;
use crate::mechanism::page::ring::{self, Node};
use crate::mechanism::page::{self, Marks, Quantum};
use crate::mechanism::policy_heap::{Policy, PolicyHeap, Served};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::stats::NoStats;
use crate::region::round_up;
use core::num::NonZeroUsize;

/// Quick-fit with pages of `PAGE` bytes and fragments of at least `LEAST` bytes, powers of two.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::{QuickFit, RegionAllocator};
///
/// let mut memory = [MaybeUninit::uninit(); 64 * 1024];
/// let mut heap: QuickFit = QuickFit::new(&mut memory, ())?;
/// let block = heap.allocate_bytes(100, 8)?;
/// // SAFETY: `block` came from this heap and is not used again.
/// unsafe { heap.deallocate(block) };
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type QuickFit<'r, const PAGE: usize = 4096, const LEAST: usize = { page::QUANTUM }, T = NoStats> =
    PolicyHeap<'r, QuickFitPolicy<PAGE, LEAST>, T>;

/// The kind of a page, in its header: the logarithm of its fragments' size, or one of the following.
type Kind = u16;
/// Free; also the kind of the pages inside a run, where it is never read.
const FREE: Kind = 0;
/// The first page of a live run.
const RUN: Kind = 1 << 8;
/// The last page of a live run that has more than one.
const RUN_END: Kind = RUN + 1;

/// No fragment: the end of a list. Offsets of fragments are even.
const NONE: u16 = u16::MAX;

/// A page's header in the table; the marks of live fragments follow it.
#[repr(C)]
#[derive(Debug)]
struct Header {
    /// Links of a free run's first page, or of a page with a free fragment. A node's address is its header's.
    node: Node,
    /// Pages of the run: in its first page, and in the last page of a free run.
    pages: u32,
    kind: Kind,
    /// Free fragments of the page.
    free: u16,
    /// Offset of the first free fragment, or [`NONE`].
    first: u16,
}

/// The start of a free fragment: offsets of its neighbours in the list of its page, or [`NONE`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Links {
    prev: u16,
    next: u16,
}

/// The links of a free fragment.
#[inline(always)]
fn links(page: usize, offset: u16) -> *mut Links {
    core::ptr::with_exposed_provenance_mut(page.wrapping_add(offset.into()))
}

/// The policy of [`QuickFit`]. The heads of the rings follow it, then the table of headers.
#[repr(C)]
#[derive(Debug)]
pub struct QuickFitPolicy<const PAGE: usize, const LEAST: usize> {
    /// Address of the heads: one for the free runs, then one for each class of fragments.
    heads: usize,
    /// Address of the first page, a multiple of `PAGE`.
    first: usize,
    /// Number of pages, at least 1.
    pages: usize,
    /// The node of the free run where the next search begins, or the head of the free runs.
    rover: usize,
}

impl<const PAGE: usize, const LEAST: usize> QuickFitPolicy<PAGE, LEAST> {
    /// Logarithm of the page's size.
    const PAGE_LOG2: u32 = {
        assert!(PAGE.is_power_of_two() && PAGE <= 1 << 16, "offsets in a page have 16 bits");
        assert!(
            LEAST.is_power_of_two() && LEAST >= size_of::<Links>() && 2 * LEAST <= PAGE,
            "fragments hold their links"
        );
        PAGE.ilog2()
    };
    /// Logarithm of the smallest fragment's size.
    const LEAST_LOG2: u32 = LEAST.ilog2();
    /// Bytes of the heads: the free runs, and fragments from the smallest to half a page.
    const HEADS_BYTES: usize = (1 + Self::PAGE_LOG2 - Self::LEAST_LOG2) as usize * size_of::<Node>();
    /// Bytes of a header with its marks.
    const HEADER_BYTES: usize = size_of::<Header>() + Marks::<PAGE, LEAST>::BYTES;

    /// The head of the ring of free runs.
    #[inline(always)]
    fn runs(&self) -> usize {
        self.heads
    }

    /// The head of the ring of pages with a free fragment of a size.
    #[inline(always)]
    fn fragments(&self, log2: u32) -> usize {
        let class = log2.wrapping_sub(Self::LEAST_LOG2).wrapping_add(1);
        self.heads.wrapping_add((class as usize).wrapping_mul(size_of::<Node>()))
    }

    /// Address of a page's header, which is its node.
    #[inline(always)]
    fn node(&self, index: usize) -> usize {
        self.heads.wrapping_add(Self::HEADS_BYTES).wrapping_add(index.wrapping_mul(Self::HEADER_BYTES))
    }

    /// The page of a node. (The only division: by a constant, which compiles to a multiplication.)
    #[inline(always)]
    fn index(&self, node: usize) -> usize {
        node.wrapping_sub(self.heads.wrapping_add(Self::HEADS_BYTES)) / Self::HEADER_BYTES
    }

    /// A page's header.
    #[inline(always)]
    fn header(&self, index: usize) -> *mut Header {
        core::ptr::with_exposed_provenance_mut(self.node(index))
    }

    /// A page's marks.
    #[inline(always)]
    fn marks(&self, index: usize) -> Marks<PAGE, LEAST> {
        Marks::new(self.node(index).wrapping_add(size_of::<Header>()))
    }

    /// Address of a page.
    #[inline(always)]
    fn page(&self, index: usize) -> usize {
        self.first.wrapping_add(index << Self::PAGE_LOG2)
    }

    /// Whether the page next to a used one exists and is the end of a free run.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run.
    #[inline(always)]
    unsafe fn is_free(&self, index: usize) -> bool {
        // SAFETY: every index below the number of pages has a header; one before the first page wraps.
        index < self.pages && unsafe { (*self.header(index)).kind } == FREE
    }

    /// Writes the headers at both ends of a free run, but not its links.
    ///
    /// # Safety
    ///
    /// The pages exist and are free.
    #[inline(always)]
    unsafe fn set_free(&mut self, index: usize, pages: usize) {
        // SAFETY: the pages exist, so they have headers.
        unsafe {
            let last = self.header(index.wrapping_add(pages).wrapping_sub(1));
            (*last).kind = FREE;
            (*last).pages = pages as u32;
            (*self.header(index)).kind = FREE;
            (*self.header(index)).pages = pages as u32;
        }
    }

    /// Writes the headers at both ends of a live run.
    ///
    /// # Safety
    ///
    /// The pages exist and are in no free run.
    #[inline(always)]
    unsafe fn set_live(&mut self, index: usize, pages: usize) {
        // SAFETY: the pages exist, so they have headers. For a single page, the second write overwrites the first.
        unsafe {
            (*self.header(index.wrapping_add(pages).wrapping_sub(1))).kind = RUN_END;
            (*self.header(index)).kind = RUN;
            (*self.header(index)).pages = pages as u32;
        }
    }

    /// Number of pages of a free run before the first aligned address.
    #[inline(always)]
    fn skipped(&self, index: usize, align_bytes: usize) -> usize {
        (self.page(index).wrapping_neg() & align_bytes.wrapping_sub(1)) >> Self::PAGE_LOG2
    }

    /// Takes pages by next-fit: from the first free run, from the rover on, that has enough pages at this alignment.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run.
    unsafe fn take_pages(&mut self, pages: usize, align_bytes: usize) -> Option<usize> {
        let mut node = self.rover;
        // SAFETY: the nodes of the ring are the first pages of free runs, and its head.
        unsafe {
            loop {
                loop_bound!(LoopBound::Pages);
                if node != self.runs() {
                    let index = self.index(node);
                    let skipped = self.skipped(index, align_bytes);
                    if skipped.saturating_add(pages) <= (*self.header(index)).pages as usize {
                        self.carve(index, skipped, pages);
                        return Some(index.wrapping_add(skipped));
                    }
                }
                node = ring::next(node);
                if node == self.rover {
                    return None;
                }
            }
        }
    }

    /// Cuts pages out of a free run: `[free 9] -> [free 2][used 3][free 4]`, where either free part may be missing. The
    /// rover moves to the free part after them, or to the next run.
    ///
    /// # Safety
    ///
    /// A free run at `index` has at least `skipped + pages` pages. The caller writes the headers of the pages cut out.
    unsafe fn carve(&mut self, index: usize, skipped: usize, pages: usize) {
        let node = self.node(index);
        let after = index.wrapping_add(skipped).wrapping_add(pages);
        // SAFETY: the run is in the ring, and both free parts lie within it.
        unsafe {
            let rest = ((*self.header(index)).pages as usize).wrapping_sub(skipped).wrapping_sub(pages);
            if rest != 0 {
                self.set_free(after, rest);
                ring::insert_after(node, self.node(after));
            }
            self.rover = ring::next(node);
            match skipped {
                0 => ring::remove(node),
                _ => self.set_free(index, skipped),
            }
        }
    }

    /// Frees pages and coalesces them with free neighbours: `[free 2][freed 1][free 4] -> [free 7]`. The run takes the
    /// place of the previous run or, failing that, of the next one; otherwise it becomes the first.
    ///
    /// # Safety
    ///
    /// The pages are in use, and no block on them is live any more.
    #[inline(always)]
    unsafe fn give_pages(&mut self, index: usize, pages: usize) {
        let (mut start, mut len) = (index, pages);
        let before = index.wrapping_sub(1);
        let after = index.wrapping_add(pages);
        // SAFETY: a free page next to a used one is the end of a free run. It has the length of the run.
        unsafe {
            // Pages inside the run must not be taken for used ones later.
            (*self.header(index)).kind = FREE;
            (*self.header(after.wrapping_sub(1))).kind = FREE;
            let has_before = self.is_free(before);
            if has_before {
                let more = (*self.header(before)).pages as usize;
                start = start.wrapping_sub(more);
                len = len.wrapping_add(more);
            }
            let node = self.node(start);
            if self.is_free(after) {
                let after_node = self.node(after);
                len = len.wrapping_add((*self.header(after)).pages as usize);
                if !has_before {
                    ring::insert_after(after_node, node);
                }
                ring::remove(after_node);
                if self.rover == after_node {
                    self.rover = node;
                }
            } else if !has_before {
                ring::insert_after(self.runs(), node);
            }
            self.set_free(start, len);
        }
    }

    /// Splits a page into all its fragments, linked in the order of their addresses:
    /// `[free page] -> [16][16][16] ... [16]`.
    ///
    /// # Safety
    ///
    /// The page is in use, and in no ring.
    unsafe fn split(&mut self, index: usize, log2: u32) {
        let page = self.page(index);
        let size = 1usize << log2;
        let mut offset = 0;
        // SAFETY: the page and its header are the policy's; a fragment has room for its links.
        unsafe {
            while offset < PAGE {
                loop_bound!(LoopBound::PageGranules { per_iteration: 1 });
                let prev = if offset == 0 { NONE } else { offset.wrapping_sub(size) as u16 };
                let after = offset.wrapping_add(size);
                let next = if after == PAGE { NONE } else { after as u16 };
                links(page, offset as u16).write(Links { prev, next });
                offset = after;
            }
            let header = self.header(index);
            (*header).kind = log2 as Kind;
            (*header).free = (PAGE >> log2) as u16;
            (*header).first = 0;
            self.marks(index).begin();
            ring::insert_after(self.fragments(log2), self.node(index));
        }
    }

    /// Takes a fragment of a size; returns its address.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run; the size is from the smallest to half a page.
    #[inline(always)]
    unsafe fn take_fragment(&mut self, log2: u32) -> Option<usize> {
        // SAFETY: the pages in the class's ring have a free fragment; lists lead to free fragments.
        unsafe {
            let mut node = ring::next(self.fragments(log2));
            if node == self.fragments(log2) {
                let index = self.take_pages(1, 1)?;
                self.split(index, log2);
                node = self.node(index);
            }
            let index = self.index(node);
            let (page, header) = (self.page(index), self.header(index));
            let offset = (*header).first;
            let next = (*links(page, offset)).next;
            (*header).first = next;
            if next != NONE {
                (*links(page, next)).prev = NONE;
            }
            (*header).free = (*header).free.wrapping_sub(1);
            if (*header).free == 0 {
                ring::remove(node);
            }
            self.marks(index).set(Quantum::at(offset.into()));
            Some(page.wrapping_add(offset.into()))
        }
    }

    /// Takes back a fragment whose mark is cleared. The last fragment of a page frees the page.
    ///
    /// # Safety
    ///
    /// The page is split; the fragment was live until now.
    #[inline(always)]
    unsafe fn give_fragment(&mut self, index: usize, offset: u16, log2: u32) {
        // SAFETY: the page is split, so it has a list that leads to free fragments; the fragment is free from now on.
        unsafe {
            let (page, header) = (self.page(index), self.header(index));
            let free = (*header).free.wrapping_add(1);
            if usize::from(free) == PAGE >> log2 {
                // The others are free, so the page is in the ring.
                ring::remove(self.node(index));
                return self.give_pages(index, 1);
            }
            (*header).free = free;
            let next = (*header).first;
            links(page, offset).write(Links { prev: NONE, next });
            if next != NONE {
                (*links(page, next)).prev = offset;
            }
            (*header).first = offset;
            if free == 1 {
                ring::insert_after(self.fragments(log2), self.node(index));
            }
        }
    }

    /// The page, its kind, and the offset in it, for an address where a block can be.
    #[inline(always)]
    unsafe fn locate(&self, address: usize) -> Result<(usize, Kind, usize), MisuseKind> {
        let distance = address.wrapping_sub(self.first);
        let index = distance >> Self::PAGE_LOG2;
        if index >= self.pages || distance & (LEAST - 1) != 0 {
            return Err(MisuseKind::ForeignPointer);
        }
        // SAFETY: the index is below the number of pages, so the page has a header.
        Ok((index, unsafe { (*self.header(index)).kind }, distance & (PAGE - 1)))
    }
}

impl<const PAGE: usize, const LEAST: usize> Sealed for QuickFitPolicy<PAGE, LEAST> {}

// SAFETY: blocks are runs of free pages, or fragments of a page that was free; the table precedes the pages.
unsafe impl<const PAGE: usize, const LEAST: usize> Policy for QuickFitPolicy<PAGE, LEAST> {
    type Config = ();

    const CONTRACT: Contract = Contract {
        name: "quick-fit",
        source: "Puaut 2002, sections 2.4 and 3.1; Weinstock and Wulf 1988",
        policy: "next fit for pages, powers of two within",
        mechanism: Mechanism::SegregatedFit,
        allocate: Cost::LinearInRegion,
        reallocate: Cost::LinearInRegion,
        ..page::page_contract(PAGE, LEAST)
    };

    fn plan(start: usize, end: usize, (): ()) -> Option<Self> {
        let table = start.checked_add(Self::HEADS_BYTES)?;
        let mut pages = end.checked_sub(table)? / (PAGE + Self::HEADER_BYTES);
        // Aligning the first page may leave too little room for the last one.
        while pages != 0 {
            let first = round_up(table + pages * Self::HEADER_BYTES, PAGE)?;
            if end.checked_sub(first).is_some_and(|room| room >> Self::PAGE_LOG2 >= pages) {
                return u32::try_from(pages).is_ok().then_some(QuickFitPolicy {
                    heads: start,
                    first,
                    pages,
                    rover: start,
                });
            }
            pages -= 1;
        }
        None
    }

    fn needed_bytes((): ()) -> usize {
        Self::HEADS_BYTES + Self::HEADER_BYTES + 2 * PAGE - align_of::<usize>()
    }

    unsafe fn begin(&mut self) {
        // SAFETY: the policy owns the heads and the table, which precede the first page.
        unsafe {
            for head in (0..Self::HEADS_BYTES).step_by(size_of::<Node>()) {
                ring::begin(self.heads + head);
            }
            // A zeroed header is that of a free page. The headers after the last page belong to no run: see `check`.
            self.header(0).cast::<u8>().write_bytes(0, self.first - self.node(0));
            self.set_free(0, self.pages);
            ring::insert_after(self.runs(), self.node(0));
        }
    }

    #[inline(always)]
    fn limit(&self) -> usize {
        self.pages << Self::PAGE_LOG2
    }

    #[inline(always)]
    fn origin(&self) -> usize {
        self.first
    }

    #[inline(always)]
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError> {
        // A fragment is aligned to its size.
        let least = if size_bytes > align_bytes { size_bytes } else { align_bytes };
        // SAFETY: `begin` has run, and the size and the alignment are within the limits.
        unsafe {
            if least <= PAGE / 2 {
                let log2 = match NonZeroUsize::new(least.wrapping_sub(1) | (LEAST - 1)) {
                    Some(below) if least > LEAST => floor_log2(below).wrapping_add(1),
                    _ => Self::LEAST_LOG2,
                };
                let address = self.take_fragment(log2).ok_or(AllocError::Exhausted)?;
                return Ok(Served { address, usable_bytes: 1 << log2 });
            }
            let pages = (size_bytes.wrapping_sub(1) >> Self::PAGE_LOG2).wrapping_add(1);
            let index = self.take_pages(pages, align_bytes).ok_or(AllocError::Exhausted)?;
            self.set_live(index, pages);
            Ok(Served { address: self.page(index), usable_bytes: pages << Self::PAGE_LOG2 })
        }
    }

    #[inline(always)]
    unsafe fn release(&mut self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: `begin` has run, and a block is live if the header or the marks say so.
        unsafe {
            let (index, kind, offset) = self.locate(address)?;
            if kind == RUN && offset == 0 {
                let pages = (*self.header(index)).pages as usize;
                self.give_pages(index, pages);
                return Ok(pages << Self::PAGE_LOG2);
            }
            let is_split = kind.wrapping_sub(1) < RUN - 1;
            if !is_split || !self.marks(index).clear(Quantum::at(offset)) {
                return Err(MisuseKind::DoubleFree);
            }
            self.give_fragment(index, offset as u16, kind.into());
            Ok(1usize.wrapping_shl(kind.into()))
        }
    }

    #[inline(always)]
    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: `begin` has run, which the caller guarantees.
        unsafe {
            let (index, kind, offset) = self.locate(address)?;
            if kind == RUN && offset == 0 {
                return Ok(((*self.header(index)).pages as usize) << Self::PAGE_LOG2);
            }
            let is_split = kind.wrapping_sub(1) < RUN - 1;
            match is_split && self.marks(index).is_set(Quantum::at(offset)) {
                true => Ok(1usize.wrapping_shl(kind.into())),
                false => Err(MisuseKind::DoubleFree),
            }
        }
    }

    /// A run returns the pages it no longer needs, or takes further pages from a free run after it.
    unsafe fn fit_in_place(&mut self, address: usize, usable_bytes: usize, size_bytes: usize) -> Option<usize> {
        // SAFETY: the block is live; the end of a run is followed by a page, or is the end of the heap.
        unsafe {
            let (index, kind, _) = self.locate(address).ok()?;
            if kind != RUN {
                return (size_bytes <= usable_bytes).then_some(usable_bytes);
            }
            let (old, new) = (usable_bytes >> Self::PAGE_LOG2, size_bytes.wrapping_sub(1) >> Self::PAGE_LOG2);
            let new = new.wrapping_add(1);
            let after = index.wrapping_add(old);
            if new < old {
                // [used 5] -> [used 2][free 3]
                self.set_live(index, new);
                self.give_pages(index.wrapping_add(new), old.wrapping_sub(new));
            } else if new > old {
                // [used 2][free 5] -> [used 4][free 3]
                let more = new.wrapping_sub(old);
                if !self.is_free(after) || ((*self.header(after)).pages as usize) < more {
                    return None;
                }
                self.carve(after, 0, more);
                self.set_live(index, new);
            }
            Some(new << Self::PAGE_LOG2)
        }
    }

    unsafe fn largest(&self) -> usize {
        let mut most = 0;
        // SAFETY: `begin` has run, and the nodes of the ring are the first pages of free runs, and its head.
        unsafe {
            let mut node = ring::next(self.runs());
            while node != self.runs() {
                most = most.max((*self.header(self.index(node))).pages as usize);
                node = ring::next(node);
            }
            if most != 0 {
                return most << Self::PAGE_LOG2;
            }
            let has_page = |&log2: &u32| ring::next(self.fragments(log2)) != self.fragments(log2);
            (Self::LEAST_LOG2..Self::PAGE_LOG2).rev().find(has_page).map_or(0, |log2| 1 << log2)
        }
    }

    unsafe fn walk(&self, visit: &mut dyn FnMut(Block)) {
        // SAFETY: `begin` has run, which the caller guarantees.
        unsafe { self.visit_blocks(visit) }
    }

    unsafe fn check(&self) -> Result<(), Corruption> {
        // SAFETY: `begin` has run, which the caller guarantees.
        unsafe { self.verify() }
    }

    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: `begin` has run, which the caller guarantees.
        unsafe { self.emit_state(word) }
    }
}

//! Walk, check and fingerprint of bitframe heaps.

use super::page::{BitframePage, NO_CLASS, Page};
use super::{BitframePolicy, Initialisation};
use crate::contract::{Block, Corruption};
use crate::mechanism::frame::Shape;
use crate::mechanism::page::{self as pages, Footer, Pages, Pool, ring};
use crate::region::room_behind;

impl<F: Shape, I: Initialisation, const PAGE: usize, const QUANTUM: usize, const SIZES: usize>
    BitframePolicy<F, I, PAGE, QUANTUM, SIZES>
{
    /// Visits every block; adjacent free chunks of a page count as one.
    ///
    /// # Safety
    ///
    /// `begin` has run.
    pub(super) unsafe fn show_blocks(&self, visit: &mut dyn FnMut(Block)) {
        // SAFETY: `begin` has run, so pages that were taken have footers, and pages in use have frames.
        unsafe {
            self.pool.walk(&mut |pages| match pages {
                Pages::InUse(page) => Self::show_page(Page::at(page), visit),
                Pages::Free { .. } => {
                    if let Some(block) = pages.as_block() {
                        visit(block);
                    }
                }
            });
        }
    }

    /// Visits the blocks of a page.
    ///
    /// # Safety
    ///
    /// The page is in use.
    unsafe fn show_page(page: Page<F, PAGE, QUANTUM, SIZES>, visit: &mut dyn FnMut(Block)) {
        // SAFETY: the page is in use, so its footer is initialised.
        let (kind, chunk_log2) = unsafe { ((*page.footer()).kind, (*page.footer()).chunk_log2) };
        let end = Page::<F, PAGE, QUANTUM, SIZES>::frames_of(usize::from(kind)) * F::CHUNKS;
        let mut show = |first: usize, chunks: usize, free: bool| {
            let size_bytes = chunks << chunk_log2;
            let address = page.start + (first << chunk_log2);
            visit(Block { address, front_bytes: 0, size_bytes, usable_bytes: size_bytes, free });
        };
        let (mut chunk, mut free_from) = (0, 0);
        while chunk < end {
            // SAFETY: the page is in use, which the caller guarantees.
            match unsafe { Self::block_at(page, chunk) } {
                None => chunk += 1,
                Some(chunks) => {
                    if free_from < chunk {
                        show(free_from, chunk - free_from, true);
                    }
                    show(chunk, chunks, false);
                    chunk += chunks;
                    free_from = chunk;
                }
            }
        }
        if free_from < end {
            show(free_from, end - free_from, true);
        }
    }

    /// Length of the block that begins at a chunk.
    ///
    /// # Safety
    ///
    /// The page is in use.
    unsafe fn block_at(page: Page<F, PAGE, QUANTUM, SIZES>, chunk: usize) -> Option<usize> {
        let (index, place) = (chunk / F::CHUNKS, chunk % F::CHUNKS);
        // SAFETY: the page is in use, and its frames below `started` are initialised.
        unsafe {
            let is_start =
                index < usize::from((*page.footer()).started) && page.starts(index + F::LONGEST) >> place & 1 != 0;
            is_start.then(|| page.block_chunks(index + F::LONGEST, place))
        }
    }

    /// Verifies every invariant.
    ///
    /// # Errors
    ///
    /// The first one that does not hold.
    ///
    /// # Safety
    ///
    /// `begin` has run.
    pub(super) unsafe fn verify(&self) -> Result<(), Corruption> {
        let footer = |page| Pool::<BitframePage, PAGE>::footer(page);
        // SAFETY: pages that have been taken have footers; links are followed only to footers of pages in use.
        unsafe {
            self.pool.check(room_behind(self).wrapping_add(Self::HEADS_BYTES))?;
            let mut with_class = 0;
            for page in self.pool.used() {
                if (*footer(page)).is_in_use() {
                    Self::verify_page(Page::at(page))?;
                    with_class += usize::from((*footer(page)).class != NO_CLASS);
                }
            }
            let mut in_rings = 0;
            for class in 0..Self::CLASSES {
                let head = self.head(class);
                let is_node = |node: usize| {
                    self.pool.holds(node) && {
                        let own = footer(pages::Page::of(node));
                        own.addr() == node && (*own).is_in_use()
                    }
                };
                let pages = ring::check(head, with_class, &is_node, &mut |node| {
                    let page = pages::Page::of(node);
                    match usize::from((*footer(page)).class) == class {
                        true => Ok(()),
                        false => {
                            Err(Corruption { invariant: "a page is in the ring of its class", address: page.start() })
                        }
                    }
                })?;
                if (self.class_bits >> class & 1 != 0) != (pages > 0) {
                    return Err(Corruption { invariant: "a class has its bit while it has a page", address: head });
                }
                in_rings += pages;
            }
            let is_within = Self::CLASSES >= usize::BITS as usize || self.class_bits >> Self::CLASSES == 0;
            match in_rings == with_class && is_within {
                true => Ok(()),
                false => Err(Corruption { invariant: "every page with a class is in a ring", address: self.head(0) }),
            }
        }
    }

    /// Verifies a page's footer, frames and lists.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold.
    ///
    /// # Safety
    ///
    /// The page is in use.
    unsafe fn verify_page(page: Page<F, PAGE, QUANTUM, SIZES>) -> Result<(), Corruption> {
        let broken = |invariant, address| Err(Corruption { invariant, address });
        // SAFETY: the page is in use, so its footer, its heads and the frames below `started` are initialised.
        unsafe {
            let footer = page.footer();
            let (kind, started) = (usize::from((*footer).kind), usize::from((*footer).started));
            if kind >= SIZES
                || u32::from((*footer).chunk_log2) != Page::<F, PAGE, QUANTUM, SIZES>::chunk_log2(kind)
                || started > Page::<F, PAGE, QUANTUM, SIZES>::frames_of(kind)
            {
                return broken("a page's chunk size is one of the heap's, and its frames fit", footer.addr());
            }
            let is_whole = started == Page::<F, PAGE, QUANTUM, SIZES>::frames_of(kind);
            if !is_whole && (I::EAGER || (*footer).head_bits >> (F::LONGEST - 1) & 1 == 0) {
                return broken("while frames are uninitialised, an initialised one is completely free", footer.addr());
            }
            let (mut occupied, mut with_free) = (0, 0);
            for frame in F::LONGEST..F::LONGEST + started {
                Self::verify_frame(page, frame, frame + 1 == F::LONGEST + started)?;
                occupied += usize::from(page.bits(frame) != 0);
                with_free += usize::from(page.longest(frame) != 0);
            }
            if occupied == 0 || occupied != usize::from((*footer).occupied) {
                return broken("a page counts its frames with a block, and has at least one", footer.addr());
            }
            let mut listed = 0;
            for list in 0..F::LONGEST {
                let count = Self::verify_list(page, list, with_free)?;
                if ((*footer).head_bits >> list & 1 != 0) != (count > 0) {
                    return broken("a list has its head bit while it has a frame", page.frame(list).addr());
                }
                listed += count;
            }
            if listed != with_free {
                return broken("every frame with a free chunk is in a list", footer.addr());
            }
            if (*footer).class != Self::class_of(page) {
                return broken("a page's class is its longest free sequence", footer.addr());
            }
        }
        Ok(())
    }

    /// Verifies the bits of a frame: every block has an end, and none is too long.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold.
    ///
    /// # Safety
    ///
    /// The page is in use, and the frame is initialised.
    unsafe fn verify_frame(page: Page<F, PAGE, QUANTUM, SIZES>, frame: usize, is_last: bool) -> Result<(), Corruption> {
        let broken = |invariant| Err(Corruption { invariant, address: page.frame(frame).addr() });
        // SAFETY: the page is in use, and the frame is initialised; unless it is the last, the next one is, too.
        unsafe {
            let (bits, ends) = (page.bits(frame), page.ends(frame));
            let next_bits = if F::AHEAD > 0 && !is_last { page.bits(frame + 1) } else { 0 };
            if ends & !bits != 0 || bits >> F::CHUNKS != 0 {
                return broken("a block's last chunk is allocated");
            }
            // A chunk that is not the last of its block is followed by another allocated chunk.
            let goes_on = bits & !ends;
            if goes_on << 1 & !(bits | next_bits << F::CHUNKS) != 0 {
                return broken("a block ends with its last chunk");
            }
            let starts = page.starts(frame);
            for place in 0..F::CHUNKS {
                if starts >> place & 1 != 0 {
                    let chunks = page.block_chunks(frame, place);
                    if chunks > F::LONGEST || place + chunks > F::CHUNKS + F::AHEAD {
                        return broken("a block is no longer than the longest sequence");
                    }
                }
            }
        }
        Ok(())
    }

    /// Verifies a list of frames, following only links that lead to frames; returns their number.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold.
    ///
    /// # Safety
    ///
    /// The page is in use.
    unsafe fn verify_list(page: Page<F, PAGE, QUANTUM, SIZES>, list: usize, most: usize) -> Result<usize, Corruption> {
        let broken = |invariant, frame| Err(Corruption { invariant, address: page.frame(frame).addr() });
        let mut frame = list;
        let mut count = 0;
        // SAFETY: the heads are initialised, and links are followed only to initialised frames.
        unsafe {
            let end = F::LONGEST + usize::from((*page.footer()).started);
            loop {
                let next = usize::from((*page.frame(frame)).next);
                if next != list && !(F::LONGEST..end).contains(&next) {
                    return broken("a list's links lead to frames", frame);
                }
                if usize::from((*page.frame(next)).prev) != frame {
                    return broken("a list's links lead back", next);
                }
                if next == list {
                    return Ok(count);
                }
                count += 1;
                if count > most || page.longest(next) != list + 1 {
                    return broken("a frame is in the list of its longest free sequence", next);
                }
                frame = next;
            }
        }
    }

    /// Emits the abstract state: the bits, and every order that decides what is taken next.
    ///
    /// # Safety
    ///
    /// `begin` has run.
    pub(super) unsafe fn emit_state(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: `begin` has run, so heads lead to frames and pages, and pages in use have initialised frames.
        unsafe {
            self.pool.fingerprint(word);
            for start in self.pool.used() {
                let page: Page<F, PAGE, QUANTUM, SIZES> = Page::at(start);
                if !(*page.footer()).is_in_use() {
                    continue;
                }
                word(page.start - self.pool.first());
                word(usize::from((*page.footer()).kind));
                word(usize::from((*page.footer()).started));
                for frame in F::LONGEST..F::LONGEST + usize::from((*page.footer()).started) {
                    word((page.bits(frame) << 16 | page.ends(frame)) as usize);
                }
                for list in 0..F::LONGEST {
                    let mut frame = usize::from((*page.frame(list)).next);
                    while frame != list {
                        word(frame);
                        frame = usize::from((*page.frame(frame)).next);
                    }
                    word(usize::MAX);
                }
            }
            for class in 0..Self::CLASSES {
                let mut node = ring::next(self.head(class));
                while node != self.head(class) {
                    word(node - self.pool.first());
                    node = ring::next(node);
                }
                word(usize::MAX);
            }
        }
    }
}

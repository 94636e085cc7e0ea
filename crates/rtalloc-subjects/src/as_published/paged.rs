//! The Bitframe thesis' regions and reaps with its own bookkeeping (2012, sections 3.3.2, 3.3.3 and 6.2): pages of 1
//! KiB with a footer of words of 32 bits, as on its machine, and classes of 8 bytes up to 512.
//!
//! [`rtalloc::regional`] has the same allocators with marks for every quantum of a page, which find double frees. These
//! find nothing, and serve replays alone.
//!
//! ```text
//! [heap: first page, counts, a word for each class] padding [page 1 ..... [footer]][page 2 ..... [footer]] ...
//! ```

use crate::adapter::{Made, Target};
use crate::{Reach, View};
use rtalloc::contract::{Block, Contract, RegionAllocator as _};
use std::ffi::c_void;

const PAGE: usize = 1024;
const QUANTUM: usize = 8;
const LARGEST: usize = 512;
const CLASSES: usize = LARGEST / QUANTUM;

/// How the blocks of a page are made.
pub trait Kind: 'static {
    /// The contract of our allocator of this kind.
    const CONTRACT: Contract;
    /// Bytes of the footer.
    const FOOTER: usize;
    /// Whether a page serves one class.
    const BY_CLASS: bool;
    /// Whether freed blocks are reused before their page is free.
    const REUSES: bool;
}

/// One region of blocks of any size; the footer is a counter.
#[derive(Debug)]
pub struct Regis1;

impl Kind for Regis1 {
    const CONTRACT: Contract = crate::ablations::SingleRegion8::CONTRACT;
    const FOOTER: usize = 4;
    const BY_CLASS: bool = false;
    const REUSES: bool = false;
}

/// A region for each class; the footer is a counter and the class.
#[derive(Debug)]
pub struct Regis2;

impl Kind for Regis2 {
    const CONTRACT: Contract = crate::ablations::ClassRegions8::CONTRACT;
    const FOOTER: usize = 8;
    const BY_CLASS: bool = true;
    const REUSES: bool = false;
}

/// Reaps: the footer is a counter, the class, the reap and two links, 28 bytes: tables 5 to 8 have them, since overhead
/// in bytes is I times (H - M), and H is whole pages and a control structure.
#[derive(Debug)]
pub struct Reaps;

impl Kind for Reaps {
    const CONTRACT: Contract = crate::ablations::Reaps8::CONTRACT;
    const FOOTER: usize = 28;
    const BY_CLASS: bool = true;
    const REUSES: bool = true;
}

/// The control structure, at the start of the region.
#[repr(C)]
struct Pages<const WORDS: usize> {
    /// The address before the first page, so that pages count from 1.
    before: *mut u8,
    /// Number of pages, and of those taken at least once.
    pages: u32,
    taken: u32,
    /// The page that was returned last; its first word is the one before.
    returned: u32,
    /// For each class, the offset of the next block (regions), or the first page with a free block (reaps); 0: none.
    current: [u32; WORDS],
}

/// The last words of a page, of which a kind has the last ones.
#[repr(C)]
struct Footer {
    /// End of the room for blocks.
    end: u32,
    prev: u32,
    next: u32,
    /// Offset of the block that was freed last, in the page, plus 1; 0: none.
    free: u32,
    /// Offset of the first block that was never used.
    bump: u32,
    class: u32,
    live: u32,
}

impl<const WORDS: usize> Pages<WORDS> {
    fn page(&self, page: u32) -> *mut u8 {
        self.before.wrapping_add(page as usize * PAGE)
    }

    /// The footer of a page; only the words of its kind exist.
    fn footer(&self, page: u32) -> *mut Footer {
        self.page(page).wrapping_add(PAGE - size_of::<Footer>()).cast()
    }

    /// Takes a page: the one returned last, or one never taken.
    #[inline(always)]
    unsafe fn take(&mut self) -> Option<u32> {
        if self.returned != 0 {
            let page = self.returned;
            // SAFETY: a returned page begins with the number of another one.
            self.returned = unsafe { self.page(page).cast::<u32>().read() };
            return Some(page);
        }
        (self.taken < self.pages).then(|| {
            self.taken += 1;
            self.taken
        })
    }

    /// Returns a page without live blocks.
    #[inline(always)]
    unsafe fn give_back(&mut self, page: u32) {
        // SAFETY: no block of the page is live.
        unsafe { self.page(page).cast::<u32>().write(self.returned) }
        self.returned = page;
    }

    /// Puts a page at the head of its class's list.
    #[inline(always)]
    unsafe fn link(&mut self, page: u32, class: usize) {
        let next = self.current[class];
        // SAFETY: pages in a list are in use, so they have footers.
        unsafe {
            (*self.footer(page)).prev = 0;
            (*self.footer(page)).next = next;
            if next != 0 {
                (*self.footer(next)).prev = page;
            }
        }
        self.current[class] = page;
    }

    /// Takes a page from its class's list.
    #[inline(always)]
    unsafe fn unlink(&mut self, page: u32, class: usize) {
        // SAFETY: pages in a list are in use, so they have footers.
        unsafe {
            let (prev, next) = ((*self.footer(page)).prev, (*self.footer(page)).next);
            match prev {
                0 => self.current[class] = next,
                _ => (*self.footer(prev)).next = next,
            }
            if next != 0 {
                (*self.footer(next)).prev = prev;
            }
        }
    }
}

/// An allocator of a kind, with a word for each class.
#[derive(Debug)]
pub struct AsPublished<K, const WORDS: usize>(std::marker::PhantomData<K>);

impl<K: Kind, const WORDS: usize> AsPublished<K, WORDS> {
    const ROOM: usize = PAGE - K::FOOTER;

    #[inline(always)]
    fn block_bytes(size: usize) -> usize {
        size.next_multiple_of(QUANTUM)
    }

    #[inline(always)]
    fn class(block_bytes: usize) -> usize {
        if K::BY_CLASS { block_bytes / QUANTUM - 1 } else { 0 }
    }

    #[inline(always)]
    unsafe fn cut(pages: &mut Pages<WORDS>, bytes: usize) -> Option<*mut u8> {
        let class = Self::class(bytes);
        let mut next = pages.current[class] as usize;
        // SAFETY: a page that was taken has a footer, and its room is its own.
        unsafe {
            if next == 0 || next % PAGE + bytes > Self::ROOM {
                let page = pages.take()?;
                let footer = pages.footer(page);
                (*footer).live = 0;
                if K::BY_CLASS {
                    (*footer).class = class as u32;
                }
                next = page as usize * PAGE;
            }
            pages.current[class] = (next + bytes) as u32;
            (*pages.footer((next / PAGE) as u32)).live += 1;
        }
        Some(pages.before.wrapping_add(next))
    }

    #[inline(always)]
    unsafe fn reap(pages: &mut Pages<WORDS>, bytes: usize) -> Option<*mut u8> {
        let class = Self::class(bytes);
        // SAFETY: a page that was taken has a footer; a free block begins with the offset of another one.
        unsafe {
            let mut page = pages.current[class];
            if page == 0 {
                page = pages.take()?;
                let end = Self::ROOM as u32;
                pages.footer(page).write(Footer {
                    end,
                    prev: 0,
                    next: 0,
                    free: 0,
                    bump: 0,
                    class: class as u32,
                    live: 0,
                });
                pages.link(page, class);
            }
            let footer = pages.footer(page);
            let block = if (*footer).bump + bytes as u32 <= (*footer).end {
                let block = pages.page(page).wrapping_add((*footer).bump as usize);
                (*footer).bump += bytes as u32;
                block
            } else {
                let block = pages.page(page).wrapping_add((*footer).free as usize - 1);
                (*footer).free = block.cast::<u32>().read();
                block
            };
            (*footer).live += 1;
            if Self::is_full(&*footer, bytes) {
                pages.unlink(page, class);
            }
            Some(block)
        }
    }

    #[inline(always)]
    fn is_full(footer: &Footer, bytes: usize) -> bool {
        footer.free == 0 && footer.bump + bytes as u32 > footer.end
    }

    unsafe fn fingerprint(context: *mut c_void, word: &mut dyn FnMut(usize)) {
        // SAFETY: `context` came from `make`.
        let pages = unsafe { &*context.cast::<Pages<WORDS>>() };
        word(pages.taken as usize);
        pages.current.iter().for_each(|current| word(*current as usize));
    }

    /// Visits each page in use as one live block: without marks, nothing tells its blocks apart.
    unsafe fn walk(context: *mut c_void, visit: &mut dyn FnMut(Block)) {
        // SAFETY: `context` came from `make`, and a page that was taken has a footer.
        unsafe {
            let pages = &*context.cast::<Pages<WORDS>>();
            for page in 1..=pages.taken.max(1) {
                let free = pages.taken == 0 || (*pages.footer(page)).live == 0;
                let size_bytes = Self::ROOM;
                let address = pages.page(page) as usize;
                visit(Block { address, front_bytes: 0, size_bytes, usable_bytes: size_bytes, free });
            }
        }
    }
}

// SAFETY: a block lies in the room of a page that is in use, where no other live block is.
unsafe impl<K: Kind, const WORDS: usize> Target for AsPublished<K, WORDS> {
    const REPORTS_GRANTED: bool = true;
    const NATURAL_ALIGN_BYTES: usize = QUANTUM;
    const REACH: Reach = Reach { request_bytes: LARGEST, alignment_bytes: QUANTUM };
    const VIEW: Option<View> =
        Some(View { contract: K::CONTRACT, fingerprint: Self::fingerprint, walk: Self::walk, largest: None });

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let start = region.addr().next_multiple_of(align_of::<Pages<WORDS>>());
        let first = (start + size_of::<Pages<WORDS>>()).next_multiple_of(PAGE);
        let end = region.addr() + bytes;
        let pages = end.saturating_sub(first) / PAGE;
        if pages == 0 || pages >= (u32::MAX as usize) / PAGE {
            return Err(format!("{bytes} bytes have no page, or too many"));
        }
        let before = region.wrapping_add(first - region.addr()).wrapping_sub(PAGE);
        let context: *mut Pages<WORDS> = region.wrapping_add(start - region.addr()).cast();
        // SAFETY: the control structure lies in the region, which is exclusively the heap's.
        unsafe { context.write(Pages { before, pages: pages as u32, taken: 0, returned: 0, current: [0; WORDS] }) }
        Ok(Made { context: context.cast(), first_block_address: first, outside_bytes: 0 })
    }

    unsafe fn release(_: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        if size > LARGEST || align > QUANTUM {
            return std::ptr::null_mut();
        }
        // SAFETY: `context` came from `make`.
        let block = unsafe {
            let pages = &mut *context.cast::<Pages<WORDS>>();
            let bytes = Self::block_bytes(size);
            if K::REUSES { Self::reap(pages, bytes) } else { Self::cut(pages, bytes) }
        };
        block.unwrap_or(std::ptr::null_mut())
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, _: usize, _: usize) {
        // SAFETY: `context` came from `make`, and the block is live, so its page has a footer.
        unsafe {
            let pages = &mut *context.cast::<Pages<WORDS>>();
            let offset = block.addr() - pages.before.addr();
            let page = (offset / PAGE) as u32;
            let footer = pages.footer(page);
            let class = if K::BY_CLASS { (*footer).class as usize } else { 0 };
            (*footer).live -= 1;
            if !K::REUSES {
                if (*footer).live == 0 {
                    if pages.current[class] as usize / PAGE == page as usize {
                        pages.current[class] = 0;
                    }
                    pages.give_back(page);
                }
                return;
            }
            let was_full = Self::is_full(&*footer, (class + 1) * QUANTUM);
            if (*footer).live == 0 {
                if !was_full {
                    pages.unlink(page, class);
                }
                return pages.give_back(page);
            }
            block.cast::<u32>().write((*footer).free);
            (*footer).free = (offset % PAGE) as u32 + 1;
            if was_full {
                pages.link(page, class);
            }
        }
    }

    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `block` is live with `old` bytes, so the new block does not overlap it, and both hold what is copied.
        unsafe {
            let other = Self::allocate(context, new, align);
            if !other.is_null() {
                other.copy_from_nonoverlapping(block, old.min(new));
                Self::deallocate(context, block, old, align);
            }
            other
        }
    }

    unsafe fn granted(_: *mut c_void, _: *mut u8, size: usize, _: usize) -> usize {
        Self::block_bytes(size)
    }
}

/// `regis1` as published: one word for the current page.
pub type PublishedRegis1 = AsPublished<Regis1, 1>;
/// `regis2` as published.
pub type PublishedRegis2 = AsPublished<Regis2, CLASSES>;
/// `reaps` as published.
pub type PublishedReaps = AsPublished<Reaps, CLASSES>;

#[cfg(test)]
mod tests {
    use crate::as_published::AS_PUBLISHED;
    use crate::{Heap, Region};

    /// Blocks of a random load never overlap, stay in the region, and all memory comes back: as many blocks fit
    /// afterwards as before.
    #[test]
    fn blocks_are_disjoint_and_all_pages_come_back() {
        for name in ["regis1-published", "regis2-published", "reaps-published"] {
            let subject = AS_PUBLISHED.iter().find(|subject| subject.name == name).expect(name);
            let mut region = Region::new(64 << 10, false).expect("memory");
            let heap = Heap::new(subject, &mut region, 64 << 10).expect("a heap");
            let allocate = |size: usize| {
                // SAFETY: the heap is live, size and alignment are valid.
                unsafe { (heap.entries.allocate)(heap.context, size, 8) }
            };
            let free = |(block, size): (usize, usize)| {
                // SAFETY: the block is live, and was requested with this size.
                unsafe { (heap.entries.deallocate)(heap.context, block as *mut u8, size, 8) }
            };
            let all = || {
                let blocks: Vec<usize> = std::iter::from_fn(|| Some(allocate(512)).filter(|it| !it.is_null()))
                    .map(|block| block as usize)
                    .collect();
                blocks.iter().for_each(|block| free((*block, 512)));
                blocks.len()
            };
            let before = all();
            assert!(before >= 60, "{name}: {before}");
            let mut live: Vec<(usize, usize)> = Vec::new();
            let mut state = 1_u64;
            let mut random = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % below
            };
            for _ in 0..20_000 {
                if random(2) == 0 && !live.is_empty() {
                    free(live.swap_remove(random(live.len())));
                } else {
                    let most = if random(4) == 0 { 512 } else { 64 };
                    let size = 1 + random(most);
                    let block = allocate(size) as usize;
                    if block == 0 {
                        continue;
                    }
                    assert!(block.is_multiple_of(8) && block >= heap.start && block + size <= heap.end, "{name}");
                    let overlaps = |&(other, bytes): &(usize, usize)| block < other + bytes && other < block + size;
                    assert!(!live.iter().any(overlaps), "{name}: {block:#x}");
                    live.push((block, size));
                }
            }
            live.into_iter().for_each(free);
            assert_eq!(all(), before, "{name}");
        }
    }
}

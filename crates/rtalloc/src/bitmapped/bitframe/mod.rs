//! Bitframe: bitmaps of eight chunks, looked up in tables.
//!
//! # Idea
//!
//! Memory is divided into pages, pages into chunks of one size, and chunks are managed eight at a time by *bitframes*
//! (Bitframe thesis 2012, chapter 5). A block is a sequence of chunks of one frame. A request is rounded up to whole
//! chunks. The class of a page is the longest free sequence in any of its frames. One bit scan finds a page of the
//! lowest class that suffices, another one the list of frames in it, and a table gives the place in the frame where the
//! sequence begins. There is no search, and no block has a header.
//!
//! ```text
//! size_class_bits  .. 0 1 0 0 1 ..      first set bit at or above the request's class
//!                      |
//! pages of the class  [page] <-> [page]
//!                      | head_bits, frames by their longest free sequence
//!                      v
//! frame  bits 0 1 1 0 0 0 1 0   allocated chunks: looked up, 3 free ones begin at chunk 2
//!        ends 0 1 0 0 0 0 1 0   the last chunk of each block (termination bits), which gives its length
//!        prev, next             8 bits each: frames of a page are numbered
//! ```
//!
//! | | the thesis | ours |
//! |---|---|---|
//! | quantum, chunk sizes | 8 bytes; 8 and 64 | `QUANTUM`, 16 bytes on 64-bit machines; `SIZES` sizes, each the longest sequence of the one before: 16 and 128 |
//! | largest request | 512 bytes | 64 quanta: 1024 bytes |
//! | page | 16 KB, aligned, with a header | `PAGE` bytes, 16 KiB, aligned, with a footer: chunks are aligned to their size |
//! | frame | 4 bytes for 8 chunks; 8 dummy frames as heads | the same |
//! | list of frames | the request's own, `head_idx` | the first non-empty one at or above it: the request's own may be empty |
//! | pages | one of each chunk size initially; then on demand | all on demand; of the request's chunk size while there is room for one, then any class above that has a sequence |
//! | empty page | not stated | returned, for any chunk size |
//! | equal classes (8 small chunks, 1 large) | left open | the small ones |
//! | initialisation of frames | all of a page at once, or (footnote 11) on demand | `I`: [`Eager`], or [`Lazy`], the default |
//! | frames | 8 chunks; proposed: 16 chunks, at most 4, across frames | `F`: see [`frame`](crate::mechanism::frame) |
//!
//! `Bitframe<..., QUANTUM = 8>` has the figures of the thesis.
//!
//! The proposals of 5.7, by type:
//!
//! | `F`, `I` and `SIZES` | changes |
//! |---|---|
//! | [`Eager`] | every frame of a page is written when the page is taken: a bound linear in the page |
//! | `Frames<16, 16, 0>` | 16 chunks and links of 8 bits in 6 bytes; two tables of 2^16 would be 128 KiB, so the run is found by halving, without a load; three blocks of 5 chunks per frame instead of one in each 8 |
//! | `Frames<8, 4, 0>`, 3 sizes | chunk sizes q, 4q, 16q; at most 4 chunks in a row: two blocks per frame at least |
//! | `Frames<8, 4, 3>`, 3 sizes | the same, and a block may end in the next frame: the bits of both are merged and looked up in tables of 2^11; an operation updates up to three frames |
//!
//! An alignment beyond the chunk size is served from a sequence that is longer by the alignment: the block is its
//! aligned part, and the chunks around it stay free. The largest alignment is the largest chunk.
//!
//! # Costs
//!
//! No loop, except over the dummy heads of a new page and, if it is [`Eager`], over its frames. Half a byte per chunk.
//! A pointer is accepted if a block begins at its chunk: the chunk is allocated, and the previous one is free or the
//! last of another block.
//!
//! # When it wins, when it loses
//!
//! Small blocks of all sizes share pages and coalesce in them without headers. A request just above the longest
//! sequence of small chunks takes two large ones: 65 bytes take 128 at quantum 8. A frame holds only one block of 5
//! chunks. A page is returned only when all of it is free.
//!
//! # Figures
//!
//! <!-- figures: bitframe -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `bitframe` | 332, 352, 180 | 0 B | 16 B | 16,384 B, 16,384 B | -, 28.1 % (blocks up to 1,024 B) |
//!
//! Measured 2026-11-23 at e4c49f7 by `cargo test -p rtalloc-lab --test command figures`.
//! <!-- end of figures -->

mod page;
mod verify;
#[cfg(test)]
mod white_box;

use crate::contract::{AllocError, Block, Contract, Corruption, LoopBound, Mechanism, MisuseKind, loop_bound};
use crate::mechanism::bits::{first_set, floor_log2};
use crate::mechanism::frame::{Frames, Shape};
use crate::mechanism::page::ring::{self, Node};
use crate::mechanism::page::{self as pages, Pool};
use crate::mechanism::policy_heap::{Policy, PolicyHeap, Served};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::stats::NoStats;
use crate::region::room_behind;
use core::marker::PhantomData;
use core::num::NonZeroUsize;
pub use page::BitframePage;
use page::{NO_CLASS, Page};

/// The thesis' page, in bytes.
pub const BITFRAME_PAGE: usize = 16 * 1024;

/// A bitframe heap with frames `F`, initialisation `I`, pages of `PAGE` bytes, `SIZES` chunk sizes from `QUANTUM` bytes
/// on, and statistics `T`.
pub type Bitframe<
    'r,
    F = Frames<8, 8, 0>,
    I = Lazy,
    const PAGE: usize = BITFRAME_PAGE,
    const QUANTUM: usize = { pages::QUANTUM },
    const SIZES: usize = 2,
    T = NoStats,
> = PolicyHeap<'r, BitframePolicy<F, I, PAGE, QUANTUM, SIZES>, T>;

/// When the frames of a page are initialised.
pub trait Initialisation: Sealed + Copy + core::fmt::Debug + 'static {
    /// Whether all at once.
    const EAGER: bool;
}

/// All frames when the page is taken (the thesis, 5.5).
#[derive(Clone, Copy, Debug)]
pub struct Eager;

impl Sealed for Eager {}

impl Initialisation for Eager {
    const EAGER: bool = true;
}

/// One frame at a time, on demand (the thesis, footnote 11): taking a page has constant cost.
#[derive(Clone, Copy, Debug)]
pub struct Lazy;

impl Sealed for Lazy {}

impl Initialisation for Lazy {
    const EAGER: bool = false;
}

/// A live block.
struct LiveBlock<F, const PAGE: usize, const QUANTUM: usize, const SIZES: usize> {
    page: Page<F, PAGE, QUANTUM, SIZES>,
    /// The frame in which it begins, and its first chunk there.
    frame: usize,
    place: usize,
    chunks: usize,
}

/// The policy of a [`Bitframe`] heap. The rings of pages (`size_class_lists`) follow it.
#[repr(C)]
#[derive(Debug)]
pub struct BitframePolicy<F, I, const PAGE: usize, const QUANTUM: usize, const SIZES: usize> {
    /// Which classes have a page: `size_class_bits`.
    class_bits: usize,
    pool: Pool<BitframePage, PAGE>,
    kind: PhantomData<(F, I)>,
}

impl<F, I, const PAGE: usize, const QUANTUM: usize, const SIZES: usize> Sealed
    for BitframePolicy<F, I, PAGE, QUANTUM, SIZES>
{
}

impl<F: Shape, I: Initialisation, const PAGE: usize, const QUANTUM: usize, const SIZES: usize>
    BitframePolicy<F, I, PAGE, QUANTUM, SIZES>
{
    /// Size classes: class `kind · longest + n - 1` is n chunks of a size.
    const CLASSES: usize = SIZES * F::LONGEST;
    /// Bytes of the heads of the rings.
    const HEADS_BYTES: usize = Self::CLASSES * size_of::<Node>();

    /// Address of the head of a class's ring.
    #[inline(always)]
    fn head(&self, class: usize) -> usize {
        room_behind(self).wrapping_add(class * size_of::<Node>())
    }

    /// The page whose ring node is at an address.
    #[inline(always)]
    fn page_at(address: usize) -> Page<F, PAGE, QUANTUM, SIZES> {
        Page::at(pages::Page::of(address))
    }

    /// Bytes of the chunk sequence that a request needs with chunks of a size: longer by the alignment if that is
    /// coarser than the chunks.
    #[inline(always)]
    fn sequence_bytes(size_bytes: usize, align_bytes: usize, chunk_log2: u32) -> usize {
        let excess_bytes = align_bytes.saturating_sub(1 << chunk_log2);
        size_bytes + excess_bytes
    }

    /// Size class of a page, or [`NO_CLASS`]: its longest free sequence is the highest set head bit.
    ///
    /// # Safety
    ///
    /// The page is in use.
    #[inline(always)]
    unsafe fn class_of(page: Page<F, PAGE, QUANTUM, SIZES>) -> u8 {
        // SAFETY: the page is in use, so its footer is initialised.
        let (head_bits, kind) = unsafe { ((*page.footer()).head_bits, (*page.footer()).kind) };
        match NonZeroUsize::new(usize::from(head_bits)) {
            Some(bits) => (usize::from(kind) * F::LONGEST) as u8 + floor_log2(bits) as u8,
            None => NO_CLASS,
        }
    }

    /// Takes a page out of the ring of its class.
    ///
    /// # Safety
    ///
    /// The page is in use.
    #[inline(always)]
    unsafe fn leave(&mut self, page: Page<F, PAGE, QUANTUM, SIZES>) {
        // SAFETY: the page is in use, and in the ring of its class if it has one.
        unsafe {
            let class = (*page.footer()).class;
            if class != NO_CLASS {
                ring::remove(page.footer().addr());
                let head = self.head(usize::from(class));
                self.class_bits &= !(usize::from(ring::next(head) == head) << class);
            }
        }
    }

    /// Moves a page whose frames changed to the ring of its class.
    ///
    /// # Safety
    ///
    /// The page is in use.
    #[inline(always)]
    unsafe fn settle(&mut self, page: Page<F, PAGE, QUANTUM, SIZES>) {
        // SAFETY: the page is in use, and still in the ring of its previous class, if it had one.
        unsafe {
            let class = Self::class_of(page);
            if class == (*page.footer()).class {
                return;
            }
            self.leave(page);
            (*page.footer()).class = class;
            if class != NO_CLASS {
                ring::insert_after(self.head(usize::from(class)), page.footer().addr());
                self.class_bits |= 1 << class;
            }
        }
    }

    /// Takes a page for chunks of a size, if there is one.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run.
    #[cold]
    #[inline(never)]
    unsafe fn open(&mut self, kind: usize) -> Option<Page<F, PAGE, QUANTUM, SIZES>> {
        // SAFETY: the policy owns the page that it takes, which has at least one frame.
        unsafe {
            let page: Page<F, PAGE, QUANTUM, SIZES> = Page::at(self.pool.take()?);
            page.begin(kind);
            page.start_frame();
            if I::EAGER {
                for _ in 1..Page::<F, PAGE, QUANTUM, SIZES>::frames_of(kind) {
                    loop_bound!(LoopBound::PageGranules { per_iteration: 8 });
                    page.start_frame();
                }
            }
            self.settle(page);
            Some(page)
        }
    }

    /// A page with a sequence of a class: of the class's chunk size, or a new one of that size, or with larger chunks.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run.
    #[inline(always)]
    unsafe fn page_for(&mut self, kind: usize, class: usize) -> Option<Page<F, PAGE, QUANTUM, SIZES>> {
        let above = self.class_bits & usize::MAX << class;
        let own = above & usize::MAX >> (usize::BITS as usize - (kind + 1) * F::LONGEST);
        let mut suited = own;
        if own == 0 {
            core::hint::cold_path();
            // SAFETY: `begin` has run, which the caller guarantees.
            if let Some(page) = unsafe { self.open(kind) } {
                return Some(page);
            }
            suited = above;
        }
        let class = first_set(NonZeroUsize::new(suited)?) as usize;
        // SAFETY: a class whose bit is set has a page in its ring.
        Some(Self::page_at(unsafe { ring::next(self.head(class)) }))
    }

    /// The live block at an address.
    ///
    /// # Errors
    ///
    /// The misuse that the address or the bits show.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run.
    #[inline(always)]
    unsafe fn live_block(&self, address: usize) -> Result<LiveBlock<F, PAGE, QUANTUM, SIZES>, MisuseKind> {
        if !self.pool.holds(address) || !address.is_multiple_of(QUANTUM) {
            return Err(MisuseKind::ForeignPointer);
        }
        let page = Self::page_at(address);
        // SAFETY: the page has been taken before, so it has a footer; frames below `started` are initialised.
        unsafe {
            let chunk_log2 = u32::from((*page.footer()).chunk_log2);
            let offset = address - page.start;
            let chunk = offset >> chunk_log2;
            let (index, place) = (chunk / F::CHUNKS, chunk % F::CHUNKS);
            if offset != chunk << chunk_log2 || chunk_log2 == 0 || index >= usize::from((*page.footer()).started) {
                return Err(MisuseKind::DoubleFree);
            }
            let frame = index + F::LONGEST;
            if page.starts(frame) >> place & 1 == 0 {
                return Err(match page.bits(frame) >> place & 1 {
                    0 => MisuseKind::DoubleFree,
                    _ => MisuseKind::ContradictoryTags,
                });
            }
            Ok(LiveBlock { page, frame, place, chunks: page.block_chunks(frame, place) })
        }
    }
}

// SAFETY: a block's chunks were free and are marked before the block is returned; chunks end before the frames.
unsafe impl<F: Shape, I: Initialisation, const PAGE: usize, const QUANTUM: usize, const SIZES: usize> Policy
    for BitframePolicy<F, I, PAGE, QUANTUM, SIZES>
{
    type Config = ();

    const CONTRACT: Contract = Contract {
        name: F::NAMES[I::EAGER as usize],
        source: "Bitframe thesis 2012, chapter 5",
        policy: F::POLICY,
        mechanism: Mechanism::BitmappedFit,
        largest_request_bytes: F::LONGEST << Page::<F, PAGE, QUANTUM, SIZES>::chunk_log2(SIZES - 1),
        largest_alignment_bytes: 1 << Page::<F, PAGE, QUANTUM, SIZES>::chunk_log2(SIZES - 1),
        coarsest_bytes: 1 << Page::<F, PAGE, QUANTUM, SIZES>::chunk_log2(SIZES - 1),
        largest_covers_smaller: true,
        ..pages::page_contract(PAGE, QUANTUM)
    };

    fn plan(start: usize, end: usize, (): ()) -> Option<Self> {
        const { Page::<F, PAGE, QUANTUM, SIZES>::VALID };
        let pool = Pool::plan(start.checked_add(Self::HEADS_BYTES)?, end)?;
        Some(BitframePolicy { class_bits: 0, pool, kind: PhantomData })
    }

    fn needed_bytes((): ()) -> usize {
        Self::HEADS_BYTES + Pool::<BitframePage, PAGE>::needed_bytes(1)
    }

    unsafe fn begin(&mut self) {
        for class in 0..Self::CLASSES {
            // SAFETY: the heads follow the policy, in its room.
            unsafe { ring::begin(self.head(class)) };
        }
    }

    #[inline(always)]
    fn limit(&self) -> usize {
        Self::CONTRACT.largest_request_bytes
    }

    #[inline(always)]
    fn origin(&self) -> usize {
        self.pool.first()
    }

    #[inline(always)]
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError> {
        let kind =
            Page::<F, PAGE, QUANTUM, SIZES>::kind_for(Self::sequence_bytes(size_bytes, align_bytes, QUANTUM.ilog2()));
        let chunk_log2 = Page::<F, PAGE, QUANTUM, SIZES>::chunk_log2(kind);
        let class = kind * F::LONGEST + ((Self::sequence_bytes(size_bytes, align_bytes, chunk_log2) - 1) >> chunk_log2);
        // SAFETY: `begin` has run. A page of the class has a non-empty list of frames with a sequence that suffices.
        unsafe {
            let page = self.page_for(kind, class).ok_or(AllocError::Exhausted)?;
            let chunk_log2 = u32::from((*page.footer()).chunk_log2);
            let need = (Self::sequence_bytes(size_bytes, align_bytes, chunk_log2) - 1) >> chunk_log2;
            let lists = usize::from((*page.footer()).head_bits) & usize::MAX << need;
            let list = first_set(NonZeroUsize::new_unchecked(lists)) as usize;
            let mut frame = usize::from((*page.frame(list)).next);
            let mut place = page.place(frame);
            let chunks = ((size_bytes - 1) >> chunk_log2) + 1;
            if align_bytes > 1 << chunk_log2 {
                // The first aligned chunk of the sequence, possibly in the next frame.
                let chunk = (frame - F::LONGEST) * F::CHUNKS + place;
                let chunks_less_one = (align_bytes >> chunk_log2).wrapping_sub(1);
                let aligned = (chunk + chunks_less_one) & !chunks_less_one;
                (frame, place) = (aligned / F::CHUNKS + F::LONGEST, aligned % F::CHUNKS);
            }
            page.mark(frame, place, chunks, true);
            page.start_frame_if_needed();
            self.settle(page);
            let chunk = (frame - F::LONGEST) * F::CHUNKS + place;
            Ok(Served { address: page.start + (chunk << chunk_log2), usable_bytes: chunks << chunk_log2 })
        }
    }

    #[inline(always)]
    unsafe fn release(&mut self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: `begin` has run, and `live_block` found the block live.
        unsafe {
            let LiveBlock { page, frame, place, chunks } = self.live_block(address)?;
            let usable_bytes = chunks << (*page.footer()).chunk_log2;
            page.mark(frame, place, chunks, false);
            if (*page.footer()).occupied == 0 {
                core::hint::cold_path();
                self.leave(page);
                (*page.footer()).chunk_log2 = 0;
                self.pool.release(pages::Page::of(page.start));
            } else {
                self.settle(page);
            }
            Ok(usable_bytes)
        }
    }

    #[inline(always)]
    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: `begin` has run, which the caller guarantees.
        unsafe { self.live_block(address).map(|block| block.chunks << (*block.page.footer()).chunk_log2) }
    }

    unsafe fn largest(&self) -> usize {
        if !self.pool.is_exhausted() {
            return self.limit();
        }
        let Some(bits) = NonZeroUsize::new(self.class_bits) else { return 0 };
        let class = floor_log2(bits) as usize;
        (class % F::LONGEST + 1) << Page::<F, PAGE, QUANTUM, SIZES>::chunk_log2(class / F::LONGEST)
    }

    unsafe fn walk(&self, visit: &mut dyn FnMut(Block)) {
        // SAFETY: `begin` has run, which the caller guarantees.
        unsafe { self.show_blocks(visit) }
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

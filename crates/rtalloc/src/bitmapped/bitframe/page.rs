//! A bitframe page: chunks, the frames that manage them, and lists of frames by their longest free sequence.
//!
//! ```text
//! page  [chunk 0][chunk 1] ... | unused | ... [frame H+1][frame H][head H-1] ... [head 0][footer]
//!                                              first of the page's ^    one head per length
//! ```
//!
//! Frames are numbered from the footer down, so that the place of a frame does not depend on their number. Numbers 0 to
//! H - 1 are dummy frames, the heads of circular lists: list n has the frames whose longest free sequence is n + 1
//! chunks. The links are 8 bits wide.

use crate::contract::{LoopBound, loop_bound};
use crate::mechanism::bits::{first_set, floor_log2};
use crate::mechanism::frame::Shape;
use crate::mechanism::page::ring::Node;
use crate::mechanism::page::{self as pages, Footer};
use crate::mechanism::sealed::Sealed;
use core::marker::PhantomData;
use core::num::NonZeroUsize;

/// No size class: the page is full.
pub(super) const NO_CLASS: u8 = u8::MAX;

/// A page's footer: the thesis' page header (5.3), at the page's end so that chunks are aligned. The addresses of its
/// frames and chunks follow from the page's address.
#[repr(C)]
#[derive(Debug)]
pub struct BitframePage {
    /// Links of the ring of pages of `class`, unless that is [`NO_CLASS`].
    pub(super) node: Node,
    /// The set of non-empty lists of frames.
    pub(super) head_bits: u16,
    /// log2 of the chunk size (`chunk_size_shift`); 0 while the page is not in use.
    pub(super) chunk_log2: u8,
    /// The index of that chunk size.
    pub(super) kind: u8,
    /// Number of initialised frames; the chunks of the others are free.
    pub(super) started: u8,
    /// Number of frames with an allocated chunk.
    pub(super) occupied: u8,
    /// Size class of the page, or [`NO_CLASS`].
    pub(super) class: u8,
}

impl Sealed for BitframePage {}

impl Footer for BitframePage {
    fn is_in_use(&self) -> bool {
        self.chunk_log2 != 0
    }
}

/// A bitframe (5.2): 4 bytes for 8 chunks, 6 for 16.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<W> {
    /// Allocated chunks.
    pub(super) bits: W,
    /// Last chunks of blocks: the termination bits. A subset of `bits`.
    pub(super) ends: W,
    pub(super) prev: u8,
    pub(super) next: u8,
}

/// A page in use, identified by its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<S, const PAGE: usize, const QUANTUM: usize, const SIZES: usize> {
    pub(super) start: usize,
    shape: PhantomData<S>,
}

impl<S: Shape, const PAGE: usize, const QUANTUM: usize, const SIZES: usize> Page<S, PAGE, QUANTUM, SIZES> {
    /// Dummy frames: one per length.
    pub(super) const HEADS: usize = S::LONGEST;
    /// Whether a frame's sequences reach into the next.
    const CROSSES: bool = S::AHEAD > 0;
    /// log2 of the factor between two chunk sizes.
    const STEP: u32 = S::LONGEST.ilog2();
    const ALL: u32 = (1 << S::CHUNKS) - 1;
    const FRAME_BYTES: usize = size_of::<Frame<S::Word>>();
    /// Address of frame 0 in a page.
    const FRAMES_END: usize = PAGE - size_of::<BitframePage>();

    pub(super) const VALID: () = {
        assert!(QUANTUM.is_power_of_two() && QUANTUM > 1, "a quantum is a power of two");
        assert!(S::LONGEST.is_power_of_two() && S::LONGEST <= S::CHUNKS && S::CHUNKS <= 16);
        assert!(
            S::AHEAD == 0 || S::AHEAD == S::LONGEST - 1,
            "a sequence that begins in a frame is seen whole, or not ahead"
        );
        assert!(SIZES >= 1 && SIZES * S::LONGEST <= usize::BITS as usize, "a word has a bit per size class");
        assert!(Self::frames(SIZES - 1) >= 1, "a page holds a frame of the largest chunks");
        assert!(
            Self::HEADS + Self::frames(0) + Self::CROSSES as usize <= 256,
            "links are 8 bits wide: the page is too large"
        );
    };

    pub(super) fn at(page: pages::Page<PAGE>) -> Self {
        Page { start: page.start(), shape: PhantomData }
    }

    /// log2 of a chunk size.
    #[inline(always)]
    pub(super) const fn chunk_log2(kind: usize) -> u32 {
        QUANTUM.ilog2() + kind as u32 * Self::STEP
    }

    /// The chunk size that serves a request best: the smallest one whose longest sequence is large enough.
    #[inline(always)]
    pub(super) fn kind_for(size_bytes: usize) -> usize {
        let quanta = (size_bytes - 1) >> QUANTUM.ilog2();
        // SAFETY: bit 0 is set, so the operand is not zero.
        let log2 = floor_log2(unsafe { NonZeroUsize::new_unchecked(quanta | 1) });
        ((log2 / Self::STEP) as usize).min(SIZES - 1)
    }

    /// Number of frames of a page with chunks of a size.
    #[inline(always)]
    pub(super) const fn frames(kind: usize) -> usize {
        // If sequences cross frames, an end frame follows the last one.
        let dummies = Self::HEADS + Self::CROSSES as usize;
        (Self::FRAMES_END - dummies * Self::FRAME_BYTES) / ((S::CHUNKS << Self::chunk_log2(kind)) + Self::FRAME_BYTES)
    }

    /// The page's footer.
    #[inline(always)]
    pub(super) fn footer(self) -> *mut BitframePage {
        core::ptr::with_exposed_provenance_mut(self.start + Self::FRAMES_END)
    }

    /// A frame; those below [`HEADS`](Self::HEADS) are dummies.
    #[inline(always)]
    pub(super) fn frame(self, number: usize) -> *mut Frame<S::Word> {
        core::ptr::with_exposed_provenance_mut(self.start + Self::FRAMES_END - (number + 1) * Self::FRAME_BYTES)
    }

    /// The allocated chunks of a frame.
    ///
    /// # Safety
    ///
    /// The page is in use; the frame is a dummy or initialised.
    #[inline(always)]
    pub(super) unsafe fn bits(self, frame: usize) -> u32 {
        // SAFETY: the page is in use, and the frame is a dummy or initialised.
        unsafe { (*self.frame(frame)).bits }.into()
    }

    /// The last chunks of blocks in a frame.
    ///
    /// # Safety
    ///
    /// As [`bits`](Self::bits).
    #[inline(always)]
    pub(super) unsafe fn ends(self, frame: usize) -> u32 {
        // SAFETY: the page is in use, and the frame is a dummy or initialised.
        unsafe { (*self.frame(frame)).ends }.into()
    }

    /// The allocated chunks of a frame, and of the part of the next frame that it can reach.
    ///
    /// # Safety
    ///
    /// As [`bits`](Self::bits), and the frame is not a dummy.
    #[inline(always)]
    unsafe fn seen_bits(self, frame: usize) -> u32 {
        // SAFETY: the frame is initialised, and the last initialised frame is followed by an end frame.
        unsafe { self.bits(frame) | if Self::CROSSES { self.bits(frame + 1) << S::CHUNKS } else { 0 } }
    }

    /// Length of the longest free sequence that begins in a frame.
    ///
    /// # Safety
    ///
    /// As [`seen_bits`](Self::seen_bits).
    #[inline(always)]
    pub(super) unsafe fn longest(self, frame: usize) -> usize {
        // SAFETY: the page is in use, and the frame is initialised and not a dummy.
        S::longest(unsafe { self.seen_bits(frame) })
    }

    /// The place in a frame where its longest free sequence begins.
    ///
    /// # Safety
    ///
    /// As [`seen_bits`](Self::seen_bits).
    #[inline(always)]
    pub(super) unsafe fn place(self, frame: usize) -> usize {
        // SAFETY: the page is in use, and the frame is initialised and not a dummy.
        S::place(unsafe { self.seen_bits(frame) })
    }

    /// Chunks of a frame at which a block begins: allocated, and after a free chunk, a last chunk, or none.
    ///
    /// # Safety
    ///
    /// As [`seen_bits`](Self::seen_bits).
    #[inline(always)]
    pub(super) unsafe fn starts(self, frame: usize) -> u32 {
        // SAFETY: the page is in use and the frame initialised. The frame before the first is an empty dummy.
        unsafe {
            let bits = self.bits(frame);
            let goes_on = bits & !self.ends(frame);
            let from_before =
                if Self::CROSSES { (self.bits(frame - 1) & !self.ends(frame - 1)) >> (S::CHUNKS - 1) } else { 0 };
            bits & !(goes_on << 1 | from_before)
        }
    }

    /// Number of chunks of the block that begins at a chunk of a frame, by a bit scan over the termination bits.
    ///
    /// # Safety
    ///
    /// As [`seen_bits`](Self::seen_bits), and a block begins there.
    #[inline(always)]
    pub(super) unsafe fn block_chunks(self, frame: usize, place: usize) -> usize {
        // SAFETY: the page is in use, the frame is initialised, and another frame or the end frame follows it.
        let ends = unsafe { self.ends(frame) | if Self::CROSSES { self.ends(frame + 1) << S::CHUNKS } else { 0 } };
        // SAFETY: the bit above all others is set, so the operand is not zero. It is the end in damaged pages.
        first_set(unsafe { NonZeroUsize::new_unchecked((ends >> place) as usize | 1 << S::LONGEST) }) as usize + 1
    }

    /// Links a frame in after the head of a list.
    ///
    /// # Safety
    ///
    /// The page is in use; the frame is in no list.
    #[inline(always)]
    unsafe fn link(self, frame: usize, list: usize) {
        // SAFETY: the page is in use, and heads and links lead to initialised frames.
        unsafe {
            let after = (*self.frame(list)).next;
            (*self.frame(frame)).prev = list as u8;
            (*self.frame(frame)).next = after;
            (*self.frame(after as usize)).prev = frame as u8;
            (*self.frame(list)).next = frame as u8;
            (*self.footer()).head_bits |= 1 << list;
        }
    }

    /// Takes a frame out of its list.
    ///
    /// # Safety
    ///
    /// The page is in use; the frame is in `list`.
    #[inline(always)]
    unsafe fn unlink(self, frame: usize, list: usize) {
        // SAFETY: the frame is in the list, whose links lead to initialised frames.
        unsafe {
            let Frame { prev, next, .. } = *self.frame(frame);
            (*self.frame(prev as usize)).next = next;
            (*self.frame(next as usize)).prev = prev;
            // If both links lead to the head, the frame was the only one.
            (*self.footer()).head_bits &= !(u16::from(prev == next && usize::from(prev) == list) << list);
        }
    }

    /// Moves a frame whose longest sequence was `before` to the list of its longest sequence now.
    ///
    /// # Safety
    ///
    /// The page is in use; the frame is in the list of `before`, or in none if that is 0.
    #[inline(always)]
    unsafe fn relist(self, frame: usize, before: usize) {
        // SAFETY: the page is in use, and the frame is in the list of `before`, or in none if that is 0.
        unsafe {
            let now = self.longest(frame);
            if now != before {
                if before != 0 {
                    self.unlink(frame, before - 1);
                }
                if now != 0 {
                    self.link(frame, now - 1);
                }
            }
        }
    }

    /// Initialises the heads, and the footer for chunks of a size, but no frame.
    ///
    /// # Safety
    ///
    /// The caller owns the page.
    #[inline(always)]
    pub(super) unsafe fn begin(self, kind: usize) {
        let none = S::word(0);
        for head in 0..Self::HEADS {
            loop_bound!(LoopBound::Fixed(16));
            // SAFETY: the caller owns the page, in which the heads lie.
            unsafe { self.frame(head).write(Frame { bits: none, ends: none, prev: head as u8, next: head as u8 }) };
        }
        // SAFETY: the caller owns the page, in which the footer lies.
        unsafe {
            self.footer().write(BitframePage {
                node: Node { prev: 0, next: 0 },
                head_bits: 0,
                chunk_log2: Self::chunk_log2(kind) as u8,
                kind: kind as u8,
                started: 0,
                occupied: 0,
                class: NO_CLASS,
            });
        }
    }

    /// Initialises the next frame, all of whose chunks are free.
    ///
    /// # Safety
    ///
    /// The page is in use, and not all of its frames are initialised.
    #[inline(always)]
    pub(super) unsafe fn start_frame(self) {
        // SAFETY: the frame, and the end frame after it, lie in the page.
        unsafe {
            let started = usize::from((*self.footer()).started);
            let frame = Self::HEADS + started;
            let follows_another = Self::CROSSES && started > 0;
            let before = if follows_another { self.longest(frame - 1) } else { 0 };
            self.frame(frame).write(Frame { bits: S::word(0), ends: S::word(0), prev: 0, next: 0 });
            if Self::CROSSES {
                let end = Frame { bits: S::word(Self::ALL), ends: S::word(Self::ALL), prev: 0, next: 0 };
                self.frame(frame + 1).write(end);
            }
            (*self.footer()).started = started as u8 + 1;
            self.link(frame, S::LONGEST - 1);
            if follows_another {
                self.relist(frame - 1, before);
            }
        }
    }

    /// Initialises another frame if no initialised frame is completely free and there is one left. So the lists need
    /// not contain uninitialised frames.
    ///
    /// # Safety
    ///
    /// The page is in use.
    #[inline(always)]
    pub(super) unsafe fn start_frame_if_needed(self) {
        // SAFETY: the page is in use, so its footer is initialised.
        unsafe {
            let footer = self.footer();
            let has_whole = (*footer).head_bits >> (S::LONGEST - 1) & 1 != 0;
            if !has_whole && usize::from((*footer).started) < Self::frames_of(usize::from((*footer).kind)) {
                self.start_frame();
            }
        }
    }

    /// Number of frames of a page with chunks of a size, from a table.
    #[inline(always)]
    pub(super) fn frames_of(kind: usize) -> usize {
        Self::FRAMES[kind % MAX_SIZES] as usize
    }

    const FRAMES: [u8; MAX_SIZES] = {
        let mut frames = [0; MAX_SIZES];
        let mut kind = 0;
        while kind < SIZES {
            frames[kind] = Self::frames(kind) as u8;
            kind += 1;
        }
        frames
    };

    /// Marks `chunks` chunks from a place in a frame as a block, or as free again, and moves the frames whose longest
    /// sequence changed.
    ///
    /// ```text
    /// bits 0 0 1 1 0 1 1 1   ends 0 0 1 0 0 1 0 0   <->   bits 0 0 1 1 0 0 0 0   ends 0 0 1 0 0 0 0 0
    ///                ^ place                                 (rightmost: chunk 0 of a block of 3)
    /// ```
    ///
    /// # Safety
    ///
    /// The page is in use, and the chunks are free if `is_live`, otherwise a block.
    #[inline(always)]
    pub(super) unsafe fn mark(self, frame: usize, place: usize, chunks: usize, is_live: bool) {
        let mask = ((1u32 << chunks) - 1) << place;
        let end = 1u32 << (place + chunks - 1);
        // SAFETY: the page is in use; only initialised frames are accessed, and the end frame after them.
        unsafe {
            let started = usize::from((*self.footer()).started);
            let (has_before, has_after) =
                (Self::CROSSES && frame > Self::HEADS, Self::CROSSES && frame + 1 < Self::HEADS + started);
            let before = if has_before { self.longest(frame - 1) } else { 0 };
            let here = self.longest(frame);
            let after = if has_after { self.longest(frame + 1) } else { 0 };
            self.change(frame, mask & Self::ALL, end & Self::ALL, is_live);
            if has_after {
                self.change(frame + 1, mask >> S::CHUNKS, end >> S::CHUNKS, is_live);
                self.relist(frame + 1, after);
            }
            self.relist(frame, here);
            if has_before {
                self.relist(frame - 1, before);
            }
        }
    }

    /// Sets or clears bits of one frame, and updates the number of frames with an allocated chunk.
    ///
    /// # Safety
    ///
    /// As [`mark`](Self::mark).
    #[inline(always)]
    unsafe fn change(self, frame: usize, mask: u32, end: u32, is_live: bool) {
        // SAFETY: the page is in use, and the frame is initialised.
        unsafe {
            let (bits, ends) = (self.bits(frame), self.ends(frame));
            let now = if is_live { bits | mask } else { bits & !mask };
            (*self.frame(frame)).bits = S::word(now);
            (*self.frame(frame)).ends = S::word(if is_live { ends | end } else { ends & !end });
            let change = u8::from(now != 0).wrapping_sub(u8::from(bits != 0));
            (*self.footer()).occupied = (*self.footer()).occupied.wrapping_add(change);
        }
    }
}

/// Largest number of chunk sizes, a power of two.
const MAX_SIZES: usize = 32;

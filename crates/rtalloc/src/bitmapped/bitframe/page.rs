//! A bitframe page: chunks, the frames that manage them, and lists of frames by their longest free sequence.
//!
//! ```text
//! page  [chunk 0][chunk 1] ... | unused | ... [frame H+1][frame H][head H-1] ... [head 0][footer]
//!                                              first of the page's ^    one head per length
//! ```
//!
//! Frames are numbered from the footer down, so that a frame's place does not depend on how many there are. The numbers 0
//! to H - 1 are dummy frames: the heads of circular lists, of which list n has the frames whose longest free sequence is
//! n + 1 chunks. The links are 8 bits wide.

use crate::mechanism::bits::{first_set, floor_log2};
use crate::mechanism::frame::Shape;
use crate::mechanism::page::Footer;
use crate::mechanism::page::ring::Node;
use crate::mechanism::sealed::Sealed;
use core::marker::PhantomData;
use core::num::NonZeroUsize;

/// No size class: the page is full.
pub(super) const NO_CLASS: u8 = u8::MAX;

/// What a page knows about itself: the thesis' page header (5.3), at the page's end so that chunks are aligned. Where its
/// frames and chunks are follows from the page's address.
#[repr(C)]
#[derive(Debug)]
pub struct BitframePage {
    /// In the ring of pages of `class`, unless that is none.
    pub(super) node: Node,
    /// Which lists of frames have members.
    pub(super) head_bits: u16,
    /// log2 of the chunk size (`chunk_size_shift`); 0 while the page is not in use.
    pub(super) chunk_log2: u8,
    /// Which of the chunk sizes that is.
    pub(super) kind: u8,
    /// Frames that were initialised; those behind them are free.
    pub(super) started: u8,
    /// Frames with an allocated chunk.
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

/// A page in use, by its address.
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

    pub(super) fn at(start: usize) -> Self {
        Page { start, shape: PhantomData }
    }

    /// log2 of a chunk size.
    #[inline(always)]
    pub(super) const fn chunk_log2(kind: usize) -> u32 {
        QUANTUM.ilog2() + kind as u32 * Self::STEP
    }

    /// Which chunk size serves a request best: the smallest of which the longest sequence is large enough.
    #[inline(always)]
    pub(super) fn kind_for(size_bytes: usize) -> usize {
        let quanta = (size_bytes - 1) >> QUANTUM.ilog2();
        // SAFETY: a bit is set.
        let log2 = floor_log2(unsafe { NonZeroUsize::new_unchecked(quanta | 1) });
        ((log2 / Self::STEP) as usize).min(SIZES - 1)
    }

    /// Frames of a page with chunks of a size.
    pub(super) const fn frames(kind: usize) -> usize {
        // A frame that marks the end stands behind the last where sequences cross.
        let dummies = Self::HEADS + Self::CROSSES as usize;
        (Self::FRAMES_END - dummies * Self::FRAME_BYTES) / ((S::CHUNKS << Self::chunk_log2(kind)) + Self::FRAME_BYTES)
    }

    /// The page's footer.
    #[inline(always)]
    pub(super) fn footer(self) -> *mut BitframePage {
        core::ptr::with_exposed_provenance_mut(self.start + Self::FRAMES_END)
    }

    /// A frame, a dummy one below [`HEADS`](Self::HEADS).
    #[inline(always)]
    pub(super) fn frame(self, number: usize) -> *mut Frame<S::Word> {
        core::ptr::with_exposed_provenance_mut(self.start + Self::FRAMES_END - (number + 1) * Self::FRAME_BYTES)
    }

    /// The allocated chunks of a frame.
    ///
    /// # Safety
    ///
    /// The page is in use; the frame is a dummy, or was initialised.
    #[inline(always)]
    pub(super) unsafe fn bits(self, frame: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { (*self.frame(frame)).bits }.into()
    }

    /// The last chunks of blocks in a frame.
    ///
    /// # Safety
    ///
    /// As [`bits`](Self::bits).
    #[inline(always)]
    pub(super) unsafe fn ends(self, frame: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { (*self.frame(frame)).ends }.into()
    }

    /// The allocated chunks of a frame and of what it sees of the next one.
    ///
    /// # Safety
    ///
    /// As [`bits`](Self::bits), and the frame is no dummy.
    #[inline(always)]
    unsafe fn seen_bits(self, frame: usize) -> u32 {
        // SAFETY: behind the last frame that was initialised stands one that marks the end.
        unsafe { self.bits(frame) | if Self::CROSSES { self.bits(frame + 1) << S::CHUNKS } else { 0 } }
    }

    /// Length of the longest free sequence that begins in a frame.
    ///
    /// # Safety
    ///
    /// As [`seen_bits`](Self::seen_bits).
    #[inline(always)]
    pub(super) unsafe fn longest(self, frame: usize) -> usize {
        // SAFETY: the caller's promise.
        S::longest(unsafe { self.seen_bits(frame) })
    }

    /// Where the longest free sequence that begins in a frame does.
    ///
    /// # Safety
    ///
    /// As [`seen_bits`](Self::seen_bits).
    #[inline(always)]
    pub(super) unsafe fn place(self, frame: usize) -> usize {
        // SAFETY: the caller's promise.
        S::place(unsafe { self.seen_bits(frame) })
    }

    /// Chunks of a frame at which a block begins: allocated, and behind a free one, a last one, or none.
    ///
    /// # Safety
    ///
    /// As [`seen_bits`](Self::seen_bits).
    #[inline(always)]
    pub(super) unsafe fn starts(self, frame: usize) -> u32 {
        // SAFETY: the caller's promise; the frame in front of the first is a dummy, with no chunk allocated.
        unsafe {
            let bits = self.bits(frame);
            let goes_on = bits & !self.ends(frame);
            let from_before =
                if Self::CROSSES { (self.bits(frame - 1) & !self.ends(frame - 1)) >> (S::CHUNKS - 1) } else { 0 };
            bits & !(goes_on << 1 | from_before)
        }
    }

    /// Chunks of the block that begins at a chunk of a frame, by a bit scan over the termination bits.
    ///
    /// # Safety
    ///
    /// As [`seen_bits`](Self::seen_bits), and a block begins there.
    #[inline(always)]
    pub(super) unsafe fn block_chunks(self, frame: usize, place: usize) -> usize {
        // SAFETY: the caller's promise.
        let ends = unsafe { self.ends(frame) | if Self::CROSSES { self.ends(frame + 1) << S::CHUNKS } else { 0 } };
        // SAFETY: a block ends somewhere; the bit above all of them is for pages that were written over.
        first_set(unsafe { NonZeroUsize::new_unchecked((ends >> place) as usize | 1 << S::LONGEST) }) as usize + 1
    }

    /// Links a frame in behind the head of a list.
    ///
    /// # Safety
    ///
    /// The page is in use; the frame is in no list.
    #[inline(always)]
    unsafe fn link(self, frame: usize, list: usize) {
        // SAFETY: heads and links lead to frames that were initialised.
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
    /// The page is in use; the frame is in that list.
    #[inline(always)]
    unsafe fn unlink(self, frame: usize, list: usize) {
        // SAFETY: links lead to frames that were initialised.
        unsafe {
            let Frame { prev, next, .. } = *self.frame(frame);
            (*self.frame(prev as usize)).next = next;
            (*self.frame(next as usize)).prev = prev;
            // Both links lead to the head: the frame was the last one.
            (*self.footer()).head_bits &= !(u16::from(prev == next && usize::from(prev) == list) << list);
        }
    }

    /// Moves a frame whose longest sequence was `before` to the list of what it is now.
    ///
    /// # Safety
    ///
    /// The page is in use; the frame is in the list of `before`, or in none if that is 0.
    #[inline(always)]
    unsafe fn relist(self, frame: usize, before: usize) {
        // SAFETY: the caller's promise.
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

    /// Initialises the heads, and the footer for chunks of a size; no frame yet.
    ///
    /// # Safety
    ///
    /// The page is the caller's.
    #[inline(always)]
    pub(super) unsafe fn begin(self, kind: usize) {
        let none = S::word(0);
        // turns: 16
        for head in 0..Self::HEADS {
            // SAFETY: the page is the caller's.
            unsafe { self.frame(head).write(Frame { bits: none, ends: none, prev: head as u8, next: head as u8 }) };
        }
        // SAFETY: as above.
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
    /// The page is in use, and not all its frames were initialised.
    #[inline(always)]
    pub(super) unsafe fn start_frame(self) {
        // SAFETY: the frame, and the one behind it that marks the end, are the page's.
        unsafe {
            let started = usize::from((*self.footer()).started);
            let frame = Self::HEADS + started;
            let is_behind_another = Self::CROSSES && started > 0;
            let before = if is_behind_another { self.longest(frame - 1) } else { 0 };
            self.frame(frame).write(Frame { bits: S::word(0), ends: S::word(0), prev: 0, next: 0 });
            if Self::CROSSES {
                let end = Frame { bits: S::word(Self::ALL), ends: S::word(Self::ALL), prev: 0, next: 0 };
                self.frame(frame + 1).write(end);
            }
            (*self.footer()).started = started as u8 + 1;
            self.link(frame, S::LONGEST - 1);
            if is_behind_another {
                self.relist(frame - 1, before);
            }
        }
    }

    /// Initialises another frame if none that was has all its chunks in a row and one was not: so lists need not know of
    /// frames to come.
    ///
    /// # Safety
    ///
    /// The page is in use.
    #[inline(always)]
    pub(super) unsafe fn start_frame_if_needed(self) {
        // SAFETY: the page is in use.
        unsafe {
            let footer = self.footer();
            let has_whole = (*footer).head_bits >> (S::LONGEST - 1) & 1 != 0;
            if !has_whole && usize::from((*footer).started) < Self::frames_of(usize::from((*footer).kind)) {
                self.start_frame();
            }
        }
    }

    /// Frames of a page with chunks of a size, from a table.
    #[inline(always)]
    pub(super) fn frames_of(kind: usize) -> usize {
        Self::FRAMES[kind % MOST_SIZES] as usize
    }

    const FRAMES: [u8; MOST_SIZES] = {
        let mut frames = [0; MOST_SIZES];
        let mut kind = 0;
        while kind < SIZES {
            frames[kind] = Self::frames(kind) as u8;
            kind += 1;
        }
        frames
    };

    /// Marks `chunks` chunks from a place in a frame on as a block, or as free again, and moves the frames whose longest
    /// sequence changed.
    ///
    /// ```text
    /// bits 0 0 1 1 0 1 1 1   ends 0 0 1 0 0 1 0 0   <->   bits 0 0 1 1 0 0 0 0   ends 0 0 1 0 0 0 0 0
    ///                ^ place                                 (rightmost: chunk 0 of a block of 3)
    /// ```
    ///
    /// # Safety
    ///
    /// The page is in use, and the chunks are free, or the block is there.
    #[inline(always)]
    pub(super) unsafe fn mark(self, frame: usize, place: usize, chunks: usize, is_live: bool) {
        let mask = ((1u32 << chunks) - 1) << place;
        let end = 1u32 << (place + chunks - 1);
        // SAFETY: frames that were initialised, and the one that marks the end behind them.
        unsafe {
            let started = usize::from((*self.footer()).started);
            let (has_before, has_behind) =
                (Self::CROSSES && frame > Self::HEADS, Self::CROSSES && frame + 1 < Self::HEADS + started);
            let before = if has_before { self.longest(frame - 1) } else { 0 };
            let here = self.longest(frame);
            let behind = if has_behind { self.longest(frame + 1) } else { 0 };
            self.change(frame, mask & Self::ALL, end & Self::ALL, is_live);
            if has_behind {
                self.change(frame + 1, mask >> S::CHUNKS, end >> S::CHUNKS, is_live);
                self.relist(frame + 1, behind);
            }
            self.relist(frame, here);
            if has_before {
                self.relist(frame - 1, before);
            }
        }
    }

    /// Sets or clears bits of one frame, and counts the frames with a chunk allocated.
    ///
    /// # Safety
    ///
    /// As [`mark`](Self::mark).
    #[inline(always)]
    unsafe fn change(self, frame: usize, mask: u32, end: u32, is_live: bool) {
        // SAFETY: the caller's promise.
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

/// Chunk sizes there are at most, a power of two.
const MOST_SIZES: usize = 32;

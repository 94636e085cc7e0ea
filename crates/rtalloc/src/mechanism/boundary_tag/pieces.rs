//! A tag heap whose memory comes in pieces.
//!
//! A piece is a region without a record. Its first block has its header at the end of the first granule, and the
//! sentinel's header is its last word: as blocks are of whole granules, it loses one granule.
//!
//! ```text
//! piece  [unused, header][first block ...][header 0]
//! ```

use super::{Front, Header, Named, TagHeap, index_word_at, sentinels_at};
use crate::arithmetic::rounded_up;
use crate::contract::{AllocError, Block, Corruption, InPieces, InitError, Pieces, RegionAllocator};
use crate::mechanism::bits::{computed, sum_with};
use crate::mechanism::memory::Offset;
use crate::mechanism::stats::StatsPolicy;
use crate::mechanism::validation::Validation;
use crate::mechanism::word::Width;
use crate::region::{Region, round_up};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

impl<I: Named<W>, W: Width, T: StatsPolicy, G: Validation> TagHeap<'_, I, W, T, G> {
    /// The first block of a piece, and its sentinel.
    #[inline(always)]
    fn ends(&self, piece: &Range<usize>) -> (Offset, Offset) {
        (self.memory().offset(piece.start).up(W::GRANULE), self.memory().offset(piece.end))
    }
}

// SAFETY: a piece is tagged like a region, and pieces never coalesce: each ends with a live sentinel, and the PREV_FREE
// flag of its first block is never set. What the queries of `Observable` read beside tags is the same in all heaps of
// a span: it is never written again.
unsafe impl<'r, I: Named<W>, W: Width, T: StatsPolicy + Send, G: Validation> InPieces<'r> for TagHeap<'r, I, W, T, G> {
    const OVERHEAD_BYTES: usize = W::GRANULE;

    fn bytes_without_pieces(piece_bytes: usize) -> usize {
        let front_bytes = rounded_up(Self::front_bytes(), Self::BASE_ALIGN);
        front_bytes + I::bytes(piece_bytes.saturating_sub(W::GRANULE).max(I::MIN_BLOCK))
    }

    unsafe fn without_pieces(
        control: &'r mut [MaybeUninit<u8>],
        span: Range<usize>,
        piece_bytes: usize,
    ) -> Result<Self, InitError> {
        let max_block = piece_bytes.saturating_sub(W::GRANULE).max(I::MIN_BLOCK);
        let needed_bytes = Self::BASE_ALIGN - 1 + Self::front_bytes() + I::bytes(max_block);
        let too_small = InitError::TooSmall { needed_bytes };
        let start = control.as_ptr().addr();
        let base = start.checked_add(Self::front_bytes()).and_then(|base| round_up(base, Self::BASE_ALIGN));
        let base = base.ok_or(too_small)?;
        let room = (start + control.len()).checked_sub(base).ok_or(too_small)?;
        if room < I::bytes(max_block) {
            return Err(too_small);
        }
        if span.end.checked_sub(base).is_none_or(|reach| reach > W::MAX) {
            return Err(InitError::OutOfReach { max_span_bytes: W::MAX });
        }
        let _control = Region::new(control);
        let base = NonNull::new(core::ptr::with_exposed_provenance_mut(base)).ok_or(too_small)?;
        let heap = TagHeap { base, regions: PhantomData, kind: PhantomData };
        let memory = heap.memory();
        let first_address = span.start.wrapping_add(W::GRANULE);
        // SAFETY: the front and the index lie in `control`. They are aligned, because the base is a multiple of
        // BASE_ALIGN and whole `usize`s precede it.
        unsafe {
            heap.front().write(Front {
                limit: max_block - W::BYTES,
                span: memory.offset(span.end),
                first_address,
                block_units: span.end.wrapping_sub(first_address) / Self::UNIT_BYTES,
                stats: T::default(),
            });
            memory.store_bits(Offset::BASE.down(size_of::<usize>()), 0);
            memory.store_bits(index_word_at::<W>(), 0);
            memory.store_bits(sentinels_at::<W>(), Offset::BASE.bytes());
            I::init(memory, max_block);
        }
        Ok(heap)
    }

    #[inline(always)]
    fn piece_bytes(size_bytes: usize, align_bytes: usize) -> Option<usize> {
        // So that nothing below overflows, nor exceeds what a class can be computed for.
        let is_small = size_bytes.wrapping_sub(1) < W::MAX / 4 && align_bytes <= W::MAX / 4;
        is_small.then(|| {
            let last = Self::last_byte(size_bytes);
            let is_aligned = align_bytes > W::GRANULE;
            let (gap, least) =
                if is_aligned { (Self::most_gap(align_bytes), align_bytes + W::GRANULE) } else { (0, 0) };
            I::found(last + gap).max(least) + W::GRANULE
        })
    }

    #[inline(always)]
    unsafe fn lend(&mut self, piece: Range<usize>, size_bytes: usize, align_bytes: usize) -> NonNull<u8> {
        let memory = self.memory();
        let (first, sentinel) = self.ends(&piece);
        let (size, last) = (sentinel.bytes_from(first), Self::last_byte(size_bytes));
        // SAFETY: the piece is the heap's from now on: one free block in no list, long enough, before the sentinel.
        unsafe {
            self.set_header(sentinel, Header::live(0, true));
            let mut summary = I::load(memory);
            let block = if align_bytes > W::GRANULE {
                self.hand_out_aligned(&mut summary, first, size, last, align_bytes, I::NOWHERE)
            } else {
                self.hand_out(&mut summary, first, size, I::granted(last), I::NOWHERE, false);
                first
            };
            I::store(memory, summary);
            memory.pointer(block)
        }
    }

    #[inline(always)]
    fn allocate_inlined(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        if align_bytes > W::GRANULE {
            return self.by_value().serve_aligned_inlined(size_bytes, align_bytes).into();
        }
        self.allocate_bytes(size_bytes, align_bytes)
    }

    unsafe fn is_empty(&self, piece: Range<usize>) -> bool {
        let (first, sentinel) = self.ends(&piece);
        // SAFETY: the piece is the heap's, so it begins with a block.
        let header = unsafe { self.header(first) };
        !header.is_live() && header.free_size() == sentinel.bytes_from(first)
    }

    unsafe fn withdraw(&mut self, piece: Range<usize>) {
        let memory = self.memory();
        let (first, _) = self.ends(&piece);
        // SAFETY: the piece is empty, so its only block is free and in the index.
        unsafe {
            let mut summary = I::load(memory);
            I::remove(memory, &mut summary, first);
            I::store(memory, summary);
        }
    }

    #[inline(always)]
    unsafe fn deallocate_in_piece(
        &mut self,
        block: NonNull<u8>,
        may_be_piece: impl FnOnce(&Range<usize>) -> bool,
    ) -> Option<Range<usize>> {
        let memory = self.memory();
        let begin = |first: Offset| sum_with!(memory.address(Offset::BASE), first.bytes(), -(W::GRANULE as isize));
        let leaves = |first: Offset, end: Offset| may_be_piece(&(begin(first)..memory.address(end)));
        match self.by_value().try_release(block.addr().get(), true, leaves) {
            Ok(left) => left.map(|(first, size)| {
                // Not computed again from the ends.
                let size = computed(size as u64) as usize;
                begin(first)..begin(first).wrapping_add(size.wrapping_add(W::GRANULE))
            }),
            Err(address) => {
                self.by_value().report_misuse(address);
                None
            }
        }
    }

    #[inline(always)]
    unsafe fn put_back(&mut self, left: Range<usize>) {
        let memory = self.memory();
        let (first, end) = self.ends(&left);
        // SAFETY: the memory has the tags of a free block, lies between two live blocks or a piece's ends, and is in no
        // list. The header after it says that the block before is free.
        unsafe {
            let mut summary = I::load(memory);
            I::insert(memory, &mut summary, first, end.bytes_from(first), I::NOWHERE);
            I::store(memory, summary);
        }
    }

    unsafe fn walk_piece(&self, piece: Range<usize>, visitor: &mut dyn FnMut(Block)) {
        let (first, sentinel) = self.ends(&piece);
        self.visit_between(first, sentinel, visitor);
    }

    unsafe fn check_pieces(&self, pieces: &Pieces<'_>) -> Result<(), Corruption> {
        self.verify_regions(&|visit| {
            pieces(&mut |piece| {
                let (first, sentinel) = self.ends(&piece);
                visit(first, sentinel);
            });
        })
    }

    fn fingerprint_of_index(&self, word: &mut dyn FnMut(usize)) {
        self.emit_index(word);
    }
}

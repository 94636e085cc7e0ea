//! The division of a region: what precedes the chunks, and whom each chunk belongs to.

use super::pool::{MAX_CHUNKS, WORD_CHUNKS};
use super::remote_queue::RemoteQueue;
use super::{
    Control, LEAST_CHOSEN_WORDS, MIN_CHUNK_BYTES, MOST_CHOSEN_WORDS, PIECE_CHUNKS, Place, PooledArenas,
    PooledArenasConfig,
};
use crate::arithmetic::rounded_up;
use crate::concurrent::LINE_BYTES;
use crate::concurrent::atomics::Atomics;
use crate::contract::InPieces;
use crate::region::round_up;
use core::ops::Range;

/// What is fixed when the heap is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Address of the first chunk, a multiple of its length.
    pub(super) start: usize,
    pub(super) chunks: usize,
    pub(super) chunk_log2: u32,
    /// Bytes of a chunk, minus 1.
    pub(super) chunk_mask: usize,
    /// Words of the pool.
    pub(super) words: u32,
    /// Address of the chunks' entries.
    pub(super) entries: usize,
    /// Address of the pool.
    pub(super) pool: usize,
    pub(super) slots: usize,
    pub(super) reclaim_budget: usize,
    /// Bytes of one producer's queues, whole cache lines.
    pub(super) row_bytes: usize,
    /// Address of the first queue.
    pub(super) queues: usize,
}

impl Plan {
    #[inline(always)]
    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk_mask + 1
    }

    /// Whether a chunk may begin at an address: chunks are aligned to their length.
    #[inline(always)]
    pub(super) fn is_start(&self, address: usize) -> bool {
        address & self.chunk_mask == 0
    }

    /// Bytes of so many chunks.
    #[inline(always)]
    pub(super) fn bytes_of(&self, chunks: usize) -> usize {
        chunks.wrapping_shl(self.chunk_log2)
    }

    /// How many chunks have so many bytes.
    #[inline(always)]
    pub(super) fn chunks_for(&self, bytes: usize) -> usize {
        (bytes.wrapping_sub(1) >> self.chunk_log2).wrapping_add(1)
    }

    /// Chunks of a piece for a block that needs so many bytes, or `length` chunks: where it fills less than two thirds of
    /// them, as many as several such blocks fill better. (Of blocks up to half a chunk, a chunk has several anyway.)
    ///
    /// | chunks that the block fills | chunks of the piece | such blocks in it |
    /// |---|---|---|
    /// | 1/2 to 7/12 | 4 | 6 or 7 |
    /// | 7/12 to 2/3 | 2 | 3 |
    /// | 1 to 4/3 | 4 | 3 |
    #[inline(always)]
    pub(super) fn piece_for(&self, bytes: usize, length: usize) -> usize {
        const { assert!(PIECE_CHUNKS == 4) };
        /// A digit for each twelfth of a chunk, from the seventh on.
        const CHUNKS: u64 = 0x44_4411_1124;
        // If the product overflows, the piece has another number of chunks, from 1 to 4.
        let twelfth = (bytes.wrapping_mul(12).wrapping_sub(1) >> self.chunk_log2).wrapping_sub(6);
        if twelfth < 10 { (CHUNKS >> (4 * twelfth)) as usize & 7 } else { length }
    }

    /// The chunk at an address, if there is one.
    #[inline(always)]
    pub(super) fn chunk_at(&self, address: usize) -> Option<usize> {
        let chunk = address.wrapping_sub(self.start) >> self.chunk_log2;
        (chunk < self.chunks).then_some(chunk)
    }

    /// Address of a chunk.
    #[inline(always)]
    pub(super) fn address_of(&self, chunk: usize) -> usize {
        self.start.wrapping_add(self.bytes_of(chunk))
    }

    /// The memory of a run of chunks.
    #[inline(always)]
    pub(super) fn range(&self, first: usize, run: usize) -> Range<usize> {
        self.address_of(first)..self.address_of(first.wrapping_add(run))
    }

    /// Entries in whole cache lines: those after the last chunk's are empty.
    pub(super) fn entries(&self) -> usize {
        rounded_up(self.chunks, LINE_BYTES / size_of::<u32>())
    }

    /// Chunks of the longest piece.
    #[inline(always)]
    pub(super) fn piece_chunks(&self) -> usize {
        self.chunks.min(PIECE_CHUNKS)
    }
}

/// Whom a chunk belongs to, in one word:
///
/// ```text
/// [0   | 0        ]     the pool; or it is inside of a long block
/// [run | slot + 1 ]     the first chunk of a piece of that slot's heap; the others have a run of 0
/// [run | LONG     ]     the first chunk of a long block
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u32);

impl Entry {
    pub(super) const NONE: Entry = Entry(0);
    /// The owner of long blocks.
    pub(super) const LONG: u32 = 0xFFFF;

    #[inline(always)]
    pub(super) const fn first(owner: u32, run: usize) -> Self {
        Entry(owner | (run as u32) << 16)
    }

    /// Whether this equals [`first`](Self::first) of these. Needs fewer registers than `==`.
    #[inline(always)]
    pub(super) const fn is_first(self, owner: u32, run: usize) -> bool {
        self.0.wrapping_sub(owner).rotate_right(16) as usize == run
    }

    /// The run, if this is the owner. Needs fewer instructions than [`owner`](Self::owner) and [`run`](Self::run).
    #[inline(always)]
    pub(super) const fn run_of(self, owner: u32) -> Option<usize> {
        let rest = self.0.wrapping_sub(owner);
        if rest == 0 {
            Some(0)
        } else if rest & 0xFFFF == 0 {
            Some((rest >> 16) as usize)
        } else {
            None
        }
    }

    #[inline(always)]
    pub(super) const fn owner(self) -> u32 {
        self.0 & 0xFFFF
    }

    #[inline(always)]
    pub(super) const fn run(self) -> usize {
        (self.0 >> 16) as usize
    }
}

/// The division of a region, from its control structure on: lengths in bytes.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) row_bytes: usize,
    /// Before the queues.
    pub(super) places_bytes: usize,
    pub(super) queues_bytes: usize,
    pub(super) words: usize,
    pub(super) entries_bytes: usize,
    /// Of the control structure of one heap, whole cache lines.
    pub(super) heap_bytes: usize,
    /// Of all of these.
    pub(super) front_bytes: usize,
}

impl Layout {
    /// The plan with its numbers of slots and chunks, whose control structure is at this address.
    pub(super) fn plan(&self, control: usize, chunk_bytes: usize, numbers: &Plan) -> Option<Plan> {
        let front_end = control.checked_add(self.front_bytes)?;
        let queues = control.wrapping_add(self.places_bytes);
        let heaps = front_end.wrapping_sub(numbers.slots.wrapping_mul(self.heap_bytes));
        Some(Plan {
            start: round_up(front_end, chunk_bytes)?,
            words: self.words as u32,
            entries: heaps.wrapping_sub(self.entries_bytes),
            pool: queues.wrapping_add(self.queues_bytes),
            row_bytes: self.row_bytes,
            queues,
            ..*numbers
        })
    }
}

impl<'r, H: InPieces<'r>, A: Atomics> PooledArenas<'r, H, A> {
    /// Bytes of a chunk in a region of this length.
    pub fn chunk_bytes(len_bytes: usize, config: &PooledArenasConfig) -> usize {
        if config.chunk_bytes != 0 {
            return config.chunk_bytes;
        }
        let words = config.slots.clamp(LEAST_CHOSEN_WORDS, MOST_CHOSEN_WORDS);
        let least = len_bytes.div_ceil(words * WORD_CHUNKS + 1);
        if least > MIN_CHUNK_BYTES { least.next_power_of_two() } else { MIN_CHUNK_BYTES }
    }

    /// The most words that the pool of a region of this length has.
    pub fn max_words(region_bytes: usize, config: &PooledArenasConfig) -> usize {
        (region_bytes / Self::chunk_bytes(region_bytes, config)).div_ceil(WORD_CHUNKS)
    }

    /// The layout of what precedes so many chunks; `None` beyond the address space.
    pub(super) fn layout(chunks: usize, chunk_bytes: usize, slots: usize) -> Option<Layout> {
        let piece_bytes = chunk_bytes.checked_mul(chunks.min(PIECE_CHUNKS))?;
        let row_bytes = round_up(slots.checked_mul(size_of::<RemoteQueue<A>>())?, LINE_BYTES)?;
        let places_bytes = size_of::<Control<A>>().checked_add(slots.checked_mul(size_of::<Place<H, A>>())?)?;
        let queues_bytes = slots.checked_mul(row_bytes)?;
        let words = chunks.div_ceil(WORD_CHUNKS);
        let pool_bytes = round_up(words * size_of::<usize>(), LINE_BYTES)?;
        let entries_bytes = round_up(chunks * size_of::<u32>(), LINE_BYTES)?;
        let heap_bytes = round_up(H::bytes_without_pieces(piece_bytes), LINE_BYTES)?;
        let front_bytes = places_bytes
            .checked_add(queues_bytes)?
            .checked_add(pool_bytes)?
            .checked_add(entries_bytes)?
            .checked_add(slots.checked_mul(heap_bytes)?)?;
        Some(Layout { row_bytes, places_bytes, queues_bytes, words, entries_bytes, heap_bytes, front_bytes })
    }

    /// Length of a region that suffices for one chunk, for any start address.
    pub(super) fn needed_bytes(config: &PooledArenasConfig) -> usize {
        let needed_with = |chunk_bytes: usize| {
            let layout = Self::layout(1, chunk_bytes, config.slots)?;
            // What aligns the control structure and the first chunk, and that chunk.
            layout.front_bytes.checked_add(LINE_BYTES - 1)?.checked_add(chunk_bytes.checked_mul(2)? - 1)
        };
        let mut chunk_bytes = Self::chunk_bytes(0, config);
        loop {
            let Some(needed_bytes) = needed_with(chunk_bytes) else { return usize::MAX };
            // A longer region may have longer chunks.
            let longer_bytes = Self::chunk_bytes(needed_bytes, config);
            if longer_bytes == chunk_bytes {
                return needed_bytes;
            }
            chunk_bytes = longer_bytes;
        }
    }

    /// Divides a region into the plan, the address of the control structure, and those of the heaps; `None` if there
    /// would be no chunk.
    pub(super) fn plan(
        start: usize,
        len_bytes: usize,
        config: &PooledArenasConfig,
    ) -> Option<(Plan, usize, Range<usize>)> {
        let chunk_bytes = Self::chunk_bytes(len_bytes, config);
        let control = round_up(start, LINE_BYTES)?;
        let end = start.checked_add(len_bytes)?;
        let mut chunks = (len_bytes / chunk_bytes).min(MAX_CHUNKS);
        let layout = loop {
            if chunks == 0 {
                return None;
            }
            let layout = Self::layout(chunks, chunk_bytes, config.slots)?;
            let first = round_up(control.checked_add(layout.front_bytes)?, chunk_bytes)?;
            if end.checked_sub(first).is_some_and(|room| room >= chunks * chunk_bytes) {
                break layout;
            }
            chunks -= 1;
        };
        let unplaced = Plan {
            start: 0,
            chunks,
            chunk_log2: chunk_bytes.trailing_zeros(),
            chunk_mask: chunk_bytes - 1,
            words: 0,
            entries: 0,
            pool: 0,
            slots: config.slots,
            reclaim_budget: config.reclaim_budget,
            row_bytes: 0,
            queues: 0,
        };
        let plan = layout.plan(control, chunk_bytes, &unplaced)?;
        let front_end = control + layout.front_bytes;
        let heaps = front_end - config.slots * layout.heap_bytes;
        Some((plan, control, heaps..front_end))
    }
}

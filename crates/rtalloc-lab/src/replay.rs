//! The only loop that calls an allocator.
//!
//! A [`Replay`] takes the events of a trace as they are read, keeps a table of the live blocks by slot, and calls the
//! heap through an [`Observer`], which decides *how* (plainly, timed, stepped) and sees the results. A replay is a test
//! of the allocator too: every block must be aligned as asked and lie in the region, and in the [verifying] mode may
//! not overlap a live one, and must carry its own mark at both ends until it is freed. Where objects move, all of them
//! are looked at together now and then, wherever they are.
//!
//! A refused request is counted; the slot stays empty and later operations on it are left out. Memory is needed for
//! the blocks that live at once, not for the trace's length.
//!
//! [verifying]: Replay::run

pub mod course;
pub mod isolate;
pub mod processor;
pub mod settings;
mod shadow;
pub mod threaded;

#[cfg(test)]
pub(crate) mod tests;

use crate::trace::{Event, Op};
use rtalloc_subjects::Heap;

/// How operations are called, and who sees their results.
pub trait Observer {
    /// Calls allocate.
    ///
    /// # Safety
    ///
    /// As [`rtalloc_subjects::Target::allocate`] of the heap's subject.
    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the caller's promise; the entry points and the context belong together.
        unsafe { (heap.entries.allocate_at(align))(heap.context, size, align) }
    }

    /// Calls deallocate.
    ///
    /// # Safety
    ///
    /// As [`rtalloc_subjects::Target::deallocate`] of the heap's subject.
    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the caller's promise; the entry points and the context belong together.
        unsafe { (heap.entries.deallocate)(heap.context, block, size, align) }
    }

    /// Calls reallocate.
    ///
    /// # Safety
    ///
    /// As [`rtalloc_subjects::Target::reallocate`] of the heap's subject.
    #[inline(always)]
    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the caller's promise; the entry points and the context belong together.
        unsafe { (heap.entries.reallocate)(heap.context, block, old, align, new) }
    }

    /// The operation with this index comes next.
    #[inline(always)]
    fn before(&mut self, _index: u64) {}

    /// The operation was an allocation or, with the old size, a reallocation, and succeeded.
    #[inline(always)]
    fn granted(&mut self, _heap: &Heap<'_>, _index: u64, _block: &Block, _old_size: Option<usize>) {}

    /// The operation was a free.
    #[inline(always)]
    fn freed(&mut self, _index: u64, _block: &Block) {}

    /// The operation was refused; `beyond_reach` where no heap of this allocator would have served it.
    #[inline(always)]
    fn refused(&mut self, _index: u64, _beyond_reach: bool) {}

    /// The operation was left out: its block was refused earlier.
    #[inline(always)]
    fn left_out(&mut self, _index: u64) {}
}

/// The observer that only calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {}

/// A block of the replay.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Address, or the bits of its handle where objects move; 0 while the slot has no block.
    pub address: usize,
    /// Requested bytes.
    pub size: usize,
    /// Alignment in bytes: what was requested, or natural alignment where that is more.
    pub align: u32,
    /// What marks it: distinguishes it from the blocks that live at the same time.
    stamp: u32,
}

impl Block {
    const NONE: Self = Self { address: 0, size: 0, align: 1, stamp: 0 };
}

/// An allocator caught handing out a block it may not: the figures of such a run mean nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The block is not aligned as asked.
    #[error("operation {index}: the block at {address:#x} is not aligned to {align} bytes")]
    Misaligned {
        /// Index of the operation.
        index: u64,
        /// Where the block is.
        address: usize,
        /// What was asked for.
        align: usize,
    },
    /// The block is not in the area of blocks of the region.
    #[error("operation {index}: the block of {size} bytes at {address:#x} is not within the heap")]
    Outside {
        /// Index of the operation.
        index: u64,
        /// Where the block is.
        address: usize,
        /// What was asked for.
        size: usize,
    },
    /// The block covers memory of another live one.
    #[error("operation {index}: the block of {size} bytes at {address:#x} overlaps one that is live")]
    Overlapping {
        /// Index of the operation.
        index: u64,
        /// Where the block is.
        address: usize,
        /// What was asked for.
        size: usize,
    },
    /// The marks of the block are gone: two blocks overlap, or the allocator wrote into a live block, or its
    /// reallocate lost the content.
    #[error("operation {index}: the block of {size} bytes at {address:#x} was overwritten while it was live")]
    Overwritten {
        /// Index of the operation that found out.
        index: u64,
        /// Where the block is.
        address: usize,
        /// Its size.
        size: usize,
    },
}

/// Requests above this are refused by the replay itself: no address space holds them, and not every peer survives
/// the question.
const MAX_REQUEST_BYTES: u64 = 1 << 46;

/// A replay underway.
#[derive(Debug, Default)]
pub struct Replay {
    blocks: Vec<Block>,
    index: u64,
    refused: u64,
    first_refused: Option<u64>,
    beyond_reach: u64,
    shadow: shadow::Shadow,
    /// Operation behind which all objects were looked at, where they move.
    swept: u64,
}

impl Replay {
    /// A replay at its beginning.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A replay at its beginning that has room for `slots` blocks at once, so that none is made underway.
    #[must_use]
    pub fn with_slots(slots: usize) -> Self {
        Self { blocks: vec![Block::NONE; slots], ..Self::default() }
    }

    /// Index of the next operation.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Refused requests so far.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Index of the first refused operation.
    #[must_use]
    pub fn first_refused(&self) -> Option<u64> {
        self.first_refused
    }

    /// Refused requests so far that no heap of this allocator serves, however large.
    #[must_use]
    pub fn beyond_reach(&self) -> u64 {
        self.beyond_reach
    }

    /// Performs `events`, the continuation of those performed before, on `heap`. `VERIFYING` keeps a map
    /// of the live blocks, marks every block at both ends, and verifies the marks when it is freed or reallocated;
    /// that touches the blocks' memory.
    ///
    /// # Errors
    ///
    /// The first [`Fault`] of the allocator.
    #[inline(always)]
    pub fn run<const VERIFYING: bool, O: Observer>(
        &mut self,
        heap: &Heap<'_>,
        events: &[Event],
        observer: &mut O,
    ) -> Result<(), Fault> {
        if VERIFYING {
            self.shadow.cover(heap);
        }
        for event in events {
            let index = self.index;
            observer.before(index);
            match event.op {
                Op::Allocate { slot, size, align } => {
                    let slot = slot as usize;
                    // As a C library does it: no block is aligned to less, and both ends of its life agree on it.
                    let align = align.max(heap.entries.natural_align_bytes as u32);
                    // A trace grows its slots one by one.
                    if slot >= self.blocks.len() {
                        self.blocks.resize(slot + 1, Block::NONE);
                    }
                    let address = if size > MAX_REQUEST_BYTES {
                        0
                    } else {
                        // SAFETY: size and alignment come from a trace, which has neither zero sizes nor other
                        // alignments than powers of two; both are small enough for a Layout.
                        unsafe { observer.allocate(heap, size as usize, align as usize) as usize }
                    };
                    let block = Block { address, size: size as usize, align, stamp: index as u32 };
                    self.blocks[slot] = block;
                    if address == 0 {
                        let beyond_reach = heap.reach.is_beyond(size as usize, align as usize);
                        self.refuse(index, beyond_reach);
                        observer.refused(index, beyond_reach);
                    } else {
                        verify_place(heap, index, &block)?;
                        if VERIFYING {
                            self.claim(heap, index, &block)?;
                            // SAFETY: the block is live, in the region and ours.
                            unsafe { stamp(heap, &block) };
                        }
                        observer.granted(heap, index, &block, None);
                    }
                }
                Op::Free { slot } => {
                    let block = std::mem::replace(&mut self.blocks[slot as usize], Block::NONE);
                    if block.address == 0 {
                        observer.left_out(index);
                    } else {
                        if VERIFYING {
                            // SAFETY: the block is live and ours.
                            unsafe { verify_stamp(heap, index, &block, block.size) }?;
                            self.release(heap, &block);
                        }
                        // SAFETY: the block is live and was asked for with this size and alignment.
                        unsafe {
                            observer.deallocate(heap, block.address as *mut u8, block.size, block.align as usize);
                        }
                        observer.freed(index, &block);
                    }
                }
                Op::Reallocate { slot, size, .. } => {
                    let old = self.blocks[slot as usize];
                    if old.address == 0 {
                        observer.left_out(index);
                        self.index = index + 1;
                        continue;
                    }
                    if VERIFYING {
                        // SAFETY: the block is live and ours.
                        unsafe { verify_stamp(heap, index, &old, old.size) }?;
                    }
                    let address = if size > MAX_REQUEST_BYTES {
                        0
                    } else {
                        // SAFETY: the block is live and was asked for with this size and alignment; the new size
                        // comes from a trace, so it is not zero.
                        unsafe {
                            let block = old.address as *mut u8;
                            observer.reallocate(heap, block, old.size, old.align as usize, size as usize) as usize
                        }
                    };
                    if address == 0 {
                        let beyond_reach = heap.reach.is_beyond(size as usize, old.align as usize);
                        self.refuse(index, beyond_reach);
                        observer.refused(index, beyond_reach);
                    } else {
                        let block = Block { address, size: size as usize, align: old.align, stamp: old.stamp };
                        verify_place(heap, index, &block)?;
                        if VERIFYING {
                            self.release(heap, &old);
                            self.claim(heap, index, &block)?;
                            // SAFETY: the block is live and at least as long as what is verified of the old content.
                            unsafe { verify_stamp(heap, index, &Block { size: old.size, ..block }, block.size) }?;
                            // SAFETY: the block is live, in the region and ours.
                            unsafe { stamp(heap, &block) };
                        }
                        self.blocks[slot as usize] = block;
                        observer.granted(heap, index, &block, Some(old.size));
                    }
                }
            }
            self.index = index + 1;
            if VERIFYING
                && heap.entries.handles.is_some()
                && self.index >= self.swept + self.blocks.len().max(64) as u64
            {
                self.sweep(heap, index)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn claim(&mut self, heap: &Heap<'_>, index: u64, block: &Block) -> Result<(), Fault> {
        if heap.entries.handles.is_some() || self.shadow.claim(block.address, block.size) {
            Ok(())
        } else {
            Err(Fault::Overlapping { index, address: block.address, size: block.size })
        }
    }

    #[inline(always)]
    fn release(&mut self, heap: &Heap<'_>, block: &Block) {
        if heap.entries.handles.is_none() {
            self.shadow.release(block.address, block.size);
        }
    }

    /// Verifies of every object, wherever it is now, that it lies in the heap, overlaps no other and carries its marks.
    #[cold]
    fn sweep(&mut self, heap: &Heap<'_>, index: u64) -> Result<(), Fault> {
        self.swept = self.index;
        let live = || self.blocks.iter().filter(|block| block.address != 0);
        for block in live() {
            verify_pieces(heap, index, block)?;
            // SAFETY: the block is live and ours.
            unsafe { verify_moved_stamp(heap, index, block, block.size) }?;
            for (address, size) in heap.pieces(block.address, block.size) {
                if !self.shadow.claim(address, size) {
                    return Err(Fault::Overlapping { index, address, size });
                }
            }
        }
        for (address, size) in live().flat_map(|block| heap.pieces(block.address, block.size)) {
            self.shadow.release(address, size);
        }
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, index: u64, beyond_reach: bool) {
        self.refused += 1;
        self.first_refused.get_or_insert(index);
        self.beyond_reach += u64::from(beyond_reach);
    }
}

#[inline(always)]
fn verify_place(heap: &Heap<'_>, index: u64, block: &Block) -> Result<(), Fault> {
    if heap.entries.handles.is_some() {
        return verify_pieces(heap, index, block);
    }
    verify_range(heap.start, heap.end, index, block)
}

/// Verifies that a block that stays where it is is aligned, and lies between two addresses.
#[inline(always)]
fn verify_range(start: usize, end: usize, index: u64, block: &Block) -> Result<(), Fault> {
    let align = block.align as usize;
    if block.address & (align - 1) != 0 {
        return Err(Fault::Misaligned { index, address: block.address, align });
    }
    if block.address < start || end - block.address < block.size {
        return Err(Fault::Outside { index, address: block.address, size: block.size });
    }
    Ok(())
}

/// As [`verify_place`], of every piece of an object that moves; its alignment is that of the first.
fn verify_pieces(heap: &Heap<'_>, index: u64, block: &Block) -> Result<(), Fault> {
    let mut align = block.align as usize;
    for (address, size) in heap.pieces(block.address, block.size) {
        if address & (align - 1) != 0 {
            return Err(Fault::Misaligned { index, address, align });
        }
        if address < heap.start || address > heap.end || heap.end - address < size {
            return Err(Fault::Outside { index, address, size });
        }
        align = 1;
    }
    Ok(())
}

/// A block's mark at one end. Blocks too short for two of them get its low byte in every byte.
const STAMP_BYTES: usize = size_of::<u32>();

/// Writes the block's mark at both ends.
///
/// # Safety
///
/// The block is live and nobody else's.
#[inline(always)]
unsafe fn stamp(heap: &Heap<'_>, block: &Block) {
    if heap.entries.handles.is_some() {
        for (place, byte) in marks(heap, block, block.size) {
            // SAFETY: the place lies within the block.
            unsafe { (place as *mut u8).write(byte) };
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { stamp_in_place(block) }
}

/// As [`stamp`], of a block that stays where it is.
///
/// # Safety
///
/// As [`stamp`].
#[inline(always)]
unsafe fn stamp_in_place(block: &Block) {
    let start = block.address as *mut u8;
    // SAFETY: all places lie within the block.
    unsafe {
        if block.size >= 2 * STAMP_BYTES {
            start.cast::<u32>().write_unaligned(block.stamp);
            start.add(block.size - STAMP_BYTES).cast::<u32>().write_unaligned(block.stamp);
        } else {
            start.write_bytes(block.stamp as u8, block.size);
        }
    }
}

/// Verifies what of the mark lies in the first `valid` bytes: all of it, or after a shrinking reallocate its start.
///
/// # Safety
///
/// The block is live and at least `valid` bytes long.
#[inline(always)]
unsafe fn verify_stamp(heap: &Heap<'_>, index: u64, block: &Block, valid: usize) -> Result<(), Fault> {
    if heap.entries.handles.is_some() {
        // SAFETY: the caller's promise.
        return unsafe { verify_moved_stamp(heap, index, block, valid) };
    }
    // SAFETY: the caller's promise.
    unsafe { verify_stamp_in_place(index, block, valid) }
}

/// As [`verify_stamp`], of a block that stays where it is.
///
/// # Safety
///
/// As [`verify_stamp`].
#[inline(always)]
unsafe fn verify_stamp_in_place(index: u64, block: &Block, valid: usize) -> Result<(), Fault> {
    let start = block.address as *const u8;
    // SAFETY: every place read lies within the first `valid` bytes of the block.
    let intact = unsafe {
        if block.size >= 2 * STAMP_BYTES {
            (valid < STAMP_BYTES || start.cast::<u32>().read_unaligned() == block.stamp)
                && (valid < block.size
                    || start.add(block.size - STAMP_BYTES).cast::<u32>().read_unaligned() == block.stamp)
        } else {
            (0..block.size.min(valid)).all(|place| start.add(place).read() == block.stamp as u8)
        }
    };
    if intact { Ok(()) } else { Err(Fault::Overwritten { index, address: block.address, size: block.size }) }
}

/// Verifies the mark of an object that moves, where it is now.
///
/// # Safety
///
/// As [`verify_stamp`].
unsafe fn verify_moved_stamp(heap: &Heap<'_>, index: u64, block: &Block, valid: usize) -> Result<(), Fault> {
    for (address, byte) in marks(heap, block, valid) {
        // SAFETY: the place lies within the first `valid` bytes of the block.
        if unsafe { (address as *const u8).read() } != byte {
            return Err(Fault::Overwritten { index, address, size: block.size });
        }
    }
    Ok(())
}

/// The places of an object's mark in its first `valid` bytes, and what is there.
fn marks(heap: &Heap<'_>, block: &Block, valid: usize) -> impl Iterator<Item = (usize, u8)> {
    let stamp = block.stamp.to_le_bytes();
    let (ends, bytes) = if block.size >= 2 * STAMP_BYTES {
        ([0..STAMP_BYTES, block.size - STAMP_BYTES..block.size], stamp)
    } else {
        ([0..block.size, 0..0], [stamp[0]; STAMP_BYTES])
    };
    let places = ends.into_iter().flat_map(move |end| end.zip(bytes.into_iter().cycle()));
    let pieces: Vec<(usize, usize)> = heap.pieces(block.address, valid.min(block.size)).collect();
    let piece = pieces.first().map_or(1, |(_, size)| *size);
    places
        .filter(move |(offset, _)| *offset < valid)
        .map(move |(offset, byte)| (pieces[offset / piece].0 + offset % piece, byte))
}

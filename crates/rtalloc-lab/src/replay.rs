//! The only loop that calls an allocator.
//!
//! A [`Replay`] performs the events of a trace as they are read, keeps a table of the live blocks by slot, and calls
//! the heap through an [`Observer`], which decides *how* (plainly, timed, stepped) and sees the results. A replay also
//! tests the allocator: every block must have the requested alignment and lie in the region; in the [verifying] mode it
//! may not overlap a live one, and must keep its stamp at both ends until it is freed. Where objects move, all of them
//! are verified from time to time, at their current addresses.
//!
//! A refused request is counted; the slot stays empty, and later operations on it are skipped. The memory needed is
//! proportional to the live blocks, not to the trace's length.
//!
//! [verifying]: Replay::run

pub mod isolate;
pub mod processor;
pub mod settings;
mod shadow;
pub mod threaded;
pub mod whole_trace;

#[cfg(test)]
pub(crate) mod tests;

use crate::trace::{Event, Op};
use rtalloc_subjects::Heap;

/// How operations are called, and what is done with their results.
pub trait Observer {
    /// Calls allocate.
    ///
    /// # Safety
    ///
    /// As [`rtalloc_subjects::Target::allocate`] of the heap's subject.
    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        unsafe { (heap.entries.allocate_at(align))(heap.context, size, align) }
    }

    /// Calls deallocate.
    ///
    /// # Safety
    ///
    /// As [`rtalloc_subjects::Target::deallocate`] of the heap's subject.
    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        unsafe { (heap.entries.deallocate)(heap.context, block, size, align) }
    }

    /// Calls reallocate.
    ///
    /// # Safety
    ///
    /// As [`rtalloc_subjects::Target::reallocate`] of the heap's subject.
    #[inline(always)]
    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        unsafe { (heap.entries.reallocate)(heap.context, block, old, align, new) }
    }

    /// The operation with this index is next.
    #[inline(always)]
    fn before(&mut self, _index: u64) {}

    /// The operation was an allocation or, with the old size, a reallocation, and succeeded.
    #[inline(always)]
    fn granted(&mut self, _heap: &Heap<'_>, _index: u64, _block: &Block, _old_size: Option<usize>) {}

    /// The operation was a free.
    #[inline(always)]
    fn freed(&mut self, _index: u64, _block: &Block) {}

    /// The operation was refused; `beyond_reach` if no heap of this allocator could serve it.
    #[inline(always)]
    fn refused(&mut self, _index: u64, _beyond_reach: bool) {}

    /// The operation was skipped: its block was refused earlier.
    #[inline(always)]
    fn left_out(&mut self, _index: u64) {}
}

/// The observer that only calls the operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// A block of the replay.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Address, or the bits of its handle where objects move; 0 while the slot has no block.
    pub address: usize,
    /// Requested bytes.
    pub size: usize,
    /// Alignment in bytes: the requested one, or natural alignment if that is larger.
    pub align: u32,
    /// Its stamp: distinguishes it from the blocks that are live at the same time.
    stamp: u32,
}

impl Block {
    const NONE: Self = Self { address: 0, size: 0, align: 1, stamp: 0 };
}

/// A violation of the allocator contract; the figures of such a run are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The block does not have the requested alignment.
    #[error("operation {index}: the block at {address:#x} is not aligned to {align} bytes")]
    Misaligned {
        /// Index of the operation.
        index: u64,
        /// Address of the block.
        address: usize,
        /// The requested alignment.
        align: usize,
    },
    /// The block is not in the area of blocks of the region.
    #[error("operation {index}: the block of {size} bytes at {address:#x} is not within the heap")]
    Outside {
        /// Index of the operation.
        index: u64,
        /// Address of the block.
        address: usize,
        /// The requested size.
        size: usize,
    },
    /// The block overlaps another live one.
    #[error("operation {index}: the block of {size} bytes at {address:#x} overlaps one that is live")]
    Overlapping {
        /// Index of the operation.
        index: u64,
        /// Address of the block.
        address: usize,
        /// The requested size.
        size: usize,
    },
    /// The stamp of the block is damaged: two blocks overlap, or the allocator wrote into a live block, or its
    /// reallocate lost the content.
    #[error("operation {index}: the block of {size} bytes at {address:#x} was overwritten while it was live")]
    Overwritten {
        /// Index of the operation that detected it.
        index: u64,
        /// Address of the block.
        address: usize,
        /// Its size.
        size: usize,
    },
}

/// Requests above this are refused by the replay itself: they exceed every address space, and not every peer survives
/// them.
const MAX_REQUEST_BYTES: u64 = 1 << 46;

/// The state of a replay.
#[derive(Debug, Default)]
pub struct Replay {
    blocks: Vec<Block>,
    index: u64,
    refused: u64,
    first_refused: Option<u64>,
    beyond_reach: u64,
    shadow: shadow::Shadow,
    /// Index of the last operation after which all objects were verified, where they move.
    swept: u64,
}

impl Replay {
    /// A new replay.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new replay with room for `slots` simultaneous blocks, so that the table does not grow.
    #[must_use]
    pub fn with_slots(slots: usize) -> Self {
        Self { blocks: vec![Block::NONE; slots], ..Self::default() }
    }

    /// Index of the next operation.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Number of refused requests so far.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Index of the first refused operation.
    #[must_use]
    pub fn first_refused(&self) -> Option<u64> {
        self.first_refused
    }

    /// Number of refused requests so far that no heap of this allocator serves, however large.
    #[must_use]
    pub fn beyond_reach(&self) -> u64 {
        self.beyond_reach
    }

    /// The same as [`Self::run`], compiled once for all observers.
    ///
    /// # Errors
    ///
    /// The first [`Fault`] of the allocator.
    pub fn perform(
        &mut self,
        heap: &Heap<'_>,
        events: &[Event],
        is_verifying: bool,
        observer: &mut dyn Observer,
    ) -> Result<(), Fault> {
        if is_verifying {
            self.run::<true, _>(heap, events, observer)
        } else {
            self.run::<false, _>(heap, events, observer)
        }
    }

    /// Performs `events`, the continuation of those performed before, on `heap`. `VERIFYING` keeps a map of the live
    /// blocks, stamps every block at both ends, and verifies the stamps when it is freed or reallocated; this touches
    /// the blocks' memory.
    ///
    /// # Errors
    ///
    /// The first [`Fault`] of the allocator.
    #[inline(always)]
    pub fn run<const VERIFYING: bool, O: Observer + ?Sized>(
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
                    // As in a C library: natural alignment is the minimum, at allocation and at deallocation alike.
                    let align = align.max(heap.entries.natural_align_bytes as u32);
                    // A trace's slots grow one by one.
                    if slot >= self.blocks.len() {
                        self.blocks.resize(slot + 1, Block::NONE);
                    }
                    let address = if size > MAX_REQUEST_BYTES {
                        0
                    } else {
                        // SAFETY: size and alignment come from a trace, where sizes are not zero and alignments are
                        // powers of two; both are small enough for a Layout.
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
                            // SAFETY: the block is live, in the region and exclusively ours.
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
                            // SAFETY: the block is live and exclusively ours.
                            unsafe { verify_stamp(heap, index, &block, block.size) }?;
                            self.release(heap, &block);
                        }
                        // SAFETY: the block is live and was requested with this size and alignment.
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
                        // SAFETY: the block is live and exclusively ours.
                        unsafe { verify_stamp(heap, index, &old, old.size) }?;
                    }
                    let address = if size > MAX_REQUEST_BYTES {
                        0
                    } else {
                        // SAFETY: the block is live and was requested with this size and alignment; the new size comes
                        // from a trace, so it is not zero.
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
                            // SAFETY: the block is live and at least as long as the verified part of the old content.
                            unsafe { verify_stamp(heap, index, &Block { size: old.size, ..block }, block.size) }?;
                            // SAFETY: the block is live, in the region and exclusively ours.
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

    /// Verifies that every object, at its current address, lies in the heap, overlaps no other and has an intact stamp.
    #[cold]
    fn sweep(&mut self, heap: &Heap<'_>, index: u64) -> Result<(), Fault> {
        self.swept = self.index;
        let live = || self.blocks.iter().filter(|block| block.address != 0);
        for block in live() {
            verify_pieces(heap, index, block)?;
            // SAFETY: the block is live and exclusively ours.
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

/// Verifies that a block that does not move is aligned and lies between two addresses.
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

/// As [`verify_place`], for every piece of an object that moves; its alignment is that of the first piece.
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

/// A block's stamp at one end. Blocks too short for two stamps get its low byte in every byte.
const STAMP_BYTES: usize = size_of::<u32>();

/// Writes the block's stamp at both ends.
///
/// # Safety
///
/// The block is live and exclusively ours.
#[inline(always)]
unsafe fn stamp(heap: &Heap<'_>, block: &Block) {
    if heap.entries.handles.is_some() {
        for (place, byte) in marks(heap, block, block.size) {
            // SAFETY: the place lies within the block.
            unsafe { (place as *mut u8).write(byte) };
        }
        return;
    }
    // SAFETY: the block is live and exclusively ours.
    unsafe { stamp_in_place(block) }
}

/// As [`stamp`], for a block that does not move.
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

/// Verifies the part of the stamp in the first `valid` bytes: all of it, or after a shrinking reallocate its beginning.
///
/// # Safety
///
/// The block is live and at least `valid` bytes long.
#[inline(always)]
unsafe fn verify_stamp(heap: &Heap<'_>, index: u64, block: &Block, valid: usize) -> Result<(), Fault> {
    if heap.entries.handles.is_some() {
        // SAFETY: the block is live and at least `valid` bytes long.
        return unsafe { verify_moved_stamp(heap, index, block, valid) };
    }
    // SAFETY: the block is live and at least `valid` bytes long.
    unsafe { verify_stamp_in_place(index, block, valid) }
}

/// As [`verify_stamp`], for a block that does not move.
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

/// Verifies the stamp of an object that moves, at its current address.
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

/// The places of an object's stamp in its first `valid` bytes, and the expected values.
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

//! Large blocks that are mappings of their own: unmapped when they are freed, and resized by the system.
//!
//! ```text
//! grain                                                 next grain
//! |header, 64 B|block ...                    |          (a block aligned to less than a grain)
//! |header|                                              |block ...       |   (to a grain or more)
//! ```
//!
//! Costs: system calls and page faults, without a bound on time. So a fixed heap has no direct blocks.

use crate::mapping::{Mapping, pointer};
use crate::region_table::{DIRECT, DIRECT_FAR, GRAIN_BYTES};
use crate::state::STATE;
use core::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::Relaxed;
use rtalloc_sys::libc::{MREMAP_FIXED, MREMAP_MAYMOVE, is_failed, mlock, mremap, munmap};
use rtalloc_sys::page_bytes;

/// The start of the mapping, before the block.
#[repr(C)]
struct Header {
    /// Bytes of the mapping.
    mapped_bytes: usize,
    /// Address of the block.
    block: usize,
    /// The complement of both XORed: detects a header that was overwritten.
    seal: usize,
}

impl Header {
    const fn new(mapped_bytes: usize, block: usize) -> Header {
        Header { mapped_bytes, block, seal: !(mapped_bytes ^ block) }
    }
}

/// Bytes before a block of the smallest alignment.
const FRONT_BYTES: usize = 64;

/// A direct block.
#[derive(Clone, Copy, Debug)]
pub struct DirectBlock {
    /// Address of the mapping.
    start: usize,
    mapped_bytes: usize,
    /// Address of the block.
    block: usize,
}

/// Smallest size of a direct block in bytes; `usize::MAX` if there are none.
pub fn from_bytes() -> usize {
    let settings = STATE.settings();
    match STATE.direct.from_bytes.load(Relaxed) {
        _ if settings.fixed => usize::MAX,
        0 => settings.direct_bytes,
        bytes => bytes,
    }
}

/// Changes [`from_bytes`] for threads that start from now on.
pub fn set_from_bytes(bytes: usize) {
    STATE.direct.from_bytes.store(bytes.max(page_bytes()), Relaxed);
}

/// Counts a mapping that grew or shrank.
fn count_bytes(more: usize, less: usize) {
    let counts = &STATE.direct;
    let mapped = counts.mapped_bytes.fetch_add(more.wrapping_sub(less), Relaxed).wrapping_add(more).wrapping_sub(less);
    counts.peak_bytes.fetch_max(mapped, Relaxed);
}

/// Allocates a block.
pub fn allocate(size: usize, align: usize) -> Option<DirectBlock> {
    let front = if align <= GRAIN_BYTES / 2 { align.max(FRONT_BYTES) } else { GRAIN_BYTES };
    let mapped_bytes = size.checked_add(front)?.checked_next_multiple_of(page_bytes())?;
    let mapping = if align <= GRAIN_BYTES {
        Mapping::new(mapped_bytes, GRAIN_BYTES, true)?
    } else {
        Mapping::with_front(mapped_bytes, front, align)?
    };
    // SAFETY: the pages were mapped above.
    if STATE.settings().locked && unsafe { mlock(mapping.start.cast(), mapped_bytes) } != 0 {
        mapping.unmap();
        return None;
    }
    let start = mapping.start.expose_provenance();
    STATE.direct.count.fetch_add(1, Relaxed);
    count_bytes(mapped_bytes, 0);
    Some(DirectBlock::new(start, mapped_bytes, front))
}

impl DirectBlock {
    /// Writes the header of a mapping and records the owner of the block's grain.
    fn new(start: usize, mapped_bytes: usize, front: usize) -> DirectBlock {
        let block = start + front;
        // SAFETY: the first page of the mapping is writable, and the header lies before the block.
        unsafe { with_exposed_provenance_mut::<Header>(start).write(Header::new(mapped_bytes, block)) };
        STATE.regions.set_owner(block, if front == GRAIN_BYTES { DIRECT_FAR } else { DIRECT });
        DirectBlock { start, mapped_bytes, block }
    }

    /// The direct block at an address, if there is one.
    pub fn at(block: usize) -> Option<DirectBlock> {
        let grain = block & !(GRAIN_BYTES - 1);
        let start = match STATE.regions.owner(block) {
            DIRECT => grain,
            DIRECT_FAR => grain.checked_sub(GRAIN_BYTES)?,
            _ => return None,
        };
        // SAFETY: the owner of the grain says that a header is at `start`.
        let header = unsafe { with_exposed_provenance::<Header>(start).read() };
        let mapped_bytes = header.mapped_bytes;
        (header.block == block && header.seal == Header::new(mapped_bytes, block).seal).then_some(DirectBlock {
            start,
            mapped_bytes,
            block,
        })
    }

    /// Its address.
    pub fn pointer(&self) -> Option<NonNull<u8>> {
        pointer(self.block)
    }

    /// Usable bytes.
    pub fn usable_bytes(&self) -> usize {
        self.mapped_bytes - (self.block - self.start)
    }

    /// Unmaps the block.
    ///
    /// # Safety
    ///
    /// The block is live, and the caller gives it up.
    pub unsafe fn deallocate(self) {
        // Before the pages are unmapped: another thread may map the same place right after.
        STATE.regions.set_owner(self.block, 0);
        // SAFETY: the mapping is the block's, which the caller gives up.
        unsafe { munmap(with_exposed_provenance_mut(self.start), self.mapped_bytes) };
        STATE.direct.count.fetch_sub(1, Relaxed);
        count_bytes(0, self.mapped_bytes);
    }

    /// Resizes the block, in place or elsewhere, and keeps its alignment up to half a grain. `None`, with the block
    /// unchanged, if the system refuses (it moves no mapping whose parts have different advice or protection) or if the
    /// block has a wider alignment and would have to move.
    ///
    /// # Safety
    ///
    /// The block is live, and the caller gives it up if the result is a block.
    pub unsafe fn reallocate(self, size: usize) -> Option<DirectBlock> {
        let DirectBlock { start, mapped_bytes, block } = self;
        let front = block - start;
        let len = size.checked_add(front)?.checked_next_multiple_of(page_bytes())?;
        let pages = with_exposed_provenance_mut(start);
        // SAFETY: the mapping is the block's, and the block is the caller's.
        let resized = unsafe { mremap(pages, mapped_bytes, len, 0) };
        if !is_failed(resized) {
            count_bytes(len, mapped_bytes);
            return Some(DirectBlock::new(start, len, front));
        }
        if front == GRAIN_BYTES {
            return None;
        }
        let target = Mapping::new(len, GRAIN_BYTES, false)?;
        STATE.regions.set_owner(block, 0);
        // SAFETY: the mapping is the block's, and the block is the caller's. The move replaces the target's pages, mapped
        // above and not in use.
        let moved = unsafe { mremap(pages, mapped_bytes, len, MREMAP_MAYMOVE | MREMAP_FIXED, target.start) };
        if is_failed(moved) {
            target.unmap();
            DirectBlock::new(start, mapped_bytes, front);
            return None;
        }
        count_bytes(len, mapped_bytes);
        Some(DirectBlock::new(target.start.expose_provenance(), len, front))
    }
}

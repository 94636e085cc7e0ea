//! Large blocks that are mappings of their own: given back to the system when they are freed, and resized by it.
//!
//! ```text
//! grain                                                 next grain
//! |header, 64 B|block ...                    |          (a block aligned to less than a grain)
//! |header|                                              |block ...       |   (to a grain or more)
//! ```
//!
//! Costs: system calls, and pages touched anew; no bound on time. So there are none where the heap is fixed.

use crate::regions::{self, DIRECT, DIRECT_FAR, GRAIN_BYTES, Mapping, page_bytes, set_owner};
use crate::{libc, system};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// In front of the block, at the start of the mapping.
#[repr(C)]
struct Header {
    /// Bytes of the mapping.
    mapped_bytes: usize,
    /// Address of the block.
    block: usize,
    /// The complement of both, so that a header that was written over is not believed.
    seal: usize,
}

/// Bytes in front of a block that is not aligned to more.
const FRONT_BYTES: usize = 64;

/// Bytes mapped now.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// Most bytes mapped at a time.
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Blocks now.
static BLOCKS: AtomicUsize = AtomicUsize::new(0);
/// From what size on; 0 until it is known.
static FROM: AtomicUsize = AtomicUsize::new(0);

/// Bytes from which a request is a mapping of its own.
#[must_use]
pub fn from_bytes() -> usize {
    if regions::settings().fixed {
        return usize::MAX;
    }
    match FROM.load(Relaxed) {
        0 => regions::settings().direct_bytes,
        bytes => bytes,
    }
}

/// Changes it, for threads that begin from now on.
pub fn set_from_bytes(bytes: usize) {
    FROM.store(bytes.max(page_bytes()), Relaxed);
}

/// Bytes that are mapped, the most that ever were, and blocks.
#[must_use]
pub fn tallies() -> (usize, usize, usize) {
    (MAPPED.load(Relaxed), PEAK.load(Relaxed), BLOCKS.load(Relaxed))
}

fn count(more: usize, less: usize) {
    let mapped = MAPPED.fetch_add(more.wrapping_sub(less), Relaxed).wrapping_add(more).wrapping_sub(less);
    PEAK.fetch_max(mapped, Relaxed);
}

/// Bytes from the start of the mapping to the block.
fn front_of(align: usize) -> usize {
    if align <= GRAIN_BYTES / 2 { align.max(FRONT_BYTES) } else { GRAIN_BYTES }
}

/// Maps a block.
pub fn allocate(size: usize, align: usize) -> Option<NonNull<u8>> {
    let front = front_of(align);
    let len = size.checked_add(front)?.checked_next_multiple_of(page_bytes())?;
    // The block is aligned: where it is a grain behind the start, the start must lie so.
    let mapping =
        if align <= GRAIN_BYTES { Mapping::new(len, GRAIN_BYTES, true)? } else { Mapping::a_grain_before(len, align)? };
    // SAFETY: the pages were mapped just now.
    if regions::settings().locked && unsafe { libc::mlock(mapping.start.cast(), len) } != 0 {
        mapping.undo();
        return None;
    }
    let start = mapping.start.expose_provenance();
    settle(start, len, start + front);
    BLOCKS.fetch_add(1, Relaxed);
    count(len, 0);
    regions::pointer(start + front)
}

/// Writes the header of a mapping and makes it known.
fn settle(start: usize, mapped_bytes: usize, block: usize) {
    let header = Header { mapped_bytes, block, seal: !(mapped_bytes ^ block) };
    // SAFETY: the first page of the mapping is the header's.
    unsafe { core::ptr::with_exposed_provenance_mut::<Header>(start).write(header) };
    set_owner(block, if block - start == GRAIN_BYTES { DIRECT_FAR } else { DIRECT });
}

/// The direct block at an address: where its mapping begins, and how long it is.
#[must_use]
pub fn find(address: usize) -> Option<(usize, usize)> {
    let grain = address & !(GRAIN_BYTES - 1);
    let start = match regions::owner(address) {
        DIRECT => grain,
        DIRECT_FAR => grain.checked_sub(GRAIN_BYTES)?,
        _ => return None,
    };
    // SAFETY: the owner of the grain says that a header is there.
    let header = unsafe { core::ptr::with_exposed_provenance::<Header>(start).read() };
    (header.block == address && header.seal == !(header.mapped_bytes ^ header.block))
        .then_some((start, header.mapped_bytes))
}

/// Bytes that may be used of a direct block.
#[must_use]
pub fn usable_size(block: usize, (start, mapped_bytes): (usize, usize)) -> usize {
    mapped_bytes - (block - start)
}

/// Unmaps a block.
///
/// # Safety
///
/// Nobody uses it any more; `found` is what [`find`] says.
pub unsafe fn deallocate(block: usize, (start, mapped_bytes): (usize, usize)) {
    // First, so that nobody who maps the same place meanwhile is forgotten.
    set_owner(block, 0);
    // SAFETY: the mapping is the block's, and nobody uses it.
    unsafe { system::munmap(core::ptr::with_exposed_provenance_mut(start), mapped_bytes) };
    BLOCKS.fetch_sub(1, Relaxed);
    count(0, mapped_bytes);
}

/// Resizes a block, where it is or elsewhere. Its alignment is kept up to that of a grain's half. `None` where the system does not:
/// it moves no mapping of which a part has been advised or protected otherwise (`madvise`), and one of a wider alignment has its place;
/// the block is as it was then.
///
/// # Safety
///
/// As [`deallocate`].
pub unsafe fn reallocate(block: usize, (start, mapped_bytes): (usize, usize), size: usize) -> Option<NonNull<u8>> {
    let front = block - start;
    let len = size.checked_add(front)?.checked_next_multiple_of(page_bytes())?;
    let pages = core::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the mapping is the block's, and nobody else uses it.
    let stays = unsafe { libc::mremap(pages, mapped_bytes, len, 0) };
    if !system::is_failed(stays) {
        settle(start, len, block);
        count(len, mapped_bytes);
        return regions::pointer(block);
    }
    if front == GRAIN_BYTES {
        return None;
    }
    let place = Mapping::new(len, GRAIN_BYTES, false)?;
    let target = place.start.expose_provenance();
    set_owner(block, 0);
    // SAFETY: as above; the place was mapped just now, for nothing but this.
    let moved = unsafe { libc::mremap(pages, mapped_bytes, len, libc::MOVE_THERE, place.start) };
    if system::is_failed(moved) {
        place.undo();
        settle(start, mapped_bytes, block);
        return None;
    }
    settle(target, len, target + front);
    count(len, mapped_bytes);
    regions::pointer(target + front)
}

impl Mapping {
    /// Maps whole pages so that what lies a grain behind their start is aligned.
    fn a_grain_before(len: usize, align: usize) -> Option<Mapping> {
        let room = len.checked_add(align)?;
        // SAFETY: a new mapping at a place of the kernel's choice, parts of which are unmapped again.
        unsafe {
            let at = system::mmap(null_mut(), room, system::ACCESS_BOTH, system::MAP_OWN, -1, 0);
            if system::is_failed(at) {
                return None;
            }
            let block = at.addr().checked_add(GRAIN_BYTES)?.checked_next_multiple_of(align)?;
            let before = block - GRAIN_BYTES - at.addr();
            if before != 0 {
                system::munmap(at, before);
            }
            let start = at.byte_add(before);
            if room - before != len {
                system::munmap(start.byte_add(len), room - before - len);
            }
            Some(Mapping { start: start.cast(), len })
        }
    }
}

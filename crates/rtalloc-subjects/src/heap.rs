//! A live heap of a subject.

use crate::{Entries, Origin, Reach, Region, Release, Subject};
use std::ffi::c_void;

/// A refused heap: the region does not suffice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no heap of {region_bytes} bytes: {reason}")]
pub struct Refusal {
    /// Size of the region.
    pub region_bytes: usize,
    /// The allocator's reason.
    pub reason: String,
}

/// A live heap in a part of a region.
#[derive(Debug)]
pub struct Heap<'region> {
    /// The functions to call, with `context`.
    pub entries: Entries,
    /// First argument of every entry point.
    pub context: *mut c_void,
    /// First address blocks may have; 0 where the subject takes its own pages.
    pub start: usize,
    /// One past the last address of the region; `usize::MAX` where the subject takes its own pages.
    pub end: usize,
    /// Address of the region that contains the heap.
    pub region_start: usize,
    /// Bytes of control structure that the subject keeps outside the region, in our memory.
    pub outside_bytes: usize,
    /// What the subject never serves.
    pub reach: Reach,
    release: Release,
    region: std::marker::PhantomData<&'region mut Region>,
}

impl<'region> Heap<'region> {
    /// Creates a heap of `subject` in the first `bytes` bytes of `region`; a subject with its own pages ignores both.
    ///
    /// # Errors
    ///
    /// [`Refusal`] where the region is too small for its control structure.
    pub fn new(subject: &Subject, region: &'region mut Region, bytes: usize) -> Result<Self, Refusal> {
        Self::within(subject, region, 0, bytes)
    }

    /// Creates a heap of `subject` in the `bytes` bytes of `region` from `offset` on, or as many as there are. Peers
    /// take regions that begin with a page.
    ///
    /// # Errors
    ///
    /// As [`Heap::new`].
    pub fn within(
        subject: &Subject,
        region: &'region mut Region,
        offset: usize,
        bytes: usize,
    ) -> Result<Self, Refusal> {
        let offset = offset.min(region.len());
        let bytes = bytes.min(region.len() - offset);
        if subject.origin != Origin::Ours && !offset.is_multiple_of(4096) {
            return Err(Refusal { region_bytes: bytes, reason: "the region does not begin with a page".into() });
        }
        let base = region.start().wrapping_add(offset);
        // SAFETY: `base..base + bytes` is mapped memory that this heap borrows exclusively for as long as it lives.
        let made = unsafe { (subject.make)(base, bytes) }.map_err(|reason| Refusal { region_bytes: bytes, reason })?;
        let region_start = base as usize;
        let (start, end) =
            if subject.own_pages { (0, usize::MAX) } else { (made.first_block_address, region_start + bytes) };
        Ok(Self {
            entries: subject.entries,
            context: made.context,
            start,
            end,
            region_start,
            outside_bytes: made.outside_bytes,
            reach: subject.reach,
            release: subject.release,
            region: std::marker::PhantomData,
        })
    }

    /// The contiguous pieces of a live block at their current addresses: address and length, in the order of its bytes.
    pub fn pieces(&self, block: usize, size: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (context, handles) = (self.context, self.entries.handles);
        let piece = handles.map_or(usize::MAX, |handles| handles.piece_bytes);
        (0..size.div_ceil(piece)).map(move |index| {
            let offset = index * piece;
            let address = handles.map_or(block, |handles| {
                // SAFETY: the block is live, and longer than the offset.
                unsafe { (handles.dereference)(context, block as *mut u8, offset) as usize }
            });
            (address, piece.min(size - offset))
        })
    }

    /// The largest end address of a live block's pieces; 0 if it has none.
    #[must_use]
    pub fn end_of(&self, block: usize, size: usize) -> usize {
        self.pieces(block, size).map(|(start, bytes)| start + bytes).max().unwrap_or(0)
    }

    /// Bytes granted for a block: its size, if the allocator does not report them.
    ///
    /// # Safety
    ///
    /// The block is live and was requested with this size and alignment.
    #[must_use]
    pub unsafe fn granted_bytes(&self, block: usize, size: usize, align: usize) -> usize {
        match self.entries.granted {
            // SAFETY: promised by the caller; the context belongs to these entry points.
            Some(granted) => unsafe { granted(self.context, block as *mut u8, size, align) },
            None => size,
        }
    }

    /// Bytes of control structure, inside the region and outside.
    #[must_use]
    pub fn control_bytes(&self) -> usize {
        self.start.saturating_sub(self.region_start) + self.outside_bytes
    }
}

impl Drop for Heap<'_> {
    fn drop(&mut self) {
        // SAFETY: `context` came from the `make` that belongs to this `release`, and is not used any more.
        unsafe { (self.release)(self.context) };
    }
}

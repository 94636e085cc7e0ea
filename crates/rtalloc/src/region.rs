//! The user's memory: its extent, and how a heap accesses it.
//!
//! A heap addresses all its memory by offsets from one base, which may lead into a region that was added later. The
//! provenance of every region is therefore exposed once, when the heap takes it, and every access goes through the
//! exposed address (see [`Memory`](crate::mechanism::memory::Memory)).

use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// Memory that a user lent for `'r`, with exclusive access.
#[derive(Debug)]
pub(crate) struct Region<'r> {
    start: usize,
    len_bytes: usize,
    lent: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

impl<'r> Region<'r> {
    /// Takes the user's memory and exposes its provenance.
    pub(crate) fn new(memory: &'r mut [MaybeUninit<u8>]) -> Self {
        let len_bytes = memory.len();
        Region { start: memory.as_mut_ptr().expose_provenance(), len_bytes, lent: PhantomData }
    }

    /// Rebuilds the slice of a region that a heap took earlier and gives up now.
    ///
    /// # Safety
    ///
    /// The range is exactly one that [`Region::new`] took for `'r`, and the heap does not use it any more.
    pub(crate) unsafe fn return_to_user(start: usize, len_bytes: usize) -> &'r mut [MaybeUninit<u8>] {
        let pointer = core::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the range was lent for 'r as one slice, and `new` exposed its provenance; the heap has given it up,
        // so no other reference to it exists.
        unsafe { core::slice::from_raw_parts_mut(pointer, len_bytes) }
    }

    /// First address after the region.
    pub(crate) fn end(&self) -> usize {
        self.start + self.len_bytes
    }
}

/// Whether an offered region shares a byte with the memory from `start` to `end`.
pub(crate) fn overlaps(region: &[MaybeUninit<u8>], start: usize, end: usize) -> bool {
    let offered = region.as_ptr().addr();
    offered < end && start < offered + region.len() && !region.is_empty()
}

/// First address after a policy's own fields, where the room for which it was planned begins: a
/// [`PolicyHeap`](crate::mechanism::policy_heap::PolicyHeap) places it there.
#[inline(always)]
pub(crate) fn room_behind<P>(policy: &P) -> usize {
    core::ptr::from_ref(policy).addr().wrapping_add(size_of::<P>())
}

/// `value` rounded up to a multiple of the power of two `align`; `None` beyond the address space.
pub(crate) const fn round_up(value: usize, align: usize) -> Option<usize> {
    match value.checked_add(align - 1) {
        Some(sum) => Some(sum & !(align - 1)),
        None => None,
    }
}

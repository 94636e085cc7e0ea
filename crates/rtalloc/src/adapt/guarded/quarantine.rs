//! The ring of freed blocks that are held back: first in, first out.

use core::ptr::NonNull;

/// A block that is held back.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Held {
    /// Its payload.
    pub(super) payload: usize,
    /// The block of the inner heap, stored separately because the record may be overwritten.
    pub(super) block: usize,
}

/// The positions of the blocks in the ring. The caller passes the ring, which follows the control structure.
#[derive(Debug)]
pub(super) struct Quarantine {
    capacity: usize,
    /// The position of the oldest block, less than the capacity unless that is 0.
    oldest: usize,
    /// At most the capacity.
    len: usize,
}

impl Quarantine {
    /// An empty one with this capacity.
    pub(super) fn new(capacity: usize) -> Self {
        Quarantine { capacity, oldest: 0, len: 0 }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// Whether the fields are valid.
    pub(super) fn is_sound(&self) -> bool {
        self.len <= self.capacity && (self.oldest < self.capacity || self.oldest == 0)
    }

    /// The position `offset` places after the oldest block; `offset` is at most the capacity.
    fn place(&self, offset: usize) -> usize {
        let place = self.oldest + offset;
        if place >= self.capacity { place - self.capacity } else { place }
    }

    /// Appends a block. There is a free place.
    pub(super) fn push(&mut self, ring: NonNull<Held>, held: Held) {
        let place = self.place(self.len);
        // SAFETY: the ring has `capacity` places, and `place` is less.
        unsafe { ring.add(place).write(held) };
        self.len += 1;
    }

    /// Takes the oldest block.
    pub(super) fn pop(&mut self, ring: NonNull<Held>) -> Option<Held> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: the ring has `capacity` places, and there is a block at the oldest one.
        let held = unsafe { ring.add(self.oldest).read() };
        self.oldest = self.place(1);
        self.len -= 1;
        Some(held)
    }

    /// The blocks, from the oldest on.
    pub(super) fn iter(&self, ring: NonNull<Held>) -> impl Iterator<Item = Held> + '_ {
        // SAFETY: the ring has `capacity` places, and there are blocks at these.
        (0..self.len).map(move |offset| unsafe { ring.add(self.place(offset)).read() })
    }

    /// Whether the payload of a block in the ring is at an address.
    pub(super) fn holds(&self, ring: NonNull<Held>, payload: usize) -> bool {
        // Loop bound: blocks in the quarantine
        self.iter(ring).any(|held| held.payload == payload)
    }
}

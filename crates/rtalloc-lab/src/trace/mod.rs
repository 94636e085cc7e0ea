//! Traces: what a program asked of its allocator, operation by operation.

/// One operation of a program on its heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the operation in the trace's tick unit, never decreasing.
    pub tick: u64,
    /// Dense number of the thread that called, from 0.
    pub thread: u32,
    /// What was asked.
    pub op: Op,
}

/// The operation of an [`Event`]. A *slot* names a live block: dense numbers from 0, the most recently
/// freed one is reused first, so the largest slot + 1 is the largest number of blocks ever live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `malloc`, `calloc`, `aligned_alloc`: `slot` was free and is live afterwards.
    Allocate {
        /// The block's name.
        slot: u32,
        /// Requested size in bytes, at least 1.
        size: u64,
        /// Requested alignment in bytes, a power of two.
        align: u32,
    },
    /// `realloc` of a live block: its content survives up to the smaller size.
    Reallocate {
        /// The block's name, before and after.
        slot: u32,
        /// New requested size in bytes, at least 1.
        size: u64,
        /// Alignment in bytes, a power of two (that of the first allocation).
        align: u32,
    },
    /// `free`: `slot` was live and is free afterwards.
    Free {
        /// The block's name.
        slot: u32,
    },
}

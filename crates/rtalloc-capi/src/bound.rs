//! How many instructions an operation of this library executes at most, where that was proved.

use crate::error::is;
use core::mem::MaybeUninit;

/// An operation whose instructions are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_operation {
    /// `malloc`.
    RT_OPERATION_MALLOC,
    /// `aligned_alloc`.
    RT_OPERATION_ALIGNED_ALLOC,
    /// `free`.
    RT_OPERATION_FREE,
}

/// Bounds of an allocator's operations in instructions; 0: none was proved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) malloc: u64,
    pub(crate) aligned_alloc: u64,
    pub(crate) free: u64,
}

impl Bounds {
    /// What is known of an allocator.
    pub(crate) const fn of(_name: &str) -> Bounds {
        Bounds { malloc: 0, aligned_alloc: 0, free: 0 }
    }

    /// The bound of an operation; any number of C's is legal.
    pub(crate) fn get(&self, operation: MaybeUninit<rt_operation>) -> u64 {
        let of = |known, bound| if is(operation, known) { bound } else { 0 };
        of(rt_operation::RT_OPERATION_MALLOC, self.malloc)
            | of(rt_operation::RT_OPERATION_ALIGNED_ALLOC, self.aligned_alloc)
            | of(rt_operation::RT_OPERATION_FREE, self.free)
    }
}

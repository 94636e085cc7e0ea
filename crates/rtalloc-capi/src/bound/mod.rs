//! How many instructions an operation of this library executes at most, where that was proved.

#[allow(dead_code, reason = "the compiler is build.rs's concern")]
mod x86_64;

use crate::contract::same;
use crate::error::is;
use core::mem::MaybeUninit;

/// An operation whose instructions are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_operation {
    /// `malloc`; where objects have handles, `allocate`.
    RT_OPERATION_MALLOC,
    /// `aligned_alloc`.
    RT_OPERATION_ALIGNED_ALLOC,
    /// `free`.
    RT_OPERATION_FREE,
}

/// Bounds of an allocator's operations in instructions, in the order of [`rt_operation`]; 0: none was proved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds([u64; 3]);

impl Bounds {
    /// What is known of an allocator. Of a library that is built otherwise than the one whose machine code was looked at, nothing is:
    /// build.rs finds out.
    pub(crate) const fn of(name: &str) -> Bounds {
        let mut at = 0;
        // turns: allocators, when this is compiled.
        while cfg!(is_as_proved) && at < x86_64::PROVED.len() {
            let (known, bounds) = x86_64::PROVED[at];
            if same(known, name) {
                return Bounds(bounds);
            }
            at += 1;
        }
        Bounds([0; 3])
    }

    /// The bound of an operation; any number of C's is legal.
    pub(crate) fn get(&self, operation: MaybeUninit<rt_operation>) -> u64 {
        let [malloc, aligned_alloc, free] = self.0;
        let of = |known, bound| if is(operation, known) { bound } else { 0 };
        of(rt_operation::RT_OPERATION_MALLOC, malloc)
            | of(rt_operation::RT_OPERATION_ALIGNED_ALLOC, aligned_alloc)
            | of(rt_operation::RT_OPERATION_FREE, free)
    }
}

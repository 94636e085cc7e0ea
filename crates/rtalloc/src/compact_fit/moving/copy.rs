//! Copies page-blocks with its own loop, so that the cost of a copy is in the bounded code, not in a library.

use crate::contract::{LoopBound, loop_bound};
use core::mem::MaybeUninit;

/// Copies one `T`, whatever its bytes are.
///
/// # Safety
///
/// The `T` is readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn piece<T>(from: usize, to: usize) {
    let from: *const MaybeUninit<T> = core::ptr::with_exposed_provenance(from);
    let to: *mut MaybeUninit<T> = core::ptr::with_exposed_provenance_mut(to);
    // SAFETY: the caller guarantees that a `T` is readable at `from` and writable at `to`; alignment is not required.
    unsafe { to.write_unaligned(from.read_unaligned()) }
}

/// Copies 64 bytes.
///
/// # Safety
///
/// As [`copy`].
#[inline(always)]
pub(in super::super) unsafe fn line(from: usize, to: usize) {
    // One by one: a compiler that loads all four first stores them in reverse order, at half the speed across cache
    // lines.
    // SAFETY: the caller guarantees that 64 bytes are readable at `from` and writable at `to`.
    unsafe {
        piece::<u128>(from, to);
        piece::<u128>(from.wrapping_add(16), to.wrapping_add(16));
        piece::<u128>(from.wrapping_add(32), to.wrapping_add(32));
        piece::<u128>(from.wrapping_add(48), to.wrapping_add(48));
    }
}

/// Copies `bytes`, a multiple of 4, to a place that does not overlap.
///
/// # Safety
///
/// This many bytes are readable at `from` and writable at `to`.
///
/// # Time
///
/// Linear in the bytes: 64 at a time, then at most three times 16 and three times 4.
#[inline(always)]
pub(super) unsafe fn copy(from: usize, to: usize, bytes: usize) {
    let mut done = 0;
    // SAFETY: the caller guarantees that `bytes` are readable at `from` and writable at `to`; the copy ends at `bytes`.
    unsafe {
        while bytes.wrapping_sub(done) >= 64 {
            loop_bound!(LoopBound::PageBlockBytes { per_iteration: 64 });
            line(from.wrapping_add(done), to.wrapping_add(done));
            done = done.wrapping_add(64);
        }
        rest(from.wrapping_add(done), to.wrapping_add(done), bytes.wrapping_sub(done));
    }
}

/// Copies less than 64 bytes, a multiple of 4.
///
/// # Safety
///
/// As [`copy`].
#[inline(always)]
pub(in super::super) unsafe fn rest(from: usize, to: usize, bytes: usize) {
    let mut done = 0;
    // SAFETY: the caller guarantees that `bytes` are readable at `from` and writable at `to`; the copy ends at `bytes`.
    unsafe {
        while bytes.wrapping_sub(done) >= 16 {
            loop_bound!(LoopBound::Fixed(3));
            piece::<u128>(from.wrapping_add(done), to.wrapping_add(done));
            done = done.wrapping_add(16);
        }
        while bytes.wrapping_sub(done) >= 4 {
            loop_bound!(LoopBound::Fixed(3));
            piece::<u32>(from.wrapping_add(done), to.wrapping_add(done));
            done = done.wrapping_add(4);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_length_is_copied_and_not_a_byte_more() {
        let source: Vec<u8> = (0..400).map(|byte| byte as u8).collect();
        let from = source.as_ptr().expose_provenance();
        for bytes in (0..=384).step_by(4) {
            let mut target = std::vec![0xEE_u8; 400];
            // SAFETY: both have more than this many bytes.
            unsafe { copy(from, target.as_mut_ptr().expose_provenance(), bytes) };
            assert_eq!(target[..bytes], source[..bytes]);
            assert!(target[bytes..].iter().all(|&byte| byte == 0xEE));
        }
    }
}

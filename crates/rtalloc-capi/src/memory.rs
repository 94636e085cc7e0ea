//! `memcpy` and similar functions, local to this library.
//!
//! The compiler calls them to copy or clear memory, and expects a C library to define them, which a freestanding
//! program does not have. They are defined here as local symbols of the library's single object file, invisible to
//! other objects. So the library links without a C library; with one, it neither replaces the program's `memcpy` nor
//! calls it.
//!
//! They are loops over words, whose instructions can be bounded, and are not the fastest possible. Accesses are
//! volatile, otherwise the compiler would replace the loops by calls of the functions that they define.

use core::ffi::{c_int, c_void};

const WORD: usize = size_of::<usize>();

/// Whether addresses and length are multiples of a word.
#[inline(always)]
fn by_words(addresses: usize, bytes: usize) -> bool {
    (addresses | bytes).is_multiple_of(WORD)
}

/// Copies from the first byte to the last, `T` by `T`.
#[inline(always)]
unsafe fn ascend<T>(to: *mut c_void, from: *const c_void, bytes: usize) {
    let (to, from) = (to.cast::<T>(), from.cast::<T>());
    // Loop bound: units of the length.
    for at in 0..bytes / size_of::<T>() {
        // SAFETY: both ranges have `bytes` bytes, and `at` is inside them.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) }
    }
}

/// Copies from the last byte to the first, `T` by `T`.
#[inline(always)]
unsafe fn descend<T>(to: *mut c_void, from: *const c_void, bytes: usize) {
    let (to, from) = (to.cast::<T>(), from.cast::<T>());
    // Loop bound: units of the length.
    for at in (0..bytes / size_of::<T>()).rev() {
        // SAFETY: both ranges have `bytes` bytes, and `at` is inside them.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) }
    }
}

/// C's `memcpy`.
unsafe extern "C" fn copy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    // SAFETY: both ranges have `bytes` bytes.
    unsafe {
        if by_words(to.addr() | from.addr(), bytes) {
            ascend::<usize>(to, from, bytes);
        } else {
            ascend::<u8>(to, from, bytes);
        }
    }
    to
}

/// C's `memmove`.
unsafe extern "C" fn shift(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    // SAFETY: both ranges have `bytes` bytes.
    unsafe {
        let words = by_words(to.addr() | from.addr(), bytes);
        // Otherwise no byte is overwritten before it is read.
        if to.addr().wrapping_sub(from.addr()) >= bytes {
            return copy(to, from, bytes);
        }
        if words {
            descend::<usize>(to, from, bytes);
        } else {
            descend::<u8>(to, from, bytes);
        }
    }
    to
}

/// C's `memset`.
unsafe extern "C" fn fill(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void {
    // SAFETY: the range has `bytes` bytes.
    unsafe {
        if by_words(to.addr(), bytes) {
            let word = usize::from_ne_bytes([byte as u8; WORD]);
            // Loop bound: words of the length.
            for at in 0..bytes / WORD {
                to.cast::<usize>().add(at).write_volatile(word);
            }
        } else {
            // Loop bound: bytes of the length.
            for at in 0..bytes {
                to.cast::<u8>().add(at).write_volatile(byte as u8);
            }
        }
    }
    to
}

/// C's `memcmp`.
unsafe extern "C" fn compare(one: *const c_void, other: *const c_void, bytes: usize) -> c_int {
    // Loop bound: bytes of the length.
    for at in 0..bytes {
        // SAFETY: both ranges have `bytes` bytes, and `at` is inside them.
        let (one, other) =
            unsafe { (one.cast::<u8>().add(at).read_volatile(), other.cast::<u8>().add(at).read_volatile()) };
        if one != other {
            return c_int::from(one) - c_int::from(other);
        }
    }
    0
}

core::arch::global_asm!(
    ".set memcpy, {copy}",
    ".set memmove, {shift}",
    ".set memset, {fill}",
    ".set memcmp, {compare}",
    ".set bcmp, {compare}",
    copy = sym copy,
    shift = sym shift,
    fill = sym fill,
    compare = sym compare,
);

//! The calling thread's `errno`.

use crate::libc;
use core::ffi::c_int;

/// Reads `errno`.
#[must_use]
pub fn errno() -> c_int {
    // SAFETY: the C library returns the address of the calling thread's `errno`, valid as long as the thread runs.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno`.
pub fn set_errno(value: c_int) {
    // SAFETY: as in `errno`; no reference to it exists.
    unsafe { *libc::__errno_location() = value }
}

/// Runs `work` and restores `errno`: `free` must leave it alone, and a successful `malloc` should.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}

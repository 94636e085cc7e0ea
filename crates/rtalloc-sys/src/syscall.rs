//! System calls that are not cancellation points.
//!
//! The C library's own `open`, `read`, `write`, `close` and `nanosleep` are: a thread that is cancelled ends inside
//! them and leaves its locks locked. Its `syscall` is not.

use crate::libc::{AT_FDCWD, Timespec, syscall};
use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr::null_mut;

/// The number of a system call on x86-64 and on aarch64.
const fn number(x86_64: c_long, aarch64: c_long) -> c_long {
    if cfg!(target_arch = "aarch64") { aarch64 } else { x86_64 }
}

const READ: c_long = number(0, 63);
const WRITE: c_long = number(1, 64);
const CLOSE: c_long = number(3, 57);
const NANOSLEEP: c_long = number(35, 101);
const OPENAT: c_long = number(257, 56);
const MEMBARRIER: c_long = number(324, 283);

/// Opens a file; `mode` are the permissions of a new one.
///
/// # Safety
///
/// `path` points to a string that ends with a zero.
pub unsafe fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: the kernel reads `path` up to its zero, which the caller guarantees.
    unsafe { syscall(OPENAT, AT_FDCWD, path, flags, mode) as c_int }
}

/// Reads from a file.
///
/// # Safety
///
/// `count` bytes at `buffer` are writable.
pub unsafe fn read(file: c_int, buffer: *mut c_void, count: usize) -> isize {
    // SAFETY: the kernel writes at most `count` bytes at `buffer`, which the caller guarantees to be writable.
    unsafe { syscall(READ, file, buffer, count) as isize }
}

/// Writes to a file.
///
/// # Safety
///
/// `count` bytes at `buffer` are readable.
pub unsafe fn write(file: c_int, buffer: *const c_void, count: usize) -> isize {
    // SAFETY: the kernel reads at most `count` bytes at `buffer`, which the caller guarantees to be readable.
    unsafe { syscall(WRITE, file, buffer, count) as isize }
}

/// Closes a file.
///
/// # Safety
///
/// The descriptor is the caller's and is not used afterwards.
pub unsafe fn close(file: c_int) -> c_int {
    // SAFETY: nothing else uses the descriptor, by the caller's guarantee.
    unsafe { syscall(CLOSE, file) as c_int }
}

/// Sleeps for less than a second; a signal ends the sleep early.
pub fn sleep(nanoseconds: i64) {
    let time = Timespec { seconds: 0, nanoseconds };
    // SAFETY: `time` outlives the call, and the null pointer asks for no remainder.
    unsafe { syscall(NANOSLEEP, &raw const time, null_mut::<Timespec>()) };
}

/// Registers the process for [`barrier_in_every_thread`]. False if the kernel does not support it.
#[must_use]
pub fn register_barriers() -> bool {
    const PRIVATE_EXPEDITED_REGISTRATION: c_int = 1 << 4;
    // SAFETY: `membarrier` reads and writes no memory of the caller.
    unsafe { syscall(MEMBARRIER, PRIVATE_EXPEDITED_REGISTRATION, 0, 0) == 0 }
}

/// Executes a full memory barrier in every running thread of the process. False if it was not registered.
#[must_use]
pub fn barrier_in_every_thread() -> bool {
    const PRIVATE_EXPEDITED: c_int = 1 << 3;
    // SAFETY: `membarrier` reads and writes no memory of the caller.
    unsafe { syscall(MEMBARRIER, PRIVATE_EXPEDITED, 0, 0) == 0 }
}

//! What the preloaded libraries share: the C library's functions, system calls, `errno` and one thread-local word.
//!
//! `rtalloc-preload` (the trace recorder) and `rtalloc-malloc` run inside `malloc`. Nothing here allocates, locks or
//! looks up a symbol. Each library is linked with its own copy, and so has its own thread-local word.
//!
//! For 64-bit Linux with the GNU C library, on x86-64 and aarch64. Without `std` and without dependencies, so that the
//! laboratory's build script can compile it with the compiler alone.

#![no_std]

pub mod errno;
pub mod libc;
pub mod syscall;
pub mod thread;

/// Bytes of a page.
#[must_use]
pub fn page_bytes() -> usize {
    // SAFETY: `sysconf` with a valid name only returns a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Number of this process.
#[must_use]
pub fn process_id() -> u32 {
    // SAFETY: `getpid` has no precondition.
    unsafe { libc::getpid() }.cast_unsigned()
}

/// Nanoseconds of the monotonic clock.
#[must_use]
pub fn now_ns() -> u64 {
    let mut time = libc::Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

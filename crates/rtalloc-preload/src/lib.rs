//! The trace recorder: a library to be preloaded that writes down what a program asks of the C library's allocator.
//!
//! `rtalloc record` sets it up, reads the raw log it leaves ([`layout`]) and makes a trace of it. Every entry of the C library's
//! allocator is interposed and calls on to the C library under its `__libc_` name. `malloc_usable_size` and the rest need no
//! interposition: the blocks are the C library's.
//!
//! # What runs inside malloc
//!
//! Nothing that could allocate, lock, panic or look up a symbol: two atomic reads, the clock, one atomic addition and four stores
//! ([`log`]). `errno` is left alone. Every 8192 records one system call makes the next 256 KiB of the log accessible.
//!
//! # What is written when
//!
//! | call | before | after |
//! |---|---|---|
//! | `malloc`, `calloc`, `realloc(NULL, n)`, `reallocarray(NULL, ..)`, the aligned family | | allocate, or refused |
//! | `free(p)`, `realloc(p, 0)` | free | |
//! | `realloc(p, n)`, `reallocarray(p, ..)` | reallocate begin | reallocate end, or refused |
//! | `free(NULL)` | | |
//!
//! Giving back is written before the call and receiving after it, so that in the order of the records no address is ever
//! live twice, whatever the threads do. A request that fails is written as *refused*; it changes nothing.
//!
//! # What the recorded program notices
//!
//! Two variables in its environment, 8 GiB of address space (by default), and 16 bytes more in the C library's table of
//! thread-local storage for each thread, as with any library that has thread-local variables. A record costs some hundred
//! nanoseconds, of which the clock takes about forty and the file system's pages most of the rest.
//!
//! A program that forbids itself system calls (seccomp) must allow `mprotect` and `madvise`, or its sandbox ends it when the
//! log's next chunk is due.
//!
//! # Building
//!
//! With `panic=abort`, as the laboratory's build script compiles it, this is a library without `std`, of a few kilobytes. A workspace build,
//! where the profile says `panic=unwind`, links `std` for its panic runtime alone and is otherwise the same.

#![cfg_attr(panic = "abort", no_std)]

pub mod layout;
pub mod log;
pub mod system;
pub mod thread;

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use layout::{ALLOCATE, FREE, REALLOCATE_BEGIN, REALLOCATE_END, REALLOCATE_REFUSED, REFUSED};
use log::note;

/// Alignment that `malloc` guarantees, as a power of two: that of `max_align_t`, 16 bytes.
const MALLOC_ALIGN_LOG2: u8 = 4;

/// There is nothing to unwind and nobody to tell: a recorder that lost its way ends the process.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        /// Ends the process with SIGABRT.
        fn abort() -> !;
    }
    // SAFETY: abort has no precondition.
    unsafe { abort() }
}

/// Writes down the outcome of a request and hands it on.
fn received(block: *mut c_void, size: usize, align_log2: u8) -> *mut c_void {
    note(if block.is_null() { REFUSED } else { ALLOCATE }, align_log2, block, size);
    block
}

/// Interposes `malloc`.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: the caller's contract, handed on.
    received(unsafe { system::__libc_malloc(size) }, size, MALLOC_ALIGN_LOG2)
}

/// Interposes `calloc`.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract, handed on.
    let block = unsafe { system::__libc_calloc(count, size) };
    received(block, count.saturating_mul(size), MALLOC_ALIGN_LOG2)
}

/// Interposes `free`.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if !block.is_null() {
        note(FREE, 0, block, 0);
    }
    // SAFETY: the caller's contract, handed on.
    unsafe { system::__libc_free(block) }
}

/// Interposes `realloc`.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        // SAFETY: the caller's contract, handed on; realloc of nothing is malloc.
        return received(unsafe { system::__libc_realloc(block, size) }, size, MALLOC_ALIGN_LOG2);
    }
    if size == 0 {
        note(FREE, 0, block, 0);
        // SAFETY: the caller's contract, handed on; the C library frees and returns null.
        return unsafe { system::__libc_realloc(block, size) };
    }
    note(REALLOCATE_BEGIN, 0, block, size);
    // SAFETY: the caller's contract, handed on.
    let moved = unsafe { system::__libc_realloc(block, size) };
    if moved.is_null() {
        note(REALLOCATE_REFUSED, 0, block, size);
    } else {
        note(REALLOCATE_END, MALLOC_ALIGN_LOG2, moved, size);
    }
    moved
}

/// Interposes `reallocarray`: `realloc` with a product that must not overflow.
///
/// # Safety
///
/// As for `realloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's contract, handed on.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => {
            log::set_errno(system::NO_MEMORY);
            received(null_mut(), usize::MAX, MALLOC_ALIGN_LOG2)
        }
    }
}

/// Interposes `memalign`. The C library raises an alignment that is no power of two to the next one; so does the record.
///
/// # Safety
///
/// As in the C library's manual.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract, handed on.
    let block = unsafe { system::__libc_memalign(align, size) };
    received(block, size, ceiling_log2(align))
}

/// Interposes `aligned_alloc`, which is `memalign` in the C library.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract, handed on.
    unsafe { memalign(align, size) }
}

/// Interposes `posix_memalign`, which answers with an error number and leaves `errno` alone.
///
/// # Safety
///
/// As in POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return system::INVALID;
    }
    let errno = log::errno();
    // SAFETY: the caller's contract, handed on.
    let block = unsafe { memalign(align, size) };
    log::set_errno(errno);
    if block.is_null() {
        return system::NO_MEMORY;
    }
    // SAFETY: POSIX has the caller give a valid place for the result.
    unsafe { place.write(block) };
    0
}

/// Interposes `valloc`: page-aligned.
///
/// # Safety
///
/// As in the C library's manual.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    // SAFETY: the caller's contract, handed on.
    unsafe { memalign(page_bytes(), size) }
}

/// Interposes `pvalloc`: whole pages. The record holds the size rounded up, as that is what is asked for.
///
/// # Safety
///
/// As in the C library's manual.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    match size.checked_next_multiple_of(page_bytes()) {
        // SAFETY: the caller's contract, handed on.
        Some(bytes) => unsafe { memalign(page_bytes(), bytes) },
        None => {
            log::set_errno(system::NO_MEMORY);
            received(null_mut(), size, MALLOC_ALIGN_LOG2)
        }
    }
}

/// The page size of the system in bytes.
fn page_bytes() -> usize {
    // SAFETY: asks a number only.
    unsafe { system::sysconf(system::PAGE_SIZE) as usize }
}

/// The exponent of the smallest power of two that is not below `align`.
fn ceiling_log2(align: usize) -> u8 {
    (usize::BITS - align.saturating_sub(1).leading_zeros()) as u8
}

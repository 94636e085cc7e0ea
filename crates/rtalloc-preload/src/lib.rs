//! The trace recorder: a library that is preloaded and records every call to the C library's allocator.
//!
//! `rtalloc record` sets it up, reads the raw log it leaves ([`layout`]) and converts it to a trace. Every allocating
//! function of the C library is interposed and calls the C library under its `__libc_` name. `malloc_usable_size` and
//! the rest need no interposition: the blocks are the C library's.
//!
//! # What runs inside malloc
//!
//! Nothing that could allocate, lock, panic or look up a symbol: two atomic reads, the clock, one atomic addition and
//! four stores ([`log`]). `errno` is left alone. Every 8192 records one system call makes the next 256 KiB of the log
//! accessible.
//!
//! # What is recorded when
//!
//! | call | before | after |
//! |---|---|---|
//! | `malloc`, `calloc`, `realloc(NULL, n)`, `reallocarray(NULL, ..)`, the aligned family | | allocate, or refused |
//! | `free(p)`, `realloc(p, 0)` | free | |
//! | `realloc(p, n)`, `reallocarray(p, ..)` | reallocate begin | reallocate end, or refused |
//! | `free(NULL)` | | |
//!
//! A free is recorded before the call and an allocation after it. So in the order of the records no address is live
//! twice, whatever the threads do. A request that fails is recorded as *refused* and changes nothing.
//!
//! # What the recorded program notices
//!
//! Two variables in its environment, 8 GiB of address space (by default), and 16 bytes more in the C library's table of
//! thread-local storage for each thread, as with any library that has thread-local variables. A record costs some
//! hundred nanoseconds: the clock takes about forty, and the file system's pages most of the rest.
//!
//! A program that restricts its system calls (seccomp) must allow `mprotect` and `madvise`, or its sandbox ends it when
//! the next chunk of the log is due.
//!
//! # Building
//!
//! With `panic=abort`, as the laboratory's build script compiles it, this is a library without `std`, of a few
//! kilobytes. A workspace build has `panic=unwind`: it links `std` for its panic runtime alone and is otherwise the
//! same.

#![cfg_attr(panic = "abort", no_std)]

pub mod layout;
pub mod log;

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use layout::{ALLOCATE, FREE, REALLOCATE_BEGIN, REALLOCATE_END, REALLOCATE_REFUSED, REFUSED};
use log::note;
use rtalloc_sys::errno::{keeping_errno, set_errno};
use rtalloc_sys::libc::{EINVAL, ENOMEM};
use rtalloc_sys::page_bytes;

/// Alignment that `malloc` guarantees, as a power of two: that of `max_align_t`, 16 bytes.
const MALLOC_ALIGN_LOG2: u8 = 4;

// The C library's allocator under the names that are not interposed. Asking the dynamic linker for "the next malloc"
// would itself allocate, inside malloc.
#[link(name = "c")]
unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
}

/// Ends the process. There is nothing to unwind.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `abort` has no precondition.
    unsafe { rtalloc_sys::libc::abort() }
}

/// The dynamic linker calls this when it has loaded the library.
#[used]
// SAFETY: the section is a list of functions of this type, and `begin` uses nothing that is initialised later.
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = log::begin;

/// Records the outcome of a request and returns the block.
fn received(block: *mut c_void, size: usize, align_log2: u8) -> *mut c_void {
    note(if block.is_null() { REFUSED } else { ALLOCATE }, align_log2, block, size);
    block
}

/// Records a request whose size overflows, and refuses it.
fn overflowed(size: usize) -> *mut c_void {
    set_errno(ENOMEM);
    received(null_mut(), size, MALLOC_ALIGN_LOG2)
}

/// Interposes `malloc`.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: the C library's `malloc` takes any size.
    received(unsafe { __libc_malloc(size) }, size, MALLOC_ALIGN_LOG2)
}

/// Interposes `calloc`.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: the C library's `calloc` takes any count and size.
    let block = unsafe { __libc_calloc(count, size) };
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
    // SAFETY: `block` is null or a live block of the C library, which the caller may free.
    unsafe { __libc_free(block) }
}

/// Interposes `realloc`.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        // SAFETY: `realloc` of a null pointer is `malloc`, which takes any size.
        return received(unsafe { __libc_realloc(block, size) }, size, MALLOC_ALIGN_LOG2);
    }
    if size == 0 {
        note(FREE, 0, block, 0);
        // SAFETY: `block` is a live block of the C library. With size 0 it is freed, and the result is null.
        return unsafe { __libc_realloc(block, size) };
    }
    note(REALLOCATE_BEGIN, 0, block, size);
    // SAFETY: `block` is a live block of the C library, which the caller may reallocate.
    let moved = unsafe { __libc_realloc(block, size) };
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
        // SAFETY: `block` is null or a live block, which the caller may reallocate.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => overflowed(usize::MAX),
    }
}

/// Interposes `memalign`. The C library rounds an alignment up to a power of two; so does the record.
///
/// # Safety
///
/// As in the C library's manual.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    // SAFETY: the C library's `memalign` takes any alignment and size.
    let block = unsafe { __libc_memalign(align, size) };
    received(block, size, ceiling_log2(align))
}

/// Interposes `aligned_alloc`, which is `memalign` in the C library.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    // SAFETY: `memalign` takes any alignment and size.
    unsafe { memalign(align, size) }
}

/// Interposes `posix_memalign`, which returns an error number and leaves `errno` alone.
///
/// # Safety
///
/// As in POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    // SAFETY: `memalign` takes any alignment and size.
    let block = keeping_errno(|| unsafe { memalign(align, size) });
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: POSIX requires `place` to be valid for the result.
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
    // SAFETY: `memalign` takes any alignment and size.
    unsafe { memalign(page_bytes(), size) }
}

/// Interposes `pvalloc`: whole pages. The record has the size rounded up to pages.
///
/// # Safety
///
/// As in the C library's manual.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    match size.checked_next_multiple_of(page_bytes()) {
        // SAFETY: `memalign` takes any alignment and size.
        Some(bytes) => unsafe { memalign(page_bytes(), bytes) },
        None => overflowed(size),
    }
}

/// The exponent of the smallest power of two that is not below `align`.
fn ceiling_log2(align: usize) -> u8 {
    (usize::BITS - align.saturating_sub(1).leading_zeros()) as u8
}

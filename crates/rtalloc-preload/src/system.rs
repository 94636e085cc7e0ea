//! The few functions of the C library that a preloaded library calls, declared here so that it needs no dependency. This file is
//! part of two of them, the recorder and the allocator of `rtalloc-malloc`, which declares a few more.
//!
//! None of them allocates. The allocating entries are the C library's own `__libc_*` names: asking the dynamic linker for
//! "the next malloc" would itself allocate, inside malloc.

use core::ffi::{c_char, c_int, c_long, c_void};

#[link(name = "c")]
unsafe extern "C" {
    /// The C library's `malloc`, under the name that nobody interposes.
    pub fn __libc_malloc(size: usize) -> *mut c_void;
    /// The C library's `free`.
    pub fn __libc_free(block: *mut c_void);
    /// The C library's `calloc`.
    pub fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    /// The C library's `realloc`.
    pub fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    /// The C library's `memalign`.
    pub fn __libc_memalign(align: usize, size: usize) -> *mut c_void;

    /// Address of this thread's `errno`.
    pub fn __errno_location() -> *mut c_int;
    /// Opens a file.
    pub fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    /// Reads from a file.
    pub fn read(file: c_int, buffer: *mut c_void, count: usize) -> isize;
    /// Moves in a file; `SEEK_END` tells its length.
    pub fn lseek(file: c_int, offset: c_long, whence: c_int) -> c_long;
    /// Closes a file.
    pub fn close(file: c_int) -> c_int;
    /// Process number.
    pub fn getpid() -> c_int;
    /// Maps memory.
    pub fn mmap(at: *mut c_void, len: usize, access: c_int, flags: c_int, file: c_int, offset: c_long) -> *mut c_void;
    /// Unmaps memory.
    pub fn munmap(at: *mut c_void, len: usize) -> c_int;
    /// Changes the access to memory.
    pub fn mprotect(at: *mut c_void, len: usize, access: c_int) -> c_int;
    /// Advises the kernel about memory.
    pub fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int;
    /// Reads a clock; from user space through the vDSO.
    pub fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    /// Facts about the system, here the page size.
    pub fn sysconf(name: c_int) -> c_long;
}

/// `struct timespec` of 64-bit Linux.
#[repr(C)]
pub struct Timespec {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds of the started second.
    pub nanoseconds: i64,
}

/// `O_RDONLY | O_CLOEXEC`
pub const READ_ONLY: c_int = 0o2_000_000;
/// `O_RDWR | O_CLOEXEC`
pub const READ_WRITE: c_int = 0o2_000_002;
/// `SEEK_END`
pub const SEEK_END: c_int = 2;
/// `PROT_NONE`
pub const ACCESS_NONE: c_int = 0;
/// `PROT_READ | PROT_WRITE`
pub const ACCESS_BOTH: c_int = 3;
/// `MAP_SHARED | MAP_NORESERVE`
pub const MAP_LOG: c_int = 0x01 | 0x4000;
/// `MAP_PRIVATE | MAP_ANONYMOUS`
pub const MAP_OWN: c_int = 0x02 | 0x20;
/// `MADV_DONTFORK`: a child does not get the mapping at all.
pub const ADVICE_DONT_FORK: c_int = 10;
/// `MADV_DONTDUMP`: core dumps leave the mapping out.
pub const ADVICE_DONT_DUMP: c_int = 16;
/// `MADV_WIPEONFORK`: a child finds zeros (Linux 4.14).
pub const ADVICE_WIPE_ON_FORK: c_int = 18;
/// `MADV_POPULATE_WRITE`: makes pages writable now, an error instead of a later signal (Linux 5.14).
pub const ADVICE_POPULATE_WRITE: c_int = 23;
/// `CLOCK_MONOTONIC`
pub const CLOCK_MONOTONIC: c_int = 1;
/// `_SC_PAGESIZE`
pub const PAGE_SIZE: c_int = 30;
/// `EINVAL`
pub const INVALID: c_int = 22;
/// `ENOMEM`
pub const NO_MEMORY: c_int = 12;

/// Whether `mmap` failed.
#[must_use]
pub fn is_failed(mapping: *mut c_void) -> bool {
    mapping as isize == -1
}

//! The C library's functions that a preloaded library calls, declared here so that it needs no dependency, and their
//! constants under their C names. None of them allocates. None is a cancellation point as it is called, except `fputs`,
//! which is only called while no lock is held.

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

#[link(name = "c")]
unsafe extern "C" {
    /// Address of the calling thread's `errno`.
    pub fn __errno_location() -> *mut c_int;
    /// Any system call.
    pub fn syscall(number: c_long, ...) -> c_long;
    /// Number of the process.
    pub fn getpid() -> c_int;
    /// System configuration values, here the page size.
    pub fn sysconf(name: c_int) -> c_long;
    /// Limits of the process: soft and hard.
    pub fn getrlimit(resource: c_uint, limits: *mut [u64; 2]) -> c_int;
    /// Reads what a process or thread has used.
    pub fn getrusage(who: c_int, usage: *mut Rusage) -> c_int;
    /// Values that the kernel passed at program start.
    pub fn getauxval(kind: c_ulong) -> c_ulong;
    /// Reads a clock, in user space through the vDSO.
    pub fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;

    /// Maps memory.
    pub fn mmap(at: *mut c_void, len: usize, access: c_int, flags: c_int, file: c_int, offset: c_long) -> *mut c_void;
    /// Unmaps memory.
    pub fn munmap(at: *mut c_void, len: usize) -> c_int;
    /// Moves or resizes a mapping.
    pub fn mremap(at: *mut c_void, len: usize, new_len: usize, flags: c_int, ...) -> *mut c_void;
    /// Changes the access to memory.
    pub fn mprotect(at: *mut c_void, len: usize, access: c_int) -> c_int;
    /// Advises the kernel about memory.
    pub fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int;
    /// Writes one byte for each page: bit 0 is set if the page is in memory.
    pub fn mincore(at: *mut c_void, len: usize, present: *mut u8) -> c_int;
    /// Locks pages in memory.
    pub fn mlock(at: *const c_void, len: usize) -> c_int;

    /// Operations on an open file.
    pub fn fcntl(file: c_int, command: c_int, ...) -> c_int;
    /// Sets the offset in a file.
    pub fn lseek(file: c_int, offset: c_long, whence: c_int) -> c_long;
    /// Sets the length of a file.
    pub fn ftruncate(file: c_int, len: c_long) -> c_int;
    /// Removes a name of a file.
    pub fn unlink(path: *const c_char) -> c_int;
    /// Metadata of a file.
    pub fn statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, metadata: *mut Statx) -> c_int;
    /// Writes to a stream.
    pub fn fputs(text: *const c_char, stream: *mut c_void) -> c_int;

    /// Yields the processor.
    pub fn sched_yield() -> c_int;
    /// Ends the process with SIGABRT.
    pub fn abort() -> !;
    /// Ends the process at once.
    pub fn _exit(status: c_int) -> !;
    /// Creates a key for one word per thread, and registers its destructor.
    pub fn pthread_key_create(key: *mut c_uint, destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
    /// Sets the calling thread's word of a key.
    pub fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
    /// Registers functions that run around a fork.
    pub fn __register_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        library: *mut c_void,
    ) -> c_int;
    /// Locks the list of streams.
    pub fn _IO_list_lock();
    /// Unlocks the list of streams.
    pub fn _IO_list_unlock();
    /// Initialises the lock of the list of streams again.
    pub fn _IO_list_resetlock();

    /// The environment; null before the C library has initialised it.
    pub static environ: *const *const c_char;
    /// Not 0 if the process has certainly had one thread only.
    pub static __libc_single_threaded: c_char;
    /// Identifies this library to functions that register callbacks.
    pub static __dso_handle: c_char;
}

/// `struct timespec` of 64-bit Linux.
#[repr(C)]
pub struct Timespec {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds of the current second.
    pub nanoseconds: i64,
}

/// `struct rusage` of 64-bit Linux, of which only the page faults are used.
#[repr(C)]
pub struct Rusage {
    first: [i64; 8],
    /// Page faults without reading a file.
    pub minor_faults: i64,
    last: [i64; 9],
}

impl Rusage {
    /// All fields zero.
    pub const ZERO: Rusage = Rusage { first: [0; 8], minor_faults: 0, last: [0; 9] };
}

const _: () = assert!(size_of::<Rusage>() == 144, "the kernel writes 144 bytes");

/// `struct statx`, of which only the identity of the file is used.
#[repr(C, align(8))]
pub struct Statx {
    first: [u64; 4],
    /// Inode number.
    pub inode: u64,
    middle: [u64; 12],
    /// Major and minor number of the device.
    pub device: [u32; 2],
    last: [u64; 14],
}

impl Statx {
    /// All fields zero.
    pub const ZERO: Statx = Statx { first: [0; 4], inode: 0, middle: [0; 12], device: [0; 2], last: [0; 14] };
}

const _: () = assert!(core::mem::offset_of!(Statx, inode) == 32 && core::mem::offset_of!(Statx, device) == 136);
const _: () = assert!(size_of::<Statx>() == 256, "the kernel writes 256 bytes");

/// Defines constants, documented by their C names.
macro_rules! constants {
    ($type:ty: $($name:ident = $value:expr,)*) => {
        $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: $type = $value;)*
    };
}

constants! { c_int:
    EINVAL = 22,
    ENOMEM = 12,
    O_RDONLY = 0,
    O_WRONLY = 1,
    O_RDWR = 2,
    O_CREAT = 0o100,
    O_EXCL = 0o200,
    O_APPEND = 0o2000,
    O_CLOEXEC = 0o2_000_000,
    AT_FDCWD = -100,
    AT_EMPTY_PATH = 0x1000,
    SEEK_END = 2,
    RUSAGE_THREAD = 1,
    F_GETFD = 1,
    F_DUPFD_CLOEXEC = 1030,
    PROT_NONE = 0,
    PROT_READ = 1,
    PROT_WRITE = 2,
    MAP_SHARED = 0x01,
    MAP_PRIVATE = 0x02,
    MAP_FIXED = 0x10,
    MAP_ANONYMOUS = 0x20,
    MAP_NORESERVE = 0x4000,
    MREMAP_MAYMOVE = 1,
    MREMAP_FIXED = 2,
    MADV_DONTNEED = 4,
    MADV_DONTFORK = 10,
    MADV_NOHUGEPAGE = 15,
    MADV_DONTDUMP = 16,
    MADV_WIPEONFORK = 18,
    MADV_POPULATE_WRITE = 23,
    CLOCK_MONOTONIC = 1,
    _SC_PAGESIZE = 30,
}
constants! { c_uint:
    STATX_INO = 0x100,
    RLIMIT_AS = 9,
}
constants! { c_ulong:
    AT_SECURE = 23,
}

/// Pages that may be read and written.
pub const PROT_READ_WRITE: c_int = PROT_READ | PROT_WRITE;
/// Memory that is the process' own.
pub const MAP_MEMORY: c_int = MAP_PRIVATE | MAP_ANONYMOUS;

/// Whether `mmap` or `mremap` returned `MAP_FAILED`.
#[must_use]
pub fn is_failed(mapping: *mut c_void) -> bool {
    mapping as isize == -1
}

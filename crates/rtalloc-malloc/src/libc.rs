//! What this library calls of the C library besides what the recorder does ([`system`](crate::system)). None of it allocates.

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

#[link(name = "c")]
unsafe extern "C" {
    /// The environment; null before the C library has set it up.
    pub static environ: *const *const c_char;

    /// Does something about a file that is open.
    pub fn fcntl(file: c_int, command: c_int, ...) -> c_int;
    /// Writes to a file.
    pub fn write(file: c_int, buffer: *const c_void, count: usize) -> isize;
    /// Ends the process with SIGABRT.
    pub fn abort() -> !;
    /// Ends the process at once.
    pub fn _exit(status: c_int) -> !;
    /// Moves or resizes a mapping.
    pub fn mremap(at: *mut c_void, len: usize, new_len: usize, flags: c_int, ...) -> *mut c_void;
    /// Takes a file's name away.
    pub fn unlink(path: *const c_char) -> c_int;
    /// Sets a file's length.
    pub fn ftruncate(file: c_int, len: c_long) -> c_int;
    /// Keeps pages in memory.
    pub fn mlock(at: *const c_void, len: usize) -> c_int;
    /// Lets others run.
    pub fn sched_yield() -> c_int;
    /// Sleeps.
    pub fn nanosleep(time: *const super::system::Timespec, left: *mut super::system::Timespec) -> c_int;
    /// Any system call.
    pub fn syscall(number: c_long, ...) -> c_long;
    /// What the kernel said when the program began.
    pub fn getauxval(kind: c_ulong) -> c_ulong;
    /// A key for a word of each thread, and what is called with it when a thread ends.
    pub fn pthread_key_create(key: *mut c_uint, at_end: Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
    /// Sets this thread's word.
    pub fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
    /// Functions to be called around a fork.
    pub fn __register_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        library: *mut c_void,
    ) -> c_int;
    /// Whether the process has had one thread only, for certain.
    pub static __libc_single_threaded: c_char;
    /// Locks the list of streams.
    pub fn _IO_list_lock();
    /// Unlocks it.
    pub fn _IO_list_unlock();
    /// Makes its lock anew.
    pub fn _IO_list_resetlock();
    /// A limit of the system's for this process, and the highest that it may be set to, in the place.
    pub fn getrlimit(what: c_uint, limits: *mut [u64; 2]) -> c_int;
    /// Facts about a file.
    pub fn statx(folder: c_int, path: *const c_char, flags: c_int, which: c_uint, facts: *mut Facts) -> c_int;
    /// Writes to a stream.
    pub fn fputs(text: *const c_char, stream: *mut c_void) -> c_int;

    /// This library, for those who register something of it.
    pub static __dso_handle: c_char;
}

/// `struct statx`, of which this library wants to know which file it is.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct Facts {
    first: [u64; 4],
    /// The file's number.
    pub number: u64,
    middle: [u64; 12],
    /// Of which device.
    pub device: [u32; 2],
    last: [u64; 14],
}

impl Facts {
    /// A place for them.
    pub const NONE: Facts = Facts { first: [0; 4], number: 0, middle: [0; 12], device: [0; 2], last: [0; 14] };
}

const _: () = assert!(core::mem::offset_of!(Facts, number) == 32 && core::mem::offset_of!(Facts, device) == 136);
const _: () = assert!(size_of::<Facts>() == 256, "that of the kernel");

/// `RLIMIT_AS`: bytes of address space.
pub const ADDRESS_SPACE: c_uint = 9;
/// `AT_EMPTY_PATH`: about the open file itself.
pub const OPEN_FILE: c_int = 0x1000;
/// `STATX_INO`
pub const FILE_NUMBER: c_uint = 0x100;
/// At the place that is given: `MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED`.
pub const MAP_HERE: c_int = 0x02 | 0x20 | 0x10;
/// `MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE`: nothing is promised to this mapping before it is written.
pub const MAP_UNRESERVED: c_int = 0x02 | 0x20 | 0x4000;
/// `MREMAP_MAYMOVE | MREMAP_FIXED`
pub const MOVE_THERE: c_int = 1 | 2;
/// `MADV_DONTNEED`: the pages are given back; they read as zeros.
pub const ADVICE_DONT_NEED: c_int = 4;
/// `MADV_NOHUGEPAGE`
pub const ADVICE_SMALL_PAGES: c_int = 15;
/// `F_GETFD`: asks what is said of a file, and thereby whether it is open.
pub const IS_OPEN: c_int = 1;
/// `F_DUPFD_CLOEXEC`: another number for a file, not below the one that is given.
pub const ANOTHER_NUMBER: c_int = 1030;
/// `O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC`
pub const APPEND: c_int = 0o1 | 0o100 | 0o2000 | 0o2_000_000;
/// `O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC`
pub const CREATE_NEW: c_int = 0o2 | 0o100 | 0o200 | 0o2_000_000;
/// `MAP_SHARED`
pub const MAP_FILE: c_int = 0x01;
/// `MAP_SHARED | MAP_FIXED`
pub const MAP_FILE_HERE: c_int = 0x01 | 0x10;
/// `AT_SECURE`: the program has more rights than who runs it.
pub const SECURE: c_ulong = 23;
/// The number of the system call `membarrier`.
#[cfg(target_arch = "x86_64")]
pub const MEMBARRIER: c_long = 324;
/// The number of the system call `membarrier`.
#[cfg(target_arch = "aarch64")]
pub const MEMBARRIER: c_long = 283;
/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED`: a full barrier in every running thread of this process.
pub const BARRIER_EVERYWHERE: c_int = 1 << 3;
/// `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED`
pub const BARRIER_ANNOUNCED: c_int = 1 << 4;

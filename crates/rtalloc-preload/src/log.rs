//! Writes the raw log: attaches to it, and reserves and fills records, without a lock.
//!
//! # Protocol
//!
//! The first allocation of the process attaches (`attach`). It may come before any constructor, because the dynamic
//! linker allocates through this library. A program that allocates nothing is attached by the constructor ([`begin`]).
//! A record is then written in four steps: read the clock, add one to [`Header::next`], fill the record of that index,
//! store its tag. The atomic addition orders the records of all threads as blocks change owners: a free takes its index
//! before the block is free, an allocation after the block is allocated.
//!
//! # The mapping
//!
//! The whole file is mapped once. Only its first page is accessible; chunks are made accessible as the records advance.
//! So the program may close or renumber file descriptors and change its root or user, and a real-time program that
//! calls `mlockall` does not pull gigabytes of holes into memory. The pages of a chunk are populated
//! (`MADV_POPULATE_WRITE`) before the first store: a full disk is then an error code that ends the recording, not a
//! SIGBUS that ends the program. Kernels before 5.14 lack that error code.
//!
//! # Fork, vfork, exec
//!
//! `Local` is on a page that the kernel clears in a forked child, and the log itself is not inherited: at its first
//! allocation a child finds the page cleared and stops recording. A `vfork`ed child runs in its parent's memory, so its
//! operations change the parent's heap and are recorded as the parent's. A program started by `exec` in the owning
//! process attaches to the same log and starts a new sequence of records; any other process finds the log owned and
//! does not record.

use crate::layout::{
    HEADER_BYTES, Header, LOG_VARIABLE, MAGIC, REALLOCATE_BEGIN, RECORD_BYTES, Record, STATUS_DISK_FULL,
    STATUS_KERNEL_TOO_OLD, STATUS_LIMIT, STATUS_WHOLE, tag,
};
use core::ffi::{CStr, c_int, c_void};
use core::ptr::{self, NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use rtalloc_sys::errno::{errno, keeping_errno};
use rtalloc_sys::libc::{
    self, MAP_MEMORY, MAP_NORESERVE, MAP_SHARED, O_CLOEXEC, O_RDONLY, O_RDWR, PROT_NONE, PROT_READ_WRITE,
};
use rtalloc_sys::{now_ns, page_bytes, process_id, syscall, thread};

/// Records that are made accessible at once: 256 KiB of log.
const CHUNK_RECORDS: u64 = 8192;

/// Smallest log worth mapping when address space is scarce.
const SMALLEST_LOG_BYTES: usize = 1 << 20;

/// The state of recording in this process. In a forked child every field is zero.
struct Local {
    /// One of the modes below.
    mode: AtomicU32,
    /// Records before this index are accessible: filling them cannot fault. Never decreases.
    ready: AtomicU64,
    /// The mapped log; never null while the mode is [`RECORDING`].
    log: AtomicPtr<Header>,
    /// Records that fit into the mapping.
    capacity: AtomicU64,
}

/// A forked child before its first allocation: the kernel cleared the page.
const CLEARED: u32 = 0;
/// Records are being written.
const RECORDING: u32 = 1;
/// Recording stopped for the reason in the log's status; operations are only counted.
const STOPPED: u32 = 2;

/// Value of [`STATE`]: no allocation yet.
const UNTOUCHED: usize = 0;
/// Value of [`STATE`]: one thread is attaching.
const ATTACHING: usize = 1;
/// Value of [`STATE`]: this process does not record.
const OFF: usize = 2;

/// One of the three values above, or the address of this process's [`Local`].
static STATE: AtomicUsize = AtomicUsize::new(UNTOUCHED);

/// Writes one record, if this process records.
pub fn note(kind: u8, align_log2: u8, address: *mut c_void, size: usize) {
    let state = STATE.load(Ordering::Acquire);
    let state = if state == UNTOUCHED { attach() } else { state };
    if state == ATTACHING || state == OFF {
        return;
    }
    // SAFETY: every other value of STATE is the address of a `Local` that is never unmapped.
    let local = unsafe { &*ptr::with_exposed_provenance::<Local>(state) };
    match local.mode.load(Ordering::Acquire) {
        RECORDING => {}
        CLEARED => return STATE.store(OFF, Ordering::Release),
        _ => return count_lost(local, kind),
    }
    let tick_ns = now_ns();
    let log = local.log.load(Ordering::Relaxed);
    // SAFETY: while the mode is RECORDING, `log` is the mapped header, whose page is accessible.
    let header = unsafe { &*log };
    let thread = thread_number(header);
    let index = header.next.fetch_add(1, Ordering::Relaxed);
    if index >= local.ready.load(Ordering::Acquire) && !make_ready(local, header, index) {
        return count_lost(local, kind);
    }
    // SAFETY: `index < ready <= capacity`, so the record is inside the mapping and accessible. No other call has this
    // index, because `next` was incremented atomically.
    unsafe {
        let record = log.byte_add(HEADER_BYTES).cast::<Record>().add(index as usize);
        (&raw mut (*record).address).write(address as u64);
        (&raw mut (*record).size).write(size as u64);
        (&raw mut (*record).tick_ns).write(tick_ns);
        (*record).tag.store(tag(kind, align_log2, thread), Ordering::Release);
    }
}

/// This thread's number in the current program, counted from 0: its word minus one.
fn thread_number(header: &Header) -> u32 {
    match thread::word() {
        0 => {
            let number = header.threads.fetch_add(1, Ordering::Relaxed);
            thread::set_word(u64::from(number) + 1);
            number
        }
        word => (word - 1) as u32,
    }
}

/// Counts an operation that is not recorded: once, though a reallocation has two records.
#[cold]
fn count_lost(local: &Local, kind: u8) {
    if kind == REALLOCATE_BEGIN {
        return;
    }
    // SAFETY: the mode is or was RECORDING, so the header is mapped and accessible.
    let header = unsafe { &*local.log.load(Ordering::Relaxed) };
    header.lost.fetch_add(1, Ordering::Relaxed);
}

/// Makes all records up to the end of the chunk of `index` accessible. False if there is no room; recording has then
/// stopped.
///
/// Several threads may do this for the same chunk at the same time: every step is idempotent.
#[cold]
fn make_ready(local: &Local, header: &Header, index: u64) -> bool {
    let capacity = local.capacity.load(Ordering::Relaxed);
    let end = ((index / CHUNK_RECORDS + 1) * CHUNK_RECORDS).min(capacity);
    let status = if index >= capacity {
        STATUS_LIMIT
    } else {
        // From the end of the accessible part, not from the start of this chunk: every record below `ready` must be
        // accessible.
        let ready = local.ready.load(Ordering::Acquire).min(end);
        let from = HEADER_BYTES + ready as usize * RECORD_BYTES;
        let to = HEADER_BYTES + end as usize * RECORD_BYTES;
        if make_accessible(ptr::from_ref(header).cast_mut().cast(), from, to) {
            local.ready.fetch_max(end, Ordering::AcqRel);
            return true;
        }
        STATUS_DISK_FULL
    };
    stop(local, header, status);
    false
}

/// Stops recording in this process and stores the reason in the log.
#[cold]
fn stop(local: &Local, header: &Header, status: u32) {
    let _ = header.status.compare_exchange(STATUS_WHOLE, status, Ordering::Relaxed, Ordering::Relaxed);
    local.mode.store(STOPPED, Ordering::Release);
}

/// Makes the bytes `from..to` of the mapping at `base` accessible. False if the file system has no room for them.
#[cold]
fn make_accessible(base: *mut c_void, from: usize, to: usize) -> bool {
    keeping_errno(|| {
        let page = page_bytes();
        let from = from / page * page;
        let to = to.next_multiple_of(page);
        // SAFETY: the range is in the log's mapping, whose length is a multiple of the page. It is not unmapped once it
        // is in use.
        unsafe {
            let start = base.byte_add(from);
            if libc::mprotect(start, to - from, PROT_READ_WRITE) != 0 {
                return false;
            }
            // EINVAL: the kernel is older than this advice. Pages are then allocated at their first store.
            libc::madvise(start, to - from, libc::MADV_POPULATE_WRITE) == 0 || errno() == libc::EINVAL
        }
    })
}

/// Attaches unless an allocation already did: a program that allocates nothing has a recording too.
pub extern "C" fn begin() {
    if STATE.load(Ordering::Acquire) == UNTOUCHED {
        attach();
    }
}

/// First allocation of the process: maps the log, if there is one. Returns the new state.
///
/// Creating a thread allocates, so no second thread exists yet. If one was created by other means, it is not recorded
/// while this runs.
#[cold]
fn attach() -> usize {
    if let Err(other) = STATE.compare_exchange(UNTOUCHED, ATTACHING, Ordering::Acquire, Ordering::Acquire) {
        return other;
    }
    let state = keeping_errno(|| map_log().map_or(OFF, |local| local.as_ptr().expose_provenance()));
    STATE.store(state, Ordering::Release);
    state
}

/// Maps the log that the environment names and takes ownership of it. `None` if this process does not record.
fn map_log() -> Option<NonNull<Local>> {
    let mut path = [0; 4096];
    let path = log_path(&mut path)?;
    // SAFETY: `path` ends with a zero. The descriptor is used only here, and closed.
    let (base, mapped_bytes) = unsafe {
        let file = syscall::open(path.as_ptr(), O_RDWR | O_CLOEXEC, 0);
        if file < 0 {
            return None;
        }
        let file_bytes = usize::try_from(libc::lseek(file, 0, libc::SEEK_END)).unwrap_or(0);
        let mapping = map_as_much_as_possible(file, file_bytes);
        syscall::close(file);
        mapping?
    };
    let header = base.cast::<Header>();
    let taken = make_accessible(base, 0, HEADER_BYTES) && {
        // SAFETY: the header's page is mapped and accessible.
        let header = unsafe { &*header };
        header.magic == MAGIC && take_over(header)
    };
    if !taken {
        // SAFETY: the mapping was made above, and no reference into it exists.
        unsafe { libc::munmap(base, mapped_bytes) };
        return None;
    }
    // SAFETY: the header's page is mapped and accessible, and is not unmapped from here on. All fields that change are
    // atomic.
    let header = unsafe { &*header };
    let capacity = ((mapped_bytes - HEADER_BYTES) / RECORD_BYTES) as u64;
    // MADV_DONTDUMP may fail: it only keeps core dumps small. MADV_DONTFORK must not: a child would write to the log.
    // SAFETY: the advice is for the mapping made above.
    let kept_from_children = unsafe {
        libc::madvise(base, mapped_bytes, libc::MADV_DONTDUMP);
        libc::madvise(base, mapped_bytes, libc::MADV_DONTFORK) == 0
    };
    let local = kept_from_children.then(map_local).flatten();
    let Some(local) = local else {
        header.status.store(STATUS_KERNEL_TOO_OLD, Ordering::Relaxed);
        return None;
    };
    // SAFETY: `local` is a new page of zeros, which is a valid `Local`.
    let fresh = unsafe { local.as_ref() };
    fresh.log.store(base.cast(), Ordering::Relaxed);
    fresh.capacity.store(capacity, Ordering::Relaxed);
    fresh.mode.store(RECORDING, Ordering::Release);
    Some(local)
}

/// Maps `file_bytes` of the file; if the process's limit of address space forbids it, half of that, a quarter, and so
/// on.
fn map_as_much_as_possible(file: c_int, file_bytes: usize) -> Option<(*mut c_void, usize)> {
    let page = page_bytes();
    let mut length = file_bytes / page * page;
    while length >= SMALLEST_LOG_BYTES {
        // SAFETY: the kernel chooses the address of the mapping, so it replaces none.
        let base = unsafe { libc::mmap(null_mut(), length, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0) };
        if !libc::is_failed(base) {
            return Some((base, length));
        }
        length = length / 2 / page * page;
    }
    None
}

/// A page of zeros that the kernel clears in every forked child.
fn map_local() -> Option<NonNull<Local>> {
    // SAFETY: the kernel chooses the address of the mapping, so it replaces none. The advice is for that mapping.
    unsafe {
        let page = page_bytes();
        let at = libc::mmap(null_mut(), page, PROT_READ_WRITE, MAP_MEMORY, -1, 0);
        if libc::is_failed(at) || libc::madvise(at, page, libc::MADV_WIPEONFORK) != 0 {
            return None;
        }
        NonNull::new(at.cast())
    }
}

/// Makes this process the owner of the log. False if another process is.
fn take_over(header: &Header) -> bool {
    let process = process_id();
    match header.owner.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {}
        // The same process after an `exec`: its heap is gone.
        Err(owner) if owner == process => {
            header.first.store(header.next.load(Ordering::Relaxed), Ordering::Relaxed);
            header.threads.store(0, Ordering::Relaxed);
        }
        Err(_) => return false,
    }
    header.programs.fetch_add(1, Ordering::Relaxed);
    true
}

/// Copies the value of [`LOG_VARIABLE`] into `path`.
///
/// The first allocation comes before the C library has initialised `environ`, so the variable is read from the kernel.
fn log_path(path: &mut [u8; 4096]) -> Option<&CStr> {
    // SAFETY: the literal ends with a zero.
    let file = unsafe { syscall::open(c"/proc/self/environ".as_ptr(), O_RDONLY | O_CLOEXEC, 0) };
    if file < 0 {
        return None;
    }
    let mut search = Search::Name(0);
    let mut chunk = [0; 1024];
    'reading: loop {
        // SAFETY: `chunk` is writable for its length.
        let count = unsafe { syscall::read(file, chunk.as_mut_ptr().cast(), chunk.len()) };
        let Some(bytes) = usize::try_from(count).ok().filter(|&count| count > 0).and_then(|count| chunk.get(..count))
        else {
            break;
        };
        for &byte in bytes {
            search.feed(byte, path);
            if let Search::Done(_) = search {
                break 'reading;
            }
        }
    }
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { syscall::close(file) };
    match search {
        Search::Done(length) => CStr::from_bytes_with_nul(path.get(..length)?).ok(),
        _ => None,
    }
}

/// State of the search through the environment.
enum Search {
    /// In a variable's name, of which this many bytes match.
    Name(usize),
    /// In another variable.
    Other,
    /// In the value, of which this many bytes are copied.
    Value(usize),
    /// The value is complete; its length in bytes, with the final zero.
    Done(usize),
}

impl Search {
    /// Processes the next byte of the environment, a sequence of `NAME=VALUE` that end with zeros.
    fn feed(&mut self, byte: u8, path: &mut [u8; 4096]) {
        *self = match *self {
            Self::Name(matched) => match LOG_VARIABLE.as_bytes().get(matched) {
                Some(&expected) if expected == byte => Self::Name(matched + 1),
                None if byte == b'=' => Self::Value(0),
                _ if byte == 0 => Self::Name(0),
                _ => Self::Other,
            },
            Self::Other if byte == 0 => Self::Name(0),
            Self::Other => Self::Other,
            Self::Value(length) => match path.get_mut(length) {
                Some(place) => {
                    *place = byte;
                    if byte == 0 { Self::Done(length + 1) } else { Self::Value(length + 1) }
                }
                // Longer than any path.
                None => Self::Other,
            },
            Self::Done(length) => Self::Done(length),
        }
    }
}

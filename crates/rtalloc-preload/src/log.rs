//! The writing end of the raw log: attaching to it, and taking and filling records, without a lock.
//!
//! # Protocol
//!
//! The first allocation of the process attaches (`attach`); this is before any constructor, as the dynamic linker itself
//! allocates through us. From then on a record is: read the clock, add one to [`Header::next`], fill the record of
//! that index, store its tag. One atomic addition orders the records of all threads, and it is the same order in which
//! blocks change hands: who frees takes his index before the block is free, who allocates takes his after it is his.
//!
//! # The mapping
//!
//! The whole file is mapped once, inaccessible but for the first page, and made accessible chunk by chunk as the records
//! advance. So no file descriptor has to survive in a program that closes or renumbers them, no path in one that changes root or
//! user; and a real-time program that locks its memory with `mlockall` does not pull gigabytes of holes into memory. A chunk's pages are asked
//! for (`MADV_POPULATE_WRITE`) before the first store: a full disk is then an error code that ends the recording,
//! not a SIGBUS that ends the program. On kernels before 5.14 only the error code is missing.
//!
//! # Fork, vfork, exec
//!
//! `Local` is on a page that the kernel clears in a forked child, and the log itself is not inherited: a child notices at
//! its first allocation that it is one, and leaves. A `vfork`ed child works in its parent's memory, so what it
//! does to the heap is the parent's and is recorded as such. A program started by `exec` in the owning process attaches to the
//! same log and begins anew there; any other process finds the log owned and passes everything through.

use crate::layout::{
    HEADER_BYTES, Header, LOG_VARIABLE, MAGIC, REALLOCATE_BEGIN, RECORD_BYTES, Record, STATUS_DISK_FULL,
    STATUS_KERNEL_TOO_OLD, STATUS_LIMIT, STATUS_WHOLE, tag,
};
use crate::{system, thread};
use core::ffi::{CStr, c_int, c_void};
use core::ptr::{self, NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Records that are made accessible at once: 256 KiB of log.
const CHUNK_RECORDS: u64 = 8192;

/// Smallest log worth mapping when address space is scarce.
const SMALLEST_LOG_BYTES: usize = 1 << 20;

/// What this process does about the log. In a forked child every field is zero again.
struct Local {
    /// One of the modes below.
    mode: AtomicU32,
    /// Records before this index are accessible, so that filling them cannot fault. Never decreases.
    ready: AtomicU64,
    /// The mapped log; never null while the mode is [`RECORDING`].
    log: AtomicPtr<Header>,
    /// Records that fit into the mapping.
    capacity: AtomicU64,
}

/// A forked child before it noticed: the kernel cleared the page.
const CLEARED: u32 = 0;
/// Records are being written.
const RECORDING: u32 = 1;
/// Recording ended for the reason in the log's status; operations are only counted.
const STOPPED: u32 = 2;

/// Life of [`STATE`]: no allocation yet.
const UNTOUCHED: usize = 0;
/// Life of [`STATE`]: one thread attaches.
const ATTACHING: usize = 1;
/// Life of [`STATE`]: this process does not record.
const OFF: usize = 2;

/// One of the three values above, or the address of this process' [`Local`].
static STATE: AtomicUsize = AtomicUsize::new(UNTOUCHED);

/// Nanoseconds of the monotonic clock.
fn now_ns() -> u64 {
    let mut time = system::Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { system::clock_gettime(system::CLOCK_MONOTONIC, &raw mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Writes one record, if this process records.
pub fn note(kind: u8, align_log2: u8, address: *mut c_void, size: usize) {
    let state = STATE.load(Ordering::Acquire);
    let state = if state == UNTOUCHED { attach() } else { state };
    if state == ATTACHING || state == OFF {
        return;
    }
    // SAFETY: every other value of STATE is the address of a Local that is never unmapped.
    let local = unsafe { &*ptr::with_exposed_provenance::<Local>(state) };
    match local.mode.load(Ordering::Acquire) {
        RECORDING => {}
        CLEARED => return STATE.store(OFF, Ordering::Release),
        _ => return count_lost(local, kind),
    }
    let tick_ns = now_ns();
    let log = local.log.load(Ordering::Relaxed);
    // SAFETY: while the mode is RECORDING, `log` is the mapped header, whose page was made accessible first of all.
    let header = unsafe { &*log };
    let thread = thread_number(header);
    let index = header.next.fetch_add(1, Ordering::Relaxed);
    if index >= local.ready.load(Ordering::Acquire) && !make_ready(local, header, index) {
        return count_lost(local, kind);
    }
    // SAFETY: `index < ready <= capacity`, so the record is inside the mapping and accessible; the addition above gave the index
    // to this call alone.
    unsafe {
        let record = log.byte_add(HEADER_BYTES).cast::<Record>().add(index as usize);
        (&raw mut (*record).address).write(address as u64);
        (&raw mut (*record).size).write(size as u64);
        (&raw mut (*record).tick_ns).write(tick_ns);
        (*record).tag.store(tag(kind, align_log2, thread), Ordering::Release);
    }
}

/// The dense number of this thread in the program now running: its word minus one.
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

/// Counts an operation that found the log full: one, though a reallocation has two records.
#[cold]
fn count_lost(local: &Local, kind: u8) {
    if kind == REALLOCATE_BEGIN {
        return;
    }
    // SAFETY: the mode was RECORDING before it was STOPPED, so the header is mapped and accessible.
    let header = unsafe { &*local.log.load(Ordering::Relaxed) };
    header.lost.fetch_add(1, Ordering::Relaxed);
}

/// Makes all records up to the end of `index`' chunk accessible; false if there is no room, and recording has stopped.
///
/// Several threads may do this for the same chunk at once: each step may be done twice without harm.
#[cold]
fn make_ready(local: &Local, header: &Header, index: u64) -> bool {
    let capacity = local.capacity.load(Ordering::Relaxed);
    let end = ((index / CHUNK_RECORDS + 1) * CHUNK_RECORDS).min(capacity);
    let status = if index >= capacity {
        STATUS_LIMIT
    } else {
        // From where the accessible part ends, not from where this chunk begins: no record below `ready` may be left out.
        let ready = local.ready.load(Ordering::Acquire).min(end);
        let from = HEADER_BYTES + ready as usize * RECORD_BYTES;
        let to = HEADER_BYTES + end as usize * RECORD_BYTES;
        if open_up(ptr::from_ref(header).cast_mut().cast(), from, to) {
            local.ready.fetch_max(end, Ordering::AcqRel);
            return true;
        }
        STATUS_DISK_FULL
    };
    stop(local, header, status);
    false
}

/// Ends the recording of this process and leaves the reason in the log.
#[cold]
fn stop(local: &Local, header: &Header, status: u32) {
    let _ = header.status.compare_exchange(STATUS_WHOLE, status, Ordering::Relaxed, Ordering::Relaxed);
    local.mode.store(STOPPED, Ordering::Release);
}

/// Makes the bytes `from..to` of the mapping at `base` accessible and sees that the file system has room for them.
#[cold]
fn open_up(base: *mut c_void, from: usize, to: usize) -> bool {
    keeping_errno(|| {
        // SAFETY: asks a number only.
        let page = unsafe { system::sysconf(system::PAGE_SIZE) } as usize;
        let from = from / page * page;
        let to = to.next_multiple_of(page);
        // SAFETY: the range lies in the log's own mapping, whose length is a multiple of the page; nobody else maps or
        // unmaps there.
        unsafe {
            let start = base.byte_add(from);
            if system::mprotect(start, to - from, system::ACCESS_BOTH) != 0 {
                return false;
            }
            // An old kernel does not know the advice (EINVAL): the pages come at their first store then.
            system::madvise(start, to - from, system::ADVICE_POPULATE_WRITE) == 0 || errno() == system::INVALID
        }
    })
}

/// The calling thread's `errno`.
pub fn errno() -> c_int {
    // SAFETY: the C library gives a valid address for the calling thread.
    unsafe { *system::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set_errno(value: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *system::__errno_location() = value }
}

/// Runs `work` and puts `errno` back: free promises to leave it alone, and a successful malloc should.
fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}

/// First allocation of the process: finds the log, or settles that there is none. Returns the new state.
///
/// No second thread can exist yet, as creating one allocates; should one appear by other means, it passes through while this
/// runs.
#[cold]
fn attach() -> usize {
    if let Err(other) = STATE.compare_exchange(UNTOUCHED, ATTACHING, Ordering::Acquire, Ordering::Acquire) {
        return other;
    }
    let state = keeping_errno(|| map_log().map_or(OFF, |local| local.as_ptr().expose_provenance()));
    STATE.store(state, Ordering::Release);
    state
}

/// Maps the log that the environment names and takes it over, or returns nothing if this process does not record.
fn map_log() -> Option<NonNull<Local>> {
    let mut path = [0; 4096];
    let path = log_path(&mut path)?;
    // SAFETY: `path` ends with a zero; the descriptor is closed below and seen by nobody else.
    let (base, mapped_bytes) = unsafe {
        let file = system::open(path.as_ptr(), system::READ_WRITE);
        if file < 0 {
            return None;
        }
        let file_bytes = usize::try_from(system::lseek(file, 0, system::SEEK_END)).unwrap_or(0);
        let mapping = map_as_much_as_possible(file, file_bytes);
        system::close(file);
        mapping?
    };
    let header = base.cast::<Header>();
    let taken = open_up(base, 0, HEADER_BYTES) && {
        // SAFETY: the header's page is mapped and now accessible.
        let header = unsafe { &*header };
        header.magic == MAGIC && take_over(header)
    };
    if !taken {
        // SAFETY: the mapping was made above and no reference into it is left.
        unsafe { system::munmap(base, mapped_bytes) };
        return None;
    }
    // SAFETY: as above, and the owner may write.
    let header = unsafe { &*header };
    let capacity = ((mapped_bytes - HEADER_BYTES) / RECORD_BYTES) as u64;
    // SAFETY: the advice concerns the mapping just made. A core dump without the log is a convenience, so its
    // refusal is ignored; a child with the log is not.
    let kept_from_children = unsafe {
        system::madvise(base, mapped_bytes, system::ADVICE_DONT_DUMP);
        system::madvise(base, mapped_bytes, system::ADVICE_DONT_FORK) == 0
    };
    let local = kept_from_children.then(map_local).flatten();
    let Some(local) = local else {
        header.status.store(STATUS_KERNEL_TOO_OLD, Ordering::Relaxed);
        return None;
    };
    // SAFETY: `map_local` gave a page of zeros, which is a valid Local, to this call alone.
    let fresh = unsafe { local.as_ref() };
    fresh.log.store(base.cast(), Ordering::Relaxed);
    fresh.capacity.store(capacity, Ordering::Relaxed);
    fresh.mode.store(RECORDING, Ordering::Release);
    Some(local)
}

/// Maps `file_bytes` of the file, or half of it, or a quarter, until the address space limit of the process allows it.
fn map_as_much_as_possible(file: c_int, file_bytes: usize) -> Option<(*mut c_void, usize)> {
    // SAFETY: asks a number only.
    let page = unsafe { system::sysconf(system::PAGE_SIZE) } as usize;
    let mut length = file_bytes / page * page;
    while length >= SMALLEST_LOG_BYTES {
        // SAFETY: a new mapping at a place of the kernel's choice disturbs nothing.
        let base = unsafe { system::mmap(null_mut(), length, system::ACCESS_NONE, system::MAP_LOG, file, 0) };
        if !system::is_failed(base) {
            return Some((base, length));
        }
        length = length / 2 / page * page;
    }
    None
}

/// A page of zeros that is zeros again in every forked child.
fn map_local() -> Option<NonNull<Local>> {
    // SAFETY: a new mapping at a place of the kernel's choice disturbs nothing, and the advice is for that mapping.
    unsafe {
        let page = system::sysconf(system::PAGE_SIZE) as usize;
        let at = system::mmap(null_mut(), page, system::ACCESS_BOTH, system::MAP_OWN, -1, 0);
        if system::is_failed(at) || system::madvise(at, page, system::ADVICE_WIPE_ON_FORK) != 0 {
            return None;
        }
        NonNull::new(at.cast())
    }
}

/// Makes this process the owner of the log, or returns false if another one is.
fn take_over(header: &Header) -> bool {
    // SAFETY: asks a number only.
    let process = unsafe { system::getpid() } as u32;
    match header.owner.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {}
        // The same process by another program: what it had before `exec` is gone with its memory.
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
/// The first allocation comes before the C library has set up `environ`, so the variable is read from the kernel.
fn log_path(path: &mut [u8; 4096]) -> Option<&CStr> {
    // SAFETY: the literal ends with a zero; the descriptor is closed below and seen by nobody else.
    let file = unsafe { system::open(c"/proc/self/environ".as_ptr(), system::READ_ONLY) };
    if file < 0 {
        return None;
    }
    let mut search = Search::Name(0);
    let mut chunk = [0; 1024];
    'reading: loop {
        // SAFETY: `chunk` is writable for its length.
        let count = unsafe { system::read(file, chunk.as_mut_ptr().cast(), chunk.len()) };
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
    // SAFETY: the descriptor was opened above.
    unsafe { system::close(file) };
    match search {
        Search::Done(length) => CStr::from_bytes_with_nul(path.get(..length)?).ok(),
        _ => None,
    }
}

/// Where the search through the environment stands.
enum Search {
    /// In a variable's name, which is ours up to here.
    Name(usize),
    /// In another variable.
    Other,
    /// In our value, of which so many bytes are copied.
    Value(usize),
    /// The value is complete, so many bytes with its final zero.
    Done(usize),
}

impl Search {
    /// Takes the next byte of the environment, a sequence of `NAME=VALUE` that end with zeros.
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
                // Longer than any path can be: there is no such log.
                None => Self::Other,
            },
            Self::Done(length) => Self::Done(length),
        }
    }
}

//! The flight recorder's file. It contains the ring of the first region and remains however the process ends.
//!
//! A traced heap keeps its last operations in a ring at the start of its region ([`rtalloc::adapt::Traced`]), where a
//! core file has them. With `RTALLOC_RING=FILE` the first pages of the region are those of a file, mapped shared: the
//! kernel keeps it even if the process is killed. `rtalloc recover FILE` reads it.
//!
//! Shared pages are shared with forked children too, and a part of the heap is on them. So during a fork the process
//! has a private copy; the child keeps it, and the parent returns to the file. If there is no memory for a copy, the
//! child ends with a message before it runs. (A child that is created without the handlers of `fork`, by `clone`, must
//! not allocate.) Of several programs that run with the same variables, each replaces the file; `%p` in its name is the
//! number of the process.

use crate::output::refuse_to_run;
use crate::state::STATE;
use core::ffi::c_long;
use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::Relaxed;
use rtalloc_sys::libc::{
    self, MAP_FIXED, MAP_MEMORY, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE, O_CLOEXEC, O_CREAT, O_EXCL, O_RDWR,
    PROT_READ_WRITE, is_failed, mmap,
};
use rtalloc_sys::{page_bytes, syscall};

/// Most bytes before the ring: locks and the control structures of other adapters.
const FRONT_BYTES: usize = 16 << 10;
/// Bytes of a record.
const RECORD_BYTES: usize = 4 * size_of::<usize>();

/// Maps the file in place of the first pages of the first region, before a heap is made there.
pub fn map_file(start: *mut u8, region_bytes: usize) {
    let settings = STATE.settings();
    if settings.ring_path.is_empty() || STATE.ring.start.load(Relaxed) != 0 {
        return;
    }
    let records = settings.ring_records;
    let len = (FRONT_BYTES + records.saturating_mul(RECORD_BYTES)).next_multiple_of(page_bytes());
    if len >= region_bytes {
        refuse_to_run(format_args!(
            "RTALLOC_RECORDS={records}: the ring does not fit in the heap; choose fewer records or a larger \
             RTALLOC_HEAP"
        ));
    }
    let path = settings.ring_path.expanded();
    // SAFETY: the name ends with a zero. An existing file loses its name but keeps its content for processes that have
    // it mapped. The second mapping replaces none; the first replaces the region's first pages, which are not in use
    // yet.
    let mapped = unsafe {
        libc::unlink(path.as_ptr());
        let file = syscall::open(path.as_ptr(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o666);
        let mapped = file >= 0 && libc::ftruncate(file, len as c_long) == 0 && {
            let second = mmap(null_mut(), len, PROT_READ_WRITE, MAP_SHARED, file, 0);
            STATE.ring.second.store(second.expose_provenance(), Relaxed);
            !is_failed(second) && !is_failed(mmap(start.cast(), len, PROT_READ_WRITE, MAP_SHARED | MAP_FIXED, file, 0))
        };
        syscall::close(file);
        mapped
    };
    if !mapped {
        refuse_to_run(format_args!(
            "RTALLOC_RING: {} cannot be created with {len} bytes; choose a folder that can be written to and has room",
            path.as_str()
        ));
    }
    STATE.ring.len.store(len, Relaxed);
    STATE.ring.start.store(start.addr(), Relaxed);
}

/// The pages in the region, the second mapping, and their length, if there is a file.
fn pages() -> Option<(*mut u8, *mut u8, usize)> {
    let [start, second, len] =
        [&STATE.ring.start, &STATE.ring.second, &STATE.ring.len].map(|address| address.load(Relaxed));
    (start != 0 && len != 0).then(|| (with_exposed_provenance_mut(start), with_exposed_provenance_mut(second), len))
}

/// Before a fork, in a pause: replaces the file's pages by a private copy.
pub fn before_fork() {
    let Some((pages, _, len)) = pages() else { return };
    // SAFETY: both mappings have `len` bytes. The copy replaces the region's pages with the same content while no other
    // thread operates.
    let is_copied = unsafe {
        let copy = mmap(null_mut(), len, PROT_READ_WRITE, MAP_MEMORY, -1, 0);
        !is_failed(copy) && {
            pages.copy_to_nonoverlapping(copy.cast(), len);
            !is_failed(libc::mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, pages).cast())
        }
    };
    STATE.ring.is_copied.store(is_copied, Relaxed);
}

/// After a fork, in the parent, in the same pause: updates the file and returns to it.
pub fn after_fork_in_parent() {
    let Some((pages, second, len)) = pages() else { return };
    if !STATE.ring.is_copied.swap(false, Relaxed) {
        return;
    }
    // SAFETY: both mappings have `len` bytes. `mremap` of a shared mapping with length 0 maps it once more; that
    // replaces the private copy with the same content while no other thread operates.
    unsafe {
        second.copy_from_nonoverlapping(pages, len);
        libc::mremap(second.cast(), 0, len, MREMAP_MAYMOVE | MREMAP_FIXED, pages);
        if STATE.settings().locked {
            libc::mlock(pages.cast(), len);
        }
    }
}

/// After a fork, in the child: leaves the file to the parent. The start remains: the regions that the child adds get no
/// file, which would replace the parent's.
pub fn after_fork_in_child() {
    let Some((_, second, len)) = pages() else { return };
    if !STATE.ring.is_copied.load(Relaxed) {
        refuse_to_run(format_args!(
            "RTALLOC_RING: no memory for a copy of {len} bytes during a fork, without which the child \
             would change its parent's heap; choose fewer RTALLOC_RECORDS"
        ));
    }
    // SAFETY: only this module uses the second mapping, and not any more.
    unsafe { libc::munmap(second.cast(), len) };
    STATE.ring.len.store(0, Relaxed);
}

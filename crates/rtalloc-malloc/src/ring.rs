//! The flight recorder's file: the ring of the first region lies in it, so that it is there however the process ends.
//!
//! A traced heap keeps its last operations in a ring at the front of its region ([`rtalloc::adapt::Traced`]), where a core file has them.
//! With `RTALLOC_RING=FILE` the pages of that front are those of a file, mapped and shared: the kernel keeps it, whoever
//! kills the process. `rtalloc recover FILE` reads it.
//!
//! Pages that are shared are shared with forked children too, and part of the heap lies on them. So the process has a copy of its
//! own while it forks; the child keeps that, and the parent goes back to the file. (A child that was made without the functions that
//! `fork` calls, by `clone` itself, may not allocate.) Of several programs that run with the same variables each makes a file anew; `%p` in
//! its name is the number of the process.

use crate::settings::{PATH_BYTES, Settings};
use crate::tell::refuse_to_run;
use crate::{libc, regions, system};
use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes of what lies in front of the ring at most: locks and the control structures of other adapters.
const FRONT_BYTES: usize = 16 << 10;
/// Bytes of a record.
const RECORD_BYTES: usize = 4 * size_of::<usize>();

/// Where the pages of the file begin; 0: there are none.
static START: AtomicUsize = AtomicUsize::new(0);
/// Where they are mapped a second time.
static FILE: AtomicUsize = AtomicUsize::new(0);
/// How long they are.
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Records that the ring of each region keeps.
#[must_use]
pub fn records() -> usize {
    let settings = regions::settings();
    if settings.ring_path[0] == 0 && !settings.ring_given { 256 } else { settings.ring_records }
}

/// Maps the file in place of the first pages of the first region, before a heap is made there.
pub fn lay_under(start: *mut u8, region_bytes: usize) {
    let settings = regions::settings();
    if settings.ring_path[0] == 0 || START.load(Relaxed) != 0 {
        return;
    }
    let len =
        (FRONT_BYTES + settings.ring_records.saturating_mul(RECORD_BYTES)).next_multiple_of(regions::page_bytes());
    if len >= region_bytes {
        refuse_to_run(format_args!(
            "RTALLOC_RECORDS={}: the ring does not fit the heap; fewer records, or a larger RTALLOC_HEAP",
            settings.ring_records
        ));
    }
    let mut path = [0; PATH_BYTES];
    name_of(&settings.ring_path, &mut path);
    // SAFETY: the name ends with a zero. A file of that name is not changed, but loses its name: who has it mapped keeps it. The pages
    // are the region's, in which nothing is yet.
    let mapped = unsafe {
        libc::unlink(path.as_ptr().cast());
        let file = system::open(path.as_ptr().cast(), libc::CREATE_NEW, 0o666);
        let mapped = file >= 0 && libc::ftruncate(file, len as core::ffi::c_long) == 0 && {
            let second = system::mmap(null_mut(), len, system::ACCESS_BOTH, libc::MAP_FILE, file, 0);
            FILE.store(second.expose_provenance(), Relaxed);
            !system::is_failed(second)
                && !system::is_failed(system::mmap(
                    start.cast(),
                    len,
                    system::ACCESS_BOTH,
                    libc::MAP_FILE_HERE,
                    file,
                    0,
                ))
        };
        system::close(file);
        mapped
    };
    if !mapped {
        let name = CStr::from_bytes_until_nul(&path).ok().and_then(|name| name.to_str().ok()).unwrap_or("the file");
        refuse_to_run(format_args!("RTALLOC_RING: {name} cannot be made, with {len} bytes"));
    }
    START.store(start.addr(), Relaxed);
    LEN.store(len, Relaxed);
}

/// Copies a name, with the number of this process in place of every `%p`.
pub fn name_of(pattern: &[u8; PATH_BYTES], name: &mut [u8; PATH_BYTES]) {
    // SAFETY: asks a number only.
    let process = unsafe { system::getpid() } as usize;
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut rest = process;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let (mut from, mut to) = (0, 0);
    // The last byte stays zero.
    while to < PATH_BYTES - digits.len() && pattern[from] != 0 {
        if pattern[from] == b'%' && pattern.get(from + 1) == Some(&b'p') {
            for &digit in &digits[first..] {
                name[to] = digit;
                to += 1;
            }
            from += 2;
        } else {
            name[to] = pattern[from];
            from += 1;
            to += 1;
        }
    }
}

/// Before a fork, in a pause: goes on with a copy of the file's pages.
pub fn before_fork() {
    let (start, len) = (START.load(Relaxed), LEN.load(Relaxed));
    if start == 0 {
        return;
    }
    let pages = core::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the pages are the region's; the copy takes their place with the same content, while everybody else waits.
    unsafe {
        let copy = system::mmap(null_mut(), len, system::ACCESS_BOTH, system::MAP_OWN, -1, 0);
        if !system::is_failed(copy) {
            pages.copy_to_nonoverlapping(copy.cast(), len);
            libc::mremap(copy, len, len, libc::MOVE_THERE, pages);
        }
    }
}

/// After a fork, in the parent, in the same pause: brings the file up to date and goes back to it.
pub fn in_parent() {
    let (start, len) = (START.load(Relaxed), LEN.load(Relaxed));
    if start == 0 {
        return;
    }
    let pages = core::ptr::with_exposed_provenance_mut::<u8>(start);
    let file = core::ptr::with_exposed_provenance_mut::<u8>(FILE.load(Relaxed));
    // SAFETY: both mappings are as long; a shared one of length 0 is mapped once more, and takes the place of the copy with the same
    // content, while everybody else waits.
    unsafe {
        file.copy_from_nonoverlapping(pages, len);
        libc::mremap(file.cast(), 0, len, libc::MOVE_THERE, pages);
    }
}

/// After a fork, in the child: leaves the file to the parent.
pub fn in_child() {
    if START.load(Relaxed) != 0 {
        // SAFETY: the second mapping is nobody's but this module's.
        unsafe { system::munmap(core::ptr::with_exposed_provenance_mut(FILE.load(Relaxed)), LEN.load(Relaxed)) };
        START.store(0, Relaxed);
    }
}

/// Whether a name is one that the settings can keep.
#[must_use]
pub fn keep(name: &str, place: &mut [u8; PATH_BYTES]) -> bool {
    let bytes = name.as_bytes();
    // Room for numbers, and for the zero.
    match place.get_mut(..bytes.len()) {
        Some(start) if bytes.len() < PATH_BYTES - 64 => {
            start.copy_from_slice(bytes);
            place[bytes.len()] = 0;
            true
        }
        _ => false,
    }
}

/// What the settings say of rings, taken together.
pub fn settle(settings: &mut Settings) {
    if !settings.ring_given && settings.ring_path[0] == 0 {
        return;
    }
    let traced = |name| crate::kinds::ALL.iter().position(|kind| kind.name == name);
    match crate::kinds::ALL.get(settings.kind).map_or("", |kind| kind.name) {
        "traced" | "guarded" => {}
        "tlsf" => settings.kind = traced("traced").unwrap_or(settings.kind),
        _ if !settings.kind_given => settings.kind = traced("traced").unwrap_or(settings.kind),
        name => refuse_to_run(format_args!(
            "RTALLOC={name}: the flight recorder (RTALLOC_RING, RTALLOC_RECORDS) goes with tlsf, traced and guarded"
        )),
    }
}

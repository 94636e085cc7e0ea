//! Peers for multithreaded programs only.

use crate::Reach;
use crate::adapter::{Made, Target};
use crate::shared::NOT_INSTALLED;
use std::ffi::{CStr, CString, c_void};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// `AO_malloc` of the atomic_ops project, after Michael (2004): the peer of the wait-free paper. Its library is not a
/// part of ours; it is used if the system has it. Debian's package libatomic-ops-dev has only an archive, from which
/// the C compiler builds a library.
///
/// Caveat: it never returns memory to larger sizes, and requests large blocks from the system only if configured so, as
/// here.
pub struct AtomicOps;

/// Sizes for which `AO_malloc` of version 7.6.14 never returns: its chunks of 64 KiB have no room for a block of 64 KiB
/// and its header of a word, and it takes one chunk after the other from the system. It is asked for the next larger
/// size, for which it takes memory from the system directly.
const ENDLESS_BYTES: RangeInclusive<usize> = (32 << 10) - size_of::<usize>() + 1..=(64 << 10) - size_of::<usize>();

/// Names under which systems have the library.
const LIBRARIES: [&CStr; 2] = [c"libatomic_ops_gpl.so.1", c"libatomic_ops_gpl.so"];

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

#[derive(Clone, Copy)]
struct Functions {
    malloc: Malloc,
    free: Free,
}

fn functions() -> Result<Functions, String> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let found = FUNCTIONS.get_or_init(|| {
        // SAFETY: a loaded library is never unloaded.
        let load =
            |name: &CStr| Some(unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }).filter(|it| !it.is_null());
        let library = LIBRARIES.into_iter().find_map(load).or_else(|| of_archive(load))?;
        // SAFETY: its functions have the types declared in its header.
        unsafe {
            let find = |name: &CStr| Some(libc::dlsym(library, name.as_ptr())).filter(|found| !found.is_null());
            let (malloc, free) = (find(c"AO_malloc")?, find(c"AO_free")?);
            if let Some(enable) = find(c"AO_malloc_enable_mmap") {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(enable)();
            }
            Some(Functions {
                malloc: std::mem::transmute::<*mut c_void, Malloc>(malloc),
                free: std::mem::transmute::<*mut c_void, Free>(free),
            })
        }
    });
    found.ok_or_else(|| format!("{NOT_INSTALLED}: no libatomic_ops_gpl on this system (Debian: libatomic-ops-dev)"))
}

/// Applies `load` to a library built from the archive's objects.
fn of_archive<T>(load: impl FnOnce(&CStr) -> Option<T>) -> Option<T> {
    let folder = tempfile::tempdir().ok()?;
    let library = folder.path().join("libatomic_ops_gpl.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-Wl,--whole-archive", "-l:libatomic_ops_gpl.a", "-l:libatomic_ops.a"]);
    compiler.arg("-Wl,--no-whole-archive").arg("-o").arg(&library).stdout(Stdio::null()).stderr(Stdio::null());
    if !compiler.status().ok()?.success() {
        return None;
    }
    // A loaded library stays loaded after its file is deleted.
    load(&CString::new(library.as_os_str().as_bytes()).ok()?)
}

#[inline(always)]
fn loaded() -> Functions {
    functions().expect("heaps are created only if it is loaded")
}

// SAFETY: `AO_malloc` is an allocator.
unsafe impl Target for AtomicOps {
    const OWN_PAGES: bool = true;
    const REACH: Reach = Reach { request_bytes: usize::MAX, alignment_bytes: 16 };

    unsafe fn make(_region: *mut u8, _bytes: usize) -> Result<Made, String> {
        functions().map(|_| Made { context: null_mut(), first_block_address: 0, outside_bytes: 0 })
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(_context: *mut c_void, size: usize, _align: usize) -> *mut u8 {
        let size = if ENDLESS_BYTES.contains(&size) { ENDLESS_BYTES.end() + 1 } else { size };
        // SAFETY: any size is legal.
        unsafe { (loaded().malloc)(size).cast() }
    }

    #[inline(always)]
    unsafe fn deallocate(_context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: the block is live.
        unsafe { (loaded().free)(block.cast()) }
    }

    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the block is live and at least `old` bytes long; a new block is distinct from it.
        unsafe {
            let moved = Self::allocate(context, new, align);
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, old.min(new));
                Self::deallocate(context, block, old, align);
            }
            moved
        }
    }
}

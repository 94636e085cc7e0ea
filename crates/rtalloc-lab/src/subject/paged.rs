//! Peers that take their own pages from the system. They have one heap per process: a cell is a fresh process, but
//! its pages fault in while it is measured, and the C library's heap also serves the laboratory itself.

use super::adapter::{Made, Target};
use libc::c_void;

fn no_heap() -> Made {
    Made { context: std::ptr::null_mut(), first_block_address: 0, outside_bytes: 0 }
}

/// The alignment `malloc` gives every block of at least that size.
const NATURAL_ALIGN_BYTES: usize = 16;

/// `mimalloc` through its C interface.
///
/// Caveat: its plain `mi_malloc` aligns a block to no more than its size, so smaller requests take the aligned
/// entry, as its `GlobalAlloc` does for all.
pub struct Mimalloc;

// SAFETY: `mimalloc` is an allocator.
unsafe impl Target for Mimalloc {
    const OWN_PAGES: bool = true;

    unsafe fn make(_region: *mut u8, _bytes: usize) -> Result<Made, String> {
        Ok(no_heap())
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(_context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: any size and power of two is legal.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES && align <= size {
                libmimalloc_sys::mi_malloc(size).cast()
            } else {
                libmimalloc_sys::mi_malloc_aligned(size, align).cast()
            }
        }
    }

    #[inline(always)]
    unsafe fn deallocate(_context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: the block is live.
        unsafe { libmimalloc_sys::mi_free(block.cast()) }
    }

    #[inline(always)]
    unsafe fn reallocate(_context: *mut c_void, block: *mut u8, _old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the block is live.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES && align <= new {
                libmimalloc_sys::mi_realloc(block.cast(), new).cast()
            } else {
                libmimalloc_sys::mi_realloc_aligned(block.cast(), new, align).cast()
            }
        }
    }
}

/// `jemalloc` through its prefixed C interface; the process's own malloc stays the C library's.
///
/// Caveat: it aligns a block to no more than its size unless asked, so smaller requests take `mallocx`, as its
/// `GlobalAlloc` does.
pub struct Jemalloc;

// SAFETY: `jemalloc` is an allocator.
unsafe impl Target for Jemalloc {
    const OWN_PAGES: bool = true;

    unsafe fn make(_region: *mut u8, _bytes: usize) -> Result<Made, String> {
        Ok(no_heap())
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(_context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: any size but zero and any power of two is legal.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES && align <= size {
                tikv_jemalloc_sys::malloc(size).cast()
            } else {
                tikv_jemalloc_sys::mallocx(size, tikv_jemalloc_sys::MALLOCX_ALIGN(align)).cast()
            }
        }
    }

    #[inline(always)]
    unsafe fn deallocate(_context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: the block is live.
        unsafe { tikv_jemalloc_sys::free(block.cast()) }
    }

    #[inline(always)]
    unsafe fn reallocate(_context: *mut c_void, block: *mut u8, _old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the block is live; the new size is not zero.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES && align <= new {
                tikv_jemalloc_sys::realloc(block.cast(), new).cast()
            } else {
                tikv_jemalloc_sys::rallocx(block.cast(), new, tikv_jemalloc_sys::MALLOCX_ALIGN(align)).cast()
            }
        }
    }
}

/// The C library's malloc.
///
/// Caveat: the laboratory's own memory comes from the same heap; an alignment above 16 is lost by its realloc, so
/// such blocks are moved here.
pub struct SystemMalloc;

// SAFETY: the C library's malloc is an allocator.
unsafe impl Target for SystemMalloc {
    const OWN_PAGES: bool = true;

    unsafe fn make(_region: *mut u8, _bytes: usize) -> Result<Made, String> {
        Ok(no_heap())
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(_context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: any size and power of two is legal.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES {
                libc::malloc(size).cast()
            } else {
                libc::aligned_alloc(align, size).cast()
            }
        }
    }

    #[inline(always)]
    unsafe fn deallocate(_context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: the block is live.
        unsafe { libc::free(block.cast()) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the block is live and at least `old` bytes long; a new block is another one.
        unsafe {
            if align <= NATURAL_ALIGN_BYTES {
                return libc::realloc(block.cast(), new).cast();
            }
            let moved = Self::allocate(context, new, align);
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, old.min(new));
                libc::free(block.cast());
            }
            moved
        }
    }
}

//! Memory from the system.

use core::ptr::{NonNull, null_mut};
use rtalloc_sys::libc::{MAP_FIXED, MAP_MEMORY, MAP_NORESERVE, PROT_NONE, PROT_READ_WRITE, is_failed, mmap, munmap};

/// Pages at an aligned address.
pub struct Mapping {
    /// Address of the first page.
    pub start: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

impl Mapping {
    /// Maps whole pages at a multiple of `align`, a power of two of at least a page. If `committed`, the kernel
    /// accounts for the memory (no `MAP_NORESERVE`) and refuses what it cannot provide; else only addresses are
    /// reserved.
    pub fn new(len: usize, align: usize, committed: bool) -> Option<Mapping> {
        let start = Self::reserve(len, 0, align, PROT_NONE, MAP_MEMORY | MAP_NORESERVE)?;
        let flags = MAP_MEMORY | MAP_FIXED | if committed { 0 } else { MAP_NORESERVE };
        // SAFETY: the pages were mapped above and are used by no other code.
        unsafe {
            if is_failed(mmap(start.cast(), len, PROT_READ_WRITE, flags, -1, 0)) {
                munmap(start.cast(), len);
                return None;
            }
        }
        Some(Mapping { start, len })
    }

    /// Maps whole pages such that the address `front` bytes after their start is a multiple of `align`, a power of two.
    pub fn with_front(len: usize, front: usize, align: usize) -> Option<Mapping> {
        Some(Mapping { start: Self::reserve(len, front, align, PROT_READ_WRITE, MAP_MEMORY)?, len })
    }

    /// Maps `align` bytes more than needed, and unmaps them before and after the aligned place.
    fn reserve(len: usize, front: usize, align: usize, access: i32, flags: i32) -> Option<*mut u8> {
        let room = len.checked_add(align)?;
        // SAFETY: the kernel chooses the address of the mapping, so it replaces none. Only parts of this mapping are
        // unmapped.
        unsafe {
            let at = mmap(null_mut(), room, access, flags, -1, 0);
            if is_failed(at) {
                return None;
            }
            let before = at.addr().checked_add(front)?.checked_next_multiple_of(align)? - front - at.addr();
            if before != 0 {
                munmap(at, before);
            }
            let start = at.byte_add(before);
            // Not empty, as `before` is less than `align`.
            munmap(start.byte_add(len), room - before - len);
            Some(start.cast())
        }
    }

    /// Unmaps the pages, which must not be in use.
    pub fn unmap(&self) {
        // SAFETY: they were mapped by `new` or `with_front`, and no reference into them exists.
        unsafe { munmap(self.start.cast(), self.len) };
    }
}

/// A pointer to an address in a mapping whose provenance is exposed.
pub fn pointer(address: usize) -> Option<NonNull<u8>> {
    NonNull::new(core::ptr::with_exposed_provenance_mut(address))
}

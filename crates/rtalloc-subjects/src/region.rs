//! Memory for heaps: mapped, aligned to its size, and prefaulted where time is measured.

use std::io;
use std::ptr::NonNull;

/// A mapping of anonymous memory.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
}

// SAFETY: the mapping belongs to this value, which exposes only its address and length.
unsafe impl Send for Region {}
// SAFETY: the mapping belongs to this value, and a shared reference gives only its address and length.
unsafe impl Sync for Region {}

impl Region {
    /// Largest alignment a region gets. A buddy system can use a region as one block only when it starts at a
    /// multiple of its size.
    const MAX_ALIGN_BYTES: usize = 1 << 30;
    const PAGE_BYTES: usize = 4096;

    /// Maps at least `bytes` bytes, aligned to the next power of two. `touched` makes every page present.
    ///
    /// # Errors
    ///
    /// An error of the system.
    pub fn new(bytes: usize, touched: bool) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = bytes.max(1).checked_next_multiple_of(Self::PAGE_BYTES).ok_or_else(too_large)?;
        let align = bytes.checked_next_power_of_two().ok_or_else(too_large)?.min(Self::MAX_ALIGN_BYTES);
        let mapping_bytes = bytes.checked_add(align).ok_or_else(too_large)?;
        // SAFETY: a new anonymous mapping at an address of the system's choice does not affect existing memory.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapping_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or_else(too_large)?;
        let offset = mapping.align_offset(align);
        // SAFETY: the mapping is `align` bytes longer than the region, so the aligned start and end lie in it.
        let start = unsafe { mapping.add(offset) };
        let region = Self { start, bytes, mapping, mapping_bytes };
        if touched {
            region.touch();
        }
        Ok(region)
    }

    /// Makes every page present: in one call where the kernel can (5.14 and later), else page by page.
    fn touch(&self) {
        // SAFETY: the whole range belongs to this region; populating does not change its content.
        let populated = unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_POPULATE_WRITE) };
        if populated != 0 {
            for page in (0..self.bytes).step_by(Self::PAGE_BYTES) {
                // SAFETY: within the region, which is exclusively ours.
                unsafe { self.start.add(page).write_volatile(0) };
            }
        }
    }

    /// First byte.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this is the mapping of `new`; the heaps in it borrow the region and no longer exist.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}

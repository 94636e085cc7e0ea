//! Memory for heaps under test: with the same alignment in every run, guarded at both ends, saved and restored byte by
//! byte.
//!
//! All state of a heap lives in its regions. Copying their bytes back to the same addresses therefore undoes
//! operations, which lets a test branch: try an operation, inspect the result, and undo it.

pub use super::pattern::Pattern;
use super::subject::{Subject, facts, identity};
use rtalloc::contract::{InitError, Mechanism};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Memory starts at a multiple of this, so that what depends on addresses is the same in every run.
const ALIGN_BYTES: usize = 1 << 16;
/// Bytes before and after the memory, which must not change.
const GUARD_BYTES: usize = 512;
const GUARD: u8 = 0xC3;
/// The bytes of fresh memory: read as a tag, a live block of an absurd size.
const FRESH: u8 = 0xA5;

/// Memory for regions.
pub struct Buffer {
    memory: NonNull<u8>,
    len_bytes: usize,
}

impl Buffer {
    /// `len_bytes` of initialised memory.
    pub fn new(len_bytes: usize) -> Self {
        let layout = Self::layout(len_bytes);
        // SAFETY: the layout is not empty.
        let raw = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: the allocation has ALIGN_BYTES before the memory and GUARD_BYTES after it.
        let buffer = unsafe {
            let memory = raw.add(ALIGN_BYTES);
            memory.sub(GUARD_BYTES).write_bytes(GUARD, GUARD_BYTES);
            memory.add(len_bytes).write_bytes(GUARD, GUARD_BYTES);
            Buffer { memory, len_bytes }
        };
        buffer.fill(FRESH);
        buffer
    }

    fn layout(len_bytes: usize) -> Layout {
        Layout::from_size_align(ALIGN_BYTES + len_bytes + GUARD_BYTES, ALIGN_BYTES).expect("a small layout")
    }

    /// Address of the first byte.
    pub fn start(&self) -> usize {
        self.memory.addr().get()
    }

    /// First address after the memory.
    pub fn end(&self) -> usize {
        self.start() + self.len_bytes
    }

    /// Sets every byte.
    pub fn fill(&self, byte: u8) {
        // SAFETY: the memory is `len_bytes` long.
        unsafe { self.memory.write_bytes(byte, self.len_bytes) }
    }

    /// A part of the memory, for a heap.
    ///
    /// # Safety
    ///
    /// The heap is dropped before the buffer, and has the part to itself. (A test reads or restores the bytes of a heap
    /// only between two calls of it.)
    pub unsafe fn region(&self, offset_bytes: usize, len_bytes: usize) -> &'static mut [MaybeUninit<u8>] {
        assert!(offset_bytes + len_bytes <= self.len_bytes, "the test asks for more memory than it made");
        // SAFETY: the part lies in the memory, which is initialised; the caller ensures that the heap alone uses it.
        unsafe { std::slice::from_raw_parts_mut(self.memory.add(offset_bytes).as_ptr().cast(), len_bytes) }
    }

    /// Makes a heap in a part of the memory.
    ///
    /// # Safety
    ///
    /// As [`region`](Self::region).
    pub unsafe fn heap(&self, offset_bytes: usize, len_bytes: usize) -> Result<Subject, InitError> {
        // SAFETY: the heap is dropped before the buffer and alone uses the part, as the caller guarantees.
        Subject::new(unsafe { self.region(offset_bytes, len_bytes) })
    }

    /// The bytes now.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: every byte was initialised by `new`, and heaps and tests write initialised bytes only.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len_bytes) }
    }

    /// The bytes now, to be restored later.
    pub fn save(&self) -> Vec<u8> {
        self.bytes().to_vec()
    }

    /// Restores the bytes of [`save`](Self::save).
    pub fn restore(&self, saved: &[u8]) {
        assert_eq!(saved.len(), self.len_bytes);
        // SAFETY: both are `len_bytes` long, and a copy does not overlap its original.
        unsafe { self.memory.copy_from_nonoverlapping(NonNull::from(saved).cast(), saved.len()) }
    }

    /// A pointer to a byte of the memory.
    pub fn at(&self, address: usize) -> NonNull<u8> {
        assert!(address >= self.start() && address <= self.end(), "address {address:#x} is outside the memory");
        // SAFETY: the address lies in the memory or at its end.
        unsafe { self.memory.add(address - self.start()) }
    }

    /// Fails if a byte before or after the memory was written.
    pub fn assert_guards(&self) {
        // SAFETY: the guards are initialised and part of the allocation.
        let guards = unsafe {
            [
                std::slice::from_raw_parts(self.memory.sub(GUARD_BYTES).as_ptr(), GUARD_BYTES),
                std::slice::from_raw_parts(self.memory.add(self.len_bytes).as_ptr(), GUARD_BYTES),
            ]
        };
        assert!(
            guards.iter().all(|guard| guard.iter().all(|&byte| byte == GUARD)),
            "a byte outside the region was written"
        );
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, ALIGN_BYTES before the memory.
        unsafe { dealloc(self.memory.sub(ALIGN_BYTES).as_ptr(), Self::layout(self.len_bytes)) }
    }
}

/// An address that no heap returned, as a pointer to pass to one.
pub fn foreign(address: usize) -> Option<NonNull<u8>> {
    NonNull::new(std::ptr::without_provenance_mut(address))
}

/// The words of a heap's abstract state.
pub fn fingerprint(allocator: &Subject) -> Box<[usize]> {
    let mut words = Vec::with_capacity(64);
    allocator.fingerprint(&mut |word| words.push(word));
    words.into_boxed_slice()
}

/// Length in bytes of the smallest region at the start of a buffer that the allocator accepts.
pub fn smallest_region_bytes() -> usize {
    // With pages, not every length is tried.
    let step_bytes = (facts().page_bytes / 64).max(1);
    // SAFETY: the heap is dropped here, before the buffer.
    smallest_region_bytes_for(step_bytes, |buffer, len_bytes| unsafe { buffer.heap(0, len_bytes) }.is_ok())
}

/// The same for any `accepts`, to within a step.
pub fn smallest_region_bytes_for(step_bytes: usize, accepts: impl Fn(&Buffer, usize) -> bool) -> usize {
    let buffer = Buffer::new(1 << 16);
    let mut lengths = (0..1 << 16).step_by(step_bytes);
    let found = lengths.find(|&len_bytes| accepts(&buffer, len_bytes));
    found.unwrap_or_else(|| panic!("{} accepts no region below 64 KiB", facts().name))
}

/// Least pages of a heap in a test.
const PAGES: usize = 24;
/// The same if they are large: the times of many tests are quadratic in blocks.
const LARGE_PAGES: usize = 14;
/// The same where blocks of all sizes share pages.
const SHARED_PAGES: usize = 4;

/// `len_bytes`, or more for enough pages, and no more than the allocator's tags reach. For buddies, more where less
/// than half of the bytes would be blocks, because the shape of a fresh heap does not fit twice.
pub fn within_reach(len_bytes: usize) -> usize {
    let pages = match facts().page_bytes {
        _ if facts().largest_covers_smaller => SHARED_PAGES,
        4096.. => LARGE_PAGES,
        _ => PAGES,
    };
    let least_bytes = len_bytes.max(pages * facts().page_bytes).min(facts().max_span_bytes);
    if facts().mechanism != Mechanism::Buddy {
        return least_bytes;
    }
    let known = LENGTHS.with_borrow(|lengths| lengths.get(&(identity(), least_bytes)).copied());
    known.unwrap_or_else(|| {
        let mut lengths = (least_bytes..=facts().max_span_bytes).step_by((least_bytes / 4).max(1));
        let found = lengths.find(|&len_bytes| block_bytes(len_bytes) >= len_bytes / 2).unwrap_or(least_bytes);
        LENGTHS.with_borrow_mut(|lengths| lengths.insert((identity(), least_bytes), found));
        found
    })
}

thread_local! {
    /// What [`within_reach`] found for an allocator.
    static LENGTHS: RefCell<HashMap<(usize, usize), usize>> = RefCell::default();
}

/// Bytes of all blocks of a fresh heap in a region of `len_bytes`; 0 if that is too small for one.
fn block_bytes(len_bytes: usize) -> usize {
    let buffer = Buffer::new(len_bytes);
    let mut bytes = 0;
    // SAFETY: the heap is dropped here, before the buffer.
    if let Ok(heap) = unsafe { buffer.heap(0, len_bytes) } {
        heap.walk(&mut |block| bytes += block.size_bytes);
    }
    bytes
}

/// `size_bytes`, or the largest request that the allocator serves.
pub fn servable(size_bytes: usize) -> usize {
    size_bytes.min(facts().largest_request_bytes)
}

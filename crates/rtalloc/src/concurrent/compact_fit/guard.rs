//! A guard represents a pin: the only access to an object's bytes.

use super::entry::Entry;
use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::{AccessError, LoopBound, loop_bound};
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes of the words in which objects are read and written.
pub(super) const WORD_BYTES: usize = size_of::<u32>();

/// The word of an object at an address.
///
/// # Safety
///
/// The address is that of a word of a page; during `'a` every access to it is as this word.
#[inline(always)]
pub(super) unsafe fn word_at<'a, A: Atomics>(address: usize) -> &'a Shared<u32, A> {
    // SAFETY: pages are exposed and aligned, and the word is accessed only as such, by this function's contract.
    unsafe { Shared::at(core::ptr::with_exposed_provenance_mut(address)) }
}

/// An object that stays where it is, and whose memory is not reused, until this is dropped.
///
/// Its bytes are read and written in words of four, each by one relaxed atomic access, which is an ordinary
/// instruction. So a program without `unsafe` cannot have a data race through it. But threads that write and read one
/// object at a time without synchronisation may read a mix of old and new words. What was written under a pin is
/// visible under every pin that began after the first one ended.
///
/// It may be sent to another thread, and may be leaked: the object then stays where it is forever.
pub struct Guard<'h, A: Atomics = Native> {
    entry: &'h Entry<A>,
    /// Where the object is, as long as this guard holds the pin.
    address: usize,
    size_bytes: usize,
}

impl<'h, A: Atomics> Guard<'h, A> {
    /// The guard of a pin.
    ///
    /// # Safety
    ///
    /// The entry was pinned for this guard, and returned this address and size.
    #[inline(always)]
    pub(super) unsafe fn new(entry: &'h Entry<A>, (address, size_bytes): (usize, usize)) -> Self {
        Guard { entry, address, size_bytes }
    }

    /// Bytes of the object.
    #[inline(always)]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The address of the object while this guard lives, aligned to the grain of the ladder. Reading through it is a
    /// data race if another thread writes meanwhile. Writes through it must be atomic, in words of four bytes, because
    /// the heap may be reading them for a copy that it then discards.
    #[inline(always)]
    pub fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: no object lies at address zero.
        unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(self.address)) }
    }

    /// Whether `len_bytes` bytes from an offset on lie in the object.
    #[inline(always)]
    fn reaches(&self, offset_bytes: usize, len_bytes: usize) -> Result<(), AccessError> {
        if offset_bytes > self.size_bytes || len_bytes > self.size_bytes.wrapping_sub(offset_bytes) {
            return Err(AccessError::OutOfBounds { size_bytes: self.size_bytes });
        }
        Ok(())
    }

    /// The word around an offset.
    ///
    /// # Safety
    ///
    /// The offset is less than the size.
    #[inline(always)]
    unsafe fn word(&self, offset_bytes: usize) -> &Shared<u32, A> {
        let address = self.address.wrapping_add(offset_bytes) & !(WORD_BYTES - 1);
        // SAFETY: objects are aligned to words, page-blocks are whole words, and the offset lies in the object.
        unsafe { word_at(address) }
    }

    /// Reads bytes of the object from an offset on.
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfBounds`]; nothing was read.
    ///
    /// # Time
    ///
    /// Linear in the bytes: a load for each word.
    #[inline]
    pub fn read(&self, offset_bytes: usize, bytes: &mut [u8]) -> Result<(), AccessError> {
        self.reaches(offset_bytes, bytes.len())?;
        let mut at = offset_bytes;
        let mut rest = bytes;
        while !rest.is_empty() {
            loop_bound!(LoopBound::Caller); // bytes / 4
            // SAFETY: the offset is less than the size.
            let word = unsafe { self.word(at) }.load(Relaxed).to_ne_bytes();
            let (skip, len) = piece(at, rest.len());
            // SAFETY: `len` is at most the rest of the word, and at most the rest of the slice.
            unsafe { core::ptr::copy_nonoverlapping(word.as_ptr().add(skip), rest.as_mut_ptr(), len) };
            rest = rest.get_mut(len..).unwrap_or_default();
            at = at.wrapping_add(len);
        }
        Ok(())
    }

    /// Writes bytes of the object from an offset on. Where a word is written in part, its other bytes are written back
    /// as they were read, so two threads must not write the same word at a time.
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfBounds`]; nothing was written.
    ///
    /// # Time
    ///
    /// Linear in the bytes: a store for each word, and a load for the first and the last.
    #[inline]
    pub fn write(&self, offset_bytes: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.reaches(offset_bytes, bytes.len())?;
        let mut at = offset_bytes;
        let mut rest = bytes;
        while !rest.is_empty() {
            loop_bound!(LoopBound::Caller); // bytes / 4
            // SAFETY: the offset is less than the size.
            let word = unsafe { self.word(at) };
            let (skip, len) = piece(at, rest.len());
            let mut new = if len == WORD_BYTES { [0; WORD_BYTES] } else { word.load(Relaxed).to_ne_bytes() };
            // SAFETY: `len` is at most the rest of the word, and at most the rest of the slice.
            unsafe { core::ptr::copy_nonoverlapping(rest.as_ptr(), new.as_mut_ptr().add(skip), len) };
            word.store(u32::from_ne_bytes(new), Relaxed);
            rest = rest.get(len..).unwrap_or_default();
            at = at.wrapping_add(len);
        }
        Ok(())
    }
}

/// For the word around an offset: how many bytes precede the offset, and how many of the rest are in the word.
#[inline(always)]
fn piece(offset_bytes: usize, rest_bytes: usize) -> (usize, usize) {
    let skip = offset_bytes % WORD_BYTES;
    let room = WORD_BYTES.wrapping_sub(skip);
    (skip, if rest_bytes < room { rest_bytes } else { room })
}

impl<A: Atomics> Drop for Guard<'_, A> {
    #[inline(always)]
    fn drop(&mut self) {
        self.entry.unpin();
    }
}

impl<A: Atomics> fmt::Debug for Guard<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, pinned at {:#x}", self.size_bytes, self.address)
    }
}

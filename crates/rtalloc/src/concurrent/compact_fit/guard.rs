//! A pin in hand: the only way to an object's bytes.

use super::entry::Entry;
use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::AccessError;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes of the words that objects are read and written by.
pub(super) const WORD_BYTES: usize = size_of::<u32>();

/// The word of an object that begins at an address.
///
/// # Safety
///
/// The address is that of a word of a page, which is accessed as such by whoever accesses it meanwhile, for `'a`.
#[inline(always)]
pub(super) unsafe fn word_at<'a, A: Atomics>(address: usize) -> &'a Shared<u32, A> {
    // SAFETY: pages are exposed and aligned; the caller's promise.
    unsafe { Shared::at(core::ptr::with_exposed_provenance_mut(address)) }
}

/// An object that stays where it is, and is not given to anybody else, until this is dropped.
///
/// Its bytes are read and written in words of four, each at once (relaxed atomic accesses, which are ordinary instructions). So
/// no program without `unsafe` can have a data race by it, but a program whose threads write and read one object at a time without
/// an agreement reads words of both. What was written under a pin is seen under every pin that began after the first one had ended.
///
/// It may be sent to another thread, and be leaked: the object then stays for ever.
pub struct Guard<'h, A: Atomics = Native> {
    entry: &'h Entry<A>,
    /// Where the object is; the pin is this guard's.
    address: usize,
    size_bytes: usize,
}

impl<'h, A: Atomics> Guard<'h, A> {
    /// The guard of a pin.
    ///
    /// # Safety
    ///
    /// The entry was pinned for it, and this is what that told.
    #[inline(always)]
    pub(super) unsafe fn new(entry: &'h Entry<A>, (address, size_bytes): (usize, usize)) -> Self {
        Guard { entry, address, size_bytes }
    }

    /// Bytes of the object.
    #[inline(always)]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Where the object is while this guard lives, aligned to the grain of the ladder. Reading through it is a data race if somebody writes
    /// meanwhile. A program that writes through it writes words of four bytes atomically, because the heap may be reading them
    /// for a copy that it is about to throw away.
    #[inline(always)]
    pub fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: no object lies at address zero.
        unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(self.address)) }
    }

    /// Whether so many bytes from an offset on are the object's.
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
        // SAFETY: objects are aligned to words, and page-blocks whole words.
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
        // turns: bytes / 4
        while !rest.is_empty() {
            // SAFETY: the offset is less than the size.
            let word = unsafe { self.word(at) }.load(Relaxed).to_ne_bytes();
            let (skip, len) = piece(at, rest.len());
            // SAFETY: the piece is no longer than either.
            unsafe { core::ptr::copy_nonoverlapping(word.as_ptr().add(skip), rest.as_mut_ptr(), len) };
            rest = rest.get_mut(len..).unwrap_or_default();
            at = at.wrapping_add(len);
        }
        Ok(())
    }

    /// Writes bytes of the object from an offset on. The rest of a word that is written in part is written as it was read, so that
    /// two threads do not write the same word at a time.
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
        // turns: bytes / 4
        while !rest.is_empty() {
            // SAFETY: the offset is less than the size.
            let word = unsafe { self.word(at) };
            let (skip, len) = piece(at, rest.len());
            let mut new = if len == WORD_BYTES { [0; WORD_BYTES] } else { word.load(Relaxed).to_ne_bytes() };
            // SAFETY: the piece is no longer than either.
            unsafe { core::ptr::copy_nonoverlapping(rest.as_ptr(), new.as_mut_ptr().add(skip), len) };
            word.store(u32::from_ne_bytes(new), Relaxed);
            rest = rest.get(len..).unwrap_or_default();
            at = at.wrapping_add(len);
        }
        Ok(())
    }
}

/// Of the word around an offset: how many bytes are in front of it, and how many of the rest are in it.
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

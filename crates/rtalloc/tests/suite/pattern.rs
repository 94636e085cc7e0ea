//! What the tests write into blocks.

use std::ptr::NonNull;

/// Bytes that differ from block to block and from place to place.
#[derive(Clone, Copy, Debug)]
pub struct Pattern(pub u64);

impl Pattern {
    fn word(self, index: usize) -> u64 {
        let mixed = (self.0 ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }

    /// Writes the pattern.
    ///
    /// # Safety
    ///
    /// `len_bytes` from `start` on belong to the test: they are a live block's.
    pub unsafe fn write(self, start: NonNull<u8>, len_bytes: usize) {
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len_bytes) };
        for (index, chunk) in bytes.chunks_mut(8).enumerate() {
            chunk.copy_from_slice(&self.word(index).to_le_bytes()[..chunk.len()]);
        }
    }

    /// Whether the pattern is there.
    ///
    /// # Safety
    ///
    /// As [`write`](Self::write).
    pub unsafe fn is_at(self, start: NonNull<u8>, len_bytes: usize) -> bool {
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), len_bytes) };
        bytes.chunks(8).enumerate().all(|(index, chunk)| chunk == &self.word(index).to_le_bytes()[..chunk.len()])
    }
}

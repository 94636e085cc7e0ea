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
    /// `len_bytes` from `start` on are part of a live block, which the test owns.
    pub unsafe fn write(self, start: NonNull<u8>, len_bytes: usize) {
        // SAFETY: the caller owns these bytes of a live block.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len_bytes) };
        let (words, rest) = bytes.as_chunks_mut();
        words.iter_mut().enumerate().for_each(|(index, word)| *word = self.word(index).to_le_bytes());
        rest.copy_from_slice(&self.word(words.len()).to_le_bytes()[..rest.len()]);
    }

    /// Whether the pattern is there.
    ///
    /// # Safety
    ///
    /// As [`write`](Self::write).
    pub unsafe fn is_at(self, start: NonNull<u8>, len_bytes: usize) -> bool {
        // SAFETY: the caller owns these bytes of a live block.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), len_bytes) };
        let (words, rest) = bytes.as_chunks();
        words.iter().enumerate().all(|(index, &word)| u64::from_le_bytes(word) == self.word(index))
            && *rest == self.word(words.len()).to_le_bytes()[..rest.len()]
    }
}

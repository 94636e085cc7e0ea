//! A map of the heap in which live blocks are marked, so that two that overlap are found out at once.

use crate::subject::Heap;

/// Bytes per bit.
const GRANULE_BYTES: usize = 8;
const BITS: usize = u64::BITS as usize;

/// One bit per 8 bytes of the heap, set where a live block covers all of them; blocks may end within a granule, so
/// that an overlap of fewer bytes goes unnoticed here. Covers nothing for a subject with its own pages.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    start: usize,
    words: Vec<u64>,
}

impl Shadow {
    /// Sizes the map for `heap`, unless it is already.
    #[inline(always)]
    pub(super) fn cover(&mut self, heap: &Heap<'_>) {
        if self.words.is_empty() && heap.start != 0 {
            self.start = heap.start & !(GRANULE_BYTES - 1);
            self.words = vec![0; (heap.end - self.start) / (GRANULE_BYTES * BITS) + 1];
        }
    }

    /// Marks a block; `false` if a part of it was marked already.
    #[inline(always)]
    pub(super) fn claim(&mut self, address: usize, size: usize) -> bool {
        let mut free = true;
        self.each_word(address, size, |word, mask| {
            free &= *word & mask == 0;
            *word |= mask;
        });
        free
    }

    /// Removes a block's mark.
    #[inline(always)]
    pub(super) fn release(&mut self, address: usize, size: usize) {
        self.each_word(address, size, |word, mask| *word &= !mask);
    }

    #[inline(always)]
    fn each_word(&mut self, address: usize, size: usize, mut visit: impl FnMut(&mut u64, u64)) {
        if self.words.is_empty() {
            return;
        }
        let offset = address - self.start;
        let (first, end) = (offset.div_ceil(GRANULE_BYTES), (offset + size) / GRANULE_BYTES);
        if first >= end {
            return;
        }
        let (first_word, last_word) = (first / BITS, (end - 1) / BITS);
        let head = u64::MAX << (first % BITS);
        let tail = u64::MAX >> (BITS - 1 - (end - 1) % BITS);
        if first_word == last_word {
            visit(&mut self.words[first_word], head & tail);
            return;
        }
        visit(&mut self.words[first_word], head);
        for word in &mut self.words[first_word + 1..last_word] {
            visit(word, u64::MAX);
        }
        visit(&mut self.words[last_word], tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_agree_with_a_map_of_bytes() {
        const BYTES: usize = 2048;
        let mut state = 1_u64;
        let mut next = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        for _ in 0..2000 {
            let mut shadow = Shadow { start: 4096, words: vec![0; BYTES / 512 + 1] };
            let (first, second) = ((next(BYTES / 8) * 8, next(700) + 1), (next(BYTES / 8) * 8, next(700) + 1));
            let fits = |(start, size): (usize, usize)| start + size <= BYTES;
            if !fits(first) || !fits(second) {
                continue;
            }
            // Both start at a granule, so they share a whole one exactly if their rounded ends overlap.
            let whole = |(start, size): (usize, usize)| start..start + size / 8 * 8;
            let overlap = whole(first).start.max(whole(second).start) < whole(first).end.min(whole(second).end);
            assert!(shadow.claim(4096 + first.0, first.1));
            assert_eq!(shadow.claim(4096 + second.0, second.1), !overlap, "{first:?} {second:?}");
            shadow.release(4096 + second.0, second.1);
            shadow.release(4096 + first.0, first.1);
            assert!(shadow.words.iter().all(|word| *word == 0));
        }
    }
}

//! A map of the heap with the live blocks marked, so that an overlap is detected at once.

use rtalloc_subjects::Heap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes per bit.
const GRANULE_BYTES: usize = 8;
const BITS: usize = u64::BITS as usize;

/// One bit per 8 bytes of the heap, set where a live block covers all of them; blocks may end within a granule, so an
/// overlap of fewer bytes is not detected here. Empty for a subject with its own pages.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    start: usize,
    words: Vec<u64>,
}

impl Shadow {
    /// Sizes the map for `heap`, unless done already.
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
        if !self.words.is_empty() {
            each_place(address - self.start, size, |word, mask| visit(&mut self.words[word], mask));
        }
    }
}

/// A [`Shadow`] that several threads mark concurrently. An overlap may be detected by either of the two owners.
#[derive(Debug)]
pub(super) struct SharedShadow {
    start: usize,
    words: Vec<AtomicU64>,
}

impl SharedShadow {
    /// A map of the memory between two addresses; empty if the first is 0.
    pub(super) fn new(start: usize, end: usize) -> Self {
        let start = start & !(GRANULE_BYTES - 1);
        let words = if start == 0 { 0 } else { (end - start) / (GRANULE_BYTES * BITS) + 1 };
        Self { start, words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Marks a block; `false` if a part of it was marked already.
    pub(super) fn claim(&self, address: usize, size: usize) -> bool {
        let mut free = true;
        self.each_word(address, size, |word, mask| free &= word.fetch_or(mask, Ordering::Relaxed) & mask == 0);
        free
    }

    /// Removes a block's mark.
    pub(super) fn release(&self, address: usize, size: usize) {
        self.each_word(address, size, |word, mask| {
            word.fetch_and(!mask, Ordering::Relaxed);
        });
    }

    fn each_word(&self, address: usize, size: usize, mut visit: impl FnMut(&AtomicU64, u64)) {
        if !self.words.is_empty() {
            each_place(address - self.start, size, |word, mask| visit(&self.words[word], mask));
        }
    }
}

/// The words of a map in which a block has bits, and which bits.
#[inline(always)]
fn each_place(offset: usize, size: usize, mut visit: impl FnMut(usize, u64)) {
    let (first, end) = (offset.div_ceil(GRANULE_BYTES), (offset + size) / GRANULE_BYTES);
    if first >= end {
        return;
    }
    let (first_word, last_word) = (first / BITS, (end - 1) / BITS);
    let head = u64::MAX << (first % BITS);
    let tail = u64::MAX >> (BITS - 1 - (end - 1) % BITS);
    if first_word == last_word {
        visit(first_word, head & tail);
        return;
    }
    visit(first_word, head);
    for word in first_word + 1..last_word {
        visit(word, u64::MAX);
    }
    visit(last_word, tail);
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
            let shared = SharedShadow::new(4096, 4096 + BYTES);
            assert!(shadow.claim(4096 + first.0, first.1) && shared.claim(4096 + first.0, first.1));
            for answer in [shadow.claim(4096 + second.0, second.1), shared.claim(4096 + second.0, second.1)] {
                assert_eq!(answer, !overlap, "{first:?} {second:?}");
            }
            for (address, size) in [second, first] {
                shadow.release(4096 + address, size);
                shared.release(4096 + address, size);
            }
            assert!(shadow.words.iter().all(|word| *word == 0));
            assert!(shared.words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        }
    }
}

//! Proposition 1 (section 3.4): a free moves nothing while n_f < max_nr_nf_pages - 1, where each free increments n_f,
//! and each allocation decrements it, to no less than 0. Tested on the history that refutes it
//! (`rtalloc::compact_fit::classes`), and on pseudo-random histories of one size class.

use crate::papers::compact_fit::result::Promise;
use rtalloc_lab::workload::random::Random;
use rtalloc_subjects::compact_fit::PARTIAL;
use rtalloc_subjects::{Handles, Heap, Region, Subject};

const HEAP_BYTES: usize = 4 << 20;
/// Bytes of an object: its class has five page-blocks per page, so that pages often become full and half full.
const OBJECT_BYTES: usize = 3000;
/// Page-blocks per page.
const BLOCKS: usize = 5;
/// `max_nr_nf_pages` of the history that refutes the proposition.
const REFUTED_WITH: u64 = 2;
const OPERATIONS: u64 = 20_000;
/// Number of operations after which a growing heap starts to shrink.
const TURN: u64 = 300;

/// For limits of 1 to 9 not-full pages.
pub(super) fn tried(seed: u64) -> Vec<Result<Promise, String>> {
    (1..).zip(PARTIAL).map(|(pages, subject)| one(pages, subject, seed)).collect()
}

/// A heap of one size class that records whether frees move objects.
struct Trial<'r> {
    heap: Heap<'r>,
    handles: Handles,
    live: Vec<*mut u8>,
    /// n_f.
    outstanding: u64,
    promise: Promise,
}

impl<'r> Trial<'r> {
    fn new(pages: u64, subject: &Subject, region: &'r mut Region) -> Result<Self, String> {
        let handles = subject.entries.handles.ok_or("no allocator of objects that move")?;
        let heap = Heap::new(subject, region, HEAP_BYTES).map_err(|error| error.to_string())?;
        let promise = Promise { not_full_pages: pages, frees: 0, moved: 0, with_one_less: (0, 0) };
        Ok(Self { heap, handles, live: Vec::new(), outstanding: 0, promise })
    }

    fn allocate(&mut self) {
        let entries = &self.heap.entries;
        // SAFETY: the heap is live.
        let block = unsafe { (entries.allocate)(self.heap.context, OBJECT_BYTES, entries.natural_align_bytes) };
        if !block.is_null() {
            self.live.push(block);
            self.outstanding = self.outstanding.saturating_sub(1);
        }
    }

    /// Frees the object at an index of `live` and keeps the order of the others.
    fn free(&mut self, place: usize) {
        let block = self.live.remove(place);
        let (entries, context) = (&self.heap.entries, self.heap.context);
        // SAFETY: blocks in `live` are live.
        let places = || self.live.iter().map(|block| unsafe { (self.handles.dereference)(context, *block, 0) });
        let before: Vec<*mut u8> = places().collect();
        // SAFETY: the block is live and was requested with this size.
        unsafe { (entries.deallocate)(context, block, OBJECT_BYTES, entries.natural_align_bytes) };
        let moved = u64::from(places().zip(before).any(|(now, then)| now != then));
        if self.outstanding + 1 < self.promise.not_full_pages {
            self.promise.frees += 1;
            self.promise.moved += moved;
        }
        if self.outstanding + 2 < self.promise.not_full_pages {
            self.promise.with_one_less.0 += 1;
            self.promise.with_one_less.1 += moved;
        }
        self.outstanding += 1;
    }

    /// A page that drops below half full moves to the front, but the allocations that decrement n_f go to another page:
    ///
    /// ```text
    /// [xxxxx][xxxxx][x....]   three frees in one page   [xxxxx][x...x][x....] n_f = 3
    ///                         three allocations         [xxxxx][x...x][xxxx.] n_f = 0, two not-full pages
    /// ```
    fn refuting_history(&mut self) {
        (0..2 * BLOCKS + 1).for_each(|_| self.allocate());
        (1..BLOCKS - 1).for_each(|_| self.free(BLOCKS + 1));
        (1..BLOCKS - 1).for_each(|_| self.allocate());
        self.free(0);
    }

    fn random_history(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        for operation in 0..OPERATIONS {
            let grows = (operation / TURN).is_multiple_of(2);
            if random.below(10) < if grows { 6 } else { 4 } {
                self.allocate();
            } else if !self.live.is_empty() {
                let place = random.below(self.live.len() as u64) as usize;
                let last = self.live.len() - 1;
                self.live.swap(place, last);
                self.free(last);
            }
        }
    }
}

fn one(pages: u64, subject: &Subject, seed: u64) -> Result<Promise, String> {
    let mut region = Region::new(HEAP_BYTES, false).map_err(|error| error.to_string())?;
    let mut trial = Trial::new(pages, subject, &mut region)?;
    trial.random_history(seed);
    let mut promise = trial.promise;
    drop(trial);
    if pages == REFUTED_WITH {
        let mut trial = Trial::new(pages, subject, &mut region)?;
        trial.refuting_history();
        promise.frees += trial.promise.frees;
        promise.moved += trial.promise.moved;
    }
    Ok(promise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_promised_of_one_page_and_what_holds_of_more_pages_is_one_page_less() {
        let found: Vec<Promise> = tried(1).into_iter().collect::<Result<_, _>>().expect("tried");
        assert_eq!((found.len(), found[0].frees), (9, 0));
        assert!(found[1..].iter().all(|promise| promise.frees > 100), "{found:?}");
        assert!(found.iter().all(|promise| promise.with_one_less.1 == 0), "{found:?}");
        let moved: Vec<u64> = found.iter().map(|promise| promise.moved).collect();
        assert_eq!(moved, [0, 1, 0, 0, 0, 0, 0, 0, 0], "the history that refutes the proposition");
    }
}

//! Proposition 1 (section 3.4) on pseudo-random histories of one size class: a free moves nothing while n_f <
//! max_nr_nf_pages - 1, where n_f goes up by one with a free, and down to no less than 0 with an allocation.

use crate::result::compact_fit::Promise;
use crate::subject::compact_fit::PARTIAL;
use crate::subject::{Heap, Region, Subject};
use crate::workload::random::Random;

const HEAP_BYTES: usize = 4 << 20;
/// Bytes of an object: its class has five page-blocks a page, so that pages become full and half full often.
const OBJECT_BYTES: usize = 3000;
const OPERATIONS: u64 = 20_000;
/// After so many operations a heap that grew shrinks.
const TURN: u64 = 300;

/// With 1 to 9 not-full pages.
pub(super) fn tried(seed: u64) -> Vec<Result<Promise, String>> {
    (1..).zip(PARTIAL).map(|(pages, subject)| one(pages, subject, seed)).collect()
}

fn one(pages: u64, subject: &Subject, seed: u64) -> Result<Promise, String> {
    let handles = subject.entries.handles.ok_or("no allocator of objects that move")?;
    let mut region = Region::new(HEAP_BYTES, false).map_err(|error| error.to_string())?;
    let heap = Heap::new(subject, &mut region, HEAP_BYTES).map_err(|error| error.to_string())?;
    let (entries, context) = (heap.entries, heap.context);
    let align = entries.natural_align_bytes;
    let mut random = Random::new(seed);
    let mut promise = Promise { not_full_pages: pages, frees: 0, moved: 0, with_one_less: (0, 0) };
    let mut live: Vec<*mut u8> = Vec::new();
    let mut outstanding = 0;
    for operation in 0..OPERATIONS {
        let grows = (operation / TURN).is_multiple_of(2);
        if random.below(10) < if grows { 6 } else { 4 } {
            // SAFETY: the heap is live.
            let block = unsafe { (entries.allocate)(context, OBJECT_BYTES, align) };
            if !block.is_null() {
                live.push(block);
                outstanding = u64::saturating_sub(outstanding, 1);
            }
        } else if !live.is_empty() {
            let block = live.swap_remove(random.below(live.len() as u64) as usize);
            // SAFETY: blocks in `live` are.
            let places = || live.iter().map(|block| unsafe { (handles.dereference)(context, *block, 0) });
            let before: Vec<*mut u8> = places().collect();
            // SAFETY: the block is live and was asked for with this size.
            unsafe { (entries.deallocate)(context, block, OBJECT_BYTES, align) };
            let moved = u64::from(places().zip(before).any(|(now, then)| now != then));
            if outstanding + 1 < pages {
                promise.frees += 1;
                promise.moved += moved;
            }
            if outstanding + 2 < pages {
                promise.with_one_less.0 += 1;
                promise.with_one_less.1 += moved;
            }
            outstanding += 1;
        }
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
    }
}

//! White-box tests of quick-fit: what Puaut states explicitly, and damage.

extern crate std;
use super::*;
use crate::contract::RegionAllocator;
use crate::mechanism::damage::{flip_every_bit, use_up};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::{vec, vec::Vec};

type Paper<'r> = QuickFit<'r, 4096, 8>;

/// A heap in memory for this many pages and the table; it has that many pages or one less.
fn with_heap(pages: usize, test: impl FnOnce(&mut Paper<'_>)) {
    let mut memory = vec![MaybeUninit::new(0); pages * 4096 + 1024];
    let mut heap = Paper::new(&mut memory, ()).unwrap();
    test(&mut heap);
    assert_eq!(heap.check(), Ok(()));
}

fn free_runs(heap: &Paper<'_>) -> Vec<usize> {
    let mut runs = vec![];
    heap.walk(&mut |block| runs.extend((block.free && block.size_bytes >= 4096).then_some(block.size_bytes / 4096)));
    runs
}

fn pages(heap: &mut Paper<'_>, pages: usize) -> NonNull<u8> {
    heap.allocate_bytes(pages * 4096, 1).unwrap()
}

fn free(heap: &mut Paper<'_>, block: NonNull<u8>) {
    // SAFETY: the tests free live blocks.
    unsafe { heap.deallocate(block) }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn headers_have_the_documented_sizes() {
    assert_eq!(QuickFitPolicy::<4096, 16>::HEADER_BYTES, 64);
    assert_eq!(QuickFitPolicy::<4096, 8>::HEADER_BYTES, 96);
}

#[test]
fn the_smallest_request_splits_a_page_512_ways_and_the_last_free_frees_it() {
    with_heap(8, |heap| {
        let before = free_runs(heap);
        let first = heap.allocate_bytes(1, 1).unwrap();
        let mut fragments = 0;
        heap.walk(&mut |block| fragments += usize::from(block.size_bytes == 8));
        assert_eq!(fragments, 512);
        let second = heap.allocate_bytes(8, 1).unwrap();
        assert_eq!(second.addr().get(), first.addr().get() + 8, "fragments are linked in the order of their addresses");
        free(heap, first);
        assert_eq!(heap.allocate_bytes(5, 1), Ok(first), "the last freed comes first");
        free(heap, first);
        assert_eq!(free_runs(heap).iter().sum::<usize>() + 1, before[0]);
        free(heap, second);
        assert_eq!(free_runs(heap), before, "an empty page is freed at once, and coalesces");
    });
}

#[test]
fn sizes_are_powers_of_two_up_to_half_a_page_and_then_whole_pages() {
    with_heap(8, |heap| {
        for (size_bytes, granted_bytes) in [
            (1, 8),
            (8, 8),
            (9, 16),
            (100, 128),
            (2048, 2048),
            (2049, 4096),
            (4096, 4096),
            (4097, 8192),
            (9000, 12_288),
        ] {
            let block = heap.allocate_bytes(size_bytes, 1).unwrap();
            // SAFETY: the block is live.
            assert_eq!(unsafe { heap.usable_size(block) }, granted_bytes);
            assert!(block.addr().get().is_multiple_of(granted_bytes.min(4096)));
            free(heap, block);
        }
    });
}

#[test]
fn the_search_continues_where_the_last_one_ended() {
    with_heap(12, |heap| {
        let blocks: Vec<_> = (0..5).map(|_| pages(heap, 1)).collect();
        free(heap, blocks[0]);
        free(heap, blocks[2]);
        // Next-fit skips the two earlier runs: the rover is after the fifth block.
        let next = pages(heap, 1);
        assert_eq!(next.addr().get(), blocks[4].addr().get() + 4096);
        // At the end of the list, the search wraps around to them.
        let rest = heap.largest_allocatable();
        heap.allocate_bytes(rest, 1).unwrap();
        let again = pages(heap, 1);
        assert!(again == blocks[0] || again == blocks[2]);
    });
}

#[test]
fn freed_pages_coalesce_with_both_neighbours() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        with_heap(10, |heap| {
            let before = free_runs(heap);
            let blocks: Vec<_> = [2, 1, 3].map(|count| pages(heap, count)).into();
            let fence = pages(heap, 1);
            order.iter().for_each(|&index| free(heap, blocks[index]));
            assert_eq!(free_runs(heap)[0], 6, "{order:?}");
            free(heap, fence);
            assert_eq!(free_runs(heap), before);
        });
    }
}

#[test]
fn runs_shrink_and_grow_in_place() {
    with_heap(10, |heap| {
        let block = pages(heap, 5);
        let fence = pages(heap, 1);
        // SAFETY: the block is live.
        unsafe {
            assert_eq!(heap.reallocate_bytes(block, 5000, 1), Ok(block));
            assert_eq!(free_runs(heap)[0], 3, "[used 5] -> [used 2][free 3]");
            assert_eq!(heap.reallocate_bytes(block, 4 * 4096, 1), Ok(block));
            assert_eq!(free_runs(heap)[0], 1, "[used 2][free 3] -> [used 4][free 1]");
            assert_ne!(heap.reallocate_bytes(fence, 3 * 4096, 1).map(NonNull::addr), Err(AllocError::Misused));
        }
    });
}

#[test]
fn damage_of_the_policy_is_found_and_not_followed() {
    type Policy = QuickFitPolicy<4096, 8>;
    for pages in 8..12 {
        let all = 0..size_of::<Policy>();
        flip_every_bit::<Paper<'static>>(pages * 4200, all.end, &[all], use_up);
    }
}

#[test]
fn pages_inside_a_run_are_no_nodes() {
    with_heap(12, |heap| {
        let blocks: Vec<_> = [3, 1, 3, 1].map(|count| pages(heap, count)).into();
        free(heap, blocks[0]);
        free(heap, blocks[2]);
        // The runs of three have their length at both ends; the last page of the first run is not a run of three.
        // SAFETY: the policy is at the start of the region, to which the heap's pointer leads.
        unsafe {
            let policy: &QuickFitPolicy<4096, 8> = &*core::mem::transmute_copy::<_, *const _>(heap);
            assert!(policy.begins_free(0) && policy.begins_free(4));
            assert!(![1, 2, 5, 6].iter().any(|&index| policy.begins_free(index)));
        }
    });
}

#[test]
fn damaged_bookkeeping_is_found() {
    with_heap(6, |heap| {
        let blocks: Vec<_> = (0..3).map(|_| heap.allocate_bytes(2000, 1).unwrap()).collect();
        let run = pages(heap, 2);
        free(heap, blocks[0]);
        let page = blocks[0].addr().get();
        let link: *mut Links = core::ptr::with_exposed_provenance_mut(page);
        // SAFETY: the fragment is free, so it begins with links; the old value is restored.
        unsafe {
            let whole = link.read();
            for (damage, invariant) in [
                (Links { prev: NONE, next: 4 }, "a page's list leads to free fragments"),
                (Links { prev: 0, next: NONE }, "a page's list leads back"),
            ] {
                link.write(damage);
                assert_eq!(heap.check().unwrap_err().invariant, invariant);
                link.write(whole);
            }
        }
        free(heap, run);
    });
}

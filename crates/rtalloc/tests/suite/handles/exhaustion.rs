//! Exhaustion and recovery; long runs.

use super::ops::{HandleOp, RandomHandleOps};
use super::property::most_region_bytes;
use super::shadow::Shadow;
use super::subject::traits;
use crate::exhaustion::Order;
use crate::long_run::OPERATIONS;
use crate::memory::Buffer;
use crate::ops::{Distribution, Op};
use crate::subject::facts;
use crate::tier::Tiers;

/// An audit compares every object, and there are thousands.
const AUDIT_EVERY: Tiers<usize> = Tiers { daily: 997, full: 211 };

/// Filling with one size, for many sizes and orders of freeing: the heap then holds the same number again.
pub fn fill_and_empty() {
    let len_bytes = most_region_bytes();
    let buffer = Buffer::new(len_bytes);
    let page_bytes = facts().page_bytes;
    let sizes = [1, 28, 29, 100, page_bytes / 9, page_bytes / 3, page_bytes / 2 + 1, page_bytes - 100, 3 * page_bytes];
    for size_bytes in sizes.into_iter().filter(|&size_bytes| size_bytes <= facts().largest_request_bytes) {
        for order in Order::ALL {
            let mut shadow = Shadow::new(&buffer, len_bytes, AUDIT_EVERY.now());
            let filled = fill(&mut shadow, size_bytes);
            assert!(filled > 0, "{size_bytes} bytes in a heap of {len_bytes}");
            shadow.audit();
            order.empty(
                &mut shadow,
                |shadow| shadow.live.iter().map(|object| object.number).collect(),
                |shadow, index| shadow.apply(&HandleOp::Heap(Op::Free { index })),
            );
            shadow.apply(&HandleOp::Compact { budget_bytes: usize::MAX });
            shadow.assert_recovered();
            assert_eq!(filled, fill(&mut shadow, size_bytes), "{size_bytes} bytes, freed in {order:?} order");
            shadow.assert_stale();
            shadow.finish();
        }
    }
}

/// Repeats a request until the heap refuses it; returns how many objects it holds.
fn fill(shadow: &mut Shadow<'_>, size_bytes: usize) -> usize {
    while shadow.try_allocate(size_bytes) {}
    shadow.live.len()
}

/// A full heap serves other sizes once enough is freed: fragmentation is bounded, and a page is free again when its
/// last object is.
pub fn freed_memory_serves_other_sizes() {
    let len_bytes = most_region_bytes();
    let buffer = Buffer::new(len_bytes);
    let mut random = RandomHandleOps::new(7, Distribution::Small, len_bytes, 0);
    for size_bytes in [20, 120, 250] {
        let mut shadow = Shadow::new(&buffer, len_bytes, 101);
        fill(&mut shadow, size_bytes);
        let object = shadow.heap.objects()[0];
        let per_page = facts().page_bytes / object.page_block_bytes;
        // Enough that more page-blocks are free than not-full pages can have, wherever they are.
        let freed = (traits().max_not_full + 1) * per_page;
        if traits().is_layered || freed >= shadow.live.len() {
            continue;
        }
        for _ in 0..freed {
            let index = random.below(shadow.live.len());
            shadow.apply(&HandleOp::Heap(Op::Free { index }));
        }
        shadow.apply(&HandleOp::Compact { budget_bytes: usize::MAX });
        assert!(shadow.try_allocate(shadow.fresh_largest_bytes), "{freed} freed objects of {object:?} left no page");
        shadow.audit();
    }
}

/// Random operations with three size distributions.
pub fn long_run() {
    let heap_bytes = most_region_bytes().max(1 << 20);
    let buffer = Buffer::new(heap_bytes);
    let each = OPERATIONS.now() / Distribution::ALL.len() + 1;
    let (mut done, mut most_live) = (0, 0);
    for (seed, distribution) in Distribution::ALL.into_iter().enumerate() {
        let mut shadow = Shadow::new(&buffer, heap_bytes, 2_003);
        let most = (heap_bytes / 200).min(3_000);
        let mut random = RandomHandleOps::new(seed as u64 + 1, distribution, heap_bytes, most);
        for _ in 0..each {
            let op = random.next(shadow.live.len());
            shadow.apply(&op);
            most_live = most_live.max(shadow.live.len());
        }
        done += each;
        shadow.finish();
    }
    println!("{}: {done} operations in {heap_bytes} bytes, up to {most_live} live objects", facts().name);
}

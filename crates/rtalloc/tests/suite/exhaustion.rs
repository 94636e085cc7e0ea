//! Exhaustion and recovery: a heap that is filled until it refuses, then emptied in some order, is as good as new.

use super::memory::{Buffer, fingerprint, servable, smallest_region_bytes, within_reach};
use super::ops::{Distribution, Op, Random};
use super::shadow::Shadow;
use super::subject::facts;
use rtalloc::contract::{Coalescing, Mechanism};

/// Orders in which blocks are freed.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    Lifo,
    Fifo,
    Random,
    EverySecond,
}

impl Order {
    /// All of them.
    pub const ALL: [Order; 4] = [Order::Lifo, Order::Fifo, Order::Random, Order::EverySecond];

    /// Frees everything in this order: `numbers` returns the number of each live block in order of allocation, `free`
    /// frees the block at an index of them.
    pub fn empty<S>(self, shadow: &mut S, numbers: impl Fn(&S) -> Vec<u64>, free: impl Fn(&mut S, usize)) {
        let mut random = Random::new(1, Distribution::Small, 0, 0);
        let mut second = 0;
        loop {
            let numbers = numbers(shadow);
            if numbers.is_empty() {
                return;
            }
            let index = match self {
                Order::Lifo => (0..numbers.len()).max_by_key(|&index| numbers[index]).unwrap_or(0),
                Order::Fifo => (0..numbers.len()).min_by_key(|&index| numbers[index]).unwrap_or(0),
                Order::Random => random.below(numbers.len()),
                Order::EverySecond => {
                    second = (second + 1) % numbers.len();
                    second
                }
            };
            free(shadow, index);
        }
    }
}

/// Filling with one size, for many sizes, alignments and orders of freeing.
pub fn fill_and_empty() {
    let len_bytes = within_reach(1 << 14);
    let buffer = Buffer::new(len_bytes);
    let granule = facts().granule_bytes;
    let mut sizes =
        [1, 7, granule, granule + 1, 24, 100, 513, 1000, len_bytes / 5, len_bytes / 2, len_bytes - 1].to_vec();
    // Of the sizes beyond the largest request, one is enough.
    sizes.retain(|&size_bytes| size_bytes == len_bytes - 1 || size_bytes == servable(size_bytes));
    for size_bytes in sizes {
        for align_bytes in [1, 64, 1024] {
            for order in Order::ALL {
                fill_and_empty_once(&buffer, len_bytes, &Op::Allocate { size_bytes, align_bytes }, order);
            }
        }
    }
}

fn fill_and_empty_once(buffer: &Buffer, len_bytes: usize, request: &Op, order: Order) {
    let mut shadow = Shadow::new(buffer, len_bytes, 61);
    let fresh = fingerprint(&shadow.allocator);
    let filled = fill(&mut shadow, request);
    shadow.audit();
    let empty = |shadow: &mut Shadow<'_>| {
        order.empty(
            shadow,
            |shadow| shadow.live.iter().map(|block| block.number).collect(),
            |shadow, index| shadow.apply(&Op::Free { index }),
        );
        shadow.assert_recovered();
    };
    empty(&mut shadow);
    if facts().coalescing == Coalescing::Neighbours {
        assert_eq!(fresh, fingerprint(&shadow.allocator), "{request:?}, freed in {order:?} order");
    }
    // A heap that never coalesces has blocks of exactly the requested size.
    let again = fill(&mut shadow, request);
    // With a quarantine, blocks are reused in the order in which it releases them, wherever they lie. The length of a
    // slot's pieces depends on the requests before.
    assert!(
        filled == again || facts().coalescing == Coalescing::Deferred || facts().mechanism == Mechanism::Arenas,
        "the second fill: {again} blocks, not {filled}"
    );
    empty(&mut shadow);
}

/// Repeats a request until it is refused; returns how often it was served.
fn fill(shadow: &mut Shadow<'_>, request: &Op) -> usize {
    loop {
        let before = shadow.live.len();
        shadow.apply(request);
        if shadow.live.len() == before {
            return before;
        }
    }
}

/// The smallest region that a heap accepts holds a block.
pub fn documented_size_serves() {
    let len_bytes = smallest_region_bytes();
    let buffer = Buffer::new(len_bytes);
    let mut shadow = Shadow::new(&buffer, len_bytes, 1);
    let largest = shadow.fresh_largest_bytes;
    assert!(largest > 0, "a heap that can serve nothing was accepted");
    // A heap that never coalesces keeps the first requested size.
    let least = if facts().coalescing.recovers() { 1 } else { largest };
    for size_bytes in least..=largest {
        assert!(shadow.allocate(size_bytes), "{size_bytes} bytes in a heap for {largest}");
        shadow.free(0);
    }
    shadow.finish();
}

/// A request takes about its own size from a fresh heap, not the whole.
pub fn request_leaves_the_rest() {
    let len_bytes = within_reach(1 << 14);
    let buffer = Buffer::new(len_bytes);
    for size_bytes in 1..servable(200) {
        let mut shadow = Shadow::new(&buffer, len_bytes, 1);
        let free_bytes = |shadow: &Shadow<'_>| -> usize {
            shadow.blocks().iter().filter(|block| block.free).map(|block| block.size_bytes).sum()
        };
        let fresh_bytes = free_bytes(&shadow);
        assert!(shadow.allocate(size_bytes) && shadow.allocate(size_bytes));
        let left_bytes = free_bytes(&shadow);
        assert!(left_bytes > fresh_bytes / 2, "two requests for {size_bytes} bytes left {left_bytes} of {fresh_bytes}");
        shadow.finish();
    }
}

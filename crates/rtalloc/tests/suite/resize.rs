//! Reallocation: in place where it can be, content and alignment kept, the old block kept where it fails.

use super::memory::{Buffer, fingerprint, servable, within_reach};
use super::ops::Op;
use super::shadow::Shadow;
use super::subject::facts;
use super::tier::Tiers;

const HEAP_BYTES: usize = 1 << 13;
/// Blocks of a size that the daily tier tries to grow in an exhausted heap, at most.
const MOST_TRIED: usize = 50;

/// An empty heap, audited after every operation.
fn fresh(buffer: &Buffer) -> Shadow<'_> {
    Shadow::new(buffer, within_reach(HEAP_BYTES), 1)
}

/// Changes the size of the block at an address; returns its address afterwards.
fn resize(shadow: &mut Shadow<'_>, address: usize, size_bytes: usize, align_bytes: usize) -> usize {
    let index = shadow.live.iter().position(|block| block.address() == address).expect("a live block");
    shadow.apply(&Op::Reallocate { index, size_bytes, align_bytes });
    shadow.live[shadow.live.len() - 1].address()
}

/// Allocates and returns the address.
fn take(shadow: &mut Shadow<'_>, size_bytes: usize, align_bytes: usize) -> usize {
    let before = shadow.live.len();
    shadow.apply(&Op::Allocate { size_bytes, align_bytes });
    assert_eq!(shadow.live.len(), before + 1, "a fresh heap refused {size_bytes} bytes");
    shadow.live[before].address()
}

/// Two adjacent live blocks, found by the walk, because the allocator decides where blocks lie.
fn neighbours(shadow: &Shadow<'_>) -> Option<(usize, usize)> {
    let blocks = shadow.blocks();
    let pair = blocks.windows(2).find(|pair| !pair[0].free && !pair[1].free)?;
    Some((pair[0].address, pair[1].address))
}

/// A block grows into its free next neighbour without moving, up to the last byte of it.
pub fn grows_in_place() {
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    for (size_bytes, next_bytes) in [(40, 40), (1, 24), (100, 300), (24, 1000), (500, 60)] {
        let (size_bytes, next_bytes) = (servable(size_bytes), servable(next_bytes));
        for more_bytes in 0..=next_bytes {
            let mut shadow = fresh(&buffer);
            take(&mut shadow, size_bytes, 1);
            take(&mut shadow, next_bytes.max(size_bytes), 1);
            let Some((first, second)) = neighbours(&shadow) else {
                assert!(!facts().grows_in_place, "no two live neighbours");
                continue;
            };
            let fence = take(&mut shadow, 8, 1);
            assert_ne!(fence, first);
            let index = shadow.live.iter().position(|block| block.address() == second).expect("live");
            let freed_bytes = shadow.live[index].size_bytes;
            shadow.apply(&Op::Free { index });
            let size_bytes = shadow.find(first).expect("live").size_bytes;
            let more_bytes = more_bytes.min(freed_bytes);
            let after = resize(&mut shadow, first, size_bytes + more_bytes, 1);
            assert!(!facts().grows_in_place || after == first, "moved to grow by {more_bytes} of {next_bytes} bytes");
            shadow.finish();
        }
    }
}

/// A block shrinks in place, and its tail becomes free; or it leaves its pages.
pub fn shrinking_returns_the_tail() {
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    for is_next_live in [false, true] {
        for size_bytes in [1000, 1500, 2000] {
            let size_bytes = servable(size_bytes);
            for to_bytes in [1, 24, 100, size_bytes / 2].map(|to_bytes| to_bytes.min(size_bytes)) {
                let mut shadow = fresh(&buffer);
                let block = take(&mut shadow, size_bytes, 1);
                if is_next_live {
                    take(&mut shadow, 8, 1);
                }
                let free_bytes = |shadow: &Shadow<'_>| -> usize {
                    shadow.blocks().iter().filter(|block| block.free).map(|block| block.size_bytes).sum()
                };
                let before = free_bytes(&shadow);
                let after = resize(&mut shadow, block, to_bytes, 1);
                // A block that has whole pages may move to one that it shares.
                let may_move = to_bytes <= facts().page_bytes / 2;
                assert!(after == block || may_move, "a block moved to shrink from {size_bytes} to {to_bytes} bytes");
                let gained = free_bytes(&shadow) - before;
                // What a block of the new size may keep: its granted size, at most twice the request and a block.
                let expected = size_bytes
                    .saturating_sub(2 * to_bytes + 2 * facts().min_block_bytes + facts().splitting_threshold_bytes);
                assert!(
                    gained >= expected || !facts().shrinks_in_place,
                    "shrinking {size_bytes} to {to_bytes} bytes freed {gained}"
                );
                shadow.finish();
            }
        }
    }
}

/// Requesting the same size again changes nothing.
pub fn same_size_is_nothing() {
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    for size_bytes in 1..servable(600) {
        let mut shadow = fresh(&buffer);
        let block = take(&mut shadow, size_bytes, 1);
        let state = fingerprint(&shadow.allocator);
        assert_eq!(resize(&mut shadow, block, size_bytes, 1), block, "{size_bytes} bytes moved");
        assert_eq!(state, fingerprint(&shadow.allocator), "{size_bytes} bytes changed the heap");
        shadow.finish();
    }
}

/// A block that moves keeps its content and gets the requested alignment, whether it moves for its size or for its
/// alignment.
pub fn moving_keeps_content_and_alignment() {
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    let most_log2 = facts().largest_alignment_bytes.ilog2().min(8);
    for align_log2 in 0..=most_log2 {
        for (size_bytes, to_bytes) in [(24, 600), (100, 101), (300, 900), (64, 32), (500, 500)] {
            let (size_bytes, to_bytes) = (servable(size_bytes), servable(to_bytes));
            for from_log2 in [0, align_log2] {
                let mut shadow = fresh(&buffer);
                let block = take(&mut shadow, size_bytes, 1 << from_log2);
                for _ in 0..4 {
                    take(&mut shadow, 24, 1);
                }
                // The shadow verifies the content and alignment.
                let moved = resize(&mut shadow, block, to_bytes, 1 << align_log2);
                assert!(moved.is_multiple_of(1 << align_log2));
                shadow.finish();
            }
        }
    }
}

/// On an exhausted heap a block that cannot grow does not change.
pub fn exhaustion_keeps_the_old_block() {
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    for size_bytes in [1, 24, 200, servable(1000)] {
        let mut shadow = fresh(&buffer);
        while shadow.allocate(size_bytes) {}
        shadow.fill(1);
        let live: Vec<usize> = shadow.live.iter().map(|block| block.address()).collect();
        // Of thousands of blocks of the same size, the daily tier tries some.
        let step = Tiers { daily: live.len() / MOST_TRIED + 1, full: 1 }.now();
        for address in live.into_iter().step_by(step) {
            let usable_bytes = shadow.find(address).expect("live").usable_bytes;
            for to_bytes in [usable_bytes + 1, usable_bytes * 2, HEAP_BYTES / 2] {
                let index = shadow.live.iter().position(|block| block.address() == address).expect("a live block");
                shadow.apply(&Op::Reallocate { index, size_bytes: to_bytes, align_bytes: 1 });
                assert!(shadow.find(address).is_some(), "an exhausted heap moved a block");
            }
        }
        shadow.finish();
    }
}

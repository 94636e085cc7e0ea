//! Bad input: a typed error, and nothing changed.

use super::memory::{Buffer, servable, smallest_region_bytes, within_reach};
use super::ops::Op;
use super::shadow::Shadow;
use super::subject::{Subject, facts};
use super::tier::Tiers;
use rtalloc::contract::{AllocError, InitError};

/// After how many impossible requests the heap is audited.
const AUDIT_EVERY: Tiers<usize> = Tiers { daily: 61, full: 1 };

/// Requests that no heap can serve, on a heap that is fresh, half full and exhausted: the shadow judges each error, and
/// compares state and bytes.
pub fn impossible_requests() {
    let len_bytes = within_reach(1 << 13);
    let buffer = Buffer::new(len_bytes);
    let mut shadow = Shadow::new(&buffer, len_bytes, AUDIT_EVERY.now());
    for fill in 0..3 {
        let live = shadow.live.len();
        shadow.assert_unchanged_by(|shadow| {
            for (size_bytes, align_bytes) in impossible(len_bytes) {
                shadow.apply(&Op::Allocate { size_bytes, align_bytes });
                for index in 0..live.min(3) {
                    shadow.apply(&Op::Reallocate { index, size_bytes, align_bytes });
                }
                assert_eq!(shadow.live.len(), live, "served {size_bytes} bytes at alignment {align_bytes}");
            }
        });
        match fill {
            0 => (0..20).for_each(|_| assert!(shadow.allocate(servable(48)))),
            _ => shadow.fill(1),
        }
    }
    assert_eq!(shadow.allocator.allocate_bytes(1, 1).err(), Some(AllocError::Exhausted));
}

/// Sizes and alignments that a heap of `len_bytes` cannot serve.
fn impossible(len_bytes: usize) -> Vec<(usize, usize)> {
    let mut requests = Vec::new();
    // Every size near an overflow, at the least alignment, at the greatest, and at one where rounding up starts to
    // overflow within the range; a sample at other alignments.
    let greatest = 1 << (usize::BITS - 1);
    for align_bytes in [1, 8, 16, 64, 4096, 1 << 16, greatest] {
        let step = if matches!(align_bytes, 1 | 64) || align_bytes == greatest { 1 } else { 17 };
        requests.push((0, align_bytes));
        let below_all = (0..200).map(|below| usize::MAX - below);
        let around_half = (0..200).map(|above| isize::MAX as usize - 100 + above);
        let around_short = (0..200).map(|above| (u32::MAX as usize - 100).saturating_add(above));
        let above_heap = (0..100).map(|above| len_bytes + above);
        let sizes = below_all.chain(around_half).chain(around_short).chain(above_heap);
        requests.extend(sizes.step_by(step).map(|size| (size, align_bytes)));
        requests.extend(
            (4..usize::BITS).map(|log2| 1 << log2).filter(|&size| size >= len_bytes).map(|size| (size, align_bytes)),
        );
    }
    for size_bytes in [0, 1, 24, 1000, usize::MAX] {
        requests.extend([0, 3, 5, 6, 7, 12, 24, 48, 1000, usize::MAX].map(|align_bytes| (size_bytes, align_bytes)));
        let beyond = (len_bytes.ilog2() + 1)..usize::BITS;
        requests.extend(beyond.map(|log2| (size_bytes, 1 << log2)));
    }
    requests
}

/// Each kind of refusal has its error.
pub fn errors_are_typed() {
    let len_bytes = within_reach(1 << 13);
    let buffer = Buffer::new(len_bytes);
    // SAFETY: the heap ends with this function, before the buffer.
    let mut allocator: Subject = unsafe { buffer.heap(0, len_bytes) }.expect("large enough");
    assert_eq!(allocator.allocate_bytes(0, 1).err(), Some(AllocError::ZeroSize));
    assert_eq!(allocator.allocate_bytes(usize::MAX, 1).err(), Some(AllocError::TooLarge));
    assert_eq!(allocator.allocate_bytes(len_bytes, 16).err(), Some(AllocError::TooLarge));
    assert_eq!(allocator.allocate_bytes(8, 0).err(), Some(AllocError::Alignment));
    assert_eq!(allocator.allocate_bytes(8, 3).err(), Some(AllocError::Alignment));
    assert_eq!(allocator.allocate_bytes(8, 1 << (usize::BITS - 1)).err(), Some(AllocError::Alignment));
    assert_eq!(allocator.allocate_bytes(8, len_bytes.next_power_of_two()).err(), Some(AllocError::Alignment));
    let block = allocator.allocate_bytes(allocator.largest_allocatable(), 1).expect("promised");
    while allocator.allocate_bytes(1, 1).is_ok() {}
    assert_eq!(allocator.allocate_bytes(1, 1).err(), Some(AllocError::Exhausted));
    // SAFETY: the block is live.
    let answer = unsafe { allocator.reallocate_bytes(block, 0, 1) };
    assert_eq!(answer.err(), Some(AllocError::ZeroSize));
}

/// Alignments of every power of two, up to those that need most of the heap.
pub fn large_alignments() {
    let len_bytes = within_reach(1 << 16);
    let buffer = Buffer::new(len_bytes);
    for align_log2 in 0..usize::BITS {
        for size_bytes in [1, 16, 100, 1000] {
            let mut shadow = Shadow::new(&buffer, len_bytes, 1);
            let request = Op::Allocate { size_bytes, align_bytes: 1 << align_log2 };
            while shadow.live.len() < 4 {
                let before = shadow.live.len();
                shadow.apply(&request);
                if shadow.live.len() == before {
                    break;
                }
            }
            shadow.finish();
        }
    }
}

/// Regions of every length from zero to more than enough, at every misalignment. A refused region is untouched, and the
/// error says how many bytes are needed, which suffice at that misalignment. An accepted region is a heap that keeps
/// the contract. Acceptance is monotonic in the length.
pub fn small_and_misaligned_regions() {
    let most_bytes = smallest_region_bytes() + 512;
    let buffer = Buffer::new(3 * most_bytes);
    // With large pages, only a sample of lengths and misalignments is tried.
    let (step_bytes, offset_step) = if most_bytes > 4096 { (61, 7) } else { (1, 1) };
    for offset_bytes in (0..64).step_by(offset_step) {
        let mut is_accepted = false;
        for len_bytes in (0..most_bytes).step_by(step_bytes) {
            let untouched = buffer.save();
            // SAFETY: the heap ends with this iteration, before the buffer.
            match unsafe { buffer.heap(offset_bytes, len_bytes) } {
                Ok(allocator) => {
                    is_accepted = true;
                    try_heap(allocator, &buffer, &untouched, offset_bytes, len_bytes);
                    buffer.restore(&untouched);
                }
                Err(InitError::TooSmall { needed_bytes }) => {
                    assert!(!is_accepted, "{len_bytes} bytes at offset {offset_bytes} refused, fewer accepted");
                    assert!(untouched == buffer.bytes(), "a refused region was written");
                    assert!(needed_bytes > len_bytes, "{len_bytes} bytes refused because {needed_bytes} are needed");
                    // SAFETY: the heap ends with this iteration, before the buffer.
                    let retry = unsafe { buffer.heap(offset_bytes, needed_bytes) };
                    assert!(
                        retry.is_ok(),
                        "{needed_bytes} bytes at offset {offset_bytes} should do: {:?}",
                        retry.err()
                    );
                    drop(retry);
                    buffer.restore(&untouched);
                }
                Err(error) => panic!("{len_bytes} bytes at offset {offset_bytes}: {error}"),
            }
        }
        assert!(is_accepted, "no region at offset {offset_bytes} was accepted");
    }
    buffer.assert_guards();
}

/// Fills and empties a tiny heap; the bytes around its region must not change.
fn try_heap(mut allocator: Subject, buffer: &Buffer, untouched: &[u8], offset_bytes: usize, len_bytes: usize) {
    let outside = |bytes: &[u8]| (bytes[..offset_bytes].to_vec(), bytes[offset_bytes + len_bytes..].to_vec());
    assert!(allocator.largest_allocatable() > 0, "an accepted region of {len_bytes} bytes serves nothing");
    let mut blocks = Vec::new();
    while let Ok(block) = allocator.allocate_bytes(1, 1) {
        // SAFETY: the block is live and as large as the heap says.
        unsafe { block.write_bytes(0xEE, allocator.usable_size(block)) };
        blocks.push(block);
    }
    assert!(!blocks.is_empty());
    assert_eq!(allocator.check(), Ok(()));
    for block in blocks {
        // SAFETY: the block is live and forgotten here.
        unsafe { allocator.deallocate(block) };
    }
    assert_eq!(allocator.check(), Ok(()));
    assert!(outside(untouched) == outside(buffer.bytes()), "bytes around the region were written");
}

/// A region beyond the reach of the tags is refused untouched. For heaps whose reach a test can allocate.
pub fn regions_out_of_reach() {
    let reach = facts().max_span_bytes;
    let buffer = Buffer::new(reach + 100);
    let untouched = buffer.save();
    for len_bytes in reach + 1..reach + 100 {
        // SAFETY: the heap would end here, before the buffer.
        let answer = unsafe { buffer.heap(0, len_bytes) }.map(drop);
        assert_eq!(answer.err(), Some(InitError::OutOfReach { max_span_bytes: reach }), "{len_bytes} bytes");
    }
    assert!(untouched == buffer.bytes());
    Shadow::new(&buffer, reach, 1).finish();
}

//! Random sequences, shrunk; the promise of the largest request; regions of every size.

use super::ops;
use super::shadow::Shadow;
use super::subject::{Subject, traits};
use crate::memory::{Buffer, smallest_region_bytes_for};
use crate::property::holds;
use crate::subject::facts;
use proptest::prelude::*;
use rtalloc::contract::{AllocError, InitError};

/// Pages in the largest heap of a property test.
const MAX_PAGES: usize = 12;

/// Bytes of the largest region of a property test.
pub fn most_region_bytes() -> usize {
    smallest_region_bytes() + MAX_PAGES * facts().page_bytes
}

/// Length of the smallest region that is accepted, to within a step.
pub fn smallest_region_bytes() -> usize {
    // SAFETY: the heap ends here, before the buffer.
    smallest_region_bytes_for(16, |buffer, len_bytes| unsafe { Subject::new(buffer, 0, len_bytes) }.is_ok())
}

fn region_lengths() -> impl Strategy<Value = usize> {
    let (smallest, most) = (smallest_region_bytes(), most_region_bytes());
    prop_oneof![1 => Just(smallest), 3 => smallest..smallest + 3 * facts().page_bytes, 3 => smallest..most, 1 => Just(most)]
}

/// The heap keeps the contract through any sequence, and refuses every stale handle.
pub fn any_sequence() {
    let buffer = Buffer::new(most_region_bytes());
    let case = (region_lengths(), prop::collection::vec(ops::op(), 1..160));
    holds(128, case, |(len_bytes, ops)| {
        let mut shadow = Shadow::new(&buffer, len_bytes, 1);
        for op in &ops {
            shadow.apply(op);
        }
        shadow.assert_stale();
        shadow.finish();
    });
}

/// In every state that a sequence reaches, the largest allocatable request succeeds, and one byte more is refused if
/// the contract says that the promise is exact and no compaction is pending.
pub fn largest_allocatable_is_kept() {
    let buffer = Buffer::new(most_region_bytes());
    let case = (region_lengths(), prop::collection::vec(ops::op(), 1..80));
    holds(96, case, |(len_bytes, ops)| {
        let mut shadow = Shadow::new(&buffer, len_bytes, 16);
        for op in &ops {
            shadow.apply(op);
            assert_largest(&mut shadow);
        }
    });
}

/// Tries the promise of the heap's present state, and undoes the attempt.
pub fn assert_largest(shadow: &mut Shadow<'_>) {
    let most = shadow.heap.largest_allocatable();
    let saved = shadow.buffer.save();
    if most != 0 {
        let answer = shadow.heap.allocate(most);
        assert!(answer.is_ok(), "{most} bytes were promised and refused: {answer:?}");
        shadow.buffer.restore(&saved);
    }
    // A step of compaction may make room for more.
    if shadow.heap.pending_bytes() == 0 && (most == 0 || facts().largest_is_exact) {
        let answer = shadow.heap.allocate(most + 1);
        assert!(answer.is_err(), "{} bytes were allocatable, one more than promised", most + 1);
    }
    shadow.buffer.restore(&saved);
}

/// Regions of every length and misalignment. A refused region is untouched, and the error says how many bytes suffice.
/// An accepted region is a heap that stays inside it.
pub fn small_and_misaligned_regions() {
    let smallest = smallest_region_bytes();
    let most_bytes = smallest + facts().page_bytes;
    let buffer = Buffer::new(2 * most_bytes);
    for offset_bytes in (0..64).step_by(7) {
        let mut is_accepted = false;
        for len_bytes in (0..most_bytes).step_by(most_bytes / 60) {
            let untouched = buffer.save();
            // SAFETY: the heap ends with this iteration, before the buffer.
            match unsafe { Subject::new(&buffer, offset_bytes, len_bytes) } {
                Ok(mut heap) => {
                    is_accepted = true;
                    assert!(heap.largest_allocatable() > 0, "an accepted region of {len_bytes} bytes serves nothing");
                    while let Ok(handle) = heap.allocate(1 + facts().largest_request_bytes.min(1 << 16) / 3) {
                        let size_bytes = heap.size(handle).expect("live");
                        heap.set_content(handle, &vec![0xEE; size_bytes]);
                    }
                    assert_eq!(heap.check(), Ok(()));
                    let end = offset_bytes + len_bytes;
                    let is_outside_same = untouched[..offset_bytes] == buffer.bytes()[..offset_bytes]
                        && untouched[end..] == buffer.bytes()[end..];
                    assert!(is_outside_same, "bytes around the region were written");
                    buffer.restore(&untouched);
                }
                Err(InitError::TooSmall { needed_bytes }) => {
                    assert!(!is_accepted, "{len_bytes} bytes at offset {offset_bytes} refused, fewer accepted");
                    assert!(untouched == buffer.bytes(), "a refused region was written");
                    assert!(needed_bytes > len_bytes, "{len_bytes} bytes refused because {needed_bytes} are needed");
                    // SAFETY: the heap ends with this iteration, before the buffer.
                    let retry = unsafe { Subject::new(&buffer, offset_bytes, needed_bytes) };
                    assert!(retry.is_ok(), "{needed_bytes} bytes at offset {offset_bytes}: {:?}", retry.err());
                    buffer.restore(&untouched);
                }
                Err(error) => panic!("{len_bytes} bytes at offset {offset_bytes}: {error}"),
            }
        }
        assert!(is_accepted, "no region at offset {offset_bytes} was accepted");
    }
    buffer.assert_guards();
}

/// Each kind of refusal has its error.
pub fn errors_are_typed() {
    let buffer = Buffer::new(most_region_bytes());
    // Filling a heap takes many similar operations.
    let mut shadow = Shadow::new(&buffer, most_region_bytes(), 101);
    assert_eq!(shadow.heap.allocate(0), Err(AllocError::ZeroSize));
    for size_bytes in [usize::MAX, isize::MAX as usize, facts().largest_request_bytes.saturating_add(1)] {
        let answer = shadow.heap.allocate(size_bytes);
        assert!(answer == Err(AllocError::TooLarge) || size_bytes <= facts().largest_request_bytes, "{answer:?}");
    }
    assert!(shadow.try_allocate(shadow.fresh_largest_bytes));
    let first = shadow.live[0].handle;
    while shadow.try_allocate(1) {}
    assert_eq!(shadow.heap.allocate(1), Err(AllocError::Exhausted));
    assert_eq!(shadow.heap.resize(first, 0), Err(AllocError::ZeroSize.into()));
    assert_eq!(shadow.heap.resize(first, usize::MAX), Err(AllocError::TooLarge.into()));
    shadow.audit();
    assert!(traits().is_layered || shadow.heap.size(first) == Ok(facts().largest_request_bytes));
}

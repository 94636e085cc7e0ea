//! Exhaustive exploration at small scope: every state that a tiny heap can reach, and every operation in each.
//!
//! As [`crate::explore`], but the content of an object is derived from its handle, because objects move.
//! Handles are not part of a state, because their generations differ.

use super::shadow::pattern;
use super::subject::{Subject, traits};
use crate::explore::{Explored, Limits, breadth_first};
use crate::memory::Buffer;
use crate::subject::facts;
use rtalloc::contract::{AllocError, Handle, HandleError, Object, ResizeError};
use std::hash::{DefaultHasher, Hash, Hasher};

/// One operation from a state. Objects are numbered in the order of the walk.
#[derive(Clone, Copy, Debug, Hash)]
enum Step {
    Allocate(usize),
    Free(usize),
    Resize(usize, usize),
    Write(usize),
    Compact(usize),
}

/// Its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused(AllocError),
}

/// The pages of a heap for which `explored.txt` has no others.
pub const PAGES: usize = 2;

/// Explores the states within limits in a heap with room for `pages` of the largest objects, by requests of these
/// sizes.
pub fn states_within(limits: Limits, pages: usize, sizes: &[usize]) -> Explored {
    let len_bytes = tiny_heap_bytes(pages);
    let buffer = Buffer::new(len_bytes);
    // SAFETY: the heap is not used after this function; the buffer is dropped at its end.
    let mut heap = unsafe { Subject::new(&buffer, 0, len_bytes) }.expect("large enough");
    let initial = (heap.fingerprint(), buffer.save());
    let (explored, compared) =
        breadth_first(initial, limits, |bytes, found| expand(&mut heap, &buffer, bytes, sizes, found));
    buffer.assert_guards();
    println!(
        "{}: {} states, {} transitions, depth {}, {compared} compared twice; {len_bytes} bytes, requests of {sizes:?} bytes",
        facts().name,
        explored.states,
        explored.transitions,
        explored.depth
    );
    explored
}

/// The length of the smallest region that holds `pages` of the largest objects.
fn tiny_heap_bytes(pages: usize) -> usize {
    let buffer = Buffer::new(1 << 16);
    for len_bytes in (0..1 << 16).step_by(16) {
        // SAFETY: the heap is not used after this iteration; the buffer is dropped later.
        let Ok(mut heap) = (unsafe { Subject::new(&buffer, 0, len_bytes) }) else { continue };
        let largest_bytes = heap.largest_allocatable();
        if (0..pages).all(|_| heap.allocate(largest_bytes).is_ok()) {
            return len_bytes;
        }
    }
    unreachable!("some region is large enough")
}

/// Tries every operation on the state with the given bytes, and passes each successor to `found`. Returns a digest of
/// all outcomes.
fn expand(
    heap: &mut Subject,
    buffer: &Buffer,
    bytes: &[u8],
    sizes: &[usize],
    found: &mut dyn FnMut(Box<[usize]>, &Buffer),
) -> u64 {
    buffer.restore(bytes);
    let before = heap.fingerprint();
    let (most, pending_bytes) = (heap.largest_allocatable(), heap.pending_bytes());
    let live = heap.objects();
    let mut steps: Vec<Step> = sizes.iter().map(|&size_bytes| Step::Allocate(size_bytes)).collect();
    for index in 0..live.len() {
        steps.push(Step::Free(index));
        steps.extend(sizes.iter().map(|&size_bytes| Step::Resize(index, size_bytes)));
        if traits().is_incremental {
            steps.push(Step::Write(index));
        }
    }
    if pending_bytes > 0 {
        steps.extend([Step::Compact(100), Step::Compact(usize::MAX)]);
    }
    let mut digest = DefaultHasher::new();
    for step in steps {
        buffer.restore(bytes);
        let outcome = run(heap, step, &live);
        let after = heap.fingerprint();
        if let Outcome::Refused(error) = outcome {
            let may_compact = pending_bytes > 0 || traits().is_layered;
            assert!(before == after || may_compact, "{step:?} was refused and changed the state");
            let expected = if heap.pending_bytes() > 0 { AllocError::Pending } else { AllocError::Exhausted };
            assert!(
                error == expected || traits().is_layered,
                "{step:?}: {error:?} with {pending_bytes} bytes of pending compaction"
            );
        }
        if let Step::Allocate(size_bytes) = step {
            let is_served = outcome == Outcome::Done;
            let is_promised = size_bytes == most || (size_bytes < most && facts().largest_covers_smaller);
            assert!(is_served || !is_promised, "{step:?} was promised, on {live:x?}");
            // A step of compaction may make room for more.
            let may_be_more = !facts().largest_is_exact || pending_bytes > 0;
            assert!(!is_served || size_bytes <= most || may_be_more, "{step:?} on {live:x?}");
        }
        verify(heap, buffer, step, &live);
        (outcome == Outcome::Done).hash(&mut digest);
        after.hash(&mut digest);
        heap.largest_allocatable().hash(&mut digest);
        found(after, buffer);
    }
    digest.finish()
}

/// Runs one operation, and writes the contents of the objects it returns.
fn run(heap: &mut Subject, step: Step, live: &[Object]) -> Outcome {
    match step {
        Step::Allocate(size_bytes) => match heap.allocate(size_bytes) {
            Ok(handle) => {
                assert!(live.iter().all(|object| object.handle != handle), "gave a live handle");
                fill(heap, handle, size_bytes);
            }
            Err(error) => return Outcome::Refused(error),
        },
        Step::Free(index) => {
            let handle = live[index].handle;
            assert_eq!(heap.free(handle), Ok(()), "{step:?} on {live:x?}");
            assert_eq!(heap.free(handle), Err(HandleError::Stale), "{step:?} on {live:x?}");
        }
        Step::Resize(index, size_bytes) => match heap.resize(live[index].handle, size_bytes) {
            Ok(()) => {
                let Object { handle, size_bytes: before_bytes, .. } = live[index];
                let kept_bytes = size_bytes.min(before_bytes);
                let is_kept = heap.content(handle)[..kept_bytes] == content(handle, kept_bytes);
                assert!(is_kept, "{step:?} on {live:x?} lost content");
                fill(heap, handle, size_bytes);
            }
            Err(ResizeError::Refused(error)) => return Outcome::Refused(error),
            Err(ResizeError::Handle(error)) => panic!("{step:?} on {live:x?}: {error}"),
        },
        Step::Write(index) => fill(heap, live[index].handle, live[index].size_bytes),
        Step::Compact(budget_bytes) => {
            assert!(heap.compact(budget_bytes) <= budget_bytes, "{step:?}");
            assert!(budget_bytes < usize::MAX || heap.pending_bytes() == 0, "{step:?} on {live:x?}");
        }
    }
    Outcome::Done
}

/// The content of an object.
fn content(handle: Handle, size_bytes: usize) -> Vec<u8> {
    pattern(handle.to_bits().get(), size_bytes)
}

fn fill(heap: &mut Subject, handle: Handle, size_bytes: usize) {
    heap.set_content(handle, &content(handle, size_bytes));
}

/// Verifies the heap after an operation: its own check, that the live objects are those that should be, and what they
/// hold.
fn verify(heap: &Subject, buffer: &Buffer, step: Step, before: &[Object]) {
    assert_eq!(heap.check(), Ok(()), "after {step:?} on {before:x?}");
    buffer.assert_guards();
    let objects = heap.objects();
    let gone = if let Step::Free(index) = step { Some(before[index].handle) } else { None };
    for was in before {
        let is_live = objects.iter().any(|object| object.handle == was.handle);
        assert_eq!(is_live, gone != Some(was.handle), "{was:x?} after {step:?}");
    }
    for object in &objects {
        let is_kept = heap.content(object.handle) == content(object.handle, object.size_bytes);
        assert!(is_kept, "{object:x?} changed by {step:?} on {before:x?}");
    }
}

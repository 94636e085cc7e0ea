//! State shared by the threads of an execution, the scheduler and the experiment: the record of operations, and the
//! ownership of blocks.

use super::turn;
use crate::result::interleave::Steps3;
use rtalloc::contract::{SharedError, Steps};
use rtalloc_subjects::shared::Refused;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Allocate,
    Free,
    Pin,
    Unpin,
    Reclaim,
    Compact,
}

impl Kind {
    /// The kinds whose steps a search maximises.
    pub(super) const SEARCHED: [Self; 2] = [Self::Allocate, Self::Free];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Free => "free",
            Self::Pin => "pin",
            Self::Unpin => "end of a pin",
            Self::Reclaim => "reclaim",
            Self::Compact => "compact",
        }
    }
}

/// The observations of operations of one kind and size.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) calls: u64,
    pub(super) most: Steps3,
    pub(super) most_total: u64,
    pub(super) found_by: &'static str,
    pub(super) alone_total: u64,
    pub(super) bound: Option<Steps3>,
    pub(super) refused: Refused,
    pub(super) spurious: u64,
}

/// The costliest operation of one kind in a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costliest {
    pub(super) steps: usize,
    /// Step counts of the thread before and after it.
    pub(super) window: (usize, usize),
}

/// A live block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) address: usize,
    pub(super) size: usize,
    pub(super) mark: u8,
}

#[derive(Default)]
struct World {
    seen: BTreeMap<(Kind, usize), Seen>,
    fault: Option<String>,
    decisions: u64,
    adversary: &'static str,
    load: &'static str,
    run: u64,
    /// Of the current execution: the end of each live block by its start.
    live: BTreeMap<usize, usize>,
    /// Blocks that threads left or passed to other threads.
    boxes: Vec<Vec<Block>>,
    costliest: [[Costliest; 2]; turn::MAX_TASKS],
    next_mark: u8,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(work)
}

/// Resets all observations.
pub(super) fn clear() {
    with(|world| *world = World::default());
}

/// Starts the executions of this adversary on this load.
pub(super) fn enter(adversary: &'static str, load: &'static str) {
    with(|world| (world.adversary, world.load, world.run) = (adversary, load, 0));
}

/// Starts an execution of the given number of threads.
pub(super) fn begin(threads: usize) {
    turn::reset();
    with(|world| {
        world.run += 1;
        world.live.clear();
        world.boxes.clear();
        world.boxes.resize(threads + 1, Vec::new());
        world.costliest = Default::default();
        world.next_mark = 0;
    });
}

/// The observations, the first fault, and the number of scheduling decisions since [`clear`].
pub(super) fn results() -> (BTreeMap<(Kind, usize), Seen>, Option<String>, u64) {
    with(|world| (std::mem::take(&mut world.seen), world.fault.take(), world.decisions))
}

/// Counts a scheduling decision.
pub(super) fn count_decision() {
    with(|world| world.decisions += 1);
}

/// The costliest operation of a thread in the previous execution.
pub(super) fn costliest(thread: usize, kind: Kind) -> Option<Costliest> {
    with(|world| world.costliest[thread].get(kind as usize).copied())
}

/// Records a fault; only the first one is kept.
pub(super) fn fault(what: impl FnOnce() -> String) {
    with(|world| {
        if world.fault.is_none() {
            let place = format!("load {}, adversary {}, schedule {}", world.load, world.adversary, world.run);
            world.fault = Some(format!("{} ({place})", what()));
        }
    });
}

/// Whether a fault has been recorded.
pub(super) fn is_faulty() -> bool {
    with(|world| world.fault.is_some())
}

/// Records an operation of a thread between these two step counts.
pub(super) fn note(
    thread: usize,
    kind: Kind,
    size: usize,
    (before, after): (Steps, Steps),
    bound: Option<Steps>,
    error: Option<SharedError>,
) {
    let taken = Steps {
        read_modify_writes: after.read_modify_writes - before.read_modify_writes,
        loads: after.loads - before.loads,
        stores: after.stores - before.stores,
    };
    if bound.is_some_and(|bound| !taken.within(bound)) {
        fault(|| {
            let (taken, bound) = (Steps3::from(taken), bound.map(Steps3::from));
            format!("{} of {size} bytes took {taken:?}, but its bound is {bound:?}", kind.name())
        });
    }
    with(|world| {
        let (adversary, alone) = (world.adversary, world.adversary == super::Adversary::Alone.name());
        let seen = world.seen.entry((kind, size)).or_default();
        let (total, taken) = (taken.total() as u64, Steps3::from(taken));
        seen.calls += 1;
        seen.bound = bound.map(Steps3::from);
        seen.most.read_modify_writes = seen.most.read_modify_writes.max(taken.read_modify_writes);
        seen.most.loads = seen.most.loads.max(taken.loads);
        seen.most.stores = seen.most.stores.max(taken.stores);
        if seen.calls == 1 || total > seen.most_total {
            (seen.most_total, seen.found_by) = (total, adversary);
        }
        if alone {
            seen.alone_total = seen.alone_total.max(total);
        }
        if let Some(error) = error {
            seen.refused.note(error);
        }
        if let Some(costliest) = world.costliest[thread].get_mut(kind as usize)
            && total as usize > costliest.steps
        {
            *costliest = Costliest { steps: total as usize, window: (before.total(), after.total()) };
        }
    });
}

/// Records a spurious refusal: the same request succeeded when repeated at once.
pub(super) fn note_spurious(size: usize) {
    with(|world| world.seen.entry((Kind::Allocate, size)).or_default().spurious += 1);
}

/// Records an allocated block, and fills it.
pub(super) fn own(address: usize, size: usize, align: usize, region: std::ops::Range<usize>) -> Block {
    let (overlaps, mark) = with(|world| {
        let in_front = world.live.range(..address + size).next_back().map(|(_, end)| *end);
        world.live.insert(address, address + size);
        world.next_mark = world.next_mark.wrapping_add(1);
        (in_front.is_some_and(|end| end > address), world.next_mark)
    });
    let block = Block { address, size, mark };
    if !address.is_multiple_of(align) || address < region.start || region.end - address < size {
        fault(|| format!("a block of {size} bytes is outside of the heap or not aligned to {align} bytes"));
    } else if overlaps {
        fault(|| format!("a block of {size} bytes overlaps one that is live"));
    } else {
        // SAFETY: the block lies in the region and overlaps no live block, so this thread has exclusive access.
        unsafe { (address as *mut u8).write_bytes(mark, size) };
    }
    block
}

/// Removes a block from the record before it is freed; `false` if freeing it would be unsafe.
pub(super) fn disown(block: Block) -> bool {
    if is_faulty() {
        return false;
    }
    with(|world| world.live.remove(&block.address));
    // SAFETY: the block is live, and was filled when it was allocated.
    let bytes = unsafe { std::slice::from_raw_parts(block.address as *const u8, block.size) };
    if bytes.iter().any(|byte| *byte != block.mark) {
        fault(|| format!("a block of {} bytes was written to while it was live", block.size));
        return false;
    }
    true
}

/// Appends a block to a thread's queue.
pub(super) fn leave(block: Block, thread: usize) {
    with(|world| world.boxes[thread].push(block));
}

/// Takes the oldest block from a thread's queue.
pub(super) fn take(thread: usize) -> Option<Block> {
    with(|world| (!world.boxes[thread].is_empty()).then(|| world.boxes[thread].remove(0)))
}

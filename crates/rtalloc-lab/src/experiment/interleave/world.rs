//! What all threads of an execution, the scheduler and the experiment share: the record of operations, and who owns
//! what.

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
    /// Those that a search tries to make long.
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

/// What was seen of operations of a kind and size.
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

/// The costliest operation of a thread, of a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costliest {
    pub(super) steps: usize,
    /// Steps of the thread in front of it, and behind it.
    pub(super) window: (usize, usize),
}

/// A block that nobody has freed.
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
    /// Of the present execution: end of each live block by its start.
    live: BTreeMap<usize, usize>,
    /// What threads left behind, or have for each other.
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

/// Nothing was seen yet.
pub(super) fn clear() {
    with(|world| *world = World::default());
}

/// Executions under this adversary on this load follow.
pub(super) fn enter(adversary: &'static str, load: &'static str) {
    with(|world| (world.adversary, world.load, world.run) = (adversary, load, 0));
}

/// An execution of so many threads begins.
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

/// What was seen, the first fault, and the decisions of schedulers, since [`clear`].
pub(super) fn results() -> (BTreeMap<(Kind, usize), Seen>, Option<String>, u64) {
    with(|world| (std::mem::take(&mut world.seen), world.fault.take(), world.decisions))
}

/// A scheduler was asked.
pub(super) fn count_decision() {
    with(|world| world.decisions += 1);
}

/// The costliest operation of a thread in the execution before.
pub(super) fn costliest(thread: usize, kind: Kind) -> Option<Costliest> {
    with(|world| world.costliest[thread].get(kind as usize).copied())
}

/// Something is wrong: the first time counts.
pub(super) fn fault(what: impl FnOnce() -> String) {
    with(|world| {
        if world.fault.is_none() {
            let place = format!("load {}, adversary {}, schedule {}", world.load, world.adversary, world.run);
            world.fault = Some(format!("{} ({place})", what()));
        }
    });
}

/// Whether something was wrong already.
pub(super) fn is_faulty() -> bool {
    with(|world| world.fault.is_some())
}

/// An operation was performed by a thread, between these two counts of its steps.
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
            format!("{} of {size} bytes took {taken:?}, and its bound is {bound:?}", kind.name())
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

/// A refusal was not repeated when the same was asked for again at once.
pub(super) fn note_spurious(size: usize) {
    with(|world| world.seen.entry((Kind::Allocate, size)).or_default().spurious += 1);
}

/// Books a block that was handed out, and fills it.
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
        // SAFETY: the block lies in the region and overlaps none that is live: it is this thread's alone.
        unsafe { (address as *mut u8).write_bytes(mark, size) };
    }
    block
}

/// Takes a block out of the books before it is freed; `false` where that is not safe any more.
pub(super) fn disown(block: Block) -> bool {
    if is_faulty() {
        return false;
    }
    with(|world| world.live.remove(&block.address));
    // SAFETY: the block is live, and was filled when it was handed out.
    let bytes = unsafe { std::slice::from_raw_parts(block.address as *const u8, block.size) };
    if bytes.iter().any(|byte| *byte != block.mark) {
        fault(|| format!("a block of {} bytes was written to while it was live", block.size));
        return false;
    }
    true
}

/// Leaves a block in a thread's box.
pub(super) fn leave(block: Block, thread: usize) {
    with(|world| world.boxes[thread].push(block));
}

/// Takes the block that has been in a thread's box for longest.
pub(super) fn take(thread: usize) -> Option<Block> {
    with(|world| (!world.boxes[thread].is_empty()).then(|| world.boxes[thread].remove(0)))
}

//! Steps of operations, with and without contention, compared with the published bounds.

use crate::papers::wait_free::result::{StepRow, Stepped, What};
use rtalloc::contract::{Operation, Steps};
use rtalloc_lab::experiment::contention::cases::{Plan, SIZE, steps_of_pairs};
use rtalloc_lab::experiment::contention::crew::Crew;
use rtalloc_subjects::Region;
use rtalloc_subjects::shared::{SharedHeap, SharedSubject, User};
use rtalloc_subjects::steps::taken;

/// Number of blocks that are allocated, and freed locally or remotely.
const BLOCKS: usize = 2000;
/// A request that is too large for a single node of 64 B, whatever its header.
const TWO_NODES: usize = 100;
/// A request that fits a single node.
const ONE_NODE: usize = 40;

/// The maximum steps of an operation so far.
#[derive(Default)]
struct Most {
    operations: u64,
    steps: [u64; 3],
}

impl Most {
    fn note(&mut self, steps: [u64; 3], operations: u64) {
        self.operations += operations;
        for (most, one) in self.steps.iter_mut().zip(steps) {
            *most = one.max(*most);
        }
    }

    fn call<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let _ = taken();
        let result = operation();
        self.note(each(taken()), 1);
        result
    }

    fn row(self, what: What, bound: Option<Steps>) -> StepRow {
        StepRow { what, operations: self.operations, observed: self.steps, bound: bound.map(each) }
    }
}

fn each(steps: Steps) -> [u64; 3] {
    [steps.read_modify_writes, steps.loads, steps.stores].map(|count| count as u64)
}

/// Counts the steps of a subject that reports them.
pub(super) fn measure(subject: &SharedSubject, counted: &'static SharedSubject, crew: &Crew, plan: &Plan) -> Stepped {
    Stepped { subject: subject.name.into(), rows: rows(counted, crew, plan) }
}

fn rows(subject: &'static SharedSubject, crew: &Crew, plan: &Plan) -> Result<Vec<StepRow>, String> {
    let bytes = plan.region_bytes;
    let mut region = Region::new(bytes, false).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    let align = subject.entries.natural_align_bytes;
    let allocates = |size| Operation::Allocate { size_bytes: size, align_bytes: align };
    let frees = |size| Operation::Deallocate { size_bytes: size, align_bytes: align };
    {
        let heap = SharedHeap::new(subject, &mut region, bytes, 2).map_err(|refusal| refusal.to_string())?;
        let join = |number| heap.join(number).ok_or("it does not support two users");
        let (mut one, mut other) = (join(0)?, join(1)?);
        let (mut allocate, mut local) = (Most::default(), Most::default());
        let blocks = fill(&mut one, BLOCKS, SIZE, &mut allocate);
        for block in blocks {
            // SAFETY: the block is live, and not used again.
            local.call(|| unsafe { one.deallocate(block, SIZE, 1) });
        }
        let (mut remote, mut after) = (Most::default(), Most::default());
        for batch in [1, 2, 7, BLOCKS / 2] {
            let blocks = fill(&mut one, batch, SIZE, &mut Most::default());
            for block in blocks {
                // SAFETY: the block is live, and not used again.
                remote.call(|| unsafe { other.deallocate(block, SIZE, 1) });
            }
            for block in fill(&mut one, batch, SIZE, &mut after) {
                // SAFETY: the block is live, and not used again.
                unsafe { one.deallocate(block, SIZE, 1) };
            }
        }
        rows.push(allocate.row(What::Allocate, heap.max_steps(allocates(SIZE))));
        rows.push(local.row(What::FreeLocal, heap.max_steps(frees(SIZE))));
        rows.push(remote.row(What::FreeRemote, heap.max_steps(frees(SIZE))));
        rows.push(after.row(What::AllocateAfterRemote, heap.max_steps(allocates(SIZE))));
        let mut large = Most::default();
        let size = plan.heap_bytes / 4 - 64;
        let block = one.allocate(size, 1);
        if !block.is_null() {
            // SAFETY: the block is live, and not used again.
            large.call(|| unsafe { one.deallocate(block, size, 1) });
            rows.push(large.row(What::FreeLarge, heap.max_steps(frees(size))));
        }
    }
    if is_a_tree(subject) {
        let heap = SharedHeap::new(subject, &mut region, bytes, 1).map_err(|refusal| refusal.to_string())?;
        let mut user = heap.join(0).ok_or("it does not support any user")?;
        let mut worst = Most::default();
        fragment(&mut user);
        if !worst.call(|| user.allocate(TWO_NODES, 1)).is_null() {
            return Err("a block of two nodes was found where only single ones are free".into());
        }
        rows.push(worst.row(What::AllocateWorst, heap.max_steps(allocates(TWO_NODES))));
    }
    let bounds = {
        let heap = SharedHeap::new(subject, &mut region, bytes, 2).map_err(|refusal| refusal.to_string())?;
        heap.max_steps(allocates(SIZE)).zip(heap.max_steps(frees(SIZE)))
    };
    drop(region);
    let mut pair = Most::default();
    for (steps, pairs) in steps_of_pairs(subject, crew, plan)? {
        pair.note(steps, pairs);
    }
    rows.push(pair.row(What::Pair, bounds.map(|(allocate, free)| allocate + free)));
    Ok(rows)
}

/// Whether only complete subtrees are allocated, which figure 8 assumes.
fn is_a_tree(subject: &SharedSubject) -> bool {
    subject.name == super::TREE || subject.option_of == Some(super::TREE)
}

fn fill(user: &mut User<'_>, blocks: usize, size: usize, most: &mut Most) -> Vec<*mut u8> {
    let blocks = (0..blocks).map(|_| most.call(|| user.allocate(size, 1)));
    blocks.filter(|block| !block.is_null()).collect()
}

/// The paper's figure 8: every second leaf is free, and the leaf next to it is not.
fn fragment(user: &mut User<'_>) {
    let mut blocks = Vec::new();
    loop {
        let block = user.allocate(ONE_NODE, 1);
        if block.is_null() {
            break;
        }
        blocks.push(block);
    }
    blocks.sort_unstable();
    // Two leaves and their parent are adjacent, in this order; the parent is never a block of its own.
    for leaf in blocks.into_iter().step_by(2) {
        // SAFETY: the block is live, and not used again.
        unsafe { user.deallocate(leaf, ONE_NODE, 1) };
    }
}

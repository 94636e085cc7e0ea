//! Every operation in every state that a tiny heap can reach.
//!
//! Breadth-first search from the fresh heap. A state is the allocator's fingerprint; operations start from a copy of
//! the state's bytes, restored at the same addresses, because all state of our allocators is in the region. The
//! library's test suite explores the same states to verify them; here they are explored to count instructions, and only
//! completeness is verified.
//!
//! Where the smallest heap is a page of many blocks, there are too many states to store: the exploration ends at
//! `MOST_STATES`, and reports that.
//!
//! Every operation of a tiny heap can occur in a large one, but not the reverse: a tiny heap's blocks are of few size
//! classes. The other drivers cover large sizes.

use super::tiny::Tiny;
use super::{Meter, Observation, ObserveError, Operation, Request};
use rtalloc::contract::{Block, Contract};
use rtalloc_subjects::{Heap, NATURAL_ALIGN_BYTES, Region, Subject};
use std::collections::HashSet;
use std::fmt;

/// The heap to explore, and the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Bytes for blocks in the fresh heap, at least.
    pub block_bytes: usize,
    /// Sizes of requests in bytes, at natural alignment.
    pub sizes: Vec<usize>,
    /// Sizes of requests in bytes at the large alignment.
    pub aligned_sizes: Vec<usize>,
    /// The large alignment in bytes.
    pub align: usize,
    /// Whether blocks that happen to be so aligned are also reallocated with that alignment.
    pub reallocates_aligned: bool,
}

impl Scope {
    /// The scope of the library's test suite: ten granules and nine smallest blocks, requests for a handful of block
    /// sizes, one of them at a large alignment.
    #[must_use]
    pub fn of_suite(contract: &Contract) -> Self {
        let smallest = contract.min_block_bytes;
        let blocks = [smallest, smallest + contract.granule_bytes, 2 * smallest, 3 * smallest, 5 * smallest];
        let mut sizes = blocks.map(|bytes| bytes - contract.header_bytes).to_vec();
        sizes.dedup();
        Self {
            block_bytes: (10 * contract.granule_bytes).max(9 * smallest),
            sizes,
            aligned_sizes: vec![1],
            align: 4 * smallest,
            reallocates_aligned: false,
        }
    }

    /// The suite's scope with more requests at the large alignment.
    #[must_use]
    pub fn aligned(contract: &Contract) -> Self {
        let suite = Self::of_suite(contract);
        let aligned_sizes = vec![1, 2 * contract.min_block_bytes, 4 * contract.min_block_bytes];
        Self { aligned_sizes, align: 2 * contract.min_block_bytes, reallocates_aligned: true, ..suite }
    }
}

/// The size of what was explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// States reached.
    pub states: usize,
    /// Operations performed.
    pub transitions: usize,
    /// Depth of the search: operations on the longest of the shortest paths to a state.
    pub depth: usize,
    /// Whether these are all states.
    pub complete: bool,
}

/// The most states that are explored.
const MOST_STATES: usize = 100_000;
/// The most bytes of saved states.
const MOST_SAVED_BYTES: usize = 256 << 20;

/// An operation from a state.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate { size: usize, align: usize },
    Deallocate(Block),
    Reallocate { block: Block, size: usize, align: usize },
}

/// Explores, and passes every operation to `sink`.
///
/// # Errors
///
/// [`ObserveError::NoView`] where states cannot be read or restored, [`ObserveError::Memory`].
pub fn drive<M: Meter>(
    subject: &Subject,
    meter: &M,
    scope: &Scope,
    mut sink: impl FnMut(&Observation<'_>),
) -> Result<Explored, ObserveError> {
    let view = subject.view.ok_or(ObserveError::NoView(subject.name))?;
    let mut region = Region::new(2 * scope.block_bytes + ROOM_FOR_CONTROL_BYTES, true)?;
    let bytes = Tiny::region_bytes(subject, view, &mut region, scope.block_bytes, scope.block_bytes);
    let bytes = bytes.unwrap_or(region.len());
    let tiny = Tiny::new(subject, view, &mut region, bytes)?;

    let mut known: HashSet<Box<[usize]>> = HashSet::new();
    let fingerprint = || {
        let mut words = Vec::with_capacity(64);
        tiny.fingerprint(&mut |word| words.push(word));
        words.into_boxed_slice()
    };
    known.insert(fingerprint());
    let mut frontier: Vec<Box<[u8]>> = vec![tiny.memory().into()];
    let mut explored = Explored { states: 1, transitions: 0, depth: 0, complete: true };
    let most = MOST_STATES.min(MOST_SAVED_BYTES / bytes);
    let mut number = 0;
    while !frontier.is_empty() && explored.complete {
        let mut found = Vec::new();
        for saved in &frontier {
            if known.len() >= most {
                explored.complete = false;
                break;
            }
            tiny.restore(saved);
            let scene = State { subject: subject.name, number };
            for (index, step) in tiny.steps(scope).into_iter().enumerate() {
                tiny.restore(saved);
                sink(&tiny.perform(meter, step, index as u64, &scene));
                explored.transitions += 1;
                if known.insert(fingerprint()) {
                    found.push(tiny.memory().into());
                }
            }
            number += 1;
        }
        explored.states += found.len();
        explored.depth += usize::from(!found.is_empty());
        frontier = found;
    }
    Ok(explored)
}

/// Room for control structures in addition to the blocks.
const ROOM_FOR_CONTROL_BYTES: usize = 64 << 10;

/// A state, as named in circumstances.
struct State {
    subject: &'static str,
    number: usize,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "state {} of the tiny heap of {}", self.number, self.subject)
    }
}

impl Tiny<'_> {
    /// Every operation that is possible in the state.
    fn steps(&self, scope: &Scope) -> Vec<Step> {
        let natural = scope.sizes.iter().map(|&size| Step::Allocate { size, align: NATURAL_ALIGN_BYTES });
        let aligned = scope.aligned_sizes.iter().map(|&size| Step::Allocate { size, align: scope.align });
        let mut steps: Vec<Step> = natural.chain(aligned).collect();
        self.walk(&mut |block: Block| {
            if block.free {
                return;
            }
            steps.push(Step::Deallocate(block));
            let mut reallocate =
                |align| steps.extend(scope.sizes.iter().map(|&size| Step::Reallocate { block, size, align }));
            reallocate(NATURAL_ALIGN_BYTES);
            if scope.reallocates_aligned && block.address.is_multiple_of(scope.align) {
                reallocate(scope.align);
            }
        });
        steps
    }

    fn perform<'s, M: Meter>(&self, meter: &M, step: Step, index: u64, scene: &'s State) -> Observation<'s> {
        let Heap { entries, context, .. } = self.heap;
        let before = meter.executed();
        // SAFETY: the walk of this state reported the blocks as live. Their requested sizes are not known, but may have
        // been these, since the blocks are as large and so aligned. Our allocators do not use them.
        let (operation, request, served) = unsafe {
            match step {
                Step::Allocate { size, align } => {
                    let block = entries.allocate_at(align)(context, size, align);
                    let natural = entries.is_natural(align);
                    let operation = if natural { Operation::Allocate } else { Operation::AllocateAligned };
                    (operation, Request::Allocate { size, align }, !block.is_null())
                }
                Step::Deallocate(Block { address, usable_bytes: size, .. }) => {
                    (entries.deallocate)(context, address as *mut u8, size, NATURAL_ALIGN_BYTES);
                    (Operation::Deallocate, Request::Deallocate { size }, true)
                }
                Step::Reallocate { block: Block { address, usable_bytes: old, .. }, size: new, align } => {
                    let moved = (entries.reallocate)(context, address as *mut u8, old, align, new);
                    (Operation::Reallocate, Request::Reallocate { old, new, align }, !moved.is_null())
                }
            }
        };
        let instructions = meter.executed() - before;
        Observation { operation, instructions, index, request, served, scene }
    }
}

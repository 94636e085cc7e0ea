//! Exhaustive exploration at small scope: every state that a tiny heap can reach, and every operation in each.
//!
//! Breadth first from the fresh heap. A state is the allocator's fingerprint. The walk lists the live blocks, and each
//! holds a pattern derived from its address, so a state needs no history. Operations start from a copy of the state's
//! bytes, restored at the same addresses.
//!
//! The exploration also verifies that the fingerprint is the whole state. It samples the transitions to known states:
//! all operations on the bytes of a sample must have the outcomes that they had on the bytes with which the state was
//! found.
//!
//! [`pinned`] compares what is found with `explored.txt`.

mod pinned;

pub use pinned::assert_explored;

use super::memory::{Buffer, Pattern, fingerprint, servable, smallest_region_bytes};
use super::subject::{Subject, facts, has_frames, may_let_go};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rtalloc::contract::{AllocError, Block, Coalescing};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr::NonNull;

/// The tiny heap has room for this many granules where `explored.txt` has no other number, and for at least this many
/// of the smallest blocks.
pub const GRANULES: usize = 10;
const SMALLEST_BLOCKS: usize = 9;
/// The same where nothing coalesces: the free list can hold the blocks in any order, in any sizes.
const SEPARATE_BLOCKS: usize = 6;
/// The same where each block has a frame.
const FRAMED_BLOCKS: usize = 6;
/// Of the transitions to a known state, one in this many is kept to compare behaviours.
const SAMPLE_EVERY: usize = 101;

/// What an exploration finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// States reached.
    pub states: usize,
    /// Operations tried.
    pub transitions: usize,
    /// Operations on the longest of the shortest paths to a state.
    pub depth: usize,
    /// Whether no state is missing.
    pub is_complete: bool,
}

/// Where an exploration ends.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most operations on a path.
    pub depth: usize,
    /// The most operations, and the most bytes restored, a region for each.
    pub operations: usize,
    pub bytes: usize,
}

impl Limits {
    /// None.
    pub const NONE: Self = Self { depth: usize::MAX, operations: usize::MAX, bytes: usize::MAX };
}

/// One operation from a state.
#[derive(Clone, Copy, Debug, Hash)]
enum Step {
    Allocate(usize, usize),
    Free(usize),
    Reallocate(usize, usize),
}

/// Its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Served(usize),
    Freed,
    Refused(AllocError),
}

struct Explorer {
    buffer: Buffer,
    /// Sizes of requests in bytes, for a handful of block sizes.
    sizes: Vec<usize>,
    large_align_bytes: usize,
    blocks: Vec<Block>,
}

/// Explores every state of the usual tiny heap; fails if a fact of the contract does not hold in one.
#[cfg(target_pointer_width = "64")]
pub fn every_state() {
    states_within(Limits::NONE, GRANULES);
}

/// Explores the states within limits in a heap of `granules`.
pub fn states_within(limits: Limits, granules: usize) -> Explored {
    let contract = facts();
    let smallest = contract.min_block_bytes;
    let block_sizes = [smallest, smallest + contract.granule_bytes, 2 * smallest, 3 * smallest, 5 * smallest];
    let wanted_bytes = match contract.coalescing {
        Coalescing::Never => SEPARATE_BLOCKS * smallest,
        // A block with a frame is many granules.
        _ if has_frames() => FRAMED_BLOCKS * smallest,
        _ => (granules * contract.granule_bytes).max(SMALLEST_BLOCKS * smallest),
    };
    let (len_bytes, block_bytes) = tiny_heap_bytes(wanted_bytes);
    let buffer = Buffer::new(len_bytes);
    // SAFETY: the heap is not used after this function, and the explorer drops the buffer at its end.
    let mut allocator: Subject = unsafe { buffer.heap(0, len_bytes) }.expect("large enough");
    // A tiny heap may be several blocks, all smaller than the largest of these sizes.
    let most_bytes = servable(allocator.largest_allocatable());
    let mut sizes: Vec<usize> =
        block_sizes.iter().map(|bytes| (bytes - contract.header_bytes).min(most_bytes)).collect();

    sizes.dedup();
    let most_align_bytes = contract.largest_alignment_bytes.min(1 << most_bytes.ilog2());
    let mut explorer = Explorer {
        buffer,
        sizes,
        large_align_bytes: (4 * smallest).next_power_of_two().min(most_align_bytes),
        blocks: Vec::new(),
    };

    let initial = (fingerprint(&allocator), explorer.buffer.save());
    let (explored, compared) =
        breadth_first(initial, limits, |bytes, found| explorer.expand(&mut allocator, bytes, found));
    explorer.buffer.assert_guards();
    println!(
        "{}, {}: {} states, {} transitions, depth {}, {} compared twice; {block_bytes} bytes for blocks, requests of {:?} bytes",
        contract.name, contract.policy, explored.states, explored.transitions, explored.depth, compared, explorer.sizes
    );
    explored
}

/// A state's fingerprint and bytes.
type State = (Box<[usize]>, Vec<u8>);

/// Finds every state within limits from the first. `expand` tries every operation on the state
/// with the given bytes, passes each successor to the given function, and returns a digest of the outcomes. Also
/// returns how many states were expanded a second time, with the bytes of another history, and had the same digest.
pub fn breadth_first(
    (fingerprint, bytes): State,
    limits: Limits,
    mut expand: impl FnMut(&[u8], &mut dyn FnMut(Box<[usize]>, &Buffer)) -> u64,
) -> (Explored, usize) {
    let mut numbers: HashMap<Box<[usize]>, usize> = HashMap::new();
    numbers.insert(fingerprint, 0);
    let mut frontier = vec![bytes];
    // For each state, in the order found, a digest of the outcomes of all operations on it.
    let mut digests: Vec<u64> = Vec::new();
    let mut samples: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut explored = Explored { states: 1, transitions: 0, depth: 0, is_complete: true };
    let mut known = 0;
    while !frontier.is_empty() && explored.depth < limits.depth {
        let mut next = Vec::new();
        for bytes in &frontier {
            if explored.transitions > limits.operations.min(limits.bytes / bytes.len()) {
                explored.is_complete = false;
                return (explored, 0);
            }
            let digest = expand(bytes, &mut |words, buffer| {
                explored.transitions += 1;
                let number = numbers.len();
                match numbers.entry(words) {
                    Entry::Vacant(entry) => {
                        entry.insert(number);
                        next.push(buffer.save());
                    }
                    Entry::Occupied(entry) => {
                        known += 1;
                        if known % SAMPLE_EVERY == 0 {
                            samples.push((*entry.get(), buffer.save()));
                        }
                    }
                }
            });
            digests.push(digest);
        }
        if !next.is_empty() {
            explored.depth += 1;
        }
        explored.states += next.len();
        frontier = next;
    }
    explored.is_complete = frontier.is_empty();
    // States at the greatest depth were not expanded.
    samples.retain(|&(number, _)| number < digests.len());
    for (number, bytes) in &samples {
        let digest = expand(bytes, &mut |_, _| {});
        assert_eq!(digest, digests[*number], "two heaps with the fingerprint of state {number} behave differently");
    }
    (explored, samples.len())
}

/// The length of the smallest region whose fresh heap has at least `wanted_bytes` for blocks, and its bytes for blocks.
fn tiny_heap_bytes(wanted_bytes: usize) -> (usize, usize) {
    for len_bytes in smallest_region_bytes().. {
        let buffer = Buffer::new(len_bytes);
        // SAFETY: the heap is not used after this iteration, before the buffer is dropped.
        let allocator: Subject = unsafe { buffer.heap(0, len_bytes) }.expect("large enough");
        let mut block_bytes = 0;
        allocator.walk(&mut |block| block_bytes += block.size_bytes);
        if block_bytes >= wanted_bytes {
            return (len_bytes, block_bytes);
        }
    }
    unreachable!("some region is large enough")
}

impl Explorer {
    /// Tries every operation on the state with the given bytes, and passes each successor to `found`. Returns a digest
    /// of all outcomes.
    fn expand(&mut self, allocator: &mut Subject, bytes: &[u8], found: &mut dyn FnMut(Box<[usize]>, &Buffer)) -> u64 {
        self.buffer.restore(bytes);
        let before = fingerprint(allocator);
        let most = allocator.largest_allocatable();
        let live: Vec<Block> = blocks_of(allocator).into_iter().filter(|block| !block.free).collect();
        let mut steps: Vec<Step> = self.sizes.iter().map(|&size_bytes| Step::Allocate(size_bytes, 1)).collect();
        steps.push(Step::Allocate(1, self.large_align_bytes));
        for block in &live {
            steps.push(Step::Free(block.address));
            steps.extend(self.sizes.iter().map(|&size_bytes| Step::Reallocate(block.address, size_bytes)));
        }
        let mut digest = DefaultHasher::new();
        for step in steps {
            self.buffer.restore(bytes);
            let outcome = self.run(allocator, step, &live);
            let after = fingerprint(allocator);
            if let Outcome::Refused(error) = outcome {
                assert!(before == after || may_let_go(), "{step:x?} was refused and changed the state");
                assert_eq!(error, AllocError::Exhausted, "{step:x?} on {live:x?}");
            }
            if let (Step::Allocate(size_bytes, 1), true) = (step, facts().largest_is_exact) {
                let is_served = matches!(outcome, Outcome::Served(_));
                let is_covered = size_bytes == most || facts().largest_covers_smaller;
                assert!(
                    is_served == (size_bytes <= most) || (size_bytes <= most && !is_covered),
                    "{step:x?}, {most} bytes were promised, on {live:x?}"
                );
            }
            self.verify(allocator, step, outcome, &live);
            after.hash(&mut digest);
            found(after, &self.buffer);
        }
        digest.finish()
    }

    /// Runs one operation, verifies its result, and writes the pattern of the block it returns.
    fn run(&self, allocator: &mut Subject, step: Step, live: &[Block]) -> Outcome {
        let answer = match step {
            Step::Allocate(size_bytes, align_bytes) => allocator.allocate_bytes(size_bytes, align_bytes),
            Step::Free(address) => {
                // SAFETY: the block is live.
                unsafe { allocator.deallocate(self.buffer.at(address)) };
                return Outcome::Freed;
            }
            Step::Reallocate(address, size_bytes) => {
                // SAFETY: the block is live.
                unsafe { allocator.reallocate_bytes(self.buffer.at(address), size_bytes, 1) }
            }
        };
        let pointer: NonNull<u8> = match answer {
            Ok(pointer) => pointer,
            Err(error) => return Outcome::Refused(error),
        };
        let address = pointer.addr().get();
        // SAFETY: the heap returned the block just now, so it is live.
        let usable_bytes = unsafe { allocator.usable_size(pointer) };
        match step {
            Step::Reallocate(old, size_bytes) => {
                assert!(usable_bytes >= size_bytes, "{step:x?} on {live:x?}: {usable_bytes} bytes");
                let old_usable = live.iter().find(|block| block.address == old).expect("live").usable_bytes;
                // SAFETY: the block is live and has this size.
                let is_kept = unsafe { Pattern(old as u64).is_at(pointer, size_bytes.min(old_usable)) };
                assert!(is_kept, "{step:x?} on {live:x?} lost content");
            }
            Step::Allocate(size_bytes, align_bytes) => {
                assert!(usable_bytes >= size_bytes, "{step:x?} on {live:x?}: {usable_bytes} bytes");
                assert!(address.is_multiple_of(align_bytes), "{step:x?} on {live:x?}: {address:#x}");
            }
            Step::Free(_) => {}
        }
        assert!(
            address >= self.buffer.start() && address + usable_bytes <= self.buffer.end(),
            "{step:x?} on {live:x?}"
        );
        // SAFETY: the block is live and has this size. If it overlapped another, that one's pattern would show it.
        unsafe { Pattern(address as u64).write(pointer, usable_bytes) };
        Outcome::Served(address)
    }

    /// Verifies the heap after an operation: its own check, the walk, and every block's pattern.
    fn verify(&mut self, allocator: &Subject, step: Step, outcome: Outcome, before: &[Block]) {
        let contract = facts();
        assert_eq!(allocator.check(), Ok(()), "after {step:x?} on {before:x?}");
        self.blocks.clear();
        allocator.walk(&mut |block| self.blocks.push(block));
        let mut expected: Vec<usize> = before.iter().map(|block| block.address).collect();
        match (step, outcome) {
            (_, Outcome::Refused(_)) => {}
            (Step::Free(address), _) => expected.retain(|&live| live != address),
            (Step::Reallocate(address, _), Outcome::Served(moved)) => {
                expected.retain(|&live| live != address);
                expected.push(moved);
            }
            (_, Outcome::Served(address)) => expected.push(address),
            (_, Outcome::Freed) => unreachable!("only a free frees"),
        }
        expected.sort_unstable();
        let shown: Vec<usize> = self.blocks.iter().filter(|block| !block.free).map(|block| block.address).collect();
        assert_eq!(shown, expected, "the live blocks after {step:x?} on {before:x?}");
        for pair in self.blocks.windows(2) {
            let (end, start) =
                (pair[0].address - pair[0].front_bytes + pair[0].size_bytes, pair[1].address - pair[1].front_bytes);
            let is_next = start == end || start > end && start - end < contract.page_bytes;
            assert!(is_next, "a gap or an overlap after {step:x?} on {before:x?}: {pair:x?}");
            let are_free = pair[0].free && pair[1].free;
            assert!(
                !(are_free && contract.coalescing == Coalescing::Neighbours),
                "free neighbours after {step:x?} on {before:x?}"
            );
        }
        for block in self.blocks.iter().filter(|block| !block.free) {
            // SAFETY: the block is live and has this size.
            let is_kept =
                unsafe { Pattern(block.address as u64).is_at(self.buffer.at(block.address), block.usable_bytes) };
            assert!(is_kept, "{block:x?} changed by {step:x?} on {before:x?}");
        }
    }
}

fn blocks_of(allocator: &Subject) -> Vec<Block> {
    let mut blocks = Vec::new();
    allocator.walk(&mut |block| blocks.push(block));
    blocks
}

//! The loads: the test cases of the wait-free paper, on a smaller heap, and two of our own.

use super::turn;
use super::world::{self, Block, Kind};
use crate::workload::random::Random;
use rtalloc::contract::{Operation, SharedAllocator, SharedError, Slot, Steps};

/// The operations of every thread of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The paper's case I: allocate blocks of 948 bytes until a request is refused; free none.
    I,
    /// The paper's case II: repeatedly allocate a block of 948 bytes and free it at once.
    II,
    /// The paper's case III: allocate 10 bytes, then 1.25 times the previous size, and so on, until a request is
    /// refused; free none.
    III,
    /// The paper's case IV: as case III, but free each block at once.
    IV,
    /// Random sizes and lifetimes.
    Mixed,
    /// Every block is freed by a thread other than the one that allocated it.
    Handover,
}

impl Load {
    /// All loads.
    pub const ALL: [Self; 6] = [Self::I, Self::II, Self::III, Self::IV, Self::Mixed, Self::Handover];

    /// The name on the command line and in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::I => "I",
            Self::II => "II",
            Self::III => "III",
            Self::IV => "IV",
            Self::Mixed => "mixed",
            Self::Handover => "handover",
        }
    }
}

/// Bytes of the blocks of cases I and II: 15 nodes of 64 bytes, minus their header.
pub(super) const PAPERS_BYTES: usize = 948;
/// First size of cases III and IV.
pub(super) const FIRST_BYTES: usize = 10;
/// Allocate-free pairs of case II; 20,000 in the paper.
pub(super) const PAIRS: usize = 6;
/// Operations of our own loads.
pub(super) const OPERATIONS: usize = 16;
/// Maximum number of live blocks per thread in the mixed load.
const MIXED_BLOCKS: usize = 4;
/// Budget of a reclaim, in blocks, in the load with remote frees.
pub(super) const BUDGET: usize = 2;

/// A thread that uses a heap.
pub(super) struct Worker<'h, 'r, H: SharedAllocator<'r>> {
    heap: &'h H,
    slot: H::Slot<'h>,
    number: usize,
    region: std::ops::Range<usize>,
    align: usize,
}

impl<'h, 'r, H: SharedAllocator<'r>> Worker<'h, 'r, H> {
    /// # Safety
    ///
    /// See [`SharedAllocator::slot`].
    pub(super) unsafe fn new(heap: &'h H, slot: usize, number: usize, region: std::ops::Range<usize>) -> Self {
        let align = H::CONTRACT.single_user.alignment_bytes.min(rtalloc_subjects::NATURAL_ALIGN_BYTES);
        // SAFETY: no other user takes this slot while the worker has it.
        Self { heap, slot: unsafe { heap.slot(slot) }, number, region, align }
    }

    fn bound(&self, operation: Operation) -> Option<Steps> {
        turn::undisturbed(|| self.heap.max_steps(operation))
    }

    fn ask(&mut self, size: usize) -> Result<usize, SharedError> {
        let bound = self.bound(Operation::Allocate { size_bytes: size, align_bytes: self.align });
        let before = turn::steps(self.number);
        let answer = self.slot.allocate_bytes(size, self.align).map(|block| block.as_ptr() as usize);
        let after = turn::steps(self.number);
        world::note(self.number, Kind::Allocate, size, (before, after), bound, answer.err());
        answer
    }

    /// Allocates; after a refusal, repeats the request at once without interruption.
    fn allocate(&mut self, size: usize) -> Option<Block> {
        let address = self.ask(size).ok().or_else(|| {
            let again = turn::undisturbed(|| self.ask(size)).ok()?;
            world::note_spurious(size);
            Some(again)
        })?;
        Some(world::own(address, size, self.align, self.region.clone()))
    }

    pub(super) fn free(&mut self, block: Block) {
        if !world::disown(block) {
            return;
        }
        let Some(address) = std::ptr::NonNull::new(block.address as *mut u8) else { return };
        let bound = self.bound(Operation::Deallocate { size_bytes: block.size, align_bytes: self.align });
        let before = turn::steps(self.number);
        // SAFETY: the block is live, and no other thread has access to it.
        unsafe { self.slot.deallocate(address) };
        let after = turn::steps(self.number);
        world::note(self.number, Kind::Free, block.size, (before, after), bound, None);
    }

    /// Reclaims at most the given number of blocks, and returns how many it reclaimed.
    pub(super) fn reclaim(&mut self, budget: usize) -> usize {
        let bound = self.bound(Operation::Reclaim { budget });
        let before = turn::steps(self.number);
        let taken = self.slot.reclaim(budget);
        let after = turn::steps(self.number);
        if after != before || taken > 0 {
            world::note(self.number, Kind::Reclaim, budget, (before, after), bound, None);
        }
        taken
    }

    /// Performs the load. Stops as soon as the heap is found to be corrupt.
    pub(super) fn work(&mut self, load: Load, seed: u64, threads: usize) {
        match load {
            Load::I => {
                while let Some(block) = self.allocate(PAPERS_BYTES) {
                    world::leave(block, 0);
                    if world::is_faulty() {
                        break;
                    }
                }
            }
            Load::II => {
                for _ in 0..PAIRS {
                    if let Some(block) = self.allocate(PAPERS_BYTES) {
                        self.free(block);
                    }
                }
            }
            Load::III | Load::IV => {
                let mut size = FIRST_BYTES;
                while let Some(block) = self.allocate(size) {
                    if load == Load::III {
                        world::leave(block, 0);
                    } else {
                        self.free(block);
                    }
                    if world::is_faulty() {
                        break;
                    }
                    size += size.div_ceil(4);
                }
            }
            Load::Mixed => {
                let mut random = Random::new(seed.wrapping_mul(64).wrapping_add(self.number as u64));
                let most = (self.region.len() / 16) as u64;
                let mut blocks: Vec<Block> = Vec::new();
                for _ in 0..OPERATIONS {
                    let full = blocks.len() == MIXED_BLOCKS;
                    if full || !blocks.is_empty() && random.below(3) == 0 {
                        let which = random.below(blocks.len() as u64) as usize;
                        self.free(blocks.swap_remove(which));
                    } else {
                        blocks.extend(self.allocate(random.log_uniform(8, most) as usize));
                    }
                }
                for block in blocks {
                    world::leave(block, 0);
                }
            }
            Load::Handover => {
                for round in 0..OPERATIONS {
                    let size = [24, 100, PAPERS_BYTES][round % 3];
                    if let Some(block) = self.allocate(size) {
                        world::leave(block, self.number % threads + 1);
                    }
                    if round % 2 == 1 {
                        while let Some(block) = world::take(self.number) {
                            self.free(block);
                        }
                    }
                    if round % 5 == 4 {
                        self.reclaim(BUDGET);
                    }
                }
            }
        }
    }
}

//! Operation sequences: one type for property tests, long runs, exploration and fuzzing.

use proptest::prelude::*;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// One operation on a heap. Every value is legal: an index counts live blocks modulo their number, and sizes and
/// alignments may be ones that must be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Allocate a block.
    Allocate {
        /// Requested bytes.
        size_bytes: usize,
        /// Requested alignment in bytes.
        align_bytes: usize,
    },
    /// Free a live block; nothing when there is none.
    Free {
        /// Which one.
        index: usize,
    },
    /// Change the size of a live block; nothing when there is none.
    Reallocate {
        /// Which one.
        index: usize,
        /// Requested bytes.
        size_bytes: usize,
        /// Requested alignment in bytes.
        align_bytes: usize,
    },
}

/// Sizes: mostly those a small heap can serve, some that exhaust it, a few that no heap can serve.
pub fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 1..=64usize,
        6 => 1..=600usize,
        3 => (6u32..16, 0..=usize::MAX).prop_map(|(log2, low)| (1 << log2) + (low & ((1 << log2) - 1))),
        1 => Just(0usize),
        1 => (0..=80usize).prop_map(|below| usize::MAX - below),
        1 => (0..=80usize).prop_map(|below| isize::MAX as usize - 40 + below),
    ]
}

/// Alignments: mostly small, up to powers of two beyond every region, a few that are not powers of two.
pub fn alignments() -> impl Strategy<Value = usize> {
    prop_oneof![
        10 => (0u32..=4).prop_map(|log2| 1 << log2),
        5 => (5u32..=12).prop_map(|log2| 1 << log2),
        1 => (13u32..usize::BITS).prop_map(|log2| 1 << log2),
        1 => prop_oneof![Just(0usize), Just(3), Just(48), Just(usize::MAX)],
    ]
}

/// Operations.
pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (sizes(), alignments()).prop_map(|(size_bytes, align_bytes)| Op::Allocate { size_bytes, align_bytes }),
        4 => (0..64usize).prop_map(|index| Op::Free { index }),
        3 => (0..64usize, sizes(), alignments())
            .prop_map(|(index, size_bytes, align_bytes)| Op::Reallocate { index, size_bytes, align_bytes }),
    ]
}

/// Size distributions of long runs.
#[derive(Clone, Copy, Debug)]
pub enum Distribution {
    /// 1 to 64 bytes.
    Small,
    /// Uniform from 1 byte to a 256th of the heap.
    Uniform,
    /// Log-uniform from 1 byte to a 16th of the heap, one block in eight with an alignment beyond the granule.
    LogUniform,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 3] = [Distribution::Small, Distribution::Uniform, Distribution::LogUniform];
}

/// An endless operation sequence from a seed. The number of live blocks swings between none and `most_live`, so that
/// the heap is filled and emptied again and again.
pub struct Random {
    random: Pcg64,
    distribution: Distribution,
    heap_bytes: usize,
    most_live: usize,
    is_filling: bool,
}

impl Random {
    /// The sequence with this seed for a heap of `heap_bytes`.
    pub fn new(seed: u64, distribution: Distribution, heap_bytes: usize, most_live: usize) -> Self {
        Random { random: Pcg64::seed_from_u64(seed), distribution, heap_bytes, most_live, is_filling: true }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    fn size_bytes(&mut self) -> usize {
        match self.distribution {
            Distribution::Small => 1 + self.below(64),
            Distribution::Uniform => 1 + self.below(self.heap_bytes / 256),
            Distribution::LogUniform => {
                let log2 = self.below((self.heap_bytes / 16).ilog2() as usize);
                (1 << log2) + self.below(1 << log2)
            }
        }
    }

    fn align_bytes(&mut self) -> usize {
        let is_beyond = matches!(self.distribution, Distribution::LogUniform) && self.below(8) == 0;
        if is_beyond { 32 << self.below(5) } else { 1 << self.below(5) }
    }

    /// The next operation, given how many blocks are live.
    pub fn next(&mut self, live_blocks: usize) -> Op {
        if live_blocks == 0 {
            self.is_filling = true;
        } else if live_blocks >= self.most_live {
            self.is_filling = false;
        }
        let index = self.below(live_blocks.max(1));
        match self.below(16) {
            0 | 1 => Op::Reallocate { index, size_bytes: self.size_bytes(), align_bytes: self.align_bytes() },
            choice if (choice < 10) == self.is_filling => {
                Op::Allocate { size_bytes: self.size_bytes(), align_bytes: self.align_bytes() }
            }
            _ => Op::Free { index },
        }
    }
}

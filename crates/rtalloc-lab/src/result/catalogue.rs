//! The schema of the catalogue: what is known of an allocator before it is measured.

use super::schema::Origin;
use serde::{Deserialize, Serialize};

/// What is known of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Card {
    /// Name as `--on` takes it.
    pub name: String,
    /// Whose it is.
    pub origin: Origin,
    /// Family of the field's taxonomy.
    pub family: String,
    /// Whether the main job shows it.
    pub in_dozen: bool,
    /// The algorithm in a sentence.
    pub idea: String,
    /// The paper and section, or the crate, that describes it.
    pub source: String,
    /// Which block serves a request.
    pub policy: String,
    /// The operations, in the order allocate, allocate aligned, deallocate, reallocate.
    pub operations: Vec<Operation>,
    /// Its blocks.
    pub blocks: Blocks,
    /// Bytes of control structure in heaps of several sizes; empty where it takes its own pages.
    pub control: Vec<Control>,
    /// What it does not do, a sentence each.
    pub does_not: Vec<String>,
    /// When to take it.
    pub wins: String,
    /// When not to.
    pub loses: String,
    /// What can be chosen, where its type is named or its heap is made; empty where nothing can.
    pub options: String,
}

/// An operation of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// Which: "allocate", "allocate aligned", "deallocate", "reallocate".
    pub name: String,
    /// Cost class as the author states it; `None` where nobody does.
    pub cost: Option<String>,
    /// The most x86-64 instructions it executes, proved from this program's code; where that depends on the heap's
    /// size, in a heap of 16 MiB. `None` where that has no bound.
    pub bound: Option<u64>,
    /// The bound as a function of how often loops turn, where it is one: "63 + 24 per split".
    #[serde(default)]
    pub formula: Option<String>,
    /// Why there is no bound, in a word or two.
    pub no_bound_because: Option<String>,
}

/// What the blocks of an allocator are like. `None` is "not known" for those of peers, and for a limit "the heap
/// decides".
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Blocks {
    /// Bytes in front of every live block.
    pub header_bytes: Option<u64>,
    /// Block sizes are multiples of this.
    pub granule_bytes: Option<u64>,
    /// Smallest block, header included.
    pub smallest_bytes: Option<u64>,
    /// Every block is aligned to this without being asked.
    pub alignment_bytes: u64,
    /// Largest request that is served in any heap.
    pub largest_request_bytes: Option<u64>,
    /// Largest alignment that is served in any heap.
    pub largest_alignment_bytes: Option<u64>,
    /// Largest span of a heap.
    pub max_span_bytes: Option<u64>,
    /// Bytes of a page, where memory is given to blocks by whole pages.
    pub page_bytes: Option<u64>,
    /// Instructions to read a byte of a block: more than a pointer's where blocks have handles; `None` where nobody
    /// counted.
    #[serde(default)]
    pub read_instructions: Option<u64>,
    /// What becomes one block again when it is free.
    pub coalescing: Option<String>,
}

/// The control structure of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Bytes of the region.
    pub heap_bytes: u64,
    /// Bytes of it, or outside it, that blocks cannot have; `None` where such a region is refused.
    pub control_bytes: Option<u64>,
}

//! The schema of the catalogue: properties of allocators that need no measurement.

use super::schema::Origin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The properties of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Name as `--on` takes it.
    pub name: String,
    /// Its origin.
    pub origin: Origin,
    /// Family of the field's taxonomy.
    pub family: String,
    /// Whether the main job includes it.
    pub in_dozen: bool,
    /// The algorithm in a sentence.
    pub idea: String,
    /// The paper and section, or the crate, that describes it.
    pub source: String,
    /// The rule that selects a block for a request.
    pub policy: String,
    /// The operations, in the order allocate, allocate aligned, deallocate, reallocate.
    pub operations: Vec<Operation>,
    /// The committed bounds of its code for other processors and cores; empty if there are none.
    #[serde(default)]
    pub elsewhere: Vec<OnProcessor>,
    /// The properties of its blocks.
    pub blocks: Blocks,
    /// Bytes of control structure in heaps of several sizes; empty if it takes its own pages.
    pub control: Vec<Control>,
    /// Its limitations, one sentence each.
    pub does_not: Vec<String>,
    /// When to use it.
    pub wins: String,
    /// When not to use it.
    pub loses: String,
    /// Its parameters, set in its type or when its heap is created; empty if it has none.
    pub options: String,
}

/// An operation of an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// Which: "allocate", "allocate aligned", "deallocate", "reallocate".
    pub name: String,
    /// Cost class as stated by the author; `None` if not stated.
    pub cost: Option<String>,
    /// Static bound in x86-64 instructions, derived from this program's code; if it depends on the heap's size, in a
    /// heap of 16 MiB. `None` if there is no bound.
    pub bound: Option<u64>,
    /// The bound as a function of loop iterations, if it is one: "63 + 24 per split".
    #[serde(default)]
    pub formula: Option<String>,
    /// Why there is no bound, in one or two words.
    pub no_bound_because: Option<String>,
}

/// The bounds of an allocator's code for another processor, or in cycles of a core.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OnProcessor {
    /// Its name.
    pub name: String,
    /// What is counted: `instruction` or `cycle`.
    pub unit: String,
    /// The bounds of the operations without loops.
    pub bounds: BTreeMap<String, u64>,
}

/// The properties of an allocator's blocks. `None` means "unknown" for peers, and "limited by the heap" for a limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Blocks {
    /// Bytes of header before every live block.
    pub header_bytes: Option<u64>,
    /// Block sizes are multiples of this.
    pub granule_bytes: Option<u64>,
    /// Smallest block, header included.
    pub smallest_bytes: Option<u64>,
    /// Guaranteed alignment of every block.
    pub alignment_bytes: u64,
    /// Largest request that a heap of any size can serve.
    pub largest_request_bytes: Option<u64>,
    /// Largest alignment that a heap of any size can serve.
    pub largest_alignment_bytes: Option<u64>,
    /// Largest size of a heap.
    pub max_span_bytes: Option<u64>,
    /// Bytes of a page, if memory is assigned to blocks in whole pages.
    pub page_bytes: Option<u64>,
    /// Instructions to read a byte of a block: more than through a pointer if blocks have handles; `None` if not
    /// counted.
    #[serde(default)]
    pub read_instructions: Option<u64>,
    /// Which free blocks are coalesced.
    pub coalescing: Option<String>,
}

/// The control structure of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Bytes of the region.
    pub heap_bytes: u64,
    /// Bytes of it, or outside it, that are unavailable to blocks; `None` if a region of this size is rejected.
    pub control_bytes: Option<u64>,
}

//! The descriptor of an allocator.

use crate::{About, Entries, Make, Reach, Release};
use rtalloc::contract::{Block, Contract};
use serde::{Deserialize, Serialize};
use std::ffi::c_void;

/// The origin of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// This library.
    Ours,
    /// Another project's allocator.
    Peer,
    /// The C library of this machine.
    System,
}

/// `fingerprint(context, word)`: emits the heap's abstract state, as [`rtalloc::RegionAllocator::fingerprint`].
pub type FingerprintEntry = unsafe fn(*mut c_void, &mut dyn FnMut(usize));
/// `walk(context, visitor)`: visits every block, as [`rtalloc::RegionAllocator::walk`].
pub type WalkEntry = unsafe fn(*mut c_void, &mut dyn FnMut(Block));

/// `largest(context)`: the largest request that succeeds now, as [`rtalloc::RegionAllocator::largest_allocatable`].
pub type LargestEntry = unsafe fn(*mut c_void) -> usize;

/// Access to the state of a heap that is entirely in its region, so that restoring a copy of the region's bytes
/// restores the heap.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The allocator's contract.
    pub contract: Contract,
    /// Emits the abstract state.
    pub fingerprint: FingerprintEntry,
    /// Visits the blocks.
    pub walk: WalkEntry,
    /// Returns the largest request that succeeds; `None` if it cannot be asked.
    pub largest: Option<LargestEntry>,
}

/// An allocator that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Name for `--on`.
    pub name: &'static str,
    /// Its origin.
    pub origin: Origin,
    /// Family of the field's taxonomy.
    pub family: &'static str,
    /// Cost class of allocate as stated by its author.
    pub cost: &'static str,
    /// Whether it takes its own pages from the system; then it has no heap size and no space figures.
    pub own_pages: bool,
    /// Its entry points.
    pub entries: Entries,
    /// The requests it never serves.
    pub reach: Reach,
    /// Creates a heap; see [`Heap::new`](crate::Heap::new).
    pub make: Make,
    /// Frees the memory of `make` outside the region.
    pub release: Release,
    /// Access to the state of its heaps; `None` if control structures lie outside the region.
    pub view: Option<View>,
    /// Further facts.
    pub about: About,
}

impl Subject {
    /// Bytes of the longest region that it uses; of a longer one it takes this part.
    #[must_use]
    pub fn largest_heap_bytes(&self) -> u64 {
        self.view.map_or(u64::MAX, |view| view.contract.max_span_bytes as u64)
    }
}

//! The descriptor of an allocator.

use crate::{About, Entries, Make, Reach, Release};
use rtalloc::contract::{Block, Contract};
use serde::{Deserialize, Serialize};
use std::ffi::c_void;

/// Where a subject comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// This library.
    Ours,
    /// A published crate.
    Peer,
    /// The C library of this machine.
    System,
}

/// `fingerprint(context, word)`: emits the heap's abstract state, as [`rtalloc::RegionAllocator::fingerprint`].
pub type FingerprintEntry = unsafe fn(*mut c_void, &mut dyn FnMut(usize));
/// `walk(context, visitor)`: shows every block, as [`rtalloc::RegionAllocator::walk`].
pub type WalkEntry = unsafe fn(*mut c_void, &mut dyn FnMut(Block));

/// How to look at the state of a heap that keeps all of it in its region, so that a copy of the region's bytes, put
/// back, is the heap as it was.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The facts of its blocks.
    pub contract: Contract,
    /// Emits the abstract state.
    pub fingerprint: FingerprintEntry,
    /// Shows the blocks.
    pub walk: WalkEntry,
}

/// An allocator that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Name as `--on` takes it.
    pub name: &'static str,
    /// Whose it is.
    pub origin: Origin,
    /// Family of the field's taxonomy.
    pub family: &'static str,
    /// Cost class of allocate as its author states it.
    pub cost: &'static str,
    /// Whether it takes its own pages from the system; then it has no heap size and no space figures.
    pub own_pages: bool,
    /// Its entry points.
    pub entries: Entries,
    /// What it never serves.
    pub reach: Reach,
    /// Makes a heap; see [`Heap::new`](crate::Heap::new).
    pub make: Make,
    /// Frees what `make` put outside the region.
    pub release: Release,
    /// How to look at its heaps; `None` where control structures lie outside the region.
    pub view: Option<View>,
    /// What there is to say about it.
    pub about: About,
}

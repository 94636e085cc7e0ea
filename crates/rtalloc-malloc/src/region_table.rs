//! Which region or direct block an address belongs to.
//!
//! ```text
//! address space, in grains of 32 MiB    . . 1 1 1 1 1 1 . . . D . . 2 2 2 2 2 2 2 2 2 2 . . F D . .
//!                                           region 1          |     region 2
//!                                                             direct block
//! F D: header and start of a direct block of a wide alignment
//! ```
//!
//! A region begins at the start of a grain, and so does a direct block ([`direct`](crate::direct)). So one byte per
//! grain identifies the owner of an address with one shift and one load. Of the table of 4 MiB only the bytes of used
//! grains are touched.

use crate::lock::Lock;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicUsize};

/// log2 of a grain.
const GRAIN_SHIFT: u32 = 25;
/// Bytes of a grain of the address space.
pub const GRAIN_BYTES: usize = 1 << GRAIN_SHIFT;
/// Grains of the address space that a program gets by default.
const GRAINS: usize = 1 << (if cfg!(target_arch = "aarch64") { 48 } else { 47 } - GRAIN_SHIFT);
/// Most regions. Each is as large as all before it, so the address space ends first.
pub const MAX_REGIONS: usize = 200;
/// Owner of a grain in which a direct block begins, after its header.
pub const DIRECT: u8 = 254;
/// Owner of a grain at whose start a direct block begins; its header is in the grain before.
pub const DIRECT_FAR: u8 = 255;

/// The word in which a heap is stored: a heap is one pointer, and never changes.
pub type Heap = &'static AtomicUsize;

/// A region; written before the count includes it, and never changed.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    heap: AtomicUsize,
}

impl Entry {
    const fn new() -> Self {
        Entry { start: AtomicUsize::new(0), end: AtomicUsize::new(0), heap: AtomicUsize::new(0) }
    }
}

/// The regions, and the owner of every grain. Regions are only added, by the owner of `growth`.
pub struct RegionTable {
    entries: [Entry; MAX_REGIONS],
    /// Number of regions. Incremented after the entry is written.
    count: AtomicUsize,
    /// Bytes of all regions.
    total_bytes: AtomicUsize,
    /// For each grain: 0, the index of a region plus one, [`DIRECT`] or [`DIRECT_FAR`].
    owners: [AtomicU8; GRAINS],
    /// Locked while a region is added, except the first one.
    pub growth: Lock,
}

/// A region.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Index in the table.
    pub index: usize,
    /// First address.
    pub start: usize,
    /// First address after it.
    pub end: usize,
    /// Its heap.
    pub heap: Heap,
}

impl RegionTable {
    /// No region.
    pub const fn new() -> Self {
        RegionTable {
            entries: [const { Entry::new() }; MAX_REGIONS],
            count: AtomicUsize::new(0),
            total_bytes: AtomicUsize::new(0),
            owners: [const { AtomicU8::new(0) }; GRAINS],
            growth: Lock::new(),
        }
    }

    /// Number of regions.
    pub fn count(&self) -> usize {
        self.count.load(Acquire)
    }

    /// Bytes of all regions.
    pub fn total_bytes(&self) -> usize {
        self.total_bytes.load(Relaxed)
    }

    /// The region with an index.
    pub fn get(&'static self, index: usize) -> Option<Region> {
        if index >= self.count() {
            return None;
        }
        let Entry { start, end, heap } = self.entries.get(index)?;
        Some(Region { index, start: start.load(Relaxed), end: end.load(Relaxed), heap })
    }

    /// All regions.
    pub fn iter(&'static self) -> impl Iterator<Item = Region> {
        (0..self.count()).filter_map(|index| self.get(index))
    }

    /// The region that contains an address.
    pub fn containing(&'static self, address: usize) -> Option<Region> {
        let index = usize::from(self.owner(address)).checked_sub(1)?;
        self.get(index).filter(|region| (region.start..region.end).contains(&address))
    }

    /// Adds a region. The caller is the only one that adds one; there are fewer than [`MAX_REGIONS`].
    pub fn push(&self, start: usize, len: usize, heap: usize) {
        let index = self.count.load(Relaxed);
        let Some(entry) = self.entries.get(index) else { return };
        entry.start.store(start, Relaxed);
        entry.end.store(start + len, Relaxed);
        entry.heap.store(heap, Relaxed);
        self.total_bytes.fetch_add(len, Relaxed);
        for grain in start >> GRAIN_SHIFT..=(start + len - 1) >> GRAIN_SHIFT {
            self.set_owner(grain << GRAIN_SHIFT, (index + 1) as u8);
        }
        // Release: the entry is written before the count includes it.
        self.count.store(index + 1, Release);
    }

    /// Sets the owner of the grain of an address.
    pub fn set_owner(&self, address: usize, owner: u8) {
        if let Some(grain) = self.owners.get(address >> GRAIN_SHIFT) {
            // Release: the owner is initialised before.
            grain.store(owner, Release);
        }
    }

    /// The owner of the grain of an address; 0 if it has none.
    #[inline]
    pub fn owner(&self, address: usize) -> u8 {
        self.owners.get(address >> GRAIN_SHIFT).map_or(0, |grain| grain.load(Acquire))
    }
}

//! The allocators under test, ours and other projects' (the peers): one descriptor each.
//!
//! A [`Subject`] is an allocator's descriptor: its name, further facts [about](About) it, and how to create a [`Heap`].
//! A heap is a context pointer and four entry points with the C calling convention ([`Entries`]). Each entry point is
//! one function with the allocator inlined into it, so a measured operation is one indirect call, the same for every
//! subject.
//!
//! How to add an allocator or a peer: ARCHITECTURE.md, "Where to add something".

pub mod ablations;
mod about;
pub mod adapter;
pub mod as_published;
pub mod compact_fit;
mod entries;
pub mod global;
mod guarantee;
pub mod handles;
mod heap;
mod one_slot;
pub mod pools;
// A build may leave out every peer that uses the helpers.
#[cfg_attr(not(feature = "peers"), allow(dead_code))]
mod peers;
mod region;
mod selection;
pub mod shared;
pub mod steps;
mod subject;
mod table;

pub use about::{About, LoopLimits, Peer, RegionFor, SizesFor, WorstCases};
pub use adapter::{Made, Make, Ours, Release, Target};
pub use entries::{AllocateEntry, DeallocateEntry, Entries, GrantedEntry, NATURAL_ALIGN_BYTES, Reach, ReallocateEntry};
pub use guarantee::{Guarantee, Unit};
pub use handles::{DereferenceEntry, Handles, InitialiseEntry, ReadEntry};
pub use heap::{Heap, Refusal};
pub use one_slot::OneSlot;
pub use region::Region;
pub use selection::{SelectError, groups, one, select, similar};
pub use subject::{FingerprintEntry, LargestEntry, Origin, Subject, View, WalkEntry};
pub use table::{C_MORE_BYTES, all, region_allocators};

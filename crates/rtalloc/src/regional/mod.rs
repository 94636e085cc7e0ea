//! Regional allocators: memory is cut off in the order of requests, in pages that are returned when they are empty.

pub mod class_regions;
pub mod reaps;
pub mod region;

pub use class_regions::{ClassRegions, ClassRegionsPolicy};
pub use reaps::{Reaps, ReapsPolicy};
pub use region::{SingleRegion, SingleRegionPolicy};

/// Memory aligned to a page, so that tests know how many pages of 1 KB fit after the control structure.
#[cfg(test)]
#[repr(align(1024))]
struct Paged<const BYTES: usize>([core::mem::MaybeUninit<u8>; BYTES]);

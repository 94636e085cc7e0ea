//! Regional allocators: memory cut off in the order of the requests, in pages that are given back when they are empty.

pub mod class_regions;
pub mod reaps;
pub mod region;

pub use class_regions::{ClassRegions, ClassRegionsPolicy};
pub use reaps::{Reaps, ReapsPolicy};
pub use region::{SingleRegion, SingleRegionPolicy};

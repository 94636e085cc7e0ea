//! All allocators by their static bounds and by the heaps that real programs need.

pub mod measure;
pub mod result;

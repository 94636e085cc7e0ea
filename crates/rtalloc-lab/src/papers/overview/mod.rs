//! What an allocator is chosen by, beside the papers: static bounds, and the heaps that real programs need.

pub mod measure;
pub mod result;

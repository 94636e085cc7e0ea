//! All allocators by static bounds and by the smallest heaps for recorded programs.

pub mod measure;
pub mod result;

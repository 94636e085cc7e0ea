//! Indexed fits: the free blocks are in a tree.

pub mod fast_fit;
pub mod tree_best_fit;

pub use fast_fit::{FastFit, LeftmostFastFit};
pub use tree_best_fit::TreeBestFit;

//! Indexed fits: free blocks in a tree.

pub mod tree_best_fit;

pub use tree_best_fit::TreeBestFit;

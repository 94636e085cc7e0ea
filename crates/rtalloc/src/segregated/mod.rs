//! Segregated fits: free blocks in lists by size class.

pub mod half_fit;
pub mod tlsf;

pub use half_fit::{HalfFit, HalfFitIndex};
pub use tlsf::{Tlsf, TlsfIndex};

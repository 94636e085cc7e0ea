//! Segregated fits: free blocks in lists by size class.

mod half_fit;
mod tlsf;

pub use half_fit::{HalfFit, HalfFitIndex};
pub use tlsf::{Tlsf, TlsfIndex};

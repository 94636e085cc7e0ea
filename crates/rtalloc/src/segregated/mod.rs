//! Segregated fits: free blocks in lists by size class.

pub mod half_fit;
pub mod kingsley;
pub mod pools;
pub mod quick_fit;
pub mod simple;
pub mod tlsf;

pub use half_fit::{HalfFit, HalfFitIndex};
pub use kingsley::{Kingsley, KingsleyPolicy};
pub use pools::{PoolSizes, Pools, PoolsPolicy};
pub use quick_fit::{QuickFit, QuickFitPolicy};
pub use simple::{SimpleSegregated, SimpleSegregatedPolicy};
pub use tlsf::{Tlsf, TlsfIndex};

//! Heaps that several threads, cores or interrupt levels use at a time, without a lock. On a single core without
//! compare-and-swap, such as one of Armv6-M or of RV32 without A, they need
//! [`InterruptMasking`](atomics::masking::InterruptMasking).

pub mod atomics;
pub mod bitmap_buddy;
pub mod compact_fit;
pub mod pooled_arenas;
mod slots;
pub mod tree_buddy;

#[doc(inline)]
pub use bitmap_buddy::{BitmapBuddy, BitmapConfig};
#[doc(inline)]
pub use compact_fit::{SharedCompactFit, SharedCompactFitConfig};
#[doc(inline)]
pub use pooled_arenas::{PooledArenas, PooledArenasConfig, PooledSlot};
#[doc(inline)]
pub use tree_buddy::TreeBuddy;

/// The distance between data that different cores write, so that they do not share a cache line.
pub(crate) const LINE_BYTES: usize = if cfg!(target_arch = "aarch64") { 128 } else { 64 };

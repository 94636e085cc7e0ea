//! Heaps that several threads, cores or interrupt levels use at a time, without a lock.

#[cfg(target_has_atomic = "ptr")]
pub mod arenas;
pub mod atomics;
#[cfg(target_has_atomic = "ptr")]
pub mod bitmap_buddy;
#[cfg(target_has_atomic = "ptr")]
pub mod compact_fit;
#[cfg(target_has_atomic = "ptr")]
pub mod tree_buddy;

#[cfg(target_has_atomic = "ptr")]
#[doc(inline)]
pub use arenas::{ArenaSlot, Arenas, ArenasConfig};
#[cfg(target_has_atomic = "ptr")]
#[doc(inline)]
pub use bitmap_buddy::{BitmapBuddy, BitmapConfig};
#[cfg(target_has_atomic = "ptr")]
#[doc(inline)]
pub use compact_fit::{SharedCompactFit, SharedCompactFitConfig};
#[cfg(target_has_atomic = "ptr")]
#[doc(inline)]
pub use tree_buddy::TreeBuddy;

/// Bytes that lie apart so that two cores that write them do not keep each other waiting.
pub(crate) const LINE_BYTES: usize = if cfg!(target_arch = "aarch64") { 128 } else { 64 };

//! Heaps that several threads, cores or interrupt levels use at a time, without a lock.

#[cfg(target_has_atomic = "ptr")]
pub mod arenas;
pub mod atomics;

#[cfg(target_has_atomic = "ptr")]
#[doc(inline)]
pub use arenas::{ArenaSlot, Arenas, ArenasConfig};

//! The verbs of C: their names and their documentation, written once for each kind of allocator by a macro.

mod debug;
mod handle;
mod region;
#[cfg(target_has_atomic = "ptr")]
mod shared;

pub(crate) use debug::debug_verbs;
pub(crate) use handle::{get_verb, handle_heaps};
pub(crate) use region::{config_of, more_verbs, region_heaps};
#[cfg(target_has_atomic = "ptr")]
pub(crate) use shared::shared_heaps;

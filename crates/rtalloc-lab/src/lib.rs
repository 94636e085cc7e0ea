//! The rtalloc laboratory: loads, measures, bounds and compares allocators.
//!
//! Data flows in one direction; every stage is a file on disk, and a subcommand of `rtalloc-cli`:
//!
//! ```text
//! workload | record | import -> trace -> replay(subject, probe) -> result
//! ```

pub mod analysis;
pub mod campaign;
pub mod catalogue;
pub mod draft;
pub mod experiment;
pub mod import;
pub mod number;
pub mod observe;
pub mod probe;
pub mod record;
pub mod recover;
pub mod replay;
pub mod result;
pub mod rules;
pub mod shipped;
pub mod study;
#[cfg(test)]
#[path = "../../rtalloc/tests/tier/mod.rs"]
mod tier;
pub mod trace;
pub mod workload;

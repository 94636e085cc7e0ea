//! The committed bounds of the allocators in cycles of cores.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The committed bounds in cycles; `ci/cycles.sh` makes and compares them.
#[derive(Clone, Debug, Deserialize)]
pub struct Cycles {
    /// The compiler that made the code.
    pub rustc: String,
    /// The cores, by name.
    pub cores: BTreeMap<String, OnCore>,
}

/// Bounds for a core.
#[derive(Clone, Debug, Deserialize)]
pub struct OnCore {
    /// Rust's target for which the code was compiled.
    pub rust_target: String,
    /// The compiler's option `target-feature`; empty if none.
    pub features: String,
    /// Calls of operations in the simulation.
    pub calls: u64,
    /// The bounds of operations without loops: by allocator, then by operation.
    pub bounds: BTreeMap<String, BTreeMap<String, Range>>,
}

/// The cycles of an operation.
#[derive(Clone, Debug, Deserialize)]
pub struct Range {
    /// The least, by the static analysis.
    pub shortest: u64,
    /// The most of a call in the simulation.
    pub observed: u64,
    /// The most, by the static analysis.
    pub bound: u64,
}

impl Cycles {
    /// What is committed.
    ///
    /// # Panics
    ///
    /// If the file that was compiled in is damaged; a test reads it.
    #[must_use]
    pub fn committed() -> Self {
        serde_json::from_str(include_str!("../../../../bounds/cycles.json")).expect("bounds/cycles.json can be read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbound::{Arch, Core};

    #[test]
    fn committed_bounds_can_be_read() {
        let cycles = Cycles::committed();
        assert!(
            Core::all().filter(|core| core.arch() == Arch::RV32).all(|core| cycles.cores.contains_key(core.name()))
        );
        for range in cycles.cores.values().flat_map(|core| core.bounds.values()).flat_map(BTreeMap::values) {
            assert!((range.shortest..=range.bound).contains(&range.observed));
        }
    }
}

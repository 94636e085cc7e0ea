//! The committed bounds of the allocators' code for other processors.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The committed bounds of code for other processors; `ci/targets.sh` makes and compares them.
#[derive(Clone, Debug, Deserialize)]
pub struct Targets {
    /// The compiler that made the code.
    pub rustc: String,
    /// The processors, by name.
    pub targets: BTreeMap<String, Target>,
}

/// A processor.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// Its Rust target.
    pub rust_target: String,
    /// The compiler's option `target-feature`; empty if none.
    pub features: String,
    /// The bounds of operations without loops: by allocator, then by operation.
    pub bounds: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Targets {
    /// What is committed.
    ///
    /// # Panics
    ///
    /// If the file that was compiled in is damaged; a test reads it.
    #[must_use]
    pub fn committed() -> Self {
        serde_json::from_str(include_str!("../../../../bounds/targets.json")).expect("bounds/targets.json can be read")
    }

    /// The processor with a name, or the first with a Rust target.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(&str, &Target)> {
        let all = || self.targets.iter().map(|(name, target)| (name.as_str(), target));
        let named = all().find(|(known, _)| known.eq_ignore_ascii_case(name));
        named.or_else(|| all().find(|(_, target)| target.rust_target == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_bounds_can_be_read() {
        let targets = Targets::committed();
        for (name, target) in &targets.targets {
            assert!(target.bounds["tlsf"]["allocate"] > 50, "{name}");
            assert_eq!(targets.find(&name.to_lowercase()).map(|(found, _)| found), Some(name.as_str()));
        }
        assert_eq!(targets.find("riscv32imc-unknown-none-elf").map(|(name, _)| name), Some("RV32IMC"));
        assert!(targets.find("z80").is_none());
    }
}

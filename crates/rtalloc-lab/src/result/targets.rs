//! The committed bounds of the allocators' code for other processors.

use super::cycles::Cycles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The committed bounds of code for other processors, and for cores whose cycles are from their manuals; `ci/targets.sh`
/// makes and compares them.
#[derive(Clone, Debug, Deserialize)]
pub struct Targets {
    /// The compiler that made the code.
    pub rustc: String,
    /// The processors, by name.
    pub targets: BTreeMap<String, Target>,
}

/// A processor, or a core.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// Its Rust target.
    pub rust_target: String,
    /// The compiler's option `target-feature`; empty if none.
    pub features: String,
    /// The bounds of operations without loops, in instructions, or in cycles if it is a core: by allocator, then by
    /// operation.
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

/// Another processor, with its bounds in instructions, or a core, with its bounds in cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Its name.
    pub name: String,
    /// What is counted: `instruction` or `cycle`.
    pub unit: String,
    /// What the code was compiled with and for.
    pub code: String,
    /// Bits of a word.
    pub word_bits: u32,
    /// What the bounds assume of a core, and their source; empty where instructions are counted.
    pub conditions: String,
    /// The bounds of operations without loops: by allocator, then by operation.
    #[serde(skip)]
    pub bounds: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Elsewhere {
    /// The processor or core with a name, or the first processor with a Rust target.
    ///
    /// # Errors
    ///
    /// If none is known; the text lists those that are.
    pub fn find(name: &str) -> Result<Self, String> {
        let targets = Targets::committed();
        let cycles = Cycles::committed();
        let conditions =
            |core: pathbound::Core| format!("{}. Source of the cycles: {}", core.conditions(), core.source());
        let code = |rustc: &str, target: &str, features: &str| {
            let features = if features.is_empty() { String::new() } else { format!(", {features}") };
            format!("{rustc} for {target}{features}")
        };
        if let Some((name, target)) = targets.find(name) {
            let core = pathbound::Core::find(name);
            return Ok(Self {
                name: name.into(),
                unit: if core.is_some() { "cycle" } else { "instruction" }.into(),
                code: code(&targets.rustc, &target.rust_target, &target.features),
                word_bits: if target.rust_target.contains("64") { 64 } else { 32 },
                conditions: core.map(conditions).unwrap_or_default(),
                bounds: target.bounds.clone(),
            });
        }
        let found = pathbound::Core::find(name).and_then(|core| Some((core, cycles.cores.get(core.name())?)));
        let Some((core, on_core)) = found else {
            let is_core = |name: &&String| pathbound::Core::find(name).is_some();
            let (simulated, others) = (cycles.cores.keys(), || targets.targets.iter());
            let processors = others().filter(|(name, _)| !is_core(name));
            let processors: Vec<String> =
                processors.map(|(name, target)| format!("{name} ({})", target.rust_target)).collect();
            let cores: Vec<&str> =
                simulated.chain(others().map(|(name, _)| name).filter(is_core)).map(String::as_str).collect();
            return Err(format!(
                "there are no committed bounds for {name:?}, only for the processors {} and the cores {}",
                processors.join(", "),
                cores.join(", ")
            ));
        };
        let bounds = |ranges: &BTreeMap<String, super::cycles::Range>| {
            ranges.iter().map(|(operation, range)| (operation.clone(), range.bound)).collect()
        };
        Ok(Self {
            name: core.name().into(),
            unit: "cycle".into(),
            code: code(&cycles.rustc, &on_core.rust_target, &on_core.features),
            word_bits: 32,
            conditions: conditions(core),
            bounds: on_core.bounds.iter().map(|(subject, ranges)| (subject.clone(), bounds(ranges))).collect(),
        })
    }

    /// The bound of an operation of an allocator, if one is committed.
    #[must_use]
    pub fn bound(&self, subject: &str, operation: &str) -> Option<u64> {
        self.bounds.get(subject)?.get(operation).copied()
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
        assert_eq!(targets.find("thumbv6m-none-eabi").map(|(name, _)| name), Some("Armv6-M"), "not a core");
        assert!(targets.find("z80").is_none());
    }

    #[test]
    fn processors_and_cores_have_bounds_in_their_own_unit() {
        let processor = Elsewhere::find("thumbv7em-none-eabihf").expect("committed bounds");
        assert_eq!((processor.name.as_str(), processor.unit.as_str()), ("Armv7E-M", "instruction"));
        let core = Elsewhere::find("ibex-small").expect("committed bounds");
        assert_eq!((core.unit.as_str(), core.word_bits), ("cycle", 32));
        assert_eq!(Elsewhere::find("aarch64-unknown-none").expect("committed bounds").word_bits, 64);
        assert_eq!(Elsewhere::find("Cortex-M0+").expect("committed bounds").name, "cortex-m0+");
        assert!(core.bound("tlsf", "allocate") > Elsewhere::find("RV32IMC").expect("bounds").bound("tlsf", "allocate"));
        assert_eq!(core.bound("best-fit", "allocate"), None, "it has a loop");
        assert!(Elsewhere::find("z80").expect_err("unknown").contains("Armv6-M"));
    }
}

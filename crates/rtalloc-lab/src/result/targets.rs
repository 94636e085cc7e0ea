//! The committed bounds of the allocators' code for other processors.

use super::cycles::{Cycles, OnCore, Range};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

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
    /// The level of optimisation: `3`, or `z` for the smallest code.
    pub opt_level: String,
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
}

/// Another processor, with its bounds in instructions, or a core, with its bounds in cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Its name.
    pub name: String,
    /// What is counted: `instruction` or `cycle`.
    pub unit: String,
    /// The Rust target of the code.
    #[serde(skip)]
    pub rust_target: String,
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
    /// All of them: processors, then cores.
    #[must_use]
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Elsewhere>> = LazyLock::new(|| {
            let (targets, cycles) = (Targets::committed(), Cycles::committed());
            let mut all = Vec::new();
            for (name, Target { rust_target, opt_level, features, bounds }) in targets.targets {
                let options = if opt_level == "3" { features } else { format!("opt-level={opt_level} {features}") };
                all.push(Elsewhere::new(&name, rust_target, &options, &targets.rustc, bounds));
            }
            for (name, OnCore { rust_target, features, bounds, .. }) in cycles.cores {
                let most = |(operation, range): (String, Range)| (operation, range.bound);
                let bounds = bounds.into_iter().map(|(name, ranges)| (name, ranges.into_iter().map(most).collect()));
                all.push(Elsewhere::new(&name, rust_target, &features, &cycles.rustc, bounds.collect()));
            }
            all.sort_by_key(Elsewhere::is_core);
            all
        });
        &ALL
    }

    fn new(
        name: &str,
        rust_target: String,
        options: &str,
        rustc: &str,
        bounds: BTreeMap<String, BTreeMap<String, u64>>,
    ) -> Self {
        let core = pathbound::Core::find(name);
        let options = if options.is_empty() { String::new() } else { format!(", {}", options.trim()) };
        let conditions = core.map(|core| format!("{}. Source of the cycles: {}", core.conditions(), core.source()));
        Self {
            name: name.into(),
            unit: if core.is_some() { "cycle" } else { "instruction" }.into(),
            code: format!("{rustc} for {rust_target}{options}"),
            word_bits: if rust_target.contains("64") { 64 } else { 32 },
            rust_target,
            conditions: conditions.unwrap_or_default(),
            bounds,
        }
    }

    fn is_core(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// The processor or core with a name, or the first processor with a Rust target.
    ///
    /// # Errors
    ///
    /// If none is known; the text lists those that are.
    pub fn find(name: &str) -> Result<Self, String> {
        let all = || Self::all().iter();
        let named = all().find(|one| one.name.eq_ignore_ascii_case(name));
        let found = named.or_else(|| all().find(|one| !one.is_core() && one.rust_target == name));
        found.cloned().ok_or_else(|| {
            let processors = all().filter(|one| !one.is_core());
            let processors: Vec<String> = processors.map(|one| format!("{} ({})", one.name, one.rust_target)).collect();
            let cores: Vec<&str> = all().filter(|one| one.is_core()).map(|one| one.name.as_str()).collect();
            format!(
                "there are no committed bounds for {name:?}, only for the processors {} and the cores {}",
                processors.join(", "),
                cores.join(", ")
            )
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
            assert_eq!(Elsewhere::find(&name.to_lowercase()).map(|found| found.name).as_ref(), Ok(name));
        }
        let by_target = |target| Elsewhere::find(target).map(|found| found.name);
        assert_eq!(by_target("riscv32imc-unknown-none-elf"), Ok("RV32IMC".into()));
        assert_eq!(by_target("thumbv6m-none-eabi"), Ok("Armv6-M".into()), "not a core");
        assert!(by_target("riscv32i-unknown-none-elf").is_err(), "only a core executes it");
        assert_eq!(Elsewhere::all().len(), targets.targets.len() + Cycles::committed().cores.len());
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

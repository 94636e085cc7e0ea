//! Puaut's paper (2002). Its times are cycles of a Pentium 90 with caches and branch prediction off.

use crate::papers::published::Table;
use serde::{Deserialize, Serialize};

/// Its allocators in the paper's order: name in the paper and here.
pub const ALLOCATORS: [(&str, &str); 7] = [
    ("first-fit", "first-fit"),
    ("best-fit", "best-fit"),
    ("btree-best-fit", "tree-best-fit"),
    ("fast-fit", "fast-fit"),
    ("quick-fit", "quick-fit-8"),
    ("buddy-bin", "binary-buddy"),
    ("buddy-fibo", "fibonacci-buddy"),
];

/// The published figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Puaut {
    /// Author, title and series.
    pub paper: String,
    /// What was measured, and on which machine.
    pub section_3: Setting,
    /// The allocators.
    pub table_1: Table<Blocks>,
    /// Cycles of malloc.
    pub table_2: Table<Allocate>,
    /// Cycles of free.
    pub table_3: Table<Free>,
}

/// The experiments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Clock of the processor.
    pub megahertz: u64,
    /// The heap.
    pub heap_megabytes: u64,
    /// The decoder mpg123.
    pub decoder: Decoder,
    /// The synthetic workload, after the MEAN model.
    pub model: Mean,
}

/// Means of the decoder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decoder {
    /// Block size.
    pub bytes: u64,
    /// Block lifetime, in milliseconds.
    pub lifetime_ms: f64,
    /// Interval between two allocations, in milliseconds.
    pub inter_arrival_ms: f64,
}

/// Means of the MEAN model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mean {
    /// Block size.
    pub bytes: u64,
    /// Block lifetime, in inter-arrival times.
    pub lifetime_inter_arrivals: u64,
    /// Interval between two allocations.
    pub inter_arrival_cycles: u64,
}

/// A row of table 1, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Blocks {
    /// The smallest block.
    pub minimum_bytes: u64,
    /// The smallest remainder that is split off; buddy systems have none.
    pub threshold_bytes: Option<u64>,
}

/// A row of table 2, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocate {
    /// Observed maximum in mpg123.
    pub decoder_worst: u64,
    /// Mean in mpg123.
    pub decoder_mean: u64,
    /// Observed maximum in the MEAN model.
    pub model_worst: u64,
    /// Mean in the MEAN model.
    pub model_mean: u64,
    /// In the worst-case scenario, which the paper calls analytical.
    pub scenario: u64,
}

/// A row of table 3, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Free {
    /// Observed maximum in mpg123.
    pub decoder_worst: u64,
    /// Observed maximum in the MEAN model.
    pub model_worst: u64,
    /// In the worst-case scenario.
    pub scenario: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::published::PUAUT;

    #[test]
    fn every_table_has_every_allocator_and_means_below_the_most() {
        for (name, _) in ALLOCATORS {
            assert!(PUAUT.table_1.rows.contains_key(name) && PUAUT.table_3.rows.contains_key(name), "{name}");
            let row = &PUAUT.table_2.rows[name];
            assert!(row.decoder_mean < row.decoder_worst && row.model_mean < row.model_worst, "{name}");
            assert!(row.decoder_worst.max(row.model_worst) < row.scenario, "{name}");
        }
    }
}

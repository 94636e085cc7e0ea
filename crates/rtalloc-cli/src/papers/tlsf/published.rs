//! The TLSF paper (2008).

use crate::papers::published::{Both, Table};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Mean, standard deviation, maximum, minimum.
pub type Four = [f64; 4];

/// A row of tables IV to VI: profiles 1 to 3.
pub type Row = [Four; 3];

/// Its allocators: name in the paper and here.
pub const ALLOCATORS: [(&str, &str); 4] =
    [("BB", "binary-buddy"), ("DL", "dlmalloc"), ("HF", "half-fit"), ("TLSF", "tlsf")];

/// The published figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlsf {
    /// Authors, title and journal.
    pub paper: String,
    /// Bounds of internal fragmentation as stated in the text.
    pub section_5_3: Internal,
    /// Instructions of TLSF in the worst-case scenarios.
    pub section_6_1: Both<u64>,
    /// Bands of instructions under a random load.
    pub figure_6: Bands,
    /// Instructions of the steps of malloc.
    pub table_1: BTreeMap<String, Vec<u64>>,
    /// Instructions of the steps of free.
    pub table_2: BTreeMap<String, Vec<u64>>,
    /// A task set of profile 1.
    pub table_3: Table<Task>,
    /// The ranges from which task sets are drawn.
    pub section_7_2: Profiles,
    /// Cycles by allocator.
    pub table_4: Both<BTreeMap<String, Row>>,
    /// Instructions by allocator.
    pub table_5: Both<BTreeMap<String, Row>>,
    /// Fragmentation F in per cent by allocator.
    pub table_6: BTreeMap<String, Row>,
    /// The text on table V: the constant cost of malloc with half-fit and with TLSF.
    pub section_7_3_2: Constant,
    /// The conclusions on TLSF's fragmentation.
    pub section_8: Conclusion,
}

/// Internal fragmentation in per cent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Internal {
    /// With J = 5.
    pub internal_percent_5: f64,
    /// With J = 4.
    pub internal_percent_4: f64,
}

/// Figure 6.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bands {
    /// Bands of malloc that the text states.
    pub malloc: Vec<Band>,
    /// Bands of free.
    pub free: Vec<Band>,
    /// Difference between the two malloc bands, in instructions.
    pub more_for_the_last: u64,
}

/// Minimum and maximum of a task-set parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    /// Number of tasks.
    pub tasks: [u64; 2],
    /// Periods.
    pub period: [u64; 2],
    /// Requests per period.
    pub requests: [u64; 2],
    /// Holding times, in the paper's unit.
    pub holding: [u64; 2],
    /// g of profile 1, in kilobytes.
    pub profile_1: [u64; 2],
    /// g of profile 2, in bytes and in kilobytes.
    pub profile_2: [u64; 2],
    /// g of profile 3, in bytes and in kilobytes.
    pub profile_3: [u64; 2],
}

/// Instructions that are the same in all profiles.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// For half-fit and for TLSF.
    pub malloc: [u64; 2],
}

/// Fragmentation in per cent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conclusion {
    /// Upper limit of the worst.
    pub worst_percent: f64,
    /// Approximate mean.
    pub mean_percent: f64,
}

/// A band of figure 6.
#[derive(Clone, Debug, Deserialize)]
pub struct Band {
    /// The kind of its operations.
    pub kind: crate::papers::tlsf::result::Kind,
    /// Minimum and maximum instructions.
    pub range: [u64; 2],
}

/// A task of table III.
#[derive(Clone, Debug, Deserialize)]
pub struct Task {
    /// Its period.
    pub period: u64,
    /// The maximum requested per period, in bytes.
    pub g_bytes: u64,
    /// Mean size of its requests, in bytes.
    pub mean_bytes: u64,
    /// Standard deviation of the sizes, in bytes.
    pub deviation_bytes: u64,
    /// Longest holding time, in the paper's unit.
    pub longest: u64,
    /// Shortest holding time.
    pub shortest: u64,
}

impl Tlsf {
    /// The name in the paper of an allocator here.
    #[must_use]
    pub fn name_of(subject: &str) -> Option<&'static str> {
        ALLOCATORS.iter().find(|(_, name)| *name == subject).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::published::TLSF;

    #[test]
    fn every_table_has_every_allocator_and_extremes_around_its_means() {
        let tables =
            [&TLSF.table_4.malloc, &TLSF.table_4.free, &TLSF.table_5.malloc, &TLSF.table_5.free, &TLSF.table_6];
        for table in tables {
            assert!(ALLOCATORS.iter().all(|(name, _)| table.contains_key(*name)), "{table:?}");
            for [mean, deviation, most, least] in table.values().flatten() {
                assert!(least <= mean && mean <= most && *deviation < most - least, "{table:?}");
            }
        }
        let tasks = TLSF.table_3.rows.values();
        assert!(tasks.into_iter().all(|task| task.shortest <= task.longest && task.mean_bytes < task.g_bytes));
    }
}

//! The Bitframe thesis (2012).

use crate::papers::published::{Both, Table};
use crate::papers::thesis::result::Part;
use serde::Deserialize;

/// Its allocators in the thesis' order: name in the thesis and here.
pub const ALLOCATORS: [(&str, &str); 7] = [
    ("bbuddy", "bbuddy"),
    ("bframe", "bitframe-8"),
    ("reaps", "reaps-published"),
    ("regis1", "regis1-published"),
    ("regis2", "regis2-published"),
    ("sss", "sss-published"),
    ("tlsf", "tlsf-8-8"),
];

/// The published figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thesis {
    /// Title and year.
    pub paper: String,
    /// Cycles in the trace *boot*.
    pub table_3: Table<Cycles>,
    /// Cycles in the trace *stable*.
    pub table_4: Table<Cycles>,
    /// Memory in the trace *boot*.
    pub table_5: Recorded,
    /// Memory in the trace *stable*.
    pub table_6: Recorded,
    /// Memory in the trace *uniform*.
    pub table_7: Table<Space>,
    /// Memory in the trace *small*.
    pub table_8: Table<Space>,
}

/// A row of table 3 or 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Cycles {
    /// Maximum.
    pub max: Both<u64>,
    /// Mean.
    pub mean: Both<u64>,
    /// Standard deviation.
    pub deviation: Both<u64>,
}

/// Table 5 or 6, for recorded traces, whose live memory is the same for every allocator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// M, in bytes.
    pub live_bytes: u64,
    /// The meaning of the numbers of a row.
    pub columns: Vec<String>,
    rows: std::collections::BTreeMap<String, (u64, f64, f64)>,
}

/// Memory that an allocator needed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Space {
    /// H, in bytes.
    pub used_bytes: u64,
    /// M, in bytes.
    pub live_bytes: u64,
    /// F = (H - M) / M.
    pub fragmentation_percent: f64,
    /// I = L / (H - M).
    pub overhead_percent: f64,
}

impl Recorded {
    /// The row of an allocator, by its name in the thesis.
    #[must_use]
    pub fn space(&self, name: &str) -> Option<Space> {
        let (used_bytes, fragmentation_percent, overhead_percent) = *self.rows.get(name)?;
        Some(Space { used_bytes, live_bytes: self.live_bytes, fragmentation_percent, overhead_percent })
    }
}

impl Thesis {
    /// Cycles of an operation, *malloc* or *free*, of an allocator, by its name in the thesis, in table 3 or 4: maximum,
    /// mean, standard deviation.
    #[must_use]
    pub fn cycles(&self, part: Part, name: &str, operation: &str) -> Option<[u64; 3]> {
        let table = match part {
            Part::Boot => &self.table_3,
            Part::Stable => &self.table_4,
            Part::Uniform | Part::Small => return None,
        };
        let Cycles { max, mean, deviation } = table.rows.get(name)?;
        Some([max, mean, deviation].map(|both| if operation == "malloc" { both.malloc } else { both.free }))
    }

    /// The row of an allocator, by its name in the thesis, in one of the tables 5 to 8.
    #[must_use]
    pub fn space(&self, table: u32, name: &str) -> Option<Space> {
        match table {
            5 => self.table_5.space(name),
            6 => self.table_6.space(name),
            7 => self.table_7.rows.get(name).copied(),
            8 => self.table_8.rows.get(name).copied(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::published::THESIS;

    #[test]
    fn every_row_is_there_and_consistent_with_itself() {
        for (name, _) in ALLOCATORS {
            for table in 5..=8 {
                let Space { used_bytes, live_bytes, fragmentation_percent, overhead_percent } =
                    THESIS.space(table, name).expect("a row");
                let waste = (used_bytes - live_bytes) as f64 / live_bytes as f64 * 100.0;
                assert!((waste - fragmentation_percent).abs() < 0.01, "table {table}, {name}: {waste}");
                assert!(overhead_percent < 100.0, "table {table}, {name}");
            }
            for table in [&THESIS.table_3, &THESIS.table_4] {
                let row = table.rows[name];
                assert!(row.mean.malloc < row.max.malloc && row.mean.free < row.max.free, "{name}");
            }
        }
    }
}

//! What papers published: one data file for each paper, by table and cell. Beside these figures ours are printed.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Mean, standard deviation, largest, smallest.
pub type Four = [f64; 4];

/// A row of the TLSF paper's tables IV to VI: profiles 1 to 3.
pub type Row = [Four; 3];

/// The allocators of the TLSF paper: name there and here.
pub const TLSF_ALLOCATORS: [(&str, &str); 4] =
    [("BB", "binary-buddy"), ("DL", "dlmalloc"), ("HF", "half-fit"), ("TLSF", "tlsf")];

/// The figures of the TLSF paper (2008).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlsf {
    /// Authors, title and journal.
    pub paper: String,
    /// Instructions of TLSF in the worst-case scenarios.
    pub section_6_1: Both<u64>,
    /// Bands of instructions under a random load.
    pub figure_6: Both<Vec<Band>>,
    /// Instructions of the steps of malloc.
    pub table_1: BTreeMap<String, Vec<u64>>,
    /// Instructions of the steps of free.
    pub table_2: BTreeMap<String, Vec<u64>>,
    /// A task set of profile 1.
    pub table_3: Vec<Task>,
    /// Cycles by allocator.
    pub table_4: Both<BTreeMap<String, Row>>,
    /// Instructions by allocator.
    pub table_5: Both<BTreeMap<String, Row>>,
    /// Fragmentation F in per cent by allocator.
    pub table_6: BTreeMap<String, Row>,
}

/// Something of either operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, Deserialize)]
pub struct Both<T> {
    /// Of malloc.
    pub malloc: T,
    /// Of free.
    pub free: T,
}

/// A band of figure 6.
#[derive(Clone, Debug, Deserialize)]
pub struct Band {
    /// What the operations of the band do.
    pub kind: crate::result::tlsf::Kind,
    /// Least and most instructions.
    pub range: [u64; 2],
}

/// A task of table III.
#[derive(Clone, Debug, Deserialize)]
pub struct Task {
    /// Its period.
    pub period: u64,
    /// The most that it requests in a period, in bytes.
    pub g_bytes: u64,
    /// Mean of its requests, in bytes.
    pub mean_bytes: u64,
    /// Their standard deviation, in bytes.
    pub deviation_bytes: u64,
    /// Shortest and longest holding time, in the paper's unit.
    pub holding: [u64; 2],
}

/// The TLSF paper.
pub static TLSF: LazyLock<Tlsf> =
    LazyLock::new(|| serde_json::from_str(include_str!("tlsf.json")).expect("a test reads this file"));

impl Tlsf {
    /// The name there of an allocator here.
    #[must_use]
    pub fn name_of(subject: &str) -> Option<&'static str> {
        TLSF_ALLOCATORS.iter().find(|(_, name)| *name == subject).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables V and VI as a second reader wrote them down, line by line of the paper.
    const TABLE_5: [&str; 8] = [
        "BB 175 19 653 155 146 28 819 106 171 27 2574 106",
        "DL 278 43 473 98 214 80 453 58 284 57 489 58",
        "HF 114 2 118 112 113 3 118 78 114 2 118 62",
        "TLSF 138 13 151 102 125 20 151 89 135 14 151 89",
        "BB 68 21 402 66 68 30 317 66 68 29 321 35",
        "DL 173 56 341 68 144 89 318 68 172 69 347 68",
        "HF 106 19 144 72 106 19 144 72 106 19 144 72",
        "TLSF 109 23 159 83 99 27 159 80 107 24 159 80",
    ];
    const TABLE_6: [&str; 4] = [
        "BB 53.8 8.0 76.3 36.7 48.6 7.8 78.4 31.3 52.3 6.3 68.6 39.7",
        "DL 8.9 1.5 13.1 5.8 8.9 1.7 16.6 6.1 8.5 1.9 15.4 4.8",
        "HF 83.4 13.4 120.2 52.7 85.0 12.1 115.0 59.3 89.2 13.9 143.4 62.3",
        "TLSF 9.9 1.5 14.3 5.9 9.7 1.7 16.1 6.3 9.6 1.9 16.4 6.7",
    ];

    fn same(table: &BTreeMap<String, Row>, lines: &[&str]) {
        assert_eq!(table.len(), lines.len());
        for line in lines {
            let (name, figures) = line.split_once(' ').expect("a name");
            let figures: Vec<f64> = figures.split(' ').map(|figure| figure.parse().expect("a figure")).collect();
            assert_eq!(table[name].as_flattened(), figures, "{name}");
        }
    }

    #[test]
    fn two_transcriptions_agree() {
        same(&TLSF.table_5.malloc, &TABLE_5[..4]);
        same(&TLSF.table_5.free, &TABLE_5[4..]);
        same(&TLSF.table_6, &TABLE_6);
    }

    #[test]
    fn every_table_has_every_allocator_and_extremes_around_its_means() {
        let tables =
            [&TLSF.table_4.malloc, &TLSF.table_4.free, &TLSF.table_5.malloc, &TLSF.table_5.free, &TLSF.table_6];
        for table in tables {
            assert!(TLSF_ALLOCATORS.iter().all(|(name, _)| table.contains_key(*name)), "{table:?}");
            for [mean, deviation, most, least] in table.values().flatten() {
                assert!(least <= mean && mean <= most && *deviation < most - least, "{table:?}");
            }
        }
        assert!(TLSF.table_3.iter().all(|task| task.holding[0] <= task.holding[1] && task.mean_bytes < task.g_bytes));
    }
}

//! Published figures, one data file per paper, indexed by table and cell. They are printed beside our figures.
//!
//! Names in the files are those of the papers; each module maps them to our allocators.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// All papers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Papers {
    tlsf: super::tlsf::published::Tlsf,
    puaut: super::puaut::published::Puaut,
    wait_free: super::wait_free::published::WaitFree,
    thesis: super::thesis::published::Thesis,
    compact_fit: super::compact_fit::published::CompactFit,
}

const TEXT: &str = include_str!("published/papers.json");

static PAPERS: LazyLock<Papers> = LazyLock::new(|| serde_json::from_str(TEXT).expect("a test reads this file"));

/// The TLSF paper.
pub static TLSF: LazyLock<&super::tlsf::published::Tlsf> = LazyLock::new(|| &PAPERS.tlsf);
/// Puaut's paper.
pub static PUAUT: LazyLock<&super::puaut::published::Puaut> = LazyLock::new(|| &PAPERS.puaut);
/// The wait-free paper.
pub static WAIT_FREE: LazyLock<&super::wait_free::published::WaitFree> = LazyLock::new(|| &PAPERS.wait_free);
/// The Bitframe thesis.
pub static THESIS: LazyLock<&super::thesis::published::Thesis> = LazyLock::new(|| &PAPERS.thesis);
/// The Compact-fit paper.
pub static COMPACT_FIT: LazyLock<&super::compact_fit::published::CompactFit> = LazyLock::new(|| &PAPERS.compact_fit);

/// A value for each of the two operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Both<T> {
    /// For malloc.
    pub malloc: T,
    /// For free.
    pub free: T,
}

/// A table with one row per allocator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table<Row> {
    /// The meaning of the numbers of a row.
    pub columns: Vec<String>,
    /// Rows by the paper's name of the allocator.
    pub rows: BTreeMap<String, Row>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value};
    use std::collections::BTreeSet;

    /// An independent second transcription of the same numbers.
    const SECOND: &str = include_str!("published/second.txt");

    /// The numbers of a cell; `None` if the paper has none.
    fn numbers<'a>(cell: &'a Value, found: &mut Vec<&'a Value>) {
        match cell {
            Value::Array(cells) => cells.iter().for_each(|cell| numbers(cell, found)),
            Value::Object(cells) => cells.values().for_each(|cell| numbers(cell, found)),
            Value::Number(_) | Value::Null => found.push(cell),
            _ => {}
        }
    }

    fn read(word: &str) -> Option<f64> {
        let number = |word: &str| word.parse::<f64>().unwrap_or_else(|_| panic!("{word} is no number"));
        match word.split_once('/') {
            Some((over, under)) => Some(number(over) / number(under)),
            None => (word != "-").then(|| number(word)),
        }
    }

    #[test]
    fn two_readers_agree() {
        let papers: Value = serde_json::from_str(TEXT).expect("JSON");
        let mut twice = BTreeSet::new();
        for line in SECOND.lines().filter(|line| !line.starts_with('#')) {
            let [.., second, place] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
            let mut first = Vec::new();
            numbers(papers.pointer(place).unwrap_or_else(|| panic!("no {place}")), &mut first);
            assert!(first.iter().all(|number| twice.insert(std::ptr::from_ref::<Value>(number))), "{place} again");
            let mut first: Vec<Option<f64>> = first.into_iter().map(Value::as_f64).collect();
            let second: Vec<Option<f64>> = second.split(' ').map(read).collect();
            // A range with a single number.
            if second.len() == 1 && first.len() == 2 && first[0] == first[1] {
                first.pop();
            }
            assert_eq!(first, second, "{line}");
        }
        let mut all = Vec::new();
        numbers(&papers, &mut all);
        let mut once: Vec<&Value> = Vec::new();
        numbers(&papers["puaut"]["section_3"], &mut once);
        let missed = all.into_iter().filter(|number| !twice.contains(&std::ptr::from_ref(*number)));
        assert_eq!(
            missed.collect::<Vec<_>>(),
            once,
            "everything but the setting of Puaut's experiments was read twice"
        );
    }

    #[test]
    fn columns_are_as_many_as_numbers_of_a_row() {
        fn tables<'a>(value: &'a Value, found: &mut Vec<&'a Map<String, Value>>) {
            if let Some(table) = value.as_object() {
                if table.contains_key("rows") {
                    found.push(table);
                } else {
                    table.values().for_each(|value| tables(value, found));
                }
            }
        }
        let papers = serde_json::from_str(TEXT).expect("JSON");
        let mut found = Vec::new();
        tables(&papers, &mut found);
        assert_eq!(found.len(), 10);
        for table in found {
            let columns = table["columns"].as_array().map(Vec::len);
            let rows = table["rows"].as_object().expect("rows");
            assert!(rows.values().all(|row| row.as_array().map(Vec::len) == columns), "{table:?}");
        }
    }
}

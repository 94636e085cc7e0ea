//! Tables I and II: the steps of operations.

use crate::papers::published;
use crate::papers::tlsf::result::{Cell, Found, REST, Steps};
use crate::present::page::Tabled;
use rtalloc_lab::number;
use std::collections::BTreeMap;

/// Notes needed to read the tables.
pub(super) const ABOUT: &str = "Instructions by the function that the debug information says they come from, under the \
                                load of figure 6. The compiler inlines our functions and shares instructions between \
                                them: the parts are less precise than their sum, which is exact. Our step \
                                next_physical also tests whether the block is live, and split maintains the counters.";

/// Number of distinct counts of a step that are listed individually: the maximum that the paper lists.
const VALUES: usize = 8;

/// Both tables with captions; empty if the steps were not measured.
pub(super) fn steps(cells: &[Cell]) -> Vec<(String, Tabled)> {
    let found = cells.iter().find_map(|cell| match &cell.found {
        Ok(Found::Steps(steps)) => Some(steps),
        _ => None,
    });
    let Some(Steps { malloc, free }) = found else { return Vec::new() };
    let published = &published::TLSF;
    vec![
        ("Table I: malloc".into(), table(&published.table_1, malloc)),
        ("Table II: free".into(), table(&published.table_2, free)),
    ]
}

fn table(published: &BTreeMap<String, Vec<u64>>, ours: &BTreeMap<String, BTreeMap<u64, u64>>) -> Tabled {
    let most = ours.values().map(|counts| counts.values().sum::<u64>()).max().unwrap_or(0);
    let mut names: Vec<&str> = published.keys().map(String::as_str).collect();
    names.extend(ours.keys().map(String::as_str).filter(|name| !published.contains_key(*name) && *name != REST));
    names.push(REST);
    let rows = names.into_iter().map(|name| {
        let formatted = |values: &mut dyn Iterator<Item = &u64>| -> String {
            let values: Vec<String> = values.map(u64::to_string).collect();
            match (values.first(), values.last()) {
                (Some(least), Some(most)) if values.len() > VALUES => {
                    format!("{least} to {most} ({} values)", values.len())
                }
                (Some(_), _) => values.join(", "),
                _ => "-".into(),
            }
        };
        let nothing = BTreeMap::new();
        let counts = ours.get(name).unwrap_or(&nothing);
        let operations: u64 = counts.values().sum();
        let sum: u64 = counts.iter().map(|(instructions, operations)| instructions * operations).sum();
        let mean = if operations == 0 { "-".into() } else { format!("{:.1}", sum as f64 / operations as f64) };
        let share = 100.0 * operations as f64 / most.max(1) as f64;
        vec![
            name.to_string(),
            formatted(&mut published.get(name).into_iter().flatten()),
            formatted(&mut counts.keys()),
            mean,
            format!("{} ({share:.0} %)", number::grouped(operations)),
        ]
    });
    Tabled::new(&["\nstep", "\npaper", "\nours", "ours,\nmean", "operations\nwith it"], 1, rows)
}

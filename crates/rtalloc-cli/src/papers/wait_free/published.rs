//! The wait-free paper (2010).

use crate::papers::wait_free::result::Case;
use serde::Deserialize;

/// Its allocators in the paper's order: name in the paper and here.
pub const ALLOCATORS: [(&str, &str); 3] = [("our", "tree-buddy"), ("tlsf", "tlsf-mutex"), ("atops", "atomic-ops")];

/// The published figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitFree {
    /// Title and year.
    pub paper: String,
    /// Cycles in cases I to IV.
    pub figure_10: Figure10,
}

/// Figure 10: one column per case; each line has a statistic for one allocator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure10 {
    /// The order of the allocators in the fields below.
    pub columns: [String; 3],
    #[serde(rename = "I")]
    first: Lines,
    #[serde(rename = "II")]
    second: Lines,
    #[serde(rename = "III")]
    third: Lines,
    #[serde(rename = "IV")]
    fourth: Lines,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    min: [f64; 3],
    med: [f64; 3],
    max: [f64; 3],
    avg: [f64; 3],
    cv: [f64; 3],
    util: [Option<f64>; 3],
}

/// An allocator in a case, in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Minimum.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Maximum.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Coefficient of variation.
    pub cv: f64,
    /// Requested bytes / bytes of the heap, for cases without frees.
    pub utilisation: Option<f64>,
}

impl Figure10 {
    /// The figures of an allocator, by its index in [`ALLOCATORS`], in a case.
    #[must_use]
    pub fn column(&self, at: usize, case: Case) -> Column {
        let lines = match case {
            Case::I => &self.first,
            Case::II => &self.second,
            Case::III => &self.third,
            Case::IV => &self.fourth,
        };
        Column {
            min: lines.min[at],
            median: lines.med[at],
            max: lines.max[at],
            mean: lines.avg[at],
            cv: lines.cv[at],
            utilisation: lines.util[at].map(|percent| percent / 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::published::WAIT_FREE;

    #[test]
    fn every_column_is_there_with_its_median_and_mean_between_extremes() {
        assert_eq!(WAIT_FREE.figure_10.columns, ALLOCATORS.map(|(name, _)| name));
        for (at, (name, _)) in ALLOCATORS.iter().enumerate() {
            for case in Case::ALL {
                let column = WAIT_FREE.figure_10.column(at, case);
                for within in [column.median, column.mean] {
                    assert!(column.min < within && within < column.max, "{name} {case:?}");
                }
                assert_eq!(column.utilisation.is_some(), matches!(case, Case::I | Case::III), "{name} {case:?}");
            }
        }
    }
}

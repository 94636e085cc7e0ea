//! The columns of every table: one list for the terminal, the report and their footnotes.

use super::number;
use crate::result::schema::{Cell, Distribution, Outcome};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Ticks of the time-stamp counter.
    Ticks,
    /// Executed instructions.
    Instructions,
    /// Hundredths.
    Percent,
    /// Bytes; shown in one binary unit per table.
    Bytes,
}

/// One figure of a cell.
pub struct Metric {
    /// First line of the heading: what is measured.
    pub group: &'static str,
    /// Second line: which figure of it.
    pub name: &'static str,
    /// Third line.
    pub unit: Unit,
    /// The figure; smaller is better in every metric.
    pub value: fn(&Cell) -> Option<f64>,
    /// Columns with the highest number leave first when the terminal is narrow.
    pub dispensable: u8,
    /// Whether the smallest value of a table may be called the best: not where it is noise.
    pub ranked: bool,
}

/// A distribution without samples has no mean and no maximum.
fn sampled(distribution: &Distribution) -> Option<&Distribution> {
    (distribution.count > 0).then_some(distribution)
}

#[allow(clippy::cast_precision_loss)] // figures shown with few digits
fn float(value: u64) -> f64 {
    value as f64
}

fn allocate_ticks(cell: &Cell) -> Option<&Distribution> {
    cell.time.as_ref().and_then(|time| sampled(&time.allocate))
}

fn free_ticks(cell: &Cell) -> Option<&Distribution> {
    cell.time.as_ref().and_then(|time| sampled(&time.free))
}

fn allocate_instructions(cell: &Cell) -> Option<&Distribution> {
    cell.instructions.as_ref().and_then(|instructions| sampled(&instructions.allocate))
}

fn free_instructions(cell: &Cell) -> Option<&Distribution> {
    cell.instructions.as_ref().and_then(|instructions| sampled(&instructions.free))
}

/// Every metric, in the order of the columns.
pub const ALL: [Metric; 13] = [
    Metric {
        group: "allocate",
        name: "mean",
        unit: Unit::Ticks,
        value: |cell| allocate_ticks(cell).map(|ticks| ticks.mean),
        dispensable: 1,
        ranked: true,
    },
    Metric {
        group: "allocate",
        name: "p99.9",
        unit: Unit::Ticks,
        value: |cell| allocate_ticks(cell).map(|ticks| float(ticks.p999)),
        dispensable: 4,
        ranked: true,
    },
    Metric {
        group: "allocate",
        name: "max",
        unit: Unit::Ticks,
        value: |cell| allocate_ticks(cell).map(|ticks| float(ticks.max)),
        dispensable: 7,
        ranked: false,
    },
    Metric {
        group: "free",
        name: "mean",
        unit: Unit::Ticks,
        value: |cell| free_ticks(cell).map(|ticks| ticks.mean),
        dispensable: 1,
        ranked: true,
    },
    Metric {
        group: "free",
        name: "p99.9",
        unit: Unit::Ticks,
        value: |cell| free_ticks(cell).map(|ticks| float(ticks.p999)),
        dispensable: 4,
        ranked: true,
    },
    Metric {
        group: "free",
        name: "max",
        unit: Unit::Ticks,
        value: |cell| free_ticks(cell).map(|ticks| float(ticks.max)),
        dispensable: 7,
        ranked: false,
    },
    Metric {
        group: "allocate",
        name: "mean",
        unit: Unit::Instructions,
        value: |cell| allocate_instructions(cell).map(|count| count.mean),
        dispensable: 5,
        ranked: true,
    },
    Metric {
        group: "allocate",
        name: "max",
        unit: Unit::Instructions,
        value: |cell| allocate_instructions(cell).map(|count| float(count.max)),
        dispensable: 0,
        ranked: true,
    },
    Metric {
        group: "free",
        name: "mean",
        unit: Unit::Instructions,
        value: |cell| free_instructions(cell).map(|count| count.mean),
        dispensable: 5,
        ranked: true,
    },
    Metric {
        group: "free",
        name: "max",
        unit: Unit::Instructions,
        value: |cell| free_instructions(cell).map(|count| float(count.max)),
        dispensable: 0,
        ranked: true,
    },
    Metric {
        group: "",
        name: "F",
        unit: Unit::Percent,
        value: |cell| cell.space.as_ref().map(|space| space.fragmentation * 100.0),
        dispensable: 2,
        ranked: true,
    },
    Metric {
        group: "",
        name: "H",
        unit: Unit::Bytes,
        value: |cell| cell.space.as_ref().map(|space| float(space.high_water_bytes)),
        dispensable: 6,
        ranked: true,
    },
    Metric {
        group: "smallest",
        name: "heap",
        unit: Unit::Bytes,
        value: |cell| cell.space.as_ref().and_then(|space| space.smallest_heap_bytes).map(float),
        dispensable: 0,
        ranked: true,
    },
];

/// The binary unit that all byte figures of one table share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// As the heading shows it.
    pub name: &'static str,
    bytes: f64,
}

impl Scale {
    /// The unit in which a live memory of `peak_live_bytes` has two to five digits.
    #[must_use]
    pub fn for_bytes(peak_live_bytes: u64) -> Self {
        if peak_live_bytes < 16 << 10 {
            Self { name: "B", bytes: 1.0 }
        } else if peak_live_bytes < 16 << 20 {
            Self { name: "KiB", bytes: 1024.0 }
        } else {
            Self { name: "MiB", bytes: 1_048_576.0 }
        }
    }
}

impl Metric {
    /// The heading's third line.
    #[must_use]
    pub fn unit_name(&self, scale: Scale) -> &'static str {
        match self.unit {
            Unit::Ticks => "ticks",
            Unit::Instructions => "instr",
            Unit::Percent => "%",
            Unit::Bytes => scale.name,
        }
    }

    /// The figure as a table shows it; a dash where there is none.
    #[must_use]
    pub fn text(&self, cell: &Cell, scale: Scale) -> String {
        let Some(value) = (self.value)(cell) else {
            return "-".into();
        };
        match self.unit {
            Unit::Percent => format!("{value:.1}"),
            Unit::Bytes => number::compact(value / scale.bytes),
            Unit::Ticks | Unit::Instructions if self.name == "mean" => number::mean(value),
            Unit::Ticks | Unit::Instructions => number::compact(value),
        }
    }

    /// The smallest value among the cells that served the whole trace: only those did the same work.
    #[must_use]
    pub fn best(&self, cells: &[&Cell]) -> Option<f64> {
        if !self.ranked {
            return None;
        }
        cells
            .iter()
            .filter(|cell| cell.outcome == Outcome::Completed)
            .filter_map(|cell| (self.value)(cell))
            .min_by(f64::total_cmp)
    }
}

/// The outcome in a word or two.
#[must_use]
pub fn outcome_word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed => "ok".into(),
        #[allow(clippy::cast_precision_loss)] // shown with three digits
        Outcome::Failures { failed, .. } => format!("{} failed", number::compact(*failed as f64)),
        Outcome::TimedOut { .. } => "stopped".into(),
        Outcome::Broken { .. } => "broken".into(),
    }
}

/// What happened, as a sentence; `None` where nothing did.
#[must_use]
pub fn outcome_sentence(outcome: &Outcome, operations: u64) -> Option<String> {
    match outcome {
        Outcome::Completed => None,
        Outcome::Failures { failed, first } => Some(format!(
            "{} failed, the first at operation {} of {}; the replay went on without those blocks.",
            number::counted(*failed, "allocation"),
            number::grouped(*first),
            number::grouped(operations),
        )),
        Outcome::TimedOut { at } => Some(format!(
            "stopped by the time limit at operation {} of {}; its figures are of the operations before.",
            number::grouped(*at),
            number::grouped(operations),
        )),
        Outcome::Broken { what } => Some(format!("did not finish: {what}")),
    }
}

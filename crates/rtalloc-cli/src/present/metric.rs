//! The columns of every table: one list for the terminal, the report and the footnotes.

use rtalloc_lab::number;
use rtalloc_lab::result::schema::{Cell, Distribution, Instructions, Outcome, TraceFacts};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Ticks of the time-stamp counter.
    Ticks,
    /// Executed instructions.
    Instructions,
    /// Hundredths.
    Percent,
    /// Bytes, shown in one binary unit per table.
    Bytes,
}

/// A figure of a cell.
pub struct Metric {
    /// First line of the heading: the measured quantity.
    pub group: &'static str,
    /// Second line: the statistic.
    pub name: &'static str,
    /// Third line.
    pub unit: Unit,
    /// The figure; for every metric, smaller is better.
    pub value: fn(&Cell) -> Option<f64>,
    /// On a narrow terminal, columns with the highest number are dropped first.
    pub dispensable: u8,
    /// Whether the smallest value of a table may be marked as the best: not if it is noise.
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

/// Every metric in column order.
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
        value: |cell| cell.instructions.as_ref().and_then(Instructions::max_allocate).map(float),
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
        value: |cell| cell.instructions.as_ref().and_then(Instructions::max_free).map(float),
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

/// The binary unit shared by all byte figures of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The name in the heading.
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

    /// The figure as shown in a table; a dash if it does not exist.
    #[must_use]
    pub fn text(&self, cell: &Cell, scale: Scale) -> String {
        let Some(value) = (self.value)(cell) else {
            let unservable = matches!(cell.outcome, Outcome::Failures { beyond_reach: 1.., .. });
            return if self.name == "heap" && unservable { "none".into() } else { "-".into() };
        };
        match self.unit {
            Unit::Percent => format!("{value:.1}"),
            Unit::Bytes => number::compact(value / scale.bytes),
            Unit::Ticks | Unit::Instructions if self.name == "mean" => number::mean(value),
            Unit::Ticks | Unit::Instructions => number::compact(value),
        }
    }

    /// The smallest value among the cells that served the whole trace: only those performed the same work.
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

/// The outcome in one or two words.
#[must_use]
pub fn outcome_word(cell: &Cell, trace: &TraceFacts) -> String {
    match &cell.outcome {
        Outcome::Completed => "ok".into(),
        outcome @ Outcome::Failures { beyond_reach, .. } if is_only_beyond_reach(outcome) => {
            let share = share(*beyond_reach, trace);
            match cell.subject.largest_request_bytes.filter(|limit| trace.largest_request_bytes > *limit) {
                Some(limit) => format!("{share} > {}", number::bytes(limit)),
                None => format!("{share} refused"),
            }
        }
        #[allow(clippy::cast_precision_loss)] // shown with three digits
        Outcome::Failures { failed, .. } => format!("{} failed", number::compact(*failed as f64)),
        Outcome::TimedOut { .. } => "stopped".into(),
        Outcome::NotMeasured { .. } => "not measured".into(),
        Outcome::Broken { .. } => "broken".into(),
    }
}

/// A share of a trace's requests, in per cent: a nonzero share is never shown as 0 %.
fn share(requests: u64, trace: &TraceFacts) -> String {
    #[allow(clippy::cast_precision_loss)] // shown with one decimal
    let percent = requests as f64 * 100.0 / (trace.allocations + trace.reallocations).max(1) as f64;
    if percent < 0.1 { "<0.1 %".into() } else { format!("{percent:.1} %") }
}

/// Number of operations of all kinds in a trace.
#[must_use]
pub fn operations(trace: &TraceFacts) -> u64 {
    trace.allocations + trace.frees + trace.reallocations
}

/// The outcome as a sentence; `None` if the trace completed without failures.
#[must_use]
pub fn outcome_sentence(cell: &Cell, trace: &TraceFacts) -> Option<String> {
    let place = |index: u64| format!("operation {} of {}", number::grouped(index), number::grouped(operations(trace)));
    match &cell.outcome {
        Outcome::Completed => None,
        Outcome::Failures { failed, first, beyond_reach: 0 } => Some(format!(
            "{} failed, the first at {}; the replay continued without those blocks.",
            number::counted(*failed, "allocation"),
            place(*first),
        )),
        Outcome::Failures { failed, first, beyond_reach } => {
            let others = match failed - beyond_reach {
                0 => String::new(),
                others => format!(" {} failed for lack of memory;", number::counted(others, "other")),
            };
            Some(format!(
                "serves {}: {} ({}) were refused, the first at {};{others} the figures cover the remaining requests, and no heap \
                 serves the whole trace.",
                reach_in_words(cell),
                number::counted(*beyond_reach, "request"),
                share(*beyond_reach, trace),
                place(*first),
            ))
        }
        Outcome::TimedOut { at } => Some(format!(
            "stopped by the limit of processor time at {}; its figures cover the operations before that.",
            place(*at)
        )),
        Outcome::NotMeasured { what } => Some(format!("not measured: {what}; nothing is known about the allocator.")),
        Outcome::Broken { what } => Some(format!("did not finish: {what}")),
    }
}

/// Whether the only failures are requests that no heap of this allocator serves.
#[must_use]
pub fn is_only_beyond_reach(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failures { failed, beyond_reach, .. } if failed == beyond_reach)
}

/// `requests up to 512 B`.
fn reach_in_words(cell: &Cell) -> String {
    let request = cell.subject.largest_request_bytes.map(|limit| format!("requests up to {}", number::bytes(limit)));
    let alignment =
        cell.subject.largest_alignment_bytes.map(|limit| format!("alignments up to {}", number::bytes(limit)));
    [request, alignment].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rtalloc_lab::result::schema::Refused;

    #[test]
    fn the_worst_case_of_a_refused_request_is_shown() {
        let mut cell = fixture::cell(&fixture::SELECTION[0], 498_000);
        let column = ALL
            .iter()
            .find(|metric| (metric.group, metric.name, metric.unit) == ("allocate", "max", Unit::Instructions))
            .expect("a column");
        let served = (column.value)(&cell).expect("counted");
        let counted = cell.instructions.as_mut().expect("counted");
        counted.refused_allocate = Refused { count: 1, max: 2 * counted.allocate.max };
        assert_eq!((column.value)(&cell), Some(2.0 * served));
    }

    #[test]
    fn what_an_allocator_never_serves_is_not_what_found_no_room() {
        let mut result = fixture::trace("lua", 498_000, &fixture::SELECTION);
        let (cell, trace) = (&mut result.cells[0], &result.trace);
        cell.subject.largest_request_bytes = Some(512);
        let mut formatted = |failed, beyond_reach| {
            cell.outcome = Outcome::Failures { failed, first: 17, beyond_reach };
            cell.space.as_mut().expect("space").smallest_heap_bytes = None;
            let heap = ALL.iter().find(|metric| metric.name == "heap").expect("a column");
            let sentence = outcome_sentence(cell, trace).expect("something happened");
            (outcome_word(cell, trace), heap.text(cell, Scale::for_bytes(498_000)), sentence)
        };
        let (word, heap, sentence) = formatted(4200, 4200);
        assert_eq!((word.as_str(), heap.as_str()), ("4.0 % > 512 B", "none"));
        assert!(
            sentence.starts_with(
                "serves requests up to 512 B: 4,200 requests (4.0 %) were refused, the first at operation 17"
            ),
            "{sentence}"
        );
        let (word, _, sentence) = formatted(4203, 4200);
        assert_eq!(word, "4203 failed");
        assert!(sentence.contains("3 others failed for lack of memory"), "{sentence}");
        let (word, heap, sentence) = formatted(3, 0);
        assert_eq!((word.as_str(), heap.as_str()), ("3 failed", "-"));
        assert!(sentence.starts_with("3 allocations failed"), "{sentence}");
        assert_eq!(formatted(1, 1).0, "<0.1 % > 512 B");
    }
}

//! Results as comma-separated values.
//!
//! One line per trace and allocator. The header is stable: columns are only added, at the end. Names include units:
//! `ticks` of the time-stamp counter, `instructions`, `bytes`; `fragmentation` is a fraction. An empty field means that
//! the figure does not exist. `outcome` is `completed`, `failures`, `timed-out`, `not-measured` (the machine was busy)
//! or `broken`; `outcome_detail` is the sentence shown in the tables. A maximum of instructions includes refused
//! requests, which no other statistic includes.

use super::metric;
use rtalloc_lab::result::schema::{Cell, Distribution, Instructions, Origin, Outcome, Run, TraceResult};
use std::fmt::Write as _;

const STATISTICS: [&str; 8] = ["count", "min", "mean", "std", "p50", "p99", "p999", "max"];
const OPERATIONS: [&str; 3] = ["allocate", "free", "reallocate"];

/// Every figure of a run, one line per trace and allocator; distributions by their statistics.
#[must_use]
pub fn csv(run: &Run) -> String {
    let mut text = heading().join(",");
    text.push('\n');
    for result in &run.traces {
        for cell in &result.cells {
            let fields: Vec<String> = line(result, cell).iter().map(|field| quoted(field)).collect();
            let _ = writeln!(text, "{}", fields.join(","));
        }
    }
    text
}

fn heading() -> Vec<String> {
    let mut names: Vec<String> =
        ["trace", "allocator", "origin", "family", "cost", "heap_bytes", "outcome", "outcome_detail"]
            .map(String::from)
            .to_vec();
    names.push("replicas".into());
    for unit in ["ticks", "instructions"] {
        for operation in OPERATIONS {
            names.extend(STATISTICS.map(|statistic| match statistic {
                "count" => format!("{operation}_{unit}_samples"),
                _ => format!("{operation}_{unit}_{statistic}"),
            }));
        }
    }
    names.extend(
        [
            "peak_live_bytes",
            "high_water_bytes",
            "high_water_with_control_bytes",
            "fragmentation",
            "smallest_heap_bytes",
            "allocate_refused",
            "allocate_refused_instructions_max",
            "reallocate_refused",
            "reallocate_refused_instructions_max",
        ]
        .map(String::from),
    );
    names
}

fn line(result: &TraceResult, cell: &Cell) -> Vec<String> {
    let origin = match cell.subject.origin {
        Origin::Ours => "ours",
        Origin::Peer => "peer",
        Origin::System => "system",
    };
    let outcome = match cell.outcome {
        Outcome::Completed => "completed",
        Outcome::Failures { .. } => "failures",
        Outcome::TimedOut { .. } => "timed-out",
        Outcome::NotMeasured { .. } => "not-measured",
        Outcome::Broken { .. } => "broken",
    };
    let mut fields = vec![
        result.trace.name.clone(),
        cell.subject.name.clone(),
        origin.into(),
        cell.subject.family.clone(),
        cell.subject.cost.clone(),
        optional(cell.heap_bytes),
        outcome.into(),
        metric::outcome_sentence(cell, &result.trace).unwrap_or_default(),
    ];
    let time = cell.time.as_ref();
    fields.push(optional(time.map(|time| time.replicas)));
    for distribution in
        [time.map(|time| &time.allocate), time.map(|time| &time.free), time.map(|time| &time.reallocate)]
    {
        fields.extend(statistics(distribution));
    }
    let counted = cell.instructions.as_ref();
    for (distribution, max) in [
        (counted.map(|counted| &counted.allocate), counted.and_then(Instructions::max_allocate)),
        (counted.map(|counted| &counted.free), counted.and_then(Instructions::max_free)),
        (counted.map(|counted| &counted.reallocate), counted.and_then(Instructions::max_reallocate)),
    ] {
        let mut statistics = statistics(distribution);
        statistics[STATISTICS.len() - 1] = optional(max);
        fields.extend(statistics);
    }
    let space = cell.space.as_ref();
    fields.push(optional(space.map(|space| space.peak_live_bytes)));
    fields.push(optional(space.map(|space| space.high_water_bytes)));
    fields.push(optional(space.map(|space| space.high_water_with_control_bytes)));
    fields.push(optional(space.map(|space| format!("{:.6}", space.fragmentation))));
    fields.push(optional(space.and_then(|space| space.smallest_heap_bytes)));
    for refused in [counted.map(|counted| counted.refused_allocate), counted.map(|counted| counted.refused_reallocate)]
    {
        fields.push(optional(refused.map(|refused| refused.count)));
        fields.push(optional(refused.filter(|refused| refused.count > 0).map(|refused| refused.max)));
    }
    fields
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn statistics(distribution: Option<&Distribution>) -> [String; STATISTICS.len()] {
    let Some(sampled) = distribution.filter(|distribution| distribution.count > 0) else {
        return Default::default();
    };
    [
        sampled.count.to_string(),
        sampled.min.to_string(),
        format!("{:.3}", sampled.mean),
        format!("{:.3}", sampled.std),
        sampled.p50.to_string(),
        sampled.p99.to_string(),
        sampled.p999.to_string(),
        sampled.max.to_string(),
    ]
}

/// Quotes a field according to RFC 4180.
pub(crate) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.into() }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn every_line_has_a_field_per_name() {
        let mut run = fixture::usual();
        run.traces[0].trace.name = "a \"hostile\", name".into();
        let text = csv(&run);
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        assert_eq!(names.len(), heading().len());
        assert_eq!(names[..3], ["trace", "allocator", "origin"]);
        assert_eq!(names[16], "allocate_ticks_max");
        assert_eq!(names[names.len() - 5], "smallest_heap_bytes");
        assert_eq!(names[names.len() - 1], "reallocate_refused_instructions_max");
        for (result, cell) in run.traces.iter().flat_map(|result| result.cells.iter().map(move |cell| (result, cell))) {
            assert_eq!(line(result, cell).len(), names.len());
        }
        assert_eq!(text.lines().count(), 1 + 3 * fixture::SELECTION.len());
        assert!(
            text.contains("\n\"a \"\"hostile\"\", name\",tlsf,ours,two-level segregated,O(1),3984000,completed,,3,")
        );
    }
}

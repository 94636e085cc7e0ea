//! What changed between two stores, and whether it matters.
//!
//! Counting tasks have the same result wherever the same code runs: any difference is a change, and matters. Times vary
//! from run to run: the quartiles of the quotients of all times in two results are computed; a change matters where all
//! three are on the same side of 1 and the median is at least [`NOTABLE`] away from 1.

use super::store::Kept;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The smallest change of a median that matters.
pub const NOTABLE: f64 = 0.05;

/// The names of figures that are times.
const TIMES: [&str; 4] = ["ticks", "p50", "mean", "median"];
/// The name of one that is a rate.
const RATE: &str = "operations_per_second";

/// The differences between two stores.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// By experiment.
    pub experiments: BTreeMap<String, Experiment>,
}

/// The differences between two stores in one experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experiment {
    /// Tasks that only the first has, and only the second.
    pub alone: [usize; 2],
    /// Counting tasks with equal results.
    pub equal: usize,
    /// Counting tasks with different results.
    pub changed: Vec<Changed>,
    /// Quartiles of second / first over the times of timed tasks; `None` where there are none.
    pub times: Option<[f64; 3]>,
}

/// A counting task with another result.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The task.
    pub key: String,
    /// Figures that differ.
    pub figures: usize,
    /// The figure with the largest relative difference: its place, and both values.
    pub most: (String, String, String),
}

impl Experiment {
    /// Whether what changed matters, by the rule of this module.
    #[must_use]
    pub fn matters(&self) -> bool {
        let moved = |[first, median, third]: &[f64; 3]| {
            (*first > 1.0 && *median >= 1.0 + NOTABLE) || (*third < 1.0 && *median <= 1.0 - NOTABLE)
        };
        !self.changed.is_empty() || self.times.as_ref().is_some_and(moved)
    }
}

/// Compares the results of two stores.
#[must_use]
pub fn between(first: &[Kept], second: &[Kept]) -> Difference {
    let mut experiments: BTreeMap<String, Experiment> = BTreeMap::new();
    let mut quotients: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let others: BTreeMap<&str, &Kept> = second.iter().map(|kept| (kept.key.as_str(), kept)).collect();
    for kept in first {
        let experiment = experiments.entry(kept.experiment.clone()).or_default();
        match others.get(kept.key.as_str()) {
            None => experiment.alone[0] += 1,
            Some(other) if kept.timed => {
                let [first, second] = [kept, other].map(|one| json!({ "failed": has_failed(&one.result) }));
                experiment.changed.extend(changed(&kept.key, &first, &second));
                quotients.entry(kept.experiment.clone()).or_default().extend(times(&kept.result, &other.result));
            }
            Some(other) => match changed(&kept.key, &kept.result, &other.result) {
                None => experiment.equal += 1,
                Some(changed) => experiment.changed.push(changed),
            },
        }
    }
    let known: BTreeMap<&str, &Kept> = first.iter().map(|kept| (kept.key.as_str(), kept)).collect();
    for kept in second.iter().filter(|kept| !known.contains_key(kept.key.as_str())) {
        experiments.entry(kept.experiment.clone()).or_default().alone[1] += 1;
    }
    for (name, mut quotients) in quotients {
        quotients.sort_by(f64::total_cmp);
        if let (Some(experiment), Some(last)) = (experiments.get_mut(&name), quotients.len().checked_sub(1)) {
            experiment.times = Some([1, 2, 3].map(|quarter| quotients[last * quarter / 4]));
        }
    }
    Difference { experiments }
}

/// Whether a result reports a failure: it contains the `Err` of a `Result`.
fn has_failed(result: &Value) -> bool {
    match result {
        Value::Object(fields) => fields.iter().any(|(name, value)| name == "Err" || has_failed(value)),
        Value::Array(list) => list.iter().any(has_failed),
        _ => false,
    }
}

/// Every figure of a result with its place: the names and indices of the enclosing objects and lists, separated by
/// dots.
pub fn figures<'a>(result: &'a Value, visit: &mut dyn FnMut(&str, &'a Value)) {
    fn inside<'a>(value: &'a Value, place: &mut String, visit: &mut dyn FnMut(&str, &'a Value)) {
        let mut enter = |name: &str, value: &'a Value| {
            let length = place.len();
            if length > 0 {
                place.push('.');
            }
            place.push_str(name);
            inside(value, place, visit);
            place.truncate(length);
        };
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| enter(name, value)),
            Value::Array(list) => list.iter().enumerate().for_each(|(number, value)| enter(&number.to_string(), value)),
            _ => visit(place, value),
        }
    }
    inside(result, &mut String::new(), visit);
}

fn by_place(result: &Value) -> BTreeMap<String, &Value> {
    let mut all = BTreeMap::new();
    figures(result, &mut |place, value| {
        all.insert(place.into(), value);
    });
    all
}

fn changed(key: &str, first: &Value, second: &Value) -> Option<Changed> {
    let (first, second) = (by_place(first), by_place(second));
    let mut most: Option<(f64, &String)> = None;
    let mut figures = 0;
    let only_second = second.keys().filter(|place| !first.contains_key(*place));
    for place in first.keys().chain(only_second) {
        let (one, other) = (first.get(place), second.get(place));
        if one == other {
            continue;
        }
        figures += 1;
        let number = |value: Option<&&Value>| value.and_then(|value| value.as_f64());
        // A value that is not a number, or is missing on one side, ranks above any numeric difference.
        let distance = match (number(one), number(other)) {
            (Some(one), Some(other)) => (one - other).abs() / one.abs().max(other.abs()),
            _ => f64::INFINITY,
        };
        if most.is_none_or(|(least, _)| distance > least) {
            most = Some((distance, place));
        }
    }
    let (_, place) = most?;
    let text = |value: Option<&&Value>| value.map_or_else(|| "nothing".into(), ToString::to_string);
    let most = (place.clone(), text(first.get(place)), text(second.get(place)));
    Some(Changed { key: key.into(), figures, most })
}

/// Quotients second / first of the times that both have.
fn times(first: &Value, second: &Value) -> Vec<f64> {
    let (first, second) = (by_place(first), by_place(second));
    let name = |place: &'_ str| -> Option<String> {
        let mut parts = place.rsplit('.').skip_while(|part| part.parse::<usize>().is_ok());
        (!place.split('.').any(|part| part == "utilisation")).then(|| parts.next().map(Into::into))?
    };
    let quotient = |(place, one): (&String, &&Value)| {
        let (one, other) = (one.as_f64()?, second.get(place)?.as_f64()?);
        let name = name(place)?;
        if one <= 0.0 || other <= 0.0 {
            return None;
        }
        // For a rate, the time of one operation.
        if name == RATE { Some(one / other) } else { TIMES.contains(&&*name).then_some(other / one) }
    };
    first.iter().filter_map(quotient).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::cycles::Clock;
    use crate::result::schema::Environment;

    fn kept(key: &str, timed: bool, result: Value) -> Kept {
        let environment = Environment::here(Clock::calibrate());
        Kept { key: key.into(), experiment: "tlsf".into(), environment, finished_unix: 0, seconds: 0.0, timed, result }
    }

    fn found(first: &[Kept], second: &[Kept]) -> Experiment {
        between(first, second).experiments.remove("tlsf").expect("of one experiment")
    }

    #[test]
    fn one_instruction_more_is_a_change() {
        let one = |most: u64| kept("a", false, json!({ "most": most, "mean": 10.5, "histogram": [[87, 1], [90, 2]] }));
        let same = found(&[one(87)], &[one(87)]);
        assert!(same.equal == 1 && same.changed.is_empty() && !same.matters());
        let other = found(&[one(87)], &[one(88)]);
        let most = ("most".into(), "87".into(), "88".into());
        assert_eq!(other.changed, [Changed { key: "a".into(), figures: 1, most }]);
        assert!(other.matters());
    }

    #[test]
    fn a_task_in_only_one_store_is_not_a_changed_figure() {
        let (a, b, c) = (kept("a", false, json!(1)), kept("b", false, json!(2)), kept("c", false, json!(3)));
        let difference = found(&[a.clone(), b.clone()], &[b, c]);
        assert_eq!((difference.alone, difference.equal), ([1, 1], 1));
        assert!(!difference.matters());
        let failed = found(&[a], &[kept("a", false, json!({ "Err": "refused" }))]);
        assert_eq!(failed.changed[0].figures, 2, "a figure that went and one that came");
    }

    #[test]
    fn rates_that_halve_and_lists_of_ticks_matter() {
        let timed = |rate: f64, ticks: [f64; 2]| {
            let mean = json!({ "utilisation": { "mean": rate }, "operations_per_second": rate, "ticks": ticks });
            kept("a", true, mean)
        };
        let slower = found(&[timed(8.0, [3.0, 4.0])], &[timed(4.0, [6.0, 8.0])]);
        assert_eq!(slower.times, Some([2.0; 3]));
        assert!(slower.matters());
    }

    #[test]
    fn times_matter_when_all_quartiles_moved() {
        let timed = |ticks: [f64; 4]| kept("a", true, json!(ticks.map(|ticks| json!({ "mean": ticks, "count": 7 }))));
        let slower = found(&[timed([100.0; 4])], &[timed([108.0, 109.0, 110.0, 111.0])]);
        assert_eq!(slower.times, Some([1.08, 1.09, 1.1]));
        assert!(slower.matters());
        let noise = found(&[timed([100.0; 4])], &[timed([90.0, 109.0, 110.0, 111.0])]);
        assert!(!noise.matters(), "a quartile on the other side");
        assert!(!found(&[timed([100.0; 4])], &[timed([101.0; 4])]).matters(), "all, but by too little");
        assert!(found(&[timed([100.0; 4])], &[timed([90.0; 4])]).matters());
    }
}

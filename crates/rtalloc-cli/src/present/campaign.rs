//! The results of stores: exported for other programs, or compared with those of another store.

use super::csv::quoted;
use super::table::Look;
use super::table::table;
use super::verdict::wrapped;
use rtalloc_lab::campaign::difference::{Difference, figures};
use rtalloc_lab::campaign::store::{Kept, Origin};
use rtalloc_lab::number;
use rtalloc_lab::result::document::{self, Schema};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// All results as JSON.
///
/// # Errors
///
/// Not expected to fail.
pub fn json(origin: &Origin, results: &[Kept]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Everything<'a> {
        origin: &'a Origin,
        results: &'a [Kept],
    }
    document::compact(Schema::EXPORT, &Everything { origin, results })
}

/// One line per figure: allocator, place of measurement, path within the result, and value.
#[must_use]
pub fn csv(results: &[Kept]) -> String {
    let mut text = String::from("experiment,task,cpu,figure,value\n");
    for kept in results {
        figures(&kept.result, &mut |place, value| {
            let value = match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let fields = [&kept.experiment, &kept.key, &kept.environment.cpu, place, &value].map(quoted);
            let _ = writeln!(text, "{}", fields.join(","));
        });
    }
    text
}

/// The differences between two stores by experiment, and their significance.
#[must_use]
pub fn differences(difference: &Difference, look: Look) -> String {
    const HEADINGS: [&str; 7] = [
        "\nexperiment",
        "tasks only\nin the first",
        "\nin the second",
        "\nequal",
        "\nchanged",
        "times: second / first\nquartiles",
        "\nmatters",
    ];
    let rows = difference.experiments.iter().map(|(name, found)| {
        let times = found.times.map_or_else(|| "-".into(), |[a, b, c]| format!("{a:.3}  {b:.3}  {c:.3}"));
        vec![
            name.clone(),
            number::grouped(found.alone[0] as u64),
            number::grouped(found.alone[1] as u64),
            number::grouped(found.equal as u64),
            number::grouped(found.changed.len() as u64),
            times,
            (if found.matters() { "yes" } else { "no" }).into(),
        ]
    });
    let mut text = table(&HEADINGS, 1, rows, look);
    for changed in difference.experiments.values().flat_map(|found| found.changed.iter().take(SHOWN)) {
        let (place, first, second) = &changed.most;
        let line = format!(
            "{}: {} differ, most at {place}: {first} and {second}",
            changed.key,
            number::counted(changed.figures as u64, "figure")
        );
        let _ = writeln!(text, "{}", wrapped(&line, look.columns, 2));
    }
    for (name, found) in &difference.experiments {
        if let Some(more @ 1..) = found.changed.len().checked_sub(SHOWN) {
            let _ = writeln!(text, "and {} of {name}", number::counted(more as u64, "task"));
        }
    }
    text
}

/// Maximum number of changed tasks that are shown per experiment.
const SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use rtalloc_lab::probe::cycles::Clock;
    use rtalloc_lab::result::schema::Environment;
    use serde_json::json;

    #[test]
    fn every_figure_has_its_line() {
        let result = json!({ "subject": "tlsf, ours", "most": [87, null], "within": { "bound": true } });
        let environment = Environment { cpu: "a processor".into(), ..Environment::here(Clock::calibrate()) };
        let kept = Kept {
            key: "tlsf seed=1".into(),
            experiment: "tlsf".into(),
            environment,
            finished_unix: 1,
            seconds: 0.5,
            timed: false,
            result,
        };
        let text = csv(std::slice::from_ref(&kept));
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "tlsf,tlsf seed=1,a processor,most.0,87",
            "tlsf,tlsf seed=1,a processor,most.1,",
            "tlsf,tlsf seed=1,a processor,subject,\"tlsf, ours\"",
            "tlsf,tlsf seed=1,a processor,within.bound,true",
        ];
        assert_eq!(lines, expected);
        let origin = Origin { binary: "sha256:b".into(), traces: "sha256:t".into() };
        let formatted: Value =
            serde_json::from_str(&super::json(&origin, std::slice::from_ref(&kept)).unwrap()).unwrap();
        assert_eq!(
            (&formatted["origin"]["traces"], &formatted["results"][0]["result"]),
            (&json!("sha256:t"), &kept.result)
        );
    }
}

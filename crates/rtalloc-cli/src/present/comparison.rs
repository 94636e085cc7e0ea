//! A/B comparisons for the terminal: one table per pair, one row per trace.

use super::page::measured;
use super::printable;
use super::table::{Look, lines};
use super::verdict::wrapped;
use comfy_table::{Attribute, Cell, CellAlignment, Color};
use rtalloc_lab::number;
use rtalloc_lab::result::comparison::{Comparisons, Figures, Side};
use std::fmt::Write as _;

/// One table per pair, and notes on all of them.
#[must_use]
pub fn tables(comparisons: &Comparisons, look: Look) -> String {
    let mut text = String::new();
    let pairs = comparisons.traces.first().map_or(0, |trace| trace.comparisons.len());
    for pair in 0..pairs {
        text.push_str(&of_pair(comparisons, pair, look));
        text.push('\n');
    }
    for note in notes(comparisons) {
        let _ = writeln!(text, "{}", wrapped(&note, look.columns, 0));
    }
    text
}

const HEADINGS: [&str; 13] = [
    "\n\ntrace",
    "\nopera-\ntions",
    "\n\nrounds",
    "allocate\nfirst\nticks",
    "\nsecond\nticks",
    "\n\nratio",
    "free\nfirst\nticks",
    "\nsecond\nticks",
    "\n\nratio",
    "replay\nfirst\nns/op",
    "\nsecond\nns/op",
    "\n\nratio",
    "\nquartiles\nof ratio",
];

fn of_pair(comparisons: &Comparisons, pair: usize, look: Look) -> String {
    let mut table = look.table();
    let aligned = |place: usize| if place == 0 { CellAlignment::Left } else { CellAlignment::Right };
    let heading = |(place, text): (usize, &str)| Cell::new(text).set_alignment(aligned(place));
    table.set_header(HEADINGS.into_iter().enumerate().map(heading));
    let mut troubles = Vec::new();
    let mut compared = Vec::new();
    for result in &comparisons.traces {
        let comparison = &result.comparisons[pair];
        let name = printable(&result.trace.name);
        let operations = result.trace.allocations + result.trace.frees + result.trace.reallocations;
        let mut row = vec![name.clone(), number::grouped(operations)];
        let mut ratios = [None; 3];
        match &comparison.outcome {
            Ok(figures) => {
                ratios = ratios_of(figures);
                compared.push(ratios);
                row.extend(texts(figures));
            }
            Err(what) => {
                row.resize(HEADINGS.len(), "-".into());
                troubles.push(format!("{name}: not compared: {}", printable(what)));
            }
        }
        let cells = row.into_iter().enumerate().map(|(place, text)| {
            let cell = Cell::new(text).set_alignment(aligned(place));
            let slower = RATIO_PLACES.iter().zip(ratios).any(|(at, ratio)| *at == place && is_slower(ratio));
            if slower { cell.fg(Color::Yellow).add_attribute(Attribute::Bold) } else { cell }
        });
        table.add_row(cells);
    }
    if compared.len() > 1 {
        let mut row = vec![String::new(); HEADINGS.len()];
        row[0] = "geometric mean".into();
        for (which, place) in RATIO_PLACES.into_iter().enumerate() {
            row[place] = ratio(geometric_mean(compared.iter().filter_map(|ratios| ratios[which])));
        }
        table.add_row(row.into_iter().enumerate().map(|(place, text)| Cell::new(text).set_alignment(aligned(place))));
    }
    let comparison = &comparisons.traces[0].comparisons[pair];
    let mut text = format!("{} (first) against {} (second)\n", comparison.first, comparison.second);
    text.push_str(&lines(table, 1));
    for trouble in troubles {
        let _ = writeln!(text, "{}", wrapped(&trouble, look.columns, 2));
    }
    if !compared.is_empty() {
        let _ = writeln!(text, "{}", wrapped(&standing(&comparison.first, &compared), look.columns, 0));
    }
    text
}

/// Whether the first is slower, to the precision of the table.
fn is_slower(ratio: Option<f64>) -> bool {
    ratio.is_some_and(|ratio| ratio >= 1.005)
}

/// Columns of the ratios, in the order of [`ratios_of`].
const RATIO_PLACES: [usize; 3] = [5, 8, 11];

fn ratios_of(figures: &Figures) -> [Option<f64>; 3] {
    [figures.allocate_ratio(), figures.free_ratio(), Some(figures.replay_ratio())]
}

/// The columns after the operations.
fn texts(figures: &Figures) -> Vec<String> {
    let ticks = |ticks: Option<f64>| ticks.map_or_else(|| "-".into(), number::mean);
    let nanoseconds = |side: &Side| number::mean(side.replay_nanoseconds);
    let Figures { rounds, first, second, replay_ratio_quartiles: [lower, _, upper], .. } = figures;
    let [allocate, free, replay] = ratios_of(figures);
    vec![
        rounds.to_string(),
        ticks(first.allocate_ticks),
        ticks(second.allocate_ticks),
        ratio(allocate),
        ticks(first.free_ticks),
        ticks(second.free_ticks),
        ratio(free),
        nanoseconds(first),
        nanoseconds(second),
        ratio(replay),
        format!("{lower:.2}..{upper:.2}"),
    ]
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| if ratio < 0.0995 { format!("{ratio:.3}") } else { format!("{ratio:.2}") })
}

fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = ratios.fold((0_u32, 0.0), |(count, sum), ratio| (count + 1, sum + ratio.ln()));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// The number of traces on which the first is slower.
fn standing(first: &str, compared: &[[Option<f64>; 3]]) -> String {
    let slower = |which: usize| compared.iter().filter(|ratios| is_slower(ratios[which])).count();
    format!(
        "Of {}, {first} is slower in allocate on {}, in free on {}, and in the whole replay on {}.",
        number::counted(compared.len() as u64, "trace"),
        slower(0),
        slower(1),
        slower(2),
    )
}

fn notes(comparisons: &Comparisons) -> Vec<String> {
    let environment = &comparisons.environment;
    vec![
        "In each round both replay the whole trace, once timed and once not, in fresh heaps in the same memory; which \
         of them begins alternates. ratio: first / second, below 1 if the first is faster."
            .into(),
        format!(
            "allocate, free: for each operation the minimum of its ticks over the rounds, then the mean over the \
             operations; the minimum cost of reading the counter is subtracted. A tick is {:.2} ns here.",
            1e9 / environment.tsc_hz.max(1) as f64
        ),
        "replay: the whole trace without timers, including reallocations and the replay loop; median over the rounds, \
         and quartiles of the ratio."
            .into(),
        format!("{} It took {:.0} s.", measured(environment), comparisons.seconds),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rtalloc_lab::result::comparison::{Comparison, TraceComparisons};

    fn comparisons() -> Comparisons {
        let run = fixture::usual();
        let side = |ticks, replay_nanoseconds| Side {
            allocate_ticks: Some(ticks),
            free_ticks: Some(ticks * 2.0),
            replay_nanoseconds,
        };
        let figures = |first, second| Figures {
            rounds: 12,
            timer_ticks: 60,
            first: side(first, first / 2.0),
            second: side(second, second / 2.0),
            replay_ratio_quartiles: [0.9, 0.95, 1.01],
        };
        let outcomes = [Ok(figures(40.0, 80.0)), Ok(figures(90.0, 45.0)), Err("b refused 7 of 9 operations".into())];
        let traces = outcomes
            .into_iter()
            .map(|outcome| TraceComparisons {
                trace: run.traces[0].trace.clone(),
                heap_bytes: 1 << 20,
                comparisons: vec![Comparison { first: "a".into(), second: "b".into(), outcome }],
            })
            .collect();
        Comparisons { environment: run.environment, traces, seconds: 1.0 }
    }

    #[test]
    fn ratios_means_and_refusals_are_printed() {
        let text = tables(&comparisons(), Look { columns: 120, colour: false });
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "a (first) against b (second)",
            "12 40.0 80.0 0.50 80.0 160 0.50 20.0 40.0 0.95 0.90..1.01",
            "geometric mean 1.00 1.00 0.95",
            "not compared: b refused 7 of 9 operations",
            "Measured 2026-03-01 14:05 UTC by rtalloc 0.1.0. It took 1 s.",
            "Of 2 traces, a is slower in allocate on 1, in free on 1, and in the whole replay on 0.",
        ] {
            assert!(words.contains(part), "{part}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn the_slower_one_is_highlighted() {
        let coloured = tables(&comparisons(), Look { columns: 120, colour: true });
        let bold = coloured.lines().filter(|line| line.contains("\u{1b}[1m")).count();
        assert_eq!(bold, 1, "{coloured:?}");
    }
}

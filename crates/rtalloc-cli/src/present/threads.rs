//! Traces replayed by several threads, for the terminal, as comma-separated values, and as a page.

mod report;

pub use report::html;

use super::page::{Tabled, measured};
use super::printable;
use super::table::Look;
use super::verdict::wrapped;
use rtalloc_lab::number;
use rtalloc_lab::result::schema::{Distribution, Origin, Outcome};
use rtalloc_lab::result::threads::{ThreadedCell, ThreadedRun, ThreadedTime, ThreadedTrace};
use rtalloc_subjects::shared::Refused;
use std::fmt::Write as _;

/// Two tables per trace (ticks; memory and refused requests), and notes on all of them.
#[must_use]
pub fn tables(run: &ThreadedRun, look: Look) -> String {
    let mut text = String::new();
    for trace in &run.traces {
        text.push_str(&of_trace(trace, &run.ordering, look));
        text.push('\n');
    }
    for note in notes(run).into_iter().chain([measured(&run.environment)]) {
        let _ = writeln!(text, "{}", wrapped(&note, look.columns, 0));
    }
    text
}

/// A description of the replay, in one sentence.
fn head(trace: &ThreadedTrace, ordering: &str) -> String {
    let facts = &trace.trace;
    let copies = match trace.copies {
        1 => String::new(),
        copies => format!(" ({copies} copies of the trace, each with its own blocks)"),
    };
    let order = if ordering == "recorded" { "in the recorded order" } else { "in causal order" };
    format!(
        "{}: {} operations by {}{copies}, {order}; {} of another thread's block; heap of {}",
        printable(&facts.name),
        number::grouped((facts.allocations + facts.frees + facts.reallocations) * u64::from(trace.copies)),
        number::counted(trace.threads, "thread"),
        number::counted(trace.cross_thread_frees, "free"),
        number::bytes(trace.heap_bytes),
    )
}

fn of_trace(trace: &ThreadedTrace, ordering: &str, look: Look) -> String {
    let mut text = wrapped(&head(trace, ordering), look.columns, 0) + "\n";
    text.push_str(&ticks(trace).text(look));
    text.push('\n');
    text.push_str(&memory(trace).text(look));
    for sentence in sentences(trace) {
        let _ = writeln!(text, "{}", wrapped(&sentence, look.columns, 2));
    }
    text
}

/// Times by allocator and operation.
fn ticks(trace: &ThreadedTrace) -> Tabled {
    let headings =
        ["\nallocator", "\noperation", "\ncount", "ticks\nmin", "\nmedian", "\nmean", "\np99.9", "\nmax", "\ncv"];
    let rows = trace.cells.iter().flat_map(|cell| {
        cell.time.iter().flat_map(|time| {
            operations(time).into_iter().filter(|(_, ticks)| ticks.count > 0).enumerate().map(
                |(place, (name, ticks))| {
                    let subject = if place == 0 { cell.subject.clone() } else { String::new() };
                    vec![
                        subject,
                        name.into(),
                        number::grouped(ticks.count),
                        number::compact(ticks.min as f64),
                        number::compact(ticks.p50 as f64),
                        number::mean(ticks.mean),
                        number::compact(ticks.p999 as f64),
                        number::compact(ticks.max as f64),
                        variation(ticks).map_or_else(|| "-".into(), |cv| format!("{cv:.2}")),
                    ]
                },
            )
        })
    });
    Tabled::new(&headings, 2, rows)
}

/// Memory, and refused requests.
fn memory(trace: &ThreadedTrace) -> Tabled {
    let headings = [
        "\nallocator",
        "progress\nallocate",
        "\nfree",
        "most live\nbytes",
        "smallest\nheap",
        "refused\nexhausted",
        "\ncontended",
        "\npending",
        "\nrequest",
        "\nwaits",
    ];
    let rows = trace.cells.iter().map(|cell| {
        let refused = refused(cell);
        let count =
            |of: fn(&Refused) -> u64| refused.map_or_else(|| "-".into(), |refused| number::grouped(of(&refused)));
        let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".into());
        vec![
            cell.subject.clone(),
            word(&cell.allocate),
            word(&cell.deallocate),
            cell.space.map_or_else(|| "-".into(), |space| number::bytes(space.peak_live_bytes)),
            cell.space.and_then(|space| space.smallest_heap_bytes).map_or_else(|| "-".into(), number::bytes),
            count(|refused| refused.exhausted),
            count(|refused| refused.contended),
            count(|refused| refused.pending),
            count(|refused| refused.request),
            cell.time.as_ref().map_or_else(|| "-".into(), |time| number::grouped(time.waits)),
        ]
    });
    Tabled::new(&headings, 3, rows)
}

/// The outcomes other than success, by allocator.
fn sentences(trace: &ThreadedTrace) -> impl Iterator<Item = String> {
    trace.cells.iter().filter_map(|cell| Some(format!("{}: {}", cell.subject, sentence(cell)?)))
}

fn operations(time: &ThreadedTime) -> [(&'static str, &Distribution); 4] {
    [
        ("allocate", &time.allocate),
        ("free own", &time.free),
        ("free other's", &time.foreign_free),
        ("reallocate", &time.reallocate),
    ]
}

/// Coefficient of variation.
fn variation(ticks: &Distribution) -> Option<f64> {
    (ticks.mean > 0.0).then(|| ticks.std / ticks.mean)
}

/// Requests refused in the verifying replay, and in the timed ones.
fn refused(cell: &ThreadedCell) -> Option<Refused> {
    let both = [cell.space.map(|space| space.refused), cell.time.as_ref().map(|time| time.refused)];
    both.into_iter().flatten().reduce(|mut sum, refused| {
        sum += refused;
        sum
    })
}

fn sentence(cell: &ThreadedCell) -> Option<String> {
    match &cell.outcome {
        Outcome::Completed => None,
        Outcome::Failures { first, beyond_reach, .. } => {
            let beyond = match beyond_reach {
                0 => String::new(),
                requests => format!(" {} no heap of it serves.", number::counted(*requests, "request")),
            };
            Some(format!(
                "requests were refused, the first at operation {}; the replay continued without those blocks.{beyond}",
                number::grouped(*first)
            ))
        }
        Outcome::TimedOut { at } => {
            Some(format!("stopped by the limit of processor time after {} operations.", number::grouped(*at)))
        }
        Outcome::NotMeasured { what } => Some(format!("not measured: {}", printable(what))),
        Outcome::Broken { what } => Some(format!("did not finish: {}", printable(what))),
    }
}

fn notes(run: &ThreadedRun) -> Vec<String> {
    let cores = run.environment.cores as u64;
    let mut notes = vec![
        "ticks: of the time-stamp counter around each operation, the cost of an empty measurement subtracted, of all \
         replays together. The maximum includes preemption of a thread during an operation. cv: standard deviation / \
         mean."
            .to_string(),
        "smallest heap: the smallest region that serves the whole trace in its recorded order. refused: in all \
         replays, including the one that verifies every block. most live may exceed that of the program, because a \
         thread may run ahead of the one that frees, except with `--order recorded`. waits: operations that waited for \
         another thread before they began; no figure includes the wait."
            .to_string(),
    ];
    if run.traces.iter().any(|trace| trace.threads > cores) {
        notes.push(format!(
            "More threads than processors ({cores}): threads share processors, and maxima are mostly those of the \
             system's scheduler."
        ));
    }
    notes
}

/// One line per trace, allocator and operation.
#[must_use]
pub fn csv(run: &ThreadedRun) -> String {
    let mut text = String::from(
        "trace,threads,copies,ordering,allocator,origin,lock,heap_bytes,outcome,operation,count,min_ticks,median_ticks,mean_ticks,\
         std_ticks,p99_ticks,p999_ticks,max_ticks,peak_live_bytes,smallest_heap_bytes,exhausted,contended,pending,request\n",
    );
    for trace in &run.traces {
        for cell in &trace.cells {
            let origin = match cell.origin {
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
            let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
            let front = [
                super::csv::quoted(&trace.trace.name),
                trace.threads.to_string(),
                trace.copies.to_string(),
                run.ordering.clone(),
                cell.subject.clone(),
                origin.into(),
                cell.lock.clone().unwrap_or_default(),
                number(cell.heap_bytes),
                outcome.into(),
            ]
            .join(",");
            let refused = refused(cell);
            let back = [
                number(cell.space.map(|space| space.peak_live_bytes)),
                number(cell.space.and_then(|space| space.smallest_heap_bytes)),
                number(refused.map(|refused| refused.exhausted)),
                number(refused.map(|refused| refused.contended)),
                number(refused.map(|refused| refused.pending)),
                number(refused.map(|refused| refused.request)),
            ]
            .join(",");
            let nothing = ThreadedTime::default();
            for (name, ticks) in operations(cell.time.as_ref().unwrap_or(&nothing)) {
                let _ = writeln!(
                    text,
                    "{front},{},{},{},{},{},{},{},{},{},{back}",
                    name.replace(' ', "-").replace('\'', ""),
                    ticks.count,
                    ticks.min,
                    ticks.p50,
                    ticks.mean,
                    ticks.std,
                    ticks.p99,
                    ticks.p999,
                    ticks.max
                );
            }
        }
    }
    text
}

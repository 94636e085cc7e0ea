//! The wait-free paper's test cases as a chapter, and as CSV.

mod errata;
mod figures;

use crate::papers::chapter::{Chapter, Section};
use crate::papers::published::WAIT_FREE;
use crate::papers::wait_free::published::{ALLOCATORS, Column};
use crate::papers::wait_free::result::{Case, Cell, Figures, Interval, Load, WaitFree, is_missing};
use crate::present::page::Tabled;
use crate::present::plot::PlotError;
use rtalloc_lab::number;
use rtalloc_subjects::shared::NOT_INSTALLED;
use std::fmt::Write as _;

/// The whole chapter.
///
/// # Errors
///
/// See [`PlotError`].
pub fn chapter(found: &WaitFree) -> Result<Chapter, PlotError> {
    let mut drawn = figures::drawn(found)?;
    let mut named = |name: &str| match drawn.iter().position(|figure| figure.name == name) {
        Some(place) => vec![drawn.remove(place)],
        None => Vec::new(),
    };
    let mut sections = Vec::new();
    for case in Case::ALL {
        if found.cells.iter().any(|cell| cell.case == case) {
            let of = |threads: u32| (with_threads(found, threads), of_case(found, case, threads));
            sections.push(Section {
                title: format!("Figure 10, case {}: {}", case.name(), case.what()),
                about: "Ticks of operations, by the number of threads; the paper's figures are cycles.".into(),
                tables: threads(found).into_iter().map(of).collect(),
                figures: named(&format!("case-{}", case.name())),
            });
        }
    }
    let mut besides = |title: &str, about: &str, tables: Vec<(String, Tabled)>, figures: &str| {
        let figures = named(figures);
        if !tables.is_empty() || !figures.is_empty() {
            sections.push(Section { title: title.into(), about: about.into(), tables, figures });
        }
    };
    let only = |table: Tabled, is_any: bool| if is_any { vec![(String::new(), table)] } else { Vec::new() };
    besides("Options of the tree buddy", "", Vec::new(), "options");
    besides(
        "Steps",
        "Maximum accesses to shared words of an operation: read-modify-writes + loads + stores.",
        only(steps(found), !found.steps.is_empty()),
        "",
    );
    besides("A single thread", "Two allocators alternately: mean ticks of an operation.", local(found), "");
    besides(
        "Throughput",
        "Millions of operations in a second, of all threads together.",
        only(scaling(found), !found.scaling.is_empty()),
        "scaling",
    );
    besides(
        "Memory over remote frees",
        "One thread allocates, another frees.",
        only(drift(found), !found.drift.is_empty()),
        "memory",
    );
    besides("Goals for our allocators", "Not the paper's claims.", only(targets(found), !found.targets.is_empty()), "");
    Ok(Chapter {
        id: "wait-free",
        title: format!(
            "Wait-free DSA (2010): a wait-free dynamic storage allocator, in a heap of {}",
            number::bytes(found.setting.heap_bytes)
        ),
        claims: found.claims.clone(),
        sections,
        notes: notes(found),
        errata: errata::errata(found),
    })
}

/// The goals, and whether they were reached.
fn targets(found: &WaitFree) -> Tabled {
    let rows = found
        .targets
        .iter()
        .map(|target| vec![target.verdict.name().into(), target.claim.clone(), target.figures.clone()]);
    Tabled::new(&["verdict", "wanted", "figures"], 3, rows)
}

/// Two single-threaded allocators, compared.
fn local(found: &WaitFree) -> Vec<(String, Tabled)> {
    let Some(Ok(local)) = &found.local else { return Vec::new() };
    let rows = local.loads.iter().map(|load| {
        let [first, second] = load.ticks.map(|ticks| format!("{ticks:.1}"));
        let [low, median, high] = load.ratio.map(|ratio| format!("{ratio:.2}"));
        vec![load.what.clone(), first, second, median, format!("{low} to {high}"), number::grouped(load.rounds)]
    });
    let headings = ["load", &local.subject, &local.against, "ratio", "quartiles", "rounds"];
    vec![(String::new(), Tabled::new(&headings, 1, rows))]
}

/// Numbers of threads in decreasing order, first those with one processor per thread.
fn threads(found: &WaitFree) -> Vec<u32> {
    let mut threads: Vec<u32> = found.cells.iter().map(|cell| cell.threads).collect();
    threads.sort_by_key(|threads| (!found.setting.is_comparable(*threads), std::cmp::Reverse(*threads)));
    threads.dedup();
    threads
}

fn with_threads(found: &WaitFree, threads: u32) -> String {
    let mut text = number::counted(threads.into(), "thread");
    if !found.setting.is_comparable(threads) {
        let _ = write!(
            text,
            " on {} (oversubscribed: not comparable)",
            number::counted(found.setting.processors.into(), "processor")
        );
    }
    text
}

const COLUMNS: [&str; 11] = [
    "\nallocator",
    "\nmin",
    "\nmedian",
    "\np99.9",
    "\nmax",
    "\nmean",
    "95 %\n\u{b1}",
    "\ncv",
    "used\n%",
    "\nrefused",
    "of these\nspurious",
];

fn of_case(found: &WaitFree, case: Case, threads: u32) -> Tabled {
    let paper = || ALLOCATORS.iter().enumerate().map(|(at, both)| (both, WAIT_FREE.figure_10.column(at, case)));
    let cells = || found.cells.iter().filter(|cell| cell.threads == threads && cell.case == case);
    let ratios = paper().filter_map(|((name, subject), published)| {
        let cell = cells().find(|cell| cell.subject == *subject)?;
        let figures = cell.outcome.as_ref().ok().filter(|figures| figures.ticks.count > 0)?;
        Some(of_ratios(format!("{subject} / {name}"), &published, figures))
    });
    let with_spurious = case != Case::IV;
    let columns = if with_spurious { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    let published = paper().map(|((name, _), published)| of_paper(name, &published));
    let rows = published.chain(cells().map(of_cell)).chain(ratios).map(|mut row| {
        row.truncate(columns.len());
        row
    });
    Tabled::new(columns, 1, rows)
}

/// Ours / published, by column.
fn of_ratios(name: String, published: &Column, ours: &Figures) -> Vec<String> {
    let ticks = &ours.ticks;
    let ratio = |ours: f64, published: f64| format!("{:.2}", ours / published);
    let used = ours.utilisation.zip(published.utilisation);
    let none = String::new;
    vec![
        name,
        ratio(ticks.min as f64, published.min),
        ratio(ticks.p50 as f64, published.median),
        none(),
        ratio(ticks.max as f64, published.max),
        ratio(ticks.mean, published.mean),
        none(),
        ratio(ours.cv(), published.cv),
        used.map_or_else(none, |(ours, published)| ratio(ours.mean, published)),
        none(),
        none(),
    ]
}

fn of_paper(name: &str, published: &Column) -> Vec<String> {
    let cycles = number::compact;
    vec![
        format!("paper: {name}"),
        cycles(published.min),
        cycles(published.median),
        String::new(),
        cycles(published.max),
        cycles(published.mean),
        String::new(),
        format!("{:.2}", published.cv),
        published.utilisation.map_or_else(String::new, |share| format!("{:.2}", 100.0 * share)),
        String::new(),
        String::new(),
    ]
}

/// The allocator's name, marked if it is not installed.
fn row_name<T>(subject: &str, outcome: &Result<T, String>) -> String {
    if is_missing(outcome) { format!("{subject} ({NOT_INSTALLED})") } else { subject.into() }
}

fn of_cell(cell: &Cell) -> Vec<String> {
    let mut row = vec![row_name(&cell.subject, &cell.outcome)];
    match &cell.outcome {
        Ok(figures) if figures.ticks.count > 0 => {
            let ticks = &figures.ticks;
            #[allow(clippy::cast_precision_loss)] // shown to three digits
            let compact = |value: u64| number::compact(value as f64);
            if figures.unfinished {
                row[0].push('*');
            }
            row.extend([compact(ticks.min), compact(ticks.p50), compact(ticks.p999), compact(ticks.max)]);
            row.push(number::compact(ticks.mean));
            row.push(if figures.mean.half > 0.0 { number::compact(figures.mean.half) } else { String::new() });
            row.push(format!("{:.2}", figures.cv()));
            row.push(figures.utilisation.map_or_else(String::new, share));
            row.push(number::grouped(figures.refused.total()));
            row.push(figures.spurious.map_or_else(String::new, number::grouped));
        }
        _ => row.extend(vec!["-".to_string(); COLUMNS.len() - 1]),
    }
    row
}

fn share(interval: Interval) -> String {
    if interval.half < 0.000_05 {
        return format!("{:.2}", 100.0 * interval.mean);
    }
    format!("{:.2} \u{b1} {:.2}", 100.0 * interval.mean, 100.0 * interval.half)
}

fn steps(found: &WaitFree) -> Tabled {
    let sum = |steps: [u64; 3]| steps.map(number::grouped).join(" + ");
    let rows = found.steps.iter().flat_map(|stepped| {
        stepped.rows.iter().flatten().map(move |row| {
            vec![
                stepped.subject.clone(),
                row.what.words().into(),
                sum(row.observed),
                row.bound.map_or_else(|| "-".into(), sum),
            ]
        })
    });
    Tabled::new(&["allocator", "operation", "most observed", "bound"], 2, rows)
}

fn scaling(found: &WaitFree) -> Tabled {
    let mut columns: Vec<(Load, u32)> = Vec::new();
    for row in found.scaling.iter().flat_map(|scaling| scaling.outcome.iter().flatten()) {
        if !columns.contains(&(row.load, row.threads)) {
            columns.push((row.load, row.threads));
        }
    }
    let mut headings = vec!["\nallocator".to_string()];
    for (load, threads) in &columns {
        headings.push(format!("{}\n{threads}", load.words()));
        if *load == Load::Mix && *threads > 1 {
            headings.push("\nspeed-up".into());
        }
    }
    let rows = found.scaling.iter().map(|scaling| {
        let mut texts = vec![row_name(&scaling.subject, &scaling.outcome)];
        for (load, threads) in &columns {
            let rows = scaling.outcome.as_ref().ok();
            let row = rows.and_then(|rows| rows.iter().find(|row| (row.load, row.threads) == (*load, *threads)));
            texts.push(row.map_or_else(|| "-".into(), |row| format!("{:.2}", row.operations_per_second / 1e6)));
            if *load == Load::Mix && *threads > 1 {
                let speed_up = row.and_then(|row| row.speed_up);
                texts.push(speed_up.map_or_else(|| "-".into(), |[_, median, _]| format!("{median:.2}")));
            }
        }
        texts
    });
    Tabled::new(&headings, 1, rows)
}

fn drift(found: &WaitFree) -> Tabled {
    let rows = found.drift.iter().map(|drift| match &drift.outcome {
        Ok(memory) => {
            let at = |place: usize| memory.points.get(place).map_or_else(|| "-".into(), |point| number::bytes(point.1));
            let last = memory.points.len().saturating_sub(1);
            vec![
                drift.subject.clone(),
                memory.points.last().map_or_else(|| "-".into(), |point| number::grouped(point.0)),
                at(0),
                at(last / 2),
                at(last),
                format!("{:.3}", memory.growth()),
                number::grouped(memory.refused),
            ]
        }
        Err(_) => std::iter::once(row_name(&drift.subject, &drift.outcome)).chain(vec!["-".to_string(); 6]).collect(),
    });
    let headings =
        ["\nallocator", "remote\nfrees", "memory\nat start", "\nhalf-way", "\nat last", "\ngrowth", "\nrefused"];
    Tabled::new(&headings, 1, rows)
}

fn notes(found: &WaitFree) -> Vec<String> {
    let (setting, environment) = (&found.setting, &found.environment);
    let priority = match &setting.priority {
        Ok(priority) => format!("real-time priority {priority} (SCHED_FIFO), the highest"),
        Err(why) => format!("ordinary priority: the system refuses a real-time one ({why})"),
    };
    let (few, many) = setting.repetitions;
    let mut notes = vec![
        format!(
            "ours: ticks of the time-stamp counter ({:.2} GHz, {}), the timer's {} ticks subtracted; threads pinned to \
             {} alternately, at {priority}. Cases I and II: {}, III and IV: {}, with fresh heaps and threads; II: {} \
             pairs in each thread. Maxima include interruptions by the machine.",
            environment.tsc_hz as f64 / 1e9,
            environment.cpu,
            environment.timer_overhead_ticks,
            number::counted(setting.processors.into(), "processor"),
            number::counted(few, "repetition"),
            number::counted(many, "repetition"),
            number::grouped(setting.pairs),
        ),
        "paper: cycles of 16 cores (Xeon E7340, 2.4 GHz) with 16 threads; its TLSF has a global lock, atops is \
         AO_malloc, here asked for 65,529 bytes instead of 32,761 to 65,528, for which it never returns. ±: half of the 95 % interval of the repetitions' means. used: requested bytes / bytes of the heap \
         when every thread was refused; no figure where memory comes from the system, which is asked for the same \
         number of bytes. *: the time limit was reached before the case ended; no claim is judged by such a figure."
            .into(),
        "refused: requests, not timed. spurious: in I and III, refused but served when repeated after all threads had \
         stopped (nothing is freed there); in II every refusal; in IV unknown."
            .into(),
    ];
    if !setting.unlike.is_empty() {
        notes.push(format!(
            "Results come from different environments: {}. Comparable results are judged by those with the fewest \
             processors.",
            setting.unlike.join("; ")
        ));
    }
    if !found.scaling.is_empty() {
        notes.push(
            "throughput: own blocks: every thread performs the TLSF paper's third profile on its own blocks; all frees \
             remote: half of the threads allocate the same sizes, the others free them. speed-up: relative to one \
             thread, median over the rounds. growth: maximum memory in the last half of the frees / maximum in the \
             first tenth."
                .into(),
        );
    }
    for facts in &found.subjects {
        let mut failures: Vec<&String> = found
            .cells
            .iter()
            .filter(|cell| cell.subject == facts.name)
            .filter_map(|cell| cell.outcome.as_ref().err())
            .chain(found.steps.iter().filter(|one| one.subject == facts.name).filter_map(|one| one.rows.as_ref().err()))
            .chain(
                found
                    .scaling
                    .iter()
                    .filter(|one| one.subject == facts.name)
                    .filter_map(|one| one.outcome.as_ref().err()),
            )
            .chain(
                found.drift.iter().filter(|one| one.subject == facts.name).filter_map(|one| one.outcome.as_ref().err()),
            )
            .collect();
        failures.dedup();
        failures.sort_unstable();
        failures.dedup();
        notes.extend(failures.into_iter().map(|what| format!("{}: {what}.", facts.name)));
    }
    if let Some(Err(what)) = &found.local {
        notes.push(format!("a single thread: {what}."));
    }
    notes
}

/// One line per cell of cases I to IV.
#[must_use]
pub fn csv(found: &WaitFree) -> String {
    let mut text = String::from(
        "subject,case,threads,comparable,operations,min,p50,p99,p999,max,mean,std,cv,mean_half,used,used_half,refused_request,\
         refused_exhausted,refused_contended,refused_pending,spurious,unfinished,error\n",
    );
    for cell in &found.cells {
        let _ = write!(
            text,
            "{},{},{},{},",
            cell.subject,
            cell.case.name(),
            cell.threads,
            found.setting.is_comparable(cell.threads)
        );
        match &cell.outcome {
            Ok(figures) => text.push_str(&fields(figures)),
            Err(what) => {
                let what = what.replace('"', "\"\"").replace('\n', " ");
                let _ = write!(text, "{}\"{what}\"", ",".repeat(18));
            }
        }
        text.push('\n');
    }
    text
}

fn fields(figures: &Figures) -> String {
    let (ticks, refused) = (&figures.ticks, &figures.refused);
    let used = figures.utilisation.map_or_else(|| ",".into(), |used| format!("{:.6},{:.6}", used.mean, used.half));
    let spurious = figures.spurious.map_or_else(String::new, |spurious| spurious.to_string());
    format!(
        "{},{},{},{},{},{},{:.3},{:.3},{:.4},{:.3},{used},{},{},{},{},{spurious},{},",
        ticks.count,
        ticks.min,
        ticks.p50,
        ticks.p99,
        ticks.p999,
        ticks.max,
        ticks.mean,
        ticks.std,
        figures.cv(),
        figures.mean.half,
        refused.request,
        refused.exhausted,
        refused.contended,
        refused.pending,
        figures.unfinished
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtalloc_lab::result::schema::Distribution;
    use rtalloc_subjects::shared::Refused;

    fn figures() -> Figures {
        let ticks =
            Distribution { count: 10, histogram: vec![(5, 8), (7, 1), (100, 1)], max: 100, ..Distribution::default() };
        Figures {
            ticks,
            mean: Interval::default(),
            utilisation: None,
            refused: Refused::default(),
            spurious: None,
            unfinished: false,
        }
    }

    #[test]
    fn every_line_of_csv_has_as_many_fields() {
        let head = 23;
        assert_eq!(format!("a,I,2,true,{}", fields(&figures())).split(',').count(), head);
        assert_eq!(format!("a,I,2,true,{}\"what\"", ",".repeat(18)).split(',').count(), head);
    }
}

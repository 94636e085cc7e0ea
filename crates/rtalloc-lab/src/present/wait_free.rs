//! The wait-free paper's test cases for the terminal, as CSV, as SVG, and as a page.

use super::claims::{claims, listed, verdict};
use super::number;
use super::page::{Tabled, environment, figure, page};
use super::palette::{self, Style};
use super::plot::curves::{Panel, Spacing, curves};
use super::plot::{Cast, PlotError, standalone};
use super::sharers::{RARITY, Sharer, rarity};
use super::standing::Standing;
use super::table::Look;
use crate::experiment::wait_free::PUBLISHED;
use crate::result::wait_free::{Case, Cell, Claim, Facts, Figures, Interval, Load, Published, WaitFree};
use maud::html;
use std::fmt::Write as _;

/// Everything for the terminal.
#[must_use]
pub fn tables(found: &WaitFree, look: Look) -> String {
    let setting = &found.setting;
    let mut text = format!(
        "Wait-free DSA 2010, test cases I to IV: ticks of operations in a heap of {}\n",
        number::bytes(setting.heap_bytes)
    );
    for threads in threads(found) {
        for case in Case::ALL {
            if found.cells.iter().any(|cell| cell.threads == threads && cell.case == case) {
                let _ = writeln!(text, "\nCase {}, {}: {}", case.name(), with_threads(found, threads), case.what());
                text.push_str(&of_case(found, case, threads).text(look));
            }
        }
    }
    for (title, table) in besides(found) {
        let _ = writeln!(text, "\n{title}");
        text.push_str(&table.text(look));
    }
    if !found.claims.is_empty() {
        text.push_str(&listed("What we want of ours", &found.targets, look));
        text.push_str(&claims(&found.claims, &notes(found), look));
    }
    text
}

/// What is told besides the cases: title and table.
fn besides(found: &WaitFree) -> Vec<(String, Tabled)> {
    let mut tables = Vec::new();
    if !found.steps.is_empty() {
        let title = "Steps: most accesses to shared words of an operation, read-modify-writes + loads + stores";
        tables.push((title.into(), steps(found)));
    }
    if let Some(Ok(local)) = &found.local {
        let rows = local.loads.iter().map(|load| {
            let [first, second] = load.ticks.map(|ticks| format!("{ticks:.1}"));
            let [low, median, high] = load.ratio.map(|ratio| format!("{ratio:.2}"));
            vec![load.what.clone(), first, second, median, format!("{low} to {high}"), number::grouped(load.rounds)]
        });
        let headings = ["load", &local.subject, &local.against, "ratio", "quartiles", "rounds"];
        let title =
            format!("One thread alone: {} and {} in turns, mean ticks of an operation", local.subject, local.against);
        tables.push((title, Tabled::new(&headings, 1, rows)));
    }
    if !found.scaling.is_empty() {
        let title = "Throughput: millions of operations in a second, of all threads together";
        tables.push((title.into(), scaling(found)));
    }
    if !found.drift.is_empty() {
        tables.push(("Memory over remote frees: one thread allocates, another frees".into(), drift(found)));
    }
    tables
}

/// Numbers of threads, those with a processor each first, the most first.
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
    let published = PUBLISHED.iter().map(|(name, _, cases)| {
        let column = cases[Case::ALL.iter().position(|one| *one == case).unwrap_or(0)];
        of_paper(name, &column)
    });
    let cells = found.cells.iter().filter(|cell| cell.threads == threads && cell.case == case);
    let with_spurious = case != Case::IV;
    let columns = if with_spurious { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    let rows = published.chain(cells.map(of_cell)).map(|mut row| {
        row.truncate(columns.len());
        row
    });
    Tabled::new(columns, 1, rows)
}

fn of_paper(name: &str, published: &Published) -> Vec<String> {
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

fn of_cell(cell: &Cell) -> Vec<String> {
    let mut row = vec![cell.subject.clone()];
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
        let mut texts = vec![scaling.subject.clone()];
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
        Err(_) => std::iter::once(drift.subject.clone()).chain(vec!["-".to_string(); 6]).collect(),
    });
    let headings =
        ["\nallocator", "remote\nfrees", "memory\nat first", "\nhalf-way", "\nat last", "\ngrowth", "\nrefused"];
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
            "ours: ticks of the time-stamp counter ({:.2} GHz, {}), the timer's {} ticks subtracted; threads pinned to {} in turns, at \
             {priority}. Cases I and II: {}, III and IV: {}, with fresh heaps and threads; II: {} pairs \
             in each thread. The machine's interruptions are in the maxima.",
            environment.tsc_hz as f64 / 1e9,
            environment.cpu,
            environment.timer_overhead_ticks,
            number::counted(setting.processors.into(), "processor"),
            number::counted(few, "repetition"),
            number::counted(many, "repetition"),
            number::grouped(setting.pairs),
        ),
        "paper: cycles of 16 cores (Xeon E7340, 2.4 GHz) with 16 threads; its TLSF has a global lock, atops is AO_malloc. ±: half of the 95 % \
         interval of the repetitions' means. used: requested bytes / bytes of the heap when every thread was refused; without a figure where \
         memory comes from the system, which gets requests of as many bytes and no more. *: the time was over before the case was."
            .into(),
        "refused: requests, not timed. spurious: in I and III refused, and served when repeated after all threads had stopped (nothing is \
         freed there); in II every refusal; in IV nobody can tell."
            .into(),
    ];
    if !found.scaling.is_empty() {
        notes.push(
            "throughput: own blocks: every thread performs the TLSF paper's third profile on blocks of its own; all frees remote: half of the \
             threads allocate the same sizes, the others free. speed-up: by one thread, round by round, the median. growth: the most memory \
             in the last half of the frees by the most in the first tenth."
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
        notes.push(format!("one thread alone: {what}."));
    }
    notes
}

/// One line for each cell of cases I to IV.
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

/// A figure, and what is to be said below it.
struct Drawn {
    /// Name of its file.
    file: &'static str,
    svg: String,
    caption: &'static str,
}

/// Everybody, and how they look in every figure. An option is called by what it has beyond the allocator it is one of.
fn everybody(found: &WaitFree) -> (Vec<Standing>, Vec<Style>) {
    let standings: Vec<Standing> = found
        .subjects
        .iter()
        .map(|facts| {
            let option_of = facts.option_of.as_deref();
            let short = option_of.and_then(|of| facts.name.strip_prefix(of)).map(|rest| rest.trim_start_matches('-'));
            let mut standing = Sharer {
                name: &facts.name,
                origin: facts.origin,
                lock: facts.lock.as_deref(),
                option_of,
                own_pages: facts.own_pages,
            }
            .standing();
            standing.subject.name = short.unwrap_or(&facts.name).into();
            standing
        })
        .collect();
    let styles = palette::of(&standings);
    (standings, styles)
}

/// A figure for each case, one for the options, for throughput, and for memory.
fn drawn(found: &WaitFree, cast: Cast<'_>) -> Result<Vec<Drawn>, PlotError> {
    const RARE: &str = "Each point: of so many operations one takes as long, or longer. At the left the usual, at the right the \
                        longest that was seen, which on a shared machine is the machine's as well; a bounded allocator's curve \
                        stays level. Both axes are logarithmic.";
    let mut drawn = Vec::new();
    let mut add = |file, panels: &[Panel], description: &str, caption| -> Result<(), PlotError> {
        let svg = curves(panels, cast, description)?;
        drawn.extend(svg.map(|svg| Drawn { file, svg, caption }));
        Ok(())
    };
    let usual: Vec<(usize, &Facts)> =
        found.subjects.iter().enumerate().filter(|(_, facts)| facts.option_of.is_none()).collect();
    for (case, file) in Case::ALL.into_iter().zip(["case-I.svg", "case-II.svg", "case-III.svg", "case-IV.svg"]) {
        let panels: Vec<Panel> =
            threads(found).into_iter().map(|threads| of_quantiles(found, &usual, case, threads)).collect();
        let description = format!("Wait-free DSA 2010, case {}: how long operations take", case.name());
        add(file, &panels, &description, RARE)?;
    }
    let has_options = |facts: &Facts| found.subjects.iter().any(|one| one.option_of.as_ref() == Some(&facts.name));
    let options: Vec<(usize, &Facts)> = found
        .subjects
        .iter()
        .enumerate()
        .filter(|(_, facts)| facts.option_of.is_some() || has_options(facts))
        .collect();
    if options.len() > 1 {
        let most = threads(found).first().copied().unwrap_or(1);
        let panels: Vec<Panel> = Case::ALL.into_iter().map(|case| of_quantiles(found, &options, case, most)).collect();
        add("options.svg", &panels, "Options of the tree buddy: how long operations take", RARE)?;
    }
    let panels = [Load::Mix, Load::Remote].map(|load| of_throughput(found, &usual, load));
    add(
        "scaling.svg",
        &panels,
        "Throughput over the number of threads",
        "Median over the rounds. As long as every thread has a processor, who keeps threads out of each other's way climbs; where \
         threads outnumber the processors they take turns, and nobody can.",
    )?;
    #[allow(clippy::cast_precision_loss)] // drawn
    let memory = |facts: &Facts| {
        let drift = found.drift.iter().find(|drift| drift.subject == facts.name);
        let points = drift.and_then(|drift| drift.outcome.as_ref().ok()).map(|memory| memory.points.iter());
        points.into_iter().flatten().map(|(frees, bytes)| (*frees as f64, *bytes as f64)).collect()
    };
    let panel = Panel {
        title: "Memory while one thread allocates and another frees".into(),
        x: ("remote frees".into(), Spacing::Even),
        y: (
            "bytes: end of the highest block, or resident pages where they come from the system".into(),
            Spacing::Logarithmic,
        ),
        curves: drawn_of(&usual, memory),
        marked: true,
    };
    add(
        "memory.svg",
        &[panel],
        "Memory over remote frees",
        "The most since the point before. A level curve is memory that does not drift; one that goes on climbing ends where memory does.",
    )?;
    Ok(drawn)
}

/// The curves that have a point.
fn drawn_of(subjects: &[(usize, &Facts)], points: impl Fn(&Facts) -> Vec<(f64, f64)>) -> Vec<(usize, Vec<(f64, f64)>)> {
    subjects.iter().map(|(index, facts)| (*index, points(facts))).filter(|(_, points)| !points.is_empty()).collect()
}

/// The figures as files: name and content.
///
/// # Errors
///
/// See [`PlotError`].
pub fn figures(found: &WaitFree) -> Result<Vec<(String, String)>, PlotError> {
    let (standings, styles) = everybody(found);
    let drawn = drawn(found, Cast { standings: &standings, styles: &styles })?;
    Ok(drawn.iter().map(|drawn| (drawn.file.into(), standalone(&drawn.svg, &styles))).collect())
}

/// Everything as one HTML document: what was claimed and wanted, with verdicts; the cases, and what was measured beside them.
///
/// # Errors
///
/// See [`PlotError`].
pub fn html(found: &WaitFree) -> Result<String, PlotError> {
    let (standings, styles) = everybody(found);
    let drawn = drawn(found, Cast { standings: &standings, styles: &styles })?;
    let names: Vec<String> = found.subjects.iter().map(|facts| facts.name.clone()).collect();
    let picture = |file: &str| {
        let drawn = drawn.iter().find(|drawn| drawn.file == file);
        figure(drawn.map(|drawn| drawn.svg.as_str()), &html! { @if let Some(drawn) = drawn { (drawn.caption) } })
    };
    let verdicts = |title: &str, claims: &[Claim]| {
        html! {
            @if !claims.is_empty() {
                h3 { (title) }
                ul {
                    @for claim in claims {
                        li { b { (verdict(claim)) } ": " (claim.claim) " (" (claim.figures) ")." }
                    }
                }
            }
        }
    };
    let cases: Vec<Case> =
        Case::ALL.into_iter().filter(|case| found.cells.iter().any(|cell| cell.case == *case)).collect();
    let body = html! {
        section id="verdicts" {
            h2 { "Figure 10 of Wait-free DSA (2010), with a heap of " (number::bytes(found.setting.heap_bytes)) }
            (verdicts("What the paper says of its figures", &found.claims))
            (verdicts("What we want of ours", &found.targets))
        }
        @for case in &cases {
            section id={ "case-" (case.name()) } {
                h2 { "Case " (case.name()) ": " (case.what()) }
                p.about { "Ticks; the paper's figures are cycles." }
                (picture(&format!("case-{}.svg", case.name())))
                @for threads in threads(found) {
                    @let table = of_case(found, *case, threads);
                    h3 { (with_threads(found, threads)) }
                    (table.html(&names))
                }
            }
        }
        @if drawn.iter().any(|drawn| drawn.file == "options.svg") {
            section id="options" {
                h2 { "Options of the tree buddy" }
                (picture("options.svg"))
            }
        }
        section id="besides" {
            h2 { "Steps, throughput, memory" }
            (picture("scaling.svg"))
            (picture("memory.svg"))
            @for (title, table) in besides(found) {
                h3 { (title) }
                (table.html(&names))
            }
        }
        section id="notes" {
            h2 { "Notes" }
            ul.notes { @for note in notes(found) { li { (note) } } }
        }
        (environment(&found.environment))
    };
    let mut links = vec![("verdicts".to_string(), "verdicts".to_string())];
    links.extend(cases.iter().map(|case| (format!("case-{}", case.name()), format!("case {}", case.name()))));
    links.extend(["besides", "notes", "environment"].map(|id| (id.to_string(), id.to_string())));
    let heading = "rtalloc reproduce wait-free: how long operations take when threads share a heap";
    Ok(page("rtalloc: wait-free DSA, figure 10", heading, &styles, &links, &body))
}

/// Operations in a second, by threads.
fn of_throughput(found: &WaitFree, subjects: &[(usize, &Facts)], load: Load) -> Panel {
    let points = |facts: &Facts| {
        let scaling = found.scaling.iter().find(|scaling| scaling.subject == facts.name);
        let rows = scaling.and_then(|scaling| scaling.outcome.as_ref().ok()).into_iter().flatten();
        let mut points: Vec<(f64, f64)> = rows
            .filter(|row| row.load == load)
            .map(|row| (f64::from(row.threads), row.operations_per_second))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    let what = match load {
        Load::Mix => "every thread on blocks of its own",
        Load::Remote => "half of the threads allocate, the others free",
    };
    let processors = number::counted(found.setting.processors.into(), "processor");
    Panel {
        title: format!("Throughput on {processors}: {what}"),
        x: ("threads".into(), Spacing::Logarithmic),
        y: ("operations in a second, of all threads together".into(), Spacing::Logarithmic),
        curves: drawn_of(subjects, points),
        marked: true,
    }
}

/// How long operations take, from the usual to the rarest.
fn of_quantiles(found: &WaitFree, subjects: &[(usize, &Facts)], case: Case, threads: u32) -> Panel {
    let cell = |facts: &Facts| {
        found.cells.iter().find(|cell| cell.subject == facts.name && cell.case == case && cell.threads == threads)
    };
    let points = |facts: &Facts| {
        let figures = cell(facts).and_then(|cell| cell.outcome.as_ref().ok());
        figures.map_or_else(Vec::new, |figures| rarity(&figures.ticks))
    };
    Panel {
        title: format!("Case {}, {}: {}", case.name(), with_threads(found, threads), case.what()),
        x: (RARITY.into(), Spacing::Logarithmic),
        y: ("ticks; at the right the longest".into(), Spacing::Logarithmic),
        curves: drawn_of(subjects, points),
        marked: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::schema::Distribution;
    use crate::subject::shared::Refused;

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

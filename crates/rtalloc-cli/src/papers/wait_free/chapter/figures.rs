//! The figures of the wait-free paper's test cases, and of the additional measurements.

use super::{threads, with_threads};
use crate::papers::chapter::Figure;
use crate::papers::published::WAIT_FREE;
use crate::papers::wait_free::published::ALLOCATORS;
use crate::papers::wait_free::result::{Case, Facts, Load, WaitFree};
use crate::present::palette::{self, Style};
use crate::present::plot::curves::{Panel, Spacing, Stroke, curves};
use crate::present::plot::{PlotError, Selection};
use crate::present::shared_heaps::{RARITY, Sharer, rarity};
use crate::present::summary::Standing;
use rtalloc_lab::number;

/// All allocators and their styles in every figure. A variant is labelled by its difference from its base allocator.
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

/// One figure per case, one for the variants, one for throughput, and one for memory.
pub(super) fn drawn(found: &WaitFree) -> Result<Vec<Figure>, PlotError> {
    let (standings, styles) = everybody(found);
    let selection = Selection { standings: &standings, styles: &styles };
    const RARE: &str = "Each point: one in this many operations takes at least this long. Typical durations are at the \
                        left, the longest observed at the right, which on a shared machine includes disturbances by \
                        other programs. The curve of a bounded allocator is flat. Both axes are logarithmic. Hollow: \
                        the published median and maximum, of 16 threads on 16 cores.";
    let mut drawn = Vec::new();
    let mut add = |name: &str, panels: &[Panel], description: &str, sentences: &str| -> Result<(), PlotError> {
        let svg = curves(panels, selection, description)?;
        let caption = (format!("{description}."), sentences.to_string());
        drawn.extend(svg.map(|svg| Figure { name: name.into(), caption, svg, standings: standings.clone() }));
        Ok(())
    };
    let usual: Vec<(usize, &Facts)> =
        found.subjects.iter().enumerate().filter(|(_, facts)| facts.option_of.is_none()).collect();
    for (case, file) in Case::ALL.into_iter().zip(["case-I", "case-II", "case-III", "case-IV"]) {
        let panels: Vec<Panel> =
            threads(found).into_iter().map(|threads| of_quantiles(found, &usual, case, threads)).collect();
        let description = format!("Wait-free DSA 2010, case {}: duration of operations", case.name());
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
        add("options", &panels, "Options of the tree buddy: duration of operations", RARE)?;
    }
    let panels = [Load::Mix, Load::Remote].map(|load| of_throughput(found, &usual, load));
    add(
        "scaling",
        &panels,
        "Throughput by number of threads",
        "Median over the rounds. While every thread has a processor, the throughput of an allocator without contention \
         rises with the threads; with more threads than processors, threads share processors and throughput cannot \
         rise.",
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
        stroke: Stroke::Marked,
        published: Vec::new(),
        marks: Vec::new(),
    };
    add(
        "memory",
        &[panel],
        "Memory over remote frees",
        "Maximum since the previous point. A flat curve means stable memory use; a rising curve eventually exhausts \
         memory.",
    )?;
    Ok(drawn)
}

/// The curves with at least one point.
fn drawn_of(subjects: &[(usize, &Facts)], points: impl Fn(&Facts) -> Vec<(f64, f64)>) -> Vec<(usize, Vec<(f64, f64)>)> {
    subjects.iter().map(|(index, facts)| (*index, points(facts))).filter(|(_, points)| !points.is_empty()).collect()
}

/// Operations per second over the number of threads.
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
        Load::Mix => "every thread on its own blocks",
        Load::Remote => "half of the threads allocate, the others free",
    };
    let processors = number::counted(found.setting.processors.into(), "processor");
    Panel {
        title: format!("Throughput on {processors}: {what}"),
        x: ("threads".into(), Spacing::Logarithmic),
        y: ("operations in a second, of all threads together".into(), Spacing::Logarithmic),
        curves: drawn_of(subjects, points),
        stroke: Stroke::Marked,
        published: Vec::new(),
        marks: Vec::new(),
    }
}

/// The durations of operations, from typical to rare.
fn of_quantiles(found: &WaitFree, subjects: &[(usize, &Facts)], case: Case, threads: u32) -> Panel {
    let cell = |facts: &Facts| {
        found.cells.iter().find(|cell| cell.subject == facts.name && cell.case == case && cell.threads == threads)
    };
    let points = |facts: &Facts| {
        let figures = cell(facts).and_then(|cell| cell.outcome.as_ref().ok());
        figures.map_or_else(Vec::new, |figures| rarity(&figures.ticks))
    };
    // The published median and maximum, the latter at our rarest operation: the paper omits its number of samples.
    let published = (0..).zip(ALLOCATORS).filter_map(|(at, (_, name))| {
        let (index, facts) = subjects.iter().find(|(_, facts)| facts.name == name)?;
        let rarest = points(facts).last()?.0;
        let column = WAIT_FREE.figure_10.column(at, case);
        Some((*index, vec![(2.0, column.median), (rarest, column.max)]))
    });
    Panel {
        title: format!("Case {}, {}", case.name(), with_threads(found, threads)),
        x: (RARITY.into(), Spacing::Logarithmic),
        y: ("ticks; longest at the right".into(), Spacing::Logarithmic),
        published: published.collect(),
        marks: Vec::new(),
        curves: drawn_of(subjects, points),
        stroke: Stroke::Marked,
    }
}

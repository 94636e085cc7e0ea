//! The results of the Bitframe thesis' experiments: tables 3 to 8, figures 14 to 33, what the thesis left out, and the
//! variants it proposes.

mod figures;
mod notes;

use crate::papers::chapter::{Chapter, Section};
use crate::papers::published::THESIS;
use crate::papers::thesis::published::{ALLOCATORS, Space};
use crate::papers::thesis::result::{
    Costs, Granted, LARGEST_BYTES, Measured, OnTrace, Opening, Openings, Part, Row, Summary, Thesis,
};
use crate::present::page::Tabled;
use crate::present::plot::PlotError;
use rtalloc_lab::number;
use rtalloc_lab::result::schema::Distribution;

/// The whole chapter, in the thesis' order.
///
/// # Errors
///
/// See [`PlotError`].
pub fn chapter(found: &Thesis) -> Result<Chapter, PlotError> {
    let mut sections = vec![traces(found)?];
    for part in Part::ALL {
        sections.push(time(found, part)?);
    }
    for part in Part::ALL {
        sections.push(memory(found, part)?);
    }
    sections.push(sizes(found));
    sections.push(pages(found));
    sections.push(proposals(found));
    Ok(Chapter {
        id: "thesis",
        title: format!("{}: time and memory of allocators of small blocks", THESIS.paper),
        claims: found.claims.clone(),
        sections,
        notes: notes::notes(found),
        errata: notes::errata(),
    })
}

/// The thesis' allocators among the rows of a trace, by their names in the thesis.
fn rows(trace: &OnTrace) -> impl Iterator<Item = &Row> {
    trace.rows.iter().filter(|row| ALLOCATORS.iter().any(|(name, _)| *name == row.name))
}

fn of_part(found: &Thesis, part: Part) -> impl Iterator<Item = &OnTrace> {
    found.traces.iter().filter(move |trace| trace.load.part == part)
}

fn dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".into(), text)
}

/// The traces: section 6.1, figures 14 to 19.
fn traces(found: &Thesis) -> Result<Section, PlotError> {
    let headings = [
        "\n\ntrace",
        "\n\noperations",
        "\n\nmallocs",
        "blocks\nlive at\nonce",
        "\nM\nB",
        "M\npaper\nB",
        "up to\n64 B\n%",
        "\nequal prefix\noperations",
        "\nserved\nwhole by",
    ];
    let row = |trace: &OnTrace| {
        let facts = &trace.facts;
        let small: u64 = facts.classes.iter().take(8).sum();
        let published = match trace.load.part {
            Part::Boot => Some(THESIS.table_5.live_bytes),
            Part::Stable => Some(THESIS.table_6.live_bytes),
            Part::Uniform | Part::Small => None,
        };
        let seeds = if trace.load.part.is_recorded() { 1 } else { found.settings.seeds };
        let whole = rows(trace).filter(|row| row.ours.as_ref().is_ok_and(|ours| ours.completed == seeds)).count();
        vec![
            trace.load.name(),
            number::grouped(facts.operations),
            number::grouped(facts.mallocs),
            number::grouped(facts.peak_live_blocks),
            number::grouped(facts.peak_live_bytes),
            dash(published, number::grouped),
            format!("{:.1}", 100.0 * float(small) / float(facts.mallocs.max(1))),
            number::grouped(trace.prefix_operations),
            format!("{whole} of {}", ALLOCATORS.len()),
        ]
    };
    Ok(Section {
        title: "Section 6.1: the traces, figures 14 to 19".into(),
        about: format!(
            "Requests of up to {LARGEST_BYTES} B, aligned to 8, in a heap of {}. boot and stable are substitutes: the \
             thesis' recordings are not available.",
            number::bytes(found.settings.heap_bytes)
        ),
        tables: vec![(String::new(), Tabled::new(&headings, 1, found.traces.iter().map(row)))],
        figures: vec![figures::classes(found)?, figures::live(found)?],
    })
}

/// Tables 3 and 4, figures 20 to 23, and the same for the traces without published times.
fn time(found: &Thesis, part: Part) -> Result<Section, PlotError> {
    let replicas = match found.settings.replicas {
        0 => "not timed".to_string(),
        replicas => format!("ticks: the minimum of {} of each operation", number::counted(replicas.into(), "replica")),
    };
    let (title, about) = match part {
        Part::Boot => {
            ("Table 3: time on boot, figures 20 and 21", "cycles: on an Atom N270, the minimum of 1000 replicas")
        }
        Part::Stable => ("Table 4: time on stable, figures 22 and 23", "cycles: as in table 3"),
        Part::Uniform => ("Beyond the thesis: time on uniform", "The thesis omits it because of cache effects"),
        Part::Small => ("Beyond the thesis: time on small", "Omitted as that of uniform"),
    };
    let mut tables = Vec::new();
    let mut figures = Vec::new();
    for trace in of_part(found, part) {
        for (operation, of) in Costs::SIDES {
            let line = format!("{}, {operation}", trace.load.name());
            tables.push((line, if part.is_recorded() { of_time(trace, operation, of) } else { of_more(trace, of) }));
        }
        figures.extend(figures::times(trace)?);
    }
    Ok(Section { title: title.into(), about: format!("{about}; {replicas}; instructions are exact."), tables, figures })
}

/// Maximum, mean and deviation.
fn three(one: &Distribution) -> [String; 3] {
    [number::compact(float(one.max)), number::mean(one.mean), number::mean(one.std)]
}

fn of_time(trace: &OnTrace, operation: &str, of: fn(&Costs) -> &Distribution) -> Tabled {
    let headings = [
        "\n\nallocator",
        "paper\ncycles\nmost",
        "\n\nmean",
        "\n\nstd",
        "ours\nticks\nmost",
        "\n\nmean",
        "\n\nstd",
        "ours\ninstr.\nmost",
        "\n\nmean",
        "\n\nstd",
        "mean / that\nof tlsf\ncycles",
        "\n\nticks",
        "\n\ninstr.",
    ];
    let part = trace.load.part;
    let tlsf = trace.rows.iter().find(|row| row.name == "tlsf");
    let base = [
        THESIS.cycles(part, "tlsf", operation).map(|[_, mean, _]| float(mean)),
        tlsf.and_then(ticks).map(|costs| of(costs).mean),
        tlsf.and_then(counted).map(|costs| of(costs).mean),
    ];
    let row = |row: &Row| {
        let published = THESIS.cycles(part, &row.name, operation);
        let (ticks, counts) = (ticks(row).map(of), counted(row).map(of));
        let means = [published.map(|[_, mean, _]| float(mean)), ticks.map(|one| one.mean), counts.map(|one| one.mean)];
        let mut texts = vec![row.name.clone()];
        texts.extend(published.map_or([(); 3].map(|()| "-".into()), |three| three.map(number::grouped)));
        texts.extend(ticks.map_or([(); 3].map(|()| "-".into()), three));
        texts.extend(counts.map_or([(); 3].map(|()| "-".into()), three));
        texts.extend(
            means
                .into_iter()
                .zip(base)
                .map(|(mean, base)| dash(mean.zip(base), |(mean, base)| format!("{:.2}", mean / base))),
        );
        texts
    };
    Tabled::new(&headings, 1, rows(trace).map(row))
}

#[allow(clippy::cast_precision_loss)] // shown with few digits
fn float(value: u64) -> f64 {
    value as f64
}

fn ticks(row: &Row) -> Option<&Costs> {
    row.ticks.as_ref()?.as_ref().ok()
}

fn measured(row: &Row) -> Option<&Measured> {
    row.ours.as_ref().ok()
}

fn counted(row: &Row) -> Option<&Costs> {
    measured(row).map(|ours| &ours.instructions)
}

fn of_more(trace: &OnTrace, of: fn(&Costs) -> &Distribution) -> Tabled {
    let headings = [
        "\n\nallocator",
        "ticks\n\nmost",
        "\n\np99.9",
        "\n\nmean",
        "\n\nstd",
        "instr.\n\nmost",
        "\n\nmean",
        "\n\nstd",
        "equal\nprefix\nmost",
        "\n\nmean",
        "mean / that\nof tlsf\nticks",
        "\n\ninstr.",
    ];
    let tlsf = trace.rows.iter().find(|row| row.name == "tlsf");
    let base = [tlsf.and_then(ticks).map(|costs| of(costs).mean), tlsf.and_then(counted).map(|costs| of(costs).mean)];
    let row = |row: &Row| {
        let (ticks, counts) = (ticks(row).map(of), counted(row).map(of));
        let prefix = measured(row).map(|ours| of(&ours.prefix_instructions));
        let mut texts = vec![row.name.clone()];
        texts.extend(ticks.map_or([(); 4].map(|()| "-".into()), |one| {
            let [most, mean, deviation] = three(one);
            [most, number::compact(float(one.p999)), mean, deviation]
        }));
        texts.extend(counts.map_or([(); 3].map(|()| "-".into()), three));
        texts.extend(prefix.map_or([(); 2].map(|()| "-".into()), |one| {
            let [most, mean, _] = three(one);
            [most, mean]
        }));
        let means = [ticks.map(|one| one.mean), counts.map(|one| one.mean)];
        texts.extend(
            means
                .into_iter()
                .zip(base)
                .map(|(mean, base)| dash(mean.zip(base), |(mean, base)| format!("{:.2}", mean / base))),
        );
        texts
    };
    Tabled::new(&headings, 1, rows(trace).map(row))
}

/// Tables 5 to 8, figures 24 to 33.
fn memory(found: &Thesis, part: Part) -> Result<Section, PlotError> {
    let figures = match part {
        Part::Boot => ", figures 24, 26 and 28 to 30",
        Part::Stable => ", figures 25, 27 and 31 to 33",
        Part::Uniform | Part::Small => "",
    };
    let about = match part {
        Part::Boot => {
            "H: memory used, control structure included. M: largest live memory. F = (H - M) / M. I = L / (H - M)."
        }
        Part::Stable => "As table 5.",
        Part::Uniform | Part::Small => {
            "Each up to its first failed request, as in the thesis; equal prefix: all up to the first failure of any \
             allocator."
        }
    };
    let mut tables = Vec::new();
    let mut drawn = Vec::new();
    for trace in of_part(found, part) {
        tables.push((trace.load.name(), of_memory(trace)));
        drawn.extend(figures::memory(trace)?);
    }
    let title = format!("Table {}: memory on {}{figures}", part.table(), part.name());
    Ok(Section { title, about: about.into(), tables, figures: drawn })
}

fn of_memory(trace: &OnTrace) -> Tabled {
    let headings = [
        "\n\nallocator",
        "M\npaper\nKiB",
        "\nours\nKiB",
        "H\npaper\nKiB",
        "\nours\nKiB",
        "F\npaper\n%",
        "\nours\n%",
        "\n\nratio",
        "I\npaper\n%",
        "\nours\n%",
        "\n\nratio",
        "\nserved\n%",
        "equal\nprefix\nF %",
        "\n\nI %",
    ];
    let kib = |bytes: f64| format!("{:.1}", bytes / 1024.0);
    let percent = |fraction: f64| format!("{:.1}", fraction * 100.0);
    let row = |row: &Row| {
        let published: Option<Space> = THESIS.space(trace.load.part.table(), &row.name);
        let ours = measured(row);
        let cut: Option<&Summary> = ours.map(|ours| &ours.cut);
        let ratio = |ours: fn(&Summary) -> f64, there: fn(&Space) -> f64| {
            dash(cut.zip(published.as_ref()), |(cut, published)| format!("{:.2}", 100.0 * ours(cut) / there(published)))
        };
        vec![
            row.name.clone(),
            dash(published, |there| kib(float(there.live_bytes))),
            dash(cut, |cut| kib(cut.live_bytes)),
            dash(published, |there| kib(float(there.used_bytes))),
            dash(cut, |cut| kib(cut.high_water_bytes)),
            dash(published, |there| format!("{:.1}", there.fragmentation_percent)),
            dash(cut, |cut| percent(cut.fragmentation.mean)),
            ratio(|cut| cut.fragmentation.mean, |there| there.fragmentation_percent),
            dash(published, |there| format!("{:.1}", there.overhead_percent)),
            dash(cut, |cut| percent(cut.overhead.mean)),
            ratio(|cut| cut.overhead.mean, |there| there.overhead_percent),
            dash(ours, |ours| format!("{:.0}", 100.0 * ours.operations / float(trace.facts.operations.max(1)))),
            dash(ours, |ours| percent(ours.prefix.fragmentation.mean)),
            dash(ours, |ours| percent(ours.prefix.overhead.mean)),
        ]
    };
    Tabled::new(&headings, 1, rows(trace).map(row))
}

/// Internal fragmentation of blocks.
fn sizes(found: &Thesis) -> Section {
    let headings = ["\nallocator", "worst from\n8 B on", "\ngranted", "\nlost %", "most\nlost B", "uniform\nlost %"];
    let row = |granted: &Granted| {
        let mut texts = vec![granted.name.clone()];
        let worst = granted.worst(8);
        texts.push(dash(worst, |(request, _)| format!("{request} B")));
        texts.push(dash(worst, |(_, granted)| format!("{granted} B")));
        texts.push(dash(worst, |(request, granted)| {
            format!("{:.1}", 100.0 * float(granted - request) / float(granted))
        }));
        let all = granted.bytes.as_ref().ok();
        let most = all.and_then(|all| (1..).zip(all).map(|(request, granted)| granted - request).max());
        texts.push(dash(most, |bytes| bytes.to_string()));
        texts.push(dash(all, |all| {
            let (asked, got): (u64, u64) = ((1..=all.len() as u64).sum(), all.iter().sum());
            format!("{:.1}", 100.0 * float(got - asked) / float(got))
        }));
        texts
    };
    Section {
        title: "Sections 5.7 and 6.3: internal fragmentation of a block".into(),
        about: format!(
            "Every request from 1 to {LARGEST_BYTES} B in an empty heap; lost: share of the granted bytes. Headers are \
             not counted here."
        ),
        tables: vec![(
            String::new(),
            Tabled::new(&headings, 1, found.sizes.as_deref().unwrap_or_default().iter().map(row)),
        )],
        figures: Vec::new(),
    }
}

/// Costs that the thesis left out of bframe's time.
fn pages(found: &Thesis) -> Section {
    let headings = [
        "\nallocator",
        "malloc(8)\nfirst",
        "\nsecond",
        "malloc(512)\nfirst",
        "\nsecond",
        "free\nlast",
        "malloc, most\nover pages",
    ];
    let row = |opening: &Opening| {
        let mut texts = vec![opening.name.clone()];
        texts.extend(match &opening.counts {
            Ok(Openings { small, small_again, large, large_again, free_last, returned }) => {
                [*small, *small_again, *large, *large_again, *free_last, *returned].map(number::grouped)
            }
            Err(_) => [(); 6].map(|()| "-".into()),
        });
        texts
    };
    Section {
        title: "Section 6.3: the first operations".into(),
        about: "Instructions in an empty heap. The thesis took all pages before its runs, so its times exclude taking \
                one; ours take a page when it is needed, so tables 3 and 4 include it."
            .into(),
        tables: vec![(
            String::new(),
            Tabled::new(&headings, 1, found.pages.as_deref().unwrap_or_default().iter().map(row)),
        )],
        figures: Vec::new(),
    }
}

/// The thesis' proposals for Bitframe, compared with the base.
fn proposals(found: &Thesis) -> Section {
    let headings = [
        "\n\nallocator",
        "malloc\nticks\nmean",
        "\ninstr.\nmean",
        "\n\nmost",
        "free\nticks\nmean",
        "\ninstr.\nmean",
        "\n\nmost",
        "\nH\nKiB",
        "\nF\n%",
        "\nI\n%",
        "\nserved\n%",
        "equal\nprefix\nF %",
    ];
    let row = |trace: &OnTrace, row: &Row| {
        let (ticks, counts, ours) = (ticks(row), counted(row), measured(row));
        let mut texts = vec![row.name.clone()];
        for (_, of) in Costs::SIDES {
            texts.push(dash(ticks, |costs| number::mean(of(costs).mean)));
            texts.push(dash(counts, |costs| number::mean(of(costs).mean)));
            texts.push(dash(counts, |costs| number::grouped(of(costs).max)));
        }
        texts.push(dash(ours, |ours| format!("{:.1}", ours.cut.high_water_bytes / 1024.0)));
        texts.push(dash(ours, |ours| format!("{:.1}", 100.0 * ours.cut.fragmentation.mean)));
        texts.push(dash(ours, |ours| format!("{:.1}", 100.0 * ours.cut.overhead.mean)));
        texts.push(dash(ours, |ours| format!("{:.0}", 100.0 * ours.operations / float(trace.facts.operations.max(1)))));
        texts.push(dash(ours, |ours| format!("{:.1}", 100.0 * ours.prefix.fragmentation.mean)));
        texts
    };
    let table = |trace: &OnTrace| {
        let own = trace.rows.iter().filter(|row| row.name.starts_with("bframe"));
        (trace.load.name(), Tabled::new(&headings, 1, own.map(|own| row(trace, own))))
    };
    Section {
        title: "Beyond the thesis: its proposals for Bitframe (5.5, 5.7)".into(),
        about: "eager: all frames of a page are initialised at once, as the thesis' implementation does; the base \
                initialises them as they are needed (footnote 11). 16 bits: frames of 16 chunks (footnote 9). 4 \
                chunks: at most four in sequence, of 8, 32 and 128 B. crossing: the same, and a sequence may end in \
                the next frame; crossing without the limit is not measured. All with a quantum of 8 B."
            .into(),
        tables: found.traces.iter().map(table).collect(),
        figures: Vec::new(),
    }
}

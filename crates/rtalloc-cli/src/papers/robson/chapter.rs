//! The memory that adversaries force allocators to use, with theoretical curves.

use crate::papers::chapter::{Chapter, Figure, Section};
use crate::papers::robson::result::{Adversary, Law, Need, Robson, Row};
use crate::present::page::Tabled;
use crate::present::plot::PlotError;
use crate::present::plot::curves::{Panel, Spacing, Stroke};
use rtalloc_lab::number;

/// The whole chapter, for the terminal and for a page.
///
/// # Errors
///
/// See [`PlotError`].
pub fn chapter(found: &Robson) -> Result<Chapter, PlotError> {
    Ok(Chapter {
        id: "robson",
        title: format!(
            "Robson (1971 to 1977): worst-case memory against adversaries, with at most {} units live",
            number::grouped(found.m)
        ),
        claims: found.claims.clone(),
        sections: vec![powers(found)?, worst(found)?, adversaries(found), bytes(found)],
        notes: notes(found),
        errata: Vec::new(),
    })
}

/// Robson's program: one curve for all allocators that follow the formula, and those above it.
fn powers(found: &Robson) -> Result<Section, PlotError> {
    let mut table = by_size(found, |row, n| row.need(Adversary::Powers, n).map(|need| ratio(need.ratio())));
    table.rows.splice(0..0, found.laws.iter().take(1).map(|law| of_law(found, law)));
    let panels: Vec<Panel> = panels(found, 1, |row, n| row.need(Adversary::Powers, n).map(Need::ratio))
        .into_iter()
        .map(|panel| Panel { y: ("memory needed over M".into(), Spacing::Even), ..panel })
        .collect();
    let caption = (
        "Robson's program for powers of two",
        "Memory needed against Robson's program / maximum live memory, by the largest request. Dotted line: the lower \
         bound for every non-moving allocator.",
    );
    Ok(Section {
        title: "Robson's program for powers of two: memory needed over M".into(),
        about: {
            let bound = |law: &Law| format!(" {}: what every non-moving allocator needs, {}.", law.name, law.formula);
            format!("By the largest request n, in units.{}", found.laws.first().map(bound).unwrap_or_default())
        },
        tables: vec![(String::new(), table)],
        figures: figure("powers", caption, &panels, found)?,
    })
}

/// The maximum over all adversaries, and the guarantees.
fn worst(found: &Robson) -> Result<Section, PlotError> {
    let table = by_size(found, |row, n| {
        let (adversary, need) = row.worst(n)?;
        Some(format!("{} {}", ratio(need.ratio()), adversary.letter()))
    });
    let guaranteed = by_size(found, |row, n| {
        let answer = row.answers.iter().find(|answer| answer.adversary == Adversary::Powers)?;
        let need = answer.needs.as_ref().ok()?.iter().find(|need| need.n == n)?;
        need.guaranteed().map(ratio)
    });
    let mut guaranteed = guaranteed;
    guaranteed.headings.insert(1, "guarantee".into());
    guaranteed.words = 2;
    for row in &mut guaranteed.rows {
        let known = found.rows.iter().find(|known| known.subject == row[0]);
        row.insert(1, known.and_then(|known| known.guarantee.clone()).unwrap_or_else(|| "none known".into()));
    }
    let panels = panels(found, found.laws.len(), |row, n| row.worst(n).map(|(_, need)| need.ratio()));
    let letters: Vec<String> =
        Adversary::ALL.into_iter().map(|adversary| format!("{} {}", adversary.letter(), adversary.name())).collect();
    let caption = (
        "The worst of all adversaries",
        "Memory needed against the worst adversary for requests of up to n units / maximum live memory. Both axes are \
         logarithmic. The theoretical curves are the lower bound for every non-moving allocator, and the guarantees of \
         address-ordered first-fit and of allocators that refuse a request only if no gap is large enough.",
    );
    Ok(Section {
        title: "The worst of all adversaries: memory needed over M".into(),
        about: format!(
            "The letter names the adversary: {}. A program that may request n units may request fewer, so no figure is \
             below the one to its left with the same number of live units.",
            letters.join(", ")
        ),
        tables: vec![(String::new(), table), ("Guaranteed heap sizes / M".into(), guaranteed)],
        figures: figure("worst", caption, &panels, found)?,
    })
}

/// Every adversary against every allocator, for one largest request.
fn adversaries(found: &Robson) -> Section {
    let n = table_request(found);
    let headings: Vec<String> = std::iter::once("allocator".into())
        .chain(Adversary::ALL.into_iter().map(|adversary| adversary.name().to_string()))
        .collect();
    let rows = found.rows.iter().map(|row| {
        // A need of less than M units means that M was never live: the adversary gave up before.
        let played = |adversary| row.need(adversary, n).map(Need::ratio).filter(|needed| *needed >= 1.0);
        let needs = Adversary::ALL.into_iter().map(|adversary| or_dash(played(adversary).map(ratio)));
        std::iter::once(row.subject.clone()).chain(needs).collect()
    });
    let about: Vec<String> =
        Adversary::ALL.into_iter().map(|adversary| format!("{}: {}", adversary.name(), adversary.about())).collect();
    Section {
        title: format!("Memory needed / M by adversary, requests of up to {n} units"),
        about: format!("{}.", about.join("; ")),
        tables: vec![(String::new(), Tabled::new(&headings, 1, rows))],
        figures: Vec::new(),
    }
}

/// The same in bytes.
fn bytes(found: &Robson) -> Section {
    let n = table_request(found);
    let headings = [
        "\nallocator",
        "unit\nB",
        "header\nB",
        "M\nB",
        "needed\nB",
        "control\nB",
        "of the\nadversary",
        "a smaller heap\nfails by B",
    ];
    let rows = found.rows.iter().filter_map(|row| {
        let (adversary, need) = row.worst(n)?;
        Some(vec![
            row.subject.clone(),
            need.unit_bytes.to_string(),
            need.header_bytes.to_string(),
            number::grouped(need.m * need.unit_bytes),
            number::grouped(need.needed_bytes),
            number::grouped(need.control_bytes),
            adversary.name().into(),
            need.granule_bytes.to_string(),
        ])
    });
    Section {
        title: format!("In bytes: the worst of all adversaries, requests of up to {n} units"),
        about: "A block of k units takes k units of memory, header included: k\u{b7}unit - header bytes are requested \
                for it. Needed: of the area of blocks; control: before it."
            .into(),
        tables: vec![(String::new(), Tabled::new(&headings, 1, rows))],
        figures: Vec::new(),
    }
}

/// The largest request of the table: 16 units, as in the section's trial, or the nearest value.
fn table_request(found: &Robson) -> u64 {
    found.sizes.iter().copied().min_by_key(|n| n.abs_diff(16)).unwrap_or(16)
}

fn by_size(found: &Robson, text: impl Fn(&Row, u64) -> Option<String>) -> Tabled {
    let headings: Vec<String> =
        std::iter::once("allocator".to_string()).chain(found.sizes.iter().map(|n| format!("n = {n}"))).collect();
    let rows = found.rows.iter().map(|row| {
        let texts = found.sizes.iter().map(|n| or_dash(text(row, *n)));
        std::iter::once(row.subject.clone()).chain(texts).collect()
    });
    Tabled::new(&headings, 1, rows)
}

fn of_law(found: &Robson, law: &Law) -> Vec<String> {
    let value = |n: &u64| law.points.iter().find(|(other, _)| other == n).map(|(_, value)| ratio(*value));
    std::iter::once(law.name.clone()).chain(found.sizes.iter().map(|n| or_dash(value(n)))).collect()
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

fn ratio(value: f64) -> String {
    match value {
        value if value >= 99.95 => number::grouped(value.round() as u64),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// The allocators to draw, by panel: one per kind if the others would lie on the same line.
const DRAWN: [(&str, &[&str]); 2] = [
    (
        "splitting and coalescing",
        &[
            "first-fit-address",
            "first-fit",
            "next-fit",
            "best-fit",
            "tree-best-fit",
            "fast-fit",
            "tlsf",
            "half-fit",
            "rlsf",
            "talc",
            "dlmalloc",
            "linked-list",
            "good-memory",
        ],
    ),
    (
        "buddies, classes, pages, and moving objects",
        &[
            "binary-buddy",
            "fibonacci-buddy",
            "weighted-buddy",
            "double-buddy",
            "buddy-system",
            "simple-segregated",
            "kingsley",
            "quick-fit",
            "bitframe",
            "reaps",
            "regis1",
            "compact-fit",
            "compact-fit-non-moving",
        ],
    ),
];

/// The panels of a figure; theoretical curves follow those of the allocators.
fn panels(found: &Robson, laws: usize, value: impl Fn(&Row, u64) -> Option<f64>) -> Vec<Panel> {
    let of_panel = |(title, names): (&str, &[&str])| {
        let drawn = found.rows.iter().enumerate().filter(|(_, row)| names.contains(&row.subject.as_str()));
        let curve = |(index, row): (usize, &Row)| {
            let points = found.sizes.iter().filter_map(|n| Some((*n as f64, value(row, *n)?)));
            (index, points.collect::<Vec<_>>())
        };
        let mut curves: Vec<(usize, Vec<(f64, f64)>)> = drawn.map(curve).collect();
        if curves.iter().any(|(_, points)| !points.is_empty()) {
            let of_theory = |(place, law): (usize, &Law)| {
                (found.rows.len() + place, law.points.iter().map(|(n, value)| (*n as f64, *value)).collect())
            };
            curves.extend(found.laws.iter().take(laws).enumerate().map(of_theory));
        }
        Panel {
            title: title.into(),
            x: ("largest request n in units".into(), Spacing::Doubling),
            y: ("memory needed over M".into(), Spacing::Logarithmic),
            curves,
            stroke: Stroke::Marked,
            published: Vec::new(),
            marks: Vec::new(),
        }
    };
    DRAWN.into_iter().map(of_panel).collect()
}

fn figure(name: &str, caption: (&str, &str), panels: &[Panel], found: &Robson) -> Result<Vec<Figure>, PlotError> {
    let rows = found.rows.iter().map(|row| (row.subject.as_str(), row.subject.as_str()));
    let names: Vec<(&str, &str)> =
        rows.chain(found.laws.iter().map(|law| (law.name.as_str(), law.name.as_str()))).collect();
    let description = format!("{}, by the largest request", caption.0);
    Ok(Figure::of_curves(name, caption, panels, &names, &description)?.into_iter().collect())
}

fn notes(found: &Robson) -> Vec<String> {
    let mut notes = vec![
        "unit: the smallest block of an allocator, found from the distances between blocks; if blocks have headers, \
         the largest request that takes no more. needed: the smallest heap in which no request of the adversary was \
         refused; in a heap smaller by one granule a request was refused (both were run). Larger heaps may fail, too: \
         adversaries do not prove that a heap suffices."
            .into(),
        "-: the allocator does not serve requests of n units; in the table by adversary also: the adversary, which \
         targets other allocators, ended before M units were live."
            .into(),
        "Guarantees, their sources and derivations are in METHODOLOGY.md, Worst-case memory. Allocators that take \
         pages from the system have no heap of fixed size, and are not included."
            .into(),
    ];
    if found.comb_m != found.m {
        notes.push(format!(
            "The comb has {} units live instead of {}, because its work grows quadratically.",
            number::grouped(found.comb_m),
            number::grouped(found.m)
        ));
    }
    for row in &found.rows {
        for answer in &row.answers {
            if let Err(what) = &answer.needs {
                notes.push(format!("{}, {}: {what}.", row.subject, answer.adversary.name()));
            }
        }
    }
    notes
}

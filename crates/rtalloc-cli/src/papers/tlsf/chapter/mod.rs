//! The experiments of the TLSF paper as a chapter.

mod errata;
mod figures;
mod steps;

use crate::papers::chapter::{Chapter, Section};
use crate::papers::published::{Both, TLSF};
use crate::papers::sample::Sample;
use crate::papers::tlsf::measure::{HYPOTHESIS, compared};
use crate::papers::tlsf::published::{Four, Tlsf as Paper};
use crate::papers::tlsf::result::{Cell, Costs, Found, Kind, Load, Pool, Profile, Seen, Settings, Tlsf, Unit, Worst};
use crate::present::page::Tabled;
use crate::present::plot::PlotError;
use rtalloc_lab::number;
use rtalloc_lab::result::schema::Distribution;
use rtalloc_lab::workload::Holding;

/// The paper's number of task sets per profile, and of mallocs per task set.
const CAMPAIGN: (u64, u64) = (100, 1_000_000);

/// The whole chapter.
///
/// # Errors
///
/// See [`PlotError`].
pub fn chapter(found: &Tlsf) -> Result<Chapter, PlotError> {
    let Settings { sets, few_sets, mallocs, holding, .. } = found.settings;
    let pool_bytes = number::bytes(found.settings.pool_bytes);
    let of_sets =
        |sets| format!("{} of {} mallocs a profile", number::counted(sets, "task set"), number::grouped(mallocs));
    let each = format!("{}, holding time {}.", of_sets(sets), holding.describe());
    let one = |table: Tabled| vec![(String::new(), table)];
    let section = |title: &str, about: String, tables, figures| Section { title: title.into(), about, tables, figures };
    let sections = vec![
        section(
            "Section 6.1: worst-case scenarios",
            format!("Instructions, in a pool of {pool_bytes}."),
            one(worst(found)),
            vec![],
        ),
        section(
            "Figure 6: bands",
            "Instructions of TLSF's operations by what they do, under a random load.".into(),
            one(bands(found)),
            figures::bands(seen(&found.cells))?,
        ),
        section("Tables I and II: steps", steps::ABOUT.into(), steps::steps(&found.cells), vec![]),
        section(
            "Table III, figure 7: a task set",
            "The paper's example of profile 1, of which figure 7 has the sizes: in its time unit, and bytes.".into(),
            one(task_set()),
            figures::sizes(&found.sizes)?,
        ),
        section(
            "Table IV, figure 8: cycles",
            format!("The minimum of {} replicas; {}; maxima are noise.", found.settings.replicas, of_sets(few_sets)),
            of_costs(found, &TLSF.table_4, |pool| pool.ticks.as_ref()),
            figures::cycles(found)?,
        ),
        section(
            "Table V: instructions",
            each.clone(),
            of_costs(found, &TLSF.table_5, |pool| Some(&pool.instructions)),
            vec![],
        ),
        section(
            "Table VI, figure 9: fragmentation",
            format!("F in %; {each}"),
            fragmentation(found),
            figures::memory(found)?,
        ),
        section(
            "Readings of the holding time",
            format!(
                "F in % over {}, with the interval of 99 % of its mean, of which the paper has a hundred. \
                 {HYPOTHESIS} is a hypothesis on the authors' half-fit, best-fit has no figures in the paper.",
                number::counted(sets, "task set")
            ),
            one(readings(found)),
            vec![],
        ),
        section(
            "Duration of the campaign",
            "For counting a million mallocs with their frees, and for tables V and VI at the paper's size.".into(),
            one(times(found)),
            vec![],
        ),
    ];
    Ok(Chapter {
        id: "tlsf",
        title: "TLSF (2008): implementation of a constant-time dynamic storage allocator".into(),
        claims: found.claims.clone(),
        sections,
        notes: notes(found),
        errata: errata::errata(found),
    })
}

/// An allocator's pools for the reading, by profile.
fn pools<'a>(found: &'a Tlsf, subject: &'a str, holding: Holding) -> impl Iterator<Item = &'a Pool> {
    found.pools.iter().filter(move |pool| pool.subject == subject && pool.holding == holding)
}

fn ratio(ours: f64, published: f64) -> String {
    format!("{:.2}", ours / published)
}

fn dash(value: Option<u64>) -> String {
    const LONG: u64 = 100_000;
    let formatted = |value| if value < LONG { number::grouped(value) } else { number::compact(value as f64) };
    value.map_or_else(|| "-".into(), formatted)
}

const WORST: [&str; 13] = [
    "\nallocator",
    "malloc\npaper",
    "malloc\nscenario",
    "malloc\nratio",
    "malloc\nharder",
    "malloc\nobserved",
    "malloc\nbound",
    "free\npaper",
    "free\nscenario",
    "free\nratio",
    "free\nharder",
    "free\nobserved",
    "free\nbound",
];

fn worst(found: &Tlsf) -> Tabled {
    let rows = found.cells.iter().filter_map(|cell| match (&cell.unit, &cell.found) {
        (Unit::Worst { subject }, Ok(Found::Worst(worsts))) => Some((subject, worsts)),
        _ => None,
    });
    let rows = rows.map(|(subject, worsts)| {
        let mut texts = vec![subject.clone()];
        let Both { malloc, free } = TLSF.section_6_1;
        for ((operation, costs), published) in Costs::SIDES.into_iter().zip([malloc, free]) {
            let worst: Option<&Worst> = worsts.iter().find(|worst| worst.operation == operation);
            let largest = |paper: bool| {
                let own = worst.into_iter().flat_map(|worst| &worst.scenarios);
                own.filter(|scenario| scenario.paper == paper).map(|scenario| scenario.instructions).max()
            };
            let observed =
                pools(found, subject, found.settings.holding).map(|pool| costs(&pool.instructions).max).max();
            let published = (subject == "tlsf").then_some(published);
            texts.push(published.map_or_else(String::new, |published| published.to_string()));
            texts.push(dash(largest(true)));
            texts.push(
                published.zip(largest(true)).map_or_else(String::new, |(paper, ours)| ratio(ours as f64, paper as f64)),
            );
            texts.extend([largest(false), observed, worst.and_then(|worst| worst.bound)].map(dash));
        }
        texts
    });
    Tabled::new(&WORST, 1, rows)
}

fn seen(cells: &[Cell]) -> &[Seen] {
    let seen = cells.iter().find_map(|cell| match &cell.found {
        Ok(Found::Bands(seen)) => Some(seen.as_slice()),
        _ => None,
    });
    seen.unwrap_or_default()
}

fn bands(found: &Tlsf) -> Tabled {
    /// Bands that are identified by their values.
    const SHOWN: usize = 2;
    let all = seen(&found.cells);
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        for small in [true, false] {
            let own = || all.iter().filter(|seen| seen.kind == kind && seen.small == small);
            let mut counts: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
            own().for_each(|seen| *counts.entry(seen.instructions).or_default() += 1);
            let mut most: Vec<(u64, u64)> = counts.iter().map(|(value, count)| (*value, *count)).collect();
            most.sort_by_key(|(value, count)| (std::cmp::Reverse(*count), *value));
            let formatted: Vec<String> =
                most.iter().take(SHOWN).map(|(value, count)| format!("{value} ({count})")).collect();
            let more = if most.len() > SHOWN { ", ..." } else { "" };
            let range = |least: Option<u64>, most: Option<u64>| match least.zip(most) {
                Some((least, most)) if least == most => least.to_string(),
                Some((least, most)) => format!("{least} to {most}"),
                None => "-".into(),
            };
            let published = TLSF.figure_6.malloc.iter().chain(&TLSF.figure_6.free).find(|band| band.kind == kind);
            // The paper has exact-reuse bands for small requests, and does not separate frees by size.
            let published = published.filter(|_| small || !kind.is_malloc());
            rows.push(vec![
                format!("{}, {}", if kind.is_malloc() { "malloc" } else { "free" }, kind.name()),
                if small { "< 128 B".into() } else { "from 128 B".into() },
                published.map_or_else(String::new, |band| range(Some(band.range[0]), Some(band.range[1]))),
                range(counts.keys().next().copied(), counts.keys().last().copied()),
                published
                    .zip(counts.keys().last())
                    .map_or_else(String::new, |(band, most)| ratio(*most as f64, band.range[1] as f64)),
                number::grouped(own().count() as u64),
                format!("{}{more}", formatted.join(", ")),
            ]);
        }
    }
    let headings =
        ["\noperation", "\nrequest", "\npaper", "\nours", "ratio\nof most", "so\nmany", "most often\n(so often)"];
    Tabled::new(&headings, 2, rows.into_iter())
}

/// A task set as the paper prints it.
fn task_set() -> Tabled {
    let rows = TLSF.table_3.rows.values().map(|task| {
        let whole = [task.period, task.g_bytes, task.mean_bytes, task.deviation_bytes, task.longest, task.shortest];
        whole.map(number::grouped).into()
    });
    Tabled::new(&["period", "g", "mean size", "deviation", "longest holding", "shortest"], 0, rows)
}

const COSTS: [&str; 16] = [
    "\nallocator",
    "\n",
    "mean\npaper",
    "mean\nours",
    "mean\nratio",
    "dev.\npaper",
    "dev.\nours",
    "dev.\nratio",
    "most\npaper",
    "most\nours",
    "most\nratio",
    "least\npaper",
    "least\nours",
    "least\nratio",
    "\np99",
    "\np99.9",
];

fn of_costs(
    found: &Tlsf,
    published: &Both<std::collections::BTreeMap<String, [Four; 3]>>,
    costs: fn(&Pool) -> Option<&Costs>,
) -> Vec<(String, Tabled)> {
    let mut tables = Vec::new();
    for ((operation, of), published) in Costs::SIDES.into_iter().zip([&published.malloc, &published.free]) {
        let mut rows = Vec::new();
        for subject in &found.settings.subjects {
            let mut name = subject.clone();
            for pool in pools(found, subject, found.settings.holding) {
                let Some(costs) = costs(pool) else { continue };
                let paper = Paper::name_of(subject).map(|known| published[known][pool.profile as usize]);
                rows.push(of_distribution(std::mem::take(&mut name), pool.profile, paper, of(costs)));
            }
        }
        tables.push((operation.to_string(), Tabled::new(&COSTS, 2, rows.into_iter())));
    }
    tables
}

fn of_distribution(name: String, profile: Profile, paper: Option<Four>, ours: &Distribution) -> Vec<String> {
    let mut texts = vec![name, profile.name().into()];
    let own = |text: String| if ours.count == 0 { "-".into() } else { text };
    let own_four = [ours.mean, ours.std, ours.max as f64, ours.min as f64];
    for (place, value) in own_four.into_iter().enumerate() {
        let published = paper.map(|four| four[place]);
        texts.push(published.map_or_else(String::new, |published| format!("{published:.0}")));
        texts.push(own(if place < 2 { format!("{value:.1}") } else { number::compact(value) }));
        texts.push(published.map_or_else(String::new, |published| own(ratio(value, published))));
    }
    texts.extend([ours.p99, ours.p999].map(|quantile| own(number::grouped(quantile))));
    texts
}

const FRAGMENTATION: [&str; 14] = [
    "\nallocator",
    "\n",
    "mean\npaper",
    "mean\nours",
    "mean\nratio",
    "dev.\npaper",
    "dev.\nours",
    "dev.\nratio",
    "most\npaper",
    "most\nours",
    "most\nratio",
    "least\npaper",
    "least\nours",
    "least\nratio",
];

/// The paper's F, compared with the other definitions of F.
fn fragmentation(found: &Tlsf) -> Vec<(String, Tabled)> {
    let (mut rows, mut others) = (Vec::new(), Vec::new());
    for subject in &found.settings.subjects {
        let mut name = subject.clone();
        for pool in pools(found, subject, found.settings.holding) {
            let paper = Paper::name_of(subject).map(|known| TLSF.table_6[known][pool.profile as usize]);
            let percent = |value: f64| if pool.sets == 0 { "-".into() } else { number::mean(100.0 * value) };
            let mut texts = vec![std::mem::take(&mut name), pool.profile.name().into()];
            let mut besides = texts.clone();
            let Sample { mean, deviation, most, least, .. } = pool.fragmentation[3];
            for (place, own) in [mean, deviation, most, least].into_iter().enumerate() {
                texts.push(paper.map_or_else(String::new, |four| format!("{:.1}", four[place])));
                texts.push(percent(own));
                texts.push(paper.map_or_else(String::new, |four| ratio(100.0 * own, four[place])));
            }
            rows.push(texts);
            besides.extend(pool.fragmentation.map(|variant| percent(variant.mean)));
            besides.push(if pool.refused == 0 { String::new() } else { number::compact(pool.refused as f64) });
            others.push(besides);
        }
    }
    vec![
        (String::new(), Tabled::new(&FRAGMENTATION, 2, rows.into_iter())),
        (
            "Means of the four variants of Johnstone and Wilson, of which the paper uses the fourth; refused requests"
                .into(),
            Tabled::new(&["allocator", "", "1", "2", "3", "4", "refused"], 2, others.into_iter()),
        ),
    ]
}

const READINGS: [&str; 11] = [
    "\nallocator",
    "\nreading",
    "\n",
    "mean\npaper",
    "mean\nours",
    "dev.\npaper",
    "dev.\nours",
    "most\npaper",
    "most\nours",
    "least\npaper",
    "least\nours",
];

/// The statistics of F in all readings of the holding time, of the paper's allocators and of those compared with them.
fn readings(found: &Tlsf) -> Tabled {
    let mut rows = Vec::new();
    for subject in compared() {
        let mut name = subject.to_string();
        let published = Paper::name_of(subject).or((subject == HYPOTHESIS).then_some("HF"));
        for reading in Holding::ALL {
            let mut word = reading.name().to_string();
            for pool in pools(found, subject, reading).filter(|pool| pool.sets > 0) {
                let ours = pool.fragmentation[3].times(100.0);
                let mark = if pool.refused > 0 { "*" } else { "" };
                let error = if ours.count < 2 { String::new() } else { format!(" \u{b1} {:.1}", ours.error()) };
                let mut texts = vec![std::mem::take(&mut name), std::mem::take(&mut word), pool.profile.name().into()];
                let own = [
                    format!("{:.1}{error}{mark}", ours.mean),
                    format!("{:.1}", ours.deviation),
                    format!("{:.1}", ours.most),
                    format!("{:.1}", ours.least),
                ];
                for (place, own) in own.into_iter().enumerate() {
                    let four = published.map(|known| TLSF.table_6[known][pool.profile as usize]);
                    texts.push(four.map_or_else(String::new, |four| format!("{:.1}", four[place])));
                    texts.push(own);
                }
                rows.push(texts);
            }
        }
    }
    Tabled::new(&READINGS, 3, rows.into_iter())
}

fn times(found: &Tlsf) -> Tabled {
    let rows = found.settings.subjects.iter().map(|subject| {
        let own = || pools(found, subject, found.settings.holding);
        let (seconds, mallocs) =
            own().fold((0.0, 0), |(seconds, mallocs), pool| (seconds + pool.seconds, mallocs + pool.mallocs));
        let million = 1e6 * seconds / mallocs as f64;
        let campaign = CAMPAIGN.0 as f64 * CAMPAIGN.1 as f64 * Profile::ALL.len() as f64 / 1e6 * million;
        let formatted = |text: String| if mallocs == 0 { "-".into() } else { text };
        vec![subject.clone(), formatted(format!("{million:.2} s")), formatted(format!("{:.1} min", campaign / 60.0))]
    });
    Tabled::new(&["allocator", "10^6 mallocs", "3 profiles x 100 sets x 10^6"], 1, rows)
}

fn notes(found: &Tlsf) -> Vec<String> {
    let mut notes = vec![
        "paper: a Celeron of 1.6 GHz, 32 bits, GCC 3.4.6 -O2; TLSF 2.2 with J = 5, DLmalloc 2.8.3. ours: dlmalloc is \
         that of the Rust standard library, 2.8.6, on 64 bits. Instructions are those of an operation from its first \
         to its return, as compiled here: compare order and spread between the papers, not absolute numbers."
            .into(),
        "scenario: the papers' recipe. harder: ours, derived from the bound. observed: the maximum of table V. bound: \
         static, in a heap of 16 MiB; -: none, or a search. These are three different numbers."
            .into(),
        "Cycles: lfence; rdtsc; lfence on both sides, less an empty pair; the minimum of identical replicas, as in the \
         paper. A virtual or shared machine occasionally disturbs all replicas: maxima characterise the machine, \
         quantiles the allocator. The counter's ticks are not the processor's cycles."
            .into(),
        "F: maximum used / maximum live memory, less 1, for each task set; mean, deviation, maximum and minimum over \
         sets. J & W: variants 1 to 3 of Johnstone and Wilson: mean over time; at maximum live memory; at maximum used \
         memory. Used memory is everything up to the highest address: an allocator that serves from the heap's end, or \
         cycles through it, uses nearly all of it. *: requests were refused, so F is that of the served requests."
            .into(),
        "The paper's holding time has no unit. literal, U[30, 50] ticks, takes the paper's numbers in the unit of the \
         periods, and is far from the paper's F. periods, 10 to 20 of the task's own, and fit, U[300, 500] ticks, have \
         constants of ours with which F of binary buddy, dlmalloc and TLSF is near the published one: agreement with \
         it is calibrated. g and N_r are drawn once for each task, phases at random, sizes Normal(g/N_r, 10 %), \
         non-positive ones again."
            .into(),
    ];
    for cell in &found.cells {
        if let Err(what) = &cell.found {
            notes.push(format!("{}: {what}.", formatted(&cell.unit)));
        }
    }
    notes
}

/// A unit as text.
fn formatted(unit: &Unit) -> String {
    match unit {
        Unit::Run { load, sets } => {
            let Load { subject, profile, holding, set, .. } = load;
            format!("{subject}, {}, {}, {sets} sets from {set} on", profile.name(), holding.name())
        }
        Unit::Time { load, .. } => format!("{}, {}, set {}, timed", load.subject, load.profile.name(), load.set),
        Unit::Timeline(load) => format!("{}, figure 9", load.subject),
        Unit::Bands { subject, .. } => format!("{subject}, figure 6"),
        Unit::Steps { subject, .. } => format!("{subject}, tables I and II"),
        Unit::Worst { subject } => format!("{subject}, worst cases"),
        Unit::Internal { subject } => format!("{subject}, internal fragmentation"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::tlsf::claims::claims;
    use crate::papers::tlsf::measure::pools;
    use crate::papers::tlsf::result::{Run, Runs, Scenario, Space, Variants};
    use crate::present::table::Look;

    /// Half-fit and TLSF in one profile; one set failed.
    fn made_up() -> Tlsf {
        let settings = Settings {
            sets: 2,
            few_sets: 1,
            first_set: 1,
            mallocs: 1000,
            holding: Holding::Fit,
            replicas: 3,
            pool_bytes: 16 << 20,
            subjects: vec!["half-fit".into(), "tlsf".into()],
        };
        let distribution =
            |value: u64| Distribution { count: 1, histogram: vec![(value, 10)], ..Distribution::default() };
        let mut cells = Vec::new();
        for (place, subject) in (0..).zip(&settings.subjects) {
            let load = |set, holding| Load {
                profile: Profile::P1,
                holding,
                set,
                mallocs: settings.mallocs,
                pool_bytes: settings.pool_bytes,
                subject: subject.clone(),
            };
            let costs = || Costs { malloc: distribution(100 + place), free: distribution(120 - place) };
            let run = |f| {
                let fragmentation = Variants { mean: 0.4, at_peak_live: 0.2, at_peak_used: 0.3, of_peaks: f };
                let space = Space { fragmentation, ..Space::default() };
                let instructions = Both { malloc: 100.0, free: 120.0 };
                let each = vec![Run { instructions, space, refused: place }];
                Ok(Found::Run(Runs { instructions: costs(), each }))
            };
            let scenario = Scenario { name: "one".into(), paper: true, instructions: 160 };
            let worst = Worst { operation: "malloc".into(), scenarios: vec![scenario], bound: Some(1600) };
            let mut cell = |unit, found| cells.push(Cell { unit, found, seconds: 0.001 });
            cell(Unit::Worst { subject: subject.clone() }, Ok(Found::Worst(vec![worst])));
            cell(Unit::Run { load: load(1, Holding::Fit), sets: 1 }, run(0.1));
            cell(Unit::Run { load: load(2, Holding::Fit), sets: 1 }, Err("SIGSEGV in operation 7".into()));
            cell(Unit::Run { load: load(1, Holding::Literal), sets: 1 }, run(0.5));
            cell(Unit::Time { load: load(1, Holding::Fit), replicas: 3 }, Ok(Found::Time(costs())));
        }
        let pools = pools(&cells);
        let claims = claims(&settings, &cells, &pools);
        Tlsf { settings, cells, sizes: Vec::new(), pools, claims }
    }

    fn line(text: &str, table: &str, name: &str) -> Vec<String> {
        let (_, below) = text.split_once(table).unwrap_or_else(|| panic!("{table}: {text}"));
        let line =
            below.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{name}: {below}"));
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn published_and_own_figures_stand_side_by_side() {
        let chapter = chapter(&made_up()).expect("drawn");
        let text = chapter.text(Look { columns: 120, colour: false });
        assert_eq!(
            line(&text, "Section 6.1", "tlsf"),
            "tlsf 160 160 1.00 - 101 1,600 176 - - 119 -".split(' ').collect::<Vec<_>>()
        );
        assert_eq!(
            line(&text, "Table V:", "tlsf"),
            "tlsf P1 138 101.0 0.73 13 0.0 0.00 151 101 0.67 102 101 0.99 101 101".split(' ').collect::<Vec<_>>()
        );
        assert_eq!(
            line(&text, "Table VI,", "half-fit"),
            "half-fit P1 83.4 10.0 0.12 13.4 0.0 0.00 120.2 10.0 0.08 52.7 10.0 0.19".split(' ').collect::<Vec<_>>()
        );
        assert_eq!(
            line(&text, "Means of the four variants", "half-fit"),
            ["half-fit", "P1", "40.0", "20.0", "30.0", "10.0"]
        );
        let readings = |name| line(&text, "Readings of", name);
        let expected = ["9.9", "10.0*", "1.5", "0.0", "14.3", "10.0", "5.9", "10.0"];
        assert_eq!(readings("tlsf"), [&["tlsf", "fit", "P1"], &expected[..]].concat());
        let expected = ["83.4", "50.0", "13.4", "0.0", "120.2", "50.0", "52.7", "50.0"];
        assert_eq!(readings("literal"), [&["literal", "P1"], &expected[..]].concat());
        assert_eq!(line(&text, "Duration of", "tlsf"), ["tlsf", "1.00", "s", "5.0", "min"]);
        assert!(text.contains("tlsf, P1, fit, 1 sets from 2 on: SIGSEGV in operation 7."), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn figures_without_figures_are_drawn_all_the_same() {
        let files = chapter(&made_up()).expect("drawn").files();
        assert_eq!(
            files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["figure-6.svg", "figure-7.svg", "figure-8.svg"]
        );
    }
}

//! The experiments of the TLSF paper for the terminal, and its figures as SVG.

mod figures;

pub use figures::figures;

use super::claims::claims;
use super::compact_fit::table;
use super::number;
use super::table::Look;
use super::verdict::wrapped;
use crate::published::{Both, Four, TLSF, Tlsf as Paper};
use crate::result::schema::Distribution;
use crate::result::tlsf::{Cell, Costs, Found, Kind, Pool, Profile, Seen, Settings, Tlsf, Unit, Worst};
use crate::workload::Holding;
use std::fmt::Write as _;

/// The paper's task sets of each profile and mallocs of each.
const CAMPAIGN: (u64, u64) = (100, 1_000_000);

/// Everything for the terminal.
#[must_use]
pub fn tables(found: &Tlsf, look: Look) -> String {
    let Settings { sets, few_sets, mallocs, holding, .. } = found.settings;
    let pool_bytes = number::bytes(found.settings.pool_bytes);
    let mut text = format!("TLSF 2008, section 6.1: instructions in worst-case scenarios, in a pool of {pool_bytes}\n");
    text.push_str(&worst(found, look));
    let _ = writeln!(text, "\nFigure 6: instructions of TLSF's operations by what they do, under a random load");
    text.push_str(&bands(found, look));
    let each = format!(
        "{} of {} mallocs a profile, holding time {}",
        number::counted(sets, "task set"),
        number::grouped(mallocs),
        holding.describe()
    );
    let _ = writeln!(
        text,
        "\nTable IV: cycles, the least of {} replicas; {} of {} mallocs a profile; maxima are noise",
        found.settings.replicas,
        number::counted(few_sets, "task set"),
        number::grouped(mallocs)
    );
    text.push_str(&of_costs(found, &TLSF.table_4, |pool| pool.ticks.as_ref(), look));
    let _ = writeln!(text, "\n{}", wrapped(&format!("Table V: instructions; {each}"), look.columns, 0));
    text.push_str(&of_costs(found, &TLSF.table_5, |pool| Some(&pool.instructions), look));
    let _ = writeln!(text, "\n{}", wrapped(&format!("Table VI: F in %; {each}"), look.columns, 0));
    text.push_str(&fragmentation(found, look));
    let _ = writeln!(
        text,
        "\nMean F in % by reading of the holding time; {} under those that are only compared",
        number::counted(few_sets, "task set")
    );
    text.push_str(&readings(found, look));
    let _ = writeln!(text, "\nTime to count a million mallocs with their frees, and the whole of tables V and VI");
    text.push_str(&times(found, look));
    text.push_str(&claims(&found.claims, &notes(found), look));
    text
}

/// The reading's pools of an allocator, in the order of profiles.
fn pools<'a>(found: &'a Tlsf, subject: &'a str, holding: Holding) -> impl Iterator<Item = &'a Pool> {
    found.pools.iter().filter(move |pool| pool.subject == subject && pool.holding == holding)
}

fn dash(value: Option<u64>) -> String {
    value.map_or_else(|| "-".into(), number::grouped)
}

const WORST: [&str; 11] = [
    "\nallocator",
    "malloc\npaper",
    "\nscenario",
    "\nharder",
    "\nobserved",
    "\nbound",
    "free\npaper",
    "\nscenario",
    "\nharder",
    "\nobserved",
    "\nbound",
];

fn worst(found: &Tlsf, look: Look) -> String {
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
            texts.push(if subject == "tlsf" { published.to_string() } else { String::new() });
            texts.extend([largest(true), largest(false), observed, worst.and_then(|worst| worst.bound)].map(dash));
        }
        texts
    });
    table(&WORST, 1, rows, look)
}

fn seen(cells: &[Cell]) -> &[Seen] {
    let seen = cells.iter().find_map(|cell| match &cell.found {
        Ok(Found::Bands(seen)) => Some(seen.as_slice()),
        _ => None,
    });
    seen.unwrap_or_default()
}

fn bands(found: &Tlsf, look: Look) -> String {
    /// Bands that are told by their values.
    const TOLD: usize = 2;
    let all = seen(&found.cells);
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        for small in [true, false] {
            let own = || all.iter().filter(|seen| seen.kind == kind && seen.small == small);
            let mut counts: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
            own().for_each(|seen| *counts.entry(seen.instructions).or_default() += 1);
            let mut most: Vec<(u64, u64)> = counts.iter().map(|(value, count)| (*value, *count)).collect();
            most.sort_by_key(|(value, count)| (std::cmp::Reverse(*count), *value));
            let told: Vec<String> = most.iter().take(TOLD).map(|(value, count)| format!("{value} ({count})")).collect();
            let more = if most.len() > TOLD { ", ..." } else { "" };
            let range = |least: Option<u64>, most: Option<u64>| match least.zip(most) {
                Some((least, most)) if least == most => least.to_string(),
                Some((least, most)) => format!("{least} to {most}"),
                None => "-".into(),
            };
            let published = TLSF.figure_6.malloc.iter().chain(&TLSF.figure_6.free).find(|band| band.kind == kind);
            // The paper has bands of exact reuse for small requests, and does not tell sizes of frees apart.
            let published = published.filter(|_| small || !kind.is_malloc());
            rows.push(vec![
                format!("{}, {}", if kind.is_malloc() { "malloc" } else { "free" }, kind.name()),
                if small { "< 128 B".into() } else { "from 128 B".into() },
                published.map_or_else(String::new, |band| range(Some(band.range[0]), Some(band.range[1]))),
                range(counts.keys().next().copied(), counts.keys().last().copied()),
                number::grouped(own().count() as u64),
                format!("{}{more}", told.join(", ")),
            ]);
        }
    }
    table(&["operation", "request", "paper", "ours", "operations", "most often (so often)"], 2, rows.into_iter(), look)
}

const COSTS: [&str; 13] = [
    "\nallocator",
    "\n",
    "mean\npaper",
    "\nours",
    "\nratio",
    "deviation\npaper",
    "\nours",
    "most\npaper",
    "\nours",
    "least\npaper",
    "\nours",
    "\np99",
    "\np99.9",
];

fn of_costs(
    found: &Tlsf,
    published: &Both<std::collections::BTreeMap<String, [Four; 3]>>,
    costs: fn(&Pool) -> Option<&Costs>,
    look: Look,
) -> String {
    let mut text = String::new();
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
        let mut headings = COSTS;
        headings[0] = if operation == "malloc" { "malloc\nallocator" } else { "free\nallocator" };
        text.push_str(&table(&headings, 2, rows.into_iter(), look));
    }
    text
}

fn of_distribution(name: String, profile: Profile, paper: Option<Four>, ours: &Distribution) -> Vec<String> {
    let published = |place: usize| paper.map_or_else(String::new, |four| format!("{:.0}", four[place]));
    let own = |value: String| if ours.count == 0 { "-".into() } else { value };
    vec![
        name,
        profile.name().into(),
        published(0),
        own(format!("{:.1}", ours.mean)),
        own(paper.map_or_else(String::new, |four| format!("{:.2}", ours.mean / four[0]))),
        published(1),
        own(format!("{:.1}", ours.std)),
        published(2),
        own(number::grouped(ours.max)),
        published(3),
        own(number::grouped(ours.min)),
        own(number::grouped(ours.p99)),
        own(number::grouped(ours.p999)),
    ]
}

const FRAGMENTATION: [&str; 15] = [
    "\nallocator",
    "\n",
    "mean\npaper",
    "\nours",
    "\nratio",
    "dev.\npaper",
    "\nours",
    "most\npaper",
    "\nours",
    "least\npaper",
    "\nours",
    "J & W\n1",
    "\n2",
    "\n3",
    "\nrefused",
];

fn fragmentation(found: &Tlsf, look: Look) -> String {
    let mut rows = Vec::new();
    for subject in &found.settings.subjects {
        let mut name = subject.clone();
        for pool in pools(found, subject, found.settings.holding) {
            let paper = Paper::name_of(subject).map(|known| TLSF.table_6[known][pool.profile as usize]);
            let [first, second, third, ours] = &pool.fragmentation;
            let percent = |value: f64| if pool.sets == 0 { "-".into() } else { number::mean(100.0 * value) };
            let mut texts = vec![std::mem::take(&mut name), pool.profile.name().into()];
            for (place, own) in ours.iter().enumerate() {
                texts.push(paper.map_or_else(String::new, |four| format!("{:.1}", four[place])));
                texts.push(percent(*own));
                if place == 0 {
                    texts.push(paper.map_or_else(String::new, |four| format!("{:.2}", 100.0 * own / four[0])));
                }
            }
            texts.extend([first, second, third].map(|four| percent(four[0])));
            texts.push(if pool.refused == 0 { String::new() } else { number::grouped(pool.refused) });
            rows.push(texts);
        }
    }
    table(&FRAGMENTATION, 2, rows.into_iter(), look)
}

fn readings(found: &Tlsf, look: Look) -> String {
    let readings: Vec<Holding> =
        std::iter::once(found.settings.holding).chain(found.settings.others.iter().copied()).collect();
    let mut headings = vec!["\nallocator".to_string(), "paper\nP1".into(), "\nP2".into(), "\nP3".into()];
    for reading in &readings {
        headings.extend([format!("{}\nP1", reading.name()), "\nP2".into(), "\nP3".into()]);
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let rows = found.settings.subjects.iter().filter_map(|subject| {
        let published = TLSF.table_6[Paper::name_of(subject)?];
        let mut texts = vec![subject.clone()];
        texts.extend(published.map(|four| format!("{:.1}", four[0])));
        for reading in &readings {
            let own = pools(found, subject, *reading).map(|pool| {
                let mark = if pool.refused > 0 { "*" } else { "" };
                format!("{:.1}{mark}", 100.0 * pool.fragmentation[3][0])
            });
            texts.extend(own);
        }
        Some(texts)
    });
    table(&headings, 1, rows, look)
}

fn times(found: &Tlsf, look: Look) -> String {
    let rows = found.settings.subjects.iter().map(|subject| {
        let own = || pools(found, subject, found.settings.holding);
        let (seconds, mallocs) =
            own().fold((0.0, 0), |(seconds, mallocs), pool| (seconds + pool.seconds, mallocs + pool.mallocs));
        let million = 1e6 * seconds / mallocs as f64;
        let campaign = CAMPAIGN.0 as f64 * CAMPAIGN.1 as f64 * Profile::ALL.len() as f64 / 1e6 * million;
        let told = |text: String| if mallocs == 0 { "-".into() } else { text };
        vec![subject.clone(), told(format!("{million:.2} s")), told(format!("{:.1} min", campaign / 60.0))]
    });
    table(&["allocator", "10^6 mallocs", "3 profiles x 100 sets x 10^6"], 1, rows, look)
}

fn notes(found: &Tlsf) -> Vec<String> {
    let mut notes = vec![
        "paper: a Celeron of 1.6 GHz, 32 bits, GCC 3.4.6 -O2; TLSF 2.2 with J = 5, DLmalloc 2.8.3. ours: dlmalloc is that of the Rust \
         standard library, 2.8.6, on 64 bits. Instructions are those of an operation from its first to its return, as compiled \
         here: what is compared between papers is order and spread, not numbers."
            .into(),
        "scenario: the papers' recipe. harder: ours, found from the bound. observed: the most of table V. bound: static, in a heap of 16 \
         MiB; -: none, or a search. None stands for another."
            .into(),
        "Cycles: lfence; rdtsc; lfence on both sides, less the empty pair, the least of identical replicas, as the paper votes. A virtual or \
         shared machine disturbs all replicas alike now and then: a maximum says how the machine was, a quantile how the allocator \
         is. The counter's ticks are not the processor's cycles."
            .into(),
        "F: the most used over the most live, less 1, for each task set; mean, deviation, most, least over sets. J & W: variants 1 to 3 of \
         Johnstone and Wilson: mean over time; when most is live; when most is used. Used is all up to the highest \
         address: who serves from the heap's end, or goes around it, uses nearly all of it. *: requests were refused, so that F is of \
         what was served."
            .into(),
        "The paper's holding time has no unit. fit, U[300, 500] ticks, is the reading under which F of TLSF and of binary buddy came \
         out as published with original implementations; literal, U[30, 50] ticks; periods, 10 to 20 of the task's own. g and N_r are drawn once for \
         each task, phases at random, sizes Normal(g/N_r, 10 %), non-positive ones again."
            .into(),
    ];
    for cell in &found.cells {
        if let Err(what) = &cell.found {
            notes.push(format!("{}: {what}.", told(&cell.unit)));
        }
    }
    notes
}

/// A unit in words.
fn told(unit: &Unit) -> String {
    match unit {
        Unit::Run(load) => format!("{}, {}, set {}", load.subject, load.profile.name(), load.set),
        Unit::Time { load, .. } => format!("{}, {}, set {}, timed", load.subject, load.profile.name(), load.set),
        Unit::Course(load) => format!("{}, figure 9", load.subject),
        Unit::Bands { subject, .. } => format!("{subject}, figure 6"),
        Unit::Worst { subject } => format!("{subject}, worst cases"),
        Unit::Internal { subject } => format!("{subject}, what blocks lose"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tlsf::{claims, pools};
    use crate::result::tlsf::{Load, Run, Scenario, Space, Variants};

    /// Half-fit and TLSF in one profile; one set failed.
    fn made_up() -> Tlsf {
        let settings = Settings {
            sets: 2,
            few_sets: 1,
            mallocs: 1000,
            holding: Holding::Fit,
            others: vec![Holding::Literal],
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
                Ok(Found::Run(Run { instructions: costs(), space, refused: place }))
            };
            let scenario = Scenario { name: "one".into(), paper: true, instructions: 160 };
            let worst = Worst { operation: "malloc".into(), scenarios: vec![scenario], bound: Some(1600) };
            let mut cell = |unit, found| cells.push(Cell { unit, found, seconds: 0.001 });
            cell(Unit::Worst { subject: subject.clone() }, Ok(Found::Worst(vec![worst])));
            cell(Unit::Run(load(1, Holding::Fit)), run(0.1));
            cell(Unit::Run(load(2, Holding::Fit)), Err("SIGSEGV in operation 7".into()));
            cell(Unit::Run(load(1, Holding::Literal)), run(0.5));
            cell(Unit::Time { load: load(1, Holding::Fit), replicas: 3 }, Ok(Found::Time(costs())));
        }
        let pools = pools(&cells);
        let claims = claims(&settings, &cells, &pools);
        Tlsf { settings, cells, sizes: Vec::new(), pools, claims }
    }

    fn line(text: &str, table: &str, name: &str) -> Vec<String> {
        let (_, below) = text.split_once(table).unwrap_or_else(|| panic!("{table}: {text}"));
        let line = below.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {below}"));
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn published_and_own_figures_stand_side_by_side() {
        let text = tables(&made_up(), Look { columns: 120, colour: false });
        assert_eq!(
            line(&text, "section 6.1", "tlsf"),
            ["tlsf", "160", "160", "-", "101", "1,600", "176", "-", "-", "119", "-"]
        );
        assert_eq!(
            line(&text, "Table V:", "tlsf"),
            ["tlsf", "P1", "138", "101.0", "0.73", "13", "0.0", "151", "101", "102", "101", "101", "101"]
        );
        assert_eq!(
            line(&text, "Table VI:", "half-fit"),
            "half-fit P1 83.4 10.0 0.12 13.4 0.0 120.2 10.0 52.7 10.0 40.0 20.0 30.0".split(' ').collect::<Vec<_>>()
        );
        let readings = line(&text, "by reading", "tlsf");
        assert_eq!(readings, ["tlsf", "9.9", "9.7", "9.6", "10.0*", "50.0*"]);
        assert_eq!(line(&text, "Time to count", "tlsf"), ["tlsf", "1.00", "s", "5.0", "min"]);
        assert!(text.contains("tlsf, P1, set 2: SIGSEGV in operation 7."), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn figures_without_figures_are_drawn_all_the_same() {
        let files = figures(&made_up()).expect("drawn");
        assert_eq!(
            files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["figure-6.svg", "figure-7.svg", "figure-8.svg"]
        );
    }
}

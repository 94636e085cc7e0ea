//! `rtalloc reproduce` from the outside.

use assert_cmd::Command;
use rtalloc_lab::result::thesis::Thesis;
use rtalloc_lab::result::tlsf::{Found, Profile, Tlsf, Unit};
use rtalloc_lab::result::wait_free::{Case, WaitFree};

fn reproduce(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtalloc"));
    let output = command.env("COLUMNS", "120").arg("reproduce").args(arguments).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).expect("text")
}

#[test]
fn the_thesis_tables_stand_beside_ours() {
    let json = reproduce(&["thesis", "--seeds", "1", "--json"]);
    let thesis: Thesis = serde_json::from_str(&json).expect("both tables");
    assert_eq!(thesis.heap_bytes, 3 << 20);
    assert_eq!(
        thesis.tables.iter().map(|table| (table.number, table.rows.len())).collect::<Vec<_>>(),
        [(7, 7), (8, 7)]
    );
    for table in &thesis.tables {
        assert!(table.prefix_operations > 10_000 && table.prefix_operations <= table.operations);
        for row in &table.rows {
            let ours = row.ours.as_ref().unwrap_or_else(|what| panic!("{}: {what}", row.subject));
            for figures in [&ours.cut, &ours.prefix] {
                assert!(figures.live_bytes > 100_000.0 && figures.high_water_bytes <= (3 << 20) as f64, "{row:?}");
                assert!(figures.fragmentation > 0.0 && (0.0..=1.0).contains(&figures.overhead), "{row:?}");
            }
            assert!(ours.prefix.live_bytes <= ours.cut.live_bytes);
        }
        // Everybody has served the same.
        let prefix = |place: usize| table.rows[place].ours.as_ref().map(|ours| ours.prefix.live_bytes);
        assert!((1..table.rows.len()).all(|place| prefix(place) == prefix(0)));
    }
}

#[test]
fn the_tables_fit_the_terminal() {
    let text = reproduce(&["thesis", "--seeds", "1", "--heap", "1M"]);
    assert!(text.contains("table 7: uniform") && text.contains("table 8: small"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// A small heap and few repetitions of everything, on ours, one under a lock, and the system's.
#[test]
fn threads_share_heaps_in_every_part_of_the_wait_free_experiment() {
    let folder = tempfile::tempdir().expect("a folder");
    let plots = folder.path().join("plots").display().to_string();
    let csv = folder.path().join("cases.csv");
    let report = folder.path().join("report.html");
    let json = reproduce(&[
        "wait-free",
        "--quick",
        "--on",
        "arenas,tlsf-mutex,system",
        "--threads",
        "1,2",
        "--heap",
        "4M",
        "--pairs",
        "300",
        "--seconds",
        "60",
        "--repeat",
        "2",
        "--frees",
        "20000",
        "--report",
        &report.display().to_string(),
        "--plots",
        &plots,
        "--csv",
        &csv.display().to_string(),
        "--json",
    ]);
    let found: WaitFree = serde_json::from_str(&json).expect("everything");
    assert_eq!(found.cells.len(), 3 * 2 * Case::ALL.len());
    for cell in &found.cells {
        let figures = cell.outcome.as_ref().unwrap_or_else(|what| panic!("{} {:?}: {what}", cell.subject, cell.case));
        let counted: u64 = figures.ticks.histogram.iter().map(|(_, operations)| operations).sum();
        assert!(figures.ticks.count > 0 && counted == figures.ticks.count && !figures.unfinished, "{cell:?}");
        if cell.case == Case::II {
            assert_eq!(figures.ticks.count, 300 * u64::from(cell.threads));
        }
    }
    let rows: Vec<_> = found.steps.iter().flat_map(|stepped| stepped.rows.as_ref().expect("counted")).collect();
    assert!(rows.len() >= 5 && rows.iter().all(|row| row.within() != Some(false)), "{rows:?}");
    let local = found.local.as_ref().expect("wanted").as_ref().expect("measured");
    assert!(local.loads.iter().all(|load| load.ratio[1] > 0.0));
    assert_eq!((found.scaling.len(), found.drift.len()), (4, 3));
    assert!(found.drift.iter().all(|drift| drift.outcome.as_ref().is_ok_and(|memory| memory.points.len() == 200)));
    assert_eq!(std::fs::read_to_string(&csv).expect("written").lines().count(), 1 + found.cells.len());
    for name in ["case-I.svg", "case-II.svg", "case-III.svg", "case-IV.svg", "scaling.svg", "memory.svg"] {
        let figure = std::fs::read_to_string(folder.path().join("plots").join(name)).expect(name);
        assert!(figure.starts_with("<svg") && figure.contains("arenas"), "{name}");
    }
    let page = std::fs::read_to_string(&report).expect("written");
    assert_eq!(page.matches("<svg ").count(), 6, "four cases, throughput, memory");
    assert!(page.contains("paper: ") && page.contains("What we want of ours") && page.contains("arenas"));
}

/// One small task set of each profile.
#[test]
fn the_tlsf_papers_tables_and_figures_are_the_same_every_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let plots = folder.path().join("plots").display().to_string();
    let [first, second] = [(); 2].map(|()| -> Tlsf {
        let words = ["tlsf", "--sets", "1", "--mallocs", "3000", "--on", "first-fit", "--plots", &plots, "--json"];
        serde_json::from_str(&reproduce(&words)).expect("everything")
    });
    assert_eq!(first.settings.subjects, ["binary-buddy", "dlmalloc", "half-fit", "tlsf", "first-fit"]);
    for (cell, again) in first.cells.iter().zip(&second.cells) {
        let found = cell.found.as_ref().unwrap_or_else(|what| panic!("{:?}: {what}", cell.unit));
        assert_eq!(cell.unit, again.unit);
        if let Unit::Time { .. } = cell.unit {
            continue;
        }
        let json = |found: &Found| serde_json::to_string(found).expect("JSON");
        assert_eq!(json(found), json(again.found.as_ref().expect("as before")), "{:?}", cell.unit);
        if let Found::Run(run) = found {
            assert_eq!((run.instructions.malloc.count + run.refused, run.space.peak_live_bytes > 0), (3000, true));
            assert!(run.space.high_water_bytes <= first.settings.pool_bytes);
        }
    }
    // Live memory does not depend on the allocator.
    let live = |subject: &str, profile: Profile| {
        first.cells.iter().find_map(|cell| match (&cell.unit, &cell.found) {
            (Unit::Run(load), Ok(Found::Run(run))) if load.subject == subject && load.profile == profile => {
                Some(run.space.peak_live_bytes)
            }
            _ => None,
        })
    };
    for profile in Profile::ALL {
        assert!(live("tlsf", profile).is_some() && live("tlsf", profile) == live("first-fit", profile));
    }
    // Every claim that the experiment makes has a figure, except those on table VI.
    for claim in first.claims.iter().filter(|claim| !claim.claim.starts_with("table VI")) {
        assert!(claim.confirmed.is_some(), "{claim:?}");
    }
    for figure in ["figure-6.svg", "figure-7.svg", "figure-8.svg", "figure-9.svg"] {
        let figure = std::fs::read_to_string(folder.path().join("plots").join(figure)).expect(figure);
        assert!(figure.starts_with("<svg ") && figure.ends_with("</svg>\n"), "{figure:.60}");
    }
}

#[test]
fn the_tlsf_papers_tables_fit_the_terminal() {
    let text = reproduce(&["tlsf", "--sets", "1", "--mallocs", "1000", "--on", "first-fit"]);
    for table in ["section 6.1", "Figure 6", "Table IV", "Table V", "Table VI", "reading of the holding time"] {
        assert!(text.contains(table), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

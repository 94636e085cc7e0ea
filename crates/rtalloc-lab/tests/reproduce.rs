//! `rtalloc reproduce` from the outside.

use assert_cmd::Command;
use rtalloc_lab::result::thesis::Thesis;
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

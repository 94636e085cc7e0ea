//! `rtalloc reproduce` from the outside.

use super::{RTALLOC, rtalloc};
use rtalloc_cli::papers::thesis::result::{Costs, Thesis};
use rtalloc_cli::papers::tlsf::result::{Found, Profile, Tlsf, Unit};
use rtalloc_cli::papers::wait_free::result::{Case, WaitFree};
use rtalloc_lab::campaign::store::Store;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn reproduce(arguments: &[&str]) -> String {
    let mut command = rtalloc();
    let output = command.env("COLUMNS", "120").arg("reproduce").args(arguments).assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).expect("text");
    if arguments.last() == Some(&"--json") {
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(document["schema"]["name"], format!("rtalloc-reproduce-{}", arguments[0]));
    }
    text
}

/// Two replicas of a trace each, in a small heap, so that every allocator fails somewhere.
#[test]
fn the_thesis_is_reproduced_in_every_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let plots = folder.path().join("plots");
    let store = folder.path().join("thesis.db").display().to_string();
    let words = ["thesis", "--seeds", "1", "--replicas", "2", "--heap", "1M", "--store", &store];
    let json = reproduce(&[&words[..], &["--plots", &plots.display().to_string(), "--json"]].concat());
    let thesis: Thesis = serde_json::from_str(&json).expect("everything");
    assert_eq!((thesis.settings.heap_bytes, thesis.names.len(), thesis.traces.len()), (1 << 20, 11, 6));
    for trace in &thesis.traces {
        let name = trace.load.name();
        assert!(trace.prefix_operations > 1000 && trace.prefix_operations <= trace.facts.operations, "{name}");
        assert_eq!(trace.facts.classes.iter().sum::<u64>(), trace.facts.mallocs, "{name}");
        for row in &trace.rows {
            let ours = row.ours.as_ref().unwrap_or_else(|what| panic!("{name}, {}: {what}", row.name));
            for figures in [&ours.cut, &ours.prefix] {
                assert!(figures.live_bytes > 5000.0 && figures.high_water_bytes <= (1 << 20) as f64, "{name}, {row:?}");
                assert!(figures.fragmentation.mean > 0.0 && figures.overhead.mean > 0.0, "{name}, {row:?}");
            }
            // Everybody has served the same.
            assert_eq!(Some(ours.prefix.live_bytes), trace.of("tlsf").map(|tlsf| tlsf.prefix.live_bytes), "{name}");
            assert!(ours.prefix.live_bytes <= ours.cut.live_bytes, "{name}, {}", row.name);
            let ticks = row.ticks.as_ref().expect("timed").as_ref().unwrap_or_else(|what| panic!("{name}: {what}"));
            for (_, of) in Costs::SIDES {
                assert_eq!(of(ticks).count, of(&ours.instructions).count, "{name}, {}", row.name);
            }
            assert_eq!(ours.timeline.is_empty(), !trace.load.part.is_recorded(), "{name}, {}", row.name);
        }
    }
    // Every claim has its figures.
    for claim in &thesis.claims {
        assert!(claim.verdict.holds().is_some() || !claim.reason.contains("missing"), "{claim:?}");
    }
    let files = std::fs::read_dir(&plots).expect("a folder").map(|entry| entry.expect("an entry").path());
    let figures: Vec<String> = files.map(|path| std::fs::read_to_string(path).expect("a figure")).collect();
    // Classes, live memory; ticks of the four recorded traces, instructions of all six; used memory, overhead and waste
    // of the four.
    assert_eq!(figures.len(), 2 + 4 + 6 + 12);
    assert!(figures.iter().all(|figure| figure.starts_with("<svg ") && figure.ends_with("</svg>\n")));
    // The tables, from the same results.
    let text = reproduce(&words);
    for section in ["Section 6.1", "Table 3", "Table 4", "Table 5", "Table 6", "Table 7", "Table 8", "first operations"]
    {
        assert!(text.contains(section), "{section}: {text}");
    }
    let wide = text.lines().find(|line| line.chars().count() > 120);
    assert!(wide.is_none(), "{wide:?}");
    // Without times, from the same results.
    let untimed = words.map(|word| if word == "2" { "0" } else { word });
    assert!(reproduce(&untimed).contains("not timed"));
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
        "pooled-arenas,tlsf-mutex,system",
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
        assert!(figure.starts_with("<svg") && figure.contains("pooled-arenas"), "{name}");
    }
    let page = std::fs::read_to_string(&report).expect("written");
    assert_eq!(page.matches("<svg ").count(), 6, "four cases, throughput, memory");
    assert!(page.contains("paper: ") && page.contains("Goals for our allocators") && page.contains("pooled-arenas"));
}

/// One small task set of each profile.
#[test]
fn the_tlsf_papers_tables_and_figures_are_the_same_every_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let plots = folder.path().join("plots").display().to_string();
    let store = folder.path().join("tlsf.db").display().to_string();
    let words = ["tlsf", "--sets", "1", "--mallocs", "3000", "--on", "first-fit"];
    let figures = |further: &[&str]| -> Tlsf {
        serde_json::from_str(&reproduce(&[&words, further, &["--json"]].concat())).expect("everything")
    };
    let (first, second) = (figures(&["--store", &store, "--plots", &plots]), figures(&[]));
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
            let [set] = run.each.as_slice() else { panic!("{run:?}") };
            assert_eq!((run.instructions.malloc.count + set.refused, set.space.peak_live_bytes > 0), (3000, true));
            assert!(set.space.high_water_bytes <= first.settings.pool_bytes);
        }
    }
    // Live memory does not depend on the allocator.
    let live = |subject: &str, profile: Profile| {
        first.cells.iter().find_map(|cell| match (&cell.unit, &cell.found) {
            (Unit::Run { load, .. }, Ok(Found::Run(run))) if load.subject == subject && load.profile == profile => {
                Some(run.each[0].space.peak_live_bytes)
            }
            _ => None,
        })
    };
    for profile in Profile::ALL {
        assert!(live("tlsf", profile).is_some() && live("tlsf", profile) == live("first-fit", profile));
    }
    // Every claim has figures; what one task set does not decide says so.
    for claim in &first.claims {
        assert!(!claim.figures.contains("- ours") && !claim.figures.contains("ours -"), "{claim:?}");
        assert!(claim.verdict.holds().is_some() || !claim.reason.contains("missing"), "{claim:?}");
    }
    for figure in ["figure-6.svg", "figure-7.svg", "figure-8.svg", "figure-9.svg"] {
        let figure = std::fs::read_to_string(folder.path().join("plots").join(figure)).expect(figure);
        assert!(figure.starts_with("<svg ") && figure.ends_with("</svg>\n"), "{figure:.60}");
    }
    // The tables, from the same results.
    let text = reproduce(&[&words[..], &["--store", &store]].concat());
    for table in ["Section 6.1", "Figure 6", "Table IV", "Table V", "Table VI", "Readings of the holding time"] {
        assert!(text.contains(table), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn adversaries_have_verdicts_tables_and_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let plots = folder.path().join("plots");
    let plots = plots.to_str().expect("a path");
    let on = "first-fit-address,best-fit,tlsf,binary-buddy,simple-segregated,compact-fit";
    let text = reproduce(&["robson", "--m", "64", "--n", "16", "--on", on, "--plots", plots]);
    for words in [
        "lower bound",
        "Memory needed / M by adversary",
        "In bytes",
        "Guaranteed heap sizes",
        "confirmed: ",
        "METHODOLOGY.md",
    ] {
        assert!(text.to_lowercase().contains(&words.to_lowercase()), "{words}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    for figure in ["powers.svg", "worst.svg"] {
        let figure = std::fs::read_to_string(Path::new(plots).join(figure)).expect(figure);
        assert!(figure.starts_with("<svg ") && figure.contains("best-fit"), "{figure:.60}");
    }
    let again = |_: usize| reproduce(&["robson", "--m", "64", "--n", "8", "--on", on, "--json"]);
    assert_eq!(again(1), again(2), "bit for bit");
}

/// A campaign of many short tasks with the same results every time.
fn robson(store: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(RTALLOC);
    command.args(["reproduce", "robson", "--m", "64", "--n", "8", "--store"]).arg(store);
    command
}

#[test]
fn a_killed_campaign_is_resumed_and_its_store_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let (killed, whole) = (folder.path().join("killed.db"), folder.path().join("whole.db"));
    let mut process = robson(&killed).stdout(Stdio::null()).spawn().expect("started");
    let results = |path: &Path| Store::read(path).and_then(|store| store.all()).unwrap_or_default();
    let mut before = Vec::new();
    while before.len() < 2 {
        before = results(&killed);
        assert!(process.try_wait().expect("waited").is_none() || before.len() >= 2, "it ended by itself too early");
        std::thread::sleep(Duration::from_millis(1));
    }
    process.kill().expect("killed");
    process.wait().expect("waited");
    let kept = results(&killed).len();
    // The last line says when it was measured, to the minute.
    let text = |store: &Path| {
        let text = String::from_utf8(robson(store).output().expect("performed").stdout).expect("text");
        let (figures, measured) = text.rsplit_once("Measured ").expect("when it was measured");
        assert!(measured.contains("by rtalloc"), "{measured}");
        figures.to_owned()
    };
    assert_eq!(text(&killed), text(&whole), "as if nothing had happened");
    let (after, uninterrupted) = (results(&killed), results(&whole));
    let all = uninterrupted.len();
    assert_eq!(after.len(), all);
    assert!(kept < all, "it was killed too late for this test to find anything");
    for (one, other) in after.iter().zip(&uninterrupted) {
        assert_eq!((&one.key, &one.result), (&other.key, &other.result), "bit for bit");
    }
    for kept in &before {
        let again = after.iter().find(|other| other.key == kept.key).expect("kept");
        assert_eq!(
            (kept.finished_unix, kept.environment.unix_time),
            (again.finished_unix, again.environment.unix_time)
        );
    }
    // Its store, merged and exported.
    let file = |name: &str| folder.path().join(name);
    let rtalloc = |arguments: &[&str]| rtalloc().current_dir(folder.path()).args(arguments).assert();
    rtalloc(&["merge", "all.db", "whole.db", "whole.db"]).success().stdout(format!(
        "whole.db: {all} results added, 0 already known\nwhole.db: 0 results added, {all} already known\n"
    ));
    let json = rtalloc(&["export", "all.db", "--json"]).success().get_output().stdout.clone();
    let exported: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(exported["results"].as_array().map(Vec::len), Some(all));
    let compared = rtalloc(&["compare", "whole.db", "all.db"]).success().get_output().stdout.clone();
    let compared = String::from_utf8_lossy(&compared).into_owned();
    let row: Vec<&str> =
        compared.lines().find(|line| line.starts_with("robson")).expect("a row").split_whitespace().collect();
    assert_eq!((row.first(), row.last()), (Some(&"robson"), Some(&"no")), "{compared}");
    rtalloc(&["compare", "whole.db", "none.db"]).failure();
    rtalloc(&["compare", "whole.db", "all.db", "--json", "x.json"]).failure();
    std::fs::write(file("text.db"), "not a store, but a file of some length").expect("written");
    let refused = rtalloc(&["merge", "all.db", "text.db"]).failure().get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&refused).contains("text.db: "), "{}", String::from_utf8_lossy(&refused));
    rtalloc(&["reproduce", "all", "--quick", "--shard", "1/2"]).failure();
    rtalloc(&["reproduce", "all", "--quick", "--shard", "3/2", "--store", "x.db"]).failure();
}
